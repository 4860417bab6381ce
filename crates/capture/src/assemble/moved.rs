//! Directories that were renamed while processes are in them or have them open.
//!
//! What a trace says of a relative name is the directory that it starts from, by the name that this has then. A rename by
//! what is traced changes it in the order of time. A rename by others is seen to have happened, not of what: so the next
//! time that a name starts from a directory, it is looked whether that still has its name.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::rc::Rc;

use fsage_core::{DevId, Fd, FileId, Op, Pid};
use fsage_namespace::flags::RENAME_EXCHANGE;
use fsage_namespace::path::moved;

use super::Assembler;
use super::process::Processes;
use crate::raw::RawCall;

type Name = Rc<[u8]>;

/// Processes that are asked what the directory of one that has ended is called now.
const OTHERS_ASKED: usize = 64;

impl Assembler {
    /// A name was given to what had another one, and all below it with it.
    pub(super) fn renamed(&mut self, op: &Op, from: &[u8], to: &[u8]) {
        let exchange = op.flags & RENAME_EXCHANGE != 0;
        let is_file = self.names.is_file(from) && (!exchange || self.names.is_file(to));
        let held = !is_file && self.move_held(from, to, exchange);
        let names = &self.names;
        let whole = held || names.is_directory(from) || exchange && names.is_directory(to);
        // Links in a directory have other names, and lead elsewhere if they are relative.
        if whole || names.is_link(from) || names.is_link(to) {
            self.filter.links_changed();
        }
        self.names.rename(from, to, whole, exchange);
    }

    /// Whether anything below the names is open, or a process in it.
    fn move_held(&mut self, from: &[u8], to: &[u8], exchange: bool) -> bool {
        let mut below = false;
        let mut change = |name: &mut Option<Name>| {
            let Some(old) = name.as_deref() else { return };
            let new = moved(old, from, to, exchange);
            if let Some(new) = new {
                below |= old != from && old != to;
                *name = Some(new.into());
            }
        };
        for place in self.processes.directories_mut() {
            change(&mut place.directory);
            change(&mut place.root);
        }
        for open in self.processes.opens_mut() {
            change(&mut open.path);
        }
        below
    }

    /// The directory of a process.
    pub(super) fn working_directory(&mut self, pid: Pid) -> Option<Name> {
        let place = self.processes.directory(pid.0)?;
        if place.renames == self.renames {
            return place.directory.clone();
        }
        let mut place = place.clone();
        place.renames = self.renames;
        if let (Some(known), Some(file)) = (&place.directory, place.file) {
            let now = self.name_now(pid, known, file, "cwd");
            place.directory = now.or(place.directory);
        }
        let name = place.directory.clone();
        self.processes.set_directory(pid.0, place);
        name
    }

    /// The directory that a descriptor is open on.
    pub(super) fn directory_of(&mut self, pid: Pid, fd: i32) -> Option<Name> {
        let open = self.open_of(pid, fd)?;
        let (Some(known), Some(file)) = (&open.path, open.file) else {
            return open.path;
        };
        if open.renames == self.renames {
            return open.path;
        }
        let now = self.name_now(pid, known, file, &format!("fd/{fd}"));
        let open = self.processes.description(pid.0, Fd(fd))?;
        open.renames = self.renames;
        open.path = now.or(open.path.take());
        open.path.clone()
    }

    /// The name of a directory, if it is another one than is known. Programs are ahead of what is made of them: one that
    /// is not there any more may just be removed.
    fn name_now(&mut self, pid: Pid, known: &Name, file: FileId, link: &str) -> Option<Name> {
        let is_it = |path: &Path| {
            identity(path).is_some_and(|found| (found.dev, found.ino) == (file.dev, file.ino))
        };
        let own = format!("/proc/{}", Processes::number(pid.0));
        let known = OsStr::from_bytes(known);
        // In a tree of mounts of its own it is there as the process sees it.
        let mut seen = OsString::from(format!("{own}/root"));
        seen.push(known);
        if is_it(Path::new(known)) || is_it(Path::new(&seen)) {
            return None;
        }
        let now = fs::read_link(format!("{own}/{link}")).ok();
        let now = now.map(|now| now.into_os_string().into_vec());
        if now
            .as_deref()
            .is_some_and(|now| now.ends_with(b" (deleted)"))
        {
            return None;
        }
        let is_name = |now: &Vec<u8>| is_it(Path::new(OsStr::from_bytes(now)));
        let now = now
            .filter(is_name)
            .or_else(|| self.others_name(file).filter(is_name));
        self.strayed += u64::from(now.is_none());
        now.map(Into::into)
    }

    /// What another process that is in a directory calls it: one that has ended cannot be asked.
    fn others_name(&self, file: FileId) -> Option<Vec<u8>> {
        let is_there = |&task: &u32| {
            let place = self.processes.directory(task);
            let known = place.and_then(|place| place.file);
            known.is_some_and(|known| (known.dev, known.ino) == (file.dev, file.ino))
        };
        let others = self.processes.tasks().filter(is_there).take(OTHERS_ASKED);
        let mut names = others.filter_map(|task| {
            fs::read_link(format!("/proc/{}/cwd", Processes::number(task))).ok()
        });
        names.next().map(|name| name.into_os_string().into_vec())
    }

    /// A process may be in another tree of mounts: at its root, if it is.
    pub(super) fn namespace_changed(&mut self, call: &RawCall) {
        if call.result != 0 {
            return;
        }
        self.meet(call.pid);
        let file = call.file.map(|file| self.identify(&file));
        let known = self.processes.directory(call.pid.0);
        let same = known
            .and_then(|place| place.file)
            .zip(file)
            .is_some_and(|(known, now)| (known.dev, known.ino) == (now.dev, now.ino));
        if !same {
            let link = format!("/proc/{}/cwd", Processes::number(call.pid.0));
            let now = fs::read_link(link).ok();
            let now = now.map(|now| now.into_os_string().into_vec().into());
            self.go_to(call.pid, now, file);
        }
    }
}

/// Which file a name leads to now.
pub(super) fn identity(path: impl AsRef<Path>) -> Option<FileId> {
    let meta = fs::metadata(path).ok()?;
    Some(FileId {
        dev: DevId(meta.dev()),
        ino: meta.ino(),
        generation: 0,
    })
}
