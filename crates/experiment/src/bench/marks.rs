//! What makes a run suspect. It is said, and the run counts all the same (Traeger 2007, 3.4).

use fsage_format::result::experiment::{BenchRun, Others};
use fsage_host::pauses::stopped;

/// A wall clock that went further away than this was set.
const CLOCK_STEP_NS: u64 = 1_000_000;

/// Others that use more of a processor than this change what is measured, as a share of elapsed time.
pub(crate) const OTHERS_SHARE: f64 = 0.10;

/// The kernel counts in ticks of 10 ms and gives each whole to user or system: fewer than this are
/// chance. Shorter runs are judged by how long their threads waited.
pub(crate) const LEAST_TICKS_NS: u64 = 100_000_000;

/// A hypervisor that takes more than this, as a share of elapsed time.
const STOLEN_SHARE: f64 = 0.02;

/// Threads of the workload that wait for a processor longer than this, as a share of elapsed time and
/// stream.
const RUN_DELAY_SHARE: f64 = 0.05;

/// Shorter delays are those of any thread that wakes up.
const LEAST_DELAY_NS: u64 = 2_000_000;

/// A command's processes together, or where that is not known anything, that wait for a processor for longer
/// than this share of a command's time.
const PRESSURE_SHARE: f64 = 0.25;

/// What must be said of a run, one line each.
pub fn marks(run: &BenchRun) -> Vec<String> {
    let mut marks = by_others(run.elapsed_ns, &run.others);
    let streams = run.phases.iter().map(|p| p.result.streams.len()).max();
    let delay_ns = run.run_delay_ns;
    marks.extend(match run.command {
        None => waited(run.elapsed_ns, delay_ns, streams.unwrap_or(1)),
        Some(_) => waited_by_command(run.elapsed_ns, delay_ns, &run.others),
    });
    if run.cold_verified == Some(false) {
        marks.push(format!(
            "caches were not cold ({})",
            run.cache_evidence.as_deref().unwrap_or_default()
        ));
    }
    let unexpected: u64 = run.phases.iter().map(|p| p.result.unexpected).sum();
    if unexpected > 0 {
        marks.push(format!(
            "{unexpected} operations did not end as the workload expected"
        ));
    }
    marks
}

/// What others did in so long that what was measured is suspect.
pub(crate) fn by_others(elapsed_ns: u64, others: &Others) -> Vec<String> {
    let mut marks = Vec::new();
    let share = |ns: u64| ns as f64 / elapsed_ns.max(1) as f64;
    let of_processors = |ns: u64| match share(ns) {
        s if s <= 1.0 => format!("{:.0} % of a processor", s * 100.0),
        s => format!("{s:.1} processors"),
    };
    if others.clock_step_ns.unsigned_abs() >= CLOCK_STEP_NS {
        marks.push(format!(
            "the wall clock went {:.3} s away from the monotonic one: it was set, or the machine slept; \
             elapsed times do not depend on it",
            others.clock_step_ns as f64 / 1e9
        ));
    }
    if others.stops > 0 {
        marks.push(stopped(others.stops));
    }
    let over = |ns: Option<u64>, most: f64| {
        let long = ns.filter(|&ns| ns >= LEAST_TICKS_NS);
        long.filter(|&ns| share(ns) > most)
    };
    if let Some(ns) = over(others.user_ns, OTHERS_SHARE) {
        marks.push(format!("other processes used {}", of_processors(ns)));
    }
    if let Some(ns) = over(others.stolen_ns, STOLEN_SHARE) {
        marks.push(format!("the hypervisor took {}", of_processors(ns)));
    }
    marks
}

/// What is to be said of the waiting for processors of that many streams. Times, since threads wait at once and are
/// seen a little longer than they are measured: a sum of theirs is no share of the time.
pub(crate) fn waited(elapsed_ns: u64, delay_ns: Option<u64>, streams: usize) -> Option<String> {
    let ns = delay_ns.filter(|&ns| ns >= LEAST_DELAY_NS)?;
    let streams = streams.max(1);
    let many = if streams > 1 { "s, all together," } else { "" };
    let share = ns as f64 / elapsed_ns.max(1) as f64 / streams as f64;
    let (waited, in_all) = (time(ns), time(elapsed_ns));
    (share > RUN_DELAY_SHARE)
        .then(|| format!("the workload's thread{many} waited {waited} for a processor in {in_all}"))
}

/// The same of a command, whose processes may wait for each other.
pub(crate) fn waited_by_command(
    elapsed_ns: u64,
    delay_ns: Option<u64>,
    others: &Others,
) -> Option<String> {
    let (ns, who) = match delay_ns {
        Some(ns) => (
            Some(ns).filter(|&ns| ns >= LEAST_DELAY_NS)?,
            "its processes, all together, waited",
        ),
        None => (
            // The kernel counts it late: no more than there was.
            others.cpu_pressure_ns?.min(elapsed_ns),
            "something, its own processes included, waited",
        ),
    };
    let (waited, in_all) = (time(ns), time(elapsed_ns));
    let share = ns as f64 / elapsed_ns.max(1) as f64;
    (share > PRESSURE_SHARE).then(|| format!("{who} {waited} for a processor in {in_all}"))
}

fn time(ns: u64) -> String {
    match ns as f64 / 1e9 {
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsage_format::result::run::CommandRun;

    fn run(others: Others) -> BenchRun {
        BenchRun {
            elapsed_ns: 1_000_000_000,
            others,
            ..BenchRun::default()
        }
    }

    #[test]
    fn a_quiet_run_has_no_mark() {
        let quiet = Others {
            user_ns: Some(20_000_000),
            stolen_ns: Some(0),
            cpu_pressure_ns: Some(900_000_000),
            clock_step_ns: 900_000,
            stops: 0,
        };
        let mut run = run(quiet);
        run.run_delay_ns = Some(1_000_000);
        run.cold_verified = Some(true);
        assert_eq!(marks(&run), [] as [String; 0]);
    }

    #[test]
    fn each_disturbance_is_said() {
        let set = |others: Others| marks(&run(others)).join("\n");
        let said = set(Others {
            clock_step_ns: -3_600_000_000_000,
            ..Others::default()
        });
        assert!(said.contains("-3600.000 s away"), "{said}");
        let said = set(Others {
            user_ns: Some(1_500_000_000),
            stolen_ns: Some(100_000_000),
            ..Others::default()
        });
        assert!(
            said.contains("other processes used 1.5 processors"),
            "{said}"
        );
        assert!(
            said.contains("hypervisor took 10 % of a processor"),
            "{said}"
        );
        let mut command = run(Others {
            cpu_pressure_ns: Some(300_000_000),
            ..Others::default()
        });
        command.command = Some(CommandRun::default());
        let said = marks(&command).join("\n");
        assert!(
            said.starts_with("something, its own processes included"),
            "{said}"
        );
        let late = Others {
            cpu_pressure_ns: Some(22_000_000),
            ..Others::default()
        };
        let said = waited_by_command(2_000_000, None, &late).unwrap();
        assert!(
            said.ends_with("waited 2.0 ms for a processor in 2.0 ms"),
            "{said}"
        );
        command.run_delay_ns = Some(100_000_000);
        assert_eq!(marks(&command), [] as [String; 0], "10 % of its own");
        command.run_delay_ns = Some(1_500_000_000);
        let said = marks(&command).join("\n");
        assert!(
            said.contains("its processes, all together, waited 1.50 s for a processor in 1.00 s"),
            "{said}"
        );
        let mut waited = run(Others::default());
        waited.run_delay_ns = Some(300_000_000);
        waited.cold_verified = Some(false);
        let said = marks(&waited).join("\n");
        assert!(
            said.contains("thread waited 300.0 ms for a processor in 1.00 s")
                && said.contains("not cold"),
            "{said}"
        );
    }
}
