//! The oracle as a target: a file system in memory whose costs are stated (docs/mem.md).

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use fsage_core::target::{Description, Subdirectory};
use fsage_core::{
    FileSystem, FsOptions, Place, Registry, Root, Scheme, Target, TargetError, TargetSpec,
};
use fsage_format::bounded;
use fsage_mem::{MemFs, Truth};

const PREFIX: &str = "mem:";
/// No truth is longer.
const MOST_BYTES: u64 = 1 << 20;

pub(super) struct MemScheme;

impl Scheme for MemScheme {
    fn prefix(&self) -> &'static str {
        PREFIX
    }

    fn form(&self) -> &'static str {
        "mem:NAME"
    }

    fn help(&self) -> &'static str {
        "in memory, its costs stated: mem:fast, mem:disk, mem:tiny or mem:FILE.toml"
    }

    fn parse(&self, rest: &str, _: &Registry) -> Result<Arc<dyn TargetSpec>, TargetError> {
        let known = is_built_in(rest);
        // A name without a dot is one of fsage's own, as those of disks are.
        if !known && !rest.contains('.') {
            let names: Vec<&str> = Truth::BUILT_IN.iter().map(|(name, _)| *name).collect();
            let expected = format!("expected one of {} or FILE.toml", names.join(", "));
            return Err(TargetError::refused(
                format!("read `{PREFIX}{rest}`"),
                expected,
            ));
        }
        Ok(Arc::new(Spec(rest.to_owned())))
    }
}

fn is_built_in(name: &str) -> bool {
    Truth::BUILT_IN.iter().any(|(known, _)| *known == name)
}

/// The name of a truth, or its file.
#[derive(Debug)]
struct Spec(String);

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.0)
    }
}

impl Spec {
    fn truth(&self) -> Result<Truth, TargetError> {
        let Self(name) = self;
        if let Some(truth) = Truth::built_in(name) {
            return Ok(truth);
        }
        let failed = |e| TargetError::Failed(Box::new(e));
        let text = bounded::read(name.as_ref(), MOST_BYTES, "a truth in TOML").map_err(failed)?;
        let text = String::from_utf8_lossy(&text);
        Truth::parse(name, &text).map_err(|e| TargetError::Failed(Box::new(e)))
    }
}

impl TargetSpec for Spec {
    fn is_temporary(&self) -> bool {
        true
    }

    fn has_virtual_time(&self) -> bool {
        true
    }

    fn can_be_cold(&self) -> bool {
        self.truth().is_ok_and(|truth| truth.disk.is_some())
    }

    fn uses(&self) -> Vec<PathBuf> {
        (!is_built_in(&self.0))
            .then(|| self.0.clone().into())
            .into_iter()
            .collect()
    }

    fn size_bytes(&self) -> Option<u64> {
        let truth = self.truth().ok()?;
        Some(truth.space.total_mib << 20)
    }

    fn check(&self) -> Result<(), TargetError> {
        self.truth().map(drop)
    }

    fn open(&self) -> Result<Box<dyn Target>, TargetError> {
        let fs = MemFs::new(&self.to_string(), self.truth()?);
        Ok(Box::new(MemTarget(Arc::new(fs))))
    }
}

#[derive(Debug)]
struct MemTarget(Arc<MemFs>);

impl Root for MemTarget {
    fn file_system(&self, _: FsOptions) -> Result<Arc<dyn FileSystem>, TargetError> {
        Ok(Arc::clone(&self.0) as Arc<dyn FileSystem>)
    }
}

impl Target for MemTarget {
    fn is_temporary(&self) -> bool {
        true
    }

    fn describe(&self) -> Description {
        let truth = self.0.truth();
        let table = toml::Table::try_from(truth).unwrap_or_default();
        Description {
            file_system: Some("mem".to_owned()),
            parameters: parameters("", table),
            in_memory: truth.disk.is_none(),
            ..Description::default()
        }
    }

    fn place(&self, prefix: &str) -> Result<Box<dyn Place>, TargetError> {
        let all = Arc::clone(&self.0) as Arc<dyn FileSystem>;
        let made = Subdirectory::create(all, prefix)?;
        let fs = self.0.below(made.path()).map_err(|errno| {
            TargetError::refused(format!("open a directory of {}", self.0.name()), errno)
        })?;
        Ok(Box::new(MemPlace {
            fs: Arc::new(fs),
            made: Box::new(made),
        }))
    }

    fn close(self: Box<Self>) -> Result<(), TargetError> {
        Ok(())
    }
}

/// What a truth states, a value each, by the keys that lead to it.
fn parameters(above: &str, table: toml::Table) -> BTreeMap<String, String> {
    let mut named = BTreeMap::new();
    for (key, value) in table {
        let key = format!("{above}{key}");
        match value {
            toml::Value::Table(inner) => named.extend(parameters(&format!("{key}."), inner)),
            value => drop(named.insert(key, value.to_string())),
        }
    }
    named
}

/// A directory whose paths begin in it: no name above it is looked up.
#[derive(Debug)]
struct MemPlace {
    fs: Arc<MemFs>,
    made: Box<Subdirectory>,
}

impl Root for MemPlace {
    fn file_system(&self, _: FsOptions) -> Result<Arc<dyn FileSystem>, TargetError> {
        Ok(Arc::clone(&self.fs) as Arc<dyn FileSystem>)
    }
}

impl Place for MemPlace {
    fn clear(&self) -> Result<(), TargetError> {
        self.made.clear()
    }

    fn keep(self: Box<Self>) -> PathBuf {
        self.made.keep()
    }
}

#[cfg(test)]
mod tests {
    use fsage_core::{Errno, FsOptions, OpenFlags};

    use super::super::{parse, schemes};

    #[test]
    fn a_truth_is_named_or_a_file() {
        for name in ["mem:fast", "mem:disk", "mem:tiny"] {
            let spec = parse(name).unwrap();
            assert_eq!((spec.to_string(), spec.name()), (name.into(), name.into()));
            assert!(spec.is_temporary() && spec.has_virtual_time() && !spec.has_host_dir());
            assert!(spec.uses().is_empty() && spec.size_bytes() > Some(1 << 30));
        }
        let error = parse("mem:fat").unwrap_err().to_string();
        assert!(error.contains("fast, disk, tiny or FILE.toml"), "{error}");
        // What results name may be gone.
        assert!(schemes().parse("mem:gone.toml").is_ok());
        let error = parse("mem:gone.toml").unwrap_err().to_string();
        assert!(error.contains("gone.toml"), "{error}");
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("own.toml");
        let (_, text) = fsage_mem::Truth::BUILT_IN[0];
        std::fs::write(&file, text).unwrap();
        let own = format!("mem:{}", file.display());
        assert_eq!(parse(&own).unwrap().uses(), std::slice::from_ref(&file));
        std::fs::write(&file, text.replacen("open_ns", "opens_ns", 1)).unwrap();
        let error = parse(&own).unwrap_err().to_string();
        assert!(
            error.contains("own.toml") && error.contains("opens_ns"),
            "{error}"
        );
    }

    #[test]
    fn paths_of_a_place_begin_in_it() {
        let open = parse("mem:disk").unwrap().open().unwrap();
        let root = open.file_system(FsOptions::default()).unwrap();
        let place = open.place("p-").unwrap();
        let fs = place.file_system(FsOptions::default()).unwrap();
        let took = |path: &[u8], fs: &dyn fsage_core::FileSystem| {
            let before = fs.clock().now_ns();
            fs.stat(path).unwrap();
            fs.clock().now_ns() - before
        };
        let file = fs.open(b"f", OpenFlags::CREATE_NEW, 0o600).unwrap();
        fs.close(file).unwrap();
        assert!(root.stat(b"p-0/f").is_ok());
        assert_eq!(fs.stat(b"../p-0/f"), Err(Errno::EXDEV));
        assert!(took(b"f", &*fs) < took(b"p-0/f", &*root));
        place.clear().unwrap();
        assert_eq!(fs.stat(b"f"), Err(Errno::ENOENT));
        drop(place);
        assert_eq!(root.stat(b"p-0"), Err(Errno::ENOENT));
    }
}
