//! What killed runs have left.

use fsage_format::result::cleanup::Leftovers;

/// One line for each thing: what, where, and what becomes of it.
pub fn text(result: &Leftovers) -> String {
    if result.found.is_empty() {
        return "nothing is left\n".into();
    }
    let mut text = String::new();
    for left in &result.found {
        // Names are of whoever may write there.
        let place = left.place.escape_debug();
        text.push_str(&format!("{:<14} {place}", left.kind));
        let about = left.about.escape_debug();
        text.push_str(&match (&left.error, &left.in_use, left.removed) {
            (Some(error), ..) => format!(": failed to {error}"),
            (None, Some(why), _) => format!(" ({about}): stays, {why}"),
            (None, None, true) => ": removed".into(),
            (None, None, false) => format!(" ({about})"),
        });
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use fsage_format::result::cleanup::Leftover;

    use super::*;

    #[test]
    fn each_is_one_line() {
        let left = |in_use: Option<&str>, removed, error: Option<&str>| Leftover {
            kind: "directory".into(),
            place: "/x/.fsage-run-\u{7}".into(),
            about: "files of a run".into(),
            in_use: in_use.map(Into::into),
            removed,
            error: error.map(Into::into),
        };
        let found = vec![
            left(None, false, None),
            left(Some("process 7 uses it"), false, None),
            left(None, true, None),
            left(None, false, Some("remove it: Busy")),
        ];
        let text = text(&Leftovers {
            found,
            ..Leftovers::default()
        });
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(
            lines[0],
            "directory      /x/.fsage-run-\\u{7} (files of a run)"
        );
        assert!(lines[1].ends_with("stays, process 7 uses it"), "{text}");
        assert!(lines[2].ends_with(": removed") && lines[3].ends_with("remove it: Busy"));
        assert_eq!(super::text(&Leftovers::default()), "nothing is left\n");
    }
}
