//! Loading the programs into the kernel and attaching them.
#![allow(unsafe_code)]

use aya::maps::{Array, Map, MapData, PerCpuArray, RingBuf};
use aya::programs::{BtfTracePoint, ProgramError};
use aya::{Btf, Ebpf, EbpfLoader, VerifierLogLevel};

use crate::CaptureError;

/// Compiled from `bpf/`; `bpf/check.sh` tells whether it still is what the sources say.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/fsage.bpf.o");

/// A program, its trace point, and whether a capture can do without it.
struct Hook {
    program: &'static str,
    trace_point: &'static str,
    optional: bool,
}

const fn needed(program: &'static str, trace_point: &'static str) -> Hook {
    Hook {
        program,
        trace_point,
        optional: false,
    }
}

const fn optional(program: &'static str, trace_point: &'static str) -> Hook {
    Hook {
        program,
        trace_point,
        optional: true,
    }
}

/// Attached in this order before anything is watched: children are followed from the first seed on.
const HOOKS: &[Hook] = &[
    needed("fsage_newtask", "task_newtask"),
    needed("fsage_exec", "sched_process_exec"),
    needed("fsage_task_exit", "sched_process_exit"),
    optional("fsage_add_page", "mm_filemap_add_to_page_cache"),
    optional("fsage_page_fault", "page_fault_user"),
    optional("fsage_kernel_fault", "page_fault_kernel"),
    optional("fsage_fault", "mm_filemap_fault"),
    optional("fsage_map_pages", "mm_filemap_map_pages"),
    optional("fsage_dirty", "writeback_dirty_folio"),
    optional("fsage_uring_submit", "io_uring_submit_req"),
    optional(WAITS[0], "hrtimer_expire_entry"),
    optional(WAITS[1], "hrtimer_expire_exit"),
    optional(WAITS[2], "timer_expire_entry"),
    optional(WAITS[3], "timer_expire_exit"),
    optional(WAITS[4], "sched_waking"),
    optional(WAITS[5], "sched_switch"),
    needed("fsage_enter", "sys_enter"),
    needed("fsage_exit", "sys_exit"),
];

const PAGES: &str = "fsage_add_page";

/// What tells who waits for whom, all of them or none.
const WAITS: [&str; 6] = [
    "fsage_hrtimer_begins",
    "fsage_hrtimer_ends",
    "fsage_timer_begins",
    "fsage_timer_ends",
    "fsage_waking",
    "fsage_switch",
];

/// Holds one number: for how many ns calls are to be held back.
pub(super) type Pressure = Array<MapData, u64>;

/// What lives in the kernel for as long as this does.
pub(super) struct Loaded {
    /// Holds programs and their attachments.
    programs: Option<Ebpf>,
    ring: Option<(RingBuf<MapData>, Pressure)>,
    pub counts: PerCpuArray<MapData, Counters>,
    pub tasks: MapData,
    pub pages_known: bool,
    /// Whether what threads wait for is told.
    pub waits_known: bool,
    /// What this kernel does not tell.
    pub unseen: Vec<&'static str>,
}

/// `struct counters` of the programs, one for each CPU.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Counters {
    pub events: u64,
    pub lost: u64,
    pub compat: u64,
    pub held_ns: u64,
    pub held: u64,
    pub hold_ns: u64,
}

// SAFETY: six integers without padding; every bit pattern is a value.
unsafe impl aya::Pod for Counters {}

impl Loaded {
    /// The ring, and the pressure, for the one who reads it.
    pub(super) fn take_ring(&mut self) -> Result<(RingBuf<MapData>, Pressure), CaptureError> {
        self.ring.take().ok_or_else(|| missing("fsage_ring"))
    }

    /// Takes the programs out of the kernel; what they left in the ring stays readable.
    pub(super) fn detach(&mut self) {
        self.programs = None;
    }
}

fn no(what: &str, error: &dyn std::error::Error) -> CaptureError {
    let mut text = format!("{what}: {error}");
    let mut cause = error.source();
    while let Some(inner) = cause {
        // Some errors show their cause themselves.
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    // The verifier's log follows on further lines; it is of no use to a user.
    let text = text.lines().next().unwrap_or_default().to_owned();
    CaptureError::Unsupported {
        what: text,
        hint: "run as root (or with CAP_BPF and CAP_PERFMON) on Linux 5.17 or newer with BTF, or \
               use --method ptrace"
            .to_owned(),
    }
}

/// Loads and attaches everything; nothing is watched yet. With `throttle`, callers are held back
/// when the ring is more than half full.
pub(super) fn load(
    ring_bytes: u32,
    throttle: bool,
    adopt_threads: bool,
) -> Result<Loaded, CaptureError> {
    let btf = Btf::from_sys_fs().map_err(|e| no("read the kernel's types (BTF)", &e))?;
    let wake_bytes = ring_bytes / 8;
    let hold_bytes = if throttle { ring_bytes / 2 } else { 0 };
    let pid_level = super::seed::pid_level();
    let adopt = u32::from(adopt_threads);
    let mut programs = EbpfLoader::new()
        .btf(Some(&btf))
        .override_global("wake_bytes", &wake_bytes, true)
        .override_global("hold_bytes", &hold_bytes, true)
        .override_global("pid_level", &pid_level, true)
        .override_global("adopt_threads", &adopt, true)
        .map_max_entries("fsage_ring", ring_bytes)
        .allow_unsupported_maps()
        // A signal meanwhile makes the kernel refuse a program once (EAGAIN); it is given again with a log. One of every
        // instruction that is looked at takes minutes, that of what is wrong no time.
        .verifier_log_level(VerifierLogLevel::STATS)
        .load(OBJECT)
        .map_err(|e| no("load the eBPF programs", &e))?;
    let mut missing_hooks = Vec::new();
    for hook in HOOKS {
        match attach(&mut programs, hook.program, hook.trace_point, &btf) {
            Ok(()) => {}
            Err(_) if hook.optional => missing_hooks.push(hook.program),
            Err(e) => return Err(no(&format!("attach to {}", hook.trace_point), &e)),
        }
    }
    // The trace point's arguments changed; only one of the two passes the verifier's look at them.
    if attach(
        &mut programs,
        "fsage_uring_complete_old",
        "io_uring_complete",
        &btf,
    )
    .is_err()
        && attach(
            &mut programs,
            "fsage_uring_complete",
            "io_uring_complete",
            &btf,
        )
        .is_err()
    {
        missing_hooks.push("fsage_uring_submit");
    }
    let pages_known = !missing_hooks.contains(&PAGES);
    Ok(Loaded {
        ring: Some((
            RingBuf::try_from(take(&mut programs, "fsage_ring")?)
                .map_err(|e| no("open the ring", &e))?,
            Array::try_from(take(&mut programs, "fsage_pressure")?)
                .map_err(|e| no("open the pressure", &e))?,
        )),
        counts: PerCpuArray::try_from(take(&mut programs, "fsage_counts")?)
            .map_err(|e| no("open the counters", &e))?,
        tasks: match take(&mut programs, "fsage_tasks")? {
            Map::Unsupported(data) => data,
            _ => return Err(missing("fsage_tasks")),
        },
        pages_known,
        waits_known: !missing_hooks.iter().any(|hook| WAITS.contains(hook)),
        unseen: unseen(&missing_hooks),
        programs: Some(programs),
    })
}

/// What cannot be seen without these programs.
fn unseen(missing: &[&str]) -> Vec<&'static str> {
    let without = |program: &str| missing.contains(&program);
    let mut unseen = Vec::new();
    if without(PAGES) {
        unseen.push("pages missed and read ahead");
    }
    if without("fsage_fault") {
        unseen.push("page faults on mapped files");
    } else if without("fsage_map_pages") || without("fsage_dirty") {
        unseen.push("page faults that find their page");
    } else if without("fsage_page_fault") || without("fsage_kernel_fault") {
        unseen.push("how long page faults take");
    }
    if without("fsage_uring_submit") {
        unseen.push("io_uring requests");
    }
    if WAITS.iter().any(|hook| without(hook)) {
        unseen.push("what threads wait for");
    }
    unseen
}

fn take(programs: &mut Ebpf, name: &str) -> Result<Map, CaptureError> {
    programs.take_map(name).ok_or_else(|| missing(name))
}

fn missing(name: &str) -> CaptureError {
    CaptureError::Unsupported {
        what: format!("find the map {name} in the eBPF programs"),
        hint: "this fsage was built from a damaged object; build it again".to_owned(),
    }
}

fn attach(programs: &mut Ebpf, name: &str, point: &str, btf: &Btf) -> Result<(), ProgramError> {
    let Some(program) = programs.program_mut(name) else {
        return Err(ProgramError::UnexpectedProgramType);
    };
    let program: &mut BtfTracePoint = program.try_into()?;
    program.load(point, btf)?;
    program.attach()?;
    Ok(())
}
