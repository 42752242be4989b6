//! What clients, backends and strangers send.
use std::net::IpAddr;

use flow::PortId;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};
use wire::{Headers, Transport};

use super::fleet::{Frame, opened, said};
use super::network::{Client, OWN, Plan, Target, clients};
use testkit::frames::{self, Link, Piece, Shape, Sum};

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// How often the rarer things happen, in thousandths of all packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mix {
    /// TTL 0, 1 or 2.
    pub(crate) expired: u32,
    /// Longer than a link takes.
    pub(crate) oversized: u32,
    /// Frames cut short or with bits turned over.
    pub(crate) damaged: u32,
    /// Ports of clients: few, so that 5-tuples come again.
    pub(crate) ports: u16,
}

/// One connection, or several one after the other with the same 5-tuple.
struct Conversation {
    number: u32,
    target: Target,
    client: Client,
    port: u16,
    /// What last went to the backend, and to the client.
    asked: Option<Frame>,
    answered: Option<Frame>,
    packets: u32,
    life: u32,
}

/// The source of frames.
pub(crate) struct Traffic {
    rng: StdRng,
    mix: Mix,
    targets: Vec<Target>,
    conversations: Vec<Conversation>,
    next: u32,
    /// How often, in thousandths, a connection that is over makes room for
    /// another one; until then its ends go on sending.
    renewed: u32,
    /// Backends open no connections.
    quiet_backends: bool,
}

impl Traffic {
    pub(crate) fn new(plan: &Plan, mix: Mix, conversations: usize, seed: u64) -> Self {
        let mut new = Self {
            rng: StdRng::seed_from_u64(seed),
            mix,
            targets: plan.targets(),
            conversations: Vec::new(),
            next: 0,
            renewed: if plan.one_service { 20 } else { 300 },
            quiet_backends: plan.maglev_only,
        };
        for _ in 0..conversations {
            let fresh = new.conversation();
            new.conversations.push(fresh);
        }
        new
    }

    fn conversation(&mut self) -> Conversation {
        let number = self.next;
        self.next += 1;
        let target = *self.targets.choose(&mut self.rng).unwrap();
        let client = *clients(target.vip.is_ipv6()).choose(&mut self.rng).unwrap();
        let port = 5000 + self.rng.random_range(0..self.mix.ports);
        let life = self.rng.random_range(5..50);
        let (asked, answered) = (None, None);
        Conversation { number, target, client, port, asked, answered, packets: 0, life }
    }

    fn per_mille(&mut self, share: u32) -> bool {
        self.rng.random_range(0..1000) < share
    }

    /// The next frames, in the order in which they come. `moment` goes into
    /// their payload.
    pub(crate) fn next(&mut self, moment: u32) -> Vec<Frame> {
        let at = self.rng.random_range(0..self.conversations.len());
        let talk = &self.conversations[at];
        if talk.packets > talk.life && self.per_mille(self.renewed) {
            self.conversations[at] = self.conversation();
        }
        let mut all = if self.per_mille(50) {
            self.stray(at).into_iter().collect()
        } else {
            self.packet(at, moment)
        };
        for (_, frame) in &mut all {
            if self.per_mille(self.mix.damaged) {
                let before = frame.clone();
                self.damage(frame);
                // ARP has no checksum: another sender's address would be
                // believed, from whichever queue is polled first.
                if is_arp(&before) {
                    *frame = before;
                }
            }
        }
        all
    }

    /// Clients and backends see what came out.
    pub(crate) fn see(&mut self, sent: &[Frame]) {
        for (port, frame) in sent {
            let frame = opened(frame);
            let Some((number, _)) = said(&frame) else { continue };
            let flow = Headers::parse(&frame).ok().and_then(|headers| headers.flow(&frame));
            let talk = self.conversations.iter_mut().find(|talk| talk.number == number);
            let (Some(flow), Some(talk)) = (flow, talk) else { continue };
            let to_client = flow.dst().ip() == talk.client.addr && flow.dst().port() == talk.port;
            let place = if to_client { &mut talk.answered } else { &mut talk.asked };
            *place = Some((*port, frame));
        }
    }

    /// One packet of a conversation, whole or in pieces.
    fn packet(&mut self, at: usize, moment: u32) -> Vec<Frame> {
        let answers = self.conversations[at].asked.is_some() && self.rng.random_bool(0.5);
        let flags = self.flags(at, answers);
        let talk = &mut self.conversations[at];
        talk.packets += 1;
        let (port, link, src, dst) = match &talk.asked {
            Some((port, asked)) if answers => {
                let flow = Headers::parse(asked).unwrap().flow(asked).unwrap();
                (*port, back(asked), flow.dst(), flow.src())
            }
            _ => {
                let Client { addr, vlan, mac } = talk.client;
                let link = Link { src: mac, dst: OWN, vlan };
                (PortId(0), link, (addr, talk.port).into(), talk.target.vip)
            }
        };
        let proto = talk.target.proto;
        let mut payload = [talk.number.to_be_bytes(), moment.to_be_bytes()].concat();
        let in_pieces = self.per_mille(50);
        payload.resize(self.payload_len(in_pieces), 0xab);
        let sum = match self.rng.random_range(0..40) {
            0 => Sum::Wrong,
            1 => Sum::Zero,
            _ => Sum::Right,
        };
        let shape = self.shape(src.is_ipv6());
        let bytes = frames::transport(proto, src, dst, flags, &payload, sum);
        let ends = [src.ip(), dst.ip()];
        if in_pieces {
            let pieces = self.pieces(link, ends, proto, &bytes, &shape);
            return pieces.into_iter().map(|frame| (port, frame)).collect();
        }
        vec![(port, frames::ip(link, ends, proto.number(), &bytes, &shape, None))]
    }

    fn flags(&mut self, at: usize, answers: bool) -> u8 {
        let talk = &self.conversations[at];
        let begins = if answers { talk.answered.is_none() } else { talk.packets == 0 };
        let ends = talk.packets > talk.life;
        match self.rng.random_range(0..1000) {
            0..900 if begins => SYN | if answers { ACK } else { 0 },
            0..400 if ends => FIN | ACK,
            400..430 if ends && !answers => SYN,
            0..10 => RST,
            10..20 => FIN | ACK,
            20..30 if answers => SYN | ACK,
            30..35 if !answers || !self.quiet_backends => SYN,
            35..40 if !answers => SYN | ACK,
            40..45 => 0,
            _ => ACK,
        }
    }

    fn payload_len(&mut self, in_pieces: bool) -> usize {
        if in_pieces {
            return self.rng.random_range(8..200);
        }
        if self.per_mille(self.mix.oversized) {
            return *[1340, 1460, 1473, 2500, 9000].choose(&mut self.rng).unwrap();
        }
        self.rng.random_range(8..90)
    }

    fn shape(&mut self, v6: bool) -> Shape {
        let ttl = if self.per_mille(self.mix.expired) { self.rng.random_range(0..3) } else { 64 };
        let options = if self.per_mille(50) { self.rng.random_range(1..=10) } else { 0 };
        let mut extensions = Vec::new();
        if v6 && self.per_mille(100) {
            let most = if self.per_mille(50) { 12 } else { 3 };
            let count = self.rng.random_range(1..=most);
            extensions = (0..count).map(|at| frames::extension(at % 2 + 1)).collect();
            if self.rng.random_bool(0.3) {
                let place = if self.rng.random_bool(0.8) { 0 } else { extensions.len() };
                extensions.insert(place, frames::extension(0));
            }
        }
        let padding = if self.per_mille(100) { self.rng.random_range(1..40) } else { 0 };
        Shape { ttl, options, extensions, dont_fragment: self.rng.random_bool(0.5), padding }
    }

    /// The pieces of one datagram in any order, some lost and some twice.
    fn pieces(
        &mut self,
        link: Link,
        ends: [IpAddr; 2],
        proto: Transport,
        bytes: &[u8],
        shape: &Shape,
    ) -> Vec<Vec<u8>> {
        // A piece of 16 bytes divides a TCP header.
        let size = *[16, 24, 64, 64, 64, 128].choose(&mut self.rng).unwrap();
        let id = self.rng.random_range(0..50);
        let count = bytes.len().div_ceil(size);
        let mut order: Vec<usize> = (0..count).collect();
        if self.rng.random_bool(0.6) {
            order.shuffle(&mut self.rng);
        }
        if self.rng.random_bool(0.2) {
            order.pop();
        }
        if self.rng.random_bool(0.1) {
            order.extend(order.first().copied());
        }
        let piece = |at: usize| {
            let part = &bytes[at * size..bytes.len().min((at + 1) * size)];
            let piece = Piece { offset: at * size, more: at + 1 < count, id };
            frames::ip(link, ends, proto.number(), part, shape, Some(piece))
        };
        order.into_iter().map(piece).collect()
    }

    /// Something that is no packet of a connection.
    fn stray(&mut self, at: usize) -> Option<Frame> {
        let Conversation { target, client, asked, answered, .. } = &self.conversations[at];
        let link = Link { src: client.mac, dst: OWN, vlan: client.vlan };
        let (outside, vip) = (PortId(0), target.vip.ip());
        let ends = [client.addr, vip];
        let v6 = vip.is_ipv6();
        let shape = Shape { ttl: 64, ..Shape::default() };
        let group = Link { dst: if v6 { [0x33, 0x33, 0, 0, 0, 1] } else { [0xff; 6] }, ..link };
        match self.rng.random_range(0..8) {
            0 => {
                let kind = if v6 { 128 } else { 8 };
                Some((outside, frames::icmp(link, ends, [kind, 0, 0, 1, 0, 2], b"echo", &shape)))
            }
            1 if v6 => Some((outside, frames::ndp(group, 135, ends, vip))),
            1 => Some((outside, frames::arp(group, 1, ends))),
            2 if v6 => Some((outside, frames::ndp(link, 136, ends, client.addr))),
            2 => Some((outside, frames::arp(link, 2, ends))),
            which @ 3..7 => {
                let (port, frame) = if which < 5 { asked } else { answered }.as_ref()?;
                let headers = Headers::parse(frame).ok()?;
                let router = if v6 { "2001:db8:9::1" } else { "192.0.2.1" };
                let from = match which % 2 {
                    0 => router.parse().unwrap(),
                    _ => headers.dst_addr(frame)?,
                };
                let too_big = self.rng.random_bool(0.5);
                Some((*port, frames::complaint(back(frame), frame, from, too_big)?))
            }
            // Of a protocol that nobody balances, or to another station.
            _ if self.rng.random_bool(0.5) => {
                Some((outside, frames::ip(link, ends, 47, b"tunnel..", &shape, None)))
            }
            _ => {
                let other = Link { dst: [2, 0, 0, 0, 0, 2], ..link };
                let tcp = [target.vip.port().to_be_bytes(); 10].concat();
                Some((outside, frames::ip(other, ends, 6, &tcp, &shape, None)))
            }
        }
    }

    /// Whether byte `at` says who has which Ethernet address.
    fn tells_address(&self, frame: &[u8], at: usize) -> bool {
        let Ok(headers) = Headers::parse(frame) else { return true };
        let l3 = usize::from(headers.l3);
        let sender = match headers.net {
            wire::Net::Ipv4 => l3 + 12..l3 + 16,
            wire::Net::Ipv6 => l3 + 8..l3 + 24,
            _ => 12..frame.len(),
        };
        let answer = headers.proto == wire::numbers::protocol::ICMPV6 && at >= 12;
        (6..12).contains(&at) || sender.contains(&at) || answer
    }

    /// Cuts `frame` short or turns over one to three of its first bits.
    fn damage(&mut self, frame: &mut Vec<u8>) {
        if self.rng.random_bool(0.3) {
            frame.truncate(self.rng.random_range(0..frame.len()));
            return;
        }
        for _ in 0..self.rng.random_range(1..4) {
            let bit = self.rng.random_range(0..frame.len().min(80) * 8);
            // Who sent it stays: cards learn only after the keeper's turn that
            // a next hop has another address.
            if !self.tells_address(frame, bit / 8) {
                frame[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }
}

fn is_arp(frame: &[u8]) -> bool {
    matches!(frame.get(12..18), Some([8, 6, ..] | [0x81, 0, _, _, 8, 6]))
}

/// The link of an answer to `frame`.
fn back(frame: &[u8]) -> Link {
    let mac = |at: usize| frame[at..at + 6].try_into().unwrap();
    let vlan = Headers::parse(frame).unwrap().vlan;
    Link { src: mac(0), dst: mac(6), vlan }
}
