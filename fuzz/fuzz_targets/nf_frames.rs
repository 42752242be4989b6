//! Any bytes as frames of ports and of network functions: nothing leaves by a port that
//! isn't there, a function's garbage leaves by none, and the counters add up.
#![no_main]

use balance::Settings as Balance;
use nf::{
    AllDown, Drop, Hash, Middlebox, Outbox, Settings, Silence, Stamp, Streams, Tagging, Traffic,
};
use packet::{HeapPacket, PacketBuf};

#[derive(Default)]
struct Out {
    ports: u64,
    functions: Vec<(u16, HeapPacket)>,
}

impl Outbox<HeapPacket> for Out {
    fn to_port(&mut self, port: u8, _: HeapPacket) {
        assert!(port < 2);
        self.ports += 1;
    }

    fn to_function(&mut self, function: u16, packet: HeapPacket) {
        self.functions.push((function, packet));
    }
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let settings = Settings {
        streams: Streams::new(2, &[(0, 1)]).unwrap(),
        functions: vec![Tagging::Mac, Tagging::Vlan],
        balance: Balance { cpus: 2, buckets: 8, ..Balance::default() },
        map: None,
        hash: if data.len() % 2 == 0 { Hash::Symmetric } else { Hash::Thesis },
        stamp: if data.len() % 3 == 0 { Stamp::Side } else { Stamp::Identification },
        traffic: Traffic::default(),
        silence: Silence::default(),
        all_down: AllDown::Pass,
    };
    let mut server = Middlebox::new(settings).unwrap();
    let mut out = Out::default();
    server.set_link(0, true, 0, &mut out);
    server.set_link(1, true, 0, &mut out);
    let mut now_ns = 1;
    for frame in data.split(|byte| *byte == 0xa5) {
        now_ns += 300_000;
        server.from_port(frame.len() as u8 % 3, HeapPacket::new(frame), now_ns, &mut out);
        let sent = out.ports;
        server.from_function(frame.len() as u16 % 3, HeapPacket::new(frame), now_ns, &mut out);
        assert_eq!(out.ports, sent, "a function can't guess a tag that is away");
        // The function changes a byte of what it has.
        if let Some((function, mut packet)) = out.functions.pop() {
            if let (Some(byte), Some(first)) = (packet.bytes_mut().last_mut(), frame.first()) {
                *byte ^= first;
            }
            server.from_function(function, packet, now_ns, &mut out);
        }
        server.advance(now_ns, &mut out);
    }
    let functions: Vec<_> = (0..2).map(|one| *server.function(one).unwrap().1).collect();
    let ports: Vec<_> = (0..2).map(|one| *server.port(one).unwrap()).collect();
    let before = Drop::ALL.into_iter().filter(|name| name.is_before_function());
    let before: u64 = before.map(|name| server.dropped(name)).sum();
    let received: u64 = ports.iter().map(|port| port.in_packets).sum();
    let to: u64 = functions.iter().map(|one| one.to_packets).sum();
    let passed: u64 = ports.iter().map(|port| port.passed).sum();
    assert_eq!(received + server.dropped(Drop::NoPort), to + passed + server.held() + before);
});
