//! The file: TOML to read and to edit, described key by key in `docs/model-files.md`; [`check`](super::check) says what
//! can be.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use fsage_core::OpKind;
use serde::{Deserialize, Serialize};

use super::check::ModelError;
use super::dist::Dist;
use super::step::{At, Fields, VisitStep};

/// The version that this release writes; the only one there is.
pub const VERSION: u32 = 1;

/// A model of a workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// `fsm`.
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// What it was fitted to, in numbers.
    pub source: Source,
    /// The directory above each directory, by its number; the first is the target's own.
    pub directories: Vec<u32>,
    /// Files that are used alike. Number 1 is the first.
    #[serde(default, rename = "files")]
    pub classes: Vec<Class>,
    /// What is done to one file in one go. Number 1 is the first.
    #[serde(default, rename = "visit")]
    pub visits: Vec<Visit>,
    /// Processes that behave alike. Number 1 is the first.
    #[serde(default, rename = "group")]
    pub groups: Vec<Group>,
    /// Times in which the mix is the same, one after the other.
    #[serde(default, rename = "phase")]
    pub phases: Vec<Phase>,
}

/// The trace in numbers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Operations that the model stands for.
    pub operations: u64,
    /// Operations that it leaves out, by kind.
    #[serde(default)]
    pub left_out: BTreeMap<String, u64>,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// From the first operation to the last.
    pub span_ns: u64,
}

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Type {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
}

/// In which order files that lie there are used first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// In none.
    #[default]
    Any,
    /// Directory by directory.
    Directory,
    /// Directory by directory, and in each by name.
    Name,
}

impl Order {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
    fn is_any(&self) -> bool {
        *self == Self::Any
    }
}

/// Files that are used alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// What they are.
    #[serde(rename = "type")]
    pub kind: Type,
    /// How many are there before.
    pub before: u64,
    /// Names that are met first where nothing is.
    pub later: u64,
    /// Their sizes before, in bytes.
    #[serde(with = "text", default)]
    pub size_bytes: Dist,
    /// In which directory they lie, by its number; a directory's is its own number.
    #[serde(with = "text")]
    pub directory: Dist,
    /// In which order those that are there before are used first.
    #[serde(default, skip_serializing_if = "Order::is_any")]
    pub order: Order,
    /// Of a thousand names that are met first where nothing is, so many lie in a directory that was made in
    /// the run.
    #[serde(default)]
    pub in_new_directory: u64,
    /// Of these, how many directories were made since the one that they lie in; from [`OLDEST`] on counted from the
    /// first. The latest that there is where nothing is told.
    #[serde(with = "text", default, skip_serializing_if = "Dist::is_empty")]
    pub new_directory: Dist,
}

/// What is done to one file in one go.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Visit {
    /// Its steps.
    #[serde(with = "texts")]
    pub steps: Vec<VisitStep>,
}

impl Visit {
    /// Whether what it finds open is written or read; `None` where it opens it itself, or does neither.
    pub fn writes(&self) -> Option<bool> {
        let mut before = self
            .steps
            .iter()
            .take_while(|s| s.form.kind != OpKind::Open);
        let moves = |step: &VisitStep| match step.form.kind {
            OpKind::Write
            | OpKind::CopyOut
            | OpKind::SpliceOut
            | OpKind::Ftruncate
            | OpKind::Fallocate => Some(true),
            OpKind::Read | OpKind::CopyIn | OpKind::Sendfile | OpKind::SpliceIn => Some(false),
            _ => None,
        };
        before.find_map(moves)
    }

    /// Whether what it finds open may be mapped and closed.
    pub fn maps(&self) -> bool {
        let first = self.steps.first().map(|step| step.form.kind);
        matches!(first, Some(OpKind::Fault | OpKind::Msync | OpKind::Munmap))
    }

    /// How much was left of the file that it finds open, at the least and at the most, bytes; `None` where that does not
    /// matter. What reads on reads as long as there is something, and ends when there is nothing.
    pub fn rest(&self) -> Option<(u64, u64)> {
        let step = self.steps.first()?;
        let form = &step.form;
        if form.kind != OpKind::Read || form.at != At::Next {
            return None;
        }
        let least = |dist: &Dist| dist.0.iter().map(|v| v.0).min();
        if form.to_end.is_some() {
            return Some((least(&step.reads)?, step.reads.most()));
        }
        let read = least(&step.bytes)?.saturating_mul(least(&step.times)?);
        Some((read.saturating_add(1), u64::MAX))
    }
}

/// Processes that behave alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// How many there are over the whole time.
    pub processes: u64,
    /// How many run at once at the most.
    pub at_once: u32,
    /// The process whose threads they are, by a number; 0: each is a process of its own.
    #[serde(default)]
    pub threads_of: u32,
    /// Of which groups those are that began them, and how often; 0 where none did. What one is begun by it goes on behind.
    #[serde(with = "text", default, skip_serializing_if = "Dist::is_empty")]
    pub begun_by: Dist,
    /// How many of them are begun by lines ([`Line::begins`]): then, and not when a place is free.
    #[serde(default, skip_serializing_if = "is_none")]
    pub started: u64,
    /// When those begin that are the first on their place.
    #[serde(with = "text", default, skip_serializing_if = "Dist::is_empty")]
    pub begin_ns: Dist,
    /// How long a place is empty until the next begins on it.
    #[serde(with = "text", default, skip_serializing_if = "Dist::is_empty")]
    pub idle_ns: Dist,
}

impl Group {
    /// How many of its processes no line begins.
    pub fn roots(&self) -> u64 {
        self.processes.saturating_sub(self.started)
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_none(number: &u64) -> bool {
    *number == 0
}

/// A time in which the mix is the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// When it starts.
    pub start_ns: u64,
    /// What the groups do in it.
    #[serde(rename = "part")]
    pub parts: Vec<Part>,
}

/// What a group does in a phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The group.
    pub group: u32,
    /// What each begins with: the line of the script, from 1, and how often.
    #[serde(with = "text")]
    pub first: Dist,
    /// The same of those that go on from an earlier phase, with what they have open: some of `first`.
    #[serde(with = "text", default, skip_serializing_if = "Dist::is_empty")]
    pub going_on: Dist,
    /// What is done, line by line.
    #[serde(with = "texts")]
    pub script: Vec<Line>,
}

/// Which file is visited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Pick {
    /// None, or one that makes the call fail as it did.
    #[default]
    None,
    /// One that is there and was not used yet.
    Fresh,
    /// A name that was not used yet, where nothing is.
    New,
    /// One that is there and was used before.
    Known,
    /// A name that was used before, where nothing is.
    Gone,
    /// One that the process has open.
    Open,
    /// One that another process has open.
    Shared,
}

/// What was moved of a file since it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stage {
    /// Whether it was read.
    pub read: bool,
    /// Whether it was written.
    pub written: bool,
}

impl Stage {
    /// How many there are.
    pub const COUNT: usize = 4;

    /// Its place among all.
    pub fn number(self) -> usize {
        usize::from(self.read) | usize::from(self.written) << 1
    }

    /// That of a number.
    pub fn of(number: usize) -> Self {
        Self {
            read: number & 1 != 0,
            written: number & 2 != 0,
        }
    }

    /// Data was moved.
    pub fn moved(&mut self, write: bool) {
        self.written |= write;
        self.read |= !write;
    }
}

/// How long a visit takes, by the stage of its file, nanoseconds: what is new to a cache takes longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Took(pub [u64; Stage::COUNT]);

impl Took {
    /// That of a file at a stage.
    pub fn at(&self, stage: Stage) -> u64 {
        self.0.get(stage.number()).copied().unwrap_or(0)
    }

    /// The longest.
    pub fn most(&self) -> u64 {
        self.0.iter().copied().max().unwrap_or(0)
    }
}

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [idle, read, written, both] = self.0;
        if self.0 == [idle; Stage::COUNT] {
            return write!(f, "{idle}");
        }
        write!(f, "{idle}/{read}/{written}/{both}")
    }
}

impl FromStr for Took {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}', expected NS or IDLE/READ/WRITTEN/BOTH");
        let each = text.split('/').map(str::parse);
        let each = each.collect::<Result<Vec<u64>, _>>().map_err(|_| wrong())?;
        match *each.as_slice() {
            [all] => Ok(Self([all; Stage::COUNT])),
            [idle, read, written, both] => Ok(Self([idle, read, written, both])),
            _ => Err(wrong()),
        }
    }
}

/// Every pick with its name.
const PICKS: [(Pick, &str); 7] = [
    (Pick::None, "none"),
    (Pick::Fresh, "fresh"),
    (Pick::New, "new"),
    (Pick::Known, "known"),
    (Pick::Gone, "gone"),
    (Pick::Open, "open"),
    (Pick::Shared, "shared"),
];

/// Distances from here on are counted from the one used longest ago.
pub const OLDEST: u64 = 1_000_000_000;

/// Which file of which class: `2.known` written, with how many others were used since its last use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Choice {
    /// The class, from 1; 0 for no file.
    pub class: u32,
    /// Which of its files.
    pub pick: Pick,
    /// Of those used before, how many others were used since.
    pub distance: Dist,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = PICKS.iter().find(|p| p.0 == self.pick).map_or("", |p| p.1);
        write!(f, "{}.{name}", self.class)?;
        if self.distance.0.is_empty() {
            return Ok(());
        }
        write!(f, ":{}", self.distance)
    }
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (which, distance) = text
            .split_once(':')
            .map_or((text, None), |(w, d)| (w, Some(d)));
        let (class, pick) = which.split_once('.').ok_or("expected CLASS.PICK")?;
        let pick = PICKS
            .iter()
            .find(|p| p.1 == pick)
            .map(|p| p.0)
            .ok_or_else(|| {
                let names: Vec<&str> = PICKS.iter().map(|p| p.1).collect();
                format!("'{pick}', expected {}", names.join(", "))
            })?;
        Ok(Self {
            class: class
                .parse()
                .map_err(|_| format!("'{class}', expected the number of a class"))?,
            pick,
            distance: distance.map(str::parse).transpose()?.unwrap_or_default(),
        })
    }
}

/// A line of a script: a visit to a file, and what comes next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The visit, from 1; 0 of a line that begins a process.
    pub visit: u32,
    /// The group of the process that it begins; 0 for none.
    pub begins: u32,
    /// What it waits for before: 0 for nothing, N + 1 until no more than N are left of those that its process began.
    pub waits: Dist,
    /// The file.
    pub file: Choice,
    /// The other file of a rename or a link.
    pub to: Option<Choice>,
    /// How long the process thinks before, nanoseconds.
    pub think_ns: Dist,
    /// How long it took as traced, nanoseconds: for the order in which processes go.
    pub took_ns: Took,
    /// How often it is done in a row.
    pub repeat: Dist,
    /// The lines that follow, and how often; 0 is the end.
    pub next: Dist,
}

impl Line {
    /// How many visits it is in all.
    pub fn visits(&self) -> u64 {
        let rows = u128::from(self.next.count());
        let of = u128::from(self.repeat.count());
        let all = (rows.saturating_mul(self.repeat.sum()) + of / 2).checked_div(of);
        u64::try_from(all.unwrap_or(rows)).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.visit)?;
        match self.begins {
            0 => write!(f, " file={}", self.file)?,
            group => write!(f, " begins={group}")?,
        }
        if !self.waits.is_only(0) && !self.waits.is_empty() {
            write!(f, " waits={}", self.waits)?;
        }
        if let Some(to) = &self.to {
            write!(f, " to={to}")?;
        }
        if !self.think_ns.0.is_empty() {
            write!(f, " think_ns={}", self.think_ns)?;
        }
        if self.took_ns != Took::default() {
            write!(f, " took_ns={}", self.took_ns)?;
        }
        if !self.repeat.is_only(1) {
            write!(f, " repeat={}", self.repeat)?;
        }
        write!(f, " next={}", self.next)
    }
}

impl FromStr for Line {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut fields = Fields::of(text)?;
        let line = Self {
            visit: fields
                .head
                .parse()
                .map_err(|_| format!("'{}', expected the number of a visit", fields.head))?,
            begins: fields.parse("begins")?.unwrap_or_default(),
            waits: fields.parse("waits")?.unwrap_or_default(),
            file: fields.parse("file")?.unwrap_or_default(),
            to: fields.parse("to")?,
            think_ns: fields.parse("think_ns")?.unwrap_or_default(),
            took_ns: fields.parse("took_ns")?.unwrap_or_default(),
            repeat: fields.parse("repeat")?.unwrap_or_default(),
            next: fields
                .parse("next")?
                .ok_or("has no next=, expected LINE*TIMES,…")?,
        };
        fields.end().map(|()| line)
    }
}

mod text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use std::fmt::Display;
    use std::str::FromStr;

    pub fn serialize<T: Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(value)
    }

    pub fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
    where
        T: FromStr<Err = String> + Default,
        D: Deserializer<'de>,
    {
        let text = String::deserialize(from)?;
        match text.as_str() {
            "" => Ok(T::default()),
            text => text.parse().map_err(D::Error::custom),
        }
    }
}

mod texts {
    use serde::de::{Error, Visitor};
    use serde::{Deserialize, Deserializer, Serializer};
    use std::fmt::{self, Display};
    use std::marker::PhantomData;
    use std::str::FromStr;

    use fsage_core::text::shown;

    pub fn serialize<T: Display, S: Serializer>(all: &[T], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(all.iter().map(ToString::to_string))
    }

    struct One<T>(T);

    impl<'de, T: FromStr<Err = String>> Deserialize<'de> for One<T> {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            from.deserialize_str(Read(PhantomData)).map(Self)
        }
    }

    /// Reads one of them: an error of a visitor is at the place of what it visits.
    struct Read<T>(PhantomData<T>);

    impl<T: FromStr<Err = String>> Visitor<'_> for Read<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a text")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            let wrong = |e| E::custom(format!("'{}': {e}", shown(text)));
            text.parse().map_err(wrong)
        }
    }

    pub fn deserialize<'de, T, D>(from: D) -> Result<Vec<T>, D::Error>
    where
        T: FromStr<Err = String>,
        D: Deserializer<'de>,
    {
        let all = Vec::<One<T>>::deserialize(from)?;
        Ok(all.into_iter().map(|one| one.0).collect())
    }
}

impl Model {
    /// The text of a model.
    pub fn text(&self) -> Result<String, ModelError> {
        toml::to_string_pretty(self).map_err(|e| ModelError::Whole(e.to_string()))
    }

    /// The visit of a line.
    pub fn visit(&self, line: &Line) -> Option<&Visit> {
        self.visits.get((line.visit as usize).checked_sub(1)?)
    }

    /// A class by its number.
    pub fn class(&self, class: u32) -> Option<&Class> {
        self.classes.get((class as usize).checked_sub(1)?)
    }
}
