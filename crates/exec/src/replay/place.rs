//! Where on the target a path of the traced machine lies.

pub use fsage_namespace::path::normal;

use fsage_namespace::path::beneath;

/// Rules from absolute directories of the traced machine to directories of the target; the longest
/// one that holds a path decides. What none holds is outside.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Placement {
    rules: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What the kernel makes up: nothing of it can be replayed on a file system.
const NOT_FILES: [&[u8]; 3] = [b"/proc", b"/sys", b"/dev"];

impl Placement {
    /// Adds a rule; `to` is relative to the target, empty for its root. Both are normalised.
    pub fn add(&mut self, from: &[u8], to: &[u8]) {
        let from = normal(from);
        let to = normal(to).strip_prefix(b"/").unwrap_or_default().to_vec();
        self.rules.retain(|(old, _)| *old != from);
        self.rules.push((from, to));
        self.rules
            .sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rules, the most particular first: absolute directory, directory of the target.
    pub fn rules(&self) -> &[(Vec<u8>, Vec<u8>)] {
        &self.rules
    }

    /// The target's name for a normal absolute path; `None` outside.
    pub fn map(&self, path: &[u8]) -> Option<Vec<u8>> {
        let (from, to) = self
            .rules
            .iter()
            .find(|(from, _)| beneath(path, from).is_some())?;
        if from.len() <= 1 && NOT_FILES.iter().any(|dir| beneath(path, dir).is_some()) {
            return None;
        }
        let rest = beneath(path, from)?;
        let mut mapped = to.clone();
        if !mapped.is_empty() && !rest.is_empty() {
            mapped.push(b'/');
        }
        mapped.extend_from_slice(rest);
        Some(mapped)
    }
}

/// The directory that two normal directories share.
pub fn common(a: &[u8], b: &[u8]) -> Vec<u8> {
    let (mut end, mut at) = (0, 0);
    loop {
        let (x, y) = (a.get(at), b.get(at));
        let ends = |byte: Option<&u8>| byte.is_none_or(|&b| b == b'/');
        if ends(x) && ends(y) {
            end = at;
        }
        if x.is_none() || x != y {
            return normal(a.get(..end).unwrap_or_default());
        }
        at += 1;
    }
}

/// The text of a symbolic link called `name` on the target: an absolute one that leads to what is replayed is made
/// relative, every other one stays as it is and leads nowhere.
pub fn link_text(placement: Option<&Placement>, name: &[u8], text: &[u8]) -> Box<[u8]> {
    if text.first() == Some(&b'/')
        && let Some(to) = placement.and_then(|p| p.map(&normal(text)))
    {
        return relative(name, &to).into();
    }
    text.into()
}

/// The text of a link at `link` that leads to `to`; both are names of the target.
pub fn relative(link: &[u8], to: &[u8]) -> Vec<u8> {
    let depth = link.split(|&b| b == b'/').count().saturating_sub(1);
    let mut text = b"../".repeat(depth);
    text.extend_from_slice(to);
    if text.is_empty() {
        text.push(b'.');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_rule_decides() {
        let mut place = Placement::default();
        place.add(b"/home/me/", b"");
        place.add(b"/home/me/big", b"/other/disk");
        assert_eq!(place.map(b"/home/me"), Some(b"".to_vec()));
        assert_eq!(place.map(b"/home/me/a"), Some(b"a".to_vec()));
        assert_eq!(place.map(b"/home/me/big/x"), Some(b"other/disk/x".to_vec()));
        assert_eq!(place.map(b"/home/meow"), None);
        assert_eq!(place.map(b"/home"), None);
    }

    #[test]
    fn everything_is_without_what_the_kernel_makes_up() {
        let mut place = Placement::default();
        place.add(b"/", b"");
        assert_eq!(place.map(b"/etc/hosts"), Some(b"etc/hosts".to_vec()));
        assert_eq!(place.map(b"/proc/self/maps"), None);
        assert_eq!(place.map(b"/process"), Some(b"process".to_vec()));
    }

    #[test]
    fn no_rule_leads_out_of_the_target() {
        let mut place = Placement::default();
        place.add(b"/a", b"../../etc");
        assert_eq!(place.map(b"/a/x"), Some(b"etc/x".to_vec()));
    }

    #[test]
    fn text_of_paths() {
        assert_eq!(common(b"/a/bc", b"/a/bd"), b"/a");
        assert_eq!(common(b"/a/b", b"/a/b/c"), b"/a/b");
        assert_eq!(common(b"/a", b"/b"), b"/");
        assert_eq!(relative(b"x/y/link", b"a/b"), b"../../a/b");
        assert_eq!(relative(b"link", b""), b".");
    }
}
