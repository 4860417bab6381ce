//! A model is played: who does what when. Everything is decided in the order of the times that the trace tells,
//! whatever the target takes: the same seed gives the same operations.

mod begun;
mod left;
mod line;
mod needs;
mod streams;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use fsage_core::{Op, OpKind, Pid, Tid};

use super::check::{ModelError, Scale};
use super::dist::{Deck, Random};
use super::model::{Group, Line, Model, Phase, Pick, Stage, Type, Visit};
use super::names::{Has, Names, Wish};
use super::play::{Call, FIRST_FD, Player, Who};
use super::possible::Needs;
use begun::{Begun, Comes};
use left::Left;
pub use streams::Next;
use streams::Streams;

/// How a model is played.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Where random choices start.
    pub seed: u64,
    /// How many more files, or larger ones.
    pub data: f64,
    /// The directory that holds everything, with a slash behind it; empty for the target's own.
    pub prefix: String,
    /// Whether it begins anew when it has ended.
    pub endless: bool,
    /// Each process that runs at once ends after so many calls.
    pub most: Option<u64>,
    /// Who begins on a place goes on before the one before him there has ended, in a stream of his own, as far as there are so
    /// many streams: he waits for who began him alone.
    pub streams: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 42,
            data: 1.0,
            prefix: String::new(),
            endless: false,
            most: None,
            streams: 0,
        }
    }
}

/// The calls of a visit.
#[derive(Debug, Clone)]
pub struct Batch {
    /// How long the process thinks before, nanoseconds.
    pub think_ns: u64,
    /// Batches of other lanes that have to be done before: the lane, and how many of its.
    pub after: Vec<(u32, u64)>,
    /// Of these those that come before it thinks: what began its process, and the ends of those that it waited for.
    pub thinks_after: Vec<(u32, u64)>,
    /// The calls.
    pub calls: Vec<Call>,
    /// From when to when, as the trace has it.
    pub span_ns: (u64, u64),
    /// The thread that does it.
    pub tid: u32,
    /// The phase, its part and the line of that, each from 0.
    pub place: (usize, usize, usize),
}

/// What comes after a lane's turn.
enum Turn {
    /// Its next one, then.
    Until(u64),
    /// The phase has nothing more for it.
    Phase,
    /// That of another comes before: it is told when.
    Another,
    /// Nothing.
    Nothing,
}

#[derive(Debug)]
struct Lane {
    group: u32,
    who: Who,
    phase: usize,
    line: u32,
    /// How often more the line is done in this row, once that is drawn.
    again: Option<u64>,
    /// Visits since it began.
    walked: u64,
    calls: u64,
    ended: bool,
    /// Whether its process has done nothing yet.
    new: bool,
    /// The last visit on it.
    last: (u32, u64),
    /// How long it waits before it begins.
    idle_ns: u64,
    /// Whether its process goes on in the next phase.
    goes_on: bool,
    /// What it has thought, where the visit is the next.
    thought_ns: Option<u64>,
    /// Whether it has done anything since the first phase.
    did: bool,
    /// Whether its process may begin, of a group whose processes others begin; behind which visit, and begun by which thread.
    started: bool,
    behind: Option<(u32, u64)>,
    parent: Option<u32>,
    /// Whether it has nothing to do until another begins a process.
    idle: bool,
    /// Whether that was drawn for which it waits, and whether it was for something.
    waits: Option<bool>,
}

/// Plays a model.
#[derive(Debug)]
pub struct Generator {
    model: Arc<Model>,
    options: Options,
    random: Random,
    player: Player,
    lanes: Vec<Lane>,
    next: BinaryHeap<Reverse<(u64, u32)>>,
    /// Those that have done their part of the phase, and when.
    parked: Vec<(u64, u32)>,
    left: Vec<Vec<Left>>,
    /// Of each group: when they begin, and how long until the next does.
    waits: Vec<(Deck, Deck)>,
    /// Of each group: by whom they are begun.
    begun_by: Vec<Deck>,
    /// Chooses by which of these: what is done hangs on it in nothing.
    parents: Random,
    streams: Streams,
    begun: Begun,
    pids: u32,
    now_ns: u64,
}

/// Process numbers of groups of threads, and of threads.
const SHARED_PID: u32 = 1 << 20;
const SHARED_TID: u32 = 1 << 21;

impl Generator {
    /// The start of that model.
    pub fn new(model: Arc<Model>, options: Options) -> Result<Self, ModelError> {
        model.check_scale(Scale {
            users: 1,
            time: 1.0,
            data: options.data,
        })?;
        let mut random = Random::new(options.seed);
        let names = Names::new(&model, options.data, &options.prefix, &mut random);
        let player = Player::new(&model, names);
        let left = |p: &Phase| p.parts.iter().map(|part| Left::new(&model, part)).collect();
        let groups = model.groups.len();
        let places: u32 = model.groups.iter().map(|group| group.at_once).sum();
        let of_place = options.streams.checked_div(places).unwrap_or(0);
        let parents = Random::new(options.seed);
        let parts_left = model.phases.iter().map(left).collect();
        let mut all = Self {
            model,
            options,
            random,
            player,
            lanes: Vec::new(),
            next: BinaryHeap::new(),
            parked: Vec::new(),
            left: parts_left,
            waits: vec![Default::default(); groups],
            begun_by: vec![Deck::default(); groups],
            parents,
            streams: Streams::default(),
            begun: Begun::new(groups),
            pids: 0,
            now_ns: 0,
        };
        all.roots();
        let model = Arc::clone(&all.model);
        for (group, about) in model.groups.iter().enumerate() {
            for place in 0..u64::from(about.at_once) {
                all.place(group, about, (place, of_place));
            }
        }
        Ok(all)
    }

    /// One more place of a group, its `number`-th, of so many streams at the most.
    fn place(&mut self, group: usize, about: &Group, (number, streams): (u64, u32)) {
        let lane = self.lanes.len() as u32;
        self.streams.add(about, streams);
        let who = self.process(about, lane);
        let comes = about.started == 0 || number < about.roots();
        let begins = self.waits.get_mut(group).filter(|_| comes);
        let begins = begins.map(|w| &mut w.0);
        let begin_ns = begins.map_or(0, |b| b.draw(&about.begin_ns, &mut self.random));
        self.lanes.push(Lane {
            group: group as u32 + 1,
            who,
            phase: 0,
            line: 0,
            again: None,
            walked: 0,
            calls: 0,
            ended: false,
            new: true,
            last: (0, 0),
            idle_ns: begin_ns,
            thought_ns: None,
            goes_on: false,
            did: false,
            started: false,
            behind: None,
            parent: None,
            idle: false,
            waits: None,
        });
        self.next.push(Reverse((0, lane)));
    }

    fn process(&mut self, group: &Group, lane: u32) -> Who {
        // Numbers come again once there were more processes than there are numbers.
        self.pids = 1 + self.pids % (SHARED_PID - 1);
        let (pid, tid) = match group.threads_of {
            0 => (self.pids, self.pids),
            process => (SHARED_PID + process, SHARED_TID + lane),
        };
        // Each of the threads has so many numbers for its descriptors.
        let first_fd = match group.threads_of {
            0 => FIRST_FD,
            _ => FIRST_FD + (lane as i32 % 4096) * (1 << 16),
        };
        Who {
            pid,
            tid,
            first_fd,
            visit: (self.streams.next(lane), 0),
        }
    }

    /// Decides what the next in time does; which that was, `None` if all have ended.
    fn step(&mut self) -> Option<u32> {
        let model = Arc::clone(&self.model);
        if self.next.is_empty() && !self.goes_on_alone(&model) {
            self.next_phase(&model);
        }
        let Reverse((now_ns, index)) = self.next.pop()?;
        self.now_ns = now_ns;
        let then_ns = match self.turn(&model, now_ns, index) {
            Turn::Until(then_ns) => Some(then_ns),
            Turn::Phase => {
                self.parked.push((now_ns, index));
                return Some(index);
            }
            Turn::Another => return Some(index),
            Turn::Nothing => None,
        };
        let lane = self.lanes.get(index as usize);
        // Nobody asks for what one would do beyond, while others still do little of theirs.
        let enough = lane.is_some_and(|l| self.options.most.is_some_and(|most| l.calls >= most));
        match then_ns.filter(|_| !enough) {
            Some(then_ns) => self.next.push(Reverse((then_ns, index))),
            None => {
                if let Some(lane) = self.lanes.get_mut(index as usize) {
                    lane.ended = true;
                }
            }
        }
        Some(index)
    }

    /// All have done their part of a phase and go on to the next, as in the trace: nobody cleans up what others still
    /// work on.
    fn next_phase(&mut self, model: &Model) {
        let mut begun_anew = false;
        let idle = self.begun.none_idle();
        for (now_ns, index) in std::mem::take(&mut self.parked).into_iter().chain(idle) {
            let Some(lane) = self.lanes.get_mut(index as usize) else {
                continue;
            };
            (lane.phase, lane.line, lane.walked) = (lane.phase + 1, 0, 0);
            (lane.again, lane.idle) = (None, false);
            if lane.phase >= model.phases.len() && !self.options.endless {
                lane.ended = true;
            } else if lane.phase >= model.phases.len() {
                lane.goes_on = false;
                lane.phase = 0;
                begun_anew = true;
                // Who has nothing to do in all of it never will.
                lane.ended = !std::mem::take(&mut lane.did);
            }
            if !lane.ended {
                self.next.push(Reverse((now_ns, index)));
            }
        }
        if begun_anew {
            self.roots();
            for (left, phase) in self.left.iter_mut().zip(&model.phases) {
                for (left, part) in left.iter_mut().zip(&phase.parts) {
                    *left = Left::new(model, part);
                }
            }
        }
    }

    fn turn(&mut self, model: &Model, now_ns: u64, index: u32) -> Turn {
        if self.idles(model, index) {
            return Turn::Another;
        }
        let Some(at) = self.line(model, index) else {
            let lane = self.lanes.get(index as usize);
            let more = lane.is_some_and(|l| l.phase + 1 < model.phases.len());
            let started = lane.is_some_and(|l| is_started(model, l.group));
            return if more || started || self.options.endless {
                Turn::Phase
            } else {
                Turn::Nothing
            };
        };
        if self.waits_for(model, index, at) {
            return Turn::Another;
        }
        self.visit(model, now_ns, index, at)
            .map_or(Turn::Nothing, Turn::Until)
    }

    /// A lane does what line `number` of a part says.
    fn visit(
        &mut self,
        model: &Model,
        now_ns: u64,
        index: u32,
        (phase, part, number): (usize, usize, u32),
    ) -> Option<u64> {
        let at = number as usize - 1;
        let script = &model.phases.get(phase)?.parts.get(part)?.script;
        let line = script.get(at)?;
        let left = self.left.get_mut(phase)?.get_mut(part)?;
        let random = &mut self.random;
        let lane = self.lanes.get_mut(index as usize)?;
        let Some(think_ns) = lane.thought_ns.take() else {
            // Which file it is is decided after it has thought: others go on meanwhile.
            let think_ns = left.think.get_mut(at)?.draw(&line.think_ns, random);
            let think_ns = think_ns.saturating_add(std::mem::take(&mut lane.idle_ns));
            lane.thought_ns = Some(think_ns);
            return Some(now_ns.saturating_add(think_ns));
        };
        if line.begins > 0 {
            return self.begin(model, (now_ns, think_ns), index, (phase, part, at));
        }
        let decks = left.distance.get_mut(at)?;
        let far = decks.0.draw(&line.file.distance, random);
        let far_to = line
            .to
            .as_ref()
            .map_or(0, |to| decks.1.draw(&to.distance, random));
        let Comes {
            who,
            thinks_after,
            behind,
        } = self.comes(model, index)?;
        let random = &mut self.random;
        let (name, to) = names(
            &mut self.player,
            model,
            line,
            (far, far_to),
            (who.pid, random),
        );
        let took_ns = line.took_ns.at(stage(&self.player.names, name));
        let then_ns = now_ns.saturating_add(took_ns);
        let calls = self.player.visit(model, line.visit, name, to, who, random);
        // One that fails as well: neither before what is in the directory nor after that went.
        self.player.changes |= calls.iter().any(|call| call.op.kind == OpKind::Rmdir);
        let after = after(&mut self.player, &[name, to], behind, who);
        let lane = self.lanes.get_mut(index as usize)?;
        lane.calls = lane.calls.saturating_add(calls.len() as u64);
        let batch = Batch {
            think_ns,
            after,
            thinks_after,
            calls,
            span_ns: (now_ns, then_ns),
            tid: who.tid,
            place: (phase, part, at),
        };
        self.streams.give(who.visit.0, batch);
        lane.walked += 1;
        self.now_ns = then_ns;
        self.follows(model, index, (phase, part, at))?;
        Some(then_ns)
    }

    /// A process comes to its end; another takes its place where the group has more of them.
    fn end(&mut self, model: &Model, index: u32) {
        self.has_ended(index);
        let Some(lane) = self.lanes.get_mut(index as usize) else {
            return;
        };
        let Some(group) = model.groups.get(lane.group as usize - 1) else {
            return;
        };
        let by_others = group.started > 0;
        if group.processes <= u64::from(group.at_once) && !by_others {
            return;
        }
        let comes = !by_others || self.begun.has_roots(lane.group);
        let idle = self.waits.get_mut(lane.group as usize - 1);
        let idle = idle.filter(|_| comes).map(|w| &mut w.1);
        lane.idle_ns = idle.map_or(0, |w| w.draw(&group.idle_ns, &mut self.random));
        if group.threads_of > 0 {
            return;
        }
        let old = lane.who;
        let held = self.player.ended(old.pid);
        let who = self.process(group, index);
        let Some(lane) = self.lanes.get_mut(index as usize) else {
            return;
        };
        (lane.who, lane.new) = (who, true);
        if let Some(batch) = self.streams.last(old.visit.0).filter(|_| held) {
            let mut op = Op::new(OpKind::Exit, Pid(old.pid), Tid(old.tid), 0);
            op.length = Some(1);
            batch.calls.push(Call {
                op,
                path: None,
                path2: None,
            });
        }
    }

    /// How many files were made so far where nothing was, and how many directories.
    pub fn made(&self) -> (u64, u64) {
        self.player.made
    }

    /// What is there before: directories, files and links with their sizes, each behind what holds it.
    pub fn population(&mut self) -> Vec<(Arc<[u8]>, Type, u64)> {
        let names = &mut self.player.names;
        let mut all = Vec::new();
        // Directory by directory, as a tree is made elsewhere, too; those that hold others come first.
        let mut order: Vec<u32> = (0..names.len() as u32).collect();
        order.sort_by_key(|name| names.get(*name).map(|n| n.above));
        for name in order {
            let path = names.path(name);
            if let Some(known) = names.get(name).filter(|n| n.exists && !path.is_empty()) {
                all.push((path, known.kind, known.size));
            }
        }
        let mut steps = self.model.visits.iter().flat_map(|v| &v.steps);
        if steps.any(|s| matches!(s.form.error, 20 | 21 | 36 | 39 | 40)) {
            let traps = [
                ("", Type::Directory),
                ("full", Type::Directory),
                ("empty", Type::Directory),
                ("file", Type::File),
                ("full/file", Type::File),
                ("loop", Type::Link),
            ];
            all.extend(traps.map(|(what, kind)| (trimmed(&names.trap(what)), kind, 0)));
        }
        all
    }
}

/// Whether those of a group are begun by others.
fn is_started(model: &Model, group: u32) -> bool {
    let group = model.groups.get(group as usize - 1);
    group.is_some_and(|group| group.started > 0)
}

/// Whether a lane does its line once more in this row.
fn goes_on(lane: &mut Lane, line: &Line, row: &mut Deck, random: &mut Random) -> bool {
    let again = lane.again.take();
    let again = again.unwrap_or_else(|| row.draw(&line.repeat, random).saturating_sub(1));
    lane.again = again.checked_sub(1);
    again > 0
}

/// What was moved of a file so far.
fn stage(names: &Names, name: Option<u32>) -> Stage {
    let known = name.and_then(|name| names.get(name));
    known.map_or(Stage::default(), |name| name.stage)
}

fn trimmed(path: &Arc<[u8]>) -> Arc<[u8]> {
    path.strip_suffix(b"/")
        .map_or_else(|| Arc::clone(path), Arc::from)
}

/// Whether a process can do what a line says: whether there is such a file, and of one that it has open whether as much is
/// left of it as there was.
fn has(names: &Names, model: &Model, line: &Line, pid: u32) -> Has {
    let visit = model.visit(line).filter(|_| line.file.pick == Pick::Open);
    let wish = Wish {
        pid,
        empty: false,
        bytes: None,
        writes: visit.and_then(Visit::writes),
        mapped: visit.is_some_and(Visit::maps),
        rest: visit.and_then(Visit::rest),
        needs: visit.map(Visit::needs).unwrap_or_default(),
    };
    names.has(&line.file, wish)
}

/// The files of a line, so far away.
fn names(
    player: &mut Player,
    model: &Model,
    line: &Line,
    (far, far_to): (u64, u64),
    (pid, random): (u32, &mut Random),
) -> (Option<u32>, Option<u32>) {
    let empties = model
        .visit(line)
        .and_then(|v| v.steps.first())
        .is_some_and(|s| s.form.kind == OpKind::Rmdir && s.form.error == 0);
    let bytes = player.wanted_bytes(model, line.visit, random);
    let writes = model.visit(line).and_then(Visit::writes);
    let rest = model.visit(line).and_then(Visit::rest);
    let mapped = model.visit(line).is_some_and(Visit::maps);
    let needs = model.visit(line).map(Visit::needs).unwrap_or_default();
    let wish = |empty, bytes, needs| Wish {
        pid,
        empty,
        bytes,
        writes,
        mapped,
        rest,
        needs,
    };
    let names = &mut player.names;
    let first = wish(empties, bytes, needs);
    let name = names.pick(model, &line.file, far, first, random);
    let second = wish(false, None, Needs::default());
    let other = line.to.as_ref();
    let to = other.and_then(|to| names.pick(model, to, far_to, second, random));
    for (name, class) in [(name, line.file.class), (to, other.map_or(0, |t| t.class))] {
        if let Some(name) = name {
            names.adopt(name, class);
        }
    }
    (name, to)
}

/// Whose visits must be done before this one, which is the last of its files from now on.
fn after(
    player: &mut Player,
    names: &[Option<u32>],
    behind: Vec<(u32, u64)>,
    who: Who,
) -> Vec<(u32, u64)> {
    let changes = player.changes;
    let mut after = std::mem::take(&mut player.opened_by);
    after.extend(behind);
    for &name in names.iter().flatten() {
        let Some(known) = player.names.get_mut(name) else {
            continue;
        };
        after.extend(known.changed);
        if changes {
            after.append(&mut known.users);
            after.append(&mut known.inside);
            known.changed = Some(who.visit);
        }
        player.names.entered(name, who.visit, &mut after);
        player.names.used(name, who.pid, who.visit);
    }
    after.retain(|other| other.0 != who.visit.0);
    after.sort_unstable();
    after.dedup();
    after
}
