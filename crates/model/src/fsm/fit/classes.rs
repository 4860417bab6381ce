//! What is told once: visits with the same steps, directories, files that are used alike.

use rustc_hash::{FxHashMap, FxHashSet};

use super::super::check::MOST_DEPTH;
use super::super::dist::{Counter, Dist};
use super::super::model::{Class, Order, Pick, Type};
use super::super::resolve::{NONE, Node};
use super::super::step::{Form, LARGEST, magnitude};
use super::{DIRECTORIES, Far, Fit, nearer};

/// By what files are told apart: there before, type, size, what was done and what failed.
type Traits = (bool, Type, u32, u64, u64);

/// Of each name how often it was visited, and what was done to it and what failed, in bits.
type Used = FxHashMap<u32, (u64, u64, u64)>;

/// What becomes a class.
struct Gathered {
    class: Class,
    sizes: Counter,
    places: Counter,
    /// Names in directories that the run makes.
    fresh: u64,
    since: Far,
}

impl Gathered {
    fn of(class: Class) -> Self {
        Self {
            class,
            sizes: Counter::default(),
            places: Counter::default(),
            fresh: 0,
            since: Far::default(),
        }
    }
}

impl Fit<'_> {
    /// The shapes that came often stay; of others each step is a visit of its own.
    pub(super) fn shapes(&mut self) {
        let shapes = &self.gather.shapes;
        let mut order: Vec<usize> = (0..shapes.len()).collect();
        order.sort_by_key(|&i| {
            shapes
                .get(i)
                .map(|s| (std::cmp::Reverse(s.count * s.forms.len() as u64), i))
        });
        self.visit_of = vec![None; shapes.len()];
        let mut same: FxHashMap<Vec<Form>, u32> = FxHashMap::default();
        for (rank, &i) in order.iter().enumerate() {
            let Some(shape) = shapes.get(i) else { continue };
            let of_any_file = self.groups.of_any_size.then(|| {
                let forms = shape.forms.iter().map(|form| form.of_any_file());
                forms.collect::<Vec<_>>()
            });
            if let Some(&visit) = of_any_file.as_ref().and_then(|forms| same.get(forms))
                && let Some((_, all)) = self.visits.get_mut(visit as usize - 1)
            {
                for (numbers, more) in all.iter_mut().zip(&shape.numbers) {
                    numbers.merge(more);
                }
                if let Some(of) = self.visit_of.get_mut(i) {
                    *of = Some(visit);
                }
                continue;
            }
            if rank < self.grain.shapes {
                self.visits
                    .push((shape.forms.clone(), shape.numbers.clone()));
                let number = self.visits.len() as u32;
                same.extend(of_any_file.map(|forms| (forms, number)));
                if let (Some(of), [form]) = (self.visit_of.get_mut(i), shape.forms.as_slice()) {
                    *of = Some(self.visits.len() as u32);
                    self.single.insert(*form, self.visits.len() as u32);
                } else if let Some(of) = self.visit_of.get_mut(i) {
                    *of = Some(self.visits.len() as u32);
                }
                continue;
            }
            for (form, numbers) in shape.forms.iter().zip(&shape.numbers) {
                // Of steps that are rare as well only what is done matters.
                let known =
                    self.single.contains_key(form) || self.visits.len() < 2 * self.grain.shapes;
                let form = if known { *form } else { form.of_any_size() };
                let visit = self.single.get(&form).map_or(0, |&v| v as usize);
                if let Some((_, all)) = self.visits.get_mut(visit.wrapping_sub(1)) {
                    for n in all.iter_mut() {
                        n.merge(numbers);
                    }
                } else {
                    self.visits.push((vec![form], vec![numbers.clone()]));
                    self.single.insert(form, self.visits.len() as u32);
                }
            }
        }
    }

    /// The directories that were there before, and in which of them each name lies.
    pub(super) fn place(&mut self) {
        let nodes = &self.gather.resolver.nodes;
        let top = self.top();
        self.directory_of = vec![0; nodes.len()];
        let mut depths = vec![0_usize];
        for (i, node) in nodes.iter().enumerate() {
            let above = self
                .directory_of
                .get(node.above as usize)
                .copied()
                .unwrap_or(0);
            let depth = 1 + depths.get(above as usize).copied().unwrap_or(0);
            let room = self.directories.len() < DIRECTORIES && depth <= MOST_DEPTH;
            let number = if is_old(node) && !top.contains(&i) && room {
                self.directories.push(above);
                depths.push(depth);
                self.directories.len() as u32 - 1
            } else {
                above
            };
            if let Some(of) = self.directory_of.get_mut(i) {
                *of = number;
            }
        }
    }

    /// What the target's own directory stands for, and all above it: the directory that the trace was kept to, else the
    /// deepest that holds all that was met and stays. A replay lays it there, too: one more on the way would make every
    /// path of the model longer than the trace's.
    fn top(&self) -> FxHashSet<usize> {
        let resolver = &self.gather.resolver;
        let nodes = &resolver.nodes;
        // Of each directory how many matter in it, and the last one.
        let mut holds: Vec<(u32, usize)> = vec![(0, 0); nodes.len()];
        for (i, node) in nodes.iter().enumerate() {
            if (is_old(node) || node.first.is_some())
                && let Some(above) = holds.get_mut(node.above as usize)
            {
                *above = (above.0 + 1, i);
            }
        }
        let kept = resolver.kept_to();
        let mut at = 0;
        let mut top = FxHashSet::from_iter([at]);
        while let (Some(&(1, only)), Some(node)) = (holds.get(at), nodes.get(at)) {
            let stays = |n: &Node| is_old(n) && (n.first.is_none() || n.exists);
            let goes_on = node.first.is_none() && kept != Some(at as u32);
            if !goes_on || !nodes.get(only).is_some_and(stays) {
                break;
            }
            at = only;
            top.insert(at);
        }
        top
    }

    /// How often each name was visited, and what was done to it and what failed, in bits.
    fn used(&self) -> Used {
        let mut used = Used::default();
        for visit in self.gather.visits.iter() {
            let Some(shape) = self.gather.shapes.get(visit.shape as usize) else {
                continue;
            };
            for node in [visit.node, visit.to].into_iter().filter(|n| *n != NONE) {
                let entry = used.entry(node).or_default();
                entry.0 += 1;
                for form in &shape.forms {
                    let bits = if form.error == 0 {
                        &mut entry.1
                    } else {
                        &mut entry.2
                    };
                    *bits |= 1 << ((form.kind as u64 + u64::from(node == visit.to) * 7) % 64);
                }
            }
        }
        used
    }

    /// By what a name is told apart, from fine to coarse.
    fn traits(&self, used: &Used, node: u32, level: u8) -> Traits {
        let (_, done, failed) = used.get(&node).copied().unwrap_or_default();
        let known = self.gather.resolver.nodes.get(node as usize);
        let before = known.is_some_and(|n| n.first == Some(true));
        let kind = known.and_then(|n| n.kind).unwrap_or(Type::File);
        let size = known.map_or(0, |n| n.largest.max(n.size.unwrap_or(0)));
        // Where the size is not what tells processes apart, it does not tell what they make for one another.
        let is_sized = before || !self.groups.of_any_size;
        let size = if is_sized {
            u32::from(magnitude(size))
        } else {
            0
        };
        match level {
            0 => (before, kind, size, done, failed),
            1 => (before, kind, size / 6, 0, 0),
            _ => (before, kind, u32::MAX, 0, 0),
        }
    }

    /// Names that are used alike: by what is done to them, and their size.
    pub(super) fn classify(&mut self) {
        let nodes = &self.gather.resolver.nodes;
        let used = self.used();
        let made_since = self.made_since();
        let mut weight: FxHashMap<Traits, u64> = FxHashMap::default();
        for (&node, &(visits, ..)) in &used {
            *weight.entry(self.traits(&used, node, 0)).or_default() += visits;
        }
        let mut order: Vec<_> = weight.into_iter().collect();
        order.sort_unstable_by_key(|(traits, n)| (std::cmp::Reverse(*n), *traits));
        let order = order.into_iter().take(self.grain.classes);
        let kept: FxHashSet<Traits> = order.map(|o| o.0).collect();
        let mut classes: FxHashMap<Traits, u32> = FxHashMap::default();
        self.class_of = vec![0; nodes.len()];
        let mut all: Vec<Gathered> = Vec::new();
        for node in (0..nodes.len() as u32).filter(|n| used.contains_key(n)) {
            let mut key = self.traits(&used, node, 0);
            if !kept.contains(&key) {
                let coarse = self.traits(&used, node, 1);
                key = if classes.len() < 2 * self.grain.classes || classes.contains_key(&coarse) {
                    coarse
                } else {
                    self.traits(&used, node, 2)
                };
            }
            let class = *classes.entry(key).or_insert_with(|| {
                let class = empty(key.1);
                all.push(Gathered::of(class));
                all.len() as u32
            });
            if let (Some(of), Some(known), Some(class)) = (
                self.class_of.get_mut(node as usize),
                nodes.get(node as usize),
                all.get_mut(class as usize - 1),
            ) {
                *of = class_number(classes.get(&key));
                let own = key.1 == Type::Directory && key.0;
                let place = if own { node } else { known.above };
                class.places.add(u64::from(
                    self.directory_of.get(place as usize).copied().unwrap_or(0),
                ));
                if key.0 {
                    class.class.before += 1;
                    class.sizes.add(known.size.unwrap_or(0).min(LARGEST));
                } else {
                    class.class.later += 1;
                    let above = nodes.get(known.above as usize);
                    class.fresh += u64::from(above.is_some_and(|n| n.first == Some(false)));
                    if let Some(&since) = made_since.get(&node) {
                        class.since.add(since);
                    }
                }
            }
        }
        self.orders(&mut all);
        self.close_classes(all);
    }

    /// In which order the files of each class that lie there are used first.
    fn orders(&self, all: &mut [Gathered]) {
        let nodes = &self.gather.resolver.nodes;
        let mut names: Vec<&[u8]> = vec![&[]; nodes.len()];
        for (name, node) in self.gather.resolver.names() {
            if let Some(place) = names.get_mut(node as usize) {
                *place = name;
            }
        }
        // Of each class: the last file, and how many lay in the same directory as the one before, and behind it there.
        let mut found: Vec<(u32, u64, u64)> = vec![(NONE, 0, 0); all.len()];
        for visit in self.gather.visits.iter().filter(|v| v.pick == Pick::Fresh) {
            let class = self.class(visit.node) as usize;
            let at = |node: u32| Some((nodes.get(node as usize)?.above, names.get(node as usize)?));
            let (Some(of), Some(now)) = (
                class.checked_sub(1).and_then(|c| found.get_mut(c)),
                at(visit.node),
            ) else {
                continue;
            };
            if let Some(before) = at(of.0).filter(|before| before.0 == now.0) {
                of.1 += 1;
                of.2 += u64::from(before.1 < now.1);
            }
            of.0 = visit.node;
        }
        for (class, (_, same, behind)) in all.iter_mut().zip(found) {
            // More than half of those that can: with one in each directory none can.
            let directories = class.places.dist(usize::MAX).0.len() as u64;
            let could = class.class.before.saturating_sub(directories);
            class.class.order = if 2 * same < could || directories > class.class.before {
                Order::Any
            } else if 4 * behind > 3 * same || could == 0 {
                Order::Name
            } else {
                Order::Directory
            };
        }
    }

    /// Of each name in a directory that the run had made: how many were made since that one.
    fn made_since(&self) -> FxHashMap<u32, u64> {
        let nodes = &self.gather.resolver.nodes;
        let mut places: FxHashMap<u32, u64> = FxHashMap::default();
        let mut since: FxHashMap<u32, u64> = FxHashMap::default();
        for visit in self.gather.visits.iter() {
            for node in [visit.node, visit.to] {
                let Some(known) = nodes.get(node as usize) else {
                    continue;
                };
                let made = places.len() as u64;
                if known.first == Some(false)
                    && let Some(place) = places.get(&known.above)
                {
                    let from_end = nearer((made - 1 - place) as usize, made as usize);
                    since.entry(node).or_insert(from_end);
                }
                if known.first == Some(false) && known.kind == Some(Type::Directory) {
                    places.entry(node).or_insert(made);
                }
            }
        }
        since
    }

    fn close_classes(&mut self, all: Vec<Gathered>) {
        for gathered in all {
            let Gathered {
                mut class,
                sizes,
                places,
                fresh,
                since,
            } = gathered;
            class.size_bytes = if class.kind == Type::File {
                sizes.dist(self.grain.bins * 2)
            } else {
                Dist::default()
            };
            let most = match class.order {
                Order::Any => 4,
                _ => 16,
            };
            class.directory = many(&places, most * self.grain.bins);
            class.in_new_directory = (1000 * fresh).checked_div(class.later).unwrap_or(0);
            class.new_directory = since.dist(4 * self.grain.bins);
            self.classes.push(class);
        }
    }
}

/// Whether it is a directory that was there before.
fn is_old(node: &Node) -> bool {
    node.kind == Some(Type::Directory) && node.first != Some(false)
}

fn empty(kind: Type) -> Class {
    Class {
        kind,
        before: 0,
        later: 0,
        size_bytes: Dist::default(),
        directory: Dist::default(),
        order: Order::default(),
        in_new_directory: 0,
        new_directory: Dist::default(),
    }
}

fn class_number(class: Option<&u32>) -> u32 {
    class.copied().unwrap_or(0)
}

/// The places that came most often as they are, the others among them.
fn many(places: &Counter, most: usize) -> Dist {
    let mut all = places.dist(usize::MAX).0;
    all.sort_by_key(|p| std::cmp::Reverse(p.1));
    all.truncate(most);
    all.sort_unstable();
    Dist(all)
}
