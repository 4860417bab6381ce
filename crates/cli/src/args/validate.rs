//! Arguments of `validate`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fsage_experiment::plan::{KeepTraces, parse_time};

use super::{AllowArgs, with_targets};

/// Arguments of `validate`.
#[derive(Debug, Args)]
#[command(after_help = with_targets("\
A workload is `postmark:files=5000,transactions=20000,...` or `cmd: COMMAND`, run by sh inside an
empty directory of each target; NAME= before it says what it is called in tables. `--setup` runs
first, unmeasured, in the same directory.\n\n", "\
Examples:
  fsage validate --workload postmark --target scratch:ext4 --target scratch:xfs
  fsage validate examples/validate-small.toml --allow-commands -o results
  fsage validate examples/validate-small.toml --allow-commands -o results --resume
  fsage validate --setup 'cp -r /usr/include tree' --workload 'cmd: grep -r main tree | wc -l' \\
      --target /mnt/a --target /mnt/b --runs 5 -o results"))]
pub struct ValidateArgs {
    /// A plan: targets, workloads and what else the options below say, which override it
    #[arg(value_name = "PLAN.toml", required_unless_present_all = ["workload", "target"],
        required_unless_present = "again")]
    pub plan: Option<PathBuf>,
    /// What the plan may do
    #[command(flatten)]
    pub allow: AllowArgs,
    /// Predict and judge again what DIR holds of a validation that has ended, without measuring
    #[arg(long, value_name = "DIR", conflicts_with_all = ["plan", "workload", "target", "output"])]
    pub again: Option<PathBuf>,
    /// A workload (may be repeated); beside a plan, the name of one of its workloads: with names
    /// alone a part of the plan is measured, and with --resume judged with what DIR holds of it
    #[arg(long, value_name = "W")]
    pub workload: Vec<String>,
    /// A target (may be repeated); beside a plan, the name of one of its targets, likewise
    #[arg(long, value_name = "T")]
    pub target: Vec<String>,
    /// Run the workloads that the plan seals, and no others: those no model was changed by
    #[arg(long, requires = "plan")]
    pub sealed: bool,
    /// A command that prepares the directory of each run, unmeasured; of workloads without their own
    #[arg(long, value_name = "COMMAND")]
    pub setup: Option<String>,
    /// Measured runs of each workload on each target [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: Option<u32>,
    /// The target whose trace is predicted from, for all [default: the first]
    #[arg(long, value_name = "T")]
    pub trace_on: Option<String>,
    /// Keep profiles, workloads and, as root, the kernel's work for them (workqueues of the whole
    /// machine, until the end) on one CPU alike: fsync costs a few times more when kernel threads run
    /// on another, which is chance otherwise
    #[arg(long)]
    pub one_cpu: bool,
    /// Full profiles instead of quick ones
    #[arg(long)]
    pub full_profile: bool,
    /// Profiles of each target, each on a file system of its own where the target is scratch
    /// [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub profiles: Option<u32>,
    /// Stop each profile after this long; what was not reached has substitutes, named as warnings
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub profile_time: Option<Duration>,
    /// Where the random order of runs starts [default: 1]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Record a profile or run that fails and go on with the others
    #[arg(long)]
    pub keep_going: bool,
    /// Go on with what DIR holds of the same plan: what it holds is not measured again
    #[arg(long, requires = "output")]
    pub resume: bool,
    /// What stays of traces and snapshots: compressed (the default), or none, and nothing for --again
    #[arg(long, value_name = "WHAT", value_parser = |t: &str| t.parse::<KeepTraces>())]
    pub keep_traces: Option<KeepTraces>,
    /// Keep traces, snapshots, profiles and results in DIR
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Show everything, not only the answer
    #[arg(long)]
    pub details: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}
