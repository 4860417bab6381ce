//! Emulated disks in real time.
