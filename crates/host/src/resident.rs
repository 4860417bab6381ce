//! Memory that is there: what a measurement is going to need is taken from the hypervisor before it begins.
//!
//! A virtual machine gives free memory back to its host (free page reporting, in blocks of 2 MiB and larger, a second
//! or two after they became free). Its next use then waits for the host: 4 to 11 us for each 4 KiB page where one that
//! is there takes less than a microsecond, and which pages a page cache gets is chance. A cold read of 192 MiB in
//! memory took between 30 and 346 ms for that alone.
//!
//! All of it is touched once, and freed but for a page in each part of a block: what lies between them is free, and
//! in pieces too small to be given back. A part of it is taken in whole blocks, of which half stays in one piece: page caches
//! take 1 MiB at a time for a write of as much, and where only smaller pieces were there would go to memory that is not
//! (8 to 11 us a page for 0.8). Nothing changes where memory is never given back.

#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::environment::available_bytes;
use crate::signals;

/// What is wanted, bytes: most of what a quick profile or a workload of some seconds has in caches and images.
const WANTED_BYTES: u64 = 1 << 30;
/// At most this share of what is available is touched, and half as much again in whole blocks.
const SHARE: u64 = 8;
/// One page is kept of so many bytes: two in the smallest block that is given back, which need not begin where the
/// mapping does.
const KEPT_OF_BYTES: usize = 1 << 20;
/// A huge page is a block, and begins where one does.
const BLOCK_BYTES: usize = 2 << 20;

/// Memory of which a page here and there is kept, until this is dropped.
#[derive(Debug)]
#[allow(dead_code, reason = "held until it is dropped")]
pub struct Resident {
    pieces: Mapping,
    blocks: Option<Mapping>,
}

impl Resident {
    /// Takes 1 GiB, or an eighth of what this process may have, and half as much again in whole blocks. `None` where there is
    /// none to take, or where a signal has asked for the end: on a busy machine it takes seconds.
    pub fn take() -> Option<Self> {
        let bytes = usize::try_from(WANTED_BYTES.min(available_bytes()? / SHARE)).ok()?;
        Self::of(bytes / KEPT_OF_BYTES * KEPT_OF_BYTES, &signals::stop_flag())
    }

    fn of(bytes: usize, stop: &AtomicBool) -> Option<Self> {
        let stopped = || stop.load(Ordering::Relaxed);
        let pieces = Mapping::of(bytes)?;
        // Parts of a huge page are not freed alone. Where there are none the call fails, and nothing is lost.
        pieces.advise(0, bytes, libc::MADV_NOHUGEPAGE);
        for part in (0..bytes).step_by(KEPT_OF_BYTES) {
            if stopped() {
                return None;
            }
            (part..part + KEPT_OF_BYTES)
                .step_by(rustix::param::page_size())
                .for_each(|at| pieces.touch(at));
        }
        // While the small pieces are taken these come of large ones.
        let blocks = Mapping::of(bytes / 2);
        if let Some(blocks) = &blocks {
            blocks.advise(0, blocks.bytes, libc::MADV_HUGEPAGE);
            let wanted = blocks.aligned().take_while(|_| !stopped());
            wanted.for_each(|at| blocks.touch(at));
            if stopped() {
                return None;
            }
            // What becomes cold in part is no huge page any more.
            blocks.aligned().for_each(|at| {
                blocks.advise(at, rustix::param::page_size(), libc::MADV_COLD);
            });
            blocks
                .aligned()
                .for_each(|at| blocks.keep_first(at, BLOCK_BYTES));
        }
        for part in (0..bytes).step_by(KEPT_OF_BYTES) {
            pieces.keep_first(part, KEPT_OF_BYTES);
        }
        Some(Self { pieces, blocks })
    }
}

/// Anonymous memory of this process alone.
#[derive(Debug)]
struct Mapping {
    start: NonNull<libc::c_void>,
    bytes: usize,
}

// SAFETY: the mapping is only ever unmapped, by whoever owns this.
unsafe impl Send for Mapping {}

impl Mapping {
    fn of(bytes: usize) -> Option<Self> {
        if bytes == 0 {
            return None;
        }
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        );
        // SAFETY: the kernel chooses the address of a new mapping.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        let start = NonNull::new(start)?;
        Some(Self { start, bytes })
    }

    /// Where whole blocks begin in it.
    fn aligned(&self) -> impl Iterator<Item = usize> + use<> {
        let first = self.start.as_ptr().addr().wrapping_neg() % BLOCK_BYTES;
        let bytes = self.bytes;
        (first..bytes)
            .step_by(BLOCK_BYTES)
            .filter(move |at| at + BLOCK_BYTES <= bytes)
    }

    fn touch(&self, at: usize) {
        assert!(at < self.bytes, "within the mapping");
        // SAFETY: within the mapping, to which nobody else points.
        unsafe { self.start.as_ptr().cast::<u8>().add(at).write_volatile(1) };
    }

    /// What the kernel does not know it does not do.
    fn advise(&self, at: usize, bytes: usize, advice: libc::c_int) {
        assert!(at + bytes <= self.bytes, "within the mapping");
        // SAFETY: whole pages within the mapping, to whose content nobody points.
        unsafe { libc::madvise(self.start.as_ptr().byte_add(at), bytes, advice) };
    }

    /// Frees a part but for its first page.
    fn keep_first(&self, part: usize, bytes: usize) {
        let page = rustix::param::page_size();
        self.advise(part + page, bytes - page, libc::MADV_DONTNEED);
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped.
        unsafe { libc::munmap(self.start.as_ptr(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static GO_ON: AtomicBool = AtomicBool::new(false);

    #[test]
    fn nothing_is_taken_when_the_end_was_asked_for() {
        assert!(Resident::of(16 * KEPT_OF_BYTES, &AtomicBool::new(true)).is_none());
    }

    /// Pages of a mapping that are there, as mincore(2) tells.
    fn held(mapping: &Mapping) -> usize {
        let mut pages = vec![0u8; mapping.bytes / rustix::param::page_size()];
        // SAFETY: one byte for each page of the mapping.
        let done =
            unsafe { libc::mincore(mapping.start.as_ptr(), mapping.bytes, pages.as_mut_ptr()) };
        assert_eq!(done, 0);
        pages.iter().filter(|page| **page & 1 == 1).count()
    }

    #[test]
    fn a_page_of_each_part_and_block_is_kept_and_the_rest_is_free() {
        let resident = Resident::of(16 * KEPT_OF_BYTES, &GO_ON).unwrap();
        assert_eq!(held(&resident.pieces), 16);
        let blocks = resident.blocks.as_ref().unwrap();
        assert!((3..=4).contains(&blocks.aligned().count()));
        assert_eq!(held(blocks), blocks.aligned().count());
    }

    #[test]
    fn no_more_is_taken_than_an_eighth_of_what_there_is() {
        let resident = Resident::take().unwrap();
        let bytes = resident.pieces.bytes as u64;
        assert!(bytes <= WANTED_BYTES && bytes <= available_bytes().unwrap());
        assert_eq!(
            held(&resident.pieces) * KEPT_OF_BYTES,
            resident.pieces.bytes
        );
        assert!(
            Resident::of(0, &GO_ON).is_none(),
            "nothing is there to be taken"
        );
    }
}
