//! What a script says, statement by statement, each with its line.

use std::path::PathBuf;

/// A script.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// The file, for errors.
    pub path: PathBuf,
    /// Its statements in order.
    pub statements: Vec<Statement>,
}

/// One statement.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    /// The line on which it begins, from 1.
    pub line: u32,
    /// What it does.
    pub command: Command,
}

/// What a statement does.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// `set $name=…` and `define randvar name=$name,…`.
    Set {
        /// The variable, without its sign.
        name: String,
        /// What it becomes.
        value: Assigned,
    },
    /// `set $name.type=…`: one attribute of a random variable.
    SetAttribute {
        /// The variable, without its sign.
        name: String,
        /// The attribute.
        attribute: Attribute,
    },
    /// `set mode quit …`.
    Mode(QuitMode),
    /// `define fileset` and, if `single`, `define file`.
    Fileset {
        /// Whether it is one file.
        single: bool,
        /// Its attributes.
        attributes: Vec<Attribute>,
    },
    /// `define process`.
    Process {
        /// Its attributes.
        attributes: Vec<Attribute>,
        /// Its threads.
        threads: Vec<Thread>,
    },
    /// `define flowop`: a composite of others.
    Composite {
        /// Its attributes and local variables.
        attributes: Vec<Attribute>,
        /// Its parts.
        body: Vec<Flowop>,
    },
    /// `eventgen rate=…`.
    Eventgen(Vec<Attribute>),
    /// `load NAME`: a personality by name.
    Load(String),
    /// `run` or `psrun`, with the seconds that it names.
    Run(Option<Value>),
    /// `quit`: nothing that follows counts.
    Quit,
    /// A command that changes nothing of the workload (`echo`, `usage`, `stats`, …).
    Remark(&'static str),
}

/// When a run ends for lack of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuitMode {
    /// Only its time ends it; a lack of files is an error.
    Timeout,
    /// With the last thread that has nothing left to do.
    AllDone,
    /// With the first one.
    FirstDone,
}

/// What a variable becomes.
#[derive(Debug, Clone, PartialEq)]
pub enum Assigned {
    /// A value.
    Value(Value),
    /// `randvar(…)`: a random variable of version 1.4.
    Randvar(Vec<Attribute>),
    /// `cvar(…)`: a custom variable of version 1.5.
    Cvar(Vec<Attribute>),
}

/// A value as written.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A whole number; k, m, g and t behind it are powers of 1024.
    Int(i64),
    /// A number with a fraction.
    Real(f64),
    /// `true` or `false`.
    Bool(bool),
    /// A word or a quoted text.
    Text(String),
    /// A variable, without its sign.
    Var(String),
    /// A first value and what is done to it, from left to right.
    Sum(Box<Value>, Vec<(Operator, Value)>),
    /// Rows of a table: percent, lower and upper end.
    Table(Vec<[Value; 3]>),
}

/// What is done with two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `+`
    Plus,
    /// `-`
    Minus,
    /// `*`
    Times,
    /// `/`
    Over,
}

/// An attribute, or the local variable of a composite (its name then begins with `$`).
#[derive(Debug, Clone, PartialEq)]
pub struct Attribute {
    /// The line on which it stands.
    pub line: u32,
    /// Its name; synonyms (`filesize`, `filename`, …) are written as one.
    pub name: String,
    /// Its value, where one is given.
    pub value: Option<Value>,
}

/// A thread of a process.
#[derive(Debug, Clone, PartialEq)]
pub struct Thread {
    /// The line on which it begins.
    pub line: u32,
    /// Its attributes.
    pub attributes: Vec<Attribute>,
    /// What it does in a loop.
    pub body: Vec<Flowop>,
}

/// One step of a thread or of a composite.
#[derive(Debug, Clone, PartialEq)]
pub struct Flowop {
    /// The line on which it begins.
    pub line: u32,
    /// What it is: one of filebench's, or a composite.
    pub kind: String,
    /// Its attributes.
    pub attributes: Vec<Attribute>,
}
