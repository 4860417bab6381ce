//! `fsage age short-lived`.

use anyhow::Result;
use fsage_age::generate::Learner;
use fsage_age::made::DAY_NS;
use fsage_format::record::write_whole;
use fsage_format::result::aging::AgeShortLived;
use fsage_host::signals;
use fsage_report::units;

use crate::args::AgeShortLivedArgs;
use crate::exit::Exit;
use crate::files::{apart, open_whole_trace, writable};
use crate::made::Made;
use crate::{out, ui};

pub fn run(args: &AgeShortLivedArgs) -> Result<Exit> {
    apart(args.traces.iter().map(|t| &**t), [&*args.output])?;
    writable(&args.output, Made::ShortLived)?;
    let learnt = signals::with_nothing_to_keep(|| -> Result<_> {
        let mut learner = Learner::new(args.day.map_or(DAY_NS, |day| day.as_nanos() as u64));
        for trace in &args.traces {
            let mut reader = open_whole_trace(trace, args.allow_lossy)?;
            let directory = reader.meta().working_directory();
            learner.take(&trace.display().to_string(), &directory, &mut reader)?;
        }
        Ok(learner.finish())
    })?;
    write_whole(&args.output, learnt.to_toml()?.as_bytes())?;
    let (profiles, files) = (learnt.profiles.len() as u64, learnt.files());
    ui::note(&format!(
        "{}: {} of {}; {} of deletions follow another in their directory",
        args.output.display(),
        units::counted(profiles, "profile"),
        units::counted(files, "short-lived file"),
        units::percent(learnt.habits.together),
    ));
    if args.json {
        out::document(&AgeShortLived {
            file: args.output.clone(),
            profiles,
            files,
            together: learnt.habits.together,
            near: learnt.habits.near,
            gap_s: learnt.habits.gap_s,
        })?;
    }
    if files == 0 {
        ui::line("the traces hold no file that was made and removed on the same day");
        return Ok(Exit::Incomplete);
    }
    Ok(Exit::Done)
}
