//! How writers are throttled where time is computed: there each write tells whether it waited.

use fsage_core::{Handle, OpenFlags};

use super::caches::record;
use crate::error::Res;
use crate::lab::{Batch, Lab};
use crate::probe::Probe;

const PAGE: u64 = 4096;
/// Waits of one long file that are counted, after the first, before which the device was elsewhere.
const WAITS: usize = 2;
/// Small files that were dirty for longer than a long one.
const FILES: u64 = 64;

/// Writes page by page from `at` on, to `most` at the furthest, until a write waits; returns where, and for how long.
fn until_it_waits(
    lab: &mut Lab<'_>,
    handle: Handle,
    mut at: u64,
    most: u64,
) -> Res<Option<(u64, u64)>> {
    let fs = lab.fs;
    while at < most {
        lab.check()?;
        let page = lab.payload.get(..PAGE as usize).unwrap_or_default();
        lab.timed(|| fs.pwrite(handle, page, at))?;
        let waited_ns = lab.stalls.waited_ns.get();
        if waited_ns > 0 {
            return Ok(Some((at, waited_ns)));
        }
        at += PAGE;
    }
    Ok(None)
}

/// Does something with a long file, which then goes.
fn with_file(lab: &mut Lab<'_>, what: impl FnOnce(&mut Lab<'_>, Handle) -> Res) -> Res {
    let path = lab.fresh("th").into_bytes();
    let handle = lab.fs.open(&path, OpenFlags::CREATE_NEW, 0o600)?;
    let done = what(lab, handle);
    lab.fs.close(handle)?;
    lab.fs.unlink(&path)?;
    done
}

/// Finds all four; everything is stable.
pub(super) fn by_waits(lab: &mut Lab<'_>) -> Res {
    let room = lab.room_bytes();
    let mut found = None;
    with_file(lab, |lab, handle| {
        found = long_file(lab, handle, room)?;
        Ok(())
    })?;
    let Some((most, rate)) = found else {
        for stem in ["DTB", "DTR", "DTF"] {
            lab.absent(stem, "no write waited, however much was dirty (DTH)");
        }
        return Ok(());
    };
    lab.settle()?;
    with_file(lab, |lab, handle| {
        written_meanwhile(lab, handle, most, rate)
    })?;
    lab.settle()?;
    small_files(lab, most)
}

/// One long file: how much of it is dirty before a write waits (DTH), and the rate from there on (DTR).
fn long_file(lab: &mut Lab<'_>, handle: Handle, room: u64) -> Res<Option<(u64, f64)>> {
    let kib = |bytes: u64| bytes as f64 / 1024.0;
    let Some((most, _)) = until_it_waits(lab, handle, 0, room)? else {
        record(
            lab,
            "DTH",
            kib(room),
            None,
            "no write waited; free space ended the search",
        );
        return Ok(None);
    };
    let note = "the first write that waited for the device";
    record(lab, "DTH", kib(most), Some(kib(most + PAGE)), note);
    let (mut at, mut rates) = (most, Vec::new());
    while rates.len() < WAITS
        && let Some((next, waited_ns)) = until_it_waits(lab, handle, at + PAGE, at + room)?
    {
        rates.push(kib(next - at) * 1e9 / waited_ns as f64);
        at = next;
    }
    lab.begin(Batch::Blocking);
    for &rate in &rates {
        lab.add(Probe::of("DTR"), 0, rate);
    }
    lab.measurements.commit(false);
    lab.rounds(&["DTR"], (1, 1), |_, _| Ok(()))?;
    Ok(rates.last().map(|&rate| (most, rate)))
}

/// What fits beyond all but a page of what throttles, after a rest in which twice as much could have been written (DTB).
fn written_meanwhile(lab: &mut Lab<'_>, handle: Handle, most: u64, kib_per_s: f64) -> Res {
    let before = most.saturating_sub(PAGE);
    lab.fill(handle, 0, before)?;
    let rest_s = 2.0 * most as f64 / 1024.0 / kib_per_s;
    lab.rest(std::time::Duration::from_secs_f64(
        rest_s.min(LONGEST_REST_S),
    ));
    let waits = until_it_waits(lab, handle, before, before + 2 * most)?;
    let fits = waits.map_or(2 * most, |(at, _)| at - before);
    let kib = |bytes: u64| bytes as f64 / 1024.0;
    let stays = (most + PAGE).saturating_sub(fits.max(PAGE));
    let note = "what was still dirty after a rest";
    record(lab, "DTB", kib(stays), Some(kib(stays + PAGE)), note);
    Ok(())
}

/// Nothing is written for its age alone so soon.
const LONGEST_REST_S: f64 = 10.0;

/// What a write waits for a small file that has been dirty for longest (DTF).
fn small_files(lab: &mut Lab<'_>, most: u64) -> Res {
    let root = lab.fresh_dir("tf")?;
    for file in 0..FILES {
        lab.make_file(format!("{root}/{file}").as_bytes(), PAGE)?;
    }
    let long = most.saturating_sub(FILES * PAGE);
    with_file(lab, |lab, handle| {
        lab.fill(handle, 0, long)?;
        let (mut at, mut waits) = (long, Vec::new());
        while waits.len() < FILES as usize
            && let Some((next, waited_ns)) = until_it_waits(lab, handle, at, most)?
        {
            waits.push(waited_ns as f64);
            at = next + PAGE;
        }
        lab.begin(Batch::Blocking);
        // To the first the device comes from elsewhere.
        for &ns in waits.iter().skip(1) {
            lab.add(Probe::of("DTF"), 0, ns);
        }
        lab.measurements.commit(false);
        lab.rounds(&["DTF"], (1, 1), |_, _| Ok(()))
    })?;
    lab.clear(&root)
}
