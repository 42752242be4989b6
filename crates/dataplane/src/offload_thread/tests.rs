use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc;

use conntrack::{Hit, OffloadState, Segment};
use dpdk::flow::{Counters, FlowError, Rule, RuleHandle};
use flow::{AdmissionPolicy, Direction, Encoding, HopId};
use keeper::{AgerSettings, Keeper, ResolverSettings};
use offload::{OffloadConfig, Offloader, PortConfig};
use service::{Binding, Forwarding};
use setup::{PortFacts, Seed};
use state::{Offload, Shared};
use testkit::ConfigText;
use wire::{Mac, TcpFlags, Transport};

use super::*;
use crate::keeper_thread::{KeeperOut, KeeperThread};

/// A driver that is inside each call until it is told to return.
struct SlowDriver {
    entered: mpsc::Sender<()>,
    /// Closed: calls return at once.
    leave: mpsc::Receiver<()>,
    rules: usize,
}

impl SlowDriver {
    fn call(&self) {
        let _ = self.entered.send(());
        let _ = self.leave.recv();
    }
}

impl FlowPort for SlowDriver {
    fn validate(&mut self, _: &Rule) -> Result<(), FlowError> {
        Ok(())
    }

    fn create(&mut self, _: &Rule) -> Result<RuleHandle, FlowError> {
        self.call();
        self.rules += 1;
        Ok(RuleHandle::from_port(self.rules))
    }

    fn destroy(&mut self, _: RuleHandle) -> Result<(), (RuleHandle, FlowError)> {
        self.call();
        Ok(())
    }

    fn query(&mut self, _: &RuleHandle) -> Result<Counters, FlowError> {
        Ok(Counters::default())
    }
}

fn shared(connections: usize) -> Arc<Shared> {
    let limits = "embryonic_service = 0\nembryonic_source = 0";
    let config = ConfigText::new()
        .port("p0", "")
        .interface("p0", &["10.71.0.1/24"], "")
        .route("0.0.0.0/0", "10.71.0.9")
        .table("[conntrack]", &format!("connections = {connections}\n{limits}"))
        .service("web", "10.71.0.100", Some(80), Transport::Tcp, "")
        .backend("10.71.0.11", None, "")
        .parse();
    let facts = [PortFacts { mac: Mac([2, 0, 0, 0, 0, 1]), queues: 1, ring: 64 }];
    Arc::new(setup::shared(&config, &facts, true, Seed([1; 32])).unwrap())
}

/// The address and port of client `n`.
fn client(n: u32) -> SocketAddr {
    let address = Ipv4Addr::from_bits(0xc612_0000 + n / 8);
    SocketAddr::new(address.into(), 1024 + (n % 8) as u16)
}

/// Opens a connection of client `n`; established if `both` ends have spoken.
fn open(shared: &Shared, n: u32, both: bool) -> ConnId {
    let hop = |host: u8| -> HopId {
        let addr = SocketAddr::from(([10, 71, 0, host], 0)).ip();
        let hop = shared.hop_to(addr, 0).unwrap();
        let interface = shared.neighbours().interface(hop).unwrap();
        shared.neighbours().learn(interface, addr, Mac([2, 0, 0, 0, 1, host]), 0);
        hop
    };
    let backend = shared.snapshot().services.services()[0].backends()[0];
    let client = client(n);
    let binding = Binding {
        proto: Transport::Tcp,
        service: backend.service,
        backend: backend.id,
        forwarding: Forwarding::Rewrite,
        client,
        vip: SocketAddr::from(([10, 71, 0, 100], 80)),
        server: SocketAddr::from(([10, 71, 0, 11], 80)),
        local: client,
    };
    let conn = shared.table().insert(&binding, [hop(11), hop(9)], 0).unwrap();
    shared.loads().opened(backend.id);
    if both {
        for direction in [Direction::Forward, Direction::Reply] {
            let flags = TcpFlags(TcpFlags::ACK);
            let segment = Segment { flags, sequence: 0, acknowledgement: 0 };
            shared.table().touch(Hit { conn, direction }, Some(segment), 0);
        }
    }
    conn
}

/// The keeper's thread, whose reports come out of the consumer.
fn keeper(shared: &Arc<Shared>) -> (KeeperThread, rtrb::Consumer<OffloadRequest>) {
    let (reports, reported) = rtrb::RingBuffer::new(8);
    let (ager, resolver) = (AgerSettings::default(), ResolverSettings::default());
    let keeper = Keeper::new(shared, ager, resolver);
    let out = KeeperOut { send: Box::new(|_, _| ()), reports, counters: keeper.counters() };
    (KeeperThread::new(keeper, Vec::new(), out, Arc::default()), reported)
}

/// An offload thread with one port of encoding mark, whose driver is `driver`.
fn offload_thread(
    shared: &Arc<Shared>,
    requests: Vec<rtrb::Consumer<OffloadRequest>>,
    driver: SlowDriver,
) -> (OffloadThread, RulesDesk) {
    offload_thread_by(AdmissionPolicy::All, shared, requests, driver)
}

/// The same with another policy of admission.
fn offload_thread_by(
    policy: AdmissionPolicy,
    shared: &Arc<Shared>,
    requests: Vec<rtrb::Consumer<OffloadRequest>>,
    driver: SlowDriver,
) -> (OffloadThread, RulesDesk) {
    let port = PortConfig {
        encoding: Encoding::Mark,
        queues: vec![0],
        workers: 1,
        ..PortConfig::default()
    };
    let admission = admission::Settings { policy, ..admission::Settings::default() };
    let config = OffloadConfig { ports: vec![port], admission, ..OffloadConfig::default() };
    let rules = Rules::new(Offloader::new(config, Arc::clone(shared)), Arc::clone(shared));
    OffloadThread::new(rules, requests, vec![Box::new(driver)], Vec::new())
}

/// The driver is inside a call, and stays there. Meanwhile a thousand idle
/// connections are removed and their places given back, the status is answered
/// for, and the one connection that has a rule stays. Then the driver returns,
/// and that connection goes like the others.
#[test]
fn a_driver_that_does_not_return_stops_nothing_else() {
    let shared = shared(4096);
    let (mut keeper, reported) = keeper(&shared);
    let (mut requests, requested) = rtrb::RingBuffer::new(8);
    let (entered, inside) = mpsc::channel();
    let (release, leave) = mpsc::channel();
    let driver = SlowDriver { entered, leave, rules: 0 };
    let (mut thread, mut desk) = offload_thread(&shared, vec![requested, reported], driver);

    let busy = open(&shared, 0, true);
    (1..=1000).for_each(|n| _ = open(&shared, n, false));
    assert!(shared.table().change_offload(busy, OffloadState::None, OffloadState::Wanted));
    requests.push((busy, Offload::Wanted)).unwrap();

    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    // All timeouts are long over.
    let now_ms = 1 << 30;
    let offloading = std::thread::spawn(move || {
        let turns = (now_ms..).take_while(|_| !stopped.load(Ordering::Relaxed));
        for turn_ms in turns {
            thread.turn(turn_ms);
            std::thread::yield_now();
        }
        thread.rules.shutdown(&mut by_port(&mut thread.flows))
    });
    inside.recv().unwrap();

    for _ in 0..10 {
        keeper.turn(now_ms);
    }
    assert_eq!(shared.table().len(), 1, "all without rules are removed");
    assert_eq!(shared.table().offloaded(busy), Some(OffloadState::Installed), "this one is not");
    // More than there would be room for if the removed ones' records were lost.
    let more = shared.table().stats().v4.capacity - 900;
    (0..more).for_each(|n| _ = open(&shared, 2000 + n as u32, false));
    assert_eq!(shared.table().len(), 1 + more, "their memory is in use again");
    assert_eq!(desk.report().connections.done().created, 0, "what was last said");
    assert!(desk.busy_ms(now_ms + 1_000_000) > 0);
    assert!(desk.explain(vec![busy]).is_none());

    drop(release);
    while !shared.table().is_empty() {
        keeper.turn(now_ms);
        shared.ports()[0].queue_epochs.polled(0, 0);
        std::thread::yield_now();
    }
    while desk.report().connections.done().destroyed < 2 {}
    stop.store(true, Ordering::Relaxed);
    assert_eq!(offloading.join().unwrap(), 0);
}

/// A search goes over the whole table, however many turns that takes, and no turn
/// looks at all of it.
#[test]
fn a_search_finds_a_client_behind_many_others() {
    let count = 100_000;
    let shared = shared(1 << 17);
    let (_, requested) = rtrb::RingBuffer::new(8);
    let (entered, inside) = mpsc::channel();
    let (release, leave) = mpsc::channel();
    drop((inside, release));
    let driver = SlowDriver { entered, leave, rules: 0 };
    let (mut thread, desk) = offload_thread(&shared, vec![requested], driver);
    (0..count).for_each(|n| _ = open(&shared, n, false));
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let offloading = std::thread::spawn(move || {
        for turn_ms in (1..).take_while(|_| !stopped.load(Ordering::Relaxed)) {
            thread.turn(turn_ms);
        }
    });
    for n in [0, count - 1] {
        let (mut search, mut turns) = (crate::connections::Search::default(), 1);
        let answer = loop {
            match search.advance(client(n), &shared, &desk, 1) {
                Some(answer) => break answer,
                None => turns += 1,
            }
        };
        assert_eq!(turns, count.div_ceil(crate::connections::SLICE as u32), "a slice in each");
        // A busy machine may keep the other thread from answering in time.
        if let Ok(answer) = answer {
            let clients = answer.connections.iter().map(|own| own.client.clone());
            assert_eq!(clients.collect::<Vec<_>>(), [client(n).to_string()]);
        }
    }
    stop.store(true, Ordering::Relaxed);
    offloading.join().unwrap();
}

/// However many connections there are, a turn of the keeper looks at as many records as
/// its settings say, idle or not: what a turn costs does not grow with the table. The
/// driver, which is inside a call, delays none of them.
#[test]
fn a_turn_of_the_keeper_looks_at_a_part_of_the_table_only() {
    let per_turn = AgerSettings::default().records_per_tick;
    let count = 8 * per_turn;
    let shared = shared(2 * count);
    let (mut keeper, reported) = keeper(&shared);
    (1..count).for_each(|n| _ = open(&shared, n as u32, false));
    let busy = open(&shared, 0, true);
    let (mut requests, requested) = rtrb::RingBuffer::new(8);
    assert!(shared.table().change_offload(busy, OffloadState::None, OffloadState::Wanted));
    requests.push((busy, Offload::Wanted)).unwrap();
    let (entered, inside) = mpsc::channel();
    let (release, leave) = mpsc::channel();
    let driver = SlowDriver { entered, leave, rules: 0 };
    let (mut thread, _desk) = offload_thread(&shared, vec![requested, reported], driver);
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let offloading = std::thread::spawn(move || {
        for turn_ms in (1..).take_while(|_| !stopped.load(Ordering::Relaxed)) {
            thread.turn(turn_ms);
        }
    });
    inside.recv().unwrap();

    // All timeouts are long over.
    let (mut now_ms, mut turns) = (1 << 30, 0);
    while shared.table().len() > 1 {
        let before = shared.table().len();
        keeper.turn(now_ms);
        let removed = before - shared.table().len();
        assert!(removed <= per_turn, "{removed} of {before} in one turn");
        (now_ms, turns) = (now_ms + 1, turns + 1);
        let records = shared.table().stats().v4.capacity;
        assert!(turns <= records.div_ceil(per_turn) + 1, "the walk does not come round");
    }
    assert!(turns >= count / per_turn);
    stop.store(true, Ordering::Relaxed);
    drop(release);
    offloading.join().unwrap();
}

/// How long a turn of each thread for slow work takes, with a million connections
/// and a driver that takes a second for each call: `cargo test -p dataplane --lib
/// -- --ignored --nocapture`. The figures are printed, not judged.
#[test]
#[ignore = "measures; takes half a minute"]
fn turns_with_a_million_connections() {
    const MILLION: u32 = 1 << 20;
    let shared = shared(MILLION as usize);
    let (mut keeper, reported) = keeper(&shared);
    (0..MILLION - 1).for_each(|n| _ = open(&shared, n, false));
    let busy = open(&shared, MILLION - 1, true);
    let (mut requests, requested) = rtrb::RingBuffer::new(8);
    assert!(shared.table().change_offload(busy, OffloadState::None, OffloadState::Wanted));
    requests.push((busy, Offload::Wanted)).unwrap();
    let (entered, inside) = mpsc::channel();
    let (release, leave) = mpsc::channel();
    let driver = SlowDriver { entered, leave, rules: 0 };
    let (mut thread, mut desk) = offload_thread(&shared, vec![requested, reported], driver);
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let offloading = std::thread::spawn(move || {
        for turn_ms in (1..).take_while(|_| !stopped.load(Ordering::Relaxed)) {
            thread.turn(turn_ms);
        }
    });
    inside.recv().unwrap();
    // The driver returns after a second, and is in its next call at once.
    let second = std::thread::spawn(move || {
        while release.send(()).is_ok() {
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
    });
    let measured = |what: &str, times: u32, run: &mut dyn FnMut()| {
        let all: Vec<_> = (0..times)
            .map(|_| {
                let began = std::time::Instant::now();
                run();
                began.elapsed()
            })
            .collect();
        let (sum, worst) = (all.iter().sum::<std::time::Duration>(), all.iter().max().unwrap());
        println!("{what}: {:.3?} on average, {worst:.3?} at worst", sum / times);
    };
    let mut now_ms = 1000;
    measured("a turn of the keeper, none idle", 2000, &mut || {
        now_ms += 1;
        keeper.turn(now_ms);
    });
    measured("the status of the rules", 20, &mut || _ = desk.report());
    let client = client(1);
    let mut search = crate::connections::Search::default();
    measured("a slice of a search for a client", 16, &mut || {
        _ = search.advance(client, &shared, &desk, now_ms);
    });
    now_ms = 1 << 30;
    measured("a turn of the keeper, all idle", 2000, &mut || {
        now_ms += 1;
        keeper.turn(now_ms);
    });
    println!("{} connections are left", shared.table().len());
    stop.store(true, Ordering::Relaxed);
    offloading.join().unwrap();
    second.join().unwrap();
}

/// Connections are listed by the packets per second that their samples tell, page by
/// page, and only those that the filter wants.
#[test]
fn connections_are_listed_by_their_rates() {
    let shared = shared(4096);
    let (mut requests, requested) = rtrb::RingBuffer::new(256);
    let (entered, _inside) = mpsc::channel();
    let (_, leave) = mpsc::channel();
    let driver = SlowDriver { entered, leave, rules: 0 };
    let (mut thread, desk) =
        offload_thread_by(AdmissionPolicy::Heavy, &shared, vec![requested], driver);
    // Client 8 * n has an address of its own and is sampled 2 * n times; 0 never.
    let conns: Vec<ConnId> = (0..5).map(|n| open(&shared, 8 * n, true)).collect();
    for round in 0..8_u64 {
        let now_ms = 100 * (round + 1);
        for (n, conn) in conns.iter().enumerate() {
            if (round as usize) < 2 * n {
                requests.push((*conn, Offload::Seen(64))).unwrap();
            }
        }
        thread.turn(now_ms);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let answering = std::thread::spawn(move || {
        while !stopped.load(Ordering::Relaxed) {
            thread.rest(Duration::from_millis(1));
        }
    });
    let list = |filter: &control::Filter| {
        let mut search = crate::connections::Search::default();
        loop {
            match search.list(filter, &shared, &desk, 900) {
                None => continue,
                Some(Ok(list)) if list.connections.iter().all(|own| own.cause != "unknown") => {
                    return list;
                }
                // The thread that answers had no processor.
                Some(Ok(_) | Err(control::Refusal::Busy(_))) => {}
                Some(Err(refusal)) => panic!("{refusal}"),
            }
            search = crate::connections::Search::default();
        }
    };
    let by_rate =
        control::Filter { top: Some(control::Top::Rate), limit: 10, ..Default::default() };
    let clients = |filter: &control::Filter| -> Vec<String> {
        list(filter).connections.into_iter().map(|own| own.client).collect()
    };
    let wanted = |numbers: &[u32]| -> Vec<String> {
        numbers.iter().map(|n| client(8 * n).to_string()).collect()
    };
    assert_eq!(clients(&by_rate), wanted(&[4, 3, 2, 1]), "the one that was never seen has no rate");
    let all = list(&by_rate);
    assert_eq!(all.found, 4);
    let rates: Vec<f64> = all.connections.iter().map(|own| own.rate.unwrap()).collect();
    assert!(rates.windows(2).all(|pair| pair[0] > pair[1]), "{rates:?}");
    let page = control::Filter { skip: 1, limit: 2, ..by_rate.clone() };
    assert_eq!(clients(&page), wanted(&[3, 2]));
    let one = control::Filter { client: Some(client(8 * 2).ip()), ..by_rate.clone() };
    assert_eq!(clients(&one), wanted(&[2]));
    let plain = control::Filter { top: None, ..by_rate };
    let plain = list(&plain);
    assert_eq!((plain.found, plain.connections.len()), (5, 5));
    assert_eq!(plain.connections.iter().filter(|own| own.rate.is_none()).count(), 1);
    stop.store(true, Ordering::Relaxed);
    answering.join().unwrap();
}
