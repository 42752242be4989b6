//! Conversations as frames.
use std::net::Ipv4Addr;

use etherparse::PacketBuilder;
use traffic::{Application, Message, Rng};

/// A connection of an application, frame by frame.
#[derive(Clone, Debug)]
pub struct Conversation {
    application: Application,
    client: (Ipv4Addr, u16),
    server: (Ipv4Addr, u16),
    messages: Vec<Message>,
    /// Sequence numbers of client and server.
    sequence: [u32; 2],
    next: usize,
}

/// Frames of the TCP handshake.
const HANDSHAKE: usize = 3;

impl Conversation {
    /// The connection `number` of an application.
    #[must_use]
    pub fn new(application: Application, number: u32, rng: &mut Rng) -> Self {
        let port = 1024 + (number % 60_000) as u16;
        Self {
            application,
            client: (Ipv4Addr::from(0x0a00_0000 | (number / 60_000)), port),
            server: (Ipv4Addr::from(0xc000_0200 | (number % 200)), application.port()),
            messages: application.conversation(rng),
            sequence: [rng.next_u64() as u32, rng.next_u64() as u32],
            next: 0,
        }
    }

    /// Its application.
    #[must_use]
    pub const fn application(&self) -> Application {
        self.application
    }

    /// The next frame; at the end of the conversation its last message is repeated, as a
    /// stream that goes on.
    #[must_use]
    pub fn next_frame(&mut self) -> Vec<u8> {
        let place = self.next;
        self.next += 1;
        if self.application.is_udp() {
            return self.datagram(place);
        }
        let Some(place) = place.checked_sub(HANDSHAKE) else {
            return self.segment(place == 1, place < 2, &[]);
        };
        let message = self.messages.get(place).or(self.messages.last()).cloned();
        let Some(Message { back, payload }) = message else { return Vec::new() };
        self.segment(back, false, &payload)
    }

    fn segment(&mut self, back: bool, syn: bool, payload: &[u8]) -> Vec<u8> {
        let [own, other] = if back { [1, 0] } else { [0, 1] };
        let (from, to) = self.ends(back);
        let (sequence, acknowledged) = (self.sequence[own], self.sequence[other]);
        let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
            .ipv4(from.0.octets(), to.0.octets(), 64)
            .tcp(from.1, to.1, sequence, 65_535);
        let builder = match (syn, back) {
            (true, false) => builder.syn(),
            (true, true) => builder.syn().ack(acknowledged),
            _ => builder.ack(acknowledged),
        };
        let mut frame = Vec::with_capacity(54 + payload.len());
        // A vector takes everything.
        let _ = builder.write(&mut frame, payload);
        let length = payload.len() as u32 + u32::from(syn);
        self.sequence[own] = sequence.wrapping_add(length);
        frame
    }

    fn datagram(&self, place: usize) -> Vec<u8> {
        let message = self.messages.get(place % self.messages.len().max(1));
        let Some(Message { back, payload }) = message else { return Vec::new() };
        let (from, to) = self.ends(*back);
        let mut frame = Vec::with_capacity(42 + payload.len());
        let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
            .ipv4(from.0.octets(), to.0.octets(), 64)
            .udp(from.1, to.1);
        let _ = builder.write(&mut frame, payload);
        frame
    }

    const fn ends(&self, back: bool) -> ((Ipv4Addr, u16), (Ipv4Addr, u16)) {
        if back { (self.server, self.client) } else { (self.client, self.server) }
    }
}
