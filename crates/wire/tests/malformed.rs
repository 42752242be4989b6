//! Ten million broken frames through everything that reads or changes bytes.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::support;

use support::corpus::{Dice, frames, malform};
use support::{checks, replies};

/// Per test; two of them run side by side.
const FRAMES: u32 = 5_000_000;

fn run(seed: u64) {
    let frames = frames();
    let mut dice = Dice(seed);
    let mut frame = Vec::new();
    let mut accepted = 0_u32;
    for _ in 0..FRAMES {
        malform(&mut dice, &frames, &mut frame);
        accepted += u32::from(wire::Headers::parse(&frame).is_ok());
        checks::parse(&frame);
        checks::rewrite(&frame);
        replies::icmp_error(&frame);
        replies::ndp_arp(&frame);
    }
    // The generator must reach behind the parser, and must not only do that.
    assert!(accepted > FRAMES / 5 && accepted < FRAMES / 5 * 4, "{accepted} accepted");
}

#[test]
fn five_million_broken_frames_do_no_harm() {
    run(1);
}

#[test]
fn five_million_other_broken_frames_do_no_harm() {
    run(2);
}

#[test]
fn every_valid_frame_passes_every_check() {
    for frame in frames() {
        assert!(wire::Headers::parse(&frame).is_ok(), "{frame:02x?}");
        checks::parse(&frame);
        checks::rewrite(&frame);
        replies::icmp_error(&frame);
        replies::ndp_arp(&frame);
    }
}

#[test]
fn the_generator_gives_every_reason() {
    let frames = frames();
    let mut dice = Dice(3);
    let mut frame = Vec::new();
    let mut seen = std::collections::HashSet::from([wire::Malformed::TooLong]);
    for _ in 0..1_000_000 {
        malform(&mut dice, &frames, &mut frame);
        match wire::Headers::parse(&frame) {
            Ok(headers) => seen.extend(headers.check(&frame, false).err()),
            Err(reason) => _ = seen.insert(reason),
        }
    }
    for reason in wire::Malformed::ALL {
        assert!(seen.contains(reason), "{reason:?} never happened");
    }
    assert_eq!(wire::Headers::parse(&vec![0; 65536]), Err(wire::Malformed::TooLong));
}
