//! Hostile names: what a stranger's trace may hold never leads out of the root.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

use crate::common;

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use common::{BENEATH, HELD, TRUSTED};
use fsage_core::{Access, Errno, FileSystem, OpenFlags, SetAttr};
use fsage_host::{HostFs, HostOptions};

/// A root `inside` beside a file `secret` and a directory `outside`, with links that try to leave.
fn hostile(options: HostOptions) -> (tempfile::TempDir, HostFs) {
    let top = tempfile::tempdir().unwrap();
    let inside = top.path().join("inside");
    fs::create_dir_all(inside.join("dir")).unwrap();
    fs::create_dir(top.path().join("outside")).unwrap();
    fs::write(top.path().join("secret"), "secret").unwrap();
    fs::write(inside.join("own"), "own").unwrap();
    for (target, name) in [
        ("/", "to-root"),
        ("..", "to-parent"),
        ("../secret", "to-secret"),
        ("../outside", "to-outside"),
        ("/proc/self/root", "to-proc-root"),
        ("/proc/self/cwd", "to-proc-cwd"),
        ("dir/../../secret", "through-dir"),
    ] {
        symlink(target, inside.join(name)).unwrap();
    }
    let secret = top.path().join("secret");
    symlink(&secret, inside.join("to-absolute")).unwrap();
    let host = HostFs::open(&inside, options).unwrap();
    (top, host)
}

/// Names that lead to the secret or out of the root if they are followed.
fn names(top: &Path) -> Vec<Vec<u8>> {
    let absolute = top.join("secret").into_os_string().into_encoded_bytes();
    let through_root = [b"to-root".as_slice(), &absolute].concat();
    let through_proc = [b"to-proc-root".as_slice(), &absolute].concat();
    let mut names: Vec<Vec<u8>> = vec![absolute, through_root, through_proc];
    for name in [
        "../secret",
        "dir/../../secret",
        "to-secret",
        "to-absolute",
        "through-dir",
        "to-parent/secret",
        "to-outside/../secret",
        "./to-parent/./secret",
        "//../secret",
        "/../secret",
    ] {
        names.push(name.as_bytes().to_vec());
    }
    names
}

fn refused<T: std::fmt::Debug>(what: &str, name: &[u8], result: Result<T, Errno>) {
    let refusals = [Errno::EXDEV, Errno::ELOOP, Errno::ENOENT, Errno::ENOTDIR];
    let name = String::from_utf8_lossy(name);
    match result {
        Err(e) if refusals.contains(&e) => {}
        other => panic!("{what} of {name}: {other:?}"),
    }
}

#[test]
fn nothing_outside_is_read() {
    for options in [BENEATH, HELD] {
        check_nothing_outside_is_read(options);
    }
}

fn check_nothing_outside_is_read(options: HostOptions) {
    let (top, host) = hostile(options);
    for name in names(top.path()) {
        refused("open", &name, host.open(&name, OpenFlags::READ, 0));
        refused("stat", &name, host.stat(&name));
        refused("access", &name, host.access(&name, Access::Exists));
    }
    for dir in [
        "..",
        "../",
        "to-root",
        "to-parent",
        "to-outside",
        "to-proc-root",
        "to-proc-cwd",
    ] {
        refused(
            "list",
            dir.as_bytes(),
            host.open(dir.as_bytes(), OpenFlags::DIRECTORY, 0),
        );
    }
}

#[test]
fn nothing_outside_is_changed() {
    for options in [BENEATH, HELD] {
        check_nothing_outside_is_changed(options);
    }
}

fn check_nothing_outside_is_changed(options: HostOptions) {
    let (top, host) = hostile(options);
    let before = fs::metadata(top.path().join("secret")).unwrap();
    for name in names(top.path()) {
        refused("open", &name, host.open(&name, OpenFlags::WRITE, 0));
        refused("truncate", &name, host.truncate(&name, 0));
        refused("chmod", &name, host.set_attr(&name, SetAttr::Mode(0o777)));
        refused("chown", &name, host.set_attr(&name, SetAttr::Owner(1, 1)));
        refused("utimens", &name, host.set_attr(&name, SetAttr::Times(1, 1)));
        // These take the last name as it is: a link that is inside may be removed or linked, what
        // it leads to may not.
        if !name.starts_with(b"to-secret") && !name.starts_with(b"to-abs") && name != b"through-dir"
        {
            refused("unlink", &name, host.unlink(&name));
            refused("rename", &name, host.rename(&name, b"stolen"));
            refused("rename over", &name, host.rename(b"own", &name));
            refused("link", &name, host.link(&name, b"stolen"));
        }
    }
    let after = fs::metadata(top.path().join("secret")).unwrap();
    assert_eq!(fs::read(top.path().join("secret")).unwrap(), b"secret");
    assert_eq!(
        (
            before.mode(),
            before.mtime(),
            before.uid(),
            before.nlink(),
            before.ctime_nsec()
        ),
        (
            after.mode(),
            after.mtime(),
            after.uid(),
            after.nlink(),
            after.ctime_nsec()
        )
    );
}

#[test]
fn nothing_outside_is_made() {
    for options in [BENEATH, HELD] {
        check_nothing_outside_is_made(options);
    }
}

fn check_nothing_outside_is_made(options: HostOptions) {
    let (top, host) = hostile(options);
    let absolute = top
        .path()
        .join("outside/new")
        .into_os_string()
        .into_encoded_bytes();
    let dangling = "to-new";
    symlink("../outside/new", top.path().join("inside").join(dangling)).unwrap();
    for name in [
        "../outside/new",
        "to-outside/new",
        "to-parent/outside/new",
        "dir/../../outside/new",
    ]
    .map(|n| n.as_bytes().to_vec())
    .into_iter()
    .chain([absolute])
    {
        refused(
            "create",
            &name,
            host.open(&name, OpenFlags::CREATE_NEW, 0o644),
        );
        refused("mkdir", &name, host.mkdir(&name, 0o755));
        refused("symlink", &name, host.symlink(b"x", &name));
        refused("link", &name, host.link(b"own", &name));
        refused("rename", &name, host.rename(b"own", &name));
    }
    let through = OpenFlags {
        create: true,
        ..OpenFlags::WRITE
    };
    refused("create", b"to-new", host.open(b"to-new", through, 0o644));
    assert_eq!(fs::read_dir(top.path().join("outside")).unwrap().count(), 0);
    assert!(top.path().join("inside/own").exists());
}

#[test]
fn the_parent_of_the_root_stays() {
    for options in [BENEATH, HELD] {
        check_the_parent_of_the_root_stays(options);
    }
}

fn check_the_parent_of_the_root_stays(options: HostOptions) {
    let (top, host) = hostile(options);
    for name in ["..", "../", "dir/../..", "to-parent/"] {
        let name = name.as_bytes();
        assert!(host.rmdir(name).is_err());
        assert!(host.unlink(name).is_err());
        assert!(host.rename(name, b"stolen").is_err());
        assert!(host.rename(b"dir", name).is_err());
        assert!(host.mkdir(name, 0o755).is_err());
    }
    assert!(top.path().join("inside/dir").is_dir());
}

#[test]
fn links_that_stay_inside_work() {
    for options in [BENEATH, HELD] {
        check_links_that_stay_inside_work(options);
    }
}

fn check_links_that_stay_inside_work(options: HostOptions) {
    let (top, host) = hostile(options);
    symlink("dir/../own", top.path().join("inside/good")).unwrap();
    let handle = host.open(b"good", OpenFlags::READ, 0).unwrap();
    let mut buffer = [0; 8];
    assert_eq!(host.pread(handle, &mut buffer, 0), Ok(3));
    host.close(handle).unwrap();
    assert_eq!(host.stat(b"dir/../own").unwrap().size_bytes, 3);
    host.set_attr(b"good", SetAttr::Mode(0o600)).unwrap();
    assert_eq!(host.stat(b"own").unwrap().mode, 0o600);
    assert_eq!(host.readlink(b"to-secret").unwrap(), b"../secret");
}

#[test]
fn magic_links_of_proc_are_not_followed() {
    // Root is /proc itself: `self/root` and `self/cwd` lead out without any `..`.
    let Ok(host) = HostFs::open(Path::new("/proc"), BENEATH) else {
        fsage_testing::not_run("needs /proc");
        return;
    };
    for name in ["self/root/etc", "self/cwd/", "self/fd/0", "self/exe"] {
        let result = host.open(name.as_bytes(), OpenFlags::READ, 0);
        assert_eq!(result, Err(Errno::ELOOP), "{name}");
    }
}

#[test]
fn trusted_names_are_relative_too() {
    let dir = tempfile::tempdir().unwrap();
    let host = HostFs::open(dir.path(), TRUSTED).unwrap();
    assert_eq!(
        host.open(b"/etc/passwd", OpenFlags::READ, 0),
        Err(Errno::EXDEV)
    );
    assert_eq!(host.mkdir(b"/tmp", 0o755), Err(Errno::EXDEV));
    assert_eq!(host.truncate(b"/etc/passwd", 0), Err(Errno::EXDEV));
}

#[test]
fn a_directory_that_is_kept_open_is_the_one_of_that_name() {
    let dir = tempfile::tempdir().unwrap();
    let host = HostFs::open(dir.path(), HELD).unwrap();
    let make = |name: &[u8]| {
        let handle = host.open(name, OpenFlags::CREATE_NEW, 0o644).unwrap();
        host.close(handle).unwrap();
    };
    for name in ["a", "a/b", "a/b/c"] {
        host.mkdir(name.as_bytes(), 0o755).unwrap();
    }
    make(b"a/b/c/one");
    host.rename(b"a/b", b"moved").unwrap();
    assert_eq!(host.unlink(b"a/b/c/one"), Err(Errno::ENOENT));
    host.mkdir(b"a/b", 0o755).unwrap();
    make(b"a/b/two");
    assert!(dir.path().join("a/b/two").exists() && dir.path().join("moved/c/one").exists());
    host.unlink(b"a/b/two").unwrap();
    host.rmdir(b"a/b").unwrap();
    host.mkdir(b"a/b", 0o755).unwrap();
    make(b"a/b/three");
    // More than are kept open at once.
    for number in 0..1000 {
        let name = format!("a/d{number}");
        host.mkdir(name.as_bytes(), 0o755).unwrap();
        make(format!("{name}/file").as_bytes());
    }
    assert!(dir.path().join("a/d0/file").exists());
    // Through a link nothing is kept.
    host.symlink(b"a", b"link").unwrap();
    make(b"link/four");
    host.unlink(b"link").unwrap();
    host.symlink(b"moved", b"link").unwrap();
    make(b"link/five");
    assert!(dir.path().join("moved/five").exists());
}
