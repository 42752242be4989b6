//! What the measurements ran on.

use std::fs::read_to_string;
use std::path::Path;

use serde::Serialize;

/// The machine, as far as it bears on the results. What cannot be read says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// The processor's name for itself.
    pub cpu: String,
    /// Logical processors that are online.
    pub cpus: usize,
    /// Whether a hypervisor is underneath.
    pub virtual_machine: bool,
    /// Caches of the first processor, for instance `L1 Data 32K`.
    pub caches: Vec<String>,
    /// HNLB's version and commit.
    pub hnlb: String,
    /// Version of the kernel.
    pub kernel: String,
    /// Version of DPDK.
    pub dpdk: String,
    /// Huge pages reserved, and transparent ones.
    pub memory_pages: String,
    /// Load average over 1, 5 and 15 minutes when this was read.
    pub load_average: String,
    /// Frequency governor of the first processor.
    pub governor: String,
}

const UNKNOWN: &str = "not told by the kernel";

impl Machine {
    /// This machine; the version of DPDK is the caller's to know.
    #[must_use]
    pub fn this(dpdk: &str) -> Self {
        Self::under(Path::new("/"), dpdk)
    }

    /// As the files under `root` tell.
    fn under(root: &Path, dpdk: &str) -> Self {
        let text = |path: &str| read_to_string(root.join(path)).unwrap_or_default();
        let or_unknown = |found: &str| {
            let found = found.trim();
            if found.is_empty() { UNKNOWN.to_owned() } else { found.to_owned() }
        };
        let cpuinfo = text("proc/cpuinfo");
        let field = |name: &str| {
            let line = cpuinfo.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_once(':')).map_or("", |(_, value)| value)
        };
        let cpus = cpuinfo.lines().filter(|line| line.starts_with("processor")).count();
        let load = text("proc/loadavg");
        let load: Vec<&str> = load.split_ascii_whitespace().take(3).collect();
        Self {
            cpu: or_unknown(field("model name")),
            cpus,
            virtual_machine: field("flags").split_ascii_whitespace().any(|f| f == "hypervisor"),
            caches: caches(root),
            hnlb: env!("HNLB_VERSION").to_owned(),
            kernel: or_unknown(&text("proc/sys/kernel/osrelease")),
            dpdk: or_unknown(dpdk),
            memory_pages: pages(
                &text("proc/meminfo"),
                &text("sys/kernel/mm/transparent_hugepage/enabled"),
            ),
            load_average: or_unknown(&load.join(" ")),
            governor: or_unknown(&text("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
        }
    }

    /// Names and values, for a table.
    #[must_use]
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let kind = if self.virtual_machine { " (virtual machine)" } else { "" };
        vec![
            ("Processor", format!("{}{kind}", self.cpu)),
            ("Logical processors", self.cpus.to_string()),
            ("Caches", self.caches.join(", ")),
            ("HNLB", self.hnlb.clone()),
            ("Kernel", self.kernel.clone()),
            ("DPDK", self.dpdk.clone()),
            ("Memory pages", self.memory_pages.clone()),
            ("Load average", self.load_average.clone()),
            ("Frequency governor", self.governor.clone()),
        ]
    }
}

fn caches(root: &Path) -> Vec<String> {
    let cache = root.join("sys/devices/system/cpu/cpu0/cache");
    let read = |index: u32, name: &str| {
        let text = read_to_string(cache.join(format!("index{index}")).join(name)).ok()?;
        Some(text.trim().to_owned())
    };
    (0..)
        .map_while(|index| {
            let (level, kind) = (read(index, "level")?, read(index, "type")?);
            Some(format!("L{level} {kind} {}", read(index, "size")?))
        })
        .collect()
}

/// What `/proc/meminfo` and the switch of transparent huge pages say.
fn pages(meminfo: &str, transparent: &str) -> String {
    let field = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.trim_start_matches(':').split_ascii_whitespace().next())
    };
    let (total, size) = (field("HugePages_Total"), field("Hugepagesize"));
    // The choice in force stands in brackets.
    let chosen = transparent.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    let transparent = chosen.map_or("off", |(word, _)| word);
    match (total, size) {
        (Some(total), Some(size)) => {
            format!(
                "{total} huge pages of {size} kB reserved; transparent huge pages: {transparent}"
            )
        }
        _ => UNKNOWN.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn a_machine_is_read_from_its_files() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let one = "processor\t: 0\nmodel name\t: Some CPU @ 2GHz\nflags\t\t: fpu hypervisor sse\n";
        put(root, "proc/cpuinfo", &format!("{one}\n{one}"));
        put(root, "proc/loadavg", "0.50 0.25 0.10 1/200 4711\n");
        put(
            root,
            "proc/meminfo",
            "MemTotal: 1 kB\nHugePages_Total:     512\nHugepagesize:    2048 kB\n",
        );
        put(root, "sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
        for (index, (level, kind, size)) in
            [("1", "Data", "32K"), ("3", "Unified", "64M")].iter().enumerate()
        {
            let base = format!("sys/devices/system/cpu/cpu0/cache/index{index}");
            put(root, &format!("{base}/level"), &format!("{level}\n"));
            put(root, &format!("{base}/type"), &format!("{kind}\n"));
            put(root, &format!("{base}/size"), &format!("{size}\n"));
        }
        let machine = Machine::under(root, "23.11");
        assert_eq!(machine.cpu, "Some CPU @ 2GHz");
        assert_eq!((machine.cpus, machine.virtual_machine), (2, true));
        assert_eq!(machine.caches, ["L1 Data 32K", "L3 Unified 64M"]);
        assert_eq!(machine.load_average, "0.50 0.25 0.10");
        assert_eq!(
            machine.memory_pages,
            "512 huge pages of 2048 kB reserved; transparent huge pages: madvise"
        );
        assert_eq!((machine.kernel.as_str(), machine.governor.as_str()), (UNKNOWN, UNKNOWN));
    }
}
