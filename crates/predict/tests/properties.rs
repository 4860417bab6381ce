//! What holds for any stream of operations: no panic, totals that are sums, linear what-if.

use crate::common;

use common::{Notes, system};
use fsage_core::{Errno, Fd, FileId, Op, OpFlags, OpKind, Outcome, PathTable, Pid, Tid};
use fsage_predict::{Change, Options, Policy, Predictor, Start, SystemVector};
use proptest::prelude::*;

const PATHS: &[&[u8]] = &[
    b"/",
    b".",
    b"..",
    b"",
    b"a",
    b"/a",
    b"/a/b",
    b"a/../b",
    b"/a/b/c/d",
    b"../../..",
    b"//a//b/",
    b"/link",
    b"/link/x",
    b"/loop",
    b"loop/loop",
    b"\xff\n",
    b"/a/./b/..",
    b"/a/b/c",
];

fn any_op() -> impl Strategy<Value = Op> {
    let numbers = prop_oneof![
        Just(0u64),
        0u64..100_000,
        Just(u64::MAX),
        Just(u64::MAX - 4095),
        any::<u64>(),
        Just(1u64 << 40),
    ];
    let fds = prop_oneof![0i32..6, Just(-1), Just(i32::MAX), Just(1023), Just(5000)];
    (
        (
            0..OpKind::ALL.len(),
            1u32..4,
            1u32..6,
            numbers.clone(),
            prop::option::of(numbers.clone()),
        ),
        (
            prop::option::of(fds),
            prop::option::of(0..PATHS.len()),
            prop::option::of(0..PATHS.len()),
        ),
        (
            prop::option::of(0..PATHS.len()),
            prop::option::of(numbers.clone()),
            prop::option::of(numbers.clone()),
        ),
        (
            any::<u32>(),
            prop::option::of(numbers.clone()),
            any::<u16>(),
            prop::option::of(0u64..5),
        ),
        prop_oneof![
            Just(Outcome::err(Errno::ENOENT)),
            Just(Outcome::err(Errno::EEXIST)),
            Just(Outcome::ok(0)),
            (0u64..8).prop_map(Outcome::ok),
            (0u64..100_000).prop_map(Outcome::ok),
            Just(Outcome::ok(1 << 31)),
        ],
    )
        .prop_map(|(a, b, c, d, result)| {
            let path = |i: Option<usize>| i.and_then(fsage_core::PathId::from_index);
            let mut op = Op::new(OpKind::ALL[a.0], Pid(a.1), Tid(a.2), a.3);
            op.latency_ns = a.4;
            (op.fd, op.path, op.path2) = (b.0.map(Fd), path(b.1), path(b.2));
            (op.dir, op.offset, op.length) = (path(c.0), c.1, c.2);
            (op.flags, op.size_bytes, op.record) = (d.0, d.1, OpFlags(d.2 & 0x6ff));
            op.file = d.3.map(|ino| FileId {
                ino,
                ..FileId::default()
            });
            op.result = result;
            op
        })
}

fn table() -> PathTable {
    let mut paths = PathTable::new();
    for path in PATHS {
        paths.intern(path);
    }
    paths
}

fn vectors() -> Vec<SystemVector> {
    vec![
        system(
            "thesis",
            &[
                ("LUS_BC", 5.0),
                ("LUR_NC", 900.0),
                ("RDO", 10.0),
                ("RDC", 1e6),
                ("WRO", 12.0),
                ("WRC", 9e5),
                ("OPEN", 30.0),
                ("CR", 80.0),
                ("RM", 70.0),
                ("STAT", 9.0),
                ("MKDIR", 90.0),
                ("RMDIR", 60.0),
                ("RENAME", 55.0),
                ("CHMOD", 20.0),
                ("TR1", 5.0),
                ("TR64", 50.0),
                ("TRC1", 500.0),
                ("RD4", 2e5),
                ("RRD4", 1e4),
                ("RRD64", 9e4),
                ("BC", 64.0),
                ("DNLC", 3.0),
                ("MDC", 3.0),
            ],
        ),
        system(
            "small",
            &[
                ("FSY4", 100.0),
                ("WF4", 5.0),
                ("RC4", 3.0),
                ("RC64", 30.0),
                ("OPEN", 1.0),
                ("LUN_NC", 2.0),
            ],
        ),
        system("empty", &[]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_stream_is_predicted_and_totals_are_sums(
        ops in prop::collection::vec(any_op(), 0..60),
        lru in any::<bool>(),
        warm in any::<bool>(),
    ) {
        let options = Options {
            policy: if lru { Policy::Lru } else { Policy::Linux },
            start: if warm { Start::Warm } else { Start::Cold },
            ..Options::default()
        };
        let paths = table();
        let mut predictor = Predictor::new(options, vectors());
        let mut notes = Notes::default();
        for op in &ops {
            predictor.push_annotated(op, &paths, &mut notes).unwrap();
        }
        let prediction = predictor.finish();
        for (index, target) in prediction.targets.iter().enumerate() {
            let sum: f64 = notes.0.iter().skip(index).step_by(3).map(|n| n.1).sum();
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(b.abs()) + 1e-6;
            prop_assert!(target.waiting_ns >= 0.0 && target.waiting_ns.is_finite());
            let partial = target.incomplete.as_ref().map(|i| i.partial_latency_ns);
            let total = target.latency_total_ns.or(partial).unwrap();
            let alone = total - target.waiting_ns;
            prop_assert!(near(sum, alone), "{} {}", sum, alone);
            // A total that lacks something is no total.
            prop_assert_eq!(target.incomplete.is_some(), target.latency_total_ns.is_none());
            prop_assert_eq!(target.incomplete.is_some(), target.elapsed_ns.is_none());
            let ranked = prediction.ranking.iter().any(|r| r.name == target.name);
            prop_assert_eq!(ranked, target.incomplete.is_none());
            if target.incomplete.is_some() {
                prop_assert!(target.kinds.is_empty() && target.metrics.is_empty());
                let parts = [target.device_ns, target.waiting_ns, target.writeback_ns];
                prop_assert!(parts.iter().all(|&ns| ns <= 0.0));
                continue;
            }
            prop_assert!(target.elapsed_ns.unwrap() >= 0.0);
            let kinds: f64 = target.kinds.iter().map(|k| k.latency_ns).sum();
            prop_assert!(near(kinds, total));
            let waits: f64 = target.kinds.iter().map(|k| k.waiting_ns).sum();
            prop_assert!(near(waits, target.waiting_ns));
            let metrics: f64 = target.metrics.iter().map(|m| m.time_ns).sum();
            prop_assert!(near(metrics, alone));
            let shares = target.families.iter().map(|f| f.share);
            let kinds = target.kinds.iter().map(|k| k.share);
            let metrics = target.metrics.iter().map(|m| m.share);
            for share in shares.clone().chain(kinds).chain(metrics) {
                prop_assert!((0.0..=1.0).contains(&share), "{}", share);
            }
            prop_assert!(alone == 0.0 || near(shares.sum(), 1.0));
            if let Some((low, high)) = target.latency_interval_ns {
                prop_assert!(low >= 0.0 && low <= total && high >= total);
            }
            let count: u64 = target.kinds.iter().map(|k| k.count).sum();
            prop_assert_eq!(count, prediction.operations_charged);
        }
    }

    #[test]
    fn what_if_is_linear(ops in prop::collection::vec(any_op(), 0..60), factor in 0.1f64..10.0) {
        let paths = table();
        let changes: Vec<Change> = [format!("LU**{factor}"), "RD*/2".to_owned(), "OPEN+7".to_owned()]
            .iter()
            .map(|c| c.parse().unwrap())
            .collect();
        let mut predictor = Predictor::new(Options::default(), vectors()).also(&changes);
        for op in &ops { predictor.push(op, &paths); }
        let prediction = predictor.finish();
        for (target, vector) in prediction.targets.iter().zip(vectors()) {
            let Some(changed) = target.what_if.as_ref() else {
                prop_assert!(target.incomplete.is_some());
                continue;
            };
            // The same from a vector that is changed by hand, in a pass of its own.
            let mut vector = vector;
            for c in &changes { c.apply(&mut vector); }
            let mut again = Predictor::new(Options::default(), vec![vector]);
            for op in &ops { again.push(op, &paths); }
            let expected = again.finish().targets[0].latency_total_ns.unwrap();
            prop_assert!((changed.latency_total_ns - expected).abs() <= 1e-9 * expected + 1e-6,
                "{} {}", changed.latency_total_ns, expected);
            let difference: f64 = changed.kinds.iter().map(|k| k.difference_ns).sum();
            prop_assert!((difference - changed.difference_ns).abs() <= 1e-9 * expected + 1e-3);
        }
    }
}
