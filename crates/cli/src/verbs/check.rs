//! `fsage check`.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use fsage_experiment::check::{Evidence, check};
use fsage_experiment::validate::kept::target_profile;
use fsage_format::profile::SystemProfile;
use fsage_format::result::experiment::{EXPERIMENT_FILE, EXPERIMENT_FORMAT, Experiment};
use fsage_format::result::load;
use fsage_format::result::run::RUN_FORMAT;
use fsage_format::result::validation::{VALIDATION_FILE, VALIDATION_FORMAT, Validation};
use fsage_format::{FormatError, bounded};
use fsage_report::{compliance, environment};
use serde::Deserialize;

use crate::args::CheckArgs;
use crate::exit::Exit;
use crate::out;

const EXPECTED: &str = "a result of fsage bench, run or validate";

pub fn run(args: &CheckArgs) -> Result<Exit> {
    let evidence = evidence(&args.result)?;
    let targets: Vec<_> = evidence
        .targets
        .iter()
        .filter_map(|t| t.record.as_ref())
        .collect();
    let paragraph = environment::paragraph(evidence.machine.as_ref(), &targets);
    let found = check(&args.result.display().to_string(), &evidence, paragraph);
    if args.paragraph {
        out::text(&(found.paragraph.clone() + "\n"))?;
    } else if args.json {
        out::json(&found)?;
    } else {
        out::text(&compliance::text(&found, args.details, out::width()))?;
    }
    let lacking = found.partly + found.missing > 0;
    Ok(if args.strict && lacking {
        Exit::Incomplete
    } else {
        Exit::Done
    })
}

fn evidence(path: &Path) -> Result<Evidence> {
    let (file, format) = format_of(path)?;
    Ok(match format.as_str() {
        EXPERIMENT_FORMAT => Evidence::of_experiment(&Experiment::load(&file)?),
        RUN_FORMAT => Evidence::of_run(&load(&file)?),
        VALIDATION_FORMAT => {
            let found: Validation = load(&file)?;
            Evidence::of_validation(&found, &profiles(&file, found.targets.len())?)
        }
        other => return Err(wrong_kind(&file, other, EXPECTED).into()),
    })
}

/// The profiles that lie beside a validation: they tell its machine. None where it was moved away.
fn profiles(file: &Path, targets: usize) -> Result<Vec<SystemProfile>> {
    let beside = |target: usize| file.with_file_name(target_profile(target));
    let there = (0..targets).map(beside).filter(|path| path.exists());
    Ok(there
        .map(|path| SystemProfile::load(&path))
        .collect::<Result<_, _>>()?)
}

/// The file of a result, and what its field `format` says.
pub(super) fn format_of(path: &Path) -> Result<(PathBuf, String)> {
    #[derive(Deserialize)]
    struct Head {
        format: Option<String>,
    }
    let mut file = path.to_owned();
    if path.is_dir() {
        let names = [EXPERIMENT_FILE, VALIDATION_FILE];
        let found = names
            .iter()
            .map(|name| path.join(name))
            .find(|f| f.exists());
        let Some(found) = found else {
            bail!(
                "read {}: it has neither {EXPERIMENT_FILE} nor {VALIDATION_FILE}, expected a directory that \
                 fsage bench or validate made; one that was stopped has it once `--resume` has ended",
                path.display()
            );
        };
        file = found;
    }
    let bytes = bounded::read_document(&file, "a result of fsage bench, run or validate (JSON)")?;
    let head: Head = serde_json::from_slice(&bytes).map_err(|e| {
        let problem = if e.is_eof() {
            let length = bytes.len();
            format!("the file ends in the middle of its JSON, after {length} bytes: it was cut")
        } else {
            e.to_string()
        };
        FormatError::corrupt(&file, format!("line {}", e.line()), problem)
    })?;
    Ok((file, head.format.unwrap_or_default()))
}

/// The error for a result of another kind.
pub(super) fn wrong_kind(file: &Path, format: &str, expected: &'static str) -> FormatError {
    let found = match format {
        "" => "JSON without a field 'format'".to_owned(),
        format => format!("JSON of the format '{format}'"),
    };
    FormatError::WrongKind {
        path: file.to_owned(),
        found,
        expected,
    }
}
