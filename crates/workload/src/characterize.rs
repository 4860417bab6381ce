//! Characterises a stream of operations: its mix, sizes, locality and footprint.
