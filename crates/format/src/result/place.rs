//! Where in a JSON document something is wrong: the field, as `targets[2].name`.

/// The most that is shown of a key.
const KEY_BYTES: usize = 64;

/// One level of nesting.
enum Level {
    /// In an object, and the key that was read last.
    Key(String),
    /// In an array, and how many elements came before.
    Index(usize),
}

/// The byte that `serde_json` means by a line and a column, both from 1.
fn offset(text: &[u8], line: usize, column: usize) -> usize {
    let lines = text.split_inclusive(|&b| b == b'\n');
    let before: usize = lines.take(line.saturating_sub(1)).map(<[u8]>::len).sum();
    before.saturating_add(column).min(text.len())
}

/// The field that is read at a line and a column; `.` for the document itself.
pub(super) fn field_at(text: &[u8], line: usize, column: usize) -> String {
    let mut levels: Vec<Level> = Vec::new();
    let mut string: Option<Vec<u8>> = None;
    let mut last = String::new();
    let mut escaped = false;
    for &byte in text.get(..offset(text, line, column)).unwrap_or(text) {
        if let Some(so_far) = &mut string {
            match byte {
                b'"' if !escaped => {
                    let key = so_far.get(..KEY_BYTES).unwrap_or(so_far);
                    last = String::from_utf8_lossy(key).into_owned();
                    string = None;
                }
                _ => so_far.push(byte),
            }
            escaped = byte == b'\\' && !escaped;
            continue;
        }
        match byte {
            b'"' => string = Some(Vec::new()),
            b'{' => levels.push(Level::Key(String::new())),
            b'[' => levels.push(Level::Index(0)),
            b'}' | b']' => drop(levels.pop()),
            b':' => {
                if let Some(Level::Key(key)) = levels.last_mut() {
                    *key = std::mem::take(&mut last);
                }
            }
            b',' => match levels.last_mut() {
                Some(Level::Index(index)) => *index += 1,
                Some(Level::Key(key)) => key.clear(),
                None => {}
            },
            _ => {}
        }
    }
    let mut field = String::new();
    for level in &levels {
        match level {
            Level::Key(key) if !key.is_empty() => {
                field.push_str(if field.is_empty() { "" } else { "." });
                field.push_str(key);
            }
            Level::Key(_) => {}
            Level::Index(index) => field.push_str(&format!("[{index}]")),
        }
    }
    if field.is_empty() {
        field.push('.');
    }
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<T: serde::de::DeserializeOwned>(text: &str) -> String {
        let error = serde_json::from_str::<T>(text).err();
        let error = error.map(|e| field_at(text.as_bytes(), e.line(), e.column()));
        error.unwrap_or_default()
    }

    #[derive(serde::Deserialize)]
    struct Outer {
        #[serde(rename = "parts")]
        _parts: Vec<Part>,
    }

    #[derive(serde::Deserialize)]
    struct Part {
        #[serde(rename = "bytes")]
        _bytes: u64,
    }

    #[test]
    fn the_field_that_is_wrong_is_named() {
        let good = "{\n \"parts\": [{\"bytes\": 1, \"x\": \"\\\"}\"}, {\"bytes\": 2}]}";
        assert_eq!(of::<Outer>(good), "");
        assert_eq!(
            of::<Outer>(&good.replace(": 2", ": \"two\"")),
            "parts[1].bytes"
        );
        assert_eq!(of::<Outer>(&good.replace("\"bytes\": 2", "")), "parts[1]");
        assert_eq!(of::<Outer>("[]"), ".");
        assert_eq!(of::<Outer>("{\"parts\": 3}"), "parts");
    }
}
