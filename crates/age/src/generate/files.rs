//! The files of a usage profile: those that are there, in directories.

use std::collections::VecDeque;

use fsage_workload::random::Random;

use super::BLOCK_BYTES;
use super::emit::blocks;

/// A file's place in [`Files`].
pub type Place = u32;

/// A file that is there, or is to go today.
#[derive(Debug, Clone, Copy, Default)]
pub struct File {
    /// Its directory.
    pub dir: u32,
    /// Its number, which names it.
    pub number: u64,
    /// Size in bytes, after what is planned.
    pub size: u64,
    /// The day it was made.
    pub born: u32,
    /// Not before this time may more happen to it.
    pub from_ns: u64,
    /// Events planned and not yet put out.
    pub pending: u32,
    /// Where it stands in its directory's list and in its pool.
    in_dir: u32,
    in_pool: u32,
    old: bool,
    /// Whether it goes with one of them.
    pub going: bool,
}

/// A directory.
#[derive(Debug, Default)]
pub struct Directory {
    /// Its path, relative.
    pub path: String,
    /// Whether it was made on the target.
    pub made: bool,
    /// The one above it.
    pub above: Option<u32>,
    files: Vec<Place>,
}

/// What is there.
#[derive(Debug, Default)]
pub struct Files {
    slots: Vec<File>,
    free: Vec<Place>,
    young: Vec<Place>,
    old: Vec<Place>,
    order: VecDeque<(Place, u64)>,
    /// The directories.
    pub dirs: Vec<Directory>,
    /// What is planned to be there, bytes in whole blocks, with the directories.
    pub bytes: u64,
    /// Files numbered so far.
    pub numbered: u64,
}

/// A month, after which a file is old.
const YOUNG_DAYS: u32 = 30;

impl Files {
    /// Files that are there.
    pub fn count(&self) -> u64 {
        (self.young.len() + self.old.len()) as u64
    }

    /// Of these, how many are young.
    pub fn young(&self) -> u64 {
        self.young.len() as u64
    }

    /// One of them.
    pub fn get(&self, place: Place) -> File {
        self.slots.get(place as usize).copied().unwrap_or_default()
    }

    /// One of them, to change.
    pub fn change(&mut self, place: Place, with: impl FnOnce(&mut File)) {
        if let Some(file) = self.slots.get_mut(place as usize) {
            with(file);
        }
    }

    /// Another size.
    pub fn resize(&mut self, place: Place, size: u64) {
        self.bytes = self.bytes + blocks(size) - blocks(self.get(place).size);
        self.change(place, |file| file.size = size);
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.numbered += 1;
        self.numbered
    }

    /// A directory more, below one that is there or at the top.
    pub fn add_directory(&mut self, tops: usize, random: &mut Random) {
        let index = self.dirs.len();
        let above = (index >= tops).then(|| random.below(index as u64) as u32);
        let path = match above.and_then(|d| self.dirs.get(d as usize)) {
            Some(above) => format!("{}/d{index:x}", above.path),
            None => format!("top{index:x}"),
        };
        self.dirs.push(Directory {
            path,
            above,
            ..Directory::default()
        });
        self.bytes += BLOCK_BYTES;
    }

    /// A file more.
    pub fn add(&mut self, dir: u32, size: u64, day: u32) -> Place {
        let place = self.free.pop().unwrap_or_else(|| {
            self.slots.push(File::default());
            self.slots.len() as Place - 1
        });
        let number = self.number();
        let in_dir = self.dirs.get_mut(dir as usize).map_or(0, |d| {
            d.files.push(place);
            d.files.len() - 1
        });
        self.change(place, |file| {
            *file = File {
                dir,
                number,
                size,
                born: day,
                in_dir: in_dir as u32,
                ..File::default()
            }
        });
        self.pool(place, false);
        self.order.push_back((place, number));
        self.bytes += blocks(size);
        place
    }

    fn pool(&mut self, place: Place, old: bool) {
        let pool = if old { &mut self.old } else { &mut self.young };
        pool.push(place);
        let at = pool.len() as u32 - 1;
        self.change(place, |file| (file.in_pool, file.old) = (at, old));
    }

    fn unpool(&mut self, place: Place) {
        let file = self.get(place);
        let pool = if file.old {
            &mut self.old
        } else {
            &mut self.young
        };
        pool.swap_remove(file.in_pool as usize);
        if let Some(&moved) = pool.get(file.in_pool as usize) {
            self.change(moved, |other| other.in_pool = file.in_pool);
        }
    }

    /// Takes a file out of what is there; its slot stays until [`Files::forget`].
    pub fn remove(&mut self, place: Place) {
        let file = self.get(place);
        self.unpool(place);
        let dir = self.dirs.get_mut(file.dir as usize);
        let moved = dir.and_then(|d| {
            d.files.swap_remove(file.in_dir as usize);
            d.files.get(file.in_dir as usize).copied()
        });
        if let Some(moved) = moved {
            self.change(moved, |other| other.in_dir = file.in_dir);
        }
        self.bytes -= blocks(file.size);
        self.change(place, |file| file.going = true);
    }

    /// Gives the slot of a removed file away.
    pub fn forget(&mut self, place: Place) {
        self.free.push(place);
    }

    /// Files of a month ago and before become old.
    pub fn grow_old(&mut self, day: u32) {
        while let Some(&(place, number)) = self.order.front() {
            let file = self.get(place);
            let there = file.number == number && !file.going;
            if there && file.born + YOUNG_DAYS > day {
                return;
            }
            self.order.pop_front();
            if there && !file.old {
                self.unpool(place);
                self.pool(place, true);
            }
        }
    }

    /// The file made before all others.
    pub fn oldest(&mut self) -> Option<Place> {
        while let Some(&(place, number)) = self.order.front() {
            let file = self.get(place);
            if file.number == number && !file.going {
                return Some(place);
            }
            self.order.pop_front();
        }
        None
    }

    /// A young one, or an old one where there is none.
    pub fn any(&self, young: bool, random: &mut Random) -> Option<Place> {
        let (first, second) = if young {
            (&self.young, &self.old)
        } else {
            (&self.old, &self.young)
        };
        let pool = if first.is_empty() { second } else { first };
        pool.get(random.below(pool.len() as u64) as usize).copied()
    }

    /// The files of a directory.
    pub fn of_directory(&self, dir: u32) -> &[Place] {
        self.dirs.get(dir as usize).map_or(&[], |d| &d.files)
    }
}
