//! A target: a file system and what it lies on.

use fsage_core::FileSystem;
use fsage_format::result::environment::{MkfsRecord, TargetRecord};

use super::{devices, file_system};
use crate::mounts::Mount;
use crate::{Backing, HostFs, ScratchRecord, kthread};

/// The file system that holds `fs`, and what is beneath it. `name` is the target as the user gave it.
/// [`crate::target::record`] does this for any target.
pub fn target(fs: &HostFs, name: &str) -> TargetRecord {
    let mount = fs.mount();
    let made = fs.made();
    let scratch = made.as_ref().map(|made| made.record());
    let mut record = TargetRecord {
        target: name.to_owned(),
        scratch: scratch.is_some(),
        file_system: mount.map(|m| m.kind.clone()),
        source: mount.map(|m| m.source.display().to_string()),
        mount_options: mount.map(Mount::options),
        mount_options_given: scratch.map(|s| s.spec.mount_options.clone()),
        mkfs: scratch.filter(|s| s.restored.is_none()).map(mkfs),
        emulated: scratch.and_then(|s| s.disk.clone()),
        ..space(fs)
    };
    if let Some(device) = fs.device() {
        record.devices = devices::stack(device);
        if let Some(top) = record.devices.first_mut()
            && scratch.is_some_and(|s| s.spec.backing == Backing::Ram)
        {
            // Anonymous memory lies on no mount that could be found.
            top.backing_file_system
                .get_or_insert_with(|| "tmpfs".to_owned());
        }
        if let Some(mount) = mount {
            record.parameters = file_system::parameters(&mount.kind, device, &mount.dir);
            if mount.kind == "btrfs" {
                for member in file_system::btrfs_members(device) {
                    record.devices.extend(devices::stack(&member));
                }
            }
        }
        record.kernel_threads = kthread::of_device(&device.name)
            .into_iter()
            .filter_map(|t| Some((t.name, u32::try_from(t.last_cpu).ok()?)))
            .collect();
    }
    if let Some(layer) = fs.layer() {
        record.parameters.extend(layer.describe());
    }
    record
}

/// How much any file system holds.
pub(crate) fn space(fs: &dyn FileSystem) -> TargetRecord {
    let space = fs.statfs().ok();
    TargetRecord {
        total_bytes: space.as_ref().map(|s| s.total_bytes),
        free_bytes: space.as_ref().map(|s| s.available_bytes),
        used_inodes: space
            .as_ref()
            .filter(|s| s.files > 0)
            .and_then(|s| s.files.checked_sub(s.free_files)),
        ..TargetRecord::default()
    }
}

fn mkfs(made: &ScratchRecord) -> MkfsRecord {
    MkfsRecord {
        program: format!("mkfs.{}", made.spec.kind),
        options: made.mkfs_options.clone(),
        version: Some(made.mkfs_version.clone()).filter(|v| !v.is_empty()),
        image_bytes: made.spec.size_bytes,
        image: made.spec.backing.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HostOptions, Scratch};

    #[test]
    fn tells_a_directory_s_file_system() {
        let dir = tempfile::tempdir().unwrap();
        let fs = HostFs::open(dir.path(), HostOptions::default()).unwrap();
        let found = target(&fs, "here");
        assert_eq!((found.target.as_str(), found.scratch), ("here", false));
        assert!(found.file_system.is_some() && found.mount_options.is_some());
        assert!(found.total_bytes >= found.free_bytes && found.total_bytes > Some(0));
        assert_eq!((found.mkfs, found.emulated), (None, None));
    }

    #[test]
    fn tells_how_a_scratch_file_system_was_made_and_where_its_image_lies() {
        if !fsage_testing::root() {
            return;
        }
        let holder = tempfile::tempdir().unwrap();
        let holder_fs = HostFs::open(holder.path(), HostOptions::default()).unwrap();
        let on_file = format!(
            "ext4,size=32M,on=file:{},mkfs=-O ^has_journal,mount=noatime",
            holder.path().display()
        );
        for (spec, image) in [
            (on_file.as_str(), holder_fs.mount().map(|m| m.kind.clone())),
            ("ext2,size=32M", None),
        ] {
            let scratch = Scratch::create(&spec.parse().unwrap()).unwrap();
            let fs = scratch.open(HostOptions::default()).unwrap();
            let found = target(&fs, "s");
            let mkfs = found.mkfs.as_ref().unwrap();
            assert_eq!(found.file_system.as_deref(), Some(&spec[..4]));
            assert!(
                mkfs.version.as_ref().unwrap().contains("mke2fs"),
                "{found:?}"
            );
            let top = &found.devices[0];
            assert_eq!(
                (top.kind.as_str(), top.size_bytes),
                ("loop", Some(32 << 20))
            );
            assert!(top.scheduler.is_some() && top.read_ahead_bytes.is_some());
            if spec == on_file {
                assert_eq!(found.mount_options_given.as_deref(), Some("noatime"));
                assert!(found.mount_options.unwrap().contains("noatime"));
                assert!(mkfs.options.contains("^has_journal"));
                assert_eq!(top.backing_file_system, image);
                let below: Vec<&str> = found
                    .devices
                    .iter()
                    .skip(1)
                    .map(|d| d.name.as_str())
                    .collect();
                let expected = holder_fs.device().map(|d| d.name.as_str());
                assert_eq!(below.first().copied(), expected);
                let features = &found.parameters["Filesystem features"];
                assert!(!features.contains("has_journal"), "{features}");
            } else {
                assert_eq!(top.backing_file_system.as_deref(), Some("tmpfs"));
                assert!(found.is_in_memory() && !found.is_deviceless());
                let text = found.device_text();
                assert_eq!(text, format!("/dev/{} (loop on ram, direct I/O)", top.name));
                assert_eq!(found.devices.len(), 1, "{found:?}");
            }
            drop(fs);
            scratch.close().unwrap();
        }
    }
}
