//! The configuration that is measured: one service, some backends.
use std::path::Path;

use config::Config;
use flow::Mode;
use wire::Transport;

use crate::error::MeasureError;
use crate::testbed::frames::{Family, ROUTER, Templates, backend_mac};
use crate::testbed::scenario::Plan;

/// The fewest connections that the table has room for.
const LEAST: u32 = 1 << 16;
/// Room for connections of the family that sends nothing.
const LITTLE: u32 = 1024;

/// Silence after which connections are forgotten, closed and open ones, where
/// many shall come and go within a measurement.
const BRIEF: &str = "tcp_closing = \"100ms\"\ntcp_established = \"300ms\"";

/// The configuration for `plan`.
pub(crate) fn configuration(plan: Plan) -> Result<Config, MeasureError> {
    Config::parse(&text(plan), Path::new("paper.toml"))
        .map_err(|errors| MeasureError::Config(errors.to_string()))
}

fn text(plan: Plan) -> String {
    let Plan { family, .. } = plan;
    let room = plan.connections.max(LEAST);
    let (v4, v6) = if family == Family::V4 { (room, LITTLE) } else { (LITTLE, room) };
    let proto = match plan.proto {
        Transport::Tcp => "tcp",
        Transport::Udp => "udp",
    };
    let brief = if plan.brief { BRIEF } else { "" };
    let templates = Templates::new(family, plan.proto);
    let vip = templates.vip();
    let (everything, length) = if family == Family::V4 { ("0.0.0.0/0", 24) } else { ("::/0", 120) };
    let [clients, servers, router] =
        [[192, 0, 2, 1], [10, 0, 0, 1], [192, 0, 2, 254]].map(|end| family.address(end.into()));
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
addresses = ["{clients}/{length}"]
[[interface]]
port = "servers"
addresses = ["{servers}/{length}"]
[[route]]
prefix = "{everything}"
via = "{router}"
[[neighbour]]
address = "{router}"
mac = "{ROUTER}"
[offload]
admission = "all"
[conntrack]
connections = {v4}
connections_v6 = {v6}
{brief}
[[service]]
name = "paper"
vip = "{}"
port = {}
protocol = "{proto}"
mode = "{}"
scheduler = "round-robin"
"#,
        vip.ip(),
        vip.port(),
        plan.mode.name()
    );
    for place in 0..plan.backends {
        let end = templates.backend(place);
        let (address, port, mac) = (end.ip(), end.port(), backend_mac(place));
        text += &format!("[[service.backend]]\naddress = \"{address}\"\n");
        if plan.mode == Mode::Nat {
            text += &format!("port = {port}\n");
        }
        text += &format!("[[neighbour]]\naddress = \"{address}\"\nmac = \"{mac}\"\n");
    }
    text
}
