//! HBench-FS records as operations: a chain becomes the one operation at its end.

use std::io::Read;
use std::path::{Path, PathBuf};

use fsage_core::{
    DevId, Errno, FileId, Op, OpFlags, OpKind, OpSource, Outcome, PathTable, Pid, SourceError, Tid,
};
use fsage_namespace::flags::{O_CREAT, O_DIRECTORY};

use super::record::{HbFile, HbRecord, HbUnion, RecordError, flag, op_type as t};
use crate::FormatError;

/// What an import met, beside the operations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HbenchReport {
    /// Records read.
    pub records: u64,
    /// Operations yielded.
    pub operations: u64,
    /// Records that say nothing: `OP_NULL`, `OP_WRITECACHE`, `OP_ROOT`, or ignored outside of a
    /// failed chain.
    pub skipped: u64,
    /// The time of the first record in nanoseconds since the epoch; operations start relative to it.
    pub start_unix_ns: Option<u64>,
}

/// What the records of a chain before its last one said.
#[derive(Debug, Default)]
struct Chain {
    base: Option<Vec<u8>>,
    names: Vec<Vec<u8>>,
    /// Where the second path's lookups start.
    second: Option<Second>,
    failed: Option<Outcome>,
    latency_ms: f64,
    size: Option<u64>,
    length: usize,
}

#[derive(Debug)]
struct Second {
    base: Vec<u8>,
    names: Vec<Vec<u8>>,
}

/// No path has more components; a longer chain is damage.
const MAX_CHAIN: usize = 8192;

/// Operations from an HBench-FS trace.
#[derive(Debug)]
pub struct HbenchSource<R> {
    input: R,
    name: PathBuf,
    offset: u64,
    paths: PathTable,
    report: HbenchReport,
}

impl<R: Read> HbenchSource<R> {
    /// Reads from `input` (best buffered); errors name `name`.
    pub fn new(input: R, name: &Path) -> Self {
        let report = HbenchReport::default();
        Self {
            input,
            name: name.to_owned(),
            offset: 0,
            paths: PathTable::new(),
            report,
        }
    }

    /// What was met so far.
    pub fn report(&self) -> HbenchReport {
        self.report
    }

    fn corrupt(&self, byte: u64, problem: impl Into<String>) -> FormatError {
        let place = format!("record {} at byte {byte}", self.report.records);
        FormatError::corrupt(&self.name, place, problem)
    }

    fn record(&mut self) -> Result<Option<HbRecord>, FormatError> {
        self.report.records += 1;
        match HbRecord::read(&mut self.input) {
            Ok(Some((record, taken))) => {
                self.offset += taken;
                Ok(Some(record))
            }
            Ok(None) => {
                self.report.records -= 1;
                Ok(None)
            }
            Err(RecordError::Io(e)) => Err(FormatError::io("read", &self.name, e)),
            Err(RecordError::Bad { at, problem }) => Err(self.corrupt(self.offset + at, problem)),
        }
    }

    /// The next operation, `None` at the end.
    pub fn read_op(&mut self) -> Result<Option<Op>, FormatError> {
        let mut chain = Chain::default();
        loop {
            let start = self.offset;
            let Some(record) = self.record()? else {
                if chain.length > 0 {
                    return Err(self.corrupt(
                        self.offset,
                        "the file ends within a chain, expected a record with FLAG_CHAIN_END",
                    ));
                }
                return Ok(None);
            };
            if record.op_flags & flag::CHAIN != 0 {
                chain.length += 1;
                if chain.length > MAX_CHAIN {
                    let problem =
                        format!("a chain of more than {MAX_CHAIN} records, expected fewer");
                    return Err(self.corrupt(start, problem));
                }
                chain.add(record);
                continue;
            }
            if chain.length > 0 && record.op_flags & flag::CHAIN_END == 0 {
                let problem = "a record outside of the chain before it, expected FLAG_CHAIN_END";
                return Err(self.corrupt(start, problem));
            }
            if let Some(op) = self.collapse(&record, &chain) {
                self.report.operations += 1;
                return Ok(Some(op));
            }
            self.report.skipped += 1;
            chain = Chain::default();
        }
    }

    fn collapse(&mut self, record: &HbRecord, chain: &Chain) -> Option<Op> {
        let ignored = record.op_flags & flag::IGNORE != 0;
        if ignored && chain.failed.is_none() {
            return None;
        }
        let named = chain.base.is_some() || !record.target.filename.is_empty();
        let named = named || !record.target.dirname.is_empty();
        let kind = kind_of(record, named)?;
        let seconds = u64::try_from(record.time_sec).unwrap_or(0);
        let time = seconds
            .saturating_mul(1_000_000_000)
            .saturating_add(record.time_nsec.into());
        let start = *self.report.start_unix_ns.get_or_insert(time);
        let pid = u32::try_from(record.pid).unwrap_or(0);
        let mut op = Op::new(kind, Pid(pid), Tid(pid), time.saturating_sub(start));
        let ms = record.latency_real_ms + chain.latency_ms;
        // Zero is what the fields of an unmeasured trace hold.
        if ms > 0.0 && ms.is_finite() {
            op.latency_ns = Some((ms * 1e6).round() as u64);
        }
        if record.op_flags & flag::ISDIR != 0 {
            op.record |= OpFlags::DIRECTORY;
        }
        if record.target.inum != 0 {
            op.file = Some(FileId {
                dev: DevId(0),
                ino: record.target.inum,
                generation: 0,
            });
        }
        fill(&mut op, record);
        op.size_bytes = op.size_bytes.or(chain.size);
        let own = record.op_flags & flag::FAIL != 0;
        if let Some(failed) = own.then(|| failure(record, Errno::EIO)).or(chain.failed) {
            op.result = failed;
        }
        if named {
            self.names(&mut op, record, chain);
        }
        Some(op)
    }

    /// The paths as given: what was looked up, and where that began.
    fn names(&mut self, op: &mut Op, record: &HbRecord, chain: &Chain) {
        let target = &record.target;
        let whole = |base: &[u8], names: &[Vec<u8>]| {
            let path = names.join(&b'/');
            if base == b"/" {
                ([b"/", &path[..]].concat(), Vec::new())
            } else {
                (path, base.to_vec())
            }
        };
        let (path, dir): (Vec<u8>, Vec<u8>) = match &chain.base {
            Some(base) => whole(base, &chain.names),
            None if target.filename.is_empty() => (target.dirname.clone(), Vec::new()),
            None => whole(&target.dirname, std::slice::from_ref(&target.filename)),
        };
        op.path = self.paths.intern(&path);
        if dir.starts_with(b"/") {
            op.dir = self.paths.intern(&dir);
        }
        if let HbUnion::File2(file) = &record.un {
            let (path, dir2): (Vec<u8>, Vec<u8>) = match &chain.second {
                Some(second) => whole(&second.base, &second.names),
                None => whole(&file.dirname, std::slice::from_ref(&file.filename)),
            };
            op.path2 = self.paths.intern(&path);
            if dir2.starts_with(b"/") && dir2 != dir {
                op.dir2 = self.paths.intern(&dir2);
            }
        }
        if record.op_type == t::SYMLINK {
            op.path2 = self.paths.intern(&record.linkdata);
        }
    }
}

impl Chain {
    fn add(&mut self, record: HbRecord) {
        if record.latency_real_ms.is_finite() {
            self.latency_ms += record.latency_real_ms;
        }
        if record.op_flags & flag::FAIL != 0 {
            self.failed = Some(failure(&record, Errno::ENOENT));
        }
        match (record.op_type, record.un) {
            (t::LOOKUP, _) => {
                let HbFile {
                    filename, dirname, ..
                } = record.target;
                if let Some(second) = &mut self.second {
                    second.names.push(filename);
                } else if record.client == SECOND_PATH {
                    self.second = Some(Second {
                        base: dirname,
                        names: vec![filename],
                    });
                } else {
                    self.base.get_or_insert(dirname);
                    self.names.push(filename);
                }
            }
            (t::TRUNCATE, HbUnion::Io { filesize, .. }) => self.size = u64::try_from(filesize).ok(),
            _ => {}
        }
    }
}

/// What `op_client`, unused by HBench-FS on a single machine, says in the first lookup of the second
/// path of a rename or link.
pub(super) const SECOND_PATH: u64 = 2;

/// The error of a failed record: fsage writes it into `op_packsize`, which HBench-FS does not use.
fn failure(record: &HbRecord, otherwise: Errno) -> Outcome {
    let errno = i32::try_from(record.packsize)
        .ok()
        .filter(|code| (1..4096).contains(code));
    Outcome::err(errno.map_or(otherwise, Errno))
}

/// The kind of a record's operation, `None` for one that says nothing.
fn kind_of(record: &HbRecord, named: bool) -> Option<OpKind> {
    let either = |by_name, by_fd| Some(if named { by_name } else { by_fd });
    match record.op_type {
        t::GETATTR => either(OpKind::Stat, OpKind::Fstat),
        t::SETATTR => match record.un {
            HbUnion::Attr { mode, .. } if mode != u32::MAX => either(OpKind::Chmod, OpKind::Fchmod),
            HbUnion::Attr { uid, gid, .. } if uid != u64::MAX || gid != u64::MAX => {
                either(OpKind::Chown, OpKind::Fchown)
            }
            HbUnion::Attr { size, .. } if size != u64::MAX => {
                either(OpKind::Truncate, OpKind::Ftruncate)
            }
            _ => either(OpKind::Utimens, OpKind::Futimens),
        },
        // A lookup that stands alone is what stat does at least.
        t::LOOKUP => Some(OpKind::Stat),
        t::READ => Some(OpKind::Read),
        t::WRITE => Some(OpKind::Write),
        t::CREATE | t::OPEN | t::OPENDIR => Some(OpKind::Open),
        t::REMOVE => Some(OpKind::Unlink),
        t::RENAME => Some(OpKind::Rename),
        t::LINK => Some(OpKind::Link),
        t::READLINK => Some(OpKind::Readlink),
        t::SYMLINK => Some(OpKind::Symlink),
        t::MKDIR => Some(OpKind::Mkdir),
        t::RMDIR => Some(OpKind::Rmdir),
        t::READDIR => Some(OpKind::Readdir),
        t::STATFS => either(OpKind::Statfs, OpKind::Fstatfs),
        t::CLOSE | t::CLOSEDIR => Some(OpKind::Close),
        t::ACCESS => Some(OpKind::Access),
        t::TRUNCATE => either(OpKind::Truncate, OpKind::Ftruncate),
        t::CHDIR => either(OpKind::Chdir, OpKind::Fchdir),
        _ => None,
    }
}

/// Arguments and result from the fields that the type makes valid.
fn fill(op: &mut Op, record: &HbRecord) {
    match record.op_type {
        t::CREATE => op.flags = record.open_flags | O_CREAT,
        t::OPENDIR => op.flags = record.open_flags | O_DIRECTORY,
        t::OPEN => op.flags = record.open_flags,
        _ => {}
    }
    match record.un {
        HbUnion::Io {
            filesize,
            offset,
            count,
        } => {
            op.size_bytes = u64::try_from(filesize).ok();
            if record.op_type == t::TRUNCATE {
                op.length = u64::try_from(offset).ok();
            } else {
                op.offset = u64::try_from(offset)
                    .ok()
                    .filter(|_| record.op_type != t::READDIR);
                op.length = Some(count.into());
                op.result = Outcome::ok(count.into());
            }
        }
        HbUnion::Attr {
            mode,
            uid,
            gid,
            size,
            ..
        } => match op.kind {
            OpKind::Chmod | OpKind::Fchmod => op.flags = mode,
            OpKind::Chown | OpKind::Fchown => {
                (op.offset, op.length) = (Some(uid & 0xffff_ffff), Some(gid & 0xffff_ffff));
            }
            OpKind::Truncate | OpKind::Ftruncate => op.length = Some(size),
            _ => {}
        },
        _ => {}
    }
}

impl<R: Read> OpSource for HbenchSource<R> {
    fn paths(&self) -> &PathTable {
        &self.paths
    }

    fn next_batch(&mut self, batch: &mut Vec<Op>) -> Result<usize, SourceError> {
        let before = batch.len();
        while batch.len() - before < 4096 {
            match self.read_op().map_err(crate::foreign::source_error)? {
                Some(op) => batch.push(op),
                None => break,
            }
        }
        Ok(batch.len() - before)
    }
}
