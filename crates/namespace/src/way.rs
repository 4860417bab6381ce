//! The way along a path of the tree, name by name, through symbolic links.

use crate::path::{LINKS_FOLLOWED, components};
use crate::tree::Ino;

/// What is left of a path.
#[derive(Debug, Clone)]
pub struct Way {
    /// How far it has come.
    pub at: Ino,
    /// Symbolic links that were followed.
    pub links: u32,
    /// The next component is the last one here.
    rest: Vec<Box<[u8]>>,
}

impl Way {
    /// A path from `base`, `links` of symbolic links having been followed to it.
    pub fn new(base: Ino, path: &[u8], links: u32) -> Self {
        let mut way = Self {
            at: base,
            links,
            rest: Vec::new(),
        };
        way.push(path);
        way
    }

    fn push(&mut self, path: &[u8]) {
        if path.first() == Some(&b'/') {
            self.at = Ino::ROOT;
        }
        let names = components(path).rev();
        self.rest.extend(names.map(Box::<[u8]>::from));
    }

    /// The next component.
    #[allow(
        clippy::should_implement_trait,
        reason = "what is left changes on the way"
    )]
    pub fn next(&mut self) -> Option<Box<[u8]>> {
        self.rest.pop()
    }

    /// Whether no component is left.
    pub fn is_done(&self) -> bool {
        self.rest.is_empty()
    }

    /// The component is a symbolic link of that text, which comes next; `false` where links go in a
    /// circle, as the kernel sees it.
    pub fn follow(&mut self, text: &[u8]) -> bool {
        self.links += 1;
        let follows = self.links <= LINKS_FOLLOWED;
        if follows {
            self.push(text);
        }
        follows
    }
}
