//! Each state of a write, a removal and an fsync is told apart, and so are hits and misses.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::float_cmp, reason = "exact by construction")]

use crate::common;

use common::{Notes, Script, everything, everything_but};
use fsage_core::metric::MetricId;
use fsage_core::{
    CLOSE_BY_DUP, COPY_SHARES, COPY_WHOLE_BLOCKS, Errno, FileId, OpFlags, OpKind, Outcome, Pid,
    RWF_DSYNC, RWF_SYNC, Tid,
};
use fsage_predict::cost::FileSystemName;
use fsage_predict::namespace::tree::NodeKind;
use fsage_predict::{FileRecord, Options, Predictor, Relation, SystemVector};

/// The families that an operation was charged, without lookups, points and pauses.
fn families(script: &Script) -> Vec<String> {
    families_on(everything(), script)
}

/// What each operation is charged.
fn notes_on(system: SystemVector, script: &Script) -> Notes {
    let mut predictor = Predictor::new(Options::default(), vec![system]);
    let mut notes = Notes::default();
    for op in &script.ops {
        predictor
            .push_annotated(op, &script.paths, &mut notes)
            .unwrap();
    }
    notes
}

fn families_on(system: SystemVector, script: &Script) -> Vec<String> {
    let notes = notes_on(system, script);
    let stem = |name: &str| {
        MetricId::parse(name)
            .unwrap()
            .family()
            .row()
            .stem
            .to_owned()
    };
    notes
        .0
        .iter()
        .map(|(vector, _, _)| {
            let mut stems: Vec<String> = vector
                .iter()
                .map(|(n, _)| stem(n))
                .filter(|s| !s.starts_with("LU"))
                .collect();
            stems.sort();
            stems.dedup();
            stems.join("+")
        })
        .collect()
}

const CREATE: u32 = 0o102;

#[test]
fn states_of_a_write() {
    let mut s = Script::default();
    s.open("/f", CREATE, 3);
    s.data(OpKind::Write, 3, 0, 4096);
    s.data(OpKind::Write, 3, 4096, 8192);
    s.data(OpKind::Write, 3, 12288, 512);
    s.data(OpKind::Write, 3, 12800, 512);
    s.data(OpKind::Write, 3, 0, 4096);
    s.fd(OpKind::Close, 3);
    s.open("/f", 1, 3);
    s.data(OpKind::Write, 3, 0, 4096);
    s.data(OpKind::Write, 3, 13312, 100);
    s.fd(OpKind::Fsync, 3);
    s.data(OpKind::Write, 3, 0, 4096);
    s.data(OpKind::Write, 3, 1 << 30, 4096);
    s.data(OpKind::Write, 3, 1 << 20, 4096);
    assert_eq!(
        families(&s),
        [
            "CRC", "WF", "WN", "WN", "WE", "WD", "CLOSEW", "OPEN", "WO", "WO", "FSYN", "WD+WK+WO",
            "WN", "WH"
        ]
    );
    // What a file that was opened again costs more is the first write's.
    let mut s = Script::default();
    s.open("/f", CREATE, 3);
    s.data(OpKind::Write, 3, 0, 9000);
    s.fd(OpKind::Fsync, 3);
    s.data(OpKind::Write, 3, 9000, 100);
    s.fd(OpKind::Fsync, 3);
    s.fd(OpKind::Close, 3);
    s.open("/f", 1, 3);
    s.data(OpKind::Write, 3, 0, 4096);
    s.data(OpKind::Write, 3, 4096, 4096);
    s.fd(OpKind::Close, 3);
    s.open("/f", 1, 3);
    s.data(OpKind::Write, 3, 9100, 100);
    let made = families(&s);
    assert_eq!(made[3], "WA+WD+WO");
    assert_eq!(made[7..9], ["WK", "WD+WK+WO"]);
    assert_eq!(made[11], "WA");
    // An append that begins in the last page and ends in a new one is both.
    let mut s = Script::default();
    s.open("/f", CREATE, 3);
    s.data(OpKind::Write, 3, 0, 4000);
    s.data(OpKind::Write, 3, 4000, 4096);
    assert_eq!(families(&s), ["CRC", "WF", "WD+WE+WN"]);
    let mut s = Script::default();
    s.open("/old", 2, 3).size_bytes = Some(65536);
    s.data(OpKind::Write, 3, 4096, 4096);
    s.data(OpKind::Write, 3, 20_000, 100);
    assert_eq!(families(&s), ["OPEN", "WU", "WP"]);
}

#[test]
fn states_of_a_removal() {
    let mut s = Script::default();
    s.open("/new", CREATE, 3);
    s.data(OpKind::Write, 3, 0, 8192);
    s.fd(OpKind::Close, 3);
    s.name(OpKind::Unlink, "/new");
    s.open("/empty", CREATE, 3);
    s.fd(OpKind::Close, 3);
    s.name(OpKind::Unlink, "/empty");
    s.open("/open", CREATE, 3);
    s.data(OpKind::Write, 3, 0, 8192);
    s.name(OpKind::Unlink, "/open");
    s.fd(OpKind::Close, 3);
    s.open("/synced", CREATE, 3);
    s.data(OpKind::Write, 3, 0, 8192);
    s.fd(OpKind::Fsync, 3);
    s.fd(OpKind::Close, 3);
    s.name(OpKind::Unlink, "/synced");
    s.open("/cold", 0, 3).size_bytes = Some(8192);
    s.fd(OpKind::Close, 3);
    s.name(OpKind::Unlink, "/cold");
    assert_eq!(
        families(&s),
        [
            "CRC",
            "WF",
            "CLOSEW",
            "RMD",
            "CR",
            "CLOSE",
            "RM",
            "CR",
            "WF",
            "RM",
            "CLOSE+RMD",
            "CR",
            "WF",
            "FSYN",
            "CLOSEW",
            "RMF",
            "OPEN",
            "CLOSE",
            "RMFC"
        ]
    );
}

#[test]
fn what_a_close_writes_is_waited_for_by_the_next_truncation() {
    let truncations = |closet: f64, pause_ns: u64| {
        let mut s = Script::default();
        for _ in 0..2 {
            s.open("/f", 0o1001, 3).size_bytes = Some(4096);
            s.data(OpKind::Write, 3, 0, 4096);
            s.fd(OpKind::Close, 3);
            s.pause(pause_ns);
        }
        let mut made = families_on(everything_but(&[("CLOSET", closet)]), &s);
        made.swap_remove(3)
    };
    assert_eq!(truncations(1.0, 0), "OPEN+TRD");
    assert_eq!(truncations(10.0, 0), "OPEN+TRF");
    assert_eq!(truncations(10.0, 200_000_000), "OPEN+TR");
}

#[test]
fn what_takes_a_descriptors_place_closes_it() {
    let second = |kind: OpKind| {
        let mut s = Script::default();
        s.open("/other", 0, 4);
        for fd in [3, 5] {
            s.open("/f", 0o1001, fd).size_bytes = Some(4096);
            s.data(OpKind::Write, fd, 0, 4096);
            s.fd(kind, 4).result = Outcome::ok(fd as u64);
        }
        families_on(everything_but(&[("CLOSET", 10.0)]), &s).swap_remove(4)
    };
    assert_eq!(second(OpKind::Dup), "OPEN+TRF");
    assert_eq!(second(OpKind::Fstat), "OPEN+TRD");
}

#[test]
fn a_long_file_that_was_truncated_is_written_by_its_close_in_memory() {
    let close = |bytes: u64, closet: f64, by_descriptor: bool, in_memory: bool| {
        let mut s = Script::default();
        if by_descriptor {
            s.open("/f", CREATE, 3);
            s.fd(OpKind::Ftruncate, 3).length = Some(0);
        } else {
            s.open("/f", 0o1001, 3).size_bytes = Some(bytes);
        }
        s.data(OpKind::Write, 3, 0, bytes);
        s.fd(OpKind::Close, 3);
        let mut system = everything_but(&[("CLOSET", closet)]);
        system.machine.in_memory = in_memory;
        families_on(system, &s).pop().unwrap()
    };
    assert_eq!(close(64 << 10, 10.0, false, true), "CLOSET");
    for by_descriptor in [false, true] {
        assert_eq!(close(1 << 20, 10.0, by_descriptor, true), "CLOSET+FDS");
        assert_eq!(close(1 << 20, 10.0, by_descriptor, false), "CLOSET");
    }
    // Where such a close costs no more than another it writes nothing.
    assert_eq!(close(1 << 20, 1.0, false, true), "CLOSET");
}

/// What a file system does as `dup2` closes a file comes after the call, which is what is charged.
#[test]
fn a_close_by_dup_starts_writing_and_costs_a_close() {
    let mut s = Script::default();
    for _ in 0..2 {
        s.open("/f", 0o1001, 3).size_bytes = Some(4096);
        s.data(OpKind::Write, 3, 0, 4096);
        s.fd(OpKind::Close, 3).flags = CLOSE_BY_DUP;
    }
    let charged = families_on(everything_but(&[("CLOSET", 10.0)]), &s);
    assert_eq!(charged[2..4], ["CLOSE", "OPEN+TRF"]);
}

/// What the sides of a copy, a read of the copy and a write to a part of it are charged as.
fn copied(flags: u32, written_back: bool) -> Vec<String> {
    let mut s = Script::default();
    s.open("/new", CREATE, 3);
    s.data(OpKind::Write, 3, 0, 8192);
    if written_back {
        s.fd(OpKind::Fsync, 3);
    }
    s.open("/copy", CREATE, 4);
    let before = s.ops.len();
    s.data(OpKind::CopyIn, 3, 0, 8192).flags = flags;
    s.data(OpKind::CopyOut, 4, 0, 8192).flags = flags;
    s.data(OpKind::Read, 4, 0, 4096);
    s.data(OpKind::Write, 4, 4096, 100);
    families_on(everything(), &s).split_off(before)
}

#[test]
fn a_copy_that_shares_blocks_moves_nothing_and_is_in_no_cache() {
    for flags in [COPY_SHARES, COPY_WHOLE_BLOCKS] {
        let shared = copied(flags, true);
        assert_eq!(shared[..2], ["CPS", ""]);
        // What lies on the device is read there, and before a part of a block is written.
        assert!(shared[2].contains("RF"), "{shared:?}");
        assert!(shared[3].contains("WP"), "{shared:?}");
        // What was not written back is before.
        assert_eq!(copied(flags, false)[..2], ["CPSD", ""]);
    }
    let moved = copied(0, true);
    assert_eq!(moved[..2], ["RCH", "WF"]);
    // What it is a copy of lies elsewhere: that is read, and all of it written.
    let mut s = Script::default();
    s.open("/copy", CREATE, 4);
    s.data(OpKind::CopyOut, 4, 0, 8192).flags = COPY_WHOLE_BLOCKS;
    assert_eq!(families_on(everything(), &s)[1], "RC+WF");
    // What was copied to elsewhere before is not what this is a copy of.
    let mut s = Script::default();
    s.open("/there", 0, 3).size_bytes = Some(8192);
    s.data(OpKind::CopyIn, 3, 0, 8192).flags = COPY_WHOLE_BLOCKS;
    s.open("/copy", CREATE, 4);
    s.data(OpKind::CopyOut, 4, 0, 8192).flags = COPY_WHOLE_BLOCKS;
    assert_eq!(families_on(everything(), &s)[3], "RC+WF");
    assert!(moved[2].starts_with("RC"), "{moved:?}");
}

#[test]
fn a_write_that_asks_for_it_is_made_stable() {
    let written = |flags: u32| {
        let mut s = Script::default();
        s.open("/f", 2, 3).size_bytes = Some(8192);
        s.data(OpKind::Read, 3, 0, 8192);
        s.data(OpKind::Write, 3, 0, 4096).flags = flags;
        families_on(everything(), &s).remove(2)
    };
    assert_eq!(written(0), "WK");
    assert_eq!(written(RWF_DSYNC), "FDSB+WK");
    assert_eq!(written(RWF_SYNC), "FSYB+WK");
}

#[test]
fn a_fault_brings_its_neighbours_unless_the_trace_saw_none_come() {
    let mut s = Script::default();
    s.open("/f", 0, 3).size_bytes = Some(1 << 20);
    for (missed, ahead) in [(Some(1), Some(0)), (None, None), (Some(1), Some(15))] {
        for page in [100, 101] {
            let at = (page + 50 * u64::from(ahead.unwrap_or(50))) % 256;
            let op = s.data(OpKind::Fault, 3, at << 12, 4096);
            (op.pages_missed, op.pages_ahead, op.latency_ns) = (missed, ahead, Some(1));
        }
    }
    let made = families_on(everything_but(&[("RAW", 128.0)]), &s);
    let fault: Vec<bool> = (made.iter().skip(1)).map(|needs| needs != "MFR").collect();
    // Of the second and third pair, the second page came with the first.
    assert_eq!(fault, [true, true, true, false, true, false]);
}

#[test]
fn reads_from_memory_are_dearer_after_a_pause() {
    let read = |after: f64| {
        let mut s = Script::default();
        for file in ["/a", "/b"] {
            s.open(file, 0, 3).size_bytes = Some(4096);
            s.data(OpKind::Read, 3, 0, 4096);
        }
        let system = everything_but(&[("RFF_G2000", after)]);
        let mut predictor = Predictor::new(Options::default(), vec![system]);
        let mut notes = Notes::default();
        for op in &s.ops {
            predictor.push_annotated(op, &s.paths, &mut notes).unwrap();
        }
        let far = |(name, _): &&(String, f64)| name.starts_with("RFF");
        let mut far: Vec<_> = notes.0[1].0.iter().filter(far).cloned().collect();
        far.sort_by(|a, b| a.0.cmp(&b.0));
        far
    };
    assert_eq!(read(1.0), []);
    let dearer = [("RFF".to_owned(), -1.0), ("RFF_G2000".to_owned(), 1.0)];
    assert_eq!(read(7.0), dearer);
}

#[test]
fn states_of_an_fsync() {
    let mut s = Script::default();
    s.open("/f", CREATE, 3);
    s.fd(OpKind::Fsync, 3);
    s.fd(OpKind::Fsync, 3);
    s.pause(1_000_000_000);
    s.data(OpKind::Write, 3, 0, 65536);
    s.fd(OpKind::Fsync, 3);
    s.data(OpKind::Write, 3, 0, 4096);
    s.fd(OpKind::Fsync, 3);
    s.data(OpKind::Write, 3, 65536, 4096);
    s.fd(OpKind::Fdatasync, 3);
    s.data(OpKind::Write, 3, 69632, 4096);
    s.fd(OpKind::Fdatasync, 3);
    let got = families(&s);
    let syncs: Vec<&str> = s
        .ops
        .iter()
        .zip(&got)
        .filter(|(op, _)| matches!(op.kind, OpKind::Fsync | OpKind::Fdatasync))
        .map(|(_, f)| f.as_str())
        .collect();
    assert_eq!(syncs, ["FSYC", "FSYQ", "FSY", "FSYB", "FDS", "FDSS"]);
}

/// The families that the calls of synchronisation were charged.
fn syncs(s: &Script) -> Vec<String> {
    let calls = s.ops.iter().zip(families(s));
    let of_sync = |op: &fsage_core::Op| op.kind.class() == fsage_core::KindClass::Sync;
    calls
        .filter(|(op, _)| of_sync(op))
        .map(|(_, f)| f)
        .collect()
}

fn range(s: &mut Script, fd: i32, flags: u32) {
    s.data(OpKind::SyncFileRange, fd, 0, 0).flags = flags;
}

#[test]
fn a_directory_is_committed_with_its_new_file_unless_a_name_changes_after_that() {
    let dir = |between: &dyn Fn(&mut Script)| {
        let mut s = Script::default();
        s.name(OpKind::Mkdir, "/d");
        s.open("/d/f", CREATE, 3);
        s.data(OpKind::Write, 3, 0, 4096);
        s.fd(OpKind::Fsync, 3);
        between(&mut s);
        s.open("/d", 0, 5);
        s.fd(OpKind::Fsync, 5);
        families(&s).pop().unwrap()
    };
    let rename = |s: &mut Script| {
        let new = s.paths.intern(b"/d/g");
        s.name(OpKind::Rename, "/d/f").path2 = new;
    };
    assert_eq!(dir(&|_| {}), "FSYDF");
    assert_eq!(dir(&rename), "FSYD");
    // Another file's fsync has committed that as well.
    let committed = |s: &mut Script| {
        rename(s);
        s.open("/e", CREATE, 4);
        s.data(OpKind::Write, 4, 0, 4096);
        s.fd(OpKind::Fsync, 4);
    };
    assert_eq!(dir(&committed), "FSYT");
}

#[test]
fn of_files_flushed_in_turn_the_first_commits_the_times_of_all() {
    let mut s = Script::default();
    let names = ["/a", "/b", "/c"];
    for (fd, name) in (3..).zip(names) {
        s.open(name, CREATE, fd);
        s.data(OpKind::Write, fd, 0, 16384);
        s.fd(OpKind::Fsync, fd);
    }
    for _ in 0..2 {
        s.pause(1_000_000_000);
        for fd in 3..6 {
            s.data(OpKind::Write, fd, 4096, 4096);
        }
        for fd in 3..6 {
            s.fd(OpKind::Fsync, fd);
        }
    }
    // What is written after that is in no commit yet.
    s.data(OpKind::Write, 4, 4096, 4096);
    s.fd(OpKind::Fsync, 4);
    assert_eq!(
        syncs(&s)[3..],
        ["FSYB", "FDSB", "FDSB", "FSYB", "FDSB", "FDSB", "FSYB"]
    );
}

#[test]
fn a_read_after_a_commit_comes_back_from_there() {
    let read = |seeks: bool, sync: bool| {
        let mut s = Script::default();
        for name in ["/a", "/b"] {
            s.open(name, CREATE, 3);
            s.data(OpKind::Write, 3, 0, 4096);
            s.fd(OpKind::Close, 3);
        }
        s.open("/a", 0, 4).record |= OpFlags::COLD_DATA;
        s.data(OpKind::Read, 4, 0, 4096);
        s.open("/new", CREATE, 3);
        s.data(OpKind::Write, 3, 0, 4096);
        if sync {
            s.fd(OpKind::Fsync, 3);
        }
        s.open("/b", 0, 5);
        s.data(OpKind::Read, 5, 0, 4096);
        let mut system = everything();
        system.machine.in_memory = !seeks;
        families_on(system, &s).pop().unwrap()
    };
    assert!(read(true, true).contains("RDSY"), "{}", read(true, true));
    assert!(!read(true, false).contains("RDSY"));
    assert!(!read(false, true).contains("RDSY"));
}

#[test]
fn a_start_of_writing_waits_for_nothing_and_leaves_little_to_fsync() {
    let mut s = Script::default();
    for path in ["/a", "/b"] {
        s.open(path, CREATE, 3);
        s.data(OpKind::Write, 3, 0, 16384);
        range(&mut s, 3, 2);
        s.fd(OpKind::Close, 3);
    }
    s.pause(1_000_000_000);
    s.open("/a", 1, 3);
    s.fd(OpKind::Fsync, 3);
    // That commit was for both.
    s.open("/b", 1, 4);
    s.fd(OpKind::Fsync, 4);
    // Nothing is dirty; with the flags that wait.
    range(&mut s, 3, 2);
    s.data(OpKind::Write, 3, 0, 4096);
    range(&mut s, 3, 7);
    s.fd(OpKind::Fsync, 3);
    assert_eq!(
        syncs(&s),
        ["SFRW", "SFRW", "FSYW", "FSYTN", "FSYQ", "SFR", "FSYB"]
    );
    // Where a name changes between them, inodes do.
    let mut s = Script::default();
    for (path, fd) in [("/a", 3), ("/b", 4), ("/c", 5)] {
        s.open(path, CREATE, fd);
        s.data(OpKind::Write, fd, 0, 16384);
        range(&mut s, fd, 2);
    }
    s.fd(OpKind::Fsync, 3);
    let new = s.paths.intern(b"/d");
    s.name(OpKind::Rename, "/a").path2 = new;
    s.fd(OpKind::Fsync, 4);
    s.fd(OpKind::Fsync, 5);
    assert_eq!(syncs(&s)[3..], ["FSYW", "FSYT", "FSYTN"]);
    // Dropping what is cached starts to write what is dirty.
    let mut s = Script::default();
    s.open("/a", CREATE, 3);
    s.data(OpKind::Write, 3, 0, 16384);
    s.data(OpKind::Advise, 3, 0, 0).flags = 4;
    s.fd(OpKind::Fsync, 3);
    assert_eq!(families(&s)[2..], ["ADVISE+SFRW", "FSYW"]);
}

#[test]
fn what_is_still_being_written_is_waited_for() {
    let metric = |name: &str, value: f64| (MetricId::parse(name).unwrap(), value, value, value);
    let known = [
        metric("FDS1024", 10e6),
        // 10 us a KiB: 100,000 KiB a second, about.
        metric("FDS16384", 10e6 + 15360e4),
        metric("SFR", 10e6),
        metric("SFRW1024", 50e3),
        metric("FSYW", 1e6),
    ];
    let cost = |pause_ns: u64, kib: u64| {
        let mut s = Script::default();
        s.open("/f", CREATE, 3);
        s.data(OpKind::Write, 3, 0, kib << 10);
        range(&mut s, 3, 2);
        s.pause(pause_ns);
        s.fd(OpKind::Fsync, 3);
        let vector = SystemVector::new("s", known);
        let mut predictor = Predictor::new(Options::default(), vec![vector]);
        let mut notes = Notes::default();
        for op in &s.ops {
            predictor.push_annotated(op, &s.paths, &mut notes).unwrap();
        }
        let weight = |call: usize, stem: &str| {
            let vector = &notes.0[call].0;
            vector.iter().find(|(n, _)| n == stem).map_or(0.0, |n| n.1)
        };
        assert!(weight(2, "SFRW1024") > 0.0, "{:?}", notes.0[2]);
        assert_eq!(weight(3, "FSYW"), 1.0);
        // A MiB is a sixteenth of it.
        16.0 * weight(3, "FDS16384")
    };
    let at_once = cost(0, 1024);
    assert!(at_once > 0.9 && at_once <= 1.0, "{at_once}");
    let later = cost(8_000_000, 1024);
    assert!(later > 0.2 && later < 0.6, "{later}");
    assert_eq!(cost(1_000_000_000, 1024), 0.0);
}

#[test]
fn a_sync_is_charged_by_what_is_to_be_done() {
    let mut s = Script::default();
    s.open("/log", CREATE, 3);
    s.data(OpKind::Write, 3, 0, 65536);
    s.fd(OpKind::Fsync, 3);
    // In place: one block, a MiB that lies together, four that lie apart.
    s.pause(1_000_000_000);
    s.data(OpKind::Write, 3, 8192, 4096);
    s.fd(OpKind::Fdatasync, 3);
    s.data(OpKind::Write, 3, 0, 65536);
    s.fd(OpKind::Fdatasync, 3);
    for page in [0, 4, 8, 12] {
        s.data(OpKind::Write, 3, page * 4096, 4096);
    }
    s.fd(OpKind::Fsync, 3);
    // Within the last block, then beyond it, then beyond it again.
    s.data(OpKind::Write, 3, 65536, 100);
    s.fd(OpKind::Fsync, 3);
    s.data(OpKind::Write, 3, 65636, 100);
    s.fd(OpKind::Fdatasync, 3);
    s.data(OpKind::Write, 3, 65736, 8000);
    s.fd(OpKind::Fdatasync, 3);
    // Mapped: a page, and nothing that waits.
    s.data(OpKind::Fault, 3, 0, 4096).flags = 1;
    s.data(OpKind::Msync, 3, 0, 4096).flags = 1;
    s.data(OpKind::Msync, 3, 0, 4096).flags = 4;
    // A change of attributes is of no data.
    s.fd(OpKind::Fchmod, 3);
    s.fd(OpKind::Fdatasync, 3);
    s.fd(OpKind::Fsync, 3);
    assert_eq!(
        syncs(&s),
        [
            "FSYN",
            "FDSB",
            "FDS+FDSO",
            "FDSO+FDSR+FSYO",
            "FSY",
            "FDSL",
            "FDSS",
            "SEEK",
            "FDSB+FDSO+FDSR",
            "FSYQ",
            "FSYRN"
        ]
    );
}

/// What the last operation is charged: metrics, and how many times each.
fn last_vector(script: &Script) -> Vec<(String, f64)> {
    notes_on(everything(), script).0.pop().unwrap().0
}

/// How many times the last of some operations is charged a metric.
fn weight_in_last(script: &Script, name: &str) -> f64 {
    let last = last_vector(script);
    last.iter().find(|(n, _)| n == name).map_or(0.0, |p| p.1)
}

#[test]
fn space_is_found_for_each_place_of_a_new_file() {
    let mut s = Script::default();
    s.open("/image", CREATE, 3);
    for mib in [9, 1, 5, 3] {
        s.data(OpKind::Write, 3, mib << 20, 4096);
        s.data(OpKind::Write, 3, (mib << 20) + 4096, 4096);
    }
    s.fd(OpKind::Fsync, 3);
    assert_eq!(syncs(&s), ["FSYN+FSYNR"]);
    assert_eq!(weight_in_last(&s, "FSYNR"), 3.0);
    // Of a hole's pages too, where other blocks are written again; what lies together is one place.
    for mib in [1, 2, 9] {
        s.data(OpKind::Write, 3, mib << 20, 4096);
    }
    s.data(OpKind::Write, 3, (1 << 20) + 4096, 4096);
    s.fd(OpKind::Fdatasync, 3);
    assert_eq!(weight_in_last(&s, "FSYNR"), 1.0);
    // The file's map has changed, as where blocks were reserved.
    assert!(syncs(&s)[1].contains("FDSU"), "{:?}", syncs(&s));
    for mib in [1, 2, 9] {
        s.data(OpKind::Write, 3, mib << 20, 4096);
    }
    s.fd(OpKind::Fdatasync, 3);
    assert_eq!(weight_in_last(&s, "FSYNR"), 0.0);
}

#[test]
fn runs_cost_as_much_less_as_they_lie_nearer_than_measured() {
    let written = |every: u64| {
        let mut s = Script::default();
        s.open("/db", CREATE, 3);
        s.data(OpKind::Write, 3, 0, 64 << 20);
        s.fd(OpKind::Fsync, 3);
        s.data(OpKind::Write, 3, 0, 4096);
        s.fd(OpKind::Fdatasync, 3);
        for block in 0..5 {
            s.data(OpKind::Write, 3, block * every, 4096);
        }
        s.fd(OpKind::Fdatasync, 3);
        weight_in_last(&s, "FDSR")
    };
    // Four beside the first, with 16 KiB between them.
    assert_eq!(written(20 << 10), 4.0 * 16.0 / 1024.0 / 15.0);
    // One more for having been elsewhere.
    assert_eq!(written(8 << 20), 5.0 / 15.0);
}

#[test]
fn a_call_that_a_target_refuses_is_said_to_fail_or_to_be_gone_around() {
    let mut s = Script::default();
    s.open("/f", CREATE, 3);
    s.data(OpKind::Fallocate, 3, 0, 4096);
    let warnings = |refused: bool| {
        let metrics = [("CR", 9.0), ("OPENC", 9.0), ("FSTAT", 1.0)];
        let mut system = common::system("s", &metrics);
        if refused {
            system.not_offered = MetricId::parse("FALLOC4")
                .map(MetricId::family)
                .into_iter()
                .collect();
        }
        let mut predictor = Predictor::new(Options::default(), vec![system]);
        for op in &s.ops {
            predictor.push(op, &s.paths);
        }
        let all = predictor.finish().targets.swap_remove(0).warnings;
        all.into_iter().find(|w| w.contains("FALLOC")).unwrap()
    };
    let usual = "FALLOC was not measured; FSTAT stands in for it in 1 uses";
    assert_eq!(warnings(false), usual);
    assert!(warnings(true).contains("(FALLOC): not offered there"));
}

#[test]
fn a_small_file_lies_beside_its_inode() {
    let appended = |bytes: u64| {
        let mut s = Script::default();
        s.open("/log", CREATE, 3);
        s.data(OpKind::Write, 3, 0, bytes);
        s.fd(OpKind::Fsync, 3);
        s.data(OpKind::Write, 3, bytes, 100);
        s.fd(OpKind::Fdatasync, 3);
        syncs(&s).pop().unwrap()
    };
    assert_eq!(appended(60_100), "FDSA");
    assert_eq!(appended(70_100), "FDSL");
}

#[test]
fn a_sync_of_several_files_costs_by_their_number() {
    let mut s = Script::default();
    for (path, fd) in [("/a", 3), ("/b", 4), ("/c", 5)] {
        s.open(path, CREATE, fd);
        s.data(OpKind::Write, fd, 0, 8192);
    }
    s.fd(OpKind::Syncfs, 3);
    s.data(OpKind::Write, 3, 0, 8192);
    s.fd(OpKind::Syncfs, 3);
    // A directory counts if it is still there.
    s.name(OpKind::Mkdir, "/d");
    s.name(OpKind::Mkdir, "/e");
    s.name(OpKind::Rmdir, "/e");
    s.data(OpKind::Write, 3, 0, 8192);
    s.fd(OpKind::Syncfs, 3);
    // Of those that were there before and whose names changed each but the first, however often.
    for (path, fd) in [("/d/x", 6), ("/f/x", 7), ("/f/y", 8), ("/g", 9)] {
        s.open(path, CREATE, fd);
    }
    s.fd(OpKind::Syncfs, 3);
    s.fd(OpKind::Syncfs, 3);
    let seen = ["FDS+SYNC+SYNF", "SYNC", "SYNC+SYND", "SYNC+SYNO", "SYNC"];
    assert_eq!(syncs(&s), seen);
}

#[test]
fn a_syncfs_without_a_descriptor_is_of_the_target() {
    let mut s = Script::default();
    s.open("/a", CREATE, 3);
    s.data(OpKind::Write, 3, 0, 8192);
    s.fd(OpKind::Syncfs, 3).fd = None;
    assert_eq!(syncs(&s), ["SYNC"]);
}

#[test]
fn direct_writes_pass_the_cache_and_their_blocks_wait_for_a_commit() {
    let mut s = Script::default();
    s.open("/d", CREATE, 3);
    s.data(OpKind::Write, 3, 0, 65536);
    s.fd(OpKind::Fsync, 3);
    s.data(OpKind::Write, 3, 0, 16384).record = OpFlags::DIRECT;
    s.fd(OpKind::Fdatasync, 3);
    s.fd(OpKind::Fdatasync, 3);
    assert_eq!(families(&s)[3..], ["DWO", "FDSB", "FSYQ"]);
}

/// A flush gets to every place that direct writes left in the drive's own cache, of whatever file; it does so by itself
/// while nobody asks for anything.
#[test]
fn a_flush_waits_for_the_places_of_direct_writes() {
    let mut s = Script::default();
    for (path, fd) in [("/a", 3), ("/b", 4)] {
        s.open(path, CREATE, fd);
        s.data(OpKind::Write, fd, 0, 1 << 20);
        s.fd(OpKind::Fsync, fd);
    }
    let written = s.ops.len();
    // Two of one file that go on, two elsewhere, one of another file.
    for (fd, page) in [(3, 0), (3, 1), (3, 100), (3, 200), (4, 0)] {
        s.data(OpKind::Write, fd, page * 4096, 4096).record = OpFlags::DIRECT;
    }
    s.fd(OpKind::Fdatasync, 3);
    s.data(OpKind::Write, 3, 0, 4096).record = OpFlags::DIRECT;
    s.fd(OpKind::Fdatasync, 3);
    let on = |place_ns: f64| {
        let known = [("FDSO", 1.0), ("FDSR", 1.0 + 15.0 * place_ns)];
        families_on(everything_but(&known), &s).split_off(written)
    };
    let places = ["DWO"; 5];
    assert_eq!(on(1e12)[..5], places);
    assert_eq!(on(1e12)[5..], ["FDSO+FDSR", "DWO", "FDSB"]);
    assert_eq!(on(1.0)[5..], ["FDSO", "DWO", "FDSB"]);
    let mut predictor = Predictor::new(
        Options::default(),
        vec![everything_but(&[("FDSO", 1.0), ("FDSR", 16e12)])],
    );
    let mut notes = Notes::default();
    for op in &s.ops {
        predictor.push_annotated(op, &s.paths, &mut notes).unwrap();
    }
    let (vector, _, _) = &notes.0[written + 5];
    let apart = vector.iter().find(|(name, _)| name == "FDSR").unwrap().1;
    // Four places, of which FDSO is one, each a sixteenth of FDSR's.
    assert!((apart - 3.0 / 16.0).abs() < 1e-3, "{apart}");
}

#[test]
fn commits_are_charged_by_the_pause_before_them() {
    let charged = |pause_ns: u64| {
        let mut s = Script::default();
        s.open("/log", CREATE, 3);
        s.data(OpKind::Write, 3, 0, 65536);
        for turn in 8..12 {
            s.data(OpKind::Write, 3, 8192 * turn, 8192);
            s.pause(pause_ns);
            s.fd(OpKind::Fdatasync, 3);
        }
        let mut predictor = Predictor::new(Options::default(), vec![everything()]);
        let mut notes = Notes::default();
        for op in &s.ops {
            predictor.push_annotated(op, &s.paths, &mut notes).unwrap();
        }
        notes.0.pop().unwrap().0.pop().unwrap().0
    };
    assert_eq!(charged(0), "FDSS_G10");
    assert_eq!(charged(3_000_000), "FDSS_G2000");
}

#[test]
fn reserved_blocks_become_data_once() {
    let mut s = Script::default();
    s.open("/redo", CREATE, 3);
    s.data(OpKind::Fallocate, 3, 0, 1 << 20);
    s.fd(OpKind::Fsync, 3);
    for at in [0, 4096, 0, 1 << 19] {
        s.data(OpKind::Write, 3, at, 4096);
        s.fd(OpKind::Fdatasync, 3);
    }
    assert_eq!(
        syncs(&s),
        ["FSYC", "FDSU", "FDSU", "FDSB", "FDSO+FDSR+FDSU"]
    );
}

#[test]
fn writes_that_wait_are_charged_as_what_they_wait_for() {
    let mut s = Script::default();
    s.open("/d", 0o10_102, 3);
    s.data(OpKind::Write, 3, 0, 4096);
    s.data(OpKind::Write, 3, 0, 4096);
    s.data(OpKind::Write, 3, 4096, 4096);
    s.data(OpKind::Write, 3, 8192, 100);
    s.data(OpKind::Write, 3, 8292, 100);
    s.open("/d", 0o4_010_002, 4);
    s.data(OpKind::Write, 4, 0, 4096);
    let got = families(&s);
    let expected = [
        "FSYN+WF",
        "FDSB+WD+WK+WO",
        "FDSA+WN",
        "FDSA+WN",
        "FDSA+WA+WD+WO",
        "OPEN",
        "FSYB+WK",
    ];
    assert_eq!(got[1..], expected);
}

#[test]
fn reads_hit_go_on_and_end() {
    let mut s = Script::default();
    s.open("/big", 0, 3).size_bytes = Some(1 << 20);
    s.data(OpKind::Read, 3, 0, 4096);
    s.data(OpKind::Read, 3, 4096, 4096);
    s.data(OpKind::Read, 3, 0, 4096);
    s.data(OpKind::Read, 3, 900_000, 4096);
    s.data(OpKind::Read, 3, 1 << 20, 4096).result = Outcome::ok(0);
    let got = families(&s);
    assert_eq!(got[1..4], ["RFO", "RD", "RCH"]);
    assert!(got[4].contains("RX"), "{got:?}");
    assert_eq!(got[5], "REOF");
}

/// An assembler looks where its file ends, writes its last table first, and reads the first page before it writes it.
#[test]
fn a_read_beyond_the_end_tells_of_no_data_before_it() {
    let mut s = Script::default();
    s.open("/o", CREATE, 3);
    s.data(OpKind::Read, 3, 4096, 900).result = Outcome::ok(0);
    s.data(OpKind::Write, 3, 5024, 72);
    s.data(OpKind::Read, 3, 0, 4096);
    assert_eq!(families(&s)[3], "RHO");
}

#[test]
fn dirty_data_expires_and_links_keep_files() {
    let mut s = Script::default();
    s.open("/f", CREATE, 3);
    s.data(OpKind::Write, 3, 0, 4096);
    s.fd(OpKind::Close, 3);
    s.paths.intern(b"/g");
    s.name(OpKind::Link, "/f").path2 = None;
    let second = s.paths.find(b"/g");
    s.ops.last_mut().unwrap().path2 = second;
    s.name(OpKind::Unlink, "/f");
    s.pause(60_000_000_000);
    s.name(OpKind::Unlink, "/g");
    assert_eq!(families(&s), ["CRC", "WF", "CLOSEW", "LINK", "RML", "RMF"]);
}

#[test]
fn missing_names_are_asked_for_first_and_again_and_links_are_followed() {
    let mut s = Script::default();
    s.name(OpKind::Mkdir, "/d");
    s.paths.intern(b"d");
    let text = s.paths.find(b"d");
    s.name(OpKind::Symlink, "/l").path2 = text;
    for _ in 0..2 {
        s.name(OpKind::Stat, "/l/x");
        s.error(Errno::ENOENT);
    }
    s.open("/l/x", CREATE, 3);
    s.name(OpKind::Stat, "/d/x");
    let mut predictor = Predictor::new(Options::default(), vec![everything()]);
    let mut notes = Notes::default();
    for op in &s.ops {
        predictor.push_annotated(op, &s.paths, &mut notes).unwrap();
    }
    let has = |i: usize, stem: &str| {
        notes.0[i]
            .0
            .iter()
            .any(|(n, _)| n.split("_G").next() == Some(stem))
    };
    assert!(has(2, "LUM") && !has(2, "LUMR"), "{:?}", notes.0[2]);
    assert!(has(3, "LUMR"), "{:?}", notes.0[3]);
    assert!(
        has(5, "STAT") && !has(5, "LUMR") && !has(5, "LUM"),
        "{:?}",
        notes.0[5]
    );
}

/// `tar x` sets the owner and times of each link that it makes: nothing is looked up behind it.
#[test]
fn what_changes_a_link_itself_does_not_follow_it() {
    const NOFOLLOW: u32 = 0x100;
    for kind in [
        OpKind::Utimens,
        OpKind::Chown,
        OpKind::Getxattr,
        OpKind::Stat,
    ] {
        let mut s = Script::default();
        s.paths.intern(b"/elsewhere/target");
        let text = s.paths.find(b"/elsewhere/target");
        s.name(OpKind::Symlink, "/l").path2 = text;
        s.name(kind, "/l").flags = NOFOLLOW;
        s.name(kind, "/l").flags = 0;
        let mut predictor = Predictor::new(Options::default(), vec![everything()]);
        let mut notes = Notes::default();
        for op in &s.ops {
            predictor.push_annotated(op, &s.paths, &mut notes).unwrap();
        }
        let uncached = |i: usize| {
            let metrics: &[(String, f64)] = &notes.0[i].0;
            metrics.iter().any(|(name, _)| name.ends_with("_NC"))
        };
        assert!(!uncached(1), "{kind:?}: {:?}", notes.0[1]);
        assert!(uncached(2), "{kind:?}: {:?}", notes.0[2]);
    }
}

#[test]
fn descriptors_pass_to_children_and_positions_are_kept() {
    let mut s = Script::default();
    s.open("/f", 0, 3).size_bytes = Some(16384);
    let fork = s.op(OpKind::Fork);
    (fork.result, fork.length) = (Outcome::ok(2), Some(2));
    let read = s.data(OpKind::Read, 3, 0, 4096);
    (read.pid, read.tid, read.offset) = (Pid(2), Tid(2), None);
    s.data(OpKind::Read, 3, 0, 4096).offset = None;
    // The second read goes on where the child's ended.
    assert_eq!(families(&s)[2..], ["RFO", "RD"]);
}

#[test]
fn the_first_allocation_after_a_cold_start_is_the_dearest() {
    let script = || {
        let mut s = Script::default();
        s.name(OpKind::Mkdir, "/one");
        s.name(OpKind::Mkdir, "/two");
        s.open("/one/f", CREATE, 3);
        s.open("/g", CREATE, 4);
        s
    };
    assert_eq!(families(&script()), ["MKDIRC", "MKDIR", "CRF", "CR"]);
    // What is cached from before needs nothing from the device.
    let options = Options {
        start: fsage_predict::Start::Warm,
        ..Options::default()
    };
    let mut predictor = Predictor::new(options, vec![everything()]);
    let mut notes = Notes::default();
    let warm = script();
    for op in &warm.ops {
        predictor
            .push_annotated(op, &warm.paths, &mut notes)
            .unwrap();
    }
    assert!(notes.0[0].0.iter().all(|(name, _)| name != "MKDIRC"));
}

#[test]
fn reserved_space_is_not_read_from_the_device() {
    let charged = |reserved: bool, kind: OpKind| {
        let mut s = Script::default();
        s.open("/out", CREATE, 3);
        if reserved {
            s.data(OpKind::Fallocate, 3, 0, 1 << 20);
        } else {
            s.data(OpKind::Write, 3, 0, 1 << 20);
            s.fd(OpKind::Fsync, 3);
            s.data(OpKind::Advise, 3, 0, 0).flags = 4;
        }
        s.data(kind, 3, 65536, 4096).flags = u32::from(kind == OpKind::Fault);
        families(&s).pop().unwrap()
    };
    assert_eq!(charged(true, OpKind::Fault), "MFRH");
    assert_eq!(charged(true, OpKind::Read), "RHO");
    for kind in [OpKind::Fault, OpKind::Read] {
        let read = charged(false, kind);
        assert!(read.contains("RFO"), "{read}");
    }
}

#[test]
fn the_first_block_brings_the_maps_of_all_groups_once() {
    let maps = |mkdir_first: bool, known: &[(&str, f64)]| {
        let mut s = Script::default();
        if mkdir_first {
            s.name(OpKind::Mkdir, "/d");
        }
        for (path, fd) in [("/a", 3), ("/b", 4)] {
            s.open(path, CREATE, fd);
            s.data(OpKind::Write, fd, 0, 4096);
        }
        if !mkdir_first {
            s.name(OpKind::Mkdir, "/d");
        }
        let notes = notes_on(everything_but(known), &s);
        let charged = notes.0.iter().flat_map(|note| &note.0);
        let maps = charged.filter(|(name, _)| name == "WFC");
        maps.map(|&(_, times)| times).collect::<Vec<f64>>()
    };
    let ext2 = [("WFC", 135e6), ("WN4", 2e3)];
    assert_eq!(maps(false, &ext2), [1.0]);
    // MKDIRC is of the first of all, and holds them.
    assert!(maps(true, &ext2).is_empty());
    // Space is found later elsewhere.
    assert!(maps(false, &[("WFC", 8e3), ("WN4", 2e3)]).is_empty());
}

/// What is made cold within a trace is cold again; where names stay, only data is.
#[test]
fn caches_made_cold_within_a_trace() {
    let after = |record| {
        let mut s = Script::default();
        s.name(OpKind::Mkdir, "/d");
        s.open("/d/f", CREATE, 3);
        s.data(OpKind::Write, 3, 0, 4096);
        s.fd(OpKind::Close, 3);
        s.open("/d/f", 2, 3).record = record;
        s.data(OpKind::Read, 3, 0, 4096);
        s.fd(OpKind::Fsync, 3);
        s.open("/d/g", CREATE, 4);
        let mut predictor = Predictor::new(Options::default(), vec![everything()]);
        let mut notes = Notes::default();
        for op in &s.ops {
            predictor.push_annotated(op, &s.paths, &mut notes).unwrap();
        }
        let lookups = |note: &common::Note| {
            let lookups = note.0.iter().filter(|(name, _)| name.starts_with("LU"));
            lookups.map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        let lookups = [lookups(&notes.0[4]), lookups(&notes.0[7])].map(|l| l.join("+"));
        (families(&s).split_off(4), lookups)
    };
    let reported = |families: [&str; 4], lookups: [&str; 2]| {
        (
            families.map(String::from).to_vec(),
            lookups.map(String::from),
        )
    };
    let warm = ["LUS_BC", "LUS_BC"];
    let now = after(OpFlags::default());
    assert_eq!(now, reported(["OPEN", "RCH", "FSYN", "CR"], warm));
    let now = after(OpFlags::COLD_DATA);
    assert_eq!(now, reported(["OPEN", "RFO", "FSYQ", "CR"], warm));
    let now = after(OpFlags::COLD_DATA | OpFlags::COLD_NAMES);
    assert_eq!(
        now,
        reported(["OPEN", "RFO", "FSYQ", "CRC"], ["LUR_NC+LUM_NC", "LUS_BC"])
    );
}

/// One request brings the inodes of 16 files, whatever their directories; what a lookup has brought is in the
/// processor's caches.
#[test]
fn inodes_come_together() {
    let mut s = Script::default();
    let path = |i: u32| format!("{}/f{i}", ["/a", "/b"][i as usize % 2]);
    for dir in ["/a", "/b"] {
        s.name(OpKind::Mkdir, dir);
    }
    for i in 0..200 {
        s.open(&path(i), CREATE, 3);
        s.fd(OpKind::Close, 3);
    }
    let made = s.ops.len();
    for i in [0, 1, 8, 4, 180] {
        s.name(OpKind::Stat, &path(i)).record = match i {
            0 => OpFlags::COLD_DATA | OpFlags::COLD_NAMES,
            _ => OpFlags::default(),
        };
    }
    let mut predictor = Predictor::new(Options::default(), vec![everything()]);
    let mut notes = Notes::default();
    for op in &s.ops {
        predictor.push_annotated(op, &s.paths, &mut notes).unwrap();
    }
    let last = |note: &common::Note| {
        let cold = note.0.iter().rfind(|(name, _)| name.ends_with("_NC"));
        cold.unwrap().0.clone()
    };
    let lookups: Vec<_> = notes.0[made..].iter().map(last).collect();
    // The directories were made first: their inodes bring those of the first files, whose names are still to be read.
    assert_eq!(lookups, ["LUM_NC", "LUM_NC", "LUS_NC", "LUS_NC", "LUF_NC"]);
    assert_eq!(families(&s)[made..], ["STAT"; 5]);
}

/// The families of the read of a neighbour of the last cold file, after a call of that kind for another file that came so
/// many milliseconds later; `dirty`, where that finds something to do.
fn beside(pause_ms: u64, ahead_ns: f64, (by, dirty): (OpKind, bool)) -> Vec<String> {
    let mut s = Script::default();
    for i in 0..2 {
        s.open(&format!("/d/f{i}"), CREATE, 3 + i);
        s.data(OpKind::Write, 3 + i, 0, 4096);
    }
    s.open("/log", CREATE, 5);
    s.fd(OpKind::Fsync, 5);
    let op = s.data(OpKind::Read, 3, 0, 4096);
    op.record |= OpFlags::COLD_DATA;
    if dirty {
        s.data(OpKind::Write, 5, 0, 4096);
    }
    s.pause(pause_ms * 1_000_000);
    let op = s.fd(by, 5);
    if by == OpKind::SyncFileRange {
        // Starts to write, and waits before and after that.
        op.flags = 7;
    }
    s.data(OpKind::Read, 4, 0, 4096);
    let mut system = everything();
    for (name, value) in [
        ("RFF", 1e7),
        ("RFO", 1e7),
        ("RD1024", 1e5),
        ("RXA256", ahead_ns),
    ] {
        system.size(name, value);
    }
    let mut predictor = Predictor::new(Options::default(), vec![system]);
    let mut notes = Notes::default();
    for op in &s.ops {
        predictor.push_annotated(op, &s.paths, &mut notes).unwrap();
    }
    let last = notes.0.pop().unwrap().0;
    let stem = |(name, _): (String, f64)| name.split('_').next().unwrap_or(&name).to_owned();
    let mut stems: Vec<String> = last.into_iter().map(stem).collect();
    stems.dedup();
    stems
}

#[test]
fn a_neighbour_costs_an_access_once_the_arm_has_left_unless_the_drive_has_read_on() {
    let synced = (OpKind::Fsync, true);
    let is_near = |stems: Vec<String>| stems.contains(&"RFN".to_owned());
    assert!(!is_near(beside(0, 1.0, synced)));
    assert!(is_near(beside(20, 1.0, synced)));
    // A device that never reads on is no such drive.
    assert!(is_near(beside(0, 1e7, synced)));
    // What finds nothing to do, or hands to the drive's memory what it writes, takes no arm away.
    assert!(is_near(beside(0, 1.0, (OpKind::Fdatasync, false))));
    assert!(is_near(beside(0, 1.0, (OpKind::SyncFileRange, true))));
}

#[test]
fn a_size_that_is_set_again_is_a_change_for_fdatasync_where_the_file_system_takes_it_for_one() {
    let synced = |file_system: &str, size: u64| {
        let mut s = Script::default();
        s.open("/f", CREATE, 3);
        s.data(OpKind::Write, 3, 0, 14);
        s.fd(OpKind::Fsync, 3);
        s.data(OpKind::Write, 3, 0, 14);
        s.fd(OpKind::Ftruncate, 3).length = Some(size);
        s.fd(OpKind::Fdatasync, 3);
        let mut system = everything();
        system.machine.file_system = FileSystemName::of(file_system);
        families_on(system, &s).pop().unwrap()
    };
    assert_eq!(synced("ext4", 14), "FDSB");
    assert_eq!(synced("ext4", 13), "FDSA");
    assert_eq!(synced("xfs", 14), "FDSA");
    // Nothing was written since: fsync commits the times, and fdatasync where the file system does.
    let alone = |file_system: &str, by: OpKind| {
        let mut s = Script::default();
        s.open("/f", CREATE, 3);
        s.data(OpKind::Write, 3, 0, 14);
        s.fd(OpKind::Fsync, 3);
        s.fd(OpKind::Ftruncate, 3).length = Some(14);
        s.fd(by, 3);
        let mut system = everything();
        system.machine.file_system = FileSystemName::of(file_system);
        families_on(system, &s).pop().unwrap()
    };
    assert_eq!(alone("ext4", OpKind::Fsync), "FSYRN");
    assert_eq!(alone("ext4", OpKind::Fdatasync), "FSYQ");
    assert_eq!(alone("btrfs", OpKind::Fdatasync), "FSYRN");
}

#[test]
fn what_goes_past_the_cache_leaves_nothing_of_its_range_there() {
    let run = |direct: OpKind, then: u64| {
        let mut s = Script::default();
        s.open("/f", CREATE, 3);
        s.data(OpKind::Write, 3, 0, 1 << 20);
        s.fd(OpKind::Fsync, 3);
        s.data(OpKind::Write, 3, 16384, 16384);
        s.open("/f", 2, 4);
        s.data(direct, 4, 16384, 16384).record |= OpFlags::DIRECT;
        s.data(OpKind::Read, 3, then, 4096);
        s.fd(OpKind::Fdatasync, 3);
        families(&s).split_off(5)
    };
    let read = run(OpKind::Read, 16384);
    // What was dirty is written first, and stays.
    assert!(
        read[0].contains("SFR") && !read[1].contains("RF"),
        "{read:?}"
    );
    let written = run(OpKind::Write, 16384);
    assert_eq!(written[0], "DWO+SFR");
    assert!(written[1].contains("RFO"), "{written:?}");
    assert!(!run(OpKind::Write, 0)[1].contains("RF"));
}

/// The family of the read of a file beside the one read before, between which a name was looked up that was cached or
/// not, on a device that reads so much ahead that a read after a rest takes `rested_ns`.
fn after_a_lookup(cached: bool, rested_ns: f64) -> String {
    let mut s = Script::default();
    for i in 0..40 {
        s.open(&format!("/d/f{i}"), CREATE, 3);
        s.data(OpKind::Write, 3, 0, 4096);
        s.fd(OpKind::Close, 3);
    }
    s.open("/d/f4", 0, 4).record |= OpFlags::COLD_DATA | OpFlags::COLD_NAMES;
    s.open("/d/f5", 0, 5);
    s.data(OpKind::Read, 4, 0, 4096);
    s.name(OpKind::Stat, if cached { "/d/f4" } else { "/d/f39" });
    s.data(OpKind::Read, 5, 0, 4096);
    let known = [
        ("RFF", 1e7),
        ("RFO", 1e7),
        ("RD1024", 1e5),
        ("RXA256", rested_ns),
    ];
    let families = families_on(everything_but(&known), &s).pop().unwrap();
    // Before it may stand what is moved.
    families.rsplit('+').next().unwrap().to_owned()
}

#[test]
fn blocks_of_metadata_take_the_arm_away_where_nothing_is_read_on() {
    assert_eq!(after_a_lookup(true, 1e7), "RFN");
    assert_eq!(after_a_lookup(false, 1e7), "RFF");
    // What reads on holds the neighbour; tables of inodes are small against it.
    assert_eq!(after_a_lookup(false, 1.0), "RFN");
}

/// Forty files of one directory, cold; it is listed, perhaps every one is looked at in the order of `looks`, and every one
/// is read in that of `turns`.
fn after_a_listing(
    looks: Option<&dyn Fn(usize) -> usize>,
    turns: impl Fn(usize) -> usize,
    lists_by_creation: bool,
) -> Vec<Relation> {
    read_by(Pid(1), looks, turns, lists_by_creation)
}

/// The same, read by that process: 2 ran before the directory was listed, 3 is started afterwards, both by the lister's
/// parent.
fn read_by(
    reader: Pid,
    looks: Option<&dyn Fn(usize) -> usize>,
    turns: impl Fn(usize) -> usize,
    lists_by_creation: bool,
) -> Vec<Relation> {
    let mut s = Script::default();
    let begins = |s: &mut Script, child: u64| {
        let op = s.op(OpKind::Fork);
        (op.pid, op.tid) = (Pid(9), Tid(9));
        (op.result, op.length) = (Outcome::ok(child), Some(child));
    };
    begins(&mut s, 1);
    begins(&mut s, 2);
    let path = |i: usize| format!("/d/{:02}", i * 7 % 40);
    for i in 0..40 {
        s.open(&path(i), CREATE, 3);
        s.data(OpKind::Write, 3, 0, 4096);
        s.fd(OpKind::Close, 3);
    }
    s.open("/d", 0, 3).record |= OpFlags::COLD_DATA | OpFlags::DIRECTORY;
    s.fd(OpKind::Readdir, 3).result = Outcome::ok(1200);
    if let Some(looks) = looks {
        for turn in 0..40 {
            s.name(OpKind::Stat, &path(looks(turn)));
        }
    }
    begins(&mut s, 3);
    let from = s.ops.len();
    for turn in 0..40 {
        s.open(&path(turns(turn)), 0, 4);
        s.data(OpKind::Read, 4, 0, 4096);
        s.fd(OpKind::Close, 4);
    }
    for op in s.ops.iter_mut().skip(from) {
        (op.pid, op.tid) = (reader, Tid(reader.0));
    }
    let mut system = everything();
    let file_system = if lists_by_creation { "xfs" } else { "ext4" };
    system.machine.file_system = FileSystemName::of(file_system);
    let mut predictor = Predictor::new(Options::default(), vec![system]);
    let mut notes = Notes::default();
    for op in &s.ops {
        let read = op.kind == OpKind::Read;
        let before = notes.0.len();
        predictor.push_annotated(op, &s.paths, &mut notes).unwrap();
        notes.0.truncate(if read { before + 1 } else { before });
    }
    notes.0.into_iter().map(|note| note.2).collect()
}

#[test]
fn who_follows_a_listing_reads_in_the_order_of_creation_where_directories_list_so() {
    let next = |relations: Vec<Relation>| {
        let next = relations.iter().filter(|&&r| r == Relation::Next);
        next.count()
    };
    let by_hash = |turn| turn * 11 % 40;
    assert_eq!(next(after_a_listing(None, by_hash, false)), 0);
    assert!(next(after_a_listing(None, by_hash, true)) > 30);
    // By name is a program's own order: 23 is the inverse of 7 modulo 40.
    let by_name = |turn| turn * 23 % 40;
    assert_eq!(next(after_a_listing(None, by_name, true)), 0);
    // From the last one too (`sort -r`, `ls -t`).
    assert_eq!(
        next(after_a_listing(None, |turn| by_name(39 - turn), true)),
        0
    );
    assert_eq!(next(after_a_listing(None, |turn| 39 - turn, true)), 0);
    // So it is after a look at all as they are listed (rsync); zip reads in the order in which it looked.
    let looked = |turns: &dyn Fn(usize) -> usize| {
        let relations = after_a_listing(Some(&by_hash), turns, true);
        next(relations)
    };
    assert!(looked(&by_name) < 4);
    assert!(looked(&by_hash) > 30);
    // The other end of a pipe takes what comes out of it; the shell's next command goes its own way.
    let by = |reader| next(read_by(Pid(reader), None, by_hash, true));
    assert!(by(2) > 30);
    assert_eq!(by(3), 0);
}

/// The metrics of the lookups of files in directories that were created one after the other, after a pause each.
fn in_cold_directories(lookup_ns: f64) -> Vec<bool> {
    let mut s = Script::default();
    for i in 0..4 {
        s.name(OpKind::Mkdir, &format!("/d{i}"));
        s.open(&format!("/d{i}/f"), CREATE, 3);
        s.fd(OpKind::Close, 3);
    }
    for i in 0..4 {
        s.pause(5_000_000);
        let op = s.name(OpKind::Stat, &format!("/d{i}/f"));
        if i == 0 {
            op.record |= OpFlags::COLD_DATA | OpFlags::COLD_NAMES;
        }
    }
    let mut system = everything();
    for (name, value) in [("RFF", 1e7), ("RD1024", 1e5), ("LUR_NC", lookup_ns)] {
        system.size(name, value);
    }
    let mut predictor = Predictor::new(Options::default(), vec![system]);
    let mut notes = Notes::default();
    for op in &s.ops {
        predictor.push_annotated(op, &s.paths, &mut notes).unwrap();
    }
    let lookups = notes.0.iter().rev().take(4).rev();
    lookups
        .map(|note| note.0.iter().any(|(name, _)| name == "RFF"))
        .collect()
}

#[test]
fn blocks_of_directories_lie_beside_each_other_in_the_order_of_creation() {
    assert_eq!(in_cold_directories(1e5), [true, false, false, false]);
    // Where they lie apart that is in the cost of a lookup.
    assert_eq!(in_cold_directories(5e6), [false; 4]);
}

#[test]
fn the_first_read_of_a_file_not_touched_for_long_finds_nothing_in_the_processor() {
    let mut s = Script::default();
    s.open("/old", CREATE, 3);
    s.data(OpKind::Write, 3, 0, 8192);
    s.fd(OpKind::Close, 3);
    for i in 0..300 {
        let path = format!("/other{i}");
        s.open(&path, CREATE, 3);
        s.data(OpKind::Write, 3, 0, 64 << 10);
        s.fd(OpKind::Close, 3);
    }
    for _ in 0..2 {
        s.open("/old", 0, 3);
        s.data(OpKind::Read, 3, 0, 4096);
        s.data(OpKind::Read, 3, 4096, 4096);
        s.fd(OpKind::Close, 3);
    }
    let got = families(&s);
    let reads: Vec<&String> = got.iter().filter(|f| f.starts_with("RC")).collect();
    assert_eq!(reads, ["RCF", "RC", "RCH", "RCH"]);
}

#[test]
fn neighbours_in_creation_order_are_cheaper_than_any_file() {
    let mut s = Script::default();
    for i in 0..600 {
        s.open(&format!("/f{i:03}"), CREATE, 3);
        s.data(OpKind::Write, 3, 0, 48 << 10);
        s.fd(OpKind::Close, 3);
    }
    for path in ["/f400", "/f010", "/f011", "/f200", "/f011"] {
        s.name(OpKind::Stat, path);
    }
    s.name(OpKind::Unlink, "/f012");
    s.name(OpKind::Unlink, "/f380");
    s.name(OpKind::Unlink, "/f381");
    let got = families(&s);
    assert_eq!(
        got[1800..],
        [
            "OBJR+STAT",
            "OBJ+STAT",
            "OBJN+STAT",
            "OBJ+STAT",
            "STAT",
            "RMD",
            "OBJU+RMD",
            "RMD"
        ]
    );
}

/// Files lie in memory in the order in which they came into it, not in that of their creation.
#[test]
fn a_removal_after_that_of_a_file_that_came_beside_it() {
    let mut s = Script::default();
    let path = |i: u32| format!("/f{i}");
    for i in 0..800 {
        s.open(&path(i), CREATE, 3);
        s.fd(OpKind::Close, 3);
    }
    s.name(OpKind::Stat, &path(300)).record = OpFlags::COLD_DATA | OpFlags::COLD_NAMES;
    for i in [10].into_iter().chain(400..=700) {
        s.name(OpKind::Stat, &path(i));
    }
    s.open("/other", CREATE, 3);
    s.data(OpKind::Write, 3, 0, 3 << 20);
    for i in [300, 10, 700] {
        s.name(OpKind::Unlink, &path(i));
    }
    let got = families(&s);
    assert_eq!(got[got.len() - 3..], ["OBJU+RM", "RM", "OBJU+RM"]);
}

#[test]
fn an_attribute_that_is_missing_is_asked_of_the_file() {
    let mut s = Script::default();
    s.open("/f", CREATE, 3);
    s.name(OpKind::Getxattr, "/f");
    s.error(Errno::ENODATA);
    s.name(OpKind::Readlink, "/f");
    s.error(Errno::EINVAL);
    s.name(OpKind::Getxattr, "/missing");
    s.error(Errno::ENOENT);
    assert_eq!(families(&s), ["CRC", "GETXATTR", "READLINK", "STATM"]);
}

#[test]
fn a_directory_remembers_every_name_that_went() {
    let mut s = Script::default();
    s.name(OpKind::Mkdir, "/d");
    for i in 0..500 {
        s.open(&format!("/d/{i}"), CREATE, 3);
        s.fd(OpKind::Close, 3);
        s.name(OpKind::Unlink, &format!("/d/{i}"));
    }
    s.name(OpKind::Rmdir, "/d");
    let mut predictor = Predictor::new(Options::default(), vec![everything()]);
    let mut notes = Notes::default();
    for op in &s.ops {
        predictor.push_annotated(op, &s.paths, &mut notes).unwrap();
    }
    // Never more than one at once, 500 in all: half of RMDIRB's thousand.
    let (vector, _, _) = notes.0.last().unwrap();
    assert!(vector.contains(&("RMDIRB".to_owned(), 0.5)), "{vector:?}");
}

#[test]
fn writers_past_the_threshold_wait_for_the_device() {
    let metrics = [
        ("WF4", 1000.0),
        ("WN4", 1000.0),
        ("DTH", 16.0),
        ("DTR", 1024.0),
    ];
    let mut s = Script::default();
    s.open("/f", CREATE, 3);
    for i in 0..6 {
        s.data(OpKind::Write, 3, i * 4096, 4096);
    }
    let mut notes = Notes::default();
    let mut predictor = Predictor::new(Options::default(), vec![common::system("s", &metrics)]);
    for op in &s.ops {
        predictor.push_annotated(op, &s.paths, &mut notes).unwrap();
    }
    let waits = |i: usize| notes.0[i].0.iter().any(|(name, _)| name == "DTR");
    // Four writes fill 16 KiB, the fifth waits; what drains between them is some bytes.
    assert!(!waits(4) && waits(5) && waits(6));
    assert!(notes.0[6].1 > 3.5e6, "{:?}", notes.0[6]);
}

#[test]
fn changes_of_names_past_what_there_is_room_for_wait() {
    let room = |metrics: &[(&str, f64)]| {
        let mut s = Script::default();
        for i in 0..3 {
            s.open(&format!("/f{i}"), CREATE, 3);
            s.fd(OpKind::Close, 3);
        }
        s.name(OpKind::Unlink, "/f0");
        s.open("/f0", CREATE, 3);
        s.open("/f3", CREATE, 4);
        s.op(OpKind::Sync);
        s.name(OpKind::Unlink, "/f1");
        let mut notes = Notes::default();
        let mut predictor = Predictor::new(Options::default(), vec![common::system("s", metrics)]);
        for op in &s.ops {
            predictor.push_annotated(op, &s.paths, &mut notes).unwrap();
        }
        let waits = |vector: &Vec<(String, f64)>| vector.iter().any(|(name, _)| name == "MTW");
        let waited: Vec<bool> = notes.0.iter().map(|(vector, ..)| waits(vector)).collect();
        waited
    };
    // Two fit, and the third waits. One that goes makes room for one more, and after a sync there is room again.
    let waited = room(&[("CR", 10.0), ("MTH", 2.0), ("MTW", 80_000.0)]);
    assert_eq!(
        waited,
        [
            false, false, false, false, true, false, false, false, true, false, false
        ]
    );
    assert!(!room(&[("CR", 10.0), ("MTH", 2.0)]).contains(&true));
}

#[test]
fn scattered_blocks_past_what_there_is_room_for_are_all_written() {
    let by = |kind: OpKind, metrics: &[(&str, f64)], pages: &[u64]| {
        let mut s = Script::default();
        s.open("/f", CREATE, 3);
        s.data(OpKind::Write, 3, 0, 64 * 4096);
        s.fd(OpKind::Fsync, 3);
        for page in pages {
            s.data(kind, 3, page * 4096, 4096).flags = u32::from(kind == OpKind::Fault);
        }
        let mut notes = Notes::default();
        let mut predictor = Predictor::new(Options::default(), vec![common::system("s", metrics)]);
        for op in &s.ops {
            predictor.push_annotated(op, &s.paths, &mut notes).unwrap();
        }
        let waits = |vector: &Vec<(String, f64)>| vector.contains(&("BTW".to_owned(), 2.0));
        let waits: Vec<bool> = notes.0.iter().map(|(vector, ..)| waits(vector)).collect();
        waits[3..].to_vec()
    };
    let waits = |metrics: &[_], pages: &[_]| by(OpKind::Write, metrics, pages);
    let known = [("WK4", 10.0), ("BTH", 2.0), ("BTW", 80_000.0)];
    // Two fit. With the third all are written, the fourth and fifth have room again. A block that is dirty takes no more.
    let apart = [10, 20, 20, 30, 40, 50, 60];
    let expected = [false, false, false, true, false, false, true];
    assert_eq!(waits(&known, &apart), expected);
    // One behind the other they are one piece.
    assert_eq!(waits(&known, &[10, 11, 12, 13, 14]), [false; 5]);
    // Stores to mapped pages make pieces as writes do.
    assert_eq!(by(OpKind::Fault, &known, &apart), expected);
    // In any order: what lies between two pieces makes one of them.
    assert_eq!(waits(&known, &[10, 12, 11, 14, 13, 15]), [false; 6]);
    assert_eq!(waits(&known[..2], &apart), [false; 7]);
}

#[test]
fn what_if_tells_the_elapsed_time_too() {
    let mut s = Script::default();
    s.open("/f", CREATE, 3);
    s.data(OpKind::Write, 3, 0, 4096);
    let changes = ["CR*2".parse::<fsage_predict::Change>().unwrap()];
    let vector = common::system(
        "s",
        &[
            ("CR", 5000.0),
            ("WF4", 1000.0),
            ("LUS_BC", 10.0),
            ("LUR_NC", 10.0),
            ("LUM_NC", 10.0),
        ],
    );
    let mut predictor = Predictor::new(Options::default(), vec![vector]).also(&changes);
    for op in &s.ops {
        predictor.push(op, &s.paths);
    }
    let result = predictor.finish();
    let target = &result.targets[0];
    let changed = target.what_if.as_ref().unwrap();
    let more = changed.elapsed_ns - target.elapsed_ns.unwrap();
    assert!((more - changed.difference_ns).abs() < 1e-6 && more > 4000.0);
}

#[test]
fn a_sendfile_is_charged_by_the_family_of_its_socket() {
    let mut s = Script::default();
    s.open("/f", CREATE, 3);
    s.data(OpKind::Write, 3, 0, 8192);
    for family in [0, 1, 2, 10] {
        s.data(OpKind::Sendfile, 3, 0, 8192);
        s.ops.last_mut().unwrap().flags = family;
    }
    let found = families(&s);
    // What the copy to a program costs is taken away again, which the names do not show.
    assert_eq!(found[2..], ["RCH", "RC+SNDU", "RC+SND", "RC+SND"]);
}

#[test]
fn a_request_to_a_registered_file_is_of_the_open_file_that_the_process_has() {
    const O_DSYNC_DIRECT: u32 = 0o10_000 | 0o40_000;
    let mut s = Script::default();
    let id = fsage_core::FileId {
        dev: fsage_core::DevId(1),
        ino: 7,
        generation: 0,
    };
    s.open("/f", CREATE, 3);
    s.ops.last_mut().unwrap().file = Some(id);
    s.open("/f", CREATE | O_DSYNC_DIRECT, 4);
    s.ops.last_mut().unwrap().file = Some(id);
    for record in [OpFlags::URING, OpFlags::URING | OpFlags::DIRECT] {
        s.data(OpKind::Write, 0, 0, 4096);
        let op = s.ops.last_mut().unwrap();
        (op.fd, op.file, op.record) = (None, Some(id), record);
    }
    // What went to the cache is written first.
    assert_eq!(families(&s)[2..], ["WF", "FDSB+SFR"]);
}

#[test]
fn truncation_of_what_was_never_written_back_is_told_from_that_of_what_was() {
    let mut s = Script::default();
    s.open("/f", CREATE, 3);
    s.data(OpKind::Write, 3, 0, 20_000);
    s.fd(OpKind::Ftruncate, 3).length = Some(15_000);
    s.fd(OpKind::Ftruncate, 3).length = Some(30_000);
    s.fd(OpKind::Fsync, 3);
    s.fd(OpKind::Ftruncate, 3).length = Some(40_000);
    s.fd(OpKind::Ftruncate, 3).length = Some(10_000);
    let found = families(&s);
    assert_eq!(found[2..4], ["TRPD", "TRXD"]);
    assert_eq!(found[5..], ["TRX", "TRP"]);
    // The pages stay in the cache when all else is overwritten in place.
    let mut s = Script::default();
    s.open("/f", CREATE, 3);
    s.data(OpKind::Write, 3, 0, 20_000);
    s.fd(OpKind::Fsync, 3);
    s.data(OpKind::Write, 3, 0, 4096);
    s.fd(OpKind::Ftruncate, 3).length = Some(15_000);
    assert_eq!(families(&s)[4..], ["TRP"]);
}

#[test]
fn data_that_was_never_written_back_is_renamed_over_and_truncated_at_another_cost() {
    let mut s = Script::default();
    for (path, fd) in [("/a", 3), ("/b", 4)] {
        s.open(path, CREATE, fd);
        s.data(OpKind::Write, fd, 0, 4096);
        s.fd(OpKind::Fsync, fd);
    }
    let to = s.paths.intern(b"/b");
    s.name(OpKind::Rename, "/a").path2 = to;
    s.open("/c", CREATE, 5);
    s.data(OpKind::Write, 5, 0, 8192);
    let to = s.paths.intern(b"/b");
    s.name(OpKind::Rename, "/c").path2 = to;
    let to = s.paths.intern(b"/d");
    s.name(OpKind::Rename, "/b").path2 = to;
    s.open("/e", CREATE, 6);
    s.data(OpKind::Write, 6, 0, 8192);
    s.fd(OpKind::Ftruncate, 6).length = Some(0);
    let found = families(&s);
    assert_eq!(found[6], "RENAMER");
    assert_eq!(found[9..11], ["RENAMED", "RENAME"]);
    assert_eq!(found[13], "TRD");
}

#[test]
fn a_name_goes_alone_while_the_file_has_another() {
    let mut s = Script::default();
    s.open("/a", CREATE, 3);
    s.fd(OpKind::Close, 3);
    let to = s.paths.intern(b"/b");
    s.name(OpKind::Link, "/a").path2 = to;
    s.name(OpKind::Unlink, "/a");
    s.name(OpKind::Unlink, "/b");
    s.open("/c", CREATE, 3);
    s.name(OpKind::Unlink, "/c");
    let found = families(&s);
    assert_eq!(found[3..5], ["RML", "RM"]);
    assert_eq!(found[6], "RM", "an open file's last name");
}

#[test]
fn a_create_passes_over_what_was_freed_in_an_earlier_second() {
    let run = |pause_ns: u64| {
        let mut s = Script::default();
        s.name(OpKind::Mkdir, "/d");
        for path in ["/d/a", "/d/b", "/d/c"] {
            s.open(path, CREATE, 3);
            s.fd(OpKind::Close, 3);
        }
        s.name(OpKind::Unlink, "/d/a");
        s.name(OpKind::Unlink, "/d/b");
        s.pause(pause_ns);
        s.open("/d/e", CREATE, 3);
        s
    };
    let last = |value: f64, pause_ns: u64| {
        let system = everything_but(&[("CRP", value)]);
        families_on(system, &run(pause_ns)).pop().unwrap()
    };
    assert_eq!(last(20.0, 1_000_000_000), "CR+CRP");
    // It is given again, or nothing is passed over there.
    assert_eq!(last(20.0, 1000), "CR");
    assert_eq!(last(1.0, 1_000_000_000), "CR");
}

/// The families of operations in which `family` is.
fn charged(script: &Script, family: &str) -> Vec<String> {
    let all = families(script).into_iter();
    all.filter(|families| families.contains(family)).collect()
}

#[test]
fn removals_in_a_long_row_are_held_up() {
    let held = |pause_ns: u64| {
        let mut s = Script::default();
        let paths: Vec<String> = (0..300).map(|n| format!("/{n}")).collect();
        for path in &paths {
            s.open(path, CREATE, 3);
            s.fd(OpKind::Close, 3);
        }
        for path in &paths {
            s.pause(pause_ns);
            s.name(OpKind::Unlink, path);
        }
        charged(&s, "RMQ").len()
    };
    assert_eq!(held(10_000), 300 - 256);
    assert_eq!(held(2_000_000), 0);
}

#[test]
fn a_file_that_becomes_dirty_after_many_waits_for_what_they_left_to_be_done() {
    let held = |pause_ns: u64, flags: u32, bytes: u64, room: f64| {
        let mut s = Script::default();
        for number in 0..200 {
            s.pause(pause_ns);
            s.open(&format!("/d/f{number}"), flags, 3).size_bytes = Some(0);
            if bytes > 0 {
                s.data(OpKind::Write, 3, 0, bytes);
                s.data(OpKind::Write, 3, bytes, bytes);
            }
            s.fd(OpKind::Close, 3);
        }
        let all = families_on(everything_but(&[("DFH", room)]), &s).into_iter();
        all.filter(|families| families.contains("CRQ")).count()
    };
    let endless = f64::INFINITY;
    assert_eq!(held(10_000, CREATE, 4096, endless), 200 - 128);
    assert_eq!(held(10_000, 1, 100, endless), 200 - 128);
    assert_eq!(held(2_000_000, CREATE, 4096, endless), 0);
    // What stays empty leaves nothing; where there is little room that tells the same.
    assert_eq!(held(10_000, CREATE, 0, endless), 0);
    assert_eq!(held(10_000, CREATE, 4096, 100.0), 0);
}

#[test]
fn hard_links_of_a_directory_one_after_another_are_told_from_those_all_over() {
    let mut s = Script::default();
    for dir in ["/a", "/b", "/c"] {
        s.name(OpKind::Mkdir, dir);
    }
    s.open("/a/f", CREATE, 3);
    let link = |s: &mut Script, to: &str| {
        let to = s.paths.intern(to.as_bytes());
        s.name(OpKind::Link, "/a/f").path2 = to;
    };
    link(&mut s, "/b/1");
    link(&mut s, "/b/2");
    link(&mut s, "/c/1");
    link(&mut s, "/c/2");
    s.fd(OpKind::Fsync, 3);
    link(&mut s, "/c/3");
    assert_eq!(
        charged(&s, "LINK"),
        ["LINK", "LINKR", "LINK", "LINKR", "LINK"]
    );
}

const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;

/// The random accesses that reads of the pages of a file of four pages in pieces are charged, and those of one read of
/// them all.
fn reads_in_pieces(
    extents: &[(u64, u64, u64)],
    laid_out_by: &str,
    predicted_on: &str,
) -> (Vec<f64>, f64) {
    let mut system = everything();
    system.machine.file_system = FileSystemName::of(predicted_on);
    let mut predictor = Predictor::new(Options::default(), vec![system]);
    let namespace = predictor.namespace_mut();
    namespace.laid_out_by = FileSystemName::of(laid_out_by);
    let root = namespace.directory(b"/");
    let mut file = FileRecord {
        path: b"f",
        id: FileId::default(),
        kind: NodeKind::Regular,
        size: 4 * PAGE,
        allocated: 4 * PAGE,
        target: None,
        extents,
    };
    for (ino, path) in [(2, b"f"), (3, b"g")] {
        (file.path, file.id.ino) = (path, ino);
        namespace.add(root, &file);
    }
    let mut s = Script::default();
    s.open("/f", 0, 3);
    for page in 0..4 {
        s.data(OpKind::Read, 3, page * PAGE, PAGE);
    }
    s.open("/g", 0, 4);
    s.data(OpKind::Read, 4, 0, 4 * PAGE);
    let mut notes = Notes::default();
    for op in &s.ops {
        predictor.push_annotated(op, &s.paths, &mut notes).unwrap();
    }
    let accesses = |at: usize| {
        let vector = notes.0[at].0.iter();
        vector
            .filter(|(name, _)| name.starts_with("RX"))
            .map(|w| w.1)
            .sum()
    };
    ((1..5).map(accesses).collect(), accesses(6))
}

#[test]
fn a_file_in_pieces_is_read_piece_by_piece_where_the_same_file_system_cuts_it() {
    let mut extents = [
        (0, MIB, PAGE),
        (PAGE, 9 * MIB, PAGE),
        // Told apart, and behind the one before all the same.
        (2 * PAGE, 9 * MIB + PAGE, PAGE),
        (3 * PAGE, MIB + PAGE, PAGE),
    ];
    let none = (vec![0.0; 4], 0.0);
    let both = reads_in_pieces(&extents, "ext4", "ext4");
    assert_eq!(both, (vec![0.0, 1.0, 0.0, 1.0], 2.0));
    // Another cuts its own files, nobody knows where.
    assert_eq!(reads_in_pieces(&extents, "ext4", "ext2"), none);
    assert_eq!(reads_in_pieces(&extents, "", ""), none);
    // What is not written yet is nowhere, and behind a hole it may go on.
    extents[3].1 = 0;
    assert_eq!(reads_in_pieces(&extents, "ext4", "ext4"), none);
    let holes = [extents[0], extents[2]];
    assert_eq!(reads_in_pieces(&holes, "ext4", "ext4"), none);
}

fn last_charges(script: &Script) -> Vec<String> {
    last_vector(script)
        .into_iter()
        .map(|(name, _)| name)
        .collect()
}

#[test]
fn what_has_no_space_or_holds_nothing_costs_nothing_to_free() {
    let gone = |fill: &dyn Fn(&mut Script)| {
        let mut s = Script::default();
        s.open("/f", CREATE, 3);
        fill(&mut s);
        s.fd(OpKind::Ftruncate, 3).length = Some(0);
        last_charges(&s)
    };
    let hole = gone(&|s| s.fd(OpKind::Ftruncate, 3).length = Some(1 << 30));
    assert_eq!(hole, ["TR1"], "a hole");
    let reserved = gone(&|s| {
        s.data(OpKind::Fallocate, 3, 0, 1 << 30);
    });
    assert_eq!(reserved, ["TR1"], "reserved and never written");
    let some = gone(&|s| {
        s.data(OpKind::Fallocate, 3, 0, 1 << 30);
        s.data(OpKind::Write, 3, 0, 4096);
        s.fd(OpKind::Fsync, 3);
    });
    assert_eq!(some, ["TR4"], "what was written of it");
}

#[test]
fn an_allocation_costs_by_what_had_no_space() {
    let mut s = Script::default();
    s.open("/f", CREATE, 3);
    s.data(OpKind::Write, 3, 0, 60 << 10);
    s.data(OpKind::Fallocate, 3, 0, 64 << 10);
    assert_eq!(last_charges(&s), ["FALLOC4"]);
    s.data(OpKind::Fallocate, 3, 0, 64 << 10);
    assert_eq!(last_charges(&s), ["FALLOC1"], "all of it had");
    s.data(OpKind::Fallocate, 3, 0, 64 << 10).flags = 3;
    let cut = last_charges(&s);
    assert!(
        cut.iter().all(|name| name.starts_with("TRPD")),
        "a hole: {cut:?}"
    );
    s.data(OpKind::Write, 3, 0, 128 << 10);
    s.fd(OpKind::Fsync, 3);
    s.data(OpKind::Write, 3, 60 << 10, 8 << 10);
    s.fd(OpKind::Fdatasync, 3);
    let synced = last_charges(&s);
    assert!(
        !synced.iter().any(|name| name.starts_with("FDSU")),
        "neither is reserved: {synced:?}"
    );
}

#[test]
fn growing_a_file_writes_what_lies_beyond_its_size_on_the_device() {
    let grown = |whole: bool| {
        let mut s = Script::default();
        s.open("/f", CREATE, 3);
        s.data(OpKind::Write, 3, 0, 1 << 20);
        s.fd(OpKind::Ftruncate, 3).length = Some(2 << 20);
        let first = last_charges(&s);
        s.data(OpKind::Write, 3, 0, 1 << 20);
        let end = if whole { 2 << 20 } else { (2 << 20) + 100 };
        s.data(OpKind::Write, 3, end - 4096, 4096);
        s.fd(OpKind::Ftruncate, 3).length = Some(3 << 20);
        (first, last_charges(&s))
    };
    let (first, again) = grown(true);
    assert_eq!(first, ["TRXD1024"]);
    assert!(
        again
            .iter()
            .all(|name| name.starts_with("TRX_") || name == "TRX"),
        "{again:?}"
    );
    assert_eq!(grown(false).1, ["TRXD4"], "the page that holds the end");
}

#[test]
fn an_open_that_truncates_frees_what_was_written_and_no_hole() {
    const TRUNCATES: u32 = 0o1_001;
    let freed = |hole: bool| {
        let mut s = Script::default();
        s.open("/image", CREATE, 3);
        s.data(OpKind::Write, 3, 0, 1 << 20);
        if hole {
            s.fd(OpKind::Ftruncate, 3).length = Some(1 << 30);
        }
        s.fd(OpKind::Fsync, 3);
        s.fd(OpKind::Close, 3);
        s.open("/image", TRUNCATES, 4).size_bytes = Some(0);
        let mut charges = notes_on(everything(), &s).0.pop().unwrap().0;
        charges.retain(|(name, _)| name.starts_with("TR"));
        charges
    };
    assert_eq!(freed(true), [("TR1024".to_owned(), 1.0)]);
    assert_eq!(freed(true), freed(false));
}

#[test]
fn a_hole_that_is_punched_is_a_cut_of_what_was_there() {
    const PUNCHES: u32 = 0b11;
    const ZEROES: u32 = 0b1_0000;
    let mut s = Script::default();
    s.open("/image", CREATE, 3);
    s.data(OpKind::Write, 3, 0, 1 << 20);
    s.fd(OpKind::Fsync, 3);
    for (at, length, flags) in [
        (0, 65536, PUNCHES),
        (1 << 17, 1 << 19, PUNCHES),
        (1 << 17, 4096, ZEROES),
    ] {
        s.data(OpKind::Fallocate, 3, at, length).flags = flags;
    }
    s.data(OpKind::Write, 3, 800_000, 4096);
    s.data(OpKind::Fallocate, 3, 700_000, 200_000).flags = PUNCHES;
    s.data(OpKind::Read, 3, 0, 4096);
    let found = families(&s);
    assert_eq!(found[3..6], ["TRP", "TR", "FALLOC+TRP"]);
    assert_eq!(found[7], "TRPD");
}

#[test]
fn a_file_without_a_name_is_made_and_stays_once_it_is_linked() {
    const NAMELESS: u32 = 0o20_200_002;
    let id = |ino| {
        Some(fsage_core::FileId {
            dev: fsage_core::DevId(1),
            ino,
            generation: 0,
        })
    };
    let made = |linked: bool| {
        let mut s = Script::default();
        s.name(OpKind::Mkdir, "/d").file = id(2);
        s.open("/d", NAMELESS, 3).file = id(3);
        s.data(OpKind::Write, 3, 0, 4096).file = id(3);
        if linked {
            let to = s.paths.intern(b"/d/f");
            let op = s.fd(OpKind::Link, 3);
            (op.path2, op.file) = (to, id(3));
        }
        s.fd(OpKind::Close, 3);
        families(&s)
    };
    let linked = made(true);
    assert!(
        linked[1].split('+').any(|family| family == "CR"),
        "{linked:?}"
    );
    assert!(
        linked[3].split('+').any(|family| family == "LINK"),
        "{linked:?}"
    );
    assert_eq!(linked[4], "CLOSEW");
    assert_eq!(made(false)[3], "CLOSEU");
}

#[test]
fn a_nameless_file_is_freed_by_its_size_at_its_last_close() {
    let closed = |bytes: u64| {
        let mut s = Script::default();
        s.open("/f", CREATE, 3);
        s.name(OpKind::Unlink, "/f");
        s.data(OpKind::Write, 3, 0, bytes);
        s.fd(OpKind::Close, 3);
        families(&s).pop().unwrap()
    };
    assert_eq!(closed(4096), "CLOSEU");
    assert_eq!(closed(1 << 20), "CLOSE+RMD");
}

#[test]
fn what_is_advised_is_done() {
    let read = |advice: u32| {
        let mut s = Script::default();
        s.open("/f", CREATE, 3);
        s.data(OpKind::Write, 3, 0, 1 << 20);
        s.fd(OpKind::Fsync, 3);
        s.data(OpKind::Advise, 3, 0, 0).flags = 4;
        s.data(OpKind::Advise, 3, 0, 1 << 20).flags = advice;
        for page in 0..2 {
            s.data(OpKind::Read, 3, page * 4096, 4096);
        }
        let mut system = everything();
        system.machine.in_memory = true;
        families_on(system, &s).split_off(4)
    };
    let (normal, random, all) = (read(0), read(1), read(3));
    assert_eq!(normal[2], "RD");
    // Who says that it goes anywhere gets each page alone.
    assert!(random[1..].iter().all(|r| r.contains("RRD")), "{random:?}");
    // What is asked for ahead comes within that call where no arm has to move.
    assert_eq!(normal[0], "ADVISE");
    assert!(all[0].contains("RFO") && !all[1].contains("RFO"), "{all:?}");
    // No more than a request's length at a time.
    let asked = |bytes: u64, page: u64| {
        let mut s = Script::default();
        s.open("/f", CREATE, 3);
        s.data(OpKind::Write, 3, 0, 4 << 20);
        s.fd(OpKind::Fsync, 3);
        s.data(OpKind::Advise, 3, 0, 0).flags = 4;
        s.data(OpKind::Advise, 3, 0, bytes).flags = 3;
        s.data(OpKind::Read, 3, page * 4096, 4096);
        let mut system = everything();
        system.machine.in_memory = true;
        families_on(system, &s).pop().unwrap().contains("RC")
    };
    assert!(asked(4 << 20, 319) && !asked(4 << 20, 320) && !asked(64 << 10, 16));
}

#[test]
fn no_more_is_dropped_than_is_named() {
    // 3,000 bytes into the first page to 1,000 into the fourth: the second and the third are whole.
    let read = |page: u64| {
        let mut s = Script::default();
        s.open("/f", CREATE, 3);
        s.data(OpKind::Write, 3, 0, 1 << 20);
        s.fd(OpKind::Fsync, 3);
        s.data(OpKind::Advise, 3, 3000, 3 * 4096 - 2000).flags = 4;
        s.data(OpKind::Read, 3, page * 4096, 4096);
        families(&s).pop().unwrap().contains("RFO")
    };
    assert_eq!(
        [0, 1, 2, 3, 200].map(read),
        [false, true, true, false, false]
    );
    let last = |length: u64| {
        let mut s = Script::default();
        s.open("/f", CREATE, 3);
        s.data(OpKind::Write, 3, 0, 5000);
        s.fd(OpKind::Fsync, 3);
        s.data(OpKind::Advise, 3, 4096, length).flags = 4;
        s.data(OpKind::Read, 3, 4096, 904);
        families(&s).pop().unwrap().contains("RFO")
    };
    // The page that holds the end is whole where the range reaches it.
    assert_eq!([0, 904, 5000, 800].map(last), [true, true, true, false]);
}

#[test]
fn what_an_arm_has_just_passed_comes_by_after_a_turn() {
    let read = |in_memory: bool, to: u64| {
        let mut s = Script::default();
        s.open("/f", 0, 3).size_bytes = Some(1 << 20);
        s.data(OpKind::Read, 3, 512 << 10, 4096);
        s.data(OpKind::Read, 3, to << 10, 4096);
        let mut system = everything();
        system.machine.in_memory = in_memory;
        families_on(system, &s).pop().unwrap()
    };
    assert_eq!(read(false, 640), "RX");
    assert_eq!(read(false, 384), "RRD");
    assert_eq!(read(true, 384), "RX");
}

/// What a first look at a file of a directory with so many takes of the device's costs, after a cold start.
fn looked_up_among(files: u64, file_system: &str) -> String {
    let mut system = everything();
    system.machine.file_system = FileSystemName::of(file_system);
    let mut predictor = Predictor::new(Options::default(), vec![system]);
    let namespace = predictor.namespace_mut();
    let root = namespace.directory(b"/");
    let mut record = FileRecord {
        path: b"d",
        id: FileId::default(),
        kind: NodeKind::Directory,
        size: 0,
        allocated: 0,
        target: None,
        extents: &[],
    };
    record.id.ino = 2;
    namespace.add(root, &record);
    record.kind = NodeKind::Regular;
    let names: Vec<String> = (0..files).map(|i| format!("d/name{i:03}")).collect();
    for (name, ino) in names.iter().zip(3..) {
        (record.path, record.id.ino) = (name.as_bytes(), ino);
        namespace.add(root, &record);
    }
    let mut s = Script::default();
    s.name(OpKind::Stat, "/d/missing").result = Outcome::err(Errno::ENOENT);
    let mut notes = Notes::default();
    for op in &s.ops {
        predictor.push_annotated(op, &s.paths, &mut notes).unwrap();
    }
    let (vector, ..) = notes.0.pop().unwrap();
    let names = vector.into_iter().map(|(name, _)| name);
    let names: Vec<String> = names
        .filter(|n| n.starts_with("LUM") || n.starts_with("LUS"))
        .collect();
    names.join("+")
}

#[test]
fn names_that_have_room_in_a_directorys_inode_need_no_block() {
    // Eight bytes beside each of seven letters: 12 fit into 190.
    assert!(
        !looked_up_among(12, "xfs").contains("LUM_NC"),
        "{}",
        looked_up_among(12, "xfs")
    );
    assert!(looked_up_among(13, "xfs").contains("LUM_NC"));
    assert!(looked_up_among(12, "ext4").contains("LUM_NC"));
}

#[test]
fn a_cut_to_part_is_charged_by_what_goes_too_and_xfs_writes_what_the_device_does_not_know() {
    let cut = |from: u64, to: u64, written_back: bool, file_system: &str| {
        let mut s = Script::default();
        s.open("/f", CREATE, 3);
        s.data(OpKind::Write, 3, 0, to);
        if written_back {
            s.fd(OpKind::Fsync, 3);
        }
        s.data(OpKind::Write, 3, to, from - to);
        s.fd(OpKind::Ftruncate, 3).length = Some(to);
        let mut system = everything();
        system.machine.file_system = FileSystemName::of(file_system);
        let (vector, ..) = notes_on(system, &s).0.pop().unwrap();
        let of = |stem: &str| -> f64 {
            let of_stem = vector.iter().filter(|(name, _)| name.starts_with(stem));
            of_stem.map(|(_, times)| times.abs()).sum()
        };
        (of("TRPD") > 0.0, of("TRD") > 0.0)
    };
    assert_eq!(cut(20 << 10, 10 << 10, false, "ext4"), (true, false));
    assert_eq!(cut(16 << 20, 500 << 10, false, "ext4"), (true, true));
    // What was written back ends where the file does then.
    assert_eq!(cut(9_000, 5_000, true, "ext4"), (true, false));
    assert_eq!(cut(9_000, 5_000, true, "xfs"), (false, false));
    assert_eq!(cut(9_000, 5_000, false, "xfs"), (true, false));
}

#[test]
fn a_seek_for_data_looks_through_what_is_dirty() {
    let looks = |pieces: u64, whence: u32| {
        let mut s = Script::default();
        s.open("/f", CREATE, 3);
        for piece in 0..pieces {
            s.data(OpKind::Write, 3, piece * 8192, 4096);
        }
        s.data(OpKind::Seek, 3, 0, 0).flags = whence;
        last_vector(&s)
    };
    let once = |name: &str| vec![(name.to_owned(), 1.0)];
    assert!(
        looks(16, 0)
            .iter()
            .all(|(name, _)| name.starts_with("SEEK"))
    );
    assert_eq!([looks(16, 3), looks(16, 4)], [once("SKD16"), once("SKD16")]);
    // More than were measured take no longer.
    assert_eq!(
        [looks(0, 3), looks(3000, 3)],
        [once("SKD1"), once("SKD1024")]
    );
}

#[test]
fn stores_to_holes_are_places_of_their_own_where_no_arm_finds_them_beside_each_other() {
    let places = |in_memory: bool| {
        let mut s = Script::default();
        s.open("/f", CREATE, 3);
        s.fd(OpKind::Ftruncate, 3).size_bytes = Some(1 << 20);
        for page in [0, 1, 6, 7, 12] {
            s.data(OpKind::Fault, 3, page << 12, 4096).flags = 1;
        }
        s.fd(OpKind::Fsync, 3);
        let mut system = everything();
        system.machine.in_memory = in_memory;
        let last = notes_on(system, &s).0.pop().unwrap().0;
        last.iter().find(|(n, _)| n == "FSYNR").map_or(0.0, |p| p.1)
    };
    assert_eq!([places(true), places(false)], [2.0, 0.0]);
}
