//! For filebench: a fileset for each class of files, a process for each group, a flowop for each kind of visit.
//!
//! Each visit opens its file and closes it, for flowops of different visits cannot be told to use the same file.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use fsage_core::OpKind;
use fsage_namespace::flags::O_CREAT;

use super::played::{Done, Played};
use super::{Exported, Lost, calls, is_read, is_write, sizes};
use crate::fsm::{At, Line, Model, ModelError, Pick, Type, VisitStep};

/// Visits of one round of a thread, about.
const ROUND: u64 = 200;
/// Files beyond those of the model, at the least.
const SPARE: u64 = 64;
/// What share of the operations may be more or fewer because a round has whole visits; with one round it may be more, where
/// few visits are of many threads.
const OFF: f64 = 0.02;

/// Who reads the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// filebench, which has to be told for how long it runs.
    Filebench,
    /// fsage, by `wml:FILE`.
    Fsage,
}

/// One call of a visit, or several: the kind of the flowop, what follows its name, and what it is, so many times.
type Flowop = (String, OpKind, u64);

/// What is done to a file of a class, so many times: visits that come to the same are one.
type Rounds = BTreeMap<(u32, Vec<Flowop>), f64>;

/// The model as a script.
///
/// # Errors
/// It cannot be played.
pub fn wml(model: &Arc<Model>, dialect: Dialect) -> Result<Exported, ModelError> {
    let played = Played::of(model)?;
    let mut lost = Lost::default();
    let class_sizes = sizes(model);
    let groups = rounds(model, &played, &class_sizes, &mut lost);
    let at_once = |group: u32| {
        let of = model.groups.get(group as usize - 1);
        of.map_or(1, |g| u64::from(g.at_once)).max(1)
    };
    let all: Vec<(u32, u64, &Rounds)> = groups
        .iter()
        .map(|(&group, rounds)| (group, at_once(group), rounds))
        .collect();
    let iterations = iterations(&all);
    let threads: Vec<Thread<'_>> = all
        .iter()
        .map(|&(group, at_once, rounds)| thread(group, at_once, rounds, iterations, &mut lost))
        .collect();
    let mut text = head(model, dialect, iterations);
    filesets(&mut text, model, &class_sizes, &threads, iterations);
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
    lost.operations(&played, &told(&threads, iterations));
    Ok(Exported {
        text,
        operations: model.source.operations,
        left_out: lost.counts(),
    })
}

/// What each group does, over all phases.
fn rounds(
    model: &Model,
    played: &Played,
    class_sizes: &[u64],
    lost: &mut Lost,
) -> BTreeMap<u32, Rounds> {
    let mut groups: BTreeMap<u32, Rounds> = BTreeMap::new();
    for (&(phase, part, line), done) in &played.0 {
        let part = model.phases.get(phase).and_then(|p| p.parts.get(part));
        let Some((group, line)) = part.and_then(|p| Some((p.group, p.script.get(line)?))) else {
            continue;
        };
        let flowops = visit(model, line, class_sizes, done, lost);
        if !flowops.is_empty() {
            let rounds = groups.entry(group).or_default();
            *rounds.entry((line.file.class, flowops)).or_default() += done.visits as f64;
        }
        if done.think_ns > 0 {
            lost.add("think times: visits", done.visits as f64);
        }
    }
    groups
}

/// In how many rounds all of it is done: as many as leave the numbers of visits as they are, for a round has whole ones.
fn iterations(all: &[(u32, u64, &Rounds)]) -> u64 {
    let visits =
        |&(_, at_once, rounds): &(u32, u64, &Rounds)| rounds.values().sum::<f64>() / at_once as f64;
    let most = all.iter().map(visits).fold(0.0, f64::max);
    let mut iterations = (most / ROUND as f64).round().max(1.0) as u64;
    let off = |iterations: u64| {
        let (mut off, mut sum) = (0.0, 0.0);
        for &(_, at_once, rounds) in all {
            let of_all = (iterations * at_once) as f64;
            for ((_, flowops), times) in rounds {
                let calls: u64 = flowops.iter().map(|flowop| flowop.2).sum();
                off += ((times / of_all).round() * of_all - times).abs() * calls as f64;
                sum += times * calls as f64;
            }
        }
        off > OFF * sum
    };
    while iterations > 1 && off(iterations) {
        iterations -= iterations.div_ceil(8);
    }
    iterations
}

/// How often the threads do what, in all rounds.
fn told(threads: &[Thread<'_>], iterations: u64) -> BTreeMap<OpKind, f64> {
    let mut told = BTreeMap::new();
    for thread in threads {
        for (_, flowops, iters) in &thread.visits {
            for (_, kind, calls) in *flowops {
                let n = (*calls as f64) * (iters * thread.at_once * iterations) as f64;
                *told.entry(*kind).or_default() += n;
            }
        }
    }
    told
}

fn head(model: &Model, dialect: Dialect, iterations: u64) -> String {
    let how = match dialect {
        Dialect::Filebench => "setarch -R filebench -f FILE".to_owned(),
        Dialect::Fsage => format!("fsage run wml:FILE,iterations={iterations} TARGET"),
    };
    format!(
        "# Made by fsage from a model of {} operations. Run it by: {how}\n\
         # A thread goes through its flowops {iterations} times for all of them.\n\n\
         set $dir=/tmp\n",
        model.source.operations
    )
}

/// What the threads of a group go through.
struct Thread<'a> {
    group: u32,
    at_once: u64,
    /// Of each class the flowops, and how often in a round.
    visits: Vec<(u32, &'a [Flowop], u64)>,
}

fn thread<'a>(
    group: u32,
    at_once: u64,
    rounds: &'a Rounds,
    iterations: u64,
    lost: &mut Lost,
) -> Thread<'a> {
    let mut visits = Vec::new();
    for ((class, flowops), times) in rounds {
        let iters = (times / (iterations * at_once) as f64).round() as u64;
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
                let n = flowops.iter().filter(|f| f.0.starts_with(kind)).count() as u64;
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
        for (step, (flowop, ..)) in flowops.iter().enumerate() {
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

/// A visit as flowops, by what is done in all of them.
fn visit(
    model: &Model,
    line: &Line,
    class_sizes: &[u64],
    done: &Done,
    lost: &mut Lost,
) -> Vec<Flowop> {
    let class = line.file.class as usize;
    let size = class_sizes.get(class.wrapping_sub(1)).copied().unwrap_or(0);
    let plain = |text: &str, kind: OpKind| (text.to_owned(), kind, 1);
    let close = || plain("closefile , fd=1", OpKind::Close);
    let mut out: Vec<Flowop> = Vec::new();
    let mut open = false;
    for step in model.visit(line).map_or(&[][..], |v| &v.steps) {
        let known = class > 0 && step.form.error == 0;
        let flowop = known.then(|| flowop(step, line, size)).flatten();
        let Some(flowop) = flowop else {
            continue;
        };
        let kind = step.form.kind;
        if kind == OpKind::Open {
            if open {
                out.push(close());
            }
            open = true;
        } else if kind == OpKind::Close {
            if !std::mem::take(&mut open) {
                continue;
            }
        } else if flowop.0.contains("fd=1") && !open {
            out.push(plain("openfile , FILESET, fd=1", OpKind::Open));
            open = true;
            lost.add(
                "file that stays open from visit to visit (opened anew)",
                done.visits as f64,
            );
        }
        out.push(flowop);
    }
    if open {
        out.push(close());
    }
    out
}

fn flowop(step: &VisitStep, line: &Line, size: u64) -> Option<Flowop> {
    let form = &step.form;
    let calls = calls(step, size).round().max(1.0) as u64;
    let each = (step.bytes.mean().round() as u64).max(1);
    let by_once = |text: &str| (text.to_owned(), 1);
    let (text, calls) = match form.kind {
        OpKind::Open
            if form.flags & O_CREAT != 0 && matches!(line.file.pick, Pick::New | Pick::Gone) =>
        {
            by_once("createfile , FILESET, fd=1")
        }
        OpKind::Open => by_once("openfile , FILESET, fd=1"),
        OpKind::Close => by_once("closefile , fd=1"),
        _ if is_read(step) && form.to_end.is_some() => {
            let each = if step.bytes.0.is_empty() {
                1 << 20
            } else {
                each
            };
            (format!("readwholefile , fd=1, iosize={each}"), calls)
        }
        _ if is_read(step) => match form.at {
            At::Random => (
                format!("read , fd=1, iosize={each}, random, iters={calls}"),
                calls,
            ),
            _ => (format!("read , fd=1, iosize={each}, iters={calls}"), calls),
        },
        _ if is_write(step) => {
            let how = match form.at {
                At::Random => format!("write , fd=1, iosize={each}, random, iters={calls}"),
                At::Start | At::Again => format!("write , fd=1, iosize={each}, iters={calls}"),
                _ => format!("appendfile , fd=1, iosize={each}, iters={calls}"),
            };
            (how, calls)
        }
        OpKind::Fsync | OpKind::Fdatasync => (format!("fsync , fd=1, iters={calls}"), calls),
        OpKind::Unlink => by_once("deletefile , FILESET"),
        OpKind::Stat | OpKind::Access => (format!("statfile , FILESET, iters={calls}"), calls),
        _ => return None,
    };
    Some((text, form.kind, calls))
}
