//! The attacker's frames, written by etherparse and by hand: no code of the
//! data path takes part.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use etherparse::{IpNumber, Ipv4Header, PacketBuilder, PacketBuilderStep};
use rand::Rng;
use rand::rngs::StdRng;

use super::Attack;
use crate::topology::{
    BACKENDS, CLIENTS, DNS_PORT, Family, VIP4, VIP6, WEB_BACKEND_PORT, WEB_PORT, vip,
};

/// EtherTypes and ICMPv6 types of what is written by hand.
const ARP: [u8; 2] = [0x08, 0x06];
const IPV6: [u8; 2] = [0x86, 0xdd];
const ADVERTISEMENT: u8 = 136;
const SOLICITATION: u8 = 135;

/// Makes frames at random.
#[derive(Debug)]
pub(super) struct Frames {
    rng: StdRng,
    /// The attacker's own Ethernet address.
    own: [u8; 6],
    /// HNLB's.
    target: [u8; 6],
    /// The clients' ends of connections that exist.
    held: Vec<SocketAddr>,
}

impl Frames {
    pub(super) fn new(rng: StdRng, own: [u8; 6], target: [u8; 6], held: Vec<SocketAddr>) -> Self {
        Self { rng, own, target, held }
    }

    /// The next frame of an attack.
    pub(super) fn next(&mut self, attack: Attack) -> Vec<u8> {
        match attack {
            Attack::Syn => {
                let source = self.anywhere();
                self.syn(source, WEB_PORT)
            }
            Attack::Udp => self.udp(),
            Attack::Rst => self.end_of_a_connection(),
            Attack::Fragments => self.fragment(),
            Attack::Arp => self.claim(),
            Attack::Neighbours => self.newcomer(),
        }
    }

    /// The address of a host that is not in the lab.
    fn anywhere(&mut self) -> IpAddr {
        if self.rng.random_ratio(3, 4) {
            // 11/8 to 126/8: unicast addresses, and none of the lab's.
            let [_, b, c, d] = self.rng.random::<[u8; 4]>();
            IpAddr::from([self.rng.random_range(11..127), b, c, d])
        } else {
            let low: u64 = self.rng.random();
            Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(low)).into()
        }
    }

    /// The address of a host that could be on the clients' link, and is not.
    fn on_link(&mut self) -> IpAddr {
        if self.rng.random_ratio(1, 8) {
            IpAddr::from([10, 71, 0, self.rng.random_range(128..255)])
        } else {
            let low: u64 = self.rng.random();
            Ipv6Addr::from_bits(0xfd71 << 112 | u128::from(low | 1 << 63)).into()
        }
    }

    fn ip(&mut self, from: IpAddr, to: IpAddr) -> Option<PacketBuilderStep<etherparse::IpHeaders>> {
        let ethernet = PacketBuilder::ethernet2(self.own, self.target);
        match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                Some(ethernet.ipv4(from.octets(), to.octets(), 61))
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                Some(ethernet.ipv6(from.octets(), to.octets(), 61))
            }
            _ => None,
        }
    }

    fn syn(&mut self, source: IpAddr, port: u16) -> Vec<u8> {
        let (from, sequence) = (self.rng.random_range(1024..=u16::MAX), self.rng.random());
        let Some(ip) = self.ip(source, vip(family(source))) else { return Vec::new() };
        let mut frame = Vec::with_capacity(80);
        // A vector takes everything that fits a packet.
        let _ = ip.tcp(from, port, sequence, 64_240).syn().write(&mut frame, &[]);
        frame
    }

    fn udp(&mut self) -> Vec<u8> {
        let source = self.anywhere();
        let from = self.rng.random_range(1024..=u16::MAX);
        let to = if self.rng.random() { DNS_PORT } else { self.rng.random_range(1..=u16::MAX) };
        let payload: [u8; 20] = self.rng.random();
        let Some(ip) = self.ip(source, vip(family(source))) else { return Vec::new() };
        let mut frame = Vec::with_capacity(80);
        let _ = ip.udp(from, to).write(&mut frame, &payload);
        frame
    }

    /// A RST or FIN as if of a client, or of a backend that may be the one.
    fn end_of_a_connection(&mut self) -> Vec<u8> {
        let random = SocketAddr::new(CLIENTS[0].v4.into(), self.rng.random_range(1024..=u16::MAX));
        let client = match self.held.len() {
            0 => random,
            held => self.held.get(self.rng.random_range(0..held)).copied().unwrap_or(random),
        };
        let family = family(client.ip());
        let backend = BACKENDS[self.rng.random_range(0..BACKENDS.len())].address(family);
        let (from, to) = if self.rng.random() {
            (client, SocketAddr::new(vip(family), WEB_PORT))
        } else {
            (SocketAddr::new(backend, WEB_BACKEND_PORT), client)
        };
        let (sequence, acknowledged) = (self.rng.random(), self.rng.random());
        let is_reset = self.rng.random_ratio(3, 4);
        let Some(ip) = self.ip(from.ip(), to.ip()) else { return Vec::new() };
        let tcp = ip.tcp(from.port(), to.port(), sequence, 64_240);
        let tcp = if is_reset { tcp.rst() } else { tcp.fin().ack(acknowledged) };
        let mut frame = Vec::with_capacity(80);
        let _ = tcp.write(&mut frame, &[]);
        frame
    }

    /// A piece of a datagram: mostly a later one without a first.
    fn fragment(&mut self) -> Vec<u8> {
        let source = if self.rng.random() {
            let client = &CLIENTS[self.rng.random_range(0..CLIENTS.len())];
            client.address(if self.rng.random() { Family::V4 } else { Family::V6 })
        } else {
            self.anywhere()
        };
        let is_first = self.rng.random_ratio(1, 4);
        // In units of 8 bytes, behind a first piece of a usual size.
        let offset = if is_first { 0 } else { self.rng.random_range(60..8000) };
        let mut piece: [u8; 64] = self.rng.random();
        // Ports of a first piece: anything to the DNS service.
        piece[2..4].copy_from_slice(&DNS_PORT.to_be_bytes());
        match source {
            IpAddr::V4(source) => self.fragment4(source, offset, &piece),
            IpAddr::V6(source) => self.fragment6(source, offset, &piece),
        }
    }

    fn fragment4(&mut self, source: Ipv4Addr, offset: u16, piece: &[u8]) -> Vec<u8> {
        let mut frame = self.ethernet([0x08, 0x00]);
        let len = piece.len() as u16;
        let header = Ipv4Header::new(len, 61, IpNumber::UDP, source.octets(), VIP4.octets());
        let Ok(mut header) = header else { return Vec::new() };
        header.identification = self.rng.random();
        header.more_fragments = true;
        header.dont_fragment = false;
        header.fragment_offset = etherparse::IpFragOffset::try_new(offset).unwrap_or_default();
        header.header_checksum = header.calc_header_checksum();
        let _ = header.write(&mut frame);
        frame.extend(piece);
        frame
    }

    /// RFC 8200 section 4.5.
    fn fragment6(&mut self, source: Ipv6Addr, offset: u16, piece: &[u8]) -> Vec<u8> {
        const FRAGMENT: u8 = 44;
        const UDP: u8 = 17;
        let mut frame = self.ethernet(IPV6);
        frame.extend(header6(piece.len() as u16 + 8, FRAGMENT, 61, source, VIP6));
        frame.extend([UDP, 0]);
        frame.extend((offset << 3 | 1).to_be_bytes());
        frame.extend(self.rng.random::<[u8; 4]>());
        frame.extend(piece);
        frame
    }

    /// "This address is here", about an address of the lab's.
    fn claim(&mut self) -> Vec<u8> {
        let hosts = BACKENDS.iter().chain(&CLIENTS);
        let family = if self.rng.random() { Family::V4 } else { Family::V6 };
        let mut all: Vec<IpAddr> = hosts.map(|host| host.address(family)).collect();
        all.push(vip(family));
        match all.get(self.rng.random_range(0..all.len())) {
            Some(IpAddr::V4(claimed)) => self.arp(2, *claimed, self.own),
            Some(IpAddr::V6(claimed)) => self.advertisement(*claimed),
            None => Vec::new(),
        }
    }

    /// A host of the link appears, and will not answer.
    fn newcomer(&mut self) -> Vec<u8> {
        let source = self.on_link();
        let mac =
            [2, 0x66, self.rng.random(), self.rng.random(), self.rng.random(), self.rng.random()];
        match source {
            IpAddr::V4(source) => self.arp(1, source, mac),
            IpAddr::V6(source) if self.rng.random() => self.solicitation(source, mac),
            IpAddr::V6(_) => self.syn(source, WEB_PORT),
        }
    }

    fn ethernet(&self, kind: [u8; 2]) -> Vec<u8> {
        let mut frame = Vec::with_capacity(128);
        frame.extend(self.target);
        frame.extend(self.own);
        frame.extend(kind);
        frame
    }

    /// RFC 826: a request (1) for HNLB's address or a reply (2) to HNLB.
    fn arp(&mut self, operation: u8, sender: Ipv4Addr, mac: [u8; 6]) -> Vec<u8> {
        let [.., subnet, _, _] = sender.octets();
        let mut frame = self.ethernet(ARP);
        frame.extend([0, 1, 8, 0, 6, 4, 0, operation]);
        frame.extend(mac);
        frame.extend(sender.octets());
        frame.extend(self.target);
        frame.extend([10, subnet, 0, 1]);
        frame.resize(60, 0);
        frame
    }

    /// RFC 4861 section 4.4, solicited and overriding, with the attacker's
    /// Ethernet address.
    fn advertisement(&mut self, claimed: Ipv6Addr) -> Vec<u8> {
        let [network, ..] = claimed.segments();
        let to = Ipv6Addr::new(network, 0, 0, 0, 0, 0, 0, 1);
        self.discovery(ADVERTISEMENT, 0x60, (claimed, to, claimed), (2, self.own))
    }

    /// RFC 4861 section 4.3.
    fn solicitation(&mut self, source: Ipv6Addr, mac: [u8; 6]) -> Vec<u8> {
        let to = Ipv6Addr::new(0xfd71, 0, 0, 0, 0, 0, 0, 1);
        self.discovery(SOLICITATION, 0, (source, to, to), (1, mac))
    }

    fn discovery(
        &mut self,
        kind: u8,
        flags: u8,
        (from, to, about): (Ipv6Addr, Ipv6Addr, Ipv6Addr),
        (option, mac): (u8, [u8; 6]),
    ) -> Vec<u8> {
        let mut message = vec![kind, 0, 0, 0, flags, 0, 0, 0];
        message.extend(about.octets());
        message.extend([option, 1]);
        message.extend(mac);
        let sum = checksum6(from, to, &message);
        message.splice(2..4, sum.to_be_bytes());
        let mut frame = self.ethernet(IPV6);
        frame.extend(header6(message.len() as u16, 58, 255, from, to));
        frame.extend(message);
        frame
    }
}

const fn family(address: IpAddr) -> Family {
    match address {
        IpAddr::V4(_) => Family::V4,
        IpAddr::V6(_) => Family::V6,
    }
}

fn header6(len: u16, next: u8, hops: u8, from: Ipv6Addr, to: Ipv6Addr) -> Vec<u8> {
    let mut header = vec![0x60, 0, 0, 0];
    header.extend(len.to_be_bytes());
    header.extend([next, hops]);
    header.extend(from.octets());
    header.extend(to.octets());
    header
}

/// The ICMPv6 checksum (RFC 4443 section 2.3).
fn checksum6(from: Ipv6Addr, to: Ipv6Addr, message: &[u8]) -> u16 {
    etherparse::checksum::Sum16BitWords::new()
        .add_16bytes(from.octets())
        .add_16bytes(to.octets())
        .add_4bytes((message.len() as u32).to_be_bytes())
        .add_2bytes([0, 58])
        .add_slice(message)
        .ones_complement()
        .to_be()
}

#[cfg(test)]
mod tests {
    use etherparse::SlicedPacket;
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn every_frame_is_one_that_another_parser_takes() {
        let held = vec!["10.71.0.11:4000".parse().unwrap(), "[fd71::11]:4001".parse().unwrap()];
        let mut frames =
            Frames::new(StdRng::seed_from_u64(3), [2, 0, 0, 0, 0, 6], [2, 0, 0, 0, 0, 1], held);
        for attack in Attack::ALL {
            let mut all = std::collections::BTreeSet::new();
            for _ in 0..500 {
                let frame = frames.next(attack);
                let packet = SlicedPacket::from_ethernet(&frame)
                    .unwrap_or_else(|error| panic!("{attack:?}: {error}: {frame:02x?}"));
                assert!(packet.net.is_some(), "{attack:?}: {frame:02x?}");
                if let Some(etherparse::TransportSlice::Icmpv6(icmp)) = &packet.transport {
                    let Some(etherparse::NetSlice::Ipv6(ip)) = &packet.net else { panic!() };
                    let (from, to) = (ip.header().source(), ip.header().destination());
                    assert!(icmp.is_checksum_valid(from, to), "{frame:02x?}");
                }
                all.insert(frame.clone());
            }
            // Claims are about few addresses; everything else varies.
            let least = if attack == Attack::Arp { 14 } else { 400 };
            assert!(all.len() >= least, "{attack:?}: {} different frames", all.len());
        }
    }
}
