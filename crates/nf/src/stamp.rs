//! The thesis' time stamp in the IPv4 identification (section 4.1.7.1): bits 23 to 8 of
//! the time in nanoseconds, so 16 bits of 256 ns that come round after 16.777 ms.
use wire::checksum;

/// The stamp of a time.
pub(crate) const fn at(now_ns: u64) -> u16 {
    (now_ns >> 8) as u16
}

/// The nanoseconds between a stamp and a time, modulo 16.777 ms.
pub(crate) const fn since(stamp: u16, now_ns: u64) -> u64 {
    (at(now_ns).wrapping_sub(stamp) as u64) << 8
}

/// Writes `value` into the identification of the IPv4 header at `ipv4_at`, corrects the
/// header checksum (RFC 1624) and returns the old value. `None` and no change: there is
/// no IPv4 header.
pub(crate) fn exchange(frame: &mut [u8], ipv4_at: u16, value: u16) -> Option<u16> {
    let header = frame.get_mut(usize::from(ipv4_at)..)?.first_chunk_mut::<20>()?;
    if header[0] >> 4 != 4 {
        return None;
    }
    let old = [header[4], header[5]];
    let new = value.to_be_bytes();
    let sum = u16::from_be_bytes([header[10], header[11]]);
    let sum = checksum::update(sum, checksum::delta(&old, &new)).to_be_bytes();
    header[4..6].copy_from_slice(&new);
    header[10..12].copy_from_slice(&sum);
    Some(u16::from_be_bytes(old))
}

/// The identification of the IPv4 header at `ipv4_at`.
pub(crate) fn read(frame: &[u8], ipv4_at: u16) -> Option<u16> {
    let header = frame.get(usize::from(ipv4_at)..)?.first_chunk::<20>()?;
    (header[0] >> 4 == 4).then(|| u16::from_be_bytes([header[4], header[5]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stay_is_known_to_256_ns_and_comes_round() {
        let from = 0x0123_4567_89ab;
        assert_eq!(since(at(from), from + 25_600), 25_600);
        assert_eq!(since(at(from), from + (1 << 24) + 512), 512, "the thesis' alias");
    }
}
