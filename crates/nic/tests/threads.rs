//! Frames arrive while rules come and go.
use crate::common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use common::{EXACT, nic, nth, rule};
use dpdk::flow::{Action, FlowPort};
use flow::CardProfile;
use nic::Disposition;

const FLOWS: u32 = 64;

/// A matched packet always carries its own flow's mark and queue, and the
/// rules that stay match every packet.
#[test]
fn receive_is_right_at_every_moment_of_programming() {
    let nic = nic(CardProfile::X550, 16);
    let queue = |n: u32| 1 + (n % 15) as u16;
    let actions = |n: u32| vec![Action::Queue(queue(n)), Action::Mark(n)];
    let mut flows = nic.flows();
    let stay: Vec<_> = (FLOWS..2 * FLOWS)
        .map(|n| flows.create(&rule(&nth(n), EXACT, actions(n))).unwrap())
        .collect();
    let frames: Vec<_> = (0..2 * FLOWS).map(|n| nth(n).frame()).collect();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let mut out = vec![Disposition::default(); frames.len()];
            let mut bursts = 0_u64;
            while !done.load(Ordering::Relaxed) || bursts == 0 {
                nic.receive_burst(frames.iter().map(Vec::as_slice), bursts, &mut out);
                for (n, got) in (0..).zip(&out) {
                    assert!(got.matched || n < FLOWS, "a rule that stays");
                    let expected = if got.matched { (queue(n), Some(n)) } else { (0, None) };
                    assert_eq!((got.queue, got.mark), expected);
                }
                bursts += 1;
                thread::yield_now();
            }
            bursts
        });
        for round in 0..400 {
            let some = (0..FLOWS).filter(|n| (n ^ round) % 3 != 0);
            let handles: Vec<_> =
                some.map(|n| flows.create(&rule(&nth(n), EXACT, actions(n))).unwrap()).collect();
            for handle in handles {
                flows.destroy(handle).unwrap();
            }
        }
        done.store(true, Ordering::Relaxed);
        let bursts = receiver.join().unwrap();
        let stats = nic.stats();
        assert_eq!(stats.received, bursts * u64::from(2 * FLOWS));
        assert_eq!(stats.rules, stay.len());
    });
}
