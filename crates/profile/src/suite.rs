//! Runs the procedures one after another and keeps what they find.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use fsage_core::metric::{FamilyId, MetricId};
use fsage_core::{ColdMethod, FileSystem};
use fsage_format::profile::{
    Absent, Disturbance, Environment, Measurement, MetricValue, ProcedureTime, SystemProfile,
};

use crate::budget::{NO_TIME, affordable, by_value, cheapest_first, least_ns, meets_freed};
use crate::error::{Halt, IMPOSSIBLE, ProfileError};
use crate::lab::Lab;
use crate::left::{Left, Rate, Then};
use crate::neighbours;
use crate::registry::{Procedure, procedures};
use crate::request::ProfileRequest;
use crate::stall;
use crate::watch::{self, Watch};

/// How far a measurement is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress<'a> {
    /// Steps that are done.
    pub done: usize,
    /// Steps there are: procedures, those that are done again among them once they are known, and the removal of what was
    /// made. As long as anything is done, one is not.
    pub total: usize,
    /// What is measured now.
    pub metric: &'a str,
    /// What is still to come.
    pub left: Left,
}

/// Measures a target. `environment` says what it is; what the measurement itself knows (seed,
/// length, scheduling, cold method) is filled in.
///
/// Everything happens in a directory `.fsage-profile-…` of the target's root, which is removed
/// whatever happens, unless the whole file system is (`own_device`). When `stop` becomes true the measurement ends after the batch in progress, and
/// what was not measured is absent as interrupted. What fails is absent with its reason, and the
/// rest goes on. Fails for names that are no metrics, and where the working directory cannot be
/// made or removed.
pub fn run(
    request: &ProfileRequest,
    fs: &dyn FileSystem,
    environment: Environment,
    progress: &mut dyn FnMut(Progress<'_>),
    stop: &AtomicBool,
) -> Result<SystemProfile, ProfileError> {
    let is_virtual = fs.virtual_time().is_some();
    let wanted = request.wanted(is_virtual)?;
    let start_ns = fs.clock().now_ns();
    // Over computed time two measurements with one seed do the same.
    let owner = match fs.virtual_time() {
        Some(_) => request.seed,
        None => u64::from(std::process::id()),
    };
    let work = format!(".fsage-profile-{owner}-{start_ns:x}");
    fs.mkdir(work.as_bytes(), 0o700)
        .map_err(|errno| ProfileError::WorkingDirectory {
            target: fs.name(),
            errno,
        })?;
    let place = (request.host_dir.clone(), request.device.clone());
    let mut lab = Lab::new(fs, place, work, request.seed, request.quick, stop);
    lab.own_device = request.own_device;
    let chosen = choose(&wanted);
    lab.hurried_ns = request.max_time_ns;
    let time_ns = request.time_ns(is_virtual, None);
    lab.last_ns = start_ns.saturating_add(time_ns / 4);
    // With much of others waiting to be written a single write may wait for all of it.
    let settled = lab.settle_in_time();
    if settled.is_err() || lab.costs.settle_ns.get() == 0 {
        lab.last_ns = 0;
    }
    let before = Watch::now(&lab);
    // Where it cannot be found out no call is taken to wait for the device.
    let stable_ns = stall::weigh_device(&mut lab).ok().flatten();
    let times = (start_ns, request.time_ns(is_virtual, stable_ns));
    let mut disturbances = measure(&mut lab, &chosen, request, times, progress);
    let whole = before.until(&Watch::now(&lab), "");
    if !whole.marks.is_empty() {
        disturbances.insert(0, whole);
    }
    let cleaning_ns = fs.clock().now_ns();
    clean_up(&mut lab)?;
    let elapsed_ns = fs.clock().now_ns().saturating_sub(start_ns);
    let cleaned_ns = (start_ns + elapsed_ns).saturating_sub(cleaning_ns);
    lab.took_ns.push(("clean-up", cleaned_ns, cleaned_ns));
    lab.costs.prepared(cleaned_ns);
    let mut profile = collect(&lab, &chosen, &wanted, request, environment, elapsed_ns);
    profile.disturbances = disturbances;
    Ok(profile)
}

/// Removes the working directory, unless the file system goes with its target.
fn clean_up(lab: &mut Lab<'_>) -> Result<(), ProfileError> {
    if lab.own_device {
        return Ok(());
    }
    let mut removed = lab.remove_works();
    if removed.is_err() {
        // A file that was being made when the disk filled may need what the first pass freed.
        removed = lab.remove_works();
    }
    removed.map(|_| ()).map_err(|errno| ProfileError::CleanUp {
        target: lab.fs.name(),
        path: lab.work.clone(),
        errno,
    })
}

/// The procedures that measure what is wanted and what that depends on.
fn choose(wanted: &BTreeSet<MetricId>) -> Vec<&'static Procedure> {
    let mut stems: BTreeSet<&str> = wanted.iter().map(|id| id.family().row().stem).collect();
    loop {
        let more: Vec<&str> = stems
            .iter()
            .filter_map(|s| fsage_core::metric::family(s))
            .flat_map(|f| f.row().depends.iter().copied())
            .filter(|d| !stems.contains(d))
            .collect();
        if more.is_empty() {
            break;
        }
        stems.extend(more);
    }
    // What every timed call is freed from.
    stems.insert("EMPTY");
    procedures()
        .into_iter()
        .filter(|p| p.stems.iter().any(|s| stems.contains(s)))
        .collect()
}

/// A part of the time is kept for procedures that were disturbed.
const REPEATS_SHARE: f64 = 0.12;
/// A procedure that takes longer than its share of the time by this factor is ended: rounds end when they
/// are done, and some find out late that a disk is slow.
const OVERRUN: f64 = 1.5;
/// The same of one that has no sample yet.
const OVERRUN_WITHOUT: f64 = 3.0;

fn measure(
    lab: &mut Lab<'_>,
    chosen: &[&'static Procedure],
    request: &ProfileRequest,
    (start_ns, time_ns): (u64, u64),
    progress: &mut dyn FnMut(Progress<'_>),
) -> Vec<Disturbance> {
    let share = |p: &Procedure| u64::from(if request.quick { p.share.0 } else { p.share.1 }.max(1));
    let all_ns = start_ns.saturating_add(time_ns);
    let kept_ns = (time_ns as f64 * REPEATS_SHARE) as u64;
    let within = affordable(chosen, time_ns - kept_ns, share);
    let (mut taken, left_out): (Vec<&'static Procedure>, Vec<&'static Procedure>) =
        chosen.iter().partition(|p| within.contains(p.name));
    for stem in left_out.iter().flat_map(|p| p.stems) {
        lab.absent(stem, NO_TIME);
    }
    // On a file system that little was done to before: creates on btrfs take three times as long after populations were
    // made and removed. In computed time only the choice of what there is time for goes by value.
    if lab.fs.virtual_time().is_none() || request.max_time_ns.is_some() {
        taken = by_value(taken);
    }
    // What is chosen may be little of what the usual time is for; each ends when it is precise.
    let all_shares: u64 = procedures().iter().map(|p| share(p)).sum();
    let usual_ns = time_ns / all_shares.max(1);
    let mut shares: u64 = taken.iter().map(|p| share(p)).sum();
    let mut rate = Rate::new(shares);
    let mut found = Vec::new();
    // What was disturbed is done again at the end.
    let mut again_ns = 0u64;
    for (done, procedure) in taken.iter().enumerate() {
        // Each that is looked at costs some milliseconds, and all of them together seconds on a busy machine.
        if lab.stopped() {
            break;
        }
        let begun_ns = lab.clock.now_ns();
        let end_ns = make_room(lab, all_ns);
        let now = lab.clock.now_ns();
        let left_ns = end_ns.saturating_sub(kept_ns).saturating_sub(now);
        let expected_ns = left_ns.min(usual_ns.saturating_mul(shares));
        let own = share(procedure);
        let own_ns = (u128::from(left_ns) * u128::from(own) / u128::from(shares.max(1))) as u64;
        let then = Then {
            again_ns,
            until_ns: end_ns.saturating_sub(now),
            removal_ns: removal_ns(lab),
        };
        progress(Progress {
            done,
            total: taken.len() + 1,
            metric: procedure.name,
            left: rate.left((own, shares), expected_ns, then),
        });
        shares -= own;
        let disturbance = run_one(lab, procedure, own_ns, end_ns);
        let took_ns = lab.clock.now_ns().saturating_sub(begun_ns);
        rate.done(own, took_ns);
        if !disturbance.marks.is_empty() {
            again_ns = again_ns.saturating_add(took_ns);
        }
        found.push((*procedure, own_ns, disturbance));
    }
    let groups = (taken.as_slice(), left_out.as_slice());
    with_time_left(lab, groups, &mut found, (all_ns, &share), progress);
    finish(lab, found)
}

/// What removing everything takes, where it has to be.
fn removal_ns(lab: &Lab<'_>) -> u64 {
    if lab.own_device {
        0
    } else {
        lab.costs.removal_ns()
    }
}

/// What is only done in time that is left over, a step each once it is begun; then says that all is removed.
fn with_time_left(
    lab: &mut Lab<'_>,
    (taken, left_out): (&[&'static Procedure], &[&'static Procedure]),
    found: &mut Vec<(&'static Procedure, u64, Disturbance)>,
    (all_ns, share): (u64, &dyn Fn(&Procedure) -> u64),
    progress: &mut dyn FnMut(Progress<'_>),
) {
    let mut done = taken.len();
    let mut more = |step: Step<'_>| {
        progress(Progress {
            done,
            total: done + step.more + 1,
            metric: step.what,
            left: Left {
                eta_s: step.eta_ns.map(|ns| ns.max(step.own_ns) as f64 / 1e9),
                own_s: step.own_ns as f64 / 1e9,
                ..Left::default()
            },
        });
        done += 1;
    };
    again(lab, (taken, left_out), found, (all_ns, share), &mut more);
    repeat(lab, found, all_ns, &mut more);
    let removal_ns = removal_ns(lab);
    more(Step {
        what: "removing what was made",
        more: 0,
        own_ns: removal_ns,
        // A file system that goes with its target is taken down, in a time that nobody knows.
        eta_ns: (removal_ns > 0).then_some(removal_ns),
    });
}

/// What is begun in time that is left over.
struct Step<'a> {
    what: &'a str,
    /// How many are to come, this one among them, before all is removed.
    more: usize,
    /// What it is thought to take.
    own_ns: u64,
    /// What is left in all, this among it; `None` where nobody knows.
    eta_ns: Option<u64>,
}

/// Tells it.
type More<'a> = &'a mut dyn FnMut(Step<'_>);

/// The part of what is left that cleaning up may be thought to take, before what stands goes at once.
const CLEANING_SHARE: f64 = 0.25;

/// When the measurement must begin to clean up. Where that would take much of what is left, what stands goes now:
/// what it really takes may leave time, and what is thought of it is taken from every procedure to come.
fn make_room(lab: &mut Lab<'_>, all_ns: u64) -> u64 {
    let end_ns = lab.end_ns(all_ns);
    let now = lab.clock.now_ns();
    let cleaning_ns = all_ns.saturating_sub(end_ns) as f64;
    let left_ns = all_ns.saturating_sub(now);
    let much = cleaning_ns > left_ns as f64 * CLEANING_SHARE;
    if left_ns == 0 || !much || lab.stopped() || !lab.costs.stands() {
        return end_ns;
    }
    // What fails here the end tries again.
    if let Ok(entries) = lab.remove_works() {
        let took_ns = lab.clock.now_ns().saturating_sub(now);
        lab.costs.removed(entries, took_ns);
    }
    let _ = lab.fs.mkdir(lab.work.as_bytes(), 0o700);
    lab.end_ns(all_ns)
}

/// With time that is left over runs what had none, the cheapest first.
fn again(
    lab: &mut Lab<'_>,
    (taken, left_out): (&[&'static Procedure], &[&'static Procedure]),
    found: &mut Vec<(&'static Procedure, u64, Disturbance)>,
    (all_ns, share): (u64, &dyn Fn(&Procedure) -> u64),
    more: More<'_>,
) {
    let without = |lab: &Lab<'_>, p: &Procedure| {
        let ids = metrics_of(p);
        let no_time = |id| matches!(lab.reasons.iter().rev().find(|(r, _)| r == id), Some((_, why)) if why == NO_TIME);
        !ids.iter().any(|&id| lab.measurements.known(id)) && ids.iter().any(no_time)
    };
    let mut rest: Vec<&'static Procedure> = (taken.iter().chain(left_out).copied())
        .filter(|p| without(lab, p))
        .collect();
    cheapest_first(&mut rest, share);
    for (at, procedure) in rest.iter().enumerate() {
        let end_ns = make_room(lab, all_ns);
        let left_ns = end_ns.saturating_sub(lab.clock.now_ns());
        let own_ns = least_ns(share(procedure));
        if lab.stopped() || own_ns >= left_ns {
            break;
        }
        // What it has is no more than the least with which it may begin.
        more(Step {
            what: procedure.name,
            more: rest.len() - at,
            own_ns: 0,
            eta_ns: None,
        });
        let disturbance = run_one(lab, procedure, own_ns, end_ns);
        found.retain(|(p, ..)| p.name != procedure.name);
        found.push((*procedure, own_ns, disturbance));
    }
}

/// Runs a procedure and says what disturbed it.
fn run_one(lab: &mut Lab<'_>, procedure: &Procedure, own_ns: u64, end_ns: u64) -> Disturbance {
    let start_ns = lab.clock.now_ns();
    let before = Watch::now(lab);
    lab.deadline_ns = start_ns.saturating_add(own_ns).min(end_ns);
    let until = |factor: f64| {
        let most_ns = (own_ns as f64 * factor) as u64;
        start_ns.saturating_add(most_ns).min(end_ns)
    };
    (lab.hard_ns, lab.last_ns) = (until(OVERRUN), until(OVERRUN_WITHOUT));
    lab.sampled = false;
    lab.part_end_ns = u64::MAX;
    let result = lab.make_anew().and_then(|_| (procedure.run)(lab));
    if let Err(halt) = result {
        give_up(lab, procedure, &halt);
    }
    lab.cut_short();
    let took_ns = lab.clock.now_ns().saturating_sub(start_ns);
    lab.took_ns.push((procedure.name, took_ns, own_ns));
    let disturbance = before.until(&Watch::now(lab), procedure.name);
    for id in metrics_of(procedure) {
        if lab.measurements.known(id) {
            let series = lab.measurements.series(id);
            series.disturbed = !disturbance.marks.is_empty();
            series.reference_ns = disturbance.reference_ns;
        }
    }
    disturbance
}

fn metrics_of(procedure: &Procedure) -> Vec<MetricId> {
    let families = procedure.stems.iter();
    families
        .filter_map(|s| fsage_core::metric::family(s))
        .flat_map(FamilyId::metrics)
        .collect()
}

/// What does not go with its neighbours, or with what the device says of itself.
fn odd(lab: &Lab<'_>, ids: &[MetricId]) -> Vec<(MetricId, String)> {
    let mut found = neighbours::odd(&lab.measurements, ids);
    found.extend(lab.faster_than_device(ids));
    found
}

/// How far a procedure's results are to be doubted: by what disturbed it, and by points that do not go with the
/// others. Samples that lie far from the rest are left out already.
fn doubt(lab: &Lab<'_>, procedure: &Procedure, disturbance: &Disturbance) -> f64 {
    let odd = odd(lab, &metrics_of(procedure)).len();
    let disturbed = if disturbance.marks.is_empty() {
        0.0
    } else {
        // What was stopped has no share, and is repeated too.
        0.1 + watch::weight(disturbance)
    };
    disturbed + 0.5 * odd as f64
}

/// Repeats what is to be doubted most, as long as there is time, and keeps the better of the two.
fn repeat(
    lab: &mut Lab<'_>,
    found: &mut [(&'static Procedure, u64, Disturbance)],
    all_ns: u64,
    more: More<'_>,
) {
    let mut doubts: Vec<(f64, usize)> = (found.iter().enumerate())
        .map(|(place, (procedure, _, disturbance))| (doubt(lab, procedure, disturbance), place))
        .filter(|(doubt, _)| *doubt > 0.0)
        .collect();
    doubts.sort_by(|a, b| b.0.total_cmp(&a.0));
    // What each took before says how long it takes again.
    let took_ns = |lab: &Lab<'_>, name: &str| {
        let took = lab.took_ns.iter().rev().find(|t| t.0 == name);
        took.map_or(0, |t| t.1)
    };
    let name = |place: usize| found.get(place).map_or("", |f| f.0.name);
    let mut took: Vec<u64> = doubts
        .iter()
        .map(|&(_, place)| took_ns(lab, name(place)))
        .collect();
    took.reverse();
    for (before, place) in doubts {
        let Some((procedure, own_ns, disturbance)) = found.get_mut(place) else {
            continue;
        };
        let end_ns = lab.end_ns(all_ns);
        let left_ns = end_ns.saturating_sub(lab.clock.now_ns());
        let its_ns = took.pop().unwrap_or(0);
        let late = lab.clock.now_ns().saturating_add(*own_ns) >= end_ns;
        if lab.stopped() || late || meets_freed(lab, procedure) {
            continue;
        }
        let ids = metrics_of(procedure);
        let had = |lab: &Lab<'_>| ids.iter().filter(|&&id| lab.measurements.known(id)).count();
        let known = had(lab);
        let eta_ns = took.iter().sum::<u64>().saturating_add(its_ns).min(left_ns);
        more(Step {
            what: &format!("{} again", procedure.name),
            more: took.len() + 1,
            own_ns: its_ns.min(left_ns),
            eta_ns: Some(eta_ns.saturating_add(removal_ns(lab))),
        });
        let old = lab.measurements.take(&ids);
        let again = run_one(lab, procedure, *own_ns, end_ns);
        if had(lab) >= known && doubt(lab, procedure, &again) < before {
            *disturbance = Disturbance {
                repeated: disturbance.repeated,
                ..again
            };
        } else {
            lab.measurements.take(&ids);
            lab.measurements.put(old);
        }
        disturbance.repeated += 1;
    }
}

/// Marks what is still to be doubted.
fn finish(
    lab: &mut Lab<'_>,
    found: Vec<(&'static Procedure, u64, Disturbance)>,
) -> Vec<Disturbance> {
    let mut disturbances = Vec::new();
    for (procedure, _, disturbance) in found {
        let ids = metrics_of(procedure);
        for (id, words) in odd(lab, &ids) {
            lab.measurements.series(id).marks.push(words);
        }
        for id in ids {
            if lab.measurements.known(id) {
                let marks = disturbance.marks.iter().cloned();
                lab.measurements.series(id).marks.extend(marks);
            }
        }
        if disturbance.repeated > 0 || !disturbance.marks.is_empty() {
            disturbances.push(disturbance);
        }
    }
    disturbances
}

/// Says why a procedure ended early and clears what it left, so that the next finds room.
fn give_up(lab: &mut Lab<'_>, procedure: &Procedure, halt: &Halt) {
    for stem in procedure.stems {
        lab.absent(stem, &halt.reason());
        for id in fsage_core::metric::family(stem)
            .into_iter()
            .flat_map(FamilyId::metrics)
        {
            if lab.measurements.count(id) > 0 {
                lab.measurements.series(id).stop = match halt {
                    Halt::Stopped => "interrupted",
                    Halt::Time => "time",
                    Halt::Failed(_) | Halt::Absent(_) => "failed",
                };
            }
        }
    }
    // What is over for want of time is cleaned up at the end.
    if !matches!(halt, Halt::Stopped | Halt::Time) {
        let _ = lab.remove_works();
        let _ = lab.fs.mkdir(lab.work.as_bytes(), 0o700);
    }
}

fn collect(
    lab: &Lab<'_>,
    chosen: &[&Procedure],
    wanted: &BTreeSet<MetricId>,
    request: &ProfileRequest,
    environment: Environment,
    elapsed_ns: u64,
) -> SystemProfile {
    let name = if environment.target.target.is_empty() {
        lab.fs.name()
    } else {
        environment.target.target.clone()
    };
    let mut profile = SystemProfile::new(name, environment);
    let cold_method = lab.cold.map(|c| match c.method {
        ColdMethod::Remount => "remount",
        ColdMethod::Drop => "drop",
        ColdMethod::Evict => "evict",
    });
    let times = lab.took_ns.iter().map(|(name, took, own)| ProcedureTime {
        name: (*name).to_owned(),
        elapsed_ns: *took,
        share_ns: *own,
    });
    profile.measurement = Measurement {
        elapsed_ns,
        quick: request.quick,
        seed: request.seed,
        cold_method: cold_method.map(str::to_owned),
        scheduling: lab.sched.describe().to_owned(),
        prepared_ns: Some(lab.costs.prepared_ns.get()),
        reference_ns: lab.pace.usual_ns(),
        procedures: times.collect(),
        ..Measurement::default()
    };
    fill(&mut profile, lab, chosen, wanted);
    if lab.stopped() {
        profile.incomplete = Some(format!(
            "interrupted after {:.1} s",
            elapsed_ns as f64 / 1e9
        ));
    }
    profile
}

/// Puts every metric that is wanted or that one of these depends on into the profile, or why it is not there.
fn fill(
    profile: &mut SystemProfile,
    lab: &Lab<'_>,
    chosen: &[&Procedure],
    wanted: &BTreeSet<MetricId>,
) {
    let nothing = if lab.stopped() {
        "interrupted"
    } else {
        NOTHING_KEPT
    };
    for id in MetricId::all() {
        let row = id.family().row();
        let was_run = chosen.iter().any(|p| p.stems.contains(&row.stem));
        let needed = was_run
            && wanted
                .iter()
                .any(|w| w.family().row().depends.contains(&row.stem));
        if !wanted.contains(&id) && !needed {
            continue;
        }
        let value = lab.measurements.value(id);
        // One impossible figure does not cost the others.
        let problem = value.as_ref().and_then(MetricValue::problem);
        if let Some(problem) = problem {
            let reason = format!("{IMPOSSIBLE}{problem}");
            let name = id.to_string();
            profile.absent.push(Absent { name, reason });
        } else if let Some(value) = value {
            profile.metrics.push(value);
        } else if wanted.contains(&id) {
            let said = lab.reasons.iter().rev().find(|(r, _)| *r == id);
            profile.absent.push(Absent {
                name: id.to_string(),
                reason: said.map_or(nothing, |(_, reason)| reason).to_owned(),
            });
        }
    }
}

const NOTHING_KEPT: &str =
    "no sample was kept: too little room, or each was preempted or did not reach the device";
