//! The file: TOML to read and to edit, described key by key in `docs/model-files.md`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::dist::Dist;
use super::step::{Fields, LARGEST, Step};

/// The version that this release writes; the only one there is.
pub const VERSION: u32 = 1;

/// Why a model cannot be used; completes "failed to read the model FILE: …".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ModelError(pub String);

fn wrong(place: impl fmt::Display, what: impl fmt::Display) -> ModelError {
    ModelError(format!("{place}: {what}"))
}

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
    /// Of a thousand names that are met first where nothing is, so many lie in a directory that was made in
    /// the run.
    #[serde(default)]
    pub in_new_directory: u64,
}

/// What is done to one file in one go.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Visit {
    /// Its steps.
    #[serde(with = "texts")]
    pub steps: Vec<Step>,
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
    /// The visit, from 1.
    pub visit: u32,
    /// The file.
    pub file: Choice,
    /// The other file of a rename or a link.
    pub to: Option<Choice>,
    /// How long the process thinks before, nanoseconds.
    pub think_ns: Dist,
    /// How long it took as traced, nanoseconds: for the order in which processes go.
    pub took_ns: u64,
    /// The lines that follow, and how often; 0 is the end.
    pub next: Dist,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} file={}", self.visit, self.file)?;
        if let Some(to) = &self.to {
            write!(f, " to={to}")?;
        }
        write!(
            f,
            " think_ns={} took_ns={} next={}",
            self.think_ns, self.took_ns, self.next
        )
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
            file: fields.parse("file")?.unwrap_or_default(),
            to: fields.parse("to")?,
            think_ns: fields.parse("think_ns")?.unwrap_or_default(),
            took_ns: fields.parse("took_ns")?.unwrap_or(0),
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
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use std::fmt::Display;
    use std::str::FromStr;

    pub fn serialize<T: Display, S: Serializer>(all: &[T], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(all.iter().map(ToString::to_string))
    }

    pub fn deserialize<'de, T, D>(from: D) -> Result<Vec<T>, D::Error>
    where
        T: FromStr<Err = String>,
        D: Deserializer<'de>,
    {
        let all = Vec::<String>::deserialize(from)?;
        let read = |text: &String| {
            text.parse()
                .map_err(|e| D::Error::custom(format!("'{text}': {e}")))
        };
        all.iter().map(read).collect()
    }
}

/// More files, processes or operations than any machine holds are a mistake of who edited the model.
const MOST_FILES: u64 = 1 << 28;
const MOST_AT_ONCE: u32 = 4096;

impl Model {
    /// Reads a model.
    pub fn parse(text: &str) -> Result<Self, ModelError> {
        #[derive(Deserialize)]
        struct Head {
            format: Option<String>,
            version: Option<u32>,
        }
        let told = |e: toml::de::Error| ModelError(e.to_string().trim_end().replace('\n', "\n  "));
        let head: Head = toml::from_str(text).map_err(told)?;
        if head.format.as_deref() != Some("fsm") {
            return Err(ModelError(
                "it is no model: expected format = \"fsm\"".into(),
            ));
        }
        match head.version {
            Some(VERSION) => {}
            Some(newer) => {
                return Err(ModelError(format!(
                    "version {newer} is newer than this fsage reads, which is {VERSION}"
                )));
            }
            None => {
                return Err(ModelError(format!(
                    "it has no version, expected version = {VERSION}"
                )));
            }
        }
        let model: Self = toml::from_str(text).map_err(told)?;
        model.check().map(|()| model)
    }

    /// The text of a model.
    pub fn text(&self) -> String {
        // What stands in the tables is always text, a number or a table: it can be written.
        toml::to_string_pretty(self).unwrap_or_default()
    }

    fn check(&self) -> Result<(), ModelError> {
        if self.directories.is_empty() {
            return Err(wrong(
                "directories",
                "none, expected at least the first, [0]",
            ));
        }
        for (i, &above) in self.directories.iter().enumerate() {
            if above as usize >= i.max(1) {
                return Err(wrong(
                    format!("directories, number {i}"),
                    format!("lies in {above}, expected one before it"),
                ));
            }
        }
        for (i, class) in self.classes.iter().enumerate() {
            self.check_class(class)
                .map_err(|what| wrong(format!("files {}", i + 1), what))?;
        }
        for (i, group) in self.groups.iter().enumerate() {
            if group.at_once == 0 || group.at_once > MOST_AT_ONCE {
                return Err(wrong(
                    format!("group {}", i + 1),
                    format!("at_once = {}, expected 1 to {MOST_AT_ONCE}", group.at_once),
                ));
            }
        }
        for (i, visit) in self.visits.iter().enumerate() {
            if visit.steps.is_empty() {
                return Err(wrong(format!("visit {}", i + 1), "has no steps"));
            }
        }
        let mut last_ns = 0;
        for (i, phase) in self.phases.iter().enumerate() {
            if phase.start_ns < last_ns {
                return Err(wrong(
                    format!("phase {}", i + 1),
                    "starts before the one before it",
                ));
            }
            last_ns = phase.start_ns;
            for (j, part) in phase.parts.iter().enumerate() {
                let place = |what| wrong(format!("phase {}, part {}", i + 1, j + 1), what);
                self.check_part(part).map_err(place)?;
            }
        }
        let lines = self
            .phases
            .iter()
            .flat_map(|p| &p.parts)
            .flat_map(|p| &p.script);
        let runs = lines.fold(0_u64, |n, line| n.saturating_add(line.next.count()));
        match runs {
            0 => Err(ModelError(
                "nothing is done in it: expected at least one phase with a script".into(),
            )),
            n if n > 1 << 40 => Err(ModelError(format!(
                "{n} visits, expected at most {}",
                1_u64 << 40
            ))),
            _ => Ok(()),
        }
    }

    fn check_class(&self, class: &Class) -> Result<(), String> {
        if class.before.saturating_add(class.later) > MOST_FILES {
            return Err(format!(
                "{} files, expected at most {MOST_FILES}",
                class.before.saturating_add(class.later)
            ));
        }
        if class.size_bytes.most() > LARGEST {
            return Err(format!(
                "size_bytes of {}, expected at most {LARGEST}",
                class.size_bytes.most()
            ));
        }
        if class.directory.0.is_empty() {
            return Err("no directory, expected the number of one".into());
        }
        let most = class.directory.most();
        if most >= self.directories.len() as u64 {
            return Err(format!(
                "directory {most}, expected less than {}",
                self.directories.len()
            ));
        }
        match class.in_new_directory {
            0..=1000 => Ok(()),
            n => Err(format!("in_new_directory = {n}, expected at most 1000")),
        }
    }

    fn check_part(&self, part: &Part) -> Result<(), String> {
        if part.group == 0 || part.group as usize > self.groups.len() {
            return Err(format!(
                "group {}, expected 1 to {}",
                part.group,
                self.groups.len()
            ));
        }
        let lines = part.script.len() as u64;
        if part.first.0.is_empty() || part.first.0.iter().any(|f| f.0 == 0 || f.0 > lines) {
            return Err(format!(
                "first = '{}', expected lines from 1 to {lines}",
                part.first
            ));
        }
        for (i, line) in part.script.iter().enumerate() {
            let bad = |what: String| Err(format!("line {} of the script: {what}", i + 1));
            if line.visit == 0 || line.visit as usize > self.visits.len() {
                return bad(format!(
                    "visit {}, expected 1 to {}",
                    line.visit,
                    self.visits.len()
                ));
            }
            for choice in [Some(&line.file), line.to.as_ref()].into_iter().flatten() {
                if choice.class as usize > self.classes.len()
                    || (choice.class == 0) != (choice.pick == Pick::None)
                {
                    return bad(format!(
                        "'{choice}', expected a class from 1 to {}, or 0.none",
                        self.classes.len()
                    ));
                }
            }
            if line.next.0.is_empty() || line.next.most() > lines {
                return bad(format!("next={}, expected lines up to {lines}", line.next));
            }
        }
        Ok(())
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
