//! What lies on the traced file system, by whatever name it came there.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{Notes, Script, everything};
use fsage_core::{DevId, FileId, OpKind};
use fsage_predict::{Options, Predictor, Scope};

/// Which of a script's operations cost something where `/in` is the traced file system.
fn charged(script: &Script) -> Vec<bool> {
    followed(script).1
}

fn followed(script: &Script) -> (Predictor, Vec<bool>) {
    let scope = Scope {
        roots: vec![b"/in".to_vec()],
        devices: Vec::new(),
    };
    let options = Options {
        scope,
        ..Options::default()
    };
    let mut predictor = Predictor::new(options, vec![everything()]);
    let mut notes = Notes::default();
    for op in &script.ops {
        let pushed = predictor.push_annotated(op, &script.paths, &mut notes);
        pushed.unwrap();
    }
    let charged = notes.0.iter().map(|note| note.1 > 0.0).collect();
    (predictor, charged)
}

/// Of a file that was open before the trace began its operations tell the path, or nothing tells where it lies; then they
/// are counted.
#[test]
fn what_was_open_before_belongs_where_its_path_leads() {
    let mut s = Script::default();
    let id = |ino| {
        Some(FileId {
            dev: DevId(1),
            ino,
            generation: 0,
        })
    };
    for (fd, path) in [(1, "/in/file"), (2, "/out/file"), (3, "")] {
        let path = s.paths.intern(path.as_bytes());
        let write = s.data(OpKind::Write, fd, 0, 100);
        write.file = id(fd as u64);
        write.path = path.filter(|_| fd < 3);
        s.fd(OpKind::Close, fd).file = id(fd as u64);
    }
    let (mut predictor, charged) = followed(&s);
    assert_eq!(charged, [true, true, false, false, false, false]);
    let unexplained = predictor.namespace_mut().unexplained();
    assert_eq!(unexplained.unknown_descriptors, 2);
    assert_eq!(unexplained.out_of_scope, 2);
}

/// A name within leads to no other file system's file: rename(2) and link(2) fail across them.
#[test]
fn files_that_are_moved_or_linked_in_belong() {
    for kind in [OpKind::Rename, OpKind::Link] {
        let mut s = Script::default();
        s.name(OpKind::Stat, "/out/new");
        s.name(kind, "/out/new").path2 = s.paths.intern(b"/in/file");
        s.open("/in/file", 0, 3);
        s.data(OpKind::Read, 3, 0, 100);
        s.fd(OpKind::Close, 3);
        s.name(OpKind::Unlink, "/in/file");
        s.name(OpKind::Stat, "/out/other");
        let expected = [false, true, true, true, true, true, false];
        assert_eq!(charged(&s), expected, "{kind:?}");
    }
}
