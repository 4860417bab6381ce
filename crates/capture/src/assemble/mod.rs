//! From what a backend saw to operations.
//!
//! The assembler follows what each process has open, where it is and what it has mapped; fills in
//! what an event does not tell by itself (the directory that a relative path starts from, the file
//! behind a name, offsets); splits and merges events into operations as
//! [`OpKind`] defines them; drops what lies outside of the directories asked
//! for and what is no file (pipes, sockets, devices); and hands the rest on in the order of start.

mod data;
mod devices;
mod events;
mod fds;
mod filter;
mod moved;
mod names;
mod order;
mod paths;
mod process;
mod reached;
mod root;
mod threads;
mod waits;

use std::path::PathBuf;
use std::rc::Rc;

use fsage_core::{Fd, FileId, Op, OpFlags, OpKind, OpSink, Outcome, PathTable, Pid, Tid};
use fsage_namespace::path::join;
use fsage_namespace::pending::is_another;
use rustc_hash::{FxHashMap, FxHashSet};

pub(crate) use events::exit_status;

use crate::CaptureError;
use crate::raw::{RawCall, RawEvent, RawFile};
use filter::Filter;
use process::Processes;

/// Generations remembered; stat(2) does not tell them.
const GENERATIONS_LIMIT: usize = 1 << 20;

/// Programs of more processes are not named.
const PROGRAM_NAMES: usize = 4096;

/// Paths held, and their bytes, at which those that are not needed any more are forgotten.
const PATHS_LIMIT: usize = 1 << 18;
const PATHS_BYTES: usize = 24 << 20;

/// The generation seen last of an inode, and the type of what had it (`S_IFMT`), 0 where nothing told.
#[derive(Clone, Copy)]
struct Generation {
    generation: u32,
    kind: u32,
}

/// Turns events into operations.
pub struct Assembler {
    paths: PathTable,
    processes: Processes,
    /// How many threads processes have beside their first one.
    threads: FxHashMap<Pid, u32>,
    names: names::Names,
    devices: devices::Devices,
    generations: FxHashMap<(u64, u64), Generation>,
    /// The program that a process has begun to run, until its execve returns.
    programs: FxHashMap<Pid, FileId>,
    /// What processes ran last, by name.
    program_names: std::collections::BTreeMap<u32, String>,
    filter: Filter,
    /// Files last seen under a name that the filter takes, for what tells a file and no name.
    wanted_files: FxHashSet<(u64, u64)>,
    order: order::Order,
    /// `CLOCK_MONOTONIC` at which operations' time is 0.
    base_ns: u64,
    /// Whether the operation at hand touches anything that is wanted.
    wanted: bool,
    /// Whether what would tell its name was lost.
    unknown: bool,
    /// Events were lost for want of room: what they told is missing from here on.
    gaps: bool,
    /// For how long threads were held back that no operation tells yet, in nanoseconds.
    held_back: FxHashMap<Tid, u64>,
    waits: waits::Waits,
    operations: u64,
    lost: u64,
    lost_32_bit: u64,
    left_out: u64,
    nameless: u64,
    mounted_again: u64,
    /// Renames by others so far.
    renames: u32,
    strayed: u64,
    end_ns: u64,
}

impl Assembler {
    /// An assembler whose operations' time is 0 at `base_ns` of `CLOCK_MONOTONIC`; it passes what
    /// touches a file below one of `under`, everything if there is none.
    ///
    /// Errors: one of the directories is not there.
    pub fn new(base_ns: u64, under: &[PathBuf]) -> Result<Self, CaptureError> {
        Ok(Self {
            paths: PathTable::new(),
            processes: Processes::default(),
            threads: FxHashMap::default(),
            names: names::Names::default(),
            devices: devices::Devices::default(),
            generations: FxHashMap::default(),
            programs: FxHashMap::default(),
            program_names: std::collections::BTreeMap::new(),
            filter: Filter::new(under)?,
            wanted_files: FxHashSet::default(),
            order: order::Order::default(),
            base_ns,
            wanted: true,
            unknown: false,
            gaps: false,
            held_back: FxHashMap::default(),
            waits: waits::Waits::default(),
            operations: 0,
            lost: 0,
            lost_32_bit: 0,
            left_out: 0,
            nameless: 0,
            mounted_again: 0,
            renames: 0,
            strayed: 0,
            end_ns: 0,
        })
    }

    /// Whether it will be told what threads wait for.
    pub fn expect_waits(&mut self, known: bool) {
        self.waits.known = known;
    }

    /// Looks at a process that runs already: what it has open and mapped, and where it is.
    pub fn adopt(&mut self, pid: Pid) {
        if self.processes.knows(pid.0) {
            self.processes.exit(pid.0);
        }
        process::read_proc(pid, &mut self.processes);
        self.adopt_threads(pid);
    }

    /// The programs that processes ran, by their number.
    pub fn take_program_names(&mut self) -> std::collections::BTreeMap<u32, String> {
        std::mem::take(&mut self.program_names)
    }

    /// A process runs this program now.
    fn name_program(&mut self, pid: Pid, path: &[u8]) {
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        if self.program_names.len() < PROGRAM_NAMES || self.program_names.contains_key(&pid.0) {
            let name = String::from_utf8_lossy(name).into_owned();
            self.program_names.insert(pid.0, name);
        }
    }

    /// Takes an event.
    pub fn take(&mut self, event: RawEvent) {
        match event {
            RawEvent::Call(mut call) => {
                call.pid = self.task_of(call.pid, call.tid);
                self.everybodys_paths(&mut call);
                self.call(&call);
            }
            RawEvent::Lost { count, of_32_bit } => {
                self.lost += count + of_32_bit;
                self.lost_32_bit += of_32_bit;
                self.gaps |= count > 0;
            }
            event => self.event(event),
        }
    }

    /// Hands on the operations whose turn it is; all of them, if this is the end.
    pub fn flush(&mut self, sink: &mut dyn OpSink, end: bool) -> Result<(), CaptureError> {
        while let Some(op) = self.order.pop(end) {
            sink.push(&op, &self.paths)?;
            self.operations += 1;
        }
        self.forget_paths();
        Ok(())
    }

    /// Keeps memory bounded however many paths there are: those of operations that were handed on
    /// are forgotten at times.
    fn forget_paths(&mut self) {
        if self.paths.len() < PATHS_LIMIT && self.paths.text_bytes() < PATHS_BYTES {
            return;
        }
        let old = self.paths.take();
        let paths = &mut self.paths;
        for op in self.order.held() {
            for id in [&mut op.path, &mut op.path2, &mut op.dir, &mut op.dir2] {
                *id = id.and_then(|id| paths.intern(old.get(id)));
            }
        }
    }

    /// Operations handed on.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// Events lost before they came here, and operations left out because of them.
    pub fn lost(&self) -> u64 {
        self.lost + self.left_out
    }

    /// Operations left out because what would tell whether they are wanted was lost.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Operations handed on without the name that a lost event would have told.
    pub fn nameless(&self) -> u64 {
        self.nameless
    }

    /// How often a directory was mounted at a second place, or moved: names there lead to files that have others.
    pub fn mounted_again(&self) -> u64 {
        self.mounted_again
    }

    /// How often a directory had another name than was known, as somebody else had renamed it, and the new one could not be
    /// found: names relative to it are told with the old one.
    pub fn strayed(&self) -> u64 {
        self.strayed
    }

    /// Of these, calls of 32-bit programs.
    pub fn lost_32_bit(&self) -> u64 {
        self.lost_32_bit
    }

    /// The watched processes that have not ended, by their number.
    pub fn running_on(&self) -> Vec<Pid> {
        let mut pids: Vec<Pid> = self.processes.tasks().map(Pid).collect();
        pids.retain(|&pid| process::runs(pid));
        pids.sort_unstable();
        pids
    }

    /// Operations handed on after one that started later.
    pub fn late(&self) -> u64 {
        self.order.late
    }

    /// The latest end of an operation, in ns since the capture's start.
    pub fn end_ns(&self) -> u64 {
        self.end_ns
    }

    fn since_start(&self, ns: u64) -> u64 {
        ns.saturating_sub(self.base_ns)
    }

    fn call(&mut self, call: &RawCall) {
        self.wanted = self.filter.takes_all();
        self.unknown = false;
        if call.held_back_ns > 0 {
            let held = self.held_back.entry(call.tid).or_default();
            *held = held.saturating_add(call.held_back_ns);
        }
        let nr = libc::c_long::from(call.nr);
        let _ = self.data(nr, call)
            || self.descriptor(nr, call)
            || self.path_call(nr, call)
            || self.root_call(nr, call);
    }

    /// An operation with what every call tells.
    fn begin(&self, kind: OpKind, call: &RawCall) -> Op {
        let mut op = Op::new(kind, call.pid, call.tid, self.since_start(call.start_ns));
        op.latency_ns = Some(call.latency_ns);
        op.result = Outcome::from_raw(call.result);
        op.pages_missed = call.pages_missed;
        op.pages_ahead = call.pages_ahead;
        if call.path_truncated {
            op.record |= OpFlags::PATH_TRUNCATED;
        }
        if call.request {
            op.record |= OpFlags::URING;
        }
        op
    }

    /// An operation on the descriptor `fd`, whose file is `file`.
    fn begin_fd(&mut self, kind: OpKind, call: &RawCall, fd: u64, file: Option<&RawFile>) -> Op {
        let mut op = self.begin(kind, call);
        match file {
            Some(file) if call.request && fd == u64::MAX => self.set_registered(&mut op, file),
            _ => self.set_descriptor(&mut op, fd as i32, file),
        }
        op
    }

    fn set_descriptor(&mut self, op: &mut Op, fd: i32, file: Option<&RawFile>) {
        op.fd = Some(Fd(fd));
        if let Some(file) = file {
            self.set_file(op, file);
        }
        let open = self.open_of(op.pid, fd);
        let same = |open: &process::Open| !is_another(open.file, op.file);
        let Some(open) = open.filter(same) else {
            self.unknown |= self.gaps && file.is_some();
            if let Some(id) = op.file {
                self.wanted = self.wanted || self.wants_file(id);
            }
            return;
        };
        self.wanted |= open.wanted;
        if let Some(path) = open.path {
            self.wanted = self.wanted || self.filter.takes_path(&path);
            if open.inherited {
                op.path = self.paths.intern(&path);
            }
        }
    }

    /// Identity, size and flags of the file behind an operation.
    fn set_file(&mut self, op: &mut Op, file: &RawFile) {
        let kind = file.mode & libc::S_IFMT;
        if kind == libc::S_IFDIR {
            op.record |= OpFlags::DIRECTORY;
        } else if !matches!(kind, libc::S_IFREG | libc::S_IFLNK) && file.mode != 0 {
            op.record |= OpFlags::NOT_A_FILE;
            return;
        }
        let flags = file.open_flags as i32;
        if flags & libc::O_DIRECT != 0 {
            op.record |= OpFlags::DIRECT;
        }
        if flags & libc::O_APPEND != 0 {
            op.record |= OpFlags::APPEND;
        }
        op.file = Some(self.identify(file));
        op.size_bytes = Some(file.size_bytes);
    }

    fn identify(&mut self, file: &RawFile) -> FileId {
        let dev = self.devices.shown(file.dev);
        self.wanted |= self.filter.takes_device(dev);
        let key = (dev.0, file.ino);
        let mut generation = file.generation;
        let kind = file.mode & libc::S_IFMT;
        if generation == 0 {
            // A number that something of another kind has now was given again.
            let known = self.generations.get(&key);
            let same = known.filter(|of| kind == 0 || of.kind == 0 || of.kind == kind);
            generation = same.map_or(0, |of| of.generation);
        } else if self.generations.get(&key).map(|of| of.generation) != Some(generation) {
            if self.generations.len() >= GENERATIONS_LIMIT {
                self.generations.clear();
            }
            self.generations
                .insert(key, Generation { generation, kind });
        }
        FileId {
            dev,
            ino: file.ino,
            generation,
        }
    }

    /// Puts an operation into order, unless nobody wants it.
    fn emit(&mut self, mut op: Op) {
        self.end_ns = self.end_ns.max(op.end_ns());
        let is_file = !op.record.contains(OpFlags::NOT_A_FILE) || op.kind == OpKind::Open;
        if !is_file {
            return;
        }
        op.pid = Pid(self.processes.process_of(op.pid.0, op.tid.0));
        if self.wanted {
            self.nameless += u64::from(self.unknown);
            if let Some(held) = self.held_back.get_mut(&op.tid) {
                op.record |= OpFlags::held_back(held);
            }
            self.waits.tell(&mut op);
            self.order.push(op);
        } else {
            self.left_out += u64::from(self.unknown);
        }
    }

    /// The absolute path of what `path` names, relative to the directory `dir` or, without one, to
    /// the process's; with the directory. `None` where that is unknown.
    fn resolve(&mut self, pid: Pid, dir_fd: Option<i32>, path: &[u8]) -> Resolved {
        self.meet(pid);
        let directory = match dir_fd {
            _ if path.first() == Some(&b'/') => None,
            Some(fd) if fd != libc::AT_FDCWD => self.directory_of(pid, fd),
            _ => self.working_directory(pid),
        };
        if directory.is_none() && path.first() != Some(&b'/') {
            self.unknown |= self.gaps;
            return Resolved {
                directory: None,
                absolute: None,
            };
        }
        let absolute = join(directory.as_deref().unwrap_or_default(), path);
        self.wanted = self.wanted || self.filter.takes_path(&absolute);
        Resolved {
            directory,
            absolute: Some(absolute),
        }
    }
}

/// What a path means to the process that gave it.
struct Resolved {
    /// The directory it starts from, unless it is absolute.
    directory: Option<Rc<[u8]>>,
    absolute: Option<Vec<u8>>,
}
