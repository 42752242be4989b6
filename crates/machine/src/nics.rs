//! Network cards on the PCI bus.
use serde::Serialize;

use crate::Tree;

const DEVICES: &str = "sys/bus/pci/devices";
/// The class of Ethernet controllers (PCI code and ID assignment specification).
const ETHERNET: &str = "0x0200";

/// A network card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Nic {
    /// Its PCI address, as a port's `device` names it.
    pub address: String,
    /// Vendor and device in hexadecimal, as `8086:1563`.
    pub id: String,
    /// The card that HNLB knows by that, if it does.
    pub card: Option<&'static str>,
    /// The driver that has it; `None`: none.
    pub driver: Option<String>,
    /// The kernel's interfaces on it.
    pub interfaces: Vec<String>,
    /// Its NUMA node; `None` on machines with one.
    pub numa_node: Option<u16>,
    /// Whether an IOMMU is in front of it.
    pub iommu: bool,
}

impl Nic {
    /// Whether DPDK can have it now.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        // The mlx5 driver shares the card with the kernel.
        matches!(
            self.driver.as_deref(),
            Some("vfio-pci" | "uio_pci_generic" | "igb_uio" | "mlx5_core")
        )
    }
}

/// The cards of the machine, by address.
#[must_use]
pub fn nics(tree: &Tree) -> Vec<Nic> {
    let addresses = tree.names(DEVICES);
    addresses.into_iter().filter_map(|address| nic(tree, address)).collect()
}

fn nic(tree: &Tree, address: String) -> Option<Nic> {
    let at = |file: &str| format!("{DEVICES}/{address}/{file}");
    tree.text(&at("class"))?.starts_with(ETHERNET).then_some(())?;
    let word = |file: &str| Some(tree.text(&at(file))?.trim_start_matches("0x").to_owned());
    let id = format!("{}:{}", word("vendor")?, word("device")?);
    Some(Nic {
        card: card(&id),
        driver: tree.leads_to(&at("driver")),
        interfaces: tree.names(&at("net")),
        numa_node: tree.value::<i32>(&at("numa_node")).and_then(|node| u16::try_from(node).ok()),
        iommu: tree.has(&at("iommu_group")),
        id,
        address,
    })
}

/// Cards whose limits HNLB knows (the PCI ID database).
fn card(id: &str) -> Option<&'static str> {
    Some(match id {
        "8086:1563" | "8086:15d1" => "Intel X550",
        "8086:1572" | "8086:1581" => "Intel X710",
        "8086:1583" | "8086:1584" => "Intel XL710",
        "8086:1592" | "8086:1593" | "8086:159b" => "Intel E810",
        "15b3:101d" => "NVIDIA ConnectX-6 Dx",
        "15b3:101f" => "NVIDIA ConnectX-6 Lx",
        "15b3:1021" => "NVIDIA ConnectX-7",
        "15b3:a2dc" => "NVIDIA BlueField-3",
        _ => return None,
    })
}
