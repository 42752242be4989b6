//! The machine against a configuration.
use config::Config;

use crate::{Finding, Tree, cores, devices, huge_pages, kernels, links};

/// Everything that was looked at, for a load balancer with `config`.
#[must_use]
pub fn examine(tree: &Tree, config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    huge_pages::examine(tree, config, &mut findings);
    cores::examine(tree, config, &mut findings);
    devices::examine(tree, config, &mut findings);
    links::examine(tree, config, &mut findings);
    kernels::examine(tree, config, &mut findings);
    findings
}
