//! `fsage export M.fsm --to filebench|fio|wml`.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use fsage_format::result::summary::{Content, ConversionSummary};
use fsage_format::{FileKind, bounded};
use fsage_model::export::{Dialect, fio, wml};
use fsage_model::fsm::Model;
use fsage_report::units;

use super::Output;
use crate::args::{ExportArgs, ExportFormat};
use crate::exit::UsageError;
use crate::{out, ui};

/// Refuses what is a file of fsage and no model, by what it is.
pub fn check_kind(args: &ExportArgs) -> Result<()> {
    // What is unknown to it may be a model that somebody wrote.
    let Ok(kind) = fsage_format::sniff(&args.file) else {
        return Ok(());
    };
    let kind = match kind {
        FileKind::Trace => "trace: fit a model to it first (fsage model fit)",
        FileKind::Snapshot => "snapshot",
        FileKind::Profile => "profile",
        _ => return Ok(()),
    };
    bail!(UsageError(format!(
        "only a model (.fsm) can be written as {}, and {} is a {kind}",
        format!("{:?}", args.to).to_lowercase(),
        args.file.display(),
    )))
}

/// Writes a model as another program takes it.
pub fn write(args: &ExportArgs, output: Output<'_>) -> Result<ConversionSummary> {
    let name = args.file.display();
    let expected = "a model of at most 16 MiB";
    let bytes = bounded::read(&args.file, bounded::MAX_TEXT_BYTES, expected)?;
    let text = String::from_utf8(bytes).with_context(|| format!("read {name} as text"))?;
    let failed = |e| anyhow!("export {name}: {e}");
    let model = Arc::new(Model::parse(&text).map_err(failed)?);
    let exported = match args.to {
        ExportFormat::Fio => fio(&model),
        ExportFormat::Filebench => wml(&model, Dialect::Filebench),
        _ => wml(&model, Dialect::Fsage),
    };
    let exported = exported.map_err(failed)?;
    output
        .write_all(exported.text.as_bytes())
        .with_context(|| format!("write {}", args.output.display()))?;
    Ok(ConversionSummary {
        file: args.output.clone(),
        content: Content::Model,
        written: exported.operations,
        left_out: exported.left_out,
    })
}

/// Says what the file does not say.
pub fn tell(summary: &ConversionSummary) {
    ui::note(&format!(
        "{}: the nearest to a model of {}",
        out::shown(&summary.file),
        units::counted(summary.written, "operation")
    ));
    for (what, count) in &summary.left_out {
        ui::line(&format!("  lost: {what}: {}", units::count(*count)));
    }
}
