//! What a result lacks of what the guidelines ask, as a list.

use fsage_format::result::compliance::{Compliance, GuidelineFinding, GuidelineState};

/// What is there and missing is told up to so many lines for each guideline; the JSON has all.
const TOLD: usize = 4;

/// Everything that a terminal shows.
pub fn text(compliance: &Compliance) -> String {
    let mut out = format!(
        "{} ({}) held against the guidelines of Traeger, Zadok, Joukov and Wright 2007, section 3\n",
        compliance.path, compliance.checked
    );
    for guideline in &compliance.guidelines {
        out.push_str(&finding(guideline));
    }
    out.push_str(&format!(
        "\n{} met, {} in part, {} missing, {} are the author's, {} do not concern this result\n",
        compliance.met,
        compliance.partly,
        compliance.missing,
        compliance.author,
        compliance.not_applicable
    ));
    out
}

fn finding(guideline: &GuidelineFinding) -> String {
    let mut out = format!(
        "\n{:<8} {} {}: {}\n",
        state(guideline.state),
        guideline.section,
        guideline.name,
        guideline.asks
    );
    for (sign, lines) in [("has", &guideline.has), ("missing", &guideline.missing)] {
        for line in lines.iter().take(TOLD) {
            out.push_str(&format!("         {sign}: {line}\n"));
        }
        if lines.len() > TOLD {
            out.push_str(&format!(
                "         {sign}: {} more (--json)\n",
                lines.len() - TOLD
            ));
        }
    }
    if let Some(advice) = &guideline.advice {
        out.push_str(&format!("         do: {advice}\n"));
    }
    out
}

fn state(state: GuidelineState) -> &'static str {
    match state {
        GuidelineState::Met => "met",
        GuidelineState::Partly => "in part",
        GuidelineState::Missing => "MISSING",
        GuidelineState::Author => "author",
        GuidelineState::NotApplicable => "none",
    }
}
