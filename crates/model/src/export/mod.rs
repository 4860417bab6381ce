//! A model for other programs: the nearest that each can express, and what that leaves out.
//!
//! A model is played, and what is written is held against that: what it does more often than the file says is lost.

mod filesets;
mod fio;
mod played;
mod wml;

use std::collections::BTreeMap;

pub use fio::fio;
use fsage_core::OpKind;
pub use wml::{Dialect, wml};

use crate::fsm::{Line, Model, VisitStep};
use played::{Place, Played};

/// What a file is called that says how it is run.
pub const FILE: &str = "FILE";

/// What was written, and what was not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// The file.
    pub text: String,
    /// How it is run, where it is called [`FILE`], as it says itself at its head.
    pub run_by: String,
    /// How often the threads of a script go through their flowops for all of it; `None` of what is no script.
    pub rounds: Option<u64>,
    /// Operations of the model.
    pub operations: u64,
    /// What is made before it runs.
    pub made: Made,
    /// What the model itself has before it runs.
    pub made_by_model: Made,
    /// What the file does not say, with how often the model does.
    pub left_out: BTreeMap<String, u64>,
}

/// Files and directories that are there before anything is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Made {
    /// How many.
    pub files: u64,
    /// What they hold.
    pub bytes: u64,
}

impl Made {
    /// Those of a model.
    fn of(model: &Model) -> Self {
        let mut made = Self::default();
        for class in &model.classes {
            let bytes = class.before as f64 * class.size_bytes.mean();
            made.files = made.files.saturating_add(class.before);
            made.bytes = made.bytes.saturating_add(bytes.round() as u64);
        }
        made
    }
}

/// The share of the bytes that may be missing because of means and whole numbers.
const OFF: f64 = 0.02;

/// The mean size of the files of a class: as they were, as they are when something is read of them, under whatever name
/// they were made, or as they are written. A file that was not there is no larger than what was put into it: of one with a
/// hole no language here can say that it has one, and it would be written whole.
fn sizes(model: &Model, played: &Played) -> Vec<u64> {
    let mut read = vec![(0_u64, 0_u64, 0_u64); model.classes.len()];
    let mut put_in_all = 0_u64;
    for (&place, done) in &played.0 {
        put_in_all = put_in_all.saturating_add(done.put_in);
        let class = line_at(model, place).map_or(0, |l| l.file.class as usize);
        if let Some((visits, bytes, put_in)) =
            class.checked_sub(1).and_then(|place| read.get_mut(place))
        {
            *visits += done.read_from.0;
            *bytes = bytes.saturating_add(done.read_from.1);
            *put_in = put_in.saturating_add(done.put_in);
        }
    }
    let arrived = arrived(model, played);
    let mut written = vec![0.0_f64; model.classes.len()];
    for line in model
        .phases
        .iter()
        .flat_map(|p| &p.parts)
        .flat_map(|p| &p.script)
    {
        let place = (line.file.class as usize).checked_sub(1);
        let steps = model.visit(line).map_or(&[][..], |v| &v.steps);
        let bytes: f64 = steps.iter().filter(|s| is_write(s)).map(moved).sum();
        if let Some(most) = place.and_then(|place| written.get_mut(place)) {
            *most = most.max(bytes);
        }
    }
    let classes = model.classes.iter().zip(written).zip(read).zip(arrived);
    classes
        .map(|(((class, written), (visits, bytes, put_in)), arrived)| {
            let before = class.size_bytes.mean() as u64;
            // What was renamed was written elsewhere.
            let put_in = if arrived > 0 { put_in_all } else { put_in };
            let most = put_in.div_ceil(class.later.max(1));
            match (before, bytes.checked_div(visits)) {
                (0, Some(read)) if read > 0 => read.min(most),
                (0, _) => written as u64,
                _ => before,
            }
        })
        .collect()
}

/// Where a line stands in a model.
fn line_at(model: &Model, (phase, part, line): Place) -> Option<&Line> {
    let part = model.phases.get(phase).and_then(|p| p.parts.get(part))?;
    part.script.get(line)
}

/// How many files of each class come there under another name than they were made: by a rename or a link.
fn arrived(model: &Model, played: &Played) -> Vec<u64> {
    let mut arrived = vec![0_u64; model.classes.len()];
    for (&place, done) in &played.0 {
        let Some((line, to)) = line_at(model, place).and_then(|l| Some((l, l.to.as_ref()?))) else {
            continue;
        };
        let steps = model.visit(line).map_or(&[][..], |v| &v.steps);
        let comes = |s: &VisitStep| {
            s.form.error == 0 && matches!(s.form.kind, OpKind::Rename | OpKind::Link)
        };
        let place = (to.class as usize).checked_sub(1);
        if let Some(n) = place.and_then(|place| arrived.get_mut(place))
            && steps.iter().any(comes)
        {
            *n = n.saturating_add(done.visits);
        }
    }
    let all = arrived.iter().zip(&model.classes);
    all.map(|(n, class)| *n.min(&class.later)).collect()
}

fn is_write(step: &VisitStep) -> bool {
    step.form.kind == OpKind::Write
}

fn is_read(step: &VisitStep) -> bool {
    step.form.kind == OpKind::Read
}

/// The bytes of all of a step's calls; of one that goes on to a file's end, of one call.
fn moved(step: &VisitStep) -> f64 {
    let times = match step.form.to_end {
        Some(_) => 1.0,
        None => step.times.mean().max(1.0),
    };
    step.bytes.mean() * times
}

/// How often a visit's step is called in a file of that size.
fn calls(step: &VisitStep, size_bytes: u64) -> f64 {
    let each = step.bytes.mean();
    match step.form.to_end {
        Some(more) if each > 0.0 => (size_bytes as f64 / each).ceil() + f64::from(more),
        Some(more) => 1.0 + f64::from(more),
        None => step.times.mean().max(1.0),
    }
}

/// Counts what is left out.
#[derive(Debug, Default)]
struct Lost(BTreeMap<String, f64>);

impl Lost {
    fn add(&mut self, what: &str, times: f64) {
        if times > 0.0 {
            *self.0.entry(what.to_owned()).or_default() += times;
        }
    }

    /// Of each kind as many operations as the model does more than the file says.
    fn operations(&mut self, played: &Played, exported: &BTreeMap<OpKind, f64>) {
        for (kind, n) in played.counts() {
            let exported = exported.get(&kind).copied().unwrap_or(0.0);
            self.add(kind.name(), (n as f64 - exported).round());
        }
    }

    /// The bytes that the model reads and writes more than the file says, or less.
    fn bytes(&mut self, played: &Played, exported: [f64; 2]) {
        for (way, what) in ["bytes read", "bytes written"].iter().enumerate() {
            let moved = played.0.values().filter_map(|done| done.moves.get(way));
            let bytes: f64 = moved.map(|moves| moves.bytes as f64).sum();
            let lost = bytes - exported.get(way).copied().unwrap_or(0.0);
            if lost > OFF * bytes {
                self.add(what, lost);
            } else if -lost > OFF * bytes {
                self.add(&format!("{what} (so many more)"), -lost);
            }
        }
    }

    /// What is made before that the model has not, and the other way round.
    fn made(&mut self, made: Made, by_model: Made) {
        let ways = [
            (made, by_model, "before the run (so many more)"),
            (by_model, made, "before the run"),
        ];
        for (more, less, what) in ways {
            let bytes = more.bytes.saturating_sub(less.bytes);
            self.add(
                &format!("files {what}"),
                more.files.saturating_sub(less.files) as f64,
            );
            if bytes as f64 > OFF * by_model.bytes as f64 {
                self.add(&format!("bytes {what}"), bytes as f64);
            }
        }
    }

    fn counts(self) -> BTreeMap<String, u64> {
        let all = self.0.into_iter();
        all.map(|(what, n)| (what, n.round().max(1.0) as u64))
            .collect()
    }
}
