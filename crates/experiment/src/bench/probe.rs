//! Whether caches that were made cold are: shown on a file that was in them.

use std::os::fd::AsFd;

use fsage_core::{
    ColdEvidence, ColdLevel, Errno, FileSystem, FsOptions, OpenFlags, Target, TargetError,
};
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
/// more, as looking has warmed it a little.
pub fn verified_cold(
    target: &dyn Target,
    make_cold: &mut dyn FnMut() -> Result<ColdEvidence, TargetError>,
) -> Result<Verdict, TargetError> {
    let place = target.place(".fsage-probe-")?;
    let failed = |what: &str, errno| TargetError::refused(format!("{what} the probe"), errno);
    let fs = place.file_system(FsOptions::TRUSTED)?;
    write_probe(&*fs).map_err(|e| failed("write", e))?;
    make_cold()?;
    let cached = place.host_dir().map(|dir| {
        let path = dir.join(PROBE);
        let file = std::fs::File::open(&path).map_err(|e| HostError::at("open", &path, e))?;
        Ok::<_, HostError>(cachestat::of_file(file.as_fd()).ok().map(|p| p.cached))
    });
    let cached = cached.transpose()?.flatten();
    let sectors = || Some(fs.platform().device_counters()?.sectors_read);
    let before = sectors();
    let read = read_probe(&*fs).map_err(|e| failed("read", e))?;
    let sectors = before.and_then(|b| Some(sectors()?.saturating_sub(b)));
    drop((fs, place));
    let evidence = make_cold()?;
    Ok(judge(evidence, cached, sectors, read))
}

const PROBE: &str = "probe";

fn write_probe(fs: &dyn FileSystem) -> Result<(), Errno> {
    // Nothing that a file system could compress away.
    let mut random = Pcg64::seed_from_u64(1);
    let bytes: Vec<u8> = (0..PROBE_BYTES).map(|_| random.random()).collect();
    let file = fs.open(PROBE.as_bytes(), OpenFlags::CREATE_NEW, 0o600)?;
    let written = write_all(&bytes, |piece, at| fs.pwrite(file, piece, at));
    let written = written.and_then(|()| fs.fsync(file));
    fs.close(file)?;
    written
}

/// What was written in part tells by its rest why.
fn write_all(
    bytes: &[u8],
    mut put: impl FnMut(&[u8], u64) -> Result<usize, Errno>,
) -> Result<(), Errno> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let at = (bytes.len() - rest.len()) as u64;
        match put(rest, at)? {
            0 => return Err(Errno::EIO),
            count => rest = rest.get(count..).unwrap_or_default(),
        }
    }
    Ok(())
}

/// Reads all of it; returns how many bytes that were.
fn read_probe(fs: &dyn FileSystem) -> Result<u64, Errno> {
    let file = fs.open(PROBE.as_bytes(), OpenFlags::READ, 0)?;
    let read = fs.pread(file, &mut vec![0; PROBE_BYTES], 0);
    fs.close(file)?;
    Ok(read? as u64)
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
        let target = crate::target::directory::open(dir.path()).unwrap();
        let verdict = verified_cold(&*target, &mut nothing).unwrap();
        assert_eq!(verdict.cold, Some(false), "{verdict:?}");
        assert!(verdict.evidence.contains("names and inodes stay"));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    /// As below a limit of file sizes: the first part fits, the next says why not.
    #[test]
    fn a_probe_that_does_not_fit_tells_why() {
        let limited = |piece: &[u8], at: u64| match 4096_usize.saturating_sub(at as usize) {
            0 => Err(Errno::EFBIG),
            room => Ok(piece.len().min(room)),
        };
        assert_eq!(write_all(&[1; 4096], limited), Ok(()));
        assert_eq!(write_all(&[1; 5000], limited), Err(Errno::EFBIG));
        assert_eq!(write_all(&[1], |_, _| Ok(0)), Err(Errno::EIO));
    }
}
