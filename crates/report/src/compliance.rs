//! What a result lacks of what the guidelines ask, as a list.

use std::fmt::Write as _;

use fsage_format::result::compliance::{Compliance, GuidelineFinding, GuidelineState};

use crate::labels::Labels;
use crate::page::Page;
use crate::table::{Align, TextTable};

/// What is there and missing is told up to so many lines for each guideline; the JSON has all.
const TOLD: usize = 4;

/// What a terminal shows: what is missing first, with what to do about it; with `details` every guideline.
pub fn text(compliance: &Compliance, details: bool, width: u16) -> String {
    let said = compliance.guidelines.iter();
    let said = said.flat_map(|g| g.missing.iter().chain(&g.has));
    let compliance = &Labels::in_sentences(said.map(String::as_str)).put(compliance);
    let mut page = Page::new(width);
    page.say(outcome(compliance));
    page.say(
        "checked is what it recorded of how it was measured (Traeger, Zadok, Joukov and Wright 2007, section 3), \
         not its figures",
    );
    if details {
        for guideline in &compliance.guidelines {
            finding(&mut page, guideline);
        }
        return page.finish();
    }
    let columns = [
        ("", Align::Left),
        ("section", Align::Left),
        ("guideline", Align::Left),
        ("what is missing", Align::Prose),
    ];
    let mut table = TextTable::new(&columns, width);
    let lacking =
        |g: &&GuidelineFinding| matches!(g.state, GuidelineState::Missing | GuidelineState::Partly);
    for guideline in compliance.guidelines.iter().filter(lacking) {
        table.row([
            state(guideline.state).to_owned(),
            guideline.section.clone(),
            guideline.name.clone(),
            match guideline.missing.len() {
                0 => guideline.advice.clone().unwrap_or_default(),
                1 => guideline.missing[0].clone(),
                n => format!("{} (and {} more)", guideline.missing[0], n - 1),
            },
        ]);
    }
    if !table.is_empty() {
        page.blank();
        page.table(&table);
    }
    page.blank();
    page.say("what is there, and what to do about the rest: --details; all of it: --json");
    page.finish()
}

/// How it came out, in a sentence.
fn outcome(found: &Compliance) -> String {
    let all = found.guidelines.len();
    let mut text = format!(
        "{} ({}): of {all} guidelines {} are met, {} in part, {} missing",
        found.path, found.checked, found.met, found.partly, found.missing
    );
    if found.author > 0 {
        let _ = write!(text, "; {} only its author can answer", found.author);
    }
    if found.not_applicable > 0 {
        let _ = write!(text, "; {} do not concern it", found.not_applicable);
    }
    text
}

fn finding(page: &mut Page, guideline: &GuidelineFinding) {
    page.blank();
    page.say(format!(
        "{:<8} {} {}: {}",
        state(guideline.state),
        guideline.section,
        guideline.name,
        guideline.asks
    ));
    for (sign, lines) in [("has", &guideline.has), ("missing", &guideline.missing)] {
        for line in lines.iter().take(TOLD) {
            page.item(format!("{sign}: {line}"));
        }
        if lines.len() > TOLD {
            page.item(format!("{sign}: {} more (--json)", lines.len() - TOLD));
        }
    }
    if let Some(advice) = &guideline.advice {
        page.item(format!("do: {advice}"));
    }
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
