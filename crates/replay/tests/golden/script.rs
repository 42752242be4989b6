//! What arrives: conversations of three clients with both services, answers
//! where there are any, and a packet of everything that is not as usual.
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use capture::Captured;
use flow::PortId;
use packet::PacketBuf;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use replay::{Options, Simulation};
use wire::{Headers, Transport};

use super::case::{CLIENT_VLAN, Case};
use testkit::frames::{self, Link, Piece, Shape, Sum};

/// The load balancer's Ethernet address.
const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const PSH: u8 = 8;
const ACK: u8 = 16;

/// Milliseconds between two frames: the keeper has turns enough to create a
/// connection's rules before its next packet but one.
const GAP_MS: u64 = 3;

/// The frames that arrive, with their times. Answers depend on where the load
/// balancer has sent a connection, so one without a card takes part.
pub(crate) fn frames(case: &Case) -> Vec<Captured> {
    let mut script = Script {
        case: *case,
        simulation: Simulation::new(&case.config(), &Options::default()).unwrap(),
        rng: StdRng::seed_from_u64(10),
        now_ms: 0,
        arrived: Vec::new(),
    };
    script.neighbours();
    let mut known = Vec::new();
    for client in 0..3 {
        known.push(script.tcp(client));
        known.push(script.udp(client));
    }
    for _ in 0..4 {
        known.iter().for_each(|talk| script.both_ways(talk));
    }
    script.unusual(&known[0], &known[1]);
    script.pieces(&known[1]);
    script.errors(&known);
    script.strangers();
    script.close(&known[0]);
    script.reset(&known[2]);
    known.iter().for_each(|talk| script.both_ways(talk));
    script.arrived
}

/// A connection: its client, and the last frame that its backend got.
struct Talk {
    proto: Transport,
    link: Link,
    client: SocketAddr,
    asked: Option<Vec<u8>>,
}

struct Script {
    case: Case,
    simulation: Simulation,
    rng: StdRng,
    now_ms: u64,
    arrived: Vec<Captured>,
}

impl Script {
    /// A frame arrives; what leaves.
    fn arrive(&mut self, frame: Vec<u8>) -> Vec<Vec<u8>> {
        for _ in 0..GAP_MS {
            self.now_ms += 1;
            self.simulation.keep(self.now_ms);
        }
        assert!(self.simulation.arrive(PortId(0), &frame, self.now_ms * 1_000_000));
        self.simulation.poll(self.now_ms);
        // Far from the epoch, as captures are.
        let time = Duration::from_secs(1_700_000_000) + Duration::from_millis(self.now_ms);
        let number = self.arrived.len() as u64 + 1;
        self.arrived.push(Captured { number, time, interface: 0, frame });
        let sent = self.simulation.take_sent().into_iter();
        sent.map(|sent| sent.packet.bytes().to_vec()).collect()
    }

    fn payload(&mut self) -> Vec<u8> {
        let len = self.rng.random_range(0..120);
        (0..len).map(|_| self.rng.random()).collect()
    }

    fn link(&self, client: usize) -> Link {
        let vlan = (client == 2).then_some(CLIENT_VLAN);
        Link { src: [2, 0, 0, 0, 9, client as u8], dst: OWN, vlan }
    }

    fn shape() -> Shape {
        Shape { ttl: 64, dont_fragment: true, ..Shape::default() }
    }

    /// A packet of the client.
    fn ask(&mut self, talk: &mut Talk, flags: u8, payload: &[u8]) {
        let vip = self.case.vip(talk.proto);
        let bytes = frames::transport(talk.proto, talk.client, vip, flags, payload, Sum::Right);
        let ends = [talk.client.ip(), vip.ip()];
        let frame = frames::ip(talk.link, ends, talk.proto.number(), &bytes, &Self::shape(), None);
        if let [sent] = &self.arrive(frame)[..] {
            talk.asked = Some(sent.clone());
        }
    }

    /// The backend's answer, if it comes this way; what becomes of it.
    fn answer(&mut self, talk: &Talk, flags: u8, payload: &[u8]) -> Option<Vec<u8>> {
        let asked = talk.asked.as_ref().filter(|_| self.case.has_answers())?;
        let flow = Headers::parse(asked).unwrap().flow(asked).unwrap();
        let bytes =
            frames::transport(talk.proto, flow.dst(), flow.src(), flags, payload, Sum::Right);
        let ends = [flow.dst().ip(), flow.src().ip()];
        let link = Link { src: asked[..6].try_into().unwrap(), dst: OWN, vlan: None };
        let frame = frames::ip(link, ends, talk.proto.number(), &bytes, &Self::shape(), None);
        self.arrive(frame).pop()
    }

    fn tcp(&mut self, client: usize) -> Talk {
        let port = self.rng.random_range(1024..60_000);
        let address = SocketAddr::new(self.case.clients()[client], port);
        let link = self.link(client);
        let mut talk = Talk { proto: Transport::Tcp, link, client: address, asked: None };
        self.ask(&mut talk, SYN, &[]);
        self.answer(&talk, SYN | ACK, &[]);
        self.ask(&mut talk, ACK, &[]);
        talk
    }

    fn udp(&mut self, client: usize) -> Talk {
        let port = self.rng.random_range(1024..60_000);
        let address = SocketAddr::new(self.case.clients()[client], port);
        let link = self.link(client);
        let mut talk = Talk { proto: Transport::Udp, link, client: address, asked: None };
        let payload = self.payload();
        self.ask(&mut talk, 0, &payload);
        talk
    }

    /// Data in both directions.
    fn both_ways(&mut self, talk: &Talk) {
        let mut talk = Talk { asked: talk.asked.clone(), ..*talk };
        let payload = self.payload();
        self.ask(&mut talk, ACK | PSH, &payload);
        let payload = self.payload();
        self.answer(&talk, ACK | PSH, &payload);
    }

    /// Both ends say FIN.
    fn close(&mut self, talk: &Talk) {
        let mut talk = Talk { asked: talk.asked.clone(), ..*talk };
        self.ask(&mut talk, FIN | ACK, &[]);
        self.answer(&talk, FIN | ACK, &[]);
        self.ask(&mut talk, ACK, &[]);
    }

    fn reset(&mut self, talk: &Talk) {
        let mut talk = Talk { asked: talk.asked.clone(), ..*talk };
        self.ask(&mut talk, RST, &[]);
    }

    /// Packets of known connections that are not as usual.
    fn unusual(&mut self, tcp: &Talk, udp: &Talk) {
        let v6 = self.case.v6;
        let usual = Self::shape();
        let options = if v6 { 0 } else { 2 };
        let extensions = if v6 { vec![frames::extension(0), frames::extension(2)] } else { vec![] };
        let shapes = [
            Shape { ttl: 1, ..usual.clone() },
            Shape { ttl: 2, ..usual.clone() },
            Shape { options, extensions, ..usual.clone() },
            Shape { padding: 7, ..usual.clone() },
            Shape { dont_fragment: false, ..usual.clone() },
        ];
        for talk in [tcp, udp] {
            for shape in &shapes {
                self.shaped(talk, shape, Sum::Right, 12);
            }
            self.shaped(talk, &usual, Sum::Wrong, 12);
            self.shaped(talk, &usual, Sum::Zero, 12);
            // Too long for a tunnel, but not for the link.
            let longest = 1500 - if v6 { 40 } else { 20 } - 20;
            self.shaped(talk, &usual, Sum::Right, longest);
        }
        let cut = self.shaped(tcp, &usual, Sum::Right, 12).len();
        for len in [cut - 13, 14 + if v6 { 40 } else { 20 } + 3, 20] {
            self.damaged(tcp, |frame| frame.truncate(len));
        }
        self.damaged(tcp, |frame| frame[5] ^= 0x10);
        self.damaged(tcp, |frame| frame[if v6 { 18 } else { 16 }] = 0xff);
        self.damaged(tcp, |frame| frame[14] ^= 0x30);
        self.damaged(tcp, |frame| {
            frame.splice(12..12, [0x81, 0, 0, 99]);
        });
    }

    fn frame(&mut self, talk: &Talk, shape: &Shape, sum: Sum, len: usize) -> Vec<u8> {
        let vip = self.case.vip(talk.proto);
        let payload: Vec<u8> = (0..len).map(|_| self.rng.random()).collect();
        let bytes = frames::transport(talk.proto, talk.client, vip, ACK, &payload, sum);
        let ends = [talk.client.ip(), vip.ip()];
        frames::ip(talk.link, ends, talk.proto.number(), &bytes, shape, None)
    }

    fn shaped(&mut self, talk: &Talk, shape: &Shape, sum: Sum, len: usize) -> Vec<u8> {
        let frame = self.frame(talk, shape, sum, len);
        self.arrive(frame.clone());
        frame
    }

    fn damaged(&mut self, talk: &Talk, damage: impl FnOnce(&mut Vec<u8>)) {
        let mut frame = self.frame(talk, &Self::shape(), Sum::Right, 12);
        damage(&mut frame);
        self.arrive(frame);
    }

    /// A datagram in three pieces in order, another one's last piece first, and
    /// a piece without any other.
    fn pieces(&mut self, talk: &Talk) {
        for (id, order) in [(1, &[0, 1, 2][..]), (2, &[2, 0, 1]), (3, &[1])] {
            let payload: Vec<u8> = (0..90).map(|_| self.rng.random()).collect();
            let vip = self.case.vip(talk.proto);
            let bytes = frames::transport(talk.proto, talk.client, vip, 0, &payload, Sum::Right);
            for at in order {
                let part = &bytes[at * 40..bytes.len().min((at + 1) * 40)];
                let piece = Piece { offset: at * 40, more: *at < 2, id };
                let ends = [talk.client.ip(), vip.ip()];
                let shape = Shape { ttl: 64, ..Shape::default() };
                let number = talk.proto.number();
                self.arrive(frames::ip(talk.link, ends, number, part, &shape, Some(piece)));
            }
        }
    }

    /// Errors of a router about what backends and clients were sent, and one
    /// about nothing that is known.
    fn errors(&mut self, known: &[Talk]) {
        let router: IpAddr =
            if self.case.v6 { "2001:db8:9::1" } else { "192.0.2.1" }.parse().unwrap();
        for (number, talk) in known.iter().enumerate() {
            let mut about = talk.asked.clone();
            if let Some(answered) = self.answer(talk, ACK, b"long") {
                about = Some(answered);
            }
            let Some(about) = about else { continue };
            let mac = |at: usize| about[at..at + 6].try_into().unwrap();
            let vlan = Headers::parse(&about).unwrap().vlan;
            let link = Link { src: mac(0), dst: OWN, vlan };
            // What is in a tunnel has no flow of its own.
            if let Some(error) = frames::complaint(link, &about, router, number % 2 == 0) {
                self.arrive(error);
            }
        }
        let stranger = SocketAddr::new(self.case.vip(Transport::Tcp).ip(), 999);
        let client = known[0].client;
        let bytes = frames::transport(Transport::Udp, stranger, client, 0, b"x", Sum::Right);
        let ends = [stranger.ip(), client.ip()];
        let link = Link { src: OWN, dst: known[0].link.src, vlan: None };
        let about = frames::ip(link, ends, 17, &bytes, &Self::shape(), None);
        let error = frames::complaint(self.link(0), &about, router, false).unwrap();
        self.arrive(error);
    }

    /// Packets of no connection.
    fn strangers(&mut self) {
        let (v6, client) = (self.case.v6, self.case.clients()[0]);
        let vip = self.case.vip(Transport::Tcp);
        let (link, ends) = (self.link(0), [client, vip.ip()]);
        let echo = [if v6 { 128 } else { 8 }, 0, 0, 1, 0, 2];
        self.arrive(frames::icmp(link, ends, echo, b"echo", &Self::shape()));
        self.arrive(frames::ip(link, ends, 47, b"tunnel..", &Self::shape(), None));
        let src = SocketAddr::new(client, 7777);
        // Of a connection that nobody knows, and to a port that nobody serves.
        for (flags, dst) in [(ACK, vip), (SYN, SocketAddr::new(vip.ip(), 81))] {
            let bytes = frames::transport(Transport::Tcp, src, dst, flags, b"", Sum::Right);
            self.arrive(frames::ip(link, ends, 6, &bytes, &Self::shape(), None));
        }
    }

    /// The client on the link asks for the load balancer's address, and says
    /// its own.
    fn neighbours(&mut self) {
        let (link, client) = (self.link(1), self.case.clients()[1]);
        let vip = self.case.vip(Transport::Tcp).ip();
        if self.case.v6 {
            let group = Link { dst: [0x33, 0x33, 0, 0, 0, 1], ..link };
            self.arrive(frames::ndp(group, 135, [client, vip], vip));
            self.arrive(frames::ndp(link, 136, [client, vip], client));
        } else {
            self.arrive(frames::arp(Link { dst: [0xff; 6], ..link }, 1, [client, vip]));
            self.arrive(frames::arp(link, 2, [client, vip]));
        }
    }
}
