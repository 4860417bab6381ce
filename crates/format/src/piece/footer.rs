//! Parquet's footer: the columns, where the row groups lie, and the key-value metadata.
//!
//! Field numbers are those of
//! <https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift>.

use super::thrift::{Expected, Reader, wire};

/// Columns that a file may have; a trace annotated for a thousand systems has three thousand more.
const MAX_LEAVES: usize = 8192;
const MAX_ELEMENTS: usize = 4 * MAX_LEAVES;
/// Bytes of a column's name with those of the structures around it.
const MAX_NAME_BYTES: usize = 4096;
const MAX_ENTRIES: usize = 4096;

/// How a column's values are stored (`Type` of the Parquet format).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Physical {
    Int32,
    Int64,
    Double,
    Bytes,
}

impl Physical {
    fn from_code(code: i64) -> Option<Self> {
        match code {
            1 => Some(Self::Int32),
            2 => Some(Self::Int64),
            5 => Some(Self::Double),
            6 => Some(Self::Bytes),
            _ => None,
        }
    }
}

/// A column as the file declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Leaf {
    /// The names from the root, joined by dots.
    pub name: String,
    /// `None` for a type that fsage never writes.
    pub physical: Option<Physical>,
    /// Definition level of a value that is there.
    pub max_def: u32,
    /// Repetition level of an element that continues a list.
    pub max_rep: u32,
}

/// Where one column of one row group lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Chunk {
    /// `CompressionCodec` of the Parquet format.
    pub codec: i64,
    /// First byte in the file.
    pub start: u64,
    /// Length in bytes.
    pub length: u64,
    /// Values and nulls.
    pub values: u64,
}

/// One row group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Group {
    /// Rows in it.
    pub rows: u64,
    /// One for each leaf.
    pub chunks: Vec<Chunk>,
}

/// What a footer says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Footer {
    pub leaves: Vec<Leaf>,
    pub groups: Vec<Group>,
    pub entries: Vec<(String, String)>,
}

impl Footer {
    /// The metadata entry of that name.
    pub(crate) fn entry(&self, name: &str) -> Option<&str> {
        self.entries
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// Reads a footer without its length and magic.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Expected> {
        let mut footer = Footer::default();
        let mut elements = Vec::new();
        Reader::new(bytes).fields(|r, id, wire_type| {
            match (id, wire_type) {
                (2, wire::LIST) => r.list(wire::STRUCT, |r| {
                    elements.push(Element::parse(r)?);
                    at_most(elements.len(), MAX_ELEMENTS, "columns and structures")
                })?,
                (4, wire::LIST) => r.list(wire::STRUCT, |r| {
                    footer.groups.push(parse_group(r)?);
                    Ok(())
                })?,
                (5, wire::LIST) => r.list(wire::STRUCT, |r| {
                    footer.entries.push(parse_entry(r)?);
                    at_most(footer.entries.len(), MAX_ENTRIES, "metadata entries")
                })?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        footer.leaves = leaves(&elements)?;
        for (index, group) in footer.groups.iter().enumerate() {
            if group.chunks.len() != footer.leaves.len() {
                return Err(format!(
                    "row group {index} has {} columns, expected {}",
                    group.chunks.len(),
                    footer.leaves.len()
                ));
            }
        }
        Ok(footer)
    }
}

fn at_most(count: usize, most: usize, what: &str) -> Result<(), Expected> {
    if count > most {
        return Err(format!("more than {most} {what}"));
    }
    Ok(())
}

/// A node of the schema tree, which is stored depth first.
#[derive(Default)]
struct Element {
    name: String,
    physical: Option<i64>,
    repetition: i64,
    children: u64,
}

impl Element {
    fn parse(r: &mut Reader<'_>) -> Result<Self, Expected> {
        let mut element = Element::default();
        r.fields(|r, id, wire_type| {
            match (id, wire_type) {
                (1, wire::I32) => element.physical = Some(r.zigzag()?),
                (3, wire::I32) => element.repetition = r.zigzag()?,
                (4, wire::BINARY) => r.text()?.clone_into(&mut element.name),
                (5, wire::I32) => element.children = u64::try_from(r.zigzag()?).unwrap_or(0),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(element)
    }
}

const REQUIRED: i64 = 0;
const REPEATED: i64 = 2;

/// Walks the tree without recursion; a parent waits on the stack for its children.
fn leaves(elements: &[Element]) -> Result<Vec<Leaf>, Expected> {
    struct Parent {
        prefix: String,
        left: u64,
        max_def: u32,
        max_rep: u32,
    }
    let mut rest = elements.iter();
    let root = rest.next().ok_or("a schema")?;
    let mut stack = vec![Parent {
        prefix: String::new(),
        left: root.children,
        max_def: 0,
        max_rep: 0,
    }];
    let mut leaves = Vec::new();
    while let Some(parent) = stack.last_mut() {
        if parent.left == 0 {
            stack.pop();
            continue;
        }
        parent.left -= 1;
        let element = rest
            .next()
            .ok_or("a schema with all the columns that it announces")?;
        at_most(leaves.len(), MAX_LEAVES, "columns")?;
        at_most(
            parent.prefix.len() + element.name.len(),
            MAX_NAME_BYTES,
            "bytes in a column's name",
        )?;
        let name = format!("{}{}", parent.prefix, element.name);
        let max_def = parent.max_def + u32::from(element.repetition != REQUIRED);
        let max_rep = parent.max_rep + u32::from(element.repetition == REPEATED);
        if let Some(code) = element.physical {
            leaves.push(Leaf {
                name,
                physical: Physical::from_code(code),
                max_def,
                max_rep,
            });
        } else if stack.len() > 8 {
            return Err("a schema of at most 8 levels".to_owned());
        } else {
            let prefix = format!("{name}.");
            stack.push(Parent {
                prefix,
                left: element.children,
                max_def,
                max_rep,
            });
        }
    }
    Ok(leaves)
}

fn parse_group(r: &mut Reader<'_>) -> Result<Group, Expected> {
    let mut group = Group::default();
    r.fields(|r, id, wire_type| {
        match (id, wire_type) {
            (1, wire::LIST) => r.list(wire::STRUCT, |r| {
                group.chunks.push(parse_chunk(r)?);
                Ok(())
            })?,
            (3, wire::I64) => group.rows = unsigned(r)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(group)
}

fn parse_chunk(r: &mut Reader<'_>) -> Result<Chunk, Expected> {
    let mut chunk = Chunk::default();
    let mut data_page = None;
    let mut dictionary_page = None;
    r.fields(|r, id, wire_type| {
        if (id, wire_type) != (3, wire::STRUCT) {
            return Ok(false);
        }
        r.fields(|r, id, wire_type| {
            match (id, wire_type) {
                (4, wire::I32) => chunk.codec = r.zigzag()?,
                (5, wire::I64) => chunk.values = unsigned(r)?,
                (7, wire::I64) => chunk.length = unsigned(r)?,
                (9, wire::I64) => data_page = Some(unsigned(r)?),
                (11, wire::I64) => dictionary_page = Some(unsigned(r)?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(true)
    })?;
    let data_page = data_page.ok_or("a column with its place in the file")?;
    // Some writers give a dictionary offset of 0 where there is none.
    chunk.start = dictionary_page
        .filter(|&d| d > 0 && d < data_page)
        .unwrap_or(data_page);
    Ok(chunk)
}

fn parse_entry(r: &mut Reader<'_>) -> Result<(String, String), Expected> {
    let mut key = String::new();
    let mut value = String::new();
    r.fields(|r, id, wire_type| {
        match (id, wire_type) {
            (1, wire::BINARY) => r.text()?.clone_into(&mut key),
            (2, wire::BINARY) => value = String::from_utf8_lossy(r.binary()?).into_owned(),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok((key, value))
}

fn unsigned(r: &mut Reader<'_>) -> Result<u64, Expected> {
    let value = r.zigzag()?;
    u64::try_from(value).map_err(|_| format!("{value} where a size is expected"))
}
