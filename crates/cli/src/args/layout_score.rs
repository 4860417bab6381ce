//! Arguments of `layout`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `layout`.
#[derive(Debug, Args)]
#[command(after_help = "\
The layout score is the share of blocks that lie right behind the block before them in their file (Smith 2001,
3.2.3): 1 is perfect, 0 has no two blocks together. The first block of a file and files of one block do not count;
neither do blocks behind a file's end. A hole between two blocks that lie side by side costs nothing, and blocks that
are allocated and not written count as others. An extent is a run of blocks that are contiguous on the device.

What is compressed, inline or not yet written has no place of its own: such files are counted as unknown, and so is
everything where the file system tells no places (tmpfs, networks).

Several snapshots are a course of days: their scores one after the other, and with --against those of a simulated
file system's days beside them, with the root mean square of the differences.

Examples:
  fsage layout /home --by-size --free
  fsage layout /var/lib/db/table.dat
  fsage layout day-*.fss --svg days.svg
  fsage layout real-*.fss --against simulated-001.fss --against simulated-002.fss --json")]
pub struct LayoutArgs {
    /// Directories, files, snapshots (.fss) or other targets
    #[arg(required = true, value_name = "TARGET")]
    pub targets: Vec<String>,
    /// Show the score by file size
    #[arg(long)]
    pub by_size: bool,
    /// Show the free space of the file system by the size of its extents (ext2, ext3, ext4, xfs)
    #[arg(long)]
    pub free: bool,
    /// Show the N files with most extents
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub worst: usize,
    /// Write out first what the file system has not written yet, so that every file has its place
    #[arg(long)]
    pub sync: bool,
    /// Compare with this snapshot, target by target; as often as there are targets
    #[arg(long, value_name = "FSS")]
    pub against: Vec<PathBuf>,
    /// Plot the scores over time and by size
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}
