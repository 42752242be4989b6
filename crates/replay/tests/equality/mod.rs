//! Hardware equals software: load balancers that differ only in NIC and
//! encoding send the same frames, byte for byte, for whatever comes, while
//! rules are created, refused, lost, delayed and withdrawn.
//!
//! What may differ, and so is kept out of each test:
//!
//! - *Ageing.* With encoding `queue` the worker doesn't see every packet, and
//!   a connection with rules gets another timeout when they are withdrawn. So
//!   connections may be forgotten later than in software, and whatever depends
//!   on the set of known connections may differ: the backend that round robin
//!   or least connections choose for a new one, the endpoint of a pool, whether
//!   a backend's SYN belongs to a connection. With such services
//!   ([`at_once`], [`while_packets_wait`]) time stays below all timeouts until
//!   everything falls silent, and then everything must go. Where connections
//!   age between packets ([`while_connections_age`]), all services are Maglev
//!   and none is `fullnat`, and no backend sends a SYN. There a packet may be dropped for
//!   another reason: the later fragments of a datagram whose first one ran out
//!   of TTL are refused themselves if the connection is known.
//! - *Order over several queues.* A packet in another queue is polled at
//!   another time. Where packets wait, frames are compared per flow for
//!   encoding `queue`, and the order within a flow for packets between which no
//!   rule can have come or gone. `mark` leaves all packets in the default queue
//!   and must keep the whole order.
//! - *The card's way is shorter.* With encoding `rewrite` packets that the card
//!   sends on overtake those that wait for the worker; where packets wait, only
//!   the frames are compared, not their order. The card leaves what lies behind
//!   an IP packet where it is; software cuts it off; here it is cut off.
//! - *Each worker's own state* (schedulers, fragments, the limit of ICMP
//!   errors): without a NIC a simulation has one queue, so all have one worker.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

mod fleet;
mod network;
mod traffic;

use std::collections::BTreeMap;

use nic::Fault;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use fleet::{BY_CARD, Fleet, TUNNELLED};
use network::Plan;
use traffic::{Mix, Traffic};

/// Packets that a worker takes from a queue at once. More must not wait in all:
/// the second burst of a queue comes after the first of the others, and which
/// queue has a second one differs.
const BURST: u32 = 32;

/// Counters of all cases, by load balancer.
type Totals = BTreeMap<&'static str, BTreeMap<&'static str, u64>>;

/// One run.
struct Case {
    fleet: Fleet,
    traffic: Traffic,
    rng: StdRng,
    /// Microseconds between packets, at most.
    gap_us: u64,
    /// Polls once in so many packets.
    polls: u32,
    /// One while no rule can come or go.
    moment: u32,
}

impl Case {
    /// Sends `packets`, and what comes of them.
    fn run(&mut self, packets: u64) -> Result<(), String> {
        let end = self.fleet.arrived + packets;
        let mut waiting = 0;
        while self.fleet.arrived < end {
            for (port, frame) in self.traffic.next(self.moment) {
                self.fleet.arrive(port, &frame);
                waiting += 1;
                if waiting == BURST || self.rng.random_ratio(1, self.polls) {
                    waiting = 0;
                    let sent = self.fleet.poll(self.polls > 1)?;
                    self.traffic.see(&sent);
                }
            }
            self.pass_time();
        }
        let sent = self.fleet.poll(true)?;
        self.traffic.see(&sent);
        Ok(())
    }

    fn pass_time(&mut self) {
        if self.rng.random_ratio(1, 2) {
            return;
        }
        let before = self.fleet.now_us;
        self.fleet.now_us += self.rng.random_range(0..self.gap_us);
        self.moment += 1;
        if before / 1000 != self.fleet.now_us / 1000 && self.rng.random_ratio(4, 5) {
            self.fleet.keep();
            if self.rng.random_ratio(1, 30) {
                self.disturb();
            }
        }
    }

    /// Another mixture of faults, or none.
    fn disturb(&mut self) {
        let (seed, per_mille) = (self.rng.random(), self.rng.random_range(0..500));
        let faults = [
            Fault::RefuseShare { per_mille, seed },
            Fault::RefuseCreates { count: 20 },
            Fault::LateCreate { ns: self.rng.random_range(0..20_000_000) },
            // Not longer than the offload side waits for a card to let go.
            Fault::LateDestroy { ns: self.rng.random_range(0..9_000_000) },
            Fault::SilentLoss { per_mille, seed },
            Fault::RefuseDestroys { count: 10 },
            Fault::FullAt { at: usize::from(per_mille / 10) },
        ];
        let chosen: Vec<Fault> =
            faults.into_iter().filter(|_| self.rng.random_ratio(1, 4)).collect();
        self.fleet.order_faults(&chosen);
    }
}

/// What a test varies.
#[derive(Clone, Copy)]
struct Scale {
    cases: u64,
    packets: u64,
    /// Times that everything falls silent in a case.
    silences: u64,
    gap_us: u64,
    polls: u32,
    mix: Mix,
}

/// Runs all cases of one test, each with its own seed, and adds up the counters.
fn check(name: &str, scale: &Scale, plan: impl Fn(&mut StdRng) -> Plan) -> Totals {
    let mut totals = Totals::new();
    for seed in 0..scale.cases {
        let mut rng = StdRng::seed_from_u64(seed);
        let plan = plan(&mut rng);
        let capacity = rng.random_bool(0.5).then(|| rng.random_range(4..40));
        let creations = rng.random_range(1..32);
        let queues = if plan.one_service { 4 } else { [8, 16, 32][rng.random_range(0..3)] };
        let conversations = rng.random_range(2..if plan.one_service { 12 } else { 160 });
        let mut case = Case {
            fleet: Fleet::new(&plan, capacity, creations, queues),
            traffic: Traffic::new(&plan, scale.mix, conversations, seed),
            rng,
            gap_us: scale.gap_us,
            polls: scale.polls,
            moment: 0,
        };
        let fail = |why: String| panic!("{name}, seed {seed}, {plan:?}: {why}");
        for _ in 0..scale.silences {
            case.run(scale.packets).unwrap_or_else(fail);
            case.fleet.fall_silent(500).unwrap_or_else(fail);
        }
        for (member, counters) in case.fleet.check_books(!plan.maglev_only) {
            let sums = totals.entry(member).or_default();
            for (counter, value) in counters {
                *sums.entry(counter).or_default() += value;
            }
        }
    }
    totals
}

/// Asserts that the test could find something: that NICs matched packets, and
/// that `counters` are not 0.
fn check_reach(totals: &Totals, counters: &[&str]) {
    let off = &totals["off"];
    for (member, counted) in totals.iter().filter(|(member, _)| **member != "off") {
        let by_card = counted[BY_CARD];
        let matched = counted["matched_by_mark"] + counted["matched_by_queue"] + by_card;
        let all = counted["forwarded"] + by_card;
        let share = matched * 100 / all;
        println!("{member}: {share} % of {all} forwarded packets matched");
        assert!(share >= 5, "{member}: {share} % matched: {counted:?}");
        let (tunnelled, marked) = (counted[TUNNELLED], counted["matched_by_mark"]);
        println!("{member}: {tunnelled} put into tunnels by the card, {marked} told by mark");
        let rewrites = member.starts_with("rewrite");
        assert_eq!(tunnelled > 50, rewrites, "{member}: {counted:?}");
        assert!(!rewrites || marked > 500, "no second best on {member}: {counted:?}");
    }
    for counter in counters {
        assert!(off[counter] > 0, "{counter} never happened: {off:?}");
    }
}

/// The timeouts of tests that stay below them.
const LONG: &str =
    "tcp_syn = \"20s\"\ntcp_established = \"20s\"\ntcp_closing = \"20s\"\nudp = \"20s\"";
/// Those of the test in which connections age.
const SHORT: &str =
    "tcp_syn = \"150ms\"\ntcp_established = \"300ms\"\ntcp_closing = \"100ms\"\nudp = \"200ms\"";

const MIX: Mix = Mix { expired: 130, oversized: 50, damaged: 60, ports: 12 };

fn plan(rng: &mut StdRng) -> Plan {
    Plan {
        maglev_only: false,
        one_service: false,
        connections: if rng.random_bool(0.5) { 64 } else { 1024 },
        sample: rng.random_range(1..20),
        admit: ["all", "first-packet", "heavy"][rng.random_range(0..3)],
        workers: 1,
        timeouts: LONG,
        fragment_timeout: "20ms",
        flat: rng.random_bool(0.6),
        inside_mtu: [1400, 1500, 1600][rng.random_range(0..3)],
    }
}

/// The workers poll after every packet: all frames in the same order.
#[test]
fn at_once() {
    let scale = Scale { cases: 18, packets: 1900, silences: 2, gap_us: 400, polls: 1, mix: MIX };
    let totals = check("at once", &scale, plan);
    let dropped = [
        "truncated",
        "bad_total_length",
        "bad_header_length",
        "too_many_extension_headers",
        "misplaced_hop_by_hop",
        "transport_truncated",
        "tiny_fragment",
        "wrong_vlan",
        "wrong_mac",
        "bad_icmp",
        "icmp_unrelated",
        "protocol_not_balanced",
        "not_for_us",
        "pool_exhausted",
        "table_full",
        "ttl_expired",
        "too_big",
        "fragment_timeout",
        "fragment_orphaned",
    ];
    let events = [
        "arp_replied",
        "ndp_replied",
        "echo_replied",
        "time_exceeded",
        "packet_too_big",
        "icmp_translated",
        "icmp_limited",
        "reopened",
        "stateless",
        "stateless_reply",
        "arp_learnt",
        "ndp_learnt",
    ];
    check_reach(&totals, &[&dropped[..], &events[..]].concat());
}

/// Packets wait in the queues while rules come and go.
#[test]
fn while_packets_wait() {
    // Few ICMP errors: when their limit is reached, it depends on the order
    // which packets get one. Fragments have time until the last poll.
    let mix = Mix { expired: 2, oversized: 2, ..MIX };
    let scale = Scale { cases: 24, packets: 1500, silences: 2, gap_us: 2000, polls: 25, mix };
    // In half of the cases the backends of one service fight for few queues.
    let plan = |rng: &mut StdRng| Plan {
        fragment_timeout: "20s",
        one_service: rng.random_bool(0.5),
        ..plan(rng)
    };
    let totals = check("while packets wait", &scale, plan);
    check_reach(&totals, &["stateless", "reopened", "icmp_translated", "time_exceeded"]);
}

/// Connections are forgotten and come again between packets.
#[test]
fn while_connections_age() {
    let scale = Scale { cases: 16, packets: 3000, silences: 1, gap_us: 1200, polls: 1, mix: MIX };
    let plan = |rng: &mut StdRng| Plan { maglev_only: true, timeouts: SHORT, ..plan(rng) };
    let totals = check("while connections age", &scale, plan);
    check_reach(&totals, &["stateless", "stateless_reply", "reopened", "icmp_translated"]);
}
