//! The order of virtual time: what is next, and operations between their call and their end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fsage_core::{Demand, VirtualTime};

use crate::timer::{Called, Collector, Demanded};

/// When each lane goes on. Of equal times the lower lane is first, so that every run is the same.
#[derive(Debug, Default)]
pub struct Agenda(BinaryHeap<Reverse<(u64, usize)>>);

impl Agenda {
    pub fn add(&mut self, at_ns: u64, lane: usize) {
        self.0.push(Reverse((at_ns, lane)));
    }

    pub fn next(&mut self) -> Option<(u64, usize)> {
        self.0.pop().map(|Reverse(next)| next)
    }

    /// Whether a lane may go on at once: nobody comes before it. If not, it is noted.
    pub fn is_next(&mut self, at_ns: u64, lane: usize) -> bool {
        let first = self
            .0
            .peek()
            .is_none_or(|Reverse(top)| (at_ns, lane) < *top);
        if !first {
            self.add(at_ns, lane);
        }
        first
    }
}

/// An operation whose call was made and whose demands are served.
#[derive(Debug, Default)]
pub struct Flight {
    demanded: Demanded,
    served: usize,
    span_ns: (u64, u64),
}

impl Flight {
    /// Begins with what was collected.
    pub fn begin(&mut self, collector: &Collector<'_>) {
        collector.take(&mut self.demanded);
        self.served = 0;
    }

    /// Serves what is demanded, from `now_ns` on, until something else comes first; the lane is then on
    /// the agenda. Whether the operation is over; `now_ns` is then its end.
    pub fn go_on(
        &mut self,
        time: &dyn VirtualTime,
        agenda: &mut Agenda,
        lane: usize,
        now_ns: &mut u64,
    ) -> bool {
        loop {
            if self.served == self.demanded.own.start {
                self.span_ns.0 = *now_ns;
            }
            if self.served == self.demanded.own.end {
                self.span_ns.1 = *now_ns;
            }
            match self.demanded.all.get(self.served) {
                // Nobody else is concerned.
                Some(Demand::Compute(ns)) => *now_ns = now_ns.saturating_add(*ns),
                _ if !agenda.is_next(*now_ns, lane) => return false,
                Some(Demand::Serve(number)) => *now_ns = time.serve(*number, *now_ns).max(*now_ns),
                None => return true,
            }
            self.served += 1;
        }
    }

    /// The call with its times.
    pub fn timed(&self, call: Called) -> Called {
        Called {
            start_ns: self.span_ns.0,
            end_ns: self.span_ns.1,
            device: self.demanded.device,
            ..call
        }
    }
}
