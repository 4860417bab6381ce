//! `fsage model`.

mod evaluate;
mod fit;
mod fsm;

pub use fit::{all, roots};

use anyhow::Result;

use crate::args::{ModelArgs, ModelVerb};
use crate::exit::Exit;

pub fn run(args: &ModelArgs) -> Result<Exit> {
    match &args.verb {
        ModelVerb::Fit(args) => fit::run(args),
        ModelVerb::Evaluate(args) => evaluate::run(args),
    }
}
