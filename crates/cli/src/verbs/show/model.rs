//! `fsage show` of a model.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use fsage_format::result::model::{ShownCount, ShownModel, ShownPhase};
use fsage_format::{FileKind, bounded};
use fsage_model::filerunner::{Config, Operation, Plan};
use fsage_model::fsm::{self, Model};

use crate::args::ShowArgs;
use crate::exit::Exit;
use crate::out;

/// Phases that are told one by one.
const PHASES: usize = 1000;

pub fn run(args: &ShowArgs, kind: FileKind) -> Result<Exit> {
    let text = bounded::read_text(&args.file, "a model of at most 16 MiB")?;
    let name = args.file.display().to_string();
    let mut shown = match kind {
        FileKind::Model => of_fsm(&text).map_err(|e| anyhow!("read {name}: {e}"))?,
        _ => of_filerunner(Config::parse(&name, &text)?, &name)?,
    };
    shown.file.clone_from(&args.file);
    if args.json {
        out::document(&shown)?;
    } else {
        let text = fsage_report::model::shown(&shown, args.details, out::width());
        out::text(&text)?;
    }
    Ok(Exit::Done)
}

fn of_fsm(text: &str) -> Result<ShownModel, fsm::ModelError> {
    let model = Arc::new(Model::parse(text)?);
    let outline = fsm::outline(Arc::clone(&model))?;
    Ok(ShownModel {
        file: PathBuf::new(),
        kind: "fsm".into(),
        phases: model.phases.len() as u64,
        groups: model.groups.len() as u64,
        processes: model.groups.iter().map(|g| g.processes).sum(),
        at_once: outline.at_once,
        file_classes: model.classes.len() as u64,
        visits: model.visits.len() as u64,
        files_before: outline.files_before,
        files_later: outline.files_made,
        counts: sorted(outline.counts.iter().map(|(k, n)| (k.name(), *n))),
        bytes_read: outline.bytes_read,
        bytes_written: outline.bytes_written,
        span_ns: Some(model.source.span_ns),
        left_out: model.source.left_out.values().sum(),
        is_longer: outline.is_longer,
        by_phase: model
            .phases
            .iter()
            .take(PHASES)
            .map(|phase| ShownPhase {
                start_ns: Some(phase.start_ns),
                parts: phase.parts.len() as u64,
                lines: phase.parts.iter().map(|p| p.script.len() as u64).sum(),
            })
            .collect(),
    })
}

fn of_filerunner(config: Config, name: &str) -> Result<ShownModel> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let mut processes = Vec::new();
    for definition in config.chunks.iter().flat_map(|c| &c.definitions) {
        let count = counts.entry(definition.operation.name()).or_default();
        *count = count.saturating_add(definition.iterations);
        processes.push(definition.process);
    }
    processes.sort_unstable();
    processes.dedup();
    let moved = [Operation::READ, Operation::WRITE].map(|o| config.bytes(o));
    let [bytes_read, bytes_written] = moved.map(|n| u64::try_from(n).unwrap_or(u64::MAX));
    let by_phase = config.chunks.iter().take(PHASES).map(|chunk| {
        let mut parts: Vec<u32> = chunk.definitions.iter().map(|d| d.process).collect();
        parts.sort_unstable();
        parts.dedup();
        ShownPhase {
            start_ns: None,
            parts: parts.len() as u64,
            lines: chunk.definitions.len() as u64,
        }
    });
    let by_phase = by_phase.collect();
    let phases = config.chunks.len() as u64;
    let created = counts.get(Operation::CREATE.name()).copied().unwrap_or(0);
    let counts = sorted(counts.into_iter());
    let plan = Plan::new(name, config)?;
    Ok(ShownModel {
        file: PathBuf::new(),
        kind: "filerunner".into(),
        phases,
        groups: 0,
        processes: processes.len() as u64,
        at_once: plan.lanes() as u64,
        file_classes: 0,
        visits: 0,
        files_before: plan.setup().files(),
        files_later: created,
        counts,
        bytes_read,
        bytes_written,
        span_ns: None,
        left_out: 0,
        is_longer: false,
        by_phase,
    })
}

/// The most first.
fn sorted<'a>(counts: impl Iterator<Item = (&'a str, u64)>) -> Vec<ShownCount> {
    let mut all: Vec<ShownCount> = counts
        .map(|(kind, operations)| ShownCount {
            kind: kind.to_owned(),
            operations,
        })
        .collect();
    all.sort_by(|a, b| b.operations.cmp(&a.operations).then(a.kind.cmp(&b.kind)));
    all
}
