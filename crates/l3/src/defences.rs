//! Claims of other stations to our own addresses.
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};

use wire::Mac;

/// Number of remembered addresses; addresses with equal hashes share a cell.
const CELLS: usize = 64;
/// How often an address is defended at most (RFC 5227 section 2.4,
/// DEFEND_INTERVAL), in milliseconds.
const INTERVAL_MS: u64 = 10_000;
/// Tells a claim that was not taken yet from no claim.
const CLAIMED: u64 = 1 << 63;

/// When addresses were defended last, and against which claim. Only the thread that
/// may defend an address writes the claim, and no other thread may for the interval.
#[derive(Debug)]
pub struct Defences(Box<[Cell]>);

#[derive(Debug, Default)]
struct Cell {
    /// From when on the address may be defended again.
    due_ms: AtomicU64,
    high: AtomicU64,
    low: AtomicU64,
    station: AtomicU64,
}

impl Default for Defences {
    fn default() -> Self {
        Self((0..CELLS).map(|_| Cell::default()).collect())
    }
}

impl Defences {
    /// Whether our `addr`, which `station` claims, is to be defended now.
    pub fn is_due(&self, addr: IpAddr, station: Mac, now_ms: u64) -> bool {
        let bits = match addr {
            IpAddr::V4(addr) => addr.to_ipv6_mapped().to_bits(),
            IpAddr::V6(addr) => addr.to_bits(),
        };
        let (high, low) = ((bits >> 64) as u64, bits as u64);
        let hash = (high ^ low.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        let Some(cell) = self.0.get(hash as usize % CELLS) else { return false };
        let due_ms = cell.due_ms.load(Ordering::Relaxed);
        let next_ms = now_ms + INTERVAL_MS;
        let (order, failed) = (Ordering::AcqRel, Ordering::Relaxed);
        if now_ms < due_ms || cell.due_ms.compare_exchange(due_ms, next_ms, order, failed).is_err()
        {
            return false;
        }
        cell.high.store(high, Ordering::Relaxed);
        cell.low.store(low, Ordering::Relaxed);
        let number = station.0.iter().fold(0, |number, &byte| number << 8 | u64::from(byte));
        cell.station.store(number | CLAIMED, Ordering::Release);
        true
    }

    /// The claims that were not taken yet: our address, and the station that claims
    /// it.
    pub fn take(&self) -> impl Iterator<Item = (IpAddr, Mac)> {
        self.0.iter().filter(|cell| cell.station.load(Ordering::Relaxed) != 0).map(|cell| {
            let [_, _, mac @ ..] = cell.station.swap(0, Ordering::Acquire).to_be_bytes();
            let high = u128::from(cell.high.load(Ordering::Relaxed)) << 64;
            let addr = Ipv6Addr::from_bits(high | u128::from(cell.low.load(Ordering::Relaxed)));
            (addr.to_ipv4_mapped().map_or(IpAddr::V6(addr), IpAddr::V4), Mac(mac))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_defended_once_in_ten_seconds() {
        let (own, mac) = (Defences::default(), Mac([2, 1, 2, 3, 4, 5]));
        let addrs: [IpAddr; 2] = ["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
        for addr in addrs {
            assert!(own.is_due(addr, mac, 5));
            assert!(!own.is_due(addr, mac, 10_004));
            assert_eq!(own.take().collect::<Vec<_>>(), [(addr, mac)]);
            assert_eq!(own.take().count(), 0);
            assert!(own.is_due(addr, mac, 10_005));
            assert_eq!(own.take().count(), 1);
        }
    }
}
