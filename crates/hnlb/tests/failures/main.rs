//! What goes wrong around a running `hnlb`: a backend that doesn't answer ARP,
//! and a port that vanishes. In network namespaces of its own; needs root, `ip`
//! and `ethtool`, and is skipped without them.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod net;
mod udp;

use std::time::{Duration, Instant};

use net::{Balancer, Net};
use status::Status;
use testkit::PATIENCE;

/// Connections opened at once.
const CONNECTIONS: u16 = 10;

/// Three ports: `gone` vanishes, clients are behind `out`, backends behind `in`.
/// Of the two backends one does not exist.
const CONFIG: &str = r#"
[eal]
memory_mb = 256
huge_pages = "never"

[workers]
idle = "yield"

[offload]
admission = "all"

[[port]]
name = "gone"
device = "net_af_packet0,iface=gone"

[port.nic]
profile = "x550"

[[port]]
name = "out"
device = "net_af_packet1,iface=out"

[port.nic]
profile = "x550"

[[port]]
name = "in"
device = "net_af_packet2,iface=in"

[[interface]]
port = "gone"
addresses = ["10.70.0.1/24"]

[[interface]]
port = "out"
addresses = ["10.71.0.1/24"]

[[interface]]
port = "in"
addresses = ["10.72.0.1/24"]

# A gateway that is asked for again and again, on a port that is gone.
[[route]]
prefix = "10.99.0.0/16"
via = "10.70.0.254"

[[service]]
name = "echo"
vip = "10.71.0.100"
port = 7
protocol = "udp"
scheduler = "round-robin"

[[service.backend]]
address = "10.72.0.11"
port = 7

[[service.backend]]
address = "10.72.0.12"
port = 7
"#;

/// Waits until the status is as wanted.
fn wait(balancer: &Balancer, what: &str, done: impl Fn(&Status) -> bool) -> Status {
    balancer.0.wait(what, |_| match balancer.status() {
        Some(status) if done(&status) => Ok(status),
        status => Err(format!("{status:#?}")),
    })
}

/// Opens connections in pairs; round robin gives the dead backend one of each.
fn half_is_answered(net: &Net, balancer: &Balancer) {
    let before = balancer.status().unwrap();
    let answered = net.ask(CONNECTIONS, CONNECTIONS / 2, PATIENCE);
    assert_eq!(answered, CONNECTIONS / 2, "{}", balancer.log());
    let after = wait(balancer, "drop", |status| {
        let dropped = |status: &Status| status.counters["neighbour_unresolved"];
        dropped(status) - dropped(&before) >= u64::from(CONNECTIONS / 2)
    });
    let installed = after.counters["installed"] - before.counters["installed"];
    assert_eq!(installed, u64::from(CONNECTIONS));
}

#[test]
fn a_dead_backend_and_a_port_that_vanishes() {
    let net = match Net::new() {
        Ok(net) => net,
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    let mut balancer = Balancer::run(&net, CONFIG);

    // A backend that doesn't answer ARP: never ready, and the status says why.
    let dead = ["next hop of 10.72.0.12".to_owned()];
    let status = wait(&balancer, "answer of the other", |status| status.waiting_for == dead);
    assert!(!status.ready);
    assert!(status.services[0].backends.iter().any(|backend| backend.next_hop == "no answer"));
    // The first answer waits for the client's own Ethernet address.
    let since = Instant::now();
    while net.ask(2, 1, Duration::from_secs(1)) == 0 {
        assert!(since.elapsed() < PATIENCE, "nothing is answered: {}", balancer.log());
    }
    // The other one of the pair may be on its way yet.
    wait(&balancer, "pair", |status| status.counters["installed"] % 2 == 0);
    half_is_answered(&net, &balancer);

    // Drained, the dead backend gets no new connections, and all are answered.
    balancer.steer("drain", "10.72.0.12");
    assert_eq!(net.ask(CONNECTIONS, CONNECTIONS, PATIENCE), CONNECTIONS, "{}", balancer.log());
    let status = balancer.status().unwrap();
    let drained: Vec<bool> = status.services[0].backends.iter().map(|own| own.drained).collect();
    assert_eq!(drained, [false, true]);
    balancer.steer("restore", "10.72.0.12");
    half_is_answered(&net, &balancer);

    // A port vanishes: the others go on.
    net.remove_port();
    let status = wait(&balancer, "loss of the port", |status| {
        status.waiting_for.iter().any(|what| what == "link of port gone")
    });
    let up: Vec<bool> = status.ports.iter().map(|port| port.link_up).collect();
    assert_eq!(up, [false, true, true]);
    half_is_answered(&net, &balancer);

    // It comes back by name, but DPDK holds on to the one that went.
    net.add_port();
    half_is_answered(&net, &balancer);
    let status = balancer.status().unwrap();
    assert!(!status.ports[0].link_up);

    assert!(balancer.0.end().success(), "{}", balancer.log());
    assert!(!balancer.0.socket().exists());
    let log = balancer.log();
    let lost: Vec<&str> = log.lines().filter(|line| line.contains("the device is gone")).collect();
    assert_eq!(lost.len(), 1, "{log}");
    assert!(lost[0].contains("port=\"gone\"") && lost[0].contains("restart hnlb"), "{log}");
    assert!(log.contains("all rules are destroyed"), "{log}");
}
