//! `fsage slowfs`.

use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Result;
use fsage_host::signals;
use fsage_slowfs::Mounted;

use crate::args::SlowfsArgs;
use crate::exit::Exit;
use crate::ui;

/// How often a signal or an unmount from outside is looked for.
const LOOK: Duration = Duration::from_millis(50);

pub fn run(args: &SlowfsArgs) -> Result<Exit> {
    let stop = signals::install()?;
    let slowed = args.slow.to_string();
    let mounted = Mounted::mount(&args.lower, &args.mount, args.slow.clone())?;
    ui::line(&format!(
        "{} on {}, slowed: {}; Ctrl-C or an unmount ends it",
        args.lower.display(),
        mounted.dir().display(),
        if slowed.is_empty() {
            "nothing"
        } else {
            &slowed
        }
    ));
    while !stop.load(Ordering::Relaxed) && !mounted.is_over() {
        std::thread::sleep(LOOK);
    }
    mounted.unmount()?;
    Ok(Exit::Done)
}
