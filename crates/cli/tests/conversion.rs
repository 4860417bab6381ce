//! Round trips through other tools' formats, and hiding names.

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
use std::path::Path;
use std::process::Command;

use common::{fsage, mix, profile, run, run_command, small_trace, temp, tool};
use fsage_core::{Op, OpKind, PathTable, Pid, Tid};
use fsage_format::trace::{
    AnnotationColumn, AnnotationKind, AnnotationValue, Annotations, TraceEnd, TraceMeta,
    TraceReader, TraceWriter,
};

#[test]
fn strace_text_of_a_trace_has_the_same_operations() {
    let dir = temp();
    let trace = small_trace(dir.path());
    let exported = run(
        dir.path(),
        ["export", "small.fst", "--to", "strace", "-o", "t.strace"],
    )
    .exits(0);
    run(
        dir.path(),
        ["import", "t.strace", "--from", "strace", "-o", "back.fst"],
    )
    .exits(0);
    // What strace does not show of a mapped file is named as left out; all else is there again.
    let kept: Vec<(String, u64)> = mix(&trace)
        .into_iter()
        .filter(|(kind, _)| !exported.stderr.contains(&format!("has none: {kind}:")))
        .collect();
    assert_eq!(
        mix(&dir.path().join("back.fst")),
        kept,
        "{}",
        exported.stderr
    );
    for kind in [
        "mkdir", "rename", "symlink", "unlink", "rmdir", "open", "read", "write",
    ] {
        assert!(
            kept.iter().any(|(k, _)| k == kind),
            "{kind} is missing: {kept:?}"
        );
    }
}

#[test]
fn a_file_of_fsages_own_is_not_imported() {
    let dir = temp();
    let dir = dir.path();
    common::small_trace(dir);
    for (from, file, what) in [
        ("strace", "small.fst".to_owned(), "a trace"),
        (
            "hbench",
            common::profile("ext4").display().to_string(),
            "a system profile",
        ),
    ] {
        let line = ["import", &file, "--from", from, "-o", "back.fst"];
        let said = format!("{file}: it is {what} of fsage, expected a file of another program");
        common::run(dir, line).fails(1, &[&said]);
    }
    assert!(!dir.join("back.fst").exists());
}

#[test]
fn lines_that_an_import_skips_are_reported_with_their_numbers() {
    let dir = temp();
    let mut text = String::new();
    for line in 1..=20 {
        text.push_str(&match line {
            4 | 9 | 10 | 12 | 17 => format!("what a program said, {line}\n"),
            _ => format!("7  {line}.000000 stat(\"/x\", 0x7ffe) = 0 <0.000010>\n"),
        });
    }
    std::fs::write(dir.path().join("t.strace"), text).unwrap();
    let line = ["import", "t.strace", "--from", "strace", "-o", "t.fst"];
    let ran = run(dir.path(), line).exits(0);
    for reported in [
        "left out: lines that are not strace's: 5",
        "skipped line 4: ",
        "skipped line 9: ",
        "skipped line 10: ",
        "found `what a program said, 10`",
        "skipped 2 more",
    ] {
        assert!(ran.stderr.contains(reported), "{reported}: {}", ran.stderr);
    }
    assert!(!ran.stderr.contains("line 12"), "{}", ran.stderr);
}

#[test]
fn an_import_names_only_what_may_be_missing() {
    let dir = temp();
    let text = "\
7  1.000000 brk(NULL) = 0x1000 <0.000001>
7  1.000100 getpid() = 7 <0.000001>
7  1.000200 ioctl(1, TCGETS, 0x7ffe) = -1 ENOTTY (Inappropriate ioctl for device) <0.000001>
7  1.000300 ioctl(3, FITRIM, 0x7ffe) = 0 <0.000001>
7  1.000400 stat(\"/x\", 0x7ffe) = 0 <0.000010>
";
    std::fs::write(dir.path().join("t.strace"), text).unwrap();
    let line = ["import", "t.strace", "--from", "strace", "-o", "t.fst"];
    let said = run(dir.path(), line).exits(0).stderr;
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        lines,
        [
            "t.fst: 1 operations; 4 left out",
            "  left out: calls that are no operations on files: 3",
            "  left out: ioctl: 1",
        ]
    );
    let quiet = run(dir.path(), line.into_iter().chain(["-q", "--json"])).exits(0);
    assert_eq!(quiet.stderr, "  left out: ioctl: 1\n");
    let json = quiet.json();
    let of = |name: &str| json["left_out"][name].as_u64();
    let names = [of("brk"), of("getpid"), of("ioctl")];
    assert_eq!(names, [Some(1), Some(1), Some(2)], "{json}");
}

#[test]
fn relative_times_of_strace_are_refused() {
    let dir = temp();
    let text = "11234      0.000000 close(3) = 0\n11234      0.000301 close(4) = 0\n";
    std::fs::write(dir.path().join("t.strace"), text).unwrap();
    let line = ["import", "t.strace", "--from", "strace", "-o", "t.fst"];
    run(dir.path(), line).fails(1, &["line 1", "`strace -ttt`", "`strace -r`"]);
}

#[test]
fn names_of_any_bytes_survive() {
    let dir = temp();
    let name = OsStr::from_bytes(b"new\nline sp ace \xff\xfe\"quote\\");
    let output = dir.path().join("odd.fst");
    run_command(
        fsage()
            .current_dir(dir.path())
            .args(["trace", "--under", ".", "-o"])
            .arg(&output)
            .args(["--", "sh", "-c", ": > \"$1\"; cat \"$1\"; rm \"$1\"", "sh"])
            .arg(name),
    )
    .exits(0);
    let ops = run(dir.path(), ["show", "odd.fst", "--ops"])
        .exits(0)
        .text();
    assert!(
        ops.lines()
            .all(|line| line.starts_with(|c: char| c.is_ascii_digit())),
        "{ops}"
    );
    let json = run(dir.path(), ["show", "odd.fst", "--ops", "--json"])
        .exits(0)
        .text();
    for line in json.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
    run(
        dir.path(),
        ["export", "odd.fst", "--to", "strace", "-o", "odd.strace"],
    )
    .exits(0);
    run(
        dir.path(),
        ["import", "odd.strace", "--from", "strace", "-o", "back.fst"],
    )
    .exits(0);
    let paths = |file: &str| {
        let text = run(dir.path(), ["show", file, "--ops", "--json"])
            .exits(0)
            .text();
        let mut paths: Vec<String> = text
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .filter(|op| op["kind"] == "unlink")
            .map(|op| op["path"].to_string())
            .collect();
        paths.sort();
        paths
    };
    assert_eq!(paths("odd.fst"), paths("back.fst"));
    assert_eq!(paths("odd.fst").len(), 1);
    run(
        dir.path(),
        ["export", "odd.fst", "--to", "csv", "-o", "odd.csv"],
    )
    .exits(0);
}

#[test]
fn the_text_of_the_real_strace_is_read() {
    if !tool("strace") {
        return;
    }
    let dir = temp();
    for decode in [&["-y"][..], &[]] {
        let status = Command::new("strace")
            .args(["-f", "-ttt", "-T", "-o", "real.strace"])
            .args(decode)
            .args([
                "sh",
                "-c",
                "mkdir d; echo hello > d/f; cat d/f | cat; mv d/f d/g; rm -r d",
            ])
            .current_dir(dir.path())
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap();
        assert!(status.success());
        let ran = run(
            dir.path(),
            [
                "import",
                "real.strace",
                "--from",
                "strace",
                "-o",
                "t.fst",
                "--json",
            ],
        );
        let summary = ran.exits(0).json();
        assert!(summary["written"].as_u64().unwrap() > 20, "{summary}");
        let mix = mix(&dir.path().join("t.fst"));
        for (kind, least) in [
            ("mkdir", 1),
            ("rename", 1),
            ("unlink", 1),
            ("rmdir", 1),
            ("write", 1),
        ] {
            let count = mix.iter().find(|(k, _)| k == kind).map_or(0, |(_, n)| *n);
            assert!(count >= least, "{kind} {count}: {mix:?}");
        }
        let ext4 = profile("ext4");
        let line = [
            "predict".as_ref(),
            "t.fst".as_ref(),
            "--json".as_ref(),
            "--on".as_ref(),
            ext4.as_os_str(),
        ];
        run(dir.path(), line).exits(0).json();
    }
    std::fs::write(dir.path().join("noise"), "this is no strace\n".repeat(50)).unwrap();
    let ran = run(
        dir.path(),
        ["import", "noise", "--from", "strace", "-o", "n.fst"],
    );
    assert!(
        ran.stderr.contains("noise") && !ran.stderr.contains("panicked"),
        "{}",
        ran.stderr
    );
}

/// Programs that talk through pipes, sockets, events and memory without a name, some of their calls
/// interrupted by others'.
const PIPELINE: &str = "seq 1 20000 > nums; cat nums | sort -n | uniq -c | wc -l > out; \
    (sleep 1.2; echo late) | cat > /dev/null; exec 3<>nums; rm nums; head -c 100 <&3 > /dev/null; mkdir d; \
    cp out d/copy; cat d/copy";

#[test]
fn the_time_of_pipes_is_no_file_systems() {
    if !tool("strace") {
        return;
    }
    let dir = temp();
    let dir = dir.path();
    std::fs::create_dir(dir.join("w")).unwrap();
    let traced = Command::new("strace")
        .args([
            "-f", "-y", "-T", "-ttt", "-o", "../p.txt", "sh", "-c", PIPELINE,
        ])
        .current_dir(dir.join("w"))
        .output()
        .unwrap();
    if !traced.status.success() {
        fsage_testing::not_run("needs ptrace");
        return;
    }
    let line = [
        "import", "p.txt", "--from", "strace", "-o", "p.fst", "--json",
    ];
    let summary = run(dir, line).exits(0).json();
    let pipes = &summary["left_out"]["operations on pipes, sockets, devices and the like"];
    assert!(pipes.as_u64().unwrap() > 50, "{summary}");
    let total_ns = |file: &str| {
        let shown = run(dir, ["show", file, "--json"]).exits(0).json();
        let profile = profile("ext4");
        let line = ["predict", file, "--on", profile.to_str().unwrap(), "--json"];
        let predicted = run(dir, line).exits(0).json();
        let shown_ns = shown["latency_total_ns"].as_u64().unwrap();
        assert_eq!(predicted["traced_latency_ns"], shown_ns, "{file}");
        shown_ns
    };
    // The late process alone kept its reader waiting for longer than that.
    let all_ns = total_ns("p.fst");
    assert!(all_ns > 0 && all_ns < 1_000_000_000, "{all_ns}");
    let under = dir.join("w");
    let line = [
        "import", "p.txt", "--from", "strace", "-o", "u.fst", "--under",
    ];
    run(dir, line.into_iter().chain([under.to_str().unwrap()])).exits(0);
    assert!((1..all_ns).contains(&total_ns("u.fst")));
    let kinds = mix(&dir.join("u.fst"));
    let count = |kind: &str| kinds.iter().find(|k| k.0 == kind).map_or(0, |k| k.1);
    assert_eq!((count("mkdir"), count("unlink")), (1, 1), "{kinds:?}");
    let line = ["replay", "u.fst", ".", "--verify", "--json"];
    let replayed = run(dir, line).exits(0).json();
    assert_eq!(replayed["verified"]["wrong"], 0, "{replayed}");
    run(
        dir,
        [
            "import", "p.txt", "--from", "strace", "-o", "x.fst", "--under", "w",
        ],
    )
    .fails(2, &["--under", "absolute"]);
}

/// Uses the imported iolog of that many operations in every way.
fn an_iolog_is_used(dir: &std::path::Path, all: u64) {
    // It can be predicted and replayed, though it tells no time of any operation.
    let profile = profile("ext4");
    run(dir, ["predict", "l.fst", "--on", profile.to_str().unwrap()]).exits(0);
    std::fs::create_dir(dir.join("out")).unwrap();
    let result = run(dir, ["replay", "l.fst", "out", "--json"])
        .exits(0)
        .json();
    assert_eq!(
        (&result["replayed"], &result["differ"]),
        (&all.into(), &0.into())
    );
    let of_b = dir.join("b.0.0");
    let line = [
        "import",
        "log",
        "--from",
        "fio-iolog",
        "-o",
        "b.fst",
        "--under",
    ];
    run(dir, line.into_iter().chain([of_b.to_str().unwrap()])).exits(0);
    let kinds = mix(&dir.join("b.fst"));
    assert!(kinds.contains(&("write".into(), 64)), "{kinds:?}");
    assert!(!kinds.iter().any(|(kind, _)| kind == "read"), "{kinds:?}");
}

#[test]
fn an_iolog_of_the_real_fio_is_read() {
    if !tool("fio") {
        return;
    }
    let dir = temp();
    let dir = dir.path();
    let options = "--size=256k --bs=4k --ioengine=psync --write_iolog=log --name=a --rw=randrw --fsync=8 \
        --name=b --rw=write --fdatasync=16";
    let fio = Command::new("fio")
        .arg(format!("--directory={}", dir.display()))
        .args(options.split_whitespace())
        .current_dir(dir)
        .output()
        .unwrap();
    assert!(
        fio.status.success(),
        "{}",
        String::from_utf8_lossy(&fio.stderr)
    );
    let text = std::fs::read_to_string(dir.join("log")).unwrap();
    let version = if text.starts_with("fio version 3") {
        3
    } else {
        2
    };
    let actions = |action: &str| {
        let word = version - 1;
        let of = |line: &&str| line.split(' ').nth(word) == Some(action);
        text.lines().filter(of).count() as u64
    };
    let line = [
        "import",
        "log",
        "--from",
        "fio-iolog",
        "-o",
        "l.fst",
        "--json",
    ];
    let summary = run(dir, line).exits(0).json();
    let mut expected = Vec::new();
    for (kind, action) in [
        ("close", "close"),
        ("fdatasync", "datasync"),
        ("fsync", "sync"),
        ("open", "open"),
        ("read", "read"),
        ("write", "write"),
    ] {
        expected.push((kind.to_owned(), actions(action)));
    }
    expected.retain(|(_, count)| *count > 0);
    assert_eq!(mix(&dir.join("l.fst")), expected);
    assert!(
        actions("write") > 64 && actions("read") > 10,
        "{expected:?}"
    );
    let all: u64 = expected.iter().map(|(_, count)| count).sum();
    assert_eq!(summary["written"], all);
    an_iolog_is_used(dir, all);
    std::fs::write(dir.join("bad"), "fio version 2 iolog\n/a read 0 1\n").unwrap();
    run(
        dir,
        ["import", "bad", "--from", "fio-iolog", "-o", "bad.fst"],
    )
    .fails(1, &["bad", "line 2", "not open"]);
    assert!(!dir.join("bad.fst").exists());
}

#[test]
fn an_export_can_go_to_stdout() {
    let dir = temp();
    small_trace(dir.path());
    let line = ["export", "small.fst", "--to", "csv", "-o"];
    run(dir.path(), line.into_iter().chain(["t.csv"])).exits(0);
    let piped = run(dir.path(), line.into_iter().chain(["-"])).exits(0);
    let file = std::fs::read(dir.path().join("t.csv")).unwrap();
    assert!(piped.stdout == file, "another content");
    let both = line.into_iter().chain(["-", "--json"]);
    run(dir.path(), both).fails(2, &["--json", "--output"]);
}

#[test]
fn a_limit_of_file_sizes_is_reported() {
    let dir = temp();
    small_trace(dir.path());
    let ran = run_command(
        Command::new("sh")
            .current_dir(dir.path())
            .args([
                "-c",
                "ulimit -f 1; exec \"$@\"",
                "sh",
                env!("CARGO_BIN_EXE_fsage"),
            ])
            .args(["export", "small.fst", "--to", "csv", "-o", "t.csv"]),
    );
    ran.fails(1, &["t.csv", "large"]);
    assert!(!dir.path().join("t.csv").exists());
}

#[test]
fn an_hbench_trace_goes_both_ways() {
    let dir = temp();
    small_trace(dir.path());
    run(
        dir.path(),
        ["export", "small.fst", "--to", "hbench", "-o", "t.hb"],
    )
    .exits(0);
    run(
        dir.path(),
        ["import", "t.hb", "--from", "hbench", "-o", "back.fst"],
    )
    .exits(0);
    let back = mix(&dir.path().join("back.fst"));
    // Copies within the kernel are a read and a write there.
    for kind in [
        "mkdir", "rename", "unlink", "rmdir", "open", "close", "symlink",
    ] {
        let count =
            |all: &[(String, u64)]| all.iter().find(|(k, _)| k == kind).map_or(0, |(_, n)| *n);
        assert_eq!(
            count(&back),
            count(&mix(&dir.path().join("small.fst"))),
            "{kind}: {back:?}"
        );
    }
}

#[test]
fn an_hbench_snapshot_and_profile_go_both_ways() {
    let dir = temp();
    small_trace(dir.path());
    run(dir.path(), ["snapshot", "tree", "-o", "t.fss"]).exits(0);
    run(
        dir.path(),
        ["export", "t.fss", "--to", "hbench", "-o", "snap.hb"],
    )
    .exits(0);
    run(
        dir.path(),
        ["import", "snap.hb", "--from", "hbench", "-o", "back.fss"],
    )
    .exits(0);
    run(dir.path(), ["show", "back.fss", "--json"])
        .exits(0)
        .json();
    let ext4 = profile("ext4");
    let line = [
        "export".as_ref(),
        ext4.as_os_str(),
        "--to".as_ref(),
        "hbench".as_ref(),
        "-o".as_ref(),
        "p.hb".as_ref(),
    ];
    run(dir.path(), line).exits(0);
    run(
        dir.path(),
        ["import", "p.hb", "--from", "hbench", "-o", "back.fsp"],
    )
    .exits(0);
    let back = run(dir.path(), ["show", "back.fsp", "--json"])
        .exits(0)
        .json();
    let whole = run(
        dir.path(),
        ["show".as_ref(), ext4.as_os_str(), "--json".as_ref()],
    )
    .json();
    let estimate = |profile: &serde_json::Value, name: &str| {
        let metrics = profile["metrics"].as_array().unwrap();
        metrics
            .iter()
            .find(|m| m["name"] == name)
            .and_then(|m| m["estimate"].as_f64())
    };
    for name in ["CR", "STAT", "MKDIR"] {
        let (a, b) = (
            estimate(&whole, name).unwrap(),
            estimate(&back, name).unwrap(),
        );
        assert!((a - b).abs() / a < 0.01, "{name}: {a} and {b}");
    }
}

#[test]
fn the_wrong_thing_for_a_format_is_refused() {
    let dir = temp();
    small_trace(dir.path());
    run(dir.path(), ["snapshot", "tree", "-o", "t.fss"]).exits(0);
    run(
        dir.path(),
        ["export", "t.fss", "--to", "hbench", "-o", "snap.hb"],
    )
    .exits(0);
    run(
        dir.path(),
        ["export", "small.fst", "--to", "hbench", "-o", "t.hb"],
    )
    .exits(0);
    run(dir.path(), ["export", "t.fss", "--to", "strace", "-o", "x"])
        .fails(2, &["t.fss", "snapshot"]);
    run(
        dir.path(),
        ["import", "t.hb", "--from", "hbench", "-o", "x.txt"],
    )
    .fails(2, &["x.txt"]);
    run(
        dir.path(),
        ["import", "t.hb", "--from", "strace", "-o", "x.fss"],
    )
    .fails(2, &["x.fss"]);
    run(
        dir.path(),
        ["import", "missing", "--from", "strace", "-o", "x.fst"],
    )
    .fails(1, &["missing"]);
    run(
        dir.path(),
        ["import", "snap.hb", "--from", "hbench", "-o", "x.fsp"],
    )
    .fails(1, &["snap.hb"]);
    std::fs::write(dir.path().join("empty"), "").unwrap();
    run(
        dir.path(),
        ["import", "empty", "--from", "strace", "-o", "x.fst"],
    )
    .fails(1, &["empty", "line 1", "strace -f -ttt -T"]);
    for (from, output, expected) in [
        ("hbench", "x.fst", "a file of HBench-FS"),
        ("hbench", "x.fss", "a file of HBench-FS"),
        ("classic", "x.fss", "a text snapshot"),
    ] {
        run(
            dir.path(),
            ["import", "empty", "--from", from, "-o", output],
        )
        .fails(1, &["empty", "it is empty", expected]);
        assert!(!dir.path().join(output).exists());
    }
    assert!(!dir.path().join("x.fst").exists());
}

#[test]
fn csv_has_a_line_for_each_operation() {
    let dir = temp();
    let trace = small_trace(dir.path());
    run(
        dir.path(),
        ["export", "small.fst", "--to", "csv", "-o", "t.csv"],
    )
    .exits(0);
    let csv = std::fs::read_to_string(dir.path().join("t.csv")).unwrap();
    let mut lines = csv.lines();
    let columns = lines.next().unwrap().split(',').count();
    assert!(columns > 5, "{csv}");
    let all: u64 = mix(&trace).iter().map(|(_, n)| n).sum();
    assert_eq!(lines.count() as u64, all);
}

#[test]
fn hidden_names_keep_their_structure() {
    let dir = temp();
    let trace = small_trace(dir.path());
    std::fs::write(dir.path().join("key"), "a key of sixteen bytes or more").unwrap();
    std::fs::write(dir.path().join("short"), "short").unwrap();
    let hide = |key: &str, out: &str| {
        run(
            dir.path(),
            ["anonymize", "small.fst", "--key-file", key, "-o", out],
        )
    };
    hide("short", "no.fst").fails(1, &["short"]);
    hide("missing", "no.fst").fails(1, &["missing"]);
    assert!(!dir.path().join("no.fst").exists());
    hide("key", "hidden.fst").exits(0);
    assert_eq!(mix(&trace), mix(&dir.path().join("hidden.fst")));
    run(
        dir.path(),
        ["export", "hidden.fst", "--to", "csv", "-o", "hidden.csv"],
    )
    .exits(0);
    run(dir.path(), ["snapshot", "tree", "-o", "t.fss"]).exits(0);
    run(
        dir.path(),
        [
            "anonymize",
            "t.fss",
            "--key-file",
            "key",
            "-o",
            "hidden.fss",
        ],
    )
    .exits(0);
    run(dir.path(), ["show", "hidden.fss", "--json"])
        .exits(0)
        .json();
    // Data pages are compressed, so the text is looked at as well as the file.
    let shown = run(dir.path(), ["show", "hidden.fst", "--json"])
        .exits(0)
        .stdout;
    for file in ["hidden.fst", "hidden.csv", "hidden.fss"] {
        no_names(file, &std::fs::read(dir.path().join(file)).unwrap());
    }
    no_names("show", &shown);
    run(
        dir.path(),
        ["anonymize", "key", "--key-file", "key", "-o", "x"],
    )
    .fails(1, &["key"]);
    let ext4 = profile("ext4");
    let line = [
        "anonymize".as_ref(),
        ext4.as_os_str(),
        "--key-file".as_ref(),
        "key".as_ref(),
        "-o".as_ref(),
        "x".as_ref(),
    ];
    // Which holds names too: the machine's, the target's.
    let hidden = run(dir.path(), line).exits(0);
    assert!(
        hidden.stderr.contains("hidden: profile.name"),
        "{}",
        hidden.stderr
    );
}

/// A log with relative names, as fio writes with a relative `--directory`, is replayed where it is said what they are
/// below, and says what is missing where it is not.
#[test]
fn relative_names_of_an_iolog_are_below_the_directory_that_is_given() {
    let dir = temp();
    let dir = dir.path();
    std::fs::create_dir(dir.join("t")).unwrap();
    let log = "fio version 3 iolog\n0 d/a add\n1 d/a open\n5 d/a write 0 4096\n9 d/a sync 0 0\n12 d/a close\n\
               20 /other/b open\n21 /other/b close\n";
    std::fs::write(dir.join("log"), log).unwrap();
    let import = |more: &[&str]| {
        let line = ["import", "log", "--from", "fio-iolog", "-o", "l.fst"];
        run(dir, line.iter().chain(more))
    };
    import(&["--directory", "d"]).fails(2, &["--directory takes an absolute directory"]);
    import(&["--directory", "/x", "--under", "/x/d"]).exits(0);
    assert_eq!(
        mix(&dir.join("l.fst"))
            .iter()
            .map(|(_, count)| count)
            .sum::<u64>(),
        4
    );
    let replayed = run(dir, ["replay", "l.fst", "t", "--json"]).exits(0).json();
    assert_eq!(replayed["operations"], 4, "{replayed}");
    std::fs::write(dir.join("log"), log.replace("/other/b", "b")).unwrap();
    import(&[]).exits(0);
    run(dir, ["replay", "l.fst", "t"]).fails(1, &["import --directory DIR"]);
}

/// A small trace, and in `an.fst` what a prediction adds to it.
fn annotated(dir: &Path) {
    small_trace(dir);
    let ext4 = profile("ext4").display().to_string();
    let line = [
        "predict",
        "small.fst",
        "--on",
        &ext4,
        "--annotate",
        "an.fst",
    ];
    run(dir, line).exits(0);
}

/// Nothing that a trace holds is missing in its comma-separated values, also what an analysis has added.
#[test]
fn comma_separated_values_have_what_was_added() {
    let dir = temp();
    let dir = dir.path();
    annotated(dir);
    run(dir, ["export", "an.fst", "--to", "csv", "-o", "an.csv"]).exits(0);
    let added = TraceReader::open(&dir.join("an.fst")).unwrap();
    let added: Vec<_> = added
        .annotation_columns()
        .iter()
        .map(|column| column.name.clone())
        .collect();
    assert!(!added.is_empty());
    let text = std::fs::read_to_string(dir.join("an.csv")).unwrap();
    let header = text.lines().next().unwrap();
    assert!(header.ends_with(&added.join(",")), "{header}");
    let at = header
        .split(',')
        .position(|name| *name == added[0])
        .unwrap();
    let predicted = text.lines().skip(1).filter(|line| {
        let value = line.split(',').nth(at).unwrap();
        value.parse::<f64>().is_ok_and(|ns| ns > 0.0)
    });
    assert!(predicted.count() > 0, "{text}");
    // The same file may be written again.
    run(dir, ["export", "an.fst", "--to", "csv", "-o", "an.csv"]).exits(0);
}

/// What it hides nothing of is not called harmless.
#[test]
fn what_cannot_be_anonymized_is_told_by_what_it_is_and_holds() {
    let dir = temp();
    let dir = dir.path();
    std::fs::write(dir.join("key"), "a key of sixteen bytes or more").unwrap();
    std::fs::create_dir(dir.join("t")).unwrap();
    let line = [
        "bench", "--target", "t", "--runs=1", "-o", "b", "--", "true",
    ];
    run(dir, line).exits(0);
    std::fs::write(dir.join("m.cfg"), "IOChunkSize=4096\n").unwrap();
    for (file, words) in [
        (
            "b/experiment.json",
            [
                "is a result of bench",
                "it holds names as they are: of hosts",
            ],
        ),
        (
            "m.cfg",
            ["is a configuration of FileRunner", "made without names"],
        ),
    ] {
        let line = ["anonymize", file, "--key-file", "key", "-o", "x"];
        let ran = run(dir, line);
        assert_eq!(ran.code(), 2);
        let said = ran.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        for words in words {
            assert!(said.contains(words), "{said}");
        }
        assert!(!dir.join("x").exists());
    }
}

fn no_names(file: &str, bytes: &[u8]) {
    for name in ["first", "second", "third", "alias", "fsage-test-", "hello"] {
        let found = bytes
            .windows(name.len())
            .any(|window| window == name.as_bytes());
        assert!(!found, "`{name}` is still in {file}");
    }
}

/// Hides the names of a trace, with a key that is made.
fn hidden(dir: &std::path::Path, file: &str) -> common::Ran {
    std::fs::write(dir.join("key"), [7; 32]).unwrap();
    let line = [
        "anonymize",
        file,
        "--key-file",
        "key",
        "-o",
        "hidden.fst",
        "--json",
    ];
    run(dir, line).exits(0)
}

/// The columns that were added to a trace, and their values.
fn added(file: &std::path::Path) -> (Vec<AnnotationColumn>, Vec<Vec<AnnotationValue>>) {
    let mut reader = TraceReader::open(file).unwrap();
    let columns = reader.annotation_columns().to_vec();
    let (mut ops, mut notes) = (Vec::new(), Annotations::default());
    let mut rows = Vec::new();
    while reader.next_annotated(&mut ops, &mut notes).unwrap() > 0 {
        rows.extend((0..ops.len()).map(|row| notes.row(row).to_vec()));
        ops.clear();
    }
    (columns, rows)
}

#[test]
fn what_a_prediction_has_added_stays_without_the_names() {
    let dir = temp();
    let dir = dir.path();
    annotated(dir);
    let said = hidden(dir, "an.fst").json();
    assert!(said.get("left_out").is_none(), "{said}");
    let (columns, rows) = added(&dir.join("an.fst"));
    let some = |value: &AnnotationValue| *value != AnnotationValue::Absent;
    assert!(columns.len() >= 3 && rows.iter().flatten().any(some));
    assert_eq!(added(&dir.join("hidden.fst")), (columns, rows));
}

/// Texts that others have added may be names; they are left out and told.
#[test]
fn texts_that_others_have_added_are_left_out_with_the_names() {
    let dir = temp();
    let dir = dir.path();
    let column = |name: &str, kind| AnnotationColumn {
        name: name.into(),
        kind,
    };
    let columns = [
        column("owner", AnnotationKind::Text),
        column("relation_2", AnnotationKind::Text),
        column("rank", AnnotationKind::Integer),
    ];
    let meta = TraceMeta::default();
    let mut writer = TraceWriter::create_annotated(&dir.join("by.fst"), meta, &columns).unwrap();
    let op = Op::new(OpKind::Sync, Pid(1), Tid(1), 0);
    let text = |text: &str| AnnotationValue::Text(text.into());
    let values = [text("alice"), text("next"), AnnotationValue::Integer(3)];
    writer
        .push_annotated(&op, &PathTable::new(), &values)
        .unwrap();
    writer.finish(TraceEnd::default()).unwrap();
    let ran = hidden(dir, "by.fst");
    let said = "left out, it may hold names: operations.owner\n";
    assert!(ran.stderr.contains(said), "{}", ran.stderr);
    let left_out = &ran.json()["left_out"];
    assert_eq!(*left_out, serde_json::json!(["operations.owner"]));
    let [_, relation, rank] = columns;
    let [_, next, three] = values;
    let kept = (vec![relation, rank], vec![vec![next, three]]);
    assert_eq!(added(&dir.join("hidden.fst")), kept);
}

/// Lines of a log need not be in the order of their times; the trace says how many are not.
#[test]
fn lines_of_an_iolog_that_are_late_are_counted() {
    let dir = temp();
    let dir = dir.path();
    let log = "fio version 3 iolog\n0 /a add\n1 /a open\n500 /a write 0 4096\n300 /a write 4096 4096\n\
               400 /a write 8192 4096\n600 /a close\n";
    std::fs::write(dir.join("log"), log).unwrap();
    let line = ["import", "log", "--from", "fio-iolog", "-o", "l.fst"];
    run(dir, line).exits(0);
    let reader = TraceReader::open(&dir.join("l.fst")).unwrap();
    let end = reader.end().unwrap();
    assert_eq!((end.late, end.elapsed_ns), (2, 600_000));
}

/// Of a pipe that nobody writes to every verb says so; one with a writer is read, however late that writes, but by who must
/// read it more than once.
#[test]
fn pipes_are_read_where_somebody_writes_to_them() {
    use std::io::Write;
    let dir = temp();
    let dir = dir.path();
    let made = Command::new("mkfifo").arg(dir.join("pipe")).status();
    assert!(made.unwrap().success());
    small_trace(dir);
    let line = ["import", "pipe", "--from", "fio-iolog", "-o", "x.fst"];
    run(dir, line).fails(1, &["pipe: it is a pipe, which can be read only once"]);
    let nobody = "pipe: nobody writes to this pipe";
    std::thread::scope(|scope| {
        for line in [
            "check pipe",
            "compare pipe",
            "anonymize small.fst --key-file pipe -o hidden.fst",
            "export pipe --to wml -o x.wml",
            "import pipe --from classic -o x.fss",
            "import pipe --from strace -o x.fst",
            "layout . --against pipe",
        ] {
            scope.spawn(move || run(dir, line.split(' ')).fails(1, &[nobody]));
        }
    });
    let text = "# taken 1\n2 1 1 1 512\n7 1 1 0 9\n";
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut pipe = std::fs::File::options()
                .write(true)
                .open(dir.join("pipe"))
                .unwrap();
            // Later than anybody would wait for a writer to come.
            std::thread::sleep(std::time::Duration::from_secs(4));
            pipe.write_all(text.as_bytes()).unwrap();
        });
        let line = ["import", "pipe", "--from", "classic", "-o", "x.fss"];
        run(dir, line).exits(0);
    });
}
