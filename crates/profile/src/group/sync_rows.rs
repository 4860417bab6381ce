//! Waiting for stable storage again and again, as logs, databases and installers do.
//!
//! Calls follow each other with short pauses. A disk's turn and the journal's place decide what a commit waits for,
//! and both stay nearly the same from one call of a row to the next: rows are short, and each begins elsewhere.

use fsage_core::{Errno, Handle, OpenFlags, RangeSync};

use super::stream::evict;
use super::sync::{
    PAUSES, fresh, note_pauses, note_placement, pause, placement, push_on, rest, write,
};
use crate::error::{Halt, Res};
use crate::lab::{Batch, Lab, PAYLOAD_BYTES};
use crate::probe::{Components, Probe};
use crate::registry::Procedure;

pub(crate) const PROCEDURES: &[Procedure] = &[
    Procedure {
        name: "fsync in sequences",
        stems: &SEQUENCES,
        share: (40, 40),
        run: rows,
    },
    Procedure {
        name: "fsyncs of many files",
        stems: &["FSYTN"],
        share: (6, 8),
        run: none_renamed,
    },
];

const SEQUENCES: [&str; 17] = [
    "FSYS", "FDSS", "FDSL", "FDSA", "FSYO", "FSYB", "FDSO", "FDSB", "FDSU", "FDSR", "FSYW", "FSYT",
    "SFRW", "RDSY", "DWO", "DWOR", "DRR",
];
/// Those of calls that wait in rows; direct writes have rounds of their own.
const ROWS: &[&str] = SEQUENCES.split_at(SEQUENCES.len() - DIRECT.len() - 1).0;
const DIRECT: [&str; 2] = ["DWO", "DWOR"];
/// Files of a sequence.
const FILES: usize = 20;
const DIRS_APART: usize = 4;
/// Sequences of a round on one file, and calls of each.
const SHORT_ROWS: u64 = 4;
const IN_A_ROW: u64 = 6;
/// What logs and databases have allocated beforehand.
const ALLOCATED_BYTES: u64 = 16 << 20;
/// Blocks of [`ALLOCATED_BYTES`] that one fdatasync writes, each for itself.
const SCATTERED: u64 = 16;
const BLOCK: u64 = 4096;
/// How many blocks a log has at least before a row, and by how many more at the most: one of more blocks than an inode
/// holds, which ext2 and ext4 place by themselves, and one of at most 16, which they place beside the inode.
const LARGE: (u64, u64) = (16, 64);
const SMALL: (u64, u64) = (0, 12);
/// Blocks that an inode of ext2 holds by themselves.
const FIRST_BLOCKS: u64 = 12;
/// A small record of a log.
const RECORD: u64 = 500;
const FILE_BYTES: usize = 16 << 10;
/// Reads of a row, each after a file made stable.
const READS: usize = 5;
/// Direct writes in a row, or reads at once, and the writes' size in blocks.
const DIRECT_ROW: u64 = 8;
const DIRECT_BLOCKS: u64 = 4;
/// Blocks from one direct write, or one read, to the next.
const ELSEWHERE: u64 = 1579;

fn rows(lab: &mut Lab<'_>) -> Res {
    rest(lab)?;
    let dir = lab.fresh_dir_at_home("z")?;
    let apart = directories_apart(lab, &dir)?;
    let rounds = (lab.scale(2, 6), lab.scale(12, 40));
    let before = placement(lab);
    let (files, [no_start, no_reserve]) = allocated(lab, &apart)?;
    let written = files.first().map(Vec::as_slice).unwrap_or_default();
    let no_cold = if lab.stalls.slow_device || lab.fs.virtual_time().is_some() {
        match evict(lab, written) {
            Err(halt @ Halt::Absent(_)) => Some(halt.reason()),
            other => other.map(|()| None)?,
        }
    } else {
        Some("the device is memory, where nothing moves".to_owned())
    };
    if let Some(reason) = &no_cold {
        lab.absent("RDSY", reason);
    }
    // Short, and so before what may use up the time. Computed devices have no page cache to pass.
    let most = lab.scale(if lab.short_commits { 20 } else { 7 }, 40);
    let direct_rounds = match lab.fs.virtual_time() {
        Some(_) => (0, 0),
        None => (lab.scale(3, 6), most),
    };
    or_absent(lab, &DIRECT, direct_rounds, |lab, round| {
        direct(lab, written, round)
    })?;
    // Not among the writes: a queue that is taken away lets the processor rest for long.
    or_absent(lab, &["DRR"], direct_rounds, |lab, round| {
        at_once(lab, written, round)
    })?;
    lab.rounds(ROWS, rounds, |lab, round| {
        for dir in &apart {
            push_on(lab, dir)?;
        }
        in_place(lab, &files, ["FDSO", "FDSB"], round)?;
        small_files(lab, &apart, round)?;
        logs(lab, &apart, Row::of("FDSS", BLOCK, round), LARGE, 0)?;
        in_place(lab, &files, ["FSYO", "FSYB"], round)?;
        for (stem, size) in [("FDSL", LARGE), ("FDSA", SMALL)] {
            logs(lab, &apart, Row::of(stem, RECORD, round), size, BLOCK / 4)?;
        }
        if no_reserve.is_none() {
            unwritten(lab, &dir, round)?;
        }
        scattered(lab, written)?;
        if no_cold.is_none() {
            reads_between(lab, &dir, written, round)?;
        }
        if no_start.is_none() {
            started(lab, &dir)?;
        }
        lab.check()
    })?;
    cannot(lab, [no_start, no_reserve]);
    note_pauses(lab, &SEQUENCES);
    note_placement(lab, ROWS, &before);
    apart.iter().try_for_each(|dir| lab.clear(dir))
}

/// Rounds of what not every file system can, which says so.
fn or_absent(
    lab: &mut Lab<'_>,
    stems: &[&str],
    rounds: (usize, usize),
    body: impl FnMut(&mut Lab<'_>, usize) -> Res,
) -> Res {
    match lab.rounds(stems, rounds, body) {
        Err(halt @ (Halt::Failed(_) | Halt::Absent(_))) => {
            for stem in stems {
                lab.absent(stem, &halt.reason());
            }
            Ok(())
        }
        other => other,
    }
}

/// Says what could not be measured without starting writes, and without reserving space.
fn cannot(lab: &mut Lab<'_>, [no_start, no_reserve]: [Option<Errno>; 2]) {
    for (errno, stems) in [
        (no_start, ["SFRW", "FSYW", "FSYT"].as_slice()),
        (no_reserve, &["FDSU"]),
    ] {
        let reason = errno.map(|errno| Halt::from(errno).reason());
        for (stem, reason) in stems.iter().zip(reason.iter().cycle()) {
            lab.absent(stem, reason);
        }
    }
}

/// Writes past the page cache.
fn direct(lab: &mut Lab<'_>, path: &[u8], round: usize) -> Res {
    let fs = lab.fs;
    let flags = OpenFlags {
        direct: true,
        ..OpenFlags::READ_WRITE
    };
    let blocks = fs.stat(path)?.size_bytes / BLOCK;
    let payload = std::mem::take(&mut lab.payload);
    // The device takes what lies at a page.
    let from = payload.as_ptr().align_offset(BLOCK as usize);
    let done = lab.with_open(path, flags, |lab, handle| {
        lab.begin(Batch::Blocking);
        for (turn, kib) in [4u32, 64, 512].into_iter().enumerate() {
            let piece = payload.get(from..from + ((kib as usize) << 10));
            let last = blocks.saturating_sub(u64::from(kib) / 4).max(1);
            let at = (3 * round + turn) as u64 * ELSEWHERE % last;
            let probe = Probe::at("DWO", kib);
            let gap = pause(lab, probe, round + turn);
            lab.call_now(probe, gap, Components::default(), || {
                fs.pwrite(handle, piece.unwrap_or_default(), at * BLOCK)
            })?;
        }
        lab.end()?;
        let bytes = (DIRECT_BLOCKS * BLOCK) as usize;
        let piece = payload.get(from..from + bytes).unwrap_or_default();
        let write = |number: u64| {
            let at = (round as u64 * DIRECT_ROW + number) * ELSEWHERE
                % blocks.saturating_sub(DIRECT_BLOCKS).max(1);
            fs.pwrite(handle, piece, at * BLOCK)
        };
        write(0)?;
        lab.begin(Batch::Blocking);
        let ((), row_ns) =
            lab.timed(|| (1..=DIRECT_ROW).try_for_each(|number| write(number).map(drop)))?;
        lab.add(Probe::of("DWOR"), 0, row_ns / DIRECT_ROW as f64);
        lab.end().map(|_| ())
    });
    lab.payload = payload;
    done
}

/// Reads past the page cache that are all there at once: what each takes beyond its being asked for.
fn at_once(lab: &mut Lab<'_>, path: &[u8], round: usize) -> Res {
    let fs = lab.fs;
    let flags = OpenFlags {
        direct: true,
        ..OpenFlags::READ
    };
    let blocks = fs.stat(path)?.size_bytes / BLOCK;
    let place = |number: u64| {
        let number = round as u64 * DIRECT_ROW + number;
        number * ELSEWHERE % blocks.max(1) * BLOCK
    };
    let offsets: Vec<u64> = (0..DIRECT_ROW).map(place).collect();
    let (mut asked_ns, mut came_ns) = (0, 0);
    lab.with_open(path, flags, |lab, handle| {
        lab.begin(Batch::Blocking);
        lab.timed(|| {
            let mut noted = || (asked_ns, came_ns) = (came_ns, fs.clock().now_ns());
            fs.read_at_once(handle, BLOCK as usize, &offsets, &mut noted)
        })?;
        let waited_ns = came_ns.saturating_sub(asked_ns) as f64;
        lab.add(Probe::of("DRR"), 0, waited_ns / DIRECT_ROW as f64);
        lab.end().map(|_| ())
    })
}

type Paths = Vec<Vec<u8>>;

/// A file with allocated blocks in each directory, and why the target cannot start to write, and reserve blocks.
fn allocated(lab: &mut Lab<'_>, dirs: &[String]) -> Res<(Paths, [Option<Errno>; 2])> {
    let fs = lab.fs;
    let (mut paths, mut cannot) = (Vec::new(), [None; 2]);
    let bytes = ALLOCATED_BYTES.min(lab.room_bytes() / (2 * dirs.len().max(1) as u64));
    for dir in dirs {
        let path = fresh(lab, dir);
        cannot = lab.with_open(&path, OpenFlags::CREATE_NEW, |lab, handle| {
            lab.fill(handle, 0, bytes)?;
            fs.fsync(handle)?;
            let starts = fs.sync_file_range(handle, 0, 0, RangeSync::START);
            let reserves = fs.fallocate(handle, 0, bytes);
            Ok([starts.err(), reserves.err()])
        })?;
        paths.push(path);
    }
    Ok((paths, cannot))
}

/// What the calls of short rows wait for.
#[derive(Clone, Copy)]
struct Row {
    stem: &'static str,
    /// Bytes that each call finds written.
    bytes: u64,
    /// Which pause the first one has: the place in a row decides nothing.
    turn: usize,
}

impl Row {
    const fn of(stem: &'static str, bytes: u64, turn: usize) -> Self {
        Self { stem, bytes, turn }
    }

    /// Pauses, writes and waits some times, from `at` on; the next row.
    fn run(&mut self, lab: &mut Lab<'_>, handle: Handle, at: u64) -> Res {
        let (fs, probe) = (lab.fs, Probe::of(self.stem));
        lab.begin(Batch::Blocking);
        for turn in 0..IN_A_ROW {
            let gap = pause(lab, probe, self.turn + turn as usize);
            write(lab, handle, at + turn * self.bytes, self.bytes as usize)?;
            lab.call_now(probe, gap, Components::default(), || match self.stem {
                "FSYO" | "FSYB" => fs.fsync(handle),
                _ => fs.fdatasync(handle),
            })?;
        }
        self.turn += 1;
        lab.end().map(|_| ())
    }
}

/// Rows over allocated blocks of one file after another, which begin anywhere, and among the first ones, by turns: where
/// a file's blocks and its inode lie to each other decides how many turns of a disk a commit takes.
fn in_place(lab: &mut Lab<'_>, paths: &[Vec<u8>], stems: [&'static str; 2], round: usize) -> Res {
    let [mut anywhere, mut first] = stems.map(|stem| Row::of(stem, BLOCK, round));
    for path in paths.iter().cycle().take(SHORT_ROWS as usize) {
        let blocks = lab.fs.stat(path)?.size_bytes / BLOCK;
        for (row, blocks) in [
            (&mut anywhere, blocks),
            (&mut first, FIRST_BLOCKS.min(blocks)),
        ] {
            lab.with_open(path, OpenFlags::READ_WRITE, |lab, handle| {
                let at = lab.random.next() % blocks.saturating_sub(IN_A_ROW).max(1);
                row.run(lab, handle, at * BLOCK)
            })?;
        }
    }
    Ok(())
}

/// Rows of appends, each to a log of its own in one directory after another, which has at least so many blocks and at
/// most so many more; `within`: of a block a row begins so far.
fn logs(
    lab: &mut Lab<'_>,
    dirs: &[String],
    mut row: Row,
    (least, more): (u64, u64),
    within: u64,
) -> Res {
    let fs = lab.fs;
    let mut paths = Vec::new();
    for dir in dirs.iter().cycle().take(SHORT_ROWS as usize) {
        let path = fresh(lab, dir);
        lab.with_open(&path, OpenFlags::CREATE_NEW, |lab, handle| {
            let start = (least + 1 + lab.random.next() % more) * BLOCK + within;
            write(lab, handle, 0, start as usize)?;
            fs.fdatasync(handle)?;
            row.run(lab, handle, start)
        })?;
        paths.push(path);
    }
    paths.iter().try_for_each(|path| Ok(fs.unlink(path)?))
}

/// Rows over blocks that were reserved and never written.
fn unwritten(lab: &mut Lab<'_>, dir: &str, round: usize) -> Res {
    let fs = lab.fs;
    let path = fresh(lab, dir);
    lab.with_open(&path, OpenFlags::CREATE_NEW, |lab, handle| {
        fs.fallocate(handle, 0, 1 << 20)?;
        fs.fsync(handle)?;
        let mut row = Row::of("FDSU", BLOCK, round);
        (0..SHORT_ROWS).try_for_each(|turn| row.run(lab, handle, turn << 17))
    })?;
    Ok(fs.unlink(&path)?)
}

/// Blocks that lie apart.
fn scattered(lab: &mut Lab<'_>, path: &[u8]) -> Res {
    let fs = lab.fs;
    let part = fs.stat(path)?.size_bytes / BLOCK / SCATTERED;
    lab.with_open(path, OpenFlags::READ_WRITE, |lab, handle| {
        for row in 0..2 {
            // One in each part of the file, none beside another, nor where the row before was.
            for number in 0..SCATTERED {
                let third = (part / 3).max(1);
                let within = 2 * row * (part / 3) + lab.random.next() % third;
                write(
                    lab,
                    handle,
                    (number * part + within) * BLOCK,
                    BLOCK as usize,
                )?;
            }
            lab.begin(Batch::Blocking);
            lab.call(Probe::of("FDSR"), 0, || fs.fdatasync(handle))?;
            lab.end()?;
        }
        Ok(())
    })
}

/// Where the device turns, directories that lie apart: one turn or two of it are what an fsync takes, by where a file
/// lies to its directory and its inode, and one directory would say the same of all. Where directories take turns among
/// places, that is told by `FSYP`; `dir` is alone there, and where nothing turns.
fn directories_apart(lab: &mut Lab<'_>, dir: &str) -> Res<Vec<String>> {
    let mut dirs = vec![dir.to_owned()];
    if !lab.short_commits && lab.home.is_none() && lab.fs.virtual_time().is_none() {
        for _ in 1..DIRS_APART {
            dirs.push(lab.fresh_dir("z")?);
        }
    }
    Ok(dirs)
}

/// Small files, one after the other.
fn small_files(lab: &mut Lab<'_>, dirs: &[String], round: usize) -> Res {
    let fs = lab.fs;
    let mut paths = Vec::new();
    lab.begin(Batch::Blocking);
    for (turn, dir) in dirs
        .iter()
        .flat_map(|dir| std::iter::repeat_n(dir, FILES.div_ceil(dirs.len())))
        .enumerate()
    {
        let path = fresh(lab, dir);
        let probe = Probe::of("FSYS");
        let gap = pause(lab, probe, round + turn);
        lab.with_open(&path, OpenFlags::CREATE_NEW, |lab, handle| {
            write(lab, handle, 0, FILE_BYTES)?;
            lab.call_now(probe, gap, Components::default(), || fs.fsync(handle))
        })?;
        paths.push(path);
    }
    lab.end()?;
    paths.iter().try_for_each(|path| Ok(fs.unlink(path)?))
}

/// Reads of another place of a device, each after a small file was made stable.
fn reads_between(lab: &mut Lab<'_>, dir: &str, old: &[u8], round: usize) -> Res {
    let (fs, mut buffer) = (lab.fs, [0u8; BLOCK as usize]);
    let blocks = (fs.stat(old)?.size_bytes / BLOCK).max(1);
    let mut paths = Vec::new();
    evict(lab, old)?;
    lab.with_open(old, OpenFlags::READ, |lab, old| {
        lab.begin(Batch::Blocking);
        for turn in 0..READS {
            paths.push(new_file(lab, dir, |_, handle| Ok(fs.fsync(handle)?))?);
            let at = (round * READS + turn) as u64 * ELSEWHERE % blocks * BLOCK;
            lab.call(Probe::of("RDSY"), 0, || fs.pread(old, &mut buffer, at))?;
        }
        lab.end().map(|_| ())
    })?;
    paths.iter().try_for_each(|path| Ok(fs.unlink(path)?))
}

/// Makes a file and writes it; `then` follows while it is open.
fn new_file(
    lab: &mut Lab<'_>,
    dir: &str,
    then: impl FnOnce(&mut Lab<'_>, Handle) -> Res,
) -> Res<Vec<u8>> {
    let path = fresh(lab, dir);
    lab.with_open(&path, OpenFlags::CREATE_NEW, |lab, handle| {
        write(lab, handle, 0, FILE_BYTES)?;
        then(lab, handle)
    })?;
    Ok(path)
}

/// Makes a file, writes it and starts its writing; `then` follows while it is open.
fn start(
    lab: &mut Lab<'_>,
    dir: &str,
    then: impl FnOnce(&mut Lab<'_>, Handle) -> Res,
) -> Res<Vec<u8>> {
    new_file(lab, dir, |lab, handle| {
        let (fs, probe) = (lab.fs, Probe::at("SFRW", (FILE_BYTES >> 10) as u32));
        lab.call(probe, 0, || {
            fs.sync_file_range(handle, 0, 0, RangeSync::START)
        })?;
        then(lab, handle)
    })
}

/// Files whose writing is started as they are made: each made stable at once, then many of them later, by when the
/// first one's commit is that of all; and pieces of a large one.
fn started(lab: &mut Lab<'_>, dir: &str) -> Res {
    let fs = lab.fs;
    let mut paths = Vec::new();
    lab.begin(Batch::Blocking);
    for turn in 0..FILES / 3 {
        paths.push(start(lab, dir, |lab, handle| {
            lab.pause(turn % PAUSES);
            lab.call(Probe::of("FSYW"), 0, || fs.fsync(handle))
        })?);
    }
    lab.end()?;
    lab.begin(Batch::Blocking);
    let mut many = Vec::new();
    for _ in 0..FILES / 2 {
        many.push(start(lab, dir, |_, _| Ok(()))?);
    }
    for (turn, path) in many.into_iter().enumerate() {
        let renamed = fresh(lab, dir);
        lab.with_open(&path, OpenFlags::READ_WRITE, |lab, handle| {
            let probe = if turn == 0 { "FSYW" } else { "FSYT" };
            lab.call(Probe::of(probe), 0, || fs.fsync(handle))
        })?;
        fs.rename(&path, &renamed)?;
        paths.push(renamed);
    }
    lab.end()?;
    let path = fresh(lab, dir);
    lab.with_open(&path, OpenFlags::CREATE_NEW, |lab, handle| {
        lab.begin(Batch::Blocking);
        for turn in 0..2 {
            let at = turn * PAYLOAD_BYTES as u64;
            write(lab, handle, at, PAYLOAD_BYTES)?;
            let probe = Probe::at("SFRW", (PAYLOAD_BYTES >> 10) as u32);
            let bytes = PAYLOAD_BYTES as u64;
            lab.call(probe, 0, || {
                fs.sync_file_range(handle, at, bytes, RangeSync::START)
            })?;
        }
        lab.end()?;
        Ok(fs.fsync(handle)?)
    })?;
    paths.push(path);
    paths.iter().try_for_each(|path| Ok(fs.unlink(path)?))
}

/// Files whose writing was started, one made stable after the other, where no name changes. The first commits for all.
fn none_renamed(lab: &mut Lab<'_>) -> Res {
    let (fs, dir) = (lab.fs, lab.fresh_dir_at_home("zn")?);
    let rounds = (lab.scale(2, 6), lab.scale(6, 20));
    lab.rounds(&["FSYTN"], rounds, |lab, _| {
        lab.begin(Batch::Blocking);
        let mut paths = Vec::new();
        for _ in 0..FILES {
            paths.push(new_file(lab, &dir, |_, handle| {
                Ok(fs.sync_file_range(handle, 0, 0, RangeSync::START)?)
            })?);
        }
        for (turn, path) in paths.iter().enumerate() {
            lab.with_open(path, OpenFlags::READ_WRITE, |lab, handle| match turn {
                0 => Ok(fs.fsync(handle)?),
                _ => lab.call(Probe::of("FSYTN"), 0, || fs.fsync(handle)),
            })?;
        }
        lab.end()?;
        paths.iter().try_for_each(|path| Ok(fs.unlink(path)?))
    })
}
