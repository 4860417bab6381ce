//! Memory that is there: what a measurement is going to need is taken from the hypervisor before it begins.
//!
//! A virtual machine gives free memory back to its host (free page reporting, in blocks of 2 MiB and larger, a second
//! or two after they became free). Its next use then waits for the host: 4 to 11 us for each 4 KiB page where one that
//! is there takes less than a microsecond, and which pages a page cache gets is chance. A cold read of 192 MiB in
//! memory took between 30 and 346 ms for that alone.
//!
//! All of it is touched once, and freed but for a page in each part of a block: what lies between them is free, and
//! in pieces too small to be given back. Nothing changes where memory is never given back.

#![allow(unsafe_code)]

use std::ptr::NonNull;

use crate::environment::available_bytes;

/// What is wanted, bytes: most of what a quick profile or a workload of some seconds has in caches and images.
const WANTED_BYTES: u64 = 1 << 30;
/// At most this share of what is available is touched.
const SHARE: u64 = 8;
/// One page is kept of so many bytes: two in the smallest block that is given back, which need not begin where the
/// mapping does.
const KEPT_OF_BYTES: usize = 1 << 20;

/// Memory of which a page here and there is kept, until this is dropped.
#[derive(Debug)]
pub struct Resident {
    start: NonNull<libc::c_void>,
    bytes: usize,
}

// SAFETY: the mapping is only ever unmapped, by whoever owns this.
unsafe impl Send for Resident {}

impl Resident {
    /// Takes 1 GiB, or an eighth of what this process may have. `None` where there is none to take.
    pub fn take() -> Option<Self> {
        let bytes = WANTED_BYTES.min(available_bytes()? / SHARE);
        Self::of(usize::try_from(bytes).ok()? / KEPT_OF_BYTES * KEPT_OF_BYTES)
    }

    fn of(bytes: usize) -> Option<Self> {
        let page = rustix::param::page_size();
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
        let this = Self {
            start: NonNull::new(start)?,
            bytes,
        };
        // Parts of a huge page are not freed alone. Where there are none the call fails, and nothing is lost.
        // SAFETY: the whole mapping, which is this one's own.
        unsafe { libc::madvise(start, bytes, libc::MADV_NOHUGEPAGE) };
        for at in (0..bytes).step_by(page) {
            // SAFETY: within the mapping, to which nobody else points.
            unsafe { start.cast::<u8>().add(at).write_volatile(1) };
        }
        for part in (0..bytes).step_by(KEPT_OF_BYTES) {
            // SAFETY: whole pages within the mapping: all of the part but its first.
            unsafe {
                libc::madvise(
                    start.byte_add(part + page),
                    KEPT_OF_BYTES - page,
                    libc::MADV_DONTNEED,
                )
            };
        }
        Some(this)
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped.
        unsafe { libc::munmap(self.start.as_ptr(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Resident pages of the mapping, as mincore(2) tells.
    fn held(resident: &Resident) -> usize {
        let mut pages = vec![0u8; resident.bytes / rustix::param::page_size()];
        // SAFETY: one byte for each page of the mapping.
        let done =
            unsafe { libc::mincore(resident.start.as_ptr(), resident.bytes, pages.as_mut_ptr()) };
        assert_eq!(done, 0);
        pages.iter().filter(|page| **page & 1 == 1).count()
    }

    #[test]
    fn a_page_of_each_part_is_kept_and_the_rest_is_free() {
        let resident = Resident::of(16 * KEPT_OF_BYTES).unwrap();
        assert_eq!(held(&resident), 16);
    }

    #[test]
    fn no_more_is_taken_than_an_eighth_of_what_there_is() {
        let resident = Resident::take().unwrap();
        let bytes = resident.bytes as u64;
        assert!(bytes <= WANTED_BYTES && bytes <= available_bytes().unwrap());
        assert_eq!(held(&resident) * KEPT_OF_BYTES, resident.bytes);
        assert!(Resident::of(0).is_none(), "nothing is there to be taken");
    }
}
