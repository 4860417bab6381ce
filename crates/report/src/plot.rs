//! Plots as SVG: the layout score over time and by size of file (Figures 3.3 and 3.4 of the thesis).

pub mod character;

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
        let title = match found.not_comparable {
            Some(_) => "layout score over time, of blocks of two sizes: not comparable",
            None => "layout score over time",
        };
        let axes = Axes::of_score(title, x);
        chart(&above, &axes, &lines, |x| format!("{x:.0}"), AGAINST)?;
        below
    } else {
        root.clone()
    };
    let last = found.layouts.last().map_or(Vec::new(), sizes);
    let against = found.against.last().map_or(Vec::new(), sizes);
    let title = match found.not_comparable {
        Some(_) => "layout score by size of file, of blocks of two sizes: not comparable",
        None => "layout score by size of file",
    };
    let axes = Axes::of_score(title, "size of file");
    let size = |x: f64| crate::units::bytes(x.exp2().round() as u64);
    chart(&by_size, &axes, &[last, against], size, AGAINST)?;
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

/// What two lines are called where there are two.
const AGAINST: [&str; 2] = ["real", "against"];

/// What a chart shows.
struct Axes<'a> {
    title: &'a str,
    x: &'a str,
    y: &'a str,
    /// What a value of the vertical axis is written as.
    y_label: fn(f64) -> String,
    /// The least upper end of the vertical axis.
    y_least: f64,
    /// Whether each point is marked.
    dots: bool,
}

impl<'a> Axes<'a> {
    fn of_score(title: &'a str, x: &'a str) -> Self {
        Self {
            title,
            x,
            y: "layout score",
            y_label: |y| format!("{y:.1}"),
            y_least: 1.0,
            dots: true,
        }
    }
}

fn chart(
    area: &Area<'_>,
    axes: &Axes<'_>,
    lines: &[Points; 2],
    label: impl Fn(f64) -> String,
    names: [&str; 2],
) -> Result<(), Box<dyn std::error::Error>> {
    let all = || lines.iter().flatten().map(|point| point.0);
    let low = all().reduce(f64::min).unwrap_or(0.0);
    // A single place has something beside it.
    let high = all().fold(low, f64::max);
    let high = if high > low { high } else { low + 1.0 };
    let top = lines.iter().flatten().map(|point| point.1);
    let top = top.fold(axes.y_least, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(axes.title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(low..high, 0.0..top)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_desc(axes.x)
        .y_desc(axes.y)
        .x_label_formatter(&|x| label(*x))
        .y_label_formatter(&|y| (axes.y_label)(*y))
        .draw()?;
    let drawn = lines.iter().zip(COLORS).zip(names);
    for ((points, color), name) in drawn.filter(|((points, _), _)| !points.is_empty()) {
        let style = color.stroke_width(2);
        let line = chart.draw_series(LineSeries::new(points.iter().copied(), style))?;
        if !lines[1].is_empty() {
            line.label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], style));
        }
        if axes.dots {
            let dots = points.iter().map(|&at| Circle::new(at, 3, color.filled()));
            chart.draw_series(dots)?;
        }
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
            ..Layouts::default()
        };
        let svg = scores(&found).unwrap();
        assert!(
            svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"),
            "{svg}"
        );
        assert_eq!(svg.matches("<circle").count(), 3 + 3 + 1 + 1, "{svg}");
        assert!(svg.matches("<polyline").count() >= 2, "{svg}");
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
