//! The kinds of targets that there are, a module each, and what `TARGET` means on the command line and in
//! plans.

mod aged;
pub mod directory;
mod mem;
mod scratch;
mod slow;

pub use aged::kept_images;

use std::sync::Arc;

use fsage_core::{Registry, Root, Target, TargetError, TargetSpec};
use fsage_host::HostFs;

static SCHEMES: Registry = Registry::new(&[
    &directory::DirectoryScheme,
    &scratch::ScratchScheme,
    &mem::MemScheme,
    &aged::AgedScheme,
    &slow::SlowScheme,
]);

/// All kinds of targets.
pub fn schemes() -> &'static Registry {
    &SCHEMES
}

/// A target that is asked for. Fails also if it is known that it cannot be opened here.
pub fn parse(text: &str) -> Result<Arc<dyn TargetSpec>, TargetError> {
    parse_with(&SCHEMES, text)
}

/// The same of other kinds.
pub fn parse_with(schemes: &Registry, text: &str) -> Result<Arc<dyn TargetSpec>, TargetError> {
    let spec = schemes.parse(text)?;
    spec.check()?;
    Ok(spec)
}

/// Whether a target of which a result has no record, and only the specification, was made for the occasion.
pub fn was_temporary(spec: &str) -> bool {
    SCHEMES.parse(spec).is_ok_and(|spec| spec.is_temporary())
}

/// The directory of a target in which a command runs; an error where it has none.
pub fn command_dir(root: &dyn Root) -> Result<&std::path::Path, TargetError> {
    root.host_dir()
        .ok_or_else(|| TargetError::refused("run a command on the target", NO_DIRECTORY))
}

/// Refuses commands for a target in which none can run; `what` is what cannot be done.
pub fn check_commands(spec: &dyn TargetSpec, what: &str) -> Result<(), TargetError> {
    if spec.has_host_dir() {
        return Ok(());
    }
    let what = format!("{what} on {spec}");
    Err(TargetError::refused(what, NO_DIRECTORY))
}

const NO_DIRECTORY: &str =
    "the target has no directory on this machine, expected one that has, or a generated workload";

/// The name of the device that a target has to itself.
pub(crate) fn own_device(target: &dyn Target) -> Option<String> {
    let fs = HostFs::of(target).filter(|_| target.is_temporary())?.ok()?;
    fs.device().map(|device| device.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_read_back_as_they_are_written() {
        for text in [
            "scratch:ext4,size=1G",
            "slow:read=32,lookup=4:scratch:ext4,size=1G,mount=noatime,data=journal",
            "slow:none:scratch:xfs",
            "slow:all=4:/",
        ] {
            let spec = parse(text).unwrap();
            assert_eq!(
                parse(&spec.to_string()).unwrap().to_string(),
                spec.to_string()
            );
            assert_eq!(spec.is_temporary(), text.contains("scratch"), "{text}");
            assert_eq!(was_temporary(text), spec.is_temporary(), "{text}");
            assert!(spec.has_host_dir() && !spec.has_virtual_time());
        }
        let slow = parse("slow:read=32:scratch:ext4,size=1G").unwrap();
        assert_eq!(slow.to_string(), "slow:read=32:scratch:ext4,size=1G");
        assert_eq!(slow.size_bytes(), Some(1 << 30));
        assert!(slow.images().is_some() && parse("slow:all=2:/").unwrap().images().is_none());
        let named = parse("slow:read=32:scratch:ext4,name=slow reads").unwrap();
        assert_eq!(named.name(), "slow reads");
        assert_eq!(parse(&named.to_string()).unwrap().name(), "slow reads");
        assert_eq!(
            parse("scratch:xfs,size=1G").unwrap().name(),
            "scratch:xfs,size=1G"
        );
        for text in [
            "fast one=mem:fast",
            "a=/",
            "b=slow:read=32:scratch:ext4,size=1G",
        ] {
            let named = parse(text).unwrap();
            assert_eq!(
                (named.to_string(), named.name()),
                (text.into(), text.split('=').next().unwrap().into())
            );
            named.check().unwrap();
        }
        let directory = schemes().parse("./a=b").unwrap();
        assert_eq!(directory.given_name(), None);
        assert!(directory.check().is_err(), "there is none");
        let place = schemes().parse("./slow:x").unwrap();
        assert_eq!((place.is_temporary(), place.uses().len()), (false, 1));
    }

    #[test]
    fn what_is_no_target_is_reported() {
        for (text, said) in [
            ("slow:", "slow:SLOWING:TARGET"),
            ("slow:read=32", "slow:SLOWING:TARGET"),
            ("slow::scratch:ext4", "slow:none:TARGET"),
            ("slow:scratch:ext4", "'scratch' is not OPERATION=FACTOR"),
            ("slow:reads=2:/", "unknown operation 'reads'"),
            ("slow:read=0.5:/", "a factor from 1"),
            ("slow:read=2:slow:read=2:/", "not slowed itself"),
            ("slow:read=2:scratch:ext4,fast", "fast"),
            ("scratch:ext4,on=disk:floppy", "hdd-7200"),
            ("aged:", "expected an image"),
            ("aged:x.fsi,size=1G", "the image's own"),
            ("aged:,on=scratch:ext4", "expected an aging workload"),
            ("aged:/none.fsi,on=ram", "none.fsi"),
            ("nfs://x", "called `nfs`, expected one of DIR scratch:KIND,"),
            (
                "nfs://x",
                "slow:OPERATION=FACTOR,…:TARGET; write ./nfs://x for a directory",
            ),
            ("slow:read=2:nfs://x", "called `nfs`"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
        assert!(!was_temporary("nfs://x"));
    }
}
