//! The arm and the platters: positioning and passing sectors.

use crate::model::{Hdd, ms};
use crate::{Geometry, Place, SeekCurve};

/// Where the heads are, and how they move.
#[derive(Debug)]
pub(super) struct Arm {
    geometry: Geometry,
    seek: SeekCurve,
    head_switch: u64,
    cylinder_switch: u64,
    write_settle: u64,
    track: u64,
}

impl Arm {
    pub fn new(hdd: &Hdd, geometry: Geometry) -> Self {
        Self {
            geometry,
            seek: hdd.seek_curve(),
            head_switch: hdd.head_skew_ns(),
            cylinder_switch: hdd.cylinder_skew_ns(),
            write_settle: ms(hdd.seek.write_settle_ms),
            track: 0,
        }
    }

    /// Time to another track, nanoseconds; 0 for the one the head is on.
    fn move_ns(&self, from: u64, to: u64, write: bool) -> u64 {
        if from == to {
            return 0;
        }
        let (a, b) = (self.geometry.cylinder(from), self.geometry.cylinder(to));
        let moved = match a.abs_diff(b) {
            0 => self.head_switch,
            1 => self.cylinder_switch,
            _ => self
                .seek
                .time_ns(self.geometry.fraction(a, b))
                .max(self.cylinder_switch),
        };
        moved + if write { self.write_settle } else { 0 }
    }

    /// When the start of a sector would pass under the heads, if they left at `start`.
    pub fn arrival(&self, start: u64, sector: u64, write: bool) -> u64 {
        let place = self.geometry.place(sector);
        let settled = start + self.move_ns(self.track, place.track, write);
        settled + self.geometry.rotational_wait_ns(settled, place)
    }

    /// Passes sectors from time `start` on, positioning first; returns when the last has passed. The
    /// heads stay on its track.
    pub fn transfer(&mut self, start: u64, first: u64, count: u64, write: bool) -> u64 {
        let mut now = start;
        let (mut sector, mut left) = (first, count);
        while left > 0 {
            now = self.arrival(now, sector, write && sector == first);
            let place = self.geometry.place(sector);
            self.track = place.track;
            let run = left.min(place.sectors_per_track - place.sector);
            now += self.run_ns(place, run);
            sector += run;
            left -= run;
        }
        now
    }

    fn run_ns(&self, place: Place, run: u64) -> u64 {
        let end = self.geometry.along_ns(place, place.sector + run);
        end - self.geometry.along_ns(place, place.sector)
    }

    /// How far a transfer from `first` on, begun at `start` on the track of that sector, has come at
    /// `now`; at most `limit`.
    pub fn reached(&self, start: u64, first: u64, limit: u64, now: u64) -> u64 {
        let (mut time, mut sector) = (start, first);
        let mut track = self.geometry.place(first).track;
        while sector < limit {
            let place = self.geometry.place(sector);
            time += self.move_ns(track, place.track, false);
            time += self.geometry.rotational_wait_ns(time, place);
            track = place.track;
            let run = (limit - sector).min(place.sectors_per_track - place.sector);
            let passed = time + self.run_ns(place, run);
            if passed > now {
                let since = now.saturating_sub(time);
                return sector + self.geometry.sectors_in(place, since).min(run);
            }
            time = passed;
            sector += run;
        }
        limit
    }

    /// The heads stand over that sector's track.
    pub fn stand_at(&mut self, sector: u64) {
        self.track = self.geometry.place(sector).track;
    }
}
