//! Profiles and run records: what is refused and how it is said.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use fsage_format::profile::{Absent, Environment, MetricValue, Quantile, SystemProfile};
use fsage_format::record::{RecordWriter, read_records};
use fsage_format::{FileKind, schema, sniff};
use serde::{Deserialize, Serialize};

fn profile() -> SystemProfile {
    let mut profile = SystemProfile::new("ext4 on a loop device", Environment::default());
    profile.metrics.push(MetricValue {
        name: "RD64".to_owned(),
        unit: "KiB/s".to_owned(),
        estimate: 2.5e6,
        low: Some(2.4e6),
        high: Some(2.6e6),
        mean: 2.51e6,
        median: 2.5e6,
        quantiles: vec![Quantile {
            p: 0.5,
            value: 2.5e6,
        }],
        runs: 12,
        stop: "precise".to_owned(),
        samples: vec![2.4e6, 2.6e6],
        ..MetricValue::default()
    });
    profile.absent.push(Absent {
        name: "RRD1".to_owned(),
        reason: "no cold state".to_owned(),
    });
    profile
}

#[test]
fn a_profile_survives_saving() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("p.fsp");
    profile().save(&file).unwrap();
    let loaded = SystemProfile::load(&file).unwrap();
    assert_eq!(loaded, profile());
    assert_eq!(loaded.get("RD64").map(|m| m.runs), Some(12));
    assert_eq!(loaded.why_absent("RRD1"), Some("no cold state"));
    assert_eq!(sniff(&file).unwrap(), FileKind::Profile);
    assert_eq!(
        std::fs::read_dir(dir.path()).unwrap().count(),
        1,
        "no temporary file stays"
    );
}

#[test]
fn a_file_is_reported_whatever_the_order_of_its_fields() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("p.fsp");
    let mut profile = profile();
    profile.absent = (0..1000)
        .map(|i| Absent {
            name: format!("M{i}"),
            reason: "no cold state".to_owned(),
        })
        .collect();
    // A value's fields are sorted, as `jq -S` sorts them.
    let sorted = serde_json::to_value(&profile).unwrap().to_string();
    assert!(sorted.find("\"format\"").unwrap() > 5000);
    std::fs::write(&file, &sorted).unwrap();
    assert_eq!(sniff(&file).unwrap(), FileKind::Profile);
    assert_eq!(SystemProfile::load(&file).unwrap(), profile);
    std::fs::write(&file, &sorted[..sorted.len() / 2]).unwrap();
    let error = sniff(&file).unwrap_err().to_string();
    assert!(error.contains("JSON"), "{error}");
}

#[test]
fn a_profile_that_cannot_be_vouched_for_is_refused() {
    let path = Path::new("p.fsp");
    let text = serde_json::to_string(&profile()).unwrap();
    let says = |changed: &str, expected: &str| {
        assert_ne!(changed, text);
        let error = SystemProfile::parse(path, changed.as_bytes())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(expected) && error.contains("p.fsp"),
            "{error}"
        );
    };
    says(
        &text.replace("2500000.0,\"low\"", "-1.0,\"low\""),
        "metric RD64: estimate is -1",
    );
    says(&text.replace("\"KiB/s\"", "\"\""), "metric RD64: no unit");
    says(
        &text.replace("\"unit\":\"KiB/s\",", ""),
        "missing field `unit`",
    );
    says(
        &text.replace("\"estimate\":2500000.0,", ""),
        "missing field `estimate`",
    );
    says(
        &text.replace("\"high\":2600000.0", "\"high\":1e999"),
        "out of range",
    );
    says(
        &text.replace("\"high\":2600000.0", "\"high\":1.0"),
        "interval",
    );
    says(
        &text.replace("\"version\":3", "\"version\":4"),
        "version 4 of the system profile format",
    );
    says(
        &text.replace("\"version\":3", "\"version\":0"),
        "0 is no version",
    );
    says(
        &text.replace("fsage system profile", "other"),
        "JSON of the format 'other'",
    );
    says("{\"a\": 1}", "JSON without a field 'format'");
    says("some text\n", "a text file, expected a system profile");
    says(&text[..text.len() / 2], "EOF");
    let mut doubled = profile();
    doubled.metrics.push(doubled.metrics[0].clone());
    let error = doubled.check(path).unwrap_err().to_string();
    assert!(error.contains("stands twice"), "{error}");
    let mut bad = profile();
    bad.metrics[0].mean = f64::NAN;
    let dir = tempfile::tempdir().unwrap();
    let error = bad.save(&dir.path().join("p.fsp")).unwrap_err().to_string();
    assert!(
        error.contains("write") && error.contains("RD64: mean is NaN"),
        "{error}"
    );
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Run {
    number: u32,
}

fn records_at(dir: &Path) -> PathBuf {
    dir.join("runs.jsonl")
}

#[test]
fn records_are_appended_and_a_torn_line_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let file = records_at(dir.path());
    let mut writer = RecordWriter::open(&file, "validate").unwrap();
    writer.append(&Run { number: 1 }).unwrap();
    drop(writer);
    let mut writer = RecordWriter::open(&file, "validate").unwrap();
    writer.append(&Run { number: 2 }).unwrap();
    assert_eq!(sniff(&file).unwrap(), FileKind::Record);
    let found = read_records::<Run>(&file).unwrap();
    assert_eq!(found.records, [Run { number: 1 }, Run { number: 2 }]);
    assert_eq!((found.head.kind.as_str(), found.torn), ("validate", None));

    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() - 4]).unwrap();
    let found = read_records::<Run>(&file).unwrap();
    assert_eq!(found.records, [Run { number: 1 }]);
    assert_eq!(found.torn, Some((3, 9)));
    RecordWriter::open(&file, "validate")
        .unwrap()
        .append(&Run { number: 3 })
        .unwrap();
    let found = read_records::<Run>(&file).unwrap();
    assert_eq!(found.records, [Run { number: 1 }, Run { number: 3 }]);

    let error = RecordWriter::open(&file, "bench").unwrap_err().to_string();
    assert!(
        error.contains("records of 'validate', expected 'bench'"),
        "{error}"
    );
}

/// What a crash of the machine leaves of what was appended last: its length, and none of its bytes or some.
#[test]
fn zero_bytes_at_the_end_are_a_torn_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = records_at(dir.path());
    let mut writer = RecordWriter::open(&file, "validate").unwrap();
    writer.append(&Run { number: 1 }).unwrap();
    drop(writer);
    let whole = std::fs::read(&file).unwrap();
    for (begun, zeros, behind) in [("", 5, ""), ("", 70_000, "\n"), ("{\"num", 4096, "\n\0\n")] {
        let tail = begun.to_owned() + &"\0".repeat(zeros) + behind;
        std::fs::write(&file, [&whole, tail.as_bytes()].concat()).unwrap();
        let found = read_records::<Run>(&file).unwrap();
        assert_eq!(found.records, [Run { number: 1 }]);
        assert_eq!(found.torn.unwrap().0, 3);
        drop(RecordWriter::open(&file, "validate").unwrap());
        assert_eq!(std::fs::read(&file).unwrap(), whole);
    }
    // What is written behind them was not left by a crash.
    let damaged = [&whole[..], b"\0\0\n{\"number\":2}\n"].concat();
    std::fs::write(&file, damaged).unwrap();
    let error = read_records::<Run>(&file).unwrap_err().to_string();
    assert!(error.contains("line 3"), "{error}");
}

/// A record with one list of pairs.
type Lists = Vec<(String, Vec<(u32, u32)>)>;

#[test]
fn records_and_results_as_long_as_experiments_are_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let file = records_at(dir.path());
    // As 30 runs of postmark:files=5000,transactions=20000, beside many small ones.
    let large: Vec<(u32, u32)> = (0..29_978).map(|i| (404 + i, 1 + i % 9)).collect();
    let line = |runs: usize, run: &str| format!("{run}\n").repeat(runs);
    let mut text = line(
        1,
        "{\"format\":\"fsage run record\",\"version\":1,\"kind\":\"bench\"}",
    );
    text += &line(30, &serde_json::to_string(&vec![("d", &large)]).unwrap());
    text += &line(10_000, "[[\"e\",[[404,1]]]]");
    std::fs::write(&file, &text).unwrap();
    let found = read_records::<Lists>(&file).unwrap();
    assert_eq!((found.records.len(), found.torn), (10_030, None));
    assert_eq!(found.records[29][0].1, large);

    // A torn line that is longer than what is looked at once, after many whole ones.
    std::fs::write(&file, text.clone() + &"9".repeat(200_000)).unwrap();
    let mut writer = RecordWriter::open(&file, "bench").unwrap();
    assert_eq!(std::fs::metadata(&file).unwrap().len(), text.len() as u64);
    writer.append(&vec![("f", [(1, 2)])]).unwrap();
    assert_eq!(read_records::<Lists>(&file).unwrap().records.len(), 10_031);
    let refused = writer
        .append(&"x".repeat(17 << 20))
        .unwrap_err()
        .to_string();
    assert!(refused.contains("expected at most"), "{refused}");
    assert_eq!(read_records::<Lists>(&file).unwrap().records.len(), 10_031);

    // The result holds all runs at once.
    let document = serde_json::to_vec(&vec![&large; 100]).unwrap();
    assert_eq!(fsage_format::bounded::check_document(&document), Ok(()));
}

#[test]
fn what_lies_behind_256_mib_of_a_record_is_not_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let file = records_at(dir.path());
    drop(RecordWriter::open(&file, "x").unwrap());
    // A hole, as long lines would be, and whole lines behind it.
    let length = 600 << 20;
    let opened = std::fs::OpenOptions::new()
        .append(true)
        .open(&file)
        .unwrap();
    opened.set_len(length).unwrap();
    std::io::Write::write_all(&mut &opened, b"\n{\"number\":1}\n{\"numb").unwrap();
    RecordWriter::open(&file, "x").unwrap();
    assert_eq!(std::fs::metadata(&file).unwrap().len(), length + 14);
}

#[test]
fn a_file_that_is_no_record_is_never_written_to() {
    let dir = tempfile::tempdir().unwrap();
    let file = records_at(dir.path());
    for text in [
        "notes\n",
        "notes without a line end",
        "{\"format\":\"fsage system profile\"}\n",
    ] {
        std::fs::write(&file, text).unwrap();
        assert!(RecordWriter::open(&file, "x").is_err(), "{text}");
        assert!(read_records::<Run>(&file).is_err(), "{text}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    }
    // A first line that was cut off while it was written.
    std::fs::write(&file, "{\"format\":\"fsage run re").unwrap();
    RecordWriter::open(&file, "x")
        .unwrap()
        .append(&Run { number: 1 })
        .unwrap();
    assert_eq!(read_records::<Run>(&file).unwrap().records.len(), 1);
    std::fs::write(
        &file,
        "{\"format\":\"fsage run record\",\"version\":9,\"kind\":\"x\"}\n",
    )
    .unwrap();
    let error = read_records::<Run>(&file).unwrap_err().to_string();
    assert!(
        error.contains("version 9 of the run record format"),
        "{error}"
    );
    std::fs::write(
        &file,
        "{\"format\":\"fsage run record\",\"version\":1,\"kind\":\"x\"}\n{\"number\":\"a\"}\n",
    )
    .unwrap();
    let error = read_records::<Run>(&file).unwrap_err().to_string();
    assert!(error.contains("line 2"), "{error}");
}

#[test]
fn schemas_are_json_and_name_what_they_require() {
    for (name, text) in schema::all() {
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(value.get("properties").is_some(), "{name}");
    }
    let value: serde_json::Value = serde_json::from_str(&schema::system_profile()).unwrap();
    let required = value["$defs"]["MetricValue"]["required"]
        .as_array()
        .unwrap();
    for field in ["name", "unit", "estimate", "runs"] {
        assert!(required.iter().any(|r| r == field), "{field}");
    }
}
