//! What a file system's own tools and the kernel say of how it was made.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::devices;
use super::files::read;
use super::tools::output;
use crate::device::BlockDevice;
use crate::scratch::find_program;

/// What dumpe2fs tells that decides how ext2, ext3 and ext4 work; the rest are counters and names.
const EXT_FIELDS: [&str; 19] = [
    "Filesystem revision #",
    "Filesystem features",
    "Filesystem flags",
    "Default mount options",
    "Errors behavior",
    "Inode count",
    "Block count",
    "Reserved block count",
    "Overhead clusters",
    "Block size",
    "Blocks per group",
    "Inodes per group",
    "Flex block group size",
    "Filesystem created",
    "Inode size",
    "Journal features",
    "Total journal size",
    "RAID stride",
    "RAID stripe width",
];

/// Parameters by name; empty for kinds that nothing here knows, and where only root may ask.
pub(super) fn parameters(
    kind: &str,
    device: &BlockDevice,
    mounted: &Path,
) -> BTreeMap<String, String> {
    match kind {
        "ext2" | "ext3" | "ext4" => ext(device),
        "xfs" => xfs(mounted),
        "btrfs" => btrfs(device),
        _ => BTreeMap::new(),
    }
}

fn ext(device: &BlockDevice) -> BTreeMap<String, String> {
    let Some(program) = find_program("dumpe2fs") else {
        return BTreeMap::new();
    };
    let path = format!("/dev/{}", device.name);
    let text = output(&program, &["-h", &path]).unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            let value = value.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
            let wanted = EXT_FIELDS.contains(&name) && !value.is_empty();
            wanted.then(|| (name.to_owned(), value))
        })
        .collect()
}

/// Each `key=value` of xfs_info, after the section it stands in.
fn xfs(mounted: &Path) -> BTreeMap<String, String> {
    let (Some(program), Some(dir)) = (find_program("xfs_info"), mounted.to_str()) else {
        return BTreeMap::new();
    };
    let text = output(&program, &[dir]).unwrap_or_default();
    xfs_values(&text)
}

fn xfs_values(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut section = "";
    for line in text.lines() {
        // `meta-data=/dev/loop1 isize=512 …`, `         =  sectsz=512 …`, `data     = bsize=4096 …`.
        let Some((name, rest)) = line.split_once('=') else {
            continue;
        };
        if !name.trim().is_empty() {
            section = name.trim();
        }
        for item in rest.split([' ', ',']) {
            if let Some((key, value)) = item.split_once('=')
                && !key.is_empty()
                && !value.is_empty()
            {
                found.insert(format!("{section} {key}"), value.to_owned());
            }
        }
    }
    found
}

/// What the kernel tells of a mounted btrfs (the kernel's filesystems/btrfs.rst), profiles included.
fn btrfs(device: &BlockDevice) -> BTreeMap<String, String> {
    let Some(dir) = btrfs_dir(device) else {
        return BTreeMap::new();
    };
    let mut found = BTreeMap::new();
    for name in ["nodesize", "sectorsize", "checksum"] {
        if let Some(value) = read(dir.join(name)) {
            found.insert(name.to_owned(), value);
        }
    }
    found.insert(
        "features".to_owned(),
        names(&dir.join("features")).join(" "),
    );
    for group in ["data", "metadata", "system"] {
        let profiles: Vec<String> = names(&dir.join("allocation").join(group))
            .into_iter()
            .filter(|name| is_profile(name))
            .collect();
        if !profiles.is_empty() {
            found.insert(format!("{group} profile"), profiles.join(" "));
        }
    }
    found.retain(|_, value| !value.is_empty());
    found
}

fn is_profile(name: &str) -> bool {
    name == "single" || name == "dup" || name.starts_with("raid")
}

/// The devices of a btrfs beside the one that was mounted.
pub(super) fn btrfs_members(device: &BlockDevice) -> Vec<BlockDevice> {
    let Some(dir) = btrfs_dir(device) else {
        return Vec::new();
    };
    names(&dir.join("devices"))
        .iter()
        .filter(|name| **name != device.name)
        .filter_map(|name| devices::of_name(name))
        .collect()
}

fn btrfs_dir(device: &BlockDevice) -> Option<PathBuf> {
    let all = std::fs::read_dir("/sys/fs/btrfs").ok()?;
    all.filter_map(|entry| Some(entry.ok()?.path()))
        .find(|dir| dir.join("devices").join(&device.name).exists())
}

/// The names in a directory, in order.
fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut all: Vec<String> = entries
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .collect();
    all.sort();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_xfs_info() {
        let text = "\
meta-data=/dev/loop1             isize=512    agcount=4, agsize=32768 blks
         =                       sectsz=512   attr=2, projid32bit=1
data     =                       bsize=4096   blocks=131072, imaxpct=25
log      =internal log           bsize=4096   blocks=16384, version=2
";
        let found = xfs_values(text);
        assert_eq!(found["meta-data isize"], "512");
        assert_eq!(found["meta-data projid32bit"], "1");
        assert_eq!(found["data bsize"], "4096");
        assert_eq!(found["log blocks"], "16384");
        assert_eq!(found.len(), 12, "{found:?}");
    }
}
