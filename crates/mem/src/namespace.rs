//! Names: resolution of paths, and what makes, moves and removes entries.

use std::borrow::Cow;

use fsage_core::{Errno, FileType, SetAttr};

use crate::inode::{Directory, ENTRIES_OF_BLOCK, Entry, INODES_OF_BLOCK, Node, ROOT};
use crate::state::{DIRECTORIES, INODE_FILE, INODES, State};

const MOST_LINKS: u32 = 40;
const MOST_NAME: usize = 255;
const MOST_PATH: usize = 4095;

/// What a path leads to.
#[derive(Debug)]
pub(crate) struct Place<'p> {
    pub parent: u32,
    /// The last component; empty for the root itself.
    pub name: Cow<'p, [u8]>,
    pub ino: Option<u32>,
    /// Whether the path says that it is a directory.
    pub slash: bool,
}

impl Place<'_> {
    fn into_owned(self) -> Place<'static> {
        Place {
            name: Cow::Owned(self.name.into_owned()),
            parent: self.parent,
            ino: self.ino,
            slash: self.slash,
        }
    }

    /// What is there.
    pub(crate) fn found(&self) -> Result<u32, Errno> {
        self.ino.ok_or(Errno::ENOENT)
    }

    /// Whether the last component is a name, and not the root, `.` or `..`.
    pub(crate) fn is_name(&self) -> bool {
        !matches!(&*self.name, b"" | b"." | b"..")
    }
}

/// A name and what it leads to.
type Listed = (Box<[u8]>, Entry);

/// Where the block of a directory lies that holds a slot.
fn block_of(dir: u32, slot: u32) -> (u64, u64) {
    let page = u64::from(slot / ENTRIES_OF_BLOCK);
    (page, DIRECTORIES + (u64::from(dir) << 20) + page)
}

impl State {
    /// Resolves a path; links in its middle are followed, one at its end if `follow`.
    pub(crate) fn walk<'p>(&mut self, path: &'p [u8], follow: bool) -> Result<Place<'p>, Errno> {
        if path.len() > MOST_PATH {
            return Err(Errno::ENAMETOOLONG);
        }
        self.walk_from(self.root, path, follow, 0)
    }

    fn walk_from<'p>(
        &mut self,
        from: u32,
        path: &'p [u8],
        follow: bool,
        links: u32,
    ) -> Result<Place<'p>, Errno> {
        if path.contains(&0) {
            return Err(Errno::EINVAL);
        }
        // Nothing outside of the root is named.
        if path.first() == Some(&b'/') {
            return Err(Errno::EXDEV);
        }
        let mut place = Place {
            parent: from,
            name: Cow::Borrowed(b""),
            ino: Some(from),
            slash: false,
        };
        let mut rest = path;
        while !rest.is_empty() {
            let end = rest.iter().position(|&b| b == b'/').unwrap_or(rest.len());
            let (name, tail) = rest.split_at(end);
            let skip = tail.iter().take_while(|&&b| b == b'/').count();
            rest = tail.get(skip..).unwrap_or_default();
            let (at, last, slash) = (place.found()?, rest.is_empty(), skip > 0);
            place = Place {
                slash,
                ..self.step(at, name, (last, slash || !last || follow), links)?
            };
            match place.ino {
                Some(ino) if slash && self.inodes.get(ino)?.file_type() != FileType::Directory => {
                    return Err(Errno::ENOTDIR);
                }
                None if !last => return Err(Errno::ENOENT),
                _ => {}
            }
        }
        Ok(place)
    }

    /// One component, and what it leads to if it is a link that is followed.
    fn step<'p>(
        &mut self,
        at: u32,
        name: &'p [u8],
        (last, follow): (bool, bool),
        links: u32,
    ) -> Result<Place<'p>, Errno> {
        if name.len() > MOST_NAME {
            return Err(Errno::ENAMETOOLONG);
        }
        let parent = self.inodes.get(at)?.dir()?.parent;
        let ino = match name {
            b"." => Some(at),
            b".." if at == self.root => return Err(Errno::EXDEV),
            b".." => Some(parent),
            _ => self.lookup(at, name)?,
        };
        if let (true, Some(found)) = (follow, ino)
            && let Node::Link(target) = &self.inodes.get(found)?.node
        {
            if links >= MOST_LINKS {
                return Err(Errno::ELOOP);
            }
            let target = target.to_vec();
            let behind = self.walk_from(at, &target, true, links + 1)?;
            if behind.ino.is_none() && !last {
                return Err(Errno::ENOENT);
            }
            return Ok(behind.into_owned());
        }
        Ok(Place {
            parent: at,
            name: Cow::Borrowed(name),
            ino,
            slash: false,
        })
    }

    /// One name of a directory, as the caches of names and inodes make it cost.
    fn lookup(&mut self, dir: u32, name: &[u8]) -> Result<Option<u32>, Errno> {
        self.cpu(self.truth.lookups.component_ns);
        let entries = self.inodes.get(dir)?.dir()?;
        let Some(entry) = entries.entries.get(name).copied() else {
            return self.search_missing(dir, name);
        };
        if let Some(disk) = &mut self.disk {
            let named = disk.names.touch(entry.name_id);
            let known = disk.inodes.touch(entry.ino);
            if named != fsage_cache::Touch::Hit {
                self.search(dir, entry.slot);
            }
            if known != fsage_cache::Touch::Hit {
                self.make_inode(entry.ino);
            }
        }
        Ok(Some(entry.ino))
    }

    fn search_missing(&mut self, dir: u32, name: &[u8]) -> Result<Option<u32>, Errno> {
        let directory = self.inodes.get(dir)?.dir()?;
        let known = directory.missing.get(name).copied();
        let id = known.unwrap_or_else(|| {
            self.free_name_ids.pop().unwrap_or_else(|| {
                self.name_ids += 1;
                self.name_ids - 1
            })
        });
        if known.is_none() {
            let directory = self.inodes.get(dir)?.dir()?;
            directory.missing.insert(name.into(), id);
        }
        let hit = match &mut self.disk {
            Some(disk) => disk.names.touch(id) == fsage_cache::Touch::Hit,
            None => known.is_some(),
        };
        if !hit {
            // Where it would lie follows from the name.
            let slots = u64::from(self.inodes.get(dir)?.dir()?.slots.max(1));
            let hash = name.iter().fold(0xcbf2_9ce4_8422_2325u64, |h, &b| {
                (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
            });
            self.search(dir, (hash % slots) as u32);
        }
        Ok(None)
    }

    fn search(&mut self, dir: u32, slot: u32) {
        self.cpu(self.truth.lookups.search_ns);
        let (page, block) = block_of(dir, slot);
        self.touch_block(dir, page, block, false);
    }

    fn make_inode(&mut self, ino: u32) {
        self.cpu(self.truth.lookups.inode_ns);
        let page = u64::from(ino / INODES_OF_BLOCK);
        self.touch_block(INODE_FILE, page, INODES + page, false);
    }

    /// Makes an inode under a name that is free.
    pub(crate) fn create(
        &mut self,
        place: &Place<'_>,
        node: Node,
        mode: u32,
    ) -> Result<u32, Errno> {
        if !place.is_name() {
            return Err(Errno::EEXIST);
        }
        if self.inodes.count >= self.truth.space.files {
            return Err(Errno::ENOSPC);
        }
        self.inodes.get(place.parent)?.dir()?;
        let is_dir = matches!(node, Node::Dir(_));
        let ino = self.inodes.make(node, mode);
        // A block of which no other inode is in use holds nothing that must be read.
        let page = u64::from(ino / INODES_OF_BLOCK);
        let new = self.inodes.alone(ino);
        self.touch_block(INODE_FILE, page, INODES + page, new);
        if is_dir {
            self.touch_block(ino, 0, block_of(ino, 0).1, true);
        }
        if let Some(disk) = &mut self.disk {
            disk.inodes.touch(ino);
        }
        self.change_inode(ino, true);
        self.enter_name(place.parent, &place.name, ino)?;
        if is_dir {
            self.inodes.get(place.parent)?.links += 1;
        }
        Ok(ino)
    }

    /// Puts a name into a directory in which it is not.
    pub(crate) fn enter_name(&mut self, dir: u32, name: &[u8], ino: u32) -> Result<(), Errno> {
        let directory = self.inodes.get(dir)?.dir()?;
        let known = directory.missing.remove(name);
        let before = directory.slots;
        let slot = directory.take_slot();
        let new = slot >= before && slot > 0 && slot.is_multiple_of(ENTRIES_OF_BLOCK);
        let name_id = known
            .or_else(|| self.free_name_ids.pop())
            .unwrap_or_else(|| {
                self.name_ids += 1;
                self.name_ids - 1
            });
        let entry = Entry { ino, name_id, slot };
        let directory = self.inodes.get(dir)?.dir()?;
        directory.entries.insert(name.into(), entry);
        if let Some(disk) = &mut self.disk {
            disk.names.touch(name_id);
        }
        self.change_entry(dir, slot, new);
        Ok(())
    }

    /// Takes a name out of a directory and says what it led to.
    pub(crate) fn remove_name(&mut self, dir: u32, name: &[u8]) -> Result<u32, Errno> {
        let directory = self.inodes.get(dir)?.dir()?;
        let entry = directory.entries.remove(name).ok_or(Errno::ENOENT)?;
        directory.give_slot(entry.slot);
        self.free_name(entry.name_id);
        self.change_entry(dir, entry.slot, false);
        Ok(entry.ino)
    }

    fn free_name(&mut self, id: u32) {
        if let Some(disk) = &mut self.disk {
            disk.names.remove(id);
        }
        self.free_name_ids.push(id);
    }

    /// A block that has never held an entry, beyond the first, is new.
    fn change_entry(&mut self, dir: u32, slot: u32, new: bool) {
        let (page, block) = block_of(dir, slot);
        self.touch_block(dir, page, block, new);
        let now_ns = self.now_ns;
        if let Some(disk) = &mut self.disk {
            disk.journal.change(block, now_ns);
            self.change_inode(dir, true);
        }
    }

    /// Takes a link from an inode and frees it once nothing leads to it any more.
    pub(crate) fn drop_link(&mut self, ino: u32) -> Result<(), Errno> {
        let inode = self.inodes.get(ino)?;
        inode.links = match inode.node {
            Node::Dir(_) => 0,
            _ => inode.links.saturating_sub(1),
        };
        self.change_inode(ino, true);
        self.free_if_last(ino)
    }

    /// Frees an inode without names that nobody has open.
    pub(crate) fn free_if_last(&mut self, ino: u32) -> Result<(), Errno> {
        let inode = self.inodes.get(ino)?;
        if inode.links > 0 || inode.open > 0 {
            return Ok(());
        }
        if inode.body().is_ok() {
            self.resize(ino, 0)?;
        }
        let names: Vec<u32> = match self.inodes.get(ino)?.dir() {
            Ok(dir) => dir.missing.drain().map(|(_, id)| id).collect(),
            Err(_) => Vec::new(),
        };
        for id in names {
            self.free_name(id);
        }
        if let Some(disk) = &mut self.disk {
            disk.pages.forget(ino);
            disk.inodes.remove(ino);
        }
        self.inodes.remove(ino);
        Ok(())
    }

    /// Whether `below` is `above` or lies below it.
    pub(crate) fn lies_below(&mut self, below: u32, above: u32) -> Result<bool, Errno> {
        let mut at = below;
        while at != ROOT && at != above {
            at = self.inodes.get(at)?.dir()?.parent;
        }
        Ok(at == above)
    }

    /// What a listing reads, where it is not cached; the directory's entries in the order of their slots.
    pub(crate) fn list(&mut self, dir: u32) -> Result<Vec<Listed>, Errno> {
        let directory: &Directory = self.inodes.get(dir)?.dir()?;
        let blocks = directory.blocks();
        let mut entries: Vec<_> = directory
            .entries
            .iter()
            .map(|(n, e)| (n.clone(), *e))
            .collect();
        entries.sort_unstable_by_key(|(_, entry)| entry.slot);
        let mut absent = None;
        for page in 0..=blocks {
            let missing = page < blocks && self.touch_page(dir, page, false);
            absent = match (absent, missing) {
                (None, true) => Some(page),
                (Some(first), false) => {
                    let (_, block) = block_of(dir, first as u32 * ENTRIES_OF_BLOCK);
                    self.read_blocks(dir, (first, page), block, true);
                    None
                }
                (other, _) => other,
            };
        }
        Ok(entries)
    }

    /// Forgets everything that is cached, names that are missing too.
    pub(crate) fn forget(&mut self) {
        let missing = self.inodes.forget_missing();
        self.free_name_ids.extend(missing);
        if let Some(disk) = &mut self.disk {
            disk.forget();
        }
    }

    /// Sets attributes of what a path leads to, of a link at its end itself unless it is followed.
    pub(crate) fn set_attr(
        &mut self,
        path: &[u8],
        attr: SetAttr,
        follow: bool,
    ) -> Result<(), Errno> {
        self.cpu(match attr {
            SetAttr::Mode(_) => self.truth.calls.set_mode_ns,
            SetAttr::Owner(..) => self.truth.calls.set_owner_ns,
            SetAttr::Times(..) => self.truth.calls.set_times_ns,
        });
        let ino = self.walk(path, follow)?.found()?;
        if let SetAttr::Mode(mode) = attr {
            self.inodes.get(ino)?.mode = mode & 0o7777;
        }
        self.change_inode(ino, false);
        Ok(())
    }
}
