//! How far two traces are apart, by what is known of each ([`Characterised`]). Measures say *what* a workload does and
//! hold for a part of it as for the whole; how long it went on and how fast the file system was are told beside them and
//! count for nothing.

use fsage_core::OpKind;
use fsage_format::result::character::{
    Characterised, Likeness, LikenessReference, MeasureDistance, PhaseStats, Verdict,
};
use fsage_format::result::characterization::{AccessPattern, SizeBucket};
use fsage_stats::histogram::{ks_distance, shares};

/// What two seeds of one workload differ by, and what different workloads differ by at least. Three seeds each of PostMark,
/// a mail server, a web server, a file server and a web proxy (`crates/cli/tests/characterise.rs` holds them to it):
/// 0.0111 and 0.06 at the most, 0.124 at the least.
pub const REFERENCE: LikenessReference = LikenessReference {
    seeds_distance: 0.02,
    seeds_distance_worst: 0.1,
    others_distance: 0.11,
};

/// Parts of a trace with as many operations each, whose mixes are held against each other.
const PARTS: u64 = 100;

/// What not all traces tell.
const FILE_SIZES: &str = "file sizes";
const CONCURRENCY: &str = "concurrency";

type Distance = Option<f64>;
type Measure = (
    &'static str,
    &'static str,
    fn(&Characterised, &Characterised) -> Distance,
);

const MEASURES: [Measure; 12] = [
    (
        "operations",
        "share of operations of another kind or result",
        |a, b| Some(operations(a, b)),
    ),
    (
        "phases",
        "the same for each hundredth of the trace",
        |a, b| Some(phases(a, b)),
    ),
    (
        "read sizes",
        "Kolmogorov-Smirnov, in powers of two",
        |a, b| sizes(&a.found.read_sizes, &b.found.read_sizes),
    ),
    ("write sizes", "the same of writes", |a, b| {
        sizes(&a.found.write_sizes, &b.found.write_sizes)
    }),
    (FILE_SIZES, "the same of files", |a, b| {
        let [a, b] = [a, b].map(|c| counts(&c.found.file_sizes));
        // Who does not tell them may have any.
        a.zip(b).and_then(|(a, b)| ks_distance(&a, &b))
    }),
    (
        "sequential reads",
        "difference of their share of the reads",
        |a, b| sequential(&a.found.reads, &b.found.reads),
    ),
    (
        "sequential writes",
        "difference of their share of the writes",
        |a, b| sequential(&a.found.writes, &b.found.writes),
    ),
    (
        "bytes read",
        "difference of their share of the bytes moved",
        bytes_read,
    ),
    (
        "reuse",
        "largest difference of hits in any one cache",
        reuse,
    ),
    (
        "popularity",
        "largest difference of what the most used have",
        popularity,
    ),
    (
        CONCURRENCY,
        "Kolmogorov-Smirnov, operations under way",
        |a, b| {
            // Where no operation takes any time none is under way beside another.
            let [of_a, of_b] = [a, b].map(|c| &c.concurrency.others_under_way);
            let are_timed = is_timed(a) && is_timed(b);
            are_timed.then(|| ks_distance(of_a, of_b)).flatten()
        },
    ),
    ("groups", "share of operations of another group", |a, b| {
        let of = |c: &Characterised| c.groups.iter().map(|g| g.operations).collect::<Vec<_>>();
        Some(apart(&shares(&of(a)), &shares(&of(b))))
    }),
];

/// How far they are apart.
pub fn likeness(a: Characterised, b: Characterised) -> Likeness {
    let measures: Vec<MeasureDistance> = MEASURES
        .iter()
        .map(|(name, what, of)| MeasureDistance {
            name: (*name).into(),
            distance: of(&a, &b),
            what: (*what).into(),
            not_told_by: lacks(name, &a, &b),
        })
        .collect();
    let known: Vec<f64> = measures.iter().filter_map(|m| m.distance).collect();
    let distance = known.iter().sum::<f64>() / known.len().max(1) as f64;
    let distance_worst = known.iter().copied().fold(0.0, f64::max);
    let verdict = if distance <= REFERENCE.seeds_distance
        && distance_worst <= REFERENCE.seeds_distance_worst
    {
        Verdict::Same
    } else if distance < REFERENCE.others_distance {
        Verdict::Alike
    } else {
        Verdict::Different
    };
    Likeness {
        verdict,
        distance,
        distance_worst,
        measures,
        reference: REFERENCE,
        a,
        b,
    }
}

/// Half the sum of the differences of shares: what must change to make one the other.
fn apart(a: &[f64], b: &[f64]) -> f64 {
    let of = |s: &[f64], i: usize| s.get(i).copied().unwrap_or(0.0);
    let all = 0..a.len().max(b.len());
    all.map(|i| (of(a, i) - of(b, i)).abs()).sum::<f64>() / 2.0
}

/// Where only one of two has any, they have nothing in common.
fn of_both<T>(a: Option<T>, b: Option<T>, of: impl FnOnce(T, T) -> f64) -> Distance {
    match (a, b) {
        (None, None) => None,
        (Some(a), Some(b)) => Some(of(a, b)),
        _ => Some(1.0),
    }
}

fn operations(a: &Characterised, b: &Characterised) -> f64 {
    let of = |c: &Characterised| {
        let mut counts = vec![0; 2 * OpKind::ALL.len()];
        for kind in &c.found.kinds {
            let place = 2 * kind.kind as usize;
            if let Some([done, failed]) = counts.get_mut(place..place + 2) {
                (*done, *failed) = (kind.count.saturating_sub(kind.errors), kind.errors);
            }
        }
        shares(&counts)
    };
    apart(&of(a), &of(b))
}

/// The mix of that part of a trace.
fn mix(phases: &[PhaseStats], part: u64) -> Vec<f64> {
    let all: u64 = phases.iter().map(|p| p.operations).sum();
    let at = (u128::from(all) * u128::from(2 * part + 1) / u128::from(2 * PARTS)) as u64;
    let mut before = 0;
    let phase = phases.iter().find(|phase| {
        before += phase.operations;
        at < before
    });
    let mut counts = vec![0; OpKind::ALL.len()];
    for kind in phase.map_or(&[][..], |p| &p.kinds) {
        if let Some(n) = counts.get_mut(kind.kind as usize) {
            *n = kind.operations;
        }
    }
    shares(&counts)
}

fn phases(a: &Characterised, b: &Characterised) -> f64 {
    let parts = (0..PARTS).map(|part| apart(&mix(&a.phases, part), &mix(&b.phases, part)));
    parts.sum::<f64>() / PARTS as f64
}

fn counts(buckets: &[SizeBucket]) -> Option<Vec<u64>> {
    let mut counts = vec![0; 65];
    for bucket in buckets {
        let place = 64 - bucket.low_bytes.leading_zeros() as usize;
        if let Some(n) = counts.get_mut(place) {
            *n += bucket.count;
        }
    }
    counts.iter().any(|n| *n > 0).then_some(counts)
}

fn sizes(a: &[SizeBucket], b: &[SizeBucket]) -> Distance {
    let of_both_sides = |a: Vec<u64>, b: Vec<u64>| ks_distance(&a, &b).unwrap_or(1.0);
    of_both(counts(a), counts(b), of_both_sides)
}

/// Which of both does not tell what a measure asks for, where the other does.
fn lacks(name: &str, a: &Characterised, b: &Characterised) -> Option<std::path::PathBuf> {
    let [of_a, of_b] = match name {
        FILE_SIZES => [a, b].map(|c| counts(&c.found.file_sizes).is_some()),
        CONCURRENCY => [a, b].map(is_timed),
        _ => return None,
    };
    let without = if of_a { b } else { a };
    (of_a != of_b).then(|| without.trace.clone())
}

/// Whether the trace tells how long operations took.
fn is_timed(of: &Characterised) -> bool {
    of.found.latency_total_ns > 0
}

fn sequential(a: &AccessPattern, b: &AccessPattern) -> Distance {
    of_both(a.sequential_percent, b.sequential_percent, |a, b| {
        (a - b).abs() / 100.0
    })
}

fn bytes_read(a: &Characterised, b: &Characterised) -> Distance {
    let of = |c: &Characterised| {
        let all = c.found.bytes_read.saturating_add(c.found.bytes_written);
        (all > 0).then(|| c.found.bytes_read as f64 / all as f64)
    };
    of_both(of(a), of(b), |a, b| (a - b).abs())
}

fn reuse(a: &Characterised, b: &Characterised) -> Distance {
    let of = |c: &Characterised| {
        let hits: Vec<f64> = c.reuse.hits.iter().map(|h| h.hit_percent).collect();
        (c.reuse.page_accesses > 0).then_some(hits)
    };
    // A cache that is larger than all pages has no more than one with just the room.
    of_both(of(a), of(b), |a, b| {
        let at = |s: &[f64], i: usize| s.get(i).or(s.last()).copied().unwrap_or(0.0);
        let all = 0..a.len().max(b.len());
        let differ = all.map(|i| (at(&a, i) - at(&b, i)).abs() / 100.0);
        differ.fold(0.0, f64::max)
    })
}

fn popularity(a: &Characterised, b: &Characterised) -> Distance {
    let of = |c: &Characterised| {
        let all = c.popularity.shares.iter().map(|s| s.operations_percent);
        Some(all.collect::<Vec<f64>>()).filter(|all| !all.is_empty())
    };
    of_both(of(a), of(b), |a, b| {
        let differ = a.iter().zip(&b).map(|(a, b)| (a - b).abs() / 100.0);
        differ.fold(0.0, f64::max)
    })
}
