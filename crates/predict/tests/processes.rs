//! What processes leave to each other: descriptors over dup, exec and fork.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{Notes, Script, system};
use fsage_core::metric::MetricId;
use fsage_core::{Fd, Op, OpKind, Outcome};
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
