//! Values with how often each came, and what draws from them.

use std::fmt;
use std::str::FromStr;

use rustc_hash::FxHashMap;

/// A random sequence, the same for the same seed everywhere (SplitMix64; Steele 2014).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The sequence of that seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A uniform number under `n`, 0 for `n` = 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(z ^ (z >> 31)) * u128::from(n)) >> 64) as u64
    }
}

/// Values, each with how often it came; written `VALUE*TIMES,…`, once being left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dist(pub Vec<(u64, u64)>);

impl Dist {
    /// How many values there were.
    pub fn count(&self) -> u64 {
        self.0.iter().fold(0, |n, v| n.saturating_add(v.1))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The same where only shares matter: a value that is the only one stands once.
    pub fn shares(mut self) -> Self {
        if let [(_, times)] = self.0.as_mut_slice() {
            *times = 1;
        }
        self
    }

    /// Whether it holds nothing but `value`.
    pub fn is_only(&self, value: u64) -> bool {
        self.0.iter().all(|v| v.0 == value)
    }

    /// So many values instead, `factor` times as large: equal parts of these by their means, so that the sum is
    /// `factor` times what so many of these have, and none is less than `least`.
    pub fn stretched(&self, count: u64, factor: f64, least: u64) -> Self {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let each = sorted.iter().map(|v| v.1 as f64).sum::<f64>() / count as f64;
        let mut out = Stretched::new(least);
        // What there is of a part that is not whole yet: its weight, and its sum.
        let (mut weight, mut sum) = (0.0, 0.0);
        for (value, times) in sorted {
            let (value, mut left) = (value as f64, times as f64);
            if weight > 0.0 {
                let more = left.min(each - weight);
                (weight, sum, left) = (weight + more, sum + more * value, left - more);
                if weight >= each * ALMOST {
                    out.push(sum / weight * factor, 1);
                    (weight, sum) = (0.0, 0.0);
                }
            }
            let whole = (left / each + 1.0 - ALMOST).floor();
            out.push(value * factor, whole as u64);
            left -= whole * each;
            if left > each * (1.0 - ALMOST) {
                (weight, sum) = (weight + left, sum + left * value);
            }
        }
        let lacks = count.saturating_sub(out.count);
        if lacks > 0 && !self.is_empty() {
            let last = self.most() as f64;
            let mean = if weight > 0.0 { sum / weight } else { last };
            out.push(mean * factor, lacks);
        }
        Self(out.values)
    }

    /// The sum of all.
    pub fn sum(&self) -> u128 {
        let products = self
            .0
            .iter()
            .map(|&(value, n)| u128::from(value) * u128::from(n));
        products.fold(0, u128::saturating_add)
    }

    /// The mean, 0 of none.
    pub fn mean(&self) -> f64 {
        let sum: f64 = self.0.iter().map(|v| v.0 as f64 * v.1 as f64).sum();
        sum / self.count().max(1) as f64
    }

    /// The largest value.
    pub fn most(&self) -> u64 {
        self.0.iter().map(|v| v.0).max().unwrap_or(0)
    }
}

/// Parts that differ by less are of one size: sums of fractions are not exact.
const ALMOST: f64 = 1.0 - 1e-9;

/// Values with fractions as whole ones whose sum is theirs.
#[derive(Debug)]
struct Stretched {
    values: Vec<(u64, u64)>,
    count: u64,
    least: u64,
    /// What the values so far are too small by, in all.
    lacks: f64,
}

impl Stretched {
    fn new(least: u64) -> Self {
        Self {
            values: Vec::new(),
            count: 0,
            least,
            lacks: 0.0,
        }
    }

    fn push(&mut self, value: f64, times: u64) {
        let wanted = value * times as f64 + self.lacks;
        // What those before could not be smaller by, these are.
        let low = (wanted / times.max(1) as f64)
            .floor()
            .max(self.least as f64);
        let more = (wanted - low * times as f64).round();
        let more = more.clamp(0.0, times as f64) as u64;
        self.lacks = wanted - low * times as f64 - more as f64;
        self.count += times;
        let low = low as u64;
        for entry in [(low, times - more), (low.saturating_add(1), more)] {
            match self.values.last_mut() {
                _ if entry.1 == 0 => {}
                Some(last) if last.0 == entry.0 => last.1 += entry.1,
                _ => self.values.push(entry),
            }
        }
    }
}

impl fmt::Display for Dist {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (value, times)) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            match times {
                1 => write!(f, "{comma}{value}")?,
                _ => write!(f, "{comma}{value}*{times}")?,
            }
        }
        Ok(())
    }
}

impl FromStr for Dist {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            |part: &str| format!("'{part}', expected VALUE or VALUE*TIMES, TIMES at least 1");
        let number = |text: &str| text.parse::<u64>().ok();
        let entry = |part: &str| {
            let (value, times) = part.split_once('*').unwrap_or((part, "1"));
            let times = number(times).filter(|t| (1..=1 << 40).contains(t));
            number(value).zip(times).ok_or_else(|| wrong(part))
        };
        text.split(',')
            .map(entry)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

/// Values as they come, in bounded memory: beyond so many distinct ones those of like size are put together.
#[derive(Debug, Clone, Default)]
pub struct Counter(FxHashMap<u64, (u64, u64)>);

const DISTINCT: usize = 1024;

impl Counter {
    /// One more value.
    pub fn add(&mut self, value: u64) {
        let full = self.0.len() >= DISTINCT && !self.0.contains_key(&value);
        let key = if full {
            let shift = (64 - value.leading_zeros()).saturating_sub(4);
            1 << 63 | u64::from(shift) << 8 | value >> shift
        } else {
            value
        };
        let (times, sum) = self.0.entry(key).or_default();
        *times += 1;
        *sum = sum.saturating_add(value);
    }

    /// Those of another beside.
    pub fn merge(&mut self, other: &Self) {
        for (&key, &(times, sum)) in &other.0 {
            let mine = self.0.entry(key).or_default();
            *mine = (mine.0 + times, mine.1.saturating_add(sum));
        }
    }

    /// The same in at most `bins` values: those that came often as they are, of the others equal parts by
    /// their means, so that the sum stays.
    pub fn dist(&self, bins: usize) -> Dist {
        let mut all: Vec<(u64, u64, u64)> = self
            .0
            .values()
            .map(|&(n, sum)| (sum / n.max(1), n, sum))
            .collect();
        all.sort_unstable();
        let total: u64 = all.iter().map(|v| v.1).sum();
        if all.len() <= bins {
            let mut exact: Vec<(u64, u64)> = Vec::new();
            for (value, n, _) in all {
                match exact.last_mut() {
                    Some(last) if last.0 == value => last.1 += n,
                    _ => exact.push((value, n)),
                }
            }
            return Dist(exact);
        }
        let part = total.div_ceil(bins.max(1) as u64).max(1);
        let mut out: Vec<(u64, u64)> = Vec::new();
        // The mean that stands for most values: a value that came often stays as it is.
        let mut most_mixed: Option<(u64, u64)> = None;
        let (mut n, mut sum, mut least) = (0_u64, 0_u64, None);
        // What the means that stand for the parts so far are too small by, in all.
        let mut lacks = 0_i128;
        let mut close = |n: &mut u64, sum: &mut u64, least: &mut Option<u64>, most: u64| {
            let (times, wanted) = (i128::from(*n), i128::from(*sum));
            if let Some(mean) = (wanted + lacks + times / 2).checked_div(times) {
                let least = i128::from(least.unwrap_or(0));
                let mean = mean.clamp(least, i128::from(most).max(least));
                lacks += wanted - mean * times;
                let entry = (u64::try_from(mean).unwrap_or(u64::MAX), *n);
                let mixed = least < i128::from(most);
                if mixed && most_mixed.is_none_or(|m| m.1 < entry.1) {
                    most_mixed = Some(entry);
                }
                out.push(entry);
            }
            (*n, *sum, *least) = (0, 0, None);
        };
        let mut before = 0;
        for (value, times, value_sum) in all {
            if times >= part {
                close(&mut n, &mut sum, &mut least, before);
            }
            n += times;
            sum = sum.saturating_add(value_sum);
            least.get_or_insert(value);
            before = value;
            if n >= part {
                close(&mut n, &mut sum, &mut least, before);
            }
        }
        close(&mut n, &mut sum, &mut least, before);
        even(&mut out, most_mixed, lacks);
        Dist(out)
    }
}

/// So many of a value become larger or smaller by one that the sum is `lacks` more.
fn even(values: &mut Vec<(u64, u64)>, often: Option<(u64, u64)>, lacks: i128) {
    let least = values.iter().map(|v| v.0).min().unwrap_or(0);
    let changed = u64::try_from(lacks.unsigned_abs()).unwrap_or(u64::MAX);
    let same = values.iter_mut().find(|v| Some(**v) == often);
    let Some(often) = same.filter(|v| (1..v.1).contains(&changed)) else {
        return;
    };
    let other = if lacks < 0 {
        often.0.checked_sub(1).filter(|v| *v >= least)
    } else {
        often.0.checked_add(1)
    };
    if let Some(other) = other {
        often.1 -= changed;
        values.push((other, changed));
        values.sort_unstable();
    }
}

/// Draws without putting back, so that what is drawn as often as there are values has their sum; then anew.
#[derive(Debug, Clone, Default)]
pub struct Deck {
    left: Vec<(u64, u64)>,
    total: u64,
}

impl Deck {
    /// How many are left before it begins anew.
    pub fn left(&self) -> u64 {
        self.total
    }

    /// The next value; 0 of a distribution without any.
    pub fn draw(&mut self, dist: &Dist, random: &mut Random) -> u64 {
        if let [(value, _)] = dist.0.as_slice() {
            return *value;
        }
        if self.total == 0 {
            self.left.clone_from(&dist.0);
            self.total = dist.count();
        }
        let mut at = random.below(self.total);
        for (value, times) in &mut self.left {
            if at < *times {
                *times -= 1;
                self.total -= 1;
                return *value;
            }
            at -= *times;
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_bins_keep_number_and_sum() {
        let mut counter = Counter::default();
        // 1667 are 4096 of themselves, and 64 squared.
        let values: Vec<u64> = (0..5000)
            .map(|i| if i % 3 == 0 { 4096 } else { i * i })
            .collect();
        for &v in &values {
            counter.add(v);
        }
        let dist = counter.dist(12);
        assert!(dist.0.len() <= 26, "{dist}");
        let sum: u64 = dist.0.iter().map(|(v, n)| v * n).sum();
        let want: u64 = values.iter().sum();
        assert_eq!(dist.count(), 5000);
        assert_eq!(sum, want);
        assert!(dist.0.contains(&(4096, 1668)), "{dist}");
        assert_eq!(dist.to_string().parse::<Dist>().unwrap(), dist);
    }

    #[test]
    fn as_many_values_as_asked_for_have_the_sum_that_so_many_have() {
        let dist: Dist = "1*3,10*2,700,20000*4".parse().unwrap();
        let sum = |dist: &Dist| dist.0.iter().map(|(v, n)| v * n).sum::<u64>();
        assert_eq!(dist.stretched(10, 1.0, 0), dist);
        for (count, factor) in [
            (5, 1.0),
            (7, 1.0),
            (100, 1.0),
            (4, 2.5),
            (10, 0.5),
            (1, 0.1),
        ] {
            let found = dist.stretched(count, factor, 0);
            let wanted = sum(&dist) as f64 / 10.0 * count as f64 * factor;
            assert_eq!(found.count(), count, "{found}");
            assert!(
                (sum(&found) as f64 - wanted).abs() <= 1.0,
                "{found}: {wanted}"
            );
        }
        // What cannot be smaller stays, and others make it good.
        let small = dist.stretched(10, 0.01, 1);
        assert_eq!(small.0.first(), Some(&(1, 5)));
        assert_eq!((small.count(), sum(&small)), (10, 807));
        assert!(Dist::default().stretched(3, 1.0, 0).is_empty());
    }

    #[test]
    fn what_is_drawn_as_often_as_there_are_values_has_their_sum() {
        let dist: Dist = "1*3,10*2,7".parse().unwrap();
        let (mut deck, mut random) = (Deck::default(), Random::new(1));
        let mut drawn: Vec<u64> = (0..6).map(|_| deck.draw(&dist, &mut random)).collect();
        drawn.sort_unstable();
        assert_eq!(drawn, [1, 1, 1, 7, 10, 10]);
        for bad in ["", "x", "1*0", "-1", "1*", "1,,2"] {
            assert!(bad.parse::<Dist>().is_err(), "{bad}");
        }
    }
}
