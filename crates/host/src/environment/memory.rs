//! Memory, and when the kernel writes what is dirty.

use std::path::Path;

use fsage_format::result::environment::{MemoryRecord, WriteBackRecord, selected};

use super::files::{kib, number, read};

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
            .map(|t| selected(&t).to_owned()),
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

/// Memory that this process can have without taking it from others: what is available, and no more than
/// its control groups may use.
pub fn available_bytes() -> Option<u64> {
    let available = kib(&read("/proc/meminfo")?, "MemAvailable")?;
    Some(limit().map_or(available, |limit| limit.min(available)))
}

fn vm(name: &str) -> Option<u64> {
    number(format!("/proc/sys/vm/{name}"))
}

/// The narrowest limit of the control groups that this process is in.
fn limit() -> Option<u64> {
    limit_of(&read("/proc/self/cgroup")?, Path::new(CGROUPS))
}

/// The narrowest limit of the groups that /proc/PID/cgroup tells, which are mounted at `mounted`.
fn limit_of(groups: &str, mounted: &Path) -> Option<u64> {
    let one = groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let memory = controllers.split(',').any(|c| c == "memory");
        memory.then_some(path)
    });
    let beneath = |path: &str| path.trim_start_matches('/').to_owned();
    if let Some(path) = one {
        // Version 1 tells the narrowest of all groups above itself.
        let stat = read(
            mounted
                .join("memory")
                .join(beneath(path))
                .join("memory.stat"),
        )?;
        return stat
            .lines()
            .find_map(|line| line.strip_prefix("hierarchical_memory_limit "))
            .and_then(|limit| limit.parse().ok());
    }
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let path = beneath(path);
    // `max` is no number: no limit.
    let of = |group: &Path| number(mounted.join(group).join("memory.max"));
    Path::new(&path).ancestors().filter_map(of).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_limit_is_found_however_deep_the_group_is() {
        let mounted = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let file = mounted.path().join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        write("a/memory.max", "4096\n");
        write("a/b/memory.max", "8192\n");
        write("a/b/c/memory.max", "max\n");
        let of = |groups: &str| limit_of(groups, mounted.path());
        assert_eq!(of("0::/a/b/c\n"), Some(4096));
        assert_eq!(of("0::/other\n"), None);
        assert_eq!(of("0::/\n"), None);
        write(
            "memory/x/memory.stat",
            "cache 1\nhierarchical_memory_limit 77\n",
        );
        assert_eq!(of("4:cpu,cpuacct:/\n3:memory:/x\n0::/a\n"), Some(77));
    }
}
