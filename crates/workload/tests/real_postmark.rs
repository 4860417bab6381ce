//! The generator against the real PostMark: what its report counts and the system calls that it
//! makes, within what a different random sequence explains. Needs `postmark` (and `strace`).
#![allow(clippy::unwrap_used, clippy::float_cmp, reason = "tests")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use fsage_core::{Op, OpSource};
use fsage_workload::WorkloadSpec;
use fsage_workload::postmark::{Config, PostMark};

const POSTMARK: &str = "/usr/bin/postmark";
const STRACE: &str = "/usr/bin/strace";

type Counts = BTreeMap<&'static str, f64>;

fn missing(tools: &[&str]) -> bool {
    let missing = tools.iter().find(|t| !Path::new(t).exists());
    if let Some(tool) = missing {
        fsage_testing::not_run(format_args!("needs {tool}"));
    }
    missing.is_some()
}

fn config(spec: &str) -> Config {
    match spec.parse().unwrap() {
        WorkloadSpec::Generated { values, .. } => Config::from_values(&values),
        WorkloadSpec::Command(_) => panic!("{spec} is a command"),
    }
}

/// Runs the real program in `dir`; `wrapper` goes before its name. Returns its report.
fn real(dir: &Path, config: &Config, wrapper: &[&str]) -> String {
    let script = dir.join("script");
    let work = dir.join("work");
    fs::create_dir(&work).unwrap();
    let c = config;
    let text = format!(
        "set location {}\nset number {}\nset transactions {}\nset size {} {}\n\
         set subdirectories {}\nset read {}\nset write {}\nset bias read {}\nset bias create {}\n\
         set buffering {}\nset seed {}\nrun\nquit\n",
        work.display(),
        c.files,
        c.transactions,
        c.size_low_bytes,
        c.size_high_bytes,
        c.subdirs,
        c.read_bytes,
        c.write_bytes,
        c.bias_read,
        c.bias_create,
        c.buffer_bytes.is_some(),
        c.seed.0
    );
    fs::write(&script, text).unwrap();
    let mut words = wrapper.to_vec();
    let script = script.to_str().unwrap();
    words.extend([POSTMARK, script]);
    let output = Command::new(words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success());
    assert_eq!(
        fs::read_dir(&work).unwrap().count(),
        0,
        "PostMark cleans up"
    );
    String::from_utf8(output.stdout).unwrap()
}

/// The figures of PostMark's verbose report.
fn report(text: &str) -> Counts {
    let mut counts = Counts::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(Ok(number)), Some(second)) = (words.next().map(str::parse::<f64>), words.next())
        else {
            continue;
        };
        let scale = match second {
            "kilobytes" => 1024.0,
            "megabytes" => 1024.0 * 1024.0,
            "bytes" => 1.0,
            _ => 0.0,
        };
        let name = match (second, words.next()) {
            ("created", _) => "created",
            ("read", _) => "read",
            ("appended", _) => "appended",
            ("deleted", _) => "deleted",
            (_, Some("read")) if scale > 0.0 => "bytes_read",
            (_, Some("written")) if scale > 0.0 => "bytes_written",
            _ => continue,
        };
        counts.insert(name, if scale > 0.0 { number * scale } else { number });
    }
    assert_eq!(counts["created"], counts["deleted"], "nothing is left over");
    counts
}

fn drain(config: &Config) -> (Vec<Op>, Counts) {
    let mut source = PostMark::new(config);
    let mut ops = Vec::new();
    while source.next_batch(&mut ops).unwrap() > 0 {}
    let t = source.tally();
    let counts = [
        ("created", t.created),
        ("read", t.read),
        ("appended", t.appended),
        ("deleted", t.deleted),
        ("bytes_read", t.bytes_read),
        ("bytes_written", t.bytes_written),
    ];
    (
        ops,
        counts
            .into_iter()
            .map(|(name, n)| (name, n as f64))
            .collect(),
    )
}

/// Each of `real` lies within four standard deviations of what 24 seeds give.
fn within_random_differences(real: &Counts, config: &Config, count: impl Fn(&Config) -> Counts) {
    let seeds: Vec<Counts> = (1..=24)
        .map(|seed| {
            count(&Config {
                seed: fsage_core::Seed(seed),
                ..*config
            })
        })
        .collect();
    assert_eq!(
        real.keys().collect::<Vec<_>>(),
        seeds[0].keys().collect::<Vec<_>>()
    );
    for (name, &value) in real {
        let sample: Vec<f64> = seeds.iter().map(|s| s[name]).collect();
        let mean = sample.iter().sum::<f64>() / sample.len() as f64;
        let variance = sample.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 23.0;
        // The report rounds kilobytes to hundredths.
        let slack = 4.0 * variance.sqrt() + 1e-4 * mean + 0.5;
        assert!(
            (value - mean).abs() <= slack,
            "{name}: real {value}, ours {mean} +- {slack}"
        );
        assert!(
            slack <= 0.4 * mean + 0.5,
            "{name}: {slack} of {mean} would accept anything"
        );
    }
}

#[test]
fn the_report_counts_the_same() {
    if missing(&[POSTMARK]) {
        return;
    }
    for spec in [
        "postmark",
        // The configurations of Traeger 2007, Table IV; their numbers of files and transactions
        // in proportion.
        "postmark:config=fsl,files=1000,subdirs=10,transactions=10000",
        "postmark:config=cvfs,files=1000,subdirs=10,transactions=4000",
        "postmark:config=cvfs-large,files=200,subdirs=2,transactions=800",
        "postmark:files=400,transactions=4000,size=512-16384,subdirs=10",
        "postmark:files=300,transactions=3000,bias-read=8,bias-create=6,buffering=false",
        // The table overflows: creates are dropped once 80 files exist.
        "postmark:files=40,transactions=2000,bias-create=9,size=100-300",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let config = config(spec);
        let real = report(&real(dir.path(), &config, &[]));
        within_random_differences(&real, &config, |c| drain(c).1);
    }
}

#[test]
fn the_system_calls_are_the_same() {
    if missing(&[POSTMARK, STRACE]) {
        return;
    }
    for spec in [
        "postmark:files=100,transactions=800,size=512-16384,subdirs=5",
        "postmark:files=60,transactions=600,size=512-9000,buffering=false,read=1024",
        "postmark:files=60,transactions=600,size=512-40000,write=10000,read=9000",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let config = config(spec);
        let trace = dir.path().join("calls");
        real(
            dir.path(),
            &config,
            &[STRACE, "-y", "-o", trace.to_str().unwrap()],
        );
        let work = dir.path().join("work").display().to_string() + "/";
        let calls = fs::read_to_string(&trace).unwrap();
        let mut counts: Counts = [
            "open", "fstat", "read", "write", "close", "unlink", "seek", "mkdir", "rmdir",
        ]
        .map(|name| (name, 0.0))
        .into();
        for line in calls.lines().filter(|l| l.contains(&work)) {
            let name = match line.split('(').next().unwrap() {
                "openat" | "open" => "open",
                "newfstatat" | "fstat" => "fstat",
                "lseek" => "seek",
                name => name,
            };
            *counts
                .get_mut(name)
                .unwrap_or_else(|| panic!("unexpected call: {line}")) += 1.0;
        }
        within_random_differences(&counts, &config, |c| {
            let mut ours: Counts = counts.keys().map(|&name| (name, 0.0)).collect();
            for op in drain(c).0 {
                *ours.get_mut(op.kind.name()).unwrap() += 1.0;
            }
            ours
        });
    }
}
