//! One measured point.
use crate::http_bench::System;
use crate::load::HttpResult;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A connection with a full handshake for each request, which the balancer answers.
    Full,
    /// The same with clients that resume a session.
    Resumed,
    /// Requests on connections that last, which backends answer.
    Requests,
    /// The same beside clients that do nothing but full handshakes.
    Flood,
}

impl What {
    /// Its name in rows and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "handshake-full",
            Self::Resumed => "handshake-resumed",
            Self::Requests => "requests",
            Self::Flood => "flood",
        }
    }
}

/// What one load on one system cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The system.
    pub system: System,
    /// What is measured.
    pub what: What,
    /// Bytes of each response's body.
    pub bytes: usize,
    /// Handshakes or requests that were done.
    pub done: u64,
    /// The same in a second.
    pub per_s: f64,
    /// Processor time of the balancer for each, in microseconds; of a flood that of its
    /// handshakes, too.
    pub cpu_us: f64,
    /// Handshakes of the flood in a second; 0 without one.
    pub flood_per_s: f64,
    /// Median of the time to an answer, in microseconds; 0 of resumed handshakes, whose
    /// clients do not say.
    pub p50_us: u64,
    /// Its 99th percentile.
    pub p99_us: u64,
    /// Its 99.9th percentile.
    pub p999_us: u64,
    /// Requests that failed, and handshakes that should have resumed a session and did not.
    pub failed: u64,
}

impl Row {
    pub(super) const fn new(system: System, what: What, bytes: usize) -> Self {
        let (done, per_s, cpu_us, flood_per_s) = (0, 0.0, 0.0, 0.0);
        let (p50_us, p99_us, p999_us, failed) = (0, 0, 0, 0);
        Self {
            system,
            what,
            bytes,
            done,
            per_s,
            cpu_us,
            flood_per_s,
            p50_us,
            p99_us,
            p999_us,
            failed,
        }
    }

    /// The row with what wrk saw.
    pub(super) const fn with(self, found: &HttpResult) -> Self {
        Self {
            done: found.requests,
            per_s: found.rps,
            p50_us: found.p50_us,
            p99_us: found.p99_us,
            p999_us: found.p999_us,
            failed: found.failed,
            ..self
        }
    }
}
