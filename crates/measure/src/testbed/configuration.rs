//! The configuration that is measured: one service, some backends.
use std::path::Path;

use config::Config;
use wire::Transport;

use crate::error::MeasureError;
use crate::testbed::frames::{self, ROUTER, VIP};
use crate::testbed::world::Plan;

/// The fewest connections that the table has room for.
const LEAST: u32 = 1 << 16;

/// Silence after which connections are forgotten, closed and open ones, where
/// many shall come and go within a measurement.
const BRIEF: &str = "tcp_closing = \"100ms\"\ntcp_established = \"300ms\"";

/// The configuration for `plan`.
pub(crate) fn configuration(plan: Plan) -> Result<Config, MeasureError> {
    Config::parse(&text(plan), Path::new("paper.toml"))
        .map_err(|errors| MeasureError::Config(errors.to_string()))
}

fn text(plan: Plan) -> String {
    let connections = plan.connections.max(LEAST);
    let proto = match plan.proto {
        Transport::Tcp => "tcp",
        Transport::Udp => "udp",
    };
    let brief = if plan.brief { BRIEF } else { "" };
    let mut text = format!(
        r#"
[[port]]
name = "clients"
device = "net_ring_clients"
[[port]]
name = "servers"
device = "net_ring_servers"
[[interface]]
port = "clients"
addresses = ["192.0.2.1/24"]
[[interface]]
port = "servers"
addresses = ["10.0.0.1/24"]
[[route]]
prefix = "0.0.0.0/0"
via = "192.0.2.254"
[[neighbour]]
address = "192.0.2.254"
mac = "{ROUTER}"
[offload]
admission = "all"
[conntrack]
connections = {connections}
connections_v6 = 1024
{brief}
[[service]]
name = "paper"
vip = "{}"
port = {}
protocol = "{proto}"
scheduler = "round-robin"
"#,
        VIP.ip(),
        VIP.port()
    );
    for place in 0..plan.backends {
        let (end, mac) = frames::backend(place);
        let (address, port) = (end.ip(), end.port());
        text += &format!("[[service.backend]]\naddress = \"{address}\"\nport = {port}\n");
        text += &format!("[[neighbour]]\naddress = \"{address}\"\nmac = \"{mac}\"\n");
    }
    text
}
