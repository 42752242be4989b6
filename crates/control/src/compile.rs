//! From a plan to the snapshot that workers read.
use std::collections::BTreeMap;
use std::net::IpAddr;

use flow::{InterfaceId, PortId};
use l3::{Interface, Interfaces, Route, RouteTable};
use service::{Backend, Health, Moved, Registry, TableError};
use state::{Answers, Snapshot, Tunnels};
use wire::Mac;

use crate::step::{BackendKey, interface};
use crate::{Plan, Step};

/// What is known of a port once it is open; in the order of [`PortId`]s.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortFact {
    /// Its name in the configuration.
    pub name: String,
    /// Its Ethernet address.
    pub mac: Mac,
    /// The longest IP packet it sends.
    pub mtu: u16,
}

/// Why a plan can't be brought about although its configuration is right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// An interface is on a port that isn't there.
    #[error("there is no port '{0}'")]
    NoPort(String),
    /// No interface leads there.
    #[error("{what} {addr} is on no interface's network")]
    Unreachable {
        /// What the address is for.
        what: &'static str,
        /// The address.
        addr: IpAddr,
    },
    /// The neighbour table has no room for the static ones.
    #[error("the neighbour table has no room for neighbour {0}; raise [neighbours] max")]
    NeighboursFull(IpAddr),
    /// Ids have 16 bits.
    #[error("there have been 65536 interfaces; a restart makes room for others")]
    TooManyInterfaces,
    /// The services can't be compiled.
    #[error(transparent)]
    Services(#[from] TableError),
}

/// Who has which id, in all plans of the process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ids {
    pub(crate) services: Registry,
    /// An interface has its id for good: there are only so many VLANs of a port.
    interfaces: BTreeMap<(PortId, Option<u16>), InterfaceId>,
}

impl Ids {
    fn interface(&mut self, at: (PortId, Option<u16>)) -> Result<InterfaceId, CompileError> {
        if let Some(id) = self.interfaces.get(&at) {
            return Ok(*id);
        }
        let next = u16::try_from(self.interfaces.len());
        let id = InterfaceId(next.map_err(|_| CompileError::TooManyInterfaces)?);
        self.interfaces.insert(at, id);
        Ok(id)
    }
}

/// The snapshot of `plan`, to which `steps` have led from that of `old`, and what
/// they move of the clients of stateless services.
pub(crate) fn compile(
    plan: &Plan,
    steps: &[Step],
    old: &Snapshot,
    ids: &mut Ids,
    ports: &[PortFact],
) -> Result<(Snapshot, Moved), CompileError> {
    let interfaces = interfaces(plan, ids, ports)?;
    let routes = routes(plan, &interfaces)?;
    let mut services = old.services.clone();
    if steps.iter().any(Step::is_of_services) {
        services = services.successor(&plan.services, &mut ids.services)?;
    }
    let mut moved = Moved::default();
    for step in steps {
        let (one, drain) = match step {
            Step::Drain(one) => (one, true),
            Step::Restore(one) => (one, false),
            _ => continue,
        };
        // An error: the backend is so already, since a service that stays keeps
        // what is drained.
        if let Ok((table, change)) = services.steer(&one.service, one.backend, drain) {
            (services, moved) = (table, change);
        }
    }
    if steps.iter().any(Step::is_of_health) {
        let health = |service: &str, own: &Backend| {
            let key = (service.to_owned(), BackendKey { address: own.address, port: own.port });
            plan.health.get(&key).copied().unwrap_or(Health::UP)
        };
        if let Some((table, change)) = services.with_health(&health) {
            (services, moved) = (table, change);
        }
    }
    let tunnels = Tunnels::new(&services, &interfaces, &routes);
    let network = Snapshot { interfaces, routes, tunnels, ..old.clone() };
    let (sample, fragment_timeout_ms) = (plan.sample, plan.fragment_timeout_ms);
    let answers = answers(&plan.answers);
    let snapshot = Snapshot { services, sample, fragment_timeout_ms, answers, ..network };
    Ok((snapshot, moved))
}

/// What workers answer by `answers`.
#[must_use]
pub const fn answers(answers: &config::Answers) -> Answers {
    let config::Answers { closed_ports, per_second, echoes_per_second, .. } = *answers;
    let config::Answers { to_kernel_per_second, from_kernel_per_second, .. } = *answers;
    Answers {
        closed_ports,
        per_second,
        echoes_per_second,
        to_kernel_per_second,
        from_kernel_per_second,
    }
}

fn interfaces(plan: &Plan, ids: &mut Ids, ports: &[PortFact]) -> Result<Interfaces, CompileError> {
    let mut all = Vec::with_capacity(plan.interfaces.len());
    for given in &plan.interfaces {
        let mut known = (0..).map(PortId).zip(ports);
        let found = known.find(|(_, port)| port.name == given.port);
        let (port, fact) = found.ok_or_else(|| CompileError::NoPort(given.port.clone()))?;
        let id = ids.interface((port, given.vlan))?;
        all.push((
            id,
            Interface {
                name: interface(&given.port, given.vlan),
                port,
                vlan: given.vlan,
                mac: given.mac.unwrap_or(fact.mac),
                mtu: fact.mtu,
                addresses: given.addresses.clone(),
                kernel: given.kernel.clone(),
            },
        ));
    }
    Ok(Interfaces::with_ids(all))
}

/// The configured routes over the interface that each gateway is on.
fn routes(plan: &Plan, interfaces: &Interfaces) -> Result<RouteTable, CompileError> {
    let mut routes = Vec::with_capacity(plan.routes.len());
    for route in &plan.routes {
        let interface = on_link(interfaces, "gateway", route.via)?;
        routes.push(Route { to: route.prefix.trunc(), interface, via: Some(route.via) });
    }
    Ok(RouteTable::new(&routes, interfaces))
}

/// The static neighbours of `plan` with the interfaces they are on.
pub(crate) fn neighbours(
    plan: &Plan,
    interfaces: &Interfaces,
) -> Result<BTreeMap<(InterfaceId, IpAddr), Mac>, CompileError> {
    let given = plan.neighbours.iter();
    given.map(|(at, mac)| Ok(((on_link(interfaces, "neighbour", *at)?, *at), *mac))).collect()
}

fn on_link(
    interfaces: &Interfaces,
    what: &'static str,
    addr: IpAddr,
) -> Result<InterfaceId, CompileError> {
    let found = interfaces.iter().find(|(_, interface)| interface.is_on_link(addr));
    found.map(|(id, _)| id).ok_or(CompileError::Unreachable { what, addr })
}
