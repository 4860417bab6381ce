//! Device numbers as stat(2) shows them.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use fsage_core::DevId;
use rustc_hash::FxHashMap;

/// From the kernel's `s_dev` to `st_dev`. They differ only for btrfs, whose subvolumes have device
/// numbers of their own; the one shown is that of the mounted subvolume.
#[derive(Debug, Default)]
pub(super) struct Devices {
    known: FxHashMap<u32, DevId>,
}

impl Devices {
    pub(super) fn shown(&mut self, dev: u32) -> DevId {
        if let Some(&shown) = self.known.get(&dev) {
            return shown;
        }
        let shown = subvolume(DevId::from_kernel(dev)).unwrap_or(DevId::from_kernel(dev));
        self.known.insert(dev, shown);
        shown
    }
}

/// Looks for a mounted btrfs with this device number in /proc/self/mountinfo ("id parent
/// major:minor root mount-point options … - type source options").
fn subvolume(dev: DevId) -> Option<DevId> {
    let text = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let wanted = dev.to_string();
    text.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(2);
        let matches = fields.next()? == wanted && kind.starts_with("btrfs ");
        let point = unescape(fields.nth(1)?);
        matches
            .then(|| fs::metadata(point).ok())
            .flatten()
            .map(|meta| DevId(meta.dev()))
    })
}

/// Blanks and backslashes are octal in mountinfo.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ")
        .replace("\\011", "\t")
        .replace("\\012", "\n")
        .replace("\\134", "\\")
}
