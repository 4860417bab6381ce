//! `fsage validate`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use fsage_core::TargetSpec;
use fsage_experiment::one_cpu;
use fsage_experiment::plan::allow::Wanted;
use fsage_experiment::plan::{NamedTarget, NamedWorkload, PlanFile};
use fsage_experiment::target;
use fsage_experiment::validate::again::again;
use fsage_experiment::validate::plan::{Part, ValidatePlan};
use fsage_experiment::validate::run::run as carry_out;
use fsage_format::result::validation::{VALIDATION_FILE, Validation};
use fsage_host::signals;
use fsage_report::validation;

use super::{refuse_unless_allowed, results_dir, with_bar};
use crate::args::ValidateArgs;
use crate::exit::{Exit, UsageError};
use crate::files::apart_from_results;
use crate::limits;
use crate::{out, ui};

pub fn run(args: &ValidateArgs) -> Result<Exit> {
    if let Some(dir) = &args.again {
        let (before, after) = again(dir)?;
        show(&after, args.json, args.details)?;
        let (was, is) = (validation::average(&before), validation::average(&after));
        ui::note(&format!("average error {is}; {was} when it was measured"));
        return Ok(ended(&after));
    }
    out::directory(args.output.as_deref())?;
    let file = args.plan.as_deref().map(PlanFile::read).transpose()?;
    if let (Some(path), Some(file)) = (&args.plan, &file) {
        let beside = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        let base = beside.unwrap_or(Path::new(".")).canonicalize()?;
        refuse_unless_allowed(Wanted::of_validation(file, &base), &args.allow)?;
    }
    let plan = planned(args, file.as_ref())?;
    let targets = || plan.targets.iter().enumerate();
    let of_part = || targets().filter_map(|(t, its)| plan.part.has_target(t).then_some(&its.spec));
    of_part().try_for_each(|spec| spec.check())?;
    let reads = of_part()
        .flat_map(|spec| spec.uses())
        .chain(args.plan.clone());
    apart_from_results(reads, args.output.as_deref(), VALIDATION_FILE)?;
    isolate_for(of_part())?;
    let stop = signals::install()?;
    super::prepare(of_part(), &stop)?;
    let (dir, temporary) = results_dir(args.output.as_deref(), args.resume, "fsage-validate-")?;
    let plan = ValidatePlan { dir, ..plan };
    let result = with_bar(|progress| carry_out(&plan, progress, &stop))?;
    show(&result, args.json, args.details)?;
    if temporary.is_none() {
        ui::note(&format!("kept in {}", plan.dir.display()));
    }
    let failed = result.failed.iter().map(validation::failure);
    limits::tell_failed(failed.map(|why| format!("not done: {why}")));
    for lacking in &result.not_predicted {
        ui::line(&validation::unpredicted(lacking));
    }
    Ok(ended(&result))
}

fn ended(result: &Validation) -> Exit {
    if result.interrupted {
        Exit::Interrupted
    } else if result.failed.is_empty() && result.not_predicted.is_empty() {
        Exit::Done
    } else {
        Exit::Incomplete
    }
}

/// The plan of the file, if there is one, and of the options, which override it.
fn planned(args: &ValidateArgs, file: Option<&PlanFile>) -> Result<ValidatePlan> {
    let targets = file.map_or(&[][..], |file| &file.targets);
    let (workloads, half) = half(args, file)?;
    let part = part(args, targets, workloads);
    let (targets, workloads) = match part {
        Some(_) => (targets.to_vec(), with_setup(args, workloads.to_vec())),
        None => (targets_of(args, targets)?, workloads_of(args, workloads)?),
    };
    let mut plan = ValidatePlan {
        half,
        part: part.unwrap_or_default(),
        ..ValidatePlan::new(workloads, targets, PathBuf::new(), child()?)
    };
    plan.resume = args.resume;
    if let Some(file) = file {
        from_file(&mut plan, file);
    }
    match (&args.trace_on, file) {
        (Some(text), _) => plan.trace_on = place_of(text, &plan.targets)?,
        (None, Some(file)) => traces_of(&mut plan, file)?,
        (None, None) => {}
    }
    plan.runs = args.runs.unwrap_or(plan.runs);
    plan.profiles = args.profiles.unwrap_or(plan.profiles);
    plan.seed = args.seed.unwrap_or(plan.seed);
    plan.quick &= !args.full_profile;
    plan.profile_time_ns = args.profile_time.map(nanoseconds).or(plan.profile_time_ns);
    if args.one_cpu {
        plan.cpu = one_cpu::last_allowed();
    }
    plan.keep_going |= args.keep_going;
    plan.keep_traces = args.keep_traces.unwrap_or(plan.keep_traces);
    match plan.lacks_trace_on() {
        Some(target) if !plan.resume => return Err(untraced(&target.name).into()),
        _ => {}
    }
    plan.check()?;
    Ok(plan)
}

/// The workloads that may be run of a plan: the open half, or the sealed one.
fn half<'a>(
    args: &ValidateArgs,
    file: Option<&'a PlanFile>,
) -> Result<(&'a [NamedWorkload], Option<String>)> {
    let Some(file) = file.filter(|file| args.sealed || !file.sealed.is_empty()) else {
        return Ok((file.map_or(&[][..], |file| &file.workloads), None));
    };
    let (ours, others, name, hint) = if args.sealed {
        (
            &file.sealed,
            &file.workloads,
            "sealed",
            "leave --sealed out",
        )
    } else {
        (&file.workloads, &file.sealed, "open", "add --sealed")
    };
    let is_other = |text: &&String| others.iter().any(|w| w.name == **text);
    if let Some(text) = args.workload.iter().find(is_other) {
        let what = format!("`{text}` is not of the {name} half of the plan; {hint}");
        return Err(UsageError(what).into());
    }
    if ours.is_empty() {
        let what = format!("the plan has no workload in its {name} half; {hint}");
        return Err(UsageError(what).into());
    }
    Ok((ours, Some(name.into())))
}

/// What options name of a plan; `None` where they name something else.
fn part(args: &ValidateArgs, targets: &[NamedTarget], workloads: &[NamedWorkload]) -> Option<Part> {
    let workload = |text: &String| workloads.iter().position(|w| w.name == *text);
    let target = |text: &String| targets.iter().position(|t| t.name == *text);
    Some(Part {
        workloads: args.workload.iter().map(workload).collect::<Option<_>>()?,
        targets: args.target.iter().map(target).collect::<Option<_>>()?,
    })
}

fn untraced(target: &str) -> UsageError {
    UsageError(format!(
        "the plan predicts from a trace on `{target}`, which is not among the targets chosen; add \
         --target '{target}', --trace-on, or --resume where the directory holds one"
    ))
}

fn from_file(plan: &mut ValidatePlan, file: &PlanFile) {
    plan.runs = file.runs.unwrap_or(plan.runs);
    plan.profiles = file.profiles.unwrap_or(plan.profiles);
    plan.seed = file.seed.unwrap_or(plan.seed);
    plan.cache = file.cache;
    plan.quick = file.quick.unwrap_or(plan.quick);
    plan.profile_time_ns = file.profile_time.map(nanoseconds);
    plan.cpu = file.one_cpu.then(one_cpu::last_allowed).flatten();
    plan.keep_going = file.keep_going;
    plan.keep_traces = file.keep_traces.unwrap_or_default();
}

/// Whose traces the plan predicts from; the options may have left those targets out.
fn traces_of(plan: &mut ValidatePlan, file: &PlanFile) -> Result<()> {
    let place = |index: usize| {
        let name = &file.targets[index].name;
        let place = plan.targets.iter().position(|t| t.name == *name);
        place.ok_or_else(|| untraced(name))
    };
    match (file.trace_on, plan.part.targets.first()) {
        (Some(index), _) => plan.trace_on = place(index)?,
        (None, Some(&first)) if !plan.resume => plan.trace_on = first,
        (None, _) => {}
    }
    let mut groups = BTreeMap::new();
    for (group, &index) in &file.group_trace_on {
        if plan.targets.iter().any(|t| t.group.as_ref() == Some(group)) {
            groups.insert(group.clone(), place(index)?);
        }
    }
    plan.group_trace_on = groups;
    Ok(())
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The targets of the plan, or those of them and others that options name.
fn targets_of(args: &ValidateArgs, planned: &[NamedTarget]) -> Result<Vec<NamedTarget>> {
    if args.target.is_empty() {
        return Ok(planned.to_vec());
    }
    let chosen = |text: &String| match planned.iter().find(|t| t.name == *text) {
        Some(target) => Ok(target.clone()),
        None if planned.is_empty() => Ok(target::parse(text)?.into()),
        None => match target::parse(text) {
            Ok(spec) => Ok(spec.into()),
            Err(e) => {
                let names: Vec<&str> = planned.iter().map(|t| t.name.as_str()).collect();
                let names = names.join(", ");
                Err(UsageError(format!(
                    "--target {text} is none of the plan's ({names}): failed to {e}"
                ))
                .into())
            }
        },
    };
    args.target.iter().map(chosen).collect()
}

fn workloads_of(args: &ValidateArgs, planned: &[NamedWorkload]) -> Result<Vec<NamedWorkload>> {
    let chosen = |text: &String| match planned.iter().find(|w| w.name == *text) {
        Some(workload) => Ok(workload.clone()),
        None => text
            .parse()
            .with_context(|| format!("read workload `{text}`")),
    };
    let workloads = match args.workload.as_slice() {
        [] => planned.to_vec(),
        some => some.iter().map(chosen).collect::<Result<_>>()?,
    };
    Ok(with_setup(args, workloads))
}

fn with_setup(args: &ValidateArgs, mut workloads: Vec<NamedWorkload>) -> Vec<NamedWorkload> {
    for workload in workloads.iter_mut().filter(|w| w.setup.is_none()) {
        workload.setup.clone_from(&args.setup);
    }
    workloads
}

/// A target by its name or its specification.
fn place_of(text: &str, targets: &[NamedTarget]) -> Result<usize> {
    if let Some(index) = targets.iter().position(|t| t.name == text) {
        return Ok(index);
    }
    let wanted = target::parse(text)?.to_string();
    let place = targets.iter().position(|t| t.spec.to_string() == wanted);
    Ok(place.ok_or_else(|| UsageError(format!("--trace-on {text} is none of the targets")))?)
}

/// Scratch targets are mounted where nobody else sees them; must come before any thread.
pub fn isolate_for<'a>(targets: impl IntoIterator<Item = &'a Arc<dyn TargetSpec>>) -> Result<()> {
    if targets.into_iter().any(|target| target.wants_isolation()) {
        fsage_host::isolate()?;
    }
    Ok(())
}

/// How this program is started to run a generated workload.
pub fn child() -> Result<Vec<std::ffi::OsString>> {
    let exe: PathBuf = std::env::current_exe().context("find this program's own file")?;
    Ok(vec![exe.into(), "run-child".into()])
}

/// Prints a validation.
pub fn show(result: &Validation, json: bool, details: bool) -> Result<()> {
    if json {
        out::json(result)
    } else {
        Ok(out::text(&validation::text(result, details, out::width()))?)
    }
}
