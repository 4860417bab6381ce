//! A device whose arm has to move and that reads nothing ahead by itself: each request takes as long as it is far and
//! large, in the order in which they come. What the kernel asks for ahead keeps it busy too, and whoever comes to it
//! before it is there waits for it.

use std::collections::{BTreeMap, VecDeque};

use fsage_core::metric::{self, FamilyId};
use fsage_stats::interpolate::linear;

use crate::cost::SystemVector;
use crate::drive::arm_alone;

const PAGE_KIB: f64 = 4.0;

/// One request of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ask {
    pub write: bool,
    /// Whether the operation waits for it.
    pub waits: bool,
    /// Where it begins on the device, in pages, where that is known.
    pub block: Option<u64>,
    pub pages: u64,
    /// What it brings.
    pub file: u32,
    pub first: u64,
}

impl Ask {
    /// Whether it brings the page before that one, which lies behind it.
    pub fn goes_on_in(self, (file, page): (u32, u64), block: Option<u64>, waits: bool) -> bool {
        let behind = self.block.map(|first| first + self.pages);
        let same = !self.write && self.file == file && self.waits == waits;
        same && self.first + self.pages == page && behind == block
    }

    /// The part from one page to before another.
    fn part(self, from: u64, to: u64) -> Self {
        Self {
            block: self.block.map(|block| block + (from - self.first)),
            pages: to - from,
            first: from,
            ..self
        }
    }
}

/// What an operation does with blocks of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// It comes to pages of a file, from the first to before the last, which somebody has asked for.
    Comes(u32, u64, u64),
    Asks(Ask),
    /// So many blocks of metadata are committed, with what others wait for; of none the commit that is under way is
    /// waited for.
    Commits(u64),
    /// What the device holds is made stable.
    Flushes,
}

/// What an operation comes to and asks for, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Asks {
    pub all: Vec<Step>,
    /// Whether that is of names and inodes.
    pub names: bool,
    /// What of its charges at the device is the call's own work, where it moves data.
    pub own: Option<Own>,
    /// Its number among those that were expected before they came.
    expected: u64,
}

/// What a call works itself of what the device is charged for.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Own {
    /// KiB that it reads, of which so many are charged as cached.
    pub kib: f64,
    pub cached_kib: f64,
    /// Pages that it brings into memory itself.
    pub missed: u64,
    /// Pages that are brought for a write to a part of each.
    pub parts: u64,
}

impl Asks {
    /// Whether nothing is asked for, and nothing come to.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Nothing is asked for.
    pub fn clear(&mut self) {
        self.names = false;
        self.own = None;
        self.all.clear();
    }

    /// Requests alone.
    fn requests(&self) -> impl DoubleEndedIterator<Item = Ask> + '_ {
        self.all.iter().filter_map(|step| match step {
            Step::Asks(ask) => Some(*ask),
            Step::Comes(..) | Step::Commits(_) | Step::Flushes => None,
        })
    }

    /// Whether something is to be made stable.
    pub fn syncs(&self) -> bool {
        let syncs = |step: &Step| matches!(step, Step::Commits(_) | Step::Flushes);
        self.all.iter().any(syncs)
    }

    /// Whether it comes to names and inodes that all are there, or on their way for others.
    pub fn finds_names(&self) -> bool {
        self.names && self.requests().next().is_none()
    }
}

#[derive(Debug, Clone, Copy)]
enum Work {
    Of(Ask),
    /// Blocks of metadata somewhere, in nanoseconds.
    Names(u64),
    /// So many blocks behind the last commit.
    Commit(u64),
    Flush,
}

/// Pages on their way.
#[derive(Debug, Clone, Copy)]
struct Arriving {
    file: u32,
    first: u64,
    end: u64,
    number: u64,
}

/// Between these distances of the series RX what is near may end.
const NEAR_ENDS_KIB: (u64, u64) = (64, 128);

/// The distance of the series RX that costs what this one does, where it is known how far what is near is at most.
pub(crate) fn snapped_kib(kib: u64, near_kib: u64) -> u64 {
    let (near, far) = NEAR_ENDS_KIB;
    match kib {
        _ if kib <= near || kib >= far => kib,
        _ if kib <= near_kib => near,
        _ => far,
    }
}

/// Blocks of FSYC: of the new inode, of its name, and of its directory's inode.
const COMMITTED: f64 = 3.0;
/// Where commits lie, one behind the other: far from all else.
const JOURNAL: u64 = 1 << 62;

/// Requests that begin farther before a page do not bring it: read-ahead of 16 MiB.
const LONGEST: u64 = 4096;
/// Requests that are remembered after they were served.
const REMEMBERED: usize = 4096;

/// The device in predicted time.
#[derive(Debug, Clone)]
pub(crate) struct Arm {
    /// What a read of a page takes that goes on where the last request ended, and each page more.
    page_ns: f64,
    more_ns: f64,
    /// The same of a write.
    write_ns: f64,
    more_written_ns: f64,
    /// How much longer a read takes so many KiB off the last request.
    off_ns: Vec<(f64, f64)>,
    near_kib: Option<u64>,
    /// What reads take in memory, by KiB, and what one of a page takes whose page is not there: of a hole.
    cached_ns: Vec<(f64, f64)>,
    hole_ns: f64,
    /// What of a lookup in a block that was read is the call's own work.
    name_ns: f64,
    /// One block of metadata.
    access_ns: f64,
    at: Option<u64>,
    free_at: u64,
    /// With when their service begins and ends, once that is known.
    asked: VecDeque<(Work, Option<(u64, u64)>)>,
    /// What a commit takes of [`COMMITTED`] blocks behind the last one, and what making stable takes of it.
    commit_ns: f64,
    flush_ns: f64,
    /// The last commit.
    committing: Option<u64>,
    /// The number of the first of them.
    first: u64,
    arriving: Vec<Arriving>,
    /// What operations will read that have not come yet, by file, page and their numbers: whoever comes to it before
    /// them asks for it.
    expected: BTreeMap<(u32, u64, u64), Ask>,
    expects: u64,
}

impl Arm {
    /// That of a system; `None` where there is no such device, or too little is known of it.
    pub fn of(vector: &SystemVector) -> Option<Self> {
        if !arm_alone(vector) {
            return None;
        }
        let value = |name: &str| vector.named(name).map(|e| e.value).filter(|&v| v > 0.0);
        let cached_ns = series(vector, "RC");
        let cached = |kib| linear(&cached_ns, kib).unwrap_or(0.0);
        // A hole's pages are given room in memory as those are that are read.
        let holes = series(vector, "RHO");
        let hole = |kib| linear(&holes, kib).unwrap_or_else(|| cached(kib));
        let hole_ns = hole(PAGE_KIB).max(cached(PAGE_KIB));
        let next_ns = value("RFN")?;
        // Files of one page and of four lie equally far off.
        let read_ns = value("RF16")? - value("RF4")?;
        let more_ns = (read_ns - (hole(4.0 * PAGE_KIB) - hole(PAGE_KIB))).max(0.0) / 3.0;
        let off_ns = series(vector, "RX").into_iter();
        let off_ns = off_ns.map(|(kib, ns)| (kib, (ns - next_ns).max(0.0)));
        let page_ns = (next_ns - hole_ns).max(0.0);
        let written = value("DTF").zip(value("DTR"));
        Some(Self {
            page_ns,
            more_ns,
            write_ns: written.map_or(page_ns, |(file, _)| file),
            more_written_ns: written.map_or(more_ns, |(_, rate)| PAGE_KIB * 1e9 / rate),
            off_ns: off_ns.collect(),
            near_kib: value("RXB").map(|kib| kib as u64),
            cached_ns,
            hole_ns,
            name_ns: value("LUS_NC").unwrap_or(hole_ns),
            access_ns: value("RFF")?,
            at: None,
            free_at: 0,
            asked: VecDeque::new(),
            commit_ns: value("FSYC").map_or(0.0, |ns| ns - value("FSYQ").unwrap_or(0.0)),
            flush_ns: value("FSYT").map_or(0.0, |ns| ns - value("FSYQ").unwrap_or(0.0)),
            committing: None,
            first: 0,
            arriving: Vec::new(),
            expected: BTreeMap::new(),
            expects: 0,
        })
    }

    /// What of an operation's charges at the device is the call's own work.
    pub fn own_ns(&self, asks: Option<&Asks>) -> f64 {
        let Some(asks) = asks else {
            return self.cached(PAGE_KIB);
        };
        let Some(own) = asks.own else {
            let reads = asks.requests().any(|ask| !ask.write);
            return if asks.names {
                self.name_ns
            } else {
                f64::from(u8::from(reads)) * self.hole_ns
            };
        };
        let read_ns = self.cached(own.kib) - self.cached(own.cached_kib);
        let page_ns = (self.hole_ns - self.cached(PAGE_KIB)).max(0.0);
        read_ns.max(0.0) + own.missed as f64 * page_ns + own.parts as f64 * self.hole_ns
    }

    /// What a read of so much takes in memory; nothing is no read.
    fn cached(&self, kib: f64) -> f64 {
        let points = (kib > 0.0).then_some(&self.cached_ns);
        points.and_then(|points| linear(points, kib)).unwrap_or(0.0)
    }

    fn ask(&mut self, work: Work) -> u64 {
        while self.asked.len() >= REMEMBERED && self.asked.front().is_some_and(|a| a.1.is_some()) {
            self.asked.pop_front();
            self.first += 1;
        }
        self.asked.push_back((work, None));
        self.first + self.asked.len() as u64 - 1
    }

    /// An operation will come that asks for this, in the order of the trace.
    pub fn expect(&mut self, asks: &mut Asks) {
        self.expects += 1;
        asks.expected = self.expects;
        for ask in asks.requests().filter(|ask| !ask.write) {
            let key = (ask.file, ask.first, self.expects);
            self.expected.insert(key, ask);
        }
    }

    /// What of some pages others were expected to read, that come later than this.
    fn take_over(&mut self, (file, first, end): (u32, u64, u64), number: u64) -> Vec<Ask> {
        let near = (file, first.saturating_sub(LONGEST), 0)..(file, end, 0);
        let overlaps = |(key, ask): &(&(u32, u64, u64), &Ask)| {
            key.2 != number && ask.first + ask.pages > first
        };
        let found = self.expected.range(near).filter(overlaps);
        let found: Vec<_> = found.map(|(&key, &ask)| (key, ask)).collect();
        let mut taken = Vec::new();
        for (key, ask) in found {
            self.expected.remove(&key);
            let (from, to) = (ask.first.max(first), (ask.first + ask.pages).min(end));
            for (from, to) in [(ask.first, from), (to, ask.first + ask.pages)] {
                if from < to {
                    let rest = ask.part(from, to);
                    self.expected.insert((file, from, key.2), rest);
                }
            }
            taken.push(Ask {
                waits: true,
                ..ask.part(from, to)
            });
        }
        taken
    }

    /// What of a request of an operation that was expected is still to be asked for.
    fn is_left(&mut self, ask: Ask, number: u64) -> Vec<Ask> {
        if ask.write || number == 0 {
            return vec![ask];
        }
        let within = (ask.file, ask.first, 0)..(ask.file, ask.first + ask.pages, 0);
        let keys = self.expected.range(within).map(|(&key, _)| key);
        let own: Vec<_> = keys.filter(|key| key.2 == number).collect();
        own.iter()
            .filter_map(|key| self.expected.remove(key))
            .collect()
    }

    /// An operation comes at `at` that takes the device so long alone: which requests it waits for, one after the other.
    pub fn begin(&mut self, asks: Option<&Asks>, device_ns: f64, at: u64) -> VecDeque<u64> {
        let mut waits = VecDeque::new();
        let Some(asks) = asks.filter(|asks| !asks.is_empty()) else {
            // A part of an access is that of many operations without any.
            let blocks = (device_ns / self.access_ns).round();
            if blocks > 0.0 {
                let each = (device_ns / blocks) as u64;
                waits.extend((0..blocks as u64).map(|_| self.ask(Work::Names(each))));
            }
            return waits;
        };
        for &step in &asks.all {
            let asked = match step {
                Step::Comes(file, first, end) => {
                    waits.extend(self.awaited((file, first, end), at));
                    self.take_over((file, first, end), asks.expected)
                }
                Step::Asks(ask) => self.is_left(ask, asks.expected),
                Step::Commits(blocks) => {
                    waits.extend(self.commit(blocks, at));
                    Vec::new()
                }
                Step::Flushes => {
                    waits.push_back(self.ask(Work::Flush));
                    Vec::new()
                }
            };
            for ask in asked {
                let number = self.asks(ask);
                if ask.waits {
                    waits.push_back(number);
                } else {
                    self.serve(number, at);
                }
            }
        }
        waits
    }

    /// The commit of so many blocks: one that has not begun at `at` takes them too.
    fn commit(&mut self, blocks: u64, at: u64) -> Option<u64> {
        let under_way = (self.committing).filter(|&n| self.done(n).is_none_or(|end| end > at));
        if blocks == 0 {
            return under_way;
        }
        let joined = under_way.filter(|&n| self.begins(n).is_none_or(|begins| begins > at));
        let place = joined.and_then(|n| n.checked_sub(self.first));
        if let Some((Work::Commit(before), None)) =
            place.and_then(|place| self.asked.get_mut(place as usize))
        {
            *before += blocks;
        }
        let number = joined.unwrap_or_else(|| self.ask(Work::Commit(blocks)));
        self.committing = Some(number);
        Some(number)
    }

    /// When a request's service begins, where that is known.
    fn begins(&self, number: u64) -> Option<u64> {
        let place = number.checked_sub(self.first)?;
        self.asked.get(place as usize)?.1.map(|served| served.0)
    }

    /// Requests that bring some pages and are not done at `at`.
    fn awaited(&mut self, (file, first, end): (u32, u64, u64), at: u64) -> Vec<u64> {
        let mut arriving = std::mem::take(&mut self.arriving);
        arriving.retain(|a| self.done(a.number).is_none_or(|end| end > at));
        self.arriving = arriving;
        let awaited = self.arriving.iter();
        let awaited = awaited.filter(|a| a.file == file && a.first < end && first < a.end);
        awaited.map(|a| a.number).collect()
    }

    /// Takes a request, to be served when somebody waits for it.
    fn asks(&mut self, ask: Ask) -> u64 {
        let number = self.ask(Work::Of(ask));
        if !ask.write {
            self.arriving.push(Arriving {
                file: ask.file,
                first: ask.first,
                end: ask.first + ask.pages,
                number,
            });
        }
        number
    }

    /// When a request is done, where that is known; at once, where it is forgotten.
    fn done(&self, number: u64) -> Option<u64> {
        let place = number.checked_sub(self.first);
        let asked = place.and_then(|place| self.asked.get(place as usize));
        asked.map_or(Some(0), |asked| asked.1.map(|served| served.1))
    }

    /// Serves a request for which somebody waits from `at` on; returns when it is done.
    pub fn serve(&mut self, number: u64, at: u64) -> u64 {
        let Some(place) = number.checked_sub(self.first).map(|place| place as usize) else {
            return at;
        };
        let Some(&(work, served)) = self.asked.get(place) else {
            return at;
        };
        if let Some((_, done)) = served {
            return done.max(at);
        }
        let ns = self.takes_ns(work);
        let begins = self.free_at.max(at);
        let done = begins.saturating_add(ns as u64);
        self.free_at = done;
        self.at = match work {
            Work::Of(ask) => ask.block.map(|block| block + ask.pages),
            Work::Names(_) => None,
            Work::Commit(_) => Some(JOURNAL),
            Work::Flush => self.at,
        };
        if let Some(asked) = self.asked.get_mut(place) {
            asked.1 = Some((begins, done));
        }
        done
    }

    fn takes_ns(&self, work: Work) -> f64 {
        let ask = match work {
            Work::Names(ns) => return ns as f64,
            Work::Flush => return self.flush_ns,
            Work::Commit(blocks) => {
                let more_ns = (blocks as f64 - COMMITTED) * self.more_written_ns;
                return (self.commit_ns + more_ns).max(0.0) + self.way_ns(Some(JOURNAL));
            }
            Work::Of(ask) => ask,
        };
        let (page_ns, more_ns) = if ask.write {
            (self.write_ns, self.more_written_ns)
        } else {
            (self.page_ns, self.more_ns)
        };
        page_ns + ask.pages.saturating_sub(1) as f64 * more_ns + self.way_ns(ask.block)
    }

    /// What the arm takes to a place, in pages; to one that nobody knows as long as to one far off.
    fn way_ns(&self, to: Option<u64>) -> f64 {
        let most = self.off_ns.last().map_or(0.0, |point| point.0);
        let pages = self.at.zip(to).map(|(at, to)| at.abs_diff(to));
        let kib = pages.map_or(most, |pages| {
            let kib = pages.saturating_mul(PAGE_KIB as u64);
            let kib = self.near_kib.map_or(kib, |near| snapped_kib(kib, near));
            (kib as f64).min(most)
        });
        if kib <= 0.0 {
            return 0.0;
        }
        let first = self.off_ns.first().map_or(0.0, |point| point.0);
        linear(&self.off_ns, kib.max(first)).unwrap_or(0.0)
    }

    /// Something else keeps it until then, and takes the arm away.
    pub fn busy(&mut self, until: u64) {
        self.free_at = self.free_at.max(until);
        self.at = None;
    }
}

/// The points of a series that was measured, back to back.
fn series(vector: &SystemVector, stem: &str) -> Vec<(f64, f64)> {
    let all = metric::family(stem).into_iter().flat_map(FamilyId::metrics);
    let points = all.filter(|id| id.gap() == 0).filter_map(|id| {
        let kib = f64::from(id.point()?);
        Some((kib, vector.get(id)?.value))
    });
    points.collect()
}

#[cfg(test)]
#[allow(
    clippy::float_cmp,
    clippy::unwrap_used,
    reason = "exact by construction"
)]
mod tests {
    use super::*;
    use fsage_core::metric::MetricId;

    /// 1,000 to a place far off, 100 to a near one, 50 for a page and 20 for each more.
    fn arm() -> Arm {
        arm_with(&[("RX64", 150.0), ("RF16", 1110.0)])
    }

    /// 1,000 to a place far off and 50 for a page, and what else is known.
    fn arm_with(more: &[(&str, f64)]) -> Arm {
        let metric = |&(name, v): &(&str, f64)| (MetricId::parse(name).unwrap(), v, v, v);
        let metrics = [
            ("RFF", 1050.0),
            ("RFN", 50.0),
            ("RXA256", 1050.0),
            ("RX128", 1050.0),
            ("RF4", 1050.0),
        ];
        Arm::of(&SystemVector::new(
            "s",
            metrics.iter().chain(more).map(metric),
        ))
        .unwrap()
    }

    fn read(block: u64, pages: u64, waits: bool) -> Asks {
        let ask = Ask {
            write: false,
            waits,
            block: Some(block),
            pages,
            file: 7,
            first: block,
        };
        Asks {
            all: vec![Step::Comes(7, block, block + pages), Step::Asks(ask)],
            ..Asks::default()
        }
    }

    #[test]
    fn requests_take_as_long_as_they_are_far_and_large_and_wait_for_those_before() {
        let mut arm = arm();
        let mut took = |asks: &Asks, at| {
            let waits = arm.begin(Some(asks), 0.0, at);
            waits
                .into_iter()
                .fold(at, |at, number| arm.serve(number, at))
        };
        assert_eq!(took(&read(100, 1, true), 0), 1050);
        assert_eq!(took(&read(101, 4, true), 1050), 1050 + 110);
        assert_eq!(took(&read(110, 1, true), 2000), 2150);
        assert_eq!(took(&read(900, 1, true), 2100), 2150 + 1050);
    }

    #[test]
    fn who_comes_to_what_is_on_its_way_waits_for_it_and_others_do_not() {
        let mut arm = arm();
        assert!(arm.begin(Some(&read(100, 8, false)), 0.0, 0).is_empty());
        let comes = |page| Asks {
            all: vec![Step::Comes(7, page, page + 1)],
            ..Asks::default()
        };
        let waits = arm.begin(Some(&comes(105)), 0.0, 10);
        assert_eq!(waits.len(), 1);
        assert_eq!(arm.serve(waits[0], 10), 1050 + 7 * 20);
        assert!(arm.begin(Some(&comes(108)), 0.0, 10).is_empty());
        assert!(arm.begin(Some(&comes(105)), 0.0, 2000).is_empty());
    }

    #[test]
    fn who_comes_first_asks_and_who_was_to_waits() {
        let mut arm = arm();
        let (mut later, mut first) = (read(100, 4, true), read(102, 1, true));
        first.all = vec![Step::Comes(7, 102, 103)];
        arm.expect(&mut later);
        arm.expect(&mut first);
        let waits = arm.begin(Some(&first), 0.0, 0);
        assert_eq!(waits.len(), 1);
        assert_eq!(arm.serve(waits[0], 0), 1050);
        // Two requests are left of it, on either side; what the other asked for is there.
        let waits = arm.begin(Some(&later), 0.0, 2000);
        let done = waits.iter().fold(2000, |at, &n| arm.serve(n, at));
        assert_eq!((waits.len(), done), (2, 2000 + 170 + 150));
        assert!(arm.expected.is_empty());
    }

    #[test]
    fn who_syncs_before_a_commit_begins_shares_it_and_who_finds_it_under_way_waits() {
        let mut arm = arm_with(&[
            ("RF16", 1110.0),
            ("FSYC", 510.0),
            ("FSYT", 310.0),
            ("FSYQ", 10.0),
        ]);
        let asks = |all: &[Step]| Asks {
            all: all.to_vec(),
            ..Asks::default()
        };
        let begin = |arm: &mut Arm, all: &[Step], at| arm.begin(Some(&asks(all)), 0.0, at);
        let one = begin(&mut arm, &[Step::Commits(3)], 0);
        let other = begin(&mut arm, &[Step::Commits(2)], 0);
        assert_eq!(one, other);
        // Two blocks more, of 20 each; the arm comes from elsewhere.
        assert_eq!(arm.serve(one[0], 0), 500 + 1000 + 2 * 20);
        // It has begun: another one is behind it, and whoever needs nothing waits for it.
        let next = begin(&mut arm, &[Step::Commits(3)], 100);
        assert_ne!(next, one);
        assert_eq!(begin(&mut arm, &[Step::Commits(0)], 100), next);
        assert_eq!(arm.serve(next[0], 100), 1540 + 500);
        assert!(begin(&mut arm, &[Step::Commits(0)], 5000).is_empty());
        let flush = begin(&mut arm, &[Step::Flushes], 5000);
        assert_eq!(arm.serve(flush[0], 5000), 5300);
    }

    #[test]
    fn what_is_the_calls_own_is_not_asked_of_the_device() {
        let arm = arm_with(&[
            ("RF16", 1170.0),
            ("RC4", 4.0),
            ("RC16", 16.0),
            ("RHO4", 10.0),
            ("RHO16", 40.0),
        ]);
        // Of each page 10 is the reader's.
        assert_eq!((arm.page_ns, arm.more_ns), (40.0, 30.0));
        let read = |kib, cached_kib, missed, parts| {
            let own = Some(Own {
                kib,
                cached_kib,
                missed,
                parts,
            });
            arm.own_ns(Some(&Asks {
                own,
                ..Asks::default()
            }))
        };
        assert_eq!(read(16.0, 0.0, 4, 0), 16.0 + 4.0 * 6.0);
        assert_eq!(read(16.0, 4.0, 0, 0), 12.0);
        assert_eq!(read(0.0, 0.0, 0, 2), 20.0);
    }

    #[test]
    fn blocks_of_names_are_asked_for_one_by_one() {
        let mut arm = arm();
        let (one, other) = (arm.begin(None, 2100.0, 0), arm.begin(None, 1050.0, 0));
        assert_eq!((one.len(), other.len()), (2, 1));
        let first = arm.serve(one[0], 0);
        assert_eq!(
            [arm.serve(other[0], 0), arm.serve(one[1], first)],
            [2100, 3150]
        );
        assert!(arm.begin(None, 400.0, 0).is_empty());
    }
}
