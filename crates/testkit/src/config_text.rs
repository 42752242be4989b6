//! The text of a configuration, piece by piece.
use std::fmt::{Display, Write as _};

use config::Config;
use wire::Transport;

/// A configuration as it stands in a file. Every `more` is TOML that belongs to
/// what is added: `key = value` lines, or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigText {
    text: String,
    ports: usize,
}

impl ConfigText {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What a program runs with on any machine: one port `p0` on a ring without traffic,
    /// little memory, and 10.71.0.0/24 on its link.
    #[must_use]
    pub fn one_ring() -> Self {
        Self::one_device("net_ring0", "")
    }

    /// The same with another DPDK device as the port; its interface has `interface`'s
    /// keys.
    #[must_use]
    pub fn one_device(device: &str, interface: &str) -> Self {
        Self::new()
            .table("[eal]", "memory_mb = 256\nhuge_pages = \"never\"\n")
            .table("[workers]", "idle = \"yield\"\n")
            .table("[conntrack]", "connections = 1024\n")
            .table("[[port]]", &format!("name = \"p0\"\ndevice = \"{device}\"\n"))
            .interface("p0", &["10.71.0.1/24"], interface)
    }

    /// The network of most tests: one port `p0` that is also the way to the
    /// backends, with 10.71.0.0/24 and 10.72.0.0/24 and their IPv6 counterparts
    /// on its link and everyone else behind the gateways .254 and ::fe.
    #[must_use]
    pub fn one_port() -> Self {
        Self::new()
            .port("p0", "")
            .interface("p0", &["10.71.0.1/24", "10.72.0.1/24", "fd71::1/64", "fd72::1/64"], "")
            .gateways()
    }

    /// Clients on the port `outside` (10.71.0.0/24, fd71::/64, and gateways to
    /// everyone else), backends on the port `inside` (10.72.0.0/24, fd72::/64),
    /// whose interface has `inside`'s keys and whose port has `port`'s.
    #[must_use]
    pub fn two_ports(port: &str, inside: &str) -> Self {
        Self::new()
            .port("outside", "")
            .port("inside", port)
            .interface("outside", &["10.71.0.1/24", "fd71::1/64"], "")
            .interface("inside", &["10.72.0.1/24", "fd72::1/64"], inside)
            .gateways()
    }

    /// TCP on port 80 and UDP on port 53 of 10.71.0.100 and fd71::100, with four
    /// backends each in 10.72.0.0/24 and fd72::/64.
    #[must_use]
    pub fn web_and_dns(mut self, scheduler: &str) -> Self {
        let more = format!("scheduler = \"{scheduler}\"");
        for (family, vip, subnet) in [(4, "10.71.0.100", "10.72.0."), (6, "fd71::100", "fd72::")] {
            for (name, proto, port, backend_port) in
                [("web", Transport::Tcp, 80, 8080), ("dns", Transport::Udp, 53, 5353)]
            {
                self = self.service(&format!("{name}{family}"), vip, Some(port), proto, &more);
                for host in 11..15_u8 {
                    let host = if family == 4 { host.to_string() } else { format!("{host:x}") };
                    self = self.backend(format!("{subnet}{host}"), Some(backend_port), "");
                }
            }
        }
        self
    }

    /// A table or list of tables that has no method of its own.
    #[must_use]
    pub fn table(mut self, header: &str, more: &str) -> Self {
        self.line(format_args!("{header}\n{more}"));
        self
    }

    /// A port from which no frame comes, unless a test replays one.
    #[must_use]
    pub fn port(mut self, name: &str, more: &str) -> Self {
        let device = format!("net_null{}", self.ports);
        self.ports += 1;
        self.line(format_args!("[[port]]\nname = \"{name}\"\ndevice = \"{device}\"\n{more}"));
        self
    }

    /// An interface of `port` with these networks.
    #[must_use]
    pub fn interface(mut self, port: &str, addresses: &[&str], more: &str) -> Self {
        self.line(format_args!(
            "[[interface]]\nport = \"{port}\"\naddresses = {addresses:?}\n{more}"
        ));
        self
    }

    /// Default routes by 10.71.0.254 and fd71::fe.
    #[must_use]
    pub fn gateways(self) -> Self {
        self.route("0.0.0.0/0", "10.71.0.254").route("::/0", "fd71::fe")
    }

    /// A route.
    #[must_use]
    pub fn route(mut self, prefix: &str, via: &str) -> Self {
        self.line(format_args!("[[route]]\nprefix = \"{prefix}\"\nvia = \"{via}\""));
        self
    }

    /// A service; the backends added next are its own. `port` `None`: any.
    #[must_use]
    pub fn service(
        mut self,
        name: &str,
        vip: impl Display,
        port: Option<u16>,
        proto: Transport,
        more: &str,
    ) -> Self {
        let port = port.map_or("\"any\"".to_owned(), |port| port.to_string());
        let proto = proto.to_string().to_lowercase();
        self.line(format_args!(
            "[[service]]\nname = \"{name}\"\nvip = \"{vip}\"\nport = {port}\nprotocol = \"{proto}\"\n{more}"
        ));
        self
    }

    /// A backend of the last service. `port` `None`: that of the service.
    #[must_use]
    pub fn backend(mut self, address: impl Display, port: Option<u16>, more: &str) -> Self {
        let port = port.map_or(String::new(), |port| format!("port = {port}\n"));
        self.line(format_args!("[[service.backend]]\naddress = \"{address}\"\n{port}{more}"));
        self
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The configuration.
    ///
    /// # Panics
    /// The text is none; the message says why.
    #[must_use]
    pub fn parse(&self) -> Config {
        Config::parse(&self.text, "test.toml")
            .unwrap_or_else(|errors| panic!("{errors}\n{}", self.text))
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.text, "{line}").unwrap();
    }
}
