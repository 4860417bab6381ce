//! The suite over file systems whose costs are stated: it finds what the truth says, to 1 %.
//!
//! Every row says what the truth makes of a metric, worked out from the truth's values alone; a family that
//! stands in neither [`ROWS`] nor [`NOT_DETERMINED`] fails the test.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::float_cmp, reason = "points of a series are whole numbers")]

use std::sync::atomic::AtomicBool;

use fsage_core::metric::{FamilyId, MetricId};
use fsage_format::profile::{Environment, SystemProfile};
use fsage_mem::{MemFs, Point, Truth};
use fsage_profile::{ProfileRequest, run};

/// How far an estimate may lie from what is expected.
const TOLERANCE: f64 = 0.01;

/// A truth, and what follows from it.
struct Stated {
    truth: Truth,
    /// The point of a series, 0 of a scalar.
    kib: f64,
    /// As much in whole pages.
    pages: f64,
}

impl Stated {
    fn of(truth: &Truth, id: MetricId) -> Self {
        let kib = f64::from(id.point().unwrap_or(0));
        Self {
            truth: truth.clone(),
            kib,
            pages: (kib / 4.0).ceil(),
        }
    }

    fn call(&self, of: impl Fn(&fsage_mem::Calls) -> u64) -> f64 {
        of(&self.truth.calls) as f64
    }

    fn data(&self, of: impl Fn(&fsage_mem::Data) -> u64) -> f64 {
        of(&self.truth.data) as f64
    }

    fn component(&self) -> f64 {
        self.truth.lookups.component_ns as f64
    }

    /// The search that finds a new name missing.
    fn search(&self) -> f64 {
        self.truth.lookups.search_ns as f64
    }

    fn entry(&self) -> f64 {
        self.truth.machine.entry_exit_ns as f64
    }

    fn has_disk(&self) -> bool {
        self.truth.disk.is_some()
    }

    fn read(&self, kib: f64) -> f64 {
        self.data(|d| d.read_ns) + kib * self.data(|d| d.read_kib_ns)
    }

    fn write(&self, kib: f64) -> f64 {
        self.data(|d| d.write_ns) + kib * self.data(|d| d.write_kib_ns)
    }

    /// A page that comes into the cache, where there is one beside memory.
    fn brought(&self) -> f64 {
        if self.has_disk() {
            self.data(|d| d.new_page_ns)
        } else {
            0.0
        }
    }

    /// A clean page that becomes dirty.
    fn dirtied(&self) -> f64 {
        if self.has_disk() {
            self.data(|d| d.dirty_page_ns)
        } else {
            0.0
        }
    }

    /// A page that is written for the first time.
    fn new_page(&self) -> f64 {
        self.data(|d| d.new_page_ns + d.allocate_page_ns + d.dirty_page_ns)
    }

    fn freed(&self, pages: f64) -> f64 {
        pages * self.data(|d| d.free_page_ns + d.free_block_ns)
    }

    fn far(&self) -> f64 {
        self.truth
            .disk
            .as_ref()
            .map_or(0.0, |d| d.device.far_ns as f64)
    }

    fn limit_kib(&self) -> Option<f64> {
        let disk = self.truth.disk.as_ref()?;
        Some(disk.write_back.limit_mib as f64 * 1024.0)
    }

    fn near_kib(&self) -> Option<f64> {
        Some(self.truth.disk.as_ref()?.device.near_kib as f64)
    }

    fn flush(&self) -> f64 {
        self.truth.disk.as_ref().unwrap().journal.flush_ns as f64
    }

    fn device_read(&self, kib: f64) -> f64 {
        moved(&self.truth.disk.as_ref().unwrap().device.read, kib)
    }

    fn device_write(&self, kib: f64) -> f64 {
        moved(&self.truth.disk.as_ref().unwrap().device.write, kib)
    }

    /// A commit of so many blocks, the device being elsewhere or at the journal's end.
    fn commit(&self, blocks: f64, elsewhere: bool) -> f64 {
        let journal = &self.truth.disk.as_ref().unwrap().journal;
        let to_place = if elsewhere { self.far() } else { 0.0 };
        let kib = 4.0 * (blocks + journal.frame_blocks as f64);
        journal.commit_ns as f64 + to_place + self.device_write(kib) + self.flush()
    }

    /// fsync of so many KiB and so many changed blocks.
    fn fsync(&self, kib: f64, blocks: f64) -> f64 {
        if !self.has_disk() {
            return self.call(|c| c.fsync_ns);
        }
        let data = if kib > 0.0 {
            self.far() + self.device_write((kib / 4.0).ceil() * 4.0)
        } else {
            0.0
        };
        self.call(|c| c.fsync_ns) + data + self.commit(blocks, true)
    }

    /// fdatasync of data over allocated blocks, after so much to get to it.
    fn data_alone(&self, kib: f64, to_place: f64) -> f64 {
        let device = || to_place + self.device_write(kib) + self.flush();
        self.call(|c| c.fsync_ns) + self.has_disk().then(device).unwrap_or(0.0)
    }

    /// A read of 4 KiB far from the last; its device reads nothing while nobody asks.
    fn elsewhere(&self) -> f64 {
        self.read(4.0) + self.brought() + self.far() + self.device_read(4.0)
    }

    /// The same so many KiB from the end of the last.
    fn off(&self, kib: f64) -> f64 {
        let device = self.truth.disk.as_ref().map(|d| &d.device);
        let near = device.filter(|d| kib <= d.near_kib as f64);
        let less = near.map_or(0.0, |d| (d.far_ns - d.near_ns) as f64);
        self.elsewhere() - less
    }

    /// A first read of 4 KiB of a small file, anywhere: the kernel asks for 16 KiB where there are as many.
    fn anywhere(&self) -> f64 {
        // Ten of sixteen files have 4 KiB, the others more.
        let device = 0.625 * self.device_read(4.0) + 0.375 * self.device_read(16.0);
        self.read(4.0) + self.brought() + self.far() + device
    }
}

fn moved(points: &[Point], kib: f64) -> f64 {
    let after = points.iter().position(|p| p.kib as f64 >= kib);
    let after = after.unwrap_or(points.len() - 1).max(1);
    let (a, b) = (&points[after - 1], &points[after]);
    a.ns as f64 + (kib - a.kib as f64).max(0.0) * (b.ns - a.ns) as f64 / (b.kib - a.kib) as f64
}

/// What the truth makes of the metrics of a family; `None` for one that it does not determine.
type Expected = fn(&Stated) -> Option<f64>;

/// What is cached costs what it costs, and what changes costs what it changes.
const ROWS: &[(&str, Expected)] = &[
    ("EMPTY", |s| Some(s.entry())),
    ("BS", |_| Some(4096.0)),
    ("FS", |_| Some(4096.0)),
    ("LUS_BC", |s| Some(s.component())),
    ("LUR_BC", |s| Some(s.component())),
    ("LUM", |s| Some(s.component() + s.search())),
    ("LUMR", |s| Some(s.component())),
    ("OPEN", |s| Some(s.call(|c| c.open_ns))),
    ("OPENC", |s| Some(s.call(|c| c.open_create_ns))),
    ("OPEND", |s| Some(s.call(|c| c.open_directory_ns))),
    ("OPENM", |s| Some(s.call(|c| c.open_missing_ns))),
    ("CLOSE", |s| Some(s.call(|c| c.close_ns))),
    ("STAT", |s| Some(s.call(|c| c.stat_ns))),
    ("STATM", |s| Some(s.call(|c| c.stat_missing_ns))),
    ("FSTAT", |s| Some(s.call(|c| c.fstat_ns))),
    ("ACCESS", |s| Some(s.call(|c| c.access_ns))),
    ("SEEK", |s| Some(s.call(|c| c.seek_ns))),
    ("SKD", |s| Some(s.call(|c| c.seek_ns))),
    ("STATFS", |s| Some(s.call(|c| c.statfs_ns))),
    ("CHMOD", |s| Some(s.call(|c| c.set_mode_ns))),
    ("UTIMENS", |s| Some(s.call(|c| c.set_times_ns))),
    ("RDIR", |s| Some(s.call(|c| c.list_ns))),
    ("RDIRE", |s| Some(s.call(|c| c.list_entry_ns))),
    ("CR", |s| Some(s.call(|c| c.create_ns) + s.search())),
    ("CRF", |s| Some(s.call(|c| c.create_ns) + s.search())),
    ("CLOSEW", |s| Some(s.call(|c| c.close_ns))),
    ("CLOSET", |s| Some(s.call(|c| c.close_ns))),
    ("CLOSEU", |s| Some(s.call(|c| c.close_ns) + s.freed(1.0))),
    ("MKDIR", |s| Some(s.call(|c| c.mkdir_ns) + s.search())),
    ("RMDIR", |s| Some(s.call(|c| c.rmdir_ns))),
    ("RMDIRB", |s| Some(s.call(|c| c.rmdir_ns))),
    ("RENAME", |s| Some(s.call(|c| c.rename_ns) + s.search())),
    // Over files of 45 pages for every sixteen, which on a disk are not cached.
    ("RENAMER", |s| {
        let cached = if s.has_disk() {
            0.0
        } else {
            s.data(|d| d.free_page_ns)
        };
        let page = cached + s.data(|d| d.free_block_ns);
        Some(s.call(|c| c.rename_over_ns) + page * 45.0 / 16.0)
    }),
    ("LINK", |s| Some(s.call(|c| c.link_ns) + s.search())),
    ("LINKR", |s| Some(s.call(|c| c.link_ns) + s.search())),
    ("SYMLINK", |s| Some(s.call(|c| c.symlink_ns) + s.search())),
    ("READLINK", |s| Some(s.call(|c| c.readlink_ns))),
    ("RC", |s| Some(s.read(s.kib))),
    ("RCF", |s| Some(s.read(s.kib))),
    ("RCR", |s| Some(s.read(s.kib))),
    ("RCH", |s| Some(s.read(s.kib))),
    ("RDO", |s| Some(s.read(0.0))),
    ("RDC", |s| Some(1e9 / s.data(|d| d.read_kib_ns))),
    ("REOF", |s| Some(s.data(|d| d.read_end_ns))),
    ("RHO", |s| Some(s.read(s.kib) + s.pages * s.brought())),
    ("WFC", |s| Some(s.write(4.0) + s.new_page())),
    ("WF", |s| Some(s.write(s.kib) + s.pages * s.new_page())),
    ("WN", |s| Some(s.write(s.kib) + s.pages * s.new_page())),
    ("WH", |s| Some(s.write(s.kib) + s.pages * s.new_page())),
    ("WD", |s| Some(s.write(s.kib))),
    ("WO", |s| Some(s.write(s.kib))),
    ("WK", |s| Some(s.write(s.kib) + s.pages * s.dirtied())),
    // 512 bytes stand for its 1 KiB.
    ("WE", |s| Some(s.write(0.5))),
    ("WA", |s| {
        // Files end 512, 1536 or 2560 bytes into a page, by the point's place in the series.
        let place = [1.0, 4.0, 16.0, 64.0, 256.0, 1024.0]
            .iter()
            .position(|&k| k == s.kib)?;
        let within = 0.5 + (place % 3) as f64;
        let more = ((within + s.kib) / 4.0).ceil() - 1.0;
        Some(s.write(s.kib) + s.dirtied() + more * s.new_page())
    }),
    ("FALLOC", |s| {
        Some(s.call(|c| c.reserve_ns) + s.pages * s.data(|d| d.allocate_page_ns))
    }),
    ("DTH", |s| Some(s.limit_kib()? + 2.0)),
    ("DTB", |s| Some(s.limit_kib()? + 2.0)),
    // A page more than fits is written at once.
    ("DTR", |s| {
        let kib = s.limit_kib()? + 4.0;
        Some(kib * 1e9 / s.device_write(kib))
    }),
    ("DTF", |s| s.limit_kib().map(|_| s.device_write(4.0))),
    ("RXB", |s| s.near_kib()),
    ("RM", |s| Some(s.call(|c| c.unlink_ns))),
    ("RMD", |s| Some(s.call(|c| c.unlink_ns) + s.freed(s.pages))),
    ("RMF", |s| Some(s.call(|c| c.unlink_ns) + s.freed(s.pages))),
    ("TR", |s| Some(s.call(|c| c.truncate_ns) + s.freed(s.pages))),
    ("TRX", |s| Some(s.call(|c| c.extend_ns))),
    ("TRP", |s| Some(s.call(|c| c.truncate_ns) + s.freed(8.0))),
    ("TRD", |s| {
        Some(s.call(|c| c.truncate_ns) + s.freed(s.pages))
    }),
    ("RML", |s| Some(s.call(|c| c.unlink_ns))),
    ("RENAMED", |s| {
        Some(s.call(|c| c.rename_over_ns) + s.freed(1.0))
    }),
    ("TRXD", |s| Some(s.call(|c| c.extend_ns))),
    ("TRPD", |s| Some(s.call(|c| c.truncate_ns) + s.freed(4.0))),
    ("TRF", |s| Some(s.call(|c| c.truncate_ns) + s.freed(1.0))),
    ("MMAP", |s| Some(s.call(|c| c.map_ns))),
    ("MUNMAP", |s| Some(s.call(|c| c.unmap_ns))),
    ("MFR", |s| Some(s.call(|c| c.fault_read_ns))),
    ("MFW", |s| Some(s.call(|c| c.fault_write_ns))),
    // Of a file's one page and of another's 16, one each is not in memory.
    ("MFWH", |s| {
        let each = s.call(|c| c.fault_write_ns) + s.data(|d| d.allocate_page_ns);
        Some(each + s.brought() * 2.0 / 17.0)
    }),
    ("MFRB", |s| Some(s.call(|c| c.fault_read_ns))),
    ("MFWB", |s| Some(s.call(|c| c.fault_write_ns))),
    ("MFRK", |_| Some(4.0)),
    ("MFWK", |_| Some(4.0)),
    ("MFWD", |s| s.truth.disk.as_ref().map(|_| 4.0)),
    ("FSYQ", |s| Some(s.call(|c| c.fsync_ns))),
    ("FSYRM", |s| Some(s.call(|c| c.fsync_ns))),
    ("FSYDF", |s| Some(s.call(|c| c.fsync_ns))),
    ("FSY", |s| match s.kib {
        0.0 => Some(s.call(|c| c.fsync_ns)),
        kib => Some(s.fsync(kib, 1.0)),
    }),
    ("FDS", |s| match s.kib {
        0.0 => Some(s.call(|c| c.fsync_ns)),
        kib => Some(s.fsync(kib, 1.0)),
    }),
    ("FSYO", |s| Some(s.fsync(4.0, 1.0))),
    // Rows of six, of which the first is elsewhere.
    ("FDSO", |s| Some(s.data_alone(4.0, s.far() / 6.0))),
    ("FSYB", |s| Some(s.fsync(4.0, 1.0))),
    ("FDSB", |s| Some(s.data_alone(4.0, s.far() / 6.0))),
    ("FDSR", |s| Some(s.data_alone(64.0, s.far()))),
    ("SFRW", |s| {
        let pages = if s.has_disk() { s.kib / 4.0 } else { 0.0 };
        Some(s.call(|c| c.start_writing_ns) + pages * s.call(|c| c.start_page_ns))
    }),
    ("SFR", |s| {
        let device = || 256.0 * s.call(|c| c.start_page_ns) + s.far() + s.device_write(1024.0);
        Some(s.call(|c| c.start_writing_ns) + s.has_disk().then(device).unwrap_or(0.0))
    }),
    // The inode, the name, the directory's inode, of which two may share a block; after another commit.
    ("FSYC", |s| {
        let commit = s.has_disk().then(|| s.commit(2.5, false));
        Some(s.call(|c| c.fsync_ns) + commit.unwrap_or(0.0))
    }),
    ("FSYN", |s| Some(s.fsync(s.kib, 3.0))),
    ("FSYS", |s| Some(s.fsync(16.0, 3.0))),
    ("RDSY", |s| Some(s.elsewhere())),
    ("FDSS", |s| Some(s.fsync(4.0, 1.0))),
    ("FDSL", |s| Some(s.fsync(4.0, 1.0))),
    ("FDSA", |s| Some(s.fsync(4.0, 1.0))),
    ("FDSU", |s| Some(s.fsync(4.0, 1.0))),
    ("SC_CR_S", |s| {
        Some(parallel(
            s,
            2.0 * s.entry()
                + s.search()
                + s.call(|c| c.create_ns + c.close_ns)
                + 3.0 * s.component(),
        ))
    }),
    ("SC_CR_D", |s| {
        Some(parallel(
            s,
            2.0 * s.entry()
                + s.search()
                + s.call(|c| c.create_ns + c.close_ns)
                + 4.0 * s.component(),
        ))
    }),
    ("SC_RD_S", |s| Some(parallel(s, s.entry() + s.read(4.0)))),
    ("SC_RD_D", |s| Some(parallel(s, s.entry() + s.read(4.0)))),
    ("SC_WR_S", |s| {
        Some(parallel(s, s.entry() + s.write(4.0) + s.new_page()))
    }),
    ("SC_WR_D", |s| {
        Some(parallel(s, s.entry() + s.write(4.0) + s.new_page()))
    }),
    ("SC_FS_D", |s| {
        let made = 4.0 * s.entry() + 4.0 * s.component() + s.search();
        let file = s.call(|c| c.create_ns + c.close_ns) + s.write(4.0) + s.new_page();
        let alone = made + file + s.fsync(4.0, 3.0);
        // Several share commits as they happen to meet.
        (!s.has_disk() || s.kib == 1.0).then(|| parallel(s, alone))
    }),
    ("WU", |s| {
        let device = if s.kib == 1.0 {
            s.far() + s.device_read(4.0)
        } else {
            0.0
        };
        Some(s.write(s.kib) + s.pages * (s.brought() + s.dirtied()) + device)
    }),
    ("WP", |s| {
        let device = s.far() + s.device_read(4.0);
        Some(s.write(0.5) + s.brought() + s.dirtied() + device)
    }),
    ("RMFC", |s| {
        Some(s.call(|c| c.unlink_ns) + s.pages * s.data(|d| d.free_block_ns))
    }),
    ("TRC", |s| {
        Some(s.call(|c| c.truncate_ns) + s.pages * s.data(|d| d.free_block_ns))
    }),
    ("RAW", |s| {
        Some(s.truth.disk.as_ref()?.read_ahead.most_kib as f64)
    }),
    ("RD", |s| {
        // The device reads window after window, each asked for when the reader is half through the last. Time
        // outside of the kernel is not the call's, and while the device reads it shortens the wait. How large
        // requests meet the windows is not worked out.
        let window = s.truth.disk.as_ref()?.read_ahead.most_kib as f64;
        let half = window / 2.0 / s.kib * (s.read(s.kib) - s.entry());
        (s.kib <= window / 8.0).then(|| 1e9 * window / (s.device_read(window) + half))
    }),
    ("RRD", |s| {
        let each = s.read(s.kib) + s.pages * s.brought() + s.far() + s.device_read(s.kib.max(4.0));
        // Of large requests some lie where the last ended.
        (s.kib <= 256.0).then_some(1e9 * s.kib / each)
    }),
    ("RXA", |s| Some(s.elsewhere())),
    ("RX", |s| Some(s.off(s.kib))),
    ("RFN", |s| {
        Some(s.read(4.0) + s.brought() + s.device_read(4.0))
    }),
    ("RFF", |s| Some(s.anywhere())),
    ("RFO", |s| Some(s.anywhere())),
    ("RF", |s| {
        let device = s.far() + s.device_read(s.kib.max(4.0));
        Some(s.read(s.kib) + s.pages * s.brought() + device)
    }),
];

/// Operations a second of as many threads as the point says, which do not hinder each other.
fn parallel(s: &Stated, each_ns: f64) -> f64 {
    s.kib * 1e9 / each_ns
}

/// What the truth does not determine to 1 %, and why.
const NOT_DETERMINED: &[(&str, &str)] = &[
    ("OBJ", "the truth knows no processor's caches"),
    ("OBJR", "the truth knows no processor's caches"),
    ("OBJN", "the truth knows no processor's caches"),
    ("OBJU", "the truth knows no processor's caches"),
    ("MFRH", "the truth counts no major faults"),
    ("DUP", "no call of a target"),
    ("LOCK", "no call of a target"),
    ("ADVISE", "no call of a target"),
    ("SND", "no call of a target"),
    ("SNDU", "no call of a target"),
    ("GETXATTR", "no call of a target"),
    ("SETXATTR", "no call of a target"),
    ("LISTXATTR", "no call of a target"),
    ("CHDIR", "no call of a target"),
    ("MKNOD", "no call of a target"),
    ("CHOWN", "a target does not tell whose a file is"),
    ("WRO", "a KiB dirties a page as four do: no line"),
    ("WRC", "a KiB dirties a page as four do: no line"),
    ("BC", "found by doubling"),
    ("DAP", "nothing tells where a file lies"),
    ("DAN", "nothing tells where a file lies"),
    ("FSYP", "nothing tells where a file lies"),
    (
        "DNLC",
        "a name that went is made again from blocks that are cached: no step of four times",
    ),
    (
        "MDC",
        "an inode that went is made again from blocks that are cached: no step of four times",
    ),
    ("MTH", "no call waits for room"),
    ("MTW", "no call waits for room"),
    ("DFH", "nothing is written back for want of room"),
    ("DFW", "nothing is written back for want of room"),
    ("BTH", "no write waits for room"),
    ("BTW", "no write waits for room"),
    (
        "LUS_NC",
        "which names share blocks of directories and inodes is the order's chance",
    ),
    (
        "LUN_NC",
        "which names share blocks of directories and inodes is the order's chance",
    ),
    (
        "LUF_NC",
        "which names share blocks of directories and inodes is the order's chance",
    ),
    (
        "LUR_NC",
        "which names share blocks of directories and inodes is the order's chance",
    ),
    (
        "LUM_NC",
        "which names share blocks of directories and inodes is the order's chance",
    ),
    (
        "LUS_AC",
        "which names share blocks of directories is the order's chance",
    ),
    (
        "LUR_AC",
        "which names share blocks of directories is the order's chance",
    ),
    (
        "LUD",
        "which names share blocks of directories is the order's chance",
    ),
    (
        "CRC",
        "some begin a block of inodes, of which nothing is read",
    ),
    (
        "MKDIRC",
        "some begin a block of inodes, of which nothing is read",
    ),
    ("RDIRC", "a directory has whole blocks: no line"),
    ("RDIRCE", "a directory has whole blocks: no line"),
    ("RFS", "some near files lie where the last one ended"),
    ("RFT", "threads meet at the device as they happen to"),
    ("SC_RR_D", "threads meet at the device as they happen to"),
    (
        "FSYRN",
        "which blocks a commit holds depends on the numbers of inodes",
    ),
    (
        "FSYD",
        "which blocks a commit holds depends on the numbers of inodes",
    ),
    (
        "SYNF",
        "which blocks a commit holds depends on what others left",
    ),
    (
        "SYND",
        "which blocks a commit holds depends on what others left",
    ),
    (
        "SYNO",
        "which blocks a commit holds depends on what others left",
    ),
    ("CPS", "the truth shares no blocks"),
    ("CPSD", "the truth shares no blocks"),
    ("FSYNR", "the truth writes a file at one place"),
    ("CRP", "the truth passes over no inode"),
    ("CRQ", "the truth makes nothing behind anybody's back"),
    ("RMQ", "the truth frees nothing behind anybody's back"),
    (
        "DWO",
        "direct writes go to the device by the truth's own way",
    ),
    (
        "DWOR",
        "direct writes go to the device by the truth's own way",
    ),
    ("DRR", "the truth has no call that asks for several reads"),
    (
        "SYNC",
        "which blocks a commit holds depends on what others left",
    ),
    (
        "FSYW",
        "which blocks a commit holds depends on the numbers of inodes",
    ),
    (
        "FSYTN",
        "whether its data has to be flushed depends on what was written before",
    ),
    (
        "FSYT",
        "whether its data has to be flushed depends on what was written before",
    ),
    ("WR", "the truth knows no slowdown but the device's"),
    ("WB", "the truth knows no slowdown but the device's"),
    ("WM", "the truth knows no slowdown but the device's"),
];

fn measure(name: &str, quick: bool, only: &[&str]) -> SystemProfile {
    let fs = MemFs::new(&format!("mem:{name}"), Truth::built_in(name).unwrap());
    let request = ProfileRequest {
        quick,
        only: only.iter().map(ToString::to_string).collect(),
        // Of the few rows of syncs on a disk none begins beside the request before it.
        seed: if quick { 42 } else { 7 },
        ..ProfileRequest::default()
    };
    let stop = AtomicBool::new(false);
    run(&request, &fs, Environment::default(), &mut |_| {}, &stop).unwrap()
}

/// Every metric of `ROWS` that is in the profile; what is off, and what should be there and is not.
fn wrong(name: &str, profile: &SystemProfile, needed: impl Fn(&str) -> bool) -> Vec<String> {
    let (wrong, held) = compared(name, profile, needed);
    assert!(
        held > 50,
        "{name}: only {held} metrics held against the truth"
    );
    wrong
}

/// The same, and how many metrics were held against the truth.
fn compared(
    name: &str,
    profile: &SystemProfile,
    needed: impl Fn(&str) -> bool,
) -> (Vec<String>, usize) {
    let truth = Truth::built_in(name).unwrap();
    let mut wrong = Vec::new();
    let mut held = 0;
    for (stem, expected) in ROWS {
        let family = fsage_core::metric::family(stem).unwrap();
        for id in family.metrics() {
            let found = profile.get(&id.to_string()).map(|m| m.estimate);
            let Some(found) = found else {
                // Computed time is the same after any pause.
                if needed(stem) && id.gap() == 0 {
                    let why = profile.why_absent(&id.to_string());
                    wrong.push(format!("{name}: {id} is absent: {why:?}"));
                }
                continue;
            };
            let Some(expected) = expected(&Stated::of(&truth, id)) else {
                continue;
            };
            held += 1;
            if (found / expected - 1.0).abs() > TOLERANCE {
                let off = 100.0 * (found / expected - 1.0);
                wrong.push(format!(
                    "{name}: {id} is {found:.1}, expected {expected:.1} ({off:+.1} %)"
                ));
            }
        }
    }
    (wrong, held)
}

#[test]
fn every_family_is_determined_or_says_why_not() {
    for id in FamilyId::all() {
        let stem = id.row().stem;
        let (row, reason) = (
            ROWS.iter().filter(|r| r.0 == stem).count(),
            NOT_DETERMINED.iter().filter(|r| r.0 == stem).count(),
        );
        assert_eq!(row + reason, 1, "{stem}");
    }
}

#[test]
fn a_quick_profile_of_memory_finds_the_truth() {
    let profile = measure("fast", true, &[]);
    assert_eq!(wrong("fast", &profile, |_| false), [] as [String; 0]);
}

#[test]
fn a_profile_of_a_disk_finds_the_truth() {
    let profile = measure("disk", false, &[]);
    let mut found = wrong("disk", &profile, |_| false);
    // Inodes that earlier procedures have freed are used again, and blocks of theirs are read for some of them.
    found.retain(|off| !off.starts_with("disk: SC_FS_D1 is "));
    assert_eq!(found, [] as [String; 0]);
    let alone = measure("disk", true, &["SC_FS_D"]);
    let (found, held) = compared("disk", &alone, |stem| stem == "SC_FS_D");
    assert_eq!(found, [] as [String; 0]);
    assert!(held > 0);
}

/// What does not depend on how many of thousands of files are cached.
const OF_FEW_FILES: &[&str] = &[
    "EMPTY", "BS", "FS", "LUS_BC", "LUR_BC", "FSTAT", "SEEK", "STATFS", "CLOSE", "RAW", "FSYQ",
    "FSYRM", "FSYDF", "FSYO", "FSYB", "FDSO", "FDSB", "FSYN", "FDSS", "RRD", "RD", "MMAP",
    "MUNMAP", "DTH", "DTB", "DTR", "DTF", "RXB",
];

#[test]
fn a_profile_of_tiny_caches_finds_the_truth_and_the_size_of_one() {
    let mut only = OF_FEW_FILES.to_vec();
    only.push("BC");
    let profile = measure("tiny", false, &only);
    let mut wrong = wrong("tiny", &profile, |stem| OF_FEW_FILES.contains(&stem));
    wrong.retain(|line| {
        OF_FEW_FILES
            .iter()
            .any(|stem| line.contains(&format!(": {stem}")))
    });
    assert_eq!(wrong, [] as [String; 0]);
    let caches = Truth::built_in("tiny").unwrap().disk.unwrap().caches;
    let (found, size) = (profile.get("BC").unwrap(), (caches.pages_mib * 1024) as f64);
    assert!(!found.lower_bound && found.low.unwrap() <= size && size <= found.high.unwrap());
}

#[test]
fn that_writers_had_to_wait_is_not_what_a_write_costs() {
    let stems = ["WF", "WN", "WU"];
    let profile = measure("tiny", true, &stems);
    let (mut found, _) = compared("tiny", &profile, |_| false);
    found.retain(|line| stems.iter().any(|stem| line.contains(&format!(": {stem}"))));
    assert_eq!(found, [] as [String; 0]);
    let of_16 = |stem: &str| profile.get(&format!("{stem}16")).map(|m| m.estimate);
    assert_eq!((of_16("WF"), of_16("WN")), (Some(3700.0), Some(3700.0)));
}

#[test]
fn two_profiles_of_one_seed_are_equal() {
    let only = [
        "cold", "CR", "FSYS", "SC_FS_D", "SC_RR_D", "WB", "OPEN", "CR_G150",
    ];
    let text = || serde_json::to_string(&measure("disk", true, &only)).unwrap();
    assert_eq!(text(), text());
}
