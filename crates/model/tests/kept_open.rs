//! What stays open: files that are mapped and closed, and what a process has open when a phase ends.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::sync::Arc;

use fsage_core::{Fd, Op, OpFlags, OpKind, Outcome};
use fsage_model::fsm::{Generator, Model, Options};

use crate::common::Trace;

impl Trace {
    fn open(&mut self, path: &str, fd: i32) {
        let path = self.paths.intern(path.as_bytes());
        self.add(OpKind::Open, &|op| {
            op.path = path;
            (op.size_bytes, op.result) = (Some(65_536), Outcome::ok(fd.unsigned_abs().into()));
            op.file = Some(fsage_core::FileId {
                ino: path.map_or(0, |p| p.index() as u64),
                ..fsage_core::FileId::default()
            });
        });
    }

    fn reads(&mut self, fd: i32, offset: u64) {
        self.add(OpKind::Read, &|op| {
            (op.fd, op.offset, op.length) = (Some(Fd(fd)), Some(offset), Some(4096));
            (op.result, op.record) = (Outcome::ok(4096), OpFlags::IMPLICIT_OFFSET);
        });
    }
}

/// All that a model does.
fn played(model: &Model, seed: u64) -> Vec<Op> {
    let options = Options {
        seed,
        ..Options::default()
    };
    let mut generator = Generator::new(Arc::new(model.clone()), options).unwrap();
    let mut all = Vec::new();
    while let Some((_, batch)) = generator.any() {
        all.extend(batch.calls.into_iter().map(|call| call.op));
    }
    all
}

fn count(ops: &[Op], kind: OpKind) -> usize {
    ops.iter().filter(|op| op.kind == kind).count()
}

#[test]
fn a_mapped_file_is_open_for_its_faults_after_it_was_closed() {
    const PROCESSES: u32 = 40;
    const LIBRARIES: u32 = 5;
    const FAULTS: u64 = 3;
    let mut trace = Trace::default();
    for process in 0..PROCESSES {
        trace.pid = 10 + process;
        for library in 0..LIBRARIES {
            trace.open(&format!("/lib/{library}.so"), 3);
            trace.reads(3, 0);
            trace.add(OpKind::Mmap, &|op| {
                (op.fd, op.length) = (Some(Fd(3)), Some(65_536));
            });
            trace.on(OpKind::Close, 3);
        }
        for library in 0..LIBRARIES {
            let path = trace.paths.intern(format!("/lib/{library}.so").as_bytes());
            for fault in 0..FAULTS {
                trace.add(OpKind::Fault, &|op| {
                    (op.offset, op.length) = (Some((1 + 2 * fault) * 4096), Some(4096));
                    op.file = Some(fsage_core::FileId {
                        ino: path.map_or(0, |p| p.index() as u64),
                        ..fsage_core::FileId::default()
                    });
                });
            }
        }
        // One that is not mapped.
        trace.open("/lib/cache", 3);
        trace.on(OpKind::Close, 3);
        trace.add(OpKind::Exit, &|op| op.length = Some(1));
    }
    let operations = trace.gather.operations;
    let model = trace.model();
    let opens = (PROCESSES * (LIBRARIES + 1)) as usize;
    let faults = (PROCESSES * LIBRARIES) as usize * FAULTS as usize;
    // Those that leave their file to a mapping are none of the operations.
    let mapped = (PROCESSES * LIBRARIES) as usize;
    assert_eq!(
        operations as usize,
        opens + 2 * mapped + faults + opens - mapped
    );
    for seed in [1, 42, 7] {
        let ops = played(&model, seed);
        assert_eq!(count(&ops, OpKind::Open), opens, "seed {seed}");
        assert_eq!(count(&ops, OpKind::Fault), faults, "seed {seed}");
        assert_eq!(count(&ops, OpKind::Read), mapped, "seed {seed}");
        assert_eq!(count(&ops, OpKind::Dup), mapped, "seed {seed}");
        // What a fault is about was left to a mapping before, by that process.
        let mut stands = std::collections::BTreeSet::new();
        for op in &ops {
            match op.kind {
                OpKind::Dup => {
                    let fd = i32::try_from(op.result.value().unwrap()).unwrap();
                    stands.insert((op.pid, Fd(fd)));
                }
                OpKind::Fault => {
                    let fd = op.fd.unwrap();
                    assert!(stands.contains(&(op.pid, fd)), "seed {seed}: {op:?}");
                }
                OpKind::Exit => stands.retain(|s| s.0 != op.pid),
                _ => {}
            }
        }
    }
}

#[test]
fn who_goes_on_in_the_next_phase_has_open_what_it_had() {
    const FILES: i32 = 64;
    const PROCESSES: u32 = 3;
    let mut trace = Trace::default();
    for process in 0..PROCESSES {
        trace.pid = 10 + process;
        for file in 0..FILES {
            trace.open(&format!("/objects/{file}"), 3 + file);
        }
        for piece in 0..4 {
            for file in 0..FILES {
                trace.on(OpKind::Fstat, 3 + file);
                trace.reads(3 + file, piece * 4096);
            }
        }
        trace.add(OpKind::Exit, &|op| op.length = Some(1));
    }
    let model = trace.model();
    assert!(model.phases.len() > 2, "{} phases", model.phases.len());
    let parts = model.phases.iter().flat_map(|phase| &phase.parts);
    let going_on: u64 = parts.map(|part| part.going_on.count()).sum();
    assert!(going_on >= 3, "{going_on} go on");
    let opens = FILES.unsigned_abs() as usize * PROCESSES as usize;
    for seed in [1, 42, 7] {
        let ops = played(&model, seed);
        assert_eq!(count(&ops, OpKind::Open), opens, "seed {seed}");
        assert_eq!(count(&ops, OpKind::Fstat), 4 * opens, "seed {seed}");
        assert_eq!(count(&ops, OpKind::Read), 4 * opens, "seed {seed}");
    }
}
