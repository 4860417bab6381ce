//! Plans of experiments: what is run, where, how often, in which state of the caches.
//!
//! * `file`: a plan as a TOML file, of any verb. [`mod@validate`]: one of `fsage validate`; [`mod@bench`]: one
//!   of `fsage bench`; [`subject`]: what that measures; `vary`: the parameters that it varies. `place`: where
//!   something stands. [`named`]: targets and workloads with their names. `state`: states of targets.
//!   [`time`]: times as people write them.
//! * [`allow`]: what a plan would do outside of its targets.

pub mod allow;
pub mod bench;
mod beside;
#[cfg(test)]
mod faulty;
mod file;
pub mod named;
mod place;
mod state;
pub mod subject;
pub mod time;
pub mod validate;
mod vary;

pub use bench::BenchPlan;
pub use named::{NamedTarget, NamedWorkload};
pub use place::PlanError;
pub use subject::{Caches, CommandPlan, Rule, State, Subject};
pub use time::parse_time;
pub use validate::{KeepTraces, PlanFile};

use serde::Deserialize;
use sha2::{Digest, Sha256};

/// Half of a digest tells plans apart.
const DIGEST_BYTES: usize = 16;

/// Tells plans apart by what decides what they measure.
pub(crate) fn digest(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    hex(digest.get(..DIGEST_BYTES).unwrap_or_default())
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

/// What the caches hold when a workload begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheState {
    /// Nothing, as far as the target can be made cold.
    #[default]
    Cold,
    /// What the setup left there, written back.
    Warm,
}

impl CacheState {
    /// As a plan writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Warm => "warm",
        }
    }
}
