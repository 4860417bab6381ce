//! A model's processes in any order that what they wait for allows: each call ends as the model says, as it does in the
//! order of the trace's times.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use fsage_core::{Errno, OpKind, OpSource};
use fsage_format::trace::TraceReader;
use fsage_model::fsm::{Batch, Call, Gather, Generator, Model, Options, Type, fit};

/// What lies where, in as much as it decides how calls on names end.
struct Tree(BTreeMap<Vec<u8>, Type>);

impl Tree {
    fn holds(&self, path: &[u8]) -> bool {
        path.is_empty() || self.0.contains_key(path)
    }

    fn has_parent(&self, path: &[u8]) -> bool {
        let slash = path.iter().rposition(|&b| b == b'/');
        self.holds(slash.map_or(&[], |at| &path[..at]))
    }

    fn below(&self, path: &[u8]) -> Vec<Vec<u8>> {
        let from = [path, b"/"].concat();
        let below = self.0.range(from.clone()..);
        below
            .map(|(path, _)| path.clone())
            .take_while(|path| path.starts_with(&from))
            .collect()
    }

    /// Does a call; whether it ends as the model says.
    fn does(&mut self, call: &Call) -> bool {
        let Some(path) = call.path.as_deref() else {
            return true;
        };
        let expected = call.op.result.errno();
        let there = self.holds(path);
        match (call.op.kind, expected) {
            (_, Some(Errno::ENOENT)) => !there,
            (_, Some(Errno::EEXIST)) => there,
            (OpKind::Rmdir, Some(Errno(39))) => there && !self.below(path).is_empty(),
            (_, Some(_)) => true,
            (OpKind::Mkdir, None) => self.add(path, Type::Directory),
            (OpKind::Open | OpKind::Mknod, None) => there || self.add(path, Type::File),
            (OpKind::Symlink, None) => self.add(path, Type::Link),
            (OpKind::Rmdir, None) => self.below(path).is_empty() && self.0.remove(path).is_some(),
            (OpKind::Unlink, None) => self.0.remove(path).is_some(),
            (OpKind::Rename, None) => call.path2.as_deref().is_some_and(|to| self.moves(path, to)),
            (OpKind::Link, None) => {
                let to = call.path2.as_deref().unwrap_or_default();
                there && (self.holds(to) || self.add(to, Type::File))
            }
            _ => there,
        }
    }

    fn add(&mut self, path: &[u8], kind: Type) -> bool {
        self.has_parent(path) && self.0.insert(path.to_vec(), kind).is_none()
    }

    fn moves(&mut self, from: &[u8], to: &[u8]) -> bool {
        let Some(kind) = self.0.remove(from).filter(|_| self.has_parent(to)) else {
            return false;
        };
        for path in self.below(from) {
            if let Some(kind) = self.0.remove(&path) {
                self.0.insert([to, &path[from.len()..]].concat(), kind);
            }
        }
        self.0.insert(to.to_vec(), kind);
        true
    }
}

fn model(name: &str) -> Arc<Model> {
    let path = format!("../../corpus/traces/{name}.fst");
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path);
    let mut reader = TraceReader::open(&path).unwrap();
    let under = reader.meta().under.iter();
    let under: Vec<Vec<u8>> = under.map(|dir| dir.as_bytes().to_vec()).collect();
    let (mut gather, mut batch) = (Gather::new(&under), Vec::new());
    while reader.next_batch(&mut batch).unwrap() > 0 {
        for op in batch.drain(..) {
            gather.take(&op, reader.paths());
        }
    }
    Arc::new(fit(gather).unwrap())
}

/// Directories that several processes make, fill, rename, empty and remove, deep in each other.
fn of_directories() -> Arc<Model> {
    let class = |kind: &str, directory: u32| {
        format!(
            "[[files]]\ntype = \"{kind}\"\nbefore = 0\nlater = 1\ndirectory = \"{directory}\"\n\
             in_new_directory = 1000\n"
        )
    };
    let visits = [
        "mkdir",
        "open flags=65",
        "unlink",
        "rename",
        "rmdir",
        "stat",
    ];
    let visits = visits
        .map(|v| format!("[[visit]]\nsteps = [\"{v}\"]\n"))
        .concat();
    let script = [
        "1 file=1.new took_ns=50 next=2*300",
        "2 file=2.new took_ns=10 next=2*300,6*300",
        "6 file=2.known:0,1,2,3 took_ns=5 next=3*150,4*150",
        "3 file=2.known:0,1,2,3 took_ns=5 next=1*299,5*151",
        "4 file=1.known:0,1,2 to=1.new took_ns=70 next=3*150",
        "5 file=1.known:0,1,2 took_ns=20 next=1*150,0*1",
    ];
    let text = format!(
        "format = \"fsm\"\nversion = 1\ndirectories = [0]\n\
         [source]\noperations = 1\nbytes_read = 0\nbytes_written = 0\nspan_ns = 0\n\
         {}{}{visits}[[group]]\nprocesses = 6\nat_once = 6\n\
         [[phase]]\nstart_ns = 0\n[[phase.part]]\ngroup = 1\nfirst = \"1\"\nscript = {script:?}\n",
        class("directory", 0),
        class("file", 0),
    );
    Arc::new(Model::parse(&text).unwrap())
}

/// Calls that end otherwise than the model says: those by the order of the times, and those where whoever may go on does
/// so, of all the last (or the first) process that may.
fn mismatches(model: &Arc<Model>, last: bool) -> (usize, usize, usize) {
    let mut generator = Generator::new(Arc::clone(model), Options::default()).unwrap();
    let population = generator.population();
    let tree = |_| {
        let named = population
            .iter()
            .map(|(path, kind, _)| (path.to_vec(), *kind));
        Tree(named.filter(|(path, _)| !path.is_empty()).collect())
    };
    let [mut in_time, mut in_turn] = [0, 1].map(tree);
    let mut lanes: Vec<VecDeque<Batch>> = vec![VecDeque::new(); generator.lanes()];
    let (mut calls, mut wrong) = (0, (0, 0));
    while let Some((lane, batch)) = generator.any() {
        calls += batch.calls.len();
        let others = batch.calls.iter().filter(|call| !in_time.does(call));
        wrong.0 += others.count();
        lanes[lane as usize].push_back(batch);
    }
    let mut done = vec![0_u64; lanes.len()];
    loop {
        let may = |lane: &usize| {
            let first = lanes[*lane].front();
            first.is_some_and(|b| b.after.iter().all(|&(of, n)| done[of as usize] >= n))
        };
        let mut all = 0..lanes.len();
        let next = if last { all.rfind(may) } else { all.find(may) };
        let Some(next) = next else {
            assert!(lanes.iter().all(VecDeque::is_empty), "all wait");
            return (calls, wrong.0, wrong.1);
        };
        let batch = lanes[next].pop_front().unwrap();
        done[next] += 1;
        let others = batch.calls.iter().filter(|call| !in_turn.does(call));
        wrong.1 += others.count();
    }
}

#[test]
fn calls_end_alike_in_every_order_that_is_allowed() {
    let mut models: Vec<(&str, Arc<Model>)> = ["build", "mail", "threads", "failing"]
        .map(|name| (name, model(name)))
        .into();
    models.push(("directories", of_directories()));
    for (name, model) in &models {
        for last in [false, true] {
            let (calls, in_time, in_turn) = mismatches(model, last);
            assert!(calls > 100, "{name}");
            assert!(
                in_turn <= in_time,
                "{name}, last {last}: of {calls} calls {in_turn}, and {in_time} in the order of the times"
            );
        }
    }
}
