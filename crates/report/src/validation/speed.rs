//! Which of two predictions is told: the one as the machine was when its targets were profiled, or the one at equal speed.

use fsage_format::result::validation::{EqualSpeed, Judgement, Pair, Validation};

use super::known;

/// What is said first: at equal speed of the machine where that is known.
pub(super) fn headline(judgement: &Judgement) -> &Judgement {
    judgement.equal_speed.as_deref().unwrap_or(judgement)
}

/// A pair's prediction at equal speed, where the headline is of such: of some pairs alone it would be mixed with others.
pub(super) fn equal_of<'a>(result: &Validation, pair: &'a Pair) -> Option<&'a EqualSpeed> {
    let is_said = result.judgement.equal_speed.is_some();
    pair.equal_speed.as_ref().filter(|_| is_said)
}

/// A pair's error, as the headline has it.
pub(super) fn error_of(result: &Validation, pair: &Pair) -> f64 {
    equal_of(result, pair).map_or(pair.error, |e| e.error)
}

/// What the first table is, where there are two predictions: the column `as it was` is the one that is none of it.
pub(super) const OVERVIEW: &str = "Predictions and errors at equal speed of the machine";

/// Which prediction a table is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speed {
    /// As the machine was when the targets were profiled.
    AsItWas,
    /// Corrected to the speed that the machine had in the runs.
    Equal,
}

impl Speed {
    /// What a heading says of it; nothing where there is one prediction alone.
    pub(super) fn label(self, result: &Validation) -> &'static str {
        match self {
            _ if result.judgement.equal_speed.is_none() => "",
            Self::AsItWas => ", as it was",
            Self::Equal => ", at equal speed",
        }
    }
}

/// The predicted elapsed time and its error; `None` where it has none.
pub(super) fn elapsed_of(pair: &Pair, speed: Speed) -> Option<(f64, f64)> {
    match (&pair.equal_speed, speed) {
        (_, Speed::AsItWas) => pair.elapsed_error.map(|e| (pair.predicted_elapsed_ns, e)),
        (Some(equal), Speed::Equal) => equal.elapsed_error.map(|e| (equal.predicted_elapsed_ns, e)),
        (None, Speed::Equal) => None,
    }
}

/// The average error, as the headline has it and, where that is at equal speed, as it was too.
pub fn average(result: &Validation) -> String {
    let raw = known(result.judgement.figures.average_error);
    match &result.judgement.equal_speed {
        Some(equal) => {
            let said = equal.figures.average_error;
            format!("{} at equal speed ({raw} as it was)", known(said))
        }
        None => raw,
    }
}
