//! Disk models as data: TOML that a person edits, checked before it is believed.

mod figures;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use figures::{HddCache, Interface, QueueOrder, Rotation, Seek, Tracks};

use crate::SeekCurve;

/// The models that come with fsage: name and text.
pub const BUILT_IN: [(&str, &str); 7] = [
    ("hdd-7200", include_str!("../../models/hdd-7200.toml")),
    ("st34520n", include_str!("../../models/st34520n.toml")),
    ("st39102lw", include_str!("../../models/st39102lw.toml")),
    (
        "seagate-32430n",
        include_str!("../../models/seagate-32430n.toml"),
    ),
    (
        "fujitsu-m2694es",
        include_str!("../../models/fujitsu-m2694es.toml"),
    ),
    ("sata-ssd", include_str!("../../models/sata-ssd.toml")),
    ("nvme-ssd", include_str!("../../models/nvme-ssd.toml")),
];

/// Why a model is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// It is no model: syntax, an unknown or a missing field, a wrong type.
    #[error("read disk model {file}: {problem}")]
    Syntax {
        /// Where it came from, with the line.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// A figure cannot be.
    #[error("read disk model {file}: {key}: {problem}")]
    Figure {
        /// Where it came from.
        file: String,
        /// The field, as `seek.average_ms`.
        key: String,
        /// What was found and what was expected.
        problem: String,
    },
    /// No model has that name.
    #[error("find disk model `{name}`: expected one of {known}, or a file that ends in .toml")]
    Unknown {
        /// The name as given.
        name: String,
        /// The names there are.
        known: String,
    },
}

/// A disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskModel {
    /// Its name.
    pub name: String,
    /// What it is, in a line.
    pub description: String,
    /// How it works; exactly one of the two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hdd: Option<Hdd>,
    /// How it works; exactly one of the two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssd: Option<Ssd>,
    /// Where the figures come from, by section or field (`hdd.seek`, `hdd.tracks.heads`).
    pub sources: BTreeMap<String, String>,
}

/// Platters and an arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hdd {
    /// Capacity of the real disk in units of 10^9 bytes.
    pub capacity_gb: f64,
    /// The spindle.
    pub rotation: Rotation,
    /// The arm.
    pub seek: Seek,
    /// Tracks, heads, zones.
    pub tracks: Tracks,
    /// Track buffer and write cache.
    pub cache: HddCache,
    /// Controller, bus and command queue.
    pub interface: Interface,
}

/// Flash behind a controller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ssd {
    /// Capacity of the real disk in units of 10^9 bytes.
    pub capacity_gb: f64,
    /// From a read command to its first data, microseconds.
    pub read_latency_us: f64,
    /// From a write command to its acceptance (into the controller's memory), microseconds.
    pub write_latency_us: f64,
    /// A cache flush, once everything before it is written, microseconds.
    pub flush_latency_us: f64,
    /// Reading in sequence, units of 10^6 bytes a second.
    pub read_mb_s: f64,
    /// Writing in sequence, units of 10^6 bytes a second.
    pub write_mb_s: f64,
    /// Reads and writes that go on at once inside.
    pub channels: u32,
    /// The piece that one channel handles, KiB.
    pub stripe_kib: u32,
    /// Commands that the disk takes at once.
    pub queue_depth: u32,
}

/// How a disk works.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mechanism<'a> {
    /// Platters and an arm.
    Hdd(&'a Hdd),
    /// Flash.
    Ssd(&'a Ssd),
}

/// A model of fsage's own by its name.
pub fn built_in(name: &str) -> Result<DiskModel, ModelError> {
    match BUILT_IN.iter().find(|(n, _)| *n == name) {
        Some((name, text)) => DiskModel::parse(text, &format!("{name}.toml")),
        None => Err(ModelError::Unknown {
            name: name.to_owned(),
            known: BUILT_IN.map(|(n, _)| n).join(", "),
        }),
    }
}

impl DiskModel {
    /// Reads and checks a model; `file` is what errors call it.
    pub fn parse(text: &str, file: &str) -> Result<Self, ModelError> {
        let model: Self = toml::from_str(text).map_err(|e| {
            let at = e.span().map_or(0, |span| span.start);
            let (line, problem) = fsage_core::text::problem_at(text, at, e.message());
            ModelError::Syntax {
                file: format!("{file}:{line}"),
                problem,
            }
        })?;
        model.check().map_err(|(key, problem)| ModelError::Figure {
            file: file.to_owned(),
            key,
            problem,
        })?;
        Ok(model)
    }

    /// The model as a file of its own.
    pub fn to_toml(&self) -> String {
        // A struct of tables, numbers and texts always has a text.
        toml::to_string_pretty(self).unwrap_or_default()
    }

    /// How it works.
    pub fn mechanism(&self) -> Option<Mechanism<'_>> {
        match (&self.hdd, &self.ssd) {
            (Some(hdd), None) => Some(Mechanism::Hdd(hdd)),
            (None, Some(ssd)) => Some(Mechanism::Ssd(ssd)),
            _ => None,
        }
    }

    /// Capacity of the real disk in bytes.
    pub fn capacity_bytes(&self) -> u64 {
        let gb = match self.mechanism() {
            Some(Mechanism::Hdd(hdd)) => hdd.capacity_gb,
            Some(Mechanism::Ssd(ssd)) => ssd.capacity_gb,
            None => 0.0,
        };
        (gb * 1e9) as u64
    }

    fn check(&self) -> Result<(), (String, String)> {
        let name_ok = !self.name.is_empty()
            && self
                .name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
        if !name_ok {
            let problem = format!("`{}`, expected letters, digits, - _ .", self.name);
            return Err(("name".into(), problem));
        }
        match self.mechanism() {
            Some(Mechanism::Hdd(hdd)) => hdd.check()?,
            Some(Mechanism::Ssd(ssd)) => ssd.check()?,
            None => {
                let problem = "expected exactly one of the two sections";
                return Err(("hdd and ssd".into(), problem.into()));
            }
        }
        self.check_sources()
    }

    /// A source must be of something.
    fn check_sources(&self) -> Result<(), (String, String)> {
        let Ok(all) = toml::Value::try_from(self) else {
            return Ok(());
        };
        for key in self.sources.keys() {
            let found = key.split('.').try_fold(&all, |at, part| at.get(part));
            if found.is_none() {
                let problem = "names no field of this model".to_owned();
                return Err((format!("sources.\"{key}\""), problem));
            }
        }
        Ok(())
    }
}

impl Hdd {
    /// A rotation, nanoseconds.
    pub fn rotation_ns(&self) -> u64 {
        ((60e9 / self.rotation.rpm) as u64).max(1)
    }

    /// The angle by which a track starts later than the one of the head before, nanoseconds.
    pub fn head_skew_ns(&self) -> u64 {
        ms(self.tracks.head_switch_ms)
    }

    /// The angle by which a cylinder's first track starts later, nanoseconds.
    pub fn cylinder_skew_ns(&self) -> u64 {
        ms(self.tracks.cylinder_switch_ms)
    }

    /// Capacity of the real disk in bytes.
    pub fn capacity_bytes(&self) -> u64 {
        (self.capacity_gb * 1e9) as u64
    }

    /// The seek curve. A checked model has one.
    pub fn seek_curve(&self) -> SeekCurve {
        if let Some(points) = &self.seek.curve {
            return SeekCurve::Points(points.clone());
        }
        let (shortest, average) = (self.seek.track_to_track_ms, self.seek.average_ms);
        SeekCurve::from_figures(shortest, average, self.seek.full_ms)
            .unwrap_or(SeekCurve::Points(vec![(1.0, average)]))
    }
}

/// Milliseconds as nanoseconds.
pub(crate) fn ms(value: f64) -> u64 {
    (value * 1e6) as u64
}

/// Microseconds as nanoseconds.
pub(crate) fn us(value: f64) -> u64 {
    (value * 1e3) as u64
}
