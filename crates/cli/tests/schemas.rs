//! What is printed as JSON is what the published schemas say, and they are what the code says.
//! `FSAGE_WRITE=1 cargo xtask test -p fsage --test schemas` writes them anew. The program has none of them: they take
//! half a megabyte of it, and only the documentation shows them.

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

use std::collections::BTreeSet;

use common::{profile, run, schema, schemas, small_trace, temp};
use fsage_format::image::ImageHead;
use fsage_format::result::Head;
use fsage_format::result::aged::{AgeKept, AgedRun};
use fsage_format::result::aging::{AgeGenerated, AgeShortLived};
use fsage_format::result::cleanup::Leftovers;
use fsage_format::result::comparison::Comparison;
use fsage_format::result::compliance::Compliance;
use fsage_format::result::disk::{DiskList, DiskStatistics, DiskSummary};
use fsage_format::result::experiment::Experiment;
use fsage_format::result::layout::Layouts;
use fsage_format::result::prediction::Prediction;
use fsage_format::result::replay::Replay;
use fsage_format::result::run::{WorkloadList, WorkloadRun};
use fsage_format::result::slowfs::SlowfsStatistics;
use fsage_format::result::validation::Validation;
use fsage_format::schema::{all, document_of, text_of};
use fsage_report::characterization::ShownTrace;
use fsage_report::ops::OpRow;
use fsage_report::snapshot::ShownTree;
use serde_json::Value;

/// Schemas of what verbs print with `--json`: the file's name and its text.
fn printed() -> Vec<(&'static str, String)> {
    vec![
        ("show-trace.schema.json", document_of::<ShownTrace>()),
        ("show-snapshot.schema.json", document_of::<ShownTree>()),
        ("show-operation.schema.json", text_of::<OpRow>()),
        ("lines-head.schema.json", text_of::<Head>()),
        ("predict.schema.json", text_of::<Prediction>()),
        ("replay.schema.json", text_of::<Replay>()),
        ("run.schema.json", text_of::<WorkloadRun>()),
        ("workloads.schema.json", document_of::<WorkloadList>()),
        ("validate.schema.json", text_of::<Validation>()),
        ("bench.schema.json", text_of::<Experiment>()),
        ("compare.schema.json", text_of::<Comparison>()),
        ("check.schema.json", text_of::<Compliance>()),
        ("age-generate.schema.json", document_of::<AgeGenerated>()),
        (
            "age-short-lived.schema.json",
            document_of::<AgeShortLived>(),
        ),
        ("cleanup.schema.json", text_of::<Leftovers>()),
        ("age-apply.schema.json", text_of::<AgedRun>()),
        ("show-image.schema.json", document_of::<ImageHead>()),
        ("age-keep.schema.json", document_of::<AgeKept>()),
        ("disk-list.schema.json", document_of::<DiskList>()),
        ("disk-show.schema.json", document_of::<DiskSummary>()),
        ("disk-serve.schema.json", document_of::<DiskStatistics>()),
        ("slowfs.schema.json", document_of::<SlowfsStatistics>()),
        ("layout.schema.json", document_of::<Layouts>()),
    ]
}

/// Each published schema is what the code says, and there are no others.
#[test]
fn the_schemas_are_up_to_date() {
    let made: Vec<_> = all().into_iter().chain(printed()).collect();
    for (name, text) in &made {
        let (path, text) = (schemas().join(name), format!("{text}\n"));
        if std::env::var_os("FSAGE_WRITE").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        assert!(
            std::fs::read_to_string(&path).unwrap_or_default() == text,
            "{} is out of date: FSAGE_WRITE=1 writes it anew",
            path.display()
        );
    }
    let names: BTreeSet<String> = made.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(published().into_iter().collect::<BTreeSet<_>>(), names);
}

/// The names of the published schemas.
fn published() -> Vec<String> {
    std::fs::read_dir(schemas())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// Requires that `value` is what the schema `name` says.
fn conforms(name: &str, value: &Value) {
    let schema = schema(name);
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(value)
        .map(|e| format!("{}: {e}", e.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{name}: {errors:?}");
    // Parts of documents, and lines after their head.
    let parts = ["trace-meta", "trace-end", "show-operation"];
    if !parts.iter().any(|part| name.starts_with(part)) {
        let format = value["format"].as_str().unwrap_or_default();
        assert!(format.starts_with("fsage "), "{name}: format '{format}'");
        assert!(value["version"].is_u64(), "{name}: {}", value["version"]);
    }
    // A schema that takes anything would say nothing.
    assert!(
        !validator.is_valid(&Value::Array(Vec::new())),
        "{name} takes anything"
    );
}

#[test]
fn layouts_conform_to_their_schema() {
    let dir = temp();
    let dir = dir.path();
    small_trace(dir);
    run(dir, ["snapshot", "tree", "-o", "tree.fss"]).exits(0);
    let line = [
        "layout", "tree", "tree.fss", "--free", "--worst", "1", "--json",
    ];
    let printed = run(dir, line).exits(0).json();
    conforms("layout.schema.json", &printed);
}

#[test]
fn printed_json_conforms_to_its_schema() {
    let dir = temp();
    let dir = dir.path();
    small_trace(dir);
    run(dir, ["snapshot", "tree", "-o", "tree.fss"]).exits(0);
    let (ext4, xfs) = (
        profile("ext4").display().to_string(),
        profile("xfs").display().to_string(),
    );
    let json = |line: &[&str]| run(dir, line).exits(0).json();
    conforms(
        "show-trace.schema.json",
        &json(&["show", "small.fst", "--json"]),
    );
    conforms(
        "show-snapshot.schema.json",
        &json(&["show", "tree.fss", "--json"]),
    );
    conforms(
        "system-profile.schema.json",
        &json(&["show", &ext4, "--json"]),
    );
    conforms("disk-list.schema.json", &json(&["disk", "list", "--json"]));
    conforms(
        "disk-show.schema.json",
        &json(&["disk", "show", "nvme-ssd", "--json"]),
    );
    let plain = json(&["predict", "small.fst", "--on", &ext4, "--json"]);
    conforms("predict.schema.json", &plain);
    let more = [
        "predict",
        "small.fst",
        "--on",
        &ext4,
        "--on",
        &xfs,
        "--what-if",
        "CR*2",
        "--json",
    ];
    conforms("predict.schema.json", &json(&more));
    let ran = ["run", "postmark:files=9,transactions=20", ".", "--json"];
    conforms("run.schema.json", &json(&ran));
    let command = ["run", "cmd:true", ".", "--json"];
    conforms("run.schema.json", &json(&command));
    let benched = ["bench", "--runs", "3", "--json", "--", "true"];
    conforms("bench.schema.json", &json(&benched));
    for name in ["first", "second"] {
        run(dir, ["bench", "--runs", "3", "-o", name, "--", "true"]).exits(0);
    }
    let compared = json(&["compare", "first", "second", "--json"]);
    conforms("compare.schema.json", &compared);
    conforms("check.schema.json", &json(&["check", "first", "--json"]));
    let replayed = json(&["replay", "small.fst", ".", "--verify", "--json"]);
    conforms("replay.schema.json", &replayed);
    let shown = json(&["show", "small.fst", "--json"]);
    conforms("trace-meta.schema.json", &shown["meta"]);
    conforms("trace-end.schema.json", &shown["end"]);
}

#[test]
fn summaries_conform_to_their_schemas() {
    let dir = temp();
    let dir = dir.path();
    small_trace(dir);
    std::fs::write(dir.join("key"), "0123456789abcdef").unwrap();
    let ext4 = profile("ext4").display().to_string();
    for (schema, line) in [
        ("trace", "trace --json -o t.fst -- true"),
        ("snapshot", "snapshot tree --json -o tree.fss"),
        ("export", "export small.fst --to strace --json -o s.txt"),
        ("export", "export tree.fss --to hbench --json -o tree.txt"),
        ("export", "export EXT4 --to hbench --json -o p.txt"),
        ("import", "import s.txt --from strace --json -o again.fst"),
        (
            "import",
            "import tree.txt --from hbench --json -o again.fss",
        ),
        ("import", "import p.txt --from hbench --json -o again.fsp"),
        (
            "anonymize",
            "anonymize small.fst --key-file key --json -o a.fst",
        ),
        (
            "anonymize",
            "anonymize tree.fss --key-file key --json -o a.fss",
        ),
    ] {
        let line = line.replace("EXT4", &ext4);
        let printed = run(dir, line.split(' ')).exits(0).json();
        conforms(&format!("{schema}.schema.json"), &printed);
        let counted = match schema {
            "import" | "export" => "written",
            "anonymize" => "rows",
            "snapshot" => "entries",
            _ => "operations",
        };
        assert_ne!(printed[counted], 0, "{line}: {printed}");
    }
    let rows = run(dir, ["show", "small.fst", "--ops", "--json"]).exits(0);
    let text = rows.text();
    let (head, rows) = text.split_once('\n').unwrap();
    let head: Value = serde_json::from_str(head).unwrap();
    conforms("lines-head.schema.json", &head);
    assert_ne!(rows, "");
    for row in rows.lines() {
        let row = serde_json::from_str(row).unwrap();
        conforms("show-operation.schema.json", &row);
    }
    let record = "{\"format\":\"fsage run record\",\"version\":1,\"kind\":\"x\"}\n{\"a\":1}\n";
    std::fs::write(dir.join("runs.jsonl"), record).unwrap();
    let shown = run(dir, ["show", "runs.jsonl", "--json"]).exits(0).json();
    conforms("show-record.schema.json", &shown);
}

#[test]
fn the_list_of_workloads_conforms_to_its_schema() {
    let dir = temp();
    let listed = run(dir.path(), ["workloads", "--json"]).exits(0).json();
    conforms("workloads.schema.json", &listed);
}

/// One thing has one name in all of them, and no structure stands without what it is.
#[test]
fn one_name_for_one_thing() {
    let parts = ["trace-meta", "trace-end", "snapshot-meta", "show-operation"];
    for name in published() {
        let schema = schema(&name);
        if !parts.iter().any(|part| name.starts_with(part)) {
            for field in ["format", "version"] {
                assert!(
                    schema["properties"][field].is_object(),
                    "{name} has no {field}"
                );
                let required = schema["required"].as_array().unwrap();
                assert!(
                    required.iter().any(|r| r == field),
                    "{name}: {field} may lack"
                );
            }
        }
        no_other_names(&name, &schema);
    }
}

/// Names that fields once had, and what they are called.
const FORMER_NAMES: [(&str, &str); 17] = [
    ("inode", "ino"),
    ("offset", "offset_bytes"),
    ("length", "length_bytes"),
    ("lost", "operations_lost"),
    ("lost_32_bit", "operations_lost_32_bit"),
    ("fsage_version", "fsage"),
    ("lower", "low"),
    ("upper", "high"),
    ("why", "reason"),
    ("started_unix_ns", "start_unix_ns"),
    ("interval_ns", "latency_interval_ns"),
    ("measured_count", "measured_operations"),
    ("total_ns", "latency_total_ns"),
    ("mean_ns", "latency_mean_ns"),
    ("p50_ns", "latency_p50_ns"),
    ("p99_ns", "latency_p99_ns"),
    ("max_ns", "latency_max_ns"),
];

fn no_other_names(file: &str, schema: &Value) {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        for name in properties.keys() {
            let former = FORMER_NAMES.iter().find(|(former, _)| former == name);
            assert_eq!(former, None, "{file}");
            assert!(!name.ends_with("_version"), "{file}: {name}");
        }
        // What counts the operations of a kind is no other name's either.
        let both = ["kind", "count"].map(|name| properties.contains_key(name));
        assert_ne!(both, [true; 2], "{file}: {properties:?}");
    }
    match schema {
        Value::Object(fields) => fields.values().for_each(|v| no_other_names(file, v)),
        Value::Array(values) => values.iter().for_each(|v| no_other_names(file, v)),
        _ => {}
    }
}

#[test]
fn every_schema_is_one() {
    for name in published() {
        let schema = schema(&name);
        assert!(jsonschema::meta::is_valid(&schema), "{name}");
        assert!(schema["title"].is_string(), "{name}");
    }
}
