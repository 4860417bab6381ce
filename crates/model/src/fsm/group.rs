//! What belongs together: processes that behave alike, and times in which the mix is the same.

use rustc_hash::FxHashMap;

use super::gather::{Gather, Shape};
use super::step::Form;

/// There are at most so many groups.
pub const GROUPS: usize = 12;

/// How often what was done.
pub type Mix = FxHashMap<u32, u64>;

/// Mixes whose cosine is more than this are alike.
const ALIKE: f64 = 0.8;

fn cosine(a: &Mix, b: &Mix) -> f64 {
    let dot: f64 = a
        .iter()
        .filter_map(|(k, &n)| Some(n as f64 * *b.get(k)? as f64))
        .sum();
    let norm = |m: &Mix| m.values().map(|&n| (n as f64).powi(2)).sum::<f64>().sqrt();
    dot / (norm(a) * norm(b)).max(f64::MIN_POSITIVE)
}

/// What threads do alike.
pub struct Groups {
    /// The group of each thread.
    pub of: Vec<u32>,
    /// Whether threads of a group differ in how large the files are that they work on.
    pub of_any_size: bool,
}

/// The group of each thread; `together` says which of them are apart from others.
pub fn groups(gather: &Gather, together: &[u32]) -> Groups {
    let threads = &gather.threads;
    let grouped = |mixes: &[&Mix]| {
        let mixes = mixes.iter().copied().zip(together.iter().copied());
        alike(mixes, GROUPS)
    };
    let mixes: Vec<&Mix> = threads.iter().map(|t| &t.mix).collect();
    let by_shape = grouped(&mixes);
    let sized = |of| Groups {
        of,
        of_any_size: false,
    };
    if by_shape.all_alike {
        return sized(by_shape.groups);
    }
    // Many processes that each do one thing to a file of another size, as a shell's loop begins: the size is the file's,
    // not theirs.
    let rough = rough(&gather.shapes);
    let mixes: Vec<Mix> = mixes.iter().map(|mix| merged(mix, &rough)).collect();
    let by_steps = grouped(&mixes.iter().collect::<Vec<_>>());
    if by_steps.all_alike {
        Groups {
            of: by_steps.groups,
            of_any_size: true,
        }
    } else {
        sized(by_shape.groups)
    }
}

/// Of each shape the first with the same steps whatever they move.
fn rough(shapes: &[Shape]) -> Vec<u32> {
    let mut first: FxHashMap<Vec<Form>, u32> = FxHashMap::default();
    let number = |(at, shape): (usize, &Shape)| {
        let forms = shape.forms.iter().map(|form| form.of_any_size());
        *first.entry(forms.collect()).or_insert(at as u32)
    };
    shapes.iter().enumerate().map(number).collect()
}

/// A mix by other numbers of its shapes.
fn merged(mix: &Mix, numbers: &[u32]) -> Mix {
    let mut merged = Mix::default();
    for (&shape, &times) in mix {
        let number = numbers.get(shape as usize).copied().unwrap_or(shape);
        *merged.entry(number).or_default() += times;
    }
    merged
}

/// Which mixes belong together.
struct Alike {
    /// The group of each.
    groups: Vec<u32>,
    /// Whether each is like the first of its group.
    all_alike: bool,
}

/// A group for each mix: the first that is alike, of the same `apart` (Hartigan's leader algorithm, 1975). There are
/// at most `most` groups; what comes then goes to the nearest. Who did nothing makes no group.
fn alike<'m>(mixes: impl Iterator<Item = (&'m Mix, u32)>, most: usize) -> Alike {
    let mut leaders: Vec<(&Mix, u32)> = Vec::new();
    let mut groups = Vec::new();
    let mut all_alike = true;
    for (mix, apart) in mixes {
        if mix.is_empty() {
            groups.push(0);
            continue;
        }
        let near = leaders.iter().enumerate().filter(|(_, l)| l.1 == apart);
        let near = near
            .map(|(i, l)| (cosine(mix, l.0), i))
            .max_by(|a, b| a.0.total_cmp(&b.0));
        let group = match near {
            Some((cosine, i)) if cosine > ALIKE || leaders.len() >= most => {
                all_alike &= cosine > ALIKE;
                i
            }
            _ => {
                leaders.push((mix, apart));
                leaders.len() - 1
            }
        };
        groups.push(group as u32);
    }
    Alike { groups, all_alike }
}

/// Fewer bins than this are no phase.
const LEAST_BINS: usize = 4;

/// How much the log-likelihood of bins is worth if they are one mix.
fn likelihood(counts: &[u64]) -> f64 {
    let total: u64 = counts.iter().sum();
    let term = |&n: &u64| {
        if n == 0 {
            0.0
        } else {
            n as f64 * (n as f64 / total as f64).ln()
        }
    };
    counts.iter().map(term).sum()
}

/// Where the mix changes: the first bin of each phase, 0 among them. Binary segmentation (Scott and Knott 1974) on
/// the log-likelihood of multinomial counts; a cut must gain more than Schwarz's criterion asks for, and at
/// least one per cent of the operations' own scatter.
pub fn phases(bins: &[Vec<u64>], most: usize) -> Vec<usize> {
    let kinds = bins.first().map_or(0, Vec::len);
    let mut sums = vec![vec![0_u64; kinds]];
    for bin in bins {
        let last = sums.last().cloned().unwrap_or_default();
        sums.push(last.iter().zip(bin).map(|(a, b)| a + b).collect());
    }
    let between = |from: usize, to: usize| -> Vec<u64> {
        match (sums.get(from), sums.get(to)) {
            (Some(a), Some(b)) => a.iter().zip(b).map(|(a, b)| b - a).collect(),
            _ => Vec::new(),
        }
    };
    let total: u64 = between(0, bins.len()).iter().sum();
    let used = between(0, bins.len()).iter().filter(|n| **n > 0).count();
    let penalty = (used as f64 / 2.0 * (total.max(1) as f64).ln()).max(total as f64 / 100.0);
    let best = |from: usize, to: usize| {
        let whole = likelihood(&between(from, to));
        let cuts = (from + LEAST_BINS)..(to + 1).saturating_sub(LEAST_BINS);
        let gain = |cut| likelihood(&between(from, cut)) + likelihood(&between(cut, to)) - whole;
        cuts.map(|cut| (gain(cut), cut))
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .filter(|b| b.0 > penalty)
    };
    let mut starts = vec![0];
    while starts.len() < most {
        let ends = starts.iter().copied().skip(1).chain([bins.len()]);
        let found = starts
            .iter()
            .zip(ends)
            .filter_map(|(&from, to)| best(from, to));
        let Some((_, cut)) = found.max_by(|a, b| a.0.total_cmp(&b.0)) else {
            break;
        };
        starts.push(cut);
        starts.sort_unstable();
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_the_mix_is_found_where_it_is() {
        let bin = |i: u64, a: u64| vec![a + i % 3, 100 - a + i % 2, 0];
        let bins: Vec<Vec<u64>> = (0..100)
            .map(|i| bin(i, if i < 37 { 90 } else { 20 }))
            .collect();
        assert_eq!(phases(&bins, 8), [0, 37]);
        let same: Vec<Vec<u64>> = (0..100).map(|i| bin(i, 50)).collect();
        assert_eq!(phases(&same, 8), [0]);
        assert_eq!(phases(&[], 8), [0]);
    }

    #[test]
    fn what_does_the_like_is_one_group() {
        let mix = |all: &[(u32, u64)]| all.iter().copied().collect::<Mix>();
        let mixes = [
            mix(&[(1, 10), (2, 5)]),
            mix(&[(1, 2), (2, 1)]),
            mix(&[(3, 7)]),
            mix(&[(1, 9), (2, 5)]),
        ];
        let of = |apart: [u32; 4], most| alike(mixes.iter().zip(apart), most).groups;
        assert_eq!(of([0; 4], 9), [0, 0, 1, 0]);
        assert_eq!(of([0, 0, 0, 1], 9), [0, 0, 1, 2]);
        assert_eq!(of([0; 4], 1), [0; 4]);
    }
}
