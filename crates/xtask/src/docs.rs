//! Transcripts in the documentation are what the program says.
//!
//! A block that follows the line `<!-- transcript -->` is run again: its lines with `$ ` (or, as root, `# `) are
//! commands, the rest is what they said. `<!-- setup: COMMAND -->` is run and not shown. All of a page share one empty
//! directory, `fsage` is the program that was built, and `$REPO` is the repository. `<!-- transcript: root -->` needs root,
//! `<!-- transcript: keep -->` is of something that comes out differently each time: the titles of its tables are held
//! against the program's, and two thirds of its words.
//!
//! Figures differ from run to run: numbers and their units are one mark when they are compared, and neither
//! the width of columns nor where lines are wrapped counts. A line with `…` stands for any lines. What comes out the same
//! each time, as what is computed from a seed in virtual time (`mem:`, `sim:`), is `<!-- transcript: exact -->`: every
//! letter counts. A command over such a target that is in no exact transcript is told.

mod compare;
mod page;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use clap::Args;

use page::{Part, Transcript};

/// Arguments of `docs`.
#[derive(Debug, Args)]
pub struct DocsArgs {
    /// The pages [default: README.md and docs/*.md]
    pages: Vec<PathBuf>,
    /// Write nothing; fail if a transcript is not what the program says
    #[arg(long)]
    check: bool,
    /// The program to use instead of a release that is built
    #[arg(long, value_name = "FILE")]
    fsage: Option<PathBuf>,
}

pub fn run(args: &DocsArgs) -> Result<bool> {
    let program = crate::program(args.fsage.as_ref(), true)?;
    let pages = if args.pages.is_empty() {
        every_page()?
    } else {
        args.pages.clone()
    };
    let (mut stale, mut count) = (0, 0);
    for path in pages {
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let parts = page::parts(&text);
        let transcripts = parts.iter().filter(|p| matches!(p, Part::Transcript(_)));
        let of_page = transcripts.count();
        if of_page == 0 {
            continue;
        }
        count += of_page;
        let new = again(&path, parts, &program, args.check, &mut stale)?;
        if !args.check && new != text {
            std::fs::write(&path, new).with_context(|| format!("write {}", path.display()))?;
            println!("{}: written", path.display());
        }
    }
    println!("{count} transcripts, {stale} not as the program says");
    Ok(stale == 0)
}

fn every_page() -> Result<Vec<PathBuf>> {
    let root = crate::root();
    let docs = root.join("docs");
    let mut pages = vec![root.join("README.md")];
    for entry in std::fs::read_dir(&docs).with_context(|| format!("read {}", docs.display()))? {
        let path = entry.context("read docs")?.path();
        if path.extension().is_some_and(|e| e == "md") {
            pages.push(path);
        }
    }
    pages.sort();
    Ok(pages)
}

/// Runs a page's parts in order; its text as it should be.
fn again(
    path: &Path,
    parts: Vec<Part>,
    program: &Path,
    check: bool,
    stale: &mut u32,
) -> Result<String> {
    let dir = tempfile::Builder::new()
        .prefix("fsage-docs-")
        .tempdir()
        .context("make a temporary directory")?;
    let bin = tempfile::Builder::new()
        .prefix("fsage-docs-bin-")
        .tempdir()
        .context("make a temporary directory")?;
    std::os::unix::fs::symlink(program, bin.path().join("fsage")).context("link the program")?;
    let at = Place {
        dir: dir.path(),
        bin: bin.path(),
    };
    let mut new = String::new();
    for part in parts {
        match part {
            Part::Text(text) => new.push_str(&text),
            Part::Setup { text, command } => {
                let (said, status) = at.said(&command, 0)?;
                if !matches!(status, 0 | 3) {
                    eprintln!("{}: setup `{command}` failed: {said}", path.display());
                    *stale += 1;
                }
                new.push_str(&text);
            }
            Part::Transcript(old) if old.root && !rustix::process::geteuid().is_root() => {
                eprintln!("not run: {}:{} needs root", path.display(), old.line);
                new.push_str(&old.text());
            }
            Part::Transcript(old) => {
                let now = at.transcript(&old)?;
                let difference = old.lax().map(|command| {
                    format!(
                        "`{command}` is computed from a seed: the mark is {}",
                        page::EXACT
                    )
                });
                let difference = difference.or_else(|| compare::difference(&old, &now));
                if let Some(difference) = difference {
                    if check {
                        eprintln!("{}:{}: {difference}", path.display(), old.line);
                    }
                    *stale += u32::from(check);
                }
                new.push_str(&now.text());
            }
        }
    }
    Ok(new)
}

/// Where the commands of a page run.
struct Place<'a> {
    dir: &'a Path,
    bin: &'a Path,
}

impl Place<'_> {
    /// What a command said, both streams as they came, and its status. `last` is that of the one before.
    fn said(&self, command: &str, last: i32) -> Result<(String, i32)> {
        let old = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(
            std::iter::once(self.bin.to_owned()).chain(std::env::split_paths(&old)),
        )
        .context("name where programs are")?;
        // A file: what a command leaves running may hold it.
        let said = tempfile::NamedTempFile::new().context("make a temporary file")?;
        // Both streams append to it, in their order.
        let file = || {
            let opened = std::fs::File::options().append(true).open(said.path());
            opened.context("use a temporary file")
        };
        let ran = Command::new("/bin/bash")
            .args(["-c", &format!("(exit {last})\n{command}")])
            .current_dir(self.dir)
            .env("PATH", path)
            .env("COLUMNS", "80")
            .env("LC_ALL", "C.UTF-8")
            .env("REPO", crate::root())
            .stdin(Stdio::null())
            .stdout(file()?)
            .stderr(file()?)
            .status()
            .with_context(|| format!("run {command}"))?;
        let bytes = std::fs::read(said.path()).context("read a temporary file")?;
        // Where the scratch directory lies and who the machine is are nobody's concern.
        let host = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
        let shown = String::from_utf8_lossy(&bytes)
            .replace(&self.dir.display().to_string(), "/tmp/w")
            .replace(&format!("on {host}"), "on vm");
        Ok((shown, ran.code().unwrap_or(1)))
    }

    fn transcript(&self, old: &Transcript) -> Result<Transcript> {
        let mut now = old.clone();
        let mut status = 0;
        for step in &mut now.steps {
            let said;
            (said, status) = self.said(&step.command, status)?;
            let said: Vec<String> = said.lines().map(|l| l.trim_end().to_owned()).collect();
            step.said = page::cut_alike(&step.said, said);
        }
        Ok(now)
    }
}
