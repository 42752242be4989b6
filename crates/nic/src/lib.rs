//! The emulated NIC: match tables, queues, capacity, faults.
#![forbid(unsafe_code)]
