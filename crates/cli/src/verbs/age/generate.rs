//! `fsage age generate`.

use std::path::PathBuf;

use anyhow::Result;
use fsage_age::generate::{
    Deletes, GenerateError, GitSource, ModelSource, ShortLived, SnapshotOptions, SnapshotSource,
    Source, Wanted, generate, of_profile,
};
use fsage_core::Seed;
use fsage_format::FileKind;
use fsage_format::result::aging::AgeGenerated;
use fsage_host::signals;
use fsage_report::{page::quoted, units};

use crate::args::{AgeGenerateArgs, DeletesArg};
use crate::exit::{Exit, Interrupted, UsageError};
use crate::files::{apart, writable};
use crate::made::Made;
use crate::{out, ui};

pub fn run(args: &AgeGenerateArgs) -> Result<Exit> {
    let wanted = Wanted {
        seed: Seed(args.seed),
        days: args.days,
        size_bytes: args.size,
        fill: args.fill,
        scale: args.scale,
    };
    apart(inputs(args).iter().map(|p| &**p), [&*args.output])?;
    let mut source = source(args, &wanted)?;
    let stop = signals::install()?;
    let output = out::file(&args.output, args.json, &stop)?;
    writable(&output, Made::Own(FileKind::Trace))?;
    let bar = ui::Progress::new(1, "planning the days");
    let mut step = |done: u32, all: u32, changes: u64| {
        let what = format!("days, in two passes; {} changes", units::count(changes));
        bar.set(u64::from(done), u64::from(all), &what, None);
    };
    let made = generate(&mut *source, &output, &mut step, &stop);
    drop(bar);
    let (made, file_bytes) = match made {
        Err(GenerateError::Interrupted) => return Err(Interrupted.into()),
        other => other?,
    };
    let percent = |share: Option<&f64>| units::percent(share.copied().unwrap_or(0.0));
    let most = made.utilisation.iter().copied().max_by(f64::total_cmp);
    ui::note(&format!(
        "{}: {}, {} in {} of the trace, {} written; {} full after the first day, at most {}, {} at the end",
        args.output.display(),
        units::counted(u64::from(made.days), "day"),
        units::counted(made.operations, "change"),
        units::counted(made.trace_operations, "operation"),
        units::bytes(made.written_bytes),
        percent(made.utilisation.first()),
        percent(most.as_ref()),
        percent(made.utilisation.last()),
    ));
    ui::note(&format!(
        "next: fsage age apply {} {}",
        quoted(&args.output.display().to_string()),
        fsage_report::characterization::target_for(&made),
    ));
    for (what, count) in &made.left_out {
        ui::line(&format!("  left out: {what}: {}", units::count(*count)));
    }
    if args.json {
        out::document(&AgeGenerated {
            file: args.output.clone(),
            file_bytes,
            made,
        })?;
    }
    Ok(Exit::Done)
}

/// The files that are read.
fn inputs(args: &AgeGenerateArgs) -> Vec<PathBuf> {
    let nights = args
        .from_snapshots
        .as_ref()
        .and_then(|dir| dir.read_dir().ok());
    let nights = nights.into_iter().flatten().flatten().map(|e| e.path());
    let others = args.short_lived.iter().chain(&args.from_model).cloned();
    nights.chain(others).collect()
}

fn source(args: &AgeGenerateArgs, wanted: &Wanted) -> Result<Box<dyn Source>> {
    if let Some(name) = &args.profile {
        // What is asked wrongly is the command line's fault.
        return of_profile(name, wanted).map_err(|e| match e {
            GenerateError::Refused(_) => UsageError(format!("failed to {e}")).into(),
            other => other.into(),
        });
    }
    if let Some(repository) = &args.from_git {
        return Ok(Box::new(GitSource::new(repository, wanted)?));
    }
    if let Some(model) = &args.from_model {
        return Ok(Box::new(ModelSource::new(model, wanted)?));
    }
    let Some(dir) = &args.from_snapshots else {
        let expected =
            "expected --from-snapshots DIR, --from-git REPO, --from-model M.fsm or --profile NAME";
        return Err(UsageError(expected.into()).into());
    };
    let options = SnapshotOptions {
        deletes: args.deletes.map(|deletes| match deletes {
            DeletesArg::Uniform => Deletes::Uniform,
            DeletesArg::Learnt => Deletes::Learnt,
        }),
        short_lived: args
            .short_lived
            .as_deref()
            .map(ShortLived::load)
            .transpose()?,
        by_group: args.by_group,
        inodes_per_group: args.inodes_per_group,
    };
    Ok(Box::new(SnapshotSource::new(dir, wanted, options)?))
}
