//! What faults map and stores make dirty, where pages lie together in long pieces and where each lies alone.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::float_cmp, reason = "exact by construction")]

use crate::common;

use common::{Notes, Script, everything_but};
use fsage_core::OpKind;
use fsage_predict::{Options, Predictor};

const CREATE: u32 = 0o102;
const MIB: u64 = 1 << 20;

/// A mapped file of 4 MiB, written in pieces of so many bytes, and stable.
fn written(each: u64) -> Script {
    let mut s = Script::default();
    s.open("/f", CREATE, 3);
    for at in (0..4 * MIB).step_by(each as usize) {
        s.data(OpKind::Write, 3, at, each);
    }
    s.fd(OpKind::Fsync, 3);
    s
}

fn touch(s: &mut Script, page: u64, write: bool) {
    let op = s.data(OpKind::Fault, 3, page * 4096, 4096);
    op.flags = u32::from(write);
    op.latency_ns = Some(1000);
}

/// How often each operation from one on was charged a metric, on a system whose faults map so many KiB, reading and writing.
fn charged(s: &Script, from: usize, (read, store): (f64, f64), stem: &str) -> Vec<f64> {
    let system = everything_but(&[
        ("MFRK", read),
        ("MFWK", store),
        ("MFWD", store),
        ("RAW", 128.0),
    ]);
    let mut predictor = Predictor::new(Options::default(), vec![system]);
    let mut notes = Notes::default();
    for op in &s.ops {
        predictor.push_annotated(op, &s.paths, &mut notes).unwrap();
    }
    let of = |note: &common::Note| {
        let own = note.0.iter().filter(|(name, _)| name.starts_with(stem));
        own.map(|(_, times)| times).sum()
    };
    notes.0[from..].iter().map(of).collect()
}

const LONG: (f64, f64) = (1024.0, 1024.0);
const ALONE: (f64, f64) = (64.0, 4.0);

#[test]
fn a_store_makes_the_whole_piece_dirty() {
    let made_stable = |each: u64, system| {
        let mut s = written(each);
        touch(&mut s, 5, true);
        touch(&mut s, 700, true);
        s.fd(OpKind::Fsync, 3);
        let from = s.ops.len() - 1;
        // By pages: FDSS and its like are charged by how many there are.
        let kib = |stem: &str| charged(&s, from, system, stem)[0];
        (kib("FSYO"), kib("FDSS"), kib("FDSO"), kib("FSY"))
    };
    let (long, alone) = (made_stable(MIB, LONG), made_stable(MIB, ALONE));
    assert_ne!(long, alone);
    // Written page by page, they lie alone there too.
    assert_eq!(made_stable(4096, LONG), alone);
    assert_eq!(made_stable(4096, ALONE), alone);
}

#[test]
fn a_long_piece_takes_one_fault_that_costs_more() {
    let mut s = written(MIB);
    let from = s.ops.len();
    for page in [3, 300, 600, 1000] {
        touch(&mut s, page, true);
    }
    assert_eq!(charged(&s, from, LONG, "MFWB"), [1.0; 4]);
    assert_eq!(charged(&s, from, LONG, "MFW"), [1.0; 4]);
    assert_eq!(charged(&s, from, ALONE, "MFWB"), [0.0; 4]);
    let short = {
        let mut s = written(4096);
        touch(&mut s, 3, true);
        charged(&s, s.ops.len() - 1, LONG, "MFWB")
    };
    assert_eq!(short, [0.0]);
}

#[test]
fn steps_from_piece_to_piece_touch_all_pages_between() {
    let mut s = written(MIB);
    let from = s.ops.len();
    for piece in 0..4 {
        touch(&mut s, piece * 256, true);
    }
    // Two steps tell that it goes on.
    assert_eq!(charged(&s, from, ALONE, "MFW"), [1.0, 1.0, 256.0, 256.0]);
    for op in &mut s.ops[from..] {
        op.flags = 0;
    }
    assert_eq!(charged(&s, from, ALONE, "MFR"), [1.0, 1.0, 16.0, 16.0]);
    // The last one is mapped by what is around.
    assert_eq!(charged(&s, from, LONG, "MFRB"), [1.0, 1.0, 1.0, 0.0]);
}

#[test]
fn pages_of_one_piece_fault_once_where_it_is_mapped_at_once() {
    let mut s = written(MIB);
    let from = s.ops.len();
    for page in 0..8 {
        touch(&mut s, page, true);
    }
    assert_eq!(charged(&s, from, ALONE, "MFW"), [1.0; 8]);
    let long: f64 = charged(&s, from, LONG, "MFWB").iter().sum();
    assert_eq!(long, 1.0);
    // What is stable is mapped anew for stores.
    s.fd(OpKind::Fsync, 3);
    touch(&mut s, 9, true);
    let more: f64 = charged(&s, from, LONG, "MFWB").iter().sum();
    assert_eq!(more, 2.0);
}

#[test]
fn a_page_that_was_read_before_is_stored_to_alone() {
    let mut s = written(MIB);
    touch(&mut s, 0, false);
    let from = s.ops.len();
    for page in [1, 2, 9] {
        touch(&mut s, page, true);
    }
    // The first makes the whole piece dirty.
    assert_eq!(charged(&s, from, LONG, "MFWB"), [1.0, 0.0, 0.0]);
    assert_eq!(charged(&s, from, LONG, "MFW"), [1.0; 3]);
    assert_eq!(charged(&s, from, ALONE, "MFW"), [1.0; 3]);
}

#[test]
fn touches_that_go_anywhere_are_more_than_the_pieces_that_they_met() {
    let mut s = written(MIB);
    let from = s.ops.len();
    // The last of four pieces is met after four touches more, on average.
    for piece in [2, 0, 3, 1] {
        touch(&mut s, piece * 256 + 17 * piece, true);
    }
    assert_eq!(charged(&s, from, ALONE, "MFW"), [1.0, 1.0, 2.0, 4.0]);
}

#[test]
fn pages_without_space_come_as_zeros_and_are_given_some_one_by_one() {
    let mut s = Script::default();
    s.open("/f", CREATE, 3);
    s.data(OpKind::Write, 3, 0, 8192);
    s.fd(OpKind::Ftruncate, 3).length = Some(MIB);
    let from = s.ops.len();
    for page in [0, 2, 3, 2, 200] {
        touch(&mut s, page, true);
    }
    // A read finds what came beside the last, and what nobody asked for.
    for page in [201, 100] {
        touch(&mut s, page, false);
    }
    for system in [LONG, ALONE] {
        let all = |stem| charged(&s, from, system, stem);
        let brings: Vec<u8> = all("MFRH").iter().map(|&n| u8::from(n > 0.0)).collect();
        assert_eq!(brings, [0, 1, 0, 0, 1, 0, 1]);
        assert_eq!(all("MFWH"), [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(all("MFR")[5], 1.0);
    }
}

#[test]
fn a_program_that_fills_a_hole_page_by_page_is_told_of_pieces() {
    let mut s = Script::default();
    s.open("/f", CREATE, 3);
    s.fd(OpKind::Ftruncate, 3).length = Some(MIB);
    let from = s.ops.len();
    for page in [0, 4, 8, 12, 16] {
        touch(&mut s, page, true);
    }
    assert_eq!(charged(&s, from, LONG, "MFWH"), [0.0, 1.0, 1.0, 1.0, 0.0]);
    assert_eq!(charged(&s, from, ALONE, "MFWH"), [0.0, 1.0, 4.0, 4.0, 3.0]);
    // All of it is dirty, on either.
    s.fd(OpKind::Fsync, 3);
    let last = s.ops.len() - 1;
    let written = |system| charged(&s, last, system, "FSY").iter().sum::<f64>();
    assert_eq!(written(LONG), written(ALONE));
}

#[test]
fn a_store_to_what_is_dirty_is_the_programs_own_where_no_time_is_told() {
    let stored = |is_traced: bool, dirty: bool| {
        let mut s = written(4096);
        if dirty {
            s.data(OpKind::Write, 3, 5 * 4096, 4096);
        }
        touch(&mut s, 5, true);
        if !is_traced {
            s.ops.last_mut().unwrap().latency_ns = None;
        }
        charged(&s, s.ops.len() - 1, ALONE, "MFW")[0]
    };
    assert_eq!(stored(false, true), 0.0);
    assert_eq!(stored(true, true), 1.0);
    // What becomes dirty has a time, and costs what it costs elsewhere.
    assert_eq!(stored(false, false), 1.0);
}
