//! `fsage trace` where it is hard: names through links, processes that outlive the command,
//! interrupts that reach fsage alone, calls that no method understands.

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
use std::process::Command;

use common::{fsage, names, run, start, temp, tool, until};
use rustix::process::Signal;

const METHODS: [&str; 2] = ["auto", "ptrace"];

#[test]
fn under_finds_a_directory_by_other_names() {
    for method in METHODS {
        let dir = temp();
        std::fs::create_dir_all(dir.path().join("tree/sub")).unwrap();
        std::fs::create_dir(dir.path().join("other")).unwrap();
        std::fs::write(dir.path().join("tree/file"), "x").unwrap();
        std::fs::write(dir.path().join("other/outside"), "x").unwrap();
        std::os::unix::fs::symlink("tree", dir.path().join("link")).unwrap();
        std::os::unix::fs::symlink("../other", dir.path().join("tree/out")).unwrap();
        std::os::unix::fs::symlink("tree/file", dir.path().join("name")).unwrap();
        let script = "cat link/file; cat name; (cd link/sub; echo y > made); ln -s tree later; \
                      mkdir later/new; cat tree/out/outside other/outside";
        run(
            dir.path(),
            [
                "trace", "--method", method, "--under", "link", "-o", "t.fst", "--", "sh", "-c",
                script,
            ],
        )
        .exits(0);
        let ops = run(dir.path(), ["show", "t.fst", "--ops"]).exits(0).text();
        for found in [
            "open(\"link/file\"",
            "open(\"name\"",
            "\"made\"",
            "\"later/new\"",
        ] {
            assert!(ops.contains(found), "{method}: {found} is missing: {ops}");
        }
        assert!(!ops.contains("outside"), "{method}: {ops}");
        let reads = ops.lines().filter(|line| line.contains(" read(")).count();
        assert_eq!(
            reads, 4,
            "{method}: two reads of the file by each name: {ops}"
        );
    }
}

/// In a PID namespace of its own, where it can be said which number is next.
#[test]
fn processes_with_the_same_number_are_several() {
    if !(common::root() && tool("unshare")) {
        return;
    }
    let dir = temp();
    let script = "for i in 1 2 3; do echo 500 >/proc/sys/kernel/ns_last_pid; (:); done";
    let mut command = Command::new("unshare");
    command.args(["-p", "-f", "--mount-proc", env!("CARGO_BIN_EXE_fsage")]);
    command.args(["trace", "--method", "ptrace", "-o", "t.fst"]);
    command.args(["--", "sh", "-c", script]);
    common::run_command(command.current_dir(dir.path())).exits(0);
    let shown = run(dir.path(), ["show", "t.fst", "--json"]).exits(0).json();
    let processes = shown["processes"].as_array().unwrap();
    let of_number = processes.iter().filter(|process| process["pid"] == 501);
    assert_eq!(of_number.count(), 3, "{processes:?}");
    let page = run(dir.path(), ["show", "t.fst"]).exits(0).text();
    assert!(page.contains("; 4 processes"), "{page}");
}

#[test]
fn of_a_copy_across_the_border_the_half_inside_is_kept() {
    use std::os::unix::fs::MetadataExt;
    for method in METHODS {
        let dir = temp();
        for made in ["tree", "other"] {
            std::fs::create_dir(dir.path().join(made)).unwrap();
        }
        std::fs::write(dir.path().join("other/file"), [7; 9000]).unwrap();
        let script = "cp other/file tree/copy; cp tree/copy other/back; mv other/back tree/last";
        let args = [
            "trace", "--method", method, "--under", "tree", "-o", "t.fst", "--", "sh", "-c", script,
        ];
        run(dir.path(), args).exits(0);
        let ops = run(dir.path(), ["show", "t.fst", "--ops"]).exits(0).text();
        let outside = std::fs::metadata(dir.path().join("other/file")).unwrap();
        assert!(
            !ops.contains(&format!(":{}:", outside.ino())),
            "{method}: {ops}"
        );
        assert!(ops.contains("rename(\"other/back\""), "{method}: {ops}");
        // What a cp without copy_file_range does instead.
        for either in [[" copy_in(", " read("], [" copy_out(", " write("]] {
            let halves: Vec<&str> = ops
                .lines()
                .filter(|line| either.iter().any(|kind| line.contains(kind)))
                .collect();
            assert_ne!(halves.len(), 0, "{method}: {ops}");
            assert!(!halves[0].contains("<0 ns>"), "{method}: {ops}");
        }
    }
}

/// What Python's `shutil` does, and a write that asks to be stable: both arrive, and a replay leaves the same bytes.
#[test]
fn what_is_sent_into_a_file_is_written_and_a_write_keeps_its_flags() {
    const SCRIPT: &str = "import os
open('tree/a', 'wb').write(b'x' * 70000)
a, b = os.open('tree/a', os.O_RDONLY), os.open('tree/b', os.O_CREAT | os.O_RDWR, 0o644)
os.sendfile(b, a, None, 1 << 20)
os.pwritev(b, [b'y' * 100], 10, os.RWF_DSYNC)
os.pwritev(b, [b'y' * 100], 10, os.RWF_APPEND)";
    if !tool("python3") {
        return;
    }
    for method in METHODS {
        let dir = temp();
        std::fs::create_dir(dir.path().join("tree")).unwrap();
        let args = [
            "trace", "--method", method, "--under", "tree", "-o", "t.fst", "--",
        ];
        let args = args.into_iter().chain(["python3", "-c", SCRIPT]);
        run(dir.path(), args).exits(0);
        let ops = run(dir.path(), ["show", "t.fst", "--ops", "--json"])
            .exits(0)
            .text();
        let of = |kind: &str| -> Vec<serde_json::Value> {
            let ops = ops.lines().map(|line| serde_json::from_str(line).unwrap());
            ops.filter(|op: &serde_json::Value| op["kind"] == kind)
                .collect()
        };
        let (read, written) = (of("copy_in"), of("copy_out"));
        assert_eq!((read.len(), written.len()), (1, 1), "{method}: {ops}");
        assert_eq!(
            (&read[0]["result"], &written[0]["result"]),
            (&70_000.into(), &70_000.into())
        );
        let writes = of("write");
        let flagged: Vec<_> = writes
            .iter()
            .map(|op| (op["flags"].clone(), op["offset_bytes"].clone()))
            .collect();
        let expected = [(0, 0), (2, 10), (16, 70_000)].map(|(flags, at)| (flags.into(), at.into()));
        assert_eq!(flagged, expected, "{method}");
        std::fs::create_dir(dir.path().join("target")).unwrap();
        run(
            dir.path(),
            ["replay", "t.fst", "target", "--verify", "--keep"],
        )
        .exits(0);
        std::fs::remove_dir_all(dir.path().join("tree")).unwrap();
    }
}

/// In a private namespace, which takes the mount and its loop device with it.
#[test]
fn a_copy_that_shares_blocks_is_a_copy_and_what_a_shell_puts_back_is_a_close() {
    if !(common::root() && tool("mkfs.xfs") && tool("unshare")) {
        return;
    }
    for method in METHODS {
        let dir = temp();
        let script = format!(
            "truncate -s 400M image && mkfs.xfs -q image && mkdir m && mount -o loop image m && \
             head -c 9000 /dev/zero >m/a && \
             {} trace -q --method {method} --under m -o t.fst -- \
                 sh -c 'cp --reflink=always m/a m/b; cat m/a >m/c' && umount m",
            env!("CARGO_BIN_EXE_fsage")
        );
        let made = Command::new("unshare")
            .args(["-m", "sh", "-c", &script])
            .current_dir(dir.path())
            .output()
            .unwrap();
        assert!(made.status.success(), "{method}: {made:?}");
        let ops = run(dir.path(), ["show", "t.fst", "--ops"]).exits(0).text();
        let of = |kind: &str| -> Vec<&str> { ops.lines().filter(|l| l.contains(kind)).collect() };
        let (ins, outs) = (of(" copy_in("), of(" copy_out("));
        assert!(
            ins[0].contains("9000") && outs[0].contains("9000"),
            "{method}: {ops}"
        );
        assert!(!ins[0].contains("<0 ns>"), "{method}: {ops}");
        // m/a and m/b by cp; m/a and its output by cat; and by the shell the descriptor of cat's, where its own
        // output is put back.
        assert_eq!(of(" close(").len(), 6, "{method}: {ops}");
    }
}

/// 4 is a value that drops nothing: what others measure meanwhile stays as it is.
#[test]
fn who_drops_caches_makes_the_next_operation_cold() {
    for method in METHODS {
        let dir = temp();
        std::fs::create_dir(dir.path().join("tree")).unwrap();
        std::fs::write(dir.path().join("tree/file"), "x").unwrap();
        let script = "cat tree/file; echo 4 > /proc/sys/vm/drop_caches || exit 9; cat tree/file";
        let args = [
            "trace", "--method", method, "--under", "tree", "-o", "t.fst", "--",
        ];
        let args = args.into_iter().chain(["sh", "-c", script]);
        if run(dir.path(), args).code() != 0 {
            fsage_testing::not_run("needs root that may drop caches");
            return;
        }
        let ops = run(dir.path(), ["show", "t.fst", "--ops"]).exits(0).text();
        let at = |what| -> Vec<usize> {
            let lines = ops.lines().enumerate();
            lines.filter(|l| l.1.contains(what)).map(|l| l.0).collect()
        };
        let (opens, cold) = (at(" open("), at("cold-data cold-names"));
        assert!(
            cold.len() == 1 && opens[0] < cold[0] && cold[0] <= opens[1],
            "{method}: {ops}"
        );
    }
}

/// Runs until there is a file `stop` beside it.
const WAITING: &str = "while [ ! -e stop ]; do sleep 0.02; done";

#[test]
fn what_outlives_the_command_is_reported() {
    let daemon = format!("setsid sh -c '{WAITING}' >/dev/null 2>&1 </dev/null & exit 4");
    let dir = temp();
    let args = |method| {
        [
            "trace", "--method", method, "-o", "t.fst", "--json", "--", "sh", "-c", &daemon,
        ]
        .map(str::to_owned)
    };
    if ebpf_is_possible(dir.path()) {
        let ran = run(dir.path(), args("ebpf")).exits(4);
        assert!(
            ran.stderr.contains("still running, untraced"),
            "{}",
            ran.stderr
        );
        assert_ne!(ran.json()["running_on_pids"].as_array().unwrap().len(), 0);
        std::fs::write(dir.path().join("stop"), "").unwrap();
        std::thread::sleep(std::time::Duration::from_millis(100));
        std::fs::remove_file(dir.path().join("stop")).unwrap();
    }
    // Under a filter it must have its tracer, which waits for it.
    let mut running = start(fsage().current_dir(dir.path()).args(args("ptrace")));
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(!running.has_ended());
    std::fs::write(dir.path().join("stop"), "").unwrap();
    let ran = running.wait().exits(4);
    assert!(
        ran.stderr.contains("the command has ended"),
        "{}",
        ran.stderr
    );
    assert_eq!(ran.json()["running_on_pids"].as_array().unwrap().len(), 0);
}

/// Whether eBPF is possible here; if not, says so.
fn ebpf_is_possible(dir: &Path) -> bool {
    let ran = run(
        dir,
        ["trace", "--method", "ebpf", "-o", "probe.fst", "--", "true"],
    );
    let possible = ran.code() == 0;
    if !possible {
        fsage_testing::not_run(format_args!("needs eBPF: {}", ran.stderr));
    }
    possible
}

#[test]
fn an_interrupt_of_fsage_alone_reaches_the_command() {
    for (method, signal, name) in [
        ("auto", Signal::INT, "INT"),
        ("auto", Signal::TERM, "TERM"),
        ("ptrace", Signal::INT, "INT"),
    ] {
        let dir = temp();
        let script = format!("trap 'echo got > got; exit 7' {name}; : > ready; {WAITING}");
        let running = start(fsage().current_dir(dir.path()).args([
            "trace", "--method", method, "-o", "t.fst", "--", "sh", "-c", &script,
        ]));
        until("the command", || dir.path().join("ready").exists());
        running.signal(signal);
        // What the command made of it is its own affair, and recorded.
        running.wait().exits(7);
        assert!(dir.path().join("got").exists());
        let ops = run(dir.path(), ["show", "t.fst", "--ops"]).exits(0).text();
        assert!(ops.contains("open(\"got\""), "{method}");
    }
}

#[test]
fn a_limit_leaves_the_command_running() {
    for method in METHODS {
        let dir = temp();
        // What it holds of this test's pipes would keep them open.
        let script = format!("exec >/dev/null 2>&1; {WAITING}; echo lived > lived");
        let ran = run(
            dir.path(),
            [
                "trace", "--method", method, "--for", "300ms", "-o", "t.fst", "--json", "--", "sh",
                "-c", &script,
            ],
        )
        .exits(0);
        assert!(ran.json()["exit_status"].is_null(), "{}", ran.text());
        assert!(
            ran.stderr.contains("still running, untraced"),
            "{}",
            ran.stderr
        );
        std::fs::write(dir.path().join("stop"), "").unwrap();
        until("the command to go on", || dir.path().join("lived").exists());
    }
}

#[test]
fn what_a_method_cannot_see_is_said() {
    let dir = temp();
    let args = [
        "trace", "--method", "ptrace", "--json", "-o", "t.fst", "--", "true",
    ];
    let ran = run(dir.path(), args).exits(0);
    for word in ["not seen by it", "page faults on mapped files", "io_uring"] {
        assert!(ran.stderr.contains(word), "{}", ran.stderr);
    }
    assert!(ran.json()["not_seen"].as_array().unwrap().len() > 3);
}

#[test]
fn calls_of_32_bit_programs_are_counted() {
    let dir = temp();
    if !tool("cc") {
        return;
    }
    // 6 is close and 20 getpid in the 32-bit table; in the other 20 is writev.
    let source = "int main(void) { long r; for (int i = 0; i < 5; i++) {\n\
                  __asm__ volatile(\"int $0x80\" : \"=a\"(r) : \"a\"(6), \"b\"(-1) : \"memory\");\n\
                  __asm__ volatile(\"int $0x80\" : \"=a\"(r) : \"a\"(20) : \"memory\"); }\n\
                  return r > 0 ? 0 : 1; }\n";
    std::fs::write(dir.path().join("p.c"), source).unwrap();
    let built = Command::new("cc")
        .args(["p.c", "-o", "p"])
        .current_dir(dir.path())
        .status();
    assert!(built.unwrap().success());
    let works = Command::new(dir.path().join("p")).status().unwrap();
    if !works.success() {
        fsage_testing::not_run("needs a kernel that runs 32-bit programs");
        return;
    }
    for method in METHODS {
        let ran = run(
            dir.path(),
            [
                "trace", "--method", method, "--json", "-o", "t.fst", "--", "./p",
            ],
        )
        .exits(0);
        let summary = ran.json();
        assert_eq!(summary["operations_lost_32_bit"], 5, "{method}: {summary}");
        assert_eq!(summary["operations_lost"], 5, "{method}: {summary}");
        assert!(ran.stderr.contains("32-bit"), "{}", ran.stderr);
        assert!(!ran.stderr.contains("--ring-mib"), "{}", ran.stderr);
    }
}

#[test]
fn a_failed_import_or_export_keeps_what_stood_there() {
    let dir = temp();
    let at = |name: &str| dir.path().join(name);
    std::fs::write(at("bad.hb"), "HBENCH? no").unwrap();
    // Of fsage's own and of the same kind, which it would replace.
    let old = "PAR1FSGPIECE and damage";
    std::fs::write(at("old.fst"), old).unwrap();
    let import = |output: &str| {
        let args = ["import", "bad.hb", "--from", "hbench", "-o", output];
        run(dir.path(), args).fails(1, &["bad.hb"])
    };
    import("old.fst");
    import("new.fst");
    assert_eq!(std::fs::read_to_string(at("old.fst")).unwrap(), old);
    std::fs::write(at("old.csv"), "old").unwrap();
    for output in ["old.csv", "new.csv"] {
        let args = ["export", "bad.hb", "--to", "csv", "-o", output];
        run(dir.path(), args).fails(1, &["bad.hb"]);
    }
    assert_eq!(std::fs::read(at("old.csv")).unwrap(), b"old");
    assert_eq!(names(dir.path()), ["bad.hb", "old.csv", "old.fst"]);
}

#[test]
fn a_command_that_cannot_be_run_leaves_no_trace() {
    let dir = temp();
    std::fs::write(dir.path().join("text"), "no program").unwrap();
    for method in METHODS {
        for command in ["./missing", "./text", "no-such-command"] {
            let args = ["trace", "--method", method, "-o", "t.fst", "--", command];
            run(dir.path(), args).fails(1, &["run", command]);
            assert_eq!(names(dir.path()), ["text"], "{method} {command}");
        }
    }
}

/// The kernel refuses a program that it looks at when a signal comes; with a log of all that it looked at the second
/// time took minutes.
#[test]
fn a_signal_while_programs_are_loaded_ends_it_soon() {
    let dir = temp();
    let dir = dir.path();
    if !ebpf_is_possible(dir) {
        return;
    }
    let line = |command| ["trace", "--method", "ebpf", "-o", "o.fst", "--", command];
    let begun = std::time::Instant::now();
    run(dir, line("true")).exits(0);
    let whole = begun.elapsed();
    for part in [2, 3] {
        let mut command = common::fsage();
        let going = common::start(command.current_dir(dir).args(line("true")));
        std::thread::sleep(whole * part / 6);
        let sent = std::time::Instant::now();
        going.signal(rustix::process::Signal::INT);
        going.wait();
        let took = sent.elapsed();
        assert!(took < whole * 4, "{took:?} where a trace takes {whole:?}");
    }
}

/// A hard link of what a symbolic link leads to is one of the file, and one of the symbolic link is one of that.
#[test]
fn a_link_that_follows_a_link_is_replayed_as_one_of_the_file() {
    for method in METHODS {
        let dir = temp();
        std::fs::create_dir(dir.path().join("tree")).unwrap();
        std::fs::create_dir(dir.path().join("again")).unwrap();
        let script =
            "cd tree; echo one > a; ln -s a s; ln -P s link; ln -L s file; echo and more >> file";
        let args = [
            "trace", "--method", method, "--under", "tree", "-o", "t.fst", "--", "sh", "-c", script,
        ];
        run(dir.path(), args).exits(0);
        run(
            dir.path(),
            ["replay", "t.fst", "again", "--verify", "--keep"],
        )
        .exits(0);
        let kept = std::fs::read_dir(dir.path().join("again")).unwrap();
        let kept = kept.map(|entry| entry.unwrap().path());
        let kept = kept.max_by_key(|path| path.is_dir()).unwrap();
        let found = |name: &str| std::fs::symlink_metadata(kept.join(name)).unwrap();
        assert!(found("file").is_file(), "{method}");
        assert!(found("link").is_symlink(), "{method}");
        assert_eq!(found("a").len(), 13, "{method}");
    }
}
