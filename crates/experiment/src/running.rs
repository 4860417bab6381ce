//! A workload that is run on a target, phase by phase.

pub(crate) mod command;
mod convert;
pub mod direct;
pub(crate) mod files;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use fsage_core::{
    ColdEvidence, ColdLevel, ColdPolicy, Confinement, Errno, FileSystem, FsOptions, Place, Root,
    Target, TargetError, TargetSpec,
};
use fsage_exec::{Door, ExecError, Options};
use fsage_format::result::experiment::Others;
use fsage_format::result::run::{PhaseRun, RUN_FORMAT, RUN_VERSION, Unexpected, WorkloadRun};
use fsage_format::trace::{SYSTEM, TraceMeta};
use fsage_host::observe::Usage;
use fsage_host::pauses::Pauses;
use fsage_host::{HostError, machine, signals};
use fsage_workload::{BuildError, Length, Phase, Program, Role, WorkloadSpec};

use crate::bench::marks;
use crate::bench::measure::{Activity, Watch};
use crate::inputs::{self, InputError};
use crate::measured::{Around, MeasuredError, MeasuredTrace, Sealed, Wanted, trace_root};
use crate::target::{command_dir, directory};

/// What directories of runs are called.
const PREFIX: &str = ".fsage-run-";

/// Why a workload could not be run; completes "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum RunningError {
    /// The target cannot be used.
    #[error(transparent)]
    Target(#[from] TargetError),
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
    /// What was measured could not be written.
    #[error(transparent)]
    Measured(#[from] MeasuredError),
    /// The command could not be started.
    #[error("start the command")]
    Start(#[source] std::io::Error),
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
    /// All of a workload, as its parameters say.
    pub fn of(spec: WorkloadSpec) -> Self {
        Self {
            spec,
            role: None,
            run_for_ns: None,
            operations: None,
            compressible_percent: 0,
            cold: ColdPolicy::Auto,
            keep: false,
        }
    }

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
/// directory. With `trace` each measured operation is written there, of a stopped or broken run too.
pub fn run_workload(
    target: &dyn TargetSpec,
    request: &RunRequest,
    trace: Option<&Path>,
    progress: &mut dyn FnMut(&str),
    stop: &AtomicBool,
) -> Result<Ran, RunningError> {
    // What cannot be is known before a file system is made.
    files::check_target(&request.spec, target)?;
    let mut made = signals::with_nothing_to_keep(|| program(request, None))?;
    let open = target.open()?;
    let place = Where::find(&*open, target, request)?;
    if request.spec.in_target().is_some() {
        made = program(request, Some(place.root()))?;
    }
    let request = &RunRequest {
        run_for_ns: made.run_for_ns,
        ..request.clone()
    };
    let mut result = empty_result(target, &*open, request)?;
    result.warnings = made.notes;
    let time = open.file_system(FsOptions::TRUSTED)?;
    let (start_ns, before) = (time.clock().now_ns(), Pauses::now());
    let watch = Watch::start(&*time);
    if let Some(text) = request.spec.command() {
        progress(text);
        let dir = command_dir(place.root())?;
        let run = command::run(text, dir, &*open).map_err(RunningError::Start)?;
        result.warnings.extend(command::left(&run));
        result.command = Some(run);
    }
    let traced = trace.map(|path| begin_trace(path, target, place.root(), request));
    let traced = traced.transpose()?;
    let door = traced.as_ref().map(MeasuredTrace::door);
    let ran = (&*open, place.root(), request);
    let mut around = Around::default();
    let measuring = (stop, door, &mut around);
    let broke = run_phases(ran, made.phases, &mut result, progress, measuring);
    if let Some(watch) = watch {
        result.marks = disturbed(&result, watch.end());
    }
    let why = match (&broke, &result.failed) {
        _ if stop.load(Ordering::Relaxed) => Some("interrupted"),
        (Ok(()), None) => None,
        _ => Some("failed"),
    };
    // That it could not be written explains why the run ended.
    let around = Some(around).filter(|_| request.spec.is_model());
    let around = around.unwrap_or_default();
    let sealed = traced.map(|traced| traced.finish_around(why, around));
    let sealed = sealed.transpose()?;
    broke?;
    result.elapsed_ns = Some(time.clock().now_ns().saturating_sub(start_ns));
    if time.virtual_time().is_none() {
        result.warnings.extend(Pauses::now().since(&before));
    }
    drop(time);
    result.interrupted = stop.load(Ordering::Relaxed);
    if !result.interrupted {
        match (open.check(), &result.failed) {
            (Ok(()), _) => {}
            // The operation that failed is told; this says why.
            (Err(error), Some(_)) => result.warnings.push(format!("failed to {error}")),
            (Err(error), None) => return Err(error.into()),
        }
    }
    let kept = place.leave(request, result.failed.is_none() && !result.interrupted);
    Ok(Ran {
        result,
        kept,
        sealed,
        closed: open.close(),
    })
}

/// What a run gave.
#[derive(Debug)]
pub struct Ran {
    /// The result.
    pub result: WorkloadRun,
    /// The directory, if it stays.
    pub kept: Option<PathBuf>,
    /// What was written of its operations, if that was asked for.
    pub sealed: Option<Sealed>,
    /// Whether the target could be taken down; what was found is told in any case.
    pub closed: Result<(), TargetError>,
}

/// Runs one phase after the other, until one fails.
fn run_phases(
    (open, root, request): (&dyn Target, &dyn Root, &RunRequest),
    phases: Vec<Phase>,
    result: &mut WorkloadRun,
    progress: &mut dyn FnMut(&str),
    (stop, door, around): (&AtomicBool, Option<&Door>, &mut Around),
) -> Result<(), RunningError> {
    for phase in phases {
        if stop.load(Ordering::Relaxed) || result.failed.is_some() {
            break;
        }
        progress(&phase.name);
        let (name, role) = (phase.name.clone().into_owned(), phase.role);
        let ran = run_phase((open, root), request, phase, result, (stop, door));
        around.ended(role, door.map_or(0, Door::handed));
        ran.map_err(|error| open.explain(error.of(name)))?;
    }
    Ok(())
}

/// The phases that are asked for, none of a command, and how long its run phases last. Before the target is open
/// those of a workload that works on its files do nothing.
pub(crate) fn program(
    request: &RunRequest,
    root: Option<&dyn Root>,
) -> Result<Program, RunningError> {
    if request.spec.command().is_some() {
        return Ok(Program::default());
    }
    let mut inputs = inputs::load(&request.spec, request.length())?;
    inputs.operations = request.operations;
    let root = root.filter(|_| request.spec.in_target().is_some());
    inputs.files = root.map(files::of_target).transpose()?;
    let program = request.spec.program(&inputs)?;
    let program = match request.role {
        Some(role) => program.only(role),
        None => program,
    };
    Ok(Program {
        run_for_ns: request.run_for_ns.or(program.run_for_ns),
        ..program
    })
}

fn empty_result(
    target: &dyn TargetSpec,
    open: &dyn Target,
    request: &RunRequest,
) -> Result<WorkloadRun, TargetError> {
    let seed = request.spec.seed();
    Ok(WorkloadRun {
        format: RUN_FORMAT.to_string(),
        run_version: RUN_VERSION,
        workload: request.spec.to_string(),
        seed: seed.map(|s| s.0),
        target: target.to_string(),
        environment: fsage_host::target::describe(open, &target.to_string())?,
        started_unix_ns: machine::unix_time_ns(),
        elapsed_ns: None,
        run_for_ns: request.run_for_ns,
        operations_per_stream: request.operations,
        compressible_percent: request.compressible_percent,
        phases: Vec::new(),
        command: None,
        failed: None,
        interrupted: false,
        marks: Vec::new(),
        warnings: Vec::new(),
    })
}

/// What makes a run suspect, by the rules of `bench`. That it was stopped is said as a warning.
fn disturbed(result: &WorkloadRun, (others, elapsed_ns): (Others, u64)) -> Vec<String> {
    let others = Others { stops: 0, ..others };
    let mut marks = marks::by_others(elapsed_ns, &others);
    if let Some(command) = &result.command {
        // The readings are further apart than the command was long.
        let activity = Activity {
            others,
            elapsed_ns,
            ..Activity::default()
        };
        let others = activity.others_of(command.elapsed_ns, 0, 0);
        marks.extend(marks::waited_by_command(command.elapsed_ns, None, &others));
    }
    for phase in &result.phases {
        let waited = marks::waited(phase.elapsed_ns, phase.run_delay_ns, phase.streams.len());
        marks.extend(waited.map(|waited| format!("{}: {waited}", phase.name)));
    }
    marks
}

fn begin_trace(
    path: &Path,
    target: &dyn TargetSpec,
    root: &dyn Root,
    request: &RunRequest,
) -> Result<MeasuredTrace, RunningError> {
    let fs = root.file_system(fs_options(request))?;
    let meta = trace_meta(request, target);
    Ok(MeasuredTrace::begin(
        Wanted::trace(path),
        &*fs,
        trace_root(root),
        meta,
    )?)
}

/// What a trace of a run tells of it.
pub(crate) fn trace_meta(request: &RunRequest, target: &dyn TargetSpec) -> TraceMeta {
    let workload = request.spec.to_string();
    TraceMeta {
        command: vec!["fsage".into(), "run".into(), workload, target.to_string()],
        seed: request.spec.seed().map(|s| s.0),
        extra: [(SYSTEM.to_owned(), target.to_string())].into(),
        ..TraceMeta::default()
    }
}

/// Why a phase gave no result.
#[derive(Debug)]
pub(crate) enum PhaseError {
    Target(TargetError),
    Exec(ExecError),
}

impl PhaseError {
    pub(crate) fn of(self, phase: String) -> RunningError {
        match self {
            Self::Target(error) => RunningError::Target(error),
            Self::Exec(source) => RunningError::Exec { phase, source },
        }
    }
}

fn run_phase(
    (open, root): (&dyn Target, &dyn Root),
    request: &RunRequest,
    phase: Phase,
    result: &mut WorkloadRun,
    (stop, door): (&AtomicBool, Option<&Door>),
) -> Result<(), PhaseError> {
    let mut cold = None;
    if phase.cold {
        let fs = root
            .file_system(fs_options(request))
            .map_err(PhaseError::Target)?;
        match make_cold(&*fs, door) {
            Ok(evidence) => cold = Some(describe_cold(evidence)),
            Err(errno) => result.warnings.push(format!(
                "caches could not be made cold before phase '{}': {errno}",
                phase.name
            )),
        }
    }
    let mut done = execute_to(door, root, request, phase, 1_000_000_000, stop)?;
    done.run.cold = cold;
    done.run.layout =
        files::layout(open, root, &done.laid_out, stop).map_err(PhaseError::Target)?;
    result.phases.push(done.run);
    result.failed = done.failed;
    Ok(())
}

/// Makes caches cold before a phase; the first of its operations tells that.
pub(crate) fn make_cold(fs: &dyn FileSystem, door: Option<&Door>) -> Result<ColdEvidence, Errno> {
    let from_ns = fs.clock().now_ns();
    let made = fs.platform().make_cold();
    let level = match made {
        Ok(evidence) => Some(evidence.level),
        // Nothing can be cold here; on another target it is.
        Err(Errno::EOPNOTSUPP) => Some(ColdLevel::Everything),
        Err(_) => None,
    };
    if let Some(door) = door {
        door.made_cold(level, (from_ns, fs.clock().now_ns()));
    }
    made
}

/// A phase that was run.
#[derive(Debug)]
pub(crate) struct Executed {
    pub run: PhaseRun,
    /// The operation whose error ended it, where one did.
    pub failed: Option<Unexpected>,
    /// Files, and directories of files, of which it is to be told how they lie.
    pub laid_out: Vec<Vec<u8>>,
    /// What its streams' threads used.
    pub usage: Usage,
}

/// Runs a phase below `root` with the caches as they are, with a series of points that wide.
pub(crate) fn execute(
    root: &dyn Root,
    request: &RunRequest,
    phase: Phase,
    series_interval_ns: u64,
    stop: &AtomicBool,
) -> Result<Executed, PhaseError> {
    execute_to(None, root, request, phase, series_interval_ns, stop)
}

/// The same, with each measured operation handed over.
pub(crate) fn execute_to(
    door: Option<&Door>,
    root: &dyn Root,
    request: &RunRequest,
    phase: Phase,
    series_interval_ns: u64,
    stop: &AtomicBool,
) -> Result<Executed, PhaseError> {
    let fs = root
        .file_system(fs_options(request))
        .map_err(PhaseError::Target)?;
    let is_run = phase.role == Role::Run;
    let exec = Options {
        seed: request.spec.seed().unwrap_or(fsage_core::Seed(1)),
        compressible_percent: request.compressible_percent,
        series_interval_ns,
        run_for_ns: request.run_for_ns.filter(|_| is_run),
        most_operations: request.operations.filter(|_| is_run),
        end_on_fatal: true,
        stop: Some(stop),
        measured: door,
    };
    let result = fsage_exec::run(&*fs, phase.streams, &exec).map_err(PhaseError::Exec)?;
    let failed = result.broken.as_ref();
    let failed = failed.map(|m| convert::reported(&phase.name, m));
    Ok(Executed {
        run: convert::phase(phase.role.name(), &phase.name, None, &result),
        failed,
        laid_out: phase.laid_out,
        usage: result.usage,
    })
}

/// Names that came from a file of somebody's are kept inside.
pub(crate) fn fs_options(request: &RunRequest) -> FsOptions {
    FsOptions {
        confinement: if request.spec.needs().is_empty() {
            Confinement::Trusted
        } else {
            Confinement::Beneath
        },
        cold: request.cold,
    }
}

pub(crate) fn describe_cold(evidence: ColdEvidence) -> String {
    let method = format!("{:?}", evidence.method).to_lowercase();
    match evidence.level {
        ColdLevel::DataOnly => format!("{method}, data only: names and inodes stay"),
        ColdLevel::Everything => format!("{method}, everything"),
    }
}

/// The directory in which a workload runs.
#[derive(Debug)]
enum Where<'a> {
    /// The root of the target, of a workload that works on what lies there.
    Target(&'a dyn Target),
    /// Goes in the end, also after a kill.
    Own(Box<dyn Place>),
    /// Stays; a file beside it says what was set up in it.
    Kept(PathBuf, Box<dyn Target>),
}

impl<'a> Where<'a> {
    fn find(
        open: &'a dyn Target,
        target: &dyn TargetSpec,
        request: &RunRequest,
    ) -> Result<Self, RunningError> {
        let unfit = |dir: &Path, why: String| RunningError::Unfit {
            dir: dir.to_owned(),
            why,
        };
        if request.spec.in_target().is_some() {
            if request.keep || request.role.is_some() {
                let why = "the workload has no set-up and no directory of its own; expected neither --keep nor \
                           --role";
                return Err(unfit(Path::new(&target.to_string()), why.to_string()));
            }
            return Ok(Self::Target(open));
        }
        if !request.keep && request.role.is_none() {
            return Ok(Self::Own(open.place(PREFIX)?));
        }
        let Some(dir) = open.host_dir().filter(|_| !open.is_temporary()) else {
            let why = "it is made for one run and removed after it; expected a directory for --keep \
                       and --role";
            return Err(unfit(Path::new(&target.to_string()), why.to_string()));
        };
        if matches!(request.role, Some(Role::Run | Role::Teardown)) {
            let made = std::fs::read_to_string(marker(dir)).map_err(|_| {
                let why = "it is none that `fsage run --role setup --keep` made, and nothing else is \
                           run in";
                unfit(dir, why.to_string())
            })?;
            let expected = request.spec.to_string();
            if made.trim_end() != expected {
                let why = format!("it was made for {}, not for {expected}", made.trim_end());
                return Err(unfit(dir, why));
            }
            return Ok(Self::Kept(dir.to_owned(), directory::open(dir)?));
        }
        let place = open.place(PREFIX)?;
        if !request.keep {
            return Ok(Self::Own(place));
        }
        let kept = place.keep();
        let io = |e| TargetError::from(HostError::at("make a directory in", dir, e));
        // Nobody else's file or link is written to.
        let mut marker = std::fs::File::create_new(marker(&kept)).map_err(io)?;
        writeln!(marker, "{}", request.spec).map_err(io)?;
        let open = directory::open(&kept)?;
        Ok(Self::Kept(kept, open))
    }

    fn root(&self) -> &dyn Root {
        match self {
            Self::Target(open) => *open,
            Self::Own(place) => &**place,
            Self::Kept(_, open) => &**open,
        }
    }

    /// The directory if it stays: one whose teardown is `done` goes, unless it is asked for.
    fn leave(self, request: &RunRequest, done: bool) -> Option<PathBuf> {
        let Self::Kept(dir, _) = self else {
            return None;
        };
        if request.role == Some(Role::Teardown) && done && !request.keep {
            if let Err(error) = fsage_host::remove::tree(&dir) {
                fsage_host::guard::not_removed(&dir, &error);
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
