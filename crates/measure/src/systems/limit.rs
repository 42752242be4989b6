//! What bounds all load balancers: receive, rewrite, send, and no match.
use dpdk::{Batch, Mbuf};
use flow::PortId;
use packet::PacketBuf;
use pipeline::Outbox;
use state::Source;
use wire::fast_header::mac_pair;
use wire::{FastRewrite, Headers, Mac, Rewrite, Transport, decrement_ttl, ethernet};

use crate::systems::balancer::Balancer;
use crate::testbed::outbox::Out;

/// What is done to a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Action {
    pub(crate) rewrite: Rewrite,
    /// Where it is sent.
    pub(crate) port: PortId,
    /// Ethernet destination and source.
    pub(crate) macs: [Mac; 2],
}

impl Action {
    /// Carries the action out and sends.
    #[inline]
    pub(crate) fn act(&self, mut packet: Mbuf, headers: &Headers, out: &mut Out<'_>) {
        let frame = packet.bytes_mut();
        let [to, from] = self.macs;
        let done = self.rewrite.apply(frame, headers)
            && decrement_ttl(frame, headers)
            && ethernet::set_macs(frame, to, from);
        if done {
            out.send(self.port, packet);
        }
    }
}

/// One action for all packets, whose headers are not looked at. It is carried
/// out by the very code that carries out those of the load balancer.
pub(crate) struct Limit {
    macs: [u8; 12],
    rewrite: OneRewrite,
    proto: Transport,
    port: PortId,
}

/// The fast path's rewrite of one family's headers.
enum OneRewrite {
    V4(FastRewrite<1>),
    V6(FastRewrite<4>),
}

impl Limit {
    pub(crate) fn new(action: Action, proto: Transport) -> Self {
        let rewrite = match action.rewrite {
            Rewrite::V4(new) => OneRewrite::V4(FastRewrite {
                addresses: [u64::from_ne_bytes(new.addresses)],
                ports: u32::from_ne_bytes(new.ports),
                net_delta: new.net_delta.to_be(),
                transport_delta: new.transport_delta.to_be(),
            }),
            Rewrite::V6(new) => OneRewrite::V6(FastRewrite {
                addresses: std::array::from_fn(|at| {
                    let word = new.addresses.chunks_exact(8).nth(at);
                    word.and_then(|word| word.first_chunk()).map_or(0, |w| u64::from_ne_bytes(*w))
                }),
                ports: u32::from_ne_bytes(new.ports),
                net_delta: 0,
                transport_delta: new.transport_delta.to_be(),
            }),
        };
        let [to, from] = action.macs;
        Self { macs: mac_pair(to, from), rewrite, proto, port: action.port }
    }
}

impl Balancer for Limit {
    #[inline]
    fn process(&mut self, _: Source, burst: &mut Batch, _: u64, out: &mut Out<'_>) {
        for packet in burst.iter() {
            packet.prefetch();
        }
        for mut packet in burst.drain() {
            let frame = packet.bytes_mut();
            if let Some(macs) = frame.first_chunk_mut() {
                *macs = self.macs;
                match &self.rewrite {
                    OneRewrite::V4(rewrite) => rewrite.apply(frame, 0, self.proto),
                    OneRewrite::V6(rewrite) => rewrite.apply(frame, 0, self.proto),
                }
                out.send(self.port, packet);
            }
        }
    }
}
