//! More clients than there is room for: others are served all the same, and what the agent
//! keeps is bounded.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may")]
#[allow(dead_code)]
#[path = "support/checks.rs"]
mod checks;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use checks::{BACKEND, Segment, VIP, Witness};
use flow::ServiceId;
use packet::HeapPacket;
use splice::{Agent, Event, Refusal, Settings, Usage};
use wire::Headers;

const FIN: u8 = 1;
const SYN: u8 = 2;
const ACK: u8 = 16;

struct Scene {
    agent: Agent,
    seen: Witness,
    now_ms: u64,
}

fn client(number: usize) -> SocketAddr {
    let address = Ipv4Addr::from(0x0a01_0000 + number as u32);
    SocketAddr::new(IpAddr::V4(address), 4_000)
}

impl Scene {
    fn new(settings: Settings) -> Self {
        Self { agent: Agent::new(settings), seen: Witness::default(), now_ms: 1 }
    }

    fn send(&mut self, number: usize, sequence: u32, flags: u8, payload: &[u8]) {
        let acknowledgement = if flags & SYN == 0 { self.seen.isn[0].wrapping_add(1) } else { 0 };
        self.send_acknowledging(number, [sequence, acknowledgement], flags, payload);
    }

    fn send_acknowledging(
        &mut self,
        number: usize,
        [sequence, acknowledgement]: [u32; 2],
        flags: u8,
        payload: &[u8],
    ) {
        let segment =
            Segment { sequence, acknowledgement, flags, window: 9_000, options: &[], payload };
        let frame = segment.frame(client(number), VIP);
        let headers = Headers::parse(&frame).unwrap();
        let packet = HeapPacket::new(&frame);
        self.agent.from_client(packet, &headers, ServiceId(0), self.now_ms, &mut self.seen);
    }

    /// Opens a connection and sends what is the beginning of a request, or all of it; the
    /// agent's number.
    fn ask(&mut self, number: usize, bytes: &[u8]) -> u32 {
        self.send(number, 999, SYN, &[]);
        let isn = self.seen.isn[0];
        self.send(number, 1_000, ACK, &[]);
        self.send(number, 1_000, ACK, bytes);
        isn
    }

    /// Ends the connection of a client whose request the backend has got: both sides do.
    fn end(&mut self, number: usize) {
        for (sequence, flags) in [(5_000, SYN | ACK), (5_001, FIN | ACK)] {
            let segment = Segment {
                sequence,
                acknowledgement: 1_000,
                flags,
                window: 9_000,
                options: &[],
                payload: &[],
            };
            let frame = segment.frame(BACKEND, client(number));
            let headers = Headers::parse(&frame).unwrap();
            let packet = HeapPacket::new(&frame);
            self.agent.from_backend(packet, &headers, self.now_ms, &mut self.seen);
        }
        self.send(number, 1_027, FIN | ACK, &[]);
    }

    /// Whether a backend hears of a request of a client's.
    fn is_served(&mut self, number: usize) -> bool {
        let before = self.seen.isn[1];
        self.seen.isn[1] = 0;
        self.ask(number, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        let served = self.seen.isn[1] == 999;
        self.seen.isn[1] = before;
        served
    }

    fn wait(&mut self, ms: u64) {
        for _ in 0..ms.div_ceil(100) {
            self.now_ms += 100;
            self.agent.tick(self.now_ms, &mut self.seen);
        }
    }

    fn count(&self, event: Event) -> usize {
        self.seen.events.iter().filter(|own| **own == event).count()
    }
}

/// The beginning of a header, longer than a small block.
fn long_beginning() -> Vec<u8> {
    [b"GET / HTTP/1.1\r\nHost: h\r\nX: ", &[b'x'; 600][..]].concat()
}

#[test]
fn long_headers_that_do_not_end_leave_blocks_to_others() {
    let settings = Settings { headers: 16, ..Settings::default() };
    let mut scene = Scene::new(settings);
    for number in 0..200 {
        scene.ask(number, &long_beginning());
        assert!(scene.agent.usage().headers <= 16);
        if number % 10 == 0 {
            assert!(scene.is_served(1_000 + number), "behind {number} slow clients");
        }
    }
    assert_eq!(scene.count(Event::NoRoom), 0);
    assert!(scene.count(Event::Evicted) >= 180, "{}", scene.count(Event::Evicted));
}

#[test]
fn slow_clients_with_little_are_told_so_at_their_deadline_and_not_before() {
    let mut scene = Scene::new(Settings { headers: 16, ..Settings::default() });
    for number in 0..10_000 {
        scene.ask(number, b"G");
    }
    let Usage { connections, headers, short_headers, bytes, .. } = scene.agent.usage();
    assert_eq!((connections, headers, short_headers), (10_000, 0, 10_000));
    assert!(bytes < 10_000 * 4_096, "{bytes} bytes");
    assert!(scene.is_served(20_000));
    scene.wait(9_000);
    assert_eq!((scene.count(Event::Evicted), scene.agent.usage().short_headers), (0, 10_000));
    scene.wait(2_000);
    let slow = |event: &&Event| matches!(event, Event::Refused(splice::Refusal::Slow));
    assert_eq!(scene.seen.events.iter().filter(slow).count(), 10_000);
    // Answers that nobody acknowledges end, too.
    scene.wait(120_000);
    assert_eq!(scene.agent.usage(), Usage::default());
}

#[test]
fn a_full_table_takes_a_client_in_the_place_of_a_slow_or_idle_one() {
    let settings = Settings { connections: 32, half_open: 8, ..Settings::default() };
    let mut scene = Scene::new(settings);
    for number in 0..32 {
        // Some are half-open, some have begun a header, some have said nothing.
        match number % 3 {
            0 => scene.send(number, 999, SYN, &[]),
            1 => {
                scene.ask(number, b"GE");
            }
            _ => {
                scene.ask(number, &[]);
            }
        }
    }
    scene.wait(1_500);
    for number in 100..120 {
        assert!(scene.is_served(number), "client {number}");
        assert!(scene.agent.usage().connections <= 32);
    }
    assert!(scene.count(Event::Evicted) >= 10);
}

#[test]
fn connections_that_have_ended_make_place_and_those_of_which_packets_come_stay() {
    let mut scene = Scene::new(Settings { connections: 32, ..Settings::default() });
    for number in 0..32 {
        assert!(scene.is_served(number));
        scene.end(number);
    }
    assert!(!scene.is_served(99), "none has had its time");
    for _ in 0..6 {
        scene.wait(100);
        scene.send(7, 1_028, ACK, &[]);
    }
    for number in 100..131 {
        assert!(scene.is_served(number), "client {number}");
        assert_eq!(scene.agent.usage().connections, 32);
    }
    assert!(!scene.is_served(99), "7 is not quiet, and the others have not ended");
    let sent = scene.seen.sent;
    scene.send(7, 1_028, ACK, &[]);
    assert_eq!((scene.seen.sent, scene.count(Event::Evicted)), (sent + 1, 0), "7 is known");
    for _ in 0..97 {
        scene.wait(100);
        scene.send(7, 1_028, ACK, &[]);
    }
    assert!(scene.is_served(99), "nobody stays for ever");
}

#[test]
fn a_client_that_says_nothing_is_reset_after_a_minute() {
    let mut scene = Scene::new(Settings::default());
    scene.ask(0, &[]);
    scene.wait(59_000);
    assert_eq!(scene.agent.usage().connections, 1);
    let sent = scene.seen.sent;
    scene.wait(2_000);
    assert_eq!((scene.agent.usage().connections, scene.seen.sent), (0, sent + 1));
    assert_eq!(scene.count(Event::Silent), 1);
}

#[test]
fn a_new_connection_in_the_place_of_one_that_has_ended_is_half_open_as_any() {
    let mut scene = Scene::new(Settings { half_open: 3, ..Settings::default() });
    // The agent answers, and the client has that answer.
    for number in 0..10 {
        scene.ask(number, b"nonsense\r\n\r\n");
        let answer = Refusal::RequestLine.answer().len() as u32;
        let behind = scene.seen.isn[0].wrapping_add(answer + 2);
        scene.send_acknowledging(number, [1_012, behind], ACK, &[]);
    }
    assert_eq!(scene.agent.usage().half_open, 0);
    for number in 0..10 {
        scene.send(number, 5_000, SYN, &[]);
        assert!(scene.agent.usage().half_open <= 3, "{:?}", scene.agent.usage());
    }
    assert_eq!(scene.count(Event::Cookie), 7);
    // The cookie is as good as a place.
    let before = scene.seen.isn[1];
    scene.send(9, 5_001, ACK, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_ne!(scene.seen.isn[1], before);
}
