//! Operations written as strace would have printed their calls
//! (`strace -f -T -y --absolute-timestamps=precision:ns`).
//!
//! What the text cannot carry: file ids, sizes (but those of stat calls), pages missed, how a record
//! came about. Page faults have no call; a `munmap` or `msync` of a mapping whose `mmap` is not in
//! the stream has no address. Those operations are left out and counted.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use fsage_core::lock::lock_call_of;
use fsage_core::{COPY_SHARES, FileId, Op, OpFlags, OpKind, OpSink, PathId, PathTable, SinkError};
use fsage_namespace::flags::{AT_EMPTY_PATH, O_TMPFILE};
use fsage_namespace::path::join;
use rustc_hash::FxHashMap;

use super::args::escape;
use super::symbols;
use crate::FormatError;

/// The first line: a word of strace's own about itself, as those that read its text skip. By it a text that was written
/// here is told from one that strace recorded, which looks the same and cannot be had again.
const MARK: &str = "strace: made by fsage (export --to strace), not recorded\n";

/// Whether a text begins as one that was written here.
pub fn begins_like(begin: &[u8]) -> bool {
    begin.starts_with(MARK.as_bytes())
}

/// How many operations were left out, by kind.
pub type NotCarried = BTreeMap<&'static str, u64>;

/// A mapping's offset in the file, its length and its address.
type Mapped = (u64, u64, u64);

/// Writes operations as strace text.
#[derive(Debug)]
pub struct StraceSink<W> {
    output: W,
    name: PathBuf,
    start_unix_ns: u64,
    names: FxHashMap<FileId, Vec<u8>>,
    /// By process and file.
    maps: FxHashMap<(u32, Option<FileId>), Vec<Mapped>>,
    /// The reading side of a copy whose writing side comes next, by thread.
    copies: FxHashMap<u32, Op>,
    /// The time of a pair of sides, which stands on the reading one.
    pair_latency_ns: Option<u64>,
    not_carried: NotCarried,
    line: Vec<u8>,
    is_begun: bool,
}

impl<W: Write> StraceSink<W> {
    /// Writes to `output`; the stream's time 0 is `start_unix_ns` since the epoch. Errors name
    /// `name`.
    pub fn new(output: W, name: &Path, start_unix_ns: u64) -> Self {
        Self {
            output,
            name: name.to_owned(),
            start_unix_ns,
            names: FxHashMap::default(),
            maps: FxHashMap::default(),
            copies: FxHashMap::default(),
            pair_latency_ns: None,
            not_carried: NotCarried::new(),
            line: Vec::new(),
            is_begun: false,
        }
    }

    /// Flushes and says what was left out.
    pub fn finish(mut self) -> Result<NotCarried, FormatError> {
        self.begin()?;
        for op in std::mem::take(&mut self.copies).into_values() {
            self.leave_out(&op);
        }
        self.output
            .flush()
            .map_err(|e| FormatError::io("write", &self.name, e))?;
        Ok(self.not_carried)
    }

    /// Writes the first line, once.
    fn begin(&mut self) -> Result<(), FormatError> {
        if std::mem::replace(&mut self.is_begun, true) {
            return Ok(());
        }
        let written = self.output.write_all(MARK.as_bytes());
        written.map_err(|e| FormatError::io("write", &self.name, e))
    }

    fn write_op(&mut self, op: &Op, paths: &PathTable) -> Result<(), FormatError> {
        self.begin()?;
        self.learn(op, paths);
        if op.kind == OpKind::CopyIn {
            if let Some(alone) = self.copies.insert(op.tid.0, *op) {
                self.leave_out(&alone);
            }
            return Ok(());
        }
        self.line.clear();
        let time = self.start_unix_ns.saturating_add(op.start_ns);
        let head = format!(
            "{:<5} {}.{:09} ",
            op.tid.0,
            time / 1_000_000_000,
            time % 1_000_000_000
        );
        self.line.extend_from_slice(head.as_bytes());
        if op.kind == OpKind::Exit {
            let code = op.result.value().unwrap_or(0);
            self.line
                .extend_from_slice(format!("+++ exited with {code} +++").as_bytes());
        } else if self.call(op, paths) {
            self.result(op);
        } else {
            self.leave_out(op);
            return Ok(());
        }
        self.line.push(b'\n');
        self.output
            .write_all(&self.line)
            .map_err(|e| FormatError::io("write", &self.name, e))
    }

    fn leave_out(&mut self, op: &Op) {
        *self.not_carried.entry(op.kind.name()).or_insert(0) += 1;
    }

    /// Remembers where files are called and mapped.
    fn learn(&mut self, op: &Op, paths: &PathTable) {
        let Some(file) = op.file else { return };
        if !op.result.is_ok() {
            return;
        }
        // What strace shows of a file without a name is no name that it can be opened by.
        let nameless = op.kind == OpKind::Open && op.flags & O_TMPFILE != 0;
        if nameless {
            self.names.remove(&file);
        }
        if op.kind == OpKind::Open
            && !nameless
            && let Some(path) = op.path
        {
            let dir = op.dir.map_or(&b""[..], |dir| paths.get(dir));
            let name = join(dir, paths.get(path));
            if name.starts_with(b"/") {
                self.names.insert(file, name);
            }
        }
        if op.kind == OpKind::Rename
            && let Some(path) = op.path2
        {
            let dir = op.dir2.or(op.dir).map_or(&b""[..], |dir| paths.get(dir));
            let name = join(dir, paths.get(path));
            if name.starts_with(b"/") && self.names.contains_key(&file) {
                self.names.insert(file, name);
            }
        }
        if op.kind == OpKind::Mmap
            && let (Some(address), Some(length)) = (op.result.value(), op.length)
        {
            let maps = self.maps.entry((op.pid.0, op.file)).or_default();
            // Few mappings of one file live at once; the oldest are the ones that are gone.
            if maps.len() >= 64 {
                maps.remove(0);
            }
            maps.push((op.offset.unwrap_or(0), length, address));
        }
    }

    /// The call up to its `)`. `false` if no call says this.
    fn call(&mut self, op: &Op, paths: &PathTable) -> bool {
        let args = Args {
            sink_names: &self.names,
            op,
            paths,
        };
        if op.kind == OpKind::CopyOut {
            let Some(from) = self.copies.remove(&op.tid.0) else {
                return false;
            };
            self.pair_latency_ns = from.latency_ns;
            let from = Args {
                sink_names: &self.names,
                op: &from,
                paths,
            };
            self.line.extend_from_slice(&args.copy_from(&from));
            self.line.push(b')');
            return true;
        }
        let text = match op.kind.class() {
            fsage_core::KindClass::Name => args.name_call(),
            fsage_core::KindClass::Data => args.data_call(),
            fsage_core::KindClass::Process => Some(args.fork()),
            _ if matches!(op.kind, OpKind::Munmap | OpKind::Msync) => self.address_call(op),
            _ => args.file_call(),
        };
        text.is_some_and(|text| {
            self.line.extend_from_slice(&text);
            self.line.push(b')');
            true
        })
    }

    fn address_call(&self, op: &Op) -> Option<Vec<u8>> {
        let offset = op.offset.unwrap_or(0);
        let maps = self.maps.get(&(op.pid.0, op.file))?;
        let (from, _, address) = maps
            .iter()
            .rev()
            .find(|(from, length, _)| *from <= offset && offset < from.saturating_add(*length))?;
        let address = address.saturating_add(offset - from);
        let length = op.length.unwrap_or(0);
        Some(match op.kind {
            OpKind::Munmap => format!("munmap({address:#x}, {length}").into_bytes(),
            _ => format!("msync({address:#x}, {length}, {:#x}", op.flags).into_bytes(),
        })
    }

    fn result(&mut self, op: &Op) {
        let text = match (op.result.value(), op.result.errno()) {
            (Some(value), _) if op.kind == OpKind::Mmap => format!(" = {value:#x}"),
            (Some(_), _) if shares(op) => " = 0".to_owned(),
            (Some(value), _) => format!(" = {value}"),
            (None, Some(errno)) => match symbols::errno_symbol(errno) {
                Some(symbol) => format!(" = -1 {symbol} ({})", errno.text()),
                None => format!(" = -1 EIO (error number {})", errno.0),
            },
            (None, None) => " = ?".to_owned(),
        };
        self.line.extend_from_slice(text.as_bytes());
        if matches!(op.kind, OpKind::Open | OpKind::Dup) && op.result.is_ok() {
            self.annotation(op);
        }
        if let Some(ns) = self.pair_latency_ns.take().or(op.latency_ns) {
            let text = format!(" <{}.{:09}>", ns / 1_000_000_000, ns % 1_000_000_000);
            self.line.extend_from_slice(text.as_bytes());
        }
    }

    fn annotation(&mut self, op: &Op) {
        let mut text = Vec::new();
        annotate(&mut text, op, &self.names);
        self.line.extend_from_slice(&text);
    }
}

impl<W: Write> OpSink for StraceSink<W> {
    fn push(&mut self, op: &Op, paths: &PathTable) -> Result<(), SinkError> {
        self.write_op(op, paths).map_err(crate::foreign::sink_error)
    }
}

/// `</path>`, or what stands for something that is no file.
fn annotate(text: &mut Vec<u8>, op: &Op, names: &FxHashMap<FileId, Vec<u8>>) {
    if op.record.contains(OpFlags::NOT_A_FILE) {
        text.extend_from_slice(b"<anon_inode:[other]>");
    } else if let Some(name) = op.file.and_then(|file| names.get(&file)) {
        text.push(b'<');
        escape(name, text);
        text.push(b'>');
    }
}

/// Whether a copy shared blocks. Of one that failed nothing is told (`FICLONE` is then no copy), as no capture does.
fn shares(op: &Op) -> bool {
    op.kind == OpKind::CopyOut && op.flags & COPY_SHARES != 0 && op.result.is_ok()
}

/// The arguments of one operation's call.
struct Args<'a> {
    sink_names: &'a FxHashMap<FileId, Vec<u8>>,
    op: &'a Op,
    paths: &'a PathTable,
}

impl Args<'_> {
    fn fd(&self) -> Vec<u8> {
        let mut text = self
            .op
            .fd
            .map_or_else(|| "-1".to_owned(), |fd| fd.0.to_string())
            .into_bytes();
        annotate(&mut text, self.op, self.sink_names);
        text
    }

    fn dir(&self, dir: Option<PathId>) -> Vec<u8> {
        let fd = self
            .op
            .fd
            .map_or_else(|| "AT_FDCWD".to_owned(), |fd| fd.0.to_string());
        let mut text = fd.into_bytes();
        if let Some(dir) = dir {
            text.push(b'<');
            escape(self.paths.get(dir), &mut text);
            text.push(b'>');
        }
        text
    }

    fn dir2(&self) -> Vec<u8> {
        let mut text = b"AT_FDCWD".to_vec();
        match self.op.dir2 {
            Some(dir) => {
                text.push(b'<');
                escape(self.paths.get(dir), &mut text);
                text.push(b'>');
                text
            }
            // The descriptor is the file's.
            None if self.op.flags & AT_EMPTY_PATH != 0 => text,
            None => self.dir(self.op.dir),
        }
    }

    fn string(&self, path: Option<PathId>) -> Vec<u8> {
        let Some(path) = path else {
            return b"0x0".to_vec();
        };
        let mut text = b"\"".to_vec();
        escape(self.paths.get(path), &mut text);
        text.push(b'"');
        text
    }

    fn stat(&self) -> Vec<u8> {
        let Some(size) = self.op.size_bytes.filter(|_| self.op.result.is_ok()) else {
            return b"0x0".to_vec();
        };
        let directory = self.op.record.contains(OpFlags::DIRECTORY);
        let mode = if directory {
            "S_IFDIR|0755"
        } else {
            "S_IFREG|0644"
        };
        format!("{{st_mode={mode}, st_size={size}, ...}}").into_bytes()
    }

    fn number(value: Option<u64>) -> Vec<u8> {
        value.unwrap_or(0).to_string().into_bytes()
    }

    fn name_call(&self) -> Option<Vec<u8>> {
        use OpKind as K;
        let op = self.op;
        let (dir, path) = (self.dir(op.dir), self.string(op.path));
        let hex = || format!("{:#x}", op.flags).into_bytes();
        let octal = || format!("{:#05o}", op.flags).replace("0o", "0").into_bytes();
        let length = Self::number(op.length);
        let own_fd = op.fd.is_some() && op.path.is_none();
        let second = self.string(op.path2);
        let call = |name: &str, args: &[&[u8]]| Some(joined(name, args));
        match op.kind {
            K::Open => {
                let flags = symbols::open_text(op.flags);
                call("openat", &[&dir, &path, flags.as_bytes(), b"0666"])
            }
            K::Stat => call("newfstatat", &[&dir, &path, &self.stat(), &hex()]),
            K::Access => call("faccessat", &[&dir, &path, &hex()]),
            K::Unlink => call("unlinkat", &[&dir, &path, b"0"]),
            K::Rmdir => call("unlinkat", &[&dir, &path, b"AT_REMOVEDIR"]),
            K::Rename => call("renameat2", &[&dir, &path, &self.dir2(), &second, &hex()]),
            K::Link if op.flags & AT_EMPTY_PATH != 0 => call(
                "linkat",
                &[&self.fd(), b"\"\"", &self.dir2(), &second, &hex()],
            ),
            K::Link => call("linkat", &[&dir, &path, &self.dir2(), &second, &hex()]),
            K::Symlink => call("symlinkat", &[&second, &dir, &path]),
            K::Mkdir => call("mkdirat", &[&dir, &path, &octal()]),
            K::Mknod => call("mknodat", &[&dir, &path, &octal()]),
            K::Readlink => call("readlinkat", &[&dir, &path, b"0x0", &length]),
            K::Truncate => Some(self.cwd_call("truncate", &[&length])),
            K::Chmod => call("fchmodat", &[&dir, &path, &octal()]),
            K::Chown => {
                let (uid, gid) = (Self::number(op.offset), Self::number(op.length));
                call("fchownat", &[&dir, &path, &uid, &gid, &hex()])
            }
            K::Utimens => call("utimensat", &[&dir, &path, b"NULL", &hex()]),
            K::Setxattr | K::Getxattr | K::Removexattr | K::Listxattr if own_fd => {
                Some(self.xattr("f", &self.fd(), &second))
            }
            K::Setxattr | K::Getxattr | K::Removexattr | K::Listxattr => {
                Some(self.xattr(if op.flags & 0x100 != 0 { "l" } else { "" }, &path, &second))
            }
            K::Statfs => Some(self.cwd_call("statfs", &[b"0x0"])),
            K::Chdir => Some(self.cwd_call("chdir", &[])),
            K::Exec if op.fd.is_none() && op.flags == 0 => {
                Some(self.cwd_call("execve", &[b"[]", b"0x0 /* 0 vars */"]))
            }
            K::Exec => call("execveat", &[&dir, &path, b"[]", b"0x0", &hex()]),
            _ => None,
        }
    }

    /// A call without a directory argument: the text has no place for the working directory.
    fn cwd_call(&self, name: &str, rest: &[&[u8]]) -> Vec<u8> {
        let path = self.string(self.op.path);
        let args: Vec<&[u8]> = std::iter::once(&path[..])
            .chain(rest.iter().copied())
            .collect();
        joined(name, &args)
    }

    fn xattr(&self, prefix: &str, target: &[u8], attribute: &[u8]) -> Vec<u8> {
        let length = Self::number(self.op.length);
        match self.op.kind {
            OpKind::Setxattr => joined(
                &format!("{prefix}setxattr"),
                &[target, attribute, b"\"\"", &length, b"0"],
            ),
            OpKind::Getxattr => joined(
                &format!("{prefix}getxattr"),
                &[target, attribute, b"0x0", &length],
            ),
            OpKind::Removexattr => joined(&format!("{prefix}removexattr"), &[target, attribute]),
            _ => joined(&format!("{prefix}listxattr"), &[target, b"0x0", &length]),
        }
    }

    fn implicit(&self) -> bool {
        self.op.record.contains(OpFlags::IMPLICIT_OFFSET) || self.op.offset.is_none()
    }

    /// Where a side of a copy starts: the address of its offset, or none.
    fn place(&self) -> Vec<u8> {
        if self.implicit() {
            b"NULL".to_vec()
        } else {
            [b"[", &Self::number(self.op.offset)[..], b"]"].concat()
        }
    }

    /// A copy of what its reading side tells to here. What shares blocks has a call of its own, which tells no length by
    /// its result.
    fn copy_from(&self, from: &Args<'_>) -> Vec<u8> {
        let (source, sink) = (from.fd(), self.fd());
        if !shares(self.op) {
            let (out_of, into) = (from.place(), self.place());
            let length = Self::number(self.op.length);
            let call = [&source, &out_of, &sink, &into, &length, &b"0"[..]];
            return joined("copy_file_range", &call);
        }
        let (out_of, into) = (from.op.offset.unwrap_or(0), self.op.offset.unwrap_or(0));
        let length = self.op.result.value().or(self.op.length).unwrap_or(0);
        let range = format!(", src_offset={out_of}, src_length={length}, dest_offset={into}}}")
            .into_bytes();
        let range = [b"{src_fd=", &source[..], &range].concat();
        joined("ioctl", &[&sink, b"FICLONERANGE", &range])
    }

    /// A read or write with flags, `RWF_*`, which the plain calls do not take.
    fn flagged(&self, name: &str) -> Vec<u8> {
        let length = self.op.length.unwrap_or(0);
        let buffers = format!("[{{iov_base=\"\"..., iov_len={length}}}]");
        // The descriptor's own position.
        let offset = if self.implicit() {
            b"-1".to_vec()
        } else {
            Self::number(self.op.offset)
        };
        let flags = format!("{:#x}", self.op.flags);
        let args = [
            &self.fd(),
            buffers.as_bytes(),
            b"1",
            &offset,
            flags.as_bytes(),
        ];
        joined(name, &args)
    }

    fn data_call(&self) -> Option<Vec<u8>> {
        let op = self.op;
        let (fd, length) = (self.fd(), Self::number(op.length));
        let implicit = self.implicit();
        let offset = Self::number(op.offset);
        let place = self.place();
        let other: &[u8] = b"-1<anon_inode:[other]>";
        Some(match (op.kind, implicit) {
            (OpKind::Read, _) if op.flags != 0 => self.flagged("preadv2"),
            (OpKind::Write, _) if op.flags != 0 => self.flagged("pwritev2"),
            (OpKind::Read, true) => joined("read", &[&fd, b"\"\"...", &length]),
            (OpKind::Read, false) => joined("pread64", &[&fd, b"\"\"...", &length, &offset]),
            (OpKind::Write, true) => joined("write", &[&fd, b"\"\"...", &length]),
            (OpKind::Write, false) => joined("pwrite64", &[&fd, b"\"\"...", &length, &offset]),
            (OpKind::Sendfile, _) => joined("sendfile", &[other, &fd, &place, &length]),
            (OpKind::SpliceIn, _) => {
                joined("splice", &[&fd, &place, other, b"NULL", &length, b"0"])
            }
            (OpKind::SpliceOut, _) => {
                joined("splice", &[other, b"NULL", &fd, &place, &length, b"0"])
            }
            _ => return None,
        })
    }

    fn file_call(&self) -> Option<Vec<u8>> {
        use OpKind as K;
        let op = self.op;
        let fd = self.fd();
        let offset = (op.offset.unwrap_or(0) as i64).to_string().into_bytes();
        let length = Self::number(op.length);
        let hex = format!("{:#x}", op.flags).into_bytes();
        let octal = format!("{:#05o}", op.flags).replace("0o", "0").into_bytes();
        let call = |name: &str, args: &[&[u8]]| Some(joined(name, args));
        match op.kind {
            K::Close => call("close", &[&fd]),
            K::Dup => call("dup", &[&fd]),
            K::Seek => call("lseek", &[&fd, &offset, &hex]),
            K::Fstat => call("fstat", &[&fd, &self.stat()]),
            K::Ftruncate => call("ftruncate", &[&fd, &length]),
            K::Fallocate => call("fallocate", &[&fd, &hex, &offset, &length]),
            K::Readdir => call("getdents64", &[&fd, b"0x0 /* entries */", &length]),
            K::Fsync => call("fsync", &[&fd]),
            K::Fdatasync => call("fdatasync", &[&fd]),
            K::Sync => call("sync", &[]),
            K::Syncfs => call("syncfs", &[&fd]),
            K::SyncFileRange => call("sync_file_range", &[&fd, &offset, &length, &hex]),
            K::Mmap => {
                let prot = format!("{:#x}", op.flags & 0xff).into_bytes();
                let map = format!("{:#x}", op.flags >> 8).into_bytes();
                call("mmap", &[b"NULL", &length, &prot, &map, &fd, &offset])
            }
            K::Fchmod => call("fchmod", &[&fd, &octal]),
            K::Fchown => call("fchown", &[&fd, &Self::number(op.offset), &length]),
            K::Futimens => call("utimensat", &[&fd, b"NULL", b"NULL", b"0"]),
            K::Fstatfs => call("fstatfs", &[&fd, b"0x0"]),
            K::Fchdir => call("fchdir", &[&fd]),
            K::Lock => Some(self.lock(&fd)),
            K::Advise => call("fadvise64", &[&fd, &offset, &length, &hex]),
            _ => None,
        }
    }

    fn lock(&self, fd: &[u8]) -> Vec<u8> {
        let op = self.op;
        let (is_flock, command, lock) = lock_call_of(op.flags);
        let hex = format!("{command:#x}").into_bytes();
        let name: &[u8] = match command {
            _ if is_flock => return joined("flock", &[fd, &hex]),
            5 => b"F_GETLK",
            6 => b"F_SETLK",
            7 => b"F_SETLKW",
            36 => b"F_OFD_GETLK",
            37 => b"F_OFD_SETLK",
            38 => b"F_OFD_SETLKW",
            _ => &hex,
        };
        let Some((kind, whence)) = lock else {
            return joined("fcntl", &[fd, name]);
        };
        let kind = ["F_RDLCK", "F_WRLCK", "F_UNLCK"].get(usize::from(kind));
        let whence = ["SEEK_SET", "SEEK_CUR", "SEEK_END"].get(usize::from(whence));
        let [start, length] = [op.offset, op.length].map(|n| n.unwrap_or(0) as i64);
        let (kind, whence) = (kind.unwrap_or(&"0"), whence.unwrap_or(&"0"));
        let lock = format!("{{l_type={kind}, l_whence={whence}, l_start={start}, l_len={length}}}");
        joined("fcntl", &[fd, name, lock.as_bytes()])
    }

    fn fork(&self) -> Vec<u8> {
        let flags = format!("flags={}", symbols::clone_text(self.op.flags));
        joined("clone", &[b"child_stack=NULL", flags.as_bytes()])
    }
}

fn joined(name: &str, args: &[&[u8]]) -> Vec<u8> {
    let mut text = name.as_bytes().to_vec();
    text.push(b'(');
    text.extend_from_slice(&args.join(&b", "[..]));
    text
}
