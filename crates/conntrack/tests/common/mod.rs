//! Tables and bindings for the tests.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use conntrack::{ConnTable, Segment, TableConfig};
use flow::{BackendId, HopId, ServiceId};
use service::{Binding, Forwarding};
use wire::{TcpFlags, Transport};

pub fn table(connections: usize, connections_v6: usize) -> ConnTable {
    seeded(connections, connections_v6, 7)
}

pub fn seeded(connections: usize, connections_v6: usize, seed: u8) -> ConnTable {
    ConnTable::new(&TableConfig {
        connections,
        connections_v6,
        seed: [seed; 32],
        timeouts: service::Timeouts::default(),
    })
    .unwrap()
}

fn ip(v6: bool, net: u32, host: u32) -> IpAddr {
    if v6 {
        let bits = (0x2001_0db8 << 96) | u128::from(net) << 64 | u128::from(host);
        Ipv6Addr::from_bits(bits).into()
    } else {
        Ipv4Addr::from_bits(net << 24 | host).into()
    }
}

/// A connection of client number `n`: over TCP through address translation of
/// one side if `n` is even, over UDP of both sides if it is odd; of every five
/// two go to their backend as they are.
pub fn binding(n: u32, v6: bool) -> Binding {
    let client = SocketAddr::new(ip(v6, 10, n / 50_000), (n % 50_000 + 1024) as u16);
    let full = n % 2 == 1;
    let local = SocketAddr::new(ip(v6, 192, n / 60_000), (n % 60_000 + 1024) as u16);
    let forwarding = match n % 5 {
        3 => Forwarding::Direct,
        4 => Forwarding::Tunnel,
        _ => Forwarding::Rewrite,
    };
    let vip = SocketAddr::new(ip(v6, 198, n % 3), 443);
    let server = SocketAddr::new(ip(v6, 172, n % 300), 8443);
    let one_way = forwarding.is_one_way();
    Binding {
        proto: if full { Transport::Udp } else { Transport::Tcp },
        service: ServiceId((n % 7) as u16),
        backend: BackendId((n % 300) as u16),
        forwarding,
        client,
        vip,
        server: if one_way { vip } else { server },
        local: if full && !one_way { local } else { client },
    }
}

/// A TCP segment with these control bits, of numbers that fit everywhere.
pub fn segment(flags: u8) -> Segment {
    Segment { flags: TcpFlags(flags), ..Segment::default() }
}

pub fn hops(n: u32) -> [HopId; 2] {
    [HopId(n), HopId(!n)]
}

/// `general` for all services but those that `own` gives some of their own.
pub fn timeouts(
    general: service::Timeouts,
    own: &dyn Fn(u16) -> Option<service::Timeouts>,
) -> service::ServiceTimeouts {
    let spec = |n: u16| service::ServiceSpec {
        name: n.to_string(),
        vip: Ipv4Addr::from_bits(0x0a00_0000 | u32::from(n)).into(),
        port: None,
        proto: Transport::Tcp,
        mode: service::ModeSpec::Nat,
        scheduler: flow::Scheduler::Maglev,
        maglev_size: 101,
        on_remove: flow::OnRemove::Keep,
        refuse: flow::Refuse::Reset,
        timeouts: own(n),
        quic: Vec::new(),
        routes: None,
        failover: service::Failover::default(),
        backends: Vec::new(),
    };
    let specs: Vec<_> = (0..7).map(spec).collect();
    let table = service::ServiceTable::compile(&specs, [0, 0]).unwrap();
    service::ServiceTimeouts::new(general, &table)
}
