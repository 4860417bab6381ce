//! Attributes as FUSE wants them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use rustix::fs::{FileType as Type, RawMode, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};

/// The attributes of a file that the kernel knows by `node`.
#[allow(
    clippy::unnecessary_cast,
    reason = "the fields' types differ between architectures"
)]
pub fn of(node: u64, stat: &Stat) -> FileAttr {
    let time = |seconds: i64, nanoseconds: u64| {
        let whole = Duration::from_secs(seconds.unsigned_abs());
        let base = if seconds < 0 {
            UNIX_EPOCH.checked_sub(whole)
        } else {
            UNIX_EPOCH.checked_add(whole)
        };
        let part = Duration::from_nanos(nanoseconds);
        base.and_then(|t| t.checked_add(part)).unwrap_or(UNIX_EPOCH)
    };
    FileAttr {
        ino: INodeNo(node),
        size: stat.st_size as u64,
        blocks: stat.st_blocks as u64,
        atime: time(stat.st_atime as i64, stat.st_atime_nsec as u64),
        mtime: time(stat.st_mtime as i64, stat.st_mtime_nsec as u64),
        ctime: time(stat.st_ctime as i64, stat.st_ctime_nsec as u64),
        crtime: UNIX_EPOCH,
        kind: kind(Type::from_raw_mode(stat.st_mode as RawMode)),
        perm: (stat.st_mode & 0o7777) as u16,
        nlink: stat.st_nlink as u32,
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: stat.st_rdev as u32,
        blksize: stat.st_blksize as u32,
        flags: 0,
    }
}

/// A file's type.
pub fn kind(file_type: Type) -> FileType {
    match file_type {
        Type::Directory => FileType::Directory,
        Type::Symlink => FileType::Symlink,
        Type::Fifo => FileType::NamedPipe,
        Type::Socket => FileType::Socket,
        Type::CharacterDevice => FileType::CharDevice,
        Type::BlockDevice => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

/// Times to be set; what is not given stays.
pub fn timestamps(access: Option<TimeOrNow>, modification: Option<TimeOrNow>) -> Timestamps {
    let time = |given: Option<TimeOrNow>| match given {
        None => Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        Some(TimeOrNow::Now) => Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        },
        Some(TimeOrNow::SpecificTime(at)) => since_epoch(at),
    };
    Timestamps {
        last_access: time(access),
        last_modification: time(modification),
    }
}

fn since_epoch(at: SystemTime) -> Timespec {
    match at.duration_since(UNIX_EPOCH) {
        Ok(after) => Timespec {
            tv_sec: after.as_secs() as i64,
            tv_nsec: after.subsec_nanos().into(),
        },
        // Before 1970: nanoseconds count upwards from the second before.
        Err(before) => {
            let before = before.duration();
            let part = before.subsec_nanos();
            Timespec {
                tv_sec: -(before.as_secs() as i64) - i64::from(part > 0),
                tv_nsec: if part > 0 {
                    i64::from(1_000_000_000 - part)
                } else {
                    0
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_the_epoch_are_kept() {
        let half_before = UNIX_EPOCH - Duration::from_millis(1500);
        let time = since_epoch(half_before);
        assert_eq!((time.tv_sec, time.tv_nsec), (-2, 500_000_000));
    }
}
