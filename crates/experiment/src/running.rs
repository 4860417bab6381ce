//! A workload that is run on a target, phase by phase.

pub(crate) mod command;
mod convert;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use fsage_core::{Clock, ColdEvidence, FileSystem};
use fsage_exec::{ExecError, Options};
use fsage_format::result::run::{PhaseRun, RUN_FORMAT, RUN_VERSION, Unexpected, WorkloadRun};
use fsage_host::guard::GuardedDir;
use fsage_host::observe::Usage;
use fsage_host::{
    ColdPolicy, Confinement, HostError, HostFs, HostOptions, MonotonicClock, machine,
};
use fsage_workload::{BuildError, Length, Phase, Role, WorkloadSpec};

use crate::inputs::{self, InputError};
use crate::target::{OpenTarget, TargetSpec};

/// What directories of runs are called.
const PREFIX: &str = ".fsage-run-";

/// Why a workload could not be run; completes "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum RunningError {
    /// The target cannot be used.
    #[error(transparent)]
    Host(#[from] HostError),
    /// What the workload needs could not be read.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The workload cannot be built from its parameters.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A phase broke off.
    #[error("run phase '{phase}'")]
    Exec {
        /// The phase.
        phase: String,
        /// Why.
        #[source]
        source: ExecError,
    },
    /// The command could not be started.
    #[error("run /bin/sh")]
    Shell(#[source] std::io::Error),
    /// The directory is not one in which this part of a workload can run.
    #[error("use {dir}: {why}", dir = dir.display())]
    Unfit {
        /// The directory.
        dir: PathBuf,
        /// Why, and what was expected.
        why: String,
    },
}

/// What is to be run, and how.
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// The workload.
    pub spec: WorkloadSpec,
    /// Only the phases of this role; the run and the teardown alone need a directory that an earlier
    /// set-up has kept.
    pub role: Option<Role>,
    /// How long run phases last, nanoseconds; `None` for what the parameters say.
    pub run_for_ns: Option<u64>,
    /// After how many operations each stream of a run phase ends; `None` likewise.
    pub operations: Option<u64>,
    /// How much of what is written a compressor takes away, in hundredths.
    pub compressible_percent: u8,
    /// How caches are made cold.
    pub cold: ColdPolicy,
    /// Whether the directory stays.
    pub keep: bool,
}

impl RunRequest {
    /// How long the streams of run phases go on by themselves.
    pub fn length(&self) -> Length {
        if self.run_for_ns.is_some() || self.operations.is_some() {
            Length::Endless
        } else {
            Length::Declared
        }
    }
}

/// Runs a workload in a directory of its own on the target. `progress` is told of each phase before it
/// begins. Once `stop` is set the run ends at the next operation; what was made goes with the
/// directory. Returns the result and the directory, if it stays.
pub fn run_workload(
    target: &TargetSpec,
    request: &RunRequest,
    progress: &mut dyn FnMut(&str),
    stop: &AtomicBool,
) -> Result<(WorkloadRun, Option<PathBuf>), RunningError> {
    // What cannot be built is known before a file system is made.
    let (phases, run_for_ns) = program(request)?;
    let request = &RunRequest {
        run_for_ns,
        ..request.clone()
    };
    let open = target.open()?;
    let place = Place::find(&open, target, request)?;
    let mut result = empty_result(target, &open, &place, request)?;
    let start_ns = MonotonicClock.now_ns();
    if let Some(text) = request.spec.command() {
        progress(text);
        result.command = Some(command::run(text, place.path()).map_err(RunningError::Shell)?);
    }
    for phase in phases {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        progress(&phase.name);
        let name = phase.name.clone().into_owned();
        let (run, failed) = run_phase(&open, &place, request, phase, &mut result.warnings, stop)
            .map_err(|error| open.explain(error.of(name)))?;
        result.phases.push(run);
        result.failed = failed;
        if result.failed.is_some() {
            break;
        }
    }
    result.environment.elapsed_ns = MonotonicClock.now_ns().saturating_sub(start_ns);
    result.interrupted = stop.load(Ordering::Relaxed);
    if !result.interrupted {
        match (open.check(), &result.failed) {
            (Ok(()), _) => {}
            // The operation that failed is told; this says why.
            (Err(error), Some(_)) => result.warnings.push(error.to_string()),
            (Err(error), None) => return Err(error.into()),
        }
    }
    let kept = place.leave(request, result.failed.is_none() && !result.interrupted);
    open.close()?;
    Ok((result, kept))
}

/// The phases that are asked for, none of a command, and how long its run phases last.
pub(crate) fn program(request: &RunRequest) -> Result<(Vec<Phase>, Option<u64>), RunningError> {
    if request.spec.command().is_some() {
        return Ok((Vec::new(), None));
    }
    let inputs = inputs::load(&request.spec, request.length())?;
    let program = request.spec.program(&inputs)?;
    let run_for_ns = request.run_for_ns.or(program.run_for_ns);
    let phases = match request.role {
        Some(role) => program.only(role).phases,
        None => program.phases,
    };
    Ok((phases, run_for_ns))
}

fn empty_result(
    target: &TargetSpec,
    open: &OpenTarget,
    place: &Place,
    request: &RunRequest,
) -> Result<WorkloadRun, HostError> {
    let seed = request.spec.seed();
    let fs = HostFs::open(place.path(), HostOptions::default())?;
    let mut environment = machine::describe(&fs, &target.to_string(), open.record());
    environment.seed = seed.map_or(0, |s| s.0);
    Ok(WorkloadRun {
        format: RUN_FORMAT.to_string(),
        run_version: RUN_VERSION,
        workload: request.spec.to_string(),
        seed: seed.map(|s| s.0),
        target: target.to_string(),
        environment,
        started_unix_ns: machine::unix_time_ns(),
        run_for_ns: request.run_for_ns,
        operations_per_stream: request.operations,
        compressible_percent: request.compressible_percent,
        phases: Vec::new(),
        command: None,
        failed: None,
        interrupted: false,
        warnings: Vec::new(),
    })
}

/// Why a phase gave no result.
#[derive(Debug)]
pub(crate) enum PhaseError {
    Host(HostError),
    Exec(ExecError),
}

impl PhaseError {
    pub(crate) fn of(self, phase: String) -> RunningError {
        match self {
            Self::Host(error) => RunningError::Host(error),
            Self::Exec(source) => RunningError::Exec { phase, source },
        }
    }
}

fn run_phase(
    open: &OpenTarget,
    place: &Place,
    request: &RunRequest,
    phase: Phase,
    warnings: &mut Vec<String>,
    stop: &AtomicBool,
) -> Result<(PhaseRun, Option<Unexpected>), PhaseError> {
    let options = host_options(request);
    let mut cold = None;
    if phase.cold {
        // A remount needs the file system to be unused: it is asked for only for the moment.
        let whole = match open.record() {
            Some(_) => open.file_system(options),
            None => HostFs::open(place.path(), options),
        };
        match whole.map_err(PhaseError::Host)?.platform().make_cold() {
            Ok(evidence) => cold = Some(describe_cold(evidence)),
            Err(errno) => warnings.push(format!(
                "caches could not be made cold before phase '{}': {errno}",
                phase.name
            )),
        }
    }
    let mut done = execute(place.path(), request, phase, 1_000_000_000, stop)?;
    done.run.cold = cold;
    Ok((done.run, done.failed))
}

/// A phase that was run.
#[derive(Debug)]
pub(crate) struct Executed {
    pub run: PhaseRun,
    /// The operation whose error ended it, where one did.
    pub failed: Option<Unexpected>,
    /// What its streams' threads used.
    pub usage: Usage,
}

/// Runs a phase in `dir` with the caches as they are, with a series of points that wide.
pub(crate) fn execute(
    dir: &Path,
    request: &RunRequest,
    phase: Phase,
    series_interval_ns: u64,
    stop: &AtomicBool,
) -> Result<Executed, PhaseError> {
    let fs = HostFs::open(dir, host_options(request)).map_err(PhaseError::Host)?;
    let is_run = phase.role == Role::Run;
    let exec = Options {
        seed: request.spec.seed().unwrap_or(fsage_core::Seed(1)),
        compressible_percent: request.compressible_percent,
        series_interval_ns,
        run_for_ns: request.run_for_ns.filter(|_| is_run),
        most_operations: request.operations.filter(|_| is_run),
        end_on_fatal: true,
        stop: Some(stop),
    };
    let result = fsage_exec::run(&fs, phase.streams, &exec).map_err(PhaseError::Exec)?;
    let failed = result.broken.as_ref();
    let failed = failed.map(|m| convert::told(&phase.name, m));
    Ok(Executed {
        run: convert::phase(phase.role.name(), &phase.name, None, &result),
        failed,
        usage: result.usage,
    })
}

/// Names that came from a file of somebody's are kept inside.
pub(crate) fn host_options(request: &RunRequest) -> HostOptions {
    HostOptions {
        confinement: if request.spec.needs().is_empty() {
            Confinement::Trusted
        } else {
            Confinement::Beneath
        },
        cold: request.cold,
    }
}

pub(crate) fn describe_cold(evidence: ColdEvidence) -> String {
    format!("{:?}, {:?}", evidence.method, evidence.level).to_lowercase()
}

/// The directory in which a workload runs.
#[derive(Debug)]
enum Place {
    /// Goes in the end, also after a kill.
    Guarded(GuardedDir),
    /// Stays; a file beside it says what was set up in it.
    Kept(PathBuf),
}

impl Place {
    fn find(
        open: &OpenTarget,
        target: &TargetSpec,
        request: &RunRequest,
    ) -> Result<Self, RunningError> {
        let unfit = |dir: &Path, why: String| RunningError::Unfit {
            dir: dir.to_owned(),
            why,
        };
        let is_scratch = open.record().is_some();
        if is_scratch && (request.keep || request.role.is_some()) {
            let why = "it is made for one run and removed after it; expected a directory for --keep \
                       and --role";
            return Err(unfit(Path::new(&target.to_string()), why.to_string()));
        }
        if matches!(request.role, Some(Role::Run | Role::Teardown)) {
            let made = std::fs::read_to_string(marker(open.dir())).map_err(|_| {
                let why = "it is none that `fsage run --role setup --keep` made, and nothing else is \
                           run in";
                unfit(open.dir(), why.to_string())
            })?;
            let expected = request.spec.to_string();
            if made.trim_end() != expected {
                let why = format!("it was made for {}, not for {expected}", made.trim_end());
                return Err(unfit(open.dir(), why));
            }
            return Ok(Self::Kept(open.dir().to_owned()));
        }
        if !request.keep {
            return Ok(Self::Guarded(GuardedDir::create(open.dir(), PREFIX)?));
        }
        let io = |e| HostError::at("make a directory in", open.dir(), e);
        let dir = GuardedDir::create(open.dir(), PREFIX)?.keep();
        // Nobody else's file or link is written to.
        let mut marker = std::fs::File::create_new(marker(&dir)).map_err(io)?;
        writeln!(marker, "{}", request.spec).map_err(io)?;
        Ok(Self::Kept(dir))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Guarded(dir) => dir.path(),
            Self::Kept(dir) => dir,
        }
    }

    /// The directory if it stays: one whose teardown is `done` goes, unless it is asked for.
    fn leave(self, request: &RunRequest, done: bool) -> Option<PathBuf> {
        let Self::Kept(dir) = self else { return None };
        if request.role == Some(Role::Teardown) && done && !request.keep {
            if let Err(error) = fsage_host::remove::tree(&dir) {
                fsage_host::guard::not_removed(&error);
                return Some(dir);
            }
            drop(std::fs::remove_file(marker(&dir)));
            return None;
        }
        Some(dir)
    }
}

/// Beside the directory, so that the workload does not meet it.
fn marker(dir: &Path) -> PathBuf {
    let mut name = dir.as_os_str().to_owned();
    name.push(".workload");
    name.into()
}
