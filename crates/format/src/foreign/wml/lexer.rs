//! Bytes to tokens.

/// A piece of a script.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// A keyword, a name or a path.
    Word(String),
    /// A whole number, suffix applied.
    Int(i64),
    /// A number with a fraction.
    Real(f64),
    /// `$name`, `${name}`, `$(name)`, and the attribute behind a point if there is one.
    Var(String, Option<String>),
    /// A quoted text.
    Text(String),
    /// One of `{ } ( ) = , + *`.
    Sign(u8),
}

impl Token {
    /// As an error quotes it.
    pub(super) fn shown(&self) -> String {
        match self {
            Token::Word(word) => format!("'{}'", short(word)),
            Token::Int(n) => format!("'{n}'"),
            Token::Real(n) => format!("'{n}'"),
            Token::Var(name, None) => format!("'${}'", short(name)),
            Token::Var(name, Some(attribute)) => {
                format!("'${}.{}'", short(name), short(attribute))
            }
            Token::Text(text) => format!("\"{}\"", short(text)),
            Token::Sign(byte) => format!("'{}'", *byte as char),
        }
    }
}

/// At most 60 characters of a text, for an error.
pub(super) fn short(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// What is wrong, and on which line.
pub(super) type Problem = (u32, String);

/// All tokens of `bytes`, each with its line.
pub(super) fn tokens(bytes: &[u8]) -> Result<Vec<(Token, u32)>, Problem> {
    let mut lexer = Lexer {
        bytes,
        at: 0,
        line: 1,
    };
    let mut out = Vec::new();
    while let Some(token) = lexer.next()? {
        out.push(token);
    }
    Ok(out)
}

struct Lexer<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u32,
}

fn in_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_./:;-".contains(&byte)
}

impl Lexer<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn taken(&mut self, wanted: impl Fn(u8) -> bool) -> String {
        let start = self.at;
        while self.peek().is_some_and(&wanted) {
            self.at += 1;
        }
        let taken = self.bytes.get(start..self.at).unwrap_or_default();
        String::from_utf8_lossy(taken).into_owned()
    }

    fn next(&mut self) -> Result<Option<(Token, u32)>, Problem> {
        loop {
            match self.peek() {
                None => return Ok(None),
                Some(b'\n') => {
                    self.line = self.line.saturating_add(1);
                    self.at += 1;
                }
                Some(b' ' | b'\t' | b'\r' | 0x0b | 0x0c) => self.at += 1,
                Some(b'#') => {
                    self.taken(|b| b != b'\n');
                }
                Some(_) => break,
            }
        }
        let line = self.line;
        let token = match self.peek() {
            None => return Ok(None),
            Some(b'"') => self.text()?,
            Some(b'$') => self.variable()?,
            Some(byte) if b"{}()=,+*".contains(&byte) => {
                self.at += 1;
                Token::Sign(byte)
            }
            Some(byte) if in_word(byte) => self.word()?,
            Some(byte) => {
                let shown = if byte.is_ascii_graphic() {
                    format!("'{}'", byte as char)
                } else {
                    format!("the byte {byte:#04x}")
                };
                return Err((line, format!("{shown} has no meaning in this language")));
            }
        };
        Ok(Some((token, line)))
    }

    /// A quoted text; a backslash takes the next character as it is.
    fn text(&mut self) -> Result<Token, Problem> {
        let line = self.line;
        self.at += 1;
        let mut out = Vec::new();
        loop {
            let Some(byte) = self.peek() else {
                return Err((line, "a quoted text that begins here never ends".to_owned()));
            };
            self.at += 1;
            match byte {
                b'"' => return Ok(Token::Text(String::from_utf8_lossy(&out).into_owned())),
                b'\\' => {
                    if let Some(next) = self.peek() {
                        self.at += 1;
                        self.line = self.line.saturating_add(u32::from(next == b'\n'));
                        out.push(next);
                    }
                }
                _ => {
                    self.line = self.line.saturating_add(u32::from(byte == b'\n'));
                    out.push(byte);
                }
            }
        }
    }

    fn variable(&mut self) -> Result<Token, Problem> {
        let line = self.line;
        self.at += 1;
        let close = match self.peek() {
            Some(b'{') => Some(b'}'),
            Some(b'(') => Some(b')'),
            _ => None,
        };
        self.at += usize::from(close.is_some());
        let named = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        let name = self.taken(named);
        if name.is_empty() {
            return Err((line, "a '$' without the name of a variable".to_owned()));
        }
        let mut attribute = None;
        if self.peek() == Some(b'.') {
            self.at += 1;
            attribute = Some(self.taken(named));
        }
        if let Some(close) = close {
            if self.peek() != Some(close) {
                let close = close as char;
                return Err((
                    line,
                    format!("'${name}' is opened and not closed by '{close}'"),
                ));
            }
            self.at += 1;
        }
        Ok(Token::Var(name, attribute))
    }

    fn word(&mut self) -> Result<Token, Problem> {
        let line = self.line;
        let word = self.taken(in_word);
        let signed = word.strip_prefix('-').unwrap_or(&word);
        if !signed.starts_with(|c: char| c.is_ascii_digit()) {
            return Ok(Token::Word(word));
        }
        let (digits, shift) = match signed.as_bytes().last() {
            Some(b'k' | b'K') => (signed.get(..signed.len() - 1), 10),
            Some(b'm' | b'M') => (signed.get(..signed.len() - 1), 20),
            Some(b'g' | b'G') => (signed.get(..signed.len() - 1), 30),
            Some(b't' | b'T') => (signed.get(..signed.len() - 1), 40),
            _ => (Some(signed), 0),
        };
        let digits = digits.unwrap_or_default();
        if digits.bytes().all(|b| b.is_ascii_digit()) {
            let number = digits
                .parse::<i64>()
                .ok()
                .and_then(|n| n.checked_mul(1 << shift))
                .map(|n| if signed.len() < word.len() { -n } else { n });
            return number.map(Token::Int).ok_or_else(|| {
                let word = short(&word);
                (
                    line,
                    format!("the number '{word}' is out of range, expected less than 2^63"),
                )
            });
        }
        match word.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Token::Real(number)),
            _ => Ok(Token::Word(word)),
        }
    }
}
