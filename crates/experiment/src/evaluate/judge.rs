//! What is said of an evaluation.
//!
//! How far a model may be off follows the goals of docs/model-files.md; where time is computed there is no noise, and
//! half of each is allowed.

use std::collections::{BTreeMap, BTreeSet};

use fsage_exec::replay::Pace;
use fsage_format::result::evaluation::{
    ActDistance, EvaluatedFigure, EvaluatedRanking, EvaluatedTarget, Evaluation, FailedSide,
    SideFigure, WorstFigure,
};
use fsage_model::figures::{ActFigures, Figures};
use fsage_stats::histogram::{FineHistogram, ks_distance, rms_distance};
use fsage_stats::normal::upper_tail;
use fsage_stats::{Interval, mean, positive_mean_interval, positive_ratio, stddev, welch};

use super::plan::{EvaluatePlan, Side};
use super::run::Runs;
use super::step::SideRun;

/// What operations do whose latency is judged, as the dissertation's tables have them.
const JUDGED: [&str; 6] = ["create", "write", "read", "delete", "stat", "fsync"];
/// Fewer operations of a kind than this say nothing of its latency, and as many may be missing.
const FEW: f64 = 5.0;
const FEW_LATENCIES: f64 = 30.0;

/// What the names of figures begin with that tell how many operations of a kind failed.
const FAILED: &str = "failed:";

/// How far a model may be off.
struct Limits {
    counts: f64,
    bytes: f64,
    cached: f64,
    throughput: f64,
    latency: f64,
}

impl Limits {
    fn of(strict: bool, is_virtual: bool) -> Self {
        let (all, scale) = (
            if strict {
                [0.0, 0.01, 0.01, 0.05, 0.1]
            } else {
                [0.02, 0.02, 0.02, 0.1, 0.15]
            },
            if is_virtual { 0.5 } else { 1.0 },
        );
        let [counts, bytes, cached, throughput, latency] = all.map(|limit| limit * scale);
        Self {
            counts,
            bytes,
            cached,
            throughput,
            latency,
        }
    }
}

/// The result of what was kept.
pub(super) fn judge(plan: &EvaluatePlan, runs: &Runs, failed: Vec<FailedSide>) -> Evaluation {
    let mut targets = Vec::new();
    let mut warnings = Vec::new();
    for (at, target) in plan.targets.iter().enumerate() {
        let none = Vec::new();
        let of = |side| runs.get(&(at, side)).unwrap_or(&none);
        let (original, model) = (of(Side::Original), of(Side::Model));
        if original.is_empty() || model.is_empty() {
            continue;
        }
        let limits = Limits::of(plan.strict, plan.is_virtual(at));
        targets.push(EvaluatedTarget {
            name: target.name.clone(),
            spec: target.spec.to_string(),
            made_cold: original.first().and_then(|run| run.made_cold.clone()),
            figures: figures(&limits, original, model),
            distances: distances(original, model),
            progress_rms_distance: progress(original, model),
        });
        let differ = original.iter().map(|run| run.differ).max().unwrap_or(0);
        if differ > 0 {
            warnings.push(format!(
                "{target}: {differ} results of the replay differ from the trace's"
            ));
        }
    }
    warnings.extend(targets.iter().flat_map(|target| {
        let off = |f: &&EvaluatedFigure| f.within == Some(false);
        let failed = target.figures.iter().filter(off);
        failed.filter_map(|figure| ended_otherwise(&target.name, figure))
    }));
    let judged = targets
        .iter()
        .flat_map(|t| t.figures.iter().map(move |f| (t, f)));
    let judged: Vec<_> = judged.filter(|(_, f)| f.within.is_some()).collect();
    let missed = judged
        .iter()
        .filter(|(_, f)| f.within == Some(false))
        .count();
    let worst = judged.iter().max_by(|a, b| {
        // A count may be off by a few whatever share of it they are.
        let missed = |f: &EvaluatedFigure| f.within == Some(false);
        (missed(a.1).cmp(&missed(b.1))).then(far(a.1).total_cmp(&far(b.1)))
    });
    let worst = worst.map(|(target, figure)| WorstFigure {
        target: target.name.clone(),
        figure: figure.name.clone(),
        error: figure.error.unwrap_or(0.0),
        limit: figure.limit.unwrap_or(0.0),
    });
    Evaluation {
        original: plan.original.name(),
        model: plan.model.name.clone(),
        model_spec: plan.model.spec.to_string(),
        pace: match plan.pace {
            Pace::AsFastAsPossible => "afap".into(),
            Pace::Times(_) => "own".into(),
        },
        cache: plan.cache.name().into(),
        runs: plan.runs,
        seed: plan.seed,
        strict: plan.strict,
        stands: missed == 0 && targets.len() == plan.targets.len(),
        judged: judged.len() as u64,
        missed: missed as u64,
        worst,
        ranking: ranking(plan, runs),
        targets,
        failed,
        warnings,
        ..Evaluation::default()
    }
}

/// What the original did that no run of a model does, by kind: of the run that did most of it.
pub(super) fn left_out(runs: &Runs) -> BTreeMap<String, u64> {
    let mut most = BTreeMap::new();
    let originals = runs.iter().filter(|((_, side), _)| *side == Side::Original);
    for run in originals.flat_map(|(_, runs)| runs) {
        for (kind, &n) in &run.figures.left_out {
            let known: &mut u64 = most.entry(kind.clone()).or_default();
            *known = n.max(*known);
        }
    }
    most
}

/// What is said of operations that failed in one of both and not in the other.
fn ended_otherwise(target: &str, figure: &EvaluatedFigure) -> Option<String> {
    let kind = figure.name.strip_prefix(FAILED)?;
    Some(format!(
        "{target}: of the operations {kind} {} failed in the model, {} in the original: those did not do what they stand for",
        figure.model.mean.round(),
        figure.original.mean.round()
    ))
}

/// How far off a figure is beside its limit.
fn far(figure: &EvaluatedFigure) -> f64 {
    let error = figure.error.unwrap_or(0.0).abs();
    // What must be equal and is not is worse than anything that may differ.
    error / figure.limit.unwrap_or(1.0).max(1e-9)
}

/// Collects figures of both sides.
struct Table<'a> {
    sides: [&'a [SideRun]; 2],
    figures: Vec<EvaluatedFigure>,
}

impl Table<'_> {
    /// A figure that every run has. Of shares the difference counts, of all others the ratio.
    fn add(
        &mut self,
        (name, unit): (&str, &str),
        limit: Option<f64>,
        of: impl Fn(&SideRun) -> Option<f64>,
    ) {
        let samples = self
            .sides
            .map(|runs| runs.iter().filter_map(&of).collect::<Vec<f64>>());
        let [original, model] = &samples;
        if original.is_empty() || model.is_empty() {
            return;
        }
        let (before, after) = (mean(original), mean(model));
        let (error, error_interval) = if unit == "share" {
            let apart = welch(model, original).map(|w| (w.low.max(-1.0), w.high.min(1.0)));
            (Some(after - before), apart)
        } else if before == 0.0 {
            ((after == 0.0).then_some(0.0), None)
        } else {
            let times = positive_ratio(model, original).map(|r| (r.low - 1.0, r.high - 1.0));
            (Some(after / before - 1.0), times)
        };
        let within = limit.map(|limit| {
            let few = unit == "count" && limit > 0.0 && (after - before).abs() <= FEW;
            few || error.is_some_and(|error| error.abs() <= limit)
        });
        self.figures.push(EvaluatedFigure {
            name: name.into(),
            unit: unit.into(),
            original: side(original, unit),
            model: side(model, unit),
            error,
            error_interval,
            limit,
            within,
        });
    }
}

/// Nothing that is told of a run can be negative, and no share is above one.
fn side(samples: &[f64], unit: &str) -> SideFigure {
    let interval = positive_mean_interval(samples, 0.95).map(|i| Interval {
        high: if unit == "share" {
            i.high.min(1.0)
        } else {
            i.high
        },
        ..i
    });
    SideFigure {
        mean: mean(samples),
        low: interval.map(|i| i.low),
        high: interval.map(|i| i.high),
    }
}

fn names<'a>(
    sides: [&'a [SideRun]; 2],
    of: impl Fn(&'a Figures) -> Vec<&'a String>,
) -> Vec<String> {
    let all = sides.into_iter().flatten().flat_map(|run| of(&run.figures));
    let all: BTreeSet<&String> = all.collect();
    all.into_iter().cloned().collect()
}

fn figures(limits: &Limits, original: &[SideRun], model: &[SideRun]) -> Vec<EvaluatedFigure> {
    let sides = [original, model];
    let mut table = Table {
        sides,
        figures: Vec::new(),
    };
    for kind in names(sides, |f| f.kinds.keys().collect()) {
        let name = format!("operations:{kind}");
        table.add((&name, "count"), Some(limits.counts), |run| {
            Some(run.figures.kinds.get(&kind).copied().unwrap_or(0) as f64)
        });
    }
    // What fails where the original's did not was not done, however many there were.
    for kind in names(sides, |f| f.failed.keys().collect()) {
        let name = format!("{FAILED}{kind}");
        table.add((&name, "count"), Some(limits.counts), |run| {
            Some(run.figures.failed.get(&kind).copied().unwrap_or(0) as f64)
        });
    }
    let seconds = |f: &Figures| f.elapsed_ns.max(1) as f64 / 1e9;
    let moved = |f: &Figures| (f.bytes_read + f.bytes_written) as f64;
    table.add(("bytes_read", "B"), Some(limits.bytes), |r| {
        Some(r.figures.bytes_read as f64)
    });
    table.add(("bytes_written", "B"), Some(limits.bytes), |r| {
        Some(r.figures.bytes_written as f64)
    });
    table.add(("cached", "share"), Some(limits.cached), |run| {
        let (known, cached) = run.figures.cached?;
        (known > 0).then(|| cached as f64 / known as f64)
    });
    table.add(
        ("throughput", "operations/s"),
        Some(limits.throughput),
        |run| Some(run.figures.operations as f64 / seconds(&run.figures)),
    );
    table.add(("bytes_throughput", "B/s"), None, |run| {
        Some(moved(&run.figures) / seconds(&run.figures))
    });
    table.add(("elapsed", "ns"), None, |run| {
        Some(run.figures.elapsed_ns as f64)
    });
    for act in names(sides, |f| f.acts.keys().collect()) {
        let count = |run: &SideRun| {
            run.figures
                .acts
                .get(&act)
                .map_or(0.0, |a| a.operations as f64)
        };
        let enough = sides
            .iter()
            .all(|runs| runs.iter().all(|r| count(r) >= FEW_LATENCIES));
        let judged = enough && JUDGED.contains(&act.as_str());
        let name = format!("latency:{act}");
        table.add((&name, "ns"), judged.then_some(limits.latency), |run| {
            let of = run.figures.acts.get(&act).filter(|a| a.operations > 0)?;
            Some(of.latency_total_ns as f64 / of.operations as f64)
        });
    }
    beyond(&mut table);
    table.figures
}

/// What the dissertation has no table of.
fn beyond(table: &mut Table<'_>) {
    table.add(("sequential", "share"), None, |run| {
        let all = run.figures.transfers;
        (all > 0).then(|| run.figures.sequential as f64 / all as f64)
    });
    for (at, name) in ["cache_hits:half", "cache_hits:twice"]
        .into_iter()
        .enumerate()
    {
        table.add((name, "share"), None, |run| {
            let cache = run.figures.caches.get(at).filter(|c| c.accesses > 0)?;
            Some(cache.hits as f64 / cache.accesses as f64)
        });
    }
    table.add(("device_reads", "count"), None, |r| {
        Some(r.device?.reads as f64)
    });
    table.add(("device_read_bytes", "B"), None, |r| {
        Some(r.device?.sectors_read as f64 * 512.0)
    });
    table.add(("device_writes", "count"), None, |r| {
        Some(r.device?.writes as f64)
    });
    table.add(("device_written_bytes", "B"), None, |r| {
        Some(r.device?.sectors_written as f64 * 512.0)
    });
}

/// All runs of a side together.
fn merged(runs: &[SideRun], act: &str, of: impl Fn(&ActFigures) -> &FineHistogram) -> Vec<u64> {
    let mut all = FineHistogram::default();
    for act in runs.iter().filter_map(|run| run.figures.acts.get(act)) {
        all.merge(of(act));
    }
    all.counts()
}

fn distances(original: &[SideRun], model: &[SideRun]) -> Vec<ActDistance> {
    let distance = |act: String| {
        let latency = |runs| merged(runs, &act, |a| &a.latency);
        let size = |runs| merged(runs, &act, |a| &a.size);
        let latency = ks_distance(&latency(original), &latency(model))?;
        let first = original.first().and_then(|run| run.figures.acts.get(&act));
        Some(ActDistance {
            operations: first.map_or(0, |a| a.operations),
            latency,
            size: ks_distance(&size(original), &size(model)),
            act,
        })
    };
    let acts = names([original, model], |f| f.acts.keys().collect());
    acts.into_iter().filter_map(distance).collect()
}

/// How far the shares of the operations that have started lie apart over relative time.
fn progress(original: &[SideRun], model: &[SideRun]) -> Option<f64> {
    let average = |runs: &[SideRun]| {
        let mut sum = vec![0.0; 100];
        for run in runs {
            for (sum, share) in sum.iter_mut().zip(run.figures.progress()) {
                *sum += share / runs.len() as f64;
            }
        }
        sum
    };
    rms_distance(&average(original), &average(model))
}

/// What the targets are ranked by: how long a run takes; at the trace's own pace that is the trace's, and the time in
/// operations tells targets apart.
fn cost(plan: &EvaluatePlan, run: &SideRun) -> f64 {
    match plan.pace {
        Pace::AsFastAsPossible => run.figures.elapsed_ns as f64,
        Pace::Times(_) => run.figures.latency_total_ns() as f64,
    }
}

fn ranking(plan: &EvaluatePlan, runs: &Runs) -> Option<EvaluatedRanking> {
    let targets = 0..plan.targets.len();
    let costs = |side| {
        let of = |at| {
            let runs = runs.get(&(at, side)).filter(|runs| !runs.is_empty())?;
            Some(runs.iter().map(|run| cost(plan, run)).collect())
        };
        targets.clone().map(of).collect::<Option<Vec<Vec<f64>>>>()
    };
    let (original, model) = (costs(Side::Original)?, costs(Side::Model)?);
    if original.len() < 2 {
        return None;
    }
    let order = |costs: &[Vec<f64>]| {
        let mut order: Vec<(f64, &String)> = costs
            .iter()
            .zip(&plan.targets)
            .map(|(costs, target)| (mean(costs), &target.name))
            .collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        order
            .into_iter()
            .map(|(_, name)| name.clone())
            .collect::<Vec<_>>()
    };
    let mut probability = 1.0;
    for a in 0..original.len() {
        for b in a + 1..original.len() {
            let first = |costs: &[Vec<f64>]| Some(faster(costs.get(a)?, costs.get(b)?));
            let (before, after) = (first(&original)?, first(&model)?);
            probability *= before * after + (1.0 - before) * (1.0 - after);
        }
    }
    let (original, model) = (order(&original), order(&model));
    Some(EvaluatedRanking {
        same: original == model,
        original,
        model,
        probability,
    })
}

/// How likely the mean of the first is less than that of the second.
fn faster(a: &[f64], b: &[f64]) -> f64 {
    let error = |x: &[f64]| {
        if x.len() < 2 {
            0.0
        } else {
            stddev(x).powi(2) / x.len() as f64
        }
    };
    let (apart, error) = (mean(b) - mean(a), (error(a) + error(b)).sqrt());
    if error > 0.0 {
        1.0 - upper_tail(apart / error)
    } else if apart == 0.0 {
        0.5
    } else {
        f64::from(u8::from(apart > 0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(side: Side, faults: u64, failed: u64) -> SideRun {
        let of = |n: u64| {
            let kinds = (n > 0).then(|| ("fault".to_owned(), n));
            kinds.into_iter().collect()
        };
        SideRun {
            target: "mem:fast".into(),
            side,
            run: 0,
            start_unix_ns: 0,
            made_cold: None,
            differ: 0,
            figures: Figures {
                operations: faults,
                errors: failed,
                kinds: of(faults),
                failed: of(failed),
                ..Figures::default()
            },
            device: None,
        }
    }

    #[test]
    fn operations_that_fail_in_the_model_alone_are_off() {
        let limits = Limits::of(false, true);
        let judged = |failed: u64| {
            let sides = [run(Side::Original, 1589, 0), run(Side::Model, 1589, failed)];
            let [original, model] = &sides;
            let figures = figures(
                &limits,
                std::slice::from_ref(original),
                std::slice::from_ref(model),
            );
            let found = figures.into_iter().find(|f| f.name == "failed:fault");
            found.map(|f| (f.within, ended_otherwise("mem:fast", &f)))
        };
        assert_eq!(judged(0), None);
        let (within, said) = judged(548).unwrap();
        assert_eq!(within, Some(false));
        let said = said.unwrap();
        assert!(
            said.contains("operations fault 548 failed in the model, 0 in"),
            "{said}"
        );
        // A few are none.
        assert_eq!(judged(2).unwrap().0, Some(true));
    }
}
