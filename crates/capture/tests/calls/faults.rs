//! Page faults within calls, and calls on files that few programs make.

use super::*;

const PAGES: u64 = 256;

/// The files that the program maps.
fn fill(work: &Path) {
    for name in ["copied", "written", "locked", "populated"] {
        std::fs::write(work.join(name), vec![1; PAGES as usize * 4096]).unwrap();
    }
}

#[test]
fn each_fault_has_its_own_time() {
    if !can_trace() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().canonicalize().unwrap();
    let program = compile(&work, "faults.c");
    fill(&work);
    let (rows, _) = seen_in(&work, &program, Method::Ebpf);
    let ino = |name: &str| std::fs::metadata(work.join(name)).unwrap().ino();
    let faults = |name: &str| -> Vec<&Op> {
        let ino = ino(name);
        let all = of(&rows, OpKind::Fault).into_iter().map(|row| &row.op);
        all.filter(|op| op.file.is_some_and(|file| file.ino == ino))
            .collect()
    };
    for name in ["copied", "written", "locked", "populated"] {
        let faults = faults(name);
        assert!(!faults.is_empty(), "{name}");
        let timed = faults.iter().filter(|op| op.latency_ns.is_some()).count();
        // The first one of a mapping may be known by its end alone, one of a copy by its beginning.
        let least = match name {
            "copied" => 0,
            "populated" => faults.len() - 1,
            _ => faults.len(),
        };
        assert!(timed >= least, "{name}: {timed} of {}", faults.len());
        for (one, next) in faults.iter().zip(faults.iter().skip(1)) {
            assert!(one.end_ns() <= next.start_ns, "{name}: {one:?} {next:?}");
        }
    }
    assert!(faults("written").iter().all(|op| op.flags == 1));
    let length = PAGES * 4096;
    let first = of(&rows, OpKind::Write)[0].op;
    assert_eq!(
        (first.file.unwrap().ino, first.length),
        (ino("out"), Some(length))
    );
    let copied = faults("copied");
    assert!(copied.iter().all(|op| op.end_ns() <= first.start_ns));
    // A mapping is there before its pages are.
    let mapped = of(&rows, OpKind::Mmap).into_iter();
    let mut mapped =
        mapped.filter(|row| row.op.file.is_some_and(|file| file.ino == ino("populated")));
    let mapped = mapped.next().unwrap().op;
    assert!(
        faults("populated")
            .iter()
            .all(|op| op.start_ns >= mapped.start_ns)
    );
}

#[test]
fn few_programs_make_these_calls() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let program = compile(&root, "faults.c");
    for method in methods("open_by_handle_at(2)") {
        let work = root.join(format!("{method:?}"));
        std::fs::create_dir(&work).unwrap();
        fill(&work);
        let (rows, _) = seen_in(&work, &program, method);
        let ino = std::fs::metadata(work.join("out")).unwrap().ino();
        assert_eq!(
            ranges(&rows, OpKind::SyncFileRange, ino),
            [(0, 0, 0)],
            "{method:?}"
        );
        let set = of(&rows, OpKind::Setxattr);
        let found: Vec<_> = set
            .iter()
            .map(|row| (row.op.fd.is_some(), &*row.path, &*row.path2, row.op.length))
            .collect();
        let name = "user.name";
        assert_eq!(
            found,
            [(false, "out", name, Some(5)), (true, "", name, Some(5))]
        );
        let opened = of(&rows, OpKind::Open);
        let by_handle = opened.last().unwrap();
        assert_eq!(by_handle.op.file.unwrap().ino, ino, "{method:?}");
        assert_eq!(Path::new(&by_handle.path), work.join("out"), "{method:?}");
        let writes = ranges(&rows, OpKind::Write, ino);
        assert_eq!(
            writes,
            [(0, PAGES * 4096, (PAGES * 4096) as i64), (0, 5, 5)]
        );
    }
}
