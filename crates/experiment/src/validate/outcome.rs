//! From what was measured to what is said: predictions of every workload, pairs, judgement.

use std::collections::BTreeMap;

use fsage_core::{Op, OpKind, PathTable, SinkError};
use fsage_format::profile::SystemProfile;
use fsage_format::result::prediction::TargetPrediction;
use fsage_format::result::validation::{
    Distribution, NamedSpec, Pair, PairKind, VALIDATION_FORMAT, VALIDATION_VERSION, Validation,
};
use fsage_format::trace::TraceReader;
use fsage_predict::{Annotation, AnnotationSink, Options};

use super::ValidateError;
use super::judge::{judge, measured};
use super::measure::is_charged;
use super::plan::ValidatePlan;
use super::run::{Measurements, kept};
use super::step::MeasuredRun;
use crate::predicting::{Request, predict};

/// Judges everything that was measured. `profiles` are in the order of the plan's targets.
pub(super) fn outcome(
    plan: &ValidatePlan,
    profiles: &[SystemProfile],
    mut measurements: Measurements,
) -> Result<Validation, ValidateError> {
    let mut pairs = Vec::new();
    for workload in 0..plan.workloads.len() {
        let kept = kept(plan, plan.trace_on, workload);
        let mut reader = TraceReader::open(&kept.trace)?;
        let mut distributions = Distributions::new(profiles.len());
        let request = Request {
            options: Options::default(),
            profiles,
            snapshot: Some(&kept.snapshot),
            changes: &[],
        };
        let prediction = predict(&mut reader, &request, Some(&mut distributions))?;
        for warning in &prediction.warnings {
            measurements
                .notes
                .push(format!("{}: {warning}", plan.workloads[workload]));
        }
        for (target, predicted) in prediction.targets.iter().enumerate() {
            let runs = measurements
                .runs
                .remove(&(workload, target))
                .unwrap_or_default();
            let names = (
                plan.workloads[workload].to_string(),
                plan.targets[target].to_string(),
            );
            pairs.push(pair(names, &runs, predicted, distributions.of(target)));
        }
    }
    let judged = judge(&pairs);
    measurements.notes.sort();
    measurements.notes.dedup();
    Ok(Validation {
        format: VALIDATION_FORMAT.into(),
        validation_version: VALIDATION_VERSION,
        fsage_version: env!("CARGO_PKG_VERSION").into(),
        started_unix_ns: 0,
        elapsed_ns: 0,
        seed: plan.seed,
        runs: plan.runs,
        trace_on: plan.targets[plan.trace_on].to_string(),
        cpu: plan.cpu,
        interrupted: false,
        pairs,
        by_target: judged.by_target,
        by_workload: judged.by_workload,
        average_error: judged.average_error,
        median_error: judged.median_error,
        rms_error: judged.rms_error,
        correlation: judged.correlation,
        ranks_right: judged.ranks_right,
        ranks_total: judged.ranks_total,
        ranks_wrong: judged.ranks_wrong,
        workloads: plan
            .workloads
            .iter()
            .map(|w| NamedSpec {
                name: w.name.clone(),
                spec: w.spec.to_string(),
            })
            .collect(),
        notes: measurements.notes,
    })
}

fn pair(
    (workload, target): (String, String),
    runs: &[MeasuredRun],
    predicted: &TargetPrediction,
    distributions: Option<&BTreeMap<&'static str, Distribution>>,
) -> Pair {
    let totals: Vec<u64> = runs.iter().map(|r| r.measured.total_ns()).collect();
    let (measured_ns, measured_interval_ns, measured_variation) = measured(&totals);
    let count = runs.len().max(1) as f64;
    Pair {
        workload,
        target,
        measured_ns,
        measured_runs_ns: totals,
        measured_interval_ns,
        measured_variation,
        predicted_ns: predicted.latency_total_ns,
        predicted_interval_ns: predicted.latency_interval_ns,
        error: if measured_ns > 0.0 {
            (predicted.latency_total_ns - measured_ns) / measured_ns
        } else {
            0.0
        },
        measured_elapsed_ns: runs.iter().map(|r| r.elapsed_ns as f64).sum::<f64>() / count,
        predicted_elapsed_ns: predicted.elapsed_ns,
        predicted_writeback_ns: predicted.writeback_ns,
        kinds: kinds(runs, predicted, distributions),
        warnings: predicted.warnings.clone(),
    }
}

fn kinds(
    runs: &[MeasuredRun],
    predicted: &TargetPrediction,
    distributions: Option<&BTreeMap<&'static str, Distribution>>,
) -> Vec<PairKind> {
    let count = runs.len().max(1) as f64;
    OpKind::ALL
        .iter()
        .filter(|kind| is_charged(**kind))
        .filter_map(|kind| {
            let name = kind.name();
            let there = predicted.kinds.iter().find(|k| k.kind == name);
            let of_runs: Vec<_> = runs
                .iter()
                .filter_map(|r| r.measured.kinds.get(name))
                .collect();
            if there.is_none() && of_runs.is_empty() {
                return None;
            }
            let mut measured_distribution = Distribution::default();
            for total in &of_runs {
                measured_distribution.merge(&total.distribution);
            }
            Some(PairKind {
                kind: name.to_string(),
                count: there.map_or(0, |k| k.count),
                measured_count: of_runs.iter().map(|t| t.count as f64).sum::<f64>() / count,
                measured_ns: of_runs.iter().map(|t| t.latency_ns as f64).sum::<f64>() / count,
                predicted_ns: there.map_or(0.0, |k| k.latency_ns),
                measured_distribution,
                predicted_distribution: distributions
                    .and_then(|d| d.get(name).cloned())
                    .unwrap_or_default(),
            })
        })
        .collect()
}

/// Predicted latencies by system and kind.
struct Distributions(Vec<BTreeMap<&'static str, Distribution>>);

impl Distributions {
    fn new(targets: usize) -> Self {
        Self(vec![BTreeMap::new(); targets])
    }

    fn of(&self, target: usize) -> Option<&BTreeMap<&'static str, Distribution>> {
        self.0.get(target)
    }
}

impl AnnotationSink for Distributions {
    fn annotate(
        &mut self,
        target: usize,
        op: &Op,
        _paths: &PathTable,
        annotation: &Annotation<'_>,
    ) -> Result<(), SinkError> {
        if let (true, Some(kinds)) = (annotation.charged, self.0.get_mut(target)) {
            kinds
                .entry(op.kind.name())
                .or_default()
                .add(annotation.predicted_latency_ns.max(0.0) as u64);
        }
        Ok(())
    }
}
