//! `fsage bench`.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use fsage_experiment::bench::kept::{self, Options, plan_of};
use fsage_experiment::bench::run::{Order, run as carry_out};
use fsage_experiment::plan::allow::Wanted;
use fsage_experiment::plan::{BenchPlan, CommandPlan, PlanError};
use fsage_experiment::running::direct;
use fsage_format::result::experiment::{EXPERIMENT_FILE, Experiment};
use fsage_host::signals;
use fsage_report::experiment;

use super::validate::isolate_for;
use super::{refuse_unless_allowed, results_dir, with_bar};
use crate::args::BenchArgs;
use crate::exit::{Exit, UsageError};
use crate::files::apart_from_results;
use crate::limits;
use crate::{out, ui};

pub fn run(args: &BenchArgs) -> Result<Exit> {
    out::directory(args.output.as_deref())?;
    spare_plan(args)?;
    let (plan, options) = planned(args)?;
    let targets = plan.subjects.iter().flat_map(|s| s.target.spec.uses());
    apart_from_results(targets, args.output.as_deref(), EXPERIMENT_FILE)?;
    isolate_for(plan.subjects.iter().map(|s| &s.target.spec))?;
    let stop = signals::install()?;
    super::prepare(plan.subjects.iter().map(|s| &s.target.spec), &stop)?;
    let (dir, temporary) = results_dir(args.output.as_deref(), args.resume, "fsage-bench-")?;
    let order = Order {
        dir: &dir,
        options: &options,
        resume: args.resume,
        retry_failed: args.retry_failed,
        stop: &stop,
    };
    let result = with_bar(|progress| carry_out(&plan, &order, progress))?;
    if args.json {
        out::compact(&result)?;
    } else {
        out::text(&experiment::text(&result, args.details, out::width()))?;
    }
    match temporary {
        Some(_) => ui::note("nothing is kept; -o DIR keeps every run"),
        None => ui::note(&format!("kept in {}", dir.display())),
    }
    Ok(exit(&result, plan.keep_going, &stop))
}

/// No result may take the place of the plan.
fn spare_plan(args: &BenchArgs) -> Result<(), UsageError> {
    let (Some(plan), Some(dir)) = (&args.plan, &args.output) else {
        return Ok(());
    };
    let spared = apart_from_results([plan.clone()], Some(dir), EXPERIMENT_FILE);
    spared.map_err(|UsageError(why)| {
        let (plan, dir) = (plan.display(), dir.display());
        UsageError(format!("the plan is {plan} and -o {dir}: {why}"))
    })
}

fn exit(result: &Experiment, keep_going: bool, stop: &AtomicBool) -> Exit {
    let failed = result.failed.iter().map(experiment::failure);
    limits::tell_failed(failed.map(|why| format!("not measured: {why}")));
    if stop.load(std::sync::atomic::Ordering::Relaxed) {
        return Exit::Interrupted;
    }
    if result.failed.is_empty() {
        return Exit::Done;
    }
    if keep_going {
        Exit::Incomplete
    } else {
        Exit::Failed
    }
}

/// The plan with what options change of it.
fn planned(args: &BenchArgs) -> Result<(BenchPlan, Options)> {
    let mut options = options(args);
    if args.plan.is_none()
        && args.resume
        && let Some(dir) = &args.output
    {
        let Some(begin) = kept::found(dir)?.begin else {
            let nothing = format!(
                "{} holds no experiment to go on with: nothing was measured there yet; expected a plan",
                dir.display()
            );
            return Err(UsageError(nothing).into());
        };
        let mut plan = plan_of(dir, &begin)?;
        let here = dir
            .canonicalize()
            .context("find the experiment's directory")?;
        refuse_unless_allowed(Wanted::of_bench(&plan, &here), &args.allow)?;
        apply(&options, &mut plan)?;
        return Ok((plan, options));
    }
    let mut plan = match &args.plan {
        Some(path) => match BenchPlan::read(path, args.allow.allowed()) {
            Err(PlanError::NotAllowed(wanted)) => return Err(UsageError(wanted.to_string()).into()),
            plan => plan?,
        },
        None => of_command(args)?,
    };
    plan.check_targets()?;
    options.keep_going |= plan.keep_going;
    apply(&options, &mut plan)?;
    Ok((plan, options))
}

fn apply(options: &Options, plan: &mut BenchPlan) -> Result<()> {
    Ok(options.apply(plan).map_err(UsageError)?)
}

fn options(args: &BenchArgs) -> Options {
    Options {
        runs: args.runs,
        min_runs: args.min_runs,
        max_runs: args.max_runs,
        precision: args.precision,
        budget_ns: args
            .budget
            .map(|t| u64::try_from(t.as_nanos()).unwrap_or(u64::MAX)),
        rounds: args.rounds,
        round_pause_ns: args
            .round_pause
            .map(|t| u64::try_from(t.as_nanos()).unwrap_or(u64::MAX)),
        seed: args.seed,
        required: (!args.required.is_empty()).then(|| args.required.clone()),
        keep_going: args.keep_going,
        one_cpu: args.one_cpu,
    }
}

fn of_command(args: &BenchArgs) -> Result<BenchPlan> {
    let here = std::env::current_dir().context("find the working directory")?;
    let here = here.into_os_string().into_string().map_err(|here| {
        let here = PathBuf::from(here);
        UsageError(format!(
            "the working directory {} is not UTF-8, expected one that a plan can name",
            here.display()
        ))
    })?;
    let command = CommandPlan {
        command: direct::line_of(&args.command),
        target: args.target.clone(),
        here,
        setup: args.setup.clone(),
        cache: args.cache,
    };
    Ok(BenchPlan::parse(
        Path::new("COMMAND"),
        &command.text(),
        Path::new(&command.here),
    )?)
}
