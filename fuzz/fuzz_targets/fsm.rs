//! Any text as a model (`.fsm`): what is read is written as something that reads the same, and can be played.
#![no_main]

use std::sync::Arc;

use fsage_model::fsm::{Generator, Model, Options};
use libfuzzer_sys::fuzz_target;

/// Files of a large population that are made, of ten thousand: memory is the fuzzer's.
const DATA: f64 = 1e-4;
/// Operations after which a model was played for long enough.
const OPERATIONS: usize = 10_000;

fuzz_target!(|text: &str| {
    let Ok(model) = Model::parse(text) else {
        return;
    };
    if let Ok(written) = model.text() {
        let again = Model::parse(&written).and_then(|model| model.text());
        assert_eq!(again, Ok(written));
    }
    let options = Options {
        data: DATA,
        ..Options::default()
    };
    let Ok(mut generator) = Generator::new(Arc::new(model), options) else {
        return;
    };
    let mut operations = generator.population().len();
    while let (true, Some((_, batch))) = (operations < OPERATIONS, generator.any()) {
        operations += 1 + batch.calls.len();
    }
});
