//! From what was measured to what is said: predictions of every workload, pairs, judgement.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fsage_core::{Op, OpKind, PathTable, SinkError};
use fsage_format::profile::SystemProfile;
use fsage_format::result::prediction::{Prediction, TargetPrediction};
use fsage_format::result::validation::{
    Distribution, EqualSpeed, NamedSpec, NamedTarget, NotPredicted, Pair, PairKind,
    VALIDATION_FORMAT, VALIDATION_VERSION, Validation,
};
use fsage_format::trace::TraceReader;
use fsage_predict::{Annotation, AnnotationSink, Options, Start};

use super::ValidateError;
use super::judge::{judge_both, measured};
use super::kept::{Measurements, trace_files};
use super::plan::ValidatePlan;
use super::run::notes;
use super::step::MeasuredRun;
use crate::bench::marks::OTHERS_SHARE;
use crate::plan::CacheState;
use crate::predicting::{Request, TracedOn, learn, predict, predict_at};

/// A profile of which more than one metric in so many is marked was disturbed.
const MARKED_ONE_IN: usize = 20;

/// Judges everything that was measured. `profiles` are in the order of the plan's targets.
pub(super) fn outcome(
    plan: &ValidatePlan,
    profiles: &[Option<SystemProfile>],
    mut found: Measurements,
) -> Result<Validation, ValidateError> {
    let (mut pairs, mut at_equal_speed) = (Vec::new(), Vec::new());
    for workload in 0..plan.workloads.len() {
        let mut of_workload = BTreeMap::new();
        let sources: BTreeSet<usize> = (0..plan.targets.len()).map(|t| plan.traced_on(t)).collect();
        for source in sources {
            of_workload.extend(from_one_trace(
                plan, profiles, &mut found, workload, source,
            )?);
        }
        for (raw, equal) in of_workload.into_values() {
            pairs.push(raw);
            at_equal_speed.extend(equal);
        }
    }
    let all: u32 = plan.firsts().map(|first| plan.wanted(first)).sum();
    if found.ended.len() < all as usize {
        let lacks = all as usize - found.ended.len();
        found.notes.push(format!(
            "{lacks} of {all} profiles and runs of the plan are not measured yet"
        ));
    }
    let target = |index: usize| plan.targets[index].to_string();
    Ok(Validation {
        format: VALIDATION_FORMAT.into(),
        validation_version: VALIDATION_VERSION,
        fsage_version: env!("CARGO_PKG_VERSION").into(),
        started_unix_ns: 0,
        elapsed_ns: 0,
        seed: plan.seed,
        runs: plan.runs,
        trace_on: target(plan.trace_on),
        cpu: plan.cpu,
        cache: plan.cache.name().into(),
        plan: plan.digest(),
        half: plan.half.clone(),
        interrupted: false,
        workloads: plan.workloads.iter().map(named).collect(),
        targets: (0..plan.targets.len())
            .map(|index| NamedTarget {
                name: target(index),
                spec: plan.targets[index].spec.to_string(),
                group: plan.targets[index].group.clone(),
                trace_on: target(plan.traced_on(index)),
                virtual_time: plan.is_virtual(index),
            })
            .collect(),
        judgement: judge_both(&pairs, &at_equal_speed),
        pairs,
        not_predicted: std::mem::take(&mut found.not_predicted),
        disturbed: disturbed(plan, profiles, &found),
        notes: notes(&found),
        failed: found.failed,
    })
}

/// What was measured beside other things.
fn disturbed(
    plan: &ValidatePlan,
    profiles: &[Option<SystemProfile>],
    found: &Measurements,
) -> Vec<String> {
    let mut said = Vec::new();
    for (target, profile) in plan.targets.iter().zip(profiles) {
        // Nothing disturbs a time that is computed.
        let measured = |p: &&SystemProfile| p.environment.machine.kernel.release.is_some();
        let Some(profile) = profile.as_ref().filter(measured) else {
            continue;
        };
        let all = profile.metrics.len();
        let marked = profile
            .metrics
            .iter()
            .filter(|m| !m.marks.is_empty())
            .count();
        if marked * MARKED_ONE_IN > all {
            said.push(format!(
                "the profile of {target}: {marked} of {all} metrics are marked"
            ));
        }
    }
    let shares = found.runs.values().filter_map(|run| run.others_share);
    let busy: Vec<f64> = shares.filter(|&share| share > OTHERS_SHARE).collect();
    if !busy.is_empty() {
        let most = busy.iter().copied().fold(0.0, f64::max);
        said.push(format!(
            "{} of {} runs: other processes used up to {most:.1} processors",
            busy.len(),
            found.runs.len()
        ));
    }
    said
}

fn named(workload: &crate::plan::NamedWorkload) -> NamedSpec {
    NamedSpec {
        name: workload.name.clone(),
        spec: workload.spec.to_string(),
        setup: workload.setup.clone(),
    }
}

/// The pairs, by target, of all targets that are predicted from the trace on `source`: each raw, and as it is at the
/// speed that the machine had in the runs.
fn from_one_trace(
    plan: &ValidatePlan,
    profiles: &[Option<SystemProfile>],
    found: &mut Measurements,
    workload: usize,
    source: usize,
) -> Result<BTreeMap<usize, (Pair, Option<Pair>)>, ValidateError> {
    let mut pairs = BTreeMap::new();
    let name = &plan.workloads[workload];
    let there = profiles.get(source).and_then(Option::as_ref);
    let (targets, profiles): (Vec<usize>, Vec<SystemProfile>) = profiles
        .iter()
        .enumerate()
        .filter(|(target, _)| plan.traced_on(*target) == source)
        .filter(|(target, _)| !found.of(workload, *target).is_empty())
        .filter_map(|(target, profile)| Some((target, profile.clone()?)))
        .unzip();
    if targets.is_empty() {
        return Ok(pairs);
    }
    if found.of(workload, source).is_empty() {
        found.notes.push(format!(
            "{name}: nothing is predicted where the trace on {} is needed: no run of it there ended \
             well",
            plan.targets[source]
        ));
        return Ok(pairs);
    }
    let made = predictions(
        plan,
        found,
        (workload, source),
        (&targets, &profiles),
        there,
    )?;
    for warning in &made.raw.warnings {
        found.notes.push(format!("{name}: {warning}"));
    }
    for (index, (&target, predicted)) in targets.iter().zip(&made.raw.targets).enumerate() {
        let runs = found.of(workload, target);
        let traced = traced_runs(&runs, target == source);
        if let Some(lacks) = &predicted.incomplete {
            let alone = measured_alone(plan, (workload, target), &runs, &lacks.reason);
            found.not_predicted.push(alone);
            continue;
        }
        let of = |predicted, corrected: Option<&TargetPrediction>| {
            let distributions = made.distributions.of(index);
            let ranked = corrected.filter(|_| target == source);
            let of = (workload, target);
            Pair {
                ranked_ns: ranked.map(predicted_ns),
                ..pair(plan, of, (&runs, traced), predicted, distributions)
            }
        };
        let speed = made.speeds.get(index).copied();
        let profiled_ns = profiles.get(index).and_then(|p| p.measurement.reference_ns);
        let judged = both(
            of(predicted, made.raw.targets.get(targets.len())),
            (made.equal.get(index)).map(|equal| of(equal, made.equal.get(targets.len()))),
            speed.zip(profiled_ns),
        );
        pairs.insert(target, judged);
    }
    Ok(pairs)
}

/// How many runs judge no prediction from the trace of the first: where there are others on the system that it `is_of`,
/// that one.
fn traced_runs(runs: &[&MeasuredRun], is_of: bool) -> usize {
    usize::from(is_of && runs.len() > 1)
}

/// What is predicted from one trace.
struct Predictions {
    /// As the machine was when it was profiled.
    raw: Prediction,
    /// At the speed that it had in the runs, where that is known: `speeds` for each target.
    equal: Vec<TargetPrediction>,
    speeds: Vec<u64>,
    distributions: Distributions,
}

fn predictions(
    plan: &ValidatePlan,
    found: &Measurements,
    (workload, source): (usize, usize),
    (targets, profiles): (&[usize], &[SystemProfile]),
    there: Option<&SystemProfile>,
) -> Result<Predictions, ValidateError> {
    let kept = trace_files(plan, source, workload);
    let mut request = Request {
        options: Options {
            start: start(plan),
            ..Options::default()
        },
        profiles,
        one_speed: false,
        snapshot: Some(&kept.snapshot),
        changes: &[],
        traced_on: None,
        is_traced: true,
    };
    // A prediction that was corrected by a run says nothing when it is judged by that run, and there is no other.
    let alone = found.of(workload, source).len() == 1;
    let but = targets.iter().position(|&target| target == source);
    let but = but.filter(|_| alone);
    let traced_on = in_context(&kept.trace, &request, there, but)?;
    request.traced_on = traced_on.as_ref();
    // Its order among the others is that of predictions which are corrected alike.
    let again = but.filter(|_| traced_on.is_some());
    let profiles: Vec<SystemProfile> = profiles.iter().chain(again.and(there)).cloned().collect();
    request.profiles = &profiles;
    let mut distributions = Distributions::new(profiles.len());
    let mut reader = TraceReader::open(&kept.trace)?;
    let raw = predict(&mut reader, &request, Some(&mut distributions))?;
    let mut speeds = speeds(found, (workload, source), targets).unwrap_or_default();
    speeds.extend(again.and_then(|index| speeds.get(index).copied()));
    let equal = if speeds.is_empty() {
        Vec::new()
    } else {
        let mut reader = TraceReader::open(&kept.trace)?;
        predict_at(&mut reader, &request, &speeds)?.targets
    };
    Ok(Predictions {
        raw,
        equal,
        speeds,
        distributions,
    })
}

/// What the trace tells of the costs of the others, where the system that it was made on is profiled.
fn in_context<'a>(
    trace: &Path,
    request: &Request<'_>,
    there: Option<&'a SystemProfile>,
    but: Option<usize>,
) -> Result<Option<TracedOn<'a>>, ValidateError> {
    let Some(profile) = there else {
        return Ok(None);
    };
    let context = learn(trace, request, profile)?;
    Ok(context.map(|context| TracedOn {
        profile,
        context,
        but,
    }))
}

/// The pair raw, with what it is at equal speed, and at equal speed; `speeds_ns` are those of the runs and of the
/// profile.
fn both(mut raw: Pair, equal: Option<Pair>, speeds_ns: Option<(u64, u64)>) -> (Pair, Option<Pair>) {
    let Some((equal, (reference_ns, profile_reference_ns))) = equal.zip(speeds_ns) else {
        return (raw, None);
    };
    raw.equal_speed = Some(EqualSpeed {
        reference_ns,
        profile_reference_ns,
        predicted_ns: equal.predicted_ns,
        error: equal.error,
        predicted_elapsed_ns: equal.predicted_elapsed_ns,
        elapsed_error: equal.elapsed_error,
    });
    (raw, Some(equal))
}

fn start(plan: &ValidatePlan) -> Start {
    match plan.cache {
        CacheState::Cold => Start::Cold,
        CacheState::Warm => Start::Warm,
    }
}

/// What the machine's reference work took in the runs on each target, nanoseconds; `None` where any is unknown.
fn speeds(
    found: &Measurements,
    (workload, source): (usize, usize),
    targets: &[usize],
) -> Option<Vec<u64>> {
    let of = |&target: &usize| {
        let runs = found.of(workload, target);
        let judged = runs.iter().skip(traced_runs(&runs, target == source));
        let speeds: Option<Vec<u64>> = judged.map(|run| run.reference_ns).collect();
        let speeds = speeds.filter(|s| !s.is_empty())?;
        Some(speeds.iter().sum::<u64>() / speeds.len() as u64)
    };
    targets.iter().map(of).collect()
}

/// What was measured where nothing is predicted.
fn measured_alone(
    plan: &ValidatePlan,
    (workload, target): (usize, usize),
    runs: &[&MeasuredRun],
    lacks: &str,
) -> NotPredicted {
    let measured_runs_ns: Vec<u64> = runs.iter().map(|r| r.measured.total_ns()).collect();
    let (measured_ns, _, measured_variation) = measured(&measured_runs_ns);
    NotPredicted {
        workload: plan.workloads[workload].to_string(),
        target: plan.targets[target].to_string(),
        measured_ns,
        measured_runs_ns,
        measured_variation,
        measured_elapsed_ns: mean_elapsed_ns(runs),
        reason: lacks.to_owned(),
    }
}

fn mean_elapsed_ns(runs: &[&MeasuredRun]) -> f64 {
    let sum: f64 = runs.iter().map(|r| r.elapsed_ns as f64).sum();
    sum / runs.len().max(1) as f64
}

/// A tracer sees calls from their start to their end, whatever they waited for.
fn predicted_ns(predicted: &TargetPrediction) -> f64 {
    predicted.latency_total_ns.unwrap_or_default() + predicted.processor_wait_ns
}

fn pair(
    plan: &ValidatePlan,
    (workload, target): (usize, usize),
    (runs, traced): (&[&MeasuredRun], usize),
    predicted: &TargetPrediction,
    distributions: Option<&BTreeMap<&'static str, Distribution>>,
) -> Pair {
    let totals: Vec<u64> = runs.iter().map(|r| r.measured.total_ns()).collect();
    let (runs, judged) = (runs.split_at(traced).1, totals.split_at(traced).1);
    let (measured_ns, measured_interval_ns, measured_variation) = measured(judged);
    let elapsed_ns = mean_elapsed_ns(runs);
    let error = |predicted: f64, measured: f64| (predicted - measured) / measured;
    let predicted_ns = predicted_ns(predicted);
    let predicted_elapsed_ns = predicted.elapsed_ns.unwrap_or_default();
    let half = predicted.uncertainty.log_half_width.exp();
    Pair {
        workload: plan.workloads[workload].to_string(),
        target: plan.targets[target].to_string(),
        group: plan.targets[target].group.clone(),
        trace_on: plan.targets[plan.traced_on(target)].to_string(),
        measured_ns,
        measured_runs_ns: totals,
        traced_runs: traced as u64,
        measured_interval_ns,
        measured_variation,
        predicted_ns,
        predicted_interval_ns: Some((predicted_ns / half, predicted_ns * half))
            .filter(|&(low, high)| fsage_stats::usable(low, high)),
        error: if measured_ns > 0.0 {
            error(predicted_ns, measured_ns)
        } else {
            0.0
        },
        measured_elapsed_ns: elapsed_ns,
        predicted_elapsed_ns,
        elapsed_error: (elapsed_ns > 0.0 && predicted_elapsed_ns > 0.0)
            .then(|| error(predicted_elapsed_ns, elapsed_ns)),
        equal_speed: None,
        ranked_ns: None,
        predicted_writeback_ns: predicted.writeback_ns,
        kinds: kinds(runs, predicted, distributions),
        warnings: predicted.warnings.clone(),
    }
}

fn kinds(
    runs: &[&MeasuredRun],
    predicted: &TargetPrediction,
    distributions: Option<&BTreeMap<&'static str, Distribution>>,
) -> Vec<PairKind> {
    let count = runs.len().max(1) as f64;
    let there = |kind: OpKind| predicted.kinds.iter().find(|k| k.kind == kind.name());
    let of_runs = |kind: OpKind| {
        let kinds = runs.iter().map(|run| &run.measured.kinds);
        kinds.filter_map(move |kinds| kinds.get(kind.name()))
    };
    let predicted_ns = |kind| there(kind).map_or(0.0, |k| k.latency_ns + k.processor_wait_ns);
    let measured_ns = |kind| of_runs(kind).map(|t| t.latency_ns as f64).sum::<f64>() / count;
    // A copy is told with the side that reads, as far as that is in the trace.
    let told_there = measured_ns(OpKind::CopyIn) > 0.0 && measured_ns(OpKind::CopyOut) == 0.0;
    OpKind::ALL
        .iter()
        .filter_map(|&kind| {
            let name = kind.name();
            if there(kind).is_none() && of_runs(kind).next().is_none() {
                return None;
            }
            let mut measured_distribution = Distribution::default();
            for total in of_runs(kind) {
                measured_distribution.merge(&total.distribution);
            }
            Some(PairKind {
                kind: name.to_string(),
                count: there(kind).map_or(0, |k| k.count),
                measured_count: of_runs(kind).map(|t| t.count as f64).sum::<f64>() / count,
                measured_ns: measured_ns(kind),
                predicted_ns: match kind {
                    OpKind::CopyIn if told_there => {
                        predicted_ns(OpKind::CopyIn) + predicted_ns(OpKind::CopyOut)
                    }
                    OpKind::CopyOut if told_there => 0.0,
                    kind => predicted_ns(kind),
                },
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
