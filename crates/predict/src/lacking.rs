//! What a system's totals lack, and what else must be known of them.

use std::cmp::Reverse;

use crate::cost::{Stem, cut_short};
use crate::result::{Incomplete, MissingCost};
use crate::run::{Predictor, Target};

/// Families of a missing cost that the one line names.
const NAMED: usize = 3;

impl Target {
    /// What its totals lack; `None` where they are whole. `partial_ns` is what could be added up.
    pub(crate) fn incomplete(&self, partial_ns: f64) -> Option<Incomplete> {
        let mut missing: Vec<MissingCost> = Stem::ALL
            .iter()
            .filter(|&&stem| self.ledger.uses(stem) > 0 && self.lacks(stem))
            .map(|&stem| MissingCost {
                family: stem.name().to_owned(),
                what: what(stem).to_owned(),
                uses: self.ledger.uses(stem),
                stand_in: self.plan.substitute(stem),
            })
            .collect();
        missing.sort_by_key(|m| Reverse(m.uses));
        (!missing.is_empty()).then(|| Incomplete {
            reason: reason(&missing, self.vector.broken_off.as_deref()),
            missing,
            partial_latency_ns: partial_ns,
        })
    }

    /// Whether uses of a family are missing from the totals. Where the measurement was broken off, a
    /// substitute is what chance left for what would have been measured next.
    fn lacks(&self, stem: Stem) -> bool {
        let next = stem.family().is_some_and(|family| family.row().quick)
            && self.vector.broken_off.is_some()
            && self.plan.substitute(stem).is_some();
        next || self.plan.lacks(stem, self.vector.machine.deviceless)
    }

    /// Substitutes, by family.
    pub(crate) fn substitutes(&self) -> Vec<String> {
        let used = Stem::ALL
            .iter()
            .map(|&stem| (stem, self.ledger.uses(stem)))
            .filter(|&(_, uses)| uses > 0);
        used.filter_map(|(stem, uses)| self.substitute(stem, uses))
            .collect()
    }

    fn substitute(&self, stem: Stem, uses: u64) -> Option<String> {
        let name = stem.name();
        let other = self.plan.substitute(stem)?;
        let refused = &self.vector.not_offered;
        if stem
            .family()
            .is_some_and(|family| refused.contains(&family))
        {
            return Some(format!(
                "{} ({name}): not offered there, so that a program fails or goes another way; {other} stands in for it in \
                 {uses} uses",
                what(stem)
            ));
        }
        Some(match other.as_str() {
            "" => format!(
                "{name} was not measured and is taken to be in the costs of the calls ({uses} uses)"
            ),
            other => format!("{name} was not measured; {other} stands in for it in {uses} uses"),
        })
    }
}

fn reason(missing: &[MissingCost], broken_off: Option<&str>) -> String {
    let named: Vec<&str> = missing
        .iter()
        .take(NAMED)
        .map(|m| m.family.as_str())
        .collect();
    let more = missing.len().saturating_sub(NAMED);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    let uses: u64 = missing.iter().map(|m| m.uses).sum();
    let why = broken_off.map_or_else(String::new, |why| format!(" (profile: {why})"));
    let times = match uses {
        1 => "once".to_owned(),
        uses => format!("{uses} times"),
    };
    format!(
        "{} not measured, needed {times}{why}",
        named.join(", ") + &more
    )
}

fn what(stem: Stem) -> &'static str {
    stem.family().map_or("", |family| family.row().what)
}

impl Predictor {
    /// What makes a system's numbers less sure.
    pub(crate) fn target_warnings(&self, target: &Target) -> Vec<String> {
        let mut warnings = target.substitutes();
        let broken_off = target.vector.broken_off.iter();
        warnings.extend(broken_off.map(|why| format!("the profile is not whole: {why}")));
        if target.ledger.uses(Stem::Rx) > 0
            && let Some((farthest, anywhere)) = cut_short(&target.vector)
        {
            warnings.push(format!(
                "RX was measured up to {farthest} KiB only; {anywhere} stands in for what is farther off"
            ));
        }
        for (name, what) in [("BC", "page"), ("DNLC", "name"), ("MDC", "attribute")] {
            if target.vector.named(name).is_none() {
                warnings.push(format!(
                    "{name} was not measured; the {what} cache has no bound"
                ));
            }
        }
        if target.vector.named("WR0").is_none() {
            warnings.push("WR was not measured; no overhead of streams written behind".to_owned());
        }
        let Some(view) = self.views.get(target.view) else {
            return warnings;
        };
        if let Some(pages) = target
            .at_least_pages
            .filter(|&p| view.pages.len() as u64 > p)
        {
            warnings.push(format!(
                "the page cache was measured to hold at least {} KiB; the workload holds more, and \
                 is taken to fit",
                pages * 4
            ));
        }
        if view.pages_not_followed > 0 {
            warnings.push(format!(
                "{} GiB of very long reads and writes are not followed page by page, but taken to be like the \
                 4 MiB before them in the same call",
                view.pages_not_followed.div_ceil(1 << 18)
            ));
        }
        warnings
    }
}
