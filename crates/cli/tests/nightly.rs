//! The nightly snapshot as `docs/aging.md` has it, copied and run; and what a snapshot leaves out, by name.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "processes are waited for"
)]

use crate::common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Ran, names, run, run_command, temp};
use fsage_testing::{root, tool};

const PAGE: &str = "../../docs/aging.md";

/// The page's blocks that begin so, without what sets them in.
fn blocks(begin: &str) -> Vec<String> {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE)).unwrap();
    let page = page.replace("\n   ", "\n");
    let fenced = page.split("\n```").skip(1).step_by(2);
    let inside = fenced.filter_map(|block| Some(block.split_once('\n')?.1.to_owned() + "\n"));
    inside.filter(|block| block.starts_with(begin)).collect()
}

/// A home with the script and fsage where the page says; something in it only its owner may read.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(temp());
        open(home.0.path(), 0o777);
        for dir in [".local", ".local/bin", ".local/state"] {
            fs::create_dir(home.path(dir)).unwrap();
            open(&home.path(dir), 0o777);
        }
        fs::write(home.path("file"), "x").unwrap();
        let [script] = blocks("#!/bin/sh\n# fsage-nightly").try_into().unwrap();
        fs::write(home.path(".local/bin/fsage-nightly"), script).unwrap();
        open(&home.path(".local/bin/fsage-nightly"), 0o755);
        let binary = env!("CARGO_BIN_EXE_fsage");
        fs::copy(binary, home.path(".local/bin/fsage")).unwrap();
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The line of the page's crontab, as cron runs it: by `sh`, with few variables.
    fn night(&self, user: Option<u32>) -> Ran {
        let [line] = blocks("30 3 * * * $HOME").try_into().unwrap();
        let line = line.trim().strip_prefix("30 3 * * * ").unwrap();
        let mut command = match user {
            Some(id) => {
                let mut command = Command::new("setpriv");
                let ids = [format!("--reuid={id}"), format!("--regid={id}")];
                command.args(ids).args(["--clear-groups", "sh"]);
                command
            }
            None => Command::new("sh"),
        };
        command.args(["-c", line]).current_dir("/").env_clear();
        command
            .env("HOME", self.0.path())
            .env("PATH", "/usr/bin:/bin");
        run_command(&mut command)
    }

    fn days(&self) -> Vec<String> {
        let mut days = names(&self.path(".local/state/fsage"));
        days.sort_unstable();
        days
    }
}

fn open(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

#[test]
fn the_nightly_example_works_as_it_is_written() {
    let home = Home::new();
    home.night(None).exits(0);
    let first = home.days();
    let [day] = first.as_slice() else {
        panic!("{first:?}");
    };
    let state = home.path(".local/state/fsage");
    let kept = fs::read(state.join(day)).unwrap();
    // Another on the same day, by hand or not, spares the first.
    fs::write(home.path("later"), "y").unwrap();
    home.night(None).exits(0);
    assert_eq!(home.days(), first);
    assert_eq!(fs::read(state.join(day)).unwrap(), kept);
    // A night that was cut short is no day, and in nobody's way.
    fs::rename(state.join(day), state.join("day-2000-01-01.fss")).unwrap();
    fs::write(state.join("tonight.part"), &kept[..kept.len() / 2]).unwrap();
    home.night(None).exits(0);
    assert_eq!(home.days(), ["day-2000-01-01.fss", day]);
    let shown = run(&state, ["show", day]).exits(0).text();
    assert!(!shown.contains("INCOMPLETE"), "{shown}");
}

#[test]
fn a_directory_that_may_not_be_read_stops_no_night() {
    if !root() || !tool("setpriv") {
        return;
    }
    let home = Home::new();
    fs::create_dir(home.path("closed")).unwrap();
    open(&home.path("closed"), 0o700);
    let said = home.night(Some(65534)).exits(3).stderr;
    assert!(said.ends_with("EACCES)\n1 could not be read\n"), "{said}");
    assert!(said.starts_with("not read: closed: "), "{said}");
    let first = home.days();
    let state = home.path(".local/state/fsage");
    fs::rename(state.join(&first[0]), state.join("day-2000-01-01.fss")).unwrap();
    home.night(Some(65534)).exits(3);
    assert_eq!(home.days(), ["day-2000-01-01.fss", &first[0]]);
}

#[test]
fn a_unit_of_systemd_takes_what_the_script_ends_with() {
    let [unit] = blocks("# /etc/systemd/system/fsage-nightly.service")
        .try_into()
        .unwrap();
    assert!(unit.contains("\nSuccessExitStatus=3\n"), "{unit}");
    let [cron] = blocks("# /etc/cron.d/fsage").try_into().unwrap();
    let line = "/usr/local/bin/fsage-nightly /home /var/lib/fsage\n";
    assert!(unit.contains(line) && cron.contains(line), "{unit}{cron}");
}

#[test]
fn what_is_mounted_below_is_left_out_by_name() {
    if !root() || !tool("unshare") {
        return;
    }
    let dir = temp();
    fs::create_dir_all(dir.path().join("tree/sub/mount")).unwrap();
    let binary = env!("CARGO_BIN_EXE_fsage");
    let line =
        format!("mount -t tmpfs none tree/sub/mount; exec {binary} -q snapshot tree -o t.fss");
    let mut command = Command::new("unshare");
    command
        .args(["-m", "sh", "-c", &line])
        .current_dir(dir.path());
    let ran = run_command(&mut command).exits(0);
    let said = [
        "another mount or subvolume, left out: sub/mount",
        "1 other mount left out",
        "",
    ];
    assert_eq!(ran.stderr, said.join("\n"));
    let shown = run(dir.path(), ["show", "t.fss"]).exits(0).text();
    assert!(shown.contains("\n1 other mount left out\n"), "{shown}");
}
