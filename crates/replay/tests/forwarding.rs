//! What a rule rewrites and sends on leaves the load balancer without a worker,
//! as the software would have sent it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unreachable_pub)]

use std::net::{Ipv4Addr, SocketAddr};

use dpdk::flow::{Action, Attributes, FlowPort, HopField, Modify, Rule, SetField};
use flow::{CardProfile, PortId};
use packet::PacketBuf;
use replay::{Options, Simulation};
use testkit::ConfigText;
use testkit::segments::{PEER, Segment, frame, seen};
use wire::{FlowKey, Headers, Mac, Rewrite, Transport};

#[test]
fn the_nic_sends_a_rewritten_frame_out_of_the_other_port() {
    let options = Options { nic: Some(CardProfile::ConnectX), ..Options::default() };
    let config = ConfigText::one_port()
        .port("p1", "")
        .interface("p1", &["10.73.0.1/24"], "")
        .web_and_dns("round-robin")
        .table("[workers]", "count = 1")
        .parse();
    let mut simulation = Simulation::new(&config, &options).unwrap();
    let client: SocketAddr = (Ipv4Addr::new(198, 51, 100, 5), 4000).into();
    let vip: SocketAddr = "10.71.0.100:80".parse().unwrap();
    let backend: SocketAddr = "10.73.0.9:8080".parse().unwrap();
    let bytes = frame(Transport::Tcp, client, vip, Segment::Ack, b"hello");

    let next_hop = Mac([2, 0, 0, 0, 7, 7]);
    let set = |field| Action::ModifyField(Modify::Set(field));
    let actions = vec![
        set(SetField::MacDst(next_hop)),
        set(SetField::MacSrc(Mac(PEER))),
        set(SetField::Ipv4Dst(Ipv4Addr::new(10, 73, 0, 9))),
        set(SetField::TcpDport(8080)),
        Action::ModifyField(Modify::Add(HopField::Ipv4Ttl, 255)),
        Action::Count,
        Action::RepresentedPort(1),
    ];
    let flow = FlowKey::new(Transport::Tcp, client, vip).unwrap();
    let attributes = Attributes { transfer: true, ..Attributes::default() };
    let rule = Rule { attributes, ..Rule::five_tuple(&flow, actions) };
    let mut flows = simulation.nic(PortId(0)).unwrap().flows();
    let handle = flows.create(&rule).unwrap();

    assert!(simulation.arrive(PortId(0), &bytes, 1));
    let sent = simulation.take_sent();
    let [sent] = &sent[..] else { panic!("one frame leaves, and no worker has polled") };
    assert_eq!(sent.port, PortId(1));
    let mut expected = bytes.clone();
    let headers = Headers::parse(&expected).unwrap();
    assert!(Rewrite::destination(vip, backend).unwrap().apply(&mut expected, &headers));
    assert!(wire::decrement_ttl(&mut expected, &headers));
    assert!(wire::ethernet::set_macs(&mut expected, next_hop, Mac(PEER)));
    assert_eq!(sent.packet.bytes(), expected);
    let seen = seen(&expected).unwrap();
    assert_eq!((seen.src, seen.dst, seen.ttl), (client, backend, 63));
    assert_eq!(simulation.poll_once(1), 0);
    assert_eq!(simulation.counters()["received"], 0);
    assert_eq!(flows.query(&handle).unwrap().packets, 1);
    assert_eq!(simulation.nic(PortId(0)).unwrap().stats().forwarded, 1);

    // The same packet on the other port, whose NIC has no such rule.
    assert!(simulation.arrive(PortId(1), &bytes, 2));
    assert!(simulation.take_sent().is_empty());
    assert_eq!(simulation.poll_once(1), 1);
}
