//! One run: all clients ask, and again while a backend is drained and comes
//! back.
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use status::StatelessStatus;

use super::stateless;
use crate::config::Device;
use crate::load::{self, DnsResult};
use crate::status::Status;
use crate::topology::{BACKENDS, DNS_PORT, Family, vip};
use crate::{Balancer, Lab, LabError};

/// What backends weigh: eighths.
const WEIGHTS: [u16; 4] = [1, 1, 2, 4];
/// Addresses from which is asked, so many of each family, with all values of
/// the low four bits.
const CLIENTS: u16 = 16;
/// Queries a second of each.
const RATE: u32 = 60;
/// By how much of all packets a share may differ. All addresses ask as often;
/// the worker may have balanced a few, which the NIC has not counted.
const TOLERANCE: f64 = 0.003;
/// Seconds between two readings of a card's counters.
const COUNTS: f64 = 0.5;
/// The drained one has half of the clients.
const DRAINED: usize = 3;

const EMULATED: &str = "The NIC is an emulation on a core of its own; what it decides is a card's, how fast it is not.\n";

/// What was seen.
pub(super) struct Report {
    pub(super) text: String,
    pub(super) failures: Vec<String>,
}

pub(super) fn run(lab: &mut Lab, binary: &Path, xdp: bool) -> Result<Report, LabError> {
    let mut report = Report { text: String::new(), failures: Vec::new() };
    add_addresses(lab)?;
    let (device, card) =
        if xdp { (Device::Xdp, None) } else { (Device::AfPacket, Some("bluefield3")) };
    let balancer = Balancer::start_with(lab, binary, "hnlb-dns", device, |socket| {
        stateless(card, DNS_PORT, &WEIGHTS, socket)
    })?;
    eprintln!("dns: {CLIENTS} IPv4 and {CLIENTS} IPv6 addresses ask");
    let before = balancer.status(lab)?;
    let steady = ask_all(lab, 240)?;
    let after = settled(lab, &balancer)?;
    report.load("steady load", &steady);
    report.shares("steady load", &before, &after);
    report.worker(&before, &after, &steady);

    eprintln!("dns: the same, and {} is drained in the middle", BACKENDS[DRAINED].name);
    let (asked, moved) = std::thread::scope(|scope| {
        let shared: &Lab = lab;
        let load = scope.spawn(move || ask_all(shared, 480));
        let moved = drain(shared, &balancer);
        let asked = load.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (asked, moved)
    });
    let (asked, moved) = (asked?, moved?);
    let middle = settled(lab, &balancer)?;
    report.load("load with a drain in the middle", &asked);
    report.moved(moved);
    let behind = ask_all(lab, 240)?;
    let end = settled(lab, &balancer)?;
    report.load("load behind the drain", &behind);
    report.shares("behind the drain", &middle, &end);
    report.idle_backend(&middle, &end);

    let restored = restore(lab, &balancer)?;
    let again = ask_all(lab, 180)?;
    let after = settled(lab, &balancer)?;
    report.load("load behind the return", &again);
    report.text += &format!("its return moves {:.1} % of the clients\n", restored * 100.0);
    report.shares("behind the return", &end, &after);
    balancer.check(lab)?;
    if !balancer.end(lab) {
        report.failures.push("hnlb had to be killed, it did not end on SIGTERM".into());
    }
    report.text += if xdp { "The NIC is the kernel.\n" } else { EMULATED };
    Ok(report)
}

/// The addresses of one family that clients ask from.
fn addresses(family: Family) -> impl Iterator<Item = IpAddr> {
    (0..CLIENTS).map(move |low| match family {
        Family::V4 => std::net::Ipv4Addr::new(10, 71, 0, 128 + low as u8).into(),
        Family::V6 => std::net::Ipv6Addr::new(0xfd71, 0, 0, 0, 0, 0, 0, 0x1280 + low).into(),
    })
}

fn add_addresses(lab: &Lab) -> Result<(), LabError> {
    let mut lines = String::new();
    for address in addresses(Family::V4) {
        lines += &format!("ip addr add {address}/24 dev eth0\n");
    }
    for address in addresses(Family::V6) {
        lines += &format!("ip addr add {address}/64 dev eth0 nodad\n");
    }
    lab.exec("c1", &["sh", "-euc", &lines])?.success().map(drop)
}

/// Every address asks so many queries, all at once.
fn ask_all(lab: &Lab, queries: u32) -> Result<DnsResult, LabError> {
    let all =
        [Family::V4, Family::V6].map(|family| addresses(family).map(move |a| (a, vip(family))));
    let results: Vec<Result<DnsResult, LabError>> = std::thread::scope(|scope| {
        let asking: Vec<_> = all
            .into_iter()
            .flatten()
            .map(|(from, vip)| {
                scope.spawn(move || load::dns_from(lab, "c1", from, vip, queries, RATE))
            })
            .collect();
        asking
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let mut sum = DnsResult::default();
    for result in results {
        let result = result?;
        sum.sent += result.sent;
        sum.completed += result.completed;
        sum.lost += result.lost;
        sum.errors += result.errors;
        sum.qps += result.qps;
    }
    Ok(sum)
}

/// The status once counters have been read again, by HNLB's own clock. The one
/// after that: what is read at the beginning of a turn may be told at its end.
fn settled(lab: &Lab, balancer: &Balancer) -> Result<Status, LabError> {
    let next = balancer.status(lab)?.uptime_seconds + COUNTS;
    while balancer.status(lab)?.uptime_seconds < next {
        lab.stop().sleep(Duration::from_millis(100))?;
    }
    balancer.status(lab)
}

/// Drains in both families, three seconds into the load; what moved.
fn drain(lab: &Lab, balancer: &Balancer) -> Result<f64, LabError> {
    lab.stop().sleep(Duration::from_secs(3))?;
    steer(lab, balancer, "drain")
}

fn restore(lab: &Lab, balancer: &Balancer) -> Result<f64, LabError> {
    steer(lab, balancer, "restore")
}

fn steer(lab: &Lab, balancer: &Balancer, verb: &str) -> Result<f64, LabError> {
    let mut moved = 0.0_f64;
    for (service, family) in [("dns4", Family::V4), ("dns6", Family::V6)] {
        let Some(host) = BACKENDS.get(DRAINED) else { continue };
        let backend = host.address(family).to_string();
        moved = moved.max(balancer.steer(lab, verb, service, &backend)?.moved);
    }
    Ok(moved)
}

fn services(status: &Status) -> impl Iterator<Item = (&str, &StatelessStatus)> {
    let all = status.services.iter();
    all.filter_map(|service| Some((service.name.as_str(), service.stateless.as_ref()?)))
}

impl Report {
    fn load(&mut self, what: &str, result: &DnsResult) {
        let DnsResult { sent, completed, lost, errors, qps } = result;
        self.text += &format!(
            "{what}: {sent} queries, {completed} answered, {lost} lost, {errors} errors, {qps:.0}/s\n"
        );
        if result.failed() > 0 || *completed == 0 {
            self.failures.push(format!("{what}: {lost} of {sent} queries lost, {errors} errors"));
        }
    }

    fn moved(&mut self, moved: f64) {
        self.text += &format!(
            "the drain moves {:.1} % of the clients (the backend's own share: 50 %)\n",
            moved * 100.0
        );
        if (moved - 0.5).abs() > 1e-6 {
            self.failures.push(format!("the drain moved {:.1} % of the clients", moved * 100.0));
        }
    }

    /// Packets of each backend against its part of the clients.
    fn shares(&mut self, what: &str, before: &Status, after: &Status) {
        for ((name, old), (_, new)) in services(before).zip(services(after)) {
            let counts: Vec<u64> = old
                .shares
                .iter()
                .zip(&new.shares)
                .map(|(old, new)| new.packets.saturating_sub(old.packets))
                .collect();
            let all = counts.iter().sum::<u64>().max(1) as f64;
            self.text += &format!("{what}, {name}, {} entries:", new.entries.len());
            for (share, count) in new.shares.iter().zip(&counts) {
                let seen = *count as f64 / all;
                let address = &share.address;
                self.text += &format!(
                    "  {address} {:.1} % of {:.1} %",
                    seen * 100.0,
                    share.assigned * 100.0
                );
                if (seen - share.assigned).abs() > TOLERANCE {
                    self.failures.push(format!(
                        "{what}: {address} got {:.1} % of the packets, assigned are {:.1} %",
                        seen * 100.0,
                        share.assigned * 100.0
                    ));
                }
            }
            self.text += "\n";
            if new.in_hardware.is_empty() {
                let why = new.reasons.values().cloned().collect::<Vec<_>>().join(", ");
                self.failures.push(format!("{name} is not in the NIC: {why}"));
            }
        }
    }

    /// What workers saw of the queries.
    fn worker(&mut self, before: &Status, after: &Status, load: &DnsResult) {
        let since = |name: &str| {
            let count = |status: &Status| status.counters.get(name).copied().unwrap_or(0);
            count(after).saturating_sub(count(before))
        };
        let (balanced, received) = (since("by_address"), since("received"));
        self.text += &format!(
            "the worker balanced {balanced} of {} queries, and received {received} packets in all (ARP, NDP)\n",
            load.sent
        );
        if balanced * 1000 > load.sent {
            self.failures.push(format!("the worker balanced {balanced} of {} queries", load.sent));
        }
    }

    fn idle_backend(&mut self, middle: &Status, end: &Status) {
        for ((name, old), (_, new)) in services(middle).zip(services(end)) {
            let packets =
                |status: &StatelessStatus| status.shares.get(DRAINED).map_or(0, |s| s.packets);
            let more = packets(new).saturating_sub(packets(old));
            if more > 0 {
                self.failures.push(format!("{name}: the drained backend got {more} more packets"));
            }
        }
    }
}
