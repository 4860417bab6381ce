//! How often each line of a script follows which, so many times as often: whole numbers, and as many walks come to a line as
//! go on from it.
//!
//! What follows what is a circulation through the end. Of one with fractions each cycle of those can be moved up or down
//! until one of them is whole, and none is ever more than one away from where it was (the integrality of flows; Ford and
//! Fulkerson 1962); which way is chosen by how many operations of each kind come of it.

use std::collections::VecDeque;

use fsage_core::OpKind;

use super::dist::Dist;
use super::model::{Model, Part};

/// Smaller differences are those of sums of fractions.
const LEAST: f64 = 1e-6;

#[derive(Debug, Clone, Copy)]
struct Edge {
    from: usize,
    to: usize,
    /// How often it was taken.
    was: f64,
    /// How often it is.
    flow: f64,
}

impl Edge {
    fn is_whole(&self) -> bool {
        (self.flow - self.flow.round()).abs() < LEAST
    }

    /// How far it can go up or down until it is whole.
    fn room(&self, up: bool) -> f64 {
        if up {
            self.flow.ceil() - self.flow
        } else {
            self.flow - self.flow.floor()
        }
    }
}

/// All that follows: node 0 is where processes begin and end, the others are the lines.
struct Flow {
    edges: Vec<Edge>,
    nodes: usize,
    /// Of each line the operations of a visit that come with it, by kind.
    does: Vec<Vec<usize>>,
    /// By kind, how many there are to be, and how many there are more than that.
    wanted: Vec<f64>,
    off: Vec<f64>,
}

/// What a part begins with and what follows each of its lines, so many times as often.
pub(super) fn scaled(model: &Model, part: &Part, time: f64) -> (Dist, Vec<Dist>) {
    let mut flow = Flow::new(model, part, time);
    flow.begins(part.first.count() as f64, time);
    flow.close();
    flow.make_whole();
    flow.connect();
    let mut all = vec![Dist::default(); flow.nodes];
    for edge in flow.edges.iter().filter(|edge| edge.to < flow.nodes) {
        let times = edge.flow.round() as u64;
        if let Some(next) = all.get_mut(edge.from).filter(|_| times > 0) {
            next.0.push((edge.to as u64, times));
        }
    }
    let next = all.split_off(1);
    (all.pop().unwrap_or_default(), next)
}

impl Flow {
    fn new(model: &Model, part: &Part, time: f64) -> Self {
        let nodes = part.script.len() + 1;
        let mut edges: Vec<Edge> = Vec::new();
        let lines = part.script.iter().map(|line| &line.next);
        for (from, next) in [&part.first].into_iter().chain(lines).enumerate() {
            for &(to, n) in &next.0 {
                let to = to as usize;
                // One that stands twice is one.
                let mut own = edges.iter_mut().rev().take_while(|e| e.from == from);
                match own.find(|e| e.to == to) {
                    Some(edge) => edge.was += n as f64,
                    None => edges.push(Edge {
                        from,
                        to,
                        was: n as f64,
                        flow: 0.0,
                    }),
                }
            }
        }
        for edge in &mut edges {
            edge.flow = edge.was * time;
        }
        let kinds = OpKind::ALL.len();
        let mut all = Self {
            edges,
            nodes,
            does: vec![Vec::new(); nodes],
            wanted: vec![0.0; kinds],
            off: vec![0.0; kinds],
        };
        for (line, does) in part.script.iter().zip(all.does.iter_mut().skip(1)) {
            // What is done in rows is as much, in however many.
            let once = line.repeat.is_only(1);
            let steps = model.visit(line).map_or(&[][..], |visit| &visit.steps);
            let steps = steps
                .iter()
                .filter(|s| once && (s.times.is_only(1) || s.form.to_end.is_some()));
            *does = steps.map(|step| step.form.kind as usize).collect();
            for kind in does.iter() {
                if let Some(wanted) = all.wanted.get_mut(*kind) {
                    *wanted += time * line.next.count() as f64;
                }
            }
        }
        all
    }

    fn out(&self, node: usize) -> impl Iterator<Item = usize> {
        let edges = self.edges.iter().enumerate();
        edges.filter(move |(_, e)| e.from == node).map(|(at, _)| at)
    }

    /// As many processes as are so many times those there were, one at the least: the others go all the ways that those
    /// take, without their rounds.
    fn begins(&mut self, processes: f64, time: f64) {
        let wanted = (processes * time).round().max(1.0);
        let (more, mut left) = (wanted - processes * time, 1.0);
        if processes < 0.5 || more.abs() < LEAST {
            return;
        }
        let mut rest: Vec<f64> = self.edges.iter().map(|e| e.was / processes).collect();
        while left > LEAST {
            let Some(way) = self.way(&mut rest) else {
                break;
            };
            let least = way.iter().filter_map(|at| rest.get(*at).copied());
            let share = least.fold(left, f64::min);
            for at in way {
                if let (Some(rest), Some(edge)) = (rest.get_mut(at), self.edges.get_mut(at)) {
                    *rest -= share;
                    edge.flow += more * share;
                }
            }
            left -= share;
        }
    }

    /// A way from the beginning to the end by what is left, always on where most is; rounds on it are taken away.
    fn way(&self, rest: &mut [f64]) -> Option<Vec<usize>> {
        let mut way: Vec<usize> = Vec::new();
        let mut node = 0;
        loop {
            let left = |at: &usize| rest.get(*at).copied().unwrap_or(0.0);
            let out = self.out(node).filter(|at| left(at) > LEAST);
            let on = out.max_by(|a, b| left(a).total_cmp(&left(b)))?;
            way.push(on);
            node = self.edges.get(on)?.to;
            if node == 0 {
                return Some(way);
            }
            let starts = |at: &usize| self.edges.get(*at).is_some_and(|e| e.from == node);
            if let Some(begin) = way.iter().position(starts) {
                let round = way.split_off(begin);
                let least = round.iter().filter_map(|at| rest.get(*at).copied());
                let least = least.fold(f64::MAX, f64::min);
                for at in round {
                    if let Some(rest) = rest.get_mut(at) {
                        *rest -= least;
                    }
                }
            }
        }
    }

    /// What more comes to a line than goes on from it, as of one that was edited, ends or begins there.
    fn close(&mut self) {
        let mut more = vec![0.0; self.nodes];
        for edge in &self.edges {
            for (node, sign) in [(edge.to, 1.0), (edge.from, -1.0)] {
                if let Some(more) = more.get_mut(node) {
                    *more += sign * edge.flow;
                }
            }
        }
        for (node, more) in more.into_iter().enumerate() {
            if more.abs() > LEAST {
                let (from, to) = if more > 0.0 {
                    (node, self.nodes)
                } else {
                    (self.nodes, node)
                };
                self.edges.push(Edge {
                    from,
                    to,
                    was: 0.0,
                    flow: more.abs(),
                });
            }
        }
    }

    fn make_whole(&mut self) {
        let mut ends: Vec<Vec<usize>> = vec![Vec::new(); self.nodes + 1];
        for (at, edge) in self.edges.iter().enumerate().filter(|(_, e)| !e.is_whole()) {
            for node in [edge.from, edge.to] {
                if let Some(ends) = ends.get_mut(node) {
                    ends.push(at);
                }
            }
        }
        for start in 0..=self.nodes {
            while let Some(way) = self.cycle(&mut ends, start) {
                self.push(&way);
            }
        }
        for edge in &mut self.edges {
            edge.flow = edge.flow.round();
        }
    }

    /// A cycle of what is not whole, by edges that are taken forwards or backwards, that is found from a node on.
    fn cycle(&mut self, ends: &mut [Vec<usize>], start: usize) -> Option<Vec<(usize, bool)>> {
        let mut way: Vec<(usize, bool)> = Vec::new();
        let mut seen = vec![None; self.nodes + 1];
        let mut node = start;
        loop {
            *seen.get_mut(node)? = Some(way.len());
            let last = way.last().map(|step| step.0);
            let ends = ends.get_mut(node)?;
            ends.retain(|at| self.edges.get(*at).is_some_and(|e| !e.is_whole()));
            let on = ends.iter().copied().find(|at| Some(*at) != last);
            let Some(on) = on else {
                // Where it cannot go on, as where fractions do not add up, that one is whole by itself.
                let at = last?;
                if let Some(edge) = self.edges.get_mut(at) {
                    edge.flow = edge.flow.round();
                }
                return Some(Vec::new());
            };
            let edge = self.edges.get(on)?;
            let forwards = edge.from == node;
            node = if forwards { edge.to } else { edge.from };
            way.push((on, forwards));
            if let Some(begin) = seen.get(node).copied().flatten() {
                return Some(way.split_off(begin));
            }
        }
    }

    /// Moves a cycle that way which leaves the operations of each kind nearest to what they should be.
    fn push(&mut self, way: &[(usize, bool)]) {
        if way.is_empty() {
            return;
        }
        let mut does = vec![0.0; self.off.len()];
        let mut lines = 0.0;
        let mut rooms = [f64::MAX; 2];
        for &(at, forwards) in way {
            let Some(edge) = self.edges.get(at) else {
                continue;
            };
            let sign = if forwards { 1.0 } else { -1.0 };
            lines += sign;
            for kind in self.does.get(edge.to).into_iter().flatten() {
                if let Some(does) = does.get_mut(*kind) {
                    *does += sign;
                }
            }
            let [up, down] = &mut rooms;
            *up = up.min(edge.room(forwards));
            *down = down.min(edge.room(!forwards));
        }
        let [up, down] = rooms;
        let off = |by: f64| {
            let kinds = self.off.iter().zip(&does).zip(&self.wanted);
            kinds
                .filter(|((_, does), _)| **does != 0.0)
                .map(|((off, does), wanted)| (off + by * does).powi(2) / (1.0 + wanted))
                .sum::<f64>()
        };
        let apart = off(up) - off(-down);
        let by = match apart {
            apart if apart < -LEAST => up,
            apart if apart > LEAST => -down,
            _ if (up - down).abs() > LEAST => {
                if up < down {
                    up
                } else {
                    -down
                }
            }
            // A half is rounded up.
            _ if lines >= 0.0 => up,
            _ => -down,
        };
        for &(at, forwards) in way {
            if let Some(edge) = self.edges.get_mut(at) {
                edge.flow += if forwards { by } else { -by };
                if edge.is_whole() {
                    edge.flow = edge.flow.round();
                }
            }
        }
        for (off, does) in self.off.iter_mut().zip(&does) {
            *off += by * does;
        }
    }

    /// Rounds to which nothing leads any more get a way there and back.
    fn connect(&mut self) {
        loop {
            let reached = self.reached(&[0], |edge| edge.flow > 0.0);
            let is_cut = |edge: &&Edge| {
                edge.flow > 0.0
                    && edge.from < self.nodes
                    && edge.from > 0
                    && reached.get(edge.from).is_some_and(Option::is_none)
            };
            let Some(cut) = self.edges.iter().find(is_cut).map(|edge| edge.from) else {
                return;
            };
            let sources: Vec<usize> = (0..self.nodes)
                .filter(|n| reached.get(*n).is_some_and(Option::is_some))
                .collect();
            let Some((there, back)) = self.there_and_back(&sources, cut) else {
                self.take_away(&reached);
                return;
            };
            for at in there.into_iter().chain(back) {
                if let Some(edge) = self.edges.get_mut(at) {
                    edge.flow += 1.0;
                }
            }
        }
    }

    /// From one of those to a node by what was taken, and back to it: from the beginning and to the end where no other has
    /// a way back.
    fn there_and_back(&self, sources: &[usize], node: usize) -> Option<(Vec<usize>, Vec<usize>)> {
        let back = self.reached(&[node], |edge| edge.was > 0.0);
        let can = |source: &usize| back.get(*source).is_some_and(Option::is_some);
        let returning: Vec<usize> = sources
            .iter()
            .copied()
            .filter(|s| *s > 0 && can(s))
            .collect();
        let from = if returning.is_empty() {
            vec![0]
        } else {
            returning
        };
        let ways = self.reached(&from, |edge| edge.was > 0.0);
        let there = self.path(&ways, &from, node)?;
        let source = there.first().and_then(|at| self.edges.get(*at))?.from;
        let back = self.path(&back, &[node], source)?;
        Some((there, back))
    }

    /// Nodes that are reached from those, each with the edge that led there first; those themselves with none of the edges.
    fn reached(&self, from: &[usize], by: impl Fn(&Edge) -> bool) -> Vec<Option<usize>> {
        let mut reached = vec![None; self.nodes + 1];
        let mut queue: VecDeque<usize> = from.iter().copied().collect();
        for node in from {
            if let Some(known) = reached.get_mut(*node) {
                *known = Some(usize::MAX);
            }
        }
        let mut out: Vec<Vec<usize>> = vec![Vec::new(); self.nodes + 1];
        for (at, edge) in self.edges.iter().enumerate().filter(|(_, e)| by(e)) {
            if let Some(out) = out.get_mut(edge.from) {
                out.push(at);
            }
        }
        while let Some(node) = queue.pop_front() {
            for &at in out.get(node).into_iter().flatten() {
                let to = self.edges.get(at).map_or(node, |edge| edge.to);
                if let Some(known) = reached.get_mut(to).filter(|known| known.is_none()) {
                    *known = Some(at);
                    queue.push_back(to);
                }
            }
        }
        reached
    }

    /// The edges to a node, from one of those from which it was reached.
    fn path(&self, reached: &[Option<usize>], from: &[usize], to: usize) -> Option<Vec<usize>> {
        let mut way = Vec::new();
        let mut node = to;
        while way.is_empty() || !from.contains(&node) {
            let at = (*reached.get(node)?)?;
            let edge = self.edges.get(at)?;
            way.push(at);
            node = edge.from;
        }
        way.reverse();
        Some(way)
    }

    /// What nothing leads to is not done.
    fn take_away(&mut self, reached: &[Option<usize>]) {
        for edge in &mut self.edges {
            if reached.get(edge.from).is_some_and(Option::is_none) {
                edge.flow = 0.0;
            }
        }
    }
}
