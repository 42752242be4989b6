//! A process that ends in the middle of anything leaves rules of stateless
//! services in the card. Its successor, with another configuration, destroys
//! them before it makes its own, and meanwhile no client reaches a backend that
//! is neither that of the old rules nor that of the new ones.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unreachable_pub)]

use std::net::{Ipv4Addr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use control::{Control, Drained};
use dpdk::flow::{
    Action, Attributes, FlowCall, FlowError, FlowLayer, FlowPort, Item, Match, Rule, RuleHandle,
};
use flow::CardProfile;
use nic::{Disposition, Fault, Nic, NicConfig, NicFlows};
use offload::StatelessRules;
use setup::{PortFacts, Seed};
use state::Shared;
use testkit::ConfigText;
use testkit::frames::{self, Link, Shape, Sum};
use wire::{Mac, Transport};

const OWN: Mac = Mac([2, 0, 0, 0, 0, 1]);
const VIPS: [&str; 2] = ["10.71.0.100", "10.71.0.101"];
const CLIENTS: u32 = 8;

/// One process: two services in this order, each with its backends.
fn process(services: [(&str, &[u8]); 2]) -> (Arc<Shared>, Control) {
    let mut text = ConfigText::new()
        .port("p0", "")
        .interface("p0", &["10.71.0.1/24"], "")
        .route("0.0.0.0/0", "10.71.0.254")
        .table("[conntrack]", "connections = 1024");
    for (vip, hosts) in services {
        let more = "mode = \"dsr\"\nstateless = true";
        text = text.service(vip, vip, Some(53), Transport::Udp, more);
        for host in hosts {
            text = text.backend(format!("10.71.0.{host}"), None, "");
        }
    }
    let config = text.parse();
    let facts = [PortFacts { mac: OWN, queues: 1, ring: 64 }];
    let (shared, control) = setup::start(&config, &facts, false, Seed([3; 32])).unwrap();
    for host in services.iter().flat_map(|(_, hosts)| *hosts) {
        learn(&shared, *host, *host);
    }
    (Arc::new(shared), control)
}

/// The backend `host` has an Ethernet address that ends so.
fn learn(shared: &Shared, host: u8, last: u8) {
    let hop = shared.hop_to(Ipv4Addr::new(10, 71, 0, host).into(), 0).unwrap();
    let found = shared.neighbours().get(hop).unwrap();
    shared.neighbours().learn(found.interface, found.addr, Mac([2, 0, 0, 0, 1, last]), 1);
}

/// A card whose rules are looked at whenever one has come or gone, and whose
/// process ends before an operation, or behind it.
struct Watched<'a> {
    flows: NicFlows,
    look: &'a mut dyn FnMut(),
    /// Steps that are left: two for each operation.
    steps: usize,
}

struct Crash;

impl Watched<'_> {
    fn step(&mut self) {
        if self.steps == 0 {
            resume_unwind(Box::new(Crash));
        }
        self.steps -= 1;
    }
}

impl FlowLayer for Watched<'_> {
    fn inner(&mut self) -> &mut dyn FlowPort {
        &mut self.flows
    }

    fn before(&mut self, call: FlowCall) -> bool {
        if matches!(call, FlowCall::Create | FlowCall::Destroy) {
            self.step();
        }
        true
    }

    fn after(&mut self, call: FlowCall) {
        if matches!(call, FlowCall::Create | FlowCall::Destroy) {
            (self.look)();
            self.step();
        }
    }
}

/// Where the NIC sends the client's packet; `None`: to software.
fn next(nic: &Nic, vip: &str, client: u32, ttl: u8) -> Option<Mac> {
    let src = SocketAddr::new(Ipv4Addr::from_bits(0xc633_0000 | client).into(), 4000);
    let dst = SocketAddr::new(vip.parse().unwrap(), 53);
    let bytes = frames::transport(Transport::Udp, src, dst, 0, b"query", Sum::Right);
    let link = Link { src: [2, 0, 0, 0, 9, 9], dst: OWN.0, vlan: None };
    let shape = Shape { ttl, ..Shape::default() };
    let mut frame = frames::ip(link, [src.ip(), dst.ip()], 17, &bytes, &shape, None);
    let mut out = [Disposition::default()];
    nic.receive_burst([frame.as_slice()], 0, &mut out);
    assert_eq!(out[0].dropped, None);
    out[0].forward?;
    out[0].edits.apply(&mut frame);
    wire::ethernet::macs(&frame).map(|(to, _)| to)
}

type Ways = Vec<Option<Mac>>;

fn all(nic: &Nic) -> Ways {
    let clients = |vip| (0..CLIENTS).map(move |client| next(nic, vip, client, 64));
    VIPS.iter().flat_map(|vip| clients(vip)).collect()
}

/// What software does: by the classes.
fn wanted(shared: &Shared, mac_of: impl Fn(u8) -> u8) -> Ways {
    let snapshot = shared.snapshot();
    let of = |vip: &&str, client: u32| {
        let mut services = snapshot.services.services().iter();
        let classes = services.find(|service| service.name() == *vip)?.classes()?;
        let backend = classes.backend(Ipv4Addr::from_bits(0xc633_0000 | client).into())?;
        match snapshot.services.backend(backend)?.address {
            std::net::IpAddr::V4(v4) => Some(Mac([2, 0, 0, 0, 1, mac_of(v4.octets()[3])])),
            std::net::IpAddr::V6(_) => None,
        }
    };
    VIPS.iter().flat_map(|vip| (0..CLIENTS).map(move |client| of(vip, client))).collect()
}

/// A life of the first process, from start to end.
fn live(flows: &mut dyn FlowPort, before: &mut dyn FnMut(&Shared)) {
    let (shared, mut control) = process([(VIPS[0], &[11, 12, 13]), (VIPS[1], &[21, 22])]);
    let mut rules = StatelessRules::new(Arc::clone(&shared));
    let mut steer = |vip: &str, backend: &str, drain| {
        let one = Drained { service: vip.to_owned(), backend: backend.parse().unwrap() };
        control.steer(&shared, &one, drain).unwrap();
    };
    let mut tick = |now| {
        before(&shared);
        rules.tick(now, &mut [&mut *flows]);
    };
    tick(1);
    steer(VIPS[0], "10.71.0.12", true);
    tick(2);
    steer(VIPS[1], "10.71.0.21", true);
    learn(&shared, 13, 33);
    tick(3);
    steer(VIPS[0], "10.71.0.12", false);
    tick(4);
    before(&shared);
    rules.shutdown(&mut [flows]);
}

/// What the second process serves: the services in another order, so that a
/// group means another one, and other backends.
fn second() -> Arc<Shared> {
    process([(VIPS[1], &[22, 23]), (VIPS[0], &[11, 14, 13])]).0
}

fn card() -> (Nic, RuleHandle) {
    let config = NicConfig { switch: vec![0], ..NicConfig::new(CardProfile::ConnectX, 1) };
    let nic = Nic::new(&config).unwrap();
    let theirs = nic.flows().create(&Rule {
        attributes: Attributes { group: 7, ingress: true, ..Attributes::default() },
        pattern: vec![Item::Eth(Match::Present), Item::Ipv4(Match::Present)],
        actions: vec![Action::Queue(0)],
    });
    (nic, theirs.unwrap())
}

/// Runs `process` until its card has done `steps`; whether it came to its end,
/// and what the card did at each.
fn until(nic: &Nic, steps: usize, process: &mut dyn FnMut(&mut dyn FlowPort)) -> (bool, Vec<Ways>) {
    let mut seen = Vec::new();
    let mut look = || {
        assert_eq!(next(nic, VIPS[0], 1, 1), None, "packets that expire are software's");
        seen.push(all(nic));
    };
    let mut card = Watched { flows: nic.flows(), look: &mut look, steps };
    let ended = catch_unwind(AssertUnwindSafe(|| process(&mut card))).is_ok();
    (ended, seen)
}

fn check_ways(seen: &[Ways], old: &Ways, new: &Ways) {
    for ways in seen {
        for (at, to) in ways.iter().enumerate() {
            let known = to.is_none() || *to == old[at] || *to == new[at];
            assert!(known, "client {at}: {to:?}, which is neither {:?} nor {:?}", old[at], new[at]);
        }
    }
}

/// The successor does its work on `nic`, and leaves exactly its own rules.
fn succeed(nic: &Nic, theirs: &RuleHandle) -> usize {
    let (shared, old) = (second(), all(nic));
    let new = wanted(&shared, |host| host);
    let mut rules = StatelessRules::new(Arc::clone(&shared));
    let (ended, seen) = until(nic, usize::MAX, &mut |flows| rules.tick(1, &mut [flows]));
    assert!(ended);
    check_ways(&seen, &old, &new);
    assert_eq!(all(nic), new);
    assert_eq!(nic.stats().rules, rules.stats().rules + 1, "its own, and that of others");
    assert!(nic.flows().query(theirs).is_err_and(|error| error.errno != FlowError::NOT_FOUND));
    rules.stats().reconciled
}

#[test]
fn after_a_crash_at_any_step_the_successor_has_exactly_its_own_rules() {
    let (mut found, mut crashes) = (0, 0);
    for steps in 0.. {
        let (nic, theirs) = card();
        let believed = std::cell::RefCell::new(vec![all(&nic)]);
        let mut process = |flows: &mut dyn FlowPort| {
            live(flows, &mut |shared| {
                let mac = |host| if host == 13 { 33 } else { host };
                believed.borrow_mut().extend([wanted(shared, |h| h), wanted(shared, mac)]);
            });
        };
        let (ended, seen) = until(&nic, steps, &mut process);
        // What the first process did was what its classes said at some time.
        let believed = believed.borrow();
        for (at, to) in seen.iter().flat_map(|ways| ways.iter().enumerate()) {
            assert!(to.is_none() || believed.iter().any(|ways| ways[at] == *to), "{at}: {to:?}");
        }
        if ended {
            assert_eq!(nic.stats().rules, 1, "a process that ends takes all back");
            break;
        }
        crashes += 1;
        found = found.max(succeed(&nic, &theirs));
    }
    assert!(crashes > 100 && found > 30, "{crashes} crashes, {found} rules at most");
}

#[test]
fn a_crash_while_a_crash_is_cleared_up_is_cleared_up() {
    let mut crashes = 0;
    for steps in 0.. {
        let (nic, theirs) = card();
        // In the middle of its second change, with most rules.
        let (ended, _) = until(&nic, 101, &mut |flows| live(flows, &mut |_| ()));
        assert!(!ended);
        let (shared, old) = (second(), all(&nic));
        let new = wanted(&shared, |host| host);
        let mut rules = StatelessRules::new(shared);
        let (ended, seen) = until(&nic, steps, &mut |flows| rules.tick(1, &mut [flows]));
        check_ways(&seen, &old, &new);
        succeed(&nic, &theirs);
        if ended {
            break;
        }
        crashes += 1;
    }
    assert!(crashes > 100, "{crashes} crashes");
}

#[test]
fn nothing_is_made_while_a_predecessors_rule_stays() {
    let (nic, _) = card();
    let (ended, _) = until(&nic, 101, &mut |flows| live(flows, &mut |_| ()));
    assert!(!ended);
    let (shared, old) = (second(), all(&nic));
    let new = wanted(&shared, |host| host);
    let mut rules = StatelessRules::new(Arc::clone(&shared));
    // Some of them, so that some stay at first.
    nic.order_fault(Fault::RefuseDestroys { count: 3 });
    let (_, seen) = until(&nic, usize::MAX, &mut |flows| rules.tick(1, &mut [flows]));
    check_ways(&seen, &old, &new);
    let believed = rules.stats().rules;
    assert_eq!(nic.stats().rules, believed + 1);
    assert!(
        rules.stats().ports(flow::ServiceId(0)).iter().all(|(_, state)| state.is_err()),
        "and it says so"
    );
    assert!(all(&nic).iter().zip(&old).all(|(to, old)| to.is_none() || to == old));
    rules.tick(500, &mut [&mut nic.flows()]);
    assert_eq!(rules.stats().rules, believed, "the card is left alone for a while");
    nic.clear_faults();
    let (_, seen) = until(&nic, usize::MAX, &mut |flows| rules.tick(1001, &mut [flows]));
    check_ways(&seen, &old, &new);
    assert_eq!((all(&nic), nic.stats().rules), (new, rules.stats().rules + 1));
    assert!(rules.stats().ports(flow::ServiceId(0)).iter().all(|(_, state)| state.is_ok()));
    assert_eq!(rules.shutdown(&mut [&mut nic.flows()]), 0);
    assert_eq!(nic.stats().rules, 1);
}
