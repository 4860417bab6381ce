//! Traces of operations that a random caller would try, possible or not: cycles of links and renames, files
//! that were never opened, sizes without sense. They come in as strace's text and go through every verb.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::files::{pick, used};
use super::{World, case};

const NAMES: [&str; 14] = [
    "/w", "/w/a", "/w/a/b", "/w/a/b/c", "/w/b", "/w/b/a", "/w/c", "/w/a/..", "/w/./b", "..", "a",
    "b/c", "/", "",
];
const SIZES: [u64; 8] = [
    0,
    1,
    4095,
    4096,
    65536,
    1 << 20,
    (1 << 31) - 1,
    (1 << 63) - 1,
];
const FLAGS: [&str; 6] = [
    "O_RDONLY",
    "O_RDWR|O_CREAT",
    "O_WRONLY|O_CREAT|O_TRUNC",
    "O_WRONLY|O_APPEND",
    "O_RDONLY|O_DIRECTORY",
    "O_RDWR|O_CREAT|O_EXCL",
];

/// What is done with an imported trace.
const USES: [&str; 6] = [
    "show {} --json",
    "predict {} --on WHOLE.fsp --json",
    "replay {} {dir} --json",
    "replay {} {dir} --order strict --verify --json",
    "anonymize {} --key-file KEY -o {dir}/out.fst --json",
    "export {} --to strace -o {dir}/out.txt --json",
];

pub fn case(world: &mut World, random: &mut Pcg64Mcg) -> Result<()> {
    let place = world.place()?;
    let text = place.path().join("random.strace");
    std::fs::write(&text, calls(random)).context("write a trace as text")?;
    let trace = place.path().join("random.fst");
    let mut import = case::fsage(world, place.path(), &[]);
    import.args(["import", "--from", "strace", "--json", "-o"]);
    let ran = case::run(world, import.arg(&trace).arg(&text))?;
    if let Some(wrong) = ran.wrong(None, true) {
        world.fail(&format!("import of a random trace: {wrong}"), Some(&text));
    }
    world.count("random traces: imported");
    if !trace.exists() {
        return Ok(());
    }
    let Some(line) = pick(&USES, random) else {
        return Ok(());
    };
    let alone = world.place()?;
    let input = alone.path().join("random.fst");
    std::fs::rename(&trace, &input).context("move a trace")?;
    let verb = line.split(' ').next().unwrap_or_default();
    used(
        world,
        alone.path(),
        &input,
        line,
        &format!("random traces: {verb}"),
    )
}

/// Lines of `strace -f -ttt -T`.
fn calls(random: &mut Pcg64Mcg) -> String {
    let mut text = String::new();
    let mut now_us: u64 = 1_700_000_000_000_000;
    for _ in 0..random.random_range(1..120) {
        now_us += random.random_range(0..50_000);
        let call = call(random);
        let result = match random.random_range(0..6) {
            0 => "-1 ENOENT (No such file or directory)".to_owned(),
            1 => "-1 EINVAL (Invalid argument)".to_owned(),
            2 => size(random).to_string(),
            _ => random.random_range(0..12).to_string(),
        };
        let took = random.random_range(0..5000);
        _ = writeln!(
            text,
            "{} {}.{:06} {call} = {result} <0.{took:06}>",
            100 + random.random_range(0..3),
            now_us / 1_000_000,
            now_us % 1_000_000
        );
    }
    text
}

fn call(random: &mut Pcg64Mcg) -> String {
    let name = |random: &mut Pcg64Mcg| pick(&NAMES, random).copied().unwrap_or_default();
    let (one, two) = (name(random), name(random));
    let file = random.random_range(0..12);
    let (a, b) = (size(random), size(random));
    match random.random_range(0..22) {
        0..=3 => {
            let flags = pick(&FLAGS, random).copied().unwrap_or_default();
            format!("openat(AT_FDCWD, \"{one}\", {flags}, 0644)")
        }
        4 => format!("close({file})"),
        5 => format!("read({file}, \"\"..., {a})"),
        6 => format!("write({file}, \"\"..., {a})"),
        7 => format!("pread64({file}, \"\"..., {a}, {b})"),
        8 => format!("pwrite64({file}, \"\"..., {a}, {b})"),
        9 => format!("rename(\"{one}\", \"{two}\")"),
        10 => format!("link(\"{one}\", \"{two}\")"),
        11 => format!("symlink(\"{one}\", \"{two}\")"),
        12 => format!("unlink(\"{one}\")"),
        13 => format!("rmdir(\"{one}\")"),
        14 => format!("mkdir(\"{one}\", 0755)"),
        15 => format!("chdir(\"{one}\")"),
        16 => format!("ftruncate({file}, {a})"),
        17 => format!("fsync({file})"),
        18 => format!("lseek({file}, {a}, SEEK_SET)"),
        19 => format!("dup2({file}, {})", random.random_range(0..12)),
        20 => format!("fallocate({file}, 0, {a}, {b})"),
        _ => format!(
            "newfstatat(AT_FDCWD, \"{one}\", {{st_mode=S_IFREG|0644, st_size={a}, ...}}, 0)"
        ),
    }
}

fn size(random: &mut Pcg64Mcg) -> u64 {
    pick(&SIZES, random).copied().unwrap_or_default()
}
