#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use fsage_core::{Op, OpKind, OpSource, PathTable, Wait};
use proptest::prelude::*;

use super::*;
use crate::program::{InputPath, Text};
use crate::{WORKLOADS, WorkloadSpec};

fn options(variables: &[(&str, &str)], iterations: u64) -> Options {
    Options {
        variables: variables
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect(),
        iterations,
        length: Length::Count,
        seed: Seed(42),
    }
}

/// A file system in miniature: each operation must do what its stream expects of it.
#[derive(Default)]
struct Names {
    files: BTreeSet<Vec<u8>>,
    directories: BTreeSet<Vec<u8>>,
    open: BTreeSet<(u32, i32)>,
    kinds: BTreeMap<OpKind, u64>,
}

impl Names {
    fn apply(&mut self, op: &Op, paths: &PathTable) {
        *self.kinds.entry(op.kind).or_default() += 1;
        let path = op.path.map(|p| paths.get(p).to_vec()).unwrap_or_default();
        let shown = String::from_utf8_lossy(&path).into_owned();
        let fd = op.fd.map(|fd| (op.pid.0, fd.0));
        let parent = || {
            path.iter()
                .rposition(|b| *b == b'/')
                .map(|at| path[..at].to_vec())
        };
        assert!(op.result.is_ok());
        match op.kind {
            OpKind::Mkdir => {
                assert!(
                    parent().is_none_or(|p| self.directories.contains(&p)),
                    "{shown}"
                );
                assert!(self.directories.insert(path), "{shown} is made twice");
            }
            OpKind::Rmdir => {
                let within = [path.as_slice(), b"/"].concat();
                let inside =
                    |names: &BTreeSet<Vec<u8>>| names.iter().any(|n| n.starts_with(&within));
                assert!(
                    !inside(&self.files) && !inside(&self.directories),
                    "{shown}"
                );
                assert!(self.directories.remove(&path), "{shown}");
            }
            OpKind::Open if op.flags & 0o200_000 != 0 => {
                assert!(self.directories.contains(&path), "{shown}");
                assert!(
                    self.open
                        .insert((op.pid.0, op.result.value().unwrap() as i32))
                );
            }
            OpKind::Open => {
                if op.flags & 0o100 == 0 {
                    assert!(self.files.contains(&path), "{shown} is not there");
                } else {
                    assert!(self.directories.contains(&parent().unwrap()), "{shown}");
                    assert!(self.files.insert(path), "{shown} is there already");
                }
                assert!(
                    self.open
                        .insert((op.pid.0, op.result.value().unwrap() as i32))
                );
            }
            OpKind::Close => assert!(self.open.remove(&fd.unwrap())),
            OpKind::Unlink => assert!(self.files.remove(&path), "{shown}"),
            OpKind::Stat => assert!(self.files.contains(&path), "{shown}"),
            _ => assert!(self.open.contains(&fd.unwrap()), "{:?}", op.kind),
        }
    }

    fn count(&self, kind: OpKind) -> u64 {
        self.kinds.get(&kind).copied().unwrap_or(0)
    }
}

struct Outcome {
    names: Names,
    ops: Vec<Op>,
    /// Virtual time that each stream took, nanoseconds.
    times: Vec<u64>,
    error: Option<String>,
}

/// Runs a program in virtual time, in which operations take none; each stream gets a turn by its
/// clock.
fn simulate(program: Program) -> Outcome {
    let mut out = Outcome {
        names: Names::default(),
        ops: Vec::new(),
        times: Vec::new(),
        error: None,
    };
    for phase in program.phases {
        if out.error.is_some() {
            break;
        }
        if phase.role == Role::Teardown {
            // What is told is the end of the run.
            let counted = std::mem::take(&mut out.names.kinds);
            let left = out.names.files.clone();
            for mut stream in phase.streams {
                let mut batch = Vec::new();
                while stream.next_batch(&mut batch).unwrap() > 0 {}
                for op in &batch {
                    out.names.apply(op, stream.paths());
                }
            }
            assert!(out.names.files.is_empty(), "{:?}", out.names.files);
            assert!(out.names.directories.is_empty());
            (out.names.kinds, out.names.files) = (counted, left);
            break;
        }
        out.names.kinds.clear();
        out.ops.clear();
        out.times = vec![0; phase.streams.len()];
        let mut streams: Vec<Option<Stream>> = phase.streams.into_iter().map(Some).collect();
        let mut idle = 0;
        while streams.iter().any(Option::is_some) {
            let live = (0..streams.len()).filter(|&i| streams[i].is_some());
            let at = live.min_by_key(|&i| out.times[i]).unwrap();
            let stream = streams[at].as_mut().unwrap();
            stream.time(out.times[at]);
            match stream.wait() {
                Wait::Pause(ns) | Wait::Compute(ns) => out.times[at] += ns,
                Wait::Blocked => {
                    out.times[at] += 100_000;
                    idle += 1;
                    assert!(idle < 100_000, "nothing goes on");
                }
                Wait::Ready => {
                    idle = 0;
                    let mut batch = Vec::new();
                    match stream.next_batch(&mut batch) {
                        Ok(0) => streams[at] = None,
                        Ok(_) => {
                            for op in &batch {
                                out.names.apply(op, stream.paths());
                            }
                            out.ops.append(&mut batch);
                        }
                        Err(error) => {
                            out.error = out.error.or(Some(error.to_string()));
                            streams[at] = None;
                        }
                    }
                }
            }
        }
        out.names.open.clear();
    }
    out
}

fn run(text: &str, variables: &[(&str, &str)], iterations: u64) -> Outcome {
    let outcome = simulate(program("some.f", text, &options(variables, iterations)).unwrap());
    assert_eq!(outcome.error, None);
    outcome
}

/// Around flowops: a fileset 'set' of ten files of 16 KiB, five of which exist, and leaf directories.
fn script(threads: u64, flowops: &str) -> String {
    format!(
        "define fileset name=set,entries=10,dirwidth=5,size=16k,prealloc=50,leafdirs=4\n\
         define process name=p {{ thread name=t,instances={threads} {{\n{flowops}\n}} }}"
    )
}

#[test]
fn rows_and_scripts_agree() {
    for name in personalities::names() {
        let workload = WORKLOADS.iter().find(|w| w.name == name).unwrap();
        let text = personalities::find(name).unwrap();
        let outline = outline(name, text, &options(&[], 1)).unwrap();
        let mut set: Vec<(String, String)> = outline
            .variables
            .into_iter()
            .map(|(name, value)| (name, value.unwrap()))
            .filter(|(name, _)| name != "dir")
            .collect();
        let mut rows: Vec<(String, String)> = workload
            .parameters
            .iter()
            .filter(|p| !["iterations", "seed"].contains(&p.name))
            .map(|p| (p.name.to_owned(), p.default.to_string()))
            .collect();
        set.sort();
        rows.sort();
        assert_eq!(set, rows, "{name}");
    }
}

const SMALL: &[(&str, &str)] = &[
    ("varmail", "nfiles=60,nthreads=4"),
    ("webserver", "nfiles=60,nthreads=4"),
    ("webproxy", "nfiles=60,nthreads=4"),
    ("fileserver", "nfiles=60,nthreads=4,filesize=20k"),
    (
        "oltp",
        "nfiles=4,filesize=64k,logfilesize=512k,nshadows=6,ndbwriters=2,logposts=20,dbposts=10",
    ),
    (
        "videoserver",
        "filesize=300k,numactivevids=3,numpassivevids=6,nthreads=4",
    ),
    ("mongo", "nfiles=30,nthreads=2"),
];

#[test]
fn every_personality_runs_to_its_count_twice_alike() {
    for (name, parameters) in SMALL {
        let spec: WorkloadSpec = format!("{name}:{parameters},iterations=20")
            .parse()
            .unwrap();
        assert_eq!(spec.to_string().parse::<WorkloadSpec>().unwrap(), spec);
        let again = format!("wml:{name},{parameters},iterations=20");
        let again: WorkloadSpec = again.parse().unwrap();
        assert_eq!(again.to_string().parse::<WorkloadSpec>().unwrap(), again);
        let run = |spec: &WorkloadSpec| simulate(spec.program(&Inputs::default()).unwrap());
        let (one, two) = (run(&spec), run(&again));
        assert_eq!((one.error, two.error), (None, None), "{name}");
        assert!(!one.ops.is_empty(), "{name}");
        assert_eq!(one.ops, two.ops, "{name}");
        let other = run(&spec.clone().with_seed(Seed(7)));
        assert!(other.ops != one.ops, "{name}: another seed, another run");
    }
}

#[test]
fn varmail_does_what_its_loop_says() {
    let text = personalities::find("varmail").unwrap();
    for threads in ["1", "5"] {
        let variables = [("nthreads", threads), ("nfiles", "100")];
        let names = run(text, &variables, 30).names;
        let rounds = 30 * threads.parse::<u64>().unwrap();
        for (kind, each) in [
            (OpKind::Unlink, 1),
            (OpKind::Open, 3),
            (OpKind::Close, 3),
            (OpKind::Fsync, 2),
            (OpKind::Write, 2),
        ] {
            assert_eq!(names.count(kind), each * rounds, "{kind:?}");
        }
        // Each delete is followed by a create.
        assert_eq!(names.files.len(), 80);
    }
}

#[test]
fn the_dissertations_scripts_run() {
    for (text, small, threads, files) in [
        (
            include_str!("../../tests/data/webproxy-1.4.f"),
            ("nfiles", "100"),
            5,
            80,
        ),
        (
            include_str!("../../tests/data/webserver-1.4.f"),
            ("nfiles", "50"),
            5,
            51,
        ),
        (
            include_str!("../../tests/data/fileserver-1.4.f"),
            ("meanfilesize", "4k"),
            5,
            800,
        ),
    ] {
        let outcome = run(text, &[small], 10);
        assert_eq!(outcome.times.len(), threads);
        assert_eq!(outcome.names.files.len(), files);
    }
    let text = include_str!("../../tests/data/fileserver-1.4.f");
    let outline = outline("h.f", text, &options(&[], 1)).unwrap();
    assert_eq!(outline.run_seconds, Some(300.0));
    assert!(
        outline
            .variables
            .contains(&("nfiles".to_owned(), Some("1000".to_owned())))
    );
}

/// As printed, two of the listings name what is not there.
#[test]
fn misprints_are_named_with_their_line() {
    let fail = |text: String| program("g.f", &text, &options(&[], 1)).unwrap_err();
    let text = include_str!("../../tests/data/webserver-1.4.f");
    let error = fail(text.replace(
        "open2,filesetname=bigfileset",
        "open2,filesetname=bigfilesset",
    ));
    assert!(
        error.starts_with("g.f: line 23: no fileset or file 'bigfilesset'"),
        "{error}"
    );
    let text = include_str!("../../tests/data/fileserver-1.4.f");
    let error = fail(text.replace("flowop deletefile", "flowop deletetfile"));
    assert!(
        error.starts_with("g.f: line 27: unknown flowop 'deletetfile'"),
        "{error}"
    );
}

#[test]
fn errors_have_file_line_and_name() {
    let whole = |flowops: &str| script(1, flowops);
    for (text, said) in [
        (String::new(), "some.f: line 1: no process"),
        ("frob".to_owned(), "some.f: line 1: unknown command 'frob'"),
        ("load nothing".to_owned(), "line 1: no personality 'nothing'"),
        ("load oltp\nload oltp\n".to_owned(), "oltp.f: line 21: there is a fileset 'data'"),
        (whole("flowop read filesetname=nope"), "line 3: no fileset or file 'nope'"),
        (whole("\nflowop lockfile name=a"), "line 4: unknown flowop 'lockfile'"),
        (whole("flowop openfile fd=1"), "line 3: 'openfile' without a filesetname"),
        (whole("flowop openfile filesetname=set,fd=500"), "line 3: 500 for 'fd'"),
        (whole("flowop read filesetname=set,iosize=$n"), "line 3: variable '$n' was never set"),
        (whole("flowop sempost target=x,value=1"), "line 3: no flowop 'x' waits"),
        (whole("flowop finishoncount target=x,value=1"), "line 3: no flowop 'x' in this thread"),
        (whole("flowop delay $a=1"), "line 3: '$a' is given to 'delay'"),
        ("define fileset name=a,path=/x/../y,entries=1".to_owned(), "leads out of the target"),
        ("define fileset name=a,entries=99999999999".to_owned(), "for 'entries', expected"),
        ("define fileset name=a".to_owned(), "neither entries nor leafdirs"),
        ("define fileset name=a,entries=1,prealloc=101".to_owned(), "101 for 'prealloc'"),
        ("set $a=cvar(type=cvar-poisson)".to_owned(), "unknown type 'cvar-poisson'"),
        ("set $a=cvar(type=cvar-gamma,parameters=mien:3)".to_owned(), "no parameter 'mien'"),
        ("set $a=1 / 0".to_owned(), "division by 0"),
        ("define randvar name=$a,type=tabular,randtable={{60,1,2},{30,1,2}}".to_owned(), "add up to 90"),
        (
            "define flowop name=f { flowop f }\ndefine process name=p { thread name=t { flowop f } }".to_owned(),
            "line 1: flowop 'f' contains itself",
        ),
        ("define process name=p,instances=9999 { thread name=t { flowop hog } }".to_owned(), "9999 for 'instances'"),
    ] {
        let error = program("some.f", &text, &options(&[], 1)).unwrap_err();
        assert!(error.contains(said), "{text:?}: {error}");
        assert!(error.contains(".f: line "), "{text:?}: {error}");
    }
    let given = [("nfiles", "3"), ("x", "1")];
    let error = program("some.f", "set $nfiles=2", &options(&given, 1)).unwrap_err();
    assert!(
        error.contains("no variable 'x' is set here, expected nfiles"),
        "{error}"
    );
    let error = program("some.f", "set $nfiles=2", &options(&[("nfiles", "{")], 1)).unwrap_err();
    assert!(error.contains("variable 'nfiles' is given '{'"), "{error}");
    let spec: WorkloadSpec = "wml:mine.f,a=b".parse().unwrap();
    assert_eq!(spec.needs(), [InputPath::Text("mine.f".into())]);
    let text = Text {
        name: "mine.f".to_owned(),
        content: "\nset $a=".to_owned(),
    };
    let inputs = Inputs {
        text: Some(text),
        ..Inputs::default()
    };
    let error = spec.program(&inputs).unwrap_err().to_string();
    assert!(
        error.starts_with("build workload 'wml': mine.f: line 2: "),
        "{error}"
    );
}

#[test]
fn what_goes_wrong_while_it_runs_is_named_too() {
    for (flowops, said) in [
        (
            "flowop closefile name=c,fd=1",
            "some.f: line 3: flowop 'c' of thread 'p-1 t-1': descriptor 1 is not open",
        ),
        (
            "flowop openfile filesetname=set\nflowop openfile name=again,filesetname=set",
            "line 4: flowop 'again'",
        ),
        (
            "flowop read filesetname=set,random,iosize=1m",
            "larger than the file of 16384 bytes",
        ),
        (
            "flowop createfile name=c,filesetname=set,fd=1\nflowop closefile fd=1",
            "line 3: flowop 'c' of thread 'p-1 t-1': no file",
        ),
        (
            "flowop read name=r,iosize=4k",
            "flowop 'r' of thread 'p-1 t-1': neither",
        ),
        ("flowop read name=r,filesetname=set", "its iosize is 0"),
    ] {
        let made = program("some.f", &script(1, flowops), &options(&[], 20)).unwrap();
        let error = simulate(made).error.unwrap();
        assert!(error.contains(said), "{flowops}: {error}");
    }
}

#[test]
fn threads_that_wait_for_each_other_are_a_deadlock() {
    let text = "define process name=p {\n\
        thread name=a {\n flowop semblock name=first,value=1\n flowop sempost target=second,value=1\n }\n\
        thread name=b {\n flowop semblock name=second,value=1\n flowop sempost target=first,value=1\n }\n}";
    let error = simulate(program("some.f", text, &options(&[], 1)).unwrap())
        .error
        .unwrap();
    assert!(error.contains("all threads wait for each other"), "{error}");
    assert!(
        error.contains("'p-1 a-1' waits in line 3 for 1 posts to 'first'"),
        "{error}"
    );
    assert!(
        error.contains("'p-1 b-1' waits in line 7 for 1 posts to 'second'"),
        "{error}"
    );
    // Whoever asks for operations without asking how long to wait is told, and does not hang.
    let mut alone = program("some.f", text, &options(&[], 1))
        .unwrap()
        .phases
        .remove(1);
    let error = alone.streams[0].next_batch(&mut Vec::new()).unwrap_err();
    assert!(
        error.to_string().contains("waits for another thread"),
        "{error}"
    );
}

#[test]
fn semaphores_block_and_wakeups_wake() {
    let text = "define fileset name=set,entries=1,size=1k,prealloc\n\
        define process name=p {\n\
        thread name=server {\n\
          flowop semblock name=work,value=3,highwater=2\n\
          flowop read name=r,filesetname=set,iosize=512,random\n\
          flowop wakeup target=done }\n\
        thread name=client {\n\
          flowop delay value=1\n\
          flowop sempost target=work,value=1,blocking\n\
        }\n\
        thread name=idle { flowop block name=done\n flowop statfile filesetname=set }\n}";
    let outcome = run(text, &[], 9);
    // Nine posts are three services; the other threads end with the client.
    assert_eq!(outcome.names.count(OpKind::Read), 3);
    assert!(outcome.names.count(OpKind::Stat) >= 2);
    assert!(outcome.times[1] >= 9_000_000_000 && outcome.times[1] < 9_100_000_000);
}

/// A run that ends by time drops streams whose next operations were asked for and not done.
#[test]
fn what_was_not_handed_out_did_not_happen() {
    let text = "define fileset name=set,entries=1\n\
        define process name=p {\n\
        thread name=maker { flowop createfile filesetname=set,fd=1 }\n\
        thread name=user { flowop openfile name=o,filesetname=set,fd=1 }\n}";
    let mut made = program("some.f", text, &options(&[], 1))
        .unwrap()
        .phases
        .remove(1);
    let mut user = made.streams.pop().unwrap();
    let mut maker = made.streams.pop().unwrap();
    assert_eq!(maker.wait(), Wait::Ready);
    drop(maker);
    // Nothing was made, and nobody is left to make it.
    assert_eq!(user.next_batch(&mut Vec::new()).unwrap(), 0);
}

/// Every stream ends with its count, whoever waits for it too, in virtual time as well.
#[test]
fn a_number_of_operations_ends_every_personality() {
    for name in personalities::names() {
        for most in [1, 5, 60, 700] {
            let text = match name {
                "oltp" => "oltp:nfiles=4,filesize=64k,nshadows=6,ndbwriters=2,usermode=1000",
                "videoserver" => "videoserver:filesize=300k,repintval=0",
                "fileserver" => "fileserver:nfiles=300",
                other => other,
            };
            let spec: WorkloadSpec = text.parse().unwrap();
            let endless = Inputs {
                length: Length::Endless,
                ..Inputs::default()
            };
            let program = spec.program(&endless).unwrap();
            let streams = program.phases[1].streams.len() as u64;
            let mut merged = crate::Merged::new(program, "/d", Some(most));
            let mut names = Names::default();
            let mut batch = Vec::new();
            let mut roles = BTreeMap::<Role, u64>::new();
            loop {
                batch.clear();
                if merged.next_batch(&mut batch).unwrap() == 0 {
                    break;
                }
                *roles.entry(merged.role()).or_default() += batch.len() as u64;
                for op in &batch {
                    names.apply(op, merged.paths());
                }
            }
            assert!(
                names.files.is_empty() && names.directories.is_empty(),
                "{name}"
            );
            let ran = roles.get(&Role::Run).copied().unwrap_or(0);
            // Mongo's files are used up, a stream of oltp waits for hundreds of others.
            let least = match name {
                "mongo" | "oltp" => streams.min(most),
                _ => streams * most,
            };
            assert!(ran >= least, "{name} to {most} operations: {ran}");
        }
    }
}

/// A script's own time holds where it is asked for, and nowhere else.
#[test]
fn the_time_of_a_script_is_declared() {
    let build = |length, iterations, text: &str| {
        let text = format!(
            "{}\n{text}",
            script(1, "flowop statfile name=s,filesetname=set")
        );
        let options = Options {
            length,
            ..options(&[], iterations)
        };
        let made = program("some.f", &text, &options).unwrap();
        let time = made.run_for_ns;
        let mut run = made.phases.into_iter().nth(1).unwrap();
        let mut operations = 0;
        while operations < 1000 && run.streams[0].next_batch(&mut Vec::new()).unwrap() > 0 {
            operations += 1;
        }
        (time, operations)
    };
    let (count, declared, endless) = (Length::Count, Length::Declared, Length::Endless);
    assert_eq!(build(declared, 0, "run 2"), (Some(2_000_000_000), 1000));
    assert_eq!(
        build(declared, 0, "psrun -5 30"),
        (Some(30_000_000_000), 1000)
    );
    assert_eq!(build(declared, 0, ""), (None, 100));
    assert_eq!(build(declared, 7, "run 2"), (None, 7));
    assert_eq!(build(count, 0, "run 2"), (None, 100));
    assert_eq!(build(endless, 7, "run 2"), (None, 1000));
}

#[test]
fn a_hog_computes() {
    let text = script(
        1,
        "flowop hog name=h,value=5000\nflowop statfile name=s,filesetname=set",
    );
    let mut made = program("some.f", &text, &options(&[], 2)).unwrap();
    let mut run = made.phases.remove(1);
    let mut seen = Vec::new();
    for _ in 0..4 {
        let wait = run.streams[0].wait();
        if wait == Wait::Ready {
            run.streams[0].next_batch(&mut Vec::new()).unwrap();
        }
        seen.push(wait);
    }
    let (hog, ready) = (Wait::Compute(5000), Wait::Ready);
    assert_eq!(seen, [hog, ready, hog, ready]);
}

/// A teardown whose run was in another process does not know what that left.
#[test]
fn a_teardown_alone_removes_nothing() {
    let text = script(1, "flowop statfile name=s,filesetname=set");
    let made = program("some.f", &text, &options(&[], 2)).unwrap();
    let mut alone = made.only(Role::Teardown).phases;
    let stream = &mut alone[0].streams[0];
    assert_eq!(stream.next_batch(&mut Vec::new()).unwrap(), 0);
}

#[test]
fn rates_are_held() {
    let text = |limit: &str| {
        format!(
            "eventgen rate=100\n{}",
            script(
                3,
                &format!("flowop read name=r,filesetname=set,iosize=1k\nflowop {limit}")
            )
        )
    };
    // Three threads share a hundred events a second.
    let outcome = run(&text("eventlimit"), &[], 50);
    assert_eq!(outcome.times.iter().max(), Some(&1_500_000_000));
    let outcome = run(&text("iopslimit name=l,target=r"), &[], 51);
    let longest = *outcome.times.iter().max().unwrap();
    assert!(
        (1_490_000_000..=1_510_000_000).contains(&longest),
        "{longest}"
    );
    // A MiB for each event: 150 KiB are less than one.
    let outcome = run(&text("bwlimit name=l"), &[], 50);
    assert!(*outcome.times.iter().max().unwrap() <= 40_000_000);
}

#[test]
fn runs_end_by_count_by_bytes_and_for_lack_of_files() {
    let forever = Options {
        length: Length::Endless,
        ..options(&[], 1)
    };
    let run = |text: String| {
        let outcome = simulate(program("some.f", &text, &forever).unwrap());
        assert_eq!(outcome.error, None);
        outcome
    };
    let read = "flowop read name=r,filesetname=set,iosize=1k,random\n";
    let outcome = run(script(2, &format!("{read}flowop finishoncount value=40")));
    assert_eq!(outcome.names.count(OpKind::Read), 40);
    let outcome = run(script(
        1,
        &format!("{read}flowop finishoncount value=25,target=r"),
    ));
    assert_eq!(outcome.names.count(OpKind::Read), 25);
    let outcome = run(script(1, &format!("{read}flowop finishonbytes value=10k")));
    assert_eq!(outcome.names.count(OpKind::Read), 11);
    let delete = script(2, "flowop deletefile filesetname=set\nflowop delay value=1");
    for mode in ["firstdone", "alldone"] {
        let outcome = run(format!("set mode quit {mode}\n{delete}"));
        assert_eq!(outcome.names.count(OpKind::Unlink), 5, "{mode}");
    }
}

#[test]
fn directories_lists_and_composites() {
    let text = script(
        2,
        "flowop makedir filesetname=set\nflowop listdir filesetname=set\nflowop removedir filesetname=set\n\
         flowop twice name=w,iters=3,$which=set,$size=2k",
    );
    let composite = "define flowop name=twice, $which, $size, $fd=3 {\n\
        flowop openfile name=o,filesetname=$which,fd=$fd\n\
        flowop appendfile name=a,iosize=$size,fd=$fd,iters=2\n\
        flowop fsyncset filesetname=$which\n\
        flowop closefile fd=$fd }\n";
    let outcome = run(&format!("{composite}{text}"), &[], 5);
    let count = |kind| outcome.names.count(kind);
    assert_eq!((count(OpKind::Mkdir), count(OpKind::Rmdir)), (10, 10));
    assert_eq!((count(OpKind::Write), count(OpKind::Fsync)), (60, 30));
    assert_eq!(count(OpKind::Open), 10 + 30);
    let lists = outcome.ops.iter().filter(|o| o.kind == OpKind::Readdir);
    assert_eq!(lists.filter(|o| o.result.value() == Some(0)).count(), 10);
    let sizes = outcome.ops.iter().filter(|o| o.kind == OpKind::Write);
    assert!(sizes.clone().all(|o| o.length == Some(2048)));
}

#[test]
fn trees_have_their_size_and_shape() {
    let set = |more: &str| {
        let text = format!(
            "define fileset name=set,path=/a,entries=2000,dirwidth=20,prealloc=80,size=10k{more}\n\
             define fileset name=other,path=/a/b,entries=1\n\
             define process name=p {{ thread name=t {{ flowop statfile filesetname=set }} }}"
        );
        let mut program = program("some.f", &text, &options(&[], 1)).unwrap();
        program.phases.truncate(1);
        simulate(program)
    };
    let outcome = set("");
    let names = &outcome.names;
    assert_eq!(names.files.len(), 1600);
    assert_eq!(names.count(OpKind::Write), 1600);
    assert!(names.directories.contains(&b"set"[..]) && names.directories.contains(&b"b/other"[..]));
    let width = 2000.0 / names.directories.len() as f64;
    assert!((8.0..25.0).contains(&width), "{width}");
    let gamma = set(",sizegamma=1500");
    let sizes: Vec<u64> = gamma
        .ops
        .iter()
        .filter(|o| o.kind == OpKind::Write)
        .map(|o| o.length.unwrap())
        .collect();
    let mean = sizes.iter().sum::<u64>() / 1600;
    assert!((9_300..11_200).contains(&mean), "{mean}");
}

proptest! {
    /// Scripts whose lines were mixed up: an error with its place, or a run without a hang.
    #[test]
    fn mixed_up_scripts_end(
        which in 0_usize..7,
        moves in proptest::collection::vec((0_usize..60, 0_usize..60, any::<bool>()), 0..6),
    ) {
        let (name, parameters) = SMALL[which];
        let mut lines: Vec<&str> = personalities::find(name).unwrap().lines().collect();
        for (from, to, keep) in moves {
            let line = lines[from % lines.len()];
            if !keep {
                lines.remove(from % lines.len());
            }
            lines.insert(to % (lines.len() + 1), line);
        }
        let text = lines.join("\n");
        let mut options = options(&[], 3);
        options.variables = parameters
            .split(',')
            .filter_map(|p| p.split_once('='))
            .filter(|(name, _)| text.contains(&format!("set ${name}=")))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        match program("some.f", &text, &options) {
            Ok(mut program) => {
                let mut run = program.phases.remove(1);
                for stream in &mut run.streams {
                    let mut batch = Vec::new();
                    for _ in 0..200 {
                        match stream.wait() {
                            Wait::Ready => match stream.next_batch(&mut batch) {
                                Ok(1..) => {}
                                Ok(0) | Err(_) => break,
                            },
                            Wait::Pause(_) | Wait::Compute(_) => {}
                            Wait::Blocked => break,
                        }
                    }
                }
            }
            Err(error) => prop_assert!(error.contains(".f: line "), "{error}"),
        }
    }
}

/// A script that does one thing with one file, its attributes as they are given.
fn one_file(fileset: &str, flowops: &str) -> String {
    format!(
        "define fileset name=f,{fileset}\n\
         define process name=p {{\n thread name=t {{\n {flowops}\n }}\n}}\n"
    )
}

/// Runs every stream of a script to its end, to an error, or through so many batches.
fn exhaust(text: &str, batches: usize) -> Result<u64, String> {
    let program = program("x.f", text, &options(&[], 3))?;
    let mut count = 0;
    for mut phase in program.phases {
        for stream in &mut phase.streams {
            let mut ops = Vec::new();
            for _ in 0..batches {
                ops.clear();
                match stream.next_batch(&mut ops) {
                    Ok(0) => break,
                    Ok(more) => count += more as u64,
                    Err(error) => return Err(error.to_string()),
                }
                assert!(ops.len() <= 2 << 20, "{text}: {} at once", ops.len());
            }
        }
    }
    Ok(count)
}

#[test]
fn what_only_counts_never_ends_and_is_refused() {
    for flowop in ["finishoncount", "finishonbytes"] {
        let text = one_file("entries=1", &format!("flowop {flowop} name=x,value=10"));
        let error = exhaust(&text, 10).unwrap_err();
        assert!(
            error.contains("line 4") && error.contains("'x' waits"),
            "{error}"
        );
    }
    let text = one_file("entries=1", "flowop print name=x,value=1,iters=4294967295");
    let error = exhaust(&text, 10).unwrap_err();
    assert!(
        error.contains("has no flowop that does anything"),
        "{error}"
    );
}

#[test]
fn a_large_file_is_made_piece_by_piece() {
    let text = one_file(
        "entries=1,size=1t,prealloc",
        "flowop statfile name=x,filesetname=f",
    );
    let made = exhaust(&text, 1000).unwrap();
    assert!((1000..1_000_000).contains(&made), "{made}");
    let text = one_file(
        "entries=1,size=9223372036854775807,prealloc",
        "flowop statfile name=x,filesetname=f",
    );
    let error = exhaust(&text, 1000).unwrap_err();
    assert!(error.contains("line 1: size of 'f'"), "{error}");
}

/// Every attribute that is a number at what breaks arithmetic: an answer or an error that names the
/// line.
#[test]
fn numbers_at_their_extremes_end() {
    let numbers = ["0", "1", "4294967296", "9223372036854775807", "8k", "0.5"];
    let fileset = [
        "size",
        "entries",
        "dirwidth",
        "dirgamma",
        "sizegamma",
        "leafdirs",
        "prealloc",
        "dirdepthrv",
    ];
    let flowop = [
        "iosize",
        "iters",
        "value",
        "workingset",
        "fd",
        "srcfd",
        "indexed",
        "highwater",
    ];
    let kinds = [
        "read",
        "readwholefile",
        "write",
        "writewholefile",
        "appendfile",
        "appendfilerand",
        "createfile",
        "deletefile",
        "statfile",
        "listdir",
        "makedir",
        "removedir",
        "delay",
        "hog",
        "semblock",
        "eventlimit",
        "bwlimit",
        "iopslimit",
        "opslimit",
        "finishonbytes",
        "fsyncset",
        "aiowrite",
    ];
    for number in numbers {
        let mut texts = Vec::new();
        for name in fileset {
            // Ten million entries take their time and are refused by nobody.
            let rest = if name == "entries" { "" } else { "entries=20," };
            let set = format!("{rest}{name}={number}");
            texts.push(one_file(&set, "flowop statfile name=x,filesetname=f"));
        }
        for kind in kinds {
            for name in flowop {
                let op = format!("flowop {kind} name=x,filesetname=f,{name}={number}");
                let other = "flowop statfile name=y,filesetname=f";
                texts.push(one_file(
                    "entries=20,prealloc=50,size=1m",
                    &format!("{op}\n {other}"),
                ));
            }
        }
        for text in texts {
            if let Err(error) = exhaust(&text, 50) {
                let reported = error.contains("line ") || error.contains("thread '");
                assert!(reported, "{text}: {error}");
            }
        }
    }
}
