//! Files that lived less than a night: profiles of them, one directory's on one day each, and where they are laid.

use std::cmp::Reverse;
use std::path::Path;

use fsage_core::text::problem_at;
use fsage_format::bounded;
use fsage_workload::random::Random;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::deletes::Habits;
use super::state::ROOT;
use super::{GenerateError, refused};
use crate::made::{DAY_NS, HOUR_NS};

const FORMAT: &str = "fsage short-lived files";
const VERSION: u32 = 1;

/// A file: made so many seconds after the first of its profile, gone so many later, of so many bytes.
pub type ShortFile = (f64, f64, u64);

/// What `fsage age short-lived` writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShortLived {
    format: String,
    version: u32,
    /// What it was learnt from.
    pub source: String,
    /// How files are deleted there.
    pub habits: Habits,
    /// One directory's short-lived files of one day each.
    pub profiles: Vec<ShortProfile>,
}

/// The short-lived files of one directory and day.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShortProfile {
    /// Its files, in the order in which they were made.
    pub files: Vec<ShortFile>,
}

/// A short-lived file in its place.
#[derive(Debug, Clone, Copy)]
pub struct Laid {
    /// The inode of its directory.
    pub dir: u64,
    /// When it is made.
    pub made_ns: u64,
    /// When it goes.
    pub gone_ns: u64,
    /// Its size.
    pub size: u64,
    /// Whether it was made.
    pub there: bool,
    /// Whether it lay on the device.
    pub written_out: bool,
}

/// What happened where and when.
#[derive(Debug, Default)]
pub struct Busy(FxHashMap<u64, Vec<u64>>);

impl Busy {
    /// Notes an operation.
    pub fn note(&mut self, dir: u64, ns: u64) {
        self.0.entry(dir).or_default().push(ns);
    }

    /// The busiest directories of a day, with the middle of their busiest hour.
    fn busiest(&self, day: u32, most: usize) -> Vec<(u64, u64)> {
        let day_ns = u64::from(day) * DAY_NS;
        let mut found: Vec<(Reverse<usize>, u64, u64)> = Vec::new();
        for (&dir, times) in &self.0 {
            let mut hours = [0_usize; 24];
            for ns in times.iter().filter_map(|ns| ns.checked_sub(day_ns)) {
                if let Some(hour) = hours.get_mut((ns / HOUR_NS) as usize) {
                    *hour += 1;
                }
            }
            let peak = (0..24).max_by_key(|&h| (hours.get(h as usize), Reverse(h)));
            let all: usize = hours.iter().sum();
            if all > 0 {
                found.push((Reverse(all), dir, peak.unwrap_or(12)));
            }
        }
        found.sort_unstable();
        found.truncate(most);
        let middle = |peak: u64| day_ns + peak * HOUR_NS + HOUR_NS / 2;
        found
            .into_iter()
            .map(|(_, dir, peak)| (dir, middle(peak)))
            .collect()
    }
}

impl ShortLived {
    /// Of these profiles.
    pub fn new(source: String, habits: Habits, profiles: Vec<ShortProfile>) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            source,
            habits,
            profiles,
        }
    }

    /// Reads a file of profiles.
    pub fn load(path: &Path) -> Result<Self, GenerateError> {
        let name = path.display();
        let text = &*bounded::read_text(path, "profiles of short-lived files in TOML")?;
        let wrong = |problem: &str| refused(format!("read {name}: {problem}"));
        let parsing = |e: &toml::de::Error| {
            let at = e.span().map_or(0, |span| span.start);
            let (line, problem) = problem_at(text, at, e.message());
            wrong(&format!("line {line}: {problem}"))
        };
        let head: toml::Table = text.parse().map_err(|e| parsing(&e))?;
        if head.get("format").and_then(toml::Value::as_str) != Some(FORMAT) {
            let expected =
                format!("expected format = \"{FORMAT}\", as `fsage age short-lived` writes it");
            return Err(wrong(&expected));
        }
        let version = head.get("version").and_then(toml::Value::as_integer);
        if version != Some(VERSION.into()) {
            let found = version.unwrap_or(0);
            return Err(wrong(&format!(
                "it is of version {found}, this release reads {VERSION}"
            )));
        }
        let read: Self = toml::from_str(text).map_err(|e| parsing(&e))?;
        read.check().map_err(|problem| wrong(&problem))?;
        Ok(read)
    }

    /// What is no time of a day or no habit, and where it stands.
    fn check(&self) -> Result<(), String> {
        let day_s = DAY_NS as f64 / 1e9;
        let is_time = |seconds: f64| (0.0..=day_s).contains(&seconds);
        for (profile, files) in (1..).zip(self.profiles.iter().map(|p| &p.files)) {
            let mut files = (1..).zip(files);
            if let Some((file, (made, lives, _))) =
                files.find(|(_, (made, lives, _))| !is_time(*made) || !is_time(*lives))
            {
                return Err(format!(
                    "file {file} of profile {profile}: made after {made} s and gone {lives} s later, expected 0 to \
                     {day_s} s each"
                ));
            }
        }
        let Habits {
            together,
            near,
            gap_s,
        } = self.habits;
        for (key, value, most) in [
            ("together", together, 1.0),
            ("near", near, 1.0),
            ("gap_s", gap_s, 10.0),
        ] {
            if !(0.0..=most).contains(&value) {
                return Err(format!("habits.{key}: {value}, expected 0 to {most}"));
            }
        }
        Ok(())
    }

    /// As text.
    pub fn to_toml(&self) -> Result<String, GenerateError> {
        toml::to_string(self).map_err(|e| refused(e.to_string()))
    }

    /// Files of all profiles.
    pub fn files(&self) -> u64 {
        self.profiles.iter().map(|p| p.files.len() as u64).sum()
    }

    /// Lays `count` profiles, chosen at random, into the most active directories of a day, each shifted to the peak of
    /// its directory's activity.
    pub fn lay(&self, day: u32, count: u64, busy: &Busy, random: &mut Random) -> Vec<Laid> {
        let mut dirs = busy.busiest(day, count as usize);
        if dirs.is_empty() {
            dirs.push((ROOT, u64::from(day) * DAY_NS + DAY_NS / 2));
        }
        let mut laid = Vec::new();
        for _ in 0..count {
            let Some(profile) = self
                .profiles
                .get(random.below(self.profiles.len() as u64) as usize)
            else {
                break;
            };
            let at = random.below(dirs.len() as u64) as usize;
            let (dir, peak_ns) = dirs.get(at).copied().unwrap_or((ROOT, 0));
            let middle = profile
                .files
                .get(profile.files.len() / 2)
                .map_or(0.0, |f| f.0);
            let (first_ns, last_ns) = (
                u64::from(day) * DAY_NS,
                u64::from(day + 1) * DAY_NS - 60_000_000_000,
            );
            let begin_ns = peak_ns.saturating_sub((middle * 1e9) as u64).max(first_ns);
            for &(made_s, lives_s, size) in &profile.files {
                let made_ns = (begin_ns + (made_s * 1e9) as u64).min(last_ns);
                let gone_ns = (made_ns + (lives_s * 1e9) as u64 + 1).min(last_ns + 1);
                laid.push(Laid {
                    dir,
                    made_ns,
                    gone_ns,
                    size,
                    there: false,
                    written_out: false,
                });
            }
        }
        laid
    }
}
