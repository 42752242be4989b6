//! Why services cannot be compiled.
use std::net::IpAddr;

use crate::MaglevSizeError;

/// Why specs cannot be compiled to a [`ServiceTable`](crate::ServiceTable).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// Ids have 16 bits.
    #[error("there are more than 65535 services; leave some out")]
    TooManyServices,
    /// Ids have 16 bits.
    #[error("there are more than 65535 backends in all services; leave some out")]
    TooManyBackends,
    /// Two services would get the same packets.
    #[error(
        "services '{first}' and '{second}' have the same vip, port and protocol; change one of them"
    )]
    DuplicateService {
        /// The earlier service's name.
        first: String,
        /// The later service's name.
        second: String,
    },
    /// A backend is listed twice.
    #[error(
        "service '{service}' has the backend {address} twice (port {port:?}); give it once, with the sum of the weights"
    )]
    DuplicateBackend {
        /// The service's name.
        service: String,
        /// The backend's address.
        address: IpAddr,
        /// The backend's port.
        port: Option<u16>,
    },
    /// Addresses are rewritten, families are not translated.
    #[error("service '{service}': backend {backend} is not of the family of the vip {vip}")]
    Family {
        /// The service's name.
        service: String,
        /// Its VIP.
        vip: IpAddr,
        /// The backend's address.
        backend: IpAddr,
    },
    /// A service of any port keeps the port.
    #[error(
        "service '{service}' takes any port, so its backend {backend} must not have a port ({port})"
    )]
    BackendPort {
        /// The service's name.
        service: String,
        /// The backend's address.
        backend: IpAddr,
        /// The backend's port.
        port: u16,
    },
    /// Packets reach the backend as they are, with the VIP's port.
    #[error(
        "service '{service}' leaves packets as they are, so its backend {backend} must not have a port ({port}): it listens at the vip's"
    )]
    KeptPort {
        /// The service's name.
        service: String,
        /// The backend's address.
        backend: IpAddr,
        /// The backend's port.
        port: u16,
    },
    /// An outer header has one family.
    #[error(
        "service '{service}': the tunnel's source {address} is not of the family of the backend {backend}"
    )]
    TunnelSource {
        /// The service's name.
        service: String,
        /// The outer source address.
        address: IpAddr,
        /// The backend's address.
        backend: IpAddr,
    },
    /// Nothing to take source addresses from.
    #[error("service '{service}': pool '{pool}' has no address of the family of the vip {vip}")]
    EmptyPool {
        /// The service's name.
        service: String,
        /// The pool's name.
        pool: String,
        /// The service's VIP.
        vip: IpAddr,
    },
    /// More backends than classes of clients.
    #[error("service '{service}' has too many backends to be stateless: at most 4096 can share")]
    TooManyShares {
        /// The service's name.
        service: String,
    },
    /// The Maglev table's size is not right.
    #[error("service '{service}': maglev table size {error}")]
    Maglev {
        /// The service's name.
        service: String,
        /// What is wrong with it.
        error: MaglevSizeError,
    },
}
