//! One request and its response (RFC 9112), from the client's plain bytes to a backend
//! and back.
use splice::{Asked, Body, Chunked, Refusal, Request, Responses};

use crate::endpoint::Endpoint;
use crate::head::{self, Dress, Ending, MAX_HEAD};

/// What is to come of a request's body.
#[derive(Clone, Debug)]
enum Left {
    Bytes(u64),
    Chunked(Chunked),
}

/// How far a response is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Head,
    Body,
    /// Up to the end of the backend's stream.
    All,
    /// Another protocol, both ways.
    Tunnel,
    Done,
}

/// How an exchange goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing can be done before something else happens.
    Wait,
    /// Something was done.
    Moved,
    /// The response is whole.
    Done {
        /// Whether the client's connection goes on.
        keeps: bool,
        /// Whether the backend's connection does.
        reusable: bool,
    },
    /// The backend has ended, or cannot be read, before the client got anything.
    Failed,
    /// The connection can't go on in the middle of a request or a response.
    Broken,
    /// The client's body can't be read.
    Bad(Refusal),
}

/// A request on its way.
pub(crate) struct Exchange {
    /// The header for the backend, and how much of it was written.
    head: Vec<u8>,
    written: usize,
    left: Left,
    /// Whether bytes of the body were sent, which are not kept.
    sent_body: bool,
    keeps: bool,
    is_old: bool,
    responses: Responses,
    part: Part,
    /// The response's header, as far as it has come.
    gathered: Vec<u8>,
    /// What of it waits for the client.
    pending: Vec<u8>,
    /// Whether the client has got anything.
    answered: bool,
    /// Bytes of the request's body, and of the final response.
    bytes: [u64; 2],
    /// The status code of the final response, until somebody asks.
    status: Option<u16>,
    is_head: bool,
    upgrades: bool,
    /// Whether the response says which backend it comes from.
    sticks: bool,
}

/// The client's side, as an exchange needs it.
pub(crate) trait Client {
    /// What has been received.
    fn plain(&self) -> &[u8];
    /// Forgets the first `n` bytes of it.
    fn consume(&mut self, n: usize);
    /// Whether no more comes.
    fn has_ended(&self) -> bool;
    /// How many bytes may be written at once.
    fn room(&self) -> usize;
    /// Writes so many at most.
    fn write(&mut self, bytes: &[u8]) -> Option<()>;
}

impl Exchange {
    /// The exchange of `request`, whose header goes to the backend as `head`. With `sticks`
    /// the response says which backend it comes from.
    pub(crate) fn new(request: &Request<'_>, head: Vec<u8>, sticks: bool) -> Self {
        let left = match request.body {
            Body::Length(length) => Left::Bytes(length),
            Body::Chunked => Left::Chunked(Chunked::default()),
        };
        let mut exchange = Self {
            head,
            written: 0,
            left,
            sent_body: false,
            keeps: keeps(request),
            is_old: request.minor == 0,
            responses: Responses::default(),
            part: Part::Head,
            gathered: Vec::new(),
            pending: Vec::new(),
            answered: false,
            bytes: [0; 2],
            status: None,
            is_head: request.method == "HEAD",
            upgrades: request.upgrades,
            sticks,
        };
        exchange.repeat();
        exchange
    }

    /// Whether another backend may get the request, from its beginning.
    pub(crate) const fn is_repeatable(&self) -> bool {
        !self.answered && !self.sent_body
    }

    /// Bytes of the request's body so far, and of the final response as the backend has sent
    /// it.
    pub(crate) const fn bytes(&self) -> [u64; 2] {
        self.bytes
    }

    /// The status code of the final response, once, as soon as its header is whole.
    pub(crate) const fn take_status(&mut self) -> Option<u16> {
        self.status.take()
    }

    /// Begins again.
    pub(crate) fn repeat(&mut self) {
        (self.bytes, self.status) = ([0; 2], None);
        (self.written, self.part) = (0, Part::Head);
        self.gathered.clear();
        self.responses = Responses::default();
        let (head, upgrades) = (self.is_head, self.upgrades);
        self.responses.ask(Asked { head, upgrades, ..Asked::default() });
    }

    /// Moves what can be moved both ways.
    pub(crate) fn step(
        &mut self,
        client: &mut impl Client,
        backend: &mut impl Endpoint,
        dress: &Dress<'_>,
    ) -> Step {
        let sent = match self.send(client, backend) {
            Ok(sent) => sent,
            Err(_) if self.answered => return Step::Broken,
            Err(refusal) => return Step::Bad(refusal),
        };
        match self.receive(client, backend, dress) {
            Step::Wait if sent => Step::Moved,
            Step::Wait if client.has_ended() && client.plain().is_empty() && !self.is_sent() => {
                Step::Broken
            }
            step => step,
        }
    }

    /// Whether the request is whole.
    fn is_sent(&self) -> bool {
        match &self.left {
            Left::Bytes(left) => *left == 0,
            Left::Chunked(chunked) => chunked.is_done(),
        }
    }

    /// The request, as far as the backend takes it.
    fn send(
        &mut self,
        client: &mut impl Client,
        backend: &mut impl Endpoint,
    ) -> Result<bool, Refusal> {
        let rest = self.head.get(self.written..).unwrap_or_default();
        let written = backend.write(rest);
        self.written += written;
        if self.written < self.head.len() {
            return Ok(written > 0);
        }
        let (room, plain) = (backend.room(), client.plain());
        let plain = plain.get(..room.min(plain.len())).unwrap_or_default();
        let taken = match &mut self.left {
            _ if self.part == Part::Tunnel => plain.len(),
            Left::Bytes(left) => {
                let taken = (*left).min(plain.len() as u64);
                *left -= taken;
                taken as usize
            }
            Left::Chunked(chunked) => chunked.read(plain).map_err(|_| Refusal::Chunks)?,
        };
        if taken > 0 {
            backend.write(plain.get(..taken).unwrap_or_default());
            client.consume(taken);
            let [up, _] = &mut self.bytes;
            *up += taken as u64;
            self.sent_body = true;
        }
        if self.part == Part::Tunnel && client.has_ended() && client.plain().is_empty() {
            backend.close();
        }
        Ok(written + taken > 0)
    }

    /// The response, as far as the client takes it.
    fn receive(
        &mut self,
        client: &mut impl Client,
        backend: &mut impl Endpoint,
        dress: &Dress<'_>,
    ) -> Step {
        let mut moved = false;
        loop {
            let one = match self.part {
                _ if !self.pending.is_empty() => self.hand_on(client),
                Part::Done => {
                    let keeps = self.keeps && self.is_sent();
                    return Step::Done { keeps, reusable: keeps && self.responses.is_idle() };
                }
                Part::Head => self.header(backend, dress),
                Part::Body | Part::All | Part::Tunnel => self.body(client, backend),
            };
            match one {
                Step::Moved => moved = true,
                Step::Wait if moved => return Step::Moved,
                step => return step,
            }
        }
    }

    /// Writes what waits for the client.
    fn hand_on(&mut self, client: &mut impl Client) -> Step {
        let length = client.room().min(self.pending.len());
        if length == 0 {
            return Step::Wait;
        }
        if client.write(self.pending.get(..length).unwrap_or_default()).is_none() {
            return Step::Broken;
        }
        self.pending.drain(..length);
        self.answered = true;
        Step::Moved
    }

    /// Gathers a header of the backend's.
    fn header(&mut self, backend: &mut impl Endpoint, dress: &Dress<'_>) -> Step {
        let bytes = backend.readable();
        if bytes.is_empty() {
            return if backend.has_ended() { self.failure() } else { Step::Wait };
        }
        let (searched, length) = (self.gathered.len(), bytes.len());
        self.gathered.extend_from_slice(bytes);
        let Some(end) = head::end(&self.gathered, searched) else {
            backend.consume(length);
            return if self.gathered.len() > MAX_HEAD { self.failure() } else { Step::Moved };
        };
        backend.consume(end - searched);
        self.gathered.truncate(end);
        let head = std::mem::take(&mut self.gathered);
        if self.responses.read(&head, |_| ()).is_err() {
            return self.failure();
        }
        let status = head::status(&head);
        if status.is_some_and(|own| own == 101 || own >= 200) {
            self.status = status;
            let [_, down] = &mut self.bytes;
            *down = end as u64;
        }
        self.pending = match status {
            Some(101) => {
                (self.part, self.keeps) = (Part::Tunnel, false);
                head
            }
            Some(100..200) => head,
            _ => {
                let to_end = self.responses.is_all() && self.responses.waits();
                self.keeps &= !to_end;
                self.part = match self.is_whole() {
                    true => Part::Done,
                    false if to_end => Part::All,
                    false => Part::Body,
                };
                let ending = Ending { keeps: self.keeps, is_old: self.is_old };
                let cookie = dress.cookie.filter(|_| self.sticks);
                head::rewrite(&head, ending, &Dress { cookie, ..*dress })
            }
        };
        Step::Moved
    }

    fn failure(&self) -> Step {
        if self.answered { Step::Broken } else { Step::Failed }
    }

    /// Whether the response has its last byte.
    fn is_whole(&self) -> bool {
        self.responses.is_idle() || (self.responses.is_all() && !self.responses.waits())
    }

    /// Hands on what comes behind the header.
    fn body(&mut self, client: &mut impl Client, backend: &mut impl Endpoint) -> Step {
        let (ended, room, bytes) = (backend.has_ended(), client.room(), backend.readable());
        let bytes = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        if bytes.is_empty() {
            return match self.part {
                // A reset is no end: what has come may not be all.
                _ if !ended => Step::Wait,
                Part::All | Part::Tunnel if backend.is_reset() => Step::Broken,
                Part::All | Part::Tunnel => {
                    self.part = Part::Done;
                    Step::Moved
                }
                _ => Step::Broken,
            };
        }
        let length = bytes.len();
        if self.responses.read(bytes, |_| ()).is_err() || client.write(bytes).is_none() {
            return Step::Broken;
        }
        backend.consume(length);
        let [_, down] = &mut self.bytes;
        *down += length as u64;
        if matches!(self.part, Part::Body) && self.is_whole() {
            self.part = Part::Done;
        }
        Step::Moved
    }
}

/// Whether the client's connection may go on behind the response (RFC 9112 section 9.3).
fn keeps(request: &Request<'_>) -> bool {
    let lists = |token: &[u8]| {
        let mut all = request.values("connection").flat_map(|value| value.split(|b| *b == b','));
        all.any(|own| own.trim_ascii().eq_ignore_ascii_case(token))
    };
    !lists(b"close") && (request.minor == 1 || lists(b"keep-alive"))
}
