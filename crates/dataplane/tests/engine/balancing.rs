//! Buckets of the redirection table that move between workers.
use wire::toeplitz::{MICROSOFT_KEY, Toeplitz};

use crate::bench::{Bench, CLIENT, OWN, udp};

/// Entries of the emulated X550's redirection table.
const BUCKETS: u32 = 128;

/// A question from `port` whose bucket is one of worker `worker`'s at the start, when
/// entries name the two workers in turn.
fn comes_to(worker: u32, port: u16) -> bool {
    let mut input = [0; 12];
    input[..4].copy_from_slice(&[10, 0, 0, 50]);
    input[4..8].copy_from_slice(&[10, 0, 0, 100]);
    input[8..10].copy_from_slice(&port.to_be_bytes());
    input[10..].copy_from_slice(&53_u16.to_be_bytes());
    Toeplitz::new(&MICROSOFT_KEY).hash(&input) % BUCKETS % 2 == worker
}

/// Twenty clients of worker 0, round after round, for ever.
fn skewed(bench: &Bench) -> String {
    let clients = (1024_u16..).filter(|port| comes_to(0, *port)).take(20);
    let frame = |port| udp((CLIENT, OWN), &format!("10.0.0.50:{port}"), "10.0.0.100:53", b"ask");
    bench.incoming(&clients.map(frame).collect::<Vec<_>>());
    format!("net_pcap0,rx_pcap={},infinite_rx=1", bench.path("in.pcap").display())
}

const PORT: &str = "[port.nic]\nprofile = \"x550\"\nqueues = 8";

pub(crate) fn buckets_leave_the_busy_worker() {
    let bench = Bench::new();
    let more = "[offload]\nencoding = \"off\"\n[workers]\ncount = 2";
    let engine = bench.start(&bench.config(&skewed(&bench), PORT, more));
    let status = bench.wait("move", |status| {
        let received = |worker: usize| status.workers[worker].counters["received"];
        status.balance.counters["moved"] >= 3 && received(0) > 0 && received(1) > 0
    });
    assert_eq!(status.balance.mode, "load");
    assert_eq!(status.workers.iter().map(|own| own.buckets).sum::<u64>(), u64::from(BUCKETS));
    assert!(status.workers[0].buckets < u64::from(BUCKETS / 2), "{:#?}", status.workers);
    assert!(status.balance.ports[0].starts_with("a: 128 buckets"), "{:?}", status.balance.ports);
    assert_eq!(status.balance.counters["refused"], 0);
    engine.stop();
    bench.assert_nothing_is_left();
}

pub(crate) fn nothing_moves_if_it_is_off() {
    let bench = Bench::new();
    let more = "[offload]\nencoding = \"off\"\n[workers]\ncount = 2\nbalance = \"off\"";
    let engine = bench.start(&bench.config(&skewed(&bench), PORT, more));
    let status = bench.wait("traffic", |status| status.counters["received"] > 100_000);
    assert_eq!(status.balance.mode, "off");
    assert_eq!((status.workers[0].buckets, status.balance.counters["moved"]), (0, 0));
    assert_eq!(status.workers[1].counters["received"], 0, "all came to worker 0");
    engine.stop();
}
