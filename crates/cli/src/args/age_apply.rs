//! Arguments of `age apply` and `age keep`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `age apply`.
#[derive(Debug, Args)]
#[command(after_help = super::with_targets("", "\
The target must be empty: a fresh file system mounted on a directory, or scratch:, which goes in the
end unless --keep makes an image of it; mem: has no directory and cannot be aged. A full disk is met as a program meets it, and counted.

With a directory and -o, a run that was killed goes on with --resume; OUT.part tells what was done.

Exit code 3: some operations met a full disk, or what they name was not there.

Examples:
  fsage age apply home.fst scratch:ext4,size=1G --keep home.fsi
  fsage age apply home.fst /mnt/new -o aged.json
  fsage profile aged:home.fsi -o aged.fsp"))]
pub struct AgeApplyArgs {
    /// The workload, as `fsage age generate` made it
    pub workload: PathBuf,
    /// The target
    pub target: String,
    /// Allocate space and write no data: several times as fast, and files lie otherwise than in life,
    /// as nothing is allocated late
    #[arg(long)]
    pub fast: bool,
    /// Take no layout score at the days' ends
    #[arg(long)]
    pub no_score: bool,
    /// Keep the aged file system as an image
    #[arg(long, value_name = "IMAGE")]
    pub keep: Option<PathBuf>,
    /// Go on with a run that was killed or interrupted, with the same -o
    #[arg(long, requires = "output")]
    pub resume: bool,
    /// Where the bytes that are written come from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Apply a lossy workload all the same
    #[arg(long)]
    pub allow_lossy: bool,
    /// Write the result as JSON; - is stdout
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `age keep`.
#[derive(Debug, Args)]
#[command(after_help = "\
A mounted file system is frozen while it is read: what writes to it waits. Blocks that are free and
not zero are kept as well; fstrim before makes the image smaller where the device takes that.

Examples:
  fsage age keep /mnt/aged -o aged.fsi
  fsage age keep disk.img -o aged.fsi
  fsage bench plan.toml                # with spec = \"aged:aged.fsi\"")]
pub struct AgeKeepArgs {
    /// The directory on which the file system is mounted, or a file that holds it as dd makes it
    pub target: PathBuf,
    /// The image to write
    #[arg(short, long, value_name = "IMAGE")]
    pub output: PathBuf,
    /// Print the summary as JSON
    #[arg(long)]
    pub json: bool,
}
