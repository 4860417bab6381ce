//! The study's guidelines, one row each.

use super::evidence::Evidence;
use super::rules;

/// A guideline.
pub struct Guideline {
    /// Its name here.
    pub name: &'static str,
    /// Where it stands in the study.
    pub section: &'static str,
    /// What it asks, in this project's words.
    pub asks: &'static str,
    /// What to do where something is missing.
    pub advice: &'static str,
    /// Looks for it.
    pub judge: fn(&Evidence) -> Answer,
}

/// What was looked for.
pub enum Answer {
    /// What there is and what is missing. Nothing missing: met.
    Found {
        /// What there is.
        has: Vec<String>,
        /// What is missing, by name.
        missing: Vec<String>,
    },
    /// No record can show it; what there is that may help.
    Author(Vec<String>),
    /// It does not concern this result: why.
    NotApplicable(String),
}

const fn row(
    section: &'static str,
    name: &'static str,
    asks: &'static str,
    advice: &'static str,
    judge: fn(&Evidence) -> Answer,
) -> Guideline {
    Guideline {
        name,
        section,
        asks,
        advice,
        judge,
    }
}

/// All of them, by section.
pub const GUIDELINES: &[Guideline] = &[
    row(
        "3",
        "what-was-done",
        "tell exactly what was done",
        "keep the result: it holds the workload's text, the plan and the seed",
        rules::what_was_done,
    ),
    row(
        "3",
        "why",
        "tell why it was done that way",
        "say in the paper why this workload, this baseline and this environment",
        rules::why,
    ),
    row(
        "3.1",
        "questions",
        "pose questions first, and expect results; explain what differs from that",
        "write the expectation down before the experiment; `fsage predict` gives one",
        rules::questions,
    ),
    row(
        "3.1",
        "baseline",
        "compare with systems that exist",
        "add a [[target]] to the plan, such as a common file system on the same device",
        rules::baseline,
    ),
    row(
        "3.1",
        "several-benchmarks",
        "at least one macro-benchmark or trace, and micro-benchmarks beside it",
        "add a [[workload]] of the other sort; `fsage workloads` lists them",
        rules::several_benchmarks,
    ),
    row(
        "3.1",
        "io-bound",
        "know what bounds the workload; file systems are judged by one bound by I/O",
        "use a workload that exceeds memory or starts cold, as the study's Postmark configurations do (7.1)",
        rules::io_bound,
    ),
    row(
        "3.1",
        "accurate-timing",
        "time must be measured accurately",
        "measure with `fsage bench`, which times in nanoseconds and marks steps of the clock",
        rules::accurate_timing,
    ),
    row(
        "3.1",
        "scalable",
        "exercise every machine the same amount, whatever its speed",
        "use a generated workload, or pin what the command reads (sources, compiler) and trace it",
        rules::scalable,
    ),
    row(
        "3.1",
        "several-threads",
        "several threads are nearer to real use",
        "add a workload with several streams, such as postmark:threads=4, sdet or filebench's fileserver",
        rules::several_threads,
    ),
    row(
        "3.1",
        "understood-workload",
        "know what the workload does",
        "trace the command and look at it: `fsage trace -- COMMAND`, `fsage show`",
        rules::understood,
    ),
    row(
        "3.1",
        "breakdown",
        "show where the time goes",
        "measure with `fsage bench`: user, system, waiting, and the latency of every kind of operation",
        rules::breakdown,
    ),
    row(
        "3.2",
        "cache-state",
        "bring caches into a known state, and tell it",
        "set cache = [\"cold\"] or [\"warm 1\"] in the plan; cold caches are verified as root",
        rules::cache_state,
    ),
    row(
        "3.2",
        "zcav",
        "tell where on the disk the file system lies",
        "measure on a partition or a whole disk, whose place fsage records; or on an emulated disk with span=",
        rules::zcav,
    ),
    row(
        "3.2",
        "aging",
        "tell whether the file system was aged",
        "measure on a scratch file system, which is fresh, restore an aged image (state =), or tell how it was aged (aged =)",
        rules::aging,
    ),
    row(
        "3.2",
        "other-processes",
        "nothing else should run, and nobody be logged in",
        "stop services and cron jobs, log others out, and run the marked configurations again",
        rules::other_processes,
    ),
    row(
        "3.3",
        "identical-runs",
        "every run must be like the others",
        "use a scratch target, made anew for each run, and a state of the caches that is set",
        rules::identical_runs,
    ),
    row(
        "3.3",
        "number-of-runs",
        "run several times, as often as the intervals ask",
        "measure with `fsage bench`: at least 10 runs, until the intervals are narrow",
        rules::number_of_runs,
    ),
    row(
        "3.3",
        "steady-state",
        "run for so long that most of it is steady",
        "let the workload do more, until its warm-up is the smaller part",
        rules::steady_state,
    ),
    row(
        "3.3",
        "automated",
        "let a program do it, not a hand (section 11)",
        "write a plan and run it with `fsage bench PLAN.toml`",
        rules::automated,
    ),
    row(
        "3.4",
        "configurations-described",
        "describe configurations accurately",
        "run as root, and on scratch targets, whose making is recorded",
        rules::configurations_described,
    ),
    row(
        "3.4",
        "intervals",
        "give confidence intervals, not only deviations",
        "measure with `fsage bench`: two runs are the least from which there is an interval",
        rules::intervals,
    ),
    row(
        "3.4",
        "student",
        "with fewer than 30 runs use Student's t distribution",
        "measure with `fsage bench`, which uses it for any number of runs",
        rules::student,
    ),
    row(
        "3.4",
        "precision",
        "half-widths under 5 % of the mean, or an explanation",
        "raise max_runs or the budget, make runs longer, or quiet the machine; else explain it",
        rules::precision,
    ),
    row(
        "3.4",
        "normality",
        "explain distributions that are not normal: they may hide an error",
        "look at the samples of these configurations: two modes, a trend, or a few slow runs",
        rules::normality,
    ),
    row(
        "3.4",
        "outliers",
        "never discard what is anomalous; explain it or mend its cause and run again",
        "explain the runs that are named, or mend the cause and measure again",
        rules::outliers,
    ),
    row(
        "3.4",
        "stability",
        "results must be stable, or their instability explained",
        "find what changes over time: a device that fills, a clock that slows, others' load",
        rules::stability,
    ),
    row(
        "3.4",
        "graphs",
        "draw graphs with error bars",
        "draw them from the result's metrics: mean, lower, upper",
        rules::graphs,
    ),
    row(
        "3.5",
        "testbed",
        "specify hardware and software in detail, in an appendix if need be",
        "publish the result's JSON; run as root where fields are missing",
        rules::testbed,
    ),
    row(
        "3.5",
        "same-conditions",
        "compare systems under the same conditions, not across papers",
        "put the systems that are to be compared into one plan",
        rules::same_conditions,
    ),
    row(
        "3.5",
        "raw-data",
        "keep the raw data for others",
        "publish the directory of the result",
        rules::raw_data,
    ),
    row(
        "3.5",
        "software-available",
        "make the benchmark and the system available to others",
        "publish the system, what commands need (sources, traces) and the plan",
        rules::software_available,
    ),
];
