//! Two ports of one switch, over rings. The only test of this program that
//! starts DPDK, which starts once per process.
use std::net::Ipv4Addr;

use dpdk::flow::{Action, Attributes, FlowPort, Item, Match, Modify, Rule, SetField};
use dpdk::ring::spsc;
use dpdk::{
    Consumer, Eal, EalConfig, HugePages, Mbuf, Mempool, Port, PortConfig, Producer, net_ring,
};
use flow::CardProfile;
use nic::NicConfig;

use super::*;

/// A port's NIC, and the far ends of its wire and its host queues.
struct Bench {
    thread: NicThread,
    from_wire: Producer,
    on_wire: Consumer,
    host: Vec<Consumer>,
    from_workers: Producer,
    _wire: Port,
}

fn bench(name: &str, pool: &Mempool) -> Bench {
    let config = PortConfig { rx_desc: 128, tx_desc: 128, ..PortConfig::default() };
    let mut wire = net_ring::create(name, &config, pool).unwrap();
    wire.port.start().unwrap();
    let (mut rx, mut tx) = wire.port.queues().unwrap();
    let ring = |end: String| spsc(&format!("{name}{end}"), 64).unwrap();
    let (to_host, host) = (0..2).map(|queue| ring(format!("h{queue}"))).unzip();
    let (from_workers, from_host) = ring("w".to_owned());
    let nic =
        Nic::new(&NicConfig { switch: vec![0, 1], ..NicConfig::new(CardProfile::ConnectX, 2) });
    let ends = Ends {
        wire_rx: rx.pop().unwrap(),
        wire_tx: tx.pop().unwrap(),
        to_host,
        from_host: vec![from_host],
        sent: Arc::new(state::QueueEpochs::new(1, 64)),
        to_ports: vec![],
        from_ports: vec![],
    };
    let thread =
        NicThread::new(nic.unwrap(), ends, Arc::default(), Clock::start(), (Idle::Yield, None));
    let (from_wire, on_wire) = (wire.to_port.pop().unwrap(), wire.from_port.pop().unwrap());
    Bench { thread, from_wire, on_wire, host, from_workers, _wire: wire.port }
}

fn frame(dport: u16) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0]);
    frame[16..18].copy_from_slice(&46_u16.to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 6]);
    frame[26..30].copy_from_slice(&[198, 51, 100, 7]);
    frame[30..34].copy_from_slice(&[192, 0, 2, 1]);
    frame[34..36].copy_from_slice(&40_000_u16.to_be_bytes());
    frame[36..38].copy_from_slice(&dport.to_be_bytes());
    frame
}

fn rule(dport: u16, transfer: bool, actions: Vec<Action>) -> Rule {
    let port = dpdk::flow::Field { spec: dport, mask: u16::MAX };
    let ports = dpdk::flow::PortFields { dport: port, ..Default::default() };
    Rule {
        attributes: Attributes { transfer, ingress: !transfer, ..Attributes::default() },
        pattern: vec![
            Item::Eth(Match::Present),
            Item::Ipv4(Match::Present),
            Item::Tcp(Match::Fields(ports)),
        ],
        actions,
    }
}

/// The destination addresses of what comes out.
fn addresses(from: &mut Consumer) -> Vec<[u8; 4]> {
    let out = std::iter::from_fn(|| from.dequeue());
    out.map(|mbuf| *mbuf.bytes()[30..].first_chunk().unwrap()).collect()
}

fn set(last: u8) -> Action {
    let address = Ipv4Addr::new(10, 0, 0, last);
    Action::ModifyField(Modify::Set(SetField::Ipv4Dst(address)))
}

fn round(bench: &mut Bench) {
    let batches = |count| (0..count).map(|_| Batch::default()).collect();
    let mut sorted = Sorted {
        received: Batch::default(),
        queues: batches(2),
        ports: batches(bench.thread.ends.to_ports.len()),
        sending: Batch::default(),
    };
    bench.thread.receive(&mut sorted);
    bench.thread.send(&mut sorted);
}

#[test]
fn rewritten_frames_leave_on_the_port_that_the_rule_names() {
    let config = EalConfig { memory_mb: 64, huge_pages: HugePages::Never, ..EalConfig::default() };
    let mut eal = Eal::init(&config).unwrap();
    let pool = Mempool::new("pool", 511, 32, 2048).unwrap();
    let (mut a, mut b) = (bench("a", &pool), bench("b", &pool));
    let (to_b, from_a) = spsc("ab", 2).unwrap();
    a.thread.ends.to_ports.push((1, to_b));
    b.thread.ends.from_ports.push(from_a);
    let mut flows = a.thread.nic.flows();
    let rules = [
        rule(1, true, vec![set(1), Action::RepresentedPort(1)]),
        rule(2, true, vec![set(2), Action::RepresentedPort(0)]),
        rule(3, false, vec![set(3), Action::Mark(9), Action::Queue(1)]),
        rule(4, false, vec![Action::Drop]),
    ];
    let _handles: Vec<_> = rules.iter().map(|rule| flows.create(rule).unwrap()).collect();
    for dport in [1, 2, 3, 4, 5] {
        let mbuf = Mbuf::copy_from(&pool, &frame(dport)).unwrap();
        assert!(a.from_wire.enqueue(mbuf).is_ok());
    }
    let mbuf = Mbuf::copy_from(&pool, &frame(9)).unwrap();
    assert!(a.from_workers.enqueue(mbuf).is_ok());
    round(&mut a);
    assert_eq!(addresses(&mut b.on_wire), [[0; 4]; 0], "port b's own thread sends");
    round(&mut b);
    assert_eq!(addresses(&mut b.on_wire), [[10, 0, 0, 1]]);
    assert_eq!(addresses(&mut a.on_wire), [[10, 0, 0, 2], [192, 0, 2, 1]]);
    let marked = a.host[1].dequeue().unwrap();
    assert_eq!((marked.mark(), &marked.bytes()[30..34]), (Some(9), &[10, 0, 0, 3][..]));
    assert_eq!(addresses(&mut a.host[0]), [[192, 0, 2, 1]], "missed; nothing that was dropped");
    drop(marked);
    let stats = a.thread.nic.stats();
    assert_eq!((stats.forwarded, stats.forwarded_bytes, stats.dropped), (2, 120, 1));

    // A ring that is full loses frames, and says so.
    for _ in 0..5 {
        let mbuf = Mbuf::copy_from(&pool, &frame(1)).unwrap();
        assert!(a.from_wire.enqueue(mbuf).is_ok());
    }
    round(&mut a);
    round(&mut b);
    let arrived = addresses(&mut b.on_wire).len() as u64;
    assert!(arrived < 5);
    assert_eq!(a.thread.counters.get(NicCounter::WireFull), 5 - arrived);
    drop((a, b));
    assert_eq!(pool.in_use(), 0);
    drop(pool);
    eal.shutdown().unwrap();
}
