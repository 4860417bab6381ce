//! One experiment in a directory of results at a time: two would mix their runs.

use std::fs::File;
use std::path::Path;

use fsage_format::FormatError;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// Keeps others of fsage's from working in a directory until it is dropped. Fails if one does.
pub(crate) fn alone(dir: &Path) -> Result<File, FormatError> {
    let file = File::open(dir).map_err(|e| FormatError::io("open", dir, e))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => Err(FormatError::unwritable(
            dir,
            "it is in use by another fsage; expected a directory of its own",
        )),
        Err(other) => Err(FormatError::io("lock", dir, other.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_refused_until_the_first_is_done() {
        let dir = tempfile::tempdir().unwrap();
        let first = alone(dir.path()).unwrap();
        let error = alone(dir.path()).unwrap_err().to_string();
        assert!(error.contains("in use by another fsage"), "{error}");
        drop(first);
        alone(dir.path()).unwrap();
    }
}
