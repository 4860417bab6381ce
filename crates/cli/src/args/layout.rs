//! `fsage --help`: the verbs in groups, in the order in which a newcomer needs them.

use std::fmt::Write as _;

use clap::{Command, CommandFactory};
use fsage_report::page::wrapped;

use super::Cli;
use crate::out;

/// Which verb belongs where. A verb that is not named here stands in the last group.
const GROUPS: &[(&str, &[&str])] = &[
    ("Capture", &["trace", "snapshot"]),
    ("Measure", &["profile"]),
    ("Predict", &["predict", "validate"]),
    (
        "Experiment",
        &["run", "replay", "bench", "compare", "check", "workloads"],
    ),
    ("Model", &["model"]),
    ("Age", &["age", "layout"]),
    ("Files", &["show", "import", "export", "anonymize"]),
    ("More", &["demo", "disk", "slowfs", "cleanup", "help"]),
];

/// Columns that the list of verbs may take: those of the narrowest usual terminal.
const WIDTH: usize = 80;

/// The most columns that prose takes.
const PROSE: usize = 100;

/// The command line with everything that derive does not say.
pub fn command() -> Command {
    command_of(usize::from(out::width()).clamp(40, PROSE))
}

/// The same for pages of that width.
pub fn command_of(width: usize) -> Command {
    // Clap by itself would follow COLUMNS down to one.
    let command = flowing(Cli::command(), width).term_width(width);
    let verbs = grouped(&command);
    command.help_template(format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{verbs}Options:\n\
         {{options}}{{after-help}}"
    ))
}

/// What stands after the options, of all verbs, in lines of that width.
fn flowing(command: Command, width: usize) -> Command {
    // A negative number is a value that is wrong, not an option that there is not.
    let mut command = command.mut_args(|arg| {
        let takes_value = !arg.is_positional() && arg.get_action().takes_values();
        arg.allow_negative_numbers(takes_value)
    });
    if let Some(text) = command.get_after_help().map(ToString::to_string) {
        command = command.after_help(flowed(&text, width));
    }
    let verbs: Vec<String> = command
        .get_subcommands()
        .map(|v| v.get_name().to_owned())
        .collect();
    verbs.into_iter().fold(command, |command, verb| {
        command.mut_subcommand(verb, |verb| flowing(verb, width))
    })
}

/// A space at which no line is broken.
const HELD: char = '\u{1}';

/// A command whose spaces within quotes are held: a shell takes what stands there as it is.
fn held(command: &str) -> String {
    let mut quoted = false;
    let hold = |c: char| {
        quoted ^= c == '\'';
        if quoted && c == ' ' { HELD } else { c }
    };
    command.chars().map(hold).collect()
}

/// Lines that begin at the margin are prose and one paragraph until an empty one; those that are set in stay
/// lines, and what does not fit goes on further in.
fn flowed(text: &str, width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut prose = String::new();
    for line in text.lines().chain([""]) {
        let indent = line.chars().take_while(|&c| c == ' ').count();
        if indent == 0 && !line.is_empty() {
            prose.push_str(if prose.is_empty() { "" } else { " " });
            prose.push_str(line);
            continue;
        }
        if !prose.is_empty() {
            lines.extend(wrapped(&std::mem::take(&mut prose), width));
        }
        if line.chars().count() <= width {
            lines.push(line.to_owned());
            continue;
        }
        // Beneath where what is said of something begins, if that is a column of its own.
        let words = line.trim_start_matches(' ');
        let column = words.find("  ").map_or(0, |gap| {
            let after = words.get(gap..).unwrap_or_default();
            gap + after.chars().take_while(|&c| c == ' ').count()
        });
        let (head, rest) = words.split_at(column);
        let wide = indent + head.chars().count();
        let named = column > 0 && wide <= width / 2;
        let hang = if named { wide } else { indent + 4 };
        let (head, rest) = if named { (head, rest) } else { ("", words) };
        // Comments stay comments, and commands can be copied.
        let mark = if rest.starts_with("# ") { "# " } else { "" };
        let (end, rest) = if words.starts_with("fsage ") {
            (" \\", held(rest))
        } else {
            ("", rest.to_owned())
        };
        let broken = wrapped(&rest, width.saturating_sub(hang + 2));
        let below = format!("{end}\n{:hang$}{mark}", "");
        let broken = broken.join(&below).replace(HELD, " ");
        lines.push(format!("{:indent$}{head}{broken}", ""));
    }
    lines.join("\n").trim_end().to_owned()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command_of(WIDTH).debug_assert();
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
    fn prose_flows_and_what_is_set_in_keeps_its_lines() {
        let text =
            "One two\nthree four.\n\nA list:\n  a  first of two words\n  b  second\nAfter it.";
        let narrow = "One two three\nfour.\n\nA list:\n  a  first\n     of two\n     words\n  b  second\n\
                      After it.";
        assert_eq!(flowed(text, 14), narrow);
        let wide =
            "One two three four.\n\nA list:\n  a  first of two words\n  b  second\nAfter it.";
        assert_eq!(flowed(text, 60), wide);
    }

    #[test]
    fn a_command_is_not_broken_within_quotes() {
        let text = "  fsage run 'cmd: a b c' d e";
        let broken = "  fsage run \\\n      'cmd: a b c' d \\\n      e";
        assert_eq!(flowed(text, 22), broken);
        let mut all = command_of(WIDTH);
        let verbs = all.get_subcommands_mut();
        let pages: Vec<String> = verbs.map(|v| v.render_long_help().to_string()).collect();
        for line in pages.iter().flat_map(|page| page.lines()) {
            let open = line.matches('\'').count() % 2 == 1 && line.ends_with('\\');
            assert!(!open, "{line}");
        }
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
