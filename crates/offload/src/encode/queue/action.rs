//! What a queue must mean for one direction of a connection.
use std::net::SocketAddr;

use flow::{Direction, HopId};
use service::{Binding, Delivery};
use state::QueueAction;
use wire::Rewrite;

/// Why a connection can't be told by a queue number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotEncodable {
    /// The source is rewritten to an address and port of the connection's own.
    #[error("in mode fullnat the rewrite differs between connections")]
    FullNat,
    /// The endpoints are of different families.
    #[error("the connection's endpoints are of different families")]
    Families,
}

/// The action that all packets of `direction` of a connection with `binding`
/// share with the other connections of the same service and backend.
///
/// With `any_port`, the service's ports are all one: where backends keep the
/// port too, the action rewrites addresses only and holds for every port.
pub(super) fn queue_action(
    binding: &Binding,
    direction: Direction,
    hop: HopId,
    any_port: bool,
) -> Result<QueueAction, NotEncodable> {
    if binding.local != binding.client {
        return Err(NotEncodable::FullNat);
    }
    let (vip, server) = (binding.vip, binding.server);
    let all_ports = any_port && vip.port() == server.port();
    let addresses = match direction {
        _ if !all_ports || binding.forwarding.is_one_way() => None,
        Direction::Forward => Rewrite::destination_address(vip.ip(), server.ip()),
        Direction::Reply => Rewrite::source_address(server.ip(), vip.ip()),
    };
    let delivery = addresses.map(Delivery::Rewrite).or_else(|| binding.delivery(direction));
    let arriving = match direction {
        Direction::Forward => vip,
        Direction::Reply => server,
    };
    let port = if all_ports { 0 } else { arriving.port() };
    Ok(QueueAction {
        service: binding.service,
        backend: binding.backend,
        direction,
        proto: binding.proto,
        endpoint: SocketAddr::new(arriving.ip(), port),
        delivery: delivery.ok_or(NotEncodable::Families)?,
        hop,
    })
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use flow::{BackendId, ServiceId};
    use service::Forwarding;
    use wire::Transport;

    use super::*;

    fn binding(vip: &str, server: &str, fullnat: bool) -> Binding {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let client = at("10.0.0.1:5000");
        Binding {
            proto: Transport::Tcp,
            service: ServiceId(0),
            backend: BackendId(3),
            forwarding: Forwarding::Rewrite,
            client,
            vip: at(vip),
            server: at(server),
            local: if fullnat { at("192.168.0.254:40000") } else { client },
        }
    }

    #[test]
    fn an_action_is_the_connections_rewrite_and_the_endpoint_all_its_packets_carry() {
        let binding = binding("203.0.113.1:80", "192.168.0.1:8080", false);
        for (direction, endpoint) in
            [(Direction::Forward, binding.vip), (Direction::Reply, binding.server)]
        {
            let action = queue_action(&binding, direction, HopId(7), false).unwrap();
            assert_eq!(Some(action.delivery), binding.delivery(direction));
            assert_eq!((action.endpoint, action.hop), (endpoint, HopId(7)));
        }
    }

    #[test]
    fn connections_of_a_service_of_any_port_share_an_action() {
        let ports = ["80", "443"].map(|port| {
            let (vip, server) = (format!("203.0.113.1:{port}"), format!("192.168.0.1:{port}"));
            binding(&vip, &server, false)
        });
        for direction in Direction::BOTH {
            let [a, b] = ports.map(|b| queue_action(&b, direction, HopId(0), true).unwrap());
            assert_eq!(a, b);
            assert_eq!(a.endpoint.port(), 0);
            let [a, b] = ports.map(|b| queue_action(&b, direction, HopId(0), false).unwrap());
            assert_ne!(a, b);
        }
    }

    #[test]
    fn what_stays_as_it_is_stays_so_for_all_connections_of_a_backend() {
        for (forwarding, delivery) in [
            (Forwarding::Direct, Delivery::Direct(BackendId(3))),
            (Forwarding::Tunnel, Delivery::Tunnel(BackendId(3))),
        ] {
            for any_port in [false, true] {
                let vip = "203.0.113.1:80";
                let binding = Binding { forwarding, ..binding(vip, vip, false) };
                let action = queue_action(&binding, Direction::Forward, HopId(0), any_port);
                assert_eq!(action.unwrap().delivery, delivery);
            }
        }
    }

    #[test]
    fn full_nat_differs_between_connections() {
        let binding = binding("203.0.113.1:80", "192.168.0.1:80", true);
        let refused = queue_action(&binding, Direction::Reply, HopId(0), true);
        assert_eq!(refused, Err(NotEncodable::FullNat));
    }
}
