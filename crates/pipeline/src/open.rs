//! The short way of first packets: plain IPv4 packets (`wire::Plain::first`) to a
//! service of mode `nat` whose connection the burst's lookup did not find. They
//! are prepared before the third pass, backend and all, so that the cache lines
//! of their insertions are fetched together; in it they are inserted, rewritten
//! and sent. That the key is new is what the insertion itself finds out under
//! its lock, so nothing is looked up again. Whatever isn't as usual goes the
//! general way, untouched.
use std::net::SocketAddrV4;

use arrayvec::ArrayVec;
use conntrack::{Event, PlainOpening};
use packet::PacketBuf;
use service::{BackendId, HopId, Mode, Service};
use wire::{FlowKey, FlowV4, Plain, PlainRewrite, TcpFlags, Transport};

use crate::context::Context;
use crate::counters::Counter;
use crate::hops::{Hops, Way};
use crate::known::{notice, want};
use crate::lane::{Told, key};
use crate::miss::{self, Scheduling};
use crate::pipeline::BURST;
use crate::roads::Roads;
use crate::{Admit, Outbox, PortId};

/// Packets of a burst that may open connections: place and content.
pub(crate) type Fresh = ArrayVec<(u8, Plain), BURST>;

/// A connection that is about to be opened.
#[derive(Debug)]
struct Opening {
    conn: PlainOpening,
    /// The first packet's, of TCP.
    flags: Option<TcpFlags>,
    proto: u8,
    way: Way,
    /// The table is full: the packet is sent on, and nothing is inserted.
    without_state: bool,
}

/// What the short way keeps, within a burst and between bursts.
#[derive(Debug, Default)]
pub(crate) struct Openings {
    all: ArrayVec<Opening, BURST>,
    roads: Roads,
}

/// What became of a first packet.
#[derive(Debug)]
pub(crate) enum Opened {
    /// It may be sent there.
    Sent(PortId),
    /// The general way is to be taken, with the backend that was chosen for it.
    General(Option<BackendId>),
}

impl Openings {
    /// Prepares the packets of `fresh` that open connections in the usual way,
    /// and notes them in `told`.
    pub(crate) fn prepare<O>(
        &mut self,
        cx: &Context<'_, O>,
        hops: &mut Hops,
        scheduling: &mut Scheduling,
        fresh: &Fresh,
        told: &mut [Told],
    ) {
        self.all.clear();
        let mut seen = Seen::default();
        for (at, (place, plain)) in fresh.iter().enumerate() {
            let earlier = || fresh.iter().take(at).any(|(_, other)| key(other) == key(plain));
            if seen.maybe(plain) && earlier() {
                // The first one opens it: this is of a known connection then.
                continue;
            }
            let Some(told) = told.get_mut(usize::from(*place)) else { continue };
            if let Some(prepared) = self.one(cx, hops, scheduling, plain) {
                *told = prepared;
            }
        }
    }

    /// Prepares one packet; `None`: it goes the general way.
    #[inline]
    fn one<O>(
        &mut self,
        cx: &Context<'_, O>,
        hops: &mut Hops,
        scheduling: &mut Scheduling,
        plain: &Plain,
    ) -> Option<Told> {
        let key = FlowKey::from(key(plain));
        let FlowKey::V4(flow) = key else { return None };
        let service = cx.snapshot.services.lookup(&key)?;
        let usual = matches!(service.mode(), Mode::Nat) && miss::is_client(cx, key.src());
        if !usual {
            return None;
        }
        let back = self.roads.to_client(cx, hops.era(), flow.src)?;
        // Its Ethernet address is known, so there is nothing to ask for.
        hops.way(cx, back)?;
        let without_state = cx.shared.table.refuses_v4();
        let backend = if without_state {
            scheduling.full_ms = Some(cx.now_ms);
            service.maglev(&key)
        } else {
            miss::choose(cx, scheduling, service, &key, plain.flags)
        }?;
        let Some((server, there)) = self.towards(cx, hops, service, backend, &flow) else {
            return Some(Told::Chosen(backend));
        };
        let Some(way) = hops.way(cx, there).filter(|way| plain.length <= way.mtu).copied() else {
            return Some(Told::Chosen(backend));
        };
        let conn = PlainOpening::new(&flow, server, (service.id(), backend), [there, back]);
        if !without_state {
            cx.shared.table.prefetch_open(&conn);
            // Counted at once: the next packet's choice may depend on it.
            cx.shared.active.opened(backend);
        }
        let place = u8::try_from(self.all.len()).ok()?;
        let flags = (flow.proto == Transport::Tcp).then_some(plain.flags);
        let proto = plain.proto;
        self.all.try_push(Opening { conn, flags, proto, way, without_state }).ok()?;
        Some(Told::Open(place))
    }

    /// Where the packet goes: server and next hop.
    #[inline]
    fn towards<O>(
        &mut self,
        cx: &Context<'_, O>,
        hops: &Hops,
        service: &Service,
        backend: BackendId,
        flow: &FlowV4,
    ) -> Option<(SocketAddrV4, HopId)> {
        let server = service.nat_server(backend, flow.dport)?;
        Some((server, self.roads.to_server(cx, hops.era(), *server.ip())?))
    }

    /// Opens connection number `at` and makes `frame`, its first packet, what
    /// the server gets.
    #[inline]
    pub(crate) fn open<B: PacketBuf, O: Outbox<B>>(
        &self,
        cx: &mut Context<'_, O>,
        at: u8,
        frame: &mut [u8],
    ) -> Opened {
        let Some(opening) = self.all.get(usize::from(at)) else { return Opened::General(None) };
        let Opening { conn, flags, proto, way, without_state } = opening;
        if *without_state {
            cx.count(Counter::TableFullSeen);
            cx.count(Counter::Stateless);
        } else {
            let Ok((id, event)) = cx.shared.table.open(conn, *flags, cx.now_ms) else {
                cx.shared.active.closed(conn.backend());
                return Opened::General(Some(conn.backend()));
            };
            cx.count(Counter::Installed);
            if cx.snapshot.admit == Admit::FirstPacket {
                want(cx, id);
            }
            if event != Event::None {
                notice(cx, id, event);
            }
        }
        cx.count(Counter::Missed);
        let action = conn.action();
        let rewrite = PlainRewrite {
            macs: way.macs,
            addresses: action.addresses,
            ports: action.ports,
            net_delta: action.net_delta,
            transport_delta: action.transport_delta,
        };
        if !rewrite.apply(frame, *proto) {
            return Opened::General(None);
        }
        cx.count(Counter::ForwardedPackets);
        Opened::Sent(way.port)
    }
}

/// A set of 5-tuples that may say that one is in which isn't. Whoever chooses
/// 5-tuples that agree here makes the burst compare them one by one.
#[derive(Debug, Default)]
struct Seen([u64; 16]);

impl Seen {
    /// Whether the packet's 5-tuple may have been here before.
    #[inline]
    fn maybe(&mut self, plain: &Plain) -> bool {
        let ports = u64::from(plain.ports).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = (plain.addresses ^ ports).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 54;
        let Some(word) = self.0.get_mut(hash as usize / 64) else { return true };
        let bit = 1 << (hash % 64);
        let before = *word & bit != 0;
        *word |= bit;
        before
    }
}
