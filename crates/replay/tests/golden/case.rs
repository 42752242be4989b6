//! The cases: a mode and the families of VIP and backends.
use std::net::{IpAddr, SocketAddr};

use config::Config;
use testkit::ConfigText;
use wire::Transport;

/// The VLAN of some clients.
pub(crate) const CLIENT_VLAN: u16 = 30;

/// One pair of captures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    mode: &'static str,
    /// What chooses the backend of stateless services.
    by: Option<&'static str>,
    /// Whether clients and VIPs are IPv6.
    pub(crate) v6: bool,
    backends_v6: bool,
}

impl Case {
    pub(crate) fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for v6 in [false, true] {
            for mode in ["nat", "fullnat", "dsr"] {
                all.push(Self { mode, by: None, v6, backends_v6: v6 });
            }
            for by in ["source", "hash"] {
                all.push(Self { mode: "dsr", by: Some(by), v6, backends_v6: v6 });
            }
            for mode in ["ipip", "gue", "gre", "geneve"] {
                for backends_v6 in [false, true] {
                    all.push(Self { mode, by: None, v6, backends_v6 });
                }
            }
        }
        all
    }

    pub(crate) fn name(&self) -> String {
        let Self { mode, by, v6, backends_v6 } = *self;
        let family = |v6| if v6 { "v6" } else { "v4" };
        match by {
            Some(by) => format!("stateless-by-{by}-{}", family(v6)),
            None if v6 == backends_v6 => format!("{mode}-{}", family(v6)),
            None => format!("{mode}-{}-in-{}", family(v6), family(backends_v6)),
        }
    }

    pub(crate) const fn is_stateless(&self) -> bool {
        self.by.is_some()
    }

    /// Whether the card of the load balancer called `member` matches packets of
    /// the case.
    pub(crate) fn concerns(&self, member: &str) -> bool {
        match self.by {
            // Only cards that rewrite serve stateless services, whatever the encoding.
            Some(by) => {
                by == "source" && (member.contains("connectx") || member.contains("bluefield"))
            }
            // An X550 takes no rule for a 5-tuple of IPv6, and a queue can't
            // mean the endpoint that fullnat gives to one connection.
            None => {
                let v6_on_x550 = self.v6 && member.contains("x550");
                let fullnat_by_queue = self.mode == "fullnat" && member.contains("queue");
                member != "off" && !v6_on_x550 && !fullnat_by_queue
            }
        }
    }

    /// Whether backends' answers come through the load balancer.
    pub(crate) fn has_answers(&self) -> bool {
        matches!(self.mode, "nat" | "fullnat")
    }

    /// The service of `proto`.
    pub(crate) fn vip(&self, proto: Transport) -> SocketAddr {
        let address = if self.v6 { "fd71::100" } else { "10.71.0.100" };
        let port = if proto == Transport::Tcp { 80 } else { 53 };
        SocketAddr::new(address.parse().unwrap(), port)
    }

    /// A client behind the gateway, one on the link, and one in the VLAN.
    pub(crate) fn clients(&self) -> [IpAddr; 3] {
        let texts = if self.v6 {
            ["2001:db8::5", "fd71::50", "fd73::50"]
        } else {
            ["198.51.100.5", "10.71.0.50", "10.73.0.50"]
        };
        texts.map(|text| text.parse().unwrap())
    }

    pub(crate) fn config(&self) -> Config {
        let vlan = format!("vlan = {CLIENT_VLAN}");
        let mut text = ConfigText::one_port()
            .interface("p0", &["10.73.0.1/24", "fd73::1/64"], &vlan)
            .table("[workers]", "count = 1")
            .table("[offload]", "admission = \"all\"")
            .table("[conntrack]", "connections = 1024\nconnections_v6 = 1024");
        let mut mode = format!("mode = \"{}\"\n", self.mode);
        if self.mode == "fullnat" {
            let addresses = "addresses = [\"10.72.0.200\", \"fd72::c8\"]";
            text = text.table(
                "[[pool]]",
                &format!("name = \"pool\"\n{addresses}\nports = \"40000-40999\""),
            );
            mode += "pool = \"pool\"\n";
        }
        if let Some(by) = self.by {
            mode += &format!("stateless = true\nby = \"{by}\"\n");
        }
        for (proto, scheduler) in [(Transport::Tcp, "maglev"), (Transport::Udp, "round-robin")] {
            let vip = self.vip(proto);
            let more = format!("scheduler = \"{scheduler}\"\n{mode}");
            text = text.service(
                &proto.to_string().to_lowercase(),
                vip.ip(),
                Some(vip.port()),
                proto,
                &more,
            );
            for host in 11..14 {
                let subnet = if self.backends_v6 { "fd72::" } else { "10.72.0." };
                let port = self.has_answers().then_some(vip.port() + 8000);
                text = text.backend(format!("{subnet}{host}"), port, "");
            }
        }
        text.parse()
    }
}
