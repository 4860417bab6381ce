//! The Thrift compact protocol, as far as Parquet's footers and page headers need it.
//!
//! Every length is checked against the bytes that are left before anything is held for it, and
//! nesting is bounded, so that no input costs more than its own size.
//!
//! Source: <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>.

/// What was expected and not found; the caller knows the file and the place.
pub(crate) type Expected = String;

const MAX_DEPTH: u32 = 16;

/// Wire types.
pub(crate) mod wire {
    pub const TRUE: u8 = 1;
    pub const FALSE: u8 = 2;
    pub const I8: u8 = 3;
    pub const I16: u8 = 4;
    pub const I32: u8 = 5;
    pub const I64: u8 = 6;
    pub const DOUBLE: u8 = 7;
    pub const BINARY: u8 = 8;
    pub const LIST: u8 = 9;
    pub const SET: u8 = 10;
    pub const MAP: u8 = 11;
    pub const STRUCT: u8 = 12;
}

/// Reads from the front of a slice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Bytes not read yet.
    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }

    fn byte(&mut self) -> Result<u8, Expected> {
        let (&first, rest) = self.rest.split_first().ok_or("it ends within a field")?;
        self.rest = rest;
        Ok(first)
    }

    /// The next `count` bytes.
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Expected> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(|| {
            format!(
                "a length of {count} bytes where {} are left",
                self.rest.len()
            )
        })?;
        self.rest = rest;
        Ok(taken)
    }

    /// An unsigned LEB128 number.
    pub(crate) fn varint(&mut self) -> Result<u64, Expected> {
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a number of more than 64 bits".to_owned())
    }

    /// A zigzag-coded signed number.
    pub(crate) fn zigzag(&mut self) -> Result<i64, Expected> {
        let raw = self.varint()?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    /// Calls `field` with the id and wire type of every field of a struct. `field` reads the value
    /// or returns `false` to have it skipped.
    pub(crate) fn fields(
        &mut self,
        mut field: impl FnMut(&mut Self, i64, u8) -> Result<bool, Expected>,
    ) -> Result<(), Expected> {
        let mut id = 0i64;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Ok(());
            }
            id = match head >> 4 {
                0 => self.zigzag()?,
                delta => id.wrapping_add(i64::from(delta)),
            };
            let wire_type = head & 0x0f;
            if !field(self, id, wire_type)? {
                self.skip(wire_type, 0)?;
            }
        }
    }

    /// The number of elements of a list and their wire type. Each takes at least one byte, which
    /// bounds the number.
    fn list_head(&mut self) -> Result<(usize, u8), Expected> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.varint()?,
            count => u64::from(count),
        };
        if count > self.rest.len() as u64 {
            return Err(format!(
                "a list of {count} where {} bytes are left",
                self.rest.len()
            ));
        }
        Ok((count as usize, head & 0x0f))
    }

    /// Calls `element` for every element of a list of that wire type.
    pub(crate) fn list(
        &mut self,
        wire_type: u8,
        mut element: impl FnMut(&mut Self) -> Result<(), Expected>,
    ) -> Result<(), Expected> {
        let (count, found) = self.list_head()?;
        if found != wire_type && count > 0 {
            return Err(format!("a list of type {found}, expected {wire_type}"));
        }
        for _ in 0..count {
            element(self)?;
        }
        Ok(())
    }

    /// A byte string.
    pub(crate) fn binary(&mut self) -> Result<&'a [u8], Expected> {
        let length = self.varint()?;
        self.take(usize::try_from(length).unwrap_or(usize::MAX))
    }

    /// A byte string that is text.
    pub(crate) fn text(&mut self) -> Result<&'a str, Expected> {
        std::str::from_utf8(self.binary()?).map_err(|_| "text that is not UTF-8".to_owned())
    }

    fn skip(&mut self, wire_type: u8, depth: u32) -> Result<(), Expected> {
        if depth > MAX_DEPTH {
            return Err(format!(
                "more than {MAX_DEPTH} structures within each other"
            ));
        }
        match wire_type {
            wire::TRUE | wire::FALSE => Ok(()),
            wire::I8 => self.byte().map(drop),
            wire::I16 | wire::I32 | wire::I64 => self.varint().map(drop),
            wire::DOUBLE => self.take(8).map(drop),
            wire::BINARY => self.binary().map(drop),
            wire::LIST | wire::SET => {
                let (count, element) = self.list_head()?;
                (0..count).try_for_each(|_| self.skip_element(element, depth + 1))
            }
            wire::MAP => self.skip_map(depth),
            wire::STRUCT => self.fields_skipped(depth + 1),
            other => Err(format!("a field of the unknown type {other}")),
        }
    }

    /// Booleans take a byte of their own inside a list.
    fn skip_element(&mut self, wire_type: u8, depth: u32) -> Result<(), Expected> {
        match wire_type {
            wire::TRUE | wire::FALSE => self.byte().map(drop),
            other => self.skip(other, depth),
        }
    }

    fn skip_map(&mut self, depth: u32) -> Result<(), Expected> {
        let count = self.varint()?;
        if count == 0 {
            return Ok(());
        }
        if count > self.rest.len() as u64 {
            return Err(format!(
                "a map of {count} where {} bytes are left",
                self.rest.len()
            ));
        }
        let types = self.byte()?;
        (0..count).try_for_each(|_| {
            self.skip_element(types >> 4, depth + 1)?;
            self.skip_element(types & 0x0f, depth + 1)
        })
    }

    fn fields_skipped(&mut self, depth: u32) -> Result<(), Expected> {
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Ok(());
            }
            if head >> 4 == 0 {
                self.zigzag()?;
            }
            self.skip(head & 0x0f, depth)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_to_their_full_width() {
        let mut reader = Reader::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
        assert_eq!(reader.varint(), Ok(u64::MAX));
        assert!(Reader::new(&[0xff; 11]).varint().is_err());
        assert_eq!(Reader::new(&[3]).zigzag(), Ok(-2));
    }

    #[test]
    fn lengths_beyond_the_input_are_refused() {
        // A byte string of 2^40 bytes, a list of 2^40 elements, structs within structs without end.
        assert!(
            Reader::new(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x20])
                .binary()
                .is_err()
        );
        assert!(
            Reader::new(&[0xf5, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20])
                .list_head()
                .is_err()
        );
        assert!(
            Reader::new(&vec![0x1c; 1 << 16])
                .fields(|_, _, _| Ok(false))
                .is_err()
        );
    }
}
