//! Parquet files in pieces that survive a crash.
