//! Threads whose directory or descriptors are their own.

use super::*;

#[test]
fn a_thread_that_was_apart_before_is_met_with_what_is_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let program = compile(&root, "attached.c");
    for method in methods("kcmp(2) of another process") {
        let work = root.join(format!("{method:?}"));
        std::fs::create_dir(&work).unwrap();
        let mut child = Command::new(&program).current_dir(&work).spawn().unwrap();
        while !work.join("sub/relative").exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut request = CaptureRequest::new(What::Pids(vec![Pid(child.id())]));
        request.method = method;
        request.limit = Some(Duration::from_millis(300));
        let (rows, _) = run(&request);
        child.kill().unwrap();
        child.wait().unwrap();
        let process = child.id();
        for (own, place, file) in [(true, "", "mine"), (false, "sub", "sub/theirs")] {
            let of = |kind| {
                let rows = of(&rows, kind).into_iter();
                rows.filter(move |row| (row.op.tid.0 == process) == own)
            };
            let opened = of(OpKind::Open).find(|row| row.path == "relative").unwrap();
            assert_eq!(Path::new(&opened.dir), work.join(place), "{method:?}");
            let dup = of(OpKind::Dup).next().unwrap();
            assert_eq!(Path::new(&dup.path), work.join(file), "{method:?}");
        }
    }
}

#[test]
fn a_thread_with_a_directory_and_descriptors_of_its_own_is_told_by_them() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let program = compile(&root, "apart.c");
    for method in all_methods() {
        let (work, rows, _) = seen_below(&root, &program, method);
        let made = of(&rows, OpKind::Open).into_iter();
        let made = made.filter(|row| row.op.flags & libc::O_CREAT as u32 != 0);
        let names: Vec<_> = made
            .map(|row| Path::new(&row.dir).join(&row.path))
            .collect();
        let expected = ["mine", "sub/theirs", "sub/again", "sub/inner", "stays"];
        assert_eq!(names, expected.map(|name| work.join(name)), "{method:?}");
        let written = |name: &str| {
            let ino = std::fs::metadata(work.join(name)).unwrap().ino();
            let ranges = ranges(&rows, OpKind::Write, ino);
            ranges.iter().map(|range| range.1).collect::<Vec<_>>()
        };
        assert_eq!(written("mine"), [3, 2], "{method:?}");
        assert_eq!(written("sub/again"), [7, 2], "{method:?}");
        // Whoever follows the descriptors learns whose they are.
        let own = of(&rows, OpKind::Fork).into_iter();
        let own: Vec<_> = own
            .filter(|row| row.op.result.value() == Some(row.op.tid.0.into()))
            .collect();
        // Once by unshare(2) and once by close_range(2).
        assert_eq!(own.len(), 2, "{method:?}");
        assert_eq!(own[0].op.length, Some(own[0].op.pid.0.into()));
        assert_eq!(own[0].op.flags & libc::CLONE_FILES as u32, 0);
        let process = own[0].op.pid;
        assert!(rows.iter().all(|row| row.op.pid == process), "{method:?}");
        // The number that both have was closed by each.
        let ino = |name: &str| std::fs::metadata(work.join(name)).unwrap().ino();
        for name in ["mine", "sub/again"] {
            let ino = ino(name);
            let closes = of(&rows, OpKind::Close).into_iter();
            let closes = closes.filter(|row| row.op.file.is_some_and(|file| file.ino == ino));
            let expected = if name == "mine" { 2 } else { 1 };
            assert_eq!(closes.count(), expected, "{method:?} {name}");
        }
    }
}
