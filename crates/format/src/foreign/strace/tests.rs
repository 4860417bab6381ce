use std::path::Path;

use fsage_core::lock::{fcntl_lock_flags, flock_flags};
use fsage_core::{
    COPY_SHARES, COPY_WHOLE_BLOCKS, Errno, Fd, Op, OpFlags, OpKind, OpSink, OpSource, Pid, Tid,
};
use proptest::prelude::*;

use super::*;

fn import(text: &[u8]) -> Result<(Vec<Op>, StraceSource<&[u8]>), FormatError> {
    let mut source = StraceSource::new(text, Path::new("t.strace"));
    let mut ops = Vec::new();
    while source.read_ops(&mut ops)? > 0 {}
    Ok((ops, source))
}

fn ops_of(text: &str) -> (Vec<Op>, StraceSource<&[u8]>) {
    let (ops, source) = import(text.as_bytes()).unwrap();
    assert_eq!(source.report().skipped_lines, 0, "{:?}", source.report());
    (ops, source)
}

fn kinds(ops: &[Op]) -> Vec<&'static str> {
    ops.iter().map(|op| op.kind.name()).collect()
}

const COPY: &str = r#"10 5.000000 openat(AT_FDCWD</w>, "a", O_RDONLY) = 3</w/a> <0.000010>
10 5.000100 fstat(3</w/a>, {st_mode=S_IFREG|0644, st_size=10000, ...}) = 0 <0.000001>
10 5.000200 openat(AT_FDCWD</w>, "b", O_WRONLY|O_CREAT|O_TRUNC, 0644) = 4</w/b> <0.000020>
10 5.000300 read(3</w/a>, "\0\1abc"..., 8192) = 8192 <0.000003>
10 5.000400 write(4</w/b>, "\0\1abc"..., 8192) = 8192 <0.000004>
10 5.000500 read(3</w/a>, "x"..., 8192) = 1808 <0.000003>
10 5.000600 write(4</w/b>, "x"..., 1808) = 1808 <0.000004>
10 5.000700 pread64(3</w/a>, ""..., 512, 4096) = 512 <0.000002>
10 5.000800 lseek(3</w/a>, -100, SEEK_END) = 9900 <0.000001>
10 5.000900 read(3</w/a>, "y", 200) = 100 <0.000001>
10 5.001000 close(3</w/a>) = 0 <0.000001>
10 5.001100 close(4</w/b>) = 0 <0.000001>
10 5.001200 unlink("b") = 0 <0.000050>
10 5.001300 unlink("b") = -1 ENOENT (No such file or directory) <0.000005>
10 5.001400 +++ exited with 0 +++
"#;

#[test]
fn offsets_sizes_and_directories_are_reconstructed() {
    for text in [COPY.to_owned(), without_paths(COPY)] {
        let (ops, source) = ops_of(&text);
        let reads: Vec<_> = ops
            .iter()
            .filter(|op| op.kind == OpKind::Read)
            .map(|op| op.offset.unwrap())
            .collect();
        assert_eq!(reads, vec![0, 8192, 4096, 9900]);
        let writes: Vec<_> = ops
            .iter()
            .filter(|op| op.kind == OpKind::Write)
            .map(|op| (op.offset.unwrap(), op.size_bytes.unwrap()))
            .collect();
        assert_eq!(writes, vec![(0, 0), (8192, 8192)]);
        let unlink = ops.iter().find(|op| op.kind == OpKind::Unlink).unwrap();
        assert_eq!(unlink.size_bytes, Some(10_000));
        assert_eq!(unlink.latency_ns, Some(50_000));
        assert_eq!(unlink.start_ns, 1_200_000);
        assert_eq!(ops[13].result.errno(), Some(Errno::ENOENT));
        assert_eq!((ops[14].kind, ops[14].length), (OpKind::Exit, Some(1)));
        let dir = unlink.dir.map(|dir| source.paths().get(dir).to_vec());
        assert_eq!(dir, text.contains("</w>").then(|| b"/w".to_vec()));
        assert_eq!(source.report().start_unix_ns, Some(5_000_000_000));
    }
}

/// The text without what `-y` adds.
fn without_paths(text: &str) -> String {
    let mut out = String::new();
    let mut depth = 0;
    let chars: Vec<char> = text.chars().collect();
    for (at, &c) in chars.iter().enumerate() {
        let path = c == '<' && chars.get(at + 1) == Some(&'/');
        if path || depth > 0 {
            depth = i32::from(c != '>');
        } else {
            out.push(c);
        }
    }
    out
}

#[test]
fn a_directory_can_be_the_root_of_a_name() {
    let text = r#"1 1.000001 openat(AT_FDCWD</>, "/srv", O_RDONLY|O_DIRECTORY) = 3</srv> <0.000001>
1 1.000002 openat2(3</srv>, "/etc/x", {flags=O_RDONLY, resolve=RESOLVE_NO_MAGICLINKS|RESOLVE_IN_ROOT}, 24) = 4</srv/etc/x>
1 1.000003 openat2(3</srv>, "a/../../x", {flags=O_RDONLY, resolve=RESOLVE_IN_ROOT}, 24) = -1 ENOENT (No such file or directory)
1 1.000004 openat2(3</srv>, "/etc/y", {flags=O_RDONLY, resolve=RESOLVE_BENEATH}, 24) = -1 EXDEV (Invalid cross-device link)
1 1.000005 open_tree(3</srv>, "etc", OPEN_TREE_CLOEXEC) = 5</srv/etc> <0.000001>
1 1.000006 openat(5, "x", O_RDONLY) = 6</srv/etc/x> <0.000001>
"#;
    let (ops, source) = ops_of(text);
    let names: Vec<_> = ops
        .iter()
        .map(|op| {
            let text = |id: Option<fsage_core::PathId>| {
                id.map_or_else(String::new, |id| {
                    String::from_utf8_lossy(source.paths().get(id)).into_owned()
                })
            };
            (text(op.dir), text(op.path))
        })
        .collect();
    let expected = [
        ("", "/srv"),
        ("/srv", "etc/x"),
        ("/srv", "x"),
        ("", "/etc/y"),
        ("/srv", "etc"),
        ("/srv/etc", "x"),
    ];
    assert_eq!(
        names,
        expected.map(|(dir, path)| (dir.to_owned(), path.to_owned()))
    );
    assert_eq!(ops[1].file, ops[5].file);
}

#[test]
fn relative_times_are_refused() {
    let line = |blanks: &str, n: u32| {
        format!(
            "11234 {blanks}0.{:06} close({n}) = 0\n",
            if n == 0 { 0 } else { 999 - n }
        )
    };
    for blanks in ["     ", ""] {
        let text: String = (0..40).map(|n| line(blanks, n)).collect();
        let error = import(text.as_bytes()).unwrap_err().to_string();
        assert!(
            error.contains("`strace -ttt`") && error.contains("`strace -r`"),
            "{error}"
        );
    }
}

#[test]
fn interrupted_calls_come_back_in_the_order_of_their_start() {
    let text = r#"1 1.000001 read(3<pipe:[5]>,  <unfinished ...>
2 1.000002 openat(AT_FDCWD</>, "x", O_RDONLY <unfinished ...>
1 1.000003 <... read resumed>"ab", 2) = 2 <0.000002>
2 1.000004 <... openat resumed>) = 5</x> <0.000002>
1 1.000005 close(3<pipe:[5]>) = 0 <0.000001>
"#;
    let (ops, source) = ops_of(text);
    // A pipe's are no file system's.
    assert_eq!(kinds(&ops), ["open"]);
    assert_eq!(source.report().not_files, 2);
    assert_eq!((ops[0].start_ns, ops[0].result.value()), (1000, Some(5)));
    assert!(ops[0].file.is_some());
}

#[test]
fn what_is_no_file_is_left_out_and_counted() {
    let text = r#"1 1.000001 pipe2( <unfinished ...>
2 1.000002 read(0<pipe:[138106]>,  <unfinished ...>
1 1.000003 <... pipe2 resumed>[4<pipe:[138114]>, 5<pipe:[138114]>], 0) = 0 <0.000014>
1 1.000004 dup2(4<pipe:[138114]>, 1</out> <unfinished ...>
2 1.000005 <... read resumed>"045\n"..., 4096) = 4 <1.500000>
1 1.000006 <... dup2 resumed>)             = 1<pipe:[138114]> <0.000012>
1 1.000007 write(1<pipe:[138114]>, "x", 1) = 1 <0.000003>
1 1.000008 socket(AF_INET, SOCK_STREAM, IPPROTO_TCP) = 6<TCP:[140000]> <0.000010>
1 1.000009 recvfrom(6<TCP:[127.0.0.1:5->127.0.0.1:6]>, "a", 1, 0, NULL, NULL) = 1 <0.3>
1 1.000010 read(6<UNIX-STREAM:[17->18,"/run/a (deleted)"]>, "a", 1) = 1 <0.3>
1 1.000011 epoll_wait(7<anon_inode:[eventpoll]>, [], 1, 10) = 0 <0.010>
1 1.000012 read(8<anon_inode:[eventfd]>, "", 8) = 8 <0.2>
1 1.000013 write(9</memfd:x>(deleted), "hello", 5) = 5 <0.000002>
1 1.000014 read(3</w/gone>(deleted), "hello", 5) = 5 <0.000002>
1 1.000015 close(1<pipe:[138114]>) = 0 <0.000001>
1 1.000016 openat(AT_FDCWD</w>, "/dev/null", O_WRONLY) = 1</dev/null<char 1:3>> <0.000004>
1 1.000017 write(1</dev/null<char 1:3>>, "x", 1) = 1 <0.000001>
"#;
    let (ops, source) = ops_of(text);
    assert_eq!(
        kinds(&ops),
        ["read", "open"],
        "of a file whose name is gone"
    );
    assert_eq!((ops[0].fd, ops[0].latency_ns), (Some(Fd(3)), Some(2000)));
    assert_eq!(source.report().not_files, 8);
    assert_eq!(source.report().skipped_lines, 0);
}

#[test]
fn what_lies_elsewhere_is_left_out_if_so_asked() {
    let text = r#"1 1.000001 openat(AT_FDCWD</w>, "a/x", O_RDWR|O_CREAT, 0666) = 3</w/a/x> <0.1>
1 1.000002 openat(AT_FDCWD</w>, "/etc/hosts", O_RDONLY) = 4</etc/hosts> <0.1>
1 1.000003 read(4</etc/hosts>, "h", 1) = 1 <0.1>
1 1.000004 write(3</w/a/x>, "h", 1) = 1 <0.1>
1 1.000005 rename("/tmp/n", "/w/a/n") = 0 <0.1>
1 1.000006 stat("/w/ab", 0x1) = -1 ENOENT (No such file or directory) <0.1>
1 1.000007 stat("/w/a/../a/none", 0x1) = -1 ENOENT (No such file or directory) <0.1>
1 1.000008 clone(child_stack=NULL, flags=SIGCHLD) = 9 <0.1>
1 1.000009 sync() = 0 <0.1>
9 1.000010 write(3</w/a/x>, "h", 1) = 1 <0.1>
"#;
    let mut source =
        StraceSource::new(text.as_bytes(), Path::new("x")).under(&[b"/w/./a/".to_vec()]);
    let mut ops = Vec::new();
    while source.read_ops(&mut ops).unwrap() > 0 {}
    let expected = ["open", "write", "rename", "stat", "fork", "sync", "write"];
    assert_eq!(kinds(&ops), expected);
    assert_eq!(source.report().outside, 3);
}

/// `cp` on a file system that shares blocks, as strace 6.1 prints it.
#[test]
fn copies_that_share_blocks_are_copies_of_all_that_there_is() {
    let text = r#"1 1.000001 openat(AT_FDCWD, "/w/x", O_RDONLY) = 3</w/x>
1 1.000002 fstat(3</w/x>, {st_mode=S_IFREG|0644, st_size=5000, ...}) = 0
1 1.000003 openat(AT_FDCWD, "/w/y", O_WRONLY|O_CREAT|O_EXCL, 0644) = 4</w/y>
1 1.000004 fstat(4</w/y>, {st_mode=S_IFREG|0644, st_size=0, ...}) = 0
1 1.000005 ioctl(4</w/y>, BTRFS_IOC_CLONE or FICLONE, 3) = 0 <0.2>
1 1.000006 ioctl(4</w/y>, FICLONERANGE, {src_fd=3</w/x>, src_offset=4096, src_length=100, dest_offset=8192}) = 0
1 1.000007 ioctl(4</w/y>, FICLONE, 3) = -1 EOPNOTSUPP (Operation not supported)
1 1.000008 ioctl(1</dev/pts/0<char 136:0>>, TCGETS, {B38400 opost isig icanon echo ...}) = 0
"#;
    let (ops, _) = ops_of(text);
    let copies = |op: &&Op| matches!(op.kind, OpKind::CopyIn | OpKind::CopyOut);
    let found: Vec<_> = ops
        .iter()
        .filter(copies)
        .map(|op| {
            (
                op.kind.name(),
                op.fd.unwrap().0,
                op.offset.unwrap(),
                op.length.unwrap(),
                op.flags,
            )
        })
        .collect();
    let whole = COPY_SHARES | COPY_WHOLE_BLOCKS;
    assert_eq!(
        found,
        [
            ("copy_in", 3, 0, 5000, whole),
            ("copy_out", 4, 0, 5000, whole),
            ("copy_in", 3, 4096, 100, COPY_SHARES),
            ("copy_out", 4, 8192, 100, COPY_SHARES),
        ]
    );
}

/// What flags make of an operation is still so in a text that was written of it.
#[test]
fn flags_of_reads_writes_and_copies_come_back() {
    let text = r#"1 1.000001 openat(AT_FDCWD</w>, "a b", O_RDWR|O_CREAT|O_TRUNC, 0600) = 3</w/a b> <0.1>
1 1.000002 openat(AT_FDCWD</w>, "c", O_RDWR|O_CREAT|O_TRUNC, 0600) = 4</w/c> <0.1>
1 1.000003 pwritev2(3</w/a b>, [{iov_base="x"..., iov_len=4000}, {iov_base="y"..., iov_len=1000}], 2, 0, RWF_DSYNC) = 5000 <0.2>
1 1.000004 pwritev2(3</w/a b>, [{iov_base="x"..., iov_len=4096}], 1, -1, RWF_SYNC) = 4096 <0.2>
1 1.000005 preadv2(3</w/a b>, [{iov_base="x"..., iov_len=100}], 1, 10, RWF_NOWAIT) = -1 EAGAIN (Resource temporarily unavailable) <0.2>
1 1.000006 pwrite64(3</w/a b>, "x"..., 10, 0) = 10 <0.1>
1 1.000007 ioctl(4</w/c>, BTRFS_IOC_CLONE or FICLONE, 3</w/a b>) = 0 <0.3>
1 1.000008 ioctl(4</w/c>, BTRFS_IOC_CLONE_RANGE or FICLONERANGE, {src_fd=3</w/a b>, src_offset=0, src_length=4096, dest_offset=8192}) = 0 <0.3>
1 1.000009 copy_file_range(3</w/a b>, [0], 4</w/c>, [0], 100, 0) = 100 <0.3>
"#;
    let (ops, source) = ops_of(text);
    let mut written = Vec::new();
    let mut sink = StraceSink::new(&mut written, Path::new("out"), 1_000_001_000);
    for op in &ops {
        sink.push(op, source.paths()).unwrap();
    }
    assert!(sink.finish().unwrap().is_empty());
    let (again, _) = ops_of(std::str::from_utf8(&written).unwrap());
    let of = |ops: &[Op]| {
        let of = |op: &Op| {
            let range = (op.offset, op.length, op.result);
            (op.kind, op.fd, op.flags, range, op.latency_ns, op.record)
        };
        ops.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(of(&again), of(&ops));
    let flags: Vec<u32> = ops.iter().skip(2).map(|op| op.flags).collect();
    let shares = COPY_SHARES | COPY_WHOLE_BLOCKS;
    assert_eq!(flags, [2, 4, 8, 0, shares, shares, shares, shares, 0, 0]);
}

#[test]
fn a_line_that_is_cut_is_skipped_and_told() {
    let first = "1 1.000001 close(3</w/a>) = 0\n";
    for (last, whole) in [
        (r#"1 1.000002 read(4</w/b>, "x"..., 4096) = 4"#, false),
        (
            r#"1 1.000002 read(4</w/b>, "x"..., 4096) = 4096 <0.0"#,
            false,
        ),
        (r#"1 1.000002 read(4</w/b>, "x"..., 40"#, false),
        (
            r#"1 1.000002 read(4</w/b>, "x"..., 4096) = 4096 <0.000004>"#,
            true,
        ),
        (
            "1 1.000002 unlink(\"b\") = -1 ENOENT (No such file or directory)",
            true,
        ),
        ("1 1.000002 +++ exited with 0 +++", true),
    ] {
        let text = [first, last].concat();
        let (ops, source) = import(text.as_bytes()).unwrap();
        assert_eq!(ops.len(), 1 + usize::from(whole), "{last}");
        let report = source.report();
        assert_eq!(report.skipped_lines, u64::from(!whole), "{last}");
        if !whole {
            let said = &report.first_skipped[0];
            assert!(
                said.starts_with("line 2: expected the end of the line"),
                "{said}"
            );
        }
    }
}

/// What [`a_file_without_a_name_is_none_of_its_directory`] expects of both texts.
fn without_name(text: &str) -> (Vec<Op>, StraceSource<&[u8]>) {
    let mut source =
        StraceSource::new(text.as_bytes(), Path::new("x")).under(&[b"/tmp/tt".to_vec()]);
    let mut ops = Vec::new();
    while source.read_ops(&mut ops).unwrap() > 0 {}
    assert_eq!((ops.len(), source.report().outside), (12, 0));
    let (dir, file) = (ops[0].file, ops[1].file);
    assert!(file.is_some() && dir != file);
    let files: Vec<bool> = ops[1..11].iter().map(|op| op.file == file).collect();
    let its = [true, true, true, true, true, true, true, false, true, true];
    assert_eq!(files, its);
    assert_eq!(ops[8].file, dir, "of the directory itself");
    assert!(ops[11].file != file && ops[11].file != dir, "another file");
    for (link, old, new) in [
        (&ops[3], None, "tmp"),
        (&ops[4], Some("/tmp/tt/tmp"), "/tmp/tt/more"),
    ] {
        let name = |id: Option<fsage_core::PathId>| {
            id.map(|id| String::from_utf8_lossy(source.paths().get(id)).into_owned())
        };
        assert_eq!((link.kind, link.fd), (OpKind::Link, Some(Fd(3))));
        assert_eq!(link.flags, fsage_namespace::flags::AT_EMPTY_PATH);
        assert_eq!(name(link.path).as_deref(), old);
        assert_eq!(name(link.path2).as_deref(), Some(new));
    }
    (ops, source)
}

/// As the real strace prints it: nothing happens to the directory, and what is given a name in the end is what was written.
#[test]
fn a_file_without_a_name_is_none_of_its_directory() {
    let text = r#"1 1.000001 openat(AT_FDCWD</tmp/tt>, ".", O_RDONLY|O_DIRECTORY) = 4</tmp/tt> <0.1>
1 1.000002 openat(AT_FDCWD</tmp/tt>, ".", O_RDWR|O_TMPFILE, 0600) = 3</tmp/tt/#99>(deleted) <0.1>
1 1.000003 write(3</tmp/tt/#99>(deleted), "hello", 5) = 5 <0.1>
1 1.000004 linkat(AT_FDCWD</tmp/tt>, "/proc/self/fd/3", AT_FDCWD</tmp/tt>, "tmp", AT_SYMLINK_FOLLOW) = 0 <0.1>
1 1.000005 linkat(3</tmp/tt/#99>(deleted), "", AT_FDCWD</tmp/tt>, "/tmp/tt/more", AT_EMPTY_PATH) = 0 <0.1>
1 1.000006 fsync(3</tmp/tt/#99>(deleted)) = 0 <0.1>
1 1.000007 openat(AT_FDCWD</tmp/tt>, "/dev/fd/3", O_RDONLY) = 5</tmp/tt/#99>(deleted) <0.1>
1 1.000008 fstat(5</tmp/tt/#99>(deleted), {st_mode=S_IFREG|0600, st_size=5, ...}) = 0 <0.1>
1 1.000009 statfs(".", 0x1) = 0 <0.1>
1 1.000010 stat("tmp", {st_mode=S_IFREG|0600, st_size=5, ...}) = 0 <0.1>
1 1.000011 openat(AT_FDCWD</tmp/tt>, "/proc/self/cwd/tmp", O_RDONLY) = 6</tmp/tt/tmp> <0.1>
1 1.000012 openat(AT_FDCWD</tmp/tt>, ".", O_RDWR|O_TMPFILE, 0600) = 7</tmp/tt/#99>(deleted) <0.1>
"#;
    let (ops, source) = without_name(text);
    let mut written = Vec::new();
    let mut sink = StraceSink::new(&mut written, Path::new("out"), 1_000_001_000);
    for op in &ops {
        sink.push(op, source.paths()).unwrap();
    }
    assert!(sink.finish().unwrap().is_empty());
    without_name(std::str::from_utf8(&written).unwrap());
}

#[test]
fn the_half_of_a_copy_that_is_wanted_has_its_time() {
    let text = r#"1 1.000001 copy_file_range(4</etc/hosts>, NULL, 3</w/a/x>, NULL, 100, 0) = 10 <0.1>
1 1.000002 copy_file_range(3</w/a/x>, NULL, 4</etc/hosts>, NULL, 100, 0) = 10 <0.2>
1 1.000003 copy_file_range(3</w/a/x>, NULL, 5</w/a/y>, NULL, 100, 0) = 10 <0.3>
1 1.000004 sendfile(3</w/a/x>, 4</etc/hosts>, NULL, 100) = 10 <0.1>
1 1.000005 splice(4</etc/hosts>, NULL, 6<pipe:[1]>, NULL, 100, 0) = 10 <0.1>
1 1.000006 rename("/tmp/x", "/w/a/z") = 0 <0.4>
"#;
    let mut source = StraceSource::new(text.as_bytes(), Path::new("x")).under(&[b"/w/a".to_vec()]);
    let mut ops = Vec::new();
    while source.read_ops(&mut ops).unwrap() > 0 {}
    let expected = [
        "copy_out", "copy_in", "copy_in", "copy_out", "copy_out", "rename",
    ];
    assert_eq!(kinds(&ops), expected);
    let latencies: Vec<u64> = ops
        .iter()
        .map(|op| op.latency_ns.unwrap() / 100_000_000)
        .collect();
    assert_eq!(latencies, [1, 2, 3, 0, 1, 4]);
    assert_eq!(source.report().outside, 4);
}

#[test]
fn threads_share_what_clone_says_and_children_may_come_first() {
    let text = r#"1 1.000001 openat(AT_FDCWD, "/f", O_RDWR) = 3 <0.1>
1 1.000002 clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_SIGHAND|CLONE_THREAD, exit_signal=0} <unfinished ...>
strace: Process 2 attached
2 1.000003 read(3, "a", 1) = 1 <0.000001>
1 1.000004 <... clone3 resumed> => {parent_tid=[2]}, 88) = 2 <0.000003>
1 1.000005 read(3, "b", 1) = 1 <0.000001>
2 1.000006 close(3) = 0 <0.000001>
1 1.000007 clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLD, child_tidptr=0x1) = 9 <0.1>
9 1.000008 chdir("/d") = 0 <0.000001>
1 1.000009 read(3, "c", 1) = -1 EBADF (Bad file descriptor) <0.000001>
2 1.000010 +++ exited with 0 +++
9 1.000011 +++ killed by SIGKILL +++
1 1.000012 +++ exited with 3 +++
"#;
    let (ops, _) = ops_of(text);
    let reads: Vec<_> = ops.iter().filter(|op| op.kind == OpKind::Read).collect();
    assert_eq!(
        (reads[0].pid, reads[0].tid, reads[0].offset),
        (Pid(1), Tid(2), Some(0))
    );
    assert_eq!((reads[1].offset, reads[1].file), (Some(1), reads[0].file));
    assert_eq!(
        (reads[2].file, reads[2].result.errno()),
        (None, Some(Errno::EBADF))
    );
    let forks: Vec<_> = ops.iter().filter(|op| op.kind == OpKind::Fork).collect();
    assert_eq!((forks[0].length, forks[1].length), (Some(1), Some(9)));
    assert!(forks[0].flags & 0x1_0000 != 0);
    let exits: Vec<_> = ops
        .iter()
        .filter(|op| op.kind == OpKind::Exit)
        .map(|op| op.length.unwrap())
        .collect();
    assert_eq!(exits, [0, 1, 1]);
}

#[test]
fn descriptors_without_a_process_column_and_with_pid_in_brackets() {
    let text = r#"1.000001 openat(AT_FDCWD, "/f", O_RDONLY) = 3 <0.1>
1.000002 fork() = 8 <0.1>
[pid     7] 1.000003 read(3, "b", 1) = 1 <0.000001>
[pid     8] 1.000004 read(3, "b", 1) = 1 <0.000001>
[pid     8] 1.000005 +++ exited with 0 +++
1.000006 close(3) = 0 <0.000001>
"#;
    let (ops, _) = ops_of(text);
    assert_eq!(ops[2].file, ops[0].file);
    assert_eq!((ops[3].pid, ops[3].offset), (Pid(8), Some(1)));
    assert_eq!((ops[5].pid, ops[5].fd), (Pid(7), Some(Fd(3))));
}

/// The captured calls that [`COPY`] lacks, and a few that are not captured.
#[test]
fn paths_below_a_root_of_its_own_are_everybodys() {
    let text = r#"1 1.000001 chdir("/srv") = 0 <0.000001>
1 1.000002 chroot("new") = 0 <0.000001>
1 1.000003 openat(AT_FDCWD, "/etc/x", O_RDONLY) = 3 <0.000001>
1 1.000004 rename("/a", "/../b") = 0 <0.000001>
1 1.000005 symlink("/text", "/s") = 0 <0.000001>
1 1.000006 clone(child_stack=NULL, flags=SIGCHLD) = 2 <0.000001>
2 1.000007 chroot("/in") = -1 ENOENT (No such file or directory) <0.000001>
2 1.000008 chdir("/") = 0 <0.000001>
2 1.000009 mkdir("d", 0755) = 0 <0.000001>
1 1.000010 chroot("..") = 0 <0.000001>
1 1.000011 unlink("/x") = 0 <0.000001>
"#;
    let (ops, source) = ops_of(text);
    let path = |id: Option<_>| source.paths().display(id.unwrap()).into_owned();
    let named: Vec<_> = ops
        .iter()
        .filter(|op| op.path.is_some())
        .map(|op| {
            (
                op.dir.map_or_else(String::new, |dir| path(Some(dir))),
                path(op.path),
            )
        })
        .collect();
    let expected = [
        ("", "/srv"),
        ("", "/srv/new/etc/x"),
        ("", "/srv/new/a"),
        ("", "/srv/new/s"),
        ("", "/srv/new"),
        ("/srv/new", "d"),
        ("", "/x"),
    ];
    assert_eq!(
        named,
        expected.map(|(dir, name)| (dir.to_owned(), name.to_owned()))
    );
    assert_eq!(path(ops[2].path2), "/srv/new/b");
    assert_eq!(path(ops[3].path2), "/text");
}

const CALLS: &str = r#"1 1.000000 getcwd("/w", 4096) = 3
1 1.000001 mkdir("d", 0755) = 0
1 1.000002 renameat2(AT_FDCWD, "d", AT_FDCWD, "e", RENAME_NOREPLACE) = 0
1 1.000003 unlinkat(AT_FDCWD, "e", AT_REMOVEDIR) = 0
1 1.000004 symlink("tt", "l") = 0
1 1.000005 readlink("l", "tt", 64) = 2
1 1.000006 link("a", "b") = 0
1 1.000007 chmod("a", 0600) = 0
1 1.000008 lchown("a", -1, 7) = 0
1 1.000009 utimensat(AT_FDCWD, "a", NULL, 0) = 0
1 1.000010 openat(AT_FDCWD, "a", O_RDWR) = 3
1 1.000011 utimensat(3, NULL, NULL, 0) = 0
1 1.000012 setxattr("a", "user.x", "v", 1, 0) = 0
1 1.000013 flistxattr(3, NULL, 0) = 7
1 1.000014 statfs(".", {f_type=EXT2_SUPER_MAGIC}) = 0
1 1.000015 fallocate(3, FALLOC_FL_KEEP_SIZE, 0, 100) = 0
1 1.000016 sync_file_range(3, 0, 4096, SYNC_FILE_RANGE_WRITE) = 0
1 1.000017 fdatasync(3) = 0
1 1.000018 mmap(NULL, 8192, PROT_READ, MAP_SHARED, 3, 0x1000) = 0x7f0000000000
1 1.000019 msync(0x7f0000001000, 4096, MS_SYNC) = 0
1 1.000020 munmap(0x7f0000000000, 8192) = 0
1 1.000021 copy_file_range(3, [0], 3, [50], 40, 0) = 40
1 1.000022 sendfile(1, 3, [0] => [1], 1) = 1
1 1.000023 fcntl(3, F_SETLKW, {l_type=F_WRLCK, l_whence=SEEK_SET, l_start=0, l_len=0}) = 0
1 1.000024 fadvise64(3, 0, 10, POSIX_FADV_DONTNEED) = 0
1 1.000025 fcntl(3, F_DUPFD_CLOEXEC, 10) = 11
1 1.000026 newfstatat(3, "", {st_mode=S_IFREG|0644, st_size=90, ...}, AT_EMPTY_PATH) = 0
1 1.000027 statx(AT_FDCWD, "a", AT_SYMLINK_NOFOLLOW, STATX_ALL, {stx_mask=STATX_ALL, stx_mode=S_IFREG|0644, stx_size=90, ...}) = 0
1 1.000028 faccessat2(AT_FDCWD, "a", R_OK|X_OK, AT_EACCESS) = 0
1 1.000029 openat(AT_FDCWD, ".", O_RDONLY|O_DIRECTORY) = 4
1 1.000030 getdents64(4, 0x55 /* 3 entries */, 32768) = 72
1 1.000031 fchdir(4) = 0
1 1.000032 flock(3, LOCK_EX|LOCK_NB) = 0
1 1.000033 readv(3, [{iov_base="", iov_len=5}, {iov_base="", iov_len=6}], 2) = 0
1 1.000034 sync() = 0
1 1.000035 execve("/bin/true", ["true"], 0x1 /* 3 vars */) = 0
1 1.000036 close_range(3, 4294967295, 0) = 0
1 1.000037 mknodat(AT_FDCWD, "p", S_IFIFO|0600) = 0
1 1.000038 brk(NULL) = 0x55
1 1.000039 read(0, 0x1, 5) = ? ERESTARTSYS (To be restarted)
1 1.000040 exit_group(0) = ?
"#;

#[test]
fn every_other_captured_call_has_its_kind() {
    let (ops, source) = ops_of(CALLS);
    let expected = "mkdir rename rmdir symlink readlink link chmod chown utimens open futimens setxattr \
        listxattr statfs fallocate sync_file_range fdatasync mmap msync munmap copy_in copy_out \
        sendfile lock advise dup fstat stat access open readdir fchdir lock read sync exec close \
        close mknod read";
    assert_eq!(kinds(&ops).join(" "), expected);
    let of = |kind| ops.iter().find(|op| op.kind == kind).unwrap();
    assert_eq!(of(OpKind::Chown).offset, Some(u64::from(u32::MAX)));
    assert_eq!(
        (of(OpKind::Msync).offset, of(OpKind::Msync).length),
        (Some(0x2000), Some(4096))
    );
    assert_eq!(of(OpKind::Munmap).offset, Some(0x1000));
    assert_eq!(
        (of(OpKind::CopyOut).offset, of(OpKind::CopyOut).size_bytes),
        (Some(50), None)
    );
    assert_eq!(
        (of(OpKind::Stat).size_bytes, of(OpKind::Stat).flags),
        (Some(90), 0x100)
    );
    assert_eq!(of(OpKind::Access).flags, 5);
    let locks = ops.iter().filter(|op| op.kind == OpKind::Lock);
    let locks: Vec<_> = locks.map(|op| (op.flags, op.offset, op.length)).collect();
    assert_eq!(
        locks,
        [
            (fcntl_lock_flags(7, Some((1, 0))), Some(0), Some(0)),
            (flock_flags(2 | 4), None, None)
        ]
    );
    assert!(of(OpKind::Readdir).record.contains(OpFlags::DIRECTORY));
    assert_eq!(of(OpKind::Read).length, Some(11));
    assert_eq!(of(OpKind::Mmap).flags, 1 | (1 << 8));
    assert_eq!(ops.last().unwrap().result.errno(), Some(Errno::EINTR));
    assert_eq!(
        source.report().no_file_calls.keys().collect::<Vec<_>>(),
        ["brk", "exit_group"]
    );
    assert!(source.report().other_calls.is_empty());
}

#[test]
fn locks_are_told_with_their_types_and_ranges() {
    let lock = |command: &str, lock: &str| {
        let text = format!("1 1.0 fcntl(3, {command}{lock}) = 0\n");
        let (ops, _) = ops_of(&text);
        (ops[0].flags, ops[0].offset, ops[0].length)
    };
    let of = lock(
        "F_OFD_SETLK",
        ", {l_type=F_UNLCK, l_whence=SEEK_END, l_start=-5, l_len=9}",
    );
    let flags = fcntl_lock_flags(37, Some((2, 2)));
    assert_eq!(of, (flags, Some(-5i64 as u64), Some(9)));
    // Nobody knows what an address leads to.
    assert_eq!(lock("F_SETLK", ", 0x7ffe0000"), (6, None, None));
    assert_eq!(lock("F_SETLKW", ""), (7, None, None));
}

#[test]
fn what_strace_did_not_write_is_tolerated_up_to_a_limit() {
    let noise = "make: warning\n".repeat(TOLERATED_LINES as usize);
    let text = format!("{noise}{COPY}");
    let (ops, source) = import(text.as_bytes()).unwrap();
    assert_eq!(
        (ops.len(), source.report().skipped_lines),
        (15, TOLERATED_LINES)
    );

    let error = import(format!("{COPY}{noise}one more\n").as_bytes())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("t.strace: line 32: expected a time"),
        "{error}"
    );
    let error = import(b"one line of prose\n").unwrap_err().to_string();
    assert!(
        error.starts_with("read t.strace: line 1: expected a time in seconds"),
        "{error}"
    );
    let error = import(b"").unwrap_err().to_string();
    assert!(error.contains("it is empty"), "{error}");
    let long = vec![b'x'; MAX_LINE_BYTES as usize + 5];
    assert!(
        import(&long)
            .unwrap_err()
            .to_string()
            .contains("line 1: a line of more than")
    );
}

#[test]
fn no_call_moves_more_than_linux_can() {
    let text = "7 1.000000 openat(AT_FDCWD, \"/f\", O_RDWR) = 3 <0.000001>\n\
                7 1.000001 pread64(3, \"\"..., 2147479553, 0) = 2147479552 <0.000001>\n\
                7 1.000002 pread64(3, \"\"..., 9223372036854775807, 0) = 9223372036854775807 <0.000001>\n\
                7 1.000003 sendfile(3, 3, NULL, 9223372036854775807) = 2147479553 <0.000001>\n\
                7 1.000004 lseek(3, 9223372036854775807, SEEK_SET) = 9223372036854775807 <0.000001>\n";
    let (ops, source) = import(text.as_bytes()).unwrap();
    let kinds: Vec<OpKind> = ops.iter().map(|op| op.kind).collect();
    assert_eq!(kinds, [OpKind::Open, OpKind::Read, OpKind::Seek]);
    let report = source.report();
    assert_eq!(report.skipped_lines, 2);
    assert!(
        report.first_skipped[0].starts_with("line 3: expected at most 2147479552 bytes"),
        "{report:?}"
    );
}

#[test]
fn figures_that_cannot_be_are_no_figures_of_other_kinds() {
    let open = "7 5.000000 openat(AT_FDCWD, \"/f\", O_RDWR) = 3 <0.000001>\n";
    for (line, expected) in [
        (
            "7 4.9 close(3) = 0 <0.1>",
            "a time that is not before the first line's",
        ),
        (
            "7 5.1 read(3, \"\"..., 10) = 11 <0.1>",
            "a result of at most what was asked for",
        ),
        (
            "7 5.1 read(3, \"\"..., 10) = -5 <0.1>",
            "the error's symbol behind a result below 0",
        ),
        (
            "7 5.1 pread64(3, \"\"..., 10, -9223372036854775809) = 5 <0.1>",
            "a number of at most 64 bits",
        ),
        (
            "7 5.1 close(3) = 0 <-1.0>",
            "a time in seconds between `<` and `>`",
        ),
        (
            "7 5.1 close(3) = 0 <99999999999999999999999.1>",
            "a time in seconds between `<` and `>`",
        ),
    ] {
        let text = format!("{open}{line}\n7 5.2 close(3) = 0 <0.000001>\n");
        let (ops, source) = import(text.as_bytes()).unwrap();
        assert_eq!(kinds(&ops), ["open", "close"], "{line}");
        let report = source.report();
        assert_eq!(report.skipped_lines, 1, "{line}");
        let found = format!("line 2: expected {expected}");
        assert!(report.first_skipped[0].starts_with(&found), "{report:?}");
    }
    // A name may look like a time.
    let text = "7 5.0 openat(AT_FDCWD</w>, \"a <1.x\", O_RDONLY) = 3</w/a \\74 1.x>\n";
    assert_eq!(ops_of(text).0.len(), 1);
}

#[test]
fn names_start_from_what_a_renamed_directory_is_called() {
    let text = "7 1.000000 mkdir(\"/w/a\", 0755) = 0 <0.000001>\n\
                7 1.000001 chdir(\"/w/a\") = 0 <0.000001>\n\
                7 1.000002 openat(AT_FDCWD, \"/w/a\", O_RDONLY|O_DIRECTORY) = 3 <0.000001>\n\
                7 1.000003 rename(\"/w/a\", \"/w/b\") = 0 <0.000001>\n\
                7 1.000004 unlink(\"one\") = 0 <0.000001>\n\
                7 1.000005 unlinkat(3, \"two\", 0) = 0 <0.000001>\n\
                7 1.000006 rename(\"../b\", \"../a\") = 0 <0.000001>\n\
                7 1.000007 unlink(\"three\") = 0 <0.000001>\n";
    let (ops, source) = ops_of(text);
    let dirs: Vec<_> = ops
        .iter()
        .filter(|op| op.kind == OpKind::Unlink)
        .map(|op| source.paths().display(op.dir.unwrap()).into_owned())
        .collect();
    assert_eq!(dirs, ["/w/b", "/w/b", "/w/a"]);
}

/// Operations -> text -> operations.
pub(super) fn round_trip(
    ops: &[Op],
    paths: &PathTable,
    start: u64,
) -> (Vec<Op>, PathTable, NotCarried) {
    let mut text = Vec::new();
    let mut sink = StraceSink::new(&mut text, Path::new("out"), start);
    for op in ops {
        sink.push(op, paths).unwrap();
    }
    let left_out = sink.finish().unwrap();
    let (again, source) = import(&text).unwrap();
    assert_eq!(
        source.report().skipped_lines,
        0,
        "{:?}",
        source.report().first_skipped
    );
    assert!(
        source.report().other_calls.is_empty(),
        "{:?}",
        source.report().other_calls
    );
    (again, source.paths().clone(), left_out)
}

/// An operation by content: paths as bytes.
fn content(op: &Op, paths: &PathTable) -> (Op, [Option<Vec<u8>>; 4]) {
    let text = |id: Option<fsage_core::PathId>| id.map(|id| paths.get(id).to_vec());
    let names = [text(op.path), text(op.path2), text(op.dir), text(op.dir2)];
    (
        Op {
            path: None,
            path2: None,
            dir: None,
            dir2: None,
            ..*op
        },
        names,
    )
}

#[test]
fn what_was_imported_survives_export_and_import() {
    let (ops, source) = ops_of(COPY);
    let (again, paths, left_out) = round_trip(&ops, source.paths(), 5_000_000_000);
    assert!(left_out.is_empty(), "{left_out:?}");
    assert_eq!(ops.len(), again.len());
    for (a, b) in ops.iter().zip(&again) {
        assert_eq!(content(a, source.paths()), content(b, &paths));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Any change to a good text gives operations or an error, never a panic.
    #[test]
    fn mutated_text_never_panics(edits in prop::collection::vec((0usize..1700, any::<u8>(), 0u8..3), 1..12)) {
        let mut text = COPY.as_bytes().to_vec();
        for (at, byte, action) in edits {
            let at = at % text.len().max(1);
            match action {
                0 => if let Some(slot) = text.get_mut(at) { *slot = byte },
                1 => text.insert(at, byte),
                _ => text.truncate(at.max(1)),
            }
        }
        if let Err(error) = import(&text) {
            prop_assert!(error.to_string().contains("t.strace"));
        }
    }

    /// Names of any bytes come back as they were.
    #[test]
    fn any_name_survives(name in prop::collection::vec(1u8..=255, 1..40)) {
        let mut paths = PathTable::new();
        let mut op = Op::new(OpKind::Mkdir, Pid(4), Tid(4), 0);
        op.path = paths.intern(&name);
        op.flags = 0o755;
        let (again, table, _) = round_trip(&[op], &paths, 9);
        prop_assert_eq!(table.get(again[0].path.unwrap()), &name[..]);
        prop_assert_eq!(again[0].flags, 0o755);
    }
}

/// Who is given a number while its close is under way has another file.
#[test]
fn a_close_that_is_interrupted_has_freed_its_number() {
    let text = r#"1 1.000001 openat(AT_FDCWD</w>, "one", O_WRONLY|O_CREAT, 0644) = 3</w/one> <0.000001>
1 1.000010 clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_SIGHAND|CLONE_THREAD, exit_signal=0} => {parent_tid=[2]}, 88) = 2 <0.000001>
1 1.000020 close(3</w/one> <unfinished ...>
2 1.000021 openat(AT_FDCWD</w>, "two", O_WRONLY|O_CREAT, 0644) = 3</w/two> <0.000001>
1 1.000025 <... close resumed>) = 0 <0.000005>
2 1.000030 write(3</w/two>, "x", 1) = 1 <0.000001>
"#;
    for text in [text.to_owned(), without_paths(text)] {
        let (ops, _) = ops_of(&text);
        let of = |kind, nth| {
            let mut ops = ops.iter().filter(|op: &&Op| op.kind == kind);
            ops.nth(nth).unwrap().file
        };
        let (one, two) = (of(OpKind::Open, 0), of(OpKind::Open, 1));
        assert!(one.is_some() && two.is_some() && one != two);
        assert_eq!(of(OpKind::Close, 0), one);
        assert_eq!(of(OpKind::Write, 0), two);
    }
}
