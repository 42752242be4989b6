//! The TCP state machine, as seen through the table.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, clippy::panic)]
use crate::common;

use common::{binding, hops, segment, table};
use conntrack::{ConnId, ConnState as S, ConnTable, Event as E, Hit, OffloadState, Segment};
use flow::Direction::{Forward, Reply};
use wire::TcpFlags;

const SYN: u8 = TcpFlags::SYN;
const ACK: u8 = TcpFlags::ACK;
const FIN: u8 = TcpFlags::FIN;
const RST: u8 = TcpFlags::RST;

/// Packets of a fresh TCP connection, each with the state after it.
fn play(packets: &[(flow::Direction, u8, S, E)]) {
    play_with(0, packets);
}

/// As [`play`], of connection number `n` of those that [`binding`] gives.
fn play_with(n: u32, packets: &[(flow::Direction, u8, S, E)]) {
    let table = table(1, 0);
    let conn = table.insert(&binding(n, false), hops(n), 0).unwrap();
    assert_eq!(table.state(conn), Some(S::New));
    for (step, &(direction, flags, state, event)) in packets.iter().enumerate() {
        let hit = Hit { conn, direction };
        let before = table.state(conn).unwrap();
        assert_eq!(table.touch(hit, None, 0), E::None, "a packet without flags");
        assert_eq!(table.state(conn), Some(before));
        let seen = table.touch(hit, Some(segment(flags)), 0);
        assert_eq!((table.state(conn), seen), (Some(state), event), "packet {step}");
    }
}

#[test]
fn a_connection_from_syn_to_time_wait_and_again() {
    play(&[
        (Forward, SYN, S::Syn, E::None),
        (Forward, SYN, S::Syn, E::None),
        (Reply, SYN | ACK, S::SynAck, E::Answered),
        (Forward, SYN, S::SynAck, E::None),
        (Reply, SYN | ACK, S::SynAck, E::None),
        (Forward, ACK, S::Established, E::Established),
        (Reply, ACK, S::Established, E::None),
        (Forward, SYN, S::Established, E::None),
        (Reply, SYN | ACK, S::Established, E::None),
        (Reply, FIN | ACK, S::HalfClosed(Reply), E::None),
        (Reply, FIN | ACK, S::HalfClosed(Reply), E::None),
        (Forward, ACK, S::HalfClosed(Reply), E::None),
        (Forward, SYN, S::HalfClosed(Reply), E::None),
        (Forward, FIN | ACK, S::Closing, E::Closing),
        (Reply, ACK, S::Closing, E::None),
        (Reply, FIN | ACK, S::Closing, E::None),
        (Reply, SYN | ACK, S::Closing, E::None),
        (Forward, SYN, S::Syn, E::Reopened),
        (Reply, SYN | ACK, S::SynAck, E::Answered),
        (Forward, ACK, S::Established, E::Established),
        (Forward, FIN | ACK, S::HalfClosed(Forward), E::None),
        (Reply, FIN | ACK, S::Closing, E::Closing),
    ]);
}

#[test]
fn a_connection_picked_up_midway() {
    play(&[
        (Forward, ACK, S::PickedUp, E::None),
        (Forward, ACK, S::PickedUp, E::None),
        (Reply, ACK, S::Established, E::Established),
    ]);
    play(&[
        (Forward, ACK, S::PickedUp, E::None),
        (Forward, SYN, S::Syn, E::None),
        (Reply, ACK, S::Established, E::Established),
    ]);
    play(&[(Forward, FIN | ACK, S::HalfClosed(Forward), E::None)]);
    play(&[(Reply, ACK, S::Established, E::Established)]);
    play(&[(Reply, SYN | ACK, S::SynAck, E::Answered)]);
}

#[test]
fn a_reset_is_believed_until_the_next_packet() {
    let open = [
        (Forward, SYN, S::Syn, E::None),
        (Reply, SYN | ACK, S::SynAck, E::Answered),
        (Forward, ACK, S::Established, E::Established),
    ];
    let after = |rest: &[_]| play(&[&open, rest].concat());
    after(&[
        (Forward, RST, S::Reset, E::Reset),
        (Reply, RST | ACK, S::Reset, E::None),
        (Reply, ACK, S::Established, E::Restored),
        (Reply, RST, S::Reset, E::Reset),
        (Forward, ACK, S::Established, E::Restored),
    ]);
    after(&[
        (Forward, RST, S::Reset, E::Reset),
        (Reply, FIN | ACK, S::HalfClosed(Reply), E::Restored),
        (Forward, RST, S::Reset, E::Reset),
        (Forward, FIN | ACK, S::Closing, E::Closing),
        (Forward, RST, S::Reset, E::Reset),
        (Forward, SYN, S::Syn, E::Reopened),
    ]);
    play(&[
        (Forward, SYN, S::Syn, E::None),
        (Reply, RST | ACK, S::Reset, E::Reset),
        (Reply, SYN | ACK, S::SynAck, E::Restored),
        (Forward, RST, S::Reset, E::Reset),
        (Forward, ACK, S::Established, E::Established),
    ]);
}

/// A TCP connection in mode `dsr`, one in a tunnel, and one of UDP.
const ONE_WAY: [u32; 2] = [8, 14];
const ONE_WAY_UDP: u32 = 3;

#[test]
fn of_a_one_way_connection_the_client_tells_the_state() {
    for n in ONE_WAY {
        assert!(binding(n, false).forwarding.is_one_way());
        play_with(
            n,
            &[
                (Forward, SYN, S::Syn, E::None),
                (Forward, SYN, S::Syn, E::None),
                (Forward, ACK, S::Established, E::Established),
                (Forward, ACK, S::Established, E::None),
                (Forward, SYN, S::Established, E::None),
                (Forward, FIN | ACK, S::Closing, E::Closing),
                (Forward, FIN | ACK, S::Closing, E::None),
                (Forward, ACK, S::Closing, E::None),
                (Forward, SYN, S::Syn, E::Reopened),
                (Forward, RST, S::Reset, E::Reset),
                (Forward, ACK, S::Established, E::Established),
                (Forward, RST, S::Reset, E::Reset),
                (Forward, ACK, S::Established, E::Restored),
            ],
        );
        // One packet of a client that nobody knows is no connection yet.
        play_with(
            n,
            &[(Forward, ACK, S::PickedUp, E::None), (Forward, ACK, S::Established, E::Established)],
        );
        play_with(n, &[(Forward, FIN | ACK, S::Closing, E::Closing)]);
    }
}

#[test]
fn answers_that_pass_all_the_same_change_nothing() {
    for n in ONE_WAY {
        play_with(
            n,
            &[
                (Forward, SYN, S::Syn, E::None),
                (Reply, SYN | ACK, S::Syn, E::None),
                (Forward, ACK, S::Established, E::Established),
                (Reply, FIN | ACK, S::Established, E::None),
                (Reply, RST, S::Established, E::None),
                (Forward, FIN | ACK, S::Closing, E::Closing),
            ],
        );
    }
}

#[test]
fn a_one_way_udp_client_that_goes_on_was_answered() {
    let table = table(1, 0);
    let conn = table.insert(&binding(ONE_WAY_UDP, false), hops(0), 0).unwrap();
    assert_eq!(table.state(conn), Some(S::New));
    let touch = |direction| table.touch(Hit { conn, direction }, None, 0);
    assert_eq!((touch(Forward), table.state(conn)), (E::None, Some(S::Unanswered)));
    assert_eq!((touch(Reply), table.state(conn)), (E::None, Some(S::Unanswered)));
    assert_eq!((touch(Forward), table.state(conn)), (E::Established, Some(S::Stream)));
    assert_eq!((touch(Forward), table.state(conn)), (E::None, Some(S::Stream)));
}

#[test]
fn udp_knows_whether_it_was_answered() {
    let table = table(1, 0);
    let conn = table.insert(&binding(1, false), hops(1), 0).unwrap();
    let touch = |direction| table.touch(Hit { conn, direction }, None, 0);
    assert_eq!((touch(Forward), table.state(conn)), (E::None, Some(S::Unanswered)));
    assert_eq!((touch(Reply), table.state(conn)), (E::Established, Some(S::Stream)));
    assert_eq!((touch(Reply), table.state(conn)), (E::None, Some(S::Stream)));
}

/// The ids that one sweep over everything reports.
fn expired(table: &ConnTable, now_ms: u64) -> usize {
    let mut count = 0;
    table.sweep(now_ms, usize::MAX, &mut |_, _| count += 1);
    count
}

/// The client's numbers begin here, as far as the server has acknowledged them.
const BEGAN: u32 = u32::MAX - 50;

/// A connection of number `n` that is open.
fn opened(table: &ConnTable, n: u32, now_ms: u64) -> ConnId {
    let conn = table.insert(&binding(n, false), hops(n), now_ms).unwrap();
    for (direction, flags) in [(Forward, SYN), (Reply, SYN | ACK), (Forward, ACK)] {
        let sequence = if direction == Forward { BEGAN } else { 7 };
        let flags = TcpFlags(flags);
        let segment = Segment { flags, sequence, acknowledgement: BEGAN };
        table.touch(Hit { conn, direction }, Some(segment), now_ms);
    }
    assert_eq!(table.state(conn), Some(S::Established));
    conn
}

#[test]
fn a_clients_reset_must_be_where_the_client_can_be() {
    const SENT: u32 = 1 << 22;
    for n in [0, ONE_WAY[0], ONE_WAY[1]] {
        let table = table(1, 0);
        let conn = opened(&table, n, 0);
        let reset = |direction, sequence| {
            let segment = Segment { sequence, ..segment(RST) };
            table.touch(Hit { conn, direction }, Some(segment), 0)
        };
        let out = [7 + SENT, BEGAN.wrapping_sub(1), BEGAN.wrapping_add(SENT), 1 << 31];
        for half_closed in [false, true] {
            for sequence in out {
                let before = table.state(conn);
                assert_eq!(reset(Forward, sequence), E::ResetDoubted, "{sequence}");
                assert_eq!(table.state(conn), before);
            }
            for sequence in [BEGAN, 7, BEGAN.wrapping_add(SENT - 1)] {
                assert_eq!(reset(Forward, sequence), E::Reset, "{sequence}");
                let restored = table.touch(Hit { conn, direction: Forward }, Some(segment(ACK)), 0);
                assert_eq!(restored, E::Restored);
            }
            if n != 0 || half_closed {
                break;
            }
            table.touch(Hit { conn, direction: Forward }, Some(segment(FIN | ACK)), 0);
            assert_eq!(table.state(conn), Some(S::HalfClosed(Forward)));
        }
    }
}

/// A forger who sends the whole handshake can't say where the client's numbers
/// are: only the server's acknowledgement does.
#[test]
fn the_server_says_where_the_client_is() {
    let table = table(1, 0);
    let conn = table.insert(&binding(0, false), hops(0), 0).unwrap();
    let touch = |direction, flags, sequence, acknowledgement| {
        let segment = Segment { flags: TcpFlags(flags), sequence, acknowledgement };
        table.touch(Hit { conn, direction }, Some(segment), 0)
    };
    touch(Forward, SYN, 5_000_000, 0);
    touch(Reply, RST, 0, 0);
    touch(Reply, SYN | ACK, 1, 90_000_000);
    assert_eq!(touch(Forward, ACK, 5_000_000, 2), E::Established);
    assert_eq!(touch(Forward, RST, 5_000_000, 2), E::ResetDoubted);
    assert_eq!(touch(Forward, RST, 90_000_001, 2), E::Reset);
    // The next connection of the same 5-tuple has numbers of its own.
    assert_eq!(touch(Forward, SYN, 1, 0), E::Reopened);
    touch(Reply, SYN | ACK, 1, 2);
    touch(Forward, ACK, 2, 2);
    assert_eq!(touch(Forward, RST, 90_000_001, 2), E::ResetDoubted);
    assert_eq!(touch(Forward, RST, 2, 2), E::Reset);
}

/// The sweep and the rules' timeouts go by the connection's service.
#[test]
fn each_service_has_its_timeouts() {
    let table = table(64, 64);
    let all: Vec<_> = (0..40)
        .flat_map(|n| [false, true].map(|v6| (n, v6)))
        .filter(|(n, _)| n % 5 < 3 && n % 2 == 0)
        .map(|(n, v6)| {
            let conn = table.insert(&binding(n, v6), hops(n), 0).unwrap();
            for (direction, flags) in [(Forward, SYN), (Reply, SYN | ACK), (Forward, ACK)] {
                table.touch(Hit { conn, direction }, Some(segment(flags)), 0);
            }
            (conn, binding(n, v6).service.0)
        })
        .collect();
    let general = service::Timeouts { established_ms: 50_000, ..Default::default() };
    let own = |n: u16| 1000 * u32::from(1 + n);
    let timeouts = common::timeouts(general, &|n| {
        (n % 2 == 0).then(|| service::Timeouts { established_ms: own(n), ..general })
    });
    table.set_timeouts(timeouts);
    for &(conn, service) in &all {
        let wanted = if service % 2 == 0 { own(service) } else { 50_000 };
        assert_eq!(table.timeout_ms(conn), Some(wanted));
        let due = |now_ms: u32| {
            let mut due = false;
            table.sweep(now_ms.into(), usize::MAX, &mut |found, _| due |= found == conn);
            due
        };
        assert!(!due(wanted - 1) && due(wanted + 130), "service {service}");
    }
    table.set_timeouts(general.into());
    assert_eq!(expired(&table, 40_000), 0, "those that are there, too");
}

#[test]
fn doubtful_ends_are_kept_as_long_as_there_is_room() {
    let timeouts = service::Timeouts::default();
    let kept = |n: u32, packets: &[(flow::Direction, u8)], others: u32| {
        let table = table(16, 0);
        let conn = opened(&table, n, 0);
        for &(direction, flags) in packets {
            let segment = Segment { sequence: BEGAN, ..segment(flags) };
            table.touch(Hit { conn, direction }, Some(segment), 0);
        }
        let timeout = table.timeout_ms(conn).unwrap();
        for other in 0..others {
            table.insert(&binding(100 + other, false), hops(0), 1 << 30).unwrap();
        }
        let end = |timeout| u64::from(timeout) - 1;
        let full = table.timeout_ms(conn).unwrap();
        assert_eq!(expired(&table, end(full)), 0);
        assert_eq!(expired(&table, end(full) + 130), 1);
        (timeout, full)
    };
    let (doubtful, closing, reset) = (timeouts.doubtful_ms, timeouts.closing_ms, timeouts.reset_ms);
    let rst: &[_] = &[(Forward, RST)];
    for (others, then) in [(13, doubtful), (14, reset)] {
        assert_eq!(kept(0, rst, others), (doubtful, then), "{others}");
        assert_eq!(kept(0, &[(Reply, RST)], others), (doubtful, then));
        assert_eq!(kept(0, &[(Forward, FIN), (Forward, RST)], others), (doubtful, then));
        assert_eq!(kept(ONE_WAY[0], rst, others), (doubtful, then));
        let then = if then == reset { closing } else { then };
        assert_eq!(kept(ONE_WAY[0], &[(Forward, FIN)], others), (doubtful, then));
    }
    // Both ends have said so.
    let fins = [(Forward, FIN), (Reply, FIN)];
    assert_eq!(kept(0, &fins, 0).0, closing);
    assert_eq!(kept(0, &[fins[0], fins[1], (Forward, RST)], 0).0, reset);
    assert_eq!(kept(ONE_WAY[1], &[(Forward, FIN), (Forward, RST)], 0).0, reset);
}

/// Both ends have said FIN, and the message about it may have been lost: as
/// long as there are rules that nobody takes back, the sweep says so.
#[test]
fn an_ended_connection_with_rules_is_reported_before_its_timeout() {
    for (flags, offload, told) in [
        ([FIN, FIN], OffloadState::Installed, true),
        ([RST, RST], OffloadState::Installed, true),
        ([FIN, FIN], OffloadState::Wanted, true),
        ([FIN, FIN], OffloadState::Withdrawing, false),
        ([FIN, FIN], OffloadState::None, false),
        ([FIN, ACK], OffloadState::Installed, false),
    ] {
        let table = table(1, 0);
        let conn = table.insert(&binding(0, false), hops(0), 0).unwrap();
        for (direction, flags) in [Forward, Reply]
            .into_iter()
            .zip([ACK, ACK])
            .chain([Forward, Reply].into_iter().zip(flags))
        {
            table.touch(Hit { conn, direction }, Some(segment(flags)), 0);
        }
        table.change_offload(conn, OffloadState::None, offload);
        let mut seen = Vec::new();
        table.sweep(900, usize::MAX, &mut |conn, expiry| seen.push((conn, expiry.is_over)));
        assert_eq!(seen, [], "the worker's own message has time to arrive");
        table.sweep(1100, usize::MAX, &mut |conn, expiry| seen.push((conn, expiry.is_over)));
        let expected = if told { vec![(conn, false)] } else { Vec::new() };
        assert_eq!(seen, expected, "{flags:?} {offload:?}");
    }
}

#[test]
fn what_has_rules_is_not_removed_from_software() {
    let table = table(1, 1);
    for conn in [
        table.insert(&binding(0, false), hops(0), 0).unwrap(),
        table.insert(&binding(1, true), hops(1), 0).unwrap(),
    ] {
        let mut before = OffloadState::None;
        for state in [OffloadState::Wanted, OffloadState::Installed, OffloadState::Withdrawing] {
            assert!(table.change_offload(conn, before, state));
            assert_eq!(table.remove_from_software(conn), None, "{state:?}");
            assert!(table.is_live(conn));
            before = state;
        }
        assert!(table.change_offload(conn, before, OffloadState::None));
        assert!(table.remove_from_software(conn).is_some());
        assert!(!table.is_live(conn));
        assert_eq!(table.remove_from_software(conn), None, "once only");
    }
}

#[test]
fn the_timeout_follows_the_state() {
    let timeouts = service::Timeouts::default();
    type Packets<'a> = &'a [(flow::Direction, u8)];
    let cases: [(u32, Packets, u32); 7] = [
        (0, &[], timeouts.syn_ms),
        (0, &[(Forward, SYN), (Reply, SYN | ACK)], timeouts.syn_ms),
        (0, &[(Forward, ACK), (Reply, ACK)], timeouts.established_ms),
        (0, &[(Forward, FIN), (Reply, FIN)], timeouts.closing_ms),
        (0, &[(Forward, RST)], timeouts.reset_ms),
        (1, &[(Forward, 0)], timeouts.udp_ms),
        (1, &[(Forward, 0), (Reply, 0)], timeouts.udp_stream_ms),
    ];
    // Also across the wrap of the tick clock.
    for start in [0, 1_000_037, (1 << 38) - 5_000] {
        for (n, packets, timeout) in cases {
            let table = table(1, 0);
            let conn = table.insert(&binding(n, false), hops(n), start).unwrap();
            for &(direction, flags) in packets {
                let flags = (n == 0).then(|| segment(flags));
                table.touch(Hit { conn, direction }, flags, start);
            }
            let end = start + u64::from(timeout);
            assert_eq!(expired(&table, end - 1), 0, "never early");
            assert_eq!(expired(&table, end + 128), 1, "at most two ticks late");
            assert!(table.rearm(conn, end));
            assert_eq!(expired(&table, end + u64::from(timeout) - 1), 0);
            assert_eq!(expired(&table, end + u64::from(timeout) + 128), 1);
            // A worker whose clock is a little ahead ages nothing.
            assert_eq!(expired(&table, end - 1000), 0);
        }
    }
}
