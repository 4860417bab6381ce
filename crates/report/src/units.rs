//! How quantities are written: three significant digits and a unit.

/// Nanoseconds as `850 ns`, `12.3 us`, `4.56 ms`, `7.89 s`, `12 min 5 s`.
pub fn duration(ns: f64) -> String {
    let magnitude = ns.abs();
    if !ns.is_finite() {
        return "unknown".into();
    }
    if magnitude >= 120e9 {
        let seconds = (magnitude / 1e9).round();
        let sign = if ns < 0.0 { "-" } else { "" };
        return format!(
            "{sign}{} min {} s",
            (seconds / 60.0).floor(),
            seconds % 60.0
        );
    }
    let (value, unit) = match magnitude {
        m if m < 1e3 => (ns, "ns"),
        m if m < 1e6 => (ns / 1e3, "us"),
        m if m < 1e9 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    format!("{} {unit}", significant(value))
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

/// A fraction as `12.3 %`.
pub fn percent(fraction: f64) -> String {
    format!("{:.1} %", fraction * 100.0)
}

/// A fraction as `+12.3 %` or `-4.5 %`.
pub fn signed_percent(fraction: f64) -> String {
    format!("{:+.1} %", fraction * 100.0)
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

/// A value of a metric in its unit: times are scaled, everything else keeps its unit.
pub fn metric(value: f64, unit: &str) -> String {
    match unit {
        "ns" => duration(value),
        "s" => duration(value * 1e9),
        "B" => bytes(value.max(0.0) as u64),
        "KiB" => bytes((value.max(0.0) * 1024.0) as u64),
        "KiB/s" => format!("{} MiB/s", significant(value / 1024.0)),
        "count" => count(value.max(0.0) as u64),
        "ratio" => format!("x{}", significant(value)),
        other => format!("{} {other}", significant(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_sizes_and_counts_read_well() {
        assert_eq!(duration(850.0), "850 ns");
        assert_eq!(duration(12_345.0), "12.3 us");
        assert_eq!(duration(-4_560_000.0), "-4.56 ms");
        assert_eq!(duration(725e9), "12 min 5 s");
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(4096), "4 KiB");
        assert_eq!(bytes(1_610_612_736), "1.5 GiB");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(999), "999");
        assert_eq!(percent(0.1234), "12.3 %");
        assert_eq!(signed_percent(-0.05), "-5.0 %");
        assert_eq!(significant(0.0), "0");
        assert_eq!(metric(2048.0, "KiB/s"), "2 MiB/s");
    }
}
