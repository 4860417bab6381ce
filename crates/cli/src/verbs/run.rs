//! `fsage run`.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use fsage_core::Seed;
use fsage_experiment::running::{Ran, RunRequest, run_workload};
use fsage_experiment::target;
use fsage_format::FileKind;
use fsage_format::record::write_whole;
use fsage_format::result::run::WorkloadRun;
use fsage_host::signals;
use fsage_report::{run, units};
use fsage_workload::WorkloadSpec;

use crate::args::RunArgs;
use crate::exit::{Exit, UsageError};
use crate::files::{apart, no_stream, outputs, sealed_note, writable};
use crate::limits;
use crate::made::Made;
use crate::{generated, out, ui};

pub fn run(args: &RunArgs) -> Result<Exit> {
    let request = request(args)?;
    let target = args.target.as_deref().map(target::parse).transpose()?;
    let mut reads = generated::reads(&request.spec);
    reads.extend(target.iter().flat_map(|spec| spec.uses()));
    let writes = [&args.output, &args.trace, &args.to_trace];
    apart(
        reads.iter().map(PathBuf::as_path),
        writes.into_iter().filter_map(|path| path.as_deref()),
    )?;
    if let Some(path) = &args.to_trace {
        no_stream("--to-trace", Some(path))?;
        let stop = signals::install()?;
        return to_trace(path, args, &request, &stop);
    }
    let Some(target) = target else {
        return Err(UsageError("expected a target, or --to-trace OUT".into()).into());
    };
    let (output, json) = out::places(args.output.as_deref(), args.json);
    let trace = args.trace.as_deref();
    outputs(output, "--trace", trace, [FileKind::Run, FileKind::Trace])?;
    if target.wants_isolation() {
        fsage_host::isolate()?;
    }
    let stop = signals::install()?;
    for path in output.into_iter().chain(trace) {
        out::wait_for_reader(path, &stop)?;
    }
    super::prepare([&target], &stop)?;
    // What a command says has the terminal.
    let bar = request.spec.command().is_none();
    let bar = bar.then(|| ui::Progress::doing("preparing"));
    let mut progress = |phase: &str| match &bar {
        Some(bar) => bar.goes_on(phase),
        None => ui::note(&format!("{phase} …")),
    };
    let Ran {
        result,
        kept,
        sealed,
        closed,
    } = run_workload(&*target, &request, trace, &mut progress, &stop)?;
    drop(bar);
    sealed_note(trace, sealed);
    if let Some(dir) = kept {
        ui::note(&format!("kept: {}", dir.display()));
    }
    if let Some(path) = output {
        let text = serde_json::to_string_pretty(&result)? + "\n";
        write_whole(path, text.as_bytes())?;
    }
    if json {
        out::json(&result)?;
    } else {
        out::text(&run::text(&result, out::width()))?;
    }
    // What failed first explains what cannot be taken down.
    let exit = exit(&result);
    closed?;
    Ok(exit)
}

fn request(args: &RunArgs) -> Result<RunRequest> {
    let text = match &args.scale {
        Some(scale) if args.workload.starts_with("model:") => format!("{},{scale}", args.workload),
        Some(_) => {
            let why = "--scale is for models, such as model:mail.fsm";
            return Err(UsageError(why.into()).into());
        }
        None => args.workload.clone(),
    };
    let swapped = |error: UsageError| match args.target.as_deref() {
        Some(target) if target.parse::<WorkloadSpec>().is_ok() => UsageError(format!(
            "'{target}' is a workload and stands where a target should: expected fsage run WORKLOAD TARGET"
        )),
        _ => error,
    };
    let mut spec = generated::parse(&text).map_err(swapped)?;
    if let Some(seed) = args.seed {
        if spec.seed().is_none() {
            let name = spec.short_name();
            return Err(UsageError(format!("workload '{name}' has no seed to set")).into());
        }
        spec = spec.with_seed(Seed(seed));
    }
    let refused = |option: &str, why: &str| Err(UsageError(format!("{option}: {why}")).into());
    if spec.command().is_some() {
        let options = [
            ("--for", args.duration.is_some()),
            ("--ops", args.operations.is_some()),
            ("--role", args.role.is_some()),
            ("--to-trace", args.to_trace.is_some()),
            ("--trace", args.trace.is_some()),
        ];
        if let Some((option, _)) = options.into_iter().find(|o| o.1) {
            return refused(option, generated::COMMAND);
        }
    }
    if args.to_trace.is_some() {
        generated::known_before("--to-trace", &spec)?;
    }
    if args.role == Some(crate::args::RoleArg::Setup) && !args.keep && args.to_trace.is_none() {
        return refused(
            "--role setup",
            "what is set up is gone at the end; expected --keep",
        );
    }
    Ok(RunRequest {
        spec,
        role: args.role.map(Into::into),
        run_for_ns: args
            .duration
            .map(|t| u64::try_from(t.as_nanos()).unwrap_or(u64::MAX)),
        operations: args.operations,
        compressible_percent: args.compressible,
        cold: args.cold.into(),
        keep: args.keep,
    })
}

/// How it ended; what went wrong is told once the result is out.
fn exit(result: &WorkloadRun) -> Exit {
    if result.interrupted {
        return Exit::Interrupted;
    }
    if let Some(failed) = &result.failed {
        ui::line(&format!(
            "fsage: failed to run phase '{}': {}",
            failed.phase,
            run::unexpected(failed)
        ));
        // What has died explains it.
        for warning in &result.warnings {
            ui::line(&format!("fsage: {warning}"));
        }
        return Exit::Failed;
    }
    if let Some(command) = &result.command {
        return match (command.exit_status, command.exit_signal) {
            (Some(0), _) => Exit::Done,
            (status, signal) => {
                let code = status.unwrap_or(128 + signal.unwrap_or(0));
                ui::line(&format!(
                    "fsage: failed to run the command: exit status {code}"
                ));
                Exit::Failed
            }
        };
    }
    let unexpected: u64 = result.phases.iter().map(|p| p.unexpected).sum();
    if unexpected > 0 {
        ui::line(&format!(
            "fsage: {} operations did not end as the workload expected",
            units::count(unexpected)
        ));
        let mut mismatches = result.phases.iter().flat_map(|p| &p.mismatches);
        if let Some(hint) = mismatches.find_map(|m| limits::hint(&m.actual)) {
            ui::line(&format!("hint: {hint}"));
        }
        return Exit::Incomplete;
    }
    Exit::Done
}

fn to_trace(path: &Path, args: &RunArgs, request: &RunRequest, stop: &AtomicBool) -> Result<Exit> {
    writable(path, Made::Own(FileKind::Trace))?;
    out::wait_for_reader(path, stop)?;
    let generated = generated::write(path, request, stop)?;
    ui::line(&format!(
        "{}: {} operations of {}, {}",
        path.display(),
        units::count(generated.operations),
        args.workload,
        units::bytes(generated.bytes)
    ));
    Ok(if generated.interrupted {
        Exit::Interrupted
    } else {
        Exit::Done
    })
}
