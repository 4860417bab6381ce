//! A kind of target that is added in this file, as docs/contribute-a-target.md says and by nothing else,
//! and what fsage does with it: a file system without a directory on this machine, in real and in virtual
//! time.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use fsage_core::target::{Description, Subdirectory};
use fsage_core::{
    Access, Attr, Clock, ColdPolicy, Demand, DirEntry, Errno, FileSystem, FsOptions, Handle,
    ManualClock, OpSink, OpSource, OpenFlags, Platform, RangeSync, Registry, Root, Scheme, SetAttr,
    StatFs, Target, TargetError, TargetSpec, VirtualTime, conformance,
};
use fsage_experiment::bench;
use fsage_experiment::plan::{BenchPlan, CacheState, NamedTarget};
use fsage_experiment::profiling::profile_target;
use fsage_experiment::replaying::{ReplayRequest, replay};
use fsage_experiment::running::{Ran, RunRequest, run_workload};
use fsage_experiment::target::{parse_with, schemes};
use fsage_experiment::validate::plan::ValidatePlan;
use fsage_experiment::{predicting, replaying, validate};
use fsage_format::profile::SystemProfile;
use fsage_format::result::experiment::Experiment;
use fsage_format::trace::{TraceEnd, TraceMeta, TraceReader, TraceWriter};
use fsage_host::HostFs;
use fsage_profile::ProfileRequest;
use fsage_workload::{Length, Merged, WorkloadSpec};

/// What a call takes in virtual time.
const CALL_NS: u64 = 1000;

/// `hidden:` is a directory in memory that nobody above can find, `hidden:virtual` computes its time.
struct Hidden;

impl Scheme for Hidden {
    fn prefix(&self) -> &'static str {
        "hidden:"
    }

    fn form(&self) -> &'static str {
        "hidden:[virtual]"
    }

    fn help(&self) -> &'static str {
        "a file system that has no directory"
    }

    fn parse(&self, rest: &str, _: &Registry) -> Result<Arc<dyn TargetSpec>, TargetError> {
        match rest {
            "" | "virtual" => Ok(Arc::new(HiddenSpec {
                is_virtual: rest == "virtual",
            })),
            _ => Err(TargetError::refused("read hidden:", "expected virtual")),
        }
    }
}

#[derive(Debug)]
struct HiddenSpec {
    is_virtual: bool,
}

impl fmt::Display for HiddenSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_virtual {
            "hidden:virtual"
        } else {
            "hidden:"
        })
    }
}

impl TargetSpec for HiddenSpec {
    fn is_temporary(&self) -> bool {
        true
    }

    fn has_virtual_time(&self) -> bool {
        self.is_virtual
    }

    fn open(&self) -> Result<Box<dyn Target>, TargetError> {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let fs = HostFs::open(dir.path(), FsOptions::TRUSTED)?;
        Ok(Box::new(Opened {
            fs: Arc::new(HiddenFs {
                fs,
                time: self.is_virtual.then(Time::default),
                _dir: dir,
            }),
        }))
    }
}

struct Opened {
    fs: Arc<HiddenFs>,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opened")
    }
}

impl Root for Opened {
    fn file_system(&self, _: FsOptions) -> Result<Arc<dyn FileSystem>, TargetError> {
        Ok(Arc::clone(&self.fs) as Arc<dyn FileSystem>)
    }
}

impl Target for Opened {
    fn is_temporary(&self) -> bool {
        true
    }

    fn describe(&self) -> Description {
        Description {
            file_system: Some("hidden".into()),
            parameters: [("call_ns".to_owned(), CALL_NS.to_string())].into(),
            ..Description::default()
        }
    }

    fn close(self: Box<Self>) -> Result<(), TargetError> {
        Ok(())
    }
}

/// Time that a call moves on.
#[derive(Default)]
struct Time {
    now: ManualClock,
    collected: Mutex<Option<Vec<Demand>>>,
}

impl Time {
    fn pass(&self) {
        match &mut *self.collected.lock().unwrap() {
            Some(demands) => demands.push(Demand::Compute(CALL_NS)),
            None => self.now.advance(CALL_NS),
        }
    }
}

impl VirtualTime for Time {
    fn begin(&self, now_ns: u64) {
        self.rest_until(now_ns);
        *self.collected.lock().unwrap() = Some(Vec::new());
    }

    fn end(&self, demands: &mut Vec<Demand>) -> bool {
        demands.extend(self.collected.lock().unwrap().take().unwrap_or_default());
        false
    }

    fn serve(&self, _: u64, now_ns: u64) -> u64 {
        now_ns
    }

    fn rest_until(&self, then_ns: u64) {
        self.now.advance(then_ns.saturating_sub(self.now.now_ns()));
    }
}

struct HiddenFs {
    fs: HostFs,
    time: Option<Time>,
    _dir: tempfile::TempDir,
}

macro_rules! calls {
    ($($name:ident($($arg:ident: $kind:ty),*) -> $result:ty;)*) => {$(
        fn $name(&self $(, $arg: $kind)*) -> Result<$result, Errno> {
            if let Some(time) = &self.time {
                time.pass();
            }
            self.fs.$name($($arg),*)
        }
    )*};
}

impl FileSystem for HiddenFs {
    fn name(&self) -> String {
        "hidden".into()
    }

    fn clock(&self) -> &dyn Clock {
        match &self.time {
            Some(time) => &time.now,
            None => self.fs.clock(),
        }
    }

    calls! {
        open(path: &[u8], flags: OpenFlags, mode: u32) -> Handle;
        close(handle: Handle) -> ();
        read(handle: Handle, buf: &mut [u8]) -> usize;
        write(handle: Handle, buf: &[u8]) -> usize;
        pread(handle: Handle, buf: &mut [u8], offset: u64) -> usize;
        pwrite(handle: Handle, buf: &[u8], offset: u64) -> usize;
        seek(handle: Handle, offset: u64) -> u64;
        read_dir(handle: Handle) -> Vec<DirEntry>;
        fsync(handle: Handle) -> ();
        fdatasync(handle: Handle) -> ();
        sync_file_range(handle: Handle, offset: u64, length: u64, what: RangeSync) -> ();
        ftruncate(handle: Handle, size: u64) -> ();
        fallocate(handle: Handle, offset: u64, length: u64) -> ();
        fstat(handle: Handle) -> Attr;
        stat(path: &[u8]) -> Attr;
        lstat(path: &[u8]) -> Attr;
        access(path: &[u8], access: Access) -> ();
        unlink(path: &[u8]) -> ();
        mkdir(path: &[u8], mode: u32) -> ();
        rmdir(path: &[u8]) -> ();
        rename(from: &[u8], to: &[u8]) -> ();
        link(existing: &[u8], new: &[u8]) -> ();
        symlink(target: &[u8], new: &[u8]) -> ();
        readlink(path: &[u8]) -> Vec<u8>;
        truncate(path: &[u8], size: u64) -> ();
        set_attr(path: &[u8], attr: SetAttr) -> ();
        lset_attr(path: &[u8], attr: SetAttr) -> ();
        statfs() -> StatFs;
        sync() -> ();
        map_touch(handle: Handle, offset: u64, length: u64, write: bool, touched: &mut dyn FnMut(u64)) -> ();
    }

    fn empty_call(&self) {
        self.fs.empty_call();
    }

    fn virtual_time(&self) -> Option<&dyn VirtualTime> {
        self.time.as_ref().map(|time| time as &dyn VirtualTime)
    }

    fn platform(&self) -> &dyn Platform {
        self
    }
}

impl Platform for HiddenFs {
    /// All of it is memory.
    fn evict(&self, _: Handle) -> Result<(), Errno> {
        Err(Errno::EOPNOTSUPP)
    }
}

fn spec(text: &str) -> Arc<dyn TargetSpec> {
    let registry = Registry::new(&[]).with(Box::new(Hidden));
    parse_with(&registry, text).unwrap()
}

const WORKLOAD: &str = "postmark:files=20,transactions=50,size=512-4096,subdirs=2";

fn request(workload: &str) -> RunRequest {
    RunRequest::of(workload.parse().unwrap())
}

fn go() -> AtomicBool {
    AtomicBool::new(false)
}

/// The workload as a trace.
fn trace(file: &Path) {
    let workload: WorkloadSpec = WORKLOAD.parse().unwrap();
    let inputs = fsage_experiment::inputs::load(&workload, Length::Count).unwrap();
    let mut source = Merged::new(workload.program(&inputs).unwrap(), "/w", None);
    let meta = TraceMeta {
        directory: "/w".into(),
        under: vec!["/w".into()],
        ..TraceMeta::default()
    };
    let mut writer = TraceWriter::create_whole(file, meta).unwrap();
    let mut batch = Vec::new();
    while source.next_batch(&mut batch).unwrap() > 0 {
        for op in batch.drain(..) {
            writer.push(&op, source.paths()).unwrap();
        }
    }
    writer.finish(TraceEnd::default()).unwrap();
}

#[test]
fn a_directory_of_its_own_is_a_file_system_and_goes_again() {
    let open = spec("hidden:").open().unwrap();
    let whole = open.file_system(FsOptions::default()).unwrap();
    let names = || {
        let root = whole.open(b"", OpenFlags::DIRECTORY, 0).unwrap();
        let entries = whole.read_dir(root).unwrap();
        whole.close(root).unwrap();
        entries.len()
    };
    let place = open.place("p-").unwrap();
    let fs = place.file_system(FsOptions::default()).unwrap();
    conformance::check(&*fs).unwrap();
    fs.mkdir(b"a", 0o755).unwrap();
    fs.mkdir(b"a/b", 0o755).unwrap();
    fs.symlink(b"a/b", b"a/b/link").unwrap();
    assert!(whole.lstat(b"p-0/a/b/link").is_ok());
    place.clear().unwrap();
    assert_eq!(fs.stat(b"a"), Err(Errno::ENOENT));
    let file = fs.open(b"f", OpenFlags::CREATE_NEW, 0o600).unwrap();
    fs.close(file).unwrap();
    let second = open.place("p-").unwrap();
    assert!(whole.stat(b"p-1").is_ok() && names() == 2);
    drop((fs, place));
    assert_eq!((names(), second.keep().to_str()), (1, Some("p-1")));
    assert_eq!(names(), 1);
    Subdirectory::create(Arc::clone(&whole), "p-").unwrap();
    assert_eq!(names(), 1);
}

#[test]
fn it_is_found_by_its_name_and_reported_in_help() {
    assert!(schemes().parse("hidden:").is_err());
    let registry = Registry::new(&[]).with(Box::new(Hidden));
    assert_eq!(
        parse_with(&registry, "hidden:virtual").unwrap().to_string(),
        "hidden:virtual"
    );
    let help = registry.help();
    assert_eq!(
        help,
        "  hidden:[virtual]  a file system that has no directory\n"
    );
    let error = parse_with(&registry, "hiden:x").unwrap_err().to_string();
    assert!(
        error.contains("`hiden`, expected one of hidden:[virtual];"),
        "{error}"
    );
}

#[test]
fn it_is_run_and_what_needs_a_directory_is_refused() {
    for text in ["hidden:", "hidden:virtual"] {
        let target = spec(text);
        let Ran { result, kept, .. } =
            run_workload(&*target, &request(WORKLOAD), None, &mut |_| {}, &go()).unwrap();
        assert_eq!((result.target.as_str(), kept), (text, None));
        let record = &result.environment.target;
        assert_eq!(record.file_system.as_deref(), Some("hidden"));
        assert_eq!(record.parameters["call_ns"], CALL_NS.to_string());
        let is_virtual = target.has_virtual_time();
        assert_eq!(
            result.environment.machine.kernel.release.is_none(),
            is_virtual
        );
        for phase in &result.phases {
            assert_eq!((phase.unexpected, phase.mismatches.len()), (0, 0));
            for kind in &phase.kinds {
                let whole_calls = kind.latency_total_ns == kind.count * CALL_NS;
                assert!(kind.count > 0 && whole_calls == is_virtual, "{kind:?}");
            }
        }
        let error = run_workload(&*target, &request("cmd: true"), None, &mut |_| {}, &go());
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("has no directory on this machine"),
            "{error}"
        );
        let keep = RunRequest {
            keep: true,
            ..request(WORKLOAD)
        };
        let error = run_workload(&*target, &keep, None, &mut |_| {}, &go()).unwrap_err();
        assert!(error.to_string().contains("made for one run"), "{error}");
        let workloads = vec!["cmd: true".parse().unwrap()];
        let plan = ValidatePlan::new(workloads, vec![target.into()], "x".into(), Vec::new());
        let error = plan.check().unwrap_err().to_string();
        assert!(
            error.contains("has no directory on this machine"),
            "{error}"
        );
    }
}

/// Metrics of it: a few where each takes time, else all.
fn profiled(target: &dyn TargetSpec) -> SystemProfile {
    let open = target.open().unwrap();
    let few = ["STAT", "OPEN", "CLOSE", "CR"].map(String::from);
    let wanted = ProfileRequest {
        quick: true,
        only: few
            .into_iter()
            .filter(|_| !target.has_virtual_time())
            .collect(),
        // Of the target's own time.
        max_time_ns: Some(20_000_000_000),
        seed: 1,
        ..ProfileRequest::default()
    };
    let profile = profile_target(
        &*open,
        target,
        ColdPolicy::Auto,
        &wanted,
        None,
        &mut |_| {},
        &go(),
    )
    .unwrap();
    open.close().unwrap();
    profile
}

#[test]
fn it_is_profiled_predicted_and_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("w.fst");
    trace(&file);
    for text in ["hidden:", "hidden:virtual"] {
        let profile = profiled(&*spec(text));
        let record = &profile.environment.target;
        let named = (profile.name.as_str(), record.file_system.as_deref());
        assert_eq!(named, (text, Some("hidden")));
        assert_eq!(record.virtual_time, text.ends_with("virtual"));
        let estimate = |name: &str| {
            let found = profile.metrics.iter().find(|m| m.name == name);
            found.map(|m| m.estimate)
        };
        let found = ["STAT", "CLOSE"]
            .map(|name| estimate(name).unwrap_or_else(|| panic!("{name}: {:?}", profile.absent)));
        if record.virtual_time {
            // What the name takes of a call on one is another metric.
            assert!((found[1] - CALL_NS as f64).abs() < 1.0, "{found:?}");
            assert!(
                (0.9..=1.0).contains(&(found[0] / CALL_NS as f64)),
                "{found:?}"
            );
        } else {
            assert!(found.iter().all(|&ns| ns > 0.0), "{found:?}");
        }
        let is_virtual = record.virtual_time;

        let mut reader = TraceReader::open(&file).unwrap();
        let request = predicting::Request {
            options: fsage_predict::Options::default(),
            profiles: &[profile],
            one_speed: true,
            snapshot: None,
            changes: &[],
            traced_on: None,
            is_traced: false,
        };
        let prediction = predicting::predict(&mut reader, &request, None).unwrap();
        let target = &prediction.targets[0];
        assert_eq!(target.name, text);
        let charged = prediction.operations_charged;
        assert!(charged > 100);
        if is_virtual {
            // There each call takes the same.
            let whole = (charged * CALL_NS) as f64;
            let off = target.latency_total_ns.unwrap() / whole - 1.0;
            assert!(off.abs() < 0.01, "{off}: {whole} ns, {target:?}");
        }
    }

    for text in ["hidden:", "hidden:virtual"] {
        let request = ReplayRequest {
            trace: file.clone(),
            snapshot: None,
            target: spec(text),
            pace: fsage_exec::replay::Pace::AsFastAsPossible,
            order: fsage_exec::replay::Order::File,
            map: Vec::new(),
            cold: false,
            verify: true,
            keep: false,
            seed: 1,
            measured: None,
            figures: None,
        };
        let reader = TraceReader::open(&file).unwrap();
        let mut stages = Vec::new();
        let (done, _) = replay(reader, &request, &mut |stage| stages.push(stage), &go()).unwrap();
        assert!(done.replayed > 100 && done.differ == 0, "{done:?}");
        assert_eq!(done.verified.unwrap().wrong, 0);
        assert_eq!(stages.last(), Some(&replaying::Stage::Verify));
    }
}

/// One experiment; what a directory could be needed for is left out of the plan.
fn experiment(text: &str, workload: &str) -> Result<Experiment, bench::BenchError> {
    let text = format!(
        "runs = 3\ncache = ['warm 1']\n[[target]]\nspec = '{text}'\n[[workload]]\nspec = '{workload}'\n"
    );
    let registry = Registry::new(&[]).with(Box::new(Hidden));
    let plan = BenchPlan::parse_with(&registry, Path::new("p"), &text, Path::new("/")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let stop = go();
    let order = bench::run::Order {
        dir: dir.path(),
        options: &bench::kept::Options::default(),
        resume: false,
        retry_failed: false,
        stop: &stop,
    };
    bench::run::run(&plan, &order, &mut |_| {})
}

#[test]
fn it_is_benched_and_virtual_time_is_the_same_every_time() {
    let real = experiment("hidden:", WORKLOAD).unwrap();
    assert_eq!(
        (real.failed.len(), real.configurations[0].runs.len()),
        (0, 3)
    );
    let of = |e: &Experiment| -> Vec<_> {
        let runs = e.configurations[0].runs.iter();
        let steps = |run: &fsage_format::result::experiment::BenchRun| {
            let steps = run.steps.iter();
            steps
                .map(|s| (s.name.clone(), s.elapsed_ns))
                .collect::<Vec<_>>()
        };
        runs.map(|run| (run.elapsed_ns, steps(run), run.user_ns, run.series.len()))
            .collect()
    };
    let (first, second) = (
        experiment("hidden:virtual", WORKLOAD).unwrap(),
        experiment("hidden:virtual", WORKLOAD).unwrap(),
    );
    assert_eq!(of(&first), of(&second));
    let (elapsed_ns, steps, user_ns, points) = &of(&first)[0];
    assert!(*elapsed_ns > 100 * CALL_NS && elapsed_ns.is_multiple_of(CALL_NS));
    assert_eq!((*user_ns, *points), (0, 0));
    assert!(
        steps
            .iter()
            .any(|(name, ns)| name == "setup" && *ns > 20 * CALL_NS),
        "{steps:?}"
    );
    let machine = first.machine.unwrap();
    assert!(machine.kernel.release.is_none() && machine.load.busy.is_none());
    let error = experiment("hidden:", "cmd: true").unwrap_err().to_string();
    assert!(
        error.contains("run a command of `cmd: true` on hidden:"),
        "{error}"
    );
    let named = NamedTarget::from(spec("hidden:"));
    assert_eq!(
        (named.clone(), named.name.as_str()),
        (named.clone(), "hidden:")
    );
}

/// What fsage itself measures there is what predictions are held against.
#[test]
fn it_is_validated_by_what_fsage_measures() {
    for text in ["hidden:", "hidden:virtual"] {
        let dir = tempfile::tempdir().unwrap();
        let kept = dir.path().join("v");
        let plan = ValidatePlan {
            runs: 2,
            cache: CacheState::Warm,
            profile_time_ns: Some(20_000_000_000),
            ..ValidatePlan::new(
                vec![WORKLOAD.parse().unwrap()],
                vec![spec(text).into()],
                kept.clone(),
                Vec::new(),
            )
        };
        let judged = validate::run::run(&plan, &mut |_| {}, &go()).unwrap();
        assert!(judged.failed.is_empty(), "{:?}", judged.failed);
        let [pair] = judged.pairs.as_slice() else {
            panic!("{:?}", judged.pairs)
        };
        assert_eq!(
            (pair.target.as_str(), pair.measured_runs_ns.len()),
            (text, 2)
        );
        assert!(pair.measured_ns > 0.0 && pair.predicted_ns > 0.0);
        let counted = |kind: &str| pair.kinds.iter().find(|k| k.kind == kind).unwrap();
        let opens = counted("open");
        assert!((opens.count as f64 - opens.measured_count).abs() < 0.5);
        let reader = TraceReader::open(&kept.join("workload0-target0.fst")).unwrap();
        assert_eq!(reader.meta().method, "measured");
        if text.ends_with("virtual") {
            assert_eq!(pair.measured_runs_ns[0], pair.measured_runs_ns[1]);
            assert!(pair.error.abs() < 0.01, "{pair:?}");
        }
    }
}

#[test]
fn a_layer_needs_a_directory() {
    let slow = schemes().schemes().find(|s| s.prefix() == "slow:").unwrap();
    let registry = Registry::new(&[]).with(Box::new(Hidden));
    let error = slow
        .parse("read=2:hidden:", &registry)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("hidden: has no directory on this machine"),
        "{error}"
    );
    let stopped = AtomicBool::new(true);
    let Ran { result, .. } = run_workload(
        &*spec("hidden:"),
        &request(WORKLOAD),
        None,
        &mut |_| {},
        &stopped,
    )
    .unwrap();
    assert!(result.interrupted && stopped.load(Ordering::Relaxed));
}
