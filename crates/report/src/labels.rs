//! Short names for what is called by its specification: of `postmark:files=200,transactions=500,…` and
//! `postmark:files=300,transactions=500,…` a table needs `postmark:files=200` and `postmark:files=300`.

use std::collections::BTreeMap;

use fsage_format::result::comparison::Comparison;
use fsage_format::result::compliance::Compliance;
use fsage_format::result::experiment::Experiment;
use fsage_format::result::validation::Validation;

use crate::names::PARTS;

/// A specification that is no longer stays as it is.
const LONG: usize = 24;

/// Columns in which two names of that length have room beside what is said of them.
const ROOM_FOR_TWO: u16 = 110;

/// What stands behind these is no list of parameters: a line of shell, another target.
const OTHERS: [&str; 3] = ["cmd", "slow", "nfs"];

/// Names by which nothing longer is needed to tell what is named apart.
#[derive(Debug, Default)]
pub(crate) struct Labels {
    /// The longest first, so that none is taken for a part of another.
    all: Vec<(String, String)>,
}

/// A specification in its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Spec<'a> {
    text: &'a str,
    kind: &'a str,
    /// What stands without a key, and first: the kind of a file system.
    bare: Vec<&'a str>,
    named: Vec<(&'a str, &'a str)>,
}

impl<'a> Spec<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if kind.is_empty() || !kind.chars().all(word) || OTHERS.contains(&kind) {
            return None;
        }
        let mut spec = Self {
            text,
            kind,
            bare: Vec::new(),
            named: Vec::new(),
        };
        let items = rest.split(',').filter(|item| !item.is_empty());
        for item in items.filter(|item| *item != "…") {
            let (key, value) = item.split_once('=').unwrap_or((item, ""));
            let is_key = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            if key.is_empty() || !key.chars().all(is_key) || item.contains(' ') {
                return None;
            }
            if item.len() == key.len() {
                spec.bare.push(item);
            } else {
                spec.named.push((key, value));
            }
        }
        Some(spec)
    }

    fn value(&self, key: &str) -> Option<&'a str> {
        let found = self.named.iter().find(|(its, _)| *its == key);
        found.map(|(_, value)| *value)
    }

    /// It with those of its parameters alone.
    fn label(&self, keys: &[&str]) -> String {
        let named = self.named.iter().filter(|(key, _)| keys.contains(key));
        let named = named.map(|(key, value)| format!("{key}={value}"));
        let bare = self.bare.iter().map(|item| (*item).to_owned());
        let items: Vec<String> = bare.chain(named).collect();
        if items.is_empty() {
            self.kind.to_owned()
        } else {
            format!("{}:{}", self.kind, items.join(","))
        }
    }
}

impl Labels {
    /// Labels for the names of configurations, workloads and targets.
    pub(crate) fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self::over(LONG, names)
    }

    /// The same where two names stand beside each other in a narrow table: cut, they could look alike.
    pub(crate) fn side_by_side<'a>(width: u16, names: impl IntoIterator<Item = &'a str>) -> Self {
        let long = if width < ROOM_FOR_TWO { 0 } else { LONG };
        Self::over(long, names)
    }

    /// Labels for specifications of more than so many characters.
    fn over<'a>(long: usize, names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut kinds: BTreeMap<&str, Vec<Spec<'_>>> = BTreeMap::new();
        for part in names.into_iter().flat_map(|name| name.split(PARTS)) {
            let Some(spec) = Spec::of(part) else { continue };
            let of_kind = kinds.entry(spec.kind).or_default();
            if !of_kind.contains(&spec) {
                of_kind.push(spec);
            }
        }
        let mut all: Vec<(String, String)> = Vec::new();
        for specs in kinds.values_mut() {
            // Of one workload its name, which was cut, and all of it may be told side by side.
            let cut: Vec<&str> = specs
                .iter()
                .filter_map(|s| s.text.strip_suffix('…'))
                .collect();
            specs.retain(|s| s.text.ends_with('…') || !cut.iter().any(|c| s.text.starts_with(c)));
            let labels = labels(specs);
            let pairs = specs.iter().zip(labels);
            let shorter = pairs.filter(|(spec, label)| {
                spec.text.chars().count() > long && label.len() < spec.text.len()
            });
            all.extend(shorter.map(|(spec, label)| (spec.text.to_owned(), label)));
        }
        all.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        Self { all }
    }

    /// Labels for the specifications that stand in sentences.
    pub(crate) fn in_sentences<'a>(sentences: impl IntoIterator<Item = &'a str>) -> Self {
        let words = sentences.into_iter().flat_map(str::split_whitespace);
        Self::of(words.map(|word| word.trim_matches(|c: char| ":;'\"()".contains(c))))
    }

    /// The text with labels in place of names.
    pub(crate) fn apply(&self, text: &str) -> String {
        let all = self.all.iter();
        all.fold(text.to_owned(), |text, (name, label)| {
            text.replace(name.as_str(), label)
        })
    }

    /// A result with labels in its names and sentences; as it is where nothing is too long.
    pub(crate) fn put<T: Named>(&self, result: &T) -> T {
        let mut result = result.clone();
        if !self.all.is_empty() {
            result.each(&mut |text| *text = self.apply(text));
        }
        result
    }
}

/// What tells of configurations, workloads and targets by their names.
pub(crate) trait Named: Clone {
    /// Hands out every name and sentence that may hold one. What repeats a run (specifications, plans, paths) is none.
    fn each(&mut self, text: &mut dyn FnMut(&mut String));
}

impl Named for Experiment {
    fn each(&mut self, text: &mut dyn FnMut(&mut String)) {
        for it in &mut self.configurations {
            [
                &mut it.name,
                &mut it.target,
                &mut it.workload,
                &mut it.stop_text,
            ]
            .into_iter()
            .for_each(&mut *text);
        }
        for it in &mut self.failed {
            [&mut it.configuration, &mut it.error]
                .into_iter()
                .for_each(&mut *text);
        }
        self.warnings.iter_mut().for_each(text);
    }
}

impl Named for Comparison {
    fn each(&mut self, text: &mut dyn FnMut(&mut String)) {
        for pair in &mut self.pairs {
            for it in [&mut pair.a, &mut pair.b] {
                [&mut it.configuration, &mut it.target, &mut it.workload]
                    .into_iter()
                    .for_each(&mut *text);
            }
            for it in &mut pair.differences {
                let sides = [&mut it.a, &mut it.b].into_iter().flatten();
                sides.for_each(&mut *text);
            }
            for it in &mut pair.metrics {
                text(&mut it.text);
                it.warnings.iter_mut().for_each(&mut *text);
            }
            pair.warnings.iter_mut().for_each(&mut *text);
        }
        for it in &mut self.not_compared {
            [&mut it.what, &mut it.why].into_iter().for_each(&mut *text);
        }
        self.warnings.iter_mut().for_each(text);
    }
}

impl Named for Validation {
    fn each(&mut self, text: &mut dyn FnMut(&mut String)) {
        text(&mut self.trace_on);
        self.workloads.iter_mut().for_each(|it| text(&mut it.name));
        for it in &mut self.targets {
            [&mut it.name, &mut it.trace_on]
                .into_iter()
                .for_each(&mut *text);
        }
        for it in &mut self.pairs {
            [&mut it.workload, &mut it.target, &mut it.trace_on]
                .into_iter()
                .for_each(&mut *text);
            it.warnings.iter_mut().for_each(&mut *text);
        }
        for it in &mut self.not_predicted {
            [&mut it.workload, &mut it.target, &mut it.reason]
                .into_iter()
                .for_each(&mut *text);
        }
        for it in &mut self.failed {
            [&mut it.target, &mut it.error]
                .into_iter()
                .for_each(&mut *text);
            it.workload.iter_mut().for_each(&mut *text);
        }
        let said = self.disturbed.iter_mut().chain(&mut self.notes);
        said.for_each(text);
    }
}

impl Named for Compliance {
    fn each(&mut self, text: &mut dyn FnMut(&mut String)) {
        text(&mut self.paragraph);
        for it in &mut self.guidelines {
            let said = it.has.iter_mut().chain(&mut it.missing);
            said.chain(&mut it.advice).for_each(&mut *text);
        }
    }
}

/// Of one kind: with as many of the parameters in which they differ as tell all of them apart.
fn labels(specs: &[Spec<'_>]) -> Vec<String> {
    let mut keys: Vec<&str> = Vec::new();
    for (key, _) in specs.iter().flat_map(|spec| &spec.named) {
        let mut values = specs.iter().map(|spec| spec.value(key));
        let first = values.next().flatten();
        if !keys.contains(key) && values.any(|value| value != first) {
            keys.push(key);
        }
    }
    for most in 0..=keys.len() {
        let with = keys.get(..most).unwrap_or(&keys);
        let labels: Vec<String> = specs.iter().map(|spec| spec.label(with)).collect();
        let mut sorted = labels.clone();
        sorted.sort();
        sorted.dedup();
        if sorted.len() == labels.len() {
            return labels;
        }
    }
    specs.iter().map(|spec| spec.text.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_what_tells_them_apart() {
        let names = [
            "mem:fast / postmark:files=200,transactions=500,…",
            "mem:fast / postmark:files=300,transactions=500,…",
            "mem:disk / postmark:files=300,transactions=500,…",
            "scratch:ext4,size=1G,on=disk:hdd-7200 / cmd:tar -x, a=b and more of the line",
        ];
        let labels = Labels::of(names);
        let all: Vec<String> = names.iter().map(|name| labels.apply(name)).collect();
        assert_eq!(
            all,
            [
                "mem:fast / postmark:files=200",
                "mem:fast / postmark:files=300",
                "mem:disk / postmark:files=300",
                "scratch:ext4 / cmd:tar -x, a=b and more of the line",
            ]
        );
        // Beside one of the same kind without parameters, and by the second where the first is alike.
        let labels = Labels::of([
            "postmark",
            "postmark:files=900,transactions=300,…",
            "postmark:files=900,transactions=400,…",
        ]);
        assert_eq!(
            labels.apply("x: postmark:files=900,transactions=300,…: y"),
            "x: postmark:files=900,transactions=300: y"
        );
        // What cannot be told apart keeps its name, and so does what is short.
        let short = "postmark:files=5";
        assert_eq!(Labels::of([short]).apply(short), short);
        let alike = [
            "scratch:ext4,size=1G,mount=a b",
            "scratch:ext4,size=1G,mount=c",
        ];
        assert_eq!(Labels::of(alike).apply(alike[0]), alike[0]);
    }

    #[test]
    fn two_in_a_narrow_table_keep_what_tells_them_apart() {
        let names = ["scratch:ext4,size=256M / a", "scratch:xfs,size=256M / a"];
        let at = |width| {
            let labels = Labels::side_by_side(width, names);
            names.map(|name| labels.apply(name))
        };
        assert_eq!(at(80), ["scratch:ext4 / a", "scratch:xfs / a"]);
        assert_eq!(at(160), names);
    }

    #[test]
    fn sentences_lose_the_same() {
        let said = [
            "postmark:files=200,transactions=500,size=1-9,subdirs=0 is all of one",
            "mem:fast / postmark:files=200,transactions=500,…: more than 0 runs",
            "'mem:fast / postmark:files=300,transactions=500,…' has none",
        ];
        let labels = Labels::in_sentences(said);
        assert_eq!(
            labels.apply(said[1]),
            "mem:fast / postmark:files=200: more than 0 runs"
        );
        assert_eq!(
            labels.apply(said[2]),
            "'mem:fast / postmark:files=300' has none"
        );
    }
}
