//! The engine that does nothing, to measure the harness by.

use fsage_core::{
    Access, Attr, Clock, DirEntry, Errno, FileId, FileSystem, FileType, Handle, OpenFlags,
    Platform, SetAttr, StatFs,
};
use rustix::time::{ClockId, clock_gettime};

/// A target on which every call succeeds at once: reads fill nothing, writes go nowhere, every name
/// is there. Its clock is the machine's.
#[derive(Debug, Clone, Copy, Default)]
pub struct NullFs;

const ATTR: Attr = Attr {
    id: FileId {
        dev: fsage_core::DevId(0),
        ino: 1,
        generation: 0,
    },
    file_type: FileType::Regular,
    size_bytes: 0,
    allocated_bytes: 0,
    links: 1,
    mode: 0o644,
};

impl Clock for NullFs {
    fn now_ns(&self) -> u64 {
        let now = clock_gettime(ClockId::Monotonic);
        (now.tv_sec as u64)
            .wrapping_mul(1_000_000_000)
            .wrapping_add(now.tv_nsec as u64)
    }
}

impl Platform for NullFs {
    fn evict(&self, _: Handle) -> Result<(), Errno> {
        Ok(())
    }
}

impl FileSystem for NullFs {
    fn name(&self) -> String {
        "null".to_owned()
    }
    fn clock(&self) -> &dyn Clock {
        self
    }
    fn open(&self, _: &[u8], _: OpenFlags, _: u32) -> Result<Handle, Errno> {
        Ok(Handle(0))
    }
    fn close(&self, _: Handle) -> Result<(), Errno> {
        Ok(())
    }
    fn read(&self, _: Handle, buf: &mut [u8]) -> Result<usize, Errno> {
        Ok(buf.len())
    }
    fn write(&self, _: Handle, buf: &[u8]) -> Result<usize, Errno> {
        Ok(buf.len())
    }
    fn pread(&self, _: Handle, buf: &mut [u8], _: u64) -> Result<usize, Errno> {
        Ok(buf.len())
    }
    fn pwrite(&self, _: Handle, buf: &[u8], _: u64) -> Result<usize, Errno> {
        Ok(buf.len())
    }
    fn seek(&self, _: Handle, offset: u64) -> Result<u64, Errno> {
        Ok(offset)
    }
    fn read_dir(&self, _: Handle) -> Result<Vec<DirEntry>, Errno> {
        Ok(Vec::new())
    }
    fn fsync(&self, _: Handle) -> Result<(), Errno> {
        Ok(())
    }
    fn fdatasync(&self, _: Handle) -> Result<(), Errno> {
        Ok(())
    }
    fn ftruncate(&self, _: Handle, _: u64) -> Result<(), Errno> {
        Ok(())
    }
    fn fallocate(&self, _: Handle, _: u64, _: u64) -> Result<(), Errno> {
        Ok(())
    }
    fn fstat(&self, _: Handle) -> Result<Attr, Errno> {
        Ok(ATTR)
    }
    fn stat(&self, _: &[u8]) -> Result<Attr, Errno> {
        Ok(ATTR)
    }
    fn lstat(&self, _: &[u8]) -> Result<Attr, Errno> {
        Ok(ATTR)
    }
    fn access(&self, _: &[u8], _: Access) -> Result<(), Errno> {
        Ok(())
    }
    fn unlink(&self, _: &[u8]) -> Result<(), Errno> {
        Ok(())
    }
    fn mkdir(&self, _: &[u8], _: u32) -> Result<(), Errno> {
        Ok(())
    }
    fn rmdir(&self, _: &[u8]) -> Result<(), Errno> {
        Ok(())
    }
    fn rename(&self, _: &[u8], _: &[u8]) -> Result<(), Errno> {
        Ok(())
    }
    fn link(&self, _: &[u8], _: &[u8]) -> Result<(), Errno> {
        Ok(())
    }
    fn symlink(&self, _: &[u8], _: &[u8]) -> Result<(), Errno> {
        Ok(())
    }
    fn readlink(&self, _: &[u8]) -> Result<Vec<u8>, Errno> {
        Ok(Vec::new())
    }
    fn truncate(&self, _: &[u8], _: u64) -> Result<(), Errno> {
        Ok(())
    }
    fn set_attr(&self, _: &[u8], _: SetAttr) -> Result<(), Errno> {
        Ok(())
    }
    fn lset_attr(&self, _: &[u8], _: SetAttr) -> Result<(), Errno> {
        Ok(())
    }
    fn statfs(&self) -> Result<StatFs, Errno> {
        Ok(StatFs::default())
    }
    fn sync(&self) -> Result<(), Errno> {
        Ok(())
    }
    fn map_touch(
        &self,
        _: Handle,
        _: u64,
        _: u64,
        _: bool,
        touched: &mut dyn FnMut(u64),
    ) -> Result<(), Errno> {
        touched(0);
        Ok(())
    }
    fn empty_call(&self) {}
    fn platform(&self) -> &dyn Platform {
        self
    }
}
