//! One port as the status shows it: its link, its MTU, its counters.
use std::sync::Arc;

use dpdk::{Port, PortStats};
use nic::Nic;
use state::CounterSet;

use crate::device::Device;
use crate::encoding::Chosen;
use crate::kernel_interface;
use crate::nic_thread::NicCounter;
use status::PortStatus;

/// A port that is reported on.
pub(crate) struct PortView {
    name: String,
    device: String,
    /// The kernel's interface beneath it.
    interface: Option<String>,
    driver: String,
    encoding: String,
    reasons: Vec<String>,
    mac: String,
    /// What the workers poll.
    port: Port,
    /// Further devices of the same interface.
    more: Vec<Port>,
    /// The emulated NIC and the wire behind it.
    emulated: Option<(Nic, Port, Arc<CounterSet<NicCounter>>)>,
    /// Entries that the match table in the kernel takes.
    kernel_capacity: u32,
    /// What the last look at the link showed.
    link: Option<LinkState>,
    /// As configured.
    mtu: u16,
    /// What the last look at the kernel's interface showed, if there is one.
    link_mtu: Option<u32>,
}

/// A port's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkState {
    Up,
    Down,
    /// The device has gone away. It doesn't come back: a driver holds on to
    /// the one that went.
    Gone,
}

impl PortView {
    /// The port of `device`, as the configuration and the probe of the card say.
    pub(crate) fn new(device: Device, config: &config::Port, chosen: &Chosen) -> Self {
        let driver = match &device.emulated {
            Some(emulated) => format!("emulated {}", emulated.nic.profile()),
            None => device.port.capabilities().map_or_else(|_| "?".to_owned(), |can| can.driver),
        };
        Self {
            name: device.name,
            device: config.device.clone(),
            interface: config.kernel_interface().map(str::to_owned),
            driver,
            encoding: chosen.config.encoding.to_string(),
            reasons: chosen.reasons.clone(),
            mac: device.mac.to_string(),
            port: device.port,
            more: device.more,
            emulated: device.emulated.map(|own| (own.nic, own.wire, own.counters)),
            kernel_capacity: device.xdp.map_or(0, |xdp| xdp.capacity()),
            link: None,
            mtu: config.mtu,
            link_mtu: None,
        }
    }

    /// Its name in the configuration.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Entries that its match table takes, if that is the kernel's.
    pub(crate) const fn kernel_capacity(&self) -> u32 {
        self.kernel_capacity
    }

    /// Whether the last look found its link up.
    pub(crate) fn is_up(&self) -> bool {
        self.link == Some(LinkState::Up)
    }

    /// The emulated NIC in front of the wire, and what it has lost.
    pub(crate) fn emulated(&self) -> Option<(&Nic, &CounterSet<NicCounter>)> {
        self.emulated.as_ref().map(|(nic, _, counters)| (nic, &**counters))
    }

    /// The port whose link is the wire's.
    fn wire(&self) -> &Port {
        self.emulated.as_ref().map_or(&self.port, |(_, wire, _)| wire)
    }

    /// Logs a change of the interface's MTU to less than the port's, and back.
    fn look_at_mtu(&mut self) {
        let Some(interface) = self.interface.clone() else { return };
        let (port, mtu) = (&self.name, self.mtu);
        let link = kernel_interface::mtu(&interface);
        let before = std::mem::replace(&mut self.link_mtu, link);
        let short = |link| kernel_interface::is_short(link, mtu);
        match (link, short(before), short(link)) {
            (Some(link), false, true) => tracing::error!(
                port,
                "the mtu of {interface} is {link}, and [[port]] mtu is {mtu}: longer packets are lost"
            ),
            (Some(link), true, false) => {
                tracing::info!(
                    port,
                    "the mtu of {interface} is {link}, as [[port]] mtu = {mtu} needs"
                );
            }
            _ => {}
        }
    }

    /// Whether the link has come up since the last look.
    pub(crate) fn look_at_link(&mut self) -> bool {
        self.look_at_mtu();
        let wire = self.wire();
        let state = match (wire.is_alive(), wire.link_up()) {
            (false, _) => LinkState::Gone,
            (true, false) => LinkState::Down,
            (true, true) => LinkState::Up,
        };
        if self.link.replace(state) == Some(state) {
            return false;
        }
        let (port, device) = (&self.name, &self.device);
        match state {
            LinkState::Up => tracing::info!(port, device, "the link is up"),
            LinkState::Down => tracing::error!(
                port,
                device,
                "the link is down: traffic on it stops until it is up again; other ports go on"
            ),
            LinkState::Gone => tracing::error!(
                port,
                device,
                "the device is gone: traffic on it stops, other ports go on; to use it again, restart hnlb once it is back"
            ),
        }
        state == LinkState::Up
    }

    pub(crate) fn status(&self, rules: Option<&offload::PortStats>) -> PortStatus {
        let past_workers = rules.map_or(0, |rules| rules.done.forwarded_packets);
        let stats = self.more.iter().map(Port::stats).fold(self.wire().stats(), PortStats::plus);
        let counters = [
            ("rx_packets", stats.rx_packets),
            ("rx_bytes", stats.rx_bytes),
            ("rx_missed", stats.rx_missed),
            ("rx_errors", stats.rx_errors),
            ("rx_no_mbuf", stats.rx_no_mbuf),
            ("tx_packets", stats.tx_packets),
            ("tx_bytes", stats.tx_bytes),
            ("tx_errors", stats.tx_errors),
            ("past_workers", past_workers),
        ];
        PortStatus {
            name: self.name.clone(),
            device: self.device.clone(),
            driver: self.driver.clone(),
            link_up: self.is_up(),
            mac: self.mac.clone(),
            mtu: self.mtu,
            link_mtu: self.link_mtu,
            encoding: self.encoding.clone(),
            reasons: self.reasons.clone(),
            counters: counters.into_iter().map(|(name, n)| (name.to_owned(), n)).collect(),
        }
    }
}
