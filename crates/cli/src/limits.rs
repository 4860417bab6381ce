//! Which limit of the system may be behind an error: who reads it finds what to raise.

use fsage_host::limits::{Limit, behind};
use fsage_report::units;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::ui;

/// What may be met where a limit is: errors that are told as text end so, or name the kernel's word. Some have no
/// cause that says more.
const MET: [(Errno, &str); 3] = [
    (Errno::MFILE, "EMFILE"),
    (Errno::AGAIN, "EAGAIN"),
    (Errno::NOMEM, "ENOMEM"),
];

/// What the user can do about an error in these words, if a limit may be behind it.
pub fn hint(message: &str) -> Option<String> {
    if says(message, Errno::FBIG, "EFBIG") {
        return Some(too_large());
    }
    let (errno, _) = MET
        .iter()
        .find(|&&(errno, word)| says(message, errno, word))?;
    let limits: Vec<String> = behind(errno.raw_os_error())
        .iter()
        .map(Limit::to_string)
        .collect();
    let all = limits.join(", ");
    (!all.is_empty()).then(|| format!("{all}: raise it in the shell that starts fsage"))
}

/// Says what failed, a line each, and once which limit may be behind it.
pub fn tell_failed(failed: impl Iterator<Item = String>) {
    let failed: Vec<String> = failed.collect();
    for line in &failed {
        ui::line(line);
    }
    if let Some(hint) = failed.iter().find_map(|line| hint(line)) {
        ui::line(&format!("hint: {hint}"));
    }
}

fn says(message: &str, errno: Errno, word: &str) -> bool {
    let number = format!("(os error {})", errno.raw_os_error());
    message.contains(&number) || message.contains(word)
}

/// Why a file could not become as large as it would have.
pub fn too_large() -> String {
    match getrlimit(Resource::Fsize).current {
        Some(bytes) => format!(
            "the file size limit (ulimit -f) is {} here; the disk is not full",
            units::bytes(bytes)
        ),
        None => {
            "there is no file size limit (ulimit -f) here: the file system holds no such file; \
                 the disk is not full"
                .to_owned()
        }
    }
}
