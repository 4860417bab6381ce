//! The list of workloads.

use fsage_format::result::run::WorkloadInfo;

use crate::table::{Align, TextTable};

/// Every workload with its parameters.
pub fn text(workloads: &[WorkloadInfo], width: u16) -> String {
    let mut out = String::new();
    for workload in workloads {
        out.push_str(&format!("{}: {}\n", workload.name, workload.what));
        for (title, text) in [
            ("good for", &workload.good_for),
            ("source", &workload.source),
        ] {
            out.push_str(&format!("  {title}: {text}\n"));
        }
        if !workload.parameters.is_empty() {
            let columns = [
                ("  parameter", Align::Left),
                ("default", Align::Left),
                ("what", Align::Left),
            ];
            let mut table = TextTable::new(&columns, width);
            for p in &workload.parameters {
                let what = format!("{}; {}", p.what, p.expected);
                table.row([format!("  {}", p.name), p.default.clone(), what]);
            }
            out.push_str(&table.render());
        }
        for config in &workload.configs {
            out.push_str(&format!(
                "  config={}: {}: {}\n",
                config.name, config.what, config.values
            ));
        }
        out.push('\n');
    }
    out
}
