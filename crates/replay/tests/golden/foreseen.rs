//! What a sandbox tells of each frame of the captures before it is served, next to what
//! then becomes of it.
use capture::Captured;
use explain::Sandbox;
use flow::PortId;
use packet::PacketBuf;
use replay::{Options, Sent, Simulation};
use status::PacketStory;
use wire::{Fragment, Headers, Net};

use super::case::Case;
use super::{file, read};

/// Whether the frame's fate follows from what a sandbox copies: fragments of a datagram
/// whose others are behind, and neighbours that ask or answer, have states of their own.
fn follows(frame: &[u8]) -> bool {
    let Ok(headers) = Headers::parse(frame) else { return true };
    headers.fragment == Fragment::Whole && headers.net != Net::Arp && !is_ndp(frame, &headers)
}

fn is_ndp(frame: &[u8], headers: &Headers) -> bool {
    wire::ndp::Repr::parse(frame, headers).is_ok()
}

fn bytes(sent: &[Sent]) -> Vec<String> {
    sent.iter().map(|sent| hex::encode(sent.packet.bytes())).collect()
}

/// Frames of which the sandbox told the truth, and the differences.
fn check(case: &Case) -> (usize, Vec<String>) {
    let (mut right, mut wrong) = (0, Vec::new());
    let mut simulation = Simulation::new(&case.config(), &Options::default()).unwrap();
    let mut start = None;
    for captured in read(&file(case, "in.pcap")) {
        let Captured { number, time, frame, .. } = &captured;
        let now = time.saturating_sub(*start.get_or_insert(*time));
        let now_ms = now.as_millis() as u64;
        simulation.keep(now_ms);
        simulation.poll(now_ms);
        let mut sandbox = Sandbox::of(simulation.shared()).unwrap();
        let arrival = (PortId(0), frame.as_slice());
        let (_, told) = sandbox.story(simulation.shared(), arrival, &["p0"], now_ms);
        simulation.take_sent();
        simulation.arrive(PortId(0), frame, now.as_nanos() as u64);
        simulation.poll(now_ms);
        let sent = bytes(&simulation.take_sent());
        let foreseen: Vec<String> = told.sent.iter().map(|sent| sent.frame.clone()).collect();
        let may_differ = told.why.contains("in turn") && foreseen.len() == sent.len();
        match follows(frame) {
            true if foreseen == sent || may_differ => right += 1,
            true => wrong.push(difference(case, *number, &told, &sent)),
            false => {}
        }
    }
    (right, wrong)
}

fn difference(case: &Case, number: u64, told: &PacketStory, sent: &[String]) -> String {
    let PacketStory { verdict, why, frame, .. } = told;
    let foreseen: Vec<&str> = told.sent.iter().map(|sent| sent.frame.as_str()).collect();
    format!(
        "{}, frame {number} {frame}\n  told: {verdict}, {why}: {foreseen:?}\n  sent: {sent:?}",
        case.name()
    )
}

#[test]
fn a_sandbox_foresees_what_leaves() {
    let mut all = 0;
    let mut all_wrong = Vec::new();
    for case in Case::all() {
        let (right, wrong) = check(&case);
        all += right;
        all_wrong.extend(wrong);
    }
    assert!(all_wrong.is_empty(), "{}", all_wrong.join("\n"));
    assert!(all > 1000, "{all}");
}
