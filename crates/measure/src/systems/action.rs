//! What the systems that HNLB is compared with do to a packet.
use dpdk::Mbuf;
use flow::PortId;
use packet::PacketBuf;
use pipeline::Outbox;
use wire::fast_header::mac_pair;
use wire::{FastHeader, FastRewrite, Headers, Mac, Rewrite, Side, Transport};
use wire::{decrement_ttl, ethernet};

use crate::testbed::outbox::Out;

/// What is done to a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Action {
    /// `None` in mode `dsr`: the packet keeps its endpoints.
    pub(crate) rewrite: Option<Rewrite>,
    /// Where it is sent.
    pub(crate) port: PortId,
    /// Ethernet destination and source.
    pub(crate) macs: [Mac; 2],
}

impl Action {
    /// Carries the action out and sends, one pass for each change.
    #[inline]
    pub(crate) fn act(&self, mut packet: Mbuf, headers: &Headers, out: &mut Out<'_>) {
        let frame = packet.bytes_mut();
        let [to, from] = self.macs;
        let done = self.rewrite.is_none_or(|rewrite| rewrite.apply(frame, headers))
            && decrement_ttl(frame, headers)
            && ethernet::set_macs(frame, to, from);
        if done {
            out.send(self.port, packet);
        }
    }
}

/// The same in one pass, by the code of HNLB's fast path, for packets of one
/// family (`K` as in [`FastHeader`]).
#[derive(Clone, Copy, Debug)]
pub(crate) struct FastAction<const K: usize> {
    macs: [u8; 12],
    /// New addresses and ports; zero where the packet keeps its own.
    rewrite: FastRewrite<K>,
    /// The bits that the packet keeps.
    kept: ([u64; K], u32),
    port: PortId,
}

impl FastAction<1> {
    /// `None`: the action is for IPv6.
    pub(crate) fn v4(action: &Action) -> Option<Self> {
        let Some(rewrite) = action.rewrite else {
            return Some(Self::new(action, &[0; 8], [0; 4], [0; 2], (None, None)));
        };
        let Rewrite::V4(new) = rewrite else { return None };
        let deltas = [new.net_delta, new.transport_delta];
        Some(Self::new(action, &new.addresses, new.ports, deltas, (Some(new.side), new.port_side)))
    }
}

impl FastAction<4> {
    /// `None`: the action is for IPv4.
    pub(crate) fn v6(action: &Action) -> Option<Self> {
        let Some(Rewrite::V6(new)) = action.rewrite else { return None };
        let (deltas, sides) = ([0, new.transport_delta], (Some(new.side), new.port_side));
        Some(Self::new(action, &new.addresses, new.ports, deltas, sides))
    }
}

impl<const K: usize> FastAction<K> {
    fn new(
        action: &Action,
        addresses: &[u8],
        ports: [u8; 4],
        [net_delta, transport_delta]: [u16; 2],
        (side, port_side): (Option<Side>, Option<Side>),
    ) -> Self {
        let [to, from] = action.macs;
        // Source, then destination: all bits of a half that stays.
        let halves = |side: Option<Side>, len: usize| -> Vec<u8> {
            let new =
                |source| side.is_some_and(if source { Side::source } else { Side::destination });
            [true, false]
                .into_iter()
                .flat_map(|half| vec![if new(half) { 0 } else { 0xff }; len])
                .collect()
        };
        let kept_ports =
            halves(port_side, 2).first_chunk().map_or(0, |ports| u32::from_ne_bytes(*ports));
        Self {
            macs: mac_pair(to, from),
            rewrite: FastRewrite {
                addresses: words(addresses),
                ports: u32::from_ne_bytes(ports),
                net_delta: net_delta.to_be(),
                transport_delta: transport_delta.to_be(),
            },
            kept: (words(&halves(side, addresses.len() / 2)), kept_ports),
            port: action.port,
        }
    }

    /// Carries the action out and sends. Without the packet's own `header`, what
    /// the packet should keep is written as zeros.
    #[inline]
    pub(crate) fn act(
        &self,
        mut packet: Mbuf,
        header: Option<&FastHeader<K>>,
        proto: Transport,
        out: &mut Out<'_>,
    ) {
        let frame = packet.bytes_mut();
        let Some(macs) = frame.first_chunk_mut() else { return };
        *macs = self.macs;
        let mut rewrite = self.rewrite;
        if let Some(header) = header {
            let (addresses, ports) = self.kept;
            for (at, word) in rewrite.addresses.iter_mut().enumerate() {
                *word |= header.addresses[at] & addresses[at];
            }
            rewrite.ports |= header.ports & ports;
        }
        rewrite.apply(frame, 0, proto);
        out.send(self.port, packet);
    }
}

/// Bytes as words in the order of memory.
fn words<const K: usize>(bytes: &[u8]) -> [u64; K] {
    let mut words = bytes.chunks_exact(8).filter_map(|word| word.first_chunk());
    std::array::from_fn(|_| words.next().map_or(0, |word| u64::from_ne_bytes(*word)))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    /// What the action leaves alone is kept, what it names is replaced.
    #[test]
    fn both_forms_write_the_same_endpoints() {
        let end = |text: &str| text.parse::<SocketAddr>().unwrap();
        let (client, vip, server) =
            (end("100.64.0.1:1024"), end("192.0.2.100:80"), end("10.0.0.11:8080"));
        let macs = [Mac([2; 6]), Mac([4; 6])];
        for (rewrite, from, to, after) in [
            (Rewrite::destination(vip, server), client, vip, (client, server)),
            (Rewrite::source(server, vip), server, client, (vip, client)),
            (None, client, vip, (client, vip)),
        ] {
            let action = Action { rewrite, port: PortId(1), macs };
            let fast = FastAction::v4(&action).unwrap();
            let bytes = |from: SocketAddr, to: SocketAddr| {
                let (SocketAddr::V4(from), SocketAddr::V4(to)) = (from, to) else { unreachable!() };
                let addresses = words::<1>(&[from.ip().octets(), to.ip().octets()].concat());
                let ports = [from.port().to_be_bytes(), to.port().to_be_bytes()].concat();
                (addresses[0], u32::from_ne_bytes(*ports.first_chunk().unwrap()))
            };
            let (before, wanted) = (bytes(from, to), bytes(after.0, after.1));
            let (addresses, ports) = fast.kept;
            assert_eq!(fast.rewrite.addresses[0] | before.0 & addresses[0], wanted.0);
            assert_eq!(fast.rewrite.ports | before.1 & ports, wanted.1);
        }
    }
}
