//! Arguments of `compare` and `check`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `compare`.
#[derive(Debug, Args)]
#[command(after_help = "\
An experiment is the directory that `fsage bench -o` made, or its experiment.json. Of two, the
configurations of one name are compared, else those that are the only ones of their workload; of one,
each with the first of its workload. Differences and ratios are of b to a.

For each metric: means with 95 % intervals (Student's t), difference (Welch) and ratio (Fieller), p of
Welch's test corrected for all tests at once (Holm, 1979), Hedges' g and A12, a rank test beside them.

Examples:
  fsage compare results-before results-after
  fsage compare results --config ext4 xfs --metric elapsed
  fsage compare results --json")]
pub struct CompareArgs {
    /// The experiment to compare with
    pub a: PathBuf,
    /// The experiment that is compared; without it configurations of A are
    pub b: Option<PathBuf>,
    /// Configurations by name: of one experiment the first is what the others are compared with; of two
    /// experiments one of each, or the names that both have
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub config: Vec<String>,
    /// Only this metric (may be repeated)
    #[arg(long, value_name = "METRIC")]
    pub metric: Vec<String>,
    /// Show the tests, what may be the cause, and what else differs
    #[arg(long, conflicts_with = "json")]
    pub details: bool,
    /// Show every metric that both have, not only required ones and those that differ
    #[arg(long, conflicts_with = "json")]
    pub all: bool,
    /// Compare other workloads too
    #[arg(long)]
    pub any_workload: bool,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Checked is what the result recorded of how it was measured: machine, file system, caches, aging, runs,
statistics. The guidelines are those of Traeger, Zadok, Joukov and Wright, A Nine Year Study of File
System and Storage Benchmarking (2007), section 3. Each is met, met in part, missing, only for its
author to answer, or of no concern; what is missing is told by name, with what to do about it.

Nothing is run, and no figure is judged. That the file is damaged is an error (1); that something is
missing is none (0), but with --strict (3). Whether a trace, a snapshot or a profile is whole says
`fsage show`.

Examples:
  fsage check results
  fsage check results --paragraph      # the environment, as a paper tells it
  fsage run postmark /mnt/x -o run.json && fsage check run.json --strict")]
pub struct CheckArgs {
    /// A result of `fsage bench`, `run` or `validate`: its file, or the directory that bench or validate made
    pub result: PathBuf,
    /// Exit with 3 if any guideline is missing or met in part
    #[arg(long)]
    pub strict: bool,
    /// Show every guideline: what is there, what is missing, what to do
    #[arg(long, conflicts_with = "json")]
    pub details: bool,
    /// Print only the paragraph on the environment
    #[arg(long, conflicts_with = "json")]
    pub paragraph: bool,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}
