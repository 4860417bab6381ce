//! Paths to chains of lookups.
//!
//! A path is taken apart once: its leading directories become a *prefix*, shared by all paths that
//! begin with it, and its last component a dentry. Both hold until a directory or a symbolic link is
//! removed, renamed or made ([`PredictedTree`]'s generation), so that an operation costs one indexed load.

use fsage_core::{PathId, PathTable};
use fsage_namespace::Way;
use fsage_namespace::path::{LINKS_FOLLOWED, PATH_BYTES};
use rustc_hash::FxHashMap;

use super::tree::{DentryId, Ino, NodeKind, PredictedTree};

/// The leading directories of paths, resolved.
#[derive(Debug, Clone, Copy)]
pub struct Prefix {
    /// The directory at their end.
    pub dir: Ino,
    start: u32,
    end: u32,
}

/// A resolved path.
#[derive(Debug, Clone, Copy)]
pub struct Walk {
    /// Which prefix; equal prefixes are equal chains of lookups. `None`: it fails on the way, the
    /// last of [`Resolver::steps`] being the one that fails.
    pub prefix: Option<u32>,
    /// The directory of the last component.
    pub dir: Ino,
    /// The last component; `None` for `/`, `.` and `..` at the end.
    pub last: Option<DentryId>,
    /// The file; [`Ino::NONE`] if it is missing.
    pub node: Ino,
    start: u32,
    end: u32,
}

#[derive(Debug, Clone, Copy)]
struct Cached {
    generation: u32,
    /// Where it was resolved from; [`Ino::NONE`] for an absolute path.
    base: Ino,
    prefix: u32,
    last: Option<DentryId>,
}

/// Resolves paths and remembers how.
#[derive(Debug, Clone, Default)]
pub struct Resolver {
    steps: Vec<DentryId>,
    prefixes: Vec<Prefix>,
    by_text: FxHashMap<(u32, Box<[u8]>), u32>,
    by_path: Vec<Option<Cached>>,
    /// Steps that belong to prefixes; what follows belongs to the last failed walk.
    kept: usize,
    generation: u32,
    /// Grows when prefixes are numbered anew.
    pub epoch: u32,
}

impl Resolver {
    /// The lookups of a walk's leading directories.
    pub fn steps(&self, walk: &Walk) -> &[DentryId] {
        self.steps
            .get(walk.start as usize..walk.end as usize)
            .unwrap_or(&[])
    }

    /// Resolves `id` from `base`. `follow`: a symbolic link at the end. `exists`: the trace shows that
    /// the directories on the way exist, so unknown ones are learned.
    #[inline]
    pub fn resolve(
        &mut self,
        tree: &mut PredictedTree,
        paths: &PathTable,
        id: PathId,
        base: Ino,
        follow: bool,
        exists: bool,
    ) -> Walk {
        if self.generation != tree.generation() {
            self.forget(tree.generation());
        }
        if let Some(&Some(c)) = self.by_path.get(id.index())
            && c.generation == self.generation
            && (c.base == base || c.base == Ino::NONE)
            && let Some(&prefix) = self.prefixes.get(c.prefix as usize)
        {
            let node = c
                .last
                .map_or(Some(prefix.dir), |l| tree.child(l))
                .unwrap_or(Ino::NONE);
            if !(follow && tree.kind(node) == NodeKind::Symlink) {
                return walk(c.prefix, prefix, c.last, node);
            }
        }
        self.resolve_text(tree, paths.get(id), base, follow, exists, Some(id))
    }

    /// The name at the end of a path that was resolved before; it may have changed since.
    #[inline]
    pub fn ahead(&self, id: PathId) -> Option<DentryId> {
        self.by_path.get(id.index()).copied()??.last
    }

    /// Whether a path begins at the root; without its text where it was resolved before.
    #[inline]
    pub fn is_absolute(&self, paths: &PathTable, id: PathId) -> bool {
        match self.by_path.get(id.index()) {
            Some(Some(cached)) => cached.base == Ino::NONE,
            _ => paths.get(id).first() == Some(&b'/'),
        }
    }

    fn forget(&mut self, generation: u32) {
        self.generation = generation;
        self.steps.clear();
        self.kept = 0;
        self.prefixes.clear();
        self.by_text.clear();
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// Resolves a path that is in no table; `remember` it under this id if it leads somewhere.
    pub fn resolve_text(
        &mut self,
        tree: &mut PredictedTree,
        path: &[u8],
        base: Ino,
        follow: bool,
        exists: bool,
        remember: Option<PathId>,
    ) -> Walk {
        if self.generation != tree.generation() {
            self.forget(tree.generation());
        }
        self.steps.truncate(self.kept);
        let start = self.steps.len() as u32;
        if path.len() >= PATH_BYTES {
            return failed(start, start);
        }
        let mut links = 0;
        let absolute = path.first() == Some(&b'/');
        let remembered_base = if absolute { Ino::NONE } else { base };
        let (mut base, mut head, mut tail) = split(path, base);
        let mut followed: Vec<u8>;
        let mut plain = true;
        loop {
            let known = self.by_text.get(&(base.0, Box::from(head))).copied();
            let dir = match known
                .filter(|_| plain)
                .and_then(|p| self.prefixes.get(p as usize))
            {
                Some(p) => Some(p.dir),
                None => self.walk_dirs(tree, base, head, exists, &mut links),
            };
            let Some(dir) = dir else {
                let end = self.steps.len() as u32;
                return failed(start, end);
            };
            let last = (!tail.is_empty()).then(|| tree.name(dir, tail));
            let node = last
                .map_or(Some(dir), |l| tree.child(l))
                .unwrap_or(Ino::NONE);
            let is_link = follow && tree.kind(node) == NodeKind::Symlink;
            links += 1;
            if let (true, true, Some(l)) = (is_link, links < LINKS_FOLLOWED, last)
                && let Some(text) = tree.target(node)
            {
                // What was walked so far was recorded only if it was not a known prefix.
                if plain && let Some(p) = known.and_then(|p| self.prefixes.get(p as usize)).copied()
                {
                    self.steps
                        .extend_from_within(p.start as usize..p.end as usize);
                }
                plain = false;
                self.steps.push(l);
                followed = text.to_vec();
                (base, head, tail) = split(&followed, dir);
                continue;
            }
            let prefix = match known.filter(|_| plain) {
                Some(p) => p,
                None => self.keep(start, dir, plain.then_some((base, head))),
            };
            if plain
                && let Some(id) = remember
                && (absolute || remembered_base.is_some())
            {
                let cached = Cached {
                    generation: self.generation,
                    base: remembered_base,
                    prefix,
                    last,
                };
                self.remember(id, cached);
            }
            return match self.prefixes.get(prefix as usize) {
                Some(&p) => walk(prefix, p, last, node),
                None => failed(start, start),
            };
        }
    }

    fn remember(&mut self, id: PathId, cached: Cached) {
        let index = id.index();
        if index >= self.by_path.len() {
            self.by_path.resize((index + 1).next_power_of_two(), None);
        }
        if let Some(place) = self.by_path.get_mut(index) {
            *place = Some(cached);
        }
    }

    fn keep(&mut self, start: u32, dir: Ino, text: Option<(Ino, &[u8])>) -> u32 {
        let number = self.prefixes.len() as u32;
        self.kept = self.steps.len();
        self.prefixes.push(Prefix {
            dir,
            start,
            end: self.kept as u32,
        });
        if let Some((base, head)) = text {
            self.by_text.insert((base.0, head.into()), number);
        }
        number
    }

    /// Walks through directories; each lookup is a step. `None`: one is missing, or is no directory.
    fn walk_dirs(
        &mut self,
        tree: &mut PredictedTree,
        base: Ino,
        path: &[u8],
        exists: bool,
        links: &mut u32,
    ) -> Option<Ino> {
        let mut way = Way::new(base, path, *links);
        while let Some(name) = way.next() {
            if *name == *b".." {
                way.at = tree.above(way.at);
                continue;
            }
            if tree.kind(way.at) == NodeKind::Regular {
                return None;
            }
            let dentry = tree.name(way.at, &name);
            self.steps.push(dentry);
            let next = match tree.child(dentry) {
                Some(next) => next,
                None if exists || can_be_there(tree, way.at, dentry) => {
                    tree.learn_directory(dentry)?
                }
                None => {
                    tree.missed(dentry);
                    return None;
                }
            };
            if tree.kind(next) == NodeKind::Symlink
                && let Some(text) = tree.target(next)
            {
                if !way.follow(text) {
                    return None;
                }
                *links = way.links;
                continue;
            }
            if let Some(node) = tree.inode_mut(next)
                && node.kind == NodeKind::Unknown
            {
                node.kind = NodeKind::Directory;
            }
            way.at = next;
        }
        Some(way.at)
    }
}

/// Whether a name that is not known may be a file all the same: the directory was not seen whole,
/// and nobody found the name missing.
pub(super) fn can_be_there(tree: &PredictedTree, dir: Ino, dentry: DentryId) -> bool {
    !tree.inode(dir).is_some_and(|d| d.complete) && !tree.dentry(dentry).is_some_and(|d| d.negative)
}

fn walk(number: u32, prefix: Prefix, last: Option<DentryId>, node: Ino) -> Walk {
    Walk {
        prefix: Some(number),
        dir: prefix.dir,
        last,
        node,
        start: prefix.start,
        end: prefix.end,
    }
}

fn failed(start: u32, end: u32) -> Walk {
    Walk {
        prefix: None,
        dir: Ino::NONE,
        last: None,
        node: Ino::NONE,
        start,
        end,
    }
}

/// Where to begin, the leading directories and the last component (without trailing slashes; empty
/// if the path ends in `.` or `..`).
fn split(path: &[u8], base: Ino) -> (Ino, &[u8], &[u8]) {
    let from = if path.first() == Some(&b'/') {
        Ino::ROOT
    } else {
        base
    };
    let trimmed = path
        .iter()
        .rposition(|&b| b != b'/')
        .map_or(&path[..0], |end| &path[..=end]);
    let (head, tail) = match trimmed.iter().rposition(|&b| b == b'/') {
        Some(slash) => trimmed.split_at(slash + 1),
        None => (&trimmed[..0], trimmed),
    };
    match tail {
        b"." | b".." => (from, trimmed, b""),
        tail => (from, head, tail),
    }
}
