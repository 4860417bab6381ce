//! The kinds of targets that there are.

use std::fmt;
use std::sync::Arc;

use super::named::{NamedSpec, split_name};
use super::{TargetError, TargetSpec};

/// A kind of target: how it is asked for.
pub trait Scheme: Send + Sync {
    /// What its specifications begin with, as `scratch:`; nothing for the one that takes what begins like
    /// none.
    fn prefix(&self) -> &str;

    /// Its form, as `scratch:KIND,…`.
    fn form(&self) -> &str;

    /// What it is, in a line.
    fn help(&self) -> &str;

    /// Reads what follows the prefix. Whether there can be such a target here is not looked at:
    /// [`TargetSpec::check`] does that.
    fn parse(&self, rest: &str, schemes: &Registry) -> Result<Arc<dyn TargetSpec>, TargetError>;
}

/// All kinds of targets that can be asked for.
pub struct Registry {
    fixed: &'static [&'static dyn Scheme],
    more: Vec<Box<dyn Scheme>>,
}

impl Registry {
    /// Those kinds.
    pub const fn new(schemes: &'static [&'static dyn Scheme]) -> Self {
        Self {
            fixed: schemes,
            more: Vec::new(),
        }
    }

    /// One more kind.
    #[must_use]
    pub fn with(mut self, scheme: Box<dyn Scheme>) -> Self {
        self.more.push(scheme);
        self
    }

    /// The kinds, in the order in which help tells them.
    pub fn schemes(&self) -> impl Iterator<Item = &dyn Scheme> {
        let fixed = self.fixed.iter().copied();
        fixed.chain(self.more.iter().map(|scheme| &**scheme))
    }

    /// Reads a specification, or `NAME=` and one. What begins like a kind that is none is no directory either.
    pub fn parse(&self, text: &str) -> Result<Arc<dyn TargetSpec>, TargetError> {
        if let Some((name, rest)) = split_name(text) {
            let name = name.to_owned();
            let spec = self.parse(rest)?;
            return Ok(Arc::new(NamedSpec { name, spec }));
        }
        let named = self.schemes().filter(|s| !s.prefix().is_empty());
        for scheme in named {
            if let Some(rest) = text.strip_prefix(scheme.prefix()) {
                return scheme.parse(rest, self);
            }
        }
        let rest = self.schemes().find(|s| s.prefix().is_empty());
        match (kind_of(text), rest) {
            (None, Some(scheme)) => scheme.parse(text, self),
            (kind, _) => {
                let forms: Vec<&str> = self.schemes().map(Scheme::form).collect();
                let why = format!(
                    "no kind of target is called `{}`, expected one of {}; write ./{text} for a directory of that name",
                    kind.unwrap_or(text),
                    forms.join(" ")
                );
                Err(TargetError::refused(format!("read target `{text}`"), why))
            }
        }
    }

    /// The kinds for a verb's help: a line each, its form and what it is, indented by two spaces.
    pub fn help(&self) -> String {
        let wide = self.schemes().map(|s| s.form().chars().count()).max();
        let wide = wide.unwrap_or_default();
        let line = |s: &dyn Scheme| format!("  {:wide$}  {}\n", s.form(), s.help());
        self.schemes().map(line).collect()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.schemes().map(Scheme::form))
            .finish()
    }
}

/// What stands before the first colon, if it looks like the name of a kind (RFC 3986, 3.1).
fn kind_of(text: &str) -> Option<&str> {
    let (kind, _) = text.split_once(':')?;
    let mut bytes = kind.bytes();
    let begins = bytes.next().is_some_and(|b| b.is_ascii_alphabetic());
    let word = |b: u8| b.is_ascii_alphanumeric() || b"+-.".contains(&b);
    (begins && bytes.all(word)).then_some(kind)
}
