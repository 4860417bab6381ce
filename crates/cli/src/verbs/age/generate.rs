//! `fsage age generate`.

use anyhow::Result;
use fsage_age::generate::{GenerateError, Source, Wanted, generate, of_profile};
use fsage_core::Seed;
use fsage_format::result::aging::AgeGenerated;
use fsage_host::signals;
use fsage_report::units;

use crate::args::AgeGenerateArgs;
use crate::exit::{Exit, Interrupted, UsageError};
use crate::files::writable;
use crate::{out, ui};

pub fn run(args: &AgeGenerateArgs) -> Result<Exit> {
    let wanted = Wanted {
        seed: Seed(args.seed),
        days: args.days,
        size_bytes: args.size,
        fill: args.fill,
        scale: args.scale,
    };
    let mut source = source(args, &wanted)?;
    let stop = signals::install()?;
    let output = out::file(&args.output, args.json, &stop)?;
    writable(&output)?;
    let bar = ui::Progress::new(1);
    let mut step = |done: u32, all: u32| {
        bar.set(u64::from(done), u64::from(all), "days, in two passes", None);
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
        "{}: {} days, {} operations, {} written; {} full after the first day, at most {}, {} at the end",
        args.output.display(),
        units::count(u64::from(made.days)),
        units::count(made.operations),
        units::bytes(made.written_bytes),
        percent(made.utilisation.first()),
        percent(most.as_ref()),
        percent(made.utilisation.last()),
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

fn source(args: &AgeGenerateArgs, wanted: &Wanted) -> Result<Box<dyn Source>> {
    let Some(name) = &args.profile else {
        return Err(UsageError("expected --profile NAME".into()).into());
    };
    // What is asked wrongly is the command line's fault.
    of_profile(name, wanted).map_err(|e| match e {
        GenerateError::Refused(_) => UsageError(format!("failed to {e}")).into(),
        other => other.into(),
    })
}
