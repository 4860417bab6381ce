//! The calls behind a listing, one by one.

use std::mem::MaybeUninit;

use fsage_core::OpenFlags;
use rustix::fs::{Mode, OFlags, RawDir};

use crate::error::{Halt, Res};
use crate::lab::Lab;

/// As glibc's readdir(3).
const BUFFER_BYTES: usize = 32 * 1024;

/// Lists a directory and says what each getdents64 took in nanoseconds, the last, empty one
/// included. Where the target is no directory of this machine, one number for all of it.
pub(crate) fn list(lab: &mut Lab<'_>, dir: &str, gap: usize) -> Res<Vec<f64>> {
    let base = lab.base_ns.get(gap).copied().unwrap_or_default();
    let Some(root) = &lab.host_dir else {
        let fs = lab.fs;
        let handle = fs.open(dir.as_bytes(), OpenFlags::DIRECTORY, 0)?;
        lab.pause(gap);
        let result = lab.timed(|| fs.read_dir(handle));
        fs.close(handle)?;
        return Ok(vec![result?.1 - base]);
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = rustix::fs::open(root.join(dir), flags, Mode::empty()).map_err(errno)?;
    let mut buffer = vec![MaybeUninit::uninit(); BUFFER_BYTES];
    let mut entries = RawDir::new(&fd, buffer.as_mut_slice());
    let mut calls = Vec::new();
    loop {
        if entries.is_buffer_empty() {
            lab.pause(gap);
            let start = lab.clock.now_ns();
            let entry = entries.next();
            let end = lab.clock.now_ns();
            calls.push(end.saturating_sub(start) as f64 - base);
            match entry {
                None => return Ok(calls),
                Some(entry) => {
                    entry.map_err(errno)?;
                }
            }
        } else if let Some(entry) = entries.next() {
            entry.map_err(errno)?;
        }
    }
}

/// The constant of each call and the slope by entries of `(entries, (total, calls))`: least squares
/// for totals of `calls * constant + entries * slope`. `None` where they cannot be told apart.
pub(crate) fn fit(points: &[(f64, (f64, f64))]) -> Option<(f64, f64)> {
    // Weighted by 1 / (entries + 1): the error of a long listing grows with its length.
    let (mut cc, mut ce, mut ee, mut ct, mut et) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for &(entries, (total, calls)) in points {
        let weight = 1.0 / (entries + 1.0);
        cc += weight * calls * calls;
        ce += weight * calls * entries;
        ee += weight * entries * entries;
        ct += weight * calls * total;
        et += weight * entries * total;
    }
    let determinant = cc * ee - ce * ce;
    if determinant.abs() < f64::EPSILON {
        return None;
    }
    let constant = (ct * ee - et * ce) / determinant;
    let slope = (et * cc - ct * ce) / determinant;
    (constant.is_finite() && slope.is_finite()).then_some((constant.max(0.0), slope.max(0.0)))
}

pub(crate) fn errno(e: rustix::io::Errno) -> Halt {
    Halt::Failed(fsage_core::Errno(e.raw_os_error()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_fit_finds_constant_and_slope() {
        let points: Vec<_> = [(0.0, 1.0), (10.0, 2.0), (200.0, 2.0), (1000.0, 3.0)]
            .map(|(n, calls)| (n, (calls * 300.0 + n * 25.0, calls)))
            .to_vec();
        let (constant, slope) = super::fit(&points).unwrap();
        assert!((constant - 300.0).abs() < 1e-6 && (slope - 25.0).abs() < 1e-6);
        assert!(super::fit(&[]).is_none());
    }
}
