//! Writes a trace, piece by piece.

use std::path::Path;

use fsage_core::{Op, OpSink, PathTable, SinkError};

use super::{AnnotationColumn, AnnotationValue, TraceEnd, TraceError, TraceMeta};

/// Operations in a whole piece: enough to compress well, few enough to hold.
pub const PIECE_ROWS: usize = 65_536;

/// Writes a trace. What [`TraceWriter::flush_piece`] has written survives a crash of the writer;
/// [`TraceWriter::finish`] makes the file an ordinary Parquet file.
pub struct TraceWriter {}

impl TraceWriter {
    /// Creates the file, replacing what is there.
    pub fn create(path: &Path, meta: TraceMeta) -> Result<Self, TraceError> {
        Self::create_annotated(path, meta, &[])
    }

    /// Creates the file with columns beside the operations'.
    pub fn create_annotated(
        path: &Path,
        meta: TraceMeta,
        columns: &[AnnotationColumn],
    ) -> Result<Self, TraceError> {
        let _ = (path, meta, columns);
        todo!()
    }

    /// Takes one operation and the values of the added columns, in their order.
    pub fn push_annotated(
        &mut self,
        op: &Op,
        paths: &PathTable,
        values: &[AnnotationValue],
    ) -> Result<(), TraceError> {
        let _ = (op, paths, values);
        todo!()
    }

    /// The number of operations lost so far, for a reader of an unfinished file.
    pub fn set_lost_so_far(&mut self, operations_lost: u64) {
        let _ = operations_lost;
        todo!()
    }

    /// Operations taken so far.
    pub fn operations(&self) -> u64 {
        todo!()
    }

    /// Writes what is held as a piece of its own, so that a crash does not lose it. Pieces end by
    /// themselves after [`PIECE_ROWS`] operations; a live capture also calls this every few seconds.
    pub fn flush_piece(&mut self) -> Result<(), TraceError> {
        todo!()
    }

    /// Ends the trace. Returns the size of the file in bytes.
    pub fn finish(self, end: TraceEnd) -> Result<u64, TraceError> {
        let _ = end;
        todo!()
    }
}

impl OpSink for TraceWriter {
    fn push(&mut self, op: &Op, paths: &PathTable) -> Result<(), SinkError> {
        self.push_annotated(op, paths, &[]).map_err(|e| SinkError {
            message: e.to_string(),
            source: Some(Box::new(e)),
        })
    }
}
