//! The state of a target in which each run begins, checked against the target and its file.

use std::ops::Range;
use std::path::Path;

use fsage_host::ScratchSpec;

use super::place::{Place, PlanError};
use super::subject::State;
use crate::restoring;
use crate::target::TargetSpec;

/// The state of a target: the one asked for, if it can be. Files lie below the directory given; whether they can
/// be restored is looked at if that is wished.
pub(super) fn of(
    place: Place<'_>,
    asked: Option<(Range<usize>, String)>,
    spec: &TargetSpec,
    (base, look): (&Path, bool),
) -> Result<State, PlanError> {
    let scratch = spec.scratch();
    let Some((span, text)) = asked else {
        return Ok(if scratch.is_some() {
            State::Fresh
        } else {
            State::AsFound
        });
    };
    let wrong = |what: String| place.error(span.clone(), what);
    let state = text.parse::<State>().map_err(wrong)?.below(base);
    check(&state, scratch).map_err(wrong)?;
    if let Some(scratch) = scratch.filter(|_| look) {
        restoring::check(&state, scratch).map_err(|e| wrong(format!("state: failed to {e}")))?;
    }
    Ok(state)
}

/// A directory is taken as it is found, a scratch file system is made for each run.
fn check(state: &State, scratch: Option<&ScratchSpec>) -> Result<(), String> {
    match (state, scratch) {
        (State::AsFound, Some(_)) => Err(
            "state `as found` of a scratch file system, which is made for each run; expected `fresh`, \
             `snapshot:FILE.fss` or `image:FILE`"
                .into(),
        ),
        (State::AsFound, None) | (State::Fresh | State::Snapshot(_) | State::Image(_), Some(_)) => Ok(()),
        (_, None) => Err(format!(
            "state `{state}` of a directory, expected `as found` or a scratch: target"
        )),
    }
}
