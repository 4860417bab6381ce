//! `fsage run-child`: a workload in this process, so that it can be traced from outside and kept on a
//! CPU.

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result, bail};
use fsage_core::FsOptions;
use fsage_exec::{Options, run_direct};
use fsage_experiment::inputs;
use fsage_experiment::target::directory;
use fsage_host::thread;
use fsage_workload::{Length, WorkloadSpec};

use crate::args::RunChildArgs;
use crate::exit::Exit;

pub fn run(args: &RunChildArgs) -> Result<Exit> {
    let spec: WorkloadSpec = args.workload.parse().context("read the workload")?;
    fsage_host::guard::adopt(&args.dir)?;
    // Kept by a command that replaces this process, and by what that starts.
    let _pinned = args.cpu.map(thread::pin).transpose()?;
    if let Some(text) = spec.command() {
        let mut command = Command::new("/bin/sh");
        fsage_host::guard::stand_in(&mut command, &args.dir)?;
        let error = command.args(["-c", text]).exec();
        return Err(error).context("run /bin/sh");
    }
    let inputs = inputs::load(&spec, Length::Count)?;
    let program = spec.program(&inputs)?;
    let fs = directory::open(&args.dir)?.file_system(FsOptions::TRUSTED)?;
    let program = match args.role {
        Some(role) => program.only(role.into()),
        None => program,
    };
    for (number, phase) in program.phases.into_iter().enumerate() {
        // The first one finds caches as whoever started this has made them. Where they cannot be made cold they
        // are as they are.
        if phase.cold && number > 0 {
            let _ = fs.platform().make_cold();
        }
        let result = run_direct(&*fs, phase.streams, &Options::default())?;
        if let Some(errno) = result.first_error {
            bail!(
                "run {spec}: {} operations of phase '{}' did not end as expected, the first with: \
                 {errno}",
                result.unexpected,
                phase.name
            );
        }
    }
    Ok(Exit::Done)
}
