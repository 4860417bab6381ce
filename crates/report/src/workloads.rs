//! The list of workloads.

use fsage_format::result::run::WorkloadInfo;

use crate::page::Page;
use crate::table::{Align, TextTable};

/// One workload with its parameters, or of several what each does.
pub fn text(workloads: &[WorkloadInfo], width: u16) -> String {
    let mut page = Page::new(width);
    if workloads.len() > 1 {
        let columns = [("workload", Align::Left), ("what it does", Align::Prose)];
        let mut table = TextTable::new(&columns, width);
        for workload in workloads {
            table.row([&workload.name, &workload.what].map(String::clone));
        }
        page.table(&table);
        page.say("parameters, defaults and source of one: fsage workloads NAME; of all: --json");
        return page.finish();
    }
    for workload in workloads {
        page.say(format!("{}: {}", workload.name, workload.what));
        for (title, text) in [
            ("good for", &workload.good_for),
            ("source", &workload.source),
        ] {
            page.item(format!("{title}: {text}"));
        }
        if !workload.parameters.is_empty() {
            let columns = [
                ("  parameter", Align::Left),
                ("default", Align::Left),
                ("what", Align::Prose),
            ];
            let mut table = TextTable::new(&columns, width);
            for p in &workload.parameters {
                let what = format!("{}; {}", p.what, p.expected);
                table.row([format!("  {}", p.name), p.default.clone(), what]);
            }
            page.table(&table);
        }
        for config in &workload.configs {
            page.item(format!(
                "config={}: {}: {}",
                config.name,
                config.what,
                // A place to wrap at.
                config.values.replace(',', ", ")
            ));
        }
    }
    page.finish()
}
