//! What is read before and after a part that is measured.

use fsage_core::{DeviceCounters, FileSystem};
use fsage_format::result::experiment::{DeviceActivity, Others, SystemPoint};
use fsage_host::HostFs;
use fsage_host::observe::{
    Clocks, MachineTimes, ReadBytes, Usage, Whose, cpu_pressure_ns, running_children_user_ns,
};
use fsage_host::pauses::Pauses;

use super::sampler::Sampler;

/// Everything that was used and done in the parts that were measured.
#[derive(Debug, Clone, Default)]
pub struct Activity {
    /// By the workload's threads and processes; `None` where the kernel does not count.
    pub read: Option<ReadBytes>,
    /// By the target's device; `None` without one.
    pub device: Option<DeviceActivity>,
    /// By everything else.
    pub others: Others,
    /// Memory and device over time, since the start of the first part.
    pub points: Vec<SystemPoint>,
    /// Whose dirty pages the points tell of.
    pub dirty_of: String,
    /// How long the parts took together, nanoseconds.
    pub elapsed_ns: u64,
}

impl Activity {
    /// What others did in a run of `elapsed_ns` in which its own used `own_ns` of the processors. The readings
    /// are further apart than the run is long, and the kernel counts whole ticks: what is more than there was
    /// is none of theirs.
    pub fn others_of(&self, elapsed_ns: u64, own_ns: u64, processors: u32) -> Others {
        let part = (elapsed_ns as f64 / self.elapsed_ns.max(1) as f64).min(1.0);
        let there_ns = match processors {
            // The kernel does not say.
            0 => u64::MAX,
            n => elapsed_ns.saturating_mul(n.into()),
        };
        let within = |ns: u64, most: u64| ((ns as f64 * part) as u64).min(most);
        let others = self.others;
        Others {
            user_ns: others
                .user_ns
                .map(|ns| within(ns, there_ns.saturating_sub(own_ns))),
            stolen_ns: others.stolen_ns.map(|ns| within(ns, there_ns)),
            cpu_pressure_ns: others.cpu_pressure_ns.map(|ns| within(ns, elapsed_ns)),
            ..others
        }
    }

    fn did(&mut self, before: Option<DeviceCounters>, after: Option<DeviceCounters>) {
        self.device = before.zip(after).map(|(before, after)| {
            let sum = self.device.unwrap_or_default();
            add(sum, between(&before, &after))
        });
    }
}

/// One reading.
struct Reading {
    process: Usage,
    children: Usage,
    /// Of the daemons that serve the target, user mode.
    daemons_ns: u64,
    read: Option<ReadBytes>,
    device: Option<DeviceCounters>,
    machine: Option<MachineTimes>,
    pressure_ns: Option<u64>,
    clocks: Clocks,
    pauses: Pauses,
}

impl Reading {
    fn now(fs: &dyn FileSystem) -> Self {
        Self::with(fs.platform().device_counters())
    }

    fn with(device: Option<DeviceCounters>) -> Self {
        Self {
            process: Usage::of(Whose::Process),
            children: Usage::of(Whose::Children),
            daemons_ns: running_children_user_ns(),
            read: ReadBytes::of_process(),
            device,
            machine: MachineTimes::now(),
            pressure_ns: cpu_pressure_ns(),
            clocks: Clocks::now(),
            pauses: Pauses::now(),
        }
    }
}

/// Does `what` and adds what happened meanwhile to `activity`. Where the target's time is computed nothing of
/// the machine is looked at: what the device did is all there is.
pub fn measured<T>(
    (fs, host): (&dyn FileSystem, Option<&HostFs>),
    activity: &mut Activity,
    what: impl FnOnce() -> T,
) -> T {
    if fs.virtual_time().is_some() {
        let now = || (fs.platform().device_counters(), fs.clock().now_ns());
        let (before, start_ns) = now();
        let result = what();
        let (after, end_ns) = now();
        activity.did(before, after);
        activity.elapsed_ns += end_ns.saturating_sub(start_ns);
        return result;
    }
    let device = host.and_then(HostFs::device).cloned();
    let sampler = Sampler::start(device, host.and_then(HostFs::write_back_device));
    while !sampler.has_begun() {
        std::thread::yield_now();
    }
    let before = Reading::now(fs);
    let result = what();
    let after = Reading::now(fs);
    let seen = sampler.stop();
    activity.dirty_of = seen.dirty_of;
    activity.read = after.read.zip(before.read).map(|(after, before)| {
        let read = after.since(&before).since(&seen.read);
        let sum = activity.read.unwrap_or_default();
        ReadBytes {
            requested: sum.requested + read.requested,
            fetched: sum.fetched + read.fetched,
        }
    });
    activity.did(before.device, after.device);
    let first = activity.elapsed_ns == 0;
    let last = activity.points.last().copied().unwrap_or_default();
    // The last look of the part before came after its end.
    let offset_ns = activity.elapsed_ns.max(last.at_ns);
    activity
        .points
        .extend(seen.points.into_iter().map(|p| SystemPoint {
            at_ns: p.at_ns + offset_ns,
            sectors_read: p.sectors_read + last.sectors_read,
            sectors_written: p.sectors_written + last.sectors_written,
            ..p
        }));
    activity.elapsed_ns += after
        .clocks
        .monotonic_ns
        .saturating_sub(before.clocks.monotonic_ns);
    let others = others(&before, &after);
    activity.others = sum_of(&activity.others, &others, first);
    result
}

/// What others do from its start on. The target is not touched: it may have died.
pub(crate) struct Watch(Reading);

impl Watch {
    /// Begins; not where time is computed, which nobody disturbs.
    pub(crate) fn start(fs: &dyn FileSystem) -> Option<Self> {
        fs.virtual_time()
            .is_none()
            .then(|| Self(Reading::with(None)))
    }

    /// What they did until now, and how long that was in nanoseconds.
    pub(crate) fn end(self) -> (Others, u64) {
        let after = Reading::with(None);
        let (begun, ended) = (self.0.clocks.monotonic_ns, after.clocks.monotonic_ns);
        (others(&self.0, &after), ended.saturating_sub(begun))
    }
}

fn others(before: &Reading, after: &Reading) -> Others {
    let own = |r: &Reading| r.process.user_ns + r.children.user_ns + r.daemons_ns;
    let own = own(after).saturating_sub(own(before));
    let machine = after.machine.zip(before.machine);
    let user = machine.map(|(a, b)| a.user_ns.saturating_sub(b.user_ns).saturating_sub(own));
    let stolen = machine.map(|(a, b)| a.stolen_ns.saturating_sub(b.stolen_ns));
    let pressure = after.pressure_ns.zip(before.pressure_ns);
    Others {
        user_ns: user,
        stolen_ns: stolen,
        cpu_pressure_ns: pressure.map(|(a, b)| a.saturating_sub(b)),
        clock_step_ns: clock_step_ns(&before.clocks, &after.clocks),
        stops: after.pauses.stops.saturating_sub(before.pauses.stops),
    }
}

/// How far the wall clock went away from the monotonic one between two readings, nanoseconds: it was set,
/// or the machine slept. 0 where the readings are too far apart to tell. Both clocks are slewed alike.
pub fn clock_step_ns(before: &Clocks, after: &Clocks) -> i64 {
    let wall = i128::from(after.wall_ns) - i128::from(before.wall_ns);
    let monotonic = i128::from(after.monotonic_ns) - i128::from(before.monotonic_ns);
    let step = wall - monotonic;
    let doubt = i128::from(before.apart_ns) + i128::from(after.apart_ns);
    if step.abs() <= doubt {
        return 0;
    }
    i64::try_from(step).unwrap_or(if step < 0 { i64::MIN } else { i64::MAX })
}

fn sum_of(sum: &Others, one: &Others, first: bool) -> Others {
    if first {
        return *one;
    }
    let both = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
    Others {
        user_ns: both(sum.user_ns, one.user_ns),
        stolen_ns: both(sum.stolen_ns, one.stolen_ns),
        cpu_pressure_ns: both(sum.cpu_pressure_ns, one.cpu_pressure_ns),
        clock_step_ns: sum.clock_step_ns.saturating_add(one.clock_step_ns),
        stops: sum.stops.saturating_add(one.stops),
    }
}

/// What a device did between two readings of its counters.
pub fn between(before: &DeviceCounters, after: &DeviceCounters) -> DeviceActivity {
    DeviceActivity {
        reads: after.reads.saturating_sub(before.reads),
        sectors_read: after.sectors_read.saturating_sub(before.sectors_read),
        writes: after.writes.saturating_sub(before.writes),
        sectors_written: after.sectors_written.saturating_sub(before.sectors_written),
    }
}

fn add(a: DeviceActivity, b: DeviceActivity) -> DeviceActivity {
    DeviceActivity {
        reads: a.reads + b.reads,
        sectors_read: a.sectors_read + b.sectors_read,
        writes: a.writes + b.writes,
        sectors_written: a.sectors_written + b.sectors_written,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsage_host::HostOptions;

    fn clocks(monotonic_ns: u64, wall_ns: u64) -> Clocks {
        Clocks {
            monotonic_ns,
            wall_ns,
            apart_ns: 100,
        }
    }

    #[test]
    fn a_clock_step_is_seen_and_jitter_is_not() {
        let before = clocks(5_000, 1_000_000_000_000);
        let step = |monotonic, wall| clock_step_ns(&before, &clocks(monotonic, wall));
        assert_eq!(step(2_000_005_000, 1_002_000_000_000), 0);
        assert_eq!(step(2_000_005_000, 1_002_000_000_150), 0, "within doubt");
        assert_eq!(
            step(2_000_005_000, 1_005_000_000_000),
            3_000_000_000,
            "forward"
        );
        assert_eq!(step(2_000_005_000, 998_000_000_000), -4_000_000_000, "back");
        let far = clocks(2_000_005_000, u64::MAX);
        assert_eq!(clock_step_ns(&before, &far), i64::MAX);
    }

    #[test]
    fn others_use_no_more_than_there_was() {
        let all = |ns| Others {
            user_ns: Some(ns),
            stolen_ns: Some(ns),
            cpu_pressure_ns: Some(ns),
            clock_step_ns: 5,
            stops: 0,
        };
        let activity = Activity {
            others: all(4_600),
            elapsed_ns: 2_000,
            ..Activity::default()
        };
        let others = activity.others_of(1_000, 100, 2);
        assert_eq!(
            (others.user_ns, others.stolen_ns),
            (Some(1_900), Some(2_000))
        );
        assert_eq!(
            (others.cpu_pressure_ns, others.clock_step_ns),
            (Some(1_000), 5)
        );
        let others = Activity {
            others: all(800),
            ..activity
        }
        .others_of(1_000, 100, 2);
        assert_eq!(
            others,
            Others {
                clock_step_ns: 5,
                stops: 0,
                ..all(400)
            }
        );
    }

    #[test]
    fn parts_add_up() {
        let dir = tempfile::tempdir().unwrap();
        let fs = HostFs::open(dir.path(), HostOptions::default()).unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, vec![1; 1 << 20]).unwrap();
        let two_parts = || {
            let mut activity = Activity::default();
            let mut most_off = 0;
            for part in 1..=2 {
                let read = measured((&fs, Some(&fs)), &mut activity, || {
                    std::fs::read(&path).unwrap().len()
                });
                assert_eq!(read, 1 << 20);
                let requested = activity.read.map_or(part << 20, |r| r.requested);
                most_off = most_off.max(requested.abs_diff(part << 20));
            }
            (activity, most_off)
        };
        // What the sampler read is taken away, also before and after the part: some kilobytes. Other tests
        // read in the same process.
        let (activity, _) = (0..50)
            .map(|_| two_parts())
            .find(|(_, most_off)| *most_off < 65536)
            .expect("a pair of parts that add up");
        assert!(activity.elapsed_ns > 0);
        assert!(
            activity.points.is_sorted_by_key(|p| p.at_ns),
            "{activity:?}"
        );
        assert_eq!(activity.others.clock_step_ns.abs() / 1_000_000_000, 0);
    }
}
