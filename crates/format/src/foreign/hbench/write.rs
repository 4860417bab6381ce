//! Operations as HBench-FS records: an operation on a path becomes a chain of lookups, an implicit
//! truncate where it frees a file's blocks, and itself.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use fsage_core::{
    COPY_SHARES, Errno, FileId, KindClass, Op, OpFlags, OpKind, OpSink, PathId, PathTable,
    RWF_DSYNC, RWF_SYNC, SinkError,
};
use fsage_namespace::flags::{O_CREAT, O_DIRECTORY, O_TRUNC};
use fsage_namespace::path::join;
use rustc_hash::FxHashMap;

use super::read::SECOND_PATH;
use super::record::{HbFile, HbRecord, HbUnion, class_of, flag, op_type as t};
use crate::FormatError;

/// No kernel takes a longer one (`PATH_MAX`).
const LONGEST_PATH: usize = 4096;

/// Writes operations as an HBench-FS trace.
///
/// Kinds that the format has no type for (Table A.1), writes that are stable when they end (`RWF_DSYNC`), copies that share
/// blocks and paths that no kernel takes are left out and counted. Other copies between files become a read and a write.
/// Descriptors, thread ids and devices are lost.
#[derive(Debug)]
pub struct HbenchSink<W> {
    output: W,
    name: PathBuf,
    start_unix_ns: u64,
    /// Inode numbers of paths that were operated on, for the lookups of later chains.
    inodes: FxHashMap<Vec<u8>, u64>,
    sizes: FxHashMap<FileId, u64>,
    not_carried: BTreeMap<&'static str, u64>,
}

/// One path of a chain: its lookups, and the file at its end.
struct Walk {
    lookups: Vec<HbFile>,
    last: HbFile,
}

impl<W: Write> HbenchSink<W> {
    /// Writes to `output` (best buffered); the stream's time 0 is `start_unix_ns` since the epoch.
    /// Errors name `name`.
    pub fn new(output: W, name: &Path, start_unix_ns: u64) -> Self {
        Self {
            output,
            name: name.to_owned(),
            start_unix_ns,
            inodes: FxHashMap::default(),
            sizes: FxHashMap::default(),
            not_carried: BTreeMap::new(),
        }
    }

    /// Flushes and says how many operations were left out, by kind or by what their flags make of them.
    pub fn finish(mut self) -> Result<BTreeMap<&'static str, u64>, FormatError> {
        self.output
            .flush()
            .map_err(|e| FormatError::io("write", &self.name, e))?;
        Ok(self.not_carried)
    }

    fn write_op(&mut self, op: &Op, paths: &PathTable) -> Result<(), FormatError> {
        let long = |path: Option<PathId>| path.is_some_and(|p| paths.get(p).len() > LONGEST_PATH);
        let without = unlike_plain(op);
        let op_type =
            type_of(op).filter(|_| without.is_none() && !long(op.path) && !long(op.path2));
        let Some(op_type) = op_type else {
            let what = without.unwrap_or_else(|| op.kind.name());
            *self.not_carried.entry(what).or_insert(0) += 1;
            return Ok(());
        };
        let mut last = self.head(op, op_type);
        last.un = union_of(op);
        last.open_flags = if op.kind == OpKind::Open { op.flags } else { 0 };
        let ino = op.file.map_or(0, |file| file.ino);
        let mut chain = Vec::new();
        if op.path.is_some() && op.kind.class() == KindClass::Name {
            let first = self.walk(op.path, op.dir, paths, ino, 0);
            chain.extend(first.lookups);
            last.target = first.last;
            if matches!(op.kind, OpKind::Rename | OpKind::Link) {
                let second = self.walk(op.path2, op.dir2.or(op.dir), paths, 0, 0);
                let at = chain.len();
                chain.extend(second.lookups);
                last.un = HbUnion::File2(second.last);
                self.write_chain(op, chain, Some(at), last)?;
                self.learn(op, paths);
                return Ok(());
            }
            if op.kind == OpKind::Symlink {
                last.linkdata = op
                    .path2
                    .map(|path| paths.get(path).to_vec())
                    .unwrap_or_default();
            }
        } else {
            last.target.inum = ino;
        }
        self.write_chain(op, chain, None, last)?;
        self.learn(op, paths);
        Ok(())
    }

    fn head(&self, op: &Op, op_type: u32) -> HbRecord {
        let time = self.start_unix_ns.saturating_add(op.start_ns);
        let directory = op.record.contains(OpFlags::DIRECTORY)
            || matches!(
                op.kind,
                OpKind::Mkdir | OpKind::Rmdir | OpKind::Readdir | OpKind::Chdir
            );
        let what = match op.kind {
            OpKind::Symlink | OpKind::Readlink => flag::ISLINK,
            _ if directory => flag::ISDIR,
            _ => flag::ISFILE,
        };
        HbRecord {
            op_type,
            op_flags: what,
            time_sec: (time / 1_000_000_000) as i64,
            time_nsec: (time % 1_000_000_000) as u32,
            pid: op.pid.0 as i32,
            class: class_of(op_type) as u32,
            ..HbRecord::default()
        }
    }

    fn walk(
        &self,
        path: Option<PathId>,
        dir: Option<PathId>,
        paths: &PathTable,
        ino: u64,
        dir_ino: u64,
    ) -> Walk {
        let path = path.map_or(&b""[..], |path| paths.get(path));
        let base = dir.map_or(&b""[..], |dir| paths.get(dir));
        let absolute = path.starts_with(b"/");
        let mut at = if absolute {
            b"/".to_vec()
        } else {
            base.to_vec()
        };
        let mut lookups = Vec::new();
        let mut dirinum = self.inode(&at).max(dir_ino);
        for name in path.split(|&b| b == b'/').filter(|name| !name.is_empty()) {
            let next = join(&at, name);
            let inum = self.inode(&next);
            let dirname = std::mem::replace(&mut at, next);
            lookups.push(HbFile {
                inum,
                filename: name.to_vec(),
                dirinum,
                dirname,
            });
            dirinum = inum;
        }
        let mut last = lookups.last().cloned().unwrap_or_else(|| HbFile {
            dirname: at,
            ..HbFile::default()
        });
        if ino != 0 {
            last.inum = ino;
            if let Some(lookup) = lookups.last_mut() {
                lookup.inum = ino;
            }
        }
        Walk { lookups, last }
    }

    fn inode(&self, path: &[u8]) -> u64 {
        self.inodes.get(path).copied().unwrap_or(0)
    }

    fn write_chain(
        &mut self,
        op: &Op,
        lookups: Vec<HbFile>,
        second: Option<usize>,
        mut last: HbRecord,
    ) -> Result<(), FormatError> {
        let errno = op.result.errno();
        let found = !matches!(errno, Some(Errno::ENOENT | Errno::ENOTDIR));
        let count = lookups.len();
        let plain = HbRecord {
            un: HbUnion::None,
            ..last.clone()
        };
        for (index, target) in lookups.into_iter().enumerate() {
            let ends = index + 1 == count || second == Some(index + 1);
            let kind = if ends { last.op_flags } else { flag::ISDIR };
            let mut lookup = HbRecord {
                op_type: t::LOOKUP,
                op_flags: kind | flag::CHAIN,
                class: class_of(t::LOOKUP) as u32,
                target,
                linkdata: Vec::new(),
                open_flags: 0,
                client: if second == Some(index) {
                    SECOND_PATH
                } else {
                    0
                },
                ..plain.clone()
            };
            // Which component was missing is not told: the last one stands for it.
            if !found && index + 1 == count {
                lookup.op_flags |= flag::FAIL;
                lookup.packsize = errno.map_or(0, |errno| errno.0 as u32);
            }
            self.put(&lookup)?;
        }
        let frees = matches!(op.kind, OpKind::Unlink | OpKind::Rmdir)
            || (op.kind == OpKind::Open && op.flags & O_TRUNC != 0);
        if frees && op.result.is_ok() && count > 0 {
            let filesize = self.size_before(op);
            let truncate = HbRecord {
                op_type: t::TRUNCATE,
                op_flags: last.op_flags | flag::CHAIN,
                class: class_of(t::TRUNCATE) as u32,
                un: HbUnion::Io {
                    filesize,
                    offset: 0,
                    count: 0,
                },
                open_flags: 0,
                ..last.clone()
            };
            self.put(&truncate)?;
        }
        if count > 0 {
            last.op_flags |= flag::CHAIN_END;
        }
        match errno {
            Some(_) if !found && count > 0 => last.op_flags |= flag::IGNORE,
            Some(errno) => {
                last.op_flags |= flag::FAIL;
                last.packsize = errno.0 as u32;
            }
            None => {}
        }
        last.latency_real_ms = op.latency_ns.map_or(0.0, |ns| ns as f64 / 1e6);
        self.put(&last)
    }

    /// The size of the file whose blocks an operation frees; an open reports it as it is afterwards.
    fn size_before(&self, op: &Op) -> i64 {
        let known = op.file.and_then(|file| self.sizes.get(&file)).copied();
        let size = if op.kind == OpKind::Open {
            known
        } else {
            op.size_bytes.or(known)
        };
        size.map_or(0, |size| size as i64)
    }

    fn learn(&mut self, op: &Op, paths: &PathTable) {
        let Some(file) = op.file.filter(|_| op.result.is_ok()) else {
            return;
        };
        let grown = match op.kind {
            OpKind::Write | OpKind::CopyOut | OpKind::SpliceOut => {
                let end = op
                    .offset
                    .unwrap_or(0)
                    .saturating_add(op.result.value().unwrap_or(0));
                Some(op.size_bytes.unwrap_or(0).max(end))
            }
            OpKind::Truncate | OpKind::Ftruncate => op.length,
            _ => op.size_bytes,
        };
        if let Some(size) = grown {
            self.sizes.insert(file, size);
        }
        if let (Some(path), KindClass::Name) = (op.path, op.kind.class()) {
            let dir = op.dir.map_or(&b""[..], |dir| paths.get(dir));
            let name = join(dir, paths.get(path));
            if matches!(op.kind, OpKind::Unlink | OpKind::Rmdir | OpKind::Rename) {
                self.inodes.remove(&name);
            } else {
                self.inodes.insert(name, file.ino);
            }
            if op.kind == OpKind::Rename
                && let Some(path) = op.path2
            {
                let dir = op.dir2.or(op.dir).map_or(&b""[..], |dir| paths.get(dir));
                self.inodes.insert(join(dir, paths.get(path)), file.ino);
            }
        }
    }

    fn put(&mut self, record: &HbRecord) -> Result<(), FormatError> {
        record
            .write(&mut self.output)
            .map_err(|e| FormatError::io("write", &self.name, e))
    }
}

/// What flags make of a read, write or copy that is none of a plain one's kind: a record, which has no place for them, would
/// be another operation.
fn unlike_plain(op: &Op) -> Option<&'static str> {
    let any = |flags: u32| op.flags & flags != 0;
    match op.kind {
        OpKind::Write if any(RWF_DSYNC | RWF_SYNC) => Some("write with RWF_DSYNC or RWF_SYNC"),
        OpKind::CopyIn | OpKind::CopyOut if any(COPY_SHARES) => Some("copy that shares blocks"),
        _ => None,
    }
}

fn type_of(op: &Op) -> Option<u32> {
    let on_fd = op.path.is_none();
    Some(match op.kind {
        OpKind::Stat | OpKind::Fstat => t::GETATTR,
        OpKind::Chmod
        | OpKind::Fchmod
        | OpKind::Chown
        | OpKind::Fchown
        | OpKind::Utimens
        | OpKind::Futimens => t::SETATTR,
        OpKind::Read | OpKind::CopyIn | OpKind::Sendfile | OpKind::SpliceIn => t::READ,
        OpKind::Write | OpKind::CopyOut | OpKind::SpliceOut => t::WRITE,
        OpKind::Open if on_fd => return None,
        OpKind::Open if op.flags & O_DIRECTORY != 0 => t::OPENDIR,
        OpKind::Open if op.flags & O_CREAT != 0 => t::CREATE,
        OpKind::Open => t::OPEN,
        OpKind::Unlink => t::REMOVE,
        OpKind::Rename => t::RENAME,
        OpKind::Link => t::LINK,
        OpKind::Readlink => t::READLINK,
        OpKind::Symlink => t::SYMLINK,
        OpKind::Mkdir => t::MKDIR,
        OpKind::Rmdir => t::RMDIR,
        OpKind::Readdir => t::READDIR,
        OpKind::Statfs | OpKind::Fstatfs => t::STATFS,
        OpKind::Close if op.record.contains(OpFlags::DIRECTORY) => t::CLOSEDIR,
        OpKind::Close => t::CLOSE,
        OpKind::Access => t::ACCESS,
        OpKind::Truncate | OpKind::Ftruncate => t::TRUNCATE,
        OpKind::Chdir | OpKind::Fchdir => t::CHDIR,
        _ => return None,
    })
}

fn union_of(op: &Op) -> HbUnion {
    let signed = |value: Option<u64>| value.map_or(-1, |value| i64::try_from(value).unwrap_or(-1));
    let keep = HbUnion::Attr {
        mode: u32::MAX,
        uid: u64::MAX,
        gid: u64::MAX,
        size: u64::MAX,
        atime: -1,
        mtime: -1,
    };
    match (op.kind, keep) {
        (
            OpKind::Chmod | OpKind::Fchmod,
            HbUnion::Attr {
                uid,
                gid,
                size,
                atime,
                mtime,
                ..
            },
        ) => HbUnion::Attr {
            mode: op.flags,
            uid,
            gid,
            size,
            atime,
            mtime,
        },
        (
            OpKind::Chown | OpKind::Fchown,
            HbUnion::Attr {
                mode,
                size,
                atime,
                mtime,
                ..
            },
        ) => {
            let (uid, gid) = (op.offset.unwrap_or(0), op.length.unwrap_or(0));
            HbUnion::Attr {
                mode,
                uid,
                gid,
                size,
                atime,
                mtime,
            }
        }
        (OpKind::Utimens | OpKind::Futimens, keep) => keep,
        (OpKind::Truncate | OpKind::Ftruncate, _) => HbUnion::Io {
            filesize: signed(op.size_bytes),
            offset: signed(op.length),
            count: 0,
        },
        (OpKind::Readdir, _) => HbUnion::Io {
            filesize: signed(op.size_bytes),
            offset: 0,
            count: moved(op),
        },
        (kind, _) if kind.class() == KindClass::Data => HbUnion::Io {
            filesize: signed(op.size_bytes),
            offset: signed(op.offset),
            count: moved(op),
        },
        _ => HbUnion::None,
    }
}

/// What was moved; what was asked for where it failed.
fn moved(op: &Op) -> u32 {
    let count = op.result.value().or(op.length).unwrap_or(0);
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl<W: Write> OpSink for HbenchSink<W> {
    fn push(&mut self, op: &Op, paths: &PathTable) -> Result<(), SinkError> {
        self.write_op(op, paths).map_err(crate::foreign::sink_error)
    }
}
