//! The command line as it is written; nothing happens while it is parsed.

mod age;
mod age_apply;
mod allow;
mod bench;
mod check;
mod cleanup;
mod disk;
mod layout;
mod layout_score;
mod line;
mod model;
mod run;
mod slowfs;
mod validate;

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::TypedValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use fsage_experiment::plan::parse_time;

pub use age::{AgeArgs, AgeGenerateArgs, AgeShortLivedArgs, AgeVerb, DeletesArg};
pub use age_apply::{AgeApplyArgs, AgeKeepArgs};
pub use allow::AllowArgs;
pub use bench::BenchArgs;
pub use check::{CheckArgs, CompareArgs};
pub use cleanup::CleanupArgs;
pub use disk::{DiskArgs, DiskServeArgs, DiskVerb};
pub use layout::{command, command_of};
pub use layout_score::LayoutArgs;
pub use line::matches;
pub use model::{
    CachesArg, ModelArgs, ModelEvaluateArgs, ModelFitArgs, ModelForm, ModelVerb, PaceArg,
};
pub use run::{RoleArg, RunArgs, RunChildArgs, WorkloadsArgs};
pub use slowfs::SlowfsArgs;
pub use validate::ValidateArgs;

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    failed; stderr says what, where and what was expected
  2    the command line is wrong
  3    done, but something is missing (lost events, metrics that could not be
       measured): stderr says what
  130  interrupted (129 by SIGHUP, 143 by SIGTERM); what was finished is kept
`fsage trace -- COMMAND` exits with the command's own status.
Pages are as wide as COLUMNS says, else as the terminal, or 100 characters without one.";

/// How will my workload run on that file system?
#[derive(Debug, Parser)]
#[command(
    name = "fsage",
    version,
    about = "How will my workload run on that file system?",
    long_about = "How will my workload run on that file system?\n\n\
        Trace a workload once, profile a file system once, and fsage predicts what every operation \
        would cost there, ranks the candidates, shows where the time goes and what would change if \
        a part of the system were faster.\n\n\
        Start with `fsage demo`, which needs nothing but this binary.",
    after_help = EXIT_CODES
)]
pub struct Cli {
    /// Say nothing on stderr but what is wrong or missing; no progress
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// Help that tells the kinds of targets between what comes before and after.
fn with_targets(before: &str, after: &str) -> String {
    let schemes = fsage_experiment::target::schemes().help();
    format!(
        "{before}A target is one of\n{schemes}NAME= before it is what tables call it.\n\n{after}"
    )
}

/// The verbs, one module each.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Record every file system operation of a command or of running processes
    Trace(TraceArgs),
    /// Make a trace, snapshot or profile from another tool's file
    Import(ImportArgs),
    /// Write a trace, snapshot, profile or model in another tool's format
    Export(ExportArgs),
    /// Say what a file of fsage holds
    Show(ShowArgs),
    /// Hide the names in a trace or snapshot, keeping its structure
    Anonymize(AnonymizeArgs),
    /// Record a directory tree: every file, its attributes and where its data lies
    Snapshot(SnapshotArgs),
    /// Say how files and free space lie: layout score, extents a file, split files
    Layout(LayoutArgs),
    /// Measure what a file system's operations cost
    Profile(ProfileArgs),
    /// Predict what a traced workload would cost on profiled file systems
    Predict(PredictArgs),
    /// Run a workload on a target and measure every operation, or write it as a trace
    Run(RunArgs),
    /// List the workloads and their parameters
    Workloads(WorkloadsArgs),
    /// Run workloads, predict them, and hold the predictions against the measurement
    Validate(ValidateArgs),
    /// Repeat workloads until the figures are precise, by the rules of the field
    Bench(BenchArgs),
    /// Hold configurations of experiments against each other, with intervals and tests
    Compare(CompareArgs),
    /// Check how a benchmark was made: what its result lacks of what the field's guidelines ask
    Check(CheckArgs),
    /// Emulated disks: their models, and one served in real time
    Disk(DiskArgs),
    /// Serve a directory again with chosen operations slowed down
    Slowfs(SlowfsArgs),
    /// Carry out a trace's operations on a target, and hold results and times against the trace's
    Replay(ReplayArgs),
    /// Fit a synthetic workload to a trace
    Model(ModelArgs),
    /// Make workloads that age a file system
    Age(AgeArgs),
    /// List and remove what killed runs of fsage have left on this machine
    Cleanup(CleanupArgs),
    /// All of the main job in one command, on this machine
    Demo(DemoArgs),
    /// Write the reference pages, or check that they are up to date
    #[command(hide = true)]
    Reference(ReferenceArgs),
    /// Run one workload in a directory, in this process
    #[command(hide = true)]
    RunChild(RunChildArgs),
}

/// How a capture is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MethodArg {
    /// eBPF where it is allowed, ptrace otherwise
    Auto,
    /// eBPF: cheap, sees page misses, mapped files, io_uring and libaio; needs root
    Ebpf,
    /// ptrace with a seccomp filter: needs no privileges, about 10 us per recorded call
    Ptrace,
}

/// Arguments of `trace`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fsage trace -o build.fst --under . -- make -j2
  fsage trace -o mail.fst --pid 812 --for 60s
  fsage show build.fst")]
pub struct TraceArgs {
    /// The trace to write
    #[arg(short, long, value_name = "FILE", default_value = "trace.fst")]
    pub output: PathBuf,
    /// How to capture
    #[arg(long, value_enum, default_value = "auto")]
    pub method: MethodArg,
    /// Record only operations on files below DIR (may be repeated)
    #[arg(long, value_name = "DIR")]
    pub under: Vec<PathBuf>,
    /// Attach to a running process and its descendants (may be repeated)
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    pub pid: Vec<u32>,
    /// Stop after this long (60s, 5m, 1h); the trace is kept
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
    pub duration: Option<Duration>,
    /// Size of the buffer between kernel and fsage, in MiB
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub ring_mib: u32,
    /// Memory for what is not yet written, in MiB [default: an eighth of what is available, 1024 at most]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    pub spool_mib: Option<u32>,
    /// Lose operations rather than slow the traced processes down when they are faster than fsage
    #[arg(long)]
    pub no_throttle: bool,
    /// Let the command run on untraced when its trace cannot be written, instead of ending it
    #[arg(long, conflicts_with = "pid")]
    pub keep_running: bool,
    /// Print the summary as JSON
    #[arg(long)]
    pub json: bool,
    /// The command to run and trace
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "pid")]
    pub command: Vec<std::ffi::OsString>,
}

/// A format that fsage reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ImportFormat {
    /// Text of `strace -f -ttt -T`, with or without `-y`
    Strace,
    /// An iolog that fio wrote (`--write_iolog`), version 2 or 3
    FioIolog,
    /// HBench-FS: binary trace, text snapshot or text profile, told apart by the output's extension
    Hbench,
    /// A text snapshot of inodes and blocks without names, as those of the thesis: a line a file, INODE GENERATION
    /// CTIME TYPE SIZE [BLOCK…]
    Classic,
}

/// A format that fsage writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// HBench-FS: a trace as binary, a snapshot or profile as text
    Hbench,
    /// strace's text
    Strace,
    /// Comma-separated values with a header line
    Csv,
    /// Of a model (.fsm): a script for filebench
    Filebench,
    /// Of a model: a job file for fio
    Fio,
    /// Of a model: a script for `fsage run wml:FILE`
    Wml,
}

/// Arguments of `import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The file to read
    pub file: PathBuf,
    /// What it is
    #[arg(long, value_enum)]
    pub from: ImportFormat,
    /// The file to write: .fst for a trace, .fss for a snapshot, .fsp for a profile
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
    /// Only operations on what lies below DIR, an absolute directory of the traced machine (may be
    /// repeated)
    #[arg(long, value_name = "DIR")]
    pub under: Vec<PathBuf>,
    /// Of an iolog: what names that do not begin with / are below, an absolute directory of the traced machine
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Print the summary as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The trace, snapshot, profile or model to read
    pub file: PathBuf,
    /// What to write
    #[arg(long, value_enum)]
    pub to: ExportFormat,
    /// The file to write
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
    /// Export a lossy trace all the same
    #[arg(long)]
    pub allow_lossy: bool,
    /// Print the summary as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `show`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  fsage show build.fst
  fsage show build.fst --ops 100..120
  fsage show build.fst --characterise --svg build.svg
  fsage show monday.fst --against tuesday.fst
  fsage show ext4.fsp --json | jq '.metrics[] | select(.name==\"CR\")'")]
pub struct ShowArgs {
    /// The file: a trace, snapshot, profile, model, image of an aged file system, run record or result,
    /// or a directory that holds a result; or the name of a metric
    pub file: PathBuf,
    /// Print operations one a line: all of them, or FIRST..LAST counted from 0 without LAST
    #[arg(long, value_name = "RANGE", num_args = 0..=1, default_missing_value = "..")]
    pub ops: Option<String>,
    /// Of a trace: what a model of it would know: phases, groups of processes, reuse, popularity, what ran at once
    #[arg(long, conflicts_with = "ops")]
    pub characterise: bool,
    /// Of two traces: whether they are of the same workload, by what --characterise tells
    #[arg(long, value_name = "B", conflicts_with = "ops")]
    pub against: Option<PathBuf>,
    /// With --characterise or --against: only operations on files below this directory; without, below those that
    /// the trace was told to keep, else all but /proc, /sys and /dev
    #[arg(long, value_name = "DIR")]
    pub under: Vec<PathBuf>,
    /// With --characterise or --against: plot it
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Show everything, not only the answer
    #[arg(long)]
    pub details: bool,
    /// Print as JSON; with --ops one object a line
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `anonymize`.
#[derive(Debug, Args)]
pub struct AnonymizeArgs {
    /// The trace, snapshot or profile to read
    pub file: PathBuf,
    /// A file with the key, at least 16 bytes; the same key hides the same name in the same way
    #[arg(long, value_name = "K")]
    pub key_file: PathBuf,
    /// Keep the extensions of file names (.c, .log)
    #[arg(long)]
    pub keep_extensions: bool,
    /// The file to write
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
    /// Print the summary as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `snapshot`.
#[derive(Debug, Args)]
#[command(after_help = "\
With --previous, a file of the same inode, birth, change time and size as there keeps its generation and extents
from there and is not opened. What a defragmenter or a balance moves is no change of a file: take a whole snapshot
after one.

Examples:
  fsage snapshot /home -o day-001.fss
  fsage snapshot /home --previous day-001.fss -o day-002.fss
  fsage layout day-*.fss")]
pub struct SnapshotArgs {
    /// The directory
    pub dir: PathBuf,
    /// An earlier snapshot of the directory: what has not changed since is taken from it
    #[arg(long, value_name = "OLD")]
    pub previous: Option<PathBuf>,
    /// The snapshot to write
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
    /// Print the summary as JSON
    #[arg(long)]
    pub json: bool,
}

/// How a profile makes caches cold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColdArg {
    /// The best of the others that is allowed here
    Auto,
    /// Unmount and mount again (scratch targets)
    Remount,
    /// Sync, freeze, thaw, drop the machine's caches; needs root and disturbs others
    Drop,
    /// Drop the data of fsage's own files; names and inodes stay cached
    Evict,
}

impl From<ColdArg> for fsage_core::ColdPolicy {
    fn from(arg: ColdArg) -> Self {
        match arg {
            ColdArg::Auto => Self::Auto,
            ColdArg::Remount => Self::Only(fsage_core::ColdMethod::Remount),
            ColdArg::Drop => Self::Only(fsage_core::ColdMethod::Drop),
            ColdArg::Evict => Self::Only(fsage_core::ColdMethod::Evict),
        }
    }
}

/// Arguments of `profile`.
#[derive(Debug, Args)]
#[command(after_help = with_targets("", "\
Scratch file systems take more: scratch:btrfs,size=4G,on=file:/var/tmp,mount=compress=zstd, and
on=disk:MODEL puts one on an emulated disk (fsage disk list).

Examples:
  fsage profile /mnt/data -o data.fsp
  fsage profile scratch:ext4 --quick -o ext4.fsp
  fsage profile scratch:ext4,on=disk:hdd-7200 --quick -o slow-disk.fsp
  fsage profile /mnt/data --max-time 10s -o first.fsp
  fsage profile --list"))]
pub struct ProfileArgs {
    /// The target
    #[arg(required_unless_present = "list")]
    pub target: Option<String>,
    /// The profile to write; - is stdout
    #[arg(short, long, value_name = "OUT", required_unless_present = "list")]
    pub output: Option<PathBuf>,
    /// List every metric and what it measures
    #[arg(long)]
    pub list: bool,
    /// Measure less, in under a minute; under three on a disk that seeks
    #[arg(long)]
    pub quick: bool,
    /// Measure only these metrics, families or groups (and what they depend on)
    #[arg(long, value_name = "METRIC,...", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Take this long in all; the most valuable first, and what was left out is recorded as such
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub max_time: Option<Duration>,
    /// How to make caches cold
    #[arg(long, value_enum, default_value = "auto")]
    pub cold: ColdArg,
    /// Keep everything on one CPU, with the kernel's work for it as root (workqueues of the whole
    /// machine, until the end); the profile says so
    #[arg(long)]
    pub one_cpu: bool,
    /// Where random choices start
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print the profile, or the list, as JSON
    #[arg(long)]
    pub json: bool,
}

/// How the page cache is modelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CacheArg {
    /// Least recently used, as in the thesis
    Lru,
    /// Two lists, as Linux has them: what is touched twice survives a scan
    Linux,
}

/// Whether caches hold the snapshot's files when the workload starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StartArg {
    /// Nothing is cached
    Cold,
    /// Everything is cached
    Warm,
}

/// Arguments of `predict`.
#[derive(Debug, Args)]
#[command(after_help = "\
What-if changes (NAME, an operator of * / = + -, a number); --what-if may be repeated:
  memory=8G, memory*2, cache=512M   how much there is to cache in
  disk*2                            a device twice as fast
  disk.seek*0.5, disk.rate*2        half the time to get to a place; data moves at twice the rate
  fsync*0.5                         half the time; also lookup, open, create, close, stat, mkdir, rmdir, rename, unlink, truncate, readdir, read, write
  'RRD**2', STAT=50us, STAT+200     metrics of the profile by name (`fsage show METRIC` explains one)

Examples:
  fsage predict build.fst --on ext4.fsp --on new=xfs.fsp
  fsage predict --workload model:mail.fsm --on ext4.fsp --on new=xfs.fsp
  fsage predict build.fst --on ext4.fsp --what-if memory=8G --what-if 'fsync*0.5'
  fsage predict build.fst --on ext4.fsp --snapshot tree.fss --annotate why.fst")]
pub struct PredictArgs {
    /// The trace
    #[arg(required_unless_present = "workload", conflicts_with = "workload")]
    pub trace: Option<PathBuf>,
    /// A workload in place of a trace, as for `run`: all that it would do is predicted, set-up included, and nothing
    /// is run
    #[arg(long, value_name = "SPEC", conflicts_with_all = ["snapshot", "allow_lossy"])]
    pub workload: Option<String>,
    /// A profile to predict on (may be repeated); NAME= before it says what it is called
    #[arg(long, value_name = "[NAME=]PROFILE", required = true)]
    pub on: Vec<String>,
    /// The system that the trace was made on: a profile by its file, or by its name among those of --on; "none" for
    /// none. What its calls took there then corrects their costs everywhere. Otherwise the one of --on that the trace
    /// says that it was made on, if there is one
    #[arg(long, value_name = "PROFILE", conflicts_with = "workload")]
    pub traced_on: Option<String>,
    /// The tree at the start of the trace
    #[arg(long, value_name = "S")]
    pub snapshot: Option<PathBuf>,
    /// The model of the page cache
    #[arg(long, value_enum, default_value = "linux")]
    pub cache: CacheArg,
    /// The state of the caches at the start
    #[arg(long, value_enum, default_value = "cold")]
    pub start: StartArg,
    /// Change a part of the systems or a metric (may be repeated), as below
    #[arg(long, value_name = "CHANGE")]
    pub what_if: Vec<String>,
    /// Print all that is known of each system after the answer
    #[arg(long)]
    pub details: bool,
    /// Write the trace with request vector, relation and predicted latency beside each operation
    #[arg(long, value_name = "OUT")]
    pub annotate: Option<PathBuf>,
    /// Predict from a lossy trace all the same
    #[arg(long)]
    pub allow_lossy: bool,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// What waits for what in a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OrderArg {
    /// Each thread's own order, and that of each open file
    Process,
    /// That, and the order on every name, file and directory
    File,
    /// That, and all operations start in the order of the trace
    Strict,
}

/// Arguments of `replay`.
#[derive(Debug, Args)]
#[command(after_help = with_targets("", "\
Of the traced machine's files those lie on it that are below: the directories of --map, else the root
of the snapshot, else the --under of the trace, else the directory that holds everything that the
trace found. Nothing outside of the target is touched, whatever the trace names.

Exit code 3: results differ from the trace's. Exit code 1 with --verify: the tree does.

Examples:
  fsage replay build.fst scratch:xfs --verify
  fsage replay mail.fst /mnt/new --snapshot mail.fss --speed original --json"))]
pub struct ReplayArgs {
    /// The trace
    pub trace: PathBuf,
    /// The target
    pub target: String,
    /// The tree at the start of the trace; without it, what the trace implies
    #[arg(long, value_name = "S")]
    pub snapshot: Option<PathBuf>,
    /// When operations start: as fast as possible (afap), at their original times (original), or at N
    /// times that speed (xN)
    #[arg(long, value_name = "SPEED", default_value = "afap", value_parser = crate::verbs::replay::parse_speed)]
    pub speed: fsage_exec::replay::Pace,
    /// What waits for what
    #[arg(long, value_enum, default_value = "file")]
    pub order: OrderArg,
    /// Make the target's caches cold before the first operation (otherwise they hold what making the
    /// tree of the start left in them)
    #[arg(long)]
    pub cold: bool,
    /// Compare the tree at the end with what the trace leads to: names, types, sizes
    #[arg(long)]
    pub verify: bool,
    /// Put what lies below FROM on the traced machine in TO below the target (may be repeated)
    #[arg(long, value_name = "FROM=TO", value_parser = clap::builder::OsStringValueParser::new().try_map(|text| crate::verbs::replay::parse_map(&text)))]
    pub map: Vec<(Vec<u8>, Vec<u8>)>,
    /// Leave what was made in the target directory
    #[arg(long)]
    pub keep: bool,
    /// Where the bytes that are written come from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write every call that is made with what it took as a trace
    #[arg(long = "trace", value_name = "OUT")]
    pub measured: Option<PathBuf>,
    /// Replay a lossy trace all the same
    #[arg(long)]
    pub allow_lossy: bool,
    /// Write the result as JSON; - is stdout
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Keep everything in DIR
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Show everything, not only the answer
    #[arg(long)]
    pub details: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// What is made from the command line and the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReferenceKind {
    /// The pages of docs/reference
    Pages,
    /// Manual pages, one for each verb
    Man,
    /// Completions of bash, zsh and fish
    Completions,
}

/// Arguments of `reference`.
#[derive(Debug, Args)]
pub struct ReferenceArgs {
    /// Where the pages are
    pub dir: PathBuf,
    /// What to write
    #[arg(long, value_enum, default_value = "pages")]
    pub kind: ReferenceKind,
    /// Write nothing; fail if a page differs
    #[arg(long)]
    pub check: bool,
}
