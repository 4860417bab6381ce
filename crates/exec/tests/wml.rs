//! Scripts of filebench on a real directory, with threads.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use fsage_core::OpKind;
use fsage_exec::{Options, RunResult, run as run_streams};
use fsage_host::{Confinement, HostFs, HostOptions};
use fsage_workload::{Inputs, Length, Program, Role, Text, WorkloadSpec};

const SMALL: [&str; 7] = [
    "varmail:nfiles=60,nthreads=4,iterations=20",
    "webserver:nfiles=60,nthreads=4,iterations=20",
    "webproxy:nfiles=60,nthreads=4,iterations=20",
    "fileserver:nfiles=60,nthreads=4,filesize=20k,iterations=20",
    "oltp:nfiles=4,filesize=64k,logfilesize=512k,nshadows=6,ndbwriters=2,logposts=20,dbposts=10,\
     usermode=1000,iterations=40",
    "videoserver:filesize=300k,numactivevids=3,numpassivevids=6,nthreads=3,repintval=0,\
     eventrate=400,iterations=30",
    "mongo:nfiles=40,nthreads=2,iterations=15",
];

fn on_disk(program: Program, run: Options<'_>) -> Vec<(Role, RunResult)> {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let options = HostOptions {
        confinement: Confinement::Trusted,
        ..HostOptions::default()
    };
    let fs = HostFs::open(dir.path(), options).unwrap();
    let phases = program.phases.into_iter().map(|phase| {
        let is_run = phase.role == Role::Run;
        let options = if is_run { run } else { Options::default() };
        let result = run_streams(&fs, phase.streams, &options).unwrap();
        assert_eq!(result.unexpected, 0, "{:?}", result.mismatches);
        assert!(!result.interrupted);
        (phase.role, result)
    });
    let phases = phases.collect();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    phases
}

fn endless(spec: &str) -> Program {
    let inputs = Inputs {
        length: Length::Endless,
        ..Inputs::default()
    };
    spec.parse::<WorkloadSpec>()
        .unwrap()
        .program(&inputs)
        .unwrap()
}

fn counts(result: &RunResult) -> BTreeMap<OpKind, u64> {
    result
        .kinds
        .iter()
        .map(|(kind, k)| (*kind, k.count))
        .collect()
}

#[test]
fn personalities_run_to_their_count() {
    for spec in SMALL {
        let spec: WorkloadSpec = spec.parse().unwrap();
        let phases = on_disk(
            spec.program(&Inputs::default()).unwrap(),
            Options::default(),
        );
        assert!(
            phases.iter().all(|(_, result)| result.operations > 0),
            "{spec}"
        );
    }
}

#[test]
fn counts_of_a_counted_run_do_not_depend_on_chance() {
    let spec: WorkloadSpec = SMALL[0].parse().unwrap();
    for _ in 0..3 {
        let phases = on_disk(
            spec.program(&Inputs::default()).unwrap(),
            Options::default(),
        );
        let counts = counts(&phases[1].1);
        for (kind, each) in [
            (OpKind::Unlink, 1),
            (OpKind::Open, 3),
            (OpKind::Close, 3),
            (OpKind::Fsync, 2),
            (OpKind::Write, 2),
        ] {
            assert_eq!(counts.get(&kind), Some(&(each * 4 * 20)), "{kind:?}");
        }
    }
}

#[test]
fn personalities_run_for_a_time() {
    for spec in SMALL {
        let for_a_time = Options {
            run_for_ns: Some(150_000_000),
            ..Options::default()
        };
        let phases = on_disk(endless(spec), for_a_time);
        assert!(phases[1].1.operations > 0, "{spec}");
        // Mongo runs out of files before.
        if !spec.starts_with("mongo") {
            assert!(phases[1].1.elapsed_ns >= 150_000_000, "{spec}");
        }
    }
}

/// Streams end with their counts, at whatever point of the script that is; those that wait for them end
/// too, at once.
#[test]
fn personalities_run_to_a_number_of_operations() {
    for spec in SMALL {
        for most in [1, 4, 37, 400] {
            let counted = Options {
                most_operations: Some(most),
                ..Options::default()
            };
            let phases = on_disk(endless(spec), counted);
            let run = &phases[1].1;
            assert!(run.operations > 0, "{spec}");
            // Far from the ten seconds after which streams that wait are given up.
            assert!(
                run.elapsed_ns < 5_000_000_000,
                "{spec} took {}",
                run.elapsed_ns
            );
        }
    }
}

/// More threads than there are files of a kind at times: each takes one that no other is busy with.
#[test]
fn threads_share_few_files() {
    for (seed, most) in (0..12).zip([11, 30, 64, 100].into_iter().cycle()) {
        let spec = format!("varmail:nfiles={},nthreads=16,seed={seed}", 25 + 7 * seed);
        let counted = Options {
            most_operations: Some(most),
            ..Options::default()
        };
        let phases = on_disk(endless(&spec), counted);
        assert!(phases[1].1.operations >= 16, "{spec}");
    }
}

/// A hog uses the processor, a delay does not.
#[test]
fn a_hog_burns_processor_time() {
    let used = |flowop: &str| {
        let text = format!(
            "define process name=p {{ thread name=t {{\n{flowop}\n\
             flowop finishoncount name=f,value=1 }} }}"
        );
        on_disk(script(&text, "iterations=1"), Options::default())[1]
            .1
            .cpu_ns
    };
    let (hog, delay) = (
        used("flowop hog name=h,value=200000000"),
        used("flowop delay name=h,value=0.2"),
    );
    assert!(
        hog > 20_000_000 && hog > 4 * delay,
        "{hog} ns against {delay} ns"
    );
}

/// 50 events a second: 30 reads of three threads take at least six tenths of a second.
#[test]
fn a_rate_holds_in_real_time() {
    let text = "eventgen rate=50\n\
        define fileset name=set,entries=4,size=4k,prealloc\n\
        define process name=p { thread name=t,instances=3 {\n\
        flowop read name=r,filesetname=set,iosize=1k,random\n\
        flowop eventlimit } }";
    let phases = on_disk(script(text, "iterations=10"), Options::default());
    assert_eq!(counts(&phases[1].1).get(&OpKind::Read), Some(&30));
    assert!(
        phases[1].1.elapsed_ns >= 550_000_000,
        "{}",
        phases[1].1.elapsed_ns
    );
}

fn script(content: &str, parameters: &str) -> Program {
    let spec: WorkloadSpec = format!("wml:some.f,{parameters}").parse().unwrap();
    let inputs = Inputs {
        text: Some(Text {
            name: "some.f".to_owned(),
            content: content.to_owned(),
        }),
        ..Inputs::default()
    };
    spec.program(&inputs).unwrap()
}

#[test]
fn the_dissertations_scripts_run() {
    for (text, parameters) in [
        (
            include_str!("../../workload/tests/data/webproxy-1.4.f"),
            "nfiles=100,iterations=10",
        ),
        (
            include_str!("../../workload/tests/data/webserver-1.4.f"),
            "nfiles=50,iterations=10",
        ),
        (
            include_str!("../../workload/tests/data/fileserver-1.4.f"),
            "meanfilesize=4k,iterations=10",
        ),
    ] {
        let phases = on_disk(script(text, parameters), Options::default());
        // The setup writes files, the run opens them.
        assert!(counts(&phases[1].1)[&OpKind::Open] >= 5 * 10);
    }
}

#[test]
fn a_deadlock_ends_with_the_names_of_its_threads() {
    let text = "define process name=p {\n\
        thread name=a {\n flowop semblock name=first,value=1\n flowop sempost target=second,value=1\n }\n\
        thread name=b {\n flowop semblock name=second,value=1\n flowop sempost target=first,value=1\n }\n}";
    let run_phase = script(text, "iterations=1").phases.remove(1);
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let fs = HostFs::open(dir.path(), HostOptions::default()).unwrap();
    let error = run_streams(&fs, run_phase.streams, &Options::default()).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(
        source.contains("all threads wait for each other"),
        "{source}"
    );
    assert!(source.contains("'p-1 a-1' waits in line 3"), "{source}");
}
