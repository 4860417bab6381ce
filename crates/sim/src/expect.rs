//! What a model's figures amount to, in closed form.

use crate::model::Mechanism;
use crate::{DiskModel, Hdd, SECTOR_BYTES, SeekCurve};

/// What a disk does in the simplest cases.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expectation {
    /// A read of 4 KiB at a random place of the whole disk, one at a time, milliseconds: overhead, the
    /// average seek, half a rotation and the transfer.
    pub random_read_ms: f64,
    /// Reading in sequence at the start, units of 10^6 bytes a second.
    pub start_mb_s: f64,
    /// Reading in sequence at the end, units of 10^6 bytes a second.
    pub end_mb_s: f64,
}

impl DiskModel {
    /// What the figures amount to. `None` for a model that was not checked.
    pub fn expectation(&self) -> Option<Expectation> {
        Some(match self.mechanism()? {
            Mechanism::Hdd(hdd) => {
                let zones = &hdd.tracks.sectors_per_track;
                let rate = |s: Option<&u64>| sequential_mb_s(hdd, s.copied().unwrap_or(0));
                let mean = zones.iter().sum::<u64>() as f64 / zones.len().max(1) as f64;
                let rotation_ms = 6e4 / hdd.rotation.rpm;
                Expectation {
                    random_read_ms: hdd.interface.overhead_us / 1e3
                        + mean_seek_ms(&hdd.seek_curve())
                        + rotation_ms * (0.5 + 8.0 / mean),
                    start_mb_s: rate(zones.first()),
                    end_mb_s: rate(zones.last()),
                }
            }
            Mechanism::Ssd(ssd) => {
                // Pieces on all channels, or the bus.
                let inner = f64::from(ssd.channels) * f64::from(ssd.stripe_kib) * 1024.0
                    / ssd.read_latency_us;
                let rate = if ssd.read_latency_us > 0.0 {
                    ssd.read_mb_s.min(inner)
                } else {
                    ssd.read_mb_s
                };
                Expectation {
                    random_read_ms: (ssd.read_latency_us + 4096.0 / ssd.read_mb_s) / 1e3,
                    start_mb_s: rate,
                    end_mb_s: rate,
                }
            }
        })
    }
}

/// A cylinder's data over its rotations and switches, or the bus.
fn sequential_mb_s(hdd: &Hdd, sectors_per_track: u64) -> f64 {
    let heads = hdd.tracks.heads as f64;
    let data = heads * sectors_per_track as f64 * SECTOR_BYTES as f64;
    let time_ns = heads * hdd.rotation_ns() as f64
        + (heads - 1.0) * hdd.head_skew_ns() as f64
        + hdd.cylinder_skew_ns() as f64;
    (data / time_ns * 1e3).min(hdd.interface.rate_mb_s)
}

/// The mean over the distances between random places, whose density is 2 (1 - d).
fn mean_seek_ms(curve: &SeekCurve) -> f64 {
    const STEPS: u32 = 4096;
    (0..STEPS)
        .map(|i| {
            let d = (f64::from(i) + 0.5) / f64::from(STEPS);
            2.0 * (1.0 - d) * curve.time_ns(d) as f64 / f64::from(STEPS) / 1e6
        })
        .sum()
}
