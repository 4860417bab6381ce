//! `fsage --help`: the verbs in groups, in the order in which a newcomer needs them.

use std::fmt::Write as _;

use clap::{Command, CommandFactory};

use super::Cli;

/// Which verb belongs where. A verb that is not named here stands in the last group.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Capture", &["trace", "snapshot"]),
    ("Measure", &["profile"]),
    ("Predict", &["predict", "validate"]),
    (
        "Experiment",
        &["run", "replay", "bench", "compare", "check", "workloads"],
    ),
    ("Files", &["show", "import", "export", "anonymize"]),
    ("More", &["demo", "disk", "slowfs", "cleanup", "help"]),
];

/// Columns that the list of verbs may take: those of the narrowest usual terminal.
const WIDTH: usize = 80;

/// The command line with everything that derive does not say.
pub fn command() -> Command {
    let command = Cli::command();
    let verbs = grouped(&command);
    command.help_template(format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{verbs}Options:\n\
         {{options}}{{after-help}}"
    ))
}

/// Every verb that is shown, with what it does, below its group's name.
fn grouped(command: &Command) -> String {
    let shown: Vec<(&str, String)> = command
        .get_subcommands()
        .filter(|verb| !verb.is_hide_set())
        .map(|verb| {
            let about = verb.get_about().map(ToString::to_string);
            (verb.get_name(), about.unwrap_or_default())
        })
        // clap adds it later.
        .chain([(
            "help",
            "Print this message or the help of the given verb".to_owned(),
        )])
        .collect();
    let column = shown.iter().map(|(name, _)| name.len()).max().unwrap_or(0) + 4;
    let mut text = String::new();
    let last = GROUPS.len() - 1;
    for (number, (group, members)) in GROUPS.iter().enumerate() {
        let mut verbs: Vec<&(&str, String)> = members
            .iter()
            .filter_map(|member| shown.iter().find(|(name, _)| name == member))
            .collect();
        if number == last {
            let named = |name: &str| GROUPS.iter().any(|(_, members)| members.contains(&name));
            verbs.extend(shown.iter().filter(|(name, _)| !named(name)));
        }
        _ = writeln!(text, "{group}:");
        for (name, about) in verbs {
            let lines = wrapped(about, WIDTH - column);
            let rest = format!("\n{:column$}", "");
            _ = writeln!(
                text,
                "{:column$}{}",
                format!("  {name}"),
                lines.join(rest.as_str())
            );
        }
        text.push('\n');
    }
    text
}

/// Lines of at most `width` characters, broken between words.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn every_verb_stands_in_one_group_and_no_line_is_wide() {
        let help = command().render_help().to_string();
        for verb in command().get_subcommands().filter(|v| !v.is_hide_set()) {
            let line = format!("\n  {} ", verb.get_name());
            assert_eq!(
                help.matches(&line).count(),
                1,
                "{}: {help}",
                verb.get_name()
            );
        }
        assert!(help.contains("\nMore:\n"), "{help}");
        let list = help.split("Options:").next().unwrap_or_default();
        assert!(list.lines().all(|l| l.chars().count() <= WIDTH), "{help}");
        assert!(!help.contains('{'), "{help}");
    }

    #[test]
    fn a_verb_stands_in_no_two_groups() {
        let mut all: Vec<&str> = GROUPS.iter().flat_map(|(_, m)| m.iter().copied()).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
