//! Memory, and when the kernel writes what is dirty.

use fsage_format::result::environment::{MemoryRecord, WriteBackRecord};

use super::devices::selected;
use super::files::{field, number, read};

/// Where control groups are mounted, on every system that follows the kernel's documents.
const CGROUPS: &str = "/sys/fs/cgroup";

pub(super) fn record() -> MemoryRecord {
    let info = read("/proc/meminfo").unwrap_or_default();
    let total_bytes = kib(&info, "MemTotal");
    let swap_bytes = kib(&info, "SwapTotal");
    let swap_free = kib(&info, "SwapFree");
    MemoryRecord {
        total_bytes,
        available_bytes: kib(&info, "MemAvailable"),
        limit_bytes: limit().filter(|limit| total_bytes.is_none_or(|total| *limit < total)),
        swap_bytes,
        swap_used_bytes: swap_bytes.and_then(|all| all.checked_sub(swap_free?)),
        swappiness: vm("swappiness"),
        vfs_cache_pressure: vm("vfs_cache_pressure"),
        transparent_hugepages: read("/sys/kernel/mm/transparent_hugepage/enabled")
            .map(|t| selected(&t)),
        page_bytes: Some(rustix::param::page_size() as u64),
    }
}

pub(super) fn write_back() -> WriteBackRecord {
    let ms = |name: &str| vm(name).and_then(|hundredths| hundredths.checked_mul(10));
    WriteBackRecord {
        dirty_ratio_percent: vm("dirty_ratio"),
        dirty_bytes: vm("dirty_bytes"),
        dirty_background_ratio_percent: vm("dirty_background_ratio"),
        dirty_background_bytes: vm("dirty_background_bytes"),
        dirty_expire_ms: ms("dirty_expire_centisecs"),
        dirty_writeback_ms: ms("dirty_writeback_centisecs"),
        workqueue_cpumask: crate::kthread::workqueue_mask(),
    }
}

/// All of the memory.
pub(crate) fn total_bytes() -> Option<u64> {
    kib(&read("/proc/meminfo")?, "MemTotal")
}

fn vm(name: &str) -> Option<u64> {
    number(format!("/proc/sys/vm/{name}"))
}

/// A line `name: N kB` in bytes.
fn kib(info: &str, name: &str) -> Option<u64> {
    let value = field(info, name)?;
    let number = value.strip_suffix("kB")?.trim();
    number.parse::<u64>().ok()?.checked_mul(1024)
}

/// The narrowest limit of the control groups that this process is in.
fn limit() -> Option<u64> {
    let groups = read("/proc/self/cgroup")?;
    let one = groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let memory = controllers.split(',').any(|c| c == "memory");
        memory.then(|| path.to_owned())
    });
    if let Some(path) = one {
        // Version 1 tells the narrowest of all groups above itself.
        let stat = read(format!("{CGROUPS}/memory{path}/memory.stat"))?;
        return stat
            .lines()
            .find_map(|line| line.strip_prefix("hierarchical_memory_limit "))
            .and_then(|limit| limit.parse().ok());
    }
    let mut path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mut narrowest: Option<u64> = None;
    loop {
        // `max` is no number: no limit.
        if let Some(limit) = number(format!("{CGROUPS}{path}/memory.max")) {
            narrowest = Some(narrowest.map_or(limit, |n| n.min(limit)));
        }
        let (above, _) = path.rsplit_once('/')?;
        if path.len() <= 1 {
            return narrowest;
        }
        path = if above.is_empty() { "/" } else { above };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_found_however_deep_the_group_is() {
        // Whatever this machine has: an answer, and no endless walk.
        let found = record();
        if let (Some(limit), Some(total)) = (found.limit_bytes, found.total_bytes) {
            assert!(limit < total);
        }
        assert_eq!(kib("MemTotal:  12 kB\n", "MemTotal"), Some(12 * 1024));
        assert_eq!(kib("MemTotal:  12\n", "MemTotal"), None);
    }
}
