//! What the kernel brings in before it is asked for.

use super::mapped::pages_of;
use super::{Passing, View};
use crate::namespace::process::OpenId;
use crate::namespace::tree::Ino;
use crate::pattern::{Advice, Stream};

/// How the kernel's requests bring the pages of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Requested {
    /// How many pages it reads, where all of them were asked for ahead; 0 of any other.
    pub ahead: u64,
    /// Of the request that was under way and whose first page is among them, pages.
    pub came_to: u64,
    /// Pages behind those that it has to wait for itself.
    pub along: u64,
    /// Pages that it asks for ahead.
    pub asks: u64,
    /// Whether its data is kept with the inode, and came with it.
    pub with_inode: bool,
}

impl View {
    /// How an open file is read.
    #[inline]
    pub(super) fn stream(&mut self, open: OpenId, serial: u32) -> Option<&mut Stream> {
        let index = open.0 as usize;
        if index >= self.streams.len() {
            self.streams
                .resize((index + 1).next_power_of_two(), Stream::default());
        }
        let stream = self.streams.get_mut(index)?;
        if stream.serial != serial {
            *stream = Stream::new(serial);
        }
        Some(stream)
    }

    /// Who reads by the open file of a call.
    pub(super) fn stream_of(&mut self, step: &Passing<'_>) -> Option<&mut Stream> {
        let open = step.resolved.open?;
        let serial = step.ns.processes.open(open)?.serial;
        self.stream(open, serial)
    }

    /// Brings in what a reader who goes on will ask for next, of pages `first` to `last` that it read now.
    #[inline]
    pub(super) fn read_ahead(
        &mut self,
        step: &Passing<'_>,
        ino: Ino,
        (open, serial): (OpenId, u32),
        first: u64,
        last: u64,
        missed: bool,
    ) {
        let most = self.sizes.read_ahead;
        let Some(mut stream) = self.stream(open, serial).copied() else {
            return;
        };
        let most = match stream.advice {
            Advice::Anywhere => 0,
            Advice::InOrder => 2 * most,
            Advice::Usual => most,
        };
        let history = || self.pages.history(ino.0, first, most);
        self.requested.came_to = stream.comes_to((first, last));
        let ahead = stream.read((first, last), missed, most, history);
        let end = ahead.end.min(pages_of(step, ino));
        if missed {
            self.requested.along = end.saturating_sub(ahead.start);
        } else if ahead.start < end {
            stream.asks(&(ahead.start..end));
            self.requested.asks = end - ahead.start;
        }
        if let Some(kept) = self.stream(open, serial) {
            *kept = stream;
        }
        if ahead.is_empty() {
            return;
        }
        let mut came = false;
        for page in ahead.start..end {
            if self.holds_data(step, ino, page) && self.pages.prefetch(ino.0, page) {
                self.misses(page);
                came = true;
            }
        }
        if came {
            self.came_together(ino, 0, most);
        }
    }
}
