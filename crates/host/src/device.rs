//! The block device beneath a mount, from sysfs.

use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fsage_core::{DevId, DeviceCounters};

use crate::mounts::{self, Mount};

/// A block device or a partition of one.
#[derive(Debug, Clone)]
pub struct BlockDevice {
    /// Its number.
    pub dev: DevId,
    /// Its name in the kernel, as `sda1`.
    pub name: String,
    /// Its directory in sysfs.
    sysfs: PathBuf,
    /// `stat`, kept open: each read from its start gives the counters of the moment.
    stat: Arc<std::fs::File>,
}

impl BlockDevice {
    /// The device of a mount; through the mount's source where the file system has an anonymous
    /// number (btrfs). `None` for tmpfs, overlay, network file systems.
    pub fn of_mount(mount: &Mount) -> Option<BlockDevice> {
        if mount.dev.major() != 0 {
            return Self::of_dev(mount.dev);
        }
        // What a FUSE file system calls its source may lie on one that nobody answers for.
        if !mount.source.starts_with("/dev") {
            return None;
        }
        let source = std::fs::metadata(&mount.source).ok()?;
        let is_block = source.mode() & libc::S_IFMT == libc::S_IFBLK;
        if is_block {
            Self::of_dev(DevId(source.rdev()))
        } else {
            None
        }
    }

    /// The device of a number.
    pub fn of_dev(dev: DevId) -> Option<BlockDevice> {
        let sysfs = PathBuf::from(format!("/sys/dev/block/{dev}"))
            .canonicalize()
            .ok()?;
        let stat = Arc::new(std::fs::File::open(sysfs.join("stat")).ok()?);
        let name = sysfs.file_name()?.to_string_lossy().into_owned();
        Some(BlockDevice {
            dev,
            name,
            sysfs,
            stat,
        })
    }

    /// The device of a directory of sysfs, or of a link to it.
    pub(crate) fn of_sysfs(path: &Path) -> Option<BlockDevice> {
        let text = std::fs::read_to_string(path.join("dev")).ok()?;
        Self::of_dev(mounts::parse_dev(&text)?)
    }

    /// The disk of a partition, the members of a volume.
    pub(crate) fn beneath(&self) -> Vec<BlockDevice> {
        if self.sysfs.join("partition").exists() {
            let disk = self.sysfs.parent().and_then(Self::of_sysfs);
            return disk.into_iter().collect();
        }
        let Ok(members) = std::fs::read_dir(self.sysfs.join("slaves")) else {
            return Vec::new();
        };
        let mut paths: Vec<PathBuf> = members.filter_map(|m| Some(m.ok()?.path())).collect();
        paths.sort();
        paths
            .iter()
            .filter_map(|path| Self::of_sysfs(path))
            .collect()
    }

    /// The number of the disk: of the one that holds it, if it is a partition.
    pub fn disk(&self) -> DevId {
        let number = |text: String| {
            let (major, minor) = text.trim().split_once(':')?;
            let (major, minor) = (major.parse().ok()?, minor.parse().ok()?);
            Some(DevId(rustix::fs::makedev(major, minor)))
        };
        if !self.sysfs.join("partition").exists() {
            return self.dev;
        }
        let disk = self.sysfs.parent().map(|disk| disk.join("dev"));
        let text = disk.and_then(|file| std::fs::read_to_string(file).ok());
        text.and_then(number).unwrap_or(self.dev)
    }

    /// Its directory in sysfs.
    pub(crate) fn sysfs(&self) -> &Path {
        &self.sysfs
    }

    /// Its counters since boot. Requests in flight are not in them.
    pub fn counters(&self) -> Option<DeviceCounters> {
        let mut buffer = [0u8; 512];
        let length = self.stat.read_at(&mut buffer, 0).ok()?;
        parse_stat(std::str::from_utf8(buffer.get(..length)?).ok()?)
    }

    /// An attribute of the device or, for a partition, of the disk that holds it, as
    /// `queue/scheduler`; without white space around it.
    pub fn attribute(&self, name: &str) -> Option<String> {
        let own = std::fs::read_to_string(self.sysfs.join(name));
        let text = own.or_else(|_| match self.sysfs.parent() {
            Some(disk) => std::fs::read_to_string(disk.join(name)),
            None => Err(std::io::ErrorKind::NotFound.into()),
        });
        Some(text.ok()?.trim().to_owned())
    }
}

/// Fields 1, 3, 5 and 7 of the kernel's block/stat.rst.
fn parse_stat(text: &str) -> Option<DeviceCounters> {
    let mut fields = text.split_ascii_whitespace().map(|f| f.parse::<u64>().ok());
    let reads = fields.next()??;
    let sectors_read = fields.nth(1)??;
    let writes = fields.nth(1)??;
    let sectors_written = fields.nth(1)??;
    Some(DeviceCounters {
        reads,
        sectors_read,
        writes,
        sectors_written,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_counters() {
        let text = "     159      53    12776       36      11       2       88        5        0";
        let expected = DeviceCounters {
            reads: 159,
            sectors_read: 12776,
            writes: 11,
            sectors_written: 88,
        };
        assert_eq!(parse_stat(text), Some(expected));
        assert_eq!(parse_stat("1 2 3"), None);
        assert_eq!(parse_stat("a b c d e f g"), None);
    }
}
