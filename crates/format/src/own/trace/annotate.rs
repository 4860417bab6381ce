//! Columns that an analysis adds beside the operations.

/// What an added column holds; every value may be absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AnnotationKind {
    /// An unsigned integer.
    Integer,
    /// A floating-point number.
    Number,
    /// Text; best where few distinct values occur.
    Text,
}

impl AnnotationKind {
    pub(crate) fn holds(self) -> crate::piece::Holds {
        match self {
            Self::Integer => crate::piece::Holds::Unsigned64,
            Self::Number => crate::piece::Holds::Number,
            Self::Text => crate::piece::Holds::Text,
        }
    }
}

/// A column that an analysis adds. Its name must not be one of the trace's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnnotationColumn {
    /// The name, with its unit last, e.g. `predicted_ns`.
    pub name: String,
    /// What it holds.
    pub kind: AnnotationKind,
}

/// One value of an added column.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum AnnotationValue {
    /// Nothing is said.
    #[default]
    Absent,
    /// For [`AnnotationKind::Integer`].
    Integer(u64),
    /// For [`AnnotationKind::Number`].
    Number(f64),
    /// For [`AnnotationKind::Text`].
    Text(String),
}

/// The added values of a batch of operations: one row of the reader's columns per operation.
#[derive(Debug, Clone, Default)]
pub struct Annotations {
    pub(crate) width: usize,
    pub(crate) values: Vec<AnnotationValue>,
}

impl Annotations {
    /// The values beside operation `row` of the batch; empty past its end.
    pub fn row(&self, row: usize) -> &[AnnotationValue] {
        let start = row.saturating_mul(self.width);
        self.values
            .get(start..start.saturating_add(self.width))
            .unwrap_or(&[])
    }
}
