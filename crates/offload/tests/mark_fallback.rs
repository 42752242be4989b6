//! What can't be rewritten gets a mark on the same port.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;

use common::rewriting::{FRAME, Run, nic};
use common::world::{State, World};
use conntrack::ConnId;
use flow::{CardProfile, Direction, Encoding, EncodingChoice};
use offload::{NotRewritten, OffloadConfig, Offloader, Place, PortConfig, ProbeInput, probe_card};
use state::Offload;

/// What can't be rewritten is marked, by rules that go through the same queue.
#[test]
fn connections_that_cannot_be_rewritten_get_a_mark() {
    let mut run = Run::new(CardProfile::ConnectX);
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
    // Workers see what is marked, and that is no sign of a lost rule.
    for _ in 0..10 {
        run.pass(100);
        assert!(!run.packet(1, Direction::Forward));
    }
    assert_eq!(run.offloader.stats().done().astray, 0);
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
    let mut run = Run::new(CardProfile::ConnectX);
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
    let nics = [nic(CardProfile::ConnectX, &[0]), nic(CardProfile::X550, &[])];
    let probes = [0, 1].map(|at: usize| {
        let outputs = [(at == 0).then_some(0), None];
        let card = ProbeInput { queues: 4, mark_arrives: None, outputs: &outputs };
        probe_card(&mut nics[at].flows(), &card, EncodingChoice::Fixed(Encoding::Rewrite))
    });
    let encodings = [probes[0].encoding, probes[1].encoding];
    assert_eq!(encodings, [Encoding::Rewrite, Encoding::Off]);
    assert!(probes[0].mark_instead && !probes[1].mark_instead);
    let why = "no rewrite: the card cannot send packets out of any port";
    assert!(probes[1].reasons.iter().any(|line| line == why), "{:#?}", probes[1].reasons);
    let ports = probes.map(|probe| PortConfig {
        encoding: probe.encoding,
        workers: 1,
        rewrite: probe.rewrite,
        mark_instead: probe.mark_instead,
        ..PortConfig::default()
    });
    let config = OffloadConfig { ports: ports.into(), ..OffloadConfig::default() };
    let mut run = Run::new(CardProfile::ConnectX);
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
