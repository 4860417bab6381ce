//! The snapshot: lossless both ways, recovered when it was cut.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;

use common::{drain_snapshot, entries, write_snapshot};
use fsage_format::snapshot::SnapshotReader;
use fsage_format::{FileKind, sniff};

#[test]
fn every_field_survives() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("s.fss");
    for count in [0, 1, 5000, 70_000] {
        let written = entries(count, count as u64);
        write_snapshot(&file, &written);
        let mut reader = SnapshotReader::open(&file).unwrap();
        assert_eq!(reader.total_entries(), count as u64);
        assert_eq!(reader.meta().root, "/mnt");
        assert_eq!(reader.dev().0, 1793);
        assert_eq!(reader.end().unwrap().vanished, 3);
        assert!(
            drain_snapshot(&mut reader).unwrap() == written,
            "{count} entries"
        );
    }
    assert_eq!(sniff(&file).unwrap(), FileKind::Snapshot);
}

#[test]
fn a_cut_snapshot_is_read_up_to_its_last_whole_piece() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("s.fss");
    let written = entries(70_000, 1);
    write_snapshot(&file, &written);
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() - 20_000]).unwrap();
    let mut reader = SnapshotReader::open(&file).unwrap();
    assert!(reader.end().is_none());
    assert!(reader.loss().unfinished && reader.loss().bytes_dropped > 0);
    let found = drain_snapshot(&mut reader).unwrap();
    assert_eq!(found.len(), 65_536);
    assert!(found == written[..found.len()]);
}
