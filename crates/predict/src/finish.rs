//! From totals to what is said.

use fsage_core::OpKind;

use crate::cost::ledger::dot;
use crate::cost::{Stem, SystemVector};
use crate::elapsed::Replay;
use crate::rank::{Total, rank};
use crate::result::{
    CacheUse, Caches, Changed, ChangedKind, KindPrediction, MetricShare, PREDICTION_FORMAT,
    PREDICTION_VERSION, Prediction, TargetPrediction,
};
use crate::run::{Predictor, Target};
use crate::whatif::Change;
use crate::writeback;

/// Half-width of a 95 % interval in standard errors.
const Z_95: f64 = 1.96;

impl Predictor {
    /// The prediction of everything pushed so far; `changes` fill the second column. May be called
    /// again with other changes.
    pub fn finish(&self, changes: &[Change]) -> Prediction {
        let mut targets = Vec::new();
        let mut totals = Vec::new();
        for target in &self.targets {
            let replayed = target.replayed();
            let (latency_ns, error_ns) = dot(&target.ledger.all_weights(), &target.vector);
            totals.push(Total {
                name: target.vector.name.clone(),
                latency_ns: latency_ns + replayed.waited_total_ns(),
                error_ns,
            });
            targets.push(self.target(target, &replayed, changes));
        }
        let (ranking, pairs) = rank(&totals);
        let traced = &self.traced;
        Prediction {
            format: PREDICTION_FORMAT.to_owned(),
            prediction_version: PREDICTION_VERSION,
            operations: traced.operations,
            operations_charged: traced.charged,
            traced_run_ns: traced.end_ns.saturating_sub(traced.first_ns.unwrap_or(0)),
            traced_latency_ns: traced.latency_ns,
            cache: self.options.policy.name().to_owned(),
            start: self.options.start.name().to_owned(),
            what_if: changes.iter().map(|c| c.text().to_owned()).collect(),
            targets,
            ranking,
            pairs,
            warnings: self.warnings(),
        }
    }

    fn target(&self, target: &Target, replayed: &Replay, changes: &[Change]) -> TargetPrediction {
        let weights = target.ledger.all_weights();
        let (alone, error) = dot(&weights, &target.vector);
        let total = alone + replayed.waited_total_ns();
        let kinds = kinds(target, replayed, total);
        let overhead = writeback::overhead(&target.vector, &self.load(target));
        let what_if = (!changes.is_empty()).then(|| self.changed(target, changes, total, &kinds));
        TargetPrediction {
            name: target.vector.name.clone(),
            latency_total_ns: total,
            latency_interval_ns: interval(total, error),
            device_ns: target.ledger.total().device_ns,
            waiting_ns: replayed.waited_total_ns(),
            elapsed_ns: replayed.elapsed_ns(),
            writeback_ns: overhead.overhead_ns,
            writeback_slowdown: overhead.slowdown,
            utilization: overhead.utilization,
            write_kib_per_s: overhead.kib_per_s,
            kinds,
            caches: self.caches(target),
            metrics: metrics(&weights, &target.vector, total),
            what_if,
            warnings: self.target_warnings(target, changes),
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

    fn changed(
        &self,
        target: &Target,
        changes: &[Change],
        total: f64,
        kinds: &[KindPrediction],
    ) -> Changed {
        let mut vector = target.vector.clone();
        for change in changes {
            change.apply(&mut vector);
        }
        let (alone, error) = dot(&target.ledger.all_weights(), &vector);
        let replayed = target.changed.as_ref().map(|(_, replay)| {
            let mut replay = replay.clone();
            replay.finish();
            replay
        });
        let waited = |kind| replayed.as_ref().map_or(0.0, |r| r.waited_ns(kind));
        let changed = alone + replayed.as_ref().map_or(0.0, Replay::waited_total_ns);
        let mut load = self.load(target);
        load.latency_ns = alone;
        let kinds = kinds
            .iter()
            .filter_map(|k| {
                let kind = OpKind::from_name(&k.kind)?;
                let (alone_ns, _) = dot(target.ledger.weights(kind), &vector);
                let latency_ns = alone_ns + waited(kind);
                let difference_ns = latency_ns - k.latency_ns;
                Some(ChangedKind {
                    kind: k.kind.clone(),
                    latency_ns,
                    difference_ns,
                })
            })
            .collect();
        Changed {
            latency_total_ns: changed,
            latency_interval_ns: interval(changed, error),
            difference_ns: changed - total,
            writeback_ns: writeback::overhead(&vector, &load).overhead_ns,
            elapsed_ns: replayed.as_ref().map(Replay::elapsed_ns),
            kinds,
        }
    }

    fn target_warnings(&self, target: &Target, changes: &[Change]) -> Vec<String> {
        let mut warnings = Vec::new();
        for &stem in Stem::ALL {
            let uses = target.ledger.uses(stem);
            if uses == 0 {
                continue;
            }
            match target.plan.substitute(stem).as_deref() {
                None => {}
                Some("") => warnings.push(format!(
                    "{} was not measured and nothing stands in for it: {uses} uses are missing from \
                     the totals",
                    stem.name()
                )),
                Some(other) => warnings.push(format!(
                    "{} was not measured; {other} stands in for it in {uses} uses",
                    stem.name()
                )),
            }
        }
        self.cache_warnings(target, &mut warnings);
        for change in changes {
            if change.apply(&mut target.vector.clone()) == 0 {
                warnings.push(format!(
                    "'{}' changes nothing: none of its metrics was measured",
                    change.text()
                ));
            }
        }
        warnings
    }

    fn cache_warnings(&self, target: &Target, warnings: &mut Vec<String>) {
        for (name, what) in [("BC", "page"), ("DNLC", "name"), ("MDC", "attribute")] {
            if target.vector.named(name).is_none() {
                warnings.push(format!(
                    "{name} was not measured; the {what} cache has no bound"
                ));
            }
        }
        if target.vector.named("WR0").is_none() {
            warnings.push("WR was not measured; no overhead of streams written behind".to_owned());
        }
        let Some(view) = self.views.get(target.view) else {
            return;
        };
        if let Some(pages) = target
            .at_least_pages
            .filter(|&p| view.pages.len() as u64 > p)
        {
            warnings.push(format!(
                "the page cache was measured to hold at least {} KiB; the workload holds more, and \
                 is taken to fit",
                pages * 4
            ));
        }
        if view.direct_writes > 0 {
            warnings.push(format!(
                "{} direct writes are charged as synchronous ones",
                view.direct_writes
            ));
        }
    }

    fn warnings(&self) -> Vec<String> {
        let puzzles = self.namespace.puzzles();
        let traced = &self.traced;
        let counted = [
            (
                puzzles.unknown_descriptors,
                "are on descriptors whose file the trace does not tell",
            ),
            (
                puzzles.unreadable_paths,
                "have a path that could not be read",
            ),
            (
                traced.without_latency,
                "have no latency; the pauses between calls are too long by it",
            ),
        ];
        counted
            .into_iter()
            .filter(|&(count, _)| count > 0)
            .map(|(count, what)| format!("{count} of {} operations {what}", traced.operations))
            .collect()
    }
}

fn interval(value: f64, error: f64) -> (f64, f64) {
    (
        (value - Z_95 * error).max(0.0).min(value),
        value + Z_95 * error,
    )
}

fn share(part: f64, total: f64) -> f64 {
    if total > 0.0 { part / total } else { 0.0 }
}

fn kinds(target: &Target, replayed: &Replay, total: f64) -> Vec<KindPrediction> {
    OpKind::ALL
        .iter()
        .filter(|&&kind| target.ledger.count(kind) > 0)
        .map(|&kind| {
            let (alone_ns, error) = dot(target.ledger.weights(kind), &target.vector);
            let waiting_ns = replayed.waited_ns(kind);
            let latency_ns = alone_ns + waiting_ns;
            KindPrediction {
                kind: kind.name().to_owned(),
                count: target.ledger.count(kind),
                latency_ns,
                waiting_ns,
                interval_ns: interval(latency_ns, error),
                share: share(latency_ns, total),
            }
        })
        .collect()
}

fn metrics(weights: &[f64], vector: &SystemVector, total: f64) -> Vec<MetricShare> {
    let mut all: Vec<MetricShare> = vector
        .slots()
        .iter()
        .zip(weights)
        .filter(|&(_, &weight)| weight != 0.0)
        .map(|((slot, id), &weight)| {
            let time_ns = weight * vector.unit_cost_ns(slot);
            MetricShare {
                name: id.to_string(),
                weight,
                time_ns,
                share: share(time_ns, total),
            }
        })
        .collect();
    all.sort_by(|a, b| b.time_ns.abs().total_cmp(&a.time_ns.abs()));
    all
}
