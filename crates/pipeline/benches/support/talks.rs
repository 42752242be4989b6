//! Whole talks through the L7 agent: clients and backends that count as TCP does, and say
//! their next sentence in the bursts of many connections.
use std::collections::HashMap;
use std::net::SocketAddr;

use packet::{HeapPacket, PacketBuf};
use wire::Mac;

use crate::segments::{Segment, offer, segment};
use crate::world::{GATEWAY, LB_IN, LB_OUT, Link, at, destination, source};

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;

/// Who sends a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Backend,
}

/// One segment of a talk.
pub(crate) struct Step {
    pub(crate) side: Side,
    flags: u8,
    data: &'static [u8],
}

const fn client(flags: u8, data: &'static [u8]) -> Step {
    Step { side: Side::Client, flags, data }
}

const fn backend(flags: u8, data: &'static [u8]) -> Step {
    Step { side: Side::Backend, flags, data }
}

/// As curl asks.
const GET: &[u8] = b"GET /body0 HTTP/1.1\r\nHost: 10.71.0.100\r\nUser-Agent: curl/7.88.1\r\n\
    Accept: */*\r\n\r\n";
/// As nginx answers for a file without a byte.
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\n\
    Date: Mon, 03 Nov 2025 10:00:00 GMT\r\nContent-Type: application/octet-stream\r\n\
    Content-Length: 0\r\nLast-Modified: Mon, 03 Nov 2025 09:00:00 GMT\r\n\
    Connection: keep-alive\r\nETag: \"69087390-0\"\r\nAccept-Ranges: bytes\r\n\r\n";

/// A connection is opened, and its first request answered.
pub(crate) const FIRST: [Step; 6] = [
    client(SYN, b""),
    client(ACK, b""),
    client(PSH | ACK, GET),
    backend(SYN | ACK, b""),
    backend(PSH | ACK, OK),
    client(ACK, b""),
];

/// Another request of it.
pub(crate) const NEXT: [Step; 3] =
    [client(PSH | ACK, GET), backend(PSH | ACK, OK), client(ACK, b"")];

/// Both sides end it.
pub(crate) const LAST: [Step; 3] =
    [backend(FIN | ACK, b""), client(FIN | ACK, b""), backend(ACK, b"")];

/// The numbers of one side.
#[derive(Default)]
struct Numbers {
    next: u32,
    heard: u32,
}

struct Talk {
    client: String,
    /// The backend, and the Ethernet address at which it got its last packet.
    backend: Option<(String, Mac)>,
    sides: [Numbers; 2],
}

/// The talks of all clients with a VIP.
pub(crate) struct Talks {
    vip: &'static str,
    all: Vec<Talk>,
    of_client: HashMap<SocketAddr, usize>,
}

impl Talks {
    pub(crate) fn new(vip: &'static str) -> Self {
        Self { vip, all: Vec::new(), of_client: HashMap::new() }
    }

    /// A client that has said nothing yet: its number.
    pub(crate) fn add(&mut self, client: String) -> usize {
        self.of_client.insert(at(&client), self.all.len());
        let sides = [Numbers { next: 7_000, heard: 0 }, Numbers { next: 9_000, heard: 0 }];
        self.all.push(Talk { client, backend: None, sides });
        self.all.len() - 1
    }

    /// The segment of `step` that the talk `number` has next.
    pub(crate) fn say(&mut self, number: usize, step: &Step) -> HeapPacket {
        let Talk { client, backend, sides: [up, down] } = &mut self.all[number];
        let own = if step.side == Side::Client { up } else { down };
        let is_syn = step.flags & SYN != 0;
        let segment = Segment {
            seq: own.next,
            ack: if step.flags & ACK != 0 { own.heard } else { 0 },
            flags: step.flags,
            window: if is_syn { 60_000 } else { 900 },
            options: match is_syn {
                true => offer(1400, true, true, Some(7)),
                false => vec![1, 1, 8, 10, 0, 0, 1, 0, 0, 0, 0, 0],
            },
            data: step.data.to_vec(),
        };
        own.next = behind(&segment);
        HeapPacket::new(&match (step.side, backend) {
            (Side::Client, _) => segment.frame(Link::new(GATEWAY, LB_OUT, 60), client, self.vip),
            (Side::Backend, Some((backend, mac))) => {
                segment.frame(Link::new(*mac, LB_IN, 64), backend, client)
            }
            (Side::Backend, None) => panic!("{client} has no backend"),
        })
    }

    /// What the agent has sent reaches its receiver.
    pub(crate) fn hear(&mut self, packet: &HeapPacket) {
        let frame = packet.bytes();
        let is_to_client = frame[..6] == GATEWAY.0;
        let client = if is_to_client { destination(frame) } else { source(frame) };
        let Talk { backend, sides: [up, down], .. } = &mut self.all[self.of_client[&client]];
        let heard = behind(&segment(frame));
        if is_to_client {
            up.heard = heard;
        } else {
            down.heard = heard;
            let mac = Mac(frame[..6].try_into().unwrap());
            *backend = Some((destination(frame).to_string(), mac));
        }
    }
}

/// The number behind a segment.
fn behind(segment: &Segment) -> u32 {
    let own = u32::from(segment.flags & SYN != 0) + u32::from(segment.flags & FIN != 0);
    segment.seq.wrapping_add(segment.data.len() as u32).wrapping_add(own)
}
