//! What an aging run leaves when it is killed: gone on with as it was, and not at all once it was damaged.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;

use fsage_age::apply::{Identity, Kept, State, StateError};
use fsage_core::Fd;
use fsage_format::result::aged::{AgedDay, AgedTally};

/// Where a file that is written thousands of times costs little.
fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

fn identity() -> Identity {
    Identity {
        workload: [7; 32],
        boot: [9; 16],
        target: (3, 4),
        how: (false, 42),
    }
}

fn kept(fd: i32) -> Kept {
    Kept {
        fd: Fd(fd),
        there: true,
        full: fd % 2 == 0,
        position: 1 << 40,
    }
}

/// What a run of a day and a bit leaves.
fn left(path: &Path) -> Vec<u8> {
    let mut state = State::create(path, &identity()).unwrap();
    let tally = AgedTally {
        operations: 77,
        too_large: 2,
        ..AgedTally::default()
    };
    // More files than there is room for, and then fewer.
    state.begin(70, &tally, (3..100).map(kept)).unwrap();
    let day = AgedDay {
        operations: 70,
        so_far: tally.clone(),
        ..AgedDay::default()
    };
    state.end_day(&day).unwrap();
    state.begin(77, &tally, (3..5).map(kept)).unwrap();
    std::fs::read(path).unwrap()
}

#[test]
fn what_was_left_is_gone_on_with_and_every_changed_bit_of_it_is_found() {
    let dir = in_memory();
    let path = dir.path().join("r.part");
    let whole = left(&path);
    let state = State::resume(&path, &identity()).unwrap();
    let known = |state: &State| {
        let (rows, tally) = (state.rows(), state.tally().clone());
        (rows, tally, state.open().to_vec(), state.days().to_vec())
    };
    let expected = known(&state);
    assert_eq!((expected.0, &expected.2[..]), (77, &[kept(3), kept(4)][..]));
    assert_eq!(expected.3.len(), 1);
    drop(state);
    let used = (38 + 5) * 8;
    for bit in 0..whole.len() * 8 {
        let mut changed = whole.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, &changed).unwrap();
        match State::resume(&path, &identity()) {
            // What stood there before and says nothing any more.
            Ok(state) => {
                assert!((used..1024).contains(&(bit / 8)), "bit {bit}");
                assert_eq!(known(&state), expected, "bit {bit}");
            }
            Err(e) => assert!(e.to_string().contains("go on with"), "{e}"),
        }
    }
    for length in 0..whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert!(State::resume(&path, &identity()).is_err(), "{length} bytes");
    }
}

#[test]
fn it_is_gone_on_with_after_each_step_and_of_nothing_else() {
    let dir = in_memory();
    let path = dir.path().join("r.part");
    drop(State::create(&path, &identity()).unwrap());
    let mut state = State::resume(&path, &identity()).unwrap();
    state
        .begin(5, &AgedTally::default(), (3..100).map(kept))
        .unwrap();
    drop(state);
    let state = State::resume(&path, &identity()).unwrap();
    assert_eq!((state.rows(), state.open().len()), (5, 44));
    assert_eq!(state.rested_ns(), None, "an operation is in doubt");
    drop(state);
    let other = Identity {
        target: (3, 5),
        ..identity()
    };
    let error = State::resume(&path, &other).unwrap_err().to_string();
    assert!(error.contains("another target"), "{error}");
}

#[test]
fn what_ends_in_good_order_leaves_no_operation_in_doubt() {
    let dir = in_memory();
    let path = dir.path().join("r.part");
    let mut state = State::create(&path, &identity()).unwrap();
    let day = AgedDay::default();
    state.end_day(&day).unwrap();
    let tally = AgedTally::default();
    state.rest(9, &tally, (3..4).map(kept), 777).unwrap();
    drop(state);
    let mut state = State::resume(&path, &identity()).unwrap();
    assert_eq!((state.rows(), state.rested_ns()), (9, Some(777)));
    assert_eq!((state.days().len(), state.open().len()), (1, 1));
    state.begin(9, &tally, (3..4).map(kept)).unwrap();
    drop(state);
    let state = State::resume(&path, &identity()).unwrap();
    assert_eq!((state.rows(), state.rested_ns()), (9, None));
}

/// Two runs that held one state each went on with what the other did.
#[test]
fn it_is_held_by_one_alone() {
    let dir = in_memory();
    let path = dir.path().join("r.part");
    let state = State::create(&path, &identity()).unwrap();
    let refused = |held: Result<State, StateError>| {
        let error = held.unwrap_err().to_string();
        let expected = format!("{}: it is in use by another fsage", path.display());
        assert!(error.contains(&expected), "{error}");
    };
    refused(State::resume(&path, &identity()));
    refused(State::create(&path, &identity()));
    drop(state);
    let state = State::resume(&path, &identity()).unwrap();
    refused(State::create(&path, &identity()));
    refused(State::resume(&path, &identity()));
    state.remove().unwrap();
    assert!(!path.exists());
    State::create(&path, &identity()).unwrap();
}
