//! The balancers that are compared, and how each is set up in the balancer's namespace.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use flow::Mode;

use crate::column::Column;
use crate::lab::{self, log_tail};
use crate::topology::{BACKENDS, BALANCER, DIRECT, Host, PORT, VIP4, WEB_BACKEND_PORT, WEB_PORT};
use crate::{Balancer, Lab, LabError, netns};

/// Name of HAProxy's process in the lab.
const HAPROXY: &str = "haproxy";
/// How long HAProxy may take to listen, and to go.
const PATIENCE: Duration = Duration::from_secs(20);
/// The client of all loads.
pub(super) const CLIENT: &str = "c1";

/// A balancer that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contender {
    /// No balancing: the kernel routes packets for the VIP to backends that
    /// have it themselves, spread over them by a hash (ECMP). What the others
    /// are set against.
    Routed,
    /// DNAT in the kernel, round robin.
    Nftables,
    /// HAProxy in TCP mode, one thread, round robin.
    Haproxy,
    /// HNLB with one worker.
    Hnlb(Column),
}

/// A contender at work.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) contender: Contender,
    /// HNLB, if it is that.
    pub(super) balancer: Option<Balancer>,
    /// The process, if there is one.
    pub(super) pid: Option<u32>,
}

impl Contender {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 7] = [
        Self::Routed,
        Self::Nftables,
        Self::Haproxy,
        Self::Hnlb(Column::Off),
        Self::Hnlb(Column::Queue),
        Self::Hnlb(Column::Mark),
        Self::Hnlb(Column::Xdp),
    ];

    /// Its name in tables and rows.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Routed => "routed",
            Self::Nftables => "nftables",
            Self::Haproxy => "haproxy",
            Self::Hnlb(Column::Off) => "hnlb-off",
            Self::Hnlb(Column::Queue) => "hnlb-queue",
            Self::Hnlb(Column::Mark) => "hnlb-mark",
            Self::Hnlb(Column::Rewrite) => "hnlb-rewrite",
            Self::Hnlb(Column::Xdp) => "hnlb-xdp",
        }
    }

    /// Where the client sends its requests.
    pub(super) const fn target(self) -> SocketAddr {
        let port = if matches!(self, Self::Routed) { WEB_BACKEND_PORT } else { WEB_PORT };
        SocketAddr::new(IpAddr::V4(VIP4), port)
    }

    pub(super) fn start(self, lab: &mut Lab, binary: &Path) -> Result<Running, LabError> {
        let (mut balancer, mut pid) = (None, None);
        match self {
            Self::Routed => {
                script(lab, BALANCER, &(ROUTER.to_owned() + &ecmp()))?;
                for host in &BACKENDS {
                    script(lab, host.name, &direct_rule("del"))?;
                }
                script(lab, CLIENT, &format!("ip route add {VIP4} via 10.71.0.1\n"))?;
            }
            Self::Nftables => script(lab, BALANCER, &(ROUTER.to_owned() + VIP_HERE + &dnat()))?,
            Self::Haproxy => pid = Some(haproxy(lab)?),
            Self::Hnlb(column) => {
                let started = Balancer::start(lab, binary, &column.run(Mode::Nat, 1))?;
                pid = Some(started.pid());
                balancer = Some(started);
            }
        }
        Ok(Running { contender: self, balancer, pid })
    }
}

impl Running {
    /// Ends it and undoes what it set up.
    pub(super) fn stop(self, lab: &mut Lab) -> Result<(), LabError> {
        match self.contender {
            Contender::Routed => {
                script(lab, CLIENT, &format!("ip route del {VIP4} via 10.71.0.1\n"))?;
                for host in &BACKENDS {
                    script(lab, host.name, &direct_rule("add"))?;
                }
                script(lab, BALANCER, BARE)?;
            }
            Contender::Nftables => {
                script(lab, BALANCER, &format!("nft delete table ip compare\n{BARE}"))?;
            }
            Contender::Haproxy => {
                self.pid.map(|pid| lab.end(pid, PATIENCE));
                script(lab, BALANCER, BARE)?;
            }
            Contender::Hnlb(_) => {
                self.balancer.map(|balancer| balancer.end(lab));
                lab.receive_redirected(false)?;
            }
        }
        // The VIP belongs to another Ethernet address from now on.
        for host in [CLIENT].into_iter().chain(BACKENDS.iter().map(|host| host.name)) {
            script(lab, host, "ip neigh flush all\n")?;
        }
        Ok(())
    }
}

/// The kernel as the gateway of both subnets. Redirects are off already.
const ROUTER: &str = "\
ip addr add 10.71.0.1/24 dev hnlb0
ip addr add 10.72.0.1/24 dev hnlb0
echo 1 > /proc/sys/net/ipv4/ip_forward
";

/// The VIP at the balancer.
const VIP_HERE: &str = "ip addr add 10.71.0.100/32 dev hnlb0\n";

/// The namespace as HNLB wants it: without addresses of the kernel's.
const BARE: &str = "\
echo 0 > /proc/sys/net/ipv4/ip_forward
ip route flush 10.71.0.100
ip addr flush dev hnlb0
";

/// The VIP by way of all backends, each connection by one.
fn ecmp() -> String {
    let hops: String =
        BACKENDS.iter().map(|Host { v4, .. }| format!(" nexthop via {v4} dev {PORT}")).collect();
    format!("echo 1 > /proc/sys/net/ipv4/fib_multipath_hash_policy\nip route add {VIP4}/32{hops}\n")
}

/// Backends have the VIP, and answer clients past the balancer. Here their
/// answers shall pass it, as with all others.
fn direct_rule(change: &str) -> String {
    format!("ip rule {change} from {VIP4} lookup {DIRECT}\n")
}

/// DNAT by rules for the first packet and connection tracking for the rest.
/// Closed connections are forgotten at once: at thousands of short ones a
/// second the kernel's table would be full within seconds otherwise.
fn dnat() -> String {
    let backends: Vec<String> =
        (0..).zip(&BACKENDS).map(|(at, host): (u32, _)| format!("{at} : {}", host.v4)).collect();
    let (count, backends) = (backends.len(), backends.join(", "));
    format!(
        "nft -f - <<EOF\n\
         table ip compare {{\n\
         \x20 chain pre {{\n\
         \x20   type nat hook prerouting priority dstnat;\n\
         \x20   ip daddr {VIP4} tcp dport {WEB_PORT} dnat to numgen inc mod {count} \
         map {{ {backends} }} : {WEB_BACKEND_PORT}\n\
         \x20 }}\n\
         }}\n\
         EOF\n\
         for state in time_wait close last_ack close_wait; do\n\
         \x20 echo 1 > /proc/sys/net/netfilter/nf_conntrack_tcp_timeout_$state\n\
         done\n"
    )
}

fn haproxy(lab: &mut Lab) -> Result<u32, LabError> {
    script(lab, BALANCER, &(ROUTER.to_owned() + VIP_HERE))?;
    let file = lab.dir().join("haproxy.cfg");
    let mut text = format!(
        "global\n  nbthread 1\n  maxconn 8192\n\
         defaults\n  mode tcp\n  timeout connect 10s\n  timeout client 120s\n  \
         timeout server 120s\n\
         listen web\n  bind {VIP4}:{WEB_PORT}\n  balance roundrobin\n"
    );
    for Host { name, v4, .. } in &BACKENDS {
        text += &format!("  server {name} {v4}:{WEB_BACKEND_PORT}\n");
    }
    std::fs::write(&file, text).map_err(LabError::io(format!("write {}", file.display())))?;
    let pid =
        lab.spawn(BALANCER, HAPROXY, &["haproxy", "-db", "-f", &file.display().to_string()])?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        if lab::listening("tcp", WEB_PORT, &[""], pid) {
            return Ok(pid);
        }
        let ended = lab.ended(pid);
        if ended.is_some() || Instant::now() >= deadline {
            let log = log_tail(&lab.log(HAPROXY));
            let status = ended.unwrap_or_else(|| "it does not listen".into());
            return Err(LabError::Command { command: HAPROXY.into(), status, stderr: log });
        }
        lab.stop().sleep(Duration::from_millis(20))?;
    }
}

fn script(lab: &Lab, host: &str, text: &str) -> Result<(), LabError> {
    netns::script(&lab.netns(host), text, lab.stop())
}
