//! What a user has served until it is enough: a disk or a slowed directory.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fsage_disk::hand::Standing;
use fsage_host::scratch::{Unmounted, user_of_mount};
use fsage_host::{HostError, cleanup};
use fsage_slowfs::Mounted;

use crate::ui;

/// How often a signal or an unmount from outside is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// What is served.
pub trait Served {
    /// What its users lose where it ends before they do.
    const LOSS: &str;
    /// Whether it has been unmounted and nothing uses it any more.
    fn is_over(&mut self) -> Result<bool, HostError>;
    /// Unmounts it, unless it is in use.
    fn unmount(&mut self) -> Result<Unmounted, HostError>;
    /// Takes it out of sight; who uses it keeps it.
    fn detach(&mut self) -> Result<(), HostError>;
    /// What it is for its users, and who uses it, where that can be seen.
    fn user(&self) -> (PathBuf, Option<String>);
}

impl Served for Standing {
    const LOSS: &str = "what was not written to it is lost";

    fn is_over(&mut self) -> Result<bool, HostError> {
        Self::is_over(self)
    }

    fn unmount(&mut self) -> Result<Unmounted, HostError> {
        Self::unmount(self)
    }

    fn detach(&mut self) -> Result<(), HostError> {
        Self::detach(self)
    }

    fn user(&self) -> (PathBuf, Option<String>) {
        Self::user(self)
    }
}

impl Served for Mounted {
    const LOSS: &str = "its users get errors";

    fn is_over(&mut self) -> Result<bool, HostError> {
        Ok(Self::is_over(self))
    }

    fn unmount(&mut self) -> Result<Unmounted, HostError> {
        Self::unmount(self)
    }

    fn detach(&mut self) -> Result<(), HostError> {
        Self::detach(self)
    }

    fn user(&self) -> (PathBuf, Option<String>) {
        (self.dir().to_owned(), user_of_mount(self.dir()))
    }
}

/// Waits for a signal or an unmount from outside, and then for who uses it. A second signal ends this process, which
/// says what that means.
pub fn until_it_ends<S: Served>(served: &mut S, stop: &AtomicBool) -> Result<(), HostError> {
    while !stop.load(Ordering::Relaxed) && !served.is_over()? {
        std::thread::sleep(LOOK);
    }
    let (place, user) = served.user();
    let place = place.display().to_string();
    let used = Arc::new(AtomicBool::new(true));
    let (still, what) = (Arc::clone(&used), place.clone());
    let _told = cleanup::register(move || {
        if still.load(Ordering::Relaxed) {
            ui::line(&format!("fsage: {what} was still in use: {}", S::LOSS));
        }
    });
    let ended = let_go(served, &place, user);
    used.store(false, Ordering::Relaxed);
    ended
}

fn let_go<S: Served>(served: &mut S, place: &str, user: Option<String>) -> Result<(), HostError> {
    if served.unmount()? == Unmounted::Gone {
        return Ok(());
    }
    // New users find it gone; who has it keeps it.
    served.detach()?;
    let user = user.map_or_else(String::new, |user| format!(" ({user})"));
    ui::line(&format!(
        "{place} is in use{user}: it is out of sight and served until it is let go; Ctrl-C once more ends it at \
         once, and {}",
        S::LOSS
    ));
    while !served.is_over()? {
        std::thread::sleep(LOOK);
    }
    served.unmount()?;
    Ok(())
}
