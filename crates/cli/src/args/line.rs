//! What was typed, before clap takes it and where clap says too little of it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use clap::error::ErrorKind;
use clap::{ArgMatches, Command, Error};

/// What was typed, parsed: clap's doing, which also takes `help --help` and names what is not UTF-8.
pub fn matches(mut command: Command, line: Vec<OsString>) -> Result<ArgMatches, Error> {
    let line = asked_once(&command, line);
    let mut parsed = command.try_get_matches_from_mut(&line);
    if parsed.as_ref().is_err_and(is_short)
        && let Some(all) = all_ops(&line)
        && let Ok(whole) = command.try_get_matches_from_mut(all)
    {
        parsed = Ok(whole);
    }
    parsed.map_err(|error| match error.kind() {
        ErrorKind::InvalidUtf8 => named(&error, &mut command, &line),
        _ => error,
    })
}

fn is_short(error: &Error) -> bool {
    error.kind() == ErrorKind::MissingRequiredArgument
}

/// With all operations asked for where `--ops` has taken what follows it for their range, which may be the file.
fn all_ops(line: &[OsString]) -> Option<Vec<OsString>> {
    let mut line = line.to_vec();
    let option = line.iter_mut().find(|word| *word == "--ops")?;
    option.push("=..");
    Some(line)
}

/// Drops `--help` behind the verb `help`, for which clap looks for a verb of that name: both ask for the same page.
fn asked_once(command: &Command, mut line: Vec<OsString>) -> Vec<OsString> {
    let mut at = command;
    for place in 1..line.len() {
        let word = &line[place];
        if at.has_subcommands() && word == "help" {
            let rest = line.split_off(place);
            let is_help = |word: &OsString| word == "--help" || word == "-h";
            line.extend(rest.into_iter().filter(|word| !is_help(word)));
            return line;
        }
        match at.find_subcommand(word) {
            Some(verb) => at = verb,
            // An option may stand between verbs.
            None if word.as_bytes().first() == Some(&b'-') => {}
            None => return line,
        }
    }
    line
}

/// clap does not tell which argument is not UTF-8: it is the last of the shortest line that is refused for that.
fn named(error: &Error, command: &mut Command, line: &[OsString]) -> Error {
    let mut is_refused = |until: usize| {
        let parsed = command.try_get_matches_from_mut(line.iter().take(until));
        parsed.is_err_and(|error| error.kind() == ErrorKind::InvalidUtf8)
    };
    let mut arguments = (1..).zip(line).filter(|(_, word)| word.to_str().is_none());
    let found = arguments.find(|(until, _)| is_refused(*until));
    let page = error.render().to_string();
    let said = match (found, ErrorKind::InvalidUtf8.as_str()) {
        (Some((_, word)), Some(nameless)) => {
            let word = fsage_core::text::of_path(word.as_bytes());
            let why = format!(
                "'{word}' is not UTF-8, which is expected here; a symbolic link can name a file or directory in UTF-8"
            );
            page.replacen(nameless, &why, 1)
        }
        _ => page,
    };
    Error::raw(
        ErrorKind::InvalidUtf8,
        said.strip_prefix("error: ").unwrap_or(&said),
    )
}

#[cfg(test)]
mod tests {
    use std::ffi::{OsStr, OsString};
    use std::os::unix::ffi::OsStrExt;

    use clap::error::ErrorKind;

    use super::matches;
    use crate::args::command_of;

    fn error(line: &[&[u8]]) -> clap::Error {
        let words = line.iter().map(|word| OsStr::from_bytes(word).to_owned());
        let line: Vec<OsString> = std::iter::once("fsage".into()).chain(words).collect();
        matches(command_of(80), line).unwrap_err()
    }

    #[test]
    fn help_of_help_is_help() {
        for (line, same) in [
            (&[&b"help"[..], b"--help"][..], &[&b"help"[..]][..]),
            (&[b"-q", b"help", b"-h"], &[b"help"]),
            (&[b"help", b"run", b"--help"], &[b"help", b"run"]),
            (&[b"age", b"help", b"--help"], &[b"age", b"help"]),
        ] {
            let (given, wanted) = (error(line), error(same));
            assert_eq!(given.kind(), ErrorKind::DisplayHelp);
            assert_eq!(given.to_string(), wanted.to_string());
        }
        // Words of a command are its own.
        let line: [&[u8]; 4] = [b"trace", b"help", b"--help", b"--nosuch"];
        assert_eq!(error(&line).kind(), ErrorKind::UnknownArgument);
    }

    #[test]
    fn a_file_behind_ops_is_no_range() {
        let of = |words: &[&str]| {
            let line = ["fsage", "show"].iter().chain(words);
            let found = matches(command_of(80), line.map(OsString::from).collect()).unwrap();
            let (_, show) = found.subcommand().unwrap();
            let ops = show.get_one::<String>("ops").cloned().unwrap();
            let file = show.get_one::<std::path::PathBuf>("file").cloned();
            (ops, file.unwrap().display().to_string())
        };
        let all = ("..".to_owned(), "t.fst".to_owned());
        assert_eq!(of(&["--ops", "t.fst"]), all);
        assert_eq!(of(&["--json", "--ops", "t.fst"]), all);
        assert_eq!(of(&["t.fst", "--ops"]), all);
        let some = ("3..9".to_owned(), "t.fst".to_owned());
        assert_eq!(of(&["--ops", "3..9", "t.fst"]), some);
        assert_eq!(of(&["t.fst", "--ops", "3..9"]), some);
    }

    #[test]
    fn what_is_not_utf8_and_should_be_is_named() {
        for (line, name) in [
            (&[&b"run"[..], b"postmark", b"b\xff"][..], "'b\\xff'"),
            (&[b"run", b"w\xfe", b"b\xff"], "'w\\xfe'"),
            (
                &[b"layout", b"a", b"--against", b"o\xfe", b"b\xff"],
                "'b\\xff'",
            ),
            (&[b"profile", b"-o", b"o\xfe", b"d/b\xff"], "'d/b\\xff'"),
            (&[b"run", b"--for=b\xff", b"postmark"], "'--for=b\\xff'"),
        ] {
            let error = error(line);
            assert_eq!(error.kind(), ErrorKind::InvalidUtf8);
            let said = error.to_string();
            assert!(
                said.starts_with(&format!("error: {name} is not UTF-8")),
                "{said}"
            );
            assert!(
                said.contains("symbolic link") && said.contains("Usage: fsage"),
                "{said}"
            );
        }
    }
}
