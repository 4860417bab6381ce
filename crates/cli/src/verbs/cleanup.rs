//! `fsage cleanup`.

use std::path::{Path, PathBuf};

use anyhow::Result;
use fsage_experiment::target;
use fsage_format::result::cleanup::{Leftover, Leftovers};
use fsage_host::leftovers::{self, LeftoverKind, find};
use fsage_report::units;

use crate::args::CleanupArgs;
use crate::exit::Exit;
use crate::{out, ui};

const FORMAT: &str = "fsage cleanup";
const VERSION: u32 = 1;

pub fn run(args: &CleanupArgs) -> Result<Exit> {
    let mut found = Vec::new();
    // What is removed first may have used what comes later.
    for holds in [true, false] {
        let mut left = find(&args.dirs);
        left.retain(|left| !args.only || below(&left.place, &args.dirs));
        let of_pass = left.iter().filter(|left| left.kind.holds_others() == holds);
        found.extend(of_pass.map(|left| carry_out(left, args.yes)));
    }
    let result = Leftovers {
        format: FORMAT.into(),
        version: VERSION,
        found,
    };
    let dirs = args.dirs.iter().filter(|dir| !is_dead(dir, &result));
    let unseen: Vec<_> = dirs
        .filter_map(|dir| Some((dir, std::fs::read_dir(dir).err()?)))
        .collect();
    if args.json {
        out::json(&result)?;
    } else if unseen.is_empty() || !result.found.is_empty() {
        out::text(&fsage_report::cleanup::text(&result))?;
    }
    let free = |left: &&Leftover| left.in_use.is_none();
    if !args.yes && result.found.iter().any(|left| free(&left)) {
        ui::line("nothing was changed; --yes removes what nobody uses");
    }
    for (dir, error) in &unseen {
        let dir = dir.display();
        ui::line(&format!("fsage: failed to look into {dir}: {error}"));
    }
    if let Some((dir, images, bytes)) = target::kept_images().filter(|_| !args.only) {
        ui::note(&format!(
            "{} of aged file systems ({}) stay in {}: aged: targets are put back from there, or aged anew",
            units::counted(images, "image"),
            units::bytes(bytes),
            dir.display()
        ));
    }
    let failed = !unseen.is_empty() || result.found.iter().any(|left| left.error.is_some());
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

/// Whether a directory lies on a mount that was found, and may never answer, or has gone itself.
fn is_dead(dir: &Path, result: &Leftovers) -> bool {
    let mount = LeftoverKind::Mount.name();
    let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let mut found = result.found.iter();
    found.any(|left| (left.kind == mount || left.removed) && dir.starts_with(&left.place))
}

fn below(place: &Path, dirs: &[PathBuf]) -> bool {
    let inside = |dir: &PathBuf| std::path::absolute(dir).is_ok_and(|dir| place.starts_with(dir));
    dirs.iter().any(inside)
}

fn carry_out(left: &leftovers::Leftover, remove: bool) -> Leftover {
    let done = (remove && left.in_use.is_none()).then(|| leftovers::remove(left));
    Leftover {
        kind: left.kind.name().into(),
        place: left.place.display().to_string(),
        about: left.about.clone(),
        in_use: left.in_use.clone(),
        removed: matches!(done, Some(Ok(()))),
        error: done.and_then(Result::err).map(|e| e.to_string()),
    }
}
