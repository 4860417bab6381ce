//! Scratch file systems: made as asked, refused clearly, taken down whatever happens.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

use crate::common;

use std::fs;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::process::Command;

use common::{TRUSTED, is_attached, is_mounted, scratch};
use fsage_core::{Errno, FileSystem, OpenFlags};
use fsage_host::{HostError, Scratch, ScratchSpec};

/// Where a scratch file system is, to look for it when it is gone.
fn place(scratch: &Scratch) -> (PathBuf, PathBuf) {
    (scratch.dir().to_owned(), scratch.record().device.clone())
}

/// The device's number may be someone else's by now; then its image is not ours.
fn assert_gone((dir, device): &(PathBuf, PathBuf), image: &str) {
    assert!(!is_mounted(dir), "{} is mounted", dir.display());
    assert!(!dir.exists(), "{} is there", dir.display());
    assert_ne!(backing(device), image, "{} is attached", device.display());
}

/// The image of a loop device as sysfs names it; nameless files have their inode in their name.
fn backing(device: &std::path::Path) -> String {
    let name = device.file_name().unwrap().to_string_lossy().into_owned();
    fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).unwrap_or_default()
}

#[test]
fn made_as_asked_and_gone_on_drop() {
    let Some(made) = scratch("ext4,size=32M,mkfs=-O ^has_journal -m 0,mount=noatime,nobarrier")
    else {
        return;
    };
    let place = place(&made);
    let image = backing(&place.1);
    assert!(is_attached(&place.1), "{image}");
    let fs = made.open(TRUSTED).unwrap();
    let mount = fs.mount().unwrap();
    assert_eq!(
        (mount.kind.as_str(), mount.source.as_path()),
        ("ext4", place.1.as_path())
    );
    assert!(mount.options().contains("noatime"), "{}", mount.options());
    assert!(mount.options().contains("nobarrier"), "{}", mount.options());
    let record = made.record();
    assert!(
        record.mkfs_options.contains("lazy_itable_init=0"),
        "{record:?}"
    );
    assert!(record.mkfs_options.contains("^has_journal"), "{record:?}");
    assert!(record.mkfs_version.contains("mke2fs"), "{record:?}");
    let marker = fs::read_to_string(made.dir().join(".fsage-scratch")).unwrap();
    assert!(marker.contains("scratch:ext4,size=32M"), "{marker}");
    let target = fsage_host::environment::target(&fs, "scratch:ext4");
    assert_eq!(target.file_system.as_deref(), Some("ext4"));
    assert_eq!(target.devices[0].size_bytes, Some(32 << 20));
    let device = target.device_text();
    assert!(device.contains("loop on ram"), "{device}");
    drop(fs);
    drop(made);
    assert_gone(&place, &image);
}

#[test]
fn gone_on_panic_though_a_target_is_open() {
    let Some(made) = scratch("ext4,size=32M") else {
        return;
    };
    let place = place(&made);
    let image = backing(&place.1);
    let fs = made.open(TRUSTED).unwrap();
    let panicked = std::panic::catch_unwind(AssertUnwindSafe(move || {
        let _made = made;
        std::panic::resume_unwind(Box::new(()));
    }));
    assert!(panicked.is_err());
    assert_gone(&place, &image);
    // Its root leads nowhere now, not into what lies beneath.
    assert_eq!(fs.stat(b"anything"), Err(Errno::ENOTDIR));
}

#[test]
fn an_open_file_delays_only_the_device() {
    let Some(made) = scratch("ext4,size=32M") else {
        return;
    };
    let place = place(&made);
    let image = backing(&place.1);
    let file = fs::File::create(made.dir().join("held")).unwrap();
    assert!(made.close().is_err());
    assert!(!is_mounted(&place.0) && !place.0.exists());
    drop(file);
    // The last close clears the device, a moment later.
    let gone = || backing(&place.1) != image;
    for _ in 0..400 {
        if gone() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("{} is still attached", place.1.display());
}

#[test]
fn on_a_file_leaves_no_name() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let Some(made) = scratch(&format!("ext4,size=32M,on=file:{}", dir.path().display())) else {
        return;
    };
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    let place = place(&made);
    let image = backing(&place.1);
    assert!(image.contains(&*dir.path().to_string_lossy()), "{image}");
    made.close().unwrap();
    assert_gone(&place, &image);
}

#[test]
fn what_a_device_read_ahead_for_others_is_forgotten() {
    let ahead = |device: &std::path::Path| {
        let name = device.file_name().unwrap().to_string_lossy().into_owned();
        let kib = fs::read_to_string(format!("/sys/block/{name}/queue/read_ahead_kb")).unwrap();
        kib.trim().parse::<u64>().unwrap()
    };
    // Other tests may take the device in between.
    for _ in 0..50 {
        let Some(before) = scratch("ext4,size=16M") else {
            return;
        };
        let device = before.record().device.clone();
        assert_eq!(ahead(&device), 128);
        let mut command = Command::new("blockdev");
        let raised = command.args(["--setra", "5120"]).arg(&device).status();
        assert!(raised.unwrap().success());
        assert_eq!(ahead(&device), 2560);
        before.close().unwrap();
        let after = scratch("ext4,size=16M").unwrap();
        if after.record().device == device {
            assert_eq!(ahead(&device), 128);
            return;
        }
    }
    panic!("no device was free twice");
}

#[test]
fn a_full_disk_is_an_error_for_every_kind_of_write() {
    for spec in ["ext4,size=16M,mkfs=-m 0", "ext2,size=16M,mkfs=-m 0"] {
        let Some(made) = scratch(spec) else { return };
        let fs = made.open(TRUSTED).unwrap();
        let sparse = fs.open(b"sparse", OpenFlags::CREATE_NEW, 0o644).unwrap();
        fs.ftruncate(sparse, 64 << 20).unwrap();
        let file = fs.open(b"file", OpenFlags::CREATE_NEW, 0o644).unwrap();
        let block = vec![1u8; 1 << 16];
        let error = (0..2000).find_map(|_| fs.write(file, &block).err());
        assert_eq!(error, Some(Errno::ENOSPC), "{spec}");
        fs.sync().unwrap();
        while fs.write(file, &[1; 4096]).is_ok() {}
        // A page of a hole has nowhere to go: SIGBUS, which must not end the process.
        let mut touched = 0;
        let result = fs.map_touch(sparse, 0, 64 << 20, true, &mut |_| touched += 1);
        assert_eq!(result, Err(Errno::ENOSPC), "{spec}: {touched} pages");
        // Reading holes needs no room.
        assert_eq!(
            fs.map_touch(sparse, 0, 1 << 20, false, &mut |_| touched += 1),
            Ok(())
        );
        fs.close(sparse).unwrap();
        fs.close(file).unwrap();
        made.close().unwrap();
    }
}

#[test]
fn what_mkfs_refuses_is_said() {
    let spec: ScratchSpec = "ext4,size=32M,mkfs=-O no_such_feature".parse().unwrap();
    let Some(made) = scratch("ext4,size=32M") else {
        return;
    };
    drop(made);
    let error = Scratch::create(&spec).unwrap_err();
    assert!(matches!(&error, HostError::Command { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("mkfs.ext4") && text.contains("no_such_feature"),
        "{text}"
    );
}

#[test]
fn what_the_kernel_refuses_is_said() {
    let Some(made) = scratch("ext4,size=32M") else {
        return;
    };
    drop(made);
    let spec: ScratchSpec = "ext4,size=32M,mount=commit=none".parse().unwrap();
    let error = Scratch::create(&spec).unwrap_err().to_string();
    assert!(error.contains("commit=none"), "{error}");
}

/// Runs one test of this binary again, in a process of its own.
fn again(test: &str, role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", &format!("scratch::{test}")])
        .args(["--nocapture", "--test-threads=1"])
        .env("FSAGE_TEST_ROLE", role);
    command
}

fn role() -> Option<String> {
    std::env::var("FSAGE_TEST_ROLE").ok()
}

#[test]
fn a_missing_mkfs_names_its_package() {
    if role().is_some() {
        for (kind, package) in [
            ("ext4", "e2fsprogs"),
            ("xfs", "xfsprogs"),
            ("btrfs", "btrfs-progs"),
        ] {
            let error = Scratch::create(&ScratchSpec::new(kind).unwrap()).unwrap_err();
            assert!(matches!(&error, HostError::MissingTool { .. }), "{error}");
            let text = error.to_string();
            assert!(
                text.contains(&format!("mkfs.{kind}")) && text.contains(package),
                "{text}"
            );
            assert!(error.hint().unwrap().contains(package));
        }
        return;
    }
    if !fsage_testing::root() {
        return;
    }
    // Where administrators' programs are is empty for it.
    let child = again("a_missing_mkfs_names_its_package", "child");
    let hides = "mount -t tmpfs none /usr/sbin && PATH= exec \"$0\" \"$@\"";
    let mut unshared = Command::new("unshare");
    unshared.args(["--mount", "--propagation", "private", "sh", "-c", hides]);
    unshared.arg(child.get_program()).args(child.get_args());
    let status = unshared.env("FSAGE_TEST_ROLE", "child").status();
    assert!(status.unwrap().success());
}

#[test]
fn without_root_it_says_so() {
    use std::os::unix::process::CommandExt;
    if role().is_some() {
        let error = Scratch::create(&ScratchSpec::new("ext4").unwrap()).unwrap_err();
        assert!(matches!(&error, HostError::NotRoot { .. }), "{error}");
        assert!(error.hint().is_some());
        assert!(matches!(
            fsage_host::isolate(),
            Err(HostError::NotRoot { .. })
        ));
        return;
    }
    if !rustix::process::geteuid().is_root() {
        fsage_testing::not_run("needs root to become someone else");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("test");
    fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    fs::set_permissions(
        dir.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let mut command = Command::new(copy);
    let test = "scratch::without_root_it_says_so";
    command.args(["--exact", test, "--test-threads=1"]);
    let output = command
        .env("FSAGE_TEST_ROLE", "child")
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}
