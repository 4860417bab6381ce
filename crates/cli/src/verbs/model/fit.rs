//! `fsage model fit`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use fsage_core::{Op, OpSource, PathTable};
use fsage_format::FileKind;
use fsage_format::record::write_whole;
use fsage_format::result::model::{
    ChunkTry, IoTry, LeftOut, ModelBytes, ModelFit, ModelledOperation,
};
use fsage_format::trace::TraceReader;
use fsage_host::signals;
use fsage_model::filerunner::fit::{self, Fitter, Scan, Scanned};
use fsage_model::filerunner::{Config, Operation, Plan};
use fsage_report::model;

use crate::args::{ModelFitArgs, ModelForm};
use crate::exit::{Exit, Interrupted, UsageError};
use crate::files::{apart, open_whole_trace};
use crate::made::{Made, may_replace};
use crate::out;

pub fn run(args: &ModelFitArgs) -> Result<Exit> {
    let reads = [Some(&*args.trace), args.snapshot.as_deref()];
    apart(reads.into_iter().flatten(), [&*args.output])?;
    let is_fsm = form(args)? == ModelForm::Fsm;
    fitting(args, is_fsm)?;
    let stop = signals::install()?;
    if is_fsm {
        return super::fsm::run(args, &stop);
    }
    let output = out::file(&args.output, args.json, &stop)?;
    may_replace(&output, Made::Own(FileKind::FileRunner))?;
    let mut reader = open_whole_trace(&args.trace, args.allow_lossy)?;
    let whole = reader.loss().is_none();
    // What the capture was told to keep is kept, with or without a name.
    let nameless = args.under.is_empty();
    let roots = roots(&args.under, &reader);
    let trace = args.trace.display().to_string();
    let mut scan = Scan::new(&roots, nameless);
    all(&mut reader, &stop, |op, paths| {
        scan.take(op, paths);
        Ok(())
    })?;
    let scanned = scan.finish(&trace)?;
    let (chunks, io_chunks) = search(args, &scanned);
    let chosen = (
        chunks.last().map_or(1, |tried| tried.chunks),
        io_chunks.last().map_or(1, |tried| tried.io_chunk_bytes),
    );
    let mut fitter = Fitter::new(&trace, &scanned, (&roots, nameless), chosen.0, chosen.1);
    let mut reader = TraceReader::open(&args.trace)?;
    all(&mut reader, &stop, |op, paths| Ok(fitter.take(op, paths)?))?;
    let (config, processes) = fitter.finish();
    let text = config.to_string();
    let found = Found {
        args,
        scanned,
        chunks,
        io_chunks,
        processes,
        file_bytes: text.len() as u64,
    };
    let result = found.result(config)?;
    write_whole(&output, text.as_bytes())?;
    if args.json {
        out::document(&result)?;
    } else if args.output != Path::new("-") {
        out::text(&model::text(&result, out::width()))?;
    }
    Ok(if whole && result.reached {
        Exit::Done
    } else {
        Exit::Incomplete
    })
}

/// The form that is asked for, or else that of the file's name: nobody gets one that he did not mean.
fn form(args: &ModelFitArgs) -> Result<ModelForm, UsageError> {
    let kind = args.output.extension().and_then(|kind| kind.to_str());
    match (args.form, kind) {
        (Some(form), _) => Ok(form),
        (None, Some("fsm")) => Ok(ModelForm::Fsm),
        (None, Some("cfg")) => Ok(ModelForm::Cfg),
        (None, _) => Err(UsageError(format!(
            "the name of {} does not say what model it is: expected one that ends in .fsm (to be read and edited) or .cfg \
             (of FileRunner), or --format",
            args.output.display()
        ))),
    }
}

/// What is asked for must be of the model that is asked for.
fn fitting(args: &ModelFitArgs, is_fsm: bool) -> Result<(), UsageError> {
    let given = [
        ("--chunks", args.chunks.is_some(), false),
        ("--io-chunk", args.io_chunk.is_some(), false),
        ("--snapshot", args.snapshot.is_some(), true),
    ];
    match given.into_iter().find(|g| g.1 && g.2 != is_fsm) {
        Some((option, _, of_fsm)) => Err(UsageError(format!(
            "{option} is for a {} alone",
            if of_fsm { ".fsm" } else { ".cfg" }
        ))),
        None => Ok(()),
    }
}

/// The directories below which files count: those that were asked for, else those of the trace.
pub fn roots(asked: &[PathBuf], reader: &TraceReader) -> Vec<Vec<u8>> {
    if asked.is_empty() {
        return reader.meta().roots();
    }
    let bytes = |dir: &PathBuf| dir.as_os_str().as_encoded_bytes().to_vec();
    asked.iter().map(bytes).collect()
}

/// How far what is found may be from the trace, as a share.
fn goal(args: &ModelFitArgs) -> f64 {
    args.within.unwrap_or(5.0) / 100.0
}

/// Every operation of a trace.
pub fn all(
    reader: &mut TraceReader,
    stop: &AtomicBool,
    mut take: impl FnMut(&Op, &PathTable) -> Result<()>,
) -> Result<()> {
    reader.forget_paths();
    let mut batch = Vec::new();
    while reader.next_batch(&mut batch)? > 0 {
        if stop.load(Ordering::Relaxed) {
            return Err(Interrupted.into());
        }
        for op in batch.drain(..) {
            take(&op, reader.paths())?;
        }
    }
    Ok(())
}

/// What was tried, the last of each to be taken.
fn search(args: &ModelFitArgs, scanned: &Scanned) -> (Vec<fit::ChunkTry>, Vec<fit::IoTry>) {
    let goal = goal(args);
    let chunks = match args.chunks {
        Some(chunks) => vec![scanned.try_chunks(chunks)],
        None => scanned.search_chunks(goal),
    };
    let io_chunks = match args.io_chunk {
        Some(bytes) => vec![fit::IoTry {
            io_chunk_bytes: bytes,
            read_bytes: 0,
            written_bytes: 0,
        }],
        None => scanned.search_io(goal),
    };
    (chunks, io_chunks)
}

/// All that the result tells.
struct Found<'a> {
    args: &'a ModelFitArgs,
    scanned: Scanned,
    chunks: Vec<fit::ChunkTry>,
    io_chunks: Vec<fit::IoTry>,
    processes: u64,
    file_bytes: u64,
}

impl Found<'_> {
    /// Of that configuration, which can be run.
    fn result(mut self, config: Config) -> Result<ModelFit> {
        let moved = [Operation::READ, Operation::WRITE].map(|o| config.bytes(o));
        if let (Some(tried), true) = (self.io_chunks.last_mut(), self.args.io_chunk.is_some()) {
            [tried.read_bytes, tried.written_bytes] = moved;
        }
        let scanned = &self.scanned;
        let goal = goal(self.args);
        let io_chunks = self.io_chunks.iter().map(|tried| {
            let (read, written) = scanned.off(tried);
            IoTry {
                io_chunk_bytes: tried.io_chunk_bytes,
                read_percent: 100.0 * read,
                written_percent: 100.0 * written,
            }
        });
        let io_chunks = io_chunks.collect();
        let io_reached = self.io_chunks.last().is_some_and(|tried| {
            let (read, written) = scanned.off(tried);
            read.abs() <= goal && written.abs() <= goal
        });
        let chunk_reached = self.chunks.last().is_some_and(|t| t.distance <= goal);
        let shown = |bytes: u128| u64::try_from(bytes).unwrap_or(u64::MAX);
        let (repeat_write, repeat_read) = (config.repeat_write, config.repeat_read);
        let depths = config.depths;
        let name = self.args.output.display().to_string();
        let plan = Plan::new(&name, config)?;
        Ok(ModelFit {
            trace: self.args.trace.clone(),
            file: self.args.output.clone(),
            file_bytes: self.file_bytes,
            within_percent: 100.0 * goal,
            reached: (chunk_reached || self.args.chunks.is_some())
                && (io_reached || self.args.io_chunk.is_some()),
            chunks: self
                .chunks
                .iter()
                .map(|tried| ChunkTry {
                    chunks: tried.chunks,
                    distance_percent: 100.0 * tried.distance,
                })
                .collect(),
            io_chunks,
            operations: scanned.operations,
            modelled: modelled(scanned),
            left_out: left_out(scanned),
            read: ModelBytes {
                trace_bytes: scanned.read_bytes,
                model_bytes: shown(moved[0]),
            },
            written: ModelBytes {
                trace_bytes: scanned.written_bytes,
                model_bytes: shown(moved[1]),
            },
            repeat_write,
            repeat_read,
            depths,
            processes: self.processes,
            threads: plan.lanes() as u64,
            setup_files: plan.setup().files(),
        })
    }
}

fn modelled(scanned: &Scanned) -> Vec<ModelledOperation> {
    let counted = scanned.counted.iter();
    let shown = counted.map(|(&operation, &count)| ModelledOperation {
        number: operation.number(),
        name: operation.name().to_owned(),
        count,
        cached: if operation == Operation::READ {
            scanned.cached
        } else {
            0
        },
        run: operation.stage().is_some(),
    });
    shown.collect()
}

fn left_out(scanned: &Scanned) -> Vec<LeftOut> {
    let left = scanned.left.iter();
    let shown = left.map(|&(why, count)| LeftOut {
        reason: why.why().to_owned(),
        count,
    });
    shown.collect()
}
