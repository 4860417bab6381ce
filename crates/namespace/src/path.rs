//! Paths as text: no symbolic link is looked at here.

/// The longest path that a call can name, as Linux has it.
pub const PATH_BYTES: usize = 4096;

/// The longest name in a path.
pub const NAME_BYTES: usize = 255;

/// More symbolic links than this on one path are a loop, as the kernel says.
pub const LINKS_FOLLOWED: u32 = 40;

/// The names in a path, `..` among them; `.` and doubled slashes are none.
pub fn components(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|&b| b == b'/')
        .filter(|c| !c.is_empty() && *c != b".")
}

/// Joins a directory and a path and takes `.`, `..` and doubled slashes out. Where neither is absolute
/// the result starts where `dir` does and may begin with `..`; empty, it is that place itself.
pub fn join(dir: &[u8], path: &[u8]) -> Vec<u8> {
    let (dir, absolute) = match path.first() {
        Some(b'/') => (&b""[..], true),
        _ => (dir, dir.first() == Some(&b'/')),
    };
    let mut out: Vec<u8> = Vec::with_capacity(dir.len() + path.len() + 1);
    for part in components(dir).chain(components(path)) {
        if part == b".." && (absolute || !(out.is_empty() || out == b".." || out.ends_with(b"/..")))
        {
            let parent = out.iter().rposition(|&b| b == b'/').unwrap_or(0);
            out.truncate(parent);
            continue;
        }
        if absolute || !out.is_empty() {
            out.push(b'/');
        }
        out.extend_from_slice(part);
    }
    if absolute && out.is_empty() {
        out.push(b'/');
    }
    out
}

/// An absolute path without `.`, `..` and doubled slashes.
pub fn normal(path: &[u8]) -> Vec<u8> {
    join(b"/", path)
}

/// What the absolute `path` of a process with this root (chroot(2)) is to all others; there is nothing above a root.
pub fn below_root(root: &[u8], path: &[u8]) -> Vec<u8> {
    let own = if leads_above(path) {
        normal(path).into()
    } else {
        std::borrow::Cow::Borrowed(path)
    };
    let own = if *own == b"/"[..] && !root.is_empty() {
        &b""[..]
    } else {
        &own
    };
    [root, own].concat()
}

/// What a name means where the directory that it starts from is its root (`RESOLVE_IN_ROOT`), as a name relative to
/// that.
pub fn below_directory(path: &[u8]) -> Vec<u8> {
    if path.first() != Some(&b'/') && !leads_above(path) {
        return path.to_vec();
    }
    match normal(path).strip_prefix(b"/") {
        Some(b"") | None => b".".to_vec(),
        Some(own) => own.to_vec(),
    }
}

/// Whether a path has more `..` somewhere than names before them.
fn leads_above(path: &[u8]) -> bool {
    let mut depth = 0_usize;
    components(path).any(|name| {
        let up = name == b"..";
        let above = up && depth == 0;
        depth = if up {
            depth.saturating_sub(1)
        } else {
            depth + 1
        };
        above
    })
}

/// What of `path` lies below `dir`, empty for `dir` itself; both are normal.
pub fn beneath<'p>(path: &'p [u8], dir: &[u8]) -> Option<&'p [u8]> {
    let dir = dir.strip_suffix(b"/").unwrap_or(dir);
    let rest = path.strip_prefix(dir)?;
    match rest.split_first() {
        None => Some(rest),
        Some((b'/', rest)) => Some(rest),
        Some(_) => None,
    }
}

/// What `path` is called once `from`, which it is or lies below, is called `to`; all are normal.
fn renamed(path: &[u8], from: &[u8], to: &[u8]) -> Option<Vec<u8>> {
    if from.is_empty() {
        return None;
    }
    let rest = beneath(path, from)?;
    let between: &[u8] = if rest.is_empty() { b"" } else { b"/" };
    Some([to, between, rest].concat())
}

/// What `path` is called once `from` and `to` have changed names, by an `exchange` or the first alone.
pub fn moved(path: &[u8], from: &[u8], to: &[u8], exchange: bool) -> Option<Vec<u8>> {
    renamed(path, from, to).or_else(|| renamed(path, to, from).filter(|_| exchange))
}

/// Whether `path` is `dir` or lies below it; both are normal.
pub fn is_beneath(path: &[u8], dir: &[u8]) -> bool {
    beneath(path, dir).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_above_a_root() {
        for (path, is) in [
            ("/", "/srv/new"),
            ("/a/b", "/srv/new/a/b"),
            ("/../a", "/srv/new/a"),
            ("/../../..", "/srv/new"),
            ("/..a/b", "/srv/new/..a/b"),
            ("/a/../b", "/srv/new/a/../b"),
            ("/a/../../b", "/srv/new/b"),
            ("/a/../../../srv/../..", "/srv/new"),
        ] {
            assert_eq!(below_root(b"/srv/new", path.as_bytes()), is.as_bytes());
        }
        assert_eq!(below_root(b"", b"/"), b"/");
    }

    #[test]
    fn a_directory_can_be_the_root_of_a_name() {
        for (path, is) in [
            ("a/b", "a/b"),
            ("a/../b", "a/../b"),
            ("/a/b", "a/b"),
            ("../a", "a"),
            ("a/../../../b", "b"),
            ("/", "."),
            ("..", "."),
            ("", ""),
        ] {
            let found = below_directory(path.as_bytes());
            assert_eq!(String::from_utf8_lossy(&found), is, "{path}");
        }
    }

    #[test]
    fn joining_is_by_the_text() {
        for (dir, path, joined) in [
            ("/a/b", "../c", "/a/c"),
            ("/a", "b", "/a/b"),
            ("/a/", "./b//c/", "/a/b/c"),
            ("/a", "/x//y/.", "/x/y"),
            ("/a", "../../..", "/"),
            ("/a", "/../x", "/x"),
            ("/", "", "/"),
            ("/a", "", "/a"),
            ("/", "../..", "/"),
            ("", "../../x", "../../x"),
            ("", "../a/../../x", "../../x"),
            ("d", "..", ""),
            ("d..", "..", ""),
            ("sub", "f", "sub/f"),
            ("", "", ""),
        ] {
            let out = join(dir.as_bytes(), path.as_bytes());
            assert_eq!(String::from_utf8_lossy(&out), joined, "{dir} {path}");
        }
        assert_eq!(normal(b"a/./b/../c/"), b"/a/c");
    }

    #[test]
    fn a_directory_ends_at_a_component() {
        assert_eq!(beneath(b"/a/b/c", b"/a"), Some(&b"b/c"[..]));
        assert_eq!(beneath(b"/a", b"/a/"), Some(&b""[..]));
        assert_eq!(beneath(b"/a", b"/"), Some(&b"a"[..]));
        assert!(!is_beneath(b"/ab", b"/a"));
        assert_eq!(renamed(b"/a/b/c", b"/a/b", b"/x"), Some(b"/x/c".to_vec()));
        assert_eq!(renamed(b"/a/b", b"/a/b", b"/x"), Some(b"/x".to_vec()));
        assert_eq!(renamed(b"/a/bc", b"/a/b", b"/x"), None);
        assert!(!is_beneath(b"/", b"/a"));
    }
}
