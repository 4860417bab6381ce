//! The filesets of a script: of each class as many files as the model has, and beyond these no more than its threads need to
//! find one whatever they do at once.

use std::fmt::Write;

use super::wml::{Dialect, Flowop, Thread};
use super::{Made, arrived};
use crate::export::played::Played;
use crate::fsm::{Model, Type};

/// How many files there are at the start, and places for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Needs {
    there: u64,
    free: u64,
}

/// A fileset as the language tells it: `percent` of its entries are made before, which are so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entries {
    all: u64,
    percent: u64,
    made: u64,
}

impl Entries {
    /// Those with as many files at the start as are needed, which a percentage comes to where they are no less than a
    /// hundredth of all; else a hundredth is there.
    fn of(needs: Needs, dialect: Dialect) -> Self {
        let (there, all) = (needs.there, needs.there.saturating_add(needs.free).max(1));
        let hundred = there.saturating_mul(100);
        let (percent, entries) = match hundred / all {
            _ if there == 0 => (0, all),
            0 => (1, all),
            percent => {
                // filebench rounds what a percentage comes to down, and fsage up.
                let entries = match dialect {
                    Dialect::Filebench => hundred.div_ceil(percent),
                    Dialect::Fsage => hundred / percent,
                };
                (percent, entries.max(all))
            }
        };
        let made = match dialect {
            Dialect::Filebench => entries.saturating_mul(percent) / 100,
            Dialect::Fsage => entries.saturating_mul(percent).div_ceil(100),
        };
        Self {
            all: entries,
            percent,
            made,
        }
    }
}

/// How often a thread makes and removes a file of a class in a round.
#[derive(Debug, Clone, Copy, Default)]
struct OfThread {
    makes: u64,
    removes: u64,
    /// Whether it uses one that is there.
    finds: bool,
    /// Whether it removes another one while it has one open.
    holds: bool,
}

impl OfThread {
    fn of(thread: &Thread<'_>, class: u32) -> Option<Self> {
        let mut of = Self::default();
        let mut any = false;
        for (_, flowops, iters) in thread.visits.iter().filter(|visit| visit.0 == class) {
            any = true;
            let of_kind = |kind: &str| flowops.iter().filter(|f| is(f, kind)).count() as u64;
            let (makes, removes) = (of_kind("createfile"), of_kind("deletefile"));
            of.makes = of.makes.saturating_add(makes.saturating_mul(*iters));
            of.removes = of.removes.saturating_add(removes.saturating_mul(*iters));
            of.finds |= of_kind("openfile") + of_kind("statfile") > 0;
            of.holds |= removes > 0 && makes + of_kind("openfile") > 0;
        }
        any.then_some(of)
    }
}

fn is(flowop: &Flowop, kind: &str) -> bool {
    flowop.text.starts_with(kind)
}

/// In which order the visits of a round are made: what makes files first, and what only removes them last, so that what is
/// made in the run need not be there before.
pub(super) fn turn(flowops: &[Flowop]) -> u8 {
    let any = |kind: &str| flowops.iter().any(|flowop| is(flowop, kind));
    match (any("createfile"), any("deletefile")) {
        (true, _) => 0,
        (false, false) => 1,
        (false, true) => 2,
    }
}

/// What a class needs so that no thread ever finds nothing: a thread of a round that removes more than it makes is behind by
/// that after each, and each may be at another place of its rounds.
fn needs(threads: &[Thread<'_>], class: u32, own: u64, iterations: u64) -> Option<Needs> {
    let (mut behind, mut ahead, mut held, mut one, mut any) = (0_u64, 0_u64, 0_u64, 0, false);
    for thread in threads {
        let Some(of) = OfThread::of(thread, class) else {
            continue;
        };
        any = true;
        let all = |n: u64| n.saturating_mul(thread.at_once);
        let grows = of.makes.saturating_sub(of.removes);
        let shrinks = of.removes.saturating_sub(of.makes);
        behind = behind.saturating_add(all(shrinks.saturating_mul(iterations)));
        let most = grows.saturating_mul(iterations.saturating_sub(1));
        ahead = ahead.saturating_add(all(of.makes.saturating_add(most)));
        held = held.saturating_add(if of.holds { thread.at_once } else { 0 });
        if of.finds && of.makes == 0 && of.removes == 0 {
            one = 1;
        }
    }
    let there = own.max(behind.saturating_add(one)).saturating_add(held);
    any.then_some(Needs { there, free: ahead })
}

/// Writes those that a flowop is on; what they make before anything is run.
pub(super) fn filesets(
    text: &mut String,
    (model, played): (&Model, &Played),
    class_sizes: &[u64],
    threads: &[Thread<'_>],
    (iterations, dialect): (u64, Dialect),
) -> Made {
    let mut made = Made::default();
    let classes = model.classes.iter().zip(class_sizes);
    for (place, ((class, size), arrived)) in classes.zip(arrived(model, played)).enumerate() {
        let number = place as u32 + 1;
        // What comes there by a rename, which no flowop is, is there from the start.
        let own = class.before.saturating_add(arrived);
        let Some(needs) = needs(threads, number, own, iterations) else {
            continue;
        };
        let Entries {
            all: entries,
            percent,
            made: files,
        } = Entries::of(needs, dialect);
        let size = if class.kind == Type::File { *size } else { 0 };
        made.files = made.files.saturating_add(files);
        made.bytes = made.bytes.saturating_add(files.saturating_mul(size));
        let directories = class.directory.0.len().max(1) as u64;
        let _ = writeln!(
            text,
            "define fileset name=files{number}, path=$dir, entries={entries}, dirwidth={}, size={size}, prealloc={percent}",
            entries.div_ceil(directories).max(2),
        );
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For each reader of the language the percentage comes to what is needed, with places for all others.
    #[test]
    fn as_many_files_are_there_as_are_needed() {
        for dialect in [Dialect::Fsage, Dialect::Filebench] {
            for there in [0_u64, 1, 2, 7, 48, 99, 100, 101, 1500, 99_999] {
                for free in [0_u64, 1, 3, 64, 99, 100, 10_000] {
                    let of = Entries::of(Needs { there, free }, dialect);
                    let hundredth = (there + free).div_ceil(100);
                    let is_few = there > 0 && there * 100 < there + free;
                    let most = if is_few { hundredth } else { there };
                    assert!(
                        of.made >= there.min(most) && of.made <= most,
                        "{there} {free}: {of:?}"
                    );
                    assert!(of.all - of.made >= free.saturating_sub(hundredth), "{of:?}");
                    assert!(of.all >= there + free && of.percent <= 100, "{of:?}");
                }
            }
        }
    }
}
