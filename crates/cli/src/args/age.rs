//! Arguments of `age`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use fsage_experiment::plan::parse_time;

use super::{AgeApplyArgs, AgeKeepArgs};

/// What snapshots' options do not go with. That they require snapshots is forgotten where another of the group is given.
const OTHERS: [&str; 3] = ["from_git", "from_model", "profile"];

/// Arguments of `age`.
#[derive(Debug, Args)]
#[command(after_help = "\
An aging workload is an ordinary trace of simulated days: `fsage show` tells what it holds, `fsage
replay` carries it out.

Examples:
  fsage age generate --profile home-1996 -o home.fst
  fsage age generate --profile mail --size 2G --fill 80% --days 60 -o mail.fst
  fsage age short-lived monday.fst tuesday.fst -o short.toml
  fsage age generate --from-snapshots nights --short-lived short.toml -o ours.fst
  fsage age generate --from-git ~/src/linux -o git.fst
  fsage age generate --from-model day.fsm --days 90 -o ours.fst")]
pub struct AgeArgs {
    /// What to do
    #[command(subcommand)]
    pub verb: AgeVerb,
}

/// What `age` does.
#[derive(Debug, Subcommand)]
pub enum AgeVerb {
    /// Make an aging workload
    Generate(AgeGenerateArgs),
    /// Learn from traces how short-lived files come and go, and how files are deleted
    ShortLived(AgeShortLivedArgs),
    /// Carry out an aging workload on a target
    Apply(AgeApplyArgs),
    /// Keep an aged file system as an image, from which aged:IMAGE puts it back
    Keep(AgeKeepArgs),
}

/// Arguments of `age generate`.
#[derive(Debug, Args)]
#[command(after_help = profiles_help())]
pub struct AgeGenerateArgs {
    /// From the snapshots of a directory, files that end in .fss, in the order of their names
    #[arg(long, value_name = "DIR", group = "from")]
    pub from_snapshots: Option<PathBuf>,
    /// From the history of a git repository
    #[arg(long, value_name = "REPO", group = "from")]
    pub from_git: Option<PathBuf>,
    /// From a model of a workload (fsage model fit -o M.fsm), which is played once a day
    #[arg(long, value_name = "M.fsm", group = "from")]
    pub from_model: Option<PathBuf>,
    /// From a named usage profile
    #[arg(long, value_name = "NAME", group = "from")]
    pub profile: Option<String>,
    /// The workload to write, a trace
    #[arg(short, long, value_name = "W.fst")]
    pub output: PathBuf,
    /// Where random choices start
    #[arg(long, value_name = "N", default_value_t = 42)]
    pub seed: u64,
    /// Simulated days; of snapshots and a history at most theirs [default: the source's; 30 of a model]
    #[arg(long, value_name = "N")]
    pub days: Option<u32>,
    /// Size of the file system to be aged (502M, 2G) [default: the source's]
    #[arg(long, value_name = "S", value_parser = size)]
    pub size: Option<u64>,
    /// Reach this utilisation and hold it at every day's end (0.8 or 80%) [default: the source's course]
    #[arg(long, value_name = "F", value_parser = share)]
    pub fill: Option<f64>,
    /// So many times the source's activity; with snapshots the short-lived files [default: 1]
    #[arg(long, value_name = "S")]
    pub scale: Option<f64>,
    /// When files went that one snapshot has and the next has not [default: learnt where the snapshots
    /// have names and times]
    #[arg(long, value_enum, requires = "from_snapshots", conflicts_with_all = OTHERS)]
    pub deletes: Option<DeletesArg>,
    /// Add files that lived less than a night, one profile a day for every 40 MB of file system
    #[arg(long, value_name = "P.toml", requires = "from_snapshots", conflicts_with_all = OTHERS)]
    pub short_lived: Option<PathBuf>,
    /// Place files by their inode's group, one directory for each, as for snapshots without names
    #[arg(long, requires = "from_snapshots", conflicts_with_all = OTHERS)]
    pub by_group: bool,
    /// Inodes of a group, where the snapshots do not tell
    #[arg(long, value_name = "N", requires = "from_snapshots", conflicts_with_all = OTHERS)]
    pub inodes_per_group: Option<u64>,
    /// Print what was made as JSON
    #[arg(long)]
    pub json: bool,
}

/// How deletions get their times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DeletesArg {
    /// At random while there is other activity
    Uniform,
    /// By their directory's last change and what else went or came there
    Learnt,
}

/// Arguments of `age short-lived`.
#[derive(Debug, Args)]
pub struct AgeShortLivedArgs {
    /// The traces
    #[arg(required = true, value_name = "TRACE")]
    pub traces: Vec<PathBuf>,
    /// The profiles to write
    #[arg(short, long, value_name = "P.toml")]
    pub output: PathBuf,
    /// How long a day of the traces takes, where a day was played faster; what happens is told in times of whole days
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub day: Option<Duration>,
    /// Take traces that lack something all the same
    #[arg(long)]
    pub allow_lossy: bool,
    /// Print what was learnt as JSON
    #[arg(long)]
    pub json: bool,
}

fn profiles_help() -> String {
    let mut help = String::from(
        "Profiles, each for a file system of its size; --size scales files and activity with it:\n",
    );
    for profile in fsage_age::generate::PROFILES {
        help.push_str(&format!(
            "  {:10} {} MiB, {} days: {}\n",
            profile.name,
            profile.size_bytes >> 20,
            profile.days,
            profile.what
        ));
    }
    help
}

fn size(text: &str) -> Result<u64, String> {
    fsage_host::scratch::parse_size(text)
        .ok_or_else(|| format!("`{text}`, expected a number with K, M, G or T"))
}

fn share(text: &str) -> Result<f64, String> {
    let number = match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().map(|p| p / 100.0),
        None => text.parse(),
    };
    number.map_err(|_| format!("`{text}`, expected a share as 0.8 or 80%"))
}
