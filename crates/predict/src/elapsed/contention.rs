//! How much longer a call takes while other threads are in calls of its kind: the scaling of creates,
//! reads and appends with threads (`SC_…`).

use fsage_core::OpKind;
use fsage_core::metric;

use crate::cost::SystemVector;

/// Calls of other threads that are remembered: those of more threads at once change little.
const REMEMBERED: usize = 8;
const THREADS: [f64; 3] = [1.0, 2.0, 4.0];

/// Which scaling an operation follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Names,
    Reads,
    Writes,
}

/// A call in predicted time.
#[derive(Debug, Clone, Copy)]
struct Busy {
    thread: usize,
    class: Class,
    place: u32,
    end_ns: f64,
}

/// Time of a call with 1, 2 and 4 threads at once, 1 being alone: in one directory or file, and in
/// one each.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Factors {
    shared: [f64; 3],
    apart: [f64; 3],
}

/// The scaling of one system and the calls in progress.
#[derive(Debug, Clone)]
pub struct Contention {
    factors: [Option<Factors>; 3],
    recent: [Option<Busy>; REMEMBERED],
    next: usize,
}

impl Contention {
    /// What the system's metrics tell; `None` where scaling was not measured.
    pub fn of(vector: &SystemVector) -> Option<Self> {
        let factors = ["CR", "RD", "WR"].map(|kind| {
            let shared = factor(vector, &format!("SC_{kind}_S"));
            let apart = factor(vector, &format!("SC_{kind}_D"));
            Some(Factors {
                shared: shared.or(apart)?,
                apart: apart.or(shared)?,
            })
        });
        factors.iter().any(Option::is_some).then_some(Self {
            factors,
            recent: [None; REMEMBERED],
            next: 0,
        })
    }

    /// By how much a call that begins at `begin_ns` and would take `alone_ns` is longer; `place` is
    /// its directory or file. Takes it as in progress.
    pub fn stretch(
        &mut self,
        thread: usize,
        kind: OpKind,
        place: u32,
        begin_ns: f64,
        alone_ns: f64,
    ) -> f64 {
        let Some(class) = class(kind) else {
            return 1.0;
        };
        let (mut threads, mut shared) = (1usize, false);
        let mut seen = [usize::MAX; REMEMBERED];
        for busy in self.recent.iter().flatten() {
            let other = busy.thread != thread && busy.class == class && busy.end_ns > begin_ns;
            if other && !seen.iter().take(threads - 1).any(|&t| t == busy.thread) {
                if let Some(slot) = seen.get_mut(threads - 1) {
                    *slot = busy.thread;
                }
                threads += 1;
                shared |= busy.place == place;
            }
        }
        let factor = match self.factors.get(class as usize).copied().flatten() {
            Some(f) if threads > 1 => at(if shared { &f.shared } else { &f.apart }, threads),
            _ => 1.0,
        };
        if let Some(slot) = self.recent.get_mut(self.next) {
            *slot = Some(Busy {
                thread,
                class,
                place,
                end_ns: begin_ns + alone_ns * factor,
            });
        }
        self.next = (self.next + 1) % REMEMBERED;
        factor
    }
}

fn class(kind: OpKind) -> Option<Class> {
    match kind {
        OpKind::Read => Some(Class::Reads),
        OpKind::Write => Some(Class::Writes),
        OpKind::Open
        | OpKind::Mkdir
        | OpKind::Rmdir
        | OpKind::Unlink
        | OpKind::Rename
        | OpKind::Link
        | OpKind::Symlink
        | OpKind::Mknod => Some(Class::Names),
        _ => None,
    }
}

/// Of rates of all threads together: n threads at rate r take n / r for a call each. What they only
/// wait for processors is not the call's: the machine has it.
fn factor(vector: &SystemVector, stem: &str) -> Option<[f64; 3]> {
    let rate = |n: f64| {
        vector
            .named(&format!("{stem}{n}"))
            .map(|e| e.value)
            .filter(|&v| v > 0.0)
    };
    let alone = rate(1.0)?;
    let waits = |n: f64| {
        let cpus = vector.machine.cpus.map_or(n, |cpus| cpus.max(1) as f64);
        (n / cpus).max(1.0)
    };
    let [one, two, four] = THREADS.map(|n| Some((n * alone / rate(n)? / waits(n)).max(1.0)));
    Some([one?, two?, four?])
}

/// By how much the device is busy longer or shorter for one of several requests that are there at once.
#[derive(Debug, Clone, PartialEq)]
pub struct AtOnce(Vec<(f64, f64)>);

impl AtOnce {
    /// What the rates of a series of the system by threads tell; `None` where they were not measured.
    pub fn of(vector: &SystemVector, series: &str) -> Option<Self> {
        let family = metric::family(series)?;
        let rates: Vec<(f64, f64)> = family
            .metrics()
            .filter_map(|id| Some((f64::from(id.point()?), vector.get(id)?.value)))
            .filter(|&(_, rate)| rate > 0.0)
            .collect();
        let alone = rates.iter().find(|r| r.0 <= 1.0)?.1;
        // One of n is served at best n times as fast as alone, and not slower than that: what is beyond is a measurement of
        // one that was disturbed.
        let factor = |(n, r): (f64, f64)| (n, (alone / r).clamp(1.0 / n.max(1.0), 1.0));
        Some(Self(rates.into_iter().map(factor).collect()))
    }

    /// The factor where there are so many; more than were measured are taken as the most.
    pub fn factor(&self, there: usize) -> f64 {
        let n = there.max(1) as f64;
        let after = self.0.iter().position(|p| p.0 >= n);
        let points = match after {
            Some(0) => return self.0.first().map_or(1.0, |p| p.1),
            Some(after) => self.0.get(after - 1).zip(self.0.get(after)),
            None => return self.0.last().map_or(1.0, |p| p.1),
        };
        points.map_or(1.0, |(a, b)| a.1 + (b.1 - a.1) * (n - a.0) / (b.0 - a.0))
    }
}

/// Linear between the measured numbers of threads; beyond them throughput grows no more.
fn at(factors: &[f64; 3], threads: usize) -> f64 {
    let [one, two, four] = *factors;
    let n = threads as f64;
    match threads {
        0 | 1 => one,
        2 => two,
        3 => f64::midpoint(two, four),
        _ => four * n / 4.0,
    }
}

#[cfg(test)]
#[allow(
    clippy::float_cmp,
    clippy::unwrap_used,
    reason = "exact by construction"
)]
mod tests {
    use super::*;
    use fsage_core::metric::MetricId;

    fn system() -> SystemVector {
        let m = |name: &str, v: f64| (MetricId::parse(name).unwrap(), v, v, v);
        SystemVector::new(
            "s",
            [
                m("SC_WR_S1", 100.0),
                m("SC_WR_S2", 50.0),
                m("SC_WR_S4", 40.0),
                m("SC_WR_D1", 100.0),
                m("SC_WR_D2", 200.0),
                m("SC_WR_D4", 200.0),
            ],
        )
    }

    fn stretch(c: &mut Contention, thread: usize, place: u32, begin_ns: f64) -> f64 {
        c.stretch(thread, OpKind::Write, place, begin_ns, 10.0)
    }

    #[test]
    fn calls_at_once_are_longer_in_one_file_and_not_in_one_each() {
        let mut c = Contention::of(&system()).unwrap();
        assert_eq!(stretch(&mut c, 1, 7, 0.0), 1.0);
        // Two threads at half the rate: four times as long.
        assert_eq!(stretch(&mut c, 2, 7, 5.0), 4.0);
        assert_eq!(stretch(&mut c, 2, 7, 50.0), 1.0);
        let mut c = Contention::of(&system()).unwrap();
        stretch(&mut c, 1, 7, 0.0);
        assert_eq!(stretch(&mut c, 2, 8, 5.0), 1.0);
        // Four threads at twice the rate of one.
        stretch(&mut c, 3, 9, 5.0);
        assert_eq!(stretch(&mut c, 4, 10, 5.0), 2.0);
    }

    #[test]
    fn requests_that_are_there_at_once_may_be_served_faster() {
        let m = |name: &str, v: f64| (MetricId::parse(name).unwrap(), v, v, v);
        let rates = [
            m("SC_FS_D1", 50.0),
            m("SC_FS_D2", 100.0),
            // More than four commits serve at once: one thread alone was disturbed.
            m("SC_FS_D4", 900.0),
        ];
        let at_once = AtOnce::of(&SystemVector::new("s", rates), "SC_FS_D").unwrap();
        let factors = [0, 1, 2, 3, 4, 9].map(|n| at_once.factor(n));
        assert_eq!(factors, [1.0, 1.0, 0.5, 0.375, 0.25, 0.25]);
        assert_eq!(AtOnce::of(&SystemVector::new("s", []), "SC_FS_D"), None);
    }

    #[test]
    fn one_thread_alone_and_systems_without_the_metrics_are_as_they_were() {
        let mut c = Contention::of(&system()).unwrap();
        for _ in 0..20 {
            assert_eq!(stretch(&mut c, 1, 7, 0.0), 1.0);
        }
        assert!(Contention::of(&SystemVector::new("s", [])).is_none());
    }
}
