//! Paths that take no packets as long as ours (RFC 1191, RFC 8201).
use std::collections::HashMap;
use std::net::IpAddr;

/// How long a path is remembered (RFC 1191 section 6.3).
const REMEMBERED_MS: u64 = 600_000;
/// Paths that are remembered at once.
const MOST: usize = 4_096;
/// The shortest packets that a path is believed to be limited to: of IPv4 as Linux' min_pmtu,
/// so that nobody makes us send headers and no data; of IPv6 by RFC 8200 section 5.
const LEAST: [usize; 2] = [552, 1280];

/// The longest packets by peer.
#[derive(Default)]
pub(crate) struct Paths(HashMap<IpAddr, (usize, u64)>);

impl Paths {
    /// The longest packet that a path takes, if it is said to take `mtu` bytes.
    pub(crate) fn longest(peer: IpAddr, mtu: u16) -> usize {
        let [v4, v6] = LEAST;
        usize::from(mtu).max(if peer.is_ipv4() { v4 } else { v6 })
    }

    /// The path to `peer` takes no packets longer than `longest`.
    pub(crate) fn note(&mut self, peer: IpAddr, longest: usize, now_ms: u64) {
        if self.0.len() >= MOST && !self.0.contains_key(&peer) {
            self.0.retain(|_, (_, until)| *until > now_ms);
            if self.0.len() >= MOST {
                return;
            }
        }
        let known = self.0.entry(peer).or_insert((longest, 0));
        *known = (known.0.min(longest), now_ms + REMEMBERED_MS);
    }

    /// The longest packet to `peer`, `own` at most.
    pub(crate) fn mtu(&self, peer: IpAddr, own: usize, now_ms: u64) -> usize {
        let known = self.0.get(&peer).filter(|(_, until)| *until > now_ms);
        known.map_or(own, |(longest, _)| own.min(*longest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_short_for_ten_minutes_and_not_for_nothing() {
        let (mut paths, peer) = (Paths::default(), IpAddr::from([10, 0, 0, 1]));
        assert_eq!(paths.mtu(peer, 1500, 0), 1500);
        assert_eq!((Paths::longest(peer, 1400), Paths::longest(peer, 0)), (1400, 552));
        assert_eq!(Paths::longest(IpAddr::from([0; 16]), 68), 1280);
        paths.note(peer, 1400, 5);
        paths.note(peer, 1450, 6);
        assert_eq!((paths.mtu(peer, 1500, 600_005), paths.mtu(peer, 1300, 9)), (1400, 1300));
        assert_eq!(paths.mtu(peer, 1500, 600_006), 1500);
    }

    #[test]
    fn no_more_paths_are_kept_than_may_be_and_old_ones_make_room() {
        let mut paths = Paths::default();
        let peer = |n: u32| IpAddr::from(n.to_be_bytes());
        (0..=MOST as u32).for_each(|n| paths.note(peer(n), 1000, 0));
        assert_eq!((paths.0.len(), paths.mtu(peer(MOST as u32), 1500, 1)), (MOST, 1500));
        paths.note(peer(MOST as u32), 1000, REMEMBERED_MS);
        assert_eq!((paths.0.len(), paths.mtu(peer(MOST as u32), 1500, REMEMBERED_MS)), (1, 1000));
    }
}
