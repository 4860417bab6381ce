//! How long a measurement still takes: by the time that it was given, and by what its procedures really take.

/// How long it still takes, as it is thought when a procedure begins.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Left {
    /// Seconds that are still to come, this procedure among them.
    pub eta_s: f64,
    /// Of these, what this procedure is thought to take.
    pub own_s: f64,
    /// Seconds that procedures took so far.
    pub spent_s: f64,
    /// What was done took so much longer than it was given that the rest is thought to as well.
    pub behind: bool,
}

/// A procedure may take this many times what it is thought to before it is called behind, and one second: rounds end
/// when they are done.
const LATE: f64 = 1.5;

impl Left {
    /// What is left `since_s` seconds after the procedure began, and whether it is behind. While it runs on beyond what
    /// it was given, what comes after it is thought to take longer in proportion.
    pub fn after(&self, since_s: f64) -> (f64, bool) {
        if since_s <= self.own_s {
            return (self.eta_s - since_s, self.behind);
        }
        let rest_s = (self.eta_s - self.own_s).max(0.0);
        let given_s = self.spent_s + self.own_s;
        let slower = if given_s > 0.0 {
            (self.spent_s + since_s) / given_s
        } else {
            1.0
        };
        let late = since_s > self.own_s * LATE + 1.0;
        (rest_s * slower, self.behind || late)
    }
}

/// What is known of the rate once so much of the time that was given is spent.
const KNOWN: f64 = 1.0 / 16.0;

/// How fast procedures are done.
#[derive(Debug, Default)]
pub(crate) struct Rate {
    /// The time that all of them were given.
    given_ns: u64,
    /// What those that are done took, and their shares of the time.
    spent_ns: u64,
    shares: u64,
}

impl Rate {
    pub(crate) fn new(given_ns: u64) -> Self {
        Self {
            given_ns,
            ..Self::default()
        }
    }

    /// A procedure is done.
    pub(crate) fn done(&mut self, share: u64, took_ns: u64) {
        self.shares += share;
        self.spent_ns = self.spent_ns.saturating_add(took_ns);
    }

    /// What is left: `given_ns` of the time for so many shares, but never less than they take by the rate so far, and
    /// then the removal of everything.
    pub(crate) fn left(&self, (share, shares): (u64, u64), given_ns: u64, removal_ns: u64) -> Left {
        let spent_s = self.spent_ns as f64 / 1e9;
        let known = self.shares > 0 && self.spent_ns as f64 >= self.given_ns as f64 * KNOWN;
        let seen_s = if known {
            spent_s / self.shares as f64 * shares as f64
        } else {
            0.0
        };
        let given_s = given_ns as f64 / 1e9;
        let work_s = seen_s.max(given_s);
        Left {
            eta_s: work_s + removal_ns as f64 / 1e9,
            own_s: work_s * share as f64 / shares.max(1) as f64,
            spent_s,
            behind: seen_s > given_s * LATE + 1.0,
        }
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "exact by construction")]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// Sixteen procedures of four shares each in a time of 64 s.
    fn after(took_s: &[u64], left_s: u64) -> Left {
        let mut rate = Rate::new(64 * S);
        for took in took_s {
            rate.done(4, took * S);
        }
        rate.left((4, 64 - 4 * took_s.len() as u64), left_s * S, 2 * S)
    }

    #[test]
    fn what_keeps_to_its_time_has_what_is_left_of_it() {
        assert_eq!(after(&[], 64).eta_s, 66.0);
        let left = after(&[4, 4, 4, 4], 48);
        assert_eq!((left.eta_s, left.own_s, left.behind), (50.0, 4.0, false));
        // What was quick leaves time to the rest, which may use it.
        assert_eq!(after(&[1, 1, 1, 1], 60).eta_s, 62.0);
        // A start says nothing of the rest.
        assert_eq!(after(&[3], 61).eta_s, 63.0);
        assert_eq!(left.after(1.0), (49.0, false));
        assert_eq!(left.after(4.0), (46.0, false));
    }

    /// A disk that others kept busy: 64 s were left, by the time that was given, for what took 405.
    #[test]
    fn what_is_behind_says_so_and_never_less_than_by_the_rate_so_far() {
        let mut took = Vec::new();
        for done in 1..16_usize {
            took.push(25);
            let given = 64_u64.saturating_sub(25 * done as u64);
            let left = after(&took, given);
            let by_rate = 25.0 * (16 - done) as f64;
            assert!(left.behind, "{done}: {left:?}");
            assert!(left.eta_s >= by_rate, "{done}: {left:?}");
            assert_eq!(left.own_s, 25.0, "{done}");
        }
    }

    #[test]
    fn what_is_left_grows_while_a_procedure_runs_on() {
        let left = after(&[4, 4], 56);
        let mut before = left.after(left.own_s);
        assert!(!before.1);
        for since in [8.0, 20.0, 60.0, 300.0] {
            let now = left.after(since);
            assert!(now.1 && now.0 > before.0, "{since}: {now:?} {before:?}");
            // By the rate of everything so far: twelve seconds' worth in so long.
            let by_rate = (8.0 + since) / 12.0 * 52.0;
            assert!(now.0 >= by_rate - 1e-6, "{since}: {now:?} {by_rate}");
            before = now;
        }
        // The first, of which nothing is known.
        let first = Left::default();
        assert_eq!(first.after(100.0), (0.0, true));
    }
}
