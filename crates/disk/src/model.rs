//! Where models come from: fsage's own by name, the user's by path.

use std::io::Read;
use std::path::Path;

use fsage_sim::{BUILT_IN, DiskModel, ModelError, built_in};

use crate::EmulatedDiskError;

/// Longer files are no disk models.
const LONGEST_FILE: u64 = 1 << 20;

/// A model and where it came from.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelSource {
    /// The model.
    pub model: DiskModel,
    /// Its text, with its comments.
    pub text: String,
}

/// The model of a name, or of a file if the name ends in `.toml`.
pub fn find(name: &str) -> Result<ModelSource, EmulatedDiskError> {
    if Path::new(name).extension().is_none_or(|e| e != "toml") {
        let model = built_in(name)?;
        let text = BUILT_IN.iter().find(|(n, _)| *n == name).map(|(_, t)| *t);
        let text = text.unwrap_or_default().to_owned();
        return Ok(ModelSource { model, text });
    }
    let failed = |e: std::io::Error| EmulatedDiskError::io(format!("read disk model {name}"), e);
    let mut text = String::new();
    // What its length says is not trusted: a device or a pipe has none.
    let mut file = std::fs::File::open(name)
        .map_err(failed)?
        .take(LONGEST_FILE + 1);
    file.read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > LONGEST_FILE {
        return Err(ModelError::Syntax {
            file: name.to_owned(),
            problem: format!("it goes on, expected at most {LONGEST_FILE} bytes"),
        }
        .into());
    }
    let model = DiskModel::parse(&text, name)?;
    Ok(ModelSource { model, text })
}
