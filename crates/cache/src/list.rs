//! Doubly linked lists over dense ids, without allocation per element.

/// No element.
pub(crate) const NONE: u32 = u32::MAX;

/// The links of every id; an id is in at most one list at a time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Links {
    links: Vec<(u32, u32)>,
}

/// One list: its ends (front: newest) and its length.
#[derive(Debug, Clone)]
pub(crate) struct List {
    front: u32,
    back: u32,
    len: usize,
}

impl Default for List {
    fn default() -> Self {
        Self {
            front: NONE,
            back: NONE,
            len: 0,
        }
    }
}

impl Links {
    /// Makes room for `id`.
    pub(crate) fn reserve(&mut self, id: u32) {
        let need = id as usize + 1;
        if self.links.len() < need {
            self.links.resize(need, (NONE, NONE));
        }
    }

    fn link(&mut self, id: u32) -> Option<&mut (u32, u32)> {
        self.links.get_mut(id as usize)
    }
}

impl List {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn front(&self) -> Option<u32> {
        (self.front != NONE).then_some(self.front)
    }

    pub(crate) fn push_front(&mut self, links: &mut Links, id: u32) {
        links.reserve(id);
        let old = self.front;
        if let Some(link) = links.link(id) {
            *link = (NONE, old);
        }
        match links.link(old) {
            Some(link) => link.0 = id,
            None => self.back = id,
        }
        self.front = id;
        self.len += 1;
    }

    /// Takes out `id`, which must be in this list.
    pub(crate) fn remove(&mut self, links: &mut Links, id: u32) {
        let Some(&mut (before, after)) = links.link(id) else {
            return;
        };
        match links.link(before) {
            Some(link) => link.1 = after,
            None => self.front = after,
        }
        match links.link(after) {
            Some(link) => link.0 = before,
            None => self.back = before,
        }
        self.len = self.len.saturating_sub(1);
    }

    pub(crate) fn pop_back(&mut self, links: &mut Links) -> Option<u32> {
        let id = self.back;
        if id == NONE {
            return None;
        }
        self.remove(links, id);
        Some(id)
    }
}
