//! What a model can be: all that its parts refer to is there, and nothing is more than a machine holds.

use std::fmt;

use fsage_core::text::{line_at, problem_at};
use serde::Deserialize;
use toml::de::{DeTable, DeValue};

use super::model::{Choice, Class, Line, Model, Part, Pick, Type, VERSION};
use super::names::{FEW, count};
use super::step::LARGEST;

/// Why a model cannot be used; completes "failed to read FILE: …".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// Something in its text is wrong.
    #[error("line {line}: {problem}")]
    At {
        /// The line, from 1.
        line: usize,
        /// What is there, and what was expected.
        problem: String,
    },
    /// It is wrong as a whole.
    #[error("{0}")]
    Whole(String),
}

/// The most files that may be there before the run: what holds them in memory stays below a few gigabytes.
pub const MOST_FILES: u64 = 1 << 22;
/// The longest time to think, or of a visit: a day.
pub const MOST_TIME_NS: u64 = 86_400_000_000_000;
/// The most processes that run at once.
const MOST_AT_ONCE: u64 = 1 << 13;
/// The most processes with threads.
const MOST_WITH_THREADS: u32 = 1 << 16;
/// The most visits.
const MOST_VISITS: u64 = 1 << 40;
/// The most that there can be of time or of data.
const MOST_FACTOR: f64 = 1e6;
/// The deepest directory: its path still is one, whatever numbers are its name.
pub const MOST_DEPTH: usize = 250;

/// How much more of a model is run than its trace had.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    /// So many times all of its processes, each time with files of its own.
    pub users: u64,
    /// So many times as long.
    pub time: f64,
    /// So many times its files before the run, or larger ones.
    pub data: f64,
}

/// On the way to a place in a model: a key, or a number from 0.
#[derive(Debug, Clone, Copy)]
enum Way {
    Key(&'static str),
    Number(usize),
}

use Way::{Key, Number};

/// What is wrong, and where.
#[derive(Debug)]
struct Wrong {
    way: Vec<Way>,
    what: String,
}

fn wrong(way: &[Way], what: impl Into<String>) -> Wrong {
    let (way, what) = (way.to_vec(), what.into());
    Wrong { way, what }
}

impl Wrong {
    /// The same, seen from further above.
    fn below(mut self, way: &[Way]) -> Self {
        self.way.splice(0..0, way.iter().copied());
        self
    }

    /// In that text: its line is that of the nearest to it that stands there.
    fn at(self, text: &str) -> ModelError {
        let at = DeTable::parse(text).ok().and_then(|table| {
            let table = DeValue::Table(table.into_inner());
            let (mut place, mut at) = (&table, None);
            for step in &self.way {
                let next = match *step {
                    Key(key) => place.get(key),
                    Number(number) => place.get(number),
                };
                let Some(next) = next else { break };
                (place, at) = (next.get_ref(), Some(next.span().start));
            }
            at
        });
        ModelError::At {
            line: line_at(text, at.unwrap_or(0)),
            problem: self.to_string(),
        }
    }
}

/// `phase 2, part 1, script 3: what is wrong`.
impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.way.iter().enumerate() {
            match step {
                Key(key) if i == 0 => f.write_str(key)?,
                Key(key) => write!(f, ", {key}")?,
                Number(number) => write!(f, " {}", number + 1)?,
            }
        }
        write!(f, ": {}", self.what)
    }
}

impl Model {
    /// Reads a model.
    pub fn parse(text: &str) -> Result<Self, ModelError> {
        #[derive(Deserialize)]
        struct Head {
            format: Option<String>,
            version: Option<u32>,
        }
        let at_line = |e: toml::de::Error| {
            let at = e.span().map_or(0, |span| span.start);
            let (line, problem) = problem_at(text, at, e.message());
            ModelError::At { line, problem }
        };
        let head: Head = toml::from_str(text).map_err(at_line)?;
        let whole = |what: String| Err(ModelError::Whole(what));
        if head.format.as_deref() != Some("fsm") {
            return whole("it is no model: expected format = \"fsm\"".into());
        }
        match head.version {
            Some(VERSION) => {}
            Some(newer) if newer > VERSION => {
                return whole(format!(
                    "version {newer} is newer than this fsage reads, which is {VERSION}"
                ));
            }
            Some(none) => {
                return whole(format!(
                    "there is no version {none}: expected version = {VERSION}"
                ));
            }
            None => return whole(format!("it has no version: expected version = {VERSION}")),
        }
        let model: Self = toml::from_str(text).map_err(at_line)?;
        model.check().map_err(|wrong| wrong.at(text))?;
        Ok(model)
    }

    fn check(&self) -> Result<(), Wrong> {
        self.check_directories()?;
        let mut files: u64 = 0;
        for (i, class) in self.classes.iter().enumerate() {
            let way = [Key("files"), Number(i)];
            self.check_class(class).map_err(|w| w.below(&way))?;
            files = files.saturating_add(class.before);
            if files > MOST_FILES {
                let what = format!("{files} files so far, expected at most {MOST_FILES}");
                return Err(wrong(&[Key("before")], what).below(&way));
            }
        }
        self.check_groups()?;
        for (i, visit) in self.visits.iter().enumerate() {
            if visit.steps.is_empty() {
                let way = [Key("visit"), Number(i), Key("steps")];
                return Err(wrong(&way, "none, expected at least one"));
            }
        }
        self.check_phases()
    }

    fn check_directories(&self) -> Result<(), Wrong> {
        const WAY: Way = Key("directories");
        if self.directories.is_empty() {
            return Err(wrong(&[WAY], "none, expected at least the first, [0]"));
        }
        let mut depths: Vec<usize> = Vec::new();
        for (i, &above) in self.directories.iter().enumerate() {
            let depth = match depths.get(above as usize) {
                Some(above) => above + 1,
                None if (i, above) == (0, 0) => 0,
                None => {
                    let what = format!("lies in {above}, expected one before it");
                    return Err(wrong(&[WAY, Number(i)], what));
                }
            };
            if depth > MOST_DEPTH {
                let what = format!("lies {depth} deep, expected at most {MOST_DEPTH}");
                return Err(wrong(&[WAY, Number(i)], what));
            }
            depths.push(depth);
        }
        Ok(())
    }

    fn check_class(&self, class: &Class) -> Result<(), Wrong> {
        let most = class.size_bytes.most();
        if most > LARGEST {
            let what = format!("{most}, expected at most {LARGEST}");
            return Err(wrong(&[Key("size_bytes")], what));
        }
        let most = class.directory.most();
        if class.directory.0.is_empty() || most >= self.directories.len() as u64 {
            let what = format!(
                "'{}', expected numbers of directories, less than {}",
                class.directory,
                self.directories.len()
            );
            return Err(wrong(&[Key("directory")], what));
        }
        match class.in_new_directory {
            0..=1000 => Ok(()),
            n => {
                let what = format!("{n}, expected at most 1000");
                Err(wrong(&[Key("in_new_directory")], what))
            }
        }
    }

    fn check_groups(&self) -> Result<(), Wrong> {
        let mut at_once: u64 = 0;
        for (i, group) in self.groups.iter().enumerate() {
            let way = |key| [Key("group"), Number(i), Key(key)];
            at_once += u64::from(group.at_once);
            if group.processes == 0 {
                return Err(wrong(&way("processes"), "0, expected at least 1"));
            }
            if group.at_once == 0 {
                return Err(wrong(&way("at_once"), "0, expected at least 1"));
            }
            if u64::from(group.at_once) > group.processes {
                let (at_once, processes) = (group.at_once, group.processes);
                let what = format!("{at_once}, expected at most its processes, {processes}");
                return Err(wrong(&way("at_once"), what));
            }
            if at_once > MOST_AT_ONCE {
                let what = format!("{at_once} so far, expected at most {MOST_AT_ONCE} in all");
                return Err(wrong(&way("at_once"), what));
            }
            for (key, dist) in [("begin_ns", &group.begin_ns), ("idle_ns", &group.idle_ns)] {
                let most = dist.most();
                if most > MOST_TIME_NS {
                    let what = format!("{most}, expected at most {MOST_TIME_NS}, a day");
                    return Err(wrong(&way(key), what));
                }
            }
            let (by, groups) = (group.begun_by.most(), self.groups.len());
            if by > groups as u64 {
                let what = format!("{by}, but there are {groups} groups");
                return Err(wrong(&way("begun_by"), what));
            }
            if group.started > 0 && group.threads_of > 0 {
                return Err(wrong(
                    &way("started"),
                    "threads of a process, expected none begun by a line",
                ));
            }
            if group.threads_of > MOST_WITH_THREADS {
                let what = format!("{}, expected at most {MOST_WITH_THREADS}", group.threads_of);
                return Err(wrong(&way("threads_of"), what));
            }
        }
        Ok(())
    }

    fn check_phases(&self) -> Result<(), Wrong> {
        let (mut last_ns, mut visits) = (0, 0_u64);
        for (i, phase) in self.phases.iter().enumerate() {
            let way = [Key("phase"), Number(i)];
            if phase.start_ns < last_ns {
                let what = format!(
                    "{}, expected at least {last_ns}, that of the phase before it",
                    phase.start_ns
                );
                return Err(wrong(&[Key("start_ns")], what).below(&way));
            }
            last_ns = phase.start_ns;
            let mut groups = Vec::new();
            for (j, part) in phase.parts.iter().enumerate() {
                let way = [Key("phase"), Number(i), Key("part"), Number(j)];
                if groups.contains(&part.group) {
                    let what = format!("{} has a part of this phase already", part.group);
                    return Err(wrong(&[Key("group")], what).below(&way));
                }
                groups.push(part.group);
                self.check_part(part).map_err(|w| w.below(&way))?;
                let lines = part.script.iter().map(Line::visits);
                visits = lines.fold(visits, u64::saturating_add);
                let first = part.first.count();
                if visits.max(first) > MOST_VISITS {
                    let what = format!(
                        "{} visits so far, expected at most {MOST_VISITS}",
                        visits.max(first)
                    );
                    return Err(wrong(&way, what));
                }
            }
        }
        if visits == 0 {
            let what = "nothing is done in it, expected at least one with a script";
            return Err(wrong(&[Key("phase")], what));
        }
        Ok(())
    }

    fn check_part(&self, part: &Part) -> Result<(), Wrong> {
        if part.group == 0 || part.group as usize > self.groups.len() {
            let what = format!("{}, expected 1 to {}", part.group, self.groups.len());
            return Err(wrong(&[Key("group")], what));
        }
        let lines = part.script.len() as u64;
        if part.first.0.is_empty() || part.first.0.iter().any(|f| f.0 == 0 || f.0 > lines) {
            let what = format!("'{}', expected lines from 1 to {lines}", part.first);
            return Err(wrong(&[Key("first")], what));
        }
        let begins = |line: u64| {
            let of_line = part.first.0.iter().filter(|f| f.0 == line);
            of_line.fold(0, |sum: u64, f| sum.saturating_add(f.1))
        };
        if part.going_on.0.iter().any(|on| on.1 > begins(on.0)) {
            let what = format!(
                "'{}', expected some of first, '{}'",
                part.going_on, part.first
            );
            return Err(wrong(&[Key("going_on")], what));
        }
        for (i, line) in part.script.iter().enumerate() {
            let bad = |what: String| Err(wrong(&[Key("script"), Number(i)], what));
            self.check_begins(line).or_else(&bad)?;
            if line.begins == 0 && (line.visit == 0 || line.visit as usize > self.visits.len()) {
                return bad(format!(
                    "visit {}, expected 1 to {}",
                    line.visit,
                    self.visits.len()
                ));
            }
            let choices = [Some(&line.file), line.to.as_ref()].into_iter().flatten();
            if let Some(choice) = choices.into_iter().find(|c| !self.is_of_a_class(c)) {
                return bad(format!(
                    "'{choice}', expected a class from 1 to {}, or 0.none",
                    self.classes.len()
                ));
            }
            for (key, ns) in [
                ("think_ns", line.think_ns.most()),
                ("took_ns", line.took_ns.most()),
            ] {
                if ns > MOST_TIME_NS {
                    return bad(format!(
                        "{key}={ns}, expected at most {MOST_TIME_NS}, a day"
                    ));
                }
            }
            let mut repeats = line.repeat.0.iter().map(|r| r.0);
            if let Some(times) = repeats.find(|n| !(1..=MOST_VISITS).contains(n)) {
                return bad(format!("repeat={times}, expected 1 to {MOST_VISITS} times"));
            }
            if line.next.0.is_empty() || line.next.most() > lines {
                return bad(format!("next={}, expected lines up to {lines}", line.next));
            }
        }
        Ok(())
    }

    /// A line that begins a process does nothing else, and that group tells that its processes are begun so.
    fn check_begins(&self, line: &Line) -> Result<(), String> {
        let Some(group) = line.begins.checked_sub(1) else {
            return Ok(());
        };
        let group = self.groups.get(group as usize);
        if group.is_none_or(|group| group.started == 0) {
            return Err(format!(
                "begins={}, expected a group of which some are started",
                line.begins
            ));
        }
        if line.visit != 0 || line.file.class != 0 || line.to.is_some() {
            return Err("begins= with a visit or a file, expected visit 0 and no file".into());
        }
        Ok(())
    }

    /// Refuses more of it than a machine holds: the limits of a model hold for all that is made of it.
    pub fn check_scale(&self, scale: Scale) -> Result<(), ModelError> {
        let Scale { users, time, data } = scale;
        let factor = |n: f64| n.is_finite() && n > 0.0 && n <= MOST_FACTOR;
        if !factor(time) || !factor(data) {
            return Err(ModelError::Whole(format!(
                "time={time} and data={data}: expected more than 0, at most {MOST_FACTOR}"
            )));
        }
        let at_once = self.groups.iter().map(|g| u64::from(g.at_once)).sum();
        let files = self.classes.iter().map(|class| count(class, data));
        let names = files.fold(self.directories.len() as u64, u64::saturating_add);
        let visits = self.visits_in_all() as f64 * time;
        let all = [
            ("", at_once, "processes at once", MOST_AT_ONCE),
            (
                "data",
                names,
                "files and directories before the run",
                MOST_FILES,
            ),
            ("time", visits as u64, "visits", MOST_VISITS),
        ];
        for (key, each, what, most) in all {
            let sum = each.saturating_mul(users);
            if sum > most {
                let also = match key {
                    "data" => format!(", data={data}"),
                    "time" => format!(", time={time}"),
                    _ => String::new(),
                };
                return Err(ModelError::Whole(format!(
                    "users={users}{also}: {users} times {each} {what} are {sum}, expected at most {most}"
                )));
            }
        }
        let few = |class: &&Class| class.before < FEW && class.kind == Type::File;
        let largest = self.classes.iter().filter(few).map(|c| c.size_bytes.most());
        let largest = largest.max().unwrap_or(0);
        if largest as f64 * data > LARGEST as f64 {
            return Err(ModelError::Whole(format!(
                "data={data}: files of {data} times {largest} bytes, expected at most {LARGEST}"
            )));
        }
        Ok(())
    }

    /// How many visits there are in all, of one user in the trace's time.
    pub(crate) fn visits_in_all(&self) -> u64 {
        let parts = self.phases.iter().flat_map(|phase| &phase.parts);
        let lines = parts.flat_map(|part| &part.script);
        lines.map(Line::visits).fold(0, u64::saturating_add)
    }

    fn is_of_a_class(&self, choice: &Choice) -> bool {
        choice.class as usize <= self.classes.len()
            && (choice.class == 0) == (choice.pick == Pick::None)
    }
}
