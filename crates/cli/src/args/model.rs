//! Arguments of `model`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

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
    /// Of a .cfg: how far what is found may be from the trace; 5% where nobody says
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
