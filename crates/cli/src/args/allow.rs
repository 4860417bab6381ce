//! What a plan may do outside of its targets.

use clap::Args;
use fsage_experiment::plan::allow::Allowed;

/// What a plan may do outside of its targets; plans come from strangers.
#[derive(Debug, Args)]
pub struct AllowArgs {
    /// Let the plan run the shell commands that it holds (cmd:, setup), with your privileges
    #[arg(long)]
    pub allow_commands: bool,
    /// Let the plan use directories and files that are not below its own directory
    #[arg(long)]
    pub allow_paths: bool,
}

impl AllowArgs {
    /// As it is asked of a plan.
    pub fn allowed(&self) -> Allowed {
        Allowed {
            commands: self.allow_commands,
            paths: self.allow_paths,
        }
    }
}
