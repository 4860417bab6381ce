//! `fsage compare`.

use std::path::Path;

use anyhow::Result;
use fsage_experiment::compare::{Question, Stored, compare};
use fsage_format::result::experiment::{EXPERIMENT_FORMAT, Experiment};
use fsage_report::comparison;

use super::check::{format_of, wrong_kind};
use crate::args::CompareArgs;
use crate::exit::Exit;
use crate::out;

pub fn run(args: &CompareArgs) -> Result<Exit> {
    let a = load(&args.a)?;
    let b = args.b.as_deref().map(load).transpose()?;
    let question = Question {
        configurations: args.config.clone(),
        metrics: args.metric.clone(),
        any_workload: args.any_workload,
    };
    let (path_a, path_b) = (
        args.a.display().to_string(),
        args.b.as_ref().map(|b| b.display().to_string()),
    );
    let stored_a = Stored {
        path: &path_a,
        experiment: &a,
    };
    let stored_b = path_b.as_deref().zip(b.as_ref());
    let stored_b = stored_b.map(|(path, experiment)| Stored { path, experiment });
    let found = compare(stored_a, stored_b, &question)?;
    if args.json {
        out::json(&found)?;
    } else {
        out::text(&comparison::text(
            &found,
            args.details || args.all || !args.metric.is_empty(),
            args.all || !args.metric.is_empty(),
            out::width(),
        ))?;
    }
    Ok(Exit::Done)
}

fn load(path: &Path) -> Result<Experiment> {
    let (file, format) = format_of(path)?;
    if format != EXPERIMENT_FORMAT {
        return Err(wrong_kind(&file, &format, "the result of an experiment (fsage bench)").into());
    }
    Ok(Experiment::load(&file)?)
}
