//! Reads a trace, piece by piece.

use std::path::Path;

use fsage_core::{Op, OpSource, PathTable, SourceError};

use super::{AnnotationColumn, Annotations, Loss, TraceEnd, TraceError, TraceMeta};

/// Reads a trace, one piece in memory at a time.
pub struct TraceReader {
    paths: PathTable,
}

impl TraceReader {
    /// Opens a trace. A truncated or unfinished one is opened as far as it is whole;
    /// [`TraceReader::loss`] says what is missing.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let _ = path;
        todo!()
    }

    /// What the trace says about itself.
    pub fn meta(&self) -> &TraceMeta {
        todo!()
    }

    /// What was known at its end; `None` if it has no end.
    pub fn end(&self) -> Option<&TraceEnd> {
        todo!()
    }

    /// What is missing.
    pub fn loss(&self) -> &Loss {
        todo!()
    }

    /// The number of operations in the file.
    pub fn total_operations(&self) -> u64 {
        todo!()
    }

    /// The columns that an analysis added.
    pub fn annotation_columns(&self) -> &[AnnotationColumn] {
        todo!()
    }

    /// Skips the next `count` operations without decoding whole pieces that lie within them.
    pub fn skip(&mut self, count: u64) -> Result<u64, TraceError> {
        let _ = count;
        todo!()
    }

    /// As [`OpSource::next_batch`], with the added columns: `notes` is replaced by one row for each
    /// operation appended.
    pub fn next_annotated(
        &mut self,
        batch: &mut Vec<Op>,
        notes: &mut Annotations,
    ) -> Result<usize, TraceError> {
        let _ = (batch, notes);
        todo!()
    }
}

impl OpSource for TraceReader {
    fn paths(&self) -> &PathTable {
        &self.paths
    }

    fn next_batch(&mut self, batch: &mut Vec<Op>) -> Result<usize, SourceError> {
        let _ = batch;
        todo!()
    }
}
