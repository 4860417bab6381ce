use std::collections::BTreeMap;

use fsage_format::result::environment::{MachineRecord, TargetRecord};
use fsage_format::result::experiment::{
    BenchRun, EXPERIMENT_FORMAT, EXPERIMENT_VERSION, MetricSummary, StoppingRule,
};

use super::*;

/// A configuration of a workload whose runs took these times, in nanoseconds.
fn configuration(name: &str, workload: &str, samples: &[f64]) -> Configuration {
    let runs = samples.iter().enumerate().map(|(run, value)| BenchRun {
        run: run as u32,
        elapsed_ns: *value as u64,
        metrics: BTreeMap::from([("elapsed".to_owned(), *value)]),
        ..BenchRun::default()
    });
    Configuration {
        name: name.to_owned(),
        target: name.to_owned(),
        target_spec: "scratch:ext4".to_owned(),
        state: "fresh".to_owned(),
        workload: "w".to_owned(),
        workload_spec: workload.to_owned(),
        setup: None,
        cache: "cold".to_owned(),
        parameters: BTreeMap::new(),
        target_record: Some(TargetRecord::default()),
        runs: runs.collect(),
        metrics: vec![metric("elapsed", "ns", true)],
        stop: StopReason::Precise,
        stop_text: String::new(),
    }
}

fn metric(name: &str, unit: &str, required: bool) -> MetricSummary {
    // Comparisons are made from the samples; what is said of them here does not matter.
    MetricSummary {
        metric: name.to_owned(),
        unit: unit.to_owned(),
        required,
        n: 0,
        mean: 0.0,
        half_width: None,
        half_width_student: None,
        interval: None,
        lower: None,
        upper: None,
        median: 0.0,
        sd: None,
        min: 0.0,
        max: 0.0,
        normal: None,
        outliers: Vec::new(),
        trend: None,
    }
}

fn experiment(configurations: Vec<Configuration>) -> Experiment {
    Experiment {
        format: EXPERIMENT_FORMAT.to_owned(),
        experiment_version: EXPERIMENT_VERSION,
        plan: String::new(),
        plan_digest: String::new(),
        seed: 1,
        rule: StoppingRule::default(),
        started_unix_ns: 0,
        resumed_unix_ns: Vec::new(),
        elapsed_ns: 0,
        machine: Some(MachineRecord::default()),
        configurations,
        failed: Vec::new(),
        drift: Vec::new(),
        warnings: Vec::new(),
        interrupted: false,
    }
}

fn within(experiment: &Experiment, question: &Question) -> Result<Comparison, CompareError> {
    let stored = Stored {
        path: "e",
        experiment,
    };
    compare(stored, None, question)
}

const POSTMARK: &str = "postmark:files=100";

/// Around 100 ms, seed by seed: no randomness, and not equal.
fn around(mean: f64, n: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    (0..n)
        .map(|_| {
            // A sum of twelve uniforms is normal enough.
            let normal: f64 = (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
            mean * (1.0 + 0.03 * normal)
        })
        .collect()
}

fn only(c: &Comparison) -> &ComparedMetric {
    assert_eq!((c.pairs.len(), c.pairs[0].metrics.len()), (1, 1), "{c:?}");
    &c.pairs[0].metrics[0]
}

#[test]
fn two_identical_distributions_rarely_differ_and_a_shift_is_found() {
    let mut false_alarms = 0;
    for seed in 0..200 {
        let e = experiment(vec![
            configuration("a", POSTMARK, &around(1e8, 10, 2 * seed + 1)),
            configuration("b", POSTMARK, &around(1e8, 10, 2 * seed + 2)),
        ]);
        let found = within(&e, &Question::default()).unwrap();
        let m = only(&found);
        match m.verdict {
            Verdict::NoSignificantDifference => {
                assert!(
                    m.text.starts_with("no significant difference, p = "),
                    "{}",
                    m.text
                );
                let ratio = m.ratio.unwrap();
                assert!(
                    ratio.low.unwrap() <= 1.0 && ratio.high.unwrap() >= 1.0,
                    "{m:?}"
                );
            }
            Verdict::Larger | Verdict::Smaller => false_alarms += 1,
            other => panic!("{other:?}"),
        }
        let shifted = experiment(vec![
            configuration("a", POSTMARK, &around(1e8, 10, 2 * seed + 1)),
            configuration("b", POSTMARK, &around(1.1e8, 10, 2 * seed + 2)),
        ]);
        let found = within(&shifted, &Question::default()).unwrap();
        let m = only(&found);
        assert_eq!(m.verdict, Verdict::Larger, "seed {seed}: {m:?}");
        assert!(m.text.contains("'b' is longer than 'a'") && m.text.contains("large effect"));
        assert!(m.effect.unwrap().a12 > 0.5 && m.difference.low.unwrap() > 0.0);
    }
    // 5 % of 200 are 10; more than 20 has a probability of 0.1 %.
    assert!(false_alarms <= 20, "{false_alarms} of 200");
}

#[test]
fn two_samples_suffice_for_a_test_and_one_does_not() {
    let e = experiment(vec![
        configuration("a", POSTMARK, &[1e8, 1.01e8]),
        configuration("b", POSTMARK, &[2e8, 2.02e8]),
        configuration("single", POSTMARK, &[3e8]),
    ]);
    let found = within(&e, &Question::default()).unwrap();
    let two = &found.pairs[0].metrics[0];
    // By SciPy: ttest_ind([2, 2.02], [1, 1.01], equal_var=False).
    let test = two.test.unwrap();
    assert!((test.t - 89.889_933).abs() < 1e-3, "{test:?}");
    assert!((test.df - 1.470_588).abs() < 1e-5, "{test:?}");
    assert_eq!(two.verdict, Verdict::Larger);
    let one = &found.pairs[1].metrics[0];
    assert_eq!(
        (one.verdict, one.test, one.ratio),
        (Verdict::Untestable, None, None)
    );
    assert!(
        one.text.contains("'single' has a single run"),
        "{}",
        one.text
    );
    assert_eq!((one.b.n, one.b.lower), (1, None));
    assert_eq!(found.families[0].tests, 1);
    assert_eq!(found.families[0].correction, "none");
}

#[test]
fn constant_samples_are_equal_or_cannot_be_tested() {
    let e = experiment(vec![
        configuration("a", POSTMARK, &[5e8; 10]),
        configuration("b", POSTMARK, &[5e8; 10]),
        configuration("c", POSTMARK, &[6e8; 10]),
        configuration("d", POSTMARK, &around(6e8, 10, 3)),
    ]);
    let found = within(&e, &Question::default()).unwrap();
    let verdicts: Vec<Verdict> = found.pairs.iter().map(|p| p.metrics[0].verdict).collect();
    assert_eq!(
        verdicts,
        [Verdict::Equal, Verdict::Untestable, Verdict::Larger]
    );
    let text = &found.pairs[1].metrics[0].text;
    assert!(text.contains("neither 'a' nor 'c' varies"), "{text}");
    // The correction counts tests that were made.
    assert_eq!(found.families[0].tests, 1);
}

#[test]
fn outliers_are_flagged_counted_and_the_rank_test_is_heard() {
    let mut far = around(1.3e8, 12, 8);
    far[3] = 9e9;
    let e = experiment(vec![
        configuration("a", POSTMARK, &around(1e8, 12, 7)),
        configuration("b", POSTMARK, &far),
    ]);
    let found = within(&e, &Question::default()).unwrap();
    let m = only(&found);
    // One sample spoils Welch's test; the ranks see what it cannot.
    assert_eq!(
        (m.verdict, m.b.outliers, m.b.n),
        (Verdict::NoSignificantDifference, 1, 12)
    );
    assert!(m.b.mean > 8e8, "an outlier was dropped: {m:?}");
    assert!(m.test.unwrap().rank_p.unwrap() < 0.001);
    let said = m.warnings.join("\n");
    for words in [
        "1 of 12 samples lie far",
        "not normally distributed",
        "rank test disagrees",
    ] {
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn several_configurations_share_one_correction() {
    let mut all = vec![configuration("base", POSTMARK, &around(1e8, 10, 1))];
    for seed in 2..12 {
        all.push(configuration(
            &format!("c{seed}"),
            POSTMARK,
            &around(1.02e8, 10, seed),
        ));
    }
    let found = within(&experiment(all), &Question::default()).unwrap();
    let family = &found.families[0];
    assert_eq!((family.tests, family.correction.as_str()), (10, "Holm"));
    let tests: Vec<_> = found
        .pairs
        .iter()
        .map(|p| p.metrics[0].test.unwrap())
        .collect();
    let least = tests.iter().min_by(|x, y| x.p.total_cmp(&y.p)).unwrap();
    assert!((least.p_corrected - (least.p * 10.0).min(1.0)).abs() < 1e-12);
    assert!(tests.iter().all(|t| t.p_corrected >= t.p));
    // Without the correction at least one would pass for a difference.
    assert!(
        tests.iter().any(|t| t.p < 0.05 && t.p_corrected > 0.05),
        "{tests:?}"
    );
}

#[test]
fn what_cannot_be_compared_is_refused_by_name() {
    let mut other_unit = configuration("s", POSTMARK, &[1.0, 1.1, 1.2]);
    other_unit.metrics = vec![metric("elapsed", "s", true), metric("flush", "ns", false)];
    let e = experiment(vec![
        configuration("a", POSTMARK, &around(1e8, 5, 1)),
        other_unit,
        configuration("tree", "cmd: grep -r x .", &around(1e8, 5, 2)),
        configuration("seeded", "postmark:files=100,seed=77", &around(1e8, 5, 3)),
    ]);
    let ask = |names: &[&str], any_workload| {
        let configurations = names.iter().map(|n| (*n).to_owned()).collect();
        within(
            &e,
            &Question {
                configurations,
                any_workload,
                ..Question::default()
            },
        )
    };
    let units = ask(&["a", "s"], false).unwrap();
    assert!(units.pairs[0].metrics.is_empty());
    let said = format!("{:?}", units.not_compared);
    assert!(
        said.contains("'a' has it in ns, 's' in s: other units"),
        "{said}"
    );
    assert!(
        said.contains("metric 'flush'") && said.contains("only 's' has it"),
        "{said}"
    );
    let other = ask(&["a", "tree"], false).unwrap_err().to_string();
    assert!(
        other.contains("other workloads") && other.contains("--any-workload"),
        "{other}"
    );
    assert_eq!(ask(&["a", "tree"], true).unwrap().pairs.len(), 1);
    // The seed is no other workload.
    assert_eq!(ask(&["a", "seeded"], false).unwrap().pairs.len(), 1);
    let missing = ask(&["a", "nothing"], false).unwrap_err().to_string();
    assert!(
        missing.contains("'nothing'") && missing.contains("'tree'"),
        "{missing}"
    );
    assert!(matches!(
        ask(&["a", "a"], false),
        Err(CompareError::Itself(_))
    ));
}

#[test]
fn what_is_not_there_is_named() {
    let e = experiment(vec![
        configuration("a", POSTMARK, &around(1e8, 5, 1)),
        configuration("b", POSTMARK, &around(1e8, 5, 2)),
    ]);
    let question = Question {
        metrics: vec!["latency".into()],
        ..Question::default()
    };
    let unknown = within(&e, &question).unwrap_err().to_string();
    assert!(
        unknown.contains("'latency'") && unknown.contains("elapsed"),
        "{unknown}"
    );
    let alone = experiment(vec![configuration("a", POSTMARK, &[1.0, 2.0])]);
    assert!(matches!(
        within(&alone, &Question::default()),
        Err(CompareError::Alone { .. })
    ));
    let mut empty = experiment(vec![
        configuration("a", POSTMARK, &[]),
        configuration("b", POSTMARK, &[1.0, 2.0]),
    ]);
    let none = within(&empty, &Question::default())
        .unwrap_err()
        .to_string();
    assert!(none.contains("'a' has no run that ended well"), "{none}");
    empty.configurations.clear();
    assert!(matches!(
        within(&empty, &Question::default()),
        Err(CompareError::Alone { .. })
    ));
}

#[test]
fn two_experiments_are_matched_by_name_then_by_work_and_their_environments_held_together() {
    let mut a = experiment(vec![
        configuration("ext4", POSTMARK, &around(1e8, 10, 1)),
        configuration("old name", "seqio", &around(1e8, 10, 2)),
        configuration("gone", "sdet", &around(1e8, 10, 3)),
    ]);
    let mut b = experiment(vec![
        configuration("new name", "seqio", &around(1e8, 10, 4)),
        configuration("ext4", POSTMARK, &around(1e8, 10, 5)),
    ]);
    let machine = |release: &str| {
        let mut machine = MachineRecord::default();
        machine.kernel.release = Some(release.to_owned());
        machine.memory.available_bytes = Some(release.len() as u64);
        machine.taken_unix_ns = release.len() as u64;
        Some(machine)
    };
    (a.machine, b.machine) = (machine("6.1"), machine("6.18.2"));
    b.configurations[1]
        .target_record
        .as_mut()
        .unwrap()
        .mount_options = Some("rw,noatime".into());
    b.interrupted = true;
    let stored = |path, experiment| Stored { path, experiment };
    let found = compare(stored("A", &a), Some(stored("B", &b)), &Question::default()).unwrap();
    let names: Vec<(&str, &str)> = found
        .pairs
        .iter()
        .map(|p| (p.a.configuration.as_str(), p.b.configuration.as_str()))
        .collect();
    assert_eq!(names, [("ext4", "ext4"), ("old name", "new name")]);
    assert_eq!(found.not_compared.len(), 1);
    assert_eq!(found.not_compared[0].what, "gone");
    let differs: Vec<&str> = found.pairs[0]
        .differences
        .iter()
        .map(|d| d.what.as_str())
        .collect();
    assert_eq!(
        differs,
        ["machine.kernel.release", "target_record.mount_options"]
    );
    assert_eq!(found.pairs[0].differences[1].a, None);
    assert!(
        found
            .warnings
            .iter()
            .any(|w| w.contains("B: it was stopped")),
        "{found:?}"
    );
    assert!(
        found
            .warnings
            .iter()
            .any(|w| w.contains("one after the other")),
        "{found:?}"
    );
    let question = Question {
        configurations: vec!["old name".into(), "ext4".into()],
        ..Question::default()
    };
    let refused = compare(stored("A", &a), Some(stored("B", &b)), &question).unwrap_err();
    assert!(refused.to_string().contains("other workloads"), "{refused}");
}

#[test]
fn two_of_one_name_are_told_apart_in_words() {
    let [a, mut b] = [1, 2].map(|seed| {
        experiment(vec![configuration(
            "ext4",
            POSTMARK,
            &around(1e8, 10, seed),
        )])
    });
    b.configurations[0].stop = StopReason::MaxRuns;
    let stored = |path, experiment| Stored { path, experiment };
    let found = compare(
        stored("old", &a),
        Some(stored("new", &b)),
        &Question::default(),
    );
    let pair = &found.unwrap().pairs[0];
    assert!(
        pair.warnings[0].starts_with("ext4 in B: measuring ended"),
        "{pair:?}"
    );
    let text = &pair.metrics[0].text;
    assert!(
        text.contains("'ext4 in B' differs from 'ext4 in A'"),
        "{text}"
    );
}

#[test]
fn a_list_in_an_error_is_short() {
    let names: Vec<String> = (0..90).map(|n| format!("metric-{n}")).collect();
    assert_eq!(
        super::first_of(&names, 2, ", "),
        "metric-0, metric-1, and 88 more"
    );
    assert_eq!(super::first_of(&names[..2], 2, "; "), "metric-0; metric-1");
}
