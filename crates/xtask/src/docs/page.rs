//! A page as text, commands and transcripts.

/// A piece of a page, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// As it is.
    Text(String),
    /// A command that is run and not shown; `text` is its line.
    Setup { text: String, command: String },
    /// A block that is run again.
    Transcript(Transcript),
}

/// Commands and what they said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transcript {
    /// Of its mark in the page, from 1.
    pub line: usize,
    /// What was before the first command: mark and fence.
    head: String,
    /// Set off by this, where there is no fence.
    indent: &'static str,
    /// `$ ` or, of root, `# `.
    prompt: &'static str,
    /// What ends it.
    tail: String,
    pub steps: Vec<ShownCommand>,
    pub root: bool,
    /// Only words count.
    pub words: bool,
    /// Figures count too.
    pub exact: bool,
}

/// One command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownCommand {
    pub command: String,
    pub said: Vec<String>,
}

/// What stands for lines that are left out.
pub const CUT: &str = "…";

const MARK: &str = "<!-- transcript";
/// The mark of a block whose figures count.
pub const EXACT: &str = "<!-- transcript: exact -->";
const SETUP: &str = "<!-- setup:";

/// Cuts a page at its marks.
pub fn parts(text: &str) -> Vec<Part> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut parts = Vec::new();
    let mut plain = String::new();
    let mut at = 0;
    while let Some(&line) = lines.get(at) {
        if let Some(command) = line.trim().strip_prefix(SETUP) {
            let command = command.trim().trim_end_matches("-->").trim().to_owned();
            parts.push(Part::Text(std::mem::take(&mut plain)));
            parts.push(Part::Setup {
                text: line.to_owned(),
                command,
            });
            at += 1;
            continue;
        }
        if line.trim().starts_with(MARK)
            && let Some((transcript, next)) = transcript(&lines, at)
        {
            parts.push(Part::Text(std::mem::take(&mut plain)));
            parts.push(Part::Transcript(transcript));
            at = next;
            continue;
        }
        plain.push_str(line);
        at += 1;
    }
    parts.push(Part::Text(plain));
    parts
}

/// The block whose mark stands in line `at`, and the line after it.
fn transcript(lines: &[&str], at: usize) -> Option<(Transcript, usize)> {
    let mark = lines.get(at)?;
    let mut head = (*mark).to_owned();
    let mut next = at + 1;
    while lines.get(next).is_some_and(|line| line.trim().is_empty()) {
        head.push_str(lines.get(next)?);
        next += 1;
    }
    let fenced = lines.get(next)?.starts_with("```");
    let indent = if fenced { "" } else { "    " };
    if fenced {
        head.push_str(lines.get(next)?);
        next += 1;
    }
    let first = lines.get(next)?.strip_prefix(indent)?;
    let prompt = if first.starts_with("# ") { "# " } else { "$ " };
    let mut steps: Vec<ShownCommand> = Vec::new();
    let mut tail = String::new();
    while let Some(line) = lines.get(next) {
        if fenced && line.starts_with("```") {
            (*line).clone_into(&mut tail);
            next += 1;
            break;
        }
        let Some(body) = line.strip_prefix(indent).map(|l| l.trim_end_matches('\n')) else {
            break;
        };
        match (body.strip_prefix(prompt), steps.last_mut()) {
            (Some(command), _) => steps.push(ShownCommand {
                command: command.to_owned(),
                said: Vec::new(),
            }),
            // A command may go on in the next line.
            (None, Some(step)) if step.said.is_empty() && step.command.ends_with('\\') => {
                step.command.push('\n');
                step.command.push_str(body);
            }
            (None, Some(step)) => step.said.push(body.trim_end().to_owned()),
            (None, None) => return None,
        }
        next += 1;
    }
    let transcript = Transcript {
        line: at + 1,
        head,
        indent,
        prompt,
        tail,
        steps,
        root: mark.contains("root") || prompt == "# ",
        words: mark.contains("keep"),
        exact: mark.contains("exact"),
    };
    Some((transcript, next))
}

impl Transcript {
    /// A command whose target has virtual time, in a block where figures do not count.
    pub fn lax(&self) -> Option<&str> {
        let commands = self.steps.iter().map(|step| step.command.as_str());
        let is_virtual = |command: &&str| {
            let mut words = command.split_whitespace();
            let is_target = |word: &str| word.starts_with("mem:") || word.starts_with("sim:");
            words.next() == Some("fsage") && words.any(is_target)
        };
        commands
            .filter(|_| !self.exact && !self.words)
            .find(is_virtual)
    }

    /// As it stands in the page.
    pub fn text(&self) -> String {
        let mut text = self.head.clone();
        for step in &self.steps {
            for (number, line) in step.command.lines().enumerate() {
                let prompt = if number == 0 { self.prompt } else { "" };
                text.push_str(&format!("{}{prompt}{line}\n", self.indent));
            }
            for line in &step.said {
                let line = format!("{}{line}", self.indent);
                text.push_str(line.trim_end());
                text.push('\n');
            }
        }
        text + &self.tail
    }
}

/// `new` cut where `old` is: as many lines before and after the mark of a cut.
pub fn cut_alike(old: &[String], new: Vec<String>) -> Vec<String> {
    let cuts: Vec<usize> = (0..old.len()).filter(|&i| is_cut(old, i)).collect();
    let (Some(&first), Some(&last)) = (cuts.first(), cuts.last()) else {
        return new;
    };
    let after = old.len() - last - 1;
    if first + after >= new.len() {
        return new;
    }
    let mut kept: Vec<String> = new.get(..first).unwrap_or_default().to_vec();
    kept.push(CUT.to_owned());
    kept.extend(
        new.into_iter()
            .rev()
            .take(after)
            .collect::<Vec<_>>()
            .into_iter()
            .rev(),
    );
    kept
}

fn is_cut(lines: &[String], at: usize) -> bool {
    lines.get(at).is_some_and(|line| line.trim() == CUT)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Page\n\n<!-- setup: mkdir a -->\n<!-- transcript -->\n```console\n$ ls a \\\n    b\none\n\n…\nlast\n$ true\n```\nmore\n\n\
        <!-- transcript: root -->\n\n    $ id\n    root\nend\n\n\
        <!-- transcript -->\n```console\n# id -u\n0\n```\n";

    #[test]
    fn a_page_is_what_its_parts_are() {
        let parts = parts(PAGE);
        let text: String = parts
            .iter()
            .map(|part| match part {
                Part::Text(text) | Part::Setup { text, .. } => text.clone(),
                Part::Transcript(t) => t.text(),
            })
            .collect();
        assert_eq!(text, PAGE);
        let found: Vec<&Transcript> = parts
            .iter()
            .filter_map(|p| match p {
                Part::Transcript(t) => Some(t),
                _ => None,
            })
            .collect();
        assert_eq!(found.len(), 3);
        assert_eq!(found[0].steps[0].command, "ls a \\\n    b");
        assert_eq!(found[0].steps[0].said, ["one", "", "…", "last"]);
        assert_eq!(found[0].steps[1].said, [""; 0]);
        assert!(found[1].root && !found[0].root && found[2].root);
        assert_eq!(found[2].steps[0].command, "id -u");
        assert!(parts.contains(&Part::Setup {
            text: "<!-- setup: mkdir a -->\n".into(),
            command: "mkdir a".into()
        }));
    }

    #[test]
    fn what_is_computed_is_to_be_compared_to_the_letter() {
        let lax = |mark: &str, command: &str| {
            let page = format!("{mark}\n\n    $ {command}\n    5 ms\n");
            match parts(&page).as_slice() {
                [_, Part::Transcript(t), ..] => t.lax().is_some(),
                other => panic!("{other:?}"),
            }
        };
        let computed = "fsage run postmark mem:fast";
        assert!(lax("<!-- transcript -->", computed));
        assert!(!lax(EXACT, computed) && !lax("<!-- transcript: keep -->", computed));
        assert!(!lax(
            "<!-- transcript -->",
            "fsage run postmark scratch:ext4"
        ));
    }

    #[test]
    fn what_is_new_is_cut_as_the_old_was() {
        let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(cut_alike(&lines("a … b"), lines("1 2 3 4")), lines("1 … 4"));
        assert_eq!(cut_alike(&lines("a b"), lines("1 2 3")), lines("1 2 3"));
        assert_eq!(cut_alike(&lines("a b …"), lines("1 2 3")), lines("1 2 …"));
        assert_eq!(cut_alike(&lines("a … b"), lines("1 2")), lines("1 2"));
    }
}
