//! Arguments of `disk`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Arguments of `disk`.
#[derive(Debug, Args)]
#[command(after_help = "\
A model is one of fsage's own (`fsage disk list`) or a file that ends in .toml (`fsage disk show MODEL
--toml` prints one to start from). Scratch targets take the same: scratch:ext4,on=disk:hdd-7200.

Examples:
  fsage disk show hdd-7200
  fsage disk serve hdd-7200 --size 2G --mount /mnt/disk
  fsage profile scratch:ext4,on=disk:hdd-7200 --quick -o slow.fsp")]
pub struct DiskArgs {
    /// What to do
    #[command(subcommand)]
    pub verb: DiskVerb,
}

/// What `disk` does.
#[derive(Debug, Subcommand)]
pub enum DiskVerb {
    /// List the disk models
    List {
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Say what a disk model is, where its figures come from and what they amount to
    Show {
        /// The model
        model: String,
        /// Print the model's file
        #[arg(long, conflicts_with = "json")]
        toml: bool,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Serve an emulated disk in real time, until interrupted; needs root and /dev/fuse
    Serve(DiskServeArgs),
}

/// Arguments of `disk serve`.
#[derive(Debug, Args)]
pub struct DiskServeArgs {
    /// The model
    pub model: String,
    /// Size of the disk (512M, 2G)
    #[arg(long, value_name = "S", default_value = "2G", value_parser = size)]
    pub size: u64,
    /// Where the disk's data is kept: a sparse file, made if it is not there
    #[arg(long, value_name = "FILE", conflicts_with = "ram")]
    pub image: Option<PathBuf>,
    /// Keep the disk's data in memory (the default)
    #[arg(long)]
    pub ram: bool,
    /// The scheduler before the disk: fcfs, elevator or n-cscan
    #[arg(long, value_name = "NAME", default_value = "elevator")]
    pub scheduler: String,
    /// How the size lies on the real disk: `scaled` over all of it, or a partition at its `start`
    #[arg(long, value_name = "NAME", default_value = "scaled")]
    pub span: String,
    /// The empty directory for disk.img, stats and control; one is made otherwise
    #[arg(long, value_name = "DIR")]
    pub mount: Option<PathBuf>,
    /// Attach no loop device
    #[arg(long)]
    pub no_loop: bool,
    /// Print the statistics at the end as JSON
    #[arg(long)]
    pub json: bool,
    /// Obey another fsage on stdin and end with it
    #[arg(long, hide = true)]
    pub launched: bool,
    /// Serve at a place that a user chose
    #[arg(long, hide = true, requires = "launched")]
    pub by_hand: bool,
    /// A CPU that the daemon may use
    #[arg(long, hide = true)]
    pub cpu: Vec<usize>,
}

fn size(text: &str) -> Result<u64, String> {
    fsage_host::scratch::parse_size(text)
        .filter(|&bytes| bytes >= 1 << 20)
        .ok_or_else(|| format!("`{text}`, expected at least 1M, a number with K, M, G or T"))
}
