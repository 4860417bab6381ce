//! Waiting for stable storage, by what the transaction holds.
//!
//! Each procedure begins with nothing dirty and nothing left to the kernel's threads, so that a commit
//! holds what the call's own file put into it. Ordinary scheduling throughout: a commit costs twice as much when the journal's thread is kept
//! from the CPU of its caller, and a workload does not keep it away.

use fsage_core::{Handle, OpenFlags};

use crate::error::Res;
use crate::lab::{Batch, GAPS, Lab, PAYLOAD_BYTES};
use crate::probe::{Components, Probe};
use crate::registry::Procedure;

pub(crate) const PROCEDURES: &[Procedure] = &[Procedure {
    name: "fsync, single",
    stems: &SINGLE,
    share: (30, 50),
    run: single,
}];

const SINGLE: [&str; 10] = [
    "FSY", "FDS", "FSYC", "FSYN", "FSYP", "FSYRN", "FSYRM", "FSYD", "FSYDF", "FSYQ",
];

/// Of how many places on the device commits are measured.
const PLACES: usize = 4;
/// Files of one of them in a round.
const FILES_OF_PLACE: usize = 3;
/// How many files that are kept come before a measurement at the most, of the largest size that is placed as small ones
/// are: about a track of a disk, on which it is chance how long one place comes after another.
const KEPT: usize = 28;
const KEPT_BYTES: usize = 64 << 10;

/// So often large files are measured on a device in memory, where they stay until all is: blocks that were just freed cost half as
/// much there as new ones, whose pages its image does not have yet, and a program's new files lie in new ones.
const KEPT_LARGE: usize = 8;

/// How long the kernel's threads are given to finish what earlier procedures left to them.
const REST: std::time::Duration = std::time::Duration::from_millis(60);

/// A commit that takes longer waits for a device: what processors' caches hold is nothing beside that.
const SHORT_NS: f64 = 1e6;
/// Pauses between commits of which one figure is made there.
pub(super) const PAUSES: usize = 4;

/// Nothing is dirty, the journal is empty, and all is quiet.
pub(super) fn rest(lab: &mut Lab<'_>) -> Res {
    lab.start_afresh()?;
    lab.settle()?;
    lab.rest(REST);
    // Computed time knows no processor's caches.
    if lab.fs.virtual_time().is_some() {
        return lab.settle();
    }
    let dir = lab.fresh_dir("r")?;
    let fs = lab.fs;
    for _ in 0..4 {
        let path = fresh(lab, &dir);
        lab.short_commits |= lab.with_open(&path, OpenFlags::CREATE_NEW, |lab, handle| {
            write(lab, handle, 0, 4096)?;
            Ok(lab.timed(|| fs.fsync(handle))?.1 < SHORT_NS)
        })?;
    }
    lab.settle()
}

/// Passes the pause before what the `turn`th commit writes; the pause by which the commit is to be known.
pub(super) fn pause(lab: &mut Lab<'_>, probe: Probe, turn: usize) -> usize {
    let gap = if lab.short_commits {
        lab.afforded(probe, turn % GAPS)
    } else {
        turn % PAUSES
    };
    lab.pause(gap);
    if lab.short_commits { gap } else { 0 }
}

fn single(lab: &mut Lab<'_>) -> Res {
    rest(lab)?;
    let dir = lab.fresh_dir_at_home("y")?;
    let places = lab.fresh_dirs_at_places("y", PLACES)?;
    let rounds = (lab.scale(10, 20), lab.scale(30, 150));
    let before = placement(lab);
    lab.rounds(&SINGLE, rounds, |lab, round| {
        push_on(lab, &dir)?;
        if places.len() > 1 {
            by_place(lab, &places)?;
        }
        lab.begin(Batch::Blocking);
        of_one_file(lab, &dir, round)?;
        lab.end()?;
        lab.begin(Batch::Blocking);
        of_names(lab, &dir, round)?;
        lab.end()?;
        // The large ones say little more with every repetition and take most of the time.
        let keep = lab.short_commits && lab.fs.virtual_time().is_none();
        if round % 4 == 0 && (!keep || round < 4 * KEPT_LARGE) {
            lab.begin(Batch::Blocking);
            large(lab, &dir, keep)?;
            lab.end()?;
        }
        Ok(())
    })?;
    note_pauses(lab, &SINGLE);
    note_placement(lab, &SINGLE, &before);
    if places.len() < 2 {
        lab.absent("FSYP", "directories do not take turns among places");
    }
    places.iter().try_for_each(|place| lab.clear(place))?;
    lab.clear(&dir)
}

/// What is made next in a directory lies elsewhere on a track: what a commit waits for its turn hangs on that, and
/// who reuses what was just freed measures one place again and again.
pub(super) fn push_on(lab: &mut Lab<'_>, dir: &str) -> Res {
    if lab.short_commits || lab.fs.virtual_time().is_some() {
        return Ok(());
    }
    for _ in 0..lab.random.below(KEPT) {
        let path = fresh(lab, dir);
        lab.with_open(&path, OpenFlags::CREATE_NEW, |lab, handle| {
            write(lab, handle, 0, KEPT_BYTES)
        })?;
    }
    Ok(lab.fs.sync()?)
}

/// New files made stable in each of the places among which directories take turns.
fn by_place(lab: &mut Lab<'_>, places: &[String]) -> Res {
    let fs = lab.fs;
    for (turn, dir) in places.iter().enumerate() {
        lab.begin(Batch::Blocking);
        for _ in 0..FILES_OF_PLACE {
            let path = fresh(lab, dir);
            lab.with_open(&path, OpenFlags::CREATE_NEW, |lab, handle| {
                write(lab, handle, 0, 4096)?;
                lab.call(Probe::at("FSYP", turn as u32), 0, || fs.fsync(handle))
            })?;
            fs.unlink(&path)?;
        }
        lab.end()?;
    }
    Ok(())
}

/// Says of metrics after pauses that were not measured why.
pub(super) fn note_pauses(lab: &mut Lab<'_>, stems: &[&str]) {
    let families = stems.iter().filter_map(|s| fsage_core::metric::family(s));
    for id in families.flat_map(fsage_core::metric::FamilyId::metrics) {
        if id.gap() > 0 && lab.measurements.count(id) == 0 {
            let reason = "measured without pauses: so long a call costs the same after them";
            lab.reasons.push((id, reason.to_owned()));
        }
    }
}

pub(super) fn fresh(lab: &mut Lab<'_>, dir: &str) -> Vec<u8> {
    let name = lab.random.next();
    format!("{dir}/{name:016x}").into_bytes()
}

pub(super) fn write(lab: &Lab<'_>, handle: Handle, at: u64, bytes: usize) -> Res {
    let fs = lab.fs;
    let piece = lab
        .payload
        .get(..bytes.min(PAYLOAD_BYTES))
        .unwrap_or_default();
    let mut done = 0;
    while done < bytes {
        let part = piece
            .get(..(bytes - done).min(piece.len()))
            .unwrap_or_default();
        done += fs.pwrite(handle, part, at + done as u64)?.max(1);
    }
    Ok(())
}

/// The same where commits are short; elsewhere there is none.
fn pause_if_short(lab: &mut Lab<'_>, probe: Probe, turn: usize) -> usize {
    let turn = if lab.short_commits { turn } else { 0 };
    pause(lab, probe, turn)
}

/// Nothing, and an extension of a file that was synced before.
fn of_one_file(lab: &mut Lab<'_>, dir: &str, round: usize) -> Res {
    let fs = lab.fs;
    let path = fresh(lab, dir);
    lab.with_open(&path, OpenFlags::CREATE_NEW, |lab, handle| {
        write(lab, handle, 0, 64 << 10)?;
        fs.fsync(handle)?;
        let mut end = 64u64 << 10;
        for data in [false, true] {
            let stem = if data { "FDS" } else { "FSY" };
            let mut gap = pause_if_short(lab, Probe::at(stem, 4), round);
            write(lab, handle, end, 4096)?;
            end += 4096;
            for kib in [4, 0] {
                lab.call_now(Probe::at(stem, kib), gap, Components::default(), || {
                    if data {
                        fs.fdatasync(handle)
                    } else {
                        fs.fsync(handle)
                    }
                })?;
                gap = 0;
            }
        }
        // fdatasync has left the times of the last write.
        fs.fsync(handle)?;
        for gap in 0..GAPS {
            lab.call(Probe::of("FSYQ"), gap, || fs.fsync(handle))?;
        }
        Ok(())
    })?;
    Ok(fs.unlink(&path)?)
}

/// Creates, renames and unlinks, and fsyncs of the directory.
fn of_names(lab: &mut Lab<'_>, dir: &str, round: usize) -> Res {
    let fs = lab.fs;
    let mut paths = Vec::new();
    for (turn, kib) in [0u32, 1, 4, 16, 64].into_iter().enumerate() {
        let path = fresh(lab, dir);
        let probe = match kib {
            0 => Probe::of("FSYC"),
            _ => Probe::at("FSYN", kib),
        };
        let gap = pause_if_short(lab, probe, round + turn);
        lab.with_open(&path, OpenFlags::CREATE_NEW, |lab, handle| {
            write(lab, handle, 0, (kib as usize) << 10)?;
            lab.call_now(probe, gap, Components::default(), || fs.fsync(handle))
        })?;
        if (kib as usize) << 10 < KEPT_BYTES || !lab.short_commits {
            paths.push(path);
        }
    }
    let after = with_directory(lab, dir, |lab, directory| {
        let path = fresh(lab, dir);
        let gap = pause_if_short(lab, Probe::of("FSYD"), round);
        let handle = fs.open(&path, OpenFlags::CREATE_NEW, 0o644)?;
        fs.close(handle)?;
        lab.call_now(Probe::of("FSYD"), gap, Components::default(), || {
            fs.fsync(directory)
        })?;
        let next = fresh(lab, dir);
        lab.with_open(&next, OpenFlags::CREATE_NEW, |lab, handle| {
            write(lab, handle, 0, 4096)?;
            fs.fsync(handle)?;
            lab.call(Probe::of("FSYDF"), 0, || fs.fsync(directory))
        })?;
        Ok([path, next])
    })?;
    paths.extend(after);
    if let (Some(first), Some(second)) = (paths.pop(), paths.pop()) {
        let renamed = fresh(lab, dir);
        lab.with_open(&first, OpenFlags::READ_WRITE, |lab, handle| {
            let gap = pause_if_short(lab, Probe::of("FSYRN"), round);
            fs.rename(&first, &renamed)?;
            lab.call_now(Probe::of("FSYRN"), gap, Components::default(), || {
                fs.fsync(handle)
            })?;
            fs.unlink(&second)?;
            lab.call(Probe::of("FSYRM"), 0, || fs.fsync(handle))
        })?;
        paths.push(renamed);
    }
    for path in paths {
        fs.unlink(&path)?;
    }
    Ok(())
}

fn with_directory<T>(
    lab: &mut Lab<'_>,
    dir: &str,
    body: impl FnOnce(&mut Lab<'_>, Handle) -> Res<T>,
) -> Res<T> {
    lab.with_open(dir.as_bytes(), OpenFlags::DIRECTORY, body)
}

fn large(lab: &mut Lab<'_>, dir: &str, keep: bool) -> Res {
    let fs = lab.fs;
    for kib in [1024u32, 16384] {
        if lab.room_bytes() < u64::from(kib) << 12 {
            continue;
        }
        for stem in ["FSY", "FDS", "FSYN"] {
            // 16 MiB are no point of FSYN.
            if stem == "FSYN" && kib > 1024 {
                continue;
            }
            let path = fresh(lab, dir);
            let probe = Probe::at(stem, kib);
            lab.with_open(&path, OpenFlags::CREATE_NEW, |lab, handle| {
                let mut start = 0;
                if stem != "FSYN" {
                    write(lab, handle, 0, 4096)?;
                    fs.fsync(handle)?;
                    start = 4096;
                }
                write(lab, handle, start, (kib as usize) << 10)?;
                lab.call(probe, 0, || {
                    if stem == "FDS" {
                        fs.fdatasync(handle)
                    } else {
                        fs.fsync(handle)
                    }
                })
            })?;
            if !keep {
                fs.unlink(&path)?;
            }
        }
    }
    Ok(())
}

/// The file system's kernel threads and the CPUs that they last ran on.
pub(super) fn placement(lab: &Lab<'_>) -> Vec<String> {
    let Some(device) = &lab.device else {
        return Vec::new();
    };
    fsage_host::kthread::of_device(device)
        .into_iter()
        .map(|t| format!("{} on CPU {}", t.name, t.last_cpu))
        .collect()
}

pub(super) fn note_placement(lab: &mut Lab<'_>, stems: &[&str], before: &[String]) {
    if before.is_empty() {
        return;
    }
    let note = format!(
        "ordinary scheduling; at the start {}, at the end {}",
        before.join(", "),
        placement(lab).join(", ")
    );
    for stem in stems {
        lab.remark(stem, &note);
    }
}
