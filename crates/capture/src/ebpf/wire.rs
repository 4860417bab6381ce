//! The records of the ring, as `bpf/wire.h` lays them out.

use fsage_core::{Pid, Tid};
use rustc_hash::FxHashMap;

use crate::raw::{RawCall, RawEvent, RawFile};
use crate::session::OwnTime;

const FILE: usize = 40;
/// In the first file.
const HELD: usize = FILE + 38;
const HELD_UNIT_NS: u64 = 64;
const WAKE_END: usize = 32;
const AWAY_END: usize = 40;
const FILE_END: usize = 80;
const EXTRA: usize = 128;
const EXTRA_END: usize = 144;
const WIRE_END: usize = 184;
const PATHS_HEAD: usize = 148;

const PATH_UNREADABLE: u8 = 1;
const PATH_TRUNCATED: u8 = 2;
const NO_FILE: u8 = 4;
const LATENCY_US: u8 = 8;
const WIDE: u8 = 16;
const PATHS: u8 = 32;
const WRITE_FAULT: u8 = 64;
const NO_LATENCY: u8 = 128;
/// Of absences.
const BY_WATCHED: u8 = 1;
const FROM_IDLE: u8 = 2;

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes
        .get(at..at + 2)
        .and_then(|b| b.try_into().ok())
        .map_or(0, u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .and_then(|b| b.try_into().ok())
        .map_or(0, u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..at + 8)
        .and_then(|b| b.try_into().ok())
        .map_or(0, u64::from_le_bytes)
}

/// The part of a record that every kind has.
struct Head<'a> {
    bytes: &'a [u8],
    flags: u8,
}

impl Head<'_> {
    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    fn start_ns(&self) -> u64 {
        u64_at(self.bytes, 0)
    }

    fn latency_ns(&self) -> u64 {
        let latency = u64::from(u32_at(self.bytes, 8));
        if self.has(LATENCY_US) {
            latency * 1000
        } else {
            latency
        }
    }

    fn tid(&self) -> Tid {
        Tid(u32_at(self.bytes, 16))
    }

    fn pid(&self) -> Pid {
        Pid(u32_at(self.bytes, 20))
    }

    fn result(&self) -> i64 {
        u64_at(self.bytes, 24) as i64
    }

    fn file(&self) -> Option<RawFile> {
        (!self.has(NO_FILE)).then(|| self.file_at(FILE))
    }

    fn file_at(&self, at: usize) -> RawFile {
        RawFile {
            ino: u64_at(self.bytes, at),
            position: u64_at(self.bytes, at + 8),
            size_bytes: u64_at(self.bytes, at + 16),
            dev: u32_at(self.bytes, at + 24),
            generation: u32_at(self.bytes, at + 28),
            open_flags: u32_at(self.bytes, at + 32),
            mode: u32::from(u16_at(self.bytes, at + 36)),
        }
    }

    fn argument(&self, n: usize) -> u64 {
        u64_at(self.bytes, FILE_END + 8 * n)
    }

    /// All that were sent.
    fn arguments(&self) -> [u64; 6] {
        let sent = (self.bytes.len().min(EXTRA) / 8).saturating_sub(FILE_END / 8);
        std::array::from_fn(|n| if n < sent { self.argument(n) } else { 0 })
    }

    fn wake(&self) -> RawEvent {
        RawEvent::Wake {
            at_ns: self.start_ns(),
            tid: self.tid(),
            woken: Tid(u64_at(self.bytes, 24) as u32),
        }
    }

    fn away(&self) -> RawEvent {
        let back_ns = u64_at(self.bytes, 32);
        let slept = Some(u64_at(self.bytes, 24)).filter(|&ns| ns != 0);
        RawEvent::Away {
            from_ns: self.start_ns(),
            back_ns,
            woken_ns: if self.has(FROM_IDLE) {
                Some(back_ns)
            } else {
                slept
            },
            by_watched: self.has(BY_WATCHED),
            tid: self.tid(),
        }
    }

    /// A path of a record with paths, without its NUL.
    fn path(&self, second: bool) -> Option<Vec<u8>> {
        if !self.has(PATHS) {
            return None;
        }
        let length = usize::from(u16_at(self.bytes, EXTRA_END));
        let length2 = usize::from(u16_at(self.bytes, EXTRA_END + 2));
        let (start, length) = if second {
            (PATHS_HEAD + length, length2)
        } else {
            (PATHS_HEAD, length)
        };
        let end = start + length.checked_sub(1)?;
        self.bytes.get(start..end).map(<[u8]>::to_vec)
    }
}

/// Turns records into events; holds what arrives in two parts.
#[derive(Default)]
pub(super) struct Decoder {
    /// Whether pages entering the page cache are seen.
    pages_known: bool,
    /// What the programs take of each call's latency.
    pub own: OwnTime,
    /// Paths of programs, by the thread that will return from execve.
    programs: FxHashMap<Tid, Vec<u8>>,
    /// Names that requests of io_uring were given, by request.
    asked: FxHashMap<u64, [Option<Vec<u8>>; 2]>,
}

impl Decoder {
    pub(super) fn new(pages_known: bool) -> Self {
        Self {
            pages_known,
            ..Self::default()
        }
    }

    /// The event of a record; `None` for the first part of one, and for what is not a record.
    pub(super) fn decode(&mut self, bytes: &[u8]) -> Option<RawEvent> {
        let &[kind, flags] = bytes.get(14..16)? else {
            return None;
        };
        let head = Head { bytes, flags };
        match (kind, bytes.len()) {
            (6, WAKE_END..) => return Some(head.wake()),
            (7, AWAY_END..) => return Some(head.away()),
            (8, WAKE_END..) => return Some(RawEvent::Moved),
            (_, FILE_END..) => {}
            _ => return None,
        }
        match kind {
            0 => Some(RawEvent::Call(Box::new(self.call(&head)))),
            1 => Some(RawEvent::Fork {
                at_ns: head.start_ns(),
                pid: head.pid(),
                tid: head.tid(),
                child_pid: Pid(head.argument(0) as u32),
                child_tid: Tid(head.argument(1) as u32),
                clone_flags: head.argument(2),
            }),
            2 => {
                self.programs
                    .insert(Tid(head.argument(0) as u32), head.path(false)?);
                Some(RawEvent::Exec {
                    at_ns: head.start_ns(),
                    pid: head.pid(),
                    tid: head.tid(),
                    file: head.file(),
                })
            }
            3 => {
                self.programs.remove(&head.tid());
                Some(RawEvent::Exit {
                    at_ns: head.start_ns(),
                    pid: head.pid(),
                    tid: head.tid(),
                    last: head.argument(0) != 0,
                    code: head.argument(1) as i32,
                })
            }
            4 => Some(fault(&head)),
            5 => self.uring(&head),
            _ => None,
        }
    }

    fn call(&mut self, head: &Head<'_>) -> RawCall {
        let nr = u32::from(u16_at(head.bytes, 12));
        let wide = head.has(WIDE) && !head.has(PATHS);
        let extra = wide || head.has(PATHS);
        let file2 = (wide && has_second_file(nr)).then(|| head.file_at(EXTRA_END));
        let executed = head.result() == 0 && is_exec(nr);
        let path = if executed {
            self.programs.remove(&head.tid())
        } else {
            head.path(false)
        };
        let known = |pages| self.pages_known.then_some(pages);
        RawCall {
            latency_ns: head.latency_ns().saturating_sub(self.own.within_ns).max(1),
            held_back_ns: u64::from(u16_at(head.bytes, HELD)) * HELD_UNIT_NS,
            path_unreadable: head.has(PATH_UNREADABLE),
            path_truncated: head.has(PATH_TRUNCATED),
            pages_missed: known(u32_at(head.bytes, 32)),
            pages_ahead: known(u32_at(head.bytes, 36)),
            extra: if extra {
                [u64_at(head.bytes, EXTRA), u64_at(head.bytes, EXTRA + 8)]
            } else {
                [0; 2]
            },
            ..as_call(head, nr, [path, head.path(true)], file2)
        }
    }

    fn uring(&mut self, head: &Head<'_>) -> Option<RawEvent> {
        let key = u64_at(head.bytes, EXTRA);
        if head.has(PATHS) {
            let names = [false, true].map(|second| head.path(second));
            self.asked.insert(key, names);
            return None;
        }
        if head.bytes.len() < WIRE_END {
            return None;
        }
        let nr = u32::from(u16_at(head.bytes, 12));
        // A splice has no names, and its offsets there.
        let names = if has_second_file(nr) {
            [None, None]
        } else {
            self.asked.remove(&key).unwrap_or_default()
        };
        if nr != 0 {
            let call = request(head, nr, names);
            return Some(RawEvent::Call(Box::new(call)));
        }
        let opcode = head.argument(0) as u8;
        let [path, _] = names;
        Some(RawEvent::Uring {
            start_ns: head.start_ns(),
            latency_ns: head.latency_ns(),
            pid: head.pid(),
            tid: head.tid(),
            opcode,
            result: head.result() as i32,
            file: head.file(),
            fd: descriptor(opcode, head.argument(4)),
            offset: head.argument(1),
            length: head.argument(2),
            flags: head.argument(3) as u32,
            path,
        })
    }
}

/// A request of io_uring that does what the call `nr` does.
fn request(head: &Head<'_>, nr: u32, paths: [Option<Vec<u8>>; 2]) -> RawCall {
    let file2 = has_second_file(nr).then(|| head.file_at(EXTRA_END));
    RawCall {
        extra: [u64_at(head.bytes, EXTRA), u64_at(head.bytes, EXTRA + 8)],
        request: true,
        ..as_call(head, nr, paths, file2)
    }
}

/// What a record says of a call, however that was made.
fn as_call(
    head: &Head<'_>,
    nr: u32,
    [path, path2]: [Option<Vec<u8>>; 2],
    file2: Option<RawFile>,
) -> RawCall {
    RawCall {
        nr,
        start_ns: head.start_ns(),
        latency_ns: head.latency_ns(),
        pid: head.pid(),
        tid: head.tid(),
        result: head.result(),
        args: head.arguments(),
        file: head.file(),
        file2: file2.filter(|file| file.mode != 0),
        path,
        path2,
        ..RawCall::default()
    }
}

/// Of reads, writes and syncs; all ones for a registered file.
fn descriptor(opcode: u8, argument: u64) -> Option<i32> {
    use crate::raw::uring::{CLOSE, OPENAT, OPENAT2};
    let has_none = matches!(opcode, OPENAT | OPENAT2 | CLOSE) || argument == u64::MAX;
    (!has_none).then_some(argument as i32)
}

fn fault(head: &Head<'_>) -> RawEvent {
    RawEvent::Fault {
        at_ns: head.start_ns(),
        latency_ns: (!head.has(NO_LATENCY)).then(|| head.latency_ns()),
        pid: head.pid(),
        tid: head.tid(),
        file: head.file_at(FILE),
        page: head.result() as u64,
        write: head.has(WRITE_FAULT),
        pages_missed: u32_at(head.bytes, 32),
        pages_ahead: u32_at(head.bytes, 36),
    }
}

fn is_exec(nr: u32) -> bool {
    let nr = libc::c_long::from(nr);
    nr == libc::SYS_execve || nr == libc::SYS_execveat
}

fn has_second_file(nr: u32) -> bool {
    let nr = libc::c_long::from(nr);
    [
        libc::SYS_sendfile,
        libc::SYS_splice,
        libc::SYS_copy_file_range,
        libc::SYS_ioctl,
    ]
    .contains(&nr)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_or_unknown_records_are_no_events() {
        let mut decoder = Decoder::default();
        for length in 0..300 {
            for kind in 0..=255 {
                let mut bytes = vec![0xff; length];
                if let Some(byte) = bytes.get_mut(14) {
                    *byte = kind;
                }
                let event = decoder.decode(&bytes);
                let least = match kind {
                    6 | 8 => WAKE_END,
                    7 => AWAY_END,
                    _ => FILE_END,
                };
                assert!(event.is_none() || (length >= least && kind <= 8));
            }
        }
    }

    #[test]
    fn a_long_latency_is_in_microseconds() {
        let mut bytes = vec![0; FILE_END];
        bytes[8..12].copy_from_slice(&5_000_000u32.to_le_bytes());
        bytes[15] = LATENCY_US | NO_FILE;
        let Some(RawEvent::Call(call)) = Decoder::default().decode(&bytes) else {
            panic!("a call");
        };
        assert_eq!((call.latency_ns, call.held_back_ns), (5_000_000_000, 0));
        assert_eq!(call.file, None);
        assert_eq!(call.pages_missed, None);
    }

    #[test]
    fn what_the_programs_take_is_no_latency() {
        let latency = |ns: u32| {
            let mut bytes = vec![0; FILE_END];
            bytes[8..12].copy_from_slice(&ns.to_le_bytes());
            let mut decoder = Decoder {
                own: OwnTime {
                    within_ns: 90,
                    all_ns: 400,
                },
                ..Decoder::default()
            };
            match decoder.decode(&bytes) {
                Some(RawEvent::Call(call)) => call.latency_ns,
                _ => panic!("a call"),
            }
        };
        assert_eq!((latency(290), latency(50)), (200, 1));
    }
}
