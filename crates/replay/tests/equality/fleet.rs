//! Load balancers that differ in NIC and encoding only.
use std::collections::{BTreeMap, VecDeque};

use flow::{CardProfile, Encoding, PortId};
use nic::{Fault, NicStats};
use packet::PacketBuf;
use replay::{Options, Simulation};
use state::{CounterKind, Metric};
use wire::Headers;
use wire::Tunnel;

use super::network::Plan;

/// A frame and the port where it left.
pub(crate) type Frame = (PortId, Vec<u8>);

/// Ports of every network.
pub(crate) const PORTS: [PortId; 2] = [PortId(0), PortId(1)];

/// The counter of frames that the card has sent on.
pub(crate) const BY_CARD: &str = "forwarded_by_card";
/// The counter of those that it has put into tunnels.
pub(crate) const TUNNELLED: &str = "tunnelled_by_card";

/// Frames remembered for the report.
const REMEMBERED: usize = 8;

struct Member {
    name: &'static str,
    encoding: Encoding,
    simulation: Simulation,
}

/// All load balancers, given the same frames at the same times.
pub(crate) struct Fleet {
    members: Vec<Member>,
    mtus: [usize; 2],
    recent: VecDeque<Frame>,
    pub(crate) now_us: u64,
    pub(crate) arrived: u64,
}

impl Fleet {
    /// One without a NIC first. `capacity`: rules that a card holds, an X550 excepted.
    pub(crate) fn new(
        plan: &Plan,
        capacity: Option<usize>,
        creations_per_tick: usize,
        queues: u16,
    ) -> Self {
        use {CardProfile::*, Encoding::*};
        let kinds = [
            ("off", None, Off),
            ("mark on x550", Some(X550), Mark),
            ("queue on x550", Some(X550), Queue),
            ("mark on e810", Some(E810), Mark),
            ("queue on e810", Some(E810), Queue),
            ("rewrite on connectx", Some(ConnectX), Rewrite),
            ("rewrite on bluefield3", Some(BlueField3), Rewrite),
            ("mark on connectx", Some(ConnectX), Mark),
            ("queue on bluefield3", Some(BlueField3), Queue),
        ];
        let config = plan.config();
        let members = kinds.map(|(name, nic, encoding)| {
            let capacity = capacity.filter(|_| nic.is_some_and(|nic| nic != X550));
            let options = Options {
                nic,
                encoding,
                capacity,
                creations_per_tick,
                queues,
                ..Options::default()
            };
            Member { name, encoding, simulation: Simulation::new(&config, &options).unwrap() }
        });
        Self {
            members: members.into(),
            mtus: plan.mtus(),
            recent: VecDeque::new(),
            now_us: 0,
            arrived: 0,
        }
    }

    /// `frame` comes to `port` of every load balancer.
    pub(crate) fn arrive(&mut self, port: PortId, frame: &[u8]) {
        self.arrived += 1;
        let tag = if frame.get(12..14) == Some(&[0x81, 0]) { 4 } else { 0 };
        if frame.len() > 14 + tag + self.mtus[usize::from(port.0)] {
            // No port receives more than it may send.
            return;
        }
        self.recent.push_back((port, frame.to_vec()));
        if self.recent.len() > REMEMBERED {
            self.recent.pop_front();
        }
        for member in &mut self.members {
            assert!(member.simulation.arrive(port, frame, self.now_us * 1000), "{}", member.name);
        }
    }

    /// All workers poll. The frames that come out must be the same, in the
    /// same order; they are returned. `waited`: more than one packet may have
    /// waited in the queues. Then the packets of queues other than 0 come
    /// later, so with encoding `queue` the order is that of
    /// [`as_sequences`] only.
    pub(crate) fn poll(&mut self, waited: bool) -> Result<Vec<Frame>, String> {
        let now_ms = self.now_us / 1000;
        let mut first: Option<Vec<Frame>> = None;
        for Member { name, encoding, simulation } in &mut self.members {
            simulation.poll(now_ms);
            let sent = simulation.take_sent().into_iter();
            let sent: Vec<Frame> =
                sent.map(|sent| (sent.port, sent.packet.bytes().to_vec())).collect();
            let Some(off) = &first else {
                first = Some(sent);
                continue;
            };
            let same = match encoding {
                Encoding::Queue if waited => as_sequences(off) == as_sequences(&sent),
                Encoding::Rewrite => {
                    let (mut off, mut sent) = (trimmed(off), trimmed(&sent));
                    if waited {
                        off.sort();
                        sent.sort();
                    }
                    off == sent
                }
                _ => *off == sent,
            };
            if !same {
                let recent: Vec<String> = self.recent.iter().map(show).collect();
                return Err(format!(
                    "{name} differs from software at {now_ms} ms\n{}last arrivals:\n{}",
                    difference(off, &sent),
                    recent.concat()
                ));
            }
        }
        Ok(first.unwrap_or_default())
    }

    /// The keepers' turn.
    pub(crate) fn keep(&mut self) {
        for member in &mut self.members {
            member.simulation.keep(self.now_us / 1000);
        }
    }

    /// The cards have these faults from now on, and no others.
    pub(crate) fn order_faults(&self, faults: &[Fault]) {
        for (member, port) in self.members.iter().flat_map(|m| PORTS.map(|port| (m, port))) {
            let Some(nic) = member.simulation.nic(port) else { continue };
            nic.clear_faults();
            faults.iter().for_each(|fault| nic.order_fault(*fault));
        }
    }

    /// Nothing comes any more: every connection and rule goes in the end.
    pub(crate) fn fall_silent(&mut self, step_ms: u64) -> Result<(), String> {
        self.order_faults(&[]);
        let mut empty = 0;
        for _ in 0..2000 {
            self.now_us += step_ms * 1000;
            self.keep();
            let sent = self.poll(true)?;
            assert!(sent.is_empty(), "{} frames out of nothing", sent.len());
            // Records come back into use a few turns after their removal.
            empty += u32::from(self.members.iter().all(Member::is_empty));
            if empty > 4 {
                return Ok(());
            }
        }
        let left = self.members.iter().filter(|member| !member.is_empty());
        let names: Vec<_> = left.map(|member| member.name).collect();
        Err(format!("connections or rules are left: {}", names.join(", ")))
    }

    /// In every load balancer the counters add up, and the same packets were
    /// sent, answered and dropped; under the same names if `by_name`. Returns
    /// all counters by member.
    pub(crate) fn check_books(
        &self,
        by_name: bool,
    ) -> BTreeMap<&'static str, BTreeMap<&'static str, u64>> {
        let mut all = BTreeMap::new();
        let mut off = None;
        for member in &self.members {
            let workers = member.simulation.worker_counters();
            let mut fates: BTreeMap<&'static str, u64> = BTreeMap::new();
            for counters in workers {
                let (came, went) = counters.balance();
                assert_eq!(came, went, "{}: {:?}", member.name, counters);
                for Metric { name, kind, value, .. } in counters.metrics() {
                    let fate = match kind {
                        CounterKind::Info | CounterKind::Level => continue,
                        CounterKind::Dropped if !by_name => "dropped",
                        _ => name,
                    };
                    *fates.entry(fate).or_default() += value;
                }
            }
            // What the card sends on is forwarded too.
            let by_card = member.forwarded_by_card();
            *fates.entry("received").or_default() += by_card;
            *fates.entry("forwarded").or_default() += by_card;
            let off = off.get_or_insert_with(|| fates.clone());
            for (name, value) in fates {
                assert_eq!((name, value), (name, off[name]), "{}", member.name);
            }
            let mut counters = member.simulation.counters();
            counters.insert(BY_CARD, by_card);
            counters.insert(TUNNELLED, member.sum(|stats| stats.tunnelled));
            all.insert(member.name, counters);
        }
        all
    }
}

impl Member {
    fn forwarded_by_card(&self) -> u64 {
        self.sum(|stats| stats.forwarded)
    }

    /// Of all NICs.
    fn sum(&self, count: impl Fn(&NicStats) -> u64) -> u64 {
        let nics = PORTS.iter().filter_map(|port| self.simulation.nic(*port));
        nics.map(|nic| count(&nic.stats())).sum()
    }

    fn is_empty(&self) -> bool {
        let rules = PORTS.iter().filter_map(|port| self.simulation.nic(*port));
        // What leads packets to connections' rules stays.
        let frame = self.simulation.offload_stats().now().adopted;
        self.simulation.shared().table().len() == 0
            && rules.map(|nic| nic.stats().rules).sum::<usize>() == frame
    }
}

/// Frames with ports by flow and, in a flow, by the moment at which they came
/// (while nothing changes a rule, a flow's packets keep their order); the
/// others by their bytes.
fn as_sequences(frames: &[Frame]) -> Vec<&Frame> {
    let mut sorted: Vec<_> = frames.iter().map(|frame| (place(&frame.1), frame)).collect();
    sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
    sorted.into_iter().map(|(_, frame)| frame).collect()
}

/// The frame as it was before it went into a tunnel, if it has.
pub(crate) fn opened(frame: &[u8]) -> Vec<u8> {
    let inner = || {
        let headers = Headers::parse(frame).ok()?;
        let (l3, l4) = (usize::from(headers.l3), usize::from(headers.l4));
        let packet = frame.get(l3..usize::from(headers.end))?;
        let inner = wire::encap::carried(packet, headers.proto, l4 - l3, &Tunnel::ALL)?;
        let kind: [u8; 2] = if inner.first()? >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
        Some([frame.get(..l3 - 2)?, &kind, inner].concat())
    };
    inner().unwrap_or_else(|| frame.to_vec())
}

/// Frames with ports, without what lies behind the IP packet.
fn trimmed(frames: &[Frame]) -> Vec<(PortId, &[u8])> {
    frames.iter().map(|(port, frame)| (*port, &frame[..end(frame)])).collect()
}

/// Where the IP packet ends; the whole frame if it is none.
fn end(frame: &[u8]) -> usize {
    Headers::parse(frame).map_or(frame.len(), |headers| usize::from(headers.end))
}

/// Addresses and ports and the moment, or all bytes.
fn place(frame: &[u8]) -> (Option<String>, Vec<u8>) {
    let frame = &opened(frame);
    let headers = Headers::parse(frame).ok();
    let flow = headers.as_ref().and_then(|headers| headers.flow(frame));
    match flow.zip(said(frame)) {
        Some((key, (_, moment))) => {
            let flow = format!("{:?} {} {}", key.proto(), key.src(), key.dst());
            (Some(flow), moment.to_be_bytes().to_vec())
        }
        None => (None, frame.to_vec()),
    }
}

/// The two numbers at the beginning of a whole datagram's payload: the
/// conversation and the moment at which it was sent.
pub(crate) fn said(frame: &[u8]) -> Option<(u32, u32)> {
    let headers = Headers::parse(frame).ok()?;
    let transport = headers.flow(frame)?.proto();
    if headers.fragment != wire::Fragment::Whole {
        return None;
    }
    let l4 = frame.get(usize::from(headers.l4)..)?;
    let header = match transport {
        wire::Transport::Tcp => usize::from(l4.get(12)? >> 4) * 4,
        wire::Transport::Udp => 8,
    };
    let (number, rest) = l4.get(header..)?.split_first_chunk()?;
    let moment = rest.first_chunk()?;
    Some((u32::from_be_bytes(*number), u32::from_be_bytes(*moment)))
}

/// The frames that only one of them sent, or else the first that isn't in its place.
fn difference(off: &[Frame], other: &[Frame]) -> String {
    let mut text = format!("{} frames from software, {} from it\n", off.len(), other.len());
    for (who, frames, others) in [("software", off, other), ("it", other, off)] {
        for frame in frames.iter().filter(|frame| !others.contains(frame)) {
            text += &format!("only from {who}:\n{}", show(frame));
        }
    }
    let at = off.iter().zip(other).take_while(|(a, b)| a == b).count();
    text + &format!("the first {at} are the same\n")
}

fn show((port, bytes): &Frame) -> String {
    let flow = Headers::parse(bytes).ok().and_then(|headers| headers.flow(bytes));
    let flow = flow.map_or("no flow".to_owned(), |key| format!("{} > {}", key.src(), key.dst()));
    let hex: String = bytes.iter().take(100).map(|byte| format!("{byte:02x}")).collect();
    format!("  port {} {} bytes, {flow}: {hex}\n", port.0, bytes.len())
}
