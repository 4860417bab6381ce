//! Any configuration runs to its end, and any trace gives a model or an error.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;

use fsage_core::OpSource as _;
use fsage_core::any_ops::any_ops;
use fsage_core::{Op, PathTable};
use fsage_model::filerunner::{Config, Fitter, Operation, Plan, Runner, Scan};
use fsage_model::fsm::{Gather, Generator, Model, Options, Scale, fit};
use proptest::prelude::*;

/// Definitions that can be, few enough to be run at once.
fn definition() -> impl Strategy<Value = String> {
    let operation = prop::sample::select(vec![19_u8, 22, 34, 35, 44]);
    let place = (0..3_u32, 0..3_u32, 0..4_u64, any::<bool>(), 1..30_u64);
    (operation, place).prop_map(|(operation, (process, depth, io, cached, iterations))| {
        let moves = matches!(operation, 34 | 35);
        let (io, cached) = if moves {
            (io, u8::from(cached))
        } else {
            (0, 0)
        };
        format!("{process},{operation},{depth},{io},{cached},{iterations}\n")
    })
}

prop_compose! {
    fn configuration()(
        frequencies in (1.0..5.0_f64, 1.0..5.0_f64),
        chunks in prop::collection::vec(prop::collection::vec(definition(), 0..12), 0..6),
    ) -> String {
        let (write, read) = frequencies;
        let mut text = format!("IOChunkSize = 512\nDirDepthIndex = 3\nRepeatWrite = {write}\nRepeatRead = {read}\n");
        for (index, lines) in chunks.iter().enumerate() {
            text += &format!("TIndex = {index}\n{}", lines.concat());
        }
        text
    }
}

/// What a word of a model may become.
fn edit() -> impl Strategy<Value = String> {
    prop_oneof![
        (0..6_u64).prop_map(|n| n.to_string()),
        any::<u64>().prop_map(|n| n.to_string()),
        prop::sample::select(vec![
            "",
            "open",
            "shared",
            "known",
            "gone",
            "fresh",
            "new",
            "none",
            "rename",
            "mkdir",
            "read",
            "seek",
            "random",
            "directory",
            "link",
            "16777216",
            "8192",
            "1000",
        ])
        .prop_map(str::to_owned),
    ]
}

/// How many operations a configuration runs.
fn to_run(config: &Config) -> u64 {
    let definitions = config.chunks.iter().flat_map(|c| &c.definitions);
    let run = definitions.filter(|d| d.operation.stage().is_some());
    run.map(|d| d.iterations).sum()
}

/// Every operation of any stream.
fn each(seed: u64, take: &mut dyn FnMut(&Op, &PathTable)) {
    let mut source = any_ops(&[], seed, 400, 1 << 50);
    let mut batch = Vec::new();
    while source.next_batch(&mut batch).unwrap() > 0 {
        for op in batch.drain(..) {
            take(&op, source.paths());
        }
    }
}

/// The model of any stream, as its file has it; none of one without an operation on a file.
fn fsm(seed: u64) -> Option<String> {
    let mut gather = Gather::new(&[]);
    each(seed, &mut |op, paths| {
        gather.take(op, paths);
    });
    Some(fit(gather).ok()?.text().unwrap())
}

/// Operations of a model, some thousands at the most: each on a name where it needs one.
fn play(model: Model, options: Options) -> Result<usize, TestCaseError> {
    let Ok(mut generator) = Generator::new(Arc::new(model), options) else {
        return Ok(0);
    };
    let mut operations = 0;
    while let (true, Some((_, batch))) = (operations < 5000, generator.any()) {
        operations += batch.calls.len();
        for call in batch.calls {
            let path = call.path.as_deref().unwrap_or_default();
            prop_assert!(path.len() < 1 << 20 && !path.starts_with(b"/"));
        }
    }
    Ok(operations)
}

/// Runs a plan: every operation finds a file that is there and as large as what is read. Returns how many there were.
fn run(plan: Plan) -> u64 {
    let beforehand = plan.setup().files();
    let mut runner = Runner::new(plan);
    assert_eq!(runner.files().len() as u64, beforehand);
    let mut there = vec![true; runner.files().len()];
    let mut sizes: Vec<u64> = runner.files().iter().map(|f| f.bytes).collect();
    let mut done = 0;
    while let Some(tasks) = runner.next_stage() {
        for task in tasks {
            for &file in &task.files {
                let index = file as usize;
                let new = task.operation == Operation::CREATE;
                if new {
                    there.resize(there.len().max(index + 1), false);
                    sizes.resize(there.len(), 0);
                }
                assert_eq!(there[index], !new, "{:?} of file {file}", task.operation);
                there[index] = task.operation != Operation::DELETE;
                if task.operation == Operation::WRITE {
                    sizes[index] = sizes[index].max(task.bytes);
                }
                assert!(
                    task.operation != Operation::READ || sizes[index] >= task.bytes,
                    "file {file} has {}",
                    sizes[index]
                );
                done += 1;
            }
        }
    }
    done
}

proptest! {
    #[test]
    fn every_operation_finds_a_file_that_is_there_and_large_enough(text in configuration()) {
        let config = Config::parse("m.cfg", &text).unwrap();
        prop_assert_eq!(config.to_string(), text.clone());
        let expected = to_run(&config);
        prop_assert_eq!(run(Plan::new("m.cfg", config).unwrap()), expected);
    }

    #[test]
    fn any_text_is_a_configuration_or_an_error(
        text in "(IOChunkSize|TIndex|[ =0-9,\n-]|RepeatRead|DirDepthIndex|RepeatWrite){0,40}"
    ) {
        if let Ok(config) = Config::parse("m.cfg", &text) {
            let written = config.to_string();
            prop_assert_eq!(Config::parse("m.cfg", &written).unwrap().to_string(), written);
            let _ = Plan::new("m.cfg", config);
        }
    }

    /// Whatever a stream holds, its model is one that can be read and run, with as many operations.
    #[test]
    fn any_stream_gives_a_model_that_runs(seed: u64, chunks in 1..40_u32, io_chunk in 1..100_000_u64, rooted: bool) {
        let roots = if rooted { vec![b"/w".to_vec()] } else { Vec::new() };
        let mut scan = Scan::new(&roots, false);
        each(seed, &mut |op, paths| scan.take(op, paths));
        if let Ok(scanned) = scan.finish("t.fst") {
            let tries = scanned.search_chunks(0.05);
            prop_assert!(tries.iter().all(|t| (0.0..=1.0).contains(&t.distance)), "{:?}", tries);
            prop_assert!(scanned.search_io(0.05).len() <= 21);
            let mut fitter = Fitter::new("t.fst", &scanned, (&roots, false), chunks, io_chunk);
            each(seed, &mut |op, paths| fitter.take(op, paths).unwrap());
            let (config, _) = fitter.finish();
            let text = config.to_string();
            let again = Config::parse("m.cfg", &text);
            prop_assert!(again.is_ok(), "{}\n{}", again.unwrap_err(), text);
            let counted: u64 = scanned.counted.values().sum();
            let all: u64 = config.chunks.iter().flat_map(|c| &c.definitions).map(|d| d.iterations).sum();
            prop_assert_eq!(all, counted);
            let expected = to_run(&config);
            prop_assert_eq!(run(Plan::new("m.cfg", config).unwrap()), expected);
        }
    }
    #[test]
    fn any_stream_gives_an_fsm_that_is_read_and_played(seed: u64, time in 0.1..3.0_f64, data in 0.1..3.0_f64) {
        if let Some(text) = fsm(seed) {
            let model = Model::parse(&text);
            prop_assert!(model.is_ok(), "{}\n{}", model.unwrap_err(), text);
            let model = model.unwrap();
            prop_assert_eq!(model.text().unwrap(), text);
            let options = Options { seed, data, ..Options::default() };
            // Files beyond what one may be are refused once they are scaled.
            let refused = model.check_scale(Scale { users: 1, time, data }).is_err();
            prop_assert_eq!(refused && data <= 1.0, false);
            prop_assert!(play(model.for_time(time), options)? > 0 || refused);
        }
    }

    /// Whoever edits a model gets an error or something that runs.
    #[test]
    fn an_fsm_that_was_edited_is_an_error_or_is_played(
        seed in 0..20_u64,
        edits in prop::collection::vec((any::<prop::sample::Index>(), edit()), 1..6),
    ) {
        if let Some(text) = fsm(seed) {
            let words = text.split_inclusive(|c: char| !c.is_ascii_alphanumeric());
            let mut words: Vec<String> = words.map(str::to_owned).collect();
            for (at, new) in &edits {
                let word = at.get_mut(&mut words);
                // What ends it stays.
                let end = word.pop().filter(|c| !c.is_ascii_alphanumeric());
                *word = format!("{new}{}", end.map(String::from).unwrap_or_default());
            }
            if let Ok(model) = Model::parse(&words.concat()) {
                let written = model.text().unwrap();
                prop_assert_eq!(Model::parse(&written).unwrap().text().unwrap(), written);
                for time in [1.0, 0.3] {
                    play(model.for_time(time), Options { data: 0.001, ..Options::default() })?;
                }
            }
        }
    }
}
