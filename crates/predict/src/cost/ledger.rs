//! Totals of request vectors, and the dot products that can be asked of them.

use fsage_core::OpKind;

use super::plan::{Charge, Plan};
use super::stem::Stem;
use super::vector::{Slot, SystemVector};
use crate::context::Common;

/// The predicted latency of one operation.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Latency {
    /// All of it, in nanoseconds.
    pub total_ns: f64,
    /// The part spent waiting for the device.
    pub device_ns: f64,
    /// The part of that which holds where the device's last request was the thread's own, because the
    /// next lies beside it.
    pub beside_ns: f64,
    /// The part of it that goes on where the last request ended, and so was read ahead.
    pub ahead_ns: f64,
}

impl Latency {
    /// The part that needs a processor.
    pub fn memory_ns(&self) -> f64 {
        (self.total_ns - self.device_ns).max(0.0)
    }
}

/// Weights by kind of operation and metric; counts by kind; uses by family.
#[derive(Debug, Clone)]
pub struct Ledger {
    slots: usize,
    weights: Vec<f64>,
    counts: Vec<u64>,
    uses: Vec<u64>,
    unit_ns: Vec<f64>,
    at_device: Vec<bool>,
    request: Vec<(Slot, f64)>,
    total: Latency,
    /// By kind of operation, nanoseconds: by the metrics alone, and as corrected.
    corrected: Vec<(f64, f64)>,
}

impl Ledger {
    /// Empty totals for one system.
    pub fn new(vector: &SystemVector) -> Self {
        let slots = vector.slots().len();
        let unit_ns = vector
            .slots()
            .iter()
            .map(|(slot, _)| vector.unit_cost_ns(slot))
            .collect();
        let stems = Stem::ALL.iter().filter(|s| s.at_device());
        let families: Vec<_> = stems.filter_map(|s| s.family()).collect();
        let slots_at_device = vector.slots().iter();
        let at_device = slots_at_device.map(|(_, id)| families.contains(&id.family()));
        Self {
            slots,
            weights: vec![0.0; slots * OpKind::ALL.len()],
            counts: vec![0; OpKind::ALL.len()],
            uses: vec![0; Stem::ALL.len()],
            unit_ns,
            at_device: at_device.collect(),
            request: Vec::new(),
            total: Latency::default(),
            corrected: vec![(0.0, 0.0); OpKind::ALL.len()],
        }
    }

    /// Charges one operation, corrected by what is common to it and the traced system; its request vector stays in
    /// [`Self::request`] until the next.
    #[inline]
    pub(crate) fn charge(
        &mut self,
        kind: OpKind,
        charges: &[Charge],
        plan: &Plan,
        common: Common,
    ) -> Latency {
        let alone = self.ask(charges, plan);
        let latency = self.correct(alone, common.scale(alone.total_ns));
        if let Some(sums) = self.corrected.get_mut(kind as usize) {
            sums.0 += alone.total_ns;
            sums.1 += latency.total_ns;
        }
        let base = kind as usize * self.slots;
        if let Some(row) = self.weights.get_mut(base..base + self.slots) {
            for &(slot, weight) in &self.request {
                if let Some(sum) = row.get_mut(slot.0 as usize) {
                    *sum += weight;
                }
            }
        }
        if let Some(count) = self.counts.get_mut(kind as usize) {
            *count += 1;
        }
        self.total.total_ns += latency.total_ns;
        self.total.device_ns += latency.device_ns;
        latency
    }

    /// What one operation would take, without adding it to anything.
    #[inline]
    pub(crate) fn alone(&mut self, charges: &[Charge], plan: &Plan) -> Latency {
        self.ask(charges, plan)
    }

    /// Makes an operation so many times as long: in this trace its metrics are.
    #[inline]
    fn correct(&mut self, latency: Latency, scale: f64) -> Latency {
        if (scale - 1.0).abs() < f64::EPSILON {
            return latency;
        }
        for part in &mut self.request {
            part.1 *= scale;
        }
        // What is asked of the device stays: others wait for that, or do not.
        let total_ns = latency.total_ns * scale;
        Latency {
            total_ns,
            device_ns: latency.device_ns.min(total_ns),
            ..latency
        }
    }

    /// The request vector of one operation, and what it comes to.
    #[inline]
    fn ask(&mut self, charges: &[Charge], plan: &Plan) -> Latency {
        self.request.clear();
        let mut latency = Latency::default();
        for charge in charges {
            if let Some(uses) = self.uses.get_mut(charge.stem as usize) {
                *uses += 1;
            }
            let from = self.request.len();
            plan.charge(charge, &mut self.request);
            if charge.beside || charge.stem == Stem::Rd {
                let parts = self.request.iter().skip(from);
                let parts =
                    parts.filter_map(|&(slot, w)| Some(w * self.unit_ns.get(slot.0 as usize)?));
                let sum = parts.sum::<f64>();
                if charge.beside {
                    latency.beside_ns += sum;
                } else {
                    latency.ahead_ns += sum;
                }
            }
        }
        for &(slot, weight) in &self.request {
            let index = slot.0 as usize;
            let Some(&unit) = self.unit_ns.get(index) else {
                continue;
            };
            latency.total_ns += weight * unit;
            if self.at_device.get(index) == Some(&true) {
                latency.device_ns += weight * unit;
            }
        }
        latency
    }

    /// How many times as long as by the metrics alone operations of a kind take.
    pub(crate) fn corrected(&self, kind: OpKind) -> f64 {
        let sums = self.corrected.get(kind as usize);
        sums.filter(|sums| sums.0 > 0.0)
            .map_or(1.0, |&(alone, corrected)| corrected / alone)
    }

    /// The request vector of the operation charged last.
    pub fn request(&self) -> &[(Slot, f64)] {
        &self.request
    }

    /// Sum of the latencies of all operations.
    pub fn total(&self) -> Latency {
        self.total
    }

    /// Operations of a kind.
    pub fn count(&self, kind: OpKind) -> u64 {
        self.counts.get(kind as usize).copied().unwrap_or(0)
    }

    /// How often a family was needed.
    pub fn uses(&self, stem: Stem) -> u64 {
        self.uses.get(stem as usize).copied().unwrap_or(0)
    }

    /// The summed request vector of a kind, by slot.
    pub fn weights(&self, kind: OpKind) -> &[f64] {
        let base = kind as usize * self.slots;
        self.weights.get(base..base + self.slots).unwrap_or(&[])
    }

    /// The summed request vector of everything, by slot.
    pub fn all_weights(&self) -> Vec<f64> {
        let mut sums = vec![0.0; self.slots];
        for row in self.weights.chunks_exact(self.slots.max(1)) {
            for (sum, weight) in sums.iter_mut().zip(row) {
                *sum += weight;
            }
        }
        sums
    }
}

/// Dot product of summed weights and a system vector, with its standard error: errors of different
/// metrics are independent, those of one metric add with all of its weight.
pub fn dot(weights: &[f64], vector: &SystemVector) -> (f64, f64) {
    let (mut sum, mut variance) = (0.0, 0.0);
    for (index, &weight) in weights.iter().enumerate().filter(|&(_, &w)| w != 0.0) {
        let slot = Slot(index as u16);
        sum += weight * vector.unit_cost_ns(slot);
        variance += (weight * vector.unit_error_ns(slot)).powi(2);
    }
    (sum, variance.sqrt())
}
