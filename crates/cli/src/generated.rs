//! Workloads that are not run: the trace of what they would do.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use fsage_core::{Op, OpSink, OpSource};
use fsage_experiment::inputs;
use fsage_experiment::measured::Around;
use fsage_experiment::running::RunRequest;
use fsage_format::trace::{GENERATED, TraceEnd, TraceMeta, TraceWriter};
use fsage_host::{machine, signals};
use fsage_workload::{InputPath, Length, Merged, Role, WorkloadSpec};

use crate::exit::UsageError;
use crate::ui;

/// Where a workload that was not run is thought to have run.
const DIRECTORY: &str = "/workload";

/// What was written.
pub struct Generated {
    /// How many operations.
    pub operations: u64,
    /// The trace's size, bytes.
    pub bytes: u64,
    /// Whether `stop` ended it.
    pub interrupted: bool,
}

/// A workload as it is written on the command line.
pub fn parse(text: &str) -> Result<WorkloadSpec, UsageError> {
    text.parse()
        .map_err(|e| UsageError(format!("failed to read the workload: {e}")))
}

/// The files that a workload is made from.
pub fn reads(spec: &WorkloadSpec) -> Vec<PathBuf> {
    let needs = spec.needs().into_iter();
    needs
        .filter_map(|need| match need {
            InputPath::Tree(path) | InputPath::Text(path) => Some(path),
            InputPath::Target { .. } => None,
        })
        .collect()
}

/// Why a command has no operations before it is run.
pub const COMMAND: &str =
    "a command is run by the shell as it is and cannot be cut into operations";

/// Refuses, for the option that asks for them, a workload whose operations are not known before it runs.
pub fn known_before(option: &str, spec: &WorkloadSpec) -> Result<(), UsageError> {
    let why = if spec.command().is_some() {
        COMMAND
    } else if spec.in_target().is_some() {
        "what it does follows from the files of a target; fsage run --trace writes what it did there"
    } else {
        return Ok(());
    };
    Err(UsageError(format!("{option}: {why}")))
}

/// Writes what a workload would do as a trace, until `stop`.
pub fn write(path: &Path, request: &RunRequest, stop: &AtomicBool) -> Result<Generated> {
    // In a trace there is no time for which a script could run.
    let length = match request.length() {
        Length::Declared => Length::Count,
        length => length,
    };
    let mut program = signals::with_nothing_to_keep(|| -> Result<_> {
        let mut inputs = inputs::load(&request.spec, length)?;
        inputs.operations = request.operations;
        Ok(request.spec.program(&inputs)?)
    })?;
    for note in std::mem::take(&mut program.notes) {
        ui::line(&format!("fsage: {note}"));
    }
    if let Some(role) = request.role {
        program = program.only(role);
    }
    let mut source = Merged::new(program, DIRECTORY, request.operations);
    let mut writer = TraceWriter::create_whole(path, meta(request))?;
    let mut batch: Vec<Op> = Vec::new();
    let (mut late, mut newest_ns) = (0, 0);
    let mut around = Around::default();
    let is_model = request.spec.is_model();
    while !stop.load(Ordering::Relaxed) && source.next_batch(&mut batch)? > 0 {
        for op in &batch {
            late += u64::from(op.start_ns < newest_ns);
            newest_ns = newest_ns.max(op.start_ns);
            writer.push(op, source.paths())?;
        }
        if is_model {
            around.ended(source.role(), writer.operations());
        }
        batch.clear();
    }
    let operations = writer.operations();
    let interrupted = stop.load(Ordering::Relaxed);
    let bytes = writer.finish(TraceEnd {
        late,
        elapsed_ns: source.now_ns(),
        stopped: interrupted.then(|| "interrupted".to_string()),
        ..around.end()
    })?;
    Ok(Generated {
        operations,
        bytes,
        interrupted,
    })
}

/// What a model that stands for a workload must be held against.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    /// Whether the model is of all phases of the workload rather than of its run alone: what it is fitted to has them all, if
    /// nobody asked for one role.
    pub whole: bool,
    /// Whether the workload does anything but operations.
    pub thinks: bool,
}

/// The same of a model of so many operations. Of what is run for a time, or is known only as it is run, nobody can tell.
pub fn known(spec: &WorkloadSpec, operations: u64) -> Result<Known> {
    let request = RunRequest::of(spec.clone());
    let mut known = Known {
        whole: false,
        thinks: true,
    };
    if spec.command().is_some() || spec.in_target().is_some() {
        return Ok(known);
    }
    let program = signals::with_nothing_to_keep(|| -> Result<_> {
        let inputs = inputs::load(spec, request.length())?;
        Ok(spec.program(&inputs)?)
    })?;
    if program.run_for_ns.is_some() {
        return Ok(known);
    }
    let mut source = Merged::new(program, DIRECTORY, None);
    let mut batch: Vec<Op> = Vec::new();
    let (mut run, mut all) = (0_u64, 0_u64);
    // More than twice as many are those of neither.
    while all / 2 <= operations && source.next_batch(&mut batch)? > 0 {
        let of_batch = batch.len() as u64;
        all += of_batch;
        if source.role() == Role::Run {
            run += of_batch;
        }
        batch.clear();
    }
    known.whole = operations.abs_diff(all) < operations.abs_diff(run);
    known.thinks = source.has_thought();
    Ok(known)
}

fn meta(request: &RunRequest) -> TraceMeta {
    let machine = machine::identity();
    TraceMeta {
        fsage: env!("CARGO_PKG_VERSION").into(),
        host: machine.host,
        kernel: machine.kernel,
        command: vec!["fsage".into(), "run".into(), request.spec.to_string()],
        directory: DIRECTORY.into(),
        start_unix_ns: machine::unix_time_ns(),
        clock: "virtual".into(),
        method: GENERATED.into(),
        under: vec![DIRECTORY.into()],
        seed: request.spec.seed().map(|s| s.0),
        ..TraceMeta::default()
    }
}
