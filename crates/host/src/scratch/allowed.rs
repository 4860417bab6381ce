//! Which options a specification may give to mkfs and to mount: only such as say how the file system on the
//! scratch device is to be, and none that names a file, a directory or another device, or that could take the
//! device's name for its value.
//!
//! Specifications come from plans of strangers and run as root, so what is not known here is refused.

/// What one program takes.
#[derive(Debug)]
struct Program {
    kinds: &'static [&'static str],
    /// Options without a value.
    flags: &'static [&'static str],
    /// Options with a value.
    valued: &'static [Valued],
}

/// An option with a value, and which keys the value may have if it is a list of `KEY` and `KEY=VALUE`.
type Valued = (&'static str, Option<&'static [&'static str]>);

const fn plain(name: &'static str) -> Valued {
    (name, None)
}

const EXT_EXTENDED: &[&str] = &[
    "assume_storage_prezeroed",
    "desc-size",
    "desc_size",
    "discard",
    "encoding",
    "encoding_flags",
    "hash_seed",
    "lazy_itable_init",
    "lazy_journal_init",
    "mmp_update_interval",
    "no_copy_xattrs",
    "nodiscard",
    "num_backup_sb",
    "orphan_file_size",
    "packed_meta_blocks",
    "quotatype",
    "resize",
    "revision",
    "root_owner",
    "root_perms",
    "stride",
    "stripe-width",
    "stripe_width",
    "test_fs",
];

const XFS_DATA: &[&str] = &[
    "agcount",
    "agsize",
    "concurrency",
    "cowextsize",
    "daxinherit",
    "extszinherit",
    "noalign",
    "projinherit",
    "rtinherit",
    "sectsize",
    "size",
    "su",
    "sunit",
    "sw",
    "swidth",
];
const XFS_INODE: &[&str] = &[
    "align",
    "attr",
    "exchange",
    "log",
    "maxpct",
    "nrext64",
    "perblock",
    "projid32bit",
    "size",
    "sparse",
];
const XFS_LOG: &[&str] = &[
    "agnum",
    "concurrency",
    "internal",
    "lazy-count",
    "sectsize",
    "size",
    "su",
    "sunit",
    "version",
];
const XFS_META: &[&str] = &[
    "autofsck",
    "bigtime",
    "crc",
    "finobt",
    "inobtcount",
    "metadir",
    "reflink",
    "rmapbt",
    "uuid",
];

const PROGRAMS: [Program; 5] = [
    Program {
        kinds: &["ext2", "ext3", "ext4"],
        flags: &["-F", "-j", "-q", "-v", "-K"],
        valued: &[
            plain("-b"),
            plain("-C"),
            plain("-g"),
            plain("-G"),
            plain("-i"),
            plain("-I"),
            plain("-m"),
            plain("-N"),
            plain("-O"),
            plain("-L"),
            plain("-U"),
            plain("-T"),
            plain("-r"),
            ("-E", Some(EXT_EXTENDED)),
            ("-J", Some(&["size", "fast_commit_size", "location"])),
        ],
    },
    Program {
        kinds: &["xfs"],
        flags: &["-f", "-q", "-K"],
        valued: &[
            plain("-L"),
            ("-b", Some(&["size"])),
            ("-d", Some(XFS_DATA)),
            ("-i", Some(XFS_INODE)),
            ("-l", Some(XFS_LOG)),
            ("-m", Some(XFS_META)),
            ("-n", Some(&["ftype", "parent", "size", "version"])),
            ("-s", Some(&["size"])),
        ],
    },
    Program {
        kinds: &["btrfs"],
        flags: &[
            "-f",
            "--force",
            "-q",
            "--quiet",
            "-v",
            "-K",
            "--nodiscard",
            "-M",
            "--mixed",
        ],
        valued: &[
            plain("-d"),
            plain("--data"),
            plain("-m"),
            plain("--metadata"),
            plain("-n"),
            plain("--nodesize"),
            plain("-s"),
            plain("--sectorsize"),
            plain("-L"),
            plain("--label"),
            plain("-O"),
            plain("--features"),
            plain("-R"),
            plain("--runtime-features"),
            plain("-U"),
            plain("--uuid"),
            plain("--csum"),
            plain("--checksum"),
            plain("-b"),
            plain("--byte-count"),
        ],
    },
    Program {
        kinds: &["f2fs"],
        flags: &["-f", "-q", "-m", "-r"],
        valued: &[
            plain("-a"),
            plain("-e"),
            plain("-E"),
            plain("-g"),
            plain("-i"),
            plain("-l"),
            plain("-o"),
            plain("-O"),
            plain("-s"),
            plain("-t"),
            plain("-w"),
            plain("-z"),
        ],
    },
    Program {
        kinds: &["vfat", "fat", "msdos"],
        flags: &["-a", "-I", "-v", "--invariant"],
        valued: &[
            plain("-b"),
            plain("-f"),
            plain("-F"),
            plain("-g"),
            plain("-h"),
            plain("-i"),
            plain("-M"),
            plain("-n"),
            plain("-r"),
            plain("-R"),
            plain("-s"),
            plain("-S"),
        ],
    },
];

/// Says which option of mkfs is not one that a specification may give, and why.
pub(super) fn check_mkfs(kind: &str, options: &[String]) -> Result<(), String> {
    if options.is_empty() {
        return Ok(());
    }
    let program = PROGRAMS.iter().find(|p| p.kinds.contains(&kind));
    let program = program.ok_or_else(|| {
        format!(
            "mkfs options for {kind}, expected none: which of them are harmless is not known here"
        )
    })?;
    let mut rest = options.iter().map(String::as_str);
    while let Some(option) = rest.next() {
        if program.flags.contains(&option) {
            continue;
        }
        let (valued, value) = program.valued(option).ok_or_else(|| {
            let known: Vec<&str> = program.names().collect();
            format!(
                "`{option}` for mkfs.{kind}, expected options of these, each apart: {}",
                known.join(" ")
            )
        })?;
        let value = match value {
            Some(value) => value,
            None => rest
                .next()
                .ok_or_else(|| format!("`{option}` for mkfs.{kind} without its value"))?,
        };
        check_value(kind, valued, value)?;
    }
    Ok(())
}

impl Program {
    fn names(&self) -> impl Iterator<Item = &'static str> {
        let valued = self.valued.iter().map(|(name, _)| *name);
        self.flags.iter().copied().chain(valued)
    }

    /// The option that takes a value, and the value where it stands in the same word.
    fn valued<'a>(&self, word: &'a str) -> Option<(&'static Valued, Option<&'a str>)> {
        self.valued.iter().find_map(|valued| {
            let rest = word.strip_prefix(valued.0)?;
            if rest.is_empty() {
                return Some((valued, None));
            }
            if valued.0.starts_with("--") {
                return Some((valued, Some(rest.strip_prefix('=')?)));
            }
            Some((valued, Some(rest)))
        })
    }
}

fn check_value(kind: &str, (option, keys): &Valued, value: &str) -> Result<(), String> {
    let of = || format!("`{option} {value}` for mkfs.{kind}");
    // A slash would begin a path, a dash an option whose value is missing.
    let harmless = |c: char| c.is_ascii_alphanumeric() || "_^,.=:%+-".contains(c);
    if value.is_empty() || value.starts_with('-') || !value.chars().all(harmless) {
        return Err(format!(
            "{}, expected a value of letters, digits and any of _ ^ , . = : % + -",
            of()
        ));
    }
    let Some(keys) = keys else { return Ok(()) };
    for item in value.split(',') {
        let key = item.split_once('=').map_or(item, |(key, _)| key);
        if !keys.contains(&key) {
            return Err(format!(
                "{} with `{key}`, expected of {}",
                of(),
                keys.join(", ")
            ));
        }
    }
    Ok(())
}

/// Mount options of every kind.
const MOUNT: &str = "async atime defaults diratime dev discard exec lazytime mand noatime nodev nodiratime nodiscard \
    noexec nolazytime nomand norelatime nostrictatime nosuid relatime ro rw strictatime suid sync";

/// Those of each kind beside them: how the file system keeps its data. None names a device, a file or a
/// directory, none attaches quota files by name.
const MOUNT_OF_KIND: [(&[&str], &str); 5] = [
    (
        &["ext2", "ext3", "ext4"],
        "acl auto_da_alloc barrier block_validity bsddf bsdgroups commit data data_err dax delalloc \
         dioread_lock dioread_nolock errors grpid grpquota i_version init_itable inode_readahead_blks \
         journal_async_commit journal_checksum journal_ioprio max_batch_time max_dir_size_kb mb_optimize_scan \
         min_batch_time minixdf no_mbcache no_prefetch_block_bitmaps noacl noauto_da_alloc nobarrier \
         noblock_validity nodelalloc nodioread_nolock nogrpid noinit_itable nojournal_checksum noload \
         nombcache noquota norecovery noreservation nouid32 nouser_xattr oldalloc orlov prefetch_block_bitmaps \
         prjquota quota reservation resgid resuid stripe sysvgroups user_xattr usrquota",
    ),
    (
        &["xfs"],
        "allocsize attr2 barrier bsdgroups dax filestreams gqnoenforce gquota grpid grpquota ikeep inode32 inode64 \
         largeio logbsize logbufs max_open_zones noalign noattr2 nobarrier nogrpid noikeep nolargeio \
         noquota norecovery nouuid pqnoenforce pquota prjquota qnoenforce quota sunit swalloc swidth \
         sysvgroups uqnoenforce uquota usrquota wsync",
    ),
    (
        &["btrfs"],
        "acl autodefrag barrier clear_cache commit compress compress-force datacow datasum degraded flushoncommit \
         max_inline metadata_ratio noacl noautodefrag nobarrier nodatacow nodatasum noflushoncommit \
         nologreplay norecovery nospace_cache nossd nossd_spread notreelog rescue skip_balance \
         space_cache ssd ssd_spread subvol subvolid thread_pool treelog usebackuproot \
         user_subvol_rm_allowed",
    ),
    (
        &["f2fs"],
        "acl active_logs age_extent_cache alloc_mode atgc background_gc barrier checkpoint checkpoint_merge \
         compress_algorithm compress_cache compress_chksum compress_extension compress_log_size compress_mode \
         data_flush disable_ext_identify disable_roll_forward discard_unit errors extent_cache fastboot \
         flush_merge fsync_mode gc_merge heap inline_data inline_dentry inline_xattr inline_xattr_size \
         io_bits memory mode no_heap noacl nobarrier nocheckpoint_merge nocompress_extension \
         noextent_cache noflush_merge nogc_merge noinline_data noinline_dentry noinline_xattr \
         norecovery nouser_xattr reserve_root resgid resuid user_xattr whint_mode",
    ),
    (
        &["vfat", "fat", "msdos"],
        "allow_utime check codepage dmask dos1xfloppy dots errors flush fmask gid iocharset nfs nodots \
         nonumtail quiet rodir shortname showexec sys_immutable time_offset tz uid umask uni_xlate \
         usefree utf8",
    ),
];

/// Says which mount option is not one that a specification may give.
pub(super) fn check_mount(kind: &str, options: &str) -> Result<(), String> {
    let of_kind = MOUNT_OF_KIND
        .iter()
        .find(|(kinds, _)| kinds.contains(&kind));
    let of_kind = of_kind.map_or("", |(_, names)| names);
    for option in options.split(',').filter(|option| !option.is_empty()) {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        let mut known = MOUNT.split_whitespace().chain(of_kind.split_whitespace());
        if !known.any(|name| name == key) {
            return Err(format!(
                "mount option `{option}`, expected options of {kind} that name no file and no other device"
            ));
        }
        let harmless = |c: char| c.is_ascii_alphanumeric() || "_.:%+-".contains(c);
        if !value.chars().all(harmless) {
            return Err(format!(
                "mount option `{option}`, expected a value of letters, digits and any of _ . : % + -"
            ));
        }
        if value == "panic" {
            return Err(format!(
                "mount option `{option}`, expected none that stops the machine"
            ));
        }
    }
    Ok(())
}

/// Says that a type of file system is not one that lies on a device, as the kernel tells of those it knows.
pub(super) fn check_kind(kind: &str) -> Result<(), String> {
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let without_device = known.lines().any(|line| {
        line.split_once('\t')
            .is_some_and(|(mark, name)| mark == "nodev" && name.trim() == kind)
    });
    if without_device || kind == "fuse" || kind == "fuseblk" || kind == "overlay" {
        return Err(format!(
            "{kind} does not lie on a device, expected a kind such as ext2, ext4, xfs or btrfs"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mkfs(kind: &str, line: &str) -> Result<(), String> {
        let options: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        check_mkfs(kind, &options)
    }

    #[test]
    fn what_says_how_the_file_system_is_may_be_given() {
        for (kind, line) in [
            ("ext4", "-O ^has_journal,extent -m 0"),
            (
                "ext4",
                "-b4096 -I 256 -E stride=4,lazy_itable_init=0 -J size=16",
            ),
            (
                "ext4",
                "-E encoding=utf8-12.1 -T largefile -L data -U random",
            ),
            (
                "xfs",
                "-b size=4096 -m crc=1,reflink=0 -l size=64m -d agcount=4 -K",
            ),
            (
                "btrfs",
                "-m single --data=single -n 16k --csum xxhash -O ^no-holes",
            ),
            ("f2fs", "-l x -O encrypt"),
            ("vfat", "-F 32 -n DATA"),
            ("minix", ""),
        ] {
            assert_eq!(mkfs(kind, line), Ok(()), "{kind} {line}");
        }
    }

    #[test]
    fn nothing_else_may_be_named() {
        for (kind, line) in [
            // An operand, and one that makes the device a label.
            ("ext4", "/dev/loop9 -L"),
            ("ext4", "/dev/loop9"),
            ("ext4", "loop9"),
            ("ext4", "-L"),
            ("ext4", "-b"),
            ("ext4", "-L -F"),
            ("ext4", "--"),
            ("ext4", "-- -L x"),
            ("ext4", "-d /etc"),
            ("ext4", "-d etc"),
            ("ext4", "-l list"),
            ("ext4", "-z undo"),
            ("ext4", "-J device=LABEL=x"),
            ("ext4", "-J size=4,device=UUID=x"),
            ("ext4", "-E mount_opts=journal_path=x"),
            ("ext4", "-E offset=4096"),
            ("ext4", "-qd etc"),
            ("ext4", "-n"),
            ("ext4", "-c"),
            ("ext4", "-e panic"),
            ("ext4", "-T ../x/y"),
            ("xfs", "-l logdev=loop9"),
            ("xfs", "-l size=64m,logdev=loop9"),
            ("xfs", "-r rtdev=loop9"),
            ("xfs", "-d name=loop9"),
            ("xfs", "-d file=1"),
            ("xfs", "-p proto"),
            ("xfs", "-c options=x"),
            ("xfs", "-N"),
            ("btrfs", "--rootdir etc"),
            ("btrfs", "--rootdir=etc"),
            ("btrfs", "-r etc"),
            ("btrfs", "loop9"),
            ("btrfs", "--subvol x"),
            ("f2fs", "-c loop9"),
            ("vfat", "-C x"),
            ("vfat", "-l x"),
            ("minix", "-i 4"),
            ("vfat", "-n $(id)"),
        ] {
            assert!(mkfs(kind, line).is_err(), "{kind} {line}");
        }
    }

    #[test]
    fn a_mount_names_no_other_device() {
        for (kind, good) in [
            ("ext4", ""),
            ("ext4", "noatime,data=journal"),
            ("btrfs", "compress=zstd:3,ssd"),
            ("xfs", "logbsize=256k"),
            ("ext4", "errors=remount-ro"),
            ("minix", "noatime"),
        ] {
            assert_eq!(check_mount(kind, good), Ok(()), "{kind} {good}");
        }
        for bad in [
            "journal_path=x",
            "noatime,journal_dev=1793",
            "logdev=loop9",
            "rtdev=loop9",
            "device=loop9",
            "loop",
            "x=/dev/loop9",
            "lowerdir=a",
            "fd=3",
            "errors=panic",
            "usrjquota=aquota.user",
            "grpjquota=aquota.group,jqfmt=vfsv0",
            "no_such_option",
            "commit=/etc",
        ] {
            for kind in ["ext4", "xfs", "btrfs", "f2fs", "vfat", "minix"] {
                assert!(check_mount(kind, bad).is_err(), "{kind} {bad}");
            }
        }
        // What another kind takes.
        assert!(check_mount("ext4", "logbsize=256k").is_err());
    }

    #[test]
    fn a_kind_lies_on_a_device() {
        assert_eq!(check_kind("ext4"), Ok(()));
        for kind in ["proc", "tmpfs", "overlay", "fuse"] {
            assert!(check_kind(kind).is_err(), "{kind}");
        }
    }
}
