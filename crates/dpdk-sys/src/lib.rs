//! Raw bindings to DPDK (22.11 to 24.11): the functions and types that the
//! `dpdk` crate uses, and a small C shim for static inlines.
//!
//! Nothing here is safe by itself; the safe wrappers are in `dpdk`. Names are
//! DPDK's own, `hnlb_*` are the shim's (`csrc/shim.h`).
#![allow(
    missing_docs,
    unknown_lints,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unnecessary_transmutes,
    unsafe_op_in_unsafe_fn,
    unused_imports,
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks
)]

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
