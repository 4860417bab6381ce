//! Messages and progress on stderr.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fsage_host::cleanup::{self, Cleanup};
use fsage_host::signals;
use fsage_report::{page, plain, units};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::line::Line;
use crate::out;

/// Without a terminal, a long command says this often where it is.
const EVERY: Duration = Duration::from_secs(25);

/// Whether `--quiet` was given.
static QUIET: AtomicBool = AtomicBool::new(false);

/// From now on only what went wrong is said.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Says a line: what is done, or what was. Left out by `--quiet`.
pub fn note(text: &str) {
    if !QUIET.load(Ordering::Relaxed) {
        line(text);
    }
}

/// Writes a line to stderr, also under `--quiet`: what is wrong or missing. What is not printable is written
/// out. A closed stderr is nobody's concern.
pub fn line(text: &str) {
    put(&broken(&plain::plain(text), ""));
}

/// The same for text of several lines; those after the first are set in, so that none looks like a message of
/// its own.
pub fn lines(text: &str) {
    let mut out = String::new();
    for (index, part) in text.lines().enumerate() {
        let indent = if index > 0 { "  " } else { "" };
        out.push_str(&broken(&plain::plain(part), indent));
    }
    put(&out);
}

/// A page of fsage's own words, in the lines that it has.
pub fn page(text: &str) {
    put(text);
}

/// The columns of the terminal that stderr is.
pub fn columns() -> Option<u16> {
    out::columns(std::io::stderr())
}

/// Writes what a bar is drawn with; what it shows is plain already.
pub fn draw(text: &str) -> std::io::Result<()> {
    std::io::stderr().lock().write_all(text.as_bytes())
}

/// The bar that is on the terminal.
static ON_TERMINAL: Mutex<Option<ProgressBar>> = Mutex::new(None);

fn on_terminal() -> MutexGuard<'static, Option<ProgressBar>> {
    ON_TERMINAL.lock().unwrap_or_else(PoisonError::into_inner)
}

fn put(text: &str) {
    let write = || drop(std::io::stderr().lock().write_all(text.as_bytes()));
    let bar = on_terminal().clone();
    match bar {
        // Above it.
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// A line as a terminal can show it, broken between words and set in from its second line on; anywhere else
/// it stays one, for who searches it.
fn broken(text: &str, indent: &str) -> String {
    let text = format!("{indent}{text}");
    let width = out::columns(std::io::stderr()).filter(|&columns| columns > 20);
    let width = width.map_or(usize::MAX, usize::from);
    if text.chars().count() <= width {
        return text + "\n";
    }
    let before: String = text.chars().take_while(|&c| c == ' ').collect();
    let room = width.saturating_sub(before.len() + 2);
    let wrapped = page::wrapped(text.trim_start_matches(' '), room);
    format!("{before}{}\n", wrapped.join(&format!("\n{before}  ")))
}

/// Columns of a line of progress before what is done now: the time, and the bar and its blanks.
const BAR_COLUMNS: usize = 6 + 1 + 24 + 1 + 1;
/// The same with a spinner.
const SPINNER_COLUMNS: usize = 6 + 1 + 1 + 1;

fn left(remaining_s: f64) -> String {
    if remaining_s < 0.5 {
        return "nearly done".to_owned();
    }
    format!("about {} left", units::duration(remaining_s.round() * 1e9))
}

/// What is still to come, as it was last told.
#[derive(Debug, Clone, Copy)]
pub enum Remaining {
    /// Nobody knows.
    Unknown,
    /// Seconds, until something else is told.
    Seconds(f64),
    /// Of an experiment with its steps.
    Steps(fsage_experiment::engine::Rest),
    /// Of a measurement whose procedures have their time.
    Of(fsage_profile::Left),
}

impl From<Option<Remaining>> for Remaining {
    fn from(found: Option<Remaining>) -> Self {
        found.unwrap_or(Self::Unknown)
    }
}

impl Remaining {
    /// In words, so many seconds after it was told; nothing where nobody knows.
    fn words(self, since_s: f64) -> String {
        match self {
            Self::Unknown => String::new(),
            Self::Seconds(s) => left((s - since_s).max(0.0)),
            Self::Steps(rest) => left(rest.later(since_s).seconds()),
            Self::Of(of) => match of.after(since_s) {
                (Some(s), true) => format!("behind, {}", left(s)),
                (Some(s), false) => left(s),
                (None, true) => "behind".to_owned(),
                (None, false) => String::new(),
            },
        }
    }
}

/// What stands at the end of a bar once a signal has come: what was begun is still finished and removed.
const ENDING: &str = "interrupted, ending";

/// What a bar shows behind its numbers.
#[derive(Debug)]
pub struct Doing {
    message: String,
    /// What is left, and when that was told.
    remaining: Remaining,
    estimated: Instant,
}

impl Doing {
    /// In a line with so many columns for it: what is done now, as far as it fits, and at the end how much is left, or that
    /// it ends.
    fn line(&self, columns: usize, ends: bool) -> String {
        let left = if ends {
            ENDING.to_owned()
        } else {
            self.remaining.words(self.estimated.elapsed().as_secs_f64())
        };
        let room = columns.saturating_sub(page::columns(&left) + 1);
        let message = fitted(&self.message, room);
        let blanks = room.saturating_sub(page::columns(&message)) + 1;
        format!("{message}{}{left}", " ".repeat(blanks))
    }
}

/// What is shown behind a bar's numbers, which asks for it whenever it is drawn, and so also in a long step.
type Shown = Arc<Mutex<Doing>>;

fn shown(shown: &Shown) -> MutexGuard<'_, Doing> {
    shown.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A template whose `{doing}` is what is shown in the columns that `before` leaves.
fn style(
    template: &str,
    doing: &Shown,
    before: fn(&ProgressState) -> usize,
) -> Option<ProgressStyle> {
    let (doing, stop) = (Arc::clone(doing), signals::stop_flag());
    let style = ProgressStyle::with_template(template).ok()?;
    Some(style.with_key(
        "doing",
        move |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            let columns = out::columns(std::io::stderr()).map_or(80, usize::from);
            let columns = columns.saturating_sub(before(state));
            let ends = stop.load(Ordering::Relaxed);
            // A word that is not shown is nobody's concern.
            let _ = out.write_str(&shown(&doing).line(columns, ends));
        },
    ))
}

/// Columns that a bar with its numbers has.
fn before_bar(state: &ProgressState) -> usize {
    BAR_COLUMNS + format!("{}/{}", state.pos(), state.len().unwrap_or(0)).len()
}

/// As many of the words as there are columns for, and a sign that there are more.
fn fitted(text: &str, columns: usize) -> String {
    if page::columns(text) <= columns {
        return text.to_owned();
    }
    let mut kept = String::new();
    for word in page::wrapped(text, 1) {
        let blank = usize::from(!kept.is_empty());
        if page::columns(&kept) + blank + page::columns(&word) + 2 > columns {
            break;
        }
        kept.push_str(if blank == 1 { " " } else { "" });
        kept.push_str(&word);
    }
    match (kept.is_empty(), columns) {
        (true, 0) => kept,
        (true, _) => "…".to_owned(),
        (false, _) => kept + " …",
    }
}

/// A bar on a terminal.
#[derive(Debug)]
pub struct Bar {
    drawn: ProgressBar,
    doing: Shown,
    /// Clears it, also where a second signal ends this process.
    _clear: Cleanup,
}

/// Progress of a long command: a bar on a terminal, a line now and then elsewhere, nothing if it is to be quiet.
#[derive(Debug)]
pub enum Progress {
    /// A bar.
    Bar(Bar),
    /// Lines.
    Lines(Lines),
    /// Nothing.
    Quiet,
}

impl Progress {
    /// Progress of `total` steps; until the first is set it says what is done `first`.
    pub fn new(total: u64, first: &str) -> Self {
        if QUIET.load(Ordering::Relaxed) {
            return Self::Quiet;
        }
        if !std::io::stderr().is_terminal() {
            return Self::Lines(Lines::start(EVERY, first));
        }
        let line = ProgressDrawTarget::term_like_with_hz(Box::<Line>::default(), 8);
        let bar = ProgressBar::with_draw_target(Some(total), line);
        let doing = Arc::new(Mutex::new(Doing {
            message: first.to_owned(),
            remaining: Remaining::Unknown,
            estimated: Instant::now(),
        }));
        // A template that does not parse would leave the default bar, which is no worse.
        if let Some(style) = style(
            "{elapsed:>5} {bar:24} {pos}/{len} {doing}",
            &doing,
            before_bar,
        ) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(250));
        *on_terminal() = Some(bar.clone());
        let shown = bar.clone();
        let clear = cleanup::register(move || {
            *on_terminal() = None;
            shown.finish_and_clear();
        });
        Self::Bar(Bar {
            drawn: bar,
            doing,
            _clear: clear,
        })
    }

    /// Progress of what nobody knows the steps of: how long it has lasted, and what is done.
    pub fn doing(first: &str) -> Self {
        let progress = Self::new(1, first);
        if let Self::Bar(Bar {
            drawn: bar, doing, ..
        }) = &progress
            && let Some(style) = style("{elapsed:>5} {spinner} {doing}", doing, |_| SPINNER_COLUMNS)
        {
            bar.set_style(style);
        }
        progress
    }

    /// Goes on to what is done now; without a terminal it is told at once as well.
    pub fn goes_on(&self, what: &str) {
        let text = format!("{} …", plain::plain(what));
        match self {
            Self::Bar(Bar {
                drawn: bar, doing, ..
            }) => {
                shown(doing).message = text;
                bar.force_draw();
            }
            Self::Lines(lines) => {
                line(&text);
                lines.set(text, Remaining::Unknown);
            }
            Self::Quiet => {}
        }
    }

    /// Moves to step `done` of `total`.
    pub fn set(&self, done: u64, total: u64, message: &str, remaining: impl Into<Remaining>) {
        let remaining = remaining.into();
        let message = plain::plain(message.trim_end_matches([' ', ':'])).into_owned();
        match self {
            Self::Bar(Bar {
                drawn: bar, doing, ..
            }) => {
                *shown(doing) = Doing {
                    message,
                    remaining,
                    estimated: Instant::now(),
                };
                bar.set_length(total);
                bar.set_position(done);
            }
            Self::Lines(lines) => {
                let text = format!("{done}/{total} {message}");
                lines.set(text.trim_end().to_owned(), remaining);
            }
            Self::Quiet => {}
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        match self {
            Self::Lines(lines) => lines.end(),
            Self::Bar(_) | Self::Quiet => {}
        }
    }
}

/// Says from a thread of its own where a command is, so that a long step is no silence.
#[derive(Debug)]
pub struct Lines {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    message: String,
    /// What was still to come, and when that was said.
    left: Option<(Remaining, Instant)>,
    ended: bool,
}

impl State {
    /// `after 25 s: 3/20 fsync, about 2 min left`; what is done is never left out.
    fn line(&self, elapsed: Duration) -> String {
        let after = units::duration(elapsed.as_secs() as f64 * 1e9);
        let still = match self.left {
            _ if signals::stop_flag().load(Ordering::Relaxed) => ENDING.to_owned(),
            Some((Remaining::Seconds(s), then)) => {
                let still = s - then.elapsed().as_secs_f64();
                Some(still)
                    .filter(|&s| s >= 1.0)
                    .map_or_else(String::new, left)
            }
            Some((remaining, then)) => remaining.words(then.elapsed().as_secs_f64()),
            None => String::new(),
        };
        let still = match still.as_str() {
            "" => still,
            words => format!(", {words}"),
        };
        let doing = match self.message.as_str() {
            "" => "at work",
            message => message,
        };
        format!("after {after}: {doing}{still}")
    }
}

impl Lines {
    fn start(every: Duration, first: &str) -> Self {
        let shared = Arc::new(Shared::default());
        first.clone_into(&mut lock(&shared).message);
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("progress".into())
            .spawn(move || say(&theirs, every))
            .ok();
        Self { shared, thread }
    }

    fn set(&self, message: String, remaining: Remaining) {
        let mut state = lock(&self.shared);
        state.message = message;
        state.left = Some((remaining, Instant::now()));
    }

    fn end(&mut self) {
        lock(&self.shared).ended = true;
        self.shared.ended.notify_all();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn lock(shared: &Shared) -> MutexGuard<'_, State> {
    shared.state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn say(shared: &Shared, every: Duration) {
    let begun = Instant::now();
    let mut next = begun + every;
    let mut state = lock(shared);
    while !state.ended {
        let now = Instant::now();
        if now >= next {
            line(&state.line(begun.elapsed()));
            next = now + every;
            continue;
        }
        state = shared
            .ended
            .wait_timeout(state, next - now)
            .unwrap_or_else(PoisonError::into_inner)
            .0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_progress_says_what_is_done() {
        let lines = Lines::start(EVERY, "reading the trace");
        let said = || lock(&lines.shared).line(Duration::from_secs(25));
        assert_eq!(said(), "after 25 s: reading the trace");
        lines.set("3/20 fsync".into(), Remaining::Unknown);
        let said = || lock(&lines.shared).line(Duration::from_secs(25));
        assert_eq!(said(), "after 25 s: 3/20 fsync");
        let shared = Arc::clone(&lines.shared);
        let progress = Progress::Lines(lines);
        progress.goes_on("run");
        let said = lock(&shared).line(Duration::from_secs(25));
        assert_eq!(said, "after 25 s: run …");
        drop(progress);
        assert!(lock(&shared).ended);
        let line = State::default().line(Duration::from_secs(50));
        assert_eq!(line, "after 50 s: at work");
        let behind = fsage_profile::Left {
            eta_s: Some(64.0),
            own_s: 4.0,
            ..fsage_profile::Left::default()
        };
        let words = |since_s| Remaining::Of(behind).words(since_s);
        assert_eq!(words(0.0), "about 64 s left");
        assert_eq!(words(14.0), "behind, about 3 min 40 s left");
        let unknown = Remaining::Of(fsage_profile::Left::default());
        assert_eq!(unknown.words(500.0), "");
        assert_eq!(left(0.2), "nearly done");
        assert_eq!(left(24.0), "about 24 s left");
    }

    #[test]
    fn a_bar_shows_what_is_left_at_the_end_of_its_line() {
        let of = fsage_profile::Left {
            eta_s: Some(64.0),
            own_s: 100.0,
            behind: true,
            ..fsage_profile::Left::default()
        };
        let doing = Doing {
            message: "fsyncs of several threads".into(),
            remaining: Remaining::Of(of),
            estimated: Instant::now(),
        };
        let line = doing.line(60, false);
        let middle = " ".repeat(60 - 25 - 23);
        let whole = format!("fsyncs of several threads{middle}behind, about 64 s left");
        assert_eq!(line, whole);
        assert_eq!(doing.line(32, false), "fsyncs … behind, about 64 s left");
        let ending = format!("fsyncs of several threads {ENDING}");
        assert_eq!(doing.line(26 + ENDING.len(), true), ending);
    }

    #[test]
    fn a_message_ends_between_words_and_with_its_numbers_whole() {
        let text = "reads of 16.4 MiB by 2 threads";
        assert_eq!(fitted(text, 80), text);
        for columns in 0..text.len() {
            let fitted = fitted(text, columns);
            assert!(fitted.chars().count() <= columns, "{columns}: {fitted}");
            let words = fitted.trim_end_matches(['…', ' ']);
            let rest = text.strip_prefix(words).unwrap();
            assert!(words.is_empty() || rest.starts_with(' '), "{fitted}");
            assert!(!words.ends_with("16.4"), "{fitted}");
        }
    }
}
