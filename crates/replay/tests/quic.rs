//! QUIC clients that change their address, from the configuration to the frames.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unreachable_pub)]

use std::net::SocketAddr;

use flow::PortId;
use packet::PacketBuf;
use replay::{Options, Simulation};
use testkit::ConfigText;
use testkit::segments::{Segment, frame, seen};
use wire::Transport::Udp;

/// draft-ietf-quic-load-balancers-21, appendix B.2: server id `ed793a51d49b8f5f`.
const CONNECTION_ID: [u8; 17] = [
    0x50, 0x4d, 0xd2, 0xd0, 0x5a, 0x7b, 0x0d, 0xe9, 0xb2, 0xb9, 0x90, 0x7a, 0xfb, 0x5e, 0xcf, 0x8c,
    0xc3,
];

fn simulation(mode: &str) -> Simulation {
    let quic = "affinity = \"quic-cid\"\nquic = [{ rotation = 2, server_id_length = 8, nonce_length = 8, key = \"8f95f09245765f80256934e50c66207f\" }]";
    let more = format!("scheduler = \"round-robin\"\n{quic}\n{mode}");
    let mut text = ConfigText::one_port().service("h3", "10.71.0.100", Some(443), Udp, &more);
    for host in 11..15 {
        let id = if host == 13 { "ed793a51d49b8f5f".to_owned() } else { format!("{host:016x}") };
        let id = format!("server_ids = [\"{id}\"]");
        text = text.backend(format!("10.72.0.{host}"), None, &id);
    }
    if mode.contains("fullnat") {
        text = text.table("[[pool]]", "name = \"snat\"\naddresses = [\"10.72.0.200\"]");
    }
    let config = text.table("[workers]", "count = 1").parse();
    Simulation::new(&config, &Options::default()).unwrap()
}

fn send(
    simulation: &mut Simulation,
    from: &str,
    to: &str,
    payload: &[u8],
) -> (SocketAddr, SocketAddr) {
    let bytes = frame(Udp, from.parse().unwrap(), to.parse().unwrap(), Segment::Ack, payload);
    assert!(simulation.arrive(PortId(0), &bytes, 1_000_000));
    simulation.poll(1);
    let sent = simulation.take_sent();
    assert_eq!(sent.len(), 1, "{:?}", simulation.counters());
    let seen = seen(sent[0].packet.bytes()).unwrap();
    assert_eq!(seen.payload, payload);
    (seen.src, seen.dst)
}

#[test]
fn a_client_keeps_its_backend_with_a_new_address() {
    let vip = "10.71.0.100:443";
    let moved = [&[0x40], &CONNECTION_ID[..], &[1; 40]].concat();
    let initial = [&[0xc0, 0, 0, 0, 1, 17], &CONNECTION_ID[..], &[1; 1200 - 23]].concat();
    for mode in ["", "mode = \"fullnat\"\npool = \"snat\""] {
        let mut simulation = simulation(mode);
        for (n, client) in
            ["198.51.100.5:5000", "198.51.100.5:5001", "203.0.113.9:6000"].iter().enumerate()
        {
            // The client has chosen an Initial's id: it says nothing.
            let other = format!("192.0.2.{}:7000", 1 + n);
            let (_, first) = send(&mut simulation, &other, vip, &initial);
            assert_eq!(first.ip().to_string(), format!("10.72.0.1{}", 1 + n), "its turn");
            let (local, server) = send(&mut simulation, client, vip, &moved);
            assert_eq!(server.to_string(), "10.72.0.13:443");
            let (back, to) =
                send(&mut simulation, &server.to_string(), &local.to_string(), b"answer");
            assert_eq!((back.to_string(), to.to_string()), (vip.to_owned(), (*client).to_owned()));
        }
        assert_eq!(simulation.counters()["quic_named"], 3);
    }
}
