//! What the tests build their traces and systems with.

#![allow(clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(dead_code, reason = "each test file uses its part")]

use fsage_core::metric::MetricId;
use fsage_core::{Fd, Op, OpKind, Outcome, PathTable, Pid, Tid};
use fsage_predict::{Annotation, AnnotationSink, SystemVector};

/// A system whose metrics are known exactly.
pub fn system(name: &str, metrics: &[(&str, f64)]) -> SystemVector {
    let metrics = metrics.iter().map(|&(name, value)| {
        let id = MetricId::parse(name).unwrap_or_else(|| panic!("{name} is no metric"));
        (id, value, value, value)
    });
    SystemVector::new(name, metrics)
}

/// A trace under construction: one process, a microsecond between calls.
#[derive(Default)]
pub struct Script {
    pub paths: PathTable,
    pub ops: Vec<Op>,
    now: u64,
}

impl Script {
    pub fn op(&mut self, kind: OpKind) -> &mut Op {
        self.now += 1000;
        self.ops.push(Op::new(kind, Pid(1), Tid(1), self.now));
        self.ops.last_mut().expect("just pushed")
    }

    pub fn pause(&mut self, ns: u64) {
        self.now += ns;
    }

    pub fn name(&mut self, kind: OpKind, path: &str) -> &mut Op {
        let id = self.paths.intern(path.as_bytes());
        let op = self.op(kind);
        op.path = id;
        op
    }

    pub fn open(&mut self, path: &str, flags: u32, fd: i32) -> &mut Op {
        let op = self.name(OpKind::Open, path);
        op.flags = flags;
        op.result = Outcome::ok(fd as u64);
        op
    }

    pub fn data(&mut self, kind: OpKind, fd: i32, offset: u64, length: u64) -> &mut Op {
        let op = self.fd(kind, fd);
        (op.offset, op.length, op.result) = (Some(offset), Some(length), Outcome::ok(length));
        op
    }

    pub fn fd(&mut self, kind: OpKind, fd: i32) -> &mut Op {
        let op = self.op(kind);
        op.fd = Some(Fd(fd));
        op
    }

    pub fn error(&mut self, errno: fsage_core::Errno) {
        if let Some(op) = self.ops.last_mut() {
            op.result = Outcome::err(errno);
        }
    }
}

/// Keeps what was said of each operation: request vector as text, latency.
#[derive(Default)]
pub struct Notes(pub Vec<Note>);

/// Request vector, latency in nanoseconds, relation.
pub type Note = (Vec<(String, f64)>, f64, fsage_predict::Relation);

impl AnnotationSink for Notes {
    fn annotate(
        &mut self,
        _: usize,
        _: &Op,
        _: &PathTable,
        a: &Annotation<'_>,
    ) -> Result<(), fsage_core::SinkError> {
        let vector = a
            .request_vector
            .iter()
            .map(|&(id, w)| (id.to_string(), w))
            .collect();
        self.0.push((vector, a.predicted_latency_ns, a.relation));
        Ok(())
    }
}

/// A system on which everything was measured; every value is 1.
pub fn everything() -> SystemVector {
    everything_but(&[])
}

/// The same system, but for some values; what is given as infinite it has not.
pub fn everything_but(known: &[(&str, f64)]) -> SystemVector {
    let limits = ["BC", "DNLC", "MDC", "DTH", "BTH"];
    let lacks = |name: &str| known.iter().any(|k| k.0 == name && k.1 == f64::INFINITY);
    let all = MetricId::all().filter(|id| {
        let name = id.to_string();
        !limits.contains(&name.as_str()) && !lacks(&name)
    });
    let value = |id: &MetricId| known.iter().find(|k| id.to_string() == k.0);
    let all = all.map(|id| (id, value(&id).map_or(1.0, |k| k.1)));
    SystemVector::new("all", all.map(|(id, v)| (id, v, v, v)))
}
