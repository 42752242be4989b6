//! Connections between ends that an earlier one has used: the peer may still have that.
#![allow(clippy::unwrap_used)]
use std::net::SocketAddr;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    IpAddress, IpProtocol, IpRepr, Ipv4Packet, Ipv6Packet, TcpControl, TcpPacket, TcpRepr,
    TcpSeqNumber,
};
use terminate::{Buffers, Endpoint, Stack, Stage};

const BUFFERS: Buffers = Buffers { receive: 65_536, send: 65_536 };

/// The ends of a connection, ours first.
fn ends(v6: bool) -> [SocketAddr; 2] {
    let text =
        if v6 { ["[fd00::1]:4000", "[fd00::2]:80"] } else { ["10.0.0.1:4000", "10.0.0.2:80"] };
    text.map(|own| own.parse().unwrap())
}

/// What a packet of `Stack` says.
fn read(packet: &[u8]) -> TcpRepr<'_> {
    let (from, to, data): (IpAddress, IpAddress, &[u8]) = match packet.first().unwrap() >> 4 {
        4 => {
            let ip = Ipv4Packet::new_checked(packet).unwrap();
            (ip.src_addr().into(), ip.dst_addr().into(), ip.payload())
        }
        _ => {
            let ip = Ipv6Packet::new_checked(packet).unwrap();
            (ip.src_addr().into(), ip.dst_addr().into(), ip.payload())
        }
    };
    let tcp = TcpPacket::new_checked(data).unwrap();
    TcpRepr::parse(&tcp, &from, &to, &ChecksumCapabilities::default()).unwrap()
}

/// A packet from the peer to us.
fn packet([own, peer]: [SocketAddr; 2], numbers: [i32; 2], control: TcpControl) -> Vec<u8> {
    let tcp = TcpRepr {
        src_port: peer.port(),
        dst_port: own.port(),
        control,
        seq_number: TcpSeqNumber(numbers[0]),
        ack_number: Some(TcpSeqNumber(numbers[1])),
        window_len: 1_000,
        window_scale: None,
        max_seg_size: None,
        sack_permitted: false,
        sack_ranges: [None; 3],
        timestamp: None,
        payload: &[],
    };
    let (from, to) = (IpAddress::from(peer.ip()), IpAddress::from(own.ip()));
    let ip = IpRepr::new(from, to, IpProtocol::Tcp, tcp.buffer_len(), 64);
    let mut packet = vec![0; ip.buffer_len()];
    ip.emit(&mut packet, &ChecksumCapabilities::default());
    let data = packet.get_mut(ip.header_len()..).unwrap();
    tcp.emit(&mut TcpPacket::new_unchecked(data), &from, &to, &ChecksumCapabilities::default());
    packet
}

fn outgoing(stack: &mut Stack) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| stack.outgoing()).collect()
}

#[test]
fn a_peer_in_time_wait_gets_a_reset_that_it_believes_and_the_syn_again() {
    for v6 in [false, true] {
        for other in [1_000, -1_000, i32::MAX] {
            let ends = ends(v6);
            let mut stack = Stack::connect(ends, BUFFERS, 1_500, 7).unwrap();
            stack.poll(1);
            let [syn] = outgoing(&mut stack).try_into().unwrap();
            let first = read(&syn).seq_number.0;
            let acknowledged = first.wrapping_add(other);
            stack.take(packet(ends, [5_000, acknowledged], TcpControl::None));
            stack.poll(2);
            let sent = outgoing(&mut stack);
            assert_eq!(sent.len(), 2, "{sent:?}");
            let reset = read(&sent[0]);
            assert_eq!((reset.control, reset.seq_number.0), (TcpControl::Rst, acknowledged));
            assert_eq!(sent[1], syn);
            // Whoever goes on so gets no more than the timer gives.
            stack.take(packet(ends, [5_000, acknowledged], TcpControl::None));
            stack.poll(3);
            assert_eq!(outgoing(&mut stack).len(), 1);
            stack.take(packet(ends, [9_000, first.wrapping_add(1)], TcpControl::Syn));
            stack.poll(4);
            assert_eq!(stack.stage(), Stage::Open);
        }
    }
}

#[test]
fn a_connection_that_is_given_up_does_not_begin_again() {
    let mut stack = Stack::connect(ends(false), BUFFERS, 1_500, 7).unwrap();
    stack.poll(1);
    let _ = outgoing(&mut stack);
    stack.abort();
    stack.poll(2);
    let sent = outgoing(&mut stack);
    assert!(sent.iter().all(|own| read(own).control == TcpControl::Rst), "{sent:?}");
}
