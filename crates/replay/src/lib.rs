//! The whole data path without a device: deterministic, by the capture's own clock.
#![forbid(unsafe_code)]

pub mod capture;
