//! One large file read from the device: in order, at random, at a distance; and how far the kernel
//! reads ahead.

use std::time::Duration;

use fsage_core::{Handle, OpenFlags};

use crate::error::{Halt, Res};
use crate::lab::Lab;
use crate::probe::Probe;
use crate::registry::Procedure;

pub(crate) const PROCEDURES: &[Procedure] = &[
    Procedure {
        name: "uncached reads of a large file",
        stems: &["RD", "RRD"],
        share: (40, 50),
        run: reads,
    },
    Procedure {
        name: "read-ahead",
        stems: &["RAW"],
        share: (5, 5),
        run: read_ahead,
    },
    Procedure {
        name: "uncached reads by distance",
        stems: &["RX", "RXA", "RXB"],
        share: (20, 25),
        run: by_distance,
    },
];

const KIB: u64 = 1024;
const POWERS: std::ops::RangeInclusive<u32> = 0..=12;
const LARGEST: usize = 4 << 20;
/// A stream's first requests find the place and grow the window: how fast the device goes on shows after
/// so many bytes.
const STARTED_BYTES: u64 = 1 << 20;
/// Sweeps of a round, each a sample.
const SWEEPS: usize = 4;

/// A large file, half of the room at most.
fn large_file(lab: &mut Lab<'_>, wanted: u64) -> Res<(Vec<u8>, u64)> {
    let bytes = wanted.min(lab.room_bytes() / 2) & !(LARGEST as u64 - 1);
    if bytes < 2 * LARGEST as u64 {
        return Err(Halt::Absent(
            "too little free space for a large file".to_owned(),
        ));
    }
    let path = lab.fresh("x").into_bytes();
    lab.make_file(&path, bytes)?;
    lab.settle()?;
    Ok((path, bytes))
}

/// What long reads go through in turn on a slow device, in bytes: more than a drive's buffer keeps of the sweeps before.
const IN_TURN_BYTES: u64 = 192 << 20;

/// Where sweeps begin. A slow drive holds in its buffer the ends of the sweeps before, what it read on behind them, and
/// what it read on after reads anywhere: there every sweep has the place that was read the longest ago, before the one
/// before and apart from where reads are anywhere. Without a drive of that kind, or without room, it is anywhere.
struct Turns {
    first: u64,
    bytes: u64,
    end: u64,
}

impl Turns {
    /// In a file of so many bytes, of which the first are read anywhere.
    fn of(bytes: u64, anywhere: u64) -> Self {
        Self {
            first: anywhere,
            bytes,
            end: bytes,
        }
    }

    fn next(&mut self, lab: &mut Lab<'_>, span: u64) -> u64 {
        if self.first + span > self.bytes {
            let places = (self.bytes - span) / LARGEST as u64 + 1;
            return lab.random.below(places as usize) as u64 * LARGEST as u64;
        }
        if self.end < self.first + span {
            self.end = self.bytes;
        }
        let start = self.end - span;
        self.end = start.saturating_sub(LARGEST as u64);
        start
    }
}

/// Makes the file's data cold; the rest may stay.
pub(super) fn evict(lab: &mut Lab<'_>, path: &[u8]) -> Res {
    let handle = lab.fs.open(path, OpenFlags::READ, 0)?;
    let result = lab.fs.platform().evict(handle);
    lab.fs.close(handle)?;
    result.map_err(|e| Halt::Absent(format!("no cold state can be reached here: {e}")))
}

/// What others have in the processors' caches where the device is memory: neither what it holds nor the pages that it is
/// read to are there, as those of the sweep before would be.
struct Others(Vec<u8>);

/// More than the last of these caches holds.
const CACHES_BYTES: usize = 48 << 20;

impl Others {
    fn of(lab: &Lab<'_>) -> Self {
        let is_memory = !lab.stalls.slow_device && lab.fs.virtual_time().is_none();
        Self(vec![1; if is_memory { CACHES_BYTES } else { 0 }])
    }

    fn touch(&self) {
        for line in self.0.chunks(64) {
            std::hint::black_box(line.first().copied());
        }
    }
}

fn reads(lab: &mut Lab<'_>) -> Res {
    // Says once whether there is anything to be cold.
    lab.make_data_cold()?;
    let anywhere = lab.scale(64 << 20, 256 << 20) as u64;
    let wanted = if lab.stalls.slow_device {
        anywhere + IN_TURN_BYTES
    } else {
        anywhere
    };
    let (path, bytes) = large_file(lab, wanted)?;
    let mut turns = Turns::of(bytes, bytes.min(anywhere));
    let mut buffer = vec![0u8; LARGEST];
    let others = Others::of(lab);
    for power in POWERS {
        for stem in ["RD", "RRD"] {
            if let Some(id) = Probe::at(stem, 1 << power).id(0) {
                lab.measurements.series(id).kib = Some(f64::from(1u32 << power));
            }
        }
    }
    lab.rounds(
        &["RD", "RRD"],
        (lab.scale(1, 3), lab.scale(3, 10)),
        |lab, _| {
            for power in POWERS {
                lab.begin_part(u64::from(POWERS.end() - power) + 1);
                let request = KIB << power;
                // Small requests need no more than many windows of read-ahead.
                let span = bytes.min(if power < 6 { 4 << 20 } else { 16 << 20 });
                for _ in 0..SWEEPS {
                    let start = turns.next(lab, span);
                    let offsets: Vec<u64> =
                        (0..span / request).map(|i| start + i * request).collect();
                    let probe = Probe::at("RD", 1 << power);
                    others.touch();
                    sweep(lab, &path, (&offsets, true), probe, &mut buffer)?;
                    if lab.part_over(usize::MAX) {
                        break;
                    }
                }
                let places = (bytes.min(anywhere) / request) as usize;
                let most = if power < 8 { lab.scale(60, 200) } else { 16 };
                let order = lab.random.order(places);
                let offsets: Vec<u64> = order
                    .into_iter()
                    .take(most)
                    .map(|i| i as u64 * request)
                    .collect();
                others.touch();
                sweep(
                    lab,
                    &path,
                    (&offsets, false),
                    Probe::at("RRD", 1 << power),
                    &mut buffer,
                )?;
            }
            Ok(())
        },
    )?;
    Ok(lab.fs.unlink(&path)?)
}

/// Reads at offsets that follow one another, or anywhere.
fn sweep(
    lab: &mut Lab<'_>,
    path: &[u8],
    (offsets, in_order): (&[u64], bool),
    probe: Probe,
    buffer: &mut [u8],
) -> Res {
    let Some(request) = probe.id(0).and_then(fsage_core::metric::MetricId::point) else {
        return Ok(());
    };
    evict(lab, path)?;
    let fs = lab.fs;
    let bytes = u64::from(request) * KIB;
    // In sequence the device reads windows, of which there must be some.
    let each = if in_order {
        (128 / request).max(1) as usize
    } else {
        1
    };
    let Some(space) = buffer.get_mut(..(request as usize) << 10) else {
        return Ok(());
    };
    lab.cold_batch(probe, |lab| {
        lab.with_open(path, OpenFlags::READ, |lab, handle| {
            let (mut taken, mut sum) = (0, 0.0);
            let mut before_start = (0, 0.0);
            for &at in offsets {
                if lab.part_over(taken / each) {
                    break;
                }
                if in_order {
                    let (_, ns) = lab.timed(|| fs.pread(handle, space, at))?;
                    sum += ns - lab.base_ns.first().copied().unwrap_or_default();
                } else {
                    lab.call(probe, 0, || fs.pread(handle, space, at))?;
                }
                lab.asked_bytes += bytes;
                taken += 1;
                if taken as u64 * bytes <= STARTED_BYTES.max(bytes) {
                    before_start = (taken, sum);
                }
            }
            // Few of many requests wait for a window, and it is they that say how fast the device is: a
            // sweep is one sample.
            if in_order && taken > 0 {
                let (skipped, skipped_ns) = match before_start {
                    (count, ns) if count < taken => (count, ns),
                    _ => (0, 0.0),
                };
                lab.add(probe, 0, (sum - skipped_ns) / (taken - skipped) as f64);
            }
            Ok(())
        })
    })
}

/// What the device reads at once for a sequential reader, at the most: by then it has come that far
/// beyond what was asked for, and again as far when the reader arrives there.
fn read_ahead(lab: &mut Lab<'_>) -> Res {
    if lab.sectors_read().is_none() {
        return Err(Halt::Absent(
            "there is no device whose counters could tell".to_owned(),
        ));
    }
    lab.make_data_cold()?;
    let (path, bytes) = large_file(lab, 32 << 20)?;
    let mut found = Vec::new();
    for _ in 0..3 {
        evict(lab, &path)?;
        let ahead = lab.with_open(&path, OpenFlags::READ, |lab, h| furthest(lab, h, bytes / 2))?;
        found.push(ahead as f64 / KIB as f64);
    }
    let (least, most) = found
        .iter()
        .fold((f64::INFINITY, 0.0f64), |(l, m), &v| (l.min(v), m.max(v)));
    lab.give(Probe::of("RAW"), (most, Some((least, most))), "runs");
    if let Some(id) = Probe::of("RAW").id(0) {
        lab.measurements.series(id).counted = found.len();
    }
    Ok(lab.fs.unlink(&path)?)
}

fn furthest(lab: &mut Lab<'_>, handle: Handle, span: u64) -> Res<u64> {
    let mut buffer = vec![0u8; 4096];
    let start = lab.sectors_read().unwrap_or(0);
    let mut before = start;
    let mut windows = Vec::new();
    for at in (0..span).step_by(4096) {
        lab.fs.pread(handle, &mut buffer, at)?;
        let now = lab.sectors_read().unwrap_or(before);
        if now > before && at >= span / 2 {
            windows.push(now.saturating_sub(before) * 512);
        }
        before = now;
    }
    lab.check()?;
    Ok(usual(windows))
}

/// The window in which half of the bytes came, or more: one in which two were counted at once, or a
/// part of one, does not decide.
fn usual(mut windows: Vec<u64>) -> u64 {
    windows.sort_unstable();
    let half = windows.iter().sum::<u64>() / 2;
    let mut sum = 0;
    windows
        .into_iter()
        .find(|bytes| {
            sum += bytes;
            sum > half
        })
        .unwrap_or(0)
}

/// How long nobody asks before a read of RXA: two turns of a slow disk.
const REST: Duration = Duration::from_millis(25);
const RESTS: u64 = 6;
/// What lies between two places of one end of the largest distance, or of RXA: more than drives read ahead.
const APART_BYTES: u64 = 8 << 20;

/// Reads of 4 KiB at a fixed distance from each other, forward and backward; and after a rest, to find what the
/// drive read on meanwhile. Steps of more than a page are no sequence, for which the kernel would read ahead.
fn by_distance(lab: &mut Lab<'_>) -> Res {
    lab.make_data_cold()?;
    let (path, bytes) = large_file(lab, 516 << 20)?;
    let rounds = (lab.scale(2, 4), lab.scale(3, 10));
    lab.rounds(&["RX", "RXA"], rounds, |lab, round| {
        // The farthest first: of those there are few, and where time ends early none is missing.
        for (part, kib) in [262_144u32, 131_072, 16384, 1024, 128, 64]
            .into_iter()
            .enumerate()
        {
            lab.begin_part(7 - part as u64);
            // From the end of one to the start of the next, which backward is a page further.
            let backward = round % 2 == 1;
            let step = u64::from(kib) * KIB;
            let step = if backward { step - 4096 } else { step + 4096 };
            let mut offsets = steps(lab, step, bytes);
            if offsets.len() < 2 {
                continue;
            }
            if backward {
                offsets.reverse();
            }
            distant(lab, &path, Probe::at("RX", kib), &offsets)?;
        }
        for kib in [256u32, 1024, 4096] {
            let step = u64::from(kib) * KIB + 4096;
            let Some(room) = bytes.checked_sub(RESTS * (step + APART_BYTES) + 1) else {
                continue;
            };
            let start = lab.random.below(room as usize + 1);
            let place =
                |i: u64| (start as u64 & !4095) + i / 2 * (step + APART_BYTES) + i % 2 * step;
            let offsets: Vec<u64> = (0..2 * RESTS).map(place).collect();
            distant(lab, &path, Probe::at("RXA", kib), &offsets)?;
        }
        Ok(())
    })?;
    near_end(lab, &path, bytes)?;
    Ok(lab.fs.unlink(&path)?)
}

/// Where what is near ends, between two distances of RX: a difference of less than this is no end.
const ENDS: f64 = 1.25;

/// Where time is computed a read tells by itself which of two costs it has: halves the distance between that of which it is
/// the nearer one's and that of which it is the farther one's.
fn near_end(lab: &mut Lab<'_>, path: &[u8], bytes: u64) -> Res {
    if lab.fs.virtual_time().is_none() {
        lab.absent(
            "RXB",
            "only where time is computed does one read tell how far it was",
        );
        return Ok(());
    }
    let (mut near, mut far) = (64 * KIB, 128 * KIB);
    let (least, most) = (
        one_off(lab, path, bytes, near)?,
        one_off(lab, path, bytes, far)?,
    );
    if most < ENDS * least {
        lab.absent("RXB", "a read that is farther off takes hardly longer");
        return Ok(());
    }
    while near + 4096 < far {
        let middle = u64::midpoint(near, far) & !4095;
        if one_off(lab, path, bytes, middle)? < (least * most).sqrt() {
            near = middle;
        } else {
            far = middle;
        }
    }
    let kib = |bytes: u64| bytes as f64 / KIB as f64;
    let found = (kib(near), Some((kib(near), kib(far))));
    lab.give(Probe::of("RXB"), found, "precise");
    Ok(())
}

/// What a read takes that is so far from the end of the last.
fn one_off(lab: &mut Lab<'_>, path: &[u8], bytes: u64, off: u64) -> Res<f64> {
    let (fs, mut buffer) = (lab.fs, [0u8; 4096]);
    let room = bytes.saturating_sub(off + 8192);
    let first = lab.random.below(room as usize + 1) as u64 & !4095;
    evict(lab, path)?;
    let mut took = 0.0;
    lab.with_open(path, OpenFlags::READ, |lab, handle| {
        for at in [first, first + 4096 + off] {
            took = lab.timed(|| fs.pread(handle, &mut buffer, at))?.1;
        }
        Ok(())
    })?;
    Ok(took)
}

/// Places so far from one another: one after the other, or to and fro where there is no room for many. Those that are
/// many tracks apart are not all equally far: a disk would stand over each after the same part of a turn.
fn steps(lab: &mut Lab<'_>, step: u64, bytes: u64) -> Vec<u64> {
    let (places, room) = ((bytes / step).min(200), bytes - step.min(bytes));
    let mut off = |most: u64| lab.random.below(most as usize + 1) as u64 & !4095;
    if places >= 16 {
        let start = off(bytes - places * step);
        let most = if step > APART_BYTES {
            APART_BYTES / 2
        } else {
            0
        };
        let place = |i: u64| start + i * step + off(most);
        return (0..places).map(place).collect();
    }
    let pairs = (room / APART_BYTES).min(16);
    let pair = |i: u64| {
        let at = i * APART_BYTES;
        [at, at + step + off(APART_BYTES / 2)]
    };
    (0..pairs).flat_map(pair).collect()
}

/// Reads 4 KiB at each offset; the first has no distance, and of RXA only every second one is a sample, after a
/// rest.
fn distant(lab: &mut Lab<'_>, path: &[u8], probe: Probe, offsets: &[u64]) -> Res {
    let (fs, mut buffer) = (lab.fs, [0u8; 4096]);
    let rests = probe
        .id(0)
        .is_some_and(|id| id.family().row().stem == "RXA");
    evict(lab, path)?;
    lab.cold_batch(probe, |lab| {
        lab.with_open(path, OpenFlags::READ, |lab, handle| {
            for (turn, &at) in offsets.iter().enumerate() {
                if !rests && lab.part_over(turn) {
                    break;
                }
                if rests && turn % 2 == 1 {
                    lab.rest(REST);
                }
                let sampled = if rests { turn % 2 == 1 } else { turn > 0 };
                let probe = if sampled { probe } else { Probe::of("") };
                lab.asked_bytes += 4096;
                lab.call(probe, 0, || fs.pread(handle, &mut buffer, at))?;
            }
            Ok(())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::usual;

    #[test]
    fn the_window_is_what_most_bytes_came_in() {
        assert_eq!(usual(vec![128, 128, 256, 128, 64, 64]), 128);
        assert_eq!(usual(vec![]), 0);
    }
}
