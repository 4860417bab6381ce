//! `fsage model fit -o M.fsm`.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, anyhow};
use fsage_core::OpKind;
use fsage_format::FileKind;
use fsage_format::record::write_whole;
use fsage_format::result::model::{FsmCount, FsmElapsed, FsmFit, FsmHits, FsmOtherwise};
use fsage_format::trace::TraceReader;
use fsage_model::fsm::{Gather, Generator, Measures, Model, Options, Type, fit};

use super::fit::{all, roots};
use crate::args::ModelFitArgs;
use crate::exit::Exit;
use crate::files::{open_whole_snapshot, open_whole_trace};
use crate::made::{Made, may_replace};
use crate::out;

/// From where on a model is said to be off where nobody says how far it may be.
const WITHIN_PERCENT: f64 = 10.0;

/// Fits a model, and plays it against the trace.
pub fn run(args: &ModelFitArgs, stop: &AtomicBool) -> Result<Exit> {
    let output = out::file(&args.output, args.json, stop)?;
    may_replace(&output, Made::Own(FileKind::Model))?;
    let mut reader = open_whole_trace(&args.trace, args.allow_lossy)?;
    let whole = reader.loss().is_none();
    let under = roots(&args.under, &reader);
    let mut gather = Gather::new(&under);
    if let Some(path) = &args.snapshot {
        there(&mut gather, path, args.allow_lossy)?;
    }
    all(&mut reader, stop, |op, paths| {
        gather.take(op, paths);
        Ok(())
    })?;
    let failed = |e| anyhow!("fit a model to {}: {e}", args.trace.display());
    let model = fit(gather).map_err(failed)?;
    let text = model.text().map_err(failed)?;
    let mut of_trace = Measures::new(&under);
    all(&mut TraceReader::open(&args.trace)?, stop, |op, paths| {
        of_trace.take(op, paths);
        Ok(())
    })?;
    // What is written is what is played.
    let read = Arc::new(Model::parse(&text).map_err(failed)?);
    let mut generator = Generator::new(read, Options::default()).map_err(failed)?;
    let mut of_model = Measures::new(&[]);
    of_model.play(&mut generator);
    write_whole(&output, text.as_bytes())?;
    let result = found(args, &model, text.len() as u64, &of_trace, &of_model);
    if args.json {
        out::document(&result)?;
    } else if args.output != std::path::Path::new("-") {
        out::text(&fsage_report::model::fsm(&result, out::width()))?;
    }
    let is_off = args.within.is_some() && !result.reached;
    Ok(if whole && !is_off {
        Exit::Done
    } else {
        Exit::Incomplete
    })
}

/// What was there before the trace, by a snapshot.
fn there(gather: &mut Gather, path: &std::path::Path, allow_lossy: bool) -> Result<()> {
    let mut snapshot = open_whole_snapshot(path, allow_lossy)?;
    let root = snapshot.meta().root_path();
    let mut files = Vec::new();
    while snapshot.next_batch(&mut files)? > 0 {
        for file in files.drain(..) {
            let kind = match file.file_type {
                fsage_core::FileType::Directory => Type::Directory,
                fsage_core::FileType::Symlink => Type::Link,
                fsage_core::FileType::Regular => Type::File,
                fsage_core::FileType::Other => continue,
            };
            let full = [&*root, b"/", &file.path].concat();
            gather.resolver.there(&full, kind, file.size_bytes);
        }
    }
    Ok(())
}

fn found(
    args: &ModelFitArgs,
    model: &Model,
    file_bytes: u64,
    trace: &Measures,
    played: &Measures,
) -> FsmFit {
    let counts = OpKind::ALL
        .iter()
        .zip(trace.counts.iter().zip(&played.counts));
    let footprint = trace.footprint();
    let mut fit = FsmFit {
        trace: args.trace.clone(),
        file: args.output.clone(),
        file_bytes,
        operations: model.source.operations,
        left_out: model.source.left_out.values().sum(),
        left_out_by_kind: model.source.left_out.clone(),
        phases: model.phases.len() as u64,
        groups: model.groups.len() as u64,
        processes: model.groups.iter().map(|g| g.processes).sum(),
        file_classes: model.classes.len() as u64,
        visits: model.visits.len() as u64,
        within_percent: args.within.unwrap_or(WITHIN_PERCENT),
        reached: true,
        counts: counts
            .filter(|(_, (a, b))| **a + **b > 0)
            .map(|(&kind, (&trace, &model))| FsmCount { kind, trace, model })
            .collect(),
        read_bytes: (trace.bytes_read, played.bytes_read).into(),
        written_bytes: (trace.bytes_written, played.bytes_written).into(),
        hits: [footprint / 4, footprint / 2, footprint]
            .into_iter()
            .map(|pages| FsmHits {
                cache_bytes: pages as u64 * 4096,
                trace_percent: 100.0 * trace.hits(pages),
                model_percent: 100.0 * played.hits(pages),
            })
            .collect(),
        otherwise: played
            .otherwise
            .iter()
            .map(|(&(kind, run_as), &operations)| FsmOtherwise {
                kind,
                operations,
                run_as,
            })
            .collect(),
        elapsed: FsmElapsed {
            trace_ns: model.source.span_ns,
            model_ns: played.elapsed_ns,
        },
    };
    let is_off = fit.off().next().is_some();
    fit.reached = !is_off;
    fit
}
