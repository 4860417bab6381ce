//! What a model does against the trace that it was fitted to, without running either; and models from strangers.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::path::PathBuf;
use std::sync::Arc;

use fsage_core::{Errno, Fd, Op, OpFlags, OpKind, OpSource, Outcome, PathTable, Pid, Tid};
use fsage_format::trace::TraceReader;
use fsage_model::fsm::{Gather, Generator, MODEL_BYTES, Measures, Model, Options, Scale, fit};

use crate::common;

const TRACES: [&str; 6] = ["build", "database", "failing", "mail", "mapped", "threads"];

fn trace(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../corpus/traces/{name}.fst"))
}

fn each(name: &str, mut take: impl FnMut(&Op, &PathTable)) -> Vec<Vec<u8>> {
    let mut reader = TraceReader::open(&trace(name)).unwrap();
    let under = reader
        .meta()
        .under
        .iter()
        .map(|d| d.as_bytes().to_vec())
        .collect();
    let mut batch = Vec::new();
    while reader.next_batch(&mut batch).unwrap() > 0 {
        batch.drain(..).for_each(|op| take(&op, reader.paths()));
    }
    under
}

fn fitted(name: &str) -> (Model, Measures) {
    let under = each(name, |_, _| {});
    let (mut gather, mut measures) = (Gather::new(&under), Measures::new(&under));
    each(name, |op, paths| {
        gather.take(op, paths);
        measures.take(op, paths);
    });
    (fit(gather).unwrap(), measures)
}

fn played(model: &Model, options: Options) -> Measures {
    let mut measures = Measures::new(&[]);
    measures.play(&mut Generator::new(Arc::new(model.clone()), options).unwrap());
    measures
}

fn off(of: u64, wanted: u64) -> f64 {
    (of as f64 - wanted as f64).abs() / wanted.max(1) as f64
}

#[test]
fn it_does_as_much_of_each_and_hits_as_often_as_the_trace() {
    let mut wrong = Vec::new();
    for name in TRACES {
        let (model, trace) = fitted(name);
        let text = model.text().unwrap();
        assert!(text.len() <= MODEL_BYTES, "{name}: {} bytes", text.len());
        let read = Model::parse(&text).unwrap();
        assert_eq!(read.text().unwrap(), text, "{name}");
        let played = played(&read, Options::default());
        for (kind, (&want, &got)) in OpKind::ALL
            .iter()
            .zip(trace.counts.iter().zip(&played.counts))
        {
            // Two of a hundred, or of the rare ones a few.
            if off(got, want) > 0.02 && got.abs_diff(want) > 5 {
                wrong.push(format!("{name}: {got} of {want} {}", kind.name()));
            }
        }
        let (failed, want): (u64, u64) = (played.failed.iter().sum(), trace.failed.iter().sum());
        if off(failed, want) > 0.02 && failed.abs_diff(want) > 50 {
            wrong.push(format!("{name}: {failed} of {want} failed"));
        }
        for (what, got, want) in [
            ("read", played.bytes_read, trace.bytes_read),
            ("written", played.bytes_written, trace.bytes_written),
        ] {
            // A linker reads again what it wrote here and there: of one choice or another 1 to 3 % less of it.
            let most = if name == "build" { 0.04 } else { 0.02 };
            if off(got, want) > most && got.abs_diff(want) > 65_536 {
                wrong.push(format!("{name}: {got} of {want} bytes {what}"));
            }
        }
        for part in [4, 2, 1] {
            let pages = trace.footprint() / part;
            let (want, got) = (trace.hits(pages), played.hits(pages));
            if (want - got).abs() > 0.05 {
                wrong.push(format!(
                    "{name}: {got:.3} of {want:.3} hits in 1/{part} of the pages"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_same_seed_gives_the_same_operations() {
    let (model, _) = fitted("mail");
    let model = Arc::new(model);
    let all = |seed| {
        let mut generator = Generator::new(
            Arc::clone(&model),
            Options {
                seed,
                ..Options::default()
            },
        )
        .unwrap();
        let mut all = Vec::new();
        while let Some((lane, batch)) = generator.any() {
            all.extend(
                batch
                    .calls
                    .into_iter()
                    .map(|c| (lane, c.op, c.path, c.path2)),
            );
        }
        all
    };
    let first = all(1);
    assert!(first == all(1));
    assert!(first != all(2));
    // Asked lane by lane, each does the same.
    let mut generator = Generator::new(
        Arc::clone(&model),
        Options {
            seed: 1,
            ..Options::default()
        },
    )
    .unwrap();
    for lane in (0..generator.lanes() as u32).rev() {
        let mut own = first.iter().filter(|f| f.0 == lane);
        while let Some(batch) = generator.at_once(lane) {
            for call in batch.calls {
                let (_, op, path, path2) = own.next().unwrap();
                assert!((op, path, path2) == (&call.op, &call.path, &call.path2));
            }
        }
        assert!(own.next().is_none());
    }
}

#[test]
fn nothing_of_a_name_is_in_a_model() {
    for name in TRACES {
        let mut names = std::collections::BTreeSet::new();
        let mut take = |path: &[u8]| {
            let parts = path
                .split(|b| !b.is_ascii_alphanumeric())
                .filter(|p| p.len() > 3);
            names.extend(parts.map(|p| String::from_utf8_lossy(p).into_owned()));
        };
        each(name, |op, paths| {
            [op.path, op.path2, op.dir, op.dir2]
                .into_iter()
                .flatten()
                .for_each(|p| take(paths.get(p)));
        });
        let reader = TraceReader::open(&trace(name)).unwrap();
        let meta = reader.meta();
        meta.command.iter().for_each(|word| take(word.as_bytes()));
        for text in [&meta.host, &meta.kernel, &meta.directory] {
            take(text.as_bytes());
        }
        let text = fitted(name).0.text().unwrap();
        // Words of the model's own, and numbers, which are sizes and counts.
        let own = "format version source operations left_out bytes_read bytes_written span_ns directories files type before later \
                   size_bytes directory in_new_directory new_directory begin_ns idle_ns reads visit steps group processes at_once threads_of phase \
                   start_ns part \
                   first script file link flags error offset given bytes times until end next again start random place unit \
                   fresh known gone shared none think_ns took_ns";
        let kinds = OpKind::ALL.iter().map(|k| k.name());
        let own: Vec<&str> = own
            .split([' ', '_'])
            .chain(kinds.flat_map(|k| k.split('_')))
            .collect();
        let words: std::collections::BTreeSet<&str> =
            text.split(|c: char| !c.is_ascii_alphanumeric()).collect();
        for name in names {
            let number = name.bytes().all(|b| b.is_ascii_digit());
            assert!(
                number || own.contains(&&*name) || !words.contains(&*name),
                "'{name}' is in the model"
            );
        }
    }
}

#[test]
fn more_time_and_more_data_are_more_of_the_same() {
    let (model, _) = fitted("mail");
    let sum = |m: &Measures| m.counts.iter().sum::<u64>();
    let one = played(&model, Options::default());
    for (time, least, most) in [(2.0, 1.98, 2.02), (0.5, 0.4, 0.6)] {
        let scaled = played(&model.for_time(time), Options::default());
        let factor = sum(&scaled) as f64 / sum(&one) as f64;
        assert!((least..most).contains(&factor), "{time}: {factor}");
    }
    let (model, _) = fitted("build");
    let mut small = Generator::new(Arc::new(model.clone()), Options::default()).unwrap();
    let mut large = Generator::new(
        Arc::new(model),
        Options {
            data: 3.0,
            ..Options::default()
        },
    )
    .unwrap();
    let files = |g: &mut Generator| g.population().len();
    assert!(files(&mut large) > files(&mut small) * 3 / 2);
}

/// An operation of a trace that is made up.
fn op(kind: OpKind, path: Option<&[u8]>, paths: &mut PathTable, at: u64) -> Op {
    let mut op = Op::new(kind, Pid(7), Tid(7), at * 1000);
    op.path = path.and_then(|p| paths.intern(p));
    op.latency_ns = Some(100);
    op
}

#[test]
fn what_comes_in_from_elsewhere_is_left_out_and_counted() {
    let mut paths = PathTable::new();
    let mut gather = Gather::new(&[b"/t".to_vec()]);
    let mut two = |kind, from: &[u8], to: &[u8]| {
        let mut op = op(kind, Some(from), &mut paths, 0);
        op.path2 = paths.intern(to);
        gather.take(&op, &paths);
    };
    two(OpKind::Link, b"/o/a", b"/t/a");
    two(OpKind::Rename, b"/o/b", b"/t/b");
    two(OpKind::Rename, b"/o/b", b"/o/c");
    let left: Vec<(OpKind, u64)> = gather.left_out.into_iter().collect();
    assert_eq!(left, [(OpKind::Rename, 1), (OpKind::Link, 1)]);
}

#[test]
fn a_trace_of_one_operation_is_a_model_and_of_none_is_an_error() {
    assert!(
        fit(Gather::new(&[]))
            .unwrap_err()
            .to_string()
            .contains("expected at least one")
    );
    let (mut gather, mut paths) = (Gather::new(&[]), PathTable::new());
    let mut begins = op(OpKind::Fork, None, &mut paths, 0);
    (begins.length, begins.result) = (Some(8), Outcome::ok(8));
    gather.take(&begins, &paths);
    let none = fit(gather).unwrap_err().to_string();
    assert!(none.contains("no operation on a file"), "{none}");
    let (mut gather, mut paths) = (Gather::new(&[]), PathTable::new());
    let one = op(OpKind::Stat, Some(b"/secret/name"), &mut paths, 0);
    gather.take(&one, &paths);
    let model = fit(gather).unwrap();
    let played = played(
        &Model::parse(&model.text().unwrap()).unwrap(),
        Options::default(),
    );
    assert_eq!(
        played.counts.iter().sum::<u64>(),
        1,
        "{}",
        model.text().unwrap()
    );
    assert!(!model.text().unwrap().contains("secret"));
}

#[test]
fn a_million_operations_are_little_text_and_come_back() {
    let (mut gather, mut paths) = (Gather::new(&[]), PathTable::new());
    let mut at = 0;
    let mut next = |kind,
                    path: Option<&[u8]>,
                    gather: &mut Gather,
                    paths: &mut PathTable,
                    change: &dyn Fn(&mut Op)| {
        let mut op = op(kind, path, paths, at);
        change(&mut op);
        at += 1;
        gather.take(&op, paths);
    };
    for i in 0..50_000_u64 {
        let path = format!("/pool/d{}/f{i}", i % 40);
        next(
            OpKind::Open,
            Some(path.as_bytes()),
            &mut gather,
            &mut paths,
            &|op| {
                (op.flags, op.result) = (0o301, Outcome::ok(3));
            },
        );
        for piece in 0..=(i % 3) {
            next(OpKind::Write, None, &mut gather, &mut paths, &|op| {
                (op.fd, op.offset, op.length) = (Some(Fd(3)), Some(piece * 4096), Some(4096));
                (op.result, op.record) = (Outcome::ok(4096), OpFlags::IMPLICIT_OFFSET);
            });
        }
        next(OpKind::Close, None, &mut gather, &mut paths, &|op| {
            op.fd = Some(Fd(3));
        });
        next(
            OpKind::Stat,
            Some(b"/pool/missing"),
            &mut gather,
            &mut paths,
            &|op| {
                op.result = Outcome::err(Errno::ENOENT);
            },
        );
        if i >= 1000 {
            let old = i - 1000;
            let path = format!("/pool/d{}/f{old}", old % 40);
            next(
                OpKind::Unlink,
                Some(path.as_bytes()),
                &mut gather,
                &mut paths,
                &|_| {},
            );
        }
    }
    let model = fit(gather).unwrap();
    let text = model.text().unwrap();
    assert!(text.len() < 20_000, "{}", text.len());
    let played = played(&model, Options::default());
    let count = |kind: OpKind| played.counts[kind as usize];
    assert_eq!(
        [OpKind::Open, OpKind::Close, OpKind::Stat, OpKind::Unlink].map(count),
        [50_000, 50_000, 50_000, 49_000]
    );
    assert!(off(played.failed.iter().sum(), 50_000) < 0.0005);
    let written: u64 = (0..50_000_u64).map(|i| (1 + i % 3) * 4096).sum();
    assert!(
        off(played.bytes_written, written) < 0.001,
        "{} of {written}",
        played.bytes_written
    );
}

#[test]
fn an_impossible_value_is_named() {
    let (model, _) = fitted("mail");
    let text = model.text().unwrap();
    let script = text
        .lines()
        .find(|l| l.contains("think_ns="))
        .unwrap()
        .trim()
        .trim_matches([',', '"']);
    let step = text
        .lines()
        .find(|l| l.contains("write "))
        .unwrap()
        .trim()
        .trim_matches([',', '"']);
    let cases: Vec<(String, &str)> = vec![
        (
            text.replace("format = \"fsm\"", "format = \"other\""),
            "expected format",
        ),
        (text.replace("version = 1", "version = 2"), "newer"),
        (
            text.replacen("group = 1", "group = 99", 1),
            "group: 99, expected 1 to",
        ),
        (text.replacen("at_once = ", "at_once = 0\nx = ", 1), "x"),
        (text.replacen("at_once = 4", "at_once = 0", 1), "at_once: 0"),
        (
            text.replacen("type = \"file\"", "type = \"pipe\"", 1),
            "pipe",
        ),
        (
            text.replacen(script, &script.replacen("next=", "next=4000*1,", 1), 1),
            "next=",
        ),
        (
            text.replacen(script, &script.replacen("file=", "file=77", 1), 1),
            "expected",
        ),
        (
            text.replacen(script, "nothing", 1),
            "'nothing', expected the number of a visit",
        ),
        (
            text.replacen(step, "write bytes=9999999999999999", 1),
            "expected at most",
        ),
        (
            text.replacen(step, "wrote bytes=1", 1),
            "'wrote' is no operation",
        ),
        (
            text.replacen(step, "write bytes=1 colour=red", 1),
            "'colour'",
        ),
        (
            text.replacen(step, "write bytes=4096*0", 1),
            "TIMES at least 1",
        ),
        ("format = \"fsm\"\nversion = 1\n".into(), "missing field"),
        (String::new(), "expected format"),
        ("\u{0}\u{1}".into(), "line 1"),
    ];
    for (bad, word) in cases {
        assert!(bad != text, "the text for '{word}' is unchanged");
        let error = Model::parse(&bad).unwrap_err().to_string();
        assert!(error.contains(word), "expected '{word}' in: {error}");
    }
}

/// A model of one process that does these visits, each of one step.
fn model_of(files: &str, visits: &[&str], script: &[&str]) -> String {
    let steps: Vec<String> = visits.iter().map(|step| format!("\"{step}\"")).collect();
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    common::model_of(files, &steps, script)
}

fn files_of(kind: &str, before: u64) -> String {
    format!(
        "[[files]]\ntype = \"{kind}\"\nbefore = {before}\nlater = 1\ndirectory = \"0\"\nin_new_directory = 1000\n"
    )
}

#[test]
fn a_directory_that_is_moved_into_itself_is_no_endless_path() {
    let (mut gather, mut paths) = (Gather::new(&[]), PathTable::new());
    for (at, (kind, from, to)) in [
        (OpKind::Mkdir, "/w/a", ""),
        (OpKind::Link, "/w/a", "/w/a/b"),
        (OpKind::Rename, "/w/a", "/w/a/c"),
        (OpKind::Link, "/w/a/b", "/w/a/b/b"),
        (OpKind::Rename, "/w", "/w/a/c"),
        (OpKind::Link, "/w/a/b", "/w/a/b/b"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut op = op(kind, Some(from.as_bytes()), &mut paths, at as u64);
        op.path2 = (!to.is_empty()).then(|| paths.intern(to.as_bytes()).unwrap());
        gather.take(&op, &paths);
    }
    let model = fit(gather).unwrap();
    let model = Model::parse(&model.text().unwrap()).unwrap();
    assert!(
        played(&model, Options::default())
            .counts
            .iter()
            .sum::<u64>()
            > 0
    );
    // Directories that are made, linked and moved into those that were made before, without an end.
    let files = files_of("directory", 0) + &files_of("link", 0);
    let script = [
        "1 file=1.new took_ns=0 next=2,3",
        "3 file=1.known to=2.new took_ns=0 next=3",
        "2 file=1.known:0,1,2 to=2.known:0,1 took_ns=0 next=4",
        "2 file=1.known:1 to=1.new took_ns=0 next=1*100,0*1",
    ];
    let model = Model::parse(&model_of(&files, &["mkdir", "rename", "link"], &script)).unwrap();
    let options = Options {
        endless: true,
        most: Some(20_000),
        ..Options::default()
    };
    let mut generator = Generator::new(Arc::new(model), options).unwrap();
    let (mut calls, mut moved) = (0, 0);
    while let Some((_, batch)) = generator.any() {
        for call in batch.calls {
            calls += 1;
            moved += u64::from(call.op.kind == OpKind::Rename && call.op.result.is_ok());
            let ok = call.op.result.is_ok();
            let longest = [call.path, call.path2].into_iter().flatten();
            assert!(!ok || longest.map(|p| p.len()).max().unwrap() <= 4095);
        }
    }
    assert!(calls >= 20_000 && moved > 100, "{calls} {moved}");
}

#[test]
fn a_model_goes_by_what_was_moved_and_not_by_what_was_asked() {
    for claimed in [1 << 40, u64::MAX >> 1] {
        let (mut gather, mut paths) = (Gather::new(&[]), PathTable::new());
        for i in 0..50 {
            let mut open = op(OpKind::Open, Some(b"/w/f"), &mut paths, 4 * i);
            (open.flags, open.result) = (0o102, Outcome::ok(3));
            gather.take(&open, &paths);
            for (j, kind) in [OpKind::Write, OpKind::Read].into_iter().enumerate() {
                let mut moves = op(kind, None, &mut paths, 4 * i + 1 + j as u64);
                (moves.fd, moves.offset, moves.length) = (Some(Fd(3)), Some(0), Some(claimed));
                moves.result = Outcome::ok(0);
                gather.take(&moves, &paths);
            }
            let mut close = op(OpKind::Close, None, &mut paths, 4 * i + 3);
            close.fd = Some(Fd(3));
            gather.take(&close, &paths);
        }
        let model = fit(gather).unwrap();
        let played = played(
            &Model::parse(&model.text().unwrap()).unwrap(),
            Options::default(),
        );
        assert_eq!(played.counts[OpKind::Write as usize], 50);
        assert_eq!((played.bytes_written, played.bytes_read), (0, 0));
    }
}

#[test]
fn what_no_machine_holds_is_refused_for_all_of_a_model() {
    let line = |what: &str, text: &str, expected: &str| {
        let error = Model::parse(text).unwrap_err().to_string();
        assert!(error.starts_with("line "), "{what}: {error}");
        assert!(error.contains(expected), "{what}: {error}");
    };
    let one = ["1 file=1.fresh next=0"];
    let many = files_of("file", 1 << 20).repeat(50);
    let text = model_of(&many, &["stat"], &one);
    line("files", &text, "files so far, expected at most 4194304");
    let small = model_of(&files_of("file", 1), &["stat"], &one);
    assert!(Model::parse(&small).is_ok());
    let chain: Vec<String> = (0..100_000_u32)
        .map(|i| i.saturating_sub(1).to_string())
        .collect();
    let deep = small.replace("[0]", &format!("[{}]", chain.join(",")));
    line("directories", &deep, "lies 251 deep, expected at most 250");
    let group = "[[group]]\nprocesses = 1\nat_once = ";
    let groups = small.replace(
        &format!("{group}1\n"),
        "[[group]]\nprocesses = 4096\nat_once = 4096\n"
            .repeat(1000)
            .as_str(),
    );
    line(
        "groups",
        &groups,
        "12288 so far, expected at most 8192 in all",
    );
    for (key, ns) in [("think_ns", u64::MAX), ("took_ns", 86_400_000_000_001)] {
        let long = small.replace(" next=0", &format!(" {key}={ns} next=0"));
        line(key, &long, "expected at most 86400000000000, a day");
    }
    let never = small.replace("\"stat\"", "\"stat times=0\"");
    line("times", &never, "0 times, expected at least 1");
}

#[test]
fn what_no_run_could_do_is_refused_with_its_line() {
    let one = ["1 file=1.fresh next=0"];
    let of = |step: &str| model_of(&files_of("file", 1), &[step], &one);
    let groups = |processes: u64, at_once: u64| {
        let group = format!("processes = {processes}\nat_once = {at_once}\n");
        of("stat").replace("processes = 1\nat_once = 1\n", &group)
    };
    for (text, expected) in [
        (groups(0, 1), "processes: 0, expected at least 1"),
        (
            groups(1, 5),
            "at_once: 5, expected at most its processes, 1",
        ),
        (
            of("stat error=EIO"),
            "stat: error=EIO, expected ENOENT, EEXIST",
        ),
        (of("read error=ENOENT"), "read: error=ENOENT, expected none"),
        (
            of("open flags=0xffffffff"),
            "open: flags=0xffffffff, expected some of",
        ),
        (
            of("stat flags=0x1"),
            "stat: flags=0x1, expected some of 0x100",
        ),
    ] {
        let error = Model::parse(&text).unwrap_err().to_string();
        assert!(
            error.starts_with("line ") && error.contains(expected),
            "{error}"
        );
    }
    for step in [
        "stat error=ENOENT",
        "readlink error=EINVAL",
        "getxattr error=ENODATA",
    ] {
        assert!(Model::parse(&of(step)).is_ok(), "{step}");
    }
}

/// A place at random has room for what goes on from it.
#[test]
fn reads_in_strides_stay_in_the_file() {
    let file = "[[files]]\ntype = \"file\"\nbefore = 1\nlater = 0\nsize_bytes = \"8192000\"\ndirectory = \"0\"\n";
    let visit = "\"open\", \"read at=random offset=given bytes=4096 place=0 unit=4096\", \
                 \"read at=+24576 offset=given bytes=4096 times=284\", \"close\"";
    let text = common::model_of(file, &[visit], &["1 file=1.fresh next=0"]);
    let model = Model::parse(&text).unwrap();
    for seed in 0..20 {
        let played = played(
            &model,
            Options {
                seed,
                ..Options::default()
            },
        );
        assert_eq!(played.bytes_read, 285 * 4096, "seed {seed}");
    }
}

/// What a target has no call for is told, and what it does otherwise.
#[test]
fn a_run_says_what_it_does_of_calls_that_targets_do_not_have() {
    let visit = "\"open flags=0x42\", \"ftruncate bytes=8192\", \"mmap flags=0x103 bytes=8192\", \
                 \"msync flags=0x4 bytes=8192 times=5\", \"msync flags=0x1 bytes=8192\", \"setxattr bytes=10 times=3\", \
                 \"close\"";
    let text = common::model_of(&files_of("file", 0), &[visit], &["1 file=1.new next=0"]);
    let model = Model::parse(&text).unwrap();
    let played = played(&model, Options::default());
    let otherwise: Vec<_> = played
        .otherwise
        .iter()
        .map(|(of, n)| (of.0, of.1, *n))
        .collect();
    let msync = OpKind::Msync;
    for expected in [
        (msync, Some(OpKind::Fdatasync), 5),
        (msync, None, 1),
        (OpKind::Mmap, None, 1),
        (OpKind::Setxattr, None, 3),
    ] {
        assert!(
            otherwise.contains(&expected),
            "{expected:?} in {otherwise:?}"
        );
    }
    assert_eq!(model.not_carried(), [OpKind::Setxattr]);
}

#[test]
fn the_limits_of_a_model_hold_for_all_that_is_made_of_it() {
    let one = ["1 file=1.fresh next=1*1000000,0*1"];
    let files = files_of("file", 1000)
        + &files_of("file", 1).replace("before = 1\n", "before = 16\nsize_bytes = \"5000\"\n");
    let model = Model::parse(&model_of(&files, &["stat"], &one)).unwrap();
    let check = |users, time, data| {
        let scale = Scale { users, time, data };
        model.check_scale(scale).map_err(|e| e.to_string())
    };
    assert_eq!(check(1024, 1000.0, 4.0), Ok(()));
    for ((users, time, data), expected) in [
        (
            (1024, 1.0, 5.0),
            "users=1024, data=5: 1024 times 5017 files and directories before the run are 5137408, expected at most 4194304",
        ),
        (
            (8193, 1.0, 0.1),
            "users=8193: 8193 times 1 processes at once are 8193, expected at most 8192",
        ),
        (
            (1024, 10_000.0, 1.0),
            "users=1024, time=10000: 1024 times 10000010000 visits are 10240010240000, expected at most 1099511627776",
        ),
        (
            (1, 1.0, 0.0),
            "time=1 and data=0: expected more than 0, at most 1000000",
        ),
        (
            (1, f64::NAN, 1.0),
            "time=NaN and data=1: expected more than 0, at most 1000000",
        ),
    ] {
        assert_eq!(check(users, time, data).unwrap_err(), expected, "{users}");
    }
    let larger =
        files_of("file", 1).replace("before = 1\n", "before = 1\nsize_bytes = \"1000000000\"\n");
    let model = Model::parse(&model_of(&larger, &["stat"], &one)).unwrap();
    let scale = Scale {
        users: 1,
        time: 1.0,
        data: 2000.0,
    };
    let error = model.check_scale(scale).unwrap_err().to_string();
    assert_eq!(
        error,
        "data=2000: files of 2000 times 1000000000 bytes, expected at most 1099511627776"
    );
}

#[test]
fn one_that_does_little_does_not_make_the_others_do_more_than_is_asked_of_them() {
    let (model, _) = fitted("mail");
    let options = Options {
        endless: true,
        most: Some(300),
        ..Options::default()
    };
    let mut generator = Generator::new(Arc::new(model), options).unwrap();
    let mut calls = vec![0_u64; generator.lanes()];
    while let Some((lane, batch)) = generator.any() {
        let calls = &mut calls[lane as usize];
        assert!(*calls < 300, "lane {lane}");
        *calls += batch.calls.len() as u64;
    }
    assert!(
        calls.len() > 1 && calls.iter().all(|c| *c >= 300),
        "{calls:?}"
    );
}
