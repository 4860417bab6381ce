//! From a model of a workload (`.fsm`): what it does is a day, and each day it goes on with what the one before left.
//!
//! What changes where things lie is taken over: files that are made, written, cut, renamed and removed, directories, links.
//! Each visit of a file becomes one opening with its writes, so that files that grow side by side do so here. Reads, locks
//! and times are left out.

mod held;
mod tree;

use std::path::Path;
use std::sync::Arc;

use fsage_core::{OpFlags, OpKind};
use fsage_format::{FileKind, bounded};
use fsage_model::fsm::{Batch, Call, Generator, Model, ModelError, Options, Scale, Type};

use super::emit::Emitter;
use super::{GenerateError, Source, Wanted, begun, refused};
use crate::made::{AgingKind, DAY_NS, Made};
use tree::Tree;

/// Days where nobody says how many.
const DAYS: u32 = 30;

/// Of a day the population takes before the first visit.
const SHARE_OF_POPULATION: f64 = 0.1;

/// A model as a source.
pub struct ModelSource {
    model: Arc<Model>,
    made: Made,
    /// Visits of a day.
    visits: u64,
}

type Done = Result<(), GenerateError>;

impl ModelSource {
    /// The model of that file; `scale` is how many times as long a day of it is.
    pub fn new(path: &Path, wanted: &Wanted) -> Result<Self, GenerateError> {
        wanted.check()?;
        if wanted.fill.is_some() {
            return Err(refused(
                "--fill is for profiles: a model has its own files; --size asks for another file system",
            ));
        }
        let shown = path.display();
        let wrong = |e: ModelError| refused(format!("{shown}: {e}"));
        if let Ok(FileKind::FileRunner) = fsage_format::sniff(path) {
            return Err(refused(format!(
                "{shown}: it is a configuration of FileRunner, expected a model that ends in .fsm, as `fsage model fit \
                 TRACE -o M.fsm` writes it"
            )));
        }
        let text = bounded::read_text(path, "a model of at most 16 MiB")?;
        let model = Model::parse(&text).map_err(wrong)?;
        let time = wanted.scale.unwrap_or(1.0);
        let scale = Scale {
            users: 1,
            time,
            data: 1.0,
        };
        model.check_scale(scale).map_err(wrong)?;
        let model = Arc::new(model.for_time(time));
        let mut once = player(&model, wanted.seed.0, false).map_err(wrong)?;
        let visits = std::iter::from_fn(|| once.any()).count() as u64;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Ok(Self {
            made: Made {
                days: wanted.days.unwrap_or(DAYS),
                size_bytes: wanted.size_bytes.unwrap_or(0),
                ..begun(AgingKind::Model, &name, wanted)
            },
            model,
            visits,
        })
    }
}

fn player(model: &Arc<Model>, seed: u64, endless: bool) -> Result<Generator, ModelError> {
    let options = Options {
        seed,
        endless,
        ..Options::default()
    };
    Generator::new(Arc::clone(model), options)
}

impl Source for ModelSource {
    fn made(&self) -> Made {
        self.made.clone()
    }

    fn emit(&mut self, out: &mut Emitter<'_>) -> Done {
        let mut player =
            player(&self.model, self.made.seed, true).map_err(|e| refused(e.to_string()))?;
        let mut tree = Tree::default();
        let population = player.population();
        for (at, (path, kind, size)) in population.iter().enumerate() {
            let share = at as f64 / population.len() as f64;
            out.at((share * SHARE_OF_POPULATION * DAY_NS as f64) as u64);
            match kind {
                Type::Directory => tree.mkdir(out, path)?,
                Type::File => tree.make(out, path, *size)?,
                Type::Link => tree.symlink(out, path)?,
            }
        }
        for day in 0..self.made.days {
            let from = if day == 0 { SHARE_OF_POPULATION } else { 0.0 };
            for visit in 0..self.visits {
                let Some((_, batch)) = player.any() else {
                    break;
                };
                let share = from + (1.0 - from) * visit as f64 / self.visits as f64;
                // The last visit of a day is whole before it ends.
                let share = share * 0.999;
                out.at(((f64::from(day) + share) * DAY_NS as f64) as u64);
                take(&mut tree, out, &batch)?;
            }
            tree.end_day(out)?;
            out.end_day()?;
        }
        Ok(())
    }
}

/// A visit, in one piece.
fn take(tree: &mut Tree, out: &mut Emitter<'_>, batch: &Batch) -> Done {
    for call in batch.calls.iter().filter(|call| call.op.result.is_ok()) {
        one(tree, out, call)?;
    }
    tree.write(out)
}

fn one(tree: &mut Tree, out: &mut Emitter<'_>, call: &Call) -> Done {
    let op = &call.op;
    let (path, to) = (call.path.as_deref(), call.path2.as_deref());
    match (op.kind, path, to) {
        (OpKind::Open, Some(path), _) => tree.open(out, path, op),
        (OpKind::Close, ..) => tree.close(out, op),
        // Of a whole process, and not of a thread.
        (OpKind::Exit, ..) if op.length == Some(1) => tree.exit(out, op.pid.0),
        (OpKind::Write | OpKind::CopyOut | OpKind::SpliceOut, ..) => {
            let at = op.offset.filter(|_| !op.record.contains(OpFlags::APPEND));
            tree.writes(out, op, at, op.bytes_moved())
        }
        // Space that is asked for lies where data would.
        (OpKind::Fallocate, ..) if op.flags == 0 => {
            tree.writes(out, op, op.offset, op.length.unwrap_or(0))
        }
        (OpKind::Ftruncate, ..) => tree.cut_open(out, op),
        (OpKind::Fsync | OpKind::Fdatasync, ..) => tree.fsync(out, op),
        (OpKind::Mkdir, Some(path), _) => tree.mkdir(out, path),
        (OpKind::Rmdir, Some(path), _) => tree.rmdir(out, path),
        (OpKind::Unlink, Some(path), _) => tree.unlink(out, path),
        (OpKind::Truncate, Some(path), _) => tree.cut(out, path, op.length.unwrap_or(0)),
        (OpKind::Symlink, Some(path), _) => tree.symlink(out, path),
        (OpKind::Link, Some(from), Some(to)) => tree.link(out, from, to),
        (OpKind::Rename, Some(from), Some(to)) => tree.rename(out, from, to),
        _ => Ok(()),
    }
}
