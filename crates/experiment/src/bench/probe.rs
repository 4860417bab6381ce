//! Whether caches that were made cold are: shown on a file that was in them.

use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;

use fsage_core::{ColdEvidence, ColdLevel, Platform};
use fsage_host::guard::GuardedDir;
use fsage_host::{HostError, cachestat};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// Large enough to lie outside of an inode, small enough to disturb nothing.
const PROBE_BYTES: usize = 64 << 10;

const SECTOR_BYTES: u64 = 512;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the probe was gone from the caches; `None` where nothing could tell.
    pub cold: Option<bool>,
    /// In words, with figures.
    pub evidence: String,
}

/// Makes a target cold with a file in its caches, looks whether that is gone, and makes it cold once
/// more, as looking has warmed it a little. `sectors_read` tells what the device has read so far.
pub fn verified_cold(
    dir: &Path,
    make_cold: &mut dyn FnMut() -> Result<ColdEvidence, HostError>,
    sectors_read: &dyn Fn() -> Option<u64>,
) -> Result<Verdict, HostError> {
    let place = GuardedDir::create(dir, ".fsage-probe-")?;
    let path = place.path().join("probe");
    write_probe(&path)?;
    make_cold()?;
    let file = std::fs::File::open(&path).map_err(|e| HostError::at("open", &path, e))?;
    let cached = cachestat::of_file(file.as_fd()).ok().map(|p| p.cached);
    let before = sectors_read();
    let read = std::fs::read(&path).map_err(|e| HostError::at("read", &path, e))?;
    let sectors = before.and_then(|b| Some(sectors_read()?.saturating_sub(b)));
    drop(file);
    drop(place);
    let evidence = make_cold()?;
    Ok(judge(evidence, cached, sectors, read.len() as u64))
}

fn write_probe(path: &Path) -> Result<(), HostError> {
    // Nothing that a file system could compress away.
    let mut random = Pcg64::seed_from_u64(1);
    let bytes: Vec<u8> = (0..PROBE_BYTES).map(|_| random.random()).collect();
    let write = || {
        let mut file = std::fs::File::create(path)?;
        file.write_all(&bytes)?;
        file.sync_all()
    };
    write().map_err(|e| HostError::at("write", path, e))
}

fn judge(evidence: ColdEvidence, cached: Option<u64>, sectors: Option<u64>, bytes: u64) -> Verdict {
    let gone = cached.map(|pages| pages == 0);
    let fetched = sectors.map(|sectors| sectors * SECTOR_BYTES >= bytes);
    let cold = match (gone, fetched) {
        (None, one) | (one, None) => one,
        (Some(gone), Some(fetched)) => Some(gone && fetched),
    };
    let mut text = format!("{:?}", evidence.method).to_lowercase();
    if evidence.level == ColdLevel::DataOnly {
        text.push_str(", data only: names and inodes stay");
    }
    let pages = cached.map(|p| format!("{p} pages of a probe were cached after it"));
    let read =
        sectors.map(|s| format!("reading its {bytes} bytes took {s} sectors from the device"));
    for said in [pages, read].into_iter().flatten() {
        text.push_str(&format!("; {said}"));
    }
    if cold.is_none() {
        text.push_str("; not verified: neither cachestat nor a device to count");
    }
    Verdict {
        cold,
        evidence: text,
    }
}

/// The sectors that the device beneath a target has read so far.
pub fn sectors_read(platform: &dyn Platform) -> Option<u64> {
    platform.device_counters().map(|c| c.sectors_read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsage_core::ColdMethod;

    #[test]
    fn what_shows_cold_caches() {
        let remount = ColdEvidence {
            method: ColdMethod::Remount,
            level: ColdLevel::Everything,
        };
        let cold = |cached, sectors| judge(remount, cached, sectors, 65536).cold;
        assert_eq!(cold(Some(0), Some(136)), Some(true));
        assert_eq!(cold(Some(16), Some(136)), Some(false), "pages stayed");
        assert_eq!(cold(Some(0), Some(0)), Some(false), "nothing was fetched");
        assert_eq!(cold(None, Some(128)), Some(true));
        assert_eq!(cold(Some(0), None), Some(true));
        assert_eq!(cold(None, None), None);
        let said = judge(remount, Some(0), Some(136), 65536).evidence;
        assert_eq!(
            said,
            "remount; 0 pages of a probe were cached after it; reading its 65536 bytes took 136 \
             sectors from the device"
        );
    }

    #[test]
    fn caches_that_stay_are_found_out() {
        let dir = tempfile::tempdir().unwrap();
        let mut nothing = || {
            Ok(ColdEvidence {
                method: ColdMethod::Evict,
                level: ColdLevel::DataOnly,
            })
        };
        let verdict = verified_cold(dir.path(), &mut nothing, &|| Some(0)).unwrap();
        assert_eq!(verdict.cold, Some(false), "{verdict:?}");
        assert!(verdict.evidence.contains("names and inodes stay"));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
