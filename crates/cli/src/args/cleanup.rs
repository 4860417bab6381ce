//! Arguments of `cleanup`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `cleanup`.
#[derive(Debug, Args)]
#[command(after_help = "\
Looks for directories (.fsage-run-… and the like), mounts, loop devices and control groups that a killed \
fsage has left, in DIR and in the usual places: the working directory, /tmp, /var/tmp, /dev/shm. What a \
running fsage owns, or any process uses, stays.

Examples:
  fsage cleanup /mnt/data          # lists
  fsage cleanup /mnt/data --yes    # removes what it lists")]
pub struct CleanupArgs {
    /// A target in which fsage may have been killed
    #[arg(value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// Look only below the directories that are named
    #[arg(long, requires = "dirs")]
    pub only: bool,
    /// Remove what is found; without it nothing is changed
    #[arg(long)]
    pub yes: bool,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}
