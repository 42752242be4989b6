//! All systems in turn, the same round trips through each.
use std::path::Path;
use std::time::Duration;

use super::xdp::{self, Xdp};
use crate::config::Device;
use crate::dns::stateless;
use crate::topology::{BACKENDS, BALANCER, PORT, VIP4};
use crate::{Balancer, Lab, LabError, LabOptions, Stop};

/// The port of the echo at the VIP.
const ECHO_PORT: u16 = 5300;
/// The client: its address is odd, so the second of two backends answers.
const CLIENT: &str = "c1";

/// What is between client and backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    /// The switch alone.
    Baseline,
    /// An XDP program in the kernel.
    Xdp,
    /// HNLB, its emulated BlueField-3 does all.
    Hardware,
    /// HNLB, its emulated X550 can't: a worker does all.
    Software,
}

impl System {
    /// All, in the order they are measured in.
    pub const ALL: [Self; 4] = [Self::Baseline, Self::Xdp, Self::Hardware, Self::Software];

    /// Its name in rows.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Xdp => "xdp",
            Self::Hardware => "hnlb-bluefield3",
            Self::Software => "hnlb-software",
        }
    }
}

/// The round trips through one system, in one repetition.
#[derive(Debug, Clone)]
pub struct RoundTrips {
    /// The system.
    pub system: System,
    /// How it was attached, or which NIC was played.
    pub how: String,
    /// Which repetition, from 0.
    pub repetition: u32,
    /// Those that came back, in nanoseconds.
    pub ns: Vec<u64>,
    /// Packets without an answer.
    pub lost: u64,
}

/// Measures all systems `repetitions` times in turn, `count` round trips each.
///
/// # Errors
/// If the lab can't be set up here, or one of the systems doesn't start.
pub fn measure(
    binary: &Path,
    stop: &Stop,
    repetitions: u32,
    count: u32,
) -> Result<Vec<RoundTrips>, LabError> {
    if let Some(why) = xdp::unavailable() {
        return Err(LabError::Unavailable(why));
    }
    let mut lab = Lab::up(LabOptions { stop: stop.clone(), ..LabOptions::default() })?;
    let program = binary.display().to_string();
    let at = format!("{VIP4}:{ECHO_PORT}");
    for host in BACKENDS.iter().take(2) {
        lab.spawn(host.name, &format!("{}-echo", host.name), &[&program, "lab", "echo", &at])?;
    }
    stop.sleep(Duration::from_millis(300))?;
    let mut all = Vec::new();
    for repetition in 0..repetitions {
        for system in System::ALL {
            eprintln!("latency: {}, repetition {repetition}", system.name());
            all.push(one(&mut lab, binary, system, repetition, count)?);
        }
    }
    lab.down()?;
    Ok(all)
}

fn one(
    lab: &mut Lab,
    binary: &Path,
    system: System,
    repetition: u32,
    count: u32,
) -> Result<RoundTrips, LabError> {
    let own = mac(lab, BALANCER, PORT)?;
    let (even, odd) = (mac(lab, "b1", "eth0")?, mac(lab, "b2", "eth0")?);
    let hnlb = |lab: &mut Lab, profile: &str| {
        Balancer::start_with(lab, binary, "hnlb-latency", Device::AfPacket, |socket| {
            stateless(Some(profile), ECHO_PORT, &[1, 1], socket)
        })
    };
    let (how, (ns, lost)) = match system {
        System::Baseline => {
            towards(lab, &odd)?;
            ("switch".to_owned(), trips(lab, binary, count)?)
        }
        System::Xdp => {
            towards(lab, &own)?;
            let xdp = Xdp::attach(lab, &own, &even, &odd)?;
            let how = xdp.mode().to_owned();
            let found = trips(lab, binary, count);
            xdp.detach(lab)?;
            (how, found?)
        }
        System::Hardware | System::Software => {
            towards(lab, &own)?;
            let profile = if system == System::Hardware { "bluefield3" } else { "x550" };
            let balancer = hnlb(lab, profile)?;
            let found = trips(lab, binary, count);
            balancer.check(lab)?;
            balancer.end(lab);
            (format!("emulated {profile}"), found?)
        }
    };
    Ok(RoundTrips { system, how, repetition, ns, lost })
}

/// The Ethernet address of a host's device.
fn mac(lab: &Lab, host: &str, device: &str) -> Result<String, LabError> {
    let file = format!("/sys/class/net/{device}/address");
    let output = lab.exec(host, &["cat", &file])?.success()?;
    Ok(output.stdout.trim().to_owned())
}

/// The client sends what is for the VIP to this Ethernet address.
fn towards(lab: &Lab, mac: &str) -> Result<(), LabError> {
    let vip = VIP4.to_string();
    let argv = ["ip", "neigh", "replace", &vip, "lladdr", mac, "dev", "eth0", "nud", "permanent"];
    lab.exec(CLIENT, &argv)?.success().map(drop)
}

fn trips(lab: &Lab, binary: &Path, count: u32) -> Result<(Vec<u64>, u64), LabError> {
    let (program, to) = (binary.display().to_string(), format!("{VIP4}:{ECHO_PORT}"));
    // The first ones find caches cold.
    let warm = (count / 10).max(20);
    let number = (count + warm).to_string();
    let argv = [program.as_str(), "lab", "ping", &to, &number];
    let output = lab.exec_for(CLIENT, &argv, Duration::from_secs(300))?.success()?;
    let lines = output.stdout.lines().skip(warm as usize);
    let (ns, lost): (Vec<&str>, Vec<&str>) = lines.partition(|line| *line != "lost");
    Ok((ns.iter().filter_map(|line| line.parse().ok()).collect(), lost.len() as u64))
}
