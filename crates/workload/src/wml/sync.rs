//! Flowops that wait for others, hold a rate or end the run.

use super::code::{Flowop, FlowopKind};
use super::state::Shared;
use super::thread::{Done, ThreadStream};

/// An event of the generator stands for so much bandwidth.
const EVENT_BYTES: u64 = 1 << 20;

impl ThreadStream {
    pub(super) fn synchronize(&mut self, flowop: &Flowop, held: &mut Shared) -> Done {
        match flowop.kind {
            FlowopKind::Block => self.block(flowop, held),
            FlowopKind::Wakeup => {
                for gate in targets(flowop, held) {
                    if let Some(gate) = held.gates.get_mut(gate) {
                        gate.woken += 1;
                    }
                }
                held.changed();
                Done::Yes
            }
            FlowopKind::SemBlock => self.semblock(flowop, held),
            FlowopKind::SemPost => self.sempost(flowop, held),
            FlowopKind::EventLimit if held.rate == 0 => Done::Yes,
            FlowopKind::EventLimit => Done::Rest(self.events(1, held)),
            FlowopKind::OpsLimit | FlowopKind::IopsLimit | FlowopKind::BandwidthLimit => {
                self.limit(flowop, held)
            }
            FlowopKind::FinishOnCount => {
                let done = match flowop.counted {
                    Some(step) => self.memory.get(step).map_or(0, |m| m.done),
                    None => held.done,
                };
                finish(done >= flowop.value.whole(&mut self.set.random))
            }
            _ => {
                let bytes = match flowop.counted {
                    Some(step) => self.memory.get(step).map_or(0, |m| m.bytes),
                    None => held.bytes,
                };
                finish(bytes > flowop.value.whole(&mut self.set.random))
            }
        }
    }

    /// Waits for the next wakeup.
    fn block(&mut self, flowop: &Flowop, held: &mut Shared) -> Done {
        let memory = self.remembered();
        let woken = held.gates.get(memory.gate).map_or(0, |g| g.woken);
        match memory.progress {
            Some(before) if woken > before => {
                memory.progress = None;
                Done::Yes
            }
            Some(_) => Done::Wait(format!("a wakeup of '{}'", flowop.name)),
            None => {
                memory.progress = Some(woken);
                Done::Wait(format!("a wakeup of '{}'", flowop.name))
            }
        }
    }

    /// Makes room for as many posts as it then waits for.
    fn semblock(&mut self, flowop: &Flowop, held: &mut Shared) -> Done {
        let value = match self.remembered().progress {
            Some(value) => value,
            None => flowop.value.whole(&mut self.set.random),
        };
        let memory = self.remembered();
        let first = memory.progress.is_none();
        let gate = memory.gate;
        let Some(gate) = held.gates.get_mut(gate) else {
            return Done::Yes;
        };
        if first {
            gate.room = gate.room.saturating_add(value);
        }
        let passes = gate.posted >= value;
        if passes {
            gate.posted -= value;
        }
        memory.progress = (!passes).then_some(value);
        if first {
            held.changed();
            self.changed = true;
        }
        if passes {
            Done::Yes
        } else {
            Done::Wait(format!("{value} posts to '{}'", flowop.name))
        }
    }

    /// Posts to every gate of its target, one after the other; a blocking one waits for room.
    fn sempost(&mut self, flowop: &Flowop, held: &mut Shared) -> Done {
        let value = flowop.value.whole(&mut self.set.random);
        let gates = targets(flowop, held);
        let begun = self.remembered().progress.take().unwrap_or(0);
        for (number, gate) in (0_u64..).zip(gates).skip(begun as usize) {
            let Some(gate) = held.gates.get_mut(gate) else {
                continue;
            };
            if flowop.blocking {
                if gate.room < value {
                    self.remembered().progress = Some(number);
                    let target = flowop.target.as_deref().unwrap_or_default();
                    return Done::Wait(format!("room for {value} posts to '{target}'"));
                }
                gate.room -= value;
            }
            gate.posted = gate.posted.saturating_add(value);
            held.changed();
            self.changed = true;
        }
        Done::Yes
    }

    /// Takes events of the generator; returns how long it is until the last of them is due. Each
    /// taker has its own events, so that none has to ask again.
    fn events(&mut self, count: u64, held: &mut Shared) -> u64 {
        held.taken = held.taken.saturating_add(count);
        let due = u128::from(held.taken) * 1_000_000_000 / u128::from(held.rate.max(1));
        let due = u64::try_from(due).unwrap_or(u64::MAX);
        due.saturating_sub(self.now_ns)
    }

    /// Takes an event for each flowop, transfer or MiB that was done since the last time.
    fn limit(&mut self, flowop: &Flowop, held: &mut Shared) -> Done {
        if held.rate == 0 {
            return Done::Yes;
        }
        let own = flowop
            .counted
            .and_then(|step| self.memory.get(step))
            .copied();
        let total = match (flowop.kind, own) {
            (FlowopKind::BandwidthLimit, Some(own)) => own.bytes,
            (FlowopKind::BandwidthLimit, None) => held.bytes,
            (_, Some(own)) => own.done,
            (FlowopKind::IopsLimit, None) => held.transfers,
            (_, None) => held.done,
        };
        let memory = self.remembered();
        let Some(last) = memory.last.replace(total) else {
            return Done::Yes;
        };
        let since = i64::try_from(total.saturating_sub(last)).unwrap_or(i64::MAX);
        memory.bucket = memory.bucket.saturating_sub(since);
        if memory.bucket >= 0 {
            return Done::Yes;
        }
        let missing = memory.bucket.unsigned_abs();
        let (events, worth) = match flowop.kind {
            FlowopKind::BandwidthLimit => (missing / EVENT_BYTES + 1, EVENT_BYTES),
            _ => (missing, 1),
        };
        let taken = i64::try_from(events.saturating_mul(worth)).unwrap_or(i64::MAX);
        memory.bucket = memory.bucket.saturating_add(taken);
        Done::Rest(self.events(events, held))
    }
}

fn finish(over: bool) -> Done {
    if over { Done::Stop } else { Done::Yes }
}

fn targets(flowop: &Flowop, held: &Shared) -> Vec<usize> {
    let target = flowop.target.as_deref().unwrap_or_default();
    held.targets.get(target).cloned().unwrap_or_default()
}
