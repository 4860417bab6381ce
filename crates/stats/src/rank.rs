//! A test of two sets that asks for no distribution.

use std::cmp::Ordering;

use crate::describe::sorted;
use crate::normal;

/// Samples without ties have an exact distribution up to this many pairs.
const MOST_PAIRS: usize = 2500;

/// The two-sided probability of Wilcoxon's and Mann and Whitney's rank sum (1945, 1947) between sets of
/// one distribution: exact without ties, else the normal approximation with corrections for ties and
/// continuity. It rests on order alone: no sample, however far away, decides it. `None` for an empty
/// set, a NaN, or where all samples are equal.
pub fn rank_sum(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.is_empty() || b.is_empty() || a.iter().chain(b).any(|x| x.is_nan()) {
        return None;
    }
    let (na, nb) = (a.len() as f64, b.len() as f64);
    let above: f64 = a
        .iter()
        .flat_map(|x| b.iter().map(move |y| (x, y)))
        .map(|(x, y)| match x.partial_cmp(y) {
            Some(Ordering::Greater) => 1.0,
            Some(Ordering::Equal) => 0.5,
            _ => 0.0,
        })
        .sum();
    let larger = above.max(na * nb - above);
    let all = sorted(&a.iter().chain(b).copied().collect::<Vec<_>>());
    let tied: f64 = all
        .chunk_by(|x, y| x == y)
        .map(|run| (run.len() as f64).powi(3) - run.len() as f64)
        .sum();
    if tied == 0.0 && a.len() * b.len() <= MOST_PAIRS {
        return Some((2.0 * exact_upper_tail(a.len(), b.len(), larger as usize)).min(1.0));
    }
    let size = na + nb;
    let variance = na * nb / 12.0 * (size + 1.0 - tied / (size * (size - 1.0)));
    if variance <= 0.0 {
        return None;
    }
    let z = (larger - na * nb / 2.0 - 0.5) / variance.sqrt();
    Some((2.0 * normal::upper_tail(z)).clamp(0.0, 1.0))
}

/// P(U >= u) where all orders of `na` and `nb` samples are equally likely: the coefficients of the
/// Gaussian binomial (Mann and Whitney 1947, section 3).
fn exact_upper_tail(na: usize, nb: usize, u: usize) -> f64 {
    let most = na * nb;
    let mut ways = vec![0.0_f64; most + 1];
    ways[0] = 1.0;
    // Times (1 - q^(nb + i)) / (1 - q^i) for i from 1 to na, and by their number so far, so that
    // nothing overflows.
    for i in 1..=na {
        for at in (nb + i..=most).rev() {
            ways[at] -= ways[at - nb - i];
        }
        for at in i..=most {
            ways[at] += ways[at - i];
        }
        let scale = i as f64 / (nb + i) as f64;
        for count in &mut ways {
            *count *= scale;
        }
    }
    ways.iter().skip(u).sum()
}
