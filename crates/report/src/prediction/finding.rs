//! The finding: at most three lines, elapsed time first.

use fsage_format::result::prediction::{Confidence, PairRank, Prediction, Ranked};

use super::{probability, range, time, whole};

/// Elapsed times that lie within this of the best one's hardly differ.
const HARDLY: f64 = 1.05;

/// Below this share of the elapsed time a single system's file system hardly matters.
const HARDLY_SHARE: f64 = 0.05;

/// The finding's lines.
pub(super) fn lines(result: &Prediction) -> Vec<String> {
    let mut lines = match result.ranking.as_slice() {
        [] => vec![
            "No target can be predicted: costs that the workload needs are missing.".to_owned(),
        ],
        [only] => vec![single(result, only)],
        [best, ..] => several(result, best),
    };
    let incomplete: Vec<_> = result
        .targets
        .iter()
        .filter_map(|t| Some((t.name.as_str(), t.incomplete.as_ref()?)))
        .collect();
    match incomplete.as_slice() {
        [] => {}
        [(name, what)] => lines.push(format!("{name} is incomplete: {}.", what.reason)),
        [(first, what), ..] => {
            let names: Vec<&str> = incomplete.iter().map(|i| i.0).collect();
            lines.push(format!(
                "{} are incomplete; {first}: {}.",
                names.join(", "),
                what.reason
            ));
        }
    }
    lines
}

fn single(result: &Prediction, only: &Ranked) -> String {
    let interval = whole(result, only).and_then(|t| t.elapsed_interval_ns);
    let known = match interval {
        Some(_) => format!(" ({} with 95 %)", range(interval)),
        None => String::new(),
    };
    let hardly = if only.latency_total_ns < HARDLY_SHARE * only.elapsed_ns {
        " The file system hardly matters."
    } else {
        ""
    };
    format!(
        "On {} it would take {}{known}, {}.{hardly}",
        only.name,
        time(only.elapsed_ns),
        in_file_system(
            only.latency_total_ns,
            only.latency_total_ns,
            only.elapsed_ns
        ),
    )
}

/// `35 ms to 371 ms of it in the file system`.
fn in_file_system(low: f64, high: f64, elapsed: f64) -> String {
    let times = if time(low) == time(high) {
        time(low)
    } else {
        format!("{} to {}", time(low), time(high))
    };
    // Threads spend time there at once.
    if high > elapsed {
        format!("all threads together {times} in the file system")
    } else {
        format!("{times} of it in the file system")
    }
}

fn several(result: &Prediction, best: &Ranked) -> Vec<String> {
    let worst = result.ranking.last().unwrap_or(best);
    if worst.ratio < HARDLY {
        return vec![hardly(result, best, worst)];
    }
    let against: Vec<&PairRank> = result
        .pairs
        .iter()
        .filter(|p| p.faster == best.name)
        .collect();
    let close: Vec<&&PairRank> = against
        .iter()
        .filter(|p| p.confidence == Confidence::NotDistinguishable)
        .collect();
    let mut lines = Vec::new();
    match close.as_slice() {
        [] => lines.push(format!(
            "{} is the fastest: {} elapsed{}.",
            best.name,
            time(best.elapsed_ns),
            against.first().map_or_else(String::new, |p| format!(
                "; before {}, {}: {}",
                p.slower,
                slower(p.ratio),
                probability(p.probability)
            ))
        )),
        [one] if one.same_target => lines.push(format!(
            "{} and {} are two profiles of one target: {}, which differ by chance.",
            best.name,
            one.slower,
            times(result, &[best.name.as_str(), one.slower.as_str()])
        )),
        _ => {
            let mut names = vec![best.name.as_str()];
            names.extend(close.iter().map(|p| p.slower.as_str()));
            lines.push(format!(
                "{} cannot be told apart: {} elapsed ({} before {}: {}).",
                listed(&names),
                times(result, &names),
                best.name,
                names.last().copied().unwrap_or_default(),
                close
                    .last()
                    .map_or_else(String::new, |p| probability(p.probability))
            ));
        }
    }
    if let Some(last) = against.iter().find(|p| p.slower == worst.name)
        && last.confidence != Confidence::NotDistinguishable
        && result.ranking.len() > 2
    {
        lines.push(format!(
            "{} is the slowest: {} elapsed, {} {} before it: {}.",
            worst.name,
            time(worst.elapsed_ns),
            slower(last.ratio) + ";",
            best.name,
            probability(last.probability)
        ));
    }
    lines
}

fn hardly(result: &Prediction, best: &Ranked, worst: &Ranked) -> String {
    let latencies = || result.ranking.iter().map(|r| r.latency_total_ns);
    let low = latencies().fold(f64::INFINITY, f64::min);
    let high = latencies().fold(0.0, f64::max);
    let elapsed = if time(best.elapsed_ns) == time(worst.elapsed_ns) {
        time(best.elapsed_ns)
    } else {
        format!("{} to {}", time(best.elapsed_ns), time(worst.elapsed_ns))
    };
    format!(
        "The file system hardly matters: {elapsed} everywhere; {}.",
        in_file_system(low, high, worst.elapsed_ns)
    )
}

fn slower(ratio: f64) -> String {
    if ratio < 1.995 {
        format!("{:.0} % slower", (ratio - 1.0) * 100.0)
    } else {
        format!("{ratio:.1} times as long")
    }
}

fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn times(result: &Prediction, names: &[&str]) -> String {
    let of = |name: &&str| result.ranking.iter().find(|r| r.name == **name);
    let all: Vec<f64> = names.iter().filter_map(of).map(|r| r.elapsed_ns).collect();
    let (Some(first), Some(last)) = (all.first(), all.last()) else {
        return String::new();
    };
    format!("{} to {}", time(*first), time(*last))
}
