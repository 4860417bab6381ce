//! What a model does, without running it.

use std::collections::BTreeMap;
use std::sync::Arc;

use fsage_core::OpKind;

use super::check::ModelError;
use super::generate::{Generator, Options};
use super::model::Model;
use super::resolve::is_write;

/// Calls that are counted: a model may go on for days.
const MOST_CALLS: u64 = 1_000_000;

/// What it comes to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outline {
    /// How often it does what.
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
    let mut generator = Generator::new(model, Options::default())?;
    let mut found = Outline::default();
    let (mut calls, mut batches) = (0, 0);
    while let Some((_, batch)) = generator.any() {
        batches += 1;
        for op in batch.calls.iter().map(|call| &call.op) {
            calls += 1;
            *found.counts.entry(op.kind).or_default() += 1;
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
    Ok(found)
}
