//! Costs in context: what calls took where they were traced, beside what the profile of that place says of them.
//!
//! Metrics are measured in loops, of one kind of call. In a program a call finds the processor's caches as the
//! program's own work leaves them, and files as it made them, which makes it dearer by much the same factor
//! on every file system of a machine (decision 0027). A trace has the latencies of one of them: where the profile of that
//! one is known, each kind of call is corrected by what it took there, on every system, as far as the system's cost is not
//! larger than that of the traced one. What a slower device adds is no part of it.

use fsage_core::{Op, OpFlags, OpKind};

use crate::cost::ledger::Latency;
use crate::result::{ContextClass, ContextRecord};
use crate::run::Target;

/// Which power of the factor on the traced system is seen on others: of the open half's pairs in memory it explains most.
const CARRIES: f64 = 0.7;
/// A factor that is larger is something else than the caches' state: a mechanism that the model lacks, on the traced system
/// perhaps alone. One below 1 is never that: nothing is nearer to a call than what a loop of it finds. Then the profile was
/// disturbed, of that system alone, whose costs no other has.
const MOST: f64 = 2.0;
/// Of so many calls half of what they say is believed.
const FEW: f64 = 8.0;
/// Calls that wait for the device for more than this share of their time are the device's.
const AT_DEVICE: f64 = 0.25;
/// What a correction by less changes is not told from nothing.
const NOTHING: f64 = 0.01;

/// Calls of one kind, in the trace and by the profile of the system it was made on.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Sum {
    operations: u64,
    measured_ns: f64,
    queued_ns: f64,
    blocked_ns: f64,
    /// Whether any was only asked for: of those no trace tells how long somebody waited.
    asked: bool,
    alone_ns: f64,
    device_ns: f64,
}

impl Sum {
    fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.measured_ns += other.measured_ns;
        self.queued_ns += other.queued_ns;
        self.blocked_ns += other.blocked_ns;
        self.asked |= other.asked;
        self.alone_ns += other.alone_ns;
        self.device_ns += other.device_ns;
    }
}

/// Calls of kinds that are told together: what was seen of them, and what the replay of their system makes of them.
struct Compared {
    kind: OpKind,
    sum: Sum,
    own_ns: f64,
    found_ns: f64,
}

impl Compared {
    fn of(kind: OpKind) -> Self {
        Self {
            kind,
            sum: Sum::default(),
            own_ns: 0.0,
            found_ns: 0.0,
        }
    }
}

/// With which kind's calls the time of one is told: a trace has a copy's at the first of its sides.
fn compared_as(kind: OpKind) -> OpKind {
    match kind {
        OpKind::CopyOut => OpKind::CopyIn,
        kind => kind,
    }
}

/// What was seen so far of the system that the trace was made on.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    sums: Vec<Sum>,
    /// Whether operations tell for how long they waited for processors.
    queued_known: bool,
    /// And for how long they slept.
    blocked_known: bool,
}

impl Seen {
    /// Nothing yet.
    pub fn new(queued_known: bool, blocked_known: bool) -> Self {
        Self {
            sums: vec![Sum::default(); OpKind::ALL.len()],
            queued_known,
            blocked_known,
        }
    }

    /// One call: what it took in the trace, if that is known, and what it is predicted to take alone.
    pub fn take(&mut self, op: &Op, alone: &Latency) {
        let sum = self.sums.get_mut(op.kind as usize).zip(op.latency_ns);
        self.queued_known &= op.record.contains(OpFlags::WAITS);
        if let Some((sum, measured_ns)) = sum {
            sum.operations += 1;
            sum.measured_ns += measured_ns as f64;
            sum.queued_ns += op.pause.queued_ns as f64;
            sum.blocked_ns += op.pause.blocked_ns as f64;
            sum.asked |= op.record.contains(OpFlags::URING);
            sum.alone_ns += alone.total_ns;
            sum.device_ns += alone.device_ns;
        }
    }

    /// What it comes to, by a prediction of that system: without a correction at first, then with the one that came of
    /// that, `before`. What calls do to one another can make more or less of a factor than it is: it is taken to the
    /// power with which the system itself comes out.
    pub fn context(&self, source: &Target, before: Option<&Context>) -> Context {
        let in_memory = source.vector.machine.in_memory;
        let known = self.compared(source);
        // The second time the waits are corrected already.
        let (queues, again) = if let Some(context) = before {
            (context.queues, 1.0)
        } else {
            let queues = self.queues(&known);
            (queues, queues)
        };
        let mut factors = vec![1.0; OpKind::ALL.len()];
        let mut classes = Vec::new();
        for one in known {
            let Compared { kind, sum, .. } = one;
            let predicted_ns = one.own_ns + again * one.found_ns;
            let at_device = sum.device_ns > AT_DEVICE * sum.alone_ns;
            let class = ContextClass {
                kind: kind.name().to_owned(),
                operations: sum.operations,
                measured_ns: sum.measured_ns,
                predicted_ns,
                factor: 1.0,
            };
            let first = before.and_then(|context| context.class(kind));
            let class = match (first, at_device && !in_memory) {
                // What a drive takes tells nothing of other drives.
                (_, true) => class,
                (None, false) => ContextClass {
                    factor: factor(sum.operations, sum.measured_ns / predicted_ns),
                    ..class
                },
                (Some(first), false) => ContextClass {
                    factor: first.factor.powf(answers(first, predicted_ns)),
                    ..first.clone()
                },
            };
            for side in OpKind::ALL
                .iter()
                .filter(|side| compared_as(**side) == kind)
            {
                if let Some(slot) = factors.get_mut(*side as usize) {
                    *slot = class.factor;
                }
            }
            classes.push(class);
        }
        Context {
            factors,
            queues,
            record: ContextRecord {
                system: source.vector.name.clone(),
                classes,
            },
        }
    }

    /// What the trace tells of each kind, and what the source is predicted to take for it; nothing where one of both is not known.
    fn compared(&self, source: &Target) -> Vec<Compared> {
        let replayed = source.replayed();
        let mut all: Vec<Compared> = OpKind::ALL.iter().map(|&kind| Compared::of(kind)).collect();
        for (&kind, sum) in OpKind::ALL.iter().zip(&self.sums) {
            if let Some(one) = all.get_mut(compared_as(kind) as usize) {
                one.sum.add(sum);
                one.own_ns += sum.alone_ns * source.ledger.corrected(kind);
                // Of calls that may wait for locks nothing is seen.
                if kind != OpKind::Lock {
                    one.own_ns += replayed.waited_ns(kind);
                }
                one.found_ns += replayed.queued_ns(kind);
            }
        }
        all.retain(|one| one.sum.alone_ns > 0.0 && one.sum.measured_ns > 0.0);
        all
    }

    /// How many times as long as the replay found calls waited for processors: at most as long, and as long as the trace tells at
    /// least. Who waits for a device whose worker waits for a processor is asleep: where the trace tells how long calls slept,
    /// that counts but for the device's own time, and elsewhere what they took beyond their own costs. Sleep for a lock is
    /// others' time.
    fn queues(&self, known: &[Compared]) -> f64 {
        let known = || known.iter().filter(|one| !one.sum.asked);
        let found_ns: f64 = known().map(|one| one.found_ns).sum();
        if !self.queued_known || found_ns <= 0.0 {
            return 1.0;
        }
        let told_ns: f64 = known().map(|one| one.sum.queued_ns).sum();
        let told_ns = if self.blocked_known {
            let slept_ns = known()
                .filter(|one| one.kind != OpKind::Lock)
                .map(|one| one.sum.blocked_ns - one.sum.device_ns);
            told_ns + slept_ns.sum::<f64>().max(0.0)
        } else {
            let beyond_ns = known().map(|one| one.sum.measured_ns - one.own_ns);
            told_ns.max(beyond_ns.sum())
        };
        (told_ns / found_ns).clamp(0.0, 1.0)
    }
}

/// What is believed of a ratio that so many calls showed.
fn factor(operations: u64, ratio: f64) -> f64 {
    let calls = operations as f64;
    let believed = CARRIES * calls / (calls + FEW);
    if ratio.is_finite() && ratio > 0.0 {
        ratio.powf(believed).clamp(1.0, MOST)
    } else {
        1.0
    }
}

/// To which power a factor does to its kind what it says: 1 where it did so or did less, 0 where it did the opposite.
fn answers(first: &ContextClass, corrected_ns: f64) -> f64 {
    let (wanted, got) = (first.factor.ln(), (corrected_ns / first.predicted_ns).ln());
    if wanted.abs() < NOTHING {
        return 0.0;
    }
    let part = got / wanted;
    if part.is_finite() && part > 0.0 {
        (1.0 / part).min(1.0)
    } else {
        0.0
    }
}

/// Factors of costs, by kind of call.
#[derive(Debug, Clone, PartialEq)]
pub struct Context {
    factors: Vec<f64>,
    queues: f64,
    record: ContextRecord,
}

impl Context {
    /// What it was made from.
    pub fn record(&self) -> &ContextRecord {
        &self.record
    }

    /// The same without a correction of costs; `None` where nothing is left.
    pub(crate) fn of_waits_alone(mut self) -> Option<Self> {
        self.factors.fill(1.0);
        self.record.classes.clear();
        (self.queues < 1.0).then_some(self)
    }

    /// How many times as long as by the replay calls wait for processors.
    pub(crate) fn queues(&self) -> f64 {
        self.queues
    }

    fn class(&self, kind: OpKind) -> Option<&ContextClass> {
        let mut classes = self.record.classes.iter();
        classes.find(|class| class.kind == kind.name())
    }

    /// What a call that takes so long on the traced system has in common with the same call elsewhere.
    #[inline]
    pub(crate) fn of(&self, kind: OpKind, source_ns: f64) -> Common {
        Common {
            factor: self.factors.get(kind as usize).copied().unwrap_or(1.0),
            source_ns,
        }
    }
}

/// How a call is corrected.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Common {
    factor: f64,
    source_ns: f64,
}

impl Common {
    /// Nothing is corrected.
    pub const NOTHING: Common = Common {
        factor: 1.0,
        source_ns: 0.0,
    };

    /// How many times as long as `alone_ns` the call takes: the part that the traced system has too is corrected.
    #[inline]
    pub fn scale(&self, alone_ns: f64) -> f64 {
        if alone_ns <= 0.0 {
            return 1.0;
        }
        1.0 + (self.factor - 1.0) * (self.source_ns / alone_ns).min(1.0)
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "exact by construction")]
mod tests {
    use super::*;

    #[test]
    fn few_calls_and_large_factors_are_not_believed() {
        assert_eq!(factor(1_000_000, 1.0), 1.0);
        assert!((factor(1_000_000, 1.3) - 1.3f64.powf(CARRIES)).abs() < 1e-4);
        assert!((factor(FEW as u64, 1.3) - 1.3f64.powf(CARRIES / 2.0)).abs() < 1e-4);
        assert_eq!(factor(1_000_000, 80.0), MOST);
        assert_eq!(factor(1_000_000, 0.01), 1.0);
    }

    #[test]
    fn a_factor_is_taken_as_far_as_the_traced_system_itself_comes_out() {
        let class = ContextClass {
            predicted_ns: 100.0,
            factor: 0.5,
            ..ContextClass::default()
        };
        assert_eq!(answers(&class, 50.0), 1.0);
        assert_eq!(answers(&class, 80.0), 1.0, "others wait as long as before");
        assert_eq!(answers(&class, 25.0), 0.5);
        assert_eq!(answers(&class, 130.0), 0.0);
        assert_eq!(answers(&class, 0.0), 0.0);
    }

    #[test]
    fn what_a_slower_device_adds_is_not_corrected() {
        let common = Common {
            factor: 1.5,
            source_ns: 10_000.0,
        };
        assert_eq!(common.scale(10_000.0), 1.5);
        assert_eq!(common.scale(4_000.0), 1.5);
        assert_eq!(common.scale(1_000_000.0), 1.005);
        assert_eq!(common.scale(0.0), 1.0);
        assert_eq!(Common::NOTHING.scale(5.0), 1.0);
    }
}
