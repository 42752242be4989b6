//! Services of requests: the fast path and the L7 agent send the same bytes.
//!
//! The agent is the oracle: in one of two worlds every packet has a mark that means
//! nothing, which the fast path leaves to the slow path. In the other one there may be
//! several workers, and each packet comes in at any of them.
use packet::HeapPacket;
use proptest::prelude::*;
use state::{Carried, Codes, Counter};
use wire::Headers;

use crate::icmp::{icmp4, icmp6};
use crate::segments::{Segment, offer, segment};
use crate::world::{
    INSIDE, LB_IN, LB_OUT, Link, OUTSIDE, Plan, TAGGED, World, at, backend_mac, source,
};

const VIPS: [(&str, &str); 2] = [("192.0.2.7", "10.9.0.10:80"), ("[2001:db8::7]", "[fd09::10]:80")];
const ISN: u32 = u32::MAX - 3_000;
const SERVER_ISN: u32 = u32::MAX - 60_000;

/// What the hosts of a connection offer.
#[derive(Clone, Copy, Debug)]
struct Offers {
    v6: bool,
    sack: [bool; 2],
    stamps: [bool; 2],
    scale: [Option<u8>; 2],
}

/// Where a segment's numbers and options lie, beside the usual.
#[derive(Clone, Debug)]
struct Odd {
    seq: i32,
    ack: i32,
    window: u16,
    flags: u8,
    options: Options,
    size: usize,
}

#[derive(Clone, Debug)]
enum Options {
    None,
    Stamps(u32, u32),
    StampsLast(u32, u32),
    Sack(Vec<(u32, u32)>),
    Both(u32, u32, Vec<(u32, u32)>),
    Raw(Vec<u8>),
}

impl Options {
    fn bytes(&self, base: u32) -> Vec<u8> {
        let stamps = |value: u32, echo: u32| {
            [&[8, 10], value.to_be_bytes().as_slice(), &echo.to_be_bytes()].concat()
        };
        let sack = |blocks: &[(u32, u32)]| {
            let mut bytes = vec![1, 1, 5, 2 + 8 * blocks.len() as u8];
            for (left, length) in blocks {
                bytes.extend(base.wrapping_add(*left).to_be_bytes());
                bytes.extend(base.wrapping_add(*left).wrapping_add(*length).to_be_bytes());
            }
            bytes
        };
        match self {
            Self::None => Vec::new(),
            Self::Stamps(value, echo) => [vec![1, 1], stamps(*value, *echo)].concat(),
            Self::StampsLast(value, echo) => [stamps(*value, *echo), vec![0, 0]].concat(),
            Self::Sack(blocks) => sack(blocks),
            Self::Both(value, echo, blocks) => {
                [vec![1, 1], stamps(*value, *echo), sack(blocks)].concat()
            }
            Self::Raw(bytes) => bytes.clone(),
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Request(usize),
    Client(Odd),
    Backend(Odd),
    /// The backend's packet comes in from the clients' side.
    Forged(Odd),
    Wait(u16),
}

fn odd() -> impl Strategy<Value = Odd> {
    let blocks = || prop::collection::vec((0_u32..5_000, 0_u32..3_000), 1..=3);
    let wild = prop::collection::vec((any::<u32>(), any::<u32>()), 1..=2);
    let options = prop_oneof![
        4 => Just(Options::None),
        6 => (0_u32..900, 0_u32..900).prop_map(|(a, b)| Options::Stamps(a, b)),
        1 => any::<(u32, u32)>().prop_map(|(a, b)| Options::StampsLast(a, b)),
        2 => blocks().prop_map(Options::Sack),
        1 => wild.prop_map(Options::Sack),
        2 => (any::<u32>(), any::<u32>(), blocks()).prop_map(|(a, b, c)| Options::Both(a, b, c)),
        1 => prop::collection::vec(any::<u8>(), 1..=10).prop_map(|mut raw| {
            raw.extend([0; 4]);
            raw.truncate(raw.len() / 4 * 4);
            Options::Raw(raw)
        }),
    ];
    let flags = prop_oneof![8 => Just(0x10_u8), 4 => Just(0x18), 1 => any::<u8>()];
    let near = || prop_oneof![6 => Just(0_i32), 3 => -2_000..2_000, 1 => any::<i32>()];
    let size = prop_oneof![2 => Just(0_usize), 4 => 1..1_460_usize];
    let window = prop_oneof![Just(0_u16), 1_u16..300, any::<u16>()];
    (near(), near(), window, flags, options, size).prop_map(
        |(seq, ack, window, flags, options, size)| Odd { seq, ack, window, flags, options, size },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0_usize..3_000).prop_map(Step::Request),
        8 => odd().prop_map(Step::Client),
        8 => odd().prop_map(Step::Backend),
        1 => odd().prop_map(Step::Forged),
        1 => (0_u16..2_000).prop_map(Step::Wait),
    ]
}

fn offers() -> impl Strategy<Value = Offers> {
    let scale = || [prop::option::of(0_u8..=14), prop::option::of(0_u8..=14)];
    (any::<[bool; 5]>(), scale()).prop_map(|([v6, a, b, c, d], scale)| Offers {
        v6,
        sack: [a, b],
        // Most hosts have them.
        stamps: [c || a, d || b],
        scale,
    })
}

/// Two worlds that get the same packets.
struct Twins {
    fast: World,
    slow: World,
    vlans: [Option<u16>; 2],
    client: String,
    vip: &'static str,
    backend: String,
    /// What client and backend send next, and have got.
    next: [u32; 2],
    got: [u32; 2],
    /// How long the client's bytes are that belong to no header.
    body: usize,
    /// Chooses the worker that receives the next packet.
    turns: usize,
    /// Packets that left for the backend, and their bytes.
    left: [u64; 2],
}

impl Twins {
    fn new(plan: &Plan, workers: usize, offers: Offers) -> Self {
        let (address, vip) = VIPS[usize::from(offers.v6)];
        let mut twins = Self {
            fast: World::with_workers(plan, workers),
            slow: World::new(plan),
            vlans: plan.vlans,
            client: format!("{address}:4000"),
            vip,
            backend: String::new(),
            next: [ISN, SERVER_ISN],
            got: [0; 2],
            body: 0,
            turns: 0,
            left: [0; 2],
        };
        twins.open(offers);
        twins
    }

    /// Both worlds get the frame; what both sent.
    fn give(&mut self, from: usize, frame: &[u8]) -> Vec<Vec<u8>> {
        let port = [OUTSIDE, INSIDE][from];
        self.turns = self.turns.wrapping_mul(25) + 7;
        let worker = (self.turns >> 5) % self.fast.workers.len();
        let fast = self.fast.burst_at(worker, port, 0, vec![HeapPacket::new(frame)]);
        let marked = HeapPacket::new(frame).with_mark(Some(u32::MAX));
        let slow = self.slow.burst(port, vec![marked]);
        assert_eq!(fast, slow, "the fast path and the agent differ");
        slow.into_iter().map(|(_, frame)| self.note(frame)).collect()
    }

    /// As [`Self::give`], of what is no segment.
    fn give_only(&mut self, from: usize, frame: &[u8]) -> Vec<Vec<u8>> {
        let port = [OUTSIDE, INSIDE][from];
        self.turns += 1;
        let worker = self.turns % self.fast.workers.len();
        let sent = self.fast.burst_at(worker, port, 0, vec![HeapPacket::new(frame)]);
        sent.into_iter().map(|(_, frame)| frame).collect()
    }

    /// The ends know what they got.
    fn note(&mut self, frame: Vec<u8>) -> Vec<u8> {
        let Segment { seq, flags, data, .. } = segment(&frame);
        if source(&frame).to_string() == self.client {
            let tag = if self.vlans[1].is_some() { 4 } else { 0 };
            self.left[0] += 1;
            self.left[1] += frame.len() as u64 - tag;
        }
        let to = usize::from(crate::world::destination(&frame).to_string() != self.client);
        let end = seq.wrapping_add(data.len() as u32 + u32::from(flags & 3 != 0));
        if flags & 2 != 0 || end.wrapping_sub(self.got[to]) < 1 << 30 {
            self.got[to] = end;
        }
        frame
    }

    fn send(&mut self, from: usize, segment: &Segment) -> Vec<Vec<u8>> {
        let link = match from {
            0 => Link::CLIENT,
            _ => Link::new(backend_mac(1), LB_IN, 64),
        };
        let [src, dst] = match from {
            0 => [self.client.clone(), self.vip.to_owned()],
            _ => [self.backend.clone(), self.client.clone()],
        };
        let frame = segment.frame(link.tagged(self.vlans[from]), &src, &dst);
        self.give(from, &frame)
    }

    fn open(&mut self, offers: Offers) {
        let [sack, server_sack] = offers.sack;
        let [stamps, server_stamps] = offers.stamps;
        let [scale, server_scale] = offers.scale;
        let options = offer(1460, sack, stamps, scale);
        let syn = Segment { seq: ISN, flags: 2, window: 60_000, options, ..Segment::default() };
        self.send(0, &syn);
        self.next[0] = ISN.wrapping_add(1);
        let syn = self.request(0).pop().unwrap();
        self.backend = crate::world::destination(&syn).to_string();
        let options = offer(1400, server_sack, server_stamps, server_scale);
        let answer = Segment {
            seq: SERVER_ISN,
            ack: ISN.wrapping_add(1),
            flags: 0x12,
            window: 50_000,
            options,
            ..Segment::default()
        };
        self.send(1, &answer);
        self.next[1] = SERVER_ISN.wrapping_add(1);
    }

    fn usual(&self, from: usize, data: Vec<u8>) -> Segment {
        let [seq, ack] = [self.next[from], self.got[from]];
        Segment { seq, ack, flags: 0x18, window: 900, options: Vec::new(), data }
    }

    /// The client asks for something and announces so long a body.
    fn request(&mut self, length: usize) -> Vec<Vec<u8>> {
        let text = format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
        let segment = self.usual(0, text.into_bytes());
        self.next[0] = self.next[0].wrapping_add(segment.data.len() as u32);
        self.body = length;
        self.send(0, &segment)
    }

    fn odd(&mut self, from: usize, odd: &Odd) -> Segment {
        let size = match from {
            // More than the body would be the next header.
            0 if odd.seq == 0 => odd.size.min(self.body),
            _ => odd.size,
        };
        let mut segment = self.usual(from, vec![b'x'; size]);
        if odd.seq == 0 && odd.flags & 7 == 0 && odd.flags & 0x10 != 0 {
            self.next[from] = self.next[from].wrapping_add(size as u32);
            self.body -= if from == 0 { size } else { 0 };
        }
        segment.seq = segment.seq.wrapping_add_signed(odd.seq);
        segment.ack = segment.ack.wrapping_add_signed(odd.ack);
        segment.options = odd.options.bytes(self.got[from]);
        (segment.flags, segment.window) = (odd.flags, odd.window);
        segment
    }

    /// What counts for the backend, by the fast path as by the agent.
    fn carried(&self) -> Carried {
        let all = [&self.fast, &self.slow].map(|world| {
            let snapshot = world.shared.snapshot();
            let ip = at(&self.backend).ip();
            let services = snapshot.services.services().iter();
            let own = services.filter(|own| own.name().starts_with("http"));
            let mut backends = own.flat_map(|own| own.backends());
            let id = backends.find(|own| own.address == ip).unwrap().id;
            world.shared.totals().backend(id)
        });
        assert_eq!(all[0], all[1], "the counts of the fast path and of the agent");
        all[1]
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Request(length) if self.body == 0 => {
                self.request(*length);
            }
            Step::Request(_) => {}
            Step::Client(odd) => {
                let segment = self.odd(0, odd);
                self.send(0, &segment);
            }
            Step::Backend(odd) => {
                let segment = self.odd(1, odd);
                self.send(1, &segment);
            }
            Step::Forged(odd) => {
                let segment = self.usual(1, vec![b'y'; odd.size]);
                let link = Link::CLIENT.tagged(self.vlans[0]);
                let frame = segment.frame(link, &self.backend, &self.client);
                assert_eq!(self.give(0, &frame), Vec::<Vec<u8>>::new(), "a forged packet");
            }
            Step::Wait(ms) => {
                for world in [&mut self.fast, &mut self.slow] {
                    world.now_ms += u64::from(*ms);
                    world.tick();
                }
                assert_eq!(self.fast.out.sent, self.slow.out.sent);
                let made = std::mem::take(&mut self.slow.out.sent);
                self.fast.out.sent.clear();
                made.into_iter().for_each(|(_, frame)| _ = self.note(frame));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_fast_path_sends_what_the_agent_would(
        offers in offers(),
        tagged in 0..TAGGED.len(),
        workers in 1..=3_usize,
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let plan = Plan { http: true, vlans: TAGGED[tagged], ..Plan::default() };
        let mut twins = Twins::new(&plan, workers, offers);
        steps.iter().for_each(|step| twins.step(step));
        prop_assert_eq!(twins.slow.count(Counter::HttpSteady), 0);
        twins.carried();
    }
}

#[test]
fn a_download_passes_on_the_fast_path() {
    for v6 in [false, true] {
        let offers = Offers { v6, sack: [true; 2], stamps: [true; 2], scale: [Some(7), Some(9)] };
        let plan = Plan { http: true, ..Plan::default() };
        let mut twins = Twins::new(&plan, 1, offers);
        let stamps = Options::Stamps(400, 300).bytes(0);
        let usual = |twins: &Twins, from, size| Segment {
            options: stamps.clone(),
            ..twins.usual(from, vec![b'x'; size])
        };
        let header = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 100 * 1_300);
        let length = header.len() as u32;
        let header = Segment { data: header.into_bytes(), ..usual(&twins, 1, 0) };
        twins.send(1, &header);
        twins.next[1] = twins.next[1].wrapping_add(length);
        for number in 0..100 {
            let data = usual(&twins, 1, 1_300);
            let sent = twins.send(1, &data).pop().unwrap();
            assert_eq!(source(&sent), at(twins.vip));
            assert_eq!((&sent[..6], &sent[6..12]), (&Link::TO_CLIENT.dst.0[..], &LB_OUT.0[..]));
            twins.next[1] = twins.next[1].wrapping_add(1_300);
            let ack = usual(&twins, 0, 0);
            let sent = twins.send(0, &ack).pop().unwrap();
            assert_eq!(segment(&sent).ack, twins.next[1], "segment {number}");
        }
        let carried = twins.carried();
        let counted = (carried.opened, carried.packets[1], carried.responses);
        assert_eq!(counted, (1, 101, Codes::of(&[200])));
        let (options, ip) = (12, if v6 { 40 } else { 20 });
        let bytes = u64::from(length) + 100 * 1_300 + 101 * (14 + ip + 20 + options);
        assert_eq!((carried.bytes[1], carried.first_bytes.counts[0]), (bytes, 1));
        assert_eq!([carried.packets[0], carried.bytes[0]], twins.left);
        // The slow path reads the response's header, and nothing of its body.
        assert_eq!(twins.fast.count(Counter::HttpSteady), 200);
    }
}

/// An ICMP error about a frame that was sent, from `router` to its source.
fn too_big(v6: bool, link: Link, router: &str, frame: &[u8]) -> Vec<u8> {
    let quote = &frame[14..];
    let to = source(frame).ip().to_string();
    match v6 {
        true => {
            let kind = etherparse::Icmpv6Type::PacketTooBig { mtu: 1_300 };
            icmp6(link, router, &to, kind, &quote[..quote.len().min(1_200)])
        }
        false => {
            let header = etherparse::icmpv4::DestUnreachableHeader::FragmentationNeeded {
                next_hop_mtu: 1_300,
            };
            let kind = etherparse::Icmpv4Type::DestinationUnreachable(header);
            icmp4(link, router, &to, kind, &quote[..quote.len().min(500)])
        }
    }
}

/// What is behind the ICMP header of a frame: the quoted ends and the quoted number.
fn quoted(frame: &[u8]) -> (String, String, u32) {
    let headers = Headers::parse(frame).unwrap();
    assert!(headers.transport_checksum_is_right(frame), "the checksum of the error");
    let quoted = wire::quoted::Quoted::parse(frame, &headers).unwrap();
    let at = usize::from(quoted.headers.l4) + 4;
    let number = u32::from_be_bytes(frame[at..at + 4].try_into().unwrap());
    (quoted.flow.src().to_string(), quoted.flow.dst().to_string(), number)
}

#[test]
fn an_error_reaches_the_sender_in_its_own_numbers() {
    for (v6, workers) in [(false, 1), (false, 2), (true, 1), (true, 2)] {
        let offers = Offers { v6, sack: [true; 2], stamps: [false; 2], scale: [Some(7); 2] };
        let plan = Plan { http: true, ..Plan::default() };
        let mut twins = Twins::new(&plan, workers, offers);
        // Bytes of the next request's body go behind a header that was made longer.
        twins.request(2_000);
        let up = twins.usual(0, vec![b'x'; 1_000]);
        let number = up.seq;
        let sent = twins.send(0, &up).pop().unwrap();
        assert_ne!(segment(&sent).seq, number, "the header is longer than it was");
        let router = if v6 { "fd01::77" } else { "10.1.0.77" };
        let error = too_big(v6, Link::new(backend_mac(2), LB_IN, 64), router, &sent);
        let told = twins.give_only(1, &error).pop().unwrap();
        assert_eq!(quoted(&told), (twins.client.clone(), twins.vip.to_owned(), number));
        let down = twins.usual(1, vec![b'y'; 1_300]);
        let sent = twins.send(1, &down).pop().unwrap();
        let router = if v6 { "2001:db8::1" } else { "192.0.2.1" };
        let error = too_big(v6, Link::CLIENT, router, &sent);
        let told = twins.give_only(0, &error).pop().unwrap();
        assert_eq!(quoted(&told), (twins.backend.clone(), twins.client.clone(), down.seq));
        assert_eq!(twins.fast.count(Counter::IcmpTranslated), 2);
    }
}
