//! Counters of one worker. Every packet that comes in is counted once more:
//! where it went or why it was dropped.
use std::sync::atomic::{AtomicU64, Ordering};

use wire::Malformed;

/// What a counter counts. For every worker the sum of [`In`](Self::In) equals
/// the sum of the five kinds after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CounterKind {
    /// Packets received.
    In,
    /// Packets sent on to their connection's other end.
    Forwarded,
    /// Packets turned into an answer and sent back.
    Replied,
    /// Packets dropped, by reason.
    Dropped,
    /// Packets that were for the load balancer itself.
    Consumed,
    /// Packets that wait here at present. The one kind that also falls.
    Held,
    /// Packets that were made here, from none that came in.
    Originated,
    /// Events on a packet's way, outside the sum.
    Info,
}

macro_rules! counters {
    ($($kind:ident { $($variant:ident $name:literal $help:literal,)* })*) => {
        /// The name of a counter.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Counter {
            $($(#[doc = $help] $variant,)*)*
        }

        impl Counter {
            /// Every counter.
            pub const ALL: &[Self] = &[$($(Self::$variant,)*)*];

            /// Its name, in snake_case.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $($(Self::$variant => $name,)*)* }
            }

            /// What it counts.
            #[must_use]
            pub const fn kind(self) -> CounterKind {
                match self { $($(Self::$variant => CounterKind::$kind,)*)* }
            }

            /// One sentence about it.
            #[must_use]
            pub const fn help(self) -> &'static str {
                match self { $($(Self::$variant => $help,)*)* }
            }
        }
    };
}

counters! {
    In {
        Received "received" "Packets received.",
    }
    Forwarded {
        ForwardedPackets "forwarded" "Packets of connections sent on, ICMP errors about them included.",
    }
    Replied {
        ArpReplied "arp_replied" "ARP requests for an address of ours, answered.",
        NdpReplied "ndp_replied" "Neighbour solicitations for an address of ours, answered.",
        EchoReplied "echo_replied" "Echo requests to an address of ours, answered.",
        TimeExceeded "time_exceeded" "Packets whose TTL ran out here, turned into time exceeded.",
        PacketTooBig "packet_too_big" "Packets longer than the next link's MTU, turned into fragmentation needed or packet too big.",
    }
    Dropped {
        FrameTooLong "frame_too_long" "Frames longer than 65535 bytes.",
        Truncated "truncated" "Frames that end inside a header.",
        BadVersion "bad_version" "The IP version isn't the one that the EtherType says.",
        BadHeaderLength "bad_header_length" "The IPv4 header length is below 20 bytes.",
        BadTotalLength "bad_total_length" "The IP length doesn't fit the frame.",
        TooManyExtensionHeaders "too_many_extension_headers" "More than 8 IPv6 extension headers.",
        MisplacedHopByHop "misplaced_hop_by_hop" "An IPv6 hop-by-hop header that is not the first.",
        TransportTruncated "transport_truncated" "The datagram ends inside the transport header.",
        TinyFragment "tiny_fragment" "A fragment divides the transport header.",
        BadFragment "bad_fragment" "A fragment that can't be part of a datagram.",
        WrongVlan "wrong_vlan" "The port has no interface with the frame's VLAN.",
        WrongMac "wrong_mac" "The destination is another station's Ethernet address.",
        GroupMac "group_mac" "IP to a broadcast or multicast Ethernet address that isn't neighbour discovery.",
        UnknownEtherType "unknown_ethertype" "Neither IPv4, IPv6 nor ARP.",
        BadSource "bad_source" "The IP source address is a group or unspecified address.",
        BadArp "bad_arp" "ARP that isn't for Ethernet and IPv4 or has impossible addresses.",
        ArpNotForUs "arp_not_for_us" "ARP about addresses that aren't ours and neighbours that aren't known.",
        BadNdp "bad_ndp" "Neighbour discovery that RFC 4861 tells to discard.",
        NdpNotForUs "ndp_not_for_us" "Neighbour discovery about addresses that aren't ours and neighbours that aren't known.",
        BadIcmp "bad_icmp" "ICMP with a wrong checksum or a part missing.",
        IcmpUnsupported "icmp_unsupported" "ICMP to us that is neither an echo request nor an error.",
        IcmpUnrelated "icmp_unrelated" "ICMP errors about no connection of ours.",
        ProtocolNotBalanced "protocol_not_balanced" "Neither TCP nor UDP nor ICMP.",
        NotForUs "not_for_us" "Destination is no service, and source is no backend.",
        BackendUnclaimed "backend_unclaimed" "From a backend, but of no connection, and no service or more than one claims it.",
        WrongSide "wrong_side" "From a backend's address, but not from the interface that leads there.",
        RulesRemain "rules_remain" "SYN on the 5-tuple of a connection whose backend is drained and whose rules are still in the NIC.",
        NoBackend "no_backend" "The service has no backend that takes connections.",
        PoolExhausted "pool_exhausted" "The service's pool has no free local endpoint for the connection.",
        TableFull "table_full" "The connection table is full and the service needs state.",
        ReplyConflict "reply_conflict" "Another connection has the same 5-tuple on the backend's side, with every backend tried.",
        NoRoute "no_route" "No route to the next hop.",
        NeighbourTableFull "neighbour_table_full" "No room for another next hop.",
        NeighbourUnresolved "neighbour_unresolved" "The next hop's Ethernet address isn't known yet.",
        TtlExpired "ttl_expired" "The TTL ran out here, and no ICMP error may be sent.",
        TooBig "too_big" "Longer than the next link's MTU, and no ICMP error may be sent.",
        NoRoom "no_room" "The buffer has no room for a VLAN tag, a tunnel's header or an ICMP error.",
        NotRewritable "not_rewritable" "The rewrite doesn't fit the packet.",
        FragmentOverflow "fragment_overflow" "A later fragment came before the first, and there is no room to hold it.",
        FragmentTimeout "fragment_timeout" "A later fragment was held, but the first didn't come.",
        FragmentOrphaned "fragment_orphaned" "The first fragment of the datagram wasn't forwarded.",
    }
    Consumed {
        ArpLearnt "arp_learnt" "ARP replies and announcements of neighbours.",
        NdpLearnt "ndp_learnt" "Neighbour advertisements of neighbours.",
    }
    Held {
        FragmentsHeld "fragments_held" "Fragments that wait for the first one.",
    }
    Originated {
        OriginatedPackets "originated" "Packets made here.",
    }
    Info {
        MatchedByMark "matched_by_mark" "Connection told by the NIC's mark.",
        MatchedByQueue "matched_by_queue" "Backend told by the receive queue.",
        MarkStale "mark_stale" "Mark without meaning or of another connection: looked up.",
        QueueStale "queue_stale" "Queue whose meaning doesn't fit the packet: looked up.",
        Sampled "sampled" "Of those matched by queue: looked up as well, for ageing.",
        LookedUp "looked_up" "Found in the connection table.",
        Missed "missed" "Not found in the connection table.",
        Installed "installed" "Connections put into the table.",
        ResetDoubted "reset_doubted" "RST with a sequence number that the client can't have reached.",
        Rescheduled "rescheduled" "SYN on a known 5-tuple that went to another backend, as a new connection.",
        Reopened "reopened" "SYN on the 5-tuple of a closed connection.",
        TableFullSeen "table_full_seen" "A connection found the table full.",
        Stateless "stateless" "Packets to a VIP served by Maglev alone.",
        ByAddress "by_address" "Packets of stateless services, balanced by the client's address.",
        StatelessReply "stateless_reply" "Packets from a backend translated back without a connection.",
        OffloadRequests "offload_requests" "Messages given to the offload side.",
        OffloadRingFull "offload_ring_full" "Messages that the offload side had no room for.",
        IcmpTranslated "icmp_translated" "ICMP errors translated to their connection.",
        IcmpLimited "icmp_limited" "ICMP errors not sent because of the rate limit.",
        ResolveAsked "resolve_asked" "Next hops asked for.",
        Rerouted "rerouted" "Next hops of old connections looked up again.",
    }
}

impl From<Malformed> for Counter {
    fn from(reason: Malformed) -> Self {
        match reason {
            Malformed::TooLong => Self::FrameTooLong,
            Malformed::Truncated => Self::Truncated,
            Malformed::BadVersion => Self::BadVersion,
            Malformed::BadHeaderLength => Self::BadHeaderLength,
            Malformed::BadTotalLength => Self::BadTotalLength,
            Malformed::TooManyExtensionHeaders => Self::TooManyExtensionHeaders,
            Malformed::MisplacedHopByHop => Self::MisplacedHopByHop,
            Malformed::TransportTruncated => Self::TransportTruncated,
            Malformed::TinyFragment => Self::TinyFragment,
            Malformed::BadFragment => Self::BadFragment,
        }
    }
}

/// One worker's counters: written by that worker, read by anybody.
#[derive(Debug)]
pub struct Counters {
    values: Box<[AtomicU64]>,
}

impl Default for Counters {
    fn default() -> Self {
        Self { values: Counter::ALL.iter().map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Counters {
    /// The present value of `counter`.
    #[must_use]
    pub fn get(&self, counter: Counter) -> u64 {
        self.values.get(counter as usize).map_or(0, |value| value.load(Ordering::Relaxed))
    }

    /// Name, kind and value of every counter.
    #[must_use]
    pub fn snapshot(&self) -> Vec<(&'static str, CounterKind, u64)> {
        Counter::ALL.iter().map(|&c| (c.name(), c.kind(), self.get(c))).collect()
    }

    /// The sum of all counters of `kind`.
    #[must_use]
    pub fn total(&self, kind: CounterKind) -> u64 {
        let of_kind = Counter::ALL.iter().filter(|counter| counter.kind() == kind);
        of_kind.map(|&counter| self.get(counter)).sum()
    }

    /// Packets in, and packets accounted for; equal between two bursts.
    #[must_use]
    pub fn balance(&self) -> (u64, u64) {
        use CounterKind::{Consumed, Dropped, Forwarded, Held, In, Replied};
        let kinds = [Forwarded, Replied, Dropped, Consumed, Held];
        (self.total(In), kinds.into_iter().map(|kind| self.total(kind)).sum())
    }

    /// Adds `by` to `counter`. Only one thread writes, so a load and a store do.
    #[inline]
    pub fn add(&self, counter: Counter, by: u64) {
        if let Some(value) = self.values.get(counter as usize) {
            value.store(value.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
        }
    }

    /// Adds one to `counter`.
    #[inline]
    pub fn count(&self, counter: Counter) {
        self.add(counter, 1);
    }

    /// Takes `by` from `counter`, which is of the kind that also falls.
    #[inline]
    pub fn sub(&self, counter: Counter, by: u64) {
        self.add(counter, by.wrapping_neg());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_malformed_reasons_keep_theirs() {
        let mut names: Vec<_> = Counter::ALL.iter().map(|counter| counter.name()).collect();
        for (at, counter) in Counter::ALL.iter().enumerate() {
            assert_eq!(*counter as usize, at);
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Counter::ALL.len());
        for &reason in Malformed::ALL {
            assert_eq!(Counter::from(reason).name(), reason.name());
            assert_eq!(Counter::from(reason).kind(), CounterKind::Dropped);
        }
    }

    #[test]
    fn adds_up_by_kind() {
        let counters = Counters::default();
        counters.add(Counter::Received, 3);
        counters.count(Counter::WrongMac);
        counters.add(Counter::FragmentsHeld, 2);
        counters.count(Counter::Missed);
        assert_eq!(counters.balance(), (3, 3));
        counters.sub(Counter::FragmentsHeld, 2);
        assert_eq!(counters.balance(), (3, 1));
        assert!(counters.snapshot().contains(&("wrong_mac", CounterKind::Dropped, 1)));
    }
}
