//! Where on the device a file system puts the files of its directories, as it tells itself.

use fsage_core::OpenFlags;
use fsage_format::snapshot::extent_flags;

use crate::error::Res;
use crate::lab::Lab;
use crate::probe::Probe;

/// Directories that are made one after another, with a file each.
const DIRECTORIES: usize = 12;
const FILE_BYTES: u64 = 8 << 10;
/// Positions so near to one another are in one place whatever the others are.
const ONE_PLACE_KIB: f64 = 1024.0;

/// Where the files of the working directory lie on a file system whose directories take turns among places.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Home {
    kib: f64,
    apart_kib: f64,
    places: usize,
}

impl Lab<'_> {
    /// Where a file system puts the files of one directory after another, as it tells itself.
    pub(crate) fn directories(&mut self) -> Res {
        if self.host_dir.is_none() {
            for stem in ["DAP", "DAN"] {
                self.absent(
                    stem,
                    "only a directory of this machine tells where its files lie",
                );
            }
            return Ok(());
        }
        let home = self.work.clone();
        let home_kib = self.place_kib(&home)?;
        let mut places = Vec::with_capacity(DIRECTORIES);
        for _ in 0..DIRECTORIES {
            let dir = self.fresh_dir("p")?;
            places.extend(self.place_kib(&dir)?);
        }
        if places.len() < DIRECTORIES {
            for stem in ["DAP", "DAN"] {
                self.absent(stem, "not told by this file system");
            }
            return Ok(());
        }
        let steps = places.windows(2).filter_map(|pair| match pair {
            [a, b] => Some((b - a).abs()),
            _ => None,
        });
        let apart = fsage_stats::median(&steps.collect::<Vec<_>>());
        places.sort_by(f64::total_cmp);
        let gap = ONE_PLACE_KIB.max(apart / 2.0);
        let gaps = places.windows(2).filter(|pair| match pair {
            [a, b] => b - a > gap,
            _ => false,
        });
        let count = gaps.count() + 1;
        self.give(Probe::of("DAP"), (apart, Some((apart, apart))), "precise");
        let places = count as f64;
        self.give(
            Probe::of("DAN"),
            (places, Some((places, places))),
            "precise",
        );
        self.home = home_kib.filter(|_| count > 1).map(|kib| Home {
            kib,
            apart_kib: apart,
            places: count,
        });
        Ok(())
    }

    /// Where a new file of a directory is put, in KiB on the device; `None` where the file system does not tell.
    fn place_kib(&mut self, dir: &str) -> Res<Option<f64>> {
        let Some(root) = self.host_dir.clone() else {
            return Ok(None);
        };
        let path = format!("{}/place{}", dir, self.random.next());
        self.make_file(path.as_bytes(), FILE_BYTES)?;
        let fs = self.fs;
        self.with_open(path.as_bytes(), OpenFlags::READ, |_, handle| {
            Ok(fs.fsync(handle)?)
        })?;
        let entry = fsage_host::snapshot::entry(&root.join(path)).ok();
        let first = entry.and_then(|entry| entry.extents.first().copied());
        let first = first.filter(|extent| extent.flags & extent_flags::NO_ADDRESS == 0);
        Ok(first.map(|extent| extent.physical_bytes as f64 / 1024.0))
    }

    /// A new directory whose files lie where those of the first of the file system do. A commit costs by how far its
    /// journal is from what it is of, and the directory of a workload is the first that is made.
    pub(crate) fn fresh_dir_at_home(&mut self, tag: &str) -> Res<String> {
        let dirs = self.fresh_dirs_at_places(tag, 1)?;
        match dirs.into_iter().next() {
            Some(dir) => Ok(dir),
            None => self.fresh_dir(tag),
        }
    }

    /// New directories, one in each of the places among which they take turns, from that of the first of the file
    /// system on, `most` of them; none where they do not take turns.
    pub(crate) fn fresh_dirs_at_places(&mut self, tag: &str, most: usize) -> Res<Vec<String>> {
        let Some(home) = self.home else {
            return Ok(Vec::new());
        };
        let mut dirs: Vec<Option<String>> = vec![None; home.places.min(most)];
        for _ in 0..2 * home.places {
            let dir = self.fresh_dir(tag)?;
            let here = self.place_kib(&dir)?;
            let turn = here.map_or(0, |kib| home.turn_of(kib));
            if let Some(place) = dirs.get_mut(turn) {
                place.get_or_insert(dir);
            }
            if dirs.iter().all(Option::is_some) {
                break;
            }
        }
        // One whose place nobody found is none.
        Ok(dirs.into_iter().map_while(|dir| dir).collect())
    }
}

impl Home {
    /// How many places on from the first one a position is.
    fn turn_of(&self, kib: f64) -> usize {
        let steps = ((kib - self.kib) / self.apart_kib).round() as i64;
        steps.rem_euclid(self.places.max(1) as i64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::Home;

    #[test]
    fn places_are_counted_from_home() {
        let home = |kib| Home {
            kib,
            apart_kib: 1000.0,
            places: 4,
        };
        let turns = |home: Home| [50.0, 1200.0, 2100.0, 3400.0].map(|kib| home.turn_of(kib));
        assert_eq!(turns(home(100.0)), [0, 1, 2, 3]);
        assert_eq!(turns(home(1100.0)), [3, 0, 1, 2]);
    }
}
