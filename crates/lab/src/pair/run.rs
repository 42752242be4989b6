//! One run of the pair.

use std::path::Path;
use std::time::{Duration, Instant};

use super::member::Member;
use super::{AnnouncedBy, network};
use crate::load::{self, Connections, DnsResult, HttpLoad, HttpResult, Length};
use crate::progress::Progress;
use crate::threads::join;
use crate::topology::{BALANCER, Family, ROUTER};
use crate::{Balancer, Lab, LabError, Stop};

/// Steps of [`run`].
pub(super) const STEPS: usize = 7;
/// How long routers may take to learn of a change; generous, for busy machines.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the load goes on before and after a change.
const AROUND: Duration = Duration::from_millis(1500);
const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// What is done to the first of the pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Drain,
    Restore,
    Kill,
    Start,
    End,
}

impl Change {
    const fn name(self) -> &'static str {
        match self {
            Self::Drain => "drained (hnlb drain --all)",
            Self::Restore => "restored (hnlb restore --all)",
            Self::Kill => "killed (SIGKILL)",
            Self::Start => "started again",
            Self::End => "ended (SIGTERM)",
        }
    }

    /// Whether the first is used afterwards.
    const fn is_used(self) -> bool {
        matches!(self, Self::Restore | Self::Start)
    }
}

/// Starts both, and changes the first under load. What was not as it should be.
pub(super) fn run(
    lab: &mut Lab,
    binary: &Path,
    way: AnnouncedBy,
    progress: &Progress,
) -> Result<Vec<String>, LabError> {
    let name = way.name();
    progress.step(&format!("{name}: starting two hnlb"));
    network::extend(lab, way)?;
    let members = Member::both(way);
    let mut balancers = Vec::new();
    if way == AnnouncedBy::Bgp {
        let file = lab.dir().join("r1-bird.conf");
        std::fs::write(&file, network::router_bird(lab.dir()))
            .map_err(LabError::io(format!("write {}", file.display())))?;
        let (file, socket) = (file.display().to_string(), lab.dir().join("r1-bird.ctl"));
        let argv = ["bird", "-f", "-c", &file, "-s", &socket.display().to_string()];
        lab.spawn(ROUTER, "r1-bird", &argv)?;
    }
    for member in members {
        balancers.push(member.start(lab, binary)?);
        member.speak(lab, binary)?;
    }
    // The load's view of the same lab, while HNLB comes and goes in it.
    let clients = Lab::attach(lab.name(), lab.stop().clone())?;
    let mut pair = Pair {
        lab,
        clients: &clients,
        binary,
        way,
        members,
        first: balancers.remove(0),
        failures: Vec::new(),
    };
    let second = balancers.remove(0);
    progress.step(&format!("{name}: until routers use them"));
    pair.settle(true)?;
    for change in [Change::Drain, Change::Restore, Change::Kill, Change::Start, Change::End] {
        progress.step(&format!("{name}: the first is {}", change.name()));
        pair.under_load(change)?;
    }
    let Pair { lab, mut failures, .. } = pair;
    second.check(lab)?;
    members.iter().for_each(|member| member.silence(lab));
    if !second.end(lab) {
        failures.push(format!("{name}: hnlb had to be killed, it did not end on SIGTERM"));
    }
    Ok(failures)
}

struct Pair<'a> {
    lab: &'a mut Lab,
    clients: &'a Lab,
    binary: &'a Path,
    way: AnnouncedBy,
    members: [Member; 2],
    first: Balancer,
    failures: Vec<String>,
}

/// What clients saw.
struct Seen {
    http: Vec<HttpResult>,
    downloads: Vec<(u64, Vec<String>)>,
    dns: Vec<DnsResult>,
}

impl Pair<'_> {
    /// Changes the first while clients send requests, and after that a second time
    /// without a change, when not a single query may be lost.
    fn under_load(&mut self, change: Change) -> Result<(), LabError> {
        let end = Stop::default();
        let clients = self.clients;
        let (seen, took) = std::thread::scope(|scope| {
            let load = scope.spawn(|| load(clients, &end));
            let took = self.change(change);
            if took.is_ok() {
                std::thread::sleep(AROUND);
            }
            end.request();
            Ok::<_, LabError>((join(load)?, took?))
        })?;
        let requests: u64 = seen.http.iter().map(|own| own.requests).sum();
        let downloads: u64 = seen.downloads.iter().map(|own| own.0).sum();
        let (sent, lost) = seen
            .dns
            .iter()
            .fold((0, 0), |(sent, lost), own| (sent + own.sent, lost + own.failed()));
        println!(
            "{:<5} first {:<30} {:>5} ms until routers know; {requests} requests, {downloads} downloads, {lost} of {sent} queries lost",
            self.way.name(),
            change.name(),
            took.as_millis()
        );
        let name = change.name();
        for own in seen.http.iter().filter(|own| own.failed > 0) {
            self.fail(&format!("{name}: {} requests failed: {:?}", own.failed, own.errors));
        }
        for text in seen.downloads.iter().flat_map(|own| &own.1) {
            self.fail(&format!("{name}: {text}"));
        }
        if requests == 0 || downloads == 0 || sent == 0 {
            self.fail(&format!("{name}: there was no load"));
        }
        // A datagram on its way to one that is killed is lost, as UDP loses datagrams.
        if change != Change::Kill && lost > 0 {
            self.fail(&format!("{name}: {lost} of {sent} queries were lost"));
        }
        if change == Change::Kill {
            self.after()?;
        }
        Ok(())
    }

    /// After a crash, once routers know: no query is lost any more.
    fn after(&mut self) -> Result<(), LabError> {
        for family in FAMILIES {
            let vip = network::vip(family);
            let seen = load::dns(self.clients, "c2", vip, Length::Seconds(1), 4, Some(200))?;
            if seen.failed() > 0 || seen.sent == 0 {
                self.fail(&format!(
                    "after the crash: {} of {} queries failed",
                    seen.failed(),
                    seen.sent
                ));
            }
        }
        Ok(())
    }

    /// Makes the change; how long it was until routers knew.
    fn change(&mut self, change: Change) -> Result<Duration, LabError> {
        self.lab.stop().sleep(AROUND)?;
        let began = Instant::now();
        match change {
            Change::Drain => self.first.drain(self.lab, true).map(drop)?,
            Change::Restore => self.first.drain(self.lab, false).map(drop)?,
            Change::Kill => self.lab.kill(self.first.pid()),
            Change::Start => self.first = self.members[0].start(self.lab, self.binary)?,
            Change::End => {
                if !self.first.end_again(self.lab) {
                    self.fail("the first had to be killed, it did not end on SIGTERM");
                }
            }
        }
        self.settle(change.is_used())?;
        Ok(began.elapsed())
    }

    /// Waits until the rest of the network uses the second, and the first if `first`.
    fn settle(&mut self, first: bool) -> Result<(), LabError> {
        let began = Instant::now();
        loop {
            let (settled, seen) = match self.way {
                AnnouncedBy::Bgp => self.is_routed(first)?,
                AnnouncedBy::Vrrp => self.is_master(first)?,
            };
            if settled {
                return Ok(());
            }
            if began.elapsed() > PATIENCE {
                return Err(LabError::Timeout {
                    what: format!("{}: the first used: {first}", self.way.name()),
                    seconds: PATIENCE.as_secs(),
                    detail: format!(": {seen}"),
                });
            }
            self.lab.stop().sleep(Duration::from_millis(20))?;
        }
    }

    /// Whether the router has the ways to both families' VIPs that it should have, and
    /// what it has.
    fn is_routed(&self, first: bool) -> Result<(bool, String), LabError> {
        let mut all = String::new();
        let mut fine = true;
        for family in FAMILIES {
            let vip = network::vip(family).to_string();
            let flag = if family == Family::V4 { "-4" } else { "-6" };
            let argv = ["ip", flag, "route", "show", &vip];
            let routes = self.lab.exec(ROUTER, &argv)?.stdout;
            let has = |member: Member| {
                let via = format!("via {} ", member.address(family));
                routes.contains(&via)
            };
            let [one, other] = self.members;
            fine &= has(one) == first && has(other);
            all += &routes;
        }
        Ok((fine, all))
    }

    /// Whether the gateways' addresses are where they should be, and where they are.
    fn is_master(&self, first: bool) -> Result<(bool, String), LabError> {
        let mut all = String::new();
        let mut fine = true;
        for member in self.members {
            let shown = self.lab.exec(member.host, &["ip", "-o", "addr", "show"])?.stdout;
            let wanted = (member.host == BALANCER) == first;
            for address in ["10.71.0.1/24", "10.72.0.1/24", "fd71::1/64", "fd72::1/64"] {
                fine &= shown.contains(&format!(" {address} ")) == wanted;
            }
            all += &shown;
        }
        Ok((fine, all))
    }

    fn fail(&mut self, what: &str) {
        self.failures.push(format!("{}: {what}", self.way.name()));
    }
}

/// Long and short connections, downloads and queries of both families, until `end`.
fn load(lab: &Lab, end: &Stop) -> Result<Seen, LabError> {
    std::thread::scope(|scope| {
        let (mut https, mut downloads, mut queries) = (Vec::new(), Vec::new(), Vec::new());
        for (family, client) in FAMILIES.into_iter().zip(["c1", "c2"]) {
            let vip = network::vip(family);
            for use_ in [Connections::KeepAlive, Connections::Short] {
                let length = Length::Until(end);
                let http = HttpLoad { length, connections: 4, use_, pause_ms: 20 };
                https.push(scope.spawn(move || http.run(lab, client, vip)));
            }
            downloads.push(scope.spawn(move || load::downloads(lab, client, vip, "700k", end)));
            queries.push(
                scope.spawn(move || load::dns(lab, client, vip, Length::Until(end), 4, Some(100))),
            );
        }
        let http = https.into_iter().map(join).collect::<Result<_, _>>()?;
        let downloads = downloads.into_iter().map(join).collect::<Result<_, _>>()?;
        let dns = queries.into_iter().map(join).collect::<Result<_, _>>()?;
        Ok(Seen { http, downloads, dns })
    })
}
