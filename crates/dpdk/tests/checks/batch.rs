//! Mbufs and batches.
use dpdk::{Batch, Mbuf, Mempool, Ring};
use packet::PacketBuf;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

pub(crate) fn mbuf(pool: &Mempool) {
    let mut mbuf = Mbuf::copy_from(pool, &[1, 2, 3]).unwrap();
    assert_eq!((mbuf.bytes(), mbuf.len(), mbuf.mark()), (&[1, 2, 3][..], 3, None));
    assert!(mbuf.is_contiguous() && mbuf.linearize());
    assert_eq!((mbuf.headroom(), mbuf.tailroom()), (128, 2045));

    assert!(mbuf.prepend(2));
    mbuf.bytes_mut()[..2].copy_from_slice(&[8, 9]);
    assert_eq!(mbuf.bytes(), [8, 9, 1, 2, 3]);
    assert!(mbuf.cut_front(3));
    assert_eq!((mbuf.bytes(), mbuf.len()), (&[2, 3][..], 2));
    assert!(mbuf.resize(1));
    assert_eq!((mbuf.bytes(), mbuf.len()), (&[2][..], 1));
    assert!(!mbuf.cut_front(2) && !mbuf.prepend(130) && !mbuf.prepend(1 << 20));
    let most = 1 + mbuf.tailroom();
    assert!(!mbuf.resize(most + 1) && !mbuf.resize(1 << 17) && mbuf.resize(most));
    assert_eq!((mbuf.tailroom(), mbuf.len()), (0, most));

    for mark in [Some(0), Some(u32::MAX), None, Some(7)] {
        mbuf.set_mark(mark);
        assert_eq!(mbuf.mark(), mark);
    }
    assert_eq!(mbuf.rss_hash(), None);
    // ixgbe's way: another field, another flag. What `hi` said before is stale.
    for id in [0, 1, u16::MAX] {
        mbuf.set_soft_id(id);
        assert_eq!(mbuf.mark(), Some(u32::from(id)));
    }
    mbuf.set_mark(Some(9));
    assert_eq!(mbuf.mark(), Some(9));
    mbuf.set_soft_id(3);
    mbuf.set_mark(None);
    assert_eq!(mbuf.mark(), None);
    drop(mbuf);
    // A mark does not survive the mbuf.
    let mut all = Vec::new();
    while let Some(mbuf) = pool.alloc() {
        assert_eq!((mbuf.mark(), mbuf.len()), (None, 0));
        all.push(mbuf);
    }
    assert_eq!((pool.available(), pool.in_use()), (0, 511));
    assert!(Mbuf::copy_from(pool, &[0]).is_none());
    drop(all);
    assert!(Mbuf::copy_from(pool, &[0; 2049]).is_none());
}

/// What is done to a batch.
#[derive(Clone, Debug)]
enum Op {
    Push,
    AllocBurst(usize),
    Pop,
    Clear,
    Drain(usize),
    Retain(u8),
    Enqueue,
    Dequeue,
    Swap(usize, usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => Just(Op::Push),
        2 => (0..8_usize).prop_map(Op::AllocBurst),
        2 => Just(Op::Pop),
        1 => Just(Op::Clear),
        1 => (0..10_usize).prop_map(Op::Drain),
        2 => any::<u8>().prop_map(Op::Retain),
        3 => Just(Op::Enqueue),
        3 => Just(Op::Dequeue),
        1 => (0..8_usize, 0..8_usize).prop_map(|(a, b)| Op::Swap(a, b)),
    ]
}

/// A batch and a ring hold what two vectors hold, and the pool lacks as many.
pub(crate) fn against_a_model(pool: &Mempool) {
    let ring = Ring::new("model", 5).unwrap();
    let mut runner =
        TestRunner::new(Config { cases: 300, failure_persistence: None, ..Config::default() });
    let sequences = proptest::collection::vec(op(), 0..60);
    runner
        .run(&sequences, |ops| {
            let mut rest = Batch::<8>::new();
            while ring.dequeue_burst(&mut rest) > 0 {
                rest.clear();
            }
            run(pool, &ring, &ops)
        })
        .unwrap();
    drop(ring);
}

fn run(pool: &Mempool, ring: &Ring, ops: &[Op]) -> Result<(), TestCaseError> {
    let mut batch = Batch::<8>::new();
    let (mut model, mut in_ring) = (Vec::<u8>::new(), Vec::<u8>::new());
    let mut next = 0_u8;
    for op in ops {
        match *op {
            Op::Push => {
                next = next.wrapping_add(1);
                let pushed = batch.push(Mbuf::copy_from(pool, &[next]).unwrap());
                prop_assert_eq!(pushed.is_ok(), model.len() < 8);
                if pushed.is_ok() {
                    model.push(next);
                }
            }
            Op::AllocBurst(n) => {
                let before = model.len();
                let got = pool.alloc_burst(&mut batch, n);
                prop_assert_eq!(got, if before + n <= 8 { n } else { 0 });
                for mbuf in batch.iter_mut().skip(before) {
                    next = next.wrapping_add(1);
                    prop_assert!(mbuf.resize(1));
                    mbuf.bytes_mut()[0] = next;
                    model.push(next);
                }
            }
            Op::Pop => prop_assert_eq!(batch.pop().map(|mbuf| mbuf.bytes()[0]), model.pop()),
            Op::Clear => {
                batch.clear();
                model.clear();
            }
            Op::Drain(n) => {
                let got: Vec<u8> = batch.drain().take(n).map(|mbuf| mbuf.bytes()[0]).collect();
                model.truncate(n);
                prop_assert_eq!(got, std::mem::take(&mut model));
            }
            Op::Retain(bits) => {
                let keep = |number: u8| bits >> (number % 8) & 1 == 1;
                batch.retain(|mbuf| keep(mbuf.bytes()[0]));
                model.retain(|number| keep(*number));
            }
            Op::Enqueue => {
                let fits = model.len().min(5 - in_ring.len());
                prop_assert_eq!(ring.enqueue_burst(&mut batch), fits);
                in_ring.extend(model.drain(..fits));
            }
            Op::Dequeue => {
                let fits = in_ring.len().min(8 - model.len());
                prop_assert_eq!(ring.dequeue_burst(&mut batch), fits);
                model.extend(in_ring.drain(..fits));
            }
            Op::Swap(a, b) => {
                if a < model.len() && b < model.len() {
                    batch.swap(a, b);
                    model.swap(a, b);
                }
            }
        }
        let numbers: Vec<u8> = batch.iter().map(|mbuf| mbuf.bytes()[0]).collect();
        prop_assert_eq!(&numbers, &model);
        prop_assert_eq!((batch.room(), batch.is_full()), (8 - model.len(), model.len() == 8));
        prop_assert_eq!(pool.in_use() as usize, model.len() + in_ring.len());
    }
    Ok(())
}

pub(crate) fn pool_limits(_pool: &Mempool) {
    let error = Mempool::new("pool", 63, 0, 2048).unwrap_err().to_string();
    assert!(error.contains("'pool' of 63 mbufs") && error.contains("exists"), "{error}");
    let error = Mempool::new("cached", 90, 61, 2048).unwrap_err().to_string();
    assert!(error.contains("at most 60 for 90 mbufs"), "{error}");
    let error = Mempool::new("roomy", 63, 0, u16::MAX).unwrap_err().to_string();
    assert!(error.contains("65535 bytes are too many; at most 65407"), "{error}");
    let error = Mempool::new("endless", u32::MAX / 2, 0, 2048).unwrap_err().to_string();
    assert!(error.contains("2147483647 mbufs"), "{error}");
}
