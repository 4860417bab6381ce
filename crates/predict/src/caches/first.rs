//! What is allocated first after a cold start: maps of what is free come from the device then.

use fsage_core::OpKind;
use rustc_hash::FxHashSet;

use super::{PAGE_KIB, Passing, View};
use crate::cost::{Charge, Gap, Stem};

/// What the first block found in a place takes, in first reads elsewhere: two trees of what is free there come from the
/// device, of which the second lies before the first. Four took 11.2 to 18.1 ms on a disk where such a read takes 11.4.
const TREES_OF_SPACE: f64 = 1.4;

/// What was allocated since a cold start.
#[derive(Debug, Clone, Default)]
pub(super) struct Allocated {
    /// Directories in which something was made, and those above them.
    beside: FxHashSet<u32>,
    /// Of the places among which directories take turns, those in which something was made; where there are none, a disk
    /// is one.
    turns: FxHashSet<u64>,
    /// Whether space was found for anything.
    space: bool,
    /// Directories whose inode has room for their names, and the places in which one got its first block.
    small: FxHashSet<u32>,
    blocks: FxHashSet<u64>,
}

impl View {
    /// Whether nothing was allocated yet beside what this call makes: bitmaps and tables of inodes must
    /// come from the device then. Directories below one another and beside one another share them, and those whose turn
    /// is in one place, new ones too.
    pub(super) fn allocates_first(&mut self, step: &Passing<'_>) -> bool {
        let Some(walk) = step.resolved.walks[0] else {
            return false;
        };
        let dir = walk.dir;
        if !self.cold_start {
            return false;
        }
        if let Some((_, places)) = self.sizes.directories_in_turn {
            let made = step.resolved.node.filter(|_| step.op.kind == OpKind::Mkdir);
            let turn = self.directory_rank(step, made.unwrap_or(dir).0) % places;
            let first = self.allocated.turns.insert(turn);
            if first {
                self.brings_last_inodes(step);
            }
            return first;
        }
        let old = step.ns.tree.inode(dir).filter(|d| !d.born);
        let Some(above) = old.map(|d| d.parent) else {
            return false;
        };
        let beside =
            self.allocated.beside.contains(&dir.0) || self.allocated.beside.contains(&above);
        self.allocated.beside.extend([dir.0, above]);
        if beside {
            return false;
        }
        let brought = self.brings_last_inodes(step);
        if self.sizes.file_system.keeps_free_inodes_in_memory() {
            return brought;
        }
        // On a disk what is read of one map brings those beside it.
        !self.sizes.seeks || self.allocated.turns.insert(0)
    }

    /// Space is found for what is written or made: the first time, ext2 reads the maps of all groups (`WFC`). They are in
    /// `MKDIRC` where that is `paid`.
    pub(super) fn finds_space(&mut self, paid: bool, charges: &mut Vec<Charge>) {
        if !self.cold_start || !self.sizes.reads_maps {
            return;
        }
        let first = !std::mem::replace(&mut self.allocated.space, true);
        let times = match (first, paid) {
            (true, false) => 1.0,
            (false, true) => -1.0,
            _ => return,
        };
        // Of a write, what it takes beyond any other.
        charges.push(Charge::many(Stem::Wfc, Gap::NONE, times));
        charges.push(Charge {
            times: -times,
            ..Charge::sized(Stem::Wn, Gap::NONE, PAGE_KIB)
        });
    }

    /// Something was made in a directory. One whose names its inode has no more room for needs a block, the first in its
    /// place since a cold start.
    pub(super) fn outgrows_inode(&mut self, step: &Passing<'_>, charges: &mut Vec<Charge>) {
        let turns = self.sizes.directories_in_turn.filter(|_| self.sizes.seeks);
        let walk = step.resolved.walks[0].filter(|_| self.cold_start);
        let (Some((_, places)), Some(walk)) = (turns, walk) else {
            return;
        };
        let dir = walk.dir;
        if self.allocated.blocks.len() as u64 >= places {
            return;
        }
        if self.names_in_inode(step, dir) {
            self.allocated.small.insert(dir.0);
        } else if self.allocated.small.remove(&dir.0) {
            let turn = self.directory_rank(step, dir.0) % places;
            if self.allocated.blocks.insert(turn) {
                charges.push(Charge::many(Stem::RfO, Gap::NONE, TREES_OF_SPACE));
            }
        }
    }
}
