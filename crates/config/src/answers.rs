//! `[answers]`: what HNLB answers besides what backends do.
use flow::Refuse;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What HNLB answers to packets that it does not forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Answers {
    /// The answer to packets for a port of a VIP that no service uses.
    pub closed_ports: Refuse,
    /// The number of ICMP errors and RSTs that each worker may send per second. A packet whose answer would exceed it is dropped and counted as `icmp_limited`.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub per_second: u32,
    /// The number of echo requests that each worker answers per second. Requests beyond it are dropped and counted as `echo_limited`.
    #[schemars(range(min = 0, max = 10_000_000))]
    pub echoes_per_second: u32,
    /// The number of packets that each worker may hand to the kernel per second, over all interfaces with `kernel`. Packets beyond it are dropped and counted as `to_kernel_limited`.
    #[schemars(range(min = 0, max = 10_000_000))]
    pub to_kernel_per_second: u32,
    /// The number of packets that HNLB takes from the kernel per second, over all interfaces with `kernel`. Packets beyond it wait in the kernel's queue, which drops those that it has no room for.
    #[schemars(range(min = 0, max = 10_000_000))]
    pub from_kernel_per_second: u32,
}

impl Default for Answers {
    fn default() -> Self {
        Self {
            closed_ports: Refuse::default(),
            per_second: 100,
            echoes_per_second: 10_000,
            to_kernel_per_second: 50_000,
            from_kernel_per_second: 200_000,
        }
    }
}
