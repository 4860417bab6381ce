//! Names that lead through descriptors (`/dev/stdout`, `/proc/self/fd/3`) or directories (`/proc/self/cwd`), and files that
//! have no name (`O_TMPFILE`) until one is given to what a descriptor is open on.
//!
//! As a capture tells them: such a name is the one that the file has, and a link of a descriptor's file tells the descriptor.

use fsage_core::{Fd, Op, OpKind};
use fsage_namespace::flags::{AT_EMPTY_PATH, AT_SYMLINK_FOLLOW, O_CLOEXEC, follows_end};
use fsage_namespace::path::join;
use fsage_namespace::reached::{Reached, Through, reached};

use super::args::FdName;
use super::calls::{Dir, Importer, arg, at, mark};
use super::line::Call;
use super::state::Description;
use super::table::PathCall;

impl Importer {
    /// The name of its own that a file has which is named by way of a descriptor or a process's directory.
    pub(super) fn through_descriptor(
        &mut self,
        op: &Op,
        dir: &Dir,
        path: &[u8],
    ) -> Option<Vec<u8>> {
        let name = join(&dir.path, path);
        if path.is_empty() || !(name.starts_with(b"/proc/") || name.starts_with(b"/dev/")) {
            return None;
        }
        let Reached { pid, through, rest } = reached(&name, op.pid)?;
        let task = if pid == op.pid { op.tid.0 } else { pid.0 };
        if !self.processes.knows(task) || rest.is_empty() && !follows_end(op) {
            return None;
        }
        let top = match through {
            Through::Fd(fd) if rest.is_empty() => return self.name_of_open(task, fd),
            Through::Fd(fd) => self.processes.description(task, Fd(fd))?.path.clone(),
            Through::Directory => self.working_directory(task),
            Through::Root => [&self.root(task)[..], b"/"].concat(),
        };
        top.starts_with(b"/").then(|| join(&top, rest))
    }

    /// A name that the file of a descriptor has now: that of its opening may be gone, or another file's.
    fn name_of_open(&mut self, task: u32, fd: i32) -> Option<Vec<u8>> {
        let open = self.processes.description(task, Fd(fd))?;
        let (file, path) = (open.file?, open.path.clone());
        let has_it =
            |path: &&Vec<u8>| path.starts_with(b"/") && self.files.find(path) == Some(file);
        [Some(&path), self.given.get(&file)]
            .into_iter()
            .flatten()
            .find(has_it)
            .cloned()
    }

    /// A further name for what a descriptor is open on, or its first one.
    pub(super) fn link_descriptor(
        &mut self,
        mut op: Op,
        fd: i32,
        row: PathCall,
        call: &Call<'_>,
        ops: &mut Vec<Op>,
    ) -> Result<(), &'static str> {
        let tid = op.tid.0;
        let by_name = arg(call, 1)?
            .string()
            .is_some_and(|(name, _)| !name.is_empty());
        let file = if by_name {
            let open = self.processes.description(tid, Fd(fd));
            open.and_then(|open| open.file)
        } else {
            // The descriptor stands there itself, with what `-y` says about it.
            self.file_of_fd(tid, arg(call, 0)?)?
        };
        (op.fd, op.flags) = (Some(Fd(fd)), AT_EMPTY_PATH);
        let old = self.name_of_open(tid, fd);
        op.path = old.as_deref().and_then(|path| self.paths.intern(path));
        let dir = self.directory(tid, at(call, row.dir2))?;
        let path = at(call, row.path2).and_then(|text| self.name_of(&mut op, text));
        op.path2 = path.as_deref().and_then(|path| self.paths.intern(path));
        op.dir2 = self.relative_to(path.as_deref(), &dir.path);
        if let Some(file) = file {
            self.fill_file(&mut op, file);
        }
        if let Some(path) = path {
            let new = join(&dir.path, &path);
            self.named_under = self.files.is_under(&new);
            if let (Some(file), true) = (file, op.result.is_ok()) {
                self.files.name(file, &new);
                self.given.insert(file, new);
            }
        }
        ops.push(op);
        Ok(())
    }

    /// A new file without a name, made in the directory `dir`, which stays what it is.
    pub(super) fn opened_nameless(
        &mut self,
        op: &mut Op,
        fd: i32,
        reported: Option<FdName>,
        dir: &[u8],
    ) {
        let not_a_file = reported == Some(FdName::NotAFile);
        let path = match reported {
            Some(FdName::Path { path, .. }) => Some(path),
            _ => None,
        };
        // By that other processes find it which have its descriptor.
        let shown = path.as_deref().map(gone);
        let file = self
            .files
            .nameless(self.files.is_under(dir), shown.as_deref());
        let description = Description {
            path: path.unwrap_or_default(),
            not_a_file,
            ..Description::opened(file, op.flags)
        };
        mark(op, &description);
        self.install(op.tid.0, fd, description, op.flags & O_CLOEXEC != 0);
        self.fill_file(op, file);
    }
}

/// The descriptor of the caller whose file a link names.
pub(super) fn linked(op: &Op, dir: &Dir, path: Option<&[u8]>) -> Option<i32> {
    let path = path.filter(|_| op.kind == OpKind::Link)?;
    if path.is_empty() {
        return dir.fd.filter(|_| op.flags & AT_EMPTY_PATH != 0);
    }
    if op.flags & AT_SYMLINK_FOLLOW == 0 {
        return None;
    }
    let name = join(&dir.path, path);
    let Reached { pid, through, rest } = reached(&name, op.pid)?;
    match through {
        Through::Fd(fd) if pid == op.pid && rest.is_empty() => Some(fd),
        _ => None,
    }
}

/// What a file is known by whose name is gone, or that never had one.
pub(super) fn gone(path: &[u8]) -> Vec<u8> {
    [path, b" (deleted)"].concat()
}
