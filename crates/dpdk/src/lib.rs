//! Safe wrappers over DPDK: EAL, mempool, mbuf, port, ring, rte_flow.

pub mod flow;
