//! A plan of `fsage validate`: targets in groups, and whose traces are predicted from.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use toml::Spanned;

use super::CacheState;
use super::file::{PlanVerb, RawGroup, RawTarget, Sheet};
use super::named::{NamedTarget, NamedWorkload};
use super::place::{self, Place, PlanError};
use super::subject::Caches;
use crate::target::schemes;

/// What stays of the traces and snapshots of a validation that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeepTraces {
    /// Nothing.
    None,
    /// All of the first runs, compressed.
    #[default]
    Compressed,
}

impl FromStr for KeepTraces {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "compressed" => Ok(Self::Compressed),
            _ => Err(format!(
                "keep_traces `{text}`, expected `none` or `compressed`"
            )),
        }
    }
}

/// A plan as it was written; what it does not say is `None`.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanFile {
    /// Where.
    pub targets: Vec<NamedTarget>,
    /// What.
    pub workloads: Vec<NamedWorkload>,
    /// What is run where the sealed half is asked for, and only then: no model was changed by what it showed.
    pub sealed: Vec<NamedWorkload>,
    /// Runs of each workload on each target.
    pub runs: Option<u32>,
    /// Where random choices start.
    pub seed: Option<u64>,
    /// What the caches hold when a workload begins.
    pub cache: CacheState,
    /// Whether everything is kept on one CPU.
    pub one_cpu: bool,
    /// Whether a step that fails is passed over.
    pub keep_going: bool,
    /// Whether profiles are quick ones.
    pub quick: Option<bool>,
    /// Profiles of each target.
    pub profiles: Option<u32>,
    /// The longest that one profile takes.
    pub profile_time: Option<Duration>,
    /// What stays of traces and snapshots.
    pub keep_traces: Option<KeepTraces>,
    /// The place of the target whose trace is predicted from.
    pub trace_on: Option<usize>,
    /// The same for the targets of a group.
    pub group_trace_on: BTreeMap<String, usize>,
}

impl PlanFile {
    /// Reads a plan. Nothing is opened or run.
    pub fn read(path: &Path) -> Result<Self, PlanError> {
        Self::parse(path, &place::read(path)?)
    }

    /// Reads a plan from its text; errors name `path`.
    pub fn parse(path: &Path, text: &str) -> Result<Self, PlanError> {
        let base = path.parent().unwrap_or(Path::new(""));
        let place = Place {
            path,
            text,
            schemes: schemes(),
            base,
        };
        let sheet = Sheet::read(place, PlanVerb::Validate, (Path::new(""), false))?;
        let cache = match sheet.caches.as_slice() {
            [Caches::Cold] => CacheState::Cold,
            [Caches::Warm(0)] => CacheState::Warm,
            _ => {
                let what = "lists, `warm N` and `as found` are for plans of `fsage bench` alone, expected \
                            cache = \"cold\" or \"warm\"";
                return Err(place.error(
                    sheet.raw.cache.map_or(0..0, |cache| cache.span()),
                    what.into(),
                ));
            }
        };
        let raw = sheet.raw;
        let targets = sheet.targets.into_iter().map(|t| t.target);
        let targets = place.targets(&raw.target, targets)?;
        let trace_on = raw.trace_on.as_ref();
        let (sealed, open): (Vec<_>, Vec<_>) = sheet.workloads.into_iter().partition(|w| w.sealed);
        Ok(Self {
            runs: place.count("runs", raw.runs.as_ref())?,
            seed: raw.seed,
            cache,
            one_cpu: raw.one_cpu,
            keep_going: raw.keep_going,
            quick: raw.quick,
            profiles: place.count("profiles", raw.profiles.as_ref())?,
            profile_time: place.time("profile_time", raw.profile_time.as_ref())?,
            keep_traces: raw
                .keep_traces
                .map(|text| {
                    let parsed = text.get_ref().parse::<KeepTraces>();
                    parsed.map_err(|what| place.error(text.span(), what))
                })
                .transpose()?,
            trace_on: trace_on
                .map(|name| place.find(&targets, name))
                .transpose()?,
            group_trace_on: place.groups(&targets, &raw.group)?,
            targets,
            workloads: open.into_iter().map(|w| w.workload).collect(),
            sealed: sealed.into_iter().map(|w| w.workload).collect(),
        })
    }
}

impl Place<'_> {
    /// The targets under the names that tables know, each once.
    fn targets(
        &self,
        raw: &[Spanned<RawTarget>],
        planned: impl Iterator<Item = NamedTarget>,
    ) -> Result<Vec<NamedTarget>, PlanError> {
        let mut targets: Vec<NamedTarget> = Vec::new();
        for (entry, mut target) in raw.iter().zip(planned) {
            let its = entry.get_ref();
            if its.name.is_none() {
                target.name = target.spec.name();
            }
            target.group = its.group.as_ref().map(|g| self.name(g)).transpose()?;
            if let Some(other) = targets
                .iter()
                .find(|t| t.name == target.name || t.spec.to_string() == target.spec.to_string())
            {
                let problem = format!("target `{}` stands twice, first as `{other}`", target.name);
                return Err(self.error(entry.span(), problem));
            }
            targets.push(target);
        }
        Ok(targets)
    }

    fn find(&self, targets: &[NamedTarget], name: &Spanned<String>) -> Result<usize, PlanError> {
        let wanted = name.get_ref();
        targets
            .iter()
            .position(|t| t.name == *wanted)
            .ok_or_else(|| {
                let known: Vec<&str> = targets.iter().map(|t| t.name.as_str()).collect();
                let problem = format!(
                    "trace_on = `{wanted}` is no target, expected one of {}",
                    known.join(", ")
                );
                self.error(name.span(), problem)
            })
    }

    fn groups(
        &self,
        targets: &[NamedTarget],
        raw: &BTreeMap<Spanned<String>, RawGroup>,
    ) -> Result<BTreeMap<String, usize>, PlanError> {
        let mut groups = BTreeMap::new();
        for (name, group) in raw {
            if !targets
                .iter()
                .any(|t| t.group.as_ref() == Some(name.get_ref()))
            {
                let problem = format!("no target is of group `{}`", name.get_ref());
                return Err(self.error(name.span(), problem));
            }
            if let Some(on) = &group.trace_on {
                groups.insert(name.get_ref().clone(), self.find(targets, on)?);
            }
        }
        Ok(groups)
    }
}

#[cfg(test)]
mod tests {
    use super::super::faulty::{damaged, reported_with_its_line};
    use super::*;

    const WHOLE: &str = r#"
runs = 5
seed = 7
one_cpu = true
keep_going = true
cache = "cold"
quick = false
profiles = 2
profile_time = "90s"
trace_on = "ext4 ram"
setup = "true"

[group.disk]
trace_on = "ext4 disk"

[[target]]
name = "ext4 ram"
spec = "scratch:ext4"
group = "ram"

[[target]]
name = "ext4 disk"
spec = "scratch:ext4,size=1G"
group = "disk"

[[workload]]
name = "PostMark"
spec = "postmark:files=50"

[[workload]]
spec = "cmd: cat *"
setup = "echo x > y"
"#;

    fn parse(text: &str) -> Result<PlanFile, PlanError> {
        PlanFile::parse(Path::new("p.toml"), text)
    }

    #[test]
    fn a_whole_plan_reads() {
        let plan = parse(WHOLE).unwrap();
        assert_eq!(
            (plan.runs, plan.seed, plan.profiles),
            (Some(5), Some(7), Some(2))
        );
        assert_eq!(
            (plan.one_cpu, plan.keep_going, plan.quick),
            (true, true, Some(false))
        );
        assert_eq!(plan.profile_time, Some(Duration::from_secs(90)));
        assert_eq!(plan.trace_on, Some(0));
        assert_eq!(plan.group_trace_on["disk"], 1);
        assert_eq!(plan.targets[1].name, "ext4 disk");
        assert_eq!(plan.targets[1].group.as_deref(), Some("disk"));
        let [postmark, command] = plan.workloads.as_slice() else {
            panic!("{:?}", plan.workloads)
        };
        assert_eq!(postmark.setup.as_deref(), Some("true"), "the plan's");
        assert_eq!(command.setup.as_deref(), Some("echo x > y"), "its own");
        assert_eq!(command.name, "cmd: cat *");
        assert!(plan.sealed.is_empty());
        let sealed = parse(&format!("{WHOLE}sealed = true\n")).unwrap();
        assert_eq!(sealed.workloads, std::slice::from_ref(postmark));
        assert_eq!(sealed.sealed, std::slice::from_ref(command));
        let small = parse("target=[{spec='/'}]\nworkload=[{spec='postmark'}]").unwrap();
        assert_eq!(
            (small.runs, small.trace_on, small.quick),
            (None, None, None)
        );
        assert_eq!(small.targets[0].name, "/");
    }

    /// What replaces a part of the whole plan, the line of the error, and what it says.
    const BAD: [(&str, &str, usize, &str); 17] = [
        ("runs = 5", "runs = 0", 2, "expected 1 to 1000"),
        ("runs = 5", "runs = 'many'", 2, "expected"),
        ("runs = 5", "runs = ", 2, ""),
        ("seed = 7", "seed = -7", 3, "-7"),
        ("seed = 7", "sead = 7", 3, "sead"),
        ("\"cold\"", "\"tepid\"", 6, "tepid"),
        ("\"90s\"", "\"90 moons\"", 9, "moons"),
        (
            "trace_on = \"ext4 ram\"",
            "trace_on = \"xfs\"",
            10,
            "ext4 ram, ext4 disk",
        ),
        ("[group.disk]", "[group.tape]", 13, "tape"),
        (
            "trace_on = \"ext4 disk\"",
            "trace_on = \"ext4\"",
            14,
            "`ext4` is no target",
        ),
        (
            "trace_on = \"ext4 disk\"",
            "trace_of = \"x\"",
            14,
            "trace_of",
        ),
        ("\"scratch:ext4\"", "\"scratch:ext4,on=tape\"", 18, "tape"),
        (
            "name = \"ext4 ram\"",
            "name = \" \"",
            17,
            "one line of text",
        ),
        ("scratch:ext4,size=1G", "scratch:ext4", 21, "stands twice"),
        ("postmark:files=50", "postmark:files=no", 28, "'no'"),
        ("setup = \"echo x > y\"", "stup = \"x\"", 32, "stup"),
        ("spec = \"cmd: cat *\"", "name = \"nothing\"", 30, "spec"),
    ];

    #[test]
    fn what_is_wrong_is_reported_with_its_line() {
        reported_with_its_line(WHOLE, &BAD, parse);
        assert!(parse("").unwrap_err().to_string().contains("[[target]]"));
        let none = parse("[[target]]\nspec='/'\n").unwrap_err().to_string();
        assert!(
            none.starts_with("read plan p.toml:3: no workload"),
            "{none}"
        );
    }

    #[test]
    fn what_is_no_text_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.toml");
        std::fs::write(&path, b"runs = 1\n\xff").unwrap();
        let error = PlanFile::read(&path).unwrap_err().to_string();
        assert!(error.contains("x.toml:2: it is no text"), "{error}");
        let error = PlanFile::read(&dir.path().join("none")).unwrap_err();
        assert!(error.to_string().contains("none"), "{error}");
    }

    #[test]
    fn a_damaged_plan_is_answered() {
        damaged(WHOLE, parse);
    }
}
