//! The networks of the test: clients on link, behind a VLAN and behind a
//! gateway; backends behind a VLAN of the second port and on the first.
use std::net::{IpAddr, SocketAddr};

use config::Config;
use testkit::ConfigText;
use wire::Transport;

/// The load balancer's Ethernet address on every port.
pub(crate) const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// The VLAN of some clients.
pub(crate) const CLIENT_VLAN: u16 = 30;

/// What is embryonic differs where the NIC has taken packets of a connection, and so
/// would what is limited.
const UNLIMITED: &str = "embryonic_service = 0\nembryonic_source = 0\n";

/// What differs between networks.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Every service has Maglev, backends of its own and no mode `fullnat`, so that
    /// a packet's way doesn't depend on which connections are known.
    pub(crate) maglev_only: bool,
    /// Only one service of each family is used.
    pub(crate) one_service: bool,
    pub(crate) connections: u32,
    pub(crate) sample: u32,
    pub(crate) admit: &'static str,
    pub(crate) workers: u16,
    /// TOML of `[conntrack]`'s timeouts.
    pub(crate) timeouts: &'static str,
    pub(crate) fragment_timeout: &'static str,
    /// Backends are behind no VLAN, so that a card may send packets on.
    pub(crate) flat: bool,
    /// The longest IP packet on their link; on the clients' it is 1500 bytes.
    pub(crate) inside_mtu: usize,
}

/// Where a client is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    pub(crate) addr: IpAddr,
    pub(crate) vlan: Option<u16>,
    pub(crate) mac: [u8; 6],
}

/// Clients of one family: two behind the gateway, two on link, one in a VLAN.
pub(crate) fn clients(v6: bool) -> [Client; 5] {
    let texts = if v6 {
        ["2001:db8::5", "2001:db8:1::6", "fd71::50", "fd71::51", "fd73::50"]
    } else {
        ["198.51.100.5", "203.0.113.6", "10.71.0.50", "10.71.0.51", "10.73.0.50"]
    };
    std::array::from_fn(|n| Client {
        addr: texts[n].parse().unwrap(),
        vlan: (n == 4).then_some(CLIENT_VLAN),
        mac: [2, 0, 0, 0, 9, if n < 2 { 0 } else { n as u8 }],
    })
}

/// A service as clients see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) proto: Transport,
    pub(crate) vip: SocketAddr,
}

struct Row {
    name: &'static str,
    host: u8,
    port: Option<u16>,
    proto: Transport,
    scheduler: &'static str,
    mode: &'static str,
    /// Whether backends are of the other family.
    across: bool,
    /// Last parts of the backends' addresses, and their port.
    backends: &'static [u8],
    backend_port: Option<u16>,
}

const fn row(
    name: &'static str,
    (host, port, proto): (u8, Option<u16>, Transport),
    scheduler: &'static str,
    backends: &'static [u8],
    backend_port: Option<u16>,
) -> Row {
    let (mode, across) = ("nat", false);
    Row { name, host, port, proto, scheduler, mode, across, backends, backend_port }
}

/// A service of a mode in which packets stay as they are.
const fn one_way(
    mode: &'static str,
    at: (u8, Option<u16>, Transport),
    scheduler: &'static str,
    backends: &'static [u8],
) -> Row {
    Row { mode, ..row(mode, at, scheduler, backends, None) }
}

use Transport::{Tcp, Udp};

/// Backends from 31 on are on the clients' link.
const MIXED: [Row; 15] = [
    row("web", (0x64, Some(80), Tcp), "round-robin", &[11, 12, 13, 31], Some(8080)),
    row("dns", (0x64, Some(53), Udp), "round-robin", &[11, 12, 13, 31], Some(5353)),
    row("least", (0x65, Some(80), Tcp), "least-connections", &[11, 12], Some(8081)),
    row("weights", (0x65, Some(53), Udp), "weighted-round-robin", &[12, 13], Some(5354)),
    row("any", (0x66, None, Tcp), "maglev", &[14, 15], None),
    Row {
        mode: "fullnat",
        ..row("full", (0x67, Some(80), Tcp), "round-robin", &[11, 12], Some(8082))
    },
    Row {
        mode: "fullnat",
        ..row("full-dns", (0x67, Some(53), Udp), "maglev", &[11, 31], Some(5355))
    },
    // The same backends twice, so that answers are ambiguous and 5-tuples meet.
    row("twin", (0x68, Some(80), Tcp), "round-robin", &[16, 17], Some(8080)),
    row("twin2", (0x69, Some(80), Tcp), "round-robin", &[16, 17], Some(8080)),
    one_way("dsr", (0x6a, Some(80), Tcp), "round-robin", &[11, 12, 31]),
    Row {
        name: "dsr-dns",
        ..one_way("dsr", (0x6a, Some(53), Udp), "least-connections", &[11, 13])
    },
    one_way("ipip", (0x6b, None, Tcp), "round-robin", &[11, 12, 31]),
    one_way("gue", (0x6c, Some(80), Tcp), "weighted-round-robin", &[11, 12]),
    one_way("gre", (0x6d, Some(53), Udp), "round-robin", &[12, 13]),
    Row { name: "across", across: true, ..one_way("gue", (0x6e, Some(53), Udp), "maglev", &[14]) },
];

const MAGLEV: [Row; 9] = [
    row("web", (0x64, Some(80), Tcp), "maglev", &[11, 12, 13, 31], Some(8080)),
    row("dns", (0x64, Some(53), Udp), "maglev", &[11, 12, 13, 31], Some(5353)),
    row("two", (0x65, Some(80), Tcp), "maglev", &[11, 12], Some(8081)),
    row("any", (0x66, None, Tcp), "maglev", &[14, 15], None),
    row("any-dns", (0x66, None, Udp), "maglev", &[14, 15], None),
    one_way("dsr", (0x6a, Some(80), Tcp), "maglev", &[11, 12, 31]),
    one_way("gue", (0x6c, Some(53), Udp), "maglev", &[11, 12]),
    one_way("gre", (0x6d, Some(80), Tcp), "maglev", &[12, 13]),
    Row { across: true, ..one_way("ipip", (0x6e, Some(80), Tcp), "maglev", &[14, 15]) },
];

impl Plan {
    fn rows(&self) -> &'static [Row] {
        let all: &[Row] = if self.maglev_only { &MAGLEV } else { &MIXED };
        if self.one_service { &all[..1] } else { all }
    }

    /// What clients may speak to.
    pub(crate) fn targets(&self) -> Vec<Target> {
        let rows = self.rows().iter().flat_map(|row| [(row, false), (row, true)]);
        let target = |(row, v6): (&Row, bool)| Target {
            proto: row.proto,
            vip: SocketAddr::new(vip(row.host, v6), row.port.unwrap_or(22)),
        };
        rows.map(target).collect()
    }

    /// The longest IP packet on each port.
    pub(crate) const fn mtus(&self) -> [usize; 2] {
        [1500, self.inside_mtu]
    }

    pub(crate) fn config(&self) -> Config {
        let Self { connections, sample, admit, workers, timeouts, fragment_timeout, .. } = self;
        let [_, mtu] = self.mtus();
        let vlan = if self.flat { "" } else { "vlan = 20" };
        let tables = format!(
            "connections = {connections}\nconnections_v6 = {connections}\n{UNLIMITED}{timeouts}"
        );
        let fragments = format!("datagrams = 64\ntimeout = \"{fragment_timeout}\"");
        let mut text = ConfigText::two_ports(&format!("mtu = {mtu}"), vlan)
            .interface("outside", &["10.73.0.1/24", "fd73::1/64"], &format!("vlan = {CLIENT_VLAN}"))
            .table("[workers]", &format!("count = {workers}"))
            .table("[neighbours]", "max = 512")
            .table("[fragments]", &fragments)
            .table("[offload]", &format!("admission = \"{admit}\"\nsample = {sample}"))
            .table("[conntrack]", &tables);
        if self.rows().iter().any(|row| row.mode == "fullnat") {
            let addresses = "addresses = [\"10.72.0.200\", \"fd72::c8\"]";
            text = text.table(
                "[[pool]]",
                &format!("name = \"pool\"\n{addresses}\nports = \"40000-40003\""),
            );
        }
        for row in self.rows() {
            text = service(text, row, false);
            text = service(text, row, true);
        }
        text.parse()
    }
}

fn service(text: ConfigText, row: &Row, v6: bool) -> ConfigText {
    let name = format!("{}{}", row.name, if v6 { 6 } else { 4 });
    let pool = if row.mode == "fullnat" { "pool = \"pool\"" } else { "" };
    let more = format!(
        "scheduler = \"{}\"\nmaglev_size = 401\nmode = \"{}\"\n{pool}",
        row.scheduler, row.mode
    );
    let mut text = text.service(&name, vip(row.host, v6), row.port, row.proto, &more);
    for (at, host) in row.backends.iter().enumerate() {
        let subnet = if *host > 30 { 71 } else { 72 };
        let address = if v6 != row.across {
            format!("fd{subnet}::{host:x}")
        } else {
            format!("10.{subnet}.0.{host}")
        };
        text = text.backend(address, row.backend_port, &format!("weight = {}", at + 1));
    }
    text
}

fn vip(host: u8, v6: bool) -> IpAddr {
    let text = if v6 { format!("fd71::{host:x}") } else { format!("10.71.0.{host}") };
    text.parse().unwrap()
}
