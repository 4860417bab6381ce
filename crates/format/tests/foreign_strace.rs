//! The installed strace on real programs, imported, exported and imported again.
#![allow(clippy::unwrap_used, reason = "a test that fails says so")]

use std::fs;
use std::path::Path;
use std::process::Command;

use fsage_core::{Op, OpFlags, OpKind, OpSink, OpSource, PathTable};
use fsage_format::foreign::strace::{StraceReport, StraceSink, StraceSource};

fn import(text: &[u8]) -> (Vec<Op>, PathTable, StraceReport) {
    let mut source = StraceSource::new(text, Path::new("text"));
    let mut ops = Vec::new();
    while source.read_ops(&mut ops).unwrap() > 0 {}
    (ops, source.paths().clone(), source.report().clone())
}

/// Runs a shell script under strace in `dir`; `None` where ptrace is not allowed.
fn strace(dir: &Path, options: &[&str], script: &str) -> Option<Vec<u8>> {
    let out = dir.join("out.strace");
    let output = Command::new("strace")
        .args(options)
        .arg("-o")
        .arg(&out)
        .args(["sh", "-c", script])
        .current_dir(dir)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if errors.contains("PTRACE") && errors.contains("not permitted") {
        fsage_testing::not_run("needs the right to trace processes");
        return None;
    }
    assert!(output.status.success(), "{errors}");
    Some(fs::read(out).unwrap())
}

fn tree(dir: &Path) {
    for sub in 0..4 {
        let sub = dir.join(format!("src/d{sub}"));
        fs::create_dir_all(&sub).unwrap();
        for file in 0..5usize {
            fs::write(
                sub.join(format!("f {file}.txt")),
                vec![b'x'; 1000 * file + 3],
            )
            .unwrap();
        }
    }
}

const SCRIPT: &str = "tar cf t.tar src && find src -name '*.txt' | wc -l > n && cp -r src copy && \
    cat copy/d0/*.txt > all && mv all every && rm -r copy && ls -l src > /dev/null";

#[test]
fn real_programs_import_whole() {
    if !fsage_testing::tool("strace") {
        return;
    }
    for options in [&["-f", "-ttt", "-T", "-y"][..], &["-f", "-ttt", "-T"]] {
        let dir = tempfile::tempdir().unwrap();
        tree(dir.path());
        let Some(text) = strace(dir.path(), options, SCRIPT) else {
            return;
        };
        let (ops, paths, report) = import(&text);
        assert_eq!(report.skipped_lines, 0, "{:?}", report.first_skipped);
        assert_eq!(report.operations, ops.len() as u64);
        assert!(
            ops.windows(2)
                .all(|pair| pair[0].start_ns <= pair[1].start_ns)
        );
        let count = |kind| {
            ops.iter()
                .filter(|op| op.kind == kind && op.result.is_ok())
                .count()
        };
        let unlinks = ops
            .iter()
            .filter(|op| op.kind == OpKind::Unlink && op.result.is_ok());
        let gone = unlinks
            .filter(|op| {
                op.path
                    .is_some_and(|path| paths.get(path).ends_with(b".txt"))
            })
            .count();
        assert_eq!(
            (gone, count(OpKind::Rmdir), count(OpKind::Rename)),
            (20, 5, 1)
        );
        // The copies' contents: cp writes or copies, each file once.
        let source: u64 = 4 * (0..5).map(|file| 1000 * file + 3).sum::<u64>();
        let copied: u64 = ops
            .iter()
            .filter(|op| op.kind == OpKind::CopyOut || op.kind == OpKind::Write)
            .filter(|op| !op.record.contains(OpFlags::NOT_A_FILE))
            .map(|op| op.result.value().unwrap_or(0))
            .sum();
        assert!(copied > 2 * source, "{copied} bytes written, of {source}");
        let exits = ops.iter().filter(|op| op.kind == OpKind::Exit).count();
        assert_eq!(exits, 1 + count(OpKind::Fork));
        if options.contains(&"-y") {
            whole_knowledge(&ops, &paths, dir.path());
        }
        round_trip(&ops, &paths, options.contains(&"-y"));
    }
}

/// With `-y` every operation on a file knows its file, its offset and its directory.
fn whole_knowledge(ops: &[Op], paths: &PathTable, dir: &Path) {
    use std::os::unix::ffi::OsStrExt;
    let real = dir.canonicalize().unwrap();
    for op in ops {
        let is_file = !op.record.contains(OpFlags::NOT_A_FILE);
        if matches!(op.kind, OpKind::Read | OpKind::Write) && is_file && op.result.is_ok() {
            assert!(op.file.is_some(), "{op:?}");
            let opened_before = op.fd.is_some_and(|fd| fd.0 <= 2);
            assert!(op.offset.is_some() || opened_before, "{op:?}");
        }
        if op.kind == OpKind::Open && op.dir.is_some() {
            let dir = op.dir.map(|dir| paths.get(dir)).unwrap();
            assert!(
                dir.starts_with(real.as_os_str().as_bytes()),
                "{}",
                dir.escape_ascii()
            );
        }
    }
}

fn round_trip(ops: &[Op], paths: &PathTable, named: bool) {
    let mut text = Vec::new();
    let mut sink = StraceSink::new(&mut text, Path::new("again"), 1_700_000_000_000_000_000);
    for op in ops {
        sink.push(op, paths).unwrap();
    }
    let left_out = sink.finish().unwrap();
    assert!(left_out.is_empty(), "{left_out:?}");
    let (again, other, report) = import(&text);
    assert_eq!(report.skipped_lines, 0, "{:?}", report.first_skipped);
    assert_eq!(again.len(), ops.len());
    let text_of =
        |id: Option<fsage_core::PathId>, paths: &PathTable| id.map(|id| paths.get(id).to_vec());
    for (a, b) in ops.iter().zip(&again) {
        let same = (
            a.kind,
            a.start_ns,
            a.latency_ns,
            a.pid,
            a.tid,
            a.result,
            a.fd,
            a.flags,
        ) == (
            b.kind,
            b.start_ns,
            b.latency_ns,
            b.pid,
            b.tid,
            b.result,
            b.fd,
            b.flags,
        );
        assert!(same, "{a:?}\n{b:?}");
        assert_eq!((a.offset, a.length), (b.offset, b.length), "{a:?}\n{b:?}");
        assert_eq!(text_of(a.path, paths), text_of(b.path, &other));
        assert_eq!(text_of(a.path2, paths), text_of(b.path2, &other));
        // Calls without a directory argument leave no place for it in the text.
        let placeless = matches!(
            a.kind,
            OpKind::Truncate
                | OpKind::Statfs
                | OpKind::Chdir
                | OpKind::Exec
                | OpKind::Setxattr
                | OpKind::Getxattr
                | OpKind::Listxattr
                | OpKind::Removexattr
        );
        if named && !placeless {
            assert_eq!(
                text_of(a.dir, paths),
                text_of(b.dir, &other),
                "{a:?}\n{b:?}"
            );
        }
    }
}
