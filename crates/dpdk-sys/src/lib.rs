//! Raw bindings to DPDK.
