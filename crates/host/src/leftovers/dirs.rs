//! Directories of runs and measurements, and the places of mounts.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use super::{Leftover, LeftoverKind, mounted_on, used};
use crate::guard::{RANDOM_CHARS, is_held};
use crate::scratch::MOUNT_PREFIX;
use crate::{HostError, mounts, processes};

/// What directories of fsage's own begin with, and what they hold.
const PREFIXES: [(&str, &str); 7] = [
    (".fsage-run-", "files of a run"),
    (".fsage-profile-", "files of a profile"),
    (".fsage-probe-", "files of a look at caches"),
    ("fsage-replay-", "files of a replay"),
    ("fsage-demo-", "files of a demo"),
    (
        "fsage-bench-",
        "the record of an experiment that was not kept",
    ),
    (
        "fsage-validate-",
        "the record of a validation that was not kept",
    ),
];

/// Beside a directory that `run --keep` has made.
const KEPT: &str = ".workload";

/// Something may be mounted on what is younger in the next moment.
const YOUNG: Duration = Duration::from_mins(1);

/// How many characters the random part of earlier releases' names has.
const RANDOM_CHARS_BEFORE: usize = 6;

pub(super) fn find(dir: &Path) -> Vec<Leftover> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some((kind, about)) = name.to_str().and_then(of_name) else {
            continue;
        };
        let place = entry.path();
        // What is mounted is found by the list of mounts, and not touched here.
        if mounted_on(&place) || !is_ours(&place) {
            continue;
        }
        let mut kept = place.clone().into_os_string();
        kept.push(KEPT);
        if Path::new(&kept).exists() {
            continue;
        }
        found.push(Leftover {
            kind,
            in_use: in_use(kind, &place),
            place,
            about: about.to_owned(),
            connection: None,
        });
    }
    found.sort_by(|a, b| a.place.cmp(&b.place));
    found
}

fn of_name(name: &str) -> Option<(LeftoverKind, &'static str)> {
    if let Some(rest) = name.strip_prefix(MOUNT_PREFIX) {
        let (_, random) = rest.rsplit_once('-')?;
        return is_random(random)
            .then_some((LeftoverKind::MountPoint, "an empty place for a mount"));
    }
    let found = PREFIXES.iter().find_map(|(prefix, about)| {
        let random = name.strip_prefix(prefix)?;
        // Without the dot it could be a name of the user's.
        let before = prefix.starts_with('.')
            && random.len() == RANDOM_CHARS_BEFORE
            && random.bytes().all(|b| b.is_ascii_alphanumeric());
        (is_random(random) || before).then_some(*about)
    });
    found.map(|about| (LeftoverKind::Directory, about))
}

fn is_random(text: &str) -> bool {
    let digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    text.len() == RANDOM_CHARS && text.bytes().all(digit)
}

/// A directory, no link to one, of this user; of anyone's for root.
fn is_ours(place: &Path) -> bool {
    let user = rustix::process::geteuid();
    std::fs::symlink_metadata(place)
        .is_ok_and(|about| about.is_dir() && (user.is_root() || about.uid() == user.as_raw()))
}

fn in_use(kind: LeftoverKind, place: &Path) -> Option<String> {
    if kind == LeftoverKind::MountPoint {
        let young = std::fs::symlink_metadata(place)
            .and_then(|about| about.modified())
            .is_ok_and(|at| at.elapsed().is_ok_and(|age| age < YOUNG));
        return young.then(|| "it was made just now".into());
    }
    if is_held(place) {
        return Some("the fsage that made it runs".into());
    }
    // Earlier releases held no lock.
    let name = place
        .file_name()
        .and_then(|n| n.to_str())
        .unwrap_or_default();
    let random = name.rsplit('-').next().unwrap_or_default();
    if !is_random(random) && processes::all().iter().any(|p| processes::is_fsage(*p)) {
        return Some("a fsage of an earlier release may own it, and some fsage runs".into());
    }
    let below = mounts::all().into_iter().find(|m| m.dir.starts_with(place));
    if let Some(mount) = below {
        return Some(format!("something is mounted on {}", mount.dir.display()));
    }
    used(place)
}

pub(super) fn remove(place: &Path) -> Result<(), HostError> {
    // It may have found a user since it was listed.
    if let Some(why) = in_use(LeftoverKind::Directory, place) {
        let what = format!("remove {}", place.display());
        return Err(HostError::Refused { what, why });
    }
    crate::remove::tree(place)
}

/// Only what is empty: no file of anybody's lies there.
pub(super) fn remove_mount_point(place: &Path) -> Result<(), HostError> {
    std::fs::remove_dir(place).map_err(|e| HostError::at("remove", place, e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::GuardedDir;

    #[test]
    fn only_names_of_fsage_are_found() {
        for name in [
            ".fsage-run-0123456789abcdef",
            ".fsage-run-FrwhSw",
            "fsage-bench-0123456789abcdef",
            "fsage-scratch-ext4-0123456789abcdef",
        ] {
            assert!(of_name(name).is_some(), "{name}");
        }
        for name in [
            "fsage-bench-results",
            "fsage-bench-FrwhSw",
            ".fsage-run-",
            ".fsage-run-0123456789abcdeX",
            ".fsage-other-0123456789abcdef",
            "fsage-replay-kept-0123456789abcdef",
            "fsage-scratch-0123456789abcdef0",
            "0123456789abcdef",
        ] {
            assert!(of_name(name).is_none(), "{name}");
        }
    }

    #[test]
    fn what_lives_stays_and_what_is_dead_goes() {
        let parent = tempfile::tempdir().unwrap();
        let live = GuardedDir::create(parent.path(), ".fsage-run-").unwrap();
        let dead = parent.path().join(".fsage-run-0123456789abcdef");
        std::fs::create_dir_all(dead.join("sub")).unwrap();
        let kept = parent.path().join(".fsage-run-fedcba9876543210");
        std::fs::create_dir(&kept).unwrap();
        std::fs::write(
            parent.path().join(".fsage-run-fedcba9876543210.workload"),
            "x",
        )
        .unwrap();
        let linked = parent.path().join(".fsage-run-00000000000000ff");
        std::os::unix::fs::symlink(&kept, &linked).unwrap();
        let found = find(parent.path());
        assert_eq!(found.len(), 2, "{found:?}");
        for left in &found {
            let result = super::super::remove(left);
            assert_eq!(result.is_ok(), left.place == dead, "{left:?}");
        }
        assert!(live.path().exists() && kept.exists() && linked.exists() && !dead.exists());
    }
}
