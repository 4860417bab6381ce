//! What a workload would cost: the answer on one screen. [`details()`] has the rest.

mod changed;
mod details;
mod finding;
#[cfg(test)]
mod tests;

use details::details;

use fsage_format::result::prediction::{
    FamilyShare, HELP_SAID, Help, MARKED_MOST, Prediction, Ranked, TargetPrediction,
};

use crate::page::Page;
use crate::table::{Align, TextTable};
use crate::units::{LONGEST_PLAIN_NS, count, duration, percent, time_unit};

/// Families of metrics that are told of a system.
const FAMILIES_SHOWN: usize = 3;
/// Kinds of operations that are told of a single system.
const KINDS_SHOWN: usize = 5;
/// Shares of a total on marked metrics, and on where files lie, from which on it is said.
const MARKED_SAID: f64 = 0.05;
const UNPLACED_SAID: f64 = 0.2;
/// Changes that are told to help, and the least share that they save.
const HELPS_SHOWN: usize = 2;
/// Longer times are no longer told apart: 31 years, 277,778 hours.
const FOR_EVER_NS: f64 = 1e18;

/// Lines of the answer, as far as it can be.
const LINES: usize = 24;

/// How much of the answer is left to the details, so that it fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Brief {
    /// Everything follows.
    All,
    Not,
    /// What makes it doubtful is said of all systems together.
    Doubts,
    /// And where the time goes of the best one alone.
    Worst,
}

/// The answer: the finding, one table, where the time goes and what would help; at most 24 lines of 80
/// columns for four systems; with `all` the details follow.
pub fn text(result: &Prediction, all: bool, width: u16) -> String {
    if all && !is_older(result) {
        return answer(result, width, Brief::All) + "\n" + &details(result, width);
    }
    let fits = |text: &String| text.lines().count() <= LINES;
    let briefer = [Brief::Not, Brief::Doubts].map(|brief| answer(result, width, brief));
    let fitting = briefer.into_iter().find(fits);
    fitting.unwrap_or_else(|| answer(result, width, Brief::Worst))
}

/// Whether it is of a release that gave no places as they are given now.
fn is_older(result: &Prediction) -> bool {
    result.ranking.is_empty() && result.targets.iter().any(|t| t.incomplete.is_none())
}

fn answer(result: &Prediction, width: u16, brief: Brief) -> String {
    let mut page = Page::new(width);
    if is_older(result) {
        page.say(
            "This prediction was made by an older release, which ranked by latency and had neither \
             intervals of elapsed times nor probabilities: predict again for an answer.",
        );
        page.blank();
        page.append(&details(result, width));
        return page.finish();
    }
    let changed = changed::say(result, &mut page);
    for (index, line) in finding::lines(result).into_iter().enumerate() {
        let before = if changed && index == 0 {
            "As profiled: "
        } else {
            ""
        };
        page.say(format!("{before}{line}"));
    }
    page.blank();
    match result.targets.as_slice() {
        [one] if one.incomplete.is_none() => page.table(&kinds(one, width)),
        _ => page.table(&targets(result, width)),
    }
    page.blank();
    let shown = if brief == Brief::Worst { 1 } else { 2 };
    for (target, role) in reported(result).into_iter().take(shown) {
        if let Some(text) = where_time_goes(target, role) {
            page.say(text);
        }
    }
    if result.what_if.is_empty() {
        help(result, &mut page);
    }
    more(result, brief, &mut page);
    page.finish()
}

/// A time in words, however long.
fn time(ns: f64) -> String {
    if ns.abs() >= FOR_EVER_NS {
        ">270,000 h".to_owned()
    } else {
        duration(ns)
    }
}

/// An interval in the unit of the time that it is of, two digits: `6.1–11 s`.
fn range(interval: Option<(f64, f64)>, of_ns: f64) -> String {
    let Some((low, high)) = interval else {
        return "unusable".to_owned();
    };
    if high >= FOR_EVER_NS {
        return ">270,000 h".to_owned();
    }
    let (scale, unit) = match of_ns {
        ns if ns < LONGEST_PLAIN_NS => time_unit(ns),
        _ => (60e9, "min"),
    };
    format!(
        "{}–{} {unit}",
        two_digits(low / scale),
        two_digits(high / scale)
    )
}

fn two_digits(value: f64) -> String {
    match value {
        v if v >= 999.5 => count((v / 100.0).round() as u64 * 100),
        v if v >= 9.95 => format!("{v:.0}"),
        v if v >= 0.995 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// A probability; never certainty.
fn probability(p: f64) -> String {
    match p {
        p if p >= 0.995 => "over 99 %".to_owned(),
        p => format!("{:.0} %", p * 100.0),
    }
}

fn whole<'a>(result: &'a Prediction, place: &Ranked) -> Option<&'a TargetPrediction> {
    result.targets.iter().find(|t| t.name == place.name)
}

/// Whether most of a system's time stands on metrics that were disturbed.
fn is_disturbed(result: &Prediction, name: &str) -> bool {
    let mut targets = result.targets.iter();
    targets.any(|t| t.name == name && t.uncertainty.marked_share > MARKED_MOST)
}

/// The ranking of those of which an order can be told: without the disturbed ones, where two are left.
fn steady(result: &Prediction) -> Vec<&Ranked> {
    let all = || result.ranking.iter();
    let steady: Vec<&Ranked> = all().filter(|r| !is_disturbed(result, &r.name)).collect();
    if steady.len() > 1 {
        steady
    } else {
        all().collect()
    }
}

fn targets(result: &Prediction, width: u16) -> TextTable {
    let mut table = TextTable::new(
        &[
            ("target", Align::Left),
            ("elapsed", Align::Right),
            ("95 %", Align::Right),
            ("in the file system", Align::Right),
            ("its 95 %", Align::Right),
            ("against the best", Align::Right),
        ],
        width,
    )
    .dropping(&["its 95 %"]);
    let best = steady(result).first().copied();
    for place in &result.ranking {
        let Some(target) = whole(result, place) else {
            continue;
        };
        let against = best.map_or_else(String::new, |best| against(result, place, best));
        table.row([
            target.name.clone(),
            time(place.elapsed_ns),
            range(target.elapsed_interval_ns, place.elapsed_ns),
            time(place.latency_total_ns),
            range(target.latency_interval_ns, place.latency_total_ns),
            against,
        ]);
    }
    for target in result.targets.iter().filter(|t| t.incomplete.is_some()) {
        table.row([
            target.name.as_str(),
            "incomplete",
            "",
            "unknown",
            "",
            "no place",
        ]);
    }
    table
}

/// A system's elapsed time against that of the best of those of which an order is told.
fn against(result: &Prediction, place: &Ranked, best: &Ranked) -> String {
    let disturbed = is_disturbed(result, &best.name);
    if place.name == best.name {
        let mut among = steady(result).into_iter();
        let unknown = among.any(|r| is_disturbed(result, &r.name));
        return if unknown { "lowest" } else { "best" }.to_owned();
    }
    let ratio = place.elapsed_ns / best.elapsed_ns.max(1.0);
    let mut pairs = result.pairs.iter();
    match pairs.find(|p| p.faster == best.name && p.slower == place.name) {
        Some(p) if p.same_target => format!("x{ratio:.2}, same"),
        _ if disturbed || is_disturbed(result, &place.name) => format!("x{ratio:.2}, disturbed"),
        Some(p) => format!(
            "x{ratio:.2}, {}",
            probability(p.probability).replace("over ", ">")
        ),
        None => format!("x{ratio:.2}"),
    }
}

/// The kinds of operations of a single system, the rest in a row of its own.
fn kinds(target: &TargetPrediction, width: u16) -> TextTable {
    let mut table = TextTable::new(
        &[
            ("operation", Align::Left),
            ("count", Align::Right),
            ("in the file system", Align::Right),
            ("of it", Align::Right),
            ("each", Align::Right),
        ],
        width,
    );
    let mut order: Vec<_> = target.kinds.iter().collect();
    order.sort_by(|a, b| b.latency_ns.total_cmp(&a.latency_ns));
    let mut row = |name: String, number: u64, ns: f64, share: f64| {
        table.row([
            name,
            count(number),
            time(ns),
            percent(share),
            time(ns / number.max(1) as f64),
        ]);
    };
    let shown = if order.len() == KINDS_SHOWN + 1 {
        order.len()
    } else {
        KINDS_SHOWN
    };
    for kind in order.iter().take(shown) {
        row(kind.kind.clone(), kind.count, kind.latency_ns, kind.share);
    }
    let rest = order.get(shown..).unwrap_or_default();
    if !rest.is_empty() {
        row(
            format!("{} others", rest.len()),
            rest.iter().map(|k| k.count).sum(),
            rest.iter().map(|k| k.latency_ns).sum(),
            rest.iter().map(|k| k.share).sum(),
        );
    }
    let total = target.latency_total_ns.unwrap_or_default();
    let number = target.kinds.iter().map(|k| k.count).sum();
    row(
        "total".to_owned(),
        number,
        total,
        f64::from(u8::from(total > 0.0)),
    );
    table
}

/// The systems of which is told where the time goes: the best and the worst.
fn reported(result: &Prediction) -> Vec<(&TargetPrediction, &'static str)> {
    let ends = match steady(result).as_slice() {
        [] => vec![],
        [only] => vec![(*only, "")],
        [best, .., worst] => vec![(*best, " (best)"), (*worst, " (worst)")],
    };
    let mut ends: Vec<_> = ends
        .into_iter()
        .filter_map(|(place, role)| Some((whole(result, place)?, role)))
        .collect();
    if finding::hardly_matters(result) || ends.iter().any(|(t, _)| is_disturbed(result, &t.name)) {
        for (_, role) in &mut ends {
            *role = "";
        }
    }
    ends
}

/// `On ext4 (best), 35 ms in the file system: 40 % fsync … (FSY), …, 12 % other.`
fn where_time_goes(target: &TargetPrediction, role: &str) -> Option<String> {
    let total = target.latency_total_ns.unwrap_or_default();
    let alone = total - target.waiting_ns;
    if alone <= 0.0 || target.families.is_empty() {
        return None;
    }
    let mut parts: Vec<String> = target
        .families
        .iter()
        .take(FAMILIES_SHOWN)
        .filter(|f| f.share >= 0.005)
        .map(family)
        .collect();
    let named: f64 = target
        .families
        .iter()
        .take(parts.len())
        .map(|f| f.share)
        .sum();
    if named < 0.995 && !parts.is_empty() {
        parts.push(format!("{:.0} % other", (1.0 - named) * 100.0));
    }
    // The total is the table's; what other threads add to calls, or spare them, no metric measures.
    let others = match target.waiting_ns {
        ns if ns >= 0.005 * total => format!(
            " {} is waiting for other threads; of the other {}",
            time(ns),
            time(alone)
        ),
        ns if ns <= -0.005 * total => format!(
            ", {} less than without other threads; of these {}",
            time(-ns),
            time(alone)
        ),
        _ => String::new(),
    };
    Some(format!(
        "On {}{role}, of {} in the file system{others}: {}.",
        target.name,
        time(total),
        parts.join(", ")
    ))
}

fn family(family: &FamilyShare) -> String {
    let share = family.share * 100.0;
    format!("{share:.0} % {} ({})", family.what, family.family)
}

/// What would help most on the best system: of the elapsed time, or where nothing does of that in calls.
fn help(result: &Prediction, page: &mut Page) {
    let best = steady(result).first().and_then(|p| whole(result, p));
    let Some(best) = best else {
        return;
    };
    let elapsed = best.elapsed_ns.unwrap_or_default();
    let of_elapsed = |h: &&Help| {
        let saved = h.elapsed_saved_ns;
        saved.is_some_and(|ns| ns > 0.0 && ns >= HELP_SAID * elapsed)
    };
    let (mut helps, rest): (Vec<&Help>, Vec<&Help>) = best.helps.iter().partition(of_elapsed);
    let in_calls = helps.is_empty();
    if in_calls {
        helps = rest.into_iter().filter(|h| h.share >= HELP_SAID).collect();
    }
    let helps: Vec<String> = helps
        .into_iter()
        .take(HELPS_SHOWN)
        .map(|h| {
            let saved = match h.elapsed_saved_ns {
                Some(ns) if !in_calls => format!("{} of {} elapsed", time(ns), time(elapsed)),
                _ => format!("{} in the file system", time(h.saves_ns)),
            };
            format!("{} saves {saved} (--what-if '{}')", h.what, h.change)
        })
        .collect();
    if helps.is_empty() {
        return;
    }
    let known = best.helps.iter().any(|h| h.elapsed_saved_ns.is_some());
    let least = if in_calls && known {
        ", and less than 1 % of the elapsed time"
    } else {
        ""
    };
    page.say(format!(
        "What would help most on {}: {}{least}.",
        best.name,
        helps.join("; ")
    ));
}

/// What makes it less sure, as far as it must be said here, and where the rest is.
fn more(result: &Prediction, brief: Brief, page: &mut Page) {
    let whole = || result.targets.iter().filter(|t| t.incomplete.is_none());
    if brief <= Brief::Not {
        for target in whole() {
            if let Some(trouble) = &target.uncertainty.trouble {
                page.say(format!("{}: {trouble}.", target.name));
            }
        }
        // What the trace itself leaves open, on any system; the details end with it.
        let open = result.warnings.iter().filter(|_| brief != Brief::All);
        for text in open
            .map(|text| format!("Caution: {text}."))
            .chain(cautions(result))
        {
            page.say(text);
        }
    }
    if brief == Brief::All {
        return;
    }
    let warnings: usize = result.targets.iter().map(|t| t.warnings.len()).sum();
    let unsaid = if brief <= Brief::Not {
        0
    } else {
        result.warnings.len()
    };
    let warnings = warnings + unsaid;
    let to_know = (warnings > 0).then(|| format!("{} to know", plural(warnings, "thing")));
    let mut said = Vec::new();
    if brief > Brief::Not {
        said = doubts(&whole().collect::<Vec<_>>());
    }
    said.extend(to_know);
    let mut last = Vec::new();
    if !said.is_empty() {
        last.push(format!("{}: --details.", said.join("; ")));
    }
    // Where there is no room the details alone have it.
    if brief < Brief::Worst {
        last.extend(start(&result.start));
        let context = result.context.as_ref();
        last.extend(context.map(|context| {
            let system = &context.system;
            format!("Costs are corrected by what the trace's calls took on {system}.")
        }));
    }
    if !last.is_empty() {
        page.say(last.join(" "));
    }
}

/// What is taken to be cached at first: on a fast device it decides more than the file system does.
fn start(state: &str) -> Option<String> {
    let other = match state {
        "cold" => "warm",
        "warm" => "cold",
        _ => return None,
    };
    Some(format!(
        "Caches are {state} at the start (--start {other})."
    ))
}

/// The same of all systems together; the details have each one's own.
fn doubts(targets: &[&TargetPrediction]) -> Vec<String> {
    let all = targets.len();
    let over = |least: f64, share: &dyn Fn(&TargetPrediction) -> f64| {
        let over = targets.iter().filter(|t| share(t) > least);
        let over: Vec<&TargetPrediction> = over.copied().collect();
        let most = over.iter().map(|t| share(t)).fold(0.0, f64::max) * 100.0;
        match over.as_slice() {
            [] => None,
            [one] => Some(format!("{most:.0} % of the time on {}", one.name)),
            many => Some(format!(
                "up to {most:.0} % of the time on {} of {all} targets",
                many.len()
            )),
        }
    };
    let marked = over(MARKED_SAID, &|t| t.uncertainty.marked_share);
    let unplaced = over(UNPLACED_SAID, &|t| t.uncertainty.unplaced_share);
    let doubtful = targets.iter().filter(|t| t.uncertainty.trouble.is_some());
    let doubtful = doubtful.count();
    let parts = [
        marked.map(|what| {
            format!(
                "{what} stands on metrics that were disturbed (profile again on a quiet machine)"
            )
        }),
        unplaced.map(|what| {
            format!("{what} hangs on where files lie to each other (--snapshot, made after `sync`)")
        }),
        (doubtful > 0).then(|| format!("{doubtful} of {all} intervals are doubtful")),
    ];
    let mut parts: Vec<String> = parts.into_iter().flatten().collect();
    if let Some(first) = parts.first_mut() {
        first.insert_str(0, "Caution: ");
    }
    parts
}

/// What the profiles and the lack of a snapshot make doubtful, of all systems in a line each.
fn cautions(result: &Prediction) -> Vec<String> {
    let of = |what: &dyn Fn(&TargetPrediction) -> Option<String>| {
        let whole = result.targets.iter().filter(|t| t.incomplete.is_none());
        whole.filter_map(what).collect::<Vec<_>>().join(", ")
    };
    let marked = of(&|t| {
        let u = &t.uncertainty;
        (u.marked_share > MARKED_SAID).then(|| {
            let (marked, all) = (u.marked.len(), u.carrying);
            // Of these metrics; others that are marked too add little each.
            let its = t.metrics.iter().filter(|m| u.marked.contains(&m.name));
            let (what, share) = match marked {
                0 => ("small ones".to_owned(), u.marked_share),
                _ => (format!("{marked} of {all}"), its.map(|m| m.share).sum()),
            };
            let share = share * 100.0;
            format!("{what} on {} ({share:.0} % of its time)", t.name)
        })
    });
    let unplaced = of(&|t| {
        let share = t.uncertainty.unplaced_share;
        (share > UNPLACED_SAID).then(|| format!("{:.0} % on {}", share * 100.0, t.name))
    });
    let mut cautions = Vec::new();
    if !marked.is_empty() {
        cautions.push(format!(
            "Caution: of the metrics that carry the total, {marked} were disturbed when they were measured, \
             or disagree: profile again on a quiet machine."
        ));
    }
    if !unplaced.is_empty() {
        cautions.push(format!(
            "Of the time, {unplaced} hangs on where files lie to each other, which only a snapshot from \
             before the trace, made after `sync`, tells (--snapshot)."
        ));
    }
    cautions
}

fn plural(number: usize, noun: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} more {noun}{s}")
}
