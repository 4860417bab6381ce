//! What scratch file system is wanted: `scratch:ext4,size=2G,on=ram,mkfs=-O ^has_journal,mount=noatime`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::allowed;
use super::disk::DiskSpec;
use crate::HostError;

const MIB: u64 = 1 << 20;
const DEFAULT_SIZE_BYTES: u64 = 2 << 30;
/// No mkfs makes anything useful of less.
const SMALLEST_BYTES: u64 = MIB;
/// What the tools themselves refuse: mkfs.xfs since 5.19 under 300 MiB, mkfs.btrfs under 109 MiB.
const SMALLEST_OF_KIND: [(&str, u64); 2] = [("xfs", 300 * MIB), ("btrfs", 109 * MIB)];

/// Where the image of a scratch file system lies.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Backing {
    /// In memory (`on=ram`): a nameless file on the tmpfs of `/dev/shm`, or anonymous memory.
    #[default]
    Ram,
    /// In a directory of a mounted file system (`on=file:DIR`): a nameless file there.
    File(PathBuf),
    /// On an emulated disk (`on=disk:MODEL`), whose data is in memory.
    Disk(DiskSpec),
}

/// A scratch file system to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScratchSpec {
    /// What it is called; `None` where no name was given.
    pub name: Option<String>,
    /// File system type: `ext2`, `ext3`, `ext4`, `xfs`, `btrfs`, or whatever has a `mkfs.KIND`.
    pub kind: String,
    /// Size of the (sparse) image in bytes.
    pub size_bytes: u64,
    /// Where the image lies.
    pub backing: Backing,
    /// Further options of mkfs, in the order given.
    pub mkfs_options: Vec<String>,
    /// Mount options, separated by commas; empty for the defaults.
    pub mount_options: String,
}

impl ScratchSpec {
    /// A file system of that type with everything at its default. Fails if the type is no word of
    /// letters, digits, `_`, `-`.
    pub fn new(kind: &str) -> Result<Self, HostError> {
        kind.parse()
    }
}

/// Reads a size: a number of bytes, or of KiB, MiB, GiB, TiB with the suffix K, M, G, T, which may go on as `iB`. The
/// number may have a fraction where that comes to whole bytes or is rounded to them.
pub fn parse_size(text: &str) -> Option<u64> {
    let short = text.strip_suffix("iB").unwrap_or(text);
    let (number, shift) = match short.char_indices().next_back()? {
        (at, 'k' | 'K') => (short.get(..at)?, 10),
        (at, 'm' | 'M') => (short.get(..at)?, 20),
        (at, 'g' | 'G') => (short.get(..at)?, 30),
        (at, 't' | 'T') => (short.get(..at)?, 40),
        _ if short.len() < text.len() => return None,
        _ => (short, 0),
    };
    // As sizes are printed, `1.5 GiB`.
    let number = number.strip_suffix(' ').unwrap_or(number);
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    match number.split_once('.') {
        None if digits(number) => number.parse::<u64>().ok()?.checked_mul(1 << shift),
        Some((whole, part)) if shift > 0 && digits(whole) && digits(part) => {
            let whole = whole.parse::<u64>().ok()?.checked_mul(1 << shift)?;
            let part: f64 = format!("0.{part}").parse().ok()?;
            whole.checked_add((part * (1_u64 << shift) as f64).round() as u64)
        }
        _ => None,
    }
}

/// What a specification may say.
const KEYS: [&str; 7] = ["name", "size", "on", "mkfs", "mount", "scheduler", "span"];

/// The longest name.
const NAME_CHARS: usize = 40;

/// One `key=value` of a specification, or what continues the value before it.
fn split_items(rest: &str) -> Vec<(&str, String)> {
    let mut items: Vec<(&str, String)> = Vec::new();
    for part in rest.split(',') {
        let known = part.split_once('=').filter(|(key, _)| KEYS.contains(key));
        match (known, items.last_mut()) {
            (Some((key, value)), _) => items.push((key, value.to_owned())),
            // mkfs and mount options hold commas themselves.
            (None, Some((key @ ("mkfs" | "mount"), value))) => {
                let _ = key;
                value.push(',');
                value.push_str(part);
            }
            (None, _) => items.push(("", part.to_owned())),
        }
    }
    items
}

impl FromStr for ScratchSpec {
    type Err = HostError;

    /// With or without the leading `scratch:`.
    fn from_str(text: &str) -> Result<Self, HostError> {
        let bad = |problem: String| HostError::Spec {
            spec: text.to_owned(),
            problem,
        };
        let body = text.strip_prefix("scratch:").unwrap_or(text);
        let (kind, rest) = match body.split_once(',') {
            Some((kind, rest)) => (kind, split_items(rest)),
            None => (body, Vec::new()),
        };
        let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        let starts_well = kind
            .bytes()
            .next()
            .is_some_and(|b| b.is_ascii_alphanumeric());
        if !starts_well || !kind.bytes().all(word) {
            return Err(bad("expected a file system type such as ext4 first".into()));
        }
        let mut spec = ScratchSpec {
            name: None,
            kind: kind.to_owned(),
            size_bytes: DEFAULT_SIZE_BYTES,
            backing: Backing::Ram,
            mkfs_options: Vec::new(),
            mount_options: String::new(),
        };
        let (mut of_disk, mut given) = (Vec::new(), Vec::new());
        for (key, value) in rest {
            if given.contains(&key) && !key.is_empty() {
                return Err(bad(format!("{key}= is given twice")));
            }
            given.push(key);
            match key {
                "name" => spec.name = Some(parse_name(&value).map_err(bad)?),
                "size" => {
                    spec.size_bytes = parse_size(&value).ok_or_else(|| {
                        bad(format!(
                            "size `{value}`, expected a number with K, M, G or T"
                        ))
                    })?;
                }
                "on" => spec.backing = parse_backing(&value).map_err(bad)?,
                "mkfs" => spec.mkfs_options = value.split_whitespace().map(str::to_owned).collect(),
                "mount" => spec.mount_options = value,
                "scheduler" | "span" => of_disk.push((key, value)),
                _ => {
                    let problem = format!(
                        "`{value}`, expected name=, size=, on=, mkfs=, mount=, scheduler= or span="
                    );
                    return Err(bad(problem));
                }
            }
        }
        for (key, value) in of_disk {
            let Backing::Disk(disk) = &mut spec.backing else {
                return Err(bad(format!(
                    "{key}={value}, expected on=disk:MODEL with it"
                )));
            };
            match key {
                "span" => disk.span = Some(value),
                _ => disk.scheduler = Some(value),
            }
        }
        check(&spec).map_err(bad)?;
        Ok(spec)
    }
}

/// Whether there can be such a file system, and may be.
fn check(spec: &ScratchSpec) -> Result<(), String> {
    let kind = spec.kind.as_str();
    allowed::check_kind(kind)?;
    allowed::check_mkfs(kind, &spec.mkfs_options)?;
    allowed::check_mount(kind, &spec.mount_options)?;
    let of_kind = SMALLEST_OF_KIND
        .iter()
        .find(|(k, _)| *k == kind)
        .map(|&(_, size)| size);
    let smallest = of_kind.unwrap_or(SMALLEST_BYTES);
    if spec.size_bytes < smallest {
        let (size, least) = (spec.size_bytes, smallest / MIB);
        return Err(format!(
            "size of {size} bytes, {kind} needs at least {least}M"
        ));
    }
    Ok(())
}

/// One line of text that can stand in a specification.
fn parse_name(value: &str) -> Result<String, String> {
    let name = value.trim();
    if name.is_empty() || name.chars().count() > NAME_CHARS || name.chars().any(char::is_control) {
        return Err(format!(
            "name {value:?}, expected 1 to {NAME_CHARS} characters"
        ));
    }
    Ok(name.to_owned())
}

fn parse_backing(value: &str) -> Result<Backing, String> {
    match value.split_once(':') {
        None if value == "ram" => Ok(Backing::Ram),
        Some(("file", dir)) if !dir.is_empty() => Ok(Backing::File(PathBuf::from(dir))),
        Some(("disk", model)) if !model.is_empty() => Ok(Backing::Disk(DiskSpec {
            model: model.to_owned(),
            ..DiskSpec::default()
        })),
        _ => Err(format!(
            "on `{value}`, expected ram or file:DIRECTORY or disk:MODEL"
        )),
    }
}

impl fmt::Display for Backing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ram => f.write_str("ram"),
            Self::File(dir) => write!(f, "file:{}", dir.display()),
            Self::Disk(disk) => disk.fmt(f),
        }
    }
}

impl fmt::Display for ScratchSpec {
    /// As it is read, with everything that differs from the default.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "scratch:{}", self.kind)?;
        if let Some(name) = &self.name {
            write!(f, ",name={name}")?;
        }
        if self.size_bytes != DEFAULT_SIZE_BYTES {
            let shift = [40, 30, 20, 10]
                .into_iter()
                .find(|s| self.size_bytes.is_multiple_of(1 << s));
            match shift {
                Some(s) => {
                    let suffix = ["K", "M", "G", "T"].get(s / 10 - 1).unwrap_or(&"");
                    write!(f, ",size={}{suffix}", self.size_bytes >> s)?;
                }
                None => write!(f, ",size={}", self.size_bytes)?,
            }
        }
        if self.backing != Backing::Ram {
            write!(f, ",on={}", self.backing)?;
        }
        if !self.mkfs_options.is_empty() {
            write!(f, ",mkfs={}", self.mkfs_options.join(" "))?;
        }
        if !self.mount_options.is_empty() {
            write!(f, ",mount={}", self.mount_options)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_part() {
        let text = "scratch:ext4,size=512M,on=file:/var/tmp,mkfs=-O ^has_journal,extent -m 0,mount=noatime,data=journal";
        let spec: ScratchSpec = text.parse().unwrap();
        assert_eq!(spec.kind, "ext4");
        assert_eq!(spec.size_bytes, 512 << 20);
        assert_eq!(spec.backing, Backing::File("/var/tmp".into()));
        assert_eq!(spec.mkfs_options, ["-O", "^has_journal,extent", "-m", "0"]);
        assert_eq!(spec.mount_options, "noatime,data=journal");
        assert_eq!(spec.to_string(), text);
    }

    #[test]
    fn a_name_may_be_given() {
        let spec: ScratchSpec = "scratch:ext4,name=fast one,size=1G".parse().unwrap();
        assert_eq!(spec.name.as_deref(), Some("fast one"));
        assert_eq!(spec.to_string(), "scratch:ext4,name=fast one,size=1G");
    }

    #[test]
    fn what_names_another_device_is_refused() {
        for text in [
            "scratch:ext4,size=64M,mkfs=/dev/loop9 -L",
            "scratch:xfs,mount=logdev=/dev/loop9",
            "scratch:overlay,mount=noatime",
            "scratch:ext4,name=",
        ] {
            assert!(text.parse::<ScratchSpec>().is_err(), "{text}");
        }
    }

    #[test]
    fn reads_an_emulated_disk() {
        let text = "scratch:xfs,on=disk:hdd-7200,scheduler=n-cscan,span=start,mount=noatime";
        let spec: ScratchSpec = text.parse().unwrap();
        let disk = DiskSpec {
            model: "hdd-7200".into(),
            scheduler: Some("n-cscan".into()),
            span: Some("start".into()),
        };
        assert_eq!(spec.backing, Backing::Disk(disk));
        assert_eq!(spec.to_string(), text);
        let moved = "scratch:xfs,span=start,mount=noatime,scheduler=n-cscan,on=disk:hdd-7200";
        assert_eq!(moved.parse::<ScratchSpec>().unwrap(), spec);
        let plain: ScratchSpec = "ext4,on=disk:my.toml".parse().unwrap();
        assert_eq!(plain.to_string(), "scratch:ext4,on=disk:my.toml");
    }

    #[test]
    fn defaults_are_two_gigabytes_in_memory() {
        let spec: ScratchSpec = "scratch:xfs".parse().unwrap();
        assert_eq!((spec.size_bytes, &spec.backing), (2 << 30, &Backing::Ram));
        assert_eq!(spec.to_string(), "scratch:xfs");
        assert_eq!("ext2".parse::<ScratchSpec>().unwrap().kind, "ext2");
    }

    #[test]
    fn sizes_are_read_as_they_are_printed() {
        for (text, bytes) in [
            ("1500", 1500),
            ("64k", 64 << 10),
            ("1.5G", 3 << 29),
            ("100MiB", 100 << 20),
            ("1.5 GiB", 3 << 29),
            ("0.1K", 102),
            ("2.000T", 2 << 40),
        ] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for text in [
            "",
            "M",
            "iB",
            "5iB",
            "1.5",
            ".5G",
            "1.G",
            "1.5.0G",
            "-1M",
            "1e3M",
            "1  M",
            "100MB",
            "99999999T",
        ] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }

    #[test]
    fn says_what_is_wrong() {
        for (text, said) in [
            ("scratch:", "file system type"),
            ("scratch:../x", "file system type"),
            ("scratch:-f", "file system type"),
            ("scratch:ext4,size=much", "K, M, G or T"),
            ("scratch:ext4,size=99999999999T", "K, M, G or T"),
            ("scratch:ext4,on=tape", "ram or file:DIRECTORY"),
            ("scratch:ext4,on=file:", "ram or file:DIRECTORY"),
            ("scratch:ext4,on=disk:", "disk:MODEL"),
            ("scratch:ext4,scheduler=fcfs", "on=disk:MODEL"),
            (
                "scratch:ext4,fast",
                "name=, size=, on=, mkfs=, mount=, scheduler= or span=",
            ),
            ("scratch:ext4,size=1G,size=2G", "size= is given twice"),
            ("scratch:ext4,mkfs=-m 0,a,mkfs=-m 1", "mkfs= is given twice"),
            ("scratch:xfs,size=100M", "at least 300M"),
            ("scratch:btrfs,size=100M", "at least 109M"),
            ("scratch:ext4,size=0", "at least 1M"),
        ] {
            let error = text.parse::<ScratchSpec>().unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
