//! A plan of `fsage bench`: every combination of what it names, and when measuring ends.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsage_core::{Registry, TargetError};
use fsage_format::FormatError;
use toml::{Spanned, Value};

use super::allow::{Allowed, Wanted};
use super::file::{PlanVerb, Planned, PlannedTarget, Raw, Sheet};
use super::place::{self, Place, PlanError};
use super::subject::{Caches, Rule, State, Subject};
use crate::bench::metrics;
use crate::target::schemes;

/// What one experiment does.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchPlan {
    /// As it was written.
    pub text: String,
    /// The directory below which it names files relative to itself.
    pub base: PathBuf,
    /// What is measured, in the order in which it is written.
    pub subjects: Vec<Subject>,
    /// When measuring ends.
    pub rule: Rule,
    /// Where the order of runs starts.
    pub seed: u64,
    /// Whether a run that fails is recorded and passed over.
    pub keep_going: bool,
    /// Whether what is measured is kept to one CPU.
    pub one_cpu: bool,
    /// The longest wait for the device to come to rest before each run.
    pub settle: Duration,
}

impl BenchPlan {
    /// Reads a plan, and looks at the files that its states restore, if it may name them. Nothing is run.
    pub fn read(path: &Path, allowed: Allowed) -> Result<Self, PlanError> {
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        let dir = dir.unwrap_or(Path::new("."));
        let base = dir
            .canonicalize()
            .map_err(|e| FormatError::io("find the directory of plan", path, e))?;
        let text = place::read(path)?;
        // To open a file can be too much already: of a device.
        let place = Place {
            path,
            text: &text,
            schemes: schemes(),
            base: &base,
        };
        Wanted::of_bench(&Self::build(place, &base, false)?, &base).unless(allowed)?;
        Self::build(place, &base, true)
    }

    /// Reads a plan from its text; errors name `path`, files are relative to `base` and not looked at.
    pub fn parse(path: &Path, text: &str, base: &Path) -> Result<Self, PlanError> {
        Self::parse_with(schemes(), path, text, base)
    }

    /// The same with other kinds of targets.
    pub fn parse_with(
        schemes: &Registry,
        path: &Path,
        text: &str,
        base: &Path,
    ) -> Result<Self, PlanError> {
        let place = Place {
            path,
            text,
            schemes,
            base,
        };
        Self::build(place, base, false)
    }

    fn build(place: Place<'_>, base: &Path, look: bool) -> Result<Self, PlanError> {
        let Sheet {
            raw,
            targets,
            workloads,
            caches,
        } = Sheet::read(place, PlanVerb::Bench, (base, look))?;
        place.few(
            targets.len() * workloads.len() * caches.len(),
            "configurations (targets by workloads by caches)",
        )?;
        let subjects = cross(&targets, &workloads, &caches);
        let rule = rule(place, &raw)?;
        check_required(place, raw.required.as_ref(), &subjects)?;
        let settle = place.time("settle", raw.settle.as_ref())?;
        Ok(Self {
            text: place.text.to_owned(),
            base: base.to_owned(),
            subjects,
            rule,
            seed: raw.seed.unwrap_or(1),
            keep_going: raw.keep_going,
            one_cpu: raw.one_cpu,
            settle: settle.unwrap_or(Duration::from_secs(2)),
        })
    }

    /// Whether its targets can be opened, and made cold where that is asked, as far as that is known without changing
    /// anything.
    pub fn check_targets(&self) -> Result<(), TargetError> {
        for Subject { target, caches, .. } in &self.subjects {
            target.spec.check()?;
            if *caches == Caches::Cold && !target.spec.can_be_cold() {
                let why = "all of it lies in memory";
                return Err(target.never_cold(why));
            }
        }
        Ok(())
    }

    /// Tells plans apart by everything that decides what a run measures and in which order. When to stop
    /// may change between an experiment and its continuation.
    pub fn digest(&self) -> String {
        let mut text = format!("bench {} {:?}\n", self.seed, self.settle);
        if self.one_cpu {
            text.push_str("one CPU\n");
        }
        for subject in &self.subjects {
            // What the file holds is told by its own digest; it may be moved.
            let restored = match &subject.state {
                State::Fresh | State::AsFound => "",
                State::Snapshot(_) => " snapshot",
                State::Image(_) => " image",
            };
            text.push_str(&format!(
                "{:?} {:?}{} {:?} {:?} {} {:?} {}\n",
                subject.name,
                subject.target.spec.to_string(),
                restored,
                subject.workload.spec.to_string(),
                subject.workload.setup,
                subject.in_place,
                subject.run_for,
                subject.caches,
            ));
        }
        super::digest(&text)
    }
}

/// Every combination of targets, workloads and caches.
fn cross(targets: &[PlannedTarget], workloads: &[Planned], caches: &[Caches]) -> Vec<Subject> {
    let mut subjects = Vec::new();
    for on in targets {
        for planned in workloads {
            for &state in caches {
                let mut name = format!("{} / {}", on.target, planned.workload);
                let mut parameters = BTreeMap::new();
                let of_target = on.parameters.iter();
                let of_target = of_target.map(|(key, value)| (format!("target.{key}"), value));
                let of_workload = planned.parameters.iter();
                let of_workload = of_workload.map(|(key, value)| (key.clone(), value));
                for (key, value) in of_target.chain(of_workload) {
                    name.push_str(&format!(" / {key}={value}"));
                    parameters.insert(key, value.clone());
                }
                if caches.len() > 1 {
                    name.push_str(&format!(" / {state}"));
                }
                subjects.push(Subject {
                    name,
                    target: on.target.clone(),
                    state: on.state.clone(),
                    aged: on.aged.clone(),
                    workload: planned.workload.clone(),
                    in_place: planned.in_place,
                    run_for: planned.run_for,
                    caches: state,
                    parameters,
                });
            }
        }
    }
    subjects
}

fn rule(place: Place<'_>, raw: &Raw) -> Result<Rule, PlanError> {
    let mut rule = Rule::default();
    let (least, most) = (raw.min_runs.as_ref(), raw.max_runs.as_ref());
    if let Some(runs) = &raw.runs {
        if let Some(other) = least.or(most) {
            let both =
                "runs fixes how many there are, expected it or min_runs and max_runs, not both";
            return Err(place.error(other.span(), both.into()));
        }
        rule.fix(place.count("runs", Some(runs))?.unwrap_or(rule.min_runs));
    }
    let at = most.map_or(0..0, Spanned::span);
    let (least, most) = (
        place.count("min_runs", least)?,
        place.count("max_runs", most)?,
    );
    rule.bound(least, most)
        .map_err(|less| place.error(at, less))?;
    if let Some(precision) = &raw.precision {
        rule.half_width_relative = share(precision.get_ref()).ok_or_else(|| {
            let found = precision.get_ref();
            let what =
                format!("precision = {found}, expected a share such as \"5%\" or 0.05, under 1");
            place.error(precision.span(), what)
        })?;
    }
    if let Some(names) = &raw.required {
        rule.required = names
            .get_ref()
            .iter()
            .map(|n| n.get_ref().clone())
            .collect();
    }
    if let Some(budget) = place.time("budget", raw.budget.as_ref())? {
        rule.budget = budget;
    }
    rule.rounds = place
        .count("rounds", raw.rounds.as_ref())?
        .unwrap_or(rule.rounds);
    let pause = place.time("round_pause", raw.round_pause.as_ref())?;
    rule.round_pause = pause.unwrap_or(rule.round_pause);
    Ok(rule)
}

/// `5%`, `0.05`.
fn share(value: &Value) -> Option<f64> {
    match value {
        Value::Float(share) => in_range(*share),
        Value::String(text) => parse_share(text),
        _ => None,
    }
}

fn in_range(share: f64) -> Option<f64> {
    (share > 0.0 && share < 1.0).then_some(share)
}

/// A share of 1 as people write it: `5%`, `0.05`. `None` if it is none between 0 and 1.
pub fn parse_share(text: &str) -> Option<f64> {
    let share = match text.trim().strip_suffix('%') {
        Some(number) => number.trim().parse::<f64>().ok()? / 100.0,
        None => text.trim().parse().ok()?,
    };
    in_range(share)
}

/// Metrics that nothing measures would never become precise.
fn check_required(
    place: Place<'_>,
    required: Option<&Spanned<Vec<Spanned<String>>>>,
    subjects: &[Subject],
) -> Result<(), PlanError> {
    let Some(required) = required else {
        return Ok(());
    };
    if required.get_ref().is_empty() {
        let none = "required is empty, expected at least one metric, such as \"elapsed\"";
        return Err(place.error(required.span(), none.into()));
    }
    for name in required.get_ref() {
        for subject in subjects {
            let is_command = subject.workload.spec.command().is_some();
            if let Err(what) = metrics::check(name.get_ref(), is_command) {
                let what = format!("required: {what}");
                return Err(place.error(name.span(), what));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::faulty::{damaged, reported_with_its_line};
    use super::*;
    use crate::plan::CommandPlan;

    const WHOLE: &str = r#"
min_runs = 4
max_runs = 9
precision = "2.5%"
required = ["elapsed", "system"]
budget = "90s"
seed = 7
cache = ["cold", "warm 2", "as found"]
settle = "500ms"
keep_going = true
setup = "true"

[[target]]
name = "ext4"
spec = "scratch:ext4"
state = "fresh"
[target.sweep]
size = ["64M", "128M"]

[[target]]
spec = "/"
state = "as found"

[[workload]]
name = "PostMark"
spec = "postmark"
for = "5s"
[workload.sweep]
files = [100, 1000]
transactions = [50]

[[workload]]
name = "copy"
spec = "cmd: dd if=from of=to bs={bs}"
setup = "head -c {size} /dev/zero > from"
[workload.sweep]
bs = ["4k", "64k"]
size = [1000]
"#;

    fn parse(text: &str) -> Result<BenchPlan, PlanError> {
        BenchPlan::parse(Path::new("p.toml"), text, Path::new("/base"))
    }

    #[test]
    fn a_whole_plan_reads() {
        let plan = parse(WHOLE).unwrap();
        let rule = &plan.rule;
        assert_eq!(
            (rule.min_runs, rule.max_runs, rule.half_width_relative),
            (4, 9, 0.025)
        );
        assert_eq!(rule.required, ["elapsed", "system"]);
        assert_eq!((rule.budget.as_secs(), plan.settle.as_millis()), (90, 500));
        assert_eq!((plan.seed, plan.keep_going), (7, true));
        assert_eq!(plan.subjects.len(), (2 + 1) * (2 + 2) * 3);
        let names: Vec<&str> = plan.subjects.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(
            names[0],
            "ext4 / PostMark / target.size=64M / files=100 / transactions=50 / cold"
        );
        let mut distinct = names.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), names.len());
        let first = &plan.subjects[0];
        assert_eq!(first.target.spec.to_string(), "scratch:ext4,size=64M");
        assert!(first.workload.spec.to_string().contains("files=100"));
        assert_eq!(
            (first.state.clone(), first.run_for),
            (State::Fresh, Some(Duration::from_secs(5)))
        );
        assert_eq!(first.workload.setup.as_deref(), Some("true"), "the plan's");
        let last = plan.subjects.last().unwrap();
        assert_eq!(
            last.workload.spec.to_string(),
            "cmd:dd if=from of=to bs=64k"
        );
        assert_eq!(
            last.workload.setup.as_deref(),
            Some("head -c 1000 /dev/zero > from")
        );
        assert_eq!(
            (last.state.clone(), last.caches),
            (State::AsFound, Caches::AsFound)
        );
        assert_eq!(last.parameters["bs"], "64k");
        let small = parse("[[target]]\nspec='/'\n[[workload]]\nspec='postmark'").unwrap();
        assert_eq!(small.rule, Rule::default());
        assert_eq!(small.subjects[0].name, "/ / postmark");
        assert_eq!(small.subjects[0].caches, Caches::Cold);
    }

    /// What replaces a part of the whole plan, the line of the error, and what it says.
    const BAD: &[(&str, &str, usize, &str)] = &[
        ("min_runs = 4", "min_runs = 0", 2, "expected 1 to 1000"),
        ("min_runs = 4", "min_runs = 40", 3, "at least min_runs = 40"),
        ("min_runs = 4", "runs = 4", 3, "not both"),
        ("min_runs = 4", "min_rums = 4", 2, "min_rums"),
        ("\"2.5%\"", "\"250%\"", 4, "a share such as \"5%\""),
        ("\"2.5%\"", "5", 4, "under 1"),
        ("\"system\"", "\"sistem\"", 5, "unknown metric `sistem`"),
        (
            "\"system\"",
            "\"operations_per_s\"",
            5,
            "not measured for commands",
        ),
        ("[\"elapsed\", \"system\"]", "[]", 5, "at least one metric"),
        ("\"90s\"", "\"90 moons\"", 6, "moons"),
        (
            "\"warm 2\"",
            "\"tepid\"",
            8,
            "cache `tepid`, expected `cold`, `warm N`",
        ),
        ("\"warm 2\"", "\"warm -1\"", 8, "`warm -1`"),
        ("\"warm 2\"", "\"cold\"", 8, "stands twice"),
        ("\"warm 2\"", "3", 8, "expected texts"),
        ("\"500ms\"", "\"soon\"", 9, "soon"),
        ("\"scratch:ext4\"", "\"scratch:ext4,on=tape\"", 15, "tape"),
        ("\"fresh\"", "\"aged\"", 16, "`image:FILE`"),
        ("\"fresh\"", "\"image:\"", 16, "state `image:`"),
        (
            "state = \"as found\"",
            "state = \"image:x\"",
            22,
            "state `image:/base/x` of a directory",
        ),
        ("\"fresh\"", "\"stale\"", 16, "expected `fresh`, `as found`"),
        ("\"fresh\"", "\"as found\"", 16, "made for each run"),
        (
            "state = \"as found\"",
            "state = \"fresh\"",
            22,
            "a scratch: target",
        ),
        ("[\"64M\", \"128M\"]", "[\"64M\", \"64M\"]", 18, "64M twice"),
        ("[\"64M\", \"128M\"]", "[\"64M\", \"much\"]", 18, "much"),
        ("[\"64M\", \"128M\"]", "\"64M\"", 18, "expected its values"),
        ("[\"64M\", \"128M\"]", "[]", 18, "no value"),
        ("[\"64M\", \"128M\"]", "[[1]]", 18, "numbers or texts"),
        (
            "spec = \"/\"",
            "spec = \"/\"\nsweep = { size = [1] }",
            22,
            "a directory has no parameter",
        ),
        ("files = [", "fires = [", 29, "fires"),
        ("for = \"5s\"", "for = \"ever\"", 27, "for"),
        ("bs = [", "blocks = [", 37, "{blocks} in it or in setup"),
        (
            "name = \"copy\"",
            "name = \"PostMark\"",
            32,
            "two workloads",
        ),
        (
            "name = \"copy\"",
            "name = \"copy\"\nfor = \"5s\"",
            34,
            "a command ends by itself",
        ),
        (
            "name = \"PostMark\"",
            "name = \"PostMark\"\nin_place = true",
            24,
            "expected a command",
        ),
    ];

    #[test]
    fn what_is_wrong_is_reported_with_its_line() {
        reported_with_its_line(WHOLE, BAD, parse);
        assert!(parse("").unwrap_err().to_string().contains("[[target]]"));
        let many = "[[target]]\nspec='/{a}'\nsweep={a=[1,2,3,4,5,6,7,8,9,10,11]}\n\
                    [[workload]]\nspec='cmd: true {a}{b}'\n\
                    sweep={a=[1,2,3,4,5,6,7,8,9,10],b=[1,2,3,4,5,6,7,8,9,10]}\n";
        let error = parse(many).unwrap_err().to_string();
        assert!(error.contains("1100 configurations"), "{error}");
        let values: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
        let values = values.join(",");
        let many = format!(
            "[[target]]\nspec='/'\n[target.sweep]\na=[{values}]\nb=[{values}]\nc=[{values}]\n"
        );
        let error = parse(&many).unwrap_err().to_string();
        assert!(error.contains(":5: 1000000 combinations"), "{error}");
        let many = "[[target]]\nspec='/'\n".repeat(20_000);
        let error = parse(&many).unwrap_err().to_string();
        assert!(error.contains("20000 targets"), "{error}");
    }

    #[test]
    fn states_are_restored_from_files_beside_the_plan() {
        let text = "[[target]]\nname='t'\nspec='scratch:ext4'\nstate='image:{age}.img'\naged='by hand'\n\
                    sweep={age=['young','/old']}\n[[target]]\nspec='slow:read=2:scratch:xfs'\n\
                    state='snapshot:a/b.fss'\n[[workload]]\nspec='postmark'";
        let plan = parse(text).unwrap();
        let states: Vec<String> = plan.subjects.iter().map(|s| s.state.to_string()).collect();
        assert_eq!(
            states,
            [
                "image:/base/young.img",
                "image:/old.img",
                "snapshot:/base/a/b.fss"
            ]
        );
        assert_eq!(plan.subjects[0].name, "t / postmark / target.age=young");
        assert_eq!(plan.subjects[1].aged.as_deref(), Some("by hand"));
        assert_eq!(plan.subjects[2].aged, None);
        // Where the file lies says nothing, what is restored does.
        let other = |from: &str, to: &str| parse(&text.replace(from, to)).unwrap().digest();
        assert_eq!(other("snapshot:a/b", "snapshot:c"), plan.digest());
        assert_ne!(other("snapshot:a", "image:a"), plan.digest());
        assert_ne!(other("state='snapshot:a/b.fss'", ""), plan.digest());
    }

    #[test]
    fn a_damaged_plan_is_answered() {
        damaged(WHOLE, parse);
    }

    #[test]
    fn the_digest_tells_what_is_measured_apart() {
        let digest = |from: &str, to: &str| parse(&WHOLE.replacen(from, to, 1)).unwrap().digest();
        let whole = digest("", "");
        assert_eq!(whole.len(), 32);
        for (from, to) in [
            ("max_runs = 9", "max_runs = 90"),
            ("\"2.5%\"", "0.01"),
            ("\"90s\"", "\"9h\""),
            ("keep_going = true", "keep_going = false"),
            ("[\"elapsed\", \"system\"]", "[\"user\"]"),
        ] {
            assert_eq!(digest(from, to), whole, "{to}: only when to stop");
        }
        for (from, to) in [
            ("seed = 7", "seed = 8"),
            ("\"warm 2\"", "\"warm 3\""),
            ("\"128M\"", "\"256M\""),
            ("of=to", "of=too"),
            ("for = \"5s\"", "for = \"6s\""),
            ("\"500ms\"", "\"501ms\""),
            ("keep_going = true", "keep_going = true\none_cpu = true"),
        ] {
            assert_ne!(digest(from, to), whole, "{to}");
        }
    }

    #[test]
    fn a_command_is_a_plan_too() {
        let command = CommandPlan {
            command: "echo \"it's\" > x\ny".into(),
            target: None,
            here: "/tmp".into(),
            setup: Some("true".into()),
            cache: None,
        };
        let plan = parse(&command.text()).unwrap();
        let [only] = plan.subjects.as_slice() else {
            panic!("{plan:?}")
        };
        assert_eq!(only.workload.spec.command(), Some("echo \"it's\" > x\ny"));
        assert!(only.in_place && only.caches == Caches::AsFound);
        let elsewhere = CommandPlan {
            target: Some("scratch:ext4".into()),
            ..command
        };
        let plan = parse(&elsewhere.text()).unwrap();
        assert!(!plan.subjects[0].in_place && plan.subjects[0].caches == Caches::Cold);
    }
}
