//! Things with several owners, by dense numbers that are given again.

/// The number of a thing in its [`Shared`] table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SharedId(pub u32);

/// A table of things with several owners; each goes with its last one.
#[derive(Debug, Clone)]
pub struct Shared<T> {
    items: Vec<Option<(T, u32)>>,
    free: Vec<u32>,
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Shared<T> {
    /// Adds a thing with one owner.
    pub fn add(&mut self, item: T) -> SharedId {
        let id = self.free.pop().unwrap_or(self.items.len() as u32);
        match self.items.get_mut(id as usize) {
            Some(place) => *place = Some((item, 1)),
            None => self.items.push(Some((item, 1))),
        }
        SharedId(id)
    }

    /// A thing.
    #[inline]
    pub fn get(&self, id: SharedId) -> Option<&T> {
        let item = self.items.get(id.0 as usize)?.as_ref();
        item.map(|(item, _)| item)
    }

    /// A thing, to change it.
    #[inline]
    pub fn get_mut(&mut self, id: SharedId) -> Option<&mut T> {
        let item = self.items.get_mut(id.0 as usize)?.as_mut();
        item.map(|(item, _)| item)
    }

    /// One owner more; `false` if there is no such thing.
    pub fn share(&mut self, id: SharedId) -> bool {
        let item = self.items.get_mut(id.0 as usize).and_then(Option::as_mut);
        if let Some((_, owners)) = item {
            *owners = owners.saturating_add(1);
            return true;
        }
        false
    }

    /// One owner fewer; the thing, if that was the last.
    pub fn release(&mut self, id: SharedId) -> Option<T> {
        let place = self.items.get_mut(id.0 as usize)?;
        let (_, owners) = place.as_mut()?;
        *owners -= 1;
        if *owners > 0 {
            return None;
        }
        self.free.push(id.0);
        place.take().map(|(item, _)| item)
    }

    /// Whether more than one owns it.
    pub fn is_shared(&self, id: SharedId) -> bool {
        let item = self.items.get(id.0 as usize).and_then(Option::as_ref);
        item.is_some_and(|(_, owners)| *owners > 1)
    }

    /// All of them, by number.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter().flatten().map(|(item, _)| item)
    }

    /// The same, to change them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.items.iter_mut().flatten().map(|(item, _)| item)
    }

    /// The first by number that is as wanted.
    pub fn find(&self, wanted: impl Fn(&T) -> bool) -> Option<SharedId> {
        let fits = |item: &Option<(T, u32)>| item.as_ref().is_some_and(|(item, _)| wanted(item));
        let at = self.items.iter().position(fits)?;
        Some(SharedId(at as u32))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
