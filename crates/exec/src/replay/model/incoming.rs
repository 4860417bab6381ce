//! What a link or a rename brings in from outside of what is replayed: it is of the start, in a directory of its own,
//! and goes from there to where it comes.

use fsage_core::Op;
use fsage_namespace::Ino;
use rustc_hash::FxHashMap;

use super::{Found, Model, Skip};
use crate::replay::place::Placement;

/// That directory on the target; the same below `/` on the traced machine, where it has none.
pub const INCOMING: &str = ".fsage-incoming";

/// Which operations bring something in.
#[derive(Debug, Clone, Default)]
pub struct Incoming {
    /// What is replayed, while the trace is read for the start; `None` where nothing is left out.
    inside: Option<Placement>,
    /// Links and renames that succeeded so far.
    calls: u64,
    /// Those of them that bring something in, and the number that it has in the directory.
    brought: FxHashMap<u64, u64>,
    /// The numbers of files that were linked.
    linked: FxHashMap<Ino, u64>,
    /// How many are made.
    pub made: u64,
}

impl Incoming {
    /// None yet, of what lies outside of `inside`.
    pub fn of(inside: Option<Placement>) -> Self {
        Self {
            inside,
            ..Self::default()
        }
    }

    /// The same to be met again, from the first operation on.
    #[must_use]
    pub fn again(&self) -> Self {
        Self {
            inside: None,
            calls: 0,
            ..self.clone()
        }
    }

    /// What is replayed, while the trace is read for the start.
    pub(super) fn inside(&self) -> Option<&Placement> {
        self.inside.as_ref()
    }

    /// Where names lie, what comes in too.
    pub fn placed(&self, placement: &Placement) -> Placement {
        let mut all = placement.clone();
        if self.made > 0 {
            all.add(format!("/{INCOMING}").as_bytes(), INCOMING.as_bytes());
        }
        all
    }

    /// A link or rename that succeeded.
    pub(super) fn call(&mut self) {
        self.calls += 1;
    }
}

impl Model {
    /// What the operation at hand brings in.
    pub(super) fn brought(&mut self, op: &Op) -> Result<Found, Skip> {
        let number = self.incoming.brought.get(&self.incoming.calls);
        let number = number.ok_or(Skip::Outside)?;
        let text = format!("/{INCOMING}/{number}");
        let found = self.find_text(text.as_bytes(), false, None, op)?;
        found.walk.node.map(|_| found).ok_or(Skip::Outside)
    }

    /// Whether what the first name has comes in by the second.
    pub(super) fn comes_in(&self, one: &Found, two: &Found) -> bool {
        let inside = |found: &Found| {
            let (dir, name) = found.walk.last.as_ref()?;
            let mut path = self.tree.path(*dir)?;
            path.push(b'/');
            path.extend_from_slice(name);
            Some(self.incoming.inside.as_ref()?.map(&path).is_some())
        };
        inside(one) == Some(false) && inside(two) == Some(true)
    }

    /// Makes what came in a file of the start.
    pub(super) fn bring_in(&mut self, node: Option<Ino>, linked: bool) {
        let Some(node) = node else { return };
        let known = self.incoming.linked.get(&node).filter(|_| linked).copied();
        let number = known.unwrap_or(self.incoming.made);
        if known.is_none() {
            let dir = self.tree.directory(format!("/{INCOMING}").as_bytes());
            let name = number.to_string().into_bytes().into();
            if !self.tree.begin_at(node, (dir, name)) {
                return;
            }
            self.incoming.made += 1;
        }
        if linked {
            self.incoming.linked.insert(node, number);
        }
        self.incoming.brought.insert(self.incoming.calls, number);
    }
}
