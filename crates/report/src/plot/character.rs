//! What a trace is like, and two traces beside each other.

use fsage_format::result::character::{Characterised, Likeness};
use plotters::prelude::*;

use super::{Area, Axes, HEIGHT, PlotError, Points, WIDTH, chart};
use crate::units::{bytes, duration};

/// Operations, working set and what was touched over time; hits by the size of the cache.
pub fn one(found: &Characterised) -> Result<String, PlotError> {
    plot(&[found])
}

/// The same of two, a line for each.
pub fn two(found: &Likeness) -> Result<String, PlotError> {
    plot(&[&found.a, &found.b])
}

fn plot(all: &[&Characterised]) -> Result<String, PlotError> {
    let mut svg = String::new();
    {
        let size = (WIDTH, 4 * HEIGHT);
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        draw(&root, all).map_err(|e| PlotError(e.to_string()))?;
    }
    Ok(svg)
}

fn draw(root: &Area<'_>, all: &[&Characterised]) -> Result<(), Box<dyn std::error::Error>> {
    root.fill(&WHITE)?;
    let name = |i: usize| {
        let name = all.get(i).and_then(|c| c.trace.file_name());
        name.map_or(String::new(), |n| n.to_string_lossy().into_owned())
    };
    let names = [name(0), name(1)];
    let names = [names[0].as_str(), names[1].as_str()];
    let lines = |of: &dyn Fn(&Characterised) -> Points| {
        [0, 1].map(|i| all.get(i).map_or(Vec::new(), |c| of(c)))
    };
    let size = |y: f64| bytes(y.max(0.0) as u64);
    let axes = |title, x, y, y_label| Axes {
        title,
        x,
        y,
        y_label,
        y_least: 1.0,
        dots: false,
    };
    let parts = root.split_evenly((4, 1));
    let mut parts = parts.iter();
    let mut next = |axes: Axes<'_>, lines: [Points; 2], label: fn(f64) -> String| {
        parts
            .next()
            .map_or(Ok(()), |area| chart(area, &axes, &lines, label, names))
    };
    let time = |ns: f64| duration(ns.max(0.0));
    next(
        axes("operations over time", "time", "operations/s", |y| {
            format!("{y:.0}")
        }),
        lines(&|c| per_second(c)),
        time,
    )?;
    next(
        axes("working set", "time", "used in the piece", size),
        lines(&|c| over_time(c, &c.timeline.working_set_bytes)),
        time,
    )?;
    next(
        axes("touched so far", "time", "bytes", size),
        lines(&|c| over_time(c, &c.timeline.footprint_bytes)),
        time,
    )?;
    next(
        axes("hits by size of the cache", "cache", "hits", |y| {
            format!("{:.0} %", 100.0 * y)
        }),
        lines(&hits),
        |x| bytes(x.exp2().round() as u64),
    )?;
    root.present()?;
    Ok(())
}

fn over_time(found: &Characterised, values: &[u64]) -> Points {
    let piece_ns = found.timeline.piece_ns as f64;
    let all = values.iter().enumerate();
    all.map(|(i, &v)| (piece_ns * (i as f64 + 0.5), v as f64))
        .collect()
}

fn per_second(found: &Characterised) -> Points {
    let of = &found.timeline;
    let seconds = of.piece_ns.max(1) as f64 / 1e9;
    let all = over_time(found, &of.operations).into_iter();
    all.map(|(at, n)| (at, n / seconds)).collect()
}

fn hits(found: &Characterised) -> Points {
    let all = found.reuse.hits.iter();
    all.map(|h| ((h.cache_bytes as f64).log2(), h.hit_percent / 100.0))
        .collect()
}
