//! Backends that are told who the client is, by the PROXY protocol: nginx reads the header
//! and says what is in it.
use super::checks::{Run, url};
use crate::LabError;
use crate::topology::{BACKENDS, CLIENTS, Family, PROXY_BACKEND_PORT, vip};

/// The ports of the services of requests, and of connections.
const PORTS: [(u16, &str); 2] = [(8083, "http"), (8084, "tcp")];

/// Services of both families and protocols, of whose backends two take turns.
pub(super) fn services() -> String {
    let families = [Family::V4, Family::V6].into_iter();
    families.flat_map(|family| PORTS.map(|own| service(family, own))).collect()
}

fn service(family: Family, (port, protocol): (u16, &str)) -> String {
    let digit = if family == Family::V4 { 4 } else { 6 };
    let rebalance = if protocol == "http" { "rebalance = \"per-request\"\n" } else { "" };
    let mut text = format!(
        "\n[[service]]\nname = \"proxied-{protocol}{digit}\"\nvip = \"{}\"\nport = {port}\n\
         protocol = \"{protocol}\"\nscheduler = \"round-robin\"\n{rebalance}\
         proxy_protocol = \"v2\"\n",
        vip(family)
    );
    for own in &BACKENDS[1..3] {
        let address = own.address(family);
        text +=
            &format!("[[service.backend]]\naddress = \"{address}\"\nport = {PROXY_BACKEND_PORT}\n");
    }
    text
}

impl Run<'_> {
    /// Every connection to a backend begins with the client's address and port, also one for a
    /// later request of the client's connection.
    pub(super) fn proxied(&mut self) -> Result<(), LabError> {
        for family in [Family::V4, Family::V6] {
            for (port, protocol) in PORTS {
                let url = format!("{}:{port}/", url(family));
                let words = [format!("-s -i {url}").as_str(); 4].join(" --next ");
                let found = self.curl(&words)?;
                let line = format!("{} {} {port}", CLIENTS[0].address(family), vip(family));
                let told = found.lines().filter(|own| **own == line).count();
                let what = format!("nginx told by the PROXY protocol ({protocol})");
                self.expect(&what, &told.to_string(), "4");
                let value = |name: &str| {
                    let of = |line: &str| line.strip_prefix(name).map(|own| own.trim().to_owned());
                    found.lines().filter_map(of).collect::<Vec<_>>().join(" ")
                };
                let [peer, told] = ["X-Peer-Port:", "X-Told-Port:"].map(value);
                self.expect("the client's port in it", &told, &peer);
            }
        }
        self.proxied_bodies()
    }

    /// Bodies behind the header, both ways.
    fn proxied_bodies(&mut self) -> Result<(), LabError> {
        let length = 65_537;
        let body = self.lab.dir().join(format!("body{length}"));
        let body = body.display();
        for (port, protocol) in PORTS {
            let url = format!("{}:{port}", url(Family::V4));
            let found = self.curl(&format!("{url}/body{length} | cmp - {body}"))?;
            self.expect(&format!("a body behind the header ({protocol})"), found.trim(), "");
            let found =
                self.curl(&format!("-o /dev/null -w '%{{http_code}}' -T {body} {url}/up/p"))?;
            let stored = matches!(found.trim(), "201" | "204").to_string();
            self.expect(&format!("a body to a server behind it ({protocol})"), &stored, "true");
        }
        Ok(())
    }
}
