//! `fsage run-child`: a generated workload in this process, so that it can be traced from outside.

use anyhow::{Context, Result, bail};
use fsage_exec::{Options, run_direct};
use fsage_host::{ColdPolicy, Confinement, HostFs, HostOptions};
use fsage_workload::WorkloadSpec;

use crate::args::RunChildArgs;
use crate::exit::{Exit, UsageError};

pub fn run(args: &RunChildArgs) -> Result<Exit> {
    let spec: WorkloadSpec = args.workload.parse().context("read the workload")?;
    let Some(mut source) = spec.source() else {
        return Err(UsageError(format!("{spec} is a command; run it as one")).into());
    };
    let options = HostOptions {
        confinement: Confinement::Trusted,
        cold: ColdPolicy::Auto,
    };
    let fs = HostFs::open(&args.dir, options)?;
    let result = run_direct(&fs, source.as_mut(), &Options::default())?;
    if let Some(errno) = result.first_error {
        bail!(
            "run {spec}: {} operations did not end as expected, the first with: {errno}",
            result.unexpected
        );
    }
    Ok(Exit::Done)
}
