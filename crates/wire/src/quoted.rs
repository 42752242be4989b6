//! The packet that an ICMP error quotes, and NAT of such errors (RFC 5508
//! section 4, RFC 7915).
use std::net::{IpAddr, SocketAddr};

use crate::bytes::be16;
use crate::checksum;
use crate::flow_key::FlowKey;
use crate::headers::{Fragment, Headers, Net};
use crate::icmp;
use crate::icmpv6;
use crate::numbers::protocol;
use crate::parse;

/// The ICMP and ICMPv6 header in front of the quote.
const ICMP_LEN: usize = 8;

/// The start of a TCP or UDP packet, quoted by an ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted {
    /// Where the quote's parts are, counted from the start of the frame that
    /// carries it. `end` is where the quote ends: at latest where the quoted
    /// datagram would, and before an extension (RFC 4884). The transport
    /// header may be cut off behind the ports; `tcp_flags` is empty.
    pub headers: Headers,
    /// The 5-tuple of the quoted packet, as it was sent.
    pub flow: FlowKey,
}

impl Quoted {
    /// The packet that `frame` quotes. `None` if the frame isn't a whole ICMP
    /// error (unreachable, packet too big, time exceeded, parameter problem), or doesn't quote IP header and ports of TCP or UDP in
    /// the same family.
    #[must_use]
    pub fn parse(frame: &[u8], headers: &Headers) -> Option<Self> {
        if headers.fragment != Fragment::Whole {
            return None;
        }
        let (l4, end) = (usize::from(headers.l4), usize::from(headers.end));
        let message = frame.get(l4..end)?;
        let (fixed, _) = icmp::Header::split(message).ok()?;
        let original = original_length(headers, fixed.kind(), fixed.rest())?;
        let quote = message.get(ICMP_LEN..)?;
        let quote = quote.get(..quote.len().min(original))?;
        let length = match headers.net {
            Net::Ipv4 => usize::from(be16(quote, 2)?),
            _ => 40 + usize::from(be16(quote, 4)?),
        };
        let quote = quote.get(..quote.len().min(length))?;
        let inner = parse::quoted(quote).ok().filter(|inner| inner.net == headers.net)?;
        let start = headers.l4.checked_add(ICMP_LEN as u16)?;
        let inner = Headers {
            l3: start,
            l4: inner.l4.checked_add(start)?,
            end: inner.end.checked_add(start)?,
            ..inner
        };
        // Never read ports from behind the quote.
        let flow = inner.flow(frame.get(..usize::from(inner.end))?)?;
        Some(Self { headers: inner, flow })
    }
}

/// A report that some packet was too long for a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooBig<'a> {
    /// The link's MTU in bytes; 0 from routers that don't tell (RFC 792).
    pub mtu: u16,
    /// The front of the packet, from its IP header on; the packet may be of any
    /// protocol.
    pub packet: &'a [u8],
    /// Where its parts are.
    pub headers: Headers,
}

impl<'a> TooBig<'a> {
    /// What `frame` reports; `None` if it isn't ICMP "fragmentation needed" or
    /// ICMPv6 "packet too big" about a packet of its own family.
    #[must_use]
    pub fn parse(frame: &'a [u8], headers: &Headers) -> Option<Self> {
        if headers.fragment != Fragment::Whole {
            return None;
        }
        let message = frame.get(headers.l4.into()..headers.end.into())?;
        let (fixed, _) = icmp::Header::split(message).ok()?;
        let mtu = match (headers.net, headers.proto, fixed.kind(), fixed.code()) {
            (Net::Ipv4, protocol::ICMP, icmp::kind::UNREACHABLE, icmp::FRAGMENTATION_NEEDED) => {
                fixed.rest() as u16
            }
            (Net::Ipv6, protocol::ICMPV6, icmpv6::kind::PACKET_TOO_BIG, _) => {
                u16::try_from(fixed.rest()).unwrap_or(u16::MAX)
            }
            _ => return None,
        };
        let original = original_length(headers, fixed.kind(), fixed.rest())?;
        let quote = message.get(ICMP_LEN..)?;
        let packet = quote.get(..quote.len().min(original))?;
        let headers = parse::quoted(packet).ok().filter(|inner| inner.net == headers.net)?;
        Some(Self { mtu, packet, headers })
    }
}

/// How many bytes the quote has at most, given the message's type and second word:
/// RFC 4884 says its length where an extension follows it. `None` if the message
/// quotes nothing, or something that NAT doesn't translate.
fn original_length(headers: &Headers, kind: u8, word: u32) -> Option<usize> {
    use {icmp::kind as v4, icmpv6::kind as v6};
    let length = match (headers.net, headers.proto, kind) {
        (
            Net::Ipv4,
            protocol::ICMP,
            v4::UNREACHABLE | v4::TIME_EXCEEDED | v4::PARAMETER_PROBLEM,
        ) => ((word >> 16) & 0xff) * 4,
        (Net::Ipv6, protocol::ICMPV6, v6::UNREACHABLE | v6::TIME_EXCEEDED) => (word >> 24) * 8,
        (Net::Ipv6, protocol::ICMPV6, v6::PACKET_TOO_BIG | v6::PARAMETER_PROBLEM) => 0,
        _ => return None,
    };
    Some(if length == 0 { usize::MAX } else { length as usize })
}

/// The changes that NAT makes to an ICMP error. A part that is `None` stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Translation {
    /// New source of the quoted packet.
    pub quoted_src: Option<SocketAddr>,
    /// New destination of the quoted packet.
    pub quoted_dst: Option<SocketAddr>,
    /// New sequence number of the quoted TCP segment, which is left out where the quote
    /// ends before it.
    pub quoted_sequence: Option<u32>,
    /// New source of the error.
    pub src: Option<IpAddr>,
    /// New destination of the error.
    pub dst: Option<IpAddr>,
}

/// Translates an ICMP error: the quoted endpoints, the quoted packet's
/// checksums where they lie within the quote, the error's addresses and its
/// checksums. Right checksums stay right, wrong ones wrong. Nothing behind the
/// quote is touched.
///
/// Returns `false` and changes nothing if an address is of the other family or
/// `headers` and `quoted` aren't of this frame.
#[must_use]
pub fn rewrite_quoted(
    frame: &mut [u8],
    headers: &Headers,
    quoted: &Quoted,
    to: &Translation,
) -> bool {
    fits(frame, headers, quoted, to) && translate(frame, headers, quoted, to).is_some()
}

/// Whether everything that [`translate`] touches is there.
fn fits(frame: &[u8], headers: &Headers, quoted: &Quoted, to: &Translation) -> bool {
    let inner = &quoted.headers;
    let addresses = [to.quoted_src.map(|s| s.ip()), to.quoted_dst.map(|s| s.ip()), to.src, to.dst];
    let (ip, v4) = match headers.net {
        Net::Ipv4 => (20, true),
        Net::Ipv6 => (40, false),
        Net::Arp | Net::Other(_) => return false,
    };
    let (start, icmp) = (usize::from(headers.l3), usize::from(headers.l4));
    let (quote, ports) = (usize::from(inner.l3), usize::from(inner.l4));
    addresses.iter().flatten().all(|address| address.is_ipv4() == v4)
        && inner.net == headers.net
        && start + ip <= icmp
        && icmp + ICMP_LEN == quote
        && quote + ip <= ports
        && ports + 4 <= usize::from(inner.end)
        && inner.end <= headers.end
        && usize::from(headers.end) <= frame.len()
}

fn translate(frame: &mut [u8], headers: &Headers, quoted: &Quoted, to: &Translation) -> Option<()> {
    let inner = &quoted.headers;
    let (icmp, quote_end) = (usize::from(headers.l4), usize::from(inner.end));
    let quoted_addresses = (to.quoted_src.map(|s| s.ip()), to.quoted_dst.map(|s| s.ip()));

    let mut message = Change::default();
    let mut pseudo = Change::default();
    addresses(frame, inner, quoted_addresses, &mut pseudo)?;
    message.also(pseudo);
    if inner.net == Net::Ipv4 {
        let field = usize::from(inner.l3) + 10;
        let updated = checksum::update(be16(frame, field)?, pseudo.delta());
        message.write(frame, field, &updated.to_be_bytes())?;
    }
    let mut ports = Change::default();
    for (at, socket) in [(0, to.quoted_src), (2, to.quoted_dst)] {
        if let Some(socket) = socket {
            ports.write(frame, usize::from(inner.l4) + at, &socket.port().to_be_bytes())?;
        }
    }
    let sequence = usize::from(inner.l4) + 4;
    if let Some(number) = to.quoted_sequence.filter(|_| inner.proto == protocol::TCP)
        && sequence + 4 <= quote_end
    {
        ports.write(frame, sequence, &number.to_be_bytes())?;
    }
    message.also(ports);
    pseudo.also(ports);
    let field = usize::from(inner.l4) + if inner.proto == protocol::TCP { 16 } else { 6 };
    if field + 2 <= quote_end {
        let old = be16(frame, field)?;
        let updated = if inner.proto == protocol::TCP {
            checksum::update(old, pseudo.delta())
        } else {
            checksum::update_udp(old, pseudo.delta())
        };
        message.write(frame, field, &updated.to_be_bytes())?;
    }

    let mut outer = Change::default();
    addresses(frame, headers, (to.src, to.dst), &mut outer)?;
    if headers.net == Net::Ipv4 {
        let field = usize::from(headers.l3) + 10;
        let updated = checksum::update(be16(frame, field)?, outer.delta());
        Change::default().write(frame, field, &updated.to_be_bytes())?;
    } else {
        // ICMPv6 covers a pseudo-header, ICMP doesn't.
        message.also(outer);
    }
    let updated = checksum::update(be16(frame, icmp + 2)?, message.delta());
    Change::default().write(frame, icmp + 2, &updated.to_be_bytes())
}

/// Writes the addresses of the IP header that `headers` points to.
fn addresses(
    frame: &mut [u8],
    headers: &Headers,
    (src, dst): (Option<IpAddr>, Option<IpAddr>),
    change: &mut Change,
) -> Option<()> {
    let l3 = usize::from(headers.l3);
    for (at_v4, at_v6, address) in [(12, 8, src), (16, 24, dst)] {
        match address {
            Some(IpAddr::V4(address)) => change.write(frame, l3 + at_v4, &address.octets())?,
            Some(IpAddr::V6(address)) => change.write(frame, l3 + at_v6, &address.octets())?,
            None => {}
        }
    }
    Some(())
}

/// What a checksum over changed bytes has to add to its complement.
#[derive(Clone, Copy, Default)]
struct Change(u16);

impl Change {
    /// Writes `new` over the bytes at `at`, an even distance into what the
    /// checksum covers.
    fn write(&mut self, frame: &mut [u8], at: usize, new: &[u8]) -> Option<()> {
        let old = frame.get_mut(at..)?.get_mut(..new.len())?;
        self.0 = checksum::combine(self.0, checksum::delta(old, new));
        old.copy_from_slice(new);
        Some(())
    }

    const fn also(&mut self, other: Self) {
        self.0 = checksum::combine(self.0, other.0);
    }

    const fn delta(self) -> u16 {
        self.0
    }
}
