//! `fsage slowfs`.

use std::io::BufReader;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use fsage_host::signals;
use fsage_slowfs::{Mounted, Slower, Unmounted, launch};

use crate::args::SlowfsArgs;
use crate::exit::Exit;
use crate::{out, ui};

/// How often a signal or an unmount from outside is looked for.
const LOOK: Duration = Duration::from_millis(50);

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
    let mounted = Mounted::mount(lower, dir, Arc::clone(&slower), true)?;
    ui::note(&format!(
        "{} on {}, slowed: {}; Ctrl-C or an unmount ends it",
        lower.display(),
        mounted.dir().display(),
        args.slow
    ));
    until_it_ends(mounted, &stop)?;
    let statistics = slower.statistics();
    if args.json {
        out::document(&statistics)?;
    } else {
        out::text(&fsage_report::slowfs::statistics(&statistics, out::width()))?;
    }
    Ok(Exit::Done)
}

fn until_it_ends(mut mounted: Mounted, stop: &AtomicBool) -> Result<()> {
    while !stop.load(Ordering::Relaxed) && !mounted.is_over() {
        std::thread::sleep(LOOK);
    }
    if mounted.unmount()? == Unmounted::Gone {
        return Ok(());
    }
    // New users find it gone; who has a file open keeps it. A second signal ends this process.
    mounted.detach()?;
    ui::line(&format!(
        "{} is in use: it is out of sight and served until its last file is closed; Ctrl-C once more \
         ends it at once, with errors for its users",
        mounted.dir().display()
    ));
    while !mounted.is_over() {
        std::thread::sleep(LOOK);
    }
    mounted.unmount()?;
    Ok(())
}
