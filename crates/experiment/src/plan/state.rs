//! The state of a target in which each run begins, checked against the target and its file.

use std::ops::Range;
use std::path::Path;

use fsage_core::TargetSpec;

use super::place::{Place, PlanError};
use super::subject::State;
use crate::restoring;

/// The state of a target: the one asked for, if it can be. Files lie below the directory given; whether they can
/// be restored is looked at if that is wished.
pub(super) fn of(
    place: Place<'_>,
    asked: Option<(Range<usize>, String)>,
    spec: &dyn TargetSpec,
    (base, look): (&Path, bool),
) -> Result<State, PlanError> {
    let Some((span, text)) = asked else {
        return Ok(if spec.is_temporary() {
            State::Fresh
        } else {
            State::AsFound
        });
    };
    let wrong = |what: String| place.error(span.clone(), what);
    let state = text.parse::<State>().map_err(wrong)?.below(base);
    check(&state, spec).map_err(wrong)?;
    if look {
        restoring::check(&state, spec).map_err(|e| wrong(format!("state: failed to {e}")))?;
    }
    Ok(state)
}

/// A directory is taken as it is found, a scratch file system is made for each run.
fn check(state: &State, spec: &dyn TargetSpec) -> Result<(), String> {
    match (state, spec.is_temporary()) {
        (State::AsFound, true) => Err(
            "state `as found` of a scratch file system, which is made for each run; expected `fresh`, \
             `snapshot:FILE.fss` or `image:FILE`"
                .into(),
        ),
        (State::Image(_), true) if spec.images().is_none() => Err(format!(
            "state `{state}` of {spec}, which cannot be made of an image; expected `fresh` or \
             `snapshot:FILE.fss`"
        )),
        (State::AsFound, false) | (State::Fresh | State::Snapshot(_) | State::Image(_), true) => Ok(()),
        (_, false) => Err(format!(
            "state `{state}` of a directory, expected `as found` or a scratch: target"
        )),
    }
}
