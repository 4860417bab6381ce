//! `fsage slowfs`.

use std::io::BufReader;
use std::sync::Arc;

use anyhow::Result;
use fsage_host::signals;
use fsage_slowfs::{Mounted, Slower, launch};

use crate::args::SlowfsArgs;
use crate::exit::Exit;
use crate::verbs::by_hand::until_it_ends;
use crate::{out, ui};

pub fn run(args: &SlowfsArgs) -> Result<Exit> {
    let (lower, dir) = (&args.lower, &args.mount);
    if args.launched {
        let mut orders = BufReader::new(std::io::stdin());
        let mut answers = std::io::stdout();
        launch::serve(lower, dir, args.slow.clone(), &mut orders, &mut answers)?;
        return Ok(Exit::Done);
    }
    let stop = signals::install()?;
    let slower = Arc::new(Slower::new(args.slow.clone()));
    let mut mounted = Mounted::mount(lower, dir, Arc::clone(&slower), true)?;
    ui::note(&format!(
        "{} on {}, slowed: {}; Ctrl-C or an unmount ends it",
        lower.display(),
        mounted.dir().display(),
        args.slow
    ));
    until_it_ends(&mut mounted, &stop)?;
    drop(mounted);
    let statistics = slower.statistics();
    if args.json {
        out::document(&statistics)?;
    } else {
        out::text(&fsage_report::slowfs::statistics(&statistics, out::width()))?;
    }
    Ok(Exit::Done)
}
