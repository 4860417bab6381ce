//! Layout scores against independent counts, on real file systems.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::disallowed_types, reason = "other tools count")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use fsage_age::layout::{Layout, LayoutError, LayoutOptions, Score, of_tree};
use fsage_host::{HostError, Scratch, ScratchSpec};

const KINDS: [&str; 4] = [
    "ext2,size=64M",
    "ext2,size=32M,mkfs=-b 1024",
    "ext4,size=64M",
    "xfs,size=300M",
];

fn scratch(spec: &str) -> Option<Scratch> {
    if !fsage_testing::root() {
        return None;
    }
    let spec: ScratchSpec = spec.parse().unwrap();
    match Scratch::create(&spec) {
        Ok(scratch) => Some(scratch),
        Err(e @ (HostError::MissingTool { .. } | HostError::NoKernelSupport { .. })) => {
            fsage_testing::not_run(format_args!("needs {spec}: failed to {e}"));
            None
        }
        Err(e) => panic!("failed to {e}"),
    }
}

fn look(dir: &Path, options: &LayoutOptions) -> Layout {
    of_tree(dir, options, &AtomicBool::new(false)).unwrap()
}

/// Little free space left, in holes of deleted files; files written in turns into it, holes, tails, what is allocated
/// behind the end, two names of one file, and one that takes all that is left.
fn fragment(dir: &Path) {
    let block = 4096;
    fs::create_dir_all(dir.join("small")).unwrap();
    let space = rustix::fs::statvfs(dir).unwrap();
    let free = space.f_bfree * space.f_frsize;
    let mut ballast = File::create(dir.join("ballast")).unwrap();
    for _ in 0..(free - (12 << 20)) >> 20 {
        ballast.write_all(&vec![1; 1 << 20]).unwrap();
    }
    ballast.sync_all().unwrap();
    let small = |n: usize| dir.join(format!("small/{n}"));
    let mut made = 0;
    while fs::write(small(made), vec![1; block * (1 + made % 3)]).is_ok() {
        made += 1;
    }
    rustix::fs::sync();
    for n in (0..made).filter(|n| n % 5 < 3) {
        fs::remove_file(small(n)).unwrap();
    }
    rustix::fs::sync();
    let files: Vec<File> = (0..4)
        .map(|n| File::create(dir.join(format!("turns-{n}"))).unwrap())
        .collect();
    for round in 0..40 {
        for (n, mut file) in files.iter().enumerate() {
            file.write_all(&vec![2; block * (n + 1)]).unwrap();
            if round % (n + 1) == 0 {
                file.sync_all().unwrap();
            }
        }
    }
    let holes = File::create(dir.join("holes")).unwrap();
    for at in [0, 3, 4, 40, 90, 91] {
        let data = vec![3; block];
        holes.write_all_at(&data, at * block as u64).unwrap();
    }
    fs::write(dir.join("tail"), vec![4; 5 * block + 1]).unwrap();
    fs::write(dir.join("empty"), "").unwrap();
    File::create(dir.join("hole only"))
        .unwrap()
        .set_len(1 << 20)
        .unwrap();
    fs::hard_link(dir.join("turns-1"), dir.join("second name")).unwrap();
    let beyond = File::create(dir.join("beyond")).unwrap();
    beyond.write_all_at(&vec![5; block], 0).unwrap();
    // ext2 has no fallocate.
    let _ = rustix::fs::fallocate(&beyond, rustix::fs::FallocateFlags::KEEP_SIZE, 0, 1 << 18);
    let mut filler = File::create(dir.join("filler")).unwrap();
    for _ in 0..600 {
        let _ = filler.write_all(&vec![6; block]);
    }
    drop(filler);
    rustix::fs::sync();
}

/// Blocks of a file up to its end, those that count for its score, the optimal ones, and the first of all.
type Counts = (u64, u64, u64, Option<u64>);

/// What `filefrag -v` tells of every file, counted block by block as the thesis says.
fn filefrag(dir: &Path, block: u64) -> BTreeMap<PathBuf, Counts> {
    let files = files_below(dir);
    let run = Command::new("filefrag")
        .arg(format!("-b{block}"))
        .arg("-v")
        .args(&files)
        .output()
        .unwrap();
    assert!(run.status.success(), "{run:?}");
    let mut places: BTreeMap<PathBuf, Vec<(u64, u64)>> = BTreeMap::new();
    let mut of = PathBuf::new();
    for line in String::from_utf8_lossy(&run.stdout).lines() {
        if let Some(rest) = line.strip_prefix("File size of ") {
            of = rest.rsplit_once(" is ").unwrap().0.into();
            places.insert(of.clone(), Vec::new());
        }
        // "   0:        0..      11:      24586..     24597:     12:             last,eof"
        let fields: Vec<&str> = line.split(':').map(str::trim).collect();
        let range = |text: &str| {
            let (first, last) = text.split_once("..")?;
            Some((
                first.trim().parse::<u64>().ok()?,
                last.trim().parse::<u64>().ok()?,
            ))
        };
        let [_, logical, physical, ..] = fields[..] else {
            continue;
        };
        if let (Some(logical), Some(physical)) = (range(logical), range(physical)) {
            let blocks = (logical.0..=logical.1).zip(physical.0..=physical.1);
            places.get_mut(&of).unwrap().extend(blocks);
        }
    }
    assert_eq!(places.len(), files.len(), "filefrag tells of every file");
    let counts = |(path, mut places): (PathBuf, Vec<(u64, u64)>)| {
        let end = fs::metadata(&path).unwrap().size().div_ceil(block);
        places.retain(|&(logical, _)| logical < end);
        let optimal = places.windows(2).filter(|w| w[1].1 == w[0].1 + 1);
        let (optimal, blocks) = (optimal.count() as u64, places.len() as u64);
        let first = places.first().map(|p| p.1);
        (path, (blocks, blocks.saturating_sub(1), optimal, first))
    };
    places.into_iter().map(counts).collect()
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let about = entry.metadata().unwrap();
            if about.is_dir() {
                dirs.push(entry.path());
            // What fsage itself put there is none of them.
            } else if entry.file_name() == ".fsage-scratch" {
            } else if about.is_file() && seen.insert(about.ino()) {
                files.push(entry.path());
            }
        }
    }
    files
}

#[test]
fn agrees_with_filefrag_block_by_block() {
    if !fsage_testing::tool("filefrag") {
        return;
    }
    for spec in KINDS {
        let Some(scratch) = scratch(spec) else {
            return;
        };
        let dir = scratch.dir();
        fragment(dir);
        let layout = look(
            dir,
            &LayoutOptions {
                worst: 3,
                ..LayoutOptions::default()
            },
        );
        let (mut files, mut blocks, mut counted, mut optimal) = (0, 0, 0, 0);
        for (path, of_file) in filefrag(dir, layout.block_bytes) {
            files += 1;
            blocks += of_file.0;
            counted += of_file.1;
            optimal += of_file.2;
            if path.parent() != Some(dir) {
                continue;
            }
            let alone = look(&path, &LayoutOptions::default());
            assert_eq!(
                alone.score,
                Score::of(of_file.1, of_file.2),
                "{spec}: {}",
                path.display()
            );
            assert_eq!(
                (alone.files, alone.blocks),
                (1, of_file.0),
                "{spec}: {}",
                path.display()
            );
        }
        let score = Score::of(counted, optimal).unwrap();
        assert_eq!(layout.score, Some(score), "{spec}: {layout:?}");
        assert_eq!((layout.files, layout.blocks), (files, blocks), "{spec}");
        assert_eq!(layout.unknown.total(), 0, "{spec}: {:?}", layout.unknown);
        assert!(
            optimal + 20 < counted,
            "{spec} is not fragmented: {score:?}"
        );
        let sum = |of: fn(&fsage_age::layout::SizeClass) -> u64| {
            layout.by_size.iter().map(of).sum::<u64>()
        };
        assert_eq!(sum(|c| c.files), layout.files_placed);
        assert_eq!(sum(|c| c.extents), layout.extents);
        assert_eq!(sum(|c| c.score.map_or(0, |s| s.counted_blocks)), counted);
        assert_eq!(
            layout.by_extents.iter().map(|c| c.files).sum::<u64>(),
            layout.files_placed
        );
        assert_eq!(layout.worst.len(), 3);
        assert!(layout.worst[0].extents >= layout.worst[1].extents);
    }
}

/// The group of an inode and of its first block as debugfs tells them.
#[test]
fn split_files_agree_with_debugfs() {
    if !fsage_testing::tool("dumpe2fs") || !fsage_testing::tool("filefrag") {
        return;
    }
    for spec in KINDS {
        let Some(scratch) = scratch(spec) else {
            return;
        };
        let dir = scratch.dir();
        fragment(dir);
        let layout = look(dir, &LayoutOptions::default());
        if spec.starts_with("xfs") {
            assert_eq!(layout.split, None);
            assert!(layout.split_unknown.unwrap().contains("no block groups"));
            continue;
        }
        let run = Command::new("dumpe2fs")
            .arg("-h")
            .arg(&scratch.record().device)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&run.stdout).into_owned();
        let number = |key: &str| -> u64 {
            let line = text.lines().find(|l| l.starts_with(key)).unwrap();
            line.rsplit(' ').next().unwrap().parse().unwrap()
        };
        let (inodes, blocks) = (number("Inodes per group:"), number("Blocks per group:"));
        let first = number("First block:");
        let (mut placed, mut split) = (0, 0);
        for (path, (_, _, _, block)) in filefrag(dir, layout.block_bytes) {
            let Some(block) = block else {
                continue;
            };
            let ino = fs::metadata(&path).unwrap().ino();
            placed += 1;
            split += u64::from((ino - 1) / inodes != (block - first) / blocks);
        }
        let found = layout.split.unwrap();
        assert_eq!((found.files, found.split), (placed, split), "{spec}");
    }
}

#[test]
fn free_space_agrees_with_the_tools() {
    let free = LayoutOptions {
        free: true,
        ..LayoutOptions::default()
    };
    for spec in KINDS {
        let Some(scratch) = scratch(spec) else {
            return;
        };
        let dir = scratch.dir();
        fragment(dir);
        let found = look(dir, &free).free.unwrap();
        assert!(
            found.by_size.len() >= 3 && found.extents > 50,
            "{spec}: {found:?}"
        );
        assert_eq!(
            found.by_size.iter().map(|c| c.bytes).sum::<u64>(),
            found.bytes
        );
        assert_eq!(
            found.by_size.iter().map(|c| c.extents).sum::<u64>(),
            found.extents
        );
        let device = scratch.record().device.clone();
        if spec.starts_with("xfs") || !fsage_testing::tool("e2freefrag") {
            continue;
        }
        let run = Command::new("e2freefrag").arg(&device).output().unwrap();
        let text = String::from_utf8_lossy(&run.stdout).into_owned();
        let number = |key: &str| -> u64 {
            let line = text
                .lines()
                .find(|l| l.starts_with(key))
                .unwrap_or_else(|| panic!("{text}"));
            let rest = line[key.len()..].trim().split(' ').next().unwrap();
            rest.parse().unwrap()
        };
        let block = number("Blocksize:");
        assert_eq!(
            found.bytes / block,
            number("Free blocks:"),
            "{spec}: {text}"
        );
        assert_eq!(
            found.largest_bytes / 1024,
            number("Max. free extent:"),
            "{spec}: {text}"
        );
        assert_eq!(found.extents, number("Num. free extent:"), "{spec}: {text}");
    }
}

#[test]
fn places_that_mean_nothing_are_unknown() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
        fsage_testing::not_run("needs /dev/shm");
        return;
    };
    fs::write(dir.path().join("file"), vec![1; 20_000]).unwrap();
    let layout = look(
        dir.path(),
        &LayoutOptions {
            free: true,
            ..LayoutOptions::default()
        },
    );
    assert_eq!((layout.score, layout.unknown.not_told), (None, 1), "tmpfs");
    assert!(
        layout
            .free_unknown
            .unwrap()
            .contains("tmpfs does not tell it")
    );
    let Some(btrfs) = scratch("btrfs,size=128M,mount=compress-force=zstd") else {
        return;
    };
    fs::write(btrfs.dir().join("packed"), vec![1; 400_000]).unwrap();
    // Nothing compresses it.
    let few: Vec<u8> = (0..100).map(|n: u8| n.wrapping_mul(37)).collect();
    fs::write(btrfs.dir().join("inline"), few).unwrap();
    let before = look(btrfs.dir(), &LayoutOptions::default());
    assert!(before.unknown.delayed > 0, "{:?}", before.unknown);
    let after = look(
        btrfs.dir(),
        &LayoutOptions {
            sync: true,
            ..LayoutOptions::default()
        },
    );
    assert!(
        after.unknown.encoded >= 1 && after.unknown.delayed == 0,
        "{:?}",
        after.unknown
    );
    assert!(after.unknown.inline >= 1, "{:?}", after.unknown);
}

#[test]
fn it_ends_when_it_is_asked_to() {
    let dir = tempfile::tempdir().unwrap();
    let asked = of_tree(
        dir.path(),
        &LayoutOptions::default(),
        &AtomicBool::new(true),
    );
    assert!(matches!(asked, Err(LayoutError::Interrupted)));
    let none = of_tree(
        &dir.path().join("none"),
        &LayoutOptions::default(),
        &AtomicBool::new(false),
    );
    assert!(none.unwrap_err().to_string().contains("none"));
}
