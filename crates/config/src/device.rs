//! `[eal]`, `[[port]]` and `[port.nic]`: DPDK and its devices.
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
    /// More EAL arguments, one a string, as `["--file-prefix=lb1"]`.
    pub args: Vec<String>,
}

impl Default for Eal {
    fn default() -> Self {
        Self { memory_mb: 512, huge_pages: HugePages::default(), args: Vec::new() }
    }
}

/// Whether memory is taken from huge pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HugePages {
    /// When there are enough of them, else ordinary pages.
    #[default]
    Auto,
    /// Only from huge pages: without them nothing starts.
    Require,
    /// Never.
    Never,
}

/// A device that packets come from and go to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// Its name, by which interfaces refer to it; at most 32 letters, digits, `_`, `-` and `.`.
    #[schemars(extend("format" = "name"))]
    pub name: String,
    /// The DPDK device: a PCI address, as `0000:3b:00.0`, or a virtual device with its arguments, as `net_af_packet0,iface=eth1`.
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
    /// The card whose limits and manners are played.
    pub profile: Profile,
    /// Entries of the match table; a NAT connection takes two. `x550`: 2048, 4096 or 8192, by default 2048. `e810`: 1 to 16384, by default 16384. `connectx`: 1 to 4194304, by default 262144. `bluefield3`: 1 to 262144, by default 262144.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4_194_304))]
    pub capacity: Option<u32>,
    /// Receive queues towards the workers. `x550`: at most 64. The others: at most 256.
    #[serde(default = "queues")]
    #[schemars(range(min = 1, max = 256))]
    pub queues: u16,
    /// The processor core of the emulated NIC's thread; by default one that is free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1023))]
    pub core: Option<u16>,
}

impl Nic {
    /// Entries of the match table: those asked for or the profile's default.
    #[must_use]
    pub fn entries(&self) -> u32 {
        self.capacity.unwrap_or(match self.profile {
            Profile::X550 => 2048,
            Profile::E810 => 16384,
            Profile::ConnectX | Profile::BlueField3 => 262_144,
        })
    }
}

const fn queues() -> u16 {
    16
}

/// A card with a match table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Intel X550: Flow Director, perfect filters for IPv4 only, one input mask for the port.
    X550,
    /// Intel E810: Flow Director, IPv4 and IPv6, one input set for each flow type, counters.
    E810,
    /// NVIDIA ConnectX: groups of rules with any masks that rewrite packets and send them out of a port.
    ConnectX,
    /// NVIDIA BlueField-3: as connectx, with at most 262144 entries.
    BlueField3,
}

impl Profile {
    /// The most receive queues that the card can direct packets to.
    #[must_use]
    pub const fn most_queues(self) -> u16 {
        match self {
            Self::X550 => 64,
            Self::E810 | Self::ConnectX | Self::BlueField3 => 256,
        }
    }

    /// Whether its rules can rewrite packets and send them out of a port.
    #[must_use]
    pub const fn rewrites(self) -> bool {
        matches!(self, Self::ConnectX | Self::BlueField3)
    }

    /// The most entries that its match table can have.
    #[must_use]
    pub const fn most_entries(self) -> u32 {
        match self {
            Self::X550 => 8192,
            Self::E810 => 16384,
            Self::ConnectX => 4_194_304,
            Self::BlueField3 => 262_144,
        }
    }

    /// Its name in the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::X550 => "x550",
            Self::E810 => "e810",
            Self::ConnectX => "connectx",
            Self::BlueField3 => "bluefield3",
        }
    }
}

impl Port {
    /// Receive queues of the emulated NIC, else `otherwise`.
    #[must_use]
    pub fn receive_queues(&self, otherwise: u16) -> u16 {
        self.nic.as_ref().map_or(otherwise, |nic| nic.queues)
    }
}

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
pub(crate) fn check_device(text: &str) -> Result<(), text::BadText> {
    if !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic()) {
        return Ok(());
    }
    Err(text::BadText(format!(
        "'{text}' is not a device; write a PCI address, as 0000:3b:00.0, or a virtual device, as net_af_packet0,iface=eth1"
    )))
}
