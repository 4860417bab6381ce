//! What a terminal may be given: files come from strangers, and a name can hold anything.
//!
//! Every text that a person sees passes here: cells and sentences when a page is laid out ([`plain`]), and the
//! finished page once more where it is written ([`lines`]), so that nothing gets round it.

use std::borrow::Cow;

/// The text on one line: whatever is not printable is written out (`\n`, `\x1b`, `\u{202e}`).
pub fn plain(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false)
}

/// The same for a finished page, whose line feeds stay.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c == '\n')
}

/// JSON whose strings hold nothing that a terminal acts on: it says the same as before.
pub fn json(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| c != '\n' && hidden(c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if c != '\n' && hidden(c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

fn escaped(text: &str, kept: fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(|c| hidden(c) && !kept(c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if !hidden(c) || kept(c) => out.push(c),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_ascii() => out.push_str(&format!("\\x{:02x}", c as u32)),
            c => out.push_str(&format!("\\u{{{:x}}}", c as u32)),
        }
    }
    Cow::Owned(out)
}

/// Controls, and what changes the order of a line or cannot be seen in it (Unicode 16, 23.2 and 9.1).
fn hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_acts_on_is_left() {
        let hostile = "a\x1b[31mb\u{9b}2J\u{202e}c\u{7f}\r\n\t\u{200b}\u{e0041}é字";
        assert_eq!(
            plain(hostile),
            "a\\x1b[31mb\\u{9b}2J\\u{202e}c\\x7f\\r\\n\\t\\u{200b}\\u{e0041}é字"
        );
        assert_eq!(lines("a\nb\x1b"), "a\nb\\x1b");
        assert!(matches!(plain("plain é"), Cow::Borrowed(_)));
    }

    #[test]
    fn json_says_the_same() {
        let hostile = "a\x1b\u{9b}\u{202e}\u{e0041}\n";
        let body = serde_json::to_string_pretty(&[hostile]).unwrap();
        let written = json(&body);
        assert!(
            written.chars().all(|c| c == '\n' || !hidden(c)),
            "{written}"
        );
        let read: Vec<String> = serde_json::from_str(&written).unwrap();
        assert_eq!(read, [hostile]);
    }
}
