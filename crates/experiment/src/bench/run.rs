//! An experiment: every run that its plan asks for, kept as it ends, then the judgement.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use fsage_format::FormatError;
use fsage_format::record::{RecordWriter, write_whole};
use fsage_format::result::environment::MachineRecord;
use fsage_format::result::experiment::{EXPERIMENT_FILE, Experiment, FailedRun, StopReason};
use fsage_host::{environment, machine};

use super::BenchError;
use super::judge::experiment;
use super::kept::{Begin, Entry, Found, Options, found, open_record};
use super::schedule::{Measured, Next, expected_runs, next};
use super::step::{Settings, one_run, request_of};
use crate::alone::alone;
use crate::one_cpu::OneCpu;
use crate::one_cpu::one_cpu;
use crate::plan::{BenchPlan, Subject};
use crate::restoring::Source;
use crate::running;
use crate::target::check_commands;

/// How far an experiment is.
#[derive(Debug, Clone)]
pub struct Progress {
    /// Runs that are done.
    pub done: u64,
    /// Runs that there will be, as far as can be told now.
    pub expected: u64,
    /// What is done now.
    pub what: String,
    /// How long the rest takes, seconds; `None` before the first run has ended.
    pub eta_s: Option<f64>,
}

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
    std::fs::create_dir_all(dir).map_err(|e| FormatError::io("make directory", dir, e))?;
    let _alone = alone(dir)?;
    let mut kept = if order.resume {
        found(dir)?
    } else {
        Found::default()
    };
    same_plan(plan, dir, &kept)?;
    let mut measured = kept.measured(plan);
    if order.retry_failed {
        for one in &mut measured {
            one.forgiven = one.failed.len() as u32;
        }
    }
    let mut record = open_record(dir)?;
    let measures = matches!(next(plan, &measured), Next::Measure(_));
    let sources = if measures {
        sources(plan, dir, &kept, order.stop)?
    } else {
        BTreeMap::new()
    };
    let going_on = kept.begin.is_some() && measures;
    let begin = begin(plan, order, &mut kept, going_on, &mut record)?;
    let mut making = Experimenting {
        plan,
        order,
        kept,
        measured,
        record,
        devices: BTreeMap::new(),
        sources,
        one_cpu: one_cpu(plan.one_cpu && measures && !all_virtual(plan)),
    };
    let reason = making.all(progress)?;
    let mut result = experiment(plan, &begin, &making.kept, &making.measured, reason);
    result.interrupted |= order.stop.load(Ordering::Relaxed);
    // Not indented: latency distributions are most of it, and a line for each figure would be ten times as
    // long.
    let text = serde_json::to_vec(&result)
        .map_err(|e| BenchError::Plan(format!("write the result as JSON: {e}")))?;
    write_whole(&dir.join(EXPERIMENT_FILE), &text)?;
    Ok(result)
}

/// What cannot be built is known before anything is made.
fn check_workloads(plan: &BenchPlan) -> Result<(), BenchError> {
    for subject in &plan.subjects {
        let (workload, target) = (&subject.workload, &*subject.target.spec);
        if workload.spec.command().is_some() || workload.setup.is_some() {
            check_commands(target, &format!("run a command of `{workload}`"))?;
        }
        running::program(&request_of(subject)).map_err(|source| BenchError::Workload {
            workload: workload.spec.to_string(),
            source,
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
            sources.insert(file.to_owned(), Source::read(file, stop)?);
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

/// Notes that the experiment begins or goes on. One that is over is only reported again.
fn begin(
    plan: &BenchPlan,
    order: &Order<'_>,
    kept: &mut Found,
    going_on: bool,
    record: &mut RecordWriter,
) -> Result<Begin, BenchError> {
    if let Some(begin) = kept.begin.clone() {
        if going_on {
            let unix_ns = machine::unix_time_ns();
            record.append(&Entry::Resumed {
                unix_ns,
                machine: Some(Box::new(machine_of(plan))),
            })?;
            kept.resumed_unix_ns.push(unix_ns);
        }
        return Ok(begin);
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
    let begin = Begin {
        plan: plan.text.clone(),
        base: plan.base.clone(),
        options: order.options.clone(),
        digest: plan.digest(),
        started_unix_ns: machine::unix_time_ns(),
        machine: Some(machine),
    };
    record.append(&Entry::Begin(Box::new(begin.clone())))?;
    kept.begin = Some(begin.clone());
    Ok(begin)
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
    order: &'a Order<'a>,
    kept: Found,
    measured: Vec<Measured>,
    record: RecordWriter,
    /// The devices of directories, by target: what is mounted there must stay.
    devices: BTreeMap<String, u64>,
    /// The files that states are restored from.
    sources: BTreeMap<PathBuf, Source>,
    one_cpu: Option<OneCpu>,
}

impl Experimenting<'_> {
    /// Makes every run that is to be made; returns why configurations without enough have no more.
    fn all(&mut self, progress: &mut dyn FnMut(&Progress)) -> Result<StopReason, BenchError> {
        loop {
            if self.order.stop.load(Ordering::Relaxed) {
                return Ok(StopReason::Interrupted);
            }
            let at = match next(self.plan, &self.measured) {
                Next::Measure(at) => at,
                Next::Done => return Ok(StopReason::MaxRuns),
                Next::OutOfTime => return Ok(StopReason::TimeBudget),
            };
            let Some(subject) = self.plan.subjects.get(at) else {
                return Ok(StopReason::MaxRuns);
            };
            let failed = self.one(at, subject, progress)?;
            if failed && !self.plan.keep_going {
                return Ok(StopReason::AfterFailure);
            }
        }
    }

    /// Makes one run and keeps it; whether it failed. One that was interrupted is not kept.
    fn one(
        &mut self,
        at: usize,
        subject: &Subject,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<bool, BenchError> {
        let number = self.measured[at].attempts();
        let order = self.measured.iter().map(|m| u64::from(m.attempts())).sum();
        let mut now = self.progress();
        let what = format!("run {} of {}", number + 1, subject.name);
        let mut detail = |text: &str| {
            now.what = format!("{what}: {text}");
            progress(&now);
        };
        let settings = Settings {
            settle: self.plan.settle,
            device: self.devices.get(&subject.target.name).copied(),
            source: subject.state.file().and_then(|f| self.sources.get(f)),
            one_cpu: self.one_cpu.as_ref(),
            stop: self.order.stop,
        };
        let started_unix_ns = machine::unix_time_ns();
        let result = one_run(subject, settings, &mut detail);
        // What fails while fsage stops, fails because of it.
        if self.order.stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        match result {
            Ok(mut done) => {
                (done.run.run, done.run.order) = (number, order);
                if let Some(device) = done.device {
                    let name = subject.target.name.clone();
                    self.devices.entry(name).or_insert(device);
                }
                let name = &subject.name;
                if !self.kept.targets.contains_key(name) {
                    self.record.append(&Entry::Target {
                        configuration: name.clone(),
                        record: Box::new(done.target.clone()),
                    })?;
                    self.kept.targets.insert(name.clone(), done.target);
                }
                let entry = Entry::Run {
                    configuration: name.clone(),
                    run: Box::new(done.run),
                };
                self.record.append(&entry)?;
                if let Entry::Run { run, .. } = entry {
                    self.measured[at].runs.push(*run);
                }
                Ok(false)
            }
            Err(broken) => {
                let failed = FailedRun {
                    configuration: subject.name.clone(),
                    run: number,
                    order,
                    started_unix_ns,
                    steps: broken.steps,
                    error: broken.why,
                };
                self.record.append(&Entry::Failed(failed.clone()))?;
                self.measured[at].failed.push(failed.clone());
                self.kept.failed.push(failed);
                Ok(true)
            }
        }
    }

    fn progress(&self) -> Progress {
        let done: u64 = self.measured.iter().map(|m| u64::from(m.attempts())).sum();
        let mut expected = done;
        let mut left_ns = Some(0.0);
        let pace = |m: &Measured| {
            let n = m.attempts();
            (n > 0).then(|| m.used_ns() as f64 / f64::from(n))
        };
        let paces: Vec<f64> = self.measured.iter().filter_map(pace).collect();
        let typical = (!paces.is_empty()).then(|| fsage_stats::mean(&paces));
        for measured in &self.measured {
            let runs = expected_runs(measured, &self.plan.rule) - measured.runs.len() as u32;
            expected += u64::from(runs);
            let each = pace(measured).or(typical);
            left_ns = left_ns
                .zip(each)
                .map(|(sum, each)| sum + each * f64::from(runs));
        }
        let used_ns: u64 = self.measured.iter().map(Measured::used_ns).sum();
        let budget_s = self.plan.rule.budget.as_secs_f64() - used_ns as f64 / 1e9;
        Progress {
            done,
            expected,
            what: String::new(),
            eta_s: left_ns.map(|ns| (ns / 1e9).min(budget_s.max(0.0))),
        }
    }
}
