//! One line of strace's output, taken apart: who, when, what. Says nothing about what a call means.

use super::args::{Arg, split_args};

/// A line whose shape was recognised.
#[derive(Debug, PartialEq)]
pub(super) struct Line<'a> {
    /// The thread, where the line names one.
    pub tid: Option<u32>,
    /// When, in nanoseconds on the text's own clock; `None` where the line carries no time.
    pub time_ns: Option<u64>,
    /// What happened.
    pub event: Event<'a>,
}

/// What a line reports.
#[derive(Debug, PartialEq)]
pub(super) enum Event<'a> {
    /// A whole call: `name(arguments) = result <latency>`.
    Call(&'a [u8]),
    /// The first part of a call that another thread's line interrupted: `name(arguments`.
    Unfinished(&'a [u8]),
    /// The rest of it.
    Resumed {
        /// The call's name.
        name: &'a str,
        /// What follows `resumed>`.
        rest: &'a [u8],
    },
    /// `+++ exited with N +++`.
    Exited(i64),
    /// `+++ killed by SIG +++`; the exit code as a shell would give it is not in the text.
    Killed,
    /// `+++ superseded by execve in pid N +++`.
    Superseded(u32),
    /// A signal, or strace speaking of itself.
    Other,
}

/// A whole call, taken apart.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub name: &'a str,
    pub args: Vec<Arg<'a>>,
    pub ret: Ret<'a>,
    pub latency_ns: Option<u64>,
}

/// What a call returned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Ret<'a> {
    /// A value, and what strace printed after it (a descriptor's path, for instance).
    Value(i64, &'a [u8]),
    /// An error by its symbol.
    Error(&'a str),
    /// `?`: the call did not return, or will be restarted (then with the symbol `ERESTART…`).
    Unknown(Option<&'a str>),
}

/// What is said of the times of `strace -r`. They cannot be added up: with `-ff` they are since a line of another file.
pub(super) const SINCE_THE_EPOCH: &str =
    "times since the epoch as `strace -ttt` writes them, not since the line before (`strace -r`)";

/// Recognises a line. The error says what was expected.
pub(super) fn parse_line(line: &[u8]) -> Result<Line<'_>, &'static str> {
    if line.starts_with(b"strace: ") {
        return Ok(Line {
            tid: None,
            time_ns: None,
            event: Event::Other,
        });
    }
    let (tid, rest) = take_tid(line);
    if is_relative(line, rest) {
        return Err(SINCE_THE_EPOCH);
    }
    let (time_ns, rest) =
        take_time(rest).ok_or("a time in seconds with a fraction, as `strace -ttt` writes it")?;
    let event = parse_event(rest)?;
    Ok(Line {
        tid,
        time_ns: Some(time_ns),
        event,
    })
}

fn parse_event(text: &[u8]) -> Result<Event<'_>, &'static str> {
    if let Some(rest) = text.strip_prefix(b"+++ ") {
        return Ok(parse_end(rest));
    }
    if text.starts_with(b"--- ") || text.starts_with(b"strace: ") {
        return Ok(Event::Other);
    }
    if let Some(rest) = text.strip_prefix(b"<... ") {
        let end = find(rest, b" resumed>").ok_or("`<... NAME resumed>`")?;
        let name = std::str::from_utf8(&rest[..end]).map_err(|_| "a call's name")?;
        return Ok(Event::Resumed {
            name,
            rest: &rest[end + b" resumed>".len()..],
        });
    }
    let open = text
        .iter()
        .position(|&b| b == b'(')
        .ok_or("`NAME(ARGUMENTS) = RESULT`")?;
    if !is_name(&text[..open]) {
        return Err("a call's name before `(`");
    }
    for mark in [&b"<unfinished ...>"[..], b"<detached ...>"] {
        if let Some(head) = text.strip_suffix(mark) {
            return Ok(Event::Unfinished(head.strip_suffix(b" ").unwrap_or(head)));
        }
    }
    Ok(Event::Call(text))
}

fn parse_end(rest: &[u8]) -> Event<'_> {
    let text = std::str::from_utf8(rest).unwrap_or("");
    let word = |prefix: &str| {
        text.strip_prefix(prefix)
            .and_then(|tail| tail.split_whitespace().next())
    };
    if let Some(code) = word("exited with ").and_then(|w| w.parse().ok()) {
        Event::Exited(code)
    } else if let Some(tid) = word("superseded by execve in pid ").and_then(|w| w.parse().ok()) {
        Event::Superseded(tid)
    } else if text.starts_with("killed by ") {
        Event::Killed
    } else {
        Event::Other
    }
}

/// Takes a whole call apart. The error says what was expected.
pub(super) fn parse_call(text: &[u8]) -> Result<Call<'_>, &'static str> {
    let open = text
        .iter()
        .position(|&b| b == b'(')
        .ok_or("`(` after the call's name")?;
    let name = std::str::from_utf8(&text[..open]).map_err(|_| "a call's name")?;
    if !is_name(name.as_bytes()) {
        return Err("a call's name before `(`");
    }
    let (args, used) = split_args(&text[open + 1..]).ok_or("`)` that ends the arguments")?;
    let rest = trim(&text[open + 1 + used..]);
    let rest = trim(
        rest.strip_prefix(b"=")
            .ok_or("`= RESULT` after the arguments")?,
    );
    let (rest, latency_ns) = take_latency(rest)?;
    Ok(Call {
        name,
        args,
        ret: parse_ret(rest)?,
        latency_ns,
    })
}

fn parse_ret(text: &[u8]) -> Result<Ret<'_>, &'static str> {
    let (word, tail) = match text.iter().position(|&b| b == b' ' || b == b'<') {
        Some(at) => (&text[..at], &text[at..]),
        None => (text, &b""[..]),
    };
    let symbol = |tail: &'_ [u8]| -> Option<usize> {
        let tail = tail.strip_prefix(b" ")?;
        let end = tail.iter().position(|&b| b == b' ').unwrap_or(tail.len());
        tail.first()
            .is_some_and(u8::is_ascii_uppercase)
            .then_some(end)
    };
    let name = symbol(tail)
        .and_then(|end| tail.get(1..=end))
        .and_then(|name| std::str::from_utf8(name).ok());
    if word == b"?" {
        return Ok(Ret::Unknown(name));
    }
    let value = super::args::parse_int(word).ok_or("a number or `?` as the result")?;
    match name {
        Some(name) if value == -1 && name.starts_with('E') => Ok(Ret::Error(name)),
        _ => Ok(Ret::Value(value, tail)),
    }
}

/// `<0.000012>` at the end, as -T writes it.
fn take_latency(text: &[u8]) -> Result<(&[u8], Option<u64>), &'static str> {
    let body = text.strip_suffix(b">").and_then(|body| {
        let at = body.iter().rposition(|&b| b == b'<')?;
        Some((&text[..at], &body[at + 1..]))
    });
    let Some((rest, seconds)) = body else {
        return Ok((text, None));
    };
    match parse_seconds(seconds) {
        Some(ns) => Ok((trim(rest), Some(ns))),
        // Behind a blank no file's name stands.
        None if rest.last() == Some(&b' ') && is_number(seconds) => {
            Err("a time in seconds between `<` and `>`")
        }
        None => Ok((text, None)),
    }
}

fn is_number(text: &[u8]) -> bool {
    text.iter().any(u8::is_ascii_digit)
        && text
            .iter()
            .all(|&b| b.is_ascii_digit() || b".+-eE".contains(&b))
}

fn take_tid(line: &[u8]) -> (Option<u32>, &[u8]) {
    let (digits, rest) = if let Some(rest) = line.strip_prefix(b"[pid ") {
        let Some(end) = rest.iter().position(|&b| b == b']') else {
            return (None, line);
        };
        (trim(&rest[..end]), &rest[end + 1..])
    } else {
        let Some(end) = line.iter().position(|&b| b == b' ') else {
            return (None, line);
        };
        (&line[..end], &line[end..])
    };
    // -Y writes the command's name behind the number.
    let digits = digits.split(|&b| b == b'<').next().unwrap_or(digits);
    match super::args::parse_decimal(digits).and_then(|tid| u32::try_from(tid).ok()) {
        Some(tid) => (Some(tid), trim(rest)),
        None => (None, line),
    }
}

/// Whether the time that `rest` begins with is one of `strace -r`: those, and no others, have their seconds in six
/// columns, behind the thread's number in five and a blank.
fn is_relative(line: &[u8], rest: &[u8]) -> bool {
    let at = line.len() - rest.trim_ascii_start().len();
    let Some(before) = line.get(..at) else {
        return false;
    };
    let thread = before.trim_ascii_end().len();
    let column = match before.first() {
        Some(b'[') => thread + 1,
        Some(b) if !b.is_ascii_whitespace() => thread.max(5) + 1,
        _ => 0,
    };
    let dot = line.iter().skip(at).position(|&b| b == b'.');
    at > column && dot.is_some_and(|digits| at + digits == column + 6)
}

fn take_time(text: &[u8]) -> Option<(u64, &[u8])> {
    let text = trim(text);
    let end = text.iter().position(|&b| b == b' ')?;
    Some((parse_seconds(&text[..end])?, trim(&text[end..])))
}

/// `123.456` in nanoseconds; the fraction is required.
pub(super) fn parse_seconds(text: &[u8]) -> Option<u64> {
    let dot = text.iter().position(|&b| b == b'.')?;
    let seconds = super::args::parse_decimal(&text[..dot])?;
    let fraction = &text[dot + 1..];
    if fraction.is_empty() || fraction.len() > 9 {
        return None;
    }
    let scale = 10u64.pow(9 - fraction.len() as u32);
    let fraction = super::args::parse_decimal(fraction)?;
    seconds
        .checked_mul(1_000_000_000)?
        .checked_add(fraction * scale)
}

fn is_name(text: &[u8]) -> bool {
    (1..=64).contains(&text.len())
        && text
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || *b == b'_' || *b == b'#')
}

fn trim(text: &[u8]) -> &[u8] {
    text.trim_ascii()
}

fn find(text: &[u8], needle: &[u8]) -> Option<usize> {
    text.windows(needle.len())
        .position(|window| window == needle)
}

/// Whether a line that no line's end follows is whole for certain: the result of one that is cut may be another number.
pub(super) fn ends(text: &[u8]) -> bool {
    let time = text.strip_suffix(b">").and_then(|text| {
        let from = text.iter().rposition(|&b| b == b'<')?;
        text.get(from + 1..)
    });
    let is_time = |time: &[u8]| time.iter().all(|&b| b == b'.' || b.is_ascii_digit());
    time.is_some_and(is_time)
        || [&b")"[..], b"+++", b"---", b"<unfinished ...>"]
            .iter()
            .any(|end| text.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_of_line_is_recognised() {
        let time = Some(1_700_000_000_123_456_000);
        let line =
            parse_line(b"77    1700000000.123456 read(3</a, b>, \"x)\"..., 4) = 4 <0.000012>");
        let line = line.unwrap();
        assert_eq!((line.tid, line.time_ns), (Some(77), time));
        let Event::Call(text) = line.event else {
            panic!("{line:?}")
        };
        let call = parse_call(text).unwrap();
        assert_eq!(
            (call.name, call.args.len(), call.latency_ns),
            ("read", 3, Some(12_000))
        );
        assert_eq!(call.ret, Ret::Value(4, b""));

        let cases: [(&[u8], Event); 7] = [
            (b"[pid   9] 1.5 +++ exited with 3 +++", Event::Exited(3)),
            (b"1.5 +++ killed by SIGKILL +++", Event::Killed),
            (
                b"9 1.5 +++ superseded by execve in pid 12 +++",
                Event::Superseded(12),
            ),
            (b"9 1.5 --- SIGCHLD {si_signo=SIGCHLD} ---", Event::Other),
            (
                b"9 1.5 read(3,  <unfinished ...>",
                Event::Unfinished(b"read(3, "),
            ),
            (
                b"9 1.5 <... read resumed>\"\", 1) = 0",
                Event::Resumed {
                    name: "read",
                    rest: b"\"\", 1) = 0",
                },
            ),
            (b"strace: Process 10 attached", Event::Other),
        ];
        for (text, event) in cases {
            assert_eq!(
                parse_line(text).unwrap().event,
                event,
                "{}",
                text.escape_ascii()
            );
        }
    }

    #[test]
    fn relative_times_are_told_from_those_since_the_epoch() {
        for text in [
            &b"     0.000000 brk(NULL) = 0x1"[..],
            b"    12.000301 brk(NULL) = 0x1",
            b"11234      0.000301 brk(NULL) = 0x1",
            b"7          0.000301 brk(NULL) = 0x1",
            b"1234567      0.000301 brk(NULL) = 0x1",
            b"[pid 11234]      0.000301 brk(NULL) = 0x1",
        ] {
            assert_eq!(
                parse_line(text),
                Err(SINCE_THE_EPOCH),
                "{}",
                text.escape_ascii()
            );
        }
        for text in [
            &b"0.000000 brk(NULL) = 0x1"[..],
            b"7     0.000301 brk(NULL) = 0x1",
            b"7  1.000301 brk(NULL) = 0x1",
            b"11234 1700000000.000301 brk(NULL) = 0x1",
            b"[pid    77] 1700000000.000301 brk(NULL) = 0x1",
        ] {
            assert!(parse_line(text).is_ok(), "{}", text.escape_ascii());
        }
    }

    #[test]
    fn results_are_told_apart() {
        let ret = |text| parse_call(text).unwrap().ret;
        assert_eq!(
            ret(b"close(3) = -1 EBADF (Bad file descriptor)"),
            Ret::Error("EBADF")
        );
        assert_eq!(
            ret(b"read(0, 0x1, 2) = ? ERESTARTSYS (To be)"),
            Ret::Unknown(Some("ERESTARTSYS"))
        );
        assert_eq!(ret(b"exit_group(0)   = ?"), Ret::Unknown(None));
        assert_eq!(
            ret(b"dup(3) = 4<pipe:[1]> <0.1>"),
            Ret::Value(4, b"<pipe:[1]>")
        );
        assert_eq!(
            ret(b"mmap(0) = 0x7f0000000000"),
            Ret::Value(0x7f00_0000_0000, b"")
        );
    }

    #[test]
    fn what_is_not_strace_is_refused() {
        for text in [
            &b"hello"[..],
            b"",
            b"1.5",
            b"12 hello world",
            b"1.5 hello",
            b"1.5 a b(",
            b"\xff(",
        ] {
            let whole = parse_line(text).and_then(|line| match line.event {
                Event::Call(text) => parse_call(text).map(|_| ()),
                _ => Ok(()),
            });
            assert!(whole.is_err(), "{}", text.escape_ascii());
        }
    }
}
