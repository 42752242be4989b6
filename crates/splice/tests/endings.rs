//! How connections end on which one request has reached the backend and the next can't.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests may")]
#[allow(dead_code)]
#[path = "support/checks.rs"]
mod checks;

use std::net::{IpAddr, SocketAddr};

use checks::{BACKEND, CLIENT, Segment, VIP};
use flow::{Account, BackendId, ServiceId};
use packet::{HeapPacket, PacketBuf};
use splice::{
    Agent, Answer, Choice, Event, Hello, Inquiry, Peer, Refusal, Rejection, Request, Settings,
    Speaks, Terms, World,
};
use wire::Headers;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// A segment that the agent has let out.
#[derive(Debug)]
struct Sent {
    to: SocketAddr,
    sequence: u32,
    acknowledgement: u32,
    flags: u8,
    payload: Vec<u8>,
}

#[derive(Default)]
struct Around {
    sent: Vec<Sent>,
    events: Vec<Event>,
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

    fn count(&mut self, event: Event) {
        self.events.push(event);
    }
}

/// A connection with a request at the backend.
struct Scene {
    agent: Agent,
    around: Around,
    /// What each side sends next, and has got: the client's, the backend's.
    next: [u32; 2],
    got: [u32; 2],
}

impl Scene {
    fn new() -> Self {
        let (agent, around) = (Agent::new(Settings::default()), Around::default());
        let mut scene = Self { agent, around, next: [999, 4_999], got: [0; 2] };
        scene.send(0, SYN, &[]);
        scene.send(0, ACK, b"GET /first HTTP/1.1\r\nHost: h\r\n\r\n");
        scene.send(1, SYN | ACK, &[]);
        scene.send(1, ACK, &[]);
        scene
    }

    /// What the agent sends upon a segment of the client (0) or of the backend (1).
    fn send(&mut self, from: usize, flags: u8, payload: &[u8]) -> Vec<Sent> {
        let (src, dst) = [(CLIENT, VIP), (BACKEND, CLIENT)][from];
        let (sequence, acknowledgement) = (self.next[from], self.got[from]);
        let segment =
            Segment { sequence, acknowledgement, flags, window: 9_000, options: &[], payload };
        self.next[from] += payload.len() as u32 + u32::from(flags & (SYN | FIN) != 0);
        let frame = segment.frame(src, dst);
        let headers = Headers::parse(&frame).unwrap();
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

fn text(sent: &[Sent], to: SocketAddr) -> String {
    let all = sent.iter().filter(|one| one.to == to).flat_map(|one| one.payload.clone());
    String::from_utf8(all.collect()).unwrap()
}

#[test]
fn a_reset_within_a_second_header_reaches_the_backend() {
    for other in [0, 3] {
        let mut scene = Scene::new();
        scene.send(0, ACK, b"GET /second HTT");
        let expected = scene.got[1];
        scene.next[0] -= other;
        let sent = scene.send(0, RST, &[]);
        let resets: Vec<u32> = sent
            .iter()
            .filter(|one| one.to == BACKEND && one.flags & RST != 0)
            .map(|one| one.sequence)
            .collect();
        // Only the exact number counts (RFC 5961 section 3.2).
        assert_eq!(resets, if other == 0 { vec![expected] } else { Vec::new() });
    }
}

#[test]
fn a_second_request_that_cannot_be_read_is_refused_behind_the_first_response() {
    for second in ["GET / HTTP/1.1\r\nHost : h\r\n\r\n", "nonsense\r\n\r\n"] {
        let mut scene = Scene::new();
        let sent = scene.send(0, ACK, second.as_bytes());
        assert!(sent.iter().all(|one| one.flags & RST == 0), "{sent:?}");
        let response = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        let sent = scene.send(1, ACK, response.as_bytes());
        assert_eq!(text(&sent, CLIENT), response);
        let end = scene.got[0];
        let sent = scene.send(0, ACK, &[]);
        let answer = sent.iter().find(|one| !one.payload.is_empty()).unwrap();
        assert!(text(&sent, CLIENT).starts_with("HTTP/1.1 400 Bad Request\r\n"), "{sent:?}");
        assert_eq!((answer.sequence, answer.to), (end, CLIENT));
        assert_eq!(answer.acknowledgement, scene.next[0]);
        assert!(sent.iter().any(|one| one.to == BACKEND && one.flags & RST != 0));
        assert!(!scene.around.events.contains(&Event::Reset));
    }
}
