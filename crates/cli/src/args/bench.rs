//! Arguments of `bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fsage_experiment::plan::bench::parse_share;
use fsage_experiment::plan::{Caches, parse_time};

/// Arguments of `bench`.
#[derive(Debug, Args)]
#[command(after_help = "\
A plan names targets and workloads; every workload is measured on every target, in each state of the
caches, with each value of the parameters that it varies:

  seed = 1                            # the order of the runs, which are interleaved
  min_runs = 10                       # or `runs = 20` for exactly so many
  max_runs = 30
  precision = \"5%\"                    # half-width of the 95 % interval, of each required metric
  required = [\"elapsed\", \"system\"]    # any that docs/bench.md lists
  budget = \"1h\"                       # the longest that all runs together may take
  rounds = 5                          # spread over time, `round_pause = \"30s\"` apart
  cache = [\"cold\", \"warm 1\"]          # or \"as found\"
  keep_going = true                   # a run that fails is recorded and passed over

  [[target]]
  name = \"ext4\"
  spec = \"scratch:ext4,size=1G\"       # made anew for each run; a directory is taken as found
  # state = \"image:aged.img\"         # a copy for each run; or \"snapshot:FILE.fss\"

  [[workload]]
  name = \"PostMark\"
  spec = \"postmark:transactions=5000\"
  [workload.sweep]
  files = [100, 1000]

Each run: mkfs and mount, setup, cold caches (verified), settle, run, collect, teardown. It is on disk
before the next begins: after a kill, --resume goes on without repeating or losing any.

A plan that holds commands (cmd:, setup), or paths outside of its own directory, needs --allow-commands
or --allow-paths, also with --resume: read a stranger's plan before you run it.

A command without a plan runs in the working directory with the caches as they are; with --target in a
directory of its own there, cold. One argument is a line of shell; several are a program and its
arguments, started without a shell.

Examples:
  fsage bench examples/bench-small.toml -o results
  fsage bench --resume -o results
  fsage bench -o results -- make -j2
  fsage bench --target scratch:xfs --setup 'cp -r /usr/include tree' -- 'grep -r main tree | wc -l'")]
pub struct BenchArgs {
    /// The plan; with --resume the one that DIR holds
    #[arg(value_name = "PLAN.toml", required_unless_present_any = ["command", "resume"])]
    pub plan: Option<PathBuf>,
    /// What the plan may do
    #[command(flatten)]
    pub allow: super::AllowArgs,
    /// Exactly N runs of each configuration
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), conflicts_with_all = ["min_runs", "max_runs"])]
    pub runs: Option<u32>,
    /// No fewer runs of each configuration [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub min_runs: Option<u32>,
    /// No more runs of each configuration [default: 30]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub max_runs: Option<u32>,
    /// The half-width to reach, as a share of the mean [default: 5%]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub precision: Option<f64>,
    /// A metric that is to become so precise (may be repeated) [default: elapsed]
    #[arg(long, value_name = "METRIC")]
    pub required: Vec<String>,
    /// The longest that all runs together may take [default: 2h]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub budget: Option<Duration>,
    /// Spread the fewest runs over so many rounds, with a pause before each: intervals then hold how the machine differs
    /// from one minute to the next [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// How long nothing is measured before each further round [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub round_pause: Option<Duration>,
    /// Where the random order of runs starts [default: 1]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Record a run that fails and go on with the others
    #[arg(long)]
    pub keep_going: bool,
    /// Keep what is measured and, as root, the kernel's work for it (workqueues of the whole machine,
    /// until the end) on one CPU
    #[arg(long)]
    pub one_cpu: bool,
    /// Go on with the experiment that DIR holds; one that is over is reported again
    #[arg(long, requires = "output")]
    pub resume: bool,
    /// Try configurations again that were given up because runs failed
    #[arg(long, requires = "resume")]
    pub retry_failed: bool,
    /// Keep the record of the runs (runs.jsonl) and the result (experiment.json) in DIR
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Show everything, not only the answer
    #[arg(long)]
    pub details: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    /// Of a command: the directory or scratch file system that it runs in
    #[arg(long, value_name = "T", requires = "command")]
    pub target: Option<String>,
    /// Of a command: what prepares the directory of each run, unmeasured
    #[arg(long, value_name = "COMMAND", requires = "command")]
    pub setup: Option<String>,
    /// Of a command: cold, 'warm N' or 'as found'
    #[arg(long, value_name = "STATE", requires = "command", value_parser = |text: &str| text.parse::<Caches>())]
    pub cache: Option<Caches>,
    /// The command to measure
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["plan", "resume"])]
    pub command: Vec<String>,
}

fn share(text: &str) -> Result<f64, String> {
    parse_share(text).ok_or_else(|| "expected a share such as 5% or 0.05, under 1".into())
}
