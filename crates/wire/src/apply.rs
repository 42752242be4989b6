//! Carries a rewrite plan out on a frame.
use crate::checksum;
use crate::headers::{Fragment, Headers, Net};
use crate::numbers::protocol;
use crate::rewrite::{Rewrite, Rewrite4, Rewrite6, Side};

impl Rewrite {
    /// Writes the plan's addresses and ports into `frame` and updates the IPv4
    /// header's and the transport's checksum. A right checksum becomes what a
    /// computation over the new packet would give, bit for bit; a wrong one
    /// stays wrong. A UDP checksum of zero (none) stays zero, a computed zero
    /// becomes 0xffff (RFC 768). In a later fragment only addresses and the
    /// IPv4 header checksum change.
    ///
    /// Returns `false` and changes nothing if the packet is of the other family, is
    /// neither TCP nor UDP, or if `headers` isn't of this frame.
    #[inline]
    #[must_use]
    pub fn apply(&self, frame: &mut [u8], headers: &Headers) -> bool {
        let applied = match (self, headers.net) {
            (Self::V4(plan), Net::Ipv4) => plan.write(frame, headers),
            (Self::V6(plan), Net::Ipv6) => plan.write(frame, headers),
            _ => None,
        };
        applied.is_some()
    }
}

impl Rewrite4 {
    #[inline(always)]
    fn write(&self, frame: &mut [u8], headers: &Headers) -> Option<()> {
        let (net, transport) = parts(frame, headers)?;
        let ip = net.first_chunk_mut::<20>()?;
        if !matches!(headers.fragment, Fragment::Later(_)) {
            write_transport(
                transport,
                headers.proto,
                self.port_side,
                self.ports,
                self.transport_delta,
            )?;
        }
        let [.., a, b] = *ip.first_chunk::<12>()?;
        let updated = checksum::update(u16::from_be_bytes([a, b]), self.net_delta);
        ip[10..12].copy_from_slice(&updated.to_be_bytes());
        write_pair(&mut ip[12..], self.side, &self.addresses);
        Some(())
    }
}

impl Rewrite6 {
    #[inline]
    fn write(&self, frame: &mut [u8], headers: &Headers) -> Option<()> {
        let (net, transport) = parts(frame, headers)?;
        let ip = net.first_chunk_mut::<40>()?;
        if !matches!(headers.fragment, Fragment::Later(_)) {
            write_transport(
                transport,
                headers.proto,
                self.port_side,
                self.ports,
                self.transport_delta,
            )?;
        }
        write_pair(&mut ip[8..], self.side, &self.addresses);
        Some(())
    }
}

/// The network header with its extensions, and what follows up to the datagram's end.
#[inline]
fn parts<'a>(frame: &'a mut [u8], headers: &Headers) -> Option<(&'a mut [u8], &'a mut [u8])> {
    let (l3, l4) = (usize::from(headers.l3), usize::from(headers.l4));
    let datagram = frame.get_mut(l3..usize::from(headers.end))?;
    datagram.split_at_mut_checked(l4.checked_sub(l3)?)
}

/// Ports and checksum of TCP and UDP. Returns `None` and changes nothing for others.
#[inline(always)]
fn write_transport(
    transport: &mut [u8],
    proto: u8,
    side: Option<Side>,
    ports: [u8; 4],
    delta: u16,
) -> Option<()> {
    if proto == protocol::TCP {
        let tcp = transport.first_chunk_mut::<20>()?;
        let field = checksum::update(u16::from_be_bytes([tcp[16], tcp[17]]), delta);
        tcp[16..18].copy_from_slice(&field.to_be_bytes());
        write_ports(tcp, side, ports);
    } else if proto == protocol::UDP {
        let udp = transport.first_chunk_mut::<8>()?;
        let field = checksum::update_udp(u16::from_be_bytes([udp[6], udp[7]]), delta);
        udp[6..8].copy_from_slice(&field.to_be_bytes());
        write_ports(udp, side, ports);
    } else {
        return None;
    }
    Some(())
}

#[inline]
fn write_ports(transport: &mut [u8], side: Option<Side>, ports: [u8; 4]) {
    if let Some(side) = side {
        write_pair(transport, side, &ports);
    }
}

/// Writes the halves of `pair` that `side` names to the front of `field`,
/// which is at least as long.
#[inline]
fn write_pair<const N: usize>(field: &mut [u8], side: Side, pair: &[u8; N]) {
    let Some(field) = field.first_chunk_mut::<N>() else { return };
    let half = N / 2;
    match side {
        Side::Source => field[..half].copy_from_slice(&pair[..half]),
        Side::Destination => field[half..].copy_from_slice(&pair[half..]),
        Side::Both => field.copy_from_slice(pair),
    }
}
