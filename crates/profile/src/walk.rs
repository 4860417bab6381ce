//! Orders in which files are visited, by the distance from one to the next.

use crate::random::Random;

/// How far a near neighbour is at most, in files of one directory.
const NEAR: usize = 16;

/// All of `items`, each within [`NEAR`] places of the one before where any such is left.
pub(crate) fn near(random: &mut Random, items: &[usize]) -> Vec<usize> {
    let mut left: Vec<usize> = (0..items.len()).collect();
    let mut order = Vec::with_capacity(items.len());
    let mut at = 0usize;
    while !left.is_empty() {
        // `left` is sorted: those near the last one stand together.
        let from = left.partition_point(|&i| i + NEAR < at);
        let to = left.partition_point(|&i| i <= at + NEAR);
        let chosen = if from < to {
            from + random.below(to - from)
        } else {
            from.min(left.len() - 1)
        };
        at = left.remove(chosen);
        order.extend(items.get(at));
    }
    order
}

/// `most` different numbers below `count`, each at least a fourth of `count` from the one before.
pub(crate) fn far(random: &mut Random, count: usize, most: usize) -> Vec<usize> {
    let mut seen = vec![false; count];
    let mut order = Vec::with_capacity(most);
    let mut at = 0usize;
    for _ in 0..most.saturating_mul(4) {
        if order.len() >= most || count < 4 {
            break;
        }
        at = (at + count / 4 + random.below(count / 2)) % count;
        if let Some(slot) = seen.get_mut(at).filter(|s| !**s) {
            *slot = true;
            order.push(at);
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_visits_everything_once_and_mostly_close() {
        let items: Vec<usize> = (100..400).collect();
        let order = near(&mut Random::new(3), &items);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, items);
        let close = order
            .windows(2)
            .filter(|w| w[0].abs_diff(w[1]) <= NEAR)
            .count();
        assert!(close > 250, "{close} of 299 steps are near");
    }

    #[test]
    fn far_steps_are_at_least_a_fourth() {
        let order = far(&mut Random::new(3), 1000, 100);
        assert!(order.len() > 50);
        // A repeated place is skipped, the step after it starts from there.
        let long = order.windows(2).filter(|w| {
            let step = w[0].abs_diff(w[1]);
            step.min(1000 - step) >= 249
        });
        assert!(long.count() * 10 >= order.len() * 8);
    }
}
