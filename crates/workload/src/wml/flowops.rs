//! What each flowop does to the files: filebench 1.5's rules, with the differences that the crate's
//! documentation of the language lists.

use fsage_core::{Fd, OpFlags, OpKind, Outcome};

use crate::ops::{O_CREAT, O_DIRECTORY, O_RDONLY, O_RDWR, O_WRONLY};

use super::code::{Flowop, FlowopKind};
use super::state::{Picked, Shared, Wanted};
use super::thread::{Done, Release, Slot, ThreadStream};

const O_DIRECT: u32 = 0o40_000;
const O_SYNC: u32 = 0o4_010_000;
const POSIX_FADV_RANDOM: u32 = 1;

/// The C library lists a directory through a buffer of this size.
const LISTING_BYTES: u64 = 32 << 10;
/// `struct linux_dirent64` of a name with eight digits.
const ENTRY_BYTES: u64 = 32;

/// The longest rest of a `delay`: a year.
const LONGEST_DELAY_SECONDS: f64 = 3e7;

pub(super) type Answer = Result<Done, String>;

impl ThreadStream {
    /// Does a flowop; its operations go into the batch.
    pub(super) fn execute(&mut self, flowop: &Flowop, held: &mut Shared) -> Answer {
        match flowop.kind {
            FlowopKind::Open => {
                let at = self.descriptor(flowop);
                let done = self.open(flowop, at, held)?;
                self.rotate(flowop, &done);
                Ok(done)
            }
            FlowopKind::Create => self.create(flowop, held),
            FlowopKind::Close => self.close(flowop, held),
            FlowopKind::Delete => self.delete(flowop, held),
            FlowopKind::Stat => self.stat(flowop, held),
            FlowopKind::Fsync => {
                if !self.slot(flowop.fd).open {
                    return Err(format!("descriptor {} is not open", flowop.fd));
                }
                self.fsync(flowop.fd, held);
                Ok(Done::Yes)
            }
            FlowopKind::FsyncSet => {
                for at in 0..self.slots.len() {
                    let slot = self.slot(at);
                    if slot.open && slot.file.map(|(set, _)| set) == flowop.fileset {
                        self.fsync(at, held);
                    }
                }
                Ok(Done::Yes)
            }
            // Writes are over when they return: nothing is left to wait for.
            FlowopKind::AioWait | FlowopKind::Print => Ok(Done::Yes),
            FlowopKind::MakeDirectory | FlowopKind::RemoveDirectory => self.leaf(flowop, held),
            FlowopKind::ListDirectory => self.list(flowop, held),
            FlowopKind::Delay => {
                let seconds = flowop.value.real(&mut self.set.random);
                Ok(Done::Rest(
                    (seconds.min(LONGEST_DELAY_SECONDS) * 1e9) as u64,
                ))
            }
            FlowopKind::Hog => Ok(Done::Compute(flowop.value.whole(&mut self.set.random))),
            FlowopKind::Block
            | FlowopKind::Wakeup
            | FlowopKind::SemBlock
            | FlowopKind::SemPost
            | FlowopKind::EventLimit
            | FlowopKind::OpsLimit
            | FlowopKind::IopsLimit
            | FlowopKind::BandwidthLimit
            | FlowopKind::FinishOnCount
            | FlowopKind::FinishOnBytes => Ok(self.synchronize(flowop, held)),
            FlowopKind::Read
            | FlowopKind::ReadWhole
            | FlowopKind::Write
            | FlowopKind::WriteWhole
            | FlowopKind::Append
            | FlowopKind::AppendRandom
            | FlowopKind::AioWrite => self.transfer(flowop, held),
        }
    }

    pub(super) fn slot(&self, at: usize) -> Slot {
        self.slots.get(at).copied().unwrap_or_default()
    }

    fn set_slot(&mut self, at: usize, slot: Slot) {
        if let Some(place) = self.slots.get_mut(at) {
            *place = slot;
        }
    }

    /// The descriptor that a flowop opens or uses.
    pub(super) fn descriptor(&mut self, flowop: &Flowop) -> usize {
        if flowop.fd > 0 || flowop.rotates == 0 {
            return flowop.fd;
        }
        let first = self.slots.len().saturating_sub(flowop.rotates);
        first + self.rotor % flowop.rotates
    }

    /// The next use of `opennext` takes the next descriptor; one that has to wait takes it again.
    pub(super) fn rotate(&mut self, flowop: &Flowop, done: &Done) {
        let done = matches!(done, Done::Yes);
        self.rotor += usize::from(done && flowop.fd == 0 && flowop.rotates > 0);
    }

    pub(super) fn fd(&self, at: usize) -> Fd {
        Fd(3 + (self.set.first_descriptor + at) as i32)
    }

    /// Where an indexed pick begins.
    fn index(&mut self, flowop: &Flowop, entries: usize) -> Option<usize> {
        let share = flowop.indexed.as_ref()?.real(&mut self.set.random);
        let index = (share * (entries as f64 / 2.0)) as u64;
        Some((index % entries.max(1) as u64) as usize)
    }

    /// Picks a file of the flowop's fileset.
    fn pick(
        &mut self,
        flowop: &Flowop,
        wanted: Wanted,
        held: &mut Shared,
    ) -> Result<Result<(usize, usize), Done>, String> {
        let Some(set) = flowop.fileset else {
            return Err("neither an open descriptor nor a filesetname".to_owned());
        };
        let entries = held.filesets.get(set).map_or(0, |f| f.files.len());
        let from = if flowop.rotates > 0 && wanted == Wanted::Existing {
            // Each thread goes through the files on its own.
            Some(self.pick_rotor)
        } else {
            self.index(flowop, entries)
        };
        let Some(fileset) = held.filesets.get_mut(set) else {
            return Err("its fileset is not there".to_owned());
        };
        Ok(match fileset.pick(wanted, from) {
            Picked::Entry(index) => {
                if flowop.rotates > 0 {
                    self.pick_rotor = index + 1;
                }
                Ok((set, index))
            }
            Picked::Busy => {
                let name = &fileset.tree.definition.name;
                Err(Done::Wait(format!("a file of '{name}' that is not in use")))
            }
            Picked::None => Err(Done::NoFile),
        })
    }

    fn file_path(
        &mut self,
        (set, index): (usize, usize),
        held: &Shared,
    ) -> Result<fsage_core::PathId, String> {
        if let Some(known) = self.known.get(&(set, index)) {
            return Ok(*known);
        }
        let text = held
            .filesets
            .get(set)
            .map_or_else(String::new, |f| f.tree.file(index));
        let id = self.path(&text)?;
        self.known.insert((set, index), id);
        Ok(id)
    }

    pub(super) fn open(&mut self, flowop: &Flowop, at: usize, held: &mut Shared) -> Answer {
        if self.slot(at).open {
            return Err(format!("descriptor {at} is open already, close it first"));
        }
        let picked = match self.pick(flowop, Wanted::Existing, held)? {
            Ok(picked) => picked,
            Err(done) => return Ok(done),
        };
        self.opened(flowop, at, picked, 0, held)?;
        Ok(Done::Yes)
    }

    fn create(&mut self, flowop: &Flowop, held: &mut Shared) -> Answer {
        if self.slot(flowop.fd).open {
            return Err(format!(
                "descriptor {} is open already, close it first",
                flowop.fd
            ));
        }
        let picked = match self.pick(flowop, Wanted::Absent, held)? {
            Ok(picked) => picked,
            Err(done) => return Ok(done),
        };
        self.opened(flowop, flowop.fd, picked, O_CREAT, held)?;
        Ok(Done::Yes)
    }

    /// Opens a picked file.
    fn opened(
        &mut self,
        flowop: &Flowop,
        at: usize,
        picked: (usize, usize),
        flags: u32,
        held: &mut Shared,
    ) -> Result<(), String> {
        let (set, index) = picked;
        let path = self.file_path(picked, held)?;
        let Some(fileset) = held.filesets.get_mut(set) else {
            return Ok(());
        };
        let definition = &fileset.tree.definition;
        let access = match (definition.readonly, definition.writeonly) {
            (true, _) => O_RDONLY,
            (false, true) => O_WRONLY,
            (false, false) => O_RDWR,
        };
        let sync = if flowop.sync { O_SYNC } else { 0 };
        let direct = if flowop.direct { O_DIRECT } else { 0 };
        let mut size = 0;
        if let Some(file) = fileset.files.get_mut(index) {
            file.open += 1;
            size = file.size;
        }
        let mut open = self.op(OpKind::Open);
        open.path = Some(path);
        open.flags = access | flags | sync | direct;
        open.size_bytes = Some(size);
        if flowop.direct {
            open.record |= OpFlags::DIRECT;
        }
        let fd = self.fd(at);
        open.result = Outcome::ok(fd.0 as u64);
        self.batch.push(open);
        if flowop.no_read_ahead {
            let mut advise = self.op(OpKind::Advise);
            advise.fd = Some(fd);
            advise.flags = POSIX_FADV_RANDOM;
            self.batch.push(advise);
        }
        self.set_slot(
            at,
            Slot {
                open: true,
                file: Some(picked),
                position: 0,
                direct: flowop.direct,
            },
        );
        self.releases.push(Release::File {
            fileset: set,
            index,
            exists: true,
        });
        Ok(())
    }

    fn close(&mut self, flowop: &Flowop, _held: &mut Shared) -> Answer {
        let at = flowop.fd;
        let slot = self.slot(at);
        if !slot.open {
            return Err(format!("descriptor {at} is not open"));
        }
        let mut close = self.op(OpKind::Close);
        close.fd = Some(self.fd(at));
        self.batch.push(close);
        if let Some((fileset, index)) = slot.file {
            self.releases.push(Release::Closed { fileset, index });
        }
        self.set_slot(
            at,
            Slot {
                open: false,
                ..slot
            },
        );
        Ok(Done::Yes)
    }

    /// Deletes the file of the named descriptor, if it names one, or any that no thread has open.
    fn delete(&mut self, flowop: &Flowop, held: &mut Shared) -> Answer {
        let at = flowop.fd;
        let slot = self.slot(at);
        let named = slot.file.filter(|_| at > 0);
        let picked = match named {
            Some((set, index)) => {
                let Some(fileset) = held.filesets.get_mut(set) else {
                    return Ok(Done::Yes);
                };
                let others = fileset.files.get(index).map_or(0, |f| f.open) > u32::from(slot.open);
                let there = fileset.files.get(index).is_some_and(|f| f.exists);
                if others || !there {
                    // As in filebench, a file that another thread has open stays.
                    return Ok(Done::Yes);
                }
                if !fileset.claim(index) {
                    return Ok(Done::Wait("the file of its descriptor".to_owned()));
                }
                self.set_slot(at, Slot { file: None, ..slot });
                if slot.open
                    && let Some(file) = fileset.files.get_mut(index)
                {
                    file.open = 0;
                }
                (set, index)
            }
            None => match self.pick(flowop, Wanted::Closed, held)? {
                Ok(picked) => picked,
                Err(done) => return Ok(done),
            },
        };
        let path = self.file_path(picked, held)?;
        let (set, index) = picked;
        let mut unlink = self.op(OpKind::Unlink);
        unlink.path = Some(path);
        if let Some(file) = held
            .filesets
            .get_mut(set)
            .and_then(|f| f.files.get_mut(index))
        {
            unlink.size_bytes = Some(file.size);
            file.size = 0;
            file.settled = 0;
        }
        self.batch.push(unlink);
        self.releases.push(Release::File {
            fileset: set,
            index,
            exists: false,
        });
        Ok(Done::Yes)
    }

    fn stat(&mut self, flowop: &Flowop, held: &mut Shared) -> Answer {
        let slot = self.slot(flowop.fd);
        if flowop.fd > 0 && slot.open {
            let mut fstat = self.op(OpKind::Fstat);
            fstat.fd = Some(self.fd(flowop.fd));
            fstat.size_bytes = slot.file.map(|file| size(file, held));
            self.batch.push(fstat);
            return Ok(Done::Yes);
        }
        let (set, index) = match self.pick(flowop, Wanted::Existing, held)? {
            Ok(picked) => picked,
            Err(done) => return Ok(done),
        };
        let mut stat = self.op(OpKind::Stat);
        stat.path = Some(self.file_path((set, index), held)?);
        stat.size_bytes = Some(size((set, index), held));
        self.batch.push(stat);
        self.releases.push(Release::File {
            fileset: set,
            index,
            exists: true,
        });
        Ok(Done::Yes)
    }

    fn fsync(&mut self, at: usize, held: &Shared) {
        let mut fsync = self.op(OpKind::Fsync);
        fsync.fd = Some(self.fd(at));
        fsync.size_bytes = self.slot(at).file.map(|file| size(file, held));
        self.batch.push(fsync);
    }

    fn leaf(&mut self, flowop: &Flowop, held: &mut Shared) -> Answer {
        let make = flowop.kind == FlowopKind::MakeDirectory;
        let set = flowop.fileset.unwrap_or_default();
        let entries = held.filesets.get(set).map_or(0, |f| f.tree.leaves.len());
        let from = self.index(flowop, entries);
        let Some(fileset) = held.filesets.get_mut(set) else {
            return Ok(Done::NoFile);
        };
        let wanted = if make {
            Wanted::Absent
        } else {
            Wanted::Existing
        };
        let index = match fileset.pick_leaf(wanted, from) {
            Picked::Entry(index) => index,
            Picked::Busy => {
                let name = &fileset.tree.definition.name;
                return Ok(Done::Wait(format!(
                    "a leaf directory of '{name}' that is not in use"
                )));
            }
            Picked::None => return Ok(Done::NoFile),
        };
        let text = fileset.tree.leaf(index);
        let path = self.path(&text)?;
        let mut op = self.op(if make { OpKind::Mkdir } else { OpKind::Rmdir });
        op.path = Some(path);
        op.flags = if make { 0o755 } else { 0 };
        self.batch.push(op);
        self.releases.push(Release::Leaf {
            fileset: set,
            index,
            exists: make,
        });
        Ok(Done::Yes)
    }

    fn list(&mut self, flowop: &Flowop, held: &mut Shared) -> Answer {
        let set = flowop.fileset.unwrap_or_default();
        let Some(fileset) = held.filesets.get_mut(set) else {
            return Ok(Done::NoFile);
        };
        let index = fileset.next_directory();
        let text = fileset
            .tree
            .directories
            .get(index)
            .cloned()
            .unwrap_or_default();
        let entries = u64::from(fileset.held.get(index).copied().unwrap_or(0)) + 2;
        let path = self.path(&text)?;
        // Behind all other descriptors of the process.
        let at = self.slots.len();
        let mut open = self.op(OpKind::Open);
        open.path = Some(path);
        open.flags = O_DIRECTORY;
        open.result = Outcome::ok(self.fd(at).0 as u64);
        self.batch.push(open);
        let mut left = entries * ENTRY_BYTES;
        loop {
            let got = left.min(LISTING_BYTES);
            left -= got;
            let mut list = self.on(OpKind::Readdir, at);
            list.length = Some(LISTING_BYTES);
            list.result = Outcome::ok(got);
            list.record = OpFlags::DIRECTORY;
            self.batch.push(list);
            if got == 0 {
                break;
            }
        }
        let close = self.on(OpKind::Close, at);
        self.batch.push(close);
        Ok(Done::Yes)
    }
}

pub(super) fn size((set, index): (usize, usize), held: &Shared) -> u64 {
    let fileset = held.filesets.get(set);
    fileset
        .and_then(|f| f.files.get(index))
        .map_or(0, |f| f.size)
}
