//! `fsage profile`.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Result;
use fsage_core::metric::{Family, GAPS_US};
use fsage_core::{ColdMethod, ColdPolicy, TargetSpec};
use fsage_experiment::one_cpu::{self, OneCpu};
use fsage_experiment::profiling::profile_target;
use fsage_experiment::target;
use fsage_format::FileKind;
use fsage_format::profile::{Absent, SystemProfile};
use fsage_host::resident::Resident;
use fsage_host::signals;
use fsage_profile::ProfileRequest;
use fsage_report::{profile, units};
use serde::Serialize;

use crate::args::{ColdArg, ProfileArgs};
use crate::exit::{Exit, UsageError};
use crate::files::{apart, writable};
use crate::limits;
use crate::made::{Made, may_replace};
use crate::{out, ui};

/// Says where a result went that was not to take the place of a better one.
fn stays(file: Option<&Path>, kept: Option<&Path>) {
    if let Some(file) = file.filter(|&file| kept.is_some_and(|kept| kept != file)) {
        ui::line(&format!(
            "{} holds a whole profile and stays as it was",
            file.display()
        ));
    }
}

pub fn run(args: &ProfileArgs) -> Result<Exit> {
    let begun = Instant::now();
    if args.list {
        return list(args.json);
    }
    // clap asks for both unless --list is given.
    let (Some(target), Some(output)) = (&args.target, &args.output) else {
        return Err(UsageError("expected a target and --output FILE".into()).into());
    };
    let spec = target::parse(target)?;
    let mut request = ProfileRequest {
        quick: args.quick,
        only: args.only.clone(),
        seed: args.seed,
        ..ProfileRequest::default()
    };
    // A name that is no metric should be refused before a file system is made.
    request.wanted(spec.has_virtual_time())?;
    let (file, json) = out::places(Some(output), args.json);
    if let Some(file) = file {
        apart(spec.uses().iter().map(PathBuf::as_path), [file])?;
        may_write(file)?;
    }
    if spec.wants_isolation() {
        fsage_host::isolate()?;
    }
    let stop = signals::install()?;
    let one_cpu = one_cpu_of(args);
    let _resident = memory(&*spec, args.max_time);
    super::prepare([&spec], &stop)?;
    let open = spec.open()?;
    request.max_time_ns = left_ns(args.max_time, begun);
    file.map_or(Ok(()), |file| out::wait_for_reader(file, &stop))?;
    let progress = ui::Progress::new(1, "preparing");
    // How long it takes to compute so much virtual time nobody knows.
    let is_real = !spec.has_virtual_time();
    let measured = profile_target(
        &*open,
        &*spec,
        cold(args.cold),
        &request,
        one_cpu.as_ref(),
        &mut |step| {
            let (done, total) = (step.done as u64, step.total as u64);
            let remaining = if is_real {
                ui::Remaining::Of(step.left)
            } else {
                ui::Remaining::Unknown
            };
            progress.set(done, total, step.metric, remaining);
        },
        &stop,
    )?;
    drop(progress);
    // What was measured is kept whatever becomes of the place.
    let kept = file.map(|file| place_of(&measured, file));
    if let Some(kept) = &kept {
        measured.save(kept)?;
    }
    summarize(&measured, kept.as_deref().unwrap_or(output));
    stays(file, kept.as_deref());
    let hurried = args.max_time.is_some();
    let failed = tell(&measured, hurried) || gutted(&measured, hurried);
    if json {
        out::json(&measured)?;
    }
    open.close()?;
    Ok(if stop.load(Ordering::Relaxed) {
        Exit::Interrupted
    } else if failed || !measured.absent.is_empty() && !args.only.is_empty() {
        // What a target does not have is no failure, unless it was asked for.
        Exit::Incomplete
    } else {
        Exit::Done
    })
}

/// Memory that is there before anything is measured, but where that would be much of the time that is asked for.
fn memory(spec: &dyn TargetSpec, max_time: Option<Duration>) -> Option<Resident> {
    let hurried = max_time.is_some_and(|time| time < UNHURRIED);
    (!spec.has_virtual_time() && !hurried)
        .then(Resident::take)
        .flatten()
}

/// What is left of the time that was asked for: what it took to make is in it, and about as much to take it down again.
fn left_ns(max_time: Option<Duration>, begun: Instant) -> Option<u64> {
    let around = begun.elapsed().saturating_mul(2);
    max_time.map(|all| {
        let left = all.saturating_sub(around).max(LEAST_TIME);
        u64::try_from(left.as_nanos()).unwrap_or(u64::MAX)
    })
}

/// Where a profile is kept: one that is a part does not take the place of a whole one.
fn place_of(measured: &SystemProfile, file: &Path) -> PathBuf {
    let is_whole = || SystemProfile::load(file).is_ok_and(|old| old.incomplete.is_none());
    if measured.incomplete.is_none() || !is_whole() {
        return file.to_owned();
    }
    part_of(file)
}

/// Fails where the profile, or the part of one that goes beside it, would take the place of something else.
fn may_write(file: &Path) -> Result<()> {
    let made = Made::Own(FileKind::Profile);
    writable(file, made)?;
    if file.is_file() {
        may_replace(&part_of(file), made)?;
    }
    Ok(())
}

/// Where one that is a part goes instead.
fn part_of(file: &Path) -> PathBuf {
    let mut part = file.as_os_str().to_owned();
    part.push(".part");
    part.into()
}

/// One line of what was measured.
fn summarize(measured: &SystemProfile, output: &Path) {
    ui::note(&format!(
        "{}: {} metrics of {} in {}{}, {} could not be measured (fsage show --details tells why)",
        output.display(),
        measured.metrics.len(),
        measured.name,
        units::duration(measured.measurement.elapsed_ns as f64),
        if measured.environment.is_virtual() {
            " of its own, virtual time"
        } else {
            ""
        },
        measured.absent.len()
    ));
}

/// Whether nothing was measured, or not half of what could be although nobody asked for haste.
fn gutted(measured: &SystemProfile, hurried: bool) -> bool {
    let late = measured
        .absent
        .iter()
        .filter(|a| a.reason == fsage_profile::NO_TIME);
    measured.metrics.is_empty() || !hurried && late.count() > measured.metrics.len()
}

fn list(json: bool) -> Result<Exit> {
    if json {
        out::json(&metric_list(|_| true))?;
    } else {
        out::text(&profile::list(out::width()))?;
    }
    Ok(Exit::Done)
}

/// The least that a measurement is given, whatever it took to prepare.
const LEAST_TIME: Duration = Duration::from_millis(100);

/// From this time on a second for memory does not matter.
const UNHURRIED: Duration = Duration::from_mins(1);

/// What a reader must know before he uses it: one line each. Whether the target failed.
fn tell(measured: &SystemProfile, hurried: bool) -> bool {
    if let Some(reason) = measured.incomplete_reason() {
        ui::line(&format!("the profile is not whole: {reason}"));
    }
    let left_out: Vec<&str> = measured
        .absent
        .iter()
        .filter(|a| a.reason == fsage_profile::NO_TIME)
        .map(|a| a.name.as_str())
        .collect();
    // Some are left out of a usual quick one too.
    let much = left_out.len() * 4 > measured.metrics.len();
    if let Some((first, rest)) = left_out.split_first().filter(|_| hurried || much) {
        let last = rest.last().map_or(String::new(), |l| format!(" … {l}"));
        let took_ns = measured.measurement.elapsed_ns;
        let prepared = measured.measurement.prepared_ns;
        let why = prepared.filter(|&ns| ns > took_ns / 4);
        let why = why.map_or(String::new(), |ns| {
            format!(
                "; write-backs, cold states and removals took {:.1} s of {:.1} s",
                ns as f64 / 1e9,
                took_ns as f64 / 1e9
            )
        });
        ui::line(&format!(
            "there was no time for {} of them: {first}{last}{why}",
            left_out.len()
        ));
    }
    let absent = measured.absent.iter();
    let failed: Vec<&Absent> = absent
        .filter(|a| fsage_profile::is_failure(&a.reason))
        .collect();
    if let [first, ..] = failed.as_slice() {
        let metrics = units::counted(failed.len() as u64, "metric");
        let (name, reason) = (&first.name, &first.reason);
        let line = format!("{metrics} could not be measured: {name}: {reason}");
        limits::tell_failed(std::iter::once(line));
    }
    let whole = measured
        .disturbances
        .iter()
        .find(|d| d.procedure.is_empty());
    if let Some(disturbance) = whole {
        ui::line(&format!(
            "the machine was not quiet: {}; {} metrics are marked",
            disturbance.marks.join(", "),
            measured
                .metrics
                .iter()
                .filter(|m| !m.marks.is_empty())
                .count()
        ));
    }
    !failed.is_empty()
}

/// The table of metrics, as `--list --json` prints it.
#[derive(Serialize)]
pub(super) struct MetricList {
    format: &'static str,
    version: u32,
    metrics: Vec<ListedMetric>,
}

#[derive(Serialize)]
struct ListedMetric {
    name: &'static str,
    unit: &'static str,
    group: &'static str,
    what: &'static str,
    how: &'static str,
    source: &'static str,
    quick: bool,
    point_unit: Option<&'static str>,
    points: &'static [u32],
    gaps_us: &'static [u32],
}

/// The rows of the table that are asked for.
pub(super) fn metric_list(which: impl Fn(&Family) -> bool) -> MetricList {
    let listed = |row: &Family| ListedMetric {
        name: row.stem,
        unit: row.unit.name(),
        group: row.group.name(),
        what: row.what,
        how: row.how,
        source: row.source,
        quick: row.quick,
        point_unit: row.points.map(|p| p.unit),
        points: row.points.map_or(&[], |p| p.values),
        gaps_us: if row.gaps { &GAPS_US } else { &[] },
    };
    MetricList {
        format: "fsage list of metrics",
        version: 1,
        metrics: (fsage_profile::list().iter())
            .filter(|row| which(row))
            .map(listed)
            .collect(),
    }
}

fn cold(arg: ColdArg) -> ColdPolicy {
    match arg {
        ColdArg::Auto => ColdPolicy::Auto,
        ColdArg::Remount => ColdPolicy::Only(ColdMethod::Remount),
        ColdArg::Drop => ColdPolicy::Only(ColdMethod::Drop),
        ColdArg::Evict => ColdPolicy::Only(ColdMethod::Evict),
    }
}

/// The CPU that is kept for what is measured; what cannot be kept beside another fsage is said.
fn one_cpu_of(args: &ProfileArgs) -> Option<OneCpu> {
    let kept = one_cpu::one_cpu(args.one_cpu);
    if let Some(kept) = kept.as_ref().filter(|kept| kept.is_beside_another()) {
        let how = kept.describe();
        ui::line(&format!(
            "{how}: fsyncs do not compare with others of --one-cpu"
        ));
    }
    kept
}
