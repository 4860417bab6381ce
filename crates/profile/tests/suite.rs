//! The suite on real file systems: tmpfs, and scratch ext2 on a loop device where that is possible.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use fsage_format::profile::{Environment, SystemProfile};
use fsage_host::{Confinement, HostFs, HostOptions, Scratch};
use fsage_profile::{ProfileError, ProfileRequest, Progress, run};

fn open(dir: &Path) -> HostFs {
    let options = HostOptions {
        confinement: Confinement::Trusted,
        ..HostOptions::default()
    };
    HostFs::open(dir, options).unwrap()
}

fn request(fs: &HostFs, only: &[&str], seconds: u64) -> ProfileRequest {
    ProfileRequest {
        quick: true,
        only: only.iter().map(ToString::to_string).collect(),
        max_time_ns: Some(seconds * 1_000_000_000),
        seed: 42,
        host_dir: Some(fs.dir().to_owned()),
        device: fs.device().map(|d| d.name.clone()),
        own_device: false,
    }
}

fn measure(fs: &HostFs, request: &ProfileRequest) -> SystemProfile {
    let stop = AtomicBool::new(false);
    run(request, fs, Environment::default(), &mut |_| {}, &stop).unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// A directory in memory, so that no disk's speed decides how long a test takes.
fn in_memory() -> tempfile::TempDir {
    let shm = Path::new("/dev/shm");
    if shm.is_dir() {
        tempfile::tempdir_in(shm).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    }
}

#[test]
fn what_is_asked_for_is_measured_and_nothing_is_left() {
    let dir = in_memory();
    std::fs::write(dir.path().join("mine"), "untouched").unwrap();
    let fs = open(dir.path());
    let profile = measure(
        &fs,
        &request(&fs, &["CR", "STAT", "RC4", "WF16", "RMF", "BS"], 12),
    );
    for name in [
        "EMPTY", "CR", "CR_G150", "STAT", "STAT_G10", "RC4", "WF16", "RMF4", "BS",
    ] {
        let value = profile
            .get(name)
            .unwrap_or_else(|| panic!("{name} is missing"));
        assert!(value.estimate > 0.0 && value.low <= value.high, "{value:?}");
        assert!(value.runs > 0 && !value.stop.is_empty(), "{value:?}");
        assert!(
            value.samples.len() <= 200,
            "{name} keeps {}",
            value.samples.len()
        );
    }
    // A larger read and a colder call take longer on any machine.
    let of = |name: &str| profile.get(name).unwrap().estimate;
    assert!(of("WF16") > of("RC4") / 4.0);
    assert!(of("CR") > of("EMPTY"));
    assert!(
        profile.get("MKDIR").is_none(),
        "not asked for and nothing depends on it"
    );
    profile.check(Path::new("profile")).unwrap();
    assert_eq!(profile.measurement.seed, 42);
    assert_eq!(names(dir.path()), ["mine"]);
    assert_eq!(
        std::fs::read_to_string(dir.path().join("mine")).unwrap(),
        "untouched"
    );
}

#[test]
fn what_cannot_be_measured_is_absent_with_its_reason() {
    let dir = in_memory();
    let fs = open(dir.path());
    if fs.device().is_some() {
        fsage_testing::not_run("needs a file system in memory");
        return;
    }
    let profile = measure(&fs, &request(&fs, &["RD4", "RFN", "LUN_NC"], 3));
    for name in ["RD4", "RFN", "LUN_NC"] {
        assert!(profile.get(name).is_none());
        let why = profile.why_absent(name).unwrap();
        assert!(why.contains("cold"), "{why}");
    }
    assert!(names(dir.path()).is_empty());
}

#[test]
fn a_stopped_measurement_keeps_what_it_has_and_cleans_up() {
    let dir = in_memory();
    let fs = open(dir.path());
    let stop = AtomicBool::new(false);
    let mut stop_at_third = |p: Progress<'_>| {
        if p.done == 3 {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let request = request(&fs, &["lookup", "calls"], 20);
    let profile = run(
        &request,
        &fs,
        Environment::default(),
        &mut stop_at_third,
        &stop,
    )
    .unwrap();
    assert!(profile.get("EMPTY").is_some());
    assert_eq!(profile.why_absent("RENAME"), Some("interrupted"));
    assert!(
        profile
            .incomplete_reason()
            .is_some_and(|r| r.starts_with("interrupted after"))
    );
    // Those that are not begun any more are not looked at either: that takes a busy machine seconds.
    let procedures = &profile.measurement.procedures;
    assert_eq!(procedures.len(), 4 + 1, "{procedures:?}");
    assert!(names(dir.path()).is_empty());
}

#[test]
fn what_is_at_work_is_not_at_its_last_step_and_nothing_is_guessed_at_its_start() {
    let dir = in_memory();
    let fs = open(dir.path());
    let mut said = Vec::new();
    let stop = AtomicBool::new(false);
    let mut keep =
        |p: Progress<'_>| said.push((p.done, p.total, p.metric.to_owned(), p.left.eta_s));
    let request = request(&fs, &["CRQ", "CR"], 4);
    run(&request, &fs, Environment::default(), &mut keep, &stop).unwrap();
    assert!(said.iter().all(|s| s.0 < s.1), "{said:?}");
    assert_eq!(said[0].3, None, "by the time that it is given alone");
    let (done, total, last, _) = said.last().unwrap();
    assert_eq!(
        (done + 1, last.as_str()),
        (*total, "removing what was made")
    );
    // No more is said to be left than the time that it may take.
    assert!(
        said.iter().all(|s| s.3.is_none_or(|eta_s| eta_s < 5.0)),
        "{said:?}"
    );
}

#[test]
fn a_short_time_is_kept_and_goes_to_what_is_worth_most() {
    let dir = in_memory();
    let fs = open(dir.path());
    let profile = measure(&fs, &request(&fs, &[], 2));
    let times = profile.measurement.elapsed_ns as f64 / 2e9;
    assert!(times < 2.0, "{times:.1} times as long as asked");
    assert!(profile.get("EMPTY").is_some() && profile.metrics.len() > 3);
    assert_eq!(profile.why_absent("SC_RR_D8"), Some(fsage_profile::NO_TIME));
    // It ran to its end all the same, and what the last removal took is told with what was not measuring.
    assert!(profile.is_whole());
    let measured = &profile.measurement;
    let last = measured.procedures.last().unwrap();
    assert_eq!(last.name, "clean-up");
    assert!(last.elapsed_ns > 0 && measured.prepared_ns >= Some(last.elapsed_ns));
    assert!(names(dir.path()).is_empty());
}

/// What the files that stand will take to remove is no reason to measure nothing more: they go while there is time.
#[test]
fn a_short_time_is_not_kept_for_a_cleaning_up_that_is_short() {
    let dir = in_memory();
    let fs = open(dir.path());
    let profile = measure(&fs, &request(&fs, &[], 10));
    let missing: Vec<&str> = ["CR", "CLOSEW", "RENAME", "RMF4", "RMF16", "MKDIR"]
        .into_iter()
        .filter(|name| profile.get(name).is_none())
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    // The wait for another second would have taken what ten other procedures had.
    assert_eq!(profile.why_absent("CRP"), Some(fsage_profile::NO_TIME));
    assert!(names(dir.path()).is_empty());
}

#[test]
fn a_full_disk_is_left_as_it_was_found() {
    let scratch = match Scratch::create(&"scratch:ext2,size=8M".parse().unwrap()) {
        Ok(scratch) => scratch,
        Err(error) => {
            fsage_testing::not_run(format_args!("needs a scratch file system: {error}"));
            return;
        }
    };
    {
        let fs = open(scratch.dir());
        let filler = vec![b'x'; 64 << 10];
        let mut number = 0;
        // Room for a few blocks is left: enough to begin, too little to go on.
        while std::fs::write(scratch.dir().join(format!("filler{number}")), &filler).is_ok() {
            number += 1;
        }
        std::fs::remove_file(scratch.dir().join("filler0")).unwrap();
        let before = names(scratch.dir());
        let request = request(&fs, &["CR", "RMF", "WK", "FSY", "RD", "LUN_NC", "RDIR"], 10);
        let profile = measure(&fs, &request);
        assert!(profile.get("EMPTY").is_some());
        assert!(
            !profile.absent.is_empty(),
            "nothing was absent on a full disk"
        );
        assert!(profile.absent.iter().all(|a| !a.reason.is_empty()));
        assert_eq!(names(scratch.dir()), before);
    }
    scratch.close().unwrap();
}

const NOBODY: u32 = 65534;
const CHILD: &str = "FSAGE_PROFILE_ORDINARY_USER";

/// Runs in the process that the next test starts without privileges.
fn as_ordinary_user(dir: &Path) {
    let fs = open(dir);
    let profile = measure(&fs, &request(&fs, &["CR", "OPEN", "RFN", "LUN_NC"], 8));
    assert!(profile.get("CR").is_some() && profile.get("OPEN").is_some());
    assert!(
        profile.why_absent("LUN_NC").is_some(),
        "names cannot be made cold without root"
    );
    assert!(names(dir).is_empty());
}

#[test]
fn an_ordinary_user_can_profile_a_directory() {
    if let Some(dir) = std::env::var_os(CHILD) {
        return as_ordinary_user(Path::new(&dir));
    }
    let dir = in_memory();
    if !rustix::process::geteuid().is_root() {
        return as_ordinary_user(dir.path());
    }
    std::os::unix::fs::chown(dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    // The test's own program may lie where nobody else may look.
    let program = dir
        .path()
        .parent()
        .unwrap()
        .join(format!("fsage-test-{}", std::process::id()));
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let status = Command::new(&program)
        .args(["--exact", "suite::an_ordinary_user_can_profile_a_directory"])
        .env(CHILD, dir.path())
        .current_dir("/")
        .uid(NOBODY)
        .gid(NOBODY)
        .status();
    std::fs::remove_file(&program).unwrap();
    assert!(status.unwrap().success());
}

#[test]
fn an_unknown_metric_is_an_error_before_anything_happens() {
    let dir = in_memory();
    let fs = open(dir.path());
    let stop = AtomicBool::new(false);
    let request = request(&fs, &["CHMODE"], 1);
    let error = run(&request, &fs, Environment::default(), &mut |_| {}, &stop).unwrap_err();
    match &error {
        ProfileError::Unknown { near, .. } => assert_eq!(near[0], "CHMOD"),
        other => panic!("{other}"),
    }
    assert!(names(dir.path()).is_empty());
}

#[test]
fn a_directory_that_cannot_be_written_is_an_error() {
    let fs = open(Path::new("/proc"));
    let stop = AtomicBool::new(false);
    let error = run(
        &request(&fs, &["CR"], 1),
        &fs,
        Environment::default(),
        &mut |_| {},
        &stop,
    )
    .unwrap_err();
    assert!(error.to_string().contains("working directory"), "{error}");
}
