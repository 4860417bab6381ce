//! Which system calls are captured and where their descriptors, paths and structures stand.

/// What the words of [`RawCall::extra`](crate::raw::RawCall::extra) are read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extra {
    /// Nothing.
    None,
    /// `struct open_how` at argument 2: flags and mode.
    OpenHow,
    /// An array of `struct iovec` at argument 1 with argument 2 entries: total length and count.
    Iovec,
    /// Pointers to offsets, as argument numbers; read at entry, the kernel changes them.
    Offsets(u8, Option<u8>),
    /// `struct flock` at argument 2, for the lock commands of fcntl: start and length.
    Flock,
    /// `FICLONERANGE`'s `struct file_clone_range` at argument 2, laid over the arguments from there on; `FIEMAP`'s
    /// descriptor, which becomes argument 2.
    Clone,
    /// `struct xattr_args` at argument 4: the value's address, its size.
    XattrArgs,
}

/// Numbers, in the table of 32-bit x86 programs, of the calls that are counted and not recorded:
/// those on files, without mappings, of which most are memory. The eBPF programs have the same.
pub(super) const CALLS_32: &[u32] = &[
    3, 4, 5, 6, 8, 9, 10, 11, 12, 14, 15, 16, 19, 30, 33, 36, 38, 39, 40, 41, 55, 63, 83, 85, 92,
    93, 94, 95, 99, 100, 106, 107, 108, 118, 133, 140, 141, 143, 144, 145, 146, 148, 180, 181, 182,
    187, 193, 194, 195, 196, 197, 198, 207, 212, 220, 221, 225, 226, 227, 228, 229, 230, 231, 232,
    233, 234, 235, 236, 237, 239, 250, 268, 269, 271, 272, 295, 296, 297, 298, 299, 300, 301, 302,
    303, 304, 305, 306, 307, 313, 314, 320, 324, 330, 333, 334, 344, 353, 358, 377, 378, 379, 383,
    412, 436, 437, 439, 452,
];

/// Where the result of a stat stands, as an argument number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StatBuffer {
    /// None.
    None,
    /// `struct stat`.
    Stat(u8),
    /// `struct statx`.
    Statx(u8),
}

/// One captured system call; the numbers are argument positions, 0 to 5.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    /// The x86-64 number.
    pub nr: u32,
    /// The first descriptor; where data moves between two, the one it is read from.
    pub fd: Option<u8>,
    /// The second descriptor.
    pub fd2: Option<u8>,
    /// The path.
    pub path: Option<u8>,
    /// The second path, link text or attribute name.
    pub path2: Option<u8>,
    /// The structure that is read.
    pub extra: Extra,
    /// Where the result of a stat is written.
    pub stat: StatBuffer,
    /// The result is a new descriptor of a file just opened.
    pub opens: bool,
    /// Position and flags of the open file matter to it; finding them costs as much as a stop.
    pub position: bool,
    /// The path is gone at exit, when the program is another one.
    pub path_at_entry: bool,
}

impl Call {
    const fn new(nr: libc::c_long) -> Self {
        Self {
            nr: nr as u32,
            fd: None,
            fd2: None,
            path: None,
            path2: None,
            extra: Extra::None,
            stat: StatBuffer::None,
            opens: false,
            position: false,
            path_at_entry: false,
        }
    }

    const fn on_fd(nr: libc::c_long) -> Self {
        Self::new(nr).fd(0)
    }

    const fn on_path(nr: libc::c_long) -> Self {
        Self::new(nr).path(0)
    }

    /// A name below a directory's descriptor, which the assembler resolves by itself.
    const fn at(nr: libc::c_long) -> Self {
        Self::new(nr).path(1)
    }

    const fn fd(mut self, arg: u8) -> Self {
        self.fd = Some(arg);
        self
    }

    const fn fd2(mut self, arg: u8) -> Self {
        self.fd2 = Some(arg);
        self
    }

    const fn path(mut self, arg: u8) -> Self {
        self.path = Some(arg);
        self
    }

    const fn path2(mut self, arg: u8) -> Self {
        self.path2 = Some(arg);
        self
    }

    const fn extra(mut self, extra: Extra) -> Self {
        self.extra = extra;
        self
    }

    const fn stat(mut self, stat: StatBuffer) -> Self {
        self.stat = stat;
        self
    }

    /// A call that moves data or the position of its first descriptor.
    const fn moves(nr: libc::c_long) -> Self {
        let mut call = Self::on_fd(nr);
        call.position = true;
        call
    }

    const fn opens(mut self) -> Self {
        self.opens = true;
        self.position = true;
        self
    }

    const fn path_at_entry(mut self) -> Self {
        self.path_at_entry = true;
        self
    }
}

const SYS_FCHMODAT2: libc::c_long = 452;
const SYS_SETXATTRAT: libc::c_long = 463;
const SYS_GETXATTRAT: libc::c_long = 464;
const SYS_LISTXATTRAT: libc::c_long = 465;
const SYS_REMOVEXATTRAT: libc::c_long = 466;

/// Every captured call.
pub(super) static CALLS: &[Call] = &[
    // Data.
    Call::moves(libc::SYS_read),
    Call::moves(libc::SYS_write),
    Call::moves(libc::SYS_pread64),
    Call::moves(libc::SYS_pwrite64),
    Call::moves(libc::SYS_readv).extra(Extra::Iovec),
    Call::moves(libc::SYS_writev).extra(Extra::Iovec),
    Call::moves(libc::SYS_preadv).extra(Extra::Iovec),
    Call::moves(libc::SYS_pwritev).extra(Extra::Iovec),
    Call::moves(libc::SYS_preadv2).extra(Extra::Iovec),
    Call::moves(libc::SYS_pwritev2).extra(Extra::Iovec),
    Call::moves(libc::SYS_sendfile)
        .fd(1)
        .fd2(0)
        .extra(Extra::Offsets(2, None)),
    Call::moves(libc::SYS_splice)
        .fd2(2)
        .extra(Extra::Offsets(1, Some(3))),
    Call::moves(libc::SYS_copy_file_range)
        .fd2(2)
        .extra(Extra::Offsets(1, Some(3))),
    Call::on_fd(libc::SYS_ioctl)
        .fd(2)
        .fd2(0)
        .extra(Extra::Clone),
    // Descriptors and opens.
    Call::on_path(libc::SYS_open).opens(),
    Call::on_path(libc::SYS_creat).opens(),
    Call::at(libc::SYS_openat).opens(),
    Call::new(libc::SYS_openat2)
        .path(1)
        .opens()
        .extra(Extra::OpenHow),
    Call::at(libc::SYS_open_tree).opens(),
    Call::new(libc::SYS_open_by_handle_at).opens(),
    Call::on_fd(libc::SYS_close),
    Call::new(libc::SYS_close_range),
    Call::on_fd(libc::SYS_dup),
    Call::on_fd(libc::SYS_dup2),
    Call::on_fd(libc::SYS_dup3),
    Call::on_fd(libc::SYS_fcntl).extra(Extra::Flock),
    Call::on_fd(libc::SYS_flock),
    Call::moves(libc::SYS_lseek),
    // Open files.
    Call::on_fd(libc::SYS_fstat).stat(StatBuffer::Stat(1)),
    Call::on_fd(libc::SYS_fstatfs),
    Call::on_fd(libc::SYS_ftruncate),
    Call::on_fd(libc::SYS_fallocate),
    Call::moves(libc::SYS_getdents),
    Call::moves(libc::SYS_getdents64),
    Call::on_fd(libc::SYS_fsync),
    Call::on_fd(libc::SYS_fdatasync),
    Call::on_fd(libc::SYS_syncfs),
    Call::on_fd(libc::SYS_sync_file_range),
    Call::on_fd(libc::SYS_fchmod),
    Call::on_fd(libc::SYS_fchown),
    Call::on_fd(libc::SYS_fchdir),
    Call::on_fd(libc::SYS_fadvise64),
    Call::on_fd(libc::SYS_readahead),
    Call::on_fd(libc::SYS_fsetxattr).path2(1),
    Call::on_fd(libc::SYS_fgetxattr).path2(1),
    Call::on_fd(libc::SYS_flistxattr),
    Call::on_fd(libc::SYS_fremovexattr).path2(1),
    Call::new(libc::SYS_mmap).fd(4),
    Call::new(libc::SYS_munmap),
    Call::new(libc::SYS_mremap),
    Call::new(libc::SYS_msync),
    Call::new(libc::SYS_sync),
    // Names.
    Call::on_path(libc::SYS_stat).stat(StatBuffer::Stat(1)),
    Call::on_path(libc::SYS_lstat).stat(StatBuffer::Stat(1)),
    Call::at(libc::SYS_newfstatat)
        .fd(0)
        .stat(StatBuffer::Stat(2)),
    Call::at(libc::SYS_statx).fd(0).stat(StatBuffer::Statx(4)),
    Call::on_path(libc::SYS_statfs),
    Call::on_path(libc::SYS_access),
    Call::at(libc::SYS_faccessat),
    Call::at(libc::SYS_faccessat2),
    Call::on_path(libc::SYS_unlink),
    Call::at(libc::SYS_unlinkat),
    Call::on_path(libc::SYS_rmdir),
    Call::on_path(libc::SYS_mkdir),
    Call::at(libc::SYS_mkdirat),
    Call::on_path(libc::SYS_mknod),
    Call::at(libc::SYS_mknodat),
    Call::on_path(libc::SYS_rename).path2(1),
    Call::at(libc::SYS_renameat).path2(3),
    Call::at(libc::SYS_renameat2).path2(3),
    Call::on_path(libc::SYS_link).path2(1),
    Call::at(libc::SYS_linkat).path2(3),
    Call::new(libc::SYS_symlink).path(1).path2(0),
    Call::new(libc::SYS_symlinkat).path(2).path2(0),
    Call::on_path(libc::SYS_readlink),
    Call::at(libc::SYS_readlinkat),
    Call::on_path(libc::SYS_truncate),
    Call::on_path(libc::SYS_chmod),
    Call::at(libc::SYS_fchmodat),
    Call::at(SYS_FCHMODAT2),
    Call::on_path(libc::SYS_chown),
    Call::on_path(libc::SYS_lchown),
    Call::at(libc::SYS_fchownat),
    Call::on_path(libc::SYS_utime),
    Call::on_path(libc::SYS_utimes),
    Call::at(libc::SYS_futimesat),
    Call::at(libc::SYS_utimensat).fd(0),
    Call::on_path(libc::SYS_setxattr).path2(1),
    Call::on_path(libc::SYS_lsetxattr).path2(1),
    Call::on_path(libc::SYS_getxattr).path2(1),
    Call::on_path(libc::SYS_lgetxattr).path2(1),
    Call::on_path(libc::SYS_listxattr),
    Call::on_path(libc::SYS_llistxattr),
    Call::at(SYS_SETXATTRAT).path2(3).extra(Extra::XattrArgs),
    Call::at(SYS_GETXATTRAT).path2(3).extra(Extra::XattrArgs),
    Call::at(SYS_LISTXATTRAT),
    Call::at(SYS_REMOVEXATTRAT).path2(3),
    Call::on_path(libc::SYS_removexattr).path2(1),
    Call::on_path(libc::SYS_lremovexattr).path2(1),
    Call::on_path(libc::SYS_chdir),
    Call::on_path(libc::SYS_chroot),
    Call::on_path(libc::SYS_pivot_root).path2(1),
    Call::new(libc::SYS_mount),
    Call::new(libc::SYS_move_mount),
    Call::new(libc::SYS_setns),
    Call::new(libc::SYS_unshare),
    // Programs.
    Call::on_path(libc::SYS_execve).path_at_entry(),
    Call::at(libc::SYS_execveat).path_at_entry(),
];

/// The commands of fcntl that duplicate a descriptor, change its flags, or lock.
pub(super) const FCNTL_COMMANDS: &[u32] = &[
    libc::F_DUPFD as u32,
    libc::F_DUPFD_CLOEXEC as u32,
    libc::F_SETFD as u32,
    libc::F_SETFL as u32,
    libc::F_GETLK as u32,
    libc::F_SETLK as u32,
    libc::F_SETLKW as u32,
    libc::F_OFD_GETLK as u32,
    libc::F_OFD_SETLK as u32,
    libc::F_OFD_SETLKW as u32,
];

/// The requests of ioctl that copy by sharing blocks, of which the second has a `struct file_clone_range`, and the one
/// that may write a file's data to map its blocks.
pub(super) const IOCTLS: [u32; 3] = [
    libc::FICLONE as u32,
    libc::FICLONERANGE as u32,
    crate::raw::FIEMAP,
];

/// Whether a command of fcntl has a `struct flock`.
pub(super) fn is_lock_command(command: u64) -> bool {
    [
        libc::F_GETLK,
        libc::F_SETLK,
        libc::F_SETLKW,
        libc::F_OFD_GETLK,
        libc::F_OFD_SETLK,
        libc::F_OFD_SETLKW,
    ]
    .contains(&(command as i32))
}

/// The captured call of these number and arguments. Anonymous mappings and the other commands of
/// fcntl and ioctl are not captured; the seccomp filter says the same.
pub(super) fn find(nr: u64, args: &[u64; 6]) -> Option<&'static Call> {
    let [_, second, _, flags, _, _] = *args;
    let position = *INDEX.get(usize::try_from(nr).ok()?)?;
    let call = CALLS.get(usize::from(position))?;
    let wanted = match libc::c_long::from(call.nr) {
        libc::SYS_mmap => flags & libc::MAP_ANONYMOUS as u64 == 0,
        libc::SYS_fcntl => FCNTL_COMMANDS.contains(&(second as u32)),
        libc::SYS_ioctl => IOCTLS.contains(&(second as u32)),
        _ => true,
    };
    wanted.then_some(call)
}

const NONE: u8 = u8::MAX;

static INDEX: [u8; 512] = index();

const fn index() -> [u8; 512] {
    assert!(CALLS.len() < NONE as usize);
    let mut index = [NONE; 512];
    let mut position = 0;
    while position < CALLS.len() {
        let slot = CALLS[position].nr as usize;
        assert!(index[slot] == NONE, "a call stands twice in the table");
        index[slot] = position as u8;
        position += 1;
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_found_by_its_number() {
        for call in CALLS {
            let mut args = [0; 6];
            if libc::c_long::from(call.nr) == libc::SYS_ioctl {
                args[1] = u64::from(IOCTLS[1]);
            }
            assert_eq!(
                find(u64::from(call.nr), &args).map(|found| found.nr),
                Some(call.nr)
            );
        }
        assert!(find(libc::SYS_ioctl as u64, &[0; 6]).is_none());
        assert!(find(libc::SYS_getpid as u64, &[0; 6]).is_none());
        assert!(find(u64::MAX, &[0; 6]).is_none());
        assert!(find(511, &[0; 6]).is_none());
    }

    /// The field `.name = N` of a row of `bpf/calls.h`.
    fn field(row: &str, name: &str) -> Option<u8> {
        let rest = row.split_once(&format!(".{name} = "))?.1;
        rest.split([',', ')']).next()?.trim().parse().ok()
    }

    #[test]
    fn both_backends_record_the_same_calls() {
        let mut theirs = 0;
        for row in include_str!("../../bpf/calls.h").lines() {
            let Some((nr, row)) = row
                .trim()
                .strip_prefix('[')
                .and_then(|r| r.split_once("] = "))
            else {
                continue;
            };
            if row.starts_with("POPULATES") {
                continue;
            }
            let call = CALLS.iter().find(|call| call.nr.to_string() == nr);
            let call = call.unwrap_or_else(|| panic!("{nr} is recorded by eBPF only"));
            let fd = if row.starts_with("FD(") {
                Some(0)
            } else {
                None
            };
            let path = match row.split_once('(').unwrap().0 {
                "NAME" => Some(0),
                "AT" => Some(1),
                _ => None,
            };
            assert_eq!(call.fd, field(row, "fd").or(fd), "{nr}: descriptor");
            assert_eq!(call.fd2, field(row, "fd2"), "{nr}: second descriptor");
            assert_eq!(call.path, field(row, "path").or(path), "{nr}: path");
            assert_eq!(call.path2, field(row, "path2"), "{nr}: second path");
            assert_eq!(call.opens, field(row, "opens") == Some(1), "{nr}: opens");
            let stat = match call.stat {
                StatBuffer::Stat(argument) => Some(argument),
                _ => None,
            };
            assert_eq!(stat, field(row, "stat"), "{nr}: stat buffer");
            theirs += 1;
        }
        assert_eq!(theirs, CALLS.len(), "calls are recorded by ptrace only");
    }

    #[test]
    fn memory_and_descriptor_queries_are_left_alone() {
        let anonymous = libc::MAP_ANONYMOUS | libc::MAP_PRIVATE;
        assert!(find(libc::SYS_mmap as u64, &[0, 4096, 3, anonymous as u64, 0, 0]).is_none());
        assert!(
            find(
                libc::SYS_mmap as u64,
                &[0, 4096, 1, libc::MAP_SHARED as u64, 3, 0]
            )
            .is_some()
        );
        let get = [3, libc::F_GETFL as u64, 0, 0, 0, 0];
        assert!(find(libc::SYS_fcntl as u64, &get).is_none());
    }
}
