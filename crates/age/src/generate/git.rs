//! From the history of a git repository: each commit, at its date, as a checkout of it and the objects it brings.
//!
//! As git 2.39 does it: a changed file is unlinked and made anew with O_EXCL (entry.c), the index and references are
//! written beside and renamed (lockfile.c), a loose object is written as tmp_obj_…, linked to its name and the first
//! name unlinked (object-file.c); more than 6,700 loose objects are packed into one with all packs before, then
//! unlinked (`gc.auto`, builtin/gc.c).

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustc_hash::{FxHashMap, FxHashSet};

use super::emit::Emitter;
use super::{GenerateError, Source, Wanted, begun, refused};
use crate::made::{AgingKind, DAY_NS, Made};

/// Loose objects that git leaves before it packs them.
const GC_AUTO: usize = 6700;

/// The longest link target and the largest token that are taken.
const TOKEN_BYTES: u64 = 1 << 16;

/// A history as a source.
pub struct GitSource {
    repository: PathBuf,
    made: Made,
    begin_s: u64,
}

type Done = Result<(), GenerateError>;

impl GitSource {
    /// The history of what is checked out there.
    pub fn new(repository: &Path, wanted: &Wanted) -> Result<Self, GenerateError> {
        wanted.check()?;
        if wanted.fill.is_some() || wanted.scale.is_some() {
            return Err(refused(
                "--fill and --scale are for profiles: a repository has its own files and pace; --size asks for a file system",
            ));
        }
        let mut log = Git::start(
            repository,
            &["log", "--first-parent", "--reverse", "--format=%ct"],
        )?;
        let (mut first, mut last, mut line) = (None, 0, String::new());
        while log
            .out
            .by_ref()
            .take(TOKEN_BYTES)
            .read_line(&mut line)
            .map_err(|e| log.failed(&e))?
            > 0
        {
            let at: u64 = line.trim().parse().unwrap_or(0);
            first.get_or_insert(at);
            last = last.max(at);
            line.clear();
        }
        log.end()?;
        let begin_s =
            first.ok_or_else(|| refused(format!("{} has no commit", repository.display())))?;
        let days = last.saturating_sub(begin_s) / (DAY_NS / 1_000_000_000) + 1;
        if let Some(asked) = wanted.days.filter(|&asked| u64::from(asked) > days) {
            return Err(refused(format!(
                "--days {asked}: the history is of {days} days, expected at most as many"
            )));
        }
        let days = days.min(u64::from(wanted.days.unwrap_or(36_500))) as u32;
        Ok(Self {
            made: Made {
                days,
                size_bytes: wanted.size_bytes.unwrap_or(0),
                ..begun(AgingKind::Git, &repository.display().to_string(), wanted)
            },
            repository: repository.to_owned(),
            begin_s,
        })
    }
}

impl Source for GitSource {
    fn made(&self) -> Made {
        self.made.clone()
    }

    fn emit(&mut self, out: &mut Emitter<'_>) -> Done {
        let mut log = Git::start(
            &self.repository,
            &[
                "log",
                "--first-parent",
                "--reverse",
                "-m",
                "--raw",
                "-t",
                "-z",
                "--no-renames",
                "--no-abbrev",
                "--format=%x01%H %T %ct",
            ],
        )?;
        let format = "--batch-command=%(objectname) %(objectsize) %(objectsize:disk) %(objecttype)";
        let objects = Git::start(&self.repository, &["cat-file", format])?;
        let mut checkout = Checkout::new(objects);
        let mut commit: Option<Commit> = None;
        let mut day = 0;
        let mut last_s = self.begin_s;
        while let Some(token) = log.token()? {
            if let Some(head) = token.strip_prefix(b"\x01") {
                if let Some(commit) = commit.take() {
                    checkout.commit(&commit, out)?;
                }
                let next = Commit::parse(head).ok_or_else(|| log.strange(head))?;
                out.leave_out(
                    "commits dated before the one before them",
                    u64::from(next.at_s < last_s),
                );
                last_s = last_s.max(next.at_s);
                let ns = (last_s - self.begin_s).saturating_mul(1_000_000_000);
                while u64::from(day + 1) * DAY_NS <= ns && day + 1 < self.made.days {
                    day += 1;
                    out.end_day()?;
                }
                if ns / DAY_NS >= u64::from(self.made.days) {
                    out.leave_out("commits after the last day", 1);
                    break;
                }
                out.at(ns);
                commit = Some(next);
            } else if token.starts_with(b":") {
                let path = log.token()?.ok_or_else(|| log.strange(&token))?;
                let change = Change::parse(&token, path).ok_or_else(|| log.strange(&token))?;
                if let Some(commit) = &mut commit {
                    commit.changes.push(change);
                }
            }
        }
        if let Some(commit) = commit {
            checkout.commit(&commit, out)?;
        }
        while day < self.made.days {
            day += 1;
            out.end_day()?;
        }
        Ok(())
    }
}

/// A git command that is read from.
struct Git {
    child: Child,
    input: Option<ChildStdin>,
    out: BufReader<ChildStdout>,
    repository: PathBuf,
}

impl Git {
    fn start(repository: &Path, arguments: &[&str]) -> Result<Self, GenerateError> {
        let failed =
            |what: String| refused(format!("read {}: run git: {what}", repository.display()));
        let mut command = Command::new("git");
        // Nothing that the repository's configuration names is run.
        command.args([
            "--no-pager",
            "-c",
            "core.fsmonitor=false",
            "-c",
            "log.showSignature=false",
            "-C",
        ]);
        command
            .arg(repository)
            .args(arguments)
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("LC_ALL", "C");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| failed(e.to_string()))?;
        let input = child.stdin.take();
        let out = child
            .stdout
            .take()
            .ok_or_else(|| failed("it has no output".into()))?;
        Ok(Self {
            child,
            input,
            out: BufReader::with_capacity(1 << 16, out),
            repository: repository.to_owned(),
        })
    }

    fn failed(&self, what: &dyn std::fmt::Display) -> GenerateError {
        refused(format!("read {}: git: {what}", self.repository.display()))
    }

    fn strange(&self, token: &[u8]) -> GenerateError {
        self.failed(&format!("`{}` in its log", token.escape_ascii()))
    }

    /// What stands before the next NUL; `None` at the end.
    fn token(&mut self) -> Result<Option<Vec<u8>>, GenerateError> {
        let mut token = Vec::new();
        loop {
            let more = self
                .out
                .by_ref()
                .take(TOKEN_BYTES)
                .read_until(0, &mut token);
            if more.map_err(|e| self.failed(&e))? == 0 {
                self.end()?;
                return Ok(None);
            }
            if token.pop_if(|b| *b == 0).is_none() && token.len() as u64 >= TOKEN_BYTES {
                return Err(self.failed(&"a name without an end in its log"));
            }
            let begins = token
                .iter()
                .position(|&b| b != b'\n')
                .unwrap_or(token.len());
            token.drain(..begins);
            if !token.is_empty() {
                return Ok(Some(token));
            }
        }
    }

    /// Requires that it ended well.
    fn end(&mut self) -> Done {
        drop(self.input.take());
        let mut said = String::new();
        if let Some(errors) = self.child.stderr.take() {
            errors
                .take(TOKEN_BYTES)
                .read_to_string(&mut said)
                .map_err(|e| self.failed(&e))?;
        }
        let status = self.child.wait().map_err(|e| self.failed(&e))?;
        if status.success() {
            Ok(())
        } else {
            Err(self.failed(&said.trim()))
        }
    }

    /// The size of an object, and what it takes in the repository.
    fn object(&mut self, id: &str) -> Result<(u64, u64), GenerateError> {
        let line = self.ask("info", id)?;
        let mut fields = line.split_ascii_whitespace().skip(1).map(str::parse::<u64>);
        match (fields.next(), fields.next()) {
            (Some(Ok(size)), Some(Ok(disk))) => Ok((size, disk)),
            _ => Err(self.failed(&format!("object {id}: {}", line.trim()))),
        }
    }

    /// The bytes of a small object.
    fn contents(&mut self, id: &str) -> Result<Vec<u8>, GenerateError> {
        let line = self.ask("contents", id)?;
        let size = line
            .split_ascii_whitespace()
            .nth(1)
            .and_then(|s| s.parse::<u64>().ok());
        let size = size
            .filter(|&s| s < TOKEN_BYTES)
            .ok_or_else(|| self.failed(&line.trim()))?;
        let mut bytes = vec![0; size as usize + 1];
        self.out
            .read_exact(&mut bytes)
            .map_err(|e| self.failed(&e))?;
        bytes.pop();
        Ok(bytes)
    }

    fn ask(&mut self, what: &str, id: &str) -> Result<String, GenerateError> {
        let asked = self
            .input
            .as_mut()
            .map(|input| writeln!(input, "{what} {id}"));
        if let Some(Err(error)) = asked {
            return Err(self.failed(&error));
        }
        let mut line = String::new();
        let got = self.out.by_ref().take(TOKEN_BYTES).read_line(&mut line);
        match got {
            Ok(1..) => Ok(line),
            Ok(0) => {
                self.end()?;
                Err(self.failed(&"cat-file ended"))
            }
            Err(error) => Err(self.failed(&error)),
        }
    }
}

impl Drop for Git {
    fn drop(&mut self) {
        drop(self.input.take());
        // One that has ended cannot be killed, which is as good.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A commit with what it changes.
struct Commit {
    id: String,
    tree: String,
    at_s: u64,
    changes: Vec<Change>,
}

impl Commit {
    fn parse(head: &[u8]) -> Option<Self> {
        let mut fields = std::str::from_utf8(head).ok()?.split(' ');
        let (id, tree) = (fields.next()?.to_owned(), fields.next()?.to_owned());
        let at_s = fields.next()?.trim().parse().ok()?;
        (id.len() > 4 && tree.len() > 4).then(|| Self {
            id,
            tree,
            at_s,
            changes: Vec::new(),
        })
    }
}

/// A file or tree of a commit that is new, another or gone.
struct Change {
    mode: u32,
    id: String,
    path: Vec<u8>,
}

const TREE: u32 = 0o40_000;
const LINK: u32 = 0o120_000;
const MODULE: u32 = 0o160_000;

impl Change {
    fn parse(token: &[u8], path: Vec<u8>) -> Option<Self> {
        let mut fields = std::str::from_utf8(token.get(1..)?).ok()?.split(' ');
        let mode = u32::from_str_radix(fields.nth(1)?, 8).ok()?;
        let id = fields.nth(1)?.to_owned();
        let inside = path
            .split(|&b| b == b'/')
            .all(|part| !matches!(part, b"" | b"." | b".." | b".git"));
        // What is gone was something: its old mode says whether a tree.
        let old = u32::from_str_radix(std::str::from_utf8(token.get(1..7)?).ok()?, 8).ok()?;
        let mode = if mode == 0 && old == TREE { TREE } else { mode };
        (inside && id.len() > 4).then_some(Self { mode, id, path })
    }

    fn gone(&self) -> bool {
        self.id.bytes().all(|b| b == b'0')
    }
}

struct Checkout {
    git: Git,
    /// Bytes of files, by path; 0 for links.
    files: FxHashMap<Vec<u8>, u64>,
    /// Names in directories.
    dirs: FxHashMap<Vec<u8>, u64>,
    /// Of these, the ones that are empty for a moment.
    kept: FxHashSet<Vec<u8>>,
    seen: FxHashSet<String>,
    loose: Vec<(String, u64, u64)>,
    packed: (u64, u64),
    packs: u64,
    index_bytes: u64,
    /// Files that are written beside and renamed, or added to: what they hold.
    held: FxHashMap<&'static str, u64>,
}

impl Checkout {
    fn new(git: Git) -> Self {
        Self {
            git,
            files: FxHashMap::default(),
            dirs: FxHashMap::default(),
            kept: FxHashSet::default(),
            seen: FxHashSet::default(),
            loose: Vec::new(),
            packed: (0, 0),
            packs: 0,
            index_bytes: 12 + 20,
            held: FxHashMap::default(),
        }
    }

    fn commit(&mut self, commit: &Commit, out: &mut Emitter<'_>) -> Done {
        for change in commit.changes.iter().filter(|c| c.mode != TREE) {
            if self.files.contains_key(&change.path) {
                self.unlink(&change.path, change.gone(), out)?;
            }
        }
        let there = |c: &&Change| c.mode != TREE && !c.gone();
        for change in commit.changes.iter().filter(there) {
            self.check_out(change, out)?;
        }
        self.replace(".git/index", self.index_bytes, out)?;
        for change in commit
            .changes
            .iter()
            .filter(|c| !c.gone() && c.mode != MODULE)
        {
            self.object(&change.id, out)?;
        }
        self.object(&commit.tree, out)?;
        self.object(&commit.id, out)?;
        self.replace(".git/refs/heads/main", 41, out)?;
        for log in [".git/logs/HEAD", ".git/logs/refs/heads/main"] {
            self.add_to(log, 160, out)?;
        }
        if self.loose.len() > GC_AUTO {
            self.pack(out)
        } else {
            Ok(())
        }
    }

    /// `stays` is whether its directories are to go with the last of their names.
    fn unlink(&mut self, path: &[u8], for_good: bool, out: &mut Emitter<'_>) -> Done {
        let size = self.files.remove(path).unwrap_or(0);
        out.unlink(path, size)?;
        self.index_bytes = self.index_bytes.saturating_sub(index_entry(path));
        let mut path = path;
        while let Some(at) = path.iter().rposition(|&b| b == b'/') {
            path = path.get(..at).unwrap_or_default();
            let Some(names) = self.dirs.get_mut(path) else {
                break;
            };
            *names = names.saturating_sub(1);
            if *names == 0 && !for_good {
                self.kept.insert(path.to_vec());
            }
            if *names > 0 || !for_good {
                break;
            }
            self.dirs.remove(path);
            out.rmdir(path)?;
        }
        Ok(())
    }

    fn check_out(&mut self, change: &Change, out: &mut Emitter<'_>) -> Done {
        if change.mode == MODULE {
            out.leave_out("submodules", 1);
            return Ok(());
        }
        self.directories(&change.path, out)?;
        let size = if change.mode == LINK {
            let target = self.git.contents(&change.id)?;
            out.symlink(&change.path, &target)?;
            0
        } else {
            let (size, _) = self.git.object(&change.id)?;
            out.create(&change.path, size)?;
            size
        };
        self.index_bytes += index_entry(&change.path);
        self.files.insert(change.path.clone(), size);
        Ok(())
    }

    /// Makes the directories of a path, and counts its name.
    fn directories(&mut self, path: &[u8], out: &mut Emitter<'_>) -> Done {
        let mut missing = Vec::new();
        let mut path = path;
        while let Some(at) = path.iter().rposition(|&b| b == b'/') {
            path = path.get(..at).unwrap_or_default();
            let names = self.dirs.entry(path.to_vec()).or_default();
            let new = *names == 0 && !self.kept.remove(path);
            *names += 1;
            if !new {
                break;
            }
            missing.push(path);
        }
        missing.iter().rev().try_for_each(|dir| out.mkdir(dir))
    }

    /// Writes a file beside and renames it over the old one.
    fn replace(&mut self, name: &'static str, size: u64, out: &mut Emitter<'_>) -> Done {
        let beside = format!("{name}.lock").into_bytes();
        let old = self.held.insert(name, size);
        if old.is_none() {
            self.directories(name.as_bytes(), out)?;
        }
        out.create(&beside, size)?;
        out.rename(&beside, name.as_bytes(), old.unwrap_or(0))
    }

    fn add_to(&mut self, name: &'static str, bytes: u64, out: &mut Emitter<'_>) -> Done {
        let old = self.held.get(name).copied();
        self.held.insert(name, old.unwrap_or(0) + bytes);
        if let Some(old) = old {
            return out.append(name.as_bytes(), old, old + bytes);
        }
        self.directories(name.as_bytes(), out)?;
        out.create(name.as_bytes(), bytes)
    }

    /// Writes an object that is not there yet.
    fn object(&mut self, id: &str, out: &mut Emitter<'_>) -> Done {
        if !self.seen.insert(id.to_owned()) {
            return Ok(());
        }
        let (size, disk) = self.git.object(id)?;
        // In a pack it may be a difference to another; loose it is deflated whole, text to two fifths.
        let loose = disk.max(size * 2 / 5);
        let path = object_path(id).into_bytes();
        let beside = format!(
            ".git/objects/{}/tmp_obj_{}",
            id.get(..2).unwrap_or("00"),
            id.get(2..8).unwrap_or("0")
        );
        self.directories(&path, out)?;
        out.create(beside.as_bytes(), loose)?;
        out.link(beside.as_bytes(), &path)?;
        out.unlink(beside.as_bytes(), 0)?;
        self.loose.push((id.to_owned(), loose, disk));
        Ok(())
    }

    /// Packs all that is loose with what was packed before.
    fn pack(&mut self, out: &mut Emitter<'_>) -> Done {
        let (old_pack, old_objects) = self.packed;
        let pack = old_pack + self.loose.iter().map(|l| l.2).sum::<u64>() + 32;
        let objects = old_objects + self.loose.len() as u64;
        let index = |objects: u64| 1072 + objects * 28;
        self.packs += 1;
        for (kind, size) in [("pack", pack), ("idx", index(objects))] {
            let beside = format!(".git/objects/pack/tmp_{kind}_{}", self.packs);
            let name = format!(".git/objects/pack/pack-{}.{kind}", self.packs);
            self.directories(name.as_bytes(), out)?;
            out.create(beside.as_bytes(), size)?;
            out.rename(beside.as_bytes(), name.as_bytes(), 0)?;
        }
        if self.packs > 1 {
            for (kind, size) in [("idx", index(old_objects)), ("pack", old_pack)] {
                let name = format!(".git/objects/pack/pack-{}.{kind}", self.packs - 1);
                out.unlink(name.as_bytes(), size)?;
            }
        }
        for (id, loose, _) in std::mem::take(&mut self.loose) {
            let path = object_path(&id).into_bytes();
            self.files.insert(path.clone(), loose);
            let index = self.index_bytes;
            self.unlink(&path, true, out)?;
            self.index_bytes = index;
        }
        self.packed = (pack, objects);
        Ok(())
    }
}

fn object_path(id: &str) -> String {
    let (two, rest) = id.split_at_checked(2).unwrap_or(("00", id));
    format!(".git/objects/{two}/{rest}")
}

/// An entry of the index: 62 bytes and the name, rounded up to 8.
fn index_entry(path: &[u8]) -> u64 {
    (62 + path.len() as u64 + 1).next_multiple_of(8)
}
