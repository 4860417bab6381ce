//! What the tests put their traces together with.

#![allow(clippy::unwrap_used, reason = "tests")]

use fsage_core::{Fd, Op, OpKind, Outcome, PathTable, Pid, Tid};
use fsage_model::fsm::{Gather, Model, fit};

/// Puts operations into a model, one after the other.
#[derive(Default)]
pub struct Trace {
    pub gather: Gather,
    pub paths: PathTable,
    /// The process at hand.
    pub pid: u32,
    pub now_ns: u64,
    /// Whether programs take as long as they take, and not a microsecond each time.
    pub uneven: bool,
}

impl Trace {
    pub fn add(&mut self, kind: OpKind, change: &dyn Fn(&mut Op)) {
        let mut op = Op::new(kind, Pid(self.pid), Tid(self.pid), self.now_ns);
        op.latency_ns = Some(500);
        op.result = Outcome::ok(0);
        change(&mut op);
        self.now_ns += 1000;
        if self.uneven {
            self.now_ns += (self.now_ns - 1000) * 7919 % 3000;
        }
        self.gather.take(&op, &self.paths);
    }

    pub fn on(&mut self, kind: OpKind, fd: i32) {
        self.add(kind, &|op| op.fd = Some(Fd(fd)));
    }

    /// The model, as it is read again.
    pub fn model(self) -> Model {
        let text = fit(self.gather).unwrap().text().unwrap();
        Model::parse(&text).unwrap()
    }
}

/// A model of one process that does these visits, each told by its steps, by that script.
pub fn model_of(files: &str, visits: &[&str], script: &[&str]) -> String {
    let visits: String = visits.iter().fold(String::new(), |text, steps| {
        text + &format!("[[visit]]\nsteps = [{steps}]\n")
    });
    format!(
        "format = \"fsm\"\nversion = 1\ndirectories = [0]\n\
         [source]\noperations = 1\nbytes_read = 0\nbytes_written = 0\nspan_ns = 0\n\
         {files}{visits}[[group]]\nprocesses = 1\nat_once = 1\n\
         [[phase]]\nstart_ns = 0\n[[phase.part]]\ngroup = 1\nfirst = \"1\"\nscript = {script:?}\n"
    )
}
