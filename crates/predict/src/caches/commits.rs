//! What is made stable, request by request, where those are followed: a file's data lies where its first dirty page does,
//! and what changed of metadata, whosever it is, is written by one commit. And where that is far from the journal.

use super::{Passing, View};
use crate::arm::Step;
use crate::cost::{Charge, Stem};
use crate::namespace::tree::Ino;

/// Inodes of a block.
const INODES: u32 = 16;
/// What inodes are of, which is no directory.
const TABLE: u32 = u32::MAX;

/// What a sync finds to do beside data.
#[derive(Debug, Clone, Copy)]
pub(super) struct ToCommit {
    /// Something that it needs was not committed yet.
    pub open: bool,
    /// It has written data, now or before.
    pub wrote: bool,
    /// What it needs was committed last, and that may be under way.
    pub last: bool,
}

impl View {
    /// A file's inode changes.
    pub(super) fn inode_changes(&mut self, ino: Ino) {
        if self.sizes.arm_alone {
            self.rooms.changes((TABLE, ino.0 / INODES));
        }
    }

    /// A name in a directory changes, of a file that changes with it.
    pub(super) fn name_changes(&mut self, dir: Ino, of: Option<Ino>) {
        if let (true, Some(ino)) = (self.sizes.arm_alone, of) {
            let block = ino.0.checked_div(self.sizes.names_of_block).unwrap_or(0);
            self.rooms.changes((dir.0, block));
            self.inode_changes(ino);
        }
    }

    /// Asks for what a sync of a file writes: so many pages from the first dirty one on.
    pub(super) fn ask_stable(
        &mut self,
        step: &Passing<'_>,
        ino: Ino,
        (pages, first): (u64, Option<u64>),
        to_commit: ToCommit,
    ) {
        if !self.sizes.arm_alone {
            return;
        }
        if let Some(first) = first {
            let block = self.rooms.block(step.ns, ino, first);
            self.ask_write(ino, block, (first, pages));
            self.rooms.writes(block, pages);
        }
        if to_commit.open {
            self.ask_commit();
        } else if to_commit.wrote {
            self.asks.all.push(Step::Flushes);
        }
        if !to_commit.open && to_commit.last {
            self.asks.all.push(Step::Commits(0));
        }
    }

    /// All that changed is committed, which takes the arm away.
    fn ask_commit(&mut self) {
        let blocks = self.rooms.commits();
        self.asks.all.push(Step::Commits(blocks));
        if blocks > 0 {
            self.rooms.leaves();
        }
    }

    /// Everything is written, file by file in the order in which they became dirty, and committed; how many files and pages
    /// those were.
    pub(super) fn ask_all_stable(&mut self, step: &Passing<'_>) -> (f64, u64) {
        let (mut files, mut all) = (0.0, 0);
        while let Some((file, pages, first)) = self.pages.clean_oldest() {
            let ino = Ino(file);
            let state = self.state(ino);
            *state = state.stable();
            let block = self.rooms.block(step.ns, ino, first);
            self.ask_write(ino, block, (first, pages));
            (files, all) = (files + 1.0, all + pages);
        }
        self.ask_commit();
        (files, all)
    }

    /// Nothing is dirty any more: how many files and pages were.
    pub(super) fn clean_all(&mut self) -> (f64, u64) {
        let states = &mut self.files;
        let mut files = 0.0;
        let pages = self.pages.clean_all(|file| {
            files += 1.0;
            if let Some(state) = states.get_mut(file as usize + 1) {
                *state = state.stable();
            }
        });
        (files, pages)
    }

    /// What is committed with its data lies so far from the journal as its directory's place is; commits were measured
    /// where the first directory's files lie.
    pub(super) fn commit_elsewhere(
        &mut self,
        step: &Passing<'_>,
        ino: Ino,
        charges: &mut Vec<Charge>,
    ) {
        if self.sizes.commit_places == 0 {
            return;
        }
        let turn = self.turn_of(step, ino).unwrap_or(0);
        if (1..self.sizes.commit_places).contains(&turn) {
            charges.push(Charge::sized(Stem::FsyP, step.gap, turn as f64));
            charges.push(Charge {
                times: -1.0,
                ..Charge::sized(Stem::FsyP, step.gap, 0.0)
            });
        }
    }
}

/// Whether a call writes data and commits what changed with it.
pub(super) fn commits_data(charge: &Charge) -> bool {
    use Stem::{Fds, FdsA, FdsL, FdsS, FdsU, Fsy, FsyB, FsyN, FsyO, FsyS, FsyW};
    matches!(
        charge.stem,
        Fds | FdsA | FdsL | FdsS | FdsU | Fsy | FsyB | FsyN | FsyO | FsyS | FsyW
    )
}
