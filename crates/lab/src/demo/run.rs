//! One run of HNLB under load.

use std::path::Path;
use std::time::Duration;

use crate::column::Column;
use crate::config::LabRun;
use crate::load::{self, Connections, DnsResult, HttpLoad, HttpResult, Length, PerBackend};
use crate::progress::Progress;
use crate::status::{Matches, Status, matches, utilization};
use crate::topology::{BACKENDS, Family, vip};
use crate::{Balancer, Lab, LabError};

/// Steps that [`run`] reports to the progress display.
pub(super) const STEPS: usize = 6;
/// Connections of a client at a time.
const OPEN: u32 = 16;
/// Requests without which a connection isn't long: packets before its rules are
/// made, and those of its end, would weigh.
const LONG: u64 = 200;
/// Seconds after which connections that aren't long yet will not be.
const PATIENCE: u64 = 60;
/// The percentage of the packets of long connections that the NIC must match. The X550,
/// which the emulated NIC is for `mark` and `queue`, matches IPv4 only.
const fn least_share(column: Column, family: Family) -> f64 {
    match (column, family) {
        (Column::Off, _) | (Column::Mark | Column::Queue, Family::V6) => 0.0,
        (Column::Xdp, _) => 99.0,
        _ => 95.0,
    }
}

/// What one run saw, from the clients' side and from HNLB's.
#[derive(Debug, Clone)]
pub struct RunReport {
    /// How HNLB was run.
    pub column: Column,
    /// Long connections over IPv4, then IPv6.
    pub long: [HttpResult; 2],
    /// Short connections over IPv4, then IPv6.
    pub short: [HttpResult; 2],
    /// DNS over IPv4, then IPv6.
    pub dns: [DnsResult; 2],
    /// Spot checks that succeeded.
    pub checks: u64,
    /// What spot checks and starting and stopping found wrong.
    pub wrong: Vec<String>,
    /// Who found the packets of long connections, IPv4, then IPv6.
    pub matches: [Matches; 2],
    /// util and util+ of every worker under the load of long IPv4 connections.
    pub utilization: Vec<(f64, f64)>,
    /// HNLB's status under that load.
    pub loaded: Status,
    /// HNLB's status at the end.
    pub last: Status,
}

impl RunReport {
    /// Requests and queries answered.
    #[must_use]
    pub fn served(&self) -> u64 {
        let http: u64 = self.http().map(|r| r.requests).sum();
        let dns: u64 = self.dns.iter().map(|r| r.completed).sum();
        http + dns + self.checks
    }

    /// Requests and queries that failed.
    #[must_use]
    pub fn failed(&self) -> u64 {
        let http: u64 = self.http().map(|r| r.failed).sum();
        let dns: u64 = self.dns.iter().map(DnsResult::failed).sum();
        http + dns + self.wrong.len() as u64
    }

    /// Connections that the clients opened for HTTP.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.http().map(|r| r.connections).sum()
    }

    /// HTTP answers by backend.
    #[must_use]
    pub fn backends(&self) -> PerBackend {
        let mut sum = PerBackend::new();
        for (backend, count) in self.http().flat_map(|r| &r.backends) {
            *sum.entry(backend.clone()).or_default() += count;
        }
        sum
    }

    fn http(&self) -> impl Iterator<Item = &HttpResult> {
        self.long.iter().chain(&self.short)
    }

    /// Everything that is not as it should be, in words.
    #[must_use]
    pub fn failures(&self) -> Vec<String> {
        let name = self.column.name();
        let mut found = Vec::new();
        let mut count = |what: &str, failed: u64, of: u64| {
            if failed > 0 {
                found.push(format!("{name}: {failed} of {of} {what} failed"));
            } else if of == 0 {
                found.push(format!("{name}: no {what} at all"));
            }
        };
        for (family, at) in [("IPv4", 0), ("IPv6", 1)] {
            for (what, runs) in [("long", &self.long), ("short", &self.short)] {
                if let Some(r) = runs.get(at) {
                    let what = format!("requests over {what} {family} connections");
                    let what = if r.failed > 0 { format!("{what} ({:?})", r.errors) } else { what };
                    count(&what, r.failed, r.requests + r.failed);
                }
            }
            if let Some(r) = self.dns.get(at) {
                count(&format!("{family} DNS queries"), r.failed(), r.sent);
            }
        }
        let backends = self.backends();
        for host in BACKENDS.iter().filter(|host| !backends.contains_key(host.name)) {
            found.push(format!("{name}: backend {} got no request", host.name));
        }
        let families = [("IPv4", Family::V4), ("IPv6", Family::V6)];
        for ((word, family), matches) in families.into_iter().zip(&self.matches) {
            let (share, least) = (matches.share() * 100.0, least_share(self.column, family));
            if share < least {
                found.push(format!(
                    "{name}: the NIC matched {share:.1} % of the packets of long {word} \
                     connections, expected at least {least:.0} %"
                ));
            }
        }
        found.extend(self.wrong.iter().map(|what| format!("{name}: {what}")));
        found
    }
}

/// Starts HNLB, loads it, ends it.
pub(super) fn run(
    lab: &mut Lab,
    binary: &Path,
    column: Column,
    how: &LabRun,
    progress: &Progress,
) -> Result<RunReport, LabError> {
    let name = column.name();
    let step = |what: &str| progress.step(&format!("{name}: {what}"));
    step("starting hnlb");
    let balancer = Balancer::start(lab, binary, how)?;
    step("long connections over IPv4");
    let four = long(lab, &balancer, "c1", Family::V4, 3)?;
    step("long connections over IPv6");
    let six = long(lab, &balancer, "c2", Family::V6, 2)?;
    step("short connections over IPv4 and IPv6");
    let short = both(
        || HttpLoad::of(2, OPEN, Connections::Short).run(lab, "c1", vip(Family::V4)),
        || HttpLoad::of(2, OPEN, Connections::Short).run(lab, "c2", vip(Family::V6)),
    )?;
    step("DNS over IPv4 and IPv6");
    let dns = both(
        || load::dns(lab, "c1", vip(Family::V4), Length::Seconds(2), 8, None),
        || load::dns(lab, "c2", vip(Family::V6), Length::Seconds(2), 8, None),
    )?;
    step("curl and dig, one at a time");
    let (checks, mut wrong) = spot_checks(lab)?;
    balancer.check(lab)?;
    let last = balancer.status(lab)?;
    if !balancer.end(lab) {
        wrong.push("hnlb had to be killed, it did not end on SIGTERM".into());
    }
    Ok(RunReport {
        column,
        long: [four.result, six.result],
        short,
        dns,
        checks,
        wrong,
        matches: [four.matches, six.matches],
        utilization: four.utilization,
        loaded: four.loaded,
        last,
    })
}

/// What a load of long connections showed.
struct Long {
    result: HttpResult,
    matches: Matches,
    utilization: Vec<(f64, f64)>,
    /// Shortly before the end of the load.
    loaded: Status,
}

/// Long connections from one client, for some seconds; on a slow machine new
/// ones for longer, until they are long.
fn long(
    lab: &Lab,
    balancer: &Balancer,
    client: &str,
    family: Family,
    seconds: u64,
) -> Result<Long, LabError> {
    let mut seconds = seconds;
    loop {
        let long = long_for(lab, balancer, client, family, seconds)?;
        let enough = long.result.requests >= LONG * u64::from(OPEN);
        if enough || long.result.failed > 0 || seconds >= PATIENCE {
            return Ok(long);
        }
        seconds *= 2;
    }
}

/// Connections from one client that last so many seconds.
fn long_for(
    lab: &Lab,
    balancer: &Balancer,
    client: &str,
    family: Family,
    seconds: u64,
) -> Result<Long, LabError> {
    let before = balancer.status(lab)?;
    let (result, loaded) = std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            HttpLoad::of(seconds, OPEN, Connections::KeepAlive).run(lab, client, vip(family))
        });
        let loaded = lab
            .stop()
            .sleep(Duration::from_millis(seconds * 1000 - 700))
            .and_then(|()| balancer.status(lab));
        (joined(load), loaded)
    });
    let after = balancer.status(lab)?;
    Ok(Long {
        result: result?,
        matches: matches(&before, &after),
        utilization: utilization(&before, &after),
        loaded: loaded?,
    })
}

/// Two loads at once.
fn both<T: Send>(
    one: impl FnOnce() -> Result<T, LabError> + Send,
    two: impl FnOnce() -> Result<T, LabError>,
) -> Result<[T; 2], LabError> {
    let (one, two) = std::thread::scope(|scope| {
        let one = scope.spawn(one);
        let two = two();
        (joined(one), two)
    });
    Ok([one?, two?])
}

fn joined<T>(
    thread: std::thread::ScopedJoinHandle<'_, Result<T, LabError>>,
) -> Result<T, LabError> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// One request at a time, each kind over both families: how many succeeded,
/// and what failed.
fn spot_checks(lab: &Lab) -> Result<(u64, Vec<String>), LabError> {
    let mut fine = 0;
    let mut wrong = Vec::new();
    for (client, family) in [("c1", Family::V4), ("c2", Family::V6)] {
        let vip = vip(family);
        let mut check = |what: &str, result: Result<String, LabError>| {
            match result {
                Err(LabError::Interrupted) => return Err(LabError::Interrupted),
                Err(error) => wrong.push(format!("{what} {vip} from {client}: {error}")),
                Ok(name) if BACKENDS.iter().any(|host| host.name == name) => fine += 1,
                Ok(name) => wrong.push(format!("{what} {vip} from {client}: answered by `{name}`")),
            }
            Ok(())
        };
        for _ in 0..4 {
            check("curl", load::get(lab, client, vip))?;
            check("dig", load::who(lab, client, vip))?;
        }
        check("download of 1 MB from", load::download(lab, client, vip, None))?;
    }
    Ok((fine, wrong))
}
