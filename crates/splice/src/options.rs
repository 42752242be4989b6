//! TCP options (RFC 9293 section 3.2, RFC 7323, RFC 2018).
use arrayvec::ArrayVec;

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const STAMPS: u8 = 8;

/// Bytes of the timestamps option with the two no-operations in front of it.
pub(crate) const STAMPS_LEN: usize = 12;

/// Bytes of the longest list of options.
pub(crate) const MAX_OPTIONS: usize = 40;

/// The largest shift that a window scale may have (RFC 7323 section 2.3).
const MAX_SCALE: u8 = 14;

/// The MSS of a host that names none (RFC 9293 section 3.7.1).
pub(crate) const DEFAULT_MSS: u16 = 536;

/// What a SYN offers, or a SYN-ACK grants. TCP Fast Open, Multipath TCP and the
/// authentication options are never offered to a backend and never granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// The longest segment that the host receives, in bytes of data.
    pub mss: Option<u16>,
    /// The shift of the windows that the host announces.
    pub scale: Option<u8>,
    /// Whether the host understands selective acknowledgements.
    pub sack: bool,
    /// Whether the host puts timestamps into its segments.
    pub timestamps: bool,
    /// Whether the host understands explicit congestion notification (RFC 3168). It is
    /// said by flags, not by an option.
    pub ecn: bool,
}

/// The timestamps option (RFC 7323 section 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    /// The sender's clock, TSval.
    pub value: u32,
    /// The receiver's clock as the sender has seen it last, TSecr.
    pub echo: u32,
}

impl Stamps {
    /// The timestamps among the options of a segment.
    #[must_use]
    pub fn parse(options: &[u8]) -> Option<Self> {
        // The form that nearly all hosts send (RFC 7323 appendix A).
        if let [NOP, NOP, STAMPS, 10, a, b, c, d, e, f, g, h, ..] = *options {
            return Some(Self::of([a, b, c, d, e, f, g, h]));
        }
        let mut found = None;
        each(options, |kind, data| {
            if kind == STAMPS && found.is_none() {
                found = data.try_into().ok().map(Self::of);
            }
        });
        found
    }

    fn of([a, b, c, d, e, f, g, h]: [u8; 8]) -> Self {
        Self { value: u32::from_be_bytes([a, b, c, d]), echo: u32::from_be_bytes([e, f, g, h]) }
    }

    /// The option, aligned by two no-operations.
    #[must_use]
    pub fn emit(self) -> [u8; STAMPS_LEN] {
        let [a, b, c, d] = self.value.to_be_bytes();
        let [e, f, g, h] = self.echo.to_be_bytes();
        [NOP, NOP, STAMPS, 10, a, b, c, d, e, f, g, h]
    }
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
            (STAMPS, [_, _, _, _, _, _, _, _]) => offer.timestamps = true,
            _ => {}
        });
        offer
    }

    /// The options of a SYN that says so; `stamps` are its timestamps, if it has any.
    #[must_use]
    pub fn emit(&self, stamps: Stamps) -> ArrayVec<u8, 24> {
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
        if self.timestamps {
            bytes.extend(stamps.emit());
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

/// Where an edge of a SACK block is in the other side's numbers. The flag says which
/// way an edge inside of a replaced piece moves.
pub(crate) type MapEdge<'a> = &'a dyn Fn(u32, bool) -> u32;

/// What becomes of the options of a segment that is passed on.
#[derive(Clone, Copy)]
pub(crate) struct Change<'a> {
    /// Maps SACK blocks; without it they become no-operations. A block that maps to
    /// nothing acknowledges nothing, and becomes an empty block.
    pub(crate) sack: Option<MapEdge<'a>>,
    /// What is added to the timestamps; without it they become no-operations.
    pub(crate) stamps: Option<Stamps>,
}

impl Change<'_> {
    /// Changes `options` in place.
    pub(crate) fn apply(&self, options: &mut [u8]) {
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
            match (kind, self.sack, self.stamps) {
                (SACK, Some(map), _) => map_blocks(option, map),
                (STAMPS, _, Some(added)) => add_stamps(option, added),
                (SACK | STAMPS, ..) => option.fill(NOP),
                _ => {}
            }
            at += usize::from(length);
        }
    }
}

fn add_stamps(option: &mut [u8], added: Stamps) {
    let Some(fields) = option.get_mut(2..).and_then(|rest| rest.first_chunk_mut::<8>()) else {
        return;
    };
    let old = Stamps::of(*fields);
    let new = Stamps {
        value: old.value.wrapping_add(added.value),
        echo: old.echo.wrapping_add(added.echo),
    };
    let [_, _, _, _, bytes @ ..] = new.emit();
    *fields = bytes;
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
                for (sack, timestamps) in [(false, false), (false, true), (true, true)] {
                    let offer = Offer { mss, scale, sack, timestamps, ecn: false };
                    let stamps = Stamps { value: 0x0102_0304, echo: 9 };
                    let bytes = offer.emit(stamps);
                    assert_eq!(bytes.len() % 4, 0);
                    assert_eq!(Offer::parse(&bytes), offer);
                    assert_eq!(Stamps::parse(&bytes), timestamps.then_some(stamps));
                }
            }
        }
    }

    #[test]
    fn a_cut_option_ends_the_list() {
        assert_eq!(Offer::parse(&[2, 4, 5]), Offer::default());
        assert_eq!(Offer::parse(&[4, 2, 3, 0]), Offer { sack: true, ..Offer::default() });
        let nothing = Change { sack: None, stamps: None };
        nothing.apply(&mut [5, 1]);
        nothing.apply(&mut [5]);
        Change { stamps: Some(Stamps::default()), ..nothing }.apply(&mut [8, 4, 1, 2]);
        assert_eq!(Stamps::parse(&[8, 4, 1, 2]), None);
    }

    #[test]
    fn sack_blocks_are_mapped_or_removed() {
        let mut options = [1, 1, 5, 10, 0, 0, 0, 5, 0, 0, 0, 9];
        let by_100 = Change { sack: Some(&|edge, _| edge + 100), stamps: None };
        by_100.apply(&mut options);
        assert_eq!(options, [1, 1, 5, 10, 0, 0, 0, 105, 0, 0, 0, 109]);
        Change { sack: None, stamps: None }.apply(&mut options);
        assert_eq!(options, [1; 12]);
    }

    #[test]
    fn timestamps_are_moved_or_removed() {
        let mut options = Stamps { value: u32::MAX, echo: 5 }.emit();
        let moved = Stamps { value: 3, echo: 7_u32.wrapping_neg() };
        Change { sack: None, stamps: Some(moved) }.apply(&mut options);
        let expected = Stamps { value: 2, echo: u32::MAX - 1 };
        assert_eq!(Stamps::parse(&options), Some(expected));
        // Hosts may order options as they like.
        let odd = [[1, 4, 2].as_slice(), options.get(2..).unwrap(), &[0]].concat();
        assert_eq!(Stamps::parse(&odd), Some(expected));
        Change { sack: None, stamps: None }.apply(&mut options);
        assert_eq!(options, [1; 12]);
    }
}
