//! Traces without their names.
