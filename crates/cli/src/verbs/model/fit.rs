//! `fsage model fit`.

use anyhow::{Result, bail};

use crate::args::ModelFitArgs;
use crate::exit::Exit;

pub fn run(args: &ModelFitArgs) -> Result<Exit> {
    bail!("fit {}: no model is known yet", args.trace.display());
}
