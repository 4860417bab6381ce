//! What the table says is hidden is hidden, and what it says stays is as it was.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;

use std::path::Path;

use common::{entries, named, operations};
use fsage_core::OpKind;
use fsage_format::anonymize::{Anonymizer, Of, PARTS, Treatment};
use fsage_format::profile::SystemProfile;
use fsage_format::result::environment::{BusyProcess, RestoredRecord, ToolRecord};
use fsage_format::snapshot::{SnapshotEntry, SnapshotMeta};
use fsage_format::trace::TraceMeta;
use serde_json::Value;

fn anonymizer() -> Anonymizer {
    Anonymizer::new(b"0123456789abcdef", false, Path::new("key")).unwrap()
}

fn treatment(of: Of, name: &str) -> Treatment {
    let part = PARTS.iter().find(|p| p.of == of && p.name == name);
    part.unwrap().treatment
}

#[test]
fn operations_as_the_table_says() {
    let (paths, ops) = operations(2000, 8);
    let mut anonymizer = anonymizer();
    for op in &ops {
        let hidden = anonymizer.op(op, &paths);
        let (plain, texts) = named(op, &paths);
        let (hidden, hidden_texts) = named(&hidden, anonymizer.paths());
        // Everything but the four paths is a column that is kept.
        assert_eq!(plain, hidden);
        for (index, name) in ["path", "path2", "dir", "dir2"].into_iter().enumerate() {
            assert_ne!(treatment(Of::Operations, name), Treatment::Kept);
            let (old, new) = (&texts[index], &hidden_texts[index]);
            assert_eq!(old.is_some(), new.is_some());
            let empty = old.as_ref().is_none_or(Vec::is_empty);
            assert!(empty || old != new, "{name} of {}", op.kind.name());
        }
    }
    assert!(ops.iter().any(|op| op.kind == OpKind::Setxattr));
    let kept = PARTS
        .iter()
        .filter(|p| p.of == Of::Operations && p.treatment == Treatment::Kept);
    assert_eq!(
        kept.count() + 4,
        fsage_format::trace::columns::COLUMNS.len()
    );
}

#[test]
fn names_as_the_table_says() {
    let mut anonymizer = anonymizer();
    for entry in entries(300, 9) {
        let hidden = anonymizer.entry(&entry);
        assert!(entry.path.is_empty() || hidden.path != entry.path);
        assert!(entry.link_target.is_none() || hidden.link_target != entry.link_target);
        assert_eq!((hidden.uid, hidden.gid), (0, 0));
        // The others are kept.
        let shown = SnapshotEntry {
            path: entry.path.clone(),
            link_target: entry.link_target.clone(),
            uid: entry.uid,
            gid: entry.gid,
            ..hidden
        };
        assert_eq!(shown, entry);
    }
    for (name, expected) in [
        ("path", Treatment::Path),
        ("link_target", Treatment::Path),
        ("uid", Treatment::Zero),
        ("gid", Treatment::Zero),
        ("mode", Treatment::Kept),
    ] {
        assert_eq!(treatment(Of::Names, name), expected);
    }
}

#[test]
fn metadata_as_the_table_says() {
    let secret = || "secret/x".to_owned();
    let trace = TraceMeta {
        fsage: secret(),
        host: secret(),
        kernel: secret(),
        command: vec![secret()],
        directory: secret(),
        clock: secret(),
        method: secret(),
        under: vec![secret()],
        snapshot: Some(secret()),
        extra: [("key".to_owned(), secret())].into(),
        attached: vec![7],
        seed: Some(7),
        start_unix_ns: 7,
    };
    let snapshot = SnapshotMeta {
        fsage: secret(),
        host: secret(),
        kernel: secret(),
        root: secret(),
        file_system: secret(),
        mount_options: secret(),
        extra: [("key".to_owned(), secret())].into(),
        ..SnapshotMeta::default()
    };
    let mut anonymizer = anonymizer();
    let metas = [
        (
            Of::Trace,
            serde_json::to_value(&trace).unwrap(),
            serde_json::to_value(anonymizer.trace_meta(&trace)).unwrap(),
        ),
        (
            Of::Snapshot,
            serde_json::to_value(&snapshot).unwrap(),
            serde_json::to_value(anonymizer.snapshot_meta(&snapshot)).unwrap(),
        ),
    ];
    for (of, before, after) in metas {
        for (name, old) in before.as_object().unwrap() {
            let kept = treatment(of, name) == Treatment::Kept;
            assert_eq!(kept, after[name] == *old, "{}.{name}", of.name());
            assert!(kept || !after[name].to_string().contains("secret"));
        }
    }
}

#[test]
fn a_profile_as_the_table_says() {
    let secret = || "/secret".to_owned();
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/golden/version-2-environment.fsp"
    );
    let mut profile = SystemProfile::load(Path::new(file)).unwrap();
    profile.name = secret();
    let machine = &mut profile.environment.machine;
    machine.host = Some(secret());
    machine.kernel.command_line = Some(secret());
    machine.load.users = Some(3);
    machine.load.busiest = vec![BusyProcess {
        name: secret(),
        cpu_share: 0.5,
    }];
    machine.tools = vec![ToolRecord {
        name: "libc".to_owned(),
        path: Some(secret()),
        ..ToolRecord::default()
    }];
    let target = &mut profile.environment.target;
    target.target = secret();
    target.source = Some(secret());
    target.mount_options = Some("rw,subvol=/secret".to_owned());
    target.mount_options_given = target.mount_options.clone();
    target.aged = Some(secret());
    target.restored = Some(RestoredRecord {
        file: secret(),
        sha256: secret(),
        ..RestoredRecord::default()
    });
    target.parameters.insert("label".to_owned(), secret());
    target.devices[0].backing_file = Some(secret());
    // The name of a logical volume.
    target.devices[0].model = Some(secret());
    let mkfs = target.mkfs.as_mut().unwrap();
    mkfs.options = "-L secret".to_owned();
    mkfs.image = "file:/secret".to_owned();
    let hidden = anonymizer().profile(&profile).unwrap();
    let [before, after] = [&profile, &hidden].map(|p| serde_json::to_value(p).unwrap());
    assert!(!after.to_string().contains("secret"), "{after}");
    for part in PARTS.iter().filter(|part| part.of == Of::Profile) {
        let path = format!("/{}", part.name.replace('.', "/"));
        let first = ["busiest", "tools", "devices"];
        let path = first.iter().fold(path, |path, list| {
            path.replace(&format!("/{list}/"), &format!("/{list}/0/"))
        });
        let [before, after] = [&before, &after].map(|v| v.pointer(&path).unwrap_or(&Value::Null));
        let kept = part.treatment == Treatment::Kept;
        assert_eq!(kept, before == after, "{}: {before} {after}", part.name);
    }
}
