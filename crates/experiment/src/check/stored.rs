//! From each kind of result to [`Evidence`].

use fsage_format::profile::SystemProfile;
use fsage_format::result::experiment::{BenchRun, Configuration, EXPERIMENT_FORMAT, Experiment};
use fsage_format::result::run::{RUN_FORMAT, WorkloadRun};
use fsage_format::result::validation::{Pair, VALIDATION_FORMAT, Validation};
use fsage_stats::{drift, mean, outliers, shapiro_wilk, summary};
use fsage_workload::WorkloadSpec;

use super::evidence::{Cell, Evidence, Measured, TargetEvidence, WorkloadEvidence};

/// Workloads that exercise few operations, one after the other (Traeger 2007, section 9).
const MICRO: [&str; 7] = [
    "bonnie",
    "lfs-large",
    "lfs-small",
    "readers",
    "seqio",
    "small-read",
    "stride",
];

/// Samples pass for normal, a trend for none, above this probability.
const SIGNIFICANCE: f64 = 0.05;

pub(super) fn experiment(e: &Experiment) -> Evidence {
    let mut evidence = Evidence {
        kind: EXPERIMENT_FORMAT,
        plan: Some(e.plan.clone()).filter(|p| !p.trim().is_empty()),
        seed: Some(e.seed),
        machine: e.machine.clone(),
        interleaved: e.configurations.len() > 1,
        failed: e
            .failed
            .iter()
            .map(|f| format!("run {} of {}: {}", f.run, f.configuration, f.error))
            .collect(),
        drifting: e
            .drift
            .iter()
            .filter(|d| d.trend.is_some_and(|t| t.drifts))
            .map(|d| d.metric.clone())
            .collect(),
        interrupted: e.interrupted,
        ..Evidence::default()
    };
    for c in &e.configurations {
        if !evidence.targets.iter().any(|t| t.name == c.target) {
            evidence.targets.push(TargetEvidence {
                name: c.target.clone(),
                spec: c.target_spec.clone(),
                record: c.target_record.clone(),
            });
        }
        let streams = c
            .runs
            .iter()
            .flat_map(|r| &r.phases)
            .map(|p| p.result.streams.len());
        add_workload(&mut evidence, &c.workload, &c.workload_spec, streams.max());
        evidence.cells.push(cell(c));
    }
    evidence
}

fn add_workload(evidence: &mut Evidence, name: &str, spec: &str, streams: Option<usize>) {
    if let Some(known) = evidence
        .workloads
        .iter_mut()
        .find(|w| w.name == name && w.spec == spec)
    {
        known.streams = known.streams.max(streams);
        return;
    }
    let parsed = spec.parse::<WorkloadSpec>().ok();
    evidence.workloads.push(WorkloadEvidence {
        name: name.to_owned(),
        spec: spec.to_owned(),
        command: parsed.as_ref().is_some_and(|s| s.command().is_some()),
        micro: parsed
            .as_ref()
            .is_some_and(|s| MICRO.contains(&s.short_name())),
        streams,
    });
}

fn cell(c: &Configuration) -> Cell {
    let of_runs = |value: fn(&BenchRun) -> f64| {
        let all: Vec<f64> = c.runs.iter().map(value).collect();
        (!all.is_empty()).then(|| mean(&all))
    };
    let shown: Vec<bool> = c.runs.iter().filter_map(|r| r.cold_verified).collect();
    let mut marks: Vec<String> = c.runs.iter().flat_map(|r| r.marks.clone()).collect();
    marks.sort();
    marks.dedup();
    Cell {
        name: c.name.clone(),
        workload: c.workload.clone(),
        target: c.target.clone(),
        cache: Some(c.cache.clone()),
        cold: (c.cache == "cold").then(|| (shown.iter().filter(|v| **v).count(), c.runs.len())),
        fresh: Some(c.state != "as found"),
        runs: c.runs.len(),
        elapsed_ns: of_runs(|r| r.elapsed_ns as f64),
        metrics: c
            .metrics
            .iter()
            .filter(|m| m.required)
            .map(|m| Measured {
                name: m.metric.clone(),
                n: usize::try_from(m.n).unwrap_or(usize::MAX),
                half_width_relative: m.half_width_relative(),
                normal: m.normal.map(|n| n.normal),
                outliers: m.outliers.len(),
                drifts: m.trend.map(|t| t.drifts),
            })
            .collect(),
        cpu_share: of_runs(|r| r.cpu_share),
        by_kind: c.runs.iter().any(|r| !r.phases.is_empty()),
        by_mode: !c.runs.is_empty(),
        steady: steady(&c.runs),
        raw: c.runs.iter().any(|r| !r.metrics.is_empty()),
        marked: c.runs.iter().filter(|r| !r.marks.is_empty()).count(),
        marks,
        stop: Some(c.stop_text.clone()).filter(|t| !t.is_empty()),
    }
}

/// Runs that were steady for more than half of their time, and those whose phases tell.
fn steady(runs: &[BenchRun]) -> Option<(usize, usize)> {
    let mut reported = 0;
    let mut mostly = 0;
    for run in runs {
        let known = run
            .phases
            .iter()
            .filter_map(|p| Some((p.steady?, p.result.elapsed_ns)));
        let (mut all_ns, mut steady_ns) = (0.0, 0.0);
        for (part, elapsed_ns) in known {
            all_ns += elapsed_ns as f64;
            if part.steady {
                steady_ns += elapsed_ns.saturating_sub(part.warm_up_ns) as f64;
            }
        }
        if all_ns > 0.0 {
            reported += 1;
            mostly += usize::from(steady_ns > all_ns / 2.0);
        }
    }
    (reported > 0).then_some((mostly, reported))
}

pub(super) fn run(r: &WorkloadRun) -> Evidence {
    let measured: Vec<_> = r.phases.iter().filter(|p| p.role == "run").collect();
    let elapsed_ns: u64 = measured.iter().map(|p| p.elapsed_ns).sum();
    let cpu_ns: u64 = measured.iter().map(|p| p.cpu_ns).sum();
    let share = |cpu: u64, elapsed: u64| (elapsed > 0).then(|| cpu as f64 / elapsed as f64);
    let (elapsed_ns, cpu_share) = match &r.command {
        Some(c) => (c.elapsed_ns, share(c.user_ns + c.system_ns, c.elapsed_ns)),
        None => (elapsed_ns, share(cpu_ns, elapsed_ns)),
    };
    let cold: Vec<&str> = measured.iter().filter_map(|p| p.cold.as_deref()).collect();
    let name = r
        .workload
        .split([':', ','])
        .next()
        .unwrap_or_default()
        .to_owned();
    let mut evidence = Evidence {
        kind: RUN_FORMAT,
        seed: r.seed,
        machine: Some(r.environment.machine.clone()),
        targets: vec![TargetEvidence {
            name: r.target.clone(),
            spec: r.target.clone(),
            record: Some(r.environment.target.clone()),
        }],
        failed: r
            .failed
            .iter()
            .map(|f| format!("{} {}", f.kind, f.actual))
            .collect(),
        interrupted: r.interrupted,
        ..Evidence::default()
    };
    let streams = measured.iter().map(|p| p.streams.len()).max();
    add_workload(&mut evidence, &name, &r.workload, streams);
    evidence.cells.push(Cell {
        name: format!("{name} on {}", r.target),
        workload: name,
        target: r.target.clone(),
        cache: (!cold.is_empty()).then(|| format!("cold by {}", cold.join(", "))),
        fresh: Some(r.environment.target.scratch),
        runs: 1,
        elapsed_ns: Some(elapsed_ns as f64),
        metrics: vec![Measured {
            name: "elapsed".to_owned(),
            n: 1,
            ..Measured::default()
        }],
        cpu_share,
        by_kind: measured.iter().any(|p| !p.kinds.is_empty()),
        by_mode: r.command.is_some(),
        raw: true,
        ..Cell::default()
    });
    evidence
}

pub(super) fn validation(v: &Validation, profiles: &[SystemProfile]) -> Evidence {
    let spec_of = |name: &str| {
        let named = v.targets.iter().find(|t| t.name == name);
        named.map_or_else(|| name.to_owned(), |t| t.spec.clone())
    };
    let mut evidence = Evidence {
        kind: VALIDATION_FORMAT,
        seed: Some(v.seed),
        machine: profiles.first().map(|p| p.environment.machine.clone()),
        interleaved: v.pairs.len() > 1,
        failed: v.failed.iter().map(|f| f.error.clone()).collect(),
        interrupted: v.interrupted,
        ..Evidence::default()
    };
    for pair in &v.pairs {
        if !evidence.targets.iter().any(|t| t.name == pair.target) {
            let spec = spec_of(&pair.target);
            let profile = profiles.iter().find(|p| {
                let target = &p.environment.target.target;
                p.name == pair.target || [&pair.target, &spec].contains(&target)
            });
            evidence.targets.push(TargetEvidence {
                name: pair.target.clone(),
                record: profile.map(|p| p.environment.target.clone()),
                spec,
            });
        }
        let named = v.workloads.iter().find(|w| w.name == pair.workload);
        let spec = named.map_or(pair.workload.as_str(), |w| w.spec.as_str());
        add_workload(&mut evidence, &pair.workload, spec, None);
        let target = evidence.targets.iter().find(|t| t.name == pair.target);
        let fresh = target.map(TargetEvidence::was_temporary);
        evidence.cells.push(pair_cell(v, pair, fresh));
    }
    evidence
}

fn pair_cell(v: &Validation, pair: &Pair, fresh: Option<bool>) -> Cell {
    let samples: Vec<f64> = pair.measured_runs_ns.iter().map(|n| *n as f64).collect();
    Cell {
        name: format!("{} on {}", pair.workload, pair.target),
        workload: pair.workload.clone(),
        target: pair.target.clone(),
        cache: Some(v.cache.clone()).filter(|c| !c.is_empty()),
        fresh,
        runs: samples.len(),
        elapsed_ns: Some(pair.measured_elapsed_ns),
        metrics: vec![Measured {
            name: "total latency".to_owned(),
            n: samples.len(),
            half_width_relative: summary(&samples).half_width_relative(),
            normal: shapiro_wilk(&samples).map(|n| n.p >= SIGNIFICANCE),
            outliers: outliers(&samples).len(),
            drifts: drift(&samples).map(|d| d.p < SIGNIFICANCE),
        }],
        by_kind: !pair.kinds.is_empty(),
        raw: !samples.is_empty(),
        ..Cell::default()
    }
}
