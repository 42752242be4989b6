//! The wrappers on a running EAL, without root, huge pages or a NIC.
//!
//! EAL starts once per process, so this is one test that runs checks in turn.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "checks/batch.rs"]
mod batch;
#[path = "checks/crypto.rs"]
mod crypto;
#[path = "checks/flow.rs"]
mod flow;
#[path = "checks/hash.rs"]
mod hash;
#[path = "checks/port.rs"]
mod port;
#[path = "checks/ring.rs"]
mod ring;
#[path = "checks/thread.rs"]
mod thread;

use dpdk::{Eal, EalConfig, EalError, HugePages, Mbuf, Mempool, NotRunning, StillInUse};
use packet::PacketBuf;

#[test]
fn wrappers_hold_what_they_promise() {
    assert!(dpdk::eal::version().starts_with("DPDK "));
    let early = Mempool::new("early", 63, 0, 2048).unwrap_err();
    assert_eq!(early, dpdk::MempoolError::NotRunning(NotRunning));

    let config = EalConfig { memory_mb: 128, huge_pages: HugePages::Never, ..EalConfig::default() };
    let mut eal = Eal::init(&config).expect("EAL starts without root and huge pages");
    assert_eq!(Eal::init(&config).unwrap_err(), EalError::Again);
    assert!(eal.memory().to_string().starts_with("128 MB in ordinary pages"));
    assert!(dpdk::cycles_per_second() > 0);

    let pool = Mempool::new("pool", 511, 64, 2048).expect("a pool");
    for (name, check) in [
        ("an mbuf's bytes, lengths and mark", batch::mbuf as fn(&Mempool)),
        ("batches never lose or double an mbuf", batch::against_a_model),
        ("a pool's limits", batch::pool_limits),
        ("rings keep order and capacity", ring::order_and_capacity),
        ("rings between threads", ring::between_threads),
        ("marks and bytes pass net_ring", ring::marks_pass_net_ring),
        ("what can't be sent stays, in order", ring::unsent_tail_stays),
        ("net_ring's limits", ring::net_ring_limits),
        ("net_null opens, receives, sends", port::net_null),
        ("an empty poll without mbufs", port::an_empty_poll_without_mbufs),
        ("queue handles exist once", port::handles_exist_once),
        ("RSS over chosen queues", port::rss),
        ("errors say what is wrong", port::errors),
        ("rules meet the driver", flow::driver_refuses),
        ("rte_hash against a model", hash::against_a_model),
        ("rte_hash reuses places without readers only", hash::places_wait_for_readers),
        ("rte_hash between threads", hash::between_threads),
        ("crypto devices against another implementation", crypto::against_another),
        ("crypto devices refuse what they can't do", crypto::refusals),
        ("threads register and pin", thread::register_and_pin),
    ] {
        println!("{name}");
        check(&pool);
        assert_eq!(pool.in_use(), 0, "after: {name}");
    }

    let kept = Mbuf::copy_from(&pool, &[1]).expect("an mbuf");
    assert_eq!(eal.shutdown(), Err(StillInUse { objects: 1, mbufs: 1 }), "the pool and an mbuf");
    drop(pool);
    assert_eq!(eal.shutdown(), Err(StillInUse { objects: 0, mbufs: 1 }));
    assert_eq!(kept.bytes(), [1]);
    drop(kept);
    assert_eq!(eal.shutdown(), Ok(()));
    assert_eq!(Mempool::new("late", 63, 0, 2048).unwrap_err().to_string(), NotRunning.to_string());
    assert_eq!(Eal::init(&config).unwrap_err(), EalError::Again);
}
