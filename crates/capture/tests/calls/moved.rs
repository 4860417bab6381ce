//! A relative name starts from what its directory is called by then.

use super::*;

#[test]
fn names_start_from_what_a_renamed_directory_is_called() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let program = compile(&root, "moved.c");
    for method in all_methods() {
        let (work, rows, summary) = seen_below(&root, &program, method);
        assert_eq!(summary.strayed, 0);
        let made = of(&rows, OpKind::Open).into_iter();
        let made = made.filter(|row| row.op.flags & libc::O_CREAT as u32 != 0);
        let names: Vec<_> = made
            .map(|row| Path::new(&row.dir).join(&row.path))
            .collect();
        let expected = [
            "b/one",
            "b/sub/two",
            "b/sub/three",
            "b/sub/../../a/four",
            "a/five",
            "a/sub/six",
            "outside/seven",
        ];
        assert_eq!(names, expected.map(|name| work.join(name)), "{method:?}");
        assert_eq!(of(&rows, OpKind::Write).len(), 7);
        for name in ["outside/one", "outside/sub/six", "b/four"] {
            assert!(work.join(name).exists(), "{name}");
        }
    }
}

#[test]
fn what_others_rename_is_found_by_its_new_name() {
    if !can_trace() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    for name in ["outside", "tree", "signs"] {
        std::fs::create_dir(root.join(name)).unwrap();
    }
    let signs = root.join("signs").display().to_string();
    let script = format!(
        "cd outside; : > before; : > {signs}/there; until [ -e {signs}/moved ]; do sleep 0.01; done; : > after; sleep 0.5"
    );
    let mut request = command(&["sh", "-c", &script], &root);
    request.under = vec![root.join("tree")];
    let mover = {
        let root = root.clone();
        std::thread::spawn(move || {
            while !root.join("signs/there").exists() {
                std::thread::sleep(Duration::from_millis(5));
            }
            std::fs::rename(root.join("outside"), root.join("tree/inside")).unwrap();
            std::fs::write(root.join("signs/moved"), "").unwrap();
        })
    };
    let (rows, summary) = run(&request);
    mover.join().unwrap();
    assert_eq!((summary.exit_status, summary.lost), (Some(0), 0));
    assert_eq!(summary.strayed, 0);
    let made: Vec<_> = of(&rows, OpKind::Open)
        .into_iter()
        .map(|row| Path::new(&row.dir).join(&row.path))
        .collect();
    assert_eq!(made, [root.join("tree/inside/after")]);
}
