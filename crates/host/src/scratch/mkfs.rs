//! Making a file system with the tools of the system.

#![allow(unsafe_code)]

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::spec::ScratchSpec;
use super::superblock;
use crate::HostError;

/// Background initialisation of inode tables and journal would run into the measurement.
const EXT_EXTENDED: &str = "lazy_itable_init=0,lazy_journal_init=0";

/// Where programs of administrators are: `su`, cron and systemd give paths without them.
const SYSTEM_DIRECTORIES: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// What was run to make a file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Made {
    /// The options, without program and device.
    pub options: String,
    /// The first line of what the program says about its version.
    pub version: String,
}

/// Runs `mkfs.KIND` on a device that fsage attached.
pub(super) fn mkfs(spec: &ScratchSpec, device: &Path) -> Result<Made, HostError> {
    let name = format!("mkfs.{}", spec.kind);
    let tool = find(&name).ok_or_else(|| missing(spec, &name))?;
    let options = options(spec);
    let mut command = Command::new(&tool);
    command
        .args(&options)
        // Whatever the options are, this is the operand.
        .arg("--")
        .arg(device)
        .stdin(Stdio::null());
    end_with_parent(&mut command);
    let line = format!("{name} {} {}", options.join(" "), device.display());
    let output = command
        .output()
        .map_err(|e| HostError::io(format!("run {line}"), e))?;
    if !output.status.success() {
        return Err(HostError::Command {
            command: line,
            status: format!("{} on an image of {} bytes", output.status, spec.size_bytes),
            output: said(&output),
        });
    }
    check_made(spec, device)?;
    Ok(Made {
        options: options.join(" "),
        version: version(&tool, &spec.kind),
    })
}

/// The end of what a program said: why it failed, where it tells that anywhere.
fn said(output: &Output) -> String {
    let streams = [&output.stderr, &output.stdout];
    let texts = streams.map(|stream| String::from_utf8_lossy(stream).trim().to_owned());
    let text = texts.into_iter().find(|text| !text.is_empty());
    let text = text.unwrap_or_else(|| "it said nothing".to_owned());
    let tail: Vec<char> = text.chars().rev().take(400).collect();
    tail.into_iter().rev().collect()
}

/// A file system of these sizes and more has an inode for so many bytes (mke2fs.conf: default, big, huge).
const EXT_INODE_RATIOS: [(u64, u64); 3] =
    [(0, 16 << 10), (4 << 40, 32 << 10), (16 << 40, 64 << 10)];
const EXT_INODE_BYTES: u64 = 256;

/// What is written of an ext file system when it is made: the tables of its inodes, all of them, so that nothing is
/// initialised behind a measurement. `None` where options say how many inodes there are, and of other kinds.
fn written(spec: &ScratchSpec, size_bytes: u64) -> Option<u64> {
    let own = |option: &String| {
        ["-N", "-i", "-I", "-T", "-t", "-E"]
            .iter()
            .any(|o| option.starts_with(o))
    };
    if !spec.kind.starts_with("ext") || spec.mkfs_options.iter().any(own) {
        return None;
    }
    let ratio = EXT_INODE_RATIOS.iter().rfind(|r| size_bytes >= r.0)?.1;
    Some(size_bytes / ratio * EXT_INODE_BYTES)
}

/// Fails where what mkfs would write has no room beneath: it would fail late, and in memory take what others need.
pub(super) fn check_room(spec: &ScratchSpec, room_bytes: u64) -> Result<(), HostError> {
    let fits = |bytes: u64| written(spec, bytes).is_none_or(|needed| needed <= room_bytes);
    if fits(spec.size_bytes) {
        return Ok(());
    }
    let most = (20..50).map(|shift| 1 << shift).rfind(|&size| fits(size));
    let mib = |bytes: u64| bytes >> 20;
    Err(HostError::Refused {
        what: format!("make {spec}"),
        why: format!(
            "mkfs.{} writes {} MiB of inodes for that size, and where it lies {} MiB are available: expected a \
             smaller size{}",
            spec.kind,
            mib(written(spec, spec.size_bytes).unwrap_or(0)),
            mib(room_bytes),
            most.map_or(String::new(), |most| format!(
                ", such as size={}M",
                mib(most)
            ))
        ),
    })
}

/// What was made must lie on this device: else the program has taken its options for something else.
fn check_made(spec: &ScratchSpec, device: &Path) -> Result<(), HostError> {
    let kind = spec.kind.as_str();
    if !superblock::KNOWN.contains(&kind) {
        return Ok(());
    }
    let failed = |e| HostError::at("read the superblock of", device, e);
    let found = std::fs::File::open(device)
        .and_then(|device| superblock::find(&device))
        .map_err(failed)?;
    match found {
        Some(found) if superblock::takes(kind, found.kind) => Ok(()),
        _ => Err(HostError::Refused {
            what: format!("use what mkfs.{kind} has made on {}", device.display()),
            why: format!("no {kind} was found there"),
        }),
    }
}

fn options(spec: &ScratchSpec) -> Vec<String> {
    let mut own: Vec<String> = match spec.kind.as_str() {
        "ext2" | "ext3" | "ext4" => vec!["-q".into(), "-F".into()],
        "xfs" | "btrfs" | "f2fs" => vec!["-q".into(), "-f".into()],
        _ => Vec::new(),
    };
    let mut given = spec.mkfs_options.clone();
    if spec.kind.starts_with("ext") {
        // mke2fs takes only its last -E.
        let extended = given
            .iter()
            .position(|o| o == "-E")
            .and_then(|at| given.get_mut(at + 1));
        match extended {
            Some(value) => *value = format!("{EXT_EXTENDED},{value}"),
            None => own.extend(["-E".to_owned(), EXT_EXTENDED.to_owned()]),
        }
    }
    own.extend(given);
    own
}

/// The program in `PATH`.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = SYSTEM_DIRECTORIES.map(PathBuf::from);
    std::env::split_paths(&path)
        .filter(|dir| !dir.as_os_str().is_empty())
        .chain(system)
        .map(|dir| dir.join(name))
        .find(|file| rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok())
}

fn missing(spec: &ScratchSpec, tool: &str) -> HostError {
    match package(&spec.kind) {
        Some(package) => HostError::MissingTool {
            tool: tool.to_owned(),
            package: package.to_owned(),
        },
        None => HostError::Spec {
            spec: spec.to_string(),
            problem: format!(
                "there is no {tool} here, expected a kind such as ext2, ext4, xfs or btrfs"
            ),
        },
    }
}

/// The Debian package that has `mkfs.KIND`; `None` for kinds that fsage does not know.
fn package(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "ext2" | "ext3" | "ext4" => "e2fsprogs",
        "xfs" => "xfsprogs",
        "btrfs" => "btrfs-progs",
        "f2fs" => "f2fs-tools",
        "vfat" | "fat" | "msdos" => "dosfstools",
        "exfat" => "exfatprogs",
        "ntfs" => "ntfs-3g",
        "jfs" => "jfsutils",
        "nilfs2" => "nilfs-tools",
        "bcachefs" => "bcachefs-tools",
        "udf" => "udftools",
        _ => return None,
    })
}

fn version(tool: &Path, kind: &str) -> String {
    let flag = if kind == "btrfs" { "--version" } else { "-V" };
    let mut command = Command::new(tool);
    end_with_parent(command.arg(flag).stdin(Stdio::null()));
    let Ok(output) = command.output() else {
        return String::new();
    };
    let text = if output.stdout.is_empty() {
        output.stderr
    } else {
        output.stdout
    };
    let text = String::from_utf8_lossy(&text);
    text.lines()
        .map(str::trim)
        .find(|l| !l.is_empty())
        .unwrap_or_default()
        .to_owned()
}

/// A kill of fsage ends the child too, and with it the child's hold on the device.
fn end_with_parent(command: &mut Command) {
    // SAFETY: prctl is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) == 0 {
                Ok(())
            } else {
                Err(std::io::Error::last_os_error())
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_whose_inodes_find_no_room_is_refused_before() {
        let check = |spec: &str, room: u64| check_room(&spec.parse().unwrap(), room);
        let (gib, mib) = (1 << 30, 1 << 20);
        // 2 GiB have 131,072 inodes of 256 bytes.
        check("ext4", 32 * mib).unwrap();
        let why = check("ext4", 32 * mib - 1).unwrap_err().to_string();
        let said = "make scratch:ext4: mkfs.ext4 writes 32 MiB of inodes for that size, and where it lies 31 MiB";
        assert!(
            why.contains(said) && why.ends_with("such as size=1024M"),
            "{why}"
        );
        // Of 99 TiB 1,622,016 thousand inodes for each 64 KiB.
        let why = check("ext2,size=99T", 24 * gib).unwrap_err().to_string();
        let words = [
            "make scratch:ext2,size=99T",
            " 405504 MiB",
            " 24576 MiB",
            "size=1048576M",
        ];
        assert!(words.iter().all(|word| why.contains(word)), "{why}");
        check("ext4,size=99T", 397 * gib).unwrap();
        // Who says how many inodes there are knows; others write little.
        check("ext4,size=99T,mkfs=-N 1000", gib).unwrap();
        check("xfs,size=99T", gib).unwrap();
    }

    #[test]
    fn background_initialisation_is_off_whatever_else_is_asked() {
        let spec: ScratchSpec = "ext4,mkfs=-E stride=4 -m 0".parse().unwrap();
        assert_eq!(
            options(&spec),
            [
                "-q",
                "-F",
                "-E",
                "lazy_itable_init=0,lazy_journal_init=0,stride=4",
                "-m",
                "0"
            ]
        );
        let spec: ScratchSpec = "ext2".parse().unwrap();
        assert!(options(&spec).contains(&EXT_EXTENDED.to_owned()));
    }
}
