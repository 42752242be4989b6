//! Whatever moves, and whenever who does what: no packet of a connection overtakes
//! another, and none is lost but for want of room.
//!
//! The emulated card, the mover, the gates and the epochs are those of the program. What
//! they run in is a machine of queues, in which each step is one thread's turn.
#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use balance::{HandoverOrder, HandoverSettings};
use dataplane::balancing::{MovedPort, Mover};
use etherparse::PacketBuilder;
use flow::CardProfile;
use nic::{Disposition, Fault, Nic, NicConfig, Reta};
use proptest::prelude::*;
use setup::{PortFacts, Seed};
use state::{QueueEpochs, Shared};
use testkit::ConfigText;
use wire::{Mac, Transport};

const WORKERS: u16 = 3;
/// Descriptors of a receive queue.
const RING: usize = 64;
/// How late the card goes by a new entry; less than the handover settles.
const LATE_NS: u64 = 40_000;
const FLOWS: u16 = 12;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// So many packets of a flow come in.
    Arrive { flow: u16, packets: u8 },
    /// A worker polls its queue.
    Poll { worker: u16, most: usize },
    /// The card sends what a worker gave it.
    Send { worker: u16, most: usize },
    /// The balancing thread has a turn.
    Turn,
    /// Time passes.
    Wait { ns: u64 },
    /// The balancing thread wants the bucket of a flow elsewhere.
    Move { flow: u16, to: u16 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..FLOWS, 1..4_u8).prop_map(|(flow, packets)| Step::Arrive { flow, packets }),
        4 => (0..WORKERS, 1..32_usize).prop_map(|(worker, most)| Step::Poll { worker, most }),
        3 => (0..WORKERS, 1..32_usize).prop_map(|(worker, most)| Step::Send { worker, most }),
        6 => Just(Step::Turn),
        3 => (1_000..30_000_u64).prop_map(|ns| Step::Wait { ns }),
        2 => (0..FLOWS, 0..WORKERS).prop_map(|(flow, to)| Step::Move { flow, to }),
    ]
}

/// A packet: its flow and its number there.
type Packet = (u16, u32);

struct Machine {
    nic: Nic,
    mover: Mover,
    shared: Arc<Shared>,
    sent: Arc<QueueEpochs>,
    received: Vec<VecDeque<Packet>>,
    sending: Vec<VecDeque<Packet>>,
    wire: Vec<Packet>,
    numbers: BTreeMap<u16, u32>,
    lost: usize,
    now_ns: u64,
}

thread_local! {
    /// One state for all cases: making it takes long, and a machine leaves it as it was.
    static SHARED: RefCell<Option<Arc<Shared>>> = const { RefCell::new(None) };
}

fn shared() -> Arc<Shared> {
    let make = || {
        let config = ConfigText::new()
            .port("p0", "")
            .interface("p0", &["10.71.0.1/24"], "")
            .route("0.0.0.0/0", "10.71.0.9")
            .table("[conntrack]", "connections = 64")
            .service("web", "10.71.0.100", Some(80), Transport::Tcp, "")
            .backend("10.71.0.11", None, "")
            .parse();
        let mac = Mac([2, 0, 0, 0, 0, 1]);
        let facts = [PortFacts { mac, queues: WORKERS, ring: RING as u32 }];
        Arc::new(setup::shared(&config, &facts, true, Seed([1; 32])).unwrap())
    };
    SHARED.with(|own| Arc::clone(own.borrow_mut().get_or_insert_with(make)))
}

impl Machine {
    fn new(order: HandoverOrder, late_ns: u64) -> Self {
        let reta = Reta::Queues(WORKERS);
        let nic =
            Nic::new(&NicConfig { reta, ..NicConfig::new(CardProfile::X550, WORKERS) }).unwrap();
        nic.order_fault(Fault::LateReta { ns: late_ns, mixed: false });
        let sent = Arc::new(QueueEpochs::new(WORKERS.into(), RING as u32));
        let shared = shared();
        let port = MovedPort {
            number: 0,
            name: "p0".to_owned(),
            table: Box::new(nic.clone()),
            map: nic.reta(),
            sent: Some(Arc::clone(&sent)),
        };
        let settings = HandoverSettings { order, ..HandoverSettings::default() };
        let queues = || (0..WORKERS).map(|_| VecDeque::new()).collect();
        Self {
            mover: Mover::new(vec![port], settings, Arc::clone(&shared)),
            nic,
            shared,
            sent,
            received: queues(),
            sending: queues(),
            wire: Vec::new(),
            numbers: BTreeMap::new(),
            lost: 0,
            now_ns: 0,
        }
    }

    fn dispose(&self, flow: u16) -> Disposition {
        let packet =
            PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 50], [10, 0, 0, 1], 64);
        let mut frame = Vec::new();
        packet.udp(1024 + flow, 53).write(&mut frame, &[]).unwrap();
        let mut out = [Disposition::default()];
        self.nic.receive_burst([&frame[..]], self.now_ns, &mut out);
        let [disposition] = out;
        disposition
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Arrive { flow, packets } => (0..packets).for_each(|_| self.arrive(flow)),
            Step::Poll { worker, most } => self.poll(worker, most),
            Step::Send { worker, most } => self.send(worker, most),
            Step::Turn => self.mover.advance(self.now_ns),
            Step::Wait { ns } => self.now_ns += ns,
            Step::Move { flow, to } => {
                let bucket = self.dispose(flow).hash.unwrap() as usize % self.mover.map().len();
                self.mover.begin(bucket as u16, to, self.now_ns);
            }
        }
    }

    fn arrive(&mut self, flow: u16) {
        let queue = self.dispose(flow).queue;
        let queue = &mut self.received[usize::from(queue)];
        let number = self.numbers.entry(flow).or_default();
        if queue.len() < RING {
            queue.push_back((flow, *number));
        } else {
            self.lost += 1;
        }
        *number += 1;
    }

    /// As the worker's loop does.
    fn poll(&mut self, worker: u16, most: usize) {
        let port = &self.shared.ports()[0];
        if !port.gates.lets(worker) {
            return;
        }
        let queue = &mut self.received[usize::from(worker)];
        let found: Vec<Packet> = queue.drain(..most.min(queue.len())).collect();
        match found.len() {
            0 => port.queue_epochs.polled_nothing(worker, || true),
            got => {
                self.sending[usize::from(worker)].extend(found);
                port.queue_epochs.polled(worker, got);
            }
        }
    }

    /// As the emulated NIC's loop does.
    fn send(&mut self, worker: u16, most: usize) {
        let ring = &mut self.sending[usize::from(worker)];
        let got = most.min(ring.len());
        self.wire.extend(ring.drain(..got));
        self.sent.polled(worker, got);
    }

    /// Lets everybody do what is left.
    fn end(&mut self) {
        for _ in 0..400 {
            for worker in 0..WORKERS {
                self.poll(worker, 16);
                self.send(worker, 16);
            }
            self.now_ns += 1000;
            self.mover.advance(self.now_ns);
        }
    }

    fn overtaken(&self) -> usize {
        let mut last = BTreeMap::new();
        let backwards = |(flow, number): &&Packet| {
            last.insert(*flow, *number).is_some_and(|before| before > *number)
        };
        self.wire.iter().filter(backwards).count()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_packet_overtakes_another_of_its_flow(
        order in prop_oneof![Just(HandoverOrder::Drain), Just(HandoverOrder::Idle)],
        steps in proptest::collection::vec(step(), 1..400),
    ) {
        let mut machine = Machine::new(order, LATE_NS);
        for step in steps {
            machine.run(step);
        }
        machine.end();
        prop_assert!(!machine.mover.is_busy(), "a worker waits for ever");
        let arrived: u32 = machine.numbers.values().sum();
        prop_assert_eq!(machine.wire.len() + machine.lost, arrived as usize, "one is missing");
        if machine.mover.totals().late == 0 {
            prop_assert_eq!(machine.overtaken(), 0);
        }
    }
}

/// Two packets wait with the old worker, the bucket moves, and a third packet comes.
fn third_packet(order: HandoverOrder, late_ns: u64) -> usize {
    let mut machine = Machine::new(order, late_ns);
    let old = machine.dispose(0).queue;
    let to = (old + 1) % WORKERS;
    let arrive = Step::Arrive { flow: 0, packets: 2 };
    let busy_new_worker = Step::Poll { worker: to, most: 32 };
    for step in [arrive, Step::Move { flow: 0, to }, busy_new_worker, Step::Turn, arrive] {
        machine.run(step);
    }
    for _ in 0..4 {
        machine.run(Step::Wait { ns: 30_000 });
        machine.run(Step::Turn);
        machine.run(arrive);
        for step in [busy_new_worker, Step::Send { worker: to, most: 32 }] {
            machine.run(step);
        }
    }
    machine.end();
    assert_eq!(machine.mover.totals().moved, 1);
    machine.overtaken()
}

#[test]
fn packets_overtake_only_in_the_order_instant() {
    assert_eq!(third_packet(HandoverOrder::Drain, LATE_NS), 0);
    assert_eq!(third_packet(HandoverOrder::Idle, LATE_NS), 0);
    assert!(third_packet(HandoverOrder::Instant, 0) > 0);
}
