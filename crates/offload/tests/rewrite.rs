//! Encoding `rewrite` on the emulated ConnectX and BlueField-3: rules in the card are
//! the rules believed, and they go when nobody needs them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::net::IpAddr;

use common::world::{Ours, STATION, State, TIMEOUT_MS, World, binding};
use conntrack::ConnId;
use dpdk::flow::{Action, Attributes, FlowPort, Item, Match, Rule, RuleHandle};
use etherparse::PacketBuilder;
use nic::{Delivery, Fault, Nic, NicConfig, NicFlows, ProfileKind};
use offload::{
    Card, Encoding, NotRewritten, OffloadConfig, Offloader, Place, PortConfig, Probe, Wanted,
    probe_card,
};
use pipeline::Offload;
use service::Direction;
use wire::Transport;

/// Entry and guards of a port.
const FRAME: usize = 4;
const OUTPUTS: [Option<u16>; 2] = [Some(0), Some(1)];

fn nic(profile: ProfileKind, switch: &[u16]) -> Nic {
    Nic::new(&NicConfig { switch: switch.to_vec(), ..NicConfig::new(profile, 4) }).unwrap()
}

fn ask(nic: &Nic, wanted: Wanted) -> Probe {
    let card = Card { queues: 4, mark_arrives: None, outputs: &OUTPUTS };
    probe_card(&mut nic.flows(), &card, wanted)
}

struct Run {
    world: Ours,
    nics: [Nic; 2],
    flows: [NicFlows; 2],
    offloader: Offloader<Ours>,
    now_ms: u64,
}

impl Run {
    fn new(profile: ProfileKind) -> Self {
        let world = World::ours(16, 4);
        let nics = [nic(profile, &[0, 1]), nic(profile, &[0, 1])];
        let flows = [nics[0].flows(), nics[1].flows()];
        let offloader = Self::offloader(&world, &nics);
        Self { world, nics, flows, offloader, now_ms: 1000 }
    }

    fn offloader(world: &Ours, nics: &[Nic; 2]) -> Offloader<Ours> {
        let ports = nics.iter().map(|nic| PortConfig {
            encoding: Encoding::Rewrite,
            queues: vec![0],
            shared_queues: Vec::new(),
            workers: 1,
            rewrite: ask(nic, Wanted::Fixed(Encoding::Rewrite)).rewrite,
            mark_instead: true,
        });
        let config = OffloadConfig {
            ports: ports.collect(),
            creations_per_tick: 1024,
            destroys_per_tick: 1024,
            counted_per_tick: 1024,
            admission: admission::Settings {
                policy: admission::Policy::All,
                insertions_per_second: None,
                ..admission::Settings::default()
            },
            ..OffloadConfig::default()
        };
        Offloader::new(config, world.clone())
    }

    fn tick(&mut self, ms: u64) {
        self.now_ms += ms;
        self.nics.iter().for_each(|nic| nic.advance(self.now_ms * 1_000_000));
        let [a, b] = &mut self.flows;
        let mut flows: [&mut dyn FlowPort; 2] = [a, b];
        self.offloader.tick(self.now_ms, &mut flows);
        for port in &self.world.ports {
            (0..4).for_each(|queue| port.drained.polled(queue, 0, 32));
        }
        self.check();
    }

    fn pass(&mut self, ms: u64) {
        (0..ms).for_each(|_| self.tick(1));
    }

    fn open(&mut self, n: u32) {
        self.world.open(n, binding(n, (n % 3) as u16, 0, n % 7 == 0, n % 5 == 0));
        self.world.conns.borrow_mut().get_mut(&n).unwrap().seen_ms = self.now_ms;
        self.world.set_state(n, State::Wanted);
        self.offloader.request(ConnId::from_raw(n), Offload::Wanted);
    }

    /// Of TCP over IPv4, through the tunnel to backend 0.
    fn open_tunnel(&mut self, n: u32) {
        let binding = binding(3 * n + 1, 0, 0, false, false);
        let binding = service::Binding { forwarding: service::Forwarding::Tunnel, ..binding };
        self.world.open(n, binding);
        self.world.conns.borrow_mut().get_mut(&n).unwrap().seen_ms = self.now_ms;
        self.world.set_state(n, State::Wanted);
        self.offloader.request(ConnId::from_raw(n), Offload::Wanted);
    }

    /// A packet of connection `n`; whether the card sends it on.
    fn packet(&mut self, n: u32, direction: Direction) -> bool {
        self.deliver(n, direction).forward.is_some()
    }

    /// The mark that a client's packet of connection `n` gets.
    fn mark_of(&mut self, n: u32) -> Option<u32> {
        self.deliver(n, Direction::Forward).mark
    }

    fn deliver(&mut self, n: u32, direction: Direction) -> Delivery {
        let key = self.world.conns.borrow()[&n].binding.key(direction).unwrap();
        let ethernet = PacketBuilder::ethernet2([2, 0, 0, 0, 9, 9], STATION.0);
        let ip = match (key.src().ip(), key.dst().ip()) {
            (IpAddr::V4(s), IpAddr::V4(d)) => ethernet.ipv4(s.octets(), d.octets(), 64),
            (IpAddr::V6(s), IpAddr::V6(d)) => ethernet.ipv6(s.octets(), d.octets(), 64),
            _ => panic!("families"),
        };
        let (sport, dport) = (key.src().port(), key.dst().port());
        let mut frame = Vec::new();
        match key.proto() {
            Transport::Tcp => {
                ip.tcp(sport, dport, 1, 1).ack(1).write(&mut frame, b"hello").unwrap();
            }
            Transport::Udp => ip.udp(sport, dport).write(&mut frame, b"hello").unwrap(),
        }
        let mut out = [Delivery::default()];
        let now_ns = self.now_ms * 1_000_000;
        self.nics[direction.index()].receive_burst([frame.as_slice()], now_ns, &mut out);
        let [delivery] = out;
        assert_eq!(delivery.dropped, None);
        if delivery.forward.is_none() {
            // Software sees it.
            self.world.conns.borrow_mut().get_mut(&n).unwrap().seen_ms = self.now_ms;
        }
        delivery
    }

    fn in_cards(&self) -> usize {
        self.nics.iter().map(|nic| nic.stats().rules).sum()
    }

    /// Rules in the cards are the rules believed, and the books are right.
    fn check(&self) {
        let stats = self.offloader.stats();
        for (port, nic) in stats.ports.iter().zip(&self.nics) {
            let (now, done) = (port.now, port.done);
            assert_eq!(done.created - done.destroyed, now.rules as u64, "{port:#?}");
            let parts = now.rules_forward + now.rules_reply + now.doomed + now.adopted;
            assert_eq!(now.rules, parts, "{port:#?}");
            assert_eq!(nic.stats().rules, now.rules, "{port:#?}");
        }
    }
}

#[test]
fn the_probe_prefers_rewrite_where_there_is_a_switch_and_says_why_not() {
    for profile in [ProfileKind::ConnectX, ProfileKind::BlueField3] {
        let card = nic(profile, &[0, 1]);
        let probe = ask(&card, Wanted::Auto);
        assert_eq!(probe.encoding, Encoding::Rewrite, "{:#?}", probe.reasons);
        let rewrite = probe.rewrite.unwrap();
        assert_eq!(rewrite.types, [true; 4]);
        assert_eq!(rewrite.outputs, OUTPUTS);
        assert!(!rewrite.style.legacy && rewrite.style.age && rewrite.style.flags);
        assert_eq!((card.stats().rules, probe.left.len()), (0, 0));
        // One port of the two is not in the switch.
        let rewrite = ask(&nic(profile, &[1]), Wanted::Auto).rewrite.unwrap();
        assert_eq!(rewrite.outputs, [None, Some(1)]);
        let probe = ask(&nic(profile, &[]), Wanted::Auto);
        assert_eq!(probe.encoding, Encoding::Mark);
        assert!(probe.reasons.iter().any(|r| r.contains("no rewrite: ")), "{:#?}", probe.reasons);
    }
    let probe = ask(&nic(ProfileKind::E810, &[]), Wanted::Fixed(Encoding::Rewrite));
    assert_eq!(probe.encoding, Encoding::Off, "{:#?}", probe.reasons);
}

#[test]
fn an_idle_connections_rules_are_gone_within_its_timeout_and_a_busy_ones_stay() {
    for age in [true, false] {
        let mut run = Run::new(ProfileKind::ConnectX);
        if !age {
            // Counters alone must do.
            run.offloader = Run::without_age(&run);
        }
        run.open(1);
        run.open(2);
        run.pass(5);
        assert!(run.packet(1, Direction::Forward) && run.packet(2, Direction::Reply));
        let timeout = u64::from(TIMEOUT_MS);
        for ms in 0..timeout + 400 {
            if ms % 1000 == 0 {
                assert!(run.packet(2, Direction::Reply), "a busy connection stays in hardware");
            }
            run.tick(1);
            let idle = |n: u32| {
                let seen = run.world.conns.borrow()[&n].seen_ms;
                run.now_ms.saturating_sub(seen) >= timeout
            };
            // What the ager would say; it asks again in every round.
            for n in [1, 2] {
                if idle(n) && run.world.state(n) != Some(State::None) {
                    run.offloader.withdraw(ConnId::from_raw(n));
                }
            }
        }
        assert_eq!(
            run.world.state(1),
            Some(State::None),
            "age {age}: {:#?}",
            run.offloader.stats()
        );
        assert_eq!(run.offloader.stats().done().aged, 1);
        assert_eq!(run.in_cards(), 2 * FRAME + 2, "connection 2 has its rules");
        let hops = run.world.used.borrow().clone();
        assert!(hops.contains(&1000), "the hop of a busy connection is kept fresh: {hops:?}");
    }
}

impl Run {
    fn without_age(run: &Run) -> Offloader<Ours> {
        let mut ports = Vec::new();
        for nic in &run.nics {
            let mut card = ask(nic, Wanted::Fixed(Encoding::Rewrite)).rewrite.unwrap();
            card.style.age = false;
            ports.push(PortConfig {
                encoding: Encoding::Rewrite,
                queues: vec![0],
                shared_queues: Vec::new(),
                workers: 1,
                rewrite: Some(card),
                mark_instead: true,
            });
        }
        let config = OffloadConfig { ports, ..OffloadConfig::default() };
        Offloader::new(config, run.world.clone())
    }
}

/// Rules that are not ours: in the same root, and in a group of their own.
fn foreign(flows: &mut NicFlows, group: u32) -> RuleHandle {
    let attributes = Attributes { group, priority: 7, ingress: true, ..Attributes::default() };
    let pattern = vec![Item::Eth(Match::Present), Item::Ipv4(Match::Present)];
    flows.create(&Rule { attributes, pattern, actions: vec![Action::Queue(0)] }).unwrap()
}

#[test]
fn a_crash_in_the_middle_leaves_nothing_of_ours_and_touches_nothing_of_others() {
    let mut run = Run::new(ProfileKind::BlueField3);
    // Before the queues are set up, as a neighbour would.
    let theirs = foreign(&mut run.flows[0], 7);
    run.now_ms += 1;
    (0..500).for_each(|n| run.open(n));
    let [a, b] = &mut run.flows;
    for _ in 0..20 {
        run.now_ms += 1;
        run.offloader.tick(run.now_ms, &mut [a, b]);
    }
    (0..40).for_each(|n| run.offloader.withdraw(ConnId::from_raw(n)));
    assert!(run.in_cards() > 800, "{}", run.in_cards());
    // The process ends; its successor finds cards with rules.
    run.offloader = Run::offloader(&run.world, &run.nics);
    run.now_ms += 1;
    let [a, b] = &mut run.flows;
    run.offloader.tick(run.now_ms, &mut [a, b]);
    let stats = run.offloader.stats();
    assert_eq!(stats.now().rules, 2 * FRAME, "{stats:#?}");
    assert!(stats.done().reconciled > 800, "{stats:#?}");
    assert_eq!(run.in_cards(), 2 * FRAME + 1, "ours and the one of others");
    assert!(run.flows[0].query(&theirs).is_err_and(|e| e.errno != 2), "theirs is still there");
    // And it works.
    (0..10).for_each(|n| run.offloader.request(ConnId::from_raw(n), Offload::Wanted));
    let [a, b] = &mut run.flows;
    for _ in 0..5 {
        run.now_ms += 1;
        run.offloader.tick(run.now_ms, &mut [a, b]);
    }
    assert!(run.packet(3, Direction::Forward));
}

#[test]
fn rules_follow_a_next_hop_that_moves_and_go_with_one_that_is_forgotten() {
    let mut run = Run::new(ProfileKind::ConnectX);
    run.open(1);
    run.open(2);
    run.pass(5);
    let moves = |run: &Run, hop: u32, last: Option<u8>| {
        run.world.macs.borrow_mut().insert(hop, last);
        run.world.way_changes.set(run.world.way_changes.get() + 1);
    };
    // Something changed, but not the address: it has become stale.
    moves(&run, 1, Some(1));
    run.pass(2);
    assert!(run.packet(1, Direction::Forward) && run.packet(2, Direction::Forward));
    // The backend of connection 1 has another address.
    moves(&run, 1, Some(9));
    run.pass(2);
    assert!(!run.packet(1, Direction::Forward), "served in software, by the new address");
    assert!(run.packet(2, Direction::Forward), "another backend's");
    run.pass(50);
    assert_eq!(run.world.state(1), Some(State::None), "it may ask again");
    run.world.set_state(1, State::Wanted);
    run.offloader.request(ConnId::from_raw(1), Offload::Wanted);
    run.pass(5);
    assert!(run.packet(1, Direction::Forward));
    // The clients' hop is forgotten.
    moves(&run, 1000, None);
    run.pass(50);
    assert!(!run.packet(2, Direction::Reply));
    assert_eq!(run.offloader.stats().done().rerouted, 3);
    assert_eq!(run.in_cards(), 2 * FRAME);
}

#[test]
fn a_connection_whose_rules_are_lost_does_not_stay_installed() {
    // By a reset, with everything; or silently.
    for reset in [true, false] {
        let mut run = Run::new(ProfileKind::ConnectX);
        run.pass(2);
        if !reset {
            run.nics.iter().for_each(|nic| {
                nic.order_fault(Fault::SilentLoss { per_mille: 1000, seed: 3 });
            });
        }
        run.open(1);
        let [a, b] = &mut run.flows;
        for _ in 0..5 {
            run.now_ms += 1;
            run.offloader.tick(run.now_ms, &mut [&mut *a, &mut *b]);
        }
        if reset {
            assert!(run.packet(1, Direction::Forward));
            run.nics.iter().for_each(Nic::reset);
        }
        assert_eq!(run.world.state(1), Some(State::Installed));
        for _ in 0..2000 {
            run.now_ms += 1;
            run.nics.iter().for_each(|nic| nic.advance(run.now_ms * 1_000_000));
            let [a, b] = &mut run.flows;
            run.offloader.tick(run.now_ms, &mut [a, b]);
            (0..4).for_each(|q| run.world.ports.iter().for_each(|p| p.drained.polled(q, 0, 32)));
            if run.now_ms % 50 == 0 {
                assert!(!run.packet(1, Direction::Forward));
            }
        }
        assert_eq!(run.world.state(1), Some(State::None), "{:#?}", run.offloader.stats());
        assert_eq!(run.offloader.stats().done().astray, 1);
        run.nics.iter().for_each(Nic::clear_faults);
        run.world.set_state(1, State::Wanted);
        run.offloader.request(ConnId::from_raw(1), Offload::Wanted);
        run.pass(2000);
        assert!(run.packet(1, Direction::Forward), "reset {reset}: in hardware again");
    }
}

/// `n` connections come and go, a few hundred at a time; rules in the cards are
/// the rules believed at every tick, and none is left in the end.
fn churn(n: u32) {
    let mut run = Run::new(ProfileKind::ConnectX);
    // Long after the time at which idle connections were last seen.
    run.now_ms = 100_000;
    let mut oldest = 0;
    for next in 0..n {
        run.open(next);
        if next % 100 == 0 {
            run.tick(1);
        }
        while next - oldest > 400 {
            let raw = ConnId::from_raw(oldest);
            match oldest % 3 {
                0 => run.offloader.request(raw, Offload::Closing),
                1 => {
                    run.world.conns.borrow_mut().get_mut(&oldest).unwrap().seen_ms = 0;
                    run.offloader.withdraw(raw);
                }
                _ => {
                    run.offloader.request(raw, Offload::Closing);
                    run.offloader.request(raw, Offload::Reopened);
                }
            }
            oldest += 1;
        }
        if next % 100 == 0 {
            let gone: Vec<u32> =
                run.world.conns.borrow().range(..oldest).map(|(n, _)| *n).collect();
            for n in gone {
                run.world.remove(n);
            }
        }
    }
    let open: Vec<u32> = run.world.conns.borrow().keys().copied().collect();
    open.into_iter().for_each(|n| run.offloader.request(ConnId::from_raw(n), Offload::Closing));
    run.pass(300);
    let stats = run.offloader.stats();
    assert_eq!(stats.orphaned, 0);
    assert!(stats.done().created >= u64::from(n), "{stats:#?}");
    assert_eq!((stats.now().rules, run.in_cards()), (2 * FRAME, 2 * FRAME), "{stats:#?}");
    let [a, b] = &mut run.flows;
    assert_eq!(run.offloader.shutdown(&mut [a, b]), 0);
    assert_eq!(run.in_cards(), 0);
    println!("{n} connections, {} rules created, none left", stats.done().created);
}

#[test]
fn no_rule_leaks() {
    churn(20_000);
}

/// `HNLB_SOAK=1000000 cargo test --release -p offload --test rewrite soak`
#[test]
fn soak() {
    let n = std::env::var("HNLB_SOAK").ok().and_then(|n| n.parse().ok());
    churn(n.unwrap_or(2_000));
}

/// What can't be rewritten is marked, by rules that go through the same queue.
#[test]
fn connections_that_cannot_be_rewritten_get_a_mark() {
    let mut run = Run::new(ProfileKind::ConnectX);
    run.world.narrow.set(true);
    // Backends 0 and 2 have links like the clients', backend 1 a narrower one.
    for n in [1, 2, 3] {
        run.open(n);
    }
    run.pass(5);
    assert!(run.offloader.stats().ports[0].queued);
    for n in [2, 3] {
        assert!(run.packet(n, Direction::Forward) && run.packet(n, Direction::Reply));
    }
    assert!(!run.packet(1, Direction::Forward) && run.packet(1, Direction::Reply));
    let conn = ConnId::from_raw(1);
    let explained = run.offloader.explain(conn).unwrap();
    assert_eq!((explained.forward, explained.reply), (Place::Marked, Place::Hardware));
    assert_eq!(explained.not_rewritten, [Some(NotRewritten::Mtu), None]);
    let stats = run.offloader.stats();
    assert_eq!((stats.done().marked_instead, stats.done().refused.mtu), (1, 1));
    assert_eq!((stats.now().marks_in_use, stats.now().rules), (1, 2 * FRAME + 6));
    // The mark names the connection, and means nothing once its rule is gone.
    let mark = run.mark_of(1).unwrap();
    let marked = run.world.ports[0].marks.get(mark).unwrap();
    assert_eq!((marked.conn, marked.direction), (conn, Direction::Forward));
    run.offloader.request(conn, Offload::Closing);
    run.pass(300);
    assert_eq!(run.mark_of(1), None);
    assert_eq!(run.world.ports[0].marks.get(mark), None);
    assert_eq!(run.offloader.stats().now().rules, 2 * FRAME + 4);
}

/// The traffic class of a packet goes to its outer header: one that has one does
/// not match a tunnel's rule, and its connection gets a mark.
#[test]
fn a_tunnels_packets_that_match_no_rule_get_a_mark() {
    let mut run = Run::new(ProfileKind::ConnectX);
    let (src, dst) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
    let encap = wire::Encap::new(wire::Tunnel::Gre, src, dst, 64).unwrap();
    run.world.tunnels.borrow_mut().insert(0, encap);
    for mtu in [1500, 1600] {
        run.world.wide.set(mtu);
        let n = u32::from(mtu);
        run.open_tunnel(n);
        run.pass(5);
        let explained = run.offloader.explain(ConnId::from_raw(n)).unwrap();
        let place = if mtu == 1500 { Place::Marked } else { Place::Hardware };
        assert_eq!((explained.forward, explained.reply), (place, Place::Software));
    }
    assert!(run.packet(1600, Direction::Forward));
    for ms in 0..3000 {
        if ms % 100 == 0 {
            // Software sees packets of a traffic class.
            run.world.conns.borrow_mut().get_mut(&1600).unwrap().seen_ms = run.now_ms;
        }
        run.tick(1);
        if run.world.state(1600) == Some(State::None) {
            run.world.set_state(1600, State::Wanted);
            run.offloader.request(ConnId::from_raw(1600), Offload::Wanted);
        }
    }
    let explained = run.offloader.explain(ConnId::from_raw(1600)).unwrap();
    assert_eq!(explained.forward, Place::Marked);
    assert_eq!(explained.not_rewritten[0], Some(NotRewritten::Unmatched));
    assert_eq!(run.offloader.stats().done().astray, 1, "and stays so");
    // Another connection with the same id starts anew.
    run.offloader.request(ConnId::from_raw(1600), Offload::Closing);
    run.pass(200);
    assert!(run.world.remove(1600));
    run.open_tunnel(1600);
    run.pass(5);
    let explained = run.offloader.explain(ConnId::from_raw(1600)).unwrap();
    assert_eq!(explained.forward, Place::Hardware);
    // And when the tunnel changes, the rules go.
    run.world.tunnels.borrow_mut().clear();
    run.pass(1100);
    assert_eq!(run.offloader.stats().done().rerouted, 1);
}

/// The second port's card can't rewrite: what goes out there is marked.
#[test]
fn rewrite_is_each_ports_own_affair() {
    let world = World::ours(16, 4);
    let nics = [nic(ProfileKind::ConnectX, &[0]), nic(ProfileKind::X550, &[])];
    let probes = [0, 1].map(|at: usize| {
        let outputs = [(at == 0).then_some(0), None];
        let card = Card { queues: 4, mark_arrives: None, outputs: &outputs };
        probe_card(&mut nics[at].flows(), &card, Wanted::Fixed(Encoding::Rewrite))
    });
    let encodings = [probes[0].encoding, probes[1].encoding];
    assert_eq!(encodings, [Encoding::Rewrite, Encoding::Off]);
    assert!(probes[0].mark_instead && !probes[1].mark_instead);
    let why = "no rewrite: the card can send packets out of no port";
    assert!(probes[1].reasons.iter().any(|line| line == why), "{:#?}", probes[1].reasons);
    let ports = probes.map(|probe| PortConfig {
        encoding: probe.encoding,
        workers: 1,
        rewrite: probe.rewrite,
        mark_instead: probe.mark_instead,
        ..PortConfig::default()
    });
    let config = OffloadConfig { ports: ports.into(), ..OffloadConfig::default() };
    let mut run = Run::new(ProfileKind::ConnectX);
    run.offloader = Offloader::new(config, world.clone());
    run.flows = [nics[0].flows(), nics[1].flows()];
    (run.world, run.nics) = (world, nics);
    run.open(1);
    run.pass(5);
    let explained = run.offloader.explain(ConnId::from_raw(1)).unwrap();
    assert_eq!((explained.forward, explained.reply), (Place::Marked, Place::Software));
    assert_eq!(explained.not_rewritten[0], Some(NotRewritten::NoOutput));
    assert!(run.mark_of(1).is_some());
}
