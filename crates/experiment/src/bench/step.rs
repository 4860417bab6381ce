//! One run: a target, its setup, its caches, what is measured, and nothing left of it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fsage_core::{Clock, FileSystem, Platform};
use fsage_format::result::environment::{RestoredRecord, TargetRecord};
use fsage_format::result::experiment::{BenchPhase, BenchRun, Flush, PageCache, StepTime};
use fsage_format::result::run::{CommandRun, Unexpected};
use fsage_host::guard::GuardedDir;
use fsage_host::observe::Usage;
use fsage_host::thread::{self, Pinned};
use fsage_host::{ColdPolicy, HostError, HostFs, HostOptions, MonotonicClock, cachestat};
use fsage_host::{environment, kthread, machine};
use fsage_workload::{Phase, Role};

use super::flush::write_back;
use super::measure::{Activity, between, measured};
use super::probe::{Verdict, sectors_read, verified_cold};
use super::{marks, metrics, steady};
use crate::one_cpu::OneCpu;
use crate::plan::{Caches, State, Subject};
use crate::restoring::Source;
use crate::running::{self, RunRequest, command};
use crate::target::OpenTarget;
use crate::validate::prepare::{run_setup, shell};

/// Width of a point of throughput over time; short runs have some points too. [`steady::coarsen`] doubles it
/// where there are many.
const SERIES_NS: u64 = 10_000_000;

/// How often the device is asked whether it is at rest, and how often in a row it must be.
const REST: (Duration, u32) = (Duration::from_millis(10), 3);

/// Of directories with more files than this it is not told what of them is cached.
const MOST_FILES: usize = 100_000;

/// How a run is made.
#[derive(Debug, Clone, Copy)]
pub struct Settings<'a> {
    /// The longest wait for the device to come to rest.
    pub settle: Duration,
    /// The device number of the target when it was first used; a directory on another one is not what it
    /// was.
    pub device: Option<u64>,
    /// The file that the state of the target is restored from.
    pub source: Option<&'a Source>,
    /// What is measured is kept to this CPU.
    pub one_cpu: Option<&'a OneCpu>,
    /// Ends the run.
    pub stop: &'a AtomicBool,
}

/// A run that ended well.
#[derive(Debug)]
pub struct Done {
    /// What was measured.
    pub run: BenchRun,
    /// The target, as it was before the workload.
    pub target: TargetRecord,
    /// The number of the device or file system that it lies on.
    pub device: u64,
}

/// A run that gave no result.
#[derive(Debug)]
pub struct Broken {
    /// What was done until then.
    pub steps: Vec<StepTime>,
    /// Why; completes “failed to …”.
    pub why: String,
}

/// A run in the making.
struct Making<'a> {
    subject: &'a Subject,
    request: RunRequest,
    settings: Settings<'a>,
    steps: Vec<StepTime>,
    run: BenchRun,
}

/// Makes one run. `detail` is told of each step.
pub fn one_run(
    subject: &Subject,
    settings: Settings<'_>,
    detail: &mut dyn FnMut(&str),
) -> Result<Done, Broken> {
    let mut making = Making {
        subject,
        request: request_of(subject),
        settings,
        steps: Vec::new(),
        run: BenchRun {
            started_unix_ns: machine::unix_time_ns(),
            ..BenchRun::default()
        },
    };
    match making.all(detail) {
        Ok((target, device)) => {
            let mut run = making.run;
            run.steps = making.steps;
            run.marks = marks::marks(&run);
            run.metrics = metrics::of_run(&run);
            Ok(Done {
                run,
                target,
                device,
            })
        }
        Err(why) => Err(Broken {
            steps: making.steps,
            why,
        }),
    }
}

/// What `fsage run` would be asked for.
pub fn request_of(subject: &Subject) -> RunRequest {
    let run_for = subject.run_for;
    RunRequest {
        spec: subject.workload.spec.clone(),
        role: None,
        run_for_ns: run_for.map(|t| u64::try_from(t.as_nanos()).unwrap_or(u64::MAX)),
        operations: None,
        compressible_percent: 0,
        cold: ColdPolicy::Auto,
        keep: false,
    }
}

/// The directory in which the workload runs.
enum Place {
    Own(GuardedDir),
    Given(PathBuf),
}

impl Place {
    fn path(&self) -> &Path {
        match self {
            Self::Own(dir) => dir.path(),
            Self::Given(dir) => dir,
        }
    }
}

fn text(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

impl Making<'_> {
    /// Does one step and keeps how long it took, however it ends.
    fn step<T>(
        &mut self,
        name: &str,
        what: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        let start_ns = MonotonicClock.now_ns();
        let result = what(self);
        self.steps.push(StepTime {
            name: name.to_owned(),
            elapsed_ns: MonotonicClock.now_ns().saturating_sub(start_ns),
        });
        if self.settings.stop.load(Ordering::Relaxed) {
            return Err("finish: interrupted".into());
        }
        result
    }

    fn all(&mut self, detail: &mut dyn FnMut(&str)) -> Result<(TargetRecord, u64), String> {
        let subject = self.subject;
        let (open, restored) = self.open(detail)?;
        let (mut target, device) = self.look(&open)?;
        (target.aged, target.restored) = (subject.aged.clone(), restored);
        let full_speed = open.full_speed();
        detail("setup");
        let (place, phases) = self.step("setup", |making| making.setup(&open))?;
        if let Caches::Warm(runs @ 1..) = subject.caches {
            detail("warming up");
            self.step("warm-up runs", |making| making.warm_up(place.path(), runs))?;
        }
        // A program's state goes from phase to phase: what is measured goes on from its own setup.
        let phases = match subject.caches {
            Caches::Warm(1..) if !phases.is_empty() => {
                self.step("setup", |making| making.generate(place.path()))?
            }
            _ => phases,
        };
        self.caches(&open, place.path())?;
        detail("settling");
        self.step("settle", |making| making.settle(&open))?;
        drop(full_speed);
        detail("running");
        self.step("run", |making| {
            let _kept = making.keep_to_one(&open)?;
            making.measure(&open, place.path(), phases)
        })
        .map_err(|why| match open.served() {
            Ok(()) => why,
            // What has died explains it.
            Err(died) => format!("{}: {why}", text(&died)),
        })?;
        detail("writing back");
        // With the delays of an emulated disk: it is the disk's time.
        self.step("flush", |making| making.flush(&open))?;
        let full_speed = open.full_speed();
        self.step("collect", |making| {
            making.collect(place.path());
            open.served().map_err(|e| text(&e))
        })?;
        self.step("teardown", |_| {
            drop(place);
            drop(full_speed);
            open.close().map_err(|e| text(&e))
        })?;
        Ok((target, device))
    }

    /// The target in the state that the plan asks for, and what was restored for that.
    fn open(
        &mut self,
        detail: &mut dyn FnMut(&str),
    ) -> Result<(OpenTarget, Option<RestoredRecord>), String> {
        let Subject { target, state, .. } = self.subject;
        let (spec, stop) = (&target.spec, self.settings.stop);
        let source = || match self.settings.source {
            Some(source) => source.check().map(|()| source).map_err(|e| text(&e)),
            None => Err(format!("restore {state}: it was not read before")),
        };
        match state {
            State::Image(file) => {
                let source = source()?;
                detail("restoring the target");
                let copy = self.step("restore", |_| {
                    let copy = spec.restore(file, stop).map_err(|e| text(&e))?;
                    source.check().map_err(|e| text(&e))?;
                    Ok(copy)
                })?;
                let restored = source.of_image(copy.copied_bytes);
                let open =
                    self.step("mount", |_| spec.open_restored(copy).map_err(|e| text(&e)))?;
                Ok((open, Some(restored)))
            }
            State::Snapshot(_) => {
                let source = source()?;
                let open = self.make("mkfs and mount", detail)?;
                detail("restoring the target");
                let restored = self.step("restore", |_| {
                    let _full_speed = open.full_speed();
                    let made = source.restore_tree(open.lower_dir(), stop);
                    made.map_err(|e| text(&e))
                })?;
                Ok((open, Some(restored)))
            }
            State::Fresh => Ok((self.make("mkfs and mount", detail)?, None)),
            State::AsFound => Ok((self.make("open", detail)?, None)),
        }
    }

    fn make(&mut self, step: &str, detail: &mut dyn FnMut(&str)) -> Result<OpenTarget, String> {
        detail("making the target ready");
        let spec = &self.subject.target.spec;
        self.step(step, |_| spec.open().map_err(|e| text(&e)))
    }

    /// What the target is; fails if it is no longer what it was.
    fn look(&self, open: &OpenTarget) -> Result<(TargetRecord, u64), String> {
        use std::os::unix::fs::MetadataExt;
        let spec = self.subject.target.spec.to_string();
        let fs = HostFs::open(open.dir(), HostOptions::default()).map_err(|e| text(&e))?;
        let target = environment::target(&fs, &spec, open.record());
        let meta = std::fs::metadata(open.dir())
            .map_err(|e| format!("look at {}: {e}", open.dir().display()))?;
        let device = meta.dev();
        match self.settings.device {
            Some(before) if before != device && !self.subject.target.spec.is_temporary() => {
                Err(format!(
                    "use {spec}: it lies on another file system than before (device {device} instead of \
                     {before}); was it unmounted?"
                ))
            }
            _ => Ok((target, device)),
        }
    }

    /// The directory and what prepares it; returns the run phases.
    fn setup(&mut self, open: &OpenTarget) -> Result<(Place, Vec<Phase>), String> {
        let place = if self.subject.in_place {
            Place::Given(open.dir().to_owned())
        } else {
            Place::Own(GuardedDir::create(open.dir(), ".fsage-run-").map_err(|e| text(&e))?)
        };
        self.prepare(place.path())?;
        let phases = self.generate(place.path())?;
        Ok((place, phases))
    }

    /// Runs the setup phases of a generated workload; returns its run phases.
    fn generate(&mut self, dir: &Path) -> Result<Vec<Phase>, String> {
        let (phases, run_for_ns) = running::program(&self.request).map_err(|e| text(&e))?;
        self.request.run_for_ns = run_for_ns;
        let mut rest = Vec::new();
        for phase in phases {
            match phase.role {
                Role::Setup => {
                    let name = phase.name.clone().into_owned();
                    let done = running::execute(dir, &self.request, phase, 0, self.settings.stop)
                        .map_err(|e| text(&e.of(name.clone())))?;
                    let first = done.failed.or(done.run.mismatches.first().cloned());
                    check(&name, done.run.unexpected, first)?;
                }
                Role::Run => rest.push(phase),
                // All that was made goes with its directory.
                Role::Teardown => {}
            }
        }
        Ok(rest)
    }

    /// Runs without measurement. A command runs again in the same directory; what a generated workload
    /// made goes before it begins again.
    fn warm_up(&mut self, dir: &Path, runs: u32) -> Result<(), String> {
        for _ in 0..runs {
            if self.settings.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            if let Some(text) = self.request.spec.command() {
                command_once(text, dir)?;
                continue;
            }
            self.clear(dir)?;
            let mut failed = None;
            for phase in self.generate(dir)? {
                let name = phase.name.clone().into_owned();
                let done = running::execute(dir, &self.request, phase, 0, self.settings.stop)
                    .map_err(|e| text(&e.of(name.clone())))?;
                failed = failed.or(done.failed.map(|b| (name, b)));
            }
            if let Some((name, broken)) = failed {
                check(&name, 1, Some(broken))?;
            }
        }
        if self.request.spec.command().is_none() {
            self.clear(dir)?;
        }
        Ok(())
    }

    /// Empties the run's own directory and repeats the user's setup in it.
    fn clear(&self, dir: &Path) -> Result<(), String> {
        fsage_host::remove::contents(dir).map_err(|e| text(&e))?;
        self.prepare(dir)
    }

    /// Runs the user's setup in a directory.
    fn prepare(&self, dir: &Path) -> Result<(), String> {
        let subject = self.subject;
        let Some(setup) = &subject.workload.setup else {
            return Ok(());
        };
        let names = (subject.workload.name.as_str(), subject.target.name.as_str());
        run_setup(names, shell(setup), dir, self.settings.stop).map_err(|e| text(&e))
    }

    /// Brings the caches into the state that the plan asks for.
    fn caches(&mut self, open: &OpenTarget, dir: &Path) -> Result<(), String> {
        match self.subject.caches {
            Caches::Cold => {
                let verdict = self.step("cold caches", |making| making.cold(open))?;
                self.run.cold_verified = verdict.cold;
                self.run.cache_evidence = Some(verdict.evidence);
                Ok(())
            }
            Caches::Warm(runs) => {
                self.run.cache_evidence = Some(format!("{runs} runs before it, written back"));
                self.step("write back", |making| {
                    let fs = making.file_system(open)?;
                    fs.sync()
                        .map_err(|e| format!("write back {}: {e}", dir.display()))
                })
            }
            Caches::AsFound => Ok(()),
        }
    }

    fn file_system(&self, open: &OpenTarget) -> Result<HostFs, String> {
        let options = running::host_options(&self.request);
        open.file_system(options).map_err(|e| text(&e))
    }

    fn cold(&self, open: &OpenTarget) -> Result<Verdict, String> {
        let options = running::host_options(&self.request);
        let mut make_cold = || {
            // A remount needs the file system to be unused: it is opened only for the moment.
            let fs = open.file_system(options)?;
            fs.make_cold().map_err(|errno| HostError::Refused {
                what: format!("make the caches of {} cold", self.subject.target.spec),
                why: format!(
                    "{errno}; expected cache = \"as found\" or \"warm N\" where it cannot be"
                ),
            })
        };
        let sectors = || {
            let fs = open.file_system(options).ok()?;
            sectors_read(&fs)
        };
        verified_cold(open.dir(), &mut make_cold, &sectors).map_err(|e| text(&e))
    }

    /// Waits until the device does nothing more.
    fn settle(&mut self, open: &OpenTarget) -> Result<(), String> {
        let fs = self.file_system(open)?;
        let start_ns = MonotonicClock.now_ns();
        let (mut last, mut quiet) = (fs.device_counters(), 0);
        if last.is_none() {
            return Ok(());
        }
        while quiet < REST.1 && !self.settings.stop.load(Ordering::Relaxed) {
            if u128::from(MonotonicClock.now_ns().saturating_sub(start_ns))
                > self.settings.settle.as_nanos()
            {
                break;
            }
            std::thread::sleep(REST.0);
            let now = fs.device_counters();
            quiet = if now == last { quiet + 1 } else { 0 };
            last = now;
        }
        Ok(())
    }

    /// Keeps what is started from now on to the CPU that the plan asks for, with the kernel's threads for the
    /// file system; of a remount they are new.
    fn keep_to_one(&mut self, open: &OpenTarget) -> Result<Option<Pinned>, String> {
        let Some(one) = self.settings.one_cpu else {
            return Ok(None);
        };
        let device = open.record().and_then(|r| r.device.file_name()?.to_str());
        if let Some(device) = device {
            kthread::confine_of_device(device, &[one.cpu()]);
        }
        self.run.one_cpu = Some(one.describe());
        thread::pin(one.cpu()).map(Some).map_err(|e| text(&e))
    }

    fn measure(&mut self, open: &OpenTarget, dir: &Path, phases: Vec<Phase>) -> Result<(), String> {
        let mut activity = Activity::default();
        let mut usage = Usage::default();
        if let Some(text) = self.request.spec.command() {
            let fs = self.file_system(open)?;
            let text = text.to_owned();
            let run = measured(&fs, &mut activity, || command_once(&text, dir))?;
            usage = command::usage(&run);
            self.run.elapsed_ns = run.elapsed_ns;
            self.run.command = Some(run);
        }
        let mut delay_ns = Some(0);
        for mut phase in phases {
            let cold = self.cold_phase(open, &mut phase)?;
            let name = phase.name.clone().into_owned();
            let fs = self.file_system(open)?;
            let (stop, request) = (self.settings.stop, &self.request);
            let done = measured(&fs, &mut activity, || {
                running::execute(dir, request, phase, SERIES_NS, stop)
            })
            .map_err(|e| text(&e.of(name.clone())))?;
            check(&name, u64::from(done.failed.is_some()), done.failed)?;
            let mut result = done.run;
            usage = usage.and(&done.usage);
            result.cold = cold;
            steady::coarsen(&mut result);
            self.run.elapsed_ns += result.elapsed_ns;
            delay_ns = delay_ns.zip(result.run_delay_ns).map(|(a, b)| a + b);
            let steady = steady::part(&result);
            self.run.phases.push(BenchPhase { result, steady });
        }
        self.run.run_delay_ns = match &self.run.command {
            Some(command) => command.run_delay_ns,
            None => delay_ns,
        };
        self.keep(activity, &usage);
        self.run.disk = open.disk_statistics();
        Ok(())
    }

    /// Makes caches cold before a phase that asks for it, unless the plan asks for something else.
    fn cold_phase(&self, open: &OpenTarget, phase: &mut Phase) -> Result<Option<String>, String> {
        let wanted = phase.cold && self.subject.caches == Caches::Cold;
        // The first one has been seen to already.
        if !wanted || self.run.phases.is_empty() {
            return Ok(None);
        }
        let _full_speed = open.full_speed();
        let fs = self.file_system(open)?;
        let evidence = fs
            .make_cold()
            .map_err(|e| format!("make caches cold before phase '{}': {e}", phase.name))?;
        Ok(Some(running::describe_cold(evidence)))
    }

    fn keep(&mut self, activity: Activity, usage: &Usage) {
        let run = &mut self.run;
        run.user_ns = usage.user_ns;
        run.system_ns = usage.system_ns;
        let used_ns = run.user_ns + run.system_ns;
        run.wait_ns = run.elapsed_ns.saturating_sub(used_ns);
        run.cpu_share = used_ns as f64 / run.elapsed_ns.max(1) as f64;
        run.voluntary_switches = usage.voluntary_switches;
        run.involuntary_switches = usage.involuntary_switches;
        run.major_faults = usage.major_faults;
        run.minor_faults = usage.minor_faults;
        run.device = activity.device;
        run.page_cache = activity.read.map(|read| PageCache {
            requested_bytes: read.requested,
            fetched_bytes: read.fetched,
            cached_pages: None,
        });
        run.others = activity.others;
        run.series = activity.points;
        run.dirty_of = activity.dirty_of;
    }

    /// Writes back what the workload has left to be written.
    fn flush(&mut self, open: &OpenTarget) -> Result<(), String> {
        let fs = self.file_system(open)?;
        let before = fs.device_counters();
        let (written, elapsed_ns) = write_back(open, self.settings.stop);
        written.map_err(|e| match open.served() {
            Ok(()) => text(&e),
            // What has died explains it.
            Err(died) => text(&died),
        })?;
        let counters = before.zip(fs.device_counters());
        self.run.flush = Some(Flush {
            elapsed_ns,
            device: counters.map(|(before, after)| between(&before, &after)),
        });
        Ok(())
    }

    /// What stayed in the cache.
    fn collect(&mut self, dir: &Path) {
        if let Some(cache) = &mut self.run.page_cache {
            cache.cached_pages = cachestat::below(dir, MOST_FILES).map(|p| p.cached);
        }
    }
}

/// Runs a command; one that ends badly is an error.
fn command_once(text: &str, dir: &Path) -> Result<CommandRun, String> {
    let (run, said) = command::run_quietly(text, dir).map_err(|e| format!("run /bin/sh: {e}"))?;
    let end = match (run.exit_status, run.exit_signal) {
        (Some(0), _) => return Ok(run),
        (Some(status), _) => format!("exit status {status}"),
        (None, signal) => format!("ended by signal {}", signal.unwrap_or(0)),
    };
    let said = if said.is_empty() {
        String::new()
    } else {
        format!(": {said}")
    };
    Err(format!("run `{text}`: {end}, expected 0{said}"))
}

/// A phase in which something did not end as expected did not do its work.
fn check(phase: &str, unexpected: u64, first: Option<Unexpected>) -> Result<(), String> {
    if unexpected == 0 {
        return Ok(());
    }
    let first = first.map_or_else(String::new, |m| {
        format!(
            ": {} of {} gave {} instead of {}",
            m.kind, m.path, m.actual, m.expected
        )
    });
    Err(format!("run phase '{phase}'{first}"))
}
