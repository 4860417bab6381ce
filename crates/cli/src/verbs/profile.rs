//! `fsage profile`.

use std::sync::atomic::Ordering;

use anyhow::Result;
use fsage_core::ColdMethod;
use fsage_experiment::one_cpu;
use fsage_experiment::profiling::profile_target;
use fsage_experiment::target::TargetSpec;
use fsage_host::{ColdPolicy, signals};
use fsage_profile::ProfileRequest;
use fsage_report::{profile, units};

use crate::args::{ColdArg, ProfileArgs};
use crate::exit::{Exit, UsageError};
use crate::files::writable;
use crate::{out, ui};

pub fn run(args: &ProfileArgs) -> Result<Exit> {
    if args.list {
        out::text(&profile::list(out::width()))?;
        return Ok(Exit::Done);
    }
    // clap asks for both unless --list is given.
    let (Some(target), Some(output)) = (&args.target, &args.output) else {
        return Err(UsageError("expected a target and --output FILE".into()).into());
    };
    let spec = TargetSpec::parse(target)?;
    let request = ProfileRequest {
        quick: args.quick,
        only: args.only.clone(),
        max_time_ns: args
            .max_time
            .map(|t| u64::try_from(t.as_nanos()).unwrap_or(u64::MAX)),
        seed: args.seed,
        ..ProfileRequest::default()
    };
    // A name that is no metric should be refused before a file system is made.
    request.wanted()?;
    let (file, json) = out::places(Some(output), args.json);
    if let Some(file) = file {
        writable(file)?;
    }
    if spec.wants_isolation() {
        fsage_host::isolate()?;
    }
    let stop = signals::install()?;
    let one_cpu = one_cpu::one_cpu(args.one_cpu);
    let open = spec.open()?;
    let progress = ui::Progress::new(1);
    let measured = profile_target(
        &open,
        &spec.to_string(),
        cold(args.cold),
        &request,
        one_cpu.as_ref(),
        &mut |step| {
            let message = format!("{} {}", step.group, step.metric);
            progress.set(
                step.done as u64,
                step.total as u64,
                &message,
                Some(step.eta_s),
            );
        },
        &stop,
    )?;
    drop(progress);
    open.close()?;
    if let Some(file) = file {
        measured.save(file)?;
    }
    ui::line(&format!(
        "{}: {} metrics of {} in {}, {} could not be measured (fsage show tells why)",
        output.display(),
        measured.metrics.len(),
        measured.name,
        units::duration(measured.environment.elapsed_ns as f64),
        measured.absent.len()
    ));
    if json {
        out::json(&measured)?;
    }
    Ok(
        match (stop.load(Ordering::Relaxed), measured.absent.is_empty()) {
            (true, _) => Exit::Interrupted,
            (false, true) => Exit::Done,
            (false, false) => Exit::Incomplete,
        },
    )
}

fn cold(arg: ColdArg) -> ColdPolicy {
    match arg {
        ColdArg::Auto => ColdPolicy::Auto,
        ColdArg::Remount => ColdPolicy::Only(ColdMethod::Remount),
        ColdArg::Drop => ColdPolicy::Only(ColdMethod::Drop),
        ColdArg::Evict => ColdPolicy::Only(ColdMethod::Evict),
    }
}
