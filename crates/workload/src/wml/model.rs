//! A script to filesets and threads.

use std::collections::BTreeMap;
use std::sync::Arc;

use fsage_core::Seed;
use fsage_format::foreign::wml::{self, Attribute, Command, Flowop as Written, QuitMode, Script};

use super::code::{Code, FlowopKind};
use super::compile::{Compiler, Composite, check_gates, check_work};
use super::distribution::Number;
use super::personalities;
use super::tree::{Definition, FilesetTree, MOST_FILE_BYTES};
use super::values::{Attributes, Plain, Problem, Scope, Variables};

/// Bounds of what a script may ask for: files of one fileset, threads of all processes.
const MOST_FILES: u64 = 10_000_000;
const MOST_THREADS: u64 = 4096;
/// What threads remember of their flowops is held in memory.
const MOST_STEPS: u64 = 4_000_000;

/// What is wrong with a script, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) file: Arc<str>,
    pub(super) problem: Problem,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}: line {}: {}",
            self.file, self.problem.0, self.problem.1
        )
    }
}

/// One thread of one instance of a process.
#[derive(Debug)]
pub(super) struct Thread {
    /// Process and thread, each with its number: `filereader-1 filereaderthread-3`.
    pub(super) name: String,
    /// The number of its process, from 1.
    pub(super) process: u32,
    /// How many descriptors the threads before it in the process use.
    pub(super) first_descriptor: usize,
    pub(super) code: Arc<Code>,
    /// The script that defines it.
    pub(super) file: Arc<str>,
}

/// A script that can be run.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) trees: Vec<Arc<FilesetTree>>,
    pub(super) threads: Vec<Thread>,
    /// Events a second, 0 for no limit.
    pub(super) rate: u64,
    pub(super) mode: QuitMode,
    /// The seconds that its `run` names.
    pub(super) run_seconds: Option<f64>,
    /// Its variables as they are when it runs.
    pub(super) variables: Scope,
}

struct Defined<T> {
    file: Arc<str>,
    line: u32,
    attributes: Vec<Attribute>,
    body: T,
}

#[derive(Default)]
struct Definitions {
    filesets: Vec<Defined<bool>>,
    processes: Vec<Defined<Vec<wml::Thread>>>,
    composites: BTreeMap<String, Defined<Vec<Written>>>,
    eventgen: Option<(Arc<str>, u32, Vec<Attribute>)>,
    mode: Option<QuitMode>,
    run_seconds: Option<f64>,
    ran: bool,
}

impl Model {
    /// Makes a model of a script; `given` variables replace what it sets.
    pub(super) fn new(script: &Script, given: &Scope, seed: Seed) -> Result<Self, Fault> {
        let mut variables = Variables::new(given.clone());
        let mut definitions = Definitions::default();
        definitions.collect(script, &mut variables, 0)?;
        let file: Arc<str> = script.path.display().to_string().into();
        let whole = |text: String| Fault {
            file: Arc::clone(&file),
            problem: (1, text),
        };
        for name in given.keys() {
            if !variables.names().any(|known| known == name) {
                let known = variables.names().collect::<Vec<_>>().join(", ");
                return Err(whole(format!(
                    "no variable '{name}' is set here, expected {known}"
                )));
            }
        }
        let trees = definitions.trees(&variables, seed)?;
        let threads = definitions.threads(&variables, &trees)?;
        if threads.is_empty() {
            return Err(whole("no process with a thread is defined".to_owned()));
        }
        let rate = match &definitions.eventgen {
            None => 0,
            Some((file, line, attributes)) => Attributes::new(attributes, &variables, None, *line)
                .count("rate", 0, (0, 1_000_000_000))
                .map_err(|problem| Fault {
                    file: Arc::clone(file),
                    problem,
                })?,
        };
        Ok(Self {
            trees,
            threads,
            rate,
            mode: definitions.mode.unwrap_or(QuitMode::Timeout),
            run_seconds: definitions.run_seconds,
            variables: variables.scope().clone(),
        })
    }
}

impl Definitions {
    /// Goes through the statements up to the one that runs.
    fn collect(
        &mut self,
        script: &Script,
        variables: &mut Variables,
        depth: usize,
    ) -> Result<(), Fault> {
        let file: Arc<str> = script.path.display().to_string().into();
        for statement in &script.statements {
            if self.ran {
                break;
            }
            let line = statement.line;
            let fault = |problem| Fault {
                file: Arc::clone(&file),
                problem,
            };
            match &statement.command {
                Command::Load(name) => {
                    let text = personalities::find(name)
                        .filter(|_| depth == 0)
                        .ok_or_else(|| {
                            let known = personalities::names().join(", ");
                            fault((
                                line,
                                format!("no personality '{name}' to load, expected {known}"),
                            ))
                        })?;
                    let loaded = wml::parse(text.as_bytes(), format!("{name}.f").as_ref())
                        .map_err(|e| fault((line, e.to_string())))?;
                    self.collect(&loaded, variables, depth + 1)?;
                }
                command => self
                    .command(command, line, &file, variables)
                    .map_err(fault)?,
            }
        }
        Ok(())
    }

    fn command(
        &mut self,
        command: &Command,
        line: u32,
        file: &Arc<str>,
        variables: &mut Variables,
    ) -> Result<(), Problem> {
        let file = Arc::clone(file);
        match command {
            Command::Set { name, value } => variables.set(name, value, line)?,
            Command::SetAttribute { name, attribute } => {
                variables.set_attribute(name, attribute, line)?;
            }
            Command::Mode(mode) => self.mode = Some(*mode),
            Command::Fileset { single, attributes } => self.filesets.push(Defined {
                file,
                line,
                attributes: attributes.clone(),
                body: *single,
            }),
            Command::Process {
                attributes,
                threads,
            } => self.processes.push(Defined {
                file,
                line,
                attributes: attributes.clone(),
                body: threads.clone(),
            }),
            Command::Composite { attributes, body } => {
                let name = Attributes::new(attributes, variables, None, line).required("name")?;
                if FlowopKind::named(&name).is_some() || self.composites.contains_key(&name) {
                    return Err((line, format!("there is a flowop '{name}' already")));
                }
                let composite = Defined {
                    file,
                    line,
                    attributes: attributes.clone(),
                    body: body.clone(),
                };
                self.composites.insert(name, composite);
            }
            Command::Eventgen(attributes) => {
                self.eventgen = Some((file, line, attributes.clone()));
            }
            Command::Run(seconds) => {
                self.ran = true;
                if let Some(value) = seconds {
                    let seconds = [Attribute {
                        line,
                        name: "run".to_owned(),
                        value: Some(value.clone()),
                    }];
                    let read = Attributes::new(&seconds, variables, None, line);
                    self.run_seconds = Some(read.real("run", 0.0)?);
                }
            }
            Command::Quit => self.ran = true,
            Command::Load(_) | Command::Remark(_) => {}
        }
        Ok(())
    }

    fn trees(&self, variables: &Variables, seed: Seed) -> Result<Vec<Arc<FilesetTree>>, Fault> {
        let mut definitions = Vec::new();
        let mut places = Vec::new();
        let mut entries = 0;
        for defined in &self.filesets {
            let fault = |problem| Fault {
                file: Arc::clone(&defined.file),
                problem,
            };
            let (definition, place) = fileset(defined, variables).map_err(fault)?;
            if definitions
                .iter()
                .any(|d: &Definition| d.name == definition.name)
            {
                let text = format!("there is a fileset '{}' already", definition.name);
                return Err(fault((defined.line, text)));
            }
            entries += definition.entries + definition.leaf_directories;
            if entries > MOST_FILES {
                let text = format!("more than {MOST_FILES} entries of all filesets");
                return Err(fault((defined.line, text)));
            }
            definitions.push(definition);
            places.push(place);
        }
        let shared = common(&places);
        let mut trees = Vec::new();
        for (number, (mut definition, place)) in definitions.into_iter().zip(places).enumerate() {
            let mut parts: Vec<String> = place.into_iter().skip(shared).collect();
            parts.push(definition.name.trim_start_matches('/').to_owned());
            definition.root = parts.join("/");
            let name = definition.name.clone();
            let tree = FilesetTree::new(definition, derived(seed, 1 << 32 | number as u64));
            let tree = tree.ok_or_else(|| {
                let defined = self.filesets.get(number);
                Fault {
                    file: defined.map_or_else(|| "".into(), |d| Arc::clone(&d.file)),
                    problem: (
                        defined.map_or(1, |d| d.line),
                        format!("fileset '{name}' takes more than 2,000,000 directories or 256 MiB of their names"),
                    ),
                }
            })?;
            trees.push(Arc::new(tree));
        }
        Ok(trees)
    }

    fn composites(&self) -> BTreeMap<&str, Composite<'_>> {
        self.composites
            .iter()
            .map(|(name, d)| {
                let composite = Composite {
                    line: d.line,
                    attributes: &d.attributes,
                    body: &d.body,
                };
                (name.as_str(), composite)
            })
            .collect()
    }

    fn threads(
        &self,
        variables: &Variables,
        trees: &[Arc<FilesetTree>],
    ) -> Result<Vec<Thread>, Fault> {
        let composites = self.composites();
        let compiler = Compiler::new(variables, trees, composites);
        let mut out = Vec::new();
        let mut all = Vec::new();
        let (mut processes, mut steps) = (0, 0);
        for defined in &self.processes {
            let fault = |problem| Fault {
                file: Arc::clone(&defined.file),
                problem,
            };
            let attributes = Attributes::new(&defined.attributes, variables, None, defined.line);
            let name = attributes.required("name").map_err(fault)?;
            let instances = attributes
                .count("instances", 1, (0, MOST_THREADS))
                .map_err(fault)?;
            let mut codes = Vec::new();
            for thread in &defined.body {
                let attributes = Attributes::new(&thread.attributes, variables, None, thread.line);
                let name = attributes.required("name").map_err(fault)?;
                let instances = attributes
                    .count("instances", 1, (0, MOST_THREADS))
                    .map_err(fault)?;
                let code = compiler.thread(&thread.body, thread.line).map_err(fault)?;
                codes.push((name, instances, Arc::new(code)));
            }
            let each: u64 = codes.iter().map(|(_, instances, _)| instances).sum();
            if each * instances + out.len() as u64 > MOST_THREADS {
                let text = format!("more than {MOST_THREADS} threads of all processes");
                return Err(fault((defined.line, text)));
            }
            all.extend(codes.iter().map(|(_, _, code)| Arc::clone(code)));
            let sum = |(_, n, code): &(String, u64, Arc<Code>)| n * code.steps.len() as u64;
            steps += instances * codes.iter().map(sum).sum::<u64>();
            if steps > MOST_STEPS {
                let text = format!("more than {MOST_STEPS} steps of all threads");
                return Err(fault((defined.line, text)));
            }
            for instance in 1..=instances {
                processes += 1;
                let mut first_descriptor = 0;
                for (thread, instances, code) in &codes {
                    for number in 1..=*instances {
                        out.push(Thread {
                            name: format!("{name}-{instance} {thread}-{number}"),
                            process: processes,
                            first_descriptor,
                            code: Arc::clone(code),
                            file: Arc::clone(&defined.file),
                        });
                        first_descriptor += code.descriptors;
                    }
                }
            }
        }
        check_work(&all)
            .and_then(|()| check_gates(&all))
            .map_err(|problem| {
                let file = self.processes.first().map(|d| Arc::clone(&d.file));
                Fault {
                    file: file.unwrap_or_else(|| "".into()),
                    problem,
                }
            })?;
        Ok(out)
    }
}

/// A fileset's definition and the parts of its path.
fn fileset(
    defined: &Defined<bool>,
    variables: &Variables,
) -> Result<(Definition, Vec<String>), Problem> {
    let line = defined.line;
    let read = Attributes::new(&defined.attributes, variables, None, line);
    let name = read.required("name")?;
    let single = defined.body;
    let path = read.text("path")?.unwrap_or_default();
    let parts = |text: &str| -> Result<Vec<String>, Problem> {
        let parts = text.split('/').filter(|p| !p.is_empty() && *p != ".");
        let parts: Vec<String> = parts.map(str::to_owned).collect();
        if parts
            .iter()
            .any(|p| p == ".." || p.contains('\0') || p.len() > 255)
        {
            return Err((
                line,
                format!("the path '{text}' of '{name}' leads out of the target"),
            ));
        }
        Ok(parts)
    };
    let name = parts(&name)?.join("/");
    let place = parts(&path)?;
    if name.is_empty() {
        return Err((line, "the name of a fileset is empty".to_owned()));
    }
    let prealloc = match read.plain("prealloc")? {
        None => 0,
        Some((Plain::Bool(on), _)) => 100 * u64::from(on),
        Some(_) => read.count("prealloc", 0, (0, 100))?,
    };
    let entries = if single {
        1
    } else {
        read.count("entries", 0, (0, MOST_FILES))?
    };
    let leaf_directories = read.count("leafdirs", 0, (0, MOST_FILES))?;
    if entries + leaf_directories == 0 {
        return Err((
            line,
            format!("fileset '{name}' has neither entries nor leafdirs"),
        ));
    }
    let size = file_size(&read, &name, line)?;
    let depth = match read.plain("dirdepthrv")? {
        None => None,
        Some(_) => Some(read.number("dirdepthrv", 1.0)?),
    };
    let definition = Definition {
        name,
        root: String::new(),
        entries,
        leaf_directories,
        size,
        width: read.number("dirwidth", if single { 1.0 } else { 100.0 })?,
        depth,
        gamma: read.real("dirgamma", if single { 0.0 } else { 1500.0 })? / 1000.0,
        prealloc,
        readonly: read.flag("readonly")?,
        writeonly: read.flag("writeonly")?,
        cached: read.flag("cached")?,
    };
    for known in ["paralloc", "reuse", "trusttree"] {
        read.flag(known)?;
    }
    Ok((definition, place))
}

/// The size of a fileset's files.
fn file_size(read: &Attributes<'_>, name: &str, line: u32) -> Result<Number, Problem> {
    let size = match (read.number("size", 1024.0)?, read.real("sizegamma", 0.0)?) {
        (Number::Fixed(mean), gamma) if gamma > 0.0 => Number::gamma(mean, gamma / 1000.0),
        (size, _) => size,
    };
    if let Number::Fixed(bytes) = size
        && bytes > MOST_FILE_BYTES as f64
    {
        let text =
            format!("size of '{name}' is more than {MOST_FILE_BYTES} bytes, the most of a file");
        return Err((line, text));
    }
    Ok(size)
}

/// How many parts at their start all paths share: that is the target's root.
fn common(places: &[Vec<String>]) -> usize {
    let Some(first) = places.first() else {
        return 0;
    };
    (0..first.len())
        .take_while(|&i| places.iter().all(|p| p.get(i) == first.get(i)))
        .count()
}

/// A seed of its own for part `number` (the finalizer of splitmix64, Steele 2014).
pub(super) fn derived(seed: Seed, number: u64) -> Seed {
    let mut z = seed
        .0
        .wrapping_add(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    Seed(z ^ z >> 31)
}
