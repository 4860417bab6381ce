//! The hot-file benchmark of the aging studies (Smith 1996, Table 2; Smith 2001, 3.3 and Table 3.3): the files
//! that an aged file system got last, as they lie, read and overwritten in place.

use crate::ops::{O_RDONLY, O_WRONLY, Ops};
use crate::params::{count, request, switch};
use crate::program::{BuildError, InputPath, Inputs, Program, TargetFile, check_requests};
use crate::spec::Values;
use crate::steps::{Steps, repeated, run_cold};
use crate::table::{Parameter, Workload};

/// Its row.
pub const WORKLOAD: Workload = Workload {
    name: "hot-files",
    what: "reads the files of the target that were modified last, directory by directory, and overwrites \
           them in place, with cold caches",
    good_for: "what aging does to files as real use made them; only on a target that has files: an aged one, \
               or one that is restored from a snapshot",
    source: "Smith 1996, Table 2; Smith 2001, 3.3 and Table 3.3",
    parameters: PARAMETERS,
    configs: &[],
    needs,
    build,
};

const PARAMETERS: &[Parameter] = &[
    count(
        "days",
        30,
        (1, 36_500),
        "how long before the newest of the target's files one may have been modified",
    ),
    request(
        "request",
        4 << 20,
        "size of a read or write request; a smaller file is one request",
    ),
    switch(
        "overwrite",
        true,
        "whether they are overwritten; in a directory of a user's they must not be",
    ),
];

const DAY_NS: u64 = 86_400_000_000_000;

fn needs(values: &Values) -> Vec<InputPath> {
    let changes = values.switch("overwrite");
    vec![InputPath::Target { changes }]
}

fn build(values: &Values, inputs: &Inputs) -> Result<Program, BuildError> {
    let days = values.number("days");
    let files = match &inputs.files {
        Some(files) => hot(files, days)?,
        None => Vec::new(),
    };
    let request = values.number("request");
    let largest = files.iter().map(|file| file.size_bytes).max();
    check_requests(WORKLOAD.name, largest.unwrap_or(0), request)?;
    let names: Vec<Vec<u8>> = files.iter().map(|file| file.path.clone()).collect();
    let mut plans = vec![run_cold("read").laid_out(names.clone())];
    if values.switch("overwrite") {
        plans.push(run_cold("overwrite").laid_out(names));
    }
    let generator = HotFiles {
        files,
        request,
        at: 0,
    };
    Ok(repeated(WORKLOAD.name, generator, plans, inputs.length))
}

/// The files with data of the last days before the newest of them, sorted by directory, then by name: the same on
/// every file system.
fn hot(files: &[TargetFile], days: u64) -> Result<Vec<TargetFile>, BuildError> {
    let refused = |why: String| Err(BuildError::new(WORKLOAD.name, why));
    let with_data = || files.iter().filter(|file| file.size_bytes > 0);
    let Some(newest) = with_data().map(|file| file.modified_unix_ns).max() else {
        let why = "no file with data lies in the target; expected one that was aged or restored";
        return refused(why.to_owned());
    };
    let is_hot = |file: &&TargetFile| newest - file.modified_unix_ns < days * DAY_NS;
    let mut hot: Vec<TargetFile> = with_data()
        .filter(is_hot)
        .filter(|file| !file.unwritten)
        .cloned()
        .collect();
    if hot.is_empty() {
        return refused(format!(
            "the files of the last {days} days are only allocated, as by `age apply --fast`: to read them asks no \
             disk; expected files that were written"
        ));
    }
    hot.sort_by(|a, b| (directory(&a.path), &a.path).cmp(&(directory(&b.path), &b.path)));
    Ok(hot)
}

fn directory(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&b| b == b'/').unwrap_or(0);
    path.get(..end).unwrap_or_default()
}

struct HotFiles {
    files: Vec<TargetFile>,
    request: u64,
    /// The file that comes next.
    at: usize,
}

impl Steps for HotFiles {
    fn step(&mut self, stage: usize, index: u64, ops: &mut Ops) -> bool {
        if index == 0 {
            self.at = 0;
        }
        let at = self.at;
        self.at += 1;
        let overwrite = stage == 1;
        let Some(file) = self.files.get(at) else {
            // What was written is on the device when the phase ends.
            let sync = overwrite && at == self.files.len();
            if sync {
                ops.sync();
            }
            return sync;
        };
        let flags = if overwrite { O_WRONLY } else { O_RDONLY };
        let mut open = ops.open(&file.path, flags, file.size_bytes);
        while !open.at_end() {
            let length = self.request.min(open.size - open.position);
            if overwrite {
                ops.write(&mut open, length);
            } else {
                ops.read(&mut open, length);
            }
        }
        ops.close(open);
        true
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn file(path: &str, size_bytes: u64, day: u64, unwritten: bool) -> TargetFile {
        TargetFile {
            path: path.into(),
            size_bytes,
            modified_unix_ns: day * DAY_NS,
            unwritten,
        }
    }

    #[test]
    fn files_of_the_last_days_come_directory_by_directory() {
        let files = [
            file("b/x", 1, 99, false),
            file("b/c/a", 1, 98, false),
            file("z", 1, 100, false),
            file("b/old", 1, 70, false),
            file("b/edge", 1, 71, false),
            file("b/empty", 0, 200, false),
            file("b/allocated", 9, 100, true),
        ];
        let names = |days| -> Vec<String> {
            let hot = hot(&files, days).unwrap();
            let name = |file: &TargetFile| String::from_utf8_lossy(&file.path).into_owned();
            hot.iter().map(name).collect()
        };
        assert_eq!(names(30), ["z", "b/edge", "b/x", "b/c/a"]);
        assert_eq!(names(2), ["z", "b/x"]);
        let refused = |files: &[TargetFile]| hot(files, 30).unwrap_err().to_string();
        assert!(refused(&files[6..]).contains("--fast"));
        assert!(refused(&files[5..6]).contains("no file with data"));
    }
}
