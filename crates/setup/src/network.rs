//! Interfaces, routes and static neighbours.
use std::net::IpAddr;

use config::Config;
use flow::{InterfaceId, PortId};
use l3::{Interface, Interfaces, NeighbourTable, Route, RouteTable};

use crate::{PortFacts, SetupError};

/// The interfaces in the order of the configuration.
pub(crate) fn interfaces(config: &Config, facts: &[PortFacts]) -> Result<Interfaces, SetupError> {
    let mut all = Vec::with_capacity(config.interfaces.len());
    for given in &config.interfaces {
        let at = config.ports.iter().position(|port| port.name == given.port);
        let found = at.and_then(|at| Some((at, config.ports.get(at)?, facts.get(at)?)));
        let (at, port, facts) =
            found.ok_or_else(|| SetupError::Unknown { what: "port", name: given.port.clone() })?;
        all.push(Interface {
            name: given.vlan.map_or_else(|| port.name.clone(), |id| format!("{}.{id}", port.name)),
            port: PortId(at as u16),
            vlan: given.vlan,
            mac: given.mac.unwrap_or(facts.mac),
            mtu: port.mtu,
            addresses: given.addresses.clone(),
        });
    }
    Ok(Interfaces::new(all))
}

/// The configured routes over the interface that each gateway is on.
pub(crate) fn routes(config: &Config, interfaces: &Interfaces) -> Result<RouteTable, SetupError> {
    let mut routes = Vec::with_capacity(config.routes.len());
    for route in &config.routes {
        let interface = on_link(interfaces, "gateway", route.via)?;
        routes.push(Route { to: route.prefix.trunc(), interface, via: Some(route.via) });
    }
    Ok(RouteTable::new(&routes, interfaces))
}

/// Enters the configured neighbours.
pub(crate) fn static_neighbours(
    config: &Config,
    interfaces: &Interfaces,
    table: &NeighbourTable,
) -> Result<(), SetupError> {
    for given in &config.static_neighbours {
        let interface = on_link(interfaces, "neighbour", given.address)?;
        table.set_static(interface, given.address, given.mac).ok_or(SetupError::NeighboursFull)?;
    }
    Ok(())
}

fn on_link(
    interfaces: &Interfaces,
    what: &'static str,
    addr: IpAddr,
) -> Result<InterfaceId, SetupError> {
    let found = interfaces.iter().find(|(_, interface)| interface.is_on_link(addr));
    found.map(|(id, _)| id).ok_or(SetupError::Unreachable { what, addr })
}
