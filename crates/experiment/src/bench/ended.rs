//! How a command or a phase of a run ended, and errors in words.

use fsage_core::{Root, Target};
use fsage_format::result::run::{CommandRun, Unexpected};

use crate::running::{command, direct::shown};
use crate::target::command_dir;

/// An error with its causes.
pub(super) fn text(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// Runs a command; one that ends badly is an error.
pub(super) fn command_once(
    text: &str,
    root: &dyn Root,
    target: &dyn Target,
) -> Result<CommandRun, String> {
    let dir = command_dir(root).map_err(|e| e.to_string())?;
    let ran = command::run_quietly(text, dir, target);
    let (run, said) = ran.map_err(|e| format!("start `{}`: {e}", shown(text)))?;
    let end = match (run.exit_status, run.exit_signal) {
        (Some(0), _) => return Ok(run),
        (Some(status), _) => format!("exit status {status}"),
        (None, signal) => format!("ended by signal {}", signal.unwrap_or(0)),
    };
    let said = if said.is_empty() {
        String::new()
    } else {
        format!(": {said}")
    };
    Err(format!("run `{}`: {end}, expected 0{said}", shown(text)))
}

/// A phase in which something did not end as expected did not do its work.
pub(super) fn check(phase: &str, unexpected: u64, first: Option<Unexpected>) -> Result<(), String> {
    if unexpected == 0 {
        return Ok(());
    }
    let first = first.map_or_else(String::new, |m| format!(": {}", m.in_words()));
    Err(format!("run phase '{phase}'{first}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ended_otherwise_is_told_with_its_path_if_it_has_one() {
        let unexpected = |path: &str| Unexpected {
            phase: "fill".into(),
            stream: 0,
            index: 7,
            kind: "write".into(),
            path: path.into(),
            expected: "2573".into(),
            actual: "ENOSPC".into(),
        };
        let refusal = |path| check("fill", 1, Some(unexpected(path))).unwrap_err();
        assert_eq!(
            refusal(""),
            "run phase 'fill': write gave ENOSPC instead of 2573"
        );
        assert_eq!(
            refusal("a/b"),
            "run phase 'fill': write of a/b gave ENOSPC instead of 2573"
        );
        assert_eq!(check("fill", 0, None), Ok(()));
    }
}
