//! `fsage age keep`.

use anyhow::Result;
use fsage_experiment::aging::mark_of;
use fsage_format::FileKind;
use fsage_format::result::aged::AgeKept;
use fsage_host::{scratch, signals};
use fsage_report::units;

use crate::args::AgeKeepArgs;
use crate::exit::Exit;
use crate::files::{apart, writable};
use crate::made::Made;
use crate::{out, ui};

pub fn run(args: &AgeKeepArgs) -> Result<Exit> {
    apart([&*args.target], [&*args.output])?;
    let stop = signals::install()?;
    writable(&args.output, Made::Own(FileKind::Image))?;
    let (target, to) = (&*args.target, &*args.output);
    let aged = mark_of(target);
    let data_bytes = if target.is_dir() {
        let shown = target.display().to_string();
        scratch::keep(target, &shown, aged.clone(), to, &stop)?
    } else {
        scratch::keep_file(target, None, to, &stop)?
    };
    let kept = AgeKept {
        file: to.to_owned(),
        file_bytes: std::fs::metadata(to).map_or(0, |about| about.len()),
        data_bytes,
        aged,
    };
    ui::note(&format!(
        "{}: {} for {} of data; aged:{} is a target now",
        to.display(),
        units::bytes(kept.file_bytes),
        units::bytes(data_bytes),
        to.display()
    ));
    match &kept.aged {
        Some(aged) => ui::note(&format!("aged: {}", aged.in_words())),
        None => ui::note("nothing tells how it was aged"),
    }
    if args.json {
        out::document(&kept)?;
    }
    Ok(Exit::Done)
}
