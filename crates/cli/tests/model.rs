//! `fsage model fit` and `filerunner:FILE`: from a trace to a workload with the trace's counts and bytes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]

use crate::common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{fsage, mix, play, root, run, run_command, temp, temp_in_memory, tool};
use serde_json::Value;

const HEADER: &str = "IOChunkSize = 512\nDirDepthIndex = 2\nRepeatWrite = 1\nRepeatRead = 1\n";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn corpus(name: &str) -> PathBuf {
    repository().join("corpus/traces").join(name)
}

/// The result of a fit with everything within 5 %.
fn fit(dir: &Path, trace: &Path, model: &str) -> Value {
    let trace = trace.to_str().unwrap();
    run(dir, ["model", "fit", trace, "-o", model, "--json"])
        .exits(0)
        .json()
}

/// How many creates, writes, reads and deletes a fit found.
fn counts(fit: &Value) -> [u64; 4] {
    [19, 34, 35, 22].map(|number| {
        let all = fit["modelled"].as_array().unwrap();
        let of = all.iter().find(|o| o["number"] == number);
        of.map_or(0, |o| o["count"].as_u64().unwrap())
    })
}

/// The same of a trace of a run: every create, write and read opens a file of its own.
fn done(trace: &Path) -> [u64; 4] {
    let mix = mix(trace);
    let of = |kind: &str| mix.iter().find(|(k, _)| k == kind).map_or(0, |(_, n)| *n);
    let (write, read) = (of("write"), of("read"));
    [of("open") - write - read, write, read, of("unlink")]
}

/// What a shell did in a directory of its own below `dir`.
fn traced(dir: &Path, script: &str) -> PathBuf {
    let (tree, trace) = (dir.join("tree"), dir.join("t.fst"));
    fs::create_dir(&tree).unwrap();
    let mut command = fsage();
    command
        .current_dir(tree)
        .args(["trace", "--under", ".", "-o"]);
    run_command(command.arg(&trace).args(["--", "sh", "-c", script])).exits(0);
    trace
}

#[test]
fn a_model_does_what_its_trace_did() {
    let dir = temp();
    let dir = dir.path();
    for name in ["build", "mail", "database", "threads"] {
        let fit = fit(dir, &corpus(&format!("{name}.fst")), "m.cfg");
        assert!(fit["reached"].as_bool().unwrap(), "{fit}");
        play(dir, "filerunner:m.cfg", "o.fst");
        let out = dir.join("o.fst");
        assert_eq!(done(&out), counts(&fit), "{name}");
        let shown = run(dir, ["show", "o.fst", "--json"]).exits(0).json();
        for (way, moved) in [("read", "bytes_read"), ("written", "bytes_written")] {
            let (trace, model) = (&fit[way]["trace_bytes"], &fit[way]["model_bytes"]);
            assert_eq!(shown[moved], *model, "{name}: {fit}");
            let (trace, model) = (trace.as_f64().unwrap(), model.as_f64().unwrap());
            assert!(
                (model - trace).abs() <= 0.05 * trace,
                "{name}: {model} of {trace}"
            );
        }
        // Nothing but numbers: no name, no command.
        let text = fs::read_to_string(dir.join("m.cfg")).unwrap();
        for line in text.lines() {
            let value = line.rsplit(" = ").next().unwrap();
            assert!(
                value
                    .bytes()
                    .all(|b| b.is_ascii_digit() || b",.".contains(&b)),
                "{line}"
            );
        }
        // The model of what the model did says the same of it.
        let again = self::fit(dir, &out, "again.cfg");
        assert_eq!(counts(&again), counts(&fit), "{name}");
        assert_eq!(
            again["written"]["trace_bytes"], fit["written"]["model_bytes"],
            "{name}"
        );
    }
}

#[test]
fn a_program_that_was_traced_runs_as_a_model_on_ext4() {
    let dir = temp_in_memory();
    let script = "i=0; while [ $i -lt 40 ]; do echo one two three > f$i; i=$((i+1)); done; cat f* > /dev/null; \
                  mkdir d; cp f1 f2 d; rm -r d f*";
    let trace = traced(dir.path(), script);
    let fit = fit(dir.path(), &trace, "m.cfg");
    let counts = counts(&fit);
    assert_eq!((counts[0], counts[3]), (42, 42), "{fit}");
    assert!(counts[1] >= 42 && counts[2] >= 40, "{fit}");
    assert!(!fit["left_out"].as_array().unwrap().is_empty(), "{fit}");
    let mut targets = vec!["."];
    if root() && tool("mkfs.ext4") {
        targets.push("scratch:ext4,size=64M");
    }
    for target in targets {
        let args = [
            "run",
            "filerunner:m.cfg",
            target,
            "--trace",
            "ran.fst",
            "--json",
        ];
        // Every result is the expected one.
        let ran = run(dir.path(), args).exits(0).json();
        let measured = ran["phases"].as_array().unwrap();
        let measured = measured.iter().filter(|p| p["role"] == "run");
        let kinds = measured.flat_map(|p| p["kinds"].as_array().unwrap());
        let of = |kind: &str| {
            let mine = kinds.clone().filter(|k| k["kind"] == kind);
            mine.map(|k| k["operations"].as_u64().unwrap()).sum::<u64>()
        };
        assert_eq!(
            [of("write"), of("read"), of("unlink")],
            counts[1..],
            "{target}"
        );
        assert_eq!(of("open"), counts[..3].iter().sum::<u64>(), "{target}");
        fs::remove_file(dir.path().join("ran.fst")).unwrap();
    }
}

/// Half of its files past the page cache.
const DIRECT: &str = "\
set $dir=/tmp
define fileset name=f, path=$dir, entries=8, dirwidth=8, size=256k, prealloc=100
define process name=p, instances=1
{
  thread name=t, memsize=10m, instances=1
  {
    flowop openfile name=o, filesetname=f, fd=1, directio
    flowop read name=r, fd=1, iosize=16k, iters=4
    flowop write name=w, fd=1, iosize=4k, iters=2
    flowop closefile name=c, fd=1
    flowop openfile name=o2, filesetname=f, fd=1
    flowop read name=r2, fd=1, iosize=16k, iters=2
    flowop closefile name=c2, fd=1
  }
}
";

#[test]
fn what_goes_past_the_page_cache_does_so_in_a_model() {
    let dir = temp();
    let dir = dir.path();
    std::fs::write(dir.join("d.f"), DIRECT).unwrap();
    run(
        dir,
        "run wml:d.f,iterations=10 mem:fast --trace d.fst".split(' '),
    )
    .exits(0);
    run(dir, "-q model fit d.fst -o d.fsm".split(' ')).exits(0);
    run(dir, "run model:d.fsm mem:fast --trace m.fst".split(' ')).exits(0);
    // How many operations of a kind went past the page cache, and whether others did not.
    let direct = |trace: &str, kind: &str| {
        run(dir, ["-q", "export", trace, "--to", "csv", "-o", "ops.csv"]).exits(0);
        let text = std::fs::read_to_string(dir.join("ops.csv")).unwrap();
        let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let header = lines.next().unwrap();
        let at = |name| header.iter().position(|column| *column == name).unwrap();
        let (kind_at, record_at) = (at("kind"), at("record"));
        let ops: Vec<u16> = lines
            .filter(|line| line[kind_at] == kind)
            .map(|line| line[record_at].parse().unwrap())
            .collect();
        let direct = ops.iter().filter(|record| **record & 16 != 0).count();
        (direct, ops.len() > direct)
    };
    for trace in ["d.fst", "m.fst"] {
        assert_eq!(direct(trace, "open"), (10, true), "{trace}");
        assert_eq!(direct(trace, "read"), (40, true), "{trace}");
        // What makes the files beforehand goes through it.
        assert_eq!(direct(trace, "write"), (20, true), "{trace}");
    }
    run(dir, "export d.fsm --to fio -o d.fio".split(' ')).exits(0);
    let fio = std::fs::read_to_string(dir.join("d.fio")).unwrap();
    assert_eq!(fio.matches("direct=1").count(), 2, "{fio}");
    let said = run(dir, "export d.fsm --to wml -o d.wml".split(' '))
        .exits(0)
        .stderr;
    assert!(said.contains("past the page cache (O_DIRECT): "), "{said}");
    assert!(
        said.contains("next: fsage run wml:d.wml,iterations="),
        "{said}"
    );
    if root() && tool("mkfs.ext4") {
        for line in ["run model:d.fsm", "run wml:d.f,iterations=10"] {
            run(dir, line.split(' ').chain(["scratch:ext4,size=64M"])).exits(0);
        }
    }
}

#[test]
fn the_dissertations_samples_run_and_run_alike() {
    let dir = temp();
    let dir = dir.path();
    let figures = repository().join("crates/model/src/filerunner/figures");
    for figure in [19, 21, 24, 25, 26, 28] {
        let name = format!("figure-{figure}.cfg");
        fs::copy(figures.join(&name), dir.join(&name)).unwrap();
        let spec = format!("filerunner:{name}");
        let ops = ["a.fst", "b.fst"].map(|out| {
            run(dir, ["run", &spec, "--to-trace", out]).exits(0);
            run(dir, ["show", out, "--ops", "--json"]).exits(0).text()
        });
        let without_head = ops.map(|o| o.lines().skip(1).map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(without_head[0], without_head[1], "{name}");
        // Files of its own time chunks and what they need, all gone afterwards; results as expected.
        run(dir, ["run", &spec, "mem:fast"]).exits(0);
    }
    play(dir, "filerunner:figure-24.cfg", "o.fst");
    assert_eq!(done(&dir.join("o.fst")), [30, 26, 17, 30]);
}

#[test]
fn processes_are_threads_that_wait_for_one_another() {
    let dir = temp_in_memory();
    let text = format!(
        "{HEADER}TIndex = 0\n0,19,0,0,0,50\n1,34,0,7,0,50\n2,35,0,7,1,50\n3,22,0,0,0,25\nTIndex = 1\n1,22,0,0,0,25\n"
    );
    fs::write(dir.path().join("m.cfg"), text).unwrap();
    let ran = run(
        dir.path(),
        ["run", "filerunner:m.cfg", "mem:fast", "--json"],
    );
    let ran = ran.exits(0).json();
    let phases = ran["phases"].as_array().unwrap();
    let phase = phases.iter().find(|p| p["role"] == "run").unwrap();
    assert_eq!(phase["streams"].as_array().unwrap().len(), 4, "{phase}");
    // One that is cut leaves nothing that its teardown does not know.
    for cut in [["--ops", "7"], ["--for", "1ms"]] {
        let args = ["run", "filerunner:m.cfg", "."].into_iter().chain(cut);
        run(dir.path(), args).exits(0);
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_configuration_that_cannot_be_is_refused_with_its_line() {
    let dir = temp();
    let dir = dir.path();
    for (lines, expected) in [
        ("TIndex = 0\n0,35,2,0,0,1\n", "line 6: directory depth 2"),
        ("TIndex = 0\n0,60,0,0,0,1\n", "line 6: operation 60"),
        (
            "TIndex = 0\n0,22,0,3,0,1\n",
            "line 6: unlink with I/O index 3",
        ),
        (
            "TIndex = 0\n0,22,0,0,9999999999\n",
            "line 6: 9999999999 times unlink",
        ),
        ("nonsense\n", "line 5: 'nonsense'"),
    ] {
        fs::write(dir.join("m.cfg"), format!("{HEADER}{lines}")).unwrap();
        let said = run(dir, ["run", "filerunner:m.cfg", "--to-trace", "o.fst"]);
        said.fails(1, &["m.cfg", expected]);
    }
    run(dir, ["run", "filerunner", "--to-trace", "o.fst"]).fails(1, &["filerunner:FILE"]);
}

#[test]
fn traces_that_give_no_model_say_why() {
    let dir = temp();
    let dir = dir.path();
    let traced = |name: &str, lines: &str| {
        fs::write(dir.join("m.cfg"), format!("{HEADER}{lines}")).unwrap();
        play(dir, "filerunner:m.cfg", name);
    };
    traced("none.fst", "");
    let none = run(dir, ["model", "fit", "none.fst", "-o", "n.cfg"]);
    none.fails(1, &["none.fst", "none of its 0 operations"]);
    assert!(!dir.join("n.cfg").exists());
    traced("one.fst", "TIndex = 0\n0,19,0,0,0,1\n");
    assert_eq!(
        counts(&fit(dir, Path::new("one.fst"), "n.cfg")),
        [1, 0, 0, 0]
    );
    let mut bytes = fs::read(corpus("mail.fst")).unwrap();
    bytes.truncate(bytes.len() - 100);
    fs::write(dir.join("cut.fst"), bytes).unwrap();
    run(dir, ["model", "fit", "cut.fst", "-o", "c.cfg"]).fails(1, &["--allow-lossy"]);
    run(dir, ["model", "fit", "cut.fst", "-o", "cut.fst"]).exits(2);
    for (wrong, why) in [("0%", "0%"), ("x", "5%")] {
        let args = ["model", "fit", "one.fst", "-o", "n.cfg", "--within", wrong];
        assert!(run(dir, args).exits(2).stderr.contains(why));
    }
}

#[test]
fn the_search_goes_from_coarse_to_fine_and_is_printed() {
    let dir = temp();
    let dir = dir.path();
    let trace = corpus("build.fst");
    let found = fit(dir, &trace, "m.cfg");
    let finer = |tries: &str, size: &str, sign: f64| {
        let all: Vec<f64> = found[tries]
            .as_array()
            .unwrap()
            .iter()
            .map(|t| t[size].as_f64().unwrap())
            .collect();
        assert!(
            all.len() > 1 && all.is_sorted_by(|a, b| sign * a < sign * b),
            "{all:?}"
        );
    };
    finer("chunks", "chunks", 1.0);
    finer("io_chunks", "io_chunk_bytes", -1.0);
    let trace = trace.to_str().unwrap();
    let args = [
        "model",
        "fit",
        trace,
        "-o",
        "m.cfg",
        "--chunks",
        "3",
        "--io-chunk",
        "1000",
    ];
    let said = run(dir, args).exits(0);
    assert!(said.text().contains("3 time chunks"), "{}", said.text());
    let text = fs::read_to_string(dir.join("m.cfg")).unwrap();
    assert!(text.starts_with("IOChunkSize = 1000\n"), "{text}");
    assert_eq!(text.matches("TIndex").count(), 3);
}

/// A model that was fitted to `trace`, with what the fit found.
fn fit_fsm(dir: &Path, trace: &Path) -> Value {
    let args = ["model", "fit", trace.to_str().unwrap(), "-o", "m.fsm"];
    run(dir, args.into_iter().chain(["--json"])).exits(0).json()
}

/// The operations that a workload is, one a line.
fn operations(dir: &Path, spec: &str, more: &[&str]) -> Vec<String> {
    let args = ["run", spec, "--to-trace", "o.fst"];
    run(dir, args.iter().chain(more)).exits(0);
    let said = run(dir, ["show", "o.fst", "--ops"]).exits(0).text();
    fs::remove_file(dir.join("o.fst")).unwrap();
    said.lines().map(str::to_owned).collect()
}

#[test]
fn an_fsm_does_on_targets_what_its_trace_did() {
    let dir = temp_in_memory();
    let dir = dir.path();
    let fit = fit_fsm(dir, &corpus("mail.fst"));
    let counts = fit["counts"].as_array().unwrap();
    assert!(counts.len() > 5, "{fit}");
    fs::create_dir(dir.join("target")).unwrap();
    for target in ["mem:fast", "target"] {
        let args = ["run", "model:m.fsm,think=false", target, "--json"];
        let said = run(dir, args);
        let in_virtual_time = target == "mem:fast";
        assert!(said.code() == 0 || said.code() == 3 && !in_virtual_time);
        let ran = said.json();
        let phases = ran["phases"].as_array().unwrap();
        let expected = phases.iter().all(|p| p["unexpected"] == 0);
        assert!(expected || !in_virtual_time, "{ran}");
        if !expected {
            // Real threads can come before a directory that another makes: docs/model-files.md.
            continue;
        }
        let run = phases.iter().find(|p| p["role"] == "run").unwrap();
        let kinds = run["kinds"].as_array().unwrap().iter();
        // A directory is listed to its end at once.
        for kind in kinds.filter(|k| k["kind"] != "readdir") {
            // What the trace asked of a descriptor is asked by name where targets know no other way.
            let name = kind["kind"].as_str().unwrap();
            let of = |name: &str| counts.iter().find(|c| c["kind"] == name);
            let counted = of(name).or_else(|| of(&format!("f{name}"))).unwrap();
            assert_eq!(kind["operations"], counted["model"], "{target}: {kind}");
        }
        let streams = run["streams"].as_array().unwrap().len() as u64;
        assert!(streams > 1 && streams <= fit["processes"].as_u64().unwrap());
    }
    assert_eq!(fs::read_dir(dir.join("target")).unwrap().count(), 0);
}

/// `for …; do x=$(program); done`: a shell thinks for 4 ms and begins a program, which thinks for 5 and is waited for.
#[test]
fn who_is_begun_and_who_waits_thinks_from_then_on() {
    const SHELL: u64 = 4_000_000;
    const PROGRAM: u64 = 5_000_000;
    let dir = temp();
    let dir = dir.path();
    let text = format!(
        "format = \"fsm\"\nversion = 1\ndirectories = [0]\n\
         [source]\noperations = 30\nbytes_read = 0\nbytes_written = 0\nspan_ns = 270000000\n\
         [[files]]\ntype = \"file\"\nbefore = 1\nlater = 0\nsize_bytes = \"5\"\ndirectory = \"0\"\n\
         [[visit]]\nsteps = [\"stat\"]\n\
         [[group]]\nprocesses = 1\nat_once = 1\n\
         [[group]]\nprocesses = 30\nat_once = 1\nstarted = 30\n\
         [[phase]]\nstart_ns = 0\n\
         [[phase.part]]\ngroup = 1\nfirst = \"1\"\n\
         script = [\"0 begins=2 waits=0,1*29 think_ns={SHELL}*30 next=1*29,0\"]\n\
         [[phase.part]]\ngroup = 2\nfirst = \"1*30\"\nscript = [\"1 file=1.known:0 think_ns={PROGRAM}*30 next=0*30\"]\n"
    );
    fs::write(dir.join("m.fsm"), text).unwrap();
    let elapsed = |spec: &str| {
        let ran = run(dir, ["run", spec, "mem:fast", "--json"])
            .exits(0)
            .json();
        let phases = ran["phases"].as_array().unwrap();
        let run = phases.iter().find(|p| p["role"] == "run").unwrap();
        run["elapsed_ns"].as_u64().unwrap()
    };
    let own = elapsed("model:m.fsm");
    // What it thinks before it begins the first is before anything is done.
    let wanted = 30 * (SHELL + PROGRAM) - SHELL;
    assert!(
        own >= wanted && own < wanted + wanted / 50,
        "{own} of {wanted}"
    );
    assert!(elapsed("model:m.fsm,think=false") < 1_000_000);
}

/// What a model takes is told beside what its trace took.
#[test]
fn a_fit_says_how_long_what_was_played_takes() {
    let dir = temp();
    let fit = fit_fsm(dir.path(), &corpus("mail.fst"));
    let [trace, model] = ["trace_ns", "model_ns"].map(|key| fit["elapsed"][key].as_f64().unwrap());
    assert!(
        trace > 0.0 && (model / trace - 1.0).abs() < 0.1,
        "{trace} {model}"
    );
}

#[test]
fn the_same_seed_is_the_same_operations_and_a_scale_is_more_of_them() {
    let dir = temp();
    let dir = dir.path();
    let fit = fit_fsm(dir, &corpus("mail.fst"));
    let of_run = |more: &[&str]| {
        let role: &[&str] = &["--role", "run"];
        operations(dir, "model:m.fsm", &[role, more].concat())
    };
    let once = of_run(&[]);
    let model = fit["counts"].as_array().unwrap().iter();
    let counted: u64 = model.map(|c| c["model"].as_u64().unwrap()).sum();
    let otherwise = fit["otherwise"].as_array().unwrap().iter();
    let not: u64 = otherwise
        .filter(|of| of["run_as"].is_null())
        .map(|of| of["operations"].as_u64().unwrap())
        .sum();
    assert_eq!(once.len() as u64, counted - not);
    assert_eq!(once, of_run(&[]));
    assert_eq!(once, of_run(&["--scale", "users=1,data=1,time=1"]));
    assert_ne!(once, of_run(&["--seed", "7"]));
    assert_eq!(of_run(&["--seed", "7"]), of_run(&["--seed", "7"]));
    let two = of_run(&["--scale", "users=2"]);
    let of = |user: &str| two.iter().filter(|line| line.contains(user)).count();
    assert!(of("\"u0/") > 0 && of("\"u1/") > 0 && of("\"u2/") == 0);
    assert!(two.len().abs_diff(2 * once.len()) * 50 < once.len());
    let half = of_run(&["--scale", "time=0.5"]);
    assert!((40..=60).contains(&(100 * half.len() / once.len())));
    fit_fsm(dir, &corpus("build.fst"));
    let made = |more: &[&str]| {
        let role: &[&str] = &["--role", "setup"];
        let all = operations(dir, "model:m.fsm", &[role, more].concat());
        let opened = all.iter().filter(|line| line.contains(" open("));
        opened.count()
    };
    let (once, thrice) = (made(&[]), made(&["--scale", "data=3"]));
    assert!(2 * thrice > 3 * once, "{thrice} files, not {once}");
    for (scale, expected) in [
        ("time=0", "'0' for parameter 'time'"),
        ("data=x", "'x' for parameter 'data'"),
        ("data=1e9", "at most 1000000"),
        ("data=999999", "before the run are "),
        ("users=1024", "are 18432, expected at most 8192"),
        ("users=400,data=500", "users=400, data=500: 400 times "),
        ("users=400,time=1e6", "users=400, time=1000000: 400 times "),
        ("users=0", "users"),
        ("cats=2", "no parameter 'cats'"),
    ] {
        let args = ["run", "model:m.fsm", "--to-trace", "o.fst", "--scale"];
        let said = run(dir, args.iter().chain([&scale]));
        assert!(said.code() == 1 || said.code() == 2, "{scale}");
        assert!(said.stderr.contains(expected), "{scale}: {}", said.stderr);
    }
    let args = ["run", "postmark", "mem:fast", "--scale", "users=2"];
    run(dir, args).fails(2, &["--scale is for models"]);
}

/// Data that is mapped is made stable in a run, too: as `replay` does it.
#[test]
fn what_a_target_has_no_call_for_is_done_otherwise_or_told() {
    let dir = temp();
    let dir = dir.path();
    let lines = "\
7  1.000000 openat(AT_FDCWD, \"/w/a\", O_RDWR|O_CREAT, 0644) = 3 <0.000010>
7  1.001000 ftruncate(3, 8192) = 0 <0.000010>
7  1.002000 mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_SHARED, 3, 0) = 0x7f0000000000 <0.000010>
7  1.003000 msync(0x7f0000000000, 8192, MS_SYNC) = 0 <0.000010>
7  1.004000 msync(0x7f0000000000, 8192, MS_SYNC) = 0 <0.000010>
7  1.005000 fsetxattr(3, \"user.a\", \"b\", 1, 0) = 0 <0.000010>
7  1.005500 setxattr(\"/w/a\", \"user.a\", \"b\", 1, 0) = 0 <0.000010>
7  1.006000 close(3) = 0 <0.000010>
";
    fs::write(dir.join("t.strace"), lines).unwrap();
    let import = ["import", "t.strace", "--from", "strace", "-o", "t.fst"];
    run(dir, import).exits(0);
    let text = run(dir, ["model", "fit", "t.fst", "-o", "m.fsm"])
        .exits(0)
        .text();
    assert!(
        text.contains("a run does as others: msync 2 as fdatasync"),
        "{text}"
    );
    assert!(text.contains("setxattr 2"), "{text}");
    let ran = run(dir, ["run", "model:m.fsm", "mem:fast", "--json"])
        .exits(0)
        .json();
    let phases = ran["phases"].as_array().unwrap();
    let kinds = phases.iter().find(|p| p["role"] == "run").unwrap();
    let kinds = kinds["kinds"].as_array().unwrap();
    let of = |kind: &str| kinds.iter().find(|k| k["kind"] == kind);
    assert_eq!(of("fdatasync").unwrap()["operations"], 2, "{ran}");
    let warnings = ran["warnings"].to_string();
    assert!(
        warnings.contains("no target has a call for setxattr"),
        "{warnings}"
    );
    run(
        dir,
        ["run", "model:m.fsm", "--role", "run", "--to-trace", "o.fst"],
    )
    .exits(0);
    let mut written = common::mix(&dir.join("o.fst"));
    written.retain(|(kind, _)| ["fdatasync", "msync", "setxattr"].contains(&kind.as_str()));
    assert_eq!(written, [("fdatasync".to_string(), 2)]);
}

#[test]
fn an_fsm_of_so_many_operations_is_no_more_of_any_process() {
    let dir = temp();
    let dir = dir.path();
    fit_fsm(dir, &corpus("mail.fst"));
    let args = ["run", "model:m.fsm", "mem:fast", "--ops", "300", "--json"];
    let ran = run(dir, args).json();
    let phases = ran["phases"].as_array().unwrap();
    let phase = phases.iter().find(|p| p["role"] == "run").unwrap();
    let streams = phase["streams"].as_array().unwrap().len() as u64;
    let kinds = phase["kinds"].as_array().unwrap().iter();
    let all: u64 = kinds.map(|k| k["operations"].as_u64().unwrap()).sum();
    assert!(streams > 1 && all < 310 * streams, "{streams} {all}");
    // What the others would have done beyond would have taken names and memory.
    assert!(operations(dir, "model:m.fsm", &["--ops", "300"]).len() >= 300);
}

/// Each of these lines in the place of one of `m.fsm` is an error that names the line.
fn refused_lines(dir: &Path, lines: &[&str], cases: &[(usize, &str, &str)]) {
    for &(at, new, expected) in cases {
        let mut bad = lines.to_vec();
        bad[at] = new;
        fs::write(dir.join("m.fsm"), bad.join("\n")).unwrap();
        let said = run(dir, ["run", "model:m.fsm", "mem:fast"]);
        said.fails(1, &[&format!("m.fsm: line {}: ", at + 1), expected]);
    }
}

#[test]
fn values_of_an_fsm_that_cannot_be_are_refused_with_their_line() {
    let dir = temp();
    let dir = dir.path();
    fit_fsm(dir, &corpus("mail.fst"));
    let text = fs::read_to_string(dir.join("m.fsm")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let line = |word: &str| lines.iter().position(|l| l.contains(word)).unwrap();
    let last = |word: &str| lines.iter().rposition(|l| l.contains(word)).unwrap();
    let cases = [
        (line("before = "), "before = -1", "before: "),
        (line("type = "), "type = \"pipe\"", "`pipe`"),
        (
            line("at_once = "),
            "at_once = 0",
            "group 1, at_once: 0, expected",
        ),
        (
            last("at_once = "),
            "at_once = 9000",
            "at_once: 9000, expected at most its processes",
        ),
        (
            line("directory = "),
            "directory = \"99\"",
            "files 1, directory: '99'",
        ),
        (
            line("directory = "),
            "directory = \"1*\"",
            "directory: '1*', expected VALUE",
        ),
        (last("group = "), "group = 99", "group: 99, expected 1 to"),
        (line("[source]"), "[sauce]", "sauce"),
    ];
    refused_lines(dir, &lines, &cases);
}

#[test]
fn steps_of_an_fsm_that_cannot_be_are_refused_with_their_line() {
    let dir = temp();
    let dir = dir.path();
    fit_fsm(dir, &corpus("mail.fst"));
    let text = fs::read_to_string(dir.join("m.fsm")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    // One line of an array.
    let is_text = |l: &str| l.trim_start().starts_with('"') && l.ends_with(',');
    let text_of = |word: &str| {
        let found = lines.iter().rposition(|l| l.contains(word) && is_text(l));
        found.unwrap()
    };
    let cases = [
        (
            text_of("next="),
            "\"1 next=1*3,999\",",
            "next=1*3,999, expected lines up to",
        ),
        (
            text_of("next="),
            "\"999 next=1\",",
            "visit 999, expected 1 to",
        ),
        (
            text_of("next="),
            "\"1 file=1.mine next=1\",",
            "'mine', expected none, fresh",
        ),
        (text_of("next="), "\"1 then=1\",", "has no next="),
        (
            text_of("next="),
            "\"1 think_ns=18446744073709551615 next=1\",",
            "expected at most 86400000000000, a day",
        ),
        (
            text_of("close"),
            "\"fork\",",
            "'fork' is no operation on files",
        ),
        (
            text_of("close"),
            "\"write until=end+1\",",
            "until the end, expected a read",
        ),
        (
            text_of("close"),
            "\"stat colour=red\",",
            "the key 'colour' is unknown",
        ),
        (text_of("close"), "\"stat", "m.fsm"),
    ];
    refused_lines(dir, &lines, &cases);
}

#[test]
fn text_that_is_no_fsm_is_refused() {
    let dir = temp();
    let dir = dir.path();
    for (bad, expected) in [
        ("", "expected format = \"fsm\""),
        ("format = \"fsm\"", "it has no version"),
        (
            "format = \"fsm\"\nversion = 2",
            "newer than this fsage reads",
        ),
        ("format = \"fsm\"\nversion = 1", "missing field"),
        ("\0", "line 1"),
    ] {
        fs::write(dir.join("m.fsm"), bad).unwrap();
        run(dir, ["run", "model:m.fsm", "mem:fast"]).fails(1, &["m.fsm: ", expected]);
    }
    run(dir, ["run", "model", "mem:fast"]).fails(1, &["expected model:FILE"]);
    run(dir, ["run", "model:none.fsm", "mem:fast"]).fails(1, &["none.fsm"]);
}

#[test]
fn nothing_of_a_trace_but_numbers_is_in_an_fsm() {
    let dir = temp_in_memory();
    let script = "mkdir payroll; echo confidential > payroll/salaries; cat payroll/salaries; \
                  ln -s payroll/salaries shortcut; mv payroll/salaries payroll/renamed; rm missing; true";
    let trace = traced(dir.path(), script);
    let fit = fit_fsm(dir.path(), &trace);
    assert!(fit["operations"].as_u64().unwrap() > 10, "{fit}");
    let text = fs::read_to_string(dir.path().join("m.fsm")).unwrap();
    let own = dir.path().file_name().unwrap().to_str().unwrap();
    for word in [
        "payroll",
        "salaries",
        "confidential",
        "shortcut",
        "renamed",
        "missing",
        "tree",
        "/",
        own,
    ] {
        assert!(!text.contains(word), "'{word}' is in the model:\n{text}");
    }
}

#[test]
fn options_that_a_model_has_no_use_for_are_refused() {
    let dir = temp();
    let trace = corpus("mail.fst");
    let trace = trace.to_str().unwrap();
    for (output, more, expected) in [
        ("m.fsm", ["--chunks", "3"], "--chunks is for a .cfg"),
        ("m.fsm", ["--io-chunk", "512"], "--io-chunk is for a .cfg"),
        ("m.cfg", ["--snapshot", "s.fss"], "--snapshot is for a .fsm"),
    ] {
        let args = ["model", "fit", trace, "-o", output];
        run(dir.path(), args.iter().chain(&more)).fails(2, &[expected]);
        assert!(!dir.path().join(output).exists());
    }
    let args = ["model", "fit", trace, "-o", trace];
    run(dir.path(), args).fails(2, &["would be read and written over"]);
}

#[test]
fn a_model_that_is_farther_off_than_is_asked_is_written_and_the_exit_code_says_so() {
    let dir = temp();
    let trace = corpus("build.fst");
    let fit = |within: &str| {
        let trace = trace.to_str().unwrap();
        let args = ["model", "fit", trace, "-o", "m.fsm", "--within", within];
        run(dir.path(), args)
    };
    let text = fit("0.1%").exits(3).text().replace('\n', " ");
    assert!(text.contains("caution: off by more than 0.1 %: "), "{text}");
    assert!(text.contains("bytes read -"), "{text}");
    assert!(dir.path().join("m.fsm").exists());
    let text = fit("15%").exits(0).text();
    assert!(!text.contains("caution"), "{text}");
}
