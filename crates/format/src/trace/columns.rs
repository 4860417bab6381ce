//! The one table of a trace's columns.
