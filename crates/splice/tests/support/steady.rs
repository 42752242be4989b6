//! Two agents get the same segments of one connection: one is the machine alone, the other
//! has its fast path in front. Both must send the same bytes, and know the same.
use std::net::IpAddr;

use flow::{Account, ServiceId};
use packet::{HeapPacket, PacketBuf};
use splice::{
    Agent, Answer, Choice, Ends, Event, Hello, Inquiry, Passage, Passing, Peer, Refusal, Rejection,
    Request, Settings, Speaks, Steady, Terms, World,
};
use wire::{FastHeader, Headers};

use crate::checks::{BACKEND, CLIENT, PEER, Segment, VIP};
use crate::shortcut;

/// What the client asks.
const ASKED: [&[u8]; 5] = [
    b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 90000\r\n\r\n",
    b"HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n",
    b"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n",
    b"GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
];

/// How the backend begins to answer.
const ANSWERED: [&[u8]; 5] = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 90000\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n",
    b"HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
    b"HTTP/1.1 204 No\r\n\r\n",
];

/// What one of the agents sends.
#[derive(Default)]
struct Sent {
    frames: Vec<Vec<u8>>,
    keeps: bool,
    rewrites: bool,
}

impl World<HeapPacket> for Sent {
    fn fresh(&mut self, len: usize) -> Option<HeapPacket> {
        Some(HeapPacket::new(&vec![0; len]))
    }

    fn relay(&mut self, mut packet: HeapPacket, headers: &Headers, _: IpAddr, _: Account) {
        assert!(wire::decrement_ttl(packet.bytes_mut(), headers));
        self.frames.push(packet.bytes().to_vec());
    }

    fn send(&mut self, packet: HeapPacket, _: IpAddr, _: Option<Account>) {
        self.frames.push(packet.bytes().to_vec());
    }

    fn speaks(&self, _: ServiceId) -> Speaks {
        Speaks::Http
    }

    fn direct(&mut self, _: &Inquiry<'_>, _: &Hello) -> Result<Peer, Rejection> {
        Err(Rejection::NoBackend)
    }

    fn choose(
        &mut self,
        inquiry: &Inquiry<'_>,
        _: &Request<'_>,
        _: &mut Answer<'_>,
    ) -> Result<Choice, Refusal> {
        if inquiry.tried.contains(&BACKEND) {
            return Err(Refusal::NoBackend);
        }
        let Self { keeps, rewrites, .. } = *self;
        Ok(Choice::Backend { backend: PEER, terms: Terms { keeps, rewrites, sticks: rewrites } })
    }

    fn count(&mut self, _: Event) {}
}

/// What a host knows: where its own numbers and those of the other side are, and its clock.
#[derive(Clone, Copy, Debug)]
struct Host {
    next: u32,
    edge: u32,
    clock: u32,
    echo: u32,
}

/// Bytes as they are consumed; 0 behind the last.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A number near 0 more often than not.
    fn near(&mut self) -> u32 {
        match self.next() {
            byte @ 0..=191 => i32::from(byte as i8 >> 3) as u32 & if byte < 160 { 0 } else { !0 },
            byte @ 192..=239 => u32::from(byte - 192) * 1460,
            byte => (u32::from(byte) << 24).wrapping_add(u32::from(self.next())),
        }
    }
}

struct Twins {
    agents: [Agent; 2],
    worlds: [Sent; 2],
    hosts: [Host; 2],
    now_ms: u64,
    passed: usize,
}

/// The entry of the connection, if it is in the steady state.
fn entry(agent: &Agent) -> Option<Steady> {
    let frame = Segment::default().frame(CLIENT, VIP);
    let ends: Ends<1> = Ends::from(&FastHeader::of(&frame, 0)?);
    Passing::<1>::passage(agent, agent.find(&ends)?).and_then(Passage::steady)
}

/// Runs the segments that `data` describes, and says how many have passed without the
/// machine.
pub(crate) fn twins(data: &[u8]) -> usize {
    let mut bytes = Bytes(data);
    let kind = bytes.next();
    let settings = Settings { connections: 4, half_open: 2, headers: 12, ..Settings::default() };
    let host = Host { next: 1_000_u32.wrapping_sub(bytes.near()), edge: 0, clock: 7, echo: 0 };
    let world = || Sent { keeps: kind & 1 == 0, rewrites: kind & 6 == 6, ..Sent::default() };
    let server = Host { next: 900_u32.wrapping_sub(bytes.near()), ..host };
    let mut twins = Twins {
        agents: [Agent::new(settings), Agent::new(settings)],
        worlds: [world(), world()],
        hosts: [host, server],
        now_ms: 1,
        passed: 0,
    };
    twins.open(&mut bytes);
    while !bytes.0.is_empty() {
        twins.step(&mut bytes);
    }
    twins.passed
}

impl Twins {
    /// Both handshakes, a request, and the backend's acknowledgement of it.
    fn open(&mut self, bytes: &mut Bytes<'_>) {
        let offers = bytes.next();
        let syn = |of: u8, clock: u32| {
            let mut options = vec![2, 4, 5, 0xb4];
            if of & 1 == 0 {
                options.extend([1, 3, 3, of >> 4 & 7]);
            }
            if of & 2 == 0 {
                options.extend([1, 1, 4, 2]);
            }
            if of & 4 == 0 {
                options.extend([1, 1, 8, 10]);
                options.extend([clock.to_be_bytes(), [0; 4]].concat());
            }
            options
        };
        let congestion = if offers & 8 == 0 { 0xc0 } else { 0 };
        self.send(0, 2 | congestion, &syn(offers, 7), &[], 1_000, 0, 0);
        let asked = bytes.next();
        let request = ASKED.get(usize::from(asked % 5)).copied().unwrap_or_default();
        let stamps = self.stamps(0, 0);
        let options = if offers & 4 == 0 { &stamps[..] } else { &[] };
        self.send(0, 0x18, options, request, 1_000, 0, 0);
        let grants = bytes.next() | offers & 7;
        let congestion = if grants & 8 == 0 { 0x40 } else { 0 };
        self.send(1, 0x12 | congestion, &syn(grants, 7), &[], 2_000, 0, 0);
        let stamps = self.stamps(1, 0);
        let options = if grants & 4 == 0 { &stamps[..] } else { &[] };
        self.send(1, 0x10, options, &[], 2_000, 0, 0);
        let answer = ANSWERED.get(usize::from(asked / 5 % 5)).copied().unwrap_or_default();
        self.send(1, 0x10, options, answer, 2_000, 0, 0);
        let stamps = self.stamps(0, 0);
        let options = if offers & 4 == 0 { &stamps[..] } else { &[] };
        self.send(0, 0x10, options, &[], 2_000, 0, 0);
    }

    fn stamps(&mut self, side: usize, off: u32) -> [u8; 12] {
        let Host { clock, echo, .. } = self.hosts[side];
        let mut options = [1, 1, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0];
        options[4..8].copy_from_slice(&clock.wrapping_add(off).to_be_bytes());
        options[8..12].copy_from_slice(&echo.to_be_bytes());
        options
    }

    /// One segment of either side, near what its receiver expects.
    fn step(&mut self, bytes: &mut Bytes<'_>) {
        let [kind, form, length] = [bytes.next(), bytes.next(), bytes.next()];
        let side = usize::from(kind & 1);
        let flags = match kind >> 1 & 15 {
            0..=9 => 0x10,
            10 => 0x18,
            11 => 0x11,
            12 => 0x14,
            13 => 0x50,
            14 => 0x12,
            _ => bytes.next(),
        };
        let waited = u64::from(kind >> 5);
        self.now_ms += waited * waited * waited;
        self.hosts[side].clock = self.hosts[side].clock.wrapping_add(waited as u32);
        let off = bytes.near();
        let mut options = match form & 7 {
            0..=2 => self.stamps(side, off).to_vec(),
            3 => {
                let mut stamps = self.stamps(side, off);
                stamps.rotate_left(2);
                [stamps[10], stamps[11]] = [form >> 7, 1];
                stamps.to_vec()
            }
            4 | 5 => Vec::new(),
            _ => (0..form >> 3 & 7).flat_map(|_| [bytes.next(), 2, 1, bytes.next()]).collect(),
        };
        for _ in 0..form >> 3 & 3 {
            let first = self.hosts[side].edge.wrapping_add(bytes.near());
            let blocks = [[1, 1, 5, 10], first.to_be_bytes()].concat();
            let last = first.wrapping_add(bytes.near());
            if options.len() <= 24 && options.first() != Some(&8) {
                options.extend(blocks);
                options.extend(last.to_be_bytes());
            }
        }
        let payload = match length {
            0..=99 => Vec::new(),
            100..=180 => vec![b'x'; usize::from(length - 99) * 18],
            181..=220 => bytes.0.iter().take(usize::from(length - 180)).copied().collect(),
            221..=240 => ASKED[usize::from(length) % 5].to_vec(),
            _ => ANSWERED[usize::from(length) % 5].to_vec(),
        };
        let window = u16::from(form) << 7 | u16::from(length);
        let [sequence, acknowledged] = [bytes.near(), bytes.near()];
        self.send(side, flags, &options, &payload, window, sequence, acknowledged);
    }

    /// A segment of `side`: the machine gets it, and beside that the fast path in front of
    /// the other machine.
    #[allow(clippy::too_many_arguments, reason = "a segment has so many parts")]
    fn send(
        &mut self,
        side: usize,
        flags: u8,
        options: &[u8],
        payload: &[u8],
        window: u16,
        sequence: u32,
        acknowledged: u32,
    ) {
        let [client, server] = self.hosts;
        let (host, src, dst) =
            if side == 0 { (client, CLIENT, VIP) } else { (server, BACKEND, CLIENT) };
        let segment = Segment {
            sequence: host.next.wrapping_add(sequence),
            acknowledgement: host.edge.wrapping_add(acknowledged),
            flags,
            window,
            options,
            payload,
        };
        let frame = segment.frame(src, dst);
        if sequence == 0 {
            let control = u32::from(flags & 2 != 0) + u32::from(flags & 1 != 0);
            let length = payload.len() as u32 + control;
            self.hosts[side].next = host.next.wrapping_add(length);
        }
        let Ok(headers) = Headers::parse(&frame) else { return };
        if headers.check(&frame, false).is_err() {
            return;
        }
        let packet = || HeapPacket::new(&frame);
        let Self { agents: [alone, fronted], worlds: [plain, fast], now_ms, .. } = self;
        if let Some(sent) = shortcut::pass(fronted, &packet()) {
            self.passed += 1;
            fast.frames.push(sent.bytes().to_vec());
        } else {
            give(fronted, side, packet(), &headers, *now_ms, fast);
        }
        give(alone, side, packet(), &headers, *now_ms, plain);
        for (agent, world) in [(alone, plain), (fronted, fast)] {
            agent.tick(*now_ms, world);
        }
        self.compare(flags);
    }

    fn compare(&mut self, flags: u8) {
        let [plain, fast] = self.worlds.each_mut().map(|world| std::mem::take(&mut world.frames));
        assert_eq!(plain, fast, "the machine's packets, and those with the fast path in front");
        let [alone, fronted] = self.agents.each_ref().map(entry);
        assert_eq!(alone, fronted, "what is known behind a segment with the flags {flags:#x}");
        for frame in &plain {
            let Ok(headers) = Headers::parse(frame) else { continue };
            let to = headers.dst_addr(frame).filter(|to| *to == CLIENT.ip());
            let side = usize::from(to.is_none());
            let l4 = usize::from(headers.l4);
            let offset = usize::from(frame.get(l4 + 12).copied().unwrap_or(0) >> 4) * 4;
            let length = (usize::from(headers.end) - l4 - offset) as u32;
            let control = u32::from(headers.tcp_flags.any(2)) + u32::from(headers.tcp_flags.any(1));
            let edge = headers.sequence.wrapping_add(length + control);
            let host = &mut self.hosts[side];
            let ahead = edge.wrapping_sub(host.edge) as i32;
            if headers.tcp_flags.any(2) || ahead > 0 {
                host.edge = edge;
            }
            // The timestamps stand first in most of what is sent here.
            if let Some([1, 1, 8, 10, a, b, c, d]) = frame.get(l4 + 20..l4 + 28) {
                host.echo = u32::from_be_bytes([*a, *b, *c, *d]);
            }
        }
    }
}

fn give(
    agent: &mut Agent,
    side: usize,
    packet: HeapPacket,
    headers: &Headers,
    now_ms: u64,
    world: &mut Sent,
) {
    match side {
        0 => agent.from_client(packet, headers, ServiceId(0), now_ms, world),
        _ => agent.from_backend(packet, headers, now_ms, world),
    };
}
