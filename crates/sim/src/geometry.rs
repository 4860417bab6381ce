//! Where a sector lies: zone, cylinder, head, angle.

use crate::{Hdd, SECTOR_BYTES, Span};

/// Consecutive tracks with as many sectors each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Zone {
    first_sector: u64,
    first_track: u64,
    sectors_per_track: u64,
}

/// The layout of one disk: sectors run along a track, then over the heads of a cylinder, then inward.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Geometry {
    zones: Vec<Zone>,
    heads: u64,
    /// Cylinders of a full stroke, less one; at least 1.
    stroke: u64,
    rotation_ns: u64,
    head_skew_ns: u64,
    cylinder_skew_ns: u64,
}

/// Where a sector lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The track, counted over heads and cylinders from the outside.
    pub track: u64,
    /// The sector on its track.
    pub sector: u64,
    /// Sectors of that track.
    pub sectors_per_track: u64,
}

impl Geometry {
    /// The layout of `size_bytes` on a disk. [`Span::Scaled`] has only as many cylinders as the size
    /// needs, in all zones; [`Span::Start`] is the outer part of the whole disk.
    pub fn new(hdd: &Hdd, size_bytes: u64, span: Span) -> Self {
        let heads = hdd.tracks.heads;
        let tracks = &hdd.tracks.sectors_per_track;
        let mean = tracks.iter().sum::<u64>() as f64 / tracks.len().max(1) as f64;
        let cylinders_for = |bytes: u64| {
            let sectors = bytes.div_ceil(SECTOR_BYTES) as f64;
            ((sectors / (mean * heads as f64)).ceil() as u64).max(1)
        };
        let whole = match span {
            Span::Scaled => size_bytes,
            Span::Start => hdd.capacity_bytes().max(size_bytes),
        };
        let cylinders = cylinders_for(whole);
        let count = (tracks.len() as u64).min(cylinders).max(1);
        let per_zone = cylinders.div_ceil(count);
        let mut zones = Vec::new();
        let (mut sector, mut track) = (0, 0);
        for zone in 0..count {
            // With fewer cylinders than zones, evenly chosen ones from the first to the last.
            let at = if count > 1 {
                zone * (tracks.len() as u64 - 1) / (count - 1)
            } else {
                tracks.len() as u64 / 2
            };
            let sectors_per_track = tracks.get(at as usize).copied().unwrap_or(1).max(1);
            zones.push(Zone {
                first_sector: sector,
                first_track: track,
                sectors_per_track,
            });
            sector += per_zone * heads * sectors_per_track;
            track += per_zone * heads;
        }
        Self {
            zones,
            heads,
            stroke: (per_zone * count).saturating_sub(1).max(1),
            rotation_ns: hdd.rotation_ns(),
            head_skew_ns: hdd.head_skew_ns(),
            cylinder_skew_ns: hdd.cylinder_skew_ns(),
        }
    }

    /// Where a sector lies. Sectors beyond the last zone continue it.
    pub fn place(&self, sector: u64) -> Place {
        let at = self.zones.partition_point(|z| z.first_sector <= sector);
        let zone = at
            .checked_sub(1)
            .and_then(|i| self.zones.get(i))
            .copied()
            .unwrap_or(Zone {
                first_sector: 0,
                first_track: 0,
                sectors_per_track: 1,
            });
        let within = sector - zone.first_sector;
        Place {
            track: zone.first_track + within / zone.sectors_per_track,
            sector: within % zone.sectors_per_track,
            sectors_per_track: zone.sectors_per_track,
        }
    }

    /// When in a rotation the start of a sector passes under the heads, nanoseconds.
    pub fn angle_ns(&self, place: Place) -> u64 {
        let cylinder = self.cylinder(place.track);
        let switches = place.track - cylinder;
        let skew = u128::from(switches) * u128::from(self.head_skew_ns)
            + u128::from(cylinder) * u128::from(self.cylinder_skew_ns);
        let rotation = u128::from(self.rotation_ns);
        let along = u128::from(self.along_ns(place, place.sector));
        ((skew + along) % rotation) as u64
    }

    /// Time from a track's start to its sector `sector`, nanoseconds.
    pub fn along_ns(&self, place: Place, sector: u64) -> u64 {
        let product = u128::from(sector) * u128::from(self.rotation_ns);
        (product / u128::from(place.sectors_per_track)) as u64
    }

    /// How many sectors pass in that time, rounded down.
    pub fn sectors_in(&self, place: Place, time_ns: u64) -> u64 {
        let product = u128::from(time_ns) * u128::from(place.sectors_per_track);
        (product / u128::from(self.rotation_ns)) as u64
    }

    /// The wait at time `now` until the start of a sector passes, nanoseconds.
    pub fn rotational_wait_ns(&self, now: u64, place: Place) -> u64 {
        let here = now % self.rotation_ns;
        (self.angle_ns(place) + self.rotation_ns - here) % self.rotation_ns
    }

    /// The cylinder of a track.
    pub fn cylinder(&self, track: u64) -> u64 {
        track / self.heads
    }

    /// The distance between two cylinders as a fraction of the full stroke.
    pub fn fraction(&self, from: u64, to: u64) -> f64 {
        from.abs_diff(to) as f64 / self.stroke as f64
    }
}
