//! The device: cold states, write-back, and what is called cold held against the device's counters.

use fsage_core::metric::{MetricId, Unit};
use fsage_core::{ColdLevel, Errno};
use fsage_host::observe::{MemoryWatch, ReadBytes};

use crate::error::{Halt, Res};
use crate::lab::{Batch, Lab};
use crate::population::remove_tree;
use crate::probe::Probe;

const DATA_ONLY: &str =
    "only file data can be made cold here (names and inodes need root or a scratch file system)";

/// The device must have read this share of what was asked for: the rest may be tails of files, or lie in
/// what was read with their inodes.
const FETCHED_SHARE: f64 = 0.8;
/// What a disk writes a second, where nothing better is known.
const DISK_BYTES_PER_S: u64 = 200_000_000;
/// The first write-back and cold state may be expected to take this part of the time that was asked for.
const FIRST_SHARE: u64 = 16;
/// The file system is made anew where that takes less than this part of a procedure's time.
const ANEW_SHARE: u64 = 8;
const SECTOR_BYTES: u64 = 512;
/// Shorter batches, or of fewer bytes, do not tell how fast a device reads.
const LEAST_READING_NS: u64 = 20_000_000;
const LEAST_READING_BYTES: u64 = 4 << 20;
/// What starts and ends a sweep makes its device a little slower than it is.
const FASTER_TIMES: f64 = 1.1;
/// What it takes to drop a KiB of cached data, and of names and inodes: a gigabyte and a tenth of it a second.
const NS_OF_CACHED_KIB: u64 = 1_000;
const NS_OF_NAMES_KIB: u64 = 10_000;

/// How long a write-back or a cold state is expected to take after one that took so long: the first does
/// what others have left.
fn next_ns(last_ns: u64, took_ns: u64) -> u64 {
    if last_ns == 0 { took_ns / 10 } else { took_ns }.max(1)
}

/// What was read up to a moment.
#[derive(Clone, Copy)]
struct Reading {
    sectors: Option<u64>,
    thread: Option<u64>,
}

impl Reading {
    fn now(lab: &Lab<'_>) -> Self {
        Self {
            sectors: lab.sectors_read(),
            thread: match lab.fs.virtual_time() {
                Some(_) => None,
                None => ReadBytes::of_thread().map(|read| read.fetched),
            },
        }
    }
}

impl Lab<'_> {
    /// Sectors that the device has read since boot, where there is one.
    pub(crate) fn sectors_read(&self) -> Option<u64> {
        self.fs.platform().device_counters().map(|c| c.sectors_read)
    }

    /// Makes everything cold: names, inodes and data.
    pub(crate) fn make_cold(&mut self) -> Res {
        self.check()?;
        if self.cold.is_some_and(|c| c.level == ColdLevel::DataOnly) {
            return Err(Halt::Absent(DATA_ONLY.to_owned()));
        }
        let last_ns = self.costs.cold_ns.get();
        self.expect(last_ns, self.write_back_ns() + self.drop_ns())?;
        let start = self.clock.now_ns();
        let made = self.fs.platform().make_cold();
        let took_ns = self.clock.now_ns().saturating_sub(start);
        self.costs.prepared(took_ns);
        self.costs.cold_ns.set(next_ns(last_ns, took_ns));
        match made {
            Ok(evidence) => {
                self.cold = Some(evidence);
                self.place_kernel_threads();
                if evidence.level == ColdLevel::DataOnly {
                    return Err(Halt::Absent(DATA_ONLY.to_owned()));
                }
                Ok(())
            }
            Err(errno) => Err(Halt::Absent(format!(
                "no cold state can be reached here: {errno}"
            ))),
        }
    }

    /// A remount has made new threads of the journal: they belong where the workload's would be, beside this one.
    fn place_kernel_threads(&mut self) {
        if let (Some(device), true) = (&self.device, self.own_device) {
            let cpus = fsage_host::thread::allowed_cpus();
            self.moved = fsage_host::kthread::confine_of_device(device, &cpus);
        }
    }

    /// Makes data cold; names and inodes too where that is how it is done.
    pub(crate) fn make_data_cold(&mut self) -> Res {
        match self.make_cold() {
            Err(Halt::Absent(_)) if self.cold.is_some() => {
                self.afford(self.costs.cold_ns.get())?;
                self.fs.platform().make_cold()?;
                Ok(())
            }
            other => other,
        }
    }

    /// Ends the procedure if there is no time for what took so long the last time. The first time, where a
    /// time was asked for, `first_ns` must be a small part of all of it: others who write go on meanwhile.
    fn expect(&self, last_ns: u64, first_ns: u64) -> Res {
        if last_ns == 0
            && self
                .hurried_ns
                .is_some_and(|all| first_ns > all / FIRST_SHARE)
        {
            return Err(Halt::Time);
        }
        self.afford(last_ns)
    }

    /// Whether others write to the device beneath and have their data cached beside the target's.
    fn shares_machine(&self) -> bool {
        !self.own_device && self.sectors_read().is_some() && self.fs.virtual_time().is_none()
    }

    /// What waits in memory to be written takes a disk so long, where others may use it.
    fn write_back_ns(&self) -> u64 {
        if !self.shares_machine() {
            return 0;
        }
        let waiting = MemoryWatch::open(None).and_then(|memory| memory.read());
        let bytes = waiting.map_or(0u64, |w| w.dirty_bytes + w.write_back_bytes);
        bytes.saturating_mul(1_000_000_000) / DISK_BYTES_PER_S
    }

    /// The caches of the whole machine, which root drops where nothing can be remounted, take so long.
    fn drop_ns(&self) -> u64 {
        if !self.shares_machine() || !rustix::process::geteuid().is_root() {
            return 0;
        }
        let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kib = |name: &str| -> u64 {
            let of = |line: &str| {
                line.strip_prefix(name)?
                    .split_whitespace()
                    .next()?
                    .parse()
                    .ok()
            };
            text.lines().find_map(of).unwrap_or(0)
        };
        kib("Cached:") * NS_OF_CACHED_KIB + kib("SReclaimable:") * NS_OF_NAMES_KIB
    }

    /// As [`Lab::settle`] for calls to which it makes little difference: left out where there is no time.
    pub(crate) fn settle_in_time(&mut self) -> Res {
        match self.settle() {
            Err(Halt::Time) if !self.spent() => Ok(()),
            other => other,
        }
    }

    /// Writes everything back, so that what is measured next starts clean.
    pub(crate) fn settle(&mut self) -> Res {
        self.check()?;
        let last_ns = self.costs.settle_ns.get();
        self.expect(last_ns, self.write_back_ns())?;
        let start = self.clock.now_ns();
        let synced = self.fs.sync();
        let took_ns = self.clock.now_ns().saturating_sub(start);
        self.costs.prepared(took_ns);
        self.costs.settle_ns.set(next_ns(last_ns, took_ns));
        Ok(synced?)
    }

    /// Makes the file system anew, where it is fsage's own: what procedures before did to it decides nothing then. On
    /// btrfs creates take twice as long after populations were made and removed, and a commit a turn of the disk more
    /// where data goes to a chunk that others made necessary. Whether it was; not where that would take much of the
    /// procedure's time.
    pub(crate) fn make_anew(&mut self) -> Res<bool> {
        self.check()?;
        let last_ns = self.costs.anew_ns.get();
        let left_ns = self.deadline_ns.saturating_sub(self.clock.now_ns());
        if self.is_new {
            return Ok(true);
        }
        if !self.own_device || last_ns > left_ns / ANEW_SHARE {
            return Ok(false);
        }
        let start = self.clock.now_ns();
        let made = self.fs.platform().make_anew();
        let took_ns = self.clock.now_ns().saturating_sub(start);
        match made {
            Ok(()) => {}
            Err(Errno::EOPNOTSUPP | Errno::EBUSY) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        }
        self.costs.prepared(took_ns);
        self.costs.made_anew(next_ns(last_ns, took_ns));
        self.former.clear();
        self.fs.mkdir(self.work.as_bytes(), 0o700)?;
        self.place_kernel_threads();
        self.is_new = true;
        Ok(true)
    }

    /// Begins a procedure that makes many names: nothing is dirty and, where that can be reached,
    /// nothing is cached; where the file system can be made anew, it is. Without a journal ext4, which serves ext2 too,
    /// passes over the inodes that were freed in the last minutes as long as it has their blocks in memory, at every create
    /// (`recently_deleted` in fs/ext4/ialloc.c): what the suite itself removed before would count. The blocks come
    /// back with the first new inodes among them, so that it goes on in another place too. No computed file system does
    /// that.
    pub(crate) fn start_afresh(&mut self) -> Res {
        if self.make_anew()? {
            return self.settle_in_time();
        }
        match self.make_cold() {
            Ok(()) | Err(Halt::Absent(_) | Halt::Time) => {}
            other => return other,
        }
        if self.fs.virtual_time().is_none() {
            self.move_on();
        }
        self.settle_in_time()
    }

    /// Goes on in another working directory: on ext4 the children of the root lie in different groups of inodes.
    fn move_on(&mut self) {
        let owner = self.work.rsplit_once('-').map_or("", |(owner, _)| owner);
        let next = format!("{owner}-{:x}", self.clock.now_ns());
        if self.fs.mkdir(next.as_bytes(), 0o700).is_ok() {
            self.former.push(std::mem::replace(&mut self.work, next));
        }
    }

    /// Removes all that was made, the working directories with it; how many entries that were.
    pub(crate) fn remove_works(&mut self) -> Result<u64, Errno> {
        let mut entries = 0;
        while let Some(former) = self.former.last() {
            entries += remove_tree(self.fs, former.as_bytes())?;
            self.former.pop();
        }
        Ok(entries + remove_tree(self.fs, self.work.as_bytes())?)
    }

    /// Runs a batch that is meant to read from the device and notes in `asked_bytes` how much it asks for.
    /// Its samples are thrown away if the device has not read about as much from its beginning to its end:
    /// parts of it may well find everything read ahead. What others had the device read is not counted
    /// where the kernel counts for each thread.
    pub(crate) fn cold_batch(&mut self, probe: Probe, batch: impl FnOnce(&mut Self) -> Res) -> Res {
        let before = Reading::now(self);
        let start_ns = self.clock.now_ns();
        let mark = self.measurements.mark();
        self.asked_bytes = 0;
        self.begin(Batch::Blocking);
        let done = batch(self);
        match done {
            Ok(()) | Err(Halt::Time) => self.cut_short(),
            Err(_) => self.measurements.forget(),
        }
        self.look_at_device(before, start_ns, probe);
        if let Some(reason) = self.warm_since(before) {
            self.measurements.rollback(&mark);
            if let Some(id) = probe.id(0) {
                self.reasons.push((id, reason));
            }
        }
        done?;
        self.check()
    }

    /// Remembers how fast the device has read since then by its own counters, at its fastest.
    fn look_at_device(&mut self, before: Reading, start_ns: u64, probe: Probe) {
        let took_ns = self.clock.now_ns().saturating_sub(start_ns);
        let sectors = self.sectors_read().zip(before.sectors);
        let Some((after, before)) = sectors.filter(|_| self.fs.virtual_time().is_none()) else {
            return;
        };
        let bytes = after.saturating_sub(before) * SECTOR_BYTES;
        let rates = |id: &MetricId| id.unit() == Unit::KibPerS;
        if let Some(id) = probe
            .id(0)
            .filter(rates)
            .filter(|id| !self.cold_rates.contains(id))
        {
            self.cold_rates.push(id);
        }
        if took_ns >= LEAST_READING_NS && bytes >= LEAST_READING_BYTES {
            let kib_per_s = bytes as f64 / 1024.0 * 1e9 / took_ns as f64;
            self.device_kib_per_s = self.device_kib_per_s.max(kib_per_s);
        }
    }

    /// Those of these metrics that say that more is read from the device than it reads, and what is to be said.
    pub(crate) fn faster_than_device(&self, ids: &[MetricId]) -> Vec<(MetricId, String)> {
        let own = self.device_kib_per_s;
        let rates = ids.iter().filter(|id| self.cold_rates.contains(id));
        let faster = rates.filter_map(|&id| {
            let rate = self.measurements.estimate(id)?;
            let words = || {
                format!(
                    "{:.0} MiB/s, but the device read at most {:.0} MiB/s by its own counters: some was in memory",
                    rate / 1024.0,
                    own / 1024.0
                )
            };
            (own > 0.0 && rate > FASTER_TIMES * own).then(|| (id, words()))
        });
        faster.collect()
    }

    /// Why what was read since then was not cold, if it was not.
    fn warm_since(&mut self, before: Reading) -> Option<String> {
        let after = Reading::now(self);
        let device = after.sectors?.saturating_sub(before.sectors?) * SECTOR_BYTES;
        let thread = after.thread.zip(before.thread);
        let thread = thread.map(|(after, before)| after.saturating_sub(before));
        self.counted_for_thread |= thread.is_some_and(|bytes| bytes > 0);
        let read = match thread {
            Some(bytes) if self.counted_for_thread => bytes.min(device),
            _ => device,
        };
        let enough = read > 0 && read as f64 >= self.asked_bytes as f64 * FETCHED_SHARE;
        (!enough).then(|| not_cold(read, self.asked_bytes))
    }
}

/// What is said where the device read no more than so much of what was asked for, which is 0 for names.
fn not_cold(read_bytes: u64, asked_bytes: u64) -> String {
    const CACHED: &str = "still in memory although the caches had been emptied";
    // What fills no KiB is no 0.
    let kib = |bytes: u64| match bytes.div_ceil(1024) {
        1 if bytes < 1024 => format!("{bytes} bytes"),
        kib => format!("{kib} KiB"),
    };
    match (read_bytes, asked_bytes) {
        (0, 0) => format!("not cold: the device read nothing: all that was looked up was {CACHED}"),
        (0, asked) => format!(
            "not cold: the device read nothing of {} that were asked for: all was {CACHED}",
            kib(asked)
        ),
        (read, asked) => format!(
            "not cold: the device read only {} of {} that were asked for: the rest was {CACHED}",
            kib(read),
            kib(asked)
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use fsage_host::{HostFs, HostOptions};

    use super::*;

    #[test]
    fn what_was_not_cold_is_said_without_zeros() {
        let nothing = not_cold(0, 0);
        assert!(
            nothing
                .starts_with("not cold: the device read nothing: all that was looked up was still")
        );
        let none = not_cold(0, 48 << 10);
        assert!(
            none.contains("read nothing of 48 KiB that were asked for: all was still"),
            "{none}"
        );
        let some = not_cold(512, 48 << 10);
        assert!(some.contains("read only 512 bytes of 48 KiB"), "{some}");
        for said in [nothing, none, some] {
            assert!(!said.contains(" 0 "), "{said}");
        }
    }

    #[test]
    fn a_rate_above_the_devices_own_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let fs = HostFs::open(dir.path(), HostOptions::default()).unwrap();
        let stop = AtomicBool::new(false);
        let mut lab = Lab::new(&fs, (None, None), "work".to_owned(), 1, true, &stop);
        let id = MetricId::parse("RD64").unwrap();
        let series = lab.measurements.series(id);
        // 64 KiB in 0.1 ms.
        (series.kib, series.values) = (Some(64.0), vec![100_000.0; 20]);
        lab.device_kib_per_s = 200_000.0;
        assert!(
            lab.faster_than_device(&[id]).is_empty(),
            "it was not said to be cold"
        );
        lab.cold_rates.push(id);
        let found = lab.faster_than_device(&[id]);
        let said = &found[0].1;
        assert!(
            said.starts_with(
                "625 MiB/s, but the device read at most 195 MiB/s by its own counters"
            ),
            "{said}"
        );
        for (own, reason) in [
            (600_000.0, "the same by a tenth"),
            (0.0, "nothing is known"),
        ] {
            lab.device_kib_per_s = own;
            assert!(lab.faster_than_device(&[id]).is_empty(), "{reason}");
        }
    }
}
