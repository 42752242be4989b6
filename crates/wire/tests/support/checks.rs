//! What must hold for any bytes at all: parsing and rewriting. The fuzz
//! targets and the tests run the same code.
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use wire::{Fragment, Headers, Net, Rewrite, Side, Transport, checksum, decrement_ttl};

/// Parsing promises what rewriting needs.
pub(crate) fn parse(data: &[u8]) {
    let _ = wire::ethernet::macs(data);
    let _ = wire::ipv4::Datagram::parse(data).map(|d| d.checksum_is_right());
    let _ = wire::ipv6::Datagram::parse(data);
    let _ = wire::tcp::Segment::parse(data);
    let Ok(headers) = Headers::parse(data) else { return };
    let (l3, l4, end) = offsets(&headers);
    assert!(
        (l3, headers.vlan.is_some()) == (14, false) || (l3, headers.vlan.is_some()) == (18, true)
    );
    assert!(l3 <= l4 && l4 <= end && end <= data.len());
    let later = matches!(headers.fragment, Fragment::Later(_));
    let ip = match headers.net {
        Net::Ipv4 => 20,
        Net::Ipv6 => 40,
        Net::Arp | Net::Other(_) => 0,
    };
    assert!(l4 - l3 >= ip);
    assert_eq!(headers.src_addr(data).is_some(), ip > 0);
    if headers.check(data, false).is_ok() {
        assert!(headers.check(data, true).is_ok());
        let length = |at: usize| usize::from(u16::from_be_bytes([data[at], data[at + 1]]));
        match headers.proto {
            _ if later || ip == 0 => {}
            6 => assert!((20..=end - l4).contains(&(usize::from(data[l4 + 12] >> 4) * 4))),
            17 => assert!(length(l4 + 4) >= 8),
            _ => {}
        }
    }
    let _ = headers.transport_checksum_is_right(data);
    let balanced = ip > 0 && Transport::from_number(headers.proto).is_some() && !later;
    let flow = headers.flow(data);
    assert_eq!(flow.is_some(), balanced);
    if let Some(flow) = flow {
        assert!(end - l4 >= if flow.proto() == Transport::Tcp { 20 } else { 8 });
        assert_eq!(headers.ports(data), Some((flow.src().port(), flow.dst().port())));
        assert_eq!(headers.src_addr(data), Some(flow.src().ip()));
        assert_eq!(headers.dst_addr(data), Some(flow.dst().ip()));
    }
    // Headers of another frame do no harm.
    let half = &data[..data.len() / 2];
    let _ = (headers.flow(half), headers.src_addr(half), headers.dst_addr(half));
}

/// A plan changes its own fields only and keeps right checksums right, wrong
/// ones wrong.
pub(crate) fn rewrite(data: &[u8]) {
    let Ok(headers) = Headers::parse(data) else { return };
    let mut frame = data.to_vec();
    let pick = data.iter().take(64).fold(data.len(), |sum, byte| sum + usize::from(*byte));
    let plan = plan(data, &headers, pick);
    let later = matches!(headers.fragment, Fragment::Later(_));
    match plan {
        Some(plan) if later || headers.flow(data).is_some() => {
            assert!(plan.apply(&mut frame, &headers));
            only_changed(data, &frame, &rewritten(&headers, &plan));
            assert_eq!(Headers::parse(&frame), Ok(headers));
            same_sums(data, &frame, &headers);
        }
        Some(plan) => assert!(!plan.apply(&mut frame, &headers) && frame == data),
        None => {}
    }
    let half = data.len() / 2;
    for plan in strangers(pick) {
        frame.copy_from_slice(data);
        let applied = plan.apply(&mut frame, &headers);
        let fits = matches!(
            (plan, headers.net),
            (Rewrite::V4(_), Net::Ipv4) | (Rewrite::V6(_), Net::Ipv6)
        );
        assert!(applied == (fits && (later || headers.flow(data).is_some())));
        assert!(applied || frame == data);
        frame.copy_from_slice(data);
        assert!(plan.apply(&mut frame[..half], &headers) <= (offsets(&headers).2 <= half));
        assert!(frame[half..] == data[half..]);
    }
    ttl(data, &headers, &mut frame);
}

fn ttl(data: &[u8], headers: &Headers, frame: &mut [u8]) {
    frame.copy_from_slice(data);
    let (l3, ..) = offsets(headers);
    assert_eq!(decrement_ttl(frame, headers), headers.ttl > 1);
    let fields = match headers.net {
        Net::Ipv4 => [l3 + 8..l3 + 9, l3 + 10..l3 + 12],
        _ => [l3 + 7..l3 + 8, data.len()..data.len()],
    };
    only_changed(data, frame, if headers.ttl > 1 { &fields } else { &[] });
    if headers.ttl > 1 {
        assert_eq!(Headers::parse(frame).map(|h| h.ttl), Ok(headers.ttl - 1));
        same_sums(data, frame, headers);
    }
    let _ = decrement_ttl(&mut frame[..data.len() / 2], headers);
}

/// A plan compiled from the packet's own addresses and ports.
fn plan(data: &[u8], headers: &Headers, pick: usize) -> Option<Rewrite> {
    let (src, dst) = (headers.src_addr(data)?, headers.dst_addr(data)?);
    let (sport, dport) = headers.ports(data).unwrap_or((1, 2));
    let old = (SocketAddr::new(src, sport), SocketAddr::new(dst, dport));
    let new = news(src.is_ipv4(), pick);
    Rewrite::compile(SIDES[pick % 3], port_side(pick / 3), old, new)
}

const SIDES: [Side; 3] = [Side::Source, Side::Destination, Side::Both];

fn port_side(pick: usize) -> Option<Side> {
    SIDES.get(pick % 4).copied()
}

pub(crate) fn news(v4: bool, pick: usize) -> (SocketAddr, SocketAddr) {
    let port = (pick * 257) as u16;
    if v4 {
        let address = |last| IpAddr::from([10, pick as u8, 0xff, last]);
        (SocketAddr::new(address(1), port), SocketAddr::new(address(255), !port))
    } else {
        let address = |last| IpAddr::from([0xfd00, port, 0, 0xffff, 0, 0, 0, last]);
        (SocketAddr::new(address(1), port), SocketAddr::new(address(0xffff), !port))
    }
}

/// Plans that have nothing to do with the packet.
fn strangers(pick: usize) -> [Rewrite; 2] {
    [true, false].map(|v4| Rewrite::both(news(v4, pick), news(v4, pick + 1)).unwrap())
}

/// The fields that `plan` may change.
fn rewritten(headers: &Headers, plan: &Rewrite) -> Vec<Range<usize>> {
    let (l3, l4, _) = offsets(headers);
    let (side, ports, size, at) = match plan {
        Rewrite::V4(plan) => (plan.side, plan.port_side, 4, l3 + 12),
        Rewrite::V6(plan) => (plan.side, plan.port_side, 16, l3 + 8),
    };
    let mut fields = Vec::with_capacity(6);
    if size == 4 {
        fields.push(l3 + 10..l3 + 12);
    }
    fields.push(if side.source() { at..at + size } else { at..at });
    fields.push(if side.destination() { at + size..at + 2 * size } else { at..at });
    if !matches!(headers.fragment, Fragment::Later(_)) {
        fields.push(if ports.is_some_and(Side::source) { l4..l4 + 2 } else { l4..l4 });
        fields.push(if ports.is_some_and(Side::destination) { l4 + 2..l4 + 4 } else { l4..l4 });
        let field = l4 + if headers.proto == 6 { 16 } else { 6 };
        fields.push(field..field + 2);
    }
    fields
}

/// Nothing outside `fields`, which are sorted or empty, differs.
pub(crate) fn only_changed(before: &[u8], after: &[u8], fields: &[Range<usize>]) {
    assert_eq!(before.len(), after.len());
    let mut at = 0;
    for field in fields.iter().filter(|field| !field.is_empty()) {
        assert!(before[at..field.start] == after[at..field.start], "changed before {field:?}");
        at = field.end;
    }
    assert!(before[at..] == after[at..], "changed from {at}");
}

/// The checksums cover the same sum as before: whatever was right or wrong
/// about them still is.
fn same_sums(before: &[u8], after: &[u8], headers: &Headers) {
    let (l3, l4, end) = offsets(headers);
    let later = matches!(headers.fragment, Fragment::Later(_));
    let has_sum = match headers.proto {
        _ if later => false,
        6 => true,
        17 => before[l4 + 6..l4 + 8] != [0, 0] && after[l4 + 6..l4 + 8] != [0, 0],
        58 => headers.net == Net::Ipv6,
        _ => false,
    };
    if headers.net == Net::Ipv4 {
        assert_eq!(residue(&before[l3..l4], 0), residue(&after[l3..l4], 0));
    }
    if has_sum {
        let sum = |frame: &[u8]| residue(&frame[l4..end], pseudo(frame, headers));
        assert_eq!(sum(before), sum(after));
    }
}

/// The sum modulo 0xffff.
pub(crate) fn residue(bytes: &[u8], initial: u32) -> u16 {
    match checksum::fold(checksum::sum(bytes, initial)) {
        0xffff => 0,
        sum => sum,
    }
}

/// The pseudo-header's sum.
pub(crate) fn pseudo(frame: &[u8], headers: &Headers) -> u32 {
    let (_, l4, end) = offsets(headers);
    let (src, dst) = (headers.src_addr(frame).unwrap(), headers.dst_addr(frame).unwrap());
    checksum::pseudo(src, dst, headers.proto, (end - l4) as u16).unwrap()
}

pub(crate) fn offsets(headers: &Headers) -> (usize, usize, usize) {
    (usize::from(headers.l3), usize::from(headers.l4), usize::from(headers.end))
}
