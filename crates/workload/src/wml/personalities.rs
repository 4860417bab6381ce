//! The scripts that come with fsage, each a workload of its own.
//!
//! They are written anew from what filebench's documentation says of its personalities, with the
//! same variables under one set of names and filebench's defaults (but for the size of videos). A
//! test holds the rows here against the scripts.

use crate::params::{SEED, bytes, count};
use crate::program::{BuildError, Inputs, Program};
use crate::spec::Values;
use crate::table::{Parameter, Unit, Value, Workload, needs_nothing};

use super::{Options, program};

/// How long a counted run is.
const ITERATIONS: Parameter = count(
    "iterations",
    super::ITERATIONS,
    (1, 1_000_000_000_000),
    "how often each thread goes through its loop; without meaning in a run for a time",
);

/// Every script: its name and its text.
const SCRIPTS: &[(&str, &str)] = &[
    ("varmail", include_str!("personalities/varmail.f")),
    ("webserver", include_str!("personalities/webserver.f")),
    ("webproxy", include_str!("personalities/webproxy.f")),
    ("fileserver", include_str!("personalities/fileserver.f")),
    ("oltp", include_str!("personalities/oltp.f")),
    ("videoserver", include_str!("personalities/videoserver.f")),
    ("mongo", include_str!("personalities/mongo.f")),
];

/// The text of a script that comes with fsage.
pub fn find(name: &str) -> Option<&'static str> {
    let (_, text) = SCRIPTS.iter().find(|(known, _)| *known == name)?;
    Some(text)
}

/// The names of all of them.
pub fn names() -> Vec<&'static str> {
    SCRIPTS.iter().map(|(name, _)| *name).collect()
}

const MOST: i64 = 10_000_000;

const fn files(default: u64) -> Parameter {
    count(
        "nfiles",
        default,
        (1, MOST),
        "files of the set, of which 80 % exist at the start, or all where none is created",
    )
}

const fn width(default: u64) -> Parameter {
    count(
        "meandirwidth",
        default,
        (2, 1 << 40),
        "files in a directory, on average",
    )
}

const fn size(default: u64) -> Parameter {
    bytes("filesize", default, "size of a file in bytes, on average")
}

const GAMMA: Parameter = count(
    "filesizegamma",
    1500,
    (0, 1_000_000),
    "shape of the gamma distribution of sizes, in thousandths; 0 for sizes all alike",
);

const fn threads(default: u64) -> Parameter {
    count("nthreads", default, (1, 4000), "threads at once")
}

const IOSIZE: Parameter = bytes(
    "iosize",
    1 << 20,
    "size of a request that reads or writes a file whole",
);
const APPEND: Parameter = bytes(
    "meanappendsize",
    16 << 10,
    "the most bytes of an append; half of it on average",
);

/// What the rows have in common; the other fields are each one's own.
const ROW: Workload = Workload {
    name: "",
    what: "",
    good_for: "",
    source: "filebench 1.5 (Tarasov 2016), its documentation of the personality",
    parameters: &[],
    configs: &[],
    needs: needs_nothing,
    build: |values, inputs| build("", values, inputs),
};

/// A mail server.
pub const VARMAIL: Workload = Workload {
    name: "varmail",
    what: "threads of a mail server: delete a message, store one and make it stable, read, append to \
           and make stable another, read a third; one directory",
    good_for: "many small files with an fsync in every second step: mostly the cost of fsync, that is \
               of the journal and the device's cache",
    parameters: &[
        files(1000),
        width(1_000_000),
        size(16 << 10),
        GAMMA,
        threads(16),
        IOSIZE,
        APPEND,
        ITERATIONS,
        SEED,
    ],
    build: |values, inputs| build("varmail", values, inputs),
    ..ROW
};

/// A web server.
pub const WEBSERVER: Workload = Workload {
    name: "webserver",
    what: "threads of a web server: ten files of a tree are opened, read whole and closed, then a \
           record is appended to a log that all share",
    good_for: "reads of whole small files by many threads, from the cache or from disk according to \
               size and memory, with one contended append",
    parameters: &[
        files(1000),
        width(20),
        size(16 << 10),
        GAMMA,
        threads(100),
        IOSIZE,
        APPEND,
        ITERATIONS,
        SEED,
    ],
    build: |values, inputs| build("webserver", values, inputs),
    ..ROW
};

/// A web proxy.
pub const WEBPROXY: Workload = Workload {
    name: "webproxy",
    what: "threads of a caching proxy: delete an object, create and append another, read five; one \
           directory",
    good_for: "creates and deletes in one large directory beside reads that mostly hit the cache",
    parameters: &[
        files(10_000),
        width(1_000_000),
        size(16 << 10),
        GAMMA,
        threads(100),
        IOSIZE,
        APPEND,
        ITERATIONS,
        SEED,
    ],
    build: |values, inputs| build("webproxy", values, inputs),
    ..ROW
};

/// A file server.
pub const FILESERVER: Workload = Workload {
    name: "fileserver",
    what: "threads of a file server: write a file, append to one, read one, delete one, stat one; a \
           tree of directories",
    good_for: "a write-heavy mix of whole files and metadata without fsync, so that write-back and \
               memory decide",
    parameters: &[
        files(10_000),
        width(20),
        size(128 << 10),
        GAMMA,
        threads(50),
        IOSIZE,
        APPEND,
        ITERATIONS,
        SEED,
    ],
    build: |values, inputs| build("fileserver", values, inputs),
    ..ROW
};

/// A transaction database.
pub const OLTP: Workload = Workload {
    name: "oltp",
    what: "a transaction database: many processes read small blocks at random and post to a log \
           writer and to database writers, which write synchronously",
    good_for: "small random reads against small synchronous writes to large files",
    parameters: &[
        files(10),
        size(10 << 20),
        count("nlogfiles", 1, (1, 1024), "log files"),
        bytes("logfilesize", 10 << 20, "size of a log file in bytes"),
        bytes("iosize", 2 << 10, "size of a block in bytes"),
        number(
            Unit::Bytes,
            "workingset",
            "bytes at the start of each file that are used; 0 for all",
        ),
        count("nshadows", 200, (1, 2000), "processes that read"),
        count("ndbwriters", 10, (1, 1000), "processes that write data"),
        count(
            "usermode",
            200_000,
            (0, MOST),
            "think time after a read, in rounds of a loop of about a nanosecond",
        ),
        count(
            "logposts",
            3200,
            (1, MOST),
            "posts after which the log is written",
        ),
        count(
            "dbposts",
            1000,
            (1, MOST),
            "posts after which data is written",
        ),
        number(
            Unit::Count,
            "eventrate",
            "reads a second of all processes together; 0 for no limit",
        ),
        number(Unit::Count, "directio", "1 to bypass the page cache"),
        ITERATIONS,
        SEED,
    ],
    build: |values, inputs| build("oltp", values, inputs),
    ..ROW
};

/// A video server.
pub const VIDEOSERVER: Workload = Workload {
    name: "videoserver",
    what: "threads stream large files at a rate that they share, one thread replaces an inactive file \
           every few seconds",
    good_for: "whether a target holds a rate of many sequential streams",
    parameters: &[
        size(16 << 20),
        count("numactivevids", 32, (1, MOST), "files that are streamed"),
        count(
            "numpassivevids",
            194,
            (2, MOST),
            "inactive files, of which half exist at the start",
        ),
        threads(48),
        bytes("readiosize", 256 << 10, "size of a read in bytes"),
        bytes("writeiosize", 1 << 20, "size of a write in bytes"),
        count(
            "eventrate",
            96,
            (0, MOST),
            "MiB a second of all streams together; 0 for no limit",
        ),
        count("repintval", 10, (0, MOST), "seconds between replacements"),
        ITERATIONS,
        SEED,
    ],
    build: |values, inputs| build("videoserver", values, inputs),
    ..ROW
};

/// Filebench's mongo.
pub const MONGO: Workload = Workload {
    name: "mongo",
    what: "append to a file, read one whole, delete one of another set, until that is empty",
    good_for: "a short mix of reads, appends and deletes over two trees of small files",
    parameters: &[
        files(1000),
        width(20),
        size(16 << 10),
        threads(1),
        IOSIZE,
        APPEND,
        ITERATIONS,
        SEED,
    ],
    build: |values, inputs| build("mongo", values, inputs),
    ..ROW
};

const fn number(unit: Unit, name: &'static str, what: &'static str) -> Parameter {
    Parameter {
        name,
        unit,
        default: Value::Number(0),
        range: (0, MOST),
        what,
    }
}

fn build(name: &'static str, values: &Values, inputs: &Inputs) -> Result<Program, BuildError> {
    let own = |parameter: &Parameter| !["iterations", "seed"].contains(&parameter.name);
    let options = Options {
        variables: values
            .iter()
            .filter(|(parameter, _)| own(parameter))
            .map(|(parameter, value)| (parameter.name.to_owned(), value.to_string()))
            .collect(),
        iterations: values.number("iterations"),
        length: inputs.length,
        seed: fsage_core::Seed(values.number("seed")),
    };
    let text = find(name).unwrap_or_default();
    program(&format!("{name}.f"), text, &options).map_err(|e| BuildError::new(name, e))
}
