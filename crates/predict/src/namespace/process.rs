//! Processes: working directories, descriptors and open file descriptions.

use fsage_core::{Fd, Pid};
use rustc_hash::FxHashMap;

use super::tree::Ino;

/// An open file description: a dense number, given again after its last close.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OpenId(pub u32);

/// What one open made.
#[derive(Debug, Clone, Copy)]
pub struct OpenFile {
    /// The file.
    pub ino: Ino,
    /// Where an operation without an offset begins.
    pub position: u64,
    /// Descriptors that share it.
    pub refs: u32,
    /// A number that no other open has; 0 never occurs.
    pub serial: u32,
    /// Flags of open(2).
    pub flags: u32,
    /// Whether this open created the file.
    pub created: bool,
    /// Whether this open cut a file with data to nothing.
    pub truncated: bool,
    /// Whether anything was written through it.
    pub written: bool,
}

/// `O_CLOEXEC`.
const CLOEXEC: u32 = 0o2_000_000;
/// Descriptors that lie in a flat vector.
const FLAT: usize = 1024;

#[derive(Debug, Clone)]
struct Process {
    cwd: Ino,
    flat: Vec<u32>,
    high: FxHashMap<i32, u32>,
}

/// Descriptors that all processes may have: as many as a machine holds at once, and few enough for
/// memory. A child beyond them begins with none.
const DESCRIPTORS: usize = 1 << 24;

impl Process {
    /// Places for descriptors, taken or not.
    fn places(&self) -> usize {
        self.flat.len() + self.high.len()
    }
}

/// Every process of the trace, and every open file description.
#[derive(Debug, Clone, Default)]
pub struct Processes {
    index: FxHashMap<Pid, usize>,
    all: Vec<Process>,
    last: Option<(Pid, usize)>,
    opens: Vec<OpenFile>,
    free: Vec<u32>,
    serials: u32,
    /// Places for descriptors when they were counted last, and those made by forks since.
    places: usize,
    since: usize,
}

impl Processes {
    #[inline]
    fn slot(&mut self, pid: Pid) -> usize {
        if let Some((last, slot)) = self.last
            && last == pid
        {
            return slot;
        }
        let fresh = self.all.len();
        let slot = *self.index.entry(pid).or_insert(fresh);
        if slot == fresh {
            self.all.push(Process {
                cwd: Ino::NONE,
                flat: Vec::new(),
                high: FxHashMap::default(),
            });
        }
        self.last = Some((pid, slot));
        slot
    }

    fn process(&mut self, pid: Pid) -> Option<&mut Process> {
        let slot = self.slot(pid);
        self.all.get_mut(slot)
    }

    /// The working directory; [`Ino::NONE`] if it is not known.
    pub fn cwd(&mut self, pid: Pid) -> Ino {
        self.process(pid).map_or(Ino::NONE, |p| p.cwd)
    }

    /// Changes the working directory.
    pub fn set_cwd(&mut self, pid: Pid, cwd: Ino) {
        if let Some(p) = self.process(pid) {
            p.cwd = cwd;
        }
    }

    /// The open file of a descriptor.
    #[inline]
    pub fn open_of(&mut self, pid: Pid, fd: Fd) -> Option<OpenId> {
        let p = self.process(pid)?;
        let raw = match usize::try_from(fd.0) {
            Ok(i) if i < FLAT => p.flat.get(i).copied()?,
            _ => p.high.get(&fd.0).copied()?,
        };
        raw.checked_sub(1).map(OpenId)
    }

    /// An open file.
    #[inline]
    pub fn open(&self, id: OpenId) -> Option<&OpenFile> {
        self.opens.get(id.0 as usize)
    }

    /// An open file, to change it.
    #[inline]
    pub fn open_mut(&mut self, id: OpenId) -> Option<&mut OpenFile> {
        self.opens.get_mut(id.0 as usize)
    }

    /// Makes an open file without a descriptor.
    pub fn make(&mut self, ino: Ino, flags: u32) -> OpenId {
        self.serials = self.serials.checked_add(1).unwrap_or(1);
        let open = OpenFile {
            ino,
            position: 0,
            refs: 0,
            serial: self.serials,
            flags,
            created: false,
            truncated: false,
            written: false,
        };
        let index = self.free.pop().unwrap_or(self.opens.len() as u32);
        match self.opens.get_mut(index as usize) {
            Some(place) => *place = open,
            None => self.opens.push(open),
        }
        OpenId(index)
    }

    /// Gives the descriptor to an open file; returns what it named before (an implied close).
    pub fn bind(&mut self, pid: Pid, fd: Fd, open: OpenId) -> Option<OpenId> {
        if let Some(o) = self.open_mut(open) {
            o.refs += 1;
        }
        let raw = open.0 + 1;
        let p = self.process(pid)?;
        let before = match usize::try_from(fd.0) {
            Ok(i) if i < FLAT => {
                if i >= p.flat.len() {
                    p.flat.resize(i + 1, 0);
                }
                p.flat.get_mut(i).map_or(0, |s| std::mem::replace(s, raw))
            }
            _ => p.high.insert(fd.0, raw).unwrap_or(0),
        };
        before.checked_sub(1).map(OpenId)
    }

    /// Takes the descriptor away; returns the open file it named.
    #[inline]
    pub fn unbind(&mut self, pid: Pid, fd: Fd) -> Option<OpenId> {
        let p = self.process(pid)?;
        let raw = match usize::try_from(fd.0) {
            Ok(i) if i < FLAT => p.flat.get_mut(i).map_or(0, std::mem::take),
            _ => p.high.remove(&fd.0).unwrap_or(0),
        };
        raw.checked_sub(1).map(OpenId)
    }

    /// One descriptor fewer; whether it was the last one, so that the number is given again.
    pub fn release(&mut self, open: OpenId) -> bool {
        let Some(o) = self.opens.get_mut(open.0 as usize) else {
            return false;
        };
        o.refs = o.refs.saturating_sub(1);
        if o.refs == 0 {
            self.free.push(open.0);
        }
        o.refs == 0
    }

    /// A child process with copies of the parent's descriptors.
    pub fn fork(&mut self, parent: Pid, child: Pid) {
        if parent == child {
            return;
        }
        let Some(mut copy) = self.process(parent).map(|p| p.clone()) else {
            return;
        };
        self.since += copy.places().max(1);
        if self.since >= DESCRIPTORS / 8 {
            self.places = self.all.iter().map(Process::places).sum();
            self.since = copy.places();
        }
        if self.places + self.since > DESCRIPTORS {
            (copy.flat, copy.high) = (Vec::new(), FxHashMap::default());
        }
        for &raw in copy
            .flat
            .iter()
            .chain(copy.high.values())
            .filter(|&&raw| raw != 0)
        {
            if let Some(o) = self.opens.get_mut(raw as usize - 1) {
                o.refs += 1;
            }
        }
        let slot = self.slot(child);
        if let Some(place) = self.all.get_mut(slot) {
            *place = copy;
        }
    }

    /// Takes away all descriptors of a process (`exec_only`: those that close on exec); the open
    /// files they named go to `closed`.
    pub fn close_all(&mut self, pid: Pid, exec_only: bool, closed: &mut Vec<OpenId>) {
        let slot = self.slot(pid);
        let Some(p) = self.all.get_mut(slot) else {
            return;
        };
        let opens = &self.opens;
        let goes = |raw: u32| {
            raw != 0
                && (!exec_only
                    || opens
                        .get(raw as usize - 1)
                        .is_some_and(|o| o.flags & CLOEXEC != 0))
        };
        for raw in p.flat.iter_mut().filter(|r| goes(**r)) {
            closed.push(OpenId(std::mem::take(raw) - 1));
        }
        p.high.retain(|_, &mut raw| {
            if goes(raw) {
                closed.push(OpenId(raw - 1));
            }
            !goes(raw)
        });
        if !exec_only {
            (p.flat, p.high) = (Vec::new(), FxHashMap::default());
        }
    }
}
