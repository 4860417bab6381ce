//! Where in a text something is wrong, in the words of errors.

/// The most that an error shows of a key, in characters: a file may be one line.
const KEY_CHARS: usize = 64;
/// The same of any text.
const TEXT_CHARS: usize = 60;

/// The most that an error shows of what a reader says, which may show a value of any length.
const MESSAGE_CHARS: usize = 300;

/// The line of a byte of a text, from 1.
pub fn line_at(text: &str, at: usize) -> usize {
    1 + text.get(..at).unwrap_or(text).matches('\n').count()
}

/// As much of a text as an error shows.
pub fn shown(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// The line, and what is wrong there in one line: behind `key = ` with the key, where it is the value that a reader
/// of TOML complains of.
pub fn problem_at(text: &str, at: usize, message: &str) -> (usize, String) {
    let before = text.get(..at).unwrap_or(text);
    let assigned = before.rsplit('\n').next();
    let key = assigned.and_then(|line| line.trim().strip_suffix('='));
    let message: String = message.trim().chars().take(MESSAGE_CHARS).collect();
    let message = message.replace('\n', ", ");
    let problem = match key {
        Some(key) => {
            let key: String = key.trim().chars().take(KEY_CHARS).collect();
            format!("{key}: {message}")
        }
        None => message,
    };
    (line_at(text, at), problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_and_the_key_are_named() {
        let text = "a = 1\nb = x\n";
        assert_eq!(
            problem_at(text, 10, "no\nnumber\n"),
            (2, "b: no, number".into())
        );
        assert_eq!(problem_at(text, 6, "unknown"), (2, "unknown".into()));
        assert_eq!(problem_at(text, 99, "ends"), (3, "ends".into()));
        let long = format!("{}=x", "k".repeat(1000));
        assert_eq!(problem_at(&long, 1001, "no").1.len(), KEY_CHARS + 4);
        assert_eq!(problem_at("", 0, &long).1.len(), MESSAGE_CHARS);
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(shown("short"), "short");
        assert_eq!(shown(&"é".repeat(61)), "é".repeat(60) + "…");
    }
}
