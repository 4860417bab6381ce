//! A drive as it is where a program works as fast between its waits as in the trace, and where it is slower.
//!
//! A program that has waited finds the processor's caches cold, and what a call takes on its way to a drive and back is no part of
//! a trace in memory. The drive reads on meanwhile. Whether it holds what is asked for next, and with that everything
//! after it, can turn on fractions of a millisecond, in measured runs as well: so both are followed, and where they differ
//! each counts half.

use crate::drive::{Drive, Figures, Found};

/// How many times as long slower programs take between their waits.
const SLOWER: f64 = 3.0;

/// One drive at each pace.
#[derive(Debug, Clone)]
pub(crate) struct Paces([Drive; 2]);

impl Paces {
    pub fn new(figures: Figures) -> Self {
        Self([Drive::new(figures), Drive::paced(figures, SLOWER)])
    }

    /// What is done to it.
    pub fn each(&mut self, act: impl FnMut(&mut Drive)) {
        self.0.iter_mut().for_each(act);
    }

    /// What is found at each pace.
    pub fn find(&mut self, find: impl FnMut(&mut Drive) -> Found) -> [Found; 2] {
        self.0.each_mut().map(find)
    }

    /// The one at the trace's pace.
    pub fn usual(&mut self) -> &mut Drive {
        let [usual, _] = &mut self.0;
        usual
    }
}
