//! What a newcomer reads: names that tell things apart, computed time that says so, errors that name what is wrong.

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

use common::{Ran, fsage, run, run_command, temp};

/// Of the narrowest usual terminal.
const WIDTH: usize = 80;

fn narrow(dir: &Path, args: &[&str]) -> Ran {
    let mut command = fsage();
    command.current_dir(dir).args(args);
    run_command(command.env("COLUMNS", WIDTH.to_string()))
}

const PLAN: &str = "
runs = 2
cache = 'as found'
[[target]]
spec = 'mem:fast'
[[target]]
spec = 'mem:disk'
[[workload]]
spec = 'postmark:files=200,transactions=50,size=500-10000,subdirs=10'
[[workload]]
spec = 'postmark:files=300,transactions=50,size=500-10000,subdirs=10'
";

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Names that say which is which, and no line that a terminal would break.
fn is_readable(text: &str) {
    for name in ["postmark:files=200", "postmark:files=300"] {
        assert!(text.contains(name), "{name}\n{text}");
    }
    assert!(
        !text.contains("transactions=") && !text.contains('…'),
        "{text}"
    );
    for line in text.lines() {
        assert!(line.chars().count() <= WIDTH, "{line}");
    }
}

#[test]
fn experiments_name_what_differs_and_say_that_time_is_virtual() {
    let dir = temp();
    let dir = dir.path();
    std::fs::write(dir.join("plan.toml"), PLAN).unwrap();
    let said = narrow(dir, &["bench", "plan.toml", "-o", "res"])
        .exits(0)
        .text();
    is_readable(&said);
    assert!(words(&said).contains("time is virtual"), "{said}");
    assert!(words(&said).contains("differ by less than 1 %"), "{said}");
    let compared = narrow(dir, &["compare", "res"]).exits(0).text();
    is_readable(&compared);
    assert!(words(&compared).contains("time is virtual"), "{compared}");
    assert!(
        words(&compared).contains("every required metric is equal"),
        "{compared}"
    );
    let json = run(dir, ["compare", "res", "--json"]).exits(0).json();
    assert_eq!(json["pairs"][0]["a"]["virtual_time"], true);
    let checked = narrow(dir, &["check", "res"]).exits(0).text();
    assert!(
        checked.contains("postmark:files=200") && !checked.contains("transactions="),
        "{checked}"
    );
}

#[test]
fn a_validation_says_that_time_is_virtual() {
    let dir = temp();
    let long = "postmark:files=200,transactions=50,subdirs=10";
    let args = [
        "validate",
        "--target",
        "mem:fast",
        "--workload",
        "postmark:files=50",
        "--workload",
        long,
    ];
    let said = run(dir.path(), args).exits(0).text();
    assert!(words(&said).contains("time is virtual"), "{said}");
    assert!(
        said.contains("postmark:files=200 ") && said.contains("postmark:files=50 "),
        "{said}"
    );
}

#[test]
fn files_of_a_plan_lie_beside_it() {
    let dir = temp();
    let dir = dir.path();
    let sub = dir.join("plans");
    std::fs::create_dir(&sub).unwrap();
    std::fs::write(
        sub.join("mine.toml"),
        include_str!("../../mem/truths/fast.toml"),
    )
    .unwrap();
    std::fs::write(
        sub.join("w.f"),
        "define file name=a,path=/tmp,size=4k,prealloc
define process name=p,instances=1
{
  thread name=t,instances=1
  {
    flowop readwholefile name=r,filename=a
    flowop finishoncount name=f,value=5
  }
}
",
    )
    .unwrap();
    let plan = "runs = 1\ncache = 'as found'\n[[target]]\nspec = 'mem:mine.toml'\n[[workload]]\nspec = 'wml:w.f'\n";
    std::fs::write(sub.join("plan.toml"), plan).unwrap();
    for (from, name) in [(dir, "plans/plan.toml"), (&sub, "plan.toml")] {
        run(from, ["bench", name]).exits(0);
    }
    std::fs::write(
        sub.join("v.toml"),
        "runs = 1\n[[target]]\nspec = 'mem:mine.toml'\n[[workload]]\nspec = 'postmark:files=20'\n",
    )
    .unwrap();
    run(dir, ["validate", "plans/v.toml"]).exits(0);
}

#[test]
fn a_run_begins_with_what_it_took_and_fits() {
    let dir = temp();
    let said = narrow(
        dir.path(),
        &["run", "postmark:files=20,transactions=20", "mem:fast"],
    )
    .exits(0)
    .text();
    assert!(
        said.starts_with("postmark on mem:fast: create the pool "),
        "{said}"
    );
    for line in said.lines() {
        assert!(line.chars().count() <= WIDTH, "{line}");
    }
}

#[test]
fn what_a_verb_cannot_use_is_named_as_what_it_is() {
    let dir = temp();
    let dir = dir.path();
    run(dir, ["run", "postmark:files=5", "--to-trace", "t.fst"]).exits(0);
    run(dir, ["export", "t.fst", "--to", "fio", "-o", "t.fio"])
        .fails(2, &["only a model", "t.fst is a trace", "model fit"]);
    run(dir, ["run", "postmark", "foo:bar"]).fails(1, &["write ./foo:bar for a directory"]);
    run(dir, ["replay", "t.fst", "mem:fast", "--cold"]).fails(1, &["cold", "expected a target"]);
    let help = run(dir, ["show", "--help"]).exits(0).text();
    assert!(help.contains("model"), "{help}");
    let said = run(dir, ["profile", "mem:fast", "--only", "CR", "-o", "m.fsp"]).exits(0);
    assert!(said.stderr.contains("virtual time"), "{}", said.stderr);
}

/// The first thing that somebody types says what to begin with, in lines as they were set.
#[test]
fn without_a_verb_the_page_is_whole() {
    let dir = temp();
    let bare = narrow(dir.path(), &[]).exits(2);
    let page = narrow(dir.path(), &["--help"]).exits(0).text();
    assert_eq!(bare.stderr, page);
    assert!(words(&page).contains("Start with `fsage demo`"), "{page}");
    for verb in ["age", "disk", "model"] {
        let page = narrow(dir.path(), &[verb, "-h"]).exits(0).text();
        assert_eq!(narrow(dir.path(), &[verb]).exits(2).stderr, page);
    }
}

/// Who forgets what stands before a command is told.
#[test]
fn a_command_without_its_mark_is_known() {
    let dir = temp();
    for verb in ["trace", "bench"] {
        let said = narrow(dir.path(), &[verb, "-o", "a", "x.toml", "ls", "-l"]).exits(2);
        let tip = words(&said.stderr).contains("put -- before the command");
        assert!(tip, "{}", said.stderr);
        let other = narrow(dir.path(), &[verb, "--lenght", "1"]).exits(2);
        assert!(!other.stderr.contains("put --"), "{}", other.stderr);
    }
}

/// Whatever there is to say of a trace, the answer is one screen.
#[test]
fn every_trace_is_shown_on_a_screen() {
    let dir = temp();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/traces");
    let mut count = 0;
    for entry in std::fs::read_dir(corpus).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "fst") {
            continue;
        }
        count += 1;
        let shown = narrow(dir.path(), &["show", path.to_str().unwrap()]).exits(0);
        let text = shown.text();
        assert!(text.lines().count() <= 24, "{}: {text}", path.display());
        for part in ["operation", "process", "directory", "file", "next:"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    assert!(count >= 6, "{count} traces");
}
