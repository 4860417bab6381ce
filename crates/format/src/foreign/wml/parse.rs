//! Tokens to statements.

use super::ast::{
    Assigned, Attribute, Command, Flowop, Operator, QuitMode, Statement, Thread, Value,
};
use super::attributes::Bearer;
use super::lexer::{Problem, Token, short};

/// All statements of a script.
pub(super) fn statements(tokens: Vec<(Token, u32)>) -> Result<Vec<Statement>, Problem> {
    let mut parser = Parser { tokens, at: 0 };
    let mut out = Vec::new();
    while parser.at < parser.tokens.len() {
        let line = parser.line();
        if let Some(command) = parser.statement()? {
            out.push(Statement { line, command });
        }
    }
    Ok(out)
}

/// Commands that leave the workload, each with the reason why it is refused.
const REFUSED: &[(&str, &str)] = &[
    ("system", "it would run a shell command"),
    ("domultisync", "it waits for filebench on other machines"),
    ("fscheck", "it would check a file system"),
    (
        "fsflush",
        "it would flush a file system; caches are made cold before a run",
    ),
    ("foreach", "it repeats whole experiments; use a plan"),
    ("warmup", "it is of filebench 1.3 alone"),
    ("enable_osprof", "it needs a kernel made for it"),
    ("disable_osprof", "it needs a kernel made for it"),
];

struct Parser {
    tokens: Vec<(Token, u32)>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn peek_word(&self) -> Option<&str> {
        match self.peek() {
            Some(Token::Word(word)) => Some(word),
            _ => None,
        }
    }

    /// The line of the next token, or of the last one at the end.
    fn line(&self) -> u32 {
        self.tokens
            .get(self.at)
            .or(self.tokens.last())
            .map_or(1, |(_, line)| *line)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).map(|(token, _)| token.clone());
        self.at += usize::from(token.is_some());
        token
    }

    fn wrong<T>(&self, expected: &str) -> Result<T, Problem> {
        let found = self
            .peek()
            .map_or_else(|| "the end of the file".to_owned(), Token::shown);
        Err((self.line(), format!("{found}, expected {expected}")))
    }

    fn sign(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(&Token::Sign(byte));
        self.at += usize::from(there);
        there
    }

    fn expect(&mut self, byte: u8) -> Result<(), Problem> {
        if self.sign(byte) {
            Ok(())
        } else {
            self.wrong(&format!("'{}'", byte as char))
        }
    }

    fn keyword(&mut self, wanted: &[&str]) -> bool {
        let there = self.peek_word().is_some_and(|word| wanted.contains(&word));
        self.at += usize::from(there);
        there
    }

    fn statement(&mut self) -> Result<Option<Command>, Problem> {
        let line = self.line();
        let Some(word) = self.peek_word().map(str::to_owned) else {
            return self.wrong("a command (set, define, run, …)");
        };
        if let Some((name, reason)) = REFUSED.iter().find(|(name, _)| *name == word) {
            return Err((line, format!("'{name}' is refused: {reason}")));
        }
        self.at += 1;
        match word.as_str() {
            "set" => self.set(),
            "define" => self.define(),
            "eventgen" => {
                let attributes = match self.peek_word() {
                    Some("rate") => self.attributes(Bearer::Eventgen)?,
                    _ => Vec::new(),
                };
                Ok(Some(Command::Eventgen(attributes)))
            }
            "run" => self.optional_value().map(|v| Some(Command::Run(v))),
            "psrun" => {
                // The first value is the period of its reports, the second the time.
                let first = self.optional_value()?;
                let second = self.optional_value()?;
                Ok(Some(Command::Run(second.or(first))))
            }
            "load" => self
                .name("the name of a personality")
                .map(|n| Some(Command::Load(n))),
            "quit" | "exit" => Ok(Some(Command::Quit)),
            _ => self.remark(&word, line).map(Some),
        }
    }

    /// Commands that say something about filebench's own work and change nothing of the workload.
    fn remark(&mut self, word: &str, line: u32) -> Result<Command, Problem> {
        let known = match word {
            "echo" | "usage" => {
                if !matches!(self.peek(), Some(Token::Text(_))) {
                    return self.wrong("a quoted text");
                }
                while matches!(self.peek(), Some(Token::Text(_))) {
                    self.at += 1;
                }
                if word == "echo" { "echo" } else { "usage" }
            }
            "debug" => self.value().map(|_| "debug")?,
            "sleep" => self.value().map(|_| "sleep")?,
            "create" | "shutdown" => {
                if !self.keyword(&[
                    "file",
                    "files",
                    "fileset",
                    "filesets",
                    "process",
                    "processes",
                    "proc",
                    "procs",
                ]) {
                    return self.wrong("files, filesets or processes");
                }
                if word == "create" {
                    "create"
                } else {
                    "shutdown"
                }
            }
            "stats" => self.stats(line)?,
            "list" => {
                self.keyword(&["fileset", "filesets", "flowop"]);
                "list"
            }
            "log" => {
                self.next();
                "log"
            }
            "enable" => {
                if !self.keyword(&["lathist"]) {
                    return self.wrong("lathist (several clients are not supported)");
                }
                "enable"
            }
            "version" => "version",
            "vars" => "vars",
            "help" => "help",
            "nousestats" => "nousestats",
            other => {
                let other = short(other);
                return Err((
                    line,
                    format!("unknown command '{other}', expected set, define, run, …"),
                ));
            }
        };
        Ok(Command::Remark(known))
    }

    /// What follows `stats`.
    fn stats(&mut self, line: u32) -> Result<&'static str, Problem> {
        if !self.keyword(&["clear", "snap"]) {
            if !self.keyword(&["dump", "xmldump", "multidump", "command", "directory"]) {
                return self.wrong("clear, snap, dump, xmldump, multidump, command or directory");
            }
            match self.next() {
                Some(Token::Text(_) | Token::Word(_)) => {}
                _ => return Err((line, "a statistics command without its text".to_owned())),
            }
        }
        Ok("stats")
    }

    fn set(&mut self) -> Result<Option<Command>, Problem> {
        if self.keyword(&["mode"]) {
            return self.mode();
        }
        let line = self.line();
        let Some(Token::Var(name, attribute)) = self.peek().cloned() else {
            return self.wrong("a variable ($name) or mode");
        };
        self.at += 1;
        self.expect(b'=')?;
        if let Some(attribute) = attribute {
            let Some(known) = Bearer::Randvar
                .attribute(&attribute)
                .filter(|a| *a != "name")
            else {
                return Err((line, unknown(Bearer::Randvar, &attribute)));
            };
            let value = Some(self.attribute_value(known)?);
            return Ok(Some(Command::SetAttribute {
                name,
                attribute: Attribute {
                    line,
                    name: known.to_owned(),
                    value,
                },
            }));
        }
        let value = if self.keyword(&["randvar"]) {
            Assigned::Randvar(self.in_parentheses(Bearer::Randvar)?)
        } else if self.keyword(&["cvar"]) {
            Assigned::Cvar(self.in_parentheses(Bearer::Cvar)?)
        } else {
            Assigned::Value(self.value()?)
        };
        Ok(Some(Command::Set { name, value }))
    }

    fn mode(&mut self) -> Result<Option<Command>, Problem> {
        if self.keyword(&["nousestats"]) {
            return Ok(Some(Command::Remark("nousestats")));
        }
        if !self.keyword(&["quit"]) {
            return self.wrong("quit or nousestats");
        }
        let mode = match self.peek_word() {
            Some("timeout") => QuitMode::Timeout,
            Some("alldone") => QuitMode::AllDone,
            Some("firstdone") => QuitMode::FirstDone,
            _ => return self.wrong("timeout, alldone or firstdone"),
        };
        self.at += 1;
        Ok(Some(Command::Mode(mode)))
    }

    fn define(&mut self) -> Result<Option<Command>, Problem> {
        let command = match self.peek_word() {
            Some("file" | "files") => {
                self.at += 1;
                Command::Fileset {
                    single: true,
                    attributes: self.attributes(Bearer::File)?,
                }
            }
            Some("fileset" | "filesets") => {
                self.at += 1;
                Command::Fileset {
                    single: false,
                    attributes: self.attributes(Bearer::Fileset)?,
                }
            }
            Some("process" | "processes" | "proc") => {
                self.at += 1;
                self.process()?
            }
            Some("flowop") => {
                self.at += 1;
                Command::Composite {
                    attributes: self.attributes(Bearer::Composite)?,
                    body: self.flowops()?,
                }
            }
            Some("randvar") => {
                self.at += 1;
                self.randvar()?
            }
            Some("posset") => {
                return Err((
                    self.line(),
                    "'posset' is not supported; use random with a workingset".to_owned(),
                ));
            }
            _ => return self.wrong("file, fileset, process, flowop or randvar"),
        };
        Ok(Some(command))
    }

    fn process(&mut self) -> Result<Command, Problem> {
        let attributes = self.attributes(Bearer::Process)?;
        self.expect(b'{')?;
        let mut threads = Vec::new();
        while !self.sign(b'}') {
            let line = self.line();
            if !self.keyword(&["thread"]) {
                return self.wrong("thread or '}'");
            }
            threads.push(Thread {
                line,
                attributes: self.attributes(Bearer::Thread)?,
                body: self.flowops()?,
            });
        }
        Ok(Command::Process {
            attributes,
            threads,
        })
    }

    fn randvar(&mut self) -> Result<Command, Problem> {
        let line = self.line();
        let mut attributes = self.attributes(Bearer::Randvar)?;
        let at = attributes.iter().position(|a| a.name == "name");
        match at.map(|at| attributes.remove(at).value) {
            Some(Some(Value::Var(name))) => Ok(Command::Set {
                name,
                value: Assigned::Randvar(attributes),
            }),
            _ => Err((line, "a randvar without name=$variable".to_owned())),
        }
    }

    fn flowops(&mut self) -> Result<Vec<Flowop>, Problem> {
        self.expect(b'{')?;
        let mut out = Vec::new();
        while !self.sign(b'}') {
            let line = self.line();
            if !self.keyword(&["flowop"]) {
                return self.wrong("flowop or '}'");
            }
            let kind = self.name("the kind of a flowop")?;
            let attributes = match self.peek() {
                Some(Token::Word(word)) if word != "flowop" => self.attributes(Bearer::Flowop)?,
                Some(Token::Var(..)) => self.attributes(Bearer::Flowop)?,
                _ => Vec::new(),
            };
            out.push(Flowop {
                line,
                kind,
                attributes,
            });
        }
        Ok(out)
    }

    fn name(&mut self, what: &str) -> Result<String, Problem> {
        match self.peek() {
            Some(Token::Word(word) | Token::Text(word)) => {
                let word = word.clone();
                self.at += 1;
                Ok(word)
            }
            _ => self.wrong(what),
        }
    }

    fn in_parentheses(&mut self, bearer: Bearer) -> Result<Vec<Attribute>, Problem> {
        self.expect(b'(')?;
        let attributes = self.attributes(bearer)?;
        self.expect(b')')?;
        Ok(attributes)
    }

    fn attributes(&mut self, bearer: Bearer) -> Result<Vec<Attribute>, Problem> {
        let mut out: Vec<Attribute> = Vec::new();
        loop {
            let attribute = self.attribute(bearer)?;
            if out.iter().any(|a| a.name == attribute.name) {
                let name = &attribute.name;
                return Err((
                    attribute.line,
                    format!("attribute '{name}' of {} is given twice", bearer.name()),
                ));
            }
            out.push(attribute);
            if !self.sign(b',') {
                return Ok(out);
            }
        }
    }

    fn attribute(&mut self, bearer: Bearer) -> Result<Attribute, Problem> {
        let line = self.line();
        let name = match self.peek() {
            Some(Token::Word(word)) => match bearer.attribute(word) {
                Some(known) => known.to_owned(),
                None => return Err((line, unknown(bearer, word))),
            },
            Some(Token::Var(name, None)) if bearer.has_locals() => format!("${name}"),
            _ => return self.wrong(&format!("an attribute of {}", bearer.name())),
        };
        self.at += 1;
        let value = if self.sign(b'=') {
            Some(self.attribute_value(&name)?)
        } else {
            None
        };
        Ok(Attribute { line, name, value })
    }

    fn attribute_value(&mut self, name: &str) -> Result<Value, Problem> {
        if name == "randtable" {
            self.table()
        } else {
            self.value()
        }
    }

    fn table(&mut self) -> Result<Value, Problem> {
        self.expect(b'{')?;
        let mut rows = Vec::new();
        loop {
            self.expect(b'{')?;
            let percent = self.single()?;
            self.expect(b',')?;
            let low = self.single()?;
            self.expect(b',')?;
            let high = self.single()?;
            self.expect(b'}')?;
            rows.push([percent, low, high]);
            if !self.sign(b',') {
                break;
            }
        }
        self.expect(b'}')?;
        Ok(Value::Table(rows))
    }

    /// A value where one follows on the same line.
    fn optional_value(&mut self) -> Result<Option<Value>, Problem> {
        let before = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        let same_line = before.is_some_and(|(_, line)| *line == self.line());
        match self.peek() {
            Some(Token::Int(_) | Token::Real(_) | Token::Var(..)) if same_line => {
                self.single().map(Some)
            }
            _ => Ok(None),
        }
    }

    /// A value, or several joined by signs, taken from left to right.
    fn value(&mut self) -> Result<Value, Problem> {
        let first = self.single()?;
        let mut rest = Vec::new();
        loop {
            let operator = match self.peek() {
                Some(Token::Sign(b'+')) => Operator::Plus,
                Some(Token::Sign(b'*')) => Operator::Times,
                Some(Token::Word(word)) if word == "-" => Operator::Minus,
                Some(Token::Word(word)) if word == "/" => Operator::Over,
                _ => break,
            };
            self.at += 1;
            rest.push((operator, self.single()?));
        }
        Ok(if rest.is_empty() {
            first
        } else {
            Value::Sum(Box::new(first), rest)
        })
    }

    fn single(&mut self) -> Result<Value, Problem> {
        let value = match self.peek() {
            Some(Token::Int(n)) => Value::Int(*n),
            Some(Token::Real(n)) => Value::Real(*n),
            Some(Token::Var(name, None)) => Value::Var(name.clone()),
            Some(Token::Text(text)) => Value::Text(text.clone()),
            Some(Token::Word(word)) => match word.as_str() {
                "true" => Value::Bool(true),
                "false" => Value::Bool(false),
                _ => Value::Text(word.clone()),
            },
            _ => return self.wrong("a value"),
        };
        self.at += 1;
        Ok(value)
    }
}

fn unknown(bearer: Bearer, written: &str) -> String {
    format!(
        "unknown attribute '{}' of {}, expected {}",
        short(written),
        bearer.name(),
        bearer.known().join(", ")
    )
}
