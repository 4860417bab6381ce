//! The names by which strace prints flags and errors, on Linux's generic ABI (x86-64).

use fsage_core::Errno;

/// Open flags in the order in which they are printed; the access mode comes before them.
const OPEN: &[(&str, u32)] = &[
    ("O_TMPFILE", 0o20_200_000),
    ("O_SYNC", 0o4_010_000),
    ("O_CREAT", 0o100),
    ("O_EXCL", 0o200),
    ("O_NOCTTY", 0o400),
    ("O_TRUNC", 0o1000),
    ("O_APPEND", 0o2000),
    ("O_NONBLOCK", 0o4000),
    ("O_DSYNC", 0o10_000),
    ("O_ASYNC", 0o20_000),
    ("FASYNC", 0o20_000),
    ("O_DIRECT", 0o40_000),
    ("O_LARGEFILE", 0o100_000),
    ("O_DIRECTORY", 0o200_000),
    ("O_NOFOLLOW", 0o400_000),
    ("O_NOATIME", 0o1_000_000),
    ("O_CLOEXEC", 0o2_000_000),
    ("O_PATH", 0o10_000_000),
    ("__O_SYNC", 0o4_000_000),
    ("__O_TMPFILE", 0o20_000_000),
];

const CLONE: &[(&str, u32)] = &[
    ("CLONE_VM", 0x100),
    ("CLONE_FS", 0x200),
    ("CLONE_FILES", 0x400),
    ("CLONE_SIGHAND", 0x800),
    ("CLONE_PIDFD", 0x1000),
    ("CLONE_PTRACE", 0x2000),
    ("CLONE_VFORK", 0x4000),
    ("CLONE_PARENT", 0x8000),
    ("CLONE_THREAD", 0x1_0000),
    ("CLONE_NEWNS", 0x2_0000),
    ("CLONE_SYSVSEM", 0x4_0000),
    ("CLONE_SETTLS", 0x8_0000),
    ("CLONE_PARENT_SETTID", 0x10_0000),
    ("CLONE_CHILD_CLEARTID", 0x20_0000),
    ("CLONE_DETACHED", 0x40_0000),
    ("CLONE_UNTRACED", 0x80_0000),
    ("CLONE_CHILD_SETTID", 0x100_0000),
    ("CLONE_NEWCGROUP", 0x200_0000),
    ("CLONE_NEWUTS", 0x400_0000),
    ("CLONE_NEWIPC", 0x800_0000),
    ("CLONE_NEWUSER", 0x1000_0000),
    ("CLONE_NEWPID", 0x2000_0000),
    ("CLONE_NEWNET", 0x4000_0000),
    ("CLONE_IO", 0x8000_0000),
];

const OTHER: &[(&str, u32)] = &[
    ("O_RDONLY", 0),
    ("O_WRONLY", 1),
    ("O_RDWR", 2),
    ("O_ACCMODE", 3),
    ("AT_SYMLINK_NOFOLLOW", 0x100),
    ("AT_REMOVEDIR", 0x200),
    ("AT_EACCESS", 0x200),
    ("AT_SYMLINK_FOLLOW", 0x400),
    ("AT_NO_AUTOMOUNT", 0x800),
    ("AT_EMPTY_PATH", 0x1000),
    ("AT_STATX_SYNC_AS_STAT", 0),
    ("AT_STATX_FORCE_SYNC", 0x2000),
    ("AT_STATX_DONT_SYNC", 0x4000),
    ("SEEK_SET", 0),
    ("SEEK_CUR", 1),
    ("SEEK_END", 2),
    ("SEEK_DATA", 3),
    ("SEEK_HOLE", 4),
    ("F_OK", 0),
    ("X_OK", 1),
    ("W_OK", 2),
    ("R_OK", 4),
    ("RWF_HIPRI", 1),
    ("RWF_DSYNC", 2),
    ("RWF_SYNC", 4),
    ("RWF_NOWAIT", 8),
    ("RWF_APPEND", 16),
    ("PROT_NONE", 0),
    ("PROT_READ", 1),
    ("PROT_WRITE", 2),
    ("PROT_EXEC", 4),
    ("MAP_SHARED", 0x1),
    ("MAP_PRIVATE", 0x2),
    ("MAP_SHARED_VALIDATE", 0x3),
    ("MAP_FIXED", 0x10),
    ("MAP_ANONYMOUS", 0x20),
    ("MAP_32BIT", 0x40),
    ("MAP_GROWSDOWN", 0x100),
    ("MAP_DENYWRITE", 0x800),
    ("MAP_EXECUTABLE", 0x1000),
    ("MAP_LOCKED", 0x2000),
    ("MAP_NORESERVE", 0x4000),
    ("MAP_POPULATE", 0x8000),
    ("MAP_NONBLOCK", 0x1_0000),
    ("MAP_STACK", 0x2_0000),
    ("MAP_HUGETLB", 0x4_0000),
    ("MAP_SYNC", 0x8_0000),
    ("MAP_FIXED_NOREPLACE", 0x10_0000),
    ("MS_ASYNC", 1),
    ("MS_INVALIDATE", 2),
    ("MS_SYNC", 4),
    ("FALLOC_FL_KEEP_SIZE", 0x01),
    ("FALLOC_FL_PUNCH_HOLE", 0x02),
    ("FALLOC_FL_NO_HIDE_STALE", 0x04),
    ("FALLOC_FL_COLLAPSE_RANGE", 0x08),
    ("FALLOC_FL_ZERO_RANGE", 0x10),
    ("FALLOC_FL_INSERT_RANGE", 0x20),
    ("FALLOC_FL_UNSHARE_RANGE", 0x40),
    ("SYNC_FILE_RANGE_WAIT_BEFORE", 1),
    ("SYNC_FILE_RANGE_WRITE", 2),
    ("SYNC_FILE_RANGE_WAIT_AFTER", 4),
    ("POSIX_FADV_NORMAL", 0),
    ("POSIX_FADV_RANDOM", 1),
    ("POSIX_FADV_SEQUENTIAL", 2),
    ("POSIX_FADV_WILLNEED", 3),
    ("POSIX_FADV_DONTNEED", 4),
    ("POSIX_FADV_NOREUSE", 5),
    ("LOCK_SH", 1),
    ("LOCK_EX", 2),
    ("LOCK_NB", 4),
    ("LOCK_UN", 8),
    ("F_GETLK", 5),
    ("F_SETLK", 6),
    ("F_SETLKW", 7),
    ("F_OFD_GETLK", 36),
    ("F_OFD_SETLK", 37),
    ("F_OFD_SETLKW", 38),
    ("RENAME_NOREPLACE", 1),
    ("RENAME_EXCHANGE", 2),
    ("RENAME_WHITEOUT", 4),
    ("RESOLVE_IN_ROOT", 0x10),
    ("CLOSE_RANGE_UNSHARE", 2),
    ("CLOSE_RANGE_CLOEXEC", 4),
    ("S_IFSOCK", 0o140_000),
    ("S_IFLNK", 0o120_000),
    ("S_IFREG", 0o100_000),
    ("S_IFBLK", 0o060_000),
    ("S_IFDIR", 0o040_000),
    ("S_IFCHR", 0o020_000),
    ("S_IFIFO", 0o010_000),
    ("S_ISUID", 0o4000),
    ("S_ISGID", 0o2000),
    ("S_ISVTX", 0o1000),
];

/// Errors that [`Errno`] has no symbol for.
const ERRORS: &[(&str, i32)] = &[
    ("ESRCH", 3),
    ("ENOTBLK", 15),
    ("EDOM", 33),
    ("ENOLCK", 37),
    ("EPROTO", 71),
    ("EBADMSG", 74),
    ("ENOTUNIQ", 76),
    ("EILSEQ", 84),
    ("ENOTSOCK", 88),
    ("EDESTADDRREQ", 89),
    ("EMSGSIZE", 90),
    ("ENOTSUP", 95),
    ("ENETDOWN", 100),
    ("ENETUNREACH", 101),
    ("ENETRESET", 102),
    ("ECONNABORTED", 103),
    ("ECONNRESET", 104),
    ("ENOBUFS", 105),
    ("EISCONN", 106),
    ("ENOTCONN", 107),
    ("ECONNREFUSED", 111),
    ("EHOSTDOWN", 112),
    ("EHOSTUNREACH", 113),
    ("EALREADY", 114),
    ("EINPROGRESS", 115),
    ("EUCLEAN", 117),
    ("EREMOTEIO", 121),
    ("ENOMEDIUM", 123),
    ("EMEDIUMTYPE", 124),
    ("ECANCELED", 125),
    ("ENOKEY", 126),
    ("EKEYEXPIRED", 127),
    ("EKEYREVOKED", 128),
    ("EKEYREJECTED", 129),
    ("EOWNERDEAD", 130),
];

/// The value of a flag's name.
pub(super) fn value(name: &str) -> Option<u32> {
    [OPEN, OTHER, CLONE]
        .iter()
        .find_map(|table| table.iter().find(|(symbol, _)| *symbol == name))
        .map(|(_, value)| *value)
}

/// The error of that symbol; a call that the kernel restarts was interrupted.
pub(super) fn errno(symbol: &str) -> Option<Errno> {
    if symbol.starts_with("ERESTART") {
        return Some(Errno::EINTR);
    }
    let other = || {
        ERRORS
            .iter()
            .find(|(name, _)| *name == symbol)
            .map(|(_, code)| Errno(*code))
    };
    Errno::from_symbol(symbol).or_else(other)
}

/// An error's symbol; `None` for a number without one.
pub(super) fn errno_symbol(errno: Errno) -> Option<&'static str> {
    let other = || {
        ERRORS
            .iter()
            .find(|(_, code)| *code == errno.0)
            .map(|(name, _)| *name)
    };
    errno.symbol().or_else(other)
}

/// Open flags as strace prints them.
pub(super) fn open_text(flags: u32) -> String {
    let mode = match flags & 3 {
        0 => "O_RDONLY",
        1 => "O_WRONLY",
        2 => "O_RDWR",
        _ => "O_ACCMODE",
    };
    joined(mode.to_owned(), flags & !3, OPEN)
}

/// Clone flags as strace prints them.
pub(super) fn clone_text(flags: u32) -> String {
    joined(String::new(), flags, CLONE)
}

fn joined(mut text: String, mut rest: u32, table: &[(&str, u32)]) -> String {
    let mut add = |part: &str| {
        if !text.is_empty() {
            text.push('|');
        }
        text.push_str(part);
    };
    for (name, value) in table {
        if rest & value == *value {
            add(name);
            rest &= !value;
        }
    }
    if rest != 0 {
        add(&format!("{rest:#x}"));
    }
    if text.is_empty() {
        "0".to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_round_trip_by_name() {
        for flags in [
            0,
            1,
            0o102,
            0o2_000_000,
            0o4_010_002,
            0o20_200_002,
            0x8000_0000,
            0o3077,
        ] {
            let text = open_text(flags);
            assert_eq!(
                super::super::args::Arg(text.as_bytes()).flags(),
                flags,
                "{text}"
            );
        }
        assert_eq!(clone_text(0x3d_0f11).split('|').count(), 10);
        assert_eq!(clone_text(0), "0");
    }

    #[test]
    fn errors_round_trip_by_name() {
        for code in 1..134 {
            if let Some(symbol) = errno_symbol(Errno(code)) {
                assert_eq!(errno(symbol), Some(Errno(code)), "{symbol}");
            }
        }
        assert_eq!(errno("ERESTARTSYS"), Some(Errno::EINTR));
    }
}
