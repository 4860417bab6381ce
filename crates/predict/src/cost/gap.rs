//! How long a thread has not made a call of a kind.
//!
//! After 150 us of other work a cached call costs about twice its hot-loop time, after milliseconds more, because caches of
//! data and instructions have gone cold; families with gaps are measured after the pauses of
//! [`GAPS_US`] and the cost between two of them is linear in the logarithm of the pause.

use fsage_core::metric::GAPS_US;

/// The gap of a back-to-back loop, in nanoseconds: what the loop itself takes between two calls.
const LOOP_NS: f64 = 100.0;

/// A place between two measured gaps: `share` of the way from `low` to `low + 1`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gap {
    /// Index in [`GAPS_US`].
    pub low: u8,
    /// 0 to 1.
    pub share: f32,
}

impl Gap {
    /// Back to back.
    pub const NONE: Gap = Gap { low: 0, share: 0.0 };
    /// The longest pause that is measured, and everything beyond.
    pub const LONGEST: Gap = Gap {
        low: GAPS_US.len() as u8 - 1,
        share: 0.0,
    };

    fn between(gap_ns: f64) -> Gap {
        let at = |i: usize| {
            GAPS_US
                .get(i)
                .map_or(0.0, |&us| (f64::from(us) * 1000.0).max(LOOP_NS))
        };
        let mut low = 0;
        while low + 1 < GAPS_US.len() && at(low + 1) <= gap_ns {
            low += 1;
        }
        if low + 1 == GAPS_US.len() || gap_ns <= at(low) {
            return Gap {
                low: low as u8,
                share: 0.0,
            };
        }
        let share = (gap_ns / at(low)).ln() / (at(low + 1) / at(low)).ln();
        Gap {
            low: low as u8,
            share: share as f32,
        }
    }
}

/// Gaps by octave and eighth of an octave, so that an operation needs no logarithm.
#[derive(Debug, Clone)]
pub struct GapTable {
    gaps: Vec<Gap>,
}

impl Default for GapTable {
    fn default() -> Self {
        let gaps = (0..64 * 8u32)
            .map(|i| Gap::between((8.0 + f64::from(i % 8)) / 8.0 * 2f64.powi((i / 8) as i32)))
            .collect();
        Self { gaps }
    }
}

impl GapTable {
    /// The gap of so many nanoseconds, within an eighth of an octave.
    #[inline]
    pub fn at(&self, gap_ns: u64) -> Gap {
        let ns = gap_ns.max(1);
        let octave = ns.ilog2();
        let eighth = if octave >= 3 {
            (ns >> (octave - 3)) & 7
        } else {
            (ns << (3 - octave)) & 7
        };
        self.gaps
            .get((octave * 8) as usize + eighth as usize)
            .copied()
            .unwrap_or(Gap::LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_gaps_are_met_and_the_rest_lies_between() {
        let table = GapTable::default();
        assert_eq!(table.at(0), Gap::NONE);
        assert_eq!(table.at(90), Gap::NONE);
        assert_eq!(table.at(u64::MAX), Gap::LONGEST);
        assert_eq!(table.at(1 << 21), Gap::LONGEST);
        assert_eq!(table.at(300_000).low, 3);
        let three = table.at(3162);
        assert_eq!(three.low, 1);
        assert!((three.share - 0.5).abs() < 0.05, "{three:?}");
        let mut last = 0.0;
        for ns in (0..22).map(|i| 1u64 << i) {
            let gap = table.at(ns);
            let place = f32::from(gap.low) + gap.share;
            assert!(place >= last, "{ns}");
            last = place;
        }
    }
}
