//! A trace file and profiles that end up as a prediction.

use std::path::Path;

use fsage_core::metric::MetricId;
use fsage_core::{DevId, Op, OpKind, OpSource, PathTable, SinkError, SourceError};
use fsage_format::FormatError;
use fsage_format::profile::SystemProfile;
use fsage_format::result::prediction::{HELP_SAID, Help, Prediction};
use fsage_format::snapshot::SnapshotReader;
use fsage_format::trace::{
    AnnotationColumn, AnnotationKind, AnnotationValue, CPUS, GENERATED, REFERENCE_NS, SYSTEM,
    TRACER_ALL_NS, TraceEnd, TraceMeta, TraceReader, TraceWriter,
};
use fsage_predict::cost::{FileSystemName, slowness};
use fsage_predict::{
    Annotation, AnnotationSink, Change, Context, Options, Predictor, SystemVector, elapsed_after,
};

use crate::measured::METHOD;
use crate::one_cpu;

/// Why a prediction could not be made.
#[derive(Debug, thiserror::Error)]
pub enum PredictingError {
    /// A file could not be read or written.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The trace could not be read on.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// What takes the annotations failed.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// The snapshot is of another tree.
    #[error("use snapshot {snapshot}: it is of {root}, and nothing in the trace lies there")]
    OtherTree {
        /// The snapshot.
        snapshot: String,
        /// The directory whose tree it is.
        root: String,
    },
}

/// What is to be predicted.
pub struct Request<'a> {
    /// How. The scope is filled in from the trace's own.
    pub options: Options,
    /// On which systems.
    pub profiles: &'a [SystemProfile],
    /// Whether profiles of one machine are compared as if it had been equally fast when each was made.
    pub one_speed: bool,
    /// The tree before the trace.
    pub snapshot: Option<&'a Path>,
    /// Changes for the second column.
    pub changes: &'a [Change],
    /// What the trace tells of its costs.
    pub traced_on: Option<&'a TracedOn<'a>>,
    /// Whether the run is one that is traced as well: then the tracer takes of it what it took of the trace's.
    pub is_traced: bool,
}

/// The system that a trace was made on, and what the trace tells of it.
pub struct TracedOn<'a> {
    /// Its profile.
    pub profile: &'a SystemProfile,
    /// By what costs are corrected.
    pub context: Context,
    /// The system among those predicted, if any, that is not corrected: it is judged by the trace itself.
    pub but: Option<usize>,
}

/// What a trace tells of the costs of its calls, made on the system of `profile`; `None` where its latencies have a
/// tracer's own time in them, or the profile lacks costs.
pub fn learn(
    trace: &Path,
    request: &Request<'_>,
    profile: &SystemProfile,
) -> Result<Option<Context>, PredictingError> {
    let reader = TraceReader::open(trace)?;
    if !tells_latencies(reader.meta()) {
        return Ok(None);
    }
    let mut there = vector(profile);
    if let Some(ns) = traced_reference_ns(reader.meta()) {
        there.at_speed(ns);
    }
    let mut context = None;
    // Once as it is profiled, once with what came of that.
    for _ in 0..2 {
        let mut reader = TraceReader::open(trace)?;
        let options = options(&reader, request);
        let mut predictor = Predictor::new(options, vec![there.clone()])
            .learning(reader.tells_queued(), reader.tells_sleep());
        if let Some(before) = context.take() {
            predictor = predictor.in_context(there.clone(), before, None);
        }
        if let Some(path) = request.snapshot {
            load_snapshot(path, &reader, &mut predictor)?;
        }
        predictor.run(&mut reader)?;
        context = predictor.context();
    }
    Ok(context)
}

/// The system among `profiles` that the trace was made on, if it says so: of the same machine and kernel, and one alone.
pub fn made_on<'a>(meta: &TraceMeta, profiles: &'a [SystemProfile]) -> Option<&'a SystemProfile> {
    let system = meta.extra.get(SYSTEM)?;
    let is_it = |profile: &&SystemProfile| {
        let there = &profile.environment;
        there
            .machine
            .host
            .as_ref()
            .is_none_or(|host| *host == meta.host)
            && there.machine.kernel.text() == meta.kernel
            && there.target.systems().contains(system)
    };
    let mut found = profiles.iter().filter(is_it);
    found.next().filter(|_| found.next().is_none())
}

/// Whether latencies are those of the calls alone. A tracer that stops a program adds some microseconds to each of them.
pub fn tells_latencies(meta: &TraceMeta) -> bool {
    [METHOD, "ebpf"].contains(&meta.method.as_str())
}

/// Predicts a whole trace. `sink` is told of every operation on every system if there is one.
pub fn predict(
    reader: &mut TraceReader,
    request: &Request<'_>,
    sink: Option<&mut dyn AnnotationSink>,
) -> Result<Prediction, PredictingError> {
    let mut vectors: Vec<SystemVector> = request.profiles.iter().map(vector).collect();
    let apart = if request.one_speed {
        at_one_speed(&mut vectors, request.profiles)
    } else {
        None
    };
    let mut prediction = pass(reader, request, vectors, request.changes, sink)?;
    let placed = reader.meta().extra.get(one_cpu::ENTRY);
    prediction
        .warnings
        .extend(one_cpu::mixed(placed, request.profiles));
    prediction.warnings.extend(apart);
    prediction.warnings.extend(everything(reader.meta()));
    let faults = untold_faults(reader.meta(), &prediction);
    prediction.warnings.extend(faults);
    Ok(prediction)
}

/// A capture that was kept to no directory has programs, libraries and `/proc` in it, which no other file system
/// for one's data changes.
fn everything(meta: &TraceMeta) -> Option<String> {
    let captured = !meta.command.is_empty() || !meta.attached.is_empty();
    (captured && meta.under.is_empty()).then(|| {
        "the trace was kept to no directory: programs, libraries and /proc are taken to move, too (trace with \
         --under DIR)"
            .to_owned()
    })
}

/// A tracer of system calls sees a file mapped, and not how its pages come.
fn untold_faults(meta: &TraceMeta, prediction: &Prediction) -> Option<String> {
    let kinds = &prediction.targets.first()?.kinds;
    let count = |kind: OpKind| {
        let of_kind = kinds.iter().find(|k| k.kind == kind.name());
        of_kind.map_or(0, |k| k.count)
    };
    let (mapped, faults) = (count(OpKind::Mmap), count(OpKind::Fault));
    (mapped > 0 && faults == 0 && !tells_latencies(meta) && !meta.method.is_empty()).then(|| {
        format!(
            "a trace by {} tells no page faults: what the program reads and writes through its {mapped} mappings of \
             files is missing (trace as root, by eBPF)",
            meta.method
        )
    })
}

fn vector(profile: &SystemProfile) -> SystemVector {
    SystemVector::from_profile(profile).0
}

/// Speeds that are further apart are told of, as a factor.
const APART: f64 = 1.1;

/// Profiles of one machine are compared as if it had been equally fast when each was made; tells how far apart its
/// speeds were.
fn at_one_speed(vectors: &mut [SystemVector], profiles: &[SystemProfile]) -> Option<String> {
    let machine = |p: &SystemProfile| {
        let machine = &p.environment.machine;
        (machine.host.clone(), machine.processor.model.clone())
    };
    let speeds: Vec<f64> = vectors
        .iter()
        .filter_map(|v| Some(v.reference_ns? as f64))
        .collect();
    let is_one = profiles.windows(2).all(|two| match two {
        [a, b] => machine(a) == machine(b),
        _ => true,
    });
    if !is_one || speeds.len() < vectors.len() || speeds.len() < 2 {
        return None;
    }
    let usual_ns = fsage_stats::median(&speeds);
    for vector in vectors {
        vector.at_speed(usual_ns as u64);
    }
    let (least, most) = (speeds.iter()).fold((f64::MAX, 1.0f64), |(l, m), &s| (l.min(s), m.max(s)));
    let factor = most / least.max(1.0);
    (factor > APART).then(|| {
        format!(
            "the machine was up to {factor:.2} times as fast in one profile as in another: all are predicted for the \
             speed in the middle (its reference work takes {:.2} ms)",
            usual_ns / 1e6
        )
    })
}

/// Predicts for other speeds of the machine than the profiles': what its reference work takes, in nanoseconds, for
/// each of them.
pub(crate) fn predict_at(
    reader: &mut TraceReader,
    request: &Request<'_>,
    references_ns: &[u64],
) -> Result<Prediction, PredictingError> {
    let at = |(profile, &reference_ns): (&SystemProfile, &u64)| {
        let mut vector = vector(profile);
        vector.at_speed(reference_ns);
        vector
    };
    let vectors = request.profiles.iter().zip(references_ns).map(at).collect();
    pass(reader, request, vectors, &[], None)
}

/// Says of every change that would help what it saves by that very what-if, in a pass over the trace of its own;
/// `reader` stands at the trace's start again.
pub fn weigh_helps(
    reader: &mut TraceReader,
    request: &Request<'_>,
    prediction: &mut Prediction,
) -> Result<(), PredictingError> {
    let targets = || prediction.targets.iter().zip(request.profiles);
    let changed = targets().flat_map(|(target, profile)| {
        let changes = target.helps.iter().filter_map(|h| h.change.parse().ok());
        changes.map(move |change: Change| {
            let mut vector = vector(profile);
            if let Some(speed) = target.reference_ns {
                vector.at_speed(speed);
            }
            change.apply(&mut vector);
            vector
        })
    });
    let changed: Vec<SystemVector> = changed.collect();
    if changed.is_empty() {
        return Ok(());
    }
    let after = pass(reader, request, changed, &[], None)?;
    let mut after = after.targets.iter();
    for target in &mut prediction.targets {
        let latency_ns = target.latency_total_ns.unwrap_or_default();
        let elapsed_ns = target.elapsed_ns.unwrap_or_default();
        for (help, then) in target.helps.iter_mut().zip(&mut after) {
            help.saves_ns = latency_ns - then.latency_total_ns.unwrap_or(latency_ns);
            help.share = (help.saves_ns / latency_ns).clamp(0.0, 1.0);
            let after = |ns| elapsed_after((elapsed_ns, &target.kinds), (ns, &then.kinds));
            help.elapsed_saved_ns = then.elapsed_ns.map(|ns| elapsed_ns - after(ns));
        }
        rank(&mut target.helps, elapsed_ns);
    }
    Ok(())
}

/// Leaves what saves something, the largest first: by elapsed time where any saves enough of that to be said, by
/// time in calls where none does.
fn rank(helps: &mut Vec<Help>, elapsed_ns: f64) {
    let elapsed = |h: &Help| {
        h.elapsed_saved_ns
            .filter(|&ns| ns >= HELP_SAID * elapsed_ns)
    };
    helps.retain(|h| h.saves_ns > 0.0 && h.share > 0.0);
    helps.sort_by(|a, b| {
        let (x, y) = (elapsed(a).unwrap_or(0.0), elapsed(b).unwrap_or(0.0));
        y.total_cmp(&x).then(b.saves_ns.total_cmp(&a.saves_ns))
    });
}

/// One pass over a trace. `sink` is told of every operation on every system if there is one.
fn pass(
    reader: &mut TraceReader,
    request: &Request<'_>,
    mut vectors: Vec<SystemVector>,
    changes: &[Change],
    sink: Option<&mut dyn AnnotationSink>,
) -> Result<Prediction, PredictingError> {
    let options = options(reader, request);
    // Programs' own work is as long as the machine is slow.
    let traced_ns = traced_reference_ns(reader.meta());
    for vector in &mut vectors {
        if let Some((there, traced)) = vector.reference_ns.zip(traced_ns) {
            vector.own_work = slowness(there, traced);
        }
    }
    let mut predictor = Predictor::new(options, vectors).also(changes);
    if let Some(there) = request.traced_on {
        predictor = predictor.in_context(vector(there.profile), there.context.clone(), there.but);
    }
    if let Some(path) = request.snapshot {
        load_snapshot(path, reader, &mut predictor)?;
    }
    let Some(sink) = sink else {
        predictor.run(reader)?;
        return Ok(predictor.finish());
    };
    let mut batch: Vec<Op> = Vec::new();
    while reader.next_batch(&mut batch)? > 0 {
        for op in &batch {
            predictor.push_annotated(op, reader.paths(), sink)?;
        }
        batch.clear();
    }
    Ok(predictor.finish())
}

/// How, by what the trace itself tells.
fn options(reader: &TraceReader, request: &Request<'_>) -> Options {
    let mut options = request.options.clone();
    options.scope.roots.extend(reader.meta().roots());
    options.traced_cpus = traced_cpus(reader.meta());
    options.generated = reader.meta().method == GENERATED;
    if !request.is_traced {
        let all = reader.meta().extra.get(TRACER_ALL_NS);
        options.tracer_ns = all.and_then(|ns| ns.parse().ok()).unwrap_or(0);
    }
    // Of processes that ran already, what was before and after is the tracer's choice.
    let of_command = reader.end().filter(|_| !reader.meta().command.is_empty());
    options.traced_ns = of_command.map(|end| end.elapsed_ns);
    options
}

/// What the machine's reference work took when the trace was made, in nanoseconds, where the trace tells.
fn traced_reference_ns(meta: &TraceMeta) -> Option<u64> {
    let ns = meta.extra.get(REFERENCE_NS)?.parse::<u64>().ok();
    ns.filter(|&ns| ns > 0)
}

/// The processors that the traced processes shared, where the trace tells.
fn traced_cpus(meta: &TraceMeta) -> Option<usize> {
    if meta.extra.contains_key(one_cpu::ENTRY) {
        return Some(1);
    }
    meta.extra.get(CPUS)?.parse().ok()
}

fn load_snapshot(
    path: &Path,
    reader: &TraceReader,
    predictor: &mut Predictor,
) -> Result<(), PredictingError> {
    let mut snapshot = SnapshotReader::open(path)?;
    let meta = snapshot.meta().clone();
    check_root(path, &meta.root, reader)?;
    let dev = DevId(meta.dev);
    let namespace = predictor.namespace_mut();
    namespace.laid_out_by = FileSystemName::of(&meta.file_system);
    let root = namespace.directory(&meta.root_path());
    let mut batch = Vec::new();
    while snapshot.next_batch(&mut batch)? > 0 {
        for entry in batch.drain(..) {
            namespace.add_entry(root, dev, &entry);
        }
    }
    namespace.lay_out();
    Ok(())
}

/// A trace that was kept to some directories cannot be about a tree that lies outside of all of them
/// and holds none of them.
fn check_root(path: &Path, root: &str, reader: &TraceReader) -> Result<(), PredictingError> {
    let root_path = Path::new(root);
    let related = |dir: &String| {
        let dir = Path::new(dir);
        dir.starts_with(root_path) || root_path.starts_with(dir)
    };
    let under = &reader.meta().under;
    if root.is_empty() || under.is_empty() || under.iter().any(related) {
        return Ok(());
    }
    Err(PredictingError::OtherTree {
        snapshot: path.display().to_string(),
        root: root.to_string(),
    })
}

/// Writes a trace with what was found of each operation beside it: for each system its request
/// vector, relation and predicted latency.
pub struct AnnotatedTrace {
    writer: TraceWriter,
    targets: usize,
    row: Vec<AnnotationValue>,
}

impl AnnotatedTrace {
    /// Creates the file. Columns end with the number of the system where there are several.
    pub fn create(
        path: &Path,
        reader: &TraceReader,
        profiles: &[SystemProfile],
    ) -> Result<Self, PredictingError> {
        let mut columns = Vec::new();
        for index in 0..profiles.len() {
            let suffix = if profiles.len() == 1 {
                String::new()
            } else {
                format!("_{index}")
            };
            let column = |name: &str, kind| AnnotationColumn {
                name: format!("{name}{suffix}"),
                kind,
            };
            columns.push(column("predicted_latency_ns", AnnotationKind::Number));
            columns.push(column("relation", AnnotationKind::Text));
            columns.push(column("request_vector", AnnotationKind::Text));
        }
        let mut meta = reader.meta().clone();
        for (index, profile) in profiles.iter().enumerate() {
            meta.extra
                .insert(format!("predicted_on_{index}"), profile.name.clone());
        }
        let writer = TraceWriter::create_annotated(path, meta, &columns)?;
        Ok(Self {
            writer,
            targets: profiles.len(),
            row: Vec::new(),
        })
    }

    /// Ends the file as the trace it was made from ended.
    pub fn finish(self, end: Option<TraceEnd>) -> Result<u64, PredictingError> {
        Ok(self.writer.finish(end.unwrap_or_default())?)
    }
}

impl AnnotationSink for AnnotatedTrace {
    fn annotate(
        &mut self,
        target: usize,
        op: &Op,
        paths: &PathTable,
        annotation: &Annotation<'_>,
    ) -> Result<(), SinkError> {
        if annotation.charged {
            self.row
                .push(AnnotationValue::Number(annotation.predicted_latency_ns));
            self.row.push(AnnotationValue::Text(
                annotation.relation.name().to_string(),
            ));
            self.row.push(AnnotationValue::Text(vector_text(
                annotation.request_vector,
            )));
        } else {
            self.row
                .extend(std::iter::repeat_n(AnnotationValue::Absent, 3));
        }
        if target + 1 < self.targets {
            return Ok(());
        }
        let written = self.writer.push_annotated(op, paths, &self.row);
        self.row.clear();
        written.map_err(|e| SinkError {
            message: e.to_string(),
            source: Some(Box::new(e)),
        })
    }
}

/// `2 LUR_BC + 1 OPEN_G10`.
fn vector_text(vector: &[(MetricId, f64)]) -> String {
    let mut text = String::new();
    for (id, weight) in vector.iter().filter(|(_, weight)| *weight != 0.0) {
        if !text.is_empty() {
            text.push_str(" + ");
        }
        let rounded = (weight * 1000.0).round() / 1000.0;
        text.push_str(&format!("{rounded} {id}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn help(change: &str, saves_ns: f64, elapsed_saved_ns: f64) -> Help {
        Help {
            change: change.to_owned(),
            what: String::new(),
            saves_ns,
            share: (saves_ns / 1000.0).clamp(0.0, 1.0),
            elapsed_saved_ns: Some(elapsed_saved_ns),
        }
    }

    #[test]
    fn helps_are_ranked_by_the_figure_that_is_printed_and_save_something() {
        let ranked = |mut helps: Vec<Help>| -> Vec<String> {
            rank(&mut helps, 1_000_000.0);
            helps.into_iter().map(|h| h.change).collect()
        };
        // Less than a hundredth of the elapsed time is noise: calls decide.
        let noise = [
            help("a", 10.0, 900.0),
            help("b", 400.0, 3.0),
            help("c", -5.0, 950.0),
        ];
        assert_eq!(ranked(noise.to_vec()), ["b", "a"]);
        let said = [
            help("a", 400.0, 11_000.0),
            help("b", 20.0, 90_000.0),
            help("c", 500.0, 0.0),
        ];
        assert_eq!(ranked(said.to_vec()), ["b", "a", "c"]);
        assert_eq!(ranked(vec![help("none", 0.0, 0.0)]), [] as [String; 0]);
    }
}
