//! How a connection uses a path: how much it sends at once, what a loss costs, and what it
//! does where packets must be shorter. Time is simulated.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
use std::collections::VecDeque;
use std::net::SocketAddr;

use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use terminate::{Buffers, Endpoint, Stack, Stage};

const MTU: usize = 1_500;
const LONG: Buffers = Buffers { receive: 1 << 20, send: 1 << 20 };

/// What a path is like in the sender's direction. The other one is as long, and ideal.
#[derive(Clone, Copy)]
struct Path {
    delay_ms: u64,
    /// Bytes that leave in a millisecond, and packets that wait for that at most.
    rate: usize,
    queue: usize,
    /// How many of a thousand packets are lost.
    lost: u32,
}

const WIDE: Path = Path { delay_ms: 50, rate: usize::MAX, queue: usize::MAX, lost: 0 };

/// What a transfer came to.
#[derive(Debug, Default)]
struct Outcome {
    ms: u64,
    /// Packets with data that were sent, and those that were lost.
    sent: usize,
    lost: usize,
    /// Packets with data of the first round trip.
    first: usize,
}

/// Sends `length` bytes over a path. `limit_ms` is simulated.
fn transfer(path: Path, length: usize, v6: bool, seed: u64, limit_ms: u64) -> Outcome {
    let text =
        if v6 { ["[fd00::1]:443", "[fd00::2]:4000"] } else { ["10.0.0.1:443", "10.0.0.2:4000"] };
    let [own, peer] = text.map(|own| own.parse::<SocketAddr>().unwrap());
    let mut sender = Stack::listen(own, LONG, MTU, 7).unwrap();
    let mut receiver = Stack::connect([peer, own], LONG, MTU, 8).unwrap();
    let mut rng = SmallRng::seed_from_u64(seed);
    let (mut queue, mut forth, mut back) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
    let body: Vec<u8> = (0..length).map(|at| (at * 31 + at / 251) as u8).collect();
    let (mut written, mut got, mut outcome) = (0, Vec::new(), Outcome::default());
    let (mut budget, mut first_ms) = (0_usize, None);
    for now in 1..limit_ms {
        receiver.poll(now);
        while let Some(packet) = receiver.outgoing() {
            back.push_back((now + path.delay_ms, packet));
        }
        while back.front().is_some_and(|(at, _)| *at <= now) {
            sender.take(back.pop_front().unwrap().1);
        }
        sender.poll(now);
        if sender.stage() == Stage::Open {
            while written < length && sender.room() > 0 {
                let end = length.min(written + sender.room());
                written += sender.write(&body[written..end]);
            }
            sender.poll(now);
        }
        while let Some(packet) = sender.outgoing() {
            if packet.len() > 100 {
                outcome.sent += 1;
                let first = *first_ms.get_or_insert(now);
                outcome.first += usize::from(now < first + path.delay_ms);
            }
            if queue.len() >= path.queue || rng.random_range(0..1000) < path.lost {
                outcome.lost += 1;
            } else {
                queue.push_back(packet);
            }
        }
        budget = budget.saturating_add(path.rate).min(path.rate.saturating_add(MTU));
        while queue.front().is_some_and(|packet: &Vec<u8>| packet.len() <= budget) {
            let packet = queue.pop_front().unwrap();
            budget -= packet.len();
            forth.push_back((now + path.delay_ms, packet));
        }
        while forth.front().is_some_and(|(at, _)| *at <= now) {
            receiver.take(forth.pop_front().unwrap().1);
        }
        receiver.poll(now);
        let bytes = receiver.readable().to_vec();
        receiver.consume(bytes.len());
        got.extend(bytes);
        if got.len() == length {
            assert!(got == body, "other bytes have come");
            outcome.ms = now;
            return outcome;
        }
    }
    panic!("{} of {length} bytes in {limit_ms} ms: {outcome:?} {sender:?}", got.len());
}

#[test]
fn ten_segments_go_at_once_and_then_twice_as_many_each_time() {
    for v6 in [false, true] {
        let outcome = transfer(WIDE, 1_000_000, v6, 1, 10_000);
        assert_eq!(outcome.first, 10, "{outcome:?}");
        // A round trip for the handshake and one for the last half; 14,600 bytes doubled
        // seven times are more than a million.
        assert!(outcome.ms <= 9 * 100 + 50 && outcome.lost == 0, "{outcome:?}");
    }
}

#[test]
fn a_long_path_is_filled() {
    // 20 MB over 100 ms with buffers of 1 MiB: 10 MiB/s at most, so 2 s, and slow start.
    let outcome = transfer(WIDE, 20_000_000, false, 1, 60_000);
    assert!(outcome.ms < 3_200, "{outcome:?}");
}

#[test]
fn a_narrow_path_is_used_and_not_flooded() {
    // 10 Mbit/s with a queue as long as the path has room for.
    let path = Path { delay_ms: 20, rate: 1_250, queue: 40, lost: 0 };
    let outcome = transfer(path, 5_000_000, false, 1, 60_000);
    let ideal_ms = 5_000_000 * MTU as u64 / 1_460 / 1_250;
    assert!(outcome.ms < ideal_ms * 5 / 4, "{outcome:?}, {ideal_ms} ms at best");
    assert!(outcome.lost * 12 < outcome.sent, "{outcome:?}");
    let needed = 5_000_000 / 1_460 + outcome.lost;
    assert!(outcome.sent < needed * 11 / 10, "{outcome:?}: sent again and again");
}

#[test]
fn what_is_lost_is_sent_again_and_little_else() {
    for (v6, seed) in [(false, 1), (true, 2), (false, 3)] {
        let path = Path { delay_ms: 10, lost: 10, ..WIDE };
        let outcome = transfer(path, 4_000_000, v6, seed, 120_000);
        let needed = 4_000_000 / 1_420 + outcome.lost;
        assert!(outcome.sent < needed * 11 / 10, "{outcome:?}, {needed} needed");
        assert!(outcome.ms < 60_000, "{outcome:?}");
    }
}
