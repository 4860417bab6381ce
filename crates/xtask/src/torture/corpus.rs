//! Whole files of every format, made by fsage itself.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// A whole file, and what is done with a damaged one in its place.
#[derive(Debug, Clone)]
pub struct Whole {
    pub path: PathBuf,
    /// Arguments of fsage; `{}` is the damaged file, `{dir}` an empty directory.
    pub uses: &'static [&'static str],
    /// Whether words of it mean something.
    pub text: bool,
}

/// All of them.
#[derive(Debug)]
pub struct Corpus {
    pub files: Vec<Whole>,
    /// A trace and a profile that are whole.
    pub trace: PathBuf,
    pub profile: PathBuf,
    /// Whether there is an image of a file system, which takes mkfs.
    pub image: bool,
}

const TRACE: &[&str] = &[
    "show {} --json",
    "show {}",
    "show {} --ops",
    "predict {} --on WHOLE.fsp --json",
    "replay {} {dir} --json",
    "anonymize {} --key-file KEY -o {dir}/out.fst --json",
    "export {} --to strace -o {dir}/out.txt --json",
    "export {} --to csv -o {dir}/out.csv --json",
    "export {} --to hbench -o {dir}/out.hb --json",
];
const SNAPSHOT: &[&str] = &[
    "show {} --json",
    "show {}",
    "predict WHOLE.fst --snapshot {} --on WHOLE.fsp --json",
    "replay WHOLE.fst {dir} --snapshot {} --json",
    "anonymize {} --key-file KEY -o {dir}/out.fss --json",
    "export {} --to hbench -o {dir}/out.hbs --json",
];
const PROFILE: &[&str] = &[
    "show {} --json",
    "show {}",
    "predict WHOLE.fst --on {} --json",
    "predict WHOLE.fst --on {}",
    "predict WHOLE.fst --on {} --what-if 'CR*2' --json",
    "export {} --to hbench -o {dir}/out.txt --json",
];
const RESULT: &[&str] = &[
    "show {} --json",
    "show {}",
    "check {} --json",
    "compare {} --json",
];
const STRACE: &[&str] = &["import {} --from strace -o {dir}/out.fst --json"];
const HBENCH_TRACE: &[&str] = &["import {} --from hbench -o {dir}/out.fst --json"];
const HBENCH_TREE: &[&str] = &["import {} --from hbench -o {dir}/out.fss --json"];
const HBENCH_PROFILE: &[&str] = &["import {} --from hbench -o {dir}/out.fsp --json"];
const WML: &[&str] = &["run wml:{} --ops 200 --to-trace {dir}/out.fst"];
const IMAGE: &[&str] = &[
    "show {} --json",
    "show {}",
    "layout {} --json",
    "run postmark:files=5,transactions=5 aged:{} --json",
    "age keep {} -o {dir}/out.fsi --json",
];
const AGING: &[&str] = &[
    "show {} --json",
    "show {}",
    "age apply {} {dir} --json",
    "age apply {} {dir} --fast --json",
    "replay {} {dir} --json",
    "model fit {} -o {dir}/out.fsm --json",
    "age short-lived {} -o {dir}/out.toml --json",
];
const SHORT_LIVED: &[&str] =
    &["age generate --from-snapshots NIGHTS --short-lived {} -o {dir}/out.fst --json"];
const MODEL: &[&str] = &[
    "run model:{},think=false {dir} --ops 300 --json",
    "run model:{},think=false mem:fast --ops 300 --json",
    "run model:{} --ops 300 --to-trace {dir}/out.fst",
    "run model:{},think=false mem:fast --scale users=3,data=2,time=0.5 --ops 300 --json",
    "predict --workload model:{} --on WHOLE.fsp --json",
];
const FILERUNNER: &[&str] = &[
    "run filerunner:{} {dir} --ops 300 --json",
    "run filerunner:{} mem:fast --ops 300 --json",
    "run filerunner:{} --ops 300 --to-trace {dir}/out.fst",
    "predict --workload filerunner:{} --on WHOLE.fsp --json",
];
const DISK: &[&str] = &["disk show {} --json", "disk show {}"];

impl Corpus {
    pub fn make(program: &Path, below: &Path) -> Result<Self> {
        let dir = below.join("corpus");
        std::fs::create_dir(&dir).context("make a directory")?;
        let fsage = |line: &str| fsage(program, &dir, line);
        std::fs::write(dir.join("KEY"), "0123456789abcdef0123456789abcdef")
            .context("write a key")?;
        fsage("run postmark:files=20,transactions=100 --to-trace WHOLE.fst")?;
        std::fs::copy(
            crate::root().join("crates/cli/tests/data/ext4.fsp"),
            dir.join("WHOLE.fsp"),
        )
        .context("copy a profile")?;
        let tree = dir.join("tree/sub");
        std::fs::create_dir_all(&tree).context("make a directory")?;
        for (name, text) in [("a", "x"), ("b.txt", "some text"), ("c", "")] {
            std::fs::write(tree.join(name), text).context("write a file")?;
        }
        std::os::unix::fs::symlink("a", tree.join("link")).context("make a link")?;
        fsage("snapshot tree -o WHOLE.fss")?;
        fsage("export WHOLE.fst --to strace -o WHOLE.strace")?;
        fsage("export WHOLE.fst --to hbench -o WHOLE.hbt")?;
        fsage("export WHOLE.fss --to hbench -o WHOLE.hbs")?;
        fsage("export WHOLE.fsp --to hbench -o WHOLE.hbp")?;
        fsage("bench --runs 3 --cache 'as found' -o bench -- true")?;
        fsage("run postmark:files=5,transactions=10 tree -o WHOLE.run")?;
        let toml = Command::new(program)
            .args(["disk", "show", "hdd-7200", "--toml"])
            .output()
            .context("run fsage disk show")?;
        std::fs::write(dir.join("disk.toml"), toml.stdout).context("write a disk's model")?;
        std::fs::copy(
            crate::root().join("crates/workload/tests/data/webserver-1.4.f"),
            dir.join("WHOLE.f"),
        )
        .context("copy a workload")?;
        models(program, &dir)?;
        nights(program, &dir)?;
        let image = image(program, &dir)?;
        let whole = |name: &str, uses, text| Whole {
            path: dir.join(name),
            uses,
            text,
        };
        Ok(Self {
            image,
            files: vec![
                whole("AGING.fst", AGING, false),
                whole("short.toml", SHORT_LIVED, true),
                whole("WHOLE.fsm", MODEL, true),
                whole("WHOLE.cfg", FILERUNNER, true),
                whole("WHOLE.fst", TRACE, false),
                whole("WHOLE.fss", SNAPSHOT, false),
                whole("WHOLE.fsp", PROFILE, true),
                whole("bench/runs.jsonl", RESULT, true),
                whole("bench/experiment.json", RESULT, true),
                whole("WHOLE.run", RESULT, true),
                whole("WHOLE.strace", STRACE, true),
                whole("WHOLE.hbt", HBENCH_TRACE, false),
                whole("WHOLE.hbs", HBENCH_TREE, true),
                whole("WHOLE.hbp", HBENCH_PROFILE, true),
                whole("WHOLE.f", WML, true),
                whole("disk.toml", DISK, true),
            ]
            .into_iter()
            .chain(image.then(|| whole("WHOLE.fsi", IMAGE, false)))
            .collect(),
            trace: dir.join("WHOLE.fst"),
            profile: dir.join("WHOLE.fsp"),
        })
    }

    /// The directory of all.
    pub fn dir(&self) -> &Path {
        self.trace.parent().unwrap_or(Path::new(""))
    }

    /// The words of a use, with whole files for their names.
    pub fn words(&self, line: &str, damaged: &Path, dir: &Path) -> Vec<String> {
        let text = |path: &Path| path.display().to_string();
        split(line)
            .into_iter()
            .map(|word| {
                word.replace("{dir}", &text(dir))
                    .replace("{}", &text(damaged))
                    .replace("WHOLE.fst", &text(&self.trace))
                    .replace("WHOLE.fsp", &text(&self.profile))
                    .replace("NIGHTS", &text(&self.dir().join("nights")))
                    .replace("KEY", &text(&self.trace.with_file_name("KEY")))
            })
            .collect()
    }
}

/// Words of a line, with single quotes around some.
pub fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (number, part) in line.split('\'').enumerate() {
        if number % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

/// Models of the trace, and what ages a file system.
fn models(program: &Path, dir: &Path) -> Result<()> {
    let lines = [
        "model fit WHOLE.fst -o WHOLE.fsm",
        "model fit WHOLE.fst -o WHOLE.cfg",
        "age generate --profile mail --size 16M --days 2 -o AGING.fst",
        "age short-lived WHOLE.fst -o short.toml",
    ];
    lines.iter().try_for_each(|line| fsage(program, dir, line))
}

/// Two snapshots of one tree, a night apart.
fn nights(program: &Path, dir: &Path) -> Result<()> {
    std::fs::create_dir(dir.join("nights")).context("make a directory")?;
    fsage(program, dir, "snapshot tree -o nights/1.fss")?;
    std::fs::write(dir.join("tree/new"), "some more").context("write a file")?;
    fsage(program, dir, "snapshot tree -o nights/2.fss")
}

/// Keeps a small file system that holds little as an image; `false` where none can be made here.
fn image(program: &Path, dir: &Path) -> Result<bool> {
    let raw = dir.join("raw.img");
    std::fs::File::create(&raw)
        .and_then(|file| file.set_len(8 << 20))
        .context("make an image")?;
    let made = Command::new("mkfs.ext2")
        .args(["-q", "-F", "-m", "0", "-N", "64", "-d"])
        .arg(dir.join("tree"))
        .arg(&raw)
        .stdin(Stdio::null())
        .status();
    if !made.is_ok_and(|status| status.success()) {
        println!("not run: images of file systems, as mkfs.ext2 makes none here");
        return Ok(false);
    }
    fsage(program, dir, "age keep raw.img -o WHOLE.fsi")?;
    Ok(true)
}

fn fsage(program: &Path, dir: &Path, line: &str) -> Result<()> {
    let said = Command::new(program)
        .args(split(line))
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("run fsage {line}"))?;
    // 3: done, but something is missing.
    if !matches!(said.status.code(), Some(0 | 3)) {
        let text = String::from_utf8_lossy(&said.stderr);
        bail!("make the corpus by fsage {line}: {text}");
    }
    Ok(())
}
