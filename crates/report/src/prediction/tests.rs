use fsage_format::result::prediction::{
    CacheUse, Caches, Changed, Confidence, ContextClass, ContextRecord, FamilyShare, Help,
    Incomplete, KindPrediction, MetricShare, PairRank, Prediction, Ranked, TargetPrediction,
    Uncertainty,
};

use super::{range, text as answer};

const S: f64 = 1e9;

fn text(result: &Prediction, width: u16) -> String {
    answer(result, false, width)
}

fn target(name: &str, elapsed: f64, latency: f64) -> TargetPrediction {
    let none = CacheUse::new(0, 0);
    let family = |family: &str, what: &str, share: f64| FamilyShare {
        family: family.into(),
        what: what.into(),
        time_ns: share * latency,
        share,
    };
    TargetPrediction {
        name: name.into(),
        incomplete: None,
        latency_total_ns: Some(latency),
        latency_interval_ns: Some((latency / 1.7, latency * 1.7)),
        device_ns: latency / 3.0,
        waiting_ns: 0.0,
        processor_wait_ns: 0.0,
        elapsed_ns: Some(elapsed),
        elapsed_interval_ns: Some((elapsed / 1.3, elapsed * 1.3)),
        uncertainty: Uncertainty::default(),
        writeback_ns: 0.0,
        writeback_slowdown: 0.0,
        utilization: 0.1,
        write_kib_per_s: 0.0,
        reference_ns: None,
        kinds: ["open", "read", "write", "fsync", "close", "stat", "unlink"]
            .map(|kind| KindPrediction {
                kind: kind.into(),
                count: 1_234_567,
                latency_ns: latency / 7.0,
                waiting_ns: 0.0,
                processor_wait_ns: 0.0,
                interval_ns: None,
                share: 1.0 / 7.0,
            })
            .into(),
        caches: Caches {
            page: none,
            name: none,
            attribute: none,
        },
        metrics: vec![],
        families: vec![
            family(
                "FSYN",
                "fsync of a new file with data, by its size in blocks",
                0.4,
            ),
            family(
                "RFO",
                "first read of 4 KiB of an uncached file in another directory",
                0.3,
            ),
            family("CR", "create of a file", 0.2),
            family("OPEN", "open of an existing file", 0.1),
        ],
        helps: vec![Help {
            change: "fsync*0.5".into(),
            what: "fsync in half the time".into(),
            saves_ns: latency * 0.2,
            share: 0.2,
            elapsed_saved_ns: Some(elapsed * 0.1),
        }],
        what_if: None,
        warnings: vec!["X was not measured".into()],
    }
}

fn metric((name, share): (&str, f64)) -> MetricShare {
    MetricShare {
        name: name.into(),
        what: String::new(),
        weight: 1.0,
        time_ns: share * S,
        share,
    }
}

/// What is deducted stands apart: the column is one of shares of the time that the metrics add up to.
#[test]
fn shares_of_metrics_add_up_beside_what_is_deducted() {
    let mut one = target("ext4", 8.0 * S, 2.0 * S);
    one.metrics = [("WE1", 1.5), ("CR", 0.8), ("WD1_G1", -0.2), ("WD1", -0.1)]
        .map(metric)
        .into();
    let all = answer(&prediction(vec![one.clone()], 0.8), true, 80);
    fits_width(&all);
    let cells = |name: &str| -> Vec<String> {
        let row = all.lines().rfind(|l| l.starts_with(&format!(" {name} ")));
        let row = row.unwrap_or_else(|| panic!("{name}: {all}"));
        row.split("  ")
            .map(str::trim)
            .filter(|c| !c.is_empty())
            .map(str::to_owned)
            .collect()
    };
    for (name, time, share) in [
        ("WE1", "1.5 s", "75.0 %"),
        ("CR", "800 ms", "40.0 %"),
        ("less", "-300 ms", "-15.0 %"),
        ("total", "2 s", "100.0 %"),
    ] {
        let cells = cells(name);
        let has = |what: &str| cells.iter().any(|c| c == what);
        assert!(has(time) && has(share), "{name}: {cells:?}\n{all}");
    }
    let words = all.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("deducted:"), "{all}");
    // Without any there is neither a row for them nor a total beside the shares.
    one.metrics.truncate(2);
    let all = answer(&prediction(vec![one], 0.8), true, 80);
    assert!(!all.contains(" less "), "{all}");
}

fn fits_width(said: &str) {
    for line in said.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

fn confidence(p: f64) -> Confidence {
    match p {
        p if p >= 0.95 => Confidence::Apart,
        p if p >= 0.75 => Confidence::Likely,
        _ => Confidence::NotDistinguishable,
    }
}

fn prediction(targets: Vec<TargetPrediction>, p: f64) -> Prediction {
    let mut whole: Vec<_> = targets.iter().filter(|t| t.incomplete.is_none()).collect();
    whole.sort_by(|a, b| a.elapsed_ns.unwrap().total_cmp(&b.elapsed_ns.unwrap()));
    let elapsed = |t: &TargetPrediction| t.elapsed_ns.unwrap();
    let ranking: Vec<Ranked> = whole
        .iter()
        .zip(1..)
        .map(|(t, place)| Ranked {
            place,
            name: t.name.clone(),
            elapsed_ns: elapsed(t),
            latency_total_ns: t.latency_total_ns.unwrap(),
            ratio: elapsed(t) / elapsed(whole[0]),
            disturbed: false,
            place_told: Some(place),
        })
        .collect();
    let mut pairs = Vec::new();
    for (i, a) in ranking.iter().enumerate() {
        for b in &ranking[i + 1..] {
            pairs.push(PairRank {
                faster: a.name.clone(),
                slower: b.name.clone(),
                ratio: b.elapsed_ns / a.elapsed_ns,
                probability: p,
                confidence: confidence(p),
                latency_ratio: b.latency_total_ns / a.latency_total_ns,
                latency_probability: p,
                same_target: false,
            });
        }
    }
    Prediction {
        format: String::new(),
        version: 3,
        operations: 10,
        operations_charged: 10,
        traced_run_ns: 0,
        traced_latency_ns: 0,
        cache: "linux".into(),
        start: "cold".into(),
        what_if: vec![],
        targets,
        ranking,
        pairs,
        context: None,
        warnings: vec![],
    }
}

fn fits(text: &str) {
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() <= 24, "{} lines:\n{text}", lines.len());
    assert!(lines.iter().all(|l| l.chars().count() <= 80), "{text}");
    for line in &lines {
        let first = line.split_whitespace().next().unwrap_or_default();
        assert!(
            !["ms", "us", "s", "%"].contains(&first),
            "a unit is split off:\n{text}"
        );
    }
}

#[test]
fn four_systems_fit_a_screen() {
    let names = ["ext4-on-the-first-disk", "xfs", "btrfs on nvme", "ext2"];
    let all = [1.0, 2.0, 3.0, 4.5].map(|f| f * 115.0 * S);
    let targets = names.iter().zip(all).map(|(n, ns)| target(n, ns, ns * 0.9));
    let said = text(&prediction(targets.collect(), 0.97), 80);
    fits(&said);
    assert!(
        said.starts_with("ext4-on-the-first-disk is the fastest: 115 s elapsed"),
        "{said}"
    );
    assert!(
        said.contains("97 %") && said.contains("x4.50") && said.contains("10 % other"),
        "{said}"
    );
    assert!(!said.contains("surely"), "{said}");
    for width in [60, 100, 160] {
        let said = text(
            &prediction(vec![target("a", S, S), target("b", 2.0 * S, S)], 0.9),
            width,
        );
        assert!(
            said.lines()
                .all(|l| l.chars().count() <= usize::from(width)),
            "{said}"
        );
    }
}

#[test]
fn where_the_file_system_hardly_matters_it_says_so() {
    let targets = vec![
        target("ext4", 8.0 * S, 0.035 * S),
        target("btrfs", 8.2 * S, 0.371 * S),
    ];
    let said = text(&prediction(targets, 0.8), 80);
    fits(&said);
    let finding =
        "The file system hardly matters: 8 s to 8.2 s everywhere; 35 ms to 371 ms of it in";
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.starts_with(finding), "{words}");
    assert!(
        !words.contains("(best)") && !words.contains("(worst)"),
        "{words}"
    );
}

#[test]
fn where_it_is_most_of_the_time_it_matters_however_alike_systems_are() {
    let targets = vec![
        target("ext4", 8.0 * S, 7.7 * S),
        target("xfs", 8.2 * S, 7.9 * S),
    ];
    let said = text(&prediction(targets, 0.55), 80);
    assert!(!said.contains("hardly matters"), "{said}");
    assert!(
        said.starts_with("ext4 and xfs cannot be told apart: 8 s to 8.2 s"),
        "{said}"
    );
    let little = |names: &[&str], share: f64| {
        let targets = names.iter().map(|name| target(name, 8.0 * S, share * S));
        targets.collect::<Vec<_>>()
    };
    let said = text(&prediction(little(&["ext4", "xfs"], 0.8), 0.5), 80);
    assert!(said.contains("hardly matters"), "{said}");
    let said = text(&prediction(little(&["ext4", "xfs"], 0.9), 0.5), 80);
    assert!(!said.contains("hardly matters"), "{said}");
    // Of one system alone, or while another is unknown, nobody can tell.
    let said = text(&prediction(little(&["ext4"], 0.1), 0.5), 80);
    assert!(!said.contains("hardly matters"), "{said}");
    let mut three = little(&["ext4", "xfs", "btrfs"], 0.1);
    three[2].incomplete = Some(Incomplete {
        reason: "FSY not measured".into(),
        missing: vec![],
        partial_latency_ns: 0.0,
    });
    let said = text(&prediction(three, 0.5), 80);
    assert!(!said.contains("hardly matters"), "{said}");
}

#[test]
fn no_order_is_told_of_what_was_disturbed() {
    let mut targets = vec![
        target("ext4", 8.0 * S, 7.0 * S),
        target("xfs", 19.0 * S, 18.0 * S),
    ];
    targets[1].uncertainty.marked_share = 0.51;
    let said = text(&prediction(targets, 0.5), 80);
    fits(&said);
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let finding = "ext4 and xfs: 8 s to 19 s elapsed, too disturbed to tell which is faster: profile xfs \
                   again.";
    assert!(words.starts_with(finding), "{said}");
    for order in ["fastest ", "  best\n", "(best)", "(worst)", "probably"] {
        assert!(!said.contains(order), "{order}: {said}");
    }
    assert!(
        said.contains("x2.38, disturbed") && said.contains("6.2–10 s"),
        "{said}"
    );
}

#[test]
fn one_disturbed_profile_hides_no_finding_of_the_others() {
    let names: Vec<String> = (0..11).map(|n| format!("system-{n}")).collect();
    for disturbed in [0, 4, 10] {
        let targets = names.iter().zip(1..);
        let targets = targets.map(|(n, f)| target(n, f64::from(f) * S, f64::from(f) * 0.9 * S));
        let mut all = prediction(targets.collect(), 0.97);
        all.targets[disturbed].uncertainty.marked_share = 0.6;
        // As `rank` tells of what was disturbed.
        for pair in &mut all.pairs {
            if [&pair.faster, &pair.slower].contains(&&names[disturbed]) {
                (pair.probability, pair.confidence) = (0.5, confidence(0.5));
            }
        }
        for width in [80, 160] {
            let said = text(&all, width);
            let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
            let best = i32::from(disturbed == 0);
            let finding = format!(
                "system-{best} is the fastest: {} s elapsed; system-",
                best + 1
            );
            assert!(words.starts_with(&finding), "{said}");
            assert!(
                words.contains("(best)") && !words.contains("too disturbed"),
                "{said}"
            );
            let caution = format!("without system-{disturbed}, whose profile was disturbed");
            assert!(words.contains(&caution), "{said}");
            assert!(words.contains("profile it again"), "{said}");
            let row = said
                .lines()
                .find(|l| l.starts_with(&format!(" system-{best} ")));
            assert!(row.unwrap().ends_with("  best"), "{said}");
            let row = said
                .lines()
                .find(|l| l.starts_with(&format!(" system-{disturbed} ")));
            assert!(row.unwrap().ends_with(", disturbed"), "{said}");
            assert!(
                words.contains(&format!("60 % of the time on system-{disturbed} stands")),
                "{said}"
            );
        }
        // With the words that its probability allows.
        for pair in &mut all.pairs {
            pair.probability = pair.probability.min(0.8);
            pair.confidence = confidence(pair.probability);
        }
        assert!(text(&all, 80).contains("is probably the fastest"));
    }
}

#[test]
fn the_answer_of_a_what_if_comes_first() {
    let mut targets: Vec<_> = ["ext4", "xfs", "btrfs", "ext2"]
        .iter()
        .zip(2..)
        .map(|(name, f)| target(name, f64::from(f) * S, f64::from(f) * S))
        .collect();
    for target in &mut targets {
        let elapsed = target.elapsed_ns.unwrap();
        target.what_if = Some(Changed {
            latency_total_ns: elapsed * 0.7,
            latency_interval_ns: None,
            difference_ns: elapsed * -0.3,
            writeback_ns: 0.0,
            elapsed_ns: elapsed * 0.75,
            elapsed_difference_ns: elapsed * -0.25,
            kinds: vec![],
            effects: vec![],
        });
    }
    let asked = |number: usize| {
        let mut all = prediction(targets[..number].to_vec(), 0.97);
        all.what_if = vec!["fsync*0.5".into()];
        text(&all, 80)
    };
    let one = asked(1);
    fits(&one);
    let words = one.split_whitespace().collect::<Vec<_>>().join(" ");
    let effect = "What if fsync*0.5: on ext4 elapsed 2 s becomes 1.5 s (-25.0 %), in the file system 2 s becomes 1.4 s.";
    assert!(words.starts_with(effect), "{one}");
    assert!(
        words.contains("As profiled: On ext4 it would take 2 s"),
        "{one}"
    );
    let mut much = prediction(targets[..1].to_vec(), 0.97);
    much.what_if = vec!["fsync*1000".into()];
    much.targets[0].what_if.as_mut().unwrap().elapsed_ns = 4e12;
    assert!(text(&much, 80).contains("(x2000)"), "{}", text(&much, 80));
    let mut none = prediction(targets[..1].to_vec(), 0.97);
    none.what_if = vec!["fsync*0.5".into()];
    let before = none.targets[0].elapsed_ns.unwrap();
    none.targets[0].what_if.as_mut().unwrap().elapsed_ns = before * (1.0 + 1e-6);
    let none = text(&none, 80);
    assert!(
        none.contains("elapsed 2 s hardly changes, in the file"),
        "{none}"
    );
    let two = asked(2);
    fits(&two);
    let lines: Vec<&str> = two.lines().collect();
    assert_eq!(lines[0], "What if fsync*0.5:");
    assert!(
        lines[1].starts_with("  on ext4 elapsed 2 s becomes 1.5 s"),
        "{two}"
    );
    let four = asked(4);
    let lines: Vec<&str> = four.lines().collect();
    assert!(
        lines[0] == "What if fsync*0.5:" && lines[3].starts_with(" ext4 "),
        "{four}"
    );
    assert!(lines[3].contains("1.5 s  -25.0 %"), "{four}");
}

#[test]
fn what_is_less_sure_than_95_percent_is_no_fact() {
    let words = |p: f64, last: f64| {
        let targets = ["a", "b", "c"].iter().zip([1.0, 2.0, 3.0]);
        let targets = targets
            .map(|(name, f)| target(name, f * S, f * S))
            .collect();
        let mut all = prediction(targets, p);
        // The last two of each other.
        let pair = all.pairs.last_mut().unwrap();
        (pair.probability, pair.confidence) = (last, confidence(last));
        let said = text(&all, 200);
        said.lines().take(2).collect::<Vec<_>>().join("\n")
    };
    let said = words(0.97, 0.96);
    assert!(
        said.contains("a is the fastest: 1 s") && said.contains("c is the slowest: 3 s"),
        "{said}"
    );
    assert!(
        said.contains("it is 50 % slower than b: probability 96 %"),
        "{said}"
    );
    let said = words(0.8, 0.8);
    assert!(
        said.contains("a is probably the fastest") && said.contains("c is probably the slowest"),
        "{said}"
    );
    let said = words(0.97, 0.6);
    assert!(
        said.contains("b and c are the slowest and cannot be told apart: 2 s to 3 s elapsed")
            && said.contains("b takes 2.0 times as long as a: probability 97 %"),
        "{said}"
    );
    assert!(!words(0.6, 0.6).contains("slowest"));
}

#[test]
fn what_makes_it_doubtful_is_said_once_for_all_systems() {
    let mut targets = vec![
        target("ext4", 8.0 * S, 7.0 * S),
        target("xfs", 9.0 * S, 8.0 * S),
    ];
    for target in &mut targets {
        let u = &mut target.uncertainty;
        (u.unplaced_share, u.carrying) = (0.9, 9);
        u.marked = vec!["RFF".into(); 7];
        // What is marked beside these adds to the share of all, not to theirs.
        u.marked_share = 0.9;
        target.metrics = [("RFF", 0.82), ("CR", 0.1)].map(metric).into();
    }
    let said = text(&prediction(targets, 0.9), 80);
    fits(&said);
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("7 of 9 on ext4 (82 % of its time), 7 of 9 on xfs"),
        "{words}"
    );
    assert!(
        words.contains("90 % on ext4, 90 % on xfs hangs on where files lie"),
        "{words}"
    );
    assert!(words.contains("help most on ext4:"), "{words}");
}

#[test]
fn doubts_about_every_one_of_four_systems_fit_the_screen_too() {
    let names = ["ext4-on-the-first-disk", "xfs", "btrfs on nvme", "ext2"];
    let all = [1.0, 2.0, 3.0, 4.5].map(|f| f * 115.0 * S);
    let targets = names.iter().zip(all).map(|(name, ns)| {
        let mut target = target(name, ns, ns * 0.9);
        let u = &mut target.uncertainty;
        (u.marked_share, u.unplaced_share, u.carrying) = (0.42, 0.9, 9);
        u.marked = vec!["RFF".into(); 7];
        u.trouble =
            Some("31 % of it stands on metrics of fewer than 3 samples (FDSO, FSYN16, RFF)".into());
        target.waiting_ns = ns * 0.1;
        target
    });
    let said = text(&prediction(targets.collect(), 0.8), 80);
    fits(&said);
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for reported in [
        "up to 42 % of the time on 4 of 4 targets stands on metrics that were disturbed",
        "4 of 4 intervals are doubtful; 4 more things to know: --details.",
        "(--snapshot, made after `sync`)",
        "On ext4-on-the-first-disk (best)",
    ] {
        assert!(words.contains(reported), "{reported}:\n{said}");
    }
}

#[test]
fn an_unusable_interval_and_an_empty_trace_are_said_plainly() {
    let mut wide = target("ext4", 8.0 * S, 7.0 * S);
    wide.elapsed_interval_ns = None;
    let said = text(&prediction(vec![wide], 0.5), 80);
    assert!(said.contains("too wide"), "{said}");
    let mut empty = target("ext4", 0.0, 0.0);
    (empty.kinds, empty.families, empty.helps) = (vec![], vec![], vec![]);
    let said = text(&prediction(vec![empty], 0.5), 80);
    assert!(!said.contains("of 0 ns") && !said.contains(": ."), "{said}");
}

#[test]
fn what_it_takes_for_granted_is_said() {
    let mut one = prediction(vec![target("ext4", 8.0 * S, 7.0 * S)], 0.8);
    let said = text(&one, 80);
    assert!(
        said.ends_with("Caches are cold at the start (--start warm).\n"),
        "{said}"
    );
    one.start = "warm".into();
    one.operations_charged = 0;
    let said = text(&one, 80);
    assert!(said.contains("Caches are warm at the start (--start cold)."));
    assert!(
        said.starts_with("Nothing is predicted: of 10 operations of the trace none"),
        "{said}"
    );
}

/// In one line.
fn plain(said: &str) -> String {
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn by_what_costs_were_corrected_is_said_and_shown() {
    let mut result = prediction(vec![target("ext4", 10.0 * S, 8.0 * S)], 0.5);
    assert!(!text(&result, 80).contains("corrected"));
    let class = |kind: &str, measured_ns: f64, factor: f64| ContextClass {
        kind: kind.into(),
        operations: 1234,
        measured_ns,
        predicted_ns: S,
        factor,
    };
    result.context = Some(ContextRecord {
        system: "home".into(),
        classes: vec![class("stat", S, 1.0), class("read", 1.5 * S, 1.33)],
    });
    let said = text(&result, 80);
    assert!(
        plain(&said).contains("corrected by what the trace's calls took on home"),
        "{said}"
    );
    fits(&said);
    let all = answer(&result, true, 80);
    let rows: Vec<&str> = all
        .lines()
        .filter(|line| line.contains(" 1,234 "))
        .collect();
    assert_eq!(rows.len(), 2, "{all}");
    assert!(
        rows[0].contains("read") && rows[0].ends_with("x1.33"),
        "the largest first: {all}"
    );
}

#[test]
fn what_lacks_costs_stands_last_without_a_number() {
    let mut broken = target("broken", 1.0, 1.0);
    (broken.latency_total_ns, broken.elapsed_ns) = (None, None);
    (broken.kinds, broken.families) = (vec![], vec![]);
    broken.incomplete = Some(Incomplete {
        reason: "FSY, RC not measured, needed 17 times".into(),
        missing: vec![],
        partial_latency_ns: 12_345.0,
    });
    let whole = target("ext4", 8.0 * S, 7.0 * S);
    let said = text(&prediction(vec![broken.clone(), whole], 0.8), 80);
    fits(&said);
    let row = |name: &str| {
        said.lines()
            .position(|l| l.trim_start().starts_with(name))
            .unwrap()
    };
    let lines: Vec<&str> = said.lines().collect();
    assert!(
        said.contains("broken is incomplete: FSY, RC not measured, needed 17 times."),
        "{said}"
    );
    let table = lines.iter().position(|l| l.contains("──")).unwrap();
    assert!(
        lines[table + 1].contains("ext4") && lines[table + 2].contains("incomplete"),
        "{said}"
    );
    assert!(row("broken") < table && !said.contains("12.3 us"), "{said}");
    let said = text(&prediction(vec![broken], 0.8), 80);
    assert!(said.starts_with("No target can be predicted"), "{said}");
}

#[test]
fn one_system_has_its_kinds_and_the_rest_is_a_row() {
    let one = prediction(vec![target("ext4", 8.0 * S, 7.0 * S)], 0.8);
    let said = text(&one, 80);
    fits(&said);
    assert!(
        said.contains("2 others") && said.contains("total") && said.contains("100.0 %"),
        "{said}"
    );
    let all = answer(&one, true, 80);
    assert!(
        all.starts_with(&said.split("1 more").next().unwrap()[..60]) && all.contains("hit rates")
    );
    assert!(
        said.contains("1 more thing to know: --details") && !all.contains("--details"),
        "{all}"
    );
}

#[test]
fn intervals_are_in_one_unit() {
    assert_eq!(range(Some((6.1e9, 10.7e9)), 8e9), "6.1–11 s");
    assert_eq!(range(Some((110e6, 240e6)), 170e6), "110–240 ms");
    assert_eq!(range(Some((0.5e9, 1.5e9)), 1e9), "0.50–1.5 s");
    assert_eq!(range(Some((600e9, 900e9)), 700e9), "10–15 min");
    // In that of the time beside it: `530 ms`, `52.1 s`.
    assert_eq!(range(Some((0.22e9, 1.3e9)), 530e6), "220–1,300 ms");
    assert_eq!(range(Some((21.6e9, 126e9)), 52.1e9), "22–126 s");
    assert_eq!(range(None, 1e9), "unusable");
}

#[test]
fn an_older_prediction_is_not_given_an_order_that_it_did_not_have() {
    let mut old = prediction(vec![target("a", S, S), target("b", 2.0 * S, S)], 0.0);
    old.ranking.clear();
    let said = text(&old, 80);
    assert!(
        said.contains("predict again") && said.contains("on b"),
        "{said}"
    );
    assert!(
        !said.contains("fastest") && !said.contains("against the best"),
        "{said}"
    );
}

fn order(p: [f64; 6]) -> String {
    let all = [1.0, 1.03, 1.07, 1.13];
    let targets = ["a", "b", "c", "d"].iter().zip(all);
    let targets = targets
        .map(|(name, f)| target(name, f * S, f * S))
        .collect();
    let mut all = prediction(targets, 0.5);
    for (pair, p) in all.pairs.iter_mut().zip(p) {
        (pair.probability, pair.confidence) = (p, confidence(p));
    }
    let said = text(&all, 400);
    said.lines().take(2).collect::<Vec<_>>().join("\n")
}

/// Of the pairs ab, ac, ad, bc, bd, cd.
#[test]
fn the_words_follow_from_the_pairs() {
    // c cannot be told from b, nor b from a: then nothing is said of c and d.
    let said = order([0.71, 0.82, 0.95, 0.703, 0.92, 0.6]);
    assert!(said.starts_with("a and b cannot be told apart"), "{said}");
    assert!(!said.contains("slowest"), "{said}");
    // d is told from each, c from none: the pair that is least sure is told.
    let said = order([0.6, 0.7, 0.99, 0.6, 0.97, 0.8]);
    assert!(
        said.contains(
            "d is probably the slowest: 1.13 s elapsed; it is 6 % slower than c: probability 80 %"
        ),
        "{said}"
    );
    // b and c are told apart from each other, but not from a.
    let said = order([0.7, 0.7, 0.99, 0.8, 0.99, 0.99]);
    assert!(
        said.starts_with("a cannot be told apart from b and c:"),
        "{said}"
    );
    let said = order([0.99, 0.99, 0.99, 0.6, 0.8, 0.6]);
    assert!(
        said.contains(
            "b, c and d are the slowest: 1.03 s to 1.13 s elapsed; b is 3 % slower than a"
        ),
        "{said}"
    );
}

#[test]
fn times_that_are_written_alike_are_no_range() {
    let targets = vec![target("a", 1.011 * S, S), target("b", 1.0111 * S, S)];
    let said = text(&prediction(targets, 0.5), 200);
    assert!(
        said.contains("cannot be told apart: 1.01 s elapsed"),
        "{said}"
    );
}

#[test]
fn what_helps_is_reported_by_its_what_if() {
    let mut one = target("ext4", 2.0 * S, 20.0 * S);
    one.helps[0].saves_ns = 14.0 * S;
    let said = |t: &super::TargetPrediction| text(&prediction(vec![t.clone()], 0.5), 400);
    assert!(
        said(&one).contains("fsync in half the time saves 200 ms of 2 s elapsed (--what-if"),
        "{}",
        said(&one)
    );
    one.helps[0].elapsed_saved_ns = Some(0.0);
    assert!(
        said(&one).contains(
            "saves 14 s in the file system (--what-if 'fsync*0.5'), and less than 1 % of"
        ),
        "{}",
        said(&one)
    );
    // As older releases kept it: of calls alone.
    one.helps[0].elapsed_saved_ns = None;
    let old = said(&one);
    assert!(
        old.contains("saves 14 s in the file system (--what-if 'fsync*0.5')."),
        "{old}"
    );
}
