//! The header fields that steering tables match, packed into words.
use wire::{Fragment, Headers, Net, Transport, ethernet};

use crate::edits::Edits;
use crate::frame_key::FrameKey;
use crate::key::{FlowType, Key, KeyV4, KeyV6, rest};

/// A frame's header fields, or a rule's values or masks of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct HeaderKey {
    /// Destination address in the high 48 bits, EtherType behind all tags.
    pub(crate) mac_dst: u64,
    /// Source address in the high 48 bits, [`kind`] bits.
    pub(crate) mac_src: u64,
    /// VLAN tag, source port, destination port, TCP flags, type of service or traffic class.
    pub(crate) ports: u64,
    /// TTL, protocol, flags and fragment offset in the low 32 bits.
    pub(crate) net: u64,
    /// Source address; of IPv4 the low 32 bits.
    pub(crate) src: u128,
    /// Destination address.
    pub(crate) dst: u128,
}

/// What a frame is, as bits.
pub(crate) mod kind {
    /// It has a VLAN tag.
    pub(crate) const VLAN: u16 = 1;
    /// It is IPv4.
    pub(crate) const V4: u16 = 2;
    /// It is IPv6.
    pub(crate) const V6: u16 = 4;
    /// It is a whole datagram of TCP.
    pub(crate) const TCP: u16 = 8;
    /// It is a whole datagram of UDP.
    pub(crate) const UDP: u16 = 16;
}

const ETHERTYPE_V4: u16 = 0x0800;
const ETHERTYPE_V6: u16 = 0x86dd;
const ETHERTYPE_ARP: u16 = 0x0806;

/// The 48 bits of an Ethernet address in the high bits.
pub(crate) fn mac_bits(mac: wire::Mac) -> u64 {
    let [a, b, c, d, e, f] = mac.0;
    u64::from_be_bytes([a, b, c, d, e, f, 0, 0])
}

const LOW: u64 = 0xffff;

impl HeaderKey {
    /// What is in `frame`. A malformed one has Ethernet fields only.
    pub(crate) fn of(frame: &[u8]) -> Self {
        let mut key = Self::default();
        if let Some((dst, src)) = ethernet::macs(frame) {
            (key.mac_dst, key.mac_src) = (mac_bits(dst), mac_bits(src));
        }
        let Ok(headers) = Headers::parse(frame) else { return key };
        let mut kinds = 0;
        if headers.vlan.is_some() {
            kinds |= kind::VLAN;
            let tci = frame.get(14..16).and_then(|tci| tci.first_chunk::<2>());
            key.set_vlan(tci.map_or(0, |tci| u16::from_be_bytes(*tci)));
        }
        let ethertype = match headers.net {
            Net::Ipv4 => ETHERTYPE_V4,
            Net::Ipv6 => ETHERTYPE_V6,
            Net::Arp => ETHERTYPE_ARP,
            Net::Other(ethertype) => ethertype,
        };
        key.mac_dst |= u64::from(ethertype);
        kinds |= key.read_net(&headers, frame);
        key.mac_src |= u64::from(kinds);
        key
    }

    /// The IP and transport fields; returns what it is.
    fn read_net(&mut self, headers: &Headers, frame: &[u8]) -> u16 {
        let Some(ip) = frame.get(usize::from(headers.l3)..) else { return 0 };
        let mut kinds = match headers.net {
            Net::Ipv4 => {
                let (Some(tos), Some(fragment)) = (ip.get(1), ip.get(6..8)) else { return 0 };
                self.ports |= u64::from(*tos);
                let fragment = fragment.first_chunk::<2>().map_or(0, |f| u16::from_be_bytes(*f));
                self.net |= u64::from(fragment);
                kind::V4
            }
            Net::Ipv6 => {
                let (Some(high), Some(low)) = (ip.first(), ip.get(1)) else { return 0 };
                self.ports |= u64::from(high << 4 | low >> 4);
                kind::V6
            }
            Net::Arp | Net::Other(_) => return 0,
        };
        let bits = |addr| match addr {
            std::net::IpAddr::V4(addr) => u128::from(u32::from(addr)),
            std::net::IpAddr::V6(addr) => u128::from(addr),
        };
        self.src = headers.src_addr(frame).map_or(0, bits);
        self.dst = headers.dst_addr(frame).map_or(0, bits);
        self.net |= u64::from(headers.ttl) << 24 | u64::from(headers.proto) << 16;
        if headers.fragment == Fragment::Whole {
            kinds |= match Transport::from_number(headers.proto) {
                Some(Transport::Tcp) => kind::TCP,
                Some(Transport::Udp) => kind::UDP,
                None => 0,
            };
            if let Some((sport, dport)) = headers.ports(frame) {
                self.set_ports(sport, dport);
            }
            self.ports |= u64::from(headers.tcp_flags.0) << 8;
        }
        kinds
    }

    pub(crate) fn kinds(&self) -> u16 {
        (self.mac_src & LOW) as u16
    }

    pub(crate) fn set_vlan(&mut self, tci: u16) {
        self.ports |= u64::from(tci) << 48;
    }

    pub(crate) fn set_ports(&mut self, sport: u16, dport: u16) {
        self.ports |= u64::from(sport) << 32 | u64::from(dport) << 16;
    }

    /// The bits that `mask` selects.
    #[inline]
    pub(crate) fn masked(&self, mask: &Self) -> Self {
        Self {
            mac_dst: self.mac_dst & mask.mac_dst,
            mac_src: self.mac_src & mask.mac_src,
            ports: self.ports & mask.ports,
            net: self.net & mask.net,
            src: self.src & mask.src,
            dst: self.dst & mask.dst,
        }
    }

    /// The place of row `index` in a table of rules by index.
    pub(crate) fn of_index(index: u32) -> Self {
        Self { src: index.into(), ..Self::default() }
    }

    /// The CRC-32 of the addresses and ports that `mask` selects, as they are on
    /// the wire: the hash of a table of rules by index. Addresses have the length
    /// of the family that the mask's rule is for.
    pub(crate) fn crc32(&self, mask: &Self) -> u32 {
        let key = self.masked(mask);
        let skip = if mask.kinds() & kind::V4 != 0 { 12 } else { 0 };
        let mut crc = crc32fast::Hasher::new();
        for address in [key.src, key.dst] {
            crc.update(address.to_be_bytes().get(skip..).unwrap_or_default());
        }
        crc.update(&((key.ports >> 16) as u32).to_be_bytes());
        crc.finalize()
    }

    /// What RSS sees; of fragments and other protocols that is the addresses.
    pub(crate) fn frame(&self) -> FrameKey {
        let kinds = self.kinds();
        let kind = match kinds & (kind::TCP | kind::UDP) {
            kind::TCP => FlowType::Tcp,
            kind::UDP => FlowType::Udp,
            _ => FlowType::Other,
        };
        let (sport, dport) = ((self.ports >> 32) as u16, (self.ports >> 16) as u16);
        let rest = rest(sport, dport, (self.net >> 16) as u8);
        if kinds & kind::V4 != 0 {
            let addresses = (self.src as u64) << 32 | self.dst as u64;
            return FrameKey::Whole(kind, Key::V4(KeyV4 { addresses, rest }));
        }
        if kinds & kind::V6 != 0 {
            return FrameKey::Whole(kind, Key::V6(KeyV6 { src: self.src, dst: self.dst, rest }));
        }
        FrameKey::NotIp
    }

    /// What later groups see of the frame once `edits` are carried out.
    pub(crate) fn edit(&mut self, edits: &Edits) {
        let kinds = self.kinds();
        if let Some(mac) = edits.new_mac_dst() {
            self.mac_dst = mac_bits(mac) | self.mac_dst & LOW;
        }
        if let Some(mac) = edits.new_mac_src() {
            self.mac_src = mac_bits(mac) | self.mac_src & LOW;
        }
        if kinds & kind::V4 != 0 {
            let (src, dst) = edits.new_v4();
            self.src = src.map_or(self.src, |addr| u128::from(u32::from(addr)));
            self.dst = dst.map_or(self.dst, |addr| u128::from(u32::from(addr)));
        }
        if kinds & kind::V6 != 0 {
            let (src, dst) = edits.new_v6();
            self.src = src.map_or(self.src, u128::from);
            self.dst = dst.map_or(self.dst, u128::from);
        }
        if kinds & (kind::V4 | kind::V6) != 0 {
            let ttl = ((self.net >> 24) as u8).wrapping_add(edits.hops(kinds & kind::V6 != 0));
            self.net = self.net & 0x00ff_ffff | u64::from(ttl) << 24;
        }
        let (sport, dport) = match kinds & (kind::TCP | kind::UDP) {
            kind::TCP => edits.new_ports(Transport::Tcp),
            kind::UDP => edits.new_ports(Transport::Udp),
            _ => (None, None),
        };
        if let Some(port) = sport {
            self.ports = self.ports & !(LOW << 32) | u64::from(port) << 32;
        }
        if let Some(port) = dport {
            self.ports = self.ports & !(LOW << 16) | u64::from(port) << 16;
        }
    }
}
