//! Random histories of connections, cards and faults: what always holds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;

use admission::{Cause, Settings, Standing};
use common::card::Card;
use common::world::{Ours, State, World, binding};
use conntrack::ConnId;
use dpdk::flow::FlowPort;
use flow::{AdmissionPolicy, Direction, Encoding};
use offload::{
    OffloadCause, OffloadConfig, Offloader, Place, PortConfig, RewriteCapabilities, Style,
};
use proptest::prelude::*;
use state::Offload;
use wire::FlowKey;

const SETTLE_MS: u64 = 5;
const QUEUES: u16 = 6;
const SLOTS: u32 = 24;

#[derive(Clone, Debug)]
enum Step {
    Open {
        slot: u32,
        backend: u16,
        service: u16,
        ipv6: bool,
        fullnat: bool,
    },
    Request {
        slot: u32,
        reason: Offload,
    },
    /// The ager: withdraws what has rules, removes what has none.
    Expire {
        slot: u32,
    },
    Packet {
        slot: u32,
        reply: bool,
    },
    /// Workers poll: at most so many packets of each port.
    Poll {
        packets: usize,
    },
    Tick {
        ms: u64,
    },
    RefuseCreates {
        port: usize,
        count: usize,
    },
    RefuseDestroys {
        port: usize,
        count: usize,
    },
    Lose {
        port: usize,
        pick: usize,
    },
    /// How long destroyed rules still match; always less than SETTLE_MS.
    Linger {
        port: usize,
        ms: u64,
    },
    Capacity {
        port: usize,
        rules: usize,
    },
}

/// Many connections, all that can go wrong.
fn wide() -> impl Strategy<Value = Vec<Step>> {
    steps(SLOTS, 3, 0..40)
}

/// Few connections, marks and queues, so that they are soon used again, while
/// packets stay in the receive queues for long.
fn tight() -> impl Strategy<Value = Vec<Step>> {
    steps(4, 1, 0..4)
}

fn steps(
    slots: u32,
    poll_weight: u32,
    polled: std::ops::Range<usize>,
) -> impl Strategy<Value = Vec<Step>> {
    let slot = 0..slots;
    let reason = prop_oneof![
        6 => Just(Offload::Wanted),
        12 => Just(Offload::Seen(64)),
        2 => Just(Offload::Closing),
        1 => Just(Offload::Reopened),
    ];
    let open = (slot.clone(), 0u16..4, 0u16..2, any::<bool>(), prop::bool::weighted(0.1));
    let step = prop_oneof![
        4 => open.prop_map(|(slot, backend, service, ipv6, fullnat)| Step::Open {
            slot, backend, service, ipv6, fullnat
        }),
        12 => (slot.clone(), reason).prop_map(|(slot, reason)| Step::Request { slot, reason }),
        3 => slot.clone().prop_map(|slot| Step::Expire { slot }),
        8 => (slot, any::<bool>()).prop_map(|(slot, reply)| Step::Packet { slot, reply }),
        poll_weight => polled.prop_map(|packets| Step::Poll { packets }),
        6 => (0u64..4).prop_map(|ms| Step::Tick { ms }),
        1 => (0usize..2, 0usize..4).prop_map(|(port, count)| Step::RefuseCreates { port, count }),
        1 => (0usize..2, 0usize..4).prop_map(|(port, count)| Step::RefuseDestroys { port, count }),
        1 => (0usize..2, any::<usize>()).prop_map(|(port, pick)| Step::Lose { port, pick }),
        1 => (0usize..2, 0..SETTLE_MS).prop_map(|(port, ms)| Step::Linger { port, ms }),
        1 => (0usize..2, 0usize..20).prop_map(|(port, rules)| Step::Capacity { port, rules }),
    ];
    prop::collection::vec(step, 1..400)
}

struct Model {
    world: Ours,
    cards: [Card; 2],
    offloader: Offloader<Ours>,
    policy: AdmissionPolicy,
    now_ms: u64,
    opened: u32,
}

impl Model {
    fn new(encodings: [Encoding; 2], marks: usize, queues: u16, policy: AdmissionPolicy) -> Self {
        let world = World::ours(marks, usize::from(QUEUES));
        world.narrow.set(true);
        let style =
            Style { legacy: false, port_id: false, age: false, flags: true, fragments: true };
        let card = RewriteCapabilities {
            numbers: false,
            style,
            outputs: vec![Some(0), Some(1)],
            types: [true, true, true, false],
            tunnels: [false; offload::TunnelType::COUNT],
        };
        let port = |encoding| PortConfig {
            encoding,
            queues: (1..queues).collect(),
            shared_queues: Vec::new(),
            workers: 2,
            rewrite: Some(card.clone()),
            mark_instead: encoding == Encoding::Rewrite,
        };
        let config = OffloadConfig {
            ports: encodings.into_iter().map(port).collect(),
            creations_per_tick: 4,
            destroys_per_tick: 4,
            settle_ms: SETTLE_MS,
            linger_ms: 3,
            waiting: 30,
            admission: Settings { policy, stay_ms: 100, ..Settings::default() },
            ..OffloadConfig::default()
        };
        let mut cards = [Card::new(10), Card::new(10)];
        cards[0].ipv6 = false;
        cards.iter_mut().for_each(|card| card.linger_ms = SETTLE_MS - 1);
        let offloader = Offloader::new(config, world.clone());
        Self { world, cards, offloader, policy, now_ms: 0, opened: 0 }
    }

    fn key(&self, slot: u32, direction: Direction) -> Option<FlowKey> {
        self.world.conns.borrow().get(&slot).and_then(|conn| conn.binding.key(direction))
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Open { slot, backend, service, ipv6, fullnat } => {
                if self.world.state(slot).is_none() {
                    self.opened += 1;
                    let binding = binding(self.opened, backend, service, ipv6, fullnat);
                    self.world.open(slot, binding);
                    // Some never complete their handshake.
                    if let Some(conn) = self.world.conns.borrow_mut().get_mut(&slot) {
                        conn.established =
                            self.policy != AdmissionPolicy::Heavy || self.opened % 4 != 0;
                    }
                }
            }
            Step::Request { slot, reason } => {
                // Requests of connections that are gone come too, by slow rings.
                let reason = match reason {
                    Offload::Wanted if self.policy == AdmissionPolicy::Heavy => Offload::Seen(64),
                    other => other,
                };
                self.offloader.request(ConnId::from_raw(slot), reason);
            }
            Step::Expire { slot } => match self.world.state(slot) {
                Some(State::None) => assert!(self.world.remove(slot)),
                Some(_) => self.offloader.withdraw(ConnId::from_raw(slot)),
                None => {}
            },
            Step::Packet { slot, reply } => {
                let (direction, port) =
                    if reply { (Direction::Reply, 1) } else { (Direction::Forward, 0) };
                if let Some(key) = self.key(slot, direction) {
                    self.cards[port].receive(key);
                    self.check_forwarded();
                }
            }
            Step::Poll { packets } => self.poll(packets),
            // Rates need some time to be measured.
            Step::Tick { ms } if self.policy == AdmissionPolicy::Heavy => self.tick(ms * 30),
            Step::Tick { ms } => self.tick(ms),
            Step::RefuseCreates { port, count } => self.cards[port].refuse_creates = count,
            Step::RefuseDestroys { port, count } => self.cards[port].refuse_destroys = count,
            Step::Lose { port, pick } => self.cards[port].lose(pick),
            Step::Linger { port, ms } => self.cards[port].linger_ms = ms,
            Step::Capacity { port, rules } => self.cards[port].capacity = rules,
        }
    }

    fn tick(&mut self, ms: u64) {
        self.now_ms += ms;
        let [a, b] = &mut self.cards;
        (a.now_ms, b.now_ms) = (self.now_ms, self.now_ms);
        let mut flows: [&mut dyn FlowPort; 2] = [a, b];
        self.offloader.tick(self.now_ms, &mut flows);
    }

    /// The oldest packets of each port are delivered, then the epochs told.
    fn poll(&mut self, packets: usize) {
        for port in 0..2 {
            let mut got = [0; QUEUES as usize];
            for _ in 0..packets {
                let Some(received) = self.cards[port].received.pop_front() else { break };
                got[usize::from(received.queue)] += 1;
                self.check_packet(port, received);
            }
            let left = self.cards[port].received.iter();
            let mut full = [false; QUEUES as usize];
            left.for_each(|packet| full[usize::from(packet.queue)] = true);
            for queue in 0..QUEUES {
                let at = usize::from(queue);
                if got[at] > 0 || !full[at] {
                    self.world.ports[port].queue_epochs.polled(queue, got[at]);
                }
            }
        }
    }

    /// What the switch sends on is of a connection that is still there.
    fn check_forwarded(&mut self) {
        for (direction, card) in Direction::BOTH.into_iter().zip(&mut self.cards) {
            for key in card.forwarded.drain(..) {
                let conns = self.world.conns.borrow();
                let conn = conns.values().find(|conn| conn.binding.key(direction) == Some(key));
                let state = conn.map(|conn| conn.state);
                assert!(
                    matches!(state, Some(State::Installed | State::Withdrawing)),
                    "{key:?} is rewritten, and its connection {state:?}"
                );
            }
        }
    }

    /// What a tag says of a packet is what its 5-tuple says.
    fn check_packet(&self, port: usize, received: common::card::Received) {
        let tables = &self.world.ports[port];
        if let Some(marked) = received.mark.and_then(|mark| tables.marks.get(mark)) {
            let meant = self.key(marked.conn.raw(), marked.direction);
            assert_eq!(meant, Some(received.key), "mark {:?} means another", received.mark);
        }
        if let Some(action) = tables.queues.get(received.queue) {
            let conns = self.world.conns.borrow();
            let mut all = conns.values().map(|conn| conn.binding);
            let own = all.find(|b| b.key(action.direction) == Some(received.key));
            let own = own.expect("a queue's packet of a connection that is gone");
            assert_eq!((own.service, own.backend), (action.service, action.backend));
            let wanted = own.delivery(action.direction).unwrap();
            let same = wanted == action.delivery || action.endpoint.port() == 0;
            assert!(same, "another rewrite");
        }
    }

    /// The counts are those of a walk over all connections. One that has been
    /// removed while it waited is counted until its turn comes.
    fn check_counts(&self, now: &offload::Level) {
        let (mut in_line, mut rules) = (0, [0; 2]);
        for slot in self.world.conns.borrow().keys() {
            let Some(explained) = self.offloader.explain(ConnId::from_raw(*slot)) else { continue };
            for (rules, place) in rules.iter_mut().zip([explained.forward, explained.reply]) {
                in_line += usize::from(place == Place::InLine);
                *rules += usize::from(matches!(place, Place::Hardware | Place::Marked));
            }
        }
        assert_eq!(rules, [now.rules_forward, now.rules_reply]);
        assert!(in_line <= now.pending, "{in_line} of {} wait", now.pending);
    }

    fn check(&self) {
        let stats = self.offloader.stats();
        assert_eq!(stats.orphaned, 0);
        self.check_counts(&stats.now());
        for (port, card) in stats.ports.iter().zip(&self.cards) {
            let found_lost = port.done.lost as usize;
            assert_eq!(port.now.rules, card.rules() + card.lost.len() - found_lost);
            let installed = port.now.rules_forward + port.now.rules_reply;
            assert_eq!(port.now.rules, installed + port.now.doomed + port.now.adopted);
            if port.encoding == Encoding::Rewrite {
                assert!(port.now.marks_in_use <= installed + port.now.doomed);
                assert!(port.now.marks_quarantined <= port.now.settling);
            }
            assert_eq!(port.done.created - port.done.destroyed, port.now.rules as u64);
            if port.encoding == Encoding::Mark {
                assert_eq!(port.now.marks_in_use, port.now.rules);
                assert_eq!(port.now.marks_quarantined, port.now.settling);
            }
        }
    }

    /// Nobody has rules before its handshake, and nobody can be removed while
    /// it is in line for them.
    fn check_handshakes(&self) {
        for (&slot, conn) in self.world.conns.borrow().iter() {
            let explained = self.offloader.explain(ConnId::from_raw(slot));
            let in_line = explained.is_some_and(|explained| {
                [explained.forward, explained.reply].contains(&Place::InLine)
            });
            // Elsewhere it is the worker that asks who sees to that.
            let chosen = in_line && self.policy == AdmissionPolicy::Heavy;
            assert!(!chosen || conn.state != State::None, "slot {slot}");
        }
        for (slot, conn) in self.world.conns.borrow().iter().filter(|(_, conn)| !conn.established) {
            assert_eq!(conn.state, State::None, "slot {slot}");
        }
    }

    /// The word for a connection says the same as the sentence.
    fn check_causes(&self) {
        for &slot in self.world.conns.borrow().keys() {
            let conn = ConnId::from_raw(slot);
            let Some(explained) = self.offloader.explain(conn) else { continue };
            let places = [explained.forward, explained.reply];
            let any = |place| places.contains(&place);
            match self.offloader.cause(conn).unwrap() {
                OffloadCause::InLine => assert!(
                    any(Place::InLine)
                        || matches!(explained.standing, Standing::InLine { .. })
                        || !matches!(explained.standing, Standing::Software { .. })
                ),
                OffloadCause::Leaving => assert!(any(Place::Leaving) && !any(Place::InLine)),
                OffloadCause::Hardware => assert!(any(Place::Hardware), "{explained:?}"),
                OffloadCause::OneDirection(why) => assert_eq!(explained.refusal, Some(why)),
                OffloadCause::NotRewritten(why) => {
                    assert!(explained.not_rewritten.contains(&Some(why)), "{explained:?}");
                }
                OffloadCause::Software(cause) => {
                    assert!(places == [Place::Software; 2], "{explained:?}");
                    let Standing::Software { reason, .. } = explained.standing else {
                        assert!(matches!(cause, Cause::Refused(_) | Cause::NotEstablished));
                        continue;
                    };
                    let refused = explained.refusal.map(Cause::Refused);
                    assert!(
                        Some(cause) == refused || cause == reason.cause(),
                        "{cause:?} {reason:?}"
                    );
                }
            }
        }
    }

    /// Faults end, packets are delivered, time goes by.
    fn calm(&mut self) {
        for card in &mut self.cards {
            (card.refuse_creates, card.refuse_destroys) = (0, 0);
        }
        for _ in 0..400 {
            self.tick(50);
            self.poll(1000);
            self.check();
            self.check_handshakes();
            self.check_causes();
        }
    }

    /// Every rule in a card is that of a live connection which holds still for it.
    fn check_calm(&self) {
        let now = self.offloader.stats().now();
        assert_eq!((now.doomed, now.settling, now.marks_quarantined), (0, 0, 0));
        let mut found = 0;
        for (slot, conn) in self.world.conns.borrow().iter() {
            for (port, direction) in Direction::BOTH.into_iter().enumerate() {
                let key = conn.binding.key(direction).unwrap();
                if self.cards[port].has(&key) {
                    found += 1;
                    assert_eq!(conn.state, State::Installed, "slot {slot}");
                }
            }
            assert_ne!(conn.state, State::Withdrawing, "slot {slot}");
        }
        let rules = self.cards.iter().map(|card| card.rules() - card.bare()).sum::<usize>();
        assert_eq!(found, rules);
    }
}

fn history(encodings: [Encoding; 2], marks: usize, queues: u16, steps: &[Step]) {
    for policy in [AdmissionPolicy::All, AdmissionPolicy::Heavy] {
        history_with(policy, encodings, marks, queues, steps);
    }
}

fn history_with(
    policy: AdmissionPolicy,
    encodings: [Encoding; 2],
    marks: usize,
    queues: u16,
    steps: &[Step],
) {
    let mut model = Model::new(encodings, marks, queues, policy);
    for step in steps {
        model.run(step);
        model.check();
        model.check_handshakes();
    }
    model.calm();
    model.check_calm();
    // Everything ends: nothing is left, not even of connections forgotten about.
    for slot in 0..SLOTS {
        for _ in 0..40 {
            model.run(&Step::Expire { slot });
            model.tick(50);
            model.poll(1000);
        }
        assert_eq!(model.world.state(slot), None, "slot {slot} could not be removed");
    }
    let stats = model.offloader.stats();
    let adopted = stats.now().adopted;
    assert_eq!((stats.connections, stats.now().rules), (0, adopted), "{stats:?}");
    assert_eq!((stats.now().marks_in_use, stats.now().queues_assigned), (0, 0));
    assert!(model.cards.iter().all(|card| card.rules() == card.bare()));
}

fn history_with_shutdown(encodings: [Encoding; 2], marks: usize, steps: &[Step]) {
    let mut model = Model::new(encodings, marks, QUEUES, AdmissionPolicy::Heavy);
    steps.iter().for_each(|step| model.run(step));
    for card in &mut model.cards {
        card.refuse_destroys = card.refuse_destroys.min(1);
    }
    let [a, b] = &mut model.cards;
    let mut flows: [&mut dyn FlowPort; 2] = [a, b];
    assert_eq!(model.offloader.shutdown(&mut flows), 0);
    assert_eq!((model.cards[0].rules(), model.cards[1].rules()), (0, 0));
    // Packets that are still on their way are looked up in software.
    for slot in 0..SLOTS {
        model.run(&Step::Expire { slot });
        model.run(&Step::Expire { slot });
        assert_eq!(model.world.state(slot), None);
    }
    model.poll(1000);
    model.offloader.request(ConnId::from_raw(0), Offload::Wanted);
    model.tick(1);
    assert_eq!(model.offloader.stats().connections, 0);
}

/// One mark or queue for two connections: the second gets it as soon as the
/// first has given it up, while the card still matches the first one's rule.
#[test]
fn a_rule_that_still_matches_after_its_destroy_says_nothing_wrong() {
    for (encoding, marks) in [(Encoding::Mark, 2), (Encoding::Queue, 0)] {
        let mut model = Model::new([encoding; 2], marks, 2, AdmissionPolicy::All);
        for slot in 0..2 {
            let open =
                Step::Open { slot, backend: slot as u16, service: 0, ipv6: false, fullnat: false };
            model.run(&open);
        }
        model.run(&Step::Request { slot: 0, reason: Offload::Wanted });
        model.tick(1);
        assert_eq!(model.cards[0].rules(), 1);
        model.run(&Step::Expire { slot: 0 });
        for _ in 0..20 {
            model.tick(1);
            model.poll(10);
            model.poll(10);
            model.run(&Step::Request { slot: 1, reason: Offload::Wanted });
            model.run(&Step::Packet { slot: 0, reply: false });
            model.check();
        }
        model.calm();
        assert_eq!(model.world.state(1), Some(State::Installed), "the second has it now");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn marks(steps in wide()) {
        history([Encoding::Mark; 2], 16, QUEUES, &steps);
    }

    #[test]
    fn few_marks(steps in tight()) {
        history([Encoding::Mark; 2], 3, QUEUES, &steps);
    }

    #[test]
    fn queues(steps in wide()) {
        history([Encoding::Queue; 2], 0, QUEUES, &steps);
    }

    #[test]
    fn few_queues(steps in tight()) {
        history([Encoding::Queue; 2], 0, 3, &steps);
    }

    #[test]
    fn one_port_each(steps in wide()) {
        history([Encoding::Queue, Encoding::Mark], 16, QUEUES, &steps);
        history([Encoding::Mark, Encoding::Off], 16, QUEUES, &steps);
    }

    #[test]
    fn rewritten_or_marked(steps in wide()) {
        history([Encoding::Rewrite; 2], 16, QUEUES, &steps);
    }

    #[test]
    fn rewritten_or_marked_with_few_marks(steps in tight()) {
        history([Encoding::Rewrite, Encoding::Mark], 3, QUEUES, &steps);
    }

    #[test]
    fn nothing_is_left_after_shutdown(steps in wide(), encoding in 0_usize..3) {
        let encoding = [Encoding::Mark, Encoding::Queue, Encoding::Rewrite][encoding];
        history_with_shutdown([encoding; 2], 16, &steps);
    }
}
