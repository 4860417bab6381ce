//! Copies that share the blocks of their source.

use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::host_calls::{absolute, errno};
use crate::error::{Halt, Res};
use crate::lab::{Batch, Lab};
use crate::probe::Probe;
use crate::registry::Procedure;

pub(crate) const PROCEDURES: &[Procedure] = &[Procedure {
    name: "copies that share blocks",
    stems: &["CLONE"],
    share: (6, 10),
    run: clones,
}];

const SIZES_KIB: [u32; 5] = [1, 4, 16, 64, 256];

/// Whole files are copied into new ones in random order; both are open.
fn clones(lab: &mut Lab<'_>) -> Res {
    let Some(root) = lab.host_dir.clone() else {
        return Err(Halt::Absent(
            "the target is no directory of this machine".to_owned(),
        ));
    };
    let dir = lab.fresh_dir("k")?;
    let mut sources = Vec::new();
    for number in 0..lab.scale(24, 80) {
        for kib in SIZES_KIB {
            let path = format!("{dir}/s{number}-{kib}").into_bytes();
            lab.make_file(&path, u64::from(kib) << 10)?;
            sources.push((absolute(&root, &path), kib));
        }
    }
    let found = sources
        .first()
        .map_or(Ok(()), |(path, _)| shares(path, &root.join(&dir)));
    if let Err(halt) = found {
        crate::population::remove_tree(lab.fs, dir.as_bytes())?;
        return Err(halt);
    }
    let rounds = (lab.scale(2, 4), lab.scale(3, 10));
    lab.rounds(&["CLONE"], rounds, |lab, _| {
        let copies = lab.fresh_dir("c")?;
        lab.make_data_cold()?;
        let mut order = sources.clone();
        lab.random.shuffle(&mut order);
        for (path, _) in &order {
            errno(rustix::fs::stat(path))?;
        }
        copy_all(lab, &order, &root.join(&copies))?;
        Ok(crate::population::remove_tree(lab.fs, copies.as_bytes())?)
    })?;
    Ok(crate::population::remove_tree(lab.fs, dir.as_bytes())?)
}

/// Whether files of the target can share blocks at all: the same copy without that would move data.
fn shares(source: &Path, dir: &Path) -> Res {
    let (from, to) = both(source, &dir.join("shared"))?;
    rustix::fs::ioctl_ficlone(&to, &from).map_err(|e| {
        Halt::Absent(format!(
            "the target copies data: files share no blocks: {e}"
        ))
    })
}

/// The source and a new empty file, open.
fn both(source: &Path, copy: &Path) -> Res<(File, File)> {
    let open = |path, flags, mode| errno(rustix::fs::open(path, flags | OFlags::CLOEXEC, mode));
    let from = open(source, OFlags::RDONLY, Mode::empty())?;
    let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let to = open(copy, new, Mode::RUSR | Mode::WUSR)?;
    Ok((File::from(from), File::from(to)))
}

fn copy_all(lab: &mut Lab<'_>, sources: &[(PathBuf, u32)], copies: &Path) -> Res {
    lab.begin(Batch::Changing);
    for (number, (path, kib)) in sources.iter().enumerate() {
        let (from, to) = both(path, &copies.join(format!("c{number}")))?;
        let length = (*kib as usize) << 10;
        let call = || errno(rustix::fs::copy_file_range(&from, None, &to, None, length));
        lab.call(Probe::at("CLONE", *kib), 0, call)?;
    }
    lab.end().map(|_| ())
}
