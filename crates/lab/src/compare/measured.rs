//! One load on one contender.

use serde::Serialize;

use super::contender::{CLIENT, Running};
use super::cpu;
use crate::load::{Connections, HttpLoad};
use crate::status::Status;
use crate::topology::{BALANCER, PORT};
use crate::{Lab, LabError};

/// Connections at a time.
const OPEN: u32 = 16;

/// What one load on one contender cost. Times are of the whole load, in
/// nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// [`super::Contender::name`].
    pub system: String,
    /// `keep-alive` or `short`.
    pub connections: &'static str,
    /// Which round, from 0.
    pub round: u32,
    /// Requests answered.
    pub requests: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests answered a second.
    pub rps: f64,
    /// Packets that came in on the balancer's port, of both directions.
    pub packets: u64,
    /// HNLB: busy time of the workers, OPS of the paper's algorithm 1, as a
    /// share of the loop's whole time. It runs on while another process has
    /// the processor.
    pub worker_ns: Option<f64>,
    /// HNLB and HAProxy: utime + stime of the process. HNLB's holds the
    /// emulated NIC and all polling for nothing; HAProxy's holds what the
    /// kernel does in its system calls.
    pub process_ns: Option<u64>,
    /// Soft interrupts of the whole machine: the kernel's part of all packets
    /// on all hops, clients and backends included.
    pub softirq_ns: u64,
}

impl Measured {
    /// As a line of JSON.
    pub(super) fn json(&self) -> String {
        // Strings, numbers and options have a JSON form.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// What is read before and after.
struct Reading {
    status: Option<Status>,
    process_ns: Option<u64>,
    softirq_ns: u64,
    packets: u64,
}

/// Loads a contender and measures it.
pub(super) fn measure(
    lab: &mut Lab,
    running: &Running,
    use_: Connections,
    round: u32,
    seconds: u64,
) -> Result<Measured, LabError> {
    let contender = running.contender;
    // Neighbours are resolved, rules of earlier connections are there.
    HttpLoad::of(1, OPEN, use_).run_at(lab, CLIENT, contender.target())?;
    let before = read(lab, running)?;
    let result = HttpLoad::of(seconds, OPEN, use_).run_at(lab, CLIENT, contender.target())?;
    let after = read(lab, running)?;
    if let Some(balancer) = &running.balancer {
        balancer.check(lab)?;
    }
    let since = |of: fn(&Reading) -> Option<u64>| of(&after)?.checked_sub(of(&before)?);
    Ok(Measured {
        system: contender.name().into(),
        connections: match use_ {
            Connections::KeepAlive => "keep-alive",
            Connections::Short => "short",
        },
        round,
        requests: result.requests,
        failed: result.failed,
        rps: result.rps,
        packets: since(|reading| Some(reading.packets)).unwrap_or(0),
        worker_ns: before.status.zip(after.status).map(|(a, b)| busy_ns(&a, &b)),
        process_ns: after.process_ns.zip(before.process_ns).map(|(b, a)| b.saturating_sub(a)),
        softirq_ns: after.softirq_ns.saturating_sub(before.softirq_ns),
    })
}

fn read(lab: &Lab, running: &Running) -> Result<Reading, LabError> {
    let status = running.balancer.as_ref().map(|balancer| balancer.status(lab)).transpose()?;
    let table = lab.exec(BALANCER, &["cat", "/proc/net/dev"])?.success()?.stdout;
    let packets = cpu::received(&table, PORT).ok_or_else(|| LabError::Parse {
        tool: "the kernel",
        detail: format!("no {PORT} in /proc/net/dev: {table}"),
    })?;
    let process_ns = running.pid.map(cpu::process_ns).transpose()?;
    Ok(Reading { status, process_ns, softirq_ns: cpu::softirq_ns()?, packets })
}

/// The workers' OPS between two reports in nanoseconds: as a share of REF,
/// which counts all the time that passed.
fn busy_ns(before: &Status, after: &Status) -> f64 {
    busy_share(before, after) * (after.uptime_seconds - before.uptime_seconds) * 1e9
}

/// OPS as a share of REF between two reports; of several workers the sum of their shares.
pub(crate) fn busy_share(before: &Status, after: &Status) -> f64 {
    let shares = before.workers.iter().zip(&after.workers);
    shares.map(|(before, after)| after.totals.since(before.totals).util()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_time_is_a_share_of_the_time_between() {
        let report = |uptime: f64, all: u64, busy: u64| {
            let text = format!(
                r#"{{"uptime_seconds":{uptime},"workers":[
                    {{"loop":{{"ref_cycles":{all},"ops_cycles":{busy}}}}},
                    {{"loop":{{"ref_cycles":{all},"ops_cycles":0}}}}]}}"#
            );
            serde_json::from_str(&text).unwrap()
        };
        let busy = busy_ns(&report(1.0, 1000, 100), &report(3.0, 5000, 1100));
        assert!((busy - 0.5e9).abs() < 1.0, "{busy}");
    }
}
