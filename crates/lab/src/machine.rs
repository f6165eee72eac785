//! The machine of real-time figures.

use std::{fmt, fs, path::Path, thread};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// A machine, as far as figures depend on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's model.
    pub processor: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// The caches of one core, as in "L1d 48K, L2 2048K, L3 107520K".
    pub caches: String,
    /// Whole GiB: the kernel's own share differs from start to start.
    pub memory_gib: u64,
    /// The kernel's release.
    pub kernel: String,
}

impl Machine {
    /// This machine. Facts that the kernel does not tell are "unknown", or 0.
    pub fn here() -> Self {
        Self {
            processor: processor(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
            cores: thread::available_parallelism().map_or(1, usize::from),
            caches: caches(Path::new("/sys/devices/system/cpu/cpu0/cache")),
            memory_gib: memory_gib(&fs::read_to_string("/proc/meminfo").unwrap_or_default()),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        }
    }

    /// A word that distinguishes it from others.
    pub fn id(&self) -> String {
        format!("{:08x}", xxh3_64(format!("{self:?}").as_bytes()) >> 32)
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { processor, cores, caches, memory_gib, kernel } = self;
        let word = if *cores == 1 { "core" } else { "cores" };
        write!(f, "{processor}, {cores} {word}, {caches}, {memory_gib} GiB of memory, Linux {kernel}")
    }
}

/// The value of a key before a colon, in the first line that has it.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(its_key, _)| its_key.trim() == key).map(|(_, value)| value.trim())
}

fn processor(cpuinfo: &str) -> String {
    let keys = ["model name", "Model", "cpu model", "uarch"];
    let found = keys.iter().find_map(|key| value(cpuinfo, key));
    found.map_or_else(
        || "unknown processor".to_owned(),
        |name| name.split_whitespace().collect::<Vec<_>>().join(" "),
    )
}

fn memory_gib(meminfo: &str) -> u64 {
    let kib = value(meminfo, "MemTotal").and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    kib.map_or(0, |kib| (kib + (1 << 19)) >> 20)
}

fn caches(folder: &Path) -> String {
    let caches: Vec<_> = (0..).map_while(|index| cache(&folder.join(format!("index{index}")))).collect();
    // Instruction caches do not matter.
    let of_data: Vec<_> = caches.into_iter().flatten().collect();
    if of_data.is_empty() { "unknown caches".to_owned() } else { of_data.join(", ") }
}

/// None behind the last cache; Some(None) for an instruction cache.
fn cache(folder: &Path) -> Option<Option<String>> {
    let read = |name| Some(fs::read_to_string(folder.join(name)).ok()?.trim().to_owned());
    let (level, kind, size) = (read("level")?, read("type")?, read("size")?);
    let suffix = match kind.as_str() {
        "Instruction" => return Some(None),
        "Data" => "d",
        _ => "",
    };
    Some(Some(format!("L{level}{suffix} {size}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_named() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some(R)   Xeon\nflags\t: a b\n";
        assert_eq!(processor(cpuinfo), "Some(R) Xeon");
        assert_eq!((processor("").as_str(), memory_gib("")), ("unknown processor", 0));
        assert_eq!(memory_gib("MemTotal:       24689764 kB\nMemFree: 1 kB\n"), 24);
        assert_eq!(caches(Path::new("/nowhere")), "unknown caches");
        let folder = tempfile::tempdir().unwrap();
        for (index, [level, kind, size]) in
            [["1", "Data", "48K"], ["1", "Instruction", "32K"], ["2", "Unified", "2M"]].iter().enumerate()
        {
            let cache = folder.path().join(format!("index{index}"));
            fs::create_dir(&cache).unwrap();
            for (name, text) in [("level", level), ("type", kind), ("size", size)] {
                fs::write(cache.join(name), format!("{text}\n")).unwrap();
            }
        }
        assert_eq!(caches(folder.path()), "L1d 48K, L2 2M");
    }

    #[test]
    fn machines_are_told_apart() {
        let here = Machine::here();
        assert_eq!(here, Machine::here());
        let other = Machine { cores: here.cores + 1, ..here.clone() };
        assert!(here.id() != other.id() && here.id().len() == 8 && here.cores > 0);
        let read: Machine = serde_json::from_str(&serde_json::to_string(&here).unwrap()).unwrap();
        assert_eq!(read.id(), here.id());
        assert!(here.to_string().contains("core") && here.to_string().contains("Linux "), "{here}");
    }
}
