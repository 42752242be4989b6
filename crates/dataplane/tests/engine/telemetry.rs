//! The status at DPDK's telemetry socket.
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use config::{Config, Eal};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, recv, send, socket,
};
use serde_json::{Value, json};

use crate::bench::{Bench, conversations_of_one};

/// A client of the socket, which keeps the bounds of messages.
struct Client(OwnedFd);

impl Client {
    fn new() -> (Self, Value) {
        let client =
            socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap();
        let address = UnixAddr::new(&path()).unwrap();
        connect(client.as_raw_fd(), &address).unwrap();
        let client = Self(client);
        let greeting = client.receive();
        (client, greeting)
    }

    fn receive(&self) -> Value {
        let mut bytes = vec![0; 1 << 16];
        let length = recv(self.0.as_raw_fd(), &mut bytes, MsgFlags::empty()).unwrap();
        serde_json::from_slice(&bytes[..length]).unwrap()
    }

    fn ask(&self, question: &str) -> Value {
        send(self.0.as_raw_fd(), question.as_bytes(), MsgFlags::empty()).unwrap();
        let command = question.split(',').next().unwrap();
        self.receive()[command].take()
    }
}

fn path() -> PathBuf {
    let directory = PathBuf::from(std::env::var_os("RUNTIME_DIRECTORY").unwrap());
    directory.join("dpdk/rte/dpdk_telemetry.v2")
}

pub(crate) fn dpdks_socket_tells_what_the_status_says() {
    let bench = Bench::new();
    bench.incoming(&conversations_of_one());
    let config = bench.config(&bench.device(), "", "[offload]\nencoding = \"off\"");
    let config = Config { eal: Eal { telemetry: true, ..config.eal }, ..config };
    let engine = bench.start(&config);
    let status = bench.wait("packet", |status| status.counters["forwarded"] == 1);
    let (client, greeting) = Client::new();
    assert_eq!(greeting["pid"], std::process::id());
    assert!(client.ask("/").as_array().unwrap().contains(&json!("/hnlb/status")));
    assert_eq!(client.ask("/hnlb/status")["connections/active"], 1);
    let counters = client.ask("/hnlb/counters");
    assert_eq!(counters.as_object().unwrap().len(), status.counters.len());
    let later = bench.status();
    for (name, before) in &status.counters {
        // HNLB may announce its addresses meanwhile.
        let (value, after) = (counters[name].as_u64().unwrap(), later.counters[name]);
        assert!((*before..=after).contains(&value), "{name}: {before}, {value}, {after}");
    }
    assert_eq!(client.ask("/hnlb/ports"), json!(["a"]));
    assert_eq!(client.ask("/hnlb/port,a")["counters/rx_packets"], 1);
    assert_eq!(client.ask("/hnlb/worker,0")["worker"], 0);
    assert_eq!(client.ask("/hnlb/services"), json!(["dns"]));
    assert_eq!(client.ask("/hnlb/backend,dns"), json!(["10.0.0.11:5353"]));
    assert_eq!(client.ask("/hnlb/backend,dns,10.0.0.11:5353")["traffic/opened"], 1);
    assert_eq!(client.ask("/hnlb/service,dns")["vip"], "10.0.0.100, port 53/udp");
    for (question, help) in [
        ("/help,/hnlb/port", json!("A port's link and counters. Parameters: port")),
        ("/hnlb/port,none", Value::Null),
        ("/hnlb/services,x", Value::Null),
        // DPDK's own commands are there as well.
        ("/ethdev/list", json!([0])),
    ] {
        let answer = client.ask(question);
        let answer = answer.get("/hnlb/port").cloned().unwrap_or(answer);
        assert_eq!(answer, help, "{question}");
    }
    engine.stop();
    assert_eq!(client.ask("/hnlb/status"), Value::Null, "after the end");
    bench.assert_nothing_is_left();
}

pub(crate) fn without_it_there_is_no_socket() {
    let bench = Bench::new();
    bench.incoming(&conversations_of_one());
    let config = bench.config(&bench.device(), "", "[offload]\nencoding = \"off\"");
    let engine = bench.start(&config);
    bench.wait("packet", |status| status.counters["forwarded"] == 1);
    assert!(!path().exists());
    engine.stop();
}
