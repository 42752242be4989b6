//! The exception path: packets that nothing here takes go to the kernel, over the
//! interface that it has in the place of the one they came in on.
//!
//! | packet | goes to the kernel |
//! |---|---|
//! | to an address of an interface, of no connection and no service | yes |
//! | to an address that is neither ours nor of a service | yes: the kernel routes, if it is told to |
//! | ARP and neighbour discovery that the load balancer does not answer | yes: the kernel learns its own neighbours |
//! | IP to a group | yes |
//! | pieces of ICMP to an address of an interface, of echo requests too | yes |
//! | to a VIP or an address of a pool | no |
use std::net::IpAddr;

use packet::PacketBuf;
use state::Counter;
use wire::vlan;

use crate::Outbox;
use crate::context::{Context, Packet};
use crate::token_bucket::TokenBucket;

/// The rate at which one worker gives packets to the kernel.
pub(crate) struct Exceptions {
    limit: TokenBucket,
    /// That of answers of backends' service ports: a flood at an interface's address
    /// takes no health check down.
    answers: TokenBucket,
}

impl Exceptions {
    /// At most `per_second` packets go to the kernel, and as many answers of backends.
    pub(crate) fn new(per_second: u32) -> Self {
        Self { limit: TokenBucket::new(per_second), answers: TokenBucket::new(per_second) }
    }

    /// Takes another rate.
    pub(crate) fn set_rate(&mut self, per_second: u32) {
        self.limit.set_rate(per_second);
        self.answers.set_rate(per_second);
    }

    /// Gives `packet`, of which nothing has become for `reason`, to the kernel.
    /// Returns it if it is not the kernel's.
    #[cold]
    pub(crate) fn give<B: PacketBuf, O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        packet: Packet<B>,
        reason: Counter,
    ) -> Option<Packet<B>> {
        if !is_for_kernel(cx, &packet, reason) {
            return Some(packet);
        }
        let limit = match reason {
            Counter::BackendUnclaimed => &mut self.answers,
            _ => &mut self.limit,
        };
        if !limit.take(cx.now_ms) {
            cx.count(Counter::ToKernelLimited);
            return None;
        }
        let Packet { mut buf, mut headers, interface } = packet;
        // Taking a tag away can't fail.
        let _ = vlan::set(&mut buf, &mut headers, None);
        let given = cx.out.to_kernel(interface, buf);
        cx.count(if given { Counter::ToKernel } else { Counter::ToKernelFull });
        None
    }

    /// Gives `packet` to the kernel, or counts it as `reason` if it is not the kernel's.
    pub(crate) fn give_or_count<B: PacketBuf, O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        packet: Packet<B>,
        reason: Counter,
    ) {
        if self.give(cx, packet, reason).is_some() {
            cx.count(reason);
        }
    }
}

/// Whether the kernel has an interface in the place of the one that `packet` came in on.
pub(crate) fn has_kernel<B, O>(cx: &Context<'_, O>, packet: &Packet<B>) -> bool {
    cx.arrived(packet).is_some_and(|interface| interface.kernel.is_some())
}

/// Whether a packet of which nothing has become for `reason` is the kernel's.
fn is_for_kernel<B: PacketBuf, O>(
    cx: &Context<'_, O>,
    packet: &Packet<B>,
    reason: Counter,
) -> bool {
    if !has_kernel(cx, packet) {
        return false;
    }
    match reason {
        Counter::ArpLearnt
        | Counter::ArpNotForUs
        | Counter::NdpLearnt
        | Counter::NdpNotForUs
        | Counter::GroupMac => true,
        // What came to an interface's address is the kernel's; what did not, the
        // kernel routes.
        Counter::NotForUs
        | Counter::ProtocolNotBalanced
        | Counter::IcmpUnsupported
        | Counter::IcmpUnrelated
        | Counter::FragmentOrphaned => {
            let dst = packet.headers.dst_addr(packet.buf.bytes());
            dst.is_some_and(|dst| is_own(cx, dst) || !cx.snapshot.services.has(dst))
        }
        // A backend's service port answers a connection of the kernel's, as health
        // checks open them; and a VIP may be an interface's address as well. Pieces of
        // ICMP to a VIP are the load balancer's.
        Counter::BackendUnclaimed | Counter::ClosedPort | Counter::IcmpPieces => {
            let dst = packet.headers.dst_addr(packet.buf.bytes());
            dst.is_some_and(|dst| is_own(cx, dst))
        }
        _ => false,
    }
}

fn is_own<O>(cx: &Context<'_, O>, addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(addr) => cx.snapshot.interfaces.has_v4(addr),
        IpAddr::V6(_) => cx.snapshot.interfaces.owner(addr).is_some(),
    }
}
