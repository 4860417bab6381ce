//! Which files a result may take the place of.

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

use std::path::Path;

use common::{fsage, profile, run, small_trace, start, temp, until};

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

/// Text of strace that others recorded looks as what fsage makes of a trace; a drawing and a script may be anybody's.
#[test]
fn what_looks_like_fsages_stays_where_it_is_not() {
    let dir = temp();
    let dir = dir.path();
    small_trace(dir);
    run(dir, ["model", "fit", "small.fst", "-o", "m.fsm"]);
    run(dir, ["snapshot", "tree", "-o", "tree.fss"]).exits(0);
    let recorded = "1 1700000000.000000000 openat(AT_FDCWD, \"f\", O_RDONLY) = 3 <0.000010>\n";
    let logo = "<svg width=\"24\" height=\"24\" xmlns=\"http://www.w3.org/2000/svg\"/>\n";
    let strace = ["export", "small.fst", "--to", "strace", "-o", "mine.strace"];
    let plot = ["layout", "tree.fss", "--svg", "logo.svg"];
    for (file, text, line) in [
        ("mine.strace", recorded, &strace[..]),
        ("logo.svg", logo, &plot[..]),
    ] {
        std::fs::write(dir.join(file), text).unwrap();
        run(dir, line).fails(1, &[file, "remove it first"]);
        assert_eq!(std::fs::read_to_string(dir.join(file)).unwrap(), text);
    }
    for (kind, file) in [("wml", "e.wml"), ("fio", "e.fio"), ("filebench", "e.f")] {
        let line = ["export", "m.fsm", "--to", kind, "-o", file];
        for _ in 0..2 {
            let ran = run(dir, line);
            assert!(matches!(ran.code(), 0 | 3), "{kind}: {}", ran.stderr);
        }
        let edited = std::fs::read_to_string(dir.join(file)).unwrap();
        let edited = edited.replacen('=', "= ", 1);
        std::fs::write(dir.join(file), &edited).unwrap();
        run(dir, line).fails(1, &[file, "edited", "remove it first"]);
        assert_eq!(std::fs::read_to_string(dir.join(file)).unwrap(), edited);
    }
}

/// A measurement is as precious as a script.
#[test]
fn a_file_of_fsages_is_replaced_by_one_of_its_kind_alone() {
    let dir = temp();
    let dir = dir.path();
    small_trace(dir);
    std::fs::create_dir(dir.join("t")).unwrap();
    std::fs::write(dir.join("key"), "a key of sixteen bytes or more").unwrap();
    run(dir, ["snapshot", "tree", "-o", "v.fss"]).exits(0);
    let hide = |from, to| ["anonymize", from, "--key-file", "key", "-o", to];
    run(dir, hide("small.fst", "v.fss")).fails(1, &["v.fss", "a snapshot", "a trace"]);
    run(dir, ["show", "v.fss"]).exits(0);
    run(dir, hide("small.fst", "h.fst")).exits(0);
    run(dir, hide("v.fss", "h.fst")).fails(1, &["h.fst", "a trace", "a snapshot"]);
    let small = "postmark:files=5,transactions=10";
    run(dir, ["run", small, "t", "-o", "v.fss"]).fails(1, &["a snapshot", "a result of run"]);
    run(dir, ["run", small, "t", "-o", "r.json"]).exits(0);
    let replay = ["replay", "small.fst", "t", "-o", "r.json"];
    run(dir, replay).fails(1, &["r.json", "a result of run", "a result of replay"]);
    run(dir, ["show", "r.json"]).exits(0);
    run(dir, ["run", small, "t", "-o", "r.json"]).exits(0);
}

#[test]
fn a_link_to_what_is_not_there_yet_is_followed() {
    let dir = temp();
    let dir = dir.path();
    small_trace(dir);
    std::fs::create_dir(dir.join("far")).unwrap();
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, dir.join(name)).unwrap();
    link("far/r.csv", "l.csv");
    link("far/r.fst", "l.fst");
    run(dir, ["export", "small.fst", "--to", "csv", "-o", "l.csv"]).exits(0);
    let traced = ["trace", "--method", "ptrace", "-o", "l.fst", "--", "true"];
    run(dir, traced);
    for name in ["csv", "fst"] {
        assert!(dir.join(format!("l.{name}")).is_symlink(), "{name}");
        assert!(dir.join(format!("far/r.{name}")).is_file(), "{name}");
    }
    link("none/r.csv", "lost.csv");
    let lost = ["export", "small.fst", "--to", "csv", "-o", "lost.csv"];
    run(dir, lost).fails(1, &["lost.csv", "none/r.csv"]);
    assert!(dir.join("lost.csv").is_symlink());
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

/// What somebody writes while fsage is at work.
const PRECIOUS: &str = "precious\n";

/// Runs fsage, and `meanwhile` once its command has made the file `ready`.
fn with(dir: &Path, line: &[&str], meanwhile: impl FnOnce()) -> common::Ran {
    let running = start(fsage().current_dir(dir).args(line));
    until("the command", || dir.join("ready").exists());
    meanwhile();
    std::fs::write(dir.join("go"), "").unwrap();
    let ran = running.wait();
    std::fs::remove_file(dir.join("ready")).unwrap();
    std::fs::remove_file(dir.join("go")).unwrap();
    ran
}

/// A command that waits until it is told to go on.
fn waits(dir: &Path) -> String {
    let dir = dir.display();
    format!("touch {dir}/ready; while [ ! -e {dir}/go ]; do sleep 0.05; done")
}

#[test]
fn what_comes_while_a_run_is_on_stays_and_the_result_is_beside_it() {
    let dir = temp();
    let dir = dir.path();
    std::fs::create_dir(dir.join("t")).unwrap();
    let command = format!("cmd: {}", waits(dir));
    let line = ["run", "-q", &command, "t", "-o", "r.json"];
    // A new name, and one that fsage might have replaced.
    for before in [None, Some("{\"format\":\"fsage run\",\"version\":1}")] {
        if let Some(before) = before {
            std::fs::write(dir.join("r.json"), before).unwrap();
        }
        let ran = with(dir, &line, || {
            std::fs::write(dir.join("r.json"), PRECIOUS).unwrap();
        });
        let said = ran.exits(1).stderr;
        let kept = std::fs::read_to_string(dir.join("r.json")).unwrap();
        assert_eq!(kept, PRECIOUS, "{said}");
        let (_, beside) = said.trim().rsplit_once(" is ").unwrap();
        run(dir, ["show", beside]).exits(0);
        std::fs::remove_file(dir.join(beside)).unwrap();
        std::fs::remove_file(dir.join("r.json")).unwrap();
    }
}

#[test]
fn a_directory_of_results_that_is_moved_gets_them_and_what_came_in_its_place_none() {
    let dir = temp();
    let dir = dir.path();
    std::fs::create_dir(dir.join("t")).unwrap();
    std::fs::create_dir(dir.join("other")).unwrap();
    let command = waits(dir);
    let line = [
        "bench", "-q", "--target", "t", "--runs", "2", "-o", "R", "--", "sh", "-c", &command,
    ];
    for link in [false, true] {
        let ran = with(dir, &line, || {
            std::fs::rename(dir.join("R"), dir.join("old")).unwrap();
            if link {
                std::os::unix::fs::symlink("other", dir.join("R")).unwrap();
            } else {
                std::fs::create_dir(dir.join("R")).unwrap();
                std::fs::write(dir.join("R/experiment.json"), PRECIOUS).unwrap();
            }
        });
        let said = ran.exits(1).stderr;
        assert!(said.contains("moved away"), "{said}");
        assert_eq!(common::names(&dir.join("other")).len(), 0, "{said}");
        if link {
            std::fs::remove_file(dir.join("R")).unwrap();
        } else {
            let kept = std::fs::read_to_string(dir.join("R/experiment.json")).unwrap();
            assert_eq!(kept, PRECIOUS);
            assert_eq!(common::names(&dir.join("R")).len(), 1);
            std::fs::remove_dir_all(dir.join("R")).unwrap();
        }
        // What was measured goes on from where it is.
        assert!(dir.join("old/runs.jsonl").exists());
        std::fs::remove_dir_all(dir.join("old")).unwrap();
    }
}

#[test]
fn what_cannot_be_written_is_known_before_the_command_runs() {
    let dir = temp();
    let dir = dir.path();
    std::fs::write(dir.join("file"), "x").unwrap();
    let long = "a".repeat(300);
    for (code, line) in [
        (1, ["-o", long.as_str()]),
        (1, ["-o", "t/"]),
        (1, ["-o", "no/t.fst"]),
        (2, ["--under", "file"]),
    ] {
        let begin = ["trace", "--method", "ptrace"].iter().chain(&line);
        run(dir, begin.chain(&["--", "touch", "ran"])).fails(code, &[line[1]]);
        assert!(!dir.join("ran").exists());
    }
    run(dir, ["trace", "-o", "t.fst", "--", ""]).fails(2, &["no command"]);
}
