//! Interfaces: a port, or one VLAN of a port, with addresses.
use std::net::{IpAddr, Ipv4Addr};

use flow::{InterfaceId, PortId};
use ipnet::{IpNet, Ipv4Net};
use wire::Mac;

/// One network that the load balancer is attached to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The name in the configuration.
    pub name: String,
    /// The port it is on.
    pub port: PortId,
    /// The 802.1Q VLAN; `None`: untagged.
    pub vlan: Option<u16>,
    /// Its own Ethernet address.
    pub mac: Mac,
    /// The longest IP packet that may be sent, in bytes.
    pub mtu: u16,
    /// Its own addresses with their networks.
    pub addresses: Vec<IpNet>,
    /// The name of the kernel's interface in its place, which gets what nothing here
    /// takes; `None`: there is none.
    pub kernel: Option<String>,
}

impl Interface {
    /// Whether `addr` is in one of its networks.
    #[must_use]
    pub fn is_on_link(&self, addr: IpAddr) -> bool {
        self.addresses.iter().any(|net| net.contains(&addr))
    }

    /// Its own address from which it speaks to `peer`: in the same network if
    /// there is one, else any of the family.
    #[must_use]
    pub fn source_for(&self, peer: IpAddr) -> Option<IpAddr> {
        let family = |net: &&IpNet| net.addr().is_ipv4() == peer.is_ipv4();
        let near = self.addresses.iter().filter(family).find(|net| net.contains(&peer));
        near.or_else(|| self.addresses.iter().find(family)).map(IpNet::addr)
    }
}

/// An interface's IPv4 address and its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OwnV4 {
    address: u32,
    network: u32,
    /// The bits that tell the network's hosts apart: none in a network of two
    /// addresses, which has no broadcast address (RFC 3021).
    hosts: u32,
}

impl OwnV4 {
    fn new(net: Ipv4Net) -> Self {
        let address = net.addr().to_bits();
        let hosts = match net.hostmask().to_bits() {
            0 | 1 => 0,
            hosts => hosts,
        };
        Self { address, network: address & !hosts, hosts }
    }
}

/// VLAN ids (12 bits, IEEE 802.1Q).
const VLANS: usize = 1 << 12;

/// The interfaces of one port: found in one step, however many VLANs it has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Places {
    untagged: Option<InterfaceId>,
    /// By VLAN id; empty for a port without VLANs.
    tagged: Vec<Option<InterfaceId>>,
}

impl Places {
    /// The place of the interface of `vlan`, which must be below [`VLANS`].
    fn place(&mut self, vlan: Option<u16>) -> Option<&mut Option<InterfaceId>> {
        let Some(vlan) = vlan else { return Some(&mut self.untagged) };
        self.tagged.resize(VLANS, None);
        self.tagged.get_mut(usize::from(vlan))
    }

    #[inline]
    fn at(&self, vlan: Option<u16>) -> Option<InterfaceId> {
        match vlan {
            None | Some(0) => self.untagged,
            Some(vlan) => *self.tagged.get(usize::from(vlan))?,
        }
    }
}

/// All interfaces, found by port and VLAN.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interfaces {
    /// By id; ids that no interface has are left out.
    all: Vec<Option<Interface>>,
    /// By port.
    places: Vec<Places>,
    /// The IPv4 addresses of all interfaces, close together in memory: they are
    /// searched for every client.
    own: Vec<OwnV4>,
    /// Whether any interface is tagged.
    tagged: bool,
}

impl Interfaces {
    /// The table of `all`; an interface's id is its place.
    #[must_use]
    pub fn new(all: Vec<Interface>) -> Self {
        Self::with_ids((0..).map(InterfaceId).zip(all).collect())
    }

    /// The table of `given`, each under its own id. No two may have one id.
    #[must_use]
    pub fn with_ids(given: Vec<(InterfaceId, Interface)>) -> Self {
        let mut places = Vec::new();
        for (id, interface) in &given {
            let port = usize::from(interface.port.0);
            if places.len() <= port {
                places.resize(port + 1, Places::default());
            }
            if let Some(own) = places.get_mut(port).and_then(|own| own.place(interface.vlan)) {
                own.get_or_insert(*id);
            }
        }
        let mut all = Vec::new();
        for (InterfaceId(id), interface) in given {
            let place = usize::from(id);
            if all.len() <= place {
                all.resize(place + 1, None);
            }
            if let Some(slot) = all.get_mut(place) {
                *slot = Some(interface);
            }
        }
        let nets = all.iter().flatten().flat_map(|interface| &interface.addresses);
        let own = nets.filter_map(|net| match net {
            IpNet::V4(net) => Some(OwnV4::new(*net)),
            IpNet::V6(_) => None,
        });
        let tagged = all.iter().flatten().any(|interface| interface.vlan.is_some());
        Self { places, own: own.collect(), tagged, all }
    }

    /// Whether any interface is one VLAN of a port.
    #[inline]
    #[must_use]
    pub const fn are_tagged(&self) -> bool {
        self.tagged
    }

    /// The interface `id`.
    #[inline]
    #[must_use]
    pub fn get(&self, id: InterfaceId) -> Option<&Interface> {
        self.all.get(usize::from(id.0))?.as_ref()
    }

    /// The interface that a frame with tag `vlan` received on `port` belongs
    /// to. A priority tag (VLAN 0) counts as untagged (IEEE 802.1Q).
    #[inline]
    #[must_use]
    pub fn at(&self, port: PortId, vlan: Option<u16>) -> Option<(InterfaceId, &Interface)> {
        let id = self.places.get(usize::from(port.0))?.at(vlan)?;
        Some((id, self.get(id)?))
    }

    /// The interface that has `addr` as its own.
    #[must_use]
    pub fn owner(&self, addr: IpAddr) -> Option<InterfaceId> {
        let owns = |i: &Interface| i.addresses.iter().any(|net| net.addr() == addr);
        self.iter().find(|(_, interface)| owns(interface)).map(|(id, _)| id)
    }

    /// Whether an interface has `addr` as its own.
    #[inline]
    #[must_use]
    pub fn has_v4(&self, addr: Ipv4Addr) -> bool {
        self.own.iter().any(|own| own.address == addr.to_bits())
    }

    /// Whether no other host can have `addr`: an interface has it, or it is the
    /// network or broadcast address of an interface's network (RFC 1122 section
    /// 3.2.1.3).
    #[inline]
    #[must_use]
    pub fn reserve_v4(&self, addr: Ipv4Addr) -> bool {
        let addr = addr.to_bits();
        self.own.iter().any(|own| {
            let host = (addr ^ own.network) & own.hosts;
            (addr ^ own.network) == host && (host == 0 || host == own.hosts || addr == own.address)
        })
    }

    /// All interfaces with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (InterfaceId, &Interface)> {
        (0..).map(InterfaceId).zip(&self.all).filter_map(|(id, own)| Some((id, own.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_a_port_and_a_vlan() {
        let interface = |port, vlan, net: &str| Interface {
            name: String::new(),
            port: PortId(port),
            vlan,
            mac: Mac([2, 0, 0, 0, 0, 1]),
            mtu: 1500,
            addresses: vec![net.parse().unwrap()],
            kernel: None,
        };
        let all = Interfaces::new(vec![
            interface(0, None, "10.0.0.1/24"),
            interface(0, Some(7), "10.7.0.1/24"),
            interface(1, None, "fd00::1/64"),
        ]);
        assert_eq!(all.at(PortId(0), None).unwrap().0, InterfaceId(0));
        assert_eq!(all.at(PortId(0), Some(0)).unwrap().0, InterfaceId(0));
        assert_eq!(all.at(PortId(0), Some(7)).unwrap().0, InterfaceId(1));
        assert!(all.at(PortId(1), Some(7)).is_none());
        assert_eq!(all.owner("fd00::1".parse().unwrap()), Some(InterfaceId(2)));
        let first = all.get(InterfaceId(0)).unwrap();
        assert!(first.is_on_link("10.0.0.200".parse().unwrap()));
        assert_eq!(first.source_for("9.9.9.9".parse().unwrap()), "10.0.0.1".parse().ok());
        assert_eq!(first.source_for("fd00::9".parse().unwrap()), None);
        let more = ["10.0.0.1/24", "10.9.0.1/24"].map(|net| net.parse().unwrap()).to_vec();
        let first = Interface { addresses: more, ..first.clone() };
        assert_eq!(first.source_for("10.9.0.7".parse().unwrap()), "10.9.0.1".parse().ok());
    }

    /// Against a search through the list.
    #[test]
    fn each_of_all_vlans_of_two_ports_is_its_own_interface() {
        let places = (0..2).flat_map(|port| (1..4095).step_by(port + 1).map(move |id| (port, id)));
        let given: Vec<(InterfaceId, Interface)> = places
            .enumerate()
            .map(|(id, (port, vlan))| {
                let (port, mac) = (PortId(port as _), Mac([2, 0, 0, 0, 0, 1]));
                let (name, addresses) = (String::new(), Vec::new());
                let vlan = Some(vlan);
                let kernel = None;
                (
                    InterfaceId(id as u16),
                    Interface { name, port, vlan, mac, mtu: 1500, addresses, kernel },
                )
            })
            .collect();
        let all = Interfaces::with_ids(given.clone());
        for port in 0..3 {
            for vlan in [None, Some(0), Some(u16::MAX)].into_iter().chain((1..4096).map(Some)) {
                let own = given.iter().find(|(_, own)| {
                    own.port == PortId(port) && own.vlan == vlan.filter(|id| *id != 0)
                });
                let found = all.at(PortId(port), vlan).map(|(id, _)| id);
                assert_eq!(found, own.map(|(id, _)| *id), "port {port}, VLAN {vlan:?}");
            }
        }
    }

    #[test]
    fn no_other_host_has_a_network_or_broadcast_address() {
        let all = |net: &str| {
            let (mac, port) = (Mac([2, 0, 0, 0, 0, 1]), PortId(0));
            let addresses = vec![net.parse().unwrap()];
            let name = String::new();
            let (vlan, kernel) = (None, None);
            Interfaces::new(vec![Interface { name, port, vlan, mac, mtu: 1500, addresses, kernel }])
        };
        for (net, reserved, free) in [
            ("10.0.0.9/24", &["10.0.0.0", "10.0.0.9", "10.0.0.255"][..], &["10.0.0.8", "10.0.1.0"]),
            ("10.0.0.5/30", &["10.0.0.4", "10.0.0.5", "10.0.0.7"], &["10.0.0.6", "10.0.0.8"]),
            ("10.0.0.5/31", &["10.0.0.5"], &["10.0.0.4", "10.0.0.6"]),
            ("10.0.0.5/32", &["10.0.0.5"], &["10.0.0.4", "10.0.0.6"]),
        ] {
            let interfaces = all(net);
            assert!(reserved.iter().all(|addr| interfaces.reserve_v4(addr.parse().unwrap())));
            assert!(!free.iter().any(|addr| interfaces.reserve_v4(addr.parse().unwrap())));
        }
    }
}
