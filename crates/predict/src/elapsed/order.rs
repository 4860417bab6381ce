//! Names as locks: a name that a thread makes after another one has removed it.
//!
//! Programs keep each other out by a file that only one of them can make (`O_EXCL`, `link`, `mkdir`). Who makes it after
//! another thread removed it cannot do so earlier on any system, however long that one works on what it protects.

use fsage_core::{Op, OpKind};
use rustc_hash::FxHashMap;

use super::follow::{Event, Follow, Wake};
use crate::namespace::tree::DentryId;
use crate::namespace::{Action, Resolved};

/// By name, the thread that removed it last, and how many operations it had completed then.
#[derive(Debug, Clone, Default)]
pub struct Order(FxHashMap<DentryId, (usize, u64)>);

impl Order {
    /// Lets an operation that makes a name wait for its removal by another thread, and notes removals.
    #[inline]
    pub fn push(&mut self, op: &Op, resolved: &Resolved, follow: &Follow, event: &mut Event) {
        let created = matches!(resolved.action, Action::Open { created: true, .. });
        let (removes, makes) = match op.kind {
            OpKind::Open if created => (None, Some(0)),
            OpKind::Mkdir | OpKind::Mknod | OpKind::Symlink => (None, Some(0)),
            OpKind::Link => (None, Some(1)),
            OpKind::Rename => (Some(0), Some(1)),
            OpKind::Unlink | OpKind::Rmdir => (Some(0), None),
            _ => return,
        };
        if op.result.errno().is_some() {
            return;
        }
        let name = |at: Option<usize>| resolved.walks.get(at?)?.as_ref()?.last;
        if let Some((slot, ops)) = name(makes).and_then(|name| self.0.remove(&name))
            && slot != event.slot
        {
            event.follows(Wake {
                slot,
                ops,
                lag_ns: 0,
            });
        }
        if let Some(name) = name(removes) {
            self.0
                .insert(name, (event.slot, follow.completed(event.slot)));
        }
    }
}
