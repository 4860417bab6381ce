//! `fsage demo`: the main job in one command.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use fsage_core::Target;
use fsage_core::TargetSpec;
use fsage_experiment::plan::NamedTarget;
use fsage_experiment::target::{self, directory};
use fsage_experiment::validate::plan::ValidatePlan;
use fsage_experiment::validate::run::run as carry_out;
use fsage_format::result::validation::Validation;
use fsage_host::guard::GuardedDir;
use fsage_host::signals;
use fsage_report::page::Page;
use fsage_report::validation;

use super::validate::{child, show};
use super::with_bar;
use crate::args::DemoArgs;
use crate::exit::Exit;
use crate::{out, ui};

/// One profile should not take longer: the whole demo is to end in two minutes on two processors.
const PROFILE_NS: u64 = 22_000_000_000;
/// What the second target is, the first that can be made here.
const SECOND: [&str; 3] = ["xfs", "btrfs", "ext2"];
/// Trees of real sources that machines tend to have; the first with enough files is taken.
const TREES: [&str; 5] = [
    "/usr/src",
    "/usr/include",
    "/usr/share/doc",
    "/usr/lib/python3",
    "/etc",
];
const FILES_LEAST: usize = 200;
const FILES_MOST: usize = 1500;
const BYTES_MOST: u64 = 24 << 20;

pub fn run(args: &DemoArgs) -> Result<Exit> {
    let root = rustix::process::geteuid().is_root();
    if root {
        fsage_host::isolate()?;
    }
    let stop = signals::install()?;
    let kept = GuardedDir::temporary("fsage-demo-")?;
    let dir = args
        .output
        .clone()
        .unwrap_or_else(|| kept.path().join("results"));
    let targets = if root {
        scratch_targets()
    } else {
        user_targets()
    }?;
    let list = real_files()?;
    let list_file = kept.path().join("files");
    std::fs::write(&list_file, list.join("\n") + "\n").context("write the list of files")?;
    let workloads = vec![
        format!("source tree={}", tree_workload(&list_file))
            .parse()
            .context("read the demo's workload")?,
        "PostMark=postmark:files=1000,transactions=4000,size=512-16384,subdirs=20"
            .parse()
            .context("read the demo's workload")?,
    ];
    let targets = targets.into_iter().map(named).collect();
    let plan = ValidatePlan {
        runs: 2,
        profile_time_ns: Some(PROFILE_NS),
        ..ValidatePlan::new(workloads, targets, dir, child()?)
    };
    explain(&plan, list.len());
    let result = with_bar(|progress| carry_out(&plan, progress, &stop))?;
    show(&result, args.json, args.details)?;
    if result.interrupted {
        return Ok(Exit::Interrupted);
    }
    if !args.json {
        if args.details {
            out::text(&details(&result))?;
        }
        out::text(&next(&plan, args.output.as_deref()))?;
    }
    Ok(Exit::Done)
}

/// ext4 and one more that can be made here, made for the occasion.
fn scratch_targets() -> Result<Vec<Arc<dyn TargetSpec>>> {
    let first = target::parse("scratch:ext4,size=1G")?;
    let mut why = Vec::new();
    for kind in SECOND {
        let second = target::parse(&format!("scratch:{kind},size=1G"))?;
        match second.open().and_then(Target::close) {
            Ok(()) => return Ok(vec![first, second]),
            Err(error) => why.push(format!("{kind}: {error}")),
        }
    }
    bail!("make a second file system beside ext4: {}", why.join("; "))
}

/// A target under a short name: the kind of file system, or the directory.
fn named(spec: Arc<dyn TargetSpec>) -> NamedTarget {
    let mut target = NamedTarget::from(spec);
    let kind = target.name.strip_prefix("scratch:").map(|spec| {
        let end = spec.find(',').unwrap_or(spec.len());
        spec[..end].to_owned()
    });
    target.name = kind.unwrap_or(target.name);
    target
}

/// The file system of the current directory, and one in memory.
fn user_targets() -> Result<Vec<Arc<dyn TargetSpec>>> {
    let here = std::env::current_dir().context("find the current directory")?;
    let memory = Path::new("/dev/shm");
    if here.starts_with(memory) || !memory.is_dir() {
        bail!("find two file systems: expected the current directory on another one than /dev/shm");
    }
    Ok(vec![directory::spec(&here), directory::spec(memory)])
}

/// Real files to copy: up to 1500 of one tree, 24 MiB at most, without links.
fn real_files() -> Result<Vec<String>> {
    for tree in TREES {
        let mut files = Vec::new();
        let mut bytes = 0;
        collect(Path::new(tree), &mut files, &mut bytes);
        if files.len() >= FILES_LEAST {
            return Ok(files);
        }
    }
    bail!("find a tree of {FILES_LEAST} files in {}", TREES.join(", "))
}

fn collect(dir: &Path, files: &mut Vec<String>, bytes: &mut u64) {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    let mut entries: Vec<_> = entries.flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        if files.len() >= FILES_MOST || *bytes >= BYTES_MOST {
            return;
        }
        let path = entry.path();
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_dir() {
            collect(&path, files, bytes);
        } else if let (true, Some(text), Ok(meta)) =
            (kind.is_file(), path.to_str(), entry.metadata())
            && meta.len() < BYTES_MOST / 8
            && !text.contains('\n')
            && std::fs::File::open(&path).is_ok()
        {
            *bytes += meta.len();
            files.push(text.to_string());
        }
    }
}

/// Copy a tree, search it, archive it, list it, delete it: what people do to trees.
fn tree_workload(list: &Path) -> String {
    format!(
        "cmd: mkdir tree && tar cf - -T '{}' 2>/dev/null | tar xf - -C tree && \
         grep -r -l include tree | wc -l >/dev/null && tar cf tree.tar tree && \
         ls -lR tree >/dev/null && rm -r tree tree.tar",
        list.display()
    )
}

fn explain(plan: &ValidatePlan, files: usize) {
    let targets: Vec<String> = plan.targets.iter().map(|t| t.spec.to_string()).collect();
    // Lines that fit where stderr is no terminal, which breaks none.
    ui::note(&format!(
        "Two workloads: {files} real files copied, searched, archived, deleted; PostMark."
    ));
    ui::note(&format!(
        "Traced on {}; predicted there and on {},",
        targets.first().map_or("", String::as_str),
        targets.get(1..).unwrap_or_default().join(" and ")
    ));
    ui::note("and measured there too: one to two minutes.");
}

/// Where the time goes, for the first workload on each target.
fn details(result: &Validation) -> String {
    let mut text = String::new();
    let Some(first) = result.pairs.first() else {
        return text;
    };
    for pair in result.pairs.iter().filter(|p| p.workload == first.workload) {
        // Of each kind only this one is told.
        let raw = pair.equal_speed.as_ref().map_or("", |_| ", as it was");
        text.push_str(&format!(
            "\nWhere the time of `{}` goes on {}{raw}\n\n",
            pair.workload, pair.target
        ));
        text.push_str(&validation::kinds(pair, out::width()));
    }
    text
}

fn next(plan: &ValidatePlan, kept: Option<&Path>) -> String {
    let target = plan.targets.first();
    let target = target.map(|t| t.spec.to_string()).unwrap_or_default();
    let mut page = Page::new(out::width());
    page.blank();
    page.say("With a workload of your own:");
    page.verbatim("  fsage trace -o mine.fst --under . -- make");
    page.verbatim(format!("  fsage profile {target} --quick -o there.fsp"));
    page.verbatim("  fsage predict mine.fst --on there.fsp");
    if let Some(dir) = kept {
        page.say(format!(
            "everything of this run is kept in {}",
            dir.display()
        ));
    }
    format!("\n{}", page.finish())
}
