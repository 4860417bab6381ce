//! What comes from a stranger, a plan or a specification, names no device, file or command that nobody has
//! allowed.

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
use std::os::unix::fs::FileExt;

use common::{names, run, scratch, temp, tool};

/// A loop device that is somebody else's.
struct Foreign(String);

impl Foreign {
    fn of(image: &std::path::Path) -> Self {
        let output = std::process::Command::new("losetup")
            .args(["--find", "--show"])
            .arg(image)
            .output()
            .unwrap();
        assert!(output.status.success());
        Self(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        drop(
            std::process::Command::new("losetup")
                .args(["-d", &self.0])
                .status(),
        );
    }
}

#[test]
fn no_option_reaches_another_device() {
    if !scratch() || !tool("losetup") {
        return;
    }
    let dir = temp();
    let dir = dir.path();
    let image = dir.join("image");
    let whole: Vec<u8> = (0..64u32 << 20).map(|at| (at % 251) as u8).collect();
    fs::write(&image, &whole).unwrap();
    let other = Foreign::of(&image);
    let other = other.0.as_str();
    fs::create_dir(dir.join("t")).unwrap();
    let options = [
        format!("ext4,size=64M,mkfs={other} -L"),
        format!("ext4,size=64M,mkfs={other}"),
        format!("ext4,size=64M,mkfs=-J device={other}"),
        format!("ext4,size=64M,mkfs=-d {}", dir.display()),
        format!("xfs,size=300M,mkfs=-l logdev={other}"),
        format!("xfs,size=300M,mkfs=-r rtdev={other}"),
        format!("btrfs,size=128M,mkfs=--rootdir={}", dir.display()),
        format!("btrfs,size=128M,mkfs={other}"),
        format!("ext4,size=64M,mount=journal_path={other}"),
        format!("xfs,size=300M,mount=logdev={other}"),
        format!("btrfs,size=128M,mount=device={other}"),
        "ext4,size=64M,mount=errors=panic".to_owned(),
        "overlay,mount=lowerdir=/etc".to_owned(),
    ];
    for option in &options {
        let target = format!("scratch:{option}");
        run(dir, ["run", "cmd:true", &target]).fails(1, &["scratch specification", "expected"]);
    }
    let mut now = vec![0; whole.len()];
    let device = fs::File::open(other).unwrap();
    device.read_exact_at(&mut now, 0).unwrap();
    assert!(now == whole, "the other device was written to");
    // What says how the file system is to be still does.
    let good = "scratch:ext4,size=64M,mkfs=-O ^has_journal -m 0 -L data,mount=noatime";
    let command = format!(
        "cmd: device=$(df --output=source . | tail -n 1); cd {}; \
         dumpe2fs -h $device > made; grep \"^$device \" /proc/self/mounts > mounted",
        dir.display()
    );
    run(dir, ["run", &command, good]).exits(0);
    let made = fs::read_to_string(dir.join("made")).unwrap();
    let value = |key: &str| {
        let line = made.lines().find_map(|line| line.strip_prefix(key));
        line.unwrap_or_else(|| panic!("{key}: {made}")).trim()
    };
    assert_eq!(value("Filesystem volume name:"), "data");
    assert_eq!(value("Reserved block count:"), "0");
    let size: u64 = value("Block count:").parse().unwrap();
    let block: u64 = value("Block size:").parse().unwrap();
    assert_eq!(size * block, 64 << 20);
    let features = value("Filesystem features:");
    assert!(features.contains("extent") && !features.contains("has_journal"));
    let mounted = fs::read_to_string(dir.join("mounted")).unwrap();
    let words: Vec<&str> = mounted.split_whitespace().collect();
    assert_eq!(words[2], "ext4", "{mounted}");
    assert!(words[3].split(',').any(|o| o == "noatime"), "{mounted}");
}

const COMMANDS: &str = "runs = 1\ncache = 'as found'\n[[target]]\nspec = 't'\n[[workload]]\nname = 'w'\n\
                        spec = 'cmd: touch ../../ran'\n";

#[test]
fn a_plan_runs_no_command_that_was_not_allowed() {
    let dir = temp();
    let dir = dir.path();
    fs::create_dir(dir.join("t")).unwrap();
    fs::write(dir.join("plan.toml"), COMMANDS).unwrap();
    let said = run(dir, ["bench", "plan.toml"]).fails(2, &["--allow-commands", "touch ../../ran"]);
    assert!(!said.stderr.contains("--allow-paths"), "{}", said.stderr);
    run(dir, ["validate", "plan.toml"]).exits(1);
    assert_eq!(names(dir), ["plan.toml", "t"]);
    run(
        dir,
        ["bench", "plan.toml", "--allow-commands", "-o", "kept"],
    )
    .exits(0);
    assert!(dir.join("ran").exists());
    // What was kept may have come from a stranger as well.
    run(dir, ["bench", "--resume", "-o", "kept"]).fails(2, &["--allow-commands"]);
    // Nor is it a stranger's word from where a plan may use paths.
    let record = fs::read_to_string(dir.join("kept/runs.jsonl")).unwrap();
    let base = format!("\"base\":{:?}", dir.canonicalize().unwrap());
    assert!(record.contains(&base), "{record}");
    for word in ["\"base\":\"/\"", "\"base\":\"\""] {
        fs::write(dir.join("kept/runs.jsonl"), record.replace(&base, word)).unwrap();
        let line = ["bench", "--resume", "--allow-commands", "-o", "kept"];
        run(dir, line).fails(2, &["--allow-paths"]);
    }
    // A command of the user's own needs no leave.
    run(dir, ["bench", "--runs", "1", "--", "true"]).exits(0);
    let setup =
        "[[target]]\nspec='t'\n[[workload]]\nspec='postmark:files=5'\nsetup='touch ../../set'\n";
    fs::write(dir.join("plan.toml"), setup).unwrap();
    for verb in ["bench", "validate"] {
        run(dir, [verb, "plan.toml"]).fails(2, &["--allow-commands", "touch ../../set"]);
    }
    assert!(!dir.join("set").exists());
}

#[test]
fn a_plan_uses_no_path_that_was_not_allowed() {
    let dir = temp();
    let dir = dir.path();
    fs::create_dir_all(dir.join("plans")).unwrap();
    fs::create_dir(dir.join("other")).unwrap();
    let other = dir.join("other").display().to_string();
    let spec = |spec: &str| {
        let text = format!("[[target]]\nspec='{spec}'\n[[workload]]\nspec='postmark:files=5'\n");
        fs::write(dir.join("plans/plan.toml"), text).unwrap();
    };
    for target in [
        other.clone(),
        format!("scratch:ext4,on=file:{other}"),
        format!("slow:read=2:{other}"),
        // Nor is it opened before: what is not there is not missed.
        format!("mem:{other}/none.toml"),
        format!("scratch:ext4,on=disk:{other}/none.toml"),
    ] {
        spec(&target);
        for verb in ["bench", "validate"] {
            run(dir, [verb, "plans/plan.toml"]).fails(2, &["--allow-paths", "other"]);
        }
    }
    spec(&format!("mem:{other}/none.toml"));
    for verb in ["bench", "validate"] {
        run(dir, [verb, "plans/plan.toml", "--allow-paths"])
            .fails(1, &["none.toml", "No such file"]);
    }
    // A link leads where it leads.
    std::os::unix::fs::symlink(&other, dir.join("plans/link")).unwrap();
    std::os::unix::fs::symlink("../other/not-yet", dir.join("plans/dangling")).unwrap();
    for target in ["plans/link", "plans/dangling"] {
        spec(target);
        run(dir, ["bench", "plans/plan.toml"]).fails(2, &["--allow-paths"]);
    }
    // Nor may it lead there when what it names has come.
    for workload in [
        "plans/link/script.f",
        "plans/link/not-yet/script.f",
        "plans/dangling",
    ] {
        let text = format!("[[target]]\nspec='plans'\n[[workload]]\nspec='wml:{workload}'\n");
        fs::write(dir.join("plans/plan.toml"), text).unwrap();
        for verb in ["bench", "validate"] {
            let line = [verb, "plans/plan.toml", "-o", "out"];
            run(dir, line).fails(2, &["--allow-paths"]);
        }
    }
    assert!(names(&dir.join("other")).is_empty() && !dir.join("out").exists());
    fs::create_dir(dir.join("plans/t")).unwrap();
    fs::write(
        dir.join("plans/plan.toml"),
        "runs=1\ncache='as found'\n[[target]]\nspec='plans/t'\n[[workload]]\nspec='postmark:files=5,transactions=5'\n",
    )
    .unwrap();
    run(dir, ["bench", "plans/plan.toml"]).exits(0);
}

#[test]
fn a_plan_larger_than_anybody_runs_is_refused() {
    let dir = temp();
    let dir = dir.path();
    fs::create_dir(dir.join("t")).unwrap();
    let target = "[[target]]\nspec='t'\n";
    let workload = "[[workload]]\nspec='postmark:files=5'\n";
    let many: Vec<String> = (1..=1001).map(|n| n.to_string()).collect();
    let values = many[..40].join(", ");
    let plans: [(String, &[&str], &str); 4] = [
        (
            format!("{target}{}", workload.repeat(1001)),
            &["bench", "validate"],
            "1001 workloads, expected at most 1000",
        ),
        (
            format!("{}{workload}", target.repeat(1001)),
            &["bench", "validate"],
            "1001 targets, expected at most 1000",
        ),
        (
            format!(
                "{target}{workload}[workload.sweep]\ntransactions = [{}]\n",
                many.join(", ")
            ),
            &["bench"],
            "transactions has 1001 values, expected at most 1000",
        ),
        (
            format!("{target}{workload}[workload.sweep]\nread = [{values}]\nwrite = [{values}]\n"),
            &["bench"],
            "1600 combinations with the values of write, expected at most 1000",
        ),
    ];
    for (plan, verbs, said) in &plans {
        fs::write(dir.join("plan.toml"), plan).unwrap();
        for verb in *verbs {
            run(dir, [verb, "plan.toml", "-o", "out"]).fails(1, &["plan.toml", said]);
        }
    }
    assert_eq!(names(dir), ["plan.toml", "t"]);
}

#[test]
fn what_never_ends_is_no_input() {
    let dir = temp();
    let dir = dir.path();
    fs::create_dir(dir.join("t")).unwrap();
    // Its length says that it is empty.
    std::os::unix::fs::symlink("/dev/zero", dir.join("zero.toml")).unwrap();
    let zero = "/dev/zero";
    let lines: [(&[&str], &str); 11] = [
        (&["show", zero], "not a regular file"),
        (
            &["import", zero, "--from", "strace", "-o", "o.fst"],
            "it is a device",
        ),
        (
            &["import", zero, "--from", "hbench", "-o", "o.fst"],
            "it is a device",
        ),
        (
            &["import", zero, "--from", "fio-iolog", "-o", "o.fst"],
            "not a regular file",
        ),
        (
            &["import", zero, "--from", "hbench", "-o", "o.fsp"],
            "it is a device",
        ),
        (&["disk", "show", "zero.toml"], "it goes on"),
        (
            &["run", "wml:/dev/zero", "--to-trace", "o.fst"],
            "text file",
        ),
        (&["run", "postmark", "mem:zero.toml"], "zero.toml"),
        (&["bench", zero], "another format"),
        (&["validate", zero], "another format"),
        (&["predict", zero, "--on", zero], "/dev/zero"),
    ];
    for (line, said) in lines {
        let ran = run(dir, line);
        assert!(matches!(ran.code(), 1 | 2), "{line:?}: {}", ran.stderr);
        let code = ran.code();
        ran.fails(code, &[said]);
    }
    run(dir, ["run", "postmark:files=2", "--to-trace", "w.fst"]).exits(0);
    for endless in [zero, "/dev/urandom"] {
        let line = ["anonymize", "w.fst", "--key-file", endless, "-o", "o.fst"];
        run(dir, line).fails(1, &["the key", "it goes on"]);
    }
    assert_eq!(names(dir), ["t", "w.fst", "zero.toml"]);
}

/// A pipe that text never stops coming through filled memory.
#[test]
fn a_model_that_never_ends_is_not_exported() {
    let dir = temp();
    let dir = dir.path();
    let line = "ulimit -v 1000000; yes '# x' | \"$0\" export /dev/stdin --to fio -o o.fio";
    let mut command = std::process::Command::new("sh");
    command.args(["-c", line, env!("CARGO_BIN_EXE_fsage")]);
    let ran = common::run_command(command.current_dir(dir));
    ran.fails(1, &["/dev/stdin", "at most 16777216 bytes"]);
    assert_eq!(names(dir), [""; 0]);
}
