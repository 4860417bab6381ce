//! What a model does, without running it.

use std::collections::BTreeMap;
use std::sync::Arc;

use fsage_core::OpKind;
use rustc_hash::FxHashMap;

use super::carry::carried;
use super::character::at_once;
use super::check::ModelError;
use super::generate::{Generator, Options};
use super::model::{Model, Type};
use super::resolve::is_write;

/// Calls that are counted: a model may go on for days.
const MOST_CALLS: u64 = 1_000_000;

/// What it comes to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outline {
    /// Files and links that are there before.
    pub files_before: u64,
    /// Directories that are there before, the target's own among them.
    pub directories_before: u64,
    /// Files and links that it makes where nothing is.
    pub files_made: u64,
    /// Directories that it makes.
    pub directories_made: u64,
    /// The most processes and threads that do something at the same time, as the trace has the times.
    pub at_once: u64,
    /// How often a run of it does what.
    pub counts: BTreeMap<OpKind, u64>,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Whether it goes on after what was counted.
    pub is_longer: bool,
}

/// Plays a model as far as is reasonable.
///
/// # Errors
/// It cannot be played.
pub fn outline(model: Arc<Model>) -> Result<Outline, ModelError> {
    let files = model.classes.iter().filter(|c| c.kind != Type::Directory);
    let mut found = Outline {
        files_before: files.map(|c| c.before).fold(0, u64::saturating_add),
        directories_before: model.directories.len() as u64,
        ..Outline::default()
    };
    let mut generator = Generator::new(model, Options::default())?;
    let mut spans: FxHashMap<u32, (u64, u64)> = FxHashMap::default();
    let (mut calls, mut batches) = (0, 0);
    while let Some((_, batch)) = generator.any() {
        batches += 1;
        let span = spans.entry(batch.tid).or_insert(batch.span_ns);
        *span = (span.0.min(batch.span_ns.0), span.1.max(batch.span_ns.1));
        for op in batch.calls.iter().map(|call| &call.op) {
            calls += 1;
            let Some(kind) = carried(op) else {
                continue;
            };
            *found.counts.entry(kind).or_default() += 1;
            let bytes = if is_write(op) {
                &mut found.bytes_written
            } else {
                &mut found.bytes_read
            };
            *bytes = bytes.saturating_add(op.bytes_moved());
        }
        if calls.max(batches) >= MOST_CALLS {
            found.is_longer = generator.any().is_some();
            break;
        }
    }
    (found.files_made, found.directories_made) = generator.made();
    found.at_once = at_once(spans.into_values().collect());
    Ok(found)
}
