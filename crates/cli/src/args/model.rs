//! Arguments of `model`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::with_targets;

/// Arguments of `model`.
#[derive(Debug, Args)]
#[command(after_help = "\
A model is a small text file that says how a traced workload behaves and nothing of names or contents. It is run
as any workload: fsage run model:mail.fsm scratch:ext4, fsage run filerunner:mail.cfg scratch:ext4.

Examples:
  fsage model fit mail.fst -o mail.fsm && fsage run model:mail.fsm scratch:xfs --scale users=4
  fsage model fit mail.fst -o mail.cfg
  fsage model fit mail.fst -o mail.cfg --chunks 200 --io-chunk 512")]
pub struct ModelArgs {
    /// What to do
    #[command(subcommand)]
    pub verb: ModelVerb,
}

/// What `model` does.
#[derive(Debug, Subcommand)]
pub enum ModelVerb {
    /// Fit a model to a trace
    Fit(ModelFitArgs),
    /// Run a model and what it stands for side by side, and say how far it is off
    Evaluate(ModelEvaluateArgs),
}

/// A form of model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ModelForm {
    /// To be read and edited
    Fsm,
    /// A FileRunner configuration
    Cfg,
}

/// Arguments of `model fit`.
#[derive(Debug, Args)]
pub struct ModelFitArgs {
    /// The trace
    pub trace: PathBuf,
    /// The model to write: one to be read and edited, .fsm, or a FileRunner configuration, .cfg
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
    /// Which of the two it is, where its name does not say so
    #[arg(long = "format", value_enum, value_name = "FORM")]
    pub form: Option<ModelForm>,
    /// Of a .cfg: cut the trace into N pieces of equal time; found by itself otherwise
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub chunks: Option<u32>,
    /// Of a .cfg: tell sizes of requests in steps of N bytes; found by itself otherwise
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub io_chunk: Option<u64>,
    /// How far the model may be from the trace, 5% of a .cfg where nobody says; else exit code 3
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub within: Option<f64>,
    /// Only files below DIR, an absolute directory of the traced machine (may be repeated); else the --under of
    /// the trace, else all that the trace found
    #[arg(long, value_name = "DIR")]
    pub under: Vec<PathBuf>,
    /// Of a .fsm: what was there before the trace
    #[arg(long, value_name = "SNAPSHOT")]
    pub snapshot: Option<PathBuf>,
    /// Fit to a lossy trace all the same
    #[arg(long)]
    pub allow_lossy: bool,
    /// Print the search and what was found as JSON
    #[arg(long)]
    pub json: bool,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse();
    let found = number.ok().filter(|&n: &f64| n > 0.0 && n <= 100.0);
    found.ok_or_else(|| {
        format!("`{text}`, expected a share such as 5%, more than 0% and 100% at most")
    })
}

/// Arguments of `model evaluate`.
#[derive(Debug, Args)]
#[command(after_help = with_targets("\
Both sides run on each target, interleaved, each run in a directory of its own, with caches prepared alike. The
original is a trace, which is replayed, or what --command or --workload name. Exit code 3: a figure is off by more
than is allowed (docs/model-files.md).\n\n", "\
Examples:
  fsage model evaluate mail.fst mail.fsm --on mem:fast --on mem:disk
  fsage model evaluate mail.fst mail.cfg --on scratch:ext4 --on scratch:xfs --runs 5 -o results
  fsage model evaluate mail.fsm --workload postmark:files=500,transactions=2000 --on mem:fast
  fsage model evaluate build.fsm --command 'make -C /src O=$PWD' --on scratch:ext4"))]
pub struct ModelEvaluateArgs {
    /// The trace that the model was fitted to; with --command or --workload the model
    #[arg(value_name = "TRACE")]
    pub first: PathBuf,
    /// The model, .fsm or .cfg
    #[arg(value_name = "MODEL", required_unless_present_any = ["command", "workload"],
        conflicts_with_all = ["command", "workload"])]
    pub model: Option<PathBuf>,
    /// Where both run (may be repeated)
    #[arg(long, value_name = "TARGET", required = true)]
    pub on: Vec<String>,
    /// The original is a command, run by sh in an empty directory; both sides are traced then
    #[arg(long, value_name = "COMMAND", conflicts_with = "workload")]
    pub command: Option<String>,
    /// The original is a workload, as `fsage run` has it
    #[arg(long, value_name = "W")]
    pub workload: Option<String>,
    /// The tree at the start of the trace; without it, what the trace implies
    #[arg(long, value_name = "SNAPSHOT", conflicts_with_all = ["command", "workload"])]
    pub snapshot: Option<PathBuf>,
    /// Runs of each side on each target; one on targets whose time is computed
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// When operations start: as fast as possible (the default for a trace), or at the original's own pace and with the
    /// model's think times (the default with --command, and with --workload where that thinks)
    #[arg(long, value_enum)]
    pub pace: Option<PaceArg>,
    /// What caches hold when a run begins
    #[arg(long, value_enum, default_value = "cold")]
    pub cache: CachesArg,
    /// Allow less: counts equal, bytes and cached reads 1 %, throughput 5 %, latencies 10 %, instead of 2 %, 2 %,
    /// 10 % and 15 %; half of each where time is computed
    #[arg(long)]
    pub strict: bool,
    /// Where the order of runs starts, and what a replay writes
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Where the choices of a .fsm start: what differs with it is chance, not the model
    #[arg(long, value_name = "N")]
    pub model_seed: Option<u64>,
    /// Evaluate against a lossy trace all the same
    #[arg(long)]
    pub allow_lossy: bool,
    /// Record a run that fails and go on with the others
    #[arg(long)]
    pub keep_going: bool,
    /// Go on with what DIR holds of the same evaluation
    #[arg(long, requires = "output")]
    pub resume: bool,
    /// Keep every run and the result, evaluation.json, in DIR
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Show all figures of each target, not only the answer
    #[arg(long)]
    pub details: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// When operations start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PaceArg {
    /// As fast as possible
    Afap,
    /// When the original has them, and after the think times of the model
    Own,
}

/// What caches hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CachesArg {
    /// Nothing
    Cold,
    /// What the set-up leaves there, written back
    Warm,
}
