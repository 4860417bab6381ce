//! The order in which waiting requests are given to the disk.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::str::FromStr;

/// A scheduling policy of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Policy {
    /// In the order of arrival.
    Fcfs,
    /// The next in ascending order from the last one, from the start after the end (C-LOOK): BSD's
    /// `bufqdisksort`. Fast and unfair (Ellard and Seltzer 2003, 5.3).
    #[default]
    Elevator,
    /// N-step C-SCAN: what arrives during a sweep waits for the next one. Fair and slow.
    NCscan,
}

/// A policy's name that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read scheduler `{0}`: expected fcfs, elevator or n-cscan")]
pub struct PolicyError(pub String);

impl Policy {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Fcfs, Self::Elevator, Self::NCscan];

    /// Its name, as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fcfs => "fcfs",
            Self::Elevator => "elevator",
            Self::NCscan => "n-cscan",
        }
    }
}

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        Self::ALL
            .into_iter()
            .find(|p| p.name() == text)
            .ok_or_else(|| PolicyError(text.to_owned()))
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Waiting requests, each with its first sector.
#[derive(Debug)]
pub(crate) struct Scheduler<T> {
    policy: Policy,
    arrived: u64,
    /// In the order of arrival: FCFS only.
    fifo: VecDeque<T>,
    /// By first sector, then by arrival. The elevator's only one; the sweep of N-step C-SCAN.
    sweep: BTreeMap<(u64, u64), T>,
    /// What waits for the next sweep.
    next: BTreeMap<(u64, u64), T>,
    /// Where the arm was last sent.
    position: u64,
}

impl<T> Scheduler<T> {
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            arrived: 0,
            fifo: VecDeque::new(),
            sweep: BTreeMap::new(),
            next: BTreeMap::new(),
            position: 0,
        }
    }

    pub fn push(&mut self, sector: u64, request: T) {
        self.arrived += 1;
        match self.policy {
            Policy::Fcfs => self.fifo.push_back(request),
            Policy::Elevator => drop(self.sweep.insert((sector, self.arrived), request)),
            Policy::NCscan => drop(self.next.insert((sector, self.arrived), request)),
        }
    }

    pub fn pop(&mut self) -> Option<T> {
        if self.policy == Policy::Fcfs {
            return self.fifo.pop_front();
        }
        if self.sweep.is_empty() {
            std::mem::swap(&mut self.sweep, &mut self.next);
            if self.policy == Policy::NCscan {
                self.position = 0;
            }
        }
        let ahead = self.sweep.range((self.position, 0)..).next();
        let key = ahead
            .or_else(|| self.sweep.iter().next())
            .map(|(k, _)| *k)?;
        self.position = key.0;
        self.sweep.remove(&key)
    }

    pub fn is_empty(&self) -> bool {
        self.fifo.is_empty() && self.sweep.is_empty() && self.next.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(policy: Policy) -> Vec<u64> {
        let mut scheduler = Scheduler::new(policy);
        for sector in [50, 10, 30] {
            scheduler.push(sector, sector);
        }
        let mut order = vec![scheduler.pop().unwrap()];
        // Arrives while the first is served.
        scheduler.push(20, 20);
        scheduler.push(60, 60);
        order.extend(std::iter::from_fn(|| scheduler.pop()));
        assert!(scheduler.is_empty());
        order
    }

    #[test]
    fn each_policy_has_its_order() {
        assert_eq!(order(Policy::Fcfs), [50, 10, 30, 20, 60]);
        assert_eq!(order(Policy::Elevator), [10, 20, 30, 50, 60]);
        assert_eq!(order(Policy::NCscan), [10, 30, 50, 20, 60]);
    }

    #[test]
    fn the_elevator_starts_again_after_the_end() {
        let mut scheduler = Scheduler::new(Policy::Elevator);
        scheduler.push(40, 40);
        assert_eq!(scheduler.pop(), Some(40));
        for sector in [10, 45] {
            scheduler.push(sector, sector);
        }
        assert_eq!(scheduler.pop(), Some(45));
        assert_eq!(scheduler.pop(), Some(10));
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for policy in Policy::ALL {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        assert!(
            "cfq"
                .parse::<Policy>()
                .unwrap_err()
                .to_string()
                .contains("n-cscan")
        );
    }
}
