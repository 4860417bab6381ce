//! From each kind of result to [`Evidence`].

use fsage_format::profile::{Environment, SystemProfile};
use fsage_format::result::environment::{DeviceRecord, MachineRecord, MkfsRecord, TargetRecord};
use fsage_format::result::experiment::{BenchRun, Configuration, EXPERIMENT_FORMAT, Experiment};
use fsage_format::result::run::{RUN_FORMAT, WorkloadRun};
use fsage_format::result::validation::{Pair, VALIDATION_FORMAT, Validation};
use fsage_host::environment::{emulated, selected};
use fsage_stats::{drift, mean, outliers, shapiro_wilk, summary};
use fsage_workload::WorkloadSpec;

use crate::target::was_temporary;

use super::evidence::{Cell, Evidence, Measured, TargetEvidence, WorkloadEvidence};

/// Workloads that exercise few operations, one after the other (Traeger 2007, section 9).
const MICRO: [&str; 7] = [
    "bonnie",
    "lfs-large",
    "lfs-small",
    "readers",
    "seqio",
    "small-read",
    "stride",
];

/// Samples pass for normal, a trend for none, above this probability.
const SIGNIFICANCE: f64 = 0.05;

pub(super) fn experiment(e: &Experiment) -> Evidence {
    let mut evidence = Evidence {
        kind: EXPERIMENT_FORMAT,
        plan: Some(e.plan.clone()).filter(|p| !p.trim().is_empty()),
        seed: Some(e.seed),
        machine: e.machine.clone(),
        interleaved: e.configurations.len() > 1,
        failed: e
            .failed
            .iter()
            .map(|f| format!("run {} of {}: {}", f.run, f.configuration, f.error))
            .collect(),
        drifting: e
            .drift
            .iter()
            .filter(|d| d.trend.is_some_and(|t| t.drifts))
            .map(|d| d.metric.clone())
            .collect(),
        interrupted: e.interrupted,
        ..Evidence::default()
    };
    for c in &e.configurations {
        if !evidence.targets.iter().any(|t| t.name == c.target) {
            evidence.targets.push(TargetEvidence {
                name: c.target.clone(),
                spec: c.target_spec.clone(),
                record: c.target_record.clone(),
            });
        }
        let streams = c
            .runs
            .iter()
            .flat_map(|r| &r.phases)
            .map(|p| p.result.streams.len());
        add_workload(&mut evidence, &c.workload, &c.workload_spec, streams.max());
        evidence.cells.push(cell(c));
    }
    evidence
}

fn add_workload(evidence: &mut Evidence, name: &str, spec: &str, streams: Option<usize>) {
    if let Some(known) = evidence
        .workloads
        .iter_mut()
        .find(|w| w.name == name && w.spec == spec)
    {
        known.streams = known.streams.max(streams);
        return;
    }
    let parsed = spec.parse::<WorkloadSpec>().ok();
    evidence.workloads.push(WorkloadEvidence {
        name: name.to_owned(),
        spec: spec.to_owned(),
        command: parsed.as_ref().is_some_and(|s| s.command().is_some()),
        micro: parsed
            .as_ref()
            .is_some_and(|s| MICRO.contains(&s.short_name())),
        streams,
    });
}

fn cell(c: &Configuration) -> Cell {
    let of_runs = |value: fn(&BenchRun) -> f64| {
        let all: Vec<f64> = c.runs.iter().map(value).collect();
        (!all.is_empty()).then(|| mean(&all))
    };
    let shown: Vec<bool> = c.runs.iter().filter_map(|r| r.cold_verified).collect();
    let mut marks: Vec<String> = c.runs.iter().flat_map(|r| r.marks.clone()).collect();
    marks.sort();
    marks.dedup();
    Cell {
        name: c.name.clone(),
        workload: c.workload.clone(),
        target: c.target.clone(),
        cache: Some(c.cache.clone()),
        cold: (c.cache == "cold").then(|| (shown.iter().filter(|v| **v).count(), c.runs.len())),
        fresh: Some(c.state != "as found"),
        runs: c.runs.len(),
        elapsed_ns: of_runs(|r| r.elapsed_ns as f64),
        metrics: c
            .metrics
            .iter()
            .filter(|m| m.required)
            .map(|m| Measured {
                name: m.metric.clone(),
                n: usize::try_from(m.n).unwrap_or(usize::MAX),
                half_width_relative: m.half_width_relative(),
                normal: m.normal.map(|n| n.normal),
                outliers: m.outliers.len(),
                drifts: m.trend.map(|t| t.drifts),
            })
            .collect(),
        cpu_share: of_runs(|r| r.cpu_share),
        by_kind: c.runs.iter().any(|r| !r.phases.is_empty()),
        by_mode: !c.runs.is_empty(),
        steady: steady(&c.runs),
        raw: c.runs.iter().any(|r| !r.metrics.is_empty()),
        marked: c.runs.iter().filter(|r| !r.marks.is_empty()).count(),
        marks,
        stop: Some(c.stop_text.clone()).filter(|t| !t.is_empty()),
    }
}

/// Runs that were steady for more than half of their time, and those whose phases tell.
fn steady(runs: &[BenchRun]) -> Option<(usize, usize)> {
    let mut told = 0;
    let mut mostly = 0;
    for run in runs {
        let known = run
            .phases
            .iter()
            .filter_map(|p| Some((p.steady?, p.result.elapsed_ns)));
        let (mut all_ns, mut steady_ns) = (0.0, 0.0);
        for (part, elapsed_ns) in known {
            all_ns += elapsed_ns as f64;
            if part.steady {
                steady_ns += elapsed_ns.saturating_sub(part.warm_up_ns) as f64;
            }
        }
        if all_ns > 0.0 {
            told += 1;
            mostly += usize::from(steady_ns > all_ns / 2.0);
        }
    }
    (told > 0).then_some((mostly, told))
}

pub(super) fn run(r: &WorkloadRun) -> Evidence {
    let (machine, target) = records(&r.environment);
    let measured: Vec<_> = r.phases.iter().filter(|p| p.role == "run").collect();
    let elapsed_ns: u64 = measured.iter().map(|p| p.elapsed_ns).sum();
    let cpu_ns: u64 = measured.iter().map(|p| p.cpu_ns).sum();
    let share = |cpu: u64, elapsed: u64| (elapsed > 0).then(|| cpu as f64 / elapsed as f64);
    let (elapsed_ns, cpu_share) = match &r.command {
        Some(c) => (c.elapsed_ns, share(c.user_ns + c.system_ns, c.elapsed_ns)),
        None => (elapsed_ns, share(cpu_ns, elapsed_ns)),
    };
    let cold: Vec<&str> = measured.iter().filter_map(|p| p.cold.as_deref()).collect();
    let name = r
        .workload
        .split([':', ','])
        .next()
        .unwrap_or_default()
        .to_owned();
    let mut evidence = Evidence {
        kind: RUN_FORMAT,
        seed: r.seed,
        machine: Some(machine),
        targets: vec![TargetEvidence {
            name: r.target.clone(),
            spec: r.target.clone(),
            record: Some(target),
        }],
        failed: r
            .failed
            .iter()
            .map(|f| format!("{} {}", f.kind, f.actual))
            .collect(),
        interrupted: r.interrupted,
        ..Evidence::default()
    };
    let streams = measured.iter().map(|p| p.streams.len()).max();
    add_workload(&mut evidence, &name, &r.workload, streams);
    evidence.cells.push(Cell {
        name: format!("{name} on {}", r.target),
        workload: name,
        target: r.target.clone(),
        cache: (!cold.is_empty()).then(|| format!("cold by {}", cold.join(", "))),
        fresh: Some(was_temporary(&r.target)),
        runs: 1,
        elapsed_ns: Some(elapsed_ns as f64),
        metrics: vec![Measured {
            name: "elapsed".to_owned(),
            n: 1,
            ..Measured::default()
        }],
        cpu_share,
        by_kind: measured.iter().any(|p| !p.kinds.is_empty()),
        by_mode: r.command.is_some(),
        raw: true,
        ..Cell::default()
    });
    evidence
}

pub(super) fn validation(v: &Validation, profiles: &[SystemProfile]) -> Evidence {
    let known: Vec<(MachineRecord, TargetRecord)> =
        profiles.iter().map(|p| records(&p.environment)).collect();
    let spec_of = |name: &str| {
        let named = v.targets.iter().find(|t| t.name == name);
        named.map_or_else(|| name.to_owned(), |t| t.spec.clone())
    };
    let mut evidence = Evidence {
        kind: VALIDATION_FORMAT,
        seed: Some(v.seed),
        machine: known.first().map(|k| k.0.clone()),
        interleaved: v.pairs.len() > 1,
        failed: v.failed.iter().map(|f| f.error.clone()).collect(),
        interrupted: v.interrupted,
        ..Evidence::default()
    };
    for pair in &v.pairs {
        if !evidence.targets.iter().any(|t| t.name == pair.target) {
            let spec = spec_of(&pair.target);
            let profile = profiles.iter().position(|p| {
                p.name == pair.target || [&pair.target, &spec].contains(&&p.environment.target)
            });
            evidence.targets.push(TargetEvidence {
                name: pair.target.clone(),
                record: profile.and_then(|at| known.get(at)).map(|k| k.1.clone()),
                spec,
            });
        }
        let named = v.workloads.iter().find(|w| w.name == pair.workload);
        let spec = named.map_or(pair.workload.as_str(), |w| w.spec.as_str());
        add_workload(&mut evidence, &pair.workload, spec, None);
        evidence
            .cells
            .push(pair_cell(v, pair, &spec_of(&pair.target)));
    }
    evidence
}

fn pair_cell(v: &Validation, pair: &Pair, target_spec: &str) -> Cell {
    let samples: Vec<f64> = pair.measured_runs_ns.iter().map(|n| *n as f64).collect();
    Cell {
        name: format!("{} on {}", pair.workload, pair.target),
        workload: pair.workload.clone(),
        target: pair.target.clone(),
        cache: Some(v.cache.clone()).filter(|c| !c.is_empty()),
        fresh: Some(was_temporary(target_spec)),
        runs: samples.len(),
        elapsed_ns: Some(pair.measured_elapsed_ns),
        metrics: vec![Measured {
            name: "total latency".to_owned(),
            n: samples.len(),
            half_width_relative: summary(&samples).half_width_relative(),
            normal: shapiro_wilk(&samples).map(|n| n.p >= SIGNIFICANCE),
            outliers: outliers(&samples).len(),
            drifts: drift(&samples).map(|d| d.p < SIGNIFICANCE),
        }],
        by_kind: !pair.kinds.is_empty(),
        raw: !samples.is_empty(),
        ..Cell::default()
    }
}

/// The records of a machine and a target, as far as the older form has them.
pub(super) fn records(e: &Environment) -> (MachineRecord, TargetRecord) {
    (machine(e), target(e))
}

fn text(value: &str) -> Option<String> {
    (!value.is_empty()).then(|| value.to_owned())
}

fn machine(e: &Environment) -> MachineRecord {
    let extra = |name: &str| e.extra.get(name).cloned();
    let number = |name: &str| extra(name)?.parse::<u64>().ok();
    let (release, build) = e.kernel.split_once(' ').unwrap_or((&e.kernel, ""));
    let mut m = MachineRecord {
        fsage: e.fsage.clone(),
        host: text(&e.host),
        product: extra("product"),
        hypervisor: extra("hypervisor"),
        clock_source: extra("clock_source"),
        privileged: e.privileged,
        taken_unix_ns: e.start_unix_ns,
        ..MachineRecord::default()
    };
    m.kernel.release = text(release);
    m.kernel.build = text(build);
    m.kernel.command_line = extra("kernel_command_line");
    m.processor.model = text(&e.cpu);
    m.processor.cpus = (e.cpus > 0).then_some(e.cpus);
    m.processor.smt = extra("smt");
    m.processor.governor = extra("governor");
    m.processor.turbo = number("turbo_off").map(|off| off == 0);
    m.processor.mitigations = extra("mitigations")
        .unwrap_or_default()
        .split("; ")
        .filter_map(|line| line.split_once(": "))
        .map(|(name, state)| (name.to_owned(), state.to_owned()))
        .collect();
    m.memory.total_bytes = (e.memory_bytes > 0).then_some(e.memory_bytes);
    m.memory.transparent_hugepages = extra("transparent_hugepage").map(|t| selected(&t));
    m.write_back.dirty_ratio_percent = number("dirty_ratio");
    m.write_back.dirty_background_ratio_percent = number("dirty_background_ratio");
    m.write_back.dirty_expire_ms = number("dirty_expire_centisecs").and_then(|c| c.checked_mul(10));
    m.write_back.workqueue_cpumask = extra("workqueue_cpumask");
    m.load.average = extra("load").and_then(|load| {
        let mut fields = load.split_ascii_whitespace().map(|f| f.parse::<f64>().ok());
        Some((fields.next()??, fields.next()??, fields.next()??))
    });
    m
}

fn target(e: &Environment) -> TargetRecord {
    let extra = |name: &str| e.extra.get(name).cloned();
    let number = |name: &str| extra(name)?.parse::<u64>().ok();
    let mkfs = e.mkfs_options.as_ref().map(|options| MkfsRecord {
        program: format!("mkfs.{}", e.file_system),
        options: options.clone(),
        version: extra("mkfs_version"),
        image_bytes: e.device_bytes.unwrap_or(0),
        image: extra("image").unwrap_or_default(),
    });
    let device = DeviceRecord {
        name: device_name(&e.device).to_owned(),
        kind: device_kind(&e.device).to_owned(),
        model: extra("device_model"),
        size_bytes: e.device_bytes,
        scheduler: extra("device_scheduler").map(|s| selected(&s)),
        read_ahead_bytes: number("device_read_ahead_kib").and_then(|n| n.checked_mul(1024)),
        rotational: e.rotational,
        write_cache: extra("device_write_cache"),
        logical_block_bytes: number("device_logical_block_bytes"),
        physical_block_bytes: number("device_physical_block_bytes"),
        queued_requests: number("device_requests"),
        direct_io: extra("loop_direct_io").map(|d| d == "true"),
        backing_file_system: (extra("image").as_deref() == Some("ram")).then(|| "tmpfs".to_owned()),
        ..DeviceRecord::default()
    };
    TargetRecord {
        target: e.target.clone(),
        scratch: mkfs.is_some(),
        file_system: text(&e.file_system),
        mount_options: text(&e.mount_options),
        mkfs,
        aged: e.aged.clone(),
        total_bytes: (e.total_bytes > 0).then_some(e.total_bytes),
        free_bytes: (e.free_bytes > 0).then_some(e.free_bytes),
        devices: if e.device.starts_with("/dev/") {
            vec![device]
        } else {
            Vec::new()
        },
        emulated: emulated(&e.extra),
        ..TargetRecord::default()
    }
}

/// The name in `/dev/loop0 (loop on ram, direct I/O)`.
fn device_name(told: &str) -> &str {
    let path = told.split(' ').next().unwrap_or_default();
    path.strip_prefix("/dev/").unwrap_or(path)
}

/// What the name tells: a loop device; of the others not whether it is a partition.
fn device_kind(told: &str) -> &'static str {
    match device_name(told).trim_end_matches(|c: char| c.is_ascii_digit()) {
        "loop" => "loop",
        "zram" => "zram",
        _ => "device",
    }
}
