//! The command line: arguments become a plan, a verb carries it out, results go to stdout and
//! everything else to stderr.
//!
//! * [`args`]: what can be written. [`verbs`]: one module for each verb.
//! * [`out`]: stdout. [`ui`]: progress and messages on stderr.
//! * [`exit`]: exit codes and how errors are told.

#![allow(
    clippy::disallowed_methods,
    reason = "the command line is where the clock is read"
)]

mod args;
mod exit;
mod files;
mod generated;
mod out;
mod ui;
mod verbs;

use clap::FromArgMatches;

use args::Cli;
use exit::Exit;

fn main() -> std::process::ExitCode {
    let parsed = args::command()
        .try_get_matches()
        .and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => {
            // clap prints help and version to stdout; a mistake repeats what was typed.
            if error.use_stderr() {
                ui::lines(&error.render().to_string());
                return Exit::Usage.into();
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
