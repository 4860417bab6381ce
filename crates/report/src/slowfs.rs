//! What a slowed file system has done.

use fsage_format::result::slowfs::SlowfsStatistics;

use crate::table::{Align, TextTable};
use crate::units::{count, duration};

/// Each operation: how often, what it took, what was to be added, and how much more that became.
pub fn statistics(found: &SlowfsStatistics, width: u16) -> String {
    if found.operations.is_empty() {
        return "nothing was asked for\n".to_owned();
    }
    let columns = [
        ("operation", Align::Left),
        ("calls", Align::Right),
        ("factor", Align::Right),
        ("took", Align::Right),
        ("asked", Align::Right),
        ("late", Align::Right),
    ];
    let mut table = TextTable::new(&columns, width);
    for done in &found.operations {
        table.row([
            done.operation.clone(),
            count(done.calls),
            format!("{}", done.factor),
            duration(done.own_ns as f64),
            duration(done.added_ns.saturating_sub(done.late_ns) as f64),
            duration(done.late_ns as f64),
        ]);
    }
    table.render()
}
