//! Tests that cannot run here say so, and are counted.
//!
//! A test that lacks what it needs calls [`not_run`] with the reason and returns. The reason is appended
//! to the file that [`FILE`] names; `cargo xtask test` names one for each test binary, and tells a test
//! that is in it from one that passed.

use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::panic::Location;

/// The environment variable that names the file of what did not run: lines of a test's name, a tab, and
/// its reason.
pub const FILE: &str = "FSAGE_NOT_RUN";

/// Says that the test that calls this does not run here, or not wholly, and why: `needs root`.
#[track_caller]
pub fn not_run(reason: impl Display) {
    let reason = reason.to_string().replace(['\n', '\t'], " ");
    let thread = std::thread::current();
    // The harness names threads by their tests; there is none with a single one.
    let test = match thread.name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => Location::caller().to_string(),
    };
    #[allow(
        clippy::print_stderr,
        reason = "whoever runs one test without the wrapper reads it"
    )]
    {
        eprintln!("not run: {reason}");
    }
    if let Some(file) = std::env::var_os(FILE) {
        let line = format!("{test}\t{reason}\n");
        let written = File::options()
            .create(true)
            .append(true)
            .open(&file)
            .and_then(|mut file| file.write_all(line.as_bytes()));
        assert!(written.is_ok(), "{}: {written:?}", file.display());
    }
}

/// Whether something that a test needs is there; if not, says that the test does not run.
#[track_caller]
pub fn needs(there: bool, what: impl Display) -> bool {
    if !there {
        not_run(format_args!("needs {what}"));
    }
    there
}

/// Whether this is root; if not, says that the test does not run.
#[track_caller]
pub fn root() -> bool {
    needs(rustix::process::geteuid().is_root(), "root")
}

/// Whether a program is found; if not, says that the test does not run.
#[track_caller]
pub fn tool(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = std::env::split_paths(&path).any(|dir| dir.join(name).is_file());
    needs(there, name)
}

/// Whether file systems can be served by a program; if not, says that the test does not run.
#[track_caller]
pub fn fuse() -> bool {
    // On some machines it is there for root alone.
    let opened = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/fuse");
    needs(opened.is_ok(), "/dev/fuse")
}
