//! Parameters that a plan varies: every combination of their values.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::{Spanned, Value};

use super::place::{Place, PlanError};

/// A table of parameters and their values, as it is written.
pub(super) type RawSweep = BTreeMap<Spanned<String>, Spanned<Value>>;

/// One combination: each parameter, where it stands, and its value.
pub(super) type Choice = Vec<(String, Range<usize>, String)>;

/// More configurations than this are a slip.
pub(super) const MOST_CONFIGURATIONS: usize = 1000;

/// Every combination in the order in which they are written; the only one of nothing is nothing.
pub(super) fn combinations(place: Place<'_>, sweep: &RawSweep) -> Result<Vec<Choice>, PlanError> {
    let mut all: Vec<Choice> = vec![Vec::new()];
    let mut entries: Vec<_> = sweep.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    for (key, values) in entries {
        let texts = texts(place, key.get_ref(), values)?;
        let count = all.len().saturating_mul(texts.len());
        if count > MOST_CONFIGURATIONS {
            let what = format!(
                "{count} combinations with the values of {}, expected at most {MOST_CONFIGURATIONS}",
                key.get_ref()
            );
            return Err(place.error(values.span(), what));
        }
        let longer = |choice: &Choice| {
            let add = |text: &String| {
                let mut choice = choice.clone();
                choice.push((key.get_ref().clone(), values.span(), text.clone()));
                choice
            };
            texts.iter().map(add).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    Ok(all)
}

/// The values of one parameter as they are put into a specification.
fn texts(place: Place<'_>, key: &str, values: &Spanned<Value>) -> Result<Vec<String>, PlanError> {
    let wrong = |what: String| place.error(values.span(), what);
    let Value::Array(list) = values.get_ref() else {
        let what = format!("{key} is no list, expected its values as in {key} = [1, 2]");
        return Err(wrong(what));
    };
    if list.len() > MOST_CONFIGURATIONS {
        return Err(wrong(format!(
            "{key} has {} values, expected at most {MOST_CONFIGURATIONS}",
            list.len()
        )));
    }
    let mut texts: Vec<String> = Vec::new();
    for value in list {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Integer(_) | Value::Float(_) | Value::Boolean(_) => value.to_string(),
            _ => {
                let what = format!("{key} has a value {value}, expected numbers or texts");
                return Err(wrong(what));
            }
        };
        if texts.contains(&text) {
            return Err(wrong(format!("{key} has the value {text} twice")));
        }
        texts.push(text);
    }
    if texts.is_empty() {
        return Err(wrong(format!("{key} has no value, expected at least one")));
    }
    Ok(texts)
}

/// Puts values into a text: in the place of `{KEY}` where it holds that; returns what it did not hold.
pub(super) fn fill(text: &str, choice: &Choice) -> (String, Choice) {
    let mut text = text.to_owned();
    let mut left = Choice::new();
    for (key, span, value) in choice {
        let hole = format!("{{{key}}}");
        if text.contains(&hole) {
            text = text.replace(&hole, value);
        } else {
            left.push((key.clone(), span.clone(), value.clone()));
        }
    }
    (text, left)
}

/// Adds one more `KEY=VALUE` to a specification.
pub(super) fn add(spec: &str, separator: char, key: &str, value: &str) -> String {
    let spec = spec.trim();
    let separator = if spec.contains(separator) {
        ','
    } else {
        separator
    };
    format!("{spec}{separator}{key}={value}")
}
