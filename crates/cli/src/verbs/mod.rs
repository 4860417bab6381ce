//! The verbs, one module each.

mod anonymize;
mod demo;
mod export;
mod import;
mod predict;
mod profile;
mod reference;
mod run_child;
mod show;
mod snapshot;
mod trace;
mod validate;

use crate::args::Verb;
use crate::exit::Exit;

/// Carries out a verb.
pub fn run(verb: Verb) -> anyhow::Result<Exit> {
    match verb {
        Verb::Trace(args) => trace::run(args),
        Verb::Import(args) => import::run(&args),
        Verb::Export(args) => export::run(&args),
        Verb::Show(args) => show::run(&args),
        Verb::Anonymize(args) => anonymize::run(&args),
        Verb::Snapshot(args) => snapshot::run(&args),
        Verb::Profile(args) => profile::run(&args),
        Verb::Predict(args) => predict::run(&args),
        Verb::Validate(args) => validate::run(&args),
        Verb::Demo(args) => demo::run(&args),
        Verb::Reference(args) => reference::run(&args),
        Verb::RunChild(args) => run_child::run(&args),
    }
}
