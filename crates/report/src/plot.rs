//! Plots as SVG: the layout score over time and by size of file (Figures 3.3 and 3.4 of the thesis).

use fsage_format::result::layout::{Layout, Layouts};
use plotters::coord::Shift;
use plotters::prelude::*;

/// A plot could not be laid out.
#[derive(Debug, thiserror::Error)]
#[error("draw a plot: {0}")]
pub struct PlotError(String);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Points = Vec<(f64, f64)>;

const WIDTH: u32 = 800;
const HEIGHT: u32 = 400;
const DAY_NS: f64 = 86_400e9;
/// Told apart also without colours seen: dark blue and orange.
const COLORS: [RGBColor; 2] = [RGBColor(0, 90, 160), RGBColor(220, 110, 0)];

/// The scores of each target in their order, where there are several, and by size of the last.
pub fn scores(found: &Layouts) -> Result<String, PlotError> {
    let several = found.layouts.len() > 1;
    let mut svg = String::new();
    {
        let size = (WIDTH, HEIGHT * if several { 2 } else { 1 });
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        draw(&root, found, several).map_err(|e| PlotError(e.to_string()))?;
    }
    Ok(svg)
}

fn draw(root: &Area<'_>, found: &Layouts, several: bool) -> Result<(), Box<dyn std::error::Error>> {
    root.fill(&WHITE)?;
    let by_size = if several {
        let (above, below) = root.split_vertically(HEIGHT);
        let (x, of) = times(&found.layouts);
        let against: Points = scored(&found.against, |i| of.get(i).copied());
        let lines = [scored(&found.layouts, |i| of.get(i).copied()), against];
        chart(&above, "layout score over time", x, &lines, |x| {
            format!("{x:.0}")
        })?;
        below
    } else {
        root.clone()
    };
    let last = found.layouts.last().map_or(Vec::new(), sizes);
    let against = found.against.last().map_or(Vec::new(), sizes);
    let title = "layout score by size of file";
    chart(&by_size, title, "size of file", &[last, against], |x| {
        crate::units::bytes(x.exp2().round() as u64)
    })?;
    root.present()?;
    Ok(())
}

/// What the horizontal axis is, and each target's place on it: days since the first where the times are known.
fn times(layouts: &[Layout]) -> (&'static str, Vec<f64>) {
    let first = layouts.first().map_or(0, |l| l.taken_unix_ns);
    let day = |layout: &Layout| layout.taken_unix_ns.saturating_sub(first) as f64 / DAY_NS;
    if layouts.iter().all(|l| l.taken_unix_ns > 0) && layouts.last().map_or(0.0, day) >= 1.0 {
        return ("days", layouts.iter().map(day).collect());
    }
    ("snapshot", (1..=layouts.len()).map(|n| n as f64).collect())
}

fn scored(layouts: &[Layout], place: impl Fn(usize) -> Option<f64>) -> Points {
    let all = layouts.iter().enumerate();
    all.filter_map(|(i, layout)| Some((place(i)?, layout.score?.value())))
        .collect()
}

fn sizes(layout: &Layout) -> Points {
    let classes = layout.by_size.iter();
    classes
        .filter_map(|class| Some(((class.up_to_bytes as f64).log2(), class.score?.value())))
        .collect()
}

fn chart(
    area: &Area<'_>,
    title: &str,
    x_title: &str,
    lines: &[Points; 2],
    label: impl Fn(f64) -> String,
) -> Result<(), Box<dyn std::error::Error>> {
    let all = || lines.iter().flatten().map(|point| point.0);
    let low = all().fold(f64::INFINITY, f64::min);
    let high = all().fold(f64::NEG_INFINITY, f64::max);
    let (low, high) = if low < high {
        (low, high)
    } else {
        (low.min(0.0), low.max(0.0) + 1.0)
    };
    let (low, high) = if low.is_finite() {
        (low, high)
    } else {
        (0.0, 1.0)
    };
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(50)
        .build_cartesian_2d(low..high, 0.0..1.0)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_desc(x_title)
        .y_desc("layout score")
        .x_label_formatter(&|x| label(*x))
        .draw()?;
    let drawn = lines.iter().zip(COLORS).zip(["real", "against"]);
    for ((points, color), name) in drawn.filter(|((points, _), _)| !points.is_empty()) {
        let style = color.stroke_width(2);
        let line = chart.draw_series(LineSeries::new(points.iter().copied(), style))?;
        if !lines[1].is_empty() {
            line.label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], style));
        }
        let dots = points.iter().map(|&at| Circle::new(at, 3, color.filled()));
        chart.draw_series(dots)?;
    }
    if !lines[1].is_empty() {
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .background_style(WHITE)
            .border_style(BLACK)
            .draw()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use fsage_format::result::layout::{Score, SizeClass};

    use super::*;

    fn layout(day: u64, optimal: u64) -> Layout {
        let score = Score::of(100, optimal);
        Layout {
            taken_unix_ns: 1 + day * DAY_NS as u64,
            score,
            by_size: vec![SizeClass {
                up_to_bytes: 8192,
                files: 1,
                extents: 1,
                score,
            }],
            ..Layout::default()
        }
    }

    #[test]
    fn every_score_is_a_point_of_the_plot() {
        let found = Layouts {
            layouts: vec![layout(0, 95), layout(1, 90), layout(2, 80)],
            against: vec![layout(0, 96), layout(1, 91), layout(2, 85)],
            score_rms_distance: None,
        };
        let svg = scores(&found).unwrap();
        assert!(
            svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"),
            "{svg}"
        );
        assert_eq!(svg.matches("<circle").count(), 3 + 3 + 1 + 1, "{svg}");
        assert_eq!(svg.matches("<polyline").count() >= 4, true, "{svg}");
        assert!(svg.contains("days") && svg.contains("against"));
        for empty in [
            Layouts::default(),
            Layouts {
                layouts: vec![Layout::default()],
                ..Layouts::default()
            },
        ] {
            assert!(scores(&empty).unwrap().ends_with("</svg>\n"));
        }
    }
}
