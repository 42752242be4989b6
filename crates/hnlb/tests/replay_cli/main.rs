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
    let mut cut = pcap(&traffic());
    cut.truncate(cut.len() - 7);
    place.write("cut.pcap", &cut);
    refused(&replay(&["cut.pcap", "out"]), &["cut.pcap"]);
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
