//! The reference page of the formats, `docs/reference/formats.md`, made from the column tables, so
//! that it cannot say anything else than the code.

use std::fmt::Write;

use fsage_core::OpKind;

use crate::anonymize::PARTS;
use crate::profile::PROFILE_VERSION;
use crate::record::RECORD_VERSION;
use crate::snapshot::SNAPSHOT_VERSION;
use crate::snapshot::columns::{COLUMNS as SNAPSHOT_COLUMNS, EXTENT_COLUMNS};
use crate::trace::columns::COLUMNS as TRACE_COLUMNS;
use crate::trace::{PIECE_ROWS, TRACE_VERSION};

const INTRODUCTION: &str = "# File formats

This page is generated from the tables in `crates/format`; a test compares the two.

Every format has a version. A newer version than the one at hand is refused by name; an older one is
read, or the error says which release reads it. A file that was cut off is read as far as it is whole,
and the loss is said.

Traces and snapshots are Parquet files, compressed with zstd, and any Parquet reader can query them:

```sql
-- DuckDB
select kind, count(*), sum(latency_ns) / 1e6 as ms from read_parquet('a.fst') group by kind order by ms;
select path, size_bytes, unnest(extents) from read_parquet('a.fss');
```

```python
import pandas
trace = pandas.read_parquet('a.fst')
```

Paths are text. Bytes that are not UTF-8 are written as `\\xHH`, a backslash as `\\\\`; nothing else is
changed.
";

const CRASH: &str = "
## Pieces

A trace or a snapshot is written in pieces (Parquet row groups). After each piece stands a *trailer*,
which other Parquet readers do not look at: a Parquet footer of that row group alone, between a head and
a tail of 64-bit little-endian numbers.

| part | contents |
| --- | --- |
| head | magic `FSGPIECE`, length of the footer, first byte of the piece, checksum of the piece, end of the previous trailer (0: none), rows up to here, checksum of the footer, checksum of the head so far |
| footer | Parquet's `FileMetaData` with this row group and the metadata of the file |
| tail | length of the footer, magic `FSGPIEND` |

The first trailer stands before the first piece and has no rows. A finished file ends with Parquet's
ordinary footer, and before it, since version 2, a *seal*: magic `FSGSEALS`, length of the footer, checksum of
the footer, rows, end of the last trailer, checksum of the seal so far. Where the footer is missing, differs
from its seal, or has lost it, the last whole tail is searched from the end and the
chain of trailers walked back. The checksum takes words of eight bytes, the last one filled up with
zeros and followed by the number of its bytes: `state = (state ^ word) * 0x100000001b3; state ^= state >> 32`,
beginning with `0xcbf29ce484222325`.
";

const ENTRIES: &str = "
Metadata of the file (Parquet key-value entries):

| key | value |
| --- | --- |
| `fsage.format` | `trace` or `snapshot` |
| `fsage.version` | version of the format |
| `fsage.trace`, `fsage.snapshot` | JSON: what was known at the start; schemas `trace-meta`, `snapshot-meta` |
| `fsage.end` | JSON: what was known at the end, for a trace with the number of operations lost; schema `trace-end`. Only in a finished file |
| `fsage.lost_so_far` | operations lost when a piece was written; only in trailers |
";

/// The page's text.
pub fn formats_page() -> String {
    let mut page = INTRODUCTION.to_owned();
    // Writing to a string cannot fail.
    let _ = trace(&mut page);
    let _ = snapshot(&mut page);
    page.push_str(ENTRIES);
    page.push_str(CRASH);
    let _ = anonymized(&mut page);
    let _ = others(&mut page);
    page
}

fn trace(page: &mut String) -> std::fmt::Result {
    writeln!(
        page,
        "\n## Trace (`.fst`), version {TRACE_VERSION}\n\nOne row per operation, in the order of their \
         start; a late one stands where it came. A piece has at most {PIECE_ROWS} rows.\n\n\
         | column | holds | unit | says |\n| --- | --- | --- | --- |"
    )?;
    for column in TRACE_COLUMNS {
        let optional = if column.optional { ", optional" } else { "" };
        writeln!(
            page,
            "| `{}` | {}{optional} | {} | {} |",
            column.name,
            column.holds.text(),
            column.unit,
            column.what
        )?;
    }
    writeln!(
        page,
        "\nAn analysis may add columns of its own, all optional: 64-bit unsigned integers, numbers or \
         text.\n\nThe kinds: {}. What `offset`, `length`, `flags` and the result mean for each stands \
         at `OpKind` in `crates/core`.",
        OpKind::ALL
            .iter()
            .map(|k| format!("`{}`", k.name()))
            .collect::<Vec<_>>()
            .join(", ")
    )
}

fn snapshot(page: &mut String) -> std::fmt::Result {
    writeln!(
        page,
        "\n## Snapshot (`.fss`), version {SNAPSHOT_VERSION}\n\nOne row per name of a tree.\n\n\
         | column | holds | unit | says |\n| --- | --- | --- | --- |"
    )?;
    for column in SNAPSHOT_COLUMNS {
        let optional = if column.optional { ", optional" } else { "" };
        writeln!(
            page,
            "| `{}` | {}{optional} | {} | {} |",
            column.name,
            column.holds.text(),
            column.unit,
            column.what
        )?;
    }
    writeln!(
        page,
        "| `extents` | list of structures | | where the file's data lies |"
    )?;
    for column in EXTENT_COLUMNS {
        writeln!(
            page,
            "| `extents[].{}` | {} | {} | {} |",
            column.name,
            column.holds.text(),
            column.unit,
            column.what
        )?;
    }
    Ok(())
}

fn anonymized(page: &mut String) -> std::fmt::Result {
    page.push_str(
        "\n## What `anonymize` does to each part\n\nWhat is known at a file's end stays; columns that an \
         analysis added are left out.\n\n| part | what happens |\n| --- | --- |\n",
    );
    for part in PARTS {
        writeln!(
            page,
            "| `{}.{}` | {} |",
            part.of.name(),
            part.name,
            part.treatment.text()
        )?;
    }
    Ok(())
}

fn others(page: &mut String) -> std::fmt::Result {
    writeln!(
        page,
        "\n## System profile (`.fsp`), version {PROFILE_VERSION}\n\nOne JSON object; schema \
         `schemas/system-profile.schema.json`. Every metric has a name, a unit, an estimate with its \
         95 % interval and its raw samples; what could not be measured stands under `absent` with the \
         reason. A metric without a unit, a value that is not finite and a negative estimate are \
         refused.\n\n\
         ## Run record, version {RECORD_VERSION}\n\nJSON lines. The first names the format, its \
         version and the kind of its records (schema `schemas/record-head.schema.json`); each further \
         line is one record, on stable storage before the next run begins. A last line that was cut \
         off is left out and said."
    )
}
