//! A plan as a TOML file: one grammar for all verbs. Strict: what is not understood is an error with file and
//! line, and so is what only another verb has.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use toml::de::DeTable;
use toml::{Spanned, Value};

use super::NamedTarget;
use super::named::NamedWorkload;
use super::place::{Place, PlanError};
use super::state;
use super::subject::{Caches, State};
use super::vary::{self, Choice, RawSweep};

/// Whose plan it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlanVerb {
    Bench,
    Validate,
}

/// A plan as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Raw {
    pub runs: Option<Spanned<i64>>,
    pub seed: Option<u64>,
    pub cache: Option<Spanned<Value>>,
    #[serde(default)]
    pub one_cpu: bool,
    #[serde(default)]
    pub keep_going: bool,
    setup: Option<String>,
    #[serde(default)]
    pub target: Vec<Spanned<RawTarget>>,
    #[serde(default)]
    workload: Vec<Spanned<RawWorkload>>,

    // Of `bench` alone.
    pub min_runs: Option<Spanned<i64>>,
    pub max_runs: Option<Spanned<i64>>,
    pub precision: Option<Spanned<Value>>,
    pub required: Option<Spanned<Vec<Spanned<String>>>>,
    pub budget: Option<Spanned<String>>,
    pub settle: Option<Spanned<String>>,
    pub rounds: Option<Spanned<i64>>,
    pub round_pause: Option<Spanned<String>>,

    // Of `validate` alone.
    pub quick: Option<bool>,
    pub profiles: Option<Spanned<i64>>,
    pub profile_time: Option<Spanned<String>>,
    pub trace_on: Option<Spanned<String>>,
    pub keep_traces: Option<Spanned<String>>,
    #[serde(default)]
    pub group: BTreeMap<Spanned<String>, RawGroup>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTarget {
    pub name: Option<Spanned<String>>,
    spec: Spanned<String>,
    // Of `bench` alone.
    state: Option<Spanned<String>>,
    aged: Option<Spanned<String>>,
    #[serde(default)]
    sweep: RawSweep,
    // Of `validate` alone.
    pub group: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWorkload {
    name: Option<Spanned<String>>,
    spec: Spanned<String>,
    setup: Option<String>,
    // Of `bench` alone.
    #[serde(default)]
    in_place: bool,
    #[serde(rename = "for")]
    run_for: Option<Spanned<String>>,
    #[serde(default)]
    sweep: RawSweep,
    // Of `validate` alone.
    #[serde(default)]
    sealed: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawGroup {
    pub trace_on: Option<Spanned<String>>,
}

/// A target and what a plan says of it alone.
pub(super) struct PlannedTarget {
    pub target: NamedTarget,
    pub state: State,
    pub aged: Option<String>,
    /// The parameters that vary, and their values here.
    pub parameters: Vec<(String, String)>,
}

/// A workload and what a plan says of it alone.
pub(super) struct Planned {
    pub workload: NamedWorkload,
    pub sealed: bool,
    pub in_place: bool,
    pub run_for: Option<Duration>,
    /// The parameters that vary, and their values here.
    pub parameters: Vec<(String, String)>,
}

/// What a plan of any verb says.
pub(super) struct Sheet {
    pub raw: Raw,
    pub targets: Vec<PlannedTarget>,
    pub workloads: Vec<Planned>,
    pub caches: Vec<Caches>,
}

impl Sheet {
    /// Reads a plan. Files lie below the directory given; whether they can be restored is looked at if that is
    /// wished.
    pub fn read(place: Place<'_>, verb: PlanVerb, files: (&Path, bool)) -> Result<Self, PlanError> {
        let raw: Raw = place.toml()?;
        check_verb(place, verb)?;
        place.few(raw.target.len(), "targets")?;
        place.few(raw.workload.len(), "workloads")?;
        let targets = targets(place, &raw.target, files)?;
        let workloads = workloads(place, &raw.workload, raw.setup.as_ref())?;
        for (none, what) in [
            (targets.is_empty(), "target"),
            (workloads.is_empty(), "workload"),
        ] {
            if none {
                let end = place.text.len()..place.text.len();
                let what = format!("no {what}, expected at least one [[{what}]]");
                return Err(place.error(end, what));
            }
        }
        Ok(Self {
            caches: caches(place, raw.cache.as_ref())?,
            raw,
            targets,
            workloads,
        })
    }
}

/// Refuses what only plans of the other verb have: of the plan, its targets and its workloads.
fn check_verb(place: Place<'_>, verb: PlanVerb) -> Result<(), PlanError> {
    const BENCH: [&[&str]; 3] = [
        &[
            "min_runs",
            "max_runs",
            "precision",
            "required",
            "budget",
            "settle",
            "rounds",
            "round_pause",
        ],
        &["state", "aged", "sweep"],
        &["in_place", "for", "sweep"],
    ];
    const VALIDATE: [&[&str]; 3] = [
        &[
            "quick",
            "profiles",
            "profile_time",
            "trace_on",
            "keep_traces",
            "group",
        ],
        &["group"],
        &["sealed"],
    ];
    let (other, keys) = match verb {
        PlanVerb::Bench => ("validate", VALIDATE),
        PlanVerb::Validate => ("bench", BENCH),
    };
    let (table, _) = DeTable::parse_recoverable(place.text);
    let refuse = |table: &DeTable<'_>, keys: &[&str]| {
        let found = table.keys().find(|key| keys.contains(&&**key.get_ref()));
        found.map_or(Ok(()), |key| {
            let what = format!("`{}` is for plans of `fsage {other}` alone", key.get_ref());
            Err(place.error(key.span(), what))
        })
    };
    refuse(table.get_ref(), keys[0])?;
    for (part, keys) in [("target", keys[1]), ("workload", keys[2])] {
        let list = table
            .get_ref()
            .get(part)
            .and_then(|list| list.get_ref().as_array());
        for entry in list.into_iter().flatten() {
            entry
                .get_ref()
                .as_table()
                .map_or(Ok(()), |table| refuse(table, keys))?;
        }
    }
    Ok(())
}

fn caches(place: Place<'_>, raw: Option<&Spanned<Value>>) -> Result<Vec<Caches>, PlanError> {
    let Some(raw) = raw else {
        return Ok(vec![Caches::Cold]);
    };
    let wrong = |what: String| place.error(raw.span(), what);
    let list = match raw.get_ref() {
        Value::Array(list) => list.as_slice(),
        one => std::slice::from_ref(one),
    };
    let mut all: Vec<Caches> = Vec::new();
    for value in list {
        let text = value
            .as_str()
            .ok_or_else(|| wrong(format!("cache = {value}, expected texts such as \"cold\"")))?;
        let state = text.parse().map_err(&wrong)?;
        if all.contains(&state) {
            return Err(wrong(format!("cache `{state}` stands twice")));
        }
        all.push(state);
    }
    if all.is_empty() {
        return Err(wrong("cache is empty, expected at least one state".into()));
    }
    Ok(all)
}

fn targets(
    place: Place<'_>,
    raw: &[Spanned<RawTarget>],
    files: (&Path, bool),
) -> Result<Vec<PlannedTarget>, PlanError> {
    let mut all: Vec<PlannedTarget> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for entry in raw {
        let its = entry.get_ref();
        let name = match &its.name {
            Some(name) => place.name(name)?,
            // Without the values that vary it may be none yet.
            None => place.schemes.parse(its.spec.get_ref()).map_or_else(
                |_| its.spec.get_ref().trim().to_owned(),
                |spec| {
                    spec.given_name()
                        .unwrap_or_else(|| its.spec.get_ref().trim().to_owned())
                },
            ),
        };
        if names.contains(&name) {
            let twice = format!("target `{name}` stands twice, expected a name of its own");
            return Err(place.error(entry.span(), twice));
        }
        names.push(name.clone());
        for choice in vary::combinations(place, &its.sweep)? {
            let (mut text, left) = vary::fill(its.spec.get_ref(), &choice);
            let filled = its.state.as_ref().map(|state| {
                let of_state = vary::fill(state.get_ref(), &choice).0;
                (state.span(), of_state)
            });
            let left = match &its.state {
                Some(state) => vary::fill(state.get_ref(), &left).1,
                None => left,
            };
            let mut at = its.spec.span();
            // What is wrong without the values is told where it stands.
            let takes_more = !left.is_empty() && place.target(at.clone(), &text)?.is_temporary();
            for (key, span, value) in left {
                if !takes_more {
                    let what = format!(
                        "a directory has no parameter `{key}`, expected {{{key}}} in its spec or a \
                         scratch: target"
                    );
                    return Err(place.error(span, what));
                }
                text = vary::add(&text, ',', &key, &value);
                // Each is told where it stands.
                place.target(span.clone(), &text)?;
                at = span;
            }
            let spec = place.target(at, &text)?;
            let state = state::of(place, filled, &*spec, files)?;
            let aged = its.aged.as_ref().map(|text| place.name(text));
            let target = NamedTarget {
                name: name.clone(),
                spec,
                group: None,
            };
            all.push(PlannedTarget {
                target,
                state,
                aged: aged.transpose()?,
                parameters: pairs(choice),
            });
        }
    }
    Ok(all)
}

fn workloads(
    place: Place<'_>,
    raw: &[Spanned<RawWorkload>],
    setup: Option<&String>,
) -> Result<Vec<Planned>, PlanError> {
    let mut all: Vec<Planned> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for entry in raw {
        let its = entry.get_ref();
        let name = match &its.name {
            Some(name) => place.name(name)?,
            None => NamedWorkload::name_of(its.spec.get_ref()),
        };
        if names.contains(&name) {
            let twice = format!("two workloads are called `{name}`");
            return Err(place.error(entry.span(), twice));
        }
        names.push(name.clone());
        let run_for = place.time("for", its.run_for.as_ref())?;
        let setup = its.setup.as_ref().or(setup);
        for choice in vary::combinations(place, &its.sweep)? {
            let (text, left) = vary::fill(its.spec.get_ref(), &choice);
            let (setup, left) = match setup {
                // A value may stand in both.
                Some(setup) => (
                    Some(vary::fill(setup, &choice).0),
                    vary::fill(setup, &left).1,
                ),
                None => (None, left),
            };
            if !left.is_empty() {
                place.workload(its.spec.span(), &text)?;
            }
            let (text, at) = add_all(place, text, left, its.spec.span())?;
            let spec = place.workload(at, &text)?;
            check_alone(place, its, entry, spec.command().is_some())?;
            let workload = NamedWorkload {
                name: name.clone(),
                spec,
                setup,
            };
            all.push(Planned {
                workload,
                sealed: its.sealed,
                in_place: its.in_place,
                run_for,
                parameters: pairs(choice),
            });
        }
    }
    Ok(all)
}

/// Adds the parameters that have no place in the text; a command takes none so.
fn add_all(
    place: Place<'_>,
    mut text: String,
    left: Choice,
    mut at: std::ops::Range<usize>,
) -> Result<(String, std::ops::Range<usize>), PlanError> {
    for (key, span, value) in left {
        if text.trim_start().starts_with("cmd:") {
            let what =
                format!("a command has no parameter `{key}`, expected {{{key}}} in it or in setup");
            return Err(place.error(span, what));
        }
        text = vary::add(&text, ':', &key, &value);
        // Each is told where it stands.
        place.workload(span.clone(), &text)?;
        at = span;
    }
    Ok((text, at))
}

/// What is for commands alone, and what is not for them.
fn check_alone(
    place: Place<'_>,
    its: &RawWorkload,
    entry: &Spanned<RawWorkload>,
    is_command: bool,
) -> Result<(), PlanError> {
    if its.in_place && !is_command {
        let what = "in_place of a generated workload, expected a command: generated files have a \
                    directory of their own";
        return Err(place.error(entry.span(), what.into()));
    }
    if let Some(time) = its.run_for.as_ref().filter(|_| is_command) {
        let what =
            "for = TIME of a command, expected a generated workload: a command ends by itself";
        return Err(place.error(time.span(), what.into()));
    }
    Ok(())
}

fn pairs(choice: Choice) -> Vec<(String, String)> {
    choice
        .into_iter()
        .map(|(key, _, value)| (key, value))
        .collect()
}
