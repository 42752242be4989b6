//! Packets through the whole program.
use std::collections::BTreeMap;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use state::{Counter, CounterKind};
use status::Status;

use crate::bench::{BACKEND, Bench, CLIENT, Log, OWN, udp};

const NIC: &str = "[port.nic]\nprofile = \"x550\"\nqueues = 8";

/// Questions of `clients` clients, `rounds` each, and the answers to them, with
/// a payload that says which is which.
fn conversations(clients: u16, rounds: u16) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for round in 0..rounds {
        for client in 0..clients {
            let id = (u32::from(round) << 16 | u32::from(client)).to_be_bytes();
            let client = format!("10.0.0.50:{}", 1024 + client);
            frames.push(udp((CLIENT, OWN), &client, "10.0.0.100:53", &[b"ask ", &id[..]].concat()));
            frames.push(udp(
                (BACKEND, OWN),
                "10.0.0.11:5353",
                &client,
                &[b"tell", &id[..]].concat(),
            ));
        }
    }
    frames
}

/// What else comes in, and where it is counted.
fn others() -> Vec<(Vec<u8>, &'static str)> {
    let mut arp = Vec::new();
    arp.extend([0xff; 6]);
    arp.extend(CLIENT);
    arp.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    arp.extend(CLIENT);
    arp.extend([10, 0, 0, 50]);
    arp.extend([0; 6]);
    arp.extend([10, 0, 0, 100]);
    arp.resize(60, 0);
    let stranger = udp((CLIENT, [2, 9, 9, 9, 9, 9]), "10.0.0.50:9", "10.0.0.100:53", b"x");
    let nobody = udp((CLIENT, OWN), "10.0.0.50:9", "10.0.0.99:53", b"x");
    let cut = vec![0; 13];
    vec![(arp, "arp_replied"), (stranger, "wrong_mac"), (nobody, "not_for_us"), (cut, "truncated")]
}

fn total(counters: &BTreeMap<String, u64>, kind: CounterKind) -> u64 {
    let of_kind = Counter::ALL.iter().filter(|counter| counter.kind() == kind);
    of_kind.map(|counter| counters.get(counter.name()).copied().unwrap_or(0)).sum()
}

/// in = forwarded + replied + dropped + consumed + held.
fn adds_up(counters: &BTreeMap<String, u64>) -> bool {
    use CounterKind::{Consumed, Dropped, Forwarded, Held, In, Replied};
    let fates = [Forwarded, Replied, Dropped, Consumed, Held];
    total(counters, In) == fates.into_iter().map(|kind| total(counters, kind)).sum::<u64>()
}

/// forwarded + replied + originated = sent + not sent.
fn all_went_out(counters: &BTreeMap<String, u64>) -> bool {
    use CounterKind::{Forwarded, Originated, Replied, Sent, Unsent};
    let sum = |kinds: &[CounterKind]| kinds.iter().map(|&kind| total(counters, kind)).sum::<u64>();
    sum(&[Forwarded, Replied, Originated]) == sum(&[Sent, Unsent])
}

/// In all and for each worker.
fn assert_adds_up(status: &Status) {
    assert!(all_went_out(&status.counters), "{:#?}", status.counters);
    let workers = status.workers.iter().map(|worker| &worker.counters);
    for counters in workers.chain([&status.counters]) {
        assert!(adds_up(counters), "{counters:#?}");
    }
}

/// What is made here.
fn own(status: &Status) -> u64 {
    status.counters["arp_replied"] + status.counters["originated"]
}

/// Whether no worker is in the midst of a burst, whose packets are counted one
/// by one, and all that was to go out is on the wire.
fn at_rest(status: &Status) -> bool {
    let sent = status.counters["tx_sent"];
    adds_up(&status.counters)
        && sent == status.counters["forwarded"] + own(status)
        && status.ports[0].counters["tx_packets"] >= sent
}

/// Source, destination and payload of every balanced frame that was sent.
fn balanced(frames: &[Vec<u8>]) -> Vec<(String, String, Vec<u8>)> {
    let read = |frame: &Vec<u8>| {
        let sliced = SlicedPacket::from_ethernet(frame).unwrap();
        let Some(NetSlice::Ipv4(ip)) = &sliced.net else { return None };
        let (src, dst) = (ip.header().source_addr(), ip.header().destination_addr());
        let Some(TransportSlice::Udp(udp)) = &sliced.transport else { return None };
        let header = udp.to_header();
        let sum = header.calc_checksum_ipv4(&ip.header().to_header(), udp.payload()).unwrap();
        assert_eq!(sum, header.checksum, "the UDP checksum is right");
        let macs = if dst.octets()[3] == 11 { (BACKEND, OWN) } else { (CLIENT, OWN) };
        assert_eq!((&frame[..6], &frame[6..12]), (&macs.0[..], &macs.1[..]));
        let text = |addr, port| format!("{addr}:{port}");
        let (from, to) = (text(src, header.source_port), text(dst, header.destination_port));
        Some((from, to, udp.payload().to_vec()))
    };
    frames.iter().filter_map(read).collect()
}

/// Runs the conversations through `workers` workers, and checks every frame.
fn run(workers: u16, rounds: u16) -> Status {
    const CLIENTS: u16 = 40;
    let bench = Bench::new();
    let asked = conversations(CLIENTS, rounds);
    let (others, counted): (Vec<_>, Vec<_>) = others().into_iter().unzip();
    let frames = [asked.clone(), others].concat();
    bench.incoming(&frames);
    // A host queue holds all that comes before the workers run.
    let port = format!("rx_descriptors = 4096\n{NIC}");
    let more = format!("[workers]\ncount = {workers}");
    let engine = bench.start(&bench.config(&bench.device(), &port, &more));
    bench.wait("readiness", |status| status.ready && status.waiting_for.is_empty());
    let wanted = frames.len() as u64;
    let status = bench.wait("end of the capture", |s| {
        let received = s.counters["received"] + s.nic.drops["queue_full"];
        // The addresses are announced by another thread.
        received >= wanted && s.counters["originated"] >= 2 && at_rest(s)
    });
    assert_eq!(engine.failed_thread(), None);
    engine.stop();
    bench.assert_nothing_is_left();

    assert_eq!(status.nic.drops["queue_full"], 0, "the queues are large enough");
    assert_eq!(
        (status.counters["received"], status.ports[0].counters["rx_packets"]),
        (wanted, wanted)
    );
    assert_adds_up(&status);
    for name in counted {
        assert_eq!(status.counters[name], 1, "{name}");
    }
    let forwarded = asked.len() as u64;
    assert_eq!(status.counters["forwarded"], forwarded);
    let own = own(&status);
    assert_eq!(status.counters["tx_sent"], forwarded + own);
    assert!(status.counters["originated"] >= 2, "own address and VIP are announced");

    let sent = bench.outgoing();
    assert_eq!(sent.len() as u64, forwarded + own);
    let mut got: Vec<_> = balanced(&sent);
    let mut expected: Vec<_> = balanced_by_hand(CLIENTS, rounds);
    got.sort();
    expected.sort();
    assert_eq!(got, expected);
    status
}

/// What must come out for [`conversations`].
fn balanced_by_hand(clients: u16, rounds: u16) -> Vec<(String, String, Vec<u8>)> {
    let mut all = Vec::new();
    for (round, client) in (0..rounds).flat_map(|r| (0..clients).map(move |c| (r, c))) {
        let id = (u32::from(round) << 16 | u32::from(client)).to_be_bytes();
        let client = format!("10.0.0.50:{}", 1024 + client);
        all.push((client.clone(), "10.0.0.11:5353".to_owned(), [b"ask ", &id[..]].concat()));
        all.push(("10.0.0.100:53".to_owned(), client, [b"tell", &id[..]].concat()));
    }
    all
}

pub(crate) fn what_comes_in_goes_out_and_counts_add_up() {
    let status = run(1, 5);
    assert_eq!(status.counters["installed"], 40);
    assert_eq!(status.ports[0].driver, "emulated x550");
}

pub(crate) fn several_workers_share_the_traffic() {
    let status = run(3, 5);
    let shares: Vec<u64> = status.workers.iter().map(|w| w.counters["received"]).collect();
    assert!(shares.len() == 3 && shares.iter().all(|share| *share > 0), "{shares:?}");
    let queues: usize = status.workers.iter().map(|worker| worker.queues).sum();
    assert_eq!(queues, 8);
}

/// The capture is played again and again until rules match.
pub(crate) fn matched_by_the_emulated_nic_and_no_rule_left() {
    let log = Log::capture();
    let bench = Bench::new();
    bench.incoming(&conversations(4, 1));
    let device = format!("net_pcap0,rx_pcap={},infinite_rx=1", bench.path("in.pcap").display());
    let more = "[offload]\nencoding = \"mark\"\nadmission = \"first-packet\"";
    let engine = bench.start(&bench.config(&device, NIC, more));
    let status = bench
        .wait("match", |status| status.nic.rules == 8 && status.counters["matched_by_mark"] > 1000);
    assert_eq!((status.ports[0].encoding.as_str(), status.nic.capacity), ("mark", 2048));
    assert_eq!(status.counters["installed"], 4);
    engine.stop();
    bench.assert_nothing_is_left();
    let log = log.text();
    assert!(log.contains("all rules are destroyed rules=8"), "{log}");
}

/// A worker that finds nothing polls once a nap, and the emulated NIC, which wakes it, lets
/// its naps grow.
pub(crate) fn an_idle_worker_sleeps() {
    const NAPS: u64 = 200;
    let bench = Bench::new();
    bench.incoming(&[]);
    let config = bench.config(&bench.device(), NIC, "[workers]\nidle = \"yield\"");
    let engine = bench.start(&config);
    bench.wait("readiness", |status| status.ready && status.waiting_for.is_empty());
    let first = bench.wait("a nap", |status| status.workers[0].naps > 0).workers.remove(0);
    let enough = first.naps + NAPS;
    let last = bench.wait("more naps", |status| status.workers[0].naps >= enough).workers.remove(0);
    engine.stop();
    let (naps, slept_ms) = (last.naps - first.naps, last.slept_ms - first.slept_ms);
    let rounds = (last.totals.polls - first.totals.polls) / last.queues as u64;
    // The keeper's announcements wake it a few times at the start.
    assert!(rounds < naps + 1000, "{rounds} rounds in {naps} naps");
    assert!(slept_ms > naps, "{slept_ms} ms in {naps} naps");
}
