//! The table of kinds: what each kind of operation needs beside its lookups.

use fsage_cache::PAGE_BYTES;
use fsage_core::{CLOSE_BY_DUP, Op, OpKind};
use fsage_namespace::flags::{SEEK_DATA, SEEK_HOLE};

use super::View;
use super::removal::kib_of;
use crate::cost::{Charge, Gap, Stem};
use crate::namespace::tree::Ino;
use crate::namespace::{Action, Namespace, Resolved};
use crate::pattern::{Advice, Placed, Untouched};

/// Looking through more dirty pieces than were measured (SKD) hardly takes longer: of 256 52 us on btrfs, of 1,024 62.
const MOST_PIECES: u64 = 1024;

/// One operation on its way through a view.
pub(crate) struct Passing<'a> {
    pub op: &'a Op,
    pub resolved: &'a Resolved,
    pub ns: &'a Namespace,
    pub gap: Gap,
}

/// The rule of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// One family, whatever the state.
    Call(Stem),
    /// Depends on what the operation did ([`Action`]) and on the caches.
    State,
    /// A process's own doing: its lookups, if any, are all that the file system sees.
    Process,
}

/// The rule of `kind`; every kind has one.
#[allow(clippy::match_same_arms, reason = "a row for each group of kinds")]
pub fn rule(kind: OpKind) -> Rule {
    use OpKind as K;
    match kind {
        K::Open | K::Close | K::Read | K::Write | K::Unlink | K::Rename | K::Rmdir => Rule::State,
        K::Truncate | K::Ftruncate | K::Fallocate | K::Readdir | K::Fault | K::CopyIn => {
            Rule::State
        }
        K::CopyOut | K::Sendfile | K::SpliceIn | K::SpliceOut | K::Advise => Rule::State,
        K::Fsync | K::Fdatasync | K::Sync | K::Syncfs | K::SyncFileRange | K::Msync => Rule::State,
        K::Dup => Rule::Call(Stem::Dup),
        K::Seek => Rule::Call(Stem::Seek),
        K::Stat => Rule::Call(Stem::Stat),
        K::Fstat => Rule::Call(Stem::Fstat),
        K::Access => Rule::Call(Stem::Access),
        K::Mkdir => Rule::Call(Stem::Mkdir),
        K::Link => Rule::Call(Stem::Link),
        K::Symlink => Rule::Call(Stem::Symlink),
        K::Readlink => Rule::Call(Stem::Readlink),
        K::Mmap => Rule::Call(Stem::Mmap),
        K::Munmap => Rule::Call(Stem::Munmap),
        K::Chmod | K::Fchmod => Rule::Call(Stem::Chmod),
        K::Chown | K::Fchown => Rule::Call(Stem::Chown),
        K::Utimens | K::Futimens => Rule::Call(Stem::Utimens),
        K::Setxattr | K::Removexattr => Rule::Call(Stem::Setxattr),
        K::Getxattr => Rule::Call(Stem::Getxattr),
        K::Listxattr => Rule::Call(Stem::Listxattr),
        K::Statfs | K::Fstatfs => Rule::Call(Stem::Statfs),
        K::Chdir | K::Fchdir => Rule::Call(Stem::Chdir),
        K::Lock => Rule::Call(Stem::Lock),
        // The program's file is opened; its pages come by faults.
        K::Exec => Rule::Call(Stem::Open),
        K::Mknod => Rule::Call(Stem::Mknod),
        K::Fork | K::Exit => Rule::Process,
    }
}

const POSIX_FADV_NORMAL: u32 = 0;
const POSIX_FADV_RANDOM: u32 = 1;
const POSIX_FADV_SEQUENTIAL: u32 = 2;
const POSIX_FADV_WILLNEED: u32 = 3;
const POSIX_FADV_DONTNEED: u32 = 4;
/// A request of a device is at most so long (`max_sectors_kb` of most), and WILLNEED asks for one (`force_page_cache_ra`).
const MOST_ASKED_BYTES: u64 = 1280 << 10;
/// Names that the directories of RMDIRB had held.
const RMDIRB_HELD: f64 = 1000.0;
/// What is remembered of names is reclaimed in time; nobody has measured more.
const HELD_AT_MOST: u32 = 4000;

/// Whether the cost of the call was measured on a few files, and so without [`Stem::Obj`].
#[inline]
pub(super) fn excludes_object(kind: OpKind, action: Action) -> bool {
    match action {
        Action::Open { created, .. } => !created,
        Action::Plain => matches!(
            kind,
            OpKind::Stat
                | OpKind::Access
                | OpKind::Readlink
                | OpKind::Getxattr
                | OpKind::Listxattr
                | OpKind::Setxattr
                | OpKind::Chmod
                | OpKind::Chown
                | OpKind::Utimens
        ),
        _ => false,
    }
}

/// Kinds that most often fail because the file, which is found, has no such thing: an attribute, the
/// target of a link.
fn asks_the_file(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Getxattr | OpKind::Listxattr | OpKind::Readlink
    )
}

impl View {
    /// What the call itself needs.
    #[inline]
    pub(super) fn call(&mut self, step: &Passing<'_>, charges: &mut Vec<Charge>) {
        let kind = step.op.kind;
        self.wait_for_room(step, charges);
        self.copied(step, charges);
        match step.resolved.action {
            _ if self.shares_blocks(step) => self.share(step, charges),
            Action::None => {}
            Action::Failed => {
                // Beside its lookups a call on a name pays for being a call (6.1.3.7 charges lookups
                // alone); one on a descriptor costs its entry.
                let stem = match (step.resolved.walks[0], kind) {
                    _ if rule(kind) == Rule::Process => return,
                    // What the file does not have is asked of the file itself.
                    _ if step.resolved.node.is_some() && asks_the_file(kind) => {
                        return self.plain(step, charges);
                    }
                    (None, _) => Stem::Seek,
                    (Some(_), OpKind::Open | OpKind::Exec) => Stem::OpenM,
                    (Some(_), _) => Stem::StatM,
                };
                charges.push(Charge::once(stem, step.gap));
            }
            Action::Plain => self.plain(step, charges),
            Action::Open { .. } | Action::Close { .. } => self.open_close(step, charges),
            Action::Read {
                offset,
                length,
                eof,
            } if kind == OpKind::Fault => {
                let _ = eof;
                self.fault(step, (offset, length), false, charges);
            }
            Action::Write { offset, length, .. } if kind == OpKind::Fault => {
                self.fault(step, (offset, length), true, charges);
            }
            Action::Read {
                offset,
                length,
                eof,
            } => self.read(step, offset, length, eof, charges),
            Action::Write {
                offset,
                length,
                old_size,
                first,
            } => {
                self.write(step, offset, length, old_size, first, charges);
            }
            Action::Truncate { old, new, space } => {
                self.truncate(step, (old, new), space, charges);
            }
            Action::Allocate { length, end } => self.allocate(step, (length, end), charges),
            Action::Empty {
                from,
                to,
                space,
                reserved,
            } => self.empty(step, (from, to), (space, reserved), charges),
            Action::Unlink { freed, held } => self.unlink(step, freed, held, charges),
            Action::Rmdir { held } => {
                // The kernel frees what it remembers of each name the directory ever held.
                let share = f64::from(held.min(HELD_AT_MOST)) / RMDIRB_HELD;
                if share < 1.0 {
                    charges.push(Charge::many(Stem::Rmdir, step.gap, 1.0 - share));
                }
                if share > 0.0 {
                    charges.push(Charge::many(Stem::RmdirB, Gap::NONE, share));
                }
                self.changed_dir(step, true);
                self.new_directories = self.new_directories.saturating_sub(1);
            }
            Action::Rename { replaced } => self.rename(step, replaced, charges),
            Action::Readdir { entries } => self.readdir(step, entries, charges),
        }
    }

    /// So many bytes up to an offset are given space that had none.
    fn allocate(
        &mut self,
        step: &Passing<'_>,
        (length, end): (u64, u64),
        charges: &mut Vec<Charge>,
    ) {
        charges.push(Charge::sized(Stem::Falloc, step.gap, kib_of(length)));
        let Some(ino) = step.resolved.node else {
            return;
        };
        self.changing(ino).extends(step.ns.tree.size(ino));
        if length > 0 {
            self.reserve(ino, end.saturating_sub(length), length);
        }
    }

    fn plain(&mut self, step: &Passing<'_>, charges: &mut Vec<Charge>) {
        let kind = step.op.kind;
        match kind {
            OpKind::Fsync | OpKind::Fdatasync | OpKind::Msync => {
                return self.synchronise(step, charges);
            }
            OpKind::Sync | OpKind::Syncfs => return self.synchronise_all(step, charges),
            OpKind::SyncFileRange => return self.synchronise_range(step, charges),
            OpKind::Advise => return self.advise(step, charges),
            OpKind::Munmap => return self.unmap(step, charges),
            OpKind::Seek if matches!(step.op.flags, SEEK_DATA | SEEK_HOLE) => {
                let ino = step.resolved.node.unwrap_or(Ino::NONE);
                let pieces = self.pages.dirty_runs(ino.0).clamp(1, MOST_PIECES);
                return charges.push(Charge::sized(Stem::Skd, step.gap, pieces as f64));
            }
            _ => {}
        }
        let stem = match rule(kind) {
            Rule::Call(Stem::Mkdir) if self.allocates_first(step) => Stem::MkdirC,
            Rule::Call(Stem::Link) if self.links_on(step) => Stem::LinkR,
            Rule::Call(stem) => stem,
            Rule::Process => return,
            // A state that the trace does not tell (no path, no file): the call at its simplest.
            Rule::State => match kind {
                OpKind::Open => Stem::Open,
                OpKind::Close => Stem::Close,
                OpKind::Unlink => Stem::Rm,
                OpKind::Rename => Stem::Rename,
                OpKind::Rmdir => Stem::Rmdir,
                OpKind::Truncate | OpKind::Ftruncate => Stem::TrX,
                _ => Stem::Seek,
            },
        };
        charges.push(Charge::once(stem, step.gap));
        if kind == OpKind::Mkdir {
            self.finds_space(stem == Stem::MkdirC, charges);
        }
        match kind {
            OpKind::Mkdir | OpKind::Mknod | OpKind::Symlink | OpKind::Link => {
                self.changed_dir(step, false);
                self.outgrows_inode(step, charges);
                self.new_directories += u32::from(kind == OpKind::Mkdir);
                if kind != OpKind::Link {
                    self.places(step, kind == OpKind::Mkdir, charges);
                }
                if let (Some(ino), false) = (step.resolved.node, kind == OpKind::Link) {
                    let turn = self.turn;
                    let state = self.changing(ino);
                    (state.created, state.seen) = (true, true);
                    state.in_turn = turn;
                }
            }
            OpKind::Chmod
            | OpKind::Fchmod
            | OpKind::Chown
            | OpKind::Fchown
            | OpKind::Utimens
            | OpKind::Futimens
            | OpKind::Setxattr
            | OpKind::Removexattr => {
                if let Some(ino) = step.resolved.node {
                    self.changing(ino).changed = true;
                }
            }
            _ => {}
        }
    }

    /// Whether a link goes from and to the directories of its thread's last one, and nothing was committed since: then all
    /// that it changes is at hand.
    fn links_on(&mut self, step: &Passing<'_>) -> bool {
        let dirs = step.resolved.walks.map(|walk| walk.map(|walk| walk.dir));
        let this = Some((step.op.tid, dirs, self.commits));
        std::mem::replace(&mut self.rows.last_link, this) == this
    }

    fn open_close(&mut self, step: &Passing<'_>, charges: &mut Vec<Charge>) {
        let gap = step.gap;
        match step.resolved.action {
            Action::Open {
                created,
                first_in_dir,
                truncated,
                asked_create,
                directory,
            } => {
                let cold = created && self.allocates_first(step);
                let stem = match (created, first_in_dir, directory, asked_create) {
                    (true, _, _, _) if cold => Stem::CrC,
                    (true, true, _, _) => Stem::CrF,
                    (true, false, _, _) => Stem::Cr,
                    (_, _, true, _) => Stem::OpenD,
                    (_, _, _, true) => Stem::OpenC,
                    _ => Stem::Open,
                };
                charges.push(Charge::once(stem, gap));
                if created {
                    self.places(step, false, charges);
                    self.changed_dir(step, false);
                    self.outgrows_inode(step, charges);
                    if let Some(ino) = step.resolved.node {
                        self.changing(ino).created = true;
                    }
                }
                if let Some(held) = truncated {
                    self.truncate(step, (held.size, 0), held.space, charges);
                }
                let untouched = if created {
                    Untouched::No
                } else {
                    self.untouched
                };
                if let Some(stream) = self.stream_of(step) {
                    stream.untouched = untouched;
                }
            }
            Action::Close {
                last,
                unlinked,
                created,
                truncated,
                written,
            } => {
                // The rest comes after the call, in its thread's pause.
                let at_once = step.op.flags & CLOSE_BY_DUP == 0;
                let stem = match (last && at_once, unlinked) {
                    (true, Some(held)) => {
                        return self.closes_nameless(step, held, charges);
                    }
                    (true, None) if written && truncated => Stem::CloseT,
                    (true, None) if written && created => Stem::CloseW,
                    _ => Stem::Close,
                };
                charges.push(Charge::once(stem, gap));
            }
            _ => {}
        }
    }

    fn readdir(&mut self, step: &Passing<'_>, entries: u32, charges: &mut Vec<Charge>) {
        let Some(ino) = step.resolved.node else {
            return;
        };
        self.listed(step, ino);
        let born = step.ns.tree.inode(ino).is_some_and(|d| d.born);
        let before = self.pages.read(ino.0, 0, false);
        let cold = before == fsage_cache::PageState::Absent && !born;
        let (call, each) = if cold {
            (Stem::RDirC, Stem::RDirCE)
        } else {
            (Stem::RDir, Stem::RDirE)
        };
        charges.push(Charge::sized(call, step.gap, 4.0));
        if entries > 0 {
            charges.push(Charge::many(each, step.gap, f64::from(entries)));
        }
        if !born {
            self.comes_to_names(ino, 0, !cold);
        }
        if cold {
            for block in 1..self.blocks_of(step, ino) {
                self.pages.read(ino.0, block, false);
                self.comes_to_names(ino, block, false);
            }
            self.reads_names();
            if self.sizes.lists_blocks && !self.names_in_inode(step, ino) {
                self.reads_directory(step, ino, true, charges);
            }
        }
        if cold && let Some(inode) = step.ns.tree.inode(ino) {
            self.relation = self.last_meta.relation(Placed::traced(ino, inode), 0);
            self.last_meta.note(Placed::traced(ino, inode), 0);
        }
    }

    fn advise(&mut self, step: &Passing<'_>, charges: &mut Vec<Charge>) {
        charges.push(Charge::once(Stem::Advise, step.gap));
        let Some(ino) = step.resolved.node else {
            return;
        };
        let size = step.ns.tree.size(ino);
        let length = step.op.length.filter(|&l| l > 0).unwrap_or(u64::MAX);
        let from = step.op.offset.unwrap_or(0);
        match step.op.flags {
            POSIX_FADV_DONTNEED => {
                self.pages
                    .drop_clean(ino.0, whole_pages((from, length), size));
                // What is dirty stays, and its writing is started.
                self.start_writing(step, ino, (from, length), charges);
            }
            // Where an arm has to move, whoever reads it waits for it, as if nobody had asked.
            POSIX_FADV_WILLNEED if self.sizes.seeks => {}
            POSIX_FADV_WILLNEED => {
                // The kernel brings no more at a time, and leaves the rest alone.
                let most = MOST_ASKED_BYTES.max(self.sizes.read_ahead.saturating_mul(PAGE_BYTES));
                let to = from.saturating_add(length.min(most)).min(size);
                let mut brought = 0;
                for p in from / PAGE_BYTES..to.div_ceil(PAGE_BYTES) {
                    // What is asked for is there before the call is over.
                    if self.holds_data(step, ino, p) && self.pages.prefetch(ino.0, p) {
                        self.pages.read(ino.0, p, false);
                        brought += PAGE_BYTES;
                    }
                }
                if brought > 0 {
                    let kib = brought as f64 / 1024.0;
                    self.disk_read(step, ino, from, brought, kib, true, charges);
                }
            }
            POSIX_FADV_NORMAL | POSIX_FADV_RANDOM | POSIX_FADV_SEQUENTIAL => {
                if let Some(stream) = self.stream_of(step) {
                    stream.advice = match step.op.flags {
                        POSIX_FADV_RANDOM => Advice::Anywhere,
                        POSIX_FADV_SEQUENTIAL => Advice::InOrder,
                        _ => Advice::Usual,
                    };
                }
            }
            _ => {}
        }
    }
}

/// The pages of so many bytes that Linux drops of a file of `size`: those that lie in them whole, and the file's last one.
fn whole_pages((from, length): (u64, u64), size: u64) -> (u64, u64) {
    let end = from.saturating_add(length);
    let last = if end >= size {
        u64::MAX
    } else {
        end / PAGE_BYTES
    };
    (from.div_ceil(PAGE_BYTES), last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_rule_and_only_processes_are_free() {
        for &kind in OpKind::ALL {
            let free = matches!(kind, OpKind::Fork | OpKind::Exit);
            assert_eq!(rule(kind) == Rule::Process, free, "{}", kind.name());
        }
    }
}
