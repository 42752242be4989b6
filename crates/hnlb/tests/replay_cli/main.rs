//! The built program: `hnlb replay`, `hnlb check`, and `hnlb run` where it
//! can't start.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

mod captures;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use captures::{FLOW_FRAMES, check_frames, frames_of, pcap, pcapng, traffic};
use tempfile::TempDir;

const CONFIG: &str = r#"[[port]]
name = "p0"
device = "net_null0"

[[interface]]
port = "p0"
addresses = ["10.71.0.1/24", "10.72.0.1/24"]

[[route]]
prefix = "0.0.0.0/0"
via = "10.71.0.254"

[[service]]
name = "web"
vip = "10.71.0.100"
port = 80
protocol = "tcp"

[[service.backend]]
address = "10.72.0.11"
port = 8080

[[service]]
name = "dns"
vip = "10.71.0.100"
port = 53
protocol = "udp"

[[service.backend]]
address = "10.72.0.11"
port = 5353

[offload]
admission = "all"
"#;

/// A directory with a configuration and captures of both formats.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        place.write("hnlb.toml", CONFIG.as_bytes());
        place.write("in.pcap", &pcap(&traffic()));
        place.write("in.pcapng", &pcapng(&traffic()));
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path(name), bytes).unwrap();
    }

    /// Runs the program here.
    fn hnlb(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hnlb"));
        command.current_dir(self.0.path()).env_remove("RUST_LOG").args(args).output().unwrap()
    }

    /// A replay that must succeed; its counters.
    fn replay(&self, input: &str, output: &str, more: &[&str]) -> serde_json::Value {
        let args = [&["replay", "--config", "hnlb.toml", "--json"], more, &[input, output]];
        let done = self.hnlb(&args.concat());
        assert!(done.status.success(), "{}", text(&done.stderr));
        serde_json::from_slice(&done.stdout).unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Asserts that the program ended with 1 and one error line that holds all of
/// `parts`.
fn refused(done: &Output, parts: &[&str]) {
    let stderr = text(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{stderr}");
    assert_eq!(text(&done.stdout), "");
    assert!(!stderr.contains("panicked"), "{stderr}");
    let line = stderr.lines().find(|line| parts.iter().all(|part| line.contains(part)));
    assert!(line.is_some(), "{parts:?} in:\n{stderr}");
}

const NICS: [&[&str]; 4] = [
    &[],
    &["--nic", "x550", "--encoding", "mark"],
    &["--nic", "x550", "--encoding", "queue"],
    &["--nic", "e810", "--encoding", "queue"],
];

#[test]
fn every_encoding_and_format_gives_the_right_frames() {
    let place = Place::new();
    let mut first = None;
    for input in ["in.pcap", "in.pcapng"] {
        for nic in NICS {
            place.replay(input, "out", nic);
            let frames = frames_of(&place.path("out"));
            check_frames(&frames);
            assert_eq!(first.get_or_insert_with(|| frames.clone()), &frames, "{input} {nic:?}");
        }
    }
}

#[test]
fn counters_add_up() {
    let place = Place::new();
    for nic in NICS {
        let report = place.replay("in.pcap", "out.pcap", nic);
        let of = |name: &str| report[name].as_u64().unwrap_or_else(|| panic!("{name}"));
        let counter = |name: &str| report["counters"][name].as_u64().unwrap();
        assert_eq!(of("frames_read"), FLOW_FRAMES + 3);
        assert_eq!(of("frames_written"), FLOW_FRAMES + 2);
        assert_eq!(counter("received"), of("frames_read"));
        assert_eq!(counter("forwarded"), FLOW_FRAMES);
        let others = ["echo_replied", "arp_replied", "truncated"].map(counter);
        assert_eq!(others, [1, 1, 1]);
        assert_eq!(of("connections"), u64::from(captures::CONNECTIONS));
        assert_eq!(counter("installed"), of("connections"));
        let matched = counter("matched_by_mark") + counter("matched_by_queue");
        assert_eq!(matched + counter("looked_up") + counter("missed"), FLOW_FRAMES);
        if nic.is_empty() {
            assert_eq!([matched, of("nic_matched"), of("rules_created")], [0; 3]);
            continue;
        }
        assert!(matched > FLOW_FRAMES / 2, "{nic:?}: {report}");
        assert_eq!(of("nic_matched") + of("nic_missed"), of("frames_read"));
        assert_eq!(of("nic_matched"), matched);
        assert_eq!(of("rules"), 2 * of("connections"), "one for each direction");
        assert_eq!(counter("matched_by_mark") > 0, nic[3] == "mark");
    }
}

/// Every frame is sent on by the NIC, dropped by it, or received and in one of the sums.
#[test]
fn every_frame_is_in_the_sums_of_every_card_and_encoding() {
    let place = Place::new();
    for card in flow::CardProfile::ALL {
        for encoding in flow::Encoding::ALL {
            let nic = ["--nic", &card.to_string(), "--encoding", &encoding.to_string()];
            let report = place.replay("in.pcap", "out.pcap", &nic);
            let of = |name: &str| report[name].as_u64().unwrap_or_else(|| panic!("{name}"));
            let past = of("nic_forwarded") + of("nic_dropped") + of("queue_full");
            assert_eq!(of("frames_read"), past + of("received"), "{nic:?}");
            let sums = report["sums"].as_object().unwrap().values();
            let sums: u64 = sums.map(|sum| sum.as_u64().unwrap()).sum();
            assert_eq!(of("received"), sums, "{nic:?}");
            assert_eq!(of("frames_written"), FLOW_FRAMES + 2, "{nic:?}");
            let by_card = card.rewrites() && *encoding == flow::Encoding::Rewrite;
            assert_eq!(of("nic_forwarded") > FLOW_FRAMES / 2, by_card, "{nic:?}: {report}");
            check_frames(&frames_of(&place.path("out.pcap")));
        }
    }
}

#[test]
fn a_card_that_cannot_rewrite_is_named() {
    let place = Place::new();
    let args = ["replay", "--config", "hnlb.toml", "--nic", "x550", "--encoding", "rewrite"];
    let done = place.hnlb(&[&args[..], &["in.pcap", "out"]].concat());
    let stderr = text(&done.stderr);
    assert!(done.status.success() && stderr.contains("x550 cannot rewrite"), "{stderr}");
}

/// What is read is never written over, whatever it is called.
#[test]
fn no_file_that_is_read_is_written() {
    let place = Place::new();
    fs::hard_link(place.path("in.pcap"), place.path("hard")).unwrap();
    std::os::unix::fs::symlink("in.pcap", place.path("soft")).unwrap();
    let files = ["in.pcap", "hnlb.toml"].map(|name| (name, fs::read(place.path(name)).unwrap()));
    for output in ["in.pcap", "hard", "soft", "./in.pcap", "hnlb.toml"] {
        let done = place.hnlb(&["replay", "--config", "hnlb.toml", "in.pcap", output]);
        refused(&done, &[output, "which is read"]);
    }
    let done = place.hnlb(&["replay", "--config", "hnlb.toml", "--port", "p0=in.pcap", "hard"]);
    refused(&done, &["hard", "which is read"]);
    for (name, bytes) in files {
        assert!(fs::read(place.path(name)).unwrap() == bytes, "{name}");
    }
}

#[test]
fn a_cut_capture_is_replayed_up_to_there() {
    let place = Place::new();
    let all = pcap(&traffic());
    let end = 24 + 16 + traffic()[0].1.len() + 16;
    place.write("cut.pcap", &all[..end + 7]);
    let done = place.hnlb(&["replay", "--config", "hnlb.toml", "--json", "cut.pcap", "out"]);
    assert_eq!(done.status.code(), Some(3));
    let report: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!((&report["frames_read"], &report["frames_written"]), (&1.into(), &1.into()));
    let error = "cut.pcap: the file ends in the middle of frame 2";
    assert_eq!(report["error"], error);
    assert!(text(&done.stderr).contains(error), "{}", text(&done.stderr));
    assert_eq!(frames_of(&place.path("out")).len(), 1);
    let done = place.hnlb(&["replay", "--config", "hnlb.toml", "cut.pcap", "out"]);
    assert_eq!(done.status.code(), Some(3));
    assert!(text(&done.stdout).contains("1 frames over"), "{}", text(&done.stdout));
    place.write("none.pcap", b"");
    let done = place.hnlb(&["replay", "--config", "hnlb.toml", "none.pcap", "out"]);
    refused(&done, &["none.pcap", "the file is empty"]);
}

#[test]
fn pipes_carry_captures() {
    let place = Place::new();
    place.replay("in.pcap", "out.pcap", &[]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_hnlb"));
    command.current_dir(place.0.path()).args(["replay", "--config", "hnlb.toml", "-", "-"]);
    let input = fs::File::open(place.path("in.pcap")).unwrap();
    let done = command.stdin(input).output().unwrap();
    let stderr = text(&done.stderr);
    assert!(done.status.success() && stderr.contains("arp_replied"), "{stderr}");
    assert!(done.stdout == fs::read(place.path("out.pcap")).unwrap());
}

/// The port of the backends, and the clients' port without their network.
fn two_ports() -> String {
    CONFIG.replace("\"10.71.0.1/24\", \"10.72.0.1/24\"", "\"10.71.0.1/24\"").replacen(
        "[[route]]",
        "[[interface]]\nport = \"p1\"\naddresses = [\"10.72.0.1/24\"]\n\n[[route]]",
        1,
    ) + "\n[[port]]\nname = \"p1\"\ndevice = \"net_null1\"\n"
}

/// Interfaces of a pcapng file and files of their own are ports; the frames leave by
/// the right one.
#[test]
fn two_ports_are_replayed_together() {
    let place = Place::new();
    place.write("two.toml", two_ports().as_bytes());
    let all = captures::by_port();
    place.write("both.pcapng", &captures::pcapng_of(2, &all));
    let of = |port| -> Vec<_> {
        all.iter().filter(|(at, _)| *at == port).map(|(_, frame)| frame.clone()).collect()
    };
    place.write("p0.pcap", &pcap(&of(0)));
    place.write("p1.pcap", &pcap(&of(1)));
    let ports = ["--port", "p0=p0.pcap", "--port", "p1=p1.pcap"];
    let replay = ["replay", "--config", "two.toml"];
    for nic in [&[][..], &["--nic", "connectx", "--encoding", "rewrite"]] {
        let by_interface = [&replay[..], nic, &["both.pcapng", "a"]].concat();
        let by_file = [&replay[..], nic, &ports[..], &["b"]].concat();
        for args in [by_interface, by_file] {
            let done = place.hnlb(&args);
            assert!(done.status.success(), "{}", text(&done.stderr));
        }
        let frames = frames_of(&place.path("a"));
        check_frames(&frames);
        assert!(fs::read(place.path("a")).unwrap() == fs::read(place.path("b")).unwrap());
        let mut reader = capture::CaptureReader::open(&place.path("a")).unwrap();
        let mut left = Vec::new();
        while let Some(frame) = reader.read().unwrap() {
            left.push(frame.interface);
        }
        assert_eq!(reader.interface_name(1), Some("p1"));
        let expected = |at: usize| if at < FLOW_FRAMES as usize { (at as u32 + 1) % 2 } else { 0 };
        assert!(left.iter().enumerate().all(|(at, port)| *port == expected(at)), "{left:?}");
        let sources = frames.iter().zip(&left);
        let own = [&[2, 0, 0, 0, 0, 1], &captures::BACK];
        assert!(sources.into_iter().all(|(frame, port)| frame[6..12] == own[*port as usize][..]));
    }
    // One interface more than there are ports.
    let third: Vec<_> = all.iter().map(|(port, frame)| (port * 2, frame.clone())).collect();
    place.write("three.pcapng", &captures::pcapng_of(3, &third));
    let done = place.hnlb(&[&replay[..], &["three.pcapng", "out"]].concat());
    assert_eq!(done.status.code(), Some(3));
    assert!(text(&done.stderr).contains("frame 2 is of interface 2"), "{}", text(&done.stderr));
    for (more, part) in [
        (&["--port", "p0=p0.pcap", "p1.pcap", "out"][..], "one capture more"),
        (&["p0.pcap"], "two captures"),
        (&["--port", "p0", "--port", "p1", "p0.pcap", "out"], "one port for all"),
        (&["--port", "p7=p0.pcap", "out"], "p0, p1"),
    ] {
        refused(&place.hnlb(&[&replay[..], more].concat()), &[part]);
    }
}

#[test]
fn every_frame_has_its_story() {
    let place = Place::new();
    let replay = ["replay", "--config", "hnlb.toml", "in.pcap", "out"];
    let stories = |more: &[&str]| -> Vec<serde_json::Value> {
        let done = place.hnlb(&[&replay[..], more].concat());
        assert!(done.status.success(), "{}", text(&done.stderr));
        text(&done.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let mut all = stories(&["--trace=all", "--json"]);
    let report = all.pop().unwrap();
    assert_eq!(report["frames_read"].as_u64().unwrap() as usize, all.len());
    assert!(all.iter().enumerate().all(|(at, story)| story["frame"] == at + 1));
    let verdicts: Vec<&str> =
        all.iter().rev().map(|story| story["verdict"].as_str().unwrap()).take(4).collect();
    assert_eq!(verdicts, ["dropped", "answered", "answered", "forwarded"]);
    assert_eq!(all.last().unwrap()["counters"], serde_json::json!(["truncated"]));
    let first = &all[0]["sent"][0];
    assert_eq!((&all[0]["port"], &first["port"]), (&"p0".into(), &"p0".into()));
    let changes = first["changes"].as_array().unwrap();
    let change = |field: &str| {
        let found = changes.iter().find(|change| change["field"] == field).unwrap();
        (found["from"].as_str().unwrap(), found["to"].as_str().unwrap())
    };
    assert_eq!(change("destination"), ("10.71.0.100:80", "10.72.0.11:8080"));
    assert_eq!(change("ttl"), ("64", "63"));
    assert!(changes.iter().all(|change| change["field"] != "source"), "{changes:?}");
    let changed = stories(&["--trace", "--json"]);
    assert_eq!(changed.len() as u64, FLOW_FRAMES + 2, "forwarded, one dropped, and the report");
    let done = place
        .hnlb(&[&replay[..], &["--trace", "--nic", "connectx", "--encoding", "rewrite"]].concat());
    let lines = text(&done.stdout);
    let line = lines.lines().find(|line| line.contains("forwarded by the NIC")).unwrap();
    assert!(line.contains(" p0 ") && line.contains("| out of p0: "), "{line}");
    let line = lines.lines().find(|line| line.contains("truncated")).unwrap();
    assert!(line.trim_start().starts_with(&(FLOW_FRAMES + 3).to_string()), "{line}");
}

#[test]
fn two_runs_give_identical_files() {
    let place = Place::new();
    for input in ["in.pcap", "in.pcapng"] {
        let reports = ["a", "b"].map(|output| place.replay(input, output, NICS[1]));
        assert_eq!(reports[0], reports[1]);
        assert_eq!(fs::read(place.path("a")).unwrap(), fs::read(place.path("b")).unwrap());
    }
}

#[test]
fn a_replay_that_cannot_be_says_why() {
    let place = Place::new();
    let replay = |more: &[&str]| place.hnlb(&[&["replay", "--config", "hnlb.toml"], more].concat());
    refused(&replay(&["none.pcap", "out"]), &["none.pcap", "No such file"]);
    place.write("notes.txt", b"these are not the frames you are looking for");
    refused(&replay(&["notes.txt", "out"]), &["notes.txt", "pcap"]);
    refused(&replay(&["--port", "p7", "in.pcap", "out"]), &["--port p7", "p0"]);
    assert!(!place.path("out").exists(), "an output without a replay");
    refused(&replay(&["in.pcap", "no/such/place"]), &["no/such/place", "No such file"]);
    let done = place.hnlb(&["replay", "--config", "none.toml", "in.pcap", "out"]);
    refused(&done, &["none.toml", "No such file"]);
}

/// An edit of the configuration, the line of the error, and what it names:
/// the key and the remedy.
const MISTAKES: [(&str, &str, usize, &[&str]); 9] = [
    ("[[route]]", "[[route]", 9, &[""]),
    (
        "protocol = \"tcp\"",
        "protocol = \"tcp\"\nprotocoll = 1",
        18,
        &["protocoll", "did you mean 'protocol'"],
    ),
    ("port = 80\n", "", 13, &["service.web.port", "missing"]),
    ("port = 80\n", "port = \"eighty\"\n", 16, &["service.web.port", "any"]),
    ("port = 80\n", "port = 70000\n", 16, &["service.web.port", "65535"]),
    ("port = 53\nprotocol = \"udp\"", "port = 80\nprotocol = \"tcp\"", 25, &["service.dns", "web"]),
    ("port = \"p0\"", "port = \"p1\"", 6, &["port", "p0"]),
    ("via = \"10.71.0.254\"", "via = \"10.99.0.254\"", 11, &["via", "on-link"]),
    (
        "address = \"10.72.0.11\"\nport = 8080",
        "address = \"fd72::11\"\nport = 8080",
        20,
        &["address", "IPv4"],
    ),
];

#[test]
fn check_names_file_line_key_and_remedy() {
    let place = Place::new();
    let done = place.hnlb(&["check", "hnlb.toml"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert!(text(&done.stdout).contains("hnlb.toml: good"));
    for (right, wrong, line, parts) in MISTAKES {
        assert!(CONFIG.contains(right), "{right}");
        place.write("bad.toml", CONFIG.replacen(right, wrong, 1).as_bytes());
        let at = format!("bad.toml:{line}:");
        let all: Vec<&str> = parts.iter().copied().chain([at.as_str()]).collect();
        refused(&place.hnlb(&["check", "bad.toml"]), &all);
        // Nothing else starts with it either.
        refused(&place.hnlb(&["replay", "--config", "bad.toml", "in.pcap", "out"]), &all);
        assert!(!place.path("out").exists());
    }
}

#[test]
fn run_without_its_device_leaves_nothing() {
    let place = Place::new();
    let socket = place.path("hnlb.sock");
    let config = CONFIG.replace("net_null0", "net_af_packet0,iface=nosuchiface0")
        + &format!(
            "\n[eal]\nmemory_mb = 128\nhuge_pages = \"never\"\nargs = [\"--no-pci\"]\n\
             [status]\nsocket = \"{}\"\n",
            socket.display()
        );
    place.write("run.toml", config.as_bytes());
    let done = place.hnlb(&["run", "--config", "run.toml"]);
    refused(&done, &["hnlb: ", "p0", "nosuchiface0"]);
    let stderr = text(&done.stderr);
    let errors = stderr.lines().filter(|line| line.starts_with("hnlb: ")).count();
    assert_eq!(errors, 1, "{stderr}");
    assert!(!socket.exists(), "the status socket is left");
    let left: Vec<_> = entries(place.0.path());
    assert_eq!(left, ["hnlb.toml", "in.pcap", "in.pcapng", "run.toml"]);
}

fn entries(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}
