//! The formats of HBench-FS: layout as a C compiler makes it, round trips, damage.
#![allow(clippy::unwrap_used, reason = "a test that fails says so")]

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use fsage_core::{
    COPY_SHARES, DevId, Errno, FileId, FileType, Op, OpFlags, OpKind, OpSink, OpSource, Outcome,
    PathTable, Pid, RWF_APPEND, RWF_DSYNC, Tid,
};
use fsage_format::foreign::hbench::{HbenchSink, HbenchSource, record, snapshot};
use proptest::prelude::*;
use record::{flag, op_type as t};

/// Figure A.1 in C, with the structure's own names.
const HEADER: &str = r"
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>
#define NSUBOP 19
typedef struct { ino_t inum; u_int filenamelen; char *filename; ino_t dirinum; u_int dirnamelen;
    char *dirname; } file_t;
typedef struct { off_t filesize; off_t offset; u_int count; } io_t;
typedef struct { u_int mode; u_long uid; u_long gid; u_long size; time_t atime; time_t mtime; } attr_t;
typedef struct {
    u_int op_type; u_int op_flags; time_t op_time_sec; u_int op_time_nsec; pid_t op_pid;
    u_long op_client; u_int op_packsize; u_int op_open_flags; u_int op_class; file_t op_target;
    union { io_t op_un_io; attr_t op_un_attr; file_t op_un_file2; } op_un;
    u_int op_linklen; char *op_linkdata; u_int subop[NSUBOP]; int relation; double op_latency;
    double op_latency_real; double op_dsched; double op_sleep_time;
} fsop_t;
";

#[test]
fn the_layout_is_the_c_compilers() {
    if !cfg!(all(target_pointer_width = "64", target_endian = "little")) {
        fsage_testing::not_run("needs an LP64 little-endian machine");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut source = HEADER.to_owned();
    source.push_str("int main(void) { printf(\"size %zu\\n\", sizeof(fsop_t));\n");
    for (field, _) in record::LAYOUT {
        let _ = writeln!(
            source,
            "printf(\"{field} %zu\\n\", offsetof(fsop_t, {field}));"
        );
    }
    source.push_str("return 0; }\n");
    std::fs::write(dir.path().join("layout.c"), source).unwrap();
    let built = Command::new("cc")
        .args(["layout.c", "-o", "layout"])
        .current_dir(dir.path())
        .output();
    let Ok(built) = built else {
        fsage_testing::not_run("needs cc");
        return;
    };
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    let printed = Command::new(dir.path().join("layout"))
        .output()
        .unwrap()
        .stdout;
    let mut expected = format!("size {}\n", record::RECORD_BYTES);
    for (field, offset) in record::LAYOUT {
        let _ = writeln!(expected, "{field} {offset}");
    }
    assert_eq!(String::from_utf8(printed).unwrap(), expected);
}

#[allow(clippy::too_many_lines, reason = "one operation of each shape")]
fn stream() -> (Vec<Op>, PathTable) {
    let mut paths = PathTable::new();
    let mut ops = Vec::new();
    let new = |kind, at: u64| Op {
        latency_ns: Some(1500 * (at + 1)),
        ..Op::new(kind, Pid(5), Tid(5), at * 1_000_000)
    };
    let file = |ino| {
        Some(FileId {
            dev: DevId(0),
            ino,
            generation: 0,
        })
    };
    let mut name = |op: Op, dir: Option<&[u8]>, path: &[u8], path2: Option<&[u8]>| Op {
        dir: dir.and_then(|dir| paths.intern(dir)),
        path: paths.intern(path),
        path2: path2.and_then(|path| paths.intern(path)),
        ..op
    };
    let open = Op {
        flags: 0o1101,
        file: file(9),
        size_bytes: None,
        ..new(OpKind::Open, 0)
    };
    ops.push(name(open, Some(b"/w"), b"sub/new file", None));
    ops.push(Op {
        file: file(9),
        offset: Some(0),
        length: Some(5000),
        result: Outcome::ok(5000),
        size_bytes: Some(0),
        ..new(OpKind::Write, 1)
    });
    ops.push(Op {
        file: file(9),
        offset: Some(1 << 33),
        length: Some(700),
        result: Outcome::ok(700),
        size_bytes: Some(5000),
        ..new(OpKind::Read, 2)
    });
    ops.push(Op {
        file: file(9),
        ..new(OpKind::Close, 3)
    });
    ops.push(name(
        Op {
            file: file(9),
            size_bytes: None,
            ..new(OpKind::Stat, 4)
        },
        None,
        b"/w/sub/new file",
        None,
    ));
    let missing = Op {
        result: Outcome::err(Errno::ENOENT),
        ..new(OpKind::Stat, 5)
    };
    ops.push(name(missing, None, b"/no/such", None));
    let denied = Op {
        result: Outcome::err(Errno::EACCES),
        ..new(OpKind::Unlink, 6)
    };
    ops.push(name(denied, Some(b"/w"), b"x", None));
    ops.push(name(
        Op {
            file: file(9),
            ..new(OpKind::Rename, 7)
        },
        Some(b"/w"),
        b"a/b",
        Some(b"c/d/e"),
    ));
    ops.push(name(
        new(OpKind::Symlink, 8),
        Some(b"/w"),
        b"l",
        Some(b"../t\xff"),
    ));
    ops.push(name(
        Op {
            flags: 0o640,
            ..new(OpKind::Chmod, 9)
        },
        None,
        b"/w/q",
        None,
    ));
    ops.push(name(
        Op {
            offset: Some(1),
            length: Some(2),
            ..new(OpKind::Chown, 10)
        },
        None,
        b"/w/q",
        None,
    ));
    ops.push(name(
        Op {
            length: Some(10),
            size_bytes: Some(99),
            ..new(OpKind::Truncate, 11)
        },
        None,
        b"/w/q",
        None,
    ));
    let rm = Op {
        file: file(9),
        size_bytes: Some(5000),
        ..new(OpKind::Unlink, 12)
    };
    ops.push(name(rm, Some(b"/w"), b"./sub/f", None));
    ops.push(name(
        Op {
            record: OpFlags::DIRECTORY,
            ..new(OpKind::Mkdir, 13)
        },
        Some(b"/w"),
        b"dir",
        None,
    ));
    (ops, paths)
}

fn export(ops: &[Op], paths: &PathTable) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut sink = HbenchSink::new(&mut bytes, Path::new("x.hb"), 1_000_000_000_000);
    for op in ops {
        sink.push(op, paths).unwrap();
    }
    assert!(sink.finish().unwrap().is_empty());
    bytes
}

fn import(bytes: &[u8]) -> Result<(Vec<Op>, PathTable), fsage_core::SourceError> {
    let mut source = HbenchSource::new(bytes, Path::new("x.hb"));
    let mut ops = Vec::new();
    while source.next_batch(&mut ops)? > 0 {}
    Ok((ops, source.paths().clone()))
}

#[test]
fn operations_survive_both_ways() {
    let (ops, paths) = stream();
    let (again, other) = import(&export(&ops, &paths)).unwrap();
    assert_eq!(ops.len(), again.len());
    let text =
        |id: Option<fsage_core::PathId>, paths: &PathTable| id.map(|id| paths.get(id).to_vec());
    for (a, b) in ops.iter().zip(&again) {
        for (x, y) in [(a.path, b.path), (a.path2, b.path2), (a.dir, b.dir)] {
            assert_eq!(text(x, &paths), text(y, &other), "{a:?}\n{b:?}");
        }
        let keep = |op: &Op| {
            (
                op.kind,
                op.start_ns,
                op.latency_ns,
                op.pid,
                op.result,
                op.file,
                op.offset,
                op.length,
            )
        };
        assert_eq!(keep(a), keep(b));
        assert_eq!(a.flags, b.flags, "{:?}", a.kind);
        if matches!(
            a.kind,
            OpKind::Read | OpKind::Write | OpKind::Truncate | OpKind::Unlink
        ) {
            let failed = !a.result.is_ok();
            assert!(failed || a.size_bytes == b.size_bytes, "{a:?}\n{b:?}");
        }
    }
}

#[test]
fn paths_become_chains_as_the_thesis_says() {
    let (ops, paths) = stream();
    let bytes = export(&ops[..1], &paths);
    let mut input = &bytes[..];
    let mut records = Vec::new();
    while let Ok(Some((record, _))) = record::HbRecord::read(&mut input) {
        records.push(record);
    }
    let types: Vec<u32> = records.iter().map(|r| r.op_type).collect();
    assert_eq!(types, [t::LOOKUP, t::LOOKUP, t::TRUNCATE, t::CREATE]);
    for (index, record) in records.iter().enumerate() {
        let last = index == 3;
        assert_eq!(record.op_flags & flag::CHAIN != 0, !last);
        assert_eq!(record.op_flags & flag::CHAIN_END != 0, last);
        assert_eq!((record.time_sec, record.time_nsec), (1000, 0));
    }
    assert_eq!(records[1].target.filename, b"new file");
    assert_eq!(records[1].target.dirname, b"/w/sub");
}

#[test]
fn damage_is_named_by_record_and_byte() {
    let (ops, paths) = stream();
    let bytes = export(&ops, &paths);
    let error = import(&bytes[..bytes.len() - 1]).unwrap_err().to_string();
    assert!(
        error.contains("x.hb: record ") && error.contains("at byte"),
        "{error}"
    );
    let error = import(b"this is a text file\n").unwrap_err().to_string();
    assert!(
        error.contains("record 1 at byte 20: the file ends"),
        "{error}"
    );
    let error = import(&[b'x'; 300]).unwrap_err().to_string();
    assert!(error.contains("record 1 at byte 0: op_type is"), "{error}");
    assert_eq!(import(b"").unwrap().0.len(), 0);
}

/// Figure A.3 of the thesis.
const SAMPLE: &str = "./ 2 512
21376 1 512 src
32064 1 512 lib
42752 1 512 include
10688 1 512 bin
~~
./src/
21386 0 3196 trim.c
21385 0 1958 total_time.c
21384 0 907 summary.c
21380 0 445 print_trace.c
21378 0 19124 logparse.c
21377 2 10 include ../include
53440 1 512 RCS
21388 0 1166 Makefile
~~
./src/RCS/
53446 0 4626 trim.c,v
53447 0 1056 summary.c,v
53443 0 669 print_trace.c,v
53445 0 23779 logparse.c,v
53441 0 547 Makefile,v
~~
./lib/
32065 0 26152 libfssim.a
~~
./include/
42753 0 7502 trace.h
~~
./bin/
10697 0 31288 trim
10696 0 29196 total_time
10689 0 51712 timing
10695 0 28420 summary
10690 0 161918 simulator
10694 0 28114 print_trace
10693 0 54927 logparse
10692 0 83295 computeRelation
10691 0 83236 computeInodes
";

fn snapshot_of(
    text: &[u8],
) -> Result<Vec<fsage_format::snapshot::SnapshotEntry>, fsage_format::FormatError> {
    let mut entries = Vec::new();
    snapshot::read(text, Path::new("s.txt"), |entry| {
        entries.push(entry);
        Ok(())
    })?;
    Ok(entries)
}

#[test]
fn the_sample_snapshot_is_read_and_written() {
    let entries = snapshot_of(SAMPLE.as_bytes()).unwrap();
    assert_eq!(entries.len(), 29);
    let root = &entries[0];
    assert_eq!((root.path.len(), root.ino, root.size_bytes), (0, 2, 512));
    let find = |path: &[u8]| entries.iter().find(|e| e.path == path).unwrap();
    let link = find(b"src/include");
    assert_eq!(link.file_type, FileType::Symlink);
    assert_eq!(link.link_target.as_deref(), Some(&b"../include"[..]));
    assert_eq!(find(b"src/RCS/trim.c,v").ino, 53446);
    assert_eq!(find(b"bin/simulator").size_bytes, 161_918);
    let bytes: u64 = entries
        .iter()
        .filter(|e| e.file_type == FileType::Regular)
        .map(|e| e.size_bytes)
        .sum();
    assert_eq!(bytes, 643_233);

    let mut text = snapshot::SnapshotText::new();
    for entry in &entries {
        text.push(entry, Path::new("out")).unwrap();
    }
    let mut written = Vec::new();
    assert_eq!(text.write(&mut written, Path::new("out")).unwrap(), 0);
    let mut again = snapshot_of(&written).unwrap();
    let mut entries = entries;
    again.sort_by(|a, b| a.path.cmp(&b.path));
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    assert_eq!(again, entries);
}

#[test]
fn names_that_the_snapshot_text_cannot_hold_are_refused() {
    let mut entry = snapshot_of(SAMPLE.as_bytes()).unwrap().pop().unwrap();
    for name in [&b"a b"[..], b"a\nb"] {
        entry.path = name.to_vec();
        let error = snapshot::SnapshotText::new()
            .push(&entry, Path::new("o"))
            .unwrap_err();
        assert!(error.to_string().contains("cannot hold"), "{error}");
    }
    for (text, said) in [
        ("", "line 1: an empty file"),
        ("./ 2\n", "line 1: expected `NAME INUM SIZE`"),
        (
            "./ 2 512\n1 0 5 a b\n",
            "line 2: expected `INUM TYPE SIZE NAME [LINK]`",
        ),
        ("./ 2 512\n1 7 5 a\n", "line 2: expected"),
        ("./ 2 512\n~~\nelsewhere/\n", "line 3: expected the path"),
        ("./ 2 512\n1 0 5 ../../etc/x\n", "line 2: expected"),
    ] {
        let error = snapshot_of(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn mutated_traces_never_panic(edits in prop::collection::vec((any::<usize>(), any::<u8>(), 0u8..4), 1..10)) {
        let (ops, paths) = stream();
        let mut bytes = export(&ops, &paths);
        for (at, byte, action) in edits {
            let at = at % bytes.len().max(1);
            match action {
                0 | 1 => if let Some(slot) = bytes.get_mut(at) { *slot = byte },
                2 => bytes.insert(at, byte),
                _ => bytes.truncate(at),
            }
        }
        if let Err(error) = import(&bytes) {
            prop_assert!(error.to_string().contains("x.hb: record"));
        }
    }

    #[test]
    fn mutated_snapshots_never_panic(edits in prop::collection::vec((any::<usize>(), any::<u8>(), 0u8..3), 1..10)) {
        let mut bytes = SAMPLE.as_bytes().to_vec();
        for (at, byte, action) in edits {
            let at = at % bytes.len().max(1);
            match action {
                0 => if let Some(slot) = bytes.get_mut(at) { *slot = byte },
                1 => bytes.insert(at, byte),
                _ => bytes.truncate(at),
            }
        }
        if let Err(error) = snapshot_of(&bytes) {
            prop_assert!(error.to_string().contains("s.txt: line"));
        }
    }
}

/// A record has no place for flags: a plain write in its stead would be another operation.
#[test]
fn what_flags_make_another_operation_is_left_out_by_name() {
    let file = FileId {
        dev: DevId(0),
        ino: 7,
        generation: 0,
    };
    let ops = [
        (OpKind::Write, 0),
        (OpKind::Write, RWF_APPEND),
        (OpKind::Write, RWF_DSYNC),
        (OpKind::CopyIn, COPY_SHARES),
        (OpKind::CopyOut, COPY_SHARES),
        (OpKind::CopyIn, 0),
        (OpKind::CopyOut, 0),
    ];
    let mut records = Vec::new();
    let mut sink = HbenchSink::new(&mut records, Path::new("out"), 0);
    for (at, (kind, flags)) in (0..).zip(ops) {
        let mut op = Op::new(kind, Pid(1), Tid(1), at);
        (op.file, op.flags) = (Some(file), flags);
        (op.offset, op.length, op.result) = (Some(0), Some(9), Outcome::ok(9));
        sink.push(&op, &PathTable::new()).unwrap();
    }
    let left_out: Vec<_> = sink.finish().unwrap().into_iter().collect();
    assert_eq!(
        left_out,
        [
            ("copy that shares blocks", 2),
            ("write with RWF_DSYNC or RWF_SYNC", 1)
        ]
    );
    assert_eq!(records.len(), 4 * record::RECORD_BYTES);
}
