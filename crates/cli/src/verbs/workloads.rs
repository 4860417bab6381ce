//! `fsage workloads`.

use anyhow::Result;
use fsage_format::result::run::{ConfigInfo, ParameterInfo, WorkloadInfo, WorkloadList};
use fsage_report::workloads;
use fsage_workload::spec::expected;
use fsage_workload::{Unit, Value, WORKLOADS, Workload};

use crate::args::WorkloadsArgs;
use crate::exit::{Exit, UsageError};
use crate::out;

pub fn run(args: &WorkloadsArgs) -> Result<Exit> {
    let all: Vec<WorkloadInfo> = WORKLOADS.iter().map(info).chain([command()]).collect();
    let shown = match &args.name {
        None => all,
        Some(name) => {
            let known: Vec<&str> = all.iter().map(|w| w.name.as_str()).collect();
            let unknown = format!(
                "unknown workload '{name}'; expected one of {}",
                known.join(", ")
            );
            let found: Vec<_> = all.into_iter().filter(|w| w.name == *name).collect();
            if found.is_empty() {
                return Err(UsageError(unknown).into());
            }
            found
        }
    };
    if args.json {
        out::document(&WorkloadList { workloads: shown })?;
    } else {
        out::text(&workloads::text(&shown, out::width()))?;
    }
    Ok(Exit::Done)
}

fn info(workload: &Workload) -> WorkloadInfo {
    let unit = |name: &str| {
        let found = workload.parameters.iter().find(|p| p.name == name);
        found.map(|p| p.unit)
    };
    WorkloadInfo {
        name: workload.name.to_string(),
        what: workload.what.to_string(),
        good_for: workload.good_for.to_string(),
        source: workload.source.to_string(),
        parameters: workload
            .parameters
            .iter()
            .map(|p| ParameterInfo {
                name: p.name.to_string(),
                default: written(Some(p.unit), &p.default),
                expected: expected(p),
                what: p.what.to_string(),
            })
            .collect(),
        configs: workload
            .configs
            .iter()
            .map(|config| {
                let values = config.values.iter();
                let values = values.map(|(n, v)| format!("{n}={}", written(unit(n), v)));
                ConfigInfo {
                    name: config.name.to_string(),
                    what: config.what.to_string(),
                    values: values.collect::<Vec<_>>().join(","),
                }
            })
            .collect(),
    }
}

fn written(unit: Option<Unit>, value: &Value) -> String {
    match unit {
        Some(Unit::Time) => format!("{value}ns"),
        _ => value.to_string(),
    }
}

fn command() -> WorkloadInfo {
    WorkloadInfo {
        name: "cmd".to_string(),
        what: "any shell command, run by sh in the target's directory: `cmd:tar xf src.tar`"
            .to_string(),
        good_for: "programs as they are: compiling, unpacking, version control; it measures their \
                   computation too, which may be most of the time (Traeger 2007, 6)"
            .to_string(),
        source: "the user".to_string(),
        parameters: Vec::new(),
        configs: Vec::new(),
    }
}
