//! Frozen captures: for every mode and family, frames that arrive (`NAME.in.pcap`)
//! and the frames that must leave, byte for byte and at the same times
//! (`NAME.out.pcap`), whichever card and encoding the load balancer has; and
//! the counters of each of them (`NAME.counters`).
//!
//! `UPDATE_GOLDEN=1 cargo test -p replay --test replay golden::` writes all files anew;
//! the difference is then to be read and explained by whoever commits it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

mod case;
mod foreseen;
mod script;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use capture::{CaptureReader, CaptureWriter, Captured, Format};
use flow::{CardProfile, Encoding, PortId};
use replay::{Arrivals, Options, Ports, Simulation};
use wire::Headers;

use case::Case;

/// The load balancers that a capture is sent through: the first one's frames
/// are kept, the others' must equal them.
const MEMBERS: [(&str, Option<CardProfile>, Encoding); 9] = [
    ("off", None, Encoding::Off),
    ("mark on x550", Some(CardProfile::X550), Encoding::Mark),
    ("queue on x550", Some(CardProfile::X550), Encoding::Queue),
    ("mark on e810", Some(CardProfile::E810), Encoding::Mark),
    ("queue on e810", Some(CardProfile::E810), Encoding::Queue),
    ("mark on connectx", Some(CardProfile::ConnectX), Encoding::Mark),
    ("queue on bluefield3", Some(CardProfile::BlueField3), Encoding::Queue),
    ("rewrite on connectx", Some(CardProfile::ConnectX), Encoding::Rewrite),
    ("rewrite on bluefield3", Some(CardProfile::BlueField3), Encoding::Rewrite),
];

fn updating() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some_and(|value| value == "1")
}

fn file(case: &Case, kind: &str) -> PathBuf {
    let captures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/captures");
    captures.join(format!("{}.{kind}", case.name()))
}

fn read(path: &Path) -> Vec<Captured> {
    let mut reader = CaptureReader::open(path).unwrap_or_else(|error| panic!("{error}"));
    std::iter::from_fn(|| reader.read().unwrap()).collect()
}

fn write(path: &Path, frames: &[Captured]) {
    let mut writer = CaptureWriter::create(path, Format::Pcap, &[], &[]).unwrap();
    for Captured { time, frame, .. } in frames {
        writer.write(0, *time, frame).unwrap();
    }
    writer.finish().unwrap();
}

/// What member number `member` makes of the capture of `case`, and its counters.
fn run(case: &Case, member: usize) -> (Vec<Captured>, String) {
    let (name, nic, encoding) = MEMBERS[member];
    let options = Options { nic, encoding, ..Options::default() };
    let mut simulation = Simulation::new(&case.config(), &options).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let sent = dir.path().join("sent.pcap");
    let writer = CaptureWriter::create(&sent, Format::Pcap, &[], &[]).unwrap();
    let reader = CaptureReader::open(&file(case, "in.pcap")).unwrap();
    let arrivals = Arrivals::new(vec![(reader, Ports::One(PortId(0)))]);
    let done = replay::replay(&mut simulation, arrivals, writer, None).unwrap();
    assert!(done.error.is_none(), "{:?}", done.error);
    for counters in simulation.worker_counters() {
        let (came, went) = counters.balance();
        assert_eq!(came, went, "{}, {name}: {:?}", case.name(), counters);
    }
    let mut text = format!("[{name}]\n");
    for (counter, value) in simulation.counters().into_iter().filter(|(_, value)| *value > 0) {
        writeln!(text, "{counter} {value}").unwrap();
    }
    if let Some(nic) = simulation.nic(PortId(0)).map(|nic| nic.stats()) {
        for (counter, value) in [("forwarded", nic.forwarded), ("tunnelled", nic.tunnelled)] {
            writeln!(text, "{counter}_by_card {value}").unwrap();
        }
    }
    (read(&sent), text)
}

/// A card that sends frames on itself leaves what lies behind the IP packet,
/// which software cuts off.
fn without_trailer(mut sent: Vec<Captured>) -> Vec<Captured> {
    for Captured { frame, .. } in &mut sent {
        if let Ok(headers) = Headers::parse(frame) {
            frame.truncate(usize::from(headers.end));
        }
    }
    sent
}

/// Where `sent` differs from `kept` first.
fn difference(kept: &[Captured], sent: &[Captured]) -> Option<String> {
    for (number, (kept, sent)) in kept.iter().zip(sent).enumerate() {
        let at = kept.frame.iter().zip(&sent.frame).position(|(a, b)| a != b);
        let lengths = (kept.frame.len(), sent.frame.len());
        if let Some(at) = at {
            let (a, b) = (kept.frame[at], sent.frame[at]);
            return Some(format!(
                "frame {number} differs from byte {at} on: {a:#04x} is kept, {b:#04x} was sent\n\
                 kept {}\nsent {}",
                show(kept),
                show(sent)
            ));
        }
        if lengths.0 != lengths.1 {
            return Some(format!("frame {number} has {} bytes, not {}", lengths.1, lengths.0));
        }
        if kept.time != sent.time {
            return Some(format!("frame {number} left at {:?}, not {:?}", sent.time, kept.time));
        }
    }
    let (some, all) = (sent.len(), kept.len());
    let first = kept.get(some).or(sent.get(all)).map(show);
    first.map(|first| {
        format!("{some} frames were sent, not {all}; the first of the rest is {first}")
    })
}

fn show(Captured { time, frame, .. }: &Captured) -> String {
    let hex: String = frame.iter().take(120).map(|byte| format!("{byte:02x}")).collect();
    format!("at {time:?}, {} bytes: {hex}", frame.len())
}

/// The first line in which the texts differ.
fn line_difference(kept: &str, found: &str) -> Option<String> {
    let mut member = "";
    let mut pairs = kept
        .lines()
        .map(Some)
        .chain(std::iter::repeat(None))
        .zip(found.lines().map(Some).chain(std::iter::repeat(None)));
    loop {
        match pairs.next()? {
            (None, None) => return None,
            (Some(kept), Some(found)) if kept == found => {
                if kept.starts_with('[') {
                    member = kept;
                }
            }
            (kept, found) => {
                return Some(format!("{member}: {kept:?} is kept, {found:?} was counted"));
            }
        }
    }
}

/// Compares one case, or writes it anew; what differs.
fn check(case: &Case) -> Vec<String> {
    if updating() {
        write(&file(case, "in.pcap"), &script::frames(case));
    }
    let mut wrong = Vec::new();
    let mut all_counters = String::new();
    for (member, (name, _, encoding)) in MEMBERS.into_iter().enumerate() {
        let (mut sent, counters) = run(case, member);
        all_counters += &counters;
        let out = file(case, "out.pcap");
        if updating() && member == 0 {
            write(&out, &sent);
        }
        let mut kept = read(&out);
        if encoding == Encoding::Rewrite || case.is_stateless() {
            (kept, sent) = (without_trailer(kept), without_trailer(sent));
        }
        if let Some(difference) = difference(&kept, &sent) {
            wrong.push(format!("{}, {name}: {difference}", case.name()));
        }
    }
    let counters = file(case, "counters");
    if updating() {
        std::fs::write(&counters, &all_counters).unwrap();
    }
    let kept = std::fs::read_to_string(&counters).unwrap();
    if let Some(difference) = line_difference(&kept, &all_counters) {
        wrong.push(format!("{}: counters of {difference}", case.name()));
    }
    wrong
}

#[test]
fn captures_are_as_they_were() {
    let wrong: Vec<String> = Case::all().iter().flat_map(check).collect();
    assert!(
        wrong.is_empty(),
        "{}\nif that is meant: UPDATE_GOLDEN=1 cargo test -p replay --test replay golden::",
        wrong.join("\n")
    );
}

/// The captures show what they are meant to show: every card takes part, and
/// what is rare happens.
#[test]
fn captures_reach_everything() {
    if updating() {
        return;
    }
    for case in Case::all() {
        let counters = std::fs::read_to_string(file(&case, "counters")).unwrap();
        for section in counters.split("[").skip(1) {
            let name = section.split(']').next().unwrap();
            let count = |counter: &str| {
                let line = section.lines().find_map(|line| line.strip_prefix(counter));
                line.map_or(0, |value| value.trim().parse::<u64>().unwrap())
            };
            let told = count("matched_by_mark ")
                + count("matched_by_queue ")
                + count("forwarded_by_card ");
            assert_eq!(told > 40, case.concerns(name), "{}, {name}: {section}", case.name());
        }
        for counter in ["time_exceeded", "echo_replied", "wrong_mac", "wrong_vlan"] {
            assert!(counters.contains(counter), "{}: no {counter}", case.name());
        }
    }
}
