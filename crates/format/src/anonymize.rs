//! Traces, snapshots and profiles without their names.
//!
//! Every component of every path becomes a keyed hash of itself: HMAC-SHA-256 (RFC 2104) with the
//! user's key, of which 80 bits are kept as 16 letters and digits. The same component gives the same
//! token everywhere, so that all structure stays: slashes, depth, `.`, `..`, which names are equal.
//! What is hidden and what stays visible stands in one table, [`PARTS`], which is printed and tested.
//! Without the key a guessed name cannot be checked.

mod parts;

use std::path::Path;

use fsage_core::{Op, OpKind, PathId, PathTable};
use hmac::{Hmac, KeyInit, Mac};
use rustc_hash::FxHashMap;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::Sha256;

pub use parts::{Of, PARTS, Part, Treatment, names};

use crate::FormatError;
use crate::bounded;
use crate::profile::SystemProfile;
use crate::snapshot::{SnapshotEntry, SnapshotMeta};
use crate::trace::columns::{escape, unescape};
use crate::trace::{CPUS, ONE_CPU, REFERENCE_NS, TELLS_SLEEP, TRACER_ALL_NS, TRACER_NS, TraceMeta};

/// A shorter key is refused: 128 bits cannot be searched.
pub const MIN_KEY_BYTES: usize = 16;

/// A longer file is no key, but what a mistaken path names.
pub const MAX_KEY_BYTES: u64 = 1 << 20;

/// Longer extensions are names, not types, and are hashed with the rest.
const MAX_EXTENSION_BYTES: usize = 8;

/// Tokens are forgotten beyond this many, and made again when needed.
const MAX_TOKENS: usize = 1 << 20;

/// Names that the kernel gives, and what lies below is no file of a user's.
const KERNEL_NAMES: [&[u8]; 3] = [b"proc", b"sys", b"dev"];

/// Entries of `extra` that a prediction or a layout needs.
const NEEDED_EXTRA: [&str; 9] = {
    let [first, blocks, inodes] = crate::snapshot::GROUP_KEYS;
    [
        CPUS,
        ONE_CPU,
        REFERENCE_NS,
        TELLS_SLEEP,
        TRACER_NS,
        TRACER_ALL_NS,
        first,
        blocks,
        inodes,
    ]
};

/// Mount options whose value names nothing.
const PLAIN_OPTIONS: [&str; 10] = [
    "allocsize",
    "commit",
    "compress",
    "data",
    "errors",
    "logbsize",
    "logbufs",
    "mode",
    "size",
    "space_cache",
];

/// Letters and digits that nobody takes for another (Crockford's base 32).
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Replaces names by tokens.
#[derive(Debug)]
pub struct Anonymizer {
    mac: Hmac<Sha256>,
    keep_extensions: bool,
    tokens: FxHashMap<Box<[u8]>, [u8; 16]>,
    paths: PathTable,
    /// The new id of each old one, by the old one's index; separately for what is not a path.
    ids: Vec<Option<PathId>>,
    attribute_ids: FxHashMap<PathId, PathId>,
}

impl Anonymizer {
    /// With a key. `name` is where it came from, for the error that refuses a short one.
    pub fn new(key: &[u8], keep_extensions: bool, name: &Path) -> Result<Self, FormatError> {
        let refuse = |problem: String| Err(FormatError::corrupt(name, "the key", problem));
        if key.is_empty() {
            return refuse(format!("is empty, expected at least {MIN_KEY_BYTES} bytes"));
        }
        if key.len() < MIN_KEY_BYTES {
            return refuse(format!(
                "has {} bytes, expected at least {MIN_KEY_BYTES}; `head -c 32 /dev/urandom` makes one",
                key.len()
            ));
        }
        let Ok(mac) = Hmac::<Sha256>::new_from_slice(key) else {
            return refuse("cannot be used".to_owned());
        };
        Ok(Self {
            mac,
            keep_extensions,
            tokens: FxHashMap::default(),
            paths: PathTable::new(),
            ids: Vec::new(),
            attribute_ids: FxHashMap::default(),
        })
    }

    /// With the key that a file holds, every byte of it (a line's end at its end apart).
    pub fn from_key_file(path: &Path, keep_extensions: bool) -> Result<Self, FormatError> {
        use std::io::Read;
        let mut key = Vec::new();
        let file = bounded::open(path).map_err(|e| FormatError::io("open", path, e))?;
        file.take(MAX_KEY_BYTES + 1)
            .read_to_end(&mut key)
            .map_err(|e| FormatError::io("read", path, e))?;
        // A part of it would be another key: all zeros of a device, or one that can never be read again.
        if key.len() as u64 > MAX_KEY_BYTES {
            let problem = format!("it goes on, expected at most {MAX_KEY_BYTES} bytes");
            return Err(FormatError::corrupt(path, "the key", problem));
        }
        let key = key.strip_suffix(b"\n").unwrap_or(&key);
        Self::new(key, keep_extensions, path)
    }

    /// The paths of the operations that [`Anonymizer::op`] has returned.
    pub fn paths(&self) -> &PathTable {
        &self.paths
    }

    /// The token of one component: 16 characters, which no component of other bytes shares but by
    /// a collision of 80 bits.
    pub fn token(&mut self, component: &[u8]) -> [u8; 16] {
        if let Some(token) = self.tokens.get(component) {
            return *token;
        }
        let digest = self
            .mac
            .clone()
            .chain_update(component)
            .finalize()
            .into_bytes();
        let mut token = [b'0'; 16];
        // 5 bits a character.
        let bits = digest
            .iter()
            .take(10)
            .fold(0u128, |bits, &b| (bits << 8) | u128::from(b));
        for (index, slot) in token.iter_mut().enumerate() {
            let digit = (bits >> (5 * index)) & 31;
            *slot = DIGITS.get(digit as usize).copied().unwrap_or(b'0');
        }
        if self.tokens.len() >= MAX_TOKENS {
            self.tokens.clear();
        }
        self.tokens.insert(component.into(), token);
        token
    }

    /// A path with its components replaced; slashes, `.` and `..` stay as they are.
    pub fn path(&mut self, path: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(path.len());
        for (index, component) in path.split(|&b| b == b'/').enumerate() {
            if index > 0 {
                out.push(b'/');
            }
            match component {
                b"" | b"." | b".." => out.extend_from_slice(component),
                _ if KERNEL_NAMES.contains(&component) => out.extend_from_slice(component),
                _ => self.component(component, &mut out),
            }
        }
        out
    }

    fn component(&mut self, component: &[u8], out: &mut Vec<u8>) {
        let dot = component
            .iter()
            .rposition(|&b| b == b'.')
            .filter(|&at| at > 0);
        let extension = dot.map(|at| &component[at + 1..]).filter(|extension| {
            self.keep_extensions
                && (1..=MAX_EXTENSION_BYTES).contains(&extension.len())
                && extension.iter().all(u8::is_ascii_alphanumeric)
        });
        // The whole name is hashed: a.c and a.h do not show that they belong together.
        out.extend_from_slice(&self.token(component));
        if let Some(extension) = extension {
            out.push(b'.');
            out.extend_from_slice(extension);
        }
    }

    /// An operation with its paths replaced by ids of [`Anonymizer::paths`]; `paths` is the table of
    /// the stream it came from, the same for every call.
    pub fn op(&mut self, op: &Op, paths: &PathTable) -> Op {
        let attribute = matches!(
            op.kind,
            OpKind::Setxattr | OpKind::Getxattr | OpKind::Removexattr | OpKind::Listxattr
        );
        let path2 = match op.path2 {
            Some(id) if attribute => self.attribute(id, paths),
            other => other.and_then(|id| self.id(id, paths)),
        };
        Op {
            path: op.path.and_then(|id| self.id(id, paths)),
            path2,
            dir: op.dir.and_then(|id| self.id(id, paths)),
            dir2: op.dir2.and_then(|id| self.id(id, paths)),
            ..*op
        }
    }

    fn id(&mut self, id: PathId, paths: &PathTable) -> Option<PathId> {
        if let Some(Some(new)) = self.ids.get(id.index()) {
            return Some(*new);
        }
        let text = self.path(paths.get(id));
        let new = self.paths.intern(&text)?;
        if id.index() >= self.ids.len() && id.index() < paths.len() {
            self.ids.resize(paths.len(), None);
        }
        if let Some(slot) = self.ids.get_mut(id.index()) {
            *slot = Some(new);
        }
        Some(new)
    }

    /// An attribute's name keeps its namespace (`user.`, `security.`, …), which decides its cost.
    fn attribute(&mut self, id: PathId, paths: &PathTable) -> Option<PathId> {
        if let Some(new) = self.attribute_ids.get(&id) {
            return Some(*new);
        }
        let text = self.attribute_name(paths.get(id));
        let new = self.paths.intern(&text)?;
        self.attribute_ids.insert(id, new);
        Some(new)
    }

    fn attribute_name(&mut self, name: &[u8]) -> Vec<u8> {
        for space in [&b"user."[..], b"security.", b"system.", b"trusted."] {
            if let Some(rest) = name.strip_prefix(space) {
                return [space, &self.token(rest)].concat();
            }
        }
        self.token(name).to_vec()
    }

    /// An entry of a snapshot with its path and link target replaced, of nobody.
    pub fn entry(&mut self, entry: &SnapshotEntry) -> SnapshotEntry {
        SnapshotEntry {
            path: self.path(&entry.path),
            link_target: entry.link_target.as_ref().map(|target| self.path(target)),
            uid: 0,
            gid: 0,
            ..entry.clone()
        }
    }

    /// A trace's metadata without names.
    pub fn trace_meta(&mut self, meta: &TraceMeta) -> TraceMeta {
        self.metadata(Of::Trace, meta).unwrap_or_default()
    }

    /// A snapshot's metadata without names.
    pub fn snapshot_meta(&mut self, meta: &SnapshotMeta) -> SnapshotMeta {
        self.metadata(Of::Snapshot, meta).unwrap_or_default()
    }

    /// A profile without names; `None` if what is left is no profile.
    pub fn profile(&mut self, profile: &SystemProfile) -> Option<SystemProfile> {
        self.metadata(Of::Profile, profile)
    }

    /// Treats every field as the table says; one that is not in it is left out.
    fn metadata<T: Serialize + DeserializeOwned>(&mut self, of: Of, meta: &T) -> Option<T> {
        let mut fields = serde_json::to_value(meta).ok()?;
        self.fields(of, "", &mut fields);
        serde_json::from_value(fields).ok()
    }

    /// Whether anything of what lies at `path` stands in the table.
    fn fields(&mut self, of: Of, path: &str, value: &mut Value) -> bool {
        let part = PARTS.iter().find(|p| p.of == of && p.name == path);
        match (part, value) {
            (Some(part), value) => self.treat(part.treatment, value),
            (None, Value::Object(inner)) => inner.retain(|name, value| {
                let path = format!("{path}.{name}");
                self.fields(of, path.trim_start_matches('.'), value)
            }),
            (None, Value::Array(all)) => all.retain_mut(|value| self.fields(of, path, value)),
            _ => return false,
        }
        true
    }

    fn treat(&mut self, treatment: Treatment, value: &mut Value) {
        match value {
            Value::String(text) => {
                *text = match treatment {
                    Treatment::Kept => return,
                    Treatment::Path => self.path_text(text),
                    Treatment::Options => self.options(text),
                    _ => self.word(text),
                }
            }
            Value::Number(number) if treatment == Treatment::Zero => *number = 0.into(),
            Value::Array(all) => all.iter_mut().for_each(|v| self.treat(treatment, v)),
            Value::Object(all) if treatment == Treatment::Extra => {
                for (name, value) in all {
                    if !NEEDED_EXTRA.contains(&name.as_str()) {
                        self.treat(Treatment::Word, value);
                    }
                }
            }
            _ => {}
        }
    }

    /// Mount options without the values that may name something.
    fn options(&mut self, options: &str) -> String {
        let hidden = options
            .split(',')
            .map(|option| match option.split_once('=') {
                Some((name, value)) if !is_plain(name, value) => {
                    format!("{name}={}", self.word(value))
                }
                None if option.contains('/') => self.word(option),
                _ => option.to_owned(),
            });
        hidden.collect::<Vec<String>>().join(",")
    }

    /// One token for a text that may name something.
    fn word(&mut self, text: &str) -> String {
        if text.is_empty() {
            return String::new();
        }
        self.token(text.as_bytes())
            .iter()
            .map(|&b| char::from(b))
            .collect()
    }

    fn path_text(&mut self, path: &str) -> String {
        escape(&self.path(&unescape(path.as_bytes())))
    }
}

/// Whether the value of a mount option names nothing and nobody.
fn is_plain(name: &str, value: &str) -> bool {
    let number = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
    let owner = ["uid", "gid", "fsuid", "user", "group"]
        .iter()
        .any(|o| name.contains(o));
    !owner && (number || PLAIN_OPTIONS.contains(&name)) && !value.contains('/')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn anonymizer(keep: bool) -> Anonymizer {
        Anonymizer::new(b"0123456789abcdef", keep, Path::new("key")).unwrap()
    }

    #[test]
    fn weak_keys_are_refused() {
        for (key, said) in [(&b""[..], "is empty"), (b"0123456789abcde", "has 15 bytes")] {
            let error = Anonymizer::new(key, false, Path::new("k.key"))
                .unwrap_err()
                .to_string();
            assert!(error.contains("k.key") && error.contains(said), "{error}");
        }
    }

    #[test]
    fn tokens_follow_the_key() {
        let a = anonymizer(false).path(b"/home/x.c");
        assert_eq!(a, anonymizer(false).path(b"/home/x.c"));
        let mut other = Anonymizer::new(&[7; 32], false, Path::new("key")).unwrap();
        assert_ne!(a, other.path(b"/home/x.c"));
        assert!(anonymizer(true).path(b"x.c").ends_with(b".c"));
        assert!(!anonymizer(true).path(b".bashrc").ends_with(b"bashrc"));
        assert_eq!(anonymizer(true).path(b"a.secretsecret").len(), 16);
    }

    /// HMAC-SHA-256 of RFC 4231's second case is not used (its key is too short); this value comes
    /// from `printf abc | openssl dgst -sha256 -hmac 0123456789abcdef`.
    #[test]
    fn the_hash_is_hmac_sha_256() {
        let digest = anonymizer(false)
            .mac
            .chain_update(b"abc")
            .finalize()
            .into_bytes();
        let hex = digest
            .iter()
            .fold(String::new(), |hex, b| hex + &format!("{b:02x}"));
        assert_eq!(
            hex,
            "bcaa92843247bc258080d2824bddeba4afb1bd61b4688ca65f60a214e1d9759e"
        );
    }

    #[test]
    fn attribute_names_keep_only_their_namespace() {
        let mut paths = PathTable::new();
        let mut op = Op::new(OpKind::Setxattr, fsage_core::Pid(1), fsage_core::Tid(1), 0);
        op.path = paths.intern(b"f");
        op.path2 = paths.intern(b"user.secret/x");
        let mut all = anonymizer(false);
        let op = all.op(&op, &paths);
        let name = all.paths().get(op.path2.unwrap()).to_vec();
        assert!(
            name.starts_with(b"user.") && name.len() == 21,
            "{}",
            name.escape_ascii()
        );
    }

    #[test]
    fn metadata_names_nothing() {
        let trace = TraceMeta {
            host: "buildhost".to_owned(),
            kernel: "6.18".to_owned(),
            command: vec!["make".to_owned(), "secret".to_owned()],
            directory: "/home/secret".to_owned(),
            ..TraceMeta::default()
        };
        let hidden = anonymizer(false).trace_meta(&trace);
        let text = format!("{hidden:?}");
        for name in ["buildhost", "make", "secret", "home"] {
            assert!(!text.contains(name), "{text}");
        }
        assert_eq!((hidden.command.len(), &hidden.kernel[..]), (2, "6.18"));
        let snapshot = SnapshotMeta {
            mount_options: "rw,lowerdir=/secret/x,user=secret,uid=1234,data=ordered".to_owned(),
            extra: [("note", "secret"), (CPUS, "8")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..SnapshotMeta::default()
        };
        let hidden = anonymizer(false).snapshot_meta(&snapshot);
        let text = format!("{hidden:?}");
        assert!(!text.contains("secret") && !text.contains("1234"), "{text}");
        assert!(hidden.mount_options.starts_with("rw,lowerdir="), "{text}");
        assert!(hidden.mount_options.ends_with(",data=ordered"), "{text}");
        assert_eq!(hidden.extra[CPUS], "8");
    }

    proptest! {
        /// Structure stays, names go.
        #[test]
        fn structure_stays_and_no_name_is_left(
            parts in prop::collection::vec("[A-Z !-.]{0,12}|\\.|\\.\\.", 0..8),
            absolute: bool,
        ) {
            let path = format!("{}{}", if absolute { "/" } else { "" }, parts.join("/"));
            let hidden = anonymizer(false).path(path.as_bytes());
            let pieces = |text: &[u8]| -> Vec<Vec<u8>> {
                text.split(|&b| b == b'/').map(<[u8]>::to_vec).collect()
            };
            let (before, after) = (pieces(path.as_bytes()), pieces(&hidden));
            prop_assert_eq!(before.len(), after.len());
            for (old, new) in before.iter().zip(&after) {
                let kept = matches!(&old[..], b"" | b"." | b"..");
                prop_assert_eq!(kept, old == new);
                if old.len() > 2 && !kept {
                    prop_assert!(!hidden.windows(old.len()).any(|window| window == &old[..]));
                }
                for (other_old, other_new) in before.iter().zip(&after) {
                    prop_assert_eq!(old == other_old, new == other_new);
                }
            }
        }
    }
}
