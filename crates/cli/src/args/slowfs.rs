//! Arguments of `slowfs`.

use std::path::PathBuf;

use clap::Args;
use fsage_slowfs::Slowing;

/// Arguments of `slowfs`.
#[derive(Debug, Args)]
#[command(after_help = "\
The kernel's caches above stay as they are: read slows what is read into the page cache, lookup what is
not in the name cache, write every write. A factor counts the operation's own time, spent on the
processor (Traeger 2007, 12.1).

Operations: read, write, lookup, getattr, setattr, create, open, unlink, mkdir, rmdir, rename, link,
symlink, readlink, readdir, fsync, statfs, xattr, fallocate; all for every one.

As a target of run, bench, profile and the like: slow:read=32,lookup=4:TARGET.

Example:
  fsage slowfs /srv/data /mnt/slow --slow read=32,lookup=4,write=4")]
pub struct SlowfsArgs {
    /// The directory that is served; change it only through the mount while it is
    pub lower: PathBuf,
    /// An empty directory to mount it on
    pub mount: PathBuf,
    /// How many times their time operations take: OPERATION=FACTOR,…
    #[arg(long, value_name = "SLOWING", default_value = "none")]
    pub slow: Slowing,
    /// Print at the end what was done and slowed as JSON
    #[arg(long)]
    pub json: bool,
    /// Obey another fsage on stdin and end with it
    #[arg(long, hide = true)]
    pub launched: bool,
}
