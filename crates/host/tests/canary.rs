//! The conformance body fails on a file system that is wrong: each fault below is one that a real
//! target could have.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::TRUSTED;
use fsage_core::{
    Access, Attr, Clock, DirEntry, Errno, FileSystem, Handle, OpenFlags, Platform, SetAttr, StatFs,
    conformance,
};
use fsage_host::HostFs;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Fault {
    None,
    ShortWrites,
    PreadMovesNothingBack,
    ExclusiveIgnored,
    RenameKeepsTarget,
    LinksNotCounted,
    StatDoesNotFollow,
    OwnerOfLinkFollows,
    ListsOneLess,
    WrongErrno,
}

struct Faulty(HostFs, Fault);

impl Faulty {
    fn is(&self, fault: Fault) -> bool {
        self.1 == fault
    }
}

impl FileSystem for Faulty {
    fn name(&self) -> String {
        format!("{:?}", self.1)
    }
    fn clock(&self) -> &dyn Clock {
        self.0.clock()
    }
    fn open(&self, path: &[u8], mut flags: OpenFlags, mode: u32) -> Result<Handle, Errno> {
        if self.is(Fault::ExclusiveIgnored) {
            flags.exclusive = false;
        }
        let result = self.0.open(path, flags, mode);
        if self.is(Fault::WrongErrno) {
            result.map_err(|_| Errno::EIO)
        } else {
            result
        }
    }
    fn close(&self, handle: Handle) -> Result<(), Errno> {
        self.0.close(handle)
    }
    fn read(&self, handle: Handle, buf: &mut [u8]) -> Result<usize, Errno> {
        self.0.read(handle, buf)
    }
    fn write(&self, handle: Handle, buf: &[u8]) -> Result<usize, Errno> {
        if self.is(Fault::ShortWrites) {
            return self
                .0
                .write(handle, &buf[..buf.len().min(100)])
                .map(|_| buf.len());
        }
        self.0.write(handle, buf)
    }
    fn pread(&self, handle: Handle, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        if self.is(Fault::PreadMovesNothingBack) {
            self.0.seek(handle, offset)?;
            return self.0.read(handle, buf);
        }
        self.0.pread(handle, buf, offset)
    }
    fn pwrite(&self, handle: Handle, buf: &[u8], offset: u64) -> Result<usize, Errno> {
        self.0.pwrite(handle, buf, offset)
    }
    fn seek(&self, handle: Handle, offset: u64) -> Result<u64, Errno> {
        self.0.seek(handle, offset)
    }
    fn read_dir(&self, handle: Handle) -> Result<Vec<DirEntry>, Errno> {
        let mut entries = self.0.read_dir(handle)?;
        if self.is(Fault::ListsOneLess) && entries.len() > 1000 {
            entries.pop();
        }
        Ok(entries)
    }
    fn fsync(&self, handle: Handle) -> Result<(), Errno> {
        self.0.fsync(handle)
    }
    fn fdatasync(&self, handle: Handle) -> Result<(), Errno> {
        self.0.fdatasync(handle)
    }
    fn ftruncate(&self, handle: Handle, size: u64) -> Result<(), Errno> {
        self.0.ftruncate(handle, size)
    }
    fn fallocate(&self, handle: Handle, offset: u64, length: u64) -> Result<(), Errno> {
        self.0.fallocate(handle, offset, length)
    }
    fn fstat(&self, handle: Handle) -> Result<Attr, Errno> {
        self.0.fstat(handle)
    }
    fn stat(&self, path: &[u8]) -> Result<Attr, Errno> {
        if self.is(Fault::StatDoesNotFollow) {
            return self.0.lstat(path);
        }
        let mut attr = self.0.stat(path)?;
        if self.is(Fault::LinksNotCounted) {
            attr.links = 1;
        }
        Ok(attr)
    }
    fn lstat(&self, path: &[u8]) -> Result<Attr, Errno> {
        self.0.lstat(path)
    }
    fn access(&self, path: &[u8], access: Access) -> Result<(), Errno> {
        self.0.access(path, access)
    }
    fn unlink(&self, path: &[u8]) -> Result<(), Errno> {
        self.0.unlink(path)
    }
    fn mkdir(&self, path: &[u8], mode: u32) -> Result<(), Errno> {
        self.0.mkdir(path, mode)
    }
    fn rmdir(&self, path: &[u8]) -> Result<(), Errno> {
        self.0.rmdir(path)
    }
    fn rename(&self, from: &[u8], to: &[u8]) -> Result<(), Errno> {
        if self.is(Fault::RenameKeepsTarget) && self.0.stat(to).is_ok() && from != to {
            return self.0.unlink(from);
        }
        self.0.rename(from, to)
    }
    fn link(&self, existing: &[u8], new: &[u8]) -> Result<(), Errno> {
        self.0.link(existing, new)
    }
    fn symlink(&self, target: &[u8], new: &[u8]) -> Result<(), Errno> {
        self.0.symlink(target, new)
    }
    fn readlink(&self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        self.0.readlink(path)
    }
    fn truncate(&self, path: &[u8], size: u64) -> Result<(), Errno> {
        self.0.truncate(path, size)
    }
    fn set_attr(&self, path: &[u8], attr: SetAttr) -> Result<(), Errno> {
        self.0.set_attr(path, attr)
    }
    fn lset_attr(&self, path: &[u8], attr: SetAttr) -> Result<(), Errno> {
        if self.is(Fault::OwnerOfLinkFollows) {
            return self.0.set_attr(path, attr);
        }
        self.0.lset_attr(path, attr)
    }
    fn statfs(&self) -> Result<StatFs, Errno> {
        self.0.statfs()
    }
    fn sync(&self) -> Result<(), Errno> {
        Ok(())
    }
    fn map_touch(
        &self,
        handle: Handle,
        offset: u64,
        length: u64,
        write: bool,
        touched: &mut dyn FnMut(u64),
    ) -> Result<(), Errno> {
        self.0.map_touch(handle, offset, length, write, touched)
    }
    fn empty_call(&self) {
        self.0.empty_call();
    }
    fn platform(&self) -> &dyn Platform {
        self.0.platform()
    }
}

#[test]
fn every_fault_is_found() {
    use Fault::*;
    let faults = [
        (ShortWrites, "create_write_read"),
        (PreadMovesNothingBack, "positions"),
        (ExclusiveIgnored, "exclusive_create"),
        (RenameKeepsTarget, "rename"),
        (LinksNotCounted, "hard_links"),
        (StatDoesNotFollow, "symbolic_links"),
        (OwnerOfLinkFollows, "symbolic_links"),
        (ListsOneLess, "listing"),
        (WrongErrno, "exclusive_create"),
    ];
    for (fault, check) in faults {
        let dir = tempfile::tempdir().unwrap();
        let fs = Faulty(HostFs::open(dir.path(), TRUSTED).unwrap(), fault);
        let error = conformance::check(&fs).unwrap_err();
        assert!(error.contains(&format!(": {check}: ")), "{error}");
    }
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(
        conformance::check(&Faulty(HostFs::open(dir.path(), TRUSTED).unwrap(), None)),
        Ok(())
    );
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
