//! A target that ends up as a system profile.

use std::sync::atomic::{AtomicBool, Ordering};

use fsage_format::profile::SystemProfile;
use fsage_host::guard::GuardedDir;
use fsage_host::{ColdPolicy, Confinement, HostError, HostFs, HostOptions, machine, thread};
use fsage_profile::{ProfileError, ProfileRequest, Progress};

use crate::one_cpu::{self, OneCpu};
use crate::target::{OpenTarget, told_name};

/// Why a target could not be profiled.
#[derive(Debug, thiserror::Error)]
pub enum ProfilingError {
    /// The target cannot be used.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The measurement failed.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}

/// Profiles an open target that is called `name`. In a directory of the user's everything happens in
/// a directory of its own, which goes even if this process is killed. With `one_cpu` the measuring
/// thread stays there, and those of the file system's journal; the profile's environment says so.
pub fn profile_target(
    target: &OpenTarget,
    name: &str,
    cold: ColdPolicy,
    request: &ProfileRequest,
    one_cpu: Option<&OneCpu>,
    progress: &mut dyn FnMut(Progress<'_>),
    stop: &AtomicBool,
) -> Result<SystemProfile, ProfilingError> {
    let options = HostOptions {
        confinement: Confinement::Trusted,
        cold,
    };
    let guarded = match target.record() {
        Some(_) => None,
        None => Some(GuardedDir::create(target.dir(), ".fsage-profile-")?),
    };
    let fs = match &guarded {
        Some(dir) => HostFs::open(dir.path(), options)?,
        None => target.file_system(options)?,
    };
    let mut environment = machine::describe(&fs, name, target.record());
    if let Some(one) = one_cpu {
        environment
            .extra
            .insert(one_cpu::ENTRY.into(), one.describe());
    }
    let _pinned = one_cpu.map(|one| thread::pin(one.cpu())).transpose()?;
    let request = ProfileRequest {
        host_dir: Some(fs.dir().to_owned()),
        device: fs.device().map(|device| device.name.clone()),
        own_device: target.record().is_some(),
        ..request.clone()
    };
    let mut profile = fsage_profile::run(&request, &fs, environment, progress, stop)
        .map_err(|error| target.explain(ProfilingError::from(error)))?;
    if !stop.load(Ordering::Relaxed) {
        target.check()?;
    }
    profile.name = told_name(name);
    Ok(profile)
}
