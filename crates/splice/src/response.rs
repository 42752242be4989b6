//! Where responses end: the backend's stream, read in order (RFC 9112 section 6.3).
//!
//! Nothing is kept but the present line, as far as it can matter, and the requests that
//! have no response yet.
mod fields;
#[cfg(test)]
mod tests;
mod waiting;

use arrayvec::ArrayVec;

use self::fields::Fields;
pub use self::waiting::MAX_WAITING;
use self::waiting::Waiting;
use crate::framing::Chunked;

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

impl Responses {
    /// Notes a request. `false`: too many wait already, and this one has to.
    pub fn ask(&mut self, asked: Asked) -> bool {
        if !self.waiting.push(asked) {
            return false;
        }
        self.asked = self.asked.wrapping_add(1);
        true
    }

    /// Whether no more requests can be noted.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.waiting.is_full()
    }

    /// Whether every request has its whole response.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.waiting.count() == 0 && self.state == State::StatusLine && self.header == 0
    }

    /// How many bytes of a body are still to be [gone over](Self::skip), if nothing else can
    /// come before another request.
    pub(crate) fn rest(&self) -> Option<u64> {
        match self.state {
            _ if self.waiting.count() > 0 => None,
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
        self.waiting.count() > 0
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
        if self.header == 0 && self.waiting.count() == 0 {
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
        let asked = self.waiting.first();
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
        self.waiting.pop();
    }
}
