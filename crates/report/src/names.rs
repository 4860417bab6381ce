//! Names of a column that is too narrow for them: what tells them apart stays, what they share is cut.

use fsage_core::text::cut_after;
use unicode_width::UnicodeWidthStr;

use crate::table::elided;

/// What separates the parts of a name: target, workload, parameters.
pub(crate) const PARTS: &str = " / ";

/// The shortest beginning that is worth a mark in its place, in bytes.
const CUT_LEAST: usize = 3;

/// Columns below which a part says nothing.
const LEAST_OF_A_PART: usize = 4;

/// The names of one column in at most `wide` columns each, in their order.
pub(crate) fn fitted(names: &[&str], wide: usize) -> Vec<String> {
    if names.iter().all(|name| name.width() <= wide) {
        return names.iter().map(|&name| name.to_owned()).collect();
    }
    let split: Vec<Vec<&str>> = names.iter().map(|name| parts(name, wide)).collect();
    let most = split.iter().map(Vec::len).max().unwrap_or(0);
    let shared: Vec<Shared<'_>> = (0..most)
        .map(|place| Shared::of(split.iter().filter_map(|parts| parts.get(place).copied())))
        .collect();
    // Where the beginning that all have in common is longest it is cut first.
    let mut order: Vec<usize> = (0..most).collect();
    order.sort_by_key(|&place| std::cmp::Reverse(shared.get(place).map(|s| s.beginning)));
    let fit = |(name, parts): (&&str, &Vec<&str>)| {
        if name.width() <= wide {
            return (*name).to_owned();
        }
        let mut parts: Vec<String> = parts.iter().map(|&part| part.to_owned()).collect();
        for &place in &order {
            if joined_width(&parts) <= wide {
                break;
            }
            let shared = shared.get(place).map_or(0, |s| s.beginning);
            if let Some(part) = parts.get_mut(place).filter(|_| shared > CUT_LEAST) {
                part.replace_range(..shared, "…");
            }
        }
        if joined_width(&parts) <= wide {
            return parts.join(PARTS);
        }
        let room = room_of(&parts, wide);
        let cut = parts.iter().zip(&room).zip(&shared);
        let cut: Vec<String> = cut
            .map(|((part, &room), shared)| shared.fitted(part, room))
            .collect();
        cut.join(PARTS)
    };
    names.iter().zip(&split).map(fit).collect()
}

fn joined_width(parts: &[String]) -> usize {
    let between = PARTS.len() * parts.len().saturating_sub(1);
    parts.iter().map(|part| part.width()).sum::<usize>() + between
}

/// The parts of a name; it is one where there is no room for several.
fn parts(name: &str, wide: usize) -> Vec<&str> {
    let parts: Vec<&str> = name.split(PARTS).collect();
    let least = parts.len() * (LEAST_OF_A_PART + PARTS.len()) - PARTS.len();
    if least > wide { vec![name] } else { parts }
}

/// How much each part may have: short ones what they need, long ones the same.
fn room_of(parts: &[String], wide: usize) -> Vec<usize> {
    let mut by_width: Vec<(usize, usize)> =
        parts.iter().map(|part| part.width()).enumerate().collect();
    by_width.sort_by_key(|&(_, width)| width);
    let mut left = wide.saturating_sub(PARTS.len() * parts.len().saturating_sub(1));
    let mut room = vec![0; parts.len()];
    for (done, &(place, width)) in by_width.iter().enumerate() {
        let its = width.min(left / (parts.len() - done));
        left -= its;
        if let Some(room) = room.get_mut(place) {
            *room = its;
        }
    }
    room
}

/// What stands at one place of all names, sorted by its beginning and by its end: the one that a text has most in common
/// with lies beside it.
struct Shared<'a> {
    forwards: Vec<&'a str>,
    backwards: Vec<&'a str>,
    /// The bytes with which all begin, up to a word of which each has its own rest; 0 where there is one text alone.
    beginning: usize,
}

impl<'a> Shared<'a> {
    fn of(all: impl Iterator<Item = &'a str>) -> Self {
        let mut forwards: Vec<&str> = all.collect();
        forwards.sort_unstable();
        forwards.dedup();
        let mut backwards = forwards.clone();
        backwards.sort_by(|a, b| a.bytes().rev().cmp(b.bytes().rev()));
        let beginning = match (forwards.first(), forwards.last()) {
            (Some(first), Some(last)) if first != last => {
                let both = first.bytes().zip(last.bytes());
                word_at(first, both.take_while(|(a, b)| a == b).count())
            }
            _ => 0,
        };
        Self {
            forwards,
            backwards,
            beginning,
        }
    }

    /// The part in at most `room` columns, with what no other has.
    fn fitted(&self, part: &str, room: usize) -> String {
        let usual = elided(part, room);
        let Some((head, tail)) = usual.split_once('…').filter(|_| part.width() > room) else {
            return usual.into_owned();
        };
        let begins_like_another = common(&self.forwards, part, str::bytes);
        let ends_like_another = common(&self.backwards, part, |text| text.bytes().rev());
        if room < LEAST_OF_A_PART
            || head.len() > begins_like_another
            || tail.len() > ends_like_another
        {
            return usual.into_owned();
        }
        let word = word_at(part, begins_like_another);
        let start = if begins_like_another - word <= room / 2 {
            word
        } else {
            cut_after(part, begins_like_another)
        };
        let rest = part.get(start..).unwrap_or(part);
        format!("…{}", elided(rest, room.saturating_sub(1)))
    }
}

/// The most that a text has in common with one that lies beside it, read as `read` does.
fn common<'a, I: Iterator<Item = u8>>(
    sorted: &[&'a str],
    text: &'a str,
    read: impl Fn(&'a str) -> I,
) -> usize {
    let Ok(at) = sorted.binary_search_by(|other| read(other).cmp(read(text))) else {
        return 0;
    };
    let beside = [at.checked_sub(1), at.checked_add(1)];
    let beside = beside.into_iter().flatten().filter_map(|at| sorted.get(at));
    let alike = |other: &&'a str| {
        let both = read(text).zip(read(other));
        both.take_while(|(a, b)| a == b).count()
    };
    beside.map(alike).max().unwrap_or(0)
}

/// Where the word begins that holds the byte `at`.
fn word_at(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let before = text.get(..at).unwrap_or_default();
    before.trim_end_matches(char::is_alphanumeric).len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_stays() {
        let names = [
            "scratch:ext4,size=512M / files=200",
            "scratch:xfs,size=512M / files=200",
            "scratch:ext4,size=512M / cmd: for i in 1 2 3 4 5 6 7 8; do dd if=/dev/zero of=f$i; done",
            "scratch:xfs,size=512M / cmd: for i in 1 2 3 4 5 6 7 8; do dd if=/dev/zero of=f$i; done",
        ];
        for wide in 24..40 {
            let cut = fitted(&names, wide);
            for (name, cut) in names.iter().zip(&cut) {
                let kind = if name.contains("ext4") { "ext4" } else { "xfs" };
                let work = if name.contains("cmd") {
                    "cmd"
                } else {
                    "files="
                };
                assert!(
                    cut.width() <= wide && cut.contains(kind) && cut.contains(work),
                    "{wide}: {cut}"
                );
            }
        }
        let short = ["…ext4,size=512M / files=200", "…xfs,size=512M / files=200"];
        assert_eq!(fitted(&names, 30)[..2], short);
        assert_eq!(fitted(&names[..2], 40), names[..2]);
        assert_eq!(fitted(&["one-long-name"], 7), ["one…ame"]);
    }

    #[test]
    fn every_width_is_kept() {
        let names = [
            "字字字字字字字字a",
            "字字字字字字字字b",
            "",
            " / ",
            "aaaaaaaaaaaaaaaaaaaaa / b / c / d",
        ];
        for wide in 1..40 {
            for cut in fitted(&names, wide) {
                assert!(cut.width() <= wide, "{wide}: {cut}");
            }
        }
    }

    #[test]
    fn a_long_column_is_fast() {
        let names: Vec<String> = (0..5000)
            .map(|n| format!("{}{n}", "a".repeat(60)))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut cut = fitted(&names, 20);
        cut.sort();
        cut.dedup();
        assert_eq!(cut.len(), names.len());
    }
}
