//! What must hold for any bytes at all; the fuzz targets run these too.
use std::net::{IpAddr, SocketAddr};

use flow::{Account, BackendId, ServiceId};
use packet::{HeapPacket, PacketBuf};
use splice::{
    Agent, Answer, Asked, Choice, Chunked, Event, Hello, Inquiry, Peer, Refusal, Rejection,
    Request, Settings, Speaks, Terms, World,
};
use wire::{Headers, checksum};

/// A header that is accepted says to httparse what it says here, and no part of it was
/// accepted before it was whole.
pub(crate) fn request(data: &[u8]) {
    let Ok(Some(request)) = Request::parse(data) else { return };
    let mut fields = [httparse::EMPTY_HEADER; splice::MAX_FIELDS];
    let mut other = httparse::Request::new(&mut fields);
    let read = other.parse(data);
    assert_eq!(read, Ok(httparse::Status::Complete(request.length)));
    assert_eq!(other.method, Some(request.method));
    assert_eq!(other.path, Some(request.target));
    assert_eq!(other.version, Some(request.minor));
    assert_eq!(other.headers.len(), request.fields.len());
    for (ours, theirs) in request.fields.iter().zip(other.headers.iter()) {
        assert_eq!((ours.name, ours.value), (theirs.name, theirs.value.trim_ascii()));
    }
    for cut in 0..request.length {
        assert_eq!(Request::parse(&data[..cut]), Ok(None));
    }
}

/// A body ends at the same place however it is cut.
pub(crate) fn chunked(data: &[u8]) {
    let mut whole = Chunked::default();
    let read = whole.read(data);
    let mut piecewise = Chunked::default();
    let mut sum = 0;
    for byte in data.chunks(1) {
        match piecewise.read(byte) {
            Ok(taken) => sum += taken,
            Err(bad) => return assert_eq!(read, Err(bad)),
        }
    }
    assert_eq!(read, Ok(sum));
    assert_eq!(whole, piecewise);
}

/// Takes what the agent sends, and sees that it is sound.
#[derive(Default)]
pub(crate) struct Witness {
    /// The last initial number towards a client, and towards a backend.
    pub(crate) isn: [u32; 2],
    pub(crate) sent: usize,
    /// What was counted, but for made packets.
    pub(crate) events: Vec<Event>,
    /// Open connections to the backend.
    pub(crate) open: usize,
}

impl Witness {
    fn see(&mut self, packet: &HeapPacket) {
        let frame = packet.bytes();
        let headers = Headers::parse(frame).expect("a whole packet");
        headers.check(frame, false).expect("a sound packet");
        let segment = &frame[usize::from(headers.l4)..usize::from(headers.end)];
        let (from, to) = (headers.src_addr(frame).unwrap(), headers.dst_addr(frame).unwrap());
        let pseudo = checksum::pseudo(from, to, 6, segment.len() as u16).unwrap();
        assert_eq!(checksum::of(segment, pseudo), 0, "TCP checksum");
        self.sent += 1;
        if headers.tcp_flags.any(2) {
            self.isn[usize::from(from != VIP.ip())] = headers.sequence;
        }
    }
}

impl World<HeapPacket> for Witness {
    fn fresh(&mut self, len: usize) -> Option<HeapPacket> {
        Some(HeapPacket::new(&vec![0; len]))
    }

    fn relay(&mut self, packet: HeapPacket, _: &Headers, _: IpAddr, _: Account) {
        self.see(&packet);
    }

    fn send(&mut self, packet: HeapPacket, _: IpAddr, _: Option<Account>) {
        self.see(&packet);
    }

    fn speaks(&self, service: ServiceId) -> Speaks {
        if service == ServiceId(0) { Speaks::Http } else { Speaks::Tls }
    }

    fn direct(&mut self, inquiry: &Inquiry<'_>, _: &Hello) -> Result<Peer, Rejection> {
        (!inquiry.tried.contains(&BACKEND)).then_some(PEER).ok_or(Rejection::NoBackend)
    }

    fn choose(
        &mut self,
        inquiry: &Inquiry<'_>,
        request: &Request<'_>,
        answer: &mut Answer<'_>,
    ) -> Result<Choice, Refusal> {
        if request.path.ends_with('z') && answer.push(&[b'a'; 5000]).is_some() {
            return Ok(Choice::Answer(503));
        }
        if inquiry.tried.contains(&BACKEND) {
            return Err(Refusal::NoBackend);
        }
        let [keeps, rewrites] = [request.path.len() < 4, request.path.contains('w')];
        Ok(Choice::Backend { backend: PEER, terms: Terms { keeps, rewrites, sticks: rewrites } })
    }

    fn joined(&mut self, _: BackendId) {
        self.open += 1;
    }

    fn left(&mut self, _: BackendId) {
        self.open = self.open.checked_sub(1).expect("a connection that was never opened");
    }

    fn count(&mut self, event: Event) {
        if event != Event::Made {
            self.events.push(event);
        }
    }
}

const fn at(last: u8, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, last)), port)
}

pub(crate) const CLIENT: SocketAddr = at(1, 4000);
pub(crate) const VIP: SocketAddr = at(2, 80);
pub(crate) const BACKEND: SocketAddr = at(3, 8080);
pub(crate) const PEER: Peer = Peer { at: BACKEND, id: BackendId(0) };

/// An agent that gets any segments at all sends only sound ones, and keeps no more than
/// it may: as one of requests, and as one of TLS.
pub(crate) fn agent(data: &[u8]) {
    for service in [ServiceId(0), ServiceId(1)] {
        agent_of(service, data);
    }
}

fn agent_of(service: ServiceId, mut data: &[u8]) {
    let settings = Settings { connections: 4, half_open: 2, headers: 4, ..Settings::default() };
    let (mut agent, mut seen, mut now) = (Agent::new(settings), Witness::default(), 0);
    while let [side, flags, seq, ack, time, options, length, rest @ ..] = data {
        let (options, rest) = rest.split_at(rest.len().min(usize::from(options % 11) * 4));
        let (payload, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        data = rest;
        now += u64::from(*time) * u64::from(*time);
        let number = |byte: u8| u32::from(byte).wrapping_sub(16);
        let client = side % 2 == 0;
        let (src, dst) = if client { (CLIENT, VIP) } else { (BACKEND, CLIENT) };
        let base = if client { 1_000_u32 } else { 900 };
        // Small numbers are near what the other side expects.
        let acknowledges = if client { seen.isn[0] } else { 1_000 };
        let segment = Segment {
            sequence: base.wrapping_add(number(*seq)),
            acknowledgement: acknowledges.wrapping_add(number(*ack)),
            flags: *flags,
            window: 256,
            options,
            payload,
        };
        let frame = segment.frame(src, dst);
        let Ok(headers) = Headers::parse(&frame) else { continue };
        if headers.check(&frame, false).is_err() {
            continue;
        }
        let packet = HeapPacket::new(&frame);
        match client {
            true => agent.from_client(packet, &headers, service, now, &mut seen),
            false => agent.from_backend(packet, &headers, now, &mut seen),
        };
        agent.tick(now, &mut seen);
        let usage = agent.usage();
        assert!(seen.open <= usage.connections);
        assert!(usage.connections <= 4 && usage.headers <= 4 && usage.half_open <= 2);
    }
}

/// A segment of a host's.
#[derive(Default)]
pub(crate) struct Segment<'a> {
    pub(crate) sequence: u32,
    pub(crate) acknowledgement: u32,
    pub(crate) flags: u8,
    pub(crate) window: u16,
    pub(crate) options: &'a [u8],
    pub(crate) payload: &'a [u8],
}

impl Segment<'_> {
    pub(crate) fn frame(&self, src: SocketAddr, dst: SocketAddr) -> Vec<u8> {
        let mut options = self.options.to_vec();
        options.resize(self.options.len().div_ceil(4) * 4, 0);
        let mut tcp = [src.port().to_be_bytes(), dst.port().to_be_bytes()].concat();
        tcp.extend(self.sequence.to_be_bytes());
        tcp.extend(self.acknowledgement.to_be_bytes());
        let [high, low] = self.window.to_be_bytes();
        tcp.extend([((20 + options.len()) as u8 / 4) << 4, self.flags, high, low, 0, 0, 0, 0]);
        tcp.extend(options);
        tcp.extend(self.payload);
        let pseudo = checksum::pseudo(src.ip(), dst.ip(), 6, tcp.len() as u16).unwrap();
        let sum = checksum::of(&tcp, pseudo);
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        let (IpAddr::V4(from), IpAddr::V4(to)) = (src.ip(), dst.ip()) else { return Vec::new() };
        let ip = wire::ipv4::Repr {
            src: from,
            dst: to,
            protocol: 6,
            ttl: 64,
            traffic_class: 0,
            payload_len: tcp.len() as u16,
        };
        let mut frame = vec![0; 14];
        frame[12] = 8;
        frame.extend(ip.emit());
        frame.extend(tcp);
        frame
    }
}

/// A hello that is accepted was not accepted before it was whole.
pub(crate) fn hello(data: &[u8]) {
    if let Ok(Some(hello)) = splice::Hello::parse(data) {
        assert!(hello.protocols().all(|protocol| !protocol.is_empty()));
        let longest = (0..=data.len()).find(|cut| splice::Hello::parse(&data[..*cut]) != Ok(None));
        let whole = longest.map(|cut| splice::Hello::parse(&data[..cut]));
        assert_eq!(whole, Some(Ok(Some(hello))));
    }
}

/// Responses end at one place, however they are cut.
pub(crate) fn responses(data: &[u8]) {
    let Some((kind, stream)) = data.split_first() else { return };
    let asked = || {
        let mut responses = splice::Responses::default();
        for bit in 0..3 {
            responses.ask(Asked {
                head: kind >> bit & 1 == 1,
                upgrades: kind >> (bit + 3) & 1 == 1,
                ..Asked::default()
            });
        }
        responses
    };
    let (mut whole, mut cut) = (asked(), asked());
    let at_once = whole.read(stream, |_| ());
    let piecewise = stream.iter().try_for_each(|byte| cut.read(&[*byte], |_| ()));
    assert_eq!(at_once, piecewise);
    if at_once.is_ok() {
        assert_eq!((whole.is_idle(), whole.is_all()), (cut.is_idle(), cut.is_all()));
        let left = whole.skip(u32::MAX);
        assert_eq!(left, cut.skip(u32::MAX));
    }
}
