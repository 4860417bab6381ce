//! Every workload of the table as a history: each result that a stream claims is the one that a file
//! system gives, whichever way streams of a phase interleave; nothing is left in the end.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};

use fsage_core::{Errno, Fd, Op, OpFlags, OpKind, PathTable, Pid};
use fsage_workload::random::Random;
use fsage_workload::wml::personalities;
use fsage_workload::{
    EntryKind, InputPath, Inputs, Length, Phase, Program, Role, SourceTree, TargetFile, TreeEntry,
    WORKLOADS, WorkloadSpec,
};

/// Small ones of every workload, each parameter that changes what is done in both ways.
const SPECS: &[&str] = &[
    "postmark:files=30,transactions=100,subdirs=3",
    "postmark:files=30,transactions=100,threads=3,buffering=false",
    "andrew",
    "andrew:tree=/some/where,includes=2,request=1000",
    "sdet:commands=60,programs=3",
    "sdet:scripts=4,commands=100,seed=9",
    "lfs-small:files=50",
    "lfs-small:files=37,dirs=5,size=5000,request=2048",
    "lfs-large:size=200k",
    "lfs-large:size=100001,request=7000,fsync=true,seed=5",
    "small-read:files=60,dirs=7",
    "small-read:files=20,dirs=30,size=0-9000,request=1000",
    "bonnie:size=300k,seeks=40,files=30",
    "bonnie:size=100k,chunk=3000,buffer=1000,seekers=5,seeks=10,files=8,file-size=5000",
    "bonnie:size=8k,seeks=0,files=0",
    "seqio:size=16k-256k,total=512k",
    "seqio:size=3000,total=100000,per-dir=3,request=2000",
    "seqio:size=5000,total=9000,sync=false",
    "hot-files:request=1000",
    "hot-files:days=1,overwrite=false",
    "readers:total=640k",
    "readers:total=100000,n=3,request=5000",
    "stride:size=256k",
    "stride:size=96k,s=3,request=4k",
    "varying:chunks=3,ops=20",
    "varying:config=d,chunks=2,ops=10",
    "varying:config=e,chunks=2,ops=10,size=10000",
    "selfscale:size=1M,requests=300",
    "selfscale:size=1M,requests=100,processes=4,vary=false,read=0,sequential=100",
];

fn inputs(spec: &WorkloadSpec, length: Length) -> Inputs {
    let mut inputs = Inputs {
        length,
        ..Inputs::default()
    };
    for need in spec.needs() {
        match need {
            InputPath::Tree(_) => {}
            InputPath::Target { .. } => {
                inputs.files = Some(found());
                continue;
            }
            other @ InputPath::Text(_) => panic!("{other:?}"),
        }
        let entry = |path: &[u8], kind| TreeEntry {
            path: path.to_vec(),
            kind,
        };
        let file = |size_bytes| EntryKind::File { size_bytes };
        inputs.tree = Some(SourceTree {
            entries: vec![
                entry(b"empty", EntryKind::Directory),
                entry(b"inc", EntryKind::Directory),
                entry(b"inc/a.h", file(10)),
                entry(b"inc/main.h", file(0)),
                entry(
                    b"link",
                    EntryKind::Symlink {
                        target: b"../no".to_vec(),
                    },
                ),
                entry(b"main.c", file(5000)),
                entry(b"main.h", file(3)),
                entry(b"sub", EntryKind::Directory),
                entry(b"sub/\xff.cc", file(70_000)),
                entry(b"sub/zero.c", file(0)),
            ],
        });
    }
    inputs
}

/// What lies in a target.
fn found() -> Vec<TargetFile> {
    let file = |path: &str, size_bytes| TargetFile {
        path: path.into(),
        size_bytes,
        modified_unix_ns: size_bytes,
        unwritten: false,
    };
    vec![file("a/x", 70_000), file("b", 1), file("a/y", 3000)]
}

fn program(text: &str, length: Length) -> Program {
    let spec: WorkloadSpec = text.parse().unwrap();
    let inputs = inputs(&spec, length);
    spec.program(&inputs).unwrap()
}

/// Stream, process, number.
type Descriptor = (usize, Pid, Fd);
/// Path, position, flags.
type Open = (Vec<u8>, u64, u32);

#[derive(Default)]
struct Model {
    files: BTreeMap<Vec<u8>, u64>,
    directories: BTreeSet<Vec<u8>>,
    links: BTreeMap<Vec<u8>, usize>,
    open: BTreeMap<Descriptor, Open>,
}

fn parent(path: &[u8]) -> Option<&[u8]> {
    Some(&path[..path.iter().rposition(|&b| b == b'/')?])
}

impl Model {
    /// With what lies in the target before a workload that is about that.
    fn of(spec: &str) -> Self {
        let spec: WorkloadSpec = spec.parse().unwrap();
        let files = spec.in_target().map(|_| found()).unwrap_or_default();
        Self {
            files: files.into_iter().map(|f| (f.path, f.size_bytes)).collect(),
            ..Self::default()
        }
    }

    fn there(&self, path: &[u8]) -> bool {
        self.files.contains_key(path)
            || self.directories.contains(path)
            || self.links.contains_key(path)
    }

    fn may_appear(&self, path: &[u8]) {
        assert!(parent(path).is_none_or(|p| self.directories.contains(p)));
        assert!(!self.there(path));
    }

    fn apply(&mut self, stream: usize, op: &Op, paths: &PathTable) {
        let path = op.path.map(|p| paths.get(p).to_vec());
        let errno = op.result.errno();
        match op.kind {
            OpKind::Open => self.open_file(stream, op, path.unwrap()),
            OpKind::Stat if errno == Some(Errno::ENOENT) => assert!(!self.there(&path.unwrap())),
            OpKind::Mkdir => {
                self.may_appear(path.as_ref().unwrap());
                self.directories.insert(path.unwrap());
            }
            OpKind::Rmdir => {
                let path = path.unwrap();
                let below = [path.as_slice(), b"/"].concat();
                let names = self
                    .files
                    .keys()
                    .chain(&self.directories)
                    .chain(self.links.keys());
                assert!(names.clone().all(|n| !n.starts_with(&below)));
                assert!(self.directories.remove(&path));
            }
            OpKind::Unlink => {
                let path = path.unwrap();
                let gone = self.files.remove(&path).is_some();
                assert!(
                    gone || self.links.remove(&path).is_some(),
                    "{}",
                    path.escape_ascii()
                );
            }
            OpKind::Rename => {
                let size = self.files.remove(&path.unwrap()).unwrap();
                let to = paths.get(op.path2.unwrap()).to_vec();
                self.may_appear(&to);
                self.files.insert(to, size);
            }
            OpKind::Symlink => {
                self.may_appear(path.as_ref().unwrap());
                let text = paths.get(op.path2.unwrap()).len();
                self.links.insert(path.unwrap(), text);
            }
            OpKind::Readlink => {
                let text = self.links[&path.unwrap()];
                assert_eq!(op.result.value(), Some(text as u64));
            }
            OpKind::Stat | OpKind::Chmod | OpKind::Utimens => {
                assert!(self.there(&path.unwrap()));
            }
            OpKind::Syncfs => {}
            _ => self.on_descriptor(stream, op),
        }
        assert!(
            errno.is_none() || matches!(op.kind, OpKind::Open | OpKind::Stat),
            "{op:?}"
        );
    }

    fn open_file(&mut self, stream: usize, op: &Op, path: Vec<u8>) {
        if op.result.errno() == Some(Errno::ENOENT) {
            assert!(!self.there(&path) && op.flags & 0o100 == 0);
            return;
        }
        if op.flags & 0o200_000 != 0 {
            assert!(path.is_empty() || self.directories.contains(&path));
        } else if op.flags & 0o100 != 0 {
            if op.flags & 0o200 != 0 || !self.files.contains_key(&path) {
                self.may_appear(&path);
                self.files.insert(path.clone(), 0);
            } else if op.flags & 0o1000 != 0 {
                self.files.insert(path.clone(), 0);
            }
        } else {
            assert!(self.files.contains_key(&path), "{}", path.escape_ascii());
        }
        if let Some(&size) = self.files.get(&path) {
            assert_eq!(op.size_bytes, Some(size));
        }
        let fd = Fd(op.result.value().unwrap() as i32);
        let before = self.open.insert((stream, op.pid, fd), (path, 0, op.flags));
        assert!(before.is_none(), "a descriptor is given once");
    }

    fn on_descriptor(&mut self, stream: usize, op: &Op) {
        let key = (stream, op.pid, op.fd.unwrap());
        if op.kind == OpKind::Close {
            assert!(self.open.remove(&key).is_some());
            return;
        }
        let (path, position, flags) = self.open.get_mut(&key).unwrap();
        let value = op.result.value().unwrap();
        if op.kind == OpKind::Readdir {
            let below = [path.as_slice(), b"/"].concat();
            let names = self
                .files
                .keys()
                .chain(&self.directories)
                .chain(self.links.keys());
            let entries: u64 = names
                .filter_map(|n| n.strip_prefix(below.as_slice()))
                .filter(|n| !n.contains(&b'/'))
                .map(|n| (19 + n.len() as u64 + 1).next_multiple_of(8))
                .sum::<u64>()
                + 48;
            assert!(entries <= 32 << 10, "small directories only");
            assert_eq!(value, if *position == 0 { entries } else { 0 });
            *position = 1;
            return;
        }
        if op.kind == OpKind::Fstat && self.directories.contains(path) {
            return;
        }
        let size = self.files.get_mut(path).unwrap();
        let implicit = op.record.contains(OpFlags::IMPLICIT_OFFSET);
        match op.kind {
            OpKind::Read => {
                let at = op.offset.unwrap();
                assert!(!implicit || at == *position);
                assert!(*flags & 3 != 1);
                assert_eq!(value, op.length.unwrap().min(size.saturating_sub(at)));
                *position = if implicit { at + value } else { *position };
            }
            OpKind::Write => {
                let at = op.offset.unwrap();
                if *flags & 0o2000 != 0 {
                    *position = *size;
                }
                assert!(!implicit || at == *position);
                assert!(*flags & 3 != 0);
                assert!(op.length.unwrap() > 0);
                assert_eq!(value, op.length.unwrap());
                *position = if implicit { at + value } else { *position };
                *size = (*size).max(at + value);
            }
            OpKind::Seek => {
                *position = if op.flags == 2 {
                    *size
                } else {
                    op.offset.unwrap()
                };
                assert_eq!(value, *position);
            }
            OpKind::Fstat | OpKind::Fsync => assert_eq!(op.size_bytes, Some(*size)),
            other => panic!("{other:?}"),
        }
    }
}

/// Runs a phase, streams taking turns by batches at random once each has begun; stops after `most`
/// batches or when all have begun.
fn run_phase(model: &mut Model, mut phase: Phase, random: &mut Random, most: usize) -> u64 {
    let mut live: Vec<usize> = (0..phase.streams.len()).collect();
    let mut operations = 0;
    let mut batch = Vec::new();
    let streams = live.len();
    for turn in 0..most.max(streams) {
        if live.is_empty() {
            break;
        }
        let chosen = match turn {
            first if first < streams && live.len() == streams => first,
            _ => random.below(live.len() as u64) as usize,
        };
        let stream = live[chosen];
        let source = &mut phase.streams[stream];
        batch.clear();
        if source.next_batch(&mut batch).unwrap() == 0 {
            live.swap_remove(chosen);
        }
        for op in &batch {
            model.apply(stream, op, source.paths());
        }
        operations += batch.len() as u64;
    }
    // What is open is closed with its stream.
    model.open.clear();
    operations
}

/// What reads a file of the user's, and filebench's scripts, have tests of their own.
fn is_tested_elsewhere(name: &str) -> bool {
    ["wml", "filerunner", "model"].contains(&name) || personalities::names().contains(&name)
}

#[test]
fn every_workload_is_in_the_list_above() {
    for workload in WORKLOADS {
        let prefix = format!("{}:", workload.name);
        assert!(
            is_tested_elsewhere(workload.name)
                || SPECS
                    .iter()
                    .any(|s| s.starts_with(&prefix) || *s == workload.name),
            "{}",
            workload.name
        );
    }
}

#[test]
fn every_program_is_a_valid_history_and_removes_what_it_made() {
    for spec in SPECS {
        for seed in 0..3 {
            let mut random = Random::new(fsage_core::Seed(seed));
            let mut model = Model::of(spec);
            let before = model.files.clone();
            for phase in program(spec, Length::Count).phases {
                let name = format!("{spec}: {phase:?}");
                let role = phase.role;
                let operations = run_phase(&mut model, phase, &mut random, usize::MAX);
                let by_then = role != Role::Teardown && !name.contains("varying");
                assert!(operations > 0 || !by_then, "{name} does nothing");
            }
            assert!(
                model.files == before && model.directories.is_empty(),
                "{spec}"
            );
            assert!(model.links.is_empty(), "{spec}");
        }
    }
}

#[test]
fn a_run_for_a_time_goes_on_and_may_be_stopped_behind_any_batch() {
    for spec in SPECS {
        for batches in [1, 7, 400] {
            let mut random = Random::new(fsage_core::Seed(batches as u64));
            let mut model = Model::of(spec);
            let before = model.files.clone();
            for phase in program(spec, Length::Endless).phases {
                let name = format!("{spec}: {phase:?}");
                let runs = phase.role == Role::Run;
                let most = if runs { batches } else { usize::MAX };
                let operations = run_phase(&mut model, phase, &mut random, most);
                assert!(!runs || operations >= 5 * batches as u64, "{name} ends");
            }
            assert!(
                model.files == before && model.directories.is_empty(),
                "{spec}"
            );
        }
    }
}

/// Kind, path, offset, length, result.
type Seen = (OpKind, Vec<u8>, Option<u64>, Option<u64>, i64);

fn all(mut phase: Phase) -> Vec<Vec<Seen>> {
    phase
        .streams
        .iter_mut()
        .map(|stream| {
            let mut ops = Vec::new();
            while stream.next_batch(&mut ops).unwrap() > 0 {}
            let name = |op: &Op| op.path.map(|p| stream.paths().get(p).to_vec());
            ops.iter()
                .map(|o| {
                    (
                        o.kind,
                        name(o).unwrap_or_default(),
                        o.offset,
                        o.length,
                        o.result.raw(),
                    )
                })
                .collect()
        })
        .collect()
}

#[test]
fn the_parameters_decide_everything_and_a_phase_alone_is_the_same() {
    for spec in SPECS {
        let together: Vec<_> = program(spec, Length::Count)
            .phases
            .into_iter()
            .map(all)
            .collect();
        let again: Vec<_> = program(spec, Length::Count)
            .phases
            .into_iter()
            .map(all)
            .collect();
        assert!(together == again, "{spec}");
        for (i, expected) in together.iter().enumerate() {
            let mut alone = program(spec, Length::Count).phases;
            assert!(all(alone.swap_remove(i)) == *expected, "{spec}: phase {i}");
        }
    }
}

#[test]
fn another_seed_gives_other_operations() {
    for spec in SPECS {
        let parsed: WorkloadSpec = spec.parse().unwrap();
        if parsed.seed().is_none() {
            continue;
        }
        let phases = |spec: WorkloadSpec| -> Vec<_> {
            let inputs = inputs(&spec, Length::Count);
            spec.program(&inputs)
                .unwrap()
                .phases
                .into_iter()
                .map(all)
                .collect()
        };
        let other = parsed.clone().with_seed(fsage_core::Seed(77));
        let same = phases(parsed) == phases(other);
        let nothing_is_drawn = spec.contains("seeks=0,files=0") || spec.contains("sequential=100");
        assert_eq!(same, nothing_is_drawn, "{spec}");
    }
}
