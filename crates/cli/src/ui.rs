//! Messages and progress on stderr.

use std::io::Write;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Writes a line to stderr; a closed stderr is nobody's concern.
pub fn line(text: &str) {
    drop(writeln!(std::io::stderr().lock(), "{text}"));
}

/// Progress of a long command: a bar on a terminal, nothing elsewhere.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar of `total` steps.
    pub fn new(total: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(8));
        // A template that does not parse would leave the default bar, which is no worse.
        if let Ok(style) =
            ProgressStyle::with_template("{elapsed:>5} {bar:24} {pos}/{len} {wide_msg} {prefix}")
        {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(250));
        Self(bar)
    }

    /// Moves to step `done` of `total`.
    pub fn set(&self, done: u64, total: u64, message: &str, remaining_s: Option<f64>) {
        self.0.set_length(total);
        self.0.set_position(done);
        self.0.set_message(message.to_string());
        self.0
            .set_prefix(remaining_s.map_or(String::new(), |s| format!("about {s:.0} s left")));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
