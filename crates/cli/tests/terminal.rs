//! What reaches a terminal: whatever a file holds, nothing that a terminal acts on; pages that fit.

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

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use common::{Ran, fsage, profile, run_command, temp, temp_in_memory, until};
use fsage_core::{DevId, FileId, Op, OpKind, OpSink as _, Outcome, PathTable, Pid, Tid};
use fsage_format::trace::{TraceEnd, TraceMeta, TraceWriter};
use serde_json::Value;

/// Colours, a title, the 8-bit CSI, a right-to-left override, a carriage return and what hides.
const HOSTILE: &str = "x\u{1b}[31m\u{1b}]0;t\u{7}\u{9b}2J\u{202e}\r\u{200b}y";

fn at(dir: &Path, width: u16, line: &[&str]) -> Ran {
    run_command(
        fsage()
            .current_dir(dir)
            .env("COLUMNS", width.to_string())
            .args(line),
    )
}

/// Nothing of it is left on either stream, and every line fits.
fn is_harmless(ran: &Ran, line: &[&str]) {
    for (name, text) in [("stdout", ran.text()), ("stderr", ran.stderr.clone())] {
        let bad = text.chars().find(|&c| {
            (c.is_control() && c != '\n')
                || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
        });
        assert_eq!(bad, None, "{line:?}: {name}: {text:?}");
    }
}

fn fits(ran: &Ran, width: usize) {
    let text = ran.text();
    let longest = text.lines().map(|l| l.chars().count()).max().unwrap_or(0);
    assert!(longest <= width, "{longest} columns: {text}");
}

fn trace(dir: &Path, name: &str, hostile: &str) {
    let mut paths = PathTable::new();
    let meta = TraceMeta {
        fsage: hostile.into(),
        host: hostile.into(),
        kernel: hostile.into(),
        command: vec![hostile.into(), "b".into()],
        directory: format!("/{hostile}"),
        method: hostile.into(),
        extra: [(hostile.to_owned(), hostile.to_owned())].into(),
        ..TraceMeta::default()
    };
    let mut writer = TraceWriter::create(&dir.join(name), meta).unwrap();
    for n in 0..50_u32 {
        let mut op = Op::new(OpKind::Open, Pid(7 + n % 3), Tid(7), u64::from(n) * 1000);
        op.latency_ns = Some(1000 + u64::from(n));
        op.path = paths.intern(format!("{hostile}{n}").as_bytes());
        op.dir = paths.intern(format!("/tmp/{hostile}").as_bytes());
        op.result = Outcome::ok(3);
        op.file = Some(FileId {
            dev: DevId(1),
            ino: u64::from(n),
            generation: 0,
        });
        writer.push(&op, &paths).unwrap();
    }
    writer
        .finish(TraceEnd {
            stopped: Some(hostile.into()),
            programs: [(7, hostile.to_owned()), (8, hostile.to_owned())].into(),
            ..TraceEnd::default()
        })
        .unwrap();
}

/// Every text of a result but those that fsage tells apart itself.
fn spoil(value: &mut Value, key: &str) {
    const KNOWN: [&str; 16] = [
        "format",
        "unit",
        "metric",
        "name",
        "stop",
        "state",
        "cache",
        "required",
        "kind",
        "seed",
        "verdict",
        "group",
        "role",
        "plan",
        "workload_spec",
        "version",
    ];
    match value {
        Value::String(text) if !KNOWN.contains(&key) => text.push_str(HOSTILE),
        Value::Array(all) => all.iter_mut().for_each(|v| spoil(v, key)),
        Value::Object(all) => all.iter_mut().for_each(|(k, v)| spoil(v, k)),
        _ => {}
    }
}

#[test]
fn a_page_for_a_pager_is_as_wide_as_the_terminal() {
    if !common::tool("script") {
        return;
    }
    let dir = temp_in_memory();
    let profile = profile("ext4").display().to_string();
    let widest = |columns: u16, line: &str| {
        let line = format!("show {profile} --details {line} > out");
        common::on_a_terminal(dir.path(), columns, &line);
        let text = std::fs::read_to_string(dir.path().join("out")).unwrap();
        text.lines().map(|l| l.chars().count()).max().unwrap()
    };
    // Of stdout, stderr and the terminal itself what is one.
    for line in ["| cat", "2>/dev/null | cat", "2>/dev/null"] {
        let (narrow, wide) = (widest(60, line), widest(140, line));
        assert!(
            narrow <= 60 && wide > 100 && wide <= 140,
            "{line}: {narrow} {wide}"
        );
    }
}

#[test]
fn nothing_in_a_file_reaches_the_terminal_raw() {
    let dir = temp_in_memory();
    let dir = dir.path();
    trace(dir, "t.fst", HOSTILE);
    let mut found: Value =
        serde_json::from_slice(&std::fs::read(profile("ext4")).unwrap()).unwrap();
    found["name"] = Value::from(HOSTILE);
    spoil(&mut found["environment"], "environment");
    std::fs::write(dir.join("p.fsp"), found.to_string()).unwrap();
    at(
        dir,
        80,
        &["bench", "--runs", "2", "-q", "-o", "kept", "--", "true"],
    )
    .exits(0);
    let kept = dir.join("kept/experiment.json");
    let mut result: Value = serde_json::from_slice(&std::fs::read(&kept).unwrap()).unwrap();
    spoil(&mut result, "");
    for c in result["configurations"].as_array_mut().unwrap() {
        c["name"] = Value::from(format!("{HOSTILE} / {HOSTILE}"));
    }
    result["warnings"] = Value::from(vec![HOSTILE, HOSTILE]);
    std::fs::write(dir.join("e.json"), result.to_string()).unwrap();
    std::fs::write(
        dir.join("plan.toml"),
        format!("runs = 1\n'{HOSTILE}' = 2\n"),
    )
    .unwrap();
    std::fs::write(dir.join("bad.fst"), HOSTILE).unwrap();
    let lines: [&[&str]; 20] = [
        &["show", "t.fst"],
        &["show", "t.fst", "--details"],
        &["show", "t.fst", "--json"],
        &["show", "t.fst", "--ops"],
        &["show", "t.fst", "--ops", "--json"],
        &["show", "p.fsp"],
        &["show", "p.fsp", "--json"],
        &["predict", "t.fst", "--on", "p.fsp"],
        &["predict", "t.fst", "--on", "p.fsp", "--json"],
        &["show", "e.json"],
        &["show", "e.json", "--details"],
        &["check", "e.json"],
        &["check", "e.json", "--details"],
        &["check", "e.json", "--paragraph"],
        &["compare", "e.json", "e.json", "--details"],
        &["bench", "plan.toml"],
        &["validate", "plan.toml"],
        &["show", "bad.fst"],
        &["show", HOSTILE],
        &["show", "t.fst", "--ops", HOSTILE],
    ];
    for line in lines {
        is_harmless(&at(dir, 80, line), line);
    }
    // What is typed is repeated by the parser of the command line.
    let option = format!("--{HOSTILE}");
    for line in [&["show", option.as_str()], &[HOSTILE, "x"]] {
        is_harmless(&at(dir, 80, line), line);
    }
    // JSON says what the file says.
    let shown = at(dir, 80, &["show", "t.fst", "--json"]).json();
    assert_eq!(shown["meta"]["host"], HOSTILE);
}

#[test]
fn an_error_cannot_pretend_to_be_two() {
    let dir = temp();
    let said = at(dir.path(), 80, &["show", "a\nhint: run this"]).exits(1);
    assert!(!said.stderr.contains("\nhint: run this"), "{}", said.stderr);
}

#[test]
fn the_answer_of_a_trace_fits_a_terminal() {
    let dir = temp();
    let dir = dir.path();
    trace(dir, "t.fst", "a name of usual length");
    for (width, most) in [(80, 24), (160, 24)] {
        let shown = at(dir, width, &["show", "t.fst"]).exits(0);
        let text = shown.text();
        assert!(text.lines().count() <= most, "{text}");
        fits(&shown, width.into());
        for said in [
            "50 operations",
            "process",
            "directory",
            "file",
            "next: fsage profile",
        ] {
            assert!(text.contains(said), "`{said}` is missing: {text}");
        }
        fits(
            &at(dir, width, &["show", "t.fst", "--details"]).exits(0),
            width.into(),
        );
        fits(&at(dir, width, &["workloads"]).exits(0), width.into());
        fits(&at(dir, width, &["disk", "list"]).exits(0), width.into());
    }
    // The first of each and the rest add up to all of it.
    let text = at(dir, 160, &["show", "t.fst"]).exits(0).text();
    let mut sums = Vec::new();
    for line in text.lines().filter(|l| l.ends_with(" %")) {
        if !line.starts_with("  ") {
            sums.push(0.0);
        }
        let share = line.trim_end_matches(" %").rsplit(' ').next().unwrap();
        *sums.last_mut().unwrap() += share.parse::<f64>().unwrap();
    }
    assert_eq!(sums.len(), 4, "{text}");
    assert!(
        sums.iter().all(|s| (s - 100.0).abs() < 0.5),
        "{sums:?} {text}"
    );
}

/// Every help, every manual page's text and each kind of file that is shown fits 80 columns; what cannot be broken
/// (a path, a specification) is one word.
#[test]
fn everything_fits_80_columns() {
    let dir = temp();
    let dir = dir.path();
    let fits = |line: &[&str]| {
        let text = at(dir, 80, line).exits(0).text();
        for shown in text.lines().filter(|l| l.chars().count() > 80) {
            // Blanks and words but paths and specifications.
            let words = shown.split(' ').filter(|word| !word.contains(['/', '=']));
            let columns: usize = words.map(|word| word.chars().count() + 1).sum();
            assert!(columns <= 81, "{line:?}: {shown}");
        }
        text
    };
    let verbs = |text: &str| -> Vec<String> {
        let commands = text.lines().filter_map(|line| line.strip_prefix("  "));
        let named = commands.filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()));
        let first = named.filter_map(|line| line.split_once("  "));
        first
            .map(|(verb, _)| verb.trim().to_owned())
            .filter(|v| !v.contains(' '))
            .collect()
    };
    let mut found = verbs(&fits(&["--help"]));
    found.retain(|verb| at(dir, 80, &[verb, "--help"]).code() == 0);
    assert!(found.len() > 15, "{found:?}");
    for verb in &found {
        fits(&[verb, "--help"]);
        fits(&[verb, "-h"]);
    }
    for verb in ["list", "show", "serve"] {
        fits(&["disk", verb, "--help"]);
    }
    for model in fits(&["disk", "list"]).lines().skip(2) {
        if let Some(name) = model
            .split_whitespace()
            .next()
            .filter(|_| !model.starts_with("  "))
        {
            fits(&["disk", "show", name]);
        }
    }
    fits(&["workloads"]);
    fits(&["profile", "--list"]);
    fits(&["show", "FSYN16"]);
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let mut kinds = Vec::new();
    for below in [
        "profiles",
        "traces",
        "kept/bench",
        "kept/validate",
        "release-1",
    ] {
        for file in std::fs::read_dir(corpus.join(below)).unwrap() {
            let file = file.unwrap().path();
            let name = file.display().to_string();
            if file.is_file() {
                kinds.push(file.extension().unwrap().to_owned());
                fits(&["show", &name]);
                fits(&["show", &name, "--details"]);
            }
        }
    }
    for kind in ["fsp", "fst", "fss", "json", "jsonl"] {
        assert!(kinds.iter().any(|k| k == kind), "{kind}: {kinds:?}");
    }
}

/// The lines that a terminal of so many columns shows in the end.
fn screen(shown: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<Vec<char>> = vec![Vec::new()];
    let (mut row, mut column) = (0, 0);
    let mut rest = shown.chars();
    while let Some(c) = rest.next() {
        match c {
            '\r' => column = 0,
            '\n' => row += 1,
            '\x1b' => {
                let code: Vec<char> = rest.by_ref().take(3).collect();
                match code[..] {
                    ['[', '2', 'K'] => lines[row].clear(),
                    ['[', n, 'A'] => row -= n.to_digit(10).unwrap() as usize,
                    _ => panic!("{code:?}"),
                }
            }
            c if c.is_control() => {}
            c => {
                // The last column holds the cursor until something follows.
                if column == columns {
                    (row, column) = (row + 1, 0);
                }
                lines.resize_with(lines.len().max(row + 1), Vec::new);
                let line = &mut lines[row];
                line.resize(line.len().max(column + 1), ' ');
                line[column] = c;
                column += 1;
            }
        }
        lines.resize_with(lines.len().max(row + 1), Vec::new);
    }
    let text = lines.into_iter().map(String::from_iter);
    text.map(|line: String| line.trim_end().to_owned())
        .filter(|line| !line.is_empty())
        .collect()
}

/// What a terminal of 80 columns shows in the end where Ctrl-C is pressed once `begun` is shown.
fn interrupted(dir: &Path, line: &str, begun: &str) -> Vec<String> {
    let command = format!("stty cols 80; exec {} {line}", env!("CARGO_BIN_EXE_fsage"));
    let mut child = Command::new("script")
        .current_dir(dir)
        .env_remove("COLUMNS")
        .env("XDG_CACHE_HOME", dir.join("cache"))
        .env("TERM", "xterm")
        .args(["-qec", &command, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut keys = child.stdin.take().unwrap();
    let mut output = child.stdout.take().unwrap();
    let shown = Mutex::new(Vec::new());
    let text = || String::from_utf8_lossy(&shown.lock().unwrap()).into_owned();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut piece = [0; 4096];
            while let Ok(got @ 1..) = output.read(&mut piece) {
                shown.lock().unwrap().extend(&piece[..got]);
            }
        });
        until("the bar", || text().contains(begun));
        keys.write_all(b"\x03").unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(130), "{line}: {:?}", text());
    });
    let text = text();
    assert!(text.contains("^C"), "{line}: {text:?}");
    screen(&text, 80)
}

/// A terminal shows `^C` where the cursor is. At the end of the bar that was the next line, which was cleared in its place.
#[test]
fn no_bar_stays_after_ctrl_c() {
    if !common::tool("script") {
        return;
    }
    let dir = temp_in_memory();
    std::fs::create_dir(dir.path().join("d")).unwrap();
    let many = "postmark:files=3000,transactions=90000000";
    for (line, begun) in [
        ("profile d --quick -o p.fsp", " left"),
        (&format!("run {many} d"), "transactions"),
        (&format!("validate --workload {many} --target d"), "/"),
    ] {
        let shown = interrupted(dir.path(), line, begun);
        let of_bar = |text: &&String| {
            text.contains(['█', '░']) || text.contains(" …") || text.contains("ending")
        };
        let stays = shown.iter().find(of_bar);
        assert_eq!(stays, None, "{line}: {shown:#?}");
        assert!(!shown.is_empty(), "{line}");
    }
}

/// The time that a profile of an oracle has is its own: nobody waits for it.
#[test]
fn what_is_computed_says_no_time_that_is_left() {
    if !common::tool("script") {
        return;
    }
    let dir = temp();
    let line = "profile mem:disk --only CR -o p.fsp";
    let shown = common::on_a_terminal(dir.path(), 100, line);
    assert!(
        shown.contains("new files") && shown.contains("virtual time"),
        "{shown}"
    );
    assert!(!shown.contains(" left"), "{shown}");
}

#[test]
fn quiet_is_quiet_and_what_is_wrong_is_said() {
    let dir = temp();
    let said = at(
        dir.path(),
        80,
        &["bench", "--runs", "2", "-q", "--", "true"],
    )
    .exits(0);
    assert_eq!(said.stderr, "");
    let said = at(dir.path(), 80, &["--quiet", "show", "missing"]).exits(1);
    assert!(said.stderr.contains("missing"), "{}", said.stderr);
}
