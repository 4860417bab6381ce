//! Two configurations held against each other, by the samples of their runs.
//!
//! Pure functions of stored experiments. Welch's test and interval for the difference, Fieller's for the
//! ratio, Hedges' g and A12 for the size, a rank test beside them; Holm's correction over all tests that
//! are made at once. What cannot be compared is refused by name.

mod differences;
mod metric;
mod pairing;
mod words;

use fsage_format::result::comparison::{
    COMPARISON_FORMAT, COMPARISON_VERSION, ComparedExperiment, ComparedMetric, ComparedPair,
    ComparedSide, Comparison, Family, NotCompared, Verdict,
};
use fsage_format::result::experiment::{Configuration, Experiment, StopReason};
use fsage_stats::{SIGNIFICANCE, holm};

/// What is to be compared, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Question {
    /// Configurations by name: the first is what the others are compared with. Empty for those that
    /// belong together.
    pub configurations: Vec<String>,
    /// The metrics; empty for all that both have.
    pub metrics: Vec<String>,
    /// Whether other workloads may be compared too.
    pub any_workload: bool,
}

/// A stored experiment and where it came from.
#[derive(Debug, Clone, Copy)]
pub struct Stored<'a> {
    /// Its file or directory.
    pub path: &'a str,
    /// What it holds.
    pub experiment: &'a Experiment,
}

/// Metrics that an error names.
const METRICS_NAMED: usize = 16;

/// The first of a list, and how many more there are.
fn first_of<T: AsRef<str>>(all: &[T], most: usize, between: &str) -> String {
    let shown: Vec<&str> = all.iter().take(most).map(AsRef::as_ref).collect();
    let shown = shown.join(between);
    match all.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown}{between}and {more} more"),
    }
}

/// Why nothing can be compared; each completes “failed to …”.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// A configuration that there is not.
    #[error("find configuration '{name}' in {path}: it has {there}")]
    NoConfiguration {
        /// The name.
        name: String,
        /// The experiment.
        path: String,
        /// Those that there are.
        there: String,
    },
    /// The same name twice.
    #[error("compare configuration '{0}' with itself: name two")]
    Itself(String),
    /// There is nothing to compare with.
    #[error("compare {path} with itself: it has only {there}; name another experiment")]
    Alone {
        /// The experiment.
        path: String,
        /// What it has.
        there: String,
    },
    /// Nothing is left.
    #[error("compare anything of {what}: {}", first_of(.why, 2, "; "))]
    Nothing {
        /// The experiments.
        what: String,
        /// Why not, for each pair.
        why: Vec<String>,
    },
    /// A metric that no pair has.
    #[error("compare metric '{name}': both sides have {there}")]
    NoMetric {
        /// The name.
        name: String,
        /// Those that they have.
        there: String,
    },
}

/// One configuration and the experiment that it belongs to.
#[derive(Debug, Clone, Copy)]
struct Side<'a> {
    index: u32,
    experiment: &'a Experiment,
    configuration: &'a Configuration,
}

impl<'a> Side<'a> {
    fn name(&self) -> &'a str {
        &self.configuration.name
    }

    fn reported(&self) -> ComparedSide {
        let record = self.configuration.target_record.as_ref();
        ComparedSide {
            experiment: self.index,
            configuration: self.configuration.name.clone(),
            target: self.configuration.target_spec.clone(),
            workload: self.configuration.workload_spec.clone(),
            runs: u32::try_from(self.configuration.runs.len()).unwrap_or(u32::MAX),
            virtual_time: record.is_some_and(|record| record.virtual_time),
        }
    }
}

/// Compares configurations of one experiment, or of two (`b` to `a`).
pub fn compare(
    a: Stored<'_>,
    b: Option<Stored<'_>>,
    question: &Question,
) -> Result<Comparison, CompareError> {
    let mut not_compared = Vec::new();
    let pairs = pairing::pairs(a, b, question, &mut not_compared)?;
    let mut compared: Vec<ComparedPair> = pairs
        .iter()
        .map(|(a, b)| pair(*a, *b, question, &mut not_compared))
        .collect();
    if let Some(name) = question.metrics.iter().find(|name| {
        let has = |pair: &ComparedPair| pair.metrics.iter().any(|m| m.metric == **name);
        !compared.iter().any(has)
    }) {
        return Err(no_metric(name, &pairs, &not_compared));
    }
    let families = correct(&mut compared);
    let stored = [Some(a), b];
    Ok(Comparison {
        format: COMPARISON_FORMAT.to_owned(),
        comparison_version: COMPARISON_VERSION,
        experiments: stored.into_iter().flatten().map(reported).collect(),
        pairs: compared,
        families,
        not_compared,
        warnings: warnings(a, b),
    })
}

fn no_metric(name: &str, pairs: &[(Side<'_>, Side<'_>)], why: &[NotCompared]) -> CompareError {
    let said: Vec<String> = why
        .iter()
        .filter(|n| n.what.ends_with(&format!("metric '{name}'")))
        .map(|n| format!("{}: {}", n.what, n.why))
        .collect();
    if !said.is_empty() {
        return CompareError::Nothing {
            what: format!("metric '{name}'"),
            why: said,
        };
    }
    let mut there: Vec<&str> = pairs
        .iter()
        .flat_map(|(a, b)| metric::common(a.configuration, b.configuration))
        .collect();
    there.sort_unstable();
    there.dedup();
    CompareError::NoMetric {
        name: name.to_owned(),
        there: first_of(&there, METRICS_NAMED, ", "),
    }
}

fn reported(stored: Stored<'_>) -> ComparedExperiment {
    let experiment = stored.experiment;
    ComparedExperiment {
        path: stored.path.to_owned(),
        plan_digest: experiment.plan_digest.clone(),
        started_unix_ns: experiment.started_unix_ns,
        host: experiment.machine.as_ref().and_then(|m| m.host.clone()),
        seed: experiment.seed,
        interrupted: experiment.interrupted,
    }
}

fn pair(
    a: Side<'_>,
    b: Side<'_>,
    question: &Question,
    not_compared: &mut Vec<NotCompared>,
) -> ComparedPair {
    let two = a.index != b.index;
    let [of_a, of_b] = [a, b].map(|side| called(side.name(), side.index, two));
    let names = format!("{of_a} and {of_b}");
    let mut metrics = Vec::new();
    for found in metric::each(a.configuration, b.configuration) {
        let wanted =
            question.metrics.is_empty() || question.metrics.iter().any(|m| m == found.name);
        if !wanted {
            continue;
        }
        match metric::compare(&found, &of_a, &of_b) {
            Ok(compared) => metrics.push(compared),
            Err(why) => not_compared.push(NotCompared {
                what: format!("{names}: metric '{}'", found.name),
                why,
            }),
        }
    }
    metrics.sort_by_key(|m: &ComparedMetric| !m.required);
    ComparedPair {
        a: a.reported(),
        b: b.reported(),
        metrics,
        differences: differences::of(a, b),
        warnings: [(a, of_a), (b, of_b)]
            .iter()
            .flat_map(|(side, name)| side_warnings(*side, name))
            .collect(),
    }
}

/// A configuration in sentences: of two experiments with the one that it is of.
fn called(name: &str, experiment: u32, two: bool) -> String {
    match (two, experiment) {
        (false, _) => name.to_owned(),
        (true, 0) => format!("{name} in A"),
        (true, _) => format!("{name} in B"),
    }
}

/// Corrects the p values of all tests that were made at once, the required metrics' apart from the
/// others', and draws the conclusions.
fn correct(pairs: &mut [ComparedPair]) -> Vec<Family> {
    let mut families = Vec::new();
    for (name, required) in [("required", true), ("others", false)] {
        let mut tests: Vec<&mut ComparedMetric> = pairs
            .iter_mut()
            .flat_map(|pair| &mut pair.metrics)
            .filter(|m| m.required == required && m.test.is_some())
            .collect();
        let p: Vec<f64> = tests.iter().filter_map(|m| Some(m.test?.p)).collect();
        for (metric, corrected) in tests.iter_mut().zip(holm(&p)) {
            if let Some(test) = &mut metric.test {
                test.p_corrected = corrected;
            }
        }
        if !p.is_empty() {
            families.push(Family {
                name: name.to_owned(),
                tests: u32::try_from(p.len()).unwrap_or(u32::MAX),
                correction: if p.len() > 1 { "Holm" } else { "none" }.to_owned(),
            });
        }
    }
    for pair in pairs {
        let two = pair.a.experiment != pair.b.experiment;
        let sides = [&pair.a, &pair.b];
        let [a, b] = sides.map(|side| called(&side.configuration, side.experiment, two));
        for metric in &mut pair.metrics {
            metric.verdict = verdict(metric);
            metric.text = words::sentence(metric, &a, &b);
            words::doubts(metric, &a, &b);
        }
    }
    families
}

fn verdict(metric: &ComparedMetric) -> Verdict {
    match &metric.test {
        Some(test) if test.p_corrected < SIGNIFICANCE && metric.difference.value > 0.0 => {
            Verdict::Larger
        }
        Some(test) if test.p_corrected < SIGNIFICANCE => Verdict::Smaller,
        Some(_) => Verdict::NoSignificantDifference,
        None => {
            let constant =
                |s: &fsage_format::result::comparison::SampleSummary| s.n > 1 && s.sd == Some(0.0);
            if constant(&metric.a) && constant(&metric.b) && metric.difference.value == 0.0 {
                Verdict::Equal
            } else {
                Verdict::Untestable
            }
        }
    }
}

fn warnings(a: Stored<'_>, b: Option<Stored<'_>>) -> Vec<String> {
    let mut all = Vec::new();
    for stored in [Some(a), b].into_iter().flatten() {
        if stored.experiment.interrupted {
            all.push(format!("{}: it was stopped before its end", stored.path));
        }
    }
    if b.is_some() {
        all.push(
            "the experiments ran one after the other: what changed on the machine between them counts as \
             a difference; one plan with both configurations interleaves their runs"
                .to_owned(),
        );
    }
    all
}

/// What makes a configuration's samples doubtful.
fn side_warnings(side: Side<'_>, name: &str) -> Vec<String> {
    let Side {
        configuration: c,
        experiment,
        ..
    } = side;
    let mut all = Vec::new();
    if c.stop != StopReason::Precise {
        let why = if c.stop_text.is_empty() {
            "not precise"
        } else {
            &c.stop_text
        };
        all.push(format!(
            "{name}: measuring ended before it was precise: {why}"
        ));
    }
    let marked = c.runs.iter().filter(|r| !r.marks.is_empty()).count();
    if marked > 0 {
        let mut what: Vec<&str> = c
            .runs
            .iter()
            .flat_map(|r| &r.marks)
            .map(String::as_str)
            .collect();
        what.sort_unstable();
        what.dedup();
        what.truncate(3);
        let runs = c.runs.len();
        all.push(format!(
            "{name}: {marked} of {runs} runs are marked: {}",
            what.join("; ")
        ));
    }
    let failed = experiment
        .failed
        .iter()
        .filter(|f| f.configuration == c.name)
        .count();
    if failed > 0 {
        all.push(format!(
            "{name}: {failed} runs failed and are not among the samples"
        ));
    }
    for metric in c.metrics.iter().filter(|m| m.required) {
        if let Some(trend) = metric.trend.filter(|t| t.drifts) {
            all.push(format!(
                "{name}: {} moves from run to run (p {})",
                metric.metric,
                words::probability(trend.p)
            ));
        }
    }
    all
}

#[cfg(test)]
mod tests;
