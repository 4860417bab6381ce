//! Read-ahead of one open file, as the kernel's on-demand read-ahead does it.

/// What is known of an open file's reads, in pages.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Stream {
    started: bool,
    next_page: u64,
    ahead_end: u64,
    window: u64,
}

impl Stream {
    /// Whether the access goes on in the page at which the last one ended.
    pub(crate) fn goes_on_in(&self, page: u64) -> bool {
        self.started && page + 1 == self.next_page
    }

    /// Notes that pages `first` to `last` are read, one of them `missed`. Returns the pages to bring
    /// in beyond them, of which a reader does not wait for any. `history` says how many pages before `first` another reader, or
    /// this one earlier, may have left in the cache; more than are asked for are taken for a sequence.
    pub(crate) fn read(
        &mut self,
        (first, last): (u64, u64),
        missed: bool,
        most: u64,
        history: impl FnOnce() -> u64,
    ) -> (u64, u64) {
        let sequential = if self.started {
            first == self.next_page || first + 1 == self.next_page || missed && first == 0
        } else {
            first == 0
        };
        self.started = true;
        self.next_page = last + 1;
        let request = last - first + 1;
        if most == 0 || !sequential {
            if missed {
                let before = if most == 0 { 0 } else { history() };
                let goes_on = before > request && request <= most;
                let window = (before + request).min(most);
                self.window = if goes_on { window } else { 0 };
                self.ahead_end = if goes_on { first + window } else { 0 };
                return (self.next_page, self.ahead_end.max(self.next_page));
            }
            return (0, 0);
        }
        if missed {
            self.window = initial(request, most);
            self.ahead_end = (first + self.window.max(request)).max(self.next_page);
            return (self.next_page, self.ahead_end);
        }
        if self.window == 0 || self.next_page + self.window / 2 < self.ahead_end {
            return (0, 0);
        }
        self.window = next(self.window, most);
        let from = self.ahead_end.max(self.next_page);
        self.ahead_end = from + self.window;
        (from, self.ahead_end)
    }
}

/// `get_init_ra_size`.
fn initial(request: u64, most: u64) -> u64 {
    let size = request.min(most).next_power_of_two();
    match size {
        _ if size <= most / 32 => size * 4,
        _ if size <= most / 4 => size * 2,
        _ => most,
    }
}

/// `get_next_ra_size`.
fn next(window: u64, most: u64) -> u64 {
    match window {
        _ if window < most / 16 => window * 4,
        _ if window <= most / 2 => window * 2,
        _ => most,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_grow_while_the_reader_goes_on_and_end_when_it_jumps() {
        let mut stream = Stream::default();
        assert_eq!(stream.read((0, 0), true, 32, || 0), (1, 4));
        assert_eq!(stream.read((1, 1), false, 32, || 0), (4, 12));
        assert_eq!(stream.read((2, 2), false, 32, || 0), (0, 0));
        let mut brought = Vec::new();
        for page in 3..64 {
            let (from, to) = stream.read((page, page), false, 32, || 0);
            brought.extend((to > from).then_some(to - from));
        }
        assert_eq!(brought, [16, 32, 32]);
        assert_eq!(stream.read((500, 500), true, 32, || 0), (501, 501));
        assert_eq!(stream.read((501, 501), true, 32, || 0), (502, 505));
        // Pages before it are there: as many again are brought.
        assert_eq!(stream.read((700, 700), true, 32, || 6), (701, 707));
        assert_eq!(stream.read((800, 803), true, 32, || 4), (804, 804));
    }
}
