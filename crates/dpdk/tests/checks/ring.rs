//! Rings and net_ring ports.
use dpdk::{Batch, Mbuf, Mempool, PortConfig, PortError, Ring, net_ring, ring};
use packet::PacketBuf;

/// A batch of one-byte frames.
fn batch_of(pool: &Mempool, numbers: impl IntoIterator<Item = u8>) -> Batch<8> {
    let mut batch = Batch::new();
    for number in numbers {
        batch.push(Mbuf::copy_from(pool, &[number]).unwrap()).unwrap();
    }
    batch
}

fn numbers(batch: &Batch<8>) -> Vec<u8> {
    batch.iter().map(|mbuf| mbuf.bytes()[0]).collect()
}

pub(crate) fn order_and_capacity(pool: &Mempool) {
    let (mut producer, mut consumer) = ring::spsc("spsc", 5).unwrap();
    assert_eq!((producer.capacity(), consumer.capacity()), (5, 5));
    let mut batch = batch_of(pool, 0..8);
    assert_eq!(producer.enqueue_burst(&mut batch), 5);
    assert_eq!(numbers(&batch), [5, 6, 7]);
    assert!(producer.enqueue(batch.pop().unwrap()).is_err(), "given back and freed here");
    assert_eq!((producer.len(), consumer.len(), consumer.is_empty()), (5, 5, false));
    assert_eq!(consumer.dequeue().unwrap().bytes(), [0]);
    assert_eq!(consumer.dequeue_burst(&mut batch), 4);
    assert_eq!(numbers(&batch), [5, 6, 1, 2, 3, 4]);
    assert!(consumer.dequeue().is_none());
    // What is in the ring when both ends are gone returns to the pool.
    assert_eq!(producer.enqueue_burst(&mut batch), 5);
    drop((producer, consumer, batch));
    assert_eq!(pool.in_use(), 0);

    let taken = Ring::new("taken", 4).unwrap();
    let error = Ring::new("taken", 4).unwrap_err().to_string();
    assert!(error.starts_with("ring 'taken' of 4 mbufs: ") && error.contains("exists"), "{error}");
    assert!(taken.is_empty() && taken.capacity() == 4);
    assert!(Ring::new(&"long".repeat(10), 4).unwrap_err().to_string().contains("too long"));
}

pub(crate) fn between_threads(pool: &Mempool) {
    const FRAMES: u32 = 20_000;
    let (mut producer, mut consumer) = ring::spsc("threads", 64).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut batch = Batch::<8>::new();
            let mut next = 0;
            while next < FRAMES || !batch.is_empty() {
                while next < FRAMES && !batch.is_full() {
                    let Some(mbuf) = Mbuf::copy_from(pool, &next.to_be_bytes()) else { break };
                    batch.push(mbuf).unwrap();
                    next += 1;
                }
                if producer.enqueue_burst(&mut batch) == 0 {
                    std::thread::yield_now();
                }
            }
        });
        let mut seen = 0;
        let mut batch = Batch::<32>::new();
        while seen < FRAMES {
            if consumer.dequeue_burst(&mut batch) == 0 {
                std::thread::yield_now();
            }
            for mbuf in batch.drain() {
                assert_eq!(mbuf.bytes(), seen.to_be_bytes());
                seen += 1;
            }
        }
    });
}

pub(crate) fn marks_pass_net_ring(pool: &Mempool) {
    let config = PortConfig {
        rx_queues: 3,
        tx_queues: 2,
        rx_desc: 16,
        tx_desc: 20,
        ..PortConfig::default()
    };
    let mut nic = net_ring::create("marks", &config, pool).unwrap();
    assert_eq!((nic.to_port[0].capacity(), nic.from_port[0].capacity()), (16, 20));
    nic.port.start().unwrap();
    assert!(nic.port.link_up() && nic.port.is_alive());
    assert_eq!(nic.port.capabilities().unwrap().driver, "net_ring");
    let (mut rx, mut tx) = nic.port.queues().unwrap();
    assert_eq!((rx.len(), tx.len(), rx[2].queue(), tx[1].queue()), (3, 2, 2, 1));

    let mut batch = batch_of(pool, 0..4);
    for (mbuf, mark) in batch.iter_mut().zip([None, Some(0), Some(41), Some(u32::MAX)]) {
        mbuf.set_mark(mark);
    }
    assert_eq!(nic.to_port[2].enqueue_burst(&mut batch), 4);
    assert_eq!(rx[0].rx_burst(&mut batch) + rx[1].rx_burst(&mut batch), 0);
    assert_eq!(rx[2].rx_burst(&mut batch), 4);
    let marks: Vec<_> = batch.iter().map(PacketBuf::mark).collect();
    assert_eq!(marks, [None, Some(0), Some(41), Some(u32::MAX)]);
    assert_eq!(numbers(&batch), [0, 1, 2, 3]);

    assert_eq!(tx[1].tx_burst(&mut batch), 4);
    assert!(nic.from_port[0].is_empty());
    assert_eq!(nic.from_port[1].dequeue_burst(&mut batch), 4);
    let marks: Vec<_> = batch.iter().map(PacketBuf::mark).collect();
    assert_eq!(marks, [None, Some(0), Some(41), Some(u32::MAX)]);
    let stats = nic.port.stats();
    assert_eq!((stats.rx_packets, stats.tx_packets), (4, 4));
    // Left in the rings when all is dropped.
    assert_eq!(nic.to_port[0].enqueue_burst(&mut batch), 4);
}

pub(crate) fn unsent_tail_stays(pool: &Mempool) {
    let config = PortConfig { tx_desc: 3, ..PortConfig::default() };
    let mut nic = net_ring::create("tiny", &config, pool).unwrap();
    nic.port.start().unwrap();
    let (_, mut tx) = nic.port.queues().unwrap();
    let mut batch = batch_of(pool, 10..18);
    assert_eq!(tx[0].tx_burst(&mut batch), 3);
    assert_eq!(numbers(&batch), [13, 14, 15, 16, 17]);
    assert_eq!(tx[0].tx_burst(&mut batch), 0);
    assert_eq!(numbers(&batch), [13, 14, 15, 16, 17]);
    let mut out = Batch::<8>::new();
    assert_eq!(nic.from_port[0].dequeue_burst(&mut out), 3);
    assert_eq!(numbers(&out), [10, 11, 12]);
    assert_eq!(tx[0].tx_burst(&mut batch), 3);
    assert_eq!(numbers(&batch), [16, 17]);
    assert_eq!(pool.in_use(), 8);
}

pub(crate) fn net_ring_limits(pool: &Mempool) {
    let many = PortConfig { rx_queues: 17, ..PortConfig::default() };
    let error = net_ring::create("many", &many, pool).unwrap_err();
    let wanted =
        PortError::Queues { device: "many".into(), direction: "receive", asked: 17, most: 16 };
    assert_eq!(error, wanted);
    assert_eq!(error.to_string(), "device 'many' has 1 to 16 receive queues; 17 were asked for");
    let none = PortConfig { tx_queues: 0, ..PortConfig::default() };
    assert!(matches!(
        net_ring::create("none", &none, pool).unwrap_err(),
        PortError::Queues { direction: "send", asked: 0, .. }
    ));
    // A name is free again once the port is gone.
    for _ in 0..3 {
        let mut nic = net_ring::create("again", &PortConfig::default(), pool).unwrap();
        nic.port.start().unwrap();
        assert!(net_ring::create("again", &PortConfig::default(), pool).is_err());
    }
}
