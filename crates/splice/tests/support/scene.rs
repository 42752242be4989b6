//! One connection with a request at the backend: what the agent sends upon each segment.
use std::net::{IpAddr, SocketAddr};

use flow::{Account, BackendId, ServiceId};
use packet::{HeapPacket, PacketBuf};
use splice::{
    Agent, Answer, Choice, Event, Hello, Inquiry, Peer, Record, Refusal, Rejection, Request,
    Settings, Speaks, Terms, World,
};
use wire::Headers;

use crate::checks::{BACKEND, CLIENT, Segment, VIP};

pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const ACK: u8 = 16;

/// A segment that the agent has let out.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) to: SocketAddr,
    pub(crate) sequence: u32,
    pub(crate) acknowledgement: u32,
    pub(crate) flags: u8,
    /// The urgent pointer.
    pub(crate) urgent: u16,
    pub(crate) options: Vec<u8>,
    pub(crate) payload: Vec<u8>,
}

#[derive(Default)]
pub(crate) struct Around {
    sent: Vec<Sent>,
    pub(crate) events: Vec<Event>,
    /// Bytes of the responses that were logged.
    pub(crate) logged: Vec<u64>,
}

impl Around {
    fn see(&mut self, packet: &HeapPacket) {
        let frame = packet.bytes();
        let headers = Headers::parse(frame).unwrap();
        let tcp = &frame[usize::from(headers.l4)..usize::from(headers.end)];
        let number = |at: usize| u32::from_be_bytes(tcp[at..at + 4].try_into().unwrap());
        self.sent.push(Sent {
            to: headers.flow(frame).unwrap().dst(),
            sequence: number(4),
            acknowledgement: number(8),
            flags: tcp[13],
            urgent: u16::from_be_bytes([tcp[18], tcp[19]]),
            options: tcp[20..usize::from(tcp[12] >> 4) * 4].to_vec(),
            payload: tcp[usize::from(tcp[12] >> 4) * 4..].to_vec(),
        });
    }
}

impl World<HeapPacket> for Around {
    fn fresh(&mut self, len: usize) -> Option<HeapPacket> {
        Some(HeapPacket::new(&vec![0; len]))
    }

    fn relay(&mut self, packet: HeapPacket, _: &Headers, _: IpAddr, _: Account) {
        self.see(&packet);
    }

    fn send(&mut self, packet: HeapPacket, _: IpAddr, _: Option<Account>) {
        self.see(&packet);
    }

    fn speaks(&self, _: ServiceId) -> Speaks {
        Speaks::Http
    }

    fn direct(&mut self, _: &Inquiry<'_>, _: &Hello) -> Result<Peer, Rejection> {
        Err(Rejection::NoBackend)
    }

    fn choose(
        &mut self,
        _: &Inquiry<'_>,
        _: &Request<'_>,
        _: &mut Answer<'_>,
    ) -> Result<Choice, Refusal> {
        let backend = Peer { at: BACKEND, id: BackendId(0) };
        Ok(Choice::Backend { backend, terms: Terms { keeps: true, ..Terms::default() } })
    }

    fn logs(&mut self, _: ServiceId) -> bool {
        true
    }

    fn log(&mut self, record: &Record) {
        self.logged.push(record.bytes[1]);
    }

    fn count(&mut self, event: Event) {
        self.events.push(event);
    }
}

/// A connection with a request at the backend.
pub(crate) struct Scene {
    agent: Agent,
    pub(crate) around: Around,
    /// What each side sends next, and has got: the client's, the backend's.
    pub(crate) next: [u32; 2],
    pub(crate) got: [u32; 2],
    /// Options, and the urgent pointer, of the segments that are sent next.
    pub(crate) options: &'static [u8],
    pub(crate) urgent: u16,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    /// The same, both of whose SYNs have these options.
    pub(crate) fn with(options: &'static [u8]) -> Self {
        let mut scene = Self::asked(options);
        scene.options = options;
        scene.send(1, SYN | ACK, &[]);
        scene.options = &[];
        scene.send(1, ACK, &[]);
        scene
    }

    /// The same before the backend has answered the SYN.
    pub(crate) fn asked(options: &'static [u8]) -> Self {
        let (agent, around) =
            (Agent::new(Settings { records: 16, ..Settings::default() }), Around::default());
        let (next, got) = ([999, 4_999], [0; 2]);
        let mut scene = Self { agent, around, next, got, options, urgent: 0 };
        scene.send(0, SYN, &[]);
        scene.options = &[];
        scene.send(0, ACK, b"GET /first HTTP/1.1\r\nHost: h\r\n\r\n");
        scene
    }

    /// What the agent sends upon a segment of the client (0) or of the backend (1).
    pub(crate) fn send(&mut self, from: usize, flags: u8, payload: &[u8]) -> Vec<Sent> {
        let (src, dst) = [(CLIENT, VIP), (BACKEND, CLIENT)][from];
        let (sequence, acknowledgement) = (self.next[from], self.got[from]);
        let (options, window) = (self.options, 9_000);
        let segment = Segment { sequence, acknowledgement, flags, window, options, payload };
        self.next[from] += payload.len() as u32 + u32::from(flags & (SYN | FIN) != 0);
        let mut frame = segment.frame(src, dst);
        let headers = Headers::parse(&frame).unwrap();
        let at = usize::from(headers.l4) + 18;
        frame[at..at + 2].copy_from_slice(&self.urgent.to_be_bytes());
        let packet = HeapPacket::new(&frame);
        match from {
            0 => self.agent.from_client(packet, &headers, ServiceId(0), 1, &mut self.around),
            _ => self.agent.from_backend(packet, &headers, 1, &mut self.around),
        };
        let sent = std::mem::take(&mut self.around.sent);
        for one in &sent {
            let to = usize::from(one.to != CLIENT);
            let length = one.payload.len() as u32 + u32::from(one.flags & (SYN | FIN) != 0);
            let end = one.sequence.wrapping_add(length);
            if one.flags & RST == 0 && (length > 0 || self.got[to] == 0) {
                self.got[to] = end;
            }
        }
        sent
    }
}

/// What goes to one of the hosts.
pub(crate) fn text(sent: &[Sent], to: SocketAddr) -> String {
    let all = sent.iter().filter(|one| one.to == to).flat_map(|one| one.payload.clone());
    String::from_utf8(all.collect()).unwrap()
}
