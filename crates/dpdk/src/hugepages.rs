//! Which memory EAL gets.
use std::fmt;
use std::path::Path;

/// Whether to use huge pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HugePages {
    /// When enough are free, else ordinary memory.
    #[default]
    Auto,
    /// Or fail.
    Require,
    /// Ordinary memory.
    Never,
}

/// The memory that was chosen; displays as one line for an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Huge pages.
    Huge {
        /// Megabytes reserved at start.
        megabytes: u32,
    },
    /// Ordinary pages.
    Ordinary {
        /// Megabytes in all.
        megabytes: u32,
        /// Megabytes of free huge pages that were found; `None`: not wanted.
        free: Option<u64>,
    },
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Huge { megabytes } => write!(f, "{megabytes} MB in huge pages"),
            Self::Ordinary { megabytes, free } => {
                write!(f, "{megabytes} MB in ordinary pages ")?;
                match free {
                    Some(free) => write!(f, "(only {free} MB of huge pages are free)")?,
                    None => f.write_str("(huge pages are switched off)")?,
                }
                write!(
                    f,
                    ": more TLB misses per packet, and NICs without an IOMMU can't be used; \
                     for huge pages: {}",
                    remedy(*megabytes)
                )
            }
        }
    }
}

/// The command that reserves `megabytes`.
pub(crate) fn remedy(megabytes: u32) -> String {
    format!("sysctl -w vm.nr_hugepages={}", megabytes.div_ceil(2))
}

/// Megabytes of free huge pages of all sizes, 0 if the kernel has none.
pub(crate) fn free_megabytes() -> u64 {
    free_below(Path::new("/sys/kernel/mm/hugepages"))
}

fn free_below(directory: &Path) -> u64 {
    let Ok(sizes) = std::fs::read_dir(directory) else {
        return 0;
    };
    let kilobytes: u64 = sizes
        .flatten()
        .filter_map(|size| {
            let name = size.file_name();
            let page = name.to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?;
            let free = std::fs::read_to_string(size.path().join("free_hugepages")).ok()?;
            Some(page.parse::<u64>().ok()?.saturating_mul(free.trim().parse().ok()?))
        })
        .sum();
    kilobytes / 1024
}

/// Whether a hugetlbfs is mounted, which shared (not in-memory) use needs.
pub(crate) fn mounted() -> bool {
    std::fs::read_to_string("/proc/mounts").is_ok_and(|text| has_hugetlbfs(&text))
}

fn has_hugetlbfs(mounts: &str) -> bool {
    mounts.lines().any(|line| line.split_whitespace().nth(2) == Some("hugetlbfs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_told_by_type_not_by_name() {
        assert!(has_hugetlbfs("a / ext4 rw 0 0\nnodev /mnt/h hugetlbfs rw 0 0\n"));
        assert!(!has_hugetlbfs("hugetlbfs /hugetlbfs tmpfs rw 0 0\n"));
    }

    #[test]
    fn no_directory_means_no_pages() {
        assert_eq!(free_below(Path::new("/nonexistent")), 0);
    }

    #[test]
    fn the_line_names_cost_and_remedy() {
        let text = Memory::Ordinary { megabytes: 65, free: Some(2) }.to_string();
        assert!(text.contains("65 MB in ordinary pages (only 2 MB"), "{text}");
        assert!(text.ends_with("vm.nr_hugepages=33"), "{text}");
        assert!(!text.contains('\n'));
    }
}
