//! For fio: a job for each group in each phase. It reads and writes; it has no names.

use std::collections::BTreeMap;
use std::fmt::Write;

use fsage_core::OpKind;

use super::{Exported, Lost, calls, is_read, is_write, lines, mean, moved, sizes};
use crate::fsm::{At, Dist, Model, Part};

/// fio keeps so many files open, and lays out so many for each process at the most.
const OPEN_FILES: u64 = 16;
const MOST_FILES: u64 = 10_000;
/// Sizes of requests that are told, the most frequent.
const MOST_SIZES: usize = 32;
const LEAST_FILE_BYTES: u64 = 4096;

/// What a part does that fio can do.
#[derive(Debug, Default)]
struct Data {
    /// Calls and bytes, of reads and of writes.
    calls: [f64; 2],
    bytes: [f64; 2],
    random: f64,
    syncs: f64,
    think_ns: f64,
    sizes: [BTreeMap<u64, f64>; 2],
    files: u64,
    files_bytes: f64,
}

/// The model as a job file: `fio --directory=DIR FILE`.
pub fn fio(model: &Model) -> Exported {
    let mut lost = Lost::default();
    let class_sizes = sizes(model);
    let larger = grown(model, &class_sizes);
    let mut text = String::from(
        "; Made by fsage from a model. Run it by: fio --directory=DIR FILE\n\n\
         [global]\nioengine=psync\nfallocate=none\nrandrepeat=1\nfile_service_type=random\ngroup_reporting=1\n",
    );
    let _ = writeln!(text, "openfiles={OPEN_FILES}");
    for (number, phase) in model.phases.iter().enumerate() {
        let mut first = number > 0;
        for part in &phase.parts {
            let data = data(model, part, &class_sizes, larger, &mut lost);
            let jobs = model.groups.get(part.group as usize - 1);
            let jobs = jobs.map_or(1, |g| u64::from(g.at_once)).max(1);
            if data.calls.iter().sum::<f64>() < 0.5 {
                continue;
            }
            let _ = write!(
                text,
                "\n[phase{}-group{}]\n{}",
                number + 1,
                part.group,
                if first { "stonewall\n" } else { "" }
            );
            first = false;
            job(&mut text, &data, jobs);
        }
    }
    lost.add("what follows what: scripts", model.visits.len() as f64);
    lost.add(
        "how soon files are used again: classes",
        model.classes.len() as f64,
    );
    Exported {
        text,
        operations: model.source.operations,
        left_out: lost.counts(),
    }
}

/// How much larger files were when they were read to their ends than they are known to be before: so that as many bytes
/// are read as the model's trace had.
fn grown(model: &Model, class_sizes: &[u64]) -> f64 {
    let (mut whole, mut others) = (0.0, 0.0);
    for (line, times) in model.phases.iter().flat_map(|p| &p.parts).flat_map(lines) {
        let place = (line.file.class as usize).wrapping_sub(1);
        let size = class_sizes.get(place).copied().unwrap_or(0) as f64;
        let steps = model.visit(line).map_or(&[][..], |v| &v.steps);
        for step in steps.iter().filter(|s| is_read(s) && s.form.error == 0) {
            match step.form.to_end {
                Some(_) => whole += times as f64 * size,
                None => others += times as f64 * moved(step),
            }
        }
    }
    let left = model.source.bytes_read as f64 - others;
    if whole > 0.0 && left > 0.0 {
        left / whole
    } else {
        1.0
    }
}

fn data(model: &Model, part: &Part, class_sizes: &[u64], larger: f64, lost: &mut Lost) -> Data {
    let mut data = Data::default();
    let mut classes = Vec::new();
    for (line, times) in lines(part) {
        let (times, class) = (times as f64, line.file.class as usize);
        data.think_ns += times * mean(&line.think_ns);
        let size = class_sizes.get(class.wrapping_sub(1)).copied().unwrap_or(0);
        for step in model.visit(line).map_or(&[][..], |v| &v.steps) {
            let n = times * calls(step, size);
            let way = usize::from(is_write(step));
            let does = is_write(step) || is_read(step);
            if matches!(step.form.kind, OpKind::Fsync | OpKind::Fdatasync) && step.form.error == 0 {
                data.syncs += n;
            } else if !does || step.form.error != 0 {
                lost.add(step.form.kind.name(), n);
            } else {
                // A call that finds the end moves nothing, and fio has none such.
                let n = n - times * f64::from(step.form.to_end.unwrap_or(0));
                let before = data.bytes.get(way).copied().unwrap_or(0.0);
                let size = match step.form.to_end {
                    Some(_) => (size as f64 * larger) as u64,
                    None => size,
                };
                transfer(&mut data, step.form.at, way, n, &step.bytes, size);
                if step.form.to_end.is_some()
                    && let Some(sum) = data.bytes.get_mut(way)
                {
                    // Whatever is asked for, such a visit moves what the file has.
                    *sum = before + times * size as f64;
                }
                if !classes.contains(&class) {
                    classes.push(class);
                }
            }
        }
    }
    for class in classes {
        let of = model.classes.get(class.wrapping_sub(1));
        let files = of.map_or(0, |c| c.before.saturating_add(c.later)).max(1);
        let size = class_sizes.get(class.wrapping_sub(1)).copied().unwrap_or(0);
        data.files = data.files.saturating_add(files);
        data.files_bytes += files as f64 * size as f64;
    }
    data
}

fn transfer(data: &mut Data, at: At, way: usize, n: f64, bytes: &Dist, size: u64) {
    let (Some(calls), Some(sum), Some(sizes)) = (
        data.calls.get_mut(way),
        data.bytes.get_mut(way),
        data.sizes.get_mut(way),
    ) else {
        return;
    };
    *calls += n;
    if matches!(at, At::Random | At::Skip(_)) {
        data.random += n;
    }
    let whole = [(size.max(1), 1)];
    let of: &[(u64, u64)] = if bytes.0.is_empty() { &whole } else { &bytes.0 };
    let all: u64 = of.iter().map(|v| v.1).sum();
    for &(value, times) in of {
        let n = n * times as f64 / all.max(1) as f64;
        let each = value.clamp(
            1,
            if size > 0 {
                size.max(LEAST_FILE_BYTES)
            } else {
                u64::MAX
            },
        );
        *sum += n * each as f64;
        *sizes.entry(each).or_default() += n;
    }
}

fn job(text: &mut String, data: &Data, jobs: u64) {
    let all: f64 = data.calls.iter().sum();
    let reads = (100.0 * data.calls[0] / all).round();
    let random = (100.0 * data.random / all).round();
    let files = (data.files / jobs).clamp(1, MOST_FILES);
    let largest = data.sizes.iter().filter_map(|s| s.last_key_value());
    let largest = largest.map(|s| *s.0).max().unwrap_or(0);
    let file_bytes = (data.files_bytes / data.files.max(1) as f64) as u64;
    let file_bytes = file_bytes.max(largest).max(LEAST_FILE_BYTES);
    let io_bytes = (data.bytes.iter().sum::<f64>() / jobs as f64).max(1.0) as u64;
    let mut lines = vec![
        format!("numjobs={jobs}"),
        "rw=randrw".to_owned(),
        format!("rwmixread={reads:.0}"),
        format!("percentage_random={random:.0}"),
        format!("nrfiles={files}"),
        format!("filesize={file_bytes}"),
        format!("io_size={io_bytes}"),
        format!(
            "bssplit={},{}",
            split(&data.sizes[0]),
            split(&data.sizes[1])
        ),
        "bs_unaligned=1".to_owned(),
    ];
    let every = data.calls[1] / data.syncs;
    if data.syncs >= 0.5 && every >= 0.5 {
        lines.push(format!("fsync={:.0}", every.max(1.0)));
    }
    let think_us = (data.think_ns / all / 1000.0).round();
    if think_us >= 1.0 {
        lines.push(format!("thinktime={think_us:.0}us"));
    }
    for line in lines {
        let _ = writeln!(text, "{line}");
    }
}

/// `SIZE/PERCENT:…`, the most frequent sizes; percents add up to a hundred.
fn split(sizes: &BTreeMap<u64, f64>) -> String {
    let mut all: Vec<(u64, f64)> = sizes.iter().map(|(s, n)| (*s, *n)).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all.truncate(MOST_SIZES);
    let sum: f64 = all.iter().map(|s| s.1).sum();
    let mut left = 100;
    let mut shares: Vec<String> = Vec::new();
    for (size, n) in all.iter().skip(1) {
        let percent = ((100.0 * n / sum.max(1.0)).round() as u32).min(left);
        if percent > 0 {
            left -= percent;
            shares.push(format!("{size}/{percent}"));
        }
    }
    let first = all.first().map_or(LEAST_FILE_BYTES, |s| s.0);
    shares.insert(0, format!("{first}/{left}"));
    shares.join(":")
}
