//! Namespaces with a client, a backend and HNLB between them.
use std::cell::Cell;
use std::process::{Child, Command};
use std::time::Duration;

use status::Status;
use testkit::Program;

use crate::udp;

/// Removed when it goes, with everything in it.
pub(crate) struct Net {
    prefix: String,
    server: Option<Child>,
    /// The client's next source port that was never used. The kernel's choice may
    /// fall on one that was, and then an old connection goes on.
    fresh: Cell<u16>,
}

/// Runs a command; what it said if it failed.
fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)))
}

impl Net {
    /// The net, or why there can be none.
    pub(crate) fn new() -> Result<Self, String> {
        let root = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        if !root.lines().any(|line| line.starts_with("Uid:\t0\t")) {
            return Err("network namespaces need root".to_owned());
        }
        for (program, test) in [("ip", "-V"), ("ethtool", "--version")] {
            run(Command::new(program).arg(test))?;
        }
        let prefix = format!("hnlbf{}", std::process::id());
        let mut net = Self { prefix, server: None, fresh: Cell::new(10_000) };
        for name in ["lb", "client", "backend"] {
            run(Command::new("ip").args(["netns", "add", &net.name(name)]))?;
        }
        net.add_port();
        net.link("out", "client", "10.71.0.11/24", "10.71.0.1");
        net.link("in", "backend", "10.72.0.11/24", "10.72.0.1");
        net.server = Some(udp::serve(&net.name("backend"), "10.72.0.11:7"));
        Ok(net)
    }

    /// The namespace of `host`.
    pub(crate) fn name(&self, host: &str) -> String {
        format!("{}-{host}", self.prefix)
    }

    /// Runs `script` in the namespace of `host`.
    fn script(&self, host: &str, script: &str) {
        let mut command = Command::new("ip");
        run(command.args(["netns", "exec", &self.name(host), "sh", "-euc", script])).unwrap();
    }

    /// A link from the port `port` to `host`, whose address is `address`.
    fn link(&self, port: &str, host: &str, address: &str, gateway: &str) {
        let peer = self.name(host);
        // Without IPv6 nobody speaks unasked. The checksum is to be in the
        // packet: nothing behind a veth adds it later.
        self.script("lb", &format!(
            "for i in all default; do f=/proc/sys/net/ipv6/conf/$i/disable_ipv6; [ ! -e $f ] || echo 1 > $f; done
             ip link add {port} type veth peer name eth0 netns {peer}
             ethtool -K {port} tx off rx off >/dev/null
             ip link set {port} up"
        ));
        self.script(
            host,
            &format!(
                "ethtool -K eth0 tx off rx off >/dev/null
             ip link set lo up; ip address add {address} dev eth0; ip link set eth0 up
             ip route add default via {gateway}"
            ),
        );
    }

    /// Makes the interface of the port that vanishes.
    pub(crate) fn add_port(&self) {
        self.script(
            "lb",
            "ip link add gone type veth peer name gone1; ip link set gone1 up; ip link set gone up",
        );
    }

    /// Makes it vanish.
    pub(crate) fn remove_port(&self) {
        self.script("lb", "ip link delete gone");
    }

    /// Opens `connections` new connections to the VIP, of which `wanted` should be
    /// answered before `patience` ends; how many are.
    pub(crate) fn ask(&self, connections: u16, wanted: u16, patience: Duration) -> u16 {
        let first = self.fresh.get();
        self.fresh.set(first + connections);
        let ports = first..self.fresh.get();
        udp::ask(&self.name("client"), "10.71.0.100:7", ports, wanted, patience)
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
            let _ = server.wait();
        }
        for name in ["lb", "client", "backend"] {
            let _ = run(Command::new("ip").args(["netns", "delete", &self.name(name)]));
        }
    }
}

/// A running `hnlb` in the namespace `lb`.
pub(crate) struct Balancer(pub(crate) Program);

impl Balancer {
    pub(crate) fn run(net: &Net, config: &str) -> Self {
        let within = ["ip", "netns", "exec", &net.name("lb")];
        Self(Program::start(env!("CARGO_BIN_EXE_hnlb"), &within, config))
    }

    /// `None` while it starts.
    pub(crate) fn status(&self) -> Option<Status> {
        api::Client::new(&self.0.socket()).get(&["v1", "status"]).ok()
    }

    /// Drains a backend, or lets it serve again.
    pub(crate) fn steer(&self, verb: &str, backend: &str) {
        self.0.told(&["backend", verb, "echo", backend]);
    }

    pub(crate) fn log(&self) -> String {
        self.0.log()
    }
}
