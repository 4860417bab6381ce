//! What a metric is, in words.

use fsage_core::metric::{FamilyId, GAPS_US, MetricId, family};

use crate::page::Page;

/// Explains a metric (`FSYN16`) or a family of them (`FSYN`); `None` where nothing has the name.
pub fn explain(name: &str, width: u16) -> Option<String> {
    let name = name.to_uppercase();
    let metric = MetricId::parse(&name);
    let family = metric.map(MetricId::family).or_else(|| family(&name))?;
    let row = family.row();
    let mut page = Page::new(width);
    page.say(match metric {
        Some(id) if row.stem != name => format!("{id}: {}", id.words()),
        _ => format!("{}: {}", row.stem, row.what),
    });
    page.blank();
    page.say(format!("unit: {}", row.unit.name()));
    page.say(format!("how it is measured: {}", row.how));
    page.say(format!("source: {}", row.source));
    if let Some(points) = row.points {
        let values: Vec<String> = points.values.iter().map(u32::to_string).collect();
        page.say(format!(
            "measured for ({}): {}",
            points.unit,
            values.join(", ")
        ));
    }
    if row.gaps {
        let gaps: Vec<String> = GAPS_US.iter().map(u32::to_string).collect();
        page.say(format!(
            "after pauses of {} us since the last call of its kind: {}_G1 is after 1 us",
            gaps.join(", "),
            first(family)
        ));
    }
    if !row.quick {
        page.say("quick profiles leave it out");
    }
    if !row.depends.is_empty() {
        page.say(format!("subtracted or needed: {}", row.depends.join(", ")));
    }
    Some(page.finish())
}

/// What a group of metrics holds.
pub fn group(name: &str, families: &[FamilyId], width: u16) -> String {
    let mut page = Page::new(width);
    page.say(format!(
        "{name}: metrics that 'fsage predict --what-if {name}*0.5' changes together"
    ));
    page.blank();
    for family in families {
        page.item(format!("{}: {}", family.row().stem, family.row().what));
    }
    page.finish()
}

fn first(family: FamilyId) -> MetricId {
    family.scalar()
}

#[cfg(test)]
mod tests {
    use super::explain;

    #[test]
    fn metrics_and_families_are_explained() {
        let one = explain("FSYN16", 80).unwrap();
        assert!(
            one.starts_with("FSYN16: ") && one.contains("16 KiB"),
            "{one}"
        );
        let family = explain("fsyn", 80).unwrap();
        assert!(family.starts_with("FSYN: "), "{family}");
        assert!(
            explain("STAT_G10", 80)
                .unwrap()
                .contains("after a pause of 10 us")
        );
        assert!(explain("NOSUCH", 80).is_none());
    }
}
