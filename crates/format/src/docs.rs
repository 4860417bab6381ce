//! The reference page of the formats, made from the column tables.
