//! The policy `heavy` with real connections and with small cards.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;

use std::net::SocketAddr;

use admission::{CardRefusal, Reason, Settings, Standing};
use common::card::Card;
use common::lab::Lab;
use common::world::{Ours, State, World, binding};
use conntrack::{ConnId, Hit};
use dpdk::flow::FlowPort;
use flow::{AdmissionPolicy, Direction, Encoding};
use offload::{OffloadConfig, Offloader, Place, PortConfig};
use state::{Counter, Offload};
use wire::{FlowKey, Transport};

fn client(n: u16) -> SocketAddr {
    SocketAddr::from(([172, 16, 0, 1], 20_000 + n))
}

fn vip() -> SocketAddr {
    "10.9.0.1:80".parse().unwrap()
}

/// A handshake; the backend that was chosen.
fn open(lab: &mut Lab, n: u16) -> SocketAddr {
    lab.arrive(0, client(n), vip(), "S");
    let backend = lab.poll()[0].1;
    lab.arrive(1, backend, client(n), "SA");
    lab.arrive(0, client(n), vip(), "A");
    lab.poll();
    lab.keep(1);
    backend
}

fn conn(lab: &Lab, n: u16) -> ConnId {
    let key = FlowKey::new(Transport::Tcp, client(n), vip()).unwrap();
    let Hit { conn, .. } = lab.shared.table().lookup(&key).unwrap();
    conn
}

#[test]
fn a_heavy_connection_comes_into_the_nic_and_light_and_half_open_ones_do_not() {
    for encoding in [Encoding::Mark, Encoding::Queue] {
        let mut lab = Lab::with(encoding, 64, AdmissionPolicy::Heavy);
        let backend = open(&mut lab, 0);
        open(&mut lab, 1);
        for turn in 0..2_000 {
            lab.arrive(0, client(0), vip(), "A");
            lab.arrive(1, backend, client(0), "A");
            // A SYN sent again and again, and a packet now and then.
            lab.arrive(0, client(2), vip(), "S");
            if turn % 100 == 0 {
                lab.arrive(0, client(1), vip(), "A");
            }
            lab.poll();
            lab.keep(1);
        }
        assert_eq!(lab.rules(), 2, "{encoding}: both directions of one connection");
        let explain = |n| lab.offloader.explain(conn(&lab, n)).unwrap();
        let heavy = explain(0);
        assert_eq!((heavy.forward, heavy.reply), (Place::Hardware, Place::Hardware));
        let Standing::Hardware { rate, rank: 1, .. } = heavy.standing else { panic!("{heavy:?}") };
        assert!((1_000.0..4_000.0).contains(&rate), "{encoding}: {rate} of 2000 packets/s");
        assert!(matches!(
            explain(1).standing,
            Standing::Software { reason: Reason::Unseen { .. } | Reason::TooYoung { .. }, .. }
        ));
        let half_open = explain(2).standing;
        assert!(
            matches!(half_open, Standing::Software { reason: Reason::NotEstablished, .. }),
            "{half_open:?}"
        );
        let matched = Counter::MatchedByMark;
        let matched = if encoding == Encoding::Mark { matched } else { Counter::MatchedByQueue };
        assert!(lab.worker.counters().get(matched) > 1_500);
    }
}

/// Two small cards, and connections of which samples are told.
struct Bench {
    world: Ours,
    cards: [Card; 2],
    offloader: Offloader<Ours>,
    now_ms: u64,
}

impl Bench {
    fn new(encoding: Encoding, capacity: usize, settings: Settings) -> Self {
        let world = World::ours(1024, 4);
        let port =
            PortConfig { encoding, queues: vec![1, 2, 3], workers: 1, ..PortConfig::default() };
        let admission = Settings { policy: AdmissionPolicy::Heavy, ..settings };
        let config = OffloadConfig { ports: vec![port; 2], admission, ..OffloadConfig::default() };
        let offloader = Offloader::new(config, world.clone());
        let cards = [Card::new(capacity), Card::new(capacity)];
        Self { world, cards, offloader, now_ms: 0 }
    }

    fn open(&mut self, connections: std::ops::Range<u32>) {
        for n in connections {
            self.world.open(n, binding(n, 0, 0, false, false));
        }
    }

    /// Time goes by; a sample of `n` comes every `every(n)` milliseconds.
    fn run(&mut self, ms: u64, connections: u32, every: impl Fn(u32) -> u64) {
        for _ in 0..ms {
            self.now_ms += 1;
            for n in 0..connections {
                if self.now_ms % every(n) == u64::from(n) % every(n) {
                    self.offloader.request(ConnId::from_raw(n), Offload::Seen(64));
                }
            }
            let [a, b] = &mut self.cards;
            let mut flows: [&mut dyn FlowPort; 2] = [a, b];
            self.offloader.tick(self.now_ms, &mut flows);
            for port in &self.world.ports {
                (0..4).for_each(|queue| port.queue_epochs.polled(queue, 0));
            }
            (0..connections).for_each(|n| self.check_line(n));
        }
    }

    /// Whoever is in line can't be removed behind our back.
    fn check_line(&self, n: u32) {
        let explained = self.offloader.explain(ConnId::from_raw(n)).unwrap();
        if explained.forward == Place::InLine || explained.reply == Place::InLine {
            assert_ne!(self.world.state(n), Some(State::None), "{n} is in line");
        }
    }

    fn has(&self, n: u32) -> bool {
        let key = self.world.conns.borrow()[&n].binding.key(Direction::Forward).unwrap();
        self.cards[0].has(&key)
    }

    fn reason(&self, n: u32) -> Reason {
        match self.offloader.explain(ConnId::from_raw(n)).unwrap().standing {
            Standing::Software { reason, .. } => reason,
            other => panic!("{n}: {other:?}"),
        }
    }
}

#[test]
fn a_full_card_holds_the_heaviest_and_newcomers_find_an_entry_free() {
    for encoding in [Encoding::Mark, Encoding::Queue] {
        let mut bench = Bench::new(encoding, 50, Settings::default());
        bench.open(0..100);
        // The first half light, the second ten times as heavy but later.
        bench.run(4_000, 50, |_| 200);
        assert_eq!(bench.cards[0].rules(), 50, "there is room for all of them");
        bench.run(6_000, 100, |n| if n < 50 { 200 } else { 20 });
        let stats = bench.offloader.stats();
        assert_eq!(stats.admission.limit, Some(50), "learnt from the card");
        assert!(bench.cards[0].rules() >= 48 && bench.cards[1].rules() >= 48);
        assert!((50..100).filter(|&n| bench.has(n)).count() >= 48, "{:?}", stats.admission);
        let light = (0..50).find(|&n| !bench.has(n)).unwrap();
        let Reason::TooLight { rate, threshold, rank } = bench.reason(light) else {
            panic!("{:?}", bench.reason(light));
        };
        assert!(rate < threshold && rank > 45, "{rate} {threshold} {rank}");
        // Those evicted are served in software, free to be removed.
        let states: Vec<_> = (0..50).filter_map(|n| bench.world.state(n)).collect();
        assert!(states.iter().filter(|state| **state == State::None).count() >= 48);
        assert_eq!(stats.orphaned, 0);
    }
}

#[test]
fn a_card_that_refuses_is_asked_again_later_and_says_why() {
    let mut bench = Bench::new(Encoding::Mark, 50, Settings::default());
    bench.cards.iter_mut().for_each(|card| card.nothing = true);
    bench.open(0..3);
    bench.run(2_000, 3, |_| 20);
    assert_eq!(bench.cards[0].rules(), 0);
    let Reason::Refused { why: CardRefusal::Unsupported, .. } = bench.reason(0) else {
        panic!("{:?}", bench.reason(0));
    };
    bench.cards.iter_mut().for_each(|card| card.nothing = false);
    bench.run(40_000, 3, |_| 20);
    assert_eq!((bench.cards[0].rules(), bench.cards[1].rules()), (3, 3));
}

#[test]
fn the_budget_of_a_port_holds() {
    let settings = Settings { insertions_per_second: Some(10), ..Settings::default() };
    let mut bench = Bench::new(Encoding::Mark, 500, settings);
    bench.open(0..200);
    bench.run(5_000, 200, |_| 20);
    let rules = bench.cards[0].rules();
    assert!((40..=50).contains(&rules), "{rules} in 5 s");
    assert!(matches!(
        (0..200).find(|&n| !bench.has(n)).map(|n| bench.reason(n)),
        Some(Reason::InTurn { .. })
    ));
}

#[test]
fn a_slow_card_is_asked_less() {
    let mut bench = Bench::new(
        Encoding::Mark,
        500,
        Settings { insertions_per_second: Some(1_000), ..Settings::default() },
    );
    // Every look at the clock is 10 ms later: a creation takes that long.
    thread_local!(static NOW: std::cell::Cell<u64> = const { std::cell::Cell::new(0) });
    bench.offloader.measure(|| {
        NOW.with(|now| {
            now.set(now.get() + 10_000_000);
            now.get()
        })
    });
    bench.open(0..200);
    bench.run(3_000, 200, |_| 20);
    let port = &bench.offloader.stats().ports[0];
    assert_eq!((port.creation_ns, port.budget), (Some(10_000_000), Some(25)));
    assert!(bench.cards[0].rules() <= 100, "{}", bench.cards[0].rules());
}
