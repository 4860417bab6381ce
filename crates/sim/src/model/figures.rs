//! The sections of a model and what their figures may be.

use serde::{Deserialize, Serialize};

use super::{Hdd, Ssd};
use crate::SeekCurve;

/// The spindle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rotation {
    /// Rotations a minute.
    pub rpm: f64,
}

/// The arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seek {
    /// To the next cylinder, milliseconds.
    pub track_to_track_ms: f64,
    /// Between random places, milliseconds.
    pub average_ms: f64,
    /// Over the full stroke, milliseconds.
    pub full_ms: f64,
    /// What a write waits longer than a read until the head is on its track, milliseconds.
    pub write_settle_ms: f64,
    /// Instead of the curve through the figures above: pairs of the fraction of the full stroke and
    /// milliseconds, both rising.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub curve: Option<Vec<(f64, f64)>>,
}

/// Tracks, heads, zones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tracks {
    /// Tracks of a cylinder.
    pub heads: u64,
    /// Sectors of 512 bytes on a track, one figure for each zone from the outside; all zones have as
    /// many cylinders.
    pub sectors_per_track: Vec<u64>,
    /// To another head of the cylinder, milliseconds. Tracks are skewed by as much.
    pub head_switch_ms: f64,
    /// To the next cylinder in a sequential transfer, milliseconds. Cylinders are skewed by as much.
    pub cylinder_switch_ms: f64,
}

/// Track buffer and write cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HddCache {
    /// Sequential streams that the buffer follows at once.
    pub segments: u32,
    /// What the disk reads on its own after a read, KiB; 0 for no read-ahead.
    pub read_ahead_kib: u32,
    /// Written data that the disk accepts before it is on the platters, KiB; 0 for write-through.
    pub write_cache_kib: u32,
    /// How long the arm must have rested before the write cache is emptied of its own accord,
    /// milliseconds.
    pub destage_delay_ms: f64,
}

/// In what order a disk serves the commands of its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueueOrder {
    /// As they came.
    Fcfs,
    /// The one whose first sector is reached soonest (seek and rotation).
    Nearest,
}

/// Controller, bus and command queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interface {
    /// What each command costs the controller, microseconds.
    pub overhead_us: f64,
    /// The bus, units of 10^6 bytes a second.
    pub rate_mb_s: f64,
    /// Commands that the disk takes at once; 1 where it has no queue.
    pub queue_depth: u32,
    /// In what order it serves them.
    pub queue_order: QueueOrder,
}

type Checked = Result<(), (String, String)>;

/// A number from `least` to `most`.
fn within(key: &str, value: f64, least: f64, most: f64) -> Checked {
    if value.is_finite() && value >= least && value <= most {
        return Ok(());
    }
    Err((key.into(), format!("{value}, expected {least} to {most}")))
}

fn count(key: &str, value: u64, least: u64, most: u64) -> Checked {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err((key.into(), format!("{value}, expected {least} to {most}")))
}

impl Hdd {
    pub(super) fn check(&self) -> Checked {
        within("hdd.capacity_gb", self.capacity_gb, 0.001, 1e6)?;
        within("hdd.rotation.rpm", self.rotation.rpm, 100.0, 1e6)?;
        self.seek.check()?;
        let tracks = &self.tracks;
        count("hdd.tracks.heads", tracks.heads, 1, 256)?;
        let zones = tracks.sectors_per_track.len() as u64;
        count("number of hdd.tracks.sectors_per_track", zones, 1, 1024)?;
        for (i, &sectors) in tracks.sectors_per_track.iter().enumerate() {
            let key = format!("hdd.tracks.sectors_per_track[{i}]");
            count(&key, sectors, 1, 1 << 20)?;
        }
        let rotation_ms = 6e4 / self.rotation.rpm;
        within(
            "hdd.tracks.head_switch_ms",
            tracks.head_switch_ms,
            0.0,
            rotation_ms,
        )?;
        within(
            "hdd.tracks.cylinder_switch_ms",
            tracks.cylinder_switch_ms,
            0.0,
            rotation_ms,
        )?;
        let cache = &self.cache;
        count("hdd.cache.segments", cache.segments.into(), 1, 1024)?;
        count(
            "hdd.cache.read_ahead_kib",
            cache.read_ahead_kib.into(),
            0,
            1 << 20,
        )?;
        count(
            "hdd.cache.write_cache_kib",
            cache.write_cache_kib.into(),
            0,
            1 << 20,
        )?;
        within(
            "hdd.cache.destage_delay_ms",
            cache.destage_delay_ms,
            0.0,
            1e5,
        )?;
        let interface = &self.interface;
        within("hdd.interface.overhead_us", interface.overhead_us, 0.0, 1e6)?;
        within("hdd.interface.rate_mb_s", interface.rate_mb_s, 0.01, 1e6)?;
        count(
            "hdd.interface.queue_depth",
            interface.queue_depth.into(),
            1,
            1 << 16,
        )
    }
}

impl Seek {
    fn check(&self) -> Checked {
        within(
            "hdd.seek.track_to_track_ms",
            self.track_to_track_ms,
            0.0,
            1e4,
        )?;
        within("hdd.seek.average_ms", self.average_ms, 0.0, 1e4)?;
        within("hdd.seek.full_ms", self.full_ms, 0.0, 1e4)?;
        within("hdd.seek.write_settle_ms", self.write_settle_ms, 0.0, 1e3)?;
        let Some(points) = &self.curve else {
            let (shortest, full) = (self.track_to_track_ms, self.full_ms);
            if SeekCurve::from_figures(shortest, self.average_ms, full).is_none() {
                let problem = format!(
                    "{} with {shortest} track to track and {full} in full: no rising curve has that \
                     average, which random distances give (expected {:.2} to {:.2})",
                    self.average_ms,
                    shortest + (full - shortest) / 3.0,
                    shortest + (full - shortest) * 11.0 / 15.0
                );
                return Err(("hdd.seek.average_ms".into(), problem));
            }
            return Ok(());
        };
        count("number of hdd.seek.curve", points.len() as u64, 1, 10_000)?;
        let mut last = (-1.0, 0.0);
        for (i, &(fraction, ms)) in points.iter().enumerate() {
            let key = format!("hdd.seek.curve[{i}]");
            within(&key, fraction, 0.0, 1.0)?;
            within(&key, ms, 0.0, 1e4)?;
            if fraction <= last.0 || ms < last.1 {
                return Err((key, format!("[{fraction}, {ms}], expected both to rise")));
            }
            last = (fraction, ms);
        }
        Ok(())
    }
}

impl Ssd {
    pub(super) fn check(&self) -> Checked {
        within("ssd.capacity_gb", self.capacity_gb, 0.001, 1e6)?;
        within("ssd.read_latency_us", self.read_latency_us, 0.0, 1e6)?;
        within("ssd.write_latency_us", self.write_latency_us, 0.0, 1e6)?;
        within("ssd.flush_latency_us", self.flush_latency_us, 0.0, 1e6)?;
        within("ssd.read_mb_s", self.read_mb_s, 0.01, 1e6)?;
        within("ssd.write_mb_s", self.write_mb_s, 0.01, 1e6)?;
        count("ssd.channels", self.channels.into(), 1, 4096)?;
        count("ssd.stripe_kib", self.stripe_kib.into(), 1, 1 << 20)?;
        count("ssd.queue_depth", self.queue_depth.into(), 1, 1 << 16)
    }
}
