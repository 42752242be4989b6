//! Source addresses and ports of full NAT.
use std::net::{IpAddr, SocketAddr};

use flow::BackendId;
use wire::FlowKey;

use crate::PoolSpec;
use crate::siphash::{self, Key};

/// How many candidates are offered for one connection.
const PROBES: u64 = 64;

/// How many step widths a pool knows.
const STRIDES: usize = 16;

/// Addresses times ports of one family, from which a connection's local
/// endpoint is taken. It keeps no record of what is in use: the connection
/// table does, when it refuses a second connection with the same 5-tuple.
#[derive(Clone, Debug)]
pub struct Pool {
    name: String,
    addresses: Box<[IpAddr]>,
    first: u16,
    ports: u64,
    strides: [u64; STRIDES],
    key: Key,
}

impl Pool {
    /// The part of `spec` that is of `family`'s family; `None` if there is
    /// nothing. With the same `key` the candidates are the same; it should be
    /// random, so that the ports cannot be guessed (RFC 6056, section 3.3).
    #[must_use]
    pub fn new(spec: &PoolSpec, family: IpAddr, key: [u64; 2]) -> Option<Self> {
        let mut addresses = spec.addresses.clone();
        addresses.retain(|address| address.is_ipv4() == family.is_ipv4());
        addresses.sort_unstable();
        addresses.dedup();
        let (first, last) = (*spec.ports.start(), *spec.ports.end());
        let ports = u64::from(last.checked_sub(first)?) + 1;
        let size = addresses.len() as u64 * ports;
        if size == 0 {
            return None;
        }
        let name = spec.name.clone();
        let addresses = addresses.into_boxed_slice();
        Some(Self { name, addresses, first, ports, strides: strides(size), key })
    }

    /// Its name, for people.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its addresses, ascending.
    #[must_use]
    pub const fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// Whether `local` is an endpoint of the pool.
    #[must_use]
    pub fn contains(&self, local: SocketAddr) -> bool {
        let port = u64::from(local.port()).checked_sub(u64::from(self.first));
        port.is_some_and(|offset| offset < self.ports)
            && self.addresses.binary_search(&local.ip()).is_ok()
    }

    /// Endpoints to try for the connection `flow` to `backend`, in this order:
    /// at most 64, all different, spread over the pool by double hashing.
    /// None at all if the client is of another family.
    #[must_use]
    pub fn candidates(&self, flow: &FlowKey, backend: BackendId) -> Candidates<'_> {
        let size = self.size();
        let hash = siphash::flow(self.key, flow, u64::from(backend.0));
        let stride = self.strides.get(hash as usize % STRIDES).copied().unwrap_or(1);
        let same = self.addresses.first().is_some_and(|a| a.is_ipv4() == flow.src().is_ipv4());
        let left = if same { PROBES.min(size) } else { 0 };
        Candidates { pool: self, at: siphash::below(hash, size), stride, left }
    }

    fn size(&self) -> u64 {
        self.addresses.len() as u64 * self.ports
    }

    fn endpoint(&self, at: u64) -> Option<SocketAddr> {
        let address = self.addresses.get(usize::try_from(at / self.ports).ok()?)?;
        let offset = u16::try_from(at % self.ports).ok()?;
        Some(SocketAddr::new(*address, self.first.checked_add(offset)?))
    }
}

/// The endpoints to try for one connection; see [`Pool::candidates`].
#[derive(Clone, Debug)]
pub struct Candidates<'a> {
    pool: &'a Pool,
    at: u64,
    stride: u64,
    left: u64,
}

impl Iterator for Candidates<'_> {
    type Item = SocketAddr;

    fn next(&mut self) -> Option<SocketAddr> {
        self.left = self.left.checked_sub(1)?;
        let endpoint = self.pool.endpoint(self.at);
        self.at = (self.at + self.stride) % self.pool.size();
        endpoint
    }
}

/// Step widths without a common divisor with `size`, so that the first `size`
/// steps of each reach different places.
fn strides(size: u64) -> [u64; STRIDES] {
    let mut strides = [1; STRIDES];
    for (slot, seed) in strides.iter_mut().zip(0..) {
        let start = siphash::below(siphash::hash([0, 0], &[seed]), size).max(1);
        *slot = (start..size).find(|stride| gcd(*stride, size) == 1).unwrap_or(1);
    }
    strides
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
