//! A configuration that is brought about by a change is the same as one that was
//! there at the start.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]
mod common;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use common::{Balancer, FILE, PORTS, Random, random};
use config::Config;
use control::{Plan, Refusal, Step, diff};
use flow::BackendId;
use l3::NeighbourState;
use proptest::prelude::*;
use state::{Shared, Snapshot};

/// All that a snapshot says, with names in the place of ids.
fn dump(shared: &Shared) -> String {
    let snapshot = shared.snapshot();
    let Snapshot { services, interfaces, routes, tunnels, admit, sample, answers, .. } = &*snapshot;
    let waits = snapshot.fragment_timeout_ms;
    let mut text = format!("{admit:?} {sample} {waits} {answers:?}\n");
    for service in services.services() {
        let own = (service.name(), service.vip(), service.port(), service.scheduler());
        let timeouts = shared.table().timeouts();
        let settings = (service.on_remove(), service.refuse(), *timeouts.of(service.id()));
        text += &format!("{own:?} {:?} {settings:?}\n", service.forwarding());
        if let Some(pool) = service.pool() {
            text += &format!("  pool {:?}\n", pool.addresses());
        }
        for backend in service.backends() {
            let drained = service.is_drained(backend.id);
            let tunnel = tunnels.get(backend.id);
            text += &format!("  {} {:?} ", backend.address, backend.port);
            text += &format!("{} {drained} {tunnel:?}\n", backend.weight);
        }
        let address = |id: BackendId| services.backend(id).unwrap().address;
        let entries = service.classes().into_iter().flat_map(|classes| classes.entries());
        for entry in entries {
            text += &format!("  {} {} {}\n", entry.value, entry.bits, address(entry.backend));
        }
        assert_eq!(services.service(service.id()).map(|own| own.name()), Some(service.name()));
    }
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    for (id, interface) in interfaces.iter() {
        assert_eq!(interfaces.at(interface.port, interface.vlan).map(|(id, _)| id), Some(id));
        // Ports have their numbers from the start on.
        let own = (interface.mac, interface.mtu, &interface.addresses);
        all.insert(interface.name.clone(), format!("{own:?}"));
    }
    text += &format!("{all:?}\n");
    let name = |id| interfaces.get(id).map(|interface| interface.name.clone());
    for probe in ["10.100.0.1", "10.101.0.1", "10.71.0.9", "10.72.0.9", "10.73.0.9", "9.9.9.9"] {
        let next = routes.next(probe.parse().unwrap());
        text += &format!("{probe} {:?}\n", next.map(|(id, via)| (name(id), via)));
    }
    let neighbours = shared.neighbours().iter();
    let fixed = neighbours.filter(|own| own.state == NeighbourState::Static);
    let fixed: BTreeMap<IpAddr, _> =
        fixed.map(|own| (own.addr, (name(own.interface), own.mac))).collect();
    text + &format!("{fixed:?}\n")
}

fn plan(random: &Random) -> Plan {
    Plan::of(&Config::parse(&random.text(), FILE).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_steps_lead_from_one_plan_to_the_other(old in random(), new in random()) {
        let (old, mut new) = (plan(&old), plan(&new));
        new.fixed = old.fixed.clone();
        let steps = diff(&old, &new);
        prop_assert_eq!(&steps.iter().fold(old.clone(), Plan::after), &new, "{:#?}", steps);
        prop_assert_eq!(diff(&new, &new), vec![]);
        prop_assert_eq!(steps.is_empty(), old == new);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn changes_end_where_a_start_begins(all in prop::collection::vec(random(), 2..6)) {
        let mut balancer = Balancer::new(&all[0].text());
        for one in &all[1..] {
            balancer.reload(&one.text()).unwrap();
        }
        let last = all.last().unwrap();
        // The ports of the process are those of its start.
        let mut text = last.text();
        let first = |text: &str| text.find("[conntrack]").unwrap();
        text.replace_range(..first(&text), &all[0].text()[..first(&all[0].text())]);
        let started = Balancer::new(&text);
        prop_assert_eq!(dump(&balancer.shared), dump(&started.shared));
        balancer.settle();
        prop_assert_eq!(dump(&balancer.shared), dump(&started.shared));
        let snapshot = balancer.shared.snapshot();
        prop_assert!(snapshot.services.departed().is_empty());
        prop_assert!(snapshot.services.departed_services().is_empty());
        prop_assert_eq!(balancer.control.old_snapshots(), 0);
    }
}

const WEB: &str = "[[interface]]\nport = \"p0\"\naddresses = [\"10.71.0.254/24\"]\n\
    [[service]]\nname = \"web\"\nvip = \"10.71.0.100\"\nport = 80\nprotocol = \"tcp\"\n";

fn web(backends: &str) -> String {
    let mut text = format!("{PORTS}{WEB}");
    for word in backends.split_whitespace() {
        let (host, weight) = word.split_once(':').unwrap_or((word, "1"));
        text += &format!("[[service.backend]]\naddress = \"10.71.0.{host}\"\nweight = {weight}\n");
    }
    text
}

fn steps(old: &str, new: &str) -> Vec<String> {
    let mut balancer = Balancer::new(old);
    balancer.reload(new).unwrap().steps
}

#[test]
fn steps_say_what_changes() {
    assert_eq!(steps(&web("1 2"), &web("1 2")), [""; 0]);
    assert_eq!(
        steps(&web("1 2"), &web("3:4 2:5")),
        [
            "service web: backend 10.71.0.1:80 removed",
            "service web: backend 10.71.0.2 gets weight 5",
            "service web: backend 10.71.0.3 added, weight 4",
            "service web: backends in another order",
        ]
    );
    let other = web("1").replace("port = 80", "port = 81");
    assert_eq!(
        steps(&web("1"), &other),
        ["service web: removed", "service web: added at 10.71.0.100, port 81/tcp, with 1 backend",]
    );
}

/// Nothing of the shared state is touched.
fn assert_refused(balancer: &mut Balancer, text: &str) -> Refusal {
    let (before, plan) = (balancer.shared.snapshot(), balancer.control.plan().clone());
    let said = dump(&balancer.shared);
    let refusal = balancer.reload(text).unwrap_err();
    assert!(Arc::ptr_eq(&before, &balancer.shared.snapshot()), "{refusal}");
    assert_eq!((&plan, said), (balancer.control.plan(), dump(&balancer.shared)), "{refusal}");
    refusal
}

#[test]
fn what_is_refused_changes_nothing_and_says_where() {
    let mut balancer = Balancer::new(&web("1 2"));
    let refusal = assert_refused(&mut balancer, &web("1 1"));
    let Refusal::Configuration(problems) = &refusal else { panic!("{refusal:?}") };
    assert_eq!((problems[0].file.as_str(), problems[0].line), (FILE, 22), "{refusal}");
    assert!(problems[0].key.starts_with("service.web.backend"), "{refusal}");

    for (from, to, key, line) in [
        ("net_null1", "net_null7", "port.p1.device", 6),
        ("connections = 1024", "connections = 2048", "conntrack.connections", 8),
        ("[conntrack]", "[workers]\ncount = 2\n[conntrack]", "workers.count", 8),
        ("[[port]]\nname = \"p1\"", "[[port]]\nname = \"p2\"", "port.p2", 4),
        ("[conntrack]", "[offload]\nencoding = \"queue\"\n[conntrack]", "offload.encoding", 8),
    ] {
        let text = web("1 3").replacen(from, to, 1);
        assert_ne!(text, web("1 3"), "{from}");
        let refusal = assert_refused(&mut balancer, &text);
        let Refusal::NeedsRestart(problems) = &refusal else { panic!("{refusal:?}") };
        let found = problems.iter().find(|problem| problem.key == key);
        assert_eq!(found.map(|problem| problem.line), Some(line), "{refusal}");
    }
    // A port less is named, too.
    let without = web("1").replacen("[[port]]\nname = \"p1\"\ndevice = \"net_null1\"\n", "", 1);
    assert!(assert_refused(&mut balancer, &without).to_string().contains("\"p1\""));
    balancer.reload(&web("1 3")).unwrap();
}

#[test]
fn a_dry_run_changes_nothing() {
    let mut balancer = Balancer::new(&web("1 2"));
    let before = balancer.shared.snapshot();
    let name = std::path::Path::new(FILE);
    let done = balancer.control.reload(&balancer.shared, (name, &web("1 3")), true).unwrap();
    assert_eq!((done.steps.len(), done.dry_run), (2, true));
    assert!(Arc::ptr_eq(&before, &balancer.shared.snapshot()));
    assert_eq!(balancer.reload(&web("1 3")).unwrap().steps, done.steps);
}

/// A dry run names the keys for which a reload is refused, beside all steps.
#[test]
fn a_dry_run_names_what_needs_a_restart() {
    let mut balancer = Balancer::new(&web("1 2"));
    let text = web("1 3").replacen("connections = 1024", "connections = 2048", 1);
    let name = std::path::Path::new(FILE);
    let done = balancer.control.reload(&balancer.shared, (name, &text), true).unwrap();
    let keys: Vec<(&str, usize)> =
        done.restart.iter().map(|problem| (problem.key.as_str(), problem.line)).collect();
    assert_eq!((keys, done.steps.len()), (vec![("conntrack.connections", 8)], 2));
    let refusal = assert_refused(&mut balancer, &text);
    assert_eq!(refusal, Refusal::NeedsRestart(done.restart));
}

fn id(balancer: &Balancer, host: u8) -> Option<BackendId> {
    let address: IpAddr = format!("10.71.0.{host}").parse().unwrap();
    let snapshot = balancer.shared.snapshot();
    let found = snapshot.services.backends().iter().find(|own| own.address == address);
    found.map(|own| own.id)
}

#[test]
fn a_drain_outlives_a_reload_and_ends_with_its_backend_or_weight() {
    let mut balancer = Balancer::new(&web("1 2 3"));
    balancer.drain("web", "10.71.0.2", true);
    let weight = |balancer: &Balancer| {
        let id = id(balancer, 2)?;
        balancer.shared.snapshot().services.backend(id).map(|own| own.weight)
    };
    balancer.reload(&web("4 3 2:7")).unwrap();
    assert_eq!(weight(&balancer), Some(0));
    assert_eq!(balancer.reload(&web("3 2:8 4")).unwrap().steps.len(), 2);
    assert_eq!(weight(&balancer), Some(0));
    balancer.drain("web", "10.71.0.2", false);
    assert_eq!(weight(&balancer), Some(8));
    balancer.drain("web", "10.71.0.2", true);
    balancer.reload(&web("3")).unwrap();
    assert!(balancer.control.plan().drained.is_empty());
    balancer.reload(&web("3 2")).unwrap();
    assert_eq!(weight(&balancer), Some(1));
    // Weight 0 in the file says the same, and the drain ends with it.
    balancer.drain("web", "10.71.0.2", true);
    balancer.reload(&web("3 2:0")).unwrap();
    assert!(balancer.control.plan().drained.is_empty());
    balancer.reload(&web("3 2:5")).unwrap();
    assert_eq!(weight(&balancer), Some(5));
    assert!(diff(balancer.control.plan(), balancer.control.plan()).is_empty());
}

#[test]
fn an_id_stays_while_a_connection_has_it() {
    let mut balancer = Balancer::new(&web("1 2"));
    let first = id(&balancer, 1).unwrap();
    balancer.shared.loads().opened(first);
    balancer.reload(&web("2")).unwrap();
    balancer.settle();
    let address = |balancer: &Balancer| {
        let snapshot = balancer.shared.snapshot();
        snapshot.services.backend(first).map(|own| own.address.to_string())
    };
    assert_eq!(address(&balancer).as_deref(), Some("10.71.0.1"), "one connection is left");
    balancer.reload(&web("2 3 4 5")).unwrap();
    assert_eq!(address(&balancer).as_deref(), Some("10.71.0.1"));
    balancer.shared.loads().closed(first);
    balancer.settle();
    assert_eq!(address(&balancer), None);
    balancer.reload(&web("2 3 4 5 6")).unwrap();
    assert_eq!(id(&balancer, 6), Some(first), "nobody needs it now");
}

/// Of two connections of a removed backend, the one whose service says so moves.
#[test]
fn connections_of_a_removed_backend_stay_or_move_as_the_service_says() {
    for (key, kept) in [("", 2), ("on_remove = \"keep\"\n", 2), ("on_remove = \"move\"\n", 1)] {
        let text = |hosts| {
            web(hosts).replacen("[[service.backend]]", &format!("{key}[[service.backend]]"), 1)
        };
        let mut balancer = Balancer::new(&text("1 2"));
        let shared = Arc::clone(&balancer.shared);
        let insert = |host: u8| {
            let snapshot = shared.snapshot();
            let src = std::net::SocketAddr::from(([192, 0, 2, host], 1000));
            let vip = "10.71.0.100:80".parse().unwrap();
            let key = wire::FlowKey::new(wire::Transport::Tcp, src, vip).unwrap();
            let backend = id(&balancer, host).unwrap();
            let binding = snapshot.services.services()[0].bind(backend, &key, None).unwrap();
            shared.table().insert(&binding, [flow::HopId(0); 2], 0).unwrap();
            shared.loads().opened(backend);
            backend
        };
        let first = insert(1);
        insert(2);
        balancer.reload(&text("2")).unwrap();
        let mut ager = keeper::Ager::new(Arc::clone(&shared), keeper::AgerSettings::default());
        (0..3).for_each(|now_ms| ager.tick(now_ms, &mut |_, _| panic!("none has rules")));
        assert_eq!(shared.table().len(), kept, "{key}");
        assert_eq!(shared.loads().connections(first), u32::from(kept == 2), "{key}");
        balancer.settle();
        let known = shared.snapshot().services.backend(first).is_some();
        assert_eq!(known, kept == 2, "{key}");
    }
}

/// Whoever still has an old snapshot, a worker for instance, is never the last:
/// it frees nothing.
#[test]
fn an_old_snapshot_is_freed_by_the_control_side() {
    let mut balancer = Balancer::new(&web("1 2"));
    let worker = balancer.shared.snapshot();
    let first = id(&balancer, 1).unwrap();
    balancer.reload(&web("2")).unwrap();
    for now_ms in (0..100_000).step_by(1000) {
        balancer.control.tick(&balancer.shared, now_ms);
        assert_eq!(balancer.control.old_snapshots(), 1);
        assert_eq!(Arc::strong_count(&worker), 2, "the worker's is not the last");
    }
    let known = |balancer: &Balancer| balancer.shared.snapshot().services.backend(first).is_some();
    assert!(known(&balancer), "a worker may still give it connections");
    drop(worker);
    balancer.control.tick(&balancer.shared, 100_000);
    assert!(!known(&balancer));
    // Its id is lent again only when no fragment of its is remembered.
    balancer.control.tick(&balancer.shared, 100_001);
    balancer.reload(&web("2 3")).unwrap();
    assert_ne!(id(&balancer, 3), Some(first));
    balancer.control.tick(&balancer.shared, 100_002);
    balancer.control.tick(&balancer.shared, 110_000);
    balancer.reload(&web("2 3 4")).unwrap();
    assert_eq!(id(&balancer, 4), Some(first));
}

#[test]
fn a_neighbour_is_static_as_long_as_the_file_says_so() {
    let given = |mac: &str| {
        let neighbour = format!("[[neighbour]]\naddress = \"10.71.0.9\"\nmac = \"{mac}\"\n");
        web("1") + &neighbour
    };
    let mut balancer = Balancer::new(&given("02:00:00:00:00:09"));
    let found = |balancer: &Balancer| {
        let all = balancer.shared.neighbours().iter();
        let mut own = all.filter(|own| own.addr.to_string() == "10.71.0.9");
        own.next().map(|own| (own.state, own.mac.unwrap().to_string()))
    };
    let fixed = |mac: &str| Some((NeighbourState::Static, mac.to_owned()));
    assert_eq!(found(&balancer), fixed("02:00:00:00:00:09"));
    balancer.reload(&given("02:00:00:00:00:0a")).unwrap();
    assert_eq!(found(&balancer), fixed("02:00:00:00:00:0a"));
    balancer.reload(&web("1")).unwrap();
    let stale = (NeighbourState::Stale, "02:00:00:00:00:0a".to_owned());
    assert_eq!(found(&balancer), Some(stale), "used until somebody answers");
}

#[test]
fn a_plan_without_services_is_where_every_start_begins() {
    let plan = Plan::of(&Config::parse(&web("1 2"), FILE).unwrap());
    let steps = diff(&plan.nothing(), &plan);
    assert!(matches!(&steps[..], [Step::AddInterface(_), Step::AddService(_)]), "{steps:#?}");
}
