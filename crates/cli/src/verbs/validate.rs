//! `fsage validate`.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use fsage_experiment::target::TargetSpec;
use fsage_experiment::validate::plan::ValidatePlan;
use fsage_experiment::validate::run::run as carry_out;
use fsage_format::result::validation::Validation;
use fsage_host::guard::GuardedDir;
use fsage_host::signals;
use fsage_report::validation;

use crate::args::ValidateArgs;
use crate::exit::{Exit, UsageError};
use crate::{out, ui};

pub fn run(args: ValidateArgs) -> Result<Exit> {
    let targets = args
        .target
        .iter()
        .map(|text| Ok(TargetSpec::parse(text)?))
        .collect::<Result<Vec<TargetSpec>>>()?;
    let workloads = args
        .workload
        .iter()
        .map(|text| {
            text.parse()
                .with_context(|| format!("read workload `{text}`"))
        })
        .collect::<Result<Vec<_>>>()?;
    let trace_on = match &args.trace_on {
        None => 0,
        Some(text) => {
            let wanted = TargetSpec::parse(text)?;
            targets
                .iter()
                .position(|t| *t == wanted)
                .ok_or_else(|| UsageError(format!("--trace-on {text} is none of the targets")))?
        }
    };
    isolate_for(&targets)?;
    let stop = signals::install()?;
    let (dir, temporary) = if let Some(dir) = args.output {
        (dir, None)
    } else {
        let dir = GuardedDir::create(&std::env::temp_dir(), "fsage-validate-")?;
        (dir.path().to_owned(), Some(dir))
    };
    let plan = ValidatePlan {
        workloads,
        targets,
        setup: args.setup,
        runs: args.runs,
        trace_on,
        quick: !args.full_profile,
        profiles: args.profiles,
        profile_time_ns: args
            .profile_time
            .map(|t| u64::try_from(t.as_nanos()).unwrap_or(u64::MAX)),
        cpu: one_cpu(args.one_cpu),
        seed: args.seed,
        dir,
        child: child()?,
    };
    let result = carry_out_with_progress(&plan, &stop)?;
    show(&result, args.json)?;
    if temporary.is_none() {
        ui::line(&format!("kept in {}", plan.dir.display()));
    }
    Ok(Exit::Done)
}

/// Scratch targets are mounted where nobody else sees them; must come before any thread.
pub fn isolate_for(targets: &[TargetSpec]) -> Result<()> {
    if targets.iter().any(|t| matches!(t, TargetSpec::Scratch(_))) {
        fsage_host::isolate()?;
    }
    Ok(())
}

/// The last CPU that this process may use, if one is asked for.
fn one_cpu(asked: bool) -> Option<usize> {
    asked
        .then(fsage_host::thread::allowed_cpus)
        .and_then(|cpus| cpus.last().copied())
}

/// How this program is started to run a generated workload.
pub fn child() -> Result<Vec<std::ffi::OsString>> {
    let exe: PathBuf = std::env::current_exe().context("find this program's own file")?;
    Ok(vec![exe.into(), "run-child".into()])
}

/// Carries out a plan with a bar on the terminal.
pub fn carry_out_with_progress(plan: &ValidatePlan, stop: &AtomicBool) -> Result<Validation> {
    let bar = ui::Progress::new(1);
    let result = carry_out(
        plan,
        &mut |step| bar.set(step.done as u64, step.total as u64, &step.what, None),
        stop,
    );
    drop(bar);
    Ok(result?)
}

/// Prints a validation.
pub fn show(result: &Validation, json: bool) -> Result<()> {
    if json {
        out::json(result)
    } else {
        Ok(out::text(&validation::text(result, out::width()))?)
    }
}
