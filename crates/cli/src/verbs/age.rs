//! `fsage age`.

pub mod apply;
mod generate;
mod keep;
mod short_lived;

use anyhow::Result;

use crate::args::{AgeArgs, AgeVerb};
use crate::exit::Exit;

pub fn run(args: &AgeArgs) -> Result<Exit> {
    match &args.verb {
        AgeVerb::Generate(args) => generate::run(args),
        AgeVerb::ShortLived(args) => short_lived::run(args),
        AgeVerb::Apply(args) => apply::run(args),
        AgeVerb::Keep(args) => keep::run(args),
    }
}
