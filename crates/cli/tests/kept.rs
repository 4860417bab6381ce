//! What stood under a name stays until the new file is whole, and what is a part says so.

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

use std::path::Path;
use std::process::Command;

use common::{profile, root, run, run_command, small_trace, temp, tool};
use fsage_format::foreign::csv::COLUMNS;
use fsage_format::snapshot::{SnapshotEnd, SnapshotMeta, SnapshotReader, SnapshotWriter};
use serde_json::Value;

/// Makes a file system in memory, fills it but for the file that is to be replaced, and writes there.
const ON_A_FULL_DISK: &str = r#"
mount -t tmpfs -o size=64k,nr_inodes=16 fsage-test full
printf %s "$FORMER" > "full/$OUT"
cat /dev/zero > full/fill 2> /dev/null
"$@"
echo "ended with $?" >&2
cat "full/$OUT"
ls full >&2
"#;

/// What is asked for, and the file that it would replace.
const ON_FULL: [(&str, &str); 10] = [
    (
        "o.json",
        "run postmark:files=9,transactions=20 . -o full/o.json",
    ),
    (
        "o.fst",
        "run postmark:files=9,transactions=20 --to-trace full/o.fst",
    ),
    ("o.json", "replay small.fst . -o full/o.json"),
    ("o.fss", "snapshot tree -o full/o.fss"),
    ("o.fst", "anonymize small.fst --key-file key -o full/o.fst"),
    ("o.fss", "anonymize tree.fss --key-file key -o full/o.fss"),
    ("o.fst", "import s.txt --from strace -o full/o.fst"),
    ("o.fss", "import tree.txt --from hbench -o full/o.fss"),
    ("o.txt", "export small.fst --to csv -o full/o.txt"),
    ("o.fst", "predict small.fst --on EXT4 --annotate full/o.fst"),
];

#[test]
fn a_full_disk_leaves_the_former_file() {
    if !root() || !tool("unshare") {
        return;
    }
    let dir = temp();
    let dir = dir.path();
    small_trace(dir);
    std::fs::write(dir.join("key"), "a key of sixteen bytes or more").unwrap();
    std::fs::create_dir(dir.join("full")).unwrap();
    run(dir, ["snapshot", "tree", "-o", "tree.fss"]).exits(0);
    run(
        dir,
        ["export", "small.fst", "--to", "strace", "-o", "s.txt"],
    )
    .exits(0);
    run(
        dir,
        ["export", "tree.fss", "--to", "hbench", "-o", "tree.txt"],
    )
    .exits(0);
    let ext4 = profile("ext4").display().to_string();
    let columns: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
    let csv = columns.join(",");
    for (out, line) in ON_FULL {
        let line = line.replace("EXT4", &ext4);
        // What fsage would replace: a file of the same kind.
        let former = match out {
            "o.txt" => &csv,
            "o.json" if line.starts_with("run") => "{\"format\":\"fsage run\"}",
            "o.json" => "{\"format\":\"fsage replay\"}",
            _ => "PAR1FSGPIECE and damage",
        };
        let said = run_command(
            Command::new("unshare")
                .args([
                    "-m",
                    "--propagation",
                    "private",
                    "sh",
                    "-c",
                    ON_A_FULL_DISK,
                    "sh",
                ])
                .arg(env!("CARGO_BIN_EXE_fsage"))
                .args(line.split(' '))
                .env("OUT", out)
                .env("FORMER", former)
                .current_dir(dir),
        );
        let stderr = &said.stderr;
        assert!(stderr.contains("ended with 1"), "{line}: {stderr}");
        assert!(
            stderr.contains(out) && stderr.contains("No space"),
            "{line}: {stderr}"
        );
        assert!(said.text().ends_with(former), "{line}: {}", said.text());
        let left = stderr.lines().rev().take(2).collect::<Vec<_>>();
        assert_eq!(left, [out, "fill"], "{line}: something else stays");
    }
}

/// Writes a snapshot of a part of a tree.
fn part(file: &Path) {
    let meta = SnapshotMeta {
        root: "/somewhere".to_owned(),
        ..SnapshotMeta::default()
    };
    let end = SnapshotEnd {
        stopped: Some("interrupted".to_owned()),
        ..SnapshotEnd::default()
    };
    SnapshotWriter::create(file, meta)
        .unwrap()
        .finish(end)
        .unwrap();
}

#[test]
fn a_part_of_a_snapshot_is_shown_as_that_and_used_by_nobody() {
    let dir = temp();
    let dir = dir.path();
    small_trace(dir);
    std::fs::write(dir.join("key"), "a key of sixteen bytes or more").unwrap();
    run(dir, ["snapshot", "tree", "-o", "tree.fss"]).exits(0);
    let whole = std::fs::read(dir.join("tree.fss")).unwrap();
    std::fs::write(dir.join("cut.fss"), &whole[..whole.len() - 100]).unwrap();
    part(&dir.join("part.fss"));
    let ext4 = profile("ext4").display().to_string();
    for (file, why) in [
        (
            "part.fss",
            "before the whole tree was recorded (interrupted)",
        ),
        ("cut.fss", "the snapshot has no end"),
    ] {
        let shown = run(dir, ["show", file, "--json"]).exits(3);
        assert!(shown.stderr.contains(why), "{}", shown.stderr);
        run(dir, ["show", file]).exits(3);
        let predict = ["predict", "small.fst", "--on", &ext4, "--snapshot", file];
        run(dir, predict).fails(1, &[file, why, "--allow-lossy"]);
        let replay = ["replay", "small.fst", ".", "--snapshot", file];
        run(dir, replay).fails(1, &[file, why, "--allow-lossy"]);
        let export = ["export", file, "--to", "hbench", "-o", "o.txt"];
        run(dir, export).fails(1, &[file, why, "--allow-lossy"]);
        let hide = ["anonymize", file, "--key-file", "key", "-o", "hidden.fss"];
        run(dir, hide).exits(3);
        let hidden = SnapshotReader::open(&dir.join("hidden.fss")).unwrap();
        assert!(!hidden.loss().is_none(), "{file} became whole");
    }
    let allowed = [
        "predict",
        "small.fst",
        "--on",
        &ext4,
        "--snapshot",
        "cut.fss",
    ];
    run(dir, allowed.into_iter().chain(["--allow-lossy"])).exits(0);
}

/// What of a prediction does not name anything.
fn figures(mut prediction: Value) -> Value {
    prediction.as_object_mut().unwrap().remove("warnings");
    for target in prediction["targets"].as_array_mut().unwrap() {
        target.as_object_mut().unwrap().remove("warnings");
    }
    prediction
}

#[test]
fn a_prediction_from_hidden_names_is_the_same() {
    let dir = temp();
    let dir = dir.path();
    small_trace(dir);
    std::fs::write(dir.join("key"), "a key of sixteen bytes or more").unwrap();
    run(dir, ["snapshot", "tree", "-o", "small.fss"]).exits(0);
    let mut corpus = vec!["small".to_owned()];
    for (name, spec) in [
        ("postmark", "postmark:files=40,transactions=200"),
        ("small_seed", "postmark:files=200,transactions=500,seed=7"),
    ] {
        run(dir, ["run", spec, "--to-trace", &format!("{name}.fst")]).exits(0);
        corpus.push(name.to_owned());
    }
    // One of a machine with other processors than the profile's.
    let traced = [
        "trace",
        "-o",
        "shell.fst",
        "--",
        "sh",
        "-c",
        "cat tree/* > /dev/null; ls tree > list",
    ];
    run(dir, traced).exits(0);
    corpus.push("shell".to_owned());
    let (ext4, xfs) = (
        profile("ext4").display().to_string(),
        profile("xfs").display().to_string(),
    );
    for name in corpus {
        let predict = |trace: &str, snapshot: Option<&str>| {
            let mut line = vec!["predict", trace, "--on", &ext4, "--on", &xfs, "--json"];
            line.extend(snapshot.into_iter().flat_map(|s| ["--snapshot", s]));
            figures(run(dir, line).exits(0).json())
        };
        let trace = format!("{name}.fst");
        let hide = |from: &str, to: &str| {
            run(dir, ["anonymize", from, "--key-file", "key", "-o", to]).exits(0);
        };
        hide(&trace, "hidden.fst");
        assert_eq!(predict(&trace, None), predict("hidden.fst", None), "{name}");
        if name == "small" {
            hide("small.fss", "hidden.fss");
            let plain = predict(&trace, Some("small.fss"));
            assert_eq!(plain, predict("hidden.fst", Some("hidden.fss")), "{name}");
        }
    }
}
