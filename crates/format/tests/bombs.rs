//! Small files that claim to hold very much: each is refused within little memory, and what fsage
//! itself writes at its most compressible is read.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::path::Path;

use common::{drain_snapshot, entries, write_snapshot, write_trace};
use fsage_core::{Op, OpKind, OpSink, OpSource, PathTable, Pid, Tid};
use fsage_format::piece::Holds;
use fsage_format::record::read_records;
use fsage_format::result::load;
use fsage_format::result::validation::Validation;
use fsage_format::snapshot::columns::{COLUMNS as NAMES, EXTENT_COLUMNS};
use fsage_format::snapshot::{SnapshotMeta, SnapshotReader, SnapshotWriter};
use fsage_format::trace::columns::COLUMNS;
use fsage_format::trace::{PIECE_ROWS, TraceEnd, TraceMeta, TraceReader, TraceWriter};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Address space for everything, the test's own threads and buffers among it.
const MOST_BYTES: u64 = 1536 << 20;

/// As `ulimit -v` does.
fn limited() {
    let maximum = getrlimit(Resource::As).maximum;
    let limit = Rlimit {
        current: Some(MOST_BYTES),
        maximum,
    };
    setrlimit(Resource::As, limit).unwrap();
}

/// Writes Thrift's compact protocol.
#[derive(Default)]
struct Thrift {
    out: Vec<u8>,
    last: Vec<u8>,
}

impl Thrift {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.out.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }

    fn begin(&mut self) {
        self.last.push(0);
    }

    fn end(&mut self) {
        self.last.pop();
        self.out.push(0);
    }

    fn head(&mut self, id: u8, wire: u8) {
        let last = self.last.last_mut().unwrap();
        self.out.push((id - *last) << 4 | wire);
        *last = id;
    }

    fn int(&mut self, id: u8, wire: u8, value: u64) {
        self.head(id, wire);
        self.varint(value << 1);
    }

    fn text(&mut self, id: u8, text: &str) {
        self.head(id, 8);
        self.varint(text.len() as u64);
        self.out.extend_from_slice(text.as_bytes());
    }

    fn list(&mut self, id: u8, count: usize) {
        self.head(id, 9);
        self.out.push(0xfc);
        self.varint(count as u64);
    }

    fn structure(&mut self, id: u8) {
        self.head(id, 12);
        self.begin();
    }
}

const I32: u8 = 5;
const I64: u8 = 6;

fn code(holds: Holds) -> u64 {
    match holds {
        Holds::Unsigned(_) | Holds::Signed32 => 1,
        Holds::Unsigned64 | Holds::Signed64 => 2,
        Holds::Number => 5,
        Holds::Text => 6,
    }
}

/// A node of the schema: name, physical type or number of children, whether it repeats.
type Node = (String, Result<u64, u64>, bool);

fn trace_schema(added: usize) -> Vec<Node> {
    let own = COLUMNS
        .iter()
        .map(|c| (c.name.to_owned(), Ok(code(c.holds)), false));
    let more = (0..added).map(|i| (format!("added_{i}"), Ok(2), false));
    let root = (
        "root".to_owned(),
        Err((COLUMNS.len() + added) as u64),
        false,
    );
    [root].into_iter().chain(own).chain(more).collect()
}

fn snapshot_schema() -> Vec<Node> {
    let own = NAMES
        .iter()
        .map(|c| (c.name.to_owned(), Ok(code(c.holds)), false));
    let list = [
        ("extents", 1, false),
        ("list", 1, true),
        ("element", 4, false),
    ];
    let list = list.map(|(name, count, repeats)| (name.to_owned(), Err(count), repeats));
    let parts = EXTENT_COLUMNS
        .iter()
        .map(|c| (c.name.to_owned(), Ok(code(c.holds)), false));
    let root = ("root".to_owned(), Err(NAMES.len() as u64 + 1), false);
    [root]
        .into_iter()
        .chain(own)
        .chain(list)
        .chain(parts)
        .collect()
}

/// One row group: its rows, and for each column where its bytes lie and how many values it has.
struct Group {
    rows: u64,
    chunks: Vec<(u64, u64, u64)>,
}

/// A Parquet file as another writer makes them, without trailers and seal.
fn file(format: &str, schema: &[Node], groups: &[Group], mut body: Vec<u8>) -> Vec<u8> {
    let mut t = Thrift::default();
    t.begin();
    t.int(1, I32, 1);
    t.list(2, schema.len());
    for (name, kind, repeats) in schema {
        t.begin();
        if let Ok(physical) = kind {
            t.int(1, I32, *physical);
        }
        t.int(3, I32, if *repeats { 2 } else { 0 });
        t.text(4, name);
        if let Err(children) = kind {
            t.int(5, I32, *children);
        }
        t.end();
    }
    t.int(3, I64, 0);
    t.list(4, groups.len());
    for group in groups {
        t.begin();
        t.list(1, group.chunks.len());
        for &(start, length, values) in &group.chunks {
            t.begin();
            t.structure(3);
            t.int(4, I32, 6);
            t.int(5, I64, values);
            t.int(7, I64, length);
            t.int(9, I64, start);
            t.end();
            t.end();
        }
        t.int(3, I64, group.rows);
        t.end();
    }
    let meta = format!("fsage.{format}");
    let entries = [
        ("fsage.format", format),
        ("fsage.version", "2"),
        (&meta, "{}"),
        ("fsage.end", "{}"),
    ];
    t.list(5, entries.len());
    for (key, value) in entries {
        t.begin();
        t.text(1, key);
        t.text(2, value);
        t.end();
    }
    t.end();
    let length = t.out.len() as u32;
    body.extend_from_slice(&t.out);
    body.extend_from_slice(&length.to_le_bytes());
    body.extend_from_slice(b"PAR1");
    body
}

/// A page: 0 data, 2 dictionary.
fn page(kind: u64, values: u64, encoding: u64, content: &[u8]) -> Vec<u8> {
    let packed = zstd::bulk::compress(content, 3).unwrap();
    let mut t = Thrift::default();
    t.begin();
    t.int(1, I32, kind);
    t.int(2, I32, content.len() as u64);
    t.int(3, I32, packed.len() as u64);
    t.structure(if kind == 2 { 7 } else { 5 });
    t.int(1, I32, values);
    t.int(2, I32, encoding);
    t.end();
    t.end();
    t.out.extend_from_slice(&packed);
    t.out
}

/// A column whose rows all have one value.
fn constant(physical: u64, rows: u64, text: &[u8]) -> Vec<u8> {
    let value = match physical {
        1 => vec![0; 4],
        6 => [&(text.len() as u32).to_le_bytes(), text].concat(),
        _ => vec![0; 8],
    };
    let mut out = page(2, 1, 0, &value);
    let mut run = Thrift::default();
    run.out.push(0);
    run.varint(rows << 1);
    out.extend(page(0, rows, 8, &run.out));
    out
}

/// A column of empty lists.
fn no_lists(rows: u64) -> Vec<u8> {
    let mut run = Thrift::default();
    run.varint(rows << 1);
    run.out.push(0);
    let levels = [&(run.out.len() as u32).to_le_bytes()[..], &run.out].concat();
    page(0, rows, 0, &[&levels[..], &levels].concat())
}

/// A file of one group with these columns.
fn one_group(format: &str, schema: &[Node], rows: u64, columns: &[Vec<u8>]) -> Vec<u8> {
    let mut body = b"PAR1".to_vec();
    let mut chunks = Vec::new();
    for column in columns {
        chunks.push((body.len() as u64, column.len() as u64, rows));
        body.extend_from_slice(column);
    }
    file(format, schema, &[Group { rows, chunks }], body)
}

/// The trace's own columns, all rows equal.
fn equal_rows(rows: u64) -> Vec<Vec<u8>> {
    COLUMNS
        .iter()
        .map(|c| {
            constant(
                code(c.holds),
                rows,
                if c.name == "kind" { b"read" } else { b"" },
            )
        })
        .collect()
}

const BIG: usize = 100 << 20;

/// A snapshot whose names are all the same long one.
fn repeated_path(rows: u64) -> Vec<u8> {
    let mut repeated: Vec<Vec<u8>> = NAMES
        .iter()
        .map(|c| {
            constant(
                code(c.holds),
                rows,
                if c.name == "type" { b"regular" } else { b"" },
            )
        })
        .collect();
    repeated[0] = constant(6, rows, &vec![b'a'; 60 << 20]);
    repeated.extend(EXTENT_COLUMNS.iter().map(|_| no_lists(rows)));
    one_group("snapshot", &snapshot_schema(), rows, &repeated)
}

fn bombs() -> Vec<(&'static str, Vec<u8>)> {
    let rows = 65_536;
    let zeros = vec![0; BIG];
    let mut dictionaries = equal_rows(rows);
    let empty_dictionary = page(2, 0, 0, &zeros);
    dictionaries[0] = empty_dictionary.repeat(300);
    let mut long_texts = equal_rows(40);
    let mut text = zeros.clone();
    text[..4].copy_from_slice(&(BIG as u32 - 4).to_le_bytes());
    long_texts[0] = page(0, 1, 0, &text).repeat(40);
    let mut wide = equal_rows(rows);
    wide.extend((0..1500).map(|_| constant(2, rows, b"")));
    let many_rows: Vec<Group> = (0..4000u64)
        .map(|i| Group {
            rows: 1 << 20,
            chunks: (0..COLUMNS.len() as u64)
                .map(|c| (4 + i * 21 + c, 1, 1 << 20))
                .collect(),
        })
        .collect();
    let one = equal_rows(rows);
    let body = [&b"PAR1"[..], &one.concat()].concat();
    let mut start = 4;
    let chunks: Vec<(u64, u64, u64)> = one
        .iter()
        .map(|column| {
            start += column.len() as u64;
            (start - column.len() as u64, column.len() as u64, rows)
        })
        .collect();
    let again: Vec<Group> = (0..5000)
        .map(|_| Group {
            rows,
            chunks: chunks.clone(),
        })
        .collect();
    let mut names = vec![
        ("root".to_owned(), Err(1), false),
        ("x".repeat(1 << 20), Err(2000), false),
    ];
    names.extend((0..2000).map(|_| (String::new(), Ok(1), false)));
    let tail = [&0u64.to_le_bytes()[..], b"FSGPIEND"].concat();
    let trace = trace_schema(0);
    vec![
        (
            "dictionaries",
            one_group("trace", &trace, rows, &dictionaries),
        ),
        ("long texts", one_group("trace", &trace, 40, &long_texts)),
        ("wide", one_group("trace", &trace_schema(1500), rows, &wide)),
        (
            "rows",
            file(
                "trace",
                &trace,
                &many_rows,
                [&b"PAR1"[..], &[0; 84_000]].concat(),
            ),
        ),
        ("groups again", file("trace", &trace, &again, body)),
        ("names", file("trace", &names, &[], b"PAR1".to_vec())),
        ("tails", [&b"PAR1"[..], &tail.repeat(200_000)].concat()),
        ("repeated path", repeated_path(rows)),
    ]
}

/// Everything that a file says, or why it is refused.
fn read(path: &Path, snapshot: bool) -> Result<usize, String> {
    fsage_format::sniff(path).map_err(|e| e.to_string())?;
    if snapshot {
        let mut reader = SnapshotReader::open(path).map_err(|e| e.to_string())?;
        let (mut batch, mut count) = (Vec::new(), 0);
        while reader.next_batch(&mut batch).map_err(|e| e.to_string())? > 0 {
            count += batch.len();
            batch.clear();
        }
        return Ok(count);
    }
    let mut reader = TraceReader::open(path).map_err(|e| e.to_string())?;
    let (mut batch, mut count) = (Vec::new(), 0);
    while reader.next_batch(&mut batch).map_err(|e| e.to_string())? > 0 {
        count += batch.len();
        batch.clear();
    }
    Ok(count)
}

#[test]
fn bombs_are_refused_within_little_memory() {
    let dir = tempfile::tempdir().unwrap();
    let bombs = bombs();
    limited();
    // The pieces of which bombs are made are whole: less of the same is read.
    let path = dir.path().join("whole");
    let whole = one_group("trace", &trace_schema(3), 65_536, &{
        let mut columns = equal_rows(65_536);
        columns.extend((0..3).map(|_| constant(2, 65_536, b"")));
        columns
    });
    std::fs::write(&path, whole).unwrap();
    assert_eq!(read(&path, false), Ok(65_536));
    for (name, bytes) in bombs {
        assert!(bytes.len() < 4 << 20, "{name}: {} bytes", bytes.len());
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let error = read(&path, name == "repeated path").unwrap_err();
        assert!(error.contains(name) && error.len() < 400, "{name}: {error}");
    }
}

#[test]
fn documents_that_cannot_be_held_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    limited();
    let path = dir.path().join("x.json");
    let refused = |of_document: &str, of_record: &str| {
        let record = read_records::<serde_json::Value>(&path).err().unwrap();
        let result = load::<Validation>(&path).err().unwrap();
        let profile = fsage_format::profile::SystemProfile::load(&path).unwrap_err();
        for (error, expected) in [
            (record, of_record),
            (result, of_document),
            (profile, of_document),
        ] {
            let error = error.to_string();
            assert!(
                error.contains("x.json") && error.contains(expected),
                "{error}"
            );
        }
    };
    let head = "{\"format\":\"fsage run record\",\"version\":1,\"kind\":\"x\"}\n";
    // The line too is longer than one of a record.
    for (element, count, of_document) in [
        ("{},", 1 << 20, "objects"),
        ("[],", 1 << 20, "lists"),
        ("0,", 9 << 20, "values"),
    ] {
        let line = format!("{{\"a\":[{}0]}}\n", element.repeat(count));
        std::fs::write(&path, head.to_owned() + &line).unwrap();
        refused(
            of_document,
            if count > 1 << 20 {
                "it goes on"
            } else {
                of_document
            },
        );
    }
    std::fs::File::create(&path)
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    refused("binary data of another format", "it goes on");
}

#[test]
fn the_most_compressible_of_what_is_written_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.fst");
    let equal = Op::new(OpKind::Read, Pid(1), Tid(1), 0);
    let count = 40 * PIECE_ROWS;
    let mut writer = TraceWriter::create(&file, TraceMeta::default()).unwrap();
    let none = PathTable::new();
    for _ in 0..count {
        writer.push(&equal, &none).unwrap();
    }
    writer.finish(TraceEnd::default()).unwrap();
    assert_eq!(read(&file, false), Ok(count));
    let mut paths = PathTable::new();
    let long: Vec<Op> = (0..15_000)
        .map(|i| {
            let mut op = Op::new(OpKind::Stat, Pid(1), Tid(1), i);
            op.path = paths.intern(format!("/{}{i}", "a/".repeat(2000)).as_bytes());
            op.path2 = op.path;
            op.dir = op.path;
            op.dir2 = op.path;
            op
        })
        .collect();
    write_trace(&file, &paths, &long, usize::MAX);
    assert_eq!(read(&file, false), Ok(long.len()));
    let mut links = entries(20_000, 2);
    for (i, entry) in links.iter_mut().enumerate() {
        entry.path = format!("{i}").into_bytes();
        entry.link_target = Some(vec![b'x'; 4000]);
    }
    write_snapshot(&file, &links);
    let mut reader = SnapshotReader::open(&file).unwrap();
    assert_eq!(drain_snapshot(&mut reader).unwrap().len(), links.len());
}

/// As directories in one another, 20,000 deep: what nobody could read is not written.
#[test]
fn what_would_be_refused_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.fst");
    let mut writer = TraceWriter::create(&file, TraceMeta::default()).unwrap();
    let mut paths = PathTable::new();
    let deep = |i: u64| format!("/{i}{}", "/d".repeat(20_000));
    let mut pushed = 0;
    let refused = (0..10_000).find_map(|i| {
        drop(paths.take());
        let mut op = Op::new(OpKind::Stat, Pid(1), Tid(1), i);
        op.dir = paths.intern(deep(i).as_bytes());
        pushed = i;
        writer.push(&op, &paths).err()
    });
    let refused = refused.unwrap().to_string();
    assert!(refused.contains("of distinct paths"), "{refused}");
    assert!(pushed > 6000);
    drop(writer);
    // What was written until then is read.
    let kept = read(&file, false).unwrap();
    assert!((1000..=pushed as usize).contains(&kept), "{kept}");

    let mut writer = SnapshotWriter::create(&file, SnapshotMeta::default()).unwrap();
    let mut entry = entries(1, 0).remove(0);
    let refused = (0..40_000).find_map(|i| {
        entry.path = deep(i).into_bytes();
        writer.push(&entry).err()
    });
    let refused = refused.unwrap().to_string();
    assert!(refused.contains("bytes of text"), "{refused}");
}
