//! What else the machine did during a procedure: the marks of a run, as `fsage bench` has them.

use fsage_format::profile::Disturbance;
use fsage_host::observe::{MachineTimes, Usage, Whose, running_children_user_ns};
use fsage_host::pauses::Pauses;

use std::cell::RefCell;

use fsage_host::speed::Reference;

use crate::lab::Lab;

/// How fast the machine was, from moment to moment.
pub(crate) struct Pace {
    reference: Option<RefCell<Reference>>,
    readings_ns: RefCell<Vec<u64>>,
}

impl Pace {
    /// Where time is computed the machine's speed makes no difference.
    pub(crate) fn new(computed: bool) -> Self {
        let reference = if computed { None } else { Reference::new() };
        Self {
            reference: reference.map(RefCell::new),
            readings_ns: RefCell::default(),
        }
    }

    fn read_ns(&self) -> Option<u64> {
        let taken_ns = self.reference.as_ref()?.borrow_mut().take_ns();
        self.readings_ns.borrow_mut().push(taken_ns);
        Some(taken_ns)
    }

    /// The median of all readings.
    pub(crate) fn usual_ns(&self) -> Option<u64> {
        let readings: Vec<f64> = self
            .readings_ns
            .borrow()
            .iter()
            .map(|&ns| ns as f64)
            .collect();
        (!readings.is_empty()).then(|| fsage_stats::median(&readings) as u64)
    }
}

/// Others that use more of a processor than this change what is measured, as a share of elapsed time.
const OTHERS_SHARE: f64 = 0.10;
/// A hypervisor that takes more than this.
const STOLEN_SHARE: f64 = 0.02;
/// The measuring thread waits for a processor for more than this. Its batches that waited are thrown
/// away; beyond this what is left was not alone either.
const WAITED_SHARE: f64 = 0.05;
/// The kernel counts in ticks of 10 ms: fewer than this are chance.
const LEAST_TICKS_NS: u64 = 100_000_000;
/// Shorter delays are those of any thread that wakes up.
const LEAST_DELAY_NS: u64 = 2_000_000;

/// A reading of the machine's and this process's clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watch {
    at_ns: u64,
    own_ns: u64,
    own_system_ns: u64,
    machine: Option<MachineTimes>,
    delay_ns: u64,
    reference_ns: Option<u64>,
    pauses: Pauses,
}

impl Watch {
    pub(crate) fn now(lab: &Lab<'_>) -> Self {
        let at_ns = lab.clock.now_ns();
        // What the machine does makes no difference to a time that is computed.
        if lab.fs.virtual_time().is_some() {
            return Self {
                at_ns,
                own_ns: 0,
                own_system_ns: 0,
                machine: None,
                delay_ns: 0,
                reference_ns: None,
                pauses: Pauses::default(),
            };
        }
        let own = Usage::of(Whose::Process).and(&Usage::of(Whose::Children));
        Self {
            at_ns,
            // A daemon that serves the target is no other process.
            own_ns: own.user_ns + running_children_user_ns(),
            own_system_ns: own.system_ns,
            machine: MachineTimes::now(),
            delay_ns: lab.sched.run_delay_ns(),
            reference_ns: lab.pace.read_ns(),
            pauses: Pauses::now(),
        }
    }

    /// What happened from this reading to a later one.
    pub(crate) fn until(&self, after: &Self, procedure: &str) -> Disturbance {
        let elapsed_ns = after.at_ns.saturating_sub(self.at_ns).max(1);
        let share = |ns: u64| ns as f64 / elapsed_ns as f64;
        let own = after.own_ns.saturating_sub(self.own_ns);
        let machine = after.machine.zip(self.machine);
        let others =
            machine.map(|(a, b)| (a.user_ns.saturating_sub(b.user_ns)).saturating_sub(own));
        let stolen = machine.map(|(a, b)| a.stolen_ns.saturating_sub(b.stolen_ns));
        let waited = after.delay_ns.saturating_sub(self.delay_ns);
        // A journal's and a device's threads that share the processor are part of what is measured.
        let own_system = after.own_system_ns.saturating_sub(self.own_system_ns);
        let kernel = machine.map_or(0, |(a, b)| {
            a.system_ns
                .saturating_sub(b.system_ns)
                .saturating_sub(own_system)
        });
        let reported = |ns: Option<u64>, least: u64, most: f64, words: &str| {
            let ns = ns.filter(|&ns| ns >= least && share(ns) > most)?;
            Some(words.replace('#', &format!("{:.0} %", 100.0 * share(ns))))
        };
        let marks = [
            after.pauses.since(&self.pauses),
            reported(
                others,
                LEAST_TICKS_NS,
                OTHERS_SHARE,
                "other processes used # of a processor",
            ),
            reported(
                stolen,
                LEAST_TICKS_NS,
                STOLEN_SHARE,
                "the hypervisor took # of a processor",
            ),
            reported(
                Some(waited.saturating_sub(kernel)),
                LEAST_DELAY_NS,
                WAITED_SHARE,
                "the measuring thread waited for a processor in # of the time",
            ),
        ];
        Disturbance {
            procedure: procedure.to_owned(),
            repeated: 0,
            others_share: others.map(share),
            stolen_share: stolen.map(share),
            waited_share: Some(share(waited)),
            reference_ns: self
                .reference_ns
                .zip(after.reference_ns)
                .map(|(a, b)| u64::midpoint(a, b)),
            marks: marks.into_iter().flatten().collect(),
        }
    }
}

/// How much was disturbed, to compare two measurements of one procedure.
pub(crate) fn weight(d: &Disturbance) -> f64 {
    let of = |share: Option<f64>| share.unwrap_or(0.0);
    of(d.others_share) + of(d.stolen_share) + of(d.waited_share)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64, own: u64, all: u64, stolen: u64, delay: u64) -> Watch {
        Watch {
            at_ns: seconds * 1_000_000_000,
            own_ns: own,
            own_system_ns: 0,
            machine: Some(MachineTimes {
                user_ns: all,
                system_ns: 0,
                stolen_ns: stolen,
            }),
            delay_ns: delay,
            reference_ns: Some(2_000_000 + own / 500),
            pauses: Pauses::default(),
        }
    }

    #[test]
    fn a_quiet_second_has_no_mark() {
        let quiet = at(0, 0, 0, 0, 0).until(&at(1, 900_000_000, 980_000_000, 0, 1_000_000), "x");
        assert_eq!(quiet.marks, [] as [String; 0]);
        assert!(weight(&quiet) < 0.1);
        assert_eq!(
            quiet.reference_ns,
            Some(2_900_000),
            "the mean of before and after"
        );
    }

    #[test]
    fn each_disturbance_is_reported() {
        let busy = at(0, 0, 0, 0, 0).until(
            &at(2, 500_000_000, 2_500_000_000, 200_000_000, 400_000_000),
            "new files",
        );
        assert_eq!(
            busy.marks,
            [
                "other processes used 100 % of a processor",
                "the hypervisor took 10 % of a processor",
                "the measuring thread waited for a processor in 20 % of the time"
            ]
        );
        assert_eq!((busy.procedure.as_str(), weight(&busy)), ("new files", 1.3));
        let mut shared = at(1, 0, 0, 0, 150_000_000);
        shared.machine.as_mut().unwrap().system_ns = 110_000_000;
        let shared = at(0, 0, 0, 0, 0).until(&shared, "fsync");
        assert_eq!(
            shared.marks,
            [] as [String; 0],
            "mostly for the kernel's threads"
        );
        assert_eq!(shared.waited_share, Some(0.15));
        let mut after = at(1, 0, 0, 0, 0);
        after.pauses.stops = 1;
        let stopped = at(0, 0, 0, 0, 0).until(&after, "x");
        assert!(
            stopped.marks[0].starts_with("fsage was continued"),
            "{stopped:?}"
        );
    }
}
