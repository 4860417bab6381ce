//! The published JSON schemas.

use schemars::JsonSchema;

use crate::profile::SystemProfile;
use crate::record::{RecordHead, ShownRecord};
use crate::result::summary::{AnonymizeSummary, ConversionSummary, SnapshotSummary, TraceSummary};
use crate::snapshot::SnapshotMeta;
use crate::trace::{TraceEnd, TraceMeta};

/// The JSON schema (draft 2020-12) of any type, as indented text; how other crates publish theirs.
pub fn text_of<T: JsonSchema>() -> String {
    let schema = schemars::schema_for!(T);
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
        ("trace.schema.json", text_of::<TraceSummary>()),
        ("import.schema.json", text_of::<ConversionSummary>()),
        ("export.schema.json", text_of::<ConversionSummary>()),
        ("snapshot.schema.json", text_of::<SnapshotSummary>()),
        ("anonymize.schema.json", text_of::<AnonymizeSummary>()),
        ("show-record.schema.json", text_of::<ShownRecord>()),
    ]
}
