//! One change of what the load balancer does.
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use config::{Interface, Route};
use conntrack::EmbryonicLimits;
use service::{BackendSpec, Health, ServiceSpec, Timeouts};
use wire::Mac;

use crate::{Drained, InterfaceKey};

/// What makes a backend the same one in another configuration of its service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BackendKey {
    /// Its address.
    pub address: IpAddr,
    /// Its port, its own or the service's; `None`: the one the client asked for.
    pub port: Option<u16>,
}

impl BackendKey {
    /// That of `backend` of `service`.
    #[must_use]
    pub fn of(service: &ServiceSpec, backend: &BackendSpec) -> Self {
        Self::with(backend, service.port)
    }

    /// That of `backend` of a service of this port.
    pub(crate) fn with(backend: &BackendSpec, port: Option<u16>) -> Self {
        Self { address: backend.address, port: backend.port.or(port) }
    }
}

impl fmt::Display for BackendKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}", SocketAddr::new(self.address, port)),
            None => write!(f, "{}", self.address),
        }
    }
}

/// One change of a [`Plan`](crate::Plan).
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A service begins, with all its backends.
    AddService(ServiceSpec),
    /// All but the backends of a service changes. What it names of backends
    /// doesn't count.
    ChangeService(ServiceSpec),
    /// The service with this name ends.
    RemoveService(String),
    /// A service gets another backend.
    AddBackend {
        /// The service's name.
        service: String,
        /// The backend.
        backend: BackendSpec,
    },
    /// A backend's weight changes.
    ChangeBackend {
        /// The service's name.
        service: String,
        /// The backend as it becomes.
        backend: BackendSpec,
    },
    /// A backend leaves a service.
    RemoveBackend {
        /// The service's name.
        service: String,
        /// The backend.
        backend: BackendKey,
    },
    /// A backend gets no new connections any more.
    Drain(Drained),
    /// A drained backend serves again.
    Restore(Drained),
    /// The backends of the service with this name are checked otherwise, or not.
    SetChecks(String, Option<Box<config::Health>>),
    /// Health checks have found a backend up or down, or give it more of its weight.
    SetHealth {
        /// The service's name.
        service: String,
        /// The backend.
        backend: BackendKey,
        /// What it has of its weight.
        health: Health,
    },
    /// The load balancer is attached to another network.
    AddInterface(Interface),
    /// Addresses of an interface change, of IP or Ethernet.
    ChangeInterface(Interface),
    /// The load balancer leaves a network.
    RemoveInterface(InterfaceKey),
    /// There is another route.
    AddRoute(Route),
    /// A route ends.
    RemoveRoute(Route),
    /// A neighbour has this Ethernet address, and isn't asked for it.
    SetNeighbour(IpAddr, Mac),
    /// A neighbour is asked for its Ethernet address again.
    RemoveNeighbour(IpAddr),
    /// Connections live longer or shorter without packets.
    SetTimeouts(Timeouts),
    /// More or fewer connections may be embryonic.
    SetEmbryonic(EmbryonicLimits),
    /// The service with this name may take so many percent of the connection table.
    SetShare(String, u8),
    /// Of the packets matched by queue, one in so many is looked up.
    SetSample(u32),
    /// Answers of neighbours are good for so many milliseconds.
    SetRefresh(u32),
    /// Known Ethernet addresses stay, whatever other stations claim, or not.
    SetPin(bool),
    /// Fragments of a datagram are waited for longer or shorter, in milliseconds.
    SetFragmentTimeout(u64),
    /// What is answered to packets that go no further.
    SetAnswers(config::Answers),
    /// A list of the file has another order.
    Reorder(Order),
}

/// The order of a list of the file.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// Names of services.
    Services(Vec<String>),
    /// Backends of the service with this name.
    Backends(String, Vec<BackendKey>),
    /// Interfaces.
    Interfaces(Vec<InterfaceKey>),
    /// Routes.
    Routes(Vec<Route>),
}

impl Step {
    /// Whether backends may have another part of their weight afterwards.
    pub(crate) const fn is_of_health(&self) -> bool {
        matches!(self, Self::SetChecks(..) | Self::SetHealth { .. }) || self.is_of_services()
    }

    /// Whether the services and their backends change.
    pub(crate) const fn is_of_services(&self) -> bool {
        matches!(
            self,
            Self::AddService(_)
                | Self::ChangeService(_)
                | Self::RemoveService(_)
                | Self::AddBackend { .. }
                | Self::ChangeBackend { .. }
                | Self::RemoveBackend { .. }
                | Self::Reorder(Order::Services(_) | Order::Backends(..))
        )
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddService(spec) => {
                let (name, count) = (&spec.name, spec.backends.len());
                let backends = if count == 1 { "backend" } else { "backends" };
                write!(f, "service {name}: added at {}, with {count} {backends}", vip(spec))
            }
            Self::ChangeService(spec) => {
                write!(f, "service {}: its settings change", spec.name)
            }
            Self::RemoveService(name) => write!(f, "service {name}: removed"),
            Self::AddBackend { service, backend } => {
                let BackendSpec { weight, .. } = backend;
                write!(f, "service {service}: backend {} added, weight {weight}", name_of(backend))
            }
            Self::ChangeBackend { service, backend } => {
                let BackendSpec { weight, .. } = backend;
                write!(f, "service {service}: backend {} gets weight {weight}", name_of(backend))
            }
            Self::RemoveBackend { service, backend } => {
                write!(f, "service {service}: backend {backend} removed")
            }
            Self::Drain(one) => write!(f, "{one} drained"),
            Self::Restore(one) => write!(f, "{one} restored"),
            Self::SetChecks(service, Some(_)) => {
                write!(f, "service {service}: its health checks change")
            }
            Self::SetChecks(service, None) => {
                write!(f, "service {service}: its backends are not checked any more")
            }
            Self::SetHealth { service, backend, health } => match health.as_percent() {
                0 => write!(f, "service {service}: backend {backend} is down"),
                100 => write!(f, "service {service}: backend {backend} is up"),
                part => write!(
                    f,
                    "service {service}: backend {backend} is up, with {part} % of its weight"
                ),
            },
            Self::AddInterface(own) => write!(f, "interface {}: added", interface_name(own)),
            Self::ChangeInterface(own) => {
                write!(f, "interface {}: its addresses change", interface_name(own))
            }
            Self::RemoveInterface((port, vlan)) => {
                write!(f, "interface {}: removed", interface(port, *vlan))
            }
            Self::AddRoute(route) => write!(f, "route {} via {}: added", route.prefix, route.via),
            Self::RemoveRoute(route) => {
                write!(f, "route {} via {}: removed", route.prefix, route.via)
            }
            Self::SetNeighbour(address, mac) => write!(f, "neighbour {address}: has {mac}"),
            Self::RemoveNeighbour(address) => write!(f, "neighbour {address}: removed"),
            Self::SetTimeouts(_) => write!(f, "conntrack: the timeouts change"),
            Self::SetEmbryonic(EmbryonicLimits { service_percent, source_percent }) => write!(
                f,
                "conntrack: embryonic connections take at most {service_percent} % of the free room \
                 for a service, {source_percent} % for a source network"
            ),
            Self::SetShare(service, percent) => {
                write!(f, "service {service}: may take {percent} % of the connection table")
            }
            Self::SetSample(sample) => write!(f, "offload.sample: {sample}"),
            Self::SetRefresh(ms) => write!(f, "neighbours.refresh: {ms} ms"),
            Self::SetPin(pin) => write!(f, "neighbours.pin: {pin}"),
            Self::SetFragmentTimeout(ms) => write!(f, "fragments.timeout: {ms} ms"),
            Self::SetAnswers(config::Answers {
                closed_ports,
                per_second,
                echoes_per_second,
                to_kernel_per_second,
                from_kernel_per_second,
            }) => {
                write!(
                    f,
                    "answers: closed_ports {closed_ports}, per_second {per_second}, \
                     echoes_per_second {echoes_per_second}, to_kernel_per_second {to_kernel_per_second}, \
                     from_kernel_per_second {from_kernel_per_second}"
                )
            }
            Self::Reorder(order) => write!(f, "{order}"),
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Services(_) => f.write_str("services: in another order"),
            Self::Backends(service, _) => {
                write!(f, "service {service}: backends in another order")
            }
            Self::Interfaces(_) => f.write_str("interfaces: in another order"),
            Self::Routes(_) => f.write_str("routes: in another order"),
        }
    }
}

fn vip(spec: &ServiceSpec) -> String {
    let port = spec.port.map_or_else(|| "any".to_owned(), |port| port.to_string());
    format!("{}, port {port}/{}", spec.vip, spec.proto)
}

fn name_of(backend: &BackendSpec) -> BackendKey {
    BackendKey::with(backend, None)
}

fn interface_name(own: &Interface) -> String {
    interface(&own.port, own.vlan)
}

/// An interface's name for people.
pub(crate) fn interface(port: &str, vlan: Option<u16>) -> String {
    vlan.map_or_else(|| port.to_owned(), |vlan| format!("{port}.{vlan}"))
}
