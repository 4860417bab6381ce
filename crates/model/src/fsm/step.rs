//! One step of a visit, and how it is written: `read at=next bytes=4096 times=3`.

use std::fmt;
use std::str::FromStr;

use fsage_core::{Errno, KindClass, OpKind};

use fsage_namespace::flags::AT_SYMLINK_NOFOLLOW;

use super::dist::Dist;
use super::resolve::OPEN_FLAGS;

/// Where a transfer starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum At {
    /// No matter, as of everything that transfers nothing.
    #[default]
    None,
    /// Where the transfer before ended; at first the file's start.
    Next,
    /// Where the transfer before started.
    Again,
    /// At the file's start.
    Start,
    /// At the file's end, or beyond it as `place` tells.
    End,
    /// So many bytes behind where the transfer before ended, or before it.
    Skip(i64),
    /// So many bytes behind the file's start, as `place` tells.
    From,
    /// So many bytes before the file's end, as `place` tells.
    Back,
    /// Anywhere.
    Random,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::Next => f.write_str("next"),
            Self::Again => f.write_str("again"),
            Self::Start => f.write_str("start"),
            Self::End => f.write_str("end"),
            Self::Skip(bytes) => write!(f, "{bytes:+}"),
            Self::From => f.write_str("from"),
            Self::Back => f.write_str("back"),
            Self::Random => f.write_str("random"),
        }
    }
}

impl FromStr for At {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "next" => Self::Next,
            "again" => Self::Again,
            "start" => Self::Start,
            "end" => Self::End,
            "from" => Self::From,
            "back" => Self::Back,
            "random" => Self::Random,
            _ => Self::Skip(
                text.parse()
                    .ok()
                    .filter(|_| text.starts_with(['+', '-']))
                    .ok_or_else(|| {
                        format!(
                            "'{text}', expected next, again, start, end, from, back, random, +BYTES or -BYTES"
                        )
                    })?,
            ),
        })
    }
}

/// What a step is; of two that differ in nothing but numbers it is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Form {
    /// The operation.
    pub kind: OpKind,
    /// The flags of the call.
    pub flags: u32,
    /// The error with which it failed, 0 for none.
    pub error: i32,
    /// Where it starts.
    pub at: At,
    /// Whether the offset is an argument of the call, and not the descriptor's own position.
    pub explicit: bool,
    /// Whether it goes on until the file's end, and how many more calls then find nothing.
    pub to_end: Option<u8>,
    /// How much is asked of each call where that is always the same.
    pub bytes: Option<u64>,
    /// Of how large files it is, in powers of two, where a trace is told: what moves much and what moves little are
    /// two. Not part of a model.
    pub magnitude: u8,
}

impl Form {
    /// A step that transfers nothing.
    pub fn plain(kind: OpKind, flags: u32, error: i32) -> Self {
        Self {
            kind,
            flags,
            error,
            at: At::None,
            explicit: false,
            to_end: None,
            bytes: None,
            magnitude: 0,
        }
    }

    /// The same step of a file of any size.
    pub fn of_any_file(self) -> Self {
        Self {
            magnitude: 0,
            ..self
        }
    }

    /// The same, whatever it moves.
    pub fn of_any_size(self) -> Self {
        Self {
            bytes: None,
            to_end: None,
            ..self.of_any_file()
        }
    }

    /// Whether data comes out of the file.
    pub fn is_read(&self) -> bool {
        use OpKind::{CopyIn, Read, Sendfile, SpliceIn};
        matches!(self.kind, Read | CopyIn | Sendfile | SpliceIn)
    }

    /// Whether data goes into the file.
    pub fn is_write(&self) -> bool {
        match self.kind {
            OpKind::Fault => self.flags & 1 != 0,
            kind => matches!(kind, OpKind::Write | OpKind::CopyOut | OpKind::SpliceOut),
        }
    }
}

/// The magnitude of a size, in powers of two.
pub fn magnitude(bytes: u64) -> u8 {
    (64 - bytes.leading_zeros()) as u8
}

/// One step of a visit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisitStep {
    /// What it is.
    pub form: Form,
    /// How often it is repeated. Of one that goes on until the file's end: how many calls that takes; none where that is
    /// not told.
    pub times: Dist,
    /// How many bytes each call is about.
    pub bytes: Dist,
    /// Where in the file, of a step at random: 0 where it was not yet, N + 1 for the place since which N others
    /// were used. Of one that is told by the start or the end: how far from it, bytes.
    pub place: Dist,
    /// What the places are a multiple of, bytes.
    pub unit: u64,
    /// Of one that goes on until the file's end: how many bytes it reads; none where that is not told.
    pub reads: Dist,
}

impl fmt::Display for VisitStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = &self.form;
        f.write_str(form.kind.name())?;
        if form.flags != 0 {
            write!(f, " flags={:#x}", form.flags)?;
        }
        if form.error != 0 {
            match Errno(form.error).symbol() {
                Some(symbol) => write!(f, " error={symbol}")?,
                None => write!(f, " error={}", form.error)?,
            }
        }
        if form.at != At::None {
            write!(f, " at={}", form.at)?;
        }
        if form.explicit {
            f.write_str(" offset=given")?;
        }
        if !self.bytes.0.is_empty() {
            write!(f, " bytes={}", self.bytes)?;
        }
        match form.to_end {
            Some(more) => {
                write!(f, " until=end+{more}")?;
                if !self.reads.is_empty() {
                    write!(f, " reads={}", self.reads)?;
                }
                if !self.times.is_empty() {
                    write!(f, " times={}", self.times)?;
                }
            }
            None if !self.times.is_only(1) => write!(f, " times={}", self.times)?,
            None => {}
        }
        let beyond = form.at == At::End && !self.place.is_only(0);
        let placed = beyond || matches!(form.at, At::From | At::Back | At::Random);
        if placed && !self.place.0.is_empty() {
            write!(f, " place={}", self.place)?;
        }
        if form.at == At::Random {
            write!(f, " unit={}", self.unit)?;
        }
        Ok(())
    }
}

/// `WORD KEY=VALUE …`, taken apart key by key.
pub struct Fields<'t> {
    /// What stands before the first key.
    pub head: &'t str,
    rest: Vec<(&'t str, &'t str)>,
}

impl<'t> Fields<'t> {
    /// The fields of a text.
    pub fn of(text: &'t str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let head = words.next().ok_or("it is empty")?;
        let pair = |word: &'t str| {
            word.split_once('=')
                .ok_or_else(|| format!("'{word}', expected KEY=VALUE"))
        };
        let rest = words.map(pair).collect::<Result<_, _>>()?;
        Ok(Self { head, rest })
    }

    /// Takes the value of a key.
    pub fn take(&mut self, key: &str) -> Option<&'t str> {
        let at = self.rest.iter().position(|(k, _)| *k == key)?;
        Some(self.rest.remove(at).1)
    }

    /// The same, read.
    pub fn parse<T: FromStr<Err: fmt::Display>>(&mut self, key: &str) -> Result<Option<T>, String> {
        let read = |text: &str| text.parse().map_err(|e| format!("{key}={text}: {e}"));
        self.take(key).map(read).transpose()
    }

    /// Nothing may be left.
    pub fn end(self) -> Result<(), String> {
        match self.rest.first() {
            Some((key, _)) => Err(format!("the key '{key}' is unknown here, or stands twice")),
            None => Ok(()),
        }
    }
}

impl FromStr for VisitStep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut fields = Fields::of(text)?;
        let kind = OpKind::from_name(fields.head)
            .filter(|kind| kind.class() != KindClass::Process)
            .ok_or_else(|| format!("'{}' is no operation on files", fields.head))?;
        let flags = match fields.take("flags") {
            None => 0,
            Some(text) => {
                let hex = text
                    .strip_prefix("0x")
                    .and_then(|h| u32::from_str_radix(h, 16).ok());
                hex.or_else(|| text.parse().ok())
                    .ok_or_else(|| format!("flags={text}, expected a number"))?
            }
        };
        let error = match fields.take("error") {
            None => 0,
            Some(text) => {
                let symbol = Errno::from_symbol(text)
                    .map(|e| e.0)
                    .or_else(|| text.parse().ok());
                symbol
                    .filter(|e| (0..4096).contains(e))
                    .ok_or_else(|| format!("error={text}, expected an error such as ENOENT"))?
            }
        };
        let at = fields.parse("at")?.unwrap_or_default();
        let explicit = match fields.take("offset") {
            None => false,
            Some("given") => true,
            Some(text) => return Err(format!("offset={text}, expected given")),
        };
        let bytes: Dist = fields.parse("bytes")?.unwrap_or_default();
        let to_end = match fields.take("until") {
            None => None,
            Some(text) => {
                let more = text.strip_prefix("end+").and_then(|n| n.parse().ok());
                Some(more.ok_or_else(|| format!("until={text}, expected end+N"))?)
            }
        };
        // Of what goes on to the end it may be left open.
        let once = to_end.map_or_else(|| Dist(vec![(1, 1)]), |_: u8| Dist::default());
        let times = fields.parse("times")?.unwrap_or(once);
        let place = fields.parse("place")?.unwrap_or_default();
        let unit = fields.parse("unit")?.unwrap_or(1);
        let reads: Dist = fields.parse("reads")?.unwrap_or_default();
        fields.end()?;
        let one = match bytes.0.as_slice() {
            [(one, _)] => Some(*one),
            _ => None,
        };
        let form = Form {
            kind,
            flags,
            error,
            at,
            explicit,
            to_end,
            bytes: one,
            magnitude: 0,
        };
        let step = Self {
            form,
            times,
            bytes,
            place,
            unit,
            reads,
        };
        step.check().map(|()| step)
    }
}

/// Sizes and offsets beyond this fill any target.
pub const LARGEST: u64 = 1 << 40;

/// The errors of calls by name that the state of the files gives.
const ERRORS: [i32; 7] = [2, 17, 20, 21, 36, 39, 40];

impl Form {
    /// Flags and errors are those that a model can play.
    fn check(&self) -> Result<(), String> {
        let kind = self.kind.name();
        let can_be = match self.kind {
            OpKind::Open => OPEN_FLAGS,
            OpKind::Stat => AT_SYMLINK_NOFOLLOW,
            OpKind::Fault | OpKind::Readdir | OpKind::Close => 1,
            _ => u32::MAX,
        };
        if self.flags & !can_be != 0 {
            return Err(format!(
                "{kind}: flags={:#x}, expected some of {can_be:#x}",
                self.flags
            ));
        }
        let by_name = self.kind.class() == KindClass::Name;
        let can_fail = match self.error {
            0 => true,
            // As a file system has none is its own affair.
            _ if is_xattr(self.kind) => true,
            22 => self.kind == OpKind::Readlink,
            error => by_name && ERRORS.contains(&error),
        };
        if can_fail {
            return Ok(());
        }
        let shown = |error: i32| match Errno(error).symbol() {
            Some(symbol) => symbol.to_owned(),
            None => error.to_string(),
        };
        let expected = if by_name {
            ERRORS.map(shown).join(", ")
        } else {
            "none".to_owned()
        };
        Err(format!(
            "{kind}: error={}, expected {expected}",
            shown(self.error)
        ))
    }
}

/// Whether a call is about extended attributes.
pub(super) fn is_xattr(kind: OpKind) -> bool {
    use OpKind::{Getxattr, Listxattr, Removexattr, Setxattr};
    matches!(kind, Setxattr | Getxattr | Listxattr | Removexattr)
}

impl VisitStep {
    fn check(&self) -> Result<(), String> {
        let kind = self.form.kind.name();
        self.form.check()?;
        if self.bytes.most() > LARGEST {
            return Err(format!(
                "{kind}: bytes of {}, expected at most {LARGEST}",
                self.bytes.most()
            ));
        }
        if self.times.0.iter().any(|t| t.0 == 0) {
            return Err(format!("{kind}: 0 times, expected at least 1"));
        }
        if self.times.most() > 1 << 30 {
            return Err(format!(
                "{kind}: {} times, expected at most {}",
                self.times.most(),
                1 << 30
            ));
        }
        let ends = self.form.is_read()
            && matches!(self.form.at, At::None | At::Next)
            && self.bytes.0.iter().all(|b| b.0 > 0);
        if self.form.to_end.is_some() && !ends {
            return Err(format!(
                "{kind}: until the end, expected a read at=next of at least 1 byte"
            ));
        }
        if !self.reads.is_empty() && self.form.to_end.is_none() || self.reads.most() > LARGEST {
            return Err(format!(
                "{kind}: reads={}, expected at most {LARGEST}, of a read until=end",
                self.reads
            ));
        }
        if self.unit == 0 || self.unit > LARGEST {
            return Err(format!(
                "{kind}: unit={}, expected 1 to {LARGEST}",
                self.unit
            ));
        }
        let by_place = matches!(self.form.at, At::From | At::Back | At::End);
        if by_place && self.place.most() > LARGEST {
            return Err(format!(
                "{kind}: place={}, expected at most {LARGEST}",
                self.place
            ));
        }
        if let At::Skip(bytes) = self.form.at
            && bytes.unsigned_abs() > LARGEST
        {
            return Err(format!("{kind}: at={bytes:+}, expected at most {LARGEST}"));
        }
        Ok(())
    }
}
