//! How much the workloads do with the parameters of their sources.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};

use fsage_core::{Op, OpKind};
use fsage_workload::{Inputs, Length, Phase, Role, WorkloadSpec};

/// What the streams of a phase do.
#[derive(Default)]
struct Seen {
    role: Option<Role>,
    name: String,
    cold: bool,
    streams: usize,
    kinds: BTreeMap<OpKind, u64>,
    bytes_read: u64,
    bytes_written: u64,
    opened: BTreeMap<Vec<u8>, u64>,
    /// The first stream's operations on data: offset, length.
    requests: Vec<(u64, u64)>,
}

impl Seen {
    fn count(&self, kind: OpKind) -> u64 {
        self.kinds.get(&kind).copied().unwrap_or(0)
    }
}

fn see(mut phase: Phase) -> Seen {
    let mut seen = Seen {
        role: Some(phase.role),
        name: phase.name.to_string(),
        cold: phase.cold,
        streams: phase.streams.len(),
        ..Seen::default()
    };
    let mut batch: Vec<Op> = Vec::new();
    for (number, stream) in phase.streams.iter_mut().enumerate() {
        loop {
            batch.clear();
            if stream.next_batch(&mut batch).unwrap() == 0 {
                break;
            }
            for op in &batch {
                *seen.kinds.entry(op.kind).or_default() += 1;
                match op.kind {
                    OpKind::Read => seen.bytes_read += op.result.value().unwrap(),
                    OpKind::Write => seen.bytes_written += op.result.value().unwrap(),
                    OpKind::Open if op.result.is_ok() => {
                        let path = stream.paths().get(op.path.unwrap()).to_vec();
                        *seen.opened.entry(path).or_default() += 1;
                    }
                    _ => {}
                }
                if matches!(op.kind, OpKind::Read | OpKind::Write) && number == 0 {
                    seen.requests.push((op.offset.unwrap(), op.length.unwrap()));
                }
            }
        }
    }
    seen
}

fn phases(text: &str) -> Vec<Seen> {
    let spec: WorkloadSpec = text.parse().unwrap();
    let program = spec.program(&Inputs::default()).unwrap();
    program.phases.into_iter().map(see).collect()
}

fn names(phases: &[Seen]) -> Vec<&str> {
    let runs = phases.iter().filter(|p| p.role == Some(Role::Run));
    runs.map(|p| p.name.as_str()).collect()
}

fn find<'s>(phases: &'s [Seen], name: &str) -> &'s Seen {
    phases.iter().find(|p| p.name == name).unwrap()
}

const MIB: u64 = 1 << 20;

#[test]
fn sprite_lfs_has_ten_thousand_files_of_a_kilobyte_and_one_of_a_hundred_megabytes() {
    let small = phases("lfs-small");
    assert_eq!(names(&small), ["create", "read", "delete"]);
    let create = find(&small, "create");
    assert_eq!(create.bytes_written, 10_000 * 1024);
    for kind in [OpKind::Open, OpKind::Write, OpKind::Close] {
        assert_eq!(create.count(kind), 10_000);
    }
    assert_eq!(find(&small, "read").bytes_read, 10_000 * 1024);
    assert_eq!(find(&small, "read").count(OpKind::Read), 10_000);
    assert_eq!(find(&small, "delete").count(OpKind::Unlink), 10_000);

    let large = phases("lfs-large");
    let expected = [
        "sequential write",
        "sequential read",
        "random write",
        "random read",
        "sequential reread",
    ];
    assert_eq!(names(&large), expected);
    for (i, name) in expected.iter().enumerate() {
        let phase = find(&large, name);
        assert_eq!(phase.bytes_read + phase.bytes_written, 100 * MIB, "{name}");
        assert_eq!(phase.requests.len(), 12_800);
        assert_eq!(phase.cold, i > 0);
        let sequential = phase
            .requests
            .windows(2)
            .filter(|w| w[0].0 + 8192 == w[1].0);
        let sequential = sequential.count();
        assert_eq!(
            sequential > 12_000,
            !name.contains("random"),
            "{sequential}"
        );
        let blocks: BTreeSet<u64> = phase.requests.iter().map(|r| r.0).collect();
        assert_eq!(blocks.len(), 12_800, "every block once");
    }
    assert_ne!(
        find(&large, "random write").requests,
        find(&large, "random read").requests
    );
}

#[test]
fn the_readers_share_a_quarter_of_a_gigabyte() {
    let seen = phases("readers");
    let expected = [1_usize, 2, 4, 8, 16, 32];
    for (phase, n) in seen.iter().skip(1).zip(expected) {
        assert_eq!((phase.streams, phase.cold), (n, true));
        assert_eq!(phase.bytes_read, 256 * MIB);
        assert_eq!(phase.opened.len(), n, "each has a file of its own");
        let first = phase.requests.last().unwrap();
        assert_eq!(*first, (256 * MIB / n as u64, 8192), "read until the end");
    }
    assert_eq!(names(&seen).len(), 6);
    assert_eq!(seen[0].bytes_written, 6 * 256 * MIB);
    assert_eq!(seen[0].count(OpKind::Open), 63);
}

#[test]
fn the_stride_readers_interleave_their_sequences() {
    let seen = phases("stride");
    for s in [2_u64, 4, 8] {
        let phase = find(&seen, &format!("stride {s}"));
        assert_eq!(phase.bytes_read, 256 * MIB);
        let offsets: Vec<u64> = phase.requests.iter().map(|r| r.0).collect();
        let part = 256 * MIB / s;
        assert_eq!(
            offsets[..3],
            [0, part, if s == 2 { 8192 } else { 2 * part }]
        );
        assert_eq!(offsets[s as usize..][..2], [8192, part + 8192]);
        assert_eq!(offsets.iter().collect::<BTreeSet<_>>().len(), 32_768);
    }
}

#[test]
fn the_sequential_benchmark_moves_32_megabytes_for_each_size() {
    let seen = phases("seqio");
    assert_eq!(
        names(&seen).len(),
        36,
        "16 KiB to 32 MiB, written, read and removed"
    );
    for (i, size) in (14..=25).map(|bits| 1_u64 << bits).enumerate() {
        let (create, read) = (&seen[1 + 3 * i], &seen[2 + 3 * i]);
        let remove = &seen[3 + 3 * i];
        assert_eq!(
            (create.bytes_written, read.bytes_read),
            (32 * MIB, 32 * MIB)
        );
        assert_eq!(create.count(OpKind::Open), 32 * MIB / size);
        assert_eq!(create.opened, read.opened);
        assert_eq!((create.cold, read.cold, remove.cold), (true, true, false));
        assert_eq!(
            (create.count(OpKind::Syncfs), read.count(OpKind::Syncfs)),
            (1, 0)
        );
        assert_eq!(remove.count(OpKind::Unlink), 32 * MIB / size);
        let unit = size.min(4 * MIB);
        assert!(create.requests.iter().all(|r| r.1 == unit));
        let mut per_directory: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
        for path in create.opened.keys() {
            let directory = path.rsplitn(2, |&b| b == b'/').nth(1).unwrap();
            *per_directory.entry(directory.to_vec()).or_default() += 1;
        }
        assert!(per_directory.values().all(|&n| n <= 25));
        let directories = (32 * MIB / size).div_ceil(25);
        assert_eq!(per_directory.len() as u64, directories);
    }
    assert_eq!(seen[1].name, "create 16 KiB");
}

/// Farhat 2017, Figure 36 and Table 1, and its chapter 4 on cached reads.
#[test]
fn the_varying_programs_do_what_the_dissertation_counts() {
    let c = phases("varying:config=c");
    let c = find(&c, "chunks");
    // Opens: 50,000 creates, writes and reads each.
    assert_eq!(
        (c.count(OpKind::Open), c.count(OpKind::Unlink)),
        (150_000, 50_000)
    );
    assert_eq!(
        (c.count(OpKind::Write), c.count(OpKind::Read)),
        (50_000, 50_000)
    );
    let d = phases("varying:config=d");
    let d = find(&d, "chunks");
    assert_eq!(
        (d.bytes_read, d.bytes_written),
        (3_610_000_000, 3_610_000_000)
    );
    let e = phases("varying:config=e");
    let e = find(&e, "chunks");
    assert_eq!(e.count(OpKind::Read), 30_000 + 6000, "6000 of them cached");
}

#[test]
fn bonnie_has_the_originals_phases() {
    let seen = phases("bonnie");
    let chunks = 12_800;
    let expected = [
        ("character write", 0, 25_600),
        ("block write", 0, chunks),
        ("rewrite", chunks + 1, chunks),
        ("character read", 25_600, 0),
        ("block read", chunks + 1, 0),
    ];
    for (name, reads, writes) in expected {
        let phase = find(&seen, name);
        let counts = (phase.count(OpKind::Read), phase.count(OpKind::Write));
        assert_eq!(counts, (reads, writes), "{name}");
    }
    let seeks = find(&seen, "seeks");
    assert_eq!((seeks.streams, seeks.count(OpKind::Read)), (3, 12_000));
    // A tenth is written back: 1200, standard deviation 33.
    assert!(seeks.count(OpKind::Write).abs_diff(1200) < 132);
    for order in ["sequential", "random"] {
        let of = |kind: &str| find(&seen, &format!("{order} {kind}"));
        assert_eq!(of("create").count(OpKind::Open), 16_384);
        assert_eq!(of("stat").count(OpKind::Stat), 16_384);
        assert_eq!(of("delete").count(OpKind::Unlink), 16_384);
    }
    assert_eq!(names(&seen).len(), 12);
}

/// Howard 1988: about 70 files, about 200 kB.
#[test]
fn the_built_in_tree_is_as_small_as_andrews() {
    let seen = phases("andrew");
    assert_eq!(
        names(&seen),
        ["MakeDir", "Copy", "ScanDir", "ReadAll", "Make"]
    );
    assert_eq!(seen[0].opened.len(), 70);
    let size = seen[0].bytes_written;
    assert!((180_000..220_000).contains(&size), "{size}");
    assert_eq!(find(&seen, "MakeDir").count(OpKind::Mkdir), 6);
    let copy = find(&seen, "Copy");
    assert_eq!((copy.bytes_read, copy.bytes_written), (size, size));
    assert_eq!(find(&seen, "ScanDir").count(OpKind::Stat), 75);
    assert_eq!(find(&seen, "ReadAll").bytes_read, size);
    let make = find(&seen, "Make");
    let objects = make.opened.keys().filter(|p| p.ends_with(b".fsage.o"));
    assert_eq!(objects.count(), 42, "one for each source");
    let (all, found) = (make.count(OpKind::Open), make.opened.values().sum::<u64>());
    assert!(all - found > 200, "headers are looked for: {all}, {found}");
}

#[test]
fn every_script_does_the_same_work() {
    let one = phases("sdet");
    let four = phases("sdet:scripts=4");
    let (one, four) = (find(&one, "scripts"), find(&four, "scripts"));
    assert_eq!((one.streams, four.streams), (1, 4));
    // Which files a command takes is drawn, so that counts differ a little.
    for (kind, count) in &one.kinds {
        let four = four.count(*kind) as f64 / 4.0;
        let off = (four / *count as f64 - 1.0).abs();
        assert!(off < 0.15, "{kind:?}: {count} and {four}");
    }
    for kind in [
        OpKind::Rename,
        OpKind::Readdir,
        OpKind::Rmdir,
        OpKind::Utimens,
    ] {
        assert_eq!(
            one.count(kind) * 4 / one.count(kind),
            4,
            "{kind:?} is in the mix"
        );
    }
}

#[test]
fn small_files_are_read_once_each_in_another_order() {
    let seen = phases("small-read");
    let read = find(&seen, "read");
    assert!(read.cold && read.opened.len() == 600);
    assert!(read.opened.values().all(|&n| n == 1));
    assert_eq!(seen[0].bytes_written, read.bytes_read);
    // Uniform from 1 to 16 KiB: a mean of 8704 with a standard error of 181.
    let mean = read.bytes_read as f64 / 600.0;
    assert!((mean - 8704.0).abs() < 724.0, "{mean}");
}

#[test]
fn self_scaling_keeps_its_shares() {
    let seen = phases("selfscale:read=30,sequential=80,requests=20000,request=8k,processes=2");
    let run = find(&seen, "requests");
    assert_eq!(run.streams, 2);
    let reads = run.count(OpKind::Read) as f64 / 40_000.0;
    assert!((reads - 0.3).abs() < 0.01, "{reads}");
    let follows = run
        .requests
        .windows(2)
        .filter(|w| w[0].0 + w[0].1 == w[1].0);
    let sequential = follows.count() as f64 / 20_000.0;
    assert!((sequential - 0.8).abs() < 0.015, "{sequential}");
    let mean = (run.bytes_read + run.bytes_written) as f64 / 40_000.0;
    assert!((mean - 8192.0).abs() < 200.0, "{mean}");
}

#[test]
fn what_does_not_fit_is_one_clear_error() {
    for (spec, part) in [
        (
            "readers:total=10,n=11",
            "10 bytes are too few for 11 readers",
        ),
        ("stride:size=100k,s=3", "not a multiple of 3 sequences"),
        (
            "seqio:size=64M,total=32M",
            "larger than the total of 33554432",
        ),
        (
            "selfscale:size=1000,processes=4",
            "leave 250 bytes for each",
        ),
        ("bonnie:size=4k", "smaller than a chunk of 8192"),
        ("andrew:tree=/x", "the tree '/x' was not read"),
        ("lfs-large:size=1G,request=1", "expected at most"),
    ] {
        let spec: WorkloadSpec = spec.parse().unwrap();
        let error = spec.program(&Inputs::default()).err().unwrap().to_string();
        assert!(error.contains(part), "{error}");
    }
    let tree: WorkloadSpec = "andrew:tree=/x".parse().unwrap();
    let inputs = Inputs {
        tree: Some(fsage_workload::SourceTree::default()),
        length: Length::Count,
        ..Inputs::default()
    };
    let error = tree.program(&inputs).err().unwrap().to_string();
    assert!(error.contains("holds no file"), "{error}");
}
