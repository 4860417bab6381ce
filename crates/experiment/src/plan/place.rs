//! A plan's text: reading it, and saying where something in it stands.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fsage_core::text::line_at;
use fsage_core::{Registry, TargetSpec};
use fsage_format::{FormatError, bounded};
use fsage_workload::WorkloadSpec;
use serde::de::DeserializeOwned;
use toml::Spanned;

use super::allow::Wanted;
use super::beside;
use super::time::parse_time;
use super::vary::MOST_CONFIGURATIONS;

/// More of anything is a slip.
pub(super) const MOST_RUNS: i64 = 1000;

/// Why a plan cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The file could not be read.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// It wants more than it is allowed.
    #[error(transparent)]
    NotAllowed(#[from] Wanted),
    /// Something in it is wrong.
    #[error("read plan {}:{line}: {problem}", path.display())]
    At {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong and what was expected.
        problem: String,
    },
}

/// The text of a plan's file.
pub(super) fn read(path: &Path) -> Result<String, PlanError> {
    let text = bounded::read(path, bounded::MAX_TEXT_BYTES, "a plan in TOML")?;
    String::from_utf8(text).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let before = error.as_bytes().get(..valid).unwrap_or_default();
        PlanError::At {
            path: path.to_owned(),
            line: before.split(|&b| b == b'\n').count(),
            problem: "it is no text (UTF-8), expected a plan in TOML".into(),
        }
    })
}

/// A plan's text and where it is from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub path: &'a Path,
    pub text: &'a str,
    /// The kinds of targets that it may name.
    pub schemes: &'a Registry,
    /// The directory that its files are relative to.
    pub base: &'a Path,
}

impl Place<'_> {
    /// The text as what it should be.
    pub fn toml<T: DeserializeOwned>(&self) -> Result<T, PlanError> {
        toml::from_str(self.text).map_err(|e| {
            let problem = e.message().trim().replace('\n', ", ");
            self.error(e.span().unwrap_or(0..0), problem)
        })
    }

    /// Fails where there are more of something than anybody runs: each is held, and held against the rest.
    pub fn few(&self, count: usize, what: &str) -> Result<(), PlanError> {
        if count <= MOST_CONFIGURATIONS {
            return Ok(());
        }
        let end = self.text.len()..self.text.len();
        let many = format!("{count} {what}, expected at most {MOST_CONFIGURATIONS}");
        Err(self.error(end, many))
    }

    /// What is wrong at a place of the text.
    pub fn error(&self, span: Range<usize>, problem: String) -> PlanError {
        PlanError::At {
            path: self.path.to_owned(),
            line: line_at(self.text, span.start),
            problem,
        }
    }

    /// A number of runs or the like.
    pub fn count(&self, key: &str, value: Option<&Spanned<i64>>) -> Result<Option<u32>, PlanError> {
        let Some(value) = value else { return Ok(None) };
        match u32::try_from(*value.get_ref()) {
            Ok(n) if n > 0 && i64::from(n) <= MOST_RUNS => Ok(Some(n)),
            _ => Err(self.error(
                value.span(),
                format!("{key} = {}, expected 1 to {MOST_RUNS}", value.get_ref()),
            )),
        }
    }

    /// A length of time.
    pub fn time(
        &self,
        key: &str,
        value: Option<&Spanned<String>>,
    ) -> Result<Option<Duration>, PlanError> {
        let parse = |text: &Spanned<String>| {
            parse_time(text.get_ref()).map_err(|e| self.error(text.span(), format!("{key}: {e}")))
        };
        value.map(parse).transpose()
    }

    /// What something is called.
    pub fn name(&self, name: &Spanned<String>) -> Result<String, PlanError> {
        let text = name.get_ref().trim();
        if text.is_empty() || text.chars().any(char::is_control) {
            let problem = format!("name {:?}, expected one line of text", name.get_ref());
            return Err(self.error(name.span(), problem));
        }
        Ok(text.to_owned())
    }

    /// A target's specification. Files that it uses are not opened: the plan may not be allowed to.
    pub fn target(&self, span: Range<usize>, text: &str) -> Result<Arc<dyn TargetSpec>, PlanError> {
        let spec = self.schemes.parse(&beside::target(self.base, text));
        let spec = spec.and_then(|spec| {
            if spec.uses().is_empty() {
                spec.check()?;
            }
            Ok(spec)
        });
        spec.map_err(|e| self.error(span, e.to_string()))
    }

    /// A workload's specification.
    pub fn workload(&self, span: Range<usize>, text: &str) -> Result<WorkloadSpec, PlanError> {
        beside::workload(self.base, text)
            .parse()
            .map_err(|e: fsage_workload::SpecError| self.error(span, e.to_string()))
    }
}
