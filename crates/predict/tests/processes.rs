//! What processes leave to each other: descriptors over dup, exec and fork.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Notes, Script, system};
use fsage_core::{Fd, Op, OpKind, Outcome};
use fsage_namespace::flags::O_CLOEXEC;
use fsage_predict::{Options, Predictor};

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
