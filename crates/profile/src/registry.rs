//! Every procedure and the families that it measures.

use crate::error::Res;
use crate::group;
use crate::lab::Lab;

/// How some families are measured together.
pub(crate) struct Procedure {
    /// What it is called in progress reports.
    pub name: &'static str,
    /// The families that it measures.
    pub stems: &'static [&'static str],
    /// Its share of the time, relative to the others: in a quick and in a full measurement.
    pub share: (u32, u32),
    /// The measurement.
    pub run: fn(&mut Lab<'_>) -> Res,
}

/// Every procedure, in the order of measurement where time is computed (elsewhere `budget::by_value`): what others
/// subtract comes first; then what reads small files, whose places on the device would else be what earlier procedures
/// left free; then what makes names, whose inodes would else be searched among those that were freed
/// (`Lab::start_afresh`): nothing before removes what it made; what dirties the machine's memory last.
pub(crate) fn procedures() -> Vec<&'static Procedure> {
    [
        group::parameters::PROCEDURES,
        group::cold::PROCEDURES,
        group::scaling_cold::PROCEDURES,
        group::lookup::PROCEDURES,
        group::lookup_cold::PROCEDURES,
        group::names::PROCEDURES,
        group::copies::PROCEDURES,
        group::host_calls::PROCEDURES,
        group::files::PROCEDURES,
        group::calls::PROCEDURES,
        group::data::PROCEDURES,
        group::recent::PROCEDURES,
        group::sockets::PROCEDURES,
        group::mmap::PROCEDURES,
        group::truncate::PROCEDURES,
        group::sync::PROCEDURES,
        group::sync_rows::PROCEDURES,
        group::sync_all::PROCEDURES,
        group::stream::PROCEDURES,
        group::scaling::PROCEDURES,
        group::writeback::PROCEDURES,
        group::caches::PROCEDURES,
        group::changes::PROCEDURES,
        group::scattered::PROCEDURES,
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsage_core::metric::{FAMILIES, family};
    use std::collections::HashMap;

    #[test]
    fn every_row_has_exactly_one_procedure_and_no_procedure_lacks_a_row() {
        let mut owners: HashMap<&str, Vec<&str>> = HashMap::new();
        for procedure in procedures() {
            for stem in procedure.stems {
                assert!(
                    family(stem).is_some(),
                    "{}: {stem} is no row",
                    procedure.name
                );
                owners.entry(stem).or_default().push(procedure.name);
            }
        }
        for row in FAMILIES.iter() {
            let found = owners.get(row.stem).map_or(&[][..], Vec::as_slice);
            assert_eq!(found.len(), 1, "{} is measured by {found:?}", row.stem);
        }
    }

    #[test]
    fn dependencies_are_measured_before() {
        let order: Vec<&str> = procedures()
            .iter()
            .flat_map(|p| p.stems.iter().copied())
            .collect();
        let procedure_of = |stem: &str| {
            procedures()
                .iter()
                .position(|p| p.stems.contains(&stem))
                .unwrap_or(usize::MAX)
        };
        for stem in order {
            for needed in family(stem).map_or(&[][..], |f| f.row().depends) {
                assert!(
                    procedure_of(needed) <= procedure_of(stem),
                    "{stem} before {needed}"
                );
            }
        }
    }
}
