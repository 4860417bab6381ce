//! Predictions held against measurement: `fsage validate`.

pub mod judge;
