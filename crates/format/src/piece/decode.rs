//! Parquet's value encodings, decoded with every length checked.
//!
//! Source: <https://parquet.apache.org/docs/file-format/data-pages/encodings/>.

use super::thrift::{Expected, Reader};

/// Zero bytes that must follow a page in its buffer, so that bits can be loaded eight bytes at a
/// time.
pub(crate) const PADDING: usize = 16;

/// A page's bytes (`padded` without its last [`PADDING`] ones), read from the front.
#[derive(Clone, Copy)]
pub(crate) struct Bits<'a> {
    padded: &'a [u8],
    end: usize,
    at: usize,
}

impl<'a> Bits<'a> {
    /// The page in `padded`, which ends with [`PADDING`] bytes that are not part of it.
    pub(crate) fn new(padded: &'a [u8]) -> Self {
        Self {
            padded,
            end: padded.len().saturating_sub(PADDING),
            at: 0,
        }
    }

    /// What is left.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.padded.get(self.at..self.end).unwrap_or_default()
    }

    /// Splits the next `count` bytes off.
    pub(crate) fn split(&mut self, count: usize) -> Result<Bits<'a>, Expected> {
        let start = self.at;
        self.advance(count)?;
        Ok(Self {
            padded: self.padded,
            end: self.at,
            at: start,
        })
    }

    fn advance(&mut self, count: usize) -> Result<(), Expected> {
        let left = self.end - self.at;
        if count > left {
            return Err(format!("{count} bytes of values where {left} are left"));
        }
        self.at += count;
        Ok(())
    }

    fn varint(&mut self) -> Result<u64, Expected> {
        let mut reader = Reader::new(self.rest());
        let value = reader.varint()?;
        self.at = self.end - reader.remaining();
        Ok(value)
    }

    fn zigzag(&mut self) -> Result<i64, Expected> {
        let mut reader = Reader::new(self.rest());
        let value = reader.zigzag()?;
        self.at = self.end - reader.remaining();
        Ok(value)
    }

    fn byte(&mut self) -> Result<u8, Expected> {
        let &byte = self.rest().first().ok_or("one more byte of values")?;
        self.at += 1;
        Ok(byte)
    }

    /// Four bytes, little-endian.
    pub(crate) fn u32(&mut self) -> Result<u32, Expected> {
        let bytes = self
            .rest()
            .first_chunk::<4>()
            .ok_or("four more bytes of values")?;
        self.at += 4;
        Ok(u32::from_le_bytes(*bytes))
    }

    /// Fills `out` with values of `width` bits (at most 64) each, packed from the lowest bit up, and
    /// goes past `bytes`, which hold them all.
    #[inline]
    fn unpack<T>(
        &mut self,
        width: u32,
        bytes: usize,
        out: &mut [T],
        mut convert: impl FnMut(u64) -> T,
    ) -> Result<(), Expected> {
        let count = out.len();
        if (count as u64 * u64::from(width)).div_ceil(8) > bytes as u64 || width > 64 {
            return Err(format!("{count} values of {width} bits in {bytes} bytes"));
        }
        let start = self.at;
        self.advance(bytes)?;
        let mask = if width == 64 {
            u64::MAX
        } else {
            (1u64 << width) - 1
        };
        let packed = self.padded.get(start..).unwrap_or_default();
        let mut bit = 0usize;
        for slot in out {
            let at = bit / 8;
            let loaded = packed.get(at..).and_then(<[u8]>::first_chunk::<8>);
            let low = loaded.map_or(0, |b| u64::from_le_bytes(*b)) >> (bit % 8);
            let value = if width > 56 && !bit.is_multiple_of(8) {
                let high = packed.get(at + 8).copied().unwrap_or(0);
                low | (u64::from(high) << (64 - bit % 8))
            } else {
                low
            };
            *slot = convert(value & mask);
            bit += width as usize;
        }
        Ok(())
    }

    /// Reads the head of the next run of the hybrid: a repeated value, or groups of eight packed
    /// ones. At most `left` values are taken of it.
    fn run(&mut self, width: u32, left: usize) -> Result<Run, Expected> {
        let head = self.varint()?;
        if head & 1 == 0 {
            let count = (head >> 1).min(left as u64) as usize;
            let mut value = 0u32;
            for shift in (0..width).step_by(8) {
                value |= u32::from(self.byte()?) << shift;
            }
            return if count == 0 {
                Err("a run of at least one value".to_owned())
            } else {
                Ok(Run::Repeated { value, count })
            };
        }
        let bytes = (head >> 1).saturating_mul(u64::from(width));
        let count = (head >> 1).saturating_mul(8).min(left as u64) as usize;
        if count == 0 {
            return Err("a group of at least one value".to_owned());
        }
        // The last group may be cut short by a writer that leaves its padding out.
        Ok(Run::Packed {
            count,
            bytes: bytes.min(self.rest().len() as u64) as usize,
        })
    }
}

/// A run of the RLE and bit-packing hybrid.
enum Run {
    Repeated { value: u32, count: usize },
    Packed { count: usize, bytes: usize },
}

/// Decodes `count` values of the RLE and bit-packing hybrid, `width` bits each.
pub(crate) fn hybrid(
    bits: &mut Bits<'_>,
    width: u32,
    count: usize,
    out: &mut Vec<u32>,
) -> Result<(), Expected> {
    if width > 32 {
        return Err(format!("values of {width} bits, expected at most 32"));
    }
    let end = out.len() + count;
    while out.len() < end {
        let start = out.len();
        match bits.run(width, end - start)? {
            Run::Repeated { value, count } => out.resize(start + count, value),
            Run::Packed { count, bytes } => {
                out.resize(start + count, 0);
                let slots = out.get_mut(start..).unwrap_or_default();
                bits.unpack(width, bytes, slots, |v| v as u32)?;
            }
        }
    }
    Ok(())
}

/// The bits of each byte, lowest first.
const BITS_OF_BYTE: [[bool; 8]; 256] = {
    let mut table = [[false; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut bit = 0;
        while bit < 8 {
            table[byte][bit] = byte >> bit & 1 == 1;
            bit += 1;
        }
        byte += 1;
    }
    table
};

/// Decodes `count` levels of one bit each; returns how many are set.
pub(crate) fn levels(
    bits: &mut Bits<'_>,
    count: usize,
    out: &mut Vec<bool>,
) -> Result<usize, Expected> {
    let end = out.len() + count;
    let mut set = 0;
    while out.len() < end {
        let start = out.len();
        match bits.run(1, end - start)? {
            Run::Repeated { value, count } => {
                out.resize(start + count, value != 0);
                set += if value == 0 { 0 } else { count };
            }
            Run::Packed { count, bytes } => {
                let packed = bits.split(bytes)?;
                if bytes < count.div_ceil(8) {
                    return Err(format!("{count} levels in {bytes} bytes"));
                }
                for &byte in packed.rest().iter().take(count.div_ceil(8)) {
                    if let Some(eight) = BITS_OF_BYTE.get(usize::from(byte)) {
                        out.extend_from_slice(eight);
                    }
                }
                out.truncate(start + count);
                set += out.iter().skip(start).filter(|&&there| there).count();
            }
        }
    }
    Ok(set)
}

/// Decodes `DELTA_BINARY_PACKED` integers; there must be exactly `count`.
pub(crate) fn delta(bits: &mut Bits<'_>, count: usize, out: &mut Vec<u64>) -> Result<(), Expected> {
    let block = bits.varint()?;
    let miniblocks = bits.varint()?;
    let total = bits.varint()?;
    let mut value = bits.zigzag()? as u64;
    if total != count as u64 {
        return Err(format!("{total} delta-coded values, expected {count}"));
    }
    if block == 0 || block > 1 << 16 || miniblocks == 0 || block % miniblocks != 0 {
        return Err(format!(
            "delta blocks of {block} values in {miniblocks} parts"
        ));
    }
    let per_miniblock = (block / miniblocks) as usize;
    if !per_miniblock.is_multiple_of(8) {
        return Err(format!(
            "delta parts of {per_miniblock} values, expected a multiple of 8"
        ));
    }
    if count == 0 {
        return Ok(());
    }
    let end = out.len() + count;
    out.reserve(count);
    out.push(value);
    while out.len() < end {
        let min_delta = bits.zigzag()? as u64;
        let widths = bits.split(miniblocks as usize)?;
        for &width in widths.rest() {
            let values = per_miniblock.min(end - out.len());
            if values == 0 {
                break;
            }
            let width = u32::from(width);
            let bytes = per_miniblock / 8 * width as usize;
            let start = out.len();
            out.resize(start + values, 0);
            bits.unpack(
                width,
                bytes,
                out.get_mut(start..).unwrap_or_default(),
                |v| {
                    value = value.wrapping_add(min_delta).wrapping_add(v);
                    value
                },
            )?;
        }
    }
    Ok(())
}

/// Decodes `count` integers or floating-point numbers of `size` bytes each.
pub(crate) fn plain(
    bits: &mut Bits<'_>,
    size: usize,
    count: usize,
    out: &mut Vec<u64>,
) -> Result<(), Expected> {
    let bytes = bits.split(count.saturating_mul(size))?;
    if size == 4 {
        out.extend(
            bytes
                .rest()
                .as_chunks::<4>()
                .0
                .iter()
                .map(|b| u64::from(u32::from_le_bytes(*b))),
        );
    } else {
        out.extend(
            bytes
                .rest()
                .as_chunks::<8>()
                .0
                .iter()
                .map(|b| u64::from_le_bytes(*b)),
        );
    }
    Ok(())
}

/// Calls `put` with each of `count` byte strings.
pub(crate) fn plain_bytes<'a>(
    bits: &mut Bits<'a>,
    count: usize,
    mut put: impl FnMut(&'a [u8]),
) -> Result<(), Expected> {
    for _ in 0..count {
        let length = bits.u32()? as usize;
        put(bits.split(length)?.rest());
    }
    Ok(())
}
