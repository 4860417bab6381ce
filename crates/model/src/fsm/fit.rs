//! What was gathered becomes a model.

mod begun;
mod classes;
mod held;
mod lines;
mod stacks;

use std::collections::BinaryHeap;

use fsage_core::{KindClass, OpKind};
use rustc_hash::{FxHashMap, FxHashSet};

use super::check::{MOST_TIME_NS, ModelError};
use super::dist::{Counter, Dist};
use super::gather::{Gather, Numbers, Visited};
use super::group::{GROUPS, Groups, groups, phases};
use super::model::{Choice, Class, Group, Line, Model, Part, Phase, Pick, Source, VERSION, Visit};
use super::resolve::{NONE, State};
use super::step::{Form, VisitStep};
use begun::Begun;
use held::{Base, Held};
use lines::{At, Came, Far, PartFit, Parts, ends};
use stacks::{Stacks, nearer};

/// Larger models are made coarser.
pub const MODEL_BYTES: usize = 100_000;

/// Directories beyond these are taken for those above them.
const DIRECTORIES: usize = 1500;
const PHASES: usize = 24;
const PHASE_BINS: usize = 128;

/// How fine a model is.
#[derive(Debug, Clone, Copy)]
struct Grain {
    shapes: usize,
    classes: usize,
    bins: usize,
    phases: usize,
}

/// From fine to coarse.
const GRAINS: [Grain; 6] = [
    Grain {
        shapes: 400,
        classes: 48,
        bins: 16,
        phases: PHASES,
    },
    Grain {
        shapes: 250,
        classes: 32,
        bins: 12,
        phases: PHASES,
    },
    Grain {
        shapes: 150,
        classes: 24,
        bins: 8,
        phases: 6,
    },
    Grain {
        shapes: 80,
        classes: 16,
        bins: 6,
        phases: 4,
    },
    Grain {
        shapes: 40,
        classes: 8,
        bins: 4,
        phases: 2,
    },
    Grain {
        shapes: 16,
        classes: 4,
        bins: 3,
        phases: 1,
    },
];

/// The finest model of at most [`MODEL_BYTES`].
pub fn fit(mut gather: Gather) -> Result<Model, ModelError> {
    gather.end();
    // A process that only begins others does nothing to a file, and so is in no group.
    if gather.visits.is_empty() || gather.threads.iter().all(|thread| thread.mix.is_empty()) {
        return Err(ModelError::Whole(
            "the trace has no operation on a file: expected at least one".into(),
        ));
    }
    let together = together(&gather);
    let groups = groups(&gather, &together);
    let mut model = None;
    for grain in GRAINS {
        let made = Fit::new(&gather, grain, &groups, &together).model();
        let fits = made.text()?.len() <= MODEL_BYTES;
        model = Some(made);
        if fits {
            break;
        }
    }
    model.ok_or_else(|| ModelError::Whole("no model".into()))
}

/// For each thread the number, from 1, of the process that it shares with others; 0 where it is alone.
pub(super) fn together(gather: &Gather) -> Vec<u32> {
    let mut threads: FxHashMap<u32, u32> = FxHashMap::default();
    for thread in gather.threads.iter().filter(|t| !t.mix.is_empty()) {
        *threads.entry(thread.pid).or_default() += 1;
    }
    let mut numbers: FxHashMap<u32, u32> = FxHashMap::default();
    let mut number = |pid: u32| {
        let next = numbers.len() as u32 + 1;
        *numbers.entry(pid).or_insert(next)
    };
    let shared = |pid: &u32| threads.get(pid).is_some_and(|n| *n > 1);
    gather
        .threads
        .iter()
        .map(|t| {
            if shared(&t.pid) {
                number(t.pid).min(GROUPS as u32)
            } else {
                0
            }
        })
        .collect()
}

struct Fit<'g> {
    gather: &'g Gather,
    grain: Grain,
    groups: &'g Groups,
    together: &'g [u32],
    /// By shape: the visit of the model, or none for one that is taken apart.
    visit_of: Vec<Option<u32>>,
    visits: Vec<(Vec<Form>, Vec<Numbers>)>,
    single: FxHashMap<Form, u32>,
    directory_of: Vec<u32>,
    directories: Vec<u32>,
    class_of: Vec<u32>,
    classes: Vec<Class>,
}

impl<'g> Fit<'g> {
    fn new(gather: &'g Gather, grain: Grain, groups: &'g Groups, together: &'g [u32]) -> Self {
        let mut fit = Self {
            gather,
            grain,
            groups,
            together,
            visit_of: Vec::new(),
            visits: Vec::new(),
            single: FxHashMap::default(),
            directory_of: Vec::new(),
            directories: vec![0],
            class_of: Vec::new(),
            classes: Vec::new(),
        };
        fit.shapes();
        fit.place();
        fit.classify();
        fit
    }

    fn group_of(&self, thread: usize) -> u32 {
        self.groups.of.get(thread).copied().unwrap_or(0)
    }

    fn class(&self, node: u32) -> u32 {
        self.class_of.get(node as usize).copied().unwrap_or(0)
    }

    /// The visits of the model that stand for one of the trace.
    fn apart(&self, visit: &Visited) -> Vec<(u32, Pick)> {
        if visit.begins != NONE {
            return vec![(0, Pick::None)];
        }
        if let Some(&Some(number)) = self.visit_of.get(visit.shape as usize) {
            return vec![(number, visit.pick)];
        }
        let forms = self
            .gather
            .shapes
            .get(visit.shape as usize)
            .map_or(&[][..], |s| &s.forms);
        let mut pick = visit.pick;
        let mut out = Vec::new();
        for form in forms {
            let number = self
                .single
                .get(form)
                .or_else(|| self.single.get(&form.of_any_size()));
            out.extend(number.map(|&n| (n, pick)));
            let named = form.kind.class() == KindClass::Name;
            pick = match form.kind {
                OpKind::Unlink | OpKind::Rmdir => Pick::Gone,
                _ if form.error == 2 => Pick::Gone,
                OpKind::Open if form.error == 0 => Pick::Open,
                OpKind::Close => Pick::Known,
                _ if named && pick != Pick::Open => Pick::Known,
                _ => pick,
            };
        }
        out
    }

    fn model(mut self) -> Model {
        let starts = self.phases();
        let (mut parts, groups) = self.lines(&starts);
        let phases = starts.iter().enumerate().map(|(p, &start_ns)| {
            let of = |group: u32| {
                parts
                    .remove(&(p as u32, group))
                    .map(|part| self.part(group, part))
            };
            Phase {
                start_ns,
                parts: (0..groups.len() as u32).filter_map(of).collect(),
            }
        });
        let phases: Vec<Phase> = phases.collect();
        let (first_ns, last_ns) = self.gather.span_ns.unwrap_or_default();
        let bins = self.grain.bins;
        Model {
            format: "fsm".into(),
            version: VERSION,
            source: Source {
                operations: self.gather.operations,
                left_out: self
                    .gather
                    .left_out
                    .iter()
                    .map(|(k, &n)| (k.name().to_owned(), n))
                    .collect(),
                bytes_read: self.gather.bytes.0,
                bytes_written: self.gather.bytes.1,
                span_ns: last_ns - first_ns,
            },
            directories: std::mem::take(&mut self.directories),
            classes: std::mem::take(&mut self.classes),
            visits: self
                .visits
                .iter()
                .map(|(forms, numbers)| visit(forms, numbers, bins))
                .collect(),
            groups,
            phases,
        }
    }

    /// When each phase starts, since the first operation.
    fn phases(&self) -> Vec<u64> {
        let visits = || self.gather.visits.iter().filter(|v| v.begins == NONE);
        let bin = visits().count().div_ceil(PHASE_BINS).max(1);
        let mut bins: Vec<Vec<u64>> = Vec::new();
        let mut starts_ns: Vec<u64> = Vec::new();
        for (i, visit) in visits().enumerate() {
            if i % bin == 0 {
                bins.push(vec![0; OpKind::ALL.len()]);
                starts_ns.push(visit.start_ns);
            }
            let shape = self.gather.shapes.get(visit.shape as usize);
            let Some(counts) = bins.last_mut() else {
                continue;
            };
            for form in shape.iter().flat_map(|s| &s.forms) {
                if let Some(n) = counts.get_mut(form.kind as usize) {
                    *n += 1;
                }
            }
        }
        let first_ns = starts_ns.first().copied().unwrap_or(0);
        let start = |b: usize| starts_ns.get(b).map_or(0, |ns| ns - first_ns);
        phases(&bins, self.grain.phases)
            .into_iter()
            .map(start)
            .collect()
    }

    /// For each phase and group what is done after what; and the groups.
    fn lines(&self, starts: &[u64]) -> (Parts, Vec<Group>) {
        let (parts, groups) = self.lines_by(starts, |_, _| true);
        let mut keys = parts.values().flat_map(|part| part.ids.keys());
        if keys.all(|key| key.1 == 0) {
            return (parts, groups);
        }
        let telling: FxHashMap<(u32, u32), FxHashSet<Base>> = parts
            .iter()
            .map(|(&at, part)| (at, part.telling()))
            .collect();
        self.lines_by(starts, |at, base| {
            telling.get(&at).is_some_and(|bases| bases.contains(base))
        })
    }

    /// The same, where `by_open` says so also by what was open then.
    fn lines_by(
        &self,
        starts: &[u64],
        by_open: impl Fn((u32, u32), &Base) -> bool,
    ) -> (Parts, Vec<Group>) {
        let visits = &self.gather.visits;
        let mut real = visits.iter().filter(|v| v.begins == NONE);
        let first_ns = real.next().map_or(0, |v| v.start_ns);
        let mut parts = Parts::default();
        let mut stacks = Stacks::new(self.classes.len());
        let mut held = Held::default();
        let groups = self.groups(first_ns);
        let mut begun = Begun::default();
        // Of each thread: its phase and the last line.
        let mut at: Vec<Option<At>> = vec![None; self.gather.threads.len()];
        for visit in visits.iter() {
            let phase = starts
                .partition_point(|&s| s <= visit.start_ns.saturating_sub(first_ns))
                .max(1) as u32
                - 1;
            let group = self.group_of(visit.thread as usize);
            let Some(last) = at.get_mut(visit.thread as usize) else {
                continue;
            };
            let Some((think_ns, waits)) = begun.before(self, &visit, last.is_none()) else {
                continue;
            };
            let open = held.number(visit.thread, |node| self.class(node));
            held.after(&visit);
            let stage = visit.before;
            let class = self.class(visit.node);
            let (near, other) = self.distances(&mut stacks, &visit);
            let mut came = Came {
                distance: near,
                waits,
                think_ns: think_ns.min(MOST_TIME_NS),
                took_ns: visit.took_ns.min(MOST_TIME_NS),
            };
            for (number, pick) in self.apart(&visit) {
                let to = (visit.to != NONE).then(|| (self.class(visit.to), visit.to_pick));
                // What begins a process is told apart by whose group that is.
                let class = self.started(&visit).unwrap_or(class);
                let base = (number, (class, pick), to);
                let by_open = by_open((phase, group), &base);
                let key = (base, if by_open { open } else { 0 });
                let crossed = last.take_if(|l| l.phase != phase);
                if let Some(before) = crossed {
                    ends(&mut parts, group, before);
                }
                let part = parts.entry((phase, group)).or_default();
                let line = part.line(key);
                match last {
                    // What needs an open file is not done in a row as such: one that is not there would be opened.
                    Some(at) if at.line == line && !matches!(pick, Pick::Open | Pick::Shared) => {
                        at.times += 1;
                    }
                    _ => {
                        part.comes(*last, line, crossed.is_some());
                        *last = Some(At {
                            phase,
                            line,
                            times: 1,
                        });
                    }
                }
                // Of what is taken apart the first has all of it.
                let came = std::mem::take(&mut came);
                if let Some(line) = part.lines.get_mut(line as usize - 1) {
                    line.came(stage, came, other);
                }
            }
        }
        for (thread, last) in at.into_iter().enumerate() {
            if let Some(last) = last {
                let group = self.group_of(thread);
                ends(&mut parts, group, last);
            }
        }
        (parts, groups)
    }

    /// The groups, with how long their processes waited for their turn.
    fn groups(&self, first_ns: u64) -> Vec<Group> {
        let count = self.groups.of.iter().max().map_or(0, |g| *g as usize + 1);
        let mut groups = vec![
            Group {
                processes: 0,
                at_once: 0,
                threads_of: 0,
                begun_by: Dist::default(),
                started: 0,
                begin_ns: Dist::default(),
                idle_ns: Dist::default(),
            };
            count
        ];
        let mut waited = vec![(Counter::default(), Counter::default()); count];
        let mut begun_by = vec![FxHashMap::default(); count];
        let threads = &self.gather.threads;
        let mut order: Vec<usize> = (0..threads.len())
            .filter(|&i| threads.get(i).is_some_and(|t| !t.mix.is_empty()))
            .collect();
        order.sort_by_key(|&i| threads.get(i).map(|t| t.span_ns.0));
        let mut free: Vec<BinaryHeap<std::cmp::Reverse<u64>>> = vec![BinaryHeap::new(); count];
        for i in order {
            let (Some(thread), Some(&g)) = (threads.get(i), self.groups.of.get(i)) else {
                continue;
            };
            let (Some(group), Some(free), Some((begins, idle))) = (
                groups.get_mut(g as usize),
                free.get_mut(g as usize),
                waited.get_mut(g as usize),
            ) else {
                continue;
            };
            group.processes += 1;
            group.started += u64::from(self.is_started(i));
            if let Some(begun_by) = begun_by.get_mut(g as usize) {
                *begun_by.entry(self.begun_by(i)).or_default() += 1;
            }
            group.threads_of = self.together.get(i).copied().unwrap_or(0);
            let started_ns = thread.span_ns.0;
            let is_started = self.is_started(i);
            match free.peek() {
                Some(&std::cmp::Reverse(ended_ns)) if ended_ns <= started_ns => {
                    free.pop();
                    if !is_started {
                        idle.add((started_ns - ended_ns).min(MOST_TIME_NS));
                    }
                }
                _ => {
                    group.at_once += 1;
                    if !is_started {
                        begins.add(started_ns.saturating_sub(first_ns).min(MOST_TIME_NS));
                    }
                }
            }
            free.push(std::cmp::Reverse(thread.span_ns.1));
        }
        for (group, begun_by) in groups.iter_mut().zip(begun_by) {
            group.begun_by = sorted(begun_by).shares();
            // Those that lines begin are behind those.
            if group.started > 0 || group.begun_by.is_only(0) {
                group.begun_by = Dist::default();
            }
        }
        for (group, (begins, idle)) in groups.iter_mut().zip(waited) {
            group.at_once = group.at_once.clamp(1, 512);
            group.begin_ns = begins.dist(self.grain.bins).shares();
            group.idle_ns = idle.dist(self.grain.bins).shares();
        }
        groups
    }

    /// The group, from 1, of who began a thread: of the nearest that did anything; 0 where there is none.
    fn begun_by(&self, thread: usize) -> u32 {
        let threads = &self.gather.threads;
        let by = |&at: &u32| threads.get(at as usize).and_then(|t| t.begun_by);
        let first = threads.get(thread).and_then(|t| t.begun_by);
        let mut before = std::iter::successors(first, by).take(threads.len());
        let did = |at: &u32| threads.get(*at as usize).is_some_and(|t| !t.mix.is_empty());
        let found = before
            .find(did)
            .and_then(|at| self.groups.of.get(at as usize));
        found.map_or(0, |group| group + 1)
    }

    /// How many others were used since, of the file and of the other; then both are used.
    fn distances(&self, stacks: &mut Stacks, visit: &Visited) -> (u64, u64) {
        let thread = self.gather.threads.get(visit.thread as usize);
        let pid = thread.map_or(0, |t| t.pid);
        let (node, to) = (visit.node, visit.to);
        if visit.begins != NONE {
            return (0, 0);
        }
        let near = stacks.distance(self.class(node), pid, node, visit.pick);
        let other = stacks.distance(self.class(to), pid, to, visit.to_pick);
        if to == NONE {
            stacks.touch(self.class(node), pid, node, visit.state);
        } else {
            let link = self
                .gather
                .shapes
                .get(visit.shape as usize)
                .is_some_and(|s| s.forms.iter().any(|f| f.kind == OpKind::Link));
            let from = State {
                exists: link,
                ..State::default()
            };
            stacks.touch(self.class(node), pid, node, from);
            stacks.touch(self.class(to), pid, to, visit.state);
        }
        (near, other)
    }

    fn part(&self, group: u32, part: PartFit) -> Part {
        let bins = self.grain.bins;
        let lines = part
            .lines
            .into_iter()
            .zip(1..)
            .filter_map(|(line, number)| {
                let rows = line.rows();
                let ((visit, file, to), _) = line.key?;
                let choice = |(class, pick): (u32, Pick), distance: &Far| {
                    let known =
                        matches!(pick, Pick::Known | Pick::Gone | Pick::Open | Pick::Shared);
                    let distance = if known {
                        distance.dist(bins)
                    } else {
                        Dist::default()
                    };
                    Choice {
                        class,
                        pick: if class == 0 { Pick::None } else { pick },
                        distance,
                    }
                };
                let begins = if visit == 0 { file.0 } else { 0 };
                let file = if visit == 0 { (0, Pick::None) } else { file };
                let waits = line.waits.dist(bins);
                Some(Line {
                    visit,
                    begins,
                    waits: if waits.is_only(0) {
                        Dist::default()
                    } else {
                        waits.shares()
                    },
                    file: choice(file, &line.distance),
                    to: to.map(|to| choice(to, &line.to_distance)),
                    think_ns: line.think.dist(bins).shares(),
                    took_ns: line.took_ns(),
                    repeat: rows.map_or_else(Dist::default, |rows| rows.dist(bins).shares()),
                    next: sorted(line.next(number, rows.is_some())),
                })
            });
        Part {
            group: group + 1,
            first: sorted(part.first),
            going_on: sorted(part.going_on),
            script: lines.collect(),
        }
    }
}

fn sorted(all: FxHashMap<u32, u64>) -> Dist {
    let mut all: Vec<(u64, u64)> = all.into_iter().map(|(k, n)| (u64::from(k), n)).collect();
    all.sort_unstable();
    Dist(all)
}

fn visit(forms: &[Form], numbers: &[Numbers], bins: usize) -> Visit {
    let steps = forms.iter().zip(numbers).map(|(form, numbers)| VisitStep {
        form: *form,
        times: numbers.times.dist(bins).shares(),
        bytes: numbers.bytes.dist(bins).shares(),
        place: numbers.places.dist(bins).shares(),
        reads: form
            .to_end
            .map_or_else(Dist::default, |_| numbers.to_end.dist(bins).shares()),
        unit: 1 << numbers.unit_bits.unwrap_or(0).min(20),
    });
    Visit {
        steps: steps.collect(),
    }
}
