//! One trace record: `fsop_t` (Smith 2001, Figure A.1) as a C compiler lays it out on an LP64
//! little-endian machine with Linux's types, and the strings behind it (Table A.6).

use std::io::{self, Read, Write};

/// Elements of the array `subop`: Table A.4 numbers them 0 to 18.
pub const NSUBOP: usize = 19;

/// Size of `fsop_t` in bytes.
pub const RECORD_BYTES: usize = 272;

/// Longer strings are refused: no path is longer than 4096 bytes.
pub const MAX_STRING_BYTES: u32 = 65_536;

/// Every field's name and offset in bytes, in the order of Figure A.1; those of the union
/// `op_un` and of `file_t` by their full names.
pub const LAYOUT: &[(&str, usize)] = &[
    ("op_type", 0),
    ("op_flags", 4),
    ("op_time_sec", 8),
    ("op_time_nsec", 16),
    ("op_pid", 20),
    ("op_client", 24),
    ("op_packsize", 32),
    ("op_open_flags", 36),
    ("op_class", 40),
    ("op_target", TARGET),
    ("op_target.inum", TARGET),
    ("op_target.filenamelen", TARGET + 8),
    ("op_target.filename", TARGET + 16),
    ("op_target.dirinum", TARGET + 24),
    ("op_target.dirnamelen", TARGET + 32),
    ("op_target.dirname", TARGET + 40),
    ("op_un", UNION),
    ("op_un.op_un_io.filesize", UNION),
    ("op_un.op_un_io.offset", UNION + 8),
    ("op_un.op_un_io.count", UNION + 16),
    ("op_un.op_un_attr.mode", UNION),
    ("op_un.op_un_attr.uid", UNION + 8),
    ("op_un.op_un_attr.gid", UNION + 16),
    ("op_un.op_un_attr.size", UNION + 24),
    ("op_un.op_un_attr.atime", UNION + 32),
    ("op_un.op_un_attr.mtime", UNION + 40),
    ("op_un.op_un_file2.inum", UNION),
    ("op_un.op_un_file2.dirname", UNION + 40),
    ("op_linklen", 144),
    ("op_linkdata", 152),
    ("subop", 160),
    ("relation", 236),
    ("op_latency", 240),
    ("op_latency_real", 248),
    ("op_dsched", 256),
    ("op_sleep_time", 264),
];

const TARGET: usize = 48;
const UNION: usize = 96;

/// The type of a record (Table A.1).
#[allow(missing_docs, reason = "the names are the thesis's")]
pub mod op_type {
    pub const NULL: u32 = 0;
    pub const GETATTR: u32 = 1;
    pub const SETATTR: u32 = 2;
    pub const LOOKUP: u32 = 3;
    pub const READ: u32 = 4;
    pub const WRITE: u32 = 5;
    pub const WRITECACHE: u32 = 6;
    pub const CREATE: u32 = 7;
    pub const REMOVE: u32 = 8;
    pub const RENAME: u32 = 9;
    pub const LINK: u32 = 10;
    pub const READLINK: u32 = 11;
    pub const SYMLINK: u32 = 12;
    pub const MKDIR: u32 = 13;
    pub const RMDIR: u32 = 14;
    pub const READDIR: u32 = 15;
    pub const STATFS: u32 = 16;
    pub const ROOT: u32 = 17;
    pub const OPEN: u32 = 18;
    pub const OPENDIR: u32 = 19;
    pub const CLOSE: u32 = 20;
    pub const CLOSEDIR: u32 = 21;
    pub const ACCESS: u32 = 22;
    pub const TRUNCATE: u32 = 23;
    pub const CHDIR: u32 = 24;
}

/// The bits of `op_flags` (Table A.2).
#[allow(missing_docs, reason = "the names are the thesis's")]
pub mod flag {
    pub const ISFILE: u32 = 0x001;
    pub const ISDIR: u32 = 0x002;
    pub const ISLINK: u32 = 0x004;
    pub const FAIL: u32 = 0x008;
    pub const CHAIN: u32 = 0x010;
    pub const CHAIN_END: u32 = 0x020;
    pub const IGNORE: u32 = 0x100;
}

/// The class of an operation type (Table A.3), which says what the union holds.
#[allow(missing_docs, reason = "the names are the thesis's")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    Simple = 1,
    Io = 2,
    Attr = 3,
    File = 4,
    Symlink = 5,
    Ignore = 6,
}

/// The class of a type; the mapping is fixed, so that `op_class` is not needed for it.
pub fn class_of(kind: u32) -> Class {
    use op_type as t;
    match kind {
        t::READ | t::WRITE | t::READDIR | t::TRUNCATE => Class::Io,
        t::SETATTR => Class::Attr,
        t::RENAME | t::LINK => Class::File,
        t::SYMLINK => Class::Symlink,
        t::NULL | t::WRITECACHE | t::STATFS | t::ROOT => Class::Ignore,
        _ => Class::Simple,
    }
}

/// `file_t`: a file and its directory, by inode number (0: unknown) and name (empty: none).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HbFile {
    /// Inode number of the file.
    pub inum: u64,
    /// Its name.
    pub filename: Vec<u8>,
    /// Inode number of its directory.
    pub dirinum: u64,
    /// The directory's path, absolute or relative.
    pub dirname: Vec<u8>,
}

/// What the union `op_un` holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum HbUnion {
    /// Nothing.
    #[default]
    None,
    /// `io_t`, of [`Class::Io`].
    Io {
        /// The file's size in bytes.
        filesize: i64,
        /// Where the I/O starts, in bytes.
        offset: i64,
        /// How many bytes.
        count: u32,
    },
    /// `attr_t`, of [`Class::Attr`]; all bits set: not to be changed.
    Attr {
        /// Permission bits.
        mode: u32,
        /// Owner.
        uid: u64,
        /// Group.
        gid: u64,
        /// Size in bytes.
        size: u64,
        /// Access time in seconds.
        atime: i64,
        /// Modification time in seconds.
        mtime: i64,
    },
    /// The second file, of [`Class::File`].
    File2(HbFile),
}

/// `fsop_t` with its strings in place of the pointers.
#[derive(Debug, Clone, Default, PartialEq)]
#[allow(missing_docs, reason = "the fields are documented in Smith 2001, A.1")]
pub struct HbRecord {
    pub op_type: u32,
    pub op_flags: u32,
    pub time_sec: i64,
    pub time_nsec: u32,
    pub pid: i32,
    pub client: u64,
    pub packsize: u32,
    pub open_flags: u32,
    pub class: u32,
    pub target: HbFile,
    pub un: HbUnion,
    pub linkdata: Vec<u8>,
    pub subop: [u32; NSUBOP],
    pub relation: i32,
    /// Predicted, in milliseconds.
    pub latency_ms: f64,
    /// Measured, in milliseconds.
    pub latency_real_ms: f64,
    pub dsched_ms: f64,
    pub sleep_time_ms: f64,
}

/// Why a record cannot be read.
#[derive(Debug)]
pub enum RecordError {
    /// The input failed.
    Io(io::Error),
    /// The bytes are no record; says what was found and expected, and how far into the record.
    Bad {
        /// Offset in bytes from the record's start.
        at: u64,
        /// What was found and expected.
        problem: String,
    },
}

/// A fixed-size record as an array of little-endian fields.
struct Fields<'a>(&'a [u8; RECORD_BYTES]);

impl Fields<'_> {
    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        if let Some(from) = self.0.get(at..at + N) {
            bytes.copy_from_slice(from);
        }
        bytes
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes(at))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes(at))
    }

    fn f64(&self, at: usize) -> f64 {
        f64::from_le_bytes(self.bytes(at))
    }

    fn file(&self, at: usize) -> (HbFile, u32, u32) {
        let file = HbFile {
            inum: self.u64(at),
            dirinum: self.u64(at + 24),
            ..HbFile::default()
        };
        (file, self.u32(at + 8), self.u32(at + 32))
    }
}

impl HbRecord {
    /// Reads the next record and its strings, `None` at the end of the input. Returns how many
    /// bytes it took.
    pub fn read(input: &mut impl Read) -> Result<Option<(HbRecord, u64)>, RecordError> {
        let mut bytes = [0; RECORD_BYTES];
        let got = fill(input, &mut bytes).map_err(RecordError::Io)?;
        if got == 0 {
            return Ok(None);
        }
        if got < RECORD_BYTES {
            return Err(bad(
                got,
                format!("the file ends, expected a record of {RECORD_BYTES} bytes"),
            ));
        }
        let fields = Fields(&bytes);
        let mut record = Self::fixed(&fields)?;
        let (target, name_len, dir_len) = fields.file(TARGET);
        record.target = target;
        let mut taken = RECORD_BYTES as u64;
        let mut string = |len: u32, what: &str| take_string(input, len, what, &mut taken);
        record.target.filename = string(name_len, "op_target.filename")?;
        record.target.dirname = string(dir_len, "op_target.dirname")?;
        if class_of(record.op_type) == Class::File {
            let (mut file2, name_len, dir_len) = fields.file(UNION);
            file2.filename = string(name_len, "op_un.op_un_file2.filename")?;
            file2.dirname = string(dir_len, "op_un.op_un_file2.dirname")?;
            record.un = HbUnion::File2(file2);
        }
        record.linkdata = string(fields.u32(144), "op_linkdata")?;
        Ok(Some((record, taken)))
    }

    /// Everything but the strings and the second file.
    fn fixed(fields: &Fields<'_>) -> Result<Self, RecordError> {
        let op_type = fields.u32(0);
        if op_type > op_type::CHDIR {
            return Err(bad(
                0,
                format!("op_type is {op_type}, expected 0 to 24 (Table A.1)"),
            ));
        }
        let time_nsec = fields.u32(16);
        if time_nsec >= 1_000_000_000 {
            return Err(bad(
                16,
                format!("op_time_nsec is {time_nsec}, expected under 10^9"),
            ));
        }
        let class = class_of(op_type);
        if class == Class::File && fields.u32(144) != 0 {
            let problem =
                "op_linklen is set, expected 0 in a record with a second file (Table A.6)";
            return Err(bad(144, problem.to_owned()));
        }
        let un = match class {
            Class::Io => HbUnion::Io {
                filesize: fields.u64(UNION) as i64,
                offset: fields.u64(UNION + 8) as i64,
                count: fields.u32(UNION + 16),
            },
            Class::Attr => HbUnion::Attr {
                mode: fields.u32(UNION),
                uid: fields.u64(UNION + 8),
                gid: fields.u64(UNION + 16),
                size: fields.u64(UNION + 24),
                atime: fields.u64(UNION + 32) as i64,
                mtime: fields.u64(UNION + 40) as i64,
            },
            _ => HbUnion::None,
        };
        let mut subop = [0; NSUBOP];
        for (index, slot) in subop.iter_mut().enumerate() {
            *slot = fields.u32(160 + 4 * index);
        }
        Ok(Self {
            op_type,
            op_flags: fields.u32(4),
            time_sec: fields.u64(8) as i64,
            time_nsec,
            pid: fields.u32(20) as i32,
            client: fields.u64(24),
            packsize: fields.u32(32),
            open_flags: fields.u32(36),
            class: fields.u32(40),
            un,
            subop,
            relation: fields.u32(236) as i32,
            latency_ms: fields.f64(240),
            latency_real_ms: fields.f64(248),
            dsched_ms: fields.f64(256),
            sleep_time_ms: fields.f64(264),
            ..Self::default()
        })
    }

    /// Writes the record and its strings; pointers and padding are zero.
    pub fn write(&self, output: &mut impl Write) -> io::Result<()> {
        let mut bytes = [0u8; RECORD_BYTES];
        let mut put = |at: usize, value: &[u8]| {
            if let Some(to) = bytes.get_mut(at..at + value.len()) {
                to.copy_from_slice(value);
            }
        };
        put(0, &self.op_type.to_le_bytes());
        put(4, &self.op_flags.to_le_bytes());
        put(8, &self.time_sec.to_le_bytes());
        put(16, &self.time_nsec.to_le_bytes());
        put(20, &self.pid.to_le_bytes());
        put(24, &self.client.to_le_bytes());
        put(32, &self.packsize.to_le_bytes());
        put(36, &self.open_flags.to_le_bytes());
        put(40, &self.class.to_le_bytes());
        put_file(&mut put, TARGET, &self.target);
        match &self.un {
            HbUnion::None => {}
            HbUnion::Io {
                filesize,
                offset,
                count,
            } => {
                put(UNION, &filesize.to_le_bytes());
                put(UNION + 8, &offset.to_le_bytes());
                put(UNION + 16, &count.to_le_bytes());
            }
            HbUnion::Attr {
                mode,
                uid,
                gid,
                size,
                atime,
                mtime,
            } => {
                put(UNION, &mode.to_le_bytes());
                put(UNION + 8, &uid.to_le_bytes());
                put(UNION + 16, &gid.to_le_bytes());
                put(UNION + 24, &size.to_le_bytes());
                put(UNION + 32, &atime.to_le_bytes());
                put(UNION + 40, &mtime.to_le_bytes());
            }
            HbUnion::File2(file) => put_file(&mut put, UNION, file),
        }
        put(144, &(self.linkdata.len() as u32).to_le_bytes());
        for (index, value) in self.subop.iter().enumerate() {
            put(160 + 4 * index, &value.to_le_bytes());
        }
        put(236, &self.relation.to_le_bytes());
        put(240, &self.latency_ms.to_le_bytes());
        put(248, &self.latency_real_ms.to_le_bytes());
        put(256, &self.dsched_ms.to_le_bytes());
        put(264, &self.sleep_time_ms.to_le_bytes());
        output.write_all(&bytes)?;
        output.write_all(&self.target.filename)?;
        output.write_all(&self.target.dirname)?;
        if let HbUnion::File2(file) = &self.un {
            output.write_all(&file.filename)?;
            output.write_all(&file.dirname)?;
        }
        output.write_all(&self.linkdata)
    }
}

fn put_file(put: &mut impl FnMut(usize, &[u8]), at: usize, file: &HbFile) {
    put(at, &file.inum.to_le_bytes());
    put(at + 8, &(file.filename.len() as u32).to_le_bytes());
    put(at + 24, &file.dirinum.to_le_bytes());
    put(at + 32, &(file.dirname.len() as u32).to_le_bytes());
}

fn bad(at: usize, problem: String) -> RecordError {
    RecordError::Bad {
        at: at as u64,
        problem,
    }
}

/// A string of a stated length, without a NUL that a C writer may have counted.
fn take_string(
    input: &mut impl Read,
    len: u32,
    what: &str,
    taken: &mut u64,
) -> Result<Vec<u8>, RecordError> {
    if len > MAX_STRING_BYTES {
        let problem = format!("{what} has {len} bytes, expected at most {MAX_STRING_BYTES}");
        return Err(RecordError::Bad {
            at: *taken,
            problem,
        });
    }
    let mut text = Vec::new();
    let got = input
        .take(u64::from(len))
        .read_to_end(&mut text)
        .map_err(RecordError::Io)?;
    if got < len as usize {
        let problem = format!("the file ends, expected {len} bytes of {what}");
        return Err(RecordError::Bad {
            at: *taken + got as u64,
            problem,
        });
    }
    *taken += u64::from(len);
    if let Some(end) = text.iter().position(|&b| b == 0) {
        text.truncate(end);
    }
    Ok(text)
}

fn fill(input: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while let Some(rest) = bytes.get_mut(got..).filter(|rest| !rest.is_empty()) {
        match input.read(rest) {
            Ok(0) => break,
            Ok(count) => got += count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(got)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_survives() {
        let file = |n: u64, name: &[u8], dir: &[u8]| HbFile {
            inum: n,
            filename: name.to_vec(),
            dirinum: n + 1,
            dirname: dir.to_vec(),
        };
        let base = HbRecord {
            op_flags: 0x121,
            time_sec: -5,
            time_nsec: 999_999_999,
            pid: 7,
            client: 1 << 40,
            packsize: 2,
            open_flags: 0o1101,
            class: 1,
            target: file(9, b"a b", b"/x\xff"),
            subop: std::array::from_fn(|i| i as u32 + 1),
            relation: 8,
            latency_ms: 6.46,
            latency_real_ms: 0.25,
            dsched_ms: 1.0,
            sleep_time_ms: 2.0,
            ..HbRecord::default()
        };
        let io = HbUnion::Io {
            filesize: 1 << 40,
            offset: -1,
            count: 8192,
        };
        let attr = HbUnion::Attr {
            mode: 0o644,
            uid: 1,
            gid: 2,
            size: 3,
            atime: -4,
            mtime: 5,
        };
        for (op_type, un, linkdata) in [
            (op_type::OPEN, HbUnion::None, &b""[..]),
            (op_type::READ, io, b""),
            (op_type::SETATTR, attr, b""),
            (op_type::RENAME, HbUnion::File2(file(3, b"new", b"")), b""),
            (op_type::SYMLINK, HbUnion::None, b"../t"),
        ] {
            let record = HbRecord {
                op_type,
                un,
                linkdata: linkdata.to_vec(),
                ..base.clone()
            };
            let mut bytes = Vec::new();
            record.write(&mut bytes).unwrap();
            let (again, taken) = HbRecord::read(&mut &bytes[..]).unwrap().unwrap();
            assert_eq!((again, taken), (record, bytes.len() as u64));
            for cut in 1..bytes.len() {
                assert!(HbRecord::read(&mut &bytes[..cut]).is_err(), "cut at {cut}");
            }
        }
    }

    #[test]
    fn lengths_are_not_believed() {
        let mut bytes = Vec::new();
        HbRecord {
            op_type: op_type::OPEN,
            ..HbRecord::default()
        }
        .write(&mut bytes)
        .unwrap();
        bytes[TARGET + 8..TARGET + 12].copy_from_slice(&u32::MAX.to_le_bytes());
        let Err(RecordError::Bad { at, problem }) = HbRecord::read(&mut &bytes[..]) else {
            panic!("a length of 4 GiB was believed");
        };
        assert_eq!(at, RECORD_BYTES as u64);
        assert!(problem.contains("expected at most 65536"), "{problem}");
    }
}
