//! The finding: at most three lines, elapsed time first.

use fsage_format::result::prediction::{Confidence, PairRank, Prediction, Ranked};

use crate::units::counted;

use super::{is_disturbed, probability, range, steady, time, whole};

/// Elapsed times that lie within this of the best one's hardly differ.
const HARDLY: f64 = 1.05;

/// Up to this share of the elapsed time the file system hardly matters.
const HARDLY_SHARE: f64 = 0.10;

/// From this probability on an order is told as a fact.
const APART: f64 = 0.95;

/// The systems of which an order is told, and how sure it is of each two of them.
struct Race<'a> {
    result: &'a Prediction,
    ranking: Vec<&'a Ranked>,
    pairs: Vec<&'a PairRank>,
}

impl<'a> Race<'a> {
    /// Of all but the disturbed ones, where two are left.
    fn of(result: &'a Prediction) -> Self {
        let ranking = steady(result);
        let runs = |name: &String| ranking.iter().any(|r| r.name == *name);
        let pairs = result.pairs.iter();
        let pairs = pairs.filter(|p| runs(&p.faster) && runs(&p.slower));
        Self {
            result,
            pairs: pairs.collect(),
            ranking,
        }
    }
}

/// The finding's lines.
pub(super) fn lines(result: &Prediction) -> Vec<String> {
    let mut lines = match result.ranking.as_slice() {
        [] => vec![
            "No target can be predicted: costs that the workload needs are missing.".to_owned(),
        ],
        [only] => vec![single(result, only)],
        [..] => several(result),
    };
    if result.operations_charged == 0 && result.operations > 0 {
        lines.insert(
            0,
            format!(
                "Nothing is predicted: of {} of the trace none is on files of the traced file system \
                 (--under of the trace).",
                counted(result.operations, "operation")
            ),
        );
    }
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
        Some(_) => format!(" ({} with 95 %)", range(interval, only.elapsed_ns)),
        None => " (its interval is too wide to be of use)".to_owned(),
    };
    format!(
        "On {} it would take {}{known}, {}.",
        only.name,
        time(only.elapsed_ns),
        in_file_system(
            only.latency_total_ns,
            only.latency_total_ns,
            only.elapsed_ns
        ),
    )
}

/// Whether programs take nearly all of the time themselves, on every system, and about as long.
pub(super) fn hardly_matters(result: &Prediction) -> bool {
    if result.ranking.last().is_none_or(|r| r.ratio >= HARDLY) {
        return false;
    }
    let little = |r: &Ranked| r.latency_total_ns <= HARDLY_SHARE * r.elapsed_ns;
    let whole = result.ranking.len() == result.targets.len();
    whole && result.ranking.iter().all(little)
}

/// `35 ms to 371 ms of it in the file system`.
fn in_file_system(low: f64, high: f64, elapsed: f64) -> String {
    let times = span(low, high);
    // Threads spend time there at once.
    if high > elapsed {
        format!("all threads together {times} in the file system")
    } else {
        format!("{times} of it in the file system")
    }
}

/// `8 s to 8.2 s`, or the one time that both are written as.
fn span(low: f64, high: f64) -> String {
    let (low, high) = (time(low), time(high));
    if low == high {
        low
    } else {
        format!("{low} to {high}")
    }
}

fn several(result: &Prediction) -> Vec<String> {
    let (Some(best), Some(worst)) = (result.ranking.first(), result.ranking.last()) else {
        return Vec::new();
    };
    if hardly_matters(result) {
        return vec![hardly(result, best, worst)];
    }
    let race = Race::of(result);
    let mut lines = order(&race);
    lines.extend(left_out(&race));
    lines
}

/// Who is the fastest and who the slowest of them.
fn order(race: &Race<'_>) -> Vec<String> {
    let result = race.result;
    let Some(best) = race.ranking.first() else {
        return Vec::new();
    };
    let pairs = race.pairs.iter().copied();
    let against: Vec<&PairRank> = pairs.filter(|p| p.faster == best.name).collect();
    let close: Vec<&PairRank> = against.iter().copied().filter(|p| is_close(p)).collect();
    let mut lines = Vec::new();
    match close.as_slice() {
        [] => lines.extend(fastest(best, &against)),
        [one] if one.same_target => lines.push(format!(
            "{} and {} are two profiles of one target: {}, which differ by chance.",
            best.name,
            one.slower,
            times(result, &[best.name.as_str(), one.slower.as_str()])
        )),
        [.., last] => {
            let mut names = vec![best.name.as_str()];
            names.extend(close.iter().map(|p| p.slower.as_str()));
            if let Some(again) = too_disturbed(result, &names) {
                return vec![again];
            }
            let who = if alike(race, &names) {
                format!("{} cannot be told apart", listed(&names))
            } else {
                let others = names.get(1..).unwrap_or_default();
                format!("{} cannot be told apart from {}", best.name, listed(others))
            };
            lines.push(format!(
                "{who}: {} elapsed ({} faster than {}: probability {}).",
                times(result, &names),
                best.name,
                last.slower,
                probability(last.probability)
            ));
        }
    }
    if race.ranking.len() > 2 {
        lines.extend(slowest(race));
    }
    lines
}

/// The disturbed ones beside an order that is told without them: their places are not known.
fn left_out(race: &Race<'_>) -> Option<String> {
    let runs = |name: &str| race.ranking.iter().any(|r| r.name == name);
    let out = race.result.ranking.iter().map(|r| r.name.as_str());
    let out: Vec<&str> = out.filter(|name| !runs(name)).collect();
    let (whose, place, them) = match out.as_slice() {
        [] => return None,
        [_] => ("whose profile was", "its place is", "it"),
        _ => ("whose profiles were", "their places are", "them"),
    };
    Some(format!(
        "Caution: that is without {}, {whose} disturbed: {place} not known ({} elapsed by {them}); profile \
         {them} again.",
        listed(&out),
        times(race.result, &out),
    ))
}

/// What is said instead of an order that hangs on disturbed profiles.
fn too_disturbed(result: &Prediction, names: &[&str]) -> Option<String> {
    let again = names.iter().copied();
    let again: Vec<&str> = again.filter(|name| is_disturbed(result, name)).collect();
    (!again.is_empty()).then(|| {
        format!(
            "{}: {} elapsed, too disturbed to tell which is faster: profile {} again.",
            listed(names),
            times(result, names),
            listed(&again)
        )
    })
}

fn fastest(best: &Ranked, against: &[&PairRank]) -> Option<String> {
    // Before the next; it is as sure as before the one that comes nearest.
    let (next, least) = (against.first()?, least(against)?);
    Some(format!(
        "{} is {}the fastest: {} elapsed; {} {} (probability {}).",
        best.name,
        probably(least.probability),
        time(best.elapsed_ns),
        next.slower,
        slower(next.ratio),
        probability(next.probability)
    ))
}

fn is_close(pair: &PairRank) -> bool {
    pair.confidence == Confidence::NotDistinguishable
}

/// Whether no two of them can be told apart.
fn alike(race: &Race<'_>, names: &[&str]) -> bool {
    let has = |name: &String| names.contains(&name.as_str());
    let mut pairs = race.pairs.iter();
    pairs.all(|p| is_close(p) || !has(&p.faster) || !has(&p.slower))
}

/// The fewest at the end of the ranking of which each can be told from all that are faster, and the pair that is
/// least sure of these; nothing where there are none.
fn slowest(race: &Race<'_>) -> Option<String> {
    let across = |at: usize| -> Vec<&PairRank> {
        let fast = race.ranking.get(..at).unwrap_or_default();
        let is_fast = |name: &String| fast.iter().any(|r| r.name == *name);
        let pairs = race.pairs.iter().copied();
        pairs
            .filter(|p| is_fast(&p.faster) && !is_fast(&p.slower))
            .collect()
    };
    let mut cuts = (1..race.ranking.len()).rev();
    let at = cuts.find(|&at| !across(at).iter().any(|p| is_close(p)))?;
    let against = least(&across(at))?;
    let tied = race.ranking.get(at..)?;
    let names: Vec<&str> = tied.iter().map(|r| r.name.as_str()).collect();
    let probably = probably(against.probability);
    let certain = format!(
        "{} {} {}: probability {}",
        slower(against.ratio),
        held(against.ratio),
        against.faster,
        probability(against.probability)
    );
    let elapsed = times(race.result, &names);
    if let [one] = names.as_slice() {
        return Some(format!(
            "{one} is {probably}the slowest: {elapsed} elapsed; it {certain}."
        ));
    }
    let apart = if alike(race, &names) {
        " and cannot be told apart"
    } else {
        ""
    };
    Some(format!(
        "{} are {probably}the slowest{apart}: {elapsed} elapsed; {} {certain}.",
        listed(&names),
        against.slower
    ))
}

fn least<'a>(pairs: &[&'a PairRank]) -> Option<&'a PairRank> {
    let by = |a: &&&PairRank, b: &&&PairRank| a.probability.total_cmp(&b.probability);
    pairs.iter().min_by(by).copied()
}

/// Orders that are not told apart are no facts.
fn probably(p: f64) -> &'static str {
    if p < APART { "probably " } else { "" }
}

fn hardly(result: &Prediction, best: &Ranked, worst: &Ranked) -> String {
    let latencies = || result.ranking.iter().map(|r| r.latency_total_ns);
    let low = latencies().fold(f64::INFINITY, f64::min);
    let high = latencies().fold(0.0, f64::max);
    let elapsed = span(best.elapsed_ns, worst.elapsed_ns);
    format!(
        "The file system hardly matters: {elapsed} everywhere; {}.",
        in_file_system(low, high, worst.elapsed_ns)
    )
}

/// By how much it is the slower one: `takes 2.0 times as long`, as a sentence goes on after its name.
fn slower(ratio: f64) -> String {
    if ratio < 1.995 {
        format!("is {:.0} % slower", (ratio - 1.0) * 100.0)
    } else {
        format!("takes {ratio:.1} times as long")
    }
}

/// The word before what it is held against.
fn held(ratio: f64) -> &'static str {
    if ratio < 1.995 { "than" } else { "as" }
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
    span(*first, *last)
}
