//! `fsage export M.fsm --to filebench|fio|wml`.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use fsage_core::Seed;
use fsage_exec::{NullFs, run_direct};
use fsage_format::result::summary::{Content, ConversionSummary, MadeBefore};
use fsage_format::{FileKind, bounded};
use fsage_model::export::{Dialect, Exported, FILE, fio, wml};
use fsage_model::fsm::Model;
use fsage_report::{page::quoted, units};
use fsage_workload::{Length, Role, wml as script};

use super::Output;
use crate::args::{ExportArgs, ExportFormat};
use crate::exit::UsageError;
use crate::made::mark;
use crate::{out, ui};

/// Refuses what is a file of fsage and no model, by what it is.
pub fn check_kind(args: &ExportArgs) -> Result<()> {
    // What is unknown to it may be a model that somebody wrote.
    let Ok(kind) = fsage_format::sniff(&args.file) else {
        return Ok(());
    };
    let help = match kind {
        FileKind::Model => return Ok(()),
        FileKind::Trace => ": fit a model to it first (fsage model fit)",
        FileKind::FileRunner => {
            ", which `fsage run filerunner:FILE` runs: fit a model to the trace it came from (fsage model fit -o M.fsm)"
        }
        _ => "",
    };
    bail!(UsageError(format!(
        "only a model (.fsm) can be written as {}, and {} is {}{help}",
        format!("{:?}", args.to).to_lowercase(),
        args.file.display(),
        kind.what(),
    )))
}

/// Writes a model as another program takes it.
pub fn write(args: &ExportArgs, output: Output<'_>) -> Result<ConversionSummary> {
    let name = args.file.display();
    let text = bounded::read_text(&args.file, "a model of at most 16 MiB")?;
    let failed = |e| anyhow!("export {name}: {e}");
    let model = Arc::new(Model::parse(&text).map_err(failed)?);
    let exported = match args.to {
        ExportFormat::Fio => fio(&model),
        ExportFormat::Filebench => wml(&model, Dialect::Filebench),
        _ => wml(&model, Dialect::Fsage),
    };
    let exported = exported.map_err(failed)?;
    if let Some(rounds) = exported.rounds {
        can_be_run(&exported.text, rounds)
            .with_context(|| format!("run the script that {name} comes to"))?;
    }
    let comment = match args.to {
        ExportFormat::Fio => ["; ", ""],
        _ => ["# ", ""],
    };
    let text = mark::with(exported.text.clone(), comment);
    output
        .write_all(text.as_bytes())
        .with_context(|| format!("write {}", args.output.display()))?;
    Ok(ConversionSummary {
        file: args.output.clone(),
        content: Content::Model,
        written: exported.operations,
        run_by: Some(run_by(args, &exported)),
        made: Some(MadeBefore {
            files: exported.made.files,
            bytes: exported.made.bytes,
            model_files: exported.made_by_model.files,
            model_bytes: exported.made_by_model.bytes,
        }),
        left_out: exported.left_out,
    })
}

/// How what was written is run, by its own name.
fn run_by(args: &ExportArgs, exported: &Exported) -> String {
    let own = match args.output.to_str() {
        Some("-") => FILE.to_owned(),
        _ => quoted(&args.output.display().to_string()),
    };
    exported.run_by.replace(FILE, &own)
}

/// Reads a script as fsage does, and goes through it as often as its head says, with nothing done to files.
fn can_be_run(text: &str, rounds: u64) -> Result<()> {
    let options = script::Options {
        variables: Vec::new(),
        iterations: rounds,
        length: Length::Count,
        seed: Seed(1),
    };
    let program = script::program("the script", text, &options).map_err(|e| anyhow!(e))?;
    for phase in program.only(Role::Run).phases {
        run_direct(&NullFs, phase.streams, &fsage_exec::Options::default())?;
    }
    Ok(())
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
    if let Some(made) = &summary.made {
        ui::line(&format!(
            "  made before the run: {} ({}); by the model: {} ({})",
            units::counted(made.files, "file"),
            units::bytes(made.bytes),
            units::counted(made.model_files, "file"),
            units::bytes(made.model_bytes),
        ));
    }
    if let Some(line) = &summary.run_by {
        ui::note(&format!("next: {line}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A script that its own reader would refuse half way is an error, and what it is.
    #[test]
    fn a_script_that_cannot_be_run_to_its_end_is_known() {
        let script = |size: &str| {
            format!(
                "set $dir=/tmp\ndefine fileset name=files1, path=$dir, entries=9, dirwidth=9, size={size}, prealloc=50\n\
                 define process name=p, instances=1\n{{\n  thread name=t, memsize=10m, instances=1\n  {{\n    \
                 flowop openfile name=a, filesetname=files1, fd=1\n    \
                 flowop read name=b, fd=1, iosize=4096, random\n    \
                 flowop closefile name=c, fd=1\n  }}\n}}\n"
            )
        };
        assert!(can_be_run(&script("8192"), 3).is_ok());
        let refused = format!("{:#}", can_be_run(&script("0"), 3).unwrap_err());
        assert!(
            refused.contains("larger than the file of 0 bytes"),
            "{refused}"
        );
        assert!(can_be_run("define nothing", 1).is_err());
    }
}
