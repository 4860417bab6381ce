//! Scripts in filebench's Workload Model Language as programs (`docs/wml.md` describes what is
//! known of the language and where it differs).
//!
//! [`WORKLOAD`] is `wml:FILE`; [`personalities`] are the scripts that come with fsage, each a
//! workload of its own. A script is parsed (`fsage_format::foreign::wml`), made into filesets and
//! threads (`model`, `compile`, `tree`), and each thread is a stream (`thread`, `flowops`, `transfer`, `sync`)
//! that shares the state of the files with the others (`state`). `setup` makes the filesets, `teardown`
//! removes what the threads left.
//!
//! Always true: sizes, trees and which files exist at the start follow from script, parameters and
//! seed alone. Which file a thread picks depends, with several threads, on which comes first, as in
//! filebench; how many flowops of each kind a counted run does, does not.

mod bits;
mod code;
mod compile;
mod distribution;
mod flowops;
mod model;
pub mod personalities;
mod setup;
mod state;
mod sync;
mod teardown;
mod thread;
mod transfer;
mod tree;
mod values;

use std::sync::{Arc, Mutex};

use fsage_core::Seed;
use fsage_format::foreign::wml as format;

use crate::params::{SEED, count, file, file_needed};
use crate::program::{BuildError, Inputs, Length, Phase, Program, Role, Stream};
use crate::random::Random;
use crate::spec::Values;
use crate::table::{Parameter, Unit, Value, Workload};

use model::{Model, derived};
use setup::Setup;
use state::{Fileset, Shared};
use teardown::Teardown;
use thread::{Setting, ThreadStream};
use values::{Plain, Scope};

/// The row of the scripts of users.
pub const WORKLOAD: Workload = Workload {
    name: "wml",
    what: "a script in filebench's Workload Model Language; its variables can be given as parameters",
    good_for: "workloads that are described for filebench 1.5 or 1.4, and one's own",
    source: "filebench 1.5 (Tarasov 2016); Farhat 2017, appendices F to H",
    parameters: &[
        file("the script, or the name of one that comes with fsage"),
        count(
            "iterations",
            0,
            (0, 1_000_000_000_000),
            "how often each thread goes through its flowops; 0 for the time that the script's run names, \
             or 100 times where it names none; without meaning in a run for a time",
        ),
        SEED,
        Parameter {
            name: "VARIABLE",
            unit: Unit::Variables,
            default: Value::text(""),
            range: (0, 0),
            what: "any variable that the script sets, with its new value",
        },
    ],
    configs: &[],
    needs: |values| match personalities::find(values.text("file")) {
        Some(_) => Vec::new(),
        None => file_needed(values),
    },
    build,
};

/// How often threads go through their flowops where nobody says.
const ITERATIONS: u64 = 100;

fn build(values: &Values, inputs: &Inputs) -> Result<Program, BuildError> {
    let error = |message: String| BuildError::new(WORKLOAD.name, message);
    let file = values.text("file");
    let shipped = personalities::find(file);
    let (name, text) = match (shipped, &inputs.text) {
        (Some(text), _) => (format!("{file}.f"), text),
        (None, Some(text)) => (text.name.clone(), text.content.as_str()),
        (None, None) => {
            let known = personalities::names().join(", ");
            return Err(error(format!(
                "no script is given, expected wml:FILE or wml:NAME with a name of {known}"
            )));
        }
    };
    let variables = values.text("VARIABLE").split(',').filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    });
    let options = Options {
        variables: variables.collect(),
        iterations: values.number("iterations"),
        length: inputs.length,
        seed: Seed(values.number("seed")),
    };
    program(&name, text, &options).map_err(error)
}

/// What a script is run with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Variables that replace what the script sets, as text: `4k`, `true`, a word.
    pub variables: Vec<(String, String)>,
    /// How often each thread goes through its flowops in a run for a count; 0 for what the script says,
    /// or [`ITERATIONS`] times.
    pub iterations: u64,
    /// How long the run goes on.
    pub length: Length,
    /// Where every random sequence starts.
    pub seed: Seed,
}

/// What a script says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Outline {
    /// Its variables with their values as they are when it runs; random ones have none.
    pub variables: Vec<(String, Option<String>)>,
    /// The seconds that its `run` names.
    pub run_seconds: Option<f64>,
    /// The names of its threads.
    pub threads: Vec<String>,
}

fn model(name: &str, text: &str, options: &Options) -> Result<Model, String> {
    let script = format::parse(text.as_bytes(), name.as_ref()).map_err(|e| {
        let text = e.to_string();
        text.strip_prefix("read ").unwrap_or(&text).to_owned()
    })?;
    let mut given = Scope::new();
    for (variable, text) in &options.variables {
        let plain = plain(text).ok_or_else(|| {
            format!(
                "variable '{variable}' is given '{text}', expected a number, true, false or a word"
            )
        })?;
        given.insert(variable.clone(), plain);
    }
    Model::new(&script, &given, options.seed).map_err(|fault| fault.to_string())
}

/// A value given by the user, as the language reads it.
fn plain(text: &str) -> Option<Plain> {
    let line = format!("set $x={text}");
    let script = format::parse(line.as_bytes(), "".as_ref()).ok()?;
    let [statement] = script.statements.as_slice() else {
        return None;
    };
    match &statement.command {
        format::Command::Set {
            value: format::Assigned::Value(value),
            ..
        } => match value {
            format::Value::Int(n) => Some(Plain::Int(*n)),
            format::Value::Real(n) => Some(Plain::Real(*n)),
            format::Value::Bool(on) => Some(Plain::Bool(*on)),
            format::Value::Text(text) => Some(Plain::Text(text.clone())),
            _ => None,
        },
        _ => None,
    }
}

/// The program of a script called `name`; an error is a phrase with file, line and name.
pub fn program(name: &str, text: &str, options: &Options) -> Result<Program, String> {
    let model = model(name, text, options)?;
    let cold = !model.trees.iter().all(|tree| tree.definition.cached);
    let filesets = model
        .trees
        .iter()
        .map(|t| Fileset::new(Arc::clone(t)))
        .collect();
    let shared = Shared::new(filesets, model.threads.len(), model.rate);
    let shared = Arc::new(Mutex::new(shared));
    let run_for_ns = match (options.length, options.iterations, model.run_seconds) {
        (Length::Declared, 0, Some(seconds)) if seconds > 0.0 => Some((seconds * 1e9) as u64),
        _ => None,
    };
    let iterations = match (options.length, options.iterations) {
        (Length::Endless, _) => None,
        _ if run_for_ns.is_some() => None,
        (_, 0) => Some(ITERATIONS),
        (_, given) => Some(given),
    };
    let streams = (0_u64..)
        .zip(model.threads)
        .map(|(number, thread)| {
            let set = Setting {
                name: thread.name,
                file: thread.file,
                number: number as usize,
                process: thread.process,
                first_descriptor: thread.first_descriptor,
                code: thread.code,
                mode: model.mode,
                iterations,
                random: Random::new(derived(options.seed, number)),
            };
            Box::new(ThreadStream::new(set, Arc::clone(&shared))) as Stream
        })
        .collect();
    let run = Phase::parallel(Role::Run, "run", streams);
    let teardown = Teardown::new(model.trees.clone(), shared);
    let phases = vec![
        Phase::new(Role::Setup, "create files", Setup::new(model.trees)),
        if cold { run.cold() } else { run },
        Phase::new(Role::Teardown, "remove files", teardown),
    ];
    Ok(Program {
        run_for_ns,
        ..Program::new(phases)
    })
}

/// What a script called `name` says of itself.
pub fn outline(name: &str, text: &str, options: &Options) -> Result<Outline, String> {
    let model = model(name, text, options)?;
    let shown = |plain: &Plain| match plain {
        Plain::Int(n) => Some(n.to_string()),
        Plain::Real(n) => Some(n.to_string()),
        Plain::Bool(on) => Some(on.to_string()),
        Plain::Text(text) => Some(text.clone()),
        Plain::Drawn(_) => None,
    };
    let variables = model
        .variables
        .iter()
        .map(|(name, plain)| (name.clone(), shown(plain)));
    Ok(Outline {
        variables: variables.collect(),
        run_seconds: model.run_seconds,
        threads: model
            .threads
            .into_iter()
            .map(|thread| thread.name)
            .collect(),
    })
}

#[cfg(test)]
mod tests;
