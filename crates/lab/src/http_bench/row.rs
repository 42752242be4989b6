//! One measured point.

use super::System;

/// What one load on one system cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The system.
    pub system: System,
    /// Bytes of each response's body.
    pub bytes: usize,
    /// Whether connections last; otherwise each request has one of its own.
    pub keepalive: bool,
    /// Requests answered a second.
    pub requests_per_s: f64,
    /// Processor time of the balancer for each, in microseconds.
    pub cpu_us_per_request: f64,
    /// The kernel's part of it, in system calls.
    pub system_us_per_request: f64,
    /// Median of the time to an answer, in microseconds.
    pub p50_us: u64,
    /// Its 99th percentile.
    pub p99_us: u64,
    /// Its 99.9th percentile.
    pub p999_us: u64,
    /// Requests that failed.
    pub failed: u64,
}
