//! What the statistical matrix asks of an operation of a trace: its number in Appendix B, how deep its file lies, how
//! much it moved, whether it was cached, whether its file was written or read before.

use fsage_cache::{PageCache, PageState, Policy, Start, WriteBack};
use fsage_core::{Fd, FileId, KindClass, Op, OpFlags, OpKind, PathTable};
use fsage_namespace::descriptors::{Descriptors, follow, gone, install, settle};
use fsage_namespace::flags::{O_CREAT, O_DIRECTORY, O_EXCL};
use fsage_namespace::path::{beneath, components, join};
use rustc_hash::FxHashMap;

use super::operation::Operation;

const PAGE_BYTES: u64 = 4096;
/// Pages that are thought to stay cached where the trace does not say which were: 4 GiB.
const CACHE_PAGES: u64 = 1 << 20;
/// Pages of one request that are looked at: 16 MiB.
const REQUEST_PAGES: u64 = 1 << 12;

/// Why an operation of a trace is not in the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Left {
    /// It failed.
    Failed,
    /// It is on a pipe, a socket or a device, or on no file at all (a fork).
    NoFile,
    /// Its file lies elsewhere.
    Elsewhere,
    /// Appendix B has no number for it.
    NoNumber,
}

impl Left {
    /// Every reason.
    pub const ALL: [Left; 4] = [Self::Failed, Self::NoFile, Self::Elsewhere, Self::NoNumber];

    /// A phrase that says it.
    pub fn why(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::NoFile => "on no file",
            Self::Elsewhere => "on files elsewhere",
            Self::NoNumber => "without a number in Appendix B",
        }
    }
}

/// One operation as the matrix has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// What it was.
    pub operation: Operation,
    /// Directories above its file, from the first directory of its path.
    pub depth: u32,
    /// Bytes that it moved.
    pub bytes: u64,
    /// For a read, whether all of its pages were in the cache.
    pub cached: bool,
    /// For a read or write, whether one was on the same file before, since the file was made.
    pub repeated: bool,
}

/// What is known of a file.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    depth: u32,
    id: Option<FileId>,
    written: bool,
    read: bool,
    /// How often it is open.
    open: u32,
    /// It has no name any more.
    gone: bool,
}

/// Follows a trace: memory grows with the files that exist at once and with the names of those that were met.
#[derive(Debug)]
pub struct Follower {
    /// Directories below which files count, normal; empty for all.
    roots: Vec<Vec<u8>>,
    /// Files of which no name is known count too: the trace itself was cut to the roots.
    nameless: bool,
    files: Vec<Known>,
    free: Vec<u32>,
    names: FxHashMap<Box<[u8]>, u32>,
    by_id: FxHashMap<FileId, u32>,
    descriptors: Descriptors<u32>,
    /// Where the trace does not say what was cached.
    cache: PageCache,
}

impl Follower {
    /// Follows what lies below `roots`, absolute directories; all where there is none. `nameless`: files that were
    /// opened before the trace began, whose names it does not tell, are among them.
    pub fn new(roots: &[Vec<u8>], nameless: bool) -> Self {
        Self {
            roots: roots.iter().map(|root| join(b"/", root)).collect(),
            nameless: nameless || roots.is_empty(),
            files: Vec::new(),
            free: Vec::new(),
            names: FxHashMap::default(),
            by_id: FxHashMap::default(),
            descriptors: Descriptors::default(),
            cache: PageCache::new(
                Policy::Linux,
                Some(CACHE_PAGES),
                Start::Cold,
                WriteBack::default(),
            ),
        }
    }

    /// Takes the next operation; `above` is told the path of a file that it opens or
    /// removes.
    pub fn take(
        &mut self,
        op: &Op,
        paths: &PathTable,
        above: &mut dyn FnMut(&[u8]),
    ) -> Result<Seen, Left> {
        if op.record.contains(OpFlags::COLD_DATA) {
            self.cache.make_cold(|_| false);
        }
        for file in gone(settle(&mut self.descriptors, op)) {
            self.closed(file);
        }
        if matches!(op.kind, OpKind::Dup | OpKind::Exec) || op.kind.class() == KindClass::Process {
            for file in gone(follow(&mut self.descriptors, op)) {
                self.closed(file);
            }
        }
        if op.record.contains(OpFlags::NOT_A_FILE)
            || op.kind.class() == KindClass::Process
            || op.kind == OpKind::Exec
        {
            return Err(Left::NoFile);
        }
        if !op.result.is_ok() {
            return Err(Left::Failed);
        }
        let path = op.path.filter(|_| op.kind.class() == KindClass::Name);
        let path = path.map(|path| join(op.dir.map_or(&[][..], |d| paths.get(d)), paths.get(path)));
        let depth = match &path {
            Some(path) => Some(self.depth(path).ok_or(Left::Elsewhere)?),
            None => None,
        };
        let before = path
            .as_ref()
            .and_then(|p| self.names.get(p.as_slice()).copied());
        let created = op.kind == OpKind::Open && creates(op, before.is_some());
        let file = match (&path, depth) {
            (Some(path), Some(depth)) => {
                if matches!(op.kind, OpKind::Open | OpKind::Unlink)
                    && !op.record.contains(OpFlags::DIRECTORY)
                {
                    above(path);
                }
                self.named(op, path, depth, before.filter(|_| !created))
            }
            _ => self.opened(op)?,
        };
        let seen = self.seen(op, file, created);
        match (op.kind, path, op.fd) {
            (OpKind::Unlink, Some(path), _) => {
                self.names.remove(path.as_slice());
                self.unnamed(file);
            }
            (OpKind::Rename, Some(path), _) => self.renamed(op, &path, paths),
            (OpKind::Close, _, Some(fd)) => {
                let closed = self.descriptors.close(op.pid.0, fd);
                closed
                    .and_then(|c| c.last)
                    .into_iter()
                    .for_each(|file| self.closed(file));
            }
            _ => {}
        }
        seen
    }

    /// How deep a path lies; `None` if it does not count.
    fn depth(&self, path: &[u8]) -> Option<u32> {
        let below = if self.roots.is_empty() {
            Some(path)
        } else {
            self.roots.iter().find_map(|root| beneath(path, root))
        };
        Some((components(below?).count() as u32).saturating_sub(1))
    }

    /// The file of a path, which is known from now on.
    fn named(&mut self, op: &Op, path: &[u8], depth: u32, before: Option<u32>) -> u32 {
        let file = before.unwrap_or_else(|| self.add(depth, op.file));
        if before.is_none() {
            self.names.insert(path.into(), file);
        }
        if let Some(id) = op.file {
            self.by_id.insert(id, file);
            if let Some(known) = self.files.get_mut(file as usize) {
                known.id = Some(id);
            }
        }
        if let (OpKind::Open, Some(fd)) = (op.kind, op.result.value()) {
            self.bind(op, Fd(fd as i32), file);
        }
        file
    }

    /// A descriptor is open on a file from now on.
    fn bind(&mut self, op: &Op, fd: Fd, file: u32) {
        if let Some(known) = self.files.get_mut(file as usize) {
            known.open += 1;
        }
        for old in gone(install(&mut self.descriptors, op, fd, file)) {
            self.closed(old);
        }
    }

    /// An open file of it is nobody's any more.
    fn closed(&mut self, file: u32) {
        if let Some(known) = self.files.get_mut(file as usize) {
            known.open = known.open.saturating_sub(1);
        }
        self.end(file);
    }

    /// Forgets a file that nobody can reach any more: one that comes later is another, also of the same inode.
    fn end(&mut self, file: u32) {
        let Some(known) = self
            .files
            .get(file as usize)
            .filter(|k| k.gone && k.open == 0)
        else {
            return;
        };
        if let Some(id) = known.id.filter(|id| self.by_id.get(id) == Some(&file)) {
            self.by_id.remove(&id);
        }
        self.cache.forget(file);
        self.free.push(file);
        if let Some(known) = self.files.get_mut(file as usize) {
            *known = Known::default();
        }
    }

    fn add(&mut self, depth: u32, id: Option<FileId>) -> u32 {
        let known = Known {
            depth,
            id,
            ..Known::default()
        };
        let Some(file) = self.free.pop() else {
            self.files.push(known);
            return self.files.len() as u32 - 1;
        };
        if let Some(slot) = self.files.get_mut(file as usize) {
            *slot = known;
        }
        file
    }

    /// The file of a descriptor.
    fn opened(&mut self, op: &Op) -> Result<u32, Left> {
        let by_fd = op
            .fd
            .and_then(|fd| self.descriptors.description(op.pid.0, fd).copied());
        let by_id = op.file.and_then(|id| self.by_id.get(&id).copied());
        if let Some(file) = by_id.or(by_fd) {
            return Ok(file);
        }
        if !self.nameless {
            return Err(Left::Elsewhere);
        }
        let file = self.add(0, op.file);
        match (op.file, op.fd) {
            (Some(id), _) => _ = self.by_id.insert(id, file),
            (None, Some(fd)) => self.bind(op, fd, file),
            _ => {}
        }
        Ok(file)
    }

    fn seen(&mut self, op: &Op, file: u32, created: bool) -> Result<Seen, Left> {
        let operation = Operation::of(op.kind, created).ok_or(Left::NoNumber)?;
        let bytes = op.bytes_moved();
        let mut seen = Seen {
            operation,
            depth: 0,
            bytes,
            cached: false,
            repeated: false,
        };
        if operation == Operation::READ || operation == Operation::WRITE {
            seen.cached = self.cached(op, file, bytes, operation == Operation::WRITE);
        }
        if let Some(known) = self.files.get_mut(file as usize) {
            seen.depth = known.depth;
            seen.repeated = match operation {
                Operation::READ => std::mem::replace(&mut known.read, true),
                Operation::WRITE => std::mem::replace(&mut known.written, true),
                _ => false,
            };
        }
        Ok(seen)
    }

    /// Whether a read missed no page, by what the trace says of it, else by a cache of [`CACHE_PAGES`] pages that was
    /// empty at the start.
    fn cached(&mut self, op: &Op, file: u32, bytes: u64, write: bool) -> bool {
        if let (Some(missed), false) = (op.pages_missed, write) {
            return missed == 0;
        }
        let first = op.offset.unwrap_or(0) / PAGE_BYTES;
        let pages = bytes.div_ceil(PAGE_BYTES).min(REQUEST_PAGES);
        let mut all = true;
        for page in first..first.saturating_add(pages) {
            let before = if write {
                self.cache.write(file, page, 0, op.start_ns)
            } else {
                self.cache.read(file, page, false)
            };
            all &= !matches!(before, PageState::Absent);
        }
        all && !write
    }

    fn renamed(&mut self, op: &Op, from: &[u8], paths: &PathTable) {
        let Some(to) = op.path2 else { return };
        let dir = op.dir2.or(op.dir);
        let to = join(dir.map_or(&[][..], |d| paths.get(d)), paths.get(to));
        let Some(file) = self.names.remove(from) else {
            return;
        };
        if let Some(depth) = self.depth(&to) {
            if let Some(known) = self.files.get_mut(file as usize) {
                known.depth = depth;
            }
            if let Some(old) = self.names.insert(to.into(), file) {
                self.unnamed(old);
            }
        }
    }

    fn unnamed(&mut self, file: u32) {
        if let Some(known) = self.files.get_mut(file as usize) {
            known.gone = true;
        }
        self.end(file);
    }
}

/// Whether an open made its file: it was asked to, and either had to, or nothing was known of the name and the file is
/// empty.
fn creates(op: &Op, known: bool) -> bool {
    let asked = |flags| op.flags & flags == flags;
    let empty = op.size_bytes.is_none_or(|size| size == 0);
    asked(O_CREAT) && !asked(O_DIRECTORY) && (asked(O_CREAT | O_EXCL) || !known && empty)
}

#[cfg(test)]
mod tests {
    use fsage_core::{Pid, Tid};

    use super::*;

    struct Story {
        follower: Follower,
        paths: PathTable,
    }

    impl Story {
        fn new(root: &str) -> Self {
            let roots: Vec<_> = [root.as_bytes().to_vec()]
                .into_iter()
                .filter(|r| !r.is_empty())
                .collect();
            Self {
                follower: Follower::new(&roots, false),
                paths: PathTable::new(),
            }
        }

        fn op(
            &mut self,
            kind: OpKind,
            path: &str,
            with: impl FnOnce(&mut Op),
        ) -> Result<Seen, Left> {
            let mut op = Op::new(kind, Pid(1), Tid(1), 0);
            if !path.is_empty() {
                op.path = self.paths.intern(path.as_bytes());
            }
            with(&mut op);
            self.follower.take(&op, &self.paths, &mut |_| ())
        }

        fn open(&mut self, path: &str, flags: u32) -> Result<Seen, Left> {
            self.op(OpKind::Open, path, |op| {
                op.flags = flags;
                op.result = fsage_core::Outcome::ok(3);
                op.size_bytes = Some(0);
            })
        }

        fn data(&mut self, kind: OpKind, bytes: u64) -> Seen {
            let seen = self.op(kind, "", |op| {
                op.fd = Some(Fd(3));
                op.result = fsage_core::Outcome::ok(bytes);
            });
            seen.unwrap()
        }
    }

    #[test]
    fn depth_is_counted_as_the_dissertation_does() {
        let mut story = Story::new("");
        assert_eq!(story.open("/tmp/dir/file", 0).unwrap().depth, 2);
        assert_eq!(story.op(OpKind::Unlink, "/f", |_| ()).unwrap().depth, 0);
        let mut story = Story::new("/tmp/");
        assert_eq!(story.open("/tmp/dir/file", 0).unwrap().depth, 1);
        assert_eq!(story.open("/var/file", 0), Err(Left::Elsewhere));
        assert_eq!(story.data(OpKind::Read, 10).depth, 1);
    }

    #[test]
    fn an_open_creates_what_was_not_there() {
        let mut story = Story::new("");
        let name = |seen: Result<Seen, Left>| seen.unwrap().operation.name();
        assert_eq!(name(story.open("/a", O_CREAT)), "create");
        assert_eq!(name(story.open("/a", O_CREAT)), "open");
        assert_eq!(name(story.open("/b", 0)), "open");
        story.op(OpKind::Unlink, "/a", |_| ()).unwrap();
        assert_eq!(name(story.open("/a", O_CREAT | O_EXCL)), "create");
    }

    #[test]
    fn a_file_that_was_made_anew_is_another() {
        let mut story = Story::new("");
        story.open("/a", O_CREAT).unwrap();
        assert!(!story.data(OpKind::Write, 10).repeated);
        assert!(story.data(OpKind::Write, 10).repeated);
        let read = story.data(OpKind::Read, 10);
        assert!(!read.repeated && read.cached, "what was written is cached");
        story.op(OpKind::Rename, "/a", |_| ()).unwrap();
        story.op(OpKind::Unlink, "/a", |_| ()).unwrap();
        story.open("/a", O_CREAT).unwrap();
        let read = story.data(OpKind::Read, 10);
        assert!(!read.repeated && !read.cached);
        assert!(story.data(OpKind::Read, 10).repeated);
    }

    /// Neither names nor ids tell what a child's descriptors are.
    #[test]
    fn a_child_has_what_its_parent_opened() {
        let mut story = Story::new("/w");
        let write_of = |pid: u32| {
            move |op: &mut Op| {
                (op.pid, op.fd) = (Pid(pid), Some(Fd(3)));
                op.result = fsage_core::Outcome::ok(10);
            }
        };
        story.open("/w/d/a", O_CREAT).unwrap();
        assert!(!story.data(OpKind::Write, 10).repeated);
        let forked = story.op(OpKind::Fork, "", |op| op.length = Some(2));
        assert_eq!(forked, Err(Left::NoFile));
        let child = story.op(OpKind::Write, "", write_of(2)).unwrap();
        assert!(child.repeated && child.depth == 1, "{child:?}");
        story.op(OpKind::Unlink, "/w/d/a", |_| ()).unwrap();
        story
            .op(OpKind::Close, "", |op| op.fd = Some(Fd(3)))
            .unwrap();
        assert!(story.follower.free.is_empty(), "the child has it open");
        let exit = |op: &mut Op| (op.pid, op.length) = (Pid(2), Some(1));
        story.op(OpKind::Exit, "", exit).unwrap_err();
        assert_eq!(story.follower.free, [0]);
        let gone = story.op(OpKind::Write, "", write_of(2));
        assert_eq!(gone, Err(Left::Elsewhere));
    }

    #[test]
    fn a_trace_that_counts_misses_is_believed() {
        let mut story = Story::new("");
        story.open("/a", 0).unwrap();
        for (missed, cached) in [(0, true), (1, false)] {
            let seen = story.op(OpKind::Read, "", |op| {
                op.fd = Some(Fd(3));
                op.result = fsage_core::Outcome::ok(10);
                op.pages_missed = Some(missed);
            });
            assert_eq!(seen.unwrap().cached, cached);
        }
    }

    #[test]
    fn what_is_left_out_has_a_reason() {
        let mut story = Story::new("");
        let failed = story.op(OpKind::Unlink, "/a", |op| {
            op.result = fsage_core::Outcome::err(fsage_core::Errno::ENOENT);
        });
        assert_eq!(failed, Err(Left::Failed));
        assert_eq!(story.op(OpKind::Fork, "", |_| ()), Err(Left::NoFile));
        assert_eq!(story.op(OpKind::Chdir, "/", |_| ()), Err(Left::NoNumber));
    }
}
