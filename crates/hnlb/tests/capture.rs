//! `hnlb capture` of a running `hnlb` whose port receives a capture again and again.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use capture::{CaptureWriter, Format};
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use tempfile::TempDir;
use testkit::segments::{OWN, Segment, frame, seen};
use testkit::{ConfigText, Program};
use wire::Transport;

/// TCP on port 80 and UDP on port 53, over a port that receives the capture `frames`.
fn config(frames: &Path) -> ConfigText {
    let device = format!("net_pcap0,rx_pcap={},infinite_rx=1", frames.display());
    ConfigText::one_device(&device, "mac = \"02:00:00:00:00:01\"\n")
        .table("[[neighbour]]", "address = \"10.71.0.11\"\nmac = \"02:00:00:00:00:11\"\n")
        .service("web", "10.71.0.100", Some(80), Transport::Tcp, "")
        .backend("10.71.0.11", Some(8080), "")
        .service("dns", "10.71.0.100", Some(53), Transport::Udp, "")
        .backend("10.71.0.11", Some(5353), "")
}

/// A running program with traffic: a client of `web`, one of `dns`, one of nothing.
struct Running {
    program: Program,
    place: TempDir,
}

impl Running {
    fn start() -> Self {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("in.pcap");
        let mut writer = CaptureWriter::create(&path, Format::Pcap, &[], &[]).unwrap();
        for (proto, port) in [(Transport::Tcp, 80), (Transport::Udp, 53), (Transport::Tcp, 81)] {
            let client: SocketAddr = "10.71.0.50:40000".parse().unwrap();
            let vip = SocketAddr::new("10.71.0.100".parse().unwrap(), port);
            let bytes = frame(proto, client, vip, Segment::Syn, b"");
            assert_eq!(bytes[..6], OWN);
            writer.write(0, Duration::ZERO, &bytes).unwrap();
        }
        writer.finish().unwrap();
        let program = Program::start(env!("CARGO_BIN_EXE_hnlb"), &[], config(&path).text());
        program.wait_for_start();
        Self { program, place }
    }

    /// The frames of a capture with these arguments, with their comments.
    fn capture(&self, words: &[&str]) -> Vec<(Vec<u8>, String)> {
        let out = self.place.path().join("out.pcapng");
        let out = out.to_str().unwrap();
        let told = self.program.told(&[&["capture", out], words].concat());
        let frames = frames(Path::new(out));
        assert!(told.starts_with(&format!("{} frames in {out}", frames.len())), "{told}");
        tcpdump_reads(Path::new(out), frames.len());
        frames
    }
}

/// The frames of a file and their comments, as another library reads them.
fn frames(path: &Path) -> Vec<(Vec<u8>, String)> {
    let file = std::fs::read(path).unwrap();
    let mut reader = PcapNgReader::new(file.as_slice()).unwrap();
    let mut frames = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.unwrap() {
            let comment = packet.options.iter().find_map(|option| match option {
                EnhancedPacketOption::Comment(text) => Some(text.to_string()),
                _ => None,
            });
            frames.push((packet.data.to_vec(), comment.expect("every frame has a comment")));
        }
    }
    frames
}

/// libpcap reads as many frames, where tcpdump is installed.
fn tcpdump_reads(path: &Path, frames: usize) {
    let Ok(output) = Command::new("tcpdump").args(["-n", "-r"]).arg(path).output() else {
        eprintln!("tcpdump is not installed: its reading of the file is not compared");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(text.lines().filter(|line| line.contains(" IP ")).count(), frames, "{text}");
}

#[test]
fn packets_are_captured_before_and_after_with_what_became_of_them() {
    let running = Running::start();
    let both = running.capture(&["--service", "web", "--count", "20"]);
    assert_eq!(both.len(), 20);
    for pair in both.chunks(2) {
        let [(before, why), (after, because)] = pair else { panic!("a frame without its other") };
        let (before, after) = (seen(before).unwrap(), seen(after).unwrap());
        assert_eq!(before.dst.to_string(), "10.71.0.100:80");
        assert_eq!(after.dst.to_string(), "10.71.0.11:8080");
        assert!(why.starts_with("forwarded (forwarded "), "{why}");
        assert!(why.contains("; service web; backend 10.71.0.11:8080; "), "{why}");
        assert!(because.starts_with("leaves because of: forwarded"), "{because}");
    }
    let after = running.capture(&["--protocol", "udp", "--side", "after", "--count", "5"]);
    assert!(after.iter().all(|(frame, _)| seen(frame).unwrap().dst.port() == 5353));
    let before = running.capture(&["--l4-port", "81", "--side", "before", "--bytes", "200"]);
    assert_eq!(before.len(), 200usize.div_ceil(before[0].0.len()), "as many as 200 bytes hold");
    assert!(before.iter().all(|(_, why)| why.contains("closed_port") || why.contains("tcp_reset")));
}

#[test]
fn a_capture_ends_by_its_time_and_what_is_not_there_is_refused() {
    let running = Running::start();
    let none = running.capture(&["--address", "192.0.2.9", "--seconds", "1"]);
    assert!(none.is_empty());
    for (words, why) in [
        (["--service", "nobody"], "there is no service 'nobody'"),
        (["--port", "p7"], "there is no port 'p7'; there are p0"),
    ] {
        let output = running.program.ask(&[&["capture", "-"], &words[..]].concat());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(why), "{error}");
    }
}
