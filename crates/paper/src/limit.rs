//! What bounds all load balancers: receive, rewrite, send, and no match.
use dpdk::{Batch, Mbuf};
use packet::PacketBuf;
use pipeline::{Outbox, PortId};
use wire::{Fragment, Headers, Mac, Net, Rewrite, TcpFlags, decrement_ttl, ethernet};

use crate::balancer::{Balancer, RX_BURST};
use crate::flows::SERVER_SIDE;
use crate::outbox::Out;

/// What is done to a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Action {
    pub(crate) rewrite: Rewrite,
    pub(crate) mac: Mac,
}

impl Action {
    /// Carries the action out and sends.
    #[inline]
    pub(crate) fn act(&self, mut packet: Mbuf, headers: &Headers, out: &mut Out<'_>) {
        let frame = packet.bytes_mut();
        let done = self.rewrite.apply(frame, headers)
            && decrement_ttl(frame, headers)
            && ethernet::set_macs(frame, self.mac, SERVER_SIDE);
        if done {
            out.send(PortId(1), packet);
        }
    }
}

/// One action for all packets, whose headers are not looked at.
pub(crate) struct Limit {
    action: Action,
    headers: Headers,
}

impl Limit {
    pub(crate) fn new(action: Action) -> Self {
        let headers = Headers {
            net: Net::Ipv4,
            l3: 14,
            l4: 34,
            end: 54,
            vlan: None,
            proto: 6,
            ttl: 64,
            tcp_flags: TcpFlags(TcpFlags::ACK),
            fragment: Fragment::Whole,
        };
        Self { action, headers }
    }
}

impl Balancer for Limit {
    #[inline]
    fn process(&mut self, _: u16, burst: &mut Batch<RX_BURST>, _: u64, out: &mut Out<'_>) {
        for packet in burst.iter() {
            packet.prefetch();
        }
        for packet in burst.drain() {
            self.action.act(packet, &self.headers, out);
        }
    }
}
