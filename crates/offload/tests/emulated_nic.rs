//! The emulated NIC's cards, with their limits, manners and faults.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;

use common::world::{Ours, State, World, binding};
use conntrack::ConnId;
use dpdk::flow::FlowPort;
use flow::{CardProfile, Encoding, EncodingChoice};
use nic::{Fault, Nic, NicConfig, NicFlows};
use offload::{OffloadConfig, Offloader, PortConfig, probe};
use state::Offload;

const QUEUES: u16 = 8;

fn nic(profile: CardProfile) -> Nic {
    Nic::new(&NicConfig::new(profile, QUEUES)).unwrap()
}

#[test]
fn the_probe_of_an_x550_takes_ipv4_only_and_leaves_nothing() {
    let card = nic(CardProfile::X550);
    let probe = probe(&mut card.flows(), QUEUES, EncodingChoice::Auto, None);
    assert_eq!(probe.encoding, Encoding::Mark, "{:#?}", probe.reasons);
    assert_eq!(probe.mark, [true, true, false, false]);
    assert!(!probe.ipv6);
    assert_eq!((card.stats().rules, probe.left.len()), (0, 0));
}

#[test]
fn the_probe_of_other_cards_takes_both_families() {
    for profile in
        [CardProfile::Xl710, CardProfile::E810, CardProfile::ConnectX, CardProfile::BlueField3]
    {
        probes_both_families(&nic(profile));
    }
}

fn probes_both_families(card: &Nic) {
    for (arrives, encoding) in [(None, Encoding::Mark), (Some(false), Encoding::Queue)] {
        let probe = probe(&mut card.flows(), QUEUES, EncodingChoice::Auto, arrives);
        assert_eq!(probe.encoding, encoding, "{:#?}", probe.reasons);
        assert_eq!(probe.types(encoding), [true; 4]);
        assert!(probe.ipv6);
        assert_eq!((card.stats().rules, probe.left.len()), (0, 0));
    }
}

#[test]
fn the_probe_of_a_card_that_takes_nothing_says_off() {
    let card = nic(CardProfile::X550);
    card.stop();
    let probe = probe(&mut card.flows(), QUEUES, EncodingChoice::Auto, None);
    assert_eq!(probe.encoding, Encoding::Off);
    assert!(probe.reasons.iter().any(|line| line.contains("stopped")), "{:#?}", probe.reasons);
}

/// Two X550s, connections and an offloader.
struct Run {
    world: Ours,
    nics: [Nic; 2],
    flows: [NicFlows; 2],
    offloader: Offloader<Ours>,
    now_ms: u64,
}

impl Run {
    fn new(encoding: Encoding) -> Self {
        let world = World::ours(4096, usize::from(QUEUES));
        let port = PortConfig {
            encoding,
            queues: (1..QUEUES).collect(),
            shared_queues: Vec::new(),
            workers: 2,
            rewrite: None,
            mark_instead: false,
        };
        let config = OffloadConfig { ports: vec![port; 2], ..OffloadConfig::default() };
        let nics = [nic(CardProfile::X550), nic(CardProfile::X550)];
        let flows = [nics[0].flows(), nics[1].flows()];
        let offloader = Offloader::new(config, world.clone());
        Self { world, nics, flows, offloader, now_ms: 0 }
    }

    fn tick(&mut self, ms: u64) {
        self.now_ms += ms;
        self.nics.iter().for_each(|nic| nic.advance(self.now_ms * 1_000_000));
        let [a, b] = &mut self.flows;
        let mut flows: [&mut dyn FlowPort; 2] = [a, b];
        self.offloader.tick(self.now_ms, &mut flows);
        for port in &self.world.ports {
            (0..QUEUES).for_each(|queue| port.queue_epochs.polled(queue, 0));
        }
    }

    fn open(&mut self, n: u32) {
        // One in seven is IPv6, which an X550 doesn't take.
        self.world.open(n, binding(n, (n % 3) as u16, 0, n % 7 == 0, false));
        self.world.set_state(n, State::Wanted);
        self.offloader.request(ConnId::from_raw(n), Offload::Wanted);
    }

    /// A worker sees the end of the connection; the ager removes it in time.
    fn end(&mut self, n: u32, silently: bool) {
        if silently {
            self.offloader.withdraw(ConnId::from_raw(n));
        } else if self.world.state(n) != Some(State::None) {
            self.offloader.request(ConnId::from_raw(n), Offload::Closing);
        }
    }

    fn order(&self, round: u32) {
        for nic in &self.nics {
            nic.clear_faults();
            match round % 8 {
                0 => nic.order_fault(Fault::RefuseShare { per_mille: 100, seed: round.into() }),
                1 => nic.order_fault(Fault::FullAt { at: 1000 }),
                2 => nic.order_fault(Fault::LateCreate { ns: 3_000_000 }),
                3 => nic.order_fault(Fault::LateDestroy { ns: 5_000_000 }),
                4 => nic.order_fault(Fault::RefuseDestroys { count: 100 }),
                5 => nic.order_fault(Fault::SilentLoss { per_mille: 50, seed: round.into() }),
                6 => nic.order_fault(Fault::SlowCreate { ns: 305_000, sleep: false }),
                _ => {}
            }
        }
    }

    /// 100 rounds of 1000 new connections, of which the oldest end.
    fn churn(&mut self) {
        let mut oldest = 0;
        for round in 0..100 {
            self.order(round);
            for n in 0..1000 {
                self.open(round * 1000 + n);
                if n % 25 == 0 {
                    self.tick(1);
                }
            }
            while oldest + 3000 < (round + 1) * 1000 {
                self.end(oldest, oldest % 3 == 0);
                oldest += 1;
            }
            (0..20).for_each(|_| self.tick(10));
            self.bury(oldest);
        }
        for nic in &self.nics {
            nic.clear_faults();
        }
    }

    /// Removes what has ended and has no rules any more.
    fn bury(&self, ended: u32) {
        let all: Vec<u32> = self.world.conns.borrow().range(..ended).map(|(&n, _)| n).collect();
        for n in all {
            self.world.remove(n);
        }
    }
}

#[test]
fn a_hundred_thousand_connections_through_an_x550_leave_no_rule() {
    for encoding in [Encoding::Mark, Encoding::Queue] {
        let mut run = Run::new(encoding);
        run.churn();
        let stats = run.offloader.stats();
        let done = stats.done();
        assert!(done.created > 100_000, "{encoding}: only {} rules", done.created);
        assert!(done.refused.full > 0 && done.refused.other > 0 && done.retries > 0, "{done:?}");
        assert!(done.refused.full < 2_000, "{encoding}: a full card is asked seldom: {done:?}");
        assert!(stats.ports[0].capacity_learnt.is_some_and(|learnt| learnt <= 2048));
        let unsupported: u64 = run.nics.iter().map(|nic| nic.stats().refused.unsupported).sum();
        assert!(unsupported < 100, "{encoding}: asked {unsupported} times for IPv6");
        for n in 0..100_000 {
            run.end(n, true);
        }
        (0..200).for_each(|_| run.tick(100));
        run.bury(u32::MAX);
        let stats = run.offloader.stats();
        assert_eq!((stats.connections, stats.now().rules, stats.orphaned), (0, 0, 0));
        assert_eq!(run.world.conns.borrow().len(), 0, "{encoding}: connections are left");
        for nic in &run.nics {
            let stats = nic.stats();
            assert_eq!((stats.rules, stats.created), (0, stats.destroyed), "{encoding}");
        }
    }
}

#[test]
fn a_shutdown_in_full_swing_leaves_no_rule() {
    let mut run = Run::new(Encoding::Mark);
    (0..1500).for_each(|n| run.open(n));
    (0..12).for_each(|_| run.tick(1));
    run.nics[0].order_fault(Fault::RefuseDestroys { count: 50 });
    (0..200).for_each(|n| run.end(n, true));
    run.tick(1);
    assert!(run.nics.iter().all(|nic| nic.stats().rules > 500));
    let [a, b] = &mut run.flows;
    let mut flows: [&mut dyn FlowPort; 2] = [a, b];
    assert_eq!(run.offloader.shutdown(&mut flows), 0);
    assert!(run.nics.iter().all(|nic| nic.stats().rules == 0));
}

#[test]
fn rules_of_others_are_never_touched() {
    let mut run = Run::new(Encoding::Mark);
    let other = binding(9_999_999, 0, 0, false, false).key(flow::Direction::Forward).unwrap();
    let actions = vec![dpdk::flow::Action::Queue(0), dpdk::flow::Action::Mark(40_000)];
    let rule = dpdk::flow::Rule::five_tuple(&other, actions);
    let foreign = run.flows[0].create(&rule).unwrap();
    (0..100).for_each(|n| run.open(n));
    (0..10).for_each(|_| run.tick(1));
    let [a, b] = &mut run.flows;
    let mut flows: [&mut dyn FlowPort; 2] = [a, b];
    assert_eq!(run.offloader.shutdown(&mut flows), 0);
    assert_eq!(run.nics[0].stats().rules, 1);
    assert_eq!(run.flows[0].destroy(foreign).err(), None);
}

#[test]
fn rules_lost_with_a_reset_port_are_found_lost_and_nothing_else_happens() {
    let mut run = Run::new(Encoding::Mark);
    (0..100).for_each(|n| run.open(n));
    (0..10).for_each(|_| run.tick(1));
    run.nics[0].reset();
    (0..100).for_each(|n| run.end(n, true));
    (0..20).for_each(|_| run.tick(10));
    let stats = run.offloader.stats();
    assert!(stats.ports[0].done.lost > 0);
    assert_eq!((stats.connections, stats.now().rules, stats.now().marks_quarantined), (0, 0, 0));
}

#[test]
fn an_adopted_rule_stays_until_the_shutdown() {
    let mut run = Run::new(Encoding::Mark);
    let flow = binding(9_999_999, 0, 0, false, false).key(flow::Direction::Forward).unwrap();
    let actions = vec![dpdk::flow::Action::Queue(0), dpdk::flow::Action::Mark(40_000)];
    let rule = run.flows[0].create(&dpdk::flow::Rule::five_tuple(&flow, actions)).unwrap();
    run.offloader.adopt(flow::PortId(0), vec![rule]);
    (0..10).for_each(|n| run.open(n));
    (0..10).for_each(|_| run.tick(1));
    (0..10).for_each(|n| run.end(n, true));
    (0..100).for_each(|_| run.tick(10));
    assert_eq!((run.nics[0].stats().rules, run.offloader.stats().now().adopted), (1, 1));
    let [a, b] = &mut run.flows;
    let mut flows: [&mut dyn FlowPort; 2] = [a, b];
    assert_eq!(run.offloader.shutdown(&mut flows), 0);
    assert_eq!((run.nics[0].stats().rules, run.offloader.stats().now().rules), (0, 0));
}
