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

/// A path, which may be any bytes, as text that another path never has: bytes that are not UTF-8 become `\xHH`, a
/// backslash becomes `\\`; everything else stays.
pub fn of_path(path: &[u8]) -> String {
    use std::fmt::Write;
    let mut out = String::with_capacity(path.len());
    for chunk in path.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c == '\\' {
                out.push('\\');
            }
            out.push(c);
        }
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

/// As much of a text as an error shows.
pub fn shown(text: &str) -> String {
    begin(text, TEXT_CHARS)
}

/// The begin of a text of more than `most` characters with a sign that it goes on, and a shorter one as it is.
pub fn begin(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => {
            let end = cut_before(text, end);
            format!("{}…", text.get(..end).unwrap_or_default())
        }
        None => text.to_owned(),
    }
}

/// The last place up to `at` where a text may end: at a separator as long as half of it stays, and inside no number,
/// which would be another one. `at` is returned where there is no such place.
pub fn cut_before(text: &str, at: usize) -> usize {
    let (Some(before), Some(after)) = (text.get(..at), text.get(at..)) else {
        return at;
    };
    let number = before.trim_end_matches(in_number);
    let split = is_split(before.chars().next_back(), after);
    if split && number.is_empty() {
        return at;
    }
    let end = if split { number } else { before };
    let next = text.get(end.len()..).and_then(|rest| rest.chars().next());
    let joined = |c: char| next.is_some_and(in_word) && in_word(c);
    if !end.chars().next_back().is_some_and(joined) {
        return end.len();
    }
    let word = end.trim_end_matches(in_word).len();
    if word >= at.div_ceil(2) {
        word
    } else {
        end.len()
    }
}

/// The first place from `at` on where the end of a text may begin, by the same rules; the text's end where a number
/// is all that is left.
pub fn cut_after(text: &str, at: usize) -> usize {
    let (Some(before), Some(after)) = (text.get(..at), text.get(at..)) else {
        return at;
    };
    let number = after.trim_start_matches(in_number);
    let split = is_split(before.chars().next_back(), after);
    let rest = if split { number } else { after };
    let start = text.len() - rest.len();
    let last = text.get(..start).and_then(|b| b.chars().next_back());
    let joined = |c: char| last.is_some_and(in_word) && in_word(c);
    if !rest.chars().next().is_some_and(joined) {
        return start;
    }
    let word = rest.trim_start_matches(in_word).len();
    if word >= after.len().div_ceil(2) {
        text.len() - word
    } else {
        start
    }
}

fn in_number(c: char) -> bool {
    c.is_ascii_digit() || c == '.'
}

fn in_word(c: char) -> bool {
    c.is_alphanumeric()
}

/// Whether a number goes on from `before` to `after`.
fn is_split(before: Option<char>, after: &str) -> bool {
    let mut after = after.chars();
    let (next, second) = (after.next(), after.next());
    let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    match (before, next) {
        (Some('.'), next) => digit(next),
        (before, Some('.')) => digit(before) && digit(second),
        (before, next) => digit(before) && digit(next),
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
    fn a_cut_is_at_a_separator_and_in_no_number() {
        let spec = "postmark:files=1000,transactions=5000,seed=1";
        assert_eq!(begin(spec, 36), "postmark:files=1000,transactions=…");
        assert_eq!(begin(spec, 37), "postmark:files=1000,transactions=5000…");
        assert_eq!(begin(spec, 30), "postmark:files=1000,…");
        assert_eq!(begin("scratch:ext4,size=1.5G", 20), "scratch:ext4,size=…");
        assert_eq!(begin("averyveryverylongword", 8), "averyver…");
        assert_eq!(begin("1234567890", 4), "1234…", "nothing else is left");
        for text in [spec, "x=1.25;y=3000.75", "run-12345-of-67890", "é1234é5678"] {
            for at in (0..=text.len()).filter(|&at| text.is_char_boundary(at)) {
                let places = [cut_before(text, at), cut_after(text, at)];
                assert!(places[0] <= at && at <= places[1]);
                for place in places {
                    let (a, b) = text.split_at(place);
                    let split = is_split(a.chars().next_back(), b);
                    assert!(!split, "{a}|{b}");
                }
            }
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(shown("short"), "short");
        assert_eq!(shown(&"é".repeat(61)), "é".repeat(60) + "…");
    }
}
