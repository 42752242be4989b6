//! The lab's links as the middlebox needs them: clients on one side of it, servers on
//! the other, in one subnet.

use crate::topology::{BACKENDS, BALANCER, CLIENTS, SWITCH, WIDE_BALANCER, WIDE_PORT};
use crate::{Lab, LabError};

/// The bridge of the servers' side.
const BRIDGE: &str = "br1";

/// Moves the servers and the second link to a bridge of their own, and gives the
/// clients addresses in the servers' subnet.
pub(super) fn make(lab: &Lab) -> Result<(), LabError> {
    let mut switch = format!(
        "set -e\n\
         ip link add {BRIDGE} type bridge stp_state 0 forward_delay 0 mcast_snooping 0\n\
         echo 1 > /proc/sys/net/ipv6/conf/{BRIDGE}/disable_ipv6\n"
    );
    for port in BACKENDS.iter().map(|host| host.name).chain([WIDE_BALANCER]) {
        switch += &format!("ip link set {port} mtu 1500 master {BRIDGE}\n");
    }
    switch += &format!(
        "bridge link set dev {WIDE_BALANCER} flood on mcast_flood on bcast_flood on\n\
         ip link set {BRIDGE} up\n"
    );
    sh(lab, SWITCH, &switch)?;
    sh(lab, BALANCER, &format!("ip link set {WIDE_PORT} mtu 1500\n"))?;
    for host in &BACKENDS {
        sh(lab, host.name, "ip link set eth0 mtu 1500\n")?;
    }
    for (host, number) in CLIENTS.iter().zip(101..) {
        let script = format!(
            "set -e\nip addr add 10.72.0.{number}/24 dev eth0\n\
             ip addr add fd72::{number}/64 dev eth0 nodad\n"
        );
        sh(lab, host.name, &script)?;
    }
    Ok(())
}

fn sh(lab: &Lab, host: &str, script: &str) -> Result<(), LabError> {
    lab.exec(host, &["sh", "-c", script])?.success().map(drop)
}
