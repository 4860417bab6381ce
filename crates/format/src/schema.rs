//! The published JSON schemas.

use schemars::JsonSchema;

use crate::profile::SystemProfile;
use crate::record::{RecordHead, ShownRecord};
use crate::result::Document;
use crate::result::character::{Characterised, Likeness};
use crate::result::evaluation::Evaluation;
use crate::result::model::{FsmFit, ModelFit, ShownModel};
use crate::result::summary::{AnonymizeSummary, ConversionSummary, SnapshotSummary, TraceSummary};
use crate::snapshot::SnapshotMeta;
use crate::trace::{TraceEnd, TraceMeta};

/// The JSON schema (draft 2020-12) of any type, as indented text; how other crates publish theirs.
pub fn text_of<T: JsonSchema>() -> String {
    let schema = schemars::schema_for!(T);
    serde_json::to_string_pretty(&schema).unwrap_or_default()
}

/// The schema of a document as it is printed: with what it is.
pub fn document_of<T: JsonSchema + Document>() -> String {
    let mut schema = schemars::schema_for!(T).to_value();
    if let Some(properties) = schema
        .get_mut("properties")
        .and_then(serde_json::Value::as_object_mut)
    {
        let format = serde_json::json!({"description": "What it is.", "const": T::FORMAT});
        let version = serde_json::json!({
            "description": "Version of its fields.", "const": T::VERSION
        });
        properties.insert("format".to_owned(), format);
        properties.insert("version".to_owned(), version);
    }
    if let Some(schema) = schema.as_object_mut() {
        let required = schema
            .entry("required")
            .or_insert_with(|| serde_json::Value::Array(Vec::new()));
        if let Some(required) = required.as_array_mut() {
            required.extend(["format".into(), "version".into()]);
        }
    }
    serde_json::to_string_pretty(&schema).unwrap_or_default()
}

/// Of a `.fsp` file.
pub fn system_profile() -> String {
    text_of::<SystemProfile>()
}

/// Of the metadata entry `fsage.trace` in a `.fst` file.
pub fn trace_meta() -> String {
    text_of::<TraceMeta>()
}

/// Of the metadata entry `fsage.end` in a `.fst` file.
pub fn trace_end() -> String {
    text_of::<TraceEnd>()
}

/// Of the metadata entry `fsage.snapshot` in a `.fss` file.
pub fn snapshot_meta() -> String {
    text_of::<SnapshotMeta>()
}

/// Of the first line of a run record.
pub fn record_head() -> String {
    text_of::<RecordHead>()
}

/// Every schema of this crate: the file's name and its text.
pub fn all() -> Vec<(&'static str, String)> {
    vec![
        ("system-profile.schema.json", system_profile()),
        ("trace-meta.schema.json", trace_meta()),
        ("trace-end.schema.json", trace_end()),
        ("snapshot-meta.schema.json", snapshot_meta()),
        ("record-head.schema.json", record_head()),
        ("trace.schema.json", document_of::<TraceSummary>()),
        ("import.schema.json", document_of::<ConversionSummary>()),
        ("export.schema.json", document_of::<ConversionSummary>()),
        ("snapshot.schema.json", document_of::<SnapshotSummary>()),
        ("anonymize.schema.json", document_of::<AnonymizeSummary>()),
        ("model-evaluate.schema.json", document_of::<Evaluation>()),
        ("model-fit.schema.json", document_of::<ModelFit>()),
        ("model-fit-fsm.schema.json", document_of::<FsmFit>()),
        ("show-model.schema.json", document_of::<ShownModel>()),
        ("show-record.schema.json", document_of::<ShownRecord>()),
        (
            "show-characterise.schema.json",
            document_of::<Characterised>(),
        ),
        ("show-against.schema.json", document_of::<Likeness>()),
    ]
}
