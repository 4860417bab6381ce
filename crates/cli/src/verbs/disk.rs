//! `fsage disk`.

use std::ffi::OsString;
use std::io::BufReader;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail};
use fsage_disk::find;
use fsage_disk::hand::Standing;
use fsage_disk::launch::{parse_span, span_name};
use fsage_disk::serve::{Service, serve};
use fsage_format::result::disk::{DiskList, DiskSummary};
use fsage_host::scratch::daemon::Program;
use fsage_host::scratch::{Backing, create_image, make_mount_point, needs_fuse};
use fsage_host::signals;
use fsage_sim::{BUILT_IN, DiskModel, DiskOptions, Policy, Span};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::args::{DiskArgs, DiskServeArgs, DiskVerb};
use crate::exit::Exit;
use crate::verbs::by_hand::until_it_ends;
use crate::{out, ui};

pub fn run(args: DiskArgs) -> Result<Exit> {
    match args.verb {
        DiskVerb::List { json } => list(json),
        DiskVerb::Show { model, toml, json } => show(&model, toml, json),
        DiskVerb::Serve(args) => serve_disk(&args),
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
        out::text(&fsage_report::disk::model(
            &summary,
            &found.text,
            out::width(),
        ))?;
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

fn serve_disk(args: &DiskServeArgs) -> Result<Exit> {
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
    let options = DiskOptions {
        size_bytes: args.size,
        policy,
        span,
    };
    if args.launched {
        return launched(model, options, args);
    }
    let stop = signals::install()?;
    by_hand(&model, &options, args, &stop)
}

/// Serves a disk for another fsage.
fn launched(model: DiskModel, options: DiskOptions, args: &DiskServeArgs) -> Result<Exit> {
    let service = Service {
        options,
        image: image(args.image.as_deref(), args.size)?,
        model,
        delays: false,
        cpus: args.cpu.clone(),
        for_scratch: !args.by_hand,
    };
    let dir = args
        .mount
        .as_ref()
        .context("serve a launched disk: expected --mount DIR")?;
    let served = serve(service, dir)?;
    let mut orders = BufReader::new(std::io::stdin());
    served.obey(&mut orders, &mut std::io::stdout())?;
    Ok(Exit::Done)
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
    // Two disks of one image would destroy what is on it. Held as long as it is served.
    if let Err(Errno::WOULDBLOCK) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
        bail!("{}: another process serves it", failed());
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

/// Has a disk served until the user has enough of it.
fn by_hand(
    model: &DiskModel,
    options: &DiskOptions,
    args: &DiskServeArgs,
    stop: &AtomicBool,
) -> Result<Exit> {
    needs_fuse(|| format!("serve disk {}", model.name))?;
    let dir = match &args.mount {
        Some(dir) => dir
            .canonicalize()
            .with_context(|| format!("find {}", dir.display()))?,
        None => make_mount_point("disk")?,
    };
    let empty = std::fs::read_dir(&dir)
        .with_context(|| format!("look into {}", dir.display()))?
        .next()
        .is_none();
    if !empty {
        bail!("mount a disk on {}: it is not empty", dir.display());
    }
    let (policy, span) = (options.policy, span_name(options.span));
    let mut arguments: Vec<OsString> = vec![args.model.clone().into()];
    arguments.push(format!("--size={}", args.size).into());
    arguments.push(format!("--scheduler={policy}").into());
    arguments.push(format!("--span={span}").into());
    if let Some(image) = &args.image {
        arguments.extend(["--image".into(), image.into()]);
    }
    arguments.extend(["--launched", "--by-hand"].map(OsString::from));
    let program = Program::this(&["disk", "serve"])?;
    let mut standing = Standing::start(&program, arguments, &dir, args.mount.is_none())?;
    let place = if args.no_loop {
        standing.image()
    } else {
        standing.attach(model.hdd.is_some())?
    };
    ui::note(&format!(
        "{} ({policy}, {span}) is {}; statistics in {}; Ctrl-C ends it",
        model.name,
        place.display(),
        standing.statistics_file().display()
    ));
    until_it_ends(&mut standing, stop)?;
    let statistics = standing.end()?;
    if args.json {
        out::document(&statistics)?;
    } else {
        out::text(&fsage_report::disk::statistics(&statistics))?;
    }
    Ok(Exit::Done)
}
