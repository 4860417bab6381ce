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

/// At most `most` different numbers below `count`, each at least a fourth of `count` from the one before, also around the
/// end; fewer where all that are left lie nearer.
pub(crate) fn far(random: &mut Random, count: usize, most: usize) -> Vec<usize> {
    let mut seen = vec![false; count];
    let mut order = Vec::with_capacity(most.min(count));
    let apart = count.div_ceil(4);
    let places = (count + 1).saturating_sub(2 * apart);
    let mut at = 0usize;
    while order.len() < most && places > 1 {
        let first = random.below(places);
        let mut others = (first..first + places).map(|n| (at + apart + n % places) % count);
        let Some(next) = others.find(|&n| seen.get(n) == Some(&false)) else {
            break;
        };
        if let Some(slot) = seen.get_mut(next) {
            *slot = true;
        }
        order.push(next);
        at = next;
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
        for (count, most, least) in [
            (1000, 100, 100),
            (45, 45, 40),
            (4, 4, 4),
            (1, 1, 0),
            (0, 9, 0),
        ] {
            let order = far(&mut Random::new(3), count, most);
            assert!(order.len() >= least, "{} of {most}", order.len());
            for two in order.windows(2) {
                let step = two[0].abs_diff(two[1]);
                assert!(step.min(count - step) >= count.div_ceil(4), "{order:?}");
            }
            let mut all = order.clone();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), order.len());
        }
    }
}
