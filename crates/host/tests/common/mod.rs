//! What the tests of this crate share.

#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, reason = "tests")]

use fsage_host::{Confinement, HostOptions, Scratch, ScratchSpec};

/// The file systems that are tested where they can be made, in images of little size.
pub const KINDS: [&str; 4] = [
    "ext2,size=64M",
    "ext4,size=64M",
    "xfs,size=300M",
    "btrfs,size=128M",
];

pub const TRUSTED: HostOptions = HostOptions {
    confinement: Confinement::Trusted,
    cold: fsage_host::ColdPolicy::Auto,
};
pub const HELD: HostOptions = HostOptions {
    confinement: Confinement::Held,
    cold: fsage_host::ColdPolicy::Auto,
};
pub const BENEATH: HostOptions = HostOptions {
    confinement: Confinement::Beneath,
    cold: fsage_host::ColdPolicy::Auto,
};

/// A scratch file system, or `None` after saying why it cannot be made here.
pub fn scratch(spec: &str) -> Option<Scratch> {
    if !rustix::process::geteuid().is_root() {
        fsage_testing::not_run(format_args!("scratch:{spec} needs root"));
        return None;
    }
    let spec: ScratchSpec = spec.parse().unwrap();
    match Scratch::create(&spec) {
        Ok(scratch) => Some(scratch),
        Err(
            e @ (fsage_host::HostError::MissingTool { .. }
            | fsage_host::HostError::NoKernelSupport { .. }),
        ) => {
            fsage_testing::not_run(format_args!("needs {spec}: failed to {e}"));
            None
        }
        Err(e) => panic!("failed to {e}"),
    }
}

/// Whether an image of the loop device `/dev/loopN` is still attached and is an unnamed one of a
/// scratch file system.
pub fn is_attached(device: &std::path::Path) -> bool {
    let name = device.file_name().unwrap().to_string_lossy().into_owned();
    let file = format!("/sys/block/{name}/loop/backing_file");
    std::fs::read_to_string(file).is_ok_and(|text| text.contains("(deleted)"))
}

/// Whether something is mounted at or below `dir` as this thread sees it.
pub fn is_mounted(dir: &std::path::Path) -> bool {
    fsage_host::mounts::all()
        .iter()
        .any(|m| m.dir.starts_with(dir))
}
