//! `fsage disk`.

use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail};
use fsage_disk::launch::{parse_span, span_name};
use fsage_disk::serve::{Service, serve};
use fsage_disk::{IMAGE, STATS, find};
use fsage_format::result::disk::{DiskList, DiskSummary};
use fsage_host::guard::GuardedMount;
use fsage_host::scratch::{Backing, LoopDevice, create_image};
use fsage_host::signals;
use fsage_sim::{BUILT_IN, DiskModel, DiskOptions, Policy, Span};

use crate::args::{DiskArgs, DiskServeArgs, DiskVerb};
use crate::exit::Exit;
use crate::{out, ui};

pub fn run(args: DiskArgs) -> Result<Exit> {
    match args.verb {
        DiskVerb::List { json } => list(json),
        DiskVerb::Show { model, toml, json } => show(&model, toml, json),
        DiskVerb::Serve(args) => serve_disk(args),
    }
}

fn list(json: bool) -> Result<Exit> {
    let models = BUILT_IN
        .iter()
        .map(|(name, _)| Ok(summary(&find(name)?.model)))
        .collect::<Result<Vec<_>>>()?;
    let list = DiskList { models };
    if json {
        out::document(&list)?;
    } else {
        out::text(&fsage_report::disk::list(&list, out::width()))?;
    }
    Ok(Exit::Done)
}

fn show(name: &str, toml: bool, json: bool) -> Result<Exit> {
    let found = find(name)?;
    let summary = summary(&found.model);
    if toml {
        out::text(&found.text)?;
    } else if json {
        out::document(&summary)?;
    } else {
        out::text(&fsage_report::disk::model(&summary, &found.text))?;
    }
    Ok(Exit::Done)
}

fn summary(model: &DiskModel) -> DiskSummary {
    let (random_read_ms, start_mb_s, end_mb_s) = model.expectation().map_or((0.0, 0.0, 0.0), |e| {
        (e.random_read_ms, e.start_mb_s, e.end_mb_s)
    });
    DiskSummary {
        name: model.name.clone(),
        description: model.description.clone(),
        kind: if model.hdd.is_some() { "hdd" } else { "ssd" }.to_owned(),
        capacity_bytes: model.capacity_bytes(),
        random_read_ms,
        start_mb_s,
        end_mb_s,
        sources: model.sources.clone(),
    }
}

fn serve_disk(args: DiskServeArgs) -> Result<Exit> {
    let model = find(&args.model)?.model;
    let policy: Policy = args.scheduler.parse()?;
    let span = parse_span(&args.span)?;
    if span == Span::Start && args.size > model.capacity_bytes() {
        bail!(
            "serve {} bytes at the start of {}: the real disk has {}",
            args.size,
            model.name,
            model.capacity_bytes()
        );
    }
    if !rustix::process::geteuid().is_root() {
        return Err(fsage_host::HostError::NotRoot {
            what: format!("serve disk {}", model.name),
        }
        .into());
    }
    let service = Service {
        options: DiskOptions {
            size_bytes: args.size,
            policy,
            span,
        },
        image: image(args.image.as_deref(), args.size)?,
        model,
        delays: !args.launched,
        cpus: args.cpu.clone(),
        launched: args.launched,
    };
    if args.launched {
        let dir = args
            .mount
            .context("serve a launched disk: expected --mount DIR")?;
        let served = serve(service, &dir)?;
        let mut orders = BufReader::new(std::io::stdin());
        served.obey(&mut orders, &mut std::io::stdout())?;
        return Ok(Exit::Done);
    }
    let stop = signals::install()?;
    by_hand(service, &args, &stop)
}

/// The disk's data: the user's file, or memory.
fn image(path: Option<&Path>, size: u64) -> Result<std::fs::File> {
    let Some(path) = path else {
        return Ok(create_image(&Backing::Ram, size)?);
    };
    let failed = || format!("use {} as a disk's image", path.display());
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .with_context(failed)?;
    let found = file.metadata().with_context(failed)?;
    if !found.is_file() {
        bail!("{}: it is no regular file", failed());
    }
    // What is there already is kept, so it must be of that size.
    if found.len() == 0 {
        file.set_len(size).with_context(failed)?;
    } else if found.len() != size {
        bail!(
            "{}: it has {} bytes, --size says {size}",
            failed(),
            found.len()
        );
    }
    Ok(file)
}

/// Serves a disk until the user has enough of it.
fn by_hand(service: Service, args: &DiskServeArgs, stop: &AtomicBool) -> Result<Exit> {
    let made = match &args.mount {
        Some(_) => None,
        None => Some(tempfile::Builder::new().prefix("fsage-disk-").tempdir()?),
    };
    let dir: PathBuf = match (&args.mount, &made) {
        (Some(dir), _) => dir
            .canonicalize()
            .with_context(|| format!("find {}", dir.display()))?,
        (None, Some(made)) => made.path().to_owned(),
        (None, None) => bail!("serve a disk: expected a directory"),
    };
    let empty = std::fs::read_dir(&dir)
        .with_context(|| format!("look into {}", dir.display()))?
        .next()
        .is_none();
    if !empty {
        bail!("mount a disk on {}: it is not empty", dir.display());
    }
    let (name, rotates) = (service.model.name.clone(), service.model.hdd.is_some());
    let (policy, span) = (service.options.policy, service.options.span);
    // A kill leaves no dead mount behind.
    let guard = GuardedMount::of(&dir, made.is_some());
    let served = match serve(service, &dir) {
        Ok(served) => served,
        Err(error) => {
            // Nothing was mounted that the guard should take away.
            guard.done();
            return Err(error.into());
        }
    };
    let file = dir.join(IMAGE);
    let device = if args.no_loop {
        None
    } else {
        let open = std::fs::File::options().read(true).write(true).open(&file);
        let image = open.with_context(|| format!("open {}", file.display()))?;
        let device = LoopDevice::attach(image)?;
        if rotates {
            device.behave_as_rotating();
        }
        Some(device)
    };
    let place = device.as_ref().map_or(file.display().to_string(), |d| {
        d.path().display().to_string()
    });
    ui::line(&format!(
        "{name} ({policy}, {}) is {place}; statistics in {}; Ctrl-C ends it",
        span_name(span),
        dir.join(STATS).display()
    ));
    let statistics = served.wait(stop, || drop(device))?;
    guard.done();
    if args.json {
        out::document(&statistics)?;
    } else {
        out::text(&fsage_report::disk::statistics(&statistics))?;
    }
    Ok(Exit::Done)
}
