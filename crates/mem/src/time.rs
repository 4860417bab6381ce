//! An oracle's time, and what can be done to it from outside.

use fsage_core::{
    Clock, ColdEvidence, ColdLevel, ColdMethod, Demand, DeviceCounters, Errno, Handle, Piece,
    Platform, VirtualTime,
};

use crate::calls::MemFs;

impl Clock for MemFs {
    fn now_ns(&self) -> u64 {
        Self::now_ns(self)
    }
}

impl VirtualTime for MemFs {
    fn begin(&self, now_ns: u64) {
        let mut state = self.lock();
        state.now_ns = state.now_ns.max(now_ns);
        self.tell(&state);
        state.collecting = true;
    }

    fn end(&self, demands: &mut Vec<Demand>) -> bool {
        let mut state = self.lock();
        state.collecting = false;
        let waits = state.demands.iter().any(|d| matches!(d, Demand::Serve(_)));
        demands.append(&mut state.demands);
        waits
    }

    fn serve(&self, number: u64, now_ns: u64) -> u64 {
        let mut state = self.lock();
        let disk = state.disk.as_mut();
        disk.map_or(now_ns, |disk| disk.device.serve(number, now_ns))
    }

    fn rest_until(&self, then_ns: u64) {
        let mut state = self.lock();
        state.now_ns = state.now_ns.max(then_ns);
        state.pass();
        self.tell(&state);
    }

    fn waited_ns(&self) -> u64 {
        self.lock().waited_ns
    }
}

impl Platform for MemFs {
    fn make_cold(&self) -> Result<ColdEvidence, Errno> {
        let mut state = self.lock();
        if state.disk.is_none() {
            return Err(Errno::EOPNOTSUPP);
        }
        state.pass();
        state.sync_all();
        let remount_ns = state.truth.machine.remount_ns;
        state.cpu(remount_ns);
        state.forget();
        self.tell(&state);
        Ok(ColdEvidence {
            method: ColdMethod::Remount,
            level: ColdLevel::Everything,
        })
    }

    fn dirty_bytes(&self, handle: Handle) -> Option<u64> {
        let mut state = self.lock();
        let ino = state.handles.get(handle.0).ok()?.ino;
        let disk = state.disk.as_ref()?;
        Some(disk.pages.dirty_pages(ino) * fsage_cache::PAGE_BYTES)
    }

    fn evict(&self, handle: Handle) -> Result<(), Errno> {
        let mut state = self.lock();
        let ino = state.handles.get(handle.0)?.ino;
        if state.disk.is_none() {
            return Err(Errno::EOPNOTSUPP);
        }
        state.pass();
        state.write_back_and_wait(ino);
        if let Some(disk) = &mut state.disk {
            disk.pages.drop_clean(ino, (0, u64::MAX));
        }
        self.tell(&state);
        Ok(())
    }

    fn device_counters(&self) -> Option<DeviceCounters> {
        Some(self.lock().disk.as_ref()?.device.counters)
    }

    fn pieces(&self, ino: u64) -> Result<Vec<Piece>, Errno> {
        let ino = u32::try_from(ino).map_err(|_| Errno::ENOENT)?;
        Ok(self.lock().inodes.get(ino)?.body()?.pieces())
    }
}
