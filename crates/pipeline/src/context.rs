//! What every stage uses while the pipeline processes one burst.
use conntrack::Action;
use flow::{Account, HopId, InterfaceId};
use l3::Interface;
use packet::PacketBuf;
use service::Delivery;
use state::{BackendCounts, Counter, Counters, Shared, Snapshot, Source};
use wire::{Headers, Malformed, TcpFlags, ethernet, vlan};

use crate::Outbox;

/// The surroundings of a burst.
pub(crate) struct Context<'a, O> {
    pub(crate) shared: &'a Shared,
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) counters: &'a Counters,
    pub(crate) counts: &'a BackendCounts,
    pub(crate) from: Source,
    /// Whether another worker has received the packets and handed them over.
    pub(crate) handed: bool,
    /// Whether the number of the receive queue says something about its packets.
    pub(crate) queue: bool,
    pub(crate) now_ms: u64,
    pub(crate) out: &'a mut O,
}

/// A parsed packet and the interface it came in on.
pub(crate) struct Packet<B> {
    pub(crate) buf: B,
    pub(crate) headers: Headers,
    pub(crate) interface: InterfaceId,
}

impl<B: PacketBuf> Packet<B> {
    /// See [`Headers::check`].
    ///
    /// # Errors
    /// What is wrong with the packet.
    pub(crate) fn check(&self) -> Result<(), Malformed> {
        self.headers.check(self.buf.bytes(), self.buf.has_verified_header())
    }
}

/// What the act stage does to a packet: the result of matching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) delivery: Delivery,
    pub(crate) hop: HopId,
    /// For whom the packet counts; `None`: which backend has sent it can't be told.
    pub(crate) account: Option<Account>,
}

impl Decision {
    /// Where the packet goes, and for whom it counts.
    pub(crate) const fn to(&self) -> (HopId, Option<Account>) {
        (self.hop, self.account)
    }
}

impl From<Action> for Decision {
    fn from(action: Action) -> Self {
        let account = Some(account(&action));
        Self { delivery: action.delivery, hop: action.hop, account }
    }
}

/// For whom a packet with this action counts.
pub(crate) const fn account(action: &Action) -> Account {
    Account { backend: action.backend, direction: action.direction }
}

impl<O> Context<'_, O> {
    #[inline]
    pub(crate) fn count(&self, counter: Counter) {
        self.counters.count(counter);
    }

    /// The interface a packet came in on.
    pub(crate) fn arrived<B>(&self, packet: &Packet<B>) -> Option<&Interface> {
        self.snapshot.interfaces.get(packet.interface)
    }

    /// Hands a packet over to the worker whose it is.
    pub(crate) fn hand_over<B>(&mut self, worker: usize, packet: B)
    where
        O: Outbox<B>,
    {
        let done = self.out.hand_over(worker, self.from, packet);
        self.count(if done { Counter::ToWorker } else { Counter::ToWorkerFull });
    }

    /// Sends an answer, which is complete except for its tag, back to where the
    /// packet came from that it was made from.
    pub(crate) fn reply<B: PacketBuf>(&mut self, packet: Packet<B>, counter: Counter)
    where
        O: Outbox<B>,
    {
        self.count(counter);
        self.out.send(self.from.port, packet.buf);
    }

    /// Makes `packet` the untagged frame `answer` with the packet's own tag.
    /// `false`: the buffer is too small.
    pub(crate) fn replace<B: PacketBuf>(packet: &mut Packet<B>, answer: &[u8]) -> bool {
        let tag = packet.headers.vlan;
        if !vlan::set(&mut packet.buf, &mut packet.headers, None)
            || !packet.buf.resize(answer.len())
        {
            return false;
        }
        packet.buf.bytes_mut().copy_from_slice(answer);
        tag.is_none_or(|id| vlan::push(&mut packet.buf, id))
    }

    /// Writes the tag and the Ethernet addresses of the path over `interface` into
    /// `packet` and sends it. It counts for an account with so many bytes, if for any.
    #[inline]
    pub(crate) fn send<B: PacketBuf>(
        &mut self,
        mut packet: Packet<B>,
        interface: &Interface,
        to: wire::Mac,
        carried: Option<(Account, usize)>,
    ) where
        O: Outbox<B>,
    {
        if !vlan::set(&mut packet.buf, &mut packet.headers, interface.vlan) {
            return self.count(Counter::NoRoom);
        }
        if !ethernet::set_macs(packet.buf.bytes_mut(), to, interface.mac) {
            return self.count(Counter::Truncated);
        }
        self.count(Counter::ForwardedPackets);
        if let Some((account, bytes)) = carried {
            self.counts.ways().carry(account, bytes);
            if packet.headers.tcp_flags.any(TcpFlags::RST) {
                self.counts.reset(account);
            }
        }
        self.out.send(interface.port, packet.buf);
    }
}
