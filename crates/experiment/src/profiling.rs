//! A target that ends up as a system profile.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use fsage_core::{ColdPolicy, Confinement, FsOptions, Root, Target, TargetError, TargetSpec};
use fsage_format::profile::SystemProfile;
use fsage_host::{HostFs, thread};
use fsage_profile::{ProfileError, ProfileRequest, Progress};

use crate::one_cpu::OneCpu;

/// Why a target could not be profiled.
#[derive(Debug, thiserror::Error)]
pub enum ProfilingError {
    /// The target cannot be used.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The measurement failed.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}

/// Profiles a target that is open, asked for as `spec`. In a directory of the user's everything happens in
/// a directory of its own, which goes even if this process is killed. With `one_cpu` the measuring
/// thread stays there, and those of the file system's journal; the profile says so.
pub fn profile_target(
    target: &dyn Target,
    spec: &dyn TargetSpec,
    cold: ColdPolicy,
    request: &ProfileRequest,
    one_cpu: Option<&OneCpu>,
    progress: &mut dyn FnMut(Progress<'_>),
    stop: &AtomicBool,
) -> Result<SystemProfile, ProfilingError> {
    let options = FsOptions {
        confinement: Confinement::Trusted,
        cold,
    };
    // Beside what a workload has aged it with, names of the suite's own could be taken.
    let own = !target.is_temporary() || target.describe().aged.is_some();
    let place = own.then(|| target.place(".fsage-profile-")).transpose()?;
    let root: &dyn Root = match &place {
        Some(place) => &**place,
        None => target,
    };
    let fs = root.file_system(options)?;
    let environment = fsage_host::target::describe(target, &spec.to_string())?;
    // Where time is computed it does not matter which CPU computes.
    let one_cpu = one_cpu.filter(|_| fs.virtual_time().is_none());
    let pinned = one_cpu.map(|one| thread::pin(one.cpu())).transpose();
    let _pinned = pinned.map_err(TargetError::from)?;
    let host = HostFs::of(root).transpose().map_err(TargetError::from)?;
    let request = ProfileRequest {
        host_dir: root.host_dir().map(Path::to_owned),
        device: host.and_then(|fs| Some(fs.device()?.name.clone())),
        own_device: target.is_temporary(),
        ..request.clone()
    };
    let mut profile = fsage_profile::run(&request, &*fs, environment, progress, stop)
        .map_err(|error| target.explain(ProfilingError::from(error)))?;
    if !stop.load(Ordering::Relaxed) {
        target.check()?;
    }
    profile.name = spec.name();
    profile.measurement.one_cpu = one_cpu.map(OneCpu::describe);
    Ok(profile)
}
