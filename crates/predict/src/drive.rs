//! A drive whose arm moves: which places it holds of what was read, and what it read on after them while
//! nobody asked.
//!
//! The time in which nobody asks is the trace's own: between the end of one request and the start of the next.

use fsage_core::metric::MetricId;

use crate::cost::SystemVector;

/// A drive that holds writes waits for so long for more before it goes to them, and reads on meanwhile.
const LINGERS_NS: u64 = 2_000_000;
/// Pieces that wait to be written and are known one by one.
const MOST_WRITTEN: usize = 256;
/// Places that a drive remembers at once.
const PLACES: usize = 16;
/// A first read elsewhere takes so many times as long as one beside the last where an arm has to move.
const MOVES: f64 = 4.0;
/// Distances of the series RXA.
const AHEAD_KIB: [u64; 3] = [256, 1024, 4096];
/// Reads of what was read ahead cost less than this share of an access. One that was not may cost half of one, as it is near.
const HELD_SHARE: f64 = 0.25;

/// What a profile says of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Figures {
    /// How fast it passes over what lies in sequence.
    pub kib_per_s: u64,
    /// How far it reads on while nobody asks.
    pub ahead_bytes: u64,
    /// How long it takes to answer what it holds.
    pub held_ns: u64,
}

impl Figures {
    /// Those of a system; `None` where no arm has to move or nothing is read ahead.
    pub fn of(vector: &SystemVector) -> Option<Self> {
        let value = |name: &str| vector.named(name).map(|e| e.value).filter(|&v| v > 0.0);
        let access = value("RFF")?;
        let held = AHEAD_KIB.map(|kib| Some(value(&format!("RXA{kib}"))? < HELD_SHARE * access));
        // Files that lie beside each other in creation order need not do so on the device.
        let moves = held[0] == Some(true) || beside_is_held(vector);
        if vector.machine.in_memory || !moves {
            return None;
        }
        // What one request takes beside the medium's time makes the shorter ones slower, what the caller does with it all.
        let read = ["RD64", "RD256", "RD1024"].map(|name| value(name).unwrap_or(0.0));
        let kib_per_s = read
            .into_iter()
            .reduce(f64::max)
            .filter(|&rate| rate > 0.0)?;
        let ahead_kib = if held.iter().all(Option::is_none) {
            // About a track, and no drive reads far beyond.
            (access * kib_per_s / 1e9) as u64
        } else {
            let reached = held.iter().take_while(|held| **held == Some(true)).count();
            let far = reached.checked_sub(1).and_then(|i| AHEAD_KIB.get(i));
            match (far, held.get(reached)) {
                // It ends between this distance and the next, which is four times as far.
                (Some(far), Some(Some(false))) => 2 * far,
                (far, _) => far.copied().unwrap_or(0),
            }
        };
        (ahead_kib > 0).then_some(Self {
            kib_per_s: kib_per_s as u64,
            ahead_bytes: ahead_kib << 10,
            held_ns: value("RFN").map_or(0.0, |ns| ns.min(access)) as u64,
        })
    }
}

/// Whether an arm has to move on a drive of which is known that it holds nothing that it read on by itself: then
/// whatever else is asked for takes the arm away from what lies beside the last request.
pub(crate) fn arm_alone(vector: &SystemVector) -> bool {
    let value = |name: &str| vector.named(name).map(|e| e.value);
    let (Some(access), Some(rested)) = (value("RFF"), value("RXA256")) else {
        return false;
    };
    !vector.machine.in_memory && beside_is_held(vector) && rested >= HELD_SHARE * access
}

/// Whether the first read of the file that was made next costs next to nothing where an arm moves: then that is what an
/// answer from a drive's memory takes. Some file systems put it elsewhere.
pub(crate) fn beside_is_held(vector: &SystemVector) -> bool {
    let value = |name: &str| vector.named(name).map(|e| e.value).filter(|&v| v > 0.0);
    let costs = value("RFF").zip(value("RFN"));
    costs.is_some_and(|(access, beside)| access >= MOVES * beside)
}

/// The device's time for a small request elsewhere: the first read of some file, or a random read.
pub(crate) fn access_ns(vector: &SystemVector) -> f64 {
    let cost = |name| {
        let id = MetricId::parse(name)?;
        let slot = vector.slots().slot(id)?;
        vector.at(slot).map(|_| vector.unit_cost_ns(slot))
    };
    let random = || cost("RRD4").map(|ns_per_kib| 4.0 * ns_per_kib);
    cost("RFO").or_else(random).unwrap_or(0.0)
}

/// What a place is of: files' data by their bytes on the device, data whose place nobody knows, or directories' blocks
/// in the order in which they were created, or inodes by the blocks that hold them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    Data,
    Unplaced,
    Directories,
    Inodes,
}

/// A read that reaches the device: what it asks for, whether somebody waits for it, and whether it was taken to find that
/// held or under the arm, by the trace's own times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    pub of: Of,
    pub first: u64,
    pub end: u64,
    pub waits: bool,
    pub near: bool,
    /// Whether the kernel asked for it before the program did.
    pub ahead: bool,
}

/// Where the data of a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// The drive holds it.
    Held,
    /// The drive passes over so many bytes before it.
    Coming(u64),
    /// The arm has to move.
    Elsewhere,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    of: Of,
    first: u64,
    /// The end of what was asked for, and of what was read.
    asked: u64,
    end: u64,
    used: u64,
}

impl Place {
    fn holds(&self, of: Of, (first, end): (u64, u64)) -> bool {
        self.of == of && self.first <= first && end <= self.end
    }
}

/// The state of a drive.
#[derive(Debug, Clone)]
pub(crate) struct Drive {
    figures: Figures,
    places: Vec<Place>,
    /// Over which of them the arm stands.
    at: Option<usize>,
    /// Since when nobody asked.
    since_ns: u64,
    /// When it goes to what it was given to write, unless it is asked for something before, and what of that is known.
    writes_at_ns: Option<u64>,
    written: Vec<(Of, u64, u64)>,
    /// How much longer than in the trace its answers took since it was looked at: it read on meanwhile.
    answering_ns: u64,
    /// How long an answer is under way to who asks next.
    turning_ns: u64,
    uses: u64,
    /// How many times as long as in the trace nobody asks.
    pace: f64,
}

impl Drive {
    pub fn new(figures: Figures) -> Self {
        Self::paced(figures, 1.0)
    }

    /// One that nobody asks for so many times as long as in the trace.
    pub fn paced(figures: Figures, pace: f64) -> Self {
        Self {
            pace,
            answering_ns: 0,
            turning_ns: 0,
            figures,
            places: Vec::new(),
            at: None,
            since_ns: 0,
            writes_at_ns: None,
            written: Vec::new(),
            uses: 0,
        }
    }

    /// It is given something to write, which it takes at once and goes to later.
    pub fn writes(&mut self, now_ns: u64) {
        self.rest(now_ns);
        self.writes_at_ns = Some(now_ns.saturating_add(LINGERS_NS));
    }

    /// Whether what lies so far beyond the last request of this kind is held or under the arm.
    pub fn reaches(&mut self, of: Of, bytes: u64, now_ns: u64) -> bool {
        self.rest(now_ns);
        let last = self
            .places
            .iter()
            .filter(|p| p.of == of)
            .max_by_key(|p| p.used);
        self.at.is_some() || last.is_some_and(|p| p.end - p.asked >= bytes)
    }

    /// Whether it holds the bytes from `first` to `end`.
    pub fn holds(&mut self, of: Of, (first, end): (u64, u64), now_ns: u64) -> bool {
        self.finds(of, (first, end), now_ns) == Found::Held
    }

    /// How far a place lies from where the arm is, in bytes; `None` where it is over something else.
    pub fn distance(&mut self, of: Of, first: u64, now_ns: u64) -> Option<u64> {
        self.rest(now_ns);
        let place = self.at.and_then(|at| self.places.get(at))?;
        (place.of == of).then(|| place.end.abs_diff(first))
    }

    /// How long it reads on at most while nobody asks.
    pub fn reads_on_ns(&self) -> f64 {
        self.passing_ns(self.figures.ahead_bytes)
    }

    /// How long so many bytes take to pass under the arm, in nanoseconds.
    pub fn passing_ns(&self, bytes: u64) -> f64 {
        bytes as f64 / 1024.0 / self.figures.kib_per_s.max(1) as f64 * 1e9
    }

    /// It answers what it holds, which took so long in the trace.
    pub fn answers(&mut self, traced_ns: u64) {
        let longer_ns = self.figures.held_ns.saturating_sub(traced_ns);
        self.answering_ns = self.answering_ns.saturating_add(longer_ns);
    }

    /// A request keeps it busy for so long.
    pub fn busy(&mut self, until_ns: u64) {
        self.since_ns = self.since_ns.max(until_ns);
    }

    /// The arm goes elsewhere.
    pub fn leave(&mut self, now_ns: u64) {
        self.rest(now_ns);
        self.at = None;
    }

    /// It is given that to write, and holds it until it goes there.
    pub fn takes(&mut self, of: Of, (first, end): (u64, u64), now_ns: u64) {
        self.writes(now_ns);
        if self.written.len() < MOST_WRITTEN {
            self.written.push((of, first, end));
        }
    }

    /// Where another place is remembered: in that of the one that was used longest ago where there are all.
    fn room(&self) -> usize {
        let oldest = (0..self.places.len()).min_by_key(|&i| self.places.get(i).map(|p| p.used));
        let full = self.places.len() >= PLACES;
        oldest.filter(|_| full).unwrap_or(self.places.len())
    }

    fn put(&mut self, at: usize, place: Place) {
        match self.places.get_mut(at) {
            Some(old) => *old = place,
            None => self.places.push(place),
        }
    }

    /// A request for bytes from `first` to `end`, from `now_ns` to `until_ns` of the trace.
    pub fn ask(&mut self, of: Of, (first, end): (u64, u64), now_ns: u64, until_ns: u64) -> Found {
        self.rest(now_ns);
        if let Some(at_ns) = &mut self.writes_at_ns {
            *at_ns = until_ns.max(now_ns).saturating_add(LINGERS_NS);
        }
        self.uses += 1;
        let (uses, most) = (self.uses, self.figures.ahead_bytes);
        let found = self.look(of, (first, end));
        match found {
            Found::Held => {
                // Its own memory answers, and the arm goes on with what it does.
                if let Some(place) = self.places.iter_mut().find(|p| p.holds(of, (first, end))) {
                    place.asked = place.asked.max(end);
                    place.used = uses;
                }
                // What the traced device took longer is no time in which nobody asks here: the next request comes
                // earlier by that.
                self.busy(until_ns.saturating_sub(self.figures.held_ns));
                return found;
            }
            Found::Coming(_) => {
                if let Some(place) = self.at.and_then(|at| self.places.get_mut(at)) {
                    let least = end.saturating_sub(2 * most.max(end - first));
                    place.first = place.first.max(least.min(first));
                    (place.asked, place.end, place.used) = (end, end, uses);
                }
            }
            Found::Elsewhere => {
                let place = Place {
                    of,
                    first,
                    asked: end,
                    end,
                    used: uses,
                };
                let at = self.room();
                self.at = Some(at);
                self.put(at, place);
            }
        }
        self.busy(until_ns);
        // The arm is done before the answer is there, and the next request is under way before it moves again, unless that
        // is there already.
        self.turning_ns = self.figures.held_ns;
        found
    }

    /// Where the bytes from `first` to `end` are when they are asked for at `now_ns`.
    pub fn finds(&mut self, of: Of, (first, end): (u64, u64), now_ns: u64) -> Found {
        self.rest(now_ns);
        self.look(of, (first, end))
    }

    fn look(&self, of: Of, (first, end): (u64, u64)) -> Found {
        let waits = |&(what, from, to): &(Of, u64, u64)| what == of && from <= first && end <= to;
        let held = self.places.iter().any(|p| p.holds(of, (first, end)));
        if held || self.written.iter().any(waits) {
            return Found::Held;
        }
        let under = self.at.and_then(|at| self.places.get(at));
        let reached = |p: &Place| p.end.max(p.asked.saturating_add(self.figures.ahead_bytes));
        match under.filter(|p| p.of == of && p.first <= first && first <= reached(p)) {
            Some(place) => Found::Coming(first.saturating_sub(place.end)),
            None => Found::Elsewhere,
        }
    }

    /// Nobody asked until now: the drive reads on, until it goes to what it is to write.
    fn rest(&mut self, now_ns: u64) {
        if let Some(at_ns) = self.writes_at_ns.filter(|&at_ns| at_ns <= now_ns) {
            self.writes_at_ns = None;
            self.written.clear();
            self.reads_on(at_ns);
            self.at = None;
        }
        self.reads_on(now_ns);
    }

    fn reads_on(&mut self, now_ns: u64) {
        let rested_ns = now_ns.saturating_sub(self.since_ns);
        let turning_ns = std::mem::take(&mut self.turning_ns);
        let turning_ns = if rested_ns > 0 { turning_ns } else { 0 };
        let rested = ((rested_ns as f64 * self.pace) as u64)
            .saturating_add(turning_ns)
            .saturating_add(std::mem::take(&mut self.answering_ns));
        self.since_ns = self.since_ns.max(now_ns);
        if let Some(place) = self.at.and_then(|at| self.places.get_mut(at)) {
            let read =
                u128::from(rested) * u128::from(self.figures.kib_per_s) * 1024 / 1_000_000_000;
            let most = place
                .asked
                .saturating_add(self.figures.ahead_bytes)
                .max(place.end);
            place.end = place
                .end
                .saturating_add(read.min(u128::from(u64::MAX)) as u64)
                .min(most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;
    const MS: u64 = 1_000_000;

    /// A KiB in 10 us, 1 MiB ahead.
    fn drive() -> Drive {
        Drive::new(Figures {
            kib_per_s: 100_000,
            ahead_bytes: 1 << 20,
            held_ns: 0,
        })
    }

    #[test]
    fn an_arm_is_seen_by_what_is_held_after_a_rest_too() {
        let figures = |near_ns: f64, rested_ns: f64| {
            let metric = |(name, v): (&str, f64)| (MetricId::parse(name).unwrap(), v, v, v);
            let metrics = [
                ("RFF", 6e6),
                ("RFN", near_ns),
                ("RD1024", 2e5),
                ("RXA256", rested_ns),
            ];
            Figures::of(&SystemVector::new("s", metrics.map(metric))).map(|f| f.ahead_bytes)
        };
        assert_eq!(figures(2e5, 1e6), Some(256 << 10));
        // The next file made lies elsewhere, what follows in a file does not.
        assert_eq!(figures(3e6, 1e6), Some(256 << 10));
        assert_eq!(figures(3e6, 5e6), None);
    }

    fn data(drive: &mut Drive, kib: u64, now_ns: u64) -> Found {
        drive.ask(Of::Data, (kib * KIB, (kib + 4) * KIB), now_ns, now_ns)
    }

    #[test]
    fn what_lies_ahead_comes_or_has_come_while_nobody_asked() {
        let mut drive = drive();
        assert_eq!(data(&mut drive, 5000, 0), Found::Elsewhere);
        assert_eq!(data(&mut drive, 5100, 0), Found::Coming(96 * KIB));
        // In 5 ms 500 KiB, in the end no more than 1 MiB.
        assert_eq!(data(&mut drive, 5500, 5 * MS), Found::Held);
        assert_eq!(data(&mut drive, 6528, 500 * MS), Found::Coming(0));
        assert_eq!(data(&mut drive, 7600, 500 * MS), Found::Elsewhere);
        assert_eq!(data(&mut drive, 4000, 500 * MS), Found::Elsewhere);
    }

    #[test]
    fn it_reads_on_for_as_long_as_its_answers_take() {
        let mut drive = drive();
        drive.figures.held_ns = MS;
        assert_eq!(data(&mut drive, 5000, 0), Found::Elsewhere);
        // In the trace no time passes after the first millisecond: four answers of one each are 400 KiB more.
        for turn in 1..5 {
            assert_eq!(data(&mut drive, 5000 + 4 * turn, MS), Found::Held);
            drive.answers(0);
        }
        // 100 KiB more passed while the first answer was under way.
        assert_eq!(data(&mut drive, 5598, MS), Found::Held);
        // One that took as long in the trace adds nothing.
        drive.answers(MS);
        assert_eq!(data(&mut drive, 5700, MS), Found::Coming(96 * KIB));
    }

    #[test]
    fn what_the_traced_drive_took_longer_is_no_rest() {
        // Traced on a drive that held nothing of it: two threads ask, each as soon as it has its answer.
        let mut drive = drive();
        drive.figures.held_ns = MS / 5;
        assert_eq!(data(&mut drive, 5000, 0), Found::Elsewhere);
        assert_eq!(data(&mut drive, 5008, 2 * MS), Found::Held);
        for turn in 1..9 {
            let (now_ns, place) = (turn * 5 * MS, (5012 * KIB, 5016 * KIB));
            let found = drive.ask(Of::Data, place, now_ns, now_ns + 10 * MS);
            assert_eq!(found, Found::Held, "{turn}");
        }
        // It has read on for 5 ms and for each answer, not for the 50.
        assert_eq!(data(&mut drive, 5600, 50 * MS), Found::Coming(56 * KIB));
    }

    #[test]
    fn what_it_holds_keeps_no_arm_busy() {
        let mut drive = drive();
        drive.figures.held_ns = MS / 5;
        assert_eq!(data(&mut drive, 5000, 0), Found::Elsewhere);
        // Threads ask all the time.
        for turn in 1..10 {
            let place = ((5000 + 4 * turn) * KIB, (5004 + 4 * turn) * KIB);
            let found = drive.ask(Of::Data, place, turn * MS, turn * MS + MS / 5);
            assert_eq!(found, Found::Held, "{turn}");
        }
        // 1,000 KiB in 10 ms.
        assert_eq!(data(&mut drive, 6000, 10 * MS), Found::Held);
        // A request that the arm serves keeps it.
        drive.ask(Of::Data, (9000 * KIB, 9004 * KIB), 10 * MS, 20 * MS);
        assert_eq!(data(&mut drive, 9100, 20 * MS), Found::Coming(96 * KIB));
        // Once nobody is there, also while the answer is under way and the next request comes.
        assert_eq!(data(&mut drive, 9220, 21 * MS), Found::Held);
        assert_eq!(data(&mut drive, 9228, 21 * MS), Found::Coming(4 * KIB));
    }

    #[test]
    fn it_reads_on_for_more_than_the_farthest_that_was_held() {
        let figures = |held: [f64; 3]| {
            let mut vector = SystemVector::new("s", []);
            let [a, b, c] = held;
            let names = ["RXA256", "RXA1024", "RXA4096", "RFF", "RFN", "RD1024"];
            for (name, value) in names.into_iter().zip([a, b, c, 6e6, 2e5, 2e5]) {
                vector.size(name, value);
            }
            Figures::of(&vector).map(|f| f.ahead_bytes)
        };
        assert_eq!(figures([3e5, 3e5, 6e6]), Some(2 << 20));
        assert_eq!(figures([3e5, 6e6, 6e6]), Some(512 << 10));
        // What is near costs less than an access anywhere without being held.
        assert_eq!(figures([3e5, 3e5, 2.5e6]), Some(2 << 20));
        assert_eq!(figures([3e5; 3]), Some(4 << 20));
        assert_eq!(figures([6e6; 3]), None);
    }

    #[test]
    fn several_places_are_held_and_no_more_is_read_where_the_arm_has_left() {
        let mut drive = drive();
        data(&mut drive, 5000, 0);
        assert_eq!(data(&mut drive, 90_000, 2 * MS), Found::Elsewhere);
        assert_eq!(data(&mut drive, 5100, 9 * MS), Found::Held);
        assert_eq!(data(&mut drive, 90_100, 9 * MS), Found::Held);
        assert_eq!(data(&mut drive, 5300, 9 * MS), Found::Elsewhere);
        for other in 0..PLACES as u64 {
            data(&mut drive, 1_000_000 * (other + 1), 9 * MS);
        }
        assert_eq!(data(&mut drive, 90_100, 9 * MS), Found::Elsewhere);
    }

    #[test]
    fn what_is_to_be_written_is_held_until_the_arm_goes_there() {
        let mut late = drive();
        late.takes(Of::Data, (90_000 * KIB, 90_004 * KIB), 0);
        assert_eq!(data(&mut late, 90_000, 3 * MS), Found::Elsewhere);
        let mut drive = drive();
        data(&mut drive, 5000, 0);
        drive.takes(Of::Data, (90_000 * KIB, 90_004 * KIB), 0);
        assert_eq!(data(&mut drive, 90_000, 0), Found::Held);
        assert_eq!(data(&mut drive, 5100, 0), Found::Coming(96 * KIB));
        assert_eq!(data(&mut drive, 90_100, 0), Found::Elsewhere);
    }

    #[test]
    fn a_neighbour_is_held_after_a_rest_where_the_arm_has_left() {
        let mut drive = drive();
        data(&mut drive, 5000, 0);
        assert!(drive.reaches(Of::Data, 64 * KIB, 0));
        drive.leave(0);
        assert!(!drive.reaches(Of::Data, 64 * KIB, 0));
        data(&mut drive, 90_000, 0);
        drive.leave(10 * MS);
        assert!(drive.reaches(Of::Data, 64 * KIB, 10 * MS));
    }
}
