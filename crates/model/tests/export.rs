//! Models for other programs: what they do is what the model does, and what is lost is told in operations.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use fsage_model::export::{Dialect, fio, wml};
use fsage_model::fsm::Model;

use crate::common::model_of;

/// Two hundred files, each made in a row of one line, and read in a row of another.
fn rows() -> Arc<Model> {
    let file = "[[files]]\ntype = \"file\"\nbefore = 0\nlater = 200\ndirectory = \"0\"\n";
    let visits = [
        "\"open flags=0x41\", \"write at=next bytes=10000\", \"close\"",
        "\"open\", \"read at=next until=end+0 reads=10000 times=1\", \"close\"",
        "\"stat\"",
    ];
    let script = [
        "3 file=0.none next=2",
        "1 file=1.new repeat=200 next=3",
        "2 file=1.known:1000000000 repeat=200 next=0",
    ];
    Arc::new(Model::parse(&model_of(file, &visits, &script)).unwrap())
}

#[test]
fn what_is_done_in_rows_is_done_as_often_by_fio() {
    let exported = fio(&rows()).unwrap();
    for (line, times) in [
        ("number_ios=200", 2),
        ("rwmixread=100", 1),
        ("rwmixread=0", 1),
        ("bssplit=10000/100,4096/100", 1),
        ("bssplit=4096/100,10000/100", 1),
        ("numjobs=1", 2),
    ] {
        let found = exported.text.lines().filter(|l| *l == line).count();
        assert_eq!(found, times, "{line}: {}", exported.text);
    }
    let lost = |what: &str| exported.left_out.get(what).copied();
    assert_eq!(
        [lost("open"), lost("close"), lost("stat")],
        [Some(400), Some(400), Some(1)]
    );
    assert_eq!([lost("read"), lost("write")], [None, None]);
}

#[test]
fn reads_and_writes_are_as_many_as_they_are() {
    let file = "[[files]]\ntype = \"file\"\nbefore = 1\nlater = 1\nsize_bytes = \"4096000\"\ndirectory = \"0\"\n";
    let visits = [
        "\"open\", \"read at=random bytes=4096*3,8192 place=0 unit=4096 times=1000\", \"close\"",
        "\"open flags=0x1\", \"write at=start bytes=512 times=3\", \"fsync\", \"close\"",
    ];
    let script = ["1 file=1.fresh next=2", "2 file=1.known:0 next=0"];
    let model = Arc::new(Model::parse(&model_of(file, &visits, &script)).unwrap());
    let exported = fio(&model).unwrap();
    let (reads, writes) = exported.text.split_once("-writes]").unwrap();
    assert!(
        reads.contains("number_ios=1000\n") && reads.contains("4096/75:8192/25"),
        "{reads}"
    );
    assert!(
        writes.contains("number_ios=3\n") && writes.contains("fsync=3\n"),
        "{writes}"
    );
    assert!(
        !exported.left_out.contains_key("fsync"),
        "{:?}",
        exported.left_out
    );
}

#[test]
fn what_is_done_in_rows_is_done_as_often_by_scripts() {
    for dialect in [Dialect::Fsage, Dialect::Filebench] {
        let exported = wml(&rows(), dialect).unwrap();
        // A round has so many visits of each.
        let rounds = exported.text.split("flowops ").nth(1).unwrap();
        let rounds: u64 = rounds.split(' ').next().unwrap().parse().unwrap();
        let iters = exported
            .text
            .lines()
            .filter(|l| l.starts_with("    flowop g1v"));
        for line in iters {
            let iters: u64 = line.rsplit("iters=").next().unwrap().parse().unwrap();
            if line.contains("g1v1 ") || iters > 1 {
                assert!((iters * rounds).abs_diff(200) <= 4, "{rounds}: {line}");
            }
        }
        let lost: Vec<&String> = exported.left_out.keys().collect();
        assert!(
            !lost.iter().any(|l| ["open", "close"].contains(&l.as_str())),
            "{lost:?}"
        );
    }
}

/// Files that are written under one name and read under another, as everything is that is saved in one step.
fn saved(visits: [&str; 3]) -> Arc<Model> {
    let file = "[[files]]\ntype = \"file\"\nbefore = 0\nlater = 1\ndirectory = \"0\"\n\
                [[files]]\ntype = \"file\"\nbefore = 0\nlater = 200\ndirectory = \"0\"\n";
    let script = [
        "1 file=1.new next=2",
        "3 file=1.known:0 to=2.new next=3*199,4",
        "1 file=1.gone:0 next=2*199",
        "2 file=2.known:1000000000 repeat=200 next=0",
    ];
    Arc::new(Model::parse(&model_of(file, &visits, &script)).unwrap())
}

const WRITE: &str = "\"open flags=0x241\", \"write at=next bytes=20000\", \"close\"";

#[test]
fn what_is_renamed_is_as_large_as_it_was_written() {
    let whole = "\"open\", \"read at=next bytes=8192 until=end+1 reads=20000 times=3\", \"close\"";
    let random = "\"open\", \"read at=random bytes=4096 place=0 unit=4096 times=10\", \"close\"";
    for read in [whole, random] {
        for rename in ["\"rename\"", "\"link\", \"unlink\""] {
            let exported = wml(&saved([WRITE, read, rename]), Dialect::Fsage).unwrap();
            let text = &exported.text;
            let second = text.lines().find(|l| l.contains("name=files2")).unwrap();
            assert!(second.contains("size=20000"), "{rename}: {second}");
            let lost = |what: &str| exported.left_out.get(what);
            assert_eq!(
                (lost("bytes read"), lost("bytes written")),
                (None, None),
                "{text}"
            );
        }
    }
}

/// What a file is not large enough for is lost, in calls and in bytes, and not written so that it cannot be run.
#[test]
fn what_is_not_said_is_told_in_bytes() {
    let file = "[[files]]\ntype = \"file\"\nbefore = 1\nlater = 0\nsize_bytes = \"1000\"\ndirectory = \"0\"\n";
    let visits = [
        "\"open flags=0x2\", \"write at=random bytes=4096 place=0 unit=4096 times=100\", \"close\"",
    ];
    let model =
        Arc::new(Model::parse(&model_of(file, &visits, &["1 file=1.fresh next=0"])).unwrap());
    let exported = wml(&model, Dialect::Fsage).unwrap();
    assert!(
        exported.text.contains("iosize=1000, random"),
        "{}",
        exported.text
    );
    let lost = exported.left_out.get("bytes written").copied();
    assert_eq!(lost, Some(309_600), "{:?}", exported.left_out);
}

#[test]
fn what_would_be_played_for_hours_is_refused() {
    let file = "[[files]]\ntype = \"file\"\nbefore = 1\nlater = 0\ndirectory = \"0\"\n";
    let script = ["1 file=1.known:0 repeat=1000000000 next=0"];
    let model = Arc::new(Model::parse(&model_of(file, &["\"stat\""], &script)).unwrap());
    let refused = fio(&model).unwrap_err().to_string();
    assert!(
        refused.contains("1000000000 visits, expected at most 67108864"),
        "{refused}"
    );
}

/// How many files each fileset of a script has at the start, its entries, and how large each is.
fn filesets(text: &str) -> Vec<[u64; 3]> {
    let sets = text.lines().filter(|l| l.starts_with("define fileset"));
    let of = |line: &str, key: &str| -> u64 {
        let value = line.split(&format!("{key}=")).nth(1).unwrap();
        let value = value.split(',').next().unwrap();
        value.trim().parse().unwrap()
    };
    let each = |line: &str| {
        let entries = of(line, "entries");
        let there = (entries * of(line, "prealloc")).div_ceil(100);
        [there, entries, of(line, "size")]
    };
    sets.map(each).collect()
}

/// A file that is read was there once, however large it is, and what a run makes is not there before.
#[test]
fn scripts_have_as_many_files_before_as_the_model() {
    let files = "[[files]]\ntype = \"file\"\nbefore = 1\nlater = 0\nsize_bytes = \"104857600\"\ndirectory = \"0\"\n\
                 [[files]]\ntype = \"file\"\nbefore = 0\nlater = 1\ndirectory = \"0\"\n";
    let visits = [
        "\"open\", \"read at=next bytes=1048576 until=end+1 reads=104857600 times=101\", \"close\"",
        "\"open flags=0x241\", \"write at=next bytes=1000\", \"close\"",
    ];
    let script = [
        "1 file=1.fresh next=2",
        "2 file=2.new next=3",
        "2 file=2.known:0 repeat=9 next=0",
    ];
    let model = Arc::new(Model::parse(&model_of(files, &visits, &script)).unwrap());
    for dialect in [Dialect::Fsage, Dialect::Filebench] {
        let exported = wml(&model, dialect).unwrap();
        assert_eq!(
            filesets(&exported.text),
            [[1, 1, 104_857_600], [0, 1, 1000]],
            "{}",
            exported.text
        );
        assert_eq!(
            (exported.made, exported.made.files, exported.made.bytes),
            (exported.made_by_model, 1, 104_857_600)
        );
    }
    // fio has files of its own for what it writes, and no others.
    let exported = fio(&model).unwrap();
    assert!(
        exported.text.contains("nrfiles=1\nfilesize=104857600\n"),
        "{}",
        exported.text
    );
    assert!(
        exported.text.contains("nrfiles=1\nfilesize=5000\n"),
        "{}",
        exported.text
    );
    let more = [
        ("files before the run (so many more)", Some(1)),
        ("bytes before the run (so many more)", None),
    ];
    for (what, n) in more {
        assert_eq!(
            exported.left_out.get(what).copied(),
            n,
            "{:?}",
            exported.left_out
        );
    }
    assert_eq!(exported.made.bytes, 104_857_600 + 5000);
}

/// Of a file with a hole nobody can say that it has one, so it is not made as large as it seems, and that is told.
#[test]
fn a_hole_is_not_written_before_the_run() {
    let file = "[[files]]\ntype = \"file\"\nbefore = 0\nlater = 1\ndirectory = \"0\"\n";
    let visits = [
        "\"open flags=0x241\", \"write at=end offset=given bytes=1 place=1073741824\", \"close\"",
        "\"open\", \"read at=start offset=given bytes=65536\", \"close\"",
    ];
    let script = ["1 file=1.new next=2", "2 file=1.known:0 repeat=20 next=0"];
    let model = Arc::new(Model::parse(&model_of(file, &visits, &script)).unwrap());
    for dialect in [Dialect::Fsage, Dialect::Filebench] {
        let exported = wml(&model, dialect).unwrap();
        assert_eq!(filesets(&exported.text), [[0, 1, 1]], "{}", exported.text);
        assert_eq!((exported.made.files, exported.made.bytes), (0, 0));
        let lost = exported.left_out.get("bytes read").copied();
        assert_eq!(lost, Some(20 * 65_535), "{:?}", exported.left_out);
    }
    assert!(fio(&model).unwrap().made.bytes < 1 << 20);
}

/// Phases that use the same files do so for fio, too.
#[test]
fn files_are_laid_out_once_for_all_phases() {
    let file = "[[files]]\ntype = \"file\"\nbefore = 10\nlater = 0\nsize_bytes = \"1048576\"\ndirectory = \"0\"\n";
    let visits =
        ["\"open\", \"read at=next bytes=65536 until=end+0 reads=1048576 times=16\", \"close\""];
    let text = model_of(file, &visits, &["1 file=1.known:0 repeat=10 next=0"]);
    let (_, phase) = text.split_once("[[phase]]\n").unwrap();
    let second = phase.replace("start_ns = 0", "start_ns = 1000");
    let model = Model::parse(&format!("{text}[[phase]]\n{second}")).unwrap();
    let exported = fio(&Arc::new(model)).unwrap();
    assert_eq!(
        exported.text.matches("rwmixread=100").count(),
        2,
        "{}",
        exported.text
    );
    assert_eq!(
        (exported.made.files, exported.made.bytes),
        (10, 10 << 20),
        "{}",
        exported.text
    );
}
