//! The load during reloads: both clients, both families, every kind of
//! connection, from before the first reload until after the last.

use super::run::Seen;
use crate::load::{self, Connections, DnsResult, HttpLoad, HttpResult, Length};
use crate::threads::join;
use crate::topology::{Family, vip};
use crate::{Lab, LabError, Stop};

/// Connections of one wrk at a time.
const OPEN: u32 = 8;
/// Milliseconds between two requests of a connection: reloads, not requests per
/// second, are the point, and the load leaves the machine time for both.
const PAUSE_MS: u32 = 10;
/// Queries a second of one dnsperf, and its sockets.
const QUERIES: u32 = 200;
const SOCKETS: u32 = 4;
/// Bytes a second of a download: it outlasts several reloads.
const RATE: &str = "1M";

/// Limits what a download may have on its way: a machine that is busy with
/// other things must not lose packets in the ring of a socket that waits for
/// the processor.
pub(super) fn limit_windows(lab: &Lab) -> Result<(), LabError> {
    for client in ["c1", "c2"] {
        let set = "echo 4096 32768 65536 > /proc/sys/net/ipv4/tcp_rmem";
        lab.exec(client, &["sh", "-euc", set])?.success()?;
    }
    Ok(())
}

/// Runs the load until `end`; counts what the clients saw.
///
/// # Errors
/// A program cannot run, or the lab is to stop.
pub(super) fn run(lab: &Lab, end: &Stop) -> Result<Seen, LabError> {
    let length = Length::Until(end);
    let http = |client, family, use_| {
        let load = HttpLoad { length, connections: OPEN, use_, pause_ms: PAUSE_MS };
        move || load.run(lab, client, vip(family))
    };
    let dns = |client, family| {
        move || load::dns(lab, client, vip(family), length, SOCKETS, Some(QUERIES))
    };
    std::thread::scope(|scope| {
        let http = [
            scope.spawn(http("c1", Family::V4, Connections::KeepAlive)),
            scope.spawn(http("c2", Family::V6, Connections::KeepAlive)),
            scope.spawn(http("c2", Family::V4, Connections::Short)),
            scope.spawn(http("c1", Family::V6, Connections::Short)),
        ];
        let dns = [scope.spawn(dns("c1", Family::V4)), scope.spawn(dns("c2", Family::V6))];
        let downloads = [("c1", Family::V4), ("c2", Family::V6)].map(|(client, family)| {
            scope.spawn(move || load::downloads(lab, client, vip(family), RATE, end))
        });
        let mut seen = Seen::default();
        // All are joined before the first error is given back.
        let http = http.map(join);
        let dns = dns.map(join);
        for (whole, wrong) in downloads.map(join).into_iter().collect::<Result<Vec<_>, _>>()? {
            seen.downloads += whole + wrong.len() as u64;
            seen.wrong.extend(wrong);
        }
        for result in http {
            seen.http(&result?);
        }
        for result in dns {
            seen.dns(&result?);
        }
        Ok(seen)
    })
}

impl Seen {
    fn http(&mut self, result: &HttpResult) {
        self.requests += result.requests;
        if result.failed > 0 {
            let HttpResult { failed, requests, errors, .. } = result;
            self.wrong.push(format!("{failed} requests beside {requests} failed ({errors:?})"));
        }
        self.failed += result.failed;
    }

    fn dns(&mut self, result: &DnsResult) {
        self.queries += result.sent;
        self.answered += result.completed;
        self.lost += result.lost;
        let DnsResult { lost, errors, sent, .. } = result;
        // UDP may lose a datagram where the kernel's queues overflow, which a resolver
        // asks again; a connection that a reload breaks loses all its queries.
        if *errors > 0 || *lost > 1 + sent / 1000 {
            self.wrong.push(format!("{lost} of {sent} DNS queries lost, {errors} errors"));
        }
    }
}
