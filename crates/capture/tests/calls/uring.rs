//! Requests of io_uring that are told as the calls that do the same.

use super::*;

/// What the program asked for, or `None` where that cannot be seen here.
fn traced(work: &Path, argument: Option<&str>) -> Option<(Vec<Row>, CaptureSummary)> {
    if !can_trace() {
        return None;
    }
    let program = compile(work, "uring.c");
    let argv: Vec<&str> = std::iter::once(&*program).chain(argument).collect();
    let mut request = command(&argv, work);
    request.under = vec![work.to_owned()];
    let (rows, summary) = run(&request);
    if summary.exit_status == Some(9) {
        fsage_testing::not_run("needs io_uring");
        return None;
    }
    assert_eq!(summary.exit_status, Some(0));
    Some((rows, summary))
}

fn asked(rows: &[Row]) -> Vec<&Row> {
    let requests = rows.iter();
    requests
        .filter(|row| row.op.record.contains(OpFlags::URING))
        .collect()
}

#[test]
fn requests_are_told_as_the_calls_that_do_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().canonicalize().unwrap();
    let Some((rows, summary)) = traced(&work, None) else {
        return;
    };
    assert_eq!(summary.lost, 0);
    let rows = asked(&rows);
    let ino = std::fs::metadata(work.join("dir/made/moved"))
        .unwrap()
        .ino();
    on_the_file(&rows, ino);
    by_names(&rows, &work, ino);
    let of_dir = rows
        .iter()
        .find(|row| row.op.kind == OpKind::Fstat)
        .unwrap();
    let dir = std::fs::metadata(work.join("dir")).unwrap().ino();
    assert_eq!(of_dir.op.file.unwrap().ino, dir);
}

fn on_the_file(rows: &[&Row], ino: u64) {
    use OpKind::{Advise, Fallocate, Ftruncate, SpliceIn, SpliceOut, SyncFileRange};
    let seen: Vec<_> = rows
        .iter()
        .take_while(|row| row.op.kind != OpKind::Mkdir)
        .filter(|row| {
            assert_eq!(row.op.file.map(|file| file.ino), Some(ino));
            !matches!(row.op.kind, OpKind::Setxattr | OpKind::Getxattr)
        })
        .map(|row| {
            let op = &row.op;
            (
                op.kind,
                op.offset.unwrap_or(0),
                op.length.unwrap_or(0),
                op.flags,
                op.fd.is_some(),
            )
        })
        .collect();
    let expected = [
        (Fallocate, 4096, 8192, 1, true),
        (Ftruncate, 0, 12345, 0, true),
        (Advise, 10, 100, libc::POSIX_FADV_WILLNEED as u32, true),
        (SyncFileRange, 20, 200, libc::SYNC_FILE_RANGE_WRITE, true),
        (SpliceIn, 30, 300, 0, true),
        (SpliceOut, 7000, 300, 0, true),
        (Fallocate, 0, 20000, 0, false),
    ];
    assert_eq!(seen, expected);
    let attributes: Vec<_> = rows
        .iter()
        .filter(|row| matches!(row.op.kind, OpKind::Setxattr | OpKind::Getxattr))
        .map(|row| (&*row.path, &*row.path2, row.op.length))
        .collect();
    let expected = [("", "user.a", Some(2)), ("file", "user.a", Some(8))];
    assert_eq!(attributes, expected);
}

fn by_names(rows: &[&Row], work: &Path, ino: u64) {
    use OpKind::{Link, Mkdir, Rename, Rmdir, Stat, Symlink, Unlink};
    let absolute = |dir: &str, path: &str| match path {
        "" => String::new(),
        path => Path::new(dir)
            .join(path)
            .strip_prefix(work)
            .unwrap()
            .display()
            .to_string(),
    };
    let seen: Vec<_> = rows
        .iter()
        .skip_while(|row| row.op.kind != Mkdir)
        .filter(|row| row.op.kind != OpKind::Fstat)
        .map(|row| {
            let is_it = row.op.file.is_some_and(|file| file.ino == ino);
            let ok = row.op.result.is_ok();
            (
                row.op.kind,
                absolute(&row.dir, &row.path),
                &*row.path2,
                is_it,
                ok,
            )
        })
        .collect();
    let expected = [
        (Mkdir, "dir/made", "", false, true),
        (Rename, "file", "made/moved", true, true),
        (Link, "dir/made/moved", "hard", true, true),
        (Symlink, "dir/soft", "made/moved", false, true),
        (Stat, "hard", "", true, true),
        (Stat, "absent", "", false, false),
        (Unlink, "hard", "", true, true),
        (Mkdir, "dir/gone", "", false, true),
        (Rmdir, "dir/gone", "", false, true),
    ];
    let expected =
        expected.map(|(kind, path, path2, is_it, ok)| (kind, path.to_owned(), path2, is_it, ok));
    assert_eq!(seen, expected);
}

/// An open without a descriptor, and a request whose success is told to nobody. The close of the former is none of a
/// descriptor, and a pipe no file.
#[test]
fn requests_that_no_trace_can_tell_are_counted_as_lost() {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().canonicalize().unwrap();
    let Some((rows, summary)) = traced(&work, Some("untold")) else {
        return;
    };
    assert_eq!((asked(&rows).len(), summary.lost), (0, 2));
}
