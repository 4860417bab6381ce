//! `fsage predict`.

use anyhow::{Context, Result};
use fsage_experiment::predicting::{AnnotatedTrace, Request, predict};
use fsage_format::profile::SystemProfile;
use fsage_format::trace::TraceEnd;
use fsage_predict::{AnnotationSink, Change, Options, Policy, Start};
use fsage_report::{prediction, units};

use crate::args::{CacheArg, PredictArgs, StartArg};
use crate::exit::{Exit, UsageError};
use crate::files::{open_whole_snapshot, open_whole_trace};
use crate::{out, ui};

pub fn run(args: &PredictArgs) -> Result<Exit> {
    let changes = args
        .what_if
        .iter()
        .map(|text| {
            text.parse::<Change>()
                .map_err(|e| UsageError(format!("failed to {e}")).into())
        })
        .collect::<Result<Vec<Change>>>()?;
    let mut profiles = args
        .on
        .iter()
        .map(|path| Ok(SystemProfile::load(path)?))
        .collect::<Result<Vec<SystemProfile>>>()?;
    tell_apart(&mut profiles, &args.on);
    let mut reader = open_whole_trace(&args.trace, args.allow_lossy)?;
    crate::files::remark(&args.trace, &reader);
    if let Some(path) = &args.snapshot {
        open_whole_snapshot(path, args.allow_lossy)?;
    }
    let request = Request {
        options: Options {
            policy: match args.cache {
                CacheArg::Lru => Policy::Lru,
                CacheArg::Linux => Policy::Linux,
            },
            start: match args.start {
                StartArg::Cold => Start::Cold,
                StartArg::Warm => Start::Warm,
            },
            ..Options::default()
        },
        profiles: &profiles,
        snapshot: args.snapshot.as_deref(),
        changes: &changes,
    };
    let mut annotated = args
        .annotate
        .as_deref()
        .map(|path| AnnotatedTrace::create(path, &reader, &profiles))
        .transpose()?;
    let result = predict(
        &mut reader,
        &request,
        annotated
            .as_mut()
            .map(|sink| sink as &mut dyn AnnotationSink),
    )
    .with_context(|| format!("predict {}", args.trace.display()))?;
    if let (Some(sink), Some(path)) = (annotated, &args.annotate) {
        let end: Option<TraceEnd> = reader.end().cloned();
        let bytes = sink.finish(end)?;
        ui::line(&format!("{}: {}", path.display(), units::bytes(bytes)));
    }
    if args.json {
        out::json(&result)?;
    } else {
        out::text(&prediction::text(&result, out::width()))?;
    }
    Ok(Exit::Done)
}

/// Profiles of one name are told apart by their files.
fn tell_apart(profiles: &mut [SystemProfile], files: &[std::path::PathBuf]) {
    let names: Vec<String> = profiles.iter().map(|p| p.name.clone()).collect();
    for (profile, file) in profiles.iter_mut().zip(files) {
        if names.iter().filter(|n| **n == profile.name).count() > 1 {
            profile.name = format!("{} ({})", profile.name, file.display());
        }
    }
}
