//! Asks for next hops and keeps what is known of them fresh, after RFC 4861
//! section 7.3 for both families.
use std::net::IpAddr;
use std::sync::Arc;

use arrayvec::ArrayVec;
use flow::{HopId, PortId};
use l3::{Change, Interface, Neighbour, NeighbourState, NeighbourTable};
use state::{Counter, Counters, Shared, Snapshot};
use wire::numbers::ethertype;
use wire::{Mac, arp, ndp, vlan};

/// The resolver's times, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResolverSettings {
    /// The pause between the first two questions; the next pauses double up to
    /// `longest_ms`.
    pub again_ms: u64,
    /// The longest pause between questions.
    pub longest_ms: u64,
    /// Questions without an answer after which a stale neighbour is given up.
    pub tries: u32,
    /// The same where known addresses are pinned. A flood makes a busy machine lose
    /// answers, and after the last try the address is anybody's who claims it.
    pub pinned_tries: u32,
    /// The longest pause between questions where known addresses are pinned.
    pub pinned_longest_ms: u64,
    /// How long a neighbour that has not answered is remembered.
    pub unanswered_ms: u64,
    /// Slots of the neighbour table looked at in one tick.
    pub slots_per_tick: usize,
}

impl Default for ResolverSettings {
    fn default() -> Self {
        Self {
            again_ms: 250,
            longest_ms: 8000,
            tries: 5,
            pinned_tries: 60,
            pinned_longest_ms: 1000,
            unanswered_ms: 10_000,
            slots_per_tick: 256,
        }
    }
}

/// What another station has done to the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkNotice {
    /// A next hop has another Ethernet address.
    Moved {
        /// Its IP address.
        addr: IpAddr,
        /// The Ethernet address that it had.
        former: Mac,
        /// The one that it has.
        mac: Mac,
    },
    /// A station claims an address of ours.
    Claimed {
        /// Our address.
        addr: IpAddr,
        /// The Ethernet address that claims it.
        station: Mac,
    },
}

/// The most notices of one turn.
const NOTICES: usize = 16;
/// The least time between two reported changes, in milliseconds.
const NOTICE_MS: u64 = 250;

/// When a slot's hop was last asked for, and how often without an answer.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    hop: Option<HopId>,
    at_ms: u64,
    times: u32,
}

/// Asks for next hops and keeps them fresh. A process has one resolver, which knows
/// no threads.
#[derive(Debug)]
pub struct Resolver {
    shared: Arc<Shared>,
    settings: ResolverSettings,
    asked: Box<[Asked]>,
    wanted: ArrayVec<HopId, 64>,
    cursor: usize,
    /// Hops of backends and gateways, which are never forgotten and are asked for
    /// without packets.
    kept: Vec<HopId>,
    notices: ArrayVec<LinkNotice, NOTICES>,
    /// From when on the next changed address is reported.
    notice_ms: u64,
    /// The snapshot that `kept` is from.
    followed: Option<Arc<Snapshot>>,
    /// How long a neighbour that no packet goes to is remembered, in milliseconds:
    /// longer than any connection that may be using it.
    idle_ms: u64,
    counters: Arc<Counters>,
}

/// Room for the longest question with a tag.
const FRAME: usize = ndp::FRAME_LEN + vlan::LEN;

impl Resolver {
    /// A resolver of `shared`'s neighbour table.
    #[must_use]
    pub fn new(shared: Arc<Shared>, settings: ResolverSettings) -> Self {
        let asked = vec![Asked::default(); shared.neighbours().size()].into_boxed_slice();
        Self {
            shared,
            settings,
            asked,
            wanted: ArrayVec::new(),
            cursor: 0,
            kept: Vec::new(),
            notices: ArrayVec::new(),
            notice_ms: 0,
            followed: None,
            idle_ms: 0,
            counters: Arc::default(),
        }
    }

    /// Notes that a worker has a packet for `hop`, whose Ethernet address isn't
    /// known.
    pub fn want(&mut self, hop: HopId) {
        if !self.wanted.contains(&hop) {
            // If there is no room, the walk over the table finds the hop.
            let _ = self.wanted.try_push(hop);
        }
    }

    /// The resolver's counters: packets that originate here.
    #[must_use]
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// Sends the questions that are due, at most a few hundred; called about once a
    /// millisecond. `send` gets whole frames.
    pub fn tick(&mut self, now_ms: u64, send: &mut dyn FnMut(PortId, &[u8])) {
        let shared = Arc::clone(&self.shared);
        let snapshot = self.follow(now_ms);
        for hop in self.wanted.take() {
            if let Some(neighbour) = shared.neighbours().get(hop) {
                self.attend(&snapshot, &neighbour, now_ms, send);
            }
        }
        for _ in 0..self.settings.slots_per_tick.min(self.asked.len()) {
            self.cursor = (self.cursor + 1) % self.asked.len();
            self.look_for_change(now_ms);
            if let Some(neighbour) = shared.neighbours().entry(self.cursor) {
                self.attend(&snapshot, &neighbour, now_ms, send);
            }
        }
    }

    /// What other stations have done since the last call.
    pub fn take_notices(&mut self) -> ArrayVec<LinkNotice, NOTICES> {
        self.notices.take()
    }

    /// Notes a changed address of the neighbour where the walk is, and the claims
    /// to our own addresses when the walk is at its beginning.
    fn look_for_change(&mut self, now_ms: u64) {
        let neighbours = self.shared.neighbours();
        if let Some(Change { neighbour: Neighbour { addr, mac, .. }, former }) =
            neighbours.take_change(self.cursor)
        {
            if let Some(mac) = mac.filter(|_| now_ms >= self.notice_ms) {
                self.notice_ms = now_ms + NOTICE_MS;
                // A notice without room is still in the counters.
                let _ = self.notices.try_push(LinkNotice::Moved { addr, former, mac });
            }
        }
        if self.cursor == 0 {
            for (addr, station) in neighbours.defences().take() {
                let _ = self.notices.try_push(LinkNotice::Claimed { addr, station });
            }
        }
    }

    /// The present snapshot. If it is a new one, the hops of its backends and
    /// gateways are those that are kept.
    fn follow(&mut self, now_ms: u64) -> Arc<Snapshot> {
        let snapshot = self.shared.snapshot();
        if !self.followed.as_ref().is_some_and(|old| Arc::ptr_eq(old, &snapshot)) {
            let backends = snapshot.services.all_backends().map(|own| own.address);
            let all = backends.chain(snapshot.routes.gateways());
            let hop = |addr| {
                let (interface, next) = snapshot.routes.next(addr)?;
                self.shared.neighbours().hop(interface, next, now_ms)
            };
            let kept: Vec<HopId> = all.filter_map(hop).collect();
            let old = std::mem::replace(&mut self.kept, kept);
            old.iter().for_each(|hop| self.shared.neighbours().keep(*hop, false));
            self.kept.iter().for_each(|hop| self.shared.neighbours().keep(*hop, true));
            self.idle_ms = 2 * u64::from(self.shared.table().timeouts().longest_ms());
            self.followed = Some(Arc::clone(&snapshot));
        }
        snapshot
    }

    /// Tells the link where the VIPs and addresses that lie on it are, at the
    /// start or after taking them over from another load balancer (RFC 5227
    /// section 2.3, RFC 4861 section 7.2.6).
    pub fn announce(&mut self, send: &mut dyn FnMut(PortId, &[u8])) {
        let snapshot = self.shared.snapshot();
        for (_, interface) in snapshot.interfaces.iter() {
            let vips = snapshot.services.services().iter().map(service::Service::vip);
            let own = interface.addresses.iter().map(ipnet::IpNet::addr);
            let mut all: Vec<IpAddr> = vips.filter(|vip| interface.is_on_link(*vip)).collect();
            all.extend(own);
            all.sort_unstable();
            all.dedup();
            for addr in all {
                let frame = match addr {
                    IpAddr::V4(addr) => tagged(&arp::announcement(interface.mac, addr), interface),
                    IpAddr::V6(addr) => {
                        tagged(&ndp::announcement(interface.mac, addr, true), interface)
                    }
                };
                if let Some(frame) = frame {
                    self.counters.count(Counter::OriginatedPackets);
                    send(interface.port, &frame);
                }
            }
        }
    }

    /// Does what one neighbour needs now.
    fn attend(
        &mut self,
        snapshot: &Snapshot,
        neighbour: &Neighbour,
        now_ms: u64,
        send: &mut dyn FnMut(PortId, &[u8]),
    ) {
        let shared = Arc::clone(&self.shared);
        let table = shared.neighbours();
        let unused_ms = now_ms.saturating_sub(neighbour.used_ms);
        let age_ms = now_ms.saturating_sub(neighbour.confirmed_ms);
        let (kept, good_ms) = (neighbour.kept, table.refresh_ms());
        let in_use = kept || unused_ms < good_ms;
        match neighbour.state {
            NeighbourState::Static => {}
            NeighbourState::Reachable => {
                // An early question keeps an address in use from ever being stale.
                if age_ms > good_ms {
                    table.expire(neighbour.hop);
                    self.answered(neighbour.hop);
                } else if in_use && age_ms > good_ms - good_ms / 4 {
                    self.ask(snapshot, neighbour, now_ms, send);
                } else {
                    self.answered(neighbour.hop);
                }
            }
            NeighbourState::Stale | NeighbourState::Incomplete => {
                let remembered_ms = match neighbour.mac {
                    Some(_) => self.idle_ms,
                    None => self.settings.unanswered_ms,
                };
                if !kept && unused_ms > remembered_ms {
                    table.forget(neighbour.hop);
                } else if in_use
                    && self.ask(snapshot, neighbour, now_ms, send) > self.patience(neighbour).0
                {
                    table.give_up(neighbour.hop);
                }
            }
        }
    }

    /// Asks for `neighbour` unless a question went out not long ago; returns how many
    /// questions have had no answer.
    fn ask(
        &mut self,
        snapshot: &Snapshot,
        neighbour: &Neighbour,
        now_ms: u64,
        send: &mut dyn FnMut(PortId, &[u8]),
    ) -> u32 {
        let (_, longest_ms) = self.patience(neighbour);
        let Some(asked) = slot(&mut self.asked, neighbour.hop) else { return 0 };
        if asked.hop != Some(neighbour.hop) {
            *asked = Asked { hop: Some(neighbour.hop), at_ms: 0, times: 0 };
        }
        let doubled = self.settings.again_ms << asked.times.saturating_sub(1).min(16);
        let pause_ms = doubled.min(longest_ms);
        if asked.times > 0 && now_ms.saturating_sub(asked.at_ms) < pause_ms {
            return asked.times;
        }
        asked.at_ms = now_ms;
        asked.times += 1;
        let times = asked.times;
        if let Some((port, frame)) = question(snapshot, neighbour) {
            self.counters.count(Counter::OriginatedPackets);
            send(port, &frame);
        }
        times
    }

    /// How often `neighbour` is asked before its Ethernet address is given up, and
    /// the longest pause between two questions, in milliseconds.
    fn patience(&self, neighbour: &Neighbour) -> (u32, u64) {
        let ResolverSettings { tries, longest_ms, pinned_tries, pinned_longest_ms, .. } =
            self.settings;
        if neighbour.mac.is_some() && self.shared.neighbours().is_pinned() {
            (pinned_tries, pinned_longest_ms)
        } else {
            (tries, longest_ms)
        }
    }

    /// The count of questions begins anew.
    fn answered(&mut self, hop: HopId) {
        if let Some(asked) = slot(&mut self.asked, hop) {
            *asked = Asked::default();
        }
    }
}

fn slot(asked: &mut [Asked], hop: HopId) -> Option<&mut Asked> {
    asked.get_mut(NeighbourTable::slot_of(hop))
}

/// The frame that asks for `neighbour`: to everybody, or to the neighbour alone if
/// its Ethernet address is known.
fn question(snapshot: &Snapshot, neighbour: &Neighbour) -> Option<(PortId, ArrayVec<u8, FRAME>)> {
    let interface = snapshot.interfaces.get(neighbour.interface)?;
    let known: Option<Mac> = neighbour.mac;
    let frame = match (interface.source_for(neighbour.addr)?, neighbour.addr) {
        (IpAddr::V4(own), IpAddr::V4(addr)) => {
            tagged(&arp::request(interface.mac, own, addr, known), interface)
        }
        (IpAddr::V6(own), IpAddr::V6(addr)) => {
            tagged(&ndp::solicit(interface.mac, own, addr, known), interface)
        }
        _ => None,
    };
    frame.map(|frame| (interface.port, frame))
}

/// `frame` with the interface's tag.
fn tagged(frame: &[u8], interface: &Interface) -> Option<ArrayVec<u8, FRAME>> {
    let mut whole = ArrayVec::new();
    let (macs, rest) = frame.split_at_checked(12)?;
    whole.try_extend_from_slice(macs).ok()?;
    if let Some(id) = interface.vlan {
        whole.try_extend_from_slice(&ethertype::VLAN.to_be_bytes()).ok()?;
        whole.try_extend_from_slice(&id.to_be_bytes()).ok()?;
    }
    whole.try_extend_from_slice(rest).ok()?;
    Some(whole)
}
