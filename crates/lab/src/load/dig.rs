//! One-shot DNS queries by dig.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU16, Ordering};

use crate::topology::DNS_PORT;
use crate::{Lab, LabError};

/// The first of the source ports: far below those that the kernel gives to others
/// (`ip_local_port_range`).
const PORTS: u16 = 10_000;

/// Asks a VIP who it is, from a source port that nothing has used before; returns
/// the backend's name. A port that dig chose may have been dnsperf's, and a
/// load balancer takes the query for one of that connection.
///
/// # Errors
/// If no answer comes within five seconds (there is no second try).
pub fn who(lab: &Lab, client: &str, vip: IpAddr) -> Result<String, LabError> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let own = PORTS + NEXT.fetch_add(1, Ordering::Relaxed) % 20_000;
    let from = format!("{}#{own}", if vip.is_ipv4() { "0.0.0.0" } else { "::" });
    let (server, port) = (format!("@{vip}"), DNS_PORT.to_string());
    let argv = [
        "dig", "-b", &from, "+short", "+tries=1", "+time=5", &server, "-p", &port, "who.lab", "TXT",
    ];
    let output = lab.exec(client, &argv)?.success()?;
    parse(&output.stdout)
}

fn parse(stdout: &str) -> Result<String, LabError> {
    let name = stdout.trim().strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    name.filter(|name| !name.is_empty()).map(str::to_owned).ok_or_else(|| LabError::Parse {
        tool: "dig",
        detail: format!("expected one quoted backend name, got: {stdout}"),
    })
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn only_one_quoted_name_is_an_answer() {
        assert_eq!(parse("\"b2\"\n").unwrap(), "b2");
        for text in ["", "\"\"\n", ";; connection timed out\n"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
