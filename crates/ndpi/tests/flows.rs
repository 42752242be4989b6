//! Flows as libndpi sees them, with the headers of another library.
#![allow(clippy::unwrap_used)]

use etherparse::PacketBuilder;
use middlebox::Inspect;
use ndpi::Inspector;

/// A frame of TCP from client to server, or back.
fn tcp(back: bool, sequence: u32, syn: bool, payload: &[u8]) -> Vec<u8> {
    let (client, server) = ([192, 0, 2, 1], [192, 0, 2, 80]);
    let (src, dst) = if back { (server, client) } else { (client, server) };
    let ports = if back { (80, 40_000) } else { (40_000, 80) };
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv4(src, dst, 64)
        .tcp(ports.0, ports.1, sequence, 65_535);
    let builder = if syn { builder.syn() } else { builder.ack(1) };
    let mut frame = Vec::new();
    builder.write(&mut frame, payload).unwrap();
    frame
}

fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv4([192, 0, 2, 1], [192, 0, 2, 53], 64)
        .udp(50_000, port)
        .write(&mut frame, payload)
        .unwrap();
    frame
}

#[test]
fn http_and_dns_are_recognised_and_every_frame_is_returned() {
    let mut inspector = Inspector::new().unwrap();
    let request =
        b"GET /index.html HTTP/1.1\r\nHost: www.example.org\r\nUser-Agent: curl/7.88.1\r\n\r\n";
    let question = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x07example\x03org\x00\x00\x01\x00\x01";
    let mut frames = vec![
        tcp(false, 0, true, b""),
        tcp(true, 0, true, b""),
        tcp(false, 1, false, b""),
        tcp(false, 1, false, request),
        tcp(true, 1, false, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
        udp(53, question),
    ];
    for frame in &mut frames {
        let before = frame.clone();
        assert!(inspector.inspect(frame));
        assert_eq!(*frame, before);
    }
    let summary = inspector.summary().unwrap();
    assert!(summary.contains("HTTP 1") && summary.contains("DNS 1"), "{summary}");
    assert!(summary.contains("begun elsewhere 0"), "{summary}");
}

/// What the thesis doesn't say: a flow that moves has no beginning on its new CPU.
#[test]
fn a_flow_that_moved_here_is_counted() {
    let mut inspector = Inspector::new().unwrap();
    assert!(inspector.inspect(&mut tcp(false, 5000, false, b"\x00\x01\x02")));
    assert!(inspector.summary().unwrap().contains("begun elsewhere 1"));
}

#[test]
fn frames_of_every_length_are_survived() {
    let mut inspector = Inspector::new().unwrap();
    let whole = udp(53, &[0x11; 80]);
    for length in 0..=whole.len() {
        assert!(inspector.inspect(&mut whole[..length].to_vec()));
    }
}

/// What the traffic generator says is what libndpi hears.
#[test]
fn every_application_of_the_traffic_sets_is_recognised() {
    let expected = ["HTTP", "HTTP", "SMTP", "RTSP", "RTP", "Citrix"];
    let mut rng = traffic::Rng::new(1);
    for (application, name) in traffic::Application::ALL.into_iter().zip(expected) {
        let mut inspector = Inspector::new().unwrap();
        let mut conversation = ndpi::Conversation::new(application, 1, &mut rng);
        for _ in 0..40 {
            assert!(inspector.inspect(&mut conversation.next_frame()));
        }
        let summary = inspector.summary().unwrap();
        assert!(summary.contains(&format!("{name} 1")), "{application:?}: {summary}");
    }
}
