//! rustls' client on smoltcp's TCP, the terminator, and a server on smoltcp's TCP, over
//! links that lose, repeat, delay and reorder packets.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
mod client;
mod http2;
mod link;
mod net;
mod pipe;
mod server;

use link::Faults;
use net::{Net, Plan};
use proptest::prelude::*;
use terminate::Carries;

const GOOD: Faults = Faults { lost: 0, repeated: 0, delay_ms: 1 };

fn plan() -> Plan {
    let requests = vec![(0, 10)];
    let carries = Carries::Requests;
    let (v6, tls12, seed, sealed, dead, proxied) = (false, false, 1, None, 0, false);
    Plan { faults: GOOD, v6, tls12, seed, requests, sealed, dead, proxied, carries }
}

#[test]
fn requests_come_back_byte_for_byte() {
    for (v6, tls12) in [(false, false), (true, false), (false, true), (true, true)] {
        let requests = vec![(0, 0), (1, 1), (0, 16_384), (70_000, 3), (16_385, 300_000), (3, 0)];
        Net::new(&Plan { v6, tls12, requests, ..plan() }).run();
    }
}

#[test]
fn a_backend_that_refuses_is_passed_over() {
    let net = Net::new(&Plan { dead: 2, ..plan() }).run();
    assert_eq!(net.count(terminate::Event::BackendFailed), 2);
    assert_eq!((net.told().responses.len(), net.told().alone.len()), (1, 0));
}

#[test]
fn backends_over_tls_get_and_give_the_same() {
    let requests = vec![(0, 0), (1, 1), (70_000, 300_000), (16_385, 3), (0, 20)];
    let net = Net::new(&Plan { sealed: Some(true), requests, ..plan() }).run();
    assert_eq!((net.distrusted().len(), net.usage()), (0, terminate::Usage::default()));
}

#[test]
fn requests_are_counted_and_logged_with_their_bytes() {
    for sealed in [None, Some(true)] {
        let requests = vec![(0, 0), (1, 70_000), (70_000, 3), (3, 0), (0, 9), (5, 5)];
        let head = |(length, wanted): &(usize, usize)| {
            format!("POST /{wanted}?{length} HTTP/1.1\r\nHost: www.example.org\r\nContent-Length: {length}\r\n\r\n").len()
        };
        let asked: Vec<u64> = requests.iter().map(|own| (head(own) + own.0) as u64).collect();
        let net = Net::new(&Plan { sealed, requests, dead: 1, ..plan() }).run();
        let told = net.told();
        let up: Vec<u64> = told.records.iter().map(|own| own.bytes[0]).collect();
        let down: u64 = told.records.iter().map(|own| own.bytes[1]).sum();
        assert_eq!((up, down), (asked, net.answered_bytes()));
        for record in &told.records {
            assert_eq!((record.status, record.why, record.route), (200, "", Some(5)));
            assert_eq!((record.method.as_str(), record.host.as_str()), ("POST", "www.example.org"));
            assert_eq!(record.backend.unwrap().id.0, 1, "the one that is alive");
            assert!(u64::from(record.first_byte_ms.unwrap()) <= record.duration_ms);
        }
        assert_eq!((told.responses.len(), told.alone.len()), (6, 0));
        assert!(told.packets.iter().all(|count| *count > 10), "{:?}", told.packets);
    }
}

#[test]
fn backends_are_told_of_the_client_before_its_requests() {
    for (sealed, tls12) in [(None, false), (None, true), (Some(true), false)] {
        let requests = vec![(0, 0), (1, 70_000), (70_000, 3), (3, 0)];
        Net::new(&Plan { proxied: true, sealed, tls12, requests, dead: 1, ..plan() }).run();
    }
}

#[test]
fn no_connection_is_left_behind() {
    let net = Net::new(&plan()).run();
    assert_eq!(net.usage(), terminate::Usage::default());
    assert_eq!(net.claimed(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn bad_links_change_no_byte(
        seed in any::<u64>(),
        v6 in any::<bool>(),
        tls12 in any::<bool>(),
        lost in 0_u32..30,
        repeated in 0_u32..80,
        delay_ms in 0_u64..40,
        sealed in any::<bool>(),
        proxied in any::<bool>(),
        requests in prop::collection::vec((0_usize..60_000, 0_usize..60_000), 1..4),
    ) {
        let faults = Faults { lost, repeated, delay_ms };
        let sealed = sealed.then_some(true);
        Net::new(&Plan { faults, v6, tls12, seed, requests, sealed, proxied, ..plan() }).run();
    }
}
