//! What lies together on the device, and what is paid for whole: pages, blocks of names and of inodes.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::float_cmp, reason = "exact by construction")]

use crate::common;

use common::{Notes, Script, everything, everything_but};
use fsage_core::{DevId, FileId, OpFlags, OpKind};
use fsage_predict::cost::FileSystemName;
use fsage_predict::namespace::tree::NodeKind;
use fsage_predict::namespace::{FileRecord, Namespace};
use fsage_predict::{Options, Predictor};

const CREATE: u32 = 0o102;

/// A write is one call whatever its pages are: new ones are paid for whole, what is copied by its bytes.
#[test]
fn a_write_pays_once_for_the_call_and_for_whole_pages() {
    // 100 for a call, 10 for each KiB, 50 for each new page, 7 for a clean one that becomes dirty.
    let mut system = everything();
    for kib in [1.0f64, 4.0, 16.0, 64.0] {
        let (copied, pages) = (100.0 + 10.0 * kib, (kib / 4.0).ceil());
        for (stem, ns) in [
            ("WF", copied + 50.0 * pages),
            ("WN", copied + 50.0 * pages),
            ("WD", copied),
            ("WO", copied),
            ("WA", copied + 7.0 + 50.0 * (kib / 4.0).floor()),
        ] {
            for gap in ["", "_G1", "_G10", "_G150", "_G2000"] {
                system.size(&format!("{stem}{kib}{gap}"), ns);
            }
        }
    }
    let mut s = Script::default();
    s.open("/f", CREATE, 3);
    s.data(OpKind::Write, 3, 0, 10 << 10);
    // From the middle of a page to that of another.
    s.data(OpKind::Write, 3, 10 << 10, 12 << 10);
    s.fd(OpKind::Fsync, 3);
    s.fd(OpKind::Close, 3);
    s.open("/f", 2, 3);
    // Within a clean page, and from one into new ones.
    s.data(OpKind::Write, 3, 22 << 10, 2 << 10);
    s.open("/g", 2, 4).size_bytes = Some(3 << 10);
    s.data(OpKind::Read, 4, 0, 3 << 10);
    s.data(OpKind::Write, 4, 3 << 10, 9 << 10);
    let mut predictor = Predictor::new(Options::default(), vec![system.clone()]);
    let mut notes = Notes::default();
    for op in &s.ops {
        predictor.push_annotated(op, &s.paths, &mut notes).unwrap();
    }
    let cost = |place: usize| -> f64 {
        let request = notes.0[place].0.iter();
        request
            .map(|(name, weight)| weight * system.named(name).unwrap().value)
            .sum()
    };
    // Of a write over dirty data of the same open only a KiB was measured (WE), here 1.
    let old_end = 1.0 - 110.0;
    let costs = [1, 2, 6, 9].map(|place| cost(place).round());
    assert_eq!(
        costs,
        [
            350.0,
            100.0 + 120.0 + 150.0 + old_end,
            127.0,
            100.0 + 90.0 + 100.0 + 7.0
        ]
    );
}

/// The lookup metrics of stats of files of a directory, which were all made cold before the first.
fn cold_stats(files: u32, stats: &[u32], known: &[(&str, f64)]) -> Vec<String> {
    let mut s = Script::default();
    s.name(OpKind::Mkdir, "/d");
    for i in 0..files {
        s.open(&format!("/d/f{i}"), CREATE, 3);
        s.fd(OpKind::Close, 3);
    }
    let made = s.ops.len();
    for (turn, i) in stats.iter().enumerate() {
        s.name(OpKind::Stat, &format!("/d/f{i}")).record = match turn {
            0 => OpFlags::COLD_DATA | OpFlags::COLD_NAMES,
            _ => OpFlags::default(),
        };
    }
    let mut predictor = Predictor::new(Options::default(), vec![everything_but(known)]);
    let mut notes = Notes::default();
    for op in &s.ops {
        predictor.push_annotated(op, &s.paths, &mut notes).unwrap();
    }
    let of = |note: &common::Note| {
        let cold = note.0.iter().filter(|(name, _)| name.ends_with("_NC"));
        let words = cold.map(|(name, weight)| format!("{weight} {name}"));
        words.collect::<Vec<_>>().join(", ")
    };
    notes.0[made..].iter().map(of).collect()
}

/// Of lookups in the order of creation one of sixteen brings what the others find, and has all that they cost more.
#[test]
fn the_next_inodes_come_with_the_first_of_them() {
    let in_order: Vec<u32> = (0..40).collect();
    let found = cold_stats(40, &in_order, &[("LUN_NC", 3.0)]);
    let brings: Vec<usize> = (0..40)
        .filter(|&i| found[i] == "16 LUN_NC, -15 LUS_NC")
        .collect();
    assert_eq!(brings.len(), 2, "{found:?}");
    assert_eq!(brings[1] - brings[0], 16);
    assert_eq!(
        found.iter().filter(|f| *f == "1 LUS_NC").count(),
        37,
        "{found:?}"
    );
    // Where the mean is no more than what is there takes, nothing tells them apart.
    let found = cold_stats(40, &in_order, &[]);
    assert_eq!(
        found.iter().filter(|f| *f == "1 LUN_NC").count(),
        39,
        "{found:?}"
    );
}

/// A directory has as many blocks as its names need, and each is read once.
#[test]
fn names_of_a_large_directory_lie_in_several_blocks() {
    // A block is 4 KiB at 1 KiB/s; so much of it for each name that 64 are one.
    let known = [("LUN_NC", 3.0), ("RDIRCE", 1.0 + 4e9 / 64.0)];
    let stats = [0, 1, 63, 64, 65, 199, 198, 2];
    let found = cold_stats(200, &stats, &known);
    let blocks: Vec<bool> = found
        .iter()
        .map(|f| f.contains("LUR_NC") || f.contains("LUM_NC"))
        .collect();
    assert_eq!(
        blocks,
        [true, false, false, true, false, true, false, false],
        "{found:?}"
    );
    let one = cold_stats(200, &stats, &known[..1]);
    assert!(
        one[1..]
            .iter()
            .all(|f| !f.contains("LUR_NC") && !f.contains("LUM_NC")),
        "{one:?}"
    );
}

/// Adds a file to the tree before a trace.
fn add(
    namespace: &mut Namespace,
    path: &str,
    (ino, kind, size): (u64, NodeKind, u64),
    extents: &[(u64, u64, u64)],
) {
    let root = namespace.directory(b"/");
    let record = FileRecord {
        path: path.as_bytes(),
        id: FileId {
            dev: DevId(1),
            ino,
            generation: 1,
        },
        kind,
        size,
        allocated: size,
        target: None,
        extents,
    };
    namespace.add(root, &record);
}

/// The families of the first charge of the read of each of these files.
fn reads(mut predictor: Predictor, paths: &[&str]) -> Vec<String> {
    let mut s = Script::default();
    for path in paths {
        s.open(path, 0, 3);
        s.data(OpKind::Read, 3, 0, 4096);
        s.fd(OpKind::Close, 3);
    }
    let mut notes = Notes::default();
    for op in &s.ops {
        predictor.push_annotated(op, &s.paths, &mut notes).unwrap();
    }
    let family = |name: &str| name.split('_').next().unwrap_or_default().to_owned();
    let reads = notes.0.iter().skip(1).step_by(3);
    reads.map(|note| family(&note.0[0].0)).collect()
}

/// Without extents files are taken to lie one after another in the order in which they were created.
#[test]
fn files_of_a_snapshot_without_extents_lie_in_the_order_of_creation() {
    let families = |in_memory| {
        let mut system = everything();
        system.machine.in_memory = in_memory;
        let mut predictor = Predictor::new(Options::default(), vec![system]);
        let namespace = predictor.namespace_mut();
        let mut file = |path, ino, size| add(namespace, path, (ino, NodeKind::Regular, size), &[]);
        file("c", 12, 4096);
        file("a", 10, 4096);
        file("b", 11, 500 << 10);
        file("d", 13, 9 << 20);
        file("e", 14, 4096);
        namespace.lay_out();
        reads(predictor, &["/a", "/b", "/c", "/a", "/e"])
    };
    // The next; 496 KiB beyond the 4 KiB that were read; cached; 9 MiB further.
    assert_eq!(families(false), ["RFO", "RFN", "RFS", "RCH4", "RFF"]);
    // No file in memory is nearer than another.
    assert_eq!(families(true), ["RFO", "RFF", "RFF", "RCH4", "RFF"]);
}

/// Where directories take turns among places, so do their files; in each place they lie one after another.
#[test]
fn files_lie_with_their_directories_where_these_take_turns() {
    let families = |places: f64| {
        let known = [("DAP", f64::from(512 << 10)), ("DAN", places)];
        let mut predictor = Predictor::new(Options::default(), vec![everything_but(&known)]);
        let namespace = predictor.namespace_mut();
        for (dir, ino) in [("a", 10), ("b", 11), ("c", 12), ("d", 13)] {
            add(namespace, dir, (ino, NodeKind::Directory, 4096), &[]);
            // Where they were traced all lie side by side.
            for number in 0..2u64 {
                let path = format!("{dir}/{number}");
                let first = (1 << 30) + (4 * number + ino - 10) * 4096;
                let file = (100 + 4 * number + ino, NodeKind::Regular, 4096);
                add(namespace, &path, file, &[(0, first, 4096)]);
            }
        }
        namespace.lay_out();
        reads(predictor, &["/a/0", "/b/0", "/b/1", "/c/0", "/d/0", "/a/1"])
    };
    assert_eq!(families(1.0), ["RFO", "RFN", "RFN", "RFN", "RFN", "RFN"]);
    // The root is the first of all: a and c share a place, and b and d.
    assert_eq!(families(2.0), ["RFO", "RFO", "RFN", "RFO", "RFO", "RFO"]);
    assert_eq!(families(4.0), ["RFO", "RFO", "RFN", "RFO", "RFO", "RFO"]);
}

/// In each place that takes its turn the first allocation after a cold start is the dearest, whichever directory it is for.
#[test]
fn each_place_of_directories_has_a_first_allocation() {
    let known = [("DAP", f64::from(512 << 10)), ("DAN", 2.0)];
    let mut predictor = Predictor::new(Options::default(), vec![everything_but(&known)]);
    let namespace = predictor.namespace_mut();
    for (dir, ino) in [("a", 10), ("b", 11), ("c", 12), ("d", 13)] {
        add(namespace, dir, (ino, NodeKind::Directory, 4096), &[]);
    }
    namespace.lay_out();
    let mut s = Script::default();
    for dir in ["/a", "/b", "/c", "/d"] {
        s.open(&format!("{dir}/new"), CREATE, 3);
    }
    s.name(OpKind::Mkdir, "/e");
    let mut notes = Notes::default();
    for op in &s.ops {
        predictor.push_annotated(op, &s.paths, &mut notes).unwrap();
    }
    let dearest = notes.0.iter().map(|note| {
        let mut names = note.0.iter().map(|(name, _)| name.as_str());
        names.any(|name| name == "CRC" || name == "MKDIRC")
    });
    let dearest: Vec<bool> = dearest.collect();
    assert_eq!(dearest, [true, true, false, false, false]);
}

/// A directory whose inode has no more room for its names needs a block. The first in each place after a cold start brings
/// trees of what is free there.
#[test]
fn the_first_directory_of_a_place_that_outgrows_its_inode_waits() {
    let found = |file_system: &str, names: u32| {
        let known = [("DAP", f64::from(512 << 10)), ("DAN", 2.0)];
        let mut system = everything_but(&known);
        system.machine.file_system = FileSystemName::of(file_system);
        let mut predictor = Predictor::new(Options::default(), vec![system]);
        predictor.namespace_mut().directory(b"/");
        let mut s = Script::default();
        for dir in ["/a", "/b", "/c"] {
            s.name(OpKind::Mkdir, dir);
            for number in 0..names {
                s.open(&format!("{dir}/part{number:02}.doctree"), CREATE, 3);
                s.fd(OpKind::Close, 3);
            }
        }
        let mut notes = Notes::default();
        for op in &s.ops {
            predictor.push_annotated(op, &s.paths, &mut notes).unwrap();
        }
        let waits = notes.0.iter().zip(&s.ops).filter(|(note, op)| {
            op.kind == OpKind::Open
                && note
                    .0
                    .iter()
                    .any(|(name, times)| name == "RFO" && *times == 1.4)
        });
        waits
            .map(|(_, op)| s.paths.get(op.path.unwrap()).to_vec())
            .collect::<Vec<_>>()
    };
    // Of names of 14 bytes eight have room; the third directory lies where the first does.
    assert_eq!(
        found("xfs", 12),
        [&b"/a/part08.doctree"[..], b"/b/part08.doctree"]
    );
    assert_eq!(found("xfs", 8), [b""; 0]);
    assert_eq!(found("ext4", 12), [b""; 0]);
}

/// Commits were measured in each of the places among which directories take turns: what is made stable with its data pays
/// as much more or less than at the first as its directory's place takes. What was written in place has no commit.
#[test]
fn a_commit_pays_for_where_its_directory_lies() {
    let known = [
        ("DAP", f64::from(512 << 10)),
        ("DAN", 4.0),
        ("FSYN4", 28e6),
        ("FSYN4_G1", 28e6),
        ("FSYN4_G10", 28e6),
        ("FSYN4_G150", 28e6),
        ("FSYN4_G2000", 28e6),
        ("FSYP0", 27e6),
        ("FSYP1", 20e6),
        ("FSYP2", 17e6),
        ("FSYP3", 22e6),
    ];
    let mut predictor = Predictor::new(Options::default(), vec![everything_but(&known)]);
    let namespace = predictor.namespace_mut();
    for (dir, ino) in [("a", 10), ("b", 11), ("c", 12), ("d", 13), ("e", 14)] {
        add(namespace, dir, (ino, NodeKind::Directory, 4096), &[]);
        let path = format!("{dir}/old");
        let file = (100 + ino, NodeKind::Regular, 4096);
        add(namespace, &path, file, &[(0, ino << 20, 4096)]);
    }
    // An ext4 puts a directory of its root's anywhere: it is older than those in it all the same.
    add(namespace, "/", (8193, NodeKind::Directory, 4096), &[]);
    namespace.lay_out();
    let mut s = Script::default();
    // The root is the first of all.
    for dir in ["", "/a", "/b", "/c", "/d", "/e"] {
        s.pause(10_000_000);
        s.open(&format!("{dir}/new"), CREATE, 3);
        s.data(OpKind::Write, 3, 0, 4096);
        s.fd(OpKind::Fsync, 3);
        s.fd(OpKind::Close, 3);
    }
    s.open("/b/old", 2, 3);
    s.data(OpKind::Write, 3, 0, 4096);
    s.fd(OpKind::Fdatasync, 3);
    let mut notes = Notes::default();
    for op in &s.ops {
        predictor.push_annotated(op, &s.paths, &mut notes).unwrap();
    }
    let cost = |turn: usize| notes.0[4 * turn + 2].1;
    let costs: Vec<f64> = (0..6).map(cost).collect();
    assert_eq!(costs, [28e6, 21e6, 18e6, 23e6, 28e6, 21e6]);
    let last = &notes.0.last().unwrap().0;
    assert!(
        last.iter().all(|(name, _)| !name.starts_with("FSYP")),
        "{last:?}"
    );
}

/// So far between two files is as far as in one, where an arm moves and both places are known.
#[test]
fn a_read_of_another_file_pays_for_how_far_the_arm_moves() {
    const MIB: u64 = 1 << 20;
    let known = [
        ("RFF", 6e6),
        ("RFN", 2e5),
        ("RD1024", 2e5),
        ("RXA256", 3e5),
        ("RXA1024", 6e6),
        ("RX16384", 5e6),
        ("RX131072", 8e6),
        ("RRD4", 1000.0),
    ];
    let families = |known: &[(&str, f64)]| {
        let mut predictor = Predictor::new(Options::default(), vec![everything_but(known)]);
        let namespace = predictor.namespace_mut();
        for (path, ino) in [("a", 10u64), ("b", 11)] {
            let first = (ino - 9) * 256 * MIB;
            let file = (ino, NodeKind::Regular, 64 * MIB);
            add(namespace, path, file, &[(0, first, 64 * MIB)]);
        }
        namespace.lay_out();
        let mut s = Script::default();
        s.open("/a", 0, 3);
        s.open("/b", 0, 4);
        for (fd, mib) in [(3, 1), (4, 1), (3, 9), (4, 17)] {
            s.data(OpKind::Read, fd, mib * MIB, 4096);
        }
        let mut notes = Notes::default();
        for op in &s.ops {
            predictor.push_annotated(op, &s.paths, &mut notes).unwrap();
        }
        let last = notes.0.iter().rev().take(2).rev();
        last.map(|note| note.0.clone()).collect::<Vec<_>>()
    };
    // 248 MiB apart, of which 256 were measured: between that and half of it; then 264.
    let (near, far) = ("RX131072".to_owned(), "RX262144".to_owned());
    let share = (248.0 + 4.0 / 1024.0 - 128.0) / 128.0;
    let [first, second] = <[_; 2]>::try_from(families(&known)).unwrap();
    assert_eq!(
        first.iter().map(|f| &f.0).collect::<Vec<_>>(),
        [&near, &far]
    );
    assert!((first[1].1 - share).abs() < 1e-6, "{first:?}");
    assert_eq!(second, [(far, 1.0)]);
    // In memory a read is a read.
    let in_memory = families(&[("RRD4", 1000.0)]);
    assert_eq!(in_memory[0][0].0, "RRD4");
}
