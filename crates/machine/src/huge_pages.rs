//! Huge pages, and where they are mounted.
use config::{Eal, HugePages};

use crate::{Finding, Tree};

const SIZES: &str = "sys/kernel/mm/hugepages";

pub(crate) fn examine(tree: &Tree, eal: &Eal, findings: &mut Vec<Finding>) {
    if eal.huge_pages == HugePages::Never {
        let text = "not wanted: eal.huge_pages is \"never\"";
        findings.push(Finding::good("huge pages", text));
        return;
    }
    let free_mb: u64 = tree.names(SIZES).iter().map(|size| free_mb(tree, size)).sum();
    let needed_mb = u64::from(eal.memory_mb);
    if free_mb >= needed_mb {
        findings.push(Finding::good("huge pages", format!("{free_mb} MiB are free")));
        check_mount(tree, findings);
        return;
    }
    let text = format!("{free_mb} MiB are free, and eal.memory_mb wants {needed_mb}");
    let pages = total(tree) + (needed_mb - free_mb).div_ceil(2);
    let remedy = format!("sysctl -w vm.nr_hugepages={pages}");
    findings.push(if eal.huge_pages == HugePages::Require {
        Finding::wrong("huge pages", text, remedy)
    } else {
        Finding::slow("huge pages", format!("{text}: ordinary pages are used"), remedy)
    });
}

/// Free memory in huge pages of the directory `size`, as `hugepages-2048kB`.
fn free_mb(tree: &Tree, size: &str) -> u64 {
    let kilobytes = size.strip_prefix("hugepages-").and_then(|size| size.strip_suffix("kB"));
    let kilobytes: u64 = kilobytes.and_then(|size| size.parse().ok()).unwrap_or(0);
    let free: u64 = tree.value(&format!("{SIZES}/{size}/free_hugepages")).unwrap_or(0);
    free.saturating_mul(kilobytes) / 1024
}

/// Pages of 2 MiB that are reserved.
fn total(tree: &Tree) -> u64 {
    tree.value(&format!("{SIZES}/hugepages-2048kB/nr_hugepages")).unwrap_or(0)
}

fn check_mount(tree: &Tree, findings: &mut Vec<Finding>) {
    let mounts = tree.text("proc/mounts").unwrap_or_default();
    let mounted = mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (at, kind) = (words.next()?, words.next()?);
        (kind == "hugetlbfs").then(|| at.to_owned())
    });
    findings.push(match mounted {
        Some(at) => Finding::good("hugetlbfs", format!("mounted at {at}")),
        None => Finding::slow(
            "hugetlbfs",
            "not mounted: huge pages cannot be shared with other processes",
            "mkdir -p /dev/hugepages && mount -t hugetlbfs none /dev/hugepages",
        ),
    });
}
