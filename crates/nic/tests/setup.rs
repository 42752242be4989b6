//! Configuration errors, default queues, redirection tables, bursts.
#![allow(clippy::panic)]

use crate::common;

use common::{nic, nth, packet, receive, tcp};
use flow::CardProfile;
use nic::{Disposition, Nic, NicConfig, NicError, Reta};

fn error(config: NicConfig) -> NicError {
    match Nic::new(&config) {
        Ok(_) => panic!("made: {config:?}"),
        Err(error) => error,
    }
}

#[test]
fn what_the_card_has_not_is_refused() {
    let x550 = || NicConfig::new(CardProfile::X550, 8);
    let table: &[(NicConfig, &str)] = &[
        (
            NicConfig { capacity: Some(3000), ..x550() },
            "x550 has a table of [2048, 4096, 8192] filters, not 3000",
        ),
        (
            NicConfig { capacity: Some(16_385), ..NicConfig::new(CardProfile::E810, 8) },
            "e810 has 1 to 16384 filters, not 16385",
        ),
        (NicConfig { queues: 0, ..x550() }, "x550 has 1 to 128 receive queues, not 0"),
        (NicConfig { queues: 129, ..x550() }, "x550 has 1 to 128 receive queues, not 129"),
        (
            NicConfig { reta: Reta::Queues(0), ..x550() },
            "frames that match no rule need at least one default queue",
        ),
        (
            NicConfig { reta: Reta::Queues(9), ..x550() },
            "the redirection table of x550 can name queues 0 to 7, not 8",
        ),
        (
            NicConfig { reta: Reta::Table(vec![0; 100]), ..x550() },
            "x550 has a redirection table of [128, 512] entries, not 100",
        ),
        (
            NicConfig { reta: Reta::Table(vec![64; 128]), queues: 100, ..x550() },
            "the redirection table of x550 can name queues 0 to 63, not 64",
        ),
    ];
    for (config, text) in table {
        assert_eq!(error(config.clone()).to_string(), *text);
    }
}

#[test]
fn misses_spread_over_the_default_queues_only() {
    let config = NicConfig { reta: Reta::Queues(4), ..NicConfig::new(CardProfile::X550, 8) };
    let nic = Nic::new(&config).unwrap();
    for n in 0..1000 {
        assert_eq!(receive(&nic, &nth(n)), receive(&nic, &nth(n)), "a flow stays in its queue");
    }
    let stats = nic.stats();
    assert!(stats.per_queue[..4].iter().all(|count| (300..700).contains(count)), "{stats:?}");
    assert_eq!(stats.per_queue[4..], [0; 4]);
    assert_eq!((stats.received, stats.missed, stats.matched), (2000, 2000, 0));
}

#[test]
fn the_low_bits_of_the_hash_index_the_table() {
    let reta: Vec<u16> = (0..128).map(|entry| if entry == 0x78 { 5 } else { 1 }).collect();
    let config = NicConfig { reta: Reta::Table(reta), ..NicConfig::new(CardProfile::X550, 8) };
    let nic = Nic::new(&config).unwrap();
    // Microsoft's first vector: hash 0x51ccc178 with ports, 0x323e8fc2 without.
    let vector = tcp("66.9.149.187:2794", "161.142.100.80:1766");
    assert_eq!(receive(&nic, &vector).queue, 5);
    let fragment = common::Packet { fragment: true, ..vector };
    assert_eq!(receive(&nic, &fragment).queue, 1);
    assert_eq!(receive(&nic, &packet(1, "66.9.149.187:0", "161.142.100.80:0")).queue, 1);
}

#[test]
fn fragments_of_a_datagram_stay_together() {
    let reta: Vec<u16> = (0..128).map(|entry| if entry == 0x42 { 5 } else { 1 }).collect();
    let config = NicConfig { reta: Reta::Table(reta), ..NicConfig::new(CardProfile::X550, 8) };
    let nic = Nic::new(&config).unwrap();
    // Hash over addresses: 0x323e8fc2.
    let vector = tcp("66.9.149.187:2794", "161.142.100.80:1766");
    assert_eq!(receive(&nic, &common::Packet { fragment: true, ..vector }).queue, 5);
    assert_eq!(receive(&nic, &packet(1, "66.9.149.187:0", "161.142.100.80:0")).queue, 5);
}

#[test]
fn a_burst_takes_as_many_frames_as_there_is_room_for() {
    let nic = nic(CardProfile::X550, 2);
    let frame = nth(0).frame();
    let mut out: [Disposition; 3] = Default::default();
    let mut frames = vec![frame.as_slice(); 5].into_iter();
    assert_eq!(nic.receive_burst(&mut frames, 0, &mut out), 3);
    assert_eq!(nic.receive_burst(&mut frames, 0, &mut out), 2);
    assert_eq!(nic.stats().received, 5);
}
