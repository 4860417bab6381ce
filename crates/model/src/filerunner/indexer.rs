//! An indexer: files in the order in which they came, and the position up to which they were taken (Figures 22, 23).

/// Entries before the position are dropped once they are so many, and most.
const DROP: usize = 4096;

/// References to files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Indexer {
    entries: Vec<u32>,
    position: usize,
}

impl Indexer {
    /// Adds a file at the end.
    pub fn put(&mut self, file: u32) {
        self.entries.push(file);
    }

    /// The file at the position, which moves on.
    pub fn take(&mut self) -> Option<u32> {
        let file = self.entries.get(self.position).copied()?;
        self.position += 1;
        if self.position >= DROP && self.position > self.entries.len() / 2 {
            self.entries.drain(..self.position);
            self.position = 0;
        }
        Some(file)
    }

    /// Files that were not taken.
    #[cfg(test)]
    pub fn left(&self) -> &[u32] {
        self.entries.get(self.position..).unwrap_or_default()
    }
}
