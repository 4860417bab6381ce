//! Reading /proc and /sys.

use std::path::Path;

/// A file of /proc or /sys, without white space around it; `None` if it is not there or empty.
pub(crate) fn read(path: impl AsRef<Path>) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// A file that holds one number.
pub(super) fn number(path: impl AsRef<Path>) -> Option<u64> {
    read(path)?.parse().ok()
}

/// The value of `key : value`, the first of that key.
pub(super) fn field(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let value = value.trim();
        (name.trim() == key && !value.is_empty()).then(|| value.to_owned())
    })
}

/// A line `name: N kB` of /proc/meminfo in bytes.
pub(crate) fn kib(meminfo: &str, name: &str) -> Option<u64> {
    let value = field(meminfo, name)?;
    let number = value.strip_suffix("kB")?.trim();
    number.parse::<u64>().ok()?.checked_mul(1024)
}

/// Ticks of all processors since boot: `cpu user nice system idle iowait irq softirq steal` of proc_stat(5).
pub(crate) fn cpu_ticks(stat: &str) -> Option<[u64; 8]> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let mut fields = line.split_ascii_whitespace();
    let mut ticks = [0; 8];
    for tick in &mut ticks {
        *tick = fields.next()?.parse().ok()?;
    }
    Some(ticks)
}

/// A field of the line of a /proc/pressure file that tells when anything waited (the kernel's
/// accounting/psi.rst).
pub(crate) fn pressure_field<T: std::str::FromStr>(text: &str, name: &str) -> Option<T> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let mut fields = line.split_ascii_whitespace();
    fields
        .find_map(|field| field.strip_prefix(name))?
        .parse()
        .ok()
}

/// What proc_pid_stat(5) tells of a process.
pub(crate) struct ProcessStat {
    /// Its name.
    pub name: String,
    /// Who started it.
    pub parent: u32,
    /// Processor time in user mode.
    pub user_ticks: u64,
    /// All of its processor time.
    pub ticks: u64,
}

/// Reads a line of proc_pid_stat(5). The name may hold anything, parentheses too.
pub(crate) fn process(stat: &str) -> Option<ProcessStat> {
    let (begin, rest) = stat.rsplit_once(')')?;
    let (_, name) = begin.split_once('(')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let user_ticks = number(11)?;
    Some(ProcessStat {
        name: name.to_owned(),
        parent: fields.get(1)?.parse().ok()?,
        user_ticks,
        ticks: user_ticks.checked_add(number(12)?)?,
    })
}

/// The length of a list such as `0-3,8`.
pub(super) fn list_length(list: &str) -> Option<u32> {
    list.split(',').try_fold(0u32, |sum, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        sum.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

/// The numbers of the entries `PREFIX<n>` of a directory, ascending.
pub(super) fn numbered(dir: &str, prefix: &str) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut all: Vec<u32> = entries
        .filter_map(|entry| {
            let name = entry.ok()?.file_name();
            name.to_str()?.strip_prefix(prefix)?.parse().ok()
        })
        .collect();
    all.sort_unstable();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_proc_says() {
        assert_eq!(list_length("0-3,8"), Some(5));
        assert_eq!(list_length("0"), Some(1));
        assert_eq!(list_length("3-1"), None);
        let text = "a : 1\nempty :\nmodel name\t: Some CPU\n";
        assert_eq!(field(text, "model name").unwrap(), "Some CPU");
        assert_eq!(field(text, "empty"), None);
        assert_eq!(kib("MemTotal:  12 kB\n", "MemTotal"), Some(12 * 1024));
        assert_eq!(kib("MemTotal:  12\n", "MemTotal"), None);
        let pressure = "some avg10=0.04 avg60=0.5 avg300=1.00 total=123\nfull avg10=9 total=9\n";
        assert_eq!(pressure_field(pressure, "avg10="), Some(0.04));
        assert_eq!(pressure_field(pressure, "total="), Some(123_u64));
        assert_eq!(pressure_field::<u64>("some total=", "total="), None);
        let odd = "12 (a) b (c) R 7 1 1 0 -1 4 1 0 0 0 30 12 0 0 20";
        let found = process(odd).unwrap();
        assert_eq!((found.name.as_str(), found.parent), ("a) b (c", 7));
        assert_eq!((found.user_ticks, found.ticks), (30, 42));
        assert!(process("12 a R").is_none());
        assert!(!numbered("/sys/devices/system/cpu", "cpu").is_empty());
    }
}
