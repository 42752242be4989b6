//! Clients of the L7 agent in a capture: they acknowledge the numbers that an HNLB chose when
//! the capture was taken, and the HNLB of the replay chooses others. What they say of these
//! is moved, so that each connection goes on as it did.
use std::collections::HashMap;

use state::Shared;
use wire::{FlowKey, Headers, checksum};

use explain::Sent;
use packet::PacketBuf;

const SYN: u8 = 2;
const ACK: u8 = 16;

/// Bytes of a TCP header without options, and the options' kinds.
const HEADER: usize = 20;
const END: u8 = 0;
const NOTHING: u8 = 1;
const SACK: u8 = 5;
const STAMPS: u8 = 8;

/// Clients by their packets' 5-tuple.
#[derive(Debug, Default)]
pub(crate) struct Clients(HashMap<FlowKey, Client>);

#[derive(Clone, Copy, Debug)]
struct Client {
    /// The initial number and the clock that the client was sent.
    told: Numbers,
    /// What is added to the client's, once it is known what it was sent in the capture.
    moved: Option<Numbers>,
}

/// A place in the agent's stream, and a time of its clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Numbers {
    sequence: u32,
    clock: u32,
}

impl Clients {
    /// Notes what clients of the agent's services are sent.
    pub(crate) fn see(&mut self, shared: &Shared, sent: &[Sent]) {
        for frame in sent.iter().map(|sent| sent.packet.bytes()) {
            let Some((headers, key)) = tcp(frame) else { continue };
            let client = FlowKey::new(key.proto(), key.dst(), key.src());
            let Some(client) = client.filter(|_| headers.tcp_flags.0 & (SYN | ACK) == SYN | ACK)
            else {
                continue;
            };
            let snapshot = shared.snapshot();
            if !snapshot.services.lookup(&client).is_some_and(service::Service::is_spliced) {
                continue;
            }
            let clock = stamps(frame, &headers).map_or(0, |at| get(frame, at));
            let told = Numbers { sequence: headers.sequence, clock };
            let known = self.0.get(&client).filter(|known| known.told == told);
            if known.is_none() {
                self.0.insert(client, Client { told, moved: None });
            }
        }
    }

    /// Moves the acknowledgement, the echo of the clock and the selective acknowledgements of
    /// a client's segment.
    pub(crate) fn change(&mut self, frame: &mut [u8]) {
        let Some((headers, key)) = tcp(frame) else { return };
        if headers.tcp_flags.0 & (SYN | ACK) != ACK {
            return;
        }
        let Some(client) = self.0.get_mut(&key) else { return };
        let echo = stamps(frame, &headers).map(|at| at + 4);
        // What a client acknowledges first is the SYN-ACK, and no byte behind it: it has asked
        // for nothing yet.
        let moved = *client.moved.get_or_insert_with(|| Numbers {
            sequence: client.told.sequence.wrapping_add(1).wrapping_sub(headers.acknowledgement),
            clock: echo.map_or(0, |at| client.told.clock.wrapping_sub(get(frame, at))),
        });
        let l4 = usize::from(headers.l4);
        add(frame, l4, l4 + 8, moved.sequence);
        if let Some(echo) = echo {
            add(frame, l4, echo, moved.clock);
        }
        for (kind, at, end) in options(frame, &headers) {
            for edge in (at..end).step_by(4).filter(|edge| kind == SACK && edge + 4 <= end) {
                add(frame, l4, edge, moved.sequence);
            }
        }
    }
}

/// A whole TCP segment, and its 5-tuple.
fn tcp(frame: &[u8]) -> Option<(Headers, FlowKey)> {
    let headers = Headers::parse(frame).ok()?;
    let key = headers.flow(frame)?;
    let is_tcp = key.proto() == flow::Transport::Tcp && headers.check(frame, false).is_ok();
    is_tcp.then_some((headers, key))
}

/// The options of a segment: kind, and where the data begins and ends.
fn options(frame: &[u8], headers: &Headers) -> Vec<(u8, usize, usize)> {
    let l4 = usize::from(headers.l4);
    let length = usize::from(frame.get(l4 + 12).copied().unwrap_or(0) >> 4) * 4;
    let (mut at, end) = (l4 + HEADER, l4 + length);
    let mut found = Vec::new();
    while at < end {
        match frame.get(at..end).unwrap_or_default() {
            [] | [END, ..] => break,
            [NOTHING, ..] => at += 1,
            [kind, length, ..] if (2..=end - at).contains(&usize::from(*length)) => {
                found.push((*kind, at + 2, at + usize::from(*length)));
                at += usize::from(*length);
            }
            _ => break,
        }
    }
    found
}

/// Where the timestamps are, which are two numbers.
fn stamps(frame: &[u8], headers: &Headers) -> Option<usize> {
    let all = options(frame, headers);
    all.into_iter().find_map(|(kind, at, end)| (kind == STAMPS && end - at == 8).then_some(at))
}

fn get(frame: &[u8], at: usize) -> u32 {
    let word = frame.get(at..).and_then(|rest| rest.first_chunk());
    u32::from_be_bytes(word.copied().unwrap_or_default())
}

/// Adds to the number at `at`; the checksum of the segment at `l4` follows by difference
/// (RFC 1624), so that a damaged segment stays damaged.
fn add(frame: &mut [u8], l4: usize, at: usize, by: u32) {
    let old = get(frame, at);
    let new = old.wrapping_add(by);
    let [old, new] = [old, new].map(u32::to_be_bytes);
    let delta = match (at - l4) % 2 {
        0 => checksum::delta(&old, &new),
        // The bytes are in other halves of words.
        _ => checksum::delta(&old, &new).swap_bytes(),
    };
    if let Some(word) = frame.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *word = new;
    }
    if let Some(field) = frame.get_mut(l4 + 16..).and_then(|rest| rest.first_chunk_mut::<2>()) {
        *field = checksum::update(u16::from_be_bytes(*field), delta).to_be_bytes();
    }
}
