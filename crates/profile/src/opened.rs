//! Files that several streams use, closed however their procedure ends: one that stays open keeps its
//! file system from being unmounted.

use fsage_core::{Errno, FileSystem, Handle, OpenFlags};

pub(crate) struct Opened<'a> {
    fs: &'a dyn FileSystem,
    handles: Vec<Handle>,
}

impl<'a> Opened<'a> {
    pub(crate) fn of(fs: &'a dyn FileSystem) -> Self {
        let handles = Vec::new();
        Self { fs, handles }
    }

    /// Opens a file that is there.
    pub(crate) fn open(&mut self, path: &[u8], flags: OpenFlags) -> Result<Handle, Errno> {
        let handle = self.fs.open(path, flags, 0)?;
        self.handles.push(handle);
        Ok(handle)
    }

    /// Closes all of them; the first that fails is the error.
    pub(crate) fn close(mut self) -> Result<(), Errno> {
        self.close_all()
    }

    fn close_all(&mut self) -> Result<(), Errno> {
        let closed = self.handles.drain(..).map(|handle| self.fs.close(handle));
        closed.fold(Ok(()), Result::and)
    }
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        let _ = self.close_all();
    }
}
