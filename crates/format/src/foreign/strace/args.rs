//! The arguments of a call as strace prints them: strings with C escapes, descriptors with paths,
//! flags by name, structures.

use super::symbols;

/// One argument as printed, without the blanks around it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Arg<'a>(pub &'a [u8]);

/// What `-y` says about a descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FdName {
    /// A file by its absolute path.
    Path {
        /// The path.
        path: Vec<u8>,
        /// Whether its last name is gone.
        deleted: bool,
    },
    /// A pipe, socket, anonymous inode or device.
    NotAFile,
}

impl<'a> Arg<'a> {
    /// A string's bytes and whether strace cut it short (`"…"...`).
    pub fn string(self) -> Option<(Vec<u8>, bool)> {
        let body = self.0.strip_prefix(b"\"")?;
        let (bytes, used) = unescape(body, b'"')?;
        Some((
            bytes,
            body.get(used..)
                .is_some_and(|rest| rest.starts_with(b"...")),
        ))
    }

    /// A number: decimal, octal with a leading 0, or hexadecimal.
    pub fn int(self) -> Option<i64> {
        let text = self.0;
        let text = text.strip_prefix(b"[").unwrap_or(text);
        let end = text
            .iter()
            .position(|&b| matches!(b, b' ' | b']' | b'<' | b'*'))
            .unwrap_or(text.len());
        parse_int(&text[..end])
    }

    /// A number that cannot be negative.
    pub fn size(self) -> Option<u64> {
        self.int().and_then(|value| u64::try_from(value).ok())
    }

    /// A descriptor and what is known of it; `AT_FDCWD` is `None` in the first place.
    pub fn fd(self) -> Option<(Option<i32>, Option<FdName>)> {
        let at = self
            .0
            .iter()
            .position(|&b| b == b'<')
            .unwrap_or(self.0.len());
        let (word, tail) = self.0.split_at(at);
        let fd = if word == b"AT_FDCWD" {
            None
        } else {
            let value = parse_int(word.trim_ascii())?;
            // A descriptor that was never one is printed as an unsigned number.
            Some(i32::try_from(value).unwrap_or(value as u32 as i32))
        };
        Some((fd, fd_name(tail)))
    }

    /// Flags by name and number, joined by `|`; unknown names count as 0.
    pub fn flags(self) -> u32 {
        let text = self.0.split(|&b| b == b' ').next().unwrap_or(self.0);
        text.split(|&b| b == b'|').fold(0, |sum, word| {
            let value = std::str::from_utf8(word).ok().and_then(symbols::value);
            sum | value
                .or_else(|| parse_int(word).map(|v| v as u32))
                .unwrap_or(0)
        })
    }

    /// The value of `name=` in a structure (its first occurrence) or in a named argument.
    pub fn field(self, name: &str) -> Option<Arg<'a>> {
        let name = name.as_bytes();
        let mut from = 0;
        while let Some(at) = self
            .0
            .get(from..)?
            .windows(name.len())
            .position(|w| w == name)
        {
            let start = from + at;
            let end = start + name.len();
            let before = start.checked_sub(1).and_then(|i| self.0.get(i));
            if self.0.get(end) == Some(&b'=') && before.is_none_or(|b| b" {,".contains(b)) {
                let tail = &self.0[end + 1..];
                let stop = tail
                    .iter()
                    .position(|&b| matches!(b, b',' | b'}' | b' '))
                    .unwrap_or(tail.len());
                return Some(Arg(&tail[..stop]));
            }
            from = end;
        }
        None
    }

    /// The sum of `iov_len` over the elements that strace printed, `None` if there is none.
    pub fn iov_bytes(self) -> Option<u64> {
        let mut sum = None;
        let mut rest = self.0;
        let key = b"iov_len=";
        while let Some(at) = rest.windows(key.len()).position(|w| w == key) {
            rest = &rest[at + key.len()..];
            let end = rest
                .iter()
                .position(|b| !b.is_ascii_digit())
                .unwrap_or(rest.len());
            let length = parse_decimal(&rest[..end])?;
            sum = Some(sum.unwrap_or(0u64).saturating_add(length));
        }
        sum
    }

    /// Whether the argument is `NULL`.
    pub fn is_null(self) -> bool {
        self.0 == b"NULL" || self.0.is_empty()
    }
}

/// What stands behind a descriptor's number: `</path>`, `</path>(deleted)`, `<pipe:[1]>`, …
pub(super) fn fd_name(tail: &[u8]) -> Option<FdName> {
    let body = tail.strip_prefix(b"<")?;
    let end = annotation_end(body)?;
    let (inner, after) = (&body[..end], &body[end + 1..]);
    let mut deleted = after.starts_with(b"(deleted)");
    let mut name = inner;
    for mark in [&b"<deleted>"[..], b" (deleted)"] {
        if let Some(head) = name.strip_suffix(mark) {
            (name, deleted) = (head, true);
        }
    }
    // -yy puts the kind of device behind its path.
    let device = name.windows(6).any(|w| w == b"<char " || w == b"<block");
    let (path, _) = unescape(name, 0)?;
    // Memory under a name that no directory has.
    let in_memory = deleted && (path.starts_with(b"/memfd:") || path.starts_with(b"/SYSV"));
    if device || in_memory || is_device(&path) || !path.starts_with(b"/") {
        return Some(FdName::NotAFile);
    }
    Some(FdName::Path { path, deleted })
}

/// Whether a path names a device by where it lies.
pub(super) fn is_device(path: &[u8]) -> bool {
    path.starts_with(b"/dev/") && !path.starts_with(b"/dev/shm/")
}

/// Where the `>` stands that closes an annotation (strace escapes those within a path).
fn annotation_end(body: &[u8]) -> Option<usize> {
    let mut depth = 0;
    // A path may end so.
    let socket = !body.starts_with(b"/");
    for (at, &byte) in body.iter().enumerate() {
        match byte {
            b'<' => depth += 1,
            // `->` stands between the addresses of a socket.
            b'>' if socket && at > 0 && body[at - 1] == b'-' => {}
            b'>' if depth == 0 => return Some(at),
            b'>' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Splits the text behind `(` at its top-level commas. Returns the arguments and how many bytes
/// they and the closing `)` take; `None` if nothing closes.
pub(super) fn split_args(text: &[u8]) -> Option<(Vec<Arg<'_>>, usize)> {
    let mut args = Vec::new();
    let (mut depth, mut start, mut at) = (0u32, 0, 0);
    loop {
        match *text.get(at)? {
            b'"' => {
                let (_, used) = unescape(text.get(at + 1..)?, b'"')?;
                at += used;
            }
            b'/' if text.get(at + 1) == Some(&b'*') => {
                let rest = text.get(at + 2..)?;
                at += 3 + rest.windows(2).position(|w| w == b"*/")?;
            }
            b'<' if is_annotation(text, at) => {
                at += 1 + annotation_end(text.get(at + 1..)?)?;
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' if depth == 0 => {
                push_arg(&mut args, &text[start..at]);
                return Some((args, at + 1));
            }
            b')' | b']' | b'}' => depth = depth.checked_sub(1)?,
            b',' if depth == 0 => {
                push_arg(&mut args, &text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
}

fn push_arg<'a>(args: &mut Vec<Arg<'a>>, text: &'a [u8]) {
    let text = text.trim_ascii();
    if !(text.is_empty() && args.is_empty()) {
        args.push(Arg(text));
    }
}

fn is_annotation(text: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|i| text.get(i));
    let after = text.get(at + 1);
    before.is_some_and(|b| b.is_ascii_digit() || *b == b'D') && after != Some(&b'<')
}

/// Undoes C escapes up to `end` (0: the whole text). Returns the bytes and how many bytes of text
/// they took with the end mark; `None` if the end mark is missing or an escape is broken.
fn unescape(text: &[u8], end: u8) -> Option<(Vec<u8>, usize)> {
    let mut bytes = Vec::new();
    let mut at = 0;
    loop {
        let Some(&byte) = text.get(at) else {
            return (end == 0).then_some((bytes, at));
        };
        at += 1;
        if end != 0 && byte == end {
            return Some((bytes, at));
        }
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let &code = text.get(at)?;
        at += 1;
        match code {
            b'n' => bytes.push(b'\n'),
            b't' => bytes.push(b'\t'),
            b'r' => bytes.push(b'\r'),
            b'v' => bytes.push(11),
            b'f' => bytes.push(12),
            b'x' => {
                let digits = text.get(at..at + 2)?;
                bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
                at += 2;
            }
            b'0'..=b'7' => {
                let mut value = u32::from(code - b'0');
                let mut digits = 1;
                while digits < 3
                    && let Some(&digit @ b'0'..=b'7') = text.get(at)
                {
                    value = value * 8 + u32::from(digit - b'0');
                    at += 1;
                    digits += 1;
                }
                bytes.push(value as u8);
            }
            other => bytes.push(other),
        }
    }
}

/// Writes bytes as strace does, with a three-digit octal escape for everything unprintable, so that
/// no digit that follows can be taken for a part of it.
pub(super) fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b' '..=b'~' if byte != b'<' && byte != b'>' => out.push(byte),
            _ => out.extend_from_slice(&[
                b'\\',
                b'0' + (byte >> 6),
                b'0' + ((byte >> 3) & 7),
                b'0' + (byte & 7),
            ]),
        }
    }
}

/// A decimal number without a sign.
pub(super) fn parse_decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A number as strace prints it. Values above `i64::MAX` keep their bits.
pub(super) fn parse_int(text: &[u8]) -> Option<i64> {
    if let Some(digits) = text.strip_prefix(b"-") {
        return i64::try_from(parse_decimal(digits)?)
            .ok()
            .map(|value| -value);
    }
    let radix = |digits: &[u8], radix| {
        let digits = std::str::from_utf8(digits).ok()?;
        if digits.starts_with('+') {
            None
        } else {
            u64::from_str_radix(digits, radix).ok()
        }
    };
    if let Some(digits) = text.strip_prefix(b"0x") {
        return radix(digits, 16).map(|value| value as i64);
    }
    match text.strip_prefix(b"0") {
        Some(digits) if !digits.is_empty() => radix(digits, 8).map(|value| value as i64),
        _ => parse_decimal(text).map(|value| value as i64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_split_at_the_top_level_only() {
        let text = b"3</a, (b>, \"x, )\\\"\"..., {a=[1, 2], b=3}, 0x1 /* 2 vars, ) */, A|B) = 0";
        let (args, used) = split_args(text).unwrap();
        assert_eq!(args.len(), 5);
        assert_eq!(args[1].string(), Some((b"x, )\"".to_vec(), true)));
        assert_eq!(args[2].field("b").and_then(Arg::int), Some(3));
        assert_eq!(&text[used..], b" = 0");
        assert_eq!(
            split_args(b") = 0").map(|(args, used)| (args.len(), used)),
            Some((0, 1))
        );
        assert!(split_args(b"1, \"abc").is_none());
    }

    #[test]
    fn descriptors_carry_their_paths() {
        let path = |p: &[u8], deleted| {
            Some(FdName::Path {
                path: p.to_vec(),
                deleted,
            })
        };
        assert_eq!(
            Arg(b"3</a\\74b\\76>").fd(),
            Some((Some(3), path(b"/a<b>", false)))
        );
        assert_eq!(Arg(b"AT_FDCWD</x>").fd(), Some((None, path(b"/x", false))));
        let kept = Arg(b"4</etc/passwd->").fd();
        assert_eq!(kept, Some((Some(4), path(b"/etc/passwd-", false))));
        for gone in [
            &b"4</x>(deleted)"[..],
            b"4</x<deleted>>",
            b"4</x (deleted)>",
        ] {
            assert_eq!(Arg(gone).fd(), Some((Some(4), path(b"/x", true))));
        }
        for other in [
            &b"0</dev/pts/0>"[..],
            b"0<pipe:[12]>",
            b"0<socket:[1]>",
            b"0</x<char 1:3>>",
            b"5<TCP:[1.2.3.4:5->6.7.8.9:10]>",
            b"5<anon_inode:[eventpoll]>",
        ] {
            assert!(matches!(
                Arg(other).fd(),
                Some((Some(_), Some(FdName::NotAFile)))
            ));
        }
        assert_eq!(Arg(b"-1").fd(), Some((Some(-1), None)));
    }

    #[test]
    fn escaping_undoes_itself() {
        let all: Vec<u8> = (0..=255).chain(*b"1\x012\x009").collect();
        let mut text = vec![b'"'];
        escape(&all, &mut text);
        text.push(b'"');
        assert_eq!(Arg(&text).string(), Some((all, false)));
        assert_eq!(
            Arg(b"\"\\x41\\1012\\7\"").string(),
            Some((b"AA2\x07".to_vec(), false))
        );
    }

    #[test]
    fn numbers_in_all_radixes() {
        assert_eq!(parse_int(b"0644"), Some(0o644));
        assert_eq!(parse_int(b"0x10"), Some(16));
        assert_eq!(parse_int(b"-100"), Some(-100));
        assert_eq!(parse_int(b"18446744073709551615"), Some(-1));
        assert_eq!(parse_int(b"08"), None);
        assert_eq!(Arg(b"[4096] => [8192]").int(), Some(4096));
        assert_eq!(Arg(b"O_RDWR|O_CREAT|0x1000").flags(), 2 | 0o100 | 0x1000);
        assert_eq!(
            Arg(b"[{iov_base=\"\", iov_len=5}, {iov_base=\"\", iov_len=6}]").iov_bytes(),
            Some(11)
        );
    }
}
