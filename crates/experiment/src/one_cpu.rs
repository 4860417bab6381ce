//! Measurements kept on one CPU, with the kernel's work for them: where that work runs is chance
//! otherwise, and decides what an fsync costs (docs/decisions/0011).

use fsage_format::profile::SystemProfile;
use fsage_host::kthread::{self, WorkqueueMask};
use fsage_host::{HostError, thread};

pub use fsage_format::trace::ONE_CPU as ENTRY;

/// The kernel's unbound workqueues (loop devices, write-back) of the whole machine on one CPU, until
/// this is dropped. The thread that measures pins itself.
#[derive(Debug)]
pub struct OneCpu {
    cpu: usize,
    /// Or why they stay where they are.
    workqueues: Result<WorkqueueMask, HostError>,
}

impl OneCpu {
    /// Keeps what can be kept: without root the workqueues stay where they are, and another fsage that keeps them
    /// gives them back when it ends.
    pub fn keep(cpu: usize) -> Self {
        Self {
            cpu,
            workqueues: kthread::confine_workqueues(&[cpu]),
        }
    }

    /// The CPU.
    pub fn cpu(&self) -> usize {
        self.cpu
    }

    /// Whether another fsage keeps the workqueues, which gives them back meanwhile.
    pub fn is_beside_another(&self) -> bool {
        matches!(self.workqueues, Err(HostError::Refused { .. }))
    }

    /// What a reader of the figures must know.
    pub fn describe(&self) -> String {
        let why = match &self.workqueues {
            Ok(_) => return format!("CPU {}, with the kernel's workqueues", self.cpu),
            Err(HostError::Refused { why, .. }) => why,
            Err(_) => "that needs root",
        };
        format!("CPU {}, without the kernel's workqueues ({why})", self.cpu)
    }
}

/// The last CPU that this process may use: the first ones serve interrupts.
pub fn last_allowed() -> Option<usize> {
    thread::allowed_cpus().last().copied()
}

/// The last CPU, kept for what is measured until this is dropped, if that is `wanted`.
pub fn one_cpu(wanted: bool) -> Option<OneCpu> {
    wanted.then(last_allowed).flatten().map(OneCpu::keep)
}

/// What must be said when a trace and profiles were not measured on CPUs alike: one line for what is
/// known to differ, nothing otherwise. A trace that does not say where it ran is taken as it is.
pub fn mixed(trace: Option<&String>, profiles: &[SystemProfile]) -> Option<String> {
    let kept = |p: &&SystemProfile| p.measurement.one_cpu.is_some();
    let (one, free): (Vec<&SystemProfile>, Vec<&SystemProfile>) = profiles.iter().partition(kept);
    let names = |them: &[&SystemProfile]| {
        let names: Vec<&str> = them.iter().map(|p| p.name.as_str()).collect();
        names.join(", ")
    };
    if !one.is_empty() && !free.is_empty() {
        return Some(format!(
            "profiles of {} were kept on one CPU and those of {} were not: what waits for threads of \
             the kernel (fsync) does not compare",
            names(&one),
            names(&free)
        ));
    }
    (trace.is_some() && !free.is_empty()).then(|| {
        format!(
            "the trace was taken on one CPU, the profiles of {} were not: calls that wait for \
             threads of the kernel (fsync) may differ",
            names(&free)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsage_format::profile::Environment;

    #[test]
    fn what_differs_is_said() {
        let profile = |name: &str, one: bool| {
            let mut profile = SystemProfile::new(name, Environment::default());
            profile.measurement.one_cpu = one.then(|| "CPU 1".to_owned());
            profile
        };
        let (a, b) = (profile("a", true), profile("b", false));
        let on = "CPU 1".to_string();
        assert_eq!(mixed(Some(&on), std::slice::from_ref(&a)), None);
        assert_eq!(mixed(None, std::slice::from_ref(&a)), None, "not known");
        assert_eq!(mixed(None, std::slice::from_ref(&b)), None);
        let said = mixed(Some(&on), std::slice::from_ref(&b)).unwrap();
        assert!(said.contains("the profiles of b were not"), "{said}");
        let said = mixed(None, &[a, b]).unwrap();
        assert!(said.contains("profiles of a were kept") && said.contains("those of b"));
    }
}
