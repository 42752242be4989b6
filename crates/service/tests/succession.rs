//! Tables that follow each other: who is the same keeps its id, its connections
//! and its turn.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]
use crate::common;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use common::{backend, client, ip, pool, spec, table, web};
use flow::{BackendId, Scheduler, ServiceId};
use proptest::prelude::*;
use service::{
    BackendLoads, ModeSpec, Registry, ServiceSpec, ServiceTable, ServiceTimeouts, Timeouts,
    WorkerScheduleState,
};
use wire::Transport;

/// Tables one after the other, with the registry that lends their ids.
struct Tables {
    now: ServiceTable,
    registry: Registry,
}

impl Tables {
    fn new(specs: &[ServiceSpec]) -> Self {
        let mut tables =
            Self { now: ServiceTable::empty([1, 2], None), registry: Registry::default() };
        tables.change(specs);
        tables
    }

    fn change(&mut self, specs: &[ServiceSpec]) {
        self.now = self.now.successor(specs, &mut self.registry).unwrap();
    }

    /// The departed backends of which `is_gone` have lost their last connection.
    fn forget(&mut self, is_gone: &dyn Fn(BackendId) -> bool) {
        let next = self.now.without(&|own| is_gone(own.id));
        let backends = self.now.departed().iter().map(|own| own.id);
        let services = self.now.departed_services().iter().map(service::Service::id);
        let backends: Vec<_> = backends.filter(|id| next.backend(*id).is_none()).collect();
        let services: Vec<_> = services.filter(|id| next.service(*id).is_none()).collect();
        self.registry.release(&backends, &services);
        self.now = next;
    }

    fn id(&self, service: &str, address: &str) -> Option<BackendId> {
        let found = self.now.services().iter().find(|found| found.name() == service)?;
        found.backends().iter().find(|own| own.address == ip(address)).map(|own| own.id)
    }
}

/// A service with these hosts of 10.72.0.0/24, each with its weight.
fn service(number: u8, scheduler: Scheduler, hosts: &[(u8, u16)]) -> ServiceSpec {
    ServiceSpec {
        name: format!("s{number}"),
        scheduler,
        backends: hosts
            .iter()
            .map(|(host, weight)| backend(&format!("10.72.0.{host}"), None, *weight))
            .collect(),
        ..spec(&format!("10.71.0.{number}"), Some(80), Transport::Tcp)
    }
}

fn configuration() -> impl Strategy<Value = Vec<ServiceSpec>> {
    let hosts = prop::collection::btree_map(1_u8..6, 0_u16..4, 0..5);
    let one = (hosts, any::<bool>(), 0_usize..3).prop_map(|(hosts, backwards, scheduler)| {
        let mut hosts: Vec<(u8, u16)> = hosts.into_iter().collect();
        if backwards {
            hosts.reverse();
        }
        (hosts, scheduler)
    });
    prop::collection::btree_map(1_u8..5, one, 0..4).prop_map(|all| {
        let schedulers = [Scheduler::RoundRobin, Scheduler::WeightedRoundRobin, Scheduler::Maglev];
        all.into_iter()
            .map(|(number, (hosts, scheduler))| service(number, schedulers[scheduler], &hosts))
            .collect()
    })
}

/// Who an id belongs to, for people.
type Owners = BTreeMap<BackendId, (String, IpAddr)>;

fn owners(table: &ServiceTable) -> Owners {
    let owner = |own: &service::Backend| {
        (table.service(own.service).unwrap().name().to_owned(), own.address)
    };
    table.all_backends().map(|own| (own.id, owner(own))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_id_belongs_to_one_backend_until_it_is_released(
        steps in prop::collection::vec((configuration(), any::<u8>()), 1..8),
    ) {
        let mut tables = Tables::new(&[]);
        let mut generations: BTreeMap<BackendId, u32> = BTreeMap::new();
        for (specs, gone) in steps {
            let before = owners(&tables.now);
            tables.change(&specs);
            let after = owners(&tables.now);
            for (id, owner) in &before {
                prop_assert_eq!(after.get(id), Some(owner), "{:?} has another owner", id);
            }
            prop_assert_eq!(after.len(), tables.now.all_backends().count(), "ids are distinct");
            let names: BTreeSet<_> = after.values().collect();
            prop_assert_eq!(names.len(), after.len(), "a backend has one id");
            for own in tables.now.all_backends() {
                let new = !before.contains_key(&own.id);
                let last = generations.insert(own.id, own.generation).unwrap_or(0);
                prop_assert_eq!(own.generation, last + u32::from(new), "{:?}", own.id);
                prop_assert_eq!(tables.now.backend(own.id), Some(own));
            }
            tables.forget(&|id| gone & 1 << (id.0 % 8) != 0);
            prop_assert!(tables.now.departed().iter().all(|own| gone & 1 << (own.id.0 % 8) == 0));
        }
    }

    /// What clients see of a table doesn't depend on those before it.
    #[test]
    fn a_table_serves_as_if_it_were_the_first(
        steps in prop::collection::vec(configuration(), 1..6),
    ) {
        let mut tables = Tables::new(&[]);
        steps.iter().for_each(|specs| tables.change(specs));
        let first = table(steps.last().unwrap());
        prop_assert_eq!(tables.now.services().len(), first.services().len());
        prop_assert_eq!(tables.now.backends().len(), first.backends().len());
        let address = |table: &ServiceTable, id| table.backend(id).unwrap().address;
        for (own, other) in tables.now.services().iter().zip(first.services()) {
            prop_assert_eq!(own.name(), other.name());
            prop_assert_eq!(own.scheduler(), other.scheduler());
            let mut states = [&tables.now, &first].map(|table| WorkerScheduleState::new(1, table));
            for number in 0..20 {
                let src = client(number).src();
                let vip = std::net::SocketAddr::new(own.vip(), 80);
                let flow = wire::FlowKey::new(Transport::Tcp, src, vip).unwrap();
                let found = |table: &ServiceTable| table.lookup(&flow).map(|s| s.name().to_owned());
                prop_assert_eq!(found(&tables.now), found(&first));
                let here = own.hashed(&flow).map(|id| address(&tables.now, id));
                prop_assert_eq!(here, other.hashed(&flow).map(|id| address(&first, id)));
                let loads = BackendLoads::default();
                let [here, there] = &mut states;
                let here = own.schedule(&flow, here, &loads).map(|id| address(&tables.now, id));
                let there = other.schedule(&flow, there, &loads).map(|id| address(&first, id));
                prop_assert_eq!(here, there);
            }
        }
        for own in tables.now.departed() {
            let at = std::net::SocketAddr::new(own.address, 80);
            let claims = tables.now.by_backend(Transport::Tcp, at);
            prop_assert!(claims.iter().all(|(_, id)| *id != own.id), "departed, so it claims nothing");
        }
    }
}

#[test]
fn an_id_is_not_lent_again_while_it_may_be_referred_to() {
    let one = |host: u8| service(1, Scheduler::Maglev, &[(host, 1)]);
    let mut tables = Tables::new(&[one(1)]);
    let first = tables.id("s1", "10.72.0.1").unwrap();
    tables.change(&[one(2)]);
    let second = tables.id("s1", "10.72.0.2").unwrap();
    assert_ne!(first, second);
    assert_eq!(
        tables.now.backend(first).map(|own| own.weight),
        Some(0),
        "departed, with its address"
    );
    tables.change(&[one(1)]);
    assert_eq!(tables.id("s1", "10.72.0.1"), Some(first), "it is back, and so is its id");
    tables.change(&[one(2)]);
    tables.forget(&|id| id == first);
    assert_eq!(tables.now.backend(first), None);
    tables.change(&[one(3)]);
    assert_eq!(tables.id("s1", "10.72.0.3"), Some(first), "nobody has it");
    assert_eq!(tables.now.backend(first).map(|own| own.generation), Some(2));
}

#[test]
fn a_refused_table_takes_no_id() {
    let mut tables = Tables::new(&[service(1, Scheduler::Maglev, &[(1, 1)])]);
    let bad = [service(2, Scheduler::Maglev, &[(2, 1), (2, 1)])];
    assert!(tables.now.successor(&bad, &mut tables.registry).is_err());
    tables.change(&[service(1, Scheduler::Maglev, &[(1, 1), (3, 1)])]);
    assert_eq!(tables.id("s1", "10.72.0.3"), Some(BackendId(1)));
}

#[test]
fn a_service_that_clients_reach_otherwise_is_another() {
    let one = service(1, Scheduler::Maglev, &[(1, 1)]);
    let pooled = |addresses: &[&str], ports| ServiceSpec {
        mode: ModeSpec::FullNat { pool: pool(addresses, ports) },
        ..one.clone()
    };
    let is_same = |old: &ServiceSpec, new: &ServiceSpec| {
        let mut tables = Tables::new(std::slice::from_ref(old));
        tables.change(std::slice::from_ref(new));
        let same = tables.now.services()[0].id() == ServiceId(0);
        assert_eq!(tables.now.departed_services().len(), usize::from(!same));
        same
    };
    let with = |change: &dyn Fn(&mut ServiceSpec)| {
        let mut spec = one.clone();
        change(&mut spec);
        spec
    };
    assert!(is_same(&one, &with(&|spec| spec.scheduler = Scheduler::RoundRobin)));
    assert!(is_same(&one, &with(&|spec| spec.backends.clear())));
    assert!(!is_same(&one, &with(&|spec| spec.name = "other".to_owned())));
    assert!(!is_same(&one, &with(&|spec| spec.vip = ip("10.71.0.9"))));
    assert!(!is_same(&one, &with(&|spec| spec.port = Some(81))));
    assert!(!is_same(&one, &with(&|spec| spec.proto = Transport::Udp)));
    assert!(!is_same(&one, &with(&|spec| spec.mode = ModeSpec::Dsr)));
    let small = pooled(&["10.72.0.200"], 2000..=3000);
    assert!(is_same(&small, &pooled(&["10.72.0.201", "10.72.0.200"], 1024..=3000)));
    for less in [pooled(&["10.72.0.201"], 2000..=3000), pooled(&["10.72.0.200"], 2001..=3000)] {
        assert!(!is_same(&small, &less), "connections may have what is in the pool no more");
    }
    let mut tables = Tables::new(std::slice::from_ref(&small));
    tables.change(&[pooled(&["10.72.0.201"], 2000..=3000)]);
    assert!(tables.now.is_pool_address(ip("10.72.0.200")), "backends still answer to it");
    tables.forget(&|_| true);
    assert!(!tables.now.has(ip("10.72.0.200")));
}

#[test]
fn a_scheduler_goes_on_where_it_was() {
    for scheduler in [Scheduler::RoundRobin, Scheduler::WeightedRoundRobin] {
        let main = web(scheduler, &[3, 2, 1, 1]);
        let choices = |changes: bool| {
            let mut tables = Tables::new(std::slice::from_ref(&main));
            let mut state = WorkerScheduleState::new(1, &tables.now);
            let loads = BackendLoads::default();
            let mut chosen = Vec::new();
            for turn in 0..20_u8 {
                let service = tables.now.services().iter().find(|own| own.name() == main.name);
                let id = service.unwrap().schedule(&client(0), &mut state, &loads).unwrap();
                chosen.push(tables.now.backend(id).unwrap().address);
                if changes {
                    let other = service_before(turn);
                    tables.change(&[other, main.clone()]);
                    state.follow(&tables.now);
                }
            }
            chosen
        };
        assert_eq!(choices(true), choices(false), "{scheduler:?}");
    }
}

/// Another service, with other backends every time.
fn service_before(turn: u8) -> ServiceSpec {
    service(turn % 3, Scheduler::RoundRobin, &[(turn + 1, 1), (turn + 2, 2)])
}

#[test]
fn a_changed_weight_begins_a_new_cycle() {
    let mut tables = Tables::new(&[web(Scheduler::WeightedRoundRobin, &[1, 1])]);
    let mut state = WorkerScheduleState::new(0, &tables.now);
    let loads = BackendLoads::default();
    let next = |tables: &Tables, state: &mut WorkerScheduleState| {
        tables.now.services()[0].schedule(&client(0), state, &loads).unwrap().0
    };
    assert_eq!(next(&tables, &mut state), 0);
    tables.change(&[web(Scheduler::WeightedRoundRobin, &[2, 1])]);
    state.follow(&tables.now);
    let cycle = [(); 3].map(|()| next(&tables, &mut state));
    assert_eq!(cycle, [0, 1, 0]);
}

#[test]
fn the_order_in_the_file_moves_no_client_of_a_stateless_service() {
    let one = |hosts: &[(u8, u16)]| ServiceSpec {
        mode: ModeSpec::Stateless(flow::StatelessKey::Source),
        ..service(1, Scheduler::Maglev, hosts)
    };
    let mut tables = Tables::new(&[one(&[(1, 1), (2, 2), (3, 1)])]);
    let entries =
        |tables: &Tables| tables.now.services()[0].classes().unwrap().entries().collect::<Vec<_>>();
    let before = entries(&tables);
    tables.change(&[one(&[(3, 1), (1, 1), (2, 2)])]);
    assert_eq!(entries(&tables), before);
}

/// The connections of a service that has left the configuration go on by its times.
#[test]
fn a_departed_service_keeps_its_timeouts() {
    let own = Timeouts { established_ms: 1, udp_stream_ms: 900_000, ..Timeouts::default() };
    let special = ServiceSpec { timeouts: Some(own), ..service(1, Scheduler::Maglev, &[(1, 1)]) };
    let plain = service(2, Scheduler::Maglev, &[(2, 1)]);
    let mut tables = Tables::new(&[special, plain.clone()]);
    let ids: Vec<ServiceId> = tables.now.services().iter().map(service::Service::id).collect();
    let general = Timeouts::default();
    for _ in 0..2 {
        let timeouts = ServiceTimeouts::new(general, &tables.now);
        assert_eq!((timeouts.of(ids[0]), timeouts.of(ids[1])), (&own, &general));
        assert_eq!(timeouts.longest_udp_ms(), 900_000);
        tables.change(std::slice::from_ref(&plain));
    }
    tables.forget(&|_| true);
    assert_eq!(ServiceTimeouts::new(general, &tables.now), ServiceTimeouts::from(general));
}

/// Ids stay while places change, so that neither says the other.
#[test]
fn backends_are_found_by_their_ids_in_any_order() {
    let mut tables = Tables::new(&[service(1, Scheduler::Maglev, &[(1, 1), (2, 1), (3, 1)])]);
    for hosts in [&[(3, 1), (1, 1), (2, 1)][..], &[(2, 1), (5, 1), (3, 1), (4, 1)], &[(4, 1)]] {
        tables.change(&[service(1, Scheduler::Maglev, hosts)]);
        let own = &tables.now.services()[0];
        for backend in own.backends() {
            let server = own.server(backend.id, 80).unwrap();
            assert_eq!((server.ip(), server.port()), (backend.address, 80));
        }
        let gone = tables.now.departed().iter();
        assert!(gone.map(|gone| own.server(gone.id, 80)).all(|server| server.is_none()));
    }
}
