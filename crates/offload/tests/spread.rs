//! Heavy connections over the workers: their rules name the queue of one that has room.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;

use admission::Settings;
use common::card::Card;
use common::world::{Ours, World, binding};
use conntrack::ConnId;
use dpdk::flow::FlowPort;
use flow::{AdmissionPolicy, Direction, Encoding};
use offload::{OffloadConfig, Offloader, PortConfig};
use state::Offload;

const WORKERS: usize = 2;

/// Two workers, and heavy connections whose buckets are all worker 0's.
struct Pair {
    world: Ours,
    cards: [Card; 2],
    offloader: Offloader<Ours>,
    now_ms: u64,
    /// What each connection adds to its worker's util+, in thousandths.
    loads: Vec<u16>,
    is_measured: bool,
}

impl Pair {
    fn new(encoding: Encoding, loads: &[u16], is_measured: bool) -> Self {
        let world = World::ours(1024, 64);
        let queues = if encoding == Encoding::Mark { 0..2 } else { 2..64 }.collect();
        let workers = WORKERS as u16;
        let port = PortConfig { encoding, queues, workers, ..PortConfig::default() };
        let admission = Settings { policy: AdmissionPolicy::Heavy, ..Settings::default() };
        let config = OffloadConfig { ports: vec![port; 2], admission, ..OffloadConfig::default() };
        let offloader = Offloader::new(config, world.clone());
        for n in 0..loads.len() as u32 {
            // Each its own backend, so that a queue means no other.
            world.open(n, binding(n, n as u16, 0, false, false));
        }
        let cards = [Card::new(1000), Card::new(1000)];
        Self { world, cards, offloader, now_ms: 0, loads: loads.to_vec(), is_measured }
    }

    fn worker(&self, n: usize) -> usize {
        let key = self.world.conns.borrow()[&(n as u32)].binding.key(Direction::Forward).unwrap();
        self.cards[0].queue(&key).map_or(0, |queue| usize::from(queue) % WORKERS)
    }

    fn busy(&self) -> [u16; WORKERS] {
        let mut busy = [0; WORKERS];
        for (n, load) in self.loads.iter().enumerate() {
            busy[self.worker(n)] += load;
        }
        busy
    }

    fn run(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now_ms += 1;
            if self.is_measured && self.now_ms % 10 == 0 {
                let packets = self.loads.iter().map(|load| u64::from(*load) * 100).sum();
                self.world.worker_loads.tell(&self.busy().map(|load| load.min(1000)), packets);
            }
            for (n, load) in self.loads.iter().enumerate() {
                if self.now_ms % 10 == n as u64 % 10 {
                    let seen = Offload::Seen(u32::from(*load));
                    self.offloader.request(ConnId::from_raw(n as u32), seen);
                }
            }
            let [a, b] = &mut self.cards;
            let mut flows: [&mut dyn FlowPort; 2] = [a, b];
            self.offloader.tick(self.now_ms, &mut flows);
            for port in &self.world.ports {
                (0..64).for_each(|queue| port.queue_epochs.polled(queue, 0));
            }
        }
    }
}

/// Connections with odd numbers are light: by number, worker 0 would have all heavy ones.
fn uneven() -> Vec<u16> {
    (0..20).map(|n| if n % 2 == 0 { 90 } else { 2 }).collect()
}

#[test]
fn heavy_connections_go_to_the_worker_that_has_room() {
    for encoding in [Encoding::Mark, Encoding::Queue] {
        let mut pair = Pair::new(encoding, &uneven(), true);
        assert_eq!(pair.busy(), [920, 0]);
        pair.run(10_000);
        let [a, b] = pair.busy();
        assert!(a.abs_diff(b) < 250, "{encoding}: {a} {b}");
        let relieved = pair.offloader.stats().relieved;
        assert!(relieved < 10, "{encoding}: {relieved}");
        pair.run(10_000);
        assert_eq!(pair.offloader.stats().relieved, relieved, "{encoding}: it comes to rest");
        assert_eq!(pair.cards[0].rules(), 20, "{encoding}: each has its rule");
    }
}

#[test]
fn a_rule_in_the_wrong_place_is_made_again() {
    // Nobody measures at first: connections go by number.
    let mut pair = Pair::new(Encoding::Mark, &uneven(), false);
    pair.run(3_000);
    assert_eq!(pair.busy(), [900, 20]);
    pair.is_measured = true;
    pair.run(10_000);
    let [a, b] = pair.busy();
    assert!(a.abs_diff(b) < 250, "{a} {b}");
    assert!((3..6).contains(&pair.offloader.stats().relieved));
}

#[test]
fn one_connection_that_is_all_of_the_load_stays_where_it_is() {
    let mut pair = Pair::new(Encoding::Mark, &[900], false);
    pair.run(3_000);
    pair.is_measured = true;
    pair.run(5_000);
    assert_eq!((pair.busy(), pair.offloader.stats().relieved), ([900, 0], 0));
}
