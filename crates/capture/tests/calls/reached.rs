//! What is named by way of descriptors is told by names of its own.

use super::*;

const AT_EMPTY_PATH: u32 = 0x1000;

#[test]
fn what_is_named_by_descriptors_has_names_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let program = compile(&root, "reached.c");
    for method in all_methods() {
        let (work, rows, _) = seen_below(&root, &program, method);
        let at = |name: &str| work.join(name).display().to_string();
        let opened: Vec<_> = of(&rows, OpKind::Open)
            .into_iter()
            .filter(|row| row.path.starts_with('/'))
            .map(|row| row.path.clone())
            .collect();
        let names = ["file", "file", "file", "renamed", "dir/inside"];
        assert_eq!(opened, names.map(at), "{method:?}");
        roots_of_names_are_followed(&rows, &work);
        let ino = std::fs::metadata(work.join("renamed")).unwrap().ino();
        let written = ranges(&rows, OpKind::Write, ino);
        let each = [0, 7, 14, 21].map(|offset| (offset, 7, 7));
        assert_eq!(written, each, "{method:?}");
        // An `lstat` is of the link in /proc itself.
        assert!(of(&rows, OpKind::Stat).is_empty());
        let [owned] = of(&rows, OpKind::Fchown)[..] else {
            panic!("one fchown");
        };
        assert_eq!(owned.op.file.unwrap().ino, ino);
        let whole_32 = u64::from(u32::MAX);
        assert_eq!(owned.op.length, Some(whole_32));
        links_are_of_descriptors(&rows, &work);
    }
}

/// By `openat2` with `RESOLVE_IN_ROOT`, twice, and below what `open_tree` opened.
fn roots_of_names_are_followed(rows: &[Row], work: &Path) {
    let ino = std::fs::metadata(work.join("dir/inside")).unwrap().ino();
    let opened = of(rows, OpKind::Open);
    let inside: Vec<_> = opened.iter().filter(|row| row.path == "inside").collect();
    assert_eq!(inside.len(), 3);
    for row in inside {
        assert_eq!(Path::new(&row.dir), work.join("dir"));
        assert_eq!(row.op.file.unwrap().ino, ino);
    }
}

fn links_are_of_descriptors(rows: &[Row], work: &Path) {
    let links = of(rows, OpKind::Link);
    let links = links.iter().filter(|row| row.op.result.is_ok());
    let links: Vec<_> = links
        .map(|row| (row.op.fd.is_some(), row.op.flags, &*row.path, &*row.path2))
        .collect();
    let file = work.join("file").display().to_string();
    let published = work.join("published").display().to_string();
    // Without privileges a descriptor alone links nothing.
    let first = if rustix::process::geteuid().is_root() {
        (true, AT_EMPTY_PATH, &*file, "linked")
    } else {
        (false, 0, "file", "linked")
    };
    let unnamed = (true, AT_EMPTY_PATH, "", "published");
    let again = (true, AT_EMPTY_PATH, &*published, "again");
    assert_eq!(links, [first, unnamed, again]);
}
