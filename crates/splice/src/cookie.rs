//! SYN cookies (RFC 4987 section 3.6): the initial sequence number towards the client.
use std::hash::{Hash, Hasher};
use std::net::SocketAddr;

use siphasher::sip::SipHasher13;

/// Segment sizes that a cookie can carry; the greatest that is no greater than the
/// client's is taken.
const SIZES: [u16; 8] = [216, 536, 1200, 1360, 1400, 1440, 1452, 1460];

/// A cookie's clock ticks once in so many milliseconds, and a cookie is good for two ticks.
const TICK_MS: u64 = 64_000;

/// The bits of a SYN-ACK's clock that keep the client's options.
const KEPT: u32 = 0x3f;
/// The value of the scale's four bits that stands for no scale; the greatest scale is 14.
const NO_SCALE: u32 = 15;

/// What a SYN-ACK's clock keeps of the client's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) scale: Option<u8>,
    pub(crate) sack: bool,
    pub(crate) ecn: bool,
}

impl Kept {
    fn bits(self) -> u32 {
        let scale = self.scale.map_or(NO_SCALE, u32::from) & NO_SCALE;
        scale | u32::from(self.sack) << 4 | u32::from(self.ecn) << 5
    }

    /// What the client's echo of the clock says.
    pub(crate) fn of(echo: u32) -> Self {
        let scale = Some((echo & NO_SCALE) as u8).filter(|scale| u32::from(*scale) != NO_SCALE);
        Self { scale, sack: echo & 0x10 != 0, ecn: echo & 0x20 != 0 }
    }
}

/// The secret of the cookies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cookies {
    secret: [u64; 2],
}

impl Cookies {
    pub(crate) const fn new(secret: [u64; 2]) -> Self {
        Self { secret }
    }

    /// The cookie for a SYN with the sequence number `isn`: 2 bits of the clock, 3 of
    /// the segment size, 27 of the hash.
    pub(crate) fn make(
        &self,
        [client, vip]: [SocketAddr; 2],
        isn: u32,
        mss: u16,
        now_ms: u64,
    ) -> u32 {
        let size = SIZES.iter().rposition(|size| *size <= mss).unwrap_or(0) as u32;
        let tick = now_ms / TICK_MS;
        self.of([client, vip], isn, size, tick)
    }

    /// The client's segment size, if `cookie` is good.
    pub(crate) fn check(
        &self,
        ends: [SocketAddr; 2],
        isn: u32,
        cookie: u32,
        now_ms: u64,
    ) -> Option<u16> {
        let size = cookie >> 27 & 7;
        let now = now_ms / TICK_MS;
        let mut ticks = [Some(now), now.checked_sub(1)].into_iter().flatten();
        let good = ticks.any(|tick| self.of(ends, isn, size, tick) == cookie);
        SIZES.get(size as usize).copied().filter(|_| good)
    }

    fn of(&self, ends: [SocketAddr; 2], isn: u32, size: u32, tick: u64) -> u32 {
        let [a, b] = self.secret;
        let mut hasher = SipHasher13::new_with_keys(a, b);
        (ends, isn, size, tick).hash(&mut hasher);
        let hash = hasher.finish() as u32 >> 5;
        (tick as u32 & 3) << 30 | size << 27 | hash
    }

    /// The clock of a SYN-ACK: its low bits keep what a cookie has no room for, and come
    /// back in the client's echo.
    pub(crate) fn clock(&self, ends: [SocketAddr; 2], kept: Kept, now_ms: u64) -> u32 {
        let base = self.number(ends, u64::MAX) as u32;
        base.wrapping_add(now_ms as u32) & !KEPT | kept.bits()
    }

    /// The last clock before `known` whose low bits keep the same.
    pub(crate) fn clock_before(known: u32, kept: Kept) -> u32 {
        known.wrapping_sub(KEPT + 1) & !KEPT | kept.bits()
    }

    /// A number that nobody can foretell, for request ids.
    pub(crate) fn number(&self, ends: [SocketAddr; 2], count: u64) -> u64 {
        let [a, b] = self.secret;
        let mut hasher = SipHasher13::new_with_keys(b, a);
        (ends, count).hash(&mut hasher);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_keeps_options() {
        let cookies = Cookies::new([1, 2]);
        let ends: [SocketAddr; 2] = ["10.0.0.1:5".parse().unwrap(), "10.0.0.2:80".parse().unwrap()];
        for scale in (0..15).map(Some).chain([None]) {
            for (sack, ecn) in [(false, false), (true, false), (false, true), (true, true)] {
                let kept = Kept { scale, sack, ecn };
                assert_eq!(Kept::of(cookies.clock(ends, kept, 12_345)), kept);
            }
        }
    }

    #[test]
    fn a_cookie_is_good_for_its_client_number_and_time_alone() {
        let cookies = Cookies::new([1, 2]);
        let ends: [SocketAddr; 2] = ["10.0.0.1:5".parse().unwrap(), "10.0.0.2:80".parse().unwrap()];
        let other = ["10.0.0.1:6".parse().unwrap(), ends[1]];
        let cookie = cookies.make(ends, 77, 1459, 1_000);
        assert_eq!(cookies.check(ends, 77, cookie, 1_000), Some(1452));
        assert_eq!(cookies.check(ends, 77, cookie, 100_000), Some(1452));
        assert_eq!(cookies.check(ends, 77, cookie, 200_000), None);
        assert_eq!(cookies.check(ends, 78, cookie, 1_000), None);
        assert_eq!(cookies.check(other, 77, cookie, 1_000), None);
        assert_eq!(cookies.check(ends, 77, cookie ^ 1, 1_000), None);
    }
}
