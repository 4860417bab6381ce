//! What is done with fsage around its building: it is packed, tormented, and its pages are held against it.
//!
//! * [`mod@test`]: the tests, with those that could not run counted.
//! * [`dist`]: a tar and a Debian package, with completions and manual pages.
//! * [`torture`]: hostile files, impossible traces, kills and faults over all verbs.
//! * [`docs`]: transcripts in the documentation are what the program says.
//!
//! Nothing here is part of the program. It is used as any user uses it: by its command line.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool of the repository talks to whoever runs it"
)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "processes are waited for"
)]

mod dist;
mod docs;
mod test;
mod torture;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};

/// What is done with fsage around its building.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Run the tests and count those that could not run here, each with its reason
    Test(test::TestArgs),
    /// Pack the release binary, completions and manual pages as a tar and a .deb, and try both
    Dist(dist::DistArgs),
    /// Hostile files, impossible traces, kills and faults over all verbs, with the counts
    Torture(torture::TortureArgs),
    /// Run the transcripts of the documentation again, and write them or hold them against it
    Docs(docs::DocsArgs),
}

fn main() -> ExitCode {
    let done = match Cli::parse().task {
        Task::Test(args) => test::run(&args),
        Task::Dist(args) => dist::run(&args),
        Task::Torture(args) => torture::run(&args),
        Task::Docs(args) => docs::run(&args),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: failed to {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the repository.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// The program to use: the one that is named, else what `cargo build` makes now.
fn program(named: Option<&PathBuf>, release: bool) -> Result<PathBuf> {
    if let Some(path) = named {
        return std::fs::canonicalize(path).with_context(|| format!("use {}", path.display()));
    }
    let mut build = std::process::Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    build
        .current_dir(root())
        .args(["build", "--package", "fsage"]);
    if release {
        build.arg("--release");
    }
    messages(&mut build)?
        .into_iter()
        .filter(|message| message["target"]["name"] == "fsage")
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .context("find the program that cargo built")
}

/// What cargo says of what it builds, once it is built.
fn messages(build: &mut std::process::Command) -> Result<Vec<serde_json::Value>> {
    let built = build
        .args(["--locked", "--message-format", "json-render-diagnostics"])
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("run cargo")?;
    if !built.status.success() {
        bail!("build: cargo ended with {}", built.status);
    }
    Ok(String::from_utf8_lossy(&built.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect())
}
