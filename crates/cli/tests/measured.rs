//! `--trace`: what fsage measured of its own calls is a trace like any other, and agrees with the kernel's
//! tracer.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]
#![allow(clippy::print_stderr, reason = "what is not run is said")]
#![allow(clippy::disallowed_types, reason = "processes are waited for")]

use crate::common;

use std::collections::BTreeMap;
use std::path::Path;

use common::{fsage, root, run, run_command, scratch, start, temp, temp_in_memory};
use fsage_core::{Op, OpKind, OpSource, PathTable};
use fsage_format::trace::TraceReader;
use rustix::process::Signal;

const POSTMARK: &str = "postmark:files=200,transactions=800,subdirs=4,seed=3";

fn ops(trace: &Path) -> (Vec<Op>, PathTable) {
    let mut reader = TraceReader::open(trace).unwrap();
    let mut ops = Vec::new();
    while reader.next_batch(&mut ops).unwrap() > 0 {}
    (ops, reader.paths().clone())
}

/// Kind and error, and the name below the directory in which it ran.
type Call = (OpKind, Option<i32>, String);

fn calls(trace: &Path) -> Vec<(Call, u64)> {
    let (ops, paths) = ops(trace);
    let under = TraceReader::open(trace).unwrap().meta().under[0].clone();
    let named = |op: &Op| {
        let path = op
            .path
            .map_or(String::new(), |p| paths.display(p).into_owned());
        let dir = op
            .dir
            .map_or(String::new(), |d| paths.display(d).into_owned());
        let full = if path.starts_with('/') || path.is_empty() {
            path
        } else {
            format!("{dir}/{path}")
        };
        let inside = full.strip_prefix(&under).unwrap_or_default();
        // Under the kernel's tracer the workload has a directory of its own.
        inside.trim_start_matches('/').to_owned()
    };
    ops.iter()
        // The descriptor of the directory is doubled by whoever begins there.
        .filter(|op| {
            let begins = [OpKind::Fork, OpKind::Exit, OpKind::Exec, OpKind::Dup];
            !begins.contains(&op.kind)
        })
        .map(|op| {
            let error = op.result.errno().map(|e| e.0);
            ((op, error, named(op)), op.latency_ns.unwrap())
        })
        // What is done to the directory itself is done by whoever begins there.
        .filter(|((op, _, name), _)| op.path.is_none() || !name.is_empty())
        .map(|((op, error, name), latency_ns)| ((op.kind, error, name), latency_ns))
        .collect()
}

#[test]
fn a_measured_run_is_a_trace_that_everything_takes() {
    let dir = temp_in_memory();
    let at = dir.path();
    std::fs::create_dir(at.join("t")).unwrap();
    let said = run(
        at,
        ["run", POSTMARK, "t", "--trace", "m.fst", "-o", "r.json"],
    )
    .exits(0);
    assert!(said.stderr.contains("m.fst: "), "{}", said.stderr);
    let shown = run(at, ["show", "m.fst", "--json"]).exits(0).json();
    let (meta, end) = (&shown["meta"], &shown["end"]);
    assert_eq!(
        (&meta["method"], &meta["clock"]),
        (&"measured".into(), &"CLOCK_MONOTONIC".into())
    );
    assert_eq!(
        (&meta["seed"], &end["stopped"]),
        (&3.into(), &serde_json::Value::Null)
    );
    assert_eq!(
        (&shown["operations_lost"], &end["late"]),
        (&0.into(), &0.into())
    );
    let directory = meta["directory"].as_str().unwrap();
    assert!(
        directory.starts_with(at.join("t").to_str().unwrap()),
        "{directory}"
    );
    assert_eq!(meta["under"][0], meta["directory"]);
    // Each operation that the result counts is in the trace, with its latency but for entry and exit.
    let result: serde_json::Value =
        serde_json::from_slice(&std::fs::read(at.join("r.json")).unwrap()).unwrap();
    let sum = |field: &str| -> u64 {
        let phases = result["phases"].as_array().unwrap();
        phases.iter().map(|p| p[field].as_u64().unwrap()).sum()
    };
    let (measured, _) = ops(&at.join("m.fst"));
    assert_eq!(measured.len() as u64, sum("operations"));
    let latency: u64 = measured.iter().map(|op| op.latency_ns.unwrap()).sum();
    let empty_ns: u64 = meta["extra"]["empty_call_ns"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!(empty_ns > 0);
    let with_entry = sum("latency_total_ns");
    let most = latency + empty_ns * measured.len() as u64;
    assert!(
        (latency..=most).contains(&with_entry),
        "{latency} {with_entry} {most}"
    );
    assert!(measured.windows(2).all(|w| w[0].start_ns <= w[1].start_ns));
    same_as_written_and_replayed(at, measured.len());
}

/// `m.fst` holds the operations of the workload that is written without being run, and replays without a
/// difference, as does what that measured.
fn same_as_written_and_replayed(at: &Path, operations: usize) {
    run(at, ["run", POSTMARK, "--to-trace", "g.fst"]).exits(0);
    let bare = |trace: &str| -> Vec<_> {
        let (ops, paths) = ops(&at.join(trace));
        let text = |p: Option<_>| p.map(|p| paths.display(p).into_owned());
        ops.iter()
            .map(|op| {
                (
                    op.kind,
                    op.pid,
                    op.fd,
                    op.result,
                    text(op.path),
                    op.offset,
                    op.length,
                )
            })
            .collect()
    };
    assert!(bare("m.fst") == bare("g.fst"));
    let replay = [
        "replay",
        "m.fst",
        "t",
        "--verify",
        "--trace",
        "again.fst",
        "--json",
    ];
    let first = run(at, replay).exits(0).json();
    assert_eq!(
        (&first["differ"], &first["operations"]),
        (&0.into(), &operations.into())
    );
    let second = ["replay", "again.fst", "t", "--verify", "--json"];
    let second = run(at, second).exits(0).json();
    assert_eq!(
        (&second["differ"], &second["replayed"]),
        (&0.into(), &first["replayed"])
    );
    let kinds = |trace: &str| common::mix(&at.join(trace));
    assert_eq!(kinds("again.fst"), kinds("m.fst"));
    assert_eq!(common::names(&at.join("t")), Vec::<String>::new());
}

/// A trace of several processes at once, replayed and measured: what was measured leads to the same tree.
#[test]
fn a_measured_replay_leads_to_the_same_tree() {
    let dir = temp_in_memory();
    let at = dir.path();
    std::fs::create_dir_all(at.join("tree")).unwrap();
    std::fs::create_dir_all(at.join("t")).unwrap();
    let script = "mkdir d; for i in 1 2 3 4; do (for j in 1 2 3 4 5; do echo $i$j > d/f$i-$j; \
        cat d/f$i-$j > d/c$i-$j; mv d/f$i-$j d/g$i-$j; done; rm d/g$i-1) & done; wait; cat d/* > all; \
        exec 7<all; (cat <&7 > copy); test -e none; ln -s all alias; wc -c < alias > n";
    let line = [
        "trace", "--method", "ptrace", "--under", ".", "-o", "../t.fst", "--", "sh", "-c", script,
    ];
    run(&at.join("tree"), line).exits(0);
    let replay = |trace: &str, more: &[&str]| {
        let line = ["replay", trace, "t", "--verify", "--json", "--keep"];
        run(at, line.iter().chain(more)).exits(0).json()
    };
    let first = replay("t.fst", &["--trace", "m.fst"]);
    let second = replay("m.fst", &[]);
    assert_eq!(
        (&first["differ"], &second["differ"]),
        (&0.into(), &0.into())
    );
    let listing = |json: &serde_json::Value| {
        let kept = json["kept"].as_str().unwrap();
        let text = format!("cd {kept} && find . -printf '%P %y %s %l\\n' | sort");
        let mut find = std::process::Command::new("sh");
        run_command(find.args(["-c", &text])).text()
    };
    let (one, two) = (listing(&first), listing(&second));
    assert!(one.contains("copy f") && one.contains("d/g4-5 f"), "{one}");
    assert_eq!(one, two);
}

#[test]
fn a_full_disk_is_said_and_leaves_nothing() {
    let dir = temp_in_memory();
    std::fs::create_dir(dir.path().join("t")).unwrap();
    let said = run(dir.path(), ["run", POSTMARK, "t", "--trace", "/dev/full"]);
    let said = said.fails(1, &["/dev/full"]);
    drop(said);
    let mut limited = std::process::Command::new("sh");
    limited
        .current_dir(dir.path())
        .env("FSAGE", fsage().get_program());
    // A file of 8 blocks of 512 bytes at most; the signal that says so is not for it.
    let text = format!("trap '' XFSZ; ulimit -f 8; exec \"$FSAGE\" run {POSTMARK} t --trace m.fst");
    run_command(limited.args(["-c", &text])).fails(1, &["m.fst"]);
    assert_eq!(common::names(&dir.path().join("t")), Vec::<String>::new());
    assert_eq!(common::names(dir.path()), ["t"]);
}

#[test]
fn an_interrupted_run_leaves_a_sealed_trace_that_says_so() {
    let dir = temp_in_memory();
    std::fs::create_dir(dir.path().join("t")).unwrap();
    let mut command = fsage();
    command.current_dir(dir.path());
    let spec = "postmark:files=500,transactions=100000000";
    let running = start(command.args(["run", spec, "t", "--trace", "m.fst"]));
    std::thread::sleep(std::time::Duration::from_secs(1));
    running.signal(Signal::INT);
    running.wait().exits(130);
    let shown = run(dir.path(), ["show", "m.fst", "--json"]).exits(0).json();
    assert_eq!(shown["end"]["stopped"], "interrupted");
    assert!(shown["operations"].as_u64().unwrap() > 0);
}

fn median(values: impl Iterator<Item = u64>) -> u64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values[values.len() / 2]
}

/// The kernel sees a call without entry and exit; of what fsage measures they are taken away.
#[test]
fn what_is_measured_is_what_the_kernels_tracer_sees() {
    if !root() || !scratch() {
        fsage_testing::not_run("needs root, loop devices and mkfs.ext4");
        return;
    }
    let dir = temp();
    let at = dir.path();
    let image = at.join("image");
    std::fs::create_dir_all(at.join("mnt")).unwrap();
    let made = format!(
        "truncate -s 256M {0} && mkfs.ext4 -q {0} && mount -o loop {0} {1}",
        image.display(),
        at.join("mnt").display()
    );
    let sh = |text: &str| run_command(std::process::Command::new("sh").args(["-c", text]));
    sh(&made).exits(0);
    let judged = std::panic::catch_unwind(|| {
        for place in ["kernel", "t"] {
            std::fs::create_dir(at.join("mnt").join(place)).unwrap();
        }
        let child = std::fs::canonicalize(at.join("mnt/kernel")).unwrap();
        let program = fsage().get_program().to_owned();
        let program = program.to_str().unwrap();
        let line = [
            "trace",
            "--method",
            "ebpf",
            "--under",
            child.to_str().unwrap(),
            "-o",
            "k.fst",
            "--",
            program,
            "run-child",
            POSTMARK,
            child.to_str().unwrap(),
        ];
        run(at, line).exits(0);
        run(at, ["run", POSTMARK, "mnt/t", "--trace", "m.fst"]).exits(0);
        compare(&at.join("k.fst"), &at.join("m.fst"));
    });
    sh(&format!("umount {}", at.join("mnt").display())).exits(0);
    judged.unwrap();
}

/// What the tracer's programs may add to a call between its entry and its exit.
const TRACER_NS: u64 = 300;

/// Medians of fewer calls than these are what the machine did meanwhile (five of mkdir took 16 and 59 us).
const JUDGED_CALLS: usize = 50;

/// What it takes to enter the kernel and to leave it, as the measured trace states it; that was taken from its latencies.
fn stated_ns(trace: &Path) -> u64 {
    let reader = TraceReader::open(trace).unwrap();
    reader.meta().extra["empty_call_ns"].parse().unwrap()
}

fn compare(kernel: &Path, measured: &Path) {
    let stated_ns = stated_ns(measured);
    // A listing is as many calls as its buffer needs.
    let of_workload = |call: &(Call, u64)| call.0.0 != OpKind::Readdir;
    let [kernel, measured] =
        [kernel, measured].map(|t| calls(t).into_iter().filter(of_workload).collect::<Vec<_>>());
    let only = |calls: &[(Call, u64)]| -> Vec<Call> {
        calls
            .iter()
            .map(|c| c.0.clone())
            .filter(|c| !matches!(c.0, OpKind::Close | OpKind::Fstat))
            .collect()
    };
    assert_eq!(only(&kernel), only(&measured));
    let by_kind = |calls: &[(Call, u64)]| {
        let mut kinds: BTreeMap<OpKind, Vec<u64>> = BTreeMap::new();
        for ((kind, ..), latency) in calls {
            kinds.entry(*kind).or_default().push(*latency);
        }
        kinds
    };
    let (kernel, measured) = (by_kind(&kernel), by_kind(&measured));
    let often = |latencies: &[u64]| latencies.len() >= JUDGED_CALLS;
    assert!(measured.values().filter(|l| often(l)).count() >= 5);
    for (kind, latencies) in measured.iter().filter(|(_, l)| often(l)) {
        let inside = median(kernel[kind].iter().copied());
        let outside = median(latencies.iter().copied());
        // Two runs on a shared machine: a factor of two either way. The tracer's own programs run between its
        // two clock readings, some tens of nanoseconds that no short call can be told apart from, and what it takes to
        // enter the kernel and to leave it varies from call to call by as much as it is.
        let (low, high) = (inside.min(outside), inside.max(outside));
        assert!(
            high <= 2 * low || high - low <= TRACER_NS + stated_ns,
            "{kind:?}: {outside} ns measured without {stated_ns}, {inside} ns in the kernel"
        );
    }
}

/// As an ordinary user who may have few processes: it is said how many threads could be made, and nothing
/// hangs.
#[test]
fn too_few_threads_are_an_error_that_says_how_many() {
    if !root() {
        fsage_testing::not_run("needs root, to be a user of whom nothing else runs");
        return;
    }
    let dir = temp_in_memory();
    let place = dir.path().join("t");
    std::fs::create_dir(&place).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&place, open).unwrap();
    let traversed = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir.path(), traversed).unwrap();
    let program = dir.path().join("fsage");
    std::fs::copy(fsage().get_program(), &program).unwrap();
    let text = format!(
        "exec setpriv --reuid 61317 --regid 61317 --clear-groups bash -c 'ulimit -u 5; exec timeout 60 {} \
         run -q varmail:nfiles=10,nthreads=8,iterations=3 {}'",
        program.display(),
        place.display()
    );
    let mut sh = std::process::Command::new("sh");
    run_command(sh.current_dir(&place).args(["-c", &text]))
        .fails(1, &["streams need a thread each", "could be started"]);
    assert_eq!(common::names(&place), Vec::<String>::new());
}
