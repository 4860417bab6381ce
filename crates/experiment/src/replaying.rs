//! A trace that is replayed on a target.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fsage_core::target::remove_below;
use fsage_core::{Errno, FsOptions, Place, Seed, SourceError, TargetError, TargetSpec};
use fsage_exec::replay::{
    self, BuildError, Built, Fault, INCOMING, Model, Order, Pace, Placement, ReplayOptions,
    ReplayRun, ReplayTree, Scan, Times, Verified,
};
use fsage_format::FormatError;
use fsage_format::result::replay::{
    BuiltTree, Mapping, REPLAY_FORMAT, REPLAY_VERSION, Replay, ReplayDifference, ReplayKind,
    ReplayTimes, ReplayTiming, ReplayVerified, WrongName,
};
use fsage_format::snapshot::SnapshotReader;
use fsage_format::trace::columns::escape;
use fsage_format::trace::{TraceMeta, TraceReader};
use fsage_host::pauses::Pauses;

use crate::measured::{DeviceWatch, MeasuredError, MeasuredTrace, Sealed, Wanted, trace_root};
use crate::restoring::{AddError, add_snapshot};
use crate::running::describe_cold;

/// Why nothing was replayed; completes "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum ReplayingError {
    /// A file could not be read.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The trace could not be read on.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The target could not be made ready.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// What was measured could not be written.
    #[error(transparent)]
    Measured(#[from] MeasuredError),
    /// The tree of the start could not be made.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The snapshot is no tree that can be made.
    #[error(transparent)]
    Snapshot(AddError),
    /// The snapshot is of another tree.
    #[error("use snapshot {snapshot}: it is of {root}, and nothing in the trace lies there")]
    OtherTree {
        /// The snapshot.
        snapshot: String,
        /// The directory whose tree it is.
        root: String,
    },
    /// Nothing of the trace can be replayed.
    #[error("replay {trace}: it names nothing below {below}{}", .instead.as_ref().map_or_else(String::new, |what| format!("; {what}")))]
    Nothing {
        /// The trace.
        trace: String,
        /// What is replayed.
        below: String,
        /// What lies where instead.
        instead: Option<String>,
    },
}

impl From<AddError> for ReplayingError {
    fn from(error: AddError) -> Self {
        match error {
            AddError::Stopped(stopped) => Self::Build(stopped),
            error => Self::Snapshot(error),
        }
    }
}

/// What is to be replayed, where and how.
#[derive(Debug, Clone)]
pub struct ReplayRequest {
    /// The trace.
    pub trace: PathBuf,
    /// The tree before it.
    pub snapshot: Option<PathBuf>,
    /// Where.
    pub target: Arc<dyn TargetSpec>,
    /// When operations start.
    pub pace: Pace,
    /// What waits for what.
    pub order: Order,
    /// Absolute directories of the traced machine and where they are to lie below the target.
    pub map: Vec<(Vec<u8>, Vec<u8>)>,
    /// Make caches cold before the first operation.
    pub cold: bool,
    /// Hold the tree of the end against the trace's.
    pub verify: bool,
    /// Leave the tree on the target.
    pub keep: bool,
    /// Where the bytes that are written come from.
    pub seed: u64,
    /// Where each measured operation is written.
    pub measured: Option<PathBuf>,
    /// Find what the operations come to, with caches of so many pages.
    pub figures: Option<Vec<u64>>,
}

/// What is being done, for the user to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The trace is read for what was there before.
    Scan,
    /// The tree is made.
    Build,
    /// Operations run.
    Replay,
    /// The tree is looked at.
    Verify,
}

/// Replays. `reader` is the trace, opened and accepted; it is read a second time by its name. A
/// stopped replay gives what it has once operations run; before that it is [`BuildError::Interrupted`].
/// Returns the result, and what was written of the operations.
pub fn replay(
    mut reader: TraceReader,
    request: &ReplayRequest,
    on_stage: &mut dyn FnMut(Stage),
    stop: &AtomicBool,
) -> Result<(Replay, Option<Sealed>), ReplayingError> {
    on_stage(Stage::Scan);
    let meta = reader.meta().clone();
    let mut tree = ReplayTree::new(true);
    let root = match &request.snapshot {
        Some(path) => Some(load_snapshot(path, &meta, &mut tree, stop)?),
        None => None,
    };
    let directory = meta.working_directory();
    let inside = inside(request, &meta, root.as_deref());
    let scan = replay::scan(&mut reader, tree, &directory, inside.clone(), stop)?;
    drop(reader);
    if scan.interrupted {
        return Err(BuildError::Interrupted.into());
    }
    let placement = inside.or_else(|| Some(below(scan.common.as_deref()?)));
    let placement = placement.ok_or_else(|| ReplayingError::Nothing {
        trace: request.trace.display().to_string(),
        below: "any directory".into(),
        // Every capture tells directories.
        instead: meta.method.starts_with("import").then(|| {
            "names that do not begin with / are below a directory that it does not tell: `fsage import --directory DIR` \
             gives that of an iolog, strace -y tells it"
                .into()
        }),
    })?;
    check_map(request, &scan)?;
    let target = request.target.open()?;
    let place = target.place("fsage-replay-")?;
    let found = Found {
        meta: &meta,
        scan: &scan,
        placement: &placement,
        all: scan.incoming.placed(&placement),
    };
    let result = on_target(request, &found, &*place, on_stage, stop);
    let result = result.and_then(|result| {
        if !result.0.interrupted {
            target.check()?;
        }
        Ok(result)
    });
    let result = match result {
        Ok(mut result) if request.keep => {
            result.0.kept = Some(place.keep().display().to_string());
            Ok(result)
        }
        result => {
            drop(place);
            result
        }
    };
    match (result, target.close()) {
        // What was found is told whatever becomes of the place.
        (Ok(mut result), Err(error)) => {
            result.0.warnings.push(format!("failed to {error}"));
            Ok(result)
        }
        (result, _) => result,
    }
}

/// Whether the trace names anything in the directories that were asked for.
fn check_map(request: &ReplayRequest, scan: &Scan) -> Result<(), ReplayingError> {
    let mut map = request.map.iter();
    if map.len() == 0 || map.any(|(from, _)| !is_unmet(scan, from)) {
        return Ok(());
    }
    let below: Vec<String> = request.map.iter().map(|(from, _)| escape(from)).collect();
    Err(ReplayingError::Nothing {
        trace: request.trace.display().to_string(),
        below: below.join(" and "),
        instead: scan
            .common
            .as_deref()
            .map(|dir| format!("what it names lies below {}", escape(dir))),
    })
}

fn is_unmet(scan: &Scan, from: &[u8]) -> bool {
    scan.unmet.contains(&replay::place::normal(from))
}

/// What the first reading of the trace gave.
struct Found<'a> {
    meta: &'a TraceMeta,
    scan: &'a Scan,
    placement: &'a Placement,
    /// With what comes in from outside.
    all: Placement,
}

/// Makes the tree of the start in `place`, and the caches as they were asked for.
fn make_start(
    request: &ReplayRequest,
    Found { scan, all, .. }: &Found<'_>,
    place: &dyn Place,
    stop: &AtomicBool,
) -> Result<(Built, Option<String>), ReplayingError> {
    // Every name is a stranger's.
    let fs = place.file_system(FsOptions::default())?;
    let seed = Seed(request.seed);
    // A file system of its own may be filled: that is a result.
    let added_bytes = if request.target.is_temporary() {
        0
    } else {
        scan.added_bytes
    };
    replay::check_room(&*fs, &scan.start, all, added_bytes)?;
    let built = replay::build(&*fs, &scan.start, all, seed, stop)?;
    // What was made must not be written back while operations are timed.
    fs.sync()
        .map_err(|errno| TargetError::refused("write the initial tree back", errno))?;
    if stop.load(Ordering::Relaxed) {
        return Err(BuildError::Interrupted.into());
    }
    if !request.cold {
        return Ok((built, None));
    }
    let evidence = fs.platform().make_cold().map_err(|errno| {
        let why = format!("{errno}; expected a target whose caches can be made cold, or no --cold");
        TargetError::refused(format!("make the caches of {} cold", request.target), why)
    })?;
    Ok((built, Some(describe_cold(evidence))))
}

fn on_target(
    request: &ReplayRequest,
    found: &Found<'_>,
    place: &dyn Place,
    on_stage: &mut dyn FnMut(Stage),
    stop: &AtomicBool,
) -> Result<(Replay, Option<Sealed>), ReplayingError> {
    on_stage(Stage::Build);
    let (built, made_cold) = make_start(request, found, place, stop)?;
    let Found {
        meta,
        scan,
        placement,
        ref all,
    } = *found;
    let fs = place.file_system(FsOptions::default())?;
    on_stage(Stage::Replay);
    let directory = meta.working_directory();
    let mut model = Model::new(scan.start.restart(), &directory, Some(all.clone()));
    model.faults = scan.faults;
    model.incoming = scan.incoming.again();
    let mut source = TraceReader::open(&request.trace)?;
    let wanted = Wanted {
        path: request.measured.as_deref(),
        figures: request.figures.as_deref(),
        ..Wanted::default()
    };
    let is_wanted = wanted.path.is_some() || wanted.figures.is_some();
    let traced = is_wanted
        .then(|| MeasuredTrace::begin(wanted, &*fs, trace_root(place), measured_meta(request)));
    let traced = traced.transpose()?;
    let watch = wanted.figures.map(|_| DeviceWatch::begin(&*fs));
    let options = ReplayOptions {
        pace: request.pace,
        order: request.order,
        seed: Seed(request.seed.wrapping_add(1)),
        stop,
        measured: traced.as_ref().map(MeasuredTrace::door),
    };
    let before = Pauses::now();
    let run = replay::replay(&*fs, &mut source, &mut model, &options);
    let stopped = Pauses::now().since(&before);
    let why = match &run {
        _ if stop.load(Ordering::Relaxed) => Some("interrupted"),
        run => run.is_err().then_some("failed"),
    };
    let device = watch.and_then(DeviceWatch::finish);
    let sealed = traced.map(|traced| traced.finish(why)).transpose()?;
    let sealed = sealed.map(|sealed| Sealed { device, ..sealed });
    let run = run?;
    let mut result = result(request, meta, placement, built, &run);
    result.built.incoming = scan.incoming.made;
    if scan.incoming.made > 0 {
        // It is none of the trace's. What cannot be removed goes with the place.
        let _ =
            remove_below(&*fs, INCOMING.as_bytes()).and_then(|()| fs.rmdir(INCOMING.as_bytes()));
    }
    if made_cold.is_some() {
        result.caches = "cold".into();
        result.made_cold = made_cold;
    }
    let mut verified = None;
    if request.verify && !run.interrupted {
        on_stage(Stage::Verify);
        verified = replay::verify(&*fs, &model.tree, placement, stop);
        result.interrupted = verified.is_none();
    }
    result.verified = verified.as_ref().map(|it| verified_result(it, &run));
    result.warnings = warnings(request, scan, &run);
    let real = fs.virtual_time().is_none();
    result.warnings.extend(stopped.filter(|_| real));
    Ok((result, sealed))
}

fn measured_meta(request: &ReplayRequest) -> TraceMeta {
    let (trace, target) = (request.trace.display(), &request.target);
    TraceMeta {
        command: vec![
            "fsage".into(),
            "replay".into(),
            trace.to_string(),
            target.to_string(),
        ],
        seed: Some(request.seed),
        ..TraceMeta::default()
    }
}

/// Reads a snapshot into the tree; returns its root.
fn load_snapshot(
    path: &Path,
    meta: &TraceMeta,
    tree: &mut ReplayTree,
    stop: &AtomicBool,
) -> Result<Vec<u8>, ReplayingError> {
    let snapshot = SnapshotReader::open(path)?;
    let root_text = snapshot.meta().root.clone();
    let root_path = Path::new(&root_text);
    let related = |dir: &String| {
        let dir = Path::new(dir);
        dir.starts_with(root_path) || root_path.starts_with(dir)
    };
    if !root_text.starts_with('/') || !meta.under.is_empty() && !meta.under.iter().any(related) {
        return Err(ReplayingError::OtherTree {
            snapshot: path.display().to_string(),
            root: root_text,
        });
    }
    let root_path = snapshot.meta().root_path();
    let root = tree.directory(&root_path);
    add_snapshot(path, snapshot, (tree, root), stop, &mut |_| true)?;
    Ok(root_path)
}

/// Which directories lie where: those asked for, else the snapshot's root, else what the trace was
/// kept to; `None` for the directory that holds everything that it found.
fn inside(request: &ReplayRequest, meta: &TraceMeta, root: Option<&[u8]>) -> Option<Placement> {
    let mut placement = Placement::default();
    for (from, to) in &request.map {
        placement.add(from, to);
    }
    if !placement.is_empty() {
        return Some(placement);
    }
    let under = meta.roots().into_iter();
    let under = under.map(|dir| replay::place::normal(&dir));
    let shared = under.reduce(|a, b| replay::place::common(&a, &b));
    root.map(<[u8]>::to_vec).or(shared).map(|from| below(&from))
}

fn below(from: &[u8]) -> Placement {
    let mut placement = Placement::default();
    placement.add(from, b"");
    placement
}

fn result(
    request: &ReplayRequest,
    meta: &TraceMeta,
    placement: &Placement,
    built: Built,
    run: &ReplayRun,
) -> Replay {
    let mut result = Replay {
        format: REPLAY_FORMAT.into(),
        replay_version: REPLAY_VERSION,
        trace: request.trace.display().to_string(),
        command: meta.command.clone(),
        target: request.target.to_string(),
        kept: None,
        snapshot: request.snapshot.as_ref().map(|s| s.display().to_string()),
        mapped: placement
            .rules()
            .iter()
            .map(|(from, to)| Mapping {
                from: escape(from),
                to: escape(to),
            })
            .collect(),
        speed: speed_name(request.pace),
        order: order_name(request.order).into(),
        seed: request.seed,
        built: BuiltTree {
            files: built.files,
            links: built.links,
            directories: built.directories,
            symlinks: built.symlinks,
            bytes: built.bytes,
            incoming: 0,
        },
        caches: "warm".into(),
        made_cold: None,
        operations: run.operations,
        replayed: run.replayed,
        skipped: std::collections::BTreeMap::new(),
        skipped_kinds: std::collections::BTreeMap::new(),
        skipped_traced_ns: run.skipped_traced_ns,
        differ: run.differ,
        differences: Vec::new(),
        kinds: Vec::new(),
        timing: timing(request.pace, run),
        threads: run.threads as u64,
        verified: None,
        interrupted: run.interrupted,
        warnings: Vec::new(),
    };
    for ((kind, why), count) in &run.skipped {
        *result.skipped.entry(why.name().into()).or_default() += count;
        let kinds = result.skipped_kinds.entry(kind.name().into()).or_default();
        *kinds.entry(why.name().into()).or_default() += count;
    }
    let differences = run.differences.iter();
    result
        .differences
        .extend(differences.map(|d| ReplayDifference {
            row: d.row,
            tid: d.tid.0,
            kind: d.kind.name().into(),
            name: escape(&d.name),
            expected: d.expected,
            actual: d.actual,
        }));
    result.kinds.extend(run.kinds.iter().map(|k| ReplayKind {
        kind: k.kind.name().into(),
        operations: k.operations,
        differ: k.differ,
        errors: k.errors.clone(),
        traced: times(k.traced),
        replayed: times(k.replayed),
    }));
    result
}

fn times(times: Times) -> ReplayTimes {
    ReplayTimes {
        count: times.count,
        total_ns: times.total_ns,
        p50_ns: times.p50_ns,
        p99_ns: times.p99_ns,
        max_ns: times.max_ns,
    }
}

fn timing(pace: Pace, run: &ReplayRun) -> ReplayTiming {
    let due_elapsed_ns = match pace {
        Pace::AsFastAsPossible => None,
        Pace::Times(speed) => Some((run.traced_elapsed_ns as f64 / speed) as u64),
    };
    let against = due_elapsed_ns.unwrap_or(run.traced_elapsed_ns);
    ReplayTiming {
        traced_elapsed_ns: run.traced_elapsed_ns,
        due_elapsed_ns,
        replayed_elapsed_ns: run.replayed_elapsed_ns,
        ratio: (against > 0).then(|| run.replayed_elapsed_ns as f64 / against as f64),
        start_error: run.start_error.map(times),
    }
}

fn verified_result(verified: &Verified, run: &ReplayRun) -> ReplayVerified {
    let kinds = run.in_no_tree.iter();
    ReplayVerified {
        names: verified.names,
        wrong: verified.wrong,
        first: verified
            .first
            .iter()
            .map(|wrong| WrongName {
                name: escape(&wrong.name),
                problem: problem(&wrong.fault),
            })
            .collect(),
        not_verified: kinds
            .map(|(kind, count)| (kind.name().to_owned(), *count))
            .collect(),
    }
}

/// What is wrong with a name, in words.
pub(crate) fn problem(fault: &Fault) -> String {
    match fault {
        Fault::Missing => "missing".to_owned(),
        Fault::Unexpected => "not expected".to_owned(),
        Fault::Type(expected, found) => format!("a {found}, expected a {expected}"),
        Fault::Size(expected, found) => format!("{found} bytes, expected {expected}"),
        Fault::Target => "a link with another text than expected".to_owned(),
        Fault::Unreadable(errno) => format!("could not be looked at: {errno}"),
    }
}

fn warnings(request: &ReplayRequest, scan: &Scan, run: &ReplayRun) -> Vec<String> {
    let mut warnings = Vec::new();
    if scan.unexplained > 0 {
        warnings.push(format!(
            "{} names exist in the trace without it or the tree of the start having made them: what made \
             them is not in the trace, and operations on them fail",
            scan.unexplained
        ));
    }
    for (from, to) in request.map.iter().filter(|(from, _)| is_unmet(scan, from)) {
        let [from, to] = [from, to].map(|path| escape(path));
        warnings.push(format!(
            "--map {from}={to}: the trace names nothing below {from}"
        ));
    }
    if run.replayed == 0 && run.operations > 0 && !run.interrupted {
        warnings.push("nothing was replayed: see what was skipped, and --map".into());
    }
    let too_many: u64 = run
        .kinds
        .iter()
        .filter_map(|kind| kind.errors.get(&Errno::EMFILE.0))
        .sum();
    if too_many > 0 {
        warnings.push(format!(
            "{too_many} operations failed with EMFILE: the trace has more files open at once than a process may have here; \
             raise the hard limit (ulimit -Hn) and replay again"
        ));
    }
    if request.snapshot.is_none()
        && !scan.faults
        && run.skipped.keys().any(|k| k.0 == fsage_core::OpKind::Mmap)
    {
        warnings
            .push("the trace has no page faults: of mapped files whole mappings were read".into());
    }
    warnings
}

/// `afap`, `original`, `x2`.
pub fn speed_name(pace: Pace) -> String {
    match pace {
        Pace::AsFastAsPossible => "afap".into(),
        Pace::Times(1.0) => "original".into(),
        Pace::Times(speed) => format!("x{speed}"),
    }
}

fn order_name(order: Order) -> &'static str {
    match order {
        Order::Process => "process",
        Order::File => "file",
        Order::Strict => "strict",
    }
}
