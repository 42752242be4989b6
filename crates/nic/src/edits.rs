//! Changes that the NIC makes in a frame before it passes the frame on.
use std::net::{Ipv4Addr, Ipv6Addr};

use dpdk::flow::{HopField, Modify, NumberField, SetField};
use wire::{Fragment, Headers, Mac, Net, Transport, checksum};

/// Changes of header fields, to be applied to the frame in place. A field that the
/// frame does not have changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edits {
    mac_src: Option<Mac>,
    mac_dst: Option<Mac>,
    v4_src: Option<Ipv4Addr>,
    v4_dst: Option<Ipv4Addr>,
    v6_src: Option<Ipv6Addr>,
    v6_dst: Option<Ipv6Addr>,
    tcp: Ports,
    udp: Ports,
    /// What is added to the TTL, wrapping round.
    v4_hops: u8,
    /// What is added to the hop limit, wrapping round.
    v6_hops: u8,
    /// What is added to TCP's sequence and acknowledgement number, wrapping round.
    numbers: [u32; 2],
}

/// New ports of one transport protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ports {
    src: Option<u16>,
    dst: Option<u16>,
}

impl Edits {
    /// Whether there is nothing to change.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds one `MODIFY_FIELD`, which comes after those before.
    pub(crate) fn modify(&mut self, modify: &Modify) {
        match modify {
            Modify::Set(set) => self.set(set),
            Modify::Add(field, by) => self.add(*field, *by),
            Modify::Sub(field, by) => self.add(*field, by.wrapping_neg()),
            Modify::AddNumber(field, by) => self.add_number(*field, *by),
            Modify::Unsupported => {}
        }
    }

    pub(crate) fn set(&mut self, set: &SetField) {
        match *set {
            SetField::MacSrc(mac) => self.mac_src = Some(mac),
            SetField::MacDst(mac) => self.mac_dst = Some(mac),
            SetField::Ipv4Src(addr) => self.v4_src = Some(addr),
            SetField::Ipv4Dst(addr) => self.v4_dst = Some(addr),
            SetField::Ipv6Src(addr) => self.v6_src = Some(addr),
            SetField::Ipv6Dst(addr) => self.v6_dst = Some(addr),
            SetField::TcpSport(port) => self.tcp.src = Some(port),
            SetField::TcpDport(port) => self.tcp.dst = Some(port),
            SetField::UdpSport(port) => self.udp.src = Some(port),
            SetField::UdpDport(port) => self.udp.dst = Some(port),
        }
    }

    pub(crate) fn add(&mut self, field: HopField, by: u8) {
        let hops = match field {
            HopField::Ipv4Ttl => &mut self.v4_hops,
            HopField::Ipv6HopLimit => &mut self.v6_hops,
        };
        *hops = hops.wrapping_add(by);
    }

    fn add_number(&mut self, field: NumberField, by: u32) {
        let [sequence, acknowledgement] = &mut self.numbers;
        let number = match field {
            NumberField::TcpSequence => sequence,
            NumberField::TcpAcknowledgement => acknowledgement,
        };
        *number = number.wrapping_add(by);
    }

    /// Adds all of `later`, which comes after those before.
    pub(crate) fn append(&mut self, later: &Self) {
        self.mac_src = later.mac_src.or(self.mac_src);
        self.mac_dst = later.mac_dst.or(self.mac_dst);
        self.v4_src = later.v4_src.or(self.v4_src);
        self.v4_dst = later.v4_dst.or(self.v4_dst);
        self.v6_src = later.v6_src.or(self.v6_src);
        self.v6_dst = later.v6_dst.or(self.v6_dst);
        for (own, later) in [(&mut self.tcp, later.tcp), (&mut self.udp, later.udp)] {
            own.src = later.src.or(own.src);
            own.dst = later.dst.or(own.dst);
        }
        self.v4_hops = self.v4_hops.wrapping_add(later.v4_hops);
        self.v6_hops = self.v6_hops.wrapping_add(later.v6_hops);
        for (own, later) in self.numbers.iter_mut().zip(later.numbers) {
            *own = own.wrapping_add(later);
        }
    }

    /// Changes `frame`, from the first byte of the Ethernet header, with the
    /// IPv4 header checksum and the checksum of TCP and UDP (RFC 1624; a UDP
    /// checksum of zero stays zero). VLAN tags stay. In a later fragment no
    /// transport header is touched.
    pub fn apply(&self, frame: &mut [u8]) {
        if self.is_empty() {
            return;
        }
        if let Ok(headers) = Headers::parse(frame) {
            match headers.net {
                Net::Ipv4 => self.apply_v4(frame, &headers),
                Net::Ipv6 => self.apply_v6(frame, &headers),
                Net::Arp | Net::Other(_) => {}
            }
        }
        write(frame, 0, self.mac_dst.map(|mac| mac.0));
        write(frame, 6, self.mac_src.map(|mac| mac.0));
    }

    fn apply_v4(&self, frame: &mut [u8], headers: &Headers) {
        let l3 = usize::from(headers.l3);
        let mut delta = write(frame, l3 + 12, self.v4_src.map(|addr| addr.octets()));
        delta =
            checksum::combine(delta, write(frame, l3 + 16, self.v4_dst.map(|addr| addr.octets())));
        self.apply_transport(frame, headers, delta);
        if self.v4_hops != 0 {
            let hops = headers.ttl.wrapping_add(self.v4_hops);
            delta = checksum::combine(delta, write(frame, l3 + 8, Some([hops, headers.proto])));
        }
        if delta != 0 {
            renew(frame, l3 + 10, |field| checksum::update(field, delta));
        }
    }

    fn apply_v6(&self, frame: &mut [u8], headers: &Headers) {
        let l3 = usize::from(headers.l3);
        let mut delta = write(frame, l3 + 8, self.v6_src.map(|addr| addr.octets()));
        delta =
            checksum::combine(delta, write(frame, l3 + 24, self.v6_dst.map(|addr| addr.octets())));
        self.apply_transport(frame, headers, delta);
        if self.v6_hops != 0 {
            let hops = headers.ttl.wrapping_add(self.v6_hops);
            write(frame, l3 + 7, Some([hops]));
        }
    }

    /// `delta` is the addresses' part of the checksum's change.
    fn apply_transport(&self, frame: &mut [u8], headers: &Headers, delta: u16) {
        let ports = match Transport::from_number(headers.proto) {
            _ if matches!(headers.fragment, Fragment::Later(_)) => return,
            Some(Transport::Tcp) => self.tcp,
            Some(Transport::Udp) => self.udp,
            None => return,
        };
        let l4 = usize::from(headers.l4);
        let src = write(frame, l4, ports.src.map(u16::to_be_bytes));
        let dst = write(frame, l4 + 2, ports.dst.map(u16::to_be_bytes));
        let mut delta = checksum::combine(delta, checksum::combine(src, dst));
        if Transport::from_number(headers.proto) == Some(Transport::Tcp) {
            for (at, by) in [l4 + 4, l4 + 8].into_iter().zip(self.numbers) {
                delta = checksum::combine(delta, raise(frame, at, by));
            }
        }
        if delta == 0 {
            return;
        }
        match Transport::from_number(headers.proto) {
            Some(Transport::Tcp) => renew(frame, l4 + 16, |field| checksum::update(field, delta)),
            _ => renew(frame, l4 + 6, |field| checksum::update_udp(field, delta)),
        }
    }

    pub(crate) fn new_mac_src(&self) -> Option<Mac> {
        self.mac_src
    }

    pub(crate) fn new_mac_dst(&self) -> Option<Mac> {
        self.mac_dst
    }

    /// New source and destination address of IPv4.
    pub(crate) fn new_v4(&self) -> (Option<Ipv4Addr>, Option<Ipv4Addr>) {
        (self.v4_src, self.v4_dst)
    }

    /// New source and destination address of IPv6.
    pub(crate) fn new_v6(&self) -> (Option<Ipv6Addr>, Option<Ipv6Addr>) {
        (self.v6_src, self.v6_dst)
    }

    /// New source and destination port.
    pub(crate) fn new_ports(&self, transport: Transport) -> (Option<u16>, Option<u16>) {
        let ports = match transport {
            Transport::Tcp => self.tcp,
            Transport::Udp => self.udp,
        };
        (ports.src, ports.dst)
    }

    /// What is added to the TTL or hop limit.
    pub(crate) fn hops(&self, v6: bool) -> u8 {
        if v6 { self.v6_hops } else { self.v4_hops }
    }
}

/// Writes `value` at `at`, if there is one and it fits. Returns the change of
/// a checksum over it; 0: none.
fn write<const N: usize>(frame: &mut [u8], at: usize, value: Option<[u8; N]>) -> u16 {
    let (Some(value), Some(place)) = (value, frame.get_mut(at..at + N)) else { return 0 };
    let delta = checksum::delta(place, &value);
    place.copy_from_slice(&value);
    delta
}

/// Adds `by` to the number at `at`. Returns the change of a checksum over it.
fn raise(frame: &mut [u8], at: usize, by: u32) -> u16 {
    let old = frame.get(at..).and_then(|rest| rest.first_chunk::<4>()).copied();
    let raised = old.filter(|_| by != 0).map(|old| u32::from_be_bytes(old).wrapping_add(by));
    write(frame, at, raised.map(u32::to_be_bytes))
}

/// Replaces the checksum field at `at`.
fn renew(frame: &mut [u8], at: usize, update: impl FnOnce(u16) -> u16) {
    let Some(field) = frame.get_mut(at..at + 2) else { return };
    if let Some(old) = field.first_chunk::<2>() {
        let new = update(u16::from_be_bytes(*old));
        field.copy_from_slice(&new.to_be_bytes());
    }
}
