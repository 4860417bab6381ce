//! Workloads from snapshots and from git lead, day by day, to what the snapshots and the last commit hold.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::too_many_lines,
    reason = "a test that cannot go on has failed"
)]

use crate::common;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use common::{Left, Thing, carried_out};
use fsage_age::generate::{
    Deletes, GenerateError, GitSource, ShortLived, SnapshotOptions, SnapshotSource, Wanted,
    generate,
};
use fsage_age::made::{DAY_NS, Made};
use fsage_core::{FileType, OpKind, OpSource, Seed};
use fsage_format::snapshot::{Extent, SnapshotEnd, SnapshotEntry, SnapshotMeta, SnapshotWriter};
use fsage_format::trace::TraceReader;
use fsage_workload::random::Random;

const WANTED: Wanted = Wanted {
    seed: Seed(3),
    days: None,
    size_bytes: None,
    fill: None,
    scale: None,
};
const NIGHT_NS: u64 = 1_700_000_000_000_000_000;

fn meta(day: u64) -> SnapshotMeta {
    SnapshotMeta {
        host: "there".into(),
        root: "/home".into(),
        file_system: "ext4".into(),
        block_bytes: 4096,
        total_bytes: 256 << 20,
        taken_unix_ns: NIGHT_NS + day * DAY_NS,
        ..SnapshotMeta::default()
    }
}

fn write(path: &Path, meta: SnapshotMeta, entries: &[SnapshotEntry]) {
    let mut writer = SnapshotWriter::create(path, meta).unwrap();
    for entry in entries {
        writer.push(entry).unwrap();
    }
    writer.finish(SnapshotEnd::default()).unwrap();
}

/// A tree that changes by itself: names, and inodes by number.
struct Tree {
    random: Random,
    names: BTreeMap<Vec<u8>, u64>,
    inodes: HashMap<u64, SnapshotEntry>,
    next: u64,
    now_ns: i64,
}

impl Tree {
    fn new(seed: u64) -> Self {
        Self {
            random: Random::new(Seed(seed)),
            names: BTreeMap::new(),
            inodes: HashMap::new(),
            next: 10,
            now_ns: NIGHT_NS as i64,
        }
    }

    fn any(&mut self, kind: Option<FileType>) -> Option<Vec<u8>> {
        let fits = |ino: &u64| kind.is_none_or(|k| self.inodes[ino].file_type == k);
        let all: Vec<Vec<u8>> = self
            .names
            .iter()
            .filter(|(_, i)| fits(i))
            .map(|(n, _)| n.clone())
            .collect();
        (!all.is_empty()).then(|| all[self.random.below(all.len() as u64) as usize].clone())
    }

    fn new_name(&mut self) -> Vec<u8> {
        let dir = if self.random.below(4) == 0 {
            None
        } else {
            self.any(Some(FileType::Directory))
        };
        // Few names, so that what goes is often followed by another of the same name.
        let name = format!("n{}", self.random.below(12));
        match dir {
            Some(dir) => [&dir[..], b"/", name.as_bytes()].concat(),
            None => name.into_bytes(),
        }
    }

    fn touch(&mut self, ino: u64) {
        self.now_ns += self.random.below(60_000_000_000) as i64 + 1;
        let now_ns = self.now_ns;
        self.inodes.get_mut(&ino).unwrap().ctime_ns = now_ns;
    }

    fn add(&mut self) {
        let path = self.new_name();
        if self.names.contains_key(&path) {
            return;
        }
        // A number that is free again is used again, with another generation.
        let gone = (10..self.next).find(|i| !self.inodes.contains_key(i));
        let ino = gone
            .filter(|_| self.random.below(2) == 0)
            .unwrap_or(self.next);
        self.next = self.next.max(ino + 1);
        let kind = match self.random.below(8) {
            0 | 1 => FileType::Directory,
            2 => FileType::Symlink,
            _ => FileType::Regular,
        };
        let size = if kind == FileType::Regular {
            self.random.below(3 << 20)
        } else {
            0
        };
        let mut entry = SnapshotEntry::of(path.clone(), ino, kind, size);
        entry.generation = self.random.below(1 << 30) as u32 + 1;
        entry.link_target = (kind == FileType::Symlink).then(|| b"to/where".to_vec());
        if kind == FileType::Regular && self.random.below(10) == 0 {
            entry.allocated_bytes = size / 8192 * 4096;
        }
        self.inodes.insert(ino, entry);
        self.names.insert(path, ino);
        self.touch(ino);
    }

    fn below(&self, dir: &[u8]) -> Vec<Vec<u8>> {
        let from = [dir, b"/"].concat();
        self.names
            .keys()
            .filter(|n| n.starts_with(&from))
            .cloned()
            .collect()
    }

    fn remove(&mut self) {
        let Some(path) = self.any(None) else { return };
        let mut gone = self.below(&path);
        gone.push(path);
        for name in gone {
            let ino = self.names.remove(&name).unwrap();
            if !self.names.values().any(|&other| other == ino) {
                self.inodes.remove(&ino);
            }
        }
    }

    fn rename(&mut self) {
        let (Some(from), to) = (self.any(None), self.new_name()) else {
            return;
        };
        let into_itself = to.starts_with(&[&from[..], b"/"].concat());
        if self.names.contains_key(&to) || into_itself {
            return;
        }
        let ino = self.names.remove(&from).unwrap();
        for name in self.below(&from) {
            let child = self.names.remove(&name).unwrap();
            self.names
                .insert([&to[..], &name[from.len()..]].concat(), child);
        }
        self.names.insert(to, ino);
        self.touch(ino);
    }

    fn link(&mut self) {
        let (Some(from), to) = (self.any(Some(FileType::Regular)), self.new_name()) else {
            return;
        };
        if !self.names.contains_key(&to) {
            let ino = self.names[&from];
            self.names.insert(to, ino);
            self.touch(ino);
        }
    }

    fn modify(&mut self) {
        let Some(path) = self.any(Some(FileType::Regular)) else {
            return;
        };
        let ino = self.names[&path];
        let size = self.random.below(3 << 20);
        self.touch(ino);
        let entry = self.inodes.get_mut(&ino).unwrap();
        (entry.size_bytes, entry.allocated_bytes, entry.mtime_ns) = (size, size, entry.ctime_ns);
    }

    fn night(&mut self, day: u64, dir: &Path) {
        self.now_ns = self
            .now_ns
            .max((NIGHT_NS + day.saturating_sub(1) * DAY_NS) as i64);
        for _ in 0..60 {
            match self.random.below(10) {
                0 => self.remove(),
                1 | 2 => self.rename(),
                3 => self.link(),
                4 => self.modify(),
                _ => self.add(),
            }
        }
        let entries: Vec<SnapshotEntry> = self
            .names
            .iter()
            .map(|(path, ino)| SnapshotEntry {
                path: path.clone(),
                ..self.inodes[ino].clone()
            })
            .collect();
        write(&dir.join(format!("day-{day:03}.fss")), meta(day), &entries);
    }

    fn is_what_is_left(&self, left: &Left) {
        assert_eq!(
            left.names
                .keys()
                .map(|n| String::from_utf8_lossy(n))
                .collect::<Vec<_>>(),
            self.names
                .keys()
                .map(|n| String::from_utf8_lossy(n))
                .collect::<Vec<_>>()
        );
        let mut files: HashMap<u64, usize> = HashMap::new();
        for (name, ino) in &self.names {
            let entry = &self.inodes[ino];
            match &left.names[name] {
                Thing::Directory => assert_eq!(entry.file_type, FileType::Directory),
                Thing::Link(target) => assert_eq!(entry.link_target.as_ref(), Some(target)),
                Thing::File(file) => {
                    assert_eq!(*files.entry(*ino).or_insert(*file), *file, "{name:?}");
                    assert_eq!(left.sizes[file], entry.size_bytes, "{name:?}");
                }
            }
        }
    }
}

fn made(dir: &Path, options: SnapshotOptions) -> Result<(Made, PathBuf), GenerateError> {
    let mut source = SnapshotSource::new(dir, &WANTED, options)?;
    let path = dir.join("w.fst");
    let (made, _) = generate(
        &mut source,
        &path,
        &mut |_, _, _| {},
        &AtomicBool::new(false),
    )?;
    Ok((made, path))
}

const SHORT: &str = "format = \"fsage short-lived files\"\nversion = 1\nsource = \"a\"\n[habits]\ntogether = 0.6\n\
    near = 0.5\ngap_s = 1.5\n[[profiles]]\nfiles = [[0.0, 12.5, 4096], [3.0, 100.0, 70000]]\n";

#[test]
fn a_workload_from_snapshots_leads_to_the_last_of_them() {
    for seed in 0..12 {
        let dir = tempfile::tempdir().unwrap();
        let short = dir.path().join("short.toml");
        std::fs::write(&short, SHORT).unwrap();
        let mut tree = Tree::new(seed);
        for day in 0..6 {
            tree.night(day, dir.path());
        }
        for (deletes, with_short) in [
            (Deletes::Uniform, false),
            (Deletes::Learnt, false),
            (Deletes::Learnt, true),
        ] {
            let options = SnapshotOptions {
                deletes: Some(deletes),
                short_lived: with_short.then(|| ShortLived::load(&short).unwrap()),
                ..SnapshotOptions::default()
            };
            let (made, path) =
                made(dir.path(), options).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
            assert_eq!(made.days, 6);
            assert_eq!(made.source_block_bytes, Some(4096));
            let left = carried_out(&path);
            assert_eq!(left.made, made);
            tree.is_what_is_left(&left);
            let (files, all) = (made.creates, made.creates + made.removes);
            assert!(files > 0 && all > files, "seed {seed}");
        }
    }
}

#[test]
fn without_names_files_lie_by_their_inodes_group() {
    let dir = tempfile::tempdir().unwrap();
    for day in 0..2_u64 {
        let entries: Vec<SnapshotEntry> = (11..60 + day)
            .map(|ino| SnapshotEntry {
                generation: 1,
                ..SnapshotEntry::of(format!("f{ino}").into(), ino, FileType::Regular, 5000)
            })
            .collect();
        write(&dir.path().join(format!("{day}.fss")), meta(day), &entries);
    }
    let options = |inodes_per_group| SnapshotOptions {
        by_group: true,
        inodes_per_group,
        ..SnapshotOptions::default()
    };
    let error = made(dir.path(), options(None)).unwrap_err().to_string();
    assert!(error.contains("--inodes-per-group"), "{error}");
    let (made, path) = made(dir.path(), options(Some(16))).unwrap();
    assert_eq!(made.deletes.as_deref(), Some("uniform"));
    let left = carried_out(&path);
    let of = |group: &str| {
        left.names
            .keys()
            .filter(|n| n.starts_with(group.as_bytes()))
            .count()
    };
    // Inodes 11 to 16, 17 to 32, 33 to 48 and 49 to 60, and the directory itself.
    assert_eq!(
        [of("cg0000"), of("cg0001"), of("cg0002"), of("cg0003")],
        [7, 17, 17, 13]
    );
}

#[test]
fn snapshots_that_do_not_belong_together_are_refused() {
    let file = |ino, ctime_ns| SnapshotEntry {
        generation: 1,
        ctime_ns,
        ..SnapshotEntry::of(format!("f{ino}").into(), ino, FileType::Regular, 100)
    };
    let refused = |change: &dyn Fn(&Path, &mut SnapshotMeta, &mut Vec<SnapshotEntry>)| {
        let dir = tempfile::tempdir().unwrap();
        write(
            &dir.path().join("a.fss"),
            meta(1),
            &[file(11, NIGHT_NS as i64)],
        );
        let (mut second, mut entries) = (meta(2), vec![file(11, NIGHT_NS as i64)]);
        let path = dir.path().join("b.fss");
        change(&path, &mut second, &mut entries);
        write(&path, second, &entries);
        if entries.is_empty() {
            let bytes = std::fs::read(&path).unwrap();
            std::fs::write(&path, &bytes[..bytes.len() - 20]).unwrap();
        }
        made(dir.path(), SnapshotOptions::default())
            .unwrap_err()
            .to_string()
    };
    let order = refused(&|_, meta, _| meta.taken_unix_ns -= 2 * DAY_NS);
    assert!(
        order.contains("out of order") && order.contains("b.fss"),
        "{order}"
    );
    let other = refused(&|_, meta, _| meta.total_bytes += 1);
    assert!(other.contains("different file systems"), "{other}");
    let jumped = refused(&|_, _, entries| {
        entries.extend((20..40).map(|ino| file(ino, NIGHT_NS as i64 + 400 * DAY_NS as i64)));
    });
    assert!(
        jumped.contains("the clock jumped") && jumped.contains("20 of 20"),
        "{jumped}"
    );
    let cut = refused(&|_, _, entries| entries.clear());
    assert!(cut.contains("b.fss") && cut.contains("no end"), "{cut}");
    let small = refused(&|_, _, entries| {
        entries.push(SnapshotEntry {
            size_bytes: 300 << 20,
            allocated_bytes: 300 << 20,
            ..file(12, NIGHT_NS as i64)
        });
    });
    assert!(small.contains("--size"), "{small}");
    let other_machine = refused(&|_, meta, _| meta.host = "here".into());
    assert!(
        other_machine.contains("machine `there` and `here`"),
        "{other_machine}"
    );
    // A clock that was set back, and one that stood still.
    let same = refused(&|_, meta, _| meta.taken_unix_ns -= DAY_NS);
    assert!(
        same.contains("b.fss") && same.contains("a clock set back"),
        "{same}"
    );
    let empty = tempfile::tempdir().unwrap();
    let none = made(empty.path(), SnapshotOptions::default())
        .unwrap_err()
        .to_string();
    assert!(none.contains("at least two"), "{none}");
}

#[test]
fn another_name_of_a_snapshot_is_no_night() {
    let dir = tempfile::tempdir().unwrap();
    for day in 0..2 {
        let name = dir.path().join(format!("day-{day}.fss"));
        write(&name, meta(day), &[]);
        let last = dir.path().join("last.fss");
        let _ = std::fs::remove_file(&last);
        std::fs::hard_link(&name, &last).unwrap();
    }
    let (made, _) = made(dir.path(), SnapshotOptions::default()).unwrap();
    assert_eq!(made.days, 2);
    // A copy is one, of the same time.
    std::fs::copy(dir.path().join("day-1.fss"), dir.path().join("day-2.fss")).unwrap();
    let error = self::made(dir.path(), SnapshotOptions::default()).unwrap_err();
    assert!(error.to_string().contains("day-2.fss"), "{error}");
}

#[test]
fn profiles_of_short_lived_files_are_read_with_care() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.toml");
    for (from, to, word) in [
        ("version = 1", "version = 2", "version 2"),
        (
            "fsage short-lived files",
            "other",
            "fsage short-lived files",
        ),
        (
            "12.5",
            "-1.0",
            "file 1 of profile 1: made after 0 s and gone -1 s",
        ),
        ("100.0", "86401.0", "file 2 of profile 1"),
        (
            "near = 0.5",
            "near = 5.0",
            "habits.near: 5, expected 0 to 1",
        ),
        ("gap_s = 1.5", "gap_s = nan", "habits.gap_s"),
        ("[habits]", "[habit]", "line"),
        (
            "files = [[0.0,",
            &format!("files = [[\"{}\",", "x".repeat(100_000)),
            "line 9",
        ),
    ] {
        std::fs::write(&path, SHORT.replacen(from, to, 1)).unwrap();
        let error = ShortLived::load(&path).unwrap_err().to_string();
        assert!(error.contains(word) && error.contains("p.toml"), "{error}");
        assert!(error.len() < 1000, "{} bytes", error.len());
    }
}

fn git(dir: &Path, at_s: u64, arguments: &[&str]) {
    let date = format!("{at_s} +0000");
    let mut command = Command::new("git");
    command
        .arg("-C")
        .arg(dir)
        .args(["-c", "user.name=a", "-c", "user.email=a@b"])
        .args(arguments);
    command
        .env("GIT_COMMITTER_DATE", &date)
        .env("GIT_AUTHOR_DATE", &date);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_workload_from_git_leads_to_the_last_commit() {
    if !fsage_testing::tool("git") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let repository = dir.path().join("r");
    std::fs::create_dir_all(repository.join("src/deep")).unwrap();
    let put = |name: &str, bytes: usize| {
        std::fs::write(repository.join(name), vec![b'x'; bytes]).unwrap();
    };
    let day = 86_400;
    git(&repository, 0, &["init", "-q", "."]);
    put("src/deep/a.c", 5000);
    put("README", 100);
    std::os::unix::fs::symlink("README", repository.join("alias")).unwrap();
    let commit = |at_s: u64| {
        git(&repository, at_s, &["add", "-A"]);
        git(&repository, at_s, &["commit", "-q", "-m", "x"]);
    };
    commit(1_000_000_000);
    put("README", 3_000_000);
    std::fs::remove_dir_all(repository.join("src")).unwrap();
    put("src", 7);
    commit(1_000_000_000 + 3 * day);
    put("\u{e4} b\n", 0);
    // Dated before the one before it.
    commit(1_000_000_000);
    std::fs::remove_file(repository.join("src")).unwrap();
    std::fs::create_dir(repository.join("src")).unwrap();
    put("src/b.c", 9000);
    commit(1_000_000_000 + 5 * day);
    let mut source = GitSource::new(&repository, &WANTED).unwrap();
    let path = dir.path().join("w.fst");
    let (made, _) = generate(
        &mut source,
        &path,
        &mut |_, _, _| {},
        &AtomicBool::new(false),
    )
    .unwrap();
    assert_eq!((made.days, made.utilisation.len()), (6, 6));
    assert_eq!(
        made.left_out
            .get("commits dated before the one before them"),
        Some(&1)
    );
    let left = carried_out(&path);
    let found: BTreeMap<String, Option<u64>> = left
        .names
        .iter()
        .filter(|(name, _)| !name.starts_with(b".git"))
        .map(|(name, thing)| {
            let size = if let Thing::File(file) = thing {
                Some(left.sizes[file])
            } else {
                None
            };
            (String::from_utf8(name.clone()).unwrap(), size)
        })
        .collect();
    let expected = [
        ("README", Some(3_000_000)),
        ("alias", None),
        ("src", None),
        ("src/b.c", Some(9000)),
        ("\u{e4} b\n", Some(0)),
    ];
    assert_eq!(found, expected.map(|(n, s)| (n.to_owned(), s)).into());
    assert_eq!(left.names[&b"alias"[..]], Thing::Link(b"README".to_vec()));
    // 4 commits, 4 roots, 2 trees of src, one of deep, and the blobs: two of README, alias, a.c, src, b.c and an empty one.
    let objects = left
        .names
        .keys()
        .filter(|n| n.starts_with(b".git/objects/") && n.len() > 40)
        .count();
    assert_eq!(objects, 4 + 4 + 3 + 7);
    let nothing = dir.path().join("nothing");
    std::fs::create_dir(&nothing).unwrap();
    let error = GitSource::new(&nothing, &WANTED).err().unwrap().to_string();
    assert!(
        error.contains("nothing") && error.contains("not a git repository"),
        "{error}"
    );
}

#[test]
fn what_lies_where_tells_in_which_turns_it_was_written_and_what_was_gone_by_then() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, ino, blocks: u64, hours: (i64, i64), extents: &[(u64, u64, u64)]| {
        let ns = |hour| NIGHT_NS as i64 + hour * 3_600_000_000_000;
        SnapshotEntry {
            generation: 1,
            allocated_bytes: blocks * 4096,
            btime_ns: Some(ns(hours.0)),
            mtime_ns: ns(hours.1),
            ctime_ns: ns(hours.1),
            extents: extents
                .iter()
                .map(|&(logical, physical, length)| Extent {
                    logical_bytes: logical * 4096,
                    physical_bytes: physical * 4096,
                    length_bytes: length * 4096,
                    flags: 0,
                })
                .collect(),
            ..SnapshotEntry::of(name.into(), ino, FileType::Regular, blocks * 4096)
        }
    };
    let old = file("old", 11, 8, (-1, -1), &[(0, 100, 8)]);
    let log = file("log", 15, 2, (-1, -1), &[(0, 300, 2)]);
    // Each in the way of another, which is written at the seventh hour.
    let late = (0..8).map(|n| {
        file(
            &format!("late{n}"),
            20 + n,
            1,
            (-1, -1),
            &[(0, 1002 + 10 * n, 1)],
        )
    });
    let first: Vec<SnapshotEntry> = [log, old].into_iter().chain(late).collect();
    write(&dir.path().join("0.fss"), meta(0), &first);
    let in_the_way = (0..8).map(|n| {
        let extents = [(0, 1000 + 10 * n, 2), (2, 2000 + 10 * n, 1)];
        file(&format!("e{n}-"), 40 + n, 3, (7, 7), &extents)
    });
    let night = [
        // In two parts because something older lay between them: written in one go.
        file("d", 16, 3, (3, 3), &[(0, 298, 2), (2, 400, 1)]),
        // Where `old` was.
        file("c", 14, 8, (6, 6), &[(0, 100, 8)]),
        file("b", 13, 4, (11, 12), &[(0, 202, 2), (2, 206, 2)]),
        file("a", 12, 4, (10, 12), &[(0, 200, 2), (2, 204, 2)]),
        // Added to when most was going on, and again behind something that is gone.
        file(
            "log",
            15,
            4,
            (-1, 20),
            &[(0, 300, 2), (2, 208, 1), (3, 310, 1)],
        ),
    ];
    let night: Vec<SnapshotEntry> = night.into_iter().chain(in_the_way).collect();
    write(&dir.path().join("1.fss"), meta(1), &night);
    let (made, path) = made(dir.path(), SnapshotOptions::default()).unwrap();
    assert_eq!(made.deletes.as_deref(), Some("learnt"));
    carried_out(&path);
    let mut reader = TraceReader::open(&path).unwrap();
    let (mut batch, mut calls, mut name) = (Vec::new(), Vec::new(), String::new());
    while reader.next_batch(&mut batch).unwrap() > 0 {
        for op in batch.drain(..).filter(|op| op.start_ns > DAY_NS) {
            if let Some(path) = op.path {
                name = reader.paths().display(path).into_owned();
            }
            match op.kind {
                OpKind::Unlink => calls.push(format!("-{name}")),
                OpKind::Write => calls.push(format!("{name}{}", op.length.unwrap() / 4096)),
                OpKind::Fsync => calls.push("!".into()),
                _ => {}
            }
        }
    }
    let position = |call: &str| calls.iter().position(|c| c == call);
    for n in 0..8 {
        // What was in the way went after that, and so what is behind it may have been written apart.
        let (gone, written) = (position(&format!("-late{n}")), position(&format!("e{n}-2")));
        assert!(written.is_some() && gone > written, "{n}: {calls:?}");
        let behind = position(&format!("e{n}-1"));
        assert!(behind > written, "{n}: {calls:?}");
    }
    // Theirs, the files in their holes and the write-backs of both are told above.
    let mut theirs = false;
    calls.retain(|call| {
        let hole = call.trim_start_matches('-').strip_prefix(".short-");
        theirs = call == "!" && theirs
            || call.starts_with("-late")
            || call.starts_with('e')
            || hole.is_some_and(|number| !number.starts_with('0'));
        !theirs
    });
    assert_eq!(
        calls.join(" "),
        "d3 -old c8 ! log1 ! .short-016 ! a2 ! b2 ! a2 b2 log1 -.short-0",
        "each in its turn"
    );
}
