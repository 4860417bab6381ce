//! The command line: arguments become a plan, a verb carries it out, results go to stdout and
//! everything else to stderr.
//!
//! * [`args`]: what can be written. [`verbs`]: one module for each verb.
//! * [`made`]: which files a result may take the place of.
//! * [`out`]: stdout. [`ui`]: progress and messages on stderr, [`mod@line`]: where a bar is drawn.
//! * [`stack`]: room for what computes.
//! * [`limits`]: which limit of the system may be behind an error.
//! * [`exit`]: exit codes and how errors are told.

#![allow(
    clippy::disallowed_methods,
    reason = "the command line is where the clock is read"
)]

mod args;
mod exit;
mod files;
mod generated;
mod limits;
mod line;
mod made;
mod out;
mod stack;
mod ui;
mod verbs;

use clap::FromArgMatches;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use args::Cli;
use exit::Exit;

/// Where memory is not to be had, that is said.
#[global_allocator]
static MEMORY: fsage_host::memory::Allocator = fsage_host::memory::Allocator;

fn main() -> std::process::ExitCode {
    let parsed = match stack::with_enough(parsed) {
        Ok(parsed) => parsed,
        Err(error) => return exit::report(&error).into(),
    };
    let cli = match parsed {
        Ok(cli) => cli,
        Err(mut error) => {
            // clap prints help and version to stdout; a mistake repeats what was typed.
            if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
                ui::page(&missing_verb(&error));
                return Exit::Usage.into();
            }
            if error.use_stderr() {
                without_values(&mut error);
                ui::lines(&with_tip(&error));
                return Exit::Usage.into();
            }
            if let Err(closed) = out::must_be_open() {
                return exit::report(&closed.into()).into();
            }
            return match error.print() {
                // Who has read enough of it has closed the pipe.
                Err(failed) if failed.kind() != std::io::ErrorKind::BrokenPipe => {
                    exit::report(&out::OutError(failed).into()).into()
                }
                _ => Exit::Done.into(),
            };
        }
    };
    if cli.quiet {
        ui::be_quiet();
    }
    let ready = fsage_host::signals::survive_file_size_limit().map_err(anyhow::Error::from);
    let exit = match ready.and_then(|()| verbs::run(cli.verb)) {
        Ok(exit) => exit,
        Err(error) => {
            fsage_host::signals::give_way();
            exit::report(&error)
        }
    };
    exit::with_left(exit).into()
}

fn parsed() -> Result<Cli, clap::Error> {
    let mut matches = args::matches(args::command(), std::env::args_os().collect())?;
    Cli::from_arg_matches_mut(&mut matches)
}

/// What somebody reads who names no verb: without any, with what to begin with.
fn missing_verb(error: &clap::Error) -> String {
    let page = if std::env::args_os().len() > 1 {
        error.render()
    } else {
        args::command().render_long_help()
    };
    page.to_string()
}

/// Takes out clap's tip to pass a mistyped option as a value: no file of fsage's is named as an option.
fn without_values(error: &mut clap::Error) {
    let Some(ContextValue::StyledStrs(tips)) = error.remove(ContextKind::Suggested) else {
        return;
    };
    let kept: Vec<StyledStr> = tips
        .into_iter()
        .filter(|tip| !tip.to_string().starts_with("to pass "))
        .collect();
    if !kept.is_empty() {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(kept));
    }
}

/// A mistake in words, with what clap does not know: that a command to be run stands behind `--`.
fn with_tip(error: &clap::Error) -> String {
    let text = error.render().to_string();
    // What is no text is no verb, and no reason to panic.
    let verb = std::env::args_os().nth(1).unwrap_or_default();
    let verb = verb.to_string_lossy();
    let runs_commands = verb == "trace" || verb == "bench";
    let word = error.get(ContextKind::InvalidArg).map(ToString::to_string);
    let is_word = word.is_some_and(|word| !word.starts_with('-'));
    match text.split_once('\n') {
        Some((first, rest))
            if runs_commands && is_word && error.kind() == ErrorKind::UnknownArgument =>
        {
            let tip = format!(
                "tip: put -- before the command that is to be run: fsage {verb} -- COMMAND"
            );
            format!("{first}\n\n  {tip}\n{rest}")
        }
        Some((first, rest)) if error.kind() == ErrorKind::MissingRequiredArgument => {
            let without_a_plan = match &*verb {
                "bench" => "fsage bench -- COMMAND",
                "validate" => "fsage validate --workload WORKLOAD --target TARGET",
                _ => return text,
            };
            format!("{first}\n{rest}").replacen(
                "\n\nUsage:",
                &format!("\n\n  tip: or without a plan: {without_a_plan}\n\nUsage:"),
                1,
            )
        }
        Some((first, rest)) if error.kind() == ErrorKind::InvalidUtf8 => {
            let tip = "tip: begin in a directory of such a name, and call it .";
            format!("{first}\n\n  {tip}\n{rest}")
        }
        _ => text,
    }
}
