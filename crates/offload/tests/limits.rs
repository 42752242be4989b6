//! Budgets, the line's length, and what happens to those that don't fit.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;

use common::card::Card;
use common::world::{Ours, State, World, binding};
use conntrack::ConnId;
use dpdk::flow::FlowPort;
use flow::{Direction, Encoding};
use offload::{OffloadConfig, Offloader, PortConfig};
use service::{Binding, Forwarding};
use state::Offload;

struct Bench {
    world: Ours,
    cards: [Card; 2],
    offloader: Offloader<Ours>,
}

impl Bench {
    fn new(encoding: Encoding, config: OffloadConfig) -> Self {
        Self::sharing(encoding, config, &[])
    }

    fn sharing(encoding: Encoding, config: OffloadConfig, shared: &[u16]) -> Self {
        let world = World::ours(1024, 4);
        let shared_queues = shared.to_vec();
        let port = PortConfig {
            encoding,
            queues: vec![1, 2, 3],
            shared_queues,
            workers: 1,
            rewrite: None,
            mark_instead: false,
        };
        let config = OffloadConfig { ports: vec![port; 2], ..config };
        let offloader = Offloader::new(config, world.clone());
        Self { world, cards: [Card::new(1000), Card::new(1000)], offloader }
    }

    fn open(&mut self, n: u32, backend: u16, fullnat: bool) {
        self.open_with(n, binding(n, backend, 0, false, fullnat));
    }

    fn open_with(&mut self, n: u32, binding: Binding) {
        self.world.open(n, binding);
        self.world.set_state(n, State::Wanted);
        self.offloader.request(ConnId::from_raw(n), Offload::Wanted);
    }

    fn tick(&mut self, now_ms: u64) {
        let [a, b] = &mut self.cards;
        let mut flows: [&mut dyn FlowPort; 2] = [a, b];
        self.offloader.tick(now_ms, &mut flows);
        for port in &self.world.ports {
            (0..4).for_each(|queue| port.queue_epochs.polled(queue, 0));
        }
    }
}

#[test]
fn a_tick_asks_a_card_no_more_often_than_its_budget() {
    let config =
        OffloadConfig { creations_per_tick: 4, destroys_per_tick: 3, ..OffloadConfig::default() };
    let mut bench = Bench::new(Encoding::Mark, config);
    (0..20).for_each(|n| bench.open(n, 0, false));
    for tick in 1..=5 {
        bench.tick(tick);
        assert_eq!(bench.cards[0].creates, 4 * tick as usize);
    }
    (0..20).for_each(|n| bench.offloader.withdraw(ConnId::from_raw(n)));
    for tick in 1..=6 {
        bench.tick(tick + 10);
        assert_eq!(bench.cards[1].destroys, 3 * tick as usize);
    }
}

#[test]
fn the_line_is_bounded_and_who_finds_it_full_may_ask_again() {
    let mut bench =
        Bench::new(Encoding::Mark, OffloadConfig { waiting: 5, ..OffloadConfig::default() });
    (0..8).for_each(|n| bench.open(n, 0, false));
    assert_eq!(bench.offloader.stats().now().pending, 10, "5 on each port");
    assert_eq!(bench.offloader.stats().done().refused.waiting, 6);
    assert_eq!(bench.world.state(4), Some(State::Wanted));
    assert_eq!(bench.world.state(5), Some(State::None));
    // Those that end leave their places to others.
    bench.tick(0);
    bench.cards.iter_mut().for_each(|card| card.capacity = 0);
    (10..15).for_each(|n| bench.open(n, 0, false));
    (10..15).for_each(|n| bench.offloader.request(ConnId::from_raw(n), Offload::Closing));
    bench.tick(2_000);
    bench.open(15, 0, false);
    assert_eq!(bench.offloader.stats().now().pending, 2);
}

#[test]
fn connections_without_a_queue_of_their_own_stay_in_software() {
    let mut bench = Bench::new(Encoding::Queue, OffloadConfig::default());
    (0..5).for_each(|n| bench.open(n, n as u16, false));
    bench.open(5, 0, true);
    bench.open(6, 0, false);
    bench.tick(1);
    let stats = bench.offloader.stats();
    assert_eq!(stats.done().refused.no_queue, 4, "2 backends, 2 directions");
    assert_eq!(stats.done().refused.not_encodable, 2, "full NAT");
    assert_eq!(stats.now().rules, 8, "3 backends and a second connection of the first");
    assert_eq!(stats.ports[0].queues.iter().map(|used| used.rules).max(), Some(2));
    assert_eq!(bench.world.state(4), Some(State::Wanted), "not asked for again");
    assert_eq!(bench.world.state(6), Some(State::Installed));
}

#[test]
fn more_backends_than_queues_share_one_and_their_marks_tell_which() {
    let mut bench = Bench::sharing(Encoding::Queue, OffloadConfig::default(), &[0]);
    // Every third connection is UDP.
    (0..20).for_each(|n| bench.open(3 * n, n as u16 % 10, false));
    bench.tick(1);
    let stats = bench.offloader.stats();
    assert_eq!(stats.done().refused.no_queue, 0);
    assert_eq!(stats.now().rules, 40);
    for (port, shared) in bench.world.ports.iter().zip(&stats.ports) {
        let marked: Vec<_> = shared.queues.iter().filter_map(|used| used.mark).collect();
        assert_eq!(marked, [4, 5, 6, 7, 8, 9, 10], "3 backends have queues, 7 marks");
        for used in &shared.queues {
            assert_eq!(used.queue == 0, used.mark.is_some());
            let meaning = port.queues.get(used.mark.unwrap_or(used.queue));
            assert_eq!(meaning.map(|action| action.backend), Some(used.backend));
        }
    }
    (0..20).for_each(|n| bench.offloader.withdraw(ConnId::from_raw(3 * n)));
    (0..20).for_each(|turn| bench.tick(20 + 20 * turn));
    assert_eq!(bench.offloader.stats().now().rules, 0);
    let port = &bench.world.ports[0].queues;
    assert!((0..12).all(|tag| port.get(tag).is_none()), "no meaning outlives its rules");
}

#[test]
fn rules_of_a_connection_that_has_vanished_are_found_and_destroyed() {
    let mut bench = Bench::new(Encoding::Mark, OffloadConfig::default());
    (0..50).for_each(|n| bench.open(n, 0, false));
    bench.tick(1);
    assert_eq!(bench.offloader.stats().now().rules, 100);
    // Against all agreement.
    bench.world.conns.borrow_mut().remove(&7);
    for slot in [8, 9] {
        let mut conns = bench.world.conns.borrow_mut();
        conns.get_mut(&slot).unwrap().binding = binding(1000 + slot, 1, 0, false, false);
    }
    (0..20).for_each(|turn| bench.tick(20 + 20 * turn));
    let stats = bench.offloader.stats();
    assert_eq!((stats.orphaned, stats.now().rules, stats.connections), (3, 94, 47));
}

#[test]
fn of_a_one_way_connection_only_what_the_client_sends_is_matched() {
    for encoding in [Encoding::Mark, Encoding::Queue] {
        for forwarding in [Forwarding::Direct, Forwarding::Tunnel] {
            let mut bench = Bench::new(encoding, OffloadConfig::default());
            for n in 0..2 {
                let nat = binding(n, 5, 0, false, false);
                let (server, local) = (nat.vip, nat.client);
                bench.open_with(n, Binding { forwarding, server, local, ..nat });
            }
            (1..4).for_each(|turn| bench.tick(turn));
            assert_eq!(bench.world.state(0), Some(State::Installed));
            assert_eq!((bench.cards[0].rules(), bench.cards[1].rules()), (2, 0));
            let stats = bench.offloader.stats();
            assert_eq!((stats.now().rules_forward, stats.now().rules_reply), (2, 0));
            assert_eq!(stats.done().refused, Default::default());
            (0..2).for_each(|n| bench.offloader.withdraw(ConnId::from_raw(n)));
            (10..80).for_each(|turn| bench.tick(turn * 10));
            assert_eq!(bench.world.state(0), Some(State::None));
            assert_eq!(bench.cards[0].rules(), 0);
        }
    }
}

#[test]
fn a_card_that_refuses_everything_for_once_is_tried_a_few_times() {
    let mut bench = Bench::new(Encoding::Mark, OffloadConfig::default());
    bench.cards.iter_mut().for_each(|card| card.refuse_creates = 1);
    bench.open(0, 0, false);
    (0..10).for_each(|turn| bench.tick(turn));
    assert_eq!(bench.world.state(0), Some(State::Installed));
    assert_eq!(bench.offloader.stats().now().rules, 2);
    bench.cards.iter_mut().for_each(|card| card.refuse_creates = usize::MAX);
    bench.open(1, 0, false);
    (10..20).for_each(|turn| bench.tick(turn));
    assert_eq!(bench.offloader.stats().done().refused.other, 2 + 5);
    assert_eq!(bench.world.state(1), Some(State::None), "it may be asked for again");
}

/// A mark or queue of a rule that was refused means nothing: no packet has it.
#[test]
fn a_refused_rule_leaves_no_meaning_behind() {
    for encoding in [Encoding::Mark, Encoding::Queue] {
        let mut bench = Bench::new(encoding, OffloadConfig::default());
        bench.cards.iter_mut().for_each(|card| card.refuse_creates = usize::MAX);
        bench.open(0, 0, false);
        bench.tick(1);
        assert_eq!(bench.cards.each_ref().map(|card| card.creates), [1, 1], "{encoding}");
        for port in &bench.world.ports {
            assert!((0..1024).all(|mark| port.marks.get(mark).is_none()), "{encoding}");
            assert!((0..12).all(|tag| port.queues.get(tag).is_none()), "{encoding}");
        }
    }
}

/// The rule goes where packets arrive when its turn comes, not where they did
/// when it was asked for.
#[test]
fn a_route_that_changes_while_a_direction_waits_takes_its_rule_along() {
    let mut bench = Bench::new(Encoding::Mark, OffloadConfig::default());
    bench.open(0, 0, false);
    bench.world.swapped.set(true);
    (1..4).for_each(|turn| bench.tick(turn));
    let binding = binding(0, 0, 0, false, false);
    let keys = Direction::BOTH.map(|direction| binding.key(direction).unwrap());
    let has = |card: &Card| keys.map(|key| card.has(&key));
    assert_eq!(bench.cards.each_ref().map(has), [[false, true], [true, false]]);
    assert_eq!(bench.cards.each_ref().map(|card| card.creates), [1, 1]);
    let stats = bench.offloader.stats();
    assert_eq!((stats.now().rules, stats.now().pending, stats.done().late), (2, 0, 0));
    assert_eq!(bench.world.state(0), Some(State::Installed));
}
