//! Clients and backends of connections that come and go, with the NIC between
//! them and the load balancer, and the keeper beside.
use std::sync::atomic::Ordering;

use conntrack::ConnId;
use dpdk::{Batch, Mbuf, cycles, cycles_per_second};
use flow::PortId;
use keeper::{AgerSettings, Keeper, KeeperOutbox, LinkNotice, ResolverSettings};
use nic::Disposition;
use packet::PacketBuf;
use state::Offload;
use traffic::{ChurnPacket, Phase};
use wire::{TcpFlags, checksum};

use crate::machine::core_time::Interruption;
use crate::testbed::frames::{DATA, SHORTEST};
use crate::testbed::packet_counts::PacketCounts;
use crate::testbed::poll_loop::Signals;
use crate::testbed::scenario::{QUEUES, START_MS, Scenario};
use crate::testbed::source::{Sent, SourceRings, blank};

/// Packets moved at once.
const BURST: usize = 32;
/// Mbufs of clients and backends.
const MBUFS: usize = 1 << 13;
/// Microseconds between two turns of the keeper.
const TURN_US: u64 = 200;

/// The connection table tells time in steps of so many milliseconds: what has
/// expired goes all together when one begins. Counted is from the middle of a
/// step to the middle of another.
const STEP_MS: u64 = conntrack::TICK_MS;

/// What clients, NIC and keeper have counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Connections whose first packet has come to a backend.
    pub(crate) opened: u64,
    /// Connections that the ager has removed.
    pub(crate) removed: u64,
    /// Rules for clients' packets that were made.
    pub(crate) created: u64,
    /// Rules for clients' packets that were destroyed.
    pub(crate) destroyed: u64,
    /// Clients' packets that the NIC has seen.
    pub(crate) asked: u64,
    /// Those that it has matched.
    pub(crate) matched: u64,
}

impl Counts {
    fn since(&self, before: &Self) -> Self {
        Self {
            opened: self.opened - before.opened,
            removed: self.removed - before.removed,
            created: self.created - before.created,
            destroyed: self.destroyed - before.destroyed,
            asked: self.asked - before.asked,
            matched: self.matched - before.matched,
        }
    }
}

/// The outcome of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Tally {
    /// What was counted once all was warm.
    pub(crate) counts: Counts,
    /// The seconds this took.
    pub(crate) seconds: f64,
    /// Packets that the clients have sent.
    pub(crate) sent: u64,
    /// Packets that were due at the end and not sent.
    pub(crate) behind: u64,
}

/// Everybody but the load balancer.
pub(crate) struct ChurnClients<'a> {
    rings: SourceRings<'a>,
    scenario: &'a mut Scenario,
    script: &'a [ChurnPacket],
    requests: rtrb::Consumer<(ConnId, Offload)>,
    free: Vec<Mbuf>,
    /// Clients' packets that the NIC has yet to see.
    arriving: Batch<BURST>,
    /// By ring.
    staged: Vec<Batch<BURST>>,
    packet_counts: PacketCounts,
    counts: Counts,
    keeper: Keeper,
    /// The millisecond of the ager's last turn.
    aged: u64,
    /// The first millisecond that counts, and what had been counted by then.
    warm_ms: u64,
    warm: Option<(u64, Counts)>,
    /// The same of the last step since.
    last: Option<(u64, Counts)>,
    /// The middles of steps that have passed.
    step: u64,
    turned: u64,
    interruption: Interruption,
}

impl<'a> ChurnClients<'a> {
    pub(crate) fn new(
        rings: SourceRings<'a>,
        scenario: &'a mut Scenario,
        script: &'a [ChurnPacket],
        requests: rtrb::Consumer<(ConnId, Offload)>,
        warm_ms: u64,
    ) -> Self {
        let (ager, resolver) = (AgerSettings::default(), ResolverSettings::default());
        let keeper = Keeper::new(&scenario.shared, ager, resolver);
        let free = (0..MBUFS).map_while(|_| blank(rings.pool, SHORTEST)).collect();
        let staged = rings.to_host.iter().map(|_| Batch::new()).collect();
        let interruption = rings.interruption;
        Self {
            rings,
            scenario,
            script,
            requests,
            free,
            arriving: Batch::new(),
            staged,
            packet_counts: PacketCounts::default(),
            counts: Counts::default(),
            keeper,
            aged: 0,
            warm_ms,
            warm: None,
            last: None,
            step: 0,
            turned: 0,
            interruption,
        }
    }

    /// Follows the script by the clock until the measured core is done.
    pub(crate) fn send(mut self) -> (Sent, Tally) {
        let per_second = cycles_per_second().max(1);
        let start = cycles();
        let mut at = 0;
        let mut now = start;
        let due_ns = |now: u64| {
            (u128::from(now.wrapping_sub(start)) * 1_000_000_000 / u128::from(per_second)) as u64
        };
        while !self.rings.signals.measured.load(Ordering::Relaxed) {
            now = cycles();
            self.rings.signals.source.beat(now, self.interruption);
            let due = due_ns(now);
            self.collect();
            for _ in 0..BURST {
                let packet = self.script.get(at).filter(|packet| packet.at_ns <= due);
                let mbuf = self.free.pop().or_else(|| blank(self.rings.pool, SHORTEST));
                let (Some(packet), Some(mbuf)) = (packet, mbuf) else { break };
                self.client(packet, mbuf);
                at += 1;
            }
            self.arrive(now.wrapping_sub(start));
            self.flush();
            self.keep(now, due / 1_000_000);
        }
        let due = due_ns(now);
        let late = self.script.iter().skip(at).take_while(|packet| packet.at_ns <= due);
        let (from, before) = self.warm.unwrap_or((start, Counts::default()));
        let (until, counts) = self.last.unwrap_or_else(|| (now, self.counts()));
        let tally = Tally {
            counts: counts.since(&before),
            seconds: until.wrapping_sub(from) as f64 / per_second as f64,
            sent: at as u64,
            behind: late.count() as u64,
        };
        let cycles = now.wrapping_sub(start);
        let sent = Sent { packet_counts: self.packet_counts, cycles, latency: None };
        (sent, tally)
    }

    /// A client's packet.
    fn client(&mut self, packet: &ChurnPacket, mut mbuf: Mbuf) {
        let flags = match packet.phase {
            Phase::Open => TcpFlags::SYN,
            Phase::Data => DATA,
            Phase::Close => TcpFlags::FIN | TcpFlags::ACK,
        };
        let spec = self.scenario.templates.forward(packet.flow.into(), 64, flags);
        if mbuf.resize(spec.len()) && self.scenario.templates.write(&spec, mbuf.bytes_mut()) {
            self.towards_nic(mbuf);
        }
    }

    fn towards_nic(&mut self, mbuf: Mbuf) {
        if self.arriving.is_full() {
            self.arrive(0);
        }
        // There is room now.
        drop(self.arriving.push(mbuf));
    }

    /// The clients' port of the NIC receives what has been sent to it. `cycles`
    /// since the start are its clock.
    fn arrive(&mut self, cycles: u64) {
        let mut told: [Disposition; BURST] = std::array::from_fn(|_| Disposition::default());
        // Its clock goes on from where building the scenario has left it.
        let ns = u128::from(cycles) * 1_000_000_000 / u128::from(cycles_per_second().max(1));
        let frames = self.arriving.iter().map(PacketBuf::bytes);
        let [nic, _] = &self.scenario.nics;
        nic.receive_burst(frames, 1_000_000_000 + ns as u64, &mut told);
        for (mut mbuf, told) in self.arriving.drain().zip(told) {
            self.counts.asked += 1;
            self.counts.matched += u64::from(told.matched);
            self.packet_counts.offered[0] += 1;
            mbuf.set_mark(told.mark);
            let lost = enqueue(&mut self.staged, &mut self.rings, told.queue.into(), mbuf);
            lose(&mut self.packet_counts, self.rings.signals, self.interruption, [lost, 0]);
        }
    }

    /// Clients and backends take what has come to them, and answer.
    fn collect(&mut self) {
        let mut back = Batch::<BURST>::new();
        for port in 0..2 {
            while let Some(ring) = self.rings.from_host.get_mut(port) {
                let found = ring.dequeue_burst(&mut back);
                if found == 0 {
                    break;
                }
                self.packet_counts.returned[port] += found as u64;
                for mbuf in back.drain() {
                    self.answer(port, mbuf);
                }
            }
        }
    }

    /// A backend answers SYN and FIN, a client the backend's SYN and FIN.
    fn answer(&mut self, port: usize, mut mbuf: Mbuf) {
        let flags = mbuf.bytes().get(47).copied().unwrap_or(0);
        let opens = flags & TcpFlags::SYN != 0;
        if flags & (TcpFlags::SYN | TcpFlags::FIN) == 0 {
            return self.free.push(mbuf);
        }
        let of_backend = port == 1;
        self.counts.opened += u64::from(of_backend && opens);
        let answer = if of_backend { flags | TcpFlags::ACK } else { TcpFlags::ACK };
        let Some(headers) = mbuf.bytes_mut().first_chunk_mut() else { return };
        turn(headers, answer);
        mbuf.set_mark(None);
        if of_backend {
            // The servers' port of the NIC has no rules: all goes to its queue 0.
            self.packet_counts.offered[1] += 1;
            let ring = usize::from(QUEUES);
            let lost = enqueue(&mut self.staged, &mut self.rings, ring, mbuf);
            lose(&mut self.packet_counts, self.rings.signals, self.interruption, [0, lost]);
        } else {
            self.towards_nic(mbuf);
        }
    }

    /// Puts what is staged into the rings; what is not taken is lost.
    fn flush(&mut self) {
        let mut lost = [0; 2];
        let rings = self.staged.iter_mut().zip(self.rings.to_host.iter_mut());
        for (at, (batch, ring)) in rings.enumerate() {
            if !batch.is_empty() {
                ring.enqueue_burst(batch);
                lost[usize::from(at >= usize::from(QUEUES))] += batch.len() as u64;
                self.free.extend(batch.drain());
            }
        }
        lose(&mut self.packet_counts, self.rings.signals, self.interruption, lost);
    }

    /// What has been counted so far.
    fn counts(&self) -> Counts {
        let stats = self.scenario.rules.report().connections;
        let done = stats.ports.first().map(|port| port.done).unwrap_or_default();
        let Counts { opened, asked, matched, .. } = self.counts;
        let removed = self.keeper.removed();
        let (created, destroyed) = (done.created, done.destroyed);
        Counts { opened, removed, created, destroyed, asked, matched }
    }

    /// It is the middle of a step.
    fn note(&mut self, now: u64) {
        let counts = Some((now, self.counts()));
        match self.warm {
            None => self.warm = counts,
            Some(_) => self.last = counts,
        }
    }

    /// The rules' turn, a few times a millisecond; the keeper's is every
    /// millisecond.
    fn keep(&mut self, now: u64, ms: u64) {
        if now.wrapping_sub(self.turned) < cycles_per_second() / 1_000_000 * TURN_US {
            return;
        }
        self.turned = now;
        while let Ok(request) = self.requests.pop() {
            self.scenario.requests.push(request);
        }
        let now_ms = START_MS + ms;
        if self.aged != now_ms {
            self.aged = now_ms;
            self.keeper.turn(now_ms, [], &mut Reports(&mut self.scenario.requests));
            let step = (now_ms + STEP_MS / 2) / STEP_MS;
            if ms >= self.warm_ms && step != self.step {
                self.note(now);
            }
            self.step = step;
        }
        self.scenario.tick(now_ms);
    }
}

/// The keeper's reports, for the rules' next turn. All neighbours are static.
struct Reports<'a>(&'a mut Vec<(ConnId, Offload)>);

impl KeeperOutbox for Reports<'_> {
    fn send(&mut self, _: PortId, _: &[u8]) {}

    fn report(&mut self, conn: ConnId, reason: Offload) {
        self.0.push((conn, reason));
    }

    fn notice(&mut self, _: &LinkNotice) {}
}

/// Packets that the load balancer did not take, by port; it is excused while
/// another process has its core.
fn lose(
    packet_counts: &mut PacketCounts,
    signals: &Signals,
    interruption: Interruption,
    lost: [u64; 2],
) {
    if lost != [0; 2] {
        let excused = signals.host.excused(cycles(), interruption);
        packet_counts.lose(0, lost[0], excused);
        packet_counts.lose(1, lost[1], excused);
    }
}

/// Adds to a ring's batch; how many were lost when a full one went out.
fn enqueue(
    staged: &mut [Batch<BURST>],
    rings: &mut SourceRings<'_>,
    ring: usize,
    mbuf: Mbuf,
) -> u64 {
    let Some(batch) = staged.get_mut(ring) else { return 1 };
    let mut lost = 0;
    if batch.is_full() {
        if let Some(ring) = rings.to_host.get_mut(ring) {
            ring.enqueue_burst(batch);
        }
        lost = batch.len() as u64;
        batch.clear();
    }
    // There is room now.
    drop(batch.push(mbuf));
    lost
}

/// Sends a TCP packet without data back to where it came from.
fn turn(headers: &mut [u8; SHORTEST], flags: u8) {
    let old = *headers;
    let mut swap = |here: usize, there: usize, len: usize| {
        headers[here..here + len].copy_from_slice(&old[there..there + len]);
        headers[there..there + len].copy_from_slice(&old[here..here + len]);
    };
    swap(0, 6, 6);
    swap(26, 30, 4);
    swap(34, 36, 2);
    headers[22] = 64;
    headers[24..26].fill(0);
    let net = checksum::of(&headers[14..34], 0);
    headers[24..26].copy_from_slice(&net.to_be_bytes());
    headers[47] = flags;
    headers[50..52].fill(0);
    let [from, to] = [26, 30].map(|at| {
        std::net::Ipv4Addr::new(headers[at], headers[at + 1], headers[at + 2], headers[at + 3])
    });
    let transport = checksum::of(&headers[34..54], checksum::pseudo_v4(from, to, 6, 20));
    headers[50..52].copy_from_slice(&transport.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use wire::Transport;

    use super::*;
    use crate::testbed::frames::{Family, Templates};

    #[test]
    fn a_turned_packet_is_the_answer() {
        let templates = Templates::new(Family::V4, Transport::Tcp);
        let mut headers = [0; SHORTEST];
        templates.write(&templates.forward(99, 64, TcpFlags::SYN), &mut headers);
        let there = headers;
        turn(&mut headers, TcpFlags::SYN | TcpFlags::ACK);
        let parsed = wire::Headers::parse(&headers).unwrap();
        assert_eq!(parsed.tcp_flags.0, TcpFlags::SYN | TcpFlags::ACK);
        let flow = parsed.flow(&headers).unwrap();
        let (vip, client) = (templates.vip(), templates.client(99));
        assert_eq!((flow.src(), flow.dst()), (vip, client));
        assert_eq!(checksum::of(&headers[14..34], 0), 0);
        let pseudo = checksum::pseudo(vip.ip(), client.ip(), 6, 20).unwrap();
        assert_eq!(checksum::of(&headers[34..54], pseudo), 0);
        assert_eq!((&headers[..6], &headers[6..12]), (&there[6..12], &there[..6]));
        turn(&mut headers, TcpFlags::SYN);
        assert_eq!(wire::Headers::parse(&headers).unwrap().flow(&headers), templates.key(99));
        assert_eq!(headers, there);
    }
}
