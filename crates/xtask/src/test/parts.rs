//! What is run in a process of its own: a test binary, or a module of one that has a module for each file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Tests of one binary that run in a process of their own.
#[derive(Debug)]
pub struct Part {
    pub binary: PathBuf,
    /// The directory of its package.
    pub package: PathBuf,
    /// `CRATE/FILE`.
    pub name: String,
    /// As the binary names them.
    pub tests: Vec<String>,
}

/// Cargo's arguments once `--test FILE` is said as cargo understands it.
#[derive(Debug, Default, PartialEq)]
pub struct Chosen {
    pub build: Vec<String>,
    /// Modules by the binary of which nothing else is run.
    only: BTreeMap<String, BTreeSet<String>>,
}

impl Chosen {
    /// `build` are arguments of `cargo test` in the repository at `root`.
    pub fn of(build: &[String], root: &Path) -> Result<Self> {
        let packages = values(build, &["--package", "-p"]);
        let mut chosen = Self::default();
        let mut arguments = build.iter();
        while let Some(argument) = arguments.next() {
            let file = match argument.strip_prefix("--test=") {
                Some(file) => Some(file.to_owned()),
                None if argument == "--test" => arguments.next().cloned(),
                None => None,
            };
            let Some(file) = file else {
                chosen.build.push(argument.clone());
                continue;
            };
            let (binaries, by_itself) = with_file(root, &file, &packages)?;
            for binary in &binaries {
                let only = chosen.only.entry(binary.clone()).or_default();
                if only.is_empty() {
                    chosen.build.push(format!("--test={binary}"));
                }
                only.insert(file.clone());
            }
            if by_itself || binaries.is_empty() {
                chosen.build.push(format!("--test={file}"));
            }
        }
        Ok(chosen)
    }
}

/// What an option is given in each of its forms.
fn values<'a>(arguments: &'a [String], names: &[&str]) -> Vec<&'a str> {
    let mut found = Vec::new();
    for (at, argument) in arguments.iter().enumerate() {
        for name in names {
            match argument.strip_prefix(name) {
                Some("") => found.extend(arguments.get(at + 1).map(String::as_str)),
                Some(value) => found.extend(value.strip_prefix('=')),
                None => {}
            }
        }
    }
    found
}

/// The binaries of these packages, or of all, of which `file` is a module; and whether it is one by itself, as cargo
/// knows it.
fn with_file(root: &Path, file: &str, packages: &[&str]) -> Result<(Vec<String>, bool)> {
    let (mut found, mut by_itself) = (Vec::new(), false);
    for entry in root.join("crates").read_dir()? {
        let directory = entry?.path();
        let manifest = std::fs::read_to_string(directory.join("Cargo.toml"))?;
        let is_named = |package: &&str| manifest.contains(&format!("\nname = \"{package}\"\n"));
        if !packages.is_empty() && !packages.iter().any(is_named) {
            continue;
        }
        if modules(&directory).contains(file) {
            found.push(format!("{}_tests", last(&directory)));
        } else {
            by_itself |= directory.join(format!("tests/{file}.rs")).is_file();
        }
    }
    found.sort();
    Ok((found, by_itself))
}

/// The modules of a crate's `tests/main.rs`.
fn modules(directory: &Path) -> BTreeSet<String> {
    let main = std::fs::read_to_string(directory.join("tests/main.rs")).unwrap_or_default();
    let module = |line: &str| Some(line.strip_prefix("mod ")?.strip_suffix(';')?.to_owned());
    main.lines().filter_map(module).collect()
}

/// The parts of what cargo tells of in a message; none if it is no test binary.
pub fn of(message: &Value, chosen: &Chosen, rest: &[String]) -> Result<Vec<Part>> {
    let (Some(binary), Some(manifest), true) = (
        message["executable"].as_str(),
        message["manifest_path"].as_str(),
        message["profile"]["test"] == true,
    ) else {
        return Ok(Vec::new());
    };
    let package = Path::new(manifest).parent().unwrap_or(Path::new("/"));
    let target = &message["target"];
    let name = target["name"].as_str().unwrap_or_default();
    let has_modules = target["src_path"]
        .as_str()
        .is_some_and(|path| path.ends_with("/tests/main.rs"));
    let mut parts = BTreeMap::<_, Vec<_>>::new();
    for test in listed(Path::new(binary), package, rest)? {
        let file = match test.split_once("::") {
            Some((module, _)) if has_modules => module.to_owned(),
            _ => name.replace('-', "_"),
        };
        parts.entry(file).or_default().push(test);
    }
    if let Some(only) = chosen.only.get(name) {
        parts.retain(|file, _| only.contains(file));
    }
    let part = |(file, tests)| Part {
        binary: binary.into(),
        package: package.to_owned(),
        name: format!("{}/{file}", last(package)),
        tests,
    };
    Ok(parts.into_iter().map(part).collect())
}

/// The tests of a binary that its arguments leave.
fn listed(binary: &Path, package: &Path, rest: &[String]) -> Result<Vec<String>> {
    let mut command = Command::new(binary);
    let ended = command
        .current_dir(package)
        .arg("--list")
        .args(rest)
        .output()
        .with_context(|| format!("run {}", binary.display()))?;
    let said = String::from_utf8_lossy(&ended.stdout);
    if !ended.status.success() {
        let error = String::from_utf8_lossy(&ended.stderr);
        bail!("list the tests of {}: {said}{error}", binary.display());
    }
    let tests = said.lines().filter_map(|line| line.strip_suffix(": test"));
    Ok(tests.map(str::to_owned).collect())
}

/// Of the arguments of tests those that do not choose them: `--list` has heeded the others.
pub fn options(rest: &[String]) -> Vec<&String> {
    const WITH_A_VALUE: [&str; 7] = [
        "--test-threads",
        "--skip",
        "--logfile",
        "--color",
        "--format",
        "--shuffle-seed",
        "-Z",
    ];
    let mut is_value = false;
    let is_option = |argument: &&String| {
        let option = is_value || argument.starts_with('-');
        is_value = !is_value && WITH_A_VALUE.contains(&argument.as_str());
        option && *argument != "--exact"
    };
    rest.iter().filter(is_option).collect()
}

fn last(path: &Path) -> String {
    path.file_name().unwrap_or_default().display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    /// A file that nothing names would be compiled by nobody, and none of its tests would run.
    #[test]
    fn every_file_of_tests_is_one_that_runs() {
        let mut count = 0;
        for entry in crate::root().join("crates").read_dir().unwrap() {
            let directory = entry.unwrap().path();
            let modules = modules(&directory);
            if modules.is_empty() {
                continue;
            }
            let manifest = std::fs::read_to_string(directory.join("Cargo.toml")).unwrap();
            for entry in directory.join("tests").read_dir().unwrap() {
                let path = entry.unwrap().path();
                let (true, Some(name)) = (
                    path.extension().is_some_and(|e| e == "rs"),
                    path.file_stem(),
                ) else {
                    continue;
                };
                let name = name.to_str().unwrap();
                let by_itself = manifest.contains(&format!("[[test]]\nname = \"{name}\"\n"));
                assert!(
                    name == "main" || modules.contains(name) != by_itself,
                    "{}: is `mod {name};` in main.rs beside it?",
                    path.display()
                );
                count += 1;
            }
            let own = format!(
                "[[test]]\nname = \"{}_tests\"\npath = \"tests/main.rs\"\n",
                last(&directory)
            );
            assert!(manifest.contains(&own), "{}", directory.display());
        }
        assert!(count > 100, "{count}");
    }

    #[test]
    fn a_file_is_chosen_by_its_name() {
        let dir = tempfile::tempdir().unwrap();
        for (name, package, modules) in [
            ("cli", "fsage", "mod engine;\nmod run;\n"),
            ("exp", "fsage-exp", "mod engine;\n"),
        ] {
            let at = dir.path().join("crates").join(name);
            std::fs::create_dir_all(at.join("tests")).unwrap();
            std::fs::write(at.join("tests/main.rs"), modules).unwrap();
            std::fs::write(
                at.join("Cargo.toml"),
                format!("[package]\nname = \"{package}\"\n"),
            )
            .unwrap();
        }
        let chosen = |line| {
            let chosen = Chosen::of(&words(line), dir.path()).unwrap();
            (chosen.build.join(" "), format!("{:?}", chosen.only))
        };
        let both = "{\"cli_tests\": {\"engine\", \"run\"}, \"exp_tests\": {\"engine\"}}";
        let build = "--workspace --test=cli_tests --test=exp_tests --lib";
        assert_eq!(
            chosen("--workspace --test engine --test=run --lib"),
            (build.to_owned(), both.to_owned())
        );
        for line in ["-p fsage --test run", "--package=fsage --test=run"] {
            let (build, only) = chosen(line);
            assert!(
                build.ends_with(" --test=cli_tests") || build.ends_with("fsage --test=cli_tests")
            );
            assert_eq!(only, "{\"cli_tests\": {\"run\"}}");
        }
        std::fs::write(dir.path().join("crates/exp/tests/run.rs"), "").unwrap();
        let (build, only) = chosen("--test run");
        assert_eq!(build, "--test=cli_tests --test=run");
        assert_eq!(only, "{\"cli_tests\": {\"run\"}}");
        let (build, only) = chosen("-p fsage-exp --test run");
        assert_eq!((&*build, &*only), ("-p fsage-exp --test=run", "{}"));
    }

    /// A binary with a module for each file is run as often as it has files with tests that are wanted.
    #[test]
    fn modules_are_parts() {
        let dir = tempfile::tempdir().unwrap();
        let binary = dir.path().join("tests-0123");
        let script = "#!/bin/sh\ntest \"$1 $2\" = '--list there' || exit 1\n\
                      printf 'run::a: test\\ntrace::b::c: test\\nrun::d: test\\nx: benchmark\\n'\n";
        std::fs::write(&binary, script).unwrap();
        std::fs::set_permissions(&binary, PermissionsExt::from_mode(0o755)).unwrap();
        let message = |path: &str| {
            serde_json::json!({
                "executable": binary,
                "manifest_path": dir.path().join("Cargo.toml"),
                "profile": {"test": true},
                "target": {"name": "some-tests", "src_path": path},
            })
        };
        let parts = |path, chosen: &Chosen| -> Vec<_> {
            let parts = of(&message(path), chosen, &words("there")).unwrap();
            let of_one = |part: Part| (part.name.split('/').nth(1).unwrap().to_owned(), part.tests);
            parts.into_iter().map(of_one).collect()
        };
        let all = Chosen::default();
        let run = ("run".to_owned(), words("run::a run::d"));
        let trace = ("trace".to_owned(), words("trace::b::c"));
        assert_eq!(parts("/w/tests/main.rs", &all), [run.clone(), trace]);
        let whole = ("some_tests".to_owned(), words("run::a trace::b::c run::d"));
        assert_eq!(parts("/w/src/lib.rs", &all), [whole]);
        let only = [("some-tests".to_owned(), ["run".to_owned()].into())].into();
        let one = Chosen { only, ..all };
        assert_eq!(parts("/w/tests/main.rs", &one), [run]);
        assert!(of(&message("/w/tests/main.rs"), &one, &words("elsewhere")).is_err());
    }

    #[test]
    fn options_are_told_from_names() {
        let rest = words("a::b --exact --skip c --nocapture -Z x d --test-threads=2");
        let kept = ["--skip", "c", "--nocapture", "-Z", "x", "--test-threads=2"];
        assert_eq!(options(&rest), kept.each_ref());
        assert!(options(&words("hidden")).is_empty());
    }
}
