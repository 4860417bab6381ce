//! Times as people write them.

use std::time::Duration;

/// `90`, `90s`, `5m`, `1h`, `250ms`: a number of seconds unless a unit follows. Says what is wrong.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let split = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale = match unit {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("unknown unit `{unit}`; expected ms, s, m or h")),
    };
    let value: f64 = number
        .trim()
        .parse()
        .map_err(|_| format!("`{number}` is not a number of seconds"))?;
    Duration::try_from_secs_f64(value * scale)
        .ok()
        .filter(|d| !d.is_zero())
        .ok_or_else(|| format!("`{text}` is not a time above zero"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(parse_time("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_time("250ms"), Ok(Duration::from_millis(250)));
        for bad in ["", "0", "-1s", "5 parsecs", "1e400h"] {
            assert!(parse_time(bad).is_err(), "{bad}");
        }
    }
}
