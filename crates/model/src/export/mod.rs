//! A model for other programs: the nearest that each can express, and what that leaves out.
//!
//! A model is played, and what is written is held against that: what it does more often than the file says is lost.

mod fio;
mod played;
mod wml;

use std::collections::BTreeMap;

pub use fio::fio;
use fsage_core::OpKind;
pub use wml::{Dialect, wml};

use crate::fsm::{Model, VisitStep};
use played::Played;

/// What was written, and what was not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// The file.
    pub text: String,
    /// Operations of the model.
    pub operations: u64,
    /// What the file does not say, with how often the model does.
    pub left_out: BTreeMap<String, u64>,
}

/// The mean size of the files of a class: as they were, or as they are written.
fn sizes(model: &Model) -> Vec<u64> {
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
    let classes = model.classes.iter().zip(written);
    classes
        .map(|(class, written)| match class.size_bytes.mean() as u64 {
            0 => written as u64,
            before => before,
        })
        .collect()
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
    fn operations(&mut self, played: &Played, told: &BTreeMap<OpKind, f64>) {
        for (kind, n) in played.counts() {
            let told = told.get(&kind).copied().unwrap_or(0.0);
            self.add(kind.name(), (n as f64 - told).round());
        }
    }

    fn counts(self) -> BTreeMap<String, u64> {
        let all = self.0.into_iter();
        all.map(|(what, n)| (what, n.round().max(1.0) as u64))
            .collect()
    }
}
