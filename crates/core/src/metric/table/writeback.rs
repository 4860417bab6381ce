//! Slowdown by what is written behind.

use super::{Family, Group, Points, Unit};

pub(super) const ROWS: &[Family] = &[
    Family {
        stem: "WR",
        unit: Unit::Seconds,
        points: Some(Points {
            unit: "KiB/s",
            values: &[0, 1024, 4096, 16384, 65536, 262_144],
        }),
        gaps: false,
        group: Group::WriteBack,
        quick: true,
        short: "slowdown by a stream written behind",
        what: "time of a fixed mixed workload, by concurrent write load",
        how: "Smith 2001, 4.4.3.2.5: read, write, create, truncate, delete beside a paced writer",
        source: "Smith 2001, Table 4.4",
        depends: &["TR"],
    },
    Family {
        stem: "WB",
        unit: Unit::Ratio,
        points: Some(Points {
            unit: "blocks/s",
            values: &[256, 1024, 4096, 16384],
        }),
        gaps: false,
        group: Group::WriteBack,
        quick: false,
        short: "slowdown by small files written behind",
        what: "slowdown of the fixed workload, by 4 KiB blocks written per second, one to a file",
        how: "as WR, small files instead of one stream",
        source: "Smith 2001, 4.6: by blocks, not bytes",
        depends: &["WR"],
    },
    Family {
        stem: "WM",
        unit: Unit::Ratio,
        points: Some(Points {
            unit: "ops/s",
            values: &[256, 1024, 4096, 16384],
        }),
        gaps: false,
        group: Group::WriteBack,
        quick: false,
        short: "slowdown by creates and unlinks beside",
        what: "slowdown of the fixed workload, by creates and unlinks per second",
        how: "as WR, empty files",
        source: "Smith 2001, 6.1.3.3",
        depends: &["WR"],
    },
];
