//! The files of a model that is played, and which of them is next.

mod class;
mod has;
mod name;

use std::sync::Arc;

use fsage_core::{Errno, OpKind};
use rustc_hash::FxHashMap;

use super::check::MOST_DEPTH;
use super::dist::{Deck, Random};
use super::model::{Choice, Class, Model, OLDEST, Pick, Stage, Type};
use super::possible::Needs;
use super::recency::Recency;
use class::{ClassState, in_order};
pub use has::Has;
pub use name::{Name, Opened, Touched};

/// The names of a call, where it has one and a second.
pub type Paths = (Option<Arc<[u8]>>, Option<Arc<[u8]>>);

/// For whom a file is, and what it should be.
#[derive(Debug, Clone, Copy)]
pub struct Wish {
    /// The process.
    pub pid: u32,
    /// Whether it should be an empty directory.
    pub empty: bool,
    /// Its size, where that matters.
    pub bytes: Option<u64>,
    /// Of an open file, whether it is written or read, where that matters.
    pub writes: Option<bool>,
    /// Of an open file, whether it may be open as a mapping alone.
    pub mapped: bool,
    /// How much is left of an open file, at the least and at the most, where that matters.
    pub rest: Option<(u64, u64)>,
    /// What it must be.
    pub needs: Needs,
}

/// All names.
#[derive(Debug)]
pub struct Names {
    all: Vec<Name>,
    classes: Vec<ClassState>,
    open: FxHashMap<(u32, u32), Recency<u32>>,
    /// Of each process how many files it has open, where it has any.
    holders: FxHashMap<u32, usize>,
    /// Directories that were made in the run.
    made: Vec<u32>,
    /// The directory that holds everything, with a slash behind it; empty for the target's own.
    prefix: String,
    data: f64,
}

/// The last visit of its thread is this one.
fn note(visits: &mut Vec<(u32, u64)>, visit: (u32, u64)) {
    match visits.iter_mut().find(|other| other.0 == visit.0) {
        Some(other) => other.1 = visit.1,
        None => visits.push(visit),
    }
}

/// Those of a stack from one on, and then those nearer.
fn around(stack: &Recency<u32>, from: usize) -> impl Iterator<Item = u32> {
    let near = (from..from + NEAR).chain((0..from).rev().take(NEAR));
    near.filter_map(|distance| stack.nth(distance))
}

/// Whether the directory of a name is there.
fn in_place(names: &[Name], name: u32) -> bool {
    let above = names.get(name as usize).map_or(0, |n| n.above);
    names.get(above as usize).is_some_and(|n| n.exists)
}

/// Whether a name is as it must be for what is done.
fn suits(names: &[Name], name: u32, wish: Wish) -> bool {
    let known = names.get(name as usize);
    known.is_some_and(|n| n.suits(wish.needs) && (!wish.empty || n.children == 0))
}

/// Of a stack the one that is as it must be, from one on; that one where none near it is.
fn suiting(names: &[Name], stack: &Recency<u32>, from: usize, wish: Wish) -> Option<u32> {
    let near = around(stack, from).find(|name| suits(names, *name, wish));
    near.or_else(|| stack.nth(from))
}

/// Of those that a process has open one that is open for what is done, with as much left as there was where one has.
fn held(names: &[Name], open: &Recency<u32>, from: usize, wish: Wish) -> Option<u32> {
    let find = |rest| {
        let fits = |name: &u32| {
            let known = names.get(*name as usize);
            known.is_some_and(|n| n.is_open_for(wish, rest))
        };
        around(open, from).find(fits)
    };
    find(wish.rest).or_else(|| find(None))
}

/// So many files are about as far away.
const ALIKE: usize = 8;

/// So many directories on either side of one that is gone are looked at.
const NEAR: usize = 64;

/// A longer path is none, in bytes: directories that are moved into deep ones come to lie deeper than any is made.
pub const LONGEST: usize = 4095;

/// A population smaller than this grows by larger files, not by more.
pub const FEW: u64 = 17;

/// How many of a class are there before, `data` times as much.
pub fn count(class: &Class, data: f64) -> u64 {
    if class.before < FEW || class.kind == Type::Directory {
        class.before
    } else {
        (class.before as f64 * data) as u64
    }
}

impl Names {
    /// What is there before, `data` times as much.
    pub fn new(model: &Model, data: f64, prefix: &str, random: &mut Random) -> Self {
        let mut all = Self {
            all: Vec::new(),
            classes: Vec::new(),
            open: FxHashMap::default(),
            holders: FxHashMap::default(),
            made: Vec::new(),
            prefix: prefix.to_owned(),
            data,
        };
        for (i, &above) in model.directories.iter().enumerate() {
            all.add(0, above, Type::Directory, true);
            if i > 0 {
                all.holds(above, true);
            }
        }
        all.classes.push(ClassState::default());
        for (i, class) in model.classes.iter().enumerate() {
            let mut state = ClassState::default();
            let larger = class.before < FEW;
            let mut sizes = Deck::default();
            let mut places = state.places(class, count(class, data), random);
            while let Some(directory) = places.pop() {
                if class.kind == Type::Directory {
                    state.fresh.push(directory);
                    continue;
                }
                let size = sizes.draw(&class.size_bytes, random);
                let name = all.add(i as u32 + 1, directory, class.kind, true);
                all.holds(directory, true);
                if let Some(name) = all.get_mut(name) {
                    name.size = if larger {
                        (size as f64 * data) as u64
                    } else {
                        size
                    };
                }
                state.fresh.push(name);
            }
            in_order(
                class.order,
                &mut state.fresh,
                |name| all.above(name),
                random,
            );
            state.directory = Deck::default();
            all.classes.push(state);
        }
        all
    }

    fn add(&mut self, class: u32, above: u32, kind: Type, exists: bool) -> u32 {
        self.all.push(Name {
            class,
            above,
            kind,
            exists,
            size: 0,
            stage: Stage::default(),
            children: 0,
            opened: Vec::new(),
            kept: Vec::new(),
            mapped: Touched::default(),
            places: None,
            changed: None,
            users: Vec::new(),
            inside: Vec::new(),
            path: None,
        });
        self.all.len() as u32 - 1
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// A name.
    pub fn get(&self, name: u32) -> Option<&Name> {
        self.all.get(name as usize)
    }

    /// A name, to change it.
    pub fn get_mut(&mut self, name: u32) -> Option<&mut Name> {
        self.all.get_mut(name as usize)
    }

    /// One name more or fewer is in the directory.
    pub fn holds(&mut self, directory: u32, more: bool) {
        if let Some(directory) = self.get_mut(directory) {
            directory.children = if more {
                directory.children + 1
            } else {
                directory.children.saturating_sub(1)
            };
        }
    }

    /// A directory was made.
    pub fn directory_made(&mut self, name: u32) {
        self.made.push(name);
    }

    /// How deep a name lies in the target.
    fn depth(&self, name: u32) -> usize {
        self.way(name).count()
    }

    /// A name and the directories above it, without the target's own; those of a path that is none may be cut.
    fn way(&self, name: u32) -> impl Iterator<Item = u32> {
        let real = |name: &u32| *name != 0;
        let above = move |&name: &u32| self.get(name).map(|n| n.above).filter(real);
        std::iter::successors(Some(name).filter(real), above).take(LONGEST)
    }

    /// Whether a name is another one, or lies in it.
    pub fn is_in(&self, name: u32, directory: u32) -> bool {
        directory == 0 || self.way(name).any(|above| above == directory)
    }

    /// What a rename or a link meets that would make a circle, or whose new name is taken.
    pub fn cannot(&self, kind: OpKind, name: u32, to: u32) -> Option<Errno> {
        let taken = || self.get(to).is_some_and(|n| n.exists);
        let directory = || self.get(name).is_some_and(|n| n.kind == Type::Directory);
        match kind {
            _ if to != name && self.is_in(to, name) => Some(Errno::EINVAL),
            OpKind::Link if taken() => Some(Errno::EEXIST),
            OpKind::Link if directory() => Some(Errno::EPERM),
            _ => None,
        }
    }

    /// What was in one directory is in another, which does not lie in it.
    pub fn moved(&mut self, from: u32, to: u32) {
        for name in &mut self.all {
            name.path = None;
            if name.above == from {
                name.above = to;
            }
        }
        let children = self
            .get_mut(from)
            .map_or(0, |n| std::mem::take(&mut n.children));
        if let Some(to) = self.get_mut(to) {
            to.children = children;
        }
        self.made.push(to);
    }

    /// The path of a name below the target.
    pub fn path(&mut self, name: u32) -> Arc<[u8]> {
        if name == 0 {
            return Arc::from(self.prefix.trim_end_matches('/').as_bytes());
        }
        let known = |name: u32| self.get(name).and_then(|n| n.path.clone());
        let unknown = |name: &u32| known(*name).is_none();
        let mut way: Vec<u32> = self.way(name).take_while(unknown).collect();
        let above = way.last().map_or(name, |&top| self.above(top));
        let mut path = known(above).unwrap_or_else(|| Arc::from(self.prefix.as_bytes()));
        while let Some(name) = way.pop() {
            let Some(known) = self.get_mut(name) else {
                break;
            };
            let letter = match known.kind {
                Type::File => 'f',
                Type::Directory => 'd',
                Type::Link => 'l',
            };
            let mut text = path.to_vec();
            if known.above != 0 {
                text.push(b'/');
            }
            text.extend_from_slice(format!("{letter}{name}").as_bytes());
            path = Arc::from(text);
            known.path = Some(Arc::clone(&path));
        }
        path
    }

    fn above(&self, name: u32) -> u32 {
        self.get(name).map_or(0, |n| n.above)
    }

    /// A path of what makes calls fail.
    pub fn trap(&self, what: &str) -> Arc<[u8]> {
        Arc::from(format!("{}trap/{what}", self.prefix).as_bytes())
    }

    /// Names that make a call fail so.
    pub fn traps(&self, kind: OpKind, error: i32) -> Paths {
        let one = match error {
            0 => return (None, None),
            36 => "x".repeat(256),
            40 => "loop/x".into(),
            39 | 21 => match kind {
                OpKind::Rename if error == 39 => "empty".into(),
                OpKind::Rename => "file".into(),
                _ => "full".into(),
            },
            _ => "file/x".into(),
        };
        let two = match (kind, error) {
            (OpKind::Rename, 39 | 21) => "full",
            _ => "other",
        };
        let second = matches!(kind, OpKind::Rename | OpKind::Link | OpKind::Symlink);
        (Some(self.trap(&one)), second.then(|| self.trap(two)))
    }

    /// The file of a choice for a process; `None` where the choice is of none.
    pub fn pick(
        &mut self,
        model: &Model,
        choice: &Choice,
        distance: u64,
        wish: Wish,
        random: &mut Random,
    ) -> Option<u32> {
        let class = choice.class;
        let Wish { pid, bytes, .. } = wish;
        if let Some(found) = bytes.and_then(|bytes| self.sized(choice, distance, bytes, wish)) {
            return Some(found);
        }
        let lacks = choice.pick == Pick::Open && !self.has_any(choice, pid);
        let other = lacks.then(|| self.other(wish)).flatten();
        let state = self.classes.get_mut(class as usize).filter(|_| class > 0)?;
        let old = distance.checked_sub(OLDEST).map(|old| old as usize);
        let far = match choice.pick {
            Pick::Known if old.is_none() => (distance as f64 * self.data) as usize,
            _ => distance as usize,
        };
        // Of a stack: from its end where that was nearer.
        let at = |of: usize| {
            old.map_or(far, |old| of.saturating_sub(old + 1))
                .min(of.saturating_sub(1))
        };
        let names = &self.all;
        let nth = |stack: &Recency<u32>| suiting(names, stack, at(stack.len()), wish);
        let placed = |name: &u32| in_place(names, *name);
        let found = match choice.pick {
            Pick::Fresh => state.next(|name| suits(names, *name, wish)),
            Pick::Known if old.is_none() && far >= state.there.len() && self.data > 1.0 => {
                state.next(|name| suits(names, *name, wish))
            }
            Pick::Gone => around(&state.gone, at(state.gone.len())).find(placed),
            Pick::Open => self
                .open
                .get(&(class, pid))
                .and_then(|open| held(names, open, at(open.len()), wish).or_else(|| nth(open)))
                .or_else(|| nth(&state.shared))
                .or(other),
            Pick::Shared => nth(&state.shared),
            _ => None,
        };
        if found.is_some() {
            return found;
        }
        if matches!(choice.pick, Pick::New | Pick::Gone) {
            return Some(self.fresh_name(model, class, random));
        }
        let state = self.classes.get_mut(class as usize)?;
        let there = suiting(&self.all, &state.there, at(state.there.len()), wish);
        let gone = around(&state.gone, 0).find(|name| in_place(&self.all, *name));
        there
            .or_else(|| state.fresh.pop())
            .or_else(|| self.like(model, class, at))
            .or(gone)
            .or_else(|| Some(self.fresh_name(model, class, random)))
    }

    /// Of those about as far away the one whose size is nearest to `bytes`: in a trace it hangs on its size which file is
    /// read how often, and distances alone do not tell that.
    fn sized(&mut self, choice: &Choice, distance: u64, bytes: u64, wish: Wish) -> Option<u32> {
        let state = self.classes.get_mut(choice.class as usize)?;
        let names = &self.all;
        let off = |name: &u32| {
            names
                .get(*name as usize)
                .map_or(u64::MAX, |n| n.size.abs_diff(bytes))
        };
        let suits = |name: &u32| suits(names, *name, wish);
        match choice.pick {
            Pick::Fresh => {
                let from = state.fresh.len().saturating_sub(ALIKE);
                let last = state.fresh.get(from..)?;
                let near = last.iter().enumerate().rev().filter(|(_, n)| suits(n));
                let (at, _) = near.min_by_key(|(_, n)| off(n))?;
                Some(state.fresh.swap_remove(from + at))
            }
            Pick::Known => {
                let of = state.there.len();
                let far = match distance.checked_sub(OLDEST) {
                    Some(old) => of.checked_sub(old as usize + 1)?,
                    None => (distance as f64 * self.data) as usize,
                };
                // What was used just now or longest ago is that very file.
                let room = (far.min(of.checked_sub(far + 1)?) / 4).min(ALIKE);
                let near = far - room..=far + room;
                let near = near.filter_map(|d| state.there.nth(d)).filter(suits);
                near.min_by_key(off)
            }
            _ => None,
        }
    }

    /// One of another class that is there, where the class has none.
    fn like(&self, model: &Model, class: u32, at: impl Fn(usize) -> usize) -> Option<u32> {
        let kind = model.class(class)?.kind;
        let others = self.classes.iter().skip(1).zip(&model.classes);
        let others = others.filter(|(state, class)| class.kind == kind && !state.there.is_empty());
        let (state, _) = others.max_by_key(|(state, _)| state.there.len())?;
        state.there.nth(at(state.there.len()))
    }

    /// A name that was not used yet.
    fn fresh_name(&mut self, model: &Model, class: u32, random: &mut Random) -> u32 {
        let Some((about, state)) = model.class(class).zip(self.classes.get_mut(class as usize))
        else {
            return 0;
        };
        let mut above = state.directory.draw(&about.directory, random) as u32;
        if about.kind == Type::Directory && about.before > 0 {
            above = model.directories.get(above as usize).copied().unwrap_or(0);
        }
        if random.below(1000) < about.in_new_directory {
            let since = state.new_directory.draw(&about.new_directory, random);
            above = self.made_at(since).unwrap_or(above);
        }
        while self
            .get(above)
            .is_some_and(|n| !n.exists && n.above != above)
        {
            above = self.above(above);
        }
        self.add(class, above, about.kind, false)
    }

    /// The directory since which so many were made, or one that was made near it: what was made may be gone.
    fn made_at(&self, since: u64) -> Option<u32> {
        let last = self.made.len().checked_sub(1)?;
        let place = match since.checked_sub(OLDEST) {
            Some(before) => (before as usize).min(last),
            None => last.saturating_sub(since as usize),
        };
        let there = |n: &u32| {
            self.get(*n)
                .is_some_and(|n| n.exists && n.kind == Type::Directory)
                && self.depth(*n) < MOST_DEPTH
        };
        let newer = (place..self.made.len()).take(NEAR);
        let older = (0..place).rev().take(NEAR);
        let mut near = newer.chain(older).filter_map(|at| self.made.get(at));
        near.find(|n| there(n)).copied()
    }

    /// A visit goes to a name: through what others made or moved above it, who are to be done `after` which it is done.
    /// Whoever changes one of those directories waits for this one.
    pub fn entered(&mut self, name: u32, visit: (u32, u64), after: &mut Vec<(u32, u64)>) {
        let above: Vec<u32> = self.way(name).skip(1).take(MOST_DEPTH).collect();
        for directory in above {
            if let Some(known) = self.get_mut(directory) {
                after.extend(known.changed);
                note(&mut known.inside, visit);
            }
        }
    }

    /// A name was used by a process.
    pub fn used(&mut self, name: u32, pid: u32, visit: (u32, u64)) {
        let Some(known) = self.all.get_mut(name as usize) else {
            return;
        };
        note(&mut known.users, visit);
        let class = known.class;
        let mut holders = known.opened.iter().chain(&known.kept);
        let held = holders.any(|o| o.pid == pid);
        let any = held || !known.opened.is_empty() || !known.kept.is_empty();
        let exists = known.exists;
        let Some(state) = self.classes.get_mut(class as usize) else {
            return;
        };
        state.used(name, exists);
        let open = self.open.entry((class, pid)).or_default();
        let before = open.len();
        for (stack, on) in [(&mut *open, held), (&mut state.shared, any)] {
            if on {
                stack.touch(name);
            } else {
                stack.remove(&name);
            }
        }
        let after = open.len();
        let holds = self.holders.entry(pid).or_default();
        *holds = (*holds + after).saturating_sub(before);
        if *holds == 0 {
            self.holders.remove(&pid);
        }
    }

    /// A directory that was there belongs to the class that uses it first.
    pub fn adopt(&mut self, name: u32, class: u32) {
        if let Some(known) = self.get_mut(name).filter(|n| n.class == 0) {
            known.class = class;
        }
    }

    /// A process ended: what it had open.
    pub fn ended(&mut self, pid: u32) -> bool {
        let mut any = false;
        self.holders.remove(&pid);
        for class in 0..self.classes.len() as u32 {
            let Some(open) = self.open.remove(&(class, pid)) else {
                continue;
            };
            for name in (0..open.len()).filter_map(|d| open.nth(d)) {
                let Some(known) = self.all.get_mut(name as usize) else {
                    continue;
                };
                any = true;
                known.opened.retain(|o| o.pid != pid);
                if known.opened.is_empty()
                    && known.kept.is_empty()
                    && let Some(state) = self.classes.get_mut(class as usize)
                {
                    state.shared.remove(&name);
                }
            }
        }
        any
    }
}
