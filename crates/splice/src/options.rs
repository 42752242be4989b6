//! TCP options (RFC 9293 section 3.2, RFC 7323, RFC 2018).
use arrayvec::ArrayVec;

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;

/// The largest shift that a window scale may have (RFC 7323 section 2.3).
const MAX_SCALE: u8 = 14;

/// The MSS of a host that names none (RFC 9293 section 3.7.1).
pub(crate) const DEFAULT_MSS: u16 = 536;

/// What a SYN offers, or a SYN-ACK grants. Timestamps are never granted, since the
/// clocks of two backends differ, and neither are ECN and TCP Fast Open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// The longest segment that the host receives, in bytes of data.
    pub mss: Option<u16>,
    /// The shift of the windows that the host announces.
    pub scale: Option<u8>,
    /// Whether the host understands selective acknowledgements.
    pub sack: bool,
}

impl Offer {
    /// What the options of a SYN say. Options behind a malformed one count for nothing.
    #[must_use]
    pub fn parse(options: &[u8]) -> Self {
        let mut offer = Self::default();
        each(options, |kind, data| match (kind, data) {
            (MSS, [a, b]) => offer.mss = Some(u16::from_be_bytes([*a, *b])),
            (SCALE, [shift]) => offer.scale = Some((*shift).min(MAX_SCALE)),
            (SACK_PERMITTED, []) => offer.sack = true,
            _ => {}
        });
        offer
    }

    /// The options of a SYN that says so.
    #[must_use]
    pub fn emit(&self) -> ArrayVec<u8, 12> {
        let mut bytes = ArrayVec::new();
        if let Some(mss) = self.mss {
            let [a, b] = mss.to_be_bytes();
            bytes.extend([MSS, 4, a, b]);
        }
        if let Some(shift) = self.scale {
            bytes.extend([NOP, SCALE, 3, shift]);
        }
        if self.sack {
            bytes.extend([NOP, NOP, SACK_PERMITTED, 2]);
        }
        bytes
    }

    /// The longest segment that may be sent to the host.
    pub(crate) fn longest(&self) -> u16 {
        self.mss.unwrap_or(DEFAULT_MSS).max(64)
    }
}

fn each(mut options: &[u8], mut tell: impl FnMut(u8, &[u8])) {
    while let [kind, rest @ ..] = options {
        match *kind {
            END => return,
            NOP => options = rest,
            kind => {
                let Some((length, _)) = rest.split_first() else { return };
                let Some((data, behind)) = usize::from(*length)
                    .checked_sub(2)
                    .and_then(|data| rest.get(1..)?.split_at_checked(data))
                else {
                    return;
                };
                tell(kind, data);
                options = behind;
            }
        }
    }
}

/// Maps both edges of every SACK block; without `map` the blocks become no-operations.
/// A block that maps to nothing acknowledges nothing, and becomes an empty block.
pub(crate) fn map_sack(options: &mut [u8], map: Option<&dyn Fn(u32, bool) -> u32>) {
    let mut at = 0;
    while let Some(&kind) = options.get(at) {
        if kind == END {
            return;
        }
        if kind == NOP {
            at += 1;
            continue;
        }
        let Some(&length) = options.get(at + 1) else { return };
        let Some(option) = options.get_mut(at..at + usize::from(length)) else { return };
        if option.len() < 2 {
            return;
        }
        if kind == SACK {
            match map {
                None => option.fill(NOP),
                Some(map) => map_blocks(option, map),
            }
        }
        at += usize::from(length);
    }
}

fn map_blocks(option: &mut [u8], map: &dyn Fn(u32, bool) -> u32) {
    for block in option.get_mut(2..).unwrap_or_default().chunks_exact_mut(8) {
        let [a, b, c, d, e, f, g, h] = *block else { continue };
        let left = map(u32::from_be_bytes([a, b, c, d]), true);
        let right = map(u32::from_be_bytes([e, f, g, h]), false);
        // An edge inside of a replaced piece moves out of it, and the two may cross.
        let right = if (right.wrapping_sub(left) as i32) < 0 { left } else { right };
        let (lefts, rights) = (left.to_be_bytes(), right.to_be_bytes());
        for (byte, new) in block.iter_mut().zip(lefts.into_iter().chain(rights)) {
            *byte = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_survives_its_emission() {
        for mss in [None, Some(1460)] {
            for scale in [None, Some(0), Some(14)] {
                for sack in [false, true] {
                    let offer = Offer { mss, scale, sack };
                    let bytes = offer.emit();
                    assert_eq!(bytes.len() % 4, 0);
                    assert_eq!(Offer::parse(&bytes), offer);
                }
            }
        }
    }

    #[test]
    fn a_cut_option_ends_the_list() {
        assert_eq!(Offer::parse(&[2, 4, 5]), Offer::default());
        assert_eq!(Offer::parse(&[4, 2, 3, 0]), Offer { sack: true, ..Offer::default() });
        map_sack(&mut [5, 1], None);
        map_sack(&mut [5], None);
    }

    #[test]
    fn sack_blocks_are_mapped_or_removed() {
        let mut options = [1, 1, 5, 10, 0, 0, 0, 5, 0, 0, 0, 9];
        map_sack(&mut options, Some(&|edge, _| edge + 100));
        assert_eq!(options, [1, 1, 5, 10, 0, 0, 0, 105, 0, 0, 0, 109]);
        map_sack(&mut options, None);
        assert_eq!(options, [1; 12]);
    }
}
