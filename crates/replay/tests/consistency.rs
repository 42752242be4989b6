//! 100,000 connections opened, used and closed while rules are refused,
//! delayed, lost and taken back and the connection table overflows: every
//! packet of a connection reaches one backend, every answer its client.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unreachable_pub)]

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use flow::{CardProfile, Encoding, PortId};
use nic::Fault;
use packet::PacketBuf;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use replay::{Options, Simulation};
use state::CounterKind;
use testkit::ConfigText;
use testkit::segments::{Segment, frame, seen};
use wire::Transport;

/// Connections of the whole test, all cases together.
const CONNECTIONS: u32 = 100_000;
/// Connections open at a time, more than the table holds.
const OPEN: usize = 3000;
/// A connection idle for longer may have been forgotten, as its timeouts say.
const PATIENCE_MS: u64 = 20_000;

/// The same for one that both ends have closed.
const CLOSING_PATIENCE_MS: u64 = 1500;

/// The same for one that is embryonic: in a full table it is kept for a second.
/// A UDP flow that the full table lets in late is embryonic at any packet.
const EMBRYONIC_PATIENCE_MS: u64 = 900;

/// The table is too small for all open connections.
const TABLES: &str = "
[offload]
admission = \"all\"

[conntrack]
connections = 1500
connections_v6 = 600
tcp_syn = \"30s\"
tcp_established = \"60s\"
tcp_closing = \"2s\"
udp = \"30s\"
";

/// One connection as its ends see it.
struct Conversation {
    proto: Transport,
    client: SocketAddr,
    vip: SocketAddr,
    backend: Option<SocketAddr>,
    /// Packets so far, both ways.
    packets: u32,
    /// Packets until it closes.
    life: u32,
    last_ms: u64,
}

impl Conversation {
    /// How long it may be idle and is surely not forgotten.
    fn patience_ms(&self) -> u64 {
        if self.proto == Transport::Udp || self.packets < 4 {
            EMBRYONIC_PATIENCE_MS
        } else if self.packets + 1 >= self.life {
            // Both ends may have sent their FIN.
            CLOSING_PATIENCE_MS
        } else {
            PATIENCE_MS
        }
    }
}

/// What the order of things is drawn from: 17, or `HNLB_SEED`.
fn seed() -> u64 {
    std::env::var("HNLB_SEED").map_or(17, |seed| seed.parse().expect("HNLB_SEED is a number"))
}

/// Clients, the load balancer and backends.
struct World {
    encoding: Encoding,
    simulation: Simulation,
    rng: StdRng,
    open: BTreeMap<u32, Conversation>,
    /// The numbers of those in `open`, in no order, to draw one from.
    numbers: Vec<u32>,
    next: u32,
    now_us: u64,
    forwarded: u64,
    /// By backend: packets and bytes to it, and from it to clients, as they have left.
    carried: BTreeMap<SocketAddr, [[u64; 2]; 2]>,
    faults: bool,
}

impl World {
    fn new(encoding: Encoding, profile: CardProfile, scheduler: &str, workers: u16) -> Self {
        let options = Options {
            nic: (encoding != Encoding::Off).then_some(profile),
            encoding,
            ..Options::default()
        };
        let config = ConfigText::one_port()
            .web_and_dns(scheduler)
            .table("[workers]", &format!("count = {workers}"))
            .table(TABLES, "")
            .parse();
        Self {
            encoding,
            simulation: Simulation::new(&config, &options).unwrap(),
            rng: StdRng::seed_from_u64(seed()),
            open: BTreeMap::new(),
            numbers: Vec::new(),
            next: 0,
            now_us: 0,
            forwarded: 0,
            carried: BTreeMap::new(),
            faults: true,
        }
    }

    fn now_ms(&self) -> u64 {
        self.now_us / 1000
    }

    /// A new connection from a client behind the gateway. Ports are used again
    /// after a while, as clients do.
    fn connect(&mut self) {
        let number = self.next;
        self.next += 1;
        let proto = if self.rng.random_ratio(1, 3) { Transport::Udp } else { Transport::Tcp };
        let port = 1024 + (number % 40_000) as u16;
        let (client, vip): (IpAddr, IpAddr) = if self.rng.random_ratio(1, 4) {
            (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 5).into(), "fd71::100".parse().unwrap())
        } else {
            (Ipv4Addr::new(198, 51, 100, 5).into(), "10.71.0.100".parse().unwrap())
        };
        let service = if proto == Transport::Tcp { 80 } else { 53 };
        self.numbers.push(number);
        let life = if self.rng.random_ratio(1, 20) { 60 } else { self.rng.random_range(3..16) };
        self.open.insert(
            number,
            Conversation {
                proto,
                client: SocketAddr::new(client, port),
                vip: SocketAddr::new(vip, service),
                backend: None,
                packets: 0,
                life,
                last_ms: self.now_ms(),
            },
        );
    }

    /// One packet of one connection.
    fn step(&mut self) {
        if self.numbers.is_empty() {
            return;
        }
        let drawn = self.rng.random_range(0..self.numbers.len());
        let number = self.numbers[drawn];
        let idle = self.now_ms() - self.open[&number].last_ms;
        if idle > self.open[&number].patience_ms() {
            self.numbers.swap_remove(drawn);
            self.open.remove(&number);
            return;
        }
        let conversation = self.open.get_mut(&number).unwrap();
        conversation.last_ms = self.now_us / 1000;
        conversation.packets += 1;
        let (turn, end) = (conversation.packets, conversation.life);
        let answer = conversation.backend.filter(|_| turn == 2 || (turn > 3 && turn % 2 == 0));
        let segment = match turn {
            1 => Segment::Syn,
            2 if answer.is_some() => Segment::SynAck,
            // Nothing came back: the client sends it again.
            2 => Segment::Syn,
            _ if turn + 1 == end || turn == end => Segment::Fin,
            _ if turn > end => Segment::Rst,
            _ => Segment::Ack,
        };
        let (src, dst) = match answer {
            Some(backend) => (backend, conversation.client),
            None => (conversation.client, conversation.vip),
        };
        let bytes = frame(conversation.proto, src, dst, segment, &number.to_be_bytes());
        let finished = turn > end;
        assert!(self.simulation.arrive(PortId(0), &bytes, self.now_us * 1000));
        if self.rng.random_ratio(1, 4) {
            // Otherwise it waits in its queue while rules come and go.
            self.receive();
        }
        if finished {
            self.receive();
            self.numbers.swap_remove(drawn);
            self.open.remove(&number);
        }
    }

    /// The workers poll; every packet that comes out is where it belongs.
    fn receive(&mut self) {
        self.simulation.poll(self.now_us / 1000);
        for sent in self.simulation.take_sent() {
            let seen = seen(sent.packet.bytes()).expect("only TCP and UDP go out");
            let number = u32::from_be_bytes(seen.payload.clone().try_into().unwrap());
            let Some(conversation) = self.open.get_mut(&number) else {
                panic!("connection {number} is over, and {} > {} came", seen.src, seen.dst)
            };
            self.forwarded += 1;
            let to_client = seen.src == conversation.vip;
            if let Some(backend) = if to_client { conversation.backend } else { Some(seen.dst) } {
                let [packets, bytes] = self.carried.entry(backend).or_default();
                packets[usize::from(to_client)] += 1;
                bytes[usize::from(to_client)] += sent.packet.bytes().len() as u64;
            }
            if to_client {
                assert_eq!(seen.dst, conversation.client, "an answer of connection {number}");
                continue;
            }
            assert_eq!(seen.src, conversation.client, "connection {number}");
            let backend = *conversation.backend.get_or_insert(seen.dst);
            assert_eq!(
                seen.dst,
                backend,
                "packet {} of {} connection {number} at {} ms",
                conversation.packets,
                conversation.proto,
                self.now_us / 1000
            );
        }
    }

    /// Orders another mixture of faults, or none.
    fn disturb(&mut self) {
        let seed = self.rng.random();
        let share = self.rng.random_range(0..300);
        let late = self.rng.random_range(0..30_000_000);
        let resets = self.encoding == Encoding::Rewrite && self.rng.random_ratio(1, 10);
        let nic = self.simulation.nic(PortId(0)).filter(|_| self.faults);
        let Some(nic) = nic else { return };
        nic.clear_faults();
        if resets {
            // All rules are gone, what leads to them too.
            nic.reset();
        }
        match seed % 6 {
            0 => nic.order_fault(Fault::RefuseShare { per_mille: share, seed }),
            1 => nic.order_fault(Fault::LateCreate { ns: late }),
            // Not longer than the offload side's settle time: a card that
            // still matches later breaks its own promise.
            2 => nic.order_fault(Fault::LateDestroy { ns: late / 4 }),
            3 => nic.order_fault(Fault::SilentLoss { per_mille: share, seed }),
            4 => nic.order_fault(Fault::RefuseDestroys { count: 50 }),
            _ => nic.order_fault(Fault::FullAt { at: usize::from(share) }),
        }
    }

    fn run(&mut self, connections: u32) {
        let mut kept_ms = 0;
        while self.next < connections || !self.open.is_empty() {
            while self.next < connections && self.open.len() < OPEN {
                self.connect();
            }
            self.step();
            self.now_us += self.rng.random_range(0..200);
            if self.now_ms() != kept_ms {
                kept_ms = self.now_ms();
                self.simulation.keep(kept_ms);
                if kept_ms % 512 == 0 {
                    self.disturb();
                }
            }
        }
        self.receive();
    }

    /// Whether no connection and no rule is left but those that lead to others.
    fn is_empty(&self) -> bool {
        let now = self.simulation.offload_stats().now();
        let rules = now.rules - now.adopted + now.pending + now.settling;
        self.simulation.shared().table().len() == 0 && rules == 0
    }

    /// Everything goes quiet, and nothing must be left.
    fn settle(&mut self) {
        if let Some(nic) = self.simulation.nic(PortId(0)) {
            nic.clear_faults();
        }
        let mut empty = 0;
        for _ in 0..2_000 {
            self.now_us += 100_000;
            self.simulation.keep(self.now_us / 1000);
            self.receive();
            // Nothing comes back of what has gone, in two seconds more.
            empty = if self.is_empty() { empty + 1 } else { 0 };
            if empty > 20 {
                return;
            }
        }
    }

    /// Frames that the card has sent on.
    fn by_card(&self) -> u64 {
        self.simulation.nic(PortId(0)).map_or(0, |nic| nic.stats().forwarded)
    }

    fn check_books(&self) {
        for counters in self.simulation.worker_counters() {
            let (came, went) = counters.balance();
            assert_eq!(came, went, "{:?}", counters);
        }
        let counters = self.simulation.worker_counters();
        let sum = |kind| counters.iter().map(|one| one.total(kind)).sum::<u64>();
        assert_eq!(sum(CounterKind::Forwarded) + self.by_card(), self.forwarded);
        assert_eq!(sum(CounterKind::Replied), 0);
        self.check_backends(sum(CounterKind::Forwarded));
    }

    /// What was counted for each backend is what has left for it and from it. A card that
    /// loses rules loses their counters, too: then the sums agree with what was read.
    fn check_backends(&self, by_workers: u64) {
        let shared = self.simulation.shared();
        let loses = self.encoding == Encoding::Rewrite && self.faults;
        let mut all = 0;
        for own in shared.snapshot().services.backends() {
            let counted = shared.totals().backend(own.id);
            let address = SocketAddr::new(own.address, own.port.unwrap());
            let left = self.carried.get(&address).copied().unwrap_or_default();
            let counted = [counted.packets, counted.bytes];
            all += counted[0].iter().sum::<u64>();
            if loses {
                let all = counted.iter().flatten().zip(left.iter().flatten());
                all.for_each(|(counted, left)| assert!(counted <= left, "{address}"));
            } else {
                assert_eq!(counted, left, "{address}");
            }
        }
        let by_rules = self.simulation.offload_stats().done().forwarded_packets;
        assert_eq!(all, by_workers + by_rules);
    }
}

fn check(encoding: Encoding, profile: CardProfile, scheduler: &str, workers: u16) {
    let mut world = World::new(encoding, profile, scheduler, workers);
    world.run(CONNECTIONS / 5);
    let counters = world.simulation.counters();
    assert!(counters["stateless"] > 0, "the table was meant to overflow: {counters:?}");
    let ever = world.simulation.offload_stats().done();
    if encoding != Encoding::Off {
        let by_worker = counters["matched_by_mark"] + counters["matched_by_queue"];
        let matched = by_worker + world.by_card();
        assert!(matched > 10_000, "the NIC was meant to be used: {matched} {ever:?} {counters:?}");
        assert!(ever.refused.full > 0 && ever.retries > 0, "faults were meant to hit: {ever:?}");
    }
    world.settle();
    world.check_books();
    assert_eq!(world.simulation.shared().table().len(), 0, "connections are left");
    let now = world.simulation.offload_stats().now();
    // What leads packets to connections' rules stays.
    assert_eq!((now.rules, now.pending, now.settling), (now.adopted, 0, 0), "rules are left");
    assert_eq!(now.adopted, if encoding == Encoding::Rewrite { 4 } else { 0 });
    if let Some(nic) = world.simulation.nic(PortId(0)) {
        // A guard that was silently lost can't be missed: no traffic shows it.
        let nic = nic.stats();
        assert_eq!(nic.listed, now.rules, "the NIC has rules that nobody owns");
        assert!(nic.rules <= nic.listed, "destroyed rules go on matching");
    }
    assert_eq!(world.simulation.shutdown(), 0);
    let left = world.simulation.nic(PortId(0)).map(|nic| (nic.stats().rules, nic.stats().listed));
    assert_eq!(left.unwrap_or_default(), (0, 0), "rules survive the shutdown");
}

#[test]
fn in_software() {
    check(Encoding::Off, CardProfile::X550, "round-robin", 1);
}

#[test]
fn by_mark_on_x550() {
    check(Encoding::Mark, CardProfile::X550, "round-robin", 1);
}

#[test]
fn by_queue_on_x550() {
    check(Encoding::Queue, CardProfile::X550, "round-robin", 1);
}

#[test]
fn by_mark_on_e810_with_two_workers() {
    check(Encoding::Mark, CardProfile::E810, "least-connections", 2);
}

#[test]
fn by_queue_on_e810_with_two_workers() {
    check(Encoding::Queue, CardProfile::E810, "maglev", 2);
}

#[test]
fn what_a_card_without_faults_rewrites_is_counted_for_its_backend() {
    let mut world = World::new(Encoding::Rewrite, CardProfile::ConnectX, "round-robin", 1);
    world.faults = false;
    world.run(CONNECTIONS / 20);
    world.settle();
    assert!(world.by_card() > 1000, "the card was meant to be used");
    world.check_books();
}

#[test]
fn rewritten_by_a_connectx() {
    check(Encoding::Rewrite, CardProfile::ConnectX, "round-robin", 1);
}

#[test]
fn rewritten_by_a_bluefield3_with_two_workers() {
    check(Encoding::Rewrite, CardProfile::BlueField3, "maglev", 2);
}
