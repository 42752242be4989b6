//! The IOMMU, which vfio-pci needs.
use crate::{Finding, Tree};

/// For a machine that gives cards to DPDK by vfio-pci.
pub(crate) fn examine(tree: &Tree, findings: &mut Vec<Finding>) {
    if !tree.names("sys/class/iommu").is_empty() {
        findings.push(Finding::good("IOMMU", "on"));
        return;
    }
    let unsafe_mode = tree.text("sys/module/vfio/parameters/enable_unsafe_noiommu_mode");
    if unsafe_mode.as_deref() == Some("Y") {
        let text = "off, and vfio works without: a card can write to all memory";
        findings.push(Finding::good("IOMMU", text));
        return;
    }
    let vendor = tree.text("proc/cpuinfo").unwrap_or_default();
    let parameter = if vendor.contains("AuthenticAMD") { "amd_iommu=on" } else { "intel_iommu=on" };
    findings.push(Finding::wrong(
        "IOMMU",
        "off: vfio-pci cannot give a card to DPDK",
        format!(
            "add {parameter} iommu=pt to the kernel's command line, and turn VT-d or AMD-Vi on in the firmware"
        ),
    ));
}
