//! A card that does not complete what is in its queue of operations.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;

use common::rewriting::{FRAME, Run};
use common::world::State;
use conntrack::ConnId;
use dpdk::flow::{FlowCall, FlowLayer, FlowPort};
use flow::{CardProfile, Direction};
use nic::NicFlows;
use state::Offload;

/// The flows of a NIC that carries out nothing while it is `stuck`.
struct Stuck {
    flows: NicFlows,
    stuck: bool,
}

impl FlowLayer for Stuck {
    fn inner(&mut self) -> &mut dyn FlowPort {
        &mut self.flows
    }

    fn before(&mut self, call: FlowCall) -> bool {
        !(self.stuck && matches!(call, FlowCall::Push | FlowCall::Pull))
    }
}

/// Two cards, the second of which can be stuck.
struct Cards {
    run: Run,
    first: NicFlows,
    second: Stuck,
}

impl Cards {
    /// With connection 1 in both cards.
    fn new() -> Self {
        let mut run = Run::new(CardProfile::ConnectX);
        let [first, second] = [run.nics[0].flows(), run.nics[1].flows()];
        let second = Stuck { flows: second, stuck: false };
        run.open(1);
        let mut cards = Self { run, first, second };
        cards.pass(5);
        assert!(cards.run.packet(1, Direction::Forward) && cards.run.packet(1, Direction::Reply));
        cards
    }

    fn pass(&mut self, ms: u64) {
        let Self { run, first, second } = self;
        for _ in 0..ms {
            run.now_ms += 1;
            run.nics.iter().for_each(|nic| nic.advance(run.now_ms * 1_000_000));
            run.offloader.tick(run.now_ms, &mut [&mut *first, &mut *second]);
            for port in &run.world.ports {
                (0..4).for_each(|queue| port.queue_epochs.polled(queue, 0));
            }
        }
    }

    /// The second card has been told to destroy its rule, and has said nothing
    /// for longer than any card takes.
    fn overdue() -> Self {
        let mut cards = Self::new();
        cards.second.stuck = true;
        cards.run.offloader.request(ConnId::from_raw(1), Offload::Closing);
        cards.pass(20_000);
        let stats = cards.run.offloader.stats();
        assert_eq!((stats.now().overdue, stats.done().overdue), (1, 1), "{stats:#?}");
        cards
    }
}

/// The rule still rewrites, so nothing of it may be used again.
#[test]
fn a_rule_whose_destruction_is_overdue_keeps_its_connection() {
    let mut cards = Cards::overdue();
    assert!(!cards.run.packet(1, Direction::Forward), "the first card has destroyed its rule");
    assert!(cards.run.packet(1, Direction::Reply), "the second card still matches");
    assert_eq!(cards.run.world.state(1), Some(State::Withdrawing));
    assert!(!cards.run.world.remove(1), "its binding must not change");
    // Another connection with the same packets gets no rule on that port.
    let same = cards.run.world.conns.borrow()[&1].binding;
    cards.run.world.open(2, same);
    cards.run.world.set_state(2, State::Wanted);
    cards.run.offloader.request(ConnId::from_raw(2), Offload::Wanted);
    cards.second.stuck = false;
    let refused = cards.run.offloader.stats().done().refused.other;
    let Cards { run, first, second } = &mut cards;
    run.now_ms += 1;
    run.offloader.tick(run.now_ms, &mut [first, second]);
    assert_eq!(run.offloader.stats().done().refused.other, refused + 1);
    // The card answers at last: what was kept is free after settling.
    cards.run.offloader.request(ConnId::from_raw(2), Offload::Closing);
    cards.pass(300);
    assert_eq!(cards.run.world.state(1), Some(State::None));
    let stats = cards.run.offloader.stats();
    assert_eq!((stats.now().overdue, stats.done().overdue, stats.done().lost), (0, 1, 0));
    assert_eq!((stats.now().rules, cards.run.in_cards()), (2 * FRAME, 2 * FRAME));
}

/// A port that was reset has no rules, and answers nothing it was told before.
#[test]
fn a_reset_port_owes_no_answers() {
    let mut cards = Cards::overdue();
    cards.run.nics[1].reset();
    cards.second.stuck = false;
    cards.pass(1_500);
    let stats = cards.run.offloader.stats();
    assert_eq!(stats.now().overdue, 0, "{stats:#?}");
    assert_eq!(cards.run.world.state(1), Some(State::None));
    assert_eq!((stats.now().rules, cards.run.in_cards()), (2 * FRAME, 2 * FRAME), "{stats:#?}");
    cards.run.world.set_state(1, State::Wanted);
    cards.run.offloader.request(ConnId::from_raw(1), Offload::Wanted);
    cards.pass(5);
    assert!(cards.run.packet(1, Direction::Reply), "the port is used again");
}
