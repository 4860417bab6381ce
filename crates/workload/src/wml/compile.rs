//! The flowops of a thread to steps, composites unfolded.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fsage_format::foreign::wml::{Attribute, Flowop as Written};

use super::code::{Code, Flowop, FlowopKind, Instruction, KINDS};
use super::distribution::Number;
use super::tree::FilesetTree;
use super::values::{Attributes, Problem, Scope, Variables};

/// Descriptors that a script may name, as in filebench, and those that `opennext` may add.
const MOST_DESCRIPTORS: u64 = 127;
const MOST_ROTATED: usize = 1024;
/// Steps of one thread, and composites in composites.
const MOST_STEPS: usize = 100_000;
const DEEPEST: usize = 16;
/// Empty composites are no steps, and many of them take time.
const MOST_UNFOLDED: usize = 2_000_000;

/// A composite as defined.
#[derive(Debug, Clone, Copy)]
pub(super) struct Composite<'a> {
    pub(super) line: u32,
    pub(super) attributes: &'a [Attribute],
    pub(super) body: &'a [Written],
}

pub(super) struct Compiler<'a> {
    variables: &'a Variables,
    trees: &'a [Arc<FilesetTree>],
    composites: BTreeMap<&'a str, Composite<'a>>,
    /// Flowops and composites that were unfolded so far.
    unfolded: Cell<usize>,
}

impl FlowopKind {
    /// The flowop of that name; filebench writes some with capitals in its documentation.
    pub(super) fn named(name: &str) -> Option<FlowopKind> {
        let (_, kind) = KINDS
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        Some(*kind)
    }
}

impl<'a> Compiler<'a> {
    pub(super) fn new(
        variables: &'a Variables,
        trees: &'a [Arc<FilesetTree>],
        composites: BTreeMap<&'a str, Composite<'a>>,
    ) -> Self {
        Self {
            variables,
            trees,
            composites,
            unfolded: Cell::new(0),
        }
    }

    /// The steps of a thread.
    pub(super) fn thread(&self, body: &[Written], line: u32) -> Result<Code, Problem> {
        let mut code = Code::default();
        self.body(body, None, &mut code, 0)?;
        if code.steps.is_empty() {
            return Err((line, "a thread without a flowop".to_owned()));
        }
        resolve_limits(&mut code)?;
        let flowops = || code.steps.iter().filter_map(Instruction::flowop);
        let named = flowops().map(|f| f.fd.max(f.srcfd)).max().unwrap_or(0) + 1;
        let rotated = flowops().map(|f| f.rotates).max().unwrap_or(0);
        code.descriptors = named + rotated;
        Ok(code)
    }

    fn body(
        &self,
        body: &[Written],
        locals: Option<&Scope>,
        code: &mut Code,
        depth: usize,
    ) -> Result<(), Problem> {
        for written in body {
            let line = written.line;
            self.unfolded.set(self.unfolded.get() + 1);
            if self.unfolded.get() > MOST_UNFOLDED {
                let text = format!("composites unfold to more than {MOST_UNFOLDED} flowops");
                return Err((line, text));
            }
            if code.steps.len() >= MOST_STEPS {
                return Err((line, format!("more than {MOST_STEPS} steps in one thread")));
            }
            let read = Attributes::new(&written.attributes, self.variables, locals, line);
            let composite = self.composites.get(written.kind.as_str());
            let default = match composite {
                Some(c) => Attributes::new(c.attributes, self.variables, locals, c.line).count(
                    "iters",
                    1,
                    (0, u64::from(u32::MAX)),
                )? as f64,
                None => 1.0,
            };
            let times = read.number("iters", default)?;
            let start = code.steps.len();
            let repeated = times != Number::Fixed(1.0);
            if repeated {
                code.steps.push(Instruction::Repeat { times, end: 0 });
            }
            match composite {
                Some(composite) if depth < DEEPEST => {
                    let inner = self.locals(written, composite, locals)?;
                    self.body(composite.body, Some(&inner), code, depth + 1)?;
                }
                Some(_) => {
                    let kind = &written.kind;
                    return Err((line, format!("flowop '{kind}' contains itself")));
                }
                None => {
                    let flowop = self.flowop(written, &read)?;
                    code.steps.push(Instruction::Flowop(Box::new(flowop)));
                }
            }
            if repeated {
                code.steps.push(Instruction::Again { start });
                let after = code.steps.len();
                if let Some(Instruction::Repeat { end, .. }) = code.steps.get_mut(start) {
                    *end = after;
                }
            }
        }
        Ok(())
    }

    /// The local variables of a composite where it is used.
    fn locals(
        &self,
        written: &Written,
        composite: &Composite<'_>,
        outer: Option<&Scope>,
    ) -> Result<Scope, Problem> {
        let mut scope = Scope::new();
        let lists = [(composite.attributes, None), (&written.attributes, outer)];
        for (list, around) in lists {
            for attribute in list {
                let Some(name) = attribute.name.strip_prefix('$') else {
                    continue;
                };
                let line = attribute.line;
                let declared = composite
                    .attributes
                    .iter()
                    .any(|a| a.name == attribute.name);
                if !declared {
                    let kind = &written.kind;
                    return Err((line, format!("flowop '{kind}' has no variable '${name}'")));
                }
                if let Some(value) = &attribute.value {
                    scope.insert(name.to_owned(), self.variables.plain(value, around, line)?);
                }
            }
        }
        Ok(scope)
    }

    fn flowop(&self, written: &Written, read: &Attributes<'_>) -> Result<Flowop, Problem> {
        let line = written.line;
        let kind = FlowopKind::named(&written.kind).ok_or_else(|| {
            let known: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
            let own = self.composites.keys().copied();
            let known = known.into_iter().chain(own).collect::<Vec<_>>().join(", ");
            (
                line,
                format!("unknown flowop '{}', expected {known}", written.kind),
            )
        })?;
        if let Some(local) = written.attributes.iter().find(|a| a.name.starts_with('$')) {
            let name = &local.name;
            return Err((
                local.line,
                format!(
                    "'{name}' is given to '{}', which is no composite",
                    written.kind
                ),
            ));
        }
        let fileset = self.fileset(read, kind, &written.kind, line)?;
        let rotates = self.rotates(fileset, read, line)?;
        let indexed = match read.plain("indexed")? {
            None => None,
            Some(_) => Some(read.number("indexed", 0.0)?),
        };
        let target = read.text("target")?;
        if matches!(kind, FlowopKind::SemPost | FlowopKind::Wakeup) && target.is_none() {
            return Err((line, format!("'{}' without a target", written.kind)));
        }
        let fd = read.count("fd", 0, (0, MOST_DESCRIPTORS))? as usize;
        Ok(Flowop {
            line,
            name: read.text("name")?.unwrap_or_else(|| written.kind.clone()),
            kind,
            fileset,
            fd,
            srcfd: read.count("srcfd", 0, (0, MOST_DESCRIPTORS))? as usize,
            rotates,
            indexed,
            iosize: read.number(
                "iosize",
                if kind == FlowopKind::AppendRandom {
                    1024.0
                } else {
                    0.0
                },
            )?,
            working_set: read.number("workingset", 0.0)?,
            random: read.flag("random")? || kind == FlowopKind::AioWrite,
            direct: read.flag("directio")?,
            sync: read.flag("dsync")?,
            no_read_ahead: read.flag("noreadahead")?,
            value: read.number("value", 0.0)?,
            target,
            counted: None,
            blocking: read.flag("blocking")?,
            highwater: read.count("highwater", 1, (0, u64::from(u32::MAX)))?,
            gate: matches!(kind, FlowopKind::SemBlock | FlowopKind::Block),
        })
    }

    /// How many descriptors `opennext` goes through.
    fn rotates(
        &self,
        fileset: Option<usize>,
        read: &Attributes<'_>,
        line: u32,
    ) -> Result<usize, Problem> {
        let (Some(index), true) = (fileset, read.flag("opennext")?) else {
            return Ok(0);
        };
        let files = self.trees.get(index).map_or(0, |t| t.files.len());
        if files > MOST_ROTATED {
            let text = format!("opennext over {files} files, expected at most {MOST_ROTATED}");
            return Err((line, text));
        }
        Ok(files.max(1))
    }

    fn fileset(
        &self,
        read: &Attributes<'_>,
        kind: FlowopKind,
        written: &str,
        line: u32,
    ) -> Result<Option<usize>, Problem> {
        let Some(name) = read.text("filesetname")? else {
            if kind.needs_fileset() {
                return Err((line, format!("'{written}' without a filesetname")));
            }
            return Ok(None);
        };
        let found = self.trees.iter().position(|t| t.definition.name == name);
        let Some(tree) = found.and_then(|i| self.trees.get(i)) else {
            let known: Vec<&str> = self
                .trees
                .iter()
                .map(|t| t.definition.name.as_str())
                .collect();
            let known = known.join(", ");
            return Err((
                line,
                format!("no fileset or file '{name}' is defined, expected {known}"),
            ));
        };
        let definition = &tree.definition;
        if kind.writes() && definition.readonly {
            return Err((line, format!("'{written}' on '{name}', which is readonly")));
        }
        if kind.transfers() && !kind.writes() && definition.writeonly {
            return Err((line, format!("'{written}' on '{name}', which is writeonly")));
        }
        Ok(found)
    }
}

/// Flowops that count what others do, and end a run by it, do nothing themselves: alone they never end.
pub(super) fn check_work(codes: &[Arc<Code>]) -> Result<(), Problem> {
    let flowops = || {
        codes
            .iter()
            .flat_map(|c| &c.steps)
            .filter_map(Instruction::flowop)
    };
    let ends = flowops().find(|f| {
        matches!(
            f.kind,
            FlowopKind::FinishOnCount | FlowopKind::FinishOnBytes
        )
    });
    match ends {
        Some(end) if flowops().all(|f| f.kind.limits()) => Err((
            end.line,
            format!(
                "'{}' waits for what other flowops do, and no thread has one that does anything",
                end.name
            ),
        )),
        _ => Ok(()),
    }
}

/// Every post must have a gate.
pub(super) fn check_gates(codes: &[Arc<Code>]) -> Result<(), Problem> {
    let flowops = || {
        codes
            .iter()
            .flat_map(|c| &c.steps)
            .filter_map(Instruction::flowop)
    };
    let gates: BTreeSet<(bool, &str)> = flowops()
        .filter(|f| f.gate)
        .map(|f| (f.kind == FlowopKind::SemBlock, f.name.as_str()))
        .collect();
    for post in flowops() {
        let semaphore = post.kind == FlowopKind::SemPost;
        if !semaphore && post.kind != FlowopKind::Wakeup {
            continue;
        }
        let target = post.target.as_deref().unwrap_or_default();
        if !gates.contains(&(semaphore, target)) {
            let text = format!("no flowop '{target}' waits for '{}'", post.name);
            return Err((post.line, text));
        }
    }
    Ok(())
}

impl Instruction {
    /// The flowop of a step that is one.
    pub(super) fn flowop(&self) -> Option<&Flowop> {
        match self {
            Instruction::Flowop(flowop) => Some(flowop),
            _ => None,
        }
    }
}

/// Finds what limits count.
fn resolve_limits(code: &mut Code) -> Result<(), Problem> {
    let named: Vec<(String, FlowopKind)> = code
        .steps
        .iter()
        .map(|s| {
            s.flowop().map_or_else(
                || (String::new(), FlowopKind::Print),
                |f| (f.name.clone(), f.kind),
            )
        })
        .collect();
    for step in &mut code.steps {
        let Instruction::Flowop(flowop) = step else {
            continue;
        };
        if !flowop.kind.limits() {
            continue;
        }
        let Some(target) = &flowop.target else {
            continue;
        };
        let line = flowop.line;
        let found = named.iter().position(|(name, _)| name == target);
        let Some((_, kind)) = found.and_then(|at| named.get(at)) else {
            return Err((
                line,
                format!("no flowop '{target}' in this thread for '{}'", flowop.name),
            ));
        };
        let data = matches!(
            flowop.kind,
            FlowopKind::IopsLimit | FlowopKind::BandwidthLimit | FlowopKind::FinishOnBytes
        );
        if data && !kind.transfers() {
            return Err((line, format!("flowop '{target}' neither reads nor writes")));
        }
        flowop.counted = found;
    }
    Ok(())
}
