//! What is to be measured, and the list of what could be.

use std::collections::BTreeSet;
use std::path::PathBuf;

use fsage_core::metric::{FAMILIES, Family, FamilyId, Group, MetricId};

use crate::error::ProfileError;

/// What a profile is asked to hold. The cold policy is the target's own: how it was opened.
#[derive(Debug, Clone, Default)]
pub struct ProfileRequest {
    /// The short suite: under a minute on a RAM-backed or SSD file system.
    pub quick: bool,
    /// Names of metrics (`RD64`), families (`RD`) or groups (`cold`); all where empty. What they
    /// depend on is measured too.
    pub only: Vec<String>,
    /// The longest the measurement should take, in nanoseconds; `None` for the default of the short
    /// or the full suite. Procedures end between repetitions, so it is overrun by one of them.
    pub max_time_ns: Option<u64>,
    /// The seed of every random choice.
    pub seed: u64,
    /// The directory of this machine that is the target's root, where it is one: some calls are not
    /// in the trait of targets.
    pub host_dir: Option<PathBuf>,
    /// The name of the block device beneath in the kernel (`loop0`), to note where its kernel
    /// threads run.
    pub device: Option<String>,
    /// Whether that device is fsage's own, so that its kernel threads may be kept to the CPUs that the
    /// caller is kept to.
    pub own_device: bool,
}

/// Default length of the short suite.
const QUICK_NS: u64 = 48_000_000_000;
/// Default length of the full suite.
const FULL_NS: u64 = 500_000_000_000;
/// So many times longer is either where time is computed and nobody waits for it.
const VIRTUAL: f64 = 100.0;
/// A device that makes a write stable within so long is measured in the usual length.
const USUAL_STABLE_NS: f64 = 2_000_000.0;
/// So many times longer is either on a disk that seeks: under three minutes for the short suite.
const MOST_SLOWER: f64 = 3.4;

/// What the short suite leaves out for the time that it takes, but where nobody waits for that.
const COMPUTED: [&str; 5] = ["DTH", "DTB", "DTR", "DTF", "RXB"];

impl ProfileRequest {
    /// How long the measurement should take, in nanoseconds of the target's time, which is computed or the
    /// machine's. `stable_ns` is what the device takes to make a small write stable, where that is known: cold states,
    /// commits and removals take as many times longer.
    pub fn time_ns(&self, is_virtual: bool, stable_ns: Option<f64>) -> u64 {
        let usual_ns = if self.quick { QUICK_NS } else { FULL_NS };
        let slower = |ns: f64| (ns / USUAL_STABLE_NS).clamp(1.0, MOST_SLOWER);
        let times = if is_virtual {
            VIRTUAL
        } else {
            stable_ns.map_or(1.0, slower)
        };
        let usual_ns = (usual_ns as f64 * times) as u64;
        self.max_time_ns.unwrap_or(usual_ns)
    }

    /// The metrics that are asked for, without what they depend on, where time is computed or the machine's. Fails on a
    /// name that is none, with those nearest to it.
    pub fn wanted(&self, is_virtual: bool) -> Result<BTreeSet<MetricId>, ProfileError> {
        if self.only.is_empty() {
            let in_time = |id: &FamilyId| is_virtual && COMPUTED.contains(&id.row().stem);
            let measured = |id: &FamilyId| !self.quick || id.row().quick || in_time(id);
            return Ok(FamilyId::all()
                .filter(measured)
                .flat_map(FamilyId::metrics)
                .collect());
        }
        let mut wanted = BTreeSet::new();
        for name in &self.only {
            let found = named(name);
            if found.is_empty() {
                return Err(ProfileError::Unknown {
                    name: name.clone(),
                    near: near(name),
                });
            }
            wanted.extend(found);
        }
        Ok(wanted)
    }
}

/// The metrics that a name stands for.
fn named(name: &str) -> Vec<MetricId> {
    if let Some(group) = Group::ALL
        .iter()
        .find(|g| g.name().eq_ignore_ascii_case(name))
    {
        let of_group = |id: &FamilyId| id.row().group == *group;
        return FamilyId::all()
            .filter(of_group)
            .flat_map(FamilyId::metrics)
            .collect();
    }
    let upper = name.to_ascii_uppercase();
    if let Some(family) = fsage_core::metric::family(&upper) {
        return family.metrics().collect();
    }
    MetricId::parse(&upper).into_iter().collect()
}

/// At most three names of the table that are nearest to what was typed.
fn near(name: &str) -> Vec<String> {
    let upper = name.to_ascii_uppercase();
    let mut known: Vec<(usize, String)> = FAMILIES
        .iter()
        .map(|f| f.stem.to_owned())
        .chain(Group::ALL.iter().map(|g| g.name().to_owned()))
        .map(|k| (distance(&upper, &k.to_ascii_uppercase()), k))
        .collect();
    known.sort();
    known.into_iter().take(3).map(|(_, k)| k).collect()
}

/// Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        let mut next = vec![left];
        for (y, &above) in b.iter().zip(row.iter().skip(1)) {
            let cost = (diagonal + usize::from(x != *y))
                .min(left + 1)
                .min(above + 1);
            (diagonal, left) = (above, cost);
            next.push(cost);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

/// Every row of the table, in the order of its groups: what `fsage profile --list` prints.
pub fn list() -> &'static [Family] {
    &FAMILIES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(only: &[&str]) -> Result<BTreeSet<MetricId>, ProfileError> {
        let only = only.iter().map(ToString::to_string).collect();
        ProfileRequest {
            only,
            ..ProfileRequest::default()
        }
        .wanted(false)
    }

    #[test]
    fn metrics_families_and_groups_are_found() {
        assert_eq!(asked(&["RD64"]).unwrap().len(), 1);
        assert_eq!(asked(&["rd"]).unwrap().len(), 13);
        assert_eq!(asked(&["STAT"]).unwrap().len(), 5);
        assert!(asked(&["mmap", "sync"]).unwrap().len() > 20);
        let all = ProfileRequest::default().wanted(false).unwrap();
        assert_eq!(all.len(), MetricId::all().count());
    }

    #[test]
    fn a_slow_device_has_more_time_unless_it_is_asked_for() {
        let mut request = ProfileRequest {
            quick: true,
            ..ProfileRequest::default()
        };
        let seconds = |r: &ProfileRequest, stable| r.time_ns(false, stable) / 1_000_000_000;
        assert_eq!(seconds(&request, None), 48);
        assert_eq!(seconds(&request, Some(80_000.0)), 48);
        assert_eq!(seconds(&request, Some(3e6)), 72);
        assert_eq!(seconds(&request, Some(2e7)), 163);
        assert_eq!(request.time_ns(true, None), 4_800_000_000_000);
        request.max_time_ns = Some(5_000_000_000);
        assert_eq!(seconds(&request, Some(2e7)), 5);
    }

    #[test]
    fn an_unknown_name_names_the_nearest() {
        let error = asked(&["STATT"]).unwrap_err().to_string();
        assert!(
            error.contains("STATT") && error.contains("STAT,"),
            "{error}"
        );
        assert_eq!((distance("", "ab"), distance("kitten", "sitting")), (2, 3));
    }
}
