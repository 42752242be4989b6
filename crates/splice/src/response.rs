//! Where responses end: the backend's stream, read in order (RFC 9112 section 6.3).
//!
//! Nothing is kept but the present line, as far as it can matter, and the requests that
//! have no response yet.
use arrayvec::ArrayVec;

use crate::framing::Chunked;

/// Requests of a connection that wait for their responses, at most.
pub const MAX_WAITING: u32 = 32;

/// Bytes of a field that says how long a response is, at most.
const LINE: usize = 128;

/// Bytes of the header of a response, at most.
const MAX_HEADER: u32 = 65_536;

/// A response that could be read in two ways, or that nobody has asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadResponse {
    /// The status line is not one of HTTP/1.
    StatusLine,
    /// A line ends without CR LF, or a field has no name or goes on in the next line.
    Field,
    /// The header is too long, or a field that says how long the response is.
    TooLong,
    /// The Content-Length is no number, or there are several, or a transfer coding too.
    Length,
    /// The transfer coding is not chunked, or the body not as it should be.
    Chunks,
    /// There is no request that it could answer.
    NotAsked,
    /// The backend has changed to a protocol that nobody asked for.
    NotUpgraded,
}

/// What is known of a request when its response comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Whether the method is HEAD.
    pub head: bool,
    /// Whether it asks for another protocol.
    pub upgrades: bool,
    /// Whether its response is to say which backend it comes from.
    pub sticks: bool,
    /// When it was sent to the backend, in milliseconds modulo 2^32.
    pub at_ms: u32,
}

/// What the header of a response has said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The status code.
    pub status: u16,
    /// The request that it answers.
    pub asked: Asked,
}

impl Head {
    /// Whether another response to the same request follows.
    #[must_use]
    pub const fn is_interim(&self) -> bool {
        self.status < 200 && self.status != 101
    }
}

/// The responses of one connection to a backend.
#[derive(Clone, Debug, Default)]
pub struct Responses {
    state: State,
    line: ArrayVec<u8, LINE>,
    /// Bytes of the line and of the header so far.
    line_length: u32,
    header: u32,
    fields: Fields,
    /// Whether the backend has said that it ends the connection.
    closes: bool,
    waiting: Waiting,
    /// Requests noted, and responses that are whole, modulo 2^32.
    asked: u32,
    ended: u32,
    /// Bytes of the present body so far.
    body: u64,
    /// The response that has ended last, until somebody asks.
    whole: Option<Whole>,
}

/// A whole response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whole {
    /// The place of its request among those that were noted.
    pub(crate) number: u32,
    /// Its bytes, without those of interim responses.
    pub(crate) bytes: u64,
}

/// What is read in a backend's bytes.
pub(crate) enum Heard {
    /// The header of the response to the request with this place.
    Head(Head, u32),
    /// The end of a response.
    Whole(Whole),
}

/// Requests without a response, the first in the lowest bit.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    count: u32,
    heads: u32,
    upgrades: u32,
    sticks: u32,
    /// When they were sent: a ring, in which the first one's is at `first`.
    at_ms: [u32; MAX_WAITING as usize],
    first: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    StatusLine,
    Field,
    /// So many bytes of a body.
    Body(u64),
    Chunked(Chunked),
    /// All that comes, as the body or as another protocol.
    All,
}

/// What the header has said so far.
#[derive(Clone, Copy, Debug, Default)]
struct Fields {
    minor: u8,
    status: u16,
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
}

impl Responses {
    /// Notes a request. `false`: too many wait already, and this one has to.
    pub fn ask(&mut self, asked: Asked) -> bool {
        let waiting = &mut self.waiting;
        if waiting.count >= MAX_WAITING {
            return false;
        }
        waiting.heads |= u32::from(asked.head) << waiting.count;
        waiting.upgrades |= u32::from(asked.upgrades) << waiting.count;
        waiting.sticks |= u32::from(asked.sticks) << waiting.count;
        let place = waiting.place(waiting.count);
        if let Some(at_ms) = waiting.at_ms.get_mut(place) {
            *at_ms = asked.at_ms;
        }
        waiting.count += 1;
        self.asked = self.asked.wrapping_add(1);
        true
    }

    /// Whether no more requests can be noted.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.waiting.count >= MAX_WAITING
    }

    /// Whether every request has its whole response.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.waiting.count == 0 && self.state == State::StatusLine && self.header == 0
    }

    /// How many bytes of a body are still to be [gone over](Self::skip), if nothing else can
    /// come before another request.
    pub(crate) fn rest(&self) -> Option<u64> {
        match self.state {
            _ if self.waiting.count > 0 => None,
            State::Body(left) => Some(left),
            State::StatusLine if self.header == 0 => Some(0),
            _ => None,
        }
    }

    /// Whether the backend speaks another protocol now, or ends with the connection.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.state == State::All
    }

    /// Whether the first request without a whole response has got nothing yet.
    #[must_use]
    pub const fn waits(&self) -> bool {
        self.waiting.count > 0
    }

    /// The place of the last request that was noted.
    pub(crate) const fn last(&self) -> u32 {
        self.asked.wrapping_sub(1)
    }

    /// The place of the request whose response is read now or next.
    pub(crate) const fn present(&self) -> u32 {
        self.ended
    }

    /// The response that has ended with what was read last, if one did.
    pub(crate) const fn take_whole(&mut self) -> Option<Whole> {
        self.whole.take()
    }

    /// Goes over at most `most` bytes of a body that need no reading, and says over how
    /// many.
    pub fn skip(&mut self, most: u32) -> u32 {
        let State::Body(left) = self.state else { return 0 };
        let skipped = left.min(u64::from(most));
        self.pass(left, skipped);
        skipped as u32
    }

    fn pass(&mut self, left: u64, passed: u64) {
        self.body += passed;
        match left - passed {
            0 => self.end(),
            left => self.state = State::Body(left),
        }
    }

    /// Reads on, and tells every header that ends.
    ///
    /// # Errors
    /// Why it can't be said where the response ends. Nothing behind it can be read.
    pub fn read(&mut self, bytes: &[u8], mut tell: impl FnMut(Head)) -> Result<(), BadResponse> {
        self.read_each(bytes, |heard| {
            if let Heard::Head(head, _) = heard {
                tell(head);
            }
        })
    }

    /// As [`Self::read`], and tells every response that ends, too.
    pub(crate) fn read_each(
        &mut self,
        mut bytes: &[u8],
        mut tell: impl FnMut(Heard),
    ) -> Result<(), BadResponse> {
        while !bytes.is_empty() {
            let number = self.ended;
            let (taken, head) = self.part(bytes)?;
            head.into_iter().for_each(|head| tell(Heard::Head(head, number)));
            self.whole.take().into_iter().for_each(|whole| tell(Heard::Whole(whole)));
            bytes = bytes.get(taken..).unwrap_or_default();
        }
        Ok(())
    }

    /// Whether the next byte belongs to a header.
    pub(crate) const fn is_in_header(&self) -> bool {
        matches!(self.state, State::StatusLine | State::Field)
    }

    /// Reads on to the end of a header or a body, and says how many of `bytes` that takes,
    /// and what the header has said if it has ended.
    pub(crate) fn part(&mut self, bytes: &[u8]) -> Result<(usize, Option<Head>), BadResponse> {
        match &mut self.state {
            State::StatusLine | State::Field => {
                let mut at = 0;
                while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
                    let special = |byte: &u8| matches!(byte, b'\r' | b'\n' | 0);
                    let length = rest.iter().position(special).unwrap_or(rest.len());
                    let (run, behind) = rest.split_at(length);
                    self.run(run)?;
                    at += length;
                    let Some((special, _)) = behind.split_first() else { break };
                    at += 1;
                    if *special != b'\n' {
                        self.run(&[*special])?;
                    } else if let Some(head) = self.line_ends()? {
                        return Ok((at, Some(head)));
                    }
                }
                Ok((at, None))
            }
            State::Body(left) => {
                let (left, passed) = (*left, (*left).min(bytes.len() as u64));
                self.pass(left, passed);
                Ok((passed as usize, None))
            }
            State::Chunked(chunked) => {
                let taken = chunked.read(bytes).map_err(|_| BadResponse::Chunks)?;
                self.body += taken as u64;
                if chunked.is_done() {
                    self.end();
                }
                Ok((taken, None))
            }
            State::All => Ok((bytes.len(), None)),
        }
    }

    /// Counts bytes of a header, of which `len` have come.
    const fn count(&mut self, len: usize) -> Result<(), BadResponse> {
        if self.header == 0 && self.waiting.count == 0 {
            return Err(BadResponse::NotAsked);
        }
        self.header = self.header.saturating_add(len as u32);
        if self.header > MAX_HEADER { Err(BadResponse::TooLong) } else { Ok(()) }
    }

    /// Bytes of a line, none of which ends it: a CR or a zero comes alone.
    fn run(&mut self, run: &[u8]) -> Result<(), BadResponse> {
        let Some(last) = run.last() else { return Ok(()) };
        // The first byte counts before it is looked at, and those behind it afterwards.
        self.count(1)?;
        if self.line.last() == Some(&b'\r') || *last == 0 {
            return Err(BadResponse::Field);
        }
        self.count(run.len() - 1)?;
        self.line_length += run.len() as u32;
        // Of a long line only its beginning is kept, and its last byte.
        let room = self.line.remaining_capacity().min(run.len());
        let kept = run.get(..room).unwrap_or_default();
        let fits = self.line.try_extend_from_slice(kept).is_ok() && room == run.len();
        if !fits {
            self.line.pop();
            self.line.push(*last);
        }
        Ok(())
    }

    /// The byte that ends a line has come.
    fn line_ends(&mut self) -> Result<Option<Head>, BadResponse> {
        self.count(1)?;
        let last = self.line.last().copied();
        self.line_length += 1;
        if last != Some(b'\r') {
            return Err(BadResponse::Field);
        }
        let is_whole = self.line_length as usize <= LINE;
        let mut line = std::mem::take(&mut self.line);
        line.pop();
        self.line_length = 0;
        match (self.state, line.is_empty()) {
            (State::StatusLine, _) => self.status_line(&line).map(|()| None),
            (_, true) => self.header_ends().map(Some),
            _ => self.fields.take(&line, is_whole).map(|()| None),
        }
    }

    fn status_line(&mut self, line: &[u8]) -> Result<(), BadResponse> {
        let (minor, rest) = match line {
            [b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor @ (b'0' | b'1'), b' ', rest @ ..] => {
                (minor - b'0', rest)
            }
            _ => return Err(BadResponse::StatusLine),
        };
        let digit = |byte: &u8| byte.is_ascii_digit().then(|| u16::from(byte - b'0'));
        let (&[a, b, c], [] | [b' ', ..]) =
            rest.split_first_chunk().ok_or(BadResponse::StatusLine)?
        else {
            return Err(BadResponse::StatusLine);
        };
        let digits = digit(&a).zip(digit(&b)).zip(digit(&c));
        let status = digits.map(|((a, b), c)| 100 * a + 10 * b + c);
        let status = status.filter(|status| (100..600).contains(status));
        let status = status.ok_or(BadResponse::StatusLine)?;
        self.fields = Fields { minor, status, ..Fields::default() };
        self.state = State::Field;
        Ok(())
    }

    fn header_ends(&mut self) -> Result<Head, BadResponse> {
        let Fields { minor, status, length, chunked, close, keep_alive } = self.fields;
        let asked = self.waiting.asked();
        let Asked { head: is_head, upgrades, .. } = asked;
        if chunked && (length.is_some() || minor == 0) {
            return Err(BadResponse::Length);
        }
        self.closes = status >= 200 && (close || (minor == 0 && !keep_alive));
        match status {
            101 if upgrades => self.state = State::All,
            101 => return Err(BadResponse::NotUpgraded),
            // Another response to the same request follows.
            100..200 => (self.state, self.header) = (State::StatusLine, 0),
            204 | 304 => self.end(),
            _ if is_head => self.end(),
            _ if chunked => self.state = State::Chunked(Chunked::default()),
            _ => match length {
                Some(0) => self.end(),
                Some(length) => self.state = State::Body(length),
                None => self.state = State::All,
            },
        }
        Ok(Head { status, asked })
    }

    /// The response to the first request that waits is whole.
    fn end(&mut self) {
        // Behind a last response nothing is one.
        self.state = if self.closes { State::All } else { State::StatusLine };
        let bytes = u64::from(self.header) + std::mem::take(&mut self.body);
        self.whole = Some(Whole { number: self.ended, bytes });
        (self.header, self.ended) = (0, self.ended.wrapping_add(1));
        let waiting = &mut self.waiting;
        waiting.count = waiting.count.saturating_sub(1);
        waiting.first = (waiting.first + 1) % MAX_WAITING;
        for bits in [&mut waiting.heads, &mut waiting.upgrades, &mut waiting.sticks] {
            *bits >>= 1;
        }
    }
}

impl Waiting {
    /// The place of a request's time, by its number from the first one.
    const fn place(&self, number: u32) -> usize {
        ((self.first + number) % MAX_WAITING) as usize
    }

    /// The first one.
    fn asked(&self) -> Asked {
        let [head, upgrades, sticks] =
            [self.heads, self.upgrades, self.sticks].map(|bits| bits & 1 == 1);
        let at_ms = self.at_ms.get(self.place(0)).copied().unwrap_or_default();
        Asked { head, upgrades, sticks, at_ms }
    }
}

impl Fields {
    /// A line of the header; `is_whole`: nothing of it was left out.
    fn take(&mut self, line: &[u8], is_whole: bool) -> Result<(), BadResponse> {
        let colon = line.iter().position(|byte| *byte == b':');
        let Some((name, value)) = colon.and_then(|colon| line.split_at_checked(colon)) else {
            // The name may be longer than what is kept of the line.
            return if is_whole { Err(BadResponse::Field) } else { Ok(()) };
        };
        if name.is_empty() || !name.iter().all(|byte| crate::request::is_token(*byte)) {
            return Err(BadResponse::Field);
        }
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        let is = |own: &str| name.eq_ignore_ascii_case(own.as_bytes());
        if ["content-length", "transfer-encoding", "connection"].into_iter().all(|own| !is(own)) {
            return Ok(());
        }
        if !is_whole {
            return Err(BadResponse::TooLong);
        }
        if is("content-length") {
            let length = crate::request::decimal(value).filter(|length| *length < 1 << 53);
            if self.length.is_some() || length.is_none() {
                return Err(BadResponse::Length);
            }
            self.length = length;
        } else if is("transfer-encoding") {
            if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(BadResponse::Chunks);
            }
            self.chunked = true;
        } else {
            for token in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                self.close |= token.eq_ignore_ascii_case(b"close");
                self.keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A response, whether it answers HEAD, and whether it is an interim one.
    fn response(kind: u8, size: usize, head: bool) -> (Vec<u8>, bool) {
        let body = vec![b'\n'; size];
        let text = match kind % 5 {
            0 => format!("HTTP/1.1 200 OK\r\nA: b\r\ncontent-length:  {size} \r\n\r\n"),
            1 => "HTTP/1.1 200\r\nTransfer-Encoding: Chunked\r\n\r\n".to_owned(),
            2 => format!("HTTP/1.1 304 Not Modified\r\nContent-Length: {size}\r\n\r\n"),
            3 => "HTTP/1.1 204 No\r\n\r\n".to_owned(),
            _ => format!("HTTP/1.1 103 Early\r\nLink: {}\r\n\r\n", "x".repeat(size)),
        };
        let mut bytes = text.into_bytes();
        match kind % 5 {
            0 if !head => bytes.extend(body),
            1 if !head => {
                for chunk in body.chunks(7) {
                    bytes.extend(format!("{:x}\r\n", chunk.len()).bytes());
                    bytes.extend(chunk);
                    bytes.extend(b"\r\n");
                }
                bytes.extend(b"0\r\n\r\n");
            }
            _ => {}
        }
        (bytes, kind % 5 == 4)
    }

    proptest! {
        #[test]
        fn responses_end_where_they_were_made_to_end(
            kinds in prop::collection::vec((any::<u8>(), 0_usize..300, any::<bool>()), 1..9),
            cut in 1_usize..50,
        ) {
            let (mut stream, mut ends) = (Vec::new(), Vec::new());
            let mut responses = Responses::default();
            for (kind, size, head) in kinds {
                let (bytes, interim) = response(kind, size, head);
                stream.extend(bytes);
                if interim {
                    stream.extend(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
                }
                let asked = responses.ask(Asked { head, ..Asked::default() });
                prop_assert!(asked);
                ends.push(stream.len());
            }
            let mut read = 0;
            for piece in stream.chunks(cut) {
                prop_assert!(!responses.is_idle());
                responses.read(piece, |_| ()).unwrap();
                read += piece.len();
                let whole = ends.iter().filter(|end| **end <= read).count();
                prop_assert_eq!(responses.waiting.count as usize, ends.len() - whole);
            }
            prop_assert!(responses.is_idle());
            prop_assert_eq!(responses.read(b"H", |_| ()), Err(BadResponse::NotAsked));
        }

        #[test]
        fn skipping_a_body_is_as_good_as_reading_it(size in 1_u32..2_000, skipped in 0_u32..3_000) {
            let header = format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n");
            let mut responses = Responses::default();
            responses.ask(Asked::default());
            responses.read(header.as_bytes(), |_| ()).unwrap();
            let passed = responses.skip(skipped);
            prop_assert_eq!(passed, skipped.min(size));
            responses.read(&vec![b'x'; (size - passed) as usize], |_| ()).unwrap();
            prop_assert!(responses.is_idle());
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused_by_name() {
        let long = format!("Content-Length: {}1\r\n", "0".repeat(200));
        for (text, why) in [
            ("HTTP/2 200\r\n", BadResponse::StatusLine),
            ("HTTP/1.1 20\r\n", BadResponse::StatusLine),
            ("HTTP/1.1 2000 OK\r\n", BadResponse::StatusLine),
            ("HTTP/1.1 999 OK\r\n", BadResponse::StatusLine),
            ("\r\nHTTP/1.1 200 OK\r\n", BadResponse::StatusLine),
            ("HTTP/1.1 200 OK\n", BadResponse::Field),
            ("HTTP/1.1 200 OK\r\nA: b\rc\r\n", BadResponse::Field),
            ("HTTP/1.1 200 OK\r\nA: b\r\n c\r\n", BadResponse::Field),
            ("HTTP/1.1 200 OK\r\nA : b\r\n", BadResponse::Field),
            ("HTTP/1.1 200 OK\r\nA\r\n", BadResponse::Field),
            ("HTTP/1.1 200 OK\r\nContent-Length: +1\r\n", BadResponse::Length),
            ("HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n", BadResponse::Length),
            ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n", BadResponse::Length),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
                BadResponse::Length,
            ),
            ("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", BadResponse::Length),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n", BadResponse::Chunks),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx", BadResponse::Chunks),
            ("HTTP/1.1 101 Switching\r\n\r\n", BadResponse::NotUpgraded),
            (&format!("HTTP/1.1 200 OK\r\n{long}"), BadResponse::TooLong),
        ] {
            let mut responses = Responses::default();
            responses.ask(Asked::default());
            assert_eq!(responses.read(text.as_bytes(), |_| ()), Err(why), "{text:?}");
        }
    }

    #[test]
    fn bytes_until_the_end_are_no_responses() {
        for text in [
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx",
            "HTTP/1.1 200 OK\r\nConnection: a, Close\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 101 Switching Protocols\r\n\r\n",
        ] {
            let mut responses = Responses::default();
            responses.ask(Asked { head: false, upgrades: true, ..Asked::default() });
            responses.read(text.as_bytes(), |_| ()).unwrap();
            assert!(responses.is_all(), "{text:?}");
            assert_eq!(responses.read(b"anything", |_| ()), Ok(()));
        }
    }
}
