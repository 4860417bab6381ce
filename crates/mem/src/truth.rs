//! What is stated of an oracle: every cost, every size.

use serde::{Deserialize, Serialize};

/// Why a truth is none.
#[derive(Debug, thiserror::Error)]
pub enum TruthError {
    /// The text is no TOML of a truth.
    #[error("read the truth {name}:{line}: {problem}")]
    Text {
        /// The truth's name.
        name: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// A value cannot be.
    #[error("use the truth {name}: {key} is {value}, expected {expected}")]
    Value {
        /// The truth's name.
        name: String,
        /// The key, with its section.
        key: String,
        /// What stands there.
        value: String,
        /// What could.
        expected: &'static str,
    },
}

macro_rules! sections {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {
        $($(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type,)* })*
    };
}

sections! {
    /// What the machine costs beside the file system.
    Machine {
        /// Entering the kernel and leaving it, once for each call.
        entry_exit_ns: u64,
        /// Unmounting and mounting again.
        remount_ns: u64,
    }
    /// What there is room for.
    Space {
        /// Data, in MiB.
        total_mib: u64,
        /// Of that what may take memory of this machine, in MiB: what is written, without what is equal to
        /// other pages. More is refused as if the device were full.
        #[serde(default = "held_mib")]
        held_mib: u64,
        /// Inodes.
        files: u64,
    }
    /// Calls, everything cached, without their lookups and without entry and exit.
    Calls {
        /// open of a file that is there.
        open_ns: u64,
        /// The same with `O_CREAT`.
        open_create_ns: u64,
        /// open of a directory.
        open_directory_ns: u64,
        /// An open that fails.
        open_missing_ns: u64,
        /// An open that makes the file. Calls that make a name also search for it.
        create_ns: u64,
        /// close; what a removed file held is freed in addition.
        close_ns: u64,
        /// stat and lstat.
        stat_ns: u64,
        /// A stat that fails.
        stat_missing_ns: u64,
        /// fstat.
        fstat_ns: u64,
        /// access, failing or not.
        access_ns: u64,
        /// lseek.
        seek_ns: u64,
        /// statfs.
        statfs_ns: u64,
        /// chmod.
        set_mode_ns: u64,
        /// chown.
        set_owner_ns: u64,
        /// utimensat.
        set_times_ns: u64,
        /// A listing.
        list_ns: u64,
        /// Each entry of a listing.
        list_entry_ns: u64,
        /// mkdir.
        mkdir_ns: u64,
        /// rmdir.
        rmdir_ns: u64,
        /// rename to a free name.
        rename_ns: u64,
        /// rename over a file or directory; what it held is freed in addition.
        rename_over_ns: u64,
        /// link.
        link_ns: u64,
        /// symlink.
        symlink_ns: u64,
        /// readlink.
        readlink_ns: u64,
        /// unlink; what the file held is freed in addition.
        unlink_ns: u64,
        /// truncate to less; what is cut off is freed in addition.
        truncate_ns: u64,
        /// truncate to as much or more.
        extend_ns: u64,
        /// fallocate; each block in addition.
        reserve_ns: u64,
        /// fsync and fdatasync, without what has to be written.
        fsync_ns: u64,
        /// sync_file_range; each page that it starts to write in addition.
        #[serde(default)]
        start_writing_ns: u64,
        /// Each of those pages.
        #[serde(default)]
        start_page_ns: u64,
        /// sync, without what has to be written.
        sync_ns: u64,
        /// mmap.
        map_ns: u64,
        /// munmap.
        unmap_ns: u64,
        /// A fault of a page that is cached.
        fault_read_ns: u64,
        /// The same to write.
        fault_write_ns: u64,
    }
    /// Resolution of one component of a path.
    Lookups {
        /// Every component, cached or not, there or not.
        component_ns: u64,
        /// In addition where its name is not cached: the search of the directory's block.
        search_ns: u64,
        /// In addition where its inode is not cached: making it from the block that holds it.
        inode_ns: u64,
    }
    /// What is moved.
    Data {
        /// A read.
        read_ns: u64,
        /// Each KiB that it moves.
        read_kib_ns: u64,
        /// A read at the end of the file.
        read_end_ns: u64,
        /// A write.
        write_ns: u64,
        /// Each KiB that it moves.
        write_kib_ns: u64,
        /// Each page that comes into the cache, to be read or written.
        new_page_ns: u64,
        /// Each page that is given room for the first time.
        allocate_page_ns: u64,
        /// Each page that becomes dirty.
        dirty_page_ns: u64,
        /// Each cached page that is freed.
        free_page_ns: u64,
        /// Each block that is freed.
        free_block_ns: u64,
    }
    /// Sizes of the caches. Pages follow the kernel's two lists, names and inodes the last use.
    Caches {
        /// Data, blocks of directories and of inodes, in MiB.
        pages_mib: u64,
        /// Names, those known to be missing too.
        names: u64,
        /// Inodes.
        inodes: u64,
    }
    /// The device: one queue, served in the order in which requests come.
    DeviceTruth {
        /// How far from the last request's end one is near, in KiB. One at its end waits for nothing.
        near_kib: u64,
        /// To a place that is near.
        near_ns: u64,
        /// To any other.
        far_ns: u64,
        /// Moving so much to the reader: ascending, linear between, along the last two beyond.
        read: Vec<Point>,
        /// The same of writes.
        write: Vec<Point>,
    }
    /// A size and the time that it takes.
    Point {
        /// KiB.
        kib: u64,
        /// Nanoseconds.
        ns: u64,
    }
    /// Read-ahead: the kernel's, a window for each open file.
    ReadAheadTruth {
        /// The largest window, in KiB; 0 for none.
        most_kib: u64,
    }
    /// Writing back of files, each by one request.
    WriteBackTruth {
        /// For how long a file is dirty before it is due.
        expiry_ns: u64,
        /// How often it is looked for what is due.
        interval_ns: u64,
        /// Writers wait for the oldest dirty file to be written where more is dirty, in MiB.
        limit_mib: u64,
    }
    /// The journal: what changes of metadata is written together.
    JournalTruth {
        /// A commit's own work.
        commit_ns: u64,
        /// Blocks of a commit beside those that changed.
        frame_blocks: u64,
        /// What the device takes to make a commit, or data alone, stable.
        flush_ns: u64,
        /// How long a change waits before it is committed unasked.
        interval_ns: u64,
    }
    /// Everything that is stated of an oracle.
    Truth {
        /// What the machine costs.
        machine: Machine,
        /// What there is room for.
        space: Space,
        /// Calls.
        calls: Calls,
        /// Components of paths.
        lookups: Lookups,
        /// What is moved.
        data: Data,
        /// The device and all that goes with it; without one nothing misses and nothing is written.
        disk: Option<Disk>,
    }
    /// What a truth with a device states in addition.
    Disk {
        /// Sizes of the caches.
        caches: Caches,
        /// The device.
        device: DeviceTruth,
        /// Read-ahead.
        read_ahead: ReadAheadTruth,
        /// Writing back.
        write_back: WriteBackTruth,
        /// The journal.
        journal: JournalTruth,
    }
}

/// Where a truth does not say it.
fn held_mib() -> u64 {
    1024
}

/// No time stated is longer: a quarter of an hour.
const MOST_NS: u64 = 900_000_000_000;
/// No size in MiB is larger: a TiB.
const MOST_MIB: u64 = 1 << 20;
/// No number of anything else.
const MOST: u64 = 1 << 30;

impl Truth {
    /// The built-in truths by name.
    pub const BUILT_IN: &'static [(&'static str, &'static str)] = &[
        ("fast", include_str!("../truths/fast.toml")),
        ("disk", include_str!("../truths/disk.toml")),
        ("tiny", include_str!("../truths/tiny.toml")),
    ];

    /// The truth of a text in TOML; `name` is what errors call it.
    pub fn parse(name: &str, text: &str) -> Result<Self, TruthError> {
        let truth: Self = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let (line, problem) = fsage_core::text::problem_at(text, at, error.message());
            TruthError::Text {
                name: name.to_owned(),
                line,
                problem,
            }
        })?;
        truth.check(name)?;
        Ok(truth)
    }

    /// The built-in truth of a name.
    pub fn built_in(name: &str) -> Option<Self> {
        let (name, text) = Self::BUILT_IN.iter().find(|(n, _)| *n == name)?;
        Self::parse(name, text).ok()
    }

    /// Whether every value can be; what was made by hand too.
    pub fn check(&self, name: &str) -> Result<(), TruthError> {
        let fails = |key: &str, value: String, expected| TruthError::Value {
            name: name.to_owned(),
            key: key.to_owned(),
            value,
            expected,
        };
        let text = toml::to_string(self).unwrap_or_default();
        let table: toml::Table = toml::from_str(&text).unwrap_or_default();
        check_table("", &table).map_err(|(key, value, expected)| fails(&key, value, expected))?;
        let Some(disk) = &self.disk else {
            return Ok(());
        };
        for (key, points) in [
            ("disk.device.read", &disk.device.read),
            ("disk.device.write", &disk.device.write),
        ] {
            let rising = |w: &[Point]| matches!(w, [a, b] if a.kib < b.kib && a.ns <= b.ns);
            if points.len() < 2 || !points.windows(2).all(rising) {
                let expected = "two sizes or more, sizes rising and times not falling";
                return Err(fails(key, format!("{} sizes", points.len()), expected));
            }
        }
        Ok(())
    }
}

type Wrong = (String, String, &'static str);

/// Every number by the unit that ends its name.
fn check_table(above: &str, table: &toml::Table) -> Result<(), Wrong> {
    for (key, value) in table {
        let path = format!("{above}{key}");
        match value {
            toml::Value::Table(inner) => check_table(&format!("{path}."), inner)?,
            toml::Value::Array(items) => {
                for inner in items.iter().filter_map(toml::Value::as_table) {
                    check_table(&format!("{path}."), inner)?;
                }
            }
            toml::Value::Integer(number) => {
                let (least, most, expected) = bounds(key);
                if !(least..=most).contains(&number.unsigned_abs()) {
                    return Err((path, number.to_string(), expected));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn bounds(key: &str) -> (u64, u64, &'static str) {
    if key == "interval_ns" {
        (1, MOST_NS, "1 to 900000000000")
    } else if key == "ns" || key.ends_with("_ns") {
        (0, MOST_NS, "0 to 900000000000")
    } else if key.ends_with("_mib") {
        (1, MOST_MIB, "1 to 1048576")
    } else if key == "most_kib" || key == "near_kib" || key == "frame_blocks" {
        (0, 1 << 20, "0 to 1048576")
    } else {
        (1, MOST, "1 to 1073741824")
    }
}
