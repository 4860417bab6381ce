//! A visit becomes calls, each with the result that the state of the files gives it.

mod call;
mod decks;
mod descriptor;
mod until;

use std::sync::Arc;

use fsage_core::{Errno, Fd, KindClass, Op, OpFlags, OpKind, Outcome, Pid, Tid};
use fsage_namespace::flags::{O_APPEND, O_CREAT, O_DIRECT, O_TRUNC};
use rustc_hash::FxHashMap;

use super::dist::Random;
use super::model::{Model, Stage, Type};
use super::names::{LONGEST, Names, Opened, Touched};
use super::possible::{can_be, inside, is_another};
use super::resolve::{KEPT, errno_of};
use super::step::{LARGEST, VisitStep, is_xattr};
use call::by_name;
pub use call::{Call, Who};
use decks::{Decks, From, of_steps};

/// A visit that goes on for longer is cut: its calls are held at once.
const CALLS: usize = 1 << 20;
const PAGE_BYTES: u64 = 4096;
/// More than this that was read too much or too little is not made good.
const OFF_AT_MOST: i128 = 1 << 50;

/// The first descriptor that a process gets.
pub const FIRST_FD: i32 = 3;

/// So many visits of a kind, the last ones, are split or put together at least.
const LAST: u64 = 4;

/// Plays visits.
#[derive(Debug)]
pub struct Player {
    /// The files.
    pub names: Names,
    decks: Vec<Vec<Decks>>,
    fds: FxHashMap<(u32, i32), Vec<bool>>,
    /// The names of each process that are mapped, by the place of what stands for that.
    mapped: FxHashMap<u32, Vec<u32>>,
    /// Bytes that were read until the ends of files, less than should have been or more: of all visits, as what one reads
    /// too much of files that have grown others can make good.
    lacks: i64,
    /// Visits of others that gave the descriptors that were used.
    pub opened_by: Vec<(u32, u64)>,
    /// Whether the visit at hand makes, removes or writes something.
    pub changes: bool,
    /// Files that were made where nothing was, and directories.
    pub made: (u64, u64),
}

/// What a visit is about.
#[derive(Debug, Clone, Copy)]
struct About {
    name: Option<u32>,
    to: Option<u32>,
    who: Who,
}

impl Player {
    /// Of these files.
    pub fn new(model: &Model, names: Names) -> Self {
        let decks = model.visits.iter().map(|visit| of_steps(&visit.steps));
        Self {
            names,
            decks: decks.collect(),
            fds: FxHashMap::default(),
            mapped: FxHashMap::default(),
            lacks: 0,
            opened_by: Vec::new(),
            changes: false,
            made: (0, 0),
        }
    }

    /// The size that the file of the next visit should have, so that as much is read until the ends of files as the
    /// model tells, in all and of each; `None` where that does not matter.
    pub fn wanted_bytes(&mut self, model: &Model, visit: u32, random: &mut Random) -> Option<u64> {
        let index = (visit as usize).checked_sub(1)?;
        let steps = model.visits.get(index)?.steps.iter();
        let mut steps = steps.zip(self.decks.get_mut(index)?);
        let (step, decks) = steps.find(|(step, _)| !step.reads.is_empty())?;
        let wanted = decks.reads.draw(&step.reads, random);
        decks.wanted = Some(wanted);
        Some(wanted.saturating_add_signed(self.lacks))
    }

    /// The calls of a visit, numbered from 1, to `name` and `to`.
    pub fn visit(
        &mut self,
        model: &Model,
        visit: u32,
        name: Option<u32>,
        to: Option<u32>,
        who: Who,
        random: &mut Random,
    ) -> Vec<Call> {
        let index = visit as usize - 1;
        self.changes = false;
        self.opened_by.clear();
        let mut out = Vec::new();
        let steps = model.visits.get(index).map_or(&[][..], |v| &v.steps);
        for (i, step) in steps.iter().enumerate() {
            let Some(decks) = self.decks.get_mut(index).and_then(|d| d.get_mut(i)) else {
                continue;
            };
            let mut decks = std::mem::take(decks);
            self.step(step, &mut decks, About { name, to, who }, random, &mut out);
            if let Some(place) = self.decks.get_mut(index).and_then(|d| d.get_mut(i)) {
                *place = decks;
            }
        }
        out
    }

    fn step(
        &mut self,
        step: &VisitStep,
        decks: &mut Decks,
        about: About,
        random: &mut Random,
        out: &mut Vec<Call>,
    ) {
        let Some(more) = step.form.to_end else {
            for _ in 0..decks.times.draw(&step.times, random) {
                if out.len() >= CALLS {
                    break;
                }
                self.call(step, decks, about, random, out);
            }
            return;
        };
        let more = u64::from(more);
        let before = out.len();
        let is_counted = !step.times.is_empty();
        if is_counted {
            self.plan(step, decks, about, more, random);
        }
        let (mut begun, mut ended) = (false, 0);
        while out.len() < CALLS && (ended < more || !begun || !self.at_end(about)) {
            ended += u64::from(self.at_end(about));
            self.call(step, decks, about, random, out);
            begun = true;
        }
        if is_counted {
            decks.calls_lack -= (out.len() - before) as i64;
        }
        if let Some(wanted) = decks.wanted.take() {
            let read: u64 = out.iter().skip(before).map(|c| c.op.bytes_moved()).sum();
            let lacks = i128::from(wanted) - i128::from(read) + i128::from(self.lacks);
            self.lacks = lacks.clamp(-OFF_AT_MOST, OFF_AT_MOST) as i64;
        }
    }

    fn call(
        &mut self,
        step: &VisitStep,
        decks: &mut Decks,
        about: About,
        random: &mut Random,
        out: &mut Vec<Call>,
    ) {
        let form = &step.form;
        let who = about.who;
        let mut op = Op::new(form.kind, Pid(who.pid), Tid(who.tid), 0);
        op.flags = form.flags;
        if let Some(name) = about.name {
            let by_name = form.kind.class() == KindClass::Name;
            if by_name {
                self.on_name(op, name, about, step, decks, random, out);
            } else {
                self.on_open(op, name, step, decks, who, random, out);
            }
            return;
        }
        if form.error != 0 {
            op.result = Outcome::err(Errno(form.error));
        }
        let (path, path2) = self.names.traps(form.kind, form.error);
        out.push(Call { op, path, path2 });
    }

    #[allow(clippy::too_many_arguments, reason = "a call is about all of these")]
    fn on_name(
        &mut self,
        mut op: Op,
        name: u32,
        about: About,
        step: &VisitStep,
        decks: &mut Decks,
        random: &mut Random,
        out: &mut Vec<Call>,
    ) {
        let (to, who) = (about.to, about.who);
        let path = Some(self.names.path(name));
        let mut path2 = None;
        let Some(known) = self.names.get(name) else {
            return;
        };
        let (exists, kind, size) = (known.exists, known.kind, known.size);
        let mut error = errno_of(op.kind, op.flags, exists);
        op.size_bytes =
            Some(size).filter(|_| exists && matches!(op.kind, OpKind::Open | OpKind::Stat));
        let bytes = if step.bytes.0.is_empty() {
            0
        } else {
            decks.bytes.draw(&step.bytes, random).min(LARGEST)
        };
        match op.kind {
            OpKind::Unlink if exists && kind == Type::Directory => error = Some(Errno::EISDIR),
            OpKind::Open | OpKind::Truncate if exists => {
                error = error.or(is_another(op.kind, op.flags, kind));
            }
            OpKind::Rmdir if exists && kind != Type::Directory => error = Some(Errno::ENOTDIR),
            OpKind::Rmdir if exists && known.children > 0 => error = Some(Errno(39)),
            // The target's own directory stays.
            OpKind::Rmdir if name == 0 => error = Some(Errno(39)),
            OpKind::Rename if name == 0 => error = Some(Errno::EINVAL),
            OpKind::Readlink if exists && kind != Type::Link => error = Some(Errno::EINVAL),
            OpKind::Rename | OpKind::Link => {
                let to = to.unwrap_or(name);
                path2 = Some(self.names.path(to));
                error = error.or_else(|| self.names.cannot(op.kind, name, to));
            }
            OpKind::Symlink => path2 = Some(Arc::from(&b"elsewhere"[..])),
            _ => {}
        }
        if matches!(op.kind, OpKind::Truncate | OpKind::Setxattr) {
            op.length = Some(bytes);
        }
        if is_xattr(op.kind) {
            path2 = (op.kind != OpKind::Listxattr).then(|| Arc::from(&b"user.fsage"[..]));
            error = error.or((step.form.error != 0).then_some(Errno(step.form.error)));
        }
        if op.kind == OpKind::Readlink {
            (op.length, op.result) = (Some(4096), Outcome::ok(9));
        }
        if [&path, &path2]
            .into_iter()
            .flatten()
            .any(|p| p.len() > LONGEST)
        {
            error = Some(Errno(36));
        }
        match error {
            Some(error) => op.result = Outcome::err(error),
            None => self.change(&mut op, name, to, bytes, who),
        }
        out.push(Call { op, path, path2 });
    }

    /// Something is made where nothing was.
    fn makes(&mut self, name: u32, kind: Type) {
        let made = match kind {
            Type::Directory => &mut self.made.1,
            Type::File | Type::Link => &mut self.made.0,
        };
        *made += 1;
        self.appears(name, kind);
    }

    fn appears(&mut self, name: u32, kind: Type) {
        let Some(known) = self.names.get_mut(name) else {
            return;
        };
        (known.exists, known.kind, known.size) = (true, kind, 0);
        (known.stage, known.mapped) = (Stage::default(), Touched::default());
        let above = known.above;
        self.names.holds(above, true);
        if kind == Type::Directory {
            self.names.directory_made(name);
        }
        self.changes = true;
    }

    fn vanishes(&mut self, name: u32) {
        let Some(known) = self.names.get_mut(name).filter(|n| n.exists) else {
            return;
        };
        known.exists = false;
        known.let_go();
        known.places = None;
        let above = known.above;
        self.names.holds(above, false);
        self.changes = true;
    }

    fn change(&mut self, op: &mut Op, name: u32, to: Option<u32>, bytes: u64, who: Who) {
        match op.kind {
            OpKind::Open => self.open(op, name, who),
            OpKind::Unlink | OpKind::Rmdir => self.vanishes(name),
            OpKind::Mkdir => self.makes(name, Type::Directory),
            OpKind::Symlink => self.makes(name, Type::Link),
            OpKind::Mknod => self.makes(name, Type::File),
            OpKind::Truncate => {
                if let Some(known) = self.names.get_mut(name) {
                    known.size = bytes;
                }
                self.changes = true;
            }
            OpKind::Rename | OpKind::Link => {
                let Some(to) = to.filter(|&to| to != name) else {
                    return;
                };
                let Some(from) = self.names.get(name).cloned() else {
                    return;
                };
                if !self.names.get(to).is_some_and(|t| t.exists) {
                    self.appears(to, from.kind);
                }
                if let Some(known) = self.names.get_mut(to) {
                    known.let_go();
                    (known.kind, known.size) = (from.kind, from.size);
                    if op.kind == OpKind::Rename {
                        known.opened.extend(from.opened);
                        known.kept.extend(from.kept);
                        known.places = from.places;
                        (known.stage, known.mapped) = (from.stage, from.mapped);
                    }
                }
                if op.kind == OpKind::Rename {
                    self.vanishes(name);
                    if let Some(known) = self.names.get_mut(name) {
                        known.opened.clear();
                        known.kept.clear();
                    }
                    if from.kind == Type::Directory {
                        self.names.moved(name, to);
                    }
                }
            }
            _ => {}
        }
    }

    fn open(&mut self, op: &mut Op, name: u32, who: Who) {
        let pid = op.pid.0;
        let taken = self.fds.entry((pid, who.first_fd)).or_default();
        let free = taken.iter().position(|t| !t).unwrap_or(taken.len());
        match taken.get_mut(free) {
            Some(place) => *place = true,
            None => taken.push(true),
        }
        let fd = free as i32 + who.first_fd;
        op.result = Outcome::ok(fd as u64);
        if op.flags & O_CREAT != 0 && !self.names.get(name).is_some_and(|n| n.exists) {
            self.makes(name, Type::File);
        }
        let Some(known) = self.names.get_mut(name) else {
            return;
        };
        if op.flags & O_TRUNC != 0 && known.size > 0 {
            known.size = 0;
            self.changes = true;
        }
        op.size_bytes = Some(known.size);
        let append = op.flags & O_APPEND != 0;
        let direct = op.flags & O_DIRECT != 0;
        if direct {
            op.record |= OpFlags::DIRECT;
        }
        known.opened.push(Opened {
            pid,
            tid: op.tid.0,
            fd: (fd, who.first_fd),
            by: who.visit,
            shared: false,
            access: op.flags & 3,
            append,
            direct,
            unnamed: None,
            position: 0,
            last: (0, 0),
        });
    }

    #[allow(clippy::too_many_arguments, reason = "a call is about all of these")]
    fn on_open(
        &mut self,
        op: Op,
        name: u32,
        step: &VisitStep,
        decks: &mut Decks,
        who: Who,
        random: &mut Random,
        out: &mut Vec<Call>,
    ) {
        if op.kind == OpKind::Close && op.flags & KEPT != 0 {
            self.keep(name, who, out);
            return;
        }
        if !self.names.get(name).is_some_and(|n| can_be(&op, n, None)) {
            return;
        }
        let lent = self.lend(op.kind, name, who.pid);
        if let Some(at) = lent.or_else(|| self.descriptor(&op, name, who, out)) {
            self.on_descriptor((op, at), name, step, decks, who, random, out);
        }
        if lent.is_some() {
            self.take_back(name);
        }
    }

    #[allow(clippy::too_many_arguments, reason = "a call is about all of these")]
    fn on_descriptor(
        &mut self,
        (mut op, at): (Op, usize),
        name: u32,
        step: &VisitStep,
        decks: &mut Decks,
        who: Who,
        random: &mut Random,
        out: &mut Vec<Call>,
    ) {
        let Some(known) = self.names.get_mut(name) else {
            return;
        };
        let Some(&open) = known.opened.get(at) else {
            return;
        };
        if !can_be(&op, known, Some(&open)) {
            return;
        }
        op.pid = Pid(open.pid);
        op.fd = Some(Fd(open.fd.0));
        if open.by.0 != who.visit.0 {
            self.opened_by.push(open.by);
            if let Some(open) = known.opened.get_mut(at) {
                open.shared = true;
            }
        }
        let size = known.size_of(&open);
        op.size_bytes = Some(size);
        let bytes = match (step.bytes.0.is_empty(), step.form.to_end) {
            (false, _) => decks.bytes.draw(&step.bytes, random).min(LARGEST),
            (true, Some(_)) => size.saturating_sub(open.last.1).max(1),
            (true, None) => 0,
        };
        let bytes = decks.asks(bytes, size.saturating_sub(open.last.1));
        match op.kind {
            OpKind::Close => {
                if known.opened.remove(at).shared {
                    self.opened_by.extend(&known.users);
                }
                self.free(&open);
            }
            OpKind::Ftruncate | OpKind::Fallocate => {
                (op.offset, op.length) = ((op.kind == OpKind::Fallocate).then_some(0), Some(bytes));
                if op.kind == OpKind::Ftruncate || op.flags == 0 {
                    let new = if op.kind == OpKind::Ftruncate {
                        bytes
                    } else {
                        size.max(bytes)
                    };
                    self.changes |= new != size;
                    known.set_size_of(at, new);
                }
            }
            OpKind::Readdir => {
                op.length = Some(32 << 10);
                op.result = Outcome::ok(if op.flags == 0 { 1024 } else { 0 });
                op.flags = 0;
            }
            OpKind::Seek => self.transfer(&mut op, name, at, step, 0, decks, random),
            kind if kind.class() == KindClass::Data => {
                self.transfer(&mut op, name, at, step, bytes, decks, random);
            }
            OpKind::Mmap | OpKind::Munmap | OpKind::SyncFileRange | OpKind::Msync => {
                (op.offset, op.length) = (Some(0), Some(bytes));
            }
            _ => {}
        }
        let path = (by_name(op.kind) && open.unnamed.is_none()).then(|| self.names.path(name));
        out.push(Call {
            op,
            path,
            path2: None,
        });
    }

    #[allow(clippy::too_many_arguments, reason = "a call is about all of these")]
    fn transfer(
        &mut self,
        op: &mut Op,
        name: u32,
        at: usize,
        step: &VisitStep,
        bytes: u64,
        decks: &mut Decks,
        random: &mut Random,
    ) {
        let Some(known) = self.names.get_mut(name) else {
            return;
        };
        let Some(mut open) = known.opened.get(at).copied() else {
            return;
        };
        let size = known.size_of(&open);
        let fault = op.kind == OpKind::Fault;
        let last = if fault {
            known.mapped.of(op.pid.0)
        } else {
            open.last
        };
        let write = matches!(op.kind, OpKind::Write | OpKind::CopyOut | OpKind::SpliceOut);
        let from = From { open, last, size };
        let offset = from.starts(known, step, bytes, decks, random);
        let (offset, bytes) = if fault {
            inside(offset, bytes, size)
        } else {
            (offset, bytes)
        };
        let moved = match op.kind {
            OpKind::Seek => 0,
            _ if write => bytes,
            _ => bytes.min(size.saturating_sub(offset)),
        };
        op.offset = Some(offset);
        if open.direct && !fault {
            op.record |= OpFlags::DIRECT;
        }
        let passed = if fault { bytes } else { moved };
        if op.kind == OpKind::Seek {
            op.result = Outcome::ok(offset);
            open.position = offset;
        } else {
            op.length = Some(bytes);
            op.result = Outcome::ok(if fault { 0 } else { moved });
            if write && open.append {
                op.record |= OpFlags::APPEND | OpFlags::IMPLICIT_OFFSET;
                open.position = offset + moved;
            } else if !fault && !step.form.explicit && open.position == offset {
                op.record |= OpFlags::IMPLICIT_OFFSET;
                open.position = offset + moved;
            }
        }
        let after = (offset, offset + passed);
        if op.kind != OpKind::Seek && (fault || moved > 0) {
            known.stage.moved(step.form.is_write());
        }
        // What is read behind is what was written.
        self.changes |= write && moved > 0;
        if fault {
            known.mapped = Touched::by(op.pid.0, after);
        } else {
            open.last = after;
        }
        if let Some(place) = known.opened.get_mut(at) {
            *place = open;
        }
        if write && offset + moved > size {
            known.set_size_of(at, offset + moved);
        }
    }

    /// A process ends; whether it had something open.
    pub fn ended(&mut self, pid: u32) -> bool {
        self.fds.remove(&(pid, FIRST_FD));
        let mapped = self.unmap(pid);
        self.names.ended(pid) || mapped
    }
}
