//! `fsage trace`: the command's own status, attaching, interruption, and what is left behind.

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

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{fsage, mix, profile, root, run, run_command, start, temp, tool, until};
use rustix::process::Signal;

const METHODS: [&str; 2] = ["auto", "ptrace"];

#[test]
fn the_commands_status_is_passed_on() {
    let dir = temp();
    for method in METHODS {
        for (script, code) in [
            ("exit 0", 0),
            ("exit 3", 3),
            ("kill -TERM $$", 143),
            ("kill -KILL $$", 137),
        ] {
            let args = [
                "trace", "--method", method, "-o", "t.fst", "--", "sh", "-c", script,
            ];
            run(dir.path(), args).exits(code);
            let shown = run(dir.path(), ["show", "t.fst", "--json"]).exits(0).json();
            let end = &shown["end"];
            if code < 128 {
                assert_eq!(end["exit_status"], code, "{end}");
            } else {
                assert_eq!(end["exit_signal"], code - 128, "{end}");
            }
        }
    }
}

/// A shell puts its own output back in the place of the file that a command wrote to, which that closes; the file system
/// does so after the call.
#[test]
fn what_a_shell_wrote_to_is_closed_by_dup2() {
    let dir = temp();
    for method in METHODS {
        let line = format!("trace --method {method} -o t.fst --under . -- sh -c");
        let script = "echo a >f; exec 3>g; echo b >&3; exec 3>&-";
        run(dir.path(), line.split(' ').chain([script])).exits(0);
        let text = run(dir.path(), ["export", "--to", "csv", "-o", "-", "t.fst"])
            .exits(0)
            .text();
        let mut lines = text.lines();
        let names: Vec<&str> = lines.next().unwrap().split(',').collect();
        let column = |name: &str| names.iter().position(|n| *n == name).unwrap();
        let (kind, flags) = (column("kind"), column("flags"));
        let closes: Vec<String> = lines
            .map(|line| line.split(',').collect::<Vec<_>>())
            .filter(|row| row[kind] == "close")
            .map(|row| row[flags].to_owned())
            .collect();
        // Of f; and of g, whose descriptor is closed by a call of its own.
        assert!(closes.contains(&"1".to_owned()), "{method}: {text}");
        assert!(closes.iter().any(|flags| flags != "1"), "{method}: {text}");
    }
}

#[test]
fn the_commands_output_is_its_own() {
    let dir = temp();
    let ran = run(
        dir.path(),
        ["trace", "-o", "t.fst", "--", "echo", "only this"],
    )
    .exits(0);
    assert_eq!(ran.text(), "only this\n");
}

/// Neither method could tell where a process is and what it has open.
#[test]
fn without_a_proc_of_its_own_nothing_is_traced() {
    if !root() || !tool("unshare") {
        return;
    }
    let bare = "mount -t tmpfs none /proc && exec \"$0\" \"$@\"";
    for method in ["auto", "ebpf", "ptrace"] {
        for with in [
            &["-m", "--propagation", "private", "sh", "-c", bare][..],
            &["-p", "-f"],
        ] {
            let dir = temp();
            let mut command = Command::new("unshare");
            command.current_dir(dir.path()).args(with);
            command.arg(env!("CARGO_BIN_EXE_fsage"));
            command.args([
                "trace", "--method", method, "-o", "t.fst", "--", "touch", "ran",
            ]);
            let ran = run_command(&mut command).fails(1, &["/proc", "hint: mount proc on /proc"]);
            assert!(!ran.stderr.contains("--method"), "{}", ran.stderr);
            assert!(!dir.path().join("ran").exists());
        }
    }
}

#[test]
fn a_command_that_is_not_there_is_one_error() {
    let dir = temp();
    for method in METHODS {
        for command in ["/nonexistent/command", "no-such-command-anywhere"] {
            let ran = run(
                dir.path(),
                ["trace", "--method", method, "-o", "t.fst", "--", command],
            );
            ran.fails(1, &["failed to run", command, "No such file"]);
            if dir.path().join("t.fst").exists() {
                run(dir.path(), ["show", "t.fst", "--json"]).json();
            }
        }
    }
}

#[test]
fn what_cannot_be_written_is_reported_before_the_command_runs() {
    let dir = temp();
    std::fs::create_dir(dir.path().join("directory.fst")).unwrap();
    for (output, method) in [
        ("missing/t.fst", "auto"),
        ("missing/t.fst", "ptrace"),
        ("directory.fst", "auto"),
    ] {
        run(
            dir.path(),
            [
                "trace", "--method", method, "-o", output, "--", "touch", "ran",
            ],
        )
        .fails(1, &[output]);
        assert!(
            !dir.path().join("ran").exists(),
            "the command ran all the same"
        );
    }
}

#[test]
fn under_keeps_to_a_directory() {
    let dir = temp();
    for name in ["in", "out"] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
    }
    let script = "echo 1 > in/kept; echo 2 > out/left";
    for method in METHODS {
        let args = [
            "trace", "--method", method, "--under", "in", "-o", "t.fst", "--", "sh", "-c", script,
        ];
        run(dir.path(), args).exits(0);
        let ops = run(dir.path(), ["show", "t.fst", "--ops"]).exits(0).text();
        assert!(ops.contains("kept"), "{ops}");
        assert!(!ops.contains("left"), "{ops}");
    }
    run(
        dir.path(),
        ["trace", "--under", "nowhere", "-o", "t.fst", "--", "true"],
    )
    .fails(1, &["nowhere"]);
}

/// Shells and `tee` name files so.
#[test]
fn what_is_opened_by_way_of_descriptors_is_kept_and_replayed() {
    const SCRIPT: &str = "cd in; exec 3>log; echo one >&3; echo two > /dev/fd/3; \
        echo three | tee /dev/fd/3 /proc/self/fd/3 >/dev/null; \
        sh -c 'echo four >> /dev/stdout' >> log2; cat /dev/stdin < log2";
    let dir = temp();
    let dir = dir.path();
    for method in METHODS {
        for name in ["in", "out"] {
            let _ = std::fs::remove_dir_all(dir.join(name));
            std::fs::create_dir(dir.join(name)).unwrap();
        }
        let args = [
            "trace", "--method", method, "--under", "in", "-o", "t.fst", "--", "sh", "-c", SCRIPT,
        ];
        run(dir, args).exits(0);
        let ops = run(dir, ["show", "t.fst", "--ops"]).exits(0).text();
        let moved = |line: &&str| line.contains(" write(") || line.contains(" read(");
        assert!(ops.lines().filter(moved).count() >= 6, "{method}: {ops}");
        assert!(!ops.contains("/dev/") && !ops.contains("/proc/"), "{ops}");
        let result = run(dir, ["replay", "t.fst", "out", "--verify", "--json"]);
        let result = result.exits(0).json();
        assert_eq!(result["differ"], 0, "{method}: {result}");
        assert_eq!(result["verified"]["wrong"], 0, "{method}: {result}");
        assert!(
            result["skipped"]["unknown_descriptor"].is_null(),
            "{result}"
        );
    }
}

#[test]
fn a_directory_whose_name_is_no_text_is_kept_to_as_well() {
    let dir = temp();
    let name = OsStr::from_bytes(b"b\xff\\x41");
    std::fs::create_dir(dir.path().join(name)).unwrap();
    std::fs::write(dir.path().join(name).join("before"), "1234").unwrap();
    let charged = |trace: &str| {
        let mut args = ["predict", trace, "--json", "--snapshot", "s.fss", "--on"]
            .map(OsStr::new)
            .to_vec();
        let profile = profile("ext4");
        args.push(profile.as_os_str());
        if trace == "anon.fst" {
            args.drain(3..5);
        }
        let charged = run(dir.path(), args).exits(0).json()["operations_charged"].as_u64();
        charged.unwrap()
    };
    let mut snapshot = ["snapshot", "-o", "s.fss"].map(OsStr::new).to_vec();
    snapshot.push(name);
    run(dir.path(), snapshot).exits(0);
    std::fs::write(dir.path().join("key"), [7; 32]).unwrap();
    for method in METHODS {
        let script = "cd b*; cat before; echo 1 > made; rm made";
        let mut args = ["trace", "--method", method, "-o", "t.fst", "--under"]
            .map(OsStr::new)
            .to_vec();
        args.push(name);
        args.extend(["--", "sh", "-c", script].map(OsStr::new));
        run(dir.path(), args).exits(0);
        assert!(charged("t.fst") >= 6);
        run(
            dir.path(),
            ["anonymize", "t.fst", "--key-file", "key", "-o", "anon.fst"],
        )
        .exits(0);
        assert_eq!(charged("anon.fst"), charged("t.fst"));
        let replay = [
            "replay",
            "t.fst",
            "mem:fast",
            "--snapshot",
            "s.fss",
            "--json",
        ];
        let replayed = run(dir.path(), replay).exits(0).json()["replayed"].as_u64();
        assert!(replayed.unwrap() >= 4);
    }
}

/// A shell that writes a line every few milliseconds until a file called `stop` appears.
const BUSY: &str = "while [ ! -e stop ]; do echo line >> log; sleep 0.01; done; exit 7";

/// Whether [`BUSY`] has ended its first write.
fn wrote_lines(dir: &Path) -> bool {
    std::fs::metadata(dir.join("log")).is_ok_and(|log| log.len() > "line\n".len() as u64)
}

#[test]
fn attaching_leaves_the_process_unharmed() {
    for method in METHODS {
        let dir = temp();
        let mut busy = Command::new("sh")
            .args(["-c", BUSY])
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let pid = busy.id().to_string();
        let args = [
            "trace", "--method", method, "-o", "t.fst", "--for", "300ms", "--pid", &pid,
        ];
        let ran = run(dir.path(), args);
        let alive = busy.try_wait().unwrap().is_none();
        std::fs::write(dir.path().join("stop"), "").unwrap();
        let status = busy.wait().unwrap();
        ran.exits(0);
        assert!(alive, "the process ended with the capture");
        assert_eq!(status.code(), Some(7));
        let ops = run(dir.path(), ["show", "t.fst", "--ops"]).exits(0).text();
        assert!(ops.contains("\"log\""), "{ops}");
    }
}

#[test]
fn a_process_that_is_not_there_is_one_error() {
    let dir = temp();
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let pid = gone.id().to_string();
    for method in METHODS {
        run(
            dir.path(),
            ["trace", "--method", method, "-o", "t.fst", "--pid", &pid],
        )
        .fails(1, &[&pid]);
    }
}

#[test]
fn an_interrupt_keeps_the_trace() {
    for method in METHODS {
        let dir = temp();
        let running = start(fsage().current_dir(dir.path()).args([
            "trace", "--method", method, "-o", "t.fst", "--", "sh", "-c", BUSY,
        ]));
        until("the command to write", || wrote_lines(dir.path()));
        // The command lives on, with the pipes that it shares with fsage.
        running.ended_by(Signal::INT, || {
            std::fs::write(dir.path().join("stop"), "").unwrap();
        });
        let shown = run(dir.path(), ["show", "t.fst", "--json"]).exits(0).json();
        assert_eq!(shown["end"]["stopped"], "interrupted", "{}", shown["end"]);
        assert!(
            mix(&dir.path().join("t.fst"))
                .iter()
                .any(|(kind, _)| kind == "write")
        );
    }
}

#[test]
fn a_killed_capture_can_be_read_as_far_as_it_came() {
    let dir = temp();
    // Enough operations that pieces are written before the kill, however short the wait.
    let script = "i=0; while [ ! -e stop ]; do : > f; i=$((i+1)); done";
    let running = start(fsage().current_dir(dir.path()).args([
        "trace", "--under", ".", "-o", "t.fst", "--", "sh", "-c", script,
    ]));
    let trace = dir.path().join("t.fst");
    // A trace can be looked at while it is written.
    until("a piece", || {
        trace.exists() && run(dir.path(), ["show", "t.fst", "--json"]).json()["operations"] != 0
    });
    running.ended_by(Signal::KILL, || {
        std::fs::write(dir.path().join("stop"), "").unwrap();
    });
    let ran = run(dir.path(), ["show", "t.fst", "--json"]).exits(3);
    assert!(
        ran.stderr.contains("t.fst"),
        "the loss is not said: {}",
        ran.stderr
    );
    assert!(ran.json()["operations"].as_u64().unwrap() > 0);
    let profile = common::profile("ext4");
    let predict = |more: &[&str]| {
        let mut command = fsage();
        command
            .current_dir(dir.path())
            .args(["predict", "t.fst", "--json", "--on"]);
        run_command(command.arg(&profile).args(more))
    };
    predict(&[]).fails(1, &["t.fst", "--allow-lossy"]);
    predict(&["--allow-lossy"]).exits(0).json();
}

/// Ids of the BPF programs that are called after fsage; ids are not used twice.
fn programs() -> BTreeSet<u64> {
    let shown = Command::new("bpftool")
        .args(["prog", "show", "--json"])
        .output()
        .unwrap();
    let programs: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap_or_default();
    programs.as_array().map_or_else(BTreeSet::new, |all| {
        all.iter()
            .filter(|program| {
                program["name"]
                    .as_str()
                    .is_some_and(|n| n.starts_with("fsage"))
            })
            .filter_map(|program| program["id"].as_u64())
            .collect()
    })
}

#[test]
fn no_programs_stay_in_the_kernel() {
    if !root() || !tool("bpftool") {
        return;
    }
    let dir = temp();
    let running = start(fsage().current_dir(dir.path()).args([
        "trace", "--method", "ebpf", "-o", "t.fst", "--", "sh", "-c", BUSY,
    ]));
    until("the command to write", || wrote_lines(dir.path()));
    // Those of other captures are among them; they end as well.
    let during = programs();
    running.ended_by(Signal::KILL, || {
        std::fs::write(dir.path().join("stop"), "").unwrap();
    });
    if during.is_empty() {
        fsage_testing::not_run("this bpftool shows no programs");
        return;
    }
    until("the programs to go", || programs().is_disjoint(&during));
}

/// fsage as an ordinary user, in a directory of that user's. The binary is copied there: where it
/// was built, others may not be allowed to look.
fn as_nobody(dir: &Path) -> Command {
    let exe = dir.join("fsage");
    if !exe.exists() {
        std::fs::copy(env!("CARGO_BIN_EXE_fsage"), &exe).unwrap();
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let mut command = Command::new("setpriv");
    command
        .args([
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
            "--",
        ])
        .arg(exe)
        .current_dir(dir)
        .stdin(Stdio::null());
    command
}

#[test]
fn an_ordinary_user_traces_with_ptrace_and_is_told_why() {
    if !root() || !tool("setpriv") {
        return;
    }
    let dir = temp();
    for method in METHODS {
        let output = format!("{method}.fst");
        let ran = run_command(as_nobody(dir.path()).args([
            "trace",
            "--method",
            method,
            "-o",
            &output,
            "--",
            "sh",
            "-c",
            "echo x > made; exit 5",
        ]))
        .exits(5);
        assert!(ran.stderr.contains("tracing with ptrace"), "{}", ran.stderr);
        assert_eq!(
            method == "auto",
            ran.stderr
                .contains("tracing with ptrace: eBPF needs root\n"),
            "{}",
            ran.stderr
        );
        assert!(!ran.stderr.contains("failed to"), "{}", ran.stderr);
        let ops = run(dir.path(), ["show", &output, "--ops"]).exits(0).text();
        assert!(ops.contains("\"made\""), "{ops}");
    }
    let ran = run_command(as_nobody(dir.path()).args([
        "trace", "--method", "ebpf", "-o", "no.fst", "--", "touch", "ran",
    ]));
    let ran = ran.fails(1, &["eBPF", "hint: ", "--method ptrace"]);
    let first = ran
        .stderr
        .lines()
        .find(|line| line.starts_with("fsage: "))
        .unwrap();
    assert_eq!(
        first.matches("failed to").count(),
        2,
        "says it more than once: {first}"
    );
    assert!(!dir.path().join("ran").exists());
    assert!(
        !dir.path().join("no.fst").exists(),
        "a file of a capture that never began"
    );
}

#[test]
fn root_without_capabilities_falls_back_too() {
    if !root() || !tool("setpriv") {
        return;
    }
    let dir = temp();
    let bare = |method: &str| {
        let mut command = Command::new("setpriv");
        command
            .args([
                "--bounding-set",
                "-sys_admin,-bpf,-perfmon",
                "--inh-caps",
                "-sys_admin,-bpf,-perfmon",
                "--",
            ])
            .arg(env!("CARGO_BIN_EXE_fsage"))
            .args(["trace", "--method", method, "-o", "t.fst", "--", "true"])
            .current_dir(dir.path());
        run_command(&mut command)
    };
    let ran = bare("auto").exits(0);
    assert!(
        ran.stderr
            .contains("tracing with ptrace: eBPF is not possible here"),
        "{}",
        ran.stderr
    );
    bare("ebpf").fails(1, &["eBPF"]);
}

#[test]
fn the_summary_is_json() {
    let dir = temp();
    let ran = run(dir.path(), ["trace", "--json", "-o", "t.fst", "--", "true"]).exits(0);
    let summary = ran.json();
    for field in [
        "operations",
        "operations_lost",
        "elapsed_ns",
        "latency_total_ns",
        "file_bytes",
    ] {
        assert!(summary[field].is_u64(), "{field}: {summary}");
    }
    assert_eq!(summary["exit_status"], 0);
}

#[test]
fn the_summary_and_the_shown_trace_agree() {
    let dir = temp();
    for method in METHODS {
        let args = [
            "trace",
            "--method",
            method,
            "--json",
            "-o",
            "t.fst",
            "--",
            "cp",
            "-r",
            concat!(env!("CARGO_MANIFEST_DIR"), "/src"),
            "to",
        ];
        let summary = run(dir.path(), args).exits(0).json();
        let shown = run(dir.path(), ["show", "t.fst", "--json"]).exits(0).json();
        assert_eq!(summary["operations"], shown["operations"]);
        assert_eq!(summary["elapsed_ns"], shown["span_ns"]);
        let profile = common::profile("ext4").display().to_string();
        let predicted = run(dir.path(), ["predict", "t.fst", "--on", &profile, "--json"]);
        // One meaning of the time in the file system, in all that say it.
        assert_eq!(
            summary["latency_total_ns"], shown["latency_total_ns"],
            "{method}"
        );
        assert_eq!(
            summary["latency_total_ns"],
            predicted.json()["traced_latency_ns"],
            "{method}"
        );
        let kinds = shown["kinds"].as_array().unwrap();
        let exec = kinds.iter().find(|kind| kind["kind"] == "exec").unwrap();
        assert_eq!(exec["latency_total_ns"], 0, "{method}");
        std::fs::remove_dir_all(dir.path().join("to")).unwrap();
    }
}
