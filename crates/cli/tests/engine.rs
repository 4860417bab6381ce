//! What `bench` and `validate` share: one plan, one lock, one record that is gone on with, one way to go on after
//! failures.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]

use crate::common;

use std::path::Path;
use std::process::Command;

use common::{fsage, names, plan, run_command, start, temp_in_memory, until};
use rustix::process::Signal;
use serde_json::Value;

const VERBS: [&str; 2] = ["bench", "validate"];

fn verb(dir: &Path, verb: &str, more: &[&str]) -> Command {
    let mut command = fsage();
    command
        .current_dir(dir)
        .args([verb, "plan.toml", "--allow-commands", "--allow-paths"])
        .args(["--json"])
        .args(more);
    command
}

/// The same without much of a profile, which is not what is looked at: nothing is predicted then.
fn short(dir: &Path, name: &str, more: &[&str]) -> (Command, i32) {
    let mut command = verb(dir, name, more);
    if name == "bench" {
        return (command, 0);
    }
    command.args(["--profile-time", "1s"]);
    (command, 3)
}

/// The steps in a record, without dates and without what says when it began.
fn steps(dir: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(dir.join("runs.jsonl")).unwrap_or_default();
    let whole = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let steps = whole.skip(1).filter(|line: &Value| {
        let entry = line["entry"].as_str();
        !matches!(entry, Some("begin" | "resumed"))
    });
    steps.map(undated).collect()
}

fn undated(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.retain(|name, _| !name.ends_with("unix_ns"));
            for field in fields.values_mut() {
                *field = undated(field.take());
            }
        }
        Value::Array(values) => {
            for value in values {
                *value = undated(value.take());
            }
        }
        _ => {}
    }
    value
}

/// Time is computed there, so that two measurements give the same.
const COMPUTED: &str = "runs = 12\nseed = 5\n\
    [[target]]\nname = 'disk'\nspec = 'mem:disk'\n[[target]]\nname = 'tiny'\nspec = 'mem:tiny'\n\
    [[workload]]\nname = 'mail'\nspec = 'postmark:files=300,transactions=4000,seed=3'\n";

#[test]
fn a_killed_experiment_goes_on_to_the_same_steps() {
    for name in VERBS {
        let dir = temp_in_memory();
        let dir = dir.path();
        plan(dir, COMPUTED);
        let (mut line, code) = short(dir, name, &["-o", "whole"]);
        let whole = run_command(&mut line).exits(code);
        let expected = steps(&dir.join("whole"));
        let resume = || short(dir, name, &["-o", "killed", "--resume"]).0;
        let mut count = 0;
        for _ in 0..3 {
            let killed = start(&mut resume());
            until("a step to end", || steps(&dir.join("killed")).len() > count);
            killed.ended_by(Signal::KILL, || ());
            count = steps(&dir.join("killed")).len();
        }
        assert!((3..expected.len()).contains(&count), "{name}: {count}");
        let resumed = run_command(&mut resume()).exits(code);
        assert_eq!(steps(&dir.join("killed")), expected, "{name}");
        let (whole, resumed) = (undated(whole.json()), undated(resumed.json()));
        for part in ["configurations", "pairs", "failed", "elapsed_ns"] {
            assert_eq!(resumed[part], whole[part], "{name}: {part}");
        }
        // Over: nothing is measured.
        run_command(&mut resume()).exits(code);
        assert_eq!(steps(&dir.join("killed")), expected, "{name}");
    }
}

#[test]
fn one_of_them_works_in_a_directory() {
    let dir = temp_in_memory();
    let dir = dir.path();
    plan(dir, &COMPUTED.replace("runs = 12", "runs = 900"));
    for (first, second) in [("bench", "validate"), ("validate", "bench")] {
        let running = start(&mut short(dir, first, &["-o", first]).0);
        until("a step to end", || !steps(&dir.join(first)).is_empty());
        for other in [first, second] {
            let refused = verb(dir, other, &["-o", first, "--resume"]).output();
            common::Ran::from(refused.unwrap()).fails(1, &["in use by another fsage"]);
        }
        running.ended_by(Signal::INT, || ());
        // Whose steps they are is known.
        let refused = run_command(&mut verb(dir, second, &["-o", first, "--resume"]));
        let said = format!("it is of `{first}`, expected `{second}`");
        refused.fails(1, &[&said]);
    }
}

/// Steps of one sort fail, those of the other are made all the same.
const FAILING: &str = "runs = 1\ncache = 'CACHE'\n[[target]]\nname = 't'\nspec = 't'\n\
    [[workload]]\nname = 'good'\nspec = 'cmd: true >made'\n\
    [[workload]]\nname = 'bad'\nspec = 'cmd: exit 7'\n";

#[test]
fn what_fails_is_recorded_and_passed_over_if_that_is_wished() {
    for (name, tag, cache, short) in [
        ("bench", "entry", "as found", &[][..]),
        ("validate", "step", "warm", &["--profile-time", "5s"]),
    ] {
        let dir = temp_in_memory();
        let dir = dir.path();
        std::fs::create_dir(dir.join("t")).unwrap();
        plan(dir, &FAILING.replace("CACHE", cache));
        let made = |more: &[&str], code: i32| {
            let mut command = verb(dir, name, &["-o", "kept", "--resume"]);
            let ran = run_command(command.args(short).args(more)).exits(code);
            assert!(
                ran.stderr.contains("exit status 7"),
                "{name}: {}",
                ran.stderr
            );
            let text = std::fs::read_to_string(dir.join("kept/runs.jsonl")).unwrap();
            let count = |word: &str| text.matches(&format!("\"{tag}\":\"{word}\"")).count();
            (count("run"), count("failed"))
        };
        let (_, failed) = made(&[], 1);
        assert_eq!(failed, 1, "{name}: the first failure ends it, and is kept");
        let (runs, failed) = made(&["--keep-going"], 3);
        assert_eq!(runs, 1, "{name}: the other is made");
        assert!(failed >= 2, "{name}: it is tried again");
        assert!(names(&dir.join("t")).is_empty());
    }
}

#[test]
fn one_grammar_says_what_is_of_the_other_verb() {
    let dir = temp_in_memory();
    let dir = dir.path();
    let shared =
        "[[target]]\nspec = 'mem:fast'\nTARGET\n[[workload]]\nspec = 'postmark'\nWORKLOAD\n";
    for (verb_of, other, at, text) in [
        ("bench", "validate", "", "budget = '1h'"),
        ("bench", "validate", "", "precision = 0.05"),
        ("bench", "validate", "TARGET", "aged = 'by hand'"),
        (
            "bench",
            "validate",
            "WORKLOAD",
            "sweep = { files = [1, 2] }",
        ),
        ("bench", "validate", "WORKLOAD", "in_place = true"),
        ("validate", "bench", "", "quick = false"),
        ("validate", "bench", "", "keep_traces = 'none'"),
        ("validate", "bench", "TARGET", "group = 'g'"),
    ] {
        let whole = if at.is_empty() {
            format!("{text}\n{shared}")
        } else {
            shared.replace(at, text)
        };
        plan(dir, &whole.replace("TARGET", "").replace("WORKLOAD", ""));
        let key = text.split(' ').next().unwrap();
        let said = format!("`{key}` is for plans of `fsage {verb_of}` alone");
        let place = whole.lines().position(|line| line == text).unwrap() + 1;
        let ran = run_command(&mut verb(dir, other, &[]));
        ran.fails(1, &[&said, &format!("plan.toml:{place}:")]);
    }
    for name in VERBS {
        // The same words for the same keys.
        for (text, said) in [
            ("runs = 0", "runs = 0, expected 1 to 1000"),
            ("cache = 'tepid'", "cache `tepid`, expected `cold`"),
            ("rums = 1", "unknown field `rums`"),
        ] {
            plan(
                dir,
                &format!("{text}\n[[target]]\nspec = 'mem:fast'\n[[workload]]\nspec = 'postmark'"),
            );
            run_command(&mut verb(dir, name, &[])).fails(1, &["plan.toml:1:", said]);
        }
    }
}

#[test]
fn what_is_never_cold_is_refused_before_anything_runs() {
    let dir = temp_in_memory();
    let dir = dir.path();
    let whole = |cache: &str| {
        let targets = "[[target]]\nspec = 'mem:disk'\n[[target]]\nspec = 'mem:fast'\n";
        let workload = "[[workload]]\nspec = 'postmark:files=9,transactions=9'\n";
        plan(dir, &format!("runs = 1\n{cache}\n{targets}{workload}"));
    };
    let bench = || run_command(&mut verb(dir, "bench", &["-o", "out"]));
    let said = ["mem:fast cold", "lies in memory", "\"as found\""];
    for cache in ["", "cache = ['as found', 'cold']"] {
        whole(cache);
        bench().fails(1, &said);
        assert_eq!(names(dir), ["plan.toml"]);
    }
    whole("cache = 'as found'");
    bench().exits(0);
    std::fs::remove_dir_all(dir.join("out")).unwrap();
    // So is a directory in memory, without a plan too.
    let in_memory = fsage_host::cold::is_memory_only(dir);
    if !fsage_testing::needs(in_memory, "a directory for temporary files in memory") {
        return;
    }
    let line = ["bench", "--target", ".", "-o", "out", "--", "true"];
    common::run(dir, line).fails(1, &["lies in memory", "--cache"]);
    assert_eq!(names(dir), ["plan.toml"]);
}

#[test]
fn traces_are_kept_or_not_and_that_is_said() {
    let dir = temp_in_memory();
    let dir = dir.path();
    plan(
        dir,
        "runs = 1\n[[target]]\nspec = 'mem:fast'\n\
         [[workload]]\nspec = 'postmark:files=50,transactions=100,seed=3'\n",
    );
    let traces = |dir: &Path| {
        let all = names(dir).into_iter();
        all.filter(|name| name.starts_with("workload")).count()
    };
    run_command(&mut verb(dir, "validate", &["-o", "with"])).exits(0);
    let line = ["-o", "without", "--keep-traces", "none"];
    let first = run_command(&mut verb(dir, "validate", &line)).exits(0);
    assert_eq!(
        (traces(&dir.join("with")), traces(&dir.join("without"))),
        (2, 0)
    );
    let again = |of: &str| {
        let mut command = fsage();
        run_command(
            command
                .current_dir(dir)
                .args(["validate", "--again", of, "--json"]),
        )
    };
    let judged = again("with").exits(0).json();
    assert_eq!(undated(judged), undated(first.json()));
    again("without").fails(1, &["workload0-target0.fst", "--keep-traces none"]);
    let line = ["-o", "other", "--keep-traces", "some"];
    let refused = run_command(&mut verb(dir, "validate", &line)).exits(2);
    assert!(
        refused.stderr.contains("`none` or `compressed`"),
        "{}",
        refused.stderr
    );
}

#[test]
fn what_was_measured_is_shown_where_nothing_is_predicted() {
    let dir = temp_in_memory();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/kept/validate");
    for name in names(&corpus) {
        std::fs::copy(corpus.join(&name), dir.path().join(&name)).unwrap();
    }
    let file = dir.path().join("target0.fsp");
    let mut cut: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    cut["metrics"].as_array_mut().unwrap().truncate(20);
    std::fs::write(&file, cut.to_string()).unwrap();
    let again = |more: &str| {
        let line = ["validate", "--again", ".", more];
        run_command(fsage().current_dir(dir.path()).args(line)).exits(3)
    };
    let result = again("--json").json();
    assert!(result["failed"].as_array().unwrap().is_empty(), "{result}");
    let (lacking, pairs) = (&result["not_predicted"], &result["pairs"]);
    assert_eq!(lacking[0]["target"], "disk", "{lacking}");
    assert_eq!(lacking[0]["measured_ns"], 86_678_674.0, "{lacking}");
    assert_eq!(
        (&pairs[0]["target"], &pairs[1]),
        (&"tiny".into(), &Value::Null)
    );
    for more in ["--quiet", "--details"] {
        let said = again(more).text();
        let row = said.lines().find(|l| l.contains("not predicted"));
        assert!(row.unwrap().contains("86.7 ms"), "{said}");
        assert!(said.contains("mail on disk: not predicted: "), "{said}");
        assert!(!said.contains("failed"), "{said}");
    }
    // Of nothing there is no error, and no 0 %.
    std::fs::copy(&file, dir.path().join("target1.fsp")).unwrap();
    let none = again("--json");
    assert_eq!(none.json()["average_error"], Value::Null);
    assert!(
        none.stderr.contains("average error unknown; "),
        "{}",
        none.stderr
    );
}
