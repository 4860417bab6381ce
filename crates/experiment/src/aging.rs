//! An aging workload applied to a target, and targets kept as images of what they have become.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fsage_age::apply::{
    self, Applied, ApplyError, ApplyOptions, Identity, Observer, State, StateError, Stopped,
};
use fsage_age::layout::{LayoutError, LayoutOptions, of_tree};
use fsage_age::made::{self, DAY_NS, Made, MadeError};
use fsage_core::target::{Preparing, list_dir};
use fsage_core::{
    Confinement, FileSystem, FsOptions, OpenFlags, Seed, Target, TargetError, TargetSpec,
};
use fsage_format::FormatError;
use fsage_format::image::Aged;
use fsage_format::result::aged::{AGED_FORMAT, AGED_VERSION, AgedRun, simulated_days};
use fsage_format::result::layout::SizeClass;
use fsage_format::trace::TraceReader;
use fsage_format::trace::columns::escape;
use fsage_host::scratch::{self, MARKER};
use fsage_host::{HostError, machine};
use rustix::fs::{Mode, OFlags};

use crate::engine::record::claim;
use crate::restoring::{RestoreError, Source};
use crate::target;

pub use fsage_host::scratch::AGED_MARKER as MARK;

/// What a mark is rounded up to, so that it can be written again in its place on a full disk.
const MARK_BYTES: usize = 4096;

/// No mark is longer.
const MOST_MARK_BYTES: u64 = 1 << 20;

/// How a mark is opened: neither through a link nor waiting for what writes into a pipe.
const OWN_FILE: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK);

/// Why a target could not be aged or kept; completes "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum AgingError {
    /// The target could not be used.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// This machine stands against it.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The workload could not be read.
    #[error(transparent)]
    Workload(#[from] RestoreError),
    /// The file is none that can be applied.
    #[error("apply {}: {source}", path.display())]
    Made {
        /// The file.
        path: PathBuf,
        /// Why.
        source: MadeError,
    },
    /// Applying failed.
    #[error("apply {}: {source}", path.display())]
    Apply {
        /// The workload.
        path: PathBuf,
        /// Why.
        source: ApplyError,
    },
    /// What was done before is not known, or another fsage is at it.
    #[error(transparent)]
    State(#[from] StateError),
    /// Another fsage ages the target.
    #[error(transparent)]
    InUse(#[from] FormatError),
    /// It was stopped, and nothing of it is kept.
    #[error("finish: interrupted")]
    Interrupted,
}

/// What is to be done.
#[derive(Debug, Clone)]
pub struct AgingRequest {
    /// The workload.
    pub workload: PathBuf,
    /// What is aged.
    pub target: Arc<dyn TargetSpec>,
    /// Space is allocated and no data written.
    pub fast: bool,
    /// Where the bytes that are written come from.
    pub seed: u64,
    /// Whether the layout score is taken at each day's end.
    pub score: bool,
    /// Where it is kept what was done, so that a run that is killed can be gone on with.
    pub state: Option<PathBuf>,
    /// Goes on with what is kept there.
    pub resume: bool,
    /// The image that the target is kept in, in the end.
    pub keep: Option<PathBuf>,
}

/// Ages a target. `progress` is told operations done and in all, the day and how many there are.
pub fn age(
    workload: TraceReader,
    request: &AgingRequest,
    progress: Preparing<'_>,
    stop: &AtomicBool,
) -> Result<AgedRun, AgingError> {
    age_held(workload, request, progress, stop).map(|(aged, _)| aged)
}

/// The same, with what is kept of it: no other fsage goes on with that before it is dropped.
pub fn age_held(
    mut workload: TraceReader,
    request: &AgingRequest,
    progress: Preparing<'_>,
    stop: &AtomicBool,
) -> Result<(AgedRun, Option<State>), AgingError> {
    let path = &request.workload;
    let made = made_of(&workload, path)?;
    let read = Source::read(path, stop);
    // What fails while fsage stops, fails because of it.
    if stop.load(Ordering::Relaxed) {
        return Err(AgingError::Interrupted);
    }
    let source = read?;
    if !request.target.has_host_dir() {
        let why = "it has no directory on this machine, expected one that has";
        return Err(TargetError::refused(format!("age {}", request.target), why).into());
    }
    let opened = request.target.open()?;
    let full_speed = opened.full_speed();
    let dir = target::command_dir(&*opened)?.to_owned();
    // Who owns the target may put a link in its place meanwhile: the mark lies in what was aged.
    let held = held(&dir)?;
    let fs = opened.file_system(FsOptions {
        confinement: Confinement::Held,
        ..FsOptions::default()
    })?;
    check(&*fs, &made, request)?;
    let mut aged = described(&workload, &source, request);
    if request.fast && !request.resume {
        can_allocate(&*fs)?;
    }
    // Where there is a mark, there is a state to go on with.
    let identity = identity(&source, &dir, request)?;
    let mut state = match &request.state {
        Some(file) if request.resume => Some(State::resume(file, &identity)?),
        Some(file) => Some(State::create(file, &identity)?),
        None => None,
    };
    let room = put_mark((&held, &dir), &aged, None)?;
    let mut watch = Watch {
        dir: request.score.then_some(&*dir),
        total: (workload.total_operations(), days_of(&workload, &made)),
        by_size: Vec::new(),
        progress,
        stop,
    };
    let options = ApplyOptions {
        fast: request.fast,
        seed: Seed(request.seed),
        stop,
    };
    let applied = apply::apply(&mut workload, &*fs, options, state.as_mut(), &mut watch);
    let applied = applied.map_err(|source| match opened.served() {
        // What has died explains it.
        Err(died) => died.into(),
        Ok(()) => AgingError::Apply {
            path: path.clone(),
            source,
        },
    })?;
    let about = about(&*opened, &*fs);
    drop(fs);
    ended(&mut aged, &applied);
    put_mark((&held, &dir), &aged, Some(room))?;
    drop(held);
    opened.write_back()?;
    let mut kept = None;
    if let Some(image) = request.keep.as_ref().filter(|_| !applied.interrupted) {
        let target = request.target.to_string();
        scratch::keep(&dir, &target, Some(aged.clone()), image, stop)?;
        kept = Some(image.display().to_string());
    }
    drop(full_speed);
    opened.close()?;
    let found = (applied, watch.by_size);
    Ok((result(request, aged, found, about, kept), state))
}

/// The type of the file system of a target, as `ext4`, and the size of its blocks in bytes.
fn about(opened: &dyn Target, fs: &dyn FileSystem) -> (Option<String>, Option<u64>) {
    let host = fsage_host::HostFs::of(opened).and_then(Result::ok);
    let kind = host.and_then(|host| Some(host.mount()?.kind.clone()));
    let blocks = fs.statfs().ok().map(|space| u64::from(space.block_bytes));
    (kind, blocks.filter(|&bytes| bytes > 0))
}

/// How many simulated days a workload has.
fn days_of(workload: &TraceReader, made: &Made) -> u64 {
    let traced = workload.end().map_or(0, |end| end.elapsed_ns / DAY_NS);
    u64::from(made.days).max(traced)
}

/// What is known of the aging before it begins.
fn described(workload: &TraceReader, source: &Source, request: &AgingRequest) -> Aged {
    let name = request.workload.file_name().unwrap_or_default();
    let made = workload.meta().extra.get(made::ENTRY);
    Aged {
        workload: name.to_string_lossy().into_owned(),
        workload_sha256: source.sha256().to_owned(),
        made: made
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default(),
        fast: request.fast,
        ..Aged::default()
    }
}

/// What is known of it in the end.
fn ended(aged: &mut Aged, applied: &Applied) {
    aged.days = simulated_days(&applied.days, &aged.made, !applied.interrupted);
    aged.operations = applied.tally.operations;
    aged.whole = !applied.interrupted;
    aged.layout_score = applied.days.last().and_then(|day| day.layout_score);
    aged.ended_unix_ns = machine::unix_time_ns();
}

/// What a trace says of how it was made as an aging workload.
pub fn made_of(workload: &TraceReader, path: &Path) -> Result<Made, AgingError> {
    made::of_trace(workload.meta()).map_err(|source| AgingError::Made {
        path: path.to_owned(),
        source,
    })
}

fn result(
    request: &AgingRequest,
    aged: Aged,
    (applied, by_size): (Applied, Vec<SizeClass>),
    (file_system, block_bytes): (Option<String>, Option<u64>),
    kept: Option<String>,
) -> AgedRun {
    let seconds = applied.elapsed_ns.max(1) as f64 / 1e9;
    let tally = applied.tally;
    AgedRun {
        format: AGED_FORMAT.to_owned(),
        version: AGED_VERSION,
        workload: request.workload.display().to_string(),
        workload_sha256: aged.workload_sha256,
        made: aged.made,
        target: request.target.to_string(),
        file_system,
        block_bytes,
        fast: request.fast,
        seed: request.seed,
        days: applied.days,
        layout_score: aged.layout_score,
        by_size,
        elapsed_ns: applied.elapsed_ns,
        changes_per_second: (tally.created + tally.removed) as f64 / seconds,
        bytes_per_second: tally.written_bytes as f64 / seconds,
        tally,
        resumed_after: applied.resumed_after,
        kept,
        interrupted: applied.interrupted,
    }
}

/// Whether a target can be aged: nothing else lies in it, and the workload fits.
fn check(fs: &dyn FileSystem, made: &Made, request: &AgingRequest) -> Result<(), AgingError> {
    let what = || format!("age {}", request.target);
    let names = list_dir(fs, b"").map_err(|e| TargetError::refused(what(), e))?;
    let is_own = |name: &[u8]| name == b"lost+found" || name == MARKER.as_bytes();
    let found = names.iter().find(|entry| !is_own(&entry.name));
    if request.resume {
        if names.iter().any(|entry| entry.name == MARK.as_bytes()) {
            return Ok(());
        }
        let why =
            format!("there is no {MARK} in it, expected the target that --resume goes on with");
        return Err(TargetError::refused(what(), why).into());
    }
    let marked = names.iter().find(|entry| entry.name == MARK.as_bytes());
    if let Some(found) = marked.or(found) {
        let name = escape(&found.name);
        let why = if name == MARK {
            format!(
                "it was aged already, or that was begun: {MARK} lies in it; expected an empty one, or --resume with the -o of then"
            )
        } else {
            format!("`{name}` lies in it, expected an empty file system or directory")
        };
        return Err(TargetError::refused(what(), why).into());
    }
    let space = fs.statfs().map_err(|e| TargetError::refused(what(), e))?;
    if space.total_bytes > 0 && made.peak_bytes > space.available_bytes {
        let why = format!(
            "it is too small: the files of {} take up to {} bytes, {} are available; expected a larger target, or a \
             workload made with a smaller --size or --fill",
            request.workload.display(),
            made.peak_bytes,
            space.available_bytes
        );
        return Err(TargetError::refused(what(), why).into());
    }
    Ok(())
}

/// Fails where no space can be allocated without writing.
fn can_allocate(fs: &dyn FileSystem) -> Result<(), AgingError> {
    let failed = |errno| {
        TargetError::refused(
            format!("age {} with --fast", fs.name()),
            format!("it cannot allocate space without data ({errno}); leave --fast out"),
        )
    };
    let mark = MARK.as_bytes();
    let file = fs
        .open(mark, OpenFlags::CREATE_NEW, 0o644)
        .map_err(failed)?;
    let allocated = fs.fallocate(file, 0, 1);
    fs.close(file)
        .and_then(|()| fs.unlink(mark))
        .map_err(failed)?;
    Ok(allocated.map_err(failed)?)
}

fn identity(source: &Source, dir: &Path, request: &AgingRequest) -> Result<Identity, AgingError> {
    let about = std::fs::metadata(dir).map_err(|e| HostError::at("look at", dir, e))?;
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let boot = u128::from_str_radix(&boot.trim().replace('-', ""), 16).unwrap_or(0);
    Ok(Identity {
        workload: *source.digest(),
        boot: boot.to_be_bytes(),
        target: (about.dev(), about.ino()),
        how: (request.fast, request.seed),
    })
}

/// The directory of a target, whatever its name leads to later. No other fsage ages it until this is dropped.
fn held(dir: &Path) -> Result<File, AgingError> {
    match claim(dir) {
        // On file systems without locks nobody is kept away.
        Err(FormatError::Io { action: "lock", .. }) => {
            Ok(File::open(dir).map_err(|e| HostError::at("open", dir, e))?)
        }
        claimed => Ok(claimed?),
    }
}

/// Writes the mark of an aged target, in `room` bytes if it was written before; returns how many it has.
fn put_mark(
    (held, dir): (&File, &Path),
    aged: &Aged,
    room: Option<usize>,
) -> Result<usize, HostError> {
    let path = dir.join(MARK);
    let failed = |e: std::io::Error| HostError::at("write", &path, e);
    let mut text = serde_json::to_vec(aged).map_err(|e| failed(e.into()))?;
    let room = room.unwrap_or((text.len() + 512).next_multiple_of(MARK_BYTES));
    text.resize(room.max(text.len()), b' ');
    // The workload and the file system may be a stranger's, and so a link or a pipe lie there.
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OWN_FILE;
    let file = rustix::fs::openat(held, MARK, flags, Mode::from_raw_mode(0o666));
    let file = File::from(file.map_err(|e| failed(e.into()))?);
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(failed(std::io::Error::other("it is no ordinary file")));
    }
    file.write_all_at(&text, 0).map_err(failed)?;
    Ok(text.len())
}

/// How a directory was aged, if it says so.
pub fn mark_of(dir: &Path) -> Option<Aged> {
    let file = File::options()
        .read(true)
        .custom_flags(OWN_FILE.bits().cast_signed())
        .open(dir.join(MARK))
        .ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MOST_MARK_BYTES).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(bytes.trim_ascii_end()).ok()
}

struct Watch<'a, 'b> {
    dir: Option<&'a Path>,
    total: (u64, u64),
    /// Of the last look.
    by_size: Vec<SizeClass>,
    progress: Preparing<'b>,
    stop: &'a AtomicBool,
}

impl Observer for Watch<'_, '_> {
    fn score(&mut self) -> Result<Option<(u64, u64)>, Stopped> {
        let Some(dir) = self.dir else {
            return Ok(None);
        };
        match of_tree(dir, &LayoutOptions::default(), self.stop) {
            Ok(layout) => {
                self.by_size = layout.by_size;
                Ok(layout.score.map(|s| (s.counted_blocks, s.optimal_blocks)))
            }
            Err(LayoutError::Interrupted) => Err(Stopped),
            // A tree that cannot be read has no score.
            Err(_) => Ok(None),
        }
    }

    fn progress(&mut self, operations: u64, day: u64) {
        (self.progress)((operations, self.total.0), (day, self.total.1));
    }
}
