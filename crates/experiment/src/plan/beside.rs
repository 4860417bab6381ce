//! Files that a plan's specifications name lie beside the plan, wherever fsage was started.

use std::borrow::Cow;
use std::path::Path;

/// Targets that name a file.
const TARGETS: [&str; 2] = ["aged:", "mem:"];

/// Workloads that do.
const WORKLOADS: [&str; 3] = ["wml:", "filerunner:", "model:"];

/// A target's specification with its file's whole path where that is below `base`; else as it is, relative to where fsage
/// was started.
pub(super) fn target<'a>(base: &Path, text: &'a str) -> Cow<'a, str> {
    let begin = text.len() - text.trim_start().len();
    // Slowed targets have another as their last part.
    let slowed = text.trim_start().starts_with("slow:");
    TARGETS
        .iter()
        .find_map(|prefix| {
            let at = if text.get(begin..)?.starts_with(prefix) {
                begin
            } else {
                slowed.then(|| text.find(&format!(":{prefix}")))?? + 1
            };
            placed(base, text, at + prefix.len())
        })
        .map_or(Cow::Borrowed(text), Cow::Owned)
}

/// The same of a workload's.
pub(super) fn workload<'a>(base: &Path, text: &'a str) -> Cow<'a, str> {
    let begin = text.len() - text.trim_start().len();
    let prefix = WORKLOADS
        .iter()
        .find(|prefix| text.get(begin..).is_some_and(|t| t.starts_with(*prefix)));
    prefix
        .and_then(|prefix| placed(base, text, begin + prefix.len()))
        .map_or(Cow::Borrowed(text), Cow::Owned)
}

/// The text with `base` before the file that begins at `at` and ends before a comma or the end; `None` where no such
/// file is below `base`.
fn placed(base: &Path, text: &str, at: usize) -> Option<String> {
    if base.as_os_str().is_empty() {
        return None;
    }
    let (before, rest) = text.split_at_checked(at)?;
    let ends = rest.match_indices(',').map(|(end, _)| end);
    let paths = ends
        .chain([rest.len()])
        .filter_map(|end| rest.split_at_checked(end));
    let mut relative = paths.filter(|(file, _)| {
        let file = file.trim();
        // A truth without a dot is one of fsage's own; what has a key is a parameter.
        let is_name = before.ends_with("mem:") && !file.contains('.') || file.contains('=');
        !file.is_empty() && !is_name && Path::new(file).is_relative()
    });
    let (file, after) = relative.find(|(file, _)| base.join(file.trim()).is_file())?;
    let whole = std::path::absolute(base.join(file.trim())).ok()?;
    Some(format!("{before}{}{after}", whole.to_str()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_beside_the_plan() {
        let dir = tempfile::tempdir().unwrap();
        for file in ["w.fst", "m.toml", "s.f"] {
            std::fs::write(dir.path().join(file), "").unwrap();
        }
        let base = dir.path().to_str().unwrap();
        for (text, expected) in [
            (
                "aged:w.fst,on=scratch:ext4,size=1G",
                format!("aged:{base}/w.fst,on=scratch:ext4,size=1G"),
            ),
            (
                "slow:read=3:aged:w.fst",
                format!("slow:read=3:aged:{base}/w.fst"),
            ),
            ("mem:m.toml", format!("mem:{base}/m.toml")),
            ("mem:fast", "mem:fast".into()),
            ("aged:none.fsi,on=ram", "aged:none.fsi,on=ram".into()),
            ("/w.fst", "/w.fst".into()),
            ("aged:/w.fst", "aged:/w.fst".into()),
        ] {
            assert_eq!(target(dir.path(), text), expected);
        }
        assert_eq!(
            workload(dir.path(), "wml:s.f,n=3"),
            format!("wml:{base}/s.f,n=3")
        );
        assert_eq!(workload(dir.path(), "cmd:cat wml:s.f"), "cmd:cat wml:s.f");
    }
}
