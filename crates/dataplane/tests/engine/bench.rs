//! A configuration, captures, and a running engine between them.
use std::cell::RefCell;
use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use config::Config;
use control::Request;
use dataplane::LoadBalancer;
use dataplane::link::Caller;
use etherparse::PacketBuilder;
use pcap_file::DataLink;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapReader, PcapWriter};
use status::Status;
use tempfile::TempDir;

/// How long the engine may take for what it does in less than a second on an
/// idle machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub(crate) const CLIENT: [u8; 6] = [2, 0, 0, 0, 0, 0x50];
pub(crate) const BACKEND: [u8; 6] = [2, 0, 0, 0, 0, 0x11];

/// Captures in a directory of their own, and the link to the engine.
pub(crate) struct Bench {
    dir: TempDir,
    caller: RefCell<Option<Caller>>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), caller: RefCell::default() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes the capture that comes in.
    pub(crate) fn incoming(&self, frames: &[Vec<u8>]) {
        let header = PcapHeader { datalink: DataLink::ETHERNET, ..PcapHeader::default() };
        let file = File::create(self.path("in.pcap")).unwrap();
        let mut writer = PcapWriter::with_header(file, header).unwrap();
        for frame in frames {
            let length = frame.len() as u32;
            writer.write_packet(&PcapPacket::new(Duration::ZERO, length, frame)).unwrap();
        }
    }

    /// What was sent.
    pub(crate) fn outgoing(&self) -> Vec<Vec<u8>> {
        let mut reader = PcapReader::new(File::open(self.path("out.pcap")).unwrap()).unwrap();
        let mut frames = Vec::new();
        while let Some(packet) = reader.next_packet() {
            frames.push(packet.unwrap().data.into_owned());
        }
        frames
    }

    /// The device that reads one capture and writes the other.
    pub(crate) fn device(&self) -> String {
        let (incoming, outgoing) = (self.path("in.pcap"), self.path("out.pcap"));
        format!("net_pcap0,rx_pcap={},tx_pcap={}", incoming.display(), outgoing.display())
    }

    /// One port over `device` with clients and a backend on the same link, all
    /// of them known. `port` is more of `[[port]]`, `more` more of the file.
    pub(crate) fn config(&self, device: &str, port: &str, more: &str) -> Config {
        let text = format!(
            r#"
[eal]
memory_mb = 256
huge_pages = "never"

[[port]]
name = "a"
device = "{device}"
{port}

[[interface]]
port = "a"
mac = "02:00:00:00:00:01"
addresses = ["10.0.0.1/24"]

[[neighbour]]
address = "10.0.0.11"
mac = "02:00:00:00:00:11"

[[neighbour]]
address = "10.0.0.50"
mac = "02:00:00:00:00:50"

[[service]]
name = "dns"
vip = "10.0.0.100"
port = 53
protocol = "udp"

[[service.backend]]
address = "10.0.0.11"
port = 5353

{more}
"#
        );
        Config::parse(&text, "bench.toml").unwrap()
    }

    /// Starts an engine.
    pub(crate) fn start(&self, config: &Config) -> LoadBalancer {
        let engine = LoadBalancer::start(config, "test.toml".as_ref(), [7; 32]).unwrap();
        self.caller.replace(Some(Caller::new(engine.connect().unwrap())));
        engine
    }

    pub(crate) fn status(&self) -> Status {
        self.caller.borrow_mut().as_mut().unwrap().ask(&Request::Status).unwrap()
    }

    /// Waits until the status is as wanted.
    pub(crate) fn wait(&self, what: &str, done: impl Fn(&Status) -> bool) -> Status {
        let since = Instant::now();
        loop {
            let status = self.status();
            if done(&status) {
                return status;
            }
            assert!(since.elapsed() < PATIENCE, "no {what}: {status:#?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// That nothing of an engine is left. The kernel shows a thread for a moment
    /// after it was joined: joining waits for its last instruction only.
    pub(crate) fn assert_nothing_is_left(&self) {
        let ours = |name: &String| {
            ["nic", "worker", "keeper", "balance"].iter().any(|thread| name.starts_with(thread))
        };
        let since = Instant::now();
        loop {
            let left: Vec<String> = threads().into_iter().filter(ours).collect();
            if left.is_empty() {
                return;
            }
            assert!(since.elapsed() < PATIENCE, "threads are left: {left:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The names of all threads of this process; the kernel keeps 15 letters.
pub(crate) fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.flatten().map(|task| std::fs::read_to_string(task.path().join("comm")));
    names.filter_map(Result::ok).map(|name| name.trim().to_owned()).collect()
}

/// A UDP frame between the link's stations.
pub(crate) fn udp(macs: ([u8; 6], [u8; 6]), from: &str, to: &str, payload: &[u8]) -> Vec<u8> {
    let (from, to): (SocketAddr, SocketAddr) = (from.parse().unwrap(), to.parse().unwrap());
    let (std::net::IpAddr::V4(src), std::net::IpAddr::V4(dst)) = (from.ip(), to.ip()) else {
        panic!("IPv4 only");
    };
    let packet = PacketBuilder::ethernet2(macs.0, macs.1).ipv4(src.octets(), dst.octets(), 64);
    let mut bytes = Vec::new();
    packet.udp(from.port(), to.port()).write(&mut bytes, payload).unwrap();
    bytes
}

/// Everything that is logged from now on.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    pub(crate) fn capture() -> Self {
        let log = Self::default();
        let writer = log.clone();
        tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).init();
        log
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A capture with one question.
pub(crate) fn conversations_of_one() -> Vec<Vec<u8>> {
    vec![udp((CLIENT, OWN), "10.0.0.50:1024", "10.0.0.100:53", b"ask")]
}
