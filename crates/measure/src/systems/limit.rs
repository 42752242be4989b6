//! What bounds all load balancers: receive, rewrite, send, and no match.
use dpdk::Batch;
use packet::PacketBuf;
use state::Source;
use wire::Transport;

use crate::systems::action::{Action, FastAction};
use crate::systems::balancer::Balancer;
use crate::testbed::outbox::Out;

/// One action for all packets, whose headers are not looked at. It is carried
/// out by the very code that carries out those of the load balancer, but since
/// it doesn't read a packet it can't keep the source either: all packets leave
/// from address and port 0 (in mode `dsr` for address and port 0, too), which costs
/// the same as the right ones.
pub(crate) struct Limit {
    action: OneAction,
    proto: Transport,
}

enum OneAction {
    V4(FastAction<1>),
    V6(FastAction<4>),
}

impl Limit {
    pub(crate) fn new(action: &Action, proto: Transport) -> Option<Self> {
        let v4 = FastAction::v4(action).map(OneAction::V4);
        let action = v4.or_else(|| FastAction::v6(action).map(OneAction::V6))?;
        Some(Self { action, proto })
    }
}

impl Balancer for Limit {
    #[inline]
    fn process(&mut self, _: Source, burst: &mut Batch, _: u64, out: &mut Out<'_>) {
        for packet in burst.iter() {
            packet.prefetch();
        }
        for packet in burst.drain() {
            match &self.action {
                OneAction::V4(action) => action.act(packet, None, self.proto, out),
                OneAction::V6(action) => action.act(packet, None, self.proto, out),
            }
        }
    }
}
