use super::*;
use crate::{AnnounceStatus, AnnouncedVip, HealthStatus, LoopReading, TrafficStatus};

fn worker(packets: u64, bursts: u64, dropped: u64) -> WorkerStatus {
    let totals = LoopReading { packets, bursts, ..LoopReading::default() };
    WorkerStatus { totals, dropped, ..WorkerStatus::default() }
}

fn report(uptime_seconds: f64, workers: Vec<WorkerStatus>) -> Status {
    Status { uptime_seconds, workers, ..Status::default() }
}

#[test]
fn rates_are_over_the_time_that_the_load_balancer_counted() {
    let before = report(10.0, vec![worker(100, 10, 1)]);
    let mut now = report(12.0, vec![worker(300, 30, 5)]);
    now.drops.insert("no_room".to_owned(), 8);
    let picture = Picture::between(Some(&before), &now);
    assert_eq!(picture.seconds, Some(2.0));
    assert_eq!(picture.totals.received, Some(100.0));
    assert_eq!(picture.workers[0].burst, Some(10.0));
    assert_eq!(picture.workers[0].dropped, Some(2.0));
    assert_eq!(picture.drops[0].rate, Some(4.0), "a reason that is new has been 0");
}

#[test]
fn a_backend_is_compared_with_itself_and_not_with_a_former_one_of_its_id() {
    let backend = |id, generation, packets| BackendStatus {
        id,
        generation,
        traffic: TrafficStatus { packets_to_backend: packets, ..TrafficStatus::default() },
        ..BackendStatus::default()
    };
    let status = |uptime_seconds, backends: Vec<BackendStatus>| {
        let services = vec![ServiceStatus { backends, ..ServiceStatus::default() }];
        Status { uptime_seconds, services, ..Status::default() }
    };
    let before = status(1.0, vec![backend(0, 1, 10), backend(1, 1, 500)]);
    let now = status(3.0, vec![backend(1, 2, 8), backend(0, 1, 30)]);
    let picture = Picture::between(Some(&before), &now);
    let rates: Vec<_> = picture.backends.iter().map(|own| own.traffic.packets).collect();
    assert_eq!(rates, [None, Some(10.0)]);
}

#[test]
fn one_report_or_a_restart_gives_no_rates() {
    let now = report(3.0, vec![worker(300, 30, 5)]);
    let restarted = report(100.0, vec![worker(900, 30, 5)]);
    for before in [None, Some(&restarted), Some(&now)] {
        let picture = Picture::between(before, &now);
        assert_eq!((picture.seconds, picture.totals.received), (None, None));
        assert_eq!(picture.workers[0].packets, None);
    }
}

#[test]
fn a_backend_has_the_state_that_keeps_new_connections_from_it() {
    let serving = BackendStatus {
        weight: 2,
        next_hop: "02:00:00:00:00:01".to_owned(),
        ..BackendStatus::default()
    };
    let health = |state: &str, percent| {
        Some(HealthStatus { state: state.to_owned(), percent, ..HealthStatus::default() })
    };
    type Case = (BackendState, fn(&mut BackendStatus));
    let cases: [Case; 4] = [
        (BackendState::Up, |_| {}),
        (BackendState::NoWeight, |own| own.weight = 0),
        (BackendState::NoNextHop, |own| own.next_hop = "no answer".to_owned()),
        (BackendState::Drained, |own| (own.drained, own.weight) = (true, 0)),
    ];
    for (wanted, change) in cases {
        let mut own = serving.clone();
        change(&mut own);
        assert_eq!(state(&own), wanted);
    }
    for (wanted, checked) in [
        (BackendState::Up, health("up", 100)),
        (BackendState::Starting, health("up", 30)),
        (BackendState::Unknown, health("unknown", 100)),
        (BackendState::Down, health("down", 0)),
    ] {
        assert_eq!(state(&BackendStatus { health: checked, ..serving.clone() }), wanted);
    }
}

#[test]
fn a_service_counts_the_connections_of_backends_that_have_left() {
    let backend = |active, drained| BackendStatus {
        active,
        drained,
        weight: 1,
        next_hop: "02:00:00:00:00:01".to_owned(),
        ..BackendStatus::default()
    };
    let own = ServiceStatus {
        backends: vec![backend(3, false), backend(2, true)],
        departed: vec![backend(4, false)],
        ..ServiceStatus::default()
    };
    let picture = service(&own, TrafficPicture::default(), RequestsPicture::default());
    assert_eq!((picture.connections, picture.backends, picture.serving), (9, 2, 1));
    let states: Vec<BackendState> = backends(&own).map(|(_, state)| state).collect();
    assert_eq!(states, [BackendState::Up, BackendState::Drained, BackendState::Removed]);
}

#[test]
fn a_service_says_whether_its_vip_is_announced() {
    let service = |vip: &str| ServiceStatus { vip: vip.to_owned(), ..ServiceStatus::default() };
    let vip = |vip: &str, state: &str| AnnouncedVip {
        vip: vip.to_owned(),
        announced: state == "announced",
        state: state.to_owned(),
    };
    let vips = vec![vip("192.0.2.1", "announced"), vip("2001:db8::1", "settling")];
    let announce = Some(AnnounceStatus { vips, ..AnnounceStatus::default() });
    let services =
        ["192.0.2.1, port 80/tcp", "2001:db8::1, port 53/udp", "192.0.2.10, port 80/tcp"];
    let services = services.map(service).to_vec();
    let now = Status { announce, services, ..Status::default() };
    let picture = Picture::between(None, &now);
    let said: Vec<_> = picture.services.iter().map(|own| own.announced.as_deref()).collect();
    assert_eq!(said, [Some("announced"), Some("settling"), None]);
}
