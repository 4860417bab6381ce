//! The figures that each run gives, by name: what statistics are made of.

use std::collections::BTreeMap;

use fsage_core::OpKind;
use fsage_format::result::experiment::BenchRun;
use fsage_format::result::layout::Score;

/// How long the workload took.
pub const ELAPSED: &str = "elapsed";

/// A figure: its name, its unit, whether commands have it, and what it is.
pub struct Metric {
    /// Its name; with `:` at its end one of several, named by a phase or a kind of operation.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Whether a command's run gives it.
    pub of_commands: bool,
    /// What it is.
    pub what: &'static str,
}

const fn any(name: &'static str, unit: &'static str, what: &'static str) -> Metric {
    Metric {
        name,
        unit,
        of_commands: true,
        what,
    }
}

const fn generated(name: &'static str, unit: &'static str, what: &'static str) -> Metric {
    Metric {
        name,
        unit,
        of_commands: false,
        what,
    }
}

/// Every figure that a run may have.
pub const METRICS: &[Metric] = &[
    any(
        ELAPSED,
        "ns",
        "wall clock: the sum of the run phases, or the command",
    ),
    any("user", "ns", "processor time in user mode"),
    any("system", "ns", "processor time in the kernel"),
    any("wait", "ns", "elapsed less user and system"),
    any("cpu_share", "share", "user and system over elapsed"),
    any("run_delay", "ns", "ready to run, but no processor was free"),
    any("flush", "ns", "a sync of the target after the workload"),
    any(
        "device_reads",
        "count",
        "read requests of the target's device",
    ),
    any("device_sectors_read", "sectors", "512 bytes each, likewise"),
    any(
        "device_writes",
        "count",
        "write requests of the target's device",
    ),
    any(
        "device_sectors_written",
        "sectors",
        "512 bytes each, likewise",
    ),
    any(
        "page_cache_hits",
        "share",
        "what calls read that needed no device",
    ),
    any("fetched_bytes", "B", "read from devices for the workload"),
    any(
        "voluntary_switches",
        "count",
        "a thread gave its processor up",
    ),
    any(
        "involuntary_switches",
        "count",
        "a thread's processor was taken away",
    ),
    any("major_faults", "count", "page faults with I/O"),
    any("minor_faults", "count", "page faults without I/O"),
    generated(
        "operations_per_s",
        "operations/s",
        "throughput of the run phases",
    ),
    generated(
        "read_bytes_per_s",
        "B/s",
        "bytes read by calls, over elapsed",
    ),
    generated(
        "written_bytes_per_s",
        "B/s",
        "bytes written by calls, over elapsed",
    ),
    generated(
        "warm_up",
        "ns",
        "until throughput is steady; only of runs that become it",
    ),
    generated(
        "steady_operations_per_s",
        "operations/s",
        "throughput from then on",
    ),
    generated(
        "elapsed:",
        "ns",
        "one run phase, by its name; where there are several",
    ),
    generated("operations_per_s:", "operations/s", "likewise"),
    generated("bytes_per_s:", "B/s", "likewise, bytes read and written"),
    generated(
        "layout_score:",
        "share",
        "of the files that a run phase is about, after it; of workloads that tell it",
    ),
    generated("latency_mean:", "ns", "mean latency of a kind of operation"),
    generated(
        "latency_p50:",
        "ns",
        "median latency of a kind of operation",
    ),
    generated(
        "latency_p99:",
        "ns",
        "99 % quantile of the latency of a kind of operation",
    ),
];

fn find(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|m| match m.name.strip_suffix(':') {
        Some(_) => name.len() > m.name.len() && name.starts_with(m.name),
        None => m.name == name,
    })
}

/// The unit of a figure.
pub fn unit(name: &str) -> &'static str {
    find(name).map_or("", |m| m.unit)
}

/// Whether a run can have a figure of that name; if not, why, and what is expected.
pub fn check(name: &str, of_command: bool) -> Result<(), String> {
    let known = |of_command: bool| {
        let fits = |m: &&Metric| m.of_commands || !of_command;
        let names: Vec<&str> = METRICS.iter().filter(fits).map(|m| m.name).collect();
        names.join(", ")
    };
    let Some(metric) = find(name) else {
        return Err(format!(
            "unknown metric `{name}`, expected one of {}",
            known(of_command)
        ));
    };
    if of_command && !metric.of_commands {
        return Err(format!(
            "metric `{name}` is not measured for commands, expected one of {}",
            known(true)
        ));
    }
    let kind = name
        .split_once(':')
        .filter(|_| metric.name.starts_with("latency"));
    if let Some((_, kind)) = kind
        && !OpKind::ALL.iter().any(|k| k.name() == kind)
    {
        let kinds: Vec<&str> = OpKind::ALL.iter().map(|k| k.name()).collect();
        return Err(format!(
            "metric `{name}`: `{kind}` is no kind of operation, expected one of {}",
            kinds.join(", ")
        ));
    }
    Ok(())
}

/// Every figure of a run, from what was measured in it.
pub fn of_run(run: &BenchRun) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    let mut put = |name: &str, value: Option<f64>| {
        if let Some(value) = value.filter(|v| v.is_finite()) {
            all.insert(name.to_owned(), value);
        }
    };
    put(ELAPSED, Some(run.elapsed_ns as f64));
    put("user", Some(run.user_ns as f64));
    put("system", Some(run.system_ns as f64));
    put("wait", Some(run.wait_ns as f64));
    put("cpu_share", Some(run.cpu_share));
    put("run_delay", run.run_delay_ns.map(|n| n as f64));
    put("flush", run.flush.map(|f| f.elapsed_ns as f64));
    if let Some(device) = &run.device {
        put("device_reads", Some(device.reads as f64));
        put("device_sectors_read", Some(device.sectors_read as f64));
        put("device_writes", Some(device.writes as f64));
        put(
            "device_sectors_written",
            Some(device.sectors_written as f64),
        );
    }
    if let Some(cache) = &run.page_cache {
        put("page_cache_hits", cache.hit_share());
        put("fetched_bytes", Some(cache.fetched_bytes as f64));
    }
    put("voluntary_switches", Some(run.voluntary_switches as f64));
    put(
        "involuntary_switches",
        Some(run.involuntary_switches as f64),
    );
    put("major_faults", Some(run.major_faults as f64));
    put("minor_faults", Some(run.minor_faults as f64));
    of_phases(run, &mut put);
    all
}

fn of_phases(run: &BenchRun, put: &mut dyn FnMut(&str, Option<f64>)) {
    if run.phases.is_empty() {
        return;
    }
    let sum = |of: fn(&fsage_format::result::run::PhaseRun) -> u64| {
        run.phases.iter().map(|p| of(&p.result)).sum::<u64>() as f64
    };
    let seconds = run.elapsed_ns as f64 / 1e9;
    put("operations_per_s", Some(sum(|p| p.operations) / seconds));
    put("read_bytes_per_s", Some(sum(|p| p.bytes_read) / seconds));
    put(
        "written_bytes_per_s",
        Some(sum(|p| p.bytes_written) / seconds),
    );
    for phase in &run.phases {
        if run.phases.len() > 1 {
            let (name, result) = (&phase.result.name, &phase.result);
            put(&format!("elapsed:{name}"), Some(result.elapsed_ns as f64));
            put(
                &format!("operations_per_s:{name}"),
                Some(result.operations_per_s),
            );
            let bytes = (result.bytes_read + result.bytes_written) as f64;
            let seconds = result.elapsed_ns as f64 / 1e9;
            put(
                &format!("bytes_per_s:{name}"),
                Some(bytes / seconds).filter(|_| bytes > 0.0),
            );
        }
        let score = phase.result.layout.as_ref().and_then(|layout| layout.score);
        put(
            &format!("layout_score:{}", phase.result.name),
            score.map(Score::value),
        );
    }
    if let [only] = run.phases.as_slice()
        && let Some(steady) = only.steady.filter(|s| s.steady)
    {
        put("warm_up", Some(steady.warm_up_ns as f64));
        put("steady_operations_per_s", steady.steady_operations_per_s);
    }
    for name in kinds(run) {
        let of_kind = || {
            let all = run.phases.iter().flat_map(|p| &p.result.kinds);
            all.filter(|k| k.kind == name)
        };
        let count: u64 = of_kind().map(|k| k.count).sum();
        let total: u64 = of_kind().map(|k| k.latency_total_ns).sum();
        let mut pairs: Vec<(u64, u64)> = of_kind().flat_map(|k| k.distribution.clone()).collect();
        pairs.sort_unstable();
        put(
            &format!("latency_mean:{name}"),
            Some(total as f64 / count as f64),
        );
        put(&format!("latency_p50:{name}"), quantile(&pairs, 0.5));
        put(&format!("latency_p99:{name}"), quantile(&pairs, 0.99));
    }
}

/// The kinds of operation of the run phases.
fn kinds(run: &BenchRun) -> Vec<String> {
    let all = run.phases.iter().flat_map(|p| &p.result.kinds);
    let mut names: Vec<String> = all.map(|k| k.kind.clone()).collect();
    names.sort();
    names.dedup();
    names
}

/// The value below which a share of a distribution lies; `pairs` of value and count, ascending.
fn quantile(pairs: &[(u64, u64)], share: f64) -> Option<f64> {
    let total: u64 = pairs.iter().map(|p| p.1).sum();
    let wanted = (share * total as f64).ceil().max(1.0) as u64;
    let mut seen = 0;
    for (value, count) in pairs {
        seen += count;
        if seen >= wanted {
            return Some(*value as f64);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_with_what_they_are_of() {
        check("elapsed", true).unwrap();
        check("latency_p99:fsync", false).unwrap();
        check("elapsed:transactions", false).unwrap();
        let bad = |name, command| check(name, command).unwrap_err();
        assert!(bad("elapse", false).contains("expected one of elapsed, user"));
        assert!(bad("operations_per_s", true).contains("not measured for commands"));
        assert!(bad("latency_p99:fsink", false).contains("no kind of operation"));
        assert!(bad("latency_p99:", false).contains("unknown metric"));
        assert_eq!(
            (unit("elapsed:x"), unit("cpu_share"), unit("?")),
            ("ns", "share", "")
        );
    }

    #[test]
    fn quantiles_of_counted_values() {
        let pairs = [(10, 98), (20, 1), (500, 1)];
        assert_eq!(quantile(&pairs, 0.5), Some(10.0));
        assert_eq!(quantile(&pairs, 0.99), Some(20.0));
        assert_eq!(quantile(&pairs, 1.0), Some(500.0));
        assert_eq!(quantile(&[], 0.5), None);
    }
}
