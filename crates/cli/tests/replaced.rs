//! Which files a result may take the place of.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]

use crate::common;

use common::{profile, run, small_trace, temp};

const SCRIPT: &str = "#!/usr/bin/env python3\nimport os\nprint(os.getcwd())\n";

#[test]
fn what_fsage_did_not_write_is_not_replaced() {
    let dir = temp();
    let dir = dir.path();
    small_trace(dir);
    std::fs::create_dir(dir.join("t")).unwrap();
    std::fs::write(dir.join("key"), "a key of sixteen bytes or more").unwrap();
    let strace = ["export", "small.fst", "--to", "strace", "-o", "s.txt"];
    run(dir, strace).exits(0);
    run(dir, ["model", "fit", "small.fst", "-o", "m.fsm"]);
    run(dir, ["snapshot", "tree", "-o", "tree.fss"]).exits(0);
    let ext4 = profile("ext4").display().to_string();
    let small = "postmark:files=5,transactions=10";
    let lines: [(&str, &[&str]); 19] = [
        ("o.fst", &["trace", "-o", "o.fst", "--", "true"]),
        ("o.fss", &["snapshot", "tree", "-o", "o.fss"]),
        ("o.json", &["run", small, "t", "-o", "o.json"]),
        ("r.fst", &["run", small, "t", "--trace", "r.fst"]),
        ("w.fst", &["run", small, "--to-trace", "w.fst"]),
        ("p.json", &["replay", "small.fst", "t", "-o", "p.json"]),
        ("p.fst", &["replay", "small.fst", "t", "--trace", "p.fst"]),
        (
            "o.fsp",
            &["profile", "t", "--quick", "--only", "BS", "-o", "o.fsp"],
        ),
        (
            "a.fst",
            &["predict", "small.fst", "--on", &ext4, "--annotate", "a.fst"],
        ),
        (
            "i.fst",
            &["import", "s.txt", "--from", "strace", "-o", "i.fst"],
        ),
        (
            "e.csv",
            &["export", "small.fst", "--to", "csv", "-o", "e.csv"],
        ),
        (
            "e.txt",
            &["export", "small.fst", "--to", "strace", "-o", "e.txt"],
        ),
        (
            "e.hb",
            &["export", "small.fst", "--to", "hbench", "-o", "e.hb"],
        ),
        (
            "s.hb",
            &["export", "tree.fss", "--to", "hbench", "-o", "s.hb"],
        ),
        ("e.f", &["export", "m.fsm", "--to", "wml", "-o", "e.f"]),
        (
            "h.fst",
            &["anonymize", "small.fst", "--key-file", "key", "-o", "h.fst"],
        ),
        ("n.fsm", &["model", "fit", "small.fst", "-o", "n.fsm"]),
        ("n.cfg", &["model", "fit", "small.fst", "-o", "n.cfg"]),
        ("l.svg", &["layout", "tree.fss", "--svg", "l.svg"]),
    ];
    for (out, line) in lines {
        let file = dir.join(out);
        std::fs::write(&file, SCRIPT).unwrap();
        run(dir, line).fails(1, &[out, "a text file", "remove it first"]);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), SCRIPT, "{line:?}");
        // An empty one is nobody's, and fsage's own is written anew.
        std::fs::write(&file, "").unwrap();
        for _ in 0..2 {
            let ran = run(dir, line);
            assert!(matches!(ran.code(), 0 | 3), "{line:?}: {}", ran.stderr);
            assert!(file.metadata().unwrap().len() > 0, "{line:?}");
        }
    }
}

#[test]
fn nor_is_it_by_what_ages() {
    let dir = temp();
    let dir = dir.path();
    small_trace(dir);
    std::fs::create_dir(dir.join("t")).unwrap();
    std::fs::write(dir.join("s.txt"), SCRIPT).unwrap();
    for line in [
        ["age", "generate", "--profile", "mail", "-o", "s.txt"],
        ["age", "keep", "t", "-o", "s.txt", "-q"],
    ] {
        run(dir, line).fails(1, &["s.txt", "remove it first"]);
    }
    run(dir, ["age", "short-lived", "small.fst", "-o", "s.txt"]).fails(1, &["remove it first"]);
}

/// A model may have been edited, and is replaced by a model alone.
#[test]
fn a_model_is_replaced_by_a_model_alone() {
    let dir = temp();
    let dir = dir.path();
    small_trace(dir);
    std::fs::write(dir.join("m.fsm"), "format = \"fsm\"\n").unwrap();
    run(dir, ["snapshot", "tree", "-o", "m.fsm"]).fails(1, &["m.fsm", "a model"]);
    let ran = run(dir, ["model", "fit", "small.fst", "-o", "m.fsm"]);
    assert!(matches!(ran.code(), 0 | 3), "{}", ran.stderr);
}

#[test]
fn devices_are_written_to() {
    let dir = temp();
    let dir = dir.path();
    small_trace(dir);
    run(dir, ["snapshot", "tree", "-o", "/dev/null"]).exits(0);
    run(dir, ["trace", "-o", "/dev/null", "--", "true"]).exits(0);
}
