//! `fsage replay`: trees come out the same, strangers stay inside, what fails is told.

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

use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use common::{
    fsage, names, root, run, run_command, scratch, start, temp, temp_in_memory, tool, until,
};
use fsage_core::{Op, OpKind, OpSink, Outcome, PathTable, Pid, Tid};
use fsage_format::trace::{TraceEnd, TraceMeta, TraceWriter};
use rustix::process::Signal;

/// Several processes that write, copy, rename, link and remove, some at once.
const SCRIPT: &str = "mkdir sub d; echo hello > sub/first; cat sub/first > sub/second; \
    mv sub/second third; ln -s third alias; ln third hard; cat alias > /dev/null; \
    for i in 1 2 3 4 5; do head -c ${i}0000 /dev/zero > d/f$i & done; wait; mv d e; cat e/* > all; \
    (echo late >> all) & cat pre/* | wc -c; wait; truncate -s 1000000 big; rm e/f3 sub/first; rmdir sub";

/// A tree, a snapshot of it, and a trace of [`SCRIPT`] in it.
fn captured(dir: &Path, method: &str) -> PathBuf {
    let tree = dir.join("tree");
    std::fs::create_dir_all(tree.join("pre")).unwrap();
    std::fs::write(tree.join("pre/a"), "abc").unwrap();
    std::fs::write(tree.join("pre/b"), vec![7; 5000]).unwrap();
    run(dir, ["snapshot", "tree", "-o", "tree.fss"]).exits(0);
    let line = [
        "trace", "--method", method, "--under", ".", "-o", "../t.fst", "--", "sh", "-c", SCRIPT,
    ];
    run(&tree, line).exits(0);
    tree
}

/// Names, types and sizes below a directory.
fn listing(dir: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let mut pending = vec![dir.to_owned()];
    while let Some(at) = pending.pop() {
        for entry in std::fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            let meta = path.symlink_metadata().unwrap();
            let name = path.strip_prefix(dir).unwrap().display().to_string();
            if meta.is_dir() {
                lines.push(format!("{name}/"));
                pending.push(path);
            } else {
                let link = std::fs::read_link(&path).unwrap_or_default();
                lines.push(format!("{name} {} {}", meta.len(), link.display()));
            }
        }
    }
    lines.sort();
    lines
}

fn only_entry(dir: &Path) -> PathBuf {
    let names = names(dir);
    assert_eq!(names.len(), 1, "{names:?}");
    dir.join(&names[0])
}

/// What `tar x` does with links that lead nowhere yet, and a mapped file that does not fill its last page.
#[test]
fn links_are_changed_and_named_themselves() {
    const SCRIPT: &str = "ln -s nowhere l; touch -h l; chown -h $(id -u):$(id -g) l; \
        tar cf l.tar l; mkdir o; tar xf l.tar -C o; git init -q . && git config user.name x";
    if !tool("tar") || !tool("git") {
        return;
    }
    for method in ["auto", "ptrace"] {
        let dir = temp();
        let dir = dir.path();
        let tree = dir.join("tree");
        std::fs::create_dir(&tree).unwrap();
        let line = [
            "trace", "--method", method, "--under", ".", "-o", "../t.fst", "--", "sh", "-c", SCRIPT,
        ];
        run(&tree, line).exits(0);
        std::fs::create_dir(dir.join("out")).unwrap();
        for target in ["mem:fast", "out"] {
            let result = run(dir, ["replay", "t.fst", target, "--verify", "--json"]);
            let result = result.exits(0).json();
            assert_eq!(result["differ"], 0, "{method} {target}: {result}");
            assert_eq!(result["verified"]["wrong"], 0, "{result}");
            let kinds = result["kinds"].as_array().unwrap();
            for kind in ["utimens", "chown"] {
                let ran = kinds.iter().any(|row| row["kind"] == kind);
                assert!(ran, "{method} {target}: no {kind}: {result}");
            }
        }
    }
}

#[test]
fn the_tree_comes_out_the_same() {
    for method in ["auto", "ptrace"] {
        let dir = temp();
        let dir = dir.path();
        let tree = captured(dir, method);
        for order in ["process", "file", "strict"] {
            for more in [&["--snapshot", "tree.fss"][..], &[]] {
                let out = dir.join(format!("out-{order}-{}", more.len()));
                std::fs::create_dir(&out).unwrap();
                let mut line = vec![
                    "replay",
                    "t.fst",
                    out.to_str().unwrap(),
                    "--keep",
                    "--json",
                    "--order",
                    order,
                ];
                line.extend(more);
                if order != "process" {
                    line.push("--verify");
                }
                let ran = run(dir, &line);
                // Without the order of files, processes may overtake each other.
                if order == "process" {
                    continue;
                }
                let result = ran.exits(0).json();
                assert_eq!(result["differ"], 0, "{result}");
                assert_eq!(result["verified"]["wrong"], 0, "{result}");
                assert!(result["replayed"].as_u64().unwrap() > 50, "{result}");
                assert_eq!(
                    listing(&tree),
                    listing(&only_entry(&out)),
                    "{method} {order}"
                );
            }
        }
    }
}

#[test]
fn nothing_is_left_and_nothing_else_is_touched() {
    let dir = temp();
    let dir = dir.path();
    captured(dir, "ptrace");
    std::fs::create_dir(dir.join("used")).unwrap();
    std::fs::write(dir.join("used/mine"), "precious").unwrap();
    let text = run(
        dir,
        ["replay", "t.fst", "used", "--verify", "-o", "result.json"],
    )
    .exits(0)
    .text();
    assert!(text.contains("every result is the trace's"), "{text}");
    assert_eq!(names(&dir.join("used")), ["mine"]);
    assert_eq!(std::fs::read(dir.join("used/mine")).unwrap(), b"precious");
    let stored: serde_json::Value =
        serde_json::from_slice(&std::fs::read(dir.join("result.json")).unwrap()).unwrap();
    assert_eq!(stored["format"], "fsage replay");
}

#[test]
fn what_comes_from_outside_is_made() {
    for method in ["auto", "ptrace"] {
        let dir = temp();
        let dir = dir.path();
        let (src, tree) = (dir.join("src"), dir.join("tree"));
        std::fs::create_dir_all(src.join("d/e")).unwrap();
        std::fs::create_dir(&tree).unwrap();
        for (name, bytes) in [("a", 5000), ("b", 70_000), ("d/x", 100), ("d/e/y", 9)] {
            std::fs::write(src.join(name), vec![7; bytes]).unwrap();
        }
        let script = "ln ../src/a hard; ln ../src/a again; mv ../src/b moved; mv ../src/d dir; \
            cat hard moved dir/x dir/e/y; echo more >> moved; echo more >> hard; rm again; mv dir/e f";
        let line = [
            "trace", "--method", method, "--under", ".", "-o", "../t.fst", "--", "sh", "-c", script,
        ];
        run(&tree, line).exits(0);
        std::fs::create_dir(dir.join("out")).unwrap();
        let line = ["replay", "t.fst", "out", "--verify", "--keep", "--json"];
        let result = run(dir, line).exits(0).json();
        assert_eq!(result["differ"], 0, "{method} {result}");
        assert_eq!(result["verified"]["wrong"], 0, "{method} {result}");
        assert_eq!(result["built"]["incoming"], 3, "{method} {result}");
        let out = only_entry(&dir.join("out"));
        assert_eq!(listing(&tree), listing(&out), "{method}");
        let said = run(dir, ["replay", "t.fst", "out"]).exits(0).text();
        assert!(said.contains("3 of these for links and renames"), "{said}");
    }
}

#[test]
fn what_is_made_outside_of_it_and_moved_in_is_as_large() {
    let dir = temp();
    let dir = dir.path();
    let tree = dir.join("tree");
    std::fs::create_dir(&tree).unwrap();
    let script = "mkdir out in; head -c 30000 /dev/zero > out/f; mkdir out/d; echo x > out/d/g; \
        ln out/f in/linked; mv out/f in/moved; mv out/d in/d; mv in/d out/d; mv out/d in/again; cat in/moved";
    let line = [
        "trace", "--under", ".", "-o", "../t.fst", "--", "sh", "-c", script,
    ];
    run(&tree, line).exits(0);
    std::fs::create_dir(dir.join("to")).unwrap();
    let map = format!("{}=", tree.join("in").display());
    let line = ["replay", "t.fst", "to", "--map", &map, "--verify", "--json"];
    let result = run(dir, line).json();
    assert_eq!(result["built"]["incoming"], 3, "{result}");
    let wrong = result["verified"]["first"].as_array().unwrap();
    let names: Vec<_> = wrong.iter().map(|w| w["name"].as_str().unwrap()).collect();
    // What went out stays there; of a directory that comes again nothing is made.
    assert!(
        names
            .iter()
            .all(|n| n.starts_with('d') || n.starts_with("again")),
        "{result}"
    );
}

#[test]
fn on_another_file_system() {
    if !scratch() {
        return;
    }
    let dir = temp();
    captured(dir.path(), "auto");
    let line = [
        "replay",
        "t.fst",
        "scratch:ext4",
        "--snapshot",
        "tree.fss",
        "--verify",
        "--json",
    ];
    let result = run(dir.path(), line).exits(0).json();
    assert_eq!(result["verified"]["wrong"], 0, "{result}");
    let line = ["replay", "t.fst", "scratch:ext4", "--keep"];
    run(dir.path(), line).fails(2, &["--keep", "directory"]);
}

/// A trace of operations made up here; paths are absolute.
struct Made {
    paths: PathTable,
    ops: Vec<Op>,
}

impl Made {
    fn new() -> Self {
        Self {
            paths: PathTable::new(),
            ops: Vec::new(),
        }
    }

    fn op(&mut self, kind: OpKind, path: &[u8], result: i64) -> &mut Op {
        let at = self.ops.len() as u64 * 1000;
        let mut op = Op::new(kind, Pid(1), Tid(1), at);
        op.result = Outcome::from_raw(result);
        op.path = self.paths.intern(path).filter(|_| !path.is_empty());
        self.ops.push(op);
        self.ops.last_mut().unwrap()
    }

    fn create(&mut self, path: &[u8], fd: i32) {
        self.op(OpKind::Open, path, fd.into()).flags = 0o1101;
    }

    fn write(&mut self, fd: i32, offset: u64, length: u64, result: i64) {
        let op = self.op(OpKind::Write, b"", result);
        (op.fd, op.offset, op.length) = (Some(fsage_core::Fd(fd)), Some(offset), Some(length));
    }

    fn save(&self, file: &Path, end: bool) {
        let meta = TraceMeta {
            under: vec!["/w".into()],
            directory: "/w".into(),
            ..TraceMeta::default()
        };
        let mut writer = TraceWriter::create(file, meta).unwrap();
        for op in &self.ops {
            writer.push(op, &self.paths).unwrap();
        }
        if end {
            writer.finish(TraceEnd::default()).unwrap();
        } else {
            writer.flush_piece().unwrap();
        }
    }
}

/// On a target that has the call and on one where renames stand for it: one that fails takes no name away.
#[test]
fn an_exchange_that_fails_leaves_both_names() {
    const EXCHANGE: u32 = 2;
    let dir = temp();
    let dir = dir.path();
    let mut made = Made::new();
    for (name, size) in [("/w/a", 100), ("/w/d/b", 200)] {
        if name.starts_with("/w/d") {
            made.op(OpKind::Mkdir, b"/w/d", 0).flags = 0o755;
        }
        made.create(name.as_bytes(), 3);
        made.write(3, 0, size, size as i64);
        made.op(OpKind::Close, b"", 0).fd = Some(fsage_core::Fd(3));
    }
    for (one, two, result) in [
        ("/w/a", "/w/none", -2),
        ("/w/none", "/w/a", -2),
        ("/w/d", "/w/d/b", -22),
        ("/w/a", "/w/d/b", 0),
    ] {
        let path2 = made.paths.intern(two.as_bytes());
        let op = made.op(OpKind::Rename, one.as_bytes(), result);
        (op.path2, op.flags) = (path2, EXCHANGE);
    }
    made.save(&dir.join("x.fst"), true);
    std::fs::create_dir(dir.join("out")).unwrap();
    for target in ["out", "mem:fast"] {
        let mut line = vec!["replay", "x.fst", target, "--verify", "--json"];
        line.extend((target == "out").then_some("--keep"));
        let result = run(dir, line).exits(0).json();
        assert_eq!(result["verified"]["wrong"], 0, "{target}: {result}");
        assert_eq!(result["differ"], 0, "{target}: {result}");
    }
    let kept = only_entry(&dir.join("out"));
    for (name, size) in [("a", 200), ("d/b", 100)] {
        assert_eq!(std::fs::metadata(kept.join(name)).unwrap().len(), size);
    }
}

/// How a file that is written first is published: it has no name until it is whole.
#[test]
fn a_file_without_a_name_gets_one() {
    const AT_EMPTY_PATH: u32 = 0x1000;
    const TMPFILE: u32 = 0o20_200_002;
    let dir = temp();
    let dir = dir.path();
    // Older traces have an empty name, and whatever flags the call had.
    for (path, flags) in [("", AT_EMPTY_PATH), ("", 0x400), ("/w/file", AT_EMPTY_PATH)] {
        let mut made = Made::new();
        if path.is_empty() {
            made.op(OpKind::Open, b"/w", 3).flags = TMPFILE;
        } else {
            made.create(b"/w/file", 3);
        }
        made.write(3, 0, 500, 500);
        let fd = Some(fsage_core::Fd(3));
        // By the descriptor alone not everybody may.
        for (name, result) in [
            ("/w/kept", -2),
            ("/w/kept", 0),
            ("/w/kept", -17),
            ("/w/more", 0),
        ] {
            let path2 = made.paths.intern(name.as_bytes());
            let op = made.op(OpKind::Link, path.as_bytes(), result);
            (op.fd, op.path2, op.flags) = (fd, path2, flags);
        }
        made.op(OpKind::Close, b"", 0).fd = fd;
        made.op(OpKind::Open, b"/w/kept", 3);
        made.op(OpKind::Stat, b"/w/more", 0).size_bytes = Some(500);
        made.save(&dir.join("p.fst"), true);
        let out = dir.join("out");
        let _ = std::fs::remove_dir_all(&out);
        std::fs::create_dir(&out).unwrap();
        let line = ["replay", "p.fst", "out", "--verify", "--keep", "--json"];
        let result = run(dir, line).exits(0).json();
        assert_eq!(result["differ"], 0, "{result}");
        assert_eq!(result["verified"]["wrong"], 0, "{result}");
        assert_eq!(result["skipped"]["failed_then"], 1, "{result}");
        let kept = only_entry(&out);
        for name in ["kept", "more"] {
            assert_eq!(std::fs::metadata(kept.join(name)).unwrap().len(), 500);
        }
        // A target that cannot says so; a name of the file will do wherever there is one.
        let ran = run(dir, ["replay", "p.fst", "mem:fast"]);
        let (code, verdict) = if path.is_empty() {
            (3, "results differ")
        } else {
            (0, "every result is the trace's")
        };
        let ran = ran.exits(code).text();
        assert!(ran.contains(verdict), "{ran}");
    }
}

#[test]
fn a_hostile_trace_stays_inside() {
    let dir = temp();
    let dir = dir.path();
    for name in ["outside", "target"] {
        std::fs::create_dir(dir.join(name)).unwrap();
    }
    std::fs::write(dir.join("outside/file"), "precious").unwrap();
    let outside = dir.join("outside");
    let link_to = |name: &str| outside.join(name).into_os_string().into_encoded_bytes();
    let mut made = Made::new();
    // Links that lead out, absolute and by dots, and what is done through them.
    for (link, text) in [
        (&b"/w/abs"[..], link_to("")),
        (b"/w/dots", b"../../outside".to_vec()),
    ] {
        let target = made.paths.intern(&text);
        made.op(OpKind::Symlink, link, 0).path2 = target;
        let through = [link, b"/file"].concat();
        made.create(&through, 5);
        made.write(5, 0, 100, 100);
        made.op(OpKind::Unlink, &through, 0);
        made.op(OpKind::Truncate, &through, 0).length = Some(0);
        made.op(OpKind::Chmod, &through, 0).flags = 0o777;
        made.op(OpKind::Mkdir, &[link, b"/made"].concat(), 0);
    }
    let up = b"/w/../../../../../../../../../..".to_vec();
    for path in [
        &[up.as_slice(), &link_to("file")].concat()[..],
        &link_to("file"),
        b"/w/a/../../../outside/file",
    ] {
        made.create(path, 6);
        made.write(6, 0, 100, 100);
        made.op(OpKind::Unlink, path, 0);
    }
    let to = made.paths.intern(b"/w/stolen");
    made.op(OpKind::Rename, &link_to("file"), 0).path2 = to;
    made.op(OpKind::Link, &link_to("file"), 0).path2 = to;
    // Names of any bytes, sizes and offsets of any size.
    made.create(b"/w/new\nline\xff\x1b[2J", 7);
    made.write(7, u64::MAX - 5, 1 << 63, 1);
    made.write(7, 1 << 62, 10, 10);
    made.op(OpKind::Ftruncate, b"", 0).fd = Some(fsage_core::Fd(7));
    made.ops.last_mut().unwrap().length = Some(u64::MAX);
    let op = made.op(OpKind::Read, b"", 10);
    (op.fd, op.length) = (Some(fsage_core::Fd(7)), Some(u64::MAX));
    made.op(OpKind::Mkdir, &b"/w".repeat(3000), 0);
    made.save(&dir.join("evil.fst"), true);
    let ran = run(dir, ["replay", "evil.fst", "target", "--json"]);
    assert!([0, 3].contains(&ran.code()), "{}", ran.stderr);
    assert_eq!(names(&outside), ["file"]);
    assert_eq!(std::fs::read(outside.join("file")).unwrap(), b"precious");
    assert_eq!(names(&dir.join("target")), Vec::<String>::new());
    let text = run(dir, ["replay", "evil.fst", "target"]).text();
    assert!(!text.contains('\x1b'), "escapes reach the terminal");
}

/// U+FFFD stood for what is no UTF-8, and two names looked like one.
#[test]
fn a_name_that_is_no_text_is_written_as_in_its_trace() {
    let dir = temp();
    let dir = dir.path();
    let mut made = Made::new();
    for name in [&b"/w/a\xff"[..], b"/w/a\xfe"] {
        made.op(OpKind::Open, name, -5);
    }
    made.save(&dir.join("t.fst"), true);
    std::fs::create_dir(dir.join("to")).unwrap();
    let map = |from: &[u8]| {
        let text = [from, b"="].concat();
        std::ffi::OsString::from_vec(text)
    };
    let unmet = map(b"/w/unmet\xff");
    let line = |more: &str| {
        let mut command = fsage();
        command.current_dir(dir).args(["replay", "t.fst", "to"]);
        command.arg("--map").arg(map(b"/w"));
        command.arg("--map").arg(&unmet).args([more]);
        run_command(&mut command)
    };
    let ran = line("--json");
    let result = ran.json();
    let shown = [&result.to_string(), &line("-q").text(), &ran.stderr].map(String::clone);
    let differences = result["differences"].as_array().unwrap();
    let names: Vec<_> = differences.iter().map(|d| d["name"].clone()).collect();
    assert_eq!(names, ["a\\xff", "a\\xfe"], "{result}");
    let warnings = result["warnings"].to_string();
    assert!(warnings.contains("/w/unmet\\\\xff"), "{warnings}");
    assert!(
        shown.iter().all(|text| !text.contains('\u{fffd}')),
        "{shown:?}"
    );
    let nothing = run_command(
        fsage()
            .current_dir(dir)
            .args(["replay", "t.fst", "to", "--map"])
            .arg(&unmet),
    );
    let said = nothing.fails(1, &["/w/unmet\\xff"]).stderr;
    assert!(!said.contains('\u{fffd}'), "{said}");
}

#[test]
fn an_initial_tree_that_does_not_fit_is_refused() {
    let dir = temp();
    let mut made = Made::new();
    made.op(OpKind::Stat, b"/w/huge", 0).size_bytes = Some(1 << 60);
    made.save(&dir.path().join("huge.fst"), true);
    run(dir.path(), ["replay", "huge.fst", "."])
        .fails(1, &["1152921504606846976 bytes", "available"]);
    assert_eq!(names(dir.path()), ["huge.fst"]);
}

#[test]
fn a_full_target_is_reported() {
    if !scratch() {
        return;
    }
    let dir = temp();
    let mut made = Made::new();
    made.create(b"/w/big", 3);
    for piece in 0..200u64 {
        made.write(3, piece << 20, 1 << 20, 1 << 20);
    }
    made.save(&dir.path().join("big.fst"), true);
    let line = [
        "replay",
        "big.fst",
        "scratch:ext4,size=64M",
        "--verify",
        "--json",
    ];
    let ran = run(dir.path(), line);
    assert_eq!(ran.code(), 1, "{}", ran.stderr);
    let result = ran.json();
    let write = result["kinds"]
        .as_array()
        .unwrap()
        .iter()
        .find(|k| k["kind"] == "write")
        .unwrap();
    assert!(write["errors"]["28"].as_u64().unwrap() > 50, "{result}");
    assert!(result["differ"].as_u64().unwrap() > 50, "{result}");
}

#[test]
fn a_trace_that_lacks_something_is_refused() {
    let dir = temp();
    let mut made = Made::new();
    for n in 0..10 {
        made.op(OpKind::Mkdir, format!("/w/d{n}").as_bytes(), 0);
    }
    made.save(&dir.path().join("cut.fst"), false);
    std::fs::create_dir(dir.path().join("out")).unwrap();
    run(dir.path(), ["replay", "cut.fst", "out"]).fails(1, &["cut.fst", "--allow-lossy"]);
    let result = run(
        dir.path(),
        ["replay", "cut.fst", "out", "--allow-lossy", "--json"],
    )
    .exits(0)
    .json();
    assert_eq!(result["replayed"], 10);
}

#[test]
fn mistakes_are_one_error() {
    let dir = temp();
    let mut made = Made::new();
    made.op(OpKind::Mkdir, b"/w/d", 0);
    made.save(&dir.path().join("t.fst"), true);
    for (line, code, words) in [
        (vec!["replay", "no.fst", "."], 1, vec!["no.fst"]),
        (vec!["replay", "t.fst", "nowhere"], 1, vec!["nowhere"]),
        (
            vec!["replay", "t.fst", ".", "--snapshot", "no.fss"],
            1,
            vec!["no.fss"],
        ),
    ] {
        run(dir.path(), line).fails(code, &words);
    }
    let nowhere = [
        "replay",
        "t.fst",
        ".",
        "--map",
        "/nowhere=x",
        "--map",
        "/w2=",
    ];
    let words = ["t.fst", "nothing below /nowhere and /w2", "lies below /w"];
    run(dir.path(), nowhere).fails(1, &words);
    for line in [
        ["replay", "t.fst", ".", "--speed", "fast"],
        ["replay", "t.fst", ".", "--speed", "x0"],
        ["replay", "t.fst", ".", "--speed", "xNaN"],
        ["replay", "t.fst", ".", "--map", "relative=x"],
        ["replay", "t.fst", ".", "--map", "/a=../x"],
        ["replay", "t.fst", ".", "--map", "/a"],
    ] {
        run(dir.path(), line).exits(2);
    }
    // One of two that leads nowhere.
    let line = [
        "replay", "t.fst", "mem:fast", "--map", "/w=", "--map", "/w/dd=x", "--json",
    ];
    let result = run(dir.path(), line).exits(0).json();
    assert_eq!(result["replayed"], 1, "{result}");
    let warning = "--map /w/dd=x: the trace names nothing below /w/dd";
    assert_eq!(result["warnings"], serde_json::json!([warning]), "{result}");
    assert_eq!(names(dir.path()), ["t.fst"]);
}

#[test]
fn original_speed_keeps_the_pauses() {
    let dir = temp();
    let mut made = Made::new();
    for n in 0..5u64 {
        made.op(OpKind::Mkdir, format!("/w/d{n}").as_bytes(), 0)
            .start_ns = n * 100_000_000;
    }
    made.save(&dir.path().join("t.fst"), true);
    let elapsed = |speed: &str| {
        let line = ["replay", "t.fst", ".", "--json", "--speed", speed];
        let result = run(dir.path(), line).exits(0).json();
        result["timing"]["replayed_elapsed_ns"].as_u64().unwrap()
    };
    assert!(elapsed("original") >= 300_000_000);
    assert!(elapsed("x2") >= 100_000_000);
}

#[test]
fn interrupted_it_cleans_up() {
    let dir = temp();
    let dir = dir.path();
    let mut made = Made::new();
    // While the tree is made: a large file; while operations run: one in an hour.
    made.op(OpKind::Stat, b"/w/large", 0).size_bytes = Some(200 << 20);
    made.op(OpKind::Mkdir, b"/w/first", 0);
    made.op(OpKind::Mkdir, b"/w/later", 0).start_ns = 3_600_000_000_000;
    made.save(&dir.join("t.fst"), true);
    for (stage, reached) in [("tree", "large"), ("operations", "first")] {
        let target = dir.join(stage);
        std::fs::create_dir(&target).unwrap();
        let mut command = fsage();
        command
            .current_dir(dir)
            .args(["replay", "t.fst", stage, "--speed", "original", "--json"]);
        let running = start(&mut command);
        until(stage, || {
            names(&target)
                .first()
                .is_some_and(|d| target.join(d).join(reached).exists())
        });
        running.signal(Signal::INT);
        let ran = running.wait();
        assert_eq!(ran.code(), 130, "{}", ran.stderr);
        assert!(ran.stderr.contains("interrupted"), "{}", ran.stderr);
        assert_eq!(names(&target), Vec::<String>::new());
        if stage == "operations" {
            assert_eq!(ran.json()["interrupted"], true);
        }
    }
    // Killed, a shell beside it cleans up.
    let target = dir.join("killed");
    std::fs::create_dir(&target).unwrap();
    let mut command = fsage();
    command
        .current_dir(dir)
        .args(["replay", "t.fst", "killed", "--speed", "original"]);
    let running = start(&mut command);
    until("operations", || {
        names(&target)
            .first()
            .is_some_and(|d| target.join(d).join("first").exists())
    });
    running.signal(Signal::KILL);
    until("the directory to go", || names(&target).is_empty());
}

/// Whether a process has a file of that name open.
fn has_open(pid: u32, name: &str) -> bool {
    let fds = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .flatten();
    fds.filter_map(|fd| std::fs::read_link(fd.path()).ok())
        .any(|file| file.file_name().is_some_and(|n| n == name))
}

/// Whether a process has what a signal does in hand: until then the signal just ends it.
fn catches(pid: u32, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal.as_raw() - 1) & 1 == 1)
}

/// While it reads the trace for what was there at first: nothing is made.
#[test]
fn interrupted_while_it_reads_the_trace() {
    let dir = temp_in_memory();
    let dir = dir.path();
    std::fs::create_dir(dir.join("target")).unwrap();
    // A reading that is over before the signal comes was too short for this machine.
    for operations in [1_000_000, 3_000_000, 9_000_000] {
        let mut made = Made::new();
        for _ in 0..operations {
            made.op(OpKind::Stat, b"/w/a/file/far/down", -2);
        }
        made.save(&dir.join("long.fst"), true);
        let line = ["replay", "long.fst", "target", "--json"];
        let running = start(fsage().current_dir(dir).args(line));
        until("signals to be caught", || {
            catches(running.id(), Signal::INT)
        });
        running.signal(Signal::INT);
        let ran = running.wait().exits(130);
        assert!(ran.stderr.contains("fsage: interrupted"), "{}", ran.stderr);
        assert_eq!(names(&dir.join("target")), Vec::<String>::new());
        if ran.stdout.is_empty() {
            return;
        }
    }
    panic!("what was replayed is told: the reading was not cut short");
}

/// While it looks at the tree of the end: the replay is told, the comparison is not, nothing stays.
#[test]
fn interrupted_while_it_verifies() {
    let dir = temp_in_memory();
    let dir = dir.path();
    let mut made = Made::new();
    for n in 0..60_000 {
        made.op(OpKind::Mkdir, format!("/w/d{n}").as_bytes(), 0);
    }
    made.op(OpKind::Mkdir, b"/w/last", 0);
    made.save(&dir.join("wide.fst"), true);
    std::fs::create_dir(dir.join("target")).unwrap();
    let line = ["replay", "wide.fst", "target", "--verify", "--json"];
    let running = start(fsage().current_dir(dir).args(line));
    let inside = || {
        names(&dir.join("target"))
            .pop()
            .map(|d| dir.join("target").join(d))
    };
    until("the last operation", || {
        inside().is_some_and(|d| d.join("last").exists())
    });
    running.signal(Signal::INT);
    let ran = running.wait().exits(130);
    assert!(ran.stderr.contains("fsage: interrupted"), "{}", ran.stderr);
    let result = ran.json();
    assert_eq!(result["replayed"], 60_001, "{result}");
    assert_eq!(
        (&result["interrupted"], result["verified"].is_null()),
        (&true.into(), true)
    );
    assert_eq!(names(&dir.join("target")), Vec::<String>::new());
}

#[test]
fn holes_stay_holes() {
    use std::os::unix::fs::MetadataExt;
    if !root() {
        return;
    }
    let dir = temp();
    let dir = dir.path();
    let tree = dir.join("tree");
    std::fs::create_dir(&tree).unwrap();
    std::fs::File::create(tree.join("holes"))
        .unwrap()
        .set_len(8 << 20)
        .unwrap();
    run(dir, ["snapshot", "tree", "-o", "tree.fss"]).exits(0);
    run_command(fsage().current_dir(&tree).args([
        "trace", "--under", ".", "-o", "../t.fst", "--", "head", "-c", "100", "holes",
    ]))
    .exits(0);
    std::fs::create_dir(dir.join("out")).unwrap();
    run(
        dir,
        [
            "replay",
            "t.fst",
            "out",
            "--snapshot",
            "tree.fss",
            "--keep",
            "--verify",
        ],
    )
    .exits(0);
    let meta = only_entry(&dir.join("out"))
        .join("holes")
        .metadata()
        .unwrap();
    assert_eq!((meta.len(), meta.blocks()), (8 << 20, 0));
}

/// Bytes in regular files below a directory; what goes meanwhile counts nothing.
fn bytes_below(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let meta = entry.metadata().ok()?;
            let below = meta.is_dir().then(|| bytes_below(&entry.path()));
            Some(below.unwrap_or(meta.len()))
        })
        .sum()
}

#[test]
fn what_failed_then_has_no_effect_now() {
    const EBADF: i64 = -9;
    const ENOSPC: i64 = -28;
    const EACCES: i64 = -13;
    let dir = temp_in_memory();
    let dir = dir.path();
    let mut made = Made::new();
    made.create(b"/w/to", 4);
    // The other file of the copy was not open, and 2 GiB were asked for.
    for kind in [OpKind::CopyOut, OpKind::SpliceOut, OpKind::CopyIn] {
        let op = made.op(kind, b"", EBADF);
        (op.fd, op.length) = (Some(fsage_core::Fd(4)), Some(0x7fff_f000));
    }
    made.write(4, 0, 1 << 20, ENOSPC);
    for kind in [OpKind::Ftruncate, OpKind::Fallocate] {
        let op = made.op(kind, b"", ENOSPC);
        (op.fd, op.offset) = (Some(fsage_core::Fd(4)), Some(0));
        op.length = Some(1 << 30);
    }
    made.op(OpKind::Open, b"/w/not-made", EACCES).flags = 0o101;
    made.op(OpKind::Mkdir, b"/w/no-directory", EACCES);
    made.op(OpKind::Unlink, b"/w/to", EACCES);
    // Fails here as it did there.
    made.op(OpKind::Unlink, b"/w/missing", -2);
    made.op(OpKind::Stat, b"/w/to", 0);
    made.save(&dir.join("failed.fst"), true);
    std::fs::create_dir(dir.join("out")).unwrap();
    let line = [
        "replay",
        "failed.fst",
        "out",
        "--map",
        "/w=",
        "--keep",
        "--verify",
        "--json",
    ];
    let result = run(dir, line).exits(0).json();
    assert_eq!(result["skipped"]["failed_then"], 9, "{result}");
    assert_eq!(
        (&result["replayed"], &result["differ"]),
        (&3.into(), &0.into()),
        "{result}"
    );
    let kept = only_entry(&dir.join("out"));
    assert_eq!(names(&kept), ["to"]);
    assert_eq!(kept.join("to").metadata().unwrap().len(), 0);
    let text = run(dir, ["replay", "failed.fst", "out"]).exits(0).text();
    assert!(
        text.contains("9 failed in the trace and would not here"),
        "{text}"
    );
}

#[test]
fn a_long_write_is_cut_short() {
    let dir = temp_in_memory();
    let dir = dir.path();
    let most = (1 << 31) - 4096;
    let mut made = Made::new();
    made.create(b"/w/big", 3);
    for _ in 0..20 {
        made.write(3, 0, most, most as i64);
    }
    made.save(&dir.join("long.fst"), true);
    std::fs::create_dir(dir.join("out")).unwrap();
    let line = ["replay", "long.fst", "out", "--map", "/w=", "-o", "-"];
    let running = start(fsage().current_dir(dir).args(line));
    until("the write to begin", || {
        bytes_below(&dir.join("out")) > 1 << 20
    });
    running.signal(Signal::INT);
    let ran = running.wait().exits(130);
    let result = ran.json();
    assert_eq!(result["interrupted"], true, "{result}");
    assert!(result["replayed"].as_u64().unwrap() < 20, "{result}");
    assert_eq!(
        result["differ"], 0,
        "a write that was cut short is no result: {result}"
    );
    assert_eq!(names(&dir.join("out")), Vec::<String>::new());
}

#[test]
fn interrupted_on_a_scratch_file_system_it_takes_it_down_and_tells() {
    if !common::scratch() {
        return;
    }
    let dir = temp();
    let dir = dir.path();
    let mut made = Made::new();
    made.create(b"/w/open", 3);
    made.write(3, 0, 4096, 4096);
    // Read ahead of the hour in which nothing happens, and carried out never.
    let close = made.op(OpKind::Close, b"", 0);
    (close.fd, close.start_ns) = (Some(fsage_core::Fd(3)), 3_600_000_000_000);
    made.save(&dir.join("t.fst"), true);
    let line = [
        "replay",
        "t.fst",
        "scratch:ext4,size=64M",
        "--speed",
        "original",
        "--json",
    ];
    let running = start(fsage().current_dir(dir).args(line));
    until("the file to be open", || has_open(running.id(), "open"));
    running.signal(Signal::INT);
    let ran = running.wait();
    assert_eq!(ran.code(), 130, "{}", ran.stderr);
    let result = ran.json();
    assert_eq!(result["interrupted"], true, "{result}");
    assert!(!ran.stderr.contains("unmount"), "{}", ran.stderr);
    assert!(
        !result["warnings"].to_string().contains("unmount"),
        "{result}"
    );
}

#[test]
fn the_state_of_the_caches_is_reported() {
    let dir = temp_in_memory();
    let dir = dir.path();
    let mut made = Made::new();
    made.op(OpKind::Stat, b"/w/file", 0).size_bytes = Some(100_000);
    made.save(&dir.join("s.fst"), true);
    let line = ["replay", "s.fst", ".", "--map", "/w="];
    let warm = run(dir, line).exits(0).text();
    assert!(
        warm.contains("caches: warm, as making that tree left them"),
        "{warm}"
    );
    if rustix::fs::statfs(dir).unwrap().f_type == 0x0102_1994 {
        run(dir, line.into_iter().chain(["--cold"])).fails(1, &["caches", "cold"]);
        assert_eq!(names(dir), ["s.fst"]);
    }
    if !scratch() {
        return;
    }
    let line = [
        "replay",
        "s.fst",
        "scratch:ext4,size=64M",
        "--map",
        "/w=",
        "--cold",
        "--json",
    ];
    let result = run(dir, line).exits(0).json();
    assert_eq!(result["caches"], "cold", "{result}");
    assert!(
        result["made_cold"].as_str().unwrap().contains("everything"),
        "{result}"
    );
}

/// Two files of one name, as a directory was renamed in between: by names that start from where a process is.
#[test]
fn a_renamed_directory_is_followed() {
    const SCRIPT: &str = "mkdir d d/sub; cd d/sub; mv ../../d ../../e; echo x > n1; mkdir ../../d ../../d/sub; \
        echo y > ../../d/sub/n1; echo zz >> n1; chmod 600 n1; rm -r ../../d; echo more >> n1";
    for method in ["auto", "ptrace"] {
        let dir = temp();
        let (tree, out) = (dir.path().join("tree"), dir.path().join("out"));
        std::fs::create_dir(&tree).unwrap();
        std::fs::create_dir(&out).unwrap();
        let line = [
            "trace", "--method", method, "--under", ".", "-o", "../t.fst", "--", "sh", "-c", SCRIPT,
        ];
        run(&tree, line).exits(0);
        let line = ["replay", "t.fst", "out", "--verify", "--keep", "--json"];
        let result = run(dir.path(), line).exits(0).json();
        assert_eq!(result["differ"], 0, "{method} {result}");
        assert_eq!(listing(&tree), listing(&only_entry(&out)), "{method}");
    }
}

/// A trace that does not tell the directory of each name, and attributes of what has another name by now.
#[test]
fn a_renamed_directory_is_followed_without_being_told() {
    let dir = temp_in_memory();
    let dir = dir.path();
    let mut made = Made::new();
    made.op(OpKind::Mkdir, b"/w/d", 0).flags = 0o755;
    made.create(b"/w/d/f", 3);
    made.op(OpKind::Chdir, b"/w/d", 0);
    let to = made.paths.intern(b"/w/e");
    made.op(OpKind::Rename, b"/w/d", 0).path2 = to;
    let op = made.op(OpKind::Fchmod, b"", 0);
    (op.fd, op.flags) = (Some(fsage_core::Fd(3)), 0o600);
    made.op(OpKind::Stat, b"f", 0);
    made.op(OpKind::Unlink, b"f", 0);
    made.save(&dir.join("t.fst"), true);
    std::fs::create_dir(dir.join("out")).unwrap();
    let result = run(dir, ["replay", "t.fst", "out", "--verify", "--json"]);
    let result = result.exits(0).json();
    assert_eq!(result["replayed"], 7, "{result}");
}

/// Special files, what a rename leaves behind, and ranges cut out of files: no target has a call for them.
#[test]
fn what_no_target_can_do_is_not_called_verified() {
    type Case<'a> = (&'static str, &'a dyn Fn(&mut Made));
    const KEEP_SIZE: u32 = 1;
    const COLLAPSE_RANGE: u32 = 8;
    const FIFO: u32 = 0o010_600;
    const WHITEOUT: u32 = 4;
    let dir = temp_in_memory();
    let dir = dir.path();
    std::fs::create_dir(dir.join("out")).unwrap();
    let line = ["replay", "t.fst", "out", "--verify", "--json"];
    let fallocate = |made: &mut Made, flags: u32| {
        let op = made.op(OpKind::Fallocate, b"", 0);
        (op.fd, op.flags) = (Some(fsage_core::Fd(3)), flags);
        (op.offset, op.length) = (Some(0), Some(4096));
    };
    let cases: [Case<'_>; 4] = [
        ("", &|made| fallocate(made, KEEP_SIZE)),
        ("fallocate", &|made| fallocate(made, COLLAPSE_RANGE)),
        ("mknod", &|made| {
            made.op(OpKind::Mknod, b"/w/p", 0).flags = FIFO;
        }),
        ("rename", &|made| {
            let to = made.paths.intern(b"/w/g");
            let op = made.op(OpKind::Rename, b"/w/f", 0);
            (op.path2, op.flags) = (to, WHITEOUT);
        }),
    ];
    for (kind, case) in cases {
        let mut made = Made::new();
        made.create(b"/w/f", 3);
        made.write(3, 0, 8192, 8192);
        case(&mut made);
        made.save(&dir.join("t.fst"), true);
        let ran = run(dir, line).exits(if kind.is_empty() { 0 } else { 3 });
        let verified = ran.json()["verified"].clone();
        assert_eq!(verified["wrong"], 0, "{verified}");
        let not: Vec<_> = verified["not_verified"]
            .as_object()
            .unwrap()
            .iter()
            .collect();
        match not[..] {
            [] => assert_eq!(kind, ""),
            [(name, count)] => assert_eq!((name.as_str(), count.as_u64()), (kind, Some(1))),
            _ => panic!("{verified}"),
        }
        if !kind.is_empty() {
            let said = run(dir, ["replay", "t.fst", "out", "--verify"])
                .exits(3)
                .text();
            let said = said.replace("\n  ", " ");
            assert!(
                said.contains("not verified: what 1 operation changed"),
                "{said}"
            );
        }
    }
}

#[test]
fn a_trace_of_more_open_files_than_are_allowed_says_so() {
    let dir = temp_in_memory();
    let dir = dir.path();
    std::fs::create_dir(dir.join("out")).unwrap();
    let mut made = Made::new();
    for n in 0..100 {
        made.create(format!("/w/{n}").as_bytes(), 3 + n);
    }
    made.save(&dir.join("t.fst"), true);
    let mut limited = std::process::Command::new("sh");
    let script = r#"ulimit -n 60; exec "$0" "$@""#;
    let fsage = env!("CARGO_BIN_EXE_fsage");
    limited.args(["-c", script, fsage, "replay", "t.fst", "out"]);
    let said = run_command(limited.current_dir(dir)).exits(3).text();
    let said = said.replace("\n  ", " ");
    assert!(
        said.contains("operations failed with EMFILE") && said.contains("ulimit -Hn"),
        "{said}"
    );
}

/// A descriptor that came over a socket, by `pidfd_getfd` or the like: the trace tells which file it is.
#[test]
fn a_descriptor_from_nowhere_is_of_the_file_that_it_is_said_to_be_of() {
    let dir = temp_in_memory();
    let dir = dir.path();
    let id = |ino| fsage_core::FileId {
        dev: fsage_core::DevId(7),
        ino,
        generation: 0,
    };
    let mut made = Made::new();
    made.create(b"/w/f", 3);
    made.op(OpKind::Open, b"/w/g", 4).flags = 0o101;
    for (at, ino) in [(0, 1), (1, 2)] {
        made.ops[at].file = Some(id(ino));
    }
    let to = made.paths.intern(b"/w/h");
    made.op(OpKind::Rename, b"/w/f", 0).path2 = to;
    made.op(OpKind::Unlink, b"/w/g", 0);
    for (fd, ino) in [(5, 1), (6, 2)] {
        made.write(fd, 0, 5, 5);
        made.ops.last_mut().unwrap().file = Some(id(ino));
    }
    // By a handle: a file and no name.
    let op = made.op(OpKind::Open, b"", 8);
    (op.file, op.flags) = (Some(id(1)), 2);
    made.write(8, 5, 3, 3);
    // It is open on nothing.
    made.write(9, 0, 5, -9);
    made.save(&dir.join("t.fst"), true);
    std::fs::create_dir(dir.join("out")).unwrap();
    let line = ["replay", "t.fst", "out", "--verify", "--keep", "--json"];
    let result = run(dir, line).exits(0).json();
    assert_eq!(result["replayed"], 8, "{result}");
    let kept = only_entry(&dir.join("out"));
    assert_eq!(kept.join("h").metadata().unwrap().len(), 8);

    // Which file it is nobody knows.
    made.write(7, 0, 5, 5);
    made.save(&dir.join("t.fst"), true);
    let said = run(dir, ["replay", "t.fst", "out", "--verify"]).exits(3);
    let (text, error) = (said.text(), &said.stderr);
    assert!(text.contains("without what 1 changes"), "{text}");
    assert!(error.contains("the trace does not tell"), "{error}");
    run(dir, ["replay", "t.fst", "out"]).exits(0);
}

#[test]
fn an_empty_path_is_none() {
    const SCRIPT: &str =
        "stat ''; touch ''; rm ''; mv '' x; ln '' y; ln -s '' z; chmod 700 ''; true";
    let dir = temp();
    let tree = dir.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    let line = [
        "trace", "--under", ".", "-o", "../t.fst", "--", "sh", "-c", SCRIPT,
    ];
    run(&tree, line).exits(0);
    std::fs::create_dir(dir.path().join("out")).unwrap();
    let line = ["replay", "t.fst", "out", "--verify", "--json"];
    let result = run(dir.path(), line).exits(0).json();
    assert_eq!(result["differ"], 0, "{result}");
}

/// `fcntl(F_SETFL)` after the open, and memory that ends within a `writev`.
#[test]
fn writes_go_where_they_went_and_no_further() {
    let dir = temp_in_memory();
    let dir = dir.path();
    let mut made = Made::new();
    made.create(b"/w/f", 3);
    made.write(3, 0, 7, 7);
    made.create(b"/w/seek", 4);
    made.write(4, 0, 7, 7);
    let seek = made.op(OpKind::Seek, b"", 0);
    (seek.fd, seek.offset) = (Some(fsage_core::Fd(4)), Some(0));
    made.write(4, 7, 3, 3);
    let op = made.ops.last_mut().unwrap();
    op.record = fsage_core::OpFlags::APPEND | fsage_core::OpFlags::IMPLICIT_OFFSET;
    made.write(4, 10, 2, 2);
    made.ops.last_mut().unwrap().record = fsage_core::OpFlags::IMPLICIT_OFFSET;
    made.write(3, 7, 8, 3);
    made.save(&dir.join("t.fst"), true);
    std::fs::create_dir(dir.join("out")).unwrap();
    let line = ["replay", "t.fst", "out", "--verify", "--keep", "--json"];
    run(dir, line).exits(0);
    let kept = only_entry(&dir.join("out"));
    for (name, bytes) in [("f", 10), ("seek", 12)] {
        assert_eq!(kept.join(name).metadata().unwrap().len(), bytes, "{name}");
    }
}

#[test]
fn what_the_trace_adds_has_room_or_nothing_is_made() {
    let dir = temp();
    let dir = dir.path();
    std::fs::create_dir(dir.join("out")).unwrap();
    let mut made = Made::new();
    made.create(b"/w/big", 3);
    let op = made.op(OpKind::Fallocate, b"", 0);
    (op.fd, op.offset, op.length) = (Some(fsage_core::Fd(3)), Some(0), Some(1 << 60));
    made.save(&dir.join("big.fst"), true);
    run(dir, ["replay", "big.fst", "out"]).fails(1, &["1152921504606846976 bytes", "available"]);
    assert!(names(&dir.join("out")).is_empty());
    // What goes again is not added up, and a hole takes nothing.
    let mut made = Made::new();
    made.create(b"/w/f", 3);
    let fd = Some(fsage_core::Fd(3));
    for _ in 0..50 {
        let op = made.op(OpKind::Ftruncate, b"", 0);
        (op.fd, op.length) = (fd, Some(1 << 40));
        made.write(3, 1 << 40, 1 << 58, -27);
        made.write(3, 0, 4096, 4096);
        let op = made.op(OpKind::Ftruncate, b"", 0);
        (op.fd, op.length) = (fd, Some(0));
    }
    made.save(&dir.join("small.fst"), true);
    run(dir, ["replay", "small.fst", "out", "--verify"]).exits(0);
}

#[test]
fn a_start_of_many_small_files_has_room_or_nothing_is_made() {
    if !rustix::process::geteuid().is_root() {
        fsage_testing::not_run("needs root: a file system of 200 KiB");
        return;
    }
    let dir = temp();
    let mut made = Made::new();
    for n in 0..60 {
        made.op(OpKind::Stat, format!("/w/f{n}").as_bytes(), 0)
            .size_bytes = Some(100);
    }
    made.save(&dir.path().join("many.fst"), true);
    let small = dir.path().join("small");
    std::fs::create_dir(&small).unwrap();
    for (size, words) in [("size=200k", "bytes"), ("size=2m,nr_inodes=20", "files")] {
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", size, "none"])
            .arg(&small)
            .status();
        assert!(mounted.unwrap().success());
        let ran = run(dir.path(), ["replay", "many.fst", "small"]);
        let left = names(&small);
        let gone = std::process::Command::new("umount").arg(&small).status();
        assert!(gone.unwrap().success());
        ran.fails(1, &["make the initial tree", words, "the target has"]);
        assert!(left.is_empty(), "{left:?}");
    }
}

/// Threads overlap: the number that one's close frees is given to another by an open that began before it, or that
/// ends before it does.
#[test]
fn a_number_is_of_the_file_that_it_was_when_the_call_began() {
    use OpKind::{Close, Open, Write};
    let dir = temp_in_memory();
    let dir = dir.path();
    let mut made = Made::new();
    for (kind, thread, start_ns, end_ns, path) in [
        (Open, 1, 0, 5, &b"/w/one"[..]),
        (Open, 2, 10, 50, b"/w/two"),
        (Write, 1, 15, 18, b""),
        (Close, 1, 20, 60, b""),
        (Write, 2, 55, 58, b""),
        (Write, 2, 65, 68, b""),
        (Close, 2, 70, 190, b""),
        (Open, 1, 80, 90, b"/w/three"),
        (Write, 1, 95, 98, b""),
        (Write, 1, 195, 198, b""),
        (Write, 1, 200, 203, b""),
    ] {
        let op = made.op(kind, path, if kind == Write { 100 } else { 0 });
        (op.tid, op.start_ns, op.latency_ns) = (Tid(thread), start_ns, Some(end_ns - start_ns));
        if kind == Open {
            (op.flags, op.result) = (0o1101, Outcome::ok(3));
        } else {
            (op.fd, op.length) = (Some(fsage_core::Fd(3)), Some(100));
        }
    }
    made.save(&dir.join("t.fst"), true);
    for order in ["process", "file", "strict"] {
        let out = dir.join(order);
        std::fs::create_dir(&out).unwrap();
        let line = [
            "replay", "t.fst", order, "--order", order, "--verify", "--keep", "--json",
        ];
        let result = run(dir, line).exits(0).json();
        assert_eq!(result["replayed"], 11, "{result}");
        assert_eq!(
            listing(&only_entry(&out)),
            ["one 100 ", "three 300 ", "two 200 "]
        );
    }
}

/// Eight threads that open, write and close, and hand on what they have open.
const THREADS: &str = r#"
    #include <fcntl.h>
    #include <pthread.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <unistd.h>
    static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
    static int handed = -1;
    static int exchange(int fd) {
        pthread_mutex_lock(&held);
        int other = handed;
        handed = fd;
        pthread_mutex_unlock(&held);
        return other;
    }
    static void *work(void *number) {
        char name[64], bytes[300] = {0};
        for (int i = 0; i < 250; i++) {
            snprintf(name, sizeof name, "f%ld-%d", (long)number, i);
            int fd = open(name, O_CREAT | O_EXCL | O_WRONLY, 0644);
            for (int k = 0; k < 1 + i % 5; k++)
                if (write(fd, bytes, 1 + i) != 1 + i) abort();
            if (i % 3 == 0) fd = exchange(fd);
            if (fd >= 0 && write(fd, bytes, 7) != 7) abort();
            if (fd >= 0) close(fd);
        }
        return 0;
    }
    int main(void) {
        pthread_t threads[8];
        for (long i = 0; i < 8; i++) pthread_create(&threads[i], 0, work, (void *)i);
        for (int i = 0; i < 8; i++) pthread_join(threads[i], 0);
        return 0;
    }"#;

/// Threads that open, write and close at once and hand on what they have open: of each call it is told to which
/// file it went, by prediction and replay.
#[test]
fn of_threads_at_once_every_call_is_of_its_file() {
    let dir = temp_in_memory();
    let dir = dir.path();
    if !tool("cc") {
        return;
    }
    std::fs::write(dir.join("p.c"), THREADS).unwrap();
    let mut cc = std::process::Command::new("cc");
    let built = cc.args(["-pthread", "p.c", "-o", "p"]).current_dir(dir);
    assert!(built.status().unwrap().success());
    let profile = common::profile("ext4").display().to_string();
    for method in ["auto", "ptrace"] {
        let tree = dir.join(method);
        std::fs::create_dir(&tree).unwrap();
        let line = [
            "trace", "--method", method, "--under", ".", "-o", "../t.fst", "--", "../p",
        ];
        run(&tree, line).exits(0);
        let predicted = run(dir, ["predict", "t.fst", "--on", &profile, "--json"]);
        let predicted = predicted.exits(0).json();
        let kinds = predicted["targets"][0]["kinds"].as_array().unwrap();
        for (kind, count) in common::mix(&dir.join("t.fst")) {
            let row = kinds.iter().find(|row| row["kind"] == kind.as_str());
            if ["open", "write", "close"].contains(&kind.as_str()) {
                assert_eq!(row.unwrap()["operations"], count, "{method}: {kind}");
            }
        }
        let warnings = predicted["warnings"].to_string();
        assert!(!warnings.contains("descriptors"), "{warnings}");
        let out = dir.join("out");
        std::fs::create_dir(&out).unwrap();
        let line = ["replay", "t.fst", "out", "--verify", "--keep", "--json"];
        let result = run(dir, line).exits(0).json();
        assert_eq!(result["verified"]["wrong"], 0, "{method}: {result}");
        assert!(
            result["skipped"]["unknown_descriptor"].is_null(),
            "{result}"
        );
        assert_eq!(listing(&only_entry(&out)), listing(&tree), "{method}");
        std::fs::remove_dir_all(&out).unwrap();
    }
}
