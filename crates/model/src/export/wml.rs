//! For filebench: a fileset for each class of files, a process for each group, a flowop for each kind of visit.
//!
//! Each visit opens its file and closes it, for flowops of different visits cannot be told to use the same file.

use std::collections::BTreeMap;
use std::fmt::Write;

use fsage_core::OpKind;
use fsage_namespace::flags::O_CREAT;

use super::{Exported, Lost, calls, is_read, is_write, lines, mean, sizes};
use crate::fsm::{At, Line, Model, Pick, Type, VisitStep};

/// Visits of one round of a thread, about.
const ROUND: u64 = 200;
/// Files beyond those of the model, at the least.
const SPARE: u64 = 64;

/// Who reads the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// filebench, which has to be told for how long it runs.
    Filebench,
    /// fsage, by `wml:FILE`.
    Fsage,
}

/// What is done to a file of a class, so many times: visits that come to the same are one.
type Rounds = BTreeMap<(u32, Vec<String>), f64>;

/// The model as a script.
pub fn wml(model: &Model, dialect: Dialect) -> Exported {
    let mut lost = Lost::default();
    let class_sizes = sizes(model);
    let mut groups: BTreeMap<u32, Rounds> = BTreeMap::new();
    for part in model.phases.iter().flat_map(|p| &p.parts) {
        let rounds = groups.entry(part.group).or_default();
        for (line, times) in lines(part) {
            if times == 0 {
                continue;
            }
            let flowops = visit(model, line, &class_sizes, times as f64, &mut lost);
            if !flowops.is_empty() {
                *rounds.entry((line.file.class, flowops)).or_default() += times as f64;
            }
            if mean(&line.think_ns) > 0.0 {
                lost.add("think times: visits", times as f64);
            }
        }
    }
    let at_once = |group: u32| {
        let of = model.groups.get(group as usize - 1);
        of.map_or(1, |g| u64::from(g.at_once)).max(1)
    };
    let visits =
        |group: &u32, rounds: &Rounds| rounds.values().sum::<f64>() / at_once(*group) as f64;
    let most = groups.iter().map(|(g, r)| visits(g, r)).fold(0.0, f64::max);
    let iterations = (most / ROUND as f64).round().max(1.0);
    let threads: Vec<Thread<'_>> = groups
        .iter()
        .map(|(&group, rounds)| thread(group, at_once(group), rounds, iterations, &mut lost))
        .collect();
    let mut text = head(model, dialect, iterations);
    filesets(&mut text, model, &class_sizes, &threads, iterations as u64);
    for thread in &threads {
        process(&mut text, thread);
    }
    if dialect == Dialect::Filebench {
        let seconds = model.source.span_ns.div_ceil(1_000_000_000).max(1);
        let _ = writeln!(text, "\nrun {seconds}");
    }
    if model.phases.len() > 1 {
        lost.add("phases (all in one)", model.phases.len() as f64);
    }
    lost.add(
        "how soon files are used again: classes",
        model.classes.len() as f64,
    );
    Exported {
        text,
        operations: model.source.operations,
        left_out: lost.counts(),
    }
}

fn head(model: &Model, dialect: Dialect, iterations: f64) -> String {
    let how = match dialect {
        Dialect::Filebench => "setarch -R filebench -f FILE".to_owned(),
        Dialect::Fsage => format!("fsage run wml:FILE,iterations={iterations:.0} TARGET"),
    };
    format!(
        "# Made by fsage from a model of {} operations. Run it by: {how}\n\
         # A thread goes through its flowops {iterations:.0} times for all of them.\n\n\
         set $dir=/tmp\n",
        model.source.operations
    )
}

/// What the threads of a group go through.
struct Thread<'a> {
    group: u32,
    at_once: u64,
    /// Of each class the flowops, and how often in a round.
    visits: Vec<(u32, &'a [String], u64)>,
}

fn thread<'a>(
    group: u32,
    at_once: u64,
    rounds: &'a Rounds,
    iterations: f64,
    lost: &mut Lost,
) -> Thread<'a> {
    let mut visits = Vec::new();
    for ((class, flowops), times) in rounds {
        let iters = (times / (iterations * at_once as f64)).round() as u64;
        if iters == 0 {
            lost.add("rare visits (less than every other round)", *times);
        } else {
            visits.push((*class, flowops.as_slice(), iters));
        }
    }
    Thread {
        group,
        at_once,
        visits,
    }
}

/// Those that a flowop is on.
fn filesets(
    text: &mut String,
    model: &Model,
    class_sizes: &[u64],
    threads: &[Thread<'_>],
    iterations: u64,
) {
    for (place, (class, size)) in model.classes.iter().zip(class_sizes).enumerate() {
        let number = place as u32 + 1;
        let visits = || {
            let all = threads
                .iter()
                .flat_map(|t| t.visits.iter().map(|v| (t.at_once, v)));
            all.filter(|(_, v)| v.0 == number)
        };
        if visits().next().is_none() {
            continue;
        }
        let of_round = |kind: &str| {
            let each = visits().map(|(threads, (_, flowops, iters))| {
                let n = flowops.iter().filter(|f| f.starts_with(kind)).count() as u64;
                n.saturating_mul(threads).saturating_mul(*iters)
            });
            each.fold(0, u64::saturating_add)
        };
        let (made, removed) = (of_round("createfile"), of_round("deletefile"));
        // With rounded counts more may be made or removed than is put back, and all of a round at first.
        let drift = made.abs_diff(removed).saturating_mul(iterations);
        let (before, later) = (class.before, class.later);
        let there = before.saturating_add(SPARE).saturating_add(removed);
        let there = there.saturating_add(if removed > made { drift } else { 0 });
        let free = later.saturating_add(SPARE).saturating_add(made);
        let free = free.saturating_add(if made > removed { drift } else { 0 });
        let entries = there.saturating_add(free);
        let percent = (100 * u128::from(there) / u128::from(entries)).max(1);
        let directories = class.directory.0.len().max(1) as u64;
        let _ = writeln!(
            text,
            "define fileset name=files{number}, path=$dir, entries={entries}, dirwidth={}, size={}, prealloc={percent}",
            entries.div_ceil(directories).max(2),
            if class.kind == Type::File { *size } else { 0 },
        );
    }
}

fn process(text: &mut String, thread: &Thread<'_>) {
    let group = thread.group;
    for (number, (class, flowops, _)) in thread.visits.iter().enumerate() {
        let n = number + 1;
        let _ = writeln!(text, "\ndefine flowop name=g{group}v{n}\n{{");
        for (step, flowop) in flowops.iter().enumerate() {
            let (kind, rest) = flowop.split_once(" ,").unwrap_or((flowop, ""));
            let rest = rest.replace("FILESET", &format!("filesetname=files{class}"));
            let _ = writeln!(
                text,
                "  flowop {kind} name=g{group}v{n}s{},{rest}",
                step + 1
            );
        }
        text.push_str("}\n");
    }
    if thread.visits.is_empty() {
        return;
    }
    let _ = write!(
        text,
        "\ndefine process name=group{group}, instances=1\n{{\n  \
         thread name=thread{group}, memsize=10m, instances={}\n  {{\n",
        thread.at_once
    );
    for (number, (_, _, iters)) in thread.visits.iter().enumerate() {
        let n = number + 1;
        let _ = writeln!(
            text,
            "    flowop g{group}v{n} name=g{group}u{n}, iters={iters}"
        );
    }
    text.push_str("  }\n}\n");
}

/// A visit as flowops: the kind, and what follows the name.
fn visit(
    model: &Model,
    line: &Line,
    class_sizes: &[u64],
    times: f64,
    lost: &mut Lost,
) -> Vec<String> {
    let class = line.file.class as usize;
    let size = class_sizes.get(class.wrapping_sub(1)).copied().unwrap_or(0);
    let mut out: Vec<String> = Vec::new();
    let mut open = false;
    for step in model.visit(line).map_or(&[][..], |v| &v.steps) {
        let n = times * calls(step, size);
        let known = class > 0 && step.form.error == 0;
        let flowop = if known {
            flowop(step, line, size)
        } else {
            None
        };
        let Some(flowop) = flowop else {
            lost.add(step.form.kind.name(), n);
            continue;
        };
        let kind = step.form.kind;
        if kind == OpKind::Open {
            if open {
                out.push("closefile , fd=1".into());
            }
            open = true;
        } else if kind == OpKind::Close {
            if !std::mem::take(&mut open) {
                lost.add("close of a file that another visit opened", n);
                continue;
            }
        } else if flowop.contains("fd=1") && !open {
            out.push("openfile , FILESET, fd=1".into());
            open = true;
            lost.add(
                "file that stays open from visit to visit (opened anew)",
                times,
            );
        }
        out.push(flowop);
    }
    if open {
        out.push("closefile , fd=1".into());
    }
    out
}

fn flowop(step: &VisitStep, line: &Line, size: u64) -> Option<String> {
    let form = &step.form;
    let iters = (calls(step, size).round() as u64).max(1);
    let each = (mean(&step.bytes).round() as u64).max(1);
    Some(match form.kind {
        OpKind::Open
            if form.flags & O_CREAT != 0 && matches!(line.file.pick, Pick::New | Pick::Gone) =>
        {
            "createfile , FILESET, fd=1".into()
        }
        OpKind::Open => "openfile , FILESET, fd=1".into(),
        OpKind::Close => "closefile , fd=1".into(),
        _ if is_read(step) && form.to_end.is_some() => {
            let each = if step.bytes.0.is_empty() {
                1 << 20
            } else {
                each
            };
            format!("readwholefile , fd=1, iosize={each}")
        }
        _ if is_read(step) => match form.at {
            At::Random => format!("read , fd=1, iosize={each}, random, iters={iters}"),
            _ => format!("read , fd=1, iosize={each}, iters={iters}"),
        },
        _ if is_write(step) => match form.at {
            At::Random => format!("write , fd=1, iosize={each}, random, iters={iters}"),
            At::Start | At::Again => format!("write , fd=1, iosize={each}, iters={iters}"),
            _ => format!("appendfile , fd=1, iosize={each}, iters={iters}"),
        },
        OpKind::Fsync | OpKind::Fdatasync => "fsync , fd=1".into(),
        OpKind::Unlink => "deletefile , FILESET".into(),
        OpKind::Stat | OpKind::Access => format!("statfile , FILESET, iters={iters}"),
        _ => return None,
    })
}
