//! What each guideline looks for.

mod design;
mod environment;
mod presenting;
mod running;

use super::evidence::{Cell, Evidence};
use super::guidelines::Answer;

pub(super) use design::*;
pub(super) use environment::*;
pub(super) use presenting::*;
pub(super) use running::*;

/// The half-width that intervals should reach, as a share of the mean (section 3.4).
const PRECISE: f64 = 0.05;
/// So much of the processors' time for others is no quiet machine.
const NOISY: f64 = 0.1;

/// An answer in the making.
#[derive(Default)]
struct Found {
    has: Vec<String>,
    missing: Vec<String>,
}

impl Found {
    fn has(&mut self, what: impl Into<String>) {
        self.has.push(what.into());
    }

    fn lacks(&mut self, what: impl Into<String>) {
        self.missing.push(what.into());
    }

    /// `what` is there, or it is missing by its name.
    fn expect<T>(&mut self, what: &str, value: Option<T>, tell: impl Fn(T) -> String) {
        match value {
            Some(value) => self.has(tell(value)),
            None => self.lacks(what),
        }
    }

    fn answer(self) -> Answer {
        Answer::Found {
            has: self.has,
            missing: self.missing,
        }
    }
}

/// Sorts cells by a judgement: `Some(true)` is good, `Some(false)` bad, `None` unknown.
fn split(
    e: &Evidence,
    judge: impl Fn(&Cell) -> Option<bool>,
) -> (Vec<&Cell>, Vec<&Cell>, Vec<&Cell>) {
    let of = |wanted: Option<bool>| e.cells.iter().filter(|c| judge(c) == wanted).collect();
    (of(Some(true)), of(Some(false)), of(None))
}

fn names(cells: &[&Cell]) -> String {
    let all: Vec<&str> = cells.iter().map(|c| c.name.as_str()).collect();
    all.join(", ")
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn seconds(ns: f64) -> String {
    format!("{:.3} s", ns / 1e9)
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}
