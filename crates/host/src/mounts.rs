//! What is mounted where, from `/proc/self/mountinfo` (proc(5)).

use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use fsage_core::DevId;
use rustix::fs::{AtFlags, StatxFlags};

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The kernel's number of the mount.
    pub id: u64,
    /// The device that `stat(2)` reports there; anonymous (major 0) for btrfs, tmpfs, overlay.
    pub dev: DevId,
    /// Where it is mounted.
    pub dir: PathBuf,
    /// Options of the mount, as `rw,relatime`.
    pub mount_options: String,
    /// The file system type, as `ext4`.
    pub kind: String,
    /// What is mounted: a device's path, or a name.
    pub source: PathBuf,
    /// Options of the file system itself, as `rw,errors=continue`.
    pub super_options: String,
}

impl Mount {
    /// The mount that holds an open directory whose absolute path is `dir`.
    pub fn of(fd: BorrowedFd<'_>, dir: &Path) -> Option<Mount> {
        let mounts = all();
        if let Some(id) = mount_id(fd)
            && let Some(mount) = mounts.iter().find(|m| m.id == id)
        {
            return Some(mount.clone());
        }
        // Kernels before 5.8 do not say the mount of a descriptor: the longest prefix, the last
        // mounted of equals.
        mounts
            .into_iter()
            .filter(|m| dir.starts_with(&m.dir))
            .max_by_key(|m| m.dir.as_os_str().len())
    }

    /// Both option lists, the file system's after the mount's, each option once.
    pub fn options(&self) -> String {
        let mut options: Vec<&str> = self.mount_options.split(',').collect();
        for option in self.super_options.split(',') {
            if !option.is_empty() && !options.contains(&option) {
                options.push(option);
            }
        }
        options.join(",")
    }
}

fn mount_id(fd: BorrowedFd<'_>) -> Option<u64> {
    let statx = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?;
    (statx.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(statx.stx_mnt_id)
}

/// All mounts of the caller's mount namespace, in the order of mounting; empty without /proc.
pub fn all() -> Vec<Mount> {
    // thread-self: a thread may live in a mount namespace of its own.
    let text = std::fs::read("/proc/thread-self/mountinfo").unwrap_or_default();
    text.split(|&b| b == b'\n').filter_map(parse).collect()
}

/// All mounts of the mount namespace of a process; empty where it may not be asked.
pub(crate) fn of_process(pid: u32) -> Vec<Mount> {
    let text = std::fs::read(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
    text.split(|&b| b == b'\n').filter_map(parse).collect()
}

/// Whether what is mounted there is answered by a process or another machine, which may be gone: it would
/// never answer then. Nothing of it is touched.
pub fn may_hang(mount: &Mount) -> bool {
    let kind = mount.kind.as_str();
    let remote = [
        "nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "afs", "virtiofs", "autofs",
    ];
    kind == "fuse" || kind == "fuseblk" || kind.starts_with("fuse.") || remote.contains(&kind)
}

/// Whether files there belong to who made them. Some file systems have one owner for all, others are told by a
/// server who owns what.
pub(crate) fn keeps_owners(mount: &Mount) -> bool {
    let without = ["vfat", "msdos", "exfat", "ntfs3", "ntfs", "hfs", "hfsplus"];
    !may_hang(mount) && !without.contains(&mount.kind.as_str())
}

fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&b| b == b' ');
    let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let _parent = fields.next()?;
    let dev = parse_dev(std::str::from_utf8(fields.next()?).ok()?)?;
    let _root = fields.next()?;
    let dir = unescape(fields.next()?);
    let mount_options = text(fields.next()?);
    // Any number of optional fields, ended by a dash.
    fields.find(|&f| f == b"-")?;
    let kind = text(fields.next()?);
    let source = unescape(fields.next()?);
    let super_options = text(fields.next().unwrap_or_default());
    Some(Mount {
        id,
        dev,
        dir,
        mount_options,
        kind,
        source,
        super_options,
    })
}

/// Reads `MAJOR:MINOR`.
pub(crate) fn parse_dev(text: &str) -> Option<DevId> {
    let (major, minor) = text.trim().split_once(':')?;
    Some(DevId::new(major.parse().ok()?, minor.parse().ok()?))
}

fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(field).into_owned()
}

/// Undoes the octal escapes of space, tab, newline and backslash.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let octal = tail
            .get(..3)
            .filter(|_| first == b'\\')
            .and_then(|d| std::str::from_utf8(d).ok())
            .and_then(|d| u8::from_str_radix(d, 8).ok());
        if let Some(byte) = octal {
            bytes.push(byte);
            rest = tail.get(3..).unwrap_or_default();
        } else {
            bytes.push(first);
            rest = tail;
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_line_with_escapes_and_optional_fields() {
        let line = b"36 35 98:0 /mnt1 /mnt\\040two rw,noatime master:1 shared:7 - ext3 /dev/root rw,errors=continue";
        let mount = parse(line).unwrap();
        assert_eq!(mount.dir, Path::new("/mnt two"));
        assert_eq!(mount.dev, DevId::new(98, 0));
        assert_eq!(
            (mount.kind.as_str(), mount.source.as_path()),
            ("ext3", Path::new("/dev/root"))
        );
        assert_eq!(mount.options(), "rw,noatime,errors=continue");
    }

    #[test]
    fn damaged_lines_are_left_out() {
        for line in ["", "1", "1 2 x:y / / rw - a b c", "1 2 0:1 / / rw"] {
            assert_eq!(parse(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn finds_the_mount_of_proc() {
        let fd = crate::fs::open_root(Path::new("/proc")).unwrap();
        let mount = Mount::of(std::os::fd::AsFd::as_fd(&fd), Path::new("/proc")).unwrap();
        assert_eq!(
            (mount.kind.as_str(), mount.dir.as_path()),
            ("proc", Path::new("/proc"))
        );
    }
}
