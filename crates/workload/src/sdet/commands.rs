//! The commands of a script. Each leaves the names of the home directory as it found them.

use super::{Home, Kept};
use crate::ops::{NEW, O_RDONLY, Ops};

/// What these commands read and write at once: the C library's buffer, and cat's of old.
pub const REQUEST_BYTES: u64 = 4096;

/// A command and how many of it stand in a mix of all.
pub struct Command {
    /// How often it comes in a round of the mix.
    pub weight: u64,
    /// What it does.
    pub run: fn(&mut Home, &mut Ops),
}

/// `_name` is what a user types.
const fn command(_name: &str, weight: u64, run: fn(&mut Home, &mut Ops)) -> Command {
    Command { weight, run }
}

/// The mix: the commands that Smith 2001, 4.5.3.2 and Traeger 2007, 7.5 name, those of the first
/// more often.
pub const COMMANDS: &[Command] = &[
    command("ed", 5, edit),
    command("cc", 5, compile),
    command("grep", 4, search),
    command("diff", 3, compare),
    command("cp", 4, copy),
    command("spell", 3, spell),
    command("ls -l", 5, list),
    command("mkdir", 3, directories),
    command("make", 1, make),
    command("find", 1, find),
    command("nroff", 2, format_text),
    command("cat", 3, concatenate),
    command("mv", 3, rename),
    command("tar", 1, archive),
    command("touch", 2, touch),
];

fn pick<'h>(files: &'h [Kept], random: &mut crate::random::Random) -> Option<&'h Kept> {
    files.get(random.below(files.len() as u64) as usize)
}

fn read(kept: &Kept, ops: &mut Ops) {
    ops.read_whole(&kept.path, kept.size, REQUEST_BYTES);
}

/// Makes a temporary file, which the caller removes.
fn write(path: &str, size: u64, ops: &mut Ops) {
    ops.write_whole(path, size, REQUEST_BYTES);
}

fn names<'h>(files: impl IntoIterator<Item = &'h Kept>) -> Vec<&'h [u8]> {
    files.into_iter().map(name).collect()
}

fn name(kept: &Kept) -> &[u8] {
    kept.path.rsplit('/').next().unwrap_or_default().as_bytes()
}

/// Reads a text into a temporary file and writes it back, a little longer or shorter.
fn edit(home: &mut Home, ops: &mut Ops) {
    let temporary = home.temporary("ed");
    let draw = home.random.below(2);
    let files = if draw == 0 {
        &mut home.texts
    } else {
        &mut home.sources
    };
    let number = home.random.below(files.len() as u64) as usize;
    let Some(kept) = files.get_mut(number) else {
        return;
    };
    ops.stat(&kept.path, kept.size);
    read(kept, ops);
    let change = home.random.below(401);
    let size = (kept.size + change).saturating_sub(200).max(100);
    write(&temporary, size, ops);
    ops.read_whole(&temporary, size, REQUEST_BYTES);
    write(&kept.path, size, ops);
    kept.size = size;
    ops.unlink(temporary);
}

/// What the assembler and the linker make of a source of that size.
fn object_bytes(source: u64) -> u64 {
    source * 3 / 2
}

/// Compiles one source to an object; its headers are looked for beside it first.
fn compile_one(home: &mut Home, number: usize, ops: &mut Ops) -> Option<(String, u64)> {
    let source = home.sources.get(number)?;
    let assembly = home.temporary("cc.s");
    read(source, ops);
    for _ in 0..3 {
        let header = pick(&home.headers, &mut home.random)?;
        let beside = String::from_utf8_lossy(name(header)).into_owned();
        ops.open_missing(format!("{}/src/{beside}", home.root));
        ops.read_known(&header.path, header.size);
    }
    let (assembly_size, size) = (source.size * 3, object_bytes(source.size));
    write(&assembly, assembly_size, ops);
    ops.read_whole(&assembly, assembly_size, REQUEST_BYTES);
    let object = format!("{}.o", source.path);
    write(&object, size, ops);
    ops.unlink(assembly);
    Some((object, size))
}

/// Links objects, runs what came out and removes all of it.
fn link(home: &Home, objects: Vec<(String, u64)>, ops: &mut Ops) {
    let program = format!("{}/src/a.out", home.root);
    let mut total = 0;
    for (object, size) in &objects {
        ops.read_whole(object, *size, REQUEST_BYTES);
        total += size;
    }
    write(&program, total, ops);
    ops.chmod(&program, 0o755);
    ops.stat(&program, total);
    ops.unlink(program);
    for (object, _) in objects {
        ops.unlink(object);
    }
}

fn compile(home: &mut Home, ops: &mut Ops) {
    let number = home.random.below(home.sources.len() as u64) as usize;
    if let Some(object) = compile_one(home, number, ops) {
        link(home, vec![object], ops);
    }
}

fn make(home: &mut Home, ops: &mut Ops) {
    read(&home.makefile, ops);
    for source in &home.sources {
        ops.stat_missing(format!("{}.o", source.path));
        ops.stat(&source.path, source.size);
    }
    let objects = (0..home.sources.len())
        .filter_map(|number| compile_one(home, number, ops))
        .collect();
    link(home, objects, ops);
}

fn search(home: &mut Home, ops: &mut Ops) {
    let within = names(home.sources.iter().chain([&home.makefile]));
    ops.list(format!("{}/src", home.root), within);
    for file in home.sources.iter().chain(&home.headers) {
        read(file, ops);
    }
}

fn compare(home: &mut Home, ops: &mut Ops) {
    let (Some(one), Some(two)) = (
        pick(&home.texts, &mut home.random).cloned(),
        pick(&home.texts, &mut home.random).cloned(),
    ) else {
        return;
    };
    ops.stat(&one.path, one.size);
    ops.stat(&two.path, two.size);
    let mut first = ops.open(&one.path, O_RDONLY, one.size);
    let mut second = ops.open(&two.path, O_RDONLY, two.size);
    loop {
        let got = ops.read(&mut first, REQUEST_BYTES) + ops.read(&mut second, REQUEST_BYTES);
        if got == 0 {
            break;
        }
    }
    ops.close(second);
    ops.close(first);
}

fn copy(home: &mut Home, ops: &mut Ops) {
    let to = home.temporary("copy");
    for _ in 0..3 {
        if let Some(text) = pick(&home.texts, &mut home.random) {
            ops.copy(&text.path, &to, text.size, REQUEST_BYTES);
            ops.stat(&to, text.size);
            ops.unlink(&to);
        }
    }
}

/// Words of a text are sorted through temporary files and looked up in the dictionary.
fn spell(home: &mut Home, ops: &mut Ops) {
    let (words, sorted) = (home.temporary("words"), home.temporary("sorted"));
    let Some(text) = pick(&home.texts, &mut home.random) else {
        return;
    };
    read(text, ops);
    write(&words, text.size, ops);
    ops.read_whole(&words, text.size, REQUEST_BYTES);
    write(&sorted, text.size / 2, ops);
    read(&home.words, ops);
    ops.read_whole(&sorted, text.size / 2, REQUEST_BYTES);
    ops.unlink(words);
    ops.unlink(sorted);
}

fn list_files(directory: String, files: &[&Kept], ops: &mut Ops) {
    ops.list(directory, names(files.iter().copied()));
    for file in files {
        ops.lstat(&file.path);
    }
}

fn list(home: &mut Home, ops: &mut Ops) {
    let (directory, files): (&str, Vec<&Kept>) = match home.random.below(3) {
        0 => ("src", home.sources.iter().chain([&home.makefile]).collect()),
        1 => ("include", home.headers.iter().collect()),
        _ => ("doc", home.texts.iter().chain([&home.words]).collect()),
    };
    list_files(format!("{}/{directory}", home.root), &files, ops);
}

fn find(home: &mut Home, ops: &mut Ops) {
    let root = &home.root;
    let below: [&[u8]; 4] = [b"src", b"include", b"doc", b"tmp"];
    ops.list(root, below);
    let sources: Vec<&Kept> = home.sources.iter().chain([&home.makefile]).collect();
    let texts: Vec<&Kept> = home.texts.iter().chain([&home.words]).collect();
    let headers: Vec<&Kept> = home.headers.iter().collect();
    list_files(format!("{root}/src"), &sources, ops);
    list_files(format!("{root}/include"), &headers, ops);
    list_files(format!("{root}/doc"), &texts, ops);
    list_files(format!("{root}/tmp"), &[], ops);
}

fn directories(home: &mut Home, ops: &mut Ops) {
    let directory = home.temporary("new");
    ops.stat_missing(&directory);
    ops.mkdir(&directory);
    let files: Vec<Kept> = (0..4)
        .map(|i| Kept {
            path: format!("{directory}/file{i}"),
            size: 0,
        })
        .collect();
    for file in &files {
        let made = ops.open(&file.path, NEW, 0);
        ops.close(made);
    }
    list_files(directory.clone(), &files.iter().collect::<Vec<_>>(), ops);
    for file in &files {
        ops.unlink(&file.path);
    }
    ops.rmdir(directory);
}

/// A text is formatted into a file and looked at.
fn format_text(home: &mut Home, ops: &mut Ops) {
    let page = home.temporary("page");
    let Some(text) = pick(&home.texts, &mut home.random) else {
        return;
    };
    read(text, ops);
    let size = text.size * 5 / 4;
    write(&page, size, ops);
    ops.read_whole(&page, size, REQUEST_BYTES);
    ops.unlink(page);
}

fn concatenate(home: &mut Home, ops: &mut Ops) {
    let all = home.temporary("all");
    let mut to = ops.open(&all, NEW, 0);
    for text in &home.texts {
        let mut file = ops.open(&text.path, O_RDONLY, text.size);
        loop {
            let got = ops.read(&mut file, REQUEST_BYTES);
            if got == 0 {
                break;
            }
            ops.write(&mut to, got);
        }
        ops.close(file);
    }
    let size = ops.close(to);
    ops.read_whole(&all, size, REQUEST_BYTES);
    ops.unlink(all);
}

fn rename(home: &mut Home, ops: &mut Ops) {
    let (old, new) = (home.temporary("old"), home.temporary("new.c"));
    let Some(source) = pick(&home.sources, &mut home.random) else {
        return;
    };
    ops.copy(&source.path, &old, source.size, REQUEST_BYTES);
    ops.stat_missing(&new);
    ops.rename(&old, &new);
    ops.chmod(&new, 0o600);
    ops.stat(&new, source.size);
    ops.unlink(new);
}

/// Everything is read into one file in blocks of 512 bytes with a header for each.
fn archive(home: &mut Home, ops: &mut Ops) {
    let path = home.temporary("archive");
    let mut to = ops.open(&path, NEW, 0);
    for kept in home.files() {
        ops.lstat(&kept.path);
        let mut file = ops.open(&kept.path, O_RDONLY, kept.size);
        ops.write(&mut to, 512);
        while !file.at_end() {
            let got = ops.read(&mut file, REQUEST_BYTES);
            ops.write(&mut to, got.next_multiple_of(512));
        }
        ops.close(file);
    }
    let size = ops.close(to);
    ops.read_whole(&path, size, 10 << 10);
    ops.unlink(path);
}

fn touch(home: &mut Home, ops: &mut Ops) {
    let path = home.temporary("touched");
    ops.stat_missing(&path);
    let file = ops.open(&path, NEW, 0);
    ops.close(file);
    ops.utimens(&path);
    ops.unlink(path);
}
