//! `[eal]`, `[[port]]` and `[port.nic]`: DPDK and its devices.
use flow::CardProfile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text;

/// DPDK's environment abstraction layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Eal {
    /// Memory for packet buffers and rings, in MiB.
    #[schemars(range(min = 64, max = 1_048_576))]
    pub memory_mb: u32,
    /// Whether that memory is taken from huge pages.
    pub huge_pages: HugePages,
    /// Whether DPDK's telemetry socket, which only root may use, serves the status as well.
    pub telemetry: bool,
    /// Further EAL arguments, one per string, such as `["--file-prefix=lb1"]`.
    pub args: Vec<String>,
}

impl Default for Eal {
    fn default() -> Self {
        Self {
            memory_mb: 512,
            huge_pages: HugePages::default(),
            telemetry: false,
            args: Vec::new(),
        }
    }
}

/// Whether memory is taken from huge pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HugePages {
    /// Huge pages if enough are free, else ordinary pages.
    #[default]
    Auto,
    /// Huge pages only: without them HNLB does not start.
    Require,
    /// Ordinary pages only.
    Never,
}

/// A device that packets come from and go to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// Its name, by which interfaces refer to it; at most 32 letters, digits, `_`, `-` and `.`.
    #[schemars(extend("format" = "name"))]
    pub name: String,
    /// The DPDK device: a PCI address, such as `0000:3b:00.0`, or a virtual device with its arguments, such as `net_af_packet0,iface=eth1`; or `xdp:eth1`, a kernel interface whose XDP program is the match table.
    #[schemars(extend("format" = "device"))]
    pub device: String,
    /// The largest IP packet, in bytes; at least 1280 if an interface of the port has an IPv6 address.
    #[serde(default = "mtu")]
    #[schemars(range(min = 576, max = 9600))]
    pub mtu: u16,
    /// Receive descriptors of each queue, a multiple of 32.
    #[serde(default = "descriptors")]
    #[schemars(range(min = 64, max = 4096))]
    pub rx_descriptors: u16,
    /// Transmit descriptors of each queue, a multiple of 32.
    #[serde(default = "descriptors")]
    #[schemars(range(min = 64, max = 4096))]
    pub tx_descriptors: u16,
    /// The emulated NIC in front of this port. Without it the device's own match table (rte_flow) is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic: Option<Nic>,
}

const fn mtu() -> u16 {
    1500
}

const fn descriptors() -> u16 {
    1024
}

/// An emulated NIC in front of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nic {
    /// The card whose limits and quirks the emulated NIC has.
    pub profile: CardProfile,
    /// Entries of the match table, at most as many as the card of the profile can have; by default as the profile says. A NAT connection takes two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4_194_304))]
    pub capacity: Option<u32>,
    /// Receive queues towards the workers, at most as many as the card of the profile can have.
    #[serde(default = "queues")]
    #[schemars(range(min = 1, max = 256))]
    pub queues: u16,
    /// The core of the emulated NIC's thread; by default a free one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1023))]
    pub core: Option<u16>,
}

impl Nic {
    /// Entries of the match table: the configured number or the profile's default.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.capacity.map_or(self.profile.default_entries(), |entries| entries as usize)
    }
}

const fn queues() -> u16 {
    16
}

impl Port {
    /// The kernel's network interface beneath the device, if there is one.
    #[must_use]
    pub fn kernel_interface(&self) -> Option<&str> {
        if let Some(interface) = self.xdp_interface() {
            return Some(interface);
        }
        let mut parts = self.device.split(',');
        let driver = parts.next()?;
        let wraps = ["net_af_packet", "net_af_xdp", "net_pcap"];
        wraps.iter().any(|name| driver.starts_with(name)).then_some(())?;
        parts.find_map(|part| part.strip_prefix("iface="))
    }

    /// The kernel's network interface whose XDP program is the match table: that of the
    /// device `xdp:NAME`.
    #[must_use]
    pub fn xdp_interface(&self) -> Option<&str> {
        self.device.strip_prefix(XDP)
    }

    /// Receive queues of the emulated NIC, else `otherwise`.
    #[must_use]
    pub fn receive_queues(&self, otherwise: u16) -> u16 {
        self.nic.as_ref().map_or(otherwise, |nic| nic.queues)
    }
}

/// How the devices begin whose match table is in the kernel.
const XDP: &str = "xdp:";

/// The longest name of an interface, in bytes (`IFNAMSIZ` with its zero).
const INTERFACE_NAME: usize = 15;

/// Whether `text` may be the name of something.
pub(crate) fn check_name(text: &str) -> Result<(), text::BadText> {
    let fine = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if (1..=32).contains(&text.len()) && text.chars().all(fine) {
        return Ok(());
    }
    Err(text::BadText(format!(
        "'{text}' is not a name; write 1 to 32 letters, digits, '_', '-' and '.'"
    )))
}

/// Whether `text` may be a DPDK device.
///
/// # Errors
/// Says what a device is called.
pub fn check_device(text: &str) -> Result<(), text::BadText> {
    if let Some(interface) = text.strip_prefix(XDP) {
        return check_interface(text, interface);
    }
    if !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic()) {
        return Ok(());
    }
    Err(text::BadText(format!(
        "'{text}' is not a device; write a PCI address, as 0000:3b:00.0, a virtual device, as net_af_packet0,iface=eth1, or an interface, as xdp:eth1"
    )))
}

/// Whether the kernel would have an interface of this name, of `device`.
fn check_interface(device: &str, name: &str) -> Result<(), text::BadText> {
    let fine = |c: char| c.is_ascii_graphic() && !"/:,".contains(c);
    if (1..=INTERFACE_NAME).contains(&name.len()) && name.chars().all(fine) {
        return Ok(());
    }
    Err(text::BadText(format!(
        "'{device}' names no interface; write xdp: and the interface's name, as xdp:eth1"
    )))
}

/// Whether a device, perhaps with arguments, is a PCI address, which has a domain or bus
/// before its first colon: `0000:3b:00.0`.
#[must_use]
pub fn is_pci(device: &str) -> bool {
    let address = device.split(',').next().unwrap_or_default();
    address.contains(':')
        && address.split([':', '.']).all(|part| u32::from_str_radix(part, 16).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(device: &str) -> Port {
        let device = device.to_owned();
        let (name, mtu) = ("a".to_owned(), mtu());
        let (rx_descriptors, tx_descriptors) = (descriptors(), descriptors());
        Port { name, device, mtu, rx_descriptors, tx_descriptors, nic: None }
    }

    #[test]
    fn devices_name_the_interface_beneath_them() {
        for (device, interface) in [
            ("xdp:eth1", Some("eth1")),
            ("net_af_packet0,iface=eth1", Some("eth1")),
            ("net_af_xdp1,start_queue=0,iface=eth2", Some("eth2")),
            ("net_pcap0,iface=lo", Some("lo")),
            ("net_pcap0,rx_pcap=in.pcap", None),
            // It makes the interface that it names.
            ("net_tap0,iface=tap0", None),
            ("0000:3b:00.0", None),
        ] {
            assert_eq!(port(device).kernel_interface(), interface, "{device}");
        }
        assert_eq!(port("net_af_xdp1,iface=eth2").xdp_interface(), None);
    }

    #[test]
    fn an_xdp_device_is_an_interface_and_nothing_else() {
        check_device("xdp:enp3s0f0np0.10").unwrap();
        for wrong in ["xdp:", "xdp:eth1,queues=2", "xdp:a/b", "xdp:0123456789abcdef"] {
            assert!(check_device(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn pci_addresses_are_told_from_virtual_devices() {
        for pci in ["0000:3b:00.0", "3b:00.1", "0000:AF:00.1,fdir_conf=1"] {
            assert!(is_pci(pci), "{pci}");
        }
        for other in ["net_null0", "net_af_packet0,iface=a:b", "net_tap0,mac=02:00:00:00:00:01"] {
            assert!(!is_pci(other), "{other}");
        }
    }
}
