//! What must hold for any bytes at all: answers, errors and quoted packets.
//! The fuzz targets and the tests run the same code.
use std::net::{Ipv4Addr, Ipv6Addr};

use packet::{HeapPacket, PacketBuf};
use wire::icmp::{ErrorKind, MAX_ERROR_LEN, answer_message, echo_reply_in_place, error_into};
use wire::pieces::{Outer, Pieces};
use wire::quoted::{Quoted, Translation, rewrite_quoted};
use wire::{Headers, Mac, Net, TcpFlags, arp, ndp, reset, vlan};

use super::checks::{news, offsets, only_changed, pseudo, residue};

/// Quoted packets are translated within their quote, and errors are only made
/// about what may be told.
pub(crate) fn icmp_error(data: &[u8]) {
    let Ok(headers) = Headers::parse(data) else { return };
    if let Some(quoted) = Quoted::parse(data, &headers) {
        translate(data, &headers, &quoted);
    }
    echo(data, &headers);
    complain(data, &headers);
    reset(data, &headers);
}

/// A RST is a whole segment with right checksums, or nothing has happened.
fn reset(data: &[u8], headers: &Headers) {
    for make in [reset::answer_in_place, reset::replace_in_place] {
        let mut frame = data.to_vec();
        let Some(length) = make(&mut frame, headers) else {
            assert!(frame == data);
            continue;
        };
        frame.truncate(length);
        let made = Headers::parse(&frame).unwrap();
        let (_, l4, end) = offsets(&made);
        assert_eq!((end, end - l4), (length, 20));
        assert!(made.check(&frame, false).is_ok() && made.tcp_flags.any(TcpFlags::RST));
        assert!(made.transport_checksum_is_right(&frame));
        assert_eq!(make(&mut frame, &made), None);
    }
}

fn translate(data: &[u8], headers: &Headers, quoted: &Quoted) {
    let (l3, l4, end) = offsets(headers);
    let (inner_l3, inner_l4, inner_end) = offsets(&quoted.headers);
    let v4 = headers.net == Net::Ipv4;
    let (src, dst) = news(v4, data.len());
    let pick = usize::from(data[0]);
    let to = Translation {
        quoted_src: (pick & 1 == 0).then_some(src),
        quoted_dst: (pick & 2 == 0).then_some(dst),
        quoted_sequence: None,
        src: (pick & 4 == 0).then_some(src.ip()),
        dst: (pick & 8 == 0).then_some(dst.ip()),
    };
    let mut frame = data.to_vec();
    assert!(rewrite_quoted(&mut frame, headers, quoted, &to));
    let (ip, size) = if v4 { (10, 10) } else { (8, 32) };
    let field = inner_l4 + if quoted.headers.proto == 6 { 16 } else { 6 };
    let field = if field + 2 <= inner_end { field..field + 2 } else { 0..0 };
    only_changed(
        data,
        &frame,
        &[
            l3 + ip..l3 + ip + size,
            l4 + 2..l4 + 4,
            inner_l3 + ip..inner_l3 + ip + size,
            inner_l4..inner_l4 + 4,
            field,
        ],
    );
    let after = Quoted::parse(&frame, headers).unwrap();
    assert_eq!(after.headers, quoted.headers);
    assert_eq!(after.flow.src(), to.quoted_src.unwrap_or(quoted.flow.src()));
    assert_eq!(after.flow.dst(), to.quoted_dst.unwrap_or(quoted.flow.dst()));
    assert_eq!(Headers::parse(&frame), Ok(*headers));
    let sum = |frame: &[u8]| residue(&frame[l4..end], if v4 { 0 } else { pseudo(frame, headers) });
    assert_eq!(sum(data), sum(&frame));
    if v4 {
        for part in [l3..l4, inner_l3..inner_l4] {
            assert_eq!(residue(&data[part.clone()], 0), residue(&frame[part], 0));
        }
    }
    let (_, other) = news(!v4, 1);
    let wrong = Translation { dst: Some(other.ip()), ..to };
    frame.copy_from_slice(data);
    assert!(!rewrite_quoted(&mut frame, headers, quoted, &wrong) && frame == data);
    let half = data.len() / 2;
    let _ = rewrite_quoted(&mut frame[..half], headers, quoted, &to);
    assert!(frame[half..] == data[half..]);
}

fn echo(data: &[u8], headers: &Headers) {
    let (l3, l4, end) = offsets(headers);
    let mut frame = data.to_vec();
    if !echo_reply_in_place(&mut frame, headers, 7) {
        assert!(frame == data);
        return;
    }
    only_changed(data, &frame, &[0..12, l3..l4, l4..l4 + 4]);
    let answered = Headers::parse(&frame).unwrap();
    assert_eq!(offsets(&answered), (l3, l4, end));
    assert_eq!(answered.dst_addr(&frame), headers.src_addr(data));
    assert_eq!(answered.src_addr(&frame), headers.dst_addr(data));
    checksums_are_right(&frame, &answered);
    assert!(!echo_reply_in_place(&mut frame, &answered, 7));
    pieces(data, headers, &frame[l4..end]);
}

/// The answer in pieces carries the same bytes.
fn pieces(data: &[u8], headers: &Headers, message: &[u8]) {
    let (_, l4, end) = offsets(headers);
    let mut apart = data[l4..end].to_vec();
    let (src, dst) = (headers.src_addr(data).unwrap(), headers.dst_addr(data).unwrap());
    assert!(answer_message(&mut apart, src, dst) && apart == message);
    let mtu = 68 + (data[0] & 15) as u16;
    let outer = Outer { src: dst, dst: src, proto: headers.proto, traffic_class: 0, id: 9, mtu };
    let mut pieces = Pieces::new(outer, &apart).unwrap();
    let (mut frame, mut whole) = (data[..12].to_vec(), Vec::new());
    while let Some(length) = pieces.next_len() {
        frame.truncate(12);
        frame.extend(if src.is_ipv4() { [8, 0] } else { [0x86, 0xdd] });
        frame.resize(14 + length, 0);
        assert_eq!(pieces.write(&mut frame[14..]), Some(length));
        assert!(length <= usize::from(mtu));
        let piece = Headers::parse(&frame).unwrap();
        let (offset, more) = piece.place(&frame).unwrap_or((0, false));
        assert_eq!((offset, more), (whole.len(), pieces.next_len().is_some()));
        whole.extend_from_slice(&frame[usize::from(piece.l4)..]);
    }
    assert!(whole == apart);
}

fn complain(data: &[u8], headers: &Headers) {
    let mut buf = [0xa5; MAX_ERROR_LEN + 1];
    let from = match headers.net {
        Net::Ipv4 => Ipv4Addr::new(192, 0, 2, 1).into(),
        _ => Ipv6Addr::LOCALHOST.into(),
    };
    let kind = match data.len() % 3 {
        0 => ErrorKind::TimeExceeded,
        1 => ErrorKind::PortUnreachable,
        _ => ErrorKind::TooBig { mtu: 1400 },
    };
    let (space, beyond) = buf.split_at_mut(MAX_ERROR_LEN);
    let Some(len) = error_into(space, data, headers, kind, from) else {
        assert!(space == [0xa5; MAX_ERROR_LEN]);
        return;
    };
    assert_eq!(beyond, [0xa5]);
    let error = &space[..len];
    let about = Headers::parse(error).unwrap();
    let (l3, l4, end) = offsets(&about);
    assert_eq!((end, about.vlan), (len, headers.vlan));
    assert!(end - l3 <= if about.net == Net::Ipv4 { 576 } else { 1280 });
    assert_eq!(about.dst_addr(error), headers.src_addr(data));
    checksums_are_right(error, &about);
    let quote = &error[l4 + 8..];
    let original = &data[offsets(headers).0..offsets(headers).2];
    assert!(original.starts_with(quote));
    assert!(quote.len() == original.len() || end - l3 == 576 || end - l3 == 1280);
    assert_eq!(Quoted::parse(error, &about).map(|q| q.flow), headers.flow(data));
    let mut second = [0; MAX_ERROR_LEN];
    assert_eq!(error_into(&mut second, error, &about, kind, from), None);
    let needed = len - 1;
    assert_eq!(error_into(&mut second[..needed], data, headers, kind, from), None);
}

fn checksums_are_right(frame: &[u8], headers: &Headers) {
    let (l3, l4, end) = offsets(headers);
    if headers.net == Net::Ipv4 {
        assert_eq!(residue(&frame[l3..l4], 0), 0);
        assert_eq!(residue(&frame[l4..end], 0), 0);
    } else {
        assert_eq!(residue(&frame[l4..end], pseudo(frame, headers)), 0);
    }
}

const MAC: Mac = Mac([2, 0, 0, 0, 0, 9]);

/// Neighbours get proper answers to proper questions; tags come and go.
pub(crate) fn ndp_arp(data: &[u8]) {
    let Ok(mut headers) = Headers::parse(data) else { return };
    let mut frame = data.to_vec();
    let asked = arp::Repr::parse(data, &headers);
    let answered = arp::reply_in_place(&mut frame, &headers, MAC);
    assert_eq!(answered, asked.is_some_and(|repr| repr.operation == arp::REQUEST));
    if let (true, Some(asked)) = (answered, asked) {
        let l3 = usize::from(headers.l3);
        only_changed(data, &frame, &[0..12, l3 + 6..l3 + 28]);
        assert_eq!(Headers::parse(&frame), Ok(headers));
        let (_, l4, _) = offsets(&headers);
        assert_eq!(frame[l4 - 4..l4], asked.sender.octets());
        assert!(!arp::reply_in_place(&mut frame, &headers, MAC));
    } else {
        assert!(frame == data);
    }
    if let Ok(ndp::Repr::Solicitation(asked)) = ndp::Repr::parse(data, &headers) {
        let answer = ndp::advertise(&asked, MAC, false);
        let parsed = Headers::parse(&answer).unwrap();
        let Ok(ndp::Repr::Advertisement(told)) = ndp::Repr::parse(&answer, &parsed) else {
            panic!("an invalid advertisement");
        };
        assert_eq!((told.target, told.target_link), (asked.target, Some(MAC)));
        assert_eq!(told.solicited, !asked.source.is_unspecified());
    }
    tag(data, &mut headers);
}

fn tag(data: &[u8], headers: &mut Headers) {
    let before = *headers;
    let mut packet = HeapPacket::new(data);
    for id in [None, Some(9), Some(10), before.vlan] {
        assert!(vlan::set(&mut packet, headers, id));
        if id.is_some() || !matches!(headers.net, Net::Other(0x8100)) {
            assert_eq!(Headers::parse(packet.bytes()), Ok(*headers));
        }
    }
    assert!(packet.bytes()[..12] == data[..12]);
    let l3 = usize::from(before.l3);
    assert!(packet.bytes()[l3 - 2..] == data[l3 - 2..]);
}
