//! What a plan would do outside of its targets: shell commands, and paths that are not beside the plan. Plans
//! come from strangers, so both have to be allowed by whoever runs one.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use fsage_core::TargetSpec;
use fsage_workload::{InputPath, WorkloadSpec};

use super::named::NamedWorkload;
use super::subject::State;
use super::{BenchPlan, PlanFile};

/// What is allowed of a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Commands run with the privileges of whoever runs the plan.
    pub commands: bool,
    /// Directories and files that are not below the plan's own directory.
    pub paths: bool,
}

/// What a plan wants and is not allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    commands: Vec<String>,
    paths: Vec<PathBuf>,
}

impl Wanted {
    /// What a plan of an experiment wants that the user has in `base`. What a kept experiment says of where its
    /// plan was is a stranger's word.
    pub fn of_bench(plan: &BenchPlan, base: &Path) -> Self {
        let mut wanted = Self::default();
        for subject in &plan.subjects {
            wanted.workload(&subject.workload, base);
            wanted.target(&*subject.target.spec, base);
            match &subject.state {
                State::Fresh | State::AsFound => {}
                State::Snapshot(file) | State::Image(file) => wanted.path(file, base),
            }
        }
        wanted
    }

    /// What a plan of a validation wants that was read from a file in `base`.
    pub fn of_validation(plan: &PlanFile, base: &Path) -> Self {
        let mut wanted = Self::default();
        for workload in plan.workloads.iter().chain(&plan.sealed) {
            wanted.workload(workload, base);
        }
        for target in &plan.targets {
            wanted.target(&*target.spec, base);
        }
        wanted
    }

    /// What of it is not allowed; an error if there is something.
    pub fn unless(mut self, allowed: Allowed) -> Result<(), Self> {
        if allowed.commands {
            self.commands.clear();
        }
        if allowed.paths {
            self.paths.clear();
        }
        if self == Self::default() {
            Ok(())
        } else {
            Err(self)
        }
    }

    fn workload(&mut self, workload: &NamedWorkload, base: &Path) {
        if let WorkloadSpec::Command(command) = &workload.spec {
            self.command(command);
        }
        if let Some(setup) = &workload.setup {
            self.command(setup);
        }
        for need in workload.spec.needs() {
            match need {
                InputPath::Tree(path) | InputPath::Text(path) => self.path(&path, base),
                // The plan names the target as such.
                InputPath::Target { .. } => {}
            }
        }
    }

    fn target(&mut self, target: &dyn TargetSpec, base: &Path) {
        for path in target.uses() {
            self.path(&path, base);
        }
    }

    fn command(&mut self, command: &str) {
        let command = command.trim().to_owned();
        if !self.commands.contains(&command) {
            self.commands.push(command);
        }
    }

    /// Relative paths that nothing beside the plan has are used from where fsage was started.
    fn path(&mut self, path: &Path, base: &Path) {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let real = followed(&absolute);
        let leaves = real
            .as_ref()
            .is_none_or(|real| !real.starts_with(base) || has_parent(real));
        let shown = real.unwrap_or(absolute);
        if leaves && !self.paths.contains(&shown) {
            self.paths.push(shown);
        }
    }
}

/// A path without the links of what is there of it; what is not may come later. `None` if a link leads to nothing
/// that is there.
fn followed(absolute: &Path) -> Option<PathBuf> {
    let there = absolute
        .ancestors()
        .find(|dir| dir.symlink_metadata().is_ok())?;
    let rest = absolute.strip_prefix(there).ok()?;
    let there = there.canonicalize().ok()?;
    // Joined with nothing, a file's name would end in a slash.
    Some(if rest.as_os_str().is_empty() {
        there
    } else {
        there.join(rest)
    })
}

fn has_parent(path: &Path) -> bool {
    path.components().any(|part| part == Component::ParentDir)
}

/// More than this of one kind is counted.
const MOST_SHOWN: usize = 10;

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, what: &[String]| {
            for line in what.iter().take(MOST_SHOWN) {
                write!(f, "\n  {line}")?;
            }
            match what.len().saturating_sub(MOST_SHOWN) {
                0 => Ok(()),
                more => write!(f, "\n  and {more} more"),
            }
        };
        // What a stranger wrote must not reach a terminal as it is.
        let shown = |text: &str| {
            text.escape_debug()
                .to_string()
                .replace("\\'", "'")
                .replace("\\\"", "\"")
        };
        if !self.commands.is_empty() {
            let commands: Vec<String> = self.commands.iter().map(|c| shown(c)).collect();
            f.write_str(
                "the plan runs commands with your privileges; if it may, add --allow-commands:",
            )?;
            list(f, &commands)?;
        }
        if !self.paths.is_empty() {
            if !self.commands.is_empty() {
                f.write_str("\n")?;
            }
            let paths: Vec<String> = self
                .paths
                .iter()
                .map(|p| shown(&p.to_string_lossy()))
                .collect();
            f.write_str(
                "the plan uses what is not below its own directory; if it may, add --allow-paths:",
            )?;
            list(f, &paths)?;
        }
        Ok(())
    }
}

impl std::error::Error for Wanted {}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(text: &str) -> Wanted {
        let plan = BenchPlan::parse(Path::new("p.toml"), text, Path::new("/base")).unwrap();
        Wanted::of_bench(&plan, &plan.base)
    }

    #[test]
    fn a_path_that_is_there_has_no_slash_at_its_end() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let followed = followed(file.path()).unwrap().into_os_string();
        assert_eq!(
            followed,
            file.path().canonicalize().unwrap().into_os_string()
        );
    }

    const HARMLESS: &str =
        "[[target]]\nspec='scratch:ext4,on=disk:hdd-7200'\n[[workload]]\nspec='postmark'\n";

    #[test]
    fn a_plan_of_generated_workloads_on_scratch_file_systems_needs_nothing() {
        assert_eq!(wanted(HARMLESS).unless(Allowed::default()), Ok(()));
    }

    #[test]
    fn each_command_and_each_path_is_listed_and_can_be_allowed() {
        let commands = Allowed {
            commands: true,
            paths: false,
        };
        for (from, to, said) in [
            ("'postmark'", "'cmd: rm -rf x'", "rm -rf x"),
            ("'postmark'", "'postmark'\nsetup='touch y'", "touch y"),
            ("'scratch:ext4,on=disk:hdd-7200'", "'/'", "--allow-paths"),
            ("on=disk:hdd-7200", "on=file:/var/tmp", "/var/tmp"),
            (
                "on=disk:hdd-7200'",
                "size=64M'\nstate='image:/dev/x'",
                "/dev/x",
            ),
            (
                "on=disk:hdd-7200'",
                "size=64M'\nstate='image:../x'",
                "/base/../x",
            ),
            (
                "'scratch:ext4,on=disk:hdd-7200'",
                "'slow:read=2:/'",
                "--allow-paths",
            ),
        ] {
            let wanted = wanted(&HARMLESS.replace(from, to));
            let error = wanted.clone().unless(Allowed::default()).unwrap_err();
            assert!(error.to_string().contains(said), "{to}: {error}");
            let is_command = error.to_string().contains("--allow-commands");
            assert_eq!(wanted.clone().unless(commands).is_ok(), is_command, "{to}");
            let all = Allowed {
                commands: true,
                paths: true,
            };
            assert_eq!(wanted.unless(all), Ok(()));
        }
    }

    #[test]
    fn what_lies_beside_the_plan_may_be_used_and_nothing_reaches_a_terminal() {
        let beside = HARMLESS.replace("on=disk:hdd-7200'", "size=64M'\nstate='image:aged.img'");
        assert_eq!(wanted(&beside).unless(Allowed::default()), Ok(()));
        let bell = HARMLESS.replace("'postmark'", "\"cmd: echo \\u0007 'x'\"");
        let error = wanted(&bell)
            .unless(Allowed::default())
            .unwrap_err()
            .to_string();
        assert!(error.contains("\\u{7} 'x'"), "{error}");
    }
}
