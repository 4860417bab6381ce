//! `fsage predict`.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use fsage_experiment::predicting::{
    AnnotatedTrace, Request, TracedOn, learn, made_on, predict, tells_latencies, weigh_helps,
};
use fsage_experiment::running::RunRequest;
use fsage_experiment::target;
use fsage_format::FileKind;
use fsage_format::profile::SystemProfile;
use fsage_format::result::prediction::Prediction;
use fsage_format::trace::{TraceMeta, TraceReader};
use fsage_host::guard::GuardedDir;
use fsage_predict::{AnnotationSink, Change, Options, Policy, Start};
use fsage_report::page::quoted;
use fsage_report::table::elided;
use fsage_report::{prediction, units};
use fsage_workload::WorkloadSpec;

use crate::args::{CacheArg, PredictArgs, StartArg};
use crate::exit::{Exit, UsageError};
use crate::files::{apart, open_whole_snapshot, open_whole_trace};
use crate::made::{Made, may_replace};
use crate::{generated, out, ui};

/// What is predicted.
struct Subject {
    /// What it is called.
    name: String,
    /// Its trace.
    path: PathBuf,
    /// What the trace of a workload goes with.
    _dir: Option<GuardedDir>,
}

/// The trace that was given, or that of the workload.
fn subject(args: &PredictArgs, spec: Option<WorkloadSpec>) -> Result<Subject> {
    let Some(spec) = spec else {
        let path = args.trace.clone().unwrap_or_default();
        let name = path.display().to_string();
        return Ok(Subject {
            name,
            path,
            _dir: None,
        });
    };
    let name = args.workload.clone().unwrap_or_default();
    let dir = GuardedDir::temporary("fsage-predict-")?;
    let path = dir.path().join("workload.fst");
    generated::write(&path, &RunRequest::of(spec), &AtomicBool::new(false))
        .with_context(|| format!("predict {name}"))?;
    Ok(Subject {
        name,
        path,
        _dir: Some(dir),
    })
}

/// The workload, whose operations must be known before it runs.
fn workload(args: &PredictArgs) -> Result<Option<WorkloadSpec>, UsageError> {
    let Some(text) = &args.workload else {
        return Ok(None);
    };
    let spec = generated::parse(text)?;
    generated::known_before("--workload", &spec)?;
    Ok(Some(spec))
}

pub fn run(args: &PredictArgs) -> Result<Exit> {
    let changes = changes(&args.what_if)?;
    let profiles = named_profiles(&args.on)?;
    if args.annotate.as_deref() == Some(Path::new("-")) {
        let text = "--annotate - mixes the trace with the prediction on stdout: expected a file";
        return Err(UsageError(text.into()).into());
    }
    let workload = workload(args)?;
    let made_from = workload.as_ref().map(generated::reads).unwrap_or_default();
    let on = args.on.iter().map(|given| name_and_file(given).1);
    let reads = on.chain(args.trace.as_deref());
    let reads = reads.chain(args.snapshot.as_deref());
    let reads = reads.chain(args.traced_on.as_deref().map(Path::new));
    let reads = reads.chain(made_from.iter().map(PathBuf::as_path));
    apart(reads, args.annotate.as_deref())?;
    if let Some(path) = &args.annotate {
        may_replace(path, Made::Own(FileKind::Trace))?;
    }
    let subject = subject(args, workload)?;
    let mut reader = open_whole_trace(&subject.path, args.allow_lossy)?;
    crate::files::remark(&subject.path, &reader);
    if let Some(path) = &args.snapshot {
        open_whole_snapshot(path, args.allow_lossy)?;
    }
    let mut request = Request {
        options: options(args),
        profiles: &profiles,
        one_speed: true,
        snapshot: args.snapshot.as_deref(),
        changes: &changes,
        traced_on: None,
        is_traced: false,
    };
    let there = traced_on(args, reader.meta(), &profiles)?;
    let in_context = match &there {
        Some(there) => learnt(&subject, &request, there)?,
        None => None,
    };
    request.traced_on = in_context.as_ref();
    let mut annotated = args
        .annotate
        .as_deref()
        .map(|path| AnnotatedTrace::create(path, &reader, &profiles))
        .transpose()?;
    let mut result = predict(
        &mut reader,
        &request,
        annotated
            .as_mut()
            .map(|sink| sink as &mut dyn AnnotationSink),
    )
    .with_context(|| format!("predict {}", subject.name))?;
    weigh_helps(
        &mut TraceReader::open(&subject.path)?,
        &request,
        &mut result,
    )
    .with_context(|| format!("predict {}", subject.name))?;
    if let (Some(sink), Some(path)) = (annotated, &args.annotate) {
        let bytes = sink.finish(reader.end().cloned())?;
        ui::note(&format!("{}: {}", path.display(), units::bytes(bytes)));
    }
    if args.json {
        out::json(&result)?;
    } else {
        out::text(&prediction::text(&result, args.details, out::width()))?;
    }
    Ok(exit_of(&result))
}

fn options(args: &PredictArgs) -> Options {
    Options {
        policy: match args.cache {
            CacheArg::Lru => Policy::Lru,
            CacheArg::Linux => Policy::Linux,
        },
        start: match args.start {
            StartArg::Cold => Start::Cold,
            StartArg::Warm => Start::Warm,
        },
        ..Options::default()
    }
}

/// Where the trace was made, as far as that is known.
enum There {
    /// By what was asked for.
    Given(SystemProfile),
    /// By what the trace says.
    Found(SystemProfile),
}

/// The system that the trace was made on.
fn traced_on(
    args: &PredictArgs,
    meta: &TraceMeta,
    profiles: &[SystemProfile],
) -> Result<Option<There>> {
    let Some(given) = args.traced_on.as_deref() else {
        return Ok(made_on(meta, profiles).cloned().map(There::Found));
    };
    if given == "none" {
        return Ok(None);
    }
    if !tells_latencies(meta) {
        return Err(UsageError(format!(
            "--traced-on: the latencies of this trace ({}) are not those of its calls alone: expected one that eBPF \
             made (fsage trace as root) or fsage itself (fsage run --trace)",
            meta.method
        ))
        .into());
    }
    let named = profiles.iter().find(|profile| profile.name == given);
    let profile = match named {
        Some(profile) => profile.clone(),
        None => SystemProfile::load(Path::new(given)).context("read --traced-on")?,
    };
    Ok(Some(There::Given(profile)))
}

/// What the trace tells of its costs.
fn learnt<'a>(
    subject: &Subject,
    request: &Request<'_>,
    there: &'a There,
) -> Result<Option<TracedOn<'a>>> {
    let (There::Given(profile) | There::Found(profile)) = there;
    let context = learn(&subject.path, request, profile)
        .with_context(|| format!("predict {}", subject.name))?;
    if context.is_none() && matches!(there, There::Given(_)) {
        ui::note(&format!(
            "{} lacks costs of what the trace does, or was disturbed when it was measured: nothing is corrected by what \
             calls took there",
            profile.name
        ));
    }
    Ok(context.map(|context| TracedOn {
        profile,
        context,
        but: None,
    }))
}

/// Names the targets that are incomplete.
fn exit_of(result: &Prediction) -> Exit {
    let mut exit = Exit::Done;
    for target in &result.targets {
        if let Some(what) = &target.incomplete {
            ui::line(&format!(
                "fsage: {} is incomplete: {}",
                target.name, what.reason
            ));
            exit = Exit::Incomplete;
        }
    }
    exit
}

fn changes(what_if: &[String]) -> Result<Vec<Change>> {
    let change = |text: &String| {
        text.parse::<Change>()
            .map_err(|e| UsageError(format!("failed to {e}")).into())
    };
    what_if.iter().map(change).collect()
}

/// Longer names leave no room for numbers.
const LONGEST_NAME: usize = 22;

/// The profiles, each under a short name of its own.
fn named_profiles(on: &[String]) -> Result<Vec<SystemProfile>> {
    let mut profiles = Vec::new();
    let mut wanted = Vec::new();
    for given in on {
        check_profile(given)?;
        let (name, file) = name_and_file(given);
        let profile = SystemProfile::load(file)?;
        let stem = file.file_stem().map(|s| s.to_string_lossy().into_owned());
        wanted.push(Names {
            given: name.map(str::to_owned),
            own: profile.name.clone(),
            file: stem.unwrap_or_default(),
        });
        profiles.push(profile);
    }
    for (profile, name) in profiles.iter_mut().zip(short_names(&wanted)) {
        profile.name = name;
    }
    Ok(profiles)
}

/// Who names a target means its profile.
fn check_profile(given: &str) -> Result<()> {
    let path = Path::new(given);
    let is_spec = || given.contains(':') && target::parse(given).is_ok();
    if !path.is_dir() && (path.exists() || !is_spec()) {
        return Ok(());
    }
    Err(UsageError(format!(
        "--on takes a profile, and {given} is a target: `fsage profile {} -o NAME.fsp` makes one",
        quoted(given)
    ))
    .into())
}

/// `NAME=FILE`, or a file alone; a file of that whole name is meant where there is one.
fn name_and_file(given: &str) -> (Option<&str>, &Path) {
    match given.split_once('=') {
        Some((name, file)) if !name.is_empty() && !Path::new(given).exists() => {
            (Some(name), Path::new(file))
        }
        _ => (None, Path::new(given)),
    }
}

/// What a profile may be called.
struct Names {
    given: Option<String>,
    own: String,
    file: String,
}

/// The name that was given; else the profile's own where that is short and no other's; else that of
/// the file. A number is added to what stands twice all the same.
fn short_names(wanted: &[Names]) -> Vec<String> {
    let owns = |own: &str| {
        wanted
            .iter()
            .filter(|n| n.given.is_none() && n.own == own)
            .count()
    };
    let mut names: Vec<String> = Vec::new();
    for name in wanted {
        let short = name.own.chars().count() <= LONGEST_NAME && !name.own.is_empty();
        let base = match &name.given {
            Some(given) => given.clone(),
            None if short && owns(&name.own) == 1 => name.own.clone(),
            None => elided(&name.file, LONGEST_NAME).into_owned(),
        };
        let mut unique = base.clone();
        let mut number = 2;
        while names.contains(&unique) {
            unique = format!("{base} ({number})");
            number += 1;
        }
        names.push(unique);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::{Names, short_names};

    fn names(all: &[(Option<&str>, &str, &str)]) -> Vec<String> {
        let wanted: Vec<Names> = all
            .iter()
            .map(|(given, own, file)| Names {
                given: given.map(str::to_owned),
                own: (*own).to_owned(),
                file: (*file).to_owned(),
            })
            .collect();
        short_names(&wanted)
    }

    #[test]
    fn names_are_short_and_unique() {
        let long = "scratch:ext4,size=1G,on=disk:hdd-7200,mkfs=-O ^has_journal";
        assert_eq!(
            names(&[(None, "scratch:ext4", "a"), (None, long, "b")]),
            ["scratch:ext4", "b"]
        );
        assert_eq!(names(&[(None, "x", "a"), (None, "x", "b")]), ["a", "b"]);
        assert_eq!(names(&[(None, "x", "a"), (None, "x", "a")]), ["a", "a (2)"]);
        assert_eq!(
            names(&[(Some("new"), "x", "a"), (None, "x", "b")]),
            ["new", "x"]
        );
    }
}
