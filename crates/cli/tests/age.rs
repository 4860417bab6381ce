//! `fsage age generate`: what it makes is an ordinary trace that any target carries out.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "processes are waited for"
)]

use crate::common;

use common::{root, run, temp, tool};
use fsage_core::OpKind;

use crate::age_apply::{Workload, made};

#[test]
fn a_generated_workload_is_shown_and_replayed_without_a_difference() {
    let dir = temp();
    let dir = dir.path();
    let line =
        "age generate --profile mail --size 16M --days 4 --fill 60% --scale 0.5 -o w.fst --json";
    let made = run(dir, line.split(' ')).exits(0).json();
    assert_eq!(made["made"]["days"], 4, "{made}");
    assert_eq!(made["format"], "fsage age generate");
    let shown = run(dir, ["show", "w.fst", "--json"]).exits(0).text();
    assert!(shown.contains("unlink"), "{shown}");
    if !root() || !tool("mkfs.ext4") {
        return;
    }
    let line = [
        "replay",
        "w.fst",
        "scratch:ext4,size=64M",
        "--verify",
        "--json",
    ];
    let replayed = run(dir, line).exits(0).json();
    assert_eq!(replayed["differ"], 0, "{replayed}");
    assert_eq!(replayed["verified"]["wrong"], 0, "{replayed}");
}

#[test]
fn a_model_that_is_played_day_after_day_is_a_workload_that_any_target_carries_out() {
    let dir = temp();
    let dir = dir.path();
    let traces = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/traces");
    for name in ["database", "failing", "mail", "threads", "build"] {
        let trace = traces.join(format!("{name}.fst")).display().to_string();
        run(dir, ["-q", "model", "fit", &trace, "-o", "m.fsm"]).exits(0);
        let generated = |days: &str, file: &str| {
            let line = format!("age generate --from-model m.fsm --days {days} -o {file} --json");
            run(dir, line.split(' ')).exits(0).json()["made"].take()
        };
        let (one, three) = (generated("1", "one.fst"), generated("3", "w.fst"));
        assert_eq!(three["kind"], "model");
        assert_eq!(three["source"], "m.fsm");
        assert_eq!(three["utilisation"].as_array().unwrap().len(), 3);
        let count = |made: &serde_json::Value, what: &str| made[what].as_u64().unwrap();
        let written = count(&three, "written_bytes");
        assert!(
            written > count(&one, "written_bytes"),
            "{name}: {one} {three}"
        );
        // A day's files are those of the trace again and again.
        let more = count(&three, "creates") - count(&one, "creates");
        assert!(more <= 2 * count(&one, "creates"), "{name}: {one} {three}");
        generated("3", "again.fst");
        let bytes = |file| std::fs::read(dir.join(file)).unwrap();
        assert_eq!(bytes("w.fst"), bytes("again.fst"), "{name}");
        let line = "replay w.fst mem:fast --verify --json";
        let replayed = run(dir, line.split(' ')).exits(0).json();
        assert_eq!(replayed["differ"], 0, "{name}: {replayed}");
        assert_eq!(replayed["verified"]["wrong"], 0, "{name}: {replayed}");
        std::fs::create_dir(dir.join(name)).unwrap();
        let line = format!("age apply w.fst {name} --json");
        let applied = run(dir, line.split(' ')).exits(0).json();
        assert_eq!(applied["tally"]["absent"], 0, "{name}: {applied}");
        assert_eq!(applied["tally"]["written_bytes"], written, "{name}");
    }
    run(
        dir,
        "age generate --from-model m.fsm --fill 80% -o w.fst".split(' '),
    )
    .fails(1, &["--fill is for profiles", "--size"]);
    run(dir, "age generate --from-model w.fst -o x.fst".split(' ')).fails(1, &["w.fst", "model"]);
    let mail = traces.join("mail.fst").display().to_string();
    run(dir, ["-q", "model", "fit", &mail, "-o", "m.cfg"]);
    run(dir, "age generate --from-model m.cfg -o x.fst".split(' '))
        .fails(1, &["m.cfg: it is a configuration of FileRunner", ".fsm"]);
}

/// The file lives until its last close, whatever it was called.
#[test]
fn what_is_written_to_a_file_that_was_removed_while_it_is_open_is_played() {
    let dir = temp();
    let dir = dir.path();
    let mut workload = Workload::new();
    for _ in 0..100 {
        let fd = workload.open("/tmp/spool", 0o302);
        workload.op(OpKind::Unlink, &["/tmp/spool"]);
        for at in 0..4 {
            workload.write(fd, at * 10_000, 10_000);
        }
        workload.close(fd);
    }
    // One that never closes it, as a program that ends.
    let last = workload.open("/tmp/last", 0o302);
    workload.op(OpKind::Unlink, &["/tmp/last"]);
    workload.write(last, 0, 5000);
    workload.save(&dir.join("del.fst"), &made(1, 0));
    run(dir, ["-q", "model", "fit", "del.fst", "-o", "del.fsm"]).exits(0);
    let line = "age generate --from-model del.fsm --days 2 -o w.fst --json";
    let found = run(dir, line.split(' ')).exits(0).json()["made"].take();
    assert_eq!(found["written_bytes"], 2 * (100 * 40_000 + 5000), "{found}");
    assert_eq!(found["creates"], found["removes"], "{found}");
    std::fs::create_dir(dir.join("target")).unwrap();
    let line = "age apply w.fst target --json";
    let applied = run(dir, line.split(' ')).exits(0).json();
    assert_eq!(applied["tally"]["absent"], 0, "{applied}");
    assert_eq!(applied["tally"]["written_bytes"], found["written_bytes"]);
    run(dir, ["age", "short-lived", "del.fst", "-o", "del.toml"]).exits(0);
    let learnt = std::fs::read_to_string(dir.join("del.toml")).unwrap();
    assert_eq!(learnt.matches("40000]").count(), 100, "{learnt}");
}

#[test]
fn what_is_for_snapshots_alone_is_not_passed_over() {
    let dir = temp();
    let dir = dir.path();
    for option in [
        "--short-lived s.toml",
        "--deletes uniform",
        "--by-group",
        "--inodes-per-group 8",
    ] {
        let name = option.split(' ').next().unwrap();
        let line = format!("age generate --profile mail {option} -o w.fst");
        let said = run(dir, line.split(' ')).exits(2).stderr;
        assert!(said.contains(name) && said.contains("--profile"), "{said}");
        assert!(!dir.join("w.fst").exists(), "{line}");
    }
}

#[test]
fn what_cannot_be_made_is_said_and_nothing_is_written() {
    let dir = temp();
    let dir = dir.path();
    let fails = |line: &str, code, words: &[&str]| {
        run(dir, line.split(' ')).fails(code, words);
        assert!(!dir.join("w.fst").exists(), "{line}");
    };
    fails(
        "age generate --profile hme -o w.fst",
        2,
        &["home-1996", "mail"],
    );
    fails(
        "age generate --profile mail --fill 97% -o w.fst",
        2,
        &["0.95"],
    );
    fails(
        "age generate --profile mail --size 2M -o w.fst",
        2,
        &["16777216"],
    );
    fails("age generate --profile mail -o no/w.fst", 1, &["no/w.fst"]);
    run(dir, ["age", "generate", "-o", "w.fst"]).exits(2);
    // Nights that are none of one file system, in order and whole.
    for (name, tree) in [("1", "tree"), ("2", "tree"), ("other", "elsewhere")] {
        let tree = dir.join(tree);
        std::fs::create_dir_all(&tree).unwrap();
        std::fs::write(tree.join(name), name).unwrap();
        let file = format!("{name}.fss");
        let snapshot = [
            "snapshot".as_ref(),
            tree.as_os_str(),
            "-o".as_ref(),
            file.as_ref(),
        ];
        run(dir, snapshot).exits(0);
    }
    let whole = std::fs::read(dir.join("2.fss")).unwrap();
    std::fs::write(dir.join("cut.fss"), &whole[..whole.len() - 20]).unwrap();
    for (first, second, words) in [
        ("2.fss", "1.fss", ["b.fss", "out of order"]),
        (
            "1.fss",
            "other.fss",
            ["b.fss", "different file systems: directory"],
        ),
        ("1.fss", "cut.fss", ["b.fss", "the snapshot has no end"]),
    ] {
        let nights = dir.join("nights");
        std::fs::create_dir_all(&nights).unwrap();
        std::fs::copy(dir.join(first), nights.join("a.fss")).unwrap();
        std::fs::copy(dir.join(second), nights.join("b.fss")).unwrap();
        fails("age generate --from-snapshots nights -o w.fst", 1, &words);
    }
    std::fs::copy(dir.join("2.fss"), dir.join("nights/b.fss")).unwrap();
    // What would do nothing is not taken.
    for (option, word) in [("--scale 2", "--short-lived"), ("--days 3000", "of 2 days")] {
        let line = format!("age generate --from-snapshots nights {option} -o w.fst");
        fails(&line, 1, &[word]);
    }
    run(
        dir,
        [
            "age",
            "generate",
            "--from-snapshots",
            "nights",
            "-o",
            "w.fst",
        ],
    )
    .exits(0);
}
