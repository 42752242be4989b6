//! The segments that the agent makes itself.
use packet::PacketBuf;

use super::Common;
use crate::connection::Conn;
use crate::segment::{self, ACK, ECE, Outline, RST, Received, SYN};
use crate::world::{Event, World};

impl Common {
    /// Makes and sends a packet.
    pub(crate) fn make<B: PacketBuf>(
        outline: &Outline,
        options: &[u8],
        data: &[u8],
        world: &mut impl World<B>,
    ) {
        let length = segment::frame_length(outline, options.len(), data.len());
        let made = world.fresh(length).and_then(|mut packet| {
            segment::emit(&mut packet, outline, options, data).map(|()| packet)
        });
        match made {
            Some(packet) => {
                world.count(Event::Made);
                world.send(packet, outline.dst.ip(), outline.account);
            }
            None => world.count(Event::NoRoom),
        }
    }

    pub(super) fn to_client(conn: &Conn, sequence: u32, flags: u8) -> Outline {
        Outline {
            src: conn.vip(),
            dst: conn.client(),
            sequence,
            acknowledgement: conn.next,
            flags,
            window: conn.own_window(flags & SYN != 0),
            urgent: 0,
            account: None,
        }
    }

    pub(super) fn syn_ack<B: PacketBuf>(&self, conn: &Conn, world: &mut impl World<B>) {
        let ecn = if conn.granted.ecn { ECE } else { 0 };
        let outline = Self::to_client(conn, conn.cookie, SYN | ACK | ecn);
        Self::make(&outline, &conn.granted.emit(conn.clocks.for_client()), &[], world);
    }

    /// A RST for a segment of no connection (RFC 9293 section 3.10.7.1).
    pub(super) fn reset_unknown<B: PacketBuf>(&self, got: &Received, world: &mut impl World<B>) {
        let Outline { src, dst, acknowledgement, .. } = got.outline;
        Self::make(&Outline::reset(dst, src, acknowledgement), &[], &[], world);
    }

    /// A segment on a connection that the agent has reset: its sender has not heard of it.
    pub(super) fn reset_again<B: PacketBuf>(&self, got: &Received, world: &mut impl World<B>) {
        if got.has(ACK) && !got.has(RST) {
            self.reset_unknown(got, world);
        }
    }

    /// Acknowledges a backend's SYN-ACK by itself.
    pub(crate) fn acknowledge<B: PacketBuf>(&self, conn: &Conn, world: &mut impl World<B>) {
        if let Some(outline) = conn.to_backend(conn.limit(), ACK) {
            Self::make(&outline, &conn.options_to_backend(), &[], world);
        }
    }
}
