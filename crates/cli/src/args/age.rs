//! Arguments of `age`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{AgeApplyArgs, AgeKeepArgs};

/// Arguments of `age`.
#[derive(Debug, Args)]
#[command(after_help = "\
An aging workload is an ordinary trace of simulated days: `fsage show` tells what it holds, `fsage
replay` carries it out.

Examples:
  fsage age generate --profile home-1996 -o home.fst
  fsage age generate --profile mail --size 2G --fill 80% --days 60 -o mail.fst")]
pub struct AgeArgs {
    /// What to do
    #[command(subcommand)]
    pub verb: AgeVerb,
}

/// What `age` does.
#[derive(Debug, Subcommand)]
pub enum AgeVerb {
    /// Make an aging workload
    Generate(AgeGenerateArgs),
    /// Carry out an aging workload on a target
    Apply(AgeApplyArgs),
    /// Keep an aged file system as an image, from which aged:IMAGE puts it back
    Keep(AgeKeepArgs),
}

/// Arguments of `age generate`.
#[derive(Debug, Args)]
#[command(after_help = profiles_help())]
pub struct AgeGenerateArgs {
    /// From a named usage profile
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// The workload to write, a trace
    #[arg(short, long, value_name = "W.fst")]
    pub output: PathBuf,
    /// Where random choices start
    #[arg(long, value_name = "N", default_value_t = 42)]
    pub seed: u64,
    /// Simulated days [default: the source's]
    #[arg(long, value_name = "N")]
    pub days: Option<u32>,
    /// Size of the file system to be aged (502M, 2G) [default: the source's]
    #[arg(long, value_name = "S", value_parser = size)]
    pub size: Option<u64>,
    /// Reach this utilisation and hold it at every day's end (0.8 or 80%) [default: the source's course]
    #[arg(long, value_name = "F", value_parser = share)]
    pub fill: Option<f64>,
    /// So many times the source's activity [default: 1]
    #[arg(long, value_name = "S")]
    pub scale: Option<f64>,
    /// Print what was made as JSON
    #[arg(long)]
    pub json: bool,
}

fn profiles_help() -> String {
    let mut help = String::from(
        "Profiles, each for a file system of its size; --size scales files and activity with it:\n",
    );
    for profile in fsage_age::generate::PROFILES {
        help.push_str(&format!(
            "  {:10} {} MiB, {} days: {}\n",
            profile.name,
            profile.size_bytes >> 20,
            profile.days,
            profile.what
        ));
    }
    help
}

fn size(text: &str) -> Result<u64, String> {
    fsage_host::scratch::parse_size(text)
        .ok_or_else(|| format!("`{text}`, expected a number with K, M, G or T"))
}

fn share(text: &str) -> Result<f64, String> {
    let number = match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().map(|p| p / 100.0),
        None => text.parse(),
    };
    number.map_err(|_| format!("`{text}`, expected a share as 0.8 or 80%"))
}
