//! The seccomp filter that stops a program at the captured calls only.
//!
//! Every other call runs at native speed: the kernel evaluates the filter ahead for each number
//! whose answer does not depend on arguments and keeps a bitmap of those it allows (since 5.11).

use super::calls::{CALLS, CALLS_32, FCNTL_COMMANDS, IOCTLS};

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const JUMP_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const JUMP: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
const JUMP_SET: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// `AUDIT_ARCH_X86_64`: calls of 32-bit programs have other numbers and are only counted.
pub(super) const ARCH_X86_64: u32 = 0xc000_003e;
const NUMBER: u32 = 0;
const ARCH: u32 = 4;

/// Where the low half of an argument stands in `struct seccomp_data`.
const fn argument(position: u32) -> u32 {
    16 + 8 * position
}

const fn statement(code: u16, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code,
        jt: 0,
        jf: 0,
        k,
    }
}

/// "If the test holds answer `yes`, otherwise go on".
fn unless(program: &mut Vec<libc::sock_filter>, code: u16, k: u32, answer: u32) {
    program.push(libc::sock_filter {
        code,
        jt: 0,
        jf: 1,
        k,
    });
    program.push(statement(RETURN, answer));
}

/// The program, to be installed in the child between fork and exec.
pub(super) fn program() -> Vec<libc::sock_filter> {
    let (trace, allow) = (libc::SECCOMP_RET_TRACE, libc::SECCOMP_RET_ALLOW);
    let mut foreign = vec![statement(LOAD, NUMBER)];
    for &number in CALLS_32 {
        unless(&mut foreign, JUMP_EQUAL, number, trace);
    }
    foreign.push(statement(RETURN, allow));
    let mut program = vec![
        statement(LOAD, ARCH),
        libc::sock_filter {
            code: JUMP_EQUAL,
            jt: 0,
            jf: 1,
            k: ARCH_X86_64,
        },
        statement(JUMP, foreign.len() as u32),
    ];
    program.append(&mut foreign);
    program.push(statement(LOAD, NUMBER));
    let by_argument = [libc::SYS_mmap, libc::SYS_fcntl, libc::SYS_ioctl];
    for call in CALLS
        .iter()
        .filter(|c| !by_argument.contains(&libc::c_long::from(c.nr)))
    {
        unless(&mut program, JUMP_EQUAL, call.nr, trace);
    }
    // mmap(2): anonymous memory is no file.
    program.push(libc::sock_filter {
        code: JUMP_EQUAL,
        jt: 0,
        jf: 4,
        k: libc::SYS_mmap as u32,
    });
    program.push(statement(LOAD, argument(3)));
    unless(&mut program, JUMP_SET, libc::MAP_ANONYMOUS as u32, allow);
    program.push(statement(RETURN, trace));
    // fcntl(2) and ioctl(2): by command.
    for (nr, commands) in [
        (libc::SYS_fcntl, FCNTL_COMMANDS),
        (libc::SYS_ioctl, &IOCTLS[..]),
    ] {
        program.push(libc::sock_filter {
            code: JUMP_EQUAL,
            jt: 0,
            jf: commands.len() as u8 * 2 + 2,
            k: nr as u32,
        });
        program.push(statement(LOAD, argument(1)));
        for &command in commands {
            unless(&mut program, JUMP_EQUAL, command, trace);
        }
        program.push(statement(RETURN, allow));
    }
    program.push(statement(RETURN, allow));
    program
}

#[cfg(test)]
mod tests {
    use super::super::calls::find;
    use super::*;

    /// Runs the program as the kernel does.
    fn run(program: &[libc::sock_filter], nr: u32, arch: u32, args: &[u64; 6]) -> u32 {
        let (mut at, mut accumulator) = (0usize, 0u32);
        loop {
            let step = program[at];
            at += 1;
            let hit = match step.code {
                LOAD => {
                    accumulator = match step.k {
                        NUMBER => nr,
                        ARCH => arch,
                        offset => args[((offset - 16) / 8) as usize] as u32,
                    };
                    continue;
                }
                RETURN => return step.k,
                JUMP => {
                    at += step.k as usize;
                    continue;
                }
                JUMP_EQUAL => accumulator == step.k,
                JUMP_SET => accumulator & step.k != 0,
                other => panic!("unexpected instruction {other:#x}"),
            };
            at += usize::from(if hit { step.jt } else { step.jf });
        }
    }

    #[test]
    fn the_filter_and_the_table_agree() {
        let program = program();
        assert!(program.len() < 4096, "the kernel's BPF_MAXINSNS");
        for nr in 0..600 {
            let commands: Vec<u64> = match libc::c_long::from(nr) {
                libc::SYS_fcntl => (0..1100).collect(),
                libc::SYS_ioctl => IOCTLS.map(u64::from).into_iter().chain([0]).collect(),
                _ => vec![0],
            };
            for second in commands {
                for flags in [libc::MAP_PRIVATE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS] {
                    let args = [3, second, 0, flags as u64, 3, 0];
                    let traced = run(&program, nr, ARCH_X86_64, &args) == libc::SECCOMP_RET_TRACE;
                    assert_eq!(
                        traced,
                        find(u64::from(nr), &args).is_some(),
                        "{nr} {args:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn calls_of_32_bit_programs_stop_to_be_counted() {
        let (program, i386) = (program(), 0x4000_0003);
        for nr in 0..600 {
            let stopped = run(&program, nr, i386, &[0; 6]) == libc::SECCOMP_RET_TRACE;
            assert_eq!(stopped, CALLS_32.contains(&nr), "{nr}");
        }
    }

    #[test]
    fn the_ebpf_programs_count_the_same_32_bit_calls() {
        let table = include_str!("../../bpf/calls32.h");
        let listed: Vec<u32> = table
            .lines()
            .filter_map(|line| line.trim().strip_prefix('['))
            .flat_map(|line| line.split('['))
            .filter_map(|entry| entry.split(']').next()?.parse().ok())
            .collect();
        assert_eq!(listed, CALLS_32);
    }
}
