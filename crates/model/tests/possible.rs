//! What a model does can be done: page faults lie in their files, only files are read and only directories listed; and
//! what is counted of it are files as files, directories as directories and who begins others as a process.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::collections::BTreeMap;
use std::sync::Arc;

use fsage_core::{Errno, Fd, FileId, Op, OpFlags, OpKind, Outcome, PathId, Pid, Tid};
use fsage_model::fsm::{Call, Character, Generator, Model, Options, Type, outline};

use crate::common::Trace;

const O_DIRECTORY: u32 = 0o200_000;
const SEEDS: [u64; 3] = [1, 42, 7];

impl Trace {
    fn named(&mut self, kind: OpKind, path: &str, change: &dyn Fn(&mut Op)) {
        let path = self.paths.intern(path.as_bytes());
        self.add(kind, &|op| {
            op.path = path;
            change(op);
        });
    }

    /// `path` is made with so many bytes, under another name first.
    fn replaces(&mut self, path: &str, ino: u64, bytes: u64) {
        let lock = format!("{path}.lock");
        let id = Some(file(ino));
        self.named(OpKind::Open, &lock, &|op| {
            (op.flags, op.result, op.file) = (0o302, Outcome::ok(4), id);
            op.size_bytes = Some(0);
        });
        self.add(OpKind::Write, &|op| {
            (op.fd, op.offset, op.length) = (Some(Fd(4)), Some(0), Some(bytes));
            (op.result, op.record) = (Outcome::ok(bytes), OpFlags::IMPLICIT_OFFSET);
        });
        self.on(OpKind::Close, 4);
        let to = self.paths.intern(path.as_bytes());
        self.named(OpKind::Rename, &lock, &|op| (op.path2, op.file) = (to, id));
    }

    /// All of it is looked at through a mapping, the last page first.
    fn maps(&mut self, path: &str, ino: u64, bytes: u64) {
        let id = Some(file(ino));
        self.named(OpKind::Open, path, &|op| {
            (op.size_bytes, op.result, op.file) = (Some(bytes), Outcome::ok(3), id);
        });
        self.on(OpKind::Fstat, 3);
        self.add(OpKind::Mmap, &|op| {
            (op.fd, op.length, op.file) = (Some(Fd(3)), Some(bytes), id);
        });
        self.on(OpKind::Close, 3);
        for page in (0..bytes.div_ceil(4096)).rev() {
            self.add(OpKind::Fault, &|op| {
                (op.offset, op.length) = (Some(page * 4096), Some(4096));
                (op.file, op.size_bytes) = (id, Some(bytes));
            });
        }
        self.add(OpKind::Munmap, &|op| {
            (op.offset, op.length, op.file) = (Some(0), Some(bytes), id);
        });
    }

    /// A directory is listed.
    fn lists(&mut self, path: &str, ino: u64) {
        let directory = |op: &mut Op| {
            (op.file, op.record) = (Some(file(ino)), OpFlags::DIRECTORY);
            op.size_bytes = Some(4096);
        };
        self.named(OpKind::Open, path, &|op| {
            (op.flags, op.result) = (O_DIRECTORY, Outcome::ok(3));
            directory(op);
        });
        for more in [200, 0] {
            self.add(OpKind::Readdir, &|op| {
                (op.fd, op.length, op.result) = (Some(Fd(3)), Some(32_768), Outcome::ok(more));
                directory(op);
            });
        }
    }

    /// A file is read through another descriptor.
    fn reads_all(&mut self, path: &str, bytes: u64) {
        self.named(OpKind::Open, path, &|op| {
            (op.size_bytes, op.result) = (Some(bytes), Outcome::ok(5));
        });
        for (offset, moved) in [(0, bytes), (bytes, 0)] {
            self.add(OpKind::Read, &|op| {
                (op.fd, op.offset, op.length) = (Some(Fd(5)), Some(offset), Some(65_536));
                (op.result, op.record) = (Outcome::ok(moved), OpFlags::IMPLICIT_OFFSET);
            });
        }
        self.on(OpKind::Close, 5);
    }
}

fn file(ino: u64) -> FileId {
    FileId {
        ino,
        ..FileId::default()
    }
}

fn calls(model: &Model, seed: u64) -> Vec<Call> {
    let options = Options {
        seed,
        ..Options::default()
    };
    let mut generator = Generator::new(Arc::new(model.clone()), options).unwrap();
    let batches = std::iter::from_fn(|| generator.any());
    batches.flat_map(|(_, batch)| batch.calls).collect()
}

#[test]
fn page_faults_lie_in_their_files() {
    let mut trace = Trace {
        pid: 7,
        uneven: true,
        ..Trace::default()
    };
    let mut faults = 0;
    // Files of all sizes that replace others of the same name, and some that stay.
    for round in 0..300_u64 {
        let bytes = 1 + round * 97 % 20_000;
        let path = format!("/w/config{}", round % 3);
        trace.replaces(&path, 100 + round, bytes);
        trace.maps(&path, 100 + round, bytes);
        let page = 4096 * (1 + round % 5);
        trace.maps(&format!("/w/old{round}"), 1000 + round, page - round % 50);
        faults += bytes.div_ceil(4096) + 1 + round % 5;
    }
    let model = trace.model();
    for seed in SEEDS {
        let mut done = 0;
        for op in calls(&model, seed).iter().map(|call| &call.op) {
            if op.kind != OpKind::Fault {
                continue;
            }
            done += 1;
            let whole = op.size_bytes.unwrap().div_ceil(4096) * 4096;
            let (from, length) = (op.offset.unwrap(), op.length.unwrap());
            assert!(
                from % 4096 == 0 && length > 0 && from + length <= whole,
                "seed {seed}: {op:?}"
            );
        }
        assert!(done * 100 >= faults * 95, "seed {seed}: {done} of {faults}");
    }
}

/// A tree of which a process has a directory open while it reads the files, some below directories that were moved first.
fn tree() -> (Trace, u64) {
    let mut trace = Trace {
        pid: 7,
        uneven: true,
        ..Trace::default()
    };
    let mut reads = 0;
    for directory in 0..60_u64 {
        let path = format!("/w/d{directory}");
        let moved = format!("/w/m{directory}");
        // Nothing tells what is moved before it is listed.
        let to = trace.paths.intern(moved.as_bytes());
        if directory % 2 == 0 {
            trace.named(OpKind::Rename, &path, &|op| op.path2 = to);
        }
        let at = if directory % 2 == 0 { &moved } else { &path };
        trace.named(OpKind::Stat, at, &|op| {
            (op.record, op.size_bytes) = (OpFlags::DIRECTORY, Some(4096));
        });
        trace.lists(at, 5000 + directory);
        for number in 0..directory % 7 {
            trace.reads_all(&format!("{at}/f{number}"), 300 + 911 * number);
            reads += 2;
        }
        trace.on(OpKind::Close, 3);
        // Nothing but this tells of these.
        trace.named(OpKind::Stat, &format!("/w/e{directory}"), &|op| {
            (op.record, op.size_bytes) = (OpFlags::DIRECTORY, Some(4096));
        });
    }
    (trace, reads)
}

#[test]
fn files_are_read_and_directories_listed() {
    let (trace, reads) = tree();
    let model = trace.model();
    let before = |kind: Type| {
        let of = model.classes.iter().filter(|class| class.kind == kind);
        of.map(|class| class.before).sum::<u64>()
    };
    // Those that were moved, those that were not, and those that were only looked at.
    assert_eq!(before(Type::Directory), 30 + 30 + 60);
    for seed in SEEDS {
        let mut is_directory: BTreeMap<Fd, bool> = BTreeMap::new();
        let mut there: BTreeMap<Vec<u8>, bool> = BTreeMap::new();
        let mut generator = Generator::new(Arc::new(model.clone()), Options::default()).unwrap();
        for (path, kind, _) in generator.population() {
            there.insert(path.to_vec(), kind == Type::Directory);
        }
        let mut done = 0;
        for call in calls(&model, seed) {
            let op = &call.op;
            let path = call.path.as_ref().map(|p| p.to_vec()).unwrap_or_default();
            match op.kind {
                OpKind::Rename if op.result.is_ok() => {
                    let to = call.path2.unwrap().to_vec();
                    if let Some(kind) = there.remove(&path) {
                        there.insert(to, kind);
                    }
                }
                OpKind::Open if op.result.is_ok() => {
                    let kind = there.get(&path).copied();
                    let asks = op.flags & O_DIRECTORY != 0;
                    assert!(kind.is_none_or(|is| is == asks), "seed {seed}: {op:?}");
                    let fd = op.result.value().unwrap() as i32;
                    is_directory.insert(Fd(fd), asks);
                }
                OpKind::Read => {
                    done += 1;
                    assert_eq!(is_directory.get(&op.fd.unwrap()), Some(&false), "{op:?}");
                }
                OpKind::Readdir => {
                    assert_eq!(is_directory.get(&op.fd.unwrap()), Some(&true), "{op:?}");
                }
                _ => {}
            }
        }
        assert!(done >= reads * 95 / 100, "seed {seed}: {done} of {reads}");
    }
}

/// Adds an operation of a process on a name, where it is not empty.
type Add<'a> = &'a mut dyn FnMut(OpKind, u32, &str, &dyn Fn(&mut Op));

/// A trace of what `fill` adds, told the second name of a link, and what is known of it.
fn characterised(fill: impl Fn(Add<'_>, Option<PathId>)) -> (Trace, Character) {
    let mut trace = Trace::default();
    let mut character = Character::new(&[], 0, 1 << 30);
    let second = trace.paths.intern(b"/w/second");
    let add: Add<'_> = &mut |kind, pid, path, change| {
        let path = (!path.is_empty()).then(|| trace.paths.intern(path.as_bytes()));
        let mut op = Op::new(kind, Pid(pid), Tid(pid), trace.now_ns);
        (op.latency_ns, op.result) = (Some(500), Outcome::ok(0));
        op.path = path.flatten();
        change(&mut op);
        trace.now_ns += 1000;
        character.take(&op, &trace.paths);
        trace.gather.take(&op, &trace.paths);
    };
    fill(add, second);
    (trace, character)
}

#[test]
fn what_is_counted_is_the_same_of_a_trace_and_of_its_model() {
    let (trace, character) = characterised(|add, second| {
        // Who does nothing but begin others, one after the other, and wait for them.
        for (child, path) in [(11, "/w/a"), (12, "/w/b"), (13, "/w/c")] {
            add(OpKind::Fork, 10, "", &|op| op.length = Some(child.into()));
            for _ in 0..20 {
                add(OpKind::Stat, child, path, &|op| op.size_bytes = Some(10));
                add(OpKind::Access, child, path, &|_| {});
            }
            add(OpKind::Stat, child, "/w", &|op| {
                op.record = OpFlags::DIRECTORY;
            });
            add(OpKind::Stat, child, "/w/none", &|op| {
                op.result = Outcome::err(Errno::ENOENT);
            });
            add(OpKind::Exit, child, "", &|op| op.length = Some(1));
        }
        add(OpKind::Open, 10, "/w/new", &|op| {
            (op.flags, op.result) = (0o301, Outcome::ok(3));
        });
        add(OpKind::Close, 10, "", &|op| op.fd = Some(Fd(3)));
        add(OpKind::Mkdir, 10, "/w/made", &|_| {});
        add(OpKind::Link, 10, "/w/new", &|op| op.path2 = second);
        add(OpKind::Stat, 10, "/w/second", &|_| {});
    });
    let found = character.finish().unwrap();
    // Not the directories, not what nobody found, and no second name.
    assert_eq!(found.popularity.files, 4);
    let model = Arc::new(trace.model());
    let played = outline(Arc::clone(&model)).unwrap();
    assert_eq!((played.files_before, played.files_made), (3, 1));
    assert_eq!((played.directories_before, played.directories_made), (1, 1));
    let processes: u64 = found.groups.iter().map(|group| group.processes).sum();
    let of_model: u64 = model.groups.iter().map(|group| group.processes).sum();
    assert_eq!((processes, of_model), (4, 4));
    assert_eq!(found.groups.len(), model.groups.len());
    // The one that begins the others is there all the time.
    assert_eq!(found.concurrency.threads_at_once, 2);
    assert_eq!(played.at_once, 2);
}

#[test]
fn who_only_begins_others_is_a_process_of_both() {
    let (trace, character) = characterised(|add, _| {
        for child in 11..14_u32 {
            add(OpKind::Fork, 10, "", &|op| op.length = Some(child.into()));
            for file in 0..20 {
                add(OpKind::Stat, child, &format!("/w/{child}/{file}"), &|_| {});
            }
            add(OpKind::Exit, child, "", &|op| op.length = Some(1));
        }
        add(OpKind::Exit, 10, "", &|op| op.length = Some(1));
    });
    let found = character.finish().unwrap();
    let processes: u64 = found.groups.iter().map(|group| group.processes).sum();
    let model = trace.model();
    let of_model: u64 = model.groups.iter().map(|group| group.processes).sum();
    assert_eq!((processes, of_model), (4, 4));
    assert_eq!(found.groups.len(), model.groups.len());
}
