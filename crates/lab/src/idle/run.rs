//! One setting: HNLB before backends that send packets back.
use std::path::Path;
use std::time::{Duration, Instant};

use flow::Encoding;

use super::threads::{between, used};
use super::{Options, Row};
use crate::config::LabRun;
use crate::topology::{BACKENDS, Family, VIP4};
use crate::{Balancer, Lab, LabError, LabOptions, Stop};

/// The port of the echo at the VIP, and at the backends.
const PORT: u16 = 5300;
/// The pause before each packet, in microseconds.
const PAUSE_US: u32 = 20_000;
/// What HNLB is given to come to rest.
const SETTLE: Duration = Duration::from_secs(2);

pub(super) fn one(
    binary: &Path,
    stop: &Stop,
    idle: &'static str,
    options: &Options,
) -> Result<Row, LabError> {
    let mut lab = Lab::up(LabOptions { stop: stop.clone(), ..LabOptions::default() })?;
    let program = binary.display().to_string();
    let mut backends = String::new();
    for host in BACKENDS.iter().take(2) {
        let at = host.address(Family::V4);
        let echo = format!("{at}:{PORT}");
        lab.spawn(host.name, &format!("{}-echo", host.name), &[&program, "lab", "echo", &echo])?;
        backends += &format!("[[service.backend]]\naddress = \"{at}\"\n");
    }
    let how = LabRun::emulated(Encoding::Mark);
    let balancer = Balancer::start_with(&mut lab, binary, "hnlb-idle", how.device, |socket| {
        let base =
            how.base(socket).replace("[workers]\n", &format!("[workers]\nidle = \"{idle}\"\n"));
        let service = format!(
            "\n[[service]]\nname = \"echo\"\nvip = \"{VIP4}\"\nport = {PORT}\nprotocol = \"udp\"\n"
        );
        base + &service + &backends
    })?;
    // The first round trips learn Ethernet addresses.
    trips(&lab, &program, 20)?;
    stop.sleep(SETTLE)?;
    let looks = || -> Result<_, LabError> {
        let worker = balancer.status(&lab)?.workers.into_iter().next().unwrap_or_default();
        Ok((worker, used(balancer.pid())?, Instant::now()))
    };
    let (worker, before, began) = looks()?;
    stop.sleep(Duration::from_secs(options.seconds))?;
    let (after, ended) = (used(balancer.pid())?, Instant::now());
    let now = balancer.status(&lab)?.workers.into_iter().next().unwrap_or_default();
    let threads = between(&before, &after, ended.duration_since(began).as_secs_f64());
    let (mut times, lost) = trips(&lab, &program, options.count)?;
    balancer.check(&mut lab)?;
    balancer.end(&mut lab);
    lab.down()?;
    times.sort_unstable();
    let at = |part: f64| {
        let place = (times.len() as f64 * part) as usize;
        Some(*times.get(place.min(times.len().checked_sub(1)?))? as f64 / 1000.0)
    };
    Ok(Row {
        idle,
        percent: threads.iter().map(|own| own.percent).sum(),
        threads,
        naps: now.naps - worker.naps,
        polls: now.totals.polls - worker.totals.polls,
        first_packet_us: at(0.5).zip(at(0.99)).map(|(half, most)| [half, most]),
        lost,
    })
}

/// Round trips in nanoseconds, each after a pause, and how many were lost.
fn trips(lab: &Lab, program: &str, count: u32) -> Result<(Vec<u64>, u64), LabError> {
    let (to, number, pause) = (format!("{VIP4}:{PORT}"), count.to_string(), PAUSE_US.to_string());
    let argv = [program, "lab", "ping", &to, &number, "--pause-us", &pause];
    let output = lab.exec_for("c1", &argv, Duration::from_secs(300))?.success()?;
    let (ns, lost): (Vec<&str>, Vec<&str>) = output.stdout.lines().partition(|own| *own != "lost");
    Ok((ns.iter().filter_map(|own| own.parse().ok()).collect(), lost.len() as u64))
}
