//! For filebench: a fileset for each class of files, a process for each group, a flowop for each kind of visit.
//!
//! Each visit opens its file and closes it, for flowops of different visits cannot be told to use the same file.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use fsage_core::OpKind;
use fsage_namespace::flags::O_CREAT;

use super::filesets::{filesets, turn};
use super::played::{Done, Played};
use super::{Exported, FILE, Lost, Made, calls, is_read, is_write, sizes};
use crate::fsm::{At, Line, Model, ModelError, Pick, VisitStep};

/// Visits of one round of a thread, about.
const ROUND: u64 = 200;
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

/// One call of a visit, or several.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Flowop {
    /// The kind of the flowop, and what follows its name.
    pub(super) text: String,
    kind: OpKind,
    /// How often it is called in a visit, and what all of that moves.
    calls: u64,
    bytes: u64,
}

/// What is done to a file of a class, so many times: visits that come to the same are one.
type Rounds = BTreeMap<(u32, Vec<Flowop>), f64>;

/// The model as a script.
///
/// # Errors
/// It cannot be played.
pub fn wml(model: &Arc<Model>, dialect: Dialect) -> Result<Exported, ModelError> {
    let played = Played::of(model)?;
    let mut lost = Lost::default();
    let class_sizes = sizes(model, &played);
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
    let run_by = match dialect {
        Dialect::Filebench => format!("setarch -R filebench -f {FILE}"),
        Dialect::Fsage => format!("fsage run wml:{FILE},iterations={iterations} TARGET"),
    };
    let mut text = head(model, &run_by, iterations);
    let of = (&**model, &played);
    let by = (iterations, dialect);
    let made = filesets(&mut text, of, &class_sizes, &threads, by);
    let made_by_model = Made::of(model);
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
    let moves = played.0.values().flat_map(|done| &done.moves);
    let direct: u64 = moves.map(|moves| moves.direct).sum();
    lost.add("past the page cache (O_DIRECT)", direct as f64);
    let (exported, exported_bytes) = exported(&threads, iterations);
    lost.operations(&played, &exported);
    lost.bytes(&played, exported_bytes);
    lost.made(made, made_by_model);
    Ok(Exported {
        text,
        run_by,
        rounds: Some(iterations),
        operations: model.source.operations,
        made,
        made_by_model,
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
                let calls: u64 = flowops.iter().map(|flowop| flowop.calls).sum();
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

/// How often the threads do what, in all rounds, and how many bytes they read and write.
fn exported(threads: &[Thread<'_>], iterations: u64) -> (BTreeMap<OpKind, f64>, [f64; 2]) {
    let (mut exported, mut bytes) = (BTreeMap::new(), [0.0; 2]);
    for thread in threads {
        for (_, flowops, iters) in &thread.visits {
            let times = (iters * thread.at_once * iterations) as f64;
            for flowop in *flowops {
                *exported.entry(flowop.kind).or_default() += flowop.calls as f64 * times;
                let [read, written] = &mut bytes;
                let way = if flowop.kind == OpKind::Read {
                    read
                } else {
                    written
                };
                *way += flowop.bytes as f64 * times;
            }
        }
    }
    (exported, bytes)
}

fn head(model: &Model, run_by: &str, iterations: u64) -> String {
    format!(
        "# Made by fsage from a model of {} operations. Run it by: {run_by}\n\
         # A thread goes through its flowops {iterations} times for all of them.\n\n\
         set $dir=/tmp\n",
        model.source.operations
    )
}

/// What the threads of a group go through.
pub(super) struct Thread<'a> {
    group: u32,
    pub(super) at_once: u64,
    /// Of each class the flowops, and how often in a round.
    pub(super) visits: Vec<(u32, &'a [Flowop], u64)>,
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
    visits.sort_by_key(|(_, flowops, _)| turn(flowops));
    Thread {
        group,
        at_once,
        visits,
    }
}

fn process(out: &mut String, thread: &Thread<'_>) {
    let group = thread.group;
    for (number, (class, flowops, _)) in thread.visits.iter().enumerate() {
        let n = number + 1;
        let _ = writeln!(out, "\ndefine flowop name=g{group}v{n}\n{{");
        for (step, flowop) in flowops.iter().enumerate() {
            let text = &flowop.text;
            let (kind, rest) = text.split_once(" ,").unwrap_or((text, ""));
            let rest = rest.replace("FILESET", &format!("filesetname=files{class}"));
            let _ = writeln!(out, "  flowop {kind} name=g{group}v{n}s{},{rest}", step + 1);
        }
        out.push_str("}\n");
    }
    if thread.visits.is_empty() {
        return;
    }
    let _ = write!(
        out,
        "\ndefine process name=group{group}, instances=1\n{{\n  \
         thread name=thread{group}, memsize=10m, instances={}\n  {{\n",
        thread.at_once
    );
    for (number, (_, _, iters)) in thread.visits.iter().enumerate() {
        let n = number + 1;
        let _ = writeln!(
            out,
            "    flowop g{group}v{n} name=g{group}u{n}, iters={iters}"
        );
    }
    out.push_str("  }\n}\n");
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
    let plain = |text: &str, kind: OpKind| Flowop {
        text: text.to_owned(),
        kind,
        calls: 1,
        bytes: 0,
    };
    let close = || plain("closefile , fd=1", OpKind::Close);
    let mut out: Vec<Flowop> = Vec::new();
    let mut open = false;
    for step in model.visit(line).map_or(&[][..], |v| &v.steps) {
        let known = class > 0 && step.form.error == 0;
        let flowop = known.then(|| flowop(step, line, size, open)).flatten();
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
        } else if flowop.text.contains("fd=1") && !open {
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

/// A step of a visit that has opened its file itself, or not: such a one goes on where another stopped.
fn flowop(step: &VisitStep, line: &Line, size: u64, opened: bool) -> Option<Flowop> {
    let form = &step.form;
    let is_whole = form.to_end.is_some() && opened;
    let calls = if is_whole {
        calls(step, size)
    } else {
        step.times.mean().max(1.0)
    };
    let calls = calls.round().max(1.0) as u64;
    // Of reads to the end of which no sizes are told one takes what there is.
    let each = match (form.to_end, step.bytes.0.is_empty()) {
        (Some(_), true) => 1 << 20,
        _ => (step.bytes.mean().round() as u64).max(1),
    };
    let all = |text: String, bytes: u64| (text, calls, bytes);
    let by_once = |text: &str| (text.to_owned(), 1, 0);
    let (text, calls, bytes) = match form.kind {
        OpKind::Open
            if form.flags & O_CREAT != 0 && matches!(line.file.pick, Pick::New | Pick::Gone) =>
        {
            by_once("createfile , FILESET, fd=1")
        }
        OpKind::Open => by_once("openfile , FILESET, fd=1"),
        OpKind::Close => by_once("closefile , fd=1"),
        _ if is_read(step) && is_whole => all(format!("readwholefile , fd=1, iosize={each}"), size),
        // None of them can be larger than the file.
        _ if form.at == At::Random && (is_read(step) || is_write(step)) && size == 0 => {
            return None;
        }
        _ if is_read(step) => {
            let (random, each) = match form.at {
                At::Random => (", random", each.min(size)),
                _ => ("", each),
            };
            let bytes = each.min(size).saturating_mul(calls);
            all(
                format!("read , fd=1, iosize={each}{random}, iters={calls}"),
                bytes,
            )
        }
        _ if is_write(step) => {
            let (kind, random, each) = match form.at {
                At::Random => ("write", ", random", each.min(size)),
                At::Start | At::Again => ("write", "", each),
                _ => ("appendfile", "", each),
            };
            let bytes = each.saturating_mul(calls);
            all(
                format!("{kind} , fd=1, iosize={each}{random}, iters={calls}"),
                bytes,
            )
        }
        OpKind::Fsync | OpKind::Fdatasync => all(format!("fsync , fd=1, iters={calls}"), 0),
        OpKind::Unlink => by_once("deletefile , FILESET"),
        OpKind::Stat | OpKind::Access => all(format!("statfile , FILESET, iters={calls}"), 0),
        _ => return None,
    };
    Some(Flowop {
        text,
        kind: form.kind,
        calls,
        bytes,
    })
}
