//! Names of `/proc` and `/dev` that lead through what a process has: its descriptors, its directory, its root.

use fsage_core::Pid;

/// What a name of a process's leads through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Through {
    /// A descriptor.
    Fd(i32),
    /// The working directory.
    Directory,
    /// The root directory.
    Root,
}

/// That as a name gives it, and what follows behind it.
#[derive(Debug, PartialEq, Eq)]
pub struct Reached<'p> {
    /// Whose it is.
    pub pid: Pid,
    /// What it is.
    pub through: Through,
    /// What of the name follows behind it; empty where it is that itself.
    pub rest: &'p [u8],
}

/// What an absolute path of process `own` leads through.
pub fn reached(path: &[u8], own: Pid) -> Option<Reached<'_>> {
    let mut parts = path.splitn(6, |&byte| byte == b'/').skip(1);
    let (pid, through) = match (parts.next()?, parts.next()?) {
        (b"dev", b"stdin") => (own, Through::Fd(0)),
        (b"dev", b"stdout") => (own, Through::Fd(1)),
        (b"dev", b"stderr") => (own, Through::Fd(2)),
        (b"dev", b"fd") => (own, Through::Fd(decimal(parts.next()?)?)),
        (b"proc", who) => {
            let pid = match who {
                b"self" | b"thread-self" => own,
                who => Pid(u32::try_from(decimal(who)?).ok()?),
            };
            let through = match parts.next()? {
                b"fd" => Through::Fd(decimal(parts.next()?)?),
                b"cwd" => Through::Directory,
                b"root" => Through::Root,
                _ => return None,
            };
            (pid, through)
        }
        _ => return None,
    };
    // What `splitn` left, whose parts are not looked at.
    let rest = parts.next().map_or(0, |next| {
        let behind: usize = parts.map(|part| part.len() + 1).sum();
        next.len() + behind
    });
    Some(Reached {
        pid,
        through,
        rest: path.get(path.len() - rest..).unwrap_or_default(),
    })
}

fn decimal(text: &[u8]) -> Option<i32> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(text).ok().filter(|_| digits)?;
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CWD: i32 = -1;
    const ROOT: i32 = -2;

    #[test]
    fn names_lead_through_descriptors_and_directories() {
        for (path, leads) in [
            ("/dev/stdin", Some((7, 0, ""))),
            ("/dev/stdout", Some((7, 1, ""))),
            ("/dev/fd/12", Some((7, 12, ""))),
            ("/dev/fd/12/a/b/c/d", Some((7, 12, "a/b/c/d"))),
            ("/proc/self/fd/3", Some((7, 3, ""))),
            ("/proc/thread-self/fd/3/a/b", Some((7, 3, "a/b"))),
            ("/proc/99/fd/3", Some((99, 3, ""))),
            ("/proc/self/cwd/a/b", Some((7, CWD, "a/b"))),
            ("/proc/99/cwd", Some((99, CWD, ""))),
            ("/proc/self/root/etc/x/y", Some((7, ROOT, "etc/x/y"))),
            ("/proc/self/cwdx/a", None),
            ("/proc/self/fd", None),
            ("/proc/self/fdinfo/3", None),
            ("/proc/self/fd/x", None),
            ("/proc/self/fd/+3", None),
            ("/dev/null", None),
            ("/dev", None),
            ("/", None),
        ] {
            let found = reached(path.as_bytes(), Pid(7)).map(|r| {
                let fd = match r.through {
                    Through::Fd(fd) => fd,
                    Through::Directory => CWD,
                    Through::Root => ROOT,
                };
                (r.pid.0, fd, String::from_utf8_lossy(r.rest).into_owned())
            });
            let leads = leads.map(|(pid, fd, rest)| (pid, fd, rest.to_owned()));
            assert_eq!(found, leads, "{path}");
        }
    }
}
