//! One run: a target, its setup, its caches, what is measured, and nothing left of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fsage_core::{Clock, FileSystem, FsOptions, Place, Root, Target, TargetError};
use fsage_format::result::environment::{RestoredRecord, TargetRecord};
use fsage_format::result::experiment::{BenchPhase, BenchRun, Flush, PageCache, StepTime};
use fsage_host::observe::Usage;
use fsage_host::thread::{self, Pinned};
use fsage_host::{HostFs, MonotonicClock, cachestat, environment, kthread, machine};
use fsage_workload::{Phase, Role};

use super::ended::{check, command_once, text};
use super::flush::write_back;
use super::measure::{Activity, between, measured};
use super::probe::{Verdict, verified_cold};
use super::{marks, metrics, steady};
use crate::one_cpu::OneCpu;
use crate::plan::{Caches, State, Subject};
use crate::restoring::Source;
use crate::running::{self, RunRequest, command};
use crate::target::{command_dir, own_device};
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
    /// The number of the device or file system that a directory of this machine lies on.
    pub device: Option<u64>,
}

/// A run that gave no result.
#[derive(Debug)]
pub struct Broken {
    /// Wall clock at its start, nanoseconds since 1970.
    pub started_unix_ns: u64,
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
    /// The target, once it is open: its clock is the run's.
    time: Option<Arc<dyn FileSystem>>,
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
        time: None,
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
            started_unix_ns: making.run.started_unix_ns,
            steps: making.steps,
            why,
        }),
    }
}

/// What `fsage run` would be asked for.
pub fn request_of(subject: &Subject) -> RunRequest {
    let run_for = subject.run_for;
    RunRequest {
        run_for_ns: run_for.map(|t| u64::try_from(t.as_nanos()).unwrap_or(u64::MAX)),
        ..RunRequest::of(subject.workload.spec.clone())
    }
}

/// What the target was, and what lives until the run is over.
type OnTarget = (
    (TargetRecord, Option<u64>),
    Option<Box<dyn Place>>,
    Option<Box<dyn Send>>,
);

/// The run's directory, if it is not the target's own, and the phases that are to be run.
type Prepared = (Option<Box<dyn Place>>, Vec<Phase>);

impl Making<'_> {
    /// The time of the target; 0 before there is one whose time is computed.
    fn now_ns(&self) -> u64 {
        match &self.time {
            Some(fs) => fs.clock().now_ns(),
            None if self.subject.target.spec.has_virtual_time() => 0,
            None => MonotonicClock.now_ns(),
        }
    }

    /// Does one step and keeps how long it took, however it ends.
    fn step<T>(
        &mut self,
        name: &str,
        what: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        let start_ns = self.now_ns();
        let result = what(self);
        self.steps.push(StepTime {
            name: name.to_owned(),
            elapsed_ns: self.now_ns().saturating_sub(start_ns),
        });
        if self.settings.stop.load(Ordering::Relaxed) {
            return Err("finish: interrupted".into());
        }
        result
    }

    fn all(&mut self, detail: &mut dyn FnMut(&str)) -> Result<(TargetRecord, Option<u64>), String> {
        let (opened, restored) = self.open(detail)?;
        let (reported, place, full_speed) = self.on(&*opened, restored, detail)?;
        self.step("teardown", |_| {
            drop(place);
            drop(full_speed);
            opened.close().map_err(|e| text(&e))
        })?;
        Ok(reported)
    }

    /// All that happens on the target.
    fn on(
        &mut self,
        open: &dyn Target,
        restored: Option<RestoredRecord>,
        detail: &mut dyn FnMut(&str),
    ) -> Result<OnTarget, String> {
        let subject = self.subject;
        let (mut target, device) = self.look(open)?;
        (target.aged, target.restored) = (subject.aged.clone().or(target.aged), restored);
        let full_speed = open.full_speed();
        detail("setup");
        let (place, phases) = self.step("setup", |making| making.setup(open))?;
        let root: &dyn Root = match &place {
            Some(place) => &**place,
            None => open,
        };
        if let Caches::Warm(runs @ 1..) = subject.caches {
            detail("warming up");
            let place = place.as_deref();
            self.step("warm-up runs", |making| {
                making.warm_up(open, root, place, runs)
            })?;
        }
        // A program's state goes from phase to phase: what is measured goes on from its own setup.
        let phases = match subject.caches {
            Caches::Warm(1..) if !phases.is_empty() => {
                self.step("setup", |making| making.generate(root))?
            }
            _ => phases,
        };
        self.caches(open)?;
        detail("settling");
        self.step("settle", |making| Ok(making.settle()))?;
        drop(full_speed);
        detail("running");
        self.step("run", |making| {
            let _kept = making.keep_to_one(open)?;
            making.measure(open, root, phases)
        })
        .map_err(|why| match open.served() {
            Ok(()) => why,
            // What has died explains it.
            Err(died) => format!("{}: {why}", text(&died)),
        })?;
        detail("writing back");
        // With the delays of an emulated disk: it is the disk's time.
        self.step("flush", |making| making.flush(open))?;
        let full_speed = open.full_speed();
        self.step("collect", |making| {
            making.collect(root);
            open.served().map_err(|e| text(&e))
        })?;
        Ok(((target, device), place, full_speed))
    }

    /// The target in the state that the plan asks for, and what was restored for that.
    fn open(
        &mut self,
        detail: &mut dyn FnMut(&str),
    ) -> Result<(Box<dyn Target>, Option<RestoredRecord>), String> {
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
                    let images = spec.images().ok_or_else(|| {
                        format!(
                            "restore {}: {spec} cannot be made of an image",
                            file.display()
                        )
                    })?;
                    let copy = images.restore(file, stop).map_err(|e| text(&e))?;
                    source.check().map_err(|e| text(&e))?;
                    Ok(copy)
                })?;
                let restored = source.of_image(copy.copied_bytes());
                let open = self.step("mount", |making| making.opened(copy.open()))?;
                Ok((open, Some(restored)))
            }
            State::Snapshot(_) => {
                let source = source()?;
                let open = self.make("mkfs and mount", detail)?;
                detail("restoring the target");
                let restored = self.step("restore", |_| {
                    let _full_speed = open.full_speed();
                    let made = source.restore_tree(open.beneath().unwrap_or(&*open), stop);
                    made.map_err(|e| text(&e))
                })?;
                Ok((open, Some(restored)))
            }
            State::Fresh => Ok((self.make("mkfs and mount", detail)?, None)),
            State::AsFound => Ok((self.make("open", detail)?, None)),
        }
    }

    fn make(
        &mut self,
        step: &str,
        detail: &mut dyn FnMut(&str),
    ) -> Result<Box<dyn Target>, String> {
        detail("making the target ready");
        let spec = &self.subject.target.spec;
        self.step(step, |making| making.opened(spec.open()))
    }

    fn opened(
        &mut self,
        open: Result<Box<dyn Target>, TargetError>,
    ) -> Result<Box<dyn Target>, String> {
        let open = open.map_err(|e| text(&e))?;
        let fs = open.file_system(FsOptions::TRUSTED);
        self.time = Some(fs.map_err(|e| text(&e))?);
        Ok(open)
    }

    /// What the target is; fails if it is no longer what it was.
    fn look(&self, open: &dyn Target) -> Result<(TargetRecord, Option<u64>), String> {
        use std::os::unix::fs::MetadataExt;
        let spec = self.subject.target.spec.to_string();
        let target = fsage_host::target::record(open, &spec).map_err(|e| text(&e))?;
        let Some(dir) = open.host_dir() else {
            return Ok((target, None));
        };
        let meta = std::fs::metadata(dir).map_err(|e| format!("look at {}: {e}", dir.display()))?;
        let device = meta.dev();
        match self.settings.device {
            Some(before) if before != device && !open.is_temporary() => Err(format!(
                "use {spec}: it lies on another file system than before (device {device} instead of \
                 {before}); was it unmounted?"
            )),
            _ => Ok((target, Some(device))),
        }
    }

    /// The directory, if it is not the target's own, and what prepares it; returns the run phases.
    fn setup(&mut self, open: &dyn Target) -> Result<Prepared, String> {
        if self.subject.in_place || self.request.spec.in_target().is_some() {
            self.prepare(open)?;
            return Ok((None, self.generate(open)?));
        }
        let place = open.place(".fsage-run-").map_err(|e| text(&e))?;
        self.prepare(&*place)?;
        let phases = self.generate(&*place)?;
        Ok((Some(place), phases))
    }

    /// Runs the setup phases of a generated workload; returns its run phases.
    fn generate(&mut self, root: &dyn Root) -> Result<Vec<Phase>, String> {
        let program = running::program(&self.request, Some(root)).map_err(|e| text(&e))?;
        self.request.run_for_ns = program.run_for_ns;
        let mut rest = Vec::new();
        for phase in program.phases {
            match phase.role {
                Role::Setup => {
                    let name = phase.name.clone().into_owned();
                    let done = running::execute(root, &self.request, phase, 0, self.settings.stop)
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
    fn warm_up(
        &mut self,
        open: &dyn Target,
        root: &dyn Root,
        place: Option<&dyn Place>,
        runs: u32,
    ) -> Result<(), String> {
        for _ in 0..runs {
            if self.settings.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            if let Some(text) = self.request.spec.command() {
                command_once(text, root, open)?;
                continue;
            }
            self.clear(place)?;
            let mut failed = None;
            for phase in self.generate(root)? {
                let name = phase.name.clone().into_owned();
                let done = running::execute(root, &self.request, phase, 0, self.settings.stop)
                    .map_err(|e| text(&e.of(name.clone())))?;
                failed = failed.or(done.failed.map(|b| (name, b)));
            }
            if let Some((name, broken)) = failed {
                check(&name, 1, Some(broken))?;
            }
        }
        if self.request.spec.command().is_none() {
            self.clear(place)?;
        }
        Ok(())
    }

    /// Empties the run's own directory and repeats the user's setup in it.
    fn clear(&self, place: Option<&dyn Place>) -> Result<(), String> {
        place.map_or(Ok(()), |place| {
            place.clear().map_err(|e| text(&e))?;
            self.prepare(place)
        })
    }

    /// Runs the user's setup in a directory.
    fn prepare(&self, root: &dyn Root) -> Result<(), String> {
        let subject = self.subject;
        let Some(setup) = &subject.workload.setup else {
            return Ok(());
        };
        let dir = command_dir(root).map_err(|e| text(&e))?;
        let names = (subject.workload.name.as_str(), subject.target.name.as_str());
        run_setup(names, shell(setup), dir, self.settings.stop).map_err(|e| text(&e))
    }

    /// Brings the caches into the state that the plan asks for.
    fn caches(&mut self, open: &dyn Target) -> Result<(), String> {
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
                        .map_err(|e| format!("write back {}: {e}", fs.name()))
                })
            }
            Caches::AsFound => Ok(()),
        }
    }

    fn file_system(&self, root: &dyn Root) -> Result<Arc<dyn FileSystem>, String> {
        let options = running::fs_options(&self.request);
        root.file_system(options).map_err(|e| text(&e))
    }

    fn cold(&self, open: &dyn Target) -> Result<Verdict, String> {
        let options = running::fs_options(&self.request);
        let mut make_cold = || {
            let fs = open.file_system(options)?;
            let made = fs.platform().make_cold();
            made.map_err(|errno| self.subject.target.never_cold(errno))
        };
        verified_cold(open, &mut make_cold).map_err(|e| text(&e))
    }

    /// Waits until the device does nothing more; returns whether it does.
    fn settle(&mut self) -> bool {
        let Some(fs) = &self.time else { return true };
        let longest_ns = u64::try_from(self.settings.settle.as_nanos()).unwrap_or(u64::MAX);
        let (clock, start_ns) = (fs.clock(), fs.clock().now_ns());
        let (mut last, mut quiet) = (fs.platform().device_counters(), 0);
        while last.is_some() && quiet < REST.1 && !self.settings.stop.load(Ordering::Relaxed) {
            if clock.now_ns().saturating_sub(start_ns) > longest_ns {
                break;
            }
            match fs.virtual_time() {
                Some(time) => time.rest_until(clock.now_ns() + REST.0.as_nanos() as u64),
                None => std::thread::sleep(REST.0),
            }
            let now = fs.platform().device_counters();
            quiet = if now == last { quiet + 1 } else { 0 };
            last = now;
        }
        last.is_none() || quiet == REST.1
    }

    /// Keeps what is started from now on to the CPU that the plan asks for, with the kernel's threads for the
    /// file system; of a remount they are new.
    fn keep_to_one(&mut self, open: &dyn Target) -> Result<Option<Pinned>, String> {
        let Some(one) = self.settings.one_cpu else {
            return Ok(None);
        };
        if self.subject.target.spec.has_virtual_time() {
            return Ok(None);
        }
        if let Some(device) = own_device(open) {
            kthread::confine_of_device(&device, &[one.cpu()]);
        }
        self.run.one_cpu = Some(one.describe());
        thread::pin(one.cpu()).map(Some).map_err(|e| text(&e))
    }

    fn measure(
        &mut self,
        open: &dyn Target,
        root: &dyn Root,
        phases: Vec<Phase>,
    ) -> Result<(), String> {
        let host = HostFs::of(open).transpose().map_err(|e| text(&e))?;
        let fs = self.file_system(open)?;
        let watched = (&*fs, host.as_ref());
        let mut activity = Activity::default();
        let mut usage = Usage::default();
        if let Some(text) = self.request.spec.command() {
            let run = measured(watched, &mut activity, || command_once(text, root, open))?;
            usage = command::usage(&run);
            self.run.elapsed_ns = run.elapsed_ns;
            self.run.command = Some(run);
        }
        let mut delay_ns = Some(0);
        for phase in phases {
            let cold = self.cold_phase(open, &phase)?;
            let name = phase.name.clone().into_owned();
            let (stop, request) = (self.settings.stop, &self.request);
            let done = measured(watched, &mut activity, || {
                running::execute(root, request, phase, SERIES_NS, stop)
            })
            .map_err(|e| text(&e.of(name.clone())))?;
            check(&name, u64::from(done.failed.is_some()), done.failed)?;
            let mut result = done.run;
            usage = usage.and(&done.usage);
            let layout = running::files::layout(open, root, &done.laid_out, stop);
            (result.cold, result.layout) = (cold, layout.map_err(|e| text(&e))?);
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
        if fs.virtual_time().is_some() {
            // What the simulation itself used is nothing of the target's.
            usage = Usage::default();
        }
        self.keep(activity, &usage);
        self.run.disk = open.statistics();
        Ok(())
    }

    /// Makes caches cold before a phase that asks for it, unless the plan asks for something else.
    fn cold_phase(&self, open: &dyn Target, phase: &Phase) -> Result<Option<String>, String> {
        let wanted = phase.cold && self.subject.caches == Caches::Cold;
        // The first one has been seen to already.
        if !wanted || self.run.phases.is_empty() {
            return Ok(None);
        }
        let _full_speed = open.full_speed();
        let fs = self.file_system(open)?;
        let evidence = fs
            .platform()
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
        run.others = activity.others_of(run.elapsed_ns, used_ns, environment::cpus_online());
        run.series = activity.points;
        run.dirty_of = activity.dirty_of;
    }

    /// Writes back what the workload has left to be written.
    fn flush(&mut self, open: &dyn Target) -> Result<(), String> {
        let fs = self.file_system(open)?;
        let counters = || fs.platform().device_counters();
        let before = counters();
        let (written, elapsed_ns) = write_back(open, fs.clock(), self.settings.stop);
        written.map_err(|e| text(&open.explain(e)))?;
        let counters = before.zip(counters());
        self.run.flush = Some(Flush {
            elapsed_ns,
            device: counters.map(|(before, after)| between(&before, &after)),
        });
        Ok(())
    }

    /// What stayed in the cache.
    fn collect(&mut self, root: &dyn Root) {
        if let (Some(cache), Some(dir)) = (&mut self.run.page_cache, root.host_dir()) {
            cache.cached_pages = cachestat::below(dir, MOST_FILES).map(|p| p.cached);
        }
    }
}
