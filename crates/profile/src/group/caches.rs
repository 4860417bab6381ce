//! Sizes of the caches and the threshold of dirty data, found by measurement (Smith 2001,
//! 4.4.3.2.6: no sysctl). Where time, memory or space ends first the value is a lower bound.

use fsage_core::{Access, OpenFlags};

use crate::error::Res;
use crate::lab::{Batch, Lab, PAYLOAD_BYTES};
use crate::probe::Probe;
use crate::registry::Procedure;

pub(crate) const PROCEDURES: &[Procedure] = &[
    Procedure {
        name: "page cache",
        stems: &["BC"],
        share: (15, 60),
        run: page_cache,
    },
    Procedure {
        name: "name and inode caches",
        stems: &["DNLC", "MDC"],
        share: (10, 40),
        run: name_caches,
    },
    Procedure {
        name: "dirty throttling",
        stems: &["DTH", "DTB", "DTR", "DTF"],
        share: (0, 40),
        run: dirty_throttling,
    },
];

/// A pass over a set that costs this many times as much as over the smallest has left the cache.
const LEFT_THE_CACHE: f64 = 4.0;

/// Records a size: what fitted and, where it is known, what did not.
pub(super) fn record(lab: &mut Lab<'_>, stem: &str, fits: f64, exceeds: Option<f64>, note: &str) {
    if fits <= 0.0 && exceeds.is_none() {
        lab.absent(stem, "time or free space ended before anything was tried");
        return;
    }
    let probe = Probe::of(stem);
    let estimate = exceeds.map_or(fits, |e| f64::midpoint(fits, e));
    lab.give(
        probe,
        (estimate, exceeds.map(|e| (fits, e))),
        if exceeds.is_some() { "precise" } else { "time" },
    );
    if let Some(id) = probe.id(0) {
        let series = lab.measurements.series(id);
        series.lower_bound = exceeds.is_none();
        series.note = Some(note.to_owned());
    }
}

/// Grows a file and reads all of it again after each step. A cycle over more than fits misses
/// everything, whatever the policy, so the step is a cliff.
fn page_cache(lab: &mut Lab<'_>) -> Res {
    let path = lab.fresh("bc").into_bytes();
    let room = lab
        .room_bytes()
        .min(if lab.quick { 256 << 20 } else { 64 << 30 });
    let (mut size, mut fits, mut exceeds) = (0u64, 0u64, None);
    let mut wanted = (16u64 << 20).min(room);
    let mut fastest = f64::INFINITY;
    let mut buffer = vec![0u8; PAYLOAD_BYTES];
    let fs = lab.fs;
    let handle = fs.open(&path, OpenFlags::CREATE_NEW, 0o600)?;
    let mut grow = || -> Res {
        while wanted > size && (size == 0 || !lab.over()) {
            lab.fill(handle, size, wanted - size)?;
            size = wanted;
            fs.fsync(handle)?;
            // The first pass brings in what the growth has displaced, the second is judged.
            let mut per_mib = 0.0;
            let mut missed = 0;
            for pass in 0..2 {
                let before = lab.sectors_read();
                let start = lab.clock.now_ns();
                for at in (0..size).step_by(PAYLOAD_BYTES) {
                    fs.pread(handle, &mut buffer, at)?;
                }
                let took = lab.clock.now_ns().saturating_sub(start);
                per_mib = took as f64 / (size / PAYLOAD_BYTES as u64).max(1) as f64;
                missed = lab
                    .sectors_read()
                    .zip(before)
                    .map_or(0, |(a, b)| (a - b) * 512);
                lab.check()?;
                if pass == 0 && missed == 0 {
                    break;
                }
            }
            fastest = fastest.min(per_mib);
            let left = missed > size / 4 || (missed > 0 && per_mib > LEFT_THE_CACHE * fastest);
            if left {
                exceeds = Some(size as f64 / 1024.0);
                break;
            }
            fits = size;
            wanted = (size * 2).min(room);
        }
        Ok(())
    };
    let grown = grow();
    fs.close(handle)?;
    fs.unlink(&path)?;
    grown?;
    let note = if exceeds.is_some() {
        "re-reads of the larger size reached the device"
    } else {
        "re-reads of as much never reached the device; time or free space ended the search"
    };
    record(lab, "BC", fits as f64 / 1024.0, exceeds, note);
    Ok(())
}

/// Asks for more and more names twice; the second time is judged.
fn name_caches(lab: &mut Lab<'_>) -> Res {
    let fs = lab.fs;
    let root = lab.fresh_dir("n")?;
    let most = fs.statfs().map_or(0, |s| {
        if s.files == 0 {
            1 << 20
        } else {
            s.free_files / 4
        }
    });
    let most = most.min(if lab.quick { 8_000 } else { 400_000 });
    let (mut made, mut fits, mut exceeds) = (0u64, 0u64, None);
    let mut wanted = 2_000.min(most);
    let mut fastest = [f64::INFINITY; 2];
    while wanted > made && exceeds.is_none() && (made == 0 || !lab.over()) {
        while made < wanted {
            if made.is_multiple_of(1000) {
                fs.mkdir(format!("{root}/{}", made / 1000).as_bytes(), 0o755)?;
                lab.check()?;
            }
            lab.make_file(name(&root, made).as_bytes(), 0)?;
            made += 1;
        }
        let mut missed = false;
        let before = lab.sectors_read();
        for (kind, fast) in fastest.iter_mut().enumerate() {
            let start = lab.clock.now_ns();
            for number in 0..made {
                let path = name(&root, number);
                if kind == 0 {
                    fs.access(path.as_bytes(), Access::Exists)?;
                } else {
                    fs.stat(path.as_bytes())?;
                }
            }
            let each = lab.clock.now_ns().saturating_sub(start) as f64 / made as f64;
            *fast = fast.min(each);
            missed |= each > LEFT_THE_CACHE * *fast && lab.sectors_read() != before;
            lab.check()?;
        }
        if missed {
            exceeds = Some(made as f64);
        } else {
            fits = made;
            wanted = (made * 2).min(most);
        }
    }
    let note = if exceeds.is_some() {
        "asking again for the larger number reached the device"
    } else {
        "asking again never slowed down; time or free inodes ended the search"
    };
    record(lab, "DNLC", fits as f64, exceeds, note);
    record(lab, "MDC", fits as f64, exceeds, note);
    lab.clear(&root)
}

fn name(root: &str, number: u64) -> String {
    format!("{root}/{}/{number}", number / 1000)
}

/// A span that is written at less than this share of the best rate is throttled.
const THROTTLED_SHARE: f64 = 0.5;
/// Spans in a row after which the fall is for good.
const FOR_GOOD: usize = 6;
const SPAN_BYTES: u64 = 16 << 20;

fn dirty_throttling(lab: &mut Lab<'_>) -> Res {
    lab.settle()?;
    if lab.fs.virtual_time().is_some() {
        return super::throttle::by_waits(lab);
    }
    for stem in ["DTB", "DTF"] {
        lab.absent(
            stem,
            "only where time is computed does a write tell that it waited",
        );
    }
    throttle(lab)
}

fn throttle(lab: &mut Lab<'_>) -> Res {
    let path = lab.fresh("th").into_bytes();
    let room = lab.room_bytes() * 2;
    let fs = lab.fs;
    let handle = fs.open(&path, OpenFlags::CREATE_NEW, 0o600)?;
    let mut rates: Vec<f64> = Vec::new();
    let mut spans = || -> Res<Option<usize>> {
        for span in 0..room / SPAN_BYTES {
            let start = lab.clock.now_ns();
            lab.fill(handle, span * SPAN_BYTES, SPAN_BYTES)?;
            let took = lab.clock.now_ns().saturating_sub(start).max(1);
            rates.push(SPAN_BYTES as f64 / 1024.0 * 1e9 / took as f64);
            lab.check()?;
            let best = rates.iter().copied().fold(0.0, f64::max);
            let slow = rates
                .iter()
                .rev()
                .take_while(|&&r| r < best * THROTTLED_SHARE)
                .count();
            if slow >= FOR_GOOD {
                return Ok(Some(rates.len() - slow));
            }
            if lab.over() {
                break;
            }
        }
        Ok(None)
    };
    let found = spans();
    fs.close(handle)?;
    fs.unlink(&path)?;
    let found = found?;
    let kib = |spans: usize| spans as f64 * SPAN_BYTES as f64 / 1024.0;
    if let Some(before) = found {
        let note = "rate fell under half for good";
        record(lab, "DTH", kib(before), Some(kib(before + 1)), note);
        lab.begin(Batch::Blocking);
        for rate in rates.into_iter().skip(before) {
            lab.add(Probe::of("DTR"), 0, rate);
        }
        lab.measurements.commit(false);
    } else {
        let note = "the rate never fell for good; time or free space ended the search";
        record(lab, "DTH", kib(rates.len()), None, note);
        lab.absent(
            "DTR",
            "writers were not throttled by as much as was written (DTH)",
        );
    }
    lab.rounds(&["DTR"], (1, 1), |_, _| Ok(()))
}
