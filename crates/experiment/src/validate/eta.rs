//! How long the rest of a validation takes, from what its steps took so far.

use std::collections::HashMap;

use super::plan::Step;

/// What steps took, nanoseconds.
#[derive(Debug, Default)]
pub struct Pace {
    took: HashMap<Step, u64>,
}

/// Whether two steps may take equally long, from the closest likeness to the loosest.
const LIKE: [fn(Step, Step) -> bool; 4] = [same_work, same_profile_or_workload, same_sort, any];

impl Pace {
    /// A step took that long.
    pub fn add(&mut self, step: Step, took_ns: u64) {
        self.took.insert(step, took_ns);
    }

    /// How long `rest` takes, seconds; `None` before the first step.
    pub fn remaining_s(&self, rest: &[Step]) -> Option<f64> {
        let ns: Option<f64> = rest.iter().map(|step| self.expected_ns(*step)).sum();
        ns.map(|ns| ns / 1e9)
    }

    fn expected_ns(&self, step: Step) -> Option<f64> {
        LIKE.iter().find_map(|like| {
            let (count, sum) = self
                .took
                .iter()
                .filter(|(other, _)| like(step, **other))
                .fold((0.0, 0.0), |(n, sum), (_, &ns)| (n + 1.0, sum + ns as f64));
            (count > 0.0).then(|| sum / count)
        })
    }
}

fn same_work(a: Step, b: Step) -> bool {
    match (a, b) {
        (Step::Profile { target, .. }, Step::Profile { target: other, .. }) => target == other,
        (
            Step::Measure {
                target, workload, ..
            },
            Step::Measure {
                target: other_target,
                workload: other,
                ..
            },
        ) => (target, workload) == (other_target, other),
        _ => false,
    }
}

fn same_profile_or_workload(a: Step, b: Step) -> bool {
    match (a, b) {
        (Step::Profile { .. }, Step::Profile { .. }) => true,
        (
            Step::Measure { workload, .. },
            Step::Measure {
                workload: other, ..
            },
        ) => workload == other,
        _ => false,
    }
}

fn same_sort(a: Step, b: Step) -> bool {
    std::mem::discriminant(&a) == std::mem::discriminant(&b)
}

fn any(_: Step, _: Step) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(target: usize, workload: usize, run: u32) -> Step {
        Step::Measure {
            target,
            workload,
            run,
        }
    }

    #[test]
    fn the_closest_likeness_decides() {
        let mut pace = Pace::default();
        assert_eq!(pace.remaining_s(&[run(0, 0, 0)]), None);
        assert_eq!(pace.remaining_s(&[]), Some(0.0));
        pace.add(
            Step::Profile {
                target: 0,
                instance: 0,
            },
            60_000_000_000,
        );
        assert_eq!(pace.remaining_s(&[run(0, 0, 0)]), Some(60.0));
        pace.add(run(0, 0, 0), 2_000_000_000);
        pace.add(run(1, 0, 0), 10_000_000_000);
        assert_eq!(pace.remaining_s(&[run(0, 0, 1)]), Some(2.0));
        assert_eq!(pace.remaining_s(&[run(2, 0, 1)]), Some(6.0));
        assert_eq!(pace.remaining_s(&[run(2, 5, 0), run(1, 0, 2)]), Some(16.0));
        let profile = Step::Profile {
            target: 3,
            instance: 0,
        };
        assert_eq!(pace.remaining_s(&[profile]), Some(60.0));
    }
}
