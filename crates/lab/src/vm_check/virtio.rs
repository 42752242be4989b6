//! Two workers on a virtio-net card of QEMU: buckets of its receive side scaling move from
//! the busier worker to the other while requests are served.
use std::fs;
use std::path::Path;

use super::Verdict;
use crate::config::{LabRun, VIRTIO};
use crate::load::{Connections, HttpLoad};
use crate::status::Status;
use crate::topology::{Family, vip};
use crate::{Balancer, Lab, LabError, LabOptions, Stop};

/// The kernel's card, whose packets go to HNLB's and back.
const PEER: &str = "0000:00:11.0";
/// How long the load lasts, in seconds.
const SECONDS: u64 = 10;
/// So few connections that their buckets are never the same load for both workers.
const CONNECTIONS: u32 = 6;

/// What a port counts if it loses packets.
const LOSSES: [&str; 3] = ["rx_missed", "rx_errors", "rx_no_mbuf"];

/// Runs the check if the machine has such cards. True if everything was as it should be.
///
/// # Errors
/// If the lab cannot be set up or HNLB doesn't run.
pub(super) fn run(binary: &Path, stop: &Stop) -> Result<bool, LabError> {
    let Some(peer) = kernel_name(PEER) else {
        println!("vm-check: no pair of virtio-net cards, so none is tried");
        return Ok(true);
    };
    give_to_dpdk(VIRTIO)?;
    let options = LabOptions { veth: false, stop: stop.clone(), ..LabOptions::default() };
    let mut lab = Lab::up(options)?;
    println!("vm-check: lab up, starting hnlb with two workers on net_virtio");
    let result = lab.plug(&peer).and_then(|()| check(&mut lab, binary));
    if !matches!(result, Ok(true)) {
        let log = fs::read_to_string(lab.log("hnlb")).unwrap_or_default();
        println!("vm-check: hnlb's log:\n{log}");
    }
    lab.down()?;
    result
}

/// What the kernel calls the network device of a PCI card.
fn kernel_name(address: &str) -> Option<String> {
    let card = fs::read_dir(format!("/sys/bus/pci/devices/{address}")).ok()?;
    let mut virtio = card
        .flatten()
        .filter(|own| own.file_name().to_str().is_some_and(|name| name.starts_with("virtio")));
    let mut names = fs::read_dir(virtio.next()?.path().join("net")).ok()?.flatten();
    names.next()?.file_name().into_string().ok()
}

/// Takes the card from the kernel's driver, for DPDK's.
fn give_to_dpdk(address: &str) -> Result<(), LabError> {
    let device = format!("/sys/bus/pci/devices/{address}");
    let steps = [
        (format!("{device}/driver_override"), "uio_pci_generic"),
        (format!("{device}/driver/unbind"), address),
        ("/sys/bus/pci/drivers_probe".to_owned(), address),
    ];
    for (file, word) in steps {
        fs::write(&file, word).map_err(LabError::io(format!("write {word} to {file}")))?;
    }
    Ok(())
}

fn check(lab: &mut Lab, binary: &Path) -> Result<bool, LabError> {
    let balancer = Balancer::start(lab, binary, &LabRun::virtio())?;
    let before = balancer.status(lab)?;
    let load = HttpLoad::of(SECONDS, CONNECTIONS, Connections::KeepAlive);
    let http = load.run(lab, "c1", vip(Family::V4))?;
    let after = balancer.status(lab)?;
    let mut verdict = Verdict::default();
    verdict.say(
        http.failed == 0 && http.requests > 0,
        &format!("{} requests served, {} failed ({:?})", http.requests, http.failed, http.errors),
    );
    let since = |of: &dyn Fn(&Status) -> u64| of(&after).saturating_sub(of(&before));
    let balance =
        |name: &str| since(&|status| status.balance.counters.get(name).copied().unwrap_or(0));
    let [moved, late, refused] = ["moved", "late", "refused"].map(balance);
    let buckets: Vec<u64> = after.workers.iter().map(|worker| worker.buckets).collect();
    verdict.say(
        moved > 0 && refused == 0,
        &format!(
            "entries of the redirection table moved under load: {moved}, {late} late, \
             {refused} refused, buckets by worker {buckets:?}, longest wait {} us ({:?})",
            after.balance.longest_wait_us, after.balance.ports
        ),
    );
    let shares: Vec<u64> = after.workers.iter().map(|worker| worker.totals.packets).collect();
    verdict.say(
        shares.iter().all(|packets| *packets > 0),
        &format!("each worker received packets: {shares:?}"),
    );
    let lost = |status: &Status| {
        let counts = status.ports.iter().flat_map(|port| &port.counters);
        counts.filter(|(name, _)| LOSSES.contains(&name.as_str())).map(|(_, count)| count).sum()
    };
    let lost = since(&lost);
    verdict.say(lost == 0, &format!("the card lost {lost} packets"));
    balancer.check(lab)?;
    verdict.say(balancer.end(lab), "hnlb ends on SIGTERM");
    Ok(verdict.close())
}
