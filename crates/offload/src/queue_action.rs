//! What a queue must mean for one direction of a connection.
use std::net::SocketAddr;

use pipeline::encoding::QueueAction;
use service::{Binding, Direction, HopId};
use wire::Rewrite;

/// Why a connection can't be told by a queue number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotEncodable {
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
pub(crate) fn queue_action(
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
    let rewrite = match (direction, all_ports) {
        (_, false) => binding.rewrite(direction),
        (Direction::Forward, true) => Rewrite::destination_address(vip.ip(), server.ip()),
        (Direction::Reply, true) => Rewrite::source_address(server.ip(), vip.ip()),
    };
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
        rewrite: rewrite.ok_or(NotEncodable::Families)?,
        hop,
    })
}
