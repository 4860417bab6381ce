//! What holds for every verb: help, mistakes, a closed stdout.

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

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Ran, fsage, profile, root, run, run_command, small_trace, temp, tool};

const VERBS: [&str; 10] = [
    "trace",
    "import",
    "export",
    "show",
    "anonymize",
    "snapshot",
    "profile",
    "predict",
    "validate",
    "demo",
];

#[test]
fn every_verb_explains_itself() {
    let dir = temp();
    let all = run(dir.path(), ["--help"]).exits(0).text();
    for verb in VERBS {
        assert!(all.contains(verb), "{verb} is not named: {all}");
        let help = run(dir.path(), [verb, "--help"]).exits(0).text();
        assert!(help.contains("Usage: fsage"), "{help}");
        if ["trace", "show", "profile", "predict", "validate"].contains(&verb) {
            assert!(
                help.contains("Examples:\n"),
                "{verb} has no examples: {help}"
            );
        }
    }
    assert!(all.contains("Exit codes:"), "{all}");
    assert!(
        run(dir.path(), ["--version"])
            .exits(0)
            .text()
            .starts_with("fsage ")
    );
}

#[test]
fn a_wrong_command_line_is_exit_code_2() {
    let dir = temp();
    for verb in VERBS {
        let ran = run(dir.path(), [verb, "--no-such-flag"]).exits(2);
        assert!(
            ran.stdout.is_empty() && ran.stderr.contains("--no-such-flag"),
            "{}",
            ran.stderr
        );
        // A mistyped option is no name of a file.
        assert!(!ran.stderr.contains("as a value"), "{}", ran.stderr);
    }
    for line in [
        &[][..],
        &["nosuchverb"],
        &["trace"],
        &["show"],
        &["predict", "x.fst"],
        &["trace", "--for", "soon", "--", "true"],
        &["trace", "--pid", "1", "--", "true"],
        &["trace", "--ring-mib", "0", "--", "true"],
        &["import", "x", "--from", "elsewhere", "-o", "y.fst"],
        &[
            "validate",
            "--runs",
            "0",
            "--workload",
            "postmark",
            "--target",
            "/tmp",
        ],
    ] {
        let ran = run(dir.path(), line).exits(2);
        assert!(ran.stdout.is_empty(), "{line:?}: {}", ran.text());
    }
    small_trace(dir.path());
    run(dir.path(), ["show", "small.fst", "--ops", "a..b"]).fails(2, &["a..b"]);
    run(dir.path(), ["show", "small.fst", "--ops", "5..3"]).fails(2, &["5..3", "no operation"]);
    let total = run(dir.path(), ["show", "small.fst", "--json"]).exits(0);
    let total = total.json()["operations"].as_u64().unwrap();
    let has = format!("small.fst: it has {total} operations, counted from 0");
    for beyond in [
        format!("{total}.."),
        format!("{total}..9999999"),
        total.to_string(),
    ] {
        for json in [&[][..], &["--json"]] {
            let line = [&["show", "small.fst", "--ops", &beyond], json].concat();
            let said = run(dir.path(), line).fails(1, &[&beyond, &has]);
            assert!(said.stdout.is_empty(), "{}", said.text());
        }
    }
    // What there is of a range is shown.
    let last = format!("{}..9999999", total - 1);
    let said = run(dir.path(), ["show", "small.fst", "--ops", &last]).exits(0);
    assert_eq!(said.text().lines().count(), 1, "{}", said.text());
    let line = [
        "show".to_string(),
        profile("ext4").display().to_string(),
        "--ops".into(),
    ];
    run(dir.path(), line).fails(2, &["--ops", "ext4.fsp"]);
}

/// One directory that may not be read is one, and is told once.
#[test]
fn what_a_snapshot_may_not_read_is_counted_once() {
    if !root() || !tool("setpriv") {
        return;
    }
    let dir = temp();
    let open = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    open(dir.path(), 0o777);
    std::fs::copy(env!("CARGO_BIN_EXE_fsage"), dir.path().join("fsage")).unwrap();
    for name in ["tree", "tree/closed", "tree/open"] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
    }
    std::fs::write(dir.path().join("tree/secret"), "x").unwrap();
    open(&dir.path().join("tree/closed"), 0o700);
    open(&dir.path().join("tree/secret"), 0o600);
    let mut command = Command::new("setpriv");
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups", "--"];
    let line = ["./fsage", "snapshot", "tree", "-o", "t.fss"];
    command.args(user).args(line).current_dir(dir.path());
    let ran = run_command(&mut command).exits(3);
    assert!(ran.stderr.contains("2 could not be read"), "{}", ran.stderr);
    for name in ["closed", "secret"] {
        let times = ran.stderr.matches(&format!("not read: {name}:")).count();
        assert_eq!(times, 1, "{}", ran.stderr);
    }
}

#[test]
fn a_mistake_in_a_number_or_a_missing_plan_says_what_is_expected() {
    let dir = temp();
    for (line, words) in [
        (
            &["bench", "--runs", "-1", "--", "true"][..],
            &["'-1' for '--runs <N>'", "1..=1000"][..],
        ),
        (&["run", "postmark", "mem:fast", "--for", "-1s"], &["-1"]),
        (
            &["run", "postmark", "mem:fast", "--seed", "-1"],
            &["'-1' for '--seed <N>'"],
        ),
        (&["bench"], &["PLAN.toml", "fsage bench -- COMMAND"]),
        (
            &["validate", "--workload", "postmark"],
            &["PLAN.toml", "--workload WORKLOAD --target TARGET"],
        ),
    ] {
        let said = run(dir.path(), line).exits(2).stderr;
        for word in words {
            assert!(said.contains(word), "{line:?}: {said}");
        }
    }
    std::fs::create_dir(dir.path().join("nothing")).unwrap();
    let ran = run(dir.path(), ["snapshot", "nothing", "-o", "n.fss"]).exits(0);
    assert!(ran.stderr.contains(", 0 extents in "), "{}", ran.stderr);
}

#[test]
fn help_of_help_is_the_general_page() {
    let dir = temp();
    let page = run(dir.path(), ["help"]).exits(0).text();
    for flag in ["--help", "-h"] {
        let same = run(dir.path(), ["help", flag]).exits(0);
        assert_eq!(same.text(), page);
        assert!(same.stderr.is_empty(), "{}", same.stderr);
    }
    let said = run(dir.path(), ["help", "nosuch", "--help"])
        .exits(2)
        .stderr;
    assert!(said.contains("'nosuch'"), "{said}");
}

#[test]
fn a_name_that_is_no_text_is_named_with_the_ways_out() {
    let dir = temp();
    let target = OsStr::from_bytes(b"b\xff");
    std::fs::create_dir(dir.path().join(target)).unwrap();
    let small = "postmark:files=5,transactions=5";
    let lines: [&[&OsStr]; 3] = [
        &["run".as_ref(), small.as_ref(), target],
        &["profile".as_ref(), target, "-o".as_ref(), "p.fsp".as_ref()],
        &["layout".as_ref(), target],
    ];
    for line in lines {
        let said = run(dir.path(), line).exits(2).stderr;
        for word in ["'b\\xff' is not UTF-8", "a symbolic link", "and call it ."] {
            assert!(said.contains(word), "{line:?}: {said}");
        }
    }
    std::os::unix::fs::symlink(target, dir.path().join("link")).unwrap();
    run(dir.path(), ["run", small, "link"]).exits(0);
    run(&dir.path().join(target), ["layout", "."]).exits(0);
}

#[test]
fn a_closed_stdout_is_no_error() {
    let dir = temp();
    small_trace(dir.path());
    let ext4 = profile("ext4").display().to_string();
    for line in [
        &["profile", "--list"][..],
        &["show", "small.fst"],
        &["show", "small.fst", "--ops"],
        &["show", "small.fst", "--json"],
        &["predict", "small.fst", "--on", &ext4],
        &["show", &ext4],
        &["--help"],
        &["predict", "--help"],
        &["--version"],
    ] {
        let mut child = fsage()
            .current_dir(dir.path())
            .args(line)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let ran: Ran = child.wait_with_output().unwrap().into();
        assert_eq!((ran.code(), ran.stderr.as_str()), (0, ""), "{line:?}");
    }
}

/// What a verb says and how it ends when its reader takes so many bytes of its stdout.
fn read_no_further(dir: &Path, line: &[&str], bytes: usize) -> Ran {
    let mut child = fsage()
        .current_dir(dir)
        .args(line)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut read = vec![0; bytes];
    std::io::Read::read_exact(&mut stdout, &mut read).unwrap();
    drop(stdout);
    child.wait_with_output().unwrap().into()
}

/// It was an error of all that write a file's bytes but of `export`.
#[test]
fn a_reader_who_has_enough_is_no_failure() {
    let dir = temp();
    let dir = dir.path();
    small_trace(dir);
    let ext4 = profile("ext4").display().to_string();
    std::fs::create_dir(dir.join("target")).unwrap();
    std::fs::write(dir.join("key"), "a key of sixteen bytes or more").unwrap();
    run(dir, ["snapshot", "tree", "-o", "tree.fss"]).exits(0);
    let anonymize = |file| ["anonymize", file, "--key-file", "key", "-o", "-"];
    let export = |file, to| ["export", file, "--to", to, "-o", "-"];
    for line in [
        &anonymize("small.fst")[..],
        &anonymize("tree.fss"),
        &anonymize(&ext4),
        &export("small.fst", "csv"),
        &export("small.fst", "strace"),
        &export("small.fst", "hbench"),
        &export("tree.fss", "hbench"),
        &export(&ext4, "hbench"),
        &["snapshot", "tree", "-o", "-"],
        &["model", "fit", "small.fst", "--format", "fsm", "-o", "-"],
        &["trace", "-o", "-", "--", "true"],
        &["profile", "mem:disk", "--only", "CR", "-o", "-"],
        &[
            "run",
            "postmark:files=20,transactions=20",
            "mem:fast",
            "-o",
            "-",
        ],
        &["show", "small.fst", "--ops"],
        &["show", "small.fst", "--ops", "--json"],
    ] {
        for bytes in [0, 10] {
            let ran = read_no_further(dir, line, bytes);
            assert_eq!(ran.code(), 0, "{line:?}: {}", ran.stderr);
            // An ordinary user is also told why there is no eBPF.
            let failed = ran
                .stderr
                .lines()
                .any(|l| l.starts_with("fsage: failed to"));
            assert!(!failed, "{line:?}: {}", ran.stderr);
        }
    }
    // What was to be told otherwise is told all the same.
    let whole = std::fs::read(dir.join("small.fst")).unwrap();
    std::fs::write(dir.join("cut.fst"), &whole[..whole.len() - 20]).unwrap();
    for line in [&["show", "cut.fst"][..], &["show", "cut.fst", "--json"]] {
        let ran = read_no_further(dir, line, 0);
        assert_eq!(ran.code(), 3, "{line:?}: {}", ran.stderr);
    }
    // The reader of a pipe that has a name.
    let named = "mkfifo pipe; head -c 10 pipe >/dev/null & \
                 exec \"$0\" anonymize small.fst --key-file key -o pipe";
    let mut command = Command::new("sh");
    command.args(["-c", named, env!("CARGO_BIN_EXE_fsage")]);
    run_command(command.current_dir(dir)).exits(0);
}

#[test]
fn a_full_stdout_is_an_error() {
    let dir = temp();
    small_trace(dir.path());
    for line in [&["show", "small.fst", "--json"][..], &["profile", "--list"]] {
        let full = std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let ran = fsage()
            .current_dir(dir.path())
            .args(line)
            .stdout(full)
            .output()
            .unwrap();
        Ran::from(ran).fails(1, &["stdout"]);
    }
}

/// Runs a line with `redirection` of stdout, as a shell does it.
fn redirected(dir: &Path, line: &[&str], redirection: &str) -> Ran {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("exec \"$0\" \"$@\" {redirection}")]);
    command.arg(env!("CARGO_BIN_EXE_fsage")).args(line);
    run_command(command.current_dir(dir))
}

#[test]
fn a_closed_stdout_is_an_error_where_something_is_written_there() {
    let dir = temp();
    small_trace(dir.path());
    let profile = profile("ext4");
    let profile = profile.to_str().unwrap();
    std::fs::write(dir.path().join("key"), [7; 32]).unwrap();
    for line in [
        &["show", "small.fst"][..],
        &["show", "small.fst", "--json"],
        &["show", "small.fst", "--ops"],
        &["export", "small.fst", "--to", "csv", "-o", "-"],
        &["anonymize", "small.fst", "--key-file", "key", "-o", "-"],
        &["snapshot", "tree", "-o", "-"],
        &["predict", "small.fst", "--on", profile],
        &["--help"],
    ] {
        let ran = redirected(dir.path(), line, ">&-");
        ran.fails(1, &["failed to write to stdout: it is closed"]);
        // Others open the same device for reading too.
        for given in [">/dev/null", "1<>/dev/null"] {
            redirected(dir.path(), line, given).exits(0);
        }
    }
    for line in [
        &["export", "small.fst", "--to", "csv", "-o", "small.csv"][..],
        &["trace", "-o", "true.fst", "--", "true"],
    ] {
        redirected(dir.path(), line, ">&-").exits(0);
    }
}

#[test]
fn the_reference_pages_can_be_written_and_checked() {
    let dir = temp();
    run(dir.path(), ["reference", "docs"]).exits(0);
    run(dir.path(), ["reference", "docs", "--check"]).exits(0);
    std::fs::write(dir.path().join("docs/cli.md"), "stale").unwrap();
    run(dir.path(), ["reference", "docs", "--check"]).fails(1, &["cli.md"]);
}
