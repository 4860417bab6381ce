//! Walking whole trees.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

use crate::common;

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use fsage_core::FileType;
use fsage_format::snapshot::SnapshotEntry;
use fsage_host::snapshot::{SnapshotSummary, walk};

/// A server that never answers, as one that was stopped or killed: who looks at its mount waits.
#[test]
fn a_mount_whose_server_is_dead_is_not_touched() {
    use std::os::fd::AsRawFd;
    use std::sync::mpsc;
    use std::time::Duration;

    if !fsage_testing::root() {
        return;
    }
    let Ok(fuse) = fs::File::options().read(true).write(true).open("/dev/fuse") else {
        fsage_testing::not_run("needs /dev/fuse");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    fs::create_dir_all(tree.join("below/dead end")).unwrap();
    fs::write(tree.join("below/file"), "x").unwrap();
    let options = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0",
        fuse.as_raw_fd()
    );
    let (reported, tells) = mpsc::channel();
    let walked = std::thread::spawn(move || {
        fsage_host::isolate().unwrap();
        let options = std::ffi::CString::new(options).unwrap();
        let at = tree.join("below/dead end");
        let flags = rustix::mount::MountFlags::NODEV | rustix::mount::MountFlags::NOSUID;
        rustix::mount::mount("fsage-test", &at, "fuse", flags, options.as_c_str()).unwrap();
        let link = tree.with_file_name("link");
        symlink(&tree, &link).unwrap();
        let found = [collect(&tree), collect(&link)];
        rustix::mount::unmount(&at, rustix::mount::UnmountFlags::DETACH).unwrap();
        reported.send(()).unwrap();
        found
    });
    let answered = tells.recv_timeout(Duration::from_mins(1));
    // This ends the connection, and whoever waits for it.
    drop(fuse);
    assert!(answered.is_ok(), "the walk waits for the dead server");
    for (entries, summary) in walked.join().unwrap() {
        assert_eq!(summary.other_mounts, 1, "{summary:?}");
        let names: Vec<&[u8]> = entries.iter().map(|e| e.path.as_slice()).collect();
        assert_eq!(names, [&b""[..], b"below", b"below/file"]);
    }
}

fn collect(dir: &Path) -> (Vec<SnapshotEntry>, SnapshotSummary) {
    let mut entries = Vec::new();
    let summary = walk(dir, &mut |entry| {
        entries.push(entry);
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(summary.entries, entries.len() as u64);
    (entries, summary)
}

fn by_path(entries: &[SnapshotEntry]) -> BTreeMap<String, &SnapshotEntry> {
    entries
        .iter()
        .map(|e| (String::from_utf8_lossy(&e.path).into_owned(), e))
        .collect()
}

fn tree(root: &Path) {
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::write(root.join("a/file"), vec![1; 100_000]).unwrap();
    fs::write(root.join("a/b/empty"), "").unwrap();
    fs::hard_link(root.join("a/file"), root.join("a/b/second")).unwrap();
    symlink("../some/where", root.join("a/link")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, root.join("fifo"), rustix::fs::Mode::RUSR).unwrap();
    let sparse = fs::File::create(root.join("sparse")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, &[1; 4096], 1 << 20).unwrap();
    sparse.sync_all().unwrap();
    fs::File::open(root.join("a/file"))
        .unwrap()
        .sync_all()
        .unwrap();
}

fn check_tree(root: &Path) -> SnapshotSummary {
    tree(root);
    let (entries, summary) = collect(root);
    let found = by_path(&entries);
    assert_eq!(entries[0].path, b"", "the root is first");
    for path in [
        "a",
        "a/file",
        "a/b",
        "a/b/empty",
        "a/b/second",
        "a/link",
        "fifo",
        "sparse",
    ] {
        let entry = found
            .get(path)
            .unwrap_or_else(|| panic!("{path} is missing"));
        let stat = fs::symlink_metadata(root.join(path)).unwrap();
        assert_eq!(
            (entry.ino, entry.mode),
            (stat.ino(), stat.mode() & 0o7777),
            "{path}"
        );
        assert_eq!(
            (entry.size_bytes, entry.links),
            (stat.size(), stat.nlink() as u32),
            "{path}"
        );
        assert_eq!(entry.allocated_bytes, stat.blocks() * 512, "{path}");
        assert_eq!(
            entry.mtime_ns,
            stat.mtime() * 1_000_000_000 + stat.mtime_nsec(),
            "{path}"
        );
    }
    assert_eq!(
        found["a/link"].link_target.as_deref(),
        Some(b"../some/where".as_slice())
    );
    assert_eq!(found["fifo"].file_type, FileType::Other);
    // A directory before what it holds.
    let place = |path: &str| {
        entries
            .iter()
            .position(|e| e.path == path.as_bytes())
            .unwrap()
    };
    assert!(place("a") < place("a/b") && place("a/b") < place("a/b/empty"));
    assert_eq!(summary.further_links, 1);
    assert_eq!(
        (summary.vanished, summary.unreadable, summary.other_mounts),
        (0, 0, 0)
    );
    if summary.has_extents {
        let (first, second) = (&found["a/file"].extents, &found["a/b/second"].extents);
        assert!(first.is_empty() != second.is_empty(), "extents stand once");
        let sparse = &found["sparse"].extents;
        assert_eq!(sparse.len(), 1, "{sparse:?}");
        assert_eq!(sparse[0].logical_bytes, 1 << 20);
        assert!(sparse[0].length_bytes >= 4096 && sparse[0].physical_bytes > 0);
        let covered: u64 = first.iter().chain(second).map(|e| e.length_bytes).sum();
        assert!(covered >= 100_000);
    }
    summary
}

#[test]
fn on_real_file_systems() {
    for spec in common::KINDS {
        let Some(scratch) = common::scratch(spec) else {
            return;
        };
        let summary = check_tree(scratch.dir());
        assert!(summary.has_extents, "{spec}");
    }
}

#[test]
fn on_tmpfs_without_extents() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
        fsage_testing::not_run("needs /dev/shm");
        return;
    };
    assert!(!check_tree(dir.path()).has_extents);
}

#[test]
fn other_mounts_are_left_out() {
    let Some(scratch) = common::scratch("ext4,size=32M") else {
        return;
    };
    let (entries, summary) = collect(scratch.dir().parent().unwrap());
    let name = scratch.dir().file_name().unwrap().as_encoded_bytes();
    assert!(summary.other_mounts >= 1);
    assert!(entries.iter().all(|e| !e.path.starts_with(name)));
}

#[test]
fn what_vanishes_meanwhile_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["1", "2", "3"] {
        fs::create_dir(dir.path().join(name)).unwrap();
        fs::write(dir.path().join(name).join("file"), "x").unwrap();
    }
    let mut seen = 0;
    let summary = walk(dir.path(), &mut |entry| {
        seen += 1;
        // The names of the root are read by now.
        if entry.path.is_empty() {
            return ControlFlow::Continue(());
        }
        for name in ["1", "2", "3"] {
            let _ = fs::remove_dir_all(dir.path().join(name));
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    // Two names and the directory that was listed but not yet opened.
    assert_eq!((seen, summary.vanished, summary.unreadable), (2, 3, 0));
    assert_eq!(summary.end().vanished, 3);
}

#[test]
fn what_cannot_be_read_is_counted_and_named() {
    let dir = tempfile::tempdir().unwrap();
    // A name longer than a kernel buffer's worth of path is reached step by step.
    let deep = "d".repeat(200);
    let mut at = rustix::fs::open(
        dir.path(),
        rustix::fs::OFlags::PATH,
        rustix::fs::Mode::empty(),
    )
    .unwrap();
    for _ in 0..40 {
        rustix::fs::mkdirat(&at, &deep, rustix::fs::Mode::RWXU).unwrap();
        let flags = rustix::fs::OFlags::PATH;
        at = rustix::fs::openat(&at, &deep, flags, rustix::fs::Mode::empty()).unwrap();
    }
    let (entries, summary) = collect(dir.path());
    assert_eq!((entries.len(), summary.unreadable), (41, 0));
    assert!(walk(&dir.path().join("none"), &mut |_| ControlFlow::Continue(())).is_err());
}

#[test]
fn the_sink_ends_the_walk() {
    let dir = tempfile::tempdir().unwrap();
    for name in 0..10 {
        fs::write(dir.path().join(name.to_string()), "").unwrap();
    }
    let mut left = 3;
    let summary = walk(dir.path(), &mut |_| {
        left -= 1;
        if left == 0 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })
    .unwrap();
    assert!(summary.stopped);
    assert_eq!(summary.entries, 3);
}
