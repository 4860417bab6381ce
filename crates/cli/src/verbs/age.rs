//! `fsage age`.

mod generate;

use anyhow::Result;

use crate::args::{AgeArgs, AgeVerb};
use crate::exit::Exit;

pub fn run(args: &AgeArgs) -> Result<Exit> {
    match &args.verb {
        AgeVerb::Generate(args) => generate::run(args),
    }
}
