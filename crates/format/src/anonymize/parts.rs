//! The one table of what is hidden and what stays.

/// Of what a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// A column of a trace.
    Operations,
    /// Metadata of a trace.
    Trace,
    /// A column of a snapshot.
    Names,
    /// Metadata of a snapshot.
    Snapshot,
    /// A system profile.
    Profile,
}

impl Of {
    /// How it is called in the list that is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Operations => "operations",
            Self::Trace => "trace",
            Self::Names => "names",
            Self::Snapshot => "snapshot",
            Self::Profile => "profile",
        }
    }
}

/// What happens to a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// It stays as it is.
    Kept,
    /// Each component of the path becomes a token; `/`, `.`, `..`, `proc`, `sys` and `dev` stay.
    Path,
    /// As a path; where it is an attribute's name, its namespace (`user.`) stays.
    PathOrAttribute,
    /// It becomes a token.
    Word,
    /// Options stay, their values become tokens unless they name nothing.
    Options,
    /// Keys stay, values become tokens but for the number of processors and their use.
    Extra,
    /// It becomes 0.
    Zero,
}

impl Treatment {
    /// How the reference page says it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Kept => "stays",
            Self::Path => {
                "each component becomes a token; `/`, `.`, `..`, `proc`, `sys`, `dev` stay"
            }
            Self::PathOrAttribute => {
                "as a path; an attribute's name becomes a token, its namespace (`user.`) stays"
            }
            Self::Word => "becomes a token",
            Self::Options => "options stay, values that may name something become tokens",
            Self::Extra => {
                "keys stay, values become tokens but for `cpus` and `one_cpu`, which a prediction needs"
            }
            Self::Zero => "becomes 0",
        }
    }
}

/// A part of a trace, a snapshot or a profile.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// Of what.
    pub of: Of,
    /// The column's name, or the field's with those that it lies in, as `environment.machine.host`.
    pub name: &'static str,
    /// What happens to it.
    pub treatment: Treatment,
}

macro_rules! parts {
    ($($of:ident $within:literal $treatment:ident: $($name:literal)*;)*) => {
        /// Every column, every field of the metadata and of a profile. What is known at a file's end stays.
        pub const PARTS: &[Part] = &[$($(Part {
            of: Of::$of,
            name: concat!($within, $name),
            treatment: Treatment::$treatment,
        },)*)*];
    };
}

parts! {
    Operations "" Path: "path" "dir" "dir2";
    Operations "" PathOrAttribute: "path2";
    Operations "" Kept: "kind" "start_ns" "latency_ns" "pid" "tid" "result" "fd" "dev" "ino" "generation"
        "offset" "length" "flags" "size_bytes" "pages_missed" "pages_ahead" "record" "ready_ns" "asleep_ns"
        "waited_ns" "after_tid" "after_ops" "after_lag_ns" "after_rest_ns" "queued_ns"
        "blocked_ns" "sleeps";
    Trace "" Word: "host" "command";
    Trace "" Path: "directory" "under" "snapshot";
    Trace "" Extra: "extra";
    Trace "" Kept: "fsage" "kernel" "start_unix_ns" "clock" "method" "attached" "seed";
    Names "" Path: "path" "link_target";
    Names "" Zero: "uid" "gid";
    Names "" Kept: "ino" "generation" "type" "size_bytes" "allocated_bytes" "links" "mode" "atime_ns"
        "mtime_ns" "ctime_ns" "btime_ns" "extents";
    Snapshot "" Word: "host";
    Snapshot "" Path: "root";
    Snapshot "" Options: "mount_options";
    Snapshot "" Extra: "extra";
    Snapshot "" Kept: "fsage" "kernel" "dev" "file_system" "block_bytes" "total_bytes" "free_bytes"
        "taken_unix_ns";
    Profile "" Word: "name";
    Profile "" Kept: "format" "version" "measurement" "metrics" "absent" "incomplete" "disturbances";
    Profile "environment.machine." Word: "host" "kernel.command_line" "load.busiest.name";
    Profile "environment.machine." Path: "tools.path";
    Profile "environment.machine." Zero: "load.users";
    Profile "environment.machine." Kept: "fsage" "product" "hypervisor" "container" "distribution"
        "kernel.release" "kernel.build" "kernel.architecture" "kernel.tainted" "processor" "memory"
        "write_back" "clock_source" "load.average" "load.busy" "load.observed_ns"
        "load.busiest.cpu_share" "load.threads" "load.cpu_pressure" "load.io_pressure"
        "load.memory_pressure" "tools.name" "tools.version" "tools.size_bytes" "privileged"
        "taken_unix_ns";
    Profile "environment.target." Word: "target" "aged" "mkfs.options" "restored.sha256"
        "devices.model";
    Profile "environment.target." Path: "source" "mkfs.image" "restored.file" "devices.backing_file";
    Profile "environment.target." Options: "mount_options" "mount_options_given";
    Profile "environment.target." Extra: "parameters";
    Profile "environment.target." Kept: "scratch" "file_system" "mkfs.program" "mkfs.version"
        "mkfs.image_bytes" "restored.kind" "restored.bytes" "restored.names" "restored.data_bytes"
        "total_bytes" "free_bytes" "used_inodes" "emulated" "in_memory" "virtual_time" "kernel_threads";
    Profile "environment.target.devices." Kept: "name" "kind" "depth" "firmware" "bus"
        "size_bytes" "start_bytes" "disk_bytes" "scheduler" "read_ahead_bytes" "rotational"
        "write_cache" "logical_block_bytes" "physical_block_bytes" "queued_requests"
        "largest_request_bytes" "discard" "write_throttle_us" "zoned" "backing_file_system"
        "direct_io";
}

/// Names of the parts of these that stay (`kept`), or of those that do not, as `operations.path`.
pub fn names(of: [Of; 2], kept: bool) -> Vec<String> {
    let parts = PARTS.iter().filter(|part| of.contains(&part.of));
    parts
        .filter(|part| (part.treatment == Treatment::Kept) == kept)
        .map(|part| format!("{}.{}", part.of.name(), part.name))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;
    use crate::snapshot::SnapshotMeta;
    use crate::trace::TraceMeta;

    fn of(of: Of) -> BTreeSet<String> {
        let parts = PARTS.iter().filter(|part| part.of == of);
        parts.map(|part| part.name.to_owned()).collect()
    }

    fn fields(value: &impl serde::Serialize) -> BTreeSet<String> {
        let value = serde_json::to_value(value).unwrap();
        value.as_object().unwrap().keys().cloned().collect()
    }

    #[test]
    fn every_column_and_every_field_stands_in_the_table() {
        let columns = crate::trace::columns::COLUMNS
            .iter()
            .map(|c| c.name.to_owned());
        assert_eq!(of(Of::Operations), columns.collect());
        let columns = crate::snapshot::columns::COLUMNS
            .iter()
            .map(|c| c.name.to_owned());
        let extents = ["extents".to_owned()];
        assert_eq!(of(Of::Names), columns.chain(extents).collect());
        assert_eq!(of(Of::Trace), fields(&TraceMeta::default()));
        assert_eq!(of(Of::Snapshot), fields(&SnapshotMeta::default()));
    }

    /// The fields of a type that its schema has, down to those that the table has.
    fn reported(schema: &Value, of: &Value, path: &str, all: &mut BTreeSet<String>) {
        let known = of_profile(path);
        let inner = [&of["anyOf"][0], of, &of["items"]].map(|of| of["$ref"].as_str());
        let inner = inner.into_iter().flatten().next();
        let inner = inner.map_or(of, |name| {
            &schema["$defs"][name.trim_start_matches("#/$defs/")]
        });
        match inner["properties"].as_object().filter(|_| !known) {
            Some(fields) => fields.iter().for_each(|(name, of)| {
                let path = format!("{path}.{name}");
                reported(schema, of, path.trim_start_matches('.'), all);
            }),
            None => {
                all.insert(path.to_owned());
            }
        }
    }

    fn of_profile(name: &str) -> bool {
        of(Of::Profile).contains(name)
    }

    #[test]
    fn every_field_of_a_profile_stands_in_the_table() {
        let schema: Value = serde_json::from_str(&crate::schema::system_profile()).unwrap();
        let mut all = BTreeSet::new();
        reported(&schema, &schema, "", &mut all);
        assert_eq!(of(Of::Profile), all);
    }
}
