//! A tar and a Debian package of the release binary, with completions and manual pages, made without a
//! network and tried before they are told of.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

/// The largest that the program may be, bytes.
const LARGEST: u64 = 25_000_000;

/// Where shells look for completions below `usr/share`: what `fsage reference` names them, and that.
const COMPLETIONS: [(&str, &str, &str); 3] = [
    ("fsage.bash", "bash-completion/completions/fsage", "bash"),
    ("_fsage", "zsh/vendor-completions/_fsage", "zsh"),
    ("fsage.fish", "fish/vendor_completions.d/fsage.fish", "fish"),
];

/// Arguments of `dist`.
#[derive(Debug, Args)]
pub struct DistArgs {
    /// Where the packages are put [default: target/dist]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Pack this program instead of building a release
    #[arg(long, value_name = "FILE")]
    fsage: Option<PathBuf>,
    /// Pack a program of any size
    #[arg(long)]
    any_size: bool,
}

pub fn run(args: &DistArgs) -> Result<bool> {
    let root = crate::root();
    let program = crate::program(args.fsage.as_ref(), true)?;
    let size = std::fs::metadata(&program)
        .with_context(|| format!("look at {}", program.display()))?
        .len();
    ensure!(
        args.any_size || size <= LARGEST,
        "pack {}: it has {size} bytes, expected at most {LARGEST}",
        program.display()
    );
    let output = args
        .output
        .clone()
        .unwrap_or_else(|| root.join("target/dist"));
    std::fs::create_dir_all(&output)
        .with_context(|| format!("make directory {}", output.display()))?;
    let work = tempfile::Builder::new()
        .prefix("fsage-dist-")
        .tempdir()
        .context("make a temporary directory")?;
    let version = env!("CARGO_PKG_VERSION");
    let tree = work.path().join("tree");
    staged(&root, &program, &tree)?;

    let architecture = architecture(&program)?;
    let name = format!("fsage-{version}-linux-{architecture}");
    let tar = output.join(format!("{name}.tar.gz"));
    archive(&tree, &name, &tar)?;
    println!("{}", tar.display());
    if there("dpkg-deb") {
        let deb = output.join(format!("fsage_{version}_{architecture}.deb"));
        package(&tree, &program, version, &architecture, &deb)?;
        println!("{}", deb.display());
        let unpacked = work.path().join("root");
        call(
            "dpkg-deb",
            [OsStr::new("-x"), deb.as_ref(), unpacked.as_ref()],
        )?;
        tried(&unpacked)?;
    } else {
        eprintln!("not made: a .deb needs dpkg-deb");
    }
    let unpacked = work.path().join("untarred");
    std::fs::create_dir(&unpacked).context("make a directory")?;
    let from = [
        "-xzf".as_ref(),
        tar.as_os_str(),
        "-C".as_ref(),
        unpacked.as_ref(),
    ];
    call("tar", from)?;
    tried(&unpacked.join(name))?;
    println!("fsage has {size} bytes");
    Ok(true)
}

/// Everything that is shipped, as it lies below `/`.
fn staged(root: &Path, program: &Path, tree: &Path) -> Result<()> {
    put(program, &tree.join("usr/bin/fsage"), 0o755)?;
    let made = tree.join("made");
    for (kind, dir) in [("completions", "completions"), ("man", "man")] {
        let dir = made.join(dir);
        call(
            program,
            ["reference", "--kind", kind]
                .map(OsStr::new)
                .into_iter()
                .chain([dir.as_os_str()]),
        )?;
    }
    let share = tree.join("usr/share");
    for (name, place, _) in COMPLETIONS {
        put(
            &made.join("completions").join(name),
            &share.join(place),
            0o644,
        )?;
    }
    for page in names(&made.join("man"))? {
        let place = share
            .join("man/man1")
            .join(page.file_name().unwrap_or_default());
        put(&page, &place, 0o644)?;
        call("gzip", ["-9n".as_ref(), place.as_os_str()])?;
    }
    std::fs::remove_dir_all(&made).context("remove a temporary directory")?;
    let doc = share.join("doc/fsage");
    for name in ["README.md", "CHANGELOG.md"] {
        put(&root.join(name), &doc.join(name), 0o644)?;
    }
    put(&root.join("LICENSE"), &doc.join("copyright"), 0o644)?;
    copied(&root.join("docs"), &doc.join("docs"))?;
    copied(&root.join("examples"), &doc.join("examples"))
}

fn put(from: &Path, to: &Path, mode: u32) -> Result<()> {
    if let Some(dir) = to.parent() {
        std::fs::create_dir_all(dir)
            .with_context(|| format!("make directory {}", dir.display()))?;
    }
    std::fs::copy(from, to).with_context(|| format!("copy {}", from.display()))?;
    std::fs::set_permissions(to, std::fs::Permissions::from_mode(mode))
        .with_context(|| format!("set the mode of {}", to.display()))
}

fn copied(from: &Path, to: &Path) -> Result<()> {
    for path in names(from)? {
        let place = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copied(&path, &place)?;
        } else {
            put(&path, &place, 0o644)?;
        }
    }
    Ok(())
}

/// What a directory holds, in order.
fn names(dir: &Path) -> Result<Vec<PathBuf>> {
    let read = || format!("read {}", dir.display());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(read)? {
        paths.push(entry.with_context(read)?.path());
    }
    paths.sort();
    Ok(paths)
}

/// Debian's name of what the program runs on.
fn architecture(program: &Path) -> Result<String> {
    let head = std::fs::read(program).with_context(|| format!("read {}", program.display()))?;
    // e_machine of the ELF header.
    Ok(match head.get(18..20) {
        Some([0x3e, 0]) => "amd64",
        Some([0xb7, 0]) => "arm64",
        Some([0xf3, 0]) => "riscv64",
        other => bail!("pack {}: machine {other:?} is unknown", program.display()),
    }
    .to_owned())
}

/// The same tree gives the same bytes.
fn archive(tree: &Path, name: &str, tar: &Path) -> Result<()> {
    let rename = format!("--transform=s,^\\.,{name},");
    let arguments = [
        "--sort=name".as_ref(),
        "--owner=0".as_ref(),
        "--group=0".as_ref(),
        "--numeric-owner".as_ref(),
        "--mtime=@0".as_ref(),
        OsStr::new(&rename),
        "-czf".as_ref(),
        tar.as_os_str(),
        "-C".as_ref(),
        tree.as_os_str(),
        ".".as_ref(),
    ];
    call("tar", arguments)
}

fn package(tree: &Path, program: &Path, version: &str, machine: &str, deb: &Path) -> Result<()> {
    let control = format!(
        "Package: fsage\nVersion: {version}\nArchitecture: {machine}\nSection: utils\nPriority: optional\n\
         Maintainer: the fsage project <fsage@example.invalid>\n\
         Installed-Size: {}\nDepends: libc6 (>= {}), libgcc-s1\n\
         Recommends: e2fsprogs, util-linux\nSuggests: xfsprogs, btrfs-progs, fuse3\n\
         Description: how a workload would run on a file system\n \
         Trace a workload once, profile a file system once, and fsage predicts what every\n \
         operation would cost there, ranks the candidates and shows where the time goes.\n",
        size_kib(tree)?,
        libc(program)?
    );
    let dir = tree.join("DEBIAN");
    std::fs::create_dir(&dir).with_context(|| format!("make {}", dir.display()))?;
    let write = |name: &str, text: &str| {
        std::fs::write(dir.join(name), text).with_context(|| format!("write {name}"))
    };
    write("control", &control)?;
    let arguments = ["--root-owner-group", "--build"].map(OsStr::new);
    let arguments = arguments
        .into_iter()
        .chain([tree.as_os_str(), deb.as_os_str()]);
    call("dpkg-deb", arguments)?;
    std::fs::remove_dir_all(&dir).with_context(|| format!("remove {}", dir.display()))
}

fn size_kib(path: &Path) -> Result<u64> {
    if !path.is_dir() {
        let length = std::fs::symlink_metadata(path)
            .context("look at a file")?
            .len();
        return Ok(length.div_ceil(1024));
    }
    names(path)?.iter().map(|path| size_kib(path)).sum()
}

/// The newest version of the C library that the program asks for.
fn libc(program: &Path) -> Result<String> {
    const MARK: &[u8] = b"GLIBC_2.";
    let bytes = std::fs::read(program).with_context(|| format!("read {}", program.display()))?;
    let minors: BTreeSet<u32> = bytes
        .windows(MARK.len() + 3)
        .filter(|window| window.starts_with(MARK))
        .filter_map(|window| {
            let digits: String = window[MARK.len()..]
                .iter()
                .take_while(|b| b.is_ascii_digit())
                .map(|&b| char::from(b))
                .collect();
            digits.parse().ok()
        })
        .collect();
    let newest = minors
        .last()
        .context("find the C library's version in the program")?;
    Ok(format!("2.{newest}"))
}

/// Whether what was unpacked is what is to be installed, and works.
fn tried(root: &Path) -> Result<()> {
    let program = root.join("usr/bin/fsage");
    let said = Command::new(&program)
        .arg("--version")
        .output()
        .with_context(|| format!("run {}", program.display()))?;
    let version = format!("fsage {}\n", env!("CARGO_PKG_VERSION"));
    ensure!(
        said.status.success() && said.stdout == version.as_bytes(),
        "try the package: --version said {:?}",
        String::from_utf8_lossy(&said.stdout)
    );
    let share = root.join("usr/share");
    for (_, place, shell) in COMPLETIONS {
        let script = share.join(place);
        let words = std::fs::read_to_string(&script)
            .with_context(|| format!("read {}", script.display()))?;
        ensure!(
            words.contains("--what-if") || words.contains("what-if"),
            "find an option in {place}"
        );
        ensure!(
            !words.contains("run-child"),
            "leave hidden verbs out of {place}"
        );
        if there(shell) {
            call(shell, ["-n".as_ref(), script.as_os_str()])?;
        } else {
            eprintln!("not tried: {place} needs {shell}");
        }
    }
    let pages = names(&share.join("man/man1"))?;
    ensure!(
        pages.len() > 10,
        "find manual pages: there are {}",
        pages.len()
    );
    if there("man") {
        for page in pages {
            rendered(&page)?;
        }
    } else {
        eprintln!("not tried: manual pages need man");
    }
    Ok(())
}

/// A page that `man` shows without a complaint, with the name in it.
fn rendered(page: &Path) -> Result<()> {
    let shown = Command::new("man")
        .args(["--warnings=w", "-l"])
        .arg(page)
        .env("MANWIDTH", "80")
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .output()
        .context("run man")?;
    let (text, said) = (
        String::from_utf8_lossy(&shown.stdout).into_owned(),
        String::from_utf8_lossy(&shown.stderr).into_owned(),
    );
    ensure!(
        shown.status.success() && text.contains("fsage") && text.contains("SYNOPSIS"),
        "render {}: {said}",
        page.display()
    );
    ensure!(
        said.trim().is_empty(),
        "render {} without warnings: {said}",
        page.display()
    );
    Ok(())
}

fn there(tool: &str) -> bool {
    let found = |dir: PathBuf| dir.join(tool).is_file();
    std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(found))
}

fn call<S: AsRef<OsStr>>(
    program: impl AsRef<OsStr>,
    args: impl IntoIterator<Item = S>,
) -> Result<()> {
    let program = program.as_ref();
    let said = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("run {}", program.display()))?;
    ensure!(
        said.status.success(),
        "run {}: {}: {}",
        program.display(),
        said.status,
        String::from_utf8_lossy(&said.stderr).trim()
    );
    Ok(())
}
