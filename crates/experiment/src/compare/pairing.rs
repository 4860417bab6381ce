//! Which configurations belong together.

use fsage_core::Seed;
use fsage_format::result::comparison::NotCompared;
use fsage_format::result::experiment::{Configuration, Experiment};
use fsage_workload::WorkloadSpec;

use super::{CompareError, Question, Side, Stored, first_of};

type Pairs<'a> = Vec<(Side<'a>, Side<'a>)>;

/// The pairs that are to be compared; what is left out goes to `not_compared`.
pub(super) fn pairs<'a>(
    a: Stored<'a>,
    b: Option<Stored<'a>>,
    question: &Question,
    not_compared: &mut Vec<NotCompared>,
) -> Result<Pairs<'a>, CompareError> {
    let candidates = match (b, question.configurations.as_slice()) {
        (None, []) => among(a)?,
        (None, names) => with_first(a, names)?,
        (Some(b), []) => across(a, b, not_compared),
        (Some(b), names) => named_across(a, b, names)?,
    };
    let mut kept = Vec::new();
    for (one, other) in candidates {
        match refusal(one, other, question) {
            None => kept.push((one, other)),
            Some(why) => not_compared.push(NotCompared {
                what: format!("{} and {}", one.name(), other.name()),
                why,
            }),
        }
    }
    if kept.is_empty() {
        let both = b.map_or_else(String::new, |b| format!(" and {}", b.path));
        let why = not_compared
            .iter()
            .map(|n| format!("{}: {}", n.what, n.why));
        return Err(CompareError::Nothing {
            what: format!("{}{both}", a.path),
            why: why.collect(),
        });
    }
    Ok(kept)
}

fn side(index: u32, experiment: &Experiment, at: usize) -> Option<Side<'_>> {
    Some(Side {
        index,
        experiment,
        configuration: experiment.configurations.get(at)?,
    })
}

fn all(index: u32, experiment: &Experiment) -> Vec<Side<'_>> {
    (0..experiment.configurations.len())
        .filter_map(|at| side(index, experiment, at))
        .collect()
}

fn there(experiment: &Experiment) -> String {
    let names: Vec<String> = experiment
        .configurations
        .iter()
        .map(|c| format!("'{}'", c.name))
        .collect();
    if names.is_empty() {
        return "no configuration".to_owned();
    }
    first_of(&names, 6, ", ")
}

fn find<'a>(index: u32, stored: Stored<'a>, name: &str) -> Result<Side<'a>, CompareError> {
    all(index, stored.experiment)
        .into_iter()
        .find(|s| s.name() == name)
        .ok_or_else(|| CompareError::NoConfiguration {
            name: name.to_owned(),
            path: stored.path.to_owned(),
            there: there(stored.experiment),
        })
}

/// Every configuration with the first of the same workload: the plan's first is what it compares with.
fn among(stored: Stored<'_>) -> Result<Pairs<'_>, CompareError> {
    let sides = all(0, stored.experiment);
    if sides.len() < 2 {
        return Err(CompareError::Alone {
            path: stored.path.to_owned(),
            there: there(stored.experiment),
        });
    }
    let mut pairs = Vec::new();
    let mut first: Vec<Side<'_>> = Vec::new();
    for side in sides {
        let alike = first
            .iter()
            .find(|f| same_workload(f.configuration, side.configuration));
        match alike {
            Some(base) => pairs.push((*base, side)),
            None => first.push(side),
        }
    }
    if pairs.is_empty()
        && let Some((base, others)) = first.split_first()
    {
        // No two have one workload: each pair says so.
        pairs.extend(others.iter().map(|other| (*base, *other)));
    }
    Ok(pairs)
}

fn with_first<'a>(stored: Stored<'a>, names: &[String]) -> Result<Pairs<'a>, CompareError> {
    let mut sides = Vec::new();
    for (at, name) in names.iter().enumerate() {
        if names.iter().take(at).any(|n| n == name) {
            return Err(CompareError::Itself(name.clone()));
        }
        sides.push(find(0, stored, name)?);
    }
    match sides.split_first() {
        Some((base, others)) if !others.is_empty() => {
            Ok(others.iter().map(|other| (*base, *other)).collect())
        }
        _ => Err(CompareError::Itself(names.join(", "))),
    }
}

/// One name stands for both experiments' configuration of that name, two for one of each.
fn named_across<'a>(
    a: Stored<'a>,
    b: Stored<'a>,
    names: &[String],
) -> Result<Pairs<'a>, CompareError> {
    match names {
        [one, other] => Ok(vec![(find(0, a, one)?, find(1, b, other)?)]),
        names => names
            .iter()
            .map(|name| Ok((find(0, a, name)?, find(1, b, name)?)))
            .collect(),
    }
}

/// Configurations of one name belong together; of the rest those that are the only ones with their
/// workload, state of the caches and parameters.
fn across<'a>(a: Stored<'a>, b: Stored<'a>, not_compared: &mut Vec<NotCompared>) -> Pairs<'a> {
    let (mut of_a, mut of_b) = (all(0, a.experiment), all(1, b.experiment));
    let mut pairs = Vec::new();
    let by_name = |x: &Side<'_>, y: &Side<'_>| x.name() == y.name();
    let by_work = |x: &Side<'_>, y: &Side<'_>| {
        let (x, y) = (x.configuration, y.configuration);
        same_workload(x, y) && x.cache == y.cache && x.parameters == y.parameters
    };
    take_matching(&mut of_a, &mut of_b, &mut pairs, by_name);
    take_matching(&mut of_a, &mut of_b, &mut pairs, by_work);
    if let ([one], [other]) = (of_a.as_slice(), of_b.as_slice())
        && pairs.is_empty()
    {
        return vec![(*one, *other)];
    }
    for (left, path) in [(of_a, b.path), (of_b, a.path)] {
        not_compared.extend(left.into_iter().map(|side| NotCompared {
            what: side.name().to_owned(),
            why: format!("{path} has no configuration of that name, nor just one of its workload; name two with --config"),
        }));
    }
    pairs
}

/// Moves what matches one to one.
fn take_matching<'a>(
    of_a: &mut Vec<Side<'a>>,
    of_b: &mut Vec<Side<'a>>,
    pairs: &mut Pairs<'a>,
    matches: impl Fn(&Side<'_>, &Side<'_>) -> bool,
) {
    let mut left = Vec::new();
    let candidates = std::mem::take(of_a);
    for side in &candidates {
        let found: Vec<usize> = (0..of_b.len())
            .filter(|&i| matches(side, &of_b[i]))
            .collect();
        let rivals = candidates
            .iter()
            .filter(|other| matches(other, side))
            .count();
        match found.as_slice() {
            [only] if rivals == 1 => pairs.push((*side, of_b.remove(*only))),
            _ => left.push(*side),
        }
    }
    *of_a = left;
}

/// Why two configurations are not compared.
fn refusal(a: Side<'_>, b: Side<'_>, question: &Question) -> Option<String> {
    for side in [a, b] {
        if side.configuration.runs.is_empty() {
            return Some(format!("'{}' has no run that ended well", side.name()));
        }
    }
    let (x, y) = (a.configuration, b.configuration);
    if question.any_workload || same_workload(x, y) {
        return None;
    }
    let what = if x.setup == y.setup || x.workload_spec != y.workload_spec {
        format!(
            "other workloads, '{}' and '{}'",
            x.workload_spec, y.workload_spec
        )
    } else {
        format!(
            "the workload is prepared in other ways, '{}' and '{}'",
            x.setup.as_deref().unwrap_or(""),
            y.setup.as_deref().unwrap_or("")
        )
    };
    Some(format!("{what}; --any-workload compares them all the same"))
}

/// Whether two configurations do the same work; where its random sequence starts does not matter.
pub(super) fn same_workload(a: &Configuration, b: &Configuration) -> bool {
    a.setup == b.setup && without_seed(&a.workload_spec) == without_seed(&b.workload_spec)
}

fn without_seed(spec: &str) -> String {
    match spec.parse::<WorkloadSpec>() {
        Ok(parsed) if parsed.seed().is_some() => parsed.with_seed(Seed(0)).to_string(),
        _ => spec.to_owned(),
    }
}
