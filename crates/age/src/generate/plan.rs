//! Days of a usage profile: what happens on each is planned, put in the order of time and put out.

use fsage_core::Seed;
use fsage_workload::random::Random;

use super::emit::{Emitter, blocks};
use super::files::{Files, Place};
use super::profile::{Profile, Save, Victim, hours};
use super::{BLOCK_BYTES, GenerateError, Source, Wanted, begun, refused};
use crate::made::{AgingKind, DAY_NS, HOUR_NS, Made};

const MINUTE_NS: u64 = HOUR_NS / 60;

/// Parts of the file system: the largest file that stays, how far a day's end may lie off, what stays free at any time.
const LARGEST_PART: u64 = 100;
const TOLERANCE_PART: u64 = 500;
const FREE_PART: u64 = 33;

/// Directories at the top.
const TOPS: usize = 4;

/// The largest addition to a file.
const ADDED_BYTES: u64 = 1 << 20;

/// A profile for one file system.
pub struct ProfileSource {
    profile: &'static Profile,
    made: Made,
    fill: Vec<(f64, f64)>,
    /// Operations until each day's end.
    until: Vec<u64>,
    /// Bytes that are written for an operation; `None` as it comes.
    bytes_each: Option<f64>,
    /// Whether fullness, activity or length are asked for, and not the profile's.
    own_course: bool,
}

impl ProfileSource {
    /// That profile as it is asked for.
    pub fn new(profile: &'static Profile, wanted: &Wanted) -> Result<Self, GenerateError> {
        let days = wanted.days.unwrap_or(profile.days);
        let size_bytes = wanted.size_bytes.unwrap_or(profile.size_bytes);
        let scale = wanted.scale.unwrap_or(1.0);
        let times = size_bytes as f64 / profile.size_bytes as f64 * scale;
        let a_day = profile.operations as f64 / f64::from(profile.days) * times;
        if a_day * f64::from(days) > 1e12 {
            return Err(refused(format!(
                "{a_day:.0} operations a day on {days} days, expected fewer than 10^12 in all"
            )));
        }
        let fill = match wanted.fill {
            Some(fill) => {
                let first = profile.fill.first().map_or(fill, |f| f.1).min(fill);
                vec![(0.0, first), (0.1, fill), (1.0, fill)]
            }
            None => profile.fill.to_vec(),
        };
        let mut random = Random::new(Seed(wanted.seed.0 ^ 0x00da_7a00));
        let weight = |day: u32, random: &mut Random| {
            let rest = if day % 7 < 5 {
                100
            } else {
                profile.weekend_percent
            };
            rest * (50 + random.below(101))
        };
        let weights: Vec<u64> = (0..days).map(|d| weight(d, &mut random)).collect();
        let all: u64 = weights.iter().sum::<u64>().max(1);
        let mut gone = 0;
        let until = weights.iter().map(|weight| {
            gone += weight;
            (a_day * f64::from(days) * (gone as f64 / all as f64)) as u64
        });
        Ok(Self {
            made: Made {
                days,
                size_bytes,
                ..begun(AgingKind::Profile, profile.name, wanted)
            },
            until: until.collect(),
            fill,
            own_course: wanted.fill.is_some() || wanted.scale.is_some() || wanted.days.is_some(),
            bytes_each: profile
                .written_bytes
                .map(|bytes| bytes as f64 / profile.operations as f64),
            profile,
        })
    }

    /// What files are to take after that share of the days.
    fn target(&self, gone: f64) -> u64 {
        let after = self.fill.iter().position(|&(at, _)| at >= gone);
        let after = after.unwrap_or(self.fill.len().saturating_sub(1));
        let before = self.fill.get(after.saturating_sub(1)).copied();
        let (a, b) = (
            before.unwrap_or_default(),
            self.fill.get(after).copied().unwrap_or_default(),
        );
        let share = if b.0 > a.0 {
            a.1 + (b.1 - a.1) * ((gone - a.0) / (b.0 - a.0))
        } else {
            b.1
        };
        (share * self.made.size_bytes as f64) as u64
    }
}

impl Source for ProfileSource {
    fn made(&self) -> Made {
        self.made.clone()
    }

    fn emit(&mut self, out: &mut Emitter<'_>) -> Result<(), GenerateError> {
        let mut days = Days::new(self);
        days.begin(self.target(0.0));
        for day in 0..self.made.days {
            let gone = f64::from(day + 1) / f64::from(self.made.days);
            let until = self.until.get(day as usize).copied().unwrap_or(0);
            days.plan(day, self.target(gone), until, out);
            days.put_out(out)?;
            out.end_day()?;
        }
        Ok(())
    }
}

/// What happens.
#[derive(Debug, Clone, Copy)]
enum What {
    Create(Place, u64),
    Save(Place, u64, u64),
    Append(Place, u64, u64),
    Remove(Place, u64),
    /// A file of the same day: its place in [`Days::short`].
    ShortCreate(usize),
    ShortRemove(usize),
}

#[derive(Debug, Clone, Copy)]
struct Event {
    ns: u64,
    what: What,
}

/// A file of one day.
#[derive(Debug, Clone, Copy)]
struct Short {
    dir: u32,
    number: u64,
    size: u64,
    there: bool,
}

struct Days<'s> {
    profile: &'static Profile,
    source: &'s ProfileSource,
    random: Random,
    files: Files,
    events: Vec<Event>,
    short: Vec<Short>,
    active: Vec<u32>,
    hours: [u64; 24],
    hours_sum: u64,
    weights: u64,
    path: Vec<u8>,
    beside: Vec<u8>,
    /// Operations that filling took beyond those of its day, where the course is not the profile's own: they come on top
    /// of its activity. Days that made up for them would have none.
    on_top: u64,
    /// Operations until the end of the day before, with these.
    due: u64,
}

impl<'s> Days<'s> {
    fn new(source: &'s ProfileSource) -> Self {
        let hours = hours(source.profile.hours);
        Self {
            profile: source.profile,
            source,
            random: Random::new(Seed(source.made.seed)),
            files: Files::default(),
            events: Vec::new(),
            short: Vec::new(),
            active: Vec::new(),
            hours_sum: hours.iter().sum(),
            hours,
            weights: source.profile.sizes.iter().map(|s| s.1).sum(),
            path: Vec::new(),
            beside: Vec::new(),
            on_top: 0,
            due: 0,
        }
    }

    fn largest(&self) -> u64 {
        self.source.made.size_bytes / LARGEST_PART
    }

    fn tolerance(&self) -> u64 {
        self.source.made.size_bytes / TOLERANCE_PART
    }

    /// A size of the table.
    fn size(&mut self) -> u64 {
        let mut at = self.random.below(self.weights);
        let mut low = 0;
        for &(high, weight) in self.profile.sizes {
            if at < weight {
                return (low + 1 + self.random.below(high - low)).min(self.largest());
            }
            at -= weight;
            low = high;
        }
        low
    }

    /// A time of the day with activity, after `from_ns`, which may be of that day.
    fn time(&mut self, day: u32, from_ns: u64) -> u64 {
        let day_ns = u64::from(day) * DAY_NS;
        let mut at = self.random.below(self.hours_sum);
        let mut hour = 0;
        for weight in self.hours {
            if at < weight {
                break;
            }
            at -= weight;
            hour += 1;
        }
        let ns = day_ns + hour * HOUR_NS + self.random.below(HOUR_NS - MINUTE_NS);
        if ns > from_ns {
            return ns;
        }
        let end_ns = day_ns + DAY_NS - MINUTE_NS;
        from_ns + 1 + self.random.below(end_ns.saturating_sub(from_ns).max(1))
    }

    fn event(&mut self, ns: u64, place: Place, what: What) {
        self.events.push(Event { ns, what });
        self.files.change(place, |file| {
            file.from_ns = ns;
            file.pending += 1;
        });
    }

    /// A directory with activity today.
    fn directory(&mut self) -> u32 {
        let at = self.random.below(self.active.len() as u64) as usize;
        self.active.get(at).copied().unwrap_or(0)
    }

    /// The directories of the day: more likely later ones.
    fn choose_active(&mut self) {
        let count = self.files.dirs.len() as u64;
        self.active.clear();
        for _ in 0..(count / 16).max(2) {
            let back = self.random.below(count).min(self.random.below(count));
            self.active.push((count - 1 - back) as u32);
        }
    }

    fn add(&mut self, day: u32, ns: Option<u64>, size: u64) {
        let wanted = self.files.count() / self.profile.files_per_directory;
        let dir = if (self.files.dirs.len() as u64) < wanted {
            self.files.add_directory(TOPS, &mut self.random);
            let new = self.files.dirs.len() as u32 - 1;
            self.active.push(new);
            new
        } else {
            self.directory()
        };
        let place = self.files.add(dir, size, day);
        let ns = ns.unwrap_or_else(|| self.time(day, 0));
        self.event(ns, place, What::Create(place, size));
    }

    /// The files of the beginning, in the first half hour.
    fn begin(&mut self, target: u64) {
        for _ in 0..TOPS {
            self.files.add_directory(TOPS, &mut self.random);
        }
        let mut ns = 0;
        while self.files.bytes < target {
            self.choose_active();
            for _ in 0..self.profile.files_per_directory {
                ns = (ns + 20_000).min(HOUR_NS / 2);
                let left = target.saturating_sub(self.files.bytes);
                let size = self.size().min(left);
                if left > 0 {
                    self.add(0, Some(ns), size);
                }
            }
        }
    }

    /// Plans a day after which files take `target` and `until` operations have been.
    fn plan(&mut self, day: u32, target: u64, until: u64, out: &Emitter<'_>) {
        if self.profile.victim == Victim::Young {
            self.files.grow_old(day);
        }
        self.choose_active();
        if self.source.own_course {
            self.on_top += out.operations().saturating_sub(self.due);
        }
        let until = until + self.on_top;
        self.due = until;
        let budget = until.saturating_sub(out.operations());
        let saves = budget * self.profile.modify_percent / 100;
        for _ in 0..saves {
            self.save(day);
        }
        let beside = u64::from(self.profile.save == Save::Beside);
        let delivered = 1 + u64::from(self.profile.deliver);
        let made = budget.saturating_sub(saves * (1 + beside)) / (delivered + 1);
        for _ in 0..made * (100 - self.profile.short_percent) / 100 {
            let size = self.size();
            self.add(day, None, size);
        }
        while self.files.bytes < target {
            let size = self.size();
            self.add(day, None, size);
        }
        while self.files.bytes > target && self.remove_some(day, target) {}
        while target.saturating_sub(self.files.bytes) > self.tolerance() {
            let size = (target - self.files.bytes).min(self.largest());
            self.add(day, None, size);
        }
        let cost = |event: &Event| match event.what {
            What::Create(..) => delivered,
            What::Save(..) => 1 + beside,
            _ => 1,
        };
        let planned: u64 = self.events.iter().map(cost).sum();
        self.short_lived(
            day,
            budget.saturating_sub(planned) / (delivered + 1),
            until,
            out,
        );
    }

    fn save(&mut self, day: u32) {
        let young = self.random.below(2) == 0;
        let Some(place) = self.files.any(young, &mut self.random) else {
            return;
        };
        let file = self.files.get(place);
        let ns = self.time(day, file.from_ns);
        let added = self.size().min(ADDED_BYTES);
        let grown = file.size.saturating_add(added);
        if self.profile.save == Save::Append && grown <= self.largest() {
            self.files.resize(place, grown);
            self.event(ns, place, What::Append(place, file.size, grown));
            return;
        }
        // Files grow and shrink a little when they are written again.
        let size = (file.size * (80 + self.random.below(42)) / 100).clamp(1, self.largest());
        self.files.resize(place, size);
        self.event(ns, place, What::Save(place, file.size, size));
    }

    /// Removes a file, or all of a directory; false if there is none.
    fn remove_some(&mut self, day: u32, target: u64) -> bool {
        let victim = match self.profile.victim {
            Victim::Oldest => self.files.oldest(),
            Victim::Young => {
                let young =
                    self.files.young() * 100 > self.files.count() * self.profile.young_percent;
                self.files.any(young, &mut self.random)
            }
        };
        let Some(victim) = victim else { return false };
        let file = self.files.get(victim);
        let night = self.profile.victim == Victim::Oldest;
        let day_ns = u64::from(day) * DAY_NS;
        let ns = if night && file.from_ns < day_ns + HOUR_NS {
            // In the order of age, from one o'clock on.
            day_ns + HOUR_NS + self.events.len() as u64 * 100_000
        } else {
            self.time(day, file.from_ns)
        };
        self.remove(victim, ns);
        if self.random.below(100) < self.profile.together_percent {
            let others = self.files.of_directory(file.dir).to_vec();
            for (nth, other) in others.into_iter().enumerate() {
                if self.files.bytes <= target {
                    break;
                }
                let from_ns = self.files.get(other).from_ns;
                let ns = ns + nth as u64 * 50_000;
                let ns = if ns > from_ns {
                    ns
                } else {
                    self.time(day, from_ns)
                };
                self.remove(other, ns);
            }
        }
        true
    }

    fn remove(&mut self, place: Place, ns: u64) {
        let size = self.files.get(place).size;
        self.files.remove(place);
        self.event(ns, place, What::Remove(place, size));
    }

    /// Files that are made and removed on the same day, so many that the day's operations and bytes come out.
    fn short_lived(&mut self, day: u32, count: u64, until: u64, out: &Emitter<'_>) {
        let mut drawn = 0;
        for _ in 0..count {
            let size = self.size();
            drawn += size;
            let (dir, number) = (self.directory(), self.files.number());
            self.short.push(Short {
                dir,
                number,
                size,
                there: false,
            });
        }
        if let Some(bytes_each) = self.source.bytes_each.filter(|_| drawn > 0) {
            let planned: u64 = self.events.iter().map(|e| written(e.what)).sum();
            let due = (until as f64 * bytes_each) as u64;
            let due = due.saturating_sub(out.written_bytes() + planned);
            let most = self.largest() * 2;
            for short in &mut self.short {
                let size = u128::from(short.size) * u128::from(due) / u128::from(drawn);
                short.size = (size as u64).clamp(1, most);
            }
        }
        let end_ns = u64::from(day + 1) * DAY_NS - MINUTE_NS / 2;
        for index in 0..self.short.len() {
            let ns = self.time(day, 0);
            let lives_ns = self
                .random
                .exponential(self.profile.short_minutes * MINUTE_NS);
            let gone_ns = ns.saturating_add(lives_ns + 1_000_000).min(end_ns);
            self.events.push(Event {
                ns,
                what: What::ShortCreate(index),
            });
            self.events.push(Event {
                ns: gone_ns,
                what: What::ShortRemove(index),
            });
        }
    }

    /// Puts the planned day out.
    fn put_out(&mut self, out: &mut Emitter<'_>) -> Result<(), GenerateError> {
        let mut events = std::mem::take(&mut self.events);
        events.sort_by_key(|event| event.ns);
        let size_bytes = self.source.made.size_bytes;
        let most = size_bytes - size_bytes / FREE_PART;
        let mut early = 0;
        for at in 0..events.len() {
            let Some(event) = events.get(at).copied() else {
                break;
            };
            out.at(event.ns);
            let needed = match event.what {
                What::Create(_, size) => blocks(size),
                What::Save(_, old, size) if self.profile.save == Save::Beside => {
                    blocks(size.max(old))
                }
                What::Save(_, old, size) | What::Append(_, old, size) => {
                    blocks(size) - blocks(old.min(size))
                }
                _ => 0,
            };
            // What is to go today goes before what would not fit.
            early = early.max(at + 1);
            while out.live_bytes() + needed > most && early < events.len() {
                if let Some(Event {
                    what: What::Remove(place, _),
                    ..
                }) = events.get(early).copied()
                    && self.files.get(place).pending == 1
                    && let Some(event) = events.get_mut(early)
                {
                    let what = std::mem::replace(&mut event.what, What::ShortRemove(usize::MAX));
                    self.put(what, most, out)?;
                }
                early += 1;
            }
            self.put(event.what, most, out)?;
        }
        events.clear();
        self.events = events;
        self.short.clear();
        Ok(())
    }

    fn put(&mut self, what: What, most: u64, out: &mut Emitter<'_>) -> Result<(), GenerateError> {
        match what {
            What::Create(place, size) => {
                let file = self.files.get(place);
                self.name(file.dir, file.number, out)?;
                self.create(size, out)?;
            }
            What::Save(place, old, size) => {
                let file = self.files.get(place);
                self.name(file.dir, file.number, out)?;
                if self.profile.save == Save::Beside {
                    out.create(&self.beside, size)?;
                    out.rename(&self.beside, &self.path, old)?;
                } else {
                    out.rewrite(&self.path, old, size)?;
                }
            }
            What::Append(place, old, size) => {
                let file = self.files.get(place);
                self.name(file.dir, file.number, out)?;
                out.append(&self.path, old, size)?;
            }
            What::Remove(place, size) => {
                let file = self.files.get(place);
                self.name(file.dir, file.number, out)?;
                out.unlink(&self.path, size)?;
                self.files.forget(place);
            }
            What::ShortCreate(index) => {
                let room = most.saturating_sub(out.live_bytes() + BLOCK_BYTES * TOPS as u64);
                let Some(short) = self.short.get_mut(index) else {
                    return Ok(());
                };
                // What would not fit is smaller; later days make up for it.
                short.size = short.size.min(room / BLOCK_BYTES * BLOCK_BYTES);
                short.there = short.size > 0;
                let short = *short;
                if short.there {
                    self.name(short.dir, short.number, out)?;
                    self.create(short.size, out)?;
                }
            }
            What::ShortRemove(index) => {
                if let Some(short) = self.short.get(index).copied().filter(|s| s.there) {
                    self.name(short.dir, short.number, out)?;
                    out.unlink(&self.path, short.size)?;
                }
            }
        }
        if let What::Create(place, _) | What::Save(place, ..) | What::Append(place, ..) = what {
            self.files.change(place, |file| file.pending -= 1);
        }
        Ok(())
    }

    fn create(&mut self, size: u64, out: &mut Emitter<'_>) -> Result<(), GenerateError> {
        if self.profile.deliver {
            out.create(&self.beside, size)?;
            return out.rename(&self.beside, &self.path, 0);
        }
        out.create(&self.path, size)
    }

    /// Sets the path of a file, and of one beside it; its directories are there then.
    fn name(&mut self, dir: u32, number: u64, out: &mut Emitter<'_>) -> Result<(), GenerateError> {
        self.make_directory(dir, out)?;
        let directory = self.files.dirs.get(dir as usize).map_or("", |d| &d.path);
        let extensions = self.profile.extensions;
        let extension = extensions.get(number as usize % extensions.len().max(1));
        let extension = extension.copied().unwrap_or_default();
        self.path.clear();
        self.path
            .extend_from_slice(format!("{directory}/f{number:x}{extension}").as_bytes());
        self.beside.clear();
        self.beside
            .extend_from_slice(format!("{directory}/.f{number:x}").as_bytes());
        Ok(())
    }

    fn make_directory(&mut self, dir: u32, out: &mut Emitter<'_>) -> Result<(), GenerateError> {
        let mut chain = Vec::new();
        let mut next = Some(dir);
        while let Some(directory) = next.and_then(|d| self.files.dirs.get_mut(d as usize)) {
            if std::mem::replace(&mut directory.made, true) {
                break;
            }
            chain.push(directory.path.clone());
            next = directory.above;
        }
        chain
            .iter()
            .rev()
            .try_for_each(|path| out.mkdir(path.as_bytes()))
    }
}

fn written(what: What) -> u64 {
    match what {
        What::Create(_, size) | What::Save(_, _, size) => size,
        What::Append(_, old, size) => size - old,
        _ => 0,
    }
}
