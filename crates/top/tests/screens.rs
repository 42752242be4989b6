//! What a terminal shows of pictures, frozen.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::KeyCode;
use status::{
    BackendPicture, BackendState, CounterPicture, Picture, PortPicture, ServicePicture, Totals,
    TrafficPicture, WorkerPicture,
};
use top::{Screen, View, draw, page};

fn backend(service: &str, address: &str, state: BackendState, connections: u64) -> BackendPicture {
    BackendPicture {
        service: service.to_owned(),
        address: address.to_owned(),
        state,
        weight: 1,
        connections,
        next_hop: "02:00:00:00:00:01".to_owned(),
        ..BackendPicture::default()
    }
}

fn picture() -> Picture {
    let mut down = backend("web", "10.71.0.12:80", BackendState::Down, 3);
    down.why = "connection refused".to_owned();
    let mut quick = backend("web", "10.71.0.11:80", BackendState::Up, 1200);
    quick.first_answer_ms = Some(1.25);
    quick.traffic = TrafficPicture {
        packets: Some(81_000.0),
        bytes_to_backend: Some(5_000_000.0),
        bytes_to_client: Some(90_000_000.0),
        opened: Some(250.0),
        resets: Some(0.0),
    };
    let worker = |worker: usize, util_plus| WorkerPicture {
        worker,
        queues: 2,
        util: 0.5,
        util_plus,
        packets: Some(1_234_567.0),
        burst: Some(12.5),
        dropped: Some(0.0),
    };
    let service = |name: &str, serving| ServicePicture {
        name: name.to_owned(),
        vip: "10.71.0.100, port 80/tcp".to_owned(),
        connections: 1203,
        backends: 2,
        serving,
        ..ServicePicture::default()
    };
    Picture {
        version: "0.1.0".to_owned(),
        ready: true,
        uptime_seconds: 3725.0,
        seconds: Some(1.0),
        totals: Totals {
            received: Some(2_469_134.0),
            sent: Some(2_469_000.0),
            past_workers: Some(0.0),
            dropped: Some(134.0),
            new_connections: Some(250.0),
            connections: 1203,
            connections_limit: 131_072,
            rules: 2400,
            rules_limit: 8192,
            util_plus: 0.91,
        },
        workers: vec![worker(0, 0.25), worker(1, 0.91)],
        ports: vec![PortPicture {
            name: "p0".to_owned(),
            driver: "net_ixgbe".to_owned(),
            encoding: "mark".to_owned(),
            link_up: true,
            rx_packets: Some(2_469_134.0),
            rx_bytes: Some(158_024_576.0),
            ..PortPicture::default()
        }],
        services: vec![service("web", 1), service("dns", 2)],
        backends: vec![down, quick, backend("dns", "10.71.0.13:53", BackendState::Drained, 0)],
        drops: vec![CounterPicture { name: "no_room".to_owned(), total: 500, rate: Some(134.0) }],
        counters: vec![CounterPicture { name: "installed".to_owned(), total: 9000, rate: None }],
        ..Picture::default()
    }
}

/// What a terminal of this size shows.
fn shown(screen: &Screen, (width, height): (u16, u16), failure: &str) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let picture = picture();
    terminal
        .draw(|frame| {
            draw(frame, &picture, screen, failure);
        })
        .unwrap();
    terminal.backend().to_string()
}

#[test]
fn backends_by_their_connections() {
    insta::assert_snapshot!(shown(&Screen::default(), (120, 16), ""));
}

#[test]
fn workers() {
    let screen = Screen::default().with_view(View::Workers);
    insta::assert_snapshot!(shown(&screen, (100, 14), ""));
}

#[test]
fn ports_without_a_new_report() {
    let screen = Screen::default().with_view(View::Ports);
    insta::assert_snapshot!(shown(&screen, (150, 12), "no running hnlb answers here"));
}

#[test]
fn a_filter_that_is_typed() {
    let mut screen = Screen::default();
    for key in "/DNS".chars() {
        screen.key(KeyCode::Char(key).into(), 3);
    }
    insta::assert_snapshot!(shown(&screen, (100, 12), ""));
}

#[test]
fn the_help() {
    let mut screen = Screen::default();
    screen.key(KeyCode::Char('?').into(), 3);
    insta::assert_snapshot!(shown(&screen, (90, 24), ""));
}

#[test]
fn one_page() {
    insta::assert_snapshot!(page(&picture(), &Screen::default(), &View::ALL));
}

#[test]
fn no_size_is_too_small() {
    for (width, height) in [(1, 1), (10, 3), (24, 8), (300, 100)] {
        for view in View::ALL {
            shown(&Screen::default().with_view(view), (width, height), "no answer");
        }
    }
}
