//! Frames that cost the server more than the client: a budget of them, which time and
//! answers restore.
//!
//! Against rapid resets (CVE-2023-44487), floods of PING and SETTINGS (CVE-2019-9512,
//! CVE-2019-9515), of empty frames (CVE-2019-9518), of window updates, and of CONTINUATION
//! (CVE-2024-27316).

/// The preface that a client begins with (RFC 9113 section 3.4).
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADER: usize = 9;
/// The budget of a connection that has been quiet.
const MOST: u64 = 2_000;
/// What a second restores.
const PER_SECOND: u64 = 200;
/// What bytes of a response that go out restore: the client may answer with two window
/// updates.
const PER_ANSWER: u64 = 4;
/// CONTINUATION frames of one header, at most.
const CONTINUATIONS: u32 = 8;

/// The types of frames (RFC 9113 section 6) that the meter knows.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// The client has sent more such frames than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flood;

/// Reads the outlines of a client's frames.
#[derive(Debug)]
pub(crate) struct Meter {
    budget: u64,
    /// When the budget was last restored by time.
    restored_ms: u64,
    /// Bytes that are passed over: the preface, and what frames carry.
    skip: usize,
    header: [u8; HEADER],
    have: usize,
    continuations: u32,
    /// Since when the header of a request has been coming.
    header_since_ms: Option<u64>,
}

impl Meter {
    pub(crate) const fn new(now_ms: u64) -> Self {
        Self {
            budget: MOST,
            restored_ms: now_ms,
            skip: PREFACE.len(),
            header: [0; HEADER],
            have: 0,
            continuations: 0,
            header_since_ms: None,
        }
    }

    /// Since when a header has been coming that is not whole yet.
    pub(crate) const fn header_since_ms(&self) -> Option<u64> {
        self.header_since_ms
    }

    /// Part of a response has gone out.
    pub(crate) fn answered(&mut self) {
        self.budget = (self.budget + PER_ANSWER).min(MOST);
    }

    /// Reads on.
    ///
    /// # Errors
    /// The budget is used up.
    pub(crate) fn read(&mut self, mut bytes: &[u8], now_ms: u64) -> Result<(), Flood> {
        self.restore(now_ms);
        while !bytes.is_empty() {
            let passed = self.skip.min(bytes.len());
            self.skip -= passed;
            bytes = bytes.get(passed..).unwrap_or_default();
            let (part, rest) = bytes.split_at(bytes.len().min(HEADER - self.have));
            if let Some(room) = self.header.get_mut(self.have..self.have + part.len()) {
                room.copy_from_slice(part);
            }
            self.have += part.len();
            bytes = rest;
            if self.have == HEADER {
                self.have = 0;
                self.frame(now_ms)?;
            }
        }
        Ok(())
    }

    fn restore(&mut self, now_ms: u64) {
        let restored = now_ms.saturating_sub(self.restored_ms) * PER_SECOND / 1000;
        if restored > 0 {
            self.budget = (self.budget + restored).min(MOST);
            self.restored_ms = now_ms;
        }
    }

    fn frame(&mut self, now_ms: u64) -> Result<(), Flood> {
        let [a, b, c, kind, flags, ..] = self.header;
        let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        self.skip = length;
        let cost = match kind {
            DATA if length == 0 && flags & END_STREAM == 0 => 10,
            DATA => 0,
            HEADERS => {
                self.continuations = 0;
                self.header_since_ms = (flags & END_HEADERS == 0).then_some(now_ms);
                0
            }
            CONTINUATION => {
                self.continuations += 1;
                if flags & END_HEADERS != 0 {
                    self.header_since_ms = None;
                }
                if self.continuations > CONTINUATIONS {
                    return Err(Flood);
                }
                10
            }
            PRIORITY | WINDOW_UPDATE => 1,
            RST_STREAM | SETTINGS => 10,
            PING => 5,
            _ => 5,
        };
        self.budget = self.budget.checked_sub(cost).ok_or(Flood)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(kind: u8, flags: u8, length: usize) -> Vec<u8> {
        let mut frame = vec![0, (length >> 8) as u8, length as u8, kind, flags, 0, 0, 0, 1];
        frame.resize(HEADER + length, 9);
        frame
    }

    /// How many such frames pass, one after the other.
    fn passed(meter: &mut Meter, frame: &[u8], now_ms: u64) -> usize {
        (0..100_000).take_while(|_| meter.read(frame, now_ms).is_ok()).count()
    }

    fn begun() -> Meter {
        let mut meter = Meter::new(0);
        meter.read(PREFACE, 0).unwrap();
        meter
    }

    #[test]
    fn every_flood_ends() {
        for (kind, flags, length, most) in [
            (RST_STREAM, 0, 4, 200),
            (SETTINGS, 0, 0, 200),
            (PING, 0, 8, 400),
            (WINDOW_UPDATE, 0, 4, 2_000),
            (PRIORITY, 0, 5, 2_000),
            (DATA, 0, 0, 200),
            (CONTINUATION, 0, 1, 8),
            (77, 0, 1, 400),
        ] {
            assert_eq!(passed(&mut begun(), &frame(kind, flags, length), 0), most, "{kind}");
        }
        assert_eq!(passed(&mut begun(), &frame(HEADERS, 5, 20), 0), 100_000);
        assert_eq!(passed(&mut begun(), &frame(DATA, 0, 20), 0), 100_000);
    }

    #[test]
    fn time_and_answers_restore_the_budget() {
        let mut meter = begun();
        let ping = frame(PING, 0, 0);
        assert_eq!(passed(&mut meter, &ping, 0), 400);
        assert_eq!(passed(&mut meter, &ping, 1_000), 40);
        assert_eq!(passed(&mut meter, &ping, 1_000_000), 400);
        meter.answered();
        meter.answered();
        assert_eq!(passed(&mut meter, &ping, 1_000_000), 1);
    }

    #[test]
    fn a_header_that_is_not_whole_is_known() {
        let mut meter = begun();
        meter.read(&frame(HEADERS, 0, 3), 7).unwrap();
        meter.read(&frame(CONTINUATION, 0, 3), 8).unwrap();
        assert_eq!(meter.header_since_ms(), Some(7));
        meter.read(&frame(CONTINUATION, END_HEADERS, 3), 9).unwrap();
        assert_eq!(meter.header_since_ms(), None);
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(
            frames in prop::collection::vec((0_u8..11, 0_u8..6, 0_usize..300), 0..60),
            cut in 1_usize..40,
        ) {
            let mut bytes = PREFACE.to_vec();
            for (kind, flags, length) in frames {
                bytes.extend(frame(kind, flags, length));
            }
            let (mut one, mut other) = (Meter::new(0), Meter::new(0));
            let whole = one.read(&bytes, 5);
            let pieces = bytes.chunks(cut).try_for_each(|piece| other.read(piece, 5));
            prop_assert_eq!(whole, pieces);
            prop_assert_eq!(format!("{one:?}"), format!("{other:?}"));
        }
    }
}
