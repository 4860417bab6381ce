//! A plan of `fsage bench` as a TOML file. Strict: what is not understood is an error with file and
//! line.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;
use sha2::{Digest, Sha256};
use toml::{Spanned, Value};

use super::named::{NamedTarget, NamedWorkload};
use super::place::{self, Place, PlanError};
use super::vary::{self, Choice, RawSweep};
use crate::bench::metrics;
use crate::target::TargetSpec;

/// Half of a digest tells plans apart.
const DIGEST_BYTES: usize = 16;

/// More configurations than this are a slip.
const MOST_CONFIGURATIONS: usize = 1000;

/// Runs without measurement before one that is measured.
const MOST_WARM_UPS: u32 = 1000;

/// What one experiment does.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchPlan {
    /// As it was written.
    pub text: String,
    /// What is measured, in the order in which it is written.
    pub subjects: Vec<Subject>,
    /// When measuring ends.
    pub rule: Rule,
    /// Where the order of runs starts.
    pub seed: u64,
    /// Whether a run that fails is recorded and passed over.
    pub keep_going: bool,
    /// The longest wait for the device to come to rest before each run.
    pub settle: Duration,
}

/// When measuring a configuration ends: never before `min_runs`, and then once each required metric is
/// precise, there are `max_runs`, or time is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Fewest runs.
    pub min_runs: u32,
    /// Most runs.
    pub max_runs: u32,
    /// The half-width of the 95 % interval to reach, as a share of the mean.
    pub half_width_relative: f64,
    /// The metrics that are to reach it.
    pub required: Vec<String>,
    /// The longest that all runs together may take.
    pub budget: Duration,
}

impl Default for Rule {
    /// Ten runs and 5 % as in the study (Traeger 2007, section 6); at most 30 runs and two hours.
    fn default() -> Self {
        Self {
            min_runs: 10,
            max_runs: 30,
            half_width_relative: 0.05,
            required: vec![metrics::ELAPSED.into()],
            budget: Duration::from_hours(2),
        }
    }
}

impl Rule {
    /// Exactly so many runs.
    pub fn fix(&mut self, runs: u32) {
        (self.min_runs, self.max_runs) = (runs, runs);
    }
}

/// A configuration: what is measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Subject {
    /// What it is called, unlike any other.
    pub name: String,
    /// Where.
    pub target: NamedTarget,
    /// What.
    pub workload: NamedWorkload,
    /// Whether a command runs in the target's directory itself and not in one of its own.
    pub in_place: bool,
    /// How long run phases last; `None` for what the parameters say.
    pub run_for: Option<Duration>,
    /// What the caches hold when the run begins.
    pub caches: Caches,
    /// The parameters that the plan varies and their values here.
    pub parameters: BTreeMap<String, String>,
}

impl Subject {
    /// Whether each run has a file system of its own.
    pub fn state(&self) -> State {
        if self.target.spec.is_temporary() {
            State::Fresh
        } else {
            State::AsFound
        }
    }
}

/// Where the files of a run lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// On a file system made for the run.
    Fresh,
    /// On the file system that is there.
    AsFound,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fresh => "fresh",
            Self::AsFound => "as found",
        })
    }
}

impl FromStr for State {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "fresh" => Ok(Self::Fresh),
            "as found" => Ok(Self::AsFound),
            "aged" => Err(
                "state `aged`: this release cannot age a file system or restore an aged one for each \
                 run, expected `fresh` or `as found` (a directory of a file system aged by other means)"
                    .into(),
            ),
            other => Err(format!("state `{other}`, expected `fresh` or `as found`")),
        }
    }
}

/// What the caches hold when a run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Caches {
    /// Nothing of the target, which is checked.
    Cold,
    /// What so many runs without measurement, and the setup after them, left there, written back.
    Warm(u32),
    /// Whatever is there: nothing is done.
    AsFound,
}

impl fmt::Display for Caches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cold => f.write_str("cold"),
            Self::Warm(n) => write!(f, "warm {n}"),
            Self::AsFound => f.write_str("as found"),
        }
    }
}

impl FromStr for Caches {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "cache `{text}`, expected `cold`, `warm N` (N runs before it, 0 to {MOST_WARM_UPS}) or \
                 `as found`"
            )
        };
        match text.trim() {
            "cold" => Ok(Self::Cold),
            "as found" => Ok(Self::AsFound),
            "warm" => Ok(Self::Warm(0)),
            other => {
                let number = other.strip_prefix("warm ").ok_or_else(wrong)?;
                let number = number.trim().parse().map_err(|_| wrong())?;
                (number <= MOST_WARM_UPS)
                    .then_some(Self::Warm(number))
                    .ok_or_else(wrong)
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    runs: Option<Spanned<i64>>,
    min_runs: Option<Spanned<i64>>,
    max_runs: Option<Spanned<i64>>,
    precision: Option<Spanned<Value>>,
    required: Option<Spanned<Vec<Spanned<String>>>>,
    budget: Option<Spanned<String>>,
    seed: Option<u64>,
    cache: Option<Spanned<Value>>,
    settle: Option<Spanned<String>>,
    #[serde(default)]
    keep_going: bool,
    setup: Option<String>,
    #[serde(default)]
    target: Vec<Spanned<RawTarget>>,
    #[serde(default)]
    workload: Vec<Spanned<RawWorkload>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTarget {
    name: Option<Spanned<String>>,
    spec: Spanned<String>,
    state: Option<Spanned<String>>,
    #[serde(default)]
    sweep: RawSweep,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWorkload {
    name: Option<Spanned<String>>,
    spec: Spanned<String>,
    setup: Option<String>,
    #[serde(default)]
    in_place: bool,
    #[serde(rename = "for")]
    run_for: Option<Spanned<String>>,
    #[serde(default)]
    sweep: RawSweep,
}

/// A command that is measured without a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandPlan {
    /// What sh runs.
    pub command: String,
    /// Where; `None` for the working directory itself.
    pub target: Option<String>,
    /// The working directory.
    pub here: PathBuf,
    /// What prepares the directory of each run.
    pub setup: Option<String>,
    /// What the caches hold; `None` for as they are in the working directory, and cold elsewhere.
    pub cache: Option<Caches>,
}

impl CommandPlan {
    /// The plan that says the same.
    pub fn text(&self) -> String {
        let quoted = |text: &str| Value::String(text.to_owned()).to_string();
        let in_place = self.target.is_none();
        let cache = self.cache.unwrap_or(if in_place {
            Caches::AsFound
        } else {
            Caches::Cold
        });
        let here = self.here.to_string_lossy();
        let target = self.target.as_deref().unwrap_or(&here);
        let mut text = format!(
            "cache = {}\n\n[[target]]\nspec = {}\n\n[[workload]]\nspec = {}\n",
            quoted(&cache.to_string()),
            quoted(target),
            quoted(&format!("cmd:{}", self.command)),
        );
        if let Some(setup) = &self.setup {
            text.push_str(&format!("setup = {}\n", quoted(setup)));
        }
        if in_place {
            text.push_str("in_place = true\n");
        }
        text
    }
}

/// A target or workload with one choice of the values that vary.
struct Varied<T> {
    what: T,
    parameters: Vec<(String, String)>,
}

/// A workload and what a plan says of it alone.
#[derive(Clone)]
struct Planned {
    workload: NamedWorkload,
    in_place: bool,
    run_for: Option<Duration>,
}

impl BenchPlan {
    /// Reads a plan. Nothing is opened or run.
    pub fn read(path: &Path) -> Result<Self, PlanError> {
        Self::parse(path, &place::read(path)?)
    }

    /// Reads a plan from its text; errors name `path`.
    pub fn parse(path: &Path, text: &str) -> Result<Self, PlanError> {
        let place = Place { path, text };
        let raw: Raw = place.toml()?;
        let targets = targets(place, &raw.target)?;
        let workloads = workloads(place, &raw.workload, raw.setup.as_ref())?;
        let end = text.len()..text.len();
        if targets.is_empty() {
            return Err(place.error(end, "no target, expected at least one [[target]]".into()));
        }
        if workloads.is_empty() {
            let none = "no workload, expected at least one [[workload]]";
            return Err(place.error(end, none.into()));
        }
        let caches = caches(place, raw.cache.as_ref())?;
        let subjects = cross(&targets, &workloads, &caches);
        if subjects.len() > MOST_CONFIGURATIONS {
            let many = format!(
                "{} configurations (targets by workloads by caches), expected at most \
                 {MOST_CONFIGURATIONS}",
                subjects.len()
            );
            return Err(place.error(end, many));
        }
        let rule = rule(place, &raw)?;
        check_required(place, raw.required.as_ref(), &subjects)?;
        let settle = place.time("settle", raw.settle.as_ref())?;
        Ok(Self {
            text: text.to_owned(),
            subjects,
            rule,
            seed: raw.seed.unwrap_or(1),
            keep_going: raw.keep_going,
            settle: settle.unwrap_or(Duration::from_secs(2)),
        })
    }

    /// Tells plans apart by everything that decides what a run measures and in which order. When to stop
    /// may change between an experiment and its continuation.
    pub fn digest(&self) -> String {
        let mut text = format!("bench {} {:?}\n", self.seed, self.settle);
        for subject in &self.subjects {
            text.push_str(&format!(
                "{:?} {:?} {:?} {:?} {} {:?} {}\n",
                subject.name,
                subject.target.spec.to_string(),
                subject.workload.spec.to_string(),
                subject.workload.setup,
                subject.in_place,
                subject.run_for,
                subject.caches,
            ));
        }
        let digest = Sha256::digest(text.as_bytes());
        let mut hex = String::new();
        for byte in digest.iter().take(DIGEST_BYTES) {
            hex.push_str(&format!("{byte:02x}"));
        }
        hex
    }
}

/// Every combination of targets, workloads and caches.
fn cross(
    targets: &[Varied<NamedTarget>],
    workloads: &[Varied<Planned>],
    caches: &[Caches],
) -> Vec<Subject> {
    let mut subjects = Vec::new();
    for target in targets {
        for workload in workloads {
            for &state in caches {
                let planned = &workload.what;
                let mut name = format!("{} / {}", target.what, planned.workload);
                let mut parameters = BTreeMap::new();
                let of_target = target.parameters.iter();
                let of_target = of_target.map(|(key, value)| (format!("target.{key}"), value));
                let of_workload = workload.parameters.iter();
                let of_workload = of_workload.map(|(key, value)| (key.clone(), value));
                for (key, value) in of_target.chain(of_workload) {
                    name.push_str(&format!(" / {key}={value}"));
                    parameters.insert(key, value.clone());
                }
                if caches.len() > 1 {
                    name.push_str(&format!(" / {state}"));
                }
                subjects.push(Subject {
                    name,
                    target: target.what.clone(),
                    workload: planned.workload.clone(),
                    in_place: planned.in_place,
                    run_for: planned.run_for,
                    caches: state,
                    parameters,
                });
            }
        }
    }
    subjects
}

fn rule(place: Place<'_>, raw: &Raw) -> Result<Rule, PlanError> {
    let mut rule = Rule::default();
    let (least, most) = (raw.min_runs.as_ref(), raw.max_runs.as_ref());
    if let Some(runs) = &raw.runs {
        if let Some(other) = least.or(most) {
            let both =
                "runs fixes how many there are, expected it or min_runs and max_runs, not both";
            return Err(place.error(other.span(), both.into()));
        }
        rule.fix(place.count("runs", Some(runs))?.unwrap_or(rule.min_runs));
    }
    if let Some(most) = place.count("max_runs", most)? {
        rule.max_runs = most;
        rule.min_runs = rule.min_runs.min(most);
    }
    if let Some(least) = place.count("min_runs", least)? {
        rule.min_runs = least;
        if let Some(most) = most.filter(|_| rule.max_runs < least) {
            let less = format!(
                "max_runs = {}, expected at least min_runs = {least}",
                rule.max_runs
            );
            return Err(place.error(most.span(), less));
        }
        rule.max_runs = rule.max_runs.max(least);
    }
    if let Some(precision) = &raw.precision {
        rule.half_width_relative = share(precision.get_ref()).ok_or_else(|| {
            let found = precision.get_ref();
            let what =
                format!("precision = {found}, expected a share such as \"5%\" or 0.05, under 1");
            place.error(precision.span(), what)
        })?;
    }
    if let Some(names) = &raw.required {
        rule.required = names
            .get_ref()
            .iter()
            .map(|n| n.get_ref().clone())
            .collect();
    }
    if let Some(budget) = place.time("budget", raw.budget.as_ref())? {
        rule.budget = budget;
    }
    Ok(rule)
}

/// `5%`, `0.05`.
fn share(value: &Value) -> Option<f64> {
    let share = match value {
        Value::Float(share) => *share,
        Value::String(text) => parse_share(text)?,
        _ => return None,
    };
    (share > 0.0 && share < 1.0).then_some(share)
}

/// A share of 1 as people write it: `5%`, `0.05`. `None` if it is none between 0 and 1.
pub fn parse_share(text: &str) -> Option<f64> {
    let share = match text.trim().strip_suffix('%') {
        Some(number) => number.trim().parse::<f64>().ok()? / 100.0,
        None => text.trim().parse().ok()?,
    };
    (share > 0.0 && share < 1.0).then_some(share)
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
) -> Result<Vec<Varied<NamedTarget>>, PlanError> {
    let mut all: Vec<Varied<NamedTarget>> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for entry in raw {
        let its = entry.get_ref();
        let name = match &its.name {
            Some(name) => place.name(name)?,
            None => its.spec.get_ref().trim().to_owned(),
        };
        if names.contains(&name) {
            let twice = format!("target `{name}` stands twice, expected a name of its own");
            return Err(place.error(entry.span(), twice));
        }
        names.push(name.clone());
        for choice in vary::combinations(place, &its.sweep)? {
            let (mut text, left) = vary::fill(its.spec.get_ref(), &choice);
            let mut at = its.spec.span();
            for (key, span, value) in left {
                if !(text.starts_with("scratch:") || text.contains(":scratch:")) {
                    let what = format!(
                        "a directory has no parameter `{key}`, expected {{{key}}} in its spec or a \
                         scratch: target"
                    );
                    return Err(place.error(span, what));
                }
                text = vary::add(&text, ',', &key, &value);
                at = span;
            }
            let spec = place.target(at, &text)?;
            check_state(place, its, &spec)?;
            all.push(Varied {
                what: NamedTarget {
                    name: name.clone(),
                    spec,
                    group: None,
                },
                parameters: pairs(choice),
            });
        }
    }
    Ok(all)
}

/// A directory is taken as it is found, a scratch file system is made for each run.
fn check_state(place: Place<'_>, its: &RawTarget, spec: &TargetSpec) -> Result<(), PlanError> {
    let Some(state) = &its.state else {
        return Ok(());
    };
    let wrong = |what: String| Err(place.error(state.span(), what));
    let asked: State = match state.get_ref().parse() {
        Ok(asked) => asked,
        Err(what) => return wrong(what),
    };
    match (asked, spec.is_temporary()) {
        (State::Fresh, false) => {
            wrong("state `fresh` of a directory, expected `as found` or a scratch: target".into())
        }
        (State::AsFound, true) => wrong(
            "state `as found` of a scratch file system, which is made for each run; expected `fresh`"
                .into(),
        ),
        _ => Ok(()),
    }
}

fn workloads(
    place: Place<'_>,
    raw: &[Spanned<RawWorkload>],
    setup: Option<&String>,
) -> Result<Vec<Varied<Planned>>, PlanError> {
    let mut all: Vec<Varied<Planned>> = Vec::new();
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
            let (text, at) = add_all(place, text, left, its.spec.span())?;
            let spec = place.workload(at, &text)?;
            check_alone(place, its, entry, spec.command().is_some())?;
            let workload = NamedWorkload {
                name: name.clone(),
                spec,
                setup,
            };
            all.push(Varied {
                what: Planned {
                    workload,
                    in_place: its.in_place,
                    run_for,
                },
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

/// Metrics that nothing measures would never become precise.
fn check_required(
    place: Place<'_>,
    required: Option<&Spanned<Vec<Spanned<String>>>>,
    subjects: &[Subject],
) -> Result<(), PlanError> {
    let Some(required) = required else {
        return Ok(());
    };
    if required.get_ref().is_empty() {
        let none = "required is empty, expected at least one metric, such as \"elapsed\"";
        return Err(place.error(required.span(), none.into()));
    }
    for name in required.get_ref() {
        for subject in subjects {
            let is_command = subject.workload.spec.command().is_some();
            if let Err(what) = metrics::check(name.get_ref(), is_command) {
                let what = format!("required: {what}");
                return Err(place.error(name.span(), what));
            }
        }
    }
    Ok(())
}
