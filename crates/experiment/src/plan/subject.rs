//! What a plan of `fsage bench` measures: configurations, the states of their caches, and when there are
//! runs enough.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use toml::Value;

use super::named::{NamedTarget, NamedWorkload};
use crate::bench::metrics;

/// Runs without measurement before one that is measured.
const MOST_WARM_UPS: u32 = 1000;

/// When measuring a configuration ends: never before `min_runs`, and then once each required metric is
/// precise, there are `max_runs`, or time is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Fewest runs.
    pub min_runs: u32,
    /// Most runs.
    pub max_runs: u32,
    /// The half-width of the 95 % interval to reach, as a share of the mean.
    pub half_width_relative: f64,
    /// The metrics that are to reach it.
    pub required: Vec<String>,
    /// The longest that all runs together may take.
    pub budget: Duration,
    /// Over how many rounds the fewest runs are spread; 1 for one after the other.
    pub rounds: u32,
    /// How long nothing is measured before each round but the first.
    pub round_pause: Duration,
}

impl Default for Rule {
    /// Ten runs and 5 % as in the study (Traeger 2007, section 6); at most 30 runs and two hours.
    fn default() -> Self {
        Self {
            min_runs: 10,
            max_runs: 30,
            half_width_relative: 0.05,
            required: vec![metrics::ELAPSED.into()],
            budget: Duration::from_hours(2),
            rounds: 1,
            round_pause: Duration::from_secs(30),
        }
    }
}

impl Rule {
    /// Exactly so many runs.
    pub fn fix(&mut self, runs: u32) {
        (self.min_runs, self.max_runs) = (runs, runs);
    }

    /// The round of a configuration's run, from 0. What the fewest runs do not suffice for goes on in more of as
    /// many runs each.
    pub fn round_of(&self, run: u32) -> u32 {
        match self.rounds {
            0 | 1 => 0,
            rounds => run / self.min_runs.div_ceil(rounds).max(1),
        }
    }

    /// Takes bounds over; the one that is not given gives way. Says what does not go together.
    pub fn bound(&mut self, least: Option<u32>, most: Option<u32>) -> Result<(), String> {
        if let (Some(least), Some(most)) = (least, most)
            && most < least
        {
            return Err(format!(
                "at most {most} runs, expected at least min_runs = {least}"
            ));
        }
        if let Some(most) = most {
            self.max_runs = most;
            self.min_runs = self.min_runs.min(most);
        }
        if let Some(least) = least {
            self.min_runs = least;
            self.max_runs = self.max_runs.max(least);
        }
        Ok(())
    }
}

/// A configuration: what is measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Subject {
    /// What it is called, unlike any other.
    pub name: String,
    /// Where.
    pub target: NamedTarget,
    /// The state in which each run finds it.
    pub state: State,
    /// How it was aged, as the plan says.
    pub aged: Option<String>,
    /// What.
    pub workload: NamedWorkload,
    /// Whether a command runs in the target's directory itself and not in one of its own.
    pub in_place: bool,
    /// How long run phases last; `None` for what the parameters say.
    pub run_for: Option<Duration>,
    /// What the caches hold when the run begins.
    pub caches: Caches,
    /// The parameters that the plan varies and their values here.
    pub parameters: BTreeMap<String, String>,
}

/// Where the files of a run lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// On a file system made for the run.
    Fresh,
    /// On the file system that is there.
    AsFound,
    /// On a file system made for the run, with the tree of this snapshot.
    Snapshot(PathBuf),
    /// On a copy of this image of a file system.
    Image(PathBuf),
}

const SNAPSHOT: &str = "snapshot:";
const IMAGE: &str = "image:";

impl State {
    /// The file that it is restored from.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Fresh | Self::AsFound => None,
            Self::Snapshot(file) | Self::Image(file) => Some(file),
        }
    }

    /// The same with a relative file below `base`.
    #[must_use]
    pub fn below(self, base: &Path) -> Self {
        match self {
            Self::Snapshot(file) => Self::Snapshot(base.join(file)),
            Self::Image(file) => Self::Image(base.join(file)),
            other => other,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fresh => f.write_str("fresh"),
            Self::AsFound => f.write_str("as found"),
            Self::Snapshot(file) => write!(f, "{SNAPSHOT}{}", file.display()),
            Self::Image(file) => write!(f, "{IMAGE}{}", file.display()),
        }
    }
}

impl FromStr for State {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let file = |kind: &str| text.strip_prefix(kind).filter(|file| !file.is_empty());
        match text {
            "fresh" => return Ok(Self::Fresh),
            "as found" => return Ok(Self::AsFound),
            _ => {}
        }
        if let Some(file) = file(SNAPSHOT) {
            return Ok(Self::Snapshot(file.into()));
        }
        if let Some(file) = file(IMAGE) {
            return Ok(Self::Image(file.into()));
        }
        Err(format!(
            "state `{text}`, expected `fresh`, `as found`, `{SNAPSHOT}FILE.fss` (a tree that is restored \
             before every run) or `{IMAGE}FILE` (a file system, aged by other means, of which every run has \
             a copy)"
        ))
    }
}

/// What the caches hold when a run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Caches {
    /// Nothing of the target, which is checked.
    Cold,
    /// What so many runs without measurement, and the setup after them, left there, written back.
    Warm(u32),
    /// Whatever is there: nothing is done.
    AsFound,
}

impl fmt::Display for Caches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cold => f.write_str("cold"),
            Self::Warm(n) => write!(f, "warm {n}"),
            Self::AsFound => f.write_str("as found"),
        }
    }
}

impl FromStr for Caches {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "cache `{text}`, expected `cold`, `warm N` (N runs before it, 0 to {MOST_WARM_UPS}) or \
                 `as found`"
            )
        };
        match text.trim() {
            "cold" => Ok(Self::Cold),
            "as found" => Ok(Self::AsFound),
            "warm" => Ok(Self::Warm(0)),
            other => {
                let number = other.strip_prefix("warm ").ok_or_else(wrong)?;
                let number = number.trim().parse().map_err(|_| wrong())?;
                (number <= MOST_WARM_UPS)
                    .then_some(Self::Warm(number))
                    .ok_or_else(wrong)
            }
        }
    }
}

/// A command that is measured without a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandPlan {
    /// What sh runs.
    pub command: String,
    /// Where; `None` for the working directory itself.
    pub target: Option<String>,
    /// The working directory; a plan is text.
    pub here: String,
    /// What prepares the directory of each run.
    pub setup: Option<String>,
    /// What the caches hold; `None` for as they are in the working directory, and cold elsewhere.
    pub cache: Option<Caches>,
}

impl CommandPlan {
    /// The plan that says the same.
    pub fn text(&self) -> String {
        let quoted = |text: &str| Value::String(text.to_owned()).to_string();
        let in_place = self.target.is_none();
        let cache = self.cache.unwrap_or(if in_place {
            Caches::AsFound
        } else {
            Caches::Cold
        });
        let target = self.target.as_ref().unwrap_or(&self.here);
        let mut text = format!(
            "cache = {}\n\n[[target]]\nspec = {}\n\n[[workload]]\nspec = {}\n",
            quoted(&cache.to_string()),
            quoted(target),
            quoted(&format!("cmd:{}", self.command)),
        );
        if let Some(setup) = &self.setup {
            text.push_str(&format!("setup = {}\n", quoted(setup)));
        }
        if in_place {
            text.push_str("in_place = true\n");
        }
        text
    }
}
