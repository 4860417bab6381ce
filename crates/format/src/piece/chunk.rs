//! One column of one row group: its pages, decompressed and decoded.

use super::decode::{Bits, PADDING, delta, hybrid, levels, plain, plain_bytes};
use super::footer::{Chunk, Leaf, Physical};
use super::limits::{Allowance, MAX_PAGE_BYTES};
use super::thrift::{Expected, Reader, wire};

const CODEC_NONE: i64 = 0;
const CODEC_ZSTD: i64 = 6;

const PAGE_DATA: i64 = 0;
const PAGE_DICTIONARY: i64 = 2;
const PAGE_DATA_V2: i64 = 3;

const PLAIN: i64 = 0;
const PLAIN_DICTIONARY: i64 = 2;
const DELTA: i64 = 5;
const RLE_DICTIONARY: i64 = 8;

/// What a slot costs: its value, whether it is there, and the end of its text.
const SLOT_BYTES: u64 = 17;

/// Byte strings, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Texts {
    fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    /// The text of that index.
    pub(crate) fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        let start = index
            .checked_sub(1)
            .map_or(Some(0), |i| self.ends.get(i).copied())?;
        self.bytes.get(start..end)
    }

    /// Every text in the order of the indices.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map_while(|index| self.get(index))
    }
}

/// A decoded column: `values[i]` is the integer, the bits of the number or the index in `texts` of
/// slot `i`; without meaning where nothing is there.
#[derive(Debug, Default)]
pub(crate) struct Column {
    /// One for each slot (row, or element of a list).
    pub values: Vec<u64>,
    /// Whether there is a value; empty if all slots have one.
    pub present: Vec<bool>,
    /// Whether a slot continues the list of the one before; empty if the column has no lists.
    pub repeats: Vec<bool>,
    /// The distinct byte strings of a text column.
    pub texts: Texts,
}

impl Column {
    /// The value of a slot, `None` if nothing is there.
    #[inline]
    pub(crate) fn get(&self, slot: usize) -> Option<u64> {
        match self.present.get(slot) {
            Some(false) => None,
            _ => self.values.get(slot).copied(),
        }
    }

    fn clear(&mut self) {
        self.values.clear();
        self.present.clear();
        self.repeats.clear();
        self.texts.bytes.clear();
        self.texts.ends.clear();
    }
}

/// Decodes columns; holds what can be used again from one to the next.
pub(crate) struct Decoder {
    zstd: zstd::bulk::Decompressor<'static>,
    page: Vec<u8>,
    dictionary: Vec<u64>,
    /// Whether the chunk's dictionary was read; it may have no entries.
    has_dictionary: bool,
    present: Vec<bool>,
    indices: Vec<u32>,
    dense: Vec<u64>,
    /// Of the file.
    pages: Allowance,
    /// Of the piece.
    held: Allowance,
}

/// What a page's header says.
#[derive(Debug, Default)]
struct Header {
    page_type: i64,
    uncompressed: u64,
    compressed: u64,
    values: u64,
    encoding: i64,
    def_bytes: u64,
    rep_bytes: u64,
    raw: bool,
}

impl Decoder {
    /// For a file of that many bytes.
    pub(crate) fn new(file_bytes: u64) -> std::io::Result<Self> {
        Ok(Self {
            zstd: zstd::bulk::Decompressor::new()?,
            page: Vec::new(),
            dictionary: Vec::new(),
            has_dictionary: false,
            present: Vec::new(),
            indices: Vec::new(),
            dense: Vec::new(),
            pages: Allowance::pages(file_bytes),
            held: Allowance::held(0),
        })
    }

    /// Begins a piece of that many bytes.
    pub(crate) fn begin_piece(&mut self, bytes: u64) {
        self.held = Allowance::held(bytes);
    }

    /// Decodes a chunk's `bytes` into `out`, replacing what it held. At most `max_slots` values and
    /// nulls are accepted.
    pub(crate) fn decode(
        &mut self,
        bytes: &[u8],
        chunk: &Chunk,
        leaf: &Leaf,
        max_slots: u64,
        out: &mut Column,
    ) -> Result<(), Expected> {
        out.clear();
        self.dictionary.clear();
        self.has_dictionary = false;
        if chunk.values > max_slots {
            return Err(format!(
                "{} values, expected at most {max_slots}",
                chunk.values
            ));
        }
        let physical = leaf.physical.ok_or("a type of value that fsage writes")?;
        if leaf.max_def > 1 || leaf.max_rep > 1 {
            return Err("a column of at most one level of lists or absent values".to_owned());
        }
        if leaf.max_rep == 0 {
            self.held.take(chunk.values.saturating_mul(SLOT_BYTES))?;
        }
        out.values.reserve_exact(chunk.values as usize);
        let mut reader = Reader::new(bytes);
        while (out.values.len() as u64) < chunk.values {
            let header = parse_header(&mut reader)?;
            let body = reader.take(usize::try_from(header.compressed).unwrap_or(usize::MAX))?;
            self.decompress(&header, chunk.codec, body)?;
            // Lent out so that the pages can be read while the other buffers are written.
            let page = std::mem::take(&mut self.page);
            let left = chunk.values - out.values.len() as u64;
            let decoded = match header.page_type {
                PAGE_DICTIONARY => self.read_dictionary(&page, physical, &header, max_slots, out),
                _ if header.values > left || header.values == 0 => Err(format!(
                    "a page of {} values, expected 1 to {left}",
                    header.values
                )),
                _ => self.read_data(&page, physical, leaf, &header, out),
            };
            self.page = page;
            decoded?;
        }
        Ok(())
    }

    /// Fills `self.page` with the page and its padding.
    fn decompress(&mut self, header: &Header, codec: i64, body: &[u8]) -> Result<(), Expected> {
        if header.uncompressed > MAX_PAGE_BYTES {
            return Err(format!(
                "a page of {} bytes, expected at most {MAX_PAGE_BYTES}",
                header.uncompressed
            ));
        }
        self.pages.take(header.uncompressed)?;
        let whole = header.uncompressed as usize;
        // The levels of a version 2 page stand before its compressed part.
        let levels = header.rep_bytes.saturating_add(header.def_bytes);
        let levels = usize::try_from(levels)
            .ok()
            .filter(|&l| l <= whole && l <= body.len());
        let levels = levels.ok_or("levels that fit into their page")?;
        let (raw, packed) = body.split_at(levels);
        let page = &mut self.page;
        page.clear();
        match codec {
            CODEC_ZSTD if !header.raw => {
                // No zstd frame grows beyond this; more is a lie that should not cost memory.
                if (whole as u64) > (packed.len() as u64).saturating_mul(1 << 17) {
                    return Err(format!("{whole} bytes compressed into {}", packed.len()));
                }
                page.resize(whole + PADDING, 0);
                let target = page.get_mut(levels..whole).unwrap_or_default();
                // Some writers leave an empty page empty, others compress nothing into a frame.
                let length = match target {
                    [] => 0,
                    _ => self
                        .zstd
                        .decompress_to_buffer(packed, target)
                        .map_err(|e| format!("compressed data that zstd reads ({e})"))?,
                };
                if length != whole - levels {
                    return Err(format!(
                        "{length} bytes in a page, expected {}",
                        whole - levels
                    ));
                }
                page.get_mut(..levels)
                    .unwrap_or_default()
                    .copy_from_slice(raw);
            }
            CODEC_NONE | CODEC_ZSTD if body.len() == whole => {
                page.extend_from_slice(body);
                page.resize(whole + PADDING, 0);
            }
            CODEC_NONE | CODEC_ZSTD => {
                return Err(format!("{} bytes in a page, expected {whole}", body.len()));
            }
            other => {
                return Err(format!(
                    "compression {other} of the Parquet format, expected 0 (none) or 6 (zstd)"
                ));
            }
        }
        Ok(())
    }

    fn read_dictionary(
        &mut self,
        page: &[u8],
        physical: Physical,
        header: &Header,
        max_slots: u64,
        out: &mut Column,
    ) -> Result<(), Expected> {
        if header.values > max_slots || self.has_dictionary || !out.values.is_empty() {
            return Err("one dictionary, before the values".to_owned());
        }
        self.has_dictionary = true;
        self.held.take(header.values.saturating_mul(SLOT_BYTES))?;
        let count = header.values as usize;
        let mut bits = Bits::new(page);
        if let Some(size) = size_of(physical) {
            return plain(&mut bits, size, count, &mut self.dictionary);
        }
        // No text is longer than its page.
        self.held.take(header.uncompressed)?;
        plain_bytes(&mut bits, count, |text| out.texts.push(text))?;
        self.dictionary.extend(0..header.values);
        Ok(())
    }

    fn read_data(
        &mut self,
        page: &[u8],
        physical: Physical,
        leaf: &Leaf,
        header: &Header,
        out: &mut Column,
    ) -> Result<(), Expected> {
        let slots = header.values as usize;
        let mut bits = Bits::new(page);
        let v2 = header.page_type == PAGE_DATA_V2;
        if leaf.max_rep > 0 {
            let length = if v2 {
                header.rep_bytes as usize
            } else {
                bits.u32()? as usize
            };
            levels(&mut bits.split(length)?, slots, &mut out.repeats)?;
        }
        let mut there = slots;
        let mut present = std::mem::take(&mut self.present);
        present.clear();
        if leaf.max_def > 0 {
            let length = if v2 {
                header.def_bytes as usize
            } else {
                bits.u32()? as usize
            };
            there = levels(&mut bits.split(length)?, slots, &mut present)?;
        }
        let before = out.values.len();
        let Column { values, texts, .. } = out;
        if there == slots {
            self.read_values(&mut bits, physical, header.encoding, slots, values, texts)?;
            if !out.present.is_empty() {
                out.present.resize(before + slots, true);
            }
        } else {
            let mut dense = std::mem::take(&mut self.dense);
            dense.clear();
            let encoding = header.encoding;
            self.read_values(&mut bits, physical, encoding, there, &mut dense, texts)?;
            // Slots before this page were all there if none of them was said to be missing.
            out.present.resize(before, true);
            out.present.extend_from_slice(&present);
            let mut next = 0;
            values.extend(present.iter().map(|&there| {
                let value = dense.get(next).copied().unwrap_or(0);
                next += usize::from(there);
                value
            }));
            self.dense = dense;
        }
        self.present = present;
        Ok(())
    }

    fn read_values(
        &mut self,
        bits: &mut Bits<'_>,
        physical: Physical,
        encoding: i64,
        count: usize,
        out: &mut Vec<u64>,
        texts: &mut Texts,
    ) -> Result<(), Expected> {
        if count == 0 {
            return Ok(());
        }
        match (encoding, size_of(physical)) {
            (RLE_DICTIONARY | PLAIN_DICTIONARY, _) => {
                let width = u32::from(*bits.rest().first().ok_or("the width of indices")?);
                bits.split(1)?;
                self.indices.clear();
                hybrid(bits, width, count, &mut self.indices)?;
                let entries = self.dictionary.len();
                let largest = self.indices.iter().copied().max().unwrap_or(0);
                if largest as usize >= entries {
                    return Err(format!(
                        "index {largest} in a dictionary of {entries} entries"
                    ));
                }
                let dictionary = self.dictionary.as_slice();
                let value = |&i: &u32| dictionary.get(i as usize).copied().unwrap_or(0);
                out.extend(self.indices.iter().map(value));
                Ok(())
            }
            (PLAIN, Some(size)) => plain(bits, size, count, out),
            (PLAIN, None) => {
                self.held.take(bits.rest().len() as u64)?;
                plain_bytes(bits, count, |text| {
                    out.push(texts.len() as u64);
                    texts.push(text);
                })
            }
            (DELTA, Some(_)) if physical != Physical::Double => {
                let before = out.len();
                delta(bits, count, out)?;
                if physical == Physical::Int32 {
                    out.iter_mut()
                        .skip(before)
                        .for_each(|v| *v &= u64::from(u32::MAX));
                }
                Ok(())
            }
            (other, _) => Err(format!(
                "encoding {other} of the Parquet format, expected plain, dictionary or delta"
            )),
        }
    }
}

fn size_of(physical: Physical) -> Option<usize> {
    match physical {
        Physical::Int32 => Some(4),
        Physical::Int64 | Physical::Double => Some(8),
        Physical::Bytes => None,
    }
}

fn parse_header(r: &mut Reader<'_>) -> Result<Header, Expected> {
    let mut header = Header {
        page_type: -1,
        ..Header::default()
    };
    r.fields(|r, id, wire_type| {
        match (id, wire_type) {
            (1, wire::I32) => header.page_type = r.zigzag()?,
            (2, wire::I32) => header.uncompressed = size(r)?,
            (3, wire::I32) => header.compressed = size(r)?,
            (5 | 7, wire::STRUCT) => r.fields(|r, id, wire_type| {
                match (id, wire_type) {
                    (1, wire::I32) => header.values = size(r)?,
                    (2, wire::I32) => header.encoding = r.zigzag()?,
                    _ => return Ok(false),
                }
                Ok(true)
            })?,
            (8, wire::STRUCT) => r.fields(|r, id, wire_type| {
                match (id, wire_type) {
                    (1, wire::I32) => header.values = size(r)?,
                    (4, wire::I32) => header.encoding = r.zigzag()?,
                    (5, wire::I32) => header.def_bytes = size(r)?,
                    (6, wire::I32) => header.rep_bytes = size(r)?,
                    (7, wire::FALSE) => {
                        header.raw = true;
                        return Ok(false);
                    }
                    _ => return Ok(false),
                }
                Ok(true)
            })?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    match header.page_type {
        PAGE_DATA | PAGE_DICTIONARY | PAGE_DATA_V2 => Ok(header),
        other => Err(format!(
            "a page of type {other}, expected data or a dictionary"
        )),
    }
}

fn size(r: &mut Reader<'_>) -> Result<u64, Expected> {
    let value = r.zigzag()?;
    u64::try_from(value).map_err(|_| format!("{value} where a size is expected"))
}
