//! A workload that is written as a trace is the workload that runs: the trace of a real run, stream by
//! stream, against the written one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]

use crate::common;

use std::collections::BTreeMap;
use std::path::Path;

use common::{run, temp_in_memory};
use fsage_core::{Op, OpFlags, OpKind, OpSource, PathTable, Pid};
use fsage_format::trace::TraceReader;

/// Kind, name below the workload's directory (of the open file, for a call on one), offset where the call
/// names one, length, and for transfers the bytes moved.
type Call = (OpKind, Vec<u8>, Option<u64>, Option<u64>, i64);

fn ops(trace: &Path) -> (Vec<Op>, PathTable) {
    let mut reader = TraceReader::open(trace).unwrap();
    let mut ops = Vec::new();
    while reader.next_batch(&mut ops).unwrap() > 0 {}
    let paths = reader.paths().clone();
    ops.sort_by_key(|op| op.start_ns);
    (ops, paths)
}

/// The calls on files below the directory whose name starts with `within`, in order, each with who made
/// it. Listings are left out: the executor takes a whole directory at once, whatever the library's buffer.
fn calls<K>(trace: &Path, within: &str, who: impl Fn(&Op) -> K) -> Vec<(K, Call)> {
    let (ops, paths) = ops(trace);
    let mut open: BTreeMap<(Pid, i32), Vec<u8>> = BTreeMap::new();
    // A descriptor that one thread closes may be another's before the other's open, begun earlier, ends.
    let mut opening: Vec<(u64, (Pid, i32), Vec<u8>)> = Vec::new();
    let mut calls = Vec::new();
    for op in &ops {
        let (ended, others) = opening
            .drain(..)
            .partition(|(end_ns, ..)| *end_ns <= op.start_ns);
        opening = others;
        let ended: Vec<_> = ended;
        open.extend(ended.into_iter().map(|(_, place, name)| (place, name)));
        let named = op.path.map(|path| {
            let path = paths.get(path);
            match op.dir {
                Some(dir) if path.first() != Some(&b'/') => [paths.get(dir), b"/", path].concat(),
                _ => path.to_vec(),
            }
        });
        let name = match (named, op.fd) {
            (Some(name), _) => Some(name),
            (None, Some(fd)) => open.get(&(op.pid, fd.0)).cloned(),
            (None, None) => None,
        };
        match (op.kind, op.result.value(), op.fd, &name) {
            (OpKind::Open, Some(fd), _, Some(name)) => {
                opening.push((op.end_ns(), (op.pid, fd as i32), name.clone()));
            }
            (OpKind::Close, _, Some(fd), _) => drop(open.remove(&(op.pid, fd.0))),
            _ => {}
        }
        let Some(inside) = name.as_deref().and_then(|name| below(name, within)) else {
            continue;
        };
        if op.kind == OpKind::Readdir {
            continue;
        }
        let transfer = matches!(op.kind, OpKind::Read | OpKind::Write);
        let explicit = transfer && !op.record.contains(OpFlags::IMPLICIT_OFFSET);
        calls.push((
            who(op),
            (
                op.kind,
                inside.to_vec(),
                op.offset.filter(|_| explicit),
                op.length.filter(|_| transfer),
                match op.result.errno() {
                    Some(errno) => -i64::from(errno.0),
                    None if transfer => op.result.value().unwrap_or(0) as i64,
                    None => 0,
                },
            ),
        ));
    }
    calls
}

/// What stands below a part of the path that begins with `within`; nothing for that directory itself.
fn below<'n>(name: &'n [u8], within: &str) -> Option<&'n [u8]> {
    let part = [b"/", within.as_bytes()].concat();
    let at = name.windows(part.len()).position(|w| w == part)? + 1;
    let rest = name.get(at..)?;
    let slash = rest.iter().position(|&b| b == b'/')?;
    rest.get(slash + 1..).filter(|inside| !inside.is_empty())
}

/// Runs a workload under the tracer and writes it as a trace.
fn both(dir: &Path, spec: &str) {
    std::fs::create_dir(dir.join("t")).unwrap();
    let exe = env!("CARGO_BIN_EXE_fsage");
    let line = [
        "trace", "--under", "t", "-o", "real.fst", "--", exe, "run", spec, "t", "--json",
    ];
    run(dir, line).exits(0);
    run(dir, ["run", spec, "--to-trace", "written.fst"]).exits(0);
}

#[test]
fn one_stream_is_the_same_operation_by_operation() {
    for spec in [
        "postmark:files=40,transactions=120,subdirs=3,seed=3",
        "postmark:files=20,transactions=60,buffering=false,read=1000,write=700",
        "lfs-small:files=50",
        "lfs-large:size=300k,fsync=true",
        "small-read:files=30,dirs=3",
        "stride:size=256k",
        "varying:config=d,chunks=2,ops=20",
        "andrew",
        "sdet:commands=60",
    ] {
        let dir = temp_in_memory();
        both(dir.path(), spec);
        let all = |name: &str, within| -> Vec<Call> {
            let calls = calls(&dir.path().join(name), within, |_| ());
            calls.into_iter().map(|c| c.1).collect()
        };
        let (real, written) = (
            all("real.fst", ".fsage-run-"),
            all("written.fst", "workload"),
        );
        assert!(written.len() > 40, "{spec}: {}", written.len());
        let first = (0..written.len().max(real.len())).find(|&i| real.get(i) != written.get(i));
        if let Some(i) = first {
            let text =
                |c: Option<&Call>| c.map(|c| format!("{c:?} on {}", String::from_utf8_lossy(&c.1)));
            panic!(
                "{spec}: call {i} of {} was {:?}, written {:?}",
                real.len(),
                text(real.get(i)),
                text(written.get(i))
            );
        }
    }
}

/// Each thread of a run does what the next phase of one written process is.
#[test]
fn several_streams_are_the_same_one_by_one() {
    for spec in [
        "postmark:files=30,transactions=90,threads=3",
        "readers:total=600k,n=3,request=20k",
        "selfscale:size=1M,requests=80,processes=3",
    ] {
        let dir = temp_in_memory();
        both(dir.path(), spec);
        let mut real: Vec<(u32, Vec<Call>)> = Vec::new();
        for (tid, call) in calls(&dir.path().join("real.fst"), ".fsage-run-", |op| op.tid.0) {
            match real.iter_mut().find(|stream| stream.0 == tid) {
                Some(stream) => stream.1.push(call),
                None => real.push((tid, vec![call])),
            }
        }
        let mut written: BTreeMap<u32, Vec<Call>> = BTreeMap::new();
        let calls = calls(&dir.path().join("written.fst"), "workload", |op| op.pid.0);
        for (pid, call) in calls {
            written.entry(pid).or_default().push(call);
        }
        assert!(written.len() >= 3, "{spec}");
        assert!(
            real.len() >= written.len(),
            "{spec}: {} threads",
            real.len()
        );
        for (tid, stream) in real {
            let next = written.values_mut().find(|rest| rest.starts_with(&stream));
            let rest = next.unwrap_or_else(|| panic!("{spec}: thread {tid} is no written process"));
            rest.drain(..stream.len());
        }
        for (pid, rest) in written {
            assert_eq!(rest.len(), 0, "{spec}: what is left of process {pid}");
        }
    }
}
