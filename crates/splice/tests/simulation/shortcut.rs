//! The entry of the steady state beside the machine: both must send the same bytes, and
//! know the same afterwards.
use std::net::SocketAddr;

use packet::{HeapPacket, PacketBuf};
use splice::{Agent, Fate, Steady};
use wire::Headers;

/// A packet, and what the entry knows before the machine gets it.
pub(crate) struct Shortcut {
    entry: Option<Steady>,
    frame: Vec<u8>,
    headers: Headers,
}

impl Shortcut {
    pub(crate) fn new(
        agent: &Agent,
        ends: [SocketAddr; 2],
        packet: &HeapPacket,
        headers: &Headers,
    ) -> Self {
        let frame = packet.bytes().to_vec();
        Self { entry: agent.steady(ends), frame, headers: *headers }
    }

    /// Compares with what the machine has sent. Whether the entry has translated it.
    pub(crate) fn check(
        self,
        agent: &Agent,
        ends: [SocketAddr; 2],
        fate: Fate,
        sent: &[HeapPacket],
    ) -> Result<bool, String> {
        let Self { entry: Some(mut entry), mut frame, headers } = self else { return Ok(false) };
        if fate == Fate::Unknown {
            return Ok(false);
        }
        let [client, _] = ends;
        let upwards = headers.src_addr(&frame) == Some(client.ip());
        // The addresses are the caller's.
        let new = sent.first().and_then(|packet| {
            let headers = Headers::parse(packet.bytes()).ok()?;
            let (sport, dport) = headers.ports(packet.bytes())?;
            let src = headers.src_addr(packet.bytes())?;
            let dst = headers.dst_addr(packet.bytes())?;
            Some([SocketAddr::new(src, sport), SocketAddr::new(dst, dport)])
        });
        let new = new.unwrap_or(ends);
        let translated = match upwards {
            true => entry.to_backend(&mut frame, &headers, new),
            false => entry.to_client(&mut frame, &headers, new),
        };
        if translated.is_err() {
            return Ok(false);
        }
        let [only] = sent else {
            return Err(format!("the entry translates what the machine does not: {fate:?}"));
        };
        if only.bytes() != frame {
            return Err(format!("machine {:x?}, entry {frame:x?}", only.bytes()));
        }
        match agent.steady(ends) {
            Some(after) if after != entry => Err(format!("machine {after:?}, entry {entry:?}")),
            _ => Ok(true),
        }
    }
}

/// A fast path: the machine does not see what the entry translates.
#[derive(Default)]
pub(crate) struct FastPath {
    entry: Option<Steady>,
}

impl FastPath {
    /// The packet, if it was translated; otherwise it is the machine's. `new` are its ends
    /// behind the translation.
    pub(crate) fn translate(
        &mut self,
        agent: &mut Agent,
        ends: [SocketAddr; 2],
        packet: &HeapPacket,
        headers: &Headers,
        new: [SocketAddr; 2],
        now: u64,
    ) -> Option<HeapPacket> {
        let entry = self.entry.get_or_insert(agent.steady(ends)?);
        let mut frame = packet.bytes().to_vec();
        let [client, _] = ends;
        let translated = match headers.src_addr(&frame) == Some(client.ip()) {
            true => entry.to_backend(&mut frame, headers, new),
            false => entry.to_client(&mut frame, headers, new),
        };
        if translated.is_ok() {
            return Some(HeapPacket::new(&frame));
        }
        agent.resume(ends, entry, now);
        self.entry = None;
        None
    }
}
