//! Commits: what changed of metadata is written together.

use rustc_hash::FxHashSet;

use crate::device::Request;
use crate::state::{Disk, State};
use crate::truth::JournalTruth;

/// Where blocks of the journal lie.
const PLACE: u64 = 1 << 43;

/// The transaction that changes go to, and the commit before it.
#[derive(Debug)]
pub(crate) struct Journal {
    pub truth: JournalTruth,
    /// The number of the running transaction; 0 is none's.
    pub running: u64,
    changed: FxHashSet<u64>,
    /// When the running transaction is committed unasked.
    pub due_ns: u64,
    head: u64,
    /// The request that commits the last closed transaction.
    committing: Option<u64>,
}

impl Journal {
    pub(crate) fn new(truth: JournalTruth) -> Self {
        Self {
            truth,
            running: 1,
            changed: FxHashSet::default(),
            due_ns: u64::MAX,
            head: 0,
            committing: None,
        }
    }

    /// Notes that a block of metadata changes; returns the transaction.
    pub(crate) fn change(&mut self, block: u64, now_ns: u64) -> u64 {
        if self.changed.is_empty() {
            self.due_ns = now_ns.saturating_add(self.truth.interval_ns);
        }
        self.changed.insert(block);
        self.running
    }

    /// Closes the running transaction and says what writes it.
    fn close(&mut self) -> Request {
        let blocks = self.changed.len() as u64 + self.truth.frame_blocks;
        let request = Request {
            write: true,
            block: PLACE + self.head,
            blocks,
            extra_ns: self.truth.flush_ns,
        };
        self.head += blocks;
        self.changed.clear();
        self.due_ns = u64::MAX;
        self.running += 1;
        request
    }
}

impl Disk {
    /// Commits what is due; nobody waits for it.
    pub(crate) fn commit_due(&mut self, now_ns: u64) {
        if self.journal.due_ns <= now_ns {
            let at_ns = self.journal.due_ns;
            let request = self.journal.close();
            self.journal.committing = Some(self.device.background(request, at_ns));
        }
    }
}

impl State {
    /// Waits until a transaction is stable. Changes that come while a commit waits for the device join
    /// it and wait for the same end.
    pub(crate) fn commit(&mut self, transaction: u64) {
        let now_ns = self.now_ns;
        let Some(disk) = &mut self.disk else { return };
        if transaction == 0 {
            return;
        }
        let (device, journal) = (&mut disk.device, &mut disk.journal);
        let committing = journal.committing.filter(|&n| !device.done(n, now_ns));
        if transaction < journal.running {
            // Closed already; stable unless it is the last.
            if let Some(number) = committing.filter(|_| transaction + 1 == journal.running) {
                self.wait(number);
            }
            return;
        }
        let number = if let Some(number) = committing.filter(|&n| device.waits(n, now_ns)) {
            device.enlarge(number, journal.changed.len() as u64);
            journal.close();
            number
        } else {
            let request = journal.close();
            device.ask(request)
        };
        journal.committing = Some(number);
        let commit_ns = journal.truth.commit_ns;
        self.cpu(commit_ns);
        self.wait(number);
    }
}
