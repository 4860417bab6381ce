//! The verbs, one module each.

mod age;
mod anonymize;
mod bench;
mod by_hand;
mod check;
mod cleanup;
mod compare;
mod demo;
mod disk;
mod export;
mod import;
mod layout;
mod model;
mod predict;
mod profile;
mod reference;
pub mod replay;
mod run;
mod run_child;
mod show;
mod slowfs;
mod snapshot;
mod trace;
mod validate;
mod workloads;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fsage_core::{Clock, TargetSpec};
use fsage_experiment::engine::{Progress, record_path};
use fsage_experiment::plan::allow::Wanted;
use fsage_format::record::holds_records;
use fsage_host::MonotonicClock;
use fsage_host::guard::GuardedDir;
use fsage_report::units;

use crate::args::{AllowArgs, Verb};
use crate::exit::{Exit, Interrupted, UsageError};
use crate::{stack, ui};

/// Carries out a verb.
pub fn run(verb: Verb) -> anyhow::Result<Exit> {
    if only_computes(&verb) {
        return stack::with_enough(move || carry_out(verb))?;
    }
    carry_out(verb)
}

/// Others may enter a mount namespace, which in /proc/self is that of the first thread.
fn only_computes(verb: &Verb) -> bool {
    matches!(
        verb,
        Verb::Predict(_)
            | Verb::Show(_)
            | Verb::Import(_)
            | Verb::Export(_)
            | Verb::Anonymize(_)
            | Verb::Compare(_)
            | Verb::Check(_)
    )
}

fn carry_out(verb: Verb) -> anyhow::Result<Exit> {
    match verb {
        Verb::Trace(args) => trace::run(args),
        Verb::Import(args) => import::run(&args),
        Verb::Export(args) => export::run(&args),
        Verb::Show(args) => show::run(&args),
        Verb::Anonymize(args) => anonymize::run(&args),
        Verb::Snapshot(args) => snapshot::run(&args),
        Verb::Layout(args) => layout::run(&args),
        Verb::Profile(args) => profile::run(&args),
        Verb::Predict(args) => predict::run(&args),
        Verb::Run(args) => run::run(&args),
        Verb::Workloads(args) => workloads::run(&args),
        Verb::Validate(args) => validate::run(&args),
        Verb::Bench(args) => bench::run(&args),
        Verb::Compare(args) => compare::run(&args),
        Verb::Check(args) => check::run(&args),
        Verb::Disk(args) => disk::run(args),
        Verb::Slowfs(args) => slowfs::run(&args),
        Verb::Replay(args) => replay::run(&args),
        Verb::Model(args) => model::run(&args),
        Verb::Age(args) => age::run(&args),
        Verb::Cleanup(args) => cleanup::run(&args),
        Verb::Demo(args) => demo::run(&args),
        Verb::Reference(args) => reference::run(&args),
        Verb::RunChild(args) => run_child::run(&args),
    }
}

/// A plan runs only what it is allowed to.
fn refuse_unless_allowed(wanted: Wanted, allow: &AllowArgs) -> anyhow::Result<()> {
    Ok(wanted
        .unless(allow.allowed())
        .map_err(|e| UsageError(e.to_string()))?)
}

/// Where results go, and the directory that goes in the end if nobody named one. What an earlier measurement
/// kept there would be mixed with what is measured now.
fn results_dir(
    output: Option<&Path>,
    resume: bool,
    prefix: &str,
) -> anyhow::Result<(PathBuf, Option<GuardedDir>)> {
    let Some(dir) = output else {
        let temporary = GuardedDir::temporary(prefix)?;
        return Ok((temporary.path().to_owned(), Some(temporary)));
    };
    if !resume && holds_records(&record_path(dir)) {
        return Err(UsageError(format!(
            "{} holds the runs of an earlier measurement; --resume goes on with it, or name another directory",
            dir.display()
        ))
        .into());
    }
    Ok((dir.to_owned(), None))
}

/// Does what tells how far it is, with a bar on a terminal.
fn with_bar<T>(work: impl FnOnce(&mut dyn FnMut(&Progress)) -> T) -> T {
    let bar = ui::Progress::new(1, "preparing");
    work(&mut |step| {
        bar.set(
            step.done,
            step.expected,
            &step.what,
            step.rest.map(ui::Remaining::Steps),
        );
    })
}

/// Makes what takes long of targets, as an aged file system at its first use, and tells how far that is.
fn prepare<'a>(
    targets: impl IntoIterator<Item = &'a Arc<dyn TargetSpec>>,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    for target in targets {
        let prepared = with_days(|progress| target.prepare(progress));
        if prepared.is_err() && stop.load(Ordering::Relaxed) {
            return Err(Interrupted.into());
        }
        prepared?;
    }
    Ok(())
}

/// Does what ages a target; tells the day and the time left, by the operations that are left.
fn with_days<T>(work: impl FnOnce(&mut dyn FnMut((u64, u64), (u64, u64))) -> T) -> T {
    let mut begun: Option<(ui::Progress, u64, u64)> = None;
    work(&mut |(done, all), (day, days)| {
        let now_ns = MonotonicClock.now_ns();
        let (bar, first, begun_ns) =
            begun.get_or_insert_with(|| (ui::Progress::new(1, "days"), done, now_ns));
        let spent_s = now_ns.saturating_sub(*begun_ns) as f64 / 1e9;
        let share = all.saturating_sub(done) as f64 / done.saturating_sub(*first).max(1) as f64;
        let left_s = (done > *first && spent_s > 1.0).then_some(spent_s * share);
        let (done, all) = (units::count(done), units::count(all));
        bar.set(
            day,
            days,
            &format!("days, {done} of {all} operations"),
            left_s.map(ui::Remaining::Seconds),
        );
    })
}
