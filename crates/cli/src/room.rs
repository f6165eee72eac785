//! How much more memory this process may take, under the limits that a service manager or a shell has set. If
//! that is little, clients may by default hold less: a daemon that is refused memory ends. The laboratory then
//! measures fewer points side by side.

use std::fs;

use rustix::{
    param::page_size,
    process::{Resource, getrlimit},
};

/// Bytes that this process may still take. None if only the machine bounds them.
pub(crate) fn left_bytes() -> Option<u64> {
    let pages = fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = pages.split(' ').map(|count| count.parse::<u64>().unwrap_or(0) * page_size() as u64);
    let (mapped, resident) = (pages.next()?, pages.next()?);
    let of_addresses = getrlimit(Resource::As).current.map(|limit| limit.saturating_sub(mapped));
    let of_group = group_limit_bytes().map(|limit| limit.saturating_sub(resident));
    of_addresses.into_iter().chain(of_group).min()
}

/// Bytes that this process may still take, as far as the machine has them.
#[cfg(feature = "lab")]
pub(crate) fn available_bytes() -> u64 {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let machine = available_of(&meminfo).unwrap_or_else(memory_bytes);
    left_bytes().map_or(machine, |left| left.min(machine))
}

/// What the kernel could give without swapping, from `/proc/meminfo`.
#[cfg(feature = "lab")]
fn available_of(meminfo: &str) -> Option<u64> {
    let value = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = value.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    Some(kib << 10)
}

/// The memory of the machine, or what control groups leave this process of it.
pub(crate) fn memory_bytes() -> u64 {
    let machine = rustix::system::sysinfo();
    let all = machine.totalram as u64 * u64::from(machine.mem_unit);
    group_limit_bytes().map_or(all, |limit| limit.min(all))
}

/// The lowest limit of the control groups that this process is in.
fn group_limit_bytes() -> Option<u64> {
    limits_of_groups(&fs::read_to_string("/proc/self/cgroup").ok()?, |path| fs::read_to_string(path).ok())
}

/// The lowest limit, from the lines of `/proc/self/cgroup` and the files of the control groups.
fn limits_of_groups(lines: &str, read: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let files = lines.lines().flat_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return Vec::new(),
        };
        // The groups above bound it, too.
        let ends = path.match_indices('/').map(|(end, _)| end).filter(|end| *end > 0).chain([path.len()]);
        let groups = ends.map(|end| path[..end].trim_end_matches('/'));
        groups.map(|group| format!("{root}{group}/{file}")).collect()
    });
    // "max" is no number, and no limit.
    files.filter_map(|file| read(&file)?.trim().parse().ok()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_of_all_groups_counts() {
        let told = |lines: &str, files: &[(&str, &str)]| {
            let read = |path: &str| files.iter().find(|file| file.0 == path).map(|file| file.1.to_owned());
            limits_of_groups(lines, read)
        };
        let unified = "0::/system.slice/array.service\n";
        let own = "/sys/fs/cgroup/system.slice/array.service/memory.max";
        assert_eq!(told(unified, &[(own, "max\n")]), None);
        assert_eq!(
            told(unified, &[(own, "1000\n"), ("/sys/fs/cgroup/system.slice/memory.max", "900\n")]),
            Some(900)
        );
        let split = "8:pids:/\n9:cpu,memory:/box\n0::/\n";
        assert_eq!(told(split, &[("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "77\n")]), Some(77));
        assert_eq!(told(split, &[("/sys/fs/cgroup/memory/memory.limit_in_bytes", "5\n")]), None);
        assert_eq!(told("8:memory:/\n", &[("/sys/fs/cgroup/memory/memory.limit_in_bytes", "5\n")]), Some(5));
        assert_eq!(told("not at all", &[]), None);
    }

    #[cfg(feature = "lab")]
    #[test]
    fn what_the_machine_could_give_is_told_in_bytes() {
        let meminfo = "MemTotal:       24689764 kB\nMemAvailable:    2048 kB\n";
        assert_eq!((available_of(meminfo), available_of("MemTotal: 1 kB\n")), (Some(2 << 20), None));
        assert!(available_bytes() > 0 && available_bytes() <= memory_bytes());
    }
}
