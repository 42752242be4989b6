//! The configuration that HNLB gets in the lab.

use std::path::Path;

use flow::{CardProfile, Encoding, EncodingChoice, Mode, OnRemove, Scheduler};

use crate::service_text::ServiceText;
use crate::topology::{
    BACKENDS, BALANCER_ADDRESSES, DNS_BACKEND_PORT, DNS_PORT, Family, PORT, WEB_BACKEND_PORT,
    WEB_PORT, WIDE_MTU, WIDE_PORT, vip,
};

/// The name of the pool in mode `fullnat`.
pub(crate) const POOL: &str = "lab";

/// Its addresses, in the backends' networks.
pub(crate) const POOL_ADDRESSES: [&str; 2] = ["10.72.0.200", "fd72::200"];

/// The kernel's interface in the place of HNLB's.
pub(crate) const KERNEL: &str = "gw0";

/// The PCI address of the card that the virtual machine has for HNLB.
pub(crate) const VIRTIO: &str = "0000:00:10.0";

/// The DPDK device that HNLB drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    /// The veth of HNLB's namespace through an AF_PACKET socket.
    AfPacket,
    /// The veth of HNLB's namespace through AF_XDP sockets, with the kernel as the card.
    Xdp,
    /// A tap device that HNLB makes itself; its rte_flow is tc flower's.
    Tap,
    /// A virtio-net card of the virtual machine, with receive side scaling.
    Virtio,
}

/// One way of running HNLB in the lab.
#[derive(Debug, Clone)]
pub struct LabRun {
    /// How packets reach the backends.
    pub mode: Mode,
    /// How matches are told.
    pub encoding: EncodingChoice,
    /// The emulated NIC's profile; `None` for a device that has rte_flow.
    pub profile: Option<CardProfile>,
    /// Queues of the NIC, the default queue included.
    pub queues: u16,
    /// Worker cores.
    pub workers: u16,
    /// The device.
    pub device: Device,
    /// Whether the kernel has an interface behind the port.
    pub kernel: bool,
}

impl LabRun {
    /// The emulated X550, for `rewrite` the ConnectX, with 16 queues and one
    /// worker on the lab's veth.
    #[must_use]
    pub fn emulated(encoding: impl Into<EncodingChoice>) -> Self {
        let encoding = encoding.into();
        let profile = match encoding {
            EncodingChoice::Fixed(Encoding::Rewrite) => CardProfile::ConnectX,
            _ => CardProfile::X550,
        };
        Self {
            mode: Mode::Nat,
            encoding,
            profile: Some(profile),
            queues: 16,
            workers: 1,
            device: Device::AfPacket,
            kernel: false,
        }
    }

    /// The `queue` encoding on net_tap, whose rules the kernel's tc flower
    /// carries out.
    #[must_use]
    pub const fn tap(queues: u16) -> Self {
        Self {
            mode: Mode::Nat,
            encoding: EncodingChoice::Fixed(Encoding::Queue),
            profile: None,
            queues,
            workers: 1,
            device: Device::Tap,
            kernel: false,
        }
    }

    /// Two workers on a virtio-net card, which spreads packets over them and takes no
    /// rules.
    #[must_use]
    pub const fn virtio() -> Self {
        Self {
            mode: Mode::Nat,
            encoding: EncodingChoice::Fixed(Encoding::Off),
            profile: None,
            queues: 2,
            workers: 2,
            device: Device::Virtio,
            kernel: false,
        }
    }

    /// How many of the lab's backends each service has.
    #[must_use]
    pub const fn backends(&self) -> usize {
        match self.device {
            Device::Tap => 2,
            Device::AfPacket | Device::Xdp | Device::Virtio => BACKENDS.len(),
        }
    }

    /// The family of a service's backends. Tunnels may cross families, and those
    /// of the DNS services do.
    pub(crate) fn outside(&self, protocol: &str, family: Family) -> Family {
        if self.mode.is_tunnel() && protocol == "udp" { family.other() } else { family }
    }

    /// Whether HNLB has a link of its own to the backends, which takes longer
    /// packets.
    fn is_wide(&self) -> bool {
        self.mode.is_tunnel() && !matches!(self.device, Device::Tap | Device::Virtio)
    }

    /// TOML of a port and the interface on it.
    fn port(&self, name: &str, device: &str, mtu: u16, addresses: &[&str]) -> String {
        let mut text =
            format!("\n[[port]]\nname = \"{name}\"\ndevice = \"{device}\"\nmtu = {mtu}\n");
        if let Some(profile) = self.profile {
            let (profile, queues) = (profile.name(), self.queues);
            text += &format!("[port.nic]\nprofile = \"{profile}\"\nqueues = {queues}\n");
        }
        text += &format!("\n[[interface]]\nport = \"{name}\"\naddresses = {addresses:?}\n");
        if self.kernel {
            text += &format!("kernel = \"{KERNEL}\"\n");
        }
        text
    }

    /// The TOML text, with the status socket at `socket`.
    #[must_use]
    pub fn toml(&self, socket: &Path) -> String {
        let mut text = self.base(socket);
        if self.mode == Mode::FullNat {
            text += &pool(POOL, &POOL_ADDRESSES);
        }
        for service in self.services() {
            text += &service.toml();
        }
        text
    }

    /// Everything but pools and services.
    pub(crate) fn base(&self, socket: &Path) -> String {
        let device = match self.device {
            Device::AfPacket => format!("net_af_packet0,iface={PORT}"),
            Device::Xdp => format!("xdp:{PORT}"),
            Device::Tap => format!("net_tap0,iface={PORT}"),
            Device::Virtio => VIRTIO.to_owned(),
        };
        let memory = if self.device == Device::Virtio { 256 } else { 512 };
        let mut text = format!("[eal]\nmemory_mb = {memory}\nhuge_pages = \"auto\"\n");
        if self.is_wide() {
            let (clients, backends) = BALANCER_ADDRESSES.split_at(2);
            text += &self.port("lab0", &device, 1500, clients);
            let wide = match self.device {
                Device::Xdp => format!("xdp:{WIDE_PORT}"),
                _ => format!("net_af_packet1,iface={WIDE_PORT}"),
            };
            text += &self.port("lab1", &wide, WIDE_MTU, backends);
        } else {
            text += &self.port("lab0", &device, 1500, &BALANCER_ADDRESSES);
        }
        let (mut workers, encoding) = (format!("count = {}", self.workers), self.encoding.name());
        if self.profile.is_none() {
            workers += &format!("\nqueues = {}", self.queues);
        }
        text += &format!(
            "\n[workers]\n{workers}\n\n[offload]\nencoding = \"{encoding}\"\nadmission = \"all\"\n\n\
             [status]\nsocket = \"{}\"\n",
            socket.display()
        );
        text
    }

    /// The services: web and DNS at the VIP of each family. A tap has 4 queues:
    /// with the queue encoding that is one for misses, two for backends and one
    /// for their answers, so it gets the IPv4 web service only.
    pub(crate) fn services(&self) -> Vec<ServiceText> {
        let services = [
            ("web", "tcp", WEB_PORT, WEB_BACKEND_PORT),
            ("dns", "udp", DNS_PORT, DNS_BACKEND_PORT),
        ];
        let hosts = BACKENDS.get(..self.backends()).unwrap_or(&BACKENDS);
        let both = services.into_iter().flat_map(|own| [(own, Family::V4), (own, Family::V6)]);
        let all = both.map(|((name, protocol, port, backend_port), family)| {
            let digit = if family == Family::V4 { 4 } else { 6 };
            let outside = self.outside(protocol, family);
            ServiceText {
                name: format!("{name}{digit}"),
                vip: vip(family),
                port,
                protocol,
                mode: self.mode,
                scheduler: Scheduler::RoundRobin,
                on_remove: OnRemove::Keep,
                pool: (self.mode == Mode::FullNat).then_some(POOL),
                backend_port: (!self.mode.is_one_way()).then_some(backend_port),
                backends: hosts.iter().map(|host| (host.address(outside), 1)).collect(),
            }
        });
        all.take(if self.device == Device::Tap { 1 } else { 4 }).collect()
    }
}

/// TOML of a pool.
pub(crate) fn pool(name: &str, addresses: &[&str]) -> String {
    format!("\n[[pool]]\nname = \"{name}\"\naddresses = {addresses:?}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_toml_with_everything_in_it() {
        let text = LabRun::emulated(Encoding::Mark).toml(Path::new("/run/x.sock"));
        let root: toml::Value = toml::from_str(&text).unwrap();
        let port = &root["port"][0];
        assert_eq!(port["device"].as_str(), Some("net_af_packet0,iface=hnlb0"));
        assert_eq!(port["nic"]["profile"].as_str(), Some("x550"));
        assert_eq!(port["nic"]["queues"].as_integer(), Some(16));
        assert_eq!(root["offload"]["encoding"].as_str(), Some("mark"));
        assert_eq!(root["status"]["socket"].as_str(), Some("/run/x.sock"));
        let services = root["service"].as_array().unwrap();
        let names: Vec<&str> = services.iter().map(|s| s["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["web4", "web6", "dns4", "dns6"]);
        for service in services {
            assert_eq!(service["backend"].as_array().unwrap().len(), 4);
        }
        assert_eq!(services[3]["vip"].as_str(), Some("fd71::100"));
        assert_eq!(services[3]["backend"][3]["address"].as_str(), Some("fd72::14"));
    }

    #[test]
    fn tunnels_have_a_link_that_their_packets_fit() {
        let run = LabRun { mode: Mode::Gue, ..LabRun::emulated(Encoding::Rewrite) };
        let root: toml::Value = toml::from_str(&run.toml(Path::new("/s"))).unwrap();
        let [clients, backends] = &root["port"].as_array().unwrap()[..] else { panic!("ports") };
        assert_eq!(
            (clients["mtu"].as_integer(), backends["mtu"].as_integer()),
            (Some(1500), Some(1600))
        );
        assert_eq!(backends["nic"]["profile"].as_str(), Some("connectx"));
        let addresses = root["interface"][1]["addresses"].as_array().unwrap();
        assert_eq!(addresses[0].as_str(), Some("10.72.0.1/24"));
    }

    #[test]
    fn a_real_driver_has_no_emulated_nic() {
        let text = LabRun::tap(4).toml(Path::new("/s"));
        let root: toml::Value = toml::from_str(&text).unwrap();
        assert_eq!(root["port"][0]["device"].as_str(), Some("net_tap0,iface=hnlb0"));
        assert!(root["port"][0].get("nic").is_none());
        assert_eq!(root["workers"]["queues"].as_integer(), Some(4));
        assert_eq!(root["service"].as_array().unwrap().len(), 1);
        assert_eq!(root["service"][0]["backend"].as_array().unwrap().len(), 2);
    }
}
