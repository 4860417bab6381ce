//! What a result has, and lacks, of what the field's guidelines ask (Traeger, Zadok, Joukov and Wright
//! 2007, section 3).
//!
//! Pure functions of what was stored: each kind of result is first brought into one form
//! ([`evidence`]), and each guideline looks at that ([`guidelines`]).

pub mod evidence;
pub mod guidelines;
mod rules;
mod stored;

use fsage_format::result::compliance::{
    COMPLIANCE_FORMAT, COMPLIANCE_VERSION, Compliance, GuidelineFinding, GuidelineState,
};

pub use evidence::Evidence;
use guidelines::{Answer, GUIDELINES, Guideline};

/// Holds a result against every guideline. `path` is where it came from; `paragraph` the environment as
/// a paper tells it.
pub fn check(path: &str, evidence: &Evidence, paragraph: String) -> Compliance {
    let guidelines: Vec<GuidelineFinding> =
        GUIDELINES.iter().map(|g| finding(g, evidence)).collect();
    let count = |state| {
        let all = guidelines.iter().filter(|g| g.state == state).count();
        u32::try_from(all).unwrap_or(u32::MAX)
    };
    Compliance {
        format: COMPLIANCE_FORMAT.to_owned(),
        compliance_version: COMPLIANCE_VERSION,
        path: path.to_owned(),
        checked: evidence.kind.to_owned(),
        met: count(GuidelineState::Met),
        partly: count(GuidelineState::Partly),
        missing: count(GuidelineState::Missing),
        author: count(GuidelineState::Author),
        not_applicable: count(GuidelineState::NotApplicable),
        guidelines,
        paragraph,
    }
}

fn finding(guideline: &Guideline, evidence: &Evidence) -> GuidelineFinding {
    let (state, has, missing) = match (guideline.judge)(evidence) {
        Answer::Author(has) => (GuidelineState::Author, has, Vec::new()),
        Answer::NotApplicable(why) => (GuidelineState::NotApplicable, vec![why], Vec::new()),
        Answer::Found { has, missing } => {
            let state = match (has.is_empty(), missing.is_empty()) {
                (_, true) => GuidelineState::Met,
                (false, false) => GuidelineState::Partly,
                (true, false) => GuidelineState::Missing,
            };
            (state, has, missing)
        }
    };
    let lacks = !missing.is_empty() || state == GuidelineState::Author;
    GuidelineFinding {
        name: guideline.name.to_owned(),
        section: guideline.section.to_owned(),
        asks: guideline.asks.to_owned(),
        state,
        has,
        missing,
        advice: lacks.then(|| guideline.advice.to_owned()),
    }
}

#[cfg(test)]
mod tests;
