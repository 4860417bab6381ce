//! An experiment: every run that its plan asks for, kept as it ends, then the judgement.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fsage_core::Clock;
use fsage_format::record::{RecordWriter, write_whole};
use fsage_format::result::environment::MachineRecord;
use fsage_format::result::experiment::{
    EXPERIMENT_FILE, Experiment, FailedRun, StepTime, StopReason,
};
use fsage_format::{FileKind, FormatError};
use fsage_host::{MonotonicClock, environment, machine};

use super::BenchError;
use super::judge::experiment;
use super::kept::{Begin, Entry, Found, KIND, Options, found};
use super::schedule::expected_runs;
use super::step::{Broken, Settings, one_run, request_of};
use crate::engine::record::Results;
use crate::engine::{Ended, How, Progress, Series, Verb, With, carry_out, has_more};
use crate::one_cpu::last_allowed;
use crate::plan::{BenchPlan, Subject};
use crate::restoring::Source;
use crate::running;
use crate::target::check_commands;

/// How soon a pause ends when fsage is to stop.
const WAKE: Duration = Duration::from_millis(100);

/// Where and how an experiment is carried out.
#[derive(Debug)]
pub struct Order<'a> {
    /// Where it is kept.
    pub dir: &'a Path,
    /// What options changed of the plan, which has them already.
    pub options: &'a Options,
    /// Whether what the directory holds of the same plan is gone on with.
    pub resume: bool,
    /// Whether configurations that were given up are tried again.
    pub retry_failed: bool,
    /// Ends it after the run that is being made.
    pub stop: &'a AtomicBool,
}

/// Carries out a plan. Each run is on stable storage before the next one begins, so that an error, an
/// interruption or a kill loses at most the one that is being made.
pub fn run(
    plan: &BenchPlan,
    order: &Order<'_>,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Experiment, BenchError> {
    check_workloads(plan)?;
    let dir = order.dir;
    let results = Results::open(dir, KIND)?;
    let result_file = results.result(EXPERIMENT_FILE, FileKind::Experiment)?;
    let mut kept = if order.resume {
        found(dir)?
    } else {
        Found::default()
    };
    same_plan(plan, dir, &kept)?;
    if order.retry_failed {
        for one in kept.measured.values_mut() {
            one.forgiven = one.failed.len() as u32;
        }
    }
    let mut making = Experimenting {
        plan,
        kept,
        devices: BTreeMap::new(),
        sources: BTreeMap::new(),
    };
    let measures = has_more(&making);
    if measures {
        making.sources = sources(plan, dir, &making.kept, order.stop)?;
    }
    let mut record = begun(&results, &mut making, order, measures)?;
    let wanted = plan.one_cpu && !all_virtual(plan);
    let how = How {
        seed: plan.seed,
        keep_going: plan.keep_going,
        cpu: wanted.then(last_allowed).flatten(),
        // What a user times is the machine as it is.
        resident: false,
        stop: order.stop,
    };
    let reason = match carry_out(&mut making, &mut record, how, progress)? {
        Ended::Done => StopReason::MaxRuns,
        Ended::OutOfTime => StopReason::TimeBudget,
        Ended::Interrupted => StopReason::Interrupted,
        Ended::AfterFailure(_) => StopReason::AfterFailure,
    };
    let mut result = experiment(plan, &making.kept, reason);
    result.interrupted |= order.stop.load(Ordering::Relaxed);
    // Not indented: latency distributions are most of it, and a line for each figure would be ten times as
    // long.
    let text = serde_json::to_vec(&result)
        .map_err(|e| BenchError::Plan(format!("write the result as JSON: {e}")))?;
    write_whole(&result_file, &text)?;
    Ok(result)
}

/// What cannot be built is known before anything is made.
fn check_workloads(plan: &BenchPlan) -> Result<(), BenchError> {
    for subject in &plan.subjects {
        let (workload, target) = (&subject.workload, &*subject.target.spec);
        if workload.spec.command().is_some() || workload.setup.is_some() {
            check_commands(target, &format!("run a command of `{workload}`"))?;
        }
        running::files::check_target(&workload.spec, target)?;
        running::program(&request_of(subject), None).map_err(|source| BenchError::Running {
            doing: format!("build workload `{}`", workload.spec),
            source: Box::new(source),
        })?;
    }
    Ok(())
}

/// Runs of another plan do not belong to this one.
fn same_plan(plan: &BenchPlan, dir: &Path, kept: &Found) -> Result<(), BenchError> {
    let Some(begin) = &kept.begin else {
        return Ok(());
    };
    if begin.digest == plan.digest() {
        return Ok(());
    }
    Err(BenchError::Plan(format!(
        "{} holds the runs of another plan (other targets, workloads, caches, settle or seed); expected \
         the same plan, `fsage bench --resume -o {}` without one, or another directory",
        dir.display(),
        dir.display()
    )))
}

/// The files that runs are restored from, each read once. Fails if a run that is kept had another.
fn sources(
    plan: &BenchPlan,
    dir: &Path,
    kept: &Found,
    stop: &AtomicBool,
) -> Result<BTreeMap<PathBuf, Source>, BenchError> {
    let mut sources: BTreeMap<PathBuf, Source> = BTreeMap::new();
    for subject in &plan.subjects {
        let Some(file) = subject.state.file() else {
            continue;
        };
        if !sources.contains_key(file) {
            let read = Source::read(file, stop);
            // What fails while fsage stops, fails because of it.
            if stop.load(Ordering::Relaxed) {
                return Err(BenchError::Interrupted);
            }
            sources.insert(file.to_owned(), read?);
        }
        let before = kept.targets.get(&subject.name);
        let before = before.and_then(|record| record.restored.as_ref());
        let now = sources.get(file).map(Source::sha256);
        if let Some(before) = before.filter(|before| Some(before.sha256.as_str()) != now) {
            return Err(BenchError::Plan(format!(
                "{} is not what the runs in {} were restored from (SHA-256 {} then); expected the same file, \
                 or another directory",
                file.display(),
                dir.display(),
                before.sha256
            )));
        }
    }
    Ok(sources)
}

/// The record, in which the experiment begins or goes on.
fn begun(
    results: &Results<'_>,
    making: &mut Experimenting<'_>,
    order: &Order<'_>,
    measures: bool,
) -> Result<RecordWriter, FormatError> {
    let Some(entry) = begin(making.plan, order, &making.kept, measures) else {
        return results.record();
    };
    let record = if making.kept.begin.is_none() {
        results.begin(&entry)?
    } else {
        let mut record = results.record()?;
        record.append(&entry)?;
        record
    };
    making.take(entry)?;
    Ok(record)
}

/// What notes that the experiment begins, or goes on if it measures. One that is over is only reported again.
fn begin(plan: &BenchPlan, order: &Order<'_>, kept: &Found, measures: bool) -> Option<Entry> {
    if kept.begin.is_some() {
        return measures.then(|| Entry::Resumed {
            unix_ns: machine::unix_time_ns(),
            machine: Some(Box::new(machine_of(plan))),
        });
    }
    let mut machine = machine_of(plan);
    for subject in &plan.subjects {
        let command = subject.workload.spec.command().unwrap_or_default();
        for tool in environment::tools_of(command) {
            if !machine.tools.contains(&tool) {
                machine.tools.push(tool);
            }
        }
    }
    Some(Entry::Begin(Box::new(Begin {
        plan: plan.text.clone(),
        base: plan.base.clone(),
        options: order.options.clone(),
        digest: plan.digest(),
        started_unix_ns: machine::unix_time_ns(),
        machine: Some(machine),
    })))
}

fn all_virtual(plan: &BenchPlan) -> bool {
    let mut subjects = plan.subjects.iter();
    subjects.all(|subject| subject.target.spec.has_virtual_time())
}

/// The machine; of it nothing where all that is measured is computed, which is the same on every other one.
fn machine_of(plan: &BenchPlan) -> MachineRecord {
    if all_virtual(plan) {
        environment::no_machine()
    } else {
        environment::machine()
    }
}

/// An experiment that is being carried out.
struct Experimenting<'a> {
    plan: &'a BenchPlan,
    kept: Found,
    /// The devices of directories, by target: what is mounted there must stay.
    devices: BTreeMap<String, u64>,
    /// The files that states are restored from.
    sources: BTreeMap<PathBuf, Source>,
}

impl<'a> Experimenting<'a> {
    /// A configuration, which run of it is next, and which of the experiment that is.
    fn next(&self, series: usize) -> (&'a Subject, u32, u64) {
        let subject = &self.plan.subjects[series];
        let all = self.kept.measured.values();
        let order = all.map(|m| u64::from(m.attempts())).sum();
        (subject, self.kept.of(&subject.name).attempts(), order)
    }

    /// Waits before the first run of a round, once for all configurations, so that each round meets another moment
    /// of the machine.
    fn pause(
        &self,
        subject: &Subject,
        number: u32,
        detail: &mut dyn FnMut(&str),
        stop: &AtomicBool,
    ) -> Option<StepTime> {
        let rule = &self.plan.rule;
        let begun = self
            .kept
            .measured
            .values()
            .filter_map(|m| m.attempts().checked_sub(1));
        let begun = begun.map(|run| rule.round_of(run)).max()?;
        if rule.round_of(number) <= begun || subject.target.spec.has_virtual_time() {
            return None;
        }
        detail("pause before the next round");
        let began_ns = MonotonicClock.now_ns();
        let waited = || Duration::from_nanos(MonotonicClock.now_ns().saturating_sub(began_ns));
        while waited() < rule.round_pause && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(WAKE.min(rule.round_pause.saturating_sub(waited())));
        }
        Some(StepTime {
            name: "pause".into(),
            elapsed_ns: waited().as_nanos() as u64,
        })
    }
}

impl Verb for Experimenting<'_> {
    type Entry = Entry;
    type Failure = Broken;

    fn series(&self) -> Vec<Series> {
        let of = |subject: &Subject| {
            let measured = self.kept.of(&subject.name);
            let is_virtual = subject.target.spec.has_virtual_time();
            Series {
                attempts: measured.attempts(),
                wanted: expected_runs(measured, &self.plan.rule) - measured.runs.len() as u32,
                took_ns: if is_virtual { 0 } else { measured.used_ns() },
                like: vec![subject.workload.name.clone()],
            }
        };
        self.plan.subjects.iter().map(of).collect()
    }

    fn left_ns(&self) -> Option<u64> {
        let budget_ns = u64::try_from(self.plan.rule.budget.as_nanos()).unwrap_or(u64::MAX);
        Some(budget_ns.saturating_sub(self.kept.used_ns()))
    }

    fn describe(&self, series: usize) -> String {
        let (subject, number, _) = self.next(series);
        format!("run {} of {}", number + 1, subject.name)
    }

    fn make(&mut self, series: usize, with: With<'_>) -> Result<Vec<Entry>, Broken> {
        let (subject, number, order) = self.next(series);
        let paused = self.pause(subject, number, &mut *with.detail, with.stop);
        let settings = Settings {
            settle: self.plan.settle,
            device: self.devices.get(&subject.target.name).copied(),
            source: subject.state.file().and_then(|f| self.sources.get(f)),
            one_cpu: with.one_cpu,
            stop: with.stop,
        };
        let mut done = one_run(subject, settings, with.detail)?;
        (done.run.run, done.run.order) = (number, order);
        done.run.round = self.plan.rule.round_of(number);
        done.run.steps.splice(0..0, paused);
        let configuration = subject.name.clone();
        if let Some(device) = done.device {
            let target = subject.target.name.clone();
            self.devices.entry(target).or_insert(device);
        }
        let first = !self.kept.targets.contains_key(&configuration);
        let target = Entry::Target {
            configuration: configuration.clone(),
            record: Box::new(done.target),
        };
        let run = Entry::Run {
            run: Box::new(done.run),
            configuration,
        };
        Ok(first.then_some(target).into_iter().chain([run]).collect())
    }

    fn failed(&self, series: usize, failure: &Broken, _: u64) -> Entry {
        let (subject, run, order) = self.next(series);
        Entry::Failed(FailedRun {
            configuration: subject.name.clone(),
            run,
            order,
            started_unix_ns: failure.started_unix_ns,
            steps: failure.steps.clone(),
            error: failure.why.clone(),
        })
    }

    fn take(&mut self, entry: Entry) -> Result<(), FormatError> {
        self.kept.take(entry);
        Ok(())
    }
}
