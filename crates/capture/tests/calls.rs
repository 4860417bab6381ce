//! Every captured call, made once by a real program, against what must be recorded of it.

#![allow(clippy::unwrap_used, reason = "tests")]

mod apart;
mod faults;
mod moved;
mod reached;
mod uring;

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fsage_capture::ebpf::EbpfBackend;
use fsage_capture::raw::{Backend as _, RawEvent};
use fsage_capture::{
    Buffers, CaptureRequest, CaptureSummary, HeldBack, Method, Notice, OwnTime, What, capture,
};
use fsage_core::lock::{fcntl_lock_flags, flock_flags};
use fsage_core::{Op, OpFlags, OpKind, OpSink, PathTable, Pid, SinkError};

/// Operations with their paths as text.
#[derive(Default)]
struct Kept(Vec<Row>);

struct Row {
    op: Op,
    path: String,
    path2: String,
    dir: String,
}

impl OpSink for Kept {
    fn push(&mut self, op: &Op, paths: &PathTable) -> Result<(), SinkError> {
        let text = |id| paths.display(id).into_owned();
        self.0.push(Row {
            op: *op,
            path: op.path.map(text).unwrap_or_default(),
            path2: op.path2.map(text).unwrap_or_default(),
            dir: op.dir.map(text).unwrap_or_default(),
        });
        Ok(())
    }
}

/// Whether eBPF works here; says so where it does not.
fn can_trace() -> bool {
    match EbpfBackend::new(&Buffers::default()) {
        Ok(_) => true,
        Err(error) => {
            fsage_testing::not_run(format_args!("needs eBPF: failed to {error}"));
            false
        }
    }
}

fn run(request: &CaptureRequest) -> (Vec<Row>, CaptureSummary) {
    let mut kept = Kept::default();
    let summary = capture(request, &AtomicBool::new(false), &mut kept, &mut |_| {}).unwrap();
    (kept.0, summary)
}

fn command(argv: &[&str], cwd: &Path) -> CaptureRequest {
    let argv = argv.iter().map(OsString::from).collect();
    let what = What::Command {
        argv,
        cwd: Some(cwd.to_owned()),
        env: Vec::new(),
    };
    CaptureRequest {
        method: Method::Ebpf,
        ..CaptureRequest::new(what)
    }
}

fn compile(dir: &Path, source: &str) -> String {
    let program = dir.join("program");
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/calls")
        .join(source);
    let built = Command::new("cc")
        .arg("-pthread")
        .arg("-o")
        .arg(&program)
        .arg(source)
        .status();
    assert!(built.unwrap().success());
    program.into_os_string().into_string().unwrap()
}

/// The rows of one kind, on files below `dir` or by names that are not absolute.
fn of(rows: &[Row], kind: OpKind) -> Vec<&Row> {
    rows.iter().filter(|row| row.op.kind == kind).collect()
}

/// (offset, length, result) of a kind's operations on one file.
fn ranges(rows: &[Row], kind: OpKind, ino: u64) -> Vec<(u64, u64, i64)> {
    of(rows, kind)
        .into_iter()
        .filter(|row| row.op.file.is_some_and(|file| file.ino == ino))
        .map(|row| {
            let op = &row.op;
            (
                op.offset.unwrap_or(0),
                op.length.unwrap_or(0),
                op.result.raw(),
            )
        })
        .collect()
}

/// A program in a directory of its own, by one method: the directory, and what was seen below it.
fn seen_below(top: &Path, program: &str, method: Method) -> (PathBuf, Vec<Row>, CaptureSummary) {
    let work = top.join(format!("{method:?}"));
    std::fs::create_dir(&work).unwrap();
    let (rows, summary) = seen_in(&work, program, method);
    (work, rows, summary)
}

/// The same in a directory that is there.
fn seen_in(work: &Path, program: &str, method: Method) -> (Vec<Row>, CaptureSummary) {
    let mut request = command(&[program], work);
    request.method = method;
    request.under = vec![work.to_owned()];
    let (rows, summary) = run(&request);
    assert_eq!(
        (summary.exit_status, summary.lost),
        (Some(0), 0),
        "{method:?}"
    );
    (rows, summary)
}

/// The ways of capturing that work here, for what root alone may do.
fn methods(what: &str) -> Vec<Method> {
    if !rustix::process::geteuid().is_root() {
        fsage_testing::not_run(format_args!("needs root: {what}"));
        return Vec::new();
    }
    all_methods()
}

/// The ways of capturing that work here.
fn all_methods() -> Vec<Method> {
    let ebpf = can_trace().then_some(Method::Ebpf);
    ebpf.into_iter().chain([Method::Ptrace]).collect()
}

#[test]
fn paths_below_a_root_of_its_own_are_everybodys() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    let program = compile(&top, "root.c");
    for method in methods("chroot(2)") {
        let (work, rows, _) = seen_below(&top, &program, method);
        let opened: Vec<_> = of(&rows, OpKind::Open)
            .into_iter()
            .filter(|row| row.op.flags & libc::O_CREAT as u32 != 0)
            .map(|row| Path::new(&row.dir).join(&row.path))
            .collect();
        let expected = [
            "new/in/file",
            "new/up",
            "new/relative",
            "new/in/inner",
            "outside",
            "in-cwd",
            "in-own",
        ];
        assert_eq!(opened, expected.map(|name| work.join(name)), "{method:?}");
        assert_eq!(of(&rows, OpKind::Fsync).len(), 7, "{method:?}");
        let rename = of(&rows, OpKind::Rename)[0];
        let moved = work.join("new/in/moved");
        assert_eq!(Path::new(&rename.path2), moved, "{method:?}");
        assert_eq!(rename.op.file, of(&rows, OpKind::Write)[0].op.file);
    }
}

#[test]
fn second_places_of_directories_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().canonicalize().unwrap();
    let script = "mkdir a b; mount --bind a b; echo x >b/f; umount b";
    for method in methods("mount(2)") {
        let mut request = command(&["unshare", "-m", "sh", "-c", script], &work);
        request.method = method;
        let (_, summary) = run(&request);
        assert_eq!(summary.mounted_again, 1, "{method:?}: {summary:?}");
        for made in ["a", "b"] {
            std::fs::remove_dir_all(work.join(made)).unwrap();
        }
    }
}

#[test]
fn every_call_is_recorded_with_its_arguments() {
    if !can_trace() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let program = compile(&root, "calls.c");
    let work = root.join("work");
    std::fs::create_dir(&work).unwrap();
    let mut request = command(&[&program], &work);
    request.under = vec![root.clone()];
    let (rows, summary) = run(&request);
    assert_eq!((summary.exit_status, summary.lost), (Some(7), 0));
    assert!(
        rows.windows(2)
            .all(|pair| pair[0].op.start_ns <= pair[1].op.start_ns)
    );
    let meta = std::fs::metadata(work.join("file")).unwrap();
    let ino = meta.ino();
    let read_ranges = ranges(&rows, OpKind::Read, ino);
    let expected = [
        (10, 50),
        (70, 60),
        (60, 300),
        (400, 300),
        (500, 300),
        (0, 3),
    ];
    assert_eq!(
        read_ranges,
        expected.map(|(offset, length)| (offset, length, length as i64))
    );
    let expected = [(0, 4096), (5000, 1000), (4096, 300), (8000, 300)];
    assert_eq!(
        ranges(&rows, OpKind::Write, ino),
        expected.map(|(offset, length)| (offset, length, length as i64))
    );
    let copies = [(16, 64, 64), (128, 256, 256)];
    assert_eq!(ranges(&rows, OpKind::CopyIn, ino), copies);
    assert_eq!(ranges(&rows, OpKind::Sendfile, ino), [(700, 20, 20)]);
    assert_eq!(ranges(&rows, OpKind::SpliceIn, ino), [(512, 33, 33)]);
    assert_eq!(ranges(&rows, OpKind::Msync, ino), [(4096, 8192, 0)]);
    assert_eq!(ranges(&rows, OpKind::Munmap, ino), [(4096, 8192, 0)]);
    assert_eq!(ranges(&rows, OpKind::Ftruncate, ino), [(0, 20000, 0)]);
    assert_eq!(ranges(&rows, OpKind::Fallocate, ino), [(20000, 5000, 0)]);
    assert!(ranges(&rows, OpKind::Fault, ino).contains(&(4096, 4096, 0)));
    let copy = std::fs::metadata(work.join("copy")).unwrap().ino();
    let copies = [(32, 64, 64), (0, 256, 256)];
    assert_eq!(ranges(&rows, OpKind::CopyOut, copy), copies);
    assert_eq!(ranges(&rows, OpKind::SpliceOut, copy), [(2048, 33, 33)]);
    let append = std::fs::metadata(work.join("append")).unwrap().ino();
    assert_eq!(ranges(&rows, OpKind::Write, append), [(0, 7, 7), (7, 7, 7)]);
    assert_eq!(ranges(&rows, OpKind::Lock, ino)[1], (5, 6, 0));
    let locks: Vec<u32> = of(&rows, OpKind::Lock).iter().map(|r| r.op.flags).collect();
    let (set, exclusive) = (libc::F_SETLK as u32, libc::F_WRLCK as u16);
    let expected = [
        flock_flags(libc::LOCK_EX as u32),
        fcntl_lock_flags(set, Some((exclusive, 0))),
    ];
    assert_eq!(locks, expected);
    let dev = meta.dev();
    assert!(
        rows.iter()
            .all(|row| row.op.file.is_none_or(|file| file.dev.0 == dev))
    );
    kinds_are_there(&rows);
    names_are_resolved(&rows, &work);
    uring_is_seen(&rows, &work);
    aio_is_seen(&rows, &work);
}

fn kinds_are_there(rows: &[Row]) {
    let mut missing = OpKind::ALL.to_vec();
    missing.retain(|&kind| !matches!(kind, OpKind::Mknod) && of(rows, kind).is_empty());
    assert_eq!(missing, []);
}

fn names_are_resolved(rows: &[Row], work: &Path) {
    let inner = of(rows, OpKind::Open)
        .into_iter()
        .find(|row| row.path == "inner")
        .unwrap();
    assert_eq!(Path::new(&inner.dir), work.join("dir"));
    let id = inner.op.file;
    assert!(id.is_some());
    let seen: Vec<_> = [
        OpKind::Stat,
        OpKind::Access,
        OpKind::Link,
        OpKind::Rename,
        OpKind::Unlink,
    ]
    .iter()
    .flat_map(|&kind| of(rows, kind))
    .filter(|row| row.path.ends_with("inner") || row.path == "again" || row.path == "moved")
    .map(|row| row.op.file)
    .collect();
    assert_eq!(
        seen,
        vec![id; 9],
        "stat 3, access 2, link 1, rename 2, unlink 1"
    );
    let rename = of(rows, OpKind::Rename);
    assert_eq!(
        (rename[0].path2.as_str(), rename[1].path2.as_str()),
        ("dir/moved", "again")
    );
    let up = of(rows, OpKind::Access)
        .into_iter()
        .find(|row| row.path == "../hard")
        .unwrap();
    assert_eq!(Path::new(&up.dir), work.join("dir"), "after fchdir");
    assert_eq!(up.op.file, id);
    let absent = of(rows, OpKind::Stat)
        .into_iter()
        .find(|row| row.path == "absent")
        .unwrap();
    assert_eq!(absent.op.result.errno(), Some(fsage_core::Errno::ENOENT));
    let symlink = of(rows, OpKind::Symlink)[0];
    assert_eq!(
        (symlink.path.as_str(), symlink.path2.as_str()),
        ("soft", "dir/inner")
    );
    let forks = of(rows, OpKind::Fork);
    assert!(
        forks.len() >= 3,
        "a thread, a fork, a vfork: {}",
        forks.len()
    );
    let exits: Vec<_> = of(rows, OpKind::Exit)
        .iter()
        .map(|row| row.op.result.raw())
        .collect();
    assert!(
        [4, 5, 7].iter().all(|code| exits.contains(code)),
        "{exits:?}"
    );
}

fn aio_is_seen(rows: &[Row], work: &Path) {
    let ino = std::fs::metadata(work.join("aio")).unwrap().ino();
    assert_eq!(
        ranges(rows, OpKind::Write, ino),
        [(4096, 300, 300)],
        "by io_submit"
    );
    // Of a vector only what was moved is known; a request that was refused is none.
    assert_eq!(ranges(rows, OpKind::Read, ino), [(4100, 100, 100)]);
    let of_file = |row: &&Row| row.op.file.is_some_and(|file| file.ino == ino);
    let asynchronous = rows.iter().filter(of_file);
    let asynchronous = asynchronous.filter(|row| row.op.record.contains(OpFlags::URING));
    assert_eq!(asynchronous.count(), 2);
}

fn uring_is_seen(rows: &[Row], work: &Path) {
    let ino = std::fs::metadata(work.join("uring")).unwrap().ino();
    let seen: Vec<_> = rows
        .iter()
        .filter(|row| row.op.record.contains(OpFlags::URING))
        .filter(|row| row.op.file.is_some_and(|file| file.ino == ino))
        .map(|row| {
            (
                row.op.kind,
                row.op.offset.unwrap_or(0),
                row.op.file.map(|file| file.ino),
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            (OpKind::Write, 4096, Some(ino)),
            (OpKind::Read, 4100, Some(ino)),
            (OpKind::Fdatasync, 0, Some(ino)),
            (OpKind::Open, 0, Some(ino)),
        ]
    );
    let requests = rows.iter().filter(|row| {
        row.op.record.contains(OpFlags::URING) && row.op.file.is_some_and(|file| file.ino == ino)
    });
    let fds: Vec<_> = requests.map(|row| row.op.fd.is_some()).collect();
    assert_eq!(
        fds,
        [true, true, true, false],
        "an open by io_uring has none"
    );
    let ino = std::fs::metadata(work.join("registered")).unwrap().ino();
    assert_eq!(ranges(rows, OpKind::Write, ino), [(4096, 50, 50)]);
    let of_index = rows.iter().find(|row| {
        row.op.kind == OpKind::Write && row.op.file.is_some_and(|file| file.ino == ino)
    });
    let of_index = of_index.unwrap().op;
    assert_eq!(of_index.fd, None, "an index is no descriptor");
    assert_eq!(of_index.size_bytes, None, "that after it is not told");
}

#[test]
fn attaching_sees_what_was_open_before_and_leaves_the_process_running() {
    if !can_trace() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let script = "exec 9>held; while :; do echo line >&9; echo x > relative; sleep 0.02; done";
    let mut child = Command::new("sh")
        .args(["-c", script])
        .current_dir(&root)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    while !root.join("relative").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut request = CaptureRequest::new(What::Pids(vec![Pid(child.id())]));
    request.method = Method::Ebpf;
    request.limit = Some(Duration::from_millis(300));
    let (rows, summary) = run(&request);
    let alive = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(alive, "the capture ended, the process did not");
    assert_eq!(summary.exit_status, None);
    let held = root.join("held");
    let dup = of(&rows, OpKind::Dup)
        .into_iter()
        .find(|row| Path::new(&row.path) == held);
    assert!(
        dup.is_some(),
        "the descriptor open before is known by its path"
    );
    let open = of(&rows, OpKind::Open)
        .into_iter()
        .find(|row| row.path == "relative")
        .unwrap();
    assert_eq!(Path::new(&open.dir), root);
}

/// What came, what was lost and which calls were held back of `dd` with so many blocks, while
/// nobody takes events.
fn unread(blocks: u32, throttle: bool) -> (u64, u64, HeldBack) {
    let mut backend = EbpfBackend::new(&Buffers {
        ring_mib: 1,
        spool_mib: 1,
        throttle,
    })
    .unwrap();
    let script = format!("read x; dd if=/dev/zero of=/dev/null bs=1 count={blocks} 2>/dev/null");
    let mut child = Command::new("sh")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    backend.watch(&[Pid(child.id())]).unwrap();
    drop(child.stdin.take());
    child.wait().unwrap();
    let (mut lost, mut came) = (0, 0);
    while backend
        .poll(&mut |event| match event {
            RawEvent::Lost { count, .. } => lost += count,
            _ => came += 1,
        })
        .unwrap()
    {}
    (came, lost, backend.held_back())
}

#[test]
fn what_there_is_no_room_for_is_counted() {
    if !can_trace() {
        return;
    }
    let (came, lost, held) = unread(100_000, false);
    assert!(lost > 100_000, "{came} came, {lost} were lost");
    assert!(came + lost > 200_000, "{came} came, {lost} were lost");
    assert_eq!(held, HeldBack::default());
}

#[test]
fn calls_are_held_back_before_any_is_lost() {
    if !can_trace() {
        return;
    }
    let (came, lost, held) = unread(8000, true);
    assert_eq!(lost, 0, "{came} came");
    assert!(came > 16_000, "{came} came");
    assert!(held.calls > 1000, "{held:?}");
    // None for longer than the last step, 256 us, but for what the machine takes meanwhile.
    assert!(held.total_ns >= held.calls * 2000, "{held:?}");
}

#[test]
fn a_stop_flag_ends_a_capture_and_a_missing_command_is_an_error() {
    if !can_trace() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    let mut pid = Pid(0);
    let mut kept = Kept::default();
    let request = command(&["sleep", "1000"], dir.path());
    let summary = capture(&request, &stop, &mut kept, &mut |reported| {
        if let Notice::Started(start) = reported {
            pid = start.pid;
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(summary.unwrap().exit_status, None);
    let killed = Command::new("kill")
        .arg(pid.0.to_string())
        .status()
        .unwrap();
    assert!(killed.success(), "it still ran");
    let request = command(&["/no/such/command"], dir.path());
    let error = capture(&request, &stop, &mut kept, &mut |_| {}).unwrap_err();
    assert_eq!(
        error.to_string(),
        "run /no/such/command: No such file or directory (os error 2)"
    );
}

#[test]
fn what_the_tracer_takes_itself_is_measured_at_the_start() {
    // It is measured on one thread alone, which older kernels do not name.
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|n| n.parse().ok());
    let version: (u32, u32) = (numbers.next().unwrap(), numbers.next().unwrap());
    if !can_trace() || !fsage_testing::needs(version >= (6, 9), "Linux 6.9") {
        return;
    }
    let request = command(&["sh", "-c", "cd /; cd /"], Path::new("/"));
    let (mut kept, mut own) = (Kept::default(), OwnTime::default());
    let summary = capture(
        &request,
        &AtomicBool::new(false),
        &mut kept,
        &mut |notice| {
            if let Notice::Started(start) = notice {
                own = start.own;
            }
        },
    )
    .unwrap();
    assert_eq!(summary.exit_status, Some(0));
    assert!((10..2000).contains(&own.within_ns), "{own:?}");
    assert!((own.within_ns..20_000).contains(&own.all_ns), "{own:?}");
    assert!(of(&kept.0, OpKind::Chdir).len() >= 2);
    let pids: std::collections::BTreeSet<_> = kept.0.iter().map(|row| row.op.pid).collect();
    assert_eq!(pids.len(), 1, "the thread that measures is not told");
}

#[test]
fn a_directory_with_the_number_of_a_file_that_was_removed_has_not_its_generation() {
    if !can_trace() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let script = "for i in 0 1 2 3 4 5 6 7 8 9; do echo >f$i; done; rm f?; mkdir d; \
                  for i in 0 1 2 3 4 5 6 7 8 9; do mkdir d/$i; done; stat d/? >/dev/null";
    let (rows, _) = run(&command(&["sh", "-c", script], dir.path()));
    let files: Vec<_> = rows
        .iter()
        .filter(|row| row.op.kind == OpKind::Open && row.path.starts_with('f'))
        .filter_map(|row| row.op.file)
        .collect();
    let looked = rows.iter().filter(|row| row.op.kind == OpKind::Stat);
    let looked = looked.filter(|row| row.path.starts_with("d/"));
    let directories: Vec<_> = looked.filter_map(|row| row.op.file).collect();
    assert_eq!((files.len(), directories.len()), (10, 10));
    let again = |dir: &&fsage_core::FileId| files.iter().any(|file| file.ino == dir.ino);
    // None, where the file system gives no number again, or another program was given them.
    let again: Vec<_> = directories.iter().filter(again).collect();
    assert!(again.iter().all(|dir| !files.contains(dir)), "{again:?}");
}
