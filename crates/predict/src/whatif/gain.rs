//! How much of the elapsed time a change can save or cost.
//!
//! The programs' own work is as it was, so that elapsed time changes by no more than calls do, all threads together:
//! by themselves, and by what they wait for the device and for others. Beyond that the replay of threads only says that
//! they met differently, which the next run of the same workload would not repeat: a thread that comes a little
//! sooner may be in time for a processor that it missed before.

use crate::result::KindPrediction;

/// The elapsed time after a change, from those of both replays and what kinds of operations took in each.
pub fn elapsed_after(
    (elapsed_before, before): (f64, &[KindPrediction]),
    (elapsed_after, after): (f64, &[KindPrediction]),
) -> f64 {
    let (mut gained, mut lost) = (0.0, 0.0);
    let mut change = |ns: f64| {
        gained += (-ns).max(0.0);
        lost += ns.max(0.0);
    };
    let alone = |kind: &KindPrediction| kind.latency_ns - kind.waiting_ns;
    for kind in before {
        let then = after.iter().find(|then| then.kind == kind.kind);
        change(then.map_or(0.0, alone) - alone(kind));
        change(then.map_or(0.0, |then| then.waiting_ns) - kind.waiting_ns);
    }
    // No clamp, which does not bear what is no number.
    let least = (elapsed_before - gained).max(0.0);
    elapsed_after.max(least).min(elapsed_before + lost)
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "exact by construction")]
mod tests {
    use super::*;

    fn kinds(all: &[(&str, f64, f64)]) -> Vec<KindPrediction> {
        all.iter()
            .map(|&(kind, latency_ns, waiting_ns)| KindPrediction {
                kind: kind.to_owned(),
                count: 1,
                latency_ns,
                waiting_ns,
                processor_wait_ns: 0.0,
                interval_ns: None,
                share: 0.0,
            })
            .collect()
    }

    #[test]
    fn no_more_is_saved_than_calls_save() {
        let before = kinds(&[("read", 10.0, 4.0), ("write", 20.0, 0.0)]);
        let then = |after: &[(&str, f64, f64)], elapsed: f64| {
            elapsed_after((100.0, &before), (elapsed, &kinds(after)))
        };
        let half = [("read", 10.0, 4.0), ("write", 10.0, 0.0)];
        // What the replay says, as far as it can be.
        assert_eq!(then(&half, 92.0), 92.0);
        assert_eq!(then(&half, 88.0), 90.0);
        // Nothing takes longer.
        assert_eq!(then(&half, 101.0), 100.0);
        // Calls of a kind that are shorter and wait longer: each counts.
        assert_eq!(
            then(&[("read", 10.0, 7.0), ("write", 20.0, 0.0)], 96.0),
            97.0
        );
        assert_eq!(
            then(&[("read", 10.0, 7.0), ("write", 20.0, 0.0)], 109.0),
            103.0
        );
        // A kind that is gone saves all of its time.
        assert_eq!(then(&[("read", 10.0, 4.0)], 70.0), 80.0);
        assert_eq!(
            then(&[("read", 10.0, 4.0), ("write", 20.0, 0.0)], 99.0),
            100.0
        );
    }
}
