//! What else a machine is doing.

use std::collections::BTreeMap;
use std::time::Duration;

use fsage_core::Clock;
use fsage_format::result::environment::{BusyProcess, LoadRecord};

use super::files::{cpu_ticks, numbered, pressure_field, process, read};
use crate::MonotonicClock;

/// Processes that are told by name.
const TOLD: usize = 5;
/// A process that used less of a processor is not told; one tick in a quarter of a second is more.
const LEAST_SHARE: f64 = 0.02;

/// Watches for a while, then tells.
pub(super) fn watch(time: Duration) -> LoadRecord {
    let clock = MonotonicClock;
    let (begin_ns, before) = (clock.now_ns(), Usage::now());
    std::thread::sleep(time);
    let after = Usage::now();
    let observed_ns = clock.now_ns().saturating_sub(begin_ns);
    let (average, threads) = load_average();
    LoadRecord {
        average,
        busy: after.busy_since(&before),
        observed_ns,
        busiest: after.busiest_since(&before, observed_ns),
        threads,
        users: users(),
        cpu_pressure: pressure("cpu"),
        io_pressure: pressure("io"),
        memory_pressure: pressure("memory"),
    }
}

/// The three averages, and how many threads there are.
fn load_average() -> (Option<(f64, f64, f64)>, Option<u64>) {
    let Some(text) = read("/proc/loadavg") else {
        return (None, None);
    };
    let mut fields = text.split_ascii_whitespace();
    let mut next = || fields.next()?.parse::<f64>().ok();
    let average = match (next(), next(), next()) {
        (Some(one), Some(five), Some(fifteen)) => Some((one, five, fifteen)),
        _ => None,
    };
    let threads = fields
        .next()
        .and_then(|running| running.split_once('/')?.1.parse().ok());
    (average, threads)
}

/// Ticks of processor time since boot.
struct Usage {
    /// Of all processors, and those that were idle.
    all: Option<(u64, u64)>,
    processes: BTreeMap<u32, (String, u64)>,
    own: u64,
}

impl Usage {
    fn now() -> Self {
        let mut own = 0;
        let me = std::process::id();
        let mut processes = BTreeMap::new();
        for pid in numbered("/proc", "") {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
            let Some(process) = stat.ok().and_then(|text| process(&text)) else {
                continue;
            };
            if pid == me || process.parent == me {
                own += process.ticks;
            } else {
                processes.insert(pid, (process.name, process.ticks));
            }
        }
        let all = read("/proc/stat").and_then(|text| all_ticks(&text));
        Self {
            all,
            processes,
            own,
        }
    }

    /// The share of all processors that others used.
    fn busy_since(&self, before: &Usage) -> Option<f64> {
        let ((all, idle), (all_before, idle_before)) = (self.all?, before.all?);
        let all = all.checked_sub(all_before).filter(|n| *n > 0)?;
        let idle = idle.saturating_sub(idle_before);
        let own = self.own.saturating_sub(before.own);
        let busy = all.saturating_sub(idle).saturating_sub(own);
        Some(busy as f64 / all as f64)
    }

    fn busiest_since(&self, before: &Usage, observed_ns: u64) -> Vec<BusyProcess> {
        let ticks_each_second = rustix::param::clock_ticks_per_second().max(1) as f64;
        let observed = observed_ns.max(1) as f64 / 1e9 * ticks_each_second;
        let mut all: Vec<BusyProcess> = self
            .processes
            .iter()
            .filter_map(|(pid, (name, ticks))| {
                let then = before.processes.get(pid).map_or(*ticks, |p| p.1);
                let cpu_share = ticks.saturating_sub(then) as f64 / observed;
                (cpu_share >= LEAST_SHARE).then(|| BusyProcess {
                    name: name.clone(),
                    cpu_share,
                })
            })
            .collect();
        all.sort_by(|a, b| b.cpu_share.total_cmp(&a.cpu_share));
        all.truncate(TOLD);
        all
    }
}

/// All ticks and the idle ones since boot. Time that a hypervisor gave to others is not idle; guests' time
/// is in the users' already.
fn all_ticks(stat: &str) -> Option<(u64, u64)> {
    let ticks = cpu_ticks(stat)?;
    let [_, _, _, idle, waiting, ..] = ticks;
    Some((ticks.iter().sum(), idle.saturating_add(waiting)))
}

/// The share of the last 10 s in which something waited.
fn pressure(what: &str) -> Option<f64> {
    let text = read(format!("/proc/pressure/{what}"))?;
    Some(pressure_field::<f64>(&text, "avg10=")? / 100.0)
}

/// Users who are logged in: utmp where it is kept, else the sessions of systemd.
fn users() -> Option<u32> {
    let logged_in = std::fs::read("/run/utmp").ok().map(|utmp| logins(&utmp));
    let count = logged_in.or_else(|| {
        let sessions = std::fs::read_dir("/run/systemd/sessions").ok()?;
        let texts = sessions.filter_map(|entry| read(entry.ok()?.path()));
        Some(
            texts
                .filter(|t| t.lines().any(|line| line == "CLASS=user"))
                .count(),
        )
    })?;
    u32::try_from(count).ok()
}

/// The logins of a utmp(5): its records begin with their type.
fn logins(utmp: &[u8]) -> usize {
    let records = utmp.chunks_exact(size_of::<libc::utmpx>());
    let login = libc::USER_PROCESS.to_ne_bytes();
    records.filter(|r| r.starts_with(&login)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_proc_says() {
        let stat = "cpu  10 1 5 100 4 0 1 2 9 9\ncpu0 1 1 1 1\n";
        assert_eq!(all_ticks(stat), Some((123, 104)));
        assert_eq!(all_ticks("cpu 1 2\n"), None);
        let record = size_of::<libc::utmpx>();
        let mut utmp = vec![0; 3 * record];
        // Of a boot, of a user, and one that is cut off.
        for (at, kind) in [(0, libc::BOOT_TIME), (record, libc::USER_PROCESS)] {
            utmp[at..at + 2].copy_from_slice(&kind.to_ne_bytes());
        }
        let half = utmp[record..record + record / 2].to_vec();
        assert_eq!(logins(&[utmp, half].concat()), 1);
    }

    #[test]
    fn a_busy_process_of_another_is_seen() {
        // A child of a child: neither this process nor its own.
        let mut shell = std::process::Command::new("sh")
            .args(["-c", "(while :; do :; done) & echo $!; wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = std::io::BufReader::new(shell.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut out, &mut line).unwrap();
        let mut seen = false;
        for _ in 0..40 {
            let found = watch(Duration::from_millis(250));
            seen = found.busiest.iter().any(|p| p.name == "sh") && found.busy > Some(0.0);
            if seen {
                break;
            }
        }
        let loop_pid: i32 = line.trim().parse().unwrap();
        let pid = rustix::process::Pid::from_raw(loop_pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        shell.wait().unwrap();
        assert!(seen);
    }
}
