//! A target in virtual time that can be computed by hand: every call takes [`CALL_NS`], a `pread` or an
//! `fsync` also waits for its one device, which serves in the order of asking.
#![allow(dead_code, reason = "each test uses a part of it")]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Mutex;

use fsage_core::{
    Access, Attr, Clock, Demand, DirEntry, Errno, FileSystem, Handle, OpenFlags, Platform, SetAttr,
    StatFs, VirtualTime,
};
use fsage_exec::NullFs;

pub const CALL_NS: u64 = 100;
pub const DEVICE_NS: u64 = 1000;

#[derive(Default)]
struct State {
    now_ns: u64,
    collects: bool,
    demands: Vec<Demand>,
    device: bool,
    asked: u64,
    served_ns: u64,
    free_ns: u64,
    handles: u64,
}

#[derive(Default)]
pub struct Fifo(Mutex<State>);

impl Fifo {
    fn call(&self, device: bool) {
        let mut state = self.0.lock().unwrap();
        state.demands.push(Demand::Compute(CALL_NS));
        if device {
            state.asked += 1;
            let number = state.asked;
            state.demands.push(Demand::Serve(number));
        }
        state.device |= device;
        if !state.collects {
            for demand in std::mem::take(&mut state.demands) {
                let now_ns = state.now_ns;
                state.now_ns = match demand {
                    Demand::Compute(ns) => now_ns + ns,
                    Demand::Serve(_) => serve(&mut state, now_ns),
                };
            }
            state.device = false;
        }
    }

    #[allow(clippy::unnecessary_wraps, reason = "it is what most calls return")]
    fn none<T: Default>(&self) -> Result<T, Errno> {
        self.call(false);
        Ok(T::default())
    }
}

fn serve(state: &mut State, now_ns: u64) -> u64 {
    assert!(now_ns >= state.served_ns, "asked in the order of time");
    state.served_ns = now_ns;
    state.free_ns = state.free_ns.max(now_ns) + DEVICE_NS;
    state.free_ns
}

impl VirtualTime for Fifo {
    fn begin(&self, now_ns: u64) {
        let mut state = self.0.lock().unwrap();
        assert!(now_ns >= state.now_ns, "calls in the order of time");
        state.now_ns = now_ns;
        state.collects = true;
    }
    fn end(&self, demands: &mut Vec<Demand>) -> bool {
        let mut state = self.0.lock().unwrap();
        state.collects = false;
        demands.append(&mut state.demands);
        std::mem::take(&mut state.device)
    }
    fn serve(&self, _: u64, now_ns: u64) -> u64 {
        serve(&mut self.0.lock().unwrap(), now_ns)
    }
    fn rest_until(&self, then_ns: u64) {
        let mut state = self.0.lock().unwrap();
        state.now_ns = state.now_ns.max(then_ns);
    }
}

impl Clock for Fifo {
    fn now_ns(&self) -> u64 {
        self.0.lock().unwrap().now_ns
    }
}

impl Platform for Fifo {
    fn evict(&self, _: Handle) -> Result<(), Errno> {
        Ok(())
    }
}

impl FileSystem for Fifo {
    fn name(&self) -> String {
        "fifo".to_owned()
    }
    fn clock(&self) -> &dyn Clock {
        self
    }
    fn open(&self, path: &[u8], _: OpenFlags, _: u32) -> Result<Handle, Errno> {
        self.call(false);
        if path.starts_with(b"missing") {
            return Err(Errno::ENOENT);
        }
        let mut state = self.0.lock().unwrap();
        state.handles += 1;
        Ok(Handle(state.handles))
    }
    fn close(&self, _: Handle) -> Result<(), Errno> {
        self.none()
    }
    fn read(&self, _: Handle, buf: &mut [u8]) -> Result<usize, Errno> {
        self.call(false);
        Ok(buf.len())
    }
    fn write(&self, _: Handle, buf: &[u8]) -> Result<usize, Errno> {
        self.call(false);
        Ok(buf.len())
    }
    fn pread(&self, _: Handle, buf: &mut [u8], _: u64) -> Result<usize, Errno> {
        self.call(true);
        Ok(buf.len())
    }
    fn pwrite(&self, _: Handle, _: &[u8], _: u64) -> Result<usize, Errno> {
        self.call(false);
        Err(Errno::ENOSPC)
    }
    fn seek(&self, _: Handle, offset: u64) -> Result<u64, Errno> {
        self.call(false);
        Ok(offset)
    }
    fn read_dir(&self, _: Handle) -> Result<Vec<DirEntry>, Errno> {
        self.none()
    }
    fn fsync(&self, _: Handle) -> Result<(), Errno> {
        self.call(true);
        Ok(())
    }
    fn fdatasync(&self, _: Handle) -> Result<(), Errno> {
        self.none()
    }
    fn ftruncate(&self, _: Handle, _: u64) -> Result<(), Errno> {
        self.none()
    }
    fn fallocate(&self, _: Handle, _: u64, _: u64) -> Result<(), Errno> {
        self.none()
    }
    fn fstat(&self, handle: Handle) -> Result<Attr, Errno> {
        self.call(false);
        NullFs.fstat(handle)
    }
    fn stat(&self, path: &[u8]) -> Result<Attr, Errno> {
        self.call(false);
        NullFs.stat(path)
    }
    fn lstat(&self, path: &[u8]) -> Result<Attr, Errno> {
        self.stat(path)
    }
    fn access(&self, _: &[u8], _: Access) -> Result<(), Errno> {
        self.none()
    }
    fn unlink(&self, _: &[u8]) -> Result<(), Errno> {
        self.none()
    }
    fn mkdir(&self, _: &[u8], _: u32) -> Result<(), Errno> {
        self.none()
    }
    fn rmdir(&self, _: &[u8]) -> Result<(), Errno> {
        self.none()
    }
    fn rename(&self, _: &[u8], _: &[u8]) -> Result<(), Errno> {
        self.none()
    }
    fn link(&self, _: &[u8], _: &[u8]) -> Result<(), Errno> {
        self.none()
    }
    fn symlink(&self, _: &[u8], _: &[u8]) -> Result<(), Errno> {
        self.none()
    }
    fn readlink(&self, _: &[u8]) -> Result<Vec<u8>, Errno> {
        self.none()
    }
    fn truncate(&self, _: &[u8], _: u64) -> Result<(), Errno> {
        self.none()
    }
    fn set_attr(&self, _: &[u8], _: SetAttr) -> Result<(), Errno> {
        self.none()
    }
    fn lset_attr(&self, _: &[u8], _: SetAttr) -> Result<(), Errno> {
        self.none()
    }
    fn statfs(&self) -> Result<StatFs, Errno> {
        self.none()
    }
    fn sync(&self) -> Result<(), Errno> {
        self.none()
    }
    fn map_touch(
        &self,
        _: Handle,
        _: u64,
        _: u64,
        _: bool,
        touched: &mut dyn FnMut(u64),
    ) -> Result<(), Errno> {
        self.call(true);
        touched(CALL_NS);
        Ok(())
    }
    fn empty_call(&self) {
        self.call(false);
    }
    fn virtual_time(&self) -> Option<&dyn VirtualTime> {
        Some(self)
    }
    fn platform(&self) -> &dyn Platform {
        self
    }
}

/// A sink that keeps what it gets, with its path as text.
#[derive(Default)]
pub struct Kept {
    pub ops: Vec<fsage_core::Op>,
    pub paths: fsage_core::PathTable,
    /// Takes no more after so many.
    pub most: Option<usize>,
}

impl Kept {
    pub fn text(&self, id: Option<fsage_core::PathId>) -> String {
        id.map_or_else(String::new, |id| self.paths.display(id).into_owned())
    }
}

impl fsage_core::OpSink for Kept {
    fn push(
        &mut self,
        op: &fsage_core::Op,
        paths: &fsage_core::PathTable,
    ) -> Result<(), fsage_core::SinkError> {
        if self.most.is_some_and(|most| self.ops.len() >= most) {
            return Err(fsage_core::SinkError::new("no space is left"));
        }
        self.ops.push(*op);
        if self.paths.len() != paths.len() {
            self.paths = paths.clone();
        }
        Ok(())
    }
}
