//! What the status says of services: those of the configuration, and those that have
//! left it and still carry connections.
use std::net::{IpAddr, SocketAddr};

use offload::StatelessStats;
use service::{Backend, Service};
use state::{ANSWER_BOUNDS_MS, AnswerTimes, Carried, Codes, Shared};

use crate::stateless_report;
use status::{
    AnswersBelow, BackendStatus, FirstAnswers, HealthStatus, RequestsStatus, ServiceStatus,
    TrafficStatus,
};

/// What is known of backends beside the service table.
pub(crate) struct Known<'a> {
    /// The Ethernet address towards a backend, or why there is none.
    pub(crate) next_hop: &'a dyn Fn(IpAddr) -> String,
    /// What health checks say of a backend of the service with this name.
    pub(crate) health: &'a dyn Fn(&str, &Backend) -> Option<HealthStatus>,
}

/// Every service.
pub(crate) fn services(
    shared: &Shared,
    stateless: &StatelessStats,
    known: &Known<'_>,
) -> Vec<ServiceStatus> {
    let snapshot = shared.snapshot();
    let table = &snapshot.services;
    let status = |service: &Service, removed: bool| {
        let port = service.port().map_or_else(|| "any".to_owned(), |port| port.to_string());
        let reads = service.reads_requests();
        let backend = |backend: &Backend| BackendStatus {
            id: backend.id.0,
            generation: backend.generation,
            address: endpoint(backend),
            weight: backend.weight,
            drained: service.is_drained(backend.id),
            health: (known.health)(service.name(), backend).filter(|_| !removed),
            active: u64::from(shared.loads().connections(backend.id)),
            traffic: traffic(shared.totals().backend(backend.id)),
            requests: reads
                .then(|| requests(&shared.totals().backend(backend.id), &Codes::default())),
            first_answer_ms: first_answer_ms(shared.loads().latency(backend.id)),
            next_hop: (known.next_hop)(backend.address),
        };
        let backends: Vec<_> = service.backends().iter().map(backend).collect();
        let departed: Vec<_> = service.departed().iter().map(backend).collect();
        let all = service.backends().iter().chain(service.departed());
        let answers = all.fold(shared.totals().gone(service.id()), |sum, own| {
            sum.plus(shared.totals().backend(own.id))
        });
        let mut sum = traffic(shared.totals().gone(service.id()));
        backends.iter().chain(&departed).for_each(|own: &BackendStatus| sum.add(&own.traffic));
        ServiceStatus {
            id: service.id().0,
            generation: service.generation(),
            removed,
            name: service.name().to_owned(),
            vip: format!("{}, port {port}/{}", service.vip(), service.proto()),
            embryonic: shared.table().connections_of(service.id())[1],
            traffic: sum,
            first_answers: first_answers(&answers.answers),
            requests: reads.then(|| requests(&answers, &shared.totals().alone(service.id()))),
            backends,
            departed,
            stateless: stateless_report::of(service, stateless),
        }
    };
    let present = table.services().iter().map(|service| status(service, false));
    present.chain(table.departed_services().iter().map(|service| status(service, true))).collect()
}

fn traffic(carried: Carried) -> TrafficStatus {
    let Carried { packets, bytes, opened, resets, refused, .. } = carried;
    let ([packets_to_backend, packets_to_client], [resets_by_client, resets_by_backend]) =
        (packets, resets);
    let [bytes_to_backend, bytes_to_client] = bytes;
    TrafficStatus {
        packets_to_backend,
        bytes_to_backend,
        packets_to_client,
        bytes_to_client,
        opened,
        resets_by_client,
        resets_by_backend,
        refused,
    }
}

fn requests(carried: &Carried, own: &Codes) -> RequestsStatus {
    RequestsStatus {
        responses: carried.responses.classes().into(),
        codes: carried.responses.counted().collect(),
        own: own.classes().into(),
        own_codes: own.counted().collect(),
        first_bytes: first_answers(&carried.first_bytes),
    }
}

fn first_answers(times: &AnswerTimes) -> FirstAnswers {
    let mut count = 0;
    let below = ANSWER_BOUNDS_MS.iter().zip(times.counts).map(|(ms, own)| {
        count += own;
        AnswersBelow { ms: *ms, count }
    });
    let below = below.collect();
    FirstAnswers { count: times.counts.iter().sum(), sum_ms: times.sum_ms, below }
}

/// A latency of 1/256 ms, 0 if it is not known, in milliseconds.
fn first_answer_ms(latency: u32) -> Option<f64> {
    (latency > 0).then(|| f64::from(latency) / 256.0)
}

fn endpoint(backend: &Backend) -> String {
    match backend.port {
        None => backend.address.to_string(),
        Some(port) => SocketAddr::new(backend.address, port).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use config::Config;
    use flow::{Account, Direction};
    use setup::{PortFacts, Seed};
    use wire::Mac;

    use super::*;

    fn text(services: &[(&str, &[u8])]) -> String {
        let mut text = "[[port]]\nname = \"p0\"\ndevice = \"net_null0\"\n\
            [[interface]]\nport = \"p0\"\naddresses = [\"10.71.0.1/24\"]\n\
            [conntrack]\nconnections = 1024\n"
            .to_owned();
        for (at, (name, hosts)) in services.iter().enumerate() {
            text += &format!(
                "[[service]]\nname = \"{name}\"\nvip = \"10.71.0.{}\"\nport = 80\nprotocol = \"tcp\"\n",
                100 + at
            );
            for host in *hosts {
                text += &format!("[[service.backend]]\naddress = \"10.71.0.{host}\"\n");
            }
        }
        text
    }

    /// A removed backend with connections is shown with its id until they are gone, and
    /// its id has another generation when it is lent again.
    #[test]
    fn what_has_left_the_configuration_is_shown_while_it_has_connections() {
        let first = text(&[("web", &[11, 12]), ("old", &[13])]);
        let config = Config::parse(&first, "x.toml").unwrap();
        let facts = [PortFacts { mac: Mac([2, 0, 0, 0, 0, 1]), queues: 1, ring: 64 }];
        let (shared, mut control) = setup::start(&config, &facts, false, Seed([1; 32])).unwrap();
        let look = |shared: &Shared| {
            let next_hop = |addr| format!("hop of {addr}");
            let known = Known { next_hop: &next_hop, health: &|_, _| None };
            services(shared, &StatelessStats::default(), &known)
        };
        let before = look(&shared);
        assert!(before.iter().all(|service| !service.removed && service.departed.is_empty()));
        let backends = |services: &[ServiceStatus]| -> Vec<(u16, u32)> {
            let all = services.iter().flat_map(|one| one.backends.iter().chain(&one.departed));
            all.map(|one| (one.id, one.generation)).collect()
        };
        assert_eq!(backends(&before), [(0, 1), (1, 1), (2, 1)]);
        let id = |address: &str| {
            let snapshot = shared.snapshot();
            let mut backends = snapshot.services.backends().iter();
            backends.find(|own| own.address.to_string() == address).unwrap().id
        };
        for address in ["10.71.0.11", "10.71.0.13"] {
            shared.loads().opened(id(address));
        }
        let (eleven, thirteen) = (id("10.71.0.11"), id("10.71.0.13"));
        let counts = shared.totals().register();
        for (backend, bytes) in [(eleven, 60), (thirteen, 70), (id("10.71.0.12"), 80)] {
            counts.ways().carry(Account { backend, direction: Direction::Forward }, bytes);
        }
        let next = text(&[("web", &[12])]);
        control.reload(&shared, ("x.toml".as_ref(), &next), false).unwrap();
        let after = look(&shared);
        let names: Vec<(&str, bool)> =
            after.iter().map(|one| (one.name.as_str(), one.removed)).collect();
        assert_eq!(names, [("web", false), ("old", true)]);
        let gone = &after[0].departed[0];
        assert_eq!((gone.address.as_str(), gone.active, gone.id), ("10.71.0.11:80", 1, 0));
        assert_eq!(gone.next_hop, "hop of 10.71.0.11");
        assert_eq!((after[1].departed[0].id, after[1].departed[0].active), (2, 1));
        for backend in [eleven, thirteen] {
            shared.loads().closed(backend);
        }
        for now_ms in 0..20_000 {
            control.tick(&shared, now_ms);
        }
        let end = look(&shared);
        let carried = |own: TrafficStatus| (own.packets_to_backend, own.bytes_to_backend);
        assert_eq!(carried(end[0].traffic), (2, 140), "the service keeps what it has carried");
        assert!(end.len() == 1 && end[0].departed.is_empty(), "{end:?}");
        let again = text(&[("web", &[12, 14])]);
        control.reload(&shared, ("x.toml".as_ref(), &again), false).unwrap();
        let ids = backends(&look(&shared));
        assert_eq!(ids[0], (1, 1), "the same backend, the same id");
        assert_eq!(carried(look(&shared)[0].backends[1].traffic), (0, 0), "another backend's");
        assert_eq!(ids[1].1, 2, "a number that is lent again has another generation: {ids:?}");
    }
}
