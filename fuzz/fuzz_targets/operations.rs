//! Any sequence of operations, possible or not, through all that follows a trace: written and read,
//! characterised, predicted, replayed in a directory, anonymised, exported and imported. Each ends.
#![no_main]

use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;

use fsage_core::OpSource;
use fsage_core::any_ops::any_ops;
use fsage_exec::replay::{Order, Pace};
use fsage_experiment::predicting::{Request, predict};
use fsage_experiment::replaying::{ReplayRequest, replay};
use fsage_experiment::target;
use fsage_format::anonymize::Anonymizer;
use fsage_format::foreign::strace::{StraceSink, StraceSource};
use fsage_format::profile::SystemProfile;
use fsage_format::trace::{TraceEnd, TraceMeta, TraceReader, TraceWriter};
use fsage_predict::Options;
use fsage_workload::characterize::Characterizer;
use libfuzzer_sys::fuzz_target;

/// Operations of one input: what comes beyond is more of the same.
const MOST_OPERATIONS: usize = 2000;

static PROFILE: LazyLock<Option<SystemProfile>> =
    LazyLock::new(|| SystemProfile::load(Path::new("../crates/cli/tests/data/ext4.fsp")).ok());

/// Writes the operations to a file; the reader of it.
fn written(bytes: &[u8], file: &Path) -> Option<TraceReader> {
    let seed = bytes.len() as u64;
    // Sizes of every other input are those that a replay can make.
    let most_bytes = if seed % 2 == 0 { u64::MAX } else { 1 << 16 };
    let mut source = any_ops(
        bytes,
        seed,
        (bytes.len() / 8).clamp(1, MOST_OPERATIONS),
        most_bytes,
    );
    let meta = TraceMeta {
        directory: "/w".into(),
        ..TraceMeta::default()
    };
    let mut writer = TraceWriter::create(file, meta).ok()?;
    let mut batch = Vec::new();
    while source.next_batch(&mut batch).is_ok_and(|count| count > 0) {
        for op in batch.drain(..) {
            writer.push_annotated(&op, source.paths(), &[]).ok()?;
        }
    }
    writer.finish(TraceEnd::default()).ok()?;
    TraceReader::open(file).ok()
}

/// Looks at each operation in the ways that need no second pass.
fn looked_at(reader: &mut TraceReader) -> Option<()> {
    let mut found = Characterizer::new();
    let mut hidden = Anonymizer::new(b"0123456789abcdef", true, Path::new("key")).ok()?;
    let mut text = Vec::new();
    let mut sink = StraceSink::new(&mut text, Path::new("text"), 0);
    let mut batch = Vec::new();
    while reader.next_batch(&mut batch).is_ok_and(|count| count > 0) {
        for op in batch.drain(..) {
            found.take(&op, reader.paths());
            let op = hidden.op(&op, reader.paths());
            fsage_core::OpSink::push(&mut sink, &op, hidden.paths()).ok()?;
        }
    }
    let _ = found.finish(0);
    sink.finish().ok()?;
    let mut back = StraceSource::new(&text[..], Path::new("text"));
    while back.read_ops(&mut batch).is_ok_and(|count| count > 0) {
        batch.clear();
    }
    Some(())
}

fn followed(bytes: &[u8], dir: &Path) -> Option<()> {
    let file = dir.join("operations.fst");
    looked_at(&mut written(bytes, &file)?);
    let request = Request {
        options: Options::default(),
        profiles: PROFILE.as_slice(),
        one_speed: true,
        snapshot: None,
        changes: &[],
        traced_on: None,
        is_traced: false,
    };
    predict(&mut TraceReader::open(&file).ok()?, &request, None).ok()?;
    let request = ReplayRequest {
        trace: file.clone(),
        snapshot: None,
        target: target::parse(dir.to_str()?).ok()?,
        pace: Pace::AsFastAsPossible,
        order: Order::File,
        map: vec![(b"/w".to_vec(), Vec::new())],
        cold: false,
        verify: true,
        keep: false,
        seed: 1,
        measured: None,
        figures: None,
    };
    let stop = AtomicBool::new(false);
    replay(TraceReader::open(&file).ok()?, &request, &mut |_| {}, &stop).ok()?;
    Some(())
}

fuzz_target!(|bytes: &[u8]| {
    let name = format!("fsage-fuzz-operations-{}", std::process::id());
    let dir = std::env::temp_dir().join(name);
    if std::fs::create_dir_all(&dir).is_ok() {
        followed(bytes, &dir);
        let _ = std::fs::remove_dir_all(&dir);
    }
});
