//! What every kind of plan must answer to faults in its text.

use super::PlanError;

/// Puts each fault into a whole plan: what it replaces, what stands there instead, the line that the error
/// must name, and a part of what it must say.
pub(super) fn reported_with_its_line<T>(
    whole: &str,
    faults: &[(&str, &str, usize, &str)],
    parse: impl Fn(&str) -> Result<T, PlanError>,
) {
    for (from, to, line, said) in faults {
        assert!(whole.contains(from), "{from}");
        let Err(error) = parse(&whole.replacen(from, to, 1)) else {
            panic!("{to} was taken")
        };
        let PlanError::At { line: found, .. } = &error else {
            panic!("{error}")
        };
        assert_eq!(found, line, "{to}: {error}");
        let message = error.to_string();
        assert!(message.starts_with("read plan p.toml:"), "{message}");
        assert!(message.contains(said), "{to}: {message}");
        assert!(!message.contains('\n'), "{message}");
    }
}

/// Damages each character of a whole plan: what can still be read is few, and what cannot is an error that
/// names the file.
pub(super) fn damaged<T>(whole: &str, parse: impl Fn(&str) -> Result<T, PlanError>) {
    let (mut read, mut refused) = (0, 0);
    for at in (0..whole.len()).filter(|&at| whole.is_char_boundary(at)) {
        for damage in [
            "",
            "\"",
            "[",
            "=",
            "-1",
            "\n",
            "{",
            "9999999999999999999",
            "ß",
        ] {
            let mut text = whole.to_owned();
            text.replace_range(at..=at, damage);
            match parse(&text) {
                Ok(_) => read += 1,
                Err(error) => {
                    let said = error.to_string();
                    assert!(said.contains("p.toml"), "{said}");
                    refused += 1;
                }
            }
        }
    }
    assert!(read > 0 && refused > read);
}
