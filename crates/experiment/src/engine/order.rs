//! Which step comes next: a pure function of the seed and of what was made so far, so that a continued
//! experiment makes the steps that an uninterrupted one makes.

use rand::seq::SliceRandom;
use rand_pcg::Pcg64;

use super::Series;

/// The series of the next step. Rounds: in each, every series that has not enough yet has one step, in an
/// order that the seed and the round give (Traeger 2007, section 4; Jain 1991, 16: a drift of the machine falls
/// on all alike).
pub(super) fn next(seed: u64, all: &[Series]) -> Option<usize> {
    let unfinished = all.iter().filter(|series| series.wanted > 0);
    let round = unfinished.map(|series| series.attempts).min()?;
    let mut order: Vec<(usize, &Series)> = all.iter().enumerate().collect();
    // Another sequence of the generator for each round, not another part of one.
    order.shuffle(&mut Pcg64::new(u128::from(seed), u128::from(round)));
    let of_round = |(_, series): &&(usize, &Series)| series.wanted > 0 && series.attempts == round;
    order.iter().find(of_round).map(|(at, _)| *at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All steps that follow.
    fn all(seed: u64, mut series: Vec<Series>) -> Vec<usize> {
        let mut order = Vec::new();
        while let Some(at) = next(seed, &series) {
            order.push(at);
            series[at].attempts += 1;
            series[at].wanted -= 1;
        }
        order
    }

    fn begun(wanted: [u32; 4]) -> Vec<Series> {
        let of = |wanted| Series {
            wanted,
            ..Series::default()
        };
        wanted.map(of).to_vec()
    }

    #[test]
    fn rounds_are_shuffled_and_repeatable() {
        let order = all(7, begun([6; 4]));
        assert_eq!(order.len(), 24);
        let mut rounds: Vec<Vec<usize>> = order.chunks(4).map(<[usize]>::to_vec).collect();
        assert_ne!(rounds[0], rounds[1]);
        for round in &mut rounds {
            round.sort_unstable();
            assert_eq!(*round, [0, 1, 2, 3]);
        }
        assert_eq!(all(7, begun([6; 4])), order);
        assert_ne!(all(8, begun([6; 4])), order);
    }

    #[test]
    fn a_stopped_experiment_goes_on_as_if_it_had_not_been() {
        let whole = all(3, begun([1, 3, 9, 3]));
        assert_eq!(whole.iter().filter(|&&at| at == 2).count(), 9);
        for cut in 0..=whole.len() {
            let mut series = begun([1, 3, 9, 3]);
            for &at in &whole[..cut] {
                series[at].attempts += 1;
                series[at].wanted -= 1;
            }
            assert_eq!(all(3, series), whole[cut..], "after {cut}");
        }
    }
}
