//! Runs the procedures one after another and keeps what they find.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use fsage_core::metric::{FamilyId, MetricId};
use fsage_core::{ColdMethod, FileSystem};
use fsage_format::profile::{Absent, Environment, SystemProfile};

use crate::error::{Halt, ProfileError};
use crate::lab::Lab;
use crate::population::remove_tree;
use crate::registry::{Procedure, group_of, procedures};
use crate::request::ProfileRequest;
use crate::stall;

/// How far a measurement is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress<'a> {
    /// Procedures that are done.
    pub done: usize,
    /// Procedures there are.
    pub total: usize,
    /// What is measured now.
    pub metric: &'a str,
    /// The group it belongs to.
    pub group: &'a str,
    /// Seconds that are still to come.
    pub eta_s: f64,
}

/// Measures a target. `environment` says what it is; what the measurement itself knows (seed,
/// length, scheduling, cold method) is filled in.
///
/// Everything happens in a directory `.fsage-profile-…` of the target's root, which is removed
/// whatever happens. When `stop` becomes true the measurement ends after the batch in progress, and
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
    let wanted = request.wanted()?;
    let start_ns = fs.clock().now_ns();
    let work = format!(".fsage-profile-{}-{start_ns:x}", std::process::id());
    fs.mkdir(work.as_bytes(), 0o700)
        .map_err(|errno| ProfileError::WorkingDirectory {
            target: fs.name(),
            errno,
        })?;
    let place = (request.host_dir.clone(), request.device.clone());
    let mut lab = Lab::new(fs, place, work, request.seed, request.quick, stop);
    lab.own_device = request.own_device;
    let chosen = choose(&wanted);
    // Where it cannot be found out no call is taken to wait for the device.
    let _ = stall::weigh_device(&mut lab);
    measure(&mut lab, &chosen, request, progress);
    let mut removed = remove_tree(fs, lab.work.as_bytes());
    if removed.is_err() {
        // A file that was being made when the disk filled may need what the first pass freed.
        removed = remove_tree(fs, lab.work.as_bytes());
    }
    removed.map_err(|errno| ProfileError::CleanUp {
        target: fs.name(),
        path: lab.work.clone(),
        errno,
    })?;
    let elapsed_ns = fs.clock().now_ns().saturating_sub(start_ns);
    Ok(collect(
        &lab,
        &chosen,
        &wanted,
        request,
        environment,
        elapsed_ns,
    ))
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

fn measure(
    lab: &mut Lab<'_>,
    chosen: &[&'static Procedure],
    request: &ProfileRequest,
    progress: &mut dyn FnMut(Progress<'_>),
) {
    let share = |p: &Procedure| u64::from(if request.quick { p.share.0 } else { p.share.1 }.max(1));
    let end_ns = lab.clock.now_ns() + request.time_ns();
    let mut shares: u64 = chosen.iter().map(|p| share(p)).sum();
    for (done, procedure) in chosen.iter().enumerate() {
        let left_ns = end_ns.saturating_sub(lab.clock.now_ns());
        let own_ns =
            (u128::from(left_ns) * u128::from(share(procedure)) / u128::from(shares.max(1))) as u64;
        lab.deadline_ns = lab.clock.now_ns() + own_ns;
        lab.part_end_ns = u64::MAX;
        shares -= share(procedure);
        progress(Progress {
            done,
            total: chosen.len(),
            metric: procedure.name,
            group: group_of(procedure).map_or("", |g| g.name()),
            eta_s: left_ns as f64 / 1e9,
        });
        let start_ns = lab.clock.now_ns();
        let result = lab.check().and_then(|()| (procedure.run)(lab));
        if let Err(halt) = result {
            give_up(lab, procedure, &halt);
        }
        lab.book.forget();
        let took_ns = lab.clock.now_ns().saturating_sub(start_ns);
        lab.took_ns.push((procedure.name, took_ns, own_ns));
    }
    progress(Progress {
        done: chosen.len(),
        total: chosen.len(),
        metric: "",
        group: "",
        eta_s: 0.0,
    });
}

/// Says why a procedure ended early and clears what it left, so that the next finds room.
fn give_up(lab: &mut Lab<'_>, procedure: &Procedure, halt: &Halt) {
    for stem in procedure.stems {
        lab.absent(stem, &halt.reason());
        for id in fsage_core::metric::family(stem)
            .into_iter()
            .flat_map(FamilyId::metrics)
        {
            if lab.book.count(id) > 0 {
                lab.book.series(id).stop = if *halt == Halt::Stopped {
                    "interrupted"
                } else {
                    "failed"
                };
            }
        }
    }
    if *halt != Halt::Stopped {
        let work = lab.work.clone();
        let _ = remove_tree(lab.fs, work.as_bytes());
        let _ = lab.fs.mkdir(work.as_bytes(), 0o700);
    }
}

fn collect(
    lab: &Lab<'_>,
    chosen: &[&Procedure],
    wanted: &BTreeSet<MetricId>,
    request: &ProfileRequest,
    mut environment: Environment,
    elapsed_ns: u64,
) -> SystemProfile {
    environment.quick = request.quick;
    environment.seed = request.seed;
    environment.elapsed_ns = elapsed_ns;
    environment.cold_method = lab.cold.map(|c| {
        match c.method {
            ColdMethod::Remount => "remount",
            ColdMethod::Drop => "drop",
            ColdMethod::Evict => "evict",
        }
        .to_owned()
    });
    let scheduling = if lab.sched.real_time {
        "pinned and SCHED_FIFO for cached calls that change nothing, SCHED_OTHER otherwise"
    } else {
        "SCHED_OTHER; pinned for cached calls that change nothing"
    };
    scheduling.clone_into(&mut environment.scheduling);
    let name = if environment.target.is_empty() {
        lab.fs.name()
    } else {
        environment.target.clone()
    };
    let mut profile = SystemProfile::new(name, environment);
    let stopped = lab.check().is_err();
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
        if let Some(value) = lab.book.value(id) {
            profile.metrics.push(value);
        } else if wanted.contains(&id) {
            let reason = lab
                .reasons
                .iter()
                .rev()
                .find(|(r, _)| *r == id)
                .map(|(_, r)| r.clone());
            let reason = reason
                .unwrap_or_else(|| if stopped { "interrupted" } else { NOTHING_KEPT }.to_owned());
            profile.absent.push(Absent {
                name: id.to_string(),
                reason,
            });
        }
    }
    let took: Vec<String> = lab
        .took_ns
        .iter()
        .map(|(name, took, own)| {
            let seconds = |ns: u64| ns as f64 / 1e9;
            format!("{name}: {:.1} s of {:.1} s", seconds(*took), seconds(*own))
        })
        .collect();
    let extra = &mut profile.environment.extra;
    extra.insert("time by procedure".to_owned(), took.join("; "));
    if stopped {
        profile.incomplete = Some("interrupted".to_owned());
    }
    profile
}

const NOTHING_KEPT: &str =
    "no sample was kept: too little room, or each was preempted or did not reach the device";
