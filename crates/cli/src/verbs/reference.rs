//! `fsage reference`: the pages, manual pages and completions that are made from the code.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::Command;
use clap_complete::Shell;
use fsage_core::metric::{self, Group};

use crate::args::{self, ReferenceArgs, ReferenceKind};
use crate::exit::Exit;
use crate::ui;

pub fn run(args: &ReferenceArgs) -> Result<Exit> {
    let mut stale = Vec::new();
    let pages = match args.kind {
        ReferenceKind::Pages => pages()?,
        ReferenceKind::Man => manual()?,
        ReferenceKind::Completions => completions()?,
    };
    for (name, text) in pages {
        let path = args.dir.join(&name);
        if args.check {
            let there = std::fs::read_to_string(&path).unwrap_or_default();
            if there != text {
                stale.push(path.display().to_string());
            }
        } else {
            write(&path, &text)?;
        }
    }
    if !stale.is_empty() {
        bail!(
            "check the reference pages: run `fsage reference {}` for {}",
            args.dir.display(),
            stale.join(", ")
        );
    }
    ui::line(if args.check {
        "reference pages are up to date"
    } else {
        "reference pages written"
    });
    Ok(Exit::Done)
}

fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)
            .with_context(|| format!("make directory {}", dir.display()))?;
    }
    std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

/// Every page but the schemas, which `crates/cli/tests/schemas.rs` makes: its path below the directory and its text.
fn pages() -> Result<Vec<(String, String)>> {
    Ok(vec![
        ("cli.md".to_owned(), command_line()?),
        ("metrics.md".to_owned(), metrics()?),
        ("formats.md".to_owned(), fsage_format::docs::formats_page()),
    ])
}

fn command_line() -> Result<String> {
    let mut text = String::from("# Command line\n\nWhat `--help` says of each verb.\n");
    let mut root = args::command_of(100);
    root.build();
    write!(text, "\n## fsage\n\n```\n{}```\n", root.render_long_help())?;
    for verb in root
        .get_subcommands()
        .filter(|v| !v.is_hide_set() && v.get_name() != "help")
    {
        let name = verb.get_name().to_string();
        let mut verb = verb
            .clone()
            .bin_name(format!("fsage {name}"))
            .term_width(100);
        write!(
            text,
            "\n## fsage {name}\n\n```\n{}```\n",
            verb.render_long_help()
        )?;
    }
    Ok(text
        .lines()
        .map(str::trim_end)
        .fold(String::new(), |all, line| all + line + "\n"))
}

/// How the part of a manual page begins that stands after the options.
const EXTRA: &str = "\n.SH EXTRA\n";

/// What `man` has beside its margin in the narrowest usual terminal.
const MANUAL_COLUMNS: usize = 72;

/// A manual page for fsage and one for each verb, those of `disk` too.
fn manual() -> Result<Vec<(String, String)>> {
    let mut root = args::command_of(MANUAL_COLUMNS).disable_help_subcommand(true);
    root.build();
    let mut pages = Vec::new();
    page_of(&root, "fsage", &mut pages)?;
    Ok(pages)
}

fn page_of(command: &Command, name: &str, pages: &mut Vec<(String, String)>) -> Result<()> {
    let mut page = Vec::new();
    // Building has given it both names: `fsage-disk-serve` and `fsage disk serve`.
    clap_mangen::Man::new(command.clone())
        .title(name)
        .manual("fsage manual")
        .source(concat!("fsage ", env!("CARGO_PKG_VERSION")))
        .render(&mut page)
        .with_context(|| format!("make the manual page of {name}"))?;
    let mut text = String::from_utf8(page).context("make a manual page as text")?;
    // What stands after the options is laid out already: tables and examples.
    if let Some(begin) = text.find(EXTRA).map(|at| at + EXTRA.len()) {
        let end = text.get(begin..).and_then(|rest| rest.find("\n.SH "));
        text.insert_str(end.map_or(text.len(), |end| begin + end), "\n.fi");
        text.insert_str(begin, ".nf\n");
    }
    pages.push((format!("{name}.1"), text));
    for verb in command.get_subcommands() {
        if !verb.is_hide_set() && verb.get_name() != "help" {
            page_of(verb, &format!("{name}-{}", verb.get_name()), pages)?;
        }
    }
    Ok(())
}

/// Completions under the names by which the shells find them, without verbs that are hidden.
fn completions() -> Result<Vec<(String, String)>> {
    let full = args::command();
    let mut shown = Command::new("fsage").version(env!("CARGO_PKG_VERSION"));
    for argument in full.get_arguments() {
        shown = shown.arg(argument.clone());
    }
    for verb in full.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        shown = shown.subcommand(verb.clone());
    }
    let shells = [
        (Shell::Bash, "fsage.bash"),
        (Shell::Zsh, "_fsage"),
        (Shell::Fish, "fsage.fish"),
    ];
    let mut scripts = Vec::new();
    for (shell, name) in shells {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut shown, "fsage", &mut script);
        let text = String::from_utf8(script).context("make completions as text")?;
        scripts.push((name.to_owned(), text));
    }
    Ok(scripts)
}

fn metrics() -> Result<String> {
    let mut text = String::from(
        "# Metrics\n\nEverything that a system profile may hold. Costs of calls are times inside the \
         kernel: the empty call is subtracted, and costs of calls that take a path exclude the \
         resolution of its components. Metrics marked +G are also measured after pauses of 1, 10 and \
         150 us with polluted caches (`STAT_G10`). `--quick` measures those marked q.\n",
    );
    for group in Group::ALL {
        write!(text, "\n## {}\n\n", group.name())?;
        text.push_str("| metric | unit | what it measures | how | source | needs |\n");
        text.push_str("| --- | --- | --- | --- | --- | --- |\n");
        for row in metric::FAMILIES.iter().filter(|f| f.group == *group) {
            let points = row.points.map_or(String::new(), |p| {
                let values: Vec<String> = p.values.iter().map(u32::to_string).collect();
                format!("<br>at {} {}", values.join(", "), p.unit)
            });
            let marks = format!(
                "{}{}",
                if row.gaps { " +G" } else { "" },
                if row.quick { " q" } else { "" }
            );
            writeln!(
                text,
                "| `{}`{marks}{points} | {} | {} | {} | {} | {} |",
                row.stem,
                row.unit.name(),
                row.what,
                row.how,
                row.source,
                row.depends.join(", "),
            )?;
        }
    }
    Ok(text)
}
