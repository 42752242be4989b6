//! No packet that was classified before a ticket is anywhere once the ticket has
//! passed, whatever the driver does; and every ticket passes in the end.
#![allow(clippy::unwrap_used)]
use std::collections::VecDeque;

use proptest::prelude::*;
use state::{QueueEpochs, Ticket};

const RING: usize = 40;
/// As ixgbe has it.
const STAGE: usize = 32;

/// What happens next. Workers are interrupted between any two of these.
#[derive(Clone, Debug)]
enum Step {
    /// Packets come in from the wire, classified by the present rules.
    Arrive { queue: usize, packets: usize },
    /// A worker asks for `burst` packets; the driver has `mbufs` to give. Without any
    /// it returns nothing, whatever the ring holds.
    Poll { queue: usize, burst: usize, mbufs: usize },
    /// It has processed them, but for those that it has handed over.
    Report { queue: usize, handed: usize },
    /// The worker at the ring's end takes packets out.
    Take { ring: usize, packets: usize },
    /// It has processed them.
    Processed { ring: usize },
    /// A rule is destroyed.
    Ticket,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..2usize, 1..50usize).prop_map(|(queue, packets)| Step::Arrive { queue, packets }),
        6 => (0..2usize, 8..40usize, prop_oneof![1 => Just(0), 3 => 1..40usize])
            .prop_map(|(queue, burst, mbufs)| Step::Poll { queue, burst, mbufs }),
        6 => (0..2usize, 0..20usize).prop_map(|(queue, handed)| Step::Report { queue, handed }),
        3 => (0..2usize, 0..20usize).prop_map(|(ring, packets)| Step::Take { ring, packets }),
        3 => (0..2usize).prop_map(|ring| Step::Processed { ring }),
        1 => Just(Step::Ticket),
    ]
}

/// A receive queue, its driver and its worker. A packet is the number of tickets
/// before it was classified.
#[derive(Default)]
struct Queue {
    ring: VecDeque<usize>,
    stage: VecDeque<usize>,
    polled: Option<Vec<usize>>,
}

impl Queue {
    /// Rounds down to multiples of 4; hands out what is staged before it looks at
    /// the ring; stops early where mbufs are scarce.
    fn poll(&mut self, burst: usize, mbufs: usize) -> Vec<usize> {
        if self.stage.is_empty() {
            if mbufs == 0 {
                return Vec::new();
            }
            let staged = self.ring.len().min(STAGE);
            self.stage.extend(self.ring.drain(..staged));
        }
        let most = (burst / 4 * 4).min(mbufs.max(1)).min(self.stage.len());
        self.stage.drain(..most).collect()
    }
}

/// A ring between workers: ring `n` leads from the worker of queue `n` to another.
#[derive(Default)]
struct Ring {
    packets: VecDeque<usize>,
    taken: Option<Vec<usize>>,
}

struct Port {
    epochs: QueueEpochs,
    queues: [Queue; 2],
    rings: [Ring; 2],
    tickets: Vec<Ticket>,
}

impl Port {
    fn new() -> Self {
        let epochs = QueueEpochs::new(2, RING as u32).with_rings(2);
        Self { epochs, queues: Default::default(), rings: Default::default(), tickets: Vec::new() }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Arrive { queue, packets } => {
                let room = RING - self.queues[queue].ring.len();
                let packet = self.tickets.len();
                self.queues[queue].ring.extend(vec![packet; packets.min(room)]);
            }
            Step::Poll { queue, burst, mbufs } => {
                let queue = &mut self.queues[queue];
                if queue.polled.is_none() {
                    queue.polled = Some(queue.poll(burst, mbufs));
                }
            }
            Step::Report { queue, handed } => self.report(queue, handed),
            Step::Take { ring, packets } => {
                let ring = &mut self.rings[ring];
                if ring.taken.is_none() {
                    let packets = packets.min(ring.packets.len());
                    ring.taken = Some(ring.packets.drain(..packets).collect());
                }
            }
            Step::Processed { ring } => {
                if let Some(taken) = self.rings[ring].taken.take() {
                    self.epochs.processed(ring, taken.len() as u64);
                }
            }
            Step::Ticket => self.tickets.push(self.epochs.ticket()),
        }
    }

    fn report(&mut self, queue: usize, handed: usize) {
        let Some(polled) = self.queues[queue].polled.take() else { return };
        let handed = handed.min(polled.len());
        self.rings[queue].packets.extend(&polled[..handed]);
        self.epochs.handed(queue, handed as u64);
        if polled.is_empty() {
            let ring = &self.queues[queue].ring;
            self.epochs.polled_nothing(queue as u16, || ring.is_empty());
        } else {
            self.epochs.polled(queue as u16, polled.len());
        }
    }

    /// The oldest packet that is anywhere.
    fn oldest(&self) -> usize {
        let queues = self.queues.iter().flat_map(|queue| {
            queue.ring.iter().chain(&queue.stage).chain(queue.polled.iter().flatten())
        });
        let rings = self
            .rings
            .iter()
            .flat_map(|ring| ring.packets.iter().chain(ring.taken.iter().flatten()));
        queues.chain(rings).copied().min().unwrap_or(usize::MAX)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 2000 }))]

    #[test]
    fn a_passed_ticket_has_no_packet_before_it(steps in prop::collection::vec(step(), 1..200)) {
        let mut port = Port::new();
        for step in &steps {
            port.step(step);
            let passed = port.tickets.iter().filter(|ticket| port.epochs.passed(**ticket)).count();
            prop_assert!(port.oldest() >= passed, "packet {} after {passed}", port.oldest());
        }
        // A worker with room and time, and no new packets.
        for _ in 0..40 {
            for at in 0..2 {
                port.step(&Step::Report { queue: at, handed: 3 });
                port.step(&Step::Poll { queue: at, burst: 8, mbufs: 8 });
                port.step(&Step::Processed { ring: at });
                port.step(&Step::Take { ring: at, packets: 8 });
            }
        }
        prop_assert!(port.tickets.iter().all(|ticket| port.epochs.passed(*ticket)));
    }

    /// Packets keep coming, so that no poll is empty.
    #[test]
    fn a_busy_queue_lets_tickets_pass(burst in 8..40usize, mbufs in 1..40usize) {
        let mut port = Port::new();
        port.step(&Step::Ticket);
        for _ in 0..RING + 64 + 2 {
            for queue in 0..2 {
                port.step(&Step::Arrive { queue, packets: RING });
                port.step(&Step::Poll { queue, burst, mbufs });
                port.step(&Step::Report { queue, handed: 0 });
                port.step(&Step::Take { ring: queue, packets: 8 });
                port.step(&Step::Processed { ring: queue });
            }
        }
        prop_assert!(port.epochs.passed(port.tickets[0]));
    }
}
