//! Files of every format, damaged in one way or several, given to every verb that reads them.

use std::path::Path;

use anyhow::{Context, Result};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::corpus::Whole;
use super::{World, case, left};

/// Numbers and words at which readers stumble.
const WORDS: [&str; 14] = [
    "-1",
    "0",
    "1e308",
    "-1e-300",
    "18446744073709551615",
    "9223372036854775807",
    "99999999999999999999999",
    "null",
    "[]",
    "{}",
    "\"\"",
    "\"\u{1b}[2J\"",
    "\\u0000",
    "../../../../etc",
];

/// Bytes that mean much in lengths and encodings.
const BYTES: [u8; 6] = [0, 1, 0x7f, 0x80, 0xfe, 0xff];

pub fn case(world: &mut World, random: &mut Pcg64Mcg) -> Result<()> {
    let Some(whole) = pick(&world.corpus.files, random).cloned() else {
        return Ok(());
    };
    let Some(line) = pick(whole.uses, random) else {
        return Ok(());
    };
    let place = world.place()?;
    let damaged = place
        .path()
        .join(whole.path.file_name().unwrap_or_default());
    let mut bytes = std::fs::read(&whole.path).context("read a whole file")?;
    damage(&mut bytes, &whole, random);
    std::fs::write(&damaged, &bytes).context("write a damaged file")?;
    let name = whole
        .path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    used(
        world,
        place.path(),
        &damaged,
        line,
        &format!("damaged files: {name}"),
    )
}

/// Runs fsage on `input` as `line` says, and holds it to what must hold.
pub fn used(
    world: &mut World,
    place: &Path,
    input: &Path,
    line: &str,
    counted: &str,
) -> Result<()> {
    let target = place.join("target");
    if !target.exists() {
        std::fs::create_dir(&target).context("make a directory")?;
    }
    let canary = place.join("canary");
    std::fs::write(&canary, "untouched").context("write a file")?;
    let words = world.corpus.words(line, input, &target);
    let mut command = case::fsage(world, place, &[]);
    command.args(&words);
    let ran = case::run(world, &mut command)?;
    let json = words.iter().any(|word| word == "--json");
    if let Some(wrong) = ran.wrong(None, json) {
        world.fail(&format!("fsage {}: {wrong}", words.join(" ")), Some(input));
    }
    if std::fs::read(&canary).ok().as_deref() != Some(b"untouched") {
        world.fail(
            &format!("fsage {} left its target", words.join(" ")),
            Some(input),
        );
    }
    for stray in left::names(place) {
        let known = ["target", "canary"].contains(&stray.as_str())
            || input
                .file_name()
                .is_some_and(|name| name.to_string_lossy() == stray);
        if !known {
            world.fail(
                &format!("fsage {} left {stray}", words.join(" ")),
                Some(input),
            );
        }
    }
    world.count(counted);
    Ok(())
}

fn damage(bytes: &mut Vec<u8>, whole: &Whole, random: &mut Pcg64Mcg) {
    for _ in 0..random.random_range(1..=3) {
        let length = bytes.len();
        if length < 2 {
            return;
        }
        let at = random.random_range(0..length);
        let span = random.random_range(1..=64.min(length - at).max(1));
        match random.random_range(0..if whole.text { 10 } else { 8 }) {
            0 | 1 => flip(bytes, at, random),
            2 => set(bytes, at, random),
            3 => bytes.truncate(at),
            4 => drop(bytes.drain(at..(at + span).min(length))),
            5 => {
                let part = bytes[at..(at + span).min(length)].to_vec();
                bytes.splice(at..at, part);
            }
            6 => bytes[at..(at + span).min(length)].fill(0),
            // The last bytes say where everything is.
            7 => {
                let near = length - 1 - random.random_range(0..length.min(600));
                set(bytes, near, random);
            }
            _ => word(bytes, at, random),
        }
    }
}

fn flip(bytes: &mut [u8], at: usize, random: &mut Pcg64Mcg) {
    bytes[at] ^= 1 << random.random_range(0..8);
}

fn set(bytes: &mut [u8], at: usize, random: &mut Pcg64Mcg) {
    bytes[at] = pick(&BYTES, random).copied().unwrap_or_default();
}

/// Puts one of [`WORDS`] in the place of a word near `at`.
fn word(bytes: &mut Vec<u8>, at: usize, random: &mut Pcg64Mcg) {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b"._-+".contains(&b);
    let Some(start) = (at..bytes.len()).find(|&i| is_word(bytes[i])) else {
        return;
    };
    let end = (start..bytes.len())
        .find(|&i| !is_word(bytes[i]))
        .unwrap_or(bytes.len());
    let word = pick(&WORDS, random).copied().unwrap_or_default();
    bytes.splice(start..end, word.bytes());
}

/// One of them.
pub fn pick<'a, T>(all: &'a [T], random: &mut Pcg64Mcg) -> Option<&'a T> {
    if all.is_empty() {
        return None;
    }
    all.get(random.random_range(0..all.len()))
}
