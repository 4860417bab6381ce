//! One pass over a trace for several systems.

use fsage_cache::{Policy, Start, WriteBack};
use fsage_core::metric::MetricId;
use fsage_core::{Op, OpKind, OpSource, PathTable, SinkError, SourceError};

use crate::beside::Beside;
use crate::caches::View;
use crate::context::{Common, Context, Seen};
use crate::cost::ledger::Latency;
use crate::cost::{Charge, Ledger, Plan, SystemVector};
use crate::elapsed::follow::{Event, Follow};
use crate::elapsed::locking::Lockers;
use crate::elapsed::order::Order;
use crate::elapsed::{Replay, Wanted};
use crate::namespace::tree::{DentryId, Ino};
use crate::namespace::{Action, Namespace, Resolved, Scope};
use crate::pattern::Relation;
use crate::shares::Part;
use crate::sizes::sizes;
use crate::threads::Threads;
use crate::whatif::{Applied, Change};
use crate::writeback::Load;

/// How to predict.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Replacement policy of the page cache.
    pub policy: Policy,
    /// State of the caches at the start.
    pub start: Start,
    /// Which files belong to the traced file system.
    pub scope: Scope,
    /// When dirty pages are written back.
    pub write_back: WriteBack,
    /// Processors that the trace's threads shared; `None` where nobody knows: then no pause is taken
    /// to be waiting for one.
    pub traced_cpus: Option<usize>,
    /// How long the traced command ran, from its start to its end, in nanoseconds; `None` where nobody knows: then
    /// it is taken to begin with its first operation and to end with its last.
    pub traced_ns: Option<u64>,
    /// What the tracer took of a thread after each operation, in nanoseconds: no work of the program's.
    pub tracer_ns: u64,
    /// Whether nothing was traced: a workload says what it does and how long it pauses, and nothing took any time.
    pub generated: bool,
}

/// Operations whose files are touched before the first of them is predicted: so few that all stays in the fastest cache.
const TOUCHED_TOGETHER: usize = 64;

/// A lock that nobody holds is taken in less.
const FREE_LOCK_NS: u64 = 20_000;

/// What one operation was predicted to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Annotation<'a> {
    /// Whether it belongs to the traced file system.
    pub charged: bool,
    /// Weights of metrics.
    pub request_vector: &'a [(MetricId, f64)],
    /// How its disk-bound part lies to the one before.
    pub relation: Relation,
    /// Dot product of request vector and system vector, nanoseconds: without waiting for others.
    pub predicted_latency_ns: f64,
}

/// Takes what was found of each operation, for each system in turn.
pub trait AnnotationSink {
    /// Takes one annotation; `target` counts from 0 in the order of the vectors.
    fn annotate(
        &mut self,
        target: usize,
        op: &Op,
        paths: &PathTable,
        annotation: &Annotation<'_>,
    ) -> Result<(), SinkError>;
}

/// One system of a prediction.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub vector: SystemVector,
    pub plan: Plan,
    pub ledger: Ledger,
    pub replay: Replay,
    pub view: usize,
    /// Whether what the trace tells of its costs is used for it.
    pub in_context: bool,
    /// How many times as long as found its calls wait for processors, by what the trace tells.
    pub queues: f64,
    /// Pages of a page cache that was not measured to its end.
    pub at_least_pages: Option<u64>,
}

/// A total of which more than this share stands on metrics that were disturbed tells nothing of calls in the trace.
const DISTURBED: f64 = 0.5;

impl Target {
    /// Whether most of what was charged stands on metrics that were disturbed when they were measured.
    fn is_disturbed(&self) -> bool {
        let vector = &self.vector;
        let marked = |(slot, _)| vector.at(slot).is_some_and(|e| e.marked);
        Part::of(&self.ledger.all_weights(), vector, marked).share > DISTURBED
    }

    /// The replay to the end of what was pushed. Where calls are dearer in this trace, so is what others wait for them.
    pub fn replayed(&self) -> Replay {
        let mut replay = self.replay.clone();
        replay.finish();
        replay.scale_waits(|kind| self.ledger.corrected(kind), self.queues);
        replay
    }
}

/// Totals of the trace itself.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Traced {
    pub operations: u64,
    pub charged: u64,
    pub first_ns: Option<u64>,
    pub end_ns: u64,
    pub latency_ns: u64,
    pub without_latency: u64,
    pub bytes_written: u64,
    pub metadata_ops: u64,
}

/// A prediction in the making: push the operations of a trace, then finish.
#[derive(Debug, Clone)]
pub struct Predictor {
    pub(crate) options: Options,
    pub(crate) namespace: Namespace,
    pub(crate) views: Vec<View>,
    pub(crate) targets: Vec<Target>,
    /// The same systems with the what-if changes, if there are any.
    pub(crate) changed: Vec<Target>,
    pub(crate) changes: Vec<Change>,
    /// What each of the changes did on each of the systems.
    pub(crate) applied: Vec<Vec<Applied>>,
    pub(crate) traced: Traced,
    pub(crate) beside: Beside,
    threads: Threads,
    follow: Follow,
    order: Order,
    lockers: Lockers,
    event: Event,
    charges: Vec<Vec<Charge>>,
    resolved: Resolved,
    request: Vec<(MetricId, f64)>,
    /// The system that the trace was made on, and what the trace tells of it.
    pub(crate) source: Option<(Box<Target>, Context)>,
    /// What is found out of it, where that is what this is for.
    seen: Option<Seen>,
}

impl Predictor {
    /// A prediction for the systems of `vectors`. Systems whose caches are equally large share the
    /// stages before the costs.
    pub fn new(options: Options, vectors: Vec<SystemVector>) -> Self {
        let block = vectors
            .first()
            .and_then(|v| v.named("BS"))
            .map_or(4096, |e| e.value as u64);
        let mut views: Vec<View> = Vec::new();
        let targets = vectors
            .into_iter()
            .map(|vector| system(vector, &mut views, &options))
            .collect();
        Self {
            namespace: Namespace::new(options.scope.clone(), block),
            charges: vec![Vec::new(); views.len()],
            views,
            targets,
            changed: Vec::new(),
            changes: Vec::new(),
            applied: Vec::new(),
            traced: Traced::default(),
            beside: Beside::default(),
            threads: Threads::default(),
            follow: Follow::on(options.traced_cpus).beside(options.tracer_ns),
            order: Order::default(),
            lockers: Lockers::default(),
            event: Event::default(),
            resolved: Resolved::default(),
            request: Vec::new(),
            source: None,
            seen: None,
            options,
        }
    }

    /// Finds out what the trace tells of the costs of its calls, on the first of the systems, which it was made on:
    /// [`Self::context`]. `queued_known`: operations tell for how long they waited for a processor; `blocked_known`: and slept.
    #[must_use]
    pub fn learning(mut self, queued_known: bool, blocked_known: bool) -> Self {
        self.seen = Some(Seen::new(queued_known, blocked_known));
        self
    }

    /// What the trace tells, once all is pushed; `None` where the profile of the system that it was made on lacks
    /// costs, or where nothing was to be found out. Beside a profile that was disturbed it tells nothing of costs, but still
    /// of waits for processors. Of one that was learnt already, what it does there.
    pub fn context(&self) -> Option<Context> {
        let (seen, source) = self.seen.as_ref().zip(self.targets.first())?;
        let before = self.source.as_ref().map(|(_, context)| context);
        let tells = source.incomplete(0.0).is_none();
        let context = tells.then(|| seen.context(source, before))?;
        if source.is_disturbed() {
            context.of_waits_alone()
        } else {
            Some(context)
        }
    }

    /// Corrects costs by what the trace tells of them, on the system of `source`, which it was made on; those of the
    /// system `but` are left as they are. Before the first operation.
    #[must_use]
    pub fn in_context(
        mut self,
        source: SystemVector,
        context: Context,
        but: Option<usize>,
    ) -> Self {
        let target = Target {
            queues: context.queues(),
            ..system(source, &mut self.views, &self.options)
        };
        for target in &mut self.targets {
            target.queues = context.queues();
        }
        self.charges.resize(self.views.len(), Vec::new());
        self.source = Some((Box::new(target), context));
        if let Some(target) = but.and_then(|index| self.targets.get_mut(index)) {
            target.in_context = false;
            target.queues = 1.0;
        }
        self
    }

    /// Predicts each system with these what-if changes as well, in all stages; before the first
    /// operation.
    #[must_use]
    pub fn also(mut self, changes: &[Change]) -> Self {
        if changes.is_empty() {
            return self;
        }
        for target in &self.targets {
            let mut vector = target.vector.clone();
            let applied = changes.iter().map(|c| c.apply(&mut vector)).collect();
            self.applied.push(applied);
            self.changed
                .push(system(vector, &mut self.views, &self.options));
        }
        self.changes = changes.to_vec();
        self.charges.resize(self.views.len(), Vec::new());
        self
    }

    /// The tree, to fill it from a snapshot before the first operation.
    pub fn namespace_mut(&mut self) -> &mut Namespace {
        &mut self.namespace
    }

    /// Predicts a whole source.
    pub fn run(&mut self, source: &mut dyn OpSource) -> Result<(), SourceError> {
        let mut batch = Vec::new();
        while source.next_batch(&mut batch)? > 0 {
            self.push_all(&batch, source.paths());
            batch.clear();
        }
        Ok(())
    }

    /// Predicts operations in a row. What those to come ask for is touched beforehand, for many of them together: their
    /// ways to memory do not wait for one another then.
    pub fn push_all(&mut self, ops: &[Op], paths: &PathTable) {
        for group in ops.chunks(TOUCHED_TOGETHER) {
            self.touch_ahead(group);
            for op in group {
                self.push(op, paths);
            }
        }
    }

    /// In passes, none of which asks for what the one before it waits for.
    fn touch_ahead(&self, group: &[Op]) {
        let mut files = [(DentryId(0), Ino::NONE); TOUCHED_TOGETHER];
        let named = group.iter().filter(|op| op.path.is_some());
        let mut count = 0;
        for (place, op) in files.iter_mut().zip(named) {
            place.0 = self.namespace.name_ahead(op);
            count += 1;
        }
        let files = files.get_mut(..count).unwrap_or_default();
        for (name, ino) in &mut *files {
            *ino = self.namespace.tree.child(*name).unwrap_or(Ino::NONE);
        }
        for &mut (_, ino) in &mut *files {
            self.namespace.touch_ahead(ino);
        }
        for view in &self.views {
            for &mut (name, ino) in &mut *files {
                view.touch_ahead(name, ino);
            }
            for &mut (_, ino) in &mut *files {
                view.pages.touch_ahead(ino.0);
            }
            view.touch_oldest();
        }
        let ends = group.iter().filter(|op| op.path.is_some()).zip(files);
        for (op, &mut (_, ino)) in ends {
            self.namespace.touch_identity(op, ino);
        }
    }

    /// Predicts one operation. Not inlined into crates that are made small.
    pub fn push(&mut self, op: &Op, paths: &PathTable) {
        self.resolve(op, paths);
        let common = self.common(op);
        for (index, target) in self.targets.iter_mut().chain(&mut self.changed).enumerate() {
            let found = found(&self.views, &self.charges, target.view);
            if let Some(seen) = self
                .seen
                .as_mut()
                .filter(|_| index == 0 && self.resolved.charged && !self.event.may_wait())
            {
                let alone = target.ledger.alone(found.0, &target.plan);
                seen.take(op, &alone);
            }
            charge(target, op, (&self.event, common), &self.resolved, found);
        }
    }

    /// What the operation has in common with the system that the trace was made on.
    #[inline]
    fn common(&mut self, op: &Op) -> Common {
        let Some((source, context)) = self.source.as_mut().filter(|_| self.resolved.charged) else {
            return Common::NOTHING;
        };
        let (charges, _) = found(&self.views, &self.charges, source.view);
        let there = source.ledger.alone(charges, &source.plan);
        context.of(op.kind, there.total_ns)
    }

    /// Predicts one operation and says how.
    pub fn push_annotated(
        &mut self,
        op: &Op,
        paths: &PathTable,
        sink: &mut dyn AnnotationSink,
    ) -> Result<(), SinkError> {
        self.resolve(op, paths);
        let common = self.common(op);
        for (index, target) in self.targets.iter_mut().enumerate() {
            let found = found(&self.views, &self.charges, target.view);
            let latency = charge(target, op, (&self.event, common), &self.resolved, found);
            self.request.clear();
            if self.resolved.charged {
                let slots = target.vector.slots();
                for &(slot, weight) in target.ledger.request() {
                    let Some(id) = slots.id(slot) else { continue };
                    match self.request.iter_mut().find(|r| r.0 == id) {
                        Some(entry) => entry.1 += weight,
                        None => self.request.push((id, weight)),
                    }
                }
            }
            let annotation = Annotation {
                charged: self.resolved.charged,
                request_vector: &self.request,
                relation: self
                    .views
                    .get(target.view)
                    .map_or(Relation::Cached, View::relation),
                predicted_latency_ns: if self.resolved.charged {
                    latency.total_ns
                } else {
                    0.0
                },
            };
            sink.annotate(index, op, paths, &annotation)?;
        }
        for target in &mut self.changed {
            let found = found(&self.views, &self.charges, target.view);
            charge(target, op, (&self.event, common), &self.resolved, found);
        }
        Ok(())
    }

    /// Stages 1 to 3.
    #[inline]
    fn resolve(&mut self, op: &Op, paths: &PathTable) {
        let gap = self.threads.gap(op);
        self.event = self.follow.push(op);
        self.namespace.apply(op, paths, &mut self.resolved);
        self.order
            .push(op, &self.resolved, &self.follow, &mut self.event);
        (self.lockers).push(op, &self.resolved, &self.namespace, &mut self.event);
        for (view, charges) in self.views.iter_mut().zip(&mut self.charges) {
            charges.clear();
            view.apply(op, &self.resolved, &self.namespace, gap, charges);
        }
        self.namespace.settle(&self.resolved);
        // What is known of the tree and the caches all the same is no cost.
        self.resolved.charged &= op.in_file_system();
        self.count(op);
    }

    #[inline]
    fn count(&mut self, op: &Op) {
        let traced = &mut self.traced;
        traced.operations += 1;
        traced.first_ns = Some(traced.first_ns.map_or(op.start_ns, |f| f.min(op.start_ns)));
        traced.end_ns = traced.end_ns.max(op.end_ns());
        if !self.resolved.charged {
            return;
        }
        traced.charged += 1;
        match op.latency_ns {
            Some(ns) => traced.latency_ns = traced.latency_ns.saturating_add(ns),
            // Faults that find their page are in the pauses, and cost nothing beside them.
            None => traced.without_latency += u64::from(op.kind != OpKind::Fault),
        }
        let created = matches!(self.resolved.action, Action::Open { created: true, .. });
        match op.kind {
            OpKind::Write | OpKind::CopyOut | OpKind::SpliceOut => {
                traced.bytes_written = traced.bytes_written.saturating_add(op.bytes_moved());
            }
            OpKind::Unlink
            | OpKind::Rename
            | OpKind::Mkdir
            | OpKind::Rmdir
            | OpKind::Link
            | OpKind::Symlink
            | OpKind::Mknod => self.names_change(op),
            OpKind::Open if created => self.names_change(op),
            _ => {}
        }
    }

    fn names_change(&mut self, op: &Op) {
        self.traced.metadata_ops += 1;
        if let Some(walk) = self.resolved.walks[0] {
            self.beside.push(op, walk.dir.0);
        }
    }

    /// What the trace leaves to be written behind on a target.
    pub(crate) fn load(&self, target: &Target) -> Load {
        let pages = self
            .views
            .get(target.view)
            .map(|v| v.pages.counts())
            .unwrap_or_default();
        Load {
            bytes: self.traced.bytes_written,
            blocks: pages.dirtied.saturating_sub(pages.cancelled),
            bursts: pages.bursts,
            metadata_ops: self.traced.metadata_ops,
            run_ns: self
                .traced
                .end_ns
                .saturating_sub(self.traced.first_ns.unwrap_or(0)),
            latency_ns: target.ledger.total().total_ns,
        }
    }
}

/// A system before the first operation; it shares its view with those whose caches are as large.
fn system(vector: SystemVector, views: &mut Vec<View>, options: &Options) -> Target {
    let (sizes, at_least_pages) = sizes(&vector);
    let view = views
        .iter()
        .position(|v| v.sizes() == sizes)
        .unwrap_or_else(|| {
            let (policy, start) = (options.policy, options.start);
            views.push(View::new(sizes, policy, start, options.write_back));
            views.len() - 1
        });
    Target {
        plan: Plan::new(&vector),
        ledger: Ledger::new(&vector),
        replay: Replay::new(&vector),
        vector,
        view,
        in_context: true,
        queues: 1.0,
        at_least_pages,
    }
}

/// What the first three stages found of an operation in a view: its charges, and what it reads of a drive.
#[inline]
fn found<'a>(
    views: &'a [View],
    charges: &'a [Vec<Charge>],
    view: usize,
) -> (&'a [Charge], Option<&'a View>) {
    let charges = charges.get(view).map_or(&[][..], Vec::as_slice);
    (charges, views.get(view))
}

/// Stage 4 of one operation for one system; returns its latency. An operation on
/// another file system takes as long as it did.
#[inline]
fn charge(
    target: &mut Target,
    op: &Op,
    (event, common): (&Event, Common),
    resolved: &Resolved,
    (charges, view): (&[Charge], Option<&View>),
) -> Latency {
    let charged = resolved.charged;
    let place = match resolved.walks[0] {
        Some(walk) => walk.dir.0,
        None => resolved.node.map_or(u32::MAX, |ino| ino.0),
    };
    let latency = if charged {
        let common = if target.in_context {
            common
        } else {
            Common::NOTHING
        };
        target.ledger.charge(op.kind, charges, &target.plan, common)
    } else {
        // How long others held it in the trace is nothing that it takes.
        let most_ns = if event.may_wait() {
            FREE_LOCK_NS
        } else {
            u64::MAX
        };
        Latency {
            total_ns: op.latency_ns.unwrap_or(0).min(most_ns) as f64,
            ..Latency::default()
        }
    };
    target.replay.push(
        op,
        event,
        (place, resolved.changes_names(op.kind)),
        (latency, Wanted::of(view)),
        charged,
    );
    latency
}
