//! Where requests end: the bodies of a connection, byte by byte where they must be read.

/// A chunked body, read in order (RFC 9112 section 7.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chunked {
    state: State,
    /// What is still to come of a chunk, or the size as far as its digits are read.
    left: u64,
    /// Bytes of the present line or of all trailers.
    line: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    FirstDigit,
    Digits,
    Extension,
    SizeEnd,
    Data,
    DataCr,
    DataLf,
    /// At the beginning of a line of trailers.
    Trailer,
    InTrailer,
    TrailerLf,
    LastLf,
    Done,
}

/// Bytes that a chunk's extension, or all trailers, may have.
const MAX_LINE: u32 = 4096;

/// A body that is not as RFC 9112 says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadChunk;

impl Chunked {
    /// Whether the body has ended.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Reads on, and returns how many of `bytes` belong to the body.
    ///
    /// # Errors
    /// The body is not chunked as it should be.
    pub fn read(&mut self, bytes: &[u8]) -> Result<usize, BadChunk> {
        self.read_data(bytes, |_| ())
    }

    /// As [`Chunked::read`], and hands on the data of the chunks.
    ///
    /// # Errors
    /// As [`Chunked::read`].
    pub fn read_data(
        &mut self,
        bytes: &[u8],
        mut data: impl FnMut(&[u8]),
    ) -> Result<usize, BadChunk> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if self.is_done() {
                break;
            }
            if self.state == State::Data {
                let rest = bytes.get(at..).unwrap_or_default();
                let passed = (rest.len() as u64).min(self.left);
                data(rest.get(..passed as usize).unwrap_or_default());
                self.left -= passed;
                at += passed as usize;
                if self.left == 0 {
                    self.state = State::DataCr;
                }
                continue;
            }
            self.state = self.next(byte)?;
            at += 1;
        }
        Ok(at)
    }

    fn next(&mut self, byte: u8) -> Result<State, BadChunk> {
        use State::{
            Data, DataCr, DataLf, Digits, Done, Extension, FirstDigit, InTrailer, LastLf, SizeEnd,
            Trailer, TrailerLf,
        };
        let next = match (self.state, byte) {
            (FirstDigit | Digits, byte) if byte.is_ascii_hexdigit() => {
                let digit = (byte as char).to_digit(16).ok_or(BadChunk)?;
                let shifted = self.left.checked_mul(16).filter(|left| *left < 1 << 53);
                self.left = shifted.ok_or(BadChunk)? + u64::from(digit);
                Digits
            }
            (Digits, b'\r') => SizeEnd,
            (Digits, b';') => Extension,
            (Extension, b'\r') => SizeEnd,
            (Extension, byte) if byte != b'\n' && byte != 0 => self.longer(Extension)?,
            (SizeEnd, b'\n') => {
                self.line = 0;
                if self.left == 0 { Trailer } else { Data }
            }
            (DataCr, b'\r') => DataLf,
            (DataLf, b'\n') => FirstDigit,
            (Trailer, b'\r') => LastLf,
            (Trailer | InTrailer, byte) if byte != b'\n' && byte != b'\r' && byte != 0 => {
                self.longer(InTrailer)?
            }
            (InTrailer, b'\r') => TrailerLf,
            (TrailerLf, b'\n') => Trailer,
            (LastLf, b'\n') => Done,
            _ => return Err(BadChunk),
        };
        Ok(next)
    }

    fn longer(&mut self, state: State) -> Result<State, BadChunk> {
        self.line += 1;
        if self.line > MAX_LINE { Err(BadChunk) } else { Ok(state) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_body_ends_where_it_was_made_to_end(
            chunks in prop::collection::vec(1_usize..300, 0..6),
            cut in 1_usize..40,
            behind in 0_usize..9,
        ) {
            let (mut body, total) = (Vec::new(), chunks.iter().sum::<usize>());
            for size in chunks {
                body.extend(format!("{size:x};q=\"1\"\r\n").bytes());
                body.extend(vec![b'\n'; size]);
                body.extend(b"\r\n");
            }
            body.extend(b"0\r\nA: b\r\n\r\n");
            let end = body.len();
            body.extend(vec![b'G'; behind]);
            let (mut chunked, mut read, mut data) = (Chunked::default(), 0, Vec::new());
            for piece in body.chunks(cut) {
                prop_assert_eq!(chunked.is_done(), read == end);
                read += chunked.read_data(piece, |own| data.extend_from_slice(own)).unwrap();
            }
            prop_assert_eq!((read, chunked.is_done()), (end, true));
            prop_assert_eq!(data, vec![b'\n'; total]);
        }
    }

    #[test]
    fn what_is_no_chunk_is_refused() {
        for body in
            ["\r\n", "1\nA", "1\r\nAB", "1 \r\n", "fffffffffffffffff\r\n", "0\r\n\n", "-1\r\n"]
        {
            assert_eq!(Chunked::default().read(body.as_bytes()), Err(BadChunk), "{body:?}");
        }
    }
}
