//! Arguments of `run`, `workloads` and `run-child`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use fsage_experiment::plan::parse_time;

use super::ColdArg;

/// Arguments of `run`.
#[derive(Debug, Args)]
#[command(after_help = super::with_targets("\
A workload is NAME:PARAMETER=VALUE,... (fsage workloads lists them) or `cmd:COMMAND`, run by sh in a
directory of the target.\n\n", "\
Examples:
  fsage run postmark:config=fsl /mnt/data
  fsage run postmark:files=5000 scratch:xfs --for 30s --json
  fsage run postmark --to-trace mail.fst && fsage predict mail.fst --on ext4.fsp"))]
pub struct RunArgs {
    /// The workload
    pub workload: String,
    /// The target
    #[arg(required_unless_present = "to_trace", conflicts_with = "to_trace")]
    pub target: Option<String>,
    /// Run phases last this long, whatever the parameters count
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time, conflicts_with_all = ["to_trace", "operations"])]
    pub duration: Option<Duration>,
    /// Run phases end after N operations of each stream, whatever the parameters count
    #[arg(long = "ops", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub operations: Option<u64>,
    /// Where random choices start
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// How much more of a model: users at once, data before the run, time that it takes
    #[arg(long, value_name = "users=N,data=X,time=X")]
    pub scale: Option<String>,
    /// Only the phases of this role; run and teardown need a directory that setup has kept
    #[arg(long, value_enum)]
    pub role: Option<RoleArg>,
    /// How to make caches cold before phases that ask for it
    #[arg(long, value_enum, default_value = "auto")]
    pub cold: ColdArg,
    /// How much of what is written can be compressed, in hundredths
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub compressible: u8,
    /// Keep the directory that was made
    #[arg(long)]
    pub keep: bool,
    /// Write every operation with what it took as a trace, phase after phase
    #[arg(long, value_name = "OUT", conflicts_with = "to_trace")]
    pub trace: Option<PathBuf>,
    /// Write the workload as a trace instead of running it
    #[arg(long, value_name = "OUT", conflicts_with_all = ["keep", "json", "output"])]
    pub to_trace: Option<PathBuf>,
    /// Write the result as JSON; - is stdout
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `workloads`.
#[derive(Debug, Args)]
pub struct WorkloadsArgs {
    /// Only this one
    pub name: Option<String>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// What a phase of a workload is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RoleArg {
    /// Make what the run needs
    Setup,
    /// What is measured
    Run,
    /// Remove what the others made
    Teardown,
}

impl From<RoleArg> for fsage_workload::Role {
    fn from(role: RoleArg) -> Self {
        match role {
            RoleArg::Setup => Self::Setup,
            RoleArg::Run => Self::Run,
            RoleArg::Teardown => Self::Teardown,
        }
    }
}

/// Arguments of `run-child`.
#[derive(Debug, Args)]
pub struct RunChildArgs {
    /// Stay on this CPU
    #[arg(long)]
    pub cpu: Option<usize>,
    /// Only the phases of this role
    #[arg(long, value_enum)]
    pub role: Option<RoleArg>,
    /// The workload
    pub workload: String,
    /// The directory
    pub dir: PathBuf,
}
