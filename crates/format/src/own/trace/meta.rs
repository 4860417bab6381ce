//! What a trace says about itself.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::columns::unescape;

/// What is known when a trace begins. Every field may be left at its default where it is unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TraceMeta {
    /// The fsage that wrote it, e.g. `0.1.0`.
    pub fsage: String,
    /// The machine's name.
    pub host: String,
    /// The kernel's release and build (`uname -r -v`).
    pub kernel: String,
    /// The traced command and its arguments; empty for a running process tree.
    pub command: Vec<String>,
    /// The directory in which the command began, absolute.
    pub directory: String,
    /// Wall clock at `start_ns` 0, in nanoseconds since the epoch.
    pub start_unix_ns: u64,
    /// The clock of `start_ns` and `latency_ns`, e.g. `CLOCK_MONOTONIC`.
    pub clock: String,
    /// How it was captured or where it came from: `ebpf`, `ptrace`, `import strace`, a generator.
    pub method: String,
    /// Only operations under these directories were kept; empty for all.
    pub under: Vec<String>,
    /// The processes at which the trace began, where it was attached to running ones.
    pub attached: Vec<u32>,
    /// The snapshot of the files before the trace began: its path or name.
    pub snapshot: Option<String>,
    /// The seed of a generated or fitted trace.
    pub seed: Option<u64>,
    /// Anything else worth keeping, by name.
    pub extra: BTreeMap<String, String>,
}

impl TraceMeta {
    /// The directories of `under`, as operations name them: their texts are written as paths are.
    pub fn roots(&self) -> Vec<Vec<u8>> {
        let bytes = |dir: &String| unescape(dir.as_bytes());
        self.under.iter().map(bytes).collect()
    }

    /// The same of the directory in which the command began.
    pub fn working_directory(&self) -> Vec<u8> {
        unescape(self.directory.as_bytes())
    }
}

/// What is known when a trace ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TraceEnd {
    /// Operations that happened and are not in the trace.
    pub operations_lost: u64,
    /// Of these, operations on files whose opening was lost, so that nobody knows whether they
    /// belong below `under`.
    pub operations_left_out: u64,
    /// Operations of the trace without the name of their file or directory, because it was lost.
    pub operations_nameless: u64,
    /// For how long calls were kept from returning so that nothing is lost, summed over all
    /// threads, in nanoseconds. It is in no latency; it is in the pauses between operations.
    pub throttled_ns: u64,
    /// Operations that stand after one that started later.
    pub late: u64,
    /// From the start of the trace to its end, in nanoseconds.
    pub elapsed_ns: u64,
    /// The exit status of the traced command; `None` where there was none or it was killed.
    pub exit_status: Option<i32>,
    /// The signal that killed the command.
    pub exit_signal: Option<i32>,
    /// Why the capture ended, where it was not the end of the command: `interrupted`, `time`.
    pub stopped: Option<String>,
    /// The programs that processes ran, by their number, also where `under` left their calls out.
    pub programs: BTreeMap<u32, String>,
    /// Of a model's run: how many of the first operations make what was there before its trace, and are none of that.
    #[serde(skip_serializing_if = "is_none")]
    pub setup_operations: u64,
    /// How many of the last ones remove what the others made.
    #[serde(skip_serializing_if = "is_none")]
    pub teardown_operations: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_none(number: &u64) -> bool {
    *number == 0
}

impl TraceEnd {
    /// What a user of the trace should know beside what it lacks.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.operations_left_out > 0 {
            remarks.push(format!(
                "of the lost operations {} are on files whose opening was lost",
                self.operations_left_out
            ));
        }
        if self.operations_nameless > 0 {
            remarks.push(format!(
                "{} operations are without the name of their file or directory: it was lost",
                self.operations_nameless
            ));
        }
        if self.throttled_ns > 0 {
            remarks.push(format!(
                "calls were held back by {:.3} s in all, so that none is lost; that is in the \
                 pauses between operations, not in their latencies",
                self.throttled_ns as f64 / 1e9
            ));
        }
        remarks
    }
}

/// What a trace lacks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Loss {
    /// Operations that the capture lost; in an unfinished trace those counted so far.
    pub operations_lost: u64,
    /// The file has no end: its writer was killed or the file was cut.
    pub unfinished: bool,
    /// Bytes after the last whole piece, which could not be read.
    pub bytes_dropped: u64,
}

impl Loss {
    /// Whether the trace is whole.
    pub fn is_none(&self) -> bool {
        self.operations_lost == 0 && !self.unfinished
    }
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.operations_lost, self.unfinished) {
            (0, false) => f.write_str("nothing lost"),
            (lost, false) => write!(f, "{lost} operations lost by the capture"),
            (lost, true) => write!(
                f,
                "the trace has no end: what follows its last whole piece is lost ({} bytes of the \
                 file), {lost} operations lost by the capture before",
                self.bytes_dropped
            ),
        }
    }
}
