//! How long a measurement still takes, by what its procedures really take. What they may take at most is no estimate: most
//! end long before, and without one nothing is said.

/// How long it still takes, as it is thought when a procedure begins.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Left {
    /// Seconds that are still to come, this procedure among them; `None` where nobody knows.
    pub eta_s: Option<f64>,
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
    /// What is left `since_s` seconds after the procedure began, if it is known, and whether it is behind. While it runs
    /// on beyond what it was thought to take, it is thought to take as long again as it is late, and what comes after it
    /// longer in proportion.
    pub fn after(&self, since_s: f64) -> (Option<f64>, bool) {
        let Some(eta_s) = self.eta_s else {
            return (None, self.behind);
        };
        if since_s <= self.own_s {
            return (Some(eta_s - since_s), self.behind);
        }
        let rest_s = (eta_s - self.own_s).max(0.0);
        let given_s = self.spent_s + self.own_s;
        let slower = if given_s > 0.0 {
            (self.spent_s + since_s) / given_s
        } else {
            1.0
        };
        let late = since_s > self.own_s * LATE + 1.0;
        let late_s = since_s - self.own_s;
        (Some(late_s + rest_s * slower), self.behind || late)
    }
}

/// What procedures with so much of all shares took is the rate of the rest. The first, cheap calls, say nothing of it.
const KNOWN: f64 = 1.0 / 4.0;

/// What comes after the last procedure.
#[derive(Debug, Clone, Copy, Default)]
#[allow(clippy::struct_field_names, reason = "times, by their unit")]
pub(crate) struct Then {
    /// What those took that are to be done again, as far as there is room for them until all must be over.
    pub again_ns: u64,
    pub until_ns: u64,
    /// What the removal of everything takes.
    pub removal_ns: u64,
}

/// How fast procedures are done.
#[derive(Debug, Default)]
pub(crate) struct Rate {
    /// The shares of all.
    all: u64,
    /// What those that are done took, and their shares of the time.
    spent_ns: u64,
    shares: u64,
}

impl Rate {
    pub(crate) fn new(all: u64) -> Self {
        Self {
            all,
            ..Self::default()
        }
    }

    /// A procedure is done.
    pub(crate) fn done(&mut self, share: u64, took_ns: u64) {
        self.shares += share;
        self.spent_ns = self.spent_ns.saturating_add(took_ns);
    }

    /// What is left by the rate so far: so many shares, of which one is the next procedure's, then what is known to come
    /// after all of them. `given_ns` is what the shares may take: what takes longer is behind.
    pub(crate) fn left(&self, (share, shares): (u64, u64), given_ns: u64, then: Then) -> Left {
        let spent_s = self.spent_ns as f64 / 1e9;
        let known = self.shares > 0 && self.shares as f64 >= self.all as f64 * KNOWN;
        if !known {
            return Left {
                spent_s,
                ..Left::default()
            };
        }
        let work_s = spent_s / self.shares as f64 * shares as f64;
        let given_s = given_ns as f64 / 1e9;
        let room_s = (then.until_ns as f64 / 1e9 - work_s).max(0.0);
        let again_s = (then.again_ns as f64 / 1e9).min(room_s);
        Left {
            eta_s: Some(work_s + again_s + then.removal_ns as f64 / 1e9),
            own_s: work_s * share as f64 / shares.max(1) as f64,
            spent_s,
            behind: work_s > given_s * LATE + 1.0,
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
        let mut rate = Rate::new(64);
        for took in took_s {
            rate.done(4, took * S);
        }
        let then = Then {
            removal_ns: 2 * S,
            ..Then::default()
        };
        rate.left((4, 64 - 4 * took_s.len() as u64), left_s * S, then)
    }

    #[test]
    fn what_is_left_is_by_what_was_done_and_never_by_the_time_that_is_given() {
        for took in [&[][..], &[3], &[1, 9, 2]] {
            let left = after(took, 60);
            assert_eq!(
                (left.eta_s, left.behind),
                (None, false),
                "a start says nothing"
            );
            assert_eq!(left.after(500.0), (None, false));
        }
        let left = after(&[4, 4, 4, 4], 48);
        assert_eq!(
            (left.eta_s, left.own_s, left.behind),
            (Some(50.0), 4.0, false)
        );
        // What was quick stays so, however much time the rest has.
        for given_s in [60, 6000] {
            assert_eq!(after(&[1, 1, 1, 1], given_s).eta_s, Some(14.0));
        }
        // What is to be done again counts, as far as there is room for it.
        let mut rate = Rate::new(8);
        rate.done(4, 10 * S);
        for (until_s, eta_s) in [(100, 17.0), (12, 12.0), (5, 10.0)] {
            let then = Then {
                again_ns: 7 * S,
                until_ns: until_s * S,
                removal_ns: 0,
            };
            assert_eq!(rate.left((4, 4), 50 * S, then).eta_s, Some(eta_s));
        }
        assert_eq!(left.after(1.0), (Some(49.0), false));
        assert_eq!(left.after(4.0), (Some(46.0), false));
    }

    /// A disk that others kept busy: 64 s were left, by the time that was given, for what took 405.
    #[test]
    fn what_is_behind_says_so_and_never_less_than_by_the_rate_so_far() {
        let mut took = vec![25; 3];
        for done in 4..16_usize {
            took.push(25);
            let given = 64_u64.saturating_sub(25 * done as u64);
            let left = after(&took, given);
            let by_rate = 25.0 * (16 - done) as f64;
            assert!(left.behind, "{done}: {left:?}");
            assert!(left.eta_s >= Some(by_rate), "{done}: {left:?}");
            assert_eq!(left.own_s, 25.0, "{done}");
        }
    }

    #[test]
    fn what_is_left_grows_while_a_procedure_runs_on() {
        let left = after(&[4, 4, 4, 4], 48);
        let mut before = left.after(left.own_s);
        assert!(!before.1);
        for since in [8.0, 20.0, 60.0, 300.0] {
            let now = left.after(since);
            assert!(now.1 && now.0 > before.0, "{since}: {now:?} {before:?}");
            // By the rate of everything so far: twenty seconds' worth in so long.
            let by_rate = (16.0 + since) / 20.0 * 46.0;
            assert!(now.0 >= Some(by_rate - 1e-6), "{since}: {now:?} {by_rate}");
            before = now;
        }
        // The last, which takes longer than it should, is not nearly done.
        let last = Left {
            eta_s: Some(4.0),
            own_s: 4.0,
            ..Left::default()
        };
        assert_eq!(last.after(64.0), (Some(60.0), true));
    }
}
