//! Calls that are known to be no operations on files: nothing of a file system is missing where they are left out.

use super::line::Call;

/// Whether a call that is not captured is known to be about something else than files. One that nobody knows may be about
/// them.
pub(super) fn is_no_file_call(call: &Call<'_>) -> bool {
    match call.name {
        "ioctl" => call.args.get(1).is_some_and(|request| {
            TERMINALS_AND_SOCKETS
                .iter()
                .any(|start| request.0.starts_with(start))
        }),
        name => NO_FILE_CALLS
            .iter()
            .any(|group| group.split_ascii_whitespace().any(|known| known == name)),
    }
}

/// How the requests of an `ioctl` begin that asks for no file's data: terminals, sockets, what a descriptor is like.
const TERMINALS_AND_SOCKETS: [&[u8]; 8] = [
    b"TC",
    b"TIOC",
    b"SIOC",
    b"SNDCTL",
    b"FIONREAD",
    b"FIONBIO",
    b"FIOCLEX",
    b"FIONCLEX",
];

/// By what they are about.
const NO_FILE_CALLS: [&str; 8] = [
    // Memory.
    "brk mprotect madvise mincore mlock mlock2 mlockall munlock munlockall mremap membarrier mbind get_mempolicy \
     set_mempolicy set_mempolicy_home_node migrate_pages move_pages pkey_alloc pkey_free pkey_mprotect map_shadow_stack \
     process_madvise process_mrelease mseal shmat shmctl shmdt shmget remap_file_pages",
    // Signals.
    "alarm kill pause rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend \
     rt_sigtimedwait rt_tgsigqueueinfo sigaction sigaltstack signal sigpending sigprocmask sigreturn sigsuspend tgkill \
     tkill pidfd_send_signal restart_syscall",
    // Time.
    "adjtimex clock_adjtime clock_getres clock_gettime clock_nanosleep clock_settime getitimer gettimeofday nanosleep \
     setitimer settimeofday time timer_create timer_delete timer_getoverrun timer_gettime timer_settime \
     timerfd_gettime timerfd_settime times",
    // Processes and threads.
    "arch_prctl exit exit_group futex futex_wait futex_waitv futex_wake futex_requeue get_robust_list get_thread_area \
     getcpu getpriority getrlimit getrusage ioprio_get ioprio_set kcmp modify_ldt personality prctl prlimit64 ptrace \
     rseq sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr sched_getparam \
     sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam sched_setscheduler \
     sched_yield seccomp set_robust_list set_thread_area set_tid_address setpriority setrlimit ugetrlimit vhangup \
     wait4 waitid waitpid process_vm_readv process_vm_writev uprobe uretprobe",
    // Who somebody is.
    "capget capset getegid geteuid getgid getgroups getpgid getpgrp getpid getppid getresgid getresuid getsid gettid \
     getuid setdomainname setfsgid setfsuid setgid setgroups sethostname setns setpgid setregid setresgid setresuid \
     setreuid setsid setuid sysinfo syslog uname umask getrandom add_key keyctl request_key",
    // Sockets and pipes.
    "bind connect getpeername getsockname getsockopt listen recv recvfrom recvmmsg recvmmsg_time64 recvmsg send \
     sendmmsg sendmsg sendto setsockopt shutdown tee vmsplice",
    // Waiting for descriptors.
    "_newselect epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old poll ppoll pselect6 select",
    // Messages and semaphores.
    "mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink msgctl msgget msgrcv msgsnd semctl semget \
     semop semtimedop",
];

#[cfg(test)]
mod tests {
    use super::super::line::parse_call;
    use super::*;

    #[test]
    fn what_may_be_about_files_is_told_from_what_is_not() {
        let is_none = |text: &str| is_no_file_call(&parse_call(text.as_bytes()).unwrap());
        for text in [
            "brk(NULL) = 0x1000",
            "ioctl(1, TCGETS, 0x7f) = -1 ENOTTY (Inappropriate ioctl for device)",
            "ioctl(1, FIONREAD, [5]) = 0",
            "rt_sigaction(SIGINT, NULL, NULL, 8) = 0",
        ] {
            assert!(is_none(text), "{text}");
        }
        for text in [
            "ioctl(3, FS_IOC_FIEMAP, {}) = 0",
            "ioctl(3, FITRIM, 0x7f) = 0",
            "quotactl(QCMD(Q_SYNC, USRQUOTA), NULL, 0, NULL) = 0",
            "a_call_of_next_year(3) = 0",
        ] {
            assert!(!is_none(text), "{text}");
        }
    }
}
