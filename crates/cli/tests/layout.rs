//! `fsage layout`, `snapshot --previous`, and classic snapshots.

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
use std::path::Path;

use common::{run, temp};
use fsage_format::snapshot::{SnapshotEntry, SnapshotReader};
use serde_json::Value;

/// A day's classic snapshot: two files, the second of them in pieces as it is told.
fn day(dir: &Path, name: &str, taken: u64, blocks: &str) {
    let text = format!(
        "# taken {taken}\n# block_bytes 8192\n# root /home\n# host s\n# file_system ffs\n# inodes_per_group 100\n\
         # blocks_per_group 1000\n# first_block 0\n2 1 10 1 512\n3 1 20 0 32768 10-13\n104 2 30 0 32768 {blocks}\n"
    );
    let file = format!("{name}.txt");
    fs::write(dir.join(&file), text).unwrap();
    let out = format!("{name}.fss");
    run(dir, ["import", &file, "--from", "classic", "-o", &out]).exits(0);
}

fn json(dir: &Path, args: &[&str]) -> Value {
    run(dir, args.iter().chain(&["--json"])).exits(0).json()
}

const DAY: u64 = 86_400;

fn days(dir: &Path) {
    day(dir, "real-1", DAY, "1020-1023");
    day(dir, "real-2", 2 * DAY, "1020-1021 1030-1031");
    day(dir, "real-3", 3 * DAY, "20 1030 22 24");
    day(dir, "made-1", DAY, "1020-1023");
    day(dir, "made-2", 2 * DAY, "1020-1023");
    day(dir, "made-3", 3 * DAY, "20 22-24");
}

#[test]
fn snapshots_over_time_are_scored_and_held_against_others() {
    let dir = temp();
    let dir = dir.path();
    days(dir);
    let one = json(dir, &["layout", "real-3.fss"]);
    let layout = &one["layouts"][0];
    assert_eq!(layout["score"]["counted_blocks"], 6);
    assert_eq!(layout["score"]["optimal_blocks"], 3);
    assert_eq!(layout["score"]["value"], 0.5);
    assert_eq!(
        (&layout["files"], &layout["extents"]),
        (&2.into(), &5.into())
    );
    // Inode 104 is of group 1, block 20 of group 0.
    assert_eq!(layout["split"]["split"], 1);
    assert_eq!(layout["by_size"][0]["up_to_bytes"], 32768);
    let line = [
        "layout",
        "real-1.fss",
        "real-2.fss",
        "real-3.fss",
        "--against",
        "made-1.fss",
        "--against",
        "made-2.fss",
        "--against",
        "made-3.fss",
        "--svg",
        "days.svg",
        "--by-size",
    ];
    let all = json(dir, &line);
    let of = |side: &str, i: usize| all[side][i]["score"]["value"].as_f64().unwrap();
    let scores = [0, 1, 2].map(|i| (of("layouts", i), of("against", i)));
    let sixth: f64 = 1.0 / 6.0;
    assert_eq!(scores, [(1.0, 1.0), (5.0 / 6.0, 1.0), (0.5, 5.0 / 6.0)]);
    let rms = ((sixth * sixth + 4.0 * sixth * sixth) / 3.0).sqrt();
    let distance = all["score_rms_distance"].as_f64().unwrap();
    assert!((distance - rms).abs() < 1e-9, "{distance} {rms}");
    let svg = fs::read_to_string(dir.join("days.svg")).unwrap();
    assert!(
        svg.starts_with("<svg") && svg.matches("<circle").count() == 8,
        "{svg}"
    );
    let text = run(dir, line).exits(0).text();
    for said in [
        "real-2.fss",
        "0.833",
        "+0.167",
        "+0.333",
        "root mean square",
        "32 KiB",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[test]
fn snapshots_are_held_against_simulated_days() {
    let dir = temp();
    let dir = dir.path();
    days(dir);
    // Day 1 had no operations: what day 0 left is there still.
    let applied = r#"{"format": "fsage age apply", "version": 1, "days": [
        {"day": 0, "counted_blocks": 10, "optimal_blocks": 9}, {"day": 2, "counted_blocks": 8, "optimal_blocks": 6}]}"#;
    fs::write(dir.join("applied.json"), applied).unwrap();
    let line = [
        "layout",
        "real-1.fss",
        "real-2.fss",
        "real-3.fss",
        "--against",
        "applied.json",
    ];
    let all = json(dir, &line);
    let of = |i: usize| all["against"][i]["score"]["value"].to_string();
    assert_eq!([of(0), of(1), of(2)], ["0.9", "0.9", "0.75"]);
    // Of one alone it is the state in the end, which is what a target or its image has; by size too, where it was noted.
    let class = r#""by_size": [{"up_to_bytes": 32768, "files": 1, "extents": 1,
        "score": {"value": 0.25, "counted_blocks": 4, "optimal_blocks": 1}}], "days""#;
    fs::write(
        dir.join("sized.json"),
        applied.replacen("\"days\"", class, 1),
    )
    .unwrap();
    let one = [
        "layout",
        "real-3.fss",
        "--against",
        "sized.json",
        "--by-size",
    ];
    assert_eq!(json(dir, &one)["against"][0]["day"], 2);
    let text = run(dir, one).exits(0).text();
    let row = text.lines().find(|line| line.contains("32 KiB")).unwrap();
    assert!(row.contains("0.250"), "{text}");
    // Made from these snapshots, though one after another, it tells which day each of them ends.
    let taken = |i: usize| all["layouts"][i]["taken_unix_ns"].as_u64().unwrap();
    let night = |day, i| format!(r#"{{"day": {day}, "taken_unix_ns": {}}}"#, taken(i));
    let nights = [night(0, 0), night(1, 1), night(2, 2)].join(", ");
    let made = format!(r#""made": {{"nights": [{nights}]}}, "days""#);
    fs::write(
        dir.join("applied.json"),
        applied.replacen("\"days\"", &made, 1),
    )
    .unwrap();
    for (name, day, score) in [
        ("real-1", 0, "0.9"),
        ("real-2", 1, "0.9"),
        ("real-3", 2, "0.75"),
    ] {
        let file = format!("{name}.fss");
        let one = json(dir, &["layout", &file, "--against", "applied.json"]);
        assert_eq!(one["against"][0]["day"], day);
        assert_eq!(one["against"][0]["score"]["value"].to_string(), score);
    }
    let two = run(
        dir,
        [
            "layout",
            "real-1.fss",
            "real-3.fss",
            "--against",
            "applied.json",
        ],
    );
    let text = two.exits(0).text();
    let last = text.lines().find(|line| line.contains("real-3")).unwrap();
    assert!(last.split_whitespace().any(|word| word == "2"), "{text}");
    fs::write(dir.join("applied.json"), "{}").unwrap();
    run(dir, line).fails(1, &["applied.json", "days"]);
}

#[test]
fn scores_of_blocks_of_another_size_are_told_and_not_compared() {
    let dir = temp();
    let dir = dir.path();
    days(dir);
    let applied = |more: &str| {
        let text = format!(
            r#"{{"format": "fsage age apply", "version": 1, {more} "days": [
            {{"day": 0, "counted_blocks": 10, "optimal_blocks": 9}}, {{"day": 1, "counted_blocks": 8, "optimal_blocks": 6}}]}}"#
        );
        fs::write(dir.join("applied.json"), text).unwrap();
    };
    let line = "layout real-1.fss real-2.fss --against applied.json --svg days.svg";
    let line: Vec<&str> = line.split(' ').collect();
    applied(r#""block_bytes": 1024,"#);
    let all = json(dir, &line);
    assert_eq!(all["score_rms_distance"], Value::Null);
    let apart = &all["not_comparable"];
    assert_eq!(
        (
            &apart["block_bytes"],
            &apart["against_block_bytes"],
            &apart["pairs"]
        ),
        (&8192.into(), &1024.into(), &2.into())
    );
    let text = run(dir, &line).exits(0).text();
    for said in ["caution: not comparable", "8 KiB", "1 KiB"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(
        !text.contains("root mean square") && !text.contains("-0."),
        "{text}"
    );
    // Of the same size, and where an older result does not tell it.
    for more in [r#""block_bytes": 8192,"#, ""] {
        applied(more);
        let all = json(dir, &line);
        assert!(all["score_rms_distance"].is_f64(), "{all}");
        assert_eq!(all.get("not_comparable"), None);
    }
}

#[test]
fn snapshots_that_are_no_course_of_days_are_refused() {
    let dir = temp();
    let dir = dir.path();
    days(dir);
    run(dir, ["layout", "real-2.fss", "real-1.fss"]).fails(
        1,
        &[
            "real-1.fss: it was taken before real-2.fss",
            "expected the order of time",
        ],
    );
    run(dir, ["snapshot", ".", "-o", "here.fss"]).exits(0);
    run(dir, ["layout", "real-1.fss", "here.fss"]).fails(
        1,
        &[
            "here.fss: it is of",
            "expected snapshots of one file system",
        ],
    );
    run(
        dir,
        [
            "layout",
            "real-1.fss",
            "--against",
            "made-1.fss",
            "--against",
            "made-2.fss",
        ],
    )
    .fails(2, &["--against is given 2 times for 1 target"]);
    run(dir, ["layout", "real-1.fss", "--svg", "real-1.fss"])
        .fails(2, &["real-1.fss would be read and written over"]);
    run(dir, ["layout", "none"]).fails(1, &["none"]);
    run(dir, ["layout", "mem:fast"]).fails(1, &["mem:fast", "no directory on this machine"]);
    fs::write(dir.join("bad.fss"), "no snapshot").unwrap();
    run(dir, ["layout", "bad.fss"]).fails(1, &["bad.fss", "expected a"]);
    fs::write(dir.join("bad.txt"), "3 1 20 0 32768 13-10\n").unwrap();
    run(
        dir,
        ["import", "bad.txt", "--from", "classic", "-o", "not.fss"],
    )
    .fails(1, &["bad.txt", "line 1", "expected FIRST-LAST"]);
    run(
        dir,
        ["import", "real-1.txt", "--from", "classic", "-o", "a.fst"],
    )
    .fails(2, &["expected --output NAME.fss"]);
    // A cut snapshot is told as far as it is whole.
    let whole = fs::read(dir.join("here.fss")).unwrap();
    fs::write(dir.join("cut.fss"), &whole[..whole.len() - 1]).unwrap();
    let said = run(dir, ["layout", "cut.fss"]).exits(3);
    assert!(said.stderr.contains("no end"), "{}", said.stderr);
}

/// All of a snapshot but when files were read.
fn entries(file: &Path) -> Vec<SnapshotEntry> {
    let mut reader = SnapshotReader::open(file).unwrap();
    let mut entries = Vec::new();
    while reader.next_batch(&mut entries).unwrap() > 0 {}
    for entry in &mut entries {
        entry.atime_ns = 0;
    }
    entries
}

#[test]
fn a_previous_snapshot_tells_what_has_not_changed_and_nothing_else() {
    let dir = temp();
    let dir = dir.path();
    let tree = dir.join("tree");
    fs::create_dir_all(tree.join("below")).unwrap();
    let begun = std::time::Instant::now();
    for n in 0..40 {
        fs::write(tree.join(format!("below/{n}")), vec![1; 20_000]).unwrap();
    }
    rustix::fs::sync();
    // What is not older than the kernel's clock tells apart is read anew.
    let young = || {
        json(
            dir,
            &[
                "snapshot",
                "tree",
                "--previous",
                "old.fss",
                "-o",
                "young.fss",
            ],
        )
    };
    run(dir, ["snapshot", "tree", "-o", "old.fss"]).exits(0);
    let quick = begun.elapsed().as_secs() < 2;
    assert!(young()["unchanged"] == 0 || !quick);
    std::thread::sleep(std::time::Duration::from_millis(2500));
    run(dir, ["snapshot", "tree", "-o", "old.fss"]).exits(0);
    fs::write(tree.join("below/7"), vec![2; 20_000]).unwrap();
    fs::remove_file(tree.join("below/8")).unwrap();
    fs::write(tree.join("below/8"), vec![2; 20_000]).unwrap();
    fs::rename(tree.join("below/9"), tree.join("nine")).unwrap();
    rustix::fs::sync();
    let since = young();
    let has_birth = fs::symlink_metadata(&tree).unwrap().created().is_ok();
    let files = since["unchanged"].as_u64().unwrap();
    // Three files and both directories have changed; a file system may lack times of birth or extents.
    assert_eq!(
        files,
        if has_birth && since["has_extents"] == true {
            37
        } else {
            0
        }
    );
    run(dir, ["snapshot", "tree", "-o", "whole.fss"]).exits(0);
    let [young, whole] = ["young.fss", "whole.fss"].map(|file| entries(&dir.join(file)));
    assert_eq!(young, whole, "the same as a whole one");
}

#[test]
fn a_previous_snapshot_is_of_the_same_tree() {
    let dir = temp();
    let dir = dir.path();
    fs::create_dir(dir.join("tree")).unwrap();
    run(dir, ["snapshot", "tree", "-o", "old.fss"]).exits(0);
    let other = dir.join("other");
    fs::create_dir(&other).unwrap();
    run(
        dir,
        ["snapshot", "other", "--previous", "old.fss", "-o", "x.fss"],
    )
    .fails(
        1,
        &[
            "old.fss as the previous snapshot: it is of another tree",
            "expected one of other",
        ],
    );
    run(
        dir,
        ["snapshot", "tree", "--previous", "none.fss", "-o", "x.fss"],
    )
    .fails(1, &["none.fss"]);
    // One that tells of files and lacks its end, and one that was cut before its first whole piece.
    let whole = fs::read(dir.join("old.fss")).unwrap();
    let previous = |bytes: usize| {
        fs::write(dir.join("cut.fss"), &whole[..bytes]).unwrap();
        run(dir, "snapshot tree --previous cut.fss -o x.fss".split(' '))
    };
    let said = previous(whole.len() - 20).exits(0).stderr;
    assert!(
        said.contains("caution: cut.fss") && said.contains("is incomplete"),
        "{said}"
    );
    let mut cuts = (1..whole.len() / 32).map(|n| whole.len() - 32 * n);
    let at = cuts.find(|&at| !previous(at).status.success()).unwrap();
    previous(at).fails(
        1,
        &[
            "cut.fss as the previous snapshot: it is incomplete",
            "tells nothing of",
        ],
    );
    // In place, as a timer would.
    run(
        dir,
        ["snapshot", "tree", "--previous", "old.fss", "-o", "old.fss"],
    )
    .exits(0);
}

#[test]
fn a_directory_and_a_file_are_looked_at() {
    let dir = temp();
    let dir = dir.path();
    fs::create_dir(dir.join("tree")).unwrap();
    fs::write(dir.join("tree/file"), vec![1; 40_000]).unwrap();
    let tree = json(dir, &["layout", "tree", "--sync", "--free", "--worst", "2"]);
    let file = json(dir, &["layout", "tree/file"]);
    assert_eq!(tree["layouts"][0]["files"], 1);
    assert_eq!(tree["layouts"][0]["score"], file["layouts"][0]["score"]);
    let named = json(dir, &["layout", "A=tree/file"]);
    assert_eq!(named["layouts"][0]["target"], "A");
    assert_eq!(named["layouts"][0]["score"], file["layouts"][0]["score"]);
    let text = run(dir, ["layout", "tree", "--by-size"]).exits(0).text();
    assert!(text.contains("layout score"), "{text}");
    let help = run(dir, ["layout", "--help"]).exits(0).text();
    assert!(help.contains("right behind the block before"), "{help}");
}
