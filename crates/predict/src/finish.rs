//! From totals to what is said.

use crate::certainty::{self, MARKED_SAID, Totals, UNKNOWN_SAID, UNPLACED_SAID};
use crate::cost::ledger::dot;
use crate::elapsed::Replay;
use crate::rank::{Entry, rank};
use crate::result::{
    CacheUse, Caches, ChangeEffect, Changed, ChangedKind, KindPrediction, PREDICTION_FORMAT,
    PREDICTION_VERSION, Prediction, TargetPrediction, Uncertainty,
};
use crate::run::{Predictor, Target};
use crate::shares::{self, Part};
use crate::whatif::{Applied, elapsed_after};
use crate::writeback;

/// A system's totals and what they are made of.
struct Summed {
    weights: Vec<f64>,
    replayed: Replay,
    totals: Totals,
    marked: Part,
    by_place: Vec<&'static str>,
}

impl Summed {
    fn of(target: &Target, predictor: &Predictor) -> Self {
        let (options, traced) = (&predictor.options, &predictor.traced);
        let unplaced = predictor.namespace.unplaced_share();
        let weights = target.ledger.all_weights();
        let replayed = target.replayed();
        let (alone, error) = dot(&weights, &target.vector);
        let latency_ns = alone + replayed.waited_total_ns();
        let vector = &target.vector;
        let marked = |(slot, _)| vector.at(slot).is_some_and(|e| e.marked);
        let marked = Part::of(&weights, vector, marked);
        // Before its first operation and after its last a command starts, works and ends.
        let spanned_ns = traced
            .end_ns
            .saturating_sub(traced.first_ns.unwrap_or(traced.end_ns));
        let around_ns = options.traced_ns.unwrap_or(0).saturating_sub(spanned_ns);
        let (by_place_share, by_place) = shares::by_place(&weights, vector);
        let totals = Totals {
            latency_ns,
            elapsed_ns: replayed.elapsed_ns() + around_ns as f64 * vector.own_work,
            profile: certainty::log_error(latency_ns, error),
            in_memory: vector.machine.in_memory,
            unplaced: by_place_share * unplaced,
            marked: marked.share,
        };
        Self {
            weights,
            replayed,
            totals,
            marked,
            by_place,
        }
    }

    fn latency_interval(&self) -> Option<(f64, f64)> {
        certainty::interval(self.totals.latency_ns, self.totals.latency_half())
    }

    fn uncertainty(&self, target: &Target) -> Uncertainty {
        let (unknown_share, unknown) = shares::unknown(&self.weights, &target.vector);
        let mut trouble = Vec::new();
        let by_profile = Totals {
            unplaced: 0.0,
            marked: 0.0,
            ..self.totals
        };
        if certainty::interval(by_profile.latency_ns, by_profile.latency_half()).is_none() {
            trouble.push("the profile's metrics vary too much for an interval".to_owned());
        }
        if unknown_share > UNKNOWN_SAID {
            let named: Vec<&str> = unknown.iter().take(3).map(String::as_str).collect();
            trouble.push(format!(
                "{:.0} % of it stands on metrics of fewer than 3 samples ({})",
                unknown_share * 100.0,
                named.join(", ")
            ));
        }
        Uncertainty {
            profile: self.totals.profile,
            model: self.totals.model(),
            log_half_width: self.totals.latency_half(),
            parts: self.totals.parts(),
            unknown_share,
            unknown,
            marked: self.marked.carrying.clone(),
            carrying: self.marked.of,
            marked_share: self.totals.marked,
            unplaced_share: self.totals.unplaced,
            trouble: (!trouble.is_empty()).then(|| trouble.join("; ")),
        }
    }

    /// What its reader must know before anything else.
    fn cautions(&self) -> Vec<String> {
        let mut cautions = Vec::new();
        if self.totals.marked > MARKED_SAID && self.marked.carrying.is_empty() {
            cautions.push(format!(
                "{:.0} % of it stands on metrics of less than 1 % each that were disturbed when they were \
                 measured, or disagree",
                self.totals.marked * 100.0
            ));
        } else if self.totals.marked > MARKED_SAID {
            cautions.push(format!(
                "{} of the {} metrics that carry its total, {:.0} % of it, were disturbed when they were \
                 measured, or disagree",
                self.marked.carrying.len(),
                self.marked.of,
                self.marked.carrying_share * 100.0
            ));
        }
        if self.totals.unplaced > UNPLACED_SAID {
            cautions.push(format!(
                "{:.0} % of it hangs on where files lie to each other ({}), which no snapshot tells: give \
                 the one from before the trace (--snapshot)",
                self.totals.unplaced * 100.0,
                self.by_place.join(", ")
            ));
        }
        cautions
    }
}

impl Predictor {
    /// The prediction of everything pushed so far.
    pub fn finish(&self) -> Prediction {
        let mut targets = Vec::new();
        let mut entries = Vec::new();
        for (index, target) in self.targets.iter().enumerate() {
            let summed = Summed::of(target, self);
            let made = self.target(index, target, &summed);
            if made.incomplete.is_none() {
                entries.push(Entry {
                    name: made.name.clone(),
                    target: target.vector.target.clone(),
                    totals: summed.totals,
                });
            }
            targets.push(made);
        }
        let (ranking, pairs) = rank(&entries);
        let traced = &self.traced;
        Prediction {
            format: PREDICTION_FORMAT.to_owned(),
            version: PREDICTION_VERSION,
            operations: traced.operations,
            operations_charged: traced.charged,
            traced_run_ns: traced.end_ns.saturating_sub(traced.first_ns.unwrap_or(0)),
            traced_latency_ns: traced.latency_ns,
            cache: self.options.policy.name().to_owned(),
            start: self.options.start.name().to_owned(),
            what_if: self.changes.iter().map(|c| c.text().to_owned()).collect(),
            targets,
            ranking,
            pairs,
            context: (self.source.as_ref())
                .map(|(_, context)| context.record())
                .filter(|record| !record.classes.is_empty())
                .cloned(),
            warnings: self.warnings(),
        }
    }

    fn target(&self, index: usize, target: &Target, summed: &Summed) -> TargetPrediction {
        let overhead = writeback::overhead(&target.vector, &self.load(target));
        let vector = &target.vector;
        let Totals {
            latency_ns,
            elapsed_ns,
            ..
        } = summed.totals;
        // How long what is missing would make others wait, nobody knows.
        let waiting_ns = summed.replayed.waited_total_ns();
        let incomplete = target.incomplete(latency_ns - waiting_ns);
        let mut made = TargetPrediction {
            name: vector.name.clone(),
            incomplete: None,
            latency_total_ns: Some(latency_ns),
            latency_interval_ns: summed.latency_interval(),
            device_ns: target.ledger.total().device_ns,
            waiting_ns,
            processor_wait_ns: 0.0,
            elapsed_ns: Some(elapsed_ns),
            elapsed_interval_ns: certainty::interval(elapsed_ns, summed.totals.elapsed_half()),
            uncertainty: summed.uncertainty(target),
            writeback_ns: overhead.overhead_ns,
            writeback_slowdown: overhead.slowdown,
            utilization: overhead.utilization,
            write_kib_per_s: overhead.kib_per_s,
            reference_ns: vector.reference_ns,
            kinds: kinds(target, summed),
            caches: self.caches(target),
            metrics: shares::metrics(&summed.weights, vector),
            families: shares::families(&summed.weights, vector),
            helps: shares::helps(&summed.weights, vector, latency_ns),
            what_if: None,
            warnings: self.target_warnings(target),
        };
        made.processor_wait_ns = made.kinds.iter().map(|k| k.processor_wait_ns).sum();
        let cautions = summed.cautions();
        made.warnings.splice(0..0, cautions);
        made.warnings.extend(
            vector
                .disturbed
                .iter()
                .map(|mark| format!("while it was profiled: {mark}")),
        );
        if let Some(changed) = self.changed.get(index) {
            made.what_if = Some(self.what_if(index, changed, summed, &made.kinds));
        }
        match incomplete {
            None => made,
            Some(_) => TargetPrediction {
                incomplete,
                ..without_totals(made)
            },
        }
    }

    fn caches(&self, target: &Target) -> Caches {
        let Some(view) = self.views.get(target.view) else {
            let none = CacheUse::new(0, 0);
            return Caches {
                page: none,
                name: none,
                attribute: none,
            };
        };
        let pages = view.pages.counts();
        Caches {
            page: CacheUse::new(pages.hits + pages.misses, pages.hits),
            name: CacheUse::new(view.name_hits.accesses, view.name_hits.hits),
            attribute: CacheUse::new(view.attribute_hits.accesses, view.attribute_hits.hits),
        }
    }

    fn what_if(
        &self,
        index: usize,
        changed: &Target,
        before: &Summed,
        kinds_before: &[KindPrediction],
    ) -> Changed {
        let after = Summed::of(changed, self);
        let Totals {
            latency_ns,
            elapsed_ns,
            ..
        } = after.totals;
        let kinds_after = kinds(changed, &after);
        let elapsed_ns = elapsed_after(
            (before.totals.elapsed_ns, kinds_before),
            (elapsed_ns, &kinds_after),
        );
        let kinds = kinds_before
            .iter()
            .map(|k| {
                let there = kinds_after.iter().find(|c| c.kind == k.kind);
                let latency_ns = there.map_or(0.0, |c| c.latency_ns);
                ChangedKind {
                    kind: k.kind.clone(),
                    latency_ns,
                    difference_ns: latency_ns - k.latency_ns,
                }
            })
            .collect();
        let difference_ns = latency_ns - before.totals.latency_ns;
        let elapsed_difference_ns = elapsed_ns - before.totals.elapsed_ns;
        let moved = difference_ns != 0.0 || elapsed_difference_ns != 0.0;
        let applied = self.applied.get(index).map_or(&[][..], Vec::as_slice);
        let weights = [&before.weights, &after.weights];
        let effects = self
            .changes
            .iter()
            .zip(applied)
            .map(|(change, applied)| ChangeEffect {
                change: change.text().to_owned(),
                meaning: applied.meaning.clone(),
                nothing: nothing(applied, moved, changed, weights),
            });
        Changed {
            latency_total_ns: latency_ns,
            latency_interval_ns: after.latency_interval(),
            difference_ns,
            writeback_ns: writeback::overhead(&changed.vector, &self.load(changed)).overhead_ns,
            elapsed_ns,
            elapsed_difference_ns,
            kinds,
            effects: effects.collect(),
        }
    }

    fn warnings(&self) -> Vec<String> {
        let unexplained = self.namespace.unexplained();
        let traced = &self.traced;
        let counted = [
            (
                unexplained.unknown_descriptors,
                "are on descriptors whose file the trace does not tell",
            ),
            (
                unexplained.unreadable_paths,
                "have a path that could not be read",
            ),
            (
                if self.options.generated {
                    0
                } else {
                    traced.without_latency
                },
                "have no latency; the pauses between calls are too long by it",
            ),
        ];
        let counted = counted
            .into_iter()
            .filter(|&(count, _)| count > 0)
            .map(|(count, what)| format!("{count} of {} operations {what}", traced.operations));
        counted
            .chain(self.beside.warning(traced.latency_ns))
            .collect()
    }
}

/// Why a change has no effect, if it has none; `moved` says whether all of them together have one.
fn nothing(
    applied: &Applied,
    moved: bool,
    changed: &Target,
    weights: [&Vec<f64>; 2],
) -> Option<String> {
    if applied.nothing.is_some() {
        return applied.nothing.clone();
    }
    if applied.sizes {
        return (!moved).then(|| "the workload's pages and names fit either way".to_owned());
    }
    let slots = applied.metrics.iter();
    let used = slots
        .filter_map(|&id| changed.vector.slots().slot(id))
        .any(|slot| {
            let weight = |w: &&Vec<f64>| w.get(slot.0 as usize).is_some_and(|&w| w != 0.0);
            weights.iter().any(weight)
        });
    (!used && !moved).then(|| "the workload uses nothing that it changes".to_owned())
}

fn kinds(target: &Target, summed: &Summed) -> Vec<KindPrediction> {
    let total = summed.totals;
    let model = Totals {
        profile: 0.0,
        ..total
    };
    shares::kinds(
        target,
        &summed.replayed,
        total.latency_ns,
        model.latency_half(),
    )
}

/// Parts of a sum that lacks something say nothing of the whole.
fn without_totals(made: TargetPrediction) -> TargetPrediction {
    TargetPrediction {
        latency_total_ns: None,
        latency_interval_ns: None,
        elapsed_ns: None,
        elapsed_interval_ns: None,
        device_ns: 0.0,
        waiting_ns: 0.0,
        processor_wait_ns: 0.0,
        writeback_ns: 0.0,
        writeback_slowdown: 0.0,
        uncertainty: Uncertainty::default(),
        kinds: Vec::new(),
        metrics: Vec::new(),
        families: Vec::new(),
        helps: Vec::new(),
        what_if: None,
        ..made
    }
}
