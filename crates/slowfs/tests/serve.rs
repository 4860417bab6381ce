//! A served directory behaves as the directory itself, only slower where asked.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests, which read a clock"
)]

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use fsage_core::conformance;
use fsage_host::{ColdPolicy, Confinement, HostFs, HostOptions};
use fsage_slowfs::{Mounted, Slower, Slowing, Unmounted};

/// Serves a fresh directory; `None` after saying why it cannot be.
fn served(slowing: &str) -> Option<(tempfile::TempDir, tempfile::TempDir, Mounted)> {
    if !fsage_testing::root() || !fsage_testing::fuse() {
        return None;
    }
    let (lower, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let slowing: Slowing = slowing.parse().unwrap();
    let mounted = mount(lower.path(), dir.path(), slowing).unwrap();
    Some((lower, dir, mounted))
}

fn mount(lower: &Path, dir: &Path, slowing: Slowing) -> Result<Mounted, fsage_host::HostError> {
    Mounted::mount(lower, dir, Arc::new(Slower::new(slowing)), true)
}

fn unmount(mut mounted: Mounted) {
    assert_eq!(mounted.unmount().unwrap(), Unmounted::Gone);
}

#[test]
fn it_behaves_as_a_file_system() {
    let Some((_lower, dir, mounted)) = served("") else {
        return;
    };
    let options = HostOptions {
        confinement: Confinement::Beneath,
        cold: ColdPolicy::Auto,
    };
    let fs = HostFs::open(dir.path(), options).unwrap();
    conformance::check(&fs).unwrap();
    drop(fs);
    unmount(mounted);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn what_is_done_above_is_done_beneath() {
    let Some((lower, dir, mounted)) = served("all=1.5") else {
        return;
    };
    let (above, beneath) = (dir.path(), lower.path());
    fs::create_dir(above.join("d")).unwrap();
    let name = above.join("d/a file\nwith a line");
    fs::write(&name, b"hello").unwrap();
    fs::set_permissions(&name, fs::Permissions::from_mode(0o4750)).unwrap();
    fs::hard_link(&name, above.join("link")).unwrap();
    symlink("/etc/passwd", above.join("symlink")).unwrap();
    fs::File::options()
        .write(true)
        .open(&name)
        .unwrap()
        .write_all_at(b"J", 0)
        .unwrap();
    fs::rename(&name, above.join("d/b")).unwrap();
    for i in 0..500 {
        fs::write(above.join(format!("d/f{i}")), vec![b'x'; i]).unwrap();
    }
    assert_eq!(fs::read(beneath.join("d/b")).unwrap(), b"Jello");
    let (mine, real) = (
        fs::metadata(above.join("link")).unwrap(),
        fs::metadata(beneath.join("d/b")).unwrap(),
    );
    assert_eq!((mine.mode(), mine.nlink(), mine.len()), (real.mode(), 2, 5));
    assert_eq!(mine.mtime_nsec(), real.mtime_nsec());
    // A link out of the tree is shown, not followed, by what is served.
    assert_eq!(
        fs::read_link(above.join("symlink")).unwrap(),
        fs::read_link(beneath.join("symlink")).unwrap()
    );
    let names = |dir: &Path| {
        let mut names: Vec<_> = fs::read_dir(dir.join("d"))
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(above), names(beneath));
    assert_eq!(names(above).len(), 501);
    fs::remove_dir_all(above.join("d")).unwrap();
    assert!(!beneath.join("d").exists());
    assert_eq!(fs::read(above.join("link")).unwrap(), b"Jello");
    unmount(mounted);
}

#[test]
fn only_what_is_slowed_is_slower() {
    let Some((_lower, dir, mounted)) = served("lookup=500") else {
        return;
    };
    let missing = dir.path().join("missing");
    // Names that are not there are asked for each time; the shortest of many is free of other load.
    let asked = |path: &Path| {
        let once = |_| {
            let start = Instant::now();
            assert!(fs::symlink_metadata(path).is_err());
            start.elapsed()
        };
        (0..20).map(once).min().unwrap()
    };
    let slow = asked(&missing);
    unmount(mounted);
    let Some((_lower, dir, mounted)) = served("read=500") else {
        return;
    };
    let plain = asked(&dir.path().join("missing"));
    assert!(slow > 3 * plain, "{slow:?} slowed, {plain:?} not");
    unmount(mounted);
}

#[test]
fn extended_attributes_pass_through() {
    let Some((_lower, dir, mounted)) = served("") else {
        return;
    };
    let file = dir.path().join("f");
    fs::write(&file, b"x").unwrap();
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(&file, "user.colour", b"blue", flags).unwrap();
    let mut value = vec![0; 64];
    let length = |r: Result<usize, rustix::io::Errno>| r.unwrap();
    // Without room the size is asked for; with too little of it the kernel says so.
    assert_eq!(rustix::fs::getxattr_query(&file, "user.colour"), Ok(4));
    assert!(length(rustix::fs::listxattr_query(&file)) >= 12);
    let got = length(rustix::fs::getxattr(
        &file,
        "user.colour",
        value.as_mut_slice(),
    ));
    assert_eq!(&value[..got], b"blue");
    let short = rustix::fs::getxattr(&file, "user.colour", &mut value[..2]);
    assert_eq!(short, Err(rustix::io::Errno::RANGE));
    let got = length(rustix::fs::listxattr(&file, value.as_mut_slice()));
    assert!(value[..got].windows(11).any(|w| w == b"user.colour"));
    rustix::fs::removexattr(&file, "user.colour").unwrap();
    let gone = rustix::fs::getxattr(&file, "user.colour", value.as_mut_slice());
    assert_eq!(gone, Err(rustix::io::Errno::NODATA));
    unmount(mounted);
}

#[test]
fn what_is_in_use_stays_and_can_be_taken_out_of_sight() {
    let Some((lower, dir, mut mounted)) = served("") else {
        return;
    };
    let file = fs::File::create(dir.path().join("f")).unwrap();
    assert_eq!(mounted.unmount().unwrap(), Unmounted::InUse);
    assert!(dir.path().join("f").exists());
    mounted.detach().unwrap();
    assert!(!dir.path().join("f").exists());
    // Who has it open is served all the same.
    file.write_all_at(b"still here", 0).unwrap();
    assert!(!mounted.is_over());
    drop(file);
    assert_eq!(fs::read(lower.path().join("f")).unwrap(), b"still here");
    unmount(mounted);
}

/// A close is told to who serves after it, so that the kernel may end the connection while a thread takes that call.
#[test]
fn the_last_close_ends_it_without_an_error() {
    if !fsage_testing::root() || !fsage_testing::fuse() {
        return;
    }
    for round in 0..60 {
        let Some((_lower, dir, mut mounted)) = served("") else {
            return;
        };
        let files = (0..4).map(|i| fs::File::create(dir.path().join(format!("f{i}"))).unwrap());
        let files: Vec<fs::File> = files.collect();
        mounted.detach().unwrap();
        drop(files);
        while !mounted.is_over() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let ended = mounted.unmount();
        assert_eq!(ended.unwrap(), Unmounted::Gone, "round {round}");
    }
}

#[test]
fn what_is_mounted_below_stays() {
    let Some((_lower, dir, mounted)) = served("") else {
        return;
    };
    unmount(mounted);
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("test", dir.path(), "tmpfs", flags, None).unwrap();
    let lower = tempfile::tempdir().unwrap();
    let mounted = mount(lower.path(), dir.path(), Slowing::default());
    // As umount(8) by hand.
    let by_hand = fsage_host::scratch::detach(dir.path());
    let ended = mounted.map(|mut m| m.unmount().unwrap());
    let all = fs::read_to_string("/proc/self/mounts").unwrap();
    let place = dir.path().canonicalize().unwrap().display().to_string();
    let left: Vec<&str> = all.lines().filter(|l| l.contains(&place)).collect();
    // Before anything can fail here.
    let _ = fsage_host::scratch::detach(dir.path());
    by_hand.unwrap();
    assert_eq!(ended.unwrap(), Unmounted::Gone);
    assert!(left.len() == 1 && left[0].contains("tmpfs"), "{left:?}");
}

#[test]
fn what_cannot_be_served_is_refused() {
    let Some((lower, _dir, mounted)) = served("") else {
        return;
    };
    unmount(mounted);
    let inner = lower.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let message = |lower: &Path, dir: &Path| {
        mount(lower, dir, Slowing::default())
            .unwrap_err()
            .to_string()
    };
    assert!(message(lower.path(), &inner).contains("lies within"));
    let other = tempfile::tempdir().unwrap();
    assert!(message(other.path(), lower.path()).contains("expected an empty directory"));
    assert!(message(&lower.path().join("nothing"), other.path()).contains("nothing"));
}
