//! Filebench's Workload Model Language, as its release 1.5 documents it and as 1.4 spoke it.
//!
//! [`parse()`] makes a [`Script`] of any bytes or says what is wrong, with the file, the line and the
//! name. It knows every attribute of every entity; which flowops there are, and what a script means,
//! is for the interpreter to say (`fsage-workload`). What would leave the workload – a shell command, another
//! client – is refused here by name.

mod ast;
mod attributes;
mod lexer;
mod parse;

pub use ast::{
    Assigned, Attribute, Command, Flowop, Operator, QuitMode, Script, Statement, Thread, Value,
};

use std::path::Path;

use crate::FormatError;

/// Larger scripts are refused; filebench's own have some thousand bytes.
const LARGEST_BYTES: usize = 1 << 24;

/// Reads a script; `path` is for errors.
pub fn parse(bytes: &[u8], path: &Path) -> Result<Script, FormatError> {
    if bytes.len() > LARGEST_BYTES {
        return Err(FormatError::corrupt(
            path,
            "line 1",
            format!(
                "{} bytes are no script, expected at most {LARGEST_BYTES}",
                bytes.len()
            ),
        ));
    }
    lexer::tokens(bytes)
        .and_then(parse::statements)
        .map(|statements| Script {
            path: path.to_owned(),
            statements,
        })
        .map_err(|(line, problem)| FormatError::corrupt(path, format!("line {line}"), problem))
}

#[cfg(test)]
mod tests;
