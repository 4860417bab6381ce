//! Profiles a directory or a scratch file system (`scratch:ext4`) and writes the profile as JSON:
//! `profile_dir TARGET OUT [--quick] [METRIC,...]`.
#![allow(clippy::print_stderr, reason = "an example talks to its user")]

use std::path::Path;
use std::sync::atomic::AtomicBool;

use fsage_format::profile::Environment;
use fsage_host::{Confinement, HostFs, HostOptions, Scratch, environment};
use fsage_profile::{ProfileRequest, run};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (Some(target), Some(out)) = (args.first(), args.get(1)) else {
        return Err("expected TARGET OUT [--quick] [METRIC,...]".into());
    };
    let quick = args.iter().any(|a| a == "--quick");
    let only = args.iter().skip(2).find(|a| !a.starts_with("--"));
    let only = only.map_or(Vec::new(), |o| o.split(',').map(str::to_owned).collect());
    let scratch = match target.strip_prefix("scratch:") {
        Some(_) => Some(Scratch::create(&target.parse()?)?),
        None => None,
    };
    let dir = scratch.as_ref().map_or(Path::new(target), Scratch::dir);
    let options = HostOptions {
        confinement: Confinement::Trusted,
        ..HostOptions::default()
    };
    let fs = HostFs::open(dir, options)?;
    let environment = Environment {
        machine: environment::machine(),
        target: environment::target(&fs, target),
    };
    let request = ProfileRequest {
        quick,
        only,
        seed: 1,
        host_dir: Some(fs.dir().to_owned()),
        device: fs.device().map(|d| d.name.clone()),
        ..ProfileRequest::default()
    };
    let stop = AtomicBool::new(false);
    let mut report = |p: fsage_profile::Progress<'_>| {
        let left = p.left.eta_s.map(|s| format!(" ({s:.0} s left)"));
        eprintln!(
            "{}/{} {}{}",
            p.done,
            p.total,
            p.metric,
            left.unwrap_or_default()
        );
    };
    let profile = run(&request, &fs, environment, &mut report, &stop)?;
    eprintln!(
        "{} metrics, {} absent",
        profile.metrics.len(),
        profile.absent.len()
    );
    profile.save(Path::new(out))?;
    Ok(())
}
