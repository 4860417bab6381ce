//! What a workload needs from outside, read before it is built.

use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use fsage_workload::{
    EntryKind, InputPath, Inputs, Length, SourceTree, Text, TreeEntry, WorkloadSpec,
};

/// A file larger than this is no description of a workload.
const LARGEST_TEXT: u64 = 16 << 20;

/// A tree with more files than this is not read; its names alone would fill memory.
const MOST_ENTRIES: usize = 10_000_000;

/// Why an input could not be read; completes "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// Something could not be read.
    #[error("read {path} for the workload", path = path.display())]
    Io {
        /// What.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It is not what the workload can use.
    #[error("use {path} for the workload: {why}", path = path.display())]
    Unfit {
        /// What.
        path: PathBuf,
        /// Why, and what was expected.
        why: String,
    },
}

/// Reads everything that a workload needs.
pub fn load(spec: &WorkloadSpec, length: Length) -> Result<Inputs, InputError> {
    let mut inputs = Inputs {
        length,
        ..Inputs::default()
    };
    for need in spec.needs() {
        match need {
            InputPath::Tree(dir) => inputs.tree = Some(tree(&dir)?),
            InputPath::Text(file) => inputs.text = Some(text(&file)?),
            // Known once the target is open.
            InputPath::Target { .. } => {}
        }
    }
    Ok(inputs)
}

fn text(path: &Path) -> Result<Text, InputError> {
    let io = |source| InputError::Io {
        path: path.to_owned(),
        source,
    };
    let about = std::fs::metadata(path).map_err(io)?;
    let unfit = |why: String| InputError::Unfit {
        path: path.to_owned(),
        why,
    };
    if !about.is_file() || about.len() > LARGEST_TEXT {
        return Err(unfit("expected a text file of at most 16 MiB".into()));
    }
    let content = String::from_utf8(std::fs::read(path).map_err(io)?).map_err(|e| {
        let valid = e.as_bytes().iter().take(e.utf8_error().valid_up_to());
        let line = 1 + valid.fold(0, |n, &b| n + u64::from(b == b'\n'));
        unfit(format!("line {line} is not UTF-8 text"))
    })?;
    Ok(Text {
        name: path.display().to_string(),
        content,
    })
}

/// The tree below a directory: links are not followed, devices and sockets are left out.
fn tree(root: &Path) -> Result<SourceTree, InputError> {
    let mut entries = Vec::new();
    // Directories whose entries are still to come, deepest and last first.
    let mut open = vec![PathBuf::new()];
    while let Some(below) = open.pop() {
        // Joined with nothing, a path would end in a slash.
        let dir = if below.as_os_str().is_empty() {
            root.to_owned()
        } else {
            root.join(&below)
        };
        let io = |source| InputError::Io {
            path: dir.clone(),
            source,
        };
        for entry in std::fs::read_dir(&dir).map_err(io)? {
            let entry = entry.map_err(io)?;
            let path = below.join(entry.file_name());
            let about = entry.metadata().map_err(io)?;
            let kind = if about.is_dir() {
                open.push(path.clone());
                EntryKind::Directory
            } else if about.is_file() {
                EntryKind::File {
                    size_bytes: about.len(),
                }
            } else if about.is_symlink() {
                let target = std::fs::read_link(entry.path()).map_err(io)?;
                EntryKind::Symlink {
                    target: target.into_os_string().into_vec(),
                }
            } else {
                continue;
            };
            entries.push(TreeEntry {
                path: path.into_os_string().into_vec(),
                kind,
            });
            if entries.len() > MOST_ENTRIES {
                return Err(InputError::Unfit {
                    path: root.to_owned(),
                    why: format!("expected a tree of at most {MOST_ENTRIES} files"),
                });
            }
        }
    }
    // By components, so that a directory stands before what it holds.
    entries.sort_by(|a, b| {
        a.path
            .split(|&c| c == b'/')
            .cmp(b.path.split(|&c| c == b'/'))
    });
    Ok(SourceTree { entries })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_reported_in_the_order_of_its_paths() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/b/c"), b"12345").unwrap();
        std::fs::write(root.join("a.txt"), b"").unwrap();
        std::os::unix::fs::symlink("a/b", root.join("link")).unwrap();
        let tree = tree(root).unwrap();
        let reported: Vec<(String, EntryKind)> = tree
            .entries
            .into_iter()
            .map(|e| (String::from_utf8(e.path).unwrap(), e.kind))
            .collect();
        let file = |size_bytes| EntryKind::File { size_bytes };
        let target = b"a/b".to_vec();
        assert_eq!(
            reported,
            [
                ("a".into(), EntryKind::Directory),
                ("a/b".into(), EntryKind::Directory),
                ("a/b/c".into(), file(5)),
                ("a.txt".into(), file(0)),
                ("link".into(), EntryKind::Symlink { target }),
            ]
        );
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("binary");
        std::fs::write(&file, b"fine\n\xff").unwrap();
        let said = text(&file).unwrap_err().to_string();
        assert!(said.ends_with("binary for the workload: line 2 is not UTF-8 text"));
        assert!(text(dir.path()).unwrap_err().to_string().contains("16 MiB"));
        let missing = tree(&dir.path().join("gone")).unwrap_err().to_string();
        assert!(missing.contains("gone for the workload"));
    }
}
