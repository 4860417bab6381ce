//! What processes leave to each other: descriptors over dup, exec and fork.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{Notes, Script, system};
use fsage_core::metric::MetricId;
use fsage_core::{DevId, Fd, FileId, Op, OpKind, Outcome};
use fsage_namespace::flags::{CLONE_FILES, CLONE_FS, CLONE_THREAD, O_CLOEXEC};
use fsage_predict::{Options, Predictor, SystemVector};

fn followed(script: &Script) -> Predictor {
    let mut predictor = Predictor::new(Options::default(), vec![system("any", &[("OPEN", 1.0)])]);
    let mut notes = Notes::default();
    for op in &script.ops {
        let pushed = predictor.push_annotated(op, &script.paths, &mut notes);
        pushed.unwrap();
    }
    predictor
}

fn fork(script: &mut Script, child: u32) {
    let op = script.op(OpKind::Fork);
    (op.result, op.length) = (Outcome::ok(child.into()), Some(child.into()));
}

fn of(op: &mut Op, process: u32) {
    (op.pid.0, op.tid.0) = (process, process);
}

/// dup(2): "the new descriptor's close-on-exec flag is off", whatever the old one's is.
#[test]
fn a_duplicate_survives_exec() {
    let mut s = Script::default();
    s.open("/d/f", O_CLOEXEC, 3);
    s.fd(OpKind::Dup, 3).result = Outcome::ok(0);
    s.name(OpKind::Exec, "/bin/cat");
    let mut predictor = followed(&s);
    let processes = &mut predictor.namespace_mut().processes;
    assert_eq!(processes.open_of(1, Fd(3)), None);
    assert!(processes.open_of(1, Fd(0)).is_some());
}

/// A process whose end the trace does not tell is over when its number is given again: what it had open
/// holds no removed file's space.
#[test]
fn a_number_that_is_used_again_leaves_nothing_open() {
    let mut s = Script::default();
    fork(&mut s, 7);
    of(s.open("/d/f", 0o101, 3), 7);
    of(s.name(OpKind::Unlink, "/d/f"), 7);
    fork(&mut s, 7);
    let mut predictor = followed(&s);
    let processes = &mut predictor.namespace_mut().processes;
    assert_eq!(processes.open_of(7, Fd(3)), None);
    assert_eq!(processes.held(), (0, 0));
}

/// Positions lie in the open file that parent and child share.
#[test]
fn a_child_goes_on_where_its_parent_was() {
    let mut s = Script::default();
    s.open("/d/f", 0, 3).size_bytes = Some(8192);
    s.data(OpKind::Read, 3, 0, 4096);
    fork(&mut s, 7);
    let op = s.data(OpKind::Read, 3, 0, 4096);
    op.offset = None;
    of(op, 7);
    let mut predictor = followed(&s);
    let processes = &mut predictor.namespace_mut().processes;
    let open = processes.open_of(1, Fd(3)).unwrap();
    assert_eq!(processes.open(open).unwrap().position, 8192);
}

/// Two processes that each hold a lock file while they sync something: on a slow device, where they would meet, the
/// second cannot make the file before the first has removed it.
#[test]
fn a_name_is_made_again_only_after_its_removal() {
    let waited = |same: bool| {
        let mut s = Script::default();
        fork(&mut s, 7);
        fork(&mut s, 8);
        for process in [7, 8] {
            let lock = if same || process == 7 {
                "/d/lock"
            } else {
                "/d/other"
            };
            let data = format!("/d/{process}");
            of(s.open(&data, 0o102, 3), process);
            of(s.open(lock, 0o302, 4), process);
            of(s.data(OpKind::Write, 3, 0, 100), process);
            of(s.fd(OpKind::Fsync, 3), process);
            of(s.name(OpKind::Unlink, lock), process);
        }
        let limits = ["BC", "DNLC", "MDC", "DTH"];
        let metrics = MetricId::all().filter_map(|id| {
            let name = id.to_string();
            let ns = if name.starts_with("FSYN") { 1e7 } else { 1.0 };
            (!limits.contains(&name.as_str())).then_some((id, ns, ns, ns))
        });
        let vector = SystemVector::new("slow", metrics);
        let mut predictor = Predictor::new(Options::default(), vec![vector]);
        for op in &s.ops {
            predictor.push(op, &s.paths);
        }
        let target = predictor.finish().targets.remove(0);
        target.waiting_ns
    };
    assert!(waited(false) > 9e6, "both are synced at once");
    assert!(waited(true) < 1e5, "one after the other");
}

/// A thread that made descriptors its own (unshare(2)) has other files behind the numbers of its process, and leaves
/// nothing open when it ends.
#[test]
fn a_thread_with_descriptors_of_its_own_is_followed() {
    let mut s = Script::default();
    let fork = s.op(OpKind::Fork);
    let shares = CLONE_THREAD | CLONE_FS | CLONE_FILES;
    (fork.result, fork.length, fork.flags) = (Outcome::ok(2), Some(1), shares);
    s.open("/d/both", 0o101, 3);
    let own = s.op(OpKind::Fork);
    (own.result, own.length, own.flags) = (Outcome::ok(2), Some(1), CLONE_THREAD | CLONE_FS);
    own.tid.0 = 2;
    s.fd(OpKind::Close, 3).tid.0 = 2;
    s.open("/d/own", 0o101, 3).tid.0 = 2;
    s.fd(OpKind::Write, 3);
    s.fd(OpKind::Close, 3);
    let mut predictor = followed(&s);
    assert_eq!(
        predictor.namespace_mut().unexplained().unknown_descriptors,
        0
    );
    let processes = &mut predictor.namespace_mut().processes;
    assert_eq!(processes.open_of(1, Fd(3)), None);
    assert_eq!(processes.held(), (1, 1));
    let end = s.op(OpKind::Exit);
    (end.tid.0, end.length) = (2, Some(0));
    let mut predictor = followed(&s);
    assert_eq!(predictor.namespace_mut().processes.held(), (0, 0));
}

/// Threads that open and close at once: (kind, thread, start, end, descriptor, file). The file is told where it is above
/// 0; writes are of 10 bytes.
type Call = (OpKind, u32, u64, u64, i32, u64);

/// The sizes of files 1 and 2 after these.
fn sizes_after(calls: &[Call]) -> [u64; 2] {
    let mut s = Script::default();
    let id = |ino| FileId {
        dev: DevId(1),
        ino,
        generation: 0,
    };
    for &(kind, thread, start_ns, end_ns, fd, file) in calls {
        let op = match kind {
            OpKind::Open => s.open(&format!("/d/f{file}"), 0o1101, fd),
            OpKind::Write => s.data(kind, fd, 0, 10),
            _ => s.fd(kind, fd),
        };
        (op.start_ns, op.latency_ns) = (start_ns, Some(end_ns - start_ns));
        op.tid.0 = thread;
        op.file = (file > 0).then(|| id(file));
        if kind == OpKind::Write {
            op.offset = None;
        }
    }
    let mut predictor = followed(&s);
    let namespace = predictor.namespace_mut();
    assert_eq!(namespace.unexplained().unknown_descriptors, 0);
    [1, 2].map(|file| {
        let node = namespace.tree.identified(id(file)).unwrap();
        namespace.tree.size(node)
    })
}

#[test]
fn a_number_that_a_close_frees_is_anothers_when_its_open_ends() {
    use OpKind::{Close, Open, Write};
    // The open that gets the number began before the close.
    let began_before: [Call; 5] = [
        (Open, 1, 0, 5, 3, 1),
        (Open, 2, 10, 50, 3, 2),
        (Write, 1, 15, 18, 3, 0),
        (Close, 1, 20, 60, 3, 0),
        (Write, 2, 55, 58, 3, 0),
    ];
    assert_eq!(sizes_after(&began_before), [10, 10]);
    // It began within it, and ended first.
    let within: [Call; 6] = [
        (Open, 1, 0, 5, 3, 1),
        (Write, 1, 6, 9, 3, 0),
        (Close, 1, 10, 90, 3, 0),
        (Open, 2, 20, 30, 3, 2),
        (Write, 2, 35, 38, 3, 0),
        (Write, 2, 95, 98, 3, 0),
    ];
    assert_eq!(sizes_after(&within), [10, 20]);
}

/// As ptrace tells it, which takes the cost of its stops off the ends of calls.
#[test]
fn an_open_that_ends_before_the_close_of_its_number_begins_waits_for_that() {
    use OpKind::{Close, Open, Write};
    let calls: [Call; 6] = [
        (Open, 1, 0, 5, 3, 1),
        (Open, 2, 10, 20, 3, 2),
        (Write, 1, 25, 28, 3, 1),
        (Close, 1, 30, 33, 3, 1),
        (Write, 2, 40, 43, 3, 2),
        (Write, 1, 45, 48, 3, 2),
    ];
    assert_eq!(sizes_after(&calls), [10, 20]);
}
