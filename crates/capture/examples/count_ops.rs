//! Captures a command and throws the operations away: `count_ops COMMAND...`. What capturing alone
//! costs, and what a trace of the command would hold.
#![allow(clippy::print_stdout, reason = "an example")]

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use fsage_capture::{CaptureRequest, What, capture};
use fsage_core::{Op, OpSink, PathTable, SinkError};

#[derive(Default)]
struct Count(BTreeMap<&'static str, (u64, u64)>);

impl OpSink for Count {
    fn push(&mut self, op: &Op, _: &PathTable) -> Result<(), SinkError> {
        let entry = self.0.entry(op.kind.name()).or_default();
        entry.0 += 1;
        entry.1 += op.latency_ns.unwrap_or(0);
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let argv = std::env::args_os().skip(1).collect();
    let what = What::Command {
        argv,
        cwd: None,
        env: Vec::new(),
    };
    let mut count = Count::default();
    let never = AtomicBool::new(false);
    let summary = capture(&CaptureRequest::new(what), &never, &mut count, &mut |_| {})?;
    for (kind, (number, latency_ns)) in &count.0 {
        println!("{kind:16} {number:10} {:14.3} ms", *latency_ns as f64 / 1e6);
    }
    println!("{summary:?}");
    Ok(())
}
