//! What differs between two configurations and where they were measured: every recorded value, by its
//! name in the record, without what differs from one moment to the next.

use std::collections::BTreeMap;

use fsage_format::result::comparison::Difference;
use fsage_format::result::environment::{LoadRecord, MachineRecord, TargetRecord};
use serde::Serialize;
use serde_json::Value;

use super::Side;

/// Others used this much more of the processors, as a share of them, in one experiment than in the
/// other: worth telling.
const LOAD_APART: f64 = 0.1;

/// Everything that differs, in the order of the names.
pub(super) fn of(a: Side<'_>, b: Side<'_>) -> Vec<Difference> {
    let (mut of_a, mut of_b) = (values(a), values(b));
    let apart = matches!(
        (busy(a), busy(b)),
        (Some(x), Some(y)) if (x - y).abs() > LOAD_APART
    );
    if apart {
        for (side, map) in [(a, &mut of_a), (b, &mut of_b)] {
            let share = busy(side).map_or_else(String::new, |s| format!("{:.0} %", s * 100.0));
            map.insert("machine.load.busy".to_owned(), share);
        }
    }
    let kind = "target_record.file_system";
    if of_a.get(kind) != of_b.get(kind) {
        // Parameters of other file systems have other names.
        for map in [&mut of_a, &mut of_b] {
            map.retain(|name, _| !name.starts_with("target_record.parameters."));
        }
    }
    let names: std::collections::BTreeSet<&String> = of_a.keys().chain(of_b.keys()).collect();
    names
        .into_iter()
        .filter(|name| of_a.get(*name) != of_b.get(*name))
        .map(|name| Difference {
            what: name.clone(),
            a: of_a.get(name).cloned(),
            b: of_b.get(name).cloned(),
        })
        .collect()
}

fn busy(side: Side<'_>) -> Option<f64> {
    side.experiment.machine.as_ref()?.load.busy
}

/// What there is to know of one side, by name.
fn values(side: Side<'_>) -> BTreeMap<String, String> {
    let c = side.configuration;
    let mut map = BTreeMap::new();
    let mut put = |name: &str, value: &str| {
        map.insert(name.to_owned(), value.to_owned());
    };
    put("cache", &c.cache);
    put("state", &c.state);
    put("workload", &c.workload_spec);
    put("setup", c.setup.as_deref().unwrap_or("none"));
    put("target", &c.target_spec);
    let one_cpu = c.runs.first().and_then(|run| run.one_cpu.as_deref());
    put("one_cpu", one_cpu.unwrap_or("no"));
    for (name, value) in &c.parameters {
        put(&format!("parameter.{name}"), value);
    }
    if let Some(machine) = &side.experiment.machine {
        flatten("machine", &lasting_machine(machine), &mut map);
    }
    if let Some(target) = &c.target_record {
        flatten("target_record", &lasting_target(target), &mut map);
    }
    map
}

/// Without what differs from one moment to the next.
fn lasting_machine(machine: &MachineRecord) -> Value {
    let mut lasting = machine.clone();
    lasting.load = LoadRecord::default();
    lasting.memory.available_bytes = None;
    lasting.memory.swap_used_bytes = None;
    lasting.taken_unix_ns = 0;
    value(&lasting)
}

/// Without numbers of loop devices, which say nothing.
fn lasting_target(target: &TargetRecord) -> Value {
    let mut lasting = target.clone();
    // The specification stands beside the configuration's name.
    lasting.target.clear();
    lasting.free_bytes = None;
    lasting.used_inodes = None;
    lasting.parameters.remove("Filesystem created");
    lasting.kernel_threads.clear();
    if let Some(restored) = &mut lasting.restored {
        // The digest tells files apart; the same under another name is the same.
        restored.file.clear();
        // How much of an image is holes depends on how its file lies.
        restored.data_bytes = 0;
    }
    for device in &mut lasting.devices {
        if device.kind == "loop" {
            device.name.clear();
            device.backing_file = None;
        }
    }
    if lasting.scratch {
        lasting.source = None;
    }
    value(&lasting)
}

fn value<T: Serialize>(record: &T) -> Value {
    serde_json::to_value(record).unwrap_or_default()
}

/// Every value of a document by its path; `null` is not there.
fn flatten(path: &str, value: &Value, map: &mut BTreeMap<String, String>) {
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            for (name, value) in fields {
                flatten(&format!("{path}.{name}"), value, map);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                // Tools are told by their names, not by where they stand.
                let key = item.get("name").filter(|_| path.ends_with("tools"));
                let key = key.and_then(Value::as_str).map(str::to_owned);
                let key = key.unwrap_or_else(|| index.to_string());
                flatten(&format!("{path}.{key}"), item, map);
            }
        }
        Value::String(text) => {
            map.insert(path.to_owned(), text.clone());
        }
        other => {
            map.insert(path.to_owned(), other.to_string());
        }
    }
}
