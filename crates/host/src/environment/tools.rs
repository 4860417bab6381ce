//! Which programs had a part in a measurement, and their versions.
//!
//! Only programs that are known to answer are asked for their version: asking an unknown one may do
//! anything. Of the others the package manager is asked.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;

use fsage_format::result::environment::ToolRecord;

use crate::signals;

/// Programs that answer `--version` and do nothing else then.
const ANSWER: [&str; 52] = [
    "awk", "bash", "bsdtar", "btrfs", "bzip2", "cargo", "cat", "cc", "clang", "cmake", "cp",
    "cpio", "curl", "dd", "diff", "du", "find", "fio", "g++", "gcc", "git", "go", "grep", "gzip",
    "head", "ld", "ln", "ls", "make", "mkdir", "mv", "ninja", "perl", "python3", "rm", "rmdir",
    "rsync", "rustc", "sed", "sort", "sqlite3", "strace", "sync", "tail", "tar", "tee", "touch",
    "truncate", "wc", "xargs", "xz", "zstd",
];

/// The tools beneath every measurement: the shell and the C library.
pub(super) fn basic() -> Vec<ToolRecord> {
    let mut all: Vec<ToolRecord> = tool("sh").into_iter().collect();
    if let Some(version) = first_line(Path::new("getconf"), &["GNU_LIBC_VERSION"]) {
        all.push(ToolRecord {
            name: "libc".into(),
            version: Some(version),
            ..ToolRecord::default()
        });
    }
    all
}

/// A program of `PATH`; `None` if there is none of that name.
pub fn tool(name: &str) -> Option<ToolRecord> {
    let path = find(name)?;
    let version = if ANSWER.contains(&name) {
        first_line(&path, &["--version"])
    } else {
        None
    };
    let real = path.canonicalize().unwrap_or_else(|_| path.clone());
    Some(ToolRecord {
        name: name.to_owned(),
        version: version.or_else(|| package(&real)),
        size_bytes: std::fs::metadata(&real).ok().map(|m| m.len()),
        path: Some(real.display().to_string()),
    })
}

/// The programs that a shell command starts, each once, as far as it shows: the first words of its
/// parts. What they start in turn is not seen.
pub fn tools_of(command: &str) -> Vec<ToolRecord> {
    let mut names: Vec<&str> = Vec::new();
    for part in command.split([';', '|', '&', '(', ')', '\n', '{', '}', '`']) {
        let keyword = |word: &&str| {
            matches!(
                *word,
                "do" | "then"
                    | "else"
                    | "if"
                    | "while"
                    | "until"
                    | "!"
                    | "exec"
                    | "time"
                    | "command"
            )
        };
        let assignment = |word: &&str| {
            word.split_once('=').is_some_and(|(name, _)| {
                name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            })
        };
        let mut words = part.split_ascii_whitespace();
        let first = words.find(|word| !keyword(word) && !assignment(word));
        if let Some(name) = first.map(|word| word.trim_matches(['"', '\'']))
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    names.into_iter().filter_map(tool).collect()
}

fn find(name: &str) -> Option<PathBuf> {
    let runs = |file: &Path| {
        file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok()
    };
    if name.contains('/') {
        let path = PathBuf::from(name);
        return runs(&path).then_some(path);
    }
    crate::scratch::find_program(name).filter(|file| runs(file))
}

/// The package that a program belongs to, with its version, as Debian's or Red Hat's manager says.
fn package(path: &Path) -> Option<String> {
    let path = path.display().to_string();
    // Where /bin is /usr/bin, packages may know a file by either name.
    let short = path.strip_prefix("/usr").unwrap_or(&path).to_owned();
    for file in [format!("/usr{short}"), short] {
        let Some(owner) = first_line(Path::new("dpkg-query"), &["-S", &file]) else {
            continue;
        };
        let name = owner.split(':').next().unwrap_or_default();
        let format = "-f=${binary:Package} ${Version} (Debian package)";
        if let Some(found) = first_line(Path::new("dpkg-query"), &["-W", format, name]) {
            return Some(found);
        }
    }
    first_line(Path::new("rpm"), &["-qf", &path])
}

/// The first line that a program writes, if it ends well.
pub(super) fn first_line(program: &Path, arguments: &[&str]) -> Option<String> {
    let text = output(program, arguments)?;
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.to_owned())
}

/// All that a program writes to stdout, if it ends well. None is started once a signal has asked for the end: several
/// take seconds on a busy machine.
pub(super) fn output(program: &Path, arguments: &[&str]) -> Option<String> {
    if signals::stop_flag().load(Ordering::Relaxed) {
        return None;
    }
    let output = Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C")
        .current_dir("/")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_s_programs_are_found_and_not_run() {
        let dir = tempfile::tempdir().unwrap();
        let trap = dir.path().join("trap.sh");
        let ran = dir.path().join("ran");
        std::fs::write(&trap, format!("#!/bin/sh\ntouch {}\n", ran.display())).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&trap, mode).unwrap();
        let command = format!(
            "CC=gcc ls -l | wc -l && {} --help; no-such-program-here x; ls again",
            trap.display()
        );
        let found = tools_of(&command);
        let names: Vec<&str> = found.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names, ["ls", "wc", trap.to_str().unwrap()]);
        assert!(
            found[0].version.as_ref().unwrap().contains("ls"),
            "{found:?}"
        );
        assert!(found[0].size_bytes > Some(0) && found[0].path.is_some());
        assert_eq!(found[2].version, None);
        assert!(!ran.exists(), "an unknown program was run");
    }

    #[test]
    fn the_list_of_programs_is_sorted() {
        assert!(ANSWER.is_sorted());
    }
}
