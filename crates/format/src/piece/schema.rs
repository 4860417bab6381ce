//! What a column holds, and how Parquet declares it.

use parquet::basic::{ConvertedType, LogicalType, Repetition, Type as PhysicalType};
use parquet::errors::ParquetError;
use parquet::schema::types::Type;

use super::footer::Physical;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// Unsigned, 16 or 32 bits (Parquet INT32).
    Unsigned(u8),
    /// Signed, 32 bits (Parquet INT32).
    Signed32,
    /// Unsigned, 64 bits (Parquet INT64).
    Unsigned64,
    /// Signed, 64 bits (Parquet INT64).
    Signed64,
    /// A floating-point number (Parquet DOUBLE).
    Number,
    /// Text (Parquet BYTE_ARRAY, UTF-8).
    Text,
}

impl Holds {
    /// Parquet's type, for writing.
    pub(crate) fn physical(self) -> PhysicalType {
        match self {
            Self::Unsigned(_) | Self::Signed32 => PhysicalType::INT32,
            Self::Unsigned64 | Self::Signed64 => PhysicalType::INT64,
            Self::Number => PhysicalType::DOUBLE,
            Self::Text => PhysicalType::BYTE_ARRAY,
        }
    }

    /// Parquet's type, for reading.
    pub(crate) fn stored(self) -> Physical {
        match self {
            Self::Unsigned(_) | Self::Signed32 => Physical::Int32,
            Self::Unsigned64 | Self::Signed64 => Physical::Int64,
            Self::Number => Physical::Double,
            Self::Text => Physical::Bytes,
        }
    }

    /// How the reference page says it.
    pub fn text(self) -> String {
        match self {
            Self::Unsigned(bits) => format!("unsigned, {bits} bits"),
            Self::Signed32 => "signed, 32 bits".to_owned(),
            Self::Unsigned64 => "unsigned, 64 bits".to_owned(),
            Self::Signed64 => "signed, 64 bits".to_owned(),
            Self::Number => "number".to_owned(),
            Self::Text => "text".to_owned(),
        }
    }
}

/// A column with one value per row.
pub(crate) fn primitive(name: &str, holds: Holds, optional: bool) -> Result<Type, ParquetError> {
    let repetition = if optional {
        Repetition::OPTIONAL
    } else {
        Repetition::REQUIRED
    };
    let (logical, converted) = match holds {
        Holds::Unsigned(16) => (
            Some(LogicalType::integer(16, false)),
            ConvertedType::UINT_16,
        ),
        Holds::Unsigned(_) => (
            Some(LogicalType::integer(32, false)),
            ConvertedType::UINT_32,
        ),
        Holds::Signed32 => (Some(LogicalType::integer(32, true)), ConvertedType::INT_32),
        Holds::Unsigned64 => (
            Some(LogicalType::integer(64, false)),
            ConvertedType::UINT_64,
        ),
        Holds::Signed64 => (Some(LogicalType::integer(64, true)), ConvertedType::INT_64),
        Holds::Number => (None, ConvertedType::NONE),
        Holds::Text => (Some(LogicalType::String), ConvertedType::UTF8),
    };
    Type::primitive_type_builder(name, holds.physical())
        .with_repetition(repetition)
        .with_logical_type(logical)
        .with_converted_type(converted)
        .build()
}
