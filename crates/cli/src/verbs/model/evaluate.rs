//! `fsage model evaluate`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use fsage_core::TargetSpec;
use fsage_exec::replay::Pace;
use fsage_experiment::evaluate::plan::{EvaluatePlan, Original};
use fsage_experiment::evaluate::run::run as carry_out;
use fsage_experiment::plan::{CacheState, NamedTarget, NamedWorkload};
use fsage_experiment::target;
use fsage_format::bounded;
use fsage_format::record::write_whole;
use fsage_format::result::Printed;
use fsage_format::result::evaluation::Evaluation;
use fsage_host::signals;
use fsage_model::fsm::Model;
use fsage_report::evaluation;

use crate::args::{CachesArg, ModelEvaluateArgs, PaceArg};
use crate::exit::{Exit, UsageError};
use crate::files::{apart_from_results, open_whole_snapshot, open_whole_trace};
use crate::generated::{self, Known};
use crate::limits;
use crate::verbs::validate::{child, isolate_for};
use crate::verbs::{prepare, results_dir, with_bar};
use crate::{out, ui};

/// The result in the directory of an evaluation.
const RESULT: &str = "evaluation.json";

pub fn run(args: &ModelEvaluateArgs) -> Result<Exit> {
    out::directory(args.output.as_deref())?;
    let plan = planned(args)?;
    plan.check()?;
    let targets = || plan.targets.iter().map(|target| &target.spec);
    targets().try_for_each(|spec: &Arc<dyn TargetSpec>| spec.check())?;
    let reads = targets().flat_map(|spec: &Arc<dyn TargetSpec>| spec.uses());
    apart_from_results(reads, args.output.as_deref(), RESULT)?;
    isolate_for(targets())?;
    if let Original::Trace { path, snapshot } = &plan.original {
        // Each run reads them anew; what they lack is said once.
        open_whole_trace(path, args.allow_lossy)?;
        let look = |path: &PathBuf| open_whole_snapshot(path, args.allow_lossy).map(drop);
        snapshot.as_ref().map(look).transpose()?;
    }
    let stop = signals::install()?;
    prepare(targets(), &stop)?;
    let (dir, temporary) = results_dir(args.output.as_deref(), args.resume, "fsage-evaluate-")?;
    let plan = EvaluatePlan { dir, ..plan };
    let result = with_bar(|progress| carry_out(&plan, progress, &stop))?;
    if temporary.is_none() && !result.interrupted {
        let text = serde_json::to_string_pretty(&Printed::new(&result))? + "\n";
        write_whole(&plan.dir.join(RESULT), text.as_bytes())?;
    }
    if args.json {
        out::document(&result)?;
    } else {
        out::text(&evaluation::text(&result, args.details, out::width()))?;
    }
    if temporary.is_none() {
        ui::note(&format!("kept in {}", plan.dir.display()));
    }
    Ok(ended(&result))
}

fn ended(result: &Evaluation) -> Exit {
    limits::tell_failed(result.failed.iter().map(|failed| {
        let (side, target, run) = (&failed.side, &failed.target, failed.run + 1);
        let reason = &failed.reason;
        format!("not measured: run {run} of the {side} on {target}: {reason}")
    }));
    if result.interrupted {
        Exit::Interrupted
    } else if result.stands && result.failed.is_empty() {
        Exit::Done
    } else {
        Exit::Incomplete
    }
}

/// What the options ask for.
fn planned(args: &ModelEvaluateArgs) -> Result<EvaluatePlan> {
    let (file, original) = match (&args.model, &args.command, &args.workload) {
        (Some(model), ..) => (
            model,
            Original::Trace {
                path: args.first.clone(),
                snapshot: args.snapshot.clone(),
            },
        ),
        (None, Some(command), _) => (&args.first, workload(&format!("cmd: {command}"))?),
        (None, None, text) => (&args.first, workload(text.as_deref().unwrap_or_default())?),
    };
    let parse = |text: &String| Ok(NamedTarget::from(target::parse(text)?));
    let known = known(file, &original)?;
    let pace = pace(args, known.thinks)?;
    Ok(EvaluatePlan {
        model: model(file, pace, args)?,
        contents: contents(file, &original)?,
        original,
        whole: known.whole,
        targets: args.on.iter().map(parse).collect::<Result<_>>()?,
        runs: args.runs,
        cache: match args.cache {
            CachesArg::Cold => CacheState::Cold,
            CachesArg::Warm => CacheState::Warm,
        },
        pace: match pace {
            PaceArg::Afap => Pace::AsFastAsPossible,
            PaceArg::Own => Pace::Times(1.0),
        },
        strict: args.strict,
        seed: args.seed,
        keep_going: args.keep_going,
        resume: args.resume,
        dir: PathBuf::new(),
        child: child()?,
    })
}

/// What the workload that a model stands for must be held to: the model may be of what sets it up and takes it down, too.
fn known(file: &Path, original: &Original) -> Result<Known> {
    let Original::Workload(workload) = original else {
        return Ok(Known {
            whole: false,
            thinks: true,
        });
    };
    // One of FileRunner tells no number of operations.
    let operations = if file.extension().is_some_and(|kind| kind == "fsm") {
        let text = bounded::read_text(file, "a model of at most 16 MiB")?;
        let model = Model::parse(&text).map_err(|e| anyhow!("{}: {e}", file.display()))?;
        model.source.operations
    } else {
        0
    };
    let known = generated::known(&workload.spec, operations)?;
    if known.whole {
        ui::note(
            "the model is of what sets the workload up and takes it down, too: that is measured as well (a model of its \
             run alone is fitted to a trace made with --role run)",
        );
    }
    Ok(known)
}

/// The pace of both sides: what a trace thinks is left out of its replay, and nobody leaves it out of what is run. A workload
/// that never thinks is not held against a model that does: what lies between operations that nobody has run is no thinking.
fn pace(args: &ModelEvaluateArgs, thinks: bool) -> Result<PaceArg, UsageError> {
    match args.pace {
        Some(PaceArg::Afap) if args.command.is_some() => Err(UsageError(
            "--pace afap with --command: what a command thinks cannot be left out; expected own"
                .into(),
        )),
        Some(pace) => Ok(pace),
        None if args.model.is_some() || !thinks => Ok(PaceArg::Afap),
        None => Ok(PaceArg::Own),
    }
}

fn workload(text: &str) -> Result<Original> {
    let read = text.parse::<NamedWorkload>();
    let read = read.with_context(|| format!("read workload `{text}`"))?;
    Ok(Original::Workload(read))
}

/// The workload that runs a model.
fn model(file: &Path, pace: PaceArg, args: &ModelEvaluateArgs) -> Result<NamedWorkload> {
    let shown = file.display();
    let text = match file.extension().and_then(|kind| kind.to_str()) {
        Some("fsm") => {
            let think = match pace {
                PaceArg::Afap => ",think=false",
                PaceArg::Own => "",
            };
            let seed = args.model_seed.map(|seed| format!(",seed={seed}"));
            format!("model:file={shown}{think}{}", seed.unwrap_or_default())
        }
        Some("cfg") if args.model_seed.is_some() => {
            return Err(UsageError(format!(
                "--model-seed with {shown}: a .cfg leaves nothing to chance; expected a .fsm"
            ))
            .into());
        }
        Some("cfg") => format!("filerunner:file={shown}"),
        _ => {
            return Err(UsageError(format!(
                "{shown} is no model; expected one that ends in .fsm or .cfg"
            ))
            .into());
        }
    };
    let read = text.parse::<NamedWorkload>();
    Ok(NamedWorkload {
        name: shown.to_string(),
        ..read.with_context(|| format!("read workload `{text}`"))?
    })
}

/// What tells apart what is in the files: a directory of results is gone on with for the same alone.
fn contents(model: &Path, original: &Original) -> Result<String> {
    use std::os::unix::fs::MetadataExt;
    let of = |path: &Path| {
        let meta = std::fs::metadata(path).with_context(|| format!("read {}", path.display()))?;
        let (size, seconds, part) = (meta.len(), meta.mtime(), meta.mtime_nsec());
        Ok::<_, anyhow::Error>(format!("{size} {seconds}.{part}"))
    };
    let mut all = vec![of(model)?];
    if let Original::Trace { path, snapshot } = original {
        all.push(of(path)?);
        all.extend(snapshot.as_deref().map(of).transpose()?);
    }
    Ok(all.join(", "))
}
