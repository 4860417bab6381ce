//! Commands that need no shell: `exec PROGRAM ARGUMENT…` of plain or quoted words. A shell would become the program
//! itself; done without one, its start is not in what is measured.

const EXEC: &str = "exec ";

/// A line of shell for what was given: one argument is one already, several are a program and its arguments.
pub fn line_of(command: &[String]) -> String {
    match command {
        [line] => line.clone(),
        words => {
            let words: Vec<String> = words.iter().map(|w| quoted(w)).collect();
            format!("{EXEC}{}", words.join(" "))
        }
    }
}

/// The program and its arguments; `None` for a line that needs a shell.
pub fn words_of(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.strip_prefix(EXEC)?.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' => words.extend(word.take()),
            '\'' => {
                let (inside, after) = chars.as_str().split_once('\'')?;
                word.get_or_insert_default().push_str(inside);
                chars = after.chars();
            }
            '\\' if chars.next() == Some('\'') => word.get_or_insert_default().push('\''),
            c if plain(c) => word.get_or_insert_default().push(c),
            _ => return None,
        }
    }
    words.extend(word);
    // What begins with a dash some shells take for an option of exec.
    words
        .first()
        .is_some_and(|w| !w.starts_with('-'))
        .then_some(words)
}

/// The line without what says that no shell is needed.
pub fn shown(line: &str) -> &str {
    let direct = words_of(line).and_then(|_| line.strip_prefix(EXEC));
    direct.unwrap_or(line)
}

/// Whether a character means itself to a shell.
fn plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c)
}

fn quoted(word: &str) -> String {
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_a_line_and_words_again() {
        let line = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|w| (*w).to_string()).collect();
            let line = line_of(&words);
            if words.len() > 1 {
                assert_eq!(words_of(&line), Some(words));
            }
            line
        };
        assert_eq!(line(&["make", "-j2"]), "exec make -j2");
        assert_eq!(line(&["ls | wc"]), "ls | wc");
        assert_eq!(
            line(&["echo", "it's", "", "$x", "a\nb c", "''", "\\"]),
            "exec echo 'it'\\''s' '' '$x' 'a\nb c' ''\\'''\\''' '\\'"
        );
        for shell in [
            "make",
            "exec",
            "exec ",
            "exec make > x",
            "exec -a x y",
            "exec a; b",
            "exec 'a",
            "exec \\a",
        ] {
            assert_eq!(words_of(shell), None, "{shell}");
            assert_eq!(shown(shell), shell);
        }
        assert_eq!(shown("exec make -j2"), "make -j2");
    }
}
