//! What a file system lies on, down to the bottom: a partition and its disk, a loop device and what
//! holds its image, the members of a volume.

use std::path::{Path, PathBuf};

use fsage_core::DevId;
use fsage_format::result::environment::{DeviceRecord, selected};

use super::files::read;
use crate::device::BlockDevice;
use crate::mounts;

/// No stack is deeper, unless its links run in a circle.
const DEEPEST: u32 = 16;
/// The unit of sizes in sysfs, whatever the device's own is.
const SECTOR_BYTES: u64 = 512;

/// The device and everything beneath it.
pub(super) fn stack(top: &BlockDevice) -> Vec<DeviceRecord> {
    let mut all = Vec::new();
    add(top, 0, &mut all);
    all
}

fn add(device: &BlockDevice, depth: u32, all: &mut Vec<DeviceRecord>) {
    if depth > DEEPEST || all.iter().any(|d| d.name == device.name) {
        return;
    }
    let mut record = describe(device, depth);
    let holder = if record.kind == "loop" {
        image(device, &mut record)
    } else {
        None
    };
    all.push(record);
    if let Some(holder) = holder {
        add(&holder, depth + 1, all);
    }
    for below in device.beneath() {
        add(&below, depth + 1, all);
    }
}

/// The device of any name in /dev, as btrfs tells its members.
pub(super) fn of_name(name: &str) -> Option<BlockDevice> {
    BlockDevice::of_sysfs(&Path::new("/sys/class/block").join(name))
}

fn describe(device: &BlockDevice, depth: u32) -> DeviceRecord {
    let text = |name: &str| device.attribute(name).filter(|t| !t.is_empty());
    let number = |name: &str| text(name)?.parse::<u64>().ok();
    let sectors = |n: u64| n.checked_mul(SECTOR_BYTES);
    let kib = |name: &str| number(name)?.checked_mul(1024);
    let sysfs = device.sysfs();
    let partition = sysfs.join("partition").exists();
    let disk = sysfs.parent().filter(|_| partition);
    DeviceRecord {
        name: device.name.clone(),
        kind: kind(device, partition),
        depth,
        model: text("device/model").or_else(|| text("dm/name")),
        firmware: text("device/firmware_rev").or_else(|| text("device/rev")),
        bus: bus(device),
        size_bytes: number("size").and_then(sectors),
        start_bytes: number("start").and_then(sectors),
        disk_bytes: disk
            .and_then(|d| read(d.join("size"))?.parse().ok())
            .and_then(sectors),
        scheduler: text("queue/scheduler").map(|s| selected(&s).to_owned()),
        read_ahead_bytes: kib("queue/read_ahead_kb"),
        rotational: text("queue/rotational").map(|r| r != "0"),
        write_cache: text("queue/write_cache"),
        logical_block_bytes: number("queue/logical_block_size"),
        physical_block_bytes: number("queue/physical_block_size"),
        queued_requests: number("queue/nr_requests"),
        largest_request_bytes: kib("queue/max_sectors_kb"),
        discard: number("queue/discard_max_bytes").map(|n| n > 0),
        write_throttle_us: number("queue/wbt_lat_usec"),
        zoned: text("queue/zoned"),
        backing_file: text("loop/backing_file").filter(|_| !partition),
        direct_io: text("loop/dio").filter(|_| !partition).map(|d| d != "0"),
        ..DeviceRecord::default()
    }
}

fn kind(device: &BlockDevice, partition: bool) -> String {
    let sysfs = device.sysfs();
    if partition {
        return "partition".into();
    }
    if let Some(uuid) = read(sysfs.join("dm/uuid")) {
        // `LVM-…`, `CRYPT-LUKS2-…`: who made it.
        let maker = uuid.split('-').next().unwrap_or_default();
        return format!("device-mapper {maker}");
    }
    if let Some(level) = read(sysfs.join("md/level")) {
        return format!("md {level}");
    }
    let named = ["loop", "zram", "ram", "nbd", "rbd", "pmem"];
    let letters = device.name.trim_end_matches(|c: char| c.is_ascii_digit());
    if named.contains(&letters) {
        return letters.to_owned();
    }
    "disk".into()
}

/// How it is attached.
fn bus(device: &BlockDevice) -> Option<String> {
    let link = std::fs::read_link(device.sysfs().join("device/subsystem")).ok()?;
    Some(link.file_name()?.to_string_lossy().into_owned())
}

/// Where the image of a loop device lies; what is known of that goes into the record.
fn image(device: &BlockDevice, record: &mut DeviceRecord) -> Option<BlockDevice> {
    // The device itself knows which file system holds its image, but tells only root; a name tells it
    // too, where there is one.
    let path = PathBuf::from(record.backing_file.clone()?);
    let dev =
        crate::scratch::image_device(&Path::new("/dev").join(&device.name)).or_else(|| {
            let file = std::fs::metadata(&path).ok()?;
            Some(DevId(std::os::unix::fs::MetadataExt::dev(&file)))
        })?;
    let mount = mounts::all().into_iter().find(|m| m.dev == dev);
    record.backing_file_system = mount.as_ref().map(|m| m.kind.clone());
    BlockDevice::of_mount(mount.as_ref()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn describes_the_devices_of_this_machine() {
        let Ok(all) = std::fs::read_dir("/sys/class/block") else {
            fsage_testing::not_run("needs /sys/class/block");
            return;
        };
        for entry in all.filter_map(Result::ok) {
            let Some(device) = of_name(&entry.file_name().to_string_lossy()) else {
                continue;
            };
            let stack = stack(&device);
            let top = stack.first().unwrap();
            assert_eq!((top.name.as_str(), top.depth), (device.name.as_str(), 0));
            assert!(
                top.size_bytes.is_some() && top.logical_block_bytes > Some(0),
                "{top:?}"
            );
            assert_eq!(
                top.kind == "partition",
                top.start_bytes.is_some(),
                "{top:?}"
            );
            if top.kind == "partition" {
                assert!(
                    stack.len() > 1 && top.disk_bytes >= top.size_bytes,
                    "{stack:?}"
                );
            }
        }
    }
}
