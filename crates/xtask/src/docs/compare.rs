//! Whether two transcripts say the same in other figures.

use super::page::{CUT, Transcript};

/// What stands for every number.
const NUMBER: &str = "#";

/// Words that follow a number and change with it.
const UNITS: [&str; 30] = [
    "ns", "us", "ms", "s", "min", "h", "B", "KiB", "MiB", "GiB", "TiB", "kB", "MB", "GB", "B/s",
    "KiB/s", "MiB/s", "GiB/s", "kB/s", "MB/s", "GB/s", "%", "ns)", "us)", "ms)", "s)", "ns,",
    "us,", "ms,", "s,",
];

/// The first difference in words or shape; `None` if there is none.
pub fn difference(old: &Transcript, now: &Transcript) -> Option<String> {
    for (old_step, step) in old.steps.iter().zip(&now.steps) {
        if old.exact {
            if let Some(line) = other_line(&old_step.said, &step.said) {
                return Some(format!("`{}` {line}", step.command));
            }
            continue;
        }
        let (before, after) = (marks(&old_step.said), marks(&step.said));
        let same = if old.words {
            headings(&old_step.said)
                .iter()
                .all(|word| after.contains(word))
                && mostly_in(&before, &after)
        } else {
            matches(&before, &after)
        };
        if !same {
            return Some(format!(
                "`{}` says now:\n{}",
                step.command,
                step.said.join("\n")
            ));
        }
    }
    None
}

/// Whether a line says how far a command is, as one that takes long says it now and then: on a slow machine alone.
fn is_progress(line: &str) -> bool {
    let rest = line.strip_prefix("after ");
    rest.and_then(|rest| rest.split_once(": "))
        .is_some_and(|(time, doing)| {
            let done = doing.split(' ').next().unwrap_or_default();
            time.ends_with(['s', 'n', 'h']) && done.contains('/')
        })
}

/// The first line that is another one to the letter, a cut standing for any lines.
fn other_line(old: &[String], now: &[String]) -> Option<String> {
    let trimmed = |lines: &[String]| -> Vec<String> {
        let ends = lines.iter().map(|line| line.trim_end());
        let ends = ends.filter(|line| !is_progress(line));
        let of = ends.map(|line| if line.trim() == CUT { CUT } else { line });
        of.map(str::to_owned).collect()
    };
    let (mut old, mut now) = (trimmed(old), trimmed(now));
    // A blank line ends a block that is only set in.
    for lines in [&mut old, &mut now] {
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
    }
    if matches(&old, &now) {
        return None;
    }
    let before_cut = old.iter().zip(&now).take_while(|(a, _)| *a != CUT);
    let other = before_cut.clone().find(|(a, b)| a != b);
    Some(match other {
        Some((expected, line)) => format!("says now:\n{line}\nand not:\n{expected}"),
        None => format!("says now:\n{}", now.join("\n")),
    })
}

/// Lines as words, with one mark for each number and its unit.
fn marks(lines: &[String]) -> Vec<String> {
    let mut marks: Vec<String> = Vec::new();
    for word in lines.iter().flat_map(|line| line.split_whitespace()) {
        if word.chars().all(|c| "─━=-│▏▎▍▌▋▊▉█░▁▂▃▄▅▆▇".contains(c))
        {
            continue;
        }
        let after_number = marks.last().is_some_and(|last| last == NUMBER);
        if after_number && UNITS.contains(&word) {
            continue;
        }
        let mark = masked(word);
        if !(after_number && mark == NUMBER) {
            marks.push(mark);
        }
    }
    marks
}

/// Digits, with what joins them, as one mark.
fn masked(word: &str) -> String {
    let mut text = String::new();
    let mut in_number = false;
    for c in word.chars() {
        let joins = in_number && matches!(c, '.' | ',');
        if c.is_ascii_digit() || joins {
            if !in_number {
                text.push_str(NUMBER);
            }
            in_number = true;
        } else {
            in_number = false;
            text.push(c);
        }
    }
    let plain = text.trim_start_matches(['-', '+', '~', '<']);
    let plain = plain.trim_end_matches(['%', ',', '.', ';', ')']);
    if plain == NUMBER {
        NUMBER.to_owned()
    } else {
        text
    }
}

/// Whether they are equal, a cut in `old` standing for anything.
fn matches(old: &[String], now: &[String]) -> bool {
    let Some(cut) = old.iter().position(|mark| mark == CUT) else {
        return old == now;
    };
    // The new one is cut alike, or shorter than what is shown.
    let (head, rest) = old.split_at(cut);
    let Some(rest) = rest.get(1..) else {
        return false;
    };
    now.starts_with(head)
        && (head.len()..=now.len()).any(|from| matches(rest, now.get(from..).unwrap_or_default()))
}

/// The words of the titles of tables: of the lines above a rule.
fn headings(lines: &[String]) -> Vec<String> {
    let is_rule = |line: &String| !line.is_empty() && line.trim().chars().all(|c| c == '─');
    let above = lines.windows(2).filter(|pair| is_rule(&pair[1]));
    above.flat_map(|pair| marks(&pair[..1])).collect()
}

/// Whether most words without a number are there still: what is found, and so said of it, may differ.
fn mostly_in(old: &[String], now: &[String]) -> bool {
    let counts = |mark: &&String| !mark.contains(NUMBER) && *mark != CUT;
    let all = old.iter().filter(counts).count();
    let there = old
        .iter()
        .filter(counts)
        .filter(|&m| now.contains(m))
        .count();
    there * 3 >= all * 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        marks(&text.lines().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn figures_and_widths_do_not_count_and_words_do() {
        assert_eq!(
            of("read   40   166 us  5.15 ms"),
            of("read 41  2 min 10 s  0 ns")
        );
        assert_eq!(of("a b\nc"), of("a\nb c"), "wrapped elsewhere");
        assert_eq!(of("took 5 %\n────"), of("took 16,403.5 %"));
        assert_ne!(of("read 40"), of("write 40"));
        assert_ne!(of("3 runs of x"), of("3 runs"));
        assert_eq!(of("-1.5 ± 2 ms"), of("10 ± 20 us"));
    }

    #[test]
    fn titles_stay_and_most_words_do() {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            headings(&lines("a\nname time\n─────\nx 1 s")),
            ["name", "time"]
        );
        assert!(mostly_in(&of("a b c"), &of("c x a")));
        assert!(!mostly_in(&of("a b c"), &of("c x y")));
    }

    #[test]
    fn where_figures_count_every_letter_does() {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let other = |old: &str, now: &str| other_line(&lines(old), &lines(now));
        assert_eq!(other("took 5 ms\n", "took 5 ms"), None);
        assert_eq!(other("a 1\n…\nz 9\n\n", "a 1\nb 2\nz 9"), None);
        let said = other("a 1\ntook 5 ms", "a 1\ntook 6 ms").unwrap();
        assert_eq!(said, "says now:\ntook 6 ms\nand not:\ntook 5 ms");
        let slow = "after 1 min 15 s: 7/9 run 1 of x on y, about 3 s left\na 1";
        assert_eq!(other("a 1", slow), None, "how far it is is no result");
        assert!(other("a 1", "after 5 s: all\na 1").is_some());
        assert!(other("a 1\n…\nz 9", "a 1\nb 2\nz 8").is_some());
        assert!(other("a  1", "a 1").is_some(), "widths count");
        let page = "<!-- transcript: exact -->\n\n    $ x\n    5 ms\n";
        let of = |text: &str| match super::super::page::parts(text).as_slice() {
            [_, super::super::page::Part::Transcript(t), ..] => t.clone(),
            other => panic!("{other:?}"),
        };
        let (old, now) = (of(page), of(&page.replace('5', "6")));
        assert!(difference(&old, &now).is_some() && difference(&old, &old).is_none());
        let figures = |t: &Transcript| of(&t.text().replace(": exact", ""));
        assert_eq!(difference(&figures(&old), &figures(&now)), None);
    }

    #[test]
    fn a_cut_is_anything() {
        assert!(matches(&of("a\n…\nz"), &of("a b c z")));
        assert!(matches(&of("a\n…\nz"), &of("a\n…\nz")));
        assert!(!matches(&of("a\n…\nz"), &of("a b c")));
        assert!(!matches(&of("a\n…\nz"), &of("b z")));
    }
}
