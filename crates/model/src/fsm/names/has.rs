//! Whether there is a file for what could be done next.

use super::super::classes::Classes;
use super::super::model::{Choice, Pick};
use super::super::possible::Needs;
use super::{ALIKE, Names, Wish, around};

/// Whether there is one of a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Has {
    /// None.
    None,
    /// One, but it is not as it should be.
    Another,
    /// One that is.
    Fitting,
}

impl Names {
    /// Whether there is one of a choice, and whether it also is as it should be.
    pub fn has(&self, choice: &Choice, wish: Wish) -> Has {
        let any = self.has_any(choice, wish.pid);
        let open = self.open.get(&(choice.class, wish.pid));
        let matters = wish.rest.is_some() || wish.needs != Needs::default();
        match open.filter(|_| any && choice.pick == Pick::Open && matters) {
            Some(open) => {
                let mut near = around(open, 0).take(ALIKE);
                let fits = near.any(|name| self.fits(name, wish));
                if fits { Has::Fitting } else { Has::Another }
            }
            None if any => Has::Fitting,
            None if choice.pick == Pick::Open && self.other(wish).is_some() => Has::Another,
            None => Has::None,
        }
    }

    /// What a process has open for what is done, of whatever class.
    pub(super) fn other(&self, wish: Wish) -> Option<u32> {
        if !self.holders.contains_key(&wish.pid) {
            return None;
        }
        let of = |class: usize| self.open.get(&(class as u32, wish.pid));
        let open = (0..self.classes.len()).filter_map(of);
        let mut names = open.flat_map(|open| around(open, 0));
        names.find(|&name| {
            let known = self.all.get(name as usize);
            known.is_some_and(|n| n.is_open_for(wish, None))
        })
    }

    /// Whether a process has a file of each of these classes open.
    pub fn open(&self, classes: Classes, pid: u32) -> bool {
        let is_open = |class: u32| self.open.get(&(class, pid)).is_some_and(|o| !o.is_empty());
        classes.iter().all(is_open)
    }

    /// Whether a process has a name open as it should be.
    fn fits(&self, name: u32, wish: Wish) -> bool {
        let known = self.all.get(name as usize);
        known.is_some_and(|n| n.is_open_for(wish, wish.rest))
    }

    pub(super) fn has_any(&self, choice: &Choice, pid: u32) -> bool {
        let Some(state) = self.classes.get(choice.class as usize) else {
            return true;
        };
        match choice.pick {
            Pick::Open => {
                let open = self.open.get(&(choice.class, pid));
                open.is_some_and(|open| !open.is_empty())
            }
            Pick::Shared => !state.shared.is_empty(),
            Pick::Fresh => !state.fresh.is_empty(),
            Pick::Known => !state.there.is_empty(),
            Pick::Gone => !state.gone.is_empty(),
            Pick::New | Pick::None => true,
        }
    }
}
