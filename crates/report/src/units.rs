//! How quantities are written: three significant digits and a unit.

/// Longer times are written in minutes, hours or days.
pub(crate) const LONGEST_PLAIN_NS: f64 = 120e9;

/// Nanoseconds as `850 ns`, `12.3 us`, `4.56 ms`, `7.89 s`, `12 min 5 s`, `7 h 5 min`, `215 days 2 h`.
pub fn duration(ns: f64) -> String {
    let magnitude = ns.abs();
    if !ns.is_finite() {
        return "unknown".into();
    }
    if magnitude >= LONGEST_PLAIN_NS {
        let seconds = (magnitude / 1e9).round();
        let sign = if ns < 0.0 { "-" } else { "" };
        // The unit, its seconds, and the one below it.
        let (unit, of, below, of_below) = match seconds {
            s if s < 2.0 * 3600.0 => ("min", 60.0, "s", 1.0),
            s if s < 2.0 * 86400.0 => ("h", 3600.0, "min", 60.0),
            _ => ("days", 86400.0, "h", 3600.0),
        };
        // Rounded first: what would be 60 min is another hour.
        let parts = (seconds / of_below).round();
        let whole = (parts * of_below / of).floor();
        return format!(
            "{sign}{whole} {unit} {} {below}",
            parts - whole * of / of_below
        );
    }
    let (scale, unit) = time_unit(magnitude);
    format!("{} {unit}", significant(ns / scale))
}

/// The unit in which a time of less than two minutes is written, and its nanoseconds.
pub(crate) fn time_unit(ns: f64) -> (f64, &'static str) {
    match ns {
        ns if ns < 1e3 => (1.0, "ns"),
        ns if ns < 1e6 => (1e3, "us"),
        ns if ns < 1e9 => (1e6, "ms"),
        _ => (1e9, "s"),
    }
}

/// Bytes as `512 B`, `4 KiB`, `1.5 GiB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{count} B")
    } else {
        format!("{} {}", significant(value), UNITS[unit])
    }
}

/// A count with thousands set apart: `1,234,567`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count of things of which there may be one: `1 operation`, `2,000 operations`, `0 directories`.
pub fn counted(value: u64, what: &str) -> String {
    let (stem, ending) = match (value, what.strip_suffix('y')) {
        (1, _) => (what, ""),
        (_, Some(stem)) if !stem.ends_with(['a', 'e', 'o', 'u']) => (stem, "ies"),
        _ if what.ends_with('s') => (what, "es"),
        _ => (what, "s"),
    };
    format!("{} {stem}{ending}", count(value))
}

/// A fraction as `12.3 %`.
pub fn percent(fraction: f64) -> String {
    format!("{:.1} %", fraction * 100.0)
}

/// A fraction as `+12.3 %` or `-4.5 %`, what is more than a hundred times as much as `262,144 times`.
pub fn signed_percent(fraction: f64) -> String {
    if fraction.is_finite() && fraction >= 99.5 {
        return format!("{} times", count((fraction + 1.0).round() as u64));
    }
    let text = format!("{:+.1} %", fraction * 100.0);
    // What rounds to nothing has no sign.
    match text.as_str() {
        "+0.0 %" | "-0.0 %" => "0.0 %".to_owned(),
        _ => text,
    }
}

/// Three significant digits, never in scientific notation below a million.
pub fn significant(value: f64) -> String {
    let magnitude = value.abs();
    let decimals = match magnitude {
        0.0 => 0,
        m if m >= 100.0 => 0,
        m if m >= 10.0 => 1,
        m if m >= 1.0 => 2,
        m if m >= 0.1 => 3,
        _ => 4,
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_string()
    } else {
        text
    }
}

/// A value of a metric in its unit: times and sizes are scaled, everything else keeps its unit.
pub fn metric(value: f64, unit: &str) -> String {
    let whole = value.max(0.0) as u64;
    match unit {
        "ns" => duration(value),
        "s" => duration(value * 1e9),
        "B" => bytes(whole),
        "KiB" => bytes((value.max(0.0) * 1024.0) as u64),
        "sectors" => bytes((value.max(0.0) * 512.0) as u64),
        "B/s" => format!("{}/s", bytes(whole)),
        "KiB/s" => format!("{} MiB/s", significant(value / 1024.0)),
        "operations/s" if value.abs() < 1e3 => significant(value),
        "count" if value.abs() < 100.0 => significant(value),
        "operations/s" | "count" => count(whole),
        "share" => percent(value),
        "ratio" => format!("x{}", significant(value)),
        other => format!("{} {other}", significant(value)),
    }
}

/// The same with half the width of its interval: `1.23 ± 0.045 s`, both in the unit of the value.
pub fn plus_minus(value: f64, half_width: f64, unit: &str) -> String {
    if unit == "ns" && value.abs() < LONGEST_PLAIN_NS {
        let (scale, unit) = time_unit(value.abs());
        let (value, half) = (value / scale, half_width / scale);
        if half == 0.0 {
            return format!("{} {unit}", significant(value));
        }
        return format!("{} ± {} {unit}", significant(value), significant(half));
    }
    let (value, half) = (metric(value, unit), metric(half_width, unit));
    match (value.split_once(' '), half.split_once(' ')) {
        (Some((number, of_value)), Some((_, of_half)))
            if of_value == of_half && !of_value.contains(' ') =>
        {
            format!("{number} ± {half}")
        }
        _ => format!("{value} ± {half}"),
    }
}

/// The same with an interval that need not be symmetric: `1.5 ± 0.03 s`, `8.65 s (6.1 s to 14 s)`, or that it is
/// unusable, where it says no more than that the value is positive.
pub fn with_ends(value: f64, low: Option<f64>, high: Option<f64>, unit: &str) -> String {
    let (Some(low), Some(high)) = (low, high) else {
        return metric(value, unit);
    };
    if is_unusable(Some(low), Some(high)) {
        return format!("{} (unusable)", metric(value, unit));
    }
    let (below, above) = (value - low, high - value);
    if (above - below).abs() <= 0.02 * (high - low) {
        return plus_minus(value, (high - low) / 2.0, unit);
    }
    format!(
        "{} ({} to {})",
        metric(value, unit),
        metric(low, unit),
        metric(high, unit)
    )
}

/// Whether an interval says no more than that the value is positive.
pub fn is_unusable(low: Option<f64>, high: Option<f64>) -> bool {
    match (low, high) {
        (Some(low), Some(high)) => !fsage_stats::usable(low, high),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_are_one_or_many() {
        let said = |n, what| counted(n, what);
        assert_eq!(said(1, "file"), "1 file");
        assert_eq!(said(2000, "file"), "2,000 files");
        assert_eq!(said(1, "directory"), "1 directory");
        assert_eq!(said(0, "directory"), "0 directories");
        assert_eq!(said(3, "process"), "3 processes");
        assert_eq!(said(3, "simulated day"), "3 simulated days");
        assert_eq!(signed_percent(-0.0001), "0.0 %");
        assert_eq!(signed_percent(-0.001), "-0.1 %");
        assert_eq!(signed_percent(99.4), "+9940.0 %");
        assert_eq!(signed_percent(99.6), "101 times");
        assert_eq!(signed_percent(262_143.0), "262,144 times");
        assert_eq!(plus_minus(0.0, 0.0, "ns"), "0 ns");
    }

    #[test]
    fn times_sizes_and_counts_read_well() {
        assert_eq!(duration(850.0), "850 ns");
        assert_eq!(duration(12_345.0), "12.3 us");
        assert_eq!(duration(-4_560_000.0), "-4.56 ms");
        assert_eq!(duration(725e9), "12 min 5 s");
        assert_eq!(duration(-7199e9), "-119 min 59 s");
        assert_eq!(duration(7200e9), "2 h 0 min");
        assert_eq!(duration(10_799e9), "3 h 0 min");
        assert_eq!(duration(309_594.0 * 60e9), "215 days 0 h");
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(4096), "4 KiB");
        assert_eq!(bytes(1_610_612_736), "1.5 GiB");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(999), "999");
        assert_eq!(percent(0.1234), "12.3 %");
        assert_eq!(signed_percent(-0.05), "-5.0 %");
        assert_eq!(significant(0.0), "0");
        assert_eq!(metric(2048.0, "KiB/s"), "2 MiB/s");
        assert_eq!(metric(0.421, "share"), "42.1 %");
        assert_eq!(metric(2048.0, "sectors"), "1 MiB");
        assert_eq!(metric(2.5, "count"), "2.5");
        assert_eq!(metric(12_345.6, "operations/s"), "12,345");
    }

    #[test]
    fn an_interval_is_never_negative() {
        let of = |low, high| with_ends(8.65e9, Some(low), Some(high), "ns");
        assert_eq!(of(8.5e9, 8.8e9), "8.65 ± 0.15 s");
        assert_eq!(of(6.1e9, 14e9), "8.65 s (6.1 s to 14 s)");
        assert_eq!(of(-3.2e9, 20e9), "8.65 s (unusable)");
        assert_eq!(of(1e9, 20e9), "8.65 s (unusable)");
        assert_eq!(with_ends(8.65e9, None, None, "ns"), "8.65 s");
        assert_eq!(with_ends(0.0, Some(0.0), Some(0.0), "ns"), "0 ns");
    }

    #[test]
    fn a_half_width_is_in_the_unit_of_its_value() {
        assert_eq!(plus_minus(1.5e9, 3e7, "ns"), "1.5 ± 0.03 s");
        assert_eq!(plus_minus(0.0, 0.0, "ns"), "0 ns");
        // Minutes have two units.
        assert_eq!(plus_minus(185e9, 125e9, "ns"), "3 min 5 s ± 2 min 5 s");
        assert_eq!(plus_minus(0.421, 0.011, "share"), "42.1 ± 1.1 %");
        assert_eq!(plus_minus(4096.0, 2.0, "sectors"), "2 MiB ± 1 KiB");
        assert_eq!(plus_minus(4096.0, 2048.0, "sectors"), "2 ± 1 MiB");
        assert_eq!(plus_minus(300.0, 2.5, "count"), "300 ± 2.5");
    }
}
