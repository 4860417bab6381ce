//! The verbs, one module each.

mod age;
mod anonymize;
mod bench;
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

use fsage_experiment::engine::{Progress, record_path};
use fsage_experiment::plan::allow::Wanted;
use fsage_format::record::holds_records;
use fsage_host::guard::GuardedDir;

use crate::args::{AllowArgs, Verb};
use crate::exit::{Exit, UsageError};
use crate::ui;

/// Carries out a verb.
pub fn run(verb: Verb) -> anyhow::Result<Exit> {
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

/// Where results go, and the directory that goes in the end if nobody named one. What an earlier measurement,
/// an `experiment` or a `validation`, kept there would be mixed with what is measured now.
fn results_dir(
    output: Option<&Path>,
    resume: bool,
    (of, prefix): (&str, &str),
) -> anyhow::Result<(PathBuf, Option<GuardedDir>)> {
    let Some(dir) = output else {
        let temporary = GuardedDir::create(&std::env::temp_dir(), prefix)?;
        return Ok((temporary.path().to_owned(), Some(temporary)));
    };
    if !resume && holds_records(&record_path(dir)) {
        return Err(UsageError(format!(
            "{} holds the runs of an earlier {of}; --resume goes on with it, or name another directory",
            dir.display()
        ))
        .into());
    }
    Ok((dir.to_owned(), None))
}

/// Does what tells how far it is, with a bar on a terminal.
fn with_bar<T>(work: impl FnOnce(&mut dyn FnMut(&Progress)) -> T) -> T {
    let bar = ui::Progress::new(1);
    work(&mut |step| bar.set(step.done, step.expected, &step.what, step.eta_s))
}
