//! The machine against a configuration, or before there is one.
use config::{Config, Eal};

use crate::{Finding, Tree, cores, devices, huge_pages, iommu, kernels, links, nics, offloads};

/// Everything that was looked at, for a load balancer with `config`.
#[must_use]
pub fn examine(tree: &Tree, config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    huge_pages::examine(tree, &config.eal, &mut findings);
    cores::examine(tree, config, &mut findings);
    devices::examine(tree, config, &mut findings);
    links::examine(tree, config, &mut findings);
    offloads::examine(tree, config, &mut findings);
    kernels::examine(tree, config, &mut findings);
    findings
}

/// What can be said of the machine before there is a configuration: nothing is wrong
/// yet, and what a load balancer would use is told with the command that provides it.
#[must_use]
pub fn survey(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    huge_pages::examine(tree, &Eal::default(), &mut findings);
    cores::survey(tree, &mut findings);
    let cards = nics(tree);
    if cards.is_empty() {
        let text = "none on the PCI bus: HNLB can use the kernel's interfaces (hnlb setup --help)";
        findings.push(Finding::good("cards", text));
        return findings;
    }
    cards.iter().for_each(|card| devices::survey(tree, card, &mut findings));
    let mut about_iommu = Vec::new();
    iommu::examine(tree, &mut about_iommu);
    // A card that shares itself with the kernel, as mlx5 does, needs none.
    findings.extend(about_iommu.into_iter().map(Finding::not_yet_wrong));
    findings
}
