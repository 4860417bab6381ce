//! Which names were used when, class by class.

use rustc_hash::FxHashMap;

use super::super::model::{OLDEST, Pick};
use super::super::recency::Recency;
use super::super::resolve::State;

/// The recency of names, by class.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    there: Vec<Recency<u32>>,
    gone: Vec<Recency<u32>>,
    shared: Vec<Recency<u32>>,
    open: FxHashMap<(u32, u32), Recency<u32>>,
}

impl Stacks {
    /// Of so many classes.
    pub(super) fn new(classes: usize) -> Self {
        let none = vec![Recency::default(); classes + 1];
        Self {
            there: none.clone(),
            gone: none.clone(),
            shared: none,
            open: FxHashMap::default(),
        }
    }

    /// How many others were used since, of those that a pick is among; 0 where it is not there.
    pub(super) fn distance(&self, class: u32, pid: u32, node: u32, pick: Pick) -> u64 {
        let at = class as usize;
        let stack = match pick {
            Pick::Known => self.there.get(at),
            Pick::Gone => self.gone.get(at),
            Pick::Open => self.open.get(&(class, pid)),
            Pick::Shared => self.shared.get(at),
            _ => None,
        };
        let Some((distance, of)) = stack.and_then(|s| Some((s.distance(&node)?, s.len()))) else {
            return 0;
        };
        nearer(distance, of)
    }

    /// A name was used by a process.
    pub(super) fn touch(&mut self, class: u32, pid: u32, node: u32, state: State) {
        let at = class as usize;
        let exists = state.exists;
        if let (Some(there), Some(gone)) = (self.there.get_mut(at), self.gone.get_mut(at)) {
            let (to, from) = if exists { (there, gone) } else { (gone, there) };
            from.remove(&node);
            to.touch(node);
        }
        let open = self.open.entry((class, pid)).or_default();
        let shared = self.shared.get_mut(at);
        let stacks = [(Some(open), state.held), (shared, state.held_by_any)];
        for (stack, on) in stacks {
            match stack {
                Some(stack) if on => stack.touch(node),
                Some(stack) => {
                    stack.remove(&node);
                }
                None => {}
            }
        }
    }
}

/// How many of `of` were used since one, or how many before it where they are fewer.
pub(super) fn nearer(distance: usize, of: usize) -> u64 {
    match of - 1 - distance {
        old if old < distance => OLDEST + old as u64,
        _ => distance as u64,
    }
}
