//! Commits that the syncs of several threads share: who comes while one runs waits for the next one, and all who wait
//! for one go on together.

use crate::cost::SystemVector;

/// A commit is in steps, each of which a flush ends: what it is of, and that it is done. A drive serves nothing else
/// while it flushes.
const STEPS: u64 = 2;

/// A commit of several takes at least this share of that of one.
const LEAST: f64 = 0.5;

#[derive(Debug, Clone, Copy, PartialEq)]
struct Commit {
    /// From when on it takes nobody who comes, and from when on the device works for it.
    closes: u64,
    begins: u64,
    ends: u64,
    /// The longest that one of them alone takes.
    charge_ns: u64,
    syncs: u32,
}

/// The one that runs, and the one that comes after it.
#[derive(Debug, Clone)]
pub(super) struct Commits {
    /// By which part of itself a commit is longer for each further sync.
    more: f64,
    /// How many it takes that come within so long of its beginning.
    together: u32,
    within_ns: u64,
    now: Option<Commit>,
    next: Option<Commit>,
    /// What others had of the device between its steps, by which later ones begin later.
    taken_ns: u64,
}

impl Commits {
    /// By the rates of syncs of one, two and four threads (`SC_FS_D`); where they were not measured, each is one of its
    /// own. Of four threads, which come back at once, two share each commit; of two both do only where the first waits
    /// for the second.
    pub fn of(vector: &SystemVector, access_ns: f64) -> Self {
        let rate = |n: u32| vector.named(&format!("SC_FS_D{n}")).map(|e| e.value);
        let (one, two, four) = (rate(1), rate(2), rate(4));
        let alone = one.filter(|&rate| rate > 0.0);
        let of = |rate: Option<f64>| alone.zip(rate.filter(|&rate| rate > 0.0));
        Self {
            more: of(four).map_or(1.0, |(one, four)| (2.0 * one / four - 1.0).min(1.0)),
            together: of(two).map_or(1, |(one, two)| (two / one).round().clamp(1.0, 2.0) as u32),
            within_ns: access_ns as u64,
            now: None,
            next: None,
            taken_ns: 0,
        }
    }

    /// Until when one of so many takes that begins at `begins`.
    fn ends(&self, begins: u64, charge_ns: u64, syncs: u32) -> u64 {
        let times = (1.0 + f64::from(syncs.saturating_sub(1)) * self.more).max(LEAST);
        begins.saturating_add((charge_ns as f64 * times) as u64)
    }

    fn with(&self, commit: Commit, charge_ns: u64) -> Commit {
        let charge_ns = commit.charge_ns.max(charge_ns);
        let syncs = commit.syncs.saturating_add(1);
        Commit {
            // Those who wait already were told when it ends.
            ends: self.ends(commit.begins, charge_ns, syncs).max(commit.ends),
            charge_ns,
            syncs,
            ..commit
        }
    }

    /// One that is closed at `closes`, when the device is free for it at `free_at`.
    fn begin(&mut self, closes: u64, free_at: u64, charge_ns: u64) -> Commit {
        let begins = closes.max(free_at);
        let begins = begins.saturating_add(std::mem::take(&mut self.taken_ns));
        Commit {
            closes,
            begins,
            ends: self.ends(begins, charge_ns, 1),
            charge_ns,
            syncs: 1,
        }
    }

    fn pass(&mut self, at: u64) {
        while self.now.is_some_and(|commit| commit.ends <= at) {
            self.now = self.next.take();
        }
        if self.now.is_none() {
            self.taken_ns = 0;
        }
    }

    /// A sync that takes so long alone comes at `at`, where the device is free at `free_at` if no other commit keeps it:
    /// when its commit ends.
    pub fn sync(&mut self, charge_ns: u64, at: u64, free_at: u64) -> u64 {
        self.pass(at);
        let commit = match (self.now, self.next) {
            (None, _) => {
                let commit = self.begin(at, free_at, charge_ns);
                self.now = Some(commit);
                commit
            }
            (Some(now), None)
                if now.syncs < self.together && at < now.closes.saturating_add(self.within_ns) =>
            {
                let commit = self.with(now, charge_ns);
                self.now = Some(commit);
                commit
            }
            (Some(now), None) => {
                let commit = self.begin(now.ends, now.ends, charge_ns);
                self.next = Some(commit);
                commit
            }
            (_, Some(next)) => {
                let commit = self.with(next, charge_ns);
                self.next = Some(commit);
                commit
            }
        };
        commit.ends
    }

    /// When the device serves others between two steps, from `from` on: at once where nothing is committed, `None`.
    pub fn between(&mut self, from: u64, at: u64) -> Option<u64> {
        self.pass(at);
        let within = |commit: &Commit| commit.closes <= from && from < commit.ends;
        let commit = self.now.filter(within).or(self.next.filter(within))?;
        let middle = commit.ends - (commit.ends - commit.begins) / STEPS;
        Some(if from < middle { middle } else { commit.ends })
    }

    /// Others have so much of the device's time between two steps.
    pub fn take(&mut self, ns: u64) {
        self.taken_ns = self.taken_ns.saturating_add(ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsage_core::metric::MetricId;

    fn commits(rates: [f64; 3]) -> Commits {
        let names = ["SC_FS_D1", "SC_FS_D2", "SC_FS_D4"];
        let metrics = names.into_iter().zip(rates);
        let metrics = metrics.map(|(name, v)| (MetricId::parse(name).unwrap(), v, v, v));
        Commits::of(&SystemVector::new("s", metrics), 10.0)
    }

    #[test]
    fn who_comes_while_one_runs_shares_the_next() {
        let mut commits = commits([100.0, 100.0, 200.0]);
        assert_eq!(commits.sync(100, 0, 0), 100);
        for at in [1, 20, 90] {
            assert_eq!(commits.sync(100, at, 0), 200);
        }
        assert_eq!(commits.sync(100, 110, 0), 300);
        // Nobody asked for a while; what reads had the arm for comes first.
        assert_eq!(commits.sync(100, 1000, 1050), 1150);
    }

    #[test]
    fn two_that_come_at_once_share_one_where_the_first_waits_for_the_second() {
        let mut both = commits([100.0, 200.0, 200.0]);
        assert_eq!([(); 3].map(|()| both.sync(100, 5, 0)), [105, 105, 205]);
        assert_eq!(both.sync(100, 20, 0), 205);
        // One that waits for reads takes nobody who comes later all the same.
        assert_eq!(both.between(150, 150), Some(155));
        both.take(50);
        assert_eq!(
            [160, 206, 230].map(|at| both.sync(100, at, 0)),
            [355, 355, 455]
        );
        let mut late = commits([100.0, 200.0, 200.0]);
        assert_eq!([0, 10].map(|at| late.sync(100, at, 0)), [100, 200]);
    }

    #[test]
    fn where_several_take_longer_each_adds_its_part() {
        let mut longer = commits([100.0, 100.0, 100.0]);
        assert_eq!(
            [0, 1, 2, 3].map(|at| longer.sync(100, at, 0)),
            [100, 200, 300, 400]
        );
        let mut unknown = Commits::of(&SystemVector::new("s", []), 10.0);
        assert_eq!(
            [0, 1, 2].map(|at| unknown.sync(100, at, 0)),
            [100, 200, 300]
        );
    }

    #[test]
    fn others_are_served_between_two_steps_and_the_next_commit_is_later() {
        let mut commits = commits([100.0, 100.0, 200.0]);
        assert_eq!(commits.between(0, 0), None);
        commits.sync(100, 0, 0);
        assert_eq!(
            [10, 60, 100].map(|at| commits.between(at, at)),
            [Some(50), Some(100), None]
        );
        commits.sync(100, 110, 0);
        commits.take(30);
        assert_eq!(commits.sync(100, 120, 0), 340);
    }
}
