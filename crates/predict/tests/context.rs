//! What a trace tells of the costs of its calls, on the system that it was made on, corrects them elsewhere.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{Script, everything};
use fsage_core::metric::MetricId;
use fsage_core::{OpFlags, OpKind, Tid};
use fsage_predict::cost::Estimate;
use fsage_predict::{Context, Options, Predictor, SystemVector};

/// A file that is asked for its attributes and read again and again; every call took so many times what it costs on
/// [`everything`].
fn script(slower: f64) -> Script {
    let mut script = Script::default();
    script.open("/d/f", 0o102, 3);
    script.data(OpKind::Write, 3, 0, 4096);
    for _ in 0..2000 {
        script.name(OpKind::Stat, "/d/f");
        script.data(OpKind::Read, 3, 0, 4096);
    }
    let alone = alone(everything(), &script);
    for (op, ns) in script.ops.iter_mut().zip(alone) {
        op.latency_ns = Some((ns * slower).round() as u64);
    }
    script
}

/// What each call takes on a system, in nanoseconds.
fn alone(system: SystemVector, script: &Script) -> Vec<f64> {
    let mut notes = common::Notes::default();
    let mut predictor = Predictor::new(Options::default(), vec![system]);
    for op in &script.ops {
        predictor
            .push_annotated(op, &script.paths, &mut notes)
            .unwrap();
    }
    notes.0.into_iter().map(|note| note.1).collect()
}

/// So many times as slow in everything.
fn slow(times: f64) -> SystemVector {
    let mut system = everything();
    system.reference_ns = Some(1_000_000);
    system.machine.in_memory = true;
    // A tenth of a difference is taken for the readings' own.
    system.at_speed((1.1e6 * times) as u64);
    system
}

fn learnt(script: &Script, on: &SystemVector) -> Option<Context> {
    learnt_with(script, on, false)
}

/// Where operations also tell how long they slept, or do not.
fn learnt_with(script: &Script, on: &SystemVector, blocked_known: bool) -> Option<Context> {
    let mut context = None;
    for _ in 0..2 {
        let mut predictor =
            Predictor::new(Options::default(), vec![on.clone()]).learning(true, blocked_known);
        if let Some(before) = context.take() {
            predictor = predictor.in_context(on.clone(), before, None);
        }
        predictor.push_all(&script.ops, &script.paths);
        context = predictor.context();
    }
    context
}

fn total_ns(script: &Script, on: &SystemVector, context: Option<(&SystemVector, &Context)>) -> f64 {
    let mut predictor = Predictor::new(Options::default(), vec![on.clone()]);
    if let Some((source, context)) = context {
        predictor = predictor.in_context(source.clone(), context.clone(), None);
    }
    predictor.push_all(&script.ops, &script.paths);
    let made = predictor.finish();
    assert_eq!(made.context.is_some(), context.is_some());
    let target = &made.targets[0];
    let kinds: f64 = target.kinds.iter().map(|kind| kind.latency_ns).sum();
    let total = target.latency_total_ns.unwrap();
    assert!(
        (kinds - total).abs() < 1e-6 * total,
        "the kinds are the whole"
    );
    let metrics: f64 = target.metrics.iter().map(|metric| metric.time_ns).sum();
    assert!(
        (metrics + target.waiting_ns - total).abs() < 1e-6 * total,
        "and so are the metrics"
    );
    total
}

#[test]
fn calls_that_took_longer_than_their_profile_says_do_so_everywhere() {
    // Latencies are whole nanoseconds: costs are hundreds of them.
    let source = slow(200.0);
    let script = script(300.0);
    let context = learnt(&script, &source).unwrap();
    let stat = (context.record().classes.iter()).find(|class| class.kind == "stat");
    let stat = stat.unwrap();
    assert_eq!(stat.operations, 2000);
    assert!(
        (stat.measured_ns / stat.predicted_ns - 1.5).abs() < 0.01,
        "{stat:?}"
    );
    assert!(
        stat.factor > 1.2 && stat.factor < 1.5,
        "less is carried over than was seen: {stat:?}"
    );
    let ratio = |on: &SystemVector| {
        total_ns(&script, on, Some((&source, &context))) / total_ns(&script, on, None)
    };
    let (there, faster, slower) = (ratio(&source), ratio(&slow(20.0)), ratio(&slow(20_000.0)));
    assert!((there - stat.factor).abs() < 0.02, "{there}");
    assert!(
        (faster - stat.factor).abs() < 0.02,
        "all of a smaller cost: {faster}"
    );
    assert!(
        slower > 1.0 && slower < 1.01,
        "of a larger one what is as large: {slower}"
    );
}

#[test]
fn what_the_profile_says_rightly_is_left_as_it_is() {
    let source = slow(200.0);
    let script = script(200.0);
    let context = learnt(&script, &source).unwrap();
    for class in &context.record().classes {
        assert!((class.factor - 1.0).abs() < 0.01, "{class:?}");
    }
}

#[test]
fn nothing_is_learnt_from_what_has_no_latencies_or_no_costs() {
    let source = slow(200.0);
    let mut script = script(300.0);
    let lacking = common::system("lacking", &[("STAT", 200.0)]);
    assert_eq!(
        learnt(&script, &lacking),
        None,
        "its total would be of a part of the calls"
    );
    for op in &mut script.ops {
        op.latency_ns = None;
    }
    let context = learnt(&script, &source).unwrap();
    assert!(context.record().classes.is_empty(), "{context:?}");
}

#[test]
fn nothing_is_learnt_beside_a_profile_that_was_disturbed() {
    let script = script(300.0);
    assert_eq!(learnt(&script, &disturbed(slow(200.0))), None);
    // But for how long calls waited for processors, which no profile tells.
    let mut source = disturbed(slow(200_000.0));
    source.machine.cpus = Some(1);
    let script = two_writers(0.0, &source);
    let context = learnt(&script, &source).unwrap();
    assert!(context.record().classes.is_empty());
    let mut predictor = Predictor::new(Options::default(), vec![source.clone()]).in_context(
        source.clone(),
        context,
        None,
    );
    predictor.push_all(&script.ops, &script.paths);
    let made = predictor.finish();
    assert_eq!(made.context, None, "no costs were corrected");
    assert!(made.targets[0].processor_wait_ns < 1.0);
}

/// The same, all marked.
fn disturbed(mut system: SystemVector) -> SystemVector {
    for id in MetricId::all() {
        if let Some(estimate) = system.get(id) {
            let marked = true;
            system.set(id, Estimate { marked, ..estimate });
        }
    }
    system
}

#[test]
fn the_system_that_is_judged_by_the_trace_is_not_corrected_by_it() {
    let source = slow(200.0);
    let script = script(300.0);
    let context = learnt(&script, &source).unwrap();
    let systems = vec![source.clone(), source.clone()];
    let mut predictor =
        Predictor::new(Options::default(), systems).in_context(source.clone(), context, Some(0));
    predictor.push_all(&script.ops, &script.paths);
    let made = predictor.finish();
    let total = |index: usize| made.targets[index].latency_total_ns.unwrap();
    let plain = total_ns(&script, &source, None);
    assert!((total(0) - plain).abs() < 1e-6 * plain);
    assert!(total(1) > 1.2 * plain);
}

/// Two threads that write, call behind call, on one processor; each call waited so long for it.
fn two_writers(queued_ns: f64, on: &SystemVector) -> Script {
    let mut script = Script::default();
    script.open("/d/f", 0o102, 3);
    for n in 0..400u32 {
        let tid = Tid(1 + n % 2);
        script.data(OpKind::Write, 3, 0, 4096).tid = tid;
    }
    let alone = alone(on.clone(), &script);
    for (op, ns) in script.ops.iter_mut().zip(alone) {
        op.latency_ns = Some((ns + queued_ns).round() as u64);
        op.pause.queued_ns = queued_ns.round() as u64;
        op.record |= OpFlags::WAITS;
    }
    script
}

#[test]
fn calls_wait_for_processors_no_longer_than_the_trace_tells() {
    let mut source = slow(200_000.0);
    source.machine.cpus = Some(1);
    let there = |script: &Script, context: Option<Context>| {
        let mut predictor = Predictor::new(Options::default(), vec![source.clone()]);
        if let Some(context) = context {
            predictor = predictor.in_context(source.clone(), context, None);
        }
        predictor.push_all(&script.ops, &script.paths);
        let target = predictor.finish().targets.remove(0);
        (target.latency_total_ns.unwrap(), target.processor_wait_ns)
    };
    let script = two_writers(0.0, &source);
    let (alone_ns, found_ns) = there(&script, None);
    assert!(found_ns > 0.5 * alone_ns, "{found_ns} {alone_ns}");
    for share in [0.0, 0.5, 1.0, 2.0] {
        let script = two_writers(share * found_ns / script.ops.len() as f64, &source);
        let (total_ns, queued_ns) = there(&script, learnt(&script, &source));
        let expected_ns = f64::min(share, 1.0) * found_ns;
        if share > 1.0 {
            assert!(total_ns > 1.1 * alone_ns, "the rest is the calls' own");
            continue;
        }
        assert!(
            (total_ns / alone_ns - 1.0).abs() < 0.02,
            "{share}: {total_ns} {alone_ns}"
        );
        assert!(
            (queued_ns - expected_ns).abs() < 0.02 * found_ns,
            "{share}: {queued_ns} {expected_ns}"
        );
    }
}

/// Of what the calls waited for processors the kernel's workers waited a part, in which their threads slept.
#[test]
fn sleep_in_calls_counts_where_the_trace_tells_it() {
    let mut source = slow(200_000.0);
    source.machine.cpus = Some(1);
    let found = |context: Option<Context>, script: &Script| {
        let mut predictor = Predictor::new(Options::default(), vec![source.clone()]);
        if let Some(context) = context {
            predictor = predictor.in_context(source.clone(), context, None);
        }
        predictor.push_all(&script.ops, &script.paths);
        predictor.finish().targets[0].processor_wait_ns
    };
    let mut script = two_writers(0.0, &source);
    let found_ns = found(None, &script);
    let each_ns = 0.4 * found_ns / script.ops.len() as f64;
    for op in &mut script.ops {
        op.pause.blocked_ns = each_ns.round() as u64;
    }
    for (known, expected) in [(false, 0.0), (true, 0.4)] {
        let context = learnt_with(&script, &source, known);
        let share = found(context, &script) / found_ns;
        assert!((share - expected).abs() < 0.02, "{share}, not {expected}");
    }
}

#[test]
fn a_copy_is_told_with_its_first_side_and_predicted_with_both() {
    let source = slow(200.0);
    let mut script = Script::default();
    script.open("/d/f", 0o102, 3);
    script.data(OpKind::Write, 3, 0, 65536);
    script.open("/d/g", 0o102, 4);
    for _ in 0..500 {
        for (kind, fd) in [(OpKind::CopyIn, 3), (OpKind::CopyOut, 4)] {
            script.data(kind, fd, 0, 65536);
        }
    }
    let alone = alone(everything(), &script);
    let mut told_ns = 0.0;
    for (op, ns) in script.ops.iter_mut().zip(alone).rev() {
        let first = op.kind != OpKind::CopyOut;
        told_ns += ns * 200.0;
        op.latency_ns = Some(if first {
            std::mem::take(&mut told_ns).round() as u64
        } else {
            0
        });
    }
    let context = learnt(&script, &source).unwrap();
    let copies: Vec<_> = (context.record().classes.iter())
        .filter(|class| class.kind.starts_with("copy"))
        .collect();
    assert_eq!(copies.len(), 1, "{copies:?}");
    assert!((copies[0].factor - 1.0).abs() < 0.01, "{copies:?}");
}
